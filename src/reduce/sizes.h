/* sizes.h: the same graph with smaller tensors. */
#ifndef HN_REDUCE_SIZES_H
#define HN_REDUCE_SIZES_H

#include "ir/graph.h"

/* Every size that is a multiple of `from` becomes that multiple of `to`, also where it stands as an
 * argument, and tensors with values are cut. Whether the graph then still is one, and means
 * anything, shows when it is compiled. Bytes that are made live in `keep`. Shapes: known sizes
 * only; symbols stay. */
hn_status hn_sizes_shrink(hn_graph *graph, int64_t from, int64_t to, hn_arena *keep) HN_MUST_USE;
/* The known sizes above 1, the largest first, each once. Owns: in `arena`. */
hn_status hn_sizes_list(const hn_graph *graph, hn_arena *arena, int64_t **out,
                        uint32_t *out_count) HN_MUST_USE;
/* Elements of all inputs and results. */
uint64_t hn_sizes_elements(const hn_graph *graph);

#endif
