/* stats.c: counts, covariance, powers of a vector and distances within a set. */
#include "opt/decompose/math.h"

#include <math.h>

/* aten.bincount(self, weights, minlength): as many bins as the largest element asks for, which only
 * the data tells. A negative element fails as an index. */
void hn_dec_bincount(hn_dec *d) {
    hn_value x = m_index64(d, hn_dec_tensor(d, 0)), weights = hn_dec_tensor(d, 1);
    hn_expr bins = m_meta_shape(d, 0).sizes[0], least = hn_dec_expr(d, 2);
    if (!m_require(d, m_rank(d, x) == 1 && m_meta_shape(d, 0).rank == 1, "bincount wants a vector"))
        return;
    hn_sym *sym = d->g->sym;
    if (hn_sym_kind(sym, bins) == HN_EXPR_SYMBOL &&
        hn_sym_symbol_kind(sym, bins) == HN_SYMBOL_DATA) {
        hn_expr one = e_int(d, 1);
        hn_value last = m_reshape(d, m_size_as(d, e_addc(d, least, -1), HN_DTYPE_I64), &one, 1),
                 all[2] = {x, last};
        hn_value count = m_add_c(d, m_reduce_all(d, HN_OP_AMAX, hn_b_cat(d->g, all, 2, 0)), 1);
        hn_b_item(d->g, count, HN_VALUE_SYM_INT, bins);
    }
    hn_dtype dtype = m_meta_dtype(d, 0);
    m_shape_t out = {.rank = 1, .sizes = {bins}}, each = m_shape(d, x);
    hn_value amounts = weights ? m_cast(d, weights, dtype) : m_full(d, &each, 1, dtype);
    hn_dec_result(d, 0, hn_b_scatter(d->g, m_zeros(d, &out, dtype), x, amounts, 0, "add"));
}

/* --- covariance --- */

/* Observations as columns: [variables, observations]. */
static hn_value observations(hn_dec *d, hn_value x) {
    x = m_at_least_1d(d, x);
    return m_rank(d, x) == 1 ? hn_b_unsqueeze(d->g, x, 0) : x;
}

/* X w X^T / norm with the mean taken off; `w` [observations] and `norm` rank 0. */
static hn_value products(hn_dec *d, hn_value x, hn_value w, hn_value norm, hn_value total) {
    hn_value mean = m_div(d, m_reduce1(d, HN_OP_SUM, w ? m_mul(d, x, w) : x, 1, true), total);
    hn_value off = m_sub(d, x, mean), weighted = w ? m_mul(d, off, w) : off;
    const uint32_t swap[2] = {1, 0};
    return m_div(d, hn_b_matmul(d->g, off, hn_b_permute(d->g, weighted, swap), 0),
                 m_max_c(d, norm, 0));
}

static hn_value in_meta_shape(hn_dec *d, hn_value x) {
    m_shape_t shape = m_meta_shape(d, 0);
    return shape.rank == m_rank(d, x) ? x : m_reshape(d, x, shape.sizes, shape.rank);
}

/* aten.cov(self, *, correction, fweights, aweights) */
void hn_dec_cov(hn_dec *d) {
    hn_value self = hn_dec_tensor(d, 0), f = hn_dec_tensor(d, 2), a = hn_dec_tensor(d, 3), w = 0;
    hn_dtype math = hn_dec_opmath(m_meta_dtype(d, 0));
    hn_value x = observations(d, m_cast(d, self, math));
    double correction = hn_dec_float(d, 1);
    if (!m_require(d, m_rank(d, x) == 2, "cov wants one or two dimensions")) return;
    if (f) w = m_cast(d, f, math);
    if (a) w = w ? m_mul(d, w, m_cast(d, a, math)) : m_cast(d, a, math);
    hn_value total = w ? m_reduce_all(d, HN_OP_SUM, w) : m_size_as(d, m_size(d, x, 1), math),
             norm = total;
    if (a && correction != 0) {
        hn_value squares =
            m_div(d, m_reduce_all(d, HN_OP_SUM, m_mul(d, w, m_cast(d, a, math))), total);
        norm = m_sub(d, total, m_mul_c(d, squares, correction));
    } else if (correction != 0) {
        norm = m_sub_c(d, total, correction);
    }
    m_result(d, 0, in_meta_shape(d, products(d, x, w, norm, total)));
}

/* aten.corrcoef(self): covariance over both deviations, within [-1, 1] */
void hn_dec_corrcoef(hn_dec *d) {
    hn_dtype math = hn_dec_opmath(m_meta_dtype(d, 0));
    hn_value x = observations(d, m_cast(d, hn_dec_tensor(d, 0), math));
    if (!m_require(d, m_rank(d, x) == 2, "corrcoef wants one or two dimensions")) return;
    hn_value count = m_size_as(d, m_size(d, x, 1), math),
             c = products(d, x, 0, m_sub_c(d, count, 1), count);
    hn_value i = m_iota(d, m_size(d, c, 0), HN_DTYPE_I64), pair[2] = {i, i};
    if (m_meta_shape(d, 0).rank == 0) { /* of one variable: 1, unless it does not vary */
        m_result(d, 0, in_meta_shape(d, m_div(d, c, c)));
        return;
    }
    hn_value deviation = m_un(d, HN_OP_SQRT, hn_b_index(d->g, c, pair, 2, false));
    c = m_div(d, m_div(d, c, hn_b_unsqueeze(d->g, deviation, 1)),
              hn_b_unsqueeze(d->g, deviation, 0));
    m_result(d, 0, m_min_c(d, m_max_c(d, c, -1), 1));
}

/* --- powers --- */

/* The powers 0 .. n-1 of x as a new last dimension, multiplied up one by one. */
static void powers(hn_dec *d, hn_value x, hn_expr n, bool increasing) {
    uint32_t rank = m_rank(d, x);
    if (!m_require(d, rank >= 1 && rank < HN_MAX_RANK, "it wants 1 to 15 dimensions")) return;
    m_shape_t shape = m_shape(d, x);
    shape.sizes[shape.rank++] = n;
    hn_dtype dtype = m_meta_dtype(d, 0), math = hn_dec_opmath(dtype);
    hn_value first =
        m_along(d, m_bin_c(d, HN_OP_EQ, m_iota(d, n, HN_DTYPE_I64), 0), rank, rank + 1);
    hn_value base = m_expand(d, hn_b_unsqueeze(d->g, m_cast(d, x, math), rank), &shape);
    hn_value r =
        hn_b_scan(d->g, HN_OP_CUMPROD, m_where(d, first, m_c(d, base, 1), base), rank, NULL);
    if (!increasing) r = hn_b_slice(d->g, r, rank, e_addc(d, n, -1), n, -1);
    m_result(d, 0, r);
}

/* aten.vander(x, N, increasing) */
void hn_dec_vander(hn_dec *d) {
    hn_value x = hn_dec_tensor(d, 0);
    powers(d, x, hn_dec_has(d, 1) ? hn_dec_expr(d, 1) : m_size(d, x, 0), hn_dec_bool(d, 2));
}

/* aten.linalg_vander(x, *, N) */
void hn_dec_linalg_vander(hn_dec *d) {
    hn_value x = hn_dec_tensor(d, 0);
    powers(d, x, hn_dec_has(d, 1) ? hn_dec_expr(d, 1) : m_size(d, x, m_rank(d, x) - 1), true);
}

/* --- distances within a set --- */

/* aten.pdist(self, p), _pdist_forward: of the rows i < j in the order of i, then j */
void hn_dec_pdist(hn_dec *d) {
    hn_value x = m_opmath(d, hn_dec_tensor(d, 0));
    m_shape_t out = m_meta_shape(d, 0);
    if (!m_require(d, m_rank(d, x) == 2 && out.rank == 1, "pdist wants a matrix")) return;
    /* row i is left of place k when the rows up to i have no more than k pairs: i (2n - i - 1) / 2
     * before row i */
    hn_expr n = m_size(d, x, 0);
    hn_value k = m_along(d, m_iota(d, out.sizes[0], HN_DTYPE_I64), 0, 2),
             rows = m_add_c(d, m_iota(d, n, HN_DTYPE_I64), 1);
    hn_value twice = m_sub(d, m_size_as(d, e_addc(d, e_mulc(d, n, 2), -1), HN_DTYPE_I64), rows);
    hn_value ends = m_bin_c(d, HN_OP_SHR, m_mul(d, rows, twice), 1);
    hn_value i =
        m_reduce1(d, HN_OP_SUM,
                  m_cast(d, m_bin(d, HN_OP_LE, m_along(d, ends, 1, 2), k), HN_DTYPE_I64), 1, false);
    hn_value before = m_bin_c(
        d, HN_OP_SHR,
        m_mul(d, i, m_sub(d, m_size_as(d, e_addc(d, e_mulc(d, n, 2), -1), HN_DTYPE_I64), i)), 1);
    hn_value j =
        m_add_c(d, m_add(d, m_sub(d, m_iota(d, out.sizes[0], HN_DTYPE_I64), before), i), 1);
    hn_value a = m_take_dim(d, x, 0, i), b = m_take_dim(d, x, 0, j);
    const uint32_t last = 1;
    if (e_is(d, m_size(d, x, 1), 0)) m_result(d, 0, m_zeros(d, &out, m_meta_dtype(d, 0)));
    else m_result(d, 0, m_vector_norm(d, m_sub(d, a, b), hn_dec_float(d, 1), &last, 1, false));
}

/* --- small things --- */

/* aten.sum_to_size(self, size): sums what was broadcast */
void hn_dec_sum_to_size(hn_dec *d) {
    hn_value x = hn_dec_tensor(d, 0);
    m_shape_t out = m_meta_shape(d, 0);
    uint32_t rank = m_rank(d, x), dims[HN_MAX_RANK], count = 0;
    for (uint32_t k = 0; k < rank; k++)
        if (k + out.rank < rank ||
            (e_is(d, out.sizes[k + out.rank - rank], 1) && !e_is(d, m_size(d, x, k), 1)))
            dims[count++] = k;
    hn_value r = count ? m_reduce(d, HN_OP_SUM, m_opmath(d, x), dims, count, true) : x;
    m_result(d, 0, in_meta_shape(d, r));
}

/* aten._shape_as_tensor(self) */
void hn_dec_shape_as_tensor(hn_dec *d) {
    m_shape_t shape = m_shape(d, hn_dec_tensor(d, 0)), out = m_meta_shape(d, 0);
    hn_value sizes[HN_MAX_RANK];
    hn_expr one = e_int(d, 1);
    for (uint32_t k = 0; k < shape.rank; k++)
        sizes[k] = m_reshape(d, m_size_as(d, shape.sizes[k], HN_DTYPE_I64), &one, 1);
    m_result(d, 0,
             shape.rank ? hn_b_cat(d->g, sizes, shape.rank, 0) : m_zeros(d, &out, HN_DTYPE_I64));
}

/* aten._dim_arange(like, dim) */
void hn_dec_dim_arange(hn_dec *d) {
    hn_value x = hn_dec_tensor(d, 0);
    m_result(d, 0, m_iota(d, m_size(d, x, hn_dec_dim(d, 1, m_rank(d, x))), HN_DTYPE_I64));
}

/* aten.isreal(self): of real dtypes everything */
void hn_dec_isreal(hn_dec *d) {
    m_shape_t shape = m_shape(d, hn_dec_tensor(d, 0));
    hn_dec_result(d, 0, m_full(d, &shape, 1, HN_DTYPE_BOOL));
}

/* aten.fill_diagonal_(self, fill_value, wrap): where all indices are equal; a tall matrix begins
 * anew below when it wraps */
void hn_dec_fill_diagonal(hn_dec *d) {
    hn_value x = hn_dec_tensor(d, 0), on = 0;
    m_shape_t shape = m_shape(d, x);
    if (!m_require(d, shape.rank >= 2, "fill_diagonal wants two dimensions")) return;
    hn_value first = m_along(d, m_iota(d, shape.sizes[0], HN_DTYPE_I64), 0, shape.rank);
    if (shape.rank == 2 && hn_dec_bool(d, 2))
        first = m_bin(d, HN_OP_REMAINDER, first,
                      m_size_as(d, e_addc(d, shape.sizes[1], 1), HN_DTYPE_I64));
    for (uint32_t k = 1; k < shape.rank; k++) {
        hn_value same = m_bin(d, HN_OP_EQ, first,
                              m_along(d, m_iota(d, shape.sizes[k], HN_DTYPE_I64), k, shape.rank));
        on = on ? m_and(d, on, same) : same;
    }
    m_result(d, 0, m_where(d, on, hn_dec_number(d, 1, m_dtype(d, x)), x));
}

/* aten.resize(self, size): the first elements in row-major order, zeros where there are no more */
void hn_dec_resize(hn_dec *d) {
    hn_value x = hn_dec_tensor(d, 0);
    m_shape_t out = m_meta_shape(d, 0);
    hn_expr have = x ? hn_numel(d->g, x) : 0, want = e_product(d, out.sizes, out.rank);
    hn_value flat = m_reshape(d, x, &have, 1);
    if (hn_sym_prove_le(d->g->sym, want, have)) flat = m_slice(d, flat, 0, e_int(d, 0), want);
    else
        flat = m_pad_dim(d, flat, 0, e_int(d, 0), e_sub(d, want, have),
                         m_zero_scalar(d, m_dtype(d, x)));
    hn_dec_result(d, 0, m_reshape(d, flat, out.sizes, out.rank));
}
