/* linalg.c: norms of matrices, distances, and what scales tensors by norms (renorm,
 * weight_norm). */
#include "opt/decompose/math.h"

#include <math.h>

/* x in the recorded dtype of result 0, computed in its opmath. */
static hn_value widened(hn_dec *d, uint32_t arg) {
    hn_dtype result = m_meta_dtype(d, 0);
    hn_value x = hn_dec_tensor(d, arg);
    if (x && hn_dec_opmath(m_dtype(d, x)) != result) x = m_cast(d, x, result);
    return m_cast(d, x, hn_dec_opmath(result));
}

/* All dims but `dim`; returns how many. */
static uint32_t other_dims(uint32_t rank, uint32_t dim, uint32_t out[HN_MAX_RANK]) {
    uint32_t count = 0;
    for (uint32_t k = 0; k < rank; k++)
        if (k != dim) out[count++] = k;
    return count;
}

/* --- norms of matrices --- */

typedef struct matrix_dims {
    uint32_t row, column;
} matrix_dims;

static hn_value reshaped_like_meta(hn_dec *d, hn_value x) {
    m_shape_t shape = m_meta_shape(d, 0);
    return m_reshape(d, x, shape.sizes, shape.rank);
}

/* The largest (or smallest) sum of a column (1, -1) or of a row (inf, -inf). */
static void matrix_norm(hn_dec *d, hn_value x, double order, matrix_dims dims) {
    bool rows = isinf(order);
    if (!m_require(d, rows || fabs(order) == 1, "matrix norms that need singular values")) return;
    uint32_t summed = rows ? dims.column : dims.row, kept = rows ? dims.row : dims.column;
    hn_value sums = m_reduce1(d, HN_OP_SUM, m_abs(d, x), summed, true);
    hn_value best = m_reduce1(d, order > 0 ? HN_OP_AMAX : HN_OP_AMIN, sums, kept, true);
    m_result(d, 0, reshaped_like_meta(d, best));
}

static void frobenius(hn_dec *d, hn_value x, const uint32_t *dims, uint32_t count) {
    m_result(d, 0, reshaped_like_meta(d, m_vector_norm(d, x, 2, dims, count, true)));
}

/* The list of two dims in its order; the last two when `arg` is None. */
static bool read_matrix_dims(hn_dec *d, uint32_t arg, uint32_t rank, matrix_dims *out) {
    hn_expr list[HN_MAX_RANK];
    int64_t pair[2] = {-2, -1}, limit = rank;
    uint32_t count = hn_dec_exprs(d, arg, list);
    bool ok = rank >= 2 && (count == 0 || count == 2);
    for (uint32_t k = 0; ok && k < count; k++) ok = e_const(d, list[k], &pair[k]);
    ok = ok && pair[0] >= -limit && pair[0] < limit && pair[1] >= -limit && pair[1] < limit;
    *out = (matrix_dims){(uint32_t)(pair[0] < 0 ? pair[0] + limit : pair[0]),
                         (uint32_t)(pair[1] < 0 ? pair[1] + limit : pair[1])};
    return m_require(d, ok && out->row != out->column, "a norm of matrices wants two dimensions");
}

/* aten.linalg_matrix_norm(self, ord, dim, keepdim, *, dtype) */
void hn_dec_linalg_matrix_norm(hn_dec *d) {
    hn_value x = widened(d, 0);
    matrix_dims dims;
    if (read_matrix_dims(d, 2, m_rank(d, x), &dims)) matrix_norm(d, x, hn_dec_float(d, 1), dims);
}

static void named_norm(hn_dec *d, hn_value x) {
    uint32_t dims[HN_MAX_RANK], count = hn_dec_dims(d, 2, m_rank(d, x), true, dims);
    if (m_require(d, hn_str_eq(hn_dec_string(d, 1), HN_STR("fro")),
                  "matrix norms that need singular values"))
        frobenius(d, x, dims, count);
}
/* aten.linalg_matrix_norm.str_ord, aten.linalg_norm.ord_str (self, ord, dim, keepdim, *, dtype) */
void hn_dec_linalg_named_norm(hn_dec *d) { named_norm(d, widened(d, 0)); }

/* aten.linalg_norm(self, ord, dim, keepdim, *, dtype): of matrices when ord is given with two dims,
 * else of vectors */
void hn_dec_linalg_norm(hn_dec *d) {
    hn_value x = widened(d, 0);
    uint32_t dims[HN_MAX_RANK], rank = m_rank(d, x), count = hn_dec_dims(d, 2, rank, true, dims);
    matrix_dims pair;
    if (!hn_dec_has(d, 1)) {
        frobenius(d, x, dims, count);
    } else if (count <= 1) {
        m_result(d, 0,
                 reshaped_like_meta(d, m_vector_norm(d, x, hn_dec_float(d, 1), dims, count, true)));
    } else if (read_matrix_dims(d, 2, rank, &pair)) {
        matrix_norm(d, x, hn_dec_float(d, 1), pair);
    }
}

/* aten.frobenius_norm.dim(self, dim, keepdim) */
void hn_dec_frobenius_norm(hn_dec *d) {
    hn_value x = widened(d, 0);
    uint32_t dims[HN_MAX_RANK], count = hn_dec_dims(d, 1, m_rank(d, x), true, dims);
    frobenius(d, x, dims, count);
}

/* --- scaling by norms --- */

/* aten.renorm(self, p, dim, maxnorm): slices along dim whose norm is above maxnorm are scaled down
 * to it */
void hn_dec_renorm(hn_dec *d) {
    hn_value x = m_opmath(d, hn_dec_tensor(d, 0));
    uint32_t dims[HN_MAX_RANK],
        count = other_dims(m_rank(d, x), hn_dec_dim(d, 2, m_rank(d, x)), dims);
    double limit = hn_dec_float(d, 3);
    hn_value norm = m_vector_norm(d, x, hn_dec_float(d, 1), dims, count, true);
    hn_value factor = m_div(d, m_c(d, norm, limit), m_add_c(d, norm, 1e-7));
    factor = m_where(d, m_bin_c(d, HN_OP_GT, norm, limit), factor, m_c(d, norm, 1));
    m_result(d, 0, m_mul(d, x, factor));
}

/* The norm over all dims but the one in `dim_arg`, kept; over all when that is -1. */
static hn_value norm_except(hn_dec *d, hn_value x, double p, uint32_t dim_arg) {
    uint32_t rank = m_rank(d, x), dims[HN_MAX_RANK];
    bool all = hn_dec_int(d, dim_arg) == -1;
    uint32_t count = other_dims(rank, all ? HN_MAX_RANK : hn_dec_dim(d, dim_arg, rank), dims);
    return m_vector_norm(d, x, p, dims, count, !all);
}

/* aten.norm_except_dim(v, pow, dim) */
void hn_dec_norm_except_dim(hn_dec *d) {
    m_result(d, 0, norm_except(d, m_opmath(d, hn_dec_tensor(d, 0)), hn_dec_float(d, 1), 2));
}

/* aten._weight_norm(v, g, dim) -> v * g / |v|, _weight_norm_interface -> that and |v| */
void hn_dec_weight_norm(hn_dec *d) {
    hn_value v = m_opmath(d, hn_dec_tensor(d, 0)), g = m_opmath(d, hn_dec_tensor(d, 1));
    hn_value norm = norm_except(d, v, 2, 2);
    m_result(d, 0, m_mul(d, v, m_div(d, g, norm)));
    if (m_wants(d, 1)) m_result(d, 1, norm);
}

/* --- distances --- */

/* aten.cdist(x1, x2, p, mode), _cdist_forward: [B.., P, M], [B.., R, M] -> [B.., P, R] */
void hn_dec_cdist(hn_dec *d) {
    hn_value a = m_opmath(d, hn_dec_tensor(d, 0)), b = m_opmath(d, hn_dec_tensor(d, 1));
    uint32_t ra = m_rank(d, a), rb = m_rank(d, b), rank = ra > rb ? ra : rb;
    if (!m_require(d, ra >= 2 && rb >= 2 && rank < HN_MAX_RANK, "cdist wants two sets of vectors"))
        return;
    hn_value gap = m_sub(d, hn_b_unsqueeze(d->g, a, ra - 1), hn_b_unsqueeze(d->g, b, rb - 2));
    if (e_is(d, m_size(d, gap, rank),
             0)) { /* no coordinates: no distance, which a maximum cannot say */
        m_shape_t shape = m_meta_shape(d, 0);
        m_result(d, 0, m_zeros(d, &shape, m_meta_dtype(d, 0)));
        return;
    }
    m_result(d, 0, m_vector_norm(d, gap, hn_dec_float(d, 2), &rank, 1, false));
}

/* --- products --- */

/* aten.linalg_vecdot(x, y, *, dim) */
void hn_dec_linalg_vecdot(hn_dec *d) {
    hn_dtype math = hn_dec_opmath(m_meta_dtype(d, 0));
    hn_value product =
        m_mul(d, m_cast(d, hn_dec_tensor(d, 0), math), m_cast(d, hn_dec_tensor(d, 1), math));
    m_result(d, 0, m_reduce1(d, HN_OP_SUM, product, hn_dec_dim(d, 2, m_rank(d, product)), false));
}

/* aten.linalg_multi_dot(tensors), chain_matmul(matrices): from left to right; the first may be a
 * row, the last a column */
void hn_dec_multi_dot(hn_dec *d) {
    const hn_value *xs = NULL;
    uint32_t count = hn_dec_tensors(d, 0, &xs);
    if (!m_require(d, count >= 1, "a product of no matrices")) return;
    hn_value r = m_rank(d, xs[0]) == 1 ? hn_b_unsqueeze(d->g, xs[0], 0) : xs[0];
    for (uint32_t k = 1; k < count; k++) {
        hn_value x = m_rank(d, xs[k]) == 1 ? hn_b_unsqueeze(d->g, xs[k], 1) : xs[k];
        r = hn_b_matmul(d->g, r, x, 0);
    }
    m_result(d, 0, reshaped_like_meta(d, r));
}

/* aten.addr(self, vec1, vec2, *, beta, alpha): beta * self + alpha * (vec1 x vec2); 0 * self is not
 * read */
void hn_dec_addr(hn_dec *d) {
    hn_dtype math = hn_dec_opmath(m_meta_dtype(d, 0));
    hn_value self = m_cast(d, hn_dec_tensor(d, 0), math), a = m_cast(d, hn_dec_tensor(d, 1), math);
    hn_value b = m_cast(d, hn_dec_tensor(d, 2), math);
    if (!m_require(d, m_rank(d, a) == 1 && m_rank(d, b) == 1, "addr wants two vectors")) return;
    hn_value product = m_mul(d, hn_b_unsqueeze(d->g, a, 1), hn_b_unsqueeze(d->g, b, 0));
    double beta = hn_dec_float(d, 3), alpha = hn_dec_float(d, 4);
    if (alpha != 1) product = m_mul_c(d, product, alpha);
    if (beta != 0) product = m_add(d, beta == 1 ? self : m_mul_c(d, self, beta), product);
    m_result(d, 0, product);
}
