/* graph_cache.h: finished programs in the cache, and what belongs to one of them.
 *
 * The key record is that of key.h and the compiler's identity. Where no compiler is installed, an
 * entry tells the one that last compiled this graph:
 *   record of key.h                           -> "compiler": its identity
 * From there a program is found in three steps, each the read of an entry:
 *   key record                                -> "reads": the records whose values compilations
 *                                                of this graph computed with
 *   key, and the values of those in this file -> table of variants (cache/variants.h)
 *   table, and the sizes of the call          -> key of the program
 * A program whose weights lie in the model file serves each file with the same graph. A file that
 * was never verified on this machine is verified before; that it was is an entry, too. */
#ifndef HN_DRIVER_GRAPH_CACHE_H
#define HN_DRIVER_GRAPH_CACHE_H

#include "cache/cache.h"
#include "cache/transfer.h"
#include "driver/driver.h"
#include "front/importer.h"

typedef struct hn_graph_query {
    hn_cache *cache;
    hn_model_file *file;
    const char *path;
    hn_str content;  /* of a model in memory, in place of the path: as in hn_graph_key */
    hn_str record;   /* of the key */
    hn_str compiler; /* as in the record */
    hn_digest bare;  /* of the record without the compiler */
    const char *model;
    bool is_shared;   /* hn_driver_key_is_shared */
    bool is_verified; /* all of the file was compared with its checksums just now */
    uint32_t threads; /* to verify with */
} hn_graph_query;

/* Appends the identity of the compiler that last compiled a graph. */
bool hn_graph_cache_compiler(hn_cache *cache, const hn_digest *bare, hn_strbuf *out);

/* Looks for a program that takes the sizes (`inputs` NULL: the one for callers that say none):
 * fills image and statistics of `c`. An image that this build cannot read is a miss, and so is one
 * for a file that does not verify: the compilation that follows tells what is wrong with it. */
hn_cache_level hn_graph_cache_get(const hn_graph_query *query, const hn_input_sizes *inputs,
                                  uint32_t input_count, hn_compiled *c);

/* Stores a program with the keys of the kernels that it is made of, and that its weights were
 * verified. `is_default`: made without regard to the sizes of a call. Does nothing when the disk
 * refuses. */
void hn_graph_cache_put(const hn_graph_query *query, const hn_compiled *c, bool is_default,
                        const hn_digest *kernels, uint32_t kernel_count);

/* Appends the program under `key`, its kernels and what leads to it. Errors: not-found. */
hn_status hn_graph_cache_list(hn_cache *cache, const hn_digest *key,
                              hn_entry_list *out) HN_MUST_USE;
/* The same for every variant that is stored for a model. */
hn_status hn_graph_cache_list_model(const hn_graph_query *query, hn_entry_list *out) HN_MUST_USE;

/* Appends lines: the field in which the nearest stored program differs; where none does, what sizes
 * the stored ones take. */
hn_status hn_graph_cache_why(const hn_graph_query *query, hn_strbuf *out) HN_MUST_USE;

/* Appends everything that is stored of the programs of a model, as these options ask for it.
 * Errors: those of opening the model; not-found when it was not compiled yet. */
hn_status hn_driver_list_entries(const char *path, const hn_compile_options *options,
                                 hn_entry_list *out) HN_MUST_USE;

#endif
