/* infer_view.c: inference rules of views: same elements, other coordinates. */
#include "ir/infer.h"

hn_status hn_infer_reshape(hn_infer_state *in) {
    const hn_value_info *x = hn_infer_arg(in, 0);
    hn_sym *sym = in->g->sym;
    in->out->dtype = x->dtype;
    HN_TRY(hn_infer_sizes(in, 1, in->out));
    return hn_infer_relation(in, HN_REL_EQ, hn_sym_product(sym, in->out->sizes, in->out->rank),
                             hn_sym_product(sym, x->sizes, x->rank),
                             "a reshape keeps the number of elements");
}

hn_status hn_infer_permute(hn_infer_state *in) {
    const hn_value_info *x = hn_infer_arg(in, 0);
    const hn_arg *dims = &in->args[1];
    bool seen[HN_MAX_RANK] = {false};
    in->out->dtype = x->dtype;
    in->out->rank = x->rank;
    if (dims->count != x->rank)
        return HN_ERROR(HN_INTERNAL, "'permute' has %u dims for rank %u", dims->count, x->rank);
    for (uint32_t i = 0; i < dims->count; i++) {
        int64_t dim;
        if (!hn_sym_is_int(in->g->sym, dims->as.exprs[i], &dim) || dim < 0 || dim >= x->rank ||
            seen[dim])
            return HN_ERROR(HN_INTERNAL,
                            "the dims of 'permute' are no permutation of %u dimensions", x->rank);
        seen[dim] = true;
        in->out->sizes[i] = x->sizes[dim];
    }
    return NULL;
}

hn_status hn_infer_expand(hn_infer_state *in) {
    const hn_value_info *x = hn_infer_arg(in, 0);
    in->out->dtype = x->dtype;
    HN_TRY(hn_infer_sizes(in, 1, in->out));
    if (in->out->rank != x->rank)
        return HN_ERROR(HN_INTERNAL, "'expand' gives rank %u to an operand of rank %u",
                        in->out->rank, x->rank);
    for (uint32_t i = 0; i < x->rank; i++)
        if (!hn_sym_is_value(in->g->sym, x->sizes[i], 1))
            HN_TRY(hn_infer_relation(in, HN_REL_EQ, in->out->sizes[i], x->sizes[i],
                                     "only sizes of 1 expand"));
    return NULL;
}

/* Shapes: x[start + i * step], 0 <= i < size, all within the dimension; for size 0 the bounds still
 * hold for `start` itself in the forms that clamping produces, so that one relation serves. */
hn_status hn_infer_slice(hn_infer_state *in) {
    const hn_value_info *x = hn_infer_arg(in, 0);
    hn_sym *sym = in->g->sym;
    hn_expr start = in->args[2].as.expr, size = in->args[3].as.expr;
    uint32_t dim;
    int64_t step;
    HN_TRY(hn_infer_dim(in, 1, x->rank, &dim));
    HN_TRY(hn_infer_const(in, 4, &step));
    if (!step) return HN_ERROR(HN_INTERNAL, "'slice' has a step of 0");
    HN_TRY(hn_infer_at_least(in, size, 0, "the size of a slice is not negative"));
    hn_infer_set(in->out, x->dtype, x->rank, x->sizes);
    in->out->sizes[dim] = size;
    if (hn_sym_is_value(sym, size, 0)) return NULL;
    hn_expr one = hn_sym_int(sym, 1);
    hn_expr last =
        hn_sym_add(sym, start, hn_sym_mul(sym, hn_sym_sub(sym, size, one), in->args[4].as.expr));
    hn_expr low = step > 0 ? start : last, high = step > 0 ? last : start;
    HN_TRY(hn_infer_at_least(in, low, 0, "a slice starts within its dimension"));
    return hn_infer_relation(in, HN_REL_LE, hn_sym_add(sym, high, one), x->sizes[dim],
                             "a slice ends within its dimension");
}

/* The extent that `count` steps and a window of `size` dilated elements reach over. */
static hn_expr window_extent(hn_sym *sym, hn_expr count, hn_expr size, hn_expr step,
                             hn_expr dilation) {
    hn_expr one = hn_sym_int(sym, 1);
    hn_expr moved = hn_sym_mul(sym, hn_sym_sub(sym, count, one), step);
    hn_expr within = hn_sym_mul(sym, hn_sym_sub(sym, size, one), dilation);
    return hn_sym_add(sym, hn_sym_add(sym, moved, within), one);
}

hn_status hn_infer_window(hn_infer_state *in) {
    const hn_value_info *x = hn_infer_arg(in, 0);
    hn_expr count = in->args[2].as.expr, size = in->args[3].as.expr;
    hn_expr step = in->args[4].as.expr, dilation = in->args[5].as.expr;
    uint32_t dim;
    HN_TRY(hn_infer_dim(in, 1, x->rank, &dim));
    if (x->rank == HN_MAX_RANK)
        return HN_ERROR(HN_UNSUPPORTED, "'window' exceeds the rank limit of %d", HN_MAX_RANK);
    HN_TRY(hn_infer_at_least(in, count, 0, "the count of windows is not negative"));
    HN_TRY(hn_infer_at_least(in, size, 1, "a window holds an element"));
    HN_TRY(hn_infer_at_least(in, step, 1, "the step of a window is positive"));
    HN_TRY(hn_infer_at_least(in, dilation, 1, "the dilation of a window is positive"));
    hn_infer_set(in->out, x->dtype, x->rank, x->sizes);
    in->out->sizes[dim] = count;
    in->out->sizes[in->out->rank++] = size;
    if (hn_sym_is_value(in->g->sym, count, 0)) return NULL;
    return hn_infer_relation(in, HN_REL_LE, window_extent(in->g->sym, count, size, step, dilation),
                             x->sizes[dim], "windows lie within their dimension");
}

hn_status hn_infer_as_strided(hn_infer_state *in) {
    const hn_value_info *x = hn_infer_arg(in, 0);
    const hn_arg *strides = &in->args[2];
    hn_sym *sym = in->g->sym;
    in->out->dtype = x->dtype;
    HN_TRY(hn_infer_sizes(in, 1, in->out));
    if (strides->count != in->out->rank)
        return HN_ERROR(HN_INTERNAL, "'as_strided' has %u sizes and %u strides", in->out->rank,
                        strides->count);
    hn_expr one = hn_sym_int(sym, 1), end = hn_sym_add(sym, in->args[3].as.expr, one);
    HN_TRY(hn_infer_at_least(in, in->args[3].as.expr, 0, "the offset is not negative"));
    bool empty = false;
    for (uint32_t i = 0; i < strides->count; i++) {
        HN_TRY(hn_infer_at_least(in, strides->as.exprs[i], 0, "strides are not negative"));
        empty |= hn_sym_is_value(sym, in->out->sizes[i], 0);
        end = hn_sym_add(
            sym, end,
            hn_sym_mul(sym, hn_sym_sub(sym, in->out->sizes[i], one), strides->as.exprs[i]));
    }
    if (empty) return NULL;
    return hn_infer_relation(in, HN_REL_LE, end, hn_sym_product(sym, x->sizes, x->rank),
                             "the elements lie within the operand");
}
