/* graph_index.h: the entries that lead to the programs of a graph, and marks of verified files. Of
 * the graph cache alone. */
#ifndef HN_DRIVER_GRAPH_INDEX_H
#define HN_DRIVER_GRAPH_INDEX_H

#include "bundle/view.h"
#include "cache/variants.h"
#include "driver/graph_cache.h"

/* Where the programs of a graph, for the values of weights in one file, are listed. */
typedef struct hn_graph_place {
    hn_digest compiler; /* key of the compiler that last compiled the graph */
    /* key of the list of reads; of the values; key of the table of variants */
    hn_digest base, values, table;
    hn_digest places; /* where the weights lie in the file */
} hn_graph_place;

/* The key of that compiler. `bare`: as in the query. */
hn_digest hn_graph_compiler_key(const hn_digest *bare);

/* The key of the variant that takes the sizes. */
bool hn_graph_index_find(const hn_graph_query *query, const hn_input_sizes *inputs,
                         uint32_t input_count, hn_digest *out_key);
/* The place for a program of this file: of what the compilation that has just been made (if one
 * was) and earlier ones read. Errors: those of reading the file. */
hn_status hn_graph_index_place(const hn_graph_query *query, hn_graph_place *out) HN_MUST_USE;
/* The key record of programs there. Latches in `out`. */
void hn_graph_place_record(const hn_graph_query *query, const hn_graph_place *place,
                           hn_strbuf *out);
hn_digest hn_graph_program_key(const hn_graph_place *place, hn_str guards);
/* Publishes the list of reads and the table with one more variant. */
void hn_graph_index_add(const hn_graph_query *query, const hn_graph_place *place,
                        const hn_variant *variant);
/* Every variant of the model, the oldest first. Errors: not-found. */
typedef void (*hn_variant_visitor)(void *user, const hn_variant *variant);
hn_status hn_graph_index_each(const hn_graph_query *query, hn_variant_visitor visit,
                              void *user) HN_MUST_USE;

/* Whether the weights of the file agree with its checksums: remembered, or compared now. */
bool hn_graph_file_verified(const hn_graph_query *query, hn_digest *out_places);
void hn_graph_file_mark(const hn_graph_query *query, const hn_digest *places);

#endif
