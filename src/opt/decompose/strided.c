/* strided.c: as_strided, the one op that speaks of storage. The primitive reads its operand in
 * row-major order, PyTorch's op the memory below it: so the value that owns the memory is looked
 * for through the views in between, and put in the order in which eager PyTorch would have it in
 * memory. */
#include "opt/decompose/math.h"

/* Views that begin where their operand begins. The others (select, slice...) move the storage
 * offset. */
static bool keeps_offset(hn_op op) {
    hn_dec_fn fn = hn_dec_find(op);
    return fn == hn_dec_reshape || fn == hn_dec_expand || fn == hn_dec_permute ||
           fn == hn_dec_transpose || fn == hn_dec_t || fn == hn_dec_mT || fn == hn_dec_numpy_T ||
           fn == hn_dec_movedim || fn == hn_dec_identity;
}

/* Whether the op copies when it must: reshape, contiguous and to return a view of some operands
 * only. */
static bool may_copy(const hn_dec *d, const hn_node_info *maker) {
    hn_dec_fn fn = hn_dec_find(maker->op);
    if (fn == hn_dec_to) return true;
    bool reshapes = fn == hn_dec_reshape || maker->op == HN_ATEN_contiguous_default;
    return reshapes && hn_graph_value(d->g, maker->args[0].as.value)->strides != NULL;
}

typedef struct storage_path {
    hn_value owner; /* the imported value whose memory it is; 0: cannot tell */
    bool moved;     /* a view on the way moves the offset */
} storage_path;

/* Follows the aliases that schemas declare. */
static storage_path storage_owner(const hn_dec *d, hn_value v) {
    storage_path path = {.owner = v};
    for (const hn_node_info *maker = hn_dec_maker(d, v); maker; maker = hn_dec_maker(d, v)) {
        uint32_t count = 0;
        const hn_param *params = hn_op_params(maker->op, &count);
        bool views =
            count && params[0].alias && !params[0].mutated && maker->args[0].kind == HN_ARG_VALUE;
        if (!views) break;
        if (may_copy(d, maker)) return (storage_path){0};
        if (!keeps_offset(maker->op)) path.moved = true;
        path.owner = v = maker->args[0].as.value;
    }
    return path;
}

/* Fills `dims` with the order from the largest stride to the smallest; false unless the elements
 * then lie without gaps or overlaps. */
static bool memory_order(hn_dec *d, const hn_value_info *info, uint32_t dims[HN_MAX_RANK]) {
    hn_expr expected = e_int(d, 1);
    bool used[HN_MAX_RANK] = {false};
    for (uint32_t k = 0; k < info->rank; k++) dims[k] = k;
    if (!info->strides) return true;
    for (uint32_t place = info->rank; place-- > 0;) { /* from the innermost dimension outward */
        uint32_t best = info->rank;
        for (uint32_t k = info->rank; k-- > 0;)
            if (!used[k] && (e_eq(d, info->strides[k], expected) || e_is(d, info->sizes[k], 1))) {
                best = k;
                if (!e_is(d, info->sizes[k], 1)) break;
            }
        if (best == info->rank) return false;
        used[best] = true;
        dims[place] = best;
        expected = e_mul(d, expected, info->sizes[best]);
    }
    return true;
}

void hn_dec_as_strided(hn_dec *d) {
    hn_expr strides[HN_MAX_RANK];
    m_shape_t shape = m_meta_shape(d, 0);
    hn_value self = d->aten->args[0].kind == HN_ARG_VALUE ? d->aten->args[0].as.value : 0;
    if (!m_require(d, hn_dec_exprs(d, 2, strides) == shape.rank,
                   "sizes and strides differ in length"))
        return;
    storage_path path = storage_owner(d, self);
    if (!m_require(d, path.owner, "its operand may be a view or a copy")) return;
    if (!m_require(d, !path.moved || hn_dec_has(d, 3),
                   "it reads around a slice without a storage offset"))
        return;
    uint32_t dims[HN_MAX_RANK];
    hn_value x = hn_dec_mapped(d, path.owner);
    if (!m_require(d, x && memory_order(d, hn_graph_value(d->g, path.owner), dims),
                   "its storage has gaps or overlaps"))
        return;
    hn_expr offset = hn_dec_has(d, 3) ? hn_dec_expr(d, 3) : e_int(d, 0);
    x = m_rank(d, x) ? hn_b_permute(d->g, x, dims) : x;
    bool whole = e_is(d, offset, 0) && e_row_major(d, shape.sizes, strides, shape.rank) &&
                 e_eq(d, e_product(d, shape.sizes, shape.rank), hn_numel(d->g, x));
    hn_dec_result(d, 0,
                  whole ? m_reshape(d, x, shape.sizes, shape.rank)
                        : hn_b_as_strided(d->g, x, shape.sizes, strides, shape.rank, offset));
}
