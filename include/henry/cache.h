/* henry/cache.h: why a result was not cached, in the statistics of compilations (henry/program.h)
 * and of the compile service (henry/kernel.h). */
#ifndef HENRY_CACHE_H
#define HENRY_CACHE_H

#include "henry/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Why a compiled program or kernel was not stored, or not looked up. New reasons are appended. */
typedef enum hn_cache_bypass {
    HN_BYPASS_NONE,
    HN_BYPASS_OFF, /* "off": the caller asked for no cache */
    /* "options": an option was given whose results are not kept, such as dump_after or
     * safetensors */
    HN_BYPASS_OPTIONS,
    /* "no_key": the key could not be computed, for example without a compiler */
    HN_BYPASS_NO_KEY,
    /* "uncovered": the compiler may have read something that the key does not cover */
    HN_BYPASS_UNCOVERED,
    HN_BYPASS_NO_FOLDER, /* "no_folder": the cache directory cannot be used, or is not a cache */
    /* "read_only": it was looked up, but the cache directory cannot be written to */
    HN_BYPASS_READ_ONLY,
    HN_BYPASS_TOO_LARGE,  /* "too_large": larger than the whole cache or than files may be */
    HN_BYPASS_DISK_FULL,  /* "disk_full" */
    HN_BYPASS_DISK_ERROR, /* "disk_error": any other error of writing */
    HN_BYPASS_COUNT
} hn_cache_bypass;

/* The words above; "none" for HN_BYPASS_NONE and for unknown numbers. Static storage. */
HN_API const char *hn_cache_bypass_name(hn_cache_bypass reason);

#ifdef __cplusplus
}
#endif
#endif
