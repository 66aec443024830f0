/* data.c: reductions, scans and data movement over operands that are one number throughout, and
 * those that do nothing. */
#include "opt/fold/fold.h"

#include "base/checked.h"

#include <math.h>

/* --- reductions --- */

typedef struct reduced {
    bool nothing;  /* no dim, or only dims of one element */
    bool nonempty; /* provably something is reduced */
    int64_t count; /* elements that become one; -1: unknown */
} reduced;

static reduced look_at_dims(hn_fold *f, const hn_node_info *n) {
    hn_sym *sym = f->g->sym;
    const hn_value_info *x = hn_graph_value(f->g, n->args[0].as.value);
    reduced r = {.nothing = true, .nonempty = true, .count = 1};
    for (uint32_t k = 0; k < n->args[1].count; k++) {
        int64_t dim, size;
        if (!hn_sym_is_int(sym, n->args[1].as.exprs[k], &dim) || dim < 0 || dim >= x->rank)
            return (reduced){.count = -1};
        r.nothing &= hn_size_is(f->g, x->sizes[dim], 1);
        r.nonempty &= hn_sym_prove_lt(sym, hn_sym_int(sym, 0), x->sizes[dim]);
        if (r.count < 0 || !hn_sym_is_int(sym, x->sizes[dim], &size) ||
            !hn_mul_i64(r.count, size, &r.count))
            r.count = -1;
    }
    return r;
}

/* Of one number throughout. A sum of floats rounds as it goes, so only zero is known. */
static bool reduce_number(const hn_node_info *n, const reduced *r, hn_dtype dtype, hn_ref_elem e,
                          hn_ref_elem *out) {
    bool is_float = hn_dtype_is_float(dtype);
    *out = e;
    switch (n->op) {
    case HN_OP_AMAX:
    case HN_OP_AMIN: return r->nonempty;
    case HN_OP_ANY: return r->nonempty || !e.i;
    case HN_OP_ALL: return r->nonempty || e.i;
    case HN_OP_PROD: return is_float ? e.f == 1 : e.i == 1;
    case HN_OP_SUM: {
        hn_ref_elem args[2] = {e, {.i = r->count}};
        if (is_float) return e.f == 0 && !signbit(e.f);
        return e.i == 0 || (r->count >= 0 && hn_ref_apply(HN_OP_MUL, dtype, dtype, args, out));
    }
    default: return false;
    }
}

hn_value hn_fold_reduce(hn_fold *f, const hn_node_info *n) {
    hn_value x = n->args[0].as.value;
    const hn_value_info *to = hn_fold_result(f, n);
    hn_ref_elem e, result;
    reduced r = look_at_dims(f, n);
    if (hn_uniform(f->g, x, &e) && reduce_number(n, &r, to->dtype, e, &result))
        return hn_full_like(f->g, result, to);
    bool gives_index = hn_op_has(n->op, HN_TRAIT_POSITION);
    /* -0.0 + 0.0 is 0.0 */
    bool adds_to_zero = n->op == HN_OP_SUM && hn_dtype_is_float(to->dtype) && n->args[1].count;
    return r.nothing && !gives_index && !adds_to_zero ? hn_v_reshape(f->g, x, to->sizes, to->rank)
                                                      : 0;
}

/* --- scans --- */

/* Running sums of an integer c are c, 2c, 3c.. */
hn_value hn_fold_scan(hn_fold *f, const hn_node_info *n) {
    const hn_value_info *to = hn_fold_result(f, n);
    hn_sym *sym = f->g->sym;
    int64_t dim;
    hn_ref_elem e;
    if (n->op != HN_OP_CUMSUM || !hn_uniform(f->g, n->args[0].as.value, &e)) return 0;
    if (hn_dtype_is_float(to->dtype))
        return e.f == 0 && !signbit(e.f) ? hn_full_like(f->g, e, to) : 0;
    if (e.i == 0) return hn_full_like(f->g, e, to);
    if (to->dtype != HN_DTYPE_I64 || e.i > INT16_MAX || e.i < INT16_MIN) return 0;
    if (!hn_sym_is_int(sym, n->args[1].as.expr, &dim) || dim < 0 || dim >= to->rank) return 0;
    hn_expr shape[HN_MAX_RANK];
    for (uint32_t k = 0; k < to->rank; k++)
        shape[k] = (int64_t)k == dim ? to->sizes[k] : hn_sym_int(sym, 1);
    hn_scalar step = hn_scalar_i(hn_sym_int(sym, e.i));
    hn_value iota = hn_b_iota(f->g, step, step, to->sizes[dim], to->dtype);
    return hn_v_expand(f->g, hn_v_reshape(f->g, iota, shape, to->rank), to->sizes, to->rank);
}

/* --- joins and borders --- */

/* Members without elements go; members that are all one number give that number. */
hn_value hn_fold_cat(hn_fold *f, const hn_node_info *n) {
    const hn_arg *xs = &n->args[0];
    const hn_value_info *to = hn_fold_result(f, n);
    hn_value *kept = hn_arena_alloc(f->context->scratch, xs->count * sizeof *kept);
    uint32_t count = 0;
    hn_ref_elem first, e;
    int64_t dim;
    if (!kept || !hn_sym_is_int(f->g->sym, n->args[1].as.expr, &dim) || dim < 0 || dim >= to->rank)
        return 0;
    for (uint32_t k = 0; k < xs->count; k++)
        if (!hn_size_is(f->g, hn_graph_value(f->g, xs->as.values[k])->sizes[dim], 0))
            kept[count++] = xs->as.values[k];
    if (!count) return xs->count > 1 ? xs->as.values[0] : 0;
    bool same = hn_uniform(f->g, kept[0], &first);
    for (uint32_t k = 1; k < count && same; k++)
        same = hn_uniform(f->g, kept[k], &e) && e.i == first.i;
    if (same) return hn_full_like(f->g, first, to);
    return count < xs->count ? hn_b_cat(f->g, kept, count, (uint32_t)dim) : 0;
}

hn_value hn_fold_pad(hn_fold *f, const hn_node_info *n) {
    const hn_value_info *to = hn_fold_result(f, n);
    const hn_arg *value = &n->args[1];
    bool nothing = true;
    hn_ref_elem e, border;
    for (uint32_t k = 0; k < to->rank; k++)
        nothing &= hn_size_is(f->g, n->args[2].as.exprs[k], 0) &&
                   hn_size_is(f->g, n->args[3].as.exprs[k], 0);
    if (nothing) return n->args[0].as.value;
    if (!hn_uniform(f->g, n->args[0].as.value, &e)) return 0;
    if (value->kind == HN_ARG_FLOAT) {
        border.f = value->as.f;
        if (!hn_ref_apply(HN_OP_CAST, HN_DTYPE_F64, to->dtype, &border, &border)) return 0;
    } else {
        border.i = value->kind == HN_ARG_BOOL ? value->as.b : 0;
        if (value->kind == HN_ARG_INT && !hn_sym_is_int(f->g->sym, value->as.expr, &border.i))
            return 0;
        if (!hn_ref_apply(HN_OP_CAST, HN_DTYPE_I64, to->dtype, &border, &border)) return 0;
    }
    return border.i == e.i ? hn_full_like(f->g, e, to) : 0;
}
