/* dce.c: removes what no output needs.
 *
 * Algorithm: mark values backwards from the outputs and from ops with an effect (ASSERT), then drop
 * unmarked nodes. One sweep: nodes are in topological order. Inputs stay: a weight that nothing
 * reads is never emitted.
 * Requires: nothing. Establishes: every node has a used result or an effect. Preserves: everything
 * else.
 *
 *   %1 = exp(%x)   %2 = neg(%x)   output %2      ->      %2 = neg(%x)   output %2 */
#include "opt/pass.h"

static void mark(void *user, hn_value v) { ((uint8_t *)user)[v] = 1; }

static bool is_needed(const hn_node_info *n, const uint8_t *used) {
    if (!hn_op_is_pure(n->op)) return true;
    for (uint32_t k = 0; k < n->result_count; k++)
        if (n->results[k] && used[n->results[k]]) return true;
    return false;
}

/* Recursion is as deep as graphs nest, which the verifier bounds. */
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
        hn_node_each_value(node, mark, used);
        HN_TRY(visit_subgraphs(node, context));
    }
    hn_graph_compact(graph);
    return NULL;
}
