/* compare.c: `henry run --compare DIR`: holds the tensors of a run against those that another run,
 * or PyTorch, has saved (manifest.json of the tensor debugger, or of tools/save_tensors.py), by the
 * name of the node whose value they are. */
#include "compare.h"

#include "base/file.h"
#include "base/json.h"
#include "base/map.h"
#include "base/npy.h"
#include "ir/interp.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>

/* A tensor of the other run. */
typedef struct saved {
    hn_str node, file;
    int64_t call;
    uint32_t times; /* tensors of the node in that call */
    bool is_whole;  /* the node's value, as of PyTorch; else perhaps a part of it */
    hn_scalar_type type;
} saved;

/* What was compared: one node. */
typedef struct row {
    const saved *other;
    hn_scalar_type type;
    uint32_t step;
    const char *kernel; /* the module's */
    tool_difference d;
    int64_t count; /* elements */
    double scale;  /* of the other tensor: its largest finite magnitude */
} row;

struct tool_compare {
    const char *dir;
    double rtol, atol; /* negative: by type */
    hn_arena arena;
    hn_strmap by_node; /* to an index into `saved` */
    struct {
        saved *items;
        uint32_t count, cap;
    } saved;
    row **rows;      /* per item of `saved`; NULL: not compared */
    uint32_t *times; /* likewise: tensors of the node in this run */
    row **order;
    uint32_t row_count, bad_count;
    int64_t first_bad, worst; /* in `order`; -1: none */
};

/* ---- the manifest ---- */

static hn_scalar_type type_of(hn_str name) {
    for (int t = 1; t < HN_SCALAR_TYPE_COUNT; t++)
        if (hn_str_eq(name, hn_str_of(hn_scalar_type_name((hn_scalar_type)t))))
            return (hn_scalar_type)t;
    return HN_NO_TYPE;
}

typedef struct entry {
    saved tensor;
    hn_str when;
    bool is_complete;
} entry;

static hn_status read_entry(hn_json *json, entry *out) {
    hn_str dtype = HN_STR(""), operand = HN_STR("");
    *out = (entry){.is_complete = true};
    HN_TRY(hn_json_object(json));
    for (hn_str key; hn_json_key(json, &key);) {
        if (hn_str_eq(key, HN_STR("node"))) HN_TRY(hn_json_string(json, &out->tensor.node));
        else if (hn_str_eq(key, HN_STR("file"))) HN_TRY(hn_json_string(json, &out->tensor.file));
        else if (hn_str_eq(key, HN_STR("dtype"))) HN_TRY(hn_json_string(json, &dtype));
        else if (hn_str_eq(key, HN_STR("operand"))) HN_TRY(hn_json_string(json, &operand));
        else if (hn_str_eq(key, HN_STR("call"))) HN_TRY(hn_json_int(json, &out->tensor.call));
        else if (hn_str_eq(key, HN_STR("when"))) HN_TRY(hn_json_string(json, &out->when));
        else if (hn_str_eq(key, HN_STR("complete"))) HN_TRY(hn_json_bool(json, &out->is_complete));
        else HN_TRY(hn_json_skip(json));
    }
    out->tensor.type = type_of(dtype);
    out->tensor.is_whole = !operand.len; /* a kernel has operands */
    return hn_json_status(json);
}

/* A file of the folder, and of no other place. */
static bool is_plain(hn_str file) {
    return file.len && !memchr(file.ptr, '/', file.len) && !memchr(file.ptr, 0, file.len);
}

/* Of several runs the first one counts. Of several tensors of one node in it the last one does,
 * as in the run that is compared: a decomposition leaves parts that have the node's name
 * (is_known). */
static hn_status keep_entry(tool_compare *c, const entry *e) {
    if (!e->tensor.node.len || !hn_str_eq(e->when, HN_STR("after")) || !e->is_complete) return NULL;
    if (!is_plain(e->tensor.file))
        return HN_ERROR(HN_CORRUPT, "the file of node '" HN_STR_FMT "' is not in the folder",
                        HN_STR_ARG(e->tensor.node));
    const uint64_t *index = hn_strmap_get(&c->by_node, e->tensor.node);
    if (index) {
        saved *earlier = &c->saved.items[*index];
        const uint32_t times = earlier->times + 1;
        if (earlier->call != e->tensor.call) return NULL;
        *earlier = e->tensor;
        earlier->times = times;
        return NULL;
    }
    HN_TRY(hn_strmap_put(&c->by_node, e->tensor.node, c->saved.count));
    HN_PUSH(&c->arena, &c->saved, e->tensor);
    c->saved.items[c->saved.count - 1].times = 1;
    return NULL;
}

static hn_status read_tensors(tool_compare *c, hn_json *json) {
    entry e;
    HN_TRY(hn_json_array(json));
    while (hn_json_item(json)) {
        HN_TRY(read_entry(json, &e));
        HN_TRY(keep_entry(c, &e));
    }
    return hn_json_status(json);
}

static hn_status parse_manifest(tool_compare *c, hn_str text) {
    hn_json json;
    hn_str format = HN_STR("");
    int64_t version = 0;
    hn_json_init(&json, &c->arena, text);
    HN_TRY(hn_json_object(&json));
    for (hn_str key; hn_json_key(&json, &key);) {
        if (hn_str_eq(key, HN_STR("format"))) HN_TRY(hn_json_string(&json, &format));
        else if (hn_str_eq(key, HN_STR("version"))) HN_TRY(hn_json_int(&json, &version));
        else if (hn_str_eq(key, HN_STR("tensors"))) HN_TRY(read_tensors(c, &json));
        else HN_TRY(hn_json_skip(&json));
    }
    HN_TRY(hn_json_finish(&json));
    if (hn_str_eq(format, HN_STR("henry tensors")) && version == 1) return NULL;
    return HN_ERROR(HN_INCOMPATIBLE,
                    "is no manifest of saved tensors that this version reads; save them again");
}

static hn_status read_manifest(tool_compare *c) {
    char path[PATH_MAX];
    hn_strbuf text;
    hn_strbuf_init(&text);
    snprintf(path, sizeof path, "%s/manifest.json", c->dir);
    hn_status status = hn_file_read(path, &text);
    if (!status) {
        /* names stay in the text */
        char *own = hn_arena_strndup(&c->arena, text.ptr ? text.ptr : "", text.len);
        status = own ? parse_manifest(c, (hn_str){own, text.len})
                     : HN_ERROR(HN_OUT_OF_MEMORY, "out of memory");
        status = hn_status_annotate(status, "'%s'", path);
    }
    hn_strbuf_deinit(&text);
    return status;
}

/* ---- one tensor ---- */

/* How far two runs that are both right may be apart, relative to the largest number of the tensor:
 * their sums have other orders, and errors grow from layer to layer. */
static double tolerance_of(hn_scalar_type a, hn_scalar_type b) {
    static const double by_type[HN_SCALAR_TYPE_COUNT] = {
        [HN_F64] = 1e-12, [HN_F32] = 3e-5, [HN_F16] = 1.6e-2, [HN_BF16] = 3e-2};
    return fmax(by_type[a], by_type[b]);
}

static hn_status load_own(hn_arena *arena, const hn_step_info *step, uint32_t k,
                          const hn_step_operand *o, hn_ref_tensor *out) {
    void *bytes = malloc((size_t)o->bytes + 1);
    if (!bytes)
        return HN_ERROR(HN_OUT_OF_MEMORY, "out of memory for %lld bytes", (long long)o->bytes);
    hn_status status = o->bytes ? hn_step_operand_read(step, k, bytes, (size_t)o->bytes) : NULL;
    if (!status)
        status =
            hn_ref_tensor_load(arena, (hn_dtype)o->type, o->rank, o->sizes, o->strides, bytes, out);
    free(bytes);
    return status;
}

static hn_status load_other(hn_arena *arena, const tool_compare *c, const saved *other,
                            hn_ref_tensor *out) {
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/" HN_STR_FMT, c->dir, HN_STR_ARG(other->file));
    return tool_npy_load(arena, path, out);
}

static double at(const hn_ref_tensor *t, int64_t k) {
    return hn_dtype_is_float(t->dtype) ? t->data.f[k] : (double)t->data.i[k];
}

static void compare_values(const tool_compare *c, const hn_ref_tensor *got,
                           const hn_ref_tensor *want, row *r) {
    tool_difference *d = &r->d;
    r->count = got->numel;
    for (int64_t k = 0; k < want->numel; k++)
        if (isfinite(at(want, k))) r->scale = fmax(r->scale, fabs(at(want, k)));
    const double tolerance = tolerance_of(r->type, r->other->type);
    d->rtol = c->rtol < 0 ? tolerance : c->rtol;
    d->atol = c->atol < 0 ? (c->rtol < 0 ? tolerance * r->scale : 0) : c->atol;
    const bool are_whole = !hn_dtype_is_float(got->dtype) && !hn_dtype_is_float(want->dtype);
    for (int64_t k = 0; k < got->numel; k++) {
        const double g = at(got, k), w = at(want, k);
        /* 64-bit integers differ also where doubles cannot tell */
        const bool differs = are_whole && got->data.i[k] != want->data.i[k];
        tool_difference_add(d, differs && g == w ? nextafter(w, INFINITY) : g, w, k);
    }
    d->same = d->count == 0;
}

static double relative(const row *r) {
    return r->d.abs == 0 ? 0 : r->scale > 0 ? r->d.abs / r->scale : INFINITY;
}

static hn_status compare_operand(tool_compare *c, const hn_step_info *step, uint32_t k,
                                 const hn_step_operand *o, uint32_t index) {
    hn_arena arena;
    hn_ref_tensor got, want;
    row *r;
    hn_arena_init(&arena);
    c->rows[index] = NULL; /* of an earlier tensor: a part of this value */
    c->times[index]++;
    hn_status status = load_other(&arena, c, &c->saved.items[index], &want);
    if (!status) status = load_own(&arena, step, k, o, &got);
    /* another size: the value is in another form, in which it cannot be compared */
    if (!status && got.numel == want.numel) {
        r = hn_arena_alloc(&c->arena, sizeof *r);
        if (r) {
            *r = (row){.other = &c->saved.items[index],
                       .type = o->type,
                       .step = step->index,
                       .kernel = step->name};
            compare_values(c, &got, &want, r);
            c->rows[index] = r;
        } else {
            status = HN_ERROR(HN_OUT_OF_MEMORY, "out of memory");
        }
    }
    hn_arena_deinit(&arena);
    return status;
}

/* Of several steps that write the value of a node the last one counts. */
static hn_status after(void *user, const hn_step_info *step, uint64_t *note) {
    tool_compare *c = user;
    (void)note;
    if (step->has_failed || step->call != 1) return NULL;
    for (uint32_t k = 0; k < step->operand_count; k++) {
        hn_step_operand o;
        HN_TRY(hn_step_operand_get(step, k, &o));
        if (!o.buffer || !o.is_written || o.is_partial || !o.has_shape || !*o.node) continue;
        const uint64_t *index = hn_strmap_get(&c->by_node, hn_str_of(o.node));
        if (index) HN_TRY(compare_operand(c, step, k, &o, (uint32_t)*index));
    }
    return NULL;
}

/* ---- all ---- */

static hn_status init(tool_compare *c, hn_module *module) {
    c->rows = hn_arena_alloc(&c->arena, (c->saved.count + 1) * sizeof(row *));
    c->order = hn_arena_alloc(&c->arena, (c->saved.count + 1) * sizeof(row *));
    c->times = hn_arena_alloc(&c->arena, (c->saved.count + 1) * sizeof *c->times);
    if (!c->rows || !c->order || !c->times) return HN_ERROR(HN_OUT_OF_MEMORY, "out of memory");
    return hn_module_hook_add(module, &(hn_step_hook){NULL, after, c});
}

hn_status tool_compare_open(const tool_options *options, tool_compare **out) {
    tool_compare *c = calloc(1, sizeof *c);
    if (!c) return HN_ERROR(HN_OUT_OF_MEMORY, "out of memory");
    *c = (tool_compare){.dir = options->compare,
                        .rtol = options->rtol,
                        .atol = options->atol,
                        .first_bad = -1,
                        .worst = -1};
    hn_arena_init(&c->arena);
    hn_strmap_init(&c->by_node, &c->arena);
    hn_status status = read_manifest(c);
    if (status) tool_compare_destroy(c);
    else *out = c;
    return status;
}

hn_status tool_compare_begin(const tool_options *options, hn_module *module, tool_compare **out) {
    tool_compare *c;
    HN_TRY(tool_compare_open(options, &c));
    hn_status status = init(c, module);
    if (status) tool_compare_destroy(c);
    else *out = c;
    return status;
}

hn_status tool_compare_find(const tool_compare *c, hn_str node, hn_arena *arena, hn_ref_tensor *out,
                            bool *out_found) {
    const uint64_t *index = hn_strmap_get(&c->by_node, node);
    *out_found = index != NULL;
    return index ? load_other(arena, c, &c->saved.items[*index], out) : NULL;
}

void tool_compare_destroy(tool_compare *c) {
    if (!c) return;
    hn_arena_deinit(&c->arena);
    free(c);
}

static int by_step(const void *a, const void *b) {
    const row *x = *(row *const *)a, *y = *(row *const *)b;
    if (x->step != y->step) return x->step < y->step ? -1 : 1;
    return x->other < y->other ? -1 : x->other > y->other;
}

/* Other kernels may leave other parts of a decomposed node: with another number of them it is not
 * known which the last one is. */
static bool is_known(const tool_compare *c, uint32_t k) {
    const saved *s = &c->saved.items[k];
    return c->rows[k] && (s->is_whole || s->times == c->times[k]);
}

hn_status tool_compare_end(tool_compare *c) {
    for (uint32_t k = 0; k < c->saved.count; k++)
        if (is_known(c, k)) c->order[c->row_count++] = c->rows[k];
    qsort(c->order, c->row_count, sizeof *c->order, by_step);
    for (uint32_t k = 0; k < c->row_count; k++) {
        const row *r = c->order[k];
        if (c->worst < 0 || relative(r) > relative(c->order[c->worst])) c->worst = k;
        if (r->d.same) continue;
        if (c->bad_count++ == 0) c->first_bad = k;
    }
    if (c->row_count) return NULL;
    return HN_ERROR(
        HN_INVALID_ARGUMENT,
        "'%s' has %u nodes, none of them a result of this program; was it saved from the same model?",
        c->dir, c->saved.count);
}

hn_status tool_compare_status(const tool_compare *c) {
    if (c->first_bad < 0) return NULL;
    const row *r = c->order[c->first_bad];
    return HN_ERROR(
        HN_INVALID_ARGUMENT,
        "node '" HN_STR_FMT
        "' ('%s', step %u) differs from '%s': %lld of %lld elements beyond rtol %g, atol %g; "
        "element %lld is %.9g, expected %.9g; %u of %u nodes differ",
        HN_STR_ARG(r->other->node), r->kernel, r->step, c->dir, (long long)r->d.count,
        (long long)r->count, r->d.rtol, r->d.atol, (long long)r->d.first, r->d.got, r->d.want,
        c->bad_count, c->row_count);
}

void tool_compare_print(const tool_compare *c, hn_strbuf *out) {
    hn_strbuf_printf(out, "%u of %u nodes of '%s' are results of this program\n", c->row_count,
                     c->saved.count, c->dir);
    hn_strbuf_printf(out, "   %10s %10s %10s %6s  node (kernel)\n", "largest", "relative", "beyond",
                     "step");
    for (uint32_t k = 0; k < c->row_count; k++) {
        const row *r = c->order[k];
        hn_strbuf_printf(out, "%c  %10.3g %10.3g %10lld %6u  " HN_STR_FMT " (%s)%s%s\n",
                         r->d.same ? ' ' : '*', r->d.abs, relative(r), (long long)r->d.count,
                         r->step, HN_STR_ARG(r->other->node), r->kernel,
                         k == c->first_bad ? "  <- the first that differs" : "",
                         k == c->worst && r->d.abs > 0 ? "  <- the worst" : "");
    }
}

void tool_compare_json(const tool_compare *c, tool_json *json) {
    tool_json_open(json, "compare", '{');
    tool_json_str(json, "folder", c->dir);
    tool_json_int(json, "saved", c->saved.count);
    tool_json_int(json, "compared", c->row_count);
    tool_json_int(json, "differ", c->bad_count);
    tool_json_open(json, "nodes", '[');
    for (uint32_t k = 0; k < c->row_count; k++) {
        const row *r = c->order[k];
        tool_json_open(json, NULL, '{');
        tool_json_text(json, "node", r->other->node);
        tool_json_str(json, "kernel", r->kernel);
        tool_json_int(json, "step", r->step);
        tool_json_bool(json, "same", r->d.same);
        tool_json_num(json, "max_abs", r->d.abs);
        tool_json_num(json, "max_rel", relative(r));
        tool_json_int(json, "beyond", r->d.count);
        tool_json_close(json);
    }
    tool_json_close(json);
    tool_json_close(json);
}
