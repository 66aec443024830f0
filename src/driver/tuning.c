/* tuning.c: see tuning.h. Kernels are taken by their share of a run: their forms go to the compilers
 * in that order, and race in that order while later ones are compiled. A machine that has no core to
 * spare waits for its compilers first, so that these do not disturb. */
#include "driver/tuning.h"

#include "base/log.h"
#include "base/trace.h"
#include "henry/version.h"

#include <math.h>
#include <string.h>

static const int64_t default_budget_ns = INT64_C(30000000000);
/* Of one race: enough for the rounds that order two forms a tenth apart; no more than it is worth. */
enum { RACE_LEAST_NS = 30000000, RACE_MOST_NS = 1000000000 };

typedef struct tuning {
    hn_driver *d;
    hn_tune_jobs jobs;
    hn_picks places;
    hn_tuning_list known; /* records that this model was tuned with */
    int64_t begin_ns, budget_ns;
    double left_ns; /* predicted, of jobs that are still to be timed */
    bool is_over;   /* the budget was not enough */
} tuning;

static int64_t time_left(const tuning *x) { return x->budget_ns - (hn_now_ns() - x->begin_ns); }

/* ---- what is known ---- */

static hn_ref_sizes sizes_of(const hn_tune_job *job) {
    return hn_variant_sizes_at(&job->kernel->t.sizes, job->sample);
}

static bool is_at(const hn_tuning_record *r, const hn_tune_job *job) {
    const hn_ref_sizes sizes = sizes_of(job);
    return r->size_count == sizes.count &&
           memcmp(r->sizes, sizes.values, sizes.count * sizeof *r->sizes) == 0;
}

static hn_status note_record(tuning *x, hn_tune_job *job, const hn_tuning_record *r) {
    HN_NEW(&x->d->arena, job->record, 1);
    *job->record = *r;
    return hn_tuning_list_add(&x->d->picks->used, r);
}

static hn_status look_up(tuning *x, hn_tune_job *job) {
    hn_picks_wanted wanted;
    hn_picks_place place;
    hn_tuning_list found;
    hn_str device;
    HN_TRY(hn_driver_picks_device(x->d, job->kernel->level, &device));
    hn_tunable_want(&job->kernel->t, device, &wanted);
    wanted.sizes = sizes_of(job).values;
    wanted.sample_count = 1;
    hn_tuning_list_init(&found, &x->d->arena);
    HN_TRY(hn_picks_find(&x->places, &wanted, &found, &place));
    for (uint32_t k = 0; k < found.count && !job->record; k++)
        if (is_at(&found.items[k], job)) HN_TRY(note_record(x, job, &found.items[k]));
    if (!job->record) return NULL;
    job->how = HN_TUNED_KNOWN;
    job->why = hn_picks_place_name(place == HN_PICKS_BUNDLE ? HN_PICKS_LOCAL : place);
    return NULL;
}

static hn_status look_all_up(tuning *x) {
    const bool again = HN_OPT(&x->d->options, tune) == HN_TUNE_AGAIN;
    for (uint32_t k = 0; k < x->jobs.count; k++) {
        hn_tune_job *job = x->jobs.items[k];
        if (!*job->why && !again) HN_TRY(look_up(x, job));
    }
    return NULL;
}

static bool is_wanted(const hn_tune_job *job) { return !job->record && !*job->why; }

/* ---- races ---- */

/* Of a status that takes one kernel out, and not all of the tuning. */
static hn_status set_aside(tuning *x, hn_tune_job *job, hn_status status) {
    const hn_code code = hn_status_code(status);
    if (!status || code == HN_OUT_OF_MEMORY || code == HN_CANCELLED) return status;
    job->why = hn_arena_printf(&x->d->arena, "%s", hn_status_message(status));
    hn_log("tune", HN_LOG_WARN, "kernel '" HN_STR_FMT "' is not tuned: %s",
           HN_STR_ARG(job->kernel->t.name), hn_status_message(status));
    hn_status_free(status);
    return job->why ? NULL : HN_ERROR(HN_OUT_OF_MEMORY, "out of memory while tuning");
}

static hn_status submit(tuning *x, hn_tune_job *job) {
    const hn_tunable *t = &job->kernel->t;
    const hn_device_kind kind = t->of.target->kind->device;
    if (job->race) return NULL;
    job->options = (hn_forms_options){.sizes = sizes_of(job),
                                      .forms = job->forms,
                                      .count = job->form_count,
                                      .device = {.kind = kind},
                                      .threads = (int)t->of.threads};
    hn_status status =
        hn_forms_race_begin(x->d, t->of.target, t->of.kernel, &job->options, &job->race);
    hn_arena_reset(&x->d->scratch);
    if (status) job->race = NULL;
    return set_aside(x, job, status);
}

/* At the first sizes: forms of others are mostly the same. */
static hn_status submit_first(tuning *x) {
    for (uint32_t k = 0; k < x->jobs.count; k++) {
        hn_tune_job *job = x->jobs.items[k];
        if (!is_wanted(job)) continue;
        x->left_ns += job->predicted_ns;
        if (!job->sample) HN_TRY(submit(x, job));
    }
    return NULL;
}

/* Whether runs leave no core to compilers. */
static bool has_no_core_left(const tuning *x) {
    return x->d->levels[0].target.kind->device == HN_DEVICE_CPU &&
           hn_driver_cpu_count() < hn_options_threads(&x->d->options) + 2;
}

static void wait_for_compilers(tuning *x) {
    for (uint32_t k = 0; k < x->jobs.count && time_left(x) > x->budget_ns / 2; k++)
        if (x->jobs.items[k]->race) hn_forms_race_wait(x->jobs.items[k]->race);
}

/* The job's part of what is left, by its share of what is left to do. */
static int64_t budget_of(const tuning *x, const hn_tune_job *job) {
    const double share = x->left_ns > 0 ? job->predicted_ns / x->left_ns : 1;
    const double ns = (double)time_left(x) * share;
    return ns < RACE_LEAST_NS ? RACE_LEAST_NS : ns > RACE_MOST_NS ? RACE_MOST_NS : (int64_t)ns;
}

/* ---- records ---- */

/* Texts of records are printable ASCII, and not long. */
static hn_status put_text(tuning *x, const char *text, size_t len, hn_str *out) {
    if (len > HN_TUNING_TEXT_MAX) len = HN_TUNING_TEXT_MAX;
    char *copy = hn_arena_strndup(&x->d->arena, text, len);
    if (!copy) return HN_ERROR(HN_OUT_OF_MEMORY, "out of memory for a tuning record");
    for (size_t k = 0; k < len; k++)
        if (copy[k] < ' ' || copy[k] > '~') copy[k] = copy[k] == '\n' ? ' ' : '?';
    *out = (hn_str){copy, len};
    return NULL;
}

static hn_status fill_forms(tuning *x, const hn_tune_job *job, const hn_bench_report *report,
                            hn_tuning_record *r) {
    const hn_form_name *planned = &job->kernel->t.planned.name;
    HN_NEW(&x->d->arena, r->forms, job->entry_count);
    r->form_count = job->entry_count;
    for (uint32_t k = 0; k < job->entry_count; k++) {
        const hn_variant *v = &job->entries[k];
        r->forms[k] =
            (hn_form_timing){.form = v->name,
                             .predicted_ns = isfinite(v->ns) && v->ns > 0 ? v->ns : 0,
                             .is_extra = job->has_extra && hn_form_name_eq(&v->name, planned)};
    }
    for (uint32_t k = 0; k < report->count; k++) {
        const hn_bench_result *result = &report->results[k];
        hn_form_timing *f = &r->forms[k];
        if (result->state == HN_BENCH_DROPPED) {
            HN_TRY(put_text(x, result->why, strlen(result->why), &f->dropped));
            continue;
        }
        f->samples = result->samples ? result->samples : 1;
        f->median_ns = result->median_ns;
        f->low_ns = result->low_ns, f->high_ns = result->high_ns;
    }
    return NULL;
}

static hn_status fill_record(tuning *x, const hn_tune_job *job, const hn_bench_report *report,
                             hn_tuning_record *r) {
    const hn_tunable *t = &job->kernel->t;
    const hn_ref_sizes sizes = sizes_of(job);
    *r = (hn_tuning_record){.digest = t->id.digest,
                            .size_count = sizes.count,
                            .pick = report->winner,
                            .how = HN_TUNING_TIMED,
                            .tool = HN_STR("henry " HENRY_VERSION_STRING)};
    HN_TRY(put_text(x, t->name.ptr, t->name.len, &r->kernel));
    for (uint32_t k = 0; k < sizes.count; k++) {
        const hn_str name = hn_sym_symbol_name(x->d->sym, sizes.symbols[k]);
        HN_TRY(put_text(x, name.ptr, name.len, &r->symbols[k]));
        r->sizes[k] = sizes.values[k];
    }
    HN_TRY(hn_driver_picks_device(x->d, job->kernel->level, &r->device));
    return fill_forms(x, job, report, r);
}

static hn_status keep(tuning *x, hn_tune_job *job, const hn_bench_report *report) {
    hn_tuning_record r;
    HN_TRY(fill_record(x, job, report, &r));
    HN_TRY(hn_tuning_record_check(&r));
    HN_TRY(note_record(x, job, &r));
    job->how = HN_TUNED_NOW;
    job->timed_calls = report->timed_calls;
    const hn_tuning_record *const list[] = {job->record};
    return hn_picks_keep(x->places.cache, list, 1);
}

/* ---- the whole ---- */

static hn_status race(tuning *x, hn_tune_job *job) {
    hn_bench_report *report = NULL;
    HN_TRY(submit(x, job));
    if (!job->race) return NULL;
    hn_forms_race_wait(job->race);
    if (time_left(x) <= 0) return NULL;
    const int64_t begin = hn_now_ns();
    const hn_bench_options bench = {.budget_ns = budget_of(x, job)};
    hn_status status = hn_forms_race_run(job->race, &bench, &report);
    if (!status) status = keep(x, job, report);
    hn_bench_report_destroy(report);
    char name[HN_TUNING_TEXT_MAX];
    snprintf(name, sizeof name, "tune " HN_STR_FMT, HN_STR_ARG(job->kernel->t.name));
    hn_trace_span("tune", name, begin, hn_now_ns());
    return set_aside(x, job, status);
}

static hn_status race_all(tuning *x) {
    for (uint32_t k = 0; k < x->jobs.count; k++) {
        hn_tune_job *job = x->jobs.items[k];
        if (!is_wanted(job)) continue;
        if (time_left(x) > 0) HN_TRY(race(x, job));
        hn_forms_race_end(job->race);
        job->race = NULL;
        x->left_ns -= job->predicted_ns;
        if (!is_wanted(job)) continue;
        job->why = "the budget was over";
        x->is_over = true;
    }
    return NULL;
}

static hn_status time_forms(tuning *x) {
    hn_scope *around = x->d->scope;
    HN_TRY(hn_scope_create(x->d->service, &x->d->scope));
    hn_status status = submit_first(x);
    if (!status && has_no_core_left(x)) wait_for_compilers(x);
    if (!status) status = race_all(x);
    for (uint32_t k = 0; k < x->jobs.count; k++) hn_forms_race_end(x->jobs.items[k]->race);
    hn_scope_destroy(x->d->scope);
    x->d->scope = around;
    return status;
}

static hn_status tune(tuning *x) {
    hn_cache *cache;
    hn_tuning_damage damage;
    HN_TRY(hn_service_cache(x->d->service, &cache));
    hn_tuning_list_init(&x->known, &x->d->arena);
    HN_TRY(hn_tuning_list_parse(&x->known, x->d->known_tuning, &damage));
    hn_tuning_damage_warn(&damage, "the cache");
    x->places = (hn_picks){&x->d->picks->file, &x->known, cache};
    HN_TRY(hn_tune_jobs_list(x->d, &x->jobs));
    HN_TRY(look_all_up(x));
    HN_TRY(time_forms(x));
    return hn_tune_report_make(
        x->d, &x->jobs,
        &(hn_tune_totals){.elapsed_ns = hn_now_ns() - x->begin_ns, .is_complete = !x->is_over},
        &x->d->tuned);
}

hn_status hn_driver_tune(hn_driver *d) {
    const int64_t budget = HN_OPT(&d->options, tune_budget_ns);
    tuning x = {
        .d = d, .begin_ns = hn_now_ns(), .budget_ns = budget > 0 ? budget : default_budget_ns};
    if (HN_OPT(&d->options, tune) == HN_TUNE_KNOWN || hn_driver_picks_are_off(d)) return NULL;
    HN_TRY(tune(&x));
    if (!d->on_tuned) return NULL;
    return d->on_tuned(d->tuned_user, (hn_str){d->tuned->records, d->tuned->records_len},
                       d->tuned->is_complete);
}
