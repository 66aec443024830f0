/* henry/log.h: messages besides errors: warnings and, on request, what Henry does.
 *
 * The library is silent by default. To get messages, install a callback:
 *
 *     static void print(void *context, const hn_log_line *line) {
 *         fprintf(context, "%s: %s: %s\n", line->area, hn_log_level_name(line->level), line->text);
 *     }
 *     HN_TRY(hn_log_sink_set(print, logfile));
 *
 * Without a callback, lines are written to standard error, but only if levels were asked for: by
 * the environment variable HENRY_LOG or by hn_log_levels_set.
 *
 * Threads: all functions are safe from many threads. The settings are those of the process; a
 * forked child inherits them. */
#ifndef HENRY_LOG_H
#define HENRY_LOG_H

#include "henry/status.h"

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum hn_log_level {
    HN_LOG_ERROR,
    HN_LOG_WARN,
    HN_LOG_INFO,
    HN_LOG_DEBUG,
    HN_LOG_LEVEL_COUNT
} hn_log_level;

/* One line; borrowed for the call. */
typedef struct hn_log_line {
    hn_log_level level;
    const char *area; /* the part of Henry that logs: see hn_log_area_name */
    const char *text; /* without a line end */
} hn_log_line;

/* Gets each line that the levels let through.
 * Threads: called by the thread that logs, which may be one of Henry's own; several threads may
 * call it at the same time. Henry holds no lock meanwhile, so it may call Henry. Lines that Henry
 * would log during such a call are dropped. */
typedef void (*hn_log_fn)(void *context, const hn_log_line *line);

/* Installs the callback; NULL removes it. There is one per process. Returns when no other thread is
 * in the old callback, so its context may then be freed. Do not hold a lock that the old callback
 * takes. Called from inside a callback, it does not wait. Errors: out-of-memory. */
HN_API hn_status hn_log_sink_set(hn_log_fn callback, void *context) HN_MUST_USE;

/* A callback that writes "henry: AREA: LEVEL: TEXT" to standard error, one write for each line.
 * `context` is not used. */
HN_API void hn_log_to_stderr(void *context, const hn_log_line *line);

/* Says which lines are wanted, in the form of HENRY_LOG: levels and AREA:LEVEL, separated by
 * commas; "info" or "cache:debug,run:off". The levels are "off", "error", "warn", "info" and
 * "debug"; areas that are not named have level "warn", unless a level alone sets another. NULL:
 * what HENRY_LOG says. "": the default, which is "warn" with a callback and "off" without.
 * Errors: invalid-argument for an unknown level or area; the levels then stay as they were. If
 * HENRY_LOG is wrong and this function was not called to read it, that is a warning on standard
 * error, or to the callback. */
HN_API hn_status hn_log_levels_set(const char *levels) HN_MUST_USE;

/* "warning". Never NULL. */
HN_API const char *hn_log_level_name(hn_log_level level);
/* The areas by number, from 0; NULL after the last. */
HN_API const char *hn_log_area_name(uint32_t index);

#ifdef __cplusplus
}
#endif
#endif
