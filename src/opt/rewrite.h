/* rewrite.h: the walk that rewriting passes share. The node list is set aside and built anew: each
 * old node is shown once, in order, with operands that are final; the pass either keeps it or gives
 * values that stand for its results. What builders append in between lands in the new list, so the
 * order stays topological by itself.
 *
 *   HN_TRY(hn_rewrite_begin(&r, graph, scratch));
 *   for (const hn_node_info *n; (n = hn_rewrite_next(&r));)
 *       HN_TRY(found ? hn_rewrite_replace(&r, results) : hn_rewrite_keep(&r));
 *   HN_TRY(hn_rewrite_end(&r));
 *
 * Producers (hn_value_info.producer) may be followed from the operands of the current node; they
 * all lie in the new list. Nodes that nothing needs are not shown and not kept. After an error the
 * graph is half rewritten and must be dropped. */
#ifndef HN_OPT_REWRITE_H
#define HN_OPT_REWRITE_H

#include "ir/build.h"

typedef struct hn_rewrite {
    hn_graph *g;
    hn_arena *scratch;
    hn_node_info *old_nodes;
    uint32_t old_count, next;
    uint32_t value_count; /* values that existed before; `map`, `is_output` have that many */
    hn_value *map;        /* old value -> new value; 0: none (yet) */
    uint8_t *is_output;
    struct {
        uint32_t *items;
        uint32_t count, cap;
    } uses;            /* by value, see hn_rewrite_uses */
    uint32_t counted;  /* new nodes whose operands are in `uses` */
    hn_node_info node; /* the current one */
} hn_rewrite;

hn_status hn_rewrite_begin(hn_rewrite *r, hn_graph *graph, hn_arena *scratch) HN_MUST_USE;
/* The next needed node; NULL behind the last. Valid until the next call. Its results are still the
 * old values, whose dtype and sizes say what a replacement must have. */
const hn_node_info *hn_rewrite_next(hn_rewrite *r);
hn_status hn_rewrite_keep(hn_rewrite *r) HN_MUST_USE;
/* `results` has the current node's result_count entries; 0 is allowed for those that nothing uses.
 * Errors: the graph's latched one; internal when dtype or sizes differ from the old result's. */
hn_status hn_rewrite_replace(hn_rewrite *r, const hn_value *results) HN_MUST_USE;
/* Redirects and lays out the outputs and removes what became dead. */
hn_status hn_rewrite_end(hn_rewrite *r) HN_MUST_USE;

/* Gives the user output, whose value stands for `old` now, the strides of `old`. An input, or a
 * value that an earlier output has laid out in another way, cannot take them and is copied.
 * `claimed`: by value, of all there were before; true once laid out. */
hn_status hn_rewrite_lay_out(hn_graph *graph, hn_output *output, hn_value old,
                             bool *claimed) HN_MUST_USE;

/* How many operands and outputs read the value, those behind the current node included. Repeated
 * operands count each time. */
uint32_t hn_rewrite_uses(const hn_rewrite *r, hn_value v);
/* Whether a result of the current node is an output of the graph. */
static inline bool hn_rewrite_is_output(const hn_rewrite *r, hn_value old) {
    return old < r->value_count && r->is_output[old];
}

/* The node that makes `v`, when its op is `op`; NULL otherwise. */
static inline const hn_node_info *hn_made_by(const hn_graph *g, hn_value v, hn_op op) {
    hn_node n = v ? g->values.items[v].producer : 0;
    return n && g->nodes.items[n].op == op ? &g->nodes.items[n] : NULL;
}

#endif
