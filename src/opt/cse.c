/* cse.c: equal pure nodes become one.
 *
 * Algorithm: one sweep with a hash table of (op, arguments after replacement). Operands are
 * replaced as the sweep goes, so chains of equal nodes collapse at once.
 * Requires: nothing. Establishes: no two live pure nodes with equal op and arguments. Preserves:
 * order, dtypes, sizes.
 *
 *   %1 = exp(%x)  %2 = exp(%x)  %3 = add(%1, %2)      ->      %1 = exp(%x)  %3 = add(%1, %1) */
#include "opt/pass.h"

#include "base/hash.h"
#include "base/map.h"

#include <string.h>

typedef struct cse {
    hn_graph *g;
    hn_value *replaced; /* per value: what stands for it, 0: itself */
} cse;

static uint64_t hash_arg(const hn_arg *arg, uint64_t seed) {
    uint64_t head[2] = {arg->kind, arg->count};
    seed = hn_hash64(head, sizeof head, seed);
    switch (arg->kind) {
    case HN_ARG_VALUES:
    case HN_ARG_INTS: return hn_hash64(arg->as.values, arg->count * sizeof(uint32_t), seed);
    case HN_ARG_FLOATS: return hn_hash64(arg->as.floats, arg->count * sizeof(double), seed);
    case HN_ARG_STRING: return hn_hash64(arg->as.s.ptr, arg->as.s.len, seed);
    case HN_ARG_VALUE: return hn_hash64(&arg->as.value, sizeof arg->as.value, seed);
    case HN_ARG_INT: return hn_hash64(&arg->as.expr, sizeof arg->as.expr, seed);
    case HN_ARG_FLOAT: return hn_hash64(&arg->as.f, sizeof arg->as.f, seed);
    case HN_ARG_BOOL: return seed + arg->as.b;
    case HN_ARG_DTYPE: return seed + (uint64_t)arg->as.dtype;
    default: return seed;
    }
}

static bool same_arg(const hn_arg *a, const hn_arg *b) {
    if (a->kind != b->kind || a->count != b->count) return false;
    switch (a->kind) {
    case HN_ARG_VALUES:
    case HN_ARG_INTS: return memcmp(a->as.values, b->as.values, a->count * sizeof(uint32_t)) == 0;
    case HN_ARG_FLOATS: return memcmp(a->as.floats, b->as.floats, a->count * sizeof(double)) == 0;
    case HN_ARG_STRING: return hn_str_eq(a->as.s, b->as.s);
    case HN_ARG_VALUE: return a->as.value == b->as.value;
    case HN_ARG_INT: return a->as.expr == b->as.expr;
    /* NaN equals itself, -0 is not 0 */
    case HN_ARG_FLOAT: return memcmp(&a->as.f, &b->as.f, sizeof a->as.f) == 0;
    case HN_ARG_BOOL: return a->as.b == b->as.b;
    case HN_ARG_DTYPE: return a->as.dtype == b->as.dtype;
    case HN_ARG_GRAPH: return a->as.graph == b->as.graph;
    default: return true;
    }
}

static bool same_node(const hn_node_info *a, const hn_node_info *b) {
    if (a->op != b->op || a->arg_count != b->arg_count || a->result_count != b->result_count)
        return false;
    for (uint32_t k = 0; k < a->arg_count; k++)
        if (!same_arg(&a->args[k], &b->args[k])) return false;
    return true;
}

static hn_value current(const cse *c, hn_value v) { return c->replaced[v] ? c->replaced[v] : v; }

static hn_status replace_operands(cse *c, hn_node_info *n) {
    for (uint32_t k = 0; k < n->arg_count; k++) {
        hn_arg *arg = &n->args[k];
        if (arg->kind == HN_ARG_VALUE) arg->as.value = current(c, arg->as.value);
        if (arg->kind != HN_ARG_VALUES) continue;
        hn_value *list;
        HN_NEW(c->g->arena, list, arg->count);
        for (uint32_t i = 0; i < arg->count; i++) list[i] = current(c, arg->as.values[i]);
        arg->as.values = list;
    }
    return NULL;
}

/* Whether `b` may stand for `a` at an output: an output keeps its own layout in memory. */
static bool same_layout(const hn_graph *g, hn_value a, hn_value b) {
    const hn_value_info *x = hn_graph_value(g, a), *y = hn_graph_value(g, b);
    if (!x->strides || !y->strides) return !x->strides && !y->strides;
    return x->rank == y->rank && memcmp(x->strides, y->strides, x->rank * sizeof *x->strides) == 0;
}

/* Merging `node` into `first` must not take a layout from an output. */
static bool keeps_layouts(const hn_graph *g, const uint8_t *is_output, const hn_node_info *first,
                          const hn_node_info *node) {
    for (uint32_t k = 0; k < node->result_count; k++) {
        hn_value a = node->results[k], b = first->results[k];
        if (a && b && is_output[a] && !same_layout(g, a, b)) return false;
    }
    return true;
}

/* Subgraphs have no closures: each is a graph of its own. Recursion is as deep as graphs nest, which
 * the verifier bounds. */
static hn_status visit_subgraphs(const hn_node_info *n, hn_pass_context *context) {
    for (uint32_t k = 0; k < n->arg_count; k++)
        if (n->args[k].kind == HN_ARG_GRAPH) HN_TRY(hn_pass_cse(n->args[k].as.graph, context));
    return NULL;
}

/* Random numbers differ by their stream argument, so two equal RANDOM nodes are the same
 * numbers. */
hn_status hn_pass_cse(hn_graph *graph, hn_pass_context *context) {
    cse c = {.g = graph};
    hn_map seen; /* hash -> node; a clash of hashes only misses a merge */
    hn_map_init(&seen, context->scratch);
    HN_NEW(context->scratch, c.replaced, graph->values.count);
    uint8_t *is_output;
    HN_NEW(context->scratch, is_output, graph->values.count);
    for (uint32_t k = 0; k < graph->outputs.count; k++)
        is_output[graph->outputs.items[k].value] = 1;
    for (hn_node n = 1; n < graph->nodes.count; n++) {
        hn_node_info *node = hn_graph_node(graph, n);
        if (node->dead) continue;
        HN_TRY(replace_operands(&c, node));
        HN_TRY(visit_subgraphs(node, context));
        if (!hn_op_is_pure(node->op) || hn_op_is_aten(node->op)) continue;
        uint64_t hash = (uint64_t)node->op;
        for (uint32_t k = 0; k < node->arg_count; k++)
            hash = hash_arg(&node->args[k], hash * 31 + k);
        const uint64_t *found = hn_map_get(&seen, hash);
        if (!found) {
            HN_TRY(hn_map_put(&seen, hash, n));
            continue;
        }
        const hn_node_info *first = hn_graph_node(graph, (hn_node)*found);
        if (!same_node(first, node) || !keeps_layouts(graph, is_output, first, node)) continue;
        if (!hn_limit_allows(context->limit, "equal nodes become one", node->origin, first->origin))
            continue;
        for (uint32_t k = 0; k < node->result_count; k++)
            if (node->results[k] && first->results[k])
                c.replaced[node->results[k]] = first->results[k];
        node->dead = true;
    }
    for (uint32_t k = 0; k < graph->outputs.count; k++) {
        hn_output *out = &graph->outputs.items[k];
        if (out->value && c.replaced[out->value]) out->value = c.replaced[out->value];
    }
    hn_graph_compact(graph);
    return NULL;
}
