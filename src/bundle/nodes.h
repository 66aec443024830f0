/* nodes.h: expressions as nodes of one straight-line program: making, reading and printing them.
 * What a node means is in format.h; evaluating a bundle's is in view.h. */
#ifndef HN_BUNDLE_NODES_H
#define HN_BUNDLE_NODES_H

#include "base/arena.h"
#include "base/map.h"
#include "base/str.h"
#include "bundle/format.h"

/* A program that is being made. */
typedef struct hn_nodes {
    hn_arena *arena;
    hnb_node *items; /* [0] filler */
    uint32_t count, cap;
    hn_map known; /* hash of a node -> its number */
} hn_nodes;

/* With the filler. Owns: lists live in `arena`. */
hn_status hn_nodes_init(hn_nodes *nodes, hn_arena *arena) HN_MUST_USE;
/* Equal nodes are one. Operands must be there. */
hn_status hn_nodes_add(hn_nodes *nodes, hnb_op op, uint32_t a, int64_t b,
                       uint32_t *out_node) HN_MUST_USE;

/* Whether the expression is a number. */
bool hn_nodes_const(const hnb_node *nodes, uint32_t node, int64_t *out_value);

/* A program to be printed, and what its symbols are called. */
typedef struct hn_named_nodes {
    const hnb_node *nodes;
    hn_str (*name)(const void *context, uint32_t symbol);
    const void *context;
} hn_named_nodes;

/* "2*s0 + 7"; "?" for 0. Long expressions are cut with "...". */
void hn_nodes_print(const hn_named_nodes *names, uint32_t node, hn_strbuf *out);

#endif
