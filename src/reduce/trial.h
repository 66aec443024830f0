/* trial.h: whether a slice of a model fails, and how. It is compiled and run in a child process
 * with limits, so that a crash or an endless loop is a result. */
#ifndef HN_REDUCE_TRIAL_H
#define HN_REDUCE_TRIAL_H

#include "driver/driver.h"
#include "henry/module.h"
#include "reduce/slice.h"

#include <signal.h>

typedef enum hn_failure_kind {
    HN_FAILURE_NONE,
    HN_FAILURE_DIFFERS,    /* an output is not that of the reference interpreter */
    HN_FAILURE_NOT_FINITE, /* an output is NaN or infinite where the reference is finite */
    HN_FAILURE_ERROR,      /* an error of compiling or running */
    HN_FAILURE_CRASH,      /* the process ended without a verdict */
    HN_FAILURE_HANG,       /* it took longer than the limit */
    HN_FAILURE_TEST,       /* the user's command failed */
    HN_FAILURE_CANCELLED   /* no verdict: somebody asked to stop */
} hn_failure_kind;

/* How far a trial has come. */
typedef enum hn_trial_stage {
    HN_TRIAL_COMPILE,
    HN_TRIAL_RUN,
    HN_TRIAL_REFERENCE, /* what fails here fails in what judges, and says nothing of the slice */
    HN_TRIAL_COMMAND
} hn_trial_stage;

typedef struct hn_failure {
    hn_failure_kind kind;
    hn_trial_stage stage;
    int code;       /* hn_code of an error, signal of a crash, exit status of a command */
    char where[96]; /* of an error: the file that made it, and the line */
    int line;
    char text[400];
} hn_failure;

typedef struct hn_trial_options {
    const hn_compile_options *compile; /* borrowed, as all that follows */
    const hn_module_options *load;
    double rtol, atol; /* negative: what only a fault exceeds (hn_subject_tolerance) */
    const char *test;  /* a command of the shell that gets the file; NULL: the reference judges */
    const char *path;  /* of `test`: where slices are written */
    int64_t limit_ms;
    uint64_t memory_bytes;
    /* the interpreter judges, also where it takes minutes; else programs without fusion judge large
     * graphs */
    bool interprets;
    const volatile sig_atomic_t *stop; /* not 0: end soon */
} hn_trial_options;

/* Errors: those of starting a process, not those of the slice. */
hn_status hn_trial_run(const hn_slice *slice, const hn_trial_options *options,
                       hn_failure *out) HN_MUST_USE;
/* Whether two failures are one and the same: kind, stage, and the place of an error. */
bool hn_failure_same(const hn_failure *a, const hn_failure *b);
/* "crash". */
const char *hn_failure_name(hn_failure_kind kind);

/* What each tensor of a slice holds in a run by the reference, by the order of the nodes' results
 * that are tensors. Owns: in `arena`. `*out_count` 0: the reference cannot run the slice. */
hn_status hn_trial_record(hn_slice *slice, const hn_trial_options *options, hn_arena *arena,
                          const hn_example ***out, uint32_t *out_count) HN_MUST_USE;

#endif
