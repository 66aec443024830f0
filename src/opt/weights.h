/* weights.h: dividing a graph into a program of weights and the rest; for weights.c. */
#ifndef HN_OPT_WEIGHTS_H
#define HN_OPT_WEIGHTS_H

#include "base/map.h"
#include "opt/pass.h"

typedef struct hn_weights_split {
    hn_graph *from, *to;
    hn_arena *scratch;
    hn_value *copies;   /* per value of `from`: the same in `to`; 0: it is not there */
    uint32_t *inputs;   /* per value of `from`: 1 + the input that it is */
    uint32_t *storages; /* per storage of `from`: the same in `to` */
} hn_weights_split;

hn_status hn_weights_split_begin(hn_graph *graph, hn_arena *scratch,
                                 hn_weights_split *out) HN_MUST_USE;
/* The node is in the program, too. In the order of nodes. */
hn_status hn_weights_split_copy(hn_weights_split *s, hn_node n) HN_MUST_USE;
/* The value, whose node was copied, is a constant from here on, which the program computes. Where
 * it is an output, its node becomes a copy of that. */
hn_status hn_weights_split_keep(hn_weights_split *s, hn_value v, bool is_output) HN_MUST_USE;
/* The graph has the program, and no nodes that are dead. */
hn_status hn_weights_split_end(hn_weights_split *s) HN_MUST_USE;

#endif
