/* matmul.c: products of matrices and vectors -> MATMUL.
 *
 * MATMUL wants equal batch sizes and at least two dims. Leading dims of the left side are folded
 * into rows whenever the right side has no batch, so that [B, T, C] x [C, N] is one large 2-D
 * product. */
#include "opt/decompose/math.h"

static bool scalar_is(const hn_dec *d, hn_scalar s, int64_t v) {
    return s.is_float ? s.f == (double)v : e_is(d, s.i, v);
}

/* x[.., k] as [rows, k] */
static hn_value as_rows(hn_dec *d, hn_value x) {
    uint32_t rank = m_rank(d, x);
    if (rank == 1) return hn_b_unsqueeze(d->g, x, 0);
    return rank > 2 ? m_merge(d, x, 0, rank - 1) : x;
}

static hn_value transposed(hn_dec *d, hn_value x) {
    uint32_t rank = m_rank(d, x);
    return rank < 2 ? 0 : hn_b_transpose(d->g, x, rank - 2, rank - 1);
}

/* beta * self + alpha * (a @ b). With beta = 0, self is not read: its NaNs must not show. */
static hn_value scaled_product(hn_dec *d, hn_value self, hn_value a, hn_value b, hn_scalar beta,
                               hn_scalar alpha) {
    bool no_self = scalar_is(d, beta, 0), plain = scalar_is(d, alpha, 1);
    if (plain && no_self) return hn_b_matmul(d->g, a, b, 0);
    if (plain && scalar_is(d, beta, 1) && m_dtype(d, self) == m_dtype(d, a))
        return hn_b_matmul(d->g, a, b, self);
    hn_dtype math = hn_dec_opmath(m_dtype(d, a));
    hn_value product = m_cast(d, hn_b_matmul(d->g, a, b, 0), math);
    if (!plain) product = m_mul(d, product, hn_dec_scalar_value(d, alpha, math));
    if (no_self) return product;
    hn_value scaled = m_cast(d, self, math);
    if (!scalar_is(d, beta, 1)) scaled = m_mul(d, scaled, hn_dec_scalar_value(d, beta, math));
    return m_add(d, scaled, product);
}

/* aten.mm(self, mat2) */
void hn_dec_mm(hn_dec *d) {
    hn_value a = hn_dec_tensor(d, 0), b = hn_dec_tensor(d, 1);
    if (!m_require(d, m_rank(d, a) == 2 && m_rank(d, b) == 2, "mm wants two matrices")) return;
    m_result(d, 0, hn_b_matmul(d->g, a, b, 0));
}

/* aten._int_mm(self, mat2): i8 matrices, exact in i32 */
void hn_dec_int_mm(hn_dec *d) {
    hn_value a = m_cast(d, hn_dec_tensor(d, 0), HN_DTYPE_I32),
             b = m_cast(d, hn_dec_tensor(d, 1), HN_DTYPE_I32);
    if (!m_require(d, m_rank(d, a) == 2 && m_rank(d, b) == 2, "_int_mm wants two matrices")) return;
    m_result(d, 0, hn_b_matmul(d->g, a, b, 0));
}

/* aten.bmm(self, mat2) */
void hn_dec_bmm(hn_dec *d) {
    hn_value a = hn_dec_tensor(d, 0), b = hn_dec_tensor(d, 1);
    if (!m_require(d, m_rank(d, a) == 3 && m_rank(d, b) == 3, "bmm wants two batches of matrices"))
        return;
    m_result(d, 0, hn_b_matmul(d->g, a, b, 0));
}

/* aten.addmm and aten.baddbmm (self, a, b, *, beta, alpha) */
void hn_dec_addmm(hn_dec *d) {
    hn_value self = hn_dec_tensor(d, 0), a = hn_dec_tensor(d, 1), b = hn_dec_tensor(d, 2);
    uint32_t rank = m_rank(d, a);
    if (!m_require(d, (rank == 2 || rank == 3) && m_rank(d, b) == rank,
                   "addmm wants two matrices, or two batches of them"))
        return;
    m_shape_t out = m_meta_shape(d, 0); /* self may be smaller than the product, and unread */
    hn_value r = scaled_product(d, self, a, b, hn_dec_scalar(d, 3), hn_dec_scalar(d, 4));
    m_result(d, 0, m_expand(d, r, &out));
}

/* aten.addmv(self, mat, vec, *, beta, alpha) */
void hn_dec_addmv(hn_dec *d) {
    hn_value self = hn_dec_tensor(d, 0), a = hn_dec_tensor(d, 1), v = hn_dec_tensor(d, 2);
    if (!m_require(d, m_rank(d, a) == 2 && m_rank(d, v) == 1 && m_rank(d, self) <= 1,
                   "addmv wants a matrix and a vector"))
        return;
    if (m_rank(d, self) == 1) self = hn_b_unsqueeze(d->g, self, 1);
    hn_value r = scaled_product(d, self, a, hn_b_unsqueeze(d->g, v, 1), hn_dec_scalar(d, 3),
                                hn_dec_scalar(d, 4));
    m_result(d, 0, hn_b_squeeze(d->g, r, 1));
}

/* aten.addbmm: the sum over the batch is part of the contraction: [b,n,k] x [b,k,p] = [n, b*k] x
 * [b*k, p] */
void hn_dec_addbmm(hn_dec *d) {
    hn_value self = hn_dec_tensor(d, 0), a = hn_dec_tensor(d, 1), b = hn_dec_tensor(d, 2);
    if (!m_require(d, m_rank(d, a) == 3 && m_rank(d, b) == 3,
                   "addbmm wants two batches of matrices"))
        return;
    a = m_merge(d, m_move_dim(d, a, 0, 1), 1, 2);
    b = m_merge(d, b, 0, 2);
    hn_value r = scaled_product(d, self, a, b, hn_dec_scalar(d, 3), hn_dec_scalar(d, 4));
    m_shape_t out = m_meta_shape(d, 0);
    m_result(d, 0, m_expand(d, r, &out));
}

/* aten.mv(self, vec) */
void hn_dec_mv(hn_dec *d) {
    hn_value a = hn_dec_tensor(d, 0), v = hn_dec_tensor(d, 1);
    if (!m_require(d, m_rank(d, a) == 2 && m_rank(d, v) == 1, "mv wants a matrix and a vector"))
        return;
    m_result(d, 0, hn_b_squeeze(d->g, hn_b_matmul(d->g, a, hn_b_unsqueeze(d->g, v, 1), 0), 1));
}

static hn_value dot(hn_dec *d, hn_value a, hn_value b) {
    return m_reduce1(d, HN_OP_SUM, m_mul(d, m_opmath(d, a), m_opmath(d, b)), 0, false);
}

/* aten.dot and aten.vdot (self, other): a reduction fuses better than a 1 x 1 product */
void hn_dec_dot(hn_dec *d) {
    hn_value a = hn_dec_tensor(d, 0), b = hn_dec_tensor(d, 1);
    if (!m_require(d, m_rank(d, a) == 1 && m_rank(d, b) == 1, "dot wants two vectors")) return;
    m_result(d, 0, dot(d, a, b));
}

/* aten.outer(self, vec2) */
void hn_dec_outer(hn_dec *d) {
    hn_value a = hn_dec_tensor(d, 0), b = hn_dec_tensor(d, 1);
    if (!m_require(d, m_rank(d, a) == 1 && m_rank(d, b) == 1, "outer wants two vectors")) return;
    hn_dtype dtype = m_meta_dtype(d, 0);
    a = m_cast(d, hn_b_unsqueeze(d->g, a, 1), dtype);
    b = m_cast(d, hn_b_unsqueeze(d->g, b, 0), dtype);
    m_result(d, 0, m_mul(d, a, b));
}

/* a[.., m, k] x b[k, n] with the rows of `a` folded */
static hn_value folded_product(hn_dec *d, hn_value a, hn_value b, hn_value bias) {
    m_shape_t out = m_shape(d, a);
    hn_value r = hn_b_matmul(d->g, as_rows(d, a), b, bias);
    if (!r) return 0;
    out.sizes[out.rank - 1] = m_size(d, b, 1);
    return m_reshape(d, r, out.sizes, out.rank);
}

/* a[A.., m, k] x b[B.., k, n] with A and B broadcast */
static hn_value batched_product(hn_dec *d, hn_value a, hn_value b) {
    m_shape_t sa = m_shape(d, a), sb = m_shape(d, b), batch;
    hn_status status =
        hn_broadcast(d->g, sa.sizes, sa.rank - 2, sb.sizes, sb.rank - 2, batch.sizes, &batch.rank);
    if (status) {
        hn_graph_fail(d->g, status);
        return 0;
    }
    m_shape_t ea = batch, eb = batch;
    for (uint32_t k = 0; k < 2; k++) {
        ea.sizes[ea.rank++] = sa.sizes[sa.rank - 2 + k];
        eb.sizes[eb.rank++] = sb.sizes[sb.rank - 2 + k];
    }
    return hn_b_matmul(d->g, m_expand(d, a, &ea), m_expand(d, b, &eb), 0);
}

/* NumPy's matmul of any ranks >= 1 */
static hn_value matmul(hn_dec *d, hn_value a, hn_value b) {
    uint32_t ra = m_rank(d, a), rb = m_rank(d, b);
    if (ra == 1 && rb == 1) return dot(d, a, b);
    hn_value b2 = rb == 1 ? hn_b_unsqueeze(d->g, b, 1) : b;
    hn_value a2 = ra == 1 ? hn_b_unsqueeze(d->g, a, 0) : a;
    hn_value r = rb <= 2 ? folded_product(d, a2, b2, 0) : batched_product(d, a2, b2);
    uint32_t rank = m_rank(d, r);
    if (!r) return 0;
    if (rb == 1) return hn_b_squeeze(d->g, r, rank - 1);
    return ra == 1 ? hn_b_squeeze(d->g, r, rank - 2) : r;
}

/* aten.matmul(self, other) */
void hn_dec_matmul(hn_dec *d) {
    hn_value a = hn_dec_tensor(d, 0), b = hn_dec_tensor(d, 1);
    if (!m_require(d, m_rank(d, a) > 0 && m_rank(d, b) > 0,
                   "matmul wants tensors of at least one dimension"))
        return;
    m_result(d, 0, matmul(d, a, b));
}

/* aten.linear(input, weight, bias?): input[.., k] x weight[n, k]^T + bias[n] */
void hn_dec_linear(hn_dec *d) {
    hn_value x = hn_dec_tensor(d, 0), w = hn_dec_tensor(d, 1), bias = hn_dec_tensor(d, 2);
    uint32_t w_rank = m_rank(d, w);
    if (!m_require(d, m_rank(d, x) > 0 && (w_rank == 1 || w_rank == 2),
                   "linear wants a weight of one or two dimensions"))
        return;
    if (w_rank == 1) {
        hn_value r = matmul(d, x, w);
        m_result(d, 0, bias ? m_add(d, r, bias) : r);
        return;
    }
    if (m_rank(d, x) > 1) {
        m_result(d, 0, folded_product(d, x, transposed(d, w), bias));
        return;
    }
    hn_value row = hn_b_matmul(d->g, hn_b_unsqueeze(d->g, x, 0), transposed(d, w), bias);
    m_result(d, 0, hn_b_squeeze(d->g, row, 0));
}

/* a[rows.., k] and b[cols.., k] over their last dims: [rows.., cols..] */
static hn_value contract_last(hn_dec *d, hn_value a, hn_value b) {
    m_shape_t out = m_shape(d, a), sb = m_shape(d, b);
    if (!a || !b ||
        !m_require(d, out.rank + sb.rank - 2 <= HN_MAX_RANK, "the rank of the result is above 16"))
        return 0;
    hn_value r = hn_b_matmul(d->g, as_rows(d, a), transposed(d, as_rows(d, b)), 0);
    out.rank--;
    for (uint32_t k = 0; k + 1 < sb.rank; k++) out.sizes[out.rank++] = sb.sizes[k];
    return m_reshape(d, r, out.sizes, out.rank);
}

/* aten.inner(self, other) */
void hn_dec_inner(hn_dec *d) {
    hn_value a = hn_dec_tensor(d, 0), b = hn_dec_tensor(d, 1);
    bool scaling = m_rank(d, a) == 0 || m_rank(d, b) == 0;
    m_result(d, 0, scaling ? m_mul(d, a, b) : contract_last(d, a, b));
}

/* x with `dims` moved last, in the order given, and merged into one */
static hn_value contracted_last(hn_dec *d, hn_value x, const uint32_t *dims, uint32_t count) {
    uint32_t order[HN_MAX_RANK], rank = m_rank(d, x), at = 0;
    for (uint32_t k = 0; k < rank; k++) {
        bool is_contracted = false;
        for (uint32_t j = 0; j < count; j++) is_contracted |= dims[j] == k;
        if (!is_contracted) order[at++] = k;
    }
    if (!m_require(d, at + count == rank, "a dimension is contracted twice")) return 0;
    for (uint32_t j = 0; j < count; j++) order[at++] = dims[j];
    hn_value moved = hn_b_permute(d->g, x, order);
    return count ? m_merge(d, moved, rank - count, count) : hn_b_unsqueeze(d->g, moved, rank);
}

/* Reads a list of dims in order (hn_dec_dims would sort it). */
static bool read_dims(hn_dec *d, uint32_t arg, uint32_t rank, uint32_t out[HN_MAX_RANK],
                      uint32_t *out_count) {
    hn_expr exprs[HN_MAX_RANK];
    *out_count = hn_dec_exprs(d, arg, exprs);
    for (uint32_t k = 0; k < *out_count; k++) {
        int64_t dim = 0;
        if (!m_require(d,
                       e_const(d, exprs[k], &dim) && dim >= -(int64_t)rank && dim < (int64_t)rank,
                       "a dimension is out of range"))
            return false;
        out[k] = (uint32_t)(dim < 0 ? dim + rank : dim);
    }
    return true;
}

/* aten.tensordot(self, other, dims_self, dims_other): a contracted dim of 1 broadcasts, so the
 * other side is summed */
void hn_dec_tensordot(hn_dec *d) {
    hn_value a = hn_dec_tensor(d, 0), b = hn_dec_tensor(d, 1);
    uint32_t da[HN_MAX_RANK], db[HN_MAX_RANK], na = 0, nb = 0;
    if (!read_dims(d, 2, m_rank(d, a), da, &na) || !read_dims(d, 3, m_rank(d, b), db, &nb)) return;
    if (!m_require(d, na == nb, "both sides must contract equally many dimensions")) return;
    for (uint32_t k = 0; k < na; k++) {
        bool one_a = e_is(d, m_size(d, a, da[k]), 1), one_b = e_is(d, m_size(d, b, db[k]), 1);
        if (one_a && !one_b) b = m_reduce1(d, HN_OP_SUM, b, db[k], true);
        if (one_b && !one_a) a = m_reduce1(d, HN_OP_SUM, a, da[k], true);
    }
    m_result(d, 0, contract_last(d, contracted_last(d, a, da, na), contracted_last(d, b, db, nb)));
}

/* aten.kron(self, other): [a0, 1, a1, 1..] * [1, b0, 1, b1..] with each pair merged */
void hn_dec_kron(hn_dec *d) {
    hn_value a = hn_dec_tensor(d, 0), b = hn_dec_tensor(d, 1);
    hn_dtype dtype = m_meta_dtype(d, 0);
    m_shape_t sa = m_shape(d, a), sb = m_shape(d, b), ea, eb, out;
    out.rank = sa.rank > sb.rank ? sa.rank : sb.rank;
    if (!m_require(d, 2 * out.rank <= HN_MAX_RANK, "kron of more than 8 dimensions")) return;
    ea.rank = eb.rank = 2 * out.rank;
    hn_expr one = e_int(d, 1);
    for (uint32_t k = 0; k < out.rank; k++) {
        uint32_t skip_a = out.rank - sa.rank, skip_b = out.rank - sb.rank;
        ea.sizes[2 * k] = k < skip_a ? one : sa.sizes[k - skip_a];
        eb.sizes[2 * k + 1] = k < skip_b ? one : sb.sizes[k - skip_b];
        ea.sizes[2 * k + 1] = eb.sizes[2 * k] = one;
        out.sizes[k] = e_mul(d, ea.sizes[2 * k], eb.sizes[2 * k + 1]);
    }
    hn_value left = m_reshape(d, m_cast(d, a, dtype), ea.sizes, ea.rank);
    hn_value right = m_reshape(d, m_cast(d, b, dtype), eb.sizes, eb.rank);
    m_result(d, 0, m_reshape(d, m_mul(d, left, right), out.sizes, out.rank));
}

/* aten.bilinear(input1[.., i], input2[.., j], weight[o, i, j], bias?): the sum over i is a product
 * of matrices, the sum over j a reduction. */
void hn_dec_bilinear(hn_dec *d) {
    hn_value x1 = hn_dec_tensor(d, 0), x2 = hn_dec_tensor(d, 1), w = hn_dec_tensor(d, 2),
             bias = hn_dec_tensor(d, 3);
    if (!m_require(d, m_rank(d, w) == 3 && m_rank(d, x1) > 0 && m_rank(d, x2) > 0,
                   "bilinear wants a weight of three dimensions"))
        return;
    m_shape_t sw = m_shape(d, w), out = m_meta_shape(d, 0);
    hn_value w2 = m_merge(d, m_move_dim(d, w, 1, 0), 1, 2); /* [i, o*j] */
    hn_value t = m_split(d, hn_b_matmul(d->g, as_rows(d, x1), w2, 0), 1,
                         (hn_expr[]){sw.sizes[0], sw.sizes[2]}, 2);
    hn_value weighted =
        m_mul(d, m_opmath(d, t), m_opmath(d, hn_b_unsqueeze(d->g, as_rows(d, x2), 1)));
    hn_value r = m_reduce1(d, HN_OP_SUM, weighted, 2, false);
    if (bias) r = m_add(d, r, m_opmath(d, bias));
    m_result(d, 0, m_reshape(d, r, out.sizes, out.rank));
}

/* The operand `arg` in opmath, with a dimension of 1 at each place in the list of argument
 * `places`, in ascending order. */
static hn_value spread_out(hn_dec *d, uint32_t arg, uint32_t places) {
    hn_value x = m_opmath(d, hn_dec_tensor(d, arg));
    hn_expr list[HN_MAX_RANK];
    uint32_t count = hn_dec_exprs(d, places, list);
    for (uint32_t k = 0; k < count; k++) {
        int64_t at = 0;
        bool fits =
            e_const(d, list[k], &at) && at >= 0 && at <= m_rank(d, x) && m_rank(d, x) < HN_MAX_RANK;
        if (!m_require(d, fits, "a place of a new dimension is out of range")) return 0;
        x = hn_b_unsqueeze(d->g, x, (uint32_t)at);
    }
    return x;
}

/* aten._trilinear(i1, i2, i3, expand1, expand2, expand3, sumdim): what run_decompositions() makes
 * of bilinear */
void hn_dec_trilinear(hn_dec *d) {
    hn_value x = m_mul(d, m_mul(d, spread_out(d, 0, 3), spread_out(d, 1, 4)), spread_out(d, 2, 5));
    uint32_t dims[HN_MAX_RANK], count = hn_dec_dims(d, 6, m_rank(d, x), false, dims);
    m_result(d, 0, count ? m_reduce(d, HN_OP_SUM, x, dims, count, false) : x);
}

/* x / max(|x|, eps) along dim */
static hn_value normalised(hn_dec *d, hn_value x, uint32_t dim, double eps) {
    hn_value norm = m_un(d, HN_OP_SQRT, m_reduce1(d, HN_OP_SUM, m_square(d, x), dim, true));
    return m_div(d, x, m_max_c(d, norm, eps));
}

/* aten.cosine_similarity(x1, x2, dim, eps) */
void hn_dec_cosine_similarity(hn_dec *d) {
    hn_value a = hn_dec_tensor(d, 0), b = hn_dec_tensor(d, 1);
    uint32_t rank = m_rank(d, a) > m_rank(d, b) ? m_rank(d, a) : m_rank(d, b);
    hn_dtype math = hn_dec_opmath(m_meta_dtype(d, 0));
    a = m_at_least_1d(d, m_cast(d, a, math));
    b = m_at_least_1d(d, m_cast(d, b, math));
    uint32_t dim = hn_dec_dim(d, 2, rank);
    double eps = hn_dec_float(d, 3);
    m_shape_t sa = m_shape(d, a), sb = m_shape(d, b), out;
    hn_status status =
        hn_broadcast(d->g, sa.sizes, sa.rank, sb.sizes, sb.rank, out.sizes, &out.rank);
    if (status) {
        hn_graph_fail(d->g, status);
        return;
    }
    hn_value na = normalised(d, m_expand(d, a, &out), dim, eps),
             nb = normalised(d, m_expand(d, b, &out), dim, eps);
    m_result(d, 0, m_reduce1(d, HN_OP_SUM, m_mul(d, na, nb), dim, false));
}

static hn_value component(hn_dec *d, hn_value x, uint32_t dim, int64_t k) {
    return m_slice(d, x, dim, e_int(d, k % 3), e_int(d, 1));
}

static hn_value cross(hn_dec *d, hn_value a, hn_value b, uint32_t dim) {
    hn_value parts[3];
    for (int64_t k = 0; k < 3; k++)
        parts[k] = m_sub(d, m_mul(d, component(d, a, dim, k + 1), component(d, b, dim, k + 2)),
                         m_mul(d, component(d, a, dim, k + 2), component(d, b, dim, k + 1)));
    return hn_b_cat(d->g, parts, 3, dim);
}

static bool is_three(hn_dec *d, hn_expr size) {
    return size && hn_sym_guard(d->g->sym, HN_REL_EQ, size, e_int(d, 3),
                                "cross takes a dimension of size 3");
}

static void cross_result(hn_dec *d, hn_value a, hn_value b, uint32_t dim) {
    m_shape_t out = m_meta_shape(d, 0);
    hn_dtype math = hn_dec_opmath(m_meta_dtype(d, 0));
    a = m_cast(d, m_expand(d, a, &out), math);
    b = m_cast(d, m_expand(d, b, &out), math);
    if (!m_require(d, is_three(d, m_size(d, a, dim)), "cross wants a dimension of size 3")) return;
    m_result(d, 0, cross(d, a, b, dim));
}

/* aten.linalg_cross(self, other, *, dim) */
void hn_dec_linalg_cross(hn_dec *d) {
    hn_value a = hn_dec_tensor(d, 0), b = hn_dec_tensor(d, 1);
    cross_result(d, a, b, hn_dec_dim(d, 2, m_meta_shape(d, 0).rank));
}

/* aten.cross(self, other, dim?): without dim, the first of size 3 */
void hn_dec_cross(hn_dec *d) {
    hn_value a = hn_dec_tensor(d, 0), b = hn_dec_tensor(d, 1);
    m_shape_t out = m_meta_shape(d, 0);
    uint32_t dim = 0;
    if (hn_dec_has(d, 2)) dim = hn_dec_dim(d, 2, out.rank);
    else
        while (dim + 1 < out.rank && !is_three(d, out.sizes[dim])) dim++;
    cross_result(d, a, b, dim);
}

/* transformers.grouped_mm_fallback(input, weight, offs): the experts of a mixture, rows sorted by
 * expert */
void hn_dec_grouped_mm_fallback(hn_dec *d) {
    hn_value a = hn_dec_tensor(d, 0), b = hn_dec_tensor(d, 1),
             ends = m_index64(d, hn_dec_tensor(d, 2));
    if (m_require(d, m_rank(d, a) == 2 && m_rank(d, b) == 3,
                  "a grouped product wants a matrix of rows and one matrix for each group"))
        m_result(d, 0, hn_b_grouped_matmul(d->g, a, b, ends));
}

/* aten._grouped_mm(self, mat2, offs?, bias?, out_dtype?): groups of rows of self, of columns of
 * mat2 or, without offs, a batch */
void hn_dec_grouped_mm(hn_dec *d) {
    hn_value a = hn_dec_tensor(d, 0), b = hn_dec_tensor(d, 1);
    const uint32_t left = m_rank(d, a), right = m_rank(d, b);
    const bool grouped = hn_dec_has(d, 2);
    if (!m_require(d, !hn_dec_has(d, 3), "a grouped product with a bias")) return;
    if (!m_require(d, grouped ? left + right == 5 : left == 3 && right == 3,
                   "this form of grouped product"))
        return;
    hn_value ends = grouped ? m_index64(d, hn_dec_tensor(d, 2)) : 0;
    if (!grouped) m_result(d, 0, hn_b_matmul(d->g, a, b, 0));
    else if (left == 2) m_result(d, 0, hn_b_grouped_matmul(d->g, a, b, ends));
    else
        m_result(
            d, 0,
            transposed(d, hn_b_grouped_matmul(d->g, transposed(d, b), transposed(d, a), ends)));
}
