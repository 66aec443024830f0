/* part.h: taking nodes and outputs out of a graph so that a graph remains. Values that are made for
 * inputs live in `keep`, which outlives all graphs of a search. */
#ifndef HN_REDUCE_PART_H
#define HN_REDUCE_PART_H

#include "ir/graph.h"

/* What values hold, by number of the value; NULL: not known. */
typedef struct hn_part_values {
    const hn_example *const *items;
    uint32_t count;
} hn_part_values;

/* Keeps the nodes for which `kept` (by number) is true. What they take from others becomes an input
 * that holds the value, and what others take from them an output. Inputs and storages that nobody
 * takes are dropped, and so are outputs that are no tensors or that no node makes. An input whose
 * value is not known gets floats in [-1, 1), integers 0 or 1, of the sizes that are expected. */
hn_status hn_part_cut(hn_graph *graph, const bool *kept, const hn_part_values *values,
                      hn_arena *keep) HN_MUST_USE;
/* The same with all nodes. */
hn_status hn_part_tidy(hn_graph *graph, hn_arena *keep) HN_MUST_USE;
/* Drops one output, and what then has no use. */
hn_status hn_part_drop_output(hn_graph *graph, uint32_t output, hn_arena *keep) HN_MUST_USE;

#endif
