/* tuning_tables.c: rows of the tables kernel_autotune and persistent_red_perf. */
#include "driver/tuning.h"

#include "base/compiler.h"

#define ADD(tables, id, cells) hn_tables_add((tables), (id), (cells), HN_COUNT_OF(cells))

static hn_cell time_cell(const hn_tune_entry *e, double ns) {
    return e && e->samples ? hn_cell_float(ns) : hn_cell_none();
}

static bool is_pick(const hn_tune_job *job, const hn_tune_entry *e) {
    return hn_form_name_eq(&job->record->forms[job->record->pick].form, &e->v.name);
}

static hn_cell certain_cell(const hn_tune_job *job) {
    double margin;
    return hn_cell_bool(hn_tuning_record_is_certain(job->record, &margin));
}

/* Of a call: rows, columns and depth of a product; images, channels and results of a convolution;
 * queries, keys and their lengths of attention. */
static const hn_expr *sizes_of_call(const hn_extern *call, uint32_t *out_count) {
    const uint32_t first = call->kind == HN_EXTERN_MATMUL ? HN_MATMUL_M
                           : call->kind == HN_EXTERN_CONV ? HN_CONV_N
                                                          : HN_ATTENTION_M;
    *out_count = call->kind == HN_EXTERN_ATTENTION ? 4 : 3;
    return call->params + first;
}

/* "64 1000": the extents at these sizes, rows first. */
static void put_sizes(hn_driver *d, const hn_tune_job *job, const hn_work_record *work,
                      hn_strbuf *out) {
    const hn_ref_sizes at = hn_variant_sizes_at(&job->kernel->sizes, job->sample);
    const hn_extern *call = job->kernel->t.of.call;
    uint32_t count = work->rank;
    const hn_expr *sizes = call ? sizes_of_call(call, &count) : work->sizes;
    for (uint32_t k = 0; k < count; k++) {
        int64_t value;
        if (!hn_sym_eval(d->sym, sizes[k], at.symbols, at.values, at.count, &value))
            value = hn_sym_hint(d->sym, sizes[k], 1024);
        if (k) hn_strbuf_putc(out, ' ');
        hn_strbuf_i64(out, value);
    }
}

/* ---- kernel_autotune ---- */

static hn_status add_form(hn_driver *d, const hn_tune_job *job, const hn_tune_entry *e,
                          hn_str sizes) {
    hn_strbuf config;
    hn_strbuf_init(&config);
    hn_form_name_print(&e->v.name, &config);
    const hn_cell cells[] = {
        hn_cell_text(job->kernel->t.name),
        hn_cell_text(hn_strbuf_str(&config)),
        time_cell(e, e->median_ns),
        hn_cell_text(sizes),
        time_cell(e, e->low_ns),
        time_cell(e, e->high_ns),
        hn_cell_int(e->samples),
        hn_cell_bool(is_pick(job, e)),
        is_pick(job, e) ? certain_cell(job) : hn_cell_none(),
    };
    hn_status status = hn_strbuf_status(&config);
    if (!status) status = ADD(&d->tables, HN_TABLE_KERNEL_AUTOTUNE, cells);
    hn_strbuf_deinit(&config);
    return status;
}

static hn_status add_forms(hn_driver *d, const hn_tune_job *job, hn_str sizes) {
    for (uint32_t k = 0; k < job->entries.count; k++)
        if (job->entries.items[k].was_raced)
            HN_TRY(add_form(d, job, &job->entries.items[k], sizes));
    return NULL;
}

/* ---- persistent_red_perf ---- */

enum { RED_FORMS = 4 };

static hn_cell name_cell(hn_driver *d, const hn_tune_entry *e) {
    hn_strbuf text;
    hn_strbuf_init(&text);
    if (!e) return hn_cell_none();
    hn_form_name_print(&e->v.name, &text);
    const char *copy = text.failed ? NULL : hn_arena_strndup(&d->scratch, text.ptr, text.len);
    hn_strbuf_deinit(&text);
    return copy ? hn_cell_text(hn_str_of(copy)) : hn_cell_none();
}

/* The first ones that raced; the last place is the pick's, where it came later. */
static const hn_tune_entry *list_raced(const hn_tune_job *job, const hn_tune_entry *raced[]) {
    const hn_tune_entry *pick = NULL;
    bool is_among = false;
    for (uint32_t k = 0, n = 0; k < job->entries.count; k++) {
        const hn_tune_entry *e = &job->entries.items[k];
        if (!e->was_raced) continue;
        if (is_pick(job, e)) pick = e, is_among = n < RED_FORMS;
        if (n < RED_FORMS) raced[n++] = e;
    }
    if (pick && !is_among) raced[RED_FORMS - 1] = pick;
    return pick;
}

static hn_status put_reduction(hn_driver *d, const hn_tune_job *job, const hn_work_record *work,
                               hn_str sizes) {
    static const char *const directions[] = {[HN_DIRECTION_INNER] = "inner",
                                             [HN_DIRECTION_FLAT] = "flat",
                                             [HN_DIRECTION_OUTER] = "outer"};
    const hn_tune_entry *raced[RED_FORMS] = {NULL}, *pick = list_raced(job, raced);
    hn_cell cells[2 * RED_FORMS + 5];
    uint32_t n = 0;
    for (uint32_t k = 0; k < RED_FORMS; k++) {
        cells[n++] = name_cell(d, raced[k]);
        cells[n++] = time_cell(raced[k], raced[k] ? raced[k]->median_ns : 0);
    }
    cells[n++] = hn_cell_text(sizes);
    cells[n++] = hn_cell_text(hn_str_of(directions[work->direction]));
    cells[n++] = name_cell(d, pick);
    cells[n++] = time_cell(pick, pick ? pick->median_ns : 0);
    cells[n++] = certain_cell(job);
    return ADD(&d->tables, HN_TABLE_PERSISTENT_RED_PERF, cells);
}

/* ---- all ---- */

static hn_status add_rows(hn_driver *d, const hn_tune_job *job, const hn_work_record *work,
                          hn_str sizes) {
    if (hn_tables_wants(&d->tables, HN_TABLE_KERNEL_AUTOTUNE)) HN_TRY(add_forms(d, job, sizes));
    if (!hn_tables_wants(&d->tables, HN_TABLE_PERSISTENT_RED_PERF)) return NULL;
    return work->category == HN_CATEGORY_REDUCTION ? put_reduction(d, job, work, sizes) : NULL;
}

hn_status hn_tune_tables_add(hn_driver *d, const hn_tune_job *job) {
    hn_work_record work;
    hn_strbuf sizes;
    int64_t points = 0; /* traffic is not asked for */
    if (!hn_tables_are_wanted(&d->tables)) return NULL;
    const hn_variants_of *of = &job->kernel->t.of;
    if (of->call) hn_call_record_of(d->program, of->call, &work);
    else
        HN_TRY(hn_kernel_record_of(d->program, of->kernel, &d->arena, &d->scratch, &points, &work));
    hn_strbuf_init(&sizes);
    put_sizes(d, job, &work, &sizes);
    hn_status status = hn_strbuf_status(&sizes);
    if (!status) status = add_rows(d, job, &work, hn_strbuf_str(&sizes));
    hn_strbuf_deinit(&sizes);
    return status;
}
