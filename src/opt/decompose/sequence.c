/* sequence.c: windows of signal processing (hann, hamming, blackman, bartlett), logspace
 * and linspace between tensors, the trapezoid rule, and the gradient of samples. */
#include "opt/decompose/math.h"

#include <math.h>

/* --- windows --- */

typedef struct window {
    int64_t length, span; /* elements; what a period or the last element's position is */
    hn_value at;          /* [length] in opmath: 0, 1, 2.. */
} window;

/* `periodic` is given in the overloads of more than five arguments, and the default. */
static bool read_window(hn_dec *d, uint32_t plain_args, window *out) {
    bool periodic = d->node->arg_count <= plain_args || hn_dec_bool(d, 1);
    hn_dtype math = hn_dec_opmath(m_meta_dtype(d, 0));
    *out = (window){.length = hn_dec_int(d, 0)};
    if (!m_require(d, out->length >= 0 && out->length <= INT32_MAX,
                   "the length of a window is out of range"))
        return false;
    out->span = periodic ? out->length : out->length - 1;
    if (out->length <= 1) { /* no period to speak of: ones */
        m_shape_t shape = m_meta_shape(d, 0);
        m_result(d, 0, m_full(d, &shape, 1, m_meta_dtype(d, 0)));
        return false;
    }
    out->at = m_iota(d, e_int(d, out->length), math);
    return true;
}

static hn_value wave(hn_dec *d, const window *w, double turns) {
    return m_un(d, HN_OP_COS, m_mul_c(d, w->at, turns * 2 * M_PI / (double)w->span));
}

/* alpha - beta cos(2 pi n / span) */
static void raised_cosine(hn_dec *d, double alpha, double beta) {
    window w;
    if (read_window(d, 5, &w)) m_result(d, 0, m_add_c(d, m_mul_c(d, wave(d, &w, 1), -beta), alpha));
}

/* aten.hann_window, hamming_window, blackman_window, bartlett_window (window_length[, periodic[,
 * alpha[, beta]]]) */
void hn_dec_hann_window(hn_dec *d) { raised_cosine(d, 0.5, 0.5); }
void hn_dec_hamming_window(hn_dec *d) {
    uint32_t given = d->node->arg_count - 4; /* dtype, layout, device and pin_memory come after */
    raised_cosine(d, given > 2 ? hn_dec_float(d, 2) : 0.54, given > 3 ? hn_dec_float(d, 3) : 0.46);
}

void hn_dec_blackman_window(hn_dec *d) {
    window w;
    if (!read_window(d, 5, &w)) return;
    hn_value sum = m_sub(d, m_mul_c(d, wave(d, &w, 2), 0.08), m_mul_c(d, wave(d, &w, 1), 0.5));
    m_result(d, 0, m_add_c(d, sum, 0.42));
}

/* up to 1 in the middle and down again */
void hn_dec_bartlett_window(hn_dec *d) {
    window w;
    if (!read_window(d, 5, &w)) return;
    hn_value up = m_mul_c(d, w.at, 2.0 / (double)w.span);
    m_result(d, 0, m_bin(d, HN_OP_MIN, up, m_c_sub(d, 2, up)));
}

/* --- from one number to another --- */

/* start + i * step in the first half, end - (steps - 1 - i) * step in the second, so that both ends
 * are exact */
static hn_value spaced(hn_dec *d, hn_dtype compute) {
    hn_value start = hn_dec_number(d, 0, compute), end = hn_dec_number(d, 1, compute);
    int64_t steps = hn_dec_int(d, 2);
    if (!m_require(d, steps >= 0 && steps <= INT32_MAX, "steps is out of range")) return 0;
    hn_value i = m_iota(d, e_int(d, steps), compute);
    hn_value step = m_div_c(d, m_sub(d, end, start), steps > 1 ? (double)(steps - 1) : 1);
    hn_value up = m_add(d, start, m_mul(d, step, i));
    if (steps <= 1) return up;
    hn_value down = m_sub(d, end, m_mul(d, step, m_c_sub(d, (double)(steps - 1), i)));
    return m_where(d, m_bin_c(d, HN_OP_LT, i, (double)(steps / 2)), up, down);
}

static hn_dtype spacing_dtype(hn_dec *d) {
    hn_dtype dtype = m_meta_dtype(d, 0);
    return hn_dtype_is_float(dtype) ? hn_dec_opmath(dtype) : HN_DTYPE_F64;
}

/* aten.linspace.Tensor_Tensor, .Tensor_Scalar, .Scalar_Tensor (start, end, steps) */
void hn_dec_linspace_tensor(hn_dec *d) { m_result(d, 0, spaced(d, spacing_dtype(d))); }

/* aten.logspace(start, end, steps, base) */
void hn_dec_logspace(hn_dec *d) {
    if (!m_require(d, hn_dtype_is_float(m_meta_dtype(d, 0)), "logspace of integers")) return;
    hn_value exponents = spaced(d, spacing_dtype(d));
    m_result(d, 0, m_bin(d, HN_OP_POW, m_c(d, exponents, hn_dec_float(d, 3)), exponents));
}

/* --- the trapezoid rule --- */

/* The neighbours along dim: all but the last (0), all but the first (1). None of an empty dim. */
static hn_value neighbours(hn_dec *d, hn_value x, uint32_t dim, int64_t which) {
    hn_expr have = m_size(d, x, dim), count = e_max0(d, e_addc(d, have, -1));
    hn_expr start = which ? hn_sym_min(d->g->sym, e_int(d, 1), have) : e_int(d, 0);
    return m_slice(d, x, dim, start, count);
}

/* Areas between neighbours; `x_arg`: the positions, or the constant distance where it is a number.
 */
static hn_value trapezoids(hn_dec *d, uint32_t *out_dim) {
    hn_dtype math = hn_dec_opmath(m_meta_dtype(d, 0));
    hn_value y = m_cast(d, hn_dec_tensor(d, 0), math);
    uint32_t rank = m_rank(d, y), dim = *out_dim = hn_dec_dim(d, 2, rank);
    if (!m_require(d, rank >= 1, "the trapezoid rule wants a dimension")) return 0;
    hn_value sums = m_add(d, neighbours(d, y, dim, 0), neighbours(d, y, dim, 1));
    const hn_arg *a = &d->node->args[1];
    if (a->kind != HN_ARG_VALUE) return m_mul_c(d, sums, hn_dec_float(d, 1) / 2);
    hn_value x = m_cast(d, hn_dec_tensor(d, 1), math);
    if (m_rank(d, x) == 1) x = m_along(d, x, dim, rank);
    while (x && m_rank(d, x) < rank) x = hn_b_unsqueeze(d->g, x, 0);
    if (!m_require(d, m_rank(d, x) == rank,
                   "the positions of a trapezoid rule have too many dimensions"))
        return 0;
    hn_value widths = m_sub(d, neighbours(d, x, dim, 1), neighbours(d, x, dim, 0));
    return m_mul_c(d, m_mul(d, widths, sums), 0.5);
}

/* aten.trapezoid, trapz .x(y, x, *, dim), .dx(y, *, dx, dim) */
void hn_dec_trapezoid(hn_dec *d) {
    uint32_t dim = 0;
    hn_value areas = trapezoids(d, &dim);
    m_result(d, 0, m_reduce1(d, HN_OP_SUM, areas, dim, false));
}

/* aten.cumulative_trapezoid.x, .dx */
void hn_dec_cumulative_trapezoid(hn_dec *d) {
    uint32_t dim = 0;
    hn_value areas = trapezoids(d, &dim);
    m_result(d, 0, hn_b_scan(d->g, HN_OP_CUMSUM, areas, dim, NULL));
}

/* --- the gradient of samples --- */

/* `count` elements along dim from `first` on; `first` < 0 counts from the end. */
static hn_value samples(hn_dec *d, hn_value x, uint32_t dim, int64_t first, hn_expr count) {
    hn_expr start = first < 0 ? e_addc(d, m_size(d, x, dim), first) : e_int(d, first);
    return m_slice(d, x, dim, start, count);
}

/* sum of w[k] * y[first + k] over the taps whose weight is not 0, where the weights are numbers. */
static hn_value fixed_taps(hn_dec *d, hn_value y, uint32_t dim, int64_t first, hn_expr count,
                           const double w[3]) {
    hn_value sum = 0;
    for (int k = 0; k < 3; k++) {
        if (w[k] == 0) continue;
        hn_value term = m_mul_c(d, samples(d, y, dim, first + k, count), fabs(w[k]));
        sum = !sum ? (w[k] < 0 ? m_neg(d, term) : term)
                   : m_bin(d, w[k] < 0 ? HN_OP_SUB : HN_OP_ADD, sum, term);
    }
    return sum;
}

/* Samples that are all h apart: central differences; at both ends a one-sided formula of the order
 * asked for. */
static hn_value even_gradient(hn_dec *d, hn_value y, uint32_t dim, double h, int64_t order) {
    static const double central[3] = {-0.5, 0, 0.5};
    static const double ends[2][2][3] = {{{-1, 1, 0}, {0, -1, 1}},
                                         {{-1.5, 2, -0.5}, {0.5, -2, 1.5}}};
    hn_expr one = e_int(d, 1), inner = e_addc(d, m_size(d, y, dim), -2);
    hn_value parts[3] = {
        fixed_taps(d, y, dim, 0, one, ends[order - 1][0]),
        fixed_taps(d, y, dim, 0, inner, central),
        fixed_taps(d, y, dim, -3, one, ends[order - 1][1]),
    };
    return m_div_c(d, hn_b_cat(d->g, parts, 3, dim), h);
}

/* Second-order weights at tap `at` of three samples, the first two `a` apart and the last two
 * `b`. */
static void uneven_weights(hn_dec *d, int at, hn_value a, hn_value b, hn_value w[3]) {
    hn_value sum = m_add(d, a, b), first = m_mul(d, a, sum), middle = m_mul(d, a, b),
             last = m_mul(d, b, sum);
    if (at == 0) w[0] = m_neg(d, m_add(d, a, sum)), w[1] = sum, w[2] = m_neg(d, a);
    if (at == 1) w[0] = m_neg(d, b), w[1] = m_sub(d, b, a), w[2] = a;
    if (at == 2) w[0] = b, w[1] = m_neg(d, sum), w[2] = m_add(d, b, sum);
    w[0] = m_div(d, w[0], first), w[1] = m_div(d, w[1], middle), w[2] = m_div(d, w[2], last);
}

static hn_value uneven_taps(hn_dec *d, hn_value y, uint32_t dim, int64_t first, hn_expr count,
                            const hn_value w[3]) {
    hn_value sum = 0;
    for (int k = 0; k < 3; k++) {
        hn_value term =
            m_mul(d, samples(d, y, dim, first + k, count), m_along(d, w[k], dim, m_rank(d, y)));
        sum = sum ? m_add(d, sum, term) : term;
    }
    return sum;
}

/* Samples at the positions `x`, rank 1. */
static hn_value uneven_gradient(hn_dec *d, hn_value y, uint32_t dim, hn_value x, int64_t order) {
    hn_expr one = e_int(d, 1), inner = e_addc(d, m_size(d, y, dim), -2);
    hn_value step = m_sub(d, neighbours(d, x, 0, 1), neighbours(d, x, 0, 0)), parts[3], w[3];
    for (int at = 0; at < 3; at++) {
        hn_expr count = at == 1 ? inner : one;
        int64_t first = at == 2 ? -3 : 0, step_at = at == 2 ? -2 : 0;
        if (at != 1 && order == 1) {
            hn_value rise = m_sub(d, samples(d, y, dim, at ? -1 : 1, one),
                                  samples(d, y, dim, at ? -2 : 0, one));
            parts[at] = m_div(d, rise,
                              m_along(d, samples(d, step, 0, at ? -1 : 0, one), dim, m_rank(d, y)));
            continue;
        }
        uneven_weights(d, at, samples(d, step, 0, step_at, count),
                       samples(d, step, 0, step_at + 1, count), w);
        parts[at] = uneven_taps(d, y, dim, first, count, w);
    }
    return hn_b_cat(d->g, parts, 3, dim);
}

/* The dimension of result k: `dim` of the overloads where it is one number or None, else element k
 * of it. */
static uint32_t gradient_dim(hn_dec *d, uint32_t arg, uint32_t k, uint32_t rank) {
    hn_expr dims[HN_MAX_RANK];
    int64_t dim = k;
    uint32_t count = hn_dec_has(d, arg) ? hn_dec_exprs(d, arg, dims) : 0;
    if (k < count && !m_require(d, e_const(d, dims[k], &dim), "a symbolic dimension")) return 0;
    if (dim < 0) dim += rank;
    return m_require(d, dim >= 0 && dim < rank, "a dimension that the tensor does not have")
               ? (uint32_t)dim
               : 0;
}

/* aten.gradient(self, *, spacing, dim, edge_order): `spacing` is a number, numbers, or positions;
 * `without`: is left out */
static void gradient(hn_dec *d, bool without, bool positions) {
    uint32_t dim_arg = without ? 1 : 2;
    int64_t order = hn_dec_int(d, dim_arg + 1);
    hn_value y = m_cast(d, hn_dec_tensor(d, 0), hn_dec_opmath(m_meta_dtype(d, 0)));
    const hn_value *x = NULL;
    const double *list = NULL;
    bool one = !without && !positions && d->node->args[1].kind != HN_ARG_FLOATS &&
               d->node->args[1].kind != HN_ARG_INTS;
    uint32_t rank = m_rank(d, y), given = 0;
    if (!m_require(d, order == 1 || order == 2, "the edges of a gradient are of order 1 or 2"))
        return;
    if (positions) given = hn_dec_tensors(d, 1, &x);
    if (!one && !without && !positions) given = hn_dec_floats(d, 1, &list);
    double h = one && hn_dec_has(d, 1) ? hn_dec_float(d, 1) : 1;
    for (uint32_t k = 0; k < d->node->result_count; k++) {
        if (!m_wants(d, k)) continue;
        if (!m_require(d, one || without || k < given, "fewer distances than dimensions")) return;
        uint32_t dim = gradient_dim(d, dim_arg, k, rank);
        int64_t size;
        if (!m_require(d, !e_const(d, m_size(d, y, dim), &size) || size > order,
                       "too few samples for a gradient"))
            return;
        if (positions)
            m_result(d, k, uneven_gradient(d, y, dim, m_cast(d, x[k], m_dtype(d, y)), order));
        else m_result(d, k, even_gradient(d, y, dim, list ? list[k] : h, order));
    }
}
void hn_dec_gradient(hn_dec *d) { gradient(d, false, false); }
void hn_dec_gradient_array(hn_dec *d) { gradient(d, true, false); }
void hn_dec_gradient_tensors(hn_dec *d) { gradient(d, false, true); }
