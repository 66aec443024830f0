/* trace.h: monotonic time and spans in the Chrome trace format. */
#ifndef HN_BASE_TRACE_H
#define HN_BASE_TRACE_H

#include "base/str.h"
#include "henry/status.h"

#include <stdint.h>

/* Monotonic clock, nanoseconds. */
int64_t hn_now_ns(void);

/* Spans are recorded only between hn_trace_start and hn_trace_write or _take. Threads: safe. */
void hn_trace_start(void);
void hn_trace_span(const char *category, const char *name, int64_t begin_ns, int64_t end_ns);
/* The same for what does not happen in the calling thread. Viewers nest the spans of one line:
 * these must not overlap otherwise. `worker`: which one did it, from 1; each has a line. */
void hn_trace_span_worker(uint32_t worker, const char *category, const char *name, int64_t begin_ns,
                          int64_t end_ns);
/* Any number of these may overlap: each has an `id` of its own, not 0. */
void hn_trace_span_free(uint64_t id, const char *category, const char *name, int64_t begin_ns,
                        int64_t end_ns);
/* Writes the JSON file and stops. */
hn_status hn_trace_write(const char *path) HN_MUST_USE;
/* Appends the text of that file and stops. Errors: invalid-argument when no trace was started;
 * out-of-memory. */
hn_status hn_trace_take(hn_strbuf *out) HN_MUST_USE;

#endif
