/* henry/bench.h: which of several ways to do the same work is the fastest.
 *
 *     hn_bench_candidate ways[] = {{.name = "rows", .run = rows, .user = &data},
 *                                  {.name = "tiles", .run = tiles, .user = &data}};
 *     hn_bench_report *report;
 *     HN_TRY(hn_bench(&(hn_bench_options){.budget_ns = 50000000}, ways, 2, &report));
 *     printf("%s\n", ways[report->winner].name);
 *     hn_bench_report_destroy(report);
 *
 * Candidates take turns in rounds, in another order each round, so that a machine that changes its
 * speed treats them alike. A round takes a sample of each: the time of one call or, of short ones, of
 * so many that the clock does not matter. Samples during which others took the processor are taken
 * again. Candidates are compared by the ratio of their samples in the same round. Its median has an
 * interval from order statistics: the k-th smallest and the k-th largest ratio, with the largest k for
 * which a median lies outside with no more than the error that is allowed (the sign test). It asks
 * nothing of how times are distributed. docs/tuning.md says more.
 *
 * The order of candidates counts: of those that are equal within the noise the first one wins. So a
 * caller puts the one that he would take without a measurement in front.
 *
 * Link libhenry_rt or libhenry. This part of the API is young: it may change more than the rest. */
#ifndef HENRY_BENCH_H
#define HENRY_BENCH_H

#include "henry/status.h"

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { HN_BENCH_CANDIDATES_MAX = 1024, HN_BENCH_ROUNDS_MAX = 1000 };

/* One way to do the work. Functions but `run` may be NULL. They are called by the thread that called
 * hn_bench, one at a time. An error of any of them takes this candidate out of the race, with the
 * message in its result, and nobody else. */
typedef struct hn_bench_candidate {
    const char *name; /* for results and messages; copied */
    void *user;       /* given to its functions */
    /* Once, before anything else of this candidate: compiles it, loads it, makes memory. */
    hn_status (*start)(void *user);
    /* Before each sample, and before the first call. Not timed. */
    hn_status (*prepare)(void *user);
    /* The work. */
    hn_status (*run)(void *user);
    /* In place of `run`, with a clock of the candidate's own, such as events of a device: does the
     * work `calls` times, one call behind the other, waits for it, and says how long all of them
     * took. */
    hn_status (*run_timed)(void *user, uint32_t calls, double *out_ns);
    /* Once, behind the first call and before `restore`: whether the result is right. */
    hn_status (*check)(void *user);
    /* Behind each call: gives back what the call has changed. Not timed; so calls are timed one by
     * one, and a sample is their sum. */
    hn_status (*restore)(void *user);
} hn_bench_candidate;

/* Zeros are defaults. */
typedef struct hn_bench_options {
    /* For all of it. The first call of each candidate, and one round, are made in any case. 0: one
     * second. */
    int64_t budget_ns;
    /* A lead below this share counts as none: 0.02 is 2 %. 0: 1 %; negative: any lead counts. */
    double noise;
    /* With which an order has to be known before the race ends early; above 0.5 and below 1. 0:
     * 0.99. */
    double confidence;
    uint32_t max_rounds; /* 0: 200; at most HN_BENCH_ROUNDS_MAX */
    /* What a sample takes at least, if one call is shorter. 0: a thousand times what the clock can
     * tell apart, and no less than 100 us. */
    int64_t sample_ns;
    int64_t warmup_ns; /* of each candidate's calls before the first round. 0: 1 ms */
    /* Before each call: takes what the work reads out of the caches. Not timed; calls are timed one by
     * one. NULL: the caches keep what they have. */
    void (*flush)(void *user);
    void *flush_user;
    /* Asked between samples: true ends the race with the error HN_CANCELLED. */
    bool (*is_cancelled)(void *user);
    void *cancel_user;
    /* The clock, in ns from any point; and how often, so far, others have had a processor that the
     * work wanted. NULL, each by itself: the monotonic clock of the system; the involuntary context
     * switches of this process, and the time that a hypervisor gave to others. */
    int64_t (*now_ns)(void *user);
    uint64_t (*disturbances)(void *user);
    void *clock_user;
} hn_bench_options;

typedef enum hn_bench_state {
    HN_BENCH_LEFT = 0,    /* in the race until its end */
    HN_BENCH_SLOWER = 1,  /* certainly slower than another one: it left the race before its end */
    HN_BENCH_DROPPED = 2, /* it failed: `why` */
} hn_bench_state;

/* What was found out about a candidate. Units: ns of one call. */
typedef struct hn_bench_result {
    const char *name;
    hn_bench_state state;
    const char *why;  /* of DROPPED: the message of its error; else "" */
    uint32_t samples; /* that count; 0: none was taken, or times are those of the warm-up */
    uint32_t
        disturbed; /* samples that others disturbed, and that were taken again or do not count */
    bool is_disturbed; /* most samples were: all of them count, since there are no others */
    uint32_t calls;    /* of a sample */
    double median_ns, low_ns, high_ns; /* the median, and the interval that it lies in */
    double least_ns;
    double spread; /* the middle half of the samples, as a share of the median */
    /* Its time over that of the fastest, in the same rounds: the median, and the interval that it lies
     * in. Of the fastest itself 1. Of too few rounds for the confidence the interval is from 0.8 of the
     * least to 1.25 of the largest ratio; 0 to INFINITY without a round that both have. */
    double ratio, ratio_low, ratio_high;
} hn_bench_result;

/* Why a race ended. */
typedef enum hn_bench_end {
    HN_BENCH_END_ALONE = 0,  /* one candidate was given, or is left: there was nothing to compare */
    HN_BENCH_END_FIRST = 1,  /* all others are certainly slower */
    HN_BENCH_END_EQUAL = 2,  /* those that are left are certainly equal within the noise */
    HN_BENCH_END_ROUNDS = 3, /* `max_rounds` */
    HN_BENCH_END_BUDGET = 4
} hn_bench_end;

typedef struct hn_bench_report {
    uint32_t count;                 /* of the candidates */
    const hn_bench_result *results; /* in their order */
    uint32_t winner;                /* hn_bench_winner of them */
    hn_bench_end end;
    uint32_t rounds;      /* begun */
    uint64_t timed_calls; /* of samples, of all candidates; the warm-up is not among them */
    int64_t elapsed_ns;   /* of all of it, by the clock */
} hn_bench_report;

/* Times the candidates. With one candidate nothing is called: it has won.
 * `options` may be NULL. Owns: the caller destroys the report.
 * Threads: any; what others do meanwhile disturbs.
 * Errors: invalid-argument for no candidate, one without a function to run, options out of range;
 * cancelled; out-of-memory; when no candidate is left, the code and the message of the last one's
 * error. */
HN_API hn_status hn_bench(const hn_bench_options *options, const hn_bench_candidate *candidates,
                          uint32_t count, hn_bench_report **out_report) HN_MUST_USE;
/* NULL is allowed. */
HN_API void hn_bench_report_destroy(hn_bench_report *report);

/* The winner among results, of a report or of a record of one: of the candidates that were left until
 * the end, the first one that the fastest does not certainly lead by more than `noise` (0.01: 1 %).
 * `count`: no candidate was left. It depends on nothing but `state`, `median_ns` and `ratio_low`. */
HN_API uint32_t hn_bench_winner(const hn_bench_result *results, uint32_t count, double noise);

/* "first", "budget": a word for logs and tables. "unknown" for other numbers. */
HN_API const char *hn_bench_end_name(hn_bench_end end);

#ifdef __cplusplus
}
#endif
#endif
