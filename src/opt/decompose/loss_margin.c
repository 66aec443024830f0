/* loss_margin.c: losses of margins and distances, and what else torch.nn.functional has
 * of losses. `reduction` is 0 none, 1 mean, 2 sum; 16-bit floats are computed in f32 and rounded
 * once. */
#include "opt/decompose/math.h"

#include <math.h>

enum { MAX_TENSORS = 3 };

/* Arguments 0 .. count-1 in the opmath of what they promote to. */
static void read_tensors(hn_dec *d, uint32_t count, hn_value out[MAX_TENSORS]) {
    for (uint32_t k = 0; k < count; k++) out[k] = hn_dec_tensor(d, k);
    hn_dtype math = hn_dec_opmath(hn_dec_promote(d, out, count, NULL, 0, NULL));
    for (uint32_t k = 0; k < count; k++) out[k] = m_cast(d, out[k], math);
}

/* What a root, a logarithm or a Python float makes of integers. */
static hn_value as_float(hn_dec *d, hn_value x) {
    return hn_dtype_is_float(m_dtype(d, x)) ? x : m_cast(d, x, HN_DTYPE_F32);
}

static void loss_result(hn_dec *d, hn_value each, uint32_t reduction_arg) {
    m_result(d, 0, m_loss_reduce(d, each, hn_dec_int(d, reduction_arg)));
}

static hn_value is_not(hn_dec *d, hn_value x, double c) { return m_bin_c(d, HN_OP_NE, x, c); }

/* x where cond, 0 elsewhere */
static hn_value only_where(hn_dec *d, hn_value cond, hn_value x) {
    return m_where(d, cond, x, m_c(d, x, 0));
}

/* --- pairs --- */

/* aten.soft_margin_loss(self, target, reduction): log(1 + exp(-y x)) */
void hn_dec_soft_margin_loss(hn_dec *d) {
    hn_value v[MAX_TENSORS];
    read_tensors(d, 2, v);
    loss_result(d, m_un(d, HN_OP_LOG1P, m_exp(d, m_mul(d, m_neg(d, v[1]), v[0]))), 2);
}

/* aten.margin_ranking_loss(input1, input2, target, margin, reduction): max(0, margin - y (x1 - x2))
 */
void hn_dec_margin_ranking_loss(hn_dec *d) {
    hn_value v[MAX_TENSORS];
    read_tensors(d, 3, v);
    hn_value gap = m_mul(d, m_neg(d, v[2]), m_sub(d, v[0], v[1]));
    loss_result(d, m_max_c(d, m_add_c(d, as_float(d, gap), hn_dec_float(d, 3)), 0), 4);
}

/* aten.hinge_embedding_loss(self, target, margin, reduction): x where y is 1, max(0, margin - x)
 * where it is -1; both for any other y. The margin takes x's dtype, whatever y's is. */
void hn_dec_hinge_embedding_loss(hn_dec *d) {
    hn_value x = m_opmath(d, hn_dec_tensor(d, 0)), y = m_opmath(d, hn_dec_tensor(d, 1));
    hn_value hinge = m_max_c(d, m_c_sub(d, hn_dec_float(d, 2), x), 0);
    hn_value each =
        m_add(d, only_where(d, is_not(d, y, 1), hinge), only_where(d, is_not(d, y, -1), x));
    loss_result(d, each, 3);
}

/* Sums of integers are i64, as PyTorch's are; products before them wrap. */
static hn_value sum_along(hn_dec *d, hn_value x, uint32_t dim) {
    return m_reduce1(d, HN_OP_SUM, hn_dtype_is_float(m_dtype(d, x)) ? x : m_index64(d, x), dim,
                     false);
}

/* aten.cosine_embedding_loss(input1, input2, target, margin, reduction): 1 - cos where y is 1,
 * max(0, cos - margin) where it is -1 */
void hn_dec_cosine_embedding_loss(hn_dec *d) {
    hn_value v[MAX_TENSORS];
    read_tensors(d, 3, v);
    const double eps = 1e-12; /* PyTorch's, added to both squared norms */
    uint32_t dim = m_rank(d, v[2]);
    hn_value product = m_mul(d, v[0], v[1]);
    if (!m_require(d, dim < m_rank(d, product),
                   "the target of a cosine loss has too many dimensions"))
        return;
    hn_value dot = as_float(d, sum_along(d, product, dim));
    hn_value square[2];
    for (uint32_t k = 0; k < 2; k++) {
        uint32_t own = m_rank(d, v[k]) < m_rank(d, product) ? 0 : dim;
        square[k] = m_add_c(d, as_float(d, sum_along(d, m_square(d, v[k]), own)), eps);
    }
    hn_value cosine = m_div(d, dot, m_un(d, HN_OP_SQRT, m_mul(d, square[0], square[1])));
    hn_value same = m_c_sub(d, 1, cosine),
             other = m_max_c(d, m_sub_c(d, cosine, hn_dec_float(d, 3)), 0);
    hn_value each = m_add(d, only_where(d, m_bin_c(d, HN_OP_EQ, v[2], 1), same),
                          only_where(d, m_bin_c(d, HN_OP_EQ, v[2], -1), other));
    loss_result(d, each, 4);
}

/* --- distances --- */

/* The difference of integers is an integer; `eps` makes it a float. */
static hn_value distance(hn_dec *d, hn_value a, hn_value b, double p, double eps, bool keepdim) {
    hn_value gap = m_at_least_1d(d, m_add_c(d, as_float(d, m_sub(d, a, b)), eps));
    uint32_t last = m_rank(d, gap) ? m_rank(d, gap) - 1 : 0;
    return m_vector_norm(d, gap, p, &last, 1, keepdim);
}

/* aten.pairwise_distance(x1, x2, p, eps, keepdim) */
void hn_dec_pairwise_distance(hn_dec *d) {
    hn_value v[MAX_TENSORS];
    read_tensors(d, 2, v);
    m_result(d, 0,
             distance(d, v[0], v[1], hn_dec_float(d, 2), hn_dec_float(d, 3), hn_dec_bool(d, 4)));
}

/* aten.triplet_margin_loss(anchor, positive, negative, margin, p, eps, swap, reduction) */
void hn_dec_triplet_margin_loss(hn_dec *d) {
    hn_value v[MAX_TENSORS];
    read_tensors(d, 3, v);
    double p = hn_dec_float(d, 4), eps = hn_dec_float(d, 5);
    hn_value same = distance(d, v[0], v[1], p, eps, false),
             other = distance(d, v[0], v[2], p, eps, false);
    if (hn_dec_bool(d, 6))
        other = m_bin(d, HN_OP_MIN, other, distance(d, v[1], v[2], p, eps, false));
    loss_result(d, m_max_c(d, m_sub(d, m_add_c(d, same, hn_dec_float(d, 3)), other), 0), 7);
}

/* --- counts --- */

/* aten.poisson_nll_loss(input, target, log_input, full, eps, reduction) */
void hn_dec_poisson_nll_loss(hn_dec *d) {
    hn_value v[MAX_TENSORS], each;
    read_tensors(d, 2, v);
    hn_value x = as_float(d, v[0]), y = as_float(d, v[1]);
    if (hn_dec_bool(d, 2)) each = m_sub(d, m_exp(d, x), as_float(d, m_mul(d, v[1], v[0])));
    else each = m_sub(d, x, m_mul(d, y, m_log(d, m_add_c(d, x, hn_dec_float(d, 4)))));
    if (hn_dec_bool(d, 3)) { /* Stirling's approximation of log y!, for y above 1 */
        hn_value tail = m_mul_c(d, m_log(d, m_mul_c(d, y, 2 * M_PI)), 0.5);
        hn_value stirling = m_add(d, m_sub(d, m_mul(d, y, m_log(d, y)), y), tail);
        hn_value small = m_bin_c(d, HN_OP_LE, y, 1);
        each = m_add(d, each, m_where(d, small, m_c(d, stirling, 0), stirling));
    }
    loss_result(d, each, 5);
}

/* --- classes --- */

/* aten.multi_margin_loss(self, target, p, margin, weight, reduction): over the other classes,
 * weight[y] * max(0, margin - x[y] + x[j])^p / C */
void hn_dec_multi_margin_loss(hn_dec *d) {
    hn_value x = m_opmath(d, hn_dec_tensor(d, 0)), target = m_index64(d, hn_dec_tensor(d, 1)),
             weight = hn_dec_tensor(d, 4);
    uint32_t rank = m_rank(d, x), axis = rank ? rank - 1 : 0;
    if (!m_require(d, rank == 1 || rank == 2, "multi_margin_loss wants [N, C] or [C]")) return;
    double p = hn_dec_float(d, 2), margin = hn_dec_float(d, 3);
    m_shape_t at = m_shape(d, x);
    at.sizes[axis] = e_int(d, 1);
    target = m_reshape(d, target, at.sizes, at.rank);
    hn_value gap =
        m_max_c(d, m_add(d, m_c_sub(d, margin, hn_b_gather(d->g, x, target, axis)), x), 0);
    if (p != 1) gap = m_square(d, gap);
    if (!m_require(d, p == 1 || p == 2, "multi_margin_loss wants a p of 1 or 2")) return;
    if (weight)
        gap = m_mul(d, gap, hn_b_index(d->g, m_cast(d, weight, m_dtype(d, x)), &target, 1, false));
    hn_value classes = m_iota(d, m_size(d, x, axis), HN_DTYPE_I64);
    hn_value others = only_where(d, m_bin(d, HN_OP_NE, classes, target), gap);
    hn_value sum = m_reduce1(d, HN_OP_SUM, others, axis, false);
    loss_result(d, m_div(d, sum, m_size_as(d, m_size(d, x, axis), m_dtype(d, x))), 5);
}

/* aten.multilabel_margin_loss(self, target, reduction): each row of targets ends at its first -1;
 * over its classes t and the classes j that are not among them, max(0, 1 - x[t] + x[j]) / C */
void hn_dec_multilabel_margin_loss(hn_dec *d) {
    hn_value x = m_opmath(d, hn_dec_tensor(d, 0)), target = m_index64(d, hn_dec_tensor(d, 1));
    uint32_t rank = m_rank(d, x), axis = rank ? rank - 1 : 0;
    if (!m_require(d, rank == 1 || rank == 2, "multilabel_margin_loss wants [N, C] or [C]")) return;
    hn_value ends = m_cast(d, m_bin_c(d, HN_OP_LT, target, 0), HN_DTYPE_I64);
    hn_value valid = m_bin_c(d, HN_OP_EQ, hn_b_scan(d->g, HN_OP_CUMSUM, ends, axis, NULL), 0);
    hn_value safe = m_where(d, valid, target, m_c(d, target, 0));
    /* [.., t, j] */
    hn_value listed = hn_b_unsqueeze(d->g, valid, axis + 1);
    hn_value hit = m_bin(d, HN_OP_EQ, hn_b_unsqueeze(d->g, safe, axis + 1),
                         m_iota(d, m_size(d, x, axis), HN_DTYPE_I64));
    hn_value is_target = m_reduce1(d, HN_OP_ANY, m_and(d, hit, listed), axis, true);
    hn_value wanted = hn_b_unsqueeze(d->g, hn_b_gather(d->g, x, safe, axis), axis + 1);
    hn_value gap = m_max_c(d, m_add(d, m_c_sub(d, 1, wanted), hn_b_unsqueeze(d->g, x, axis)), 0);
    gap = only_where(d, m_and(d, listed, m_un(d, HN_OP_NOT, is_target)), gap);
    hn_value sum = m_reduce(d, HN_OP_SUM, gap, (uint32_t[]){axis, axis + 1}, 2, false);
    loss_result(d, m_div(d, sum, m_size_as(d, m_size(d, x, axis), m_dtype(d, x))), 2);
}
