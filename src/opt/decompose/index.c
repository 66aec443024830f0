/* index.c: reading by index, and rearrangements that are index arithmetic.
 *
 * INDEX replaces the first k dims of its operand, so indexed dims are moved to the front and the
 * dims of the index tensors back to where PyTorch puts them. */
#include "opt/decompose/math.h"

/* --- gather family --- */

/* aten.gather(self, dim, index): no wrap */
void hn_dec_gather(hn_dec *d) {
    hn_value x = m_at_least_1d(d, hn_dec_tensor(d, 0)),
             index = m_at_least_1d(d, hn_dec_tensor(d, 2));
    uint32_t dim = hn_dec_dim(d, 1, m_rank(d, x));
    if (!m_require(d, m_rank(d, x) == m_rank(d, index),
                   "gather wants an index of the rank of its input"))
        return;
    m_result(d, 0, m_like_meta(d, hn_b_gather(d->g, x, m_index64(d, index), dim), 0));
}

/* aten.embedding(weight, indices, ..): rows of a table; no wrap */
void hn_dec_embedding(hn_dec *d) {
    hn_value table = hn_dec_tensor(d, 0), index = m_index64(d, hn_dec_tensor(d, 1));
    m_result(d, 0, hn_b_index(d->g, table, &index, 1, false));
}

/* aten.index_select(self, dim, index); no wrap */
void hn_dec_index_select(hn_dec *d) {
    hn_value x = m_at_least_1d(d, hn_dec_tensor(d, 0)),
             index = m_index64(d, m_at_least_1d(d, hn_dec_tensor(d, 2)));
    uint32_t dim = hn_dec_dim(d, 1, m_rank(d, x));
    if (!m_require(d, m_rank(d, index) == 1, "index_select wants an index of one dimension"))
        return;
    m_result(d, 0, m_like_meta(d, m_take_dim(d, x, dim, index), 0));
}

static hn_value flattened(hn_dec *d, hn_value x) {
    uint32_t rank = m_rank(d, x);
    return rank == 0 ? m_at_least_1d(d, x) : m_merge(d, x, 0, rank);
}

/* aten.take(self, index): positions in the flattened input; wraps */
void hn_dec_take(hn_dec *d) {
    hn_value x = flattened(d, hn_dec_tensor(d, 0)), index = m_index64(d, hn_dec_tensor(d, 1));
    m_result(d, 0, hn_b_index(d->g, x, &index, 1, true));
}

/* aten.take_along_dim(self, indices, dim): the other dims broadcast and positions wrap both ways;
 * without dim both are flattened and positions must fit */
void hn_dec_take_along_dim(hn_dec *d) {
    hn_value x = hn_dec_tensor(d, 0), index = m_index64(d, hn_dec_tensor(d, 1));
    if (!hn_dec_has(d, 2)) {
        m_result(d, 0, hn_b_gather(d->g, flattened(d, x), flattened(d, index), 0));
        return;
    }
    m_shape_t sx = m_shape(d, x), si = m_shape(d, index);
    uint32_t dim = hn_dec_dim(d, 2, sx.rank);
    if (!m_require(d, sx.rank == si.rank && sx.rank > 0,
                   "take_along_dim wants an index of the rank of its input"))
        return;
    for (uint32_t k = 0; k < sx.rank; k++) {
        if (k == dim) continue;
        if (e_is(d, sx.sizes[k], 1)) sx.sizes[k] = si.sizes[k];
        si.sizes[k] = sx.sizes[k];
    }
    index = m_bin(d, HN_OP_REMAINDER, index, m_size_as(d, sx.sizes[dim], HN_DTYPE_I64));
    m_result(d, 0, hn_b_gather(d->g, m_expand(d, x, &sx), m_expand(d, index, &si), dim));
}

/* --- index.Tensor and index_put --- */

typedef struct advanced {
    uint32_t rank;                 /* of the indexed tensor */
    uint32_t count;                /* index tensors */
    hn_value indices[HN_MAX_RANK]; /* i64, all of shape `shape` */
    uint32_t order[HN_MAX_RANK];   /* dims of x: the indexed ones, then the rest */
    m_shape_t shape;               /* broadcast shape of the index tensors */
    uint32_t at;                   /* where its dims stand in the result */
} advanced;

/* The index list with one entry for each dim of x that it names; 0: a full slice. */
typedef struct index_list {
    uint32_t count;
    hn_value items[HN_MAX_RANK];
} index_list;

static bool is_mask(const hn_dec *d, hn_value index) {
    return m_dtype(d, index) == HN_DTYPE_BOOL || m_dtype(d, index) == HN_DTYPE_U8;
}

/* The number of elements that a mask of the list chooses: what `result`, of the shape that reading
 * x gives, records where the index dims stand; 0 when it has not that rank. */
static hn_expr chosen_count(hn_dec *d, hn_value x, const m_shape_t *result, const hn_value *list,
                            uint32_t listed) {
    uint32_t dim = 0, first = 0, next = 0, rank = 1, covered = 0;
    bool adjacent = true, found = false;
    for (uint32_t k = 0; k < listed; k++) {
        bool mask = list[k] && is_mask(d, list[k]);
        uint32_t covers = mask ? m_rank(d, list[k]) : 1;
        if (list[k]) {
            if (!found) first = dim;
            covered += covers;
            adjacent &= !found || next == dim;
            found = true;
            next = dim + covers;
            if (!mask && m_rank(d, list[k]) > rank) rank = m_rank(d, list[k]);
        }
        dim += covers;
    }
    uint32_t at = (adjacent ? first : 0) + rank - 1;
    return result->rank + covered == m_rank(d, x) + rank && at < result->rank ? result->sizes[at]
                                                                              : 0;
}

/* A mask stands for the positions of its true elements, one index for each of its dims. Their
 * number is a symbol of the recorded result when reading, of the values when writing. Several masks
 * choose equally many: each defines the symbol again, which is checked. */
static bool append_mask(hn_dec *d, hn_value mask, hn_expr count, index_list *out) {
    const hn_sym *sym = d->g->sym;
    uint32_t rank = m_rank(d, mask);
    bool counted = count && hn_sym_kind(sym, count) == HN_EXPR_SYMBOL &&
                   hn_sym_symbol_kind(sym, count) == HN_SYMBOL_DATA;
    if (!m_require(d,
                   counted && m_dtype(d, mask) == HN_DTYPE_BOOL && rank > 0 &&
                       rank <= HN_MAX_RANK - out->count,
                   "indexing with a mask gives sizes that depend on data"))
        return false;
    hn_value at = hn_b_nonzero(d->g, mask, count);
    for (uint32_t k = 0; k < rank; k++)
        out->items[out->count++] = at ? hn_b_select(d->g, at, 1, e_int(d, k)) : 0;
    return true;
}

static bool read_list(hn_dec *d, uint32_t arg, hn_value x, const m_shape_t *result,
                      index_list *out) {
    const hn_value *list = NULL;
    uint32_t listed = hn_dec_tensors(d, arg, &list);
    *out = (index_list){0};
    for (uint32_t k = 0; k < listed; k++) {
        if (!m_require(d, out->count < HN_MAX_RANK, "there are more indices than dimensions"))
            return false;
        if (!list[k] || !is_mask(d, list[k])) {
            out->items[out->count++] = m_index64(d, list[k]);
            continue;
        }
        if (!append_mask(d, list[k], chosen_count(d, x, result, list, listed), out)) return false;
    }
    return true;
}

/* Broadcasts the index tensors and tells where their dims go: in place of the indexed dims when
 * those are neighbours, else first. `result`: the shape of what is read or written. */
static bool read_advanced(hn_dec *d, uint32_t arg, m_shape_t result, hn_value x, advanced *out) {
    index_list list;
    uint32_t next = 0;
    bool adjacent = true;
    *out = (advanced){.rank = m_rank(d, x)};
    if (!read_list(d, arg, x, &result, &list)) return false;
    if (!m_require(d, list.count <= out->rank, "there are more indices than dimensions"))
        return false;
    for (uint32_t k = 0; k < list.count; k++) {
        if (!list.items[k]) continue;
        m_shape_t s = m_shape(d, list.items[k]), both;
        hn_status status = hn_broadcast(d->g, out->shape.sizes, out->shape.rank, s.sizes, s.rank,
                                        both.sizes, &both.rank);
        if (status) {
            hn_graph_fail(d->g, status);
            return false;
        }
        out->shape = both;
        adjacent &= out->count == 0 || next == k;
        if (out->count == 0) out->at = k;
        next = k + 1;
        out->indices[out->count] = list.items[k];
        out->order[out->count++] = k;
    }
    if (!adjacent) out->at = 0;
    uint32_t filled = out->count;
    for (uint32_t k = 0; k < out->rank; k++)
        if (k >= list.count || !list.items[k]) out->order[filled++] = k;
    for (uint32_t k = 0; k < out->count; k++)
        out->indices[k] = m_expand(d, out->indices[k], &out->shape);
    return m_require(d, out->rank - out->count + out->shape.rank <= HN_MAX_RANK,
                     "the rank of the result is above 16");
}

/* Order of the result's dims in terms of [index dims, rest]; `inverse` gives the other
 * direction. */
static void result_order(const advanced *a, bool inverse, uint32_t out[HN_MAX_RANK]) {
    uint32_t rank = a->rank - a->count + a->shape.rank, at = 0;
    uint32_t order[HN_MAX_RANK];
    for (uint32_t k = 0; k < a->at; k++) order[at++] = a->shape.rank + k;
    for (uint32_t k = 0; k < a->shape.rank; k++) order[at++] = k;
    for (uint32_t k = a->shape.rank + a->at; k < rank; k++) order[at++] = k;
    for (uint32_t k = 0; k < rank; k++) {
        if (inverse) out[order[k]] = k;
        else out[k] = order[k];
    }
}

static hn_value index_tensor(hn_dec *d, hn_value x, const advanced *a) {
    if (a->count == 0) return x;
    uint32_t order[HN_MAX_RANK];
    result_order(a, false, order);
    hn_value front = hn_b_permute(d->g, x, a->order);
    return hn_b_permute(d->g, hn_b_index(d->g, front, a->indices, a->count, true), order);
}

/* aten.index.Tensor, _unsafe_index (self, indices); wraps */
void hn_dec_index(hn_dec *d) {
    hn_value x = hn_dec_tensor(d, 0);
    advanced a;
    if (read_advanced(d, 1, m_meta_shape(d, 0), x, &a)) m_result(d, 0, index_tensor(d, x, &a));
}

/* aten._unsafe_masked_index(self, mask, indices, fill): indices where the mask is false may be
 * anything */
void hn_dec_masked_index(hn_dec *d) {
    hn_value x = hn_dec_tensor(d, 0), mask = hn_dec_tensor(d, 1);
    advanced a;
    if (!read_advanced(d, 2, m_meta_shape(d, 0), x, &a)) return;
    for (uint32_t k = 0; k < a.count; k++) {
        hn_expr last = e_addc(d, m_size(d, x, a.order[k]), -1);
        hn_value high = m_bin(d, HN_OP_MIN, a.indices[k], m_size_as(d, last, HN_DTYPE_I64));
        a.indices[k] = m_max_c(d, high, 0);
    }
    hn_value taken = index_tensor(d, x, &a);
    m_result(d, 0, m_where(d, mask, taken, hn_dec_number(d, 3, m_dtype(d, x))));
}

/* x[mask] = v with the same values wherever the mask is true is a choice between two tensors: no
 * size depends on data. */
static bool put_masked(hn_dec *d, hn_value x) {
    const hn_value *list = NULL;
    uint32_t listed = hn_dec_tensors(d, 1, &list);
    hn_value mask = listed == 1 ? list[0] : 0, value = hn_dec_tensor(d, 2);
    if (!mask || m_dtype(d, mask) != HN_DTYPE_BOOL || m_rank(d, mask) > m_rank(d, x)) return false;
    hn_expr one = e_int(d, 1), sizes[HN_MAX_RANK];
    m_shape_t v = m_shape(d, value);
    /* the dims that the mask chooses among */
    uint32_t rest = m_rank(d, x) - m_rank(d, mask), ahead = v.rank > rest ? v.rank - rest : 0;
    for (uint32_t k = 0; k < ahead; k++)
        if (!e_is(d, v.sizes[k], 1)) return false;
    if (ahead) value = m_reshape(d, value, v.sizes + ahead, v.rank - ahead);
    for (uint32_t k = 0; k < m_rank(d, x); k++)
        sizes[k] = k < m_rank(d, mask) ? m_size(d, mask, k) : one;
    mask = m_reshape(d, mask, sizes, m_rank(d, x));
    value = m_cast(d, value, m_dtype(d, x));
    if (hn_dec_bool(d, 3)) value = m_add(d, x, value);
    m_result(d, 0, m_where(d, mask, value, x));
    return true;
}

/* aten.index_put, _unsafe_index_put (self, indices, values, accumulate); wraps */
void hn_dec_index_put(hn_dec *d) {
    hn_value x = hn_dec_tensor(d, 0), values = hn_dec_tensor(d, 2);
    advanced a;
    if (put_masked(d, x) || !read_advanced(d, 1, m_shape(d, values), x, &a)) return;
    bool accumulate = hn_dec_bool(d, 3);
    hn_dtype dtype = m_dtype(d, x), math = accumulate ? hn_dec_opmath(dtype) : dtype;
    uint32_t order[HN_MAX_RANK], back[HN_MAX_RANK];
    hn_value front = hn_b_permute(d->g, m_cast(d, x, math), a.order);
    m_shape_t s = m_shape(d, front), wide = a.shape,
              placed; /* values broadcast to the shape that reading would give */
    for (uint32_t k = a.count; k < s.rank; k++) wide.sizes[wide.rank++] = s.sizes[k];
    result_order(&a, false, order);
    placed.rank = wide.rank;
    for (uint32_t k = 0; k < wide.rank; k++) placed.sizes[k] = wide.sizes[order[k]];
    result_order(&a, true, back);
    values = hn_b_permute(d->g, m_expand(d, m_cast(d, values, math), &placed), back);
    if (a.count == 0) {
        m_result(d, 0, accumulate ? m_add(d, front, values) : values);
        return;
    }
    hn_value r =
        hn_b_index_put(d->g, front, a.indices, a.count, values, accumulate ? "add" : "set", true);
    for (uint32_t k = 0; k < s.rank; k++) back[a.order[k]] = k;
    m_result(d, 0, r ? hn_b_permute(d->g, r, back) : 0);
}

/* --- writes along one dim --- */

/* Operands of index_add and friends: x with `dim` in front, and the source with it in front too. */
typedef struct along {
    hn_value x, index, source;
    uint32_t dim;
} along;

static bool read_along(hn_dec *d, bool has_source, hn_dtype dtype, along *out) {
    hn_value x = m_at_least_1d(d, m_cast(d, hn_dec_tensor(d, 0), dtype));
    uint32_t dim = hn_dec_dim(d, 1, m_rank(d, x));
    *out = (along){.x = m_move_dim(d, x, dim, 0),
                   .index = m_index64(d, m_at_least_1d(d, hn_dec_tensor(d, 2))),
                   .dim = dim};
    if (!m_require(d, m_rank(d, out->index) == 1, "the index must have one dimension"))
        return false;
    m_shape_t s = m_shape(d, out->x);
    if (s.rank) s.sizes[0] = m_size(d, out->index, 0);
    hn_value source = m_cast(d, hn_dec_tensor(d, 3), dtype);
    if (has_source) {
        source = m_at_least_1d(d, source);
        if (!m_require(d, m_rank(d, source) == s.rank,
                       "the source must have the rank of the input"))
            return false;
        source = m_move_dim(d, source, dim, 0);
    }
    out->source = m_expand(d, source, &s);
    return true;
}

static void put_along(hn_dec *d, const along *a, const char *mode, bool wrap) {
    hn_value r = hn_b_index_put(d->g, a->x, &a->index, 1, a->source, mode, wrap);
    m_result(d, 0, m_like_meta(d, m_move_dim(d, r, 0, a->dim), 0));
}

/* aten.index_add(self, dim, index, source, *, alpha) */
void hn_dec_index_add(hn_dec *d) {
    hn_dtype math = hn_dec_opmath(m_dtype(d, hn_dec_tensor(d, 0)));
    along a;
    if (!read_along(d, true, math, &a)) return;
    hn_scalar alpha = hn_dec_scalar(d, 4);
    bool plain = alpha.is_float ? alpha.f == 1 : e_is(d, alpha.i, 1);
    if (!plain) a.source = m_mul(d, a.source, hn_dec_scalar_value(d, alpha, math));
    put_along(d, &a, "add", false);
}

/* aten.index_copy(self, dim, index, source) */
void hn_dec_index_copy(hn_dec *d) {
    along a;
    if (read_along(d, true, m_dtype(d, hn_dec_tensor(d, 0)), &a)) put_along(d, &a, "set", false);
}

/* aten.index_fill.int_Scalar, .int_Tensor (self, dim, index, value); wraps */
void hn_dec_index_fill(hn_dec *d) {
    hn_dtype dtype = m_dtype(d, hn_dec_tensor(d, 0));
    along a;
    if (read_along(d, false, dtype, &a)) put_along(d, &a, "set", true);
}

/* --- rearrangements --- */

/* One dim turned by `shift`: the last `shift` elements come first. */
static hn_value roll_dim(hn_dec *d, hn_value x, uint32_t dim, hn_expr shift) {
    hn_expr size = m_size(d, x, dim);
    if (!x || e_is(d, size, 0)) return x;
    hn_expr head = hn_sym_mod(d->g->sym, shift, size);
    if (e_is(d, head, 0)) return x;
    hn_expr cut = e_sub(d, size, head);
    hn_value parts[2] = {m_slice(d, x, dim, cut, head), m_slice(d, x, dim, e_int(d, 0), cut)};
    return hn_b_cat(d->g, parts, 2, dim);
}

/* aten.roll(self, shifts, dims): without dims the flattened tensor turns */
void hn_dec_roll(hn_dec *d) {
    hn_value x = hn_dec_tensor(d, 0);
    hn_expr shifts[HN_MAX_RANK], dims[HN_MAX_RANK];
    uint32_t shift_count = hn_dec_exprs(d, 1, shifts), dim_count = hn_dec_exprs(d, 2, dims);
    m_shape_t s = m_shape(d, x);
    if (dim_count == 0) {
        if (!m_require(d, shift_count == 1, "roll without dims wants one shift")) return;
        m_result(d, 0, m_reshape(d, roll_dim(d, flattened(d, x), 0, shifts[0]), s.sizes, s.rank));
        return;
    }
    if (!m_require(d, shift_count == dim_count, "roll wants one shift for each dim")) return;
    for (uint32_t k = 0; k < dim_count; k++) {
        int64_t dim = 0;
        if (!m_require(
                d, e_const(d, dims[k], &dim) && dim >= -(int64_t)s.rank && dim < (int64_t)s.rank,
                "a dimension is out of range"))
            return;
        x = roll_dim(d, x, (uint32_t)(dim < 0 ? dim + s.rank : dim), shifts[k]);
    }
    m_result(d, 0, x);
}

/* [.., a*b, ..] -> [.., a, b, ..]; the factor not given follows from the size. */
static hn_value split_dim(hn_dec *d, hn_value x, uint32_t dim, hn_expr a, hn_expr b) {
    hn_expr size = m_size(d, x, dim);
    if (!a) a = hn_sym_floordiv(d->g->sym, size, b);
    if (!b) b = hn_sym_floordiv(d->g->sym, size, a);
    return m_split(d, x, dim, (hn_expr[]){a, b}, 2);
}

/* aten.pixel_shuffle(self, r): [.., C*r*r, H, W] -> [.., C, H*r, W*r] */
void hn_dec_pixel_shuffle(hn_dec *d) {
    hn_value x = hn_dec_tensor(d, 0);
    int64_t factor = hn_dec_int(d, 1);
    uint32_t rank = m_rank(d, x);
    if (!m_require(d, rank >= 3 && factor > 0 && factor < INT32_MAX,
                   "pixel_shuffle wants [.., C, H, W] and a positive factor"))
        return;
    hn_expr r = e_int(d, factor);
    uint32_t c = rank - 3;
    x = split_dim(d, split_dim(d, x, c, 0, e_mul(d, r, r)), c + 1, r, r); /* C r1 r2 H W */
    x = m_move_dim(d, x, c + 1, c + 3);                                   /* C r2 H r1 W */
    x = m_move_dim(d, x, c + 1, c + 4);                                   /* C H r1 W r2 */
    m_result(d, 0, m_merge(d, m_merge(d, x, c + 3, 2), c + 1, 2));
}

/* aten.pixel_unshuffle(self, r): [.., C, H*r, W*r] -> [.., C*r*r, H, W] */
void hn_dec_pixel_unshuffle(hn_dec *d) {
    hn_value x = hn_dec_tensor(d, 0);
    int64_t factor = hn_dec_int(d, 1);
    uint32_t rank = m_rank(d, x);
    if (!m_require(d, rank >= 3 && factor > 0 && factor < INT32_MAX,
                   "pixel_unshuffle wants [.., C, H, W] and a positive factor"))
        return;
    hn_expr r = e_int(d, factor);
    uint32_t c = rank - 3;
    x = split_dim(d, split_dim(d, x, c + 2, 0, r), c + 1, 0, r); /* C H r1 W r2 */
    x = m_move_dim(d, x, c + 2, c + 1);                          /* C r1 H W r2 */
    x = m_move_dim(d, x, c + 4, c + 2);                          /* C r1 r2 H W */
    m_result(d, 0, m_merge(d, x, c, 3));
}

/* aten.channel_shuffle(self, groups): [N, G*C, ..] -> the same with the two factors swapped */
void hn_dec_channel_shuffle(hn_dec *d) {
    hn_value x = hn_dec_tensor(d, 0);
    if (!m_require(d, m_rank(d, x) >= 2, "channel_shuffle wants [N, C, ..]")) return;
    x = split_dim(d, x, 1, hn_dec_expr(d, 1), 0);
    m_result(d, 0, m_merge(d, x ? hn_b_transpose(d->g, x, 1, 2) : 0, 1, 2));
}

/* aten.repeat_interleave.self_int(self, repeats, dim): each element `repeats` times in a row */
void hn_dec_repeat_interleave(hn_dec *d) {
    hn_value x = hn_dec_tensor(d, 0);
    hn_expr repeats = hn_dec_expr(d, 1);
    bool has_dim = hn_dec_has(d, 2);
    x = has_dim ? m_at_least_1d(d, x) : flattened(d, x);
    uint32_t dim = has_dim ? hn_dec_dim(d, 2, m_rank(d, x)) : 0;
    if (!x) return;
    x = hn_b_unsqueeze(d->g, x, dim + 1);
    m_shape_t s = m_shape(d, x);
    if (s.rank) s.sizes[dim + 1] = repeats;
    m_result(d, 0, m_merge(d, m_expand(d, x, &s), dim, 2));
}
