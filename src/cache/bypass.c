/* bypass.c: names of the reasons for which the cache is passed by. */
#include "henry/cache.h"

const char *hn_cache_bypass_name(hn_cache_bypass reason) {
    static const char *const names[HN_BYPASS_COUNT] = {
        "none",      "off",       "options",   "no_key",    "uncovered",
        "no_folder", "read_only", "too_large", "disk_full", "disk_error"};
    return (unsigned)reason < HN_BYPASS_COUNT ? names[reason] : names[0];
}
