/* dce.c: removes what no output needs.
 *
 * Algorithm: mark values backwards from the outputs and from ops with an effect (ASSERT), then drop
 * unmarked nodes. One sweep: nodes are in topological order. Inputs stay: a weight that nothing
 * reads is never emitted. A conditional or loop has an effect if a node inside has one; of the
 * results of a conditional those that nobody reads are not computed.
 * Requires: nothing. Establishes: every node has a used result or an effect. Preserves: everything
 * else.
 *
 *   %1 = exp(%x)   %2 = neg(%x)   output %2      ->      %2 = neg(%x)   output %2 */
#include "opt/pass.h"

static void mark(void *user, hn_value v) { ((uint8_t *)user)[v] = 1; }

/* Recursion is as deep as graphs nest, which the verifier bounds. */
static bool has_effect(const hn_node_info *n) {
    if (n->op != HN_OP_COND && n->op != HN_OP_LOOP) return !hn_op_is_pure(n->op);
    for (uint32_t k = 0; k < n->arg_count; k++) {
        const hn_graph *g = n->args[k].kind == HN_ARG_GRAPH ? n->args[k].as.graph : NULL;
        for (hn_node i = 1; g && i < g->nodes.count; i++)
            if (!g->nodes.items[i].dead && has_effect(&g->nodes.items[i])) return true;
    }
    return false;
}

/* Results that nobody reads become absent ones. */
static hn_status drop_results(hn_graph *g, hn_node_info *n, const uint8_t *used) {
    hn_value *results;
    if (n->op != HN_OP_COND) return NULL;
    HN_NEW(g->arena, results, n->result_count);
    for (uint32_t k = 0; k < n->result_count; k++)
        results[k] = used[n->results[k]] ? n->results[k] : 0;
    n->results = results;
    return NULL;
}

static bool is_needed(const hn_node_info *n, const uint8_t *used) {
    if (has_effect(n)) return true;
    for (uint32_t k = 0; k < n->result_count; k++)
        if (n->results[k] && used[n->results[k]]) return true;
    return false;
}

static hn_status visit_subgraphs(const hn_node_info *n, hn_pass_context *context) {
    for (uint32_t k = 0; k < n->arg_count; k++)
        if (n->args[k].kind == HN_ARG_GRAPH) HN_TRY(hn_pass_dce(n->args[k].as.graph, context));
    return NULL;
}

hn_status hn_pass_dce(hn_graph *graph, hn_pass_context *context) {
    uint8_t *used;
    HN_NEW(context->scratch, used, graph->values.count);
    for (uint32_t k = 0; k < graph->outputs.count; k++) mark(used, graph->outputs.items[k].value);
    for (hn_node n = graph->nodes.count; n-- > 1;) {
        hn_node_info *node = hn_graph_node(graph, n);
        if (node->dead) continue;
        if (!is_needed(node, used) &&
            hn_limit_allows(context->limit, "a node that nothing needs goes", node->origin, 0)) {
            node->dead = true;
            continue;
        }
        HN_TRY(drop_results(graph, node, used));
        hn_node_each_value(node, mark, used);
        HN_TRY(visit_subgraphs(node, context));
    }
    hn_graph_compact(graph);
    return NULL;
}
