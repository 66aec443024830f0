/* race.h: what the files of the benchmarker share. Internal to src/tune. */
#ifndef HN_TUNE_RACE_H
#define HN_TUNE_RACE_H

#include "henry/bench.h"
#include "tune/statistics.h"

/* A clock that knows what it can tell apart, and whether others were at work. */
typedef struct hn_bench_clock {
    int64_t (*now_ns)(void *user);
    uint64_t (*disturbances)(void *user); /* NULL: `stolen` and the switches of this process */
    void *user;
    int64_t grain_ns;
    /* the time that a hypervisor gave to others, by the system's count of it */
    int stat_fd;
    int64_t asked_ns; /* when it was read the last time */
    uint64_t stolen;
} hn_bench_clock;

void hn_bench_clock_init(hn_bench_clock *clock, const hn_bench_options *options);
void hn_bench_clock_deinit(hn_bench_clock *clock);
static inline int64_t hn_bench_now(const hn_bench_clock *c) { return c->now_ns(c->user); }

typedef enum hn_bench_mark {
    HN_BENCH_NONE = 0, /* there is no sample */
    HN_BENCH_CLEAN,
    HN_BENCH_DISTURBED
} hn_bench_mark;

typedef struct hn_runner {
    hn_bench_candidate candidate; /* its name is the runner's own */
    hn_bench_state state;
    hn_status error;    /* of DROPPED */
    uint32_t calls;     /* of a sample */
    double warm_ns;     /* the least call of the warm-up */
    double *samples;    /* per round: ns of a call */
    uint8_t *marks;     /* per round: hn_bench_mark */
    uint32_t disturbed; /* samples that were */
} hn_runner;

typedef struct hn_race {
    hn_bench_options options; /* with defaults filled in */
    hn_bench_clock clock;
    int64_t begin_ns;
    int64_t start_ns; /* of all candidates' `start`, which the budget is not for */
    hn_runner *runners;
    uint32_t count;
    const hn_runner *last_dropped;
    uint32_t rounds, next_look;
    double *values; /* of a median, as many as rounds */
    uint64_t timed_calls;
    hn_bench_end end;
} hn_race;

/* sample.c */

/* Whether calls are timed one by one. */
bool hn_runner_is_split(const hn_race *race, const hn_runner *r);
/* Start, first call, check and warm-up; then `calls` and `warm_ns` are known. Errors: the
 * candidate's. */
hn_status hn_runner_warm(hn_race *race, hn_runner *r) HN_MUST_USE;
/* One more call of the warm-up. */
hn_status hn_runner_warm_again(hn_race *race, hn_runner *r) HN_MUST_USE;
/* The sample of this round. Errors: the candidate's. */
hn_status hn_runner_sample(hn_race *race, hn_runner *r) HN_MUST_USE;

/* compare.c */

/* Of the samples that count. */
hn_interval hn_runner_interval(const hn_race *race, const hn_runner *r, uint32_t *out_samples,
                               bool *out_is_disturbed);
/* Of the ratios of `r` to `to`, in the rounds that both have. */
hn_interval hn_runner_ratio(const hn_race *race, const hn_runner *r, const hn_runner *to);
/* The fastest of those that are left; race->count: none is. */
uint32_t hn_race_fastest(const hn_race *race);
/* Takes out of the race who is certainly slower than the fastest. Whether the race is over; then
 * `end` says why. */
bool hn_race_is_decided(hn_race *race);
/* Owns: the caller. Errors: out-of-memory. */
hn_status hn_race_report(const hn_race *race, hn_bench_report **out) HN_MUST_USE;

#endif
