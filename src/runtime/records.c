/* records.c: what steps are made of (henry/record.h): records of the bundle, with texts of sizes and
 * numbers for the sizes at hand. */
#include "runtime/module_impl.h"

#include "base/checked.h"
#include "base/require.h"
#include "henry/record.h"

#include <stdlib.h>

/* The extents of all records, in order. */
struct hn_record_sizes {
    uint32_t *first; /* per record: its first extent */
    hn_module_dim *dims;
    char *texts;
    int64_t *hints; /* per expression, at the hints of the symbols */
    uint8_t *bad;
};

void hn_record_sizes_destroy(struct hn_record_sizes *s) {
    if (!s) return;
    free(s->first);
    free(s->dims);
    free(s->texts);
    free(s->hints);
    free(s->bad);
    free(s);
}

/* ---- extents ---- */

static uint32_t total_rank(const hn_bundle *b) {
    uint32_t total = 0;
    for (uint32_t k = 0; k < b->records_count; k++) total += b->records[k].rank;
    return total;
}

/* Unknown from the first symbol on that has no hint. */
static hn_status find_hints(const hn_bundle *b, struct hn_record_sizes *s) {
    uint32_t known = 0;
    int64_t *symbols = calloc(b->symbols_count + 1u, sizeof *symbols);
    if (!symbols) return HN_ERROR(HN_OUT_OF_MEMORY, "no memory for records of steps");
    while (known < b->symbols_count && b->symbols[known].hint != INT64_MIN) {
        symbols[known] = b->symbols[known].hint;
        known++;
    }
    hn_bundle_eval(b, symbols, known, s->hints, s->bad);
    free(symbols);
    return NULL;
}

static void fill_dim(const hn_bundle *b, const struct hn_record_sizes *s, uint32_t node,
                     hn_strbuf *texts, hn_module_dim *out) {
    int64_t value = 0;
    out->is_static = hn_bundle_expr_const(b, node, &value);
    out->value = value;
    out->hint = s->bad[node] || s->hints[node] < 0 ? -1 : s->hints[node];
    hn_bundle_expr_print(b, node, texts);
    hn_strbuf_putc(texts, '\0');
}

/* Texts move while they grow: addresses are set behind the last one. */
static hn_status fill_dims(const hn_bundle *b, struct hn_record_sizes *s, hn_strbuf *texts) {
    uint32_t at = 0;
    for (uint32_t k = 0; k < b->records_count; k++) {
        s->first[k] = at;
        for (uint32_t d = 0; d < b->records[k].rank; d++)
            fill_dim(b, s, b->dims[b->records[k].dims + d], texts, &s->dims[at++]);
    }
    HN_TRY(hn_strbuf_status(texts));
    s->texts = texts->ptr; /* taken */
    const char *text = s->texts;
    for (uint32_t k = 0; k < at; k++) {
        s->dims[k].text = text;
        text += strlen(text) + 1;
    }
    return NULL;
}

static hn_status make_sizes(const hn_bundle *b, struct hn_record_sizes *s) {
    hn_strbuf texts;
    s->first = calloc(b->records_count + 1u, sizeof *s->first);
    s->dims = calloc(total_rank(b) + 1u, sizeof *s->dims);
    s->hints = calloc(b->nodes_count, sizeof *s->hints);
    s->bad = calloc(b->nodes_count, sizeof *s->bad);
    if (!s->first || !s->dims || !s->hints || !s->bad)
        return HN_ERROR(HN_OUT_OF_MEMORY, "no memory for records of steps");
    HN_TRY(find_hints(b, s));
    hn_strbuf_init(&texts);
    hn_status status = fill_dims(b, s, &texts);
    if (status) hn_strbuf_deinit(&texts);
    return status;
}

/* With m->lock held. */
static hn_status make_once(hn_module *m) {
    if (m->record_sizes) return NULL;
    struct hn_record_sizes *s = calloc(1, sizeof *s);
    if (!s) return HN_ERROR(HN_OUT_OF_MEMORY, "no memory for records of steps");
    hn_status status = make_sizes(&m->view, s);
    if (status) hn_record_sizes_destroy(s);
    else m->record_sizes = s;
    return status;
}

static hn_status sizes_of(hn_module *m) {
    pthread_mutex_lock(&m->lock);
    hn_status status = make_once(m);
    pthread_mutex_unlock(&m->lock);
    return status;
}

/* ---- numbers ---- */

/* Values of expressions: of a run, or at the hints. */
typedef struct values {
    const hn_module *m;
    const int64_t *items;
    const uint8_t *bad;
    bool is_run;
} values;

/* The number of a record, or what its expression is for the sizes at hand. */
static int64_t number(const values *v, uint32_t node, int64_t at_hints, bool *is_at_hint) {
    if (!node) return at_hints;
    if (v->is_run && !v->bad[node]) return v->items[node];
    *is_at_hint = true;
    return at_hints;
}

static void set_form(const hn_bundle *b, const hnb_record *r, hn_step_record *out) {
    out->has_form = true;
    out->fused_loops = r->fused_loops;
    out->phases = r->phases;
    out->local_buffers = r->local_buffers;
    out->form = hn_bundle_text(b, r->form);
    out->direction = (hn_step_direction)r->direction;
    out->arguments = r->arguments;
    out->loads = r->loads, out->stores = r->stores, out->atomics = r->atomics;
    out->loops = r->loops, out->barriers = r->barriers;
    out->reductions = r->reductions;
    out->lanes = r->lanes, out->threads = r->threads;
    out->is_vectorized = r->flags & HNB_RECORD_VECTORIZED;
    out->accessed_bytes = r->accessed_bytes;
    out->predicted_ns = r->predicted_ns;
}

/* 0: a size is not known. */
static int64_t elements_of(const values *v, const hnb_record *r) {
    int64_t elems = 1;
    for (uint32_t d = 0; d < r->rank; d++) {
        const uint32_t node = v->m->view.dims[r->dims + d];
        if (v->bad[node] || !hn_mul_i64(elems, v->items[node], &elems)) return 0;
    }
    return elems;
}

/* `has_form`: the record is that of the form that runs. */
static void set_work(const values *v, const hnb_record *r, bool has_form, hn_step_record *out) {
    const struct hn_record_sizes *sizes = v->m->record_sizes;
    out->has_work = true;
    out->category = (hn_step_category)r->category;
    out->part = r->part;
    out->is_bound = r->flags & HNB_RECORD_BOUND;
    out->is_at_hint = v->m->view.symbols_count && r->flags & HNB_RECORD_HINTS;
    out->read_bytes = number(v, r->read_expr, r->read_bytes, &out->is_at_hint);
    out->written_bytes = number(v, r->written_expr, r->written_bytes, &out->is_at_hint);
    out->operations = number(v, r->operations_expr, r->operations, &out->is_at_hint);
    out->rank = r->rank;
    out->row_rank = r->row_rank;
    out->sizes = sizes->dims + sizes->first[r - v->m->view.records];
    if (!(r->flags & HNB_RECORD_HAS_FORM) || !has_form) return;
    set_form(&v->m->view, r, out);
    out->elements = elements_of(v, r);
}

/* Of the tensor in a buffer. False: not known. */
static bool bytes_of(const values *v, uint32_t buffer, int64_t *out) {
    const hnb_buffer *f = &v->m->view.buffers[buffer];
    *out = hn_bundle_dtype_bytes(f->dtype);
    for (uint32_t d = 0; d < f->rank; d++) {
        const uint32_t node = v->m->view.dims[f->dims + d];
        const int64_t size = v->items[node] > 0 ? v->items[node] : 0;
        if (v->bad[node] || !hn_mul_i64(*out, size, out)) return false;
    }
    return true;
}

/* A step that moves a buffer as it is, and has no record. */
static void set_moved(const values *v, const hnb_step *step, hn_step_record *out) {
    const bool copies = step->kind == HNB_STEP_COPY;
    int64_t bytes;
    out->category = copies ? HN_CATEGORY_COPY : HN_CATEGORY_ZERO;
    out->has_work = bytes_of(v, step->buffer, &bytes);
    if (!out->has_work) return;
    out->written_bytes = bytes;
    out->read_bytes = copies ? bytes : 0;
    out->is_at_hint = !v->is_run && v->m->view.symbols_count;
}

static void set_resources(const hn_module *m, uint32_t kernel, hn_step_record *out) {
    hn_cubin_use use;
    if (!kernel) return;
    const hnb_code *code = hn_bundle_code(&m->view, kernel, m->target);
    if (!hn_bundle_code_use(&m->view, code, &use)) return;
    out->has_resources = true;
    out->registers = use.registers;
    out->stack_bytes = use.stack_bytes;
    out->shared_bytes = use.shared_bytes;
}

static uint32_t node_count(const hnb_step *s) {
    return s->origin_count ? s->origin_count : s->origin != 0;
}

/* `run`: the step in a run; NULL: in none. */
static void describe(const values *v, uint32_t index, const hn_run_step *run, hn_step_record *out) {
    const hn_module *m = v->m;
    const hnb_step *step = &m->view.steps[index];
    const hnb_record *r = hn_bundle_record_find(&m->view, index, m->target);
    *out = (hn_step_record){.step = index,
                            .kind = (hn_module_step_kind)step->kind,
                            .category = HN_CATEGORY_CONTROL,
                            .name = run ? hn_run_step_name(m, run) : hn_step_first_name(m, index),
                            .node = m->profiles[index].origin,
                            .node_count = node_count(step),
                            .form = ""};
    if (step->kind == HNB_STEP_COPY || step->kind == HNB_STEP_ZERO) set_moved(v, step, out);
    if (step->kind == HNB_STEP_KERNEL || step->kind == HNB_STEP_EXTERN) {
        out->category = HN_CATEGORY_UNKNOWN;
        set_resources(m, run ? run->kernel : step->kernel, out);
    }
    if (r) set_work(v, r, !run || !run->variant, out);
    if (run && run->variant) out->form = hn_run_step_form(m, run);
    out->category_name = hn_step_category_name(out->category);
}

hn_status hn_module_step_record(hn_module *m, uint32_t step, hn_step_record *out) {
    HN_REQUIRE(m, "module");
    HN_REQUIRE(out, "out");
    if (step >= m->view.steps_count) return hn_out_of_range("step", step, m->view.steps_count);
    HN_TRY(sizes_of(m));
    const values v = {m, m->record_sizes->hints, m->record_sizes->bad, false};
    describe(&v, step, NULL, out);
    return NULL;
}

hn_status hn_step_record_get(const hn_step_info *step, hn_step_record *out) {
    HN_REQUIRE(step, "step");
    HN_REQUIRE(out, "out");
    const hn_step_run *run = step->run;
    const hn_bound *bound = run->c->bounds[0];
    HN_TRY(sizes_of(run->m));
    const values v = {run->m, bound->values, bound->bad, true};
    describe(&v, step->index, run->s, out);
    return NULL;
}

hn_status hn_module_step_node_get(const hn_module *m, uint32_t step, uint32_t k,
                                  const char **out_node, const char **out_source) {
    HN_REQUIRE(m, "module");
    HN_REQUIRE(out_node, "out");
    if (step >= m->view.steps_count) return hn_out_of_range("step", step, m->view.steps_count);
    const hn_bundle *b = &m->view;
    const hnb_step *s = &b->steps[step];
    if (k >= node_count(s)) return hn_out_of_range("node", k, node_count(s));
    const hnb_origin *origin =
        &b->origins[s->origin_count ? b->step_origins[s->origins + k] : s->origin];
    *out_node = hn_bundle_text(b, origin->node);
    if (out_source) *out_source = hn_bundle_text(b, origin->source);
    return NULL;
}
