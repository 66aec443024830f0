/* tuning_race.c: the forms of one kernel race at one set of sizes; then neighbours of the fastest
 * one (one parameter, one step) race against it, and of the fastest of these again, as long as that
 * is faster: no form twice. Times of later races are brought to the scale of the first one by the
 * form that both have; ratios of the first one to the winner of the last one likewise. At the end
 * of a tuning what has won races once more against the form that is made without a measurement. */
#include "driver/tuning.h"

#include "base/trace.h"
#include "kernel/plan_cpu.h"
#include "tune/descent.h"

#include <math.h>
#include <string.h>

enum {
    NEIGHBOURS_MOST = 6, /* of a step, the ones that are expected to be the fastest */
    STEPS_MOST = 4,
    STEP_LEAST_NS = 150000000, /* of a step: its forms are compiled */
    CONFIRM_ROUNDS = 16,       /* with which an order of two is certain, and the calls before */
    CONFIRM_LEAST_NS = 60000000
};
/* Neighbours that are expected to take more times as long as the fastest are not looked at. */
#define NEIGHBOURS_MARGIN 1.3
/* What has won certainly once, and takes at most so much of the other's time again, has won. */
#define AGAIN_SHARE 0.98

typedef struct hn_tune_race {
    const hn_driver *d;
    const hn_tune_job *job;
    hn_forms_options options;
    hn_forms_race *race; /* NULL: of a call, whose forms need no compiler */
    const hn_form **forms;
    uint32_t *entries; /* of the job, per form */
} hn_tune_race;

/* ---- one race ---- */

static hn_status ask(void *user, uint32_t form, double *out_ns) {
    const hn_tune_race *r = user;
    const hn_tune_job *job = r->job;
    const hn_timed_form what = {.kernel = job->kernel->t.name,
                                .form = &job->entries.items[r->entries[form]].v.name,
                                .sizes = r->options.sizes};
    return r->d->timer->call_ns(r->d->timer->user, &what, out_ns);
}

static hn_status begin(hn_driver *d, const hn_tune_job *job, const uint32_t *entries,
                       uint32_t count, hn_tune_race **out) {
    const hn_tunable *t = &job->kernel->t;
    hn_tune_race *r;
    HN_NEW(&d->arena, r, 1);
    HN_NEW(&d->arena, r->forms, count);
    HN_NEW(&d->arena, r->entries, count);
    r->d = d, r->job = job;
    for (uint32_t k = 0; k < count; k++) {
        r->entries[k] = entries[k];
        r->forms[k] = job->entries.items[entries[k]].v.form;
    }
    r->options = (hn_forms_options){
        .sizes = hn_variant_sizes_at(&job->kernel->sizes, job->sample),
        .forms = r->forms,
        .count = count,
        .overs = job->kernel->overs.items,
        .over_count = job->kernel->overs.count,
        .device = {.kind = t->of.target->kind->device, .number = t->of.target->device},
        .threads = (int)t->of.threads};
    if (d->timer) r->options.call_ns = ask, r->options.call_user = r;
    *out = r;
    if (t->of.call) return NULL;
    hn_status status = hn_forms_race_begin(d, t->of.target, t->of.kernel, &r->options, &r->race);
    hn_arena_reset(&d->scratch);
    if (status) *out = NULL;
    return status;
}

/* Texts of records are printable ASCII, and not long. */
static hn_status copy_text(hn_driver *d, const char *text, hn_str *out) {
    size_t len = strlen(text);
    if (len > HN_TUNING_TEXT_MAX) len = HN_TUNING_TEXT_MAX;
    char *copy = hn_arena_strndup(&d->arena, text, len);
    if (!copy) return HN_ERROR(HN_OUT_OF_MEMORY, "out of memory for a tuning record");
    for (size_t k = 0; k < len; k++)
        if (copy[k] < ' ' || copy[k] > '~') copy[k] = copy[k] == '\n' ? ' ' : '?';
    *out = (hn_str){copy, len};
    return NULL;
}

static hn_status note(hn_driver *d, const hn_bench_result *result, double scale, hn_tune_entry *e) {
    e->was_raced = true;
    if (result->state == HN_BENCH_DROPPED) return copy_text(d, result->why, &e->dropped);
    e->samples = result->samples ? result->samples : 1;
    e->median_ns = result->median_ns * scale;
    e->low_ns = result->low_ns * scale;
    e->high_ns = result->high_ns * scale;
    return NULL;
}

/* Of who has no round with the fastest, the bounds are none: it is far behind. */
static void note_ratio(const hn_bench_result *result, double to, hn_tune_entry *e) {
    e->ratio = result->ratio / to;
    e->ratio_low = result->ratio_low > 0 ? result->ratio_low / to : e->ratio;
    e->ratio_high = isfinite(result->ratio_high) ? result->ratio_high / to : e->ratio;
}

static void scale_ratios(hn_tune_job *job, double by) {
    for (uint32_t k = 0; k < job->entries.count; k++) {
        hn_tune_entry *e = &job->entries.items[k];
        e->ratio *= by, e->ratio_low *= by, e->ratio_high *= by;
    }
}

/* To the winner of this race. Of forms of earlier races by the one that was the fastest of them,
 * which is the first one here. */
static void note_ratios(hn_tune_job *job, const hn_tune_race *r, const hn_bench_report *report) {
    const double to = report->results[report->winner].ratio;
    hn_tune_entry *winner = &job->entries.items[r->entries[report->winner]];
    if (!(to > 0)) return;
    scale_ratios(job, report->results[0].ratio / to);
    for (uint32_t k = 0; k < report->count; k++)
        if (report->results[k].state != HN_BENCH_DROPPED && report->results[k].ratio > 0)
            note_ratio(&report->results[k], to, &job->entries.items[r->entries[k]]);
    winner->ratio = winner->ratio_low = winner->ratio_high = 1;
}

/* Results of forms that have times already stay. */
static hn_status note_all(hn_driver *d, hn_tune_job *job, const hn_tune_race *r,
                          const hn_bench_report *report) {
    double scale = 1;
    const hn_tune_entry *first = &job->entries.items[r->entries[0]];
    if (first->samples && report->results[0].median_ns > 0)
        scale = first->median_ns / report->results[0].median_ns;
    job->timed_calls += report->timed_calls;
    for (uint32_t k = 0; k < report->count; k++) {
        hn_tune_entry *e = &job->entries.items[r->entries[k]];
        if (!e->was_raced) HN_TRY(note(d, &report->results[k], scale, e));
    }
    note_ratios(job, r, report);
    return NULL;
}

static uint64_t nobody(void *user) {
    (void)user;
    return 0;
}

static hn_status race_forms(hn_driver *d, hn_tune_job *job, hn_tune_race *r, int64_t budget_ns,
                            hn_bench_report **out) {
    hn_bench_options bench = {.budget_ns = budget_ns};
    if (d->timer) {
        bench.now_ns = d->timer->now_ns, bench.disturbances = nobody;
        bench.clock_user = d->timer->user;
    }
    const hn_tune_call_race call = {.job = job, .entries = r->entries, .count = r->options.count};
    if (!r->race) return hn_tune_calls_race(d, &call, &bench, out);
    hn_forms_race_wait(r->race);
    return hn_forms_race_run(r->race, &bench, out);
}

static hn_status run(hn_driver *d, hn_tune_job *job, hn_tune_race *r, int64_t budget_ns,
                     uint32_t *out_pick) {
    hn_bench_report *report = NULL;
    hn_status status = race_forms(d, job, r, budget_ns, &report);
    if (!status) status = note_all(d, job, r, report);
    if (!status) *out_pick = r->entries[report->winner];
    hn_bench_report_destroy(report);
    return status;
}

/* ---- the search ---- */

/* One search: points are entries of the job. */
typedef struct search {
    hn_driver *d;
    hn_tune_job *job;
    int64_t end_ns;
} search;

static bool is_known(const hn_tune_job *job, const hn_form_name *name) {
    for (uint32_t k = 0; k < job->entries.count; k++)
        if (hn_form_name_eq(&job->entries.items[k].v.name, name)) return true;
    return false;
}

/* How many threads share out the iterations: all that the grain of a form of a CPU comes to
 * (runtime/bound.c). */
static int64_t parts_of(const hn_tune_job *job, const hn_form *form) {
    const int64_t chunks = hn_sym_hint(form->sym, hn_form_grid(form), 1) / form->grain,
                  threads = job->kernel->t.of.threads;
    return chunks < 2 ? 1 : chunks < threads ? chunks : threads;
}

static hn_status is_but_for_grain(hn_driver *d, const hn_tune_job *job, const hn_variant *a,
                                  const hn_variant *b, bool *out) {
    hn_cpu_choice x, y;
    HN_TRY(hn_variant_choice(&job->kernel->t.of, &a->name, &d->arena, &x));
    HN_TRY(hn_variant_choice(&job->kernel->t.of, &b->name, &d->arena, &y));
    x.grain = y.grain;
    *out = hn_cpu_choice_eq(&x, &y) && parts_of(job, a->form) == parts_of(job, b->form);
    return NULL;
}

/* Whether an entry is the same kernel for as many threads. Such forms take the same time, and what
 * tells them apart in a race is noise. */
static hn_status is_known_run(hn_driver *d, const hn_tune_job *job, const hn_variant *v,
                              bool *out) {
    const hn_ref_sizes sizes = hn_variant_sizes_at(&job->kernel->sizes, job->sample);
    hn_status status = NULL;
    hn_variant_hints was;
    *out = false;
    if (!job->kernel->t.of.target->cpu) return NULL;
    HN_TRY(hn_variant_hints_begin(d->sym, &sizes, &was));
    for (uint32_t k = 0; k < job->entries.count && !*out && !status; k++)
        status = is_but_for_grain(d, job, v, &job->entries.items[k].v, out);
    hn_variant_hints_end(&was);
    return status;
}

/* Forms that cannot be had are no neighbours. */
static hn_status make_neighbour(hn_driver *d, const hn_tune_job *job, const hn_form_name *name,
                                hn_variant *out, bool *out_found) {
    const hn_ref_sizes sizes = hn_variant_sizes_at(&job->kernel->sizes, job->sample);
    hn_status status = hn_variant_named(&job->kernel->t.of, name, &d->arena, out);
    if (!status) status = hn_variant_cost(&job->kernel->t.of, name, &sizes, &out->ns);
    const hn_code code = hn_status_code(status);
    *out_found = !status;
    if (code != HN_NOT_FOUND && code != HN_INVALID_ARGUMENT) return status;
    hn_status_free(status);
    return NULL;
}

/* Those of entry `from` that run as no entry does, the ones that are expected to be the fastest
 * first. */
static hn_status list_neighbours(hn_driver *d, const hn_tune_job *job, uint32_t from,
                                 uint32_t radius, uint32_t most, hn_variant *out,
                                 uint32_t *out_count) {
    hn_form_name *names;
    uint32_t count;
    const hn_tune_entry *e = &job->entries.items[from];
    *out_count = 0;
    HN_TRY(hn_variants_around(&job->kernel->t.of, &e->v.name, radius, &d->arena, &names, &count));
    for (uint32_t k = 0; k < count; k++) {
        hn_variant v;
        bool found, is_run;
        uint32_t at = *out_count;
        if (is_known(job, &names[k])) continue;
        HN_TRY(make_neighbour(d, job, &names[k], &v, &found));
        if (!found || v.ns > e->v.ns * NEIGHBOURS_MARGIN) continue;
        HN_TRY(is_known_run(d, job, &v, &is_run));
        if (is_run) continue;
        for (; at > 0 && out[at - 1].ns > v.ns; at--)
            if (at < most) out[at] = out[at - 1];
        if (at < most) out[at] = v;
        if (*out_count < most) ++*out_count;
    }
    return NULL;
}

/* They become entries. */
static hn_status list_near(void *user, const hn_descent_memo *memo, uint32_t from, uint32_t radius,
                           uint32_t most, uint32_t *out, uint32_t *out_count) {
    search *s = user;
    hn_variant near[NEIGHBOURS_MOST];
    uint32_t count = 0;
    (void)memo; /* forms that have no entry have been in no race */
    *out_count = 0;
    if (most > NEIGHBOURS_MOST) most = NEIGHBOURS_MOST;
    HN_TRY(list_neighbours(s->d, s->job, from, radius, most, near, &count));
    if (s->job->entries.count + count > HN_TUNING_FORMS_MAX) return NULL;
    for (uint32_t k = 0; k < count; k++) {
        out[(*out_count)++] = s->job->entries.count;
        HN_TRY(hn_tune_entry_add(s->d, s->job, &near[k], near[k].ns));
    }
    return NULL;
}

static hn_status race_near(void *user, const uint32_t *points, uint32_t count, double *out_ns,
                           uint32_t *out_winner) {
    search *s = user;
    hn_tune_race *race;
    uint32_t pick;
    HN_TRY(begin(s->d, s->job, points, count, &race));
    hn_status status = run(s->d, s->job, race, (s->end_ns - hn_tune_now(s->d)) / 2, &pick);
    hn_forms_race_end(race->race);
    for (uint32_t k = 0; k < count && !status; k++) {
        out_ns[k] = s->job->entries.items[points[k]].median_ns;
        if (points[k] == pick) *out_winner = k;
    }
    return status;
}

static bool has_time(void *user) {
    const search *s = user;
    return s->end_ns - hn_tune_now(s->d) >= STEP_LEAST_NS;
}

static hn_status descend(hn_driver *d, hn_tune_job *job, int64_t end_ns, uint32_t *pick,
                         hn_tuning_how *how) {
    search s = {.d = d, .job = job, .end_ns = end_ns};
    uint32_t steps;
    HN_TRY(hn_descent_run(&(hn_descent){.steps_most = STEPS_MOST,
                                        .near_most = NEIGHBOURS_MOST,
                                        .radius = (uint32_t)HN_OPT(&d->options, tune_radius),
                                        .user = &s,
                                        .may_go_on = has_time,
                                        .list = list_near,
                                        .race = race_near},
                          pick, &steps));
    if (steps) *how = HN_TUNING_DESCENT;
    return NULL;
}

/* ---- what others call ---- */

hn_status hn_tune_race_begin(hn_driver *d, hn_tune_job *job) {
    return begin(d, job, job->racing.items, job->racing.count, &job->race);
}

void hn_tune_race_wait(hn_tune_job *job) {
    if (job->race->race) hn_forms_race_wait(job->race->race);
}

void hn_tune_race_end(hn_tune_job *job) {
    if (job->race && job->race->race) hn_forms_race_end(job->race->race);
    job->race = NULL;
}

hn_status hn_tune_race_run(hn_driver *d, hn_tune_job *job, int64_t budget_ns) {
    const int64_t begin_ns = hn_tune_now(d);
    const bool has_neighbours = !job->kernel->t.of.call;
    job->found = HN_TUNING_TIMED;
    HN_TRY(run(d, job, job->race, has_neighbours ? budget_ns / 2 : budget_ns, &job->pick));
    if (has_neighbours) HN_TRY(descend(d, job, begin_ns + budget_ns, &job->pick, &job->found));
    job->was_raced = true;
    return NULL;
}

int64_t hn_tune_confirm_ns(const hn_tune_job *job) {
    const hn_tune_entry *first = &job->entries.items[0], *pick = &job->entries.items[job->pick];
    if (!job->was_raced || !job->pick || !first->samples) return 0;
    const double rounds_ns = CONFIRM_ROUNDS * (first->median_ns + pick->median_ns);
    return rounds_ns > CONFIRM_LEAST_NS ? (int64_t)rounds_ns : CONFIRM_LEAST_NS;
}

/* All ratios are to the form that is the pick from now on. */
static void go_back(hn_tune_job *job) {
    hn_tune_entry *first = &job->entries.items[0];
    if (first->ratio > 0) scale_ratios(job, 1 / first->ratio);
    first->ratio = first->ratio_low = first->ratio_high = 1;
    job->pick = 0;
}

static bool has_won_again(const hn_bench_report *report) {
    const hn_bench_result *first = &report->results[0], *pick = &report->results[1];
    if (report->winner == 1) return true;
    return first->state != HN_BENCH_DROPPED && pick->state != HN_BENCH_DROPPED &&
           pick->ratio < AGAIN_SHARE * first->ratio;
}

hn_status hn_tune_race_confirm(hn_driver *d, hn_tune_job *job, int64_t budget_ns) {
    const uint32_t both[] = {0, job->pick};
    hn_bench_report *report = NULL;
    hn_tune_race *race;
    HN_TRY(begin(d, job, both, 2, &race));
    hn_status status = race_forms(d, job, race, budget_ns, &report);
    hn_forms_race_end(race->race);
    if (!status) job->timed_calls += report->timed_calls;
    if (!status && !has_won_again(report)) go_back(job);
    hn_bench_report_destroy(report);
    return status;
}
