/* log.h: levelled lines on stderr, chosen by HENRY_LOG ("cache:debug,pass:info"; "info" for all; levels
 * off, error, warn, info, debug). */
#ifndef HN_BASE_LOG_H
#define HN_BASE_LOG_H

#include "henry/status.h"

#include <stdbool.h>

typedef enum hn_log_level { HN_LOG_ERROR, HN_LOG_WARN, HN_LOG_INFO, HN_LOG_DEBUG } hn_log_level;

/* Whether a line of this area and level is wanted. Default: warnings and errors. */
bool hn_log_on(const char *area, hn_log_level level);
/* One line: "henry: cache: warning: text". Threads: safe; one write per line. */
void hn_log(const char *area, hn_log_level level, const char *fmt, ...) HN_PRINTF(3, 4);
/* Like hn_log at warning level, but once per process for each `key`. */
void hn_warn_once(const char *area, const char *key, const char *fmt, ...) HN_PRINTF(3, 4);
/* Replaces the HENRY_LOG setting; NULL restores the environment's. */
void hn_log_configure(const char *spec);

#endif
