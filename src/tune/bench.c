/* bench.c: the race: candidates warm up, take turns in rounds, and leave when they fail or are
 * certainly slower. */
#include "henry/bench.h"

#include "base/log.h"
#include "base/require.h"
#include "tune/race.h"

#include <stdlib.h>
#include <string.h>

#define BUDGET_NS  INT64_C(1000000000)
#define NOISE      0.01
#define CONFIDENCE 0.99
enum { ROUNDS = 200, SAMPLE_GRAINS = 1000, SAMPLE_NS = 100000, WARMUP_NS = 1000000 };
/* Who takes so many times as long as another one in the warm-up runs in no round: with a budget for
 * all, a round with a slow one would take the others' samples. */
enum { HOPELESS = 4 };

/* ---- options ---- */

static hn_status check_options(const hn_bench_options *o) {
    if (o->budget_ns < 0 || o->sample_ns < 0 || o->warmup_ns < 0)
        return HN_ERROR(HN_INVALID_ARGUMENT, "a time of a benchmark is below 0");
    if (o->confidence && !(o->confidence > 0.5 && o->confidence < 1))
        return HN_ERROR(HN_INVALID_ARGUMENT,
                        "the confidence of a benchmark is %g, not above 0.5 and below 1",
                        o->confidence);
    if (o->max_rounds > HN_BENCH_ROUNDS_MAX)
        return HN_ERROR(HN_INVALID_ARGUMENT, "a benchmark has %u rounds at most, not %u",
                        HN_BENCH_ROUNDS_MAX, o->max_rounds);
    return NULL;
}

static int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

static void set_defaults(hn_bench_options *o, int64_t grain_ns) {
    if (!o->budget_ns) o->budget_ns = BUDGET_NS;
    o->noise = o->noise > 0 ? o->noise : o->noise < 0 ? 0 : NOISE;
    if (!o->confidence) o->confidence = CONFIDENCE;
    if (!o->max_rounds) o->max_rounds = ROUNDS;
    if (!o->sample_ns) o->sample_ns = larger(SAMPLE_GRAINS * grain_ns, SAMPLE_NS);
    if (!o->warmup_ns) o->warmup_ns = WARMUP_NS;
}

static hn_status check_candidates(const hn_bench_candidate *candidates, uint32_t count) {
    if (!count || count > HN_BENCH_CANDIDATES_MAX)
        return HN_ERROR(HN_INVALID_ARGUMENT, "a benchmark is of 1 to %u candidates, not %u",
                        HN_BENCH_CANDIDATES_MAX, count);
    for (uint32_t k = 0; k < count; k++)
        if (!candidates[k].name || (!candidates[k].run && !candidates[k].run_timed))
            return HN_ERROR(HN_INVALID_ARGUMENT,
                            "candidate %u of a benchmark lacks a name, or a function to run", k);
    return NULL;
}

static bool is_cancelled(const hn_race *race) {
    return race->options.is_cancelled && race->options.is_cancelled(race->options.cancel_user);
}

static hn_status cancelled(void) { return HN_ERROR(HN_CANCELLED, "the benchmark was cancelled"); }

/* ---- who is left ---- */

static uint32_t count_state(const hn_race *race, hn_bench_state state) {
    uint32_t count = 0;
    for (uint32_t k = 0; k < race->count; k++) count += race->runners[k].state == state;
    return count;
}

/* The one that took others out of the race may be this one: they come back. */
static void drop(hn_race *race, hn_runner *r, hn_status error) {
    /* one that says that it is not for this work has not failed */
    const bool has_failed = hn_status_code(error) != HN_UNSUPPORTED;
    hn_log("tune", has_failed ? HN_LOG_WARN : HN_LOG_INFO, "candidate '%s' is out: %s",
           r->candidate.name, hn_status_message(error));
    r->state = HN_BENCH_DROPPED;
    r->error = error;
    race->last_dropped = r;
    for (uint32_t k = 0; k < race->count; k++)
        if (race->runners[k].state == HN_BENCH_SLOWER) race->runners[k].state = HN_BENCH_LEFT;
}

static hn_status nobody_left(const hn_race *race) {
    const hn_runner *last = race->last_dropped;
    return HN_ERROR(hn_status_code(last->error), "none of %u candidates is left: '%s': %s",
                    race->count, last->candidate.name, hn_status_message(last->error));
}

/* ---- phases ---- */

static hn_status warm_all(hn_race *race) {
    for (uint32_t k = 0; k < race->count; k++) {
        if (is_cancelled(race)) return cancelled();
        hn_status error = hn_runner_warm(race, &race->runners[k]);
        if (error) drop(race, &race->runners[k], error);
    }
    return NULL;
}

static bool is_hopeless(const hn_race *race, const hn_runner *r, uint32_t fastest) {
    return r->state == HN_BENCH_LEFT && r->warm_ns > HOPELESS * race->runners[fastest].warm_ns;
}

/* Long calls are few in the warm-up: another program, or something that the second call still had
 * to make, may have been in the way. So whoever is to leave is called twice more. */
static void leave_hopeless(hn_race *race) {
    for (int more = 0; more < 2; more++) {
        const uint32_t fastest = hn_race_fastest(race);
        for (uint32_t k = 0; k < race->count; k++) {
            hn_runner *r = &race->runners[k];
            if (!is_hopeless(race, r, fastest)) continue;
            hn_status error = hn_runner_warm_again(race, r);
            if (error) drop(race, r, error);
        }
    }
    const uint32_t fastest = hn_race_fastest(race);
    for (uint32_t k = 0; k < race->count; k++)
        if (is_hopeless(race, &race->runners[k], fastest)) race->runners[k].state = HN_BENCH_SLOWER;
}

static bool is_out_of_budget(const hn_race *race) {
    const int64_t begin = race->begin_ns + race->start_ns;
    return race->rounds > 1 && hn_bench_now(&race->clock) - begin >= race->options.budget_ns;
}

/* A sample of each that is left, beginning with another one each time. `*out_is_over`: the budget
 * is. */
static hn_status run_round(hn_race *race, bool *out_is_over) {
    const uint32_t first = race->rounds++ % race->count;
    for (uint32_t k = 0; k < race->count; k++) {
        hn_runner *r = &race->runners[(first + k) % race->count];
        if (r->state != HN_BENCH_LEFT) continue;
        if (is_cancelled(race)) return cancelled();
        if (is_out_of_budget(race)) {
            *out_is_over = true;
            return NULL;
        }
        hn_status error = hn_runner_sample(race, r);
        if (error) drop(race, r, error);
    }
    return NULL;
}

/* Whether there is nothing to compare. */
static bool is_alone(hn_race *race) {
    const uint32_t slower = count_state(race, HN_BENCH_SLOWER);
    race->end = slower ? HN_BENCH_END_FIRST : HN_BENCH_END_ALONE;
    return count_state(race, HN_BENCH_LEFT) <= 1;
}

static hn_status run_rounds(hn_race *race) {
    bool is_over = false;
    while (!is_alone(race)) {
        race->end = HN_BENCH_END_ROUNDS;
        if (race->rounds == race->options.max_rounds) return NULL;
        HN_TRY(run_round(race, &is_over));
        race->end = HN_BENCH_END_BUDGET;
        if (is_over) return NULL;
        if (count_state(race, HN_BENCH_LEFT) > 1 && hn_race_is_decided(race)) return NULL;
    }
    return NULL;
}

static hn_status run_race(hn_race *race) {
    if (race->count > 1) {
        HN_TRY(warm_all(race));
        leave_hopeless(race);
        HN_TRY(run_rounds(race));
    }
    return count_state(race, HN_BENCH_LEFT) ? NULL : nobody_left(race);
}

/* ---- the race ---- */

static hn_status make_runner(const hn_race *race, const hn_bench_candidate *c, hn_runner *r) {
    r->candidate = *c;
    r->candidate.name = strdup(c->name);
    r->samples = calloc(race->options.max_rounds, sizeof *r->samples);
    r->marks = calloc(race->options.max_rounds, sizeof *r->marks);
    return r->candidate.name && r->samples && r->marks
               ? NULL
               : HN_ERROR(HN_OUT_OF_MEMORY, "no memory for a benchmark");
}

static hn_status make_race(hn_race *race, const hn_bench_candidate *candidates, uint32_t count) {
    race->values = calloc(race->options.max_rounds, sizeof *race->values);
    race->runners = calloc(count, sizeof *race->runners);
    if (!race->values || !race->runners)
        return HN_ERROR(HN_OUT_OF_MEMORY, "no memory for a benchmark");
    while (race->count < count) {
        const uint32_t k = race->count++;
        HN_TRY(make_runner(race, &candidates[k], &race->runners[k]));
    }
    while (!hn_interval_rank(race->next_look, race->options.confidence)) race->next_look++;
    return NULL;
}

static void end_race(hn_race *race) {
    for (uint32_t k = 0; k < race->count; k++) {
        hn_runner *r = &race->runners[k];
        hn_status_free(r->error);
        free((char *)r->candidate.name);
        free(r->samples);
        free(r->marks);
    }
    free(race->runners);
    free(race->values);
    hn_bench_clock_deinit(&race->clock);
}

hn_status hn_bench(const hn_bench_options *options, const hn_bench_candidate *candidates,
                   uint32_t count, hn_bench_report **out_report) {
    static const hn_bench_options defaults;
    HN_REQUIRE(candidates, "candidates");
    HN_REQUIRE(out_report, "out_report");
    hn_race race = {.options = options ? *options : defaults};
    HN_TRY(check_options(&race.options));
    HN_TRY(check_candidates(candidates, count));
    hn_bench_clock_init(&race.clock, &race.options);
    set_defaults(&race.options, race.clock.grain_ns);
    race.begin_ns = hn_bench_now(&race.clock);
    hn_status status = make_race(&race, candidates, count);
    if (!status) status = run_race(&race);
    if (!status) status = hn_race_report(&race, out_report);
    end_race(&race);
    return status;
}
