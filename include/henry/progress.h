/* henry/progress.h: the progress of compilations, of kernels (henry/kernel.h) and of a model
 * (henry/program.h). */
#ifndef HENRY_PROGRESS_H
#define HENRY_PROGRESS_H

#include "henry/status.h"

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct hn_scope_progress {
    uint32_t total, done, failed;
    uint32_t hits;    /* of the finished: found in a cache */
    uint32_t workers; /* worker processes now */
    /* of the unfinished: another process compiles it, and this one waits for the result */
    uint32_t elsewhere;
    const char *waiting_for; /* name of the first unfinished kernel; NULL when all are done */
    int64_t elapsed_ns;      /* since the wait began */
} hn_scope_progress;
/* One line about it, for a terminal: "3/10, 1 hits, 2 workers, kernel softmax_7". Returns `out`. */
HN_API const char *hn_scope_progress_line(const hn_scope_progress *progress, char *out,
                                          size_t bytes);
/* Called by the waiting thread when something finished, and every 100 ms. Return false to cancel
 * the rest. */
typedef bool (*hn_scope_progress_fn)(void *context, const hn_scope_progress *progress);

/* Of a tuning (henry/tune.h): which kernel's forms are timed next. */
typedef struct hn_tune_progress {
    uint32_t done, total; /* kernels at sets of sizes: timed so far, and in all */
    const char *kernel;   /* the node that it is named after */
    const char *sizes;    /* "s0=64 s1=8"; "": all its sizes are known */
    uint32_t forms;       /* that race, before a search */
    int64_t elapsed_ns;   /* of the tuning, */
    int64_t budget_ns;    /* of so many */
} hn_tune_progress;
/* Called by the thread that tunes. Texts are there until it returns. Return false to cancel all of
 * it. */
typedef bool (*hn_tune_progress_fn)(void *context, const hn_tune_progress *progress);

#ifdef __cplusplus
}
#endif
#endif
