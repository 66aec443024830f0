/* layout.c: which values lie in memory with channels last. By default a value is row-major: planes,
 * one for each channel. Tensor cores multiply vectors of channels, so a target may prefer that
 * convolutions have these side by side (hn_operation.channels_last). Then their results are stored
 * so, and so are the values that are computed of such ones element by element, by windows or by
 * concatenation: nothing is transposed between two convolutions. Inputs and outputs of the program
 * keep their strides; weights are laid out anew when the program is compiled.
 *
 *   relu(conv(x, w))   ->   b3 = x by channels; conv(out b4, b3, w') ; b5 = relu(b4), all so
 *
 * Any choice here is right: memory has strides, and who reads it obeys them. */
#include "lower/internal.h"

#include <string.h>

/* ---- which values ---- */

static bool is_last(const lower *l, hn_value v) { return l->channels_last[v]; }

/* Convolutions that the operation does; others where their input is so already. */
static bool wants_conv(lower *l, const hn_node_info *n) {
    const hn_operation *o = &l->operations->of[HN_EXTERN_CONV];
    const hn_value x = n->args[0].as.value;
    hn_extern e = {.kind = HN_EXTERN_CONV};
    if (!(o->channels_last >> hn_graph_value(l->g, x)->dtype & 1) || n->args[6].as.b) return false;
    lower_conv_sizes(l, n, &e);
    return !o->takes || o->takes(l->sym, &e) || is_last(l, x);
}

typedef struct question {
    lower *l;
    const hn_value_info *result;
    bool by_elements, found;
} question;

static bool sizes_are_equal(const hn_value_info *a, const hn_value_info *b) {
    return a->rank == b->rank && memcmp(a->sizes, b->sizes, a->rank * sizeof *a->sizes) == 0;
}

static void ask_operand(void *user, hn_value v) {
    question *q = user;
    const hn_value_info *vi = hn_graph_value(q->l->g, v);
    if (is_last(q->l, v) && (!q->by_elements || sizes_are_equal(vi, q->result))) q->found = true;
}

static bool follows_operands(lower *l, const hn_node_info *n, bool by_elements) {
    question q = {l, hn_graph_value(l->g, n->results[0]), by_elements, false};
    hn_node_each_value(n, ask_operand, &q);
    return q.found;
}

/* Of a pool: its channels are those of what it is of. */
static bool wants_reduction(lower *l, const hn_node_info *n) {
    const hn_value_info *x = hn_graph_value(l->g, n->args[0].as.value),
                        *out = hn_graph_value(l->g, n->results[0]);
    return out->rank >= 4 && out->sizes[1] == x->sizes[1] && follows_operands(l, n, false);
}

static bool wants(lower *l, const hn_node_info *n) {
    if (n->op == HN_OP_CONV) return wants_conv(l, n);
    if (n->op == HN_OP_PAD || n->op == HN_OP_CAT || n->op == HN_OP_WINDOW || n->op == HN_OP_SLICE)
        return follows_operands(l, n, false);
    switch (hn_op_facts(n->op)->op_class) {
    case HN_OPC_UNARY:
    case HN_OPC_BINARY:
    case HN_OPC_COMPARE:
    case HN_OPC_PREDICATE:
    case HN_OPC_SELECT:
    case HN_OPC_CAST: return follows_operands(l, n, true);
    case HN_OPC_REDUCE: return wants_reduction(l, n);
    default: return false;
    }
}

hn_status lower_layouts(lower *l) {
    if (!l->operations || !l->operations->of[HN_EXTERN_CONV].channels_last) return NULL;
    HN_NEW(l->scratch, l->channels_last, l->g->values.count);
    for (hn_node k = 1; k < l->g->nodes.count; k++) {
        const hn_node_info *n = &l->g->nodes.items[k];
        if (!n->dead && n->result_count && n->results[0] &&
            hn_graph_value(l->g, n->results[0])->rank >= 3)
            l->channels_last[n->results[0]] = wants(l, n);
    }
    return NULL;
}

/* ---- strides ---- */

static void last_strides(lower *l, const hn_value_info *vi, hn_expr *out) {
    hn_expr sizes[HN_MAX_RANK], strides[HN_MAX_RANK];
    uint32_t order[HN_MAX_RANK];
    lower_order(vi->rank, true, order);
    for (uint32_t k = 0; k < vi->rank; k++) sizes[k] = vi->sizes[order[k]];
    hn_contiguous_strides(l->sym, sizes, vi->rank, strides);
    for (uint32_t k = 0; k < vi->rank; k++) out[order[k]] = strides[k];
}

void lower_default_strides(lower *l, hn_value v, hn_expr *out) {
    const hn_value_info *vi = hn_graph_value(l->g, v);
    const int64_t row = lower_longer_row(l, v);
    hn_expr sizes[HN_MAX_RANK];
    memcpy(sizes, vi->sizes, vi->rank * sizeof *sizes);
    if (row) sizes[vi->rank - 1] = hn_sym_int(l->sym, row);
    if (l->channels_last && is_last(l, v) && vi->rank >= 3) last_strides(l, vi, out);
    else hn_contiguous_strides(l->sym, sizes, vi->rank, out);
}

void lower_order(uint32_t rank, bool channels_last, uint32_t *out) {
    for (uint32_t k = 0; k < rank; k++) out[k] = k;
    if (!channels_last || rank < 3) return;
    for (uint32_t k = 1; k + 1 < rank; k++) out[k] = k + 1;
    out[rank - 1] = 1;
}

bool lower_are_last(const lower *l, const hn_expr *strides, uint32_t rank) {
    return l->channels_last && rank >= 3 && hn_sym_is_value(l->sym, strides[1], 1) &&
           !hn_sym_is_value(l->sym, strides[rank - 1], 1);
}

/* ---- operands of convolutions ---- */

/* Whether memory is as if it were so: dimensions of one element lie anywhere. */
static bool lies_last(lower *l, hn_value v) {
    const hn_value_info *vi = hn_graph_value(l->g, v);
    hn_expr wanted[HN_MAX_RANK];
    last_strides(l, vi, wanted);
    for (uint32_t d = 0; d < vi->rank; d++)
        if (wanted[d] != l->values[v].strides[d] && !hn_sym_is_value(l->sym, vi->sizes[d], 1))
            return false;
    return true;
}

hn_status lower_realize_last(lower *l, hn_value v) {
    hn_expr strides[HN_MAX_RANK];
    if (!l->values[v].buffer) {
        l->channels_last[v] = true;
        HN_TRY(lower_realize(l, v));
    }
    if (lies_last(l, v)) return NULL;
    last_strides(l, hn_graph_value(l->g, v), strides);
    HN_TRY(lower_relay_weight(l, v, strides));
    return lies_last(l, v) ? NULL : lower_realize_in(l, v, strides);
}
