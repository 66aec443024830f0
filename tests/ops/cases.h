/* cases.h: reads the files of tests/ops/cases (tools/make_op_cases.py has the format), makes a
 * graph of the one ATen node of a case, decomposes it, has an executor run the primitives and
 * compares with what PyTorch answered. Everything is static: a test program includes this once. */
#ifndef HN_TESTS_OPS_CASES_H
#define HN_TESTS_OPS_CASES_H

#include "base/compiler.h"
#include "base/file.h"
#include "base/json.h"
#include "ir/interp.h"
#include "opt/pass.h"

#include <dirent.h>
#include <stdlib.h>

#define CASE_MAX_TENSORS 32

typedef struct case_tensor {
    hn_ref_tensor ref;
    bool has_strides, has_values;
    /* bits: dimensions whose size only the data tells; the case's one symbol u0 */
    uint32_t data_dims;
    int64_t strides[HN_MAX_RANK];
} case_tensor;

typedef struct op_case {
    hn_op op;
    hn_str op_name;
    case_tensor inputs[CASE_MAX_TENSORS], outputs[CASE_MAX_TENSORS];
    uint32_t input_count, output_count;
    hn_json args;      /* a mark at the argument array: read when the graph exists */
    double rtol, atol; /* negative: the dtype's */
} op_case;

/* Runs a graph of primitives as hn_interpret does, which is one of them. */
typedef hn_status (*case_executor)(void *user, hn_arena *arena, hn_graph *graph,
                                   const hn_ref_tensor *inputs, uint32_t input_count,
                                   hn_ref_tensor *out_outputs);

HN_UNUSED static hn_status case_interpret(void *user, hn_arena *arena, hn_graph *graph,
                                          const hn_ref_tensor *inputs, uint32_t input_count,
                                          hn_ref_tensor *out_outputs) {
    (void)user;
    return hn_interpret(arena, graph, inputs, input_count, out_outputs);
}

/* --- reading --- */

static hn_status case_read_ints(hn_json *json, int64_t *out, uint32_t cap, uint32_t *out_count) {
    *out_count = 0;
    HN_TRY(hn_json_array(json));
    while (hn_json_item(json)) {
        if (*out_count == cap) return HN_ERROR(HN_INVALID_ARGUMENT, "a list is too long");
        bool flag = false;
        if (hn_json_peek(json) == HN_JSON_BOOL) {
            HN_TRY(hn_json_bool(json, &flag));
            out[(*out_count)++] = flag;
        } else {
            HN_TRY(hn_json_int(json, &out[(*out_count)++]));
        }
    }
    return hn_json_status(json);
}

static double case_round(hn_dtype dtype, double f) {
    if (dtype == HN_DTYPE_F16) return (double)hn_f16_to_f32(hn_f64_to_f16(f));
    if (dtype == HN_DTYPE_BF16) return (double)hn_bf16_to_f32(hn_f64_to_bf16(f));
    return dtype == HN_DTYPE_F32 ? (double)(float)f : f;
}

static hn_status case_read_values(hn_json *json, hn_ref_tensor *t) {
    int64_t k = 0;
    HN_TRY(hn_json_array(json));
    while (hn_json_item(json)) {
        if (k == t->numel) return HN_ERROR(HN_INVALID_ARGUMENT, "more values than elements");
        double f = 0;
        if (hn_dtype_is_float(t->dtype)) {
            HN_TRY(hn_json_float(json, &f));
            /* the text has the fewest digits that round right */
            t->data.f[k] = case_round(t->dtype, f);
        } else {
            HN_TRY(hn_json_int(json, &t->data.i[k]));
        }
        k++;
    }
    HN_TRY(hn_json_status(json));
    return k == t->numel ? NULL : HN_ERROR(HN_INVALID_ARGUMENT, "fewer values than elements");
}

/* How many items the array has that comes next. */
static hn_status case_count_items(hn_json json, int64_t *out) {
    *out = 0;
    HN_TRY(hn_json_array(&json));
    while (hn_json_item(&json)) {
        HN_TRY(hn_json_skip(&json));
        (*out)++;
    }
    return hn_json_status(&json);
}

/* Short numbers of both signs: Cases.ramp of tools/make_op_cases.py. */
static void case_fill_ramp(hn_ref_tensor *t, int64_t seed) {
    for (int64_t k = 0; k < t->numel && hn_dtype_is_float(t->dtype); k++)
        t->data.f[k] = case_round(t->dtype, -4 + 0.375 * (double)((7 * k + seed) % 23));
}

/* {"d": dtype, "s": sizes?, "st": strides?, "u": data-dependent dimensions?, "v": values? or "r":
 * ramp seed}, in this order; no sizes: a vector */
static hn_status case_read_tensor(hn_json *json, hn_arena *arena, case_tensor *out) {
    hn_dtype dtype = HN_DTYPE_NONE;
    hn_str key, text;
    bool has_sizes = false;
    *out = (case_tensor){0};
    HN_TRY(hn_json_object(json));
    while (hn_json_key(json, &key)) {
        uint32_t rank = 0;
        if (hn_str_eq(key, HN_STR("d"))) {
            HN_TRY(hn_json_string(json, &text));
            dtype = hn_dtype_parse(text);
        } else if (hn_str_eq(key, HN_STR("s"))) {
            int64_t sizes[HN_MAX_RANK];
            has_sizes = true;
            HN_TRY(case_read_ints(json, sizes, HN_MAX_RANK, &rank));
            HN_TRY(hn_ref_tensor_init(arena, dtype, rank, sizes, &out->ref));
        } else if (hn_str_eq(key, HN_STR("st"))) {
            out->has_strides = true;
            HN_TRY(case_read_ints(json, out->strides, HN_MAX_RANK, &rank));
        } else if (hn_str_eq(key, HN_STR("u"))) {
            int64_t dims[HN_MAX_RANK];
            HN_TRY(case_read_ints(json, dims, HN_MAX_RANK, &rank));
            for (uint32_t k = 0; k < rank; k++) out->data_dims |= 1u << (dims[k] & 15);
        } else if (hn_str_eq(key, HN_STR("r"))) {
            int64_t seed;
            HN_TRY(hn_json_int(json, &seed));
            if (seed < 0 || seed > 22)
                return HN_ERROR(HN_INVALID_ARGUMENT, "a ramp's seed is not 0 to 22");
            case_fill_ramp(&out->ref, seed);
        } else {
            int64_t count;
            out->has_values = true;
            HN_TRY(case_count_items(*json, &count));
            if (!has_sizes) HN_TRY(hn_ref_tensor_init(arena, dtype, 1, &count, &out->ref));
            HN_TRY(case_read_values(json, &out->ref));
        }
    }
    return hn_json_status(json);
}

static hn_status case_read_tensors(hn_json *json, hn_arena *arena, case_tensor *out,
                                   uint32_t *out_count) {
    *out_count = 0;
    HN_TRY(hn_json_array(json));
    while (hn_json_item(json)) {
        if (*out_count == CASE_MAX_TENSORS)
            return HN_ERROR(HN_INVALID_ARGUMENT, "too many tensors");
        HN_TRY(case_read_tensor(json, arena, &out[(*out_count)++]));
    }
    return hn_json_status(json);
}

static hn_status case_read_field(hn_json *json, hn_arena *arena, hn_str key, op_case *out) {
    if (hn_str_eq(key, HN_STR("in")))
        return case_read_tensors(json, arena, out->inputs, &out->input_count);
    if (hn_str_eq(key, HN_STR("out")))
        return case_read_tensors(json, arena, out->outputs, &out->output_count);
    if (hn_str_eq(key, HN_STR("rtol"))) return hn_json_float(json, &out->rtol);
    if (hn_str_eq(key, HN_STR("atol"))) return hn_json_float(json, &out->atol);
    if (hn_str_eq(key, HN_STR("args"))) {
        out->args = *json;
        return hn_json_skip(json);
    }
    if (!hn_str_eq(key, HN_STR("op")))
        return HN_ERROR(HN_INVALID_ARGUMENT, "unknown key '" HN_STR_FMT "'", HN_STR_ARG(key));
    HN_TRY(hn_json_string(json, &out->op_name));
    out->op = hn_op_find(out->op_name);
    if (out->op) return NULL;
    return HN_ERROR(HN_INVALID_ARGUMENT, "unknown operator '" HN_STR_FMT "'",
                    HN_STR_ARG(out->op_name));
}

static hn_status case_read(hn_arena *arena, hn_str line, op_case *out) {
    hn_json json;
    hn_str key;
    *out = (op_case){.rtol = -1, .atol = -1};
    hn_json_init(&json, arena, line);
    HN_TRY(hn_json_object(&json));
    while (hn_json_key(&json, &key)) HN_TRY(case_read_field(&json, arena, key, out));
    return hn_json_finish(&json);
}

/* --- the graph --- */

static hn_value case_add_tensor(hn_graph *g, const case_tensor *t, hn_str name) {
    hn_expr sizes[HN_MAX_RANK], strides[HN_MAX_RANK];
    for (uint32_t k = 0; k < t->ref.rank; k++) {
        sizes[k] = hn_sym_int(g->sym, t->ref.sizes[k]);
        if (t->data_dims >> k & 1)
            sizes[k] = hn_sym_symbol(g->sym, HN_STR("u0"), HN_SYMBOL_DATA, 0, HN_SYM_MAX);
        strides[k] = hn_sym_int(g->sym, t->strides[k]);
    }
    return hn_graph_add_tensor(g, t->ref.dtype, t->ref.rank, sizes, t->has_strides ? strides : NULL,
                               name);
}

typedef struct case_builder {
    hn_graph *g;
    hn_arena *arena;
    hn_value inputs[CASE_MAX_TENSORS];
    uint32_t input_count;
} case_builder;

static hn_status case_input(const case_builder *b, int64_t k, hn_value *out) {
    if (k < 0 || k >= b->input_count)
        return HN_ERROR(HN_INVALID_ARGUMENT, "no input %lld", (long long)k);
    *out = b->inputs[k];
    return NULL;
}

/* {"t": 0}, {"ts": [0, null]}, {"d": "f32"} or {"f": "Infinity"} */
static hn_status case_object_arg(const case_builder *b, hn_json *json, hn_arg *out) {
    hn_str key, text;
    HN_TRY(hn_json_object(json));
    while (hn_json_key(json, &key)) {
        if (hn_str_eq(key, HN_STR("t"))) {
            int64_t k;
            out->kind = HN_ARG_VALUE;
            HN_TRY(hn_json_int(json, &k));
            HN_TRY(case_input(b, k, &out->as.value));
        } else if (hn_str_eq(key, HN_STR("d"))) {
            HN_TRY(hn_json_string(json, &text));
            *out = hn_arg_dtype(hn_dtype_parse(text));
        } else {
            hn_value *values;
            uint32_t count = 0;
            HN_NEW(b->arena, values, CASE_MAX_TENSORS);
            HN_TRY(hn_json_array(json));
            while (hn_json_item(json) && count < CASE_MAX_TENSORS) {
                int64_t k;
                if (!hn_json_null(json)) {
                    HN_TRY(hn_json_int(json, &k));
                    HN_TRY(case_input(b, k, &values[count]));
                }
                count++;
            }
            *out = hn_arg_values(values, count);
        }
    }
    return hn_json_status(json);
}

static hn_status case_list_arg(const case_builder *b, const hn_param *param, hn_json *json,
                               hn_arg *out) {
    if (param->kind == HN_PARAM_FLOATS) {
        double *floats;
        uint32_t count = 0;
        HN_NEW(b->arena, floats, HN_MAX_RANK);
        HN_TRY(hn_json_array(json));
        while (hn_json_item(json) && count < HN_MAX_RANK)
            HN_TRY(hn_json_float(json, &floats[count++]));
        *out = hn_arg_floats(floats, count);
        return hn_json_status(json);
    }
    int64_t ints[HN_MAX_RANK];
    hn_expr *exprs;
    uint32_t count;
    HN_NEW(b->arena, exprs, HN_MAX_RANK);
    HN_TRY(case_read_ints(json, ints, HN_MAX_RANK, &count));
    for (uint32_t k = 0; k < count; k++) exprs[k] = hn_sym_int(b->g->sym, ints[k]);
    *out = param->kind == HN_PARAM_TENSORS ? hn_arg_values(NULL, 0) : hn_arg_exprs(exprs, count);
    return NULL;
}

static hn_status case_number_arg(const case_builder *b, const hn_param *param, hn_json *json,
                                 hn_arg *out) {
    hn_json mark = *json;
    int64_t i;
    hn_status not_int = param->kind == HN_PARAM_FLOAT ? HN_ERROR(HN_INVALID_ARGUMENT, "a float")
                                                      : hn_json_int(json, &i);
    if (not_int) {
        hn_status_free(not_int);
        *json = mark;
        out->kind = HN_ARG_FLOAT;
        return hn_json_float(json, &out->as.f);
    }
    *out = hn_arg_expr(hn_sym_int(b->g->sym, i));
    if (param->kind != HN_PARAM_INTS) return NULL;
    uint32_t count = param->list_size ? param->list_size : 1;
    hn_expr *exprs;
    HN_NEW(b->arena, exprs, count);
    for (uint32_t k = 0; k < count; k++) exprs[k] = out->as.expr;
    *out = hn_arg_exprs(exprs, count);
    return NULL;
}

static hn_status case_arg(const case_builder *b, const hn_param *param, hn_json *json,
                          hn_arg *out) {
    *out = hn_arg_none();
    switch (hn_json_peek(json)) {
    case HN_JSON_OBJECT: return case_object_arg(b, json, out);
    case HN_JSON_ARRAY: return case_list_arg(b, param, json, out);
    case HN_JSON_STRING: out->kind = HN_ARG_STRING; return hn_json_string(json, &out->as.s);
    case HN_JSON_BOOL: out->kind = HN_ARG_BOOL; return hn_json_bool(json, &out->as.b);
    case HN_JSON_NUMBER: return case_number_arg(b, param, json, out);
    case HN_JSON_NULL:
    case HN_JSON_END:
    default: return hn_json_skip(json);
    }
}

static hn_status case_args(const case_builder *b, op_case *c, hn_arg *args, uint32_t *out_count) {
    uint32_t param_count, count = 0;
    const hn_param *params = hn_op_params(c->op, &param_count);
    HN_TRY(hn_json_array(&c->args));
    while (hn_json_item(&c->args)) {
        if (count == param_count)
            return HN_ERROR(HN_INVALID_ARGUMENT, "more arguments than the schema has");
        HN_TRY(case_arg(b, &params[count], &c->args, &args[count]));
        count++;
    }
    HN_TRY(hn_json_status(&c->args));
    *out_count = count;
    return count == param_count
               ? NULL
               : HN_ERROR(HN_INVALID_ARGUMENT, "fewer arguments than the schema has");
}

static hn_status case_graph(hn_arena *arena, op_case *c, hn_graph **out) {
    hn_sym *sym;
    HN_TRY(hn_sym_create(arena, &sym));
    HN_TRY(hn_graph_create(arena, sym, out));
    case_builder b = {.g = *out, .arena = arena, .input_count = c->input_count};
    for (uint32_t k = 0; k < c->input_count; k++) {
        hn_str name = hn_str_of(hn_arena_printf(arena, "x%u", k));
        b.inputs[k] = case_add_tensor(b.g, &c->inputs[k], name);
        HN_TRY(hn_graph_add_input(
            b.g, (hn_input){.kind = HN_INPUT_USER, .value = b.inputs[k], .name = name}));
    }
    hn_arg args[24];
    hn_value results[CASE_MAX_TENSORS];
    uint32_t arg_count = 0;
    HN_TRY(case_args(&b, c, args, &arg_count));
    for (uint32_t k = 0; k < c->output_count; k++)
        results[k] =
            case_add_tensor(b.g, &c->outputs[k], hn_str_of(hn_arena_printf(arena, "y%u", k)));
    b.g->current_origin = hn_graph_add_origin(b.g, (hn_origin){.node = HN_STR("case")});
    hn_graph_add_node(b.g, c->op, args, arg_count, results, c->output_count);
    for (uint32_t k = 0; k < c->output_count; k++)
        HN_TRY(hn_graph_add_output(b.g, (hn_output){.kind = HN_OUTPUT_USER, .value = results[k]}));
    return hn_graph_status(b.g);
}

/* --- running --- */

/* Of the target, which has some ops in one piece; NULL: all are taken apart. */
static const hn_operations *case_operations;

static hn_status case_decompose(hn_arena *arena, hn_graph *g) {
    hn_pass_context context = {.scratch = arena, .operations = case_operations};
    HN_TRY(hn_pass_decompose(g, &context));
    return hn_graph_verify(g, HN_LEGAL_PRIMITIVE);
}

static bool case_same_sizes(const hn_ref_tensor *a, const hn_ref_tensor *b) {
    return a->dtype == b->dtype && a->rank == b->rank &&
           memcmp(a->sizes, b->sizes, a->rank * sizeof *a->sizes) == 0;
}

static hn_status case_check(const op_case *c, const hn_ref_tensor *actual) {
    for (uint32_t k = 0; k < c->output_count; k++) {
        const case_tensor *want = &c->outputs[k];
        const hn_dtype_info *facts = hn_dtype_facts(want->ref.dtype);
        hn_strbuf why;
        hn_strbuf_init(&why);
        bool ok = want->has_values
                      ? hn_ref_compare(&actual[k], &want->ref, c->rtol < 0 ? facts->rtol : c->rtol,
                                       c->atol < 0 ? facts->atol : c->atol, &why)
                      : case_same_sizes(&actual[k], &want->ref);
        hn_status status = ok ? NULL
                              : HN_ERROR(HN_INTERNAL, "result %u: " HN_STR_FMT, k,
                                         HN_STR_ARG(hn_strbuf_str(&why)));
        hn_strbuf_deinit(&why);
        if (status) return status;
    }
    return NULL;
}

/* Runs the case of one line. `out_text` (may be NULL) receives the graph of primitives. */
static hn_status case_run(hn_arena *arena, hn_str line, case_executor execute, void *user,
                          hn_strbuf *out_text) {
    op_case *c;
    hn_graph *g = NULL;
    HN_NEW(arena, c, 1);
    HN_TRY(case_read(arena, line, c));
    hn_status status = case_graph(arena, c, &g);
    if (!status) status = case_decompose(arena, g);
    if (g && out_text) hn_graph_print(g, out_text);
    hn_ref_tensor inputs[CASE_MAX_TENSORS], outputs[CASE_MAX_TENSORS] = {{0}};
    for (uint32_t k = 0; k < c->input_count; k++) inputs[k] = c->inputs[k].ref;
    if (!status) status = execute(user, arena, g, inputs, c->input_count, outputs);
    if (!status) status = case_check(c, outputs);
    if (g) hn_graph_deinit(g);
    return hn_status_annotate(status, HN_STR_FMT, HN_STR_ARG(c->op_name));
}

/* Counts, and which lines to run: those whose number leaves `part` divided by `parts` (0: all). */
typedef struct case_totals {
    uint32_t passed, failed, unsupported;
    uint32_t part, parts;
    /* Of programs that have more to do with a case; either may be NULL. `begin` says whether to run
     * it, `end` is told what came of it. */
    bool (*begin)(struct case_totals *totals, const char *path, uint32_t number);
    void (*end)(struct case_totals *totals, hn_status outcome);
} case_totals;

static void case_count(case_totals *io, hn_status outcome) {
    if (!outcome) io->passed++;
    else if (hn_status_code(outcome) == HN_UNSUPPORTED) io->unsupported++;
    else io->failed++;
    if (io->end) io->end(io, outcome);
}

/* Runs the lines of a file, or the one line `only` (1-based; 0: all). Failures go to stderr as
 * "file:line: message". */
static hn_status case_run_file(const char *path, uint32_t only, case_executor execute, void *user,
                               bool print, case_totals *io) {
    hn_strbuf text;
    hn_strbuf_init(&text);
    hn_status status = hn_file_read(path, &text);
    hn_arena arena;
    hn_arena_init(&arena);
    const char *at = text.ptr, *end = text.ptr ? text.ptr + text.len : NULL;
    for (uint32_t number = 1; !status && at && at < end; number++) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        hn_str line = {at, (size_t)((stop ? stop : end) - at)};
        at = stop ? stop + 1 : end;
        if ((only && only != number) || line.len == 0) continue;
        if (!only && io->parts && number % io->parts != io->part) continue;
        if (io->begin && !io->begin(io, path, number)) continue;
        hn_strbuf graph;
        hn_strbuf_init(&graph);
        hn_status outcome = case_run(&arena, line, execute, user, print ? &graph : NULL);
        if (print)
            fprintf(stderr, HN_STR_FMT "\n" HN_STR_FMT "\n", HN_STR_ARG(line),
                    HN_STR_ARG(hn_strbuf_str(&graph)));
        if (outcome) fprintf(stderr, "%s:%u: %s\n", path, number, hn_status_message(outcome));
        case_count(io, outcome);
        hn_status_free(outcome);
        hn_strbuf_deinit(&graph);
        hn_arena_reset(&arena);
    }
    hn_arena_deinit(&arena);
    hn_strbuf_deinit(&text);
    return status;
}

/* Every file of tests/ops/cases, in the order of the directory. */
HN_UNUSED static hn_status case_run_folder(const char *folder, case_executor execute, void *user,
                                           case_totals *io) {
    DIR *dir = opendir(folder);
    if (!dir)
        return HN_ERROR(HN_NOT_FOUND, "cannot open '%s'; run from the root of the repository",
                        folder);
    hn_status status = NULL;
    for (struct dirent *entry = readdir(dir); entry && !status; entry = readdir(dir)) {
        char path[512];
        size_t len = strlen(entry->d_name);
        if (len < 5 || strcmp(entry->d_name + len - 4, ".txt") != 0) continue;
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        status = case_run_file(path, 0, execute, user, false, io);
    }
    closedir(dir);
    return status;
}

#endif
