/* backward.c: gradients of activations and of views.
 *
 * Names: g is the gradient of the output, x the input and y the output of the forward op. 16-bit
 * floats are computed in f32 and rounded once. */
#include "opt/decompose/math.h"

#include <math.h>

typedef struct gradient {
    hn_value g, x; /* opmath */
} gradient;

static gradient read_gradient(hn_dec *d) {
    return (gradient){m_opmath(d, hn_dec_tensor(d, 0)), m_opmath(d, hn_dec_tensor(d, 1))};
}

/* cond ? yes : no with cond = x OP c */
static hn_value where_c(hn_dec *d, hn_value x, hn_op op, double c, hn_value yes, hn_value no) {
    return m_where(d, m_bin_c(d, op, x, c), yes, no);
}

/* g * (cdf(x) + x * pdf(x)) */
static hn_value gelu_exact(hn_dec *d, gradient s) {
    hn_value cdf = m_mul_c(d, m_add_c(d, m_un(d, HN_OP_ERF, m_mul_c(d, s.x, M_SQRT1_2)), 1), 0.5);
    hn_value pdf =
        m_mul_c(d, m_exp(d, m_mul_c(d, m_square(d, s.x), -0.5)), M_2_SQRTPI * M_SQRT1_2 * 0.5);
    return m_mul(d, s.g, m_add(d, cdf, m_mul(d, s.x, pdf)));
}

/* y = x/2 * (1 + t), t = tanh(u), u = beta * (x + kappa * x^3) */
static hn_value gelu_tanh(hn_dec *d, gradient s) {
    const double beta = M_SQRT2 * M_2_SQRTPI * 0.5, kappa = 0.044715;
    hn_value x2 = m_square(d, s.x), cube = m_mul(d, x2, s.x);
    hn_value t = m_un(d, HN_OP_TANH, m_mul_c(d, m_add(d, s.x, m_mul_c(d, cube, kappa)), beta));
    hn_value left = m_mul_c(d, m_add_c(d, t, 1), 0.5);
    hn_value du = m_mul_c(d, m_add_c(d, m_mul_c(d, x2, 3 * kappa), 1), beta);
    hn_value right = m_mul(d, m_mul(d, m_mul_c(d, s.x, 0.5), m_c_sub(d, 1, m_square(d, t))), du);
    return m_mul(d, s.g, m_add(d, left, right));
}

/* aten.gelu_backward(grad_output, self, *, approximate) */
void hn_dec_gelu_backward(hn_dec *d) {
    hn_str mode = hn_dec_string(d, 2);
    bool is_tanh = hn_str_eq(mode, HN_STR("tanh"));
    if (!m_require(d, is_tanh || hn_str_eq(mode, HN_STR("none")),
                   "gelu approximates by 'none' or 'tanh'"))
        return;
    gradient s = read_gradient(d);
    m_result(d, 0, is_tanh ? gelu_tanh(d, s) : gelu_exact(d, s));
}

/* aten.threshold_backward(grad_output, self, threshold): g above; g where x is NaN */
void hn_dec_threshold_backward(hn_dec *d) {
    hn_value g = hn_dec_tensor(d, 0), x = hn_dec_tensor(d, 1);
    hn_value limit = hn_dec_number(d, 2, m_dtype(d, x));
    m_result(d, 0, m_where(d, m_bin(d, HN_OP_LE, x, limit), m_c(d, g, 0), g));
}

/* aten.tanh_backward(grad_output, output): g * (1 - y^2) */
void hn_dec_tanh_backward(hn_dec *d) {
    gradient s = read_gradient(d);
    m_result(d, 0, m_mul(d, s.g, m_c_sub(d, 1, m_square(d, s.x))));
}

/* aten.sigmoid_backward(grad_output, output): g * (1 - y) * y */
void hn_dec_sigmoid_backward(hn_dec *d) {
    gradient s = read_gradient(d);
    m_result(d, 0, m_mul(d, m_mul(d, s.g, m_c_sub(d, 1, s.x)), s.x));
}

/* aten.silu_backward(grad_output, self): g * s * (1 + x * (1 - s)) */
void hn_dec_silu_backward(hn_dec *d) {
    gradient s = read_gradient(d);
    hn_value sigmoid = m_sigmoid(d, s.x);
    hn_value slope = m_add_c(d, m_mul(d, s.x, m_c_sub(d, 1, sigmoid)), 1);
    m_result(d, 0, m_mul(d, m_mul(d, s.g, sigmoid), slope));
}

/* aten.mish_backward(grad_output, self): of x * t, t = tanh(softplus(x)) */
void hn_dec_mish_backward(hn_dec *d) {
    gradient s = read_gradient(d);
    hn_value t = m_un(d, HN_OP_TANH, m_un(d, HN_OP_LOG1P, m_exp(d, s.x)));
    hn_value slope = m_mul(d, m_mul(d, s.x, m_sigmoid(d, s.x)), m_c_sub(d, 1, m_square(d, t)));
    m_result(d, 0, m_mul(d, s.g, m_add(d, t, slope)));
}

/* aten.softshrink_backward, hardshrink_backward(grad_output, self, lambda): g outside of [-lambda,
 * lambda] */
void hn_dec_shrink_backward(hn_dec *d) {
    gradient s = read_gradient(d);
    double lambda = hn_dec_float(d, 2);
    hn_value inside =
        m_and(d, m_bin_c(d, HN_OP_GE, s.x, -lambda), m_bin_c(d, HN_OP_LE, s.x, lambda));
    m_result(d, 0, m_where(d, inside, m_c(d, s.g, 0), s.g));
}

/* aten.hardswish_backward(grad_output, self): 0 up to -3, g * (x/3 + 1/2) up to 3, g from there */
void hn_dec_hardswish_backward(hn_dec *d) {
    gradient s = read_gradient(d);
    hn_value middle = m_mul(d, s.g, m_add_c(d, m_div_c(d, s.x, 3), 0.5));
    hn_value upper = where_c(d, s.x, HN_OP_LT, 3, middle, s.g);
    m_result(d, 0, where_c(d, s.x, HN_OP_LE, -3, m_c(d, s.g, 0), upper));
}

/* aten.hardsigmoid_backward(grad_output, self): g / 6 strictly between -3 and 3 */
void hn_dec_hardsigmoid_backward(hn_dec *d) {
    gradient s = read_gradient(d);
    hn_value inside = m_and(d, m_bin_c(d, HN_OP_GT, s.x, -3), m_bin_c(d, HN_OP_LT, s.x, 3));
    m_result(d, 0, m_where(d, inside, m_mul_c(d, s.g, 1.0 / 6), m_c(d, s.g, 0)));
}

/* aten.hardtanh_backward(grad_output, self, min, max): g strictly between them */
void hn_dec_hardtanh_backward(hn_dec *d) {
    gradient s = read_gradient(d);
    hn_value outside = m_or(d, m_bin_c(d, HN_OP_LE, s.x, hn_dec_float(d, 2)),
                            m_bin_c(d, HN_OP_GE, s.x, hn_dec_float(d, 3)));
    m_result(d, 0, m_where(d, outside, m_c(d, s.g, 0), s.g));
}

/* aten.leaky_relu_backward(grad_output, self, slope, self_is_result): input and result have one
 * sign */
void hn_dec_leaky_relu_backward(hn_dec *d) {
    gradient s = read_gradient(d);
    m_result(d, 0, where_c(d, s.x, HN_OP_GT, 0, s.g, m_mul_c(d, s.g, hn_dec_float(d, 2))));
}

/* aten.elu_backward(grad_output, alpha, scale, input_scale, is_result, self_or_result) */
void hn_dec_elu_backward(hn_dec *d) {
    hn_value g = m_opmath(d, hn_dec_tensor(d, 0)), x = m_opmath(d, hn_dec_tensor(d, 5));
    double alpha = hn_dec_float(d, 1), scale = hn_dec_float(d, 2), input_scale = hn_dec_float(d, 3);
    hn_value slope = hn_dec_bool(d, 4)
                         ? m_add_c(d, x, alpha * scale)
                         : m_mul_c(d, m_exp(d, m_mul_c(d, x, input_scale)), alpha * scale);
    hn_value low = m_mul(d, m_mul_c(d, g, input_scale), slope);
    m_result(d, 0, where_c(d, x, HN_OP_LE, 0, low, m_mul_c(d, g, scale)));
}

/* aten.softplus_backward(grad_output, self, beta, threshold): g * z / (z + 1) with z = exp(beta x),
 * g beyond the threshold */
void hn_dec_softplus_backward(hn_dec *d) {
    gradient s = read_gradient(d);
    hn_value scaled = m_mul_c(d, s.x, hn_dec_float(d, 2)), z = m_exp(d, scaled);
    hn_value curved = m_div(d, m_mul(d, s.g, z), m_add_c(d, z, 1));
    m_result(d, 0, where_c(d, scaled, HN_OP_GT, hn_dec_float(d, 3), s.g, curved));
}

/* aten.log_sigmoid_backward(grad_output, self, buffer): g * sigmoid(-x), from z = exp(-|x|) */
void hn_dec_log_sigmoid_backward(hn_dec *d) {
    gradient s = read_gradient(d);
    hn_value z = m_exp(d, m_neg(d, m_abs(d, s.x))), part = m_div(d, z, m_add_c(d, z, 1));
    m_result(d, 0, m_mul(d, s.g, where_c(d, s.x, HN_OP_LT, 0, m_c_sub(d, 1, part), part)));
}

/* aten.logit_backward(grad_output, self, eps): g / (x (1 - x)) inside [eps, 1 - eps]; outside 0, or
 * NaN without eps. A negative eps is none. */
void hn_dec_logit_backward(hn_dec *d) {
    gradient s = read_gradient(d);
    bool has_eps = hn_dec_has(d, 2) && hn_dec_float(d, 2) >= 0;
    double lo = has_eps ? hn_dec_float(d, 2) : 0;
    hn_value outside = m_or(d, m_bin_c(d, HN_OP_LT, s.x, lo), m_bin_c(d, HN_OP_GT, s.x, 1 - lo));
    hn_value inside = m_div(d, s.g, m_mul(d, s.x, m_c_sub(d, 1, s.x)));
    m_result(d, 0, m_where(d, outside, m_c(d, s.g, has_eps ? 0 : NAN), inside));
}

/* --- views: the gradient goes where the elements came from, zeros elsewhere --- */

/* Reads sizes in argument 1 and a dim in argument 2. */
static bool read_view(hn_dec *d, m_shape_t *out, uint32_t *out_dim) {
    out->rank = hn_dec_exprs(d, 1, out->sizes);
    *out_dim = hn_dec_dim(d, 2, out->rank);
    return m_require(d, out->rank > *out_dim, "the gradient of a view of a scalar");
}

/* aten.glu_backward(grad_output, self, dim): of a * sigmoid(b) */
void hn_dec_glu_backward(hn_dec *d) {
    gradient s = read_gradient(d);
    uint32_t dim = hn_dec_dim(d, 2, m_rank(d, s.x));
    hn_expr half = hn_sym_floordiv(d->g->sym, m_size(d, s.x, dim), e_int(d, 2));
    hn_value a = m_slice(d, s.x, dim, e_int(d, 0), half),
             gate = m_sigmoid(d, m_slice(d, s.x, dim, half, half));
    hn_value da = m_mul(d, s.g, gate), db = m_mul(d, m_mul(d, da, m_c_sub(d, 1, gate)), a);
    m_result(d, 0, hn_b_cat(d->g, (hn_value[]){da, db}, 2, dim));
}

/* aten._prelu_kernel_backward(grad_output, self, weight) -> gradients of self and, not yet summed,
 * of weight */
void hn_dec__prelu_kernel_backward(hn_dec *d) {
    gradient s = read_gradient(d);
    hn_value is_positive = m_bin_c(d, HN_OP_GT, s.x, 0), zero = m_c(d, s.x, 0);
    m_result(d, 0, m_where(d, is_positive, s.g, m_mul(d, m_opmath(d, hn_dec_tensor(d, 2)), s.g)));
    if (m_wants(d, 1)) m_result(d, 1, m_where(d, is_positive, zero, m_mul(d, s.x, s.g)));
}

/* aten.slice_backward(grad_output, input_sizes, dim, start, end, step) */
void hn_dec_slice_backward(hn_dec *d) {
    hn_value g = hn_dec_tensor(d, 0);
    m_shape_t s;
    uint32_t dim = 0;
    if (!read_view(d, &s, &dim) ||
        !m_require(d, m_rank(d, g) == s.rank, "the ranks of a slice and its gradient do not fit"))
        return;
    int64_t step = hn_dec_int(d, 5);
    if (!m_require(d, step > 0, "a slice needs a positive step")) return;
    hn_expr start = 0, count = 0, size = s.sizes[dim];
    e_slice_bounds(d, size, hn_dec_expr(d, 3), hn_dec_expr(d, 4), step, &start, &count);
    m_result(d, 0, m_spread(d, g, dim, start, count, step, size));
}

/* aten.select_backward(grad_output, input_sizes, dim, index) */
void hn_dec_select_backward(hn_dec *d) {
    hn_value g = hn_dec_tensor(d, 0);
    m_shape_t s;
    uint32_t dim = 0;
    if (!read_view(d, &s, &dim)) return;
    hn_expr index = hn_dec_expr(d, 3), size = s.sizes[dim];
    if (hn_sym_guard(d->g->sym, HN_REL_LT, index, e_int(d, 0), "a selected index is negative"))
        index = e_add(d, index, size);
    hn_value row = hn_b_unsqueeze(d->g, g, dim);
    m_result(d, 0, m_spread(d, row, dim, index, e_int(d, 1), 1, size));
}

/* aten.embedding_dense_backward(grad_output, indices, num_weights, padding_idx,
 * scale_grad_by_freq) */
void hn_dec_embedding_backward(hn_dec *d) {
    hn_value g = hn_dec_tensor(d, 0), index = m_index64(d, hn_dec_tensor(d, 1));
    uint32_t rank = m_rank(d, g);
    if (!m_require(d, rank >= 1 && rank == m_rank(d, index) + 1,
                   "the gradient of an embedding does not fit its indices"))
        return;
    hn_dtype math = hn_dec_opmath(m_dtype(d, g));
    m_shape_t table = {.rank = 2, .sizes = {hn_dec_expr(d, 2), m_size(d, g, rank - 1)}},
              counts = {.rank = 1, .sizes = {table.sizes[0]}};
    hn_value rows = m_cast(d, g, math);
    if (hn_dec_bool(d, 4)) {
        hn_value ones = hn_dec_const(d, 1, math);
        m_shape_t s = m_shape(d, index);
        hn_value freq = hn_b_index_put(d->g, m_zeros(d, &counts, math), &index, 1,
                                       m_expand(d, ones, &s), "add", false);
        rows = m_div(d, rows,
                     hn_b_unsqueeze(d->g, hn_b_index(d->g, freq, &index, 1, false), rank - 1));
    }
    hn_value skipped = m_bin(d, HN_OP_EQ, index, m_size_as(d, hn_dec_expr(d, 3), HN_DTYPE_I64));
    rows = m_where(d, hn_b_unsqueeze(d->g, skipped, rank - 1), m_c(d, rows, 0), rows);
    m_result(d, 0, hn_b_index_put(d->g, m_zeros(d, &table, math), &index, 1, rows, "add", false));
}
