/* math.c: the larger pieces of math.h. */
#include "opt/decompose/math.h"

#include <math.h>

static m_shape_t shape_of(const hn_value_info *info) {
    m_shape_t s = {.rank = info ? info->rank : 0};
    for (uint32_t k = 0; k < s.rank; k++) s.sizes[k] = info->sizes[k];
    return s;
}

m_shape_t m_shape(const hn_dec *d, hn_value v) {
    return shape_of(v ? hn_graph_value(d->g, v) : NULL);
}
m_shape_t m_meta_shape(const hn_dec *d, uint32_t result) {
    return m_wants(d, result) ? shape_of(hn_dec_meta(d, result)) : (m_shape_t){.rank = 0};
}
hn_dtype m_meta_dtype(const hn_dec *d, uint32_t result) {
    return m_wants(d, result) ? hn_dec_meta(d, result)->dtype : HN_DTYPE_F32;
}

bool e_row_major(const hn_dec *d, const hn_expr *sizes, const hn_expr *strides, uint32_t rank) {
    hn_expr expected[HN_MAX_RANK];
    hn_contiguous_strides(d->g->sym, sizes, rank, expected);
    for (uint32_t k = 0; k < rank; k++)
        if (!e_is(d, sizes[k], 1) && !e_eq(d, strides[k], expected[k])) return false;
    return true;
}

bool e_const(const hn_dec *d, hn_expr e, int64_t *out) {
    return e && hn_sym_is_int(d->g->sym, e, out);
}

hn_expr e_trunc(const hn_dec *d, double v) {
    if (isnan(v)) return e_int(d, 0);
    if (v >= 0x1p63) return e_int(d, INT64_MAX);
    return e_int(d, v < -0x1p63 ? INT64_MIN : (int64_t)v);
}

/* A Python position within 0..size. Constants of a symbolic size need Min and Max only where the
 * sign is not known. */
static hn_expr clamp_position(hn_dec *d, hn_expr position, hn_expr size) {
    hn_sym *sym = d->g->sym;
    hn_expr zero = e_int(d, 0);
    if (e_is(d, position, INT64_MAX)) return size; /* how "to the end" is written */
    if (hn_sym_prove_lt(sym, position, zero)) position = e_add(d, position, size);
    else if (!hn_sym_prove_le(sym, zero, position) &&
             hn_sym_guard(sym, HN_REL_LT, position, zero, "a slice position is negative"))
        position = e_add(d, position, size);
    if (!hn_sym_prove_le(sym, zero, position)) position = hn_sym_max(sym, position, zero);
    if (!hn_sym_prove_le(sym, position, size)) position = hn_sym_min(sym, position, size);
    return position;
}

void e_slice_bounds(hn_dec *d, hn_expr size, hn_expr start, hn_expr end, int64_t step,
                    hn_expr *out_start, hn_expr *out_count) {
    hn_sym *sym = d->g->sym;
    *out_start = start ? clamp_position(d, start, size) : e_int(d, 0);
    hn_expr stop = end ? clamp_position(d, end, size) : size;
    hn_expr span = e_sub(d, stop, *out_start);
    if (!hn_sym_prove_le(sym, e_int(d, 0), span)) span = e_max0(d, span);
    *out_count = step == 1 ? span : hn_sym_ceildiv(sym, span, e_int(d, step));
}

hn_value m_full(hn_dec *d, const m_shape_t *shape, double value, hn_dtype dtype) {
    hn_scalar s = hn_dtype_is_float(dtype) ? hn_scalar_f(value) : hn_scalar_i(e_trunc(d, value));
    return hn_b_full(d->g, s, shape->sizes, shape->rank, dtype);
}

hn_value m_iota(hn_dec *d, hn_expr size, hn_dtype dtype) {
    hn_scalar start = hn_scalar_i(e_int(d, 0)), step = hn_scalar_i(e_int(d, 1));
    return hn_b_iota(d->g, start, step, size, dtype);
}

hn_scalar m_zero_scalar(hn_dec *d, hn_dtype dtype) {
    return hn_dtype_is_float(dtype) ? hn_scalar_f(0) : hn_scalar_i(e_int(d, 0));
}

hn_scalar m_lowest_scalar(hn_dec *d, hn_dtype dtype) {
    if (hn_dtype_is_float(dtype)) return hn_scalar_f(-INFINITY);
    switch (dtype) {
    case HN_DTYPE_I64: return hn_scalar_i(e_int(d, INT64_MIN));
    case HN_DTYPE_I32: return hn_scalar_i(e_int(d, INT32_MIN));
    case HN_DTYPE_I16: return hn_scalar_i(e_int(d, INT16_MIN));
    case HN_DTYPE_I8: return hn_scalar_i(e_int(d, INT8_MIN));
    default: return hn_scalar_i(e_int(d, 0));
    }
}

hn_value m_lowest(hn_dec *d, hn_dtype dtype) {
    return hn_dec_scalar_value(d, m_lowest_scalar(d, dtype), dtype);
}

hn_value m_at_least_1d(hn_dec *d, hn_value x) {
    if (!x || m_rank(d, x) > 0) return x;
    hn_expr one = e_int(d, 1);
    return m_reshape(d, x, &one, 1);
}

hn_value m_like_meta(hn_dec *d, hn_value x, uint32_t k) {
    m_shape_t s = m_meta_shape(d, k);
    return x && m_wants(d, k) && s.rank != m_rank(d, x) ? m_reshape(d, x, s.sizes, s.rank) : x;
}

hn_value m_merge(hn_dec *d, hn_value x, uint32_t first, uint32_t count) {
    m_shape_t s = m_shape(d, x);
    if (!x || first + count > s.rank) return 0;
    m_shape_t out = {.rank = s.rank - count + 1};
    for (uint32_t k = 0; k < first; k++) out.sizes[k] = s.sizes[k];
    out.sizes[first] = e_product(d, s.sizes + first, count);
    for (uint32_t k = first + count; k < s.rank; k++) out.sizes[k - count + 1] = s.sizes[k];
    return m_reshape(d, x, out.sizes, out.rank);
}

hn_value m_split(hn_dec *d, hn_value x, uint32_t dim, const hn_expr *sizes, uint32_t count) {
    m_shape_t s = m_shape(d, x);
    if (!x || dim >= s.rank) return 0;
    if (!m_require(d, s.rank + count - 1 <= HN_MAX_RANK,
                   "the rank of an intermediate result is above 16"))
        return 0;
    m_shape_t out = {.rank = s.rank + count - 1};
    for (uint32_t k = 0; k < dim; k++) out.sizes[k] = s.sizes[k];
    for (uint32_t k = 0; k < count; k++) out.sizes[dim + k] = sizes[k];
    for (uint32_t k = dim + 1; k < s.rank; k++) out.sizes[k + count - 1] = s.sizes[k];
    return m_reshape(d, x, out.sizes, out.rank);
}

hn_value m_move_dim(hn_dec *d, hn_value x, uint32_t from, uint32_t to) {
    uint32_t rank = m_rank(d, x), dims[HN_MAX_RANK], at = 0;
    if (!x || from >= rank || to >= rank) return 0;
    for (uint32_t k = 0; k < rank; k++) {
        if (k == to) {
            dims[k] = from;
            continue;
        }
        if (at == from) at++;
        dims[k] = at++;
    }
    return hn_b_permute(d->g, x, dims);
}

hn_value m_along(hn_dec *d, hn_value x, uint32_t dim, uint32_t rank) {
    if (!x || rank > HN_MAX_RANK || dim >= rank) return 0;
    hn_expr sizes[HN_MAX_RANK], one = e_int(d, 1);
    for (uint32_t k = 0; k < rank; k++) sizes[k] = k == dim ? m_size(d, x, 0) : one;
    return m_reshape(d, x, sizes, rank);
}

hn_value m_pad_dim(hn_dec *d, hn_value x, uint32_t dim, hn_expr lo, hn_expr hi, hn_scalar value) {
    if (!x || (e_is(d, lo, 0) && e_is(d, hi, 0))) return x;
    hn_expr los[HN_MAX_RANK], his[HN_MAX_RANK];
    uint32_t rank = m_rank(d, x);
    for (uint32_t k = 0; k < rank; k++) {
        los[k] = k == dim ? lo : e_int(d, 0);
        his[k] = k == dim ? hi : e_int(d, 0);
    }
    return hn_b_pad(d->g, x, value, los, his);
}

hn_value m_spread(hn_dec *d, hn_value src, uint32_t dim, hn_expr start, hn_expr count, int64_t step,
                  hn_expr size) {
    hn_scalar nothing = m_zero_scalar(d, m_dtype(d, src));
    hn_expr zero = e_int(d, 0), one = e_int(d, 1), filled = count;
    if (step > 1) { /* the zeros after the last element may reach too far and are cut */
        src = m_split(d, src, dim, (hn_expr[]){count, one}, 2);
        src = m_merge(d, m_pad_dim(d, src, dim + 1, zero, e_int(d, step - 1), nothing), dim, 2);
        hn_expr room = e_sub(d, size, start);
        filled = e_mulc(d, count, step);
        if (!hn_sym_prove_le(d->g->sym, filled, room)) filled = hn_sym_min(d->g->sym, filled, room);
        src = m_slice(d, src, dim, zero, filled);
    }
    return m_pad_dim(d, src, dim, start, e_sub(d, size, e_add(d, start, filled)), nothing);
}

hn_value m_reduce1(hn_dec *d, hn_op op, hn_value x, uint32_t dim, bool keepdim) {
    return hn_b_reduce(d->g, op, x, &dim, 1, keepdim);
}

hn_value m_reduce_all(hn_dec *d, hn_op op, hn_value x) {
    uint32_t dims[HN_MAX_RANK], rank = m_rank(d, x);
    for (uint32_t k = 0; k < rank; k++) dims[k] = k;
    if (x && rank == 0 && op == HN_OP_SUM) return x;
    return hn_b_reduce(d->g, op, x, dims, rank, false);
}

hn_expr m_count(hn_dec *d, hn_value x, const uint32_t *dims, uint32_t count) {
    hn_expr sizes[HN_MAX_RANK];
    for (uint32_t k = 0; k < count; k++) sizes[k] = m_size(d, x, dims[k]);
    return e_product(d, sizes, count);
}

hn_value m_mean(hn_dec *d, hn_value x, const uint32_t *dims, uint32_t count, bool keepdim) {
    hn_value n = m_size_as(d, m_count(d, x, dims, count), m_dtype(d, x));
    return m_div(d, m_reduce(d, HN_OP_SUM, x, dims, count, keepdim), n);
}

/* exp(x - max) / sum: the maximum keeps exp in range; a row of -inf gives NaN, as in PyTorch. */
hn_value m_softmax(hn_dec *d, hn_value x, uint32_t dim) {
    if (e_is(d, m_size(d, x, dim), 0)) return x; /* nothing to normalise, and no maximum */
    hn_value e = m_exp(d, m_sub(d, x, m_reduce1(d, HN_OP_AMAX, x, dim, true)));
    return m_div(d, e, m_reduce1(d, HN_OP_SUM, e, dim, true));
}

hn_value m_log_softmax(hn_dec *d, hn_value x, uint32_t dim) {
    if (e_is(d, m_size(d, x, dim), 0)) return x;
    hn_value shifted = m_sub(d, x, m_reduce1(d, HN_OP_AMAX, x, dim, true));
    return m_sub(d, shifted, m_log(d, m_reduce1(d, HN_OP_SUM, m_exp(d, shifted), dim, true)));
}

/* min(x, 0) - log1p(e^-|x|): neither side overflows. */
hn_value m_log_sigmoid(hn_dec *d, hn_value x) {
    hn_value tail = m_un(d, HN_OP_LOG1P, m_exp(d, m_neg(d, m_abs(d, x))));
    return m_sub(d, m_min_c(d, x, 0), tail);
}

hn_value m_take_dim(hn_dec *d, hn_value x, uint32_t dim, hn_value index) {
    if (!x || !index) return 0;
    uint32_t rank = m_rank(d, x), index_rank = m_rank(d, index);
    if (!m_require(d, rank + index_rank - 1 <= HN_MAX_RANK,
                   "the rank of an intermediate result is above 16"))
        return 0;
    hn_value front = m_move_dim(d, x, dim, 0);
    hn_value taken = hn_b_index(d->g, front, &index, 1, false);
    /* [index.., rest..] -> [rest before dim, index.., rest after] */
    uint32_t dims[HN_MAX_RANK], out = 0;
    for (uint32_t k = 0; k < dim; k++) dims[out++] = index_rank + k;
    for (uint32_t k = 0; k < index_rank; k++) dims[out++] = k;
    for (uint32_t k = dim + 1; k < rank; k++) dims[out++] = index_rank + k - 1;
    return hn_b_permute(d->g, taken, dims);
}

/* Below distance 1, and from 1 to 2. */
static hn_value cubic_near(hn_dec *d, hn_value x) {
    const double a = -0.75;
    return m_add_c(d, m_mul(d, m_mul(d, m_sub_c(d, m_mul_c(d, x, a + 2), a + 3), x), x), 1);
}
static hn_value cubic_far(hn_dec *d, hn_value x) {
    const double a = -0.75;
    hn_value inner = m_add_c(d, m_mul(d, m_sub_c(d, m_mul_c(d, x, a), 5 * a), x), 8 * a);
    return m_sub_c(d, m_mul(d, inner, x), 4 * a);
}

void m_cubic_weights(hn_dec *d, hn_value t, hn_value out[4]) {
    hn_value rest = m_c_sub(d, 1, t);
    out[0] = cubic_far(d, m_add_c(d, t, 1));
    out[1] = cubic_near(d, t);
    out[2] = cubic_near(d, rest);
    out[3] = cubic_far(d, m_add_c(d, rest, 1));
}

hn_value m_count_before(hn_dec *d, hn_value boundaries, hn_value values, bool right) {
    hn_value pair[2] = {boundaries, values};
    hn_dtype dtype = hn_dec_promote(d, pair, 2, NULL, 0, NULL);
    uint32_t rank = m_rank(d, values), boundary_rank = m_rank(d, boundaries);
    hn_value v = hn_b_unsqueeze(d->g, m_cast(d, values, dtype), rank),
             b = m_cast(d, boundaries, dtype);
    if (boundary_rank > 1) b = hn_b_unsqueeze(d->g, b, boundary_rank - 1);
    hn_value before = m_un(d, HN_OP_NOT, m_bin(d, right ? HN_OP_GT : HN_OP_GE, b, v));
    return m_reduce1(d, HN_OP_SUM, m_cast(d, before, HN_DTYPE_I64), rank, false);
}

hn_value m_loss_reduce(hn_dec *d, hn_value x, int64_t reduction) {
    if (reduction == 0) return x;
    hn_value sum = m_reduce_all(d, HN_OP_SUM, x);
    if (reduction == 2) return sum;
    return m_div(d, sum, m_size_as(d, hn_numel(d->g, x), m_dtype(d, x)));
}
