/* infer_data.c: inference rules of data movement: padding, concatenation, gathers and scatters. */
#include "ir/infer.h"

static const char *const combine_modes[] = {"set", "add", "mul", "min", "max", NULL};

hn_status hn_infer_pad(hn_infer_state *in) {
    const hn_value_info *x = hn_infer_arg(in, 0);
    const hn_arg *lo = &in->args[2], *hi = &in->args[3];
    hn_sym *sym = in->g->sym;
    hn_infer_set(in->out, x->dtype, x->rank, x->sizes);
    if (lo->count != x->rank || hi->count != x->rank)
        return HN_ERROR(HN_INTERNAL, "'pad' has %u and %u amounts for rank %u", lo->count,
                        hi->count, x->rank);
    for (uint32_t i = 0; i < x->rank; i++) {
        HN_TRY(hn_infer_at_least(in, lo->as.exprs[i], 0, "padding is not negative"));
        HN_TRY(hn_infer_at_least(in, hi->as.exprs[i], 0, "padding is not negative"));
        in->out->sizes[i] =
            hn_sym_add(sym, x->sizes[i], hn_sym_add(sym, lo->as.exprs[i], hi->as.exprs[i]));
    }
    return NULL;
}

hn_status hn_infer_cat(hn_infer_state *in) {
    const hn_arg *xs = &in->args[0];
    if (!xs->count) return HN_ERROR(HN_INTERNAL, "'cat' has no operands");
    const hn_value_info *first = hn_graph_value(in->g, xs->as.values[0]);
    uint32_t dim;
    HN_TRY(hn_infer_dim(in, 1, first->rank, &dim));
    hn_infer_set(in->out, first->dtype, first->rank, first->sizes);
    for (uint32_t k = 1; k < xs->count; k++) {
        const hn_value_info *x = hn_graph_value(in->g, xs->as.values[k]);
        HN_TRY(hn_infer_same_dtype(in, first->dtype, x->dtype));
        if (x->rank != first->rank)
            return HN_ERROR(HN_INTERNAL, "operand %u of 'cat' has rank %u instead of %u", k,
                            x->rank, first->rank);
        for (uint32_t i = 0; i < x->rank; i++)
            if (i != dim && !hn_sizes_agree(in->g, x->sizes[i], first->sizes[i]))
                HN_TRY(hn_infer_relation(in, HN_REL_EQ, x->sizes[i], first->sizes[i],
                                         "the other sizes of a cat are equal"));
        in->out->sizes[dim] = hn_sym_add(in->g->sym, in->out->sizes[dim], x->sizes[dim]);
    }
    return NULL;
}

/* What GATHER and SCATTER share: an integer index of x's rank that is no larger than x but along
 * `dim`. */
static hn_status check_gather(hn_infer_state *in, uint32_t dim_arg) {
    const hn_value_info *x = hn_infer_arg(in, 0), *index = hn_infer_arg(in, 1);
    uint32_t dim;
    HN_TRY(hn_infer_dim(in, dim_arg, x->rank, &dim));
    HN_TRY(hn_infer_int_dtype(in, index->dtype, "index"));
    if (index->rank != x->rank)
        return HN_ERROR(HN_INTERNAL, "'%s' has an index of rank %u for rank %u",
                        hn_op_facts(in->op)->name, index->rank, x->rank);
    for (uint32_t i = 0; i < x->rank; i++)
        if (i != dim)
            HN_TRY(hn_infer_relation(in, HN_REL_LE, index->sizes[i], x->sizes[i],
                                     "an index is no larger than its tensor"));
    return NULL;
}

hn_status hn_infer_gather(hn_infer_state *in) {
    HN_TRY(check_gather(in, 2));
    const hn_value_info *index = hn_infer_arg(in, 1);
    hn_infer_set(in->out, hn_infer_arg(in, 0)->dtype, index->rank, index->sizes);
    return NULL;
}

hn_status hn_infer_scatter(hn_infer_state *in) {
    const hn_value_info *x = hn_infer_arg(in, 0), *index = hn_infer_arg(in, 1),
                        *src = hn_infer_arg(in, 2);
    HN_TRY(check_gather(in, 3));
    HN_TRY(hn_infer_word(in, 4, combine_modes));
    HN_TRY(hn_infer_same_dtype(in, x->dtype, src->dtype));
    if (src->rank != index->rank)
        return HN_ERROR(HN_INTERNAL, "'scatter' has a source of rank %u for an index of rank %u",
                        src->rank, index->rank);
    for (uint32_t i = 0; i < src->rank; i++)
        if (!hn_sizes_agree(in->g, src->sizes[i], index->sizes[i]))
            HN_TRY(hn_infer_relation(in, HN_REL_EQ, src->sizes[i], index->sizes[i],
                                     "source and index have equal sizes"));
    hn_infer_set(in->out, x->dtype, x->rank, x->sizes);
    return NULL;
}

/* The shape that x[indices...] has: that of the indices, then x's dimensions behind the indexed
 * ones. */
static hn_status indexed_shape(hn_infer_state *in, hn_meta *out) {
    const hn_value_info *x = hn_infer_arg(in, 0);
    const hn_arg *indices = &in->args[1];
    if (!indices->count || indices->count > x->rank)
        return HN_ERROR(HN_INTERNAL, "'%s' has %u indices for rank %u", hn_op_facts(in->op)->name,
                        indices->count, x->rank);
    const hn_value_info *first = hn_graph_value(in->g, indices->as.values[0]);
    uint32_t rest = x->rank - indices->count;
    if (first->rank + rest > HN_MAX_RANK)
        return HN_ERROR(HN_UNSUPPORTED, "'%s' exceeds the rank limit of %d",
                        hn_op_facts(in->op)->name, HN_MAX_RANK);
    for (uint32_t k = 0; k < indices->count; k++) {
        const hn_value_info *index = hn_graph_value(in->g, indices->as.values[k]);
        HN_TRY(hn_infer_int_dtype(in, index->dtype, "index"));
        if (index->rank != first->rank)
            return HN_ERROR(HN_INTERNAL, "the indices of '%s' differ in rank",
                            hn_op_facts(in->op)->name);
        for (uint32_t i = 0; i < index->rank; i++)
            if (!hn_sizes_agree(in->g, index->sizes[i], first->sizes[i]))
                HN_TRY(hn_infer_relation(in, HN_REL_EQ, index->sizes[i], first->sizes[i],
                                         "indices have equal sizes"));
    }
    hn_infer_set(out, x->dtype, first->rank, first->sizes);
    for (uint32_t i = 0; i < rest; i++) out->sizes[out->rank++] = x->sizes[indices->count + i];
    return NULL;
}

hn_status hn_infer_index(hn_infer_state *in) { return indexed_shape(in, in->out); }

hn_status hn_infer_index_put(hn_infer_state *in) {
    const hn_value_info *x = hn_infer_arg(in, 0), *values = hn_infer_arg(in, 2);
    hn_meta shape;
    HN_TRY(indexed_shape(in, &shape));
    HN_TRY(hn_infer_word(in, 3, combine_modes));
    HN_TRY(hn_infer_same_dtype(in, x->dtype, values->dtype));
    if (values->rank != shape.rank)
        return HN_ERROR(HN_INTERNAL, "'index_put' has values of rank %u instead of %u",
                        values->rank, shape.rank);
    for (uint32_t i = 0; i < shape.rank; i++)
        if (!hn_sizes_agree(in->g, values->sizes[i], shape.sizes[i]))
            HN_TRY(hn_infer_relation(in, HN_REL_EQ, values->sizes[i], shape.sizes[i],
                                     "values have the indexed sizes"));
    hn_infer_set(in->out, x->dtype, x->rank, x->sizes);
    return NULL;
}
