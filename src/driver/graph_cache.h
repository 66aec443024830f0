/* graph_cache.h: finished programs in the cache, and what belongs to one of them. */
#ifndef HN_DRIVER_GRAPH_CACHE_H
#define HN_DRIVER_GRAPH_CACHE_H

#include "cache/cache.h"
#include "cache/transfer.h"
#include "driver/driver.h"

/* Looks a program up: fills image and statistics of `c`. An image that this build cannot read is a miss. */
hn_cache_level hn_graph_cache_get(hn_cache *cache, const hn_digest *key, hn_compiled *c);

/* Stores a program, with the keys of the kernels that it is made of. */
void hn_graph_cache_put(hn_cache *cache, const hn_digest *key, hn_str record, const hn_compiled *c,
                        const hn_digest *kernels, uint32_t kernel_count);

/* Appends the program under `key` and its kernels to the list. Errors: not-found. */
hn_status hn_graph_cache_list(hn_cache *cache, const hn_digest *key, hn_entry_list *out) HN_MUST_USE;

/* Appends everything that is stored of the program of a model, as these options ask for it. Errors: those of opening
 * the model; not-found when it was not compiled yet. */
hn_status hn_driver_list_entries(const char *path, const hn_compile_options *options, hn_entry_list *out) HN_MUST_USE;

#endif
