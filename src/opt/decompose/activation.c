/* activation.c: activations, forward. 16-bit floats are computed in f32 and rounded once. Source of
 * the formulas: PyTorch's documentation; of their order of operations: its CPU results on edge
 * values (tests/ops/cases/activation.txt). */
#include "opt/decompose/math.h"
#include "opt/decompose/operands.h"

#include <math.h>

static hn_operands composite(hn_dec *d) {
    return hn_dec_first_operands(d, 1, HN_OPERANDS_COMPOSITE);
}

void hn_dec_relu(hn_dec *d) { hn_dec_result(d, 0, m_un(d, HN_OP_RELU, hn_dec_tensor(d, 0))); }

static hn_value clip(hn_dec *d, hn_value x, double lo, double hi) {
    return m_min_c(d, m_max_c(d, x, lo), hi);
}

void hn_dec_relu6(hn_dec *d) { hn_dec_result(d, 0, clip(d, hn_dec_tensor(d, 0), 0, 6)); }

void hn_dec_hardtanh(hn_dec *d) {
    hn_dec_result(d, 0, clip(d, hn_dec_tensor(d, 0), hn_dec_float(d, 1), hn_dec_float(d, 2)));
}

/* x * (1 + erf(x / sqrt 2)) / 2, or its tanh form */
void hn_dec_gelu(hn_dec *d) {
    hn_operands o = composite(d);
    hn_value x = o.v[0], inner;
    if (hn_str_eq(hn_dec_string(d, 1), HN_STR("tanh"))) {
        hn_value cube = m_mul(d, m_square(d, x), x);
        inner = m_mul_c(d, m_add(d, x, m_mul_c(d, cube, 0.044715)), M_SQRT2 * M_2_SQRTPI * 0.5);
        inner = m_un(d, HN_OP_TANH, inner);
    } else {
        inner = m_un(d, HN_OP_ERF, m_mul_c(d, x, M_SQRT1_2));
    }
    hn_dec_finish(d, 0, m_mul(d, m_mul_c(d, x, 0.5), m_add_c(d, inner, 1)), &o);
}

void hn_dec_silu(hn_dec *d) {
    hn_operands o = composite(d);
    hn_dec_finish(d, 0, m_mul(d, o.v[0], m_sigmoid(d, o.v[0])), &o);
}

void hn_dec_hardsigmoid(hn_dec *d) {
    hn_operands o = composite(d);
    hn_dec_finish(d, 0, m_div_c(d, clip(d, m_add_c(d, o.v[0], 3), 0, 6), 6), &o);
}

void hn_dec_hardswish(hn_dec *d) {
    hn_operands o = composite(d);
    hn_value gate = clip(d, m_add_c(d, o.v[0], 3), 0, 6);
    hn_dec_finish(d, 0, m_div_c(d, m_mul(d, o.v[0], gate), 6), &o);
}

void hn_dec_leaky_relu(hn_dec *d) {
    hn_operands o = composite(d);
    hn_value x = o.v[0];
    hn_dec_finish(d, 0,
                  m_where(d, m_bin_c(d, HN_OP_GT, x, 0), x, m_mul_c(d, x, hn_dec_float(d, 1))), &o);
}

/* x < 0: alpha * scale * expm1(input_scale * x); else scale * x */
static hn_value elu(hn_dec *d, hn_value x, double alpha, double scale, double input_scale) {
    hn_value low = m_mul_c(d, m_un(d, HN_OP_EXPM1, m_mul_c(d, x, input_scale)), alpha * scale);
    return m_where(d, m_bin_c(d, HN_OP_LT, x, 0), low, m_mul_c(d, x, scale));
}

void hn_dec_elu(hn_dec *d) {
    hn_operands o = composite(d);
    hn_dec_finish(d, 0, elu(d, o.v[0], hn_dec_float(d, 1), hn_dec_float(d, 2), hn_dec_float(d, 3)),
                  &o);
}

void hn_dec_celu(hn_dec *d) {
    hn_operands o = composite(d);
    double alpha = hn_dec_float(d, 1);
    hn_dec_finish(d, 0, elu(d, o.v[0], alpha, 1, 1 / alpha), &o);
}

void hn_dec_selu(hn_dec *d) {
    hn_operands o = composite(d);
    hn_dec_finish(d, 0, elu(d, o.v[0], 1.6732632423543772848, 1.0507009873554804935, 1), &o);
}

/* log1p(exp(beta x)) / beta, and x itself where that is x to all digits */
static hn_value softplus(hn_dec *d, hn_value x, double beta, double threshold) {
    hn_value scaled = m_mul_c(d, x, beta);
    hn_value soft = m_div_c(d, m_un(d, HN_OP_LOG1P, m_exp(d, scaled)), beta);
    return m_where(d, m_bin_c(d, HN_OP_GT, scaled, threshold), x, soft);
}

void hn_dec_softplus(hn_dec *d) {
    hn_operands o = composite(d);
    hn_dec_finish(d, 0, softplus(d, o.v[0], hn_dec_float(d, 1), hn_dec_float(d, 2)), &o);
}

void hn_dec_mish(hn_dec *d) {
    hn_operands o = composite(d);
    hn_value soft = m_un(d, HN_OP_LOG1P, m_exp(d, o.v[0]));
    hn_dec_finish(d, 0, m_mul(d, o.v[0], m_un(d, HN_OP_TANH, soft)), &o);
}

/* Results: output, and the buffer that PyTorch's backward reads: exp(-|x|) on CPU, empty on
 * CUDA. */
void hn_dec_log_sigmoid_forward(hn_dec *d) {
    hn_operands o = composite(d);
    hn_dec_finish(d, 0, m_log_sigmoid(d, o.v[0]), &o);
    if (!m_wants(d, 1)) return;
    m_shape_t shape = m_meta_shape(d, 1);
    bool empty = shape.rank == 1 && m_rank(d, o.v[0]) != 1;
    if (shape.rank == 1 && e_is(d, shape.sizes[0], 0)) empty = true;
    if (empty) hn_dec_result(d, 1, m_zeros(d, &shape, m_meta_dtype(d, 1)));
    else hn_dec_finish(d, 1, m_exp(d, m_neg(d, m_abs(d, o.v[0]))), &o);
}

/* weight: one number, or one for each channel (dim 1) */
void hn_dec_prelu(hn_dec *d) {
    hn_operands o = hn_dec_first_operands(d, 2, HN_OPERANDS_COMPOSITE);
    hn_value x = o.v[0], w = o.v[1];
    uint32_t rank = m_rank(d, x);
    bool single = m_rank(d, w) == 0 || e_is(d, m_size(d, w, 0), 1);
    if (single) w = m_reshape(d, w, NULL, 0);
    else if (m_rank(d, w) == 1) w = m_along(d, w, rank > 1 ? 1 : 0, rank ? rank : 1);
    hn_dec_finish(d, 0, m_where(d, m_bin_c(d, HN_OP_GT, x, 0), x, m_mul(d, w, x)), &o);
}

/* weight already broadcasts */
void hn_dec__prelu_kernel(hn_dec *d) {
    hn_operands o = hn_dec_first_operands(d, 2, HN_OPERANDS_COMPOSITE);
    hn_value x = o.v[0];
    hn_dec_finish(d, 0, m_where(d, m_bin_c(d, HN_OP_GT, x, 0), x, m_mul(d, o.v[1], x)), &o);
}

/* first half * sigmoid(second half) */
void hn_dec_glu(hn_dec *d) {
    hn_operands o = composite(d);
    uint32_t dim = hn_dec_dim(d, 1, m_rank(d, o.v[0]));
    hn_expr half = hn_sym_floordiv(d->g->sym, m_size(d, o.v[0], dim), hn_dec_i(d, 2));
    hn_value a = m_slice(d, o.v[0], dim, hn_dec_i(d, 0), half),
             b = m_slice(d, o.v[0], dim, half, half);
    hn_dec_finish(d, 0, m_mul(d, a, m_sigmoid(d, b)), &o);
}

void hn_dec_threshold(hn_dec *d) {
    hn_value x = hn_dec_tensor(d, 0);
    hn_dtype dtype = m_dtype(d, x);
    hn_value low = m_bin(d, HN_OP_LE, x, hn_dec_number(d, 1, dtype));
    hn_dec_result(d, 0, m_where(d, low, hn_dec_number(d, 2, dtype), x));
}

/* x moved toward 0 by lambd; NaN stays through the multiplication */
void hn_dec_softshrink(hn_dec *d) {
    hn_operands o = composite(d);
    hn_value x = o.v[0];
    double lambd = hn_dec_float(d, 1);
    hn_value y =
        m_where(d, m_bin_c(d, HN_OP_LT, x, -lambd), m_add_c(d, x, lambd), m_mul_c(d, x, 0));
    hn_dec_finish(d, 0, m_where(d, m_bin_c(d, HN_OP_GT, x, lambd), m_sub_c(d, x, lambd), y), &o);
}

void hn_dec_hardshrink(hn_dec *d) {
    hn_value x = hn_dec_tensor(d, 0);
    double lambd = hn_dec_float(d, 1);
    hn_value inside = m_and(d, m_bin_c(d, HN_OP_GE, x, -lambd), m_bin_c(d, HN_OP_LE, x, lambd));
    hn_dec_result(d, 0, m_where(d, inside, m_c(d, x, 0), x));
}

/* Outside of training the slope is the middle of the bounds, which are the arguments `lower` and
 * the next; then `training`. */
static void rrelu(hn_dec *d, uint32_t lower) {
    if (!m_require(d, !hn_dec_bool(d, lower + 2), "rrelu in training")) return;
    hn_operands o = composite(d);
    hn_value x = o.v[0],
             low = m_mul_c(d, x, (hn_dec_float(d, lower) + hn_dec_float(d, lower + 1)) / 2);
    hn_dec_finish(d, 0, m_where(d, m_bin_c(d, HN_OP_GT, x, 0), x, low), &o);
}

/* aten.rrelu(self, lower, upper, training) */
void hn_dec_rrelu(hn_dec *d) { rrelu(d, 1); }

/* aten.rrelu_with_noise_functional(self, noise, lower, upper, training) -> result, noise */
void hn_dec_rrelu_with_noise(hn_dec *d) {
    rrelu(d, 2);
    if (m_wants(d, 1)) m_result(d, 1, hn_dec_tensor(d, 1));
}

/* aten.log_sigmoid(self) */
void hn_dec_log_sigmoid(hn_dec *d) {
    hn_operands o = composite(d);
    hn_dec_finish(d, 0, m_log_sigmoid(d, o.v[0]), &o);
}
