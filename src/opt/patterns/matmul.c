/* matmul.c: products whose batch is regrouped or repeated for nothing, products that are no
 * contraction, and biases.
 *
 *   no copy of a:
 *     matmul(reshape(a [B,H,m,k] permuted), reshape(b)) -> reshape(matmul(a, b as [B,H,k,n]))
 *   one large product:
 *     matmul(a [B,m,k], expand(b [1,k,n]))              -> reshape(matmul(a as [B*m,k], b as [k,n]))
 *   fuses with its neighbours:
 *     matmul(a [..,m,1], b [..,1,n])                    -> mul(a, b)
 *   also behind a reshape:
 *     add(matmul(a, b), bias [n])                       -> matmul(a, b, bias) */
#include "opt/patterns/pattern.h"

#include <string.h>

enum { MAX_BATCH_RANK = 6 }; /* of a product, as lowering takes it: four batch dims */

/* --- batches --- */

/* Memory that is no row-major block, so that merging its dims copies. */
static bool is_strided(const hn_patterns *p, hn_value v) {
    return hn_made_by(p->g, v, HN_OP_PERMUTE) || hn_made_by(p->g, v, HN_OP_EXPAND) ||
           hn_made_by(p->g, v, HN_OP_SLICE) || hn_made_by(p->g, v, HN_OP_WINDOW) ||
           hn_made_by(p->g, v, HN_OP_AS_STRIDED);
}

/* The value with more batch dims behind an operand that merges them; 0: it merges none, or for
 * nothing. */
static hn_value before_merge(const hn_patterns *p, hn_value v) {
    const hn_node_info *reshape = hn_made_by(p->g, v, HN_OP_RESHAPE);
    if (!reshape) return 0;
    hn_value x = reshape->args[0].as.value;
    uint32_t rank = hn_info(p, x)->rank;
    bool merges = rank > hn_info(p, v)->rank && rank <= MAX_BATCH_RANK && hn_same_tail(p, x, v, 2);
    return merges && is_strided(p, x) ? x : 0;
}

static hn_value with_batch(hn_graph *g, hn_value v, const hn_value_info *like) {
    const hn_value_info *info = hn_graph_value(g, v);
    hn_expr sizes[HN_MAX_RANK];
    memcpy(sizes, like->sizes, (like->rank - 2) * sizeof *sizes);
    memcpy(sizes + like->rank - 2, info->sizes + info->rank - 2, 2 * sizeof *sizes);
    return hn_v_reshape(g, v, sizes, like->rank);
}

static hn_value unmerge_batch(hn_patterns *p, const hn_node_info *n) {
    hn_value a = n->args[0].as.value, b = n->args[1].as.value;
    const hn_value_info *to = hn_info(p, n->results[0]);
    if (n->args[2].kind != HN_ARG_NONE || to->rank < 3) return 0;
    hn_value wide = before_merge(p, a);
    if (!wide) wide = before_merge(p, b);
    if (!wide) return 0;
    const hn_value_info *like = hn_info(p, wide);
    a = with_batch(p->g, a, like);
    b = with_batch(p->g, b, like);
    hn_value y = hn_b_matmul(p->g, a, b, 0);
    p->fired[HN_PATTERN_MATMUL_VIEW]++;
    return y ? hn_v_reshape(p->g, y, to->sizes, to->rank) : 0;
}

static bool is_row(const hn_patterns *p, hn_value v) {
    const hn_value_info *info = hn_info(p, v);
    for (uint32_t k = 0; k + 1 < info->rank; k++)
        if (!hn_size_is(p->g, info->sizes[k], 1)) return false;
    return info->rank > 0;
}

/* One right side for every batch: the batch becomes rows. */
static hn_value fold_batch(hn_patterns *p, const hn_node_info *n) {
    hn_graph *g = p->g;
    hn_value a = n->args[0].as.value,
             bias = n->args[2].kind == HN_ARG_VALUE ? n->args[2].as.value : 0;
    const hn_node_info *expand = hn_made_by(g, n->args[1].as.value, HN_OP_EXPAND);
    const hn_value_info *to = hn_info(p, n->results[0]), *ai = hn_info(p, a);
    if (!expand || is_strided(p, a) || (bias && !is_row(p, bias))) return 0;
    hn_value b = expand->args[0].as.value;
    const hn_value_info *bi = hn_info(p, b);
    for (uint32_t k = 0; k + 2 < bi->rank; k++)
        if (!hn_size_is(g, bi->sizes[k], 1)) return 0;
    if (!hn_same_tail(p, b, n->args[1].as.value, 2)) return 0;
    hn_expr rows[2] = {hn_sym_product(g->sym, ai->sizes, ai->rank - 1), ai->sizes[ai->rank - 1]};
    hn_expr kernel[2] = {bi->sizes[bi->rank - 2], bi->sizes[bi->rank - 1]};
    if (bias) bias = hn_v_reshape(g, bias, &hn_info(p, bias)->sizes[hn_info(p, bias)->rank - 1], 1);
    hn_value y = hn_b_matmul(g, hn_v_reshape(g, a, rows, 2), hn_v_reshape(g, b, kernel, 2), bias);
    p->fired[HN_PATTERN_MATMUL_VIEW]++;
    return y ? hn_v_reshape(g, y, to->sizes, to->rank) : 0;
}

/* --- products over one element --- */

static hn_value outer_product(hn_patterns *p, const hn_node_info *n) {
    hn_value a = n->args[0].as.value, b = n->args[1].as.value;
    if (!hn_size_is(p->g, hn_last_size(p, a, 0), 1) || !hn_size_is(p->g, hn_last_size(p, b, 1), 1))
        return 0;
    hn_value y = hn_b_binary(p->g, HN_OP_MUL, a, b);
    if (n->args[2].kind == HN_ARG_VALUE) y = hn_b_binary(p->g, HN_OP_ADD, y, n->args[2].as.value);
    p->fired[HN_PATTERN_MATMUL_OUTER]++;
    return y;
}

hn_value hn_pattern_matmul(hn_patterns *p, const hn_node_info *n) {
    hn_value y = outer_product(p, n);
    if (!y) y = fold_batch(p, n);
    return y ? y : unmerge_batch(p, n);
}

/* --- biases --- */

/* An input of the graph seen through views, or small and known: it is in memory when the product
 * runs. */
bool hn_in_memory(const hn_patterns *p, hn_value v) {
    double number;
    if (hn_uniform_number(p->g, v, &number)) return false;
    if (hn_facts_constness(&p->facts, v) != HN_NOT_CONST) return true;
    for (hn_node n; (n = hn_info(p, v)->producer); v = hn_graph_node(p->g, n)->args[0].as.value)
        if (hn_op_facts(hn_graph_node(p->g, n)->op)->op_class != HN_OPC_VIEW) return false;
    return true;
}

/* add(x, bias): the product that `x` is, perhaps behind a reshape that keeps its columns. */
static const hn_node_info *biased_product(const hn_patterns *p, hn_value x) {
    const hn_node_info *reshape = hn_made_by(p->g, x, HN_OP_RESHAPE);
    if (!hn_read_once(p, x)) return NULL;
    if (reshape && hn_same_tail(p, x, reshape->args[0].as.value, 1)) {
        x = reshape->args[0].as.value;
        if (!hn_read_once(p, x)) return NULL;
    }
    const hn_node_info *n = hn_made_by(p->g, x, HN_OP_MATMUL);
    return n && n->args[2].kind == HN_ARG_NONE ? n : NULL;
}

static hn_value matmul_bias(hn_patterns *p, const hn_node_info *add, uint32_t side) {
    hn_graph *g = p->g;
    hn_value x = add->args[side].as.value, bias = add->args[1 - side].as.value;
    const hn_value_info *to = hn_info(p, add->results[0]), *xi = hn_info(p, x),
                        *bi = hn_info(p, bias);
    const hn_node_info *n = biased_product(p, x);
    if (!n || !hn_in_memory(p, bias) || !is_row(p, bias) || bi->rank > to->rank) return 0;
    if (!hn_same_sizes(g, &bi->sizes[bi->rank - 1], &xi->sizes[xi->rank - 1], 1)) return 0;
    if (xi->rank != to->rank || !hn_same_sizes(g, xi->sizes, to->sizes, to->rank)) return 0;
    hn_value a = n->args[0].as.value, b = n->args[1].as.value;
    hn_value y = hn_b_matmul(g, a, b, hn_v_reshape(g, bias, &bi->sizes[bi->rank - 1], 1));
    p->fired[HN_PATTERN_MATMUL_BIAS]++;
    return y ? hn_v_reshape(g, y, to->sizes, to->rank) : 0;
}

hn_value hn_pattern_add(hn_patterns *p, const hn_node_info *add) {
    hn_value y = matmul_bias(p, add, 0);
    return y ? y : matmul_bias(p, add, 1);
}
