/* tuning.h: the kernels of a schedule, and its calls of operations, are timed in their forms:
 * tuning.c, tuning_jobs.c, tuning_race.c, tuning_calls.c; what came out as a report: tuned.c; as
 * rows of metric tables: tuning_tables.c. */
#ifndef HN_DRIVER_TUNING_H
#define HN_DRIVER_TUNING_H

#include "driver/forms.h"
#include "driver/picked.h"
#include "henry/tune.h"

/* A form that a race asks for. */
typedef struct hn_timed_form {
    hn_str kernel; /* its name */
    const hn_form_name *form;
    hn_ref_sizes sizes;
} hn_timed_form;

/* hn_driver.timer: who says how long forms take, in place of this machine. Races are the same, but
 * nothing is compiled for them, and no kernel runs. For tests, which have either form win. */
typedef struct hn_tune_timer {
    int64_t (*now_ns)(void *user); /* what budgets go by; each call is later. NULL: the system's */
    /* Of one call. An error takes the form out of the race. */
    hn_status (*call_ns)(void *user, const hn_timed_form *what, double *out_ns);
    void *user;
} hn_tune_timer;
int64_t hn_tune_now(const hn_driver *d);
/* What tuning may take, of fusions and of forms together, from hn_driver.tune_begin_ns on. */
int64_t hn_tune_budget(const hn_driver *d);
/* A candidate of hn_bench whose times the driver's timer says: `run_timed` with this as `user`. */
typedef struct hn_told_form {
    const hn_driver *d;
    hn_timed_form what;
} hn_told_form;
hn_status hn_told_ask(void *user, uint32_t calls, double *out_ns) HN_MUST_USE;

/* Forms that take part at one set of sizes: at most so many, of those that are expected to take at
 * most so many times as long as the best. */
enum { HN_TUNE_FORMS_MOST = 6 };
#define HN_TUNE_FORMS_MARGIN 1.6

/* A kernel or a call, with all its equals. */
typedef struct hn_tune_kernel {
    hn_tunable t;
    hn_variant_sizes sizes; /* at which it is timed */
    hn_variants all;        /* the forms that are worth a look at any of these */
    hn_driver_level *level;
    uint32_t launches;
    double predicted_ns; /* of all launches, at the sizes that are expected */
    struct {
        hn_forms_over *items;
        uint32_t count, cap;
    } overs; /* results in place, of the program */
} hn_tune_kernel;

/* A form at one set of sizes. */
typedef struct hn_tune_entry {
    hn_variant v;  /* `ns`: expected there; 0: it cannot be had */
    bool is_extra; /* no part of the set of the kernel */
    bool was_raced;
    uint32_t samples; /* 0: it was not timed */
    double median_ns, low_ns, high_ns;
    double ratio, ratio_low, ratio_high; /* to the pick: as in hn_form_timing */
    hn_str dropped;                      /* why it failed; empty: it did not */
} hn_tune_entry;

/* A kernel at one set of sizes. */
typedef struct hn_tune_job {
    hn_tune_kernel *kernel;
    uint32_t sample;     /* of kernel->sizes; 0: the sizes that are expected */
    double predicted_ns; /* of all launches, in the form that is expected to be the fastest */
    /* the set, what the planner makes by itself, and what a search has found; the one that is made
     * without a measurement in front */
    struct {
        hn_tune_entry *items;
        uint32_t count, cap;
    } entries;
    struct {
        uint32_t *items; /* entries that take part in the first race: 0 first */
        uint32_t count, cap;
    } racing;
    hn_tuned_how how;
    const char *why;           /* as in hn_tuned_kernel */
    hn_tuning_record *record;  /* NULL: nothing is known */
    struct hn_tune_race *race; /* NULL: there is none, or not yet */
    bool was_raced;            /* `pick`, of the entries, was found as `found` says */
    uint32_t pick;
    hn_tuning_how found;
    uint64_t timed_calls;
} hn_tune_job;

typedef struct hn_tune_jobs {
    hn_tune_job **items; /* in the order in which they are timed */
    uint32_t count, cap;
} hn_tune_jobs;

/* tuning_jobs.c: all kernels that this machine can run: at the sizes that are expected, those that
 * take most of a run in front; then all of them at their second sizes, their third, and so on.
 * Owns: everything lives in the arena of the driver. Errors: invalid-argument for hints that are
 * none. */
hn_status hn_tune_jobs_list(hn_driver *d, hn_tune_jobs *out) HN_MUST_USE;
/* tuning_overs.c: finds the kernels' results in place. Errors: those of making the program. */
hn_status hn_tune_overs_find(hn_driver *d, hn_tune_jobs *jobs) HN_MUST_USE;
/* A form; a name that is there already is left out. */
hn_status hn_tune_entry_add(hn_driver *d, hn_tune_job *job, const hn_variant *v,
                            double ns) HN_MUST_USE;

/* tuning_race.c: prints and submits what takes part in the first race. */
hn_status hn_tune_race_begin(hn_driver *d, hn_tune_job *job) HN_MUST_USE;
/* Waits for its compilers. */
void hn_tune_race_wait(hn_tune_job *job);
/* Lets the forms race; then looks at neighbours of the fastest one, as long as one is faster and
 * there is time. Entries get their times; job->pick is the fastest, job->found how it was found. */
hn_status hn_tune_race_run(hn_driver *d, hn_tune_job *job, int64_t budget_ns) HN_MUST_USE;
/* Once more the pick against entry 0, which is made without a measurement: at another time, so that
 * what disturbed the first race does not decide. Entry 0 becomes the pick where it is not slower by
 * two per cent. */
hn_status hn_tune_race_confirm(hn_driver *d, hn_tune_job *job, int64_t budget_ns) HN_MUST_USE;
/* What that takes at least; 0: nothing is to be confirmed. */
int64_t hn_tune_confirm_ns(const hn_tune_job *job);
/* NULL is allowed as the job's race. */
void hn_tune_race_end(hn_tune_job *job);

/* tuning_calls.c: forms of a call of an operation, which are in the library. */
typedef struct hn_tune_call_race {
    const hn_tune_job *job;
    const uint32_t *entries; /* of the job: who races */
    uint32_t count;
} hn_tune_call_race;
hn_status hn_tune_calls_race(hn_driver *d, const hn_tune_call_race *race,
                             const hn_bench_options *bench, hn_bench_report **out) HN_MUST_USE;

/* tuning.c: times what no record knows, as the options say. Nothing where nothing is to be timed.
 * d->picks->used are the records that decide, d->tuned is the report. */
hn_status hn_driver_tune(hn_driver *d) HN_MUST_USE;

/* tuning_tables.c: rows of a kernel that was timed. */
hn_status hn_tune_tables_add(hn_driver *d, const hn_tune_job *job) HN_MUST_USE;

/* tuned.c */
typedef struct hn_tune_totals {
    int64_t elapsed_ns;
    bool is_complete;
} hn_tune_totals;
/* Owns: the caller destroys the report; nothing in it is borrowed. */
hn_status hn_tune_report_make(hn_driver *d, const hn_tune_jobs *jobs, const hn_tune_totals *totals,
                              hn_tune_report **out) HN_MUST_USE;
/* "s0=64 s1=8": those of the job. */
void hn_tune_sizes_put(const hn_driver *d, const hn_tune_job *job, hn_strbuf *out);
/* Takes `more`, whose kernels follow those that are there. */
hn_status hn_tune_report_join(hn_tune_report *report, hn_tune_report *more) HN_MUST_USE;

#endif
