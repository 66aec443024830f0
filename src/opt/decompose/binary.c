/* binary.c: point-wise arithmetic of two or three tensors, and powers. Overloads that take
 * numbers share the functions: hn_dec_operands reads either. */
#include "opt/decompose/math.h"
#include "opt/decompose/operands.h"

#include <math.h>

static void binary(hn_dec *d, hn_op op, unsigned flags) {
    hn_operands o = hn_dec_first_operands(d, 2, flags);
    hn_dec_finish(d, 0, m_bin(d, op, o.v[0], o.v[1]), &o);
}

/* --- sums and products --- */

static bool is_one(const hn_dec *d, uint32_t arg) {
    double value = 0;
    return !hn_dec_has(d, arg) || (hn_dec_known_number(d, arg, &value) && value == 1);
}

/* x OP alpha * y, alpha at position 2; `swap`: y OP alpha * x */
static void scaled_sum(hn_dec *d, hn_op op, bool swap) {
    bool plain = is_one(d, 2);
    hn_operands o =
        hn_dec_first_operands(d, 2, plain ? HN_OPERANDS_WIDE_NUMBERS : HN_OPERANDS_COMPOSITE);
    hn_value x = o.v[swap ? 1 : 0], y = o.v[swap ? 0 : 1];
    if (!plain) y = m_mul(d, y, hn_dec_number(d, 2, o.compute));
    hn_dec_finish(d, 0, m_bin(d, op, x, y), &o);
}
void hn_dec_add(hn_dec *d) { scaled_sum(d, HN_OP_ADD, false); }
void hn_dec_sub(hn_dec *d) { scaled_sum(d, HN_OP_SUB, false); }
void hn_dec_rsub(hn_dec *d) { scaled_sum(d, HN_OP_SUB, true); }
void hn_dec_mul(hn_dec *d) { binary(d, HN_OP_MUL, HN_OPERANDS_WIDE_NUMBERS); }

/* self + value * tensor1 OP tensor2, from left to right */
static void scaled_product(hn_dec *d, hn_op op) {
    hn_operands o = hn_dec_first_operands(d, 3, HN_OPERANDS_COMPOSITE);
    hn_value y = o.v[1];
    if (!is_one(d, 3)) y = m_mul(d, hn_dec_number(d, 3, o.compute), y);
    hn_dec_finish(d, 0, m_add(d, o.v[0], m_bin(d, op, y, o.v[2])), &o);
}
void hn_dec_addcmul(hn_dec *d) { scaled_product(d, HN_OP_MUL); }
void hn_dec_addcdiv(hn_dec *d) { scaled_product(d, HN_OP_DIV); }

/* self + w (end - self) from the nearer side, so that w = 1 gives `end` exactly */
void hn_dec_lerp(hn_dec *d) {
    hn_operands o = hn_dec_first_operands(d, 2, HN_OPERANDS_COMPOSITE);
    hn_value span = m_sub(d, o.v[1], o.v[0]);
    hn_value w = hn_dec_is_number(d, 2) ? hn_dec_number(d, 2, o.compute)
                                        : m_cast(d, hn_dec_tensor(d, 2), o.compute);
    hn_value near_self = m_add(d, o.v[0], m_mul(d, w, span));
    hn_value near_end = m_sub(d, o.v[1], m_mul(d, span, m_c_sub(d, 1, w)));
    double known = 0;
    if (hn_dec_known_number(d, 2, &known))
        hn_dec_finish(d, 0, fabs(known) < 0.5 ? near_self : near_end, &o);
    else
        hn_dec_finish(d, 0, m_where(d, m_bin_c(d, HN_OP_LT, m_abs(d, w), 0.5), near_self, near_end),
                      &o);
}

/* --- quotients --- */

static void true_div(hn_dec *d) {
    binary(d, HN_OP_DIV, HN_OPERANDS_TO_FLOAT | HN_OPERANDS_WIDE_NUMBERS);
}

static void trunc_div(hn_dec *d) {
    hn_operands o = hn_dec_first_operands(d, 2, HN_OPERANDS_COMPOSITE);
    hn_value q = m_div(d, o.v[0], o.v[1]);
    hn_dec_finish(d, 0, hn_dtype_is_float(o.compute) ? m_un(d, HN_OP_TRUNC, q) : q, &o);
}

static void floor_div(hn_dec *d) { binary(d, HN_OP_FLOORDIV, HN_OPERANDS_WIDE_NUMBERS); }

/* rounding_mode at position 2 of the _mode overloads */
void hn_dec_div(hn_dec *d) {
    hn_str mode = hn_dec_string(d, 2);
    if (hn_str_eq(mode, HN_STR("trunc"))) trunc_div(d);
    else if (hn_str_eq(mode, HN_STR("floor"))) floor_div(d);
    else if (mode.len == 0) true_div(d);
    else hn_dec_unsupported(d, "unknown rounding_mode");
}
void hn_dec_floor_divide(hn_dec *d) { floor_div(d); }
void hn_dec_remainder(hn_dec *d) { binary(d, HN_OP_REMAINDER, HN_OPERANDS_PLAIN); }
void hn_dec_fmod(hn_dec *d) { binary(d, HN_OP_FMOD, HN_OPERANDS_PLAIN); }

/* --- extrema and others --- */

void hn_dec_maximum(hn_dec *d) { binary(d, HN_OP_MAX, HN_OPERANDS_PLAIN); }
void hn_dec_minimum(hn_dec *d) { binary(d, HN_OP_MIN, HN_OPERANDS_PLAIN); }

/* Ints have no NaN to ignore. */
static void nan_ignoring(hn_dec *d, hn_op float_op, hn_op int_op) {
    hn_operands o = hn_dec_first_operands(d, 2, HN_OPERANDS_PLAIN);
    hn_dec_finish(d, 0, m_bin(d, hn_dtype_is_float(o.compute) ? float_op : int_op, o.v[0], o.v[1]),
                  &o);
}
void hn_dec_fmax(hn_dec *d) { nan_ignoring(d, HN_OP_FMAX, HN_OP_MAX); }
void hn_dec_fmin(hn_dec *d) { nan_ignoring(d, HN_OP_FMIN, HN_OP_MIN); }

void hn_dec_atan2(hn_dec *d) { binary(d, HN_OP_ATAN2, HN_OPERANDS_TO_FLOAT); }
void hn_dec_hypot(hn_dec *d) { binary(d, HN_OP_HYPOT, HN_OPERANDS_PLAIN); }
void hn_dec_copysign(hn_dec *d) { binary(d, HN_OP_COPYSIGN, HN_OPERANDS_TO_FLOAT); }

/* max + log1p(exp(-|x - y|)); two equal infinities have no difference */
static void log_sum(hn_dec *d, hn_op exp_op, double log_factor) {
    hn_operands o = hn_dec_first_operands(d, 2, HN_OPERANDS_COMPOSITE);
    hn_value x = o.v[0], y = o.v[1], gap = m_abs(d, m_sub(d, x, y));
    hn_value tail = m_un(d, HN_OP_LOG1P, m_un(d, exp_op, m_neg(d, gap)));
    if (log_factor != 1) tail = m_mul_c(d, tail, log_factor);
    hn_value sum = m_add(d, m_bin(d, HN_OP_MAX, x, y), tail);
    hn_value same_inf = m_and(d, m_un(d, HN_OP_ISINF, x), m_bin(d, HN_OP_EQ, x, y));
    hn_dec_finish(d, 0, m_where(d, same_inf, x, sum), &o);
}
void hn_dec_logaddexp(hn_dec *d) { log_sum(d, HN_OP_EXP, 1); }
void hn_dec_logaddexp2(hn_dec *d) { log_sum(d, HN_OP_EXP2, M_LOG2E); }

/* x log y with 0 log y = 0, unless y is NaN */
void hn_dec_xlogy(hn_dec *d) {
    hn_operands o = hn_dec_first_operands(d, 2, HN_OPERANDS_TO_FLOAT | HN_OPERANDS_COMPOSITE);
    hn_value x = o.v[0], y = o.v[1];
    hn_value v = m_where(d, m_bin_c(d, HN_OP_EQ, x, 0), m_c(d, x, 0), m_mul(d, x, m_log(d, y)));
    hn_dec_finish(d, 0, m_where(d, m_un(d, HN_OP_ISNAN, y), m_c(d, y, NAN), v), &o);
}

/* 0 for x < 0 and NaN, values for x = 0, 1 above */
void hn_dec_heaviside(hn_dec *d) {
    hn_operands o = hn_dec_first_operands(d, 2, HN_OPERANDS_PLAIN);
    hn_value x = o.v[0], step = m_cast(d, m_bin_c(d, HN_OP_GT, x, 0), o.compute);
    hn_dec_finish(d, 0, m_where(d, m_bin_c(d, HN_OP_EQ, x, 0), o.v[1], step), &o);
}

/* --- powers --- */

/* The exponents that eager PyTorch computes by other means than pow; 0: none of them. */
static hn_value easy_power(hn_dec *d, hn_value x, double exponent) {
    bool is_float = hn_dtype_is_float(m_dtype(d, x));
    if (exponent == 1) return x;
    if (exponent == 2) return m_square(d, x);
    if (exponent == 3) return m_mul(d, m_square(d, x), x);
    if (!is_float) return 0;
    if (exponent == 0.5) return m_un(d, HN_OP_SQRT, x);
    if (exponent == -0.5) return m_un(d, HN_OP_RSQRT, x);
    if (exponent == -1) return m_un(d, HN_OP_RECIPROCAL, x);
    if (exponent == -2) return m_un(d, HN_OP_RECIPROCAL, m_square(d, x));
    return 0;
}

static void power_of_number(hn_dec *d, const hn_operands *o, double exponent) {
    hn_value x = o->v[0];
    if (exponent == 0) {
        m_shape_t shape = m_shape(d, x);
        hn_dec_finish(d, 0, m_full(d, &shape, 1, o->compute), o);
        return;
    }
    if (!hn_dtype_is_float(o->compute) && exponent < 0) {
        hn_dec_unsupported(d, "integers to negative integer powers are not allowed");
        return;
    }
    hn_value easy = easy_power(d, x, exponent);
    hn_dec_finish(d, 0, easy ? easy : m_bin(d, HN_OP_POW, x, o->v[1]), o);
}

/* Ints: x^-n is 1 or -1 for x = 1, -1 and else 0; the primitive wants exponents >= 0. */
static hn_value int_power(hn_dec *d, hn_value x, hn_value y) {
    hn_value power = m_bin(d, HN_OP_POW, x, m_max_c(d, y, 0));
    hn_value odd = m_bin_c(d, HN_OP_AND, y, 1), sign = m_c_sub(d, 1, m_mul_c(d, odd, 2));
    hn_value unit = m_where(d, m_bin_c(d, HN_OP_EQ, x, -1), sign,
                            m_cast(d, m_bin_c(d, HN_OP_EQ, x, 1), m_dtype(d, x)));
    return m_where(d, m_bin_c(d, HN_OP_LT, y, 0), unit, power);
}

static hn_value general_power(hn_dec *d, const hn_operands *o) {
    bool is_signed = hn_dtype_is_int(o->compute) && o->compute != HN_DTYPE_U8;
    return is_signed ? int_power(d, o->v[0], o->v[1]) : m_bin(d, HN_OP_POW, o->v[0], o->v[1]);
}

static void power(hn_dec *d, const hn_operands *o) {
    double known = 0;
    if (hn_dec_known_number(d, 1, &known)) {
        power_of_number(d, o, known);
        return;
    }
    if (o->common == HN_DTYPE_BOOL) { /* x^y = x or not y */
        hn_dec_finish(d, 0, m_bin(d, HN_OP_OR, o->v[0], m_un(d, HN_OP_NOT, o->v[1])), o);
        return;
    }
    hn_dec_finish(d, 0, general_power(d, o), o);
}

void hn_dec_pow(hn_dec *d) {
    hn_operands o = hn_dec_first_operands(d, 2, HN_OPERANDS_COMPOSITE);
    power(d, &o);
}

void hn_dec_float_power(hn_dec *d) {
    hn_operands o = hn_dec_first_operands(d, 2, HN_OPERANDS_PLAIN);
    o.v[0] = hn_dec_is_number(d, 0) ? hn_dec_number(d, 0, HN_DTYPE_F64)
                                    : m_cast(d, o.v[0], HN_DTYPE_F64);
    o.v[1] = hn_dec_is_number(d, 1) ? hn_dec_number(d, 1, HN_DTYPE_F64)
                                    : m_cast(d, o.v[1], HN_DTYPE_F64);
    o.common = o.compute = HN_DTYPE_F64;
    power(d, &o);
}

/* --- bits --- */

void hn_dec_bitwise_and(hn_dec *d) { binary(d, HN_OP_AND, HN_OPERANDS_PLAIN); }
void hn_dec_bitwise_or(hn_dec *d) { binary(d, HN_OP_OR, HN_OPERANDS_PLAIN); }
void hn_dec_bitwise_xor(hn_dec *d) { binary(d, HN_OP_XOR, HN_OPERANDS_PLAIN); }

/* A shift by a negative amount or by all the bits: left gives 0, right the sign. */
static void shift(hn_dec *d, hn_op op) {
    hn_operands o = hn_dec_first_operands(d, 2, HN_OPERANDS_PLAIN);
    if (!hn_dtype_is_int(o.compute)) {
        hn_dec_unsupported(d, "a shift of a tensor that is not an integer");
        return;
    }
    int bits = 8 * hn_dtype_facts(o.compute)->size_bytes;
    double known = 0;
    if (hn_dec_known_number(d, 1, &known) && known >= 0 && known < bits) {
        hn_dec_finish(d, 0, m_bin(d, op, o.v[0], o.v[1]), &o);
        return;
    }
    hn_value x = o.v[0], amount = o.v[1];
    hn_value inside = m_and(d, m_bin_c(d, HN_OP_GE, amount, 0), m_bin_c(d, HN_OP_LT, amount, bits));
    hn_value shifted = m_bin(d, op, x, m_where(d, inside, amount, m_c(d, amount, 0)));
    hn_value outside = op == HN_OP_SHL ? m_c(d, x, 0) : m_bin_c(d, HN_OP_SHR, x, bits - 1);
    if (o.compute == HN_DTYPE_U8) outside = m_c(d, x, 0);
    hn_dec_finish(d, 0, m_where(d, inside, shifted, outside), &o);
}
void hn_dec_bitwise_left_shift(hn_dec *d) { shift(d, HN_OP_SHL); }
void hn_dec_bitwise_right_shift(hn_dec *d) { shift(d, HN_OP_SHR); }
