/* tables.c: rows of metric tables (src/metrics/tables.def), from what a compilation has made:
 * nothing is read back from text. */
#include "driver/driver.h"

#include "base/cubin.h"
#include "base/trace.h"
#include "bundle/view.h"
#include "wrapper/names.h"
#include "wrapper/plan_list.h"

#define ADD(tables, id, cells) hn_tables_add((tables), (id), (cells), HN_COUNT_OF(cells))

hn_status hn_driver_tables_open(hn_driver *d) {
    const char *names = HN_OPT(&d->options, metric_tables);
    const char *dir = HN_OPT(&d->options, metric_dir);
    return hn_tables_init(&d->tables, names, dir);
}

void hn_driver_tables_begin(hn_driver *d) {
    const char *target = d->level_count ? d->levels[0].target.name : "";
    const hn_str model = d->weights_path ? hn_str_of(d->weights_path) : d->graph->name;
    hn_tables_begin(&d->tables, model, hn_str_of(target));
}

void hn_driver_tables_note(const hn_driver *d, hn_compiled *out) {
    const hn_target *target = &d->levels[0].target;
    struct hn_compiled_rows *rows = &out->rows[target->kind->device];
    rows->compilation = d->tables.compilation;
    snprintf(rows->target, sizeof rows->target, "%s", target->name);
}

/* ---- passes and phases ---- */

hn_status hn_driver_tables_pass(hn_driver *d, const char *name, uint32_t number, int64_t ns,
                                uint32_t nodes_before) {
    const hn_cell cells[] = {hn_cell_text(HN_STR("pass")), hn_cell_text(hn_str_of(name)),
                             hn_cell_int(number),          hn_cell_int(ns),
                             hn_cell_int(nodes_before),    hn_cell_int(d->graph->nodes.count - 1)};
    return ADD(&d->tables, HN_TABLE_PASS_STATS, cells);
}

static hn_status add_phases(hn_driver *d) {
    const hn_compile_stats *s = &d->stats;
    const struct {
        const char *name;
        int64_t ns;
    } phases[] = {{"import", s->import_ns},   {"opt", s->opt_ns},         {"lower", s->lower_ns},
                  {"sched", s->sched_ns},     {"codegen", s->codegen_ns}, {"count", s->count_ns},
                  {"compile", s->compile_ns}, {"bundle", s->bundle_ns}};
    for (uint32_t k = 0; k < HN_COUNT_OF(phases); k++) {
        const hn_cell cells[] = {hn_cell_text(HN_STR("phase")),
                                 hn_cell_text(hn_str_of(phases[k].name)),
                                 hn_cell_int(k),
                                 hn_cell_int(phases[k].ns),
                                 hn_cell_none(),
                                 hn_cell_none()};
        HN_TRY(ADD(&d->tables, HN_TABLE_PASS_STATS, cells));
    }
    return NULL;
}

/* ---- the whole program ---- */

static hn_status add_graph(hn_driver *d) {
    const int64_t *counted = d->metrics.values;
    int64_t call_bytes = 0, call_operations = 0;
    for (uint32_t k = 0; k < d->schedule.steps.count; k++) {
        if (d->schedule.steps.items[k].kind != HN_STEP_EXTERN) continue;
        call_bytes += d->work[k].traffic.read_bytes + d->work[k].traffic.written_bytes;
        call_operations += d->work[k].operations;
    }
    const int64_t calls = counted[HN_METRIC_KERNELS_EXTERN];
    const hn_cell cells[] = {
        hn_cell_int(counted[HN_METRIC_NODES_IMPORTED]),
        hn_cell_int(counted[HN_METRIC_NODES]),
        hn_cell_int(counted[HN_METRIC_LOOPS] + calls),
        hn_cell_int(counted[HN_METRIC_KERNELS_GENERATED] + calls),
        hn_cell_int(counted[HN_METRIC_KERNELS_GENERATED]),
        hn_cell_int(d->stats.kernels_unique),
        hn_cell_int(calls),
        hn_cell_int(counted[HN_METRIC_FUSIONS_REFUSED]),
        hn_cell_int(d->schedule.saved_bytes),
        hn_cell_int(counted[HN_METRIC_BYTES_READ]),
        hn_cell_int(counted[HN_METRIC_BYTES_WRITTEN]),
        hn_cell_int(counted[HN_METRIC_OPERATIONS]),
        hn_cell_int(call_bytes),
        hn_cell_int(call_operations),
        hn_cell_int(counted[HN_METRIC_PREDICTED_NS]),
    };
    return ADD(&d->tables, HN_TABLE_GRAPH_STATS, cells);
}

/* ---- kernels ---- */

/* Texts of a row; they are empty again for the next one. */
typedef struct kernel_texts {
    hn_strbuf sizes, hints, origins;
} kernel_texts;

static void texts_init(kernel_texts *t) {
    hn_strbuf_init(&t->sizes);
    hn_strbuf_init(&t->hints);
    hn_strbuf_init(&t->origins);
}
static void texts_reset(kernel_texts *t) {
    hn_strbuf_reset(&t->sizes);
    hn_strbuf_reset(&t->hints);
    hn_strbuf_reset(&t->origins);
}
static void texts_deinit(kernel_texts *t) {
    hn_strbuf_deinit(&t->sizes);
    hn_strbuf_deinit(&t->hints);
    hn_strbuf_deinit(&t->origins);
}

static void put_origins(const hn_graph *g, const hn_origins *origins, uint32_t own,
                        hn_strbuf *out) {
    for (uint32_t k = 0; k < origins->count; k++) {
        const hn_str node = g->origins.items[origins->items[k]].node;
        hn_strbuf_printf(out, "%s" HN_STR_FMT, out->len ? " " : "", HN_STR_ARG(node));
    }
    const hn_str node = g->origins.items[own].node;
    if (!origins->count) hn_strbuf_append(out, node.ptr, node.len);
}

/* Products of extents at the hints: of the rows, and of the longest inner loop. */
static void put_sizes(hn_driver *d, const hn_work_record *work, kernel_texts *t, int64_t *out_rows,
                      int64_t *out_inner) {
    *out_rows = *out_inner = 1;
    for (uint32_t k = 0; k < work->rank; k++) {
        const int64_t hint = hn_sym_hint(d->sym, work->sizes[k], 1024);
        int64_t *of = k < work->row_rank ? out_rows : out_inner;
        if (__builtin_mul_overflow(*of, hint, of)) *of = INT64_MAX;
        if (k) hn_strbuf_putc(&t->sizes, ' '), hn_strbuf_putc(&t->hints, ' ');
        hn_sym_print(d->sym, work->sizes[k], &t->sizes);
        hn_strbuf_i64(&t->hints, hint);
    }
}

static double gigabytes(const hn_traffic *t) {
    return ((double)t->read_bytes + (double)t->written_bytes) / 1e9;
}

/* What the machine code of a function takes, where the image has it. */
static bool find_use(const hn_bundle *b, const char *name, hn_cubin_use *out) {
    for (uint32_t k = 0; b && k < b->codes_count; k++)
        if (strcmp(hn_bundle_text(b, b->codes[k].symbol), name) == 0)
            return hn_bundle_code_use(b, &b->codes[k], out);
    return false;
}

static int64_t lines_of(hn_str text) {
    int64_t lines = 0;
    for (size_t k = 0; k < text.len; k++) lines += text.ptr[k] == '\n';
    return lines;
}

static hn_cell known(bool is_known, int64_t value) {
    return is_known ? hn_cell_int(value) : hn_cell_none();
}

static hn_status add_kernel(hn_driver *d, const hn_bundle *image, uint32_t step, uint32_t level,
                            kernel_texts *t) {
    static const char *const directions[] = {[HN_DIRECTION_INNER] = "inner",
                                             [HN_DIRECTION_FLAT] = "flat",
                                             [HN_DIRECTION_OUTER] = "outer"};
    const hn_kernel *kernel = d->schedule.steps.items[step].kernel;
    const hn_kernel_code *code = &d->levels[level].step_kernels[step];
    const hn_form_record *form = &code->record;
    const hn_work_record *work = &d->work[step];
    hn_cubin_use use;
    const bool has_use = find_use(image, code->name, &use);
    int64_t rows, inner;
    texts_reset(t);
    put_sizes(d, work, t, &rows, &inner);
    put_origins(d->graph, &kernel->origins, kernel->origin, &t->origins);
    const hn_cell cells[] = {
        hn_cell_int(step),
        hn_cell_text(hn_str_of(d->levels[level].target.name)),
        hn_cell_text(hn_str_of(code->name)),
        hn_cell_text(hn_str_of(hn_step_category_name(work->category))),
        hn_cell_text(hn_str_of(form->shape ? form->shape : "")),
        hn_cell_text(hn_str_of(directions[work->direction])),
        hn_cell_text(hn_strbuf_str(&t->hints)),
        hn_cell_text(hn_strbuf_str(&t->sizes)),
        hn_cell_int(rows),
        hn_cell_int(inner),
        hn_cell_int(form->loads),
        hn_cell_int(form->stores),
        hn_cell_int(form->loops),
        hn_cell_int(form->atomics),
        hn_cell_int(form->arguments),
        hn_cell_int(form->reductions),
        hn_cell_int(form->barriers),
        hn_cell_int(work->fused_loops),
        hn_cell_int(work->phases),
        hn_cell_int(work->locals),
        hn_cell_int(form->lanes),
        hn_cell_int(form->threads),
        hn_cell_bool(form->is_vectorized),
        hn_cell_float(gigabytes(&work->traffic)),
        hn_cell_int(work->traffic.read_bytes),
        hn_cell_int(work->traffic.written_bytes),
        hn_cell_bool(work->traffic.is_bound),
        hn_cell_int((int64_t)form->cost.bytes),
        hn_cell_int(work->operations),
        hn_cell_int((int64_t)form->cost.ns),
        hn_cell_int((int64_t)code->text.len),
        known(has_use, use.registers),
        known(has_use, use.stack_bytes),
        known(has_use, use.shared_bytes),
        hn_cell_text(hn_strbuf_str(&t->origins)),
        hn_cell_int(lines_of(code->text)),
    };
    return ADD(&d->tables, HN_TABLE_KERNEL_METADATA, cells);
}

/* It is one for all targets, and nothing is known of its text. */
static hn_status add_call(hn_driver *d, uint32_t step, kernel_texts *t) {
    enum {
        NAME = 2,
        CATEGORY = 3,
        GIGABYTES = 23,
        READ,
        WRITTEN,
        BOUND,
        OPERATIONS = 28,
        ORIGINS = 34,
        LINES
    };
    const hn_item_info *item = &d->program->items.items[d->schedule.steps.items[step].item];
    const hn_work_record *work = &d->work[step];
    hn_cell cells[LINES + 1] = {hn_cell_int(step)};
    texts_reset(t);
    put_origins(d->graph, &item->ext->origins, item->origin, &t->origins);
    cells[NAME] = hn_cell_text(hn_str_of(hn_bundle_extern_name(item->ext->kind)));
    cells[CATEGORY] = hn_cell_text(hn_str_of(hn_step_category_name(work->category)));
    cells[GIGABYTES] = hn_cell_float(gigabytes(&work->traffic));
    cells[READ] = hn_cell_int(work->traffic.read_bytes);
    cells[WRITTEN] = hn_cell_int(work->traffic.written_bytes);
    cells[BOUND] = hn_cell_bool(work->traffic.is_bound);
    cells[OPERATIONS] = hn_cell_int(work->operations);
    cells[ORIGINS] = hn_cell_text(hn_strbuf_str(&t->origins));
    return ADD(&d->tables, HN_TABLE_KERNEL_METADATA, cells);
}

static hn_status add_step(hn_driver *d, const hn_bundle *image, uint32_t step, kernel_texts *t) {
    const hn_step_kind kind = d->schedule.steps.items[step].kind;
    if (kind == HN_STEP_EXTERN) return add_call(d, step, t);
    for (uint32_t l = 0; kind == HN_STEP_KERNEL && l < d->level_count; l++)
        HN_TRY(add_kernel(d, image, step, l, t));
    return NULL;
}

static hn_status add_kernels(hn_driver *d, const hn_strbuf *image) {
    hn_bundle b;
    kernel_texts texts;
    const bool has_image = image && image->len;
    if (!hn_tables_wants(&d->tables, HN_TABLE_KERNEL_METADATA)) return NULL;
    if (has_image) HN_TRY(hn_bundle_open(image->ptr, image->len, false, &b));
    texts_init(&texts);
    hn_status status = NULL;
    for (uint32_t k = 0; k < d->schedule.steps.count && !status; k++)
        status = add_step(d, has_image ? &b : NULL, k, &texts);
    texts_deinit(&texts);
    return status;
}

/* ---- refused fusions ---- */

static hn_cell text_cell(bool is_known, const char *text) {
    return is_known ? hn_cell_text(hn_str_of(text)) : hn_cell_none();
}

static hn_cell step_cell(uint32_t step) { return known(step != HN_REFUSAL_NO_STEP, step); }

static hn_str buffer_name(const hn_driver *d, hn_buf b) {
    const hn_buffer *buffer = &d->program->buffers.items[b];
    if (buffer->kind == HN_BUFFER_INPUT) return d->graph->inputs.items[buffer->input].name;
    const hn_value_info *v = buffer->value ? hn_graph_value(d->graph, buffer->value) : NULL;
    return v && v->name.len ? v->name : d->graph->origins.items[buffer->origin].node;
}

static void put_shared(const hn_driver *d, const hn_refusal *r, hn_strbuf *out) {
    const uint32_t most = HN_REFUSAL_SHARED_MAX;
    for (uint32_t k = 0; k < r->shared_count && k < most; k++) {
        const hn_str name = buffer_name(d, r->shared[k]);
        if (k) hn_strbuf_putc(out, ' ');
        if (name.len) hn_strbuf_append(out, name.ptr, name.len);
        else hn_strbuf_printf(out, "b%u", r->shared[k]);
    }
}

static hn_status add_refusal(hn_driver *d, const hn_refusal *r, hn_strbuf *shared) {
    const hn_refusal_kind *kind = hn_refusal_kind_of(r->why);
    const hn_mismatch_kind *mismatch = hn_mismatch_kind_of(r->mismatch);
    const bool is_mismatch = r->mismatch && r->shared_count;
    hn_strbuf_reset(shared);
    put_shared(d, r, shared);
    const hn_cell cells[] = {hn_cell_text(d->graph->origins.items[r->first].node),
                             hn_cell_text(d->graph->origins.items[r->second].node),
                             step_cell(r->first_step),
                             step_cell(r->second_step),
                             hn_cell_text(hn_strbuf_str(shared)),
                             hn_cell_text(hn_str_of(kind->name)),
                             hn_cell_text(hn_str_of(kind->sentence)),
                             hn_cell_int(r->bytes),
                             text_cell(is_mismatch, mismatch->name),
                             text_cell(is_mismatch, mismatch->sentence)};
    HN_TRY(ADD(&d->tables, HN_TABLE_FUSIONS_REFUSED, cells));
    if (!is_mismatch) return NULL;
    return ADD(&d->tables, HN_TABLE_INDEXING_MISMATCH, cells);
}

static hn_status add_refusals(hn_driver *d) {
    hn_strbuf shared;
    hn_status status = NULL;
    if (!hn_tables_wants(&d->tables, HN_TABLE_FUSIONS_REFUSED) &&
        !hn_tables_wants(&d->tables, HN_TABLE_INDEXING_MISMATCH))
        return NULL;
    hn_strbuf_init(&shared);
    for (uint32_t k = 0; k < d->schedule.refusals.count && !status; k++)
        status = add_refusal(d, &d->schedule.refusals.items[k], &shared);
    hn_strbuf_deinit(&shared);
    return status;
}

/* ---- memory ---- */

static hn_status add_box(hn_driver *d, const hn_wrapper *w, const hn_plan_box *x) {
    const hn_wbuffer *b = &w->buffers.items[x->buffer];
    char pool[24] = "workspace";
    if (x->space > HN_DEVICE_KIND_COUNT)
        snprintf(pool, sizeof pool, "pool %u", x->space - HN_DEVICE_KIND_COUNT - 1);
    const hn_cell cells[] = {hn_cell_int(x->buffer),
                             hn_cell_text(x->node),
                             hn_cell_text(hn_str_of(hn_wbuf_kind_names[b->kind])),
                             hn_cell_text(hn_str_of(hn_dtype_facts(b->dtype)->name)),
                             hn_cell_text(hn_str_of(hn_device_name(b->device))),
                             hn_cell_text(hn_str_of(pool)),
                             hn_cell_int(x->at),
                             hn_cell_int(x->bytes),
                             hn_cell_int(x->first),
                             hn_cell_int(x->end)};
    return ADD(&d->tables, HN_TABLE_MEMORY_PLAN, cells);
}

static hn_status add_boxes(hn_driver *d, const hn_wrapper *w, const hn_memory_plan *plan,
                           hn_arena *arena) {
    hn_plan_box *boxes;
    HN_TRY(hn_memory_plan_boxes(w, plan, arena, &boxes));
    for (hn_wbuf b = 1; b < w->buffers.count; b++)
        if (boxes[b].space) HN_TRY(add_box(d, w, &boxes[b]));
    return NULL;
}

hn_status hn_driver_tables_plan(hn_driver *d, const hn_wrapper *w, const hn_memory_plan *plan) {
    hn_arena arena;
    if (!hn_tables_wants(&d->tables, HN_TABLE_MEMORY_PLAN)) return NULL;
    hn_arena_init(&arena);
    hn_status status = add_boxes(d, w, plan, &arena);
    hn_arena_deinit(&arena);
    return status;
}

/* ---- all ---- */

hn_status hn_driver_tables_end(hn_driver *d, const hn_strbuf *image) {
    if (!hn_tables_are_wanted(&d->tables)) return NULL;
    HN_TRY(add_graph(d));
    HN_TRY(add_kernels(d, image));
    HN_TRY(add_refusals(d));
    HN_TRY(add_phases(d));
    return hn_tables_write(&d->tables);
}
