/* tuning.c: see tuning.h. Kernels are taken by their share of a run: their forms go to the
 * compilers in that order, and race in that order while later ones are compiled. A machine that has
 * no core to spare waits for its compilers first, so that these do not disturb. */
#include "driver/tuning.h"

#include "base/log.h"
#include "base/trace.h"
#include "henry/version.h"

#include <math.h>
#include <string.h>

static const int64_t default_budget_ns = INT64_C(30000000000);
/* Of one kernel: enough for the rounds that order two forms a tenth apart; no more than it is
 * worth. */
static const int64_t kernel_least_ns = 60000000, kernel_most_ns = INT64_C(4000000000);

typedef struct tuning {
    hn_driver *d;
    hn_tune_jobs jobs;
    hn_picks places;
    hn_tuning_list known; /* records that this model was tuned with */
    int64_t begin_ns, budget_ns;
    /* jobs that are still to be timed: at first sizes as predicted, at others how many */
    double left_ns;
    uint32_t left_others;
    uint32_t done, total; /* jobs */
    bool is_over;         /* the budget was not enough */
} tuning;

int64_t hn_tune_now(const hn_driver *d) {
    return d->timer && d->timer->now_ns ? d->timer->now_ns(d->timer->user) : hn_now_ns();
}

static int64_t whole_budget(const hn_driver *d) {
    const int64_t asked = HN_OPT(&d->options, tune_budget_ns);
    return asked > 0 ? asked : default_budget_ns;
}

int64_t hn_tune_budget(const hn_driver *d) {
    enum { REST = 8 }; /* one part of so many is for compiling what won */
    return whole_budget(d) - whole_budget(d) / REST;
}

static int64_t time_left(const tuning *x) {
    return x->budget_ns - (hn_tune_now(x->d) - x->begin_ns);
}

/* ---- what is known ---- */

static hn_ref_sizes sizes_of(const hn_tune_job *job) {
    return hn_variant_sizes_at(&job->kernel->sizes, job->sample);
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

static bool is_wanted(const hn_tune_job *job) {
    return !job->record && !job->was_raced && !*job->why;
}

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
    return job->race ? NULL : set_aside(x, job, hn_tune_race_begin(x->d, job));
}

/* At the first sizes: forms of others are mostly the same. */
static hn_status submit_first(tuning *x) {
    for (uint32_t k = 0; k < x->jobs.count; k++) {
        hn_tune_job *job = x->jobs.items[k];
        if (!is_wanted(job)) continue;
        x->total++;
        if (job->sample) {
            x->left_others++;
            continue;
        }
        x->left_ns += job->predicted_ns;
        HN_TRY(submit(x, job));
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
        if (x->jobs.items[k]->race) hn_tune_race_wait(x->jobs.items[k]);
}

/* The job's part of what is left: at the first sizes by its share of a run, of half of the time if
 * there are other sizes; of these all have the same. */
static double share_of(const tuning *x, const hn_tune_job *job) {
    if (job->sample) return 1.0 / (x->left_others ? x->left_others : 1);
    return (x->left_ns > 0 ? job->predicted_ns / x->left_ns : 1) / (x->left_others ? 2 : 1);
}

static int64_t budget_of(const tuning *x, const hn_tune_job *job) {
    const double ns = (double)time_left(x) * share_of(x, job);
    return ns < (double)kernel_least_ns  ? kernel_least_ns
           : ns > (double)kernel_most_ns ? kernel_most_ns
                                         : (int64_t)ns;
}

/* ---- records ---- */

/* Texts of records are printable ASCII, and not long. */
static hn_status put_text(tuning *x, hn_str text, hn_str *out) {
    const size_t len = text.len > HN_TUNING_TEXT_MAX ? HN_TUNING_TEXT_MAX : text.len;
    char *copy = hn_arena_strndup(&x->d->arena, text.ptr, len);
    if (!copy) return HN_ERROR(HN_OUT_OF_MEMORY, "out of memory for a tuning record");
    for (size_t k = 0; k < len; k++)
        if (copy[k] < ' ' || copy[k] > '~') copy[k] = '?';
    *out = (hn_str){copy, len};
    return NULL;
}

/* What was timed, then the rest of the set. */
static hn_status fill_forms(tuning *x, const hn_tune_job *job, hn_tuning_record *r) {
    HN_NEW(&x->d->arena, r->forms, job->entries.count);
    for (uint32_t k = 0; k < job->entries.count; k++) {
        const hn_tune_entry *e = &job->entries.items[k];
        if (e->is_extra && !e->samples) continue;
        r->forms[r->form_count++] =
            (hn_form_timing){.form = e->v.name,
                             .samples = e->samples,
                             .median_ns = e->median_ns,
                             .low_ns = e->low_ns,
                             .high_ns = e->high_ns,
                             .ratio = e->ratio,
                             .ratio_low = e->ratio_low,
                             .ratio_high = e->ratio_high,
                             .predicted_ns = isfinite(e->v.ns) && e->v.ns > 0 ? e->v.ns : 0,
                             .is_extra = e->is_extra,
                             .dropped = e->dropped};
    }
    return NULL;
}

static hn_status fill_record(tuning *x, const hn_tune_job *job, hn_tuning_record *r) {
    const hn_tunable *t = &job->kernel->t;
    const hn_ref_sizes sizes = sizes_of(job);
    *r = (hn_tuning_record){.digest = t->id.digest,
                            .size_count = sizes.count,
                            .how = job->found,
                            .tool = HN_STR("henry " HENRY_VERSION_STRING)};
    HN_TRY(put_text(x, t->name, &r->kernel));
    for (uint32_t k = 0; k < sizes.count; k++) {
        HN_TRY(put_text(x, hn_sym_symbol_name(x->d->sym, sizes.symbols[k]), &r->symbols[k]));
        r->sizes[k] = sizes.values[k];
    }
    HN_TRY(hn_driver_picks_device(x->d, job->kernel->level, &r->device));
    HN_TRY(fill_forms(x, job, r));
    while (!hn_form_name_eq(&r->forms[r->pick].form, &job->entries.items[job->pick].v.name))
        r->pick++;
    return hn_tuning_record_check(r);
}

static hn_status keep(tuning *x, hn_tune_job *job) {
    hn_tuning_record r;
    HN_TRY(fill_record(x, job, &r));
    HN_TRY(note_record(x, job, &r));
    job->how = HN_TUNED_NOW;
    const hn_tuning_record *const list[] = {job->record};
    HN_TRY(hn_tune_tables_add(x->d, job));
    return hn_picks_keep(x->places.cache, list, 1);
}

/* ---- telling ---- */

static hn_status tell_of(tuning *x, const hn_tune_job *job, hn_strbuf *name, hn_strbuf *sizes) {
    hn_tune_progress_fn tell = HN_OPT(&x->d->options, tune_progress);
    hn_tune_sizes_put(x->d, job, sizes);
    hn_strbuf_append(name, job->kernel->t.name.ptr, job->kernel->t.name.len);
    HN_TRY(hn_strbuf_status(name));
    HN_TRY(hn_strbuf_status(sizes));
    const hn_tune_progress progress = {.done = x->done,
                                       .total = x->total,
                                       .kernel = hn_strbuf_str(name).ptr,
                                       .sizes = hn_strbuf_str(sizes).ptr,
                                       .forms = job->racing.count,
                                       .elapsed_ns = hn_tune_now(x->d) - x->begin_ns,
                                       .budget_ns = whole_budget(x->d)};
    if (tell(HN_OPT(&x->d->options, tune_progress_context), &progress)) return NULL;
    return HN_ERROR(HN_CANCELLED, "the tuning was cancelled");
}

static hn_status tell(tuning *x, const hn_tune_job *job) {
    hn_strbuf name, sizes;
    if (!HN_OPT(&x->d->options, tune_progress)) return NULL;
    hn_strbuf_init(&name);
    hn_strbuf_init(&sizes);
    hn_status status = tell_of(x, job, &name, &sizes);
    hn_strbuf_deinit(&name);
    hn_strbuf_deinit(&sizes);
    return status;
}

/* "softmax [s0=64]: rows ahead=2". */
static void trace(const tuning *x, const hn_tune_job *job, int64_t begin) {
    hn_strbuf text;
    hn_strbuf_init(&text);
    hn_strbuf_append(&text, job->kernel->t.name.ptr, job->kernel->t.name.len);
    if (job->kernel->sizes.symbol_count) {
        hn_strbuf_puts(&text, " [");
        hn_tune_sizes_put(x->d, job, &text);
        hn_strbuf_putc(&text, ']');
    }
    if (job->record) {
        hn_strbuf_puts(&text, ": ");
        hn_form_name_print(&job->record->forms[job->record->pick].form, &text);
    }
    if (!text.failed) hn_trace_span("tune", hn_strbuf_str(&text).ptr, begin, hn_now_ns());
    hn_strbuf_deinit(&text);
}

/* ---- the whole ---- */

/* Whether the job is looked at again at the end: of the sizes of the export what has won against
 * the form without a measurement. */
static bool is_to_confirm(const hn_tune_job *job) {
    return !job->sample && !job->record && hn_tune_confirm_ns(job) > 0;
}

static hn_status race(tuning *x, hn_tune_job *job) {
    HN_TRY(submit(x, job));
    if (!job->race) return NULL;
    hn_tune_race_wait(job);
    if (time_left(x) <= 0) return NULL;
    HN_TRY(tell(x, job));
    const int64_t begin = hn_now_ns();
    hn_status status = hn_tune_race_run(x->d, job, budget_of(x, job));
    if (!status && !is_to_confirm(job)) status = keep(x, job);
    trace(x, job, begin);
    return set_aside(x, job, status);
}

/* What a race takes at least: of each form a first call, two of the warm-up and one of a round. */
enum { LEAST_CALLS = 4 };
static double least_ns(const hn_tune_job *job) {
    return LEAST_CALLS * job->racing.count * job->predicted_ns / job->kernel->launches;
}

/* One of several sizes that takes more than its part comes last, so that others are not left
 * out. */
static bool can_wait(const tuning *x, const hn_tune_job *job) {
    return job->sample && least_ns(job) > 2.0 * (double)budget_of(x, job);
}

static hn_status race_job(tuning *x, hn_tune_job *job) {
    HN_TRY(race(x, job));
    hn_tune_race_end(job);
    x->done++;
    if (job->sample) x->left_others--;
    else x->left_ns -= job->predicted_ns;
    return NULL;
}

static hn_status race_all(tuning *x) {
    for (uint32_t k = 0; k < x->jobs.count; k++) {
        hn_tune_job *job = x->jobs.items[k];
        if (is_wanted(job) && time_left(x) > 0 && !can_wait(x, job)) HN_TRY(race_job(x, job));
    }
    for (uint32_t k = 0; k < x->jobs.count; k++) {
        hn_tune_job *job = x->jobs.items[k];
        if (is_wanted(job) && (double)time_left(x) > least_ns(job)) HN_TRY(race_job(x, job));
        if (!is_wanted(job)) continue;
        job->why = "the budget was over";
        x->is_over = true;
    }
    return NULL;
}

/* What there is no time for is kept as it is. */
static hn_status confirm(tuning *x, hn_tune_job *job) {
    const int64_t ns = hn_tune_confirm_ns(job);
    hn_status status = time_left(x) < ns ? NULL : hn_tune_race_confirm(x->d, job, ns);
    if (!status) status = keep(x, job);
    return set_aside(x, job, status);
}

/* Also if the races were cancelled: then nothing is timed any more. */
static hn_status confirm_all(tuning *x, bool has_failed) {
    if (has_failed) x->budget_ns = 0;
    for (uint32_t k = 0; k < x->jobs.count; k++)
        if (is_to_confirm(x->jobs.items[k])) HN_TRY(confirm(x, x->jobs.items[k]));
    return NULL;
}

static bool is_anything_wanted(const tuning *x) {
    for (uint32_t k = 0; k < x->jobs.count; k++)
        if (is_wanted(x->jobs.items[k])) return true;
    return false;
}

static hn_status time_forms(tuning *x) {
    hn_scope *around = x->d->scope;
    if (!is_anything_wanted(x)) return NULL;
    HN_TRY(hn_tune_overs_find(x->d, &x->jobs));
    HN_TRY(hn_scope_create(x->d->service, &x->d->scope));
    hn_status status = submit_first(x);
    if (!status && has_no_core_left(x)) wait_for_compilers(x);
    if (!status) status = race_all(x);
    hn_status late = confirm_all(x, status != NULL);
    if (status) hn_status_free(late);
    else status = late;
    for (uint32_t k = 0; k < x->jobs.count; k++) hn_tune_race_end(x->jobs.items[k]);
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
    return hn_tune_report_make(x->d, &x->jobs,
                               &(hn_tune_totals){.elapsed_ns = hn_tune_now(x->d) - x->begin_ns,
                                                 .is_complete = !x->is_over},
                               &x->d->tuned);
}

/* Else nothing could be timed, and nobody would be told. */
static hn_status check_levels(const hn_driver *d) {
    for (uint32_t l = 0; l < d->level_count; l++)
        if (hn_driver_can_run(&d->levels[l].target)) return NULL;
    return HN_ERROR(
        HN_UNSUPPORTED,
        "kernels for '%s' cannot be timed: this machine has nothing that runs them; tune "
        "where they run, and take the records with --tuning",
        d->levels[0].target.name);
}

hn_status hn_driver_tune(hn_driver *d) {
    tuning x = {.d = d, .begin_ns = d->tune_begin_ns, .budget_ns = hn_tune_budget(d)};
    if (HN_OPT(&d->options, tune) == HN_TUNE_KNOWN || hn_driver_picks_are_off(d)) return NULL;
    HN_TRY(check_levels(d));
    HN_TRY(tune(&x));
    d->metrics.values[HN_METRIC_KERNELS_TUNED] = d->tuned->timed_kernels;
    d->metrics.values[HN_METRIC_TUNING_RUNS] = (int64_t)d->tuned->timed_calls;
    d->metrics.values[HN_METRIC_TUNING_NS] = d->tuned->elapsed_ns;
    if (!d->on_tuned) return NULL;
    return d->on_tuned(d->tuned_user, (hn_str){d->tuned->records, d->tuned->records_len},
                       d->tuned->is_complete);
}
