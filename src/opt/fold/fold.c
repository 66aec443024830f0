/* fold.c: constant folding.
 *
 * Algorithm: one walk in order. Each node is tried by the rules of its class, which look at what
 * its operands have become: identities (elementwise.c, cast.c), views (view.c), integer tensors
 * known as sums over coordinates and lookups at such indices (index.c), operands that are one
 * number throughout (data.c). What is left and computed from small constants is evaluated
 * (const.c), but only where a table beats computing: numbers, iota and arithmetic on them are
 * computed within kernels for nothing, so those stay as they are.
 *
 * Requires: primitives. Establishes: no FULL or IOTA hides behind views or arithmetic; small
 * constant results are inputs.
 * Preserves: order, dtypes, sizes; values but for the payload of NaNs.
 *
 *   %1 = iota(0, 1, 8)  %2 = full(1)  %3 = add(%1, %2)  %4 = index(%w, [%3])
 *   ->  %4 = slice(%w, 0, 1, 8) */
#include "opt/fold/fold.h"

#include "base/log.h"

#include <string.h>

enum {
    MAX_DEPTH = 100, /* of subgraphs, each is a C frame */
    /* a longer chain of arithmetic costs more than reading its result, which is in a cache */
    MAX_CHEAP_OPS = 8
};

/* --- constants of the program --- */

static bool is_read(const hn_fold *f, hn_value v) { return hn_rewrite_uses(&f->rewrite, v) > 0; }

static void mark(void *user, hn_value v) { ((uint8_t *)user)[v] = 1; }

/* The seed of random numbers stays an input, whatever it is. What goes into a subgraph may be
 * one. */
static void protect_seeds(const hn_rewrite *r, uint8_t *is_seed) {
    int seed = hn_op_param_index(HN_OP_RANDOM, "seed");
    for (hn_node n = 1; n < r->old_count && seed >= 0; n++) {
        const hn_node_info *node = &r->old_nodes[n];
        if (node->dead) continue;
        if (node->op == HN_OP_RANDOM) mark(is_seed, node->args[seed].as.value);
        if (hn_op_facts(node->op)->op_class == HN_OPC_CONTROL)
            hn_node_each_value(node, mark, is_seed);
    }
}

/* Small constants whose elements say themselves: all one number, or counting. */
static hn_status replace_constants(hn_fold *f) {
    hn_graph *g = f->g;
    uint32_t count = g->inputs.count;
    uint8_t *is_seed;
    HN_NEW(f->context->scratch, is_seed, f->rewrite.value_count);
    protect_seeds(&f->rewrite, is_seed);
    for (uint32_t k = 0; k < count && !f->is_nested; k++) {
        hn_value v = g->inputs.items[k].value, found = 0;
        if (g->inputs.items[k].kind != HN_INPUT_CONSTANT || !is_read(f, v) || is_seed[v]) continue;
        if (hn_facts_constness(&f->facts, v) != HN_CONST_NUMBER || f->rewrite.is_output[v])
            continue;
        hn_ref_tensor t;
        bool done;
        HN_TRY(hn_const_eval_value(&f->eval, v, HN_CONST_NUMBER, &t, &done));
        if (done) HN_TRY(hn_const_place(&f->facts, &t, false, &found));
        if (found && hn_limit_allows(f->context->limit, "constants become numbers", 0, 0))
            f->rewrite.map[v] = found;
        HN_TRY(hn_facts_update(&f->facts));
    }
    return NULL;
}

/* --- tables --- */

typedef struct table_walk {
    const hn_fold *f;
    bool has_table;
} table_walk;

static void visit_table(void *user, hn_value v) {
    table_walk *w = user;
    w->has_table |= hn_facts_is_table(&w->f->facts, v);
}

/* Whether a table beats computing the node where it is used. */
static bool wants_table(const hn_fold *f, const hn_node_info *n) {
    table_walk w = {.f = f};
    switch (hn_op_facts(n->op)->op_class) {
    case HN_OPC_CREATE:
    case HN_OPC_VIEW: return false;
    case HN_OPC_DATA:
    case HN_OPC_REDUCE:
    case HN_OPC_SCAN:
    case HN_OPC_SORT:
    case HN_OPC_CONTRACT: return true;
    default: break;
    }
    hn_node_each_value(n, visit_table, &w);
    return w.has_table || hn_op_has(n->op, HN_TRAIT_TABLE) ||
           hn_facts_node_ops(&f->facts, n) > MAX_CHEAP_OPS;
}

static bool results_are_small(const hn_fold *f, const hn_node_info *n) {
    for (uint32_t k = 0; k < n->result_count; k++) {
        if (!n->results[k]) continue;
        const hn_value_info *info = hn_graph_value(f->g, n->results[k]);
        int64_t bytes = hn_dtype_facts(info->dtype)->size_bytes;
        for (uint32_t d = 0; d < info->rank; d++) {
            int64_t size;
            if (!hn_sym_is_int(f->g->sym, info->sizes[d], &size) ||
                size > (int64_t)HN_FOLD_TABLE_BYTES)
                return false;
            bytes *= size;
            if (bytes > (int64_t)HN_FOLD_TABLE_BYTES) return false;
        }
    }
    return true;
}

static hn_status evaluate_node(hn_fold *f, const hn_node_info *n, hn_value results[2],
                               bool *out_done) {
    hn_ref_tensor tensors[2];
    if (!wants_table(f, n) || !results_are_small(f, n)) return NULL;
    HN_TRY(hn_const_eval_node(&f->eval, n, HN_CONST_NUMBER, tensors, out_done));
    for (uint32_t k = 0; *out_done && k < n->result_count; k++) {
        HN_TRY(hn_const_place(&f->facts, &tensors[k], !f->is_nested, &results[k]));
        *out_done = results[k] != 0;
    }
    return NULL;
}

/* --- nodes --- */

static hn_value fold_data(hn_fold *f, const hn_node_info *n) {
    switch (n->op) {
    case HN_OP_INDEX: return hn_fold_index(f, n);
    case HN_OP_GATHER: return hn_fold_gather(f, n);
    case HN_OP_CAT: return hn_fold_cat(f, n);
    case HN_OP_PAD: return hn_fold_pad(f, n);
    default: return 0;
    }
}

static hn_value fold_by_class(hn_fold *f, const hn_node_info *n) {
    if (n->result_count != 1 || !n->results[0]) return 0;
    if (hn_graph_value(f->g, n->results[0])->kind != HN_VALUE_TENSOR) return 0;
    if (hn_op_is_elementwise(n->op)) return hn_fold_elementwise(f, n);
    switch (hn_op_facts(n->op)->op_class) {
    case HN_OPC_VIEW: return hn_fold_view(f->g, n);
    case HN_OPC_REDUCE: return hn_fold_reduce(f, n);
    case HN_OPC_SCAN: return hn_fold_scan(f, n);
    case HN_OPC_DATA: return fold_data(f, n);
    default: return 0;
    }
}

/* The name of the rules that fold_by_class tries. */
static const char *rule_of_class(hn_op op) {
    if (op == HN_OP_CAST) return "casts (cast.c)";
    if (hn_op_is_elementwise(op)) return "identities of element-wise ops (elementwise.c)";
    switch (hn_op_facts(op)->op_class) {
    case HN_OPC_VIEW: return "views of views (view.c)";
    case HN_OPC_REDUCE: return "reductions of one number (data.c)";
    case HN_OPC_SCAN: return "scans of one number (data.c)";
    default:
        return op == HN_OP_INDEX || op == HN_OP_GATHER ? "lookups at known indices (index.c)"
                                                       : "joined and padded constants (data.c)";
    }
}

static hn_status fold_graph(hn_graph *g, hn_pass_context *context, uint32_t depth);

static hn_status fold_node(hn_fold *f, const hn_node_info *n, uint32_t depth) {
    hn_value results[2] = {0, 0};
    bool done = false;
    for (uint32_t k = 0; k < n->arg_count; k++)
        if (n->args[k].kind == HN_ARG_GRAPH)
            HN_TRY(fold_graph(n->args[k].as.graph, f->context, depth + 1));
    if (hn_op_is_aten(n->op) || !hn_limit_is_open(f->context->limit))
        return hn_rewrite_keep(&f->rewrite);
    const char *rule = rule_of_class(n->op);
    results[0] = fold_by_class(f, n);
    if (!results[0]) {
        rule = "integer tensors known as sums over coordinates";
        results[0] = hn_fold_affine(f, n);
    }
    if (!results[0] && hn_facts_node_constness(&f->facts, n) == HN_CONST_NUMBER) {
        rule = "constant parts are computed";
        HN_TRY(evaluate_node(f, n, results, &done));
    }
    done |= results[0] != 0 && n->result_count == 1;
    done = done && hn_limit_allows(f->context->limit, rule, n->origin, 0);
    HN_TRY(done ? hn_rewrite_replace(&f->rewrite, results) : hn_rewrite_keep(&f->rewrite));
    return hn_facts_update(&f->facts);
}

static hn_status fold_graph(hn_graph *g, hn_pass_context *context, uint32_t depth) {
    if (depth > MAX_DEPTH)
        return HN_ERROR(HN_UNSUPPORTED, "subgraphs nest deeper than %d", MAX_DEPTH);
    hn_fold *f; /* not on the stack: subgraphs nest */
    uint32_t before = g->nodes.count;
    HN_NEW(context->scratch, f, 1);
    *f = (hn_fold){.g = g, .context = context, .is_nested = depth > 0};
    HN_TRY(hn_rewrite_begin(&f->rewrite, g, context->scratch));
    HN_TRY(hn_facts_init(&f->facts, g, context->scratch));
    HN_TRY(hn_const_eval_init(&f->eval, &f->facts, context->scratch));
    HN_TRY(replace_constants(f));
    for (const hn_node_info *n; (n = hn_rewrite_next(&f->rewrite));) HN_TRY(fold_node(f, n, depth));
    HN_TRY(hn_rewrite_end(&f->rewrite));
    if (!depth)
        hn_log("pass", HN_LOG_INFO, "fold: %u of %u nodes left", g->nodes.count - 1, before - 1);
    return hn_sym_status(g->sym);
}

hn_status hn_pass_fold(hn_graph *graph, hn_pass_context *context) {
    return fold_graph(graph, context, 0);
}
