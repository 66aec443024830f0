/* window.c: reductions over small windows (pooling) as one expression.
 *
 *   amax(window(window(pad(x))), dims=[window dims])   ->   max of kH * kW loads, for each output
 *
 * As a reduction such a loop has a few elements a row: a vector holds outputs of many windows
 * instead. */
#include "lower/internal.h"

#include <math.h>

enum {
    MAX_TAPS = 32, /* elements of a window: longer ones fill vectors by themselves */
    /* of the whole expression: longer bodies run out of registers and of the compiler's time */
    MAX_TAP_OPS = 256,
};

/* The binary op that a reduction repeats; NONE: it has none that rounds alike. */
static hn_op step_of(hn_op reduce) {
    switch (reduce) {
    case HN_OP_AMAX: return HN_OP_MAX;
    case HN_OP_AMIN: return HN_OP_MIN;
    case HN_OP_SUM: return HN_OP_ADD;
    default: return HN_OP_NONE;
    }
}

/* Whether a chain of views and pads below `v` holds a WINDOW; *out is what the chain looks at. */
static bool looks_through_window(const lower *l, hn_value v, hn_value *out) {
    bool found = false;
    for (hn_node n; (n = hn_graph_value(l->g, v)->producer);) {
        const hn_node_info *node = hn_graph_node(l->g, n);
        if (hn_op_facts(node->op)->op_class != HN_OPC_VIEW && node->op != HN_OP_PAD) break;
        found |= node->op == HN_OP_WINDOW;
        v = node->args[0].as.value;
    }
    *out = v;
    return found;
}

/* Whether dim `dim` of the padded value, cut to windows by `window`, has an element of the unpadded
 * one in each of them. */
static bool windows_meet(lower *l, const hn_node_info *pad, const hn_node_info *window,
                         uint32_t dim) {
    hn_sym *sym = l->sym;
    hn_expr lo = pad->args[2].as.exprs[dim],
            size = hn_graph_value(l->g, pad->args[0].as.value)->sizes[dim];
    hn_expr last =
        hn_sym_mul(sym, hn_sym_sub(sym, window->args[2].as.expr, l->one), window->args[4].as.expr);
    return hn_sym_prove_lt(sym, lo, window->args[3].as.expr) &&
           hn_sym_prove_lt(sym, last, hn_sym_add(sym, lo, size));
}

/* Whether amax(window(pad(x, -inf))) may read the nearest element of x in place of each padded one:
 * without dilation that one is in the window as well, so the result is the same, and no element
 * needs a comparison. Likewise amin with inf. */
static bool may_clamp(lower *l, const hn_node_info *n, const bool *is_red) {
    const hn_node_info *windows[HN_MAX_RANK] = {NULL}, *node;
    hn_value v = n->args[0].as.value;
    uint32_t dims = hn_graph_value(l->g, v)->rank;
    if (n->op != HN_OP_AMAX && n->op != HN_OP_AMIN) return false;
    for (;; v = node->args[0].as.value) {
        hn_node maker = hn_graph_value(l->g, v)->producer;
        node = maker ? hn_graph_node(l->g, maker) : NULL;
        if (!node || node->op != HN_OP_WINDOW || l->values[v].buffer) break;
        if (!is_red[--dims] || !hn_sym_is_value(l->sym, node->args[5].as.expr, 1)) return false;
        uint32_t dim = (uint32_t)lower_int(l, &node->args[1]);
        if (dim >= HN_MAX_RANK || windows[dim]) return false;
        windows[dim] = node;
    }
    if (!node || node->op != HN_OP_PAD || l->values[v].buffer || node->args[1].kind != HN_ARG_FLOAT)
        return false;
    if (node->args[1].as.f != (n->op == HN_OP_AMAX ? -(double)INFINITY : (double)INFINITY))
        return false;
    const hn_value_info *padded = hn_graph_value(l->g, v);
    for (uint32_t d = 0; d < padded->rank; d++) {
        bool plain = hn_sym_is_value(l->sym, node->args[2].as.exprs[d], 0) &&
                     hn_sym_is_value(l->sym, node->args[3].as.exprs[d], 0);
        if (!plain && (is_red[d] || !windows[d] || !windows_meet(l, node, windows[d], d)))
            return false;
    }
    return true;
}

/* The elements that one output combines; 0: unknown or too many. */
static int64_t taps_of(lower *l, const hn_value_info *xi, const bool *is_red) {
    int64_t taps = 1, size;
    for (uint32_t d = 0; d < xi->rank; d++) {
        if (!is_red[d]) continue;
        if (!hn_sym_is_int(l->sym, xi->sizes[d], &size) || size < 1 || size > MAX_TAPS) return 0;
        if ((taps *= size) > MAX_TAPS) return 0;
    }
    return taps;
}

/* Every tap's value, combined from left to right. */
static hn_sid combine(lower_body *b, hn_op op, hn_value x, const bool *is_red, int64_t taps,
                      hn_expr *at) {
    const hn_value_info *xi = hn_graph_value(b->l->g, x);
    hn_sid sum = 0;
    for (int64_t t = 0; t < taps; t++) {
        int64_t rest = t, size = 1;
        for (uint32_t d = xi->rank; d-- > 0; rest /= size) {
            size = 1;
            if (!is_red[d]) continue;
            (void)hn_sym_is_int(b->l->sym, xi->sizes[d], &size);
            at[d] = hn_sym_int(b->l->sym, rest % size);
        }
        hn_sid value = lower_gen(b, x, at);
        sum = sum ? lower_gen_sop(b, (hn_sop){.kind = HN_SOP_ELEM,
                                              .op = op,
                                              .dtype = xi->dtype,
                                              .args = {sum, value}})
                  : value;
    }
    return sum;
}

/* Sums of 16-bit floats are rounded once, at their end. */
static bool rounds_alike(hn_op reduce, hn_dtype dtype) {
    const bool is_half = dtype == HN_DTYPE_F16 || dtype == HN_DTYPE_BF16;
    return dtype == HN_DTYPE_F32 || dtype == HN_DTYPE_F64 || (is_half && reduce != HN_OP_SUM);
}

bool lower_is_small_window(lower *l, const hn_node_info *n, const bool *is_red) {
    hn_value x = n->args[0].as.value, base;
    const hn_value_info *xi = hn_graph_value(l->g, x);
    if (step_of(n->op) == HN_OP_NONE || !rounds_alike(n->op, xi->dtype)) return false;
    int64_t taps = taps_of(l, xi, is_red);
    return taps > 1 && looks_through_window(l, x, &base) &&
           taps * (l->values[x].ops + 1) <= MAX_TAP_OPS;
}

hn_status lower_window_reduce(lower *l, const hn_node_info *n, const bool *is_red) {
    hn_value x = n->args[0].as.value, v = n->results[0], base;
    const hn_value_info *xi = hn_graph_value(l->g, x);
    const bool keepdim = n->args[2].as.b;
    /* windows overlap */
    if (looks_through_window(l, x, &base) && l->values[base].ops > 0)
        HN_TRY(lower_realize(l, base));
    hn_loop loop = {.kind = HN_LOOP_POINTWISE};
    hn_expr at[HN_MAX_RANK], out_idx[HN_MAX_RANK];
    lower_split_loop(l, &loop, n, is_red, at);
    loop.red_rank = 0; /* the taps are in the expression */
    uint32_t out_rank = 0;
    for (uint32_t d = 0; d < xi->rank; d++) {
        if (!is_red[d]) out_idx[out_rank++] = at[d];
        else if (keepdim) out_idx[out_rank++] = l->zero;
    }
    lower_body b;
    lower_body_init(&b, l);
    b.clamps = may_clamp(l, n, is_red);
    hn_sid value = combine(&b, step_of(n->op), x, is_red, taps_of(l, xi, is_red), at);
    if (b.failed) return b.failed;
    loop.body = b.body;
    HN_TRY(lower_new_buffer(l, v, NULL));
    loop.store = lower_store_at(l, v, out_idx, out_rank, value);
    hn_item item;
    return hn_program_add_loop(l->p, &loop, l->origin, &item);
}
