/* nodes.c: lowering of views, expressions, reductions and scans. */
#include "lower/internal.h"

#include "ir/check.h"

#include <string.h>

/* An expression larger than this is given memory: it would be recomputed by each consumer and makes
 * one kernel's body long. Source: reference/inductor-behaviour.md 11.1.15, with room for chains of
 * activations. */
enum { MAX_OPS = 48, MAX_LOADS = 10, MAX_DEPTH = 48 };

typedef struct weigh {
    lower *l;
    lower_value *sum;
} weigh;

static void weigh_operand(void *user, hn_value v) {
    weigh *w = user;
    const lower_value *x = &w->l->values[v];
    w->sum->ops += x->buffer ? 0 : x->ops;
    w->sum->loads += x->buffer ? 1 : x->loads;
    if (!x->buffer && x->depth >= w->sum->depth) w->sum->depth = x->depth + 1;
    w->sum->costly |= !x->buffer && x->costly;
}

hn_status lower_expression(lower *l, const hn_node_info *n) {
    hn_value v = n->results[0];
    lower_value *lv = &l->values[v];
    *lv = (lower_value){.defined = true, .depth = 1, .chosen = lv->chosen};
    hn_node_each_value(n, weigh_operand, &(weigh){l, lv});
    lv->ops += !hn_op_has(n->op, HN_TRAIT_FREE);
    lv->costly |= hn_op_has(n->op, HN_TRAIT_KEEP);
    bool large = lv->ops > MAX_OPS || lv->loads > MAX_LOADS || lv->depth > MAX_DEPTH;
    bool shared = l->uses[v] > 1 && lv->loads > 0 && (lv->costly || lv->ops > 1 || lv->loads > 1);
    if (l->output[v] || large || shared || (l->uses[v] > 1 && n->op == HN_OP_RANDOM))
        return lower_realize(l, v);
    return NULL;
}

/* Strides and offset of a view of memory; false when there are none. */
static bool view_strides(lower *l, const hn_node_info *n, hn_expr *strides, hn_expr *offset) {
    hn_sym *sym = l->sym;
    hn_value x = n->args[0].as.value;
    const hn_value_info *xi = hn_graph_value(l->g, x), *out = hn_graph_value(l->g, n->results[0]);
    const lower_value *xv = &l->values[x];
    *offset = xv->offset;
    if (n->op == HN_OP_RESHAPE)
        return lower_strides_reshape(l, xi->sizes, xv->strides, xi->rank, out->sizes, out->rank,
                                     strides);
    if (n->op == HN_OP_AS_STRIDED) {
        hn_expr whole = hn_sym_product(sym, xi->sizes, xi->rank), step;
        if (!lower_strides_reshape(l, xi->sizes, xv->strides, xi->rank, &whole, 1, &step))
            return false;
        for (uint32_t d = 0; d < out->rank; d++)
            strides[d] = hn_sym_mul(sym, n->args[2].as.exprs[d], step);
        *offset = hn_sym_add(sym, *offset, hn_sym_mul(sym, n->args[3].as.expr, step));
        return true;
    }
    if (n->op == HN_OP_PERMUTE) {
        for (uint32_t d = 0; d < out->rank; d++) {
            int64_t from = 0;
            (void)hn_sym_is_int(sym, n->args[1].as.exprs[d], &from);
            strides[d] = xv->strides[from];
        }
        return true;
    }
    memcpy(strides, xv->strides, xi->rank * sizeof *strides);
    if (n->op == HN_OP_EXPAND) {
        for (uint32_t d = 0; d < out->rank; d++) /* others are guarded equal */
            if (xi->sizes[d] != out->sizes[d] && hn_sym_is_value(sym, xi->sizes[d], 1))
                strides[d] = l->zero;
        return true;
    }
    uint32_t dim = (uint32_t)lower_int(l, &n->args[1]);
    if (n->op == HN_OP_SLICE) {
        *offset = hn_sym_add(sym, *offset, hn_sym_mul(sym, n->args[2].as.expr, strides[dim]));
        strides[dim] = hn_sym_mul(sym, strides[dim], n->args[4].as.expr);
        return true;
    }
    if (n->op == HN_OP_WINDOW) {
        strides[xi->rank] = hn_sym_mul(sym, strides[dim], n->args[5].as.expr);
        strides[dim] = hn_sym_mul(sym, strides[dim], n->args[4].as.expr);
        return true;
    }
    return false;
}

/* Zeros behind the rows of a view: those of what it is of, if its rows are the same. */
static int64_t zeros_of(const lower *l, const hn_node_info *n) {
    const hn_value x = n->args[0].as.value;
    const hn_value_info *xi = hn_graph_value(l->g, x), *out = hn_graph_value(l->g, n->results[0]);
    const bool keeps =
        n->op == HN_OP_PERMUTE || (n->op == HN_OP_RESHAPE && xi->rank && out->rank &&
                                   xi->sizes[xi->rank - 1] == out->sizes[out->rank - 1]);
    return keeps ? l->values[x].zeros : 0;
}

hn_status lower_view(lower *l, const hn_node_info *n) {
    hn_value x = n->args[0].as.value, v = n->results[0];
    lower_value *lv = &l->values[v];
    if (l->values[x].buffer) {
        hn_expr *strides, offset;
        HN_NEW(l->arena, strides, HN_MAX_RANK);
        if (view_strides(l, n, strides, &offset)) {
            *lv = (lower_value){.defined = true,
                                .buffer = l->values[x].buffer,
                                .strides = strides,
                                .offset = offset,
                                .zeros = zeros_of(l, n),
                                .loads = 1};
            return NULL;
        }
    } else if (n->op == HN_OP_AS_STRIDED) {
        HN_TRY(lower_realize_contiguous(l, x));
        return lower_view(l, n);
    }
    return lower_expression(l, n);
}

void lower_split_loop(lower *l, hn_loop *loop, const hn_node_info *n, const bool *is_red,
                      hn_expr *at) {
    const hn_value_info *xi = hn_graph_value(l->g, n->args[0].as.value);
    const bool last = l->channels_last && l->channels_last[n->results[0]];
    hn_expr extents[HN_MAX_RANK] = {0};
    uint32_t kept[HN_MAX_RANK], order[HN_MAX_RANK], count = 0;
    for (uint32_t d = 0; d < xi->rank; d++)
        if (!is_red[d]) kept[loop->rank++] = d;
    lower_order(loop->rank, last && loop->rank > 1 && kept[1] == 1, order);
    for (; count < loop->rank; count++) order[count] = kept[order[count]];
    for (uint32_t d = 0; d < xi->rank; d++)
        if (is_red[d]) order[count++] = d;
    loop->red_rank = count - loop->rank;
    for (uint32_t k = 0; k < count; k++) extents[k] = xi->sizes[order[k]];
    lower_loop_vars(l, loop, extents, count);
    for (uint32_t k = 0; k < count; k++) at[order[k]] = loop->vars[k];
}

hn_status lower_reduce(lower *l, const hn_node_info *n) {
    hn_value x = n->args[0].as.value, v = n->results[0];
    const hn_value_info *xi = hn_graph_value(l->g, x);
    bool is_red[HN_MAX_RANK] = {false}, keepdim = n->args[2].as.b;
    for (uint32_t k = 0; k < n->args[1].count; k++) {
        int64_t d = 0;
        (void)hn_sym_is_int(l->sym, n->args[1].as.exprs[k], &d);
        is_red[d] = true;
    }
    if (lower_is_small_window(l, n, is_red)) return lower_window_reduce(l, n, is_red);
    hn_loop loop = {.kind = HN_LOOP_REDUCE, .reduce_op = n->op};
    hn_expr at[HN_MAX_RANK], out_idx[HN_MAX_RANK];
    lower_split_loop(l, &loop, n, is_red, at);
    lower_body b;
    lower_body_init(&b, l);
    hn_sid value = lower_gen(&b, x, at);
    if (b.failed) return b.failed;
    loop.body = b.body;
    HN_TRY(lower_new_buffer(l, v, NULL));
    uint32_t out_rank = 0;
    for (uint32_t d = 0; d < xi->rank; d++) {
        if (!is_red[d]) out_idx[out_rank++] = at[d];
        else if (keepdim) out_idx[out_rank++] = l->zero;
    }
    loop.store = lower_store_at(l, v, out_idx, out_rank, value);
    hn_item item;
    return hn_program_add_loop(l->p, &loop, l->origin, &item);
}

hn_status lower_scan(lower *l, const hn_node_info *n) {
    hn_value x = n->args[0].as.value, v = n->results[0];
    const hn_value_info *xi = hn_graph_value(l->g, x);
    bool is_red[HN_MAX_RANK] = {false};
    if (xi->rank) is_red[lower_int(l, &n->args[1])] = true;
    hn_loop loop = {.kind = HN_LOOP_SCAN, .reduce_op = n->op};
    hn_expr at[HN_MAX_RANK];
    lower_split_loop(l, &loop, n, is_red, at);
    lower_body b;
    lower_body_init(&b, l);
    hn_sid value = lower_gen(&b, x, at);
    if (b.failed) return b.failed;
    loop.body = b.body;
    HN_TRY(lower_new_buffer(l, v, NULL));
    loop.store = lower_store_at(l, v, at, xi->rank, value);
    if (n->result_count > 1 && n->results[1]) {
        hn_value w = n->results[1];
        HN_TRY(lower_new_buffer(l, w, NULL));
        loop.indices = lower_store_at(l, w, at, xi->rank, value);
    }
    hn_item item;
    return hn_program_add_loop(l->p, &loop, l->origin, &item);
}

hn_status lower_assert(lower *l, const hn_node_info *n) {
    HN_TRY(lower_realize_at_start(l, n->args[0].as.value));
    return hn_program_add_item(l->p, (hn_item_info){.kind = HN_ITEM_ASSERT,
                                                    .origin = l->origin,
                                                    .message = n->args[1].as.s,
                                                    .cond = l->values[n->args[0].as.value].buffer});
}
