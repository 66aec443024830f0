/* tuning.h: the kernels of a schedule are timed in their forms: tuning.c, tuning_jobs.c; what came
 * out as a report: tuned.c. */
#ifndef HN_DRIVER_TUNING_H
#define HN_DRIVER_TUNING_H

#include "driver/forms.h"
#include "driver/picked.h"
#include "henry/tune.h"

/* A kernel, with all its equals. */
typedef struct hn_tune_kernel {
    hn_tunable t;
    hn_driver_level *level;
    uint32_t launches;
} hn_tune_kernel;

/* One at one set of sizes. */
typedef struct hn_tune_job {
    hn_tune_kernel *kernel;
    uint32_t sample;     /* of kernel->t.sizes; 0: the sizes that are expected */
    double predicted_ns; /* of all launches, in the form that is expected to be the fastest */
    /* the set, and besides, perhaps, the form that the planner makes by itself, which is in front at
     * the first sizes; by what is expected. The first form_count ones take part. `ns`: there */
    hn_variant entries[HN_VARIANTS_MAX + 1];
    const hn_form *forms[HN_VARIANTS_MAX + 1];
    uint32_t entry_count, form_count;
    bool has_extra; /* the planner's own is no part of the set */
    hn_tuned_how how;
    const char *why;          /* as in hn_tuned_kernel */
    hn_tuning_record *record; /* NULL: nothing is known */
    hn_forms_options options;
    hn_forms_race *race; /* NULL: there is none, or not yet */
    uint64_t timed_calls;
} hn_tune_job;

typedef struct hn_tune_jobs {
    hn_tune_job **items; /* in the order in which they are timed */
    uint32_t count, cap;
} hn_tune_jobs;

/* tuning_jobs.c: all kernels that this machine can run: at the sizes that are expected, those that take
 * most of a run in front; then at the other sizes. Owns: everything lives in the arena of the driver. */
hn_status hn_tune_jobs_list(hn_driver *d, hn_tune_jobs *out) HN_MUST_USE;

/* tuning.c: times what no record knows, as the options say. Nothing where nothing is to be timed.
 * d->picks->used are the records that decide, d->tuned is the report. */
hn_status hn_driver_tune(hn_driver *d) HN_MUST_USE;

/* tuned.c */
typedef struct hn_tune_totals {
    int64_t elapsed_ns;
    bool is_complete;
} hn_tune_totals;
/* Owns: the caller destroys the report; nothing in it is borrowed. */
hn_status hn_tune_report_make(hn_driver *d, const hn_tune_jobs *jobs, const hn_tune_totals *totals,
                              hn_tune_report **out) HN_MUST_USE;
/* Takes `more`, whose kernels follow those that are there. */
hn_status hn_tune_report_join(hn_tune_report *report, hn_tune_report *more) HN_MUST_USE;

#endif
