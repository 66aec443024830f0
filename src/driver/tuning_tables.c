/* tuning_tables.c: rows of the tables kernel_autotune and persistent_red_perf. */
#include "driver/tuning.h"

#include "base/compiler.h"

#define ADD(tables, id, cells) hn_tables_add((tables), (id), (cells), HN_COUNT_OF(cells))

static hn_cell time_cell(const hn_tune_entry *e) {
    return e && e->samples ? hn_cell_float(e->median_ns) : hn_cell_none();
}

/* ---- kernel_autotune ---- */

static hn_status add_form(hn_driver *d, const hn_tune_job *job, const hn_tune_entry *e) {
    hn_strbuf config;
    hn_strbuf_init(&config);
    hn_form_name_print(&e->v.name, &config);
    const hn_cell cells[] = {hn_cell_text(job->kernel->t.name),
                             hn_cell_text(hn_strbuf_str(&config)), time_cell(e)};
    hn_status status = hn_strbuf_status(&config);
    if (!status) status = ADD(&d->tables, HN_TABLE_KERNEL_AUTOTUNE, cells);
    hn_strbuf_deinit(&config);
    return status;
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

/* "64 1000": the extents at these sizes, rows first. */
static void put_sizes(hn_driver *d, const hn_tune_job *job, const hn_work_record *work,
                      hn_strbuf *out) {
    const hn_ref_sizes at = hn_variant_sizes_at(&job->kernel->sizes, job->sample);
    for (uint32_t k = 0; k < work->rank; k++) {
        int64_t value;
        if (!hn_sym_eval(d->sym, work->sizes[k], at.symbols, at.values, at.count, &value))
            value = hn_sym_hint(d->sym, work->sizes[k], 1024);
        if (k) hn_strbuf_putc(out, ' ');
        hn_strbuf_i64(out, value);
    }
}

static hn_status put_reduction(hn_driver *d, const hn_tune_job *job, const hn_work_record *work) {
    static const char *const directions[] = {[HN_DIRECTION_INNER] = "inner",
                                             [HN_DIRECTION_FLAT] = "flat",
                                             [HN_DIRECTION_OUTER] = "outer"};
    const hn_tune_entry *raced[RED_FORMS] = {NULL};
    hn_cell cells[2 * RED_FORMS + 2];
    hn_strbuf sizes;
    for (uint32_t k = 0, n = 0; k < job->entries.count && n < RED_FORMS; k++)
        if (job->entries.items[k].was_raced) raced[n++] = &job->entries.items[k];
    for (uint32_t k = 0; k < RED_FORMS; k++) {
        cells[2 * k] = name_cell(d, raced[k]);
        cells[2 * k + 1] = time_cell(raced[k]);
    }
    hn_strbuf_init(&sizes);
    put_sizes(d, job, work, &sizes);
    cells[2 * RED_FORMS] = hn_cell_text(hn_strbuf_str(&sizes));
    cells[2 * RED_FORMS + 1] = hn_cell_text(hn_str_of(directions[work->direction]));
    hn_status status = hn_strbuf_status(&sizes);
    if (!status) status = ADD(&d->tables, HN_TABLE_PERSISTENT_RED_PERF, cells);
    hn_strbuf_deinit(&sizes);
    return status;
}

static hn_status add_reduction(hn_driver *d, const hn_tune_job *job) {
    hn_work_record work;
    int64_t points = 0; /* traffic is not asked for */
    HN_TRY(hn_kernel_record_of(d->program, job->kernel->t.of.kernel, &d->arena, &d->scratch,
                               &points, &work));
    return work.category == HN_CATEGORY_REDUCTION ? put_reduction(d, job, &work) : NULL;
}

hn_status hn_tune_tables_add(hn_driver *d, const hn_tune_job *job) {
    if (hn_tables_wants(&d->tables, HN_TABLE_KERNEL_AUTOTUNE))
        for (uint32_t k = 0; k < job->entries.count; k++)
            if (job->entries.items[k].was_raced) HN_TRY(add_form(d, job, &job->entries.items[k]));
    return hn_tables_wants(&d->tables, HN_TABLE_PERSISTENT_RED_PERF) ? add_reduction(d, job) : NULL;
}
