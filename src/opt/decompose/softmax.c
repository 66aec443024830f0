/* softmax.c: softmax, its logarithm and their gradients.
 *
 *   softmax = e / sum(e),                 e = exp(x - amax(x))
 *   log_softmax = s - log(sum(exp(s))),   s = x - amax(x)
 *
 * 16-bit floats are computed in f32 and rounded once; with half_to_float the result stays f32. */
#include "opt/decompose/math.h"

#include <math.h>

typedef hn_value (*softmax_fn)(hn_dec *d, hn_value x, uint32_t dim);

/* x in the dtype that is computed in: `dtype` (the optional argument) is applied before. */
static hn_value softmax_input(hn_dec *d, hn_dtype dtype) {
    hn_value x = hn_dec_tensor(d, 0);
    if (dtype != HN_DTYPE_NONE) x = m_cast(d, x, dtype);
    if (x && !hn_dtype_is_float(m_dtype(d, x))) x = m_cast(d, x, HN_DTYPE_F32);
    return m_at_least_1d(d, m_opmath(d, x));
}

static void softmax_result(hn_dec *d, hn_dtype dtype, softmax_fn fn) {
    hn_value x = softmax_input(d, dtype);
    uint32_t dim = hn_dec_dim(d, 1, m_rank(d, x));
    m_result(d, 0, m_like_meta(d, fn(d, x, dim), 0));
}

/* aten.softmax.int(self, dim, dtype) */
void hn_dec_softmax_int(hn_dec *d) {
    softmax_result(d, hn_dec_dtype(d, 2, HN_DTYPE_NONE), m_softmax);
}
/* aten.log_softmax.int(self, dim, dtype) */
void hn_dec_log_softmax_int(hn_dec *d) {
    softmax_result(d, hn_dec_dtype(d, 2, HN_DTYPE_NONE), m_log_softmax);
}
/* aten._softmax(self, dim, half_to_float): the recorded result tells whether it stays f32 */
void hn_dec_softmax(hn_dec *d) { softmax_result(d, HN_DTYPE_NONE, m_softmax); }
/* aten._log_softmax(self, dim, half_to_float) */
void hn_dec_log_softmax(hn_dec *d) { softmax_result(d, HN_DTYPE_NONE, m_log_softmax); }

/* A row of nothing but -inf gives 0 instead of NaN. */
static hn_value safe_softmax(hn_dec *d, hn_value x, uint32_t dim) {
    if (e_is(d, m_size(d, x, dim), 0)) return x;
    hn_value max = m_reduce1(d, HN_OP_AMAX, x, dim, true);
    hn_value y = m_softmax(d, x, dim);
    return m_where(d, m_bin_c(d, HN_OP_EQ, max, -INFINITY), m_c(d, y, 0), y);
}

/* aten._safe_softmax(self, dim, dtype) */
void hn_dec_safe_softmax(hn_dec *d) {
    softmax_result(d, hn_dec_dtype(d, 2, HN_DTYPE_NONE), safe_softmax);
}

typedef struct softmax_gradient {
    hn_value grad, output;
    uint32_t dim;
} softmax_gradient;

static softmax_gradient read_gradient(hn_dec *d) {
    softmax_gradient s = {.grad = m_at_least_1d(d, m_opmath(d, hn_dec_tensor(d, 0))),
                          .output = m_at_least_1d(d, m_opmath(d, hn_dec_tensor(d, 1)))};
    s.dim = hn_dec_dim(d, 2, m_rank(d, s.grad));
    return s;
}

/* aten._softmax_backward_data(grad_output, output, dim, input_dtype): gy - y * sum(gy) with gy = g
 * * y */
void hn_dec_softmax_backward(hn_dec *d) {
    softmax_gradient s = read_gradient(d);
    hn_value gy = m_mul(d, s.grad, s.output);
    hn_value sum = m_reduce1(d, HN_OP_SUM, gy, s.dim, true);
    m_result(d, 0, m_like_meta(d, m_sub(d, gy, m_mul(d, s.output, sum)), 0));
}

/* aten._log_softmax_backward_data(grad_output, output, dim, input_dtype): g - exp(y) * sum(g) */
void hn_dec_log_softmax_backward(hn_dec *d) {
    softmax_gradient s = read_gradient(d);
    hn_value sum = m_reduce1(d, HN_OP_SUM, s.grad, s.dim, true);
    m_result(d, 0, m_like_meta(d, m_sub(d, s.grad, m_mul(d, m_exp(d, s.output), sum)), 0));
}
