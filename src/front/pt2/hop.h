/* hop.h: reading nodes that hold graphs; what hop.c, hop_loop.c and
 * hop_rounds.c share. Internal to front/pt2. */
#ifndef HN_FRONT_PT2_HOP_H
#define HN_FRONT_PT2_HOP_H

#include "front/pt2/import.h"

/* The arguments of a node by position. */
typedef struct hop_args {
    hn_pt2_place items[64];
    uint32_t count;
} hop_args;

hn_status hop_args_read(const hn_pt2_scope *scope, const hn_pt2_node_text *node,
                        hop_args *out) HN_MUST_USE;
/* Argument k, which must be a graph. */
hn_status hop_graph(const hop_args *args, uint32_t k, hn_pt2_graph_text *out) HN_MUST_USE;
/* The name in one argument; "" for what is none. */
hn_status hop_argument_name(hn_json *json, hn_str *out) HN_MUST_USE;
/* A node's outputs, or a graph's inputs or outputs, flattened to names; "" for what has none. */
hn_status hop_names(hn_json json, hn_arena *arena, hn_str **out, uint32_t *out_count) HN_MUST_USE;
/* A scope for `text` whose nodes go into `graph`; the caller counts im->depth down when it
 * leaves. */
hn_status hop_enter(hn_pt2_scope *inner, hn_pt2_scope *outer, hn_graph *graph,
                    const hn_pt2_graph_text *text) HN_MUST_USE;
/* hop_rounds.c: how often a while_loop runs; -1: only running it tells. */
hn_status hop_rounds_read(hn_pt2_scope *scope, const hn_pt2_graph_text *cond,
                          const hn_pt2_graph_text *body, const hn_value *carried, uint32_t count,
                          int64_t *out) HN_MUST_USE;

#endif
