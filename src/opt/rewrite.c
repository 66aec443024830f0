/* rewrite.c: the walk that rewriting passes share, see rewrite.h.
 *
 * Requires: topological order. Preserves: names, origins, the strides that outputs record. An
 * output whose new value cannot take its layout (an input, or a value that an earlier output has
 * laid out in another way) is copied. */
#include "opt/rewrite.h"

#include "ir/check.h"

#include <string.h>

/* --- what is needed --- */

static void count_use(void *user, hn_value v) { ((uint32_t *)user)[v]++; }

static bool is_needed(const hn_node_info *n, const uint32_t *uses) {
    if (!hn_op_is_pure(n->op)) return true;
    for (uint32_t k = 0; k < n->result_count; k++)
        if (n->results[k] && uses[n->results[k]]) return true;
    return false;
}

static void mark_output(hn_rewrite *r, hn_value v) {
    if (!v) return;
    r->uses.items[v]++;
    r->is_output[v] = 1;
}

/* One sweep backwards; nodes that nothing needs are marked dead. */
static void find_needed(hn_rewrite *r) {
    hn_graph *g = r->g;
    for (uint32_t k = 0; k < g->outputs.count; k++) {
        const hn_output *output = &g->outputs.items[k];
        mark_output(r, output->value);
        if (output->scalar.kind == HN_ARG_VALUE) mark_output(r, output->scalar.as.value);
    }
    for (hn_node n = r->old_count; n-- > 1;) {
        hn_node_info *node = &r->old_nodes[n];
        if (node->dead) continue;
        if (is_needed(node, r->uses.items)) hn_node_each_value(node, count_use, r->uses.items);
        else node->dead = true;
    }
}

hn_status hn_rewrite_begin(hn_rewrite *r, hn_graph *graph, hn_arena *scratch) {
    *r = (hn_rewrite){.g = graph,
                      .scratch = scratch,
                      .old_nodes = graph->nodes.items,
                      .old_count = graph->nodes.count,
                      .value_count = graph->values.count,
                      .next = 1};
    HN_NEW(scratch, r->map, r->value_count);
    HN_NEW(scratch, r->is_output, r->value_count);
    HN_NEW(scratch, r->uses.items, r->value_count);
    r->uses.count = r->uses.cap = r->value_count;
    find_needed(r);
    for (uint32_t v = 1; v < r->value_count; v++) {
        hn_value_info *info = &graph->values.items[v];
        if (!info->producer) r->map[v] = v;
        info->producer = 0; /* until its node is in the new list */
    }
    graph->nodes.items = NULL;
    graph->nodes.count = graph->nodes.cap = 0;
    HN_TRY(hn_arena_grow(graph->arena, &graph->nodes.items, &graph->nodes.cap, 0,
                         r->old_count + r->old_count / 8 + 8, sizeof *graph->nodes.items));
    graph->nodes.items[graph->nodes.count++] = (hn_node_info){.dead = true}; /* id 0 is invalid */
    r->counted = graph->nodes.count;
    return NULL;
}

/* --- counting uses --- */

typedef struct use_walk {
    hn_rewrite *r;
    struct {
        hn_value *items;
        uint32_t count, cap;
    } stack;
    hn_status failed;
} use_walk;

static void push_use(void *user, hn_value v) {
    use_walk *w = user;
    hn_rewrite *r = w->r;
    if (w->failed || r->uses.items[v] == 0 || --r->uses.items[v] > 0) return;
    if (w->stack.count == w->stack.cap)
        w->failed = hn_arena_grow(r->scratch, &w->stack.items, &w->stack.cap, w->stack.count,
                                  w->stack.count + 1, sizeof v);
    if (!w->failed) w->stack.items[w->stack.count++] = v;
}

/* The node reads its operands no more; what nothing reads then, reads nothing either. */
static hn_status release_operands(hn_rewrite *r, const hn_node_info *node) {
    use_walk w = {.r = r};
    hn_node_each_value(node, push_use, &w);
    while (!w.failed && w.stack.count) {
        hn_node producer = r->g->values.items[w.stack.items[--w.stack.count]].producer;
        if (producer && hn_op_is_pure(r->g->nodes.items[producer].op) &&
            r->g->nodes.items[producer].result_count == 1)
            hn_node_each_value(&r->g->nodes.items[producer], push_use, &w);
    }
    return w.failed;
}

/* Nodes that builders have appended since the last call. */
static hn_status count_fresh_nodes(hn_rewrite *r) {
    hn_graph *g = r->g;
    if (r->uses.count < g->values.count) {
        HN_TRY(hn_arena_grow(r->scratch, &r->uses.items, &r->uses.cap, r->uses.count,
                             g->values.count, sizeof *r->uses.items));
        memset(r->uses.items + r->uses.count, 0,
               (g->values.count - r->uses.count) * sizeof *r->uses.items);
        r->uses.count = g->values.count;
    }
    for (; r->counted < g->nodes.count; r->counted++)
        hn_node_each_value(&g->nodes.items[r->counted], count_use, r->uses.items);
    return NULL;
}

/* --- nodes --- */

static hn_value mapped(const hn_rewrite *r, hn_value v) { return v && r->map[v] ? r->map[v] : v; }

const hn_node_info *hn_rewrite_next(hn_rewrite *r) {
    while (r->next < r->old_count && r->old_nodes[r->next].dead) r->next++;
    if (r->next >= r->old_count) return NULL;
    r->node = r->old_nodes[r->next++];
    for (uint32_t k = 0; k < r->node.arg_count; k++) {
        hn_arg *arg = &r->node.args[k];
        if (arg->kind == HN_ARG_VALUE) arg->as.value = mapped(r, arg->as.value);
        if (arg->kind != HN_ARG_VALUES) continue;
        /* the graph's own copy, made by add_node */
        hn_value *list = (hn_value *)(uintptr_t)arg->as.values;
        for (uint32_t i = 0; i < arg->count; i++) list[i] = mapped(r, list[i]);
    }
    r->g->current_origin = r->node.origin;
    return &r->node;
}

hn_status hn_rewrite_keep(hn_rewrite *r) {
    hn_graph *g = r->g;
    HN_TRY(hn_graph_status(g));
    HN_TRY(count_fresh_nodes(r));
    HN_PUSH(g->arena, &g->nodes, r->node);
    r->counted = g->nodes.count; /* its operands were counted at the beginning */
    for (uint32_t k = 0; k < r->node.result_count; k++) {
        hn_value v = r->node.results[k];
        if (!v) continue;
        g->values.items[v].producer = g->nodes.count - 1;
        r->map[v] = v;
    }
    return NULL;
}

/* A literal 1 may come where a size is equal to it, but nothing else where one stood: it
 * broadcasts. */
static bool size_replaces(hn_graph *g, hn_expr old, hn_expr fresh) {
    if (hn_same_sizes(g, &old, &fresh, 1)) return true;
    return hn_sym_is_value(g->sym, fresh, 1) && hn_sizes_agree(g, old, fresh);
}

static bool same_meta(hn_graph *g, const hn_value_info *a, const hn_value_info *b) {
    if (a->kind != b->kind) return false;
    if (a->kind != HN_VALUE_TENSOR) return true;
    if (a->dtype != b->dtype || a->rank != b->rank) return false;
    for (uint32_t k = 0; k < a->rank; k++)
        if (!size_replaces(g, a->sizes[k], b->sizes[k])) return false;
    return true;
}

/* The new value takes the old one's name unless it has one, or is an input. */
static void take_name(hn_graph *g, hn_value old, hn_value fresh) {
    hn_value_info *from = &g->values.items[old], *to = &g->values.items[fresh];
    if (to->producer == 0 || to->name.len) return;
    to->name = from->name;
    from->name = HN_STR("");
}

hn_status hn_rewrite_replace(hn_rewrite *r, const hn_value *results) {
    hn_graph *g = r->g;
    HN_TRY(hn_graph_status(g));
    HN_TRY(count_fresh_nodes(r));
    for (uint32_t k = 0; k < r->node.result_count; k++) {
        hn_value old = r->node.results[k], fresh = results[k];
        if (!old || !r->uses.items[old]) continue;
        if (!fresh || !same_meta(g, hn_graph_value(g, old), hn_graph_value(g, fresh)))
            return HN_ERROR(
                HN_INTERNAL,
                "the value that replaces result %u of '%s' has another dtype or other sizes", k,
                hn_op_facts(r->node.op)->name);
        r->map[old] = fresh;
        take_name(g, old, fresh);
        r->uses.items[fresh] += r->uses.items[old];
    }
    return release_operands(r, &r->node);
}

uint32_t hn_rewrite_uses(const hn_rewrite *r, hn_value v) {
    return v < r->uses.count ? r->uses.items[v] : 0;
}

/* --- outputs --- */

/* Whether both lay out their (equal) sizes alike; strides of size-1 dimensions mean nothing. */
static bool same_layout(hn_sym *sym, const hn_value_info *a, const hn_value_info *b) {
    hn_expr x[HN_MAX_RANK], y[HN_MAX_RANK];
    if (!a->strides && !b->strides) return true;
    hn_value_strides(sym, a, x);
    hn_value_strides(sym, b, y);
    for (uint32_t k = 0; k < a->rank; k++)
        if (!hn_sym_is_value(sym, a->sizes[k], 1) && !hn_sym_prove_eq(sym, x[k], y[k]))
            return false;
    return true;
}

/* A copy in its own memory; an identity cast is the element-wise form of it. */
static hn_status copy_value(hn_graph *g, hn_value v, const hn_expr *strides, hn_value *out) {
    const hn_value_info info = *hn_graph_value(g, v);
    *out = hn_graph_add_tensor(g, info.dtype, info.rank, info.sizes, strides, HN_STR(""));
    hn_arg args[2] = {hn_arg_value(v), hn_arg_dtype(info.dtype)};
    hn_graph_add_node(g, HN_OP_CAST, args, 2, out, 1);
    return hn_graph_status(g);
}

/* Not where inference has overruled the sizes that the program records (decompose.c): their strides
 * mean nothing then. */
static bool layout_applies(hn_graph *g, const hn_value_info *want, const hn_value_info *got) {
    if (want->rank != got->rank) return false;
    for (uint32_t k = 0; k < want->rank; k++)
        if (hn_sym_prove_ne(g->sym, want->sizes[k], got->sizes[k])) return false;
    return true;
}

hn_status hn_rewrite_lay_out(hn_graph *g, hn_output *output, hn_value old, bool *claimed) {
    hn_value v = output->value;
    const hn_value_info *want = hn_graph_value(g, old);
    hn_value_info *got = &g->values.items[v];
    if (want->kind != HN_VALUE_TENSOR) return NULL;
    if (v != old && layout_applies(g, want, got) && !same_layout(g->sym, want, got)) {
        if (got->producer == 0 || claimed[v])
            return copy_value(g, v, want->strides, &output->value);
        got->strides = want->strides;
    }
    claimed[v] = true;
    return NULL;
}

static hn_status redirect_output(hn_rewrite *r, hn_output *output, bool *claimed) {
    hn_value old = output->value;
    output->value = mapped(r, old);
    return output->value && output->kind == HN_OUTPUT_USER
               ? hn_rewrite_lay_out(r->g, output, old, claimed)
               : NULL;
}

/* Outputs whose value stays go first: their layout is not up for change. */
static hn_status redirect_outputs(hn_rewrite *r) {
    hn_graph *g = r->g;
    bool *claimed;
    HN_NEW(r->scratch, claimed, g->values.count);
    for (uint32_t k = 0; k < g->outputs.count; k++) {
        hn_value v = g->outputs.items[k].value;
        if (v && mapped(r, v) == v) claimed[v] = true;
    }
    for (uint32_t k = 0; k < g->outputs.count; k++) {
        hn_output *output = &g->outputs.items[k];
        HN_TRY(redirect_output(r, output, claimed));
        if (output->scalar.kind == HN_ARG_VALUE)
            output->scalar.as.value = mapped(r, output->scalar.as.value);
    }
    return NULL;
}

/* --- the end --- */

static void mark_used(void *user, hn_value v) { ((uint32_t *)user)[v] = 1; }

static hn_status drop_dead(hn_rewrite *r) {
    hn_graph *g = r->g;
    uint32_t *used;
    HN_NEW(r->scratch, used, g->values.count);
    for (uint32_t k = 0; k < g->outputs.count; k++) {
        used[g->outputs.items[k].value] = 1;
        if (g->outputs.items[k].scalar.kind == HN_ARG_VALUE)
            used[g->outputs.items[k].scalar.as.value] = 1;
    }
    for (hn_node n = g->nodes.count; n-- > 1;) {
        hn_node_info *node = hn_graph_node(g, n);
        if (is_needed(node, used)) hn_node_each_value(node, mark_used, used);
        else node->dead = true;
    }
    hn_graph_compact(g);
    return NULL;
}

hn_status hn_rewrite_end(hn_rewrite *r) {
    HN_TRY(hn_graph_status(r->g));
    r->g->current_origin = 0;
    HN_TRY(redirect_outputs(r));
    return drop_dead(r);
}
