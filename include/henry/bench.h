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

#include "henry/abi/kernel_abi.h"
#include "henry/module.h"
#include "henry/status.h"
#include "henry/tensor.h"

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { HN_BENCH_CANDIDATES_MAX = 1024, HN_BENCH_ROUNDS_MAX = 1000 };

/* One way to do the work. Functions but `run` may be NULL. They are called by the thread that
 * called hn_bench, one at a time. An error of any of them takes this candidate out of the race,
 * with the message in its result, and nobody else. */
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
    /* Behind each call that did not fail: gives back what it has changed. Not timed; so calls are
     * timed one by one, and a sample is their sum. */
    hn_status (*restore)(void *user);
} hn_bench_candidate;

/* Zeros are defaults. */
typedef struct hn_bench_options {
    /* For all of it but what `start` takes. The first call of each candidate, and one round, are
     * made in any case. 0: one second. */
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
    /* Before each call: takes what the work reads out of the caches. Not timed; calls are timed one
     * by one. NULL: the caches keep what they have. */
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
    /* Its time over that of the fastest, in the same rounds: the median, and the interval that
     * it lies in. Of the fastest itself 1. Of too few rounds for the confidence the interval is
     * from 0.8 of the least to 1.25 of the largest ratio; 0 to INFINITY without a round that
     * both have. */
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

/* The winner among results, of a report or of a record of one: of the candidates that were left
 * until the end, the first one that the fastest does not certainly lead by more than `noise`
 * (0.01: 1 %). `count`: no candidate was left. It depends on nothing but `state`, `ratio` and
 * `ratio_low`. */
HN_API uint32_t hn_bench_winner(const hn_bench_result *results, uint32_t count, double noise);

/* ---- kernels ---- */

/* What kernels do with an argument. */
typedef enum hn_bench_access {
    HN_BENCH_READ = 0,
    HN_BENCH_WRITE = 1,  /* all or parts of it; what is there before does not matter */
    HN_BENCH_UPDATE = 2, /* reads what is there, and writes: it is restored behind each call */
    HN_BENCH_SCRATCH = 3 /* whatever they like: it is neither compared nor restored */
} hn_bench_access;

/* A tensor that kernels get. Its elements are made up: floats of ordinary size, of either sign (or
 * positive, where the results would be NaN or infinite otherwise); whole numbers from 1 to 7 (or 0,
 * where a kernel finds an index out of bounds otherwise); bools of either kind. */
typedef struct hn_bench_arg {
    hn_scalar_type type;
    uint32_t rank;
    const int64_t *sizes;
    const int64_t *strides; /* elements, not negative; NULL: row-major */
    /* of element 0, from memory that is aligned to 64 bytes, or as the device does it */
    int64_t offset_bytes;
    /* 1 + the number of an earlier argument whose memory it lies in, from which `offset_bytes`
     * counts: a result in place, or one tensor that is passed twice. 0: memory of its own */
    uint32_t same_as;
    hn_bench_access access;
    /* of whole numbers: they are indices from 0 to index_limit - 1. 0: they are not */
    int64_t index_limit;
    /* in place of made-up elements: those from the first one in memory to the last, as strides lay
     * them out */
    const void *content;
} hn_bench_arg;

/* Where an argument of a kernel's function begins. */
typedef struct hn_bench_place {
    uint32_t arg;         /* of the subject */
    int64_t offset_bytes; /* from element 0 of it */
} hn_bench_place;

/* A call of a function that was compiled. */
typedef struct hn_bench_launch {
    /* What the device loads (of the CPU a shared object), and the function's name in it ... */
    const void *code;
    size_t code_len;
    const char *symbol;
    hn_kernel_fn fn;              /* ... or, of the CPU, the function itself */
    const hn_bench_place *places; /* the function's arguments, in order */
    uint32_t place_count;
    const long long *params; /* whole numbers behind them */
    uint32_t param_count;
    long long extent;      /* of the CPU: iterations, which threads share; 0: nothing is called */
    int64_t grain;         /* of the CPU: fewest of them worth a thread of their own; 0: never */
    int64_t groups[3];     /* of other devices */
    uint32_t threads[3];   /* of a group */
    int64_t shared_bytes;  /* of a group */
    int64_t scratch_bytes; /* memory for each thread or group; zeros before the first call */
} hn_bench_launch;

/* A form of a kernel. Each has arguments and scratch memory of its own. */
typedef struct hn_bench_kernel {
    const char *name;
    const hn_bench_launch *launches; /* one after the other; read behind `build` */
    uint32_t launch_count;
    /* In place of launches, on the CPU: the work, given the address of element 0 of each argument
     * of the subject. */
    hn_status (*run)(void *user, void *const *args);
    /* Once, before the first call: makes the code, and may fill in the launches. NULL: it is
     * there. */
    hn_status (*build)(void *user);
    void *user; /* of both */
} hn_bench_kernel;

/* What kernels are to do. */
typedef struct hn_bench_subject {
    const hn_bench_arg *args;
    uint32_t arg_count;
    hn_device device;
    int threads;  /* of the CPU; 0: as many as a run has by default */
    bool is_cold; /* the caches have nothing of the arguments when a call begins */
    /* Makes of the arguments' elements, in memory of the host and by the addresses of element 0,
     * what a kernel has to make of them. HN_INVALID_ARGUMENT: an index is out of bounds. NULL, or
     * HN_UNSUPPORTED: what the first form makes that runs is right. */
    hn_status (*reference)(void *user, void *const *args);
    void *reference_user;
} hn_bench_subject;

/* Times forms of one kernel by hn_bench, on arguments that are made up. Before a form may win
 * it has to give the right result: whole numbers exactly; floats within what other orders of
 * the same sum differ by, as the differences of assert_close for their type allow. It may
 * change nothing else. A form that does not compile, load or run, or is wrong, is out of the
 * race. Devices with a clock tell the time themselves. `options` may be NULL. With one kernel
 * nothing is called. Errors: as hn_bench; invalid-argument for arguments that cannot be, and
 * for kernels that find an index out of bounds whatever the arguments hold; not-found without
 * the device; device; out-of-memory. */
HN_API hn_status hn_bench_kernels(const hn_bench_options *options, const hn_bench_subject *subject,
                                  const hn_bench_kernel *kernels, uint32_t count,
                                  hn_bench_report **out_report) HN_MUST_USE;

/* ---- programs that have several forms of their kernels ---- */

/* Forms of a kernel at one set of sizes. */
typedef struct hn_module_race {
    const char *node;  /* that the kernel is named after */
    const char *sizes; /* "s0=64 s1=8"; "": all its sizes are known */
    uint32_t steps;    /* that do the same, and have what comes out */
    /* names are those of forms, "rows stores=cached"; the order is that of the module's variants */
    const hn_bench_report *report;
    uint32_t was; /* which one ran at these sizes so far */
} hn_module_race;

typedef struct hn_module_tuning {
    const hn_module_race *races;
    uint32_t race_count;
    uint32_t kernel_count; /* different ones that have several forms */
    uint64_t timed_calls;
    int64_t elapsed_ns;
    bool is_complete;  /* the budget was enough */
    const void *image; /* the bundle with other tables, and records of this tuning; not signed */
    size_t image_len;
} hn_module_tuning;

typedef struct hn_module_tune_options {
    int64_t budget_ns;             /* of all races together; 0: 30 seconds */
    const hn_bench_options *bench; /* of each, but for its budget. NULL: defaults */
} hn_module_tune_options;

/* Lets the forms that a program was compiled with (hn_compile_options.forms_shipped, tuning
 * records) race on this machine, on arguments that are made up: at the sizes of the export, and
 * where its sizes differ from call to call at powers of four. Neither a compiler nor the model is
 * needed. The module stays as it is: load the image to have what came out. Kernels are compared
 * with each other: what the first form makes that runs is right. `options` may be NULL. Owns: the
 * caller destroys the result. Errors: unsupported for a file of several programs, or one without
 * such kernels; as hn_bench_kernels; out-of-memory. */
HN_API hn_status hn_module_tune(hn_module *module, const hn_module_tune_options *options,
                                hn_module_tuning **out) HN_MUST_USE;
HN_API void hn_module_tuning_destroy(hn_module_tuning *tuning); /* NULL is allowed */

/* "first", "budget": a word for logs and tables. "unknown" for other numbers. */
HN_API const char *hn_bench_end_name(hn_bench_end end);

#ifdef __cplusplus
}
#endif
#endif
