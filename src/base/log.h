/* log.h: saying something besides errors. Who hears it is decided by the program and HENRY_LOG:
 * henry/log.h. */
#ifndef HN_BASE_LOG_H
#define HN_BASE_LOG_H

#include "henry/log.h"

#include <stdbool.h>

/* Whether a line of this area and level is wanted. `area`: one of hn_log_area_name. */
bool hn_log_on(const char *area, hn_log_level level);
/* One line. Threads: safe. With a lock of base/lock.h held, it goes to the program when the last
 * one is given back. */
void hn_log(const char *area, hn_log_level level, const char *fmt, ...) HN_PRINTF(3, 4);
/* Like hn_log at warning level, but once per process for each `key`. */
void hn_warn_once(const char *area, const char *key, const char *fmt, ...) HN_PRINTF(3, 4);
/* hn_log_levels_set for callers that have nobody to tell: unknown names are a warning. */
void hn_log_configure(const char *levels);

/* log_sink.c: where lines go. */

/* Whether the program has a callback. */
bool hn_log_has_sink(void);
/* Hands a line to the callback, or writes it to standard error where there is none; both may be put
 * off, see hn_log_hold. */
void hn_log_deliver(const hn_log_line *line);
/* Between these this thread's lines are kept back; they nest. For base/lock.h. */
void hn_log_hold(void);
void hn_log_release(void);

#endif
