/* compare.c: what samples say: who is the fastest, who is certainly slower, when it is decided, and
 * the report. */
#include "tune/race.h"

#include "base/compiler.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Of fewer rounds than the confidence needs only a lead of a quarter in all of them counts. */
#define FEW_ROUNDS_FACTOR 1.25
/* The next look at the samples is when there are an eighth more, so that looking often does not find
 * an order by chance. */
enum { LOOK_SHARE = 8 };

/* ---- samples ---- */

static double sample_of(const hn_runner *r, uint32_t round) { return r->samples[round]; }

static double ratio_of(const hn_runner *r, const hn_runner *to, uint32_t round) {
    return r->samples[round] / to->samples[round];
}

/* Gathers a value of each round that both have; clean ones where they are the most. `to` may be `r`
 * itself. */
static uint32_t gather(const hn_race *race, const hn_runner *r, const hn_runner *to,
                       bool *out_is_disturbed) {
    uint32_t clean = 0, all = 0, count = 0;
    for (uint32_t k = 0; k < race->rounds; k++) {
        const bool has = r->marks[k] && to->marks[k];
        all += has;
        clean += has && r->marks[k] == HN_BENCH_CLEAN && to->marks[k] == HN_BENCH_CLEAN;
    }
    *out_is_disturbed = 2 * clean < all;
    for (uint32_t k = 0; k < race->rounds; k++) {
        if (!r->marks[k] || !to->marks[k]) continue;
        if (!*out_is_disturbed && (r->marks[k] != HN_BENCH_CLEAN || to->marks[k] != HN_BENCH_CLEAN))
            continue;
        race->values[count++] = r == to ? sample_of(r, k) : ratio_of(r, to, k);
    }
    return count;
}

hn_interval hn_runner_interval(const hn_race *race, const hn_runner *r, uint32_t *out_samples,
                               bool *out_is_disturbed) {
    *out_samples = gather(race, r, r, out_is_disturbed);
    return hn_interval_of(race->values, *out_samples, race->options.confidence);
}

hn_interval hn_runner_ratio(const hn_race *race, const hn_runner *r, const hn_runner *to) {
    bool is_disturbed;
    if (r == to) return (hn_interval){.median = 1, .low = 1, .high = 1, .is_known = true};
    const uint32_t count = gather(race, r, to, &is_disturbed);
    hn_interval i = hn_interval_of(race->values, count, race->options.confidence);
    if (!i.is_known) i.low /= FEW_ROUNDS_FACTOR, i.high *= FEW_ROUNDS_FACTOR;
    return i;
}

/* Without samples by the warm-up. */
static double time_of(const hn_race *race, const hn_runner *r) {
    uint32_t samples;
    bool is_disturbed;
    const hn_interval i = hn_runner_interval(race, r, &samples, &is_disturbed);
    return samples ? i.median : r->warm_ns;
}

static uint32_t least_median(const hn_race *race) {
    uint32_t best = race->count;
    double best_ns = 0;
    for (uint32_t k = 0; k < race->count; k++) {
        if (race->runners[k].state != HN_BENCH_LEFT) continue;
        const double ns = time_of(race, &race->runners[k]);
        if (best < race->count && !(ns < best_ns)) continue;
        best = k;
        best_ns = ns;
    }
    return best;
}

/* The one that is furthest ahead of candidate `of`, by the rounds that both have; `of` if none is. */
static uint32_t furthest_ahead(const hn_race *race, uint32_t of) {
    uint32_t best = of;
    double least = 1;
    for (uint32_t k = 0; k < race->count; k++) {
        const hn_runner *r = &race->runners[k];
        if (r->state != HN_BENCH_LEFT) continue;
        const hn_interval i = hn_runner_ratio(race, r, &race->runners[of]);
        if (!(i.median > 0 && i.median < least)) continue;
        best = k;
        least = i.median;
    }
    return best;
}

/* Medians of times that were not taken together may mislead where the machine's speed changes: the
 * ratios decide. They may also go round in circles, so there are so many steps at most. */
uint32_t hn_race_fastest(const hn_race *race) {
    uint32_t best = least_median(race);
    for (uint32_t k = 0; k < race->count && best < race->count; k++) {
        const uint32_t ahead = furthest_ahead(race, best);
        if (ahead == best) break;
        best = ahead;
    }
    return best;
}

/* ---- the order ---- */

/* Whether all that are left are equal to the fastest; who is certainly slower is left no more. */
static bool compare_all(hn_race *race, const hn_runner *fastest, uint32_t *out_left) {
    bool is_equal = true;
    *out_left = 0;
    for (uint32_t k = 0; k < race->count; k++) {
        hn_runner *r = &race->runners[k];
        if (r->state != HN_BENCH_LEFT) continue;
        const hn_interval i = hn_runner_ratio(race, r, fastest);
        if (i.is_known && i.low > 1 + race->options.noise) r->state = HN_BENCH_SLOWER;
        else ++*out_left;
        if (r->state == HN_BENCH_LEFT) is_equal &= i.is_known && i.high <= 1 + race->options.noise;
    }
    return is_equal;
}

bool hn_race_is_decided(hn_race *race) {
    uint32_t left;
    if (race->rounds < race->next_look) return false;
    race->next_look = race->rounds + 1 + race->rounds / LOOK_SHARE;
    const bool is_equal = compare_all(race, &race->runners[hn_race_fastest(race)], &left);
    race->end = left == 1 ? HN_BENCH_END_FIRST : HN_BENCH_END_EQUAL;
    return left == 1 || is_equal;
}

uint32_t hn_bench_winner(const hn_bench_result *results, uint32_t count, double noise) {
    uint32_t fastest = count;
    for (uint32_t k = 0; k < count; k++)
        if (results[k].state == HN_BENCH_LEFT &&
            (fastest == count || results[k].ratio < results[fastest].ratio))
            fastest = k;
    for (uint32_t k = 0; k < fastest && fastest < count; k++)
        if (results[k].state == HN_BENCH_LEFT &&
            !(results[k].ratio_low > 1 + (noise > 0 ? noise : 0)))
            return k;
    return fastest;
}

/* ---- the report ---- */

const char *hn_bench_end_name(hn_bench_end end) {
    static const char *const names[] = {"alone", "first", "equal", "rounds", "budget"};
    return (uint32_t)end < HN_COUNT_OF(names) ? names[end] : "unknown";
}

static void describe_times(const hn_race *race, const hn_runner *r, hn_bench_result *out) {
    const hn_interval i = hn_runner_interval(race, r, &out->samples, &out->is_disturbed);
    out->median_ns = i.median, out->low_ns = i.low, out->high_ns = i.high;
    if (out->samples) out->least_ns = race->values[0]; /* they are sorted now */
    out->spread = hn_spread_of(race->values, out->samples);
    if (out->samples) return;
    out->median_ns = out->low_ns = out->high_ns = out->least_ns = r->warm_ns;
}

static void describe_ratio(const hn_race *race, const hn_runner *r, const hn_runner *fastest,
                           hn_bench_result *out) {
    hn_interval i = hn_runner_ratio(race, r, fastest);
    if (!i.median && r->warm_ns > 0 && fastest->warm_ns > 0)
        i.median = r->warm_ns / fastest->warm_ns;
    out->ratio = i.median, out->ratio_low = i.low, out->ratio_high = i.high;
}

/* Behind the struct lie the results, and the texts behind them. */
typedef struct report {
    hn_bench_report face;
    hn_bench_result results[];
} report;

static const char *take_text(char **at, const char *text) {
    char *copy = *at;
    const size_t len = strlen(text) + 1;
    memcpy(copy, text, len);
    *at += len;
    return copy;
}

static size_t text_bytes(const hn_race *race) {
    size_t bytes = 0;
    for (uint32_t k = 0; k < race->count; k++)
        bytes += strlen(race->runners[k].candidate.name) +
                 strlen(hn_status_message(race->runners[k].error)) + 2;
    return bytes;
}

hn_status hn_race_report(const hn_race *race, hn_bench_report **out) {
    report *made = calloc(1, sizeof *made + race->count * sizeof *made->results + text_bytes(race));
    if (!made) return HN_ERROR(HN_OUT_OF_MEMORY, "no memory for the results of a benchmark");
    char *text = (char *)(made->results + race->count);
    const uint32_t fastest = hn_race_fastest(race);
    for (uint32_t k = 0; k < race->count; k++) {
        const hn_runner *r = &race->runners[k];
        hn_bench_result *result = &made->results[k];
        *result = (hn_bench_result){.name = take_text(&text, r->candidate.name),
                                    .state = r->state,
                                    .why = take_text(&text, hn_status_message(r->error)),
                                    .disturbed = r->disturbed,
                                    .calls = r->calls};
        describe_times(race, r, result);
        if (fastest < race->count) describe_ratio(race, r, &race->runners[fastest], result);
    }
    made->face = (hn_bench_report){
        .count = race->count,
        .results = made->results,
        .winner = hn_bench_winner(made->results, race->count, race->options.noise),
        .end = race->end,
        .rounds = race->rounds,
        .timed_calls = race->timed_calls,
        .elapsed_ns = hn_bench_now(&race->clock) - race->begin_ns};
    *out = &made->face;
    return NULL;
}

void hn_bench_report_destroy(hn_bench_report *face) { free(face); }
