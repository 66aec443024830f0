/* index.c: integer tensors known as sums over coordinates become FULL or IOTA, and a lookup at such
 * indices becomes a view: index(table, iota) is a slice of rows, index(mask, [batch, column]) the
 * mask itself.
 *
 * A lookup checks its indices at run time, so it only goes when they are provably in range. */
#include "opt/fold/fold.h"

#include <string.h>

/* --- integer tensors --- */

/* base + slope * i along one dim as a tensor of the sizes. */
static hn_value place_affine(hn_graph *g, const hn_affine *a, int dim, const hn_value_info *to) {
    hn_expr shape[HN_MAX_RANK], one = hn_sym_int(g->sym, 1);
    if (dim == -1) return hn_b_full(g, hn_scalar_i(a->base), to->sizes, to->rank, to->dtype);
    hn_scalar slope = hn_scalar_i(hn_sym_int(g->sym, a->coeff[dim]));
    hn_value iota = hn_b_iota(g, hn_scalar_i(a->base), slope, to->sizes[dim], to->dtype);
    for (uint32_t k = 0; k < to->rank; k++) shape[k] = (int)k == dim ? to->sizes[k] : one;
    return hn_v_expand(g, hn_v_reshape(g, iota, shape, to->rank), to->sizes, to->rank);
}

hn_value hn_fold_affine(hn_fold *f, const hn_node_info *n) {
    hn_affine a;
    if (n->op == HN_OP_FULL || n->op == HN_OP_IOTA || n->op == HN_OP_RESHAPE ||
        n->op == HN_OP_EXPAND)
        return 0;
    if (!hn_facts_node_affine(&f->facts, n, &a)) return 0;
    const hn_value_info *to = hn_fold_result(f, n);
    int dim = hn_affine_dim(&a, to->rank);
    return dim == -2 ? 0 : place_affine(f->g, &a, dim, to);
}

/* --- lookups --- */

/* How one dim of the table is read: from `start` in steps along dim `along` of the index; -1: at
 * one place. */
typedef struct reach {
    hn_expr start, count;
    int64_t step;
    int along;
} reach;

/* False unless the index is affine in at most one dim and provably within a dim of `limit`
 * elements. */
static bool find_reach(hn_fold *f, hn_value index, hn_expr limit, bool wrap, reach *out) {
    const hn_affine *a = hn_facts_affine(&f->facts, index);
    const hn_value_info *info = hn_graph_value(f->g, index);
    hn_sym *sym = f->g->sym;
    hn_expr lo, hi, zero = hn_sym_int(sym, 0);
    if (!a || (out->along = hn_affine_dim(a, info->rank)) == -2) return false;
    if (!hn_affine_bounds(sym, a, info->sizes, info->rank, &lo, &hi)) return false;
    out->start = a->base;
    if (wrap && hn_sym_prove_lt(sym, hi, zero)) {
        lo = hn_sym_add(sym, lo, limit);
        hi = hn_sym_add(sym, hi, limit);
        out->start = hn_sym_add(sym, out->start, limit);
    }
    out->step = out->along < 0 ? 1 : a->coeff[out->along];
    out->count = out->along < 0 ? hn_sym_int(sym, 1) : info->sizes[out->along];
    return lo && hi && hn_sym_prove_le(sym, zero, lo) && hn_sym_prove_lt(sym, hi, limit);
}

/* index(x, [i0, i1..]) with k indices of the shape [s..]: x is sliced in its first k dims, those
 * are brought into the order of the index's dims, dims of 1 are put in between, and what the index
 * repeats is expanded. */
static hn_value index_view(hn_graph *g, hn_value x, const reach *reaches, uint32_t count,
                           const hn_value_info *index, const hn_value_info *to) {
    uint32_t order[HN_MAX_RANK], at = 0, rank = hn_graph_value(g, x)->rank;
    hn_expr shape[HN_MAX_RANK];
    for (uint32_t k = 0; k < count; k++)
        x = hn_v_slice(g, x, k, reaches[k].start, reaches[k].count, reaches[k].step);
    for (uint32_t k = 0; k < count; k++)
        if (reaches[k].along < 0) order[at++] = k;
    for (uint32_t d = 0; d < index->rank; d++) {
        shape[d] = hn_sym_int(g->sym, 1);
        for (uint32_t k = 0; k < count; k++) {
            if (reaches[k].along != (int)d) continue;
            order[at++] = k;
            shape[d] = index->sizes[d];
        }
    }
    for (uint32_t k = count; k < rank; k++) order[k] = k;
    memcpy(shape + index->rank, to->sizes + index->rank, (to->rank - index->rank) * sizeof *shape);
    x = hn_v_permute(g, x, order);
    return hn_v_expand(g, hn_v_reshape(g, x, shape, to->rank), to->sizes, to->rank);
}

hn_value hn_fold_index(hn_fold *f, const hn_node_info *n) {
    hn_value x = n->args[0].as.value;
    const hn_arg *indices = &n->args[1];
    const hn_value_info *to = hn_fold_result(f, n), *table = hn_graph_value(f->g, x);
    reach reaches[HN_MAX_RANK];
    if (!indices->count || indices->count > table->rank) return 0;
    const hn_value_info *index = hn_graph_value(f->g, indices->as.values[0]);
    for (uint32_t k = 0; k < indices->count; k++) {
        if (!find_reach(f, indices->as.values[k], table->sizes[k], n->args[2].as.b, &reaches[k]))
            return 0;
        for (uint32_t j = 0; j < k; j++) /* a diagonal is no slice */
            if (reaches[k].along >= 0 && reaches[j].along == reaches[k].along) return 0;
    }
    const hn_node_info *full = hn_made_by(f->g, x, HN_OP_FULL);
    hn_ref_elem e;
    if (full) return hn_uniform(f->g, x, &e) ? hn_full_like(f->g, e, to) : 0;
    return index_view(f->g, x, reaches, indices->count, index, to);
}

/* gather(x, index, dim): other dims are read from 0 on. */
hn_value hn_fold_gather(hn_fold *f, const hn_node_info *n) {
    hn_value x = n->args[0].as.value, index = n->args[1].as.value;
    const hn_value_info *to = hn_fold_result(f, n);
    hn_expr zero = hn_sym_int(f->g->sym, 0);
    int64_t dim;
    reach r;
    if (!hn_sym_is_int(f->g->sym, n->args[2].as.expr, &dim) || dim < 0 || dim >= to->rank) return 0;
    if (!find_reach(f, index, hn_graph_value(f->g, x)->sizes[dim], false, &r) ||
        (r.along >= 0 && r.along != dim))
        return 0;
    x = hn_v_slice(f->g, x, (uint32_t)dim, r.start, r.count, r.step);
    for (uint32_t k = 0; k < to->rank; k++)
        if (k != dim) x = hn_v_slice(f->g, x, k, zero, to->sizes[k], 1);
    return hn_v_expand(f->g, x, to->sizes, to->rank);
}
