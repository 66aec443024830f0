/* compare.c: comparisons, logic, where, clamp and masks. */
#include "opt/decompose/math.h"
#include "opt/decompose/operands.h"

#include <math.h>

static void compare(hn_dec *d, hn_op op) {
    hn_operands o = hn_dec_first_operands(d, 2, HN_OPERANDS_PLAIN);
    hn_dec_result(d, 0, m_bin(d, op, o.v[0], o.v[1]));
}
void hn_dec_eq(hn_dec *d) { compare(d, HN_OP_EQ); }
void hn_dec_ne(hn_dec *d) { compare(d, HN_OP_NE); }
void hn_dec_lt(hn_dec *d) { compare(d, HN_OP_LT); }
void hn_dec_le(hn_dec *d) { compare(d, HN_OP_LE); }
void hn_dec_gt(hn_dec *d) { compare(d, HN_OP_GT); }
void hn_dec_ge(hn_dec *d) { compare(d, HN_OP_GE); }

/* x, which holds a step of eager PyTorch's arithmetic, rounded to the dtype of its tensors. */
static hn_value rounded(hn_dec *d, hn_value x, hn_dtype dtype) {
    return m_cast(d, m_cast(d, x, dtype), m_dtype(d, x));
}

/* |x - y| <= atol + |rtol y|, or equal (infinities), or both NaN when asked; ints compare as f32.
 * Every step rounds to the operands' dtype as in eager PyTorch, since a yes or no cannot be a
 * little off. */
void hn_dec_isclose(hn_dec *d) {
    hn_operands o = hn_dec_first_operands(d, 2, HN_OPERANDS_COMPOSITE);
    hn_value x = o.v[0], y = o.v[1], close = m_bin(d, HN_OP_EQ, x, y);
    bool is_float = hn_dtype_is_float(o.compute);
    double rtol = hn_dec_float(d, 2), atol = hn_dec_float(d, 3);
    if (is_float && hn_dec_bool(d, 4))
        close = m_or(d, close, m_and(d, m_un(d, HN_OP_ISNAN, x), m_un(d, HN_OP_ISNAN, y)));
    if (rtol != 0 || atol != 0) {
        if (!is_float) x = m_cast(d, x, HN_DTYPE_F32), y = m_cast(d, y, HN_DTYPE_F32);
        hn_dtype dtype = is_float ? o.common : HN_DTYPE_F32;
        hn_value error = rounded(d, m_abs(d, m_sub(d, x, y)), dtype);
        hn_value share = rounded(d, m_abs(d, m_mul_c(d, y, rtol)), dtype),
                 least = rounded(d, m_c(d, y, atol), dtype);
        hn_value allowed = rounded(d, m_add(d, share, least), dtype);
        hn_value finite = m_bin_c(d, HN_OP_LT, error, INFINITY);
        close = m_or(d, close, m_and(d, finite, m_bin(d, HN_OP_LE, error, allowed)));
    }
    hn_dec_result(d, 0, close);
}

/* --- logic --- */

static hn_value as_bool(hn_dec *d, uint32_t arg) {
    return m_cast(d, hn_dec_tensor(d, arg), HN_DTYPE_BOOL);
}

static void logical(hn_dec *d, hn_op op) {
    hn_dec_result(d, 0, m_bin(d, op, as_bool(d, 0), as_bool(d, 1)));
}
void hn_dec_logical_and(hn_dec *d) { logical(d, HN_OP_AND); }
void hn_dec_logical_or(hn_dec *d) { logical(d, HN_OP_OR); }
void hn_dec_logical_xor(hn_dec *d) { logical(d, HN_OP_XOR); }
void hn_dec_logical_not(hn_dec *d) { hn_dec_result(d, 0, m_un(d, HN_OP_NOT, as_bool(d, 0))); }

/* --- choices --- */

void hn_dec_where(hn_dec *d) {
    static const uint32_t args[2] = {1, 2};
    hn_operands o = hn_dec_operands(d, args, 2, HN_OPERANDS_PLAIN);
    hn_dec_finish(d, 0, m_where(d, as_bool(d, 0), o.v[0], o.v[1]), &o);
}

/* The result has self's dtype: the value is cast to it. */
void hn_dec_masked_fill(hn_dec *d) {
    hn_value x = hn_dec_tensor(d, 0);
    hn_dec_result(d, 0, m_where(d, as_bool(d, 1), hn_dec_number(d, 2, m_dtype(d, x)), x));
}

/* --- clamps: min(max(x, lo), hi), so that hi wins when lo > hi --- */

static void clamp_between(hn_dec *d, uint32_t lo, uint32_t hi) {
    const uint32_t args[3] = {0, lo, hi};
    hn_operands o = hn_dec_operands(d, args, 3, HN_OPERANDS_PLAIN);
    hn_value x = o.v[0];
    if (o.v[1]) x = m_bin(d, HN_OP_MAX, x, o.v[1]);
    if (o.v[2]) x = m_bin(d, HN_OP_MIN, x, o.v[2]);
    hn_dec_finish(d, 0, x, &o);
}
enum { NO_ARG = 1000 }; /* past every argument list: reads as None */
void hn_dec_clamp(hn_dec *d) { clamp_between(d, 1, 2); }
void hn_dec_clamp_min(hn_dec *d) { clamp_between(d, 1, NO_ARG); }
void hn_dec_clamp_max(hn_dec *d) { clamp_between(d, NO_ARG, 1); }

/* aten.isin(elements, test_elements, *, assume_unique, invert): compared with each test element */
void hn_dec_isin(hn_dec *d) {
    hn_operands o = hn_dec_first_operands(d, 2, HN_OPERANDS_PLAIN);
    uint32_t rank = m_rank(d, o.v[0]);
    if (!o.v[1] || !m_require(d, rank < HN_MAX_RANK, "isin of a tensor of 16 dimensions")) return;
    hn_expr numel = hn_numel(d->g, o.v[1]);
    hn_value test = m_reshape(d, o.v[1], &numel, 1), each = hn_b_unsqueeze(d->g, o.v[0], rank);
    hn_value found = m_reduce1(d, HN_OP_ANY, m_bin(d, HN_OP_EQ, each, test), rank, false);
    hn_dec_result(d, 0, hn_dec_bool(d, 3) ? m_un(d, HN_OP_NOT, found) : found);
}
