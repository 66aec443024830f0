/* hop.h: reading nodes that hold graphs; what hop.c, hop_loop.c, hop_stack.c and
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

/* hop_numbers.c */

/* What a loop takes: tensors, and whole numbers, which may have a tensor, too. */
typedef struct hop_values {
    hn_value *items;  /* 0: only a number */
    hn_expr *numbers; /* 0: no number */
    uint32_t count;
} hop_values;

/* Of a body: symbols that stand for elements of tensors. */
typedef struct hop_number {
    hn_expr symbol;
    hn_value value; /* the tensor of one i64 */
    hn_value read;  /* what its ITEM gives */
} hop_number;
typedef struct hop_numbers {
    hop_number *items;
    uint32_t count, cap;
} hop_numbers;

/* The list in argument `at`; empty when there is none. */
hn_status hop_operands_read(hn_pt2_scope *scope, const hop_args *args, uint32_t at,
                            hop_values *out) HN_MUST_USE;
/* `count` absent ones. */
hn_status hop_values_make(hn_pt2_scope *scope, uint32_t count, hop_values *out) HN_MUST_USE;
void hop_values_put(hop_values *to, uint32_t at, const hop_values *from);
/* Numbers without a tensor get one of `g`. */
void hop_values_to_tensors(hn_graph *g, hop_values *list);
bool hop_has_numbers(const hop_values *list);
/* Whether something in the graph has a size, or is a number, that only the data tells. */
bool hop_has_data_sizes(const hn_pt2_graph_text *text);
/* A tensor of one i64 with the value of `e`. */
hn_value hop_number_build(hn_graph *g, const hop_numbers *known, hn_expr e);
/* Result `name` of an inner graph as a tensor. */
hn_status hop_result_read(hn_pt2_scope *inner, hn_str name, const hop_numbers *known,
                          hn_value *out) HN_MUST_USE;
/* Input `name` of an inner graph, a number, is the element of `tensor`. */
hn_status hop_number_bind(hn_pt2_scope *inner, hn_str name, hn_value tensor,
                          hop_numbers *known) HN_MUST_USE;
/* Removes the ITEMs whose symbols nothing in `g` uses. */
void hop_numbers_drop_unread(hn_graph *g, const hop_numbers *known);

/* hop_loop.c */

/* One round in `graph`: the body's nodes with its inputs bound to `operands`. */
hn_status hop_body_inline(hn_pt2_scope *outer, hn_graph *graph, const hn_pt2_graph_text *text,
                          hop_values operands, hop_values *out) HN_MUST_USE;
/* A value of `inner` like `v` of `outer`. */
hn_value hop_value_like(hn_graph *inner, const hn_graph *outer, hn_value v);
hn_status hop_graph_input(hn_graph *g, hn_value v) HN_MUST_USE;
hn_status hop_graph_output(hn_graph *g, hn_value v) HN_MUST_USE;

/* hop_rounds.c: how often a while_loop runs; -1: only running it tells. */
hn_status hop_rounds_read(hn_pt2_scope *scope, const hn_pt2_graph_text *cond,
                          const hn_pt2_graph_text *body, const hop_values *carried,
                          int64_t *out) HN_MUST_USE;

#endif
