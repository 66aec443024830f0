/* tuned.c: what a tuning came to, for callers: henry/tune.h. */
#include "driver/fusion.h"
#include "driver/tuning.h"

#include "base/require.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* What a caller has is the first member. */
typedef struct report {
    hn_tune_report face;
    hn_arena arena;
    struct report *next; /* that it was joined with: owned */
} report;

static hn_status copy_text(hn_arena *arena, hn_str text, const char **out) {
    *out = hn_arena_strndup(arena, text.ptr, text.len);
    return *out ? NULL : HN_ERROR(HN_OUT_OF_MEMORY, "out of memory for a report");
}

/* ---- kernels ---- */

static hn_status copy_timing(hn_arena *arena, const hn_form_timing *f, hn_tuned_form *out) {
    *out = (hn_tuned_form){.samples = f->samples,
                           .median_ns = f->median_ns,
                           .low_ns = f->low_ns,
                           .high_ns = f->high_ns,
                           .ratio = f->ratio,
                           .ratio_low = f->ratio_low,
                           .ratio_high = f->ratio_high,
                           .predicted_ns = f->predicted_ns,
                           .is_extra = f->is_extra};
    HN_TRY(copy_text(arena, f->form.name, &out->name));
    HN_TRY(copy_text(arena, f->form.parameters, &out->parameters));
    return copy_text(arena, f->dropped, &out->why);
}

/* The form that the model of costs puts in front. */
static bool is_guess(const hn_tune_job *job, const hn_form_name *form) {
    return hn_form_name_eq(&job->entries.items[0].v.name, form);
}

static hn_status copy_record(hn_arena *arena, const hn_tune_job *job, hn_tuned_kernel *out) {
    const hn_tuning_record *r = job->record;
    hn_tuned_form *forms;
    uint32_t first = 0;
    double margin;
    HN_NEW(arena, forms, r->form_count);
    while (first + 1 < r->form_count && !is_guess(job, &r->forms[first].form)) first++;
    for (uint32_t k = 0; k < r->form_count; k++) {
        /* the guess, then the others as they are */
        const uint32_t from = k == 0 ? first : k <= first ? k - 1 : k;
        HN_TRY(copy_timing(arena, &r->forms[from], &forms[k]));
        if (from == r->pick) out->pick = k;
    }
    out->forms = forms;
    out->form_count = r->form_count;
    out->is_certain = hn_tuning_record_is_certain(r, &margin);
    return NULL;
}

static hn_status copy_forms(hn_arena *arena, const hn_tune_job *job, hn_tuned_kernel *out) {
    hn_tuned_form *forms;
    HN_NEW(arena, forms, job->entries.count);
    for (uint32_t k = 0; k < job->entries.count; k++) {
        const hn_variant *v = &job->entries.items[k].v;
        const hn_form_timing timing = {.form = v->name, .predicted_ns = v->ns};
        HN_TRY(copy_timing(arena, &timing, &forms[k]));
    }
    out->forms = forms;
    out->form_count = job->entries.count;
    return NULL;
}

void hn_tune_sizes_put(const hn_driver *d, const hn_tune_job *job, hn_strbuf *out) {
    const hn_variant_sizes *all = &job->kernel->sizes;
    for (uint32_t k = 0; k < all->symbol_count; k++)
        hn_strbuf_printf(out, "%s" HN_STR_FMT "=%" PRId64, k ? " " : "",
                         HN_STR_ARG(hn_sym_symbol_name(d->sym, all->symbols[k])),
                         hn_variant_sizes_at(all, job->sample).values[k]);
}

static hn_status copy_sizes(hn_driver *d, hn_arena *arena, const hn_tune_job *job,
                            const char **out) {
    hn_strbuf text;
    hn_strbuf_init(&text);
    hn_tune_sizes_put(d, job, &text);
    hn_status status = hn_strbuf_status(&text);
    if (!status) status = copy_text(arena, hn_strbuf_str(&text), out);
    hn_strbuf_deinit(&text);
    return status;
}

static hn_status copy_kernel(hn_driver *d, hn_arena *arena, const hn_tune_job *job, double all_ns,
                             hn_tuned_kernel *out) {
    char hex[HN_DIGEST_HEX_BYTES];
    const hn_tunable *t = &job->kernel->t;
    hn_digest_hex(&t->id.digest, hex);
    *out = (hn_tuned_kernel){.launches = job->kernel->launches,
                             .share = all_ns > 0 && !job->sample ? job->predicted_ns / all_ns : 0,
                             .how = job->how};
    HN_TRY(copy_text(arena, t->name, &out->name));
    HN_TRY(copy_text(arena, hn_str_of(hex), &out->digest));
    HN_TRY(copy_text(arena, hn_str_of(t->of.target->name), &out->target));
    HN_TRY(copy_text(arena, hn_str_of(job->why), &out->why));
    HN_TRY(copy_sizes(d, arena, job, &out->sizes));
    return job->record ? copy_record(arena, job, out) : copy_forms(arena, job, out);
}

/* ---- the report ---- */

static hn_status copy_records(hn_driver *d, report *r) {
    hn_strbuf text;
    hn_strbuf_init(&text);
    hn_tuning_list_print(&d->picks->used, &text);
    hn_status status = hn_strbuf_status(&text);
    if (!status) status = copy_text(&r->arena, hn_strbuf_str(&text), &r->face.records);
    r->face.records_len = text.len;
    hn_strbuf_deinit(&text);
    return status;
}

static bool was_known(const hn_driver *d, const hn_fusion_pair *pair) {
    for (uint32_t k = 0; k < d->fusion->count; k++) {
        const hn_fusion_pair *p = &d->fusion->pairs[k];
        if (hn_str_eq(p->a, pair->a) && hn_str_eq(p->b, pair->b)) return p->is_known;
    }
    return false;
}

static hn_status copy_fusions(hn_driver *d, report *r) {
    const hn_tuning_list *all = &d->picks->used;
    hn_tuned_fusion *fusions;
    hn_fusion_pair pair;
    HN_NEW(&r->arena, fusions, all->count + 1u);
    for (uint32_t k = 0; d->fusion && k < all->count; k++) {
        const hn_tuning_record *record = &all->items[k];
        if (!hn_fusion_read(record, &pair)) continue;
        hn_tuned_fusion *f = &fusions[r->face.fusion_count++];
        *f = (hn_tuned_fusion){.is_apart = record->pick == HN_FUSION_APART,
                               .was_timed = !was_known(d, &pair),
                               .fused_ns = record->forms[HN_FUSION_FUSED].median_ns,
                               .apart_ns = record->forms[HN_FUSION_APART].median_ns};
        HN_TRY(copy_text(&r->arena, record->kernel, &f->name));
    }
    r->face.fusions = fusions;
    if (d->fusion) r->face.timed_calls += d->fusion->timed_calls;
    return NULL;
}

static hn_status fill(hn_driver *d, const hn_tune_jobs *jobs, report *r) {
    hn_tuned_kernel *kernels;
    double all_ns = 0;
    HN_NEW(&r->arena, kernels, jobs->count);
    for (uint32_t k = 0; k < jobs->count; k++)
        if (!jobs->items[k]->sample) all_ns += jobs->items[k]->predicted_ns;
    for (uint32_t k = 0; k < jobs->count; k++) {
        HN_TRY(copy_kernel(d, &r->arena, jobs->items[k], all_ns, &kernels[k]));
        r->face.timed_kernels += jobs->items[k]->how == HN_TUNED_NOW;
        r->face.timed_calls += jobs->items[k]->timed_calls;
    }
    r->face.kernels = kernels;
    r->face.kernel_count = jobs->count;
    HN_TRY(copy_fusions(d, r));
    return copy_records(d, r);
}

hn_status hn_tune_report_make(hn_driver *d, const hn_tune_jobs *jobs, const hn_tune_totals *totals,
                              hn_tune_report **out) {
    report *r = calloc(1, sizeof *r);
    if (!r) return HN_ERROR(HN_OUT_OF_MEMORY, "out of memory for a report");
    hn_arena_init(&r->arena);
    r->face.elapsed_ns = totals->elapsed_ns;
    r->face.is_complete = totals->is_complete;
    hn_status status = fill(d, jobs, r);
    if (!status) *out = &r->face;
    else hn_tune_report_destroy(&r->face);
    return status;
}

static hn_status join_fusions(report *r, const hn_tune_report *more) {
    hn_tune_report *to = &r->face;
    hn_tuned_fusion *fusions;
    HN_NEW(&r->arena, fusions, to->fusion_count + more->fusion_count + 1u);
    for (uint32_t k = 0; k < to->fusion_count; k++) fusions[k] = to->fusions[k];
    for (uint32_t k = 0; k < more->fusion_count; k++)
        fusions[to->fusion_count + k] = more->fusions[k];
    to->fusions = fusions;
    to->fusion_count += more->fusion_count;
    return NULL;
}

hn_status hn_tune_report_join(hn_tune_report *to, hn_tune_report *more) {
    report *r = (report *)to, *last = r;
    hn_tuned_kernel *kernels;
    while (last->next) last = last->next;
    last->next = (report *)more;
    HN_NEW(&r->arena, kernels, to->kernel_count + more->kernel_count);
    if (to->kernel_count) memcpy(kernels, to->kernels, to->kernel_count * sizeof *kernels);
    if (more->kernel_count)
        memcpy(kernels + to->kernel_count, more->kernels, more->kernel_count * sizeof *kernels);
    HN_TRY(join_fusions(r, more));
    char *text = hn_arena_printf(&r->arena, "%s%s", to->records, more->records);
    if (!text) return HN_ERROR(HN_OUT_OF_MEMORY, "out of memory for a report");
    to->kernels = kernels;
    to->kernel_count += more->kernel_count;
    to->timed_kernels += more->timed_kernels;
    to->timed_calls += more->timed_calls;
    to->elapsed_ns += more->elapsed_ns;
    to->is_complete &= more->is_complete;
    to->records = text;
    to->records_len += more->records_len;
    return NULL;
}

void hn_tune_report_destroy(hn_tune_report *face) {
    for (report *r = (report *)face, *next; r; r = next) {
        next = r->next;
        hn_arena_deinit(&r->arena);
        free(r);
    }
}
