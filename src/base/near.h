/* near.h: for messages about a name that does not exist. */
#ifndef HN_BASE_NEAR_H
#define HN_BASE_NEAR_H

#include "base/str.h"

#include <stdint.h>

/* The k-th name; NULL or "" is left out. */
typedef const char *(*hn_near_name)(const void *user, uint32_t k);

/* Appends "did you mean 'a' or 'b'?" with up to three names that differ from `wanted` in few
 * letters; without any, "there are: 'a', 'b'" with the first eight names, or "there are none".
 * Latches in `out`. */
void hn_near_print(hn_strbuf *out, const char *wanted, uint32_t count, hn_near_name name_at,
                   const void *user);

#endif
