/* view.c: views that simplify as they are built: chains of one kind become one view, views of FULL
 * become FULL, a permute that only moves sizes of 1 becomes a reshape, and what changes nothing
 * disappears.
 *
 *   %1 = reshape(%x, [6])  %2 = reshape(%1, [3, 2])      ->      %2 = reshape(%x, [3, 2]) */
#include "opt/fold/fold.h"

#include <string.h>

static bool has_sizes(hn_graph *g, hn_value x, const hn_expr *sizes, uint32_t rank) {
    const hn_value_info *info = hn_graph_value(g, x);
    return info->rank == rank && hn_same_sizes(g, info->sizes, sizes, rank);
}

/* FULL keeps its scalar argument as it is, so that symbolic ones come along. */
static hn_value full_of(hn_graph *g, const hn_node_info *full, const hn_expr *sizes,
                        uint32_t rank) {
    const hn_arg value = full->args[0];
    hn_dtype dtype = full->args[2].as.dtype;
    hn_scalar s = value.kind == HN_ARG_FLOAT  ? hn_scalar_f(value.as.f)
                  : value.kind == HN_ARG_BOOL ? hn_scalar_i(hn_sym_int(g->sym, value.as.b))
                                              : hn_scalar_i(value.as.expr);
    return hn_b_full(g, s, sizes, rank, dtype);
}

hn_value hn_v_reshape(hn_graph *g, hn_value x, const hn_expr *sizes, uint32_t rank) {
    if (!x) return 0;
    for (const hn_node_info *n; (n = hn_made_by(g, x, HN_OP_RESHAPE));) x = n->args[0].as.value;
    if (has_sizes(g, x, sizes, rank)) return x;
    const hn_node_info *full = hn_made_by(g, x, HN_OP_FULL);
    return full ? full_of(g, full, sizes, rank) : hn_b_reshape(g, x, sizes, rank);
}

bool hn_permute_dims(const hn_graph *g, const hn_node_info *permute, uint32_t dims[HN_MAX_RANK]) {
    const hn_arg *list = &permute->args[1];
    for (uint32_t k = 0; k < list->count; k++) {
        int64_t dim;
        if (!hn_sym_is_int(g->sym, list->as.exprs[k], &dim) || dim < 0 || dim >= list->count)
            return false;
        dims[k] = (uint32_t)dim;
    }
    return true;
}

/* Whether the dims that have more than one element stay in order. */
static bool only_moves_ones(hn_graph *g, const hn_value_info *x, const uint32_t *dims) {
    uint32_t last = 0;
    for (uint32_t k = 0; k < x->rank; k++) {
        if (hn_size_is(g, x->sizes[dims[k]], 1)) continue;
        if (dims[k] < last) return false;
        last = dims[k];
    }
    return true;
}

hn_value hn_v_permute(hn_graph *g, hn_value x, const uint32_t *dims) {
    if (!x) return 0;
    uint32_t rank = hn_graph_value(g, x)->rank, all[HN_MAX_RANK], inner[HN_MAX_RANK];
    memcpy(all, dims, rank * sizeof *all);
    for (const hn_node_info *n;
         (n = hn_made_by(g, x, HN_OP_PERMUTE)) && hn_permute_dims(g, n, inner);) {
        for (uint32_t k = 0; k < rank; k++) all[k] = inner[all[k]];
        x = n->args[0].as.value;
    }
    const hn_value_info *info = hn_graph_value(g, x);
    hn_expr sizes[HN_MAX_RANK];
    for (uint32_t k = 0; k < rank; k++) sizes[k] = info->sizes[all[k]];
    if (only_moves_ones(g, info, all) || hn_made_by(g, x, HN_OP_FULL))
        return hn_v_reshape(g, x, sizes, rank);
    return hn_b_permute(g, x, all);
}

hn_value hn_v_transpose(hn_graph *g, hn_value x, uint32_t dim0, uint32_t dim1) {
    uint32_t dims[HN_MAX_RANK];
    for (uint32_t k = 0; k < HN_MAX_RANK; k++) dims[k] = k;
    dims[dim0] = dim1;
    dims[dim1] = dim0;
    return hn_v_permute(g, x, dims);
}

hn_value hn_v_expand(hn_graph *g, hn_value x, const hn_expr *sizes, uint32_t rank) {
    if (!x) return 0;
    for (const hn_node_info *n; (n = hn_made_by(g, x, HN_OP_EXPAND));) x = n->args[0].as.value;
    if (has_sizes(g, x, sizes, rank)) return x;
    const hn_node_info *full = hn_made_by(g, x, HN_OP_FULL);
    if (full) return full_of(g, full, sizes, rank);
    uint32_t have = hn_graph_value(g, x)->rank;
    if (have < rank) { /* leading dims, by a reshape that may meet another one */
        hn_expr padded[HN_MAX_RANK];
        for (uint32_t k = 0; k < rank; k++)
            padded[k] = k < rank - have ? hn_sym_int(g->sym, 1)
                                        : hn_graph_value(g, x)->sizes[k - (rank - have)];
        x = hn_v_reshape(g, x, padded, rank);
        if (!x || has_sizes(g, x, sizes, rank)) return x;
    }
    return hn_b_expand(g, x, sizes, rank);
}

/* --- slices --- */

/* x[a + i*s][b + k*t] = x[a + b*s + k*(s*t)] */
static bool merge_slices(hn_graph *g, const hn_node_info *inner, uint32_t dim, hn_expr *start,
                         int64_t *step) {
    int64_t inner_step;
    if (!hn_size_is(g, inner->args[1].as.expr, dim)) return false;
    if (!hn_sym_is_int(g->sym, inner->args[4].as.expr, &inner_step)) return false;
    if (inner_step > INT16_MAX || inner_step < INT16_MIN || *step > INT16_MAX || *step < INT16_MIN)
        return false;
    *start = hn_sym_add(g->sym, inner->args[2].as.expr,
                        hn_sym_mul(g->sym, *start, hn_sym_int(g->sym, inner_step)));
    *step *= inner_step;
    return true;
}

/* The member of a CAT that a contiguous range lies in; `*start` becomes its place there. */
static hn_value cat_member(hn_graph *g, const hn_node_info *cat, uint32_t dim, hn_expr *start,
                           hn_expr size) {
    hn_expr begin = hn_sym_int(g->sym, 0), end = hn_sym_add(g->sym, *start, size);
    if (!hn_size_is(g, cat->args[1].as.expr, dim)) return 0;
    for (uint32_t k = 0; k < cat->args[0].count; k++) {
        hn_value x = cat->args[0].as.values[k];
        hn_expr next = hn_sym_add(g->sym, begin, hn_graph_value(g, x)->sizes[dim]);
        if (hn_sym_prove_le(g->sym, begin, *start) && hn_sym_prove_le(g->sym, end, next)) {
            *start = hn_sym_sub(g->sym, *start, begin);
            return x;
        }
        begin = next;
    }
    return 0;
}

/* Whether a dim of an EXPAND repeats one element. */
static bool is_repeated(hn_graph *g, const hn_node_info *expand, uint32_t dim) {
    hn_value x = expand->args[0].as.value;
    return hn_size_is(g, hn_graph_value(g, x)->sizes[dim], 1);
}

hn_value hn_v_slice(hn_graph *g, hn_value x, uint32_t dim, hn_expr start, hn_expr size,
                    int64_t step) {
    const hn_node_info *n;
    if (!x) return 0;
    if (hn_size_is(g, size, 1)) step = 1;
    while ((n = hn_made_by(g, x, HN_OP_SLICE)) && merge_slices(g, n, dim, &start, &step))
        x = n->args[0].as.value;
    if (hn_size_is(g, size, 1)) step = 1;
    hn_value member;
    if (step == 1 && (n = hn_made_by(g, x, HN_OP_CAT)) &&
        (member = cat_member(g, n, dim, &start, size)))
        return hn_v_slice(g, member, dim, start, size, step);
    const hn_value_info *info = hn_graph_value(g, x);
    hn_expr sizes[HN_MAX_RANK];
    for (uint32_t k = 0; k < info->rank; k++) sizes[k] = k == dim ? size : info->sizes[k];
    if ((n = hn_made_by(g, x, HN_OP_FULL))) return full_of(g, n, sizes, info->rank);
    if ((n = hn_made_by(g, x, HN_OP_EXPAND)) && is_repeated(g, n, dim))
        return hn_v_expand(g, n->args[0].as.value, sizes, info->rank);
    if (step == 1 && hn_size_is(g, start, 0) && hn_same_sizes(g, &size, &info->sizes[dim], 1))
        return x;
    return hn_b_slice(g, x, dim, start, size, step);
}

/* --- nodes --- */

static hn_value fold_slice(hn_graph *g, const hn_node_info *n) {
    int64_t dim, step;
    if (!hn_sym_is_int(g->sym, n->args[1].as.expr, &dim) ||
        !hn_sym_is_int(g->sym, n->args[4].as.expr, &step))
        return 0;
    return hn_v_slice(g, n->args[0].as.value, (uint32_t)dim, n->args[2].as.expr, n->args[3].as.expr,
                      step);
}

/* Whether the node shrinks to its operand, by sizes alone. */
static bool is_identity(hn_graph *g, const hn_node_info *n) {
    const hn_value_info *from = hn_graph_value(g, n->args[0].as.value),
                        *to = hn_graph_value(g, n->results[0]);
    uint32_t dims[HN_MAX_RANK];
    if (n->op == HN_OP_PERMUTE)
        return hn_permute_dims(g, n, dims) && only_moves_ones(g, from, dims);
    if (from->rank != to->rank || !hn_same_sizes(g, from->sizes, to->sizes, to->rank)) return false;
    if (n->op == HN_OP_SLICE)
        return hn_size_is(g, n->args[2].as.expr, 0) && hn_size_is(g, n->args[4].as.expr, 1);
    return n->op == HN_OP_RESHAPE || n->op == HN_OP_EXPAND;
}

/* The pairs of views that become one. A view rebuilt over another operand would be the node
 * itself. */
static bool would_change(hn_graph *g, const hn_node_info *n) {
    static const struct {
        hn_op outer, inner;
    } pairs[] = {
        {HN_OP_RESHAPE, HN_OP_RESHAPE}, {HN_OP_PERMUTE, HN_OP_PERMUTE},
        {HN_OP_EXPAND, HN_OP_EXPAND},   {HN_OP_SLICE, HN_OP_SLICE},
        {HN_OP_SLICE, HN_OP_EXPAND},    {HN_OP_SLICE, HN_OP_CAT},
    };
    hn_value x = n->args[0].as.value;
    if (is_identity(g, n)) return true;
    for (size_t k = 0; k < sizeof pairs / sizeof *pairs; k++)
        if (pairs[k].outer == n->op && hn_made_by(g, x, pairs[k].inner)) return true;
    return false;
}

hn_value hn_fold_view(hn_graph *g, const hn_node_info *n) {
    hn_value x = n->args[0].as.value;
    uint32_t dims[HN_MAX_RANK];
    const hn_value_info *to = hn_graph_value(g, n->results[0]);
    const hn_node_info *full = hn_made_by(g, x, HN_OP_FULL);
    if (full) return full_of(g, full, to->sizes, to->rank);
    if (!would_change(g, n)) return 0;
    switch (n->op) {
    case HN_OP_RESHAPE: return hn_v_reshape(g, x, n->args[1].as.exprs, n->args[1].count);
    case HN_OP_EXPAND: return hn_v_expand(g, x, n->args[1].as.exprs, n->args[1].count);
    case HN_OP_PERMUTE: return hn_permute_dims(g, n, dims) ? hn_v_permute(g, x, dims) : 0;
    case HN_OP_SLICE: return fold_slice(g, n);
    default: return 0;
    }
}
