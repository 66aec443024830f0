/* norm.c: layer, group, instance and RMS norms and their gradients -> reductions and
 * element-wise ops, which the scheduler makes one kernel of.
 *
 *   mean = sum(x) / N;  c = x - mean;  rstd = rsqrt(sum(c * c) / N + eps);  y = c * rstd * w + b
 *
 * Two passes, as E[x^2] - mean^2 cancels. 16-bit floats are computed in f32 and rounded once. */
#include "opt/decompose/math.h"

#include <float.h>

typedef struct moments {
    hn_value centered, mean, rstd; /* mean and rstd with kept dims */
} moments;

/* Statistics of x (opmath) over dims. */
static moments moments_over(hn_dec *d, hn_value x, const uint32_t *dims, uint32_t count,
                            double eps) {
    moments m = {.mean = m_mean(d, x, dims, count, true)};
    m.centered = m_sub(d, x, m.mean);
    m.rstd = m_un(d, HN_OP_RSQRT,
                  m_add_c(d, m_mean(d, m_square(d, m.centered), dims, count, true), eps));
    return m;
}

/* y * w + b with parameters (0: absent) that broadcast as they are */
static hn_value affine(hn_dec *d, hn_value y, hn_value w, hn_value b) {
    hn_dtype dtype = m_dtype(d, y);
    if (w) y = m_mul(d, y, m_cast(d, w, dtype));
    return b ? m_add(d, y, m_cast(d, b, dtype)) : y;
}

/* The last `count` dims, which `normalized_shape` in `arg` must repeat. */
static uint32_t normalized_dims(hn_dec *d, uint32_t arg, hn_value x, uint32_t dims[HN_MAX_RANK]) {
    hn_expr shape[HN_MAX_RANK];
    uint32_t count = hn_dec_exprs(d, arg, shape), rank = m_rank(d, x);
    if (!m_require(d, count > 0 && count <= rank, "the normalized shape does not fit the input"))
        return 0;
    for (uint32_t k = 0; k < count; k++) dims[k] = rank - count + k;
    return count;
}

/* --- layer norm --- */

static void layer_norm(hn_dec *d, double eps) {
    hn_value x = m_opmath(d, hn_dec_tensor(d, 0)), w = hn_dec_tensor(d, 2), b = hn_dec_tensor(d, 3);
    uint32_t dims[HN_MAX_RANK], count = normalized_dims(d, 1, x, dims);
    if (count == 0) return;
    moments m = moments_over(d, x, dims, count, eps);
    m_result(d, 0, affine(d, m_mul(d, m.centered, m.rstd), w, b));
    if (m_wants(d, 1)) m_result(d, 1, m.mean);
    if (m_wants(d, 2)) m_result(d, 2, m.rstd);
}

/* aten.layer_norm, aten.native_layer_norm (input, normalized_shape, weight, bias, eps) -> y, mean,
 * rstd */
void hn_dec_layer_norm(hn_dec *d) { layer_norm(d, hn_dec_float(d, 4)); }

/* The dims that `inner` leaves, when inner is the last `count` of `rank`. */
static uint32_t outer_dims(uint32_t rank, uint32_t count, uint32_t out[HN_MAX_RANK]) {
    for (uint32_t k = 0; k + count < rank; k++) out[k] = k;
    return rank - count;
}

static hn_value sum_or_same(hn_dec *d, hn_value x, const uint32_t *dims, uint32_t count) {
    return count ? m_reduce(d, HN_OP_SUM, x, dims, count, false) : x;
}

/* rstd * (g - mean(g) - xhat * mean(g * xhat)) over dims */
static hn_value norm_input_gradient(hn_dec *d, hn_value g, hn_value xhat, hn_value rstd,
                                    const uint32_t *dims, uint32_t count) {
    hn_value mean = m_mean(d, g, dims, count, true),
             corr = m_mean(d, m_mul(d, g, xhat), dims, count, true);
    return m_mul(d, rstd, m_sub(d, m_sub(d, g, mean), m_mul(d, xhat, corr)));
}

/* aten.native_layer_norm_backward(grad_out, input, normalized_shape, mean, rstd, weight, bias,
 * output_mask)
 * -> grad of input, weight, bias */
void hn_dec_layer_norm_backward(hn_dec *d) {
    hn_value grad = m_opmath(d, hn_dec_tensor(d, 0)), x = m_opmath(d, hn_dec_tensor(d, 1));
    hn_value mean = m_opmath(d, hn_dec_tensor(d, 3)), rstd = m_opmath(d, hn_dec_tensor(d, 4)),
             w = hn_dec_tensor(d, 5);
    uint32_t dims[HN_MAX_RANK], outer[HN_MAX_RANK], count = normalized_dims(d, 2, x, dims);
    if (count == 0) return;
    uint32_t outer_count = outer_dims(m_rank(d, x), count, outer);
    hn_value xhat = m_mul(d, m_sub(d, x, mean), rstd);
    if (m_wants(d, 0))
        m_result(d, 0, norm_input_gradient(d, affine(d, grad, w, 0), xhat, rstd, dims, count));
    if (m_wants(d, 1)) m_result(d, 1, sum_or_same(d, m_mul(d, grad, xhat), outer, outer_count));
    if (m_wants(d, 2)) m_result(d, 2, sum_or_same(d, grad, outer, outer_count));
}

/* --- RMS norm --- */

/* Without eps: the machine epsilon of the dtype that is computed in. */
static double rms_eps(hn_dec *d, uint32_t arg, hn_dtype dtype) {
    if (hn_dec_has(d, arg)) return hn_dec_float(d, arg);
    return dtype == HN_DTYPE_F64 ? DBL_EPSILON : FLT_EPSILON;
}

/* aten.rms_norm, aten._fused_rms_norm (input, normalized_shape, weight, eps) -> y, rstd */
void hn_dec_rms_norm(hn_dec *d) {
    hn_value x = m_opmath(d, hn_dec_tensor(d, 0)), w = hn_dec_tensor(d, 2);
    uint32_t dims[HN_MAX_RANK], count = normalized_dims(d, 1, x, dims);
    if (count == 0) return;
    hn_value mean_square = m_mean(d, m_square(d, x), dims, count, true);
    hn_value rstd = m_un(d, HN_OP_RSQRT, m_add_c(d, mean_square, rms_eps(d, 3, m_dtype(d, x))));
    m_result(d, 0, affine(d, m_mul(d, x, rstd), w, 0));
    if (m_wants(d, 1)) m_result(d, 1, rstd);
}

/* --- group norm --- */

/* [N, C, ..] as [N, G, C/G, ..] */
static hn_value as_groups(hn_dec *d, hn_value x, int64_t groups) {
    hn_expr per_group = hn_sym_floordiv(d->g->sym, m_size(d, x, 1), e_int(d, groups));
    return m_split(d, x, 1, (hn_expr[]){e_int(d, groups), per_group}, 2);
}

static uint32_t dims_from(uint32_t first, uint32_t rank, uint32_t out[HN_MAX_RANK]) {
    for (uint32_t k = first; k < rank; k++) out[k - first] = k;
    return rank > first ? rank - first : 0;
}

/* A parameter [C] that broadcasts over [N, C, ..]; 0 stays. */
static hn_value per_channel(hn_dec *d, hn_value v, uint32_t rank) {
    return v ? m_along(d, v, 1, rank) : 0;
}

static void group_norm(hn_dec *d, hn_value input, hn_value w, hn_value b, int64_t groups,
                       double eps) {
    m_shape_t s = m_shape(d, input);
    if (!m_require(d, s.rank >= 2 && groups > 0,
                   "group norm wants [N, C, ..] and at least one group"))
        return;
    hn_value x = as_groups(d, m_opmath(d, input), groups);
    uint32_t dims[HN_MAX_RANK], count = dims_from(2, s.rank + 1, dims);
    moments m = moments_over(d, x, dims, count, eps);
    hn_value y = m_reshape(d, m_mul(d, m.centered, m.rstd), s.sizes, s.rank);
    m_result(d, 0, affine(d, y, per_channel(d, w, s.rank), per_channel(d, b, s.rank)));
    hn_expr stats[2] = {s.sizes[0], e_int(d, groups)};
    if (m_wants(d, 1)) m_result(d, 1, m_reshape(d, m.mean, stats, 2));
    if (m_wants(d, 2)) m_result(d, 2, m_reshape(d, m.rstd, stats, 2));
}

/* aten.group_norm(input, num_groups, weight, bias, eps) */
void hn_dec_group_norm(hn_dec *d) {
    group_norm(d, hn_dec_tensor(d, 0), hn_dec_tensor(d, 2), hn_dec_tensor(d, 3), hn_dec_int(d, 1),
               hn_dec_float(d, 4));
}

/* aten.native_group_norm(input, weight, bias, N, C, HxW, group, eps) -> y, mean, rstd */
void hn_dec_native_group_norm(hn_dec *d) {
    group_norm(d, hn_dec_tensor(d, 0), hn_dec_tensor(d, 1), hn_dec_tensor(d, 2), hn_dec_int(d, 6),
               hn_dec_float(d, 7));
}

/* Everything but dim 1. */
static hn_value sum_to_channels(hn_dec *d, hn_value x) {
    uint32_t dims[HN_MAX_RANK], count = 0, rank = m_rank(d, x);
    for (uint32_t k = 0; k < rank; k++)
        if (k != 1) dims[count++] = k;
    return m_reduce(d, HN_OP_SUM, x, dims, count, false);
}

/* aten.native_group_norm_backward(grad_out, input, mean, rstd, weight, N, C, HxW, group,
 * output_mask)
 * -> grad of input, weight, bias */
void hn_dec_native_group_norm_backward(hn_dec *d) {
    hn_value grad = m_opmath(d, hn_dec_tensor(d, 0)), input = m_opmath(d, hn_dec_tensor(d, 1)),
             w = hn_dec_tensor(d, 4);
    hn_value mean = m_opmath(d, hn_dec_tensor(d, 2)), rstd = m_opmath(d, hn_dec_tensor(d, 3));
    int64_t groups = hn_dec_int(d, 8);
    m_shape_t s = m_shape(d, input);
    if (!m_require(d, s.rank >= 2 && groups > 0,
                   "group norm wants [N, C, ..] and at least one group"))
        return;
    m_shape_t kept = {.rank = s.rank + 1, .sizes = {s.sizes[0], e_int(d, groups)}};
    for (uint32_t k = 2; k < kept.rank; k++) kept.sizes[k] = e_int(d, 1);
    uint32_t dims[HN_MAX_RANK], count = dims_from(2, kept.rank, dims);
    mean = m_reshape(d, mean, kept.sizes, kept.rank);
    rstd = m_reshape(d, rstd, kept.sizes, kept.rank);
    hn_value xhat = m_mul(d, m_sub(d, as_groups(d, input, groups), mean), rstd);
    if (m_wants(d, 0)) {
        hn_value g = as_groups(d, affine(d, grad, per_channel(d, w, s.rank), 0), groups);
        m_result(d, 0,
                 m_reshape(d, norm_input_gradient(d, g, xhat, rstd, dims, count), s.sizes, s.rank));
    }
    if (m_wants(d, 1))
        m_result(d, 1, sum_to_channels(d, m_mul(d, grad, m_reshape(d, xhat, s.sizes, s.rank))));
    if (m_wants(d, 2)) m_result(d, 2, sum_to_channels(d, grad));
}
