/* unary.c: point-wise functions of one tensor, activations excepted. Source of the formulas:
 * PyTorch's operator documentation and its results on edge values (tests/ops/cases/unary.txt). */
#include "opt/decompose/math.h"
#include "opt/decompose/operands.h"

#include "base/compiler.h"

#include <float.h>
#include <math.h>

/* The result has the operand's dtype. */
static void same(hn_dec *d, hn_op op) { hn_dec_result(d, 0, m_un(d, op, hn_dec_tensor(d, 0))); }

/* Ints and bools become floats first. */
static void to_float(hn_dec *d, hn_op op) {
    hn_operands x = hn_dec_first_operands(d, 1, HN_OPERANDS_TO_FLOAT);
    hn_dec_result(d, 0, m_un(d, op, x.v[0]));
}

/* Rounding leaves ints as they are. */
static void rounding(hn_dec *d, hn_op op) {
    hn_value x = hn_dec_tensor(d, 0);
    hn_dec_result(d, 0, hn_dtype_is_float(m_dtype(d, x)) ? m_un(d, op, x) : x);
}

static hn_value full_like(hn_dec *d, hn_value x, double value, hn_dtype dtype) {
    m_shape_t shape = m_shape(d, x);
    return m_full(d, &shape, value, dtype);
}

void hn_dec_neg(hn_dec *d) { same(d, HN_OP_NEG); }
void hn_dec_floor(hn_dec *d) { rounding(d, HN_OP_FLOOR); }
void hn_dec_ceil(hn_dec *d) { rounding(d, HN_OP_CEIL); }
void hn_dec_trunc(hn_dec *d) { rounding(d, HN_OP_TRUNC); }
void hn_dec_round(hn_dec *d) { rounding(d, HN_OP_ROUND); }
void hn_dec_bitwise_not(hn_dec *d) { same(d, HN_OP_NOT); }
void hn_dec_sqrt(hn_dec *d) { to_float(d, HN_OP_SQRT); }
void hn_dec_rsqrt(hn_dec *d) { to_float(d, HN_OP_RSQRT); }
void hn_dec_reciprocal(hn_dec *d) { to_float(d, HN_OP_RECIPROCAL); }
void hn_dec_exp(hn_dec *d) { to_float(d, HN_OP_EXP); }
void hn_dec_exp2(hn_dec *d) { to_float(d, HN_OP_EXP2); }
void hn_dec_expm1(hn_dec *d) { to_float(d, HN_OP_EXPM1); }
void hn_dec_log(hn_dec *d) { to_float(d, HN_OP_LOG); }
void hn_dec_log2(hn_dec *d) { to_float(d, HN_OP_LOG2); }
void hn_dec_log10(hn_dec *d) { to_float(d, HN_OP_LOG10); }
void hn_dec_log1p(hn_dec *d) { to_float(d, HN_OP_LOG1P); }
void hn_dec_sin(hn_dec *d) { to_float(d, HN_OP_SIN); }
void hn_dec_cos(hn_dec *d) { to_float(d, HN_OP_COS); }
void hn_dec_tan(hn_dec *d) { to_float(d, HN_OP_TAN); }
void hn_dec_asin(hn_dec *d) { to_float(d, HN_OP_ASIN); }
void hn_dec_acos(hn_dec *d) { to_float(d, HN_OP_ACOS); }
void hn_dec_atan(hn_dec *d) { to_float(d, HN_OP_ATAN); }
void hn_dec_sinh(hn_dec *d) { to_float(d, HN_OP_SINH); }
void hn_dec_cosh(hn_dec *d) { to_float(d, HN_OP_COSH); }
void hn_dec_tanh(hn_dec *d) { to_float(d, HN_OP_TANH); }
void hn_dec_asinh(hn_dec *d) { to_float(d, HN_OP_ASINH); }
void hn_dec_acosh(hn_dec *d) { to_float(d, HN_OP_ACOSH); }
void hn_dec_atanh(hn_dec *d) { to_float(d, HN_OP_ATANH); }
void hn_dec_erf(hn_dec *d) { to_float(d, HN_OP_ERF); }
void hn_dec_erfc(hn_dec *d) { to_float(d, HN_OP_ERFC); }
void hn_dec_erfinv(hn_dec *d) { to_float(d, HN_OP_ERFINV); }
void hn_dec_lgamma(hn_dec *d) { to_float(d, HN_OP_LGAMMA); }
void hn_dec_digamma(hn_dec *d) { to_float(d, HN_OP_DIGAMMA); }
void hn_dec_sigmoid(hn_dec *d) { to_float(d, HN_OP_SIGMOID); }

/* |x| and sign of a bool are the bool. */
static void same_but_bool(hn_dec *d, hn_op op) {
    hn_value x = hn_dec_tensor(d, 0);
    hn_dec_result(d, 0, m_dtype(d, x) == HN_DTYPE_BOOL ? x : m_un(d, op, x));
}
void hn_dec_abs(hn_dec *d) { same_but_bool(d, HN_OP_ABS); }
void hn_dec_sign(hn_dec *d) { same_but_bool(d, HN_OP_SIGN); }

/* pow(x, 2), which makes a bool an int */
void hn_dec_square(hn_dec *d) {
    hn_value x = hn_dec_tensor(d, 0);
    if (m_dtype(d, x) == HN_DTYPE_BOOL) x = m_cast(d, x, HN_DTYPE_I64);
    hn_dec_result(d, 0, m_square(d, x));
}

void hn_dec_frac(hn_dec *d) {
    hn_operands x = hn_dec_first_operands(d, 1, HN_OPERANDS_COMPOSITE);
    hn_dec_finish(d, 0, m_sub(d, x.v[0], m_un(d, HN_OP_TRUNC, x.v[0])), &x);
}

static void scaled(hn_dec *d, double factor) {
    hn_operands x = hn_dec_first_operands(d, 1, HN_OPERANDS_TO_FLOAT | HN_OPERANDS_COMPOSITE);
    hn_dec_finish(d, 0, m_mul_c(d, x.v[0], factor), &x);
}
void hn_dec_deg2rad(hn_dec *d) { scaled(d, M_PI / 180); }
void hn_dec_rad2deg(hn_dec *d) { scaled(d, 180 / M_PI); }

/* log(x / (1 - x)), x clamped to [eps, 1 - eps] when eps is given; below eps it is eps even where 1
 * - eps is less. A negative eps is none. */
void hn_dec_logit(hn_dec *d) {
    hn_operands x = hn_dec_first_operands(d, 1, HN_OPERANDS_TO_FLOAT | HN_OPERANDS_COMPOSITE);
    hn_value p = x.v[0];
    if (hn_dec_has(d, 1) && hn_dec_float(d, 1) >= 0) {
        hn_value lo = m_cast(d, hn_dec_const(d, hn_dec_float(d, 1), x.common), x.compute);
        hn_value hi = m_cast(d, hn_dec_const(d, 1 - hn_dec_float(d, 1), x.common), x.compute);
        p = m_where(d, m_bin(d, HN_OP_LT, p, lo), lo, m_bin(d, HN_OP_MIN, p, hi));
    }
    hn_dec_finish(d, 0, m_log(d, m_div(d, p, m_c_sub(d, 1, p))), &x);
}

/* the standard normal distribution function */
void hn_dec_ndtr(hn_dec *d) {
    hn_operands x = hn_dec_first_operands(d, 1, HN_OPERANDS_TO_FLOAT | HN_OPERANDS_COMPOSITE);
    hn_dec_finish(d, 0, m_mul_c(d, m_un(d, HN_OP_ERFC, m_mul_c(d, x.v[0], -M_SQRT1_2)), 0.5), &x);
}

/* -x log(x), 0 at 0, -inf below */
void hn_dec_entr(hn_dec *d) {
    hn_operands x = hn_dec_first_operands(d, 1, HN_OPERANDS_TO_FLOAT | HN_OPERANDS_COMPOSITE);
    hn_value v = x.v[0], entropy = m_neg(d, m_mul(d, v, m_log(d, v)));
    hn_value at_most_0 = m_where(d, m_bin_c(d, HN_OP_EQ, v, 0), m_c(d, v, 0), m_c(d, v, -INFINITY));
    hn_dec_finish(d, 0, m_where(d, m_bin_c(d, HN_OP_LE, v, 0), at_most_0, entropy), &x);
}

/* sin(pi x) / (pi x), 1 at 0 */
void hn_dec_sinc(hn_dec *d) {
    hn_operands x = hn_dec_first_operands(d, 1, HN_OPERANDS_TO_FLOAT | HN_OPERANDS_COMPOSITE);
    hn_value scaled_x = m_mul_c(d, x.v[0], M_PI),
             wave = m_div(d, m_un(d, HN_OP_SIN, scaled_x), scaled_x);
    hn_dec_finish(d, 0, m_where(d, m_bin_c(d, HN_OP_EQ, x.v[0], 0), m_c(d, wave, 1), wave), &x);
}

/* aten.round.decimals(self, *, decimals) */
void hn_dec_round_decimals(hn_dec *d) {
    hn_operands x = hn_dec_first_operands(d, 1, HN_OPERANDS_COMPOSITE);
    int64_t decimals = hn_dec_int(d, 1);
    if (decimals == 0 || !hn_dtype_is_float(x.compute)) {
        bool is_float = hn_dtype_is_float(x.compute);
        hn_dec_finish(d, 0, is_float ? m_un(d, HN_OP_ROUND, x.v[0]) : x.v[0], &x);
        return;
    }
    double ten = pow(10, fabs((double)decimals));
    hn_op scale = decimals > 0 ? HN_OP_MUL : HN_OP_DIV, back = decimals > 0 ? HN_OP_DIV : HN_OP_MUL;
    hn_dec_finish(d, 0, m_bin_c(d, back, m_un(d, HN_OP_ROUND, m_bin_c(d, scale, x.v[0], ten)), ten),
                  &x);
}

/* aten.mvlgamma(self, p): the logarithm of the multivariate gamma function */
void hn_dec_mvlgamma(hn_dec *d) {
    hn_operands x = hn_dec_first_operands(d, 1, HN_OPERANDS_TO_FLOAT | HN_OPERANDS_COMPOSITE);
    int64_t p = hn_dec_int(d, 1);
    if (!m_require(d, p >= 1 && p <= 256, "mvlgamma wants a p of 1 to 256")) return;
    hn_value sum = 0;
    for (int64_t k = 0; k < p; k++) {
        hn_value term = m_un(d, HN_OP_LGAMMA, m_add_c(d, x.v[0], -0.5 * (double)k));
        sum = sum ? m_add(d, sum, term) : term;
    }
    hn_dec_finish(d, 0, m_add_c(d, sum, (double)(p * (p - 1)) / 4 * log(M_PI)), &x);
}

/* --- predicates --- */

/* `when_int` is the answer for ints and bools, which are always finite. */
static void float_predicate(hn_dec *d, hn_op op, double when_int) {
    hn_value x = hn_dec_tensor(d, 0);
    bool is_float = hn_dtype_is_float(m_dtype(d, x));
    hn_dec_result(d, 0, is_float ? m_un(d, op, x) : full_like(d, x, when_int, HN_DTYPE_BOOL));
}
void hn_dec_isnan(hn_dec *d) { float_predicate(d, HN_OP_ISNAN, 0); }
void hn_dec_isinf(hn_dec *d) { float_predicate(d, HN_OP_ISINF, 0); }

static void equals_inf(hn_dec *d, double inf) {
    hn_value x = hn_dec_tensor(d, 0);
    bool is_float = hn_dtype_is_float(m_dtype(d, x));
    hn_dec_result(d, 0,
                  is_float ? m_bin_c(d, HN_OP_EQ, x, inf) : full_like(d, x, 0, HN_DTYPE_BOOL));
}
void hn_dec_isposinf(hn_dec *d) { equals_inf(d, INFINITY); }
void hn_dec_isneginf(hn_dec *d) { equals_inf(d, -INFINITY); }

void hn_dec_isfinite(hn_dec *d) {
    hn_value x = hn_dec_tensor(d, 0);
    if (!hn_dtype_is_float(m_dtype(d, x))) {
        hn_dec_result(d, 0, full_like(d, x, 1, HN_DTYPE_BOOL));
        return;
    }
    /* false for NaN: every comparison with it but != is */
    hn_dec_result(d, 0, m_bin_c(d, HN_OP_LT, m_abs(d, x), INFINITY));
}

/* The sign bit, that of -0 and NaN too. */
void hn_dec_signbit(hn_dec *d) {
    hn_value x = hn_dec_tensor(d, 0);
    hn_dtype dtype = m_dtype(d, x);
    if (dtype == HN_DTYPE_BOOL) {
        hn_dec_result(d, 0, full_like(d, x, 0, HN_DTYPE_BOOL));
        return;
    }
    if (hn_dtype_is_float(dtype)) x = m_bin(d, HN_OP_COPYSIGN, m_c(d, x, 1), x);
    hn_dec_result(d, 0, m_bin_c(d, HN_OP_LT, x, 0));
}

static double greatest_finite(hn_dtype dtype) {
    switch (dtype) {
    case HN_DTYPE_F64: return DBL_MAX;
    case HN_DTYPE_F16: return 65504;
    case HN_DTYPE_BF16: return 0x1.fep+127;
    case HN_DTYPE_F32:
    default: return (double)FLT_MAX;
    }
}

void hn_dec_nan_to_num(hn_dec *d) {
    hn_value x = hn_dec_tensor(d, 0);
    hn_dtype dtype = m_dtype(d, x);
    if (!hn_dtype_is_float(dtype)) {
        hn_dec_result(d, 0, x);
        return;
    }
    double limit = greatest_finite(dtype);
    double nan = hn_dec_has(d, 1) ? hn_dec_float(d, 1) : 0;
    double posinf = hn_dec_has(d, 2) ? hn_dec_float(d, 2) : limit,
           neginf = hn_dec_has(d, 3) ? hn_dec_float(d, 3) : -limit;
    hn_value y = m_where(d, m_bin_c(d, HN_OP_EQ, x, INFINITY), m_c(d, x, posinf), x);
    y = m_where(d, m_bin_c(d, HN_OP_EQ, x, -INFINITY), m_c(d, x, neginf), y);
    hn_dec_result(d, 0, m_where(d, m_un(d, HN_OP_ISNAN, x), m_c(d, x, nan), y));
}
