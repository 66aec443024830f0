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

#ifdef __cplusplus
}
#endif
#endif
