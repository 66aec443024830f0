/* bits.c: what looks into the bits of numbers: views in another dtype, the parts of a float, its
 * neighbours. */
#include "opt/decompose/math.h"
#include "opt/decompose/operands.h"

#include <math.h>

static int width_of(hn_dtype dtype) { return hn_dtype_facts(dtype)->size_bytes; }

static hn_dtype int_of_width(int bytes) {
    return bytes == 8   ? HN_DTYPE_I64
           : bytes == 4 ? HN_DTYPE_I32
           : bytes == 2 ? HN_DTYPE_I16
                        : HN_DTYPE_U8;
}

static hn_value to_bits(hn_dec *d, hn_value x) {
    hn_dtype dtype = m_dtype(d, x), bits = int_of_width(width_of(dtype));
    return hn_dtype_is_float(dtype) ? hn_b_bitcast(d->g, x, bits) : m_cast(d, x, bits);
}

static hn_value from_bits(hn_dec *d, hn_value x, hn_dtype dtype) {
    return hn_dtype_is_float(dtype) ? hn_b_bitcast(d->g, x, dtype) : m_cast(d, x, dtype);
}

/* 0, bits, 2 bits... along the last of `rank` dims. */
static hn_value shifts(hn_dec *d, int64_t count, int bits, uint32_t rank, hn_dtype dtype) {
    return m_mul_c(d, m_along(d, m_iota(d, e_int(d, count), dtype), rank - 1, rank), bits);
}

/* Integers of `from` bytes as the shorter ones that they are made of, the lowest first. */
static hn_value split_bits(hn_dec *d, hn_value x, int to) {
    hn_dtype wide = m_dtype(d, x);
    uint32_t rank = m_rank(d, x);
    int64_t count = width_of(wide) / to;
    hn_value parts = m_bin(d, HN_OP_SHR, hn_b_unsqueeze(d->g, x, rank),
                           shifts(d, count, 8 * to, rank + 1, wide));
    return m_merge(d, m_cast(d, parts, int_of_width(to)), rank - 1, 2);
}

/* Short integers joined to those of `to` bytes. */
static hn_value join_bits(hn_dec *d, hn_value x, int to) {
    hn_dtype narrow = m_dtype(d, x), wide = int_of_width(to);
    uint32_t rank = m_rank(d, x);
    int64_t count = to / width_of(narrow);
    hn_expr parts = e_int(d, count),
            sizes[2] = {hn_sym_floordiv(d->g->sym, m_size(d, x, rank - 1), parts), parts};
    hn_value each = m_cast(d, m_split(d, x, rank - 1, sizes, 2), wide);
    if (narrow != HN_DTYPE_U8)
        each = m_and(d, each, m_c(d, each, narrow == HN_DTYPE_I16 ? 0xffff : 0xffffffff));
    /* no two parts have a bit in common: their sum joins them */
    return m_reduce1(
        d, HN_OP_SUM,
        m_bin(d, HN_OP_SHL, each, shifts(d, count, 8 * width_of(narrow), rank + 1, wide)), rank,
        false);
}

/* aten.view.dtype(self, dtype): sizes that differ change the last dimension */
void hn_dec_view_dtype(hn_dec *d) {
    hn_value x = hn_dec_tensor(d, 0);
    hn_dtype to = m_meta_dtype(d, 0), from = m_dtype(d, x);
    uint32_t rank = m_rank(d, x);
    if (!x || from == to) {
        hn_dec_result(d, 0, x);
        return;
    }
    if (!m_require(d, width_of(from) == width_of(to) || (rank > 0 && rank < HN_MAX_RANK),
                   "it changes the last of 0 or 16 dimensions"))
        return;
    hn_value bits = to_bits(d, x);
    if (width_of(to) < width_of(from)) bits = split_bits(d, bits, width_of(to));
    if (width_of(to) > width_of(from)) bits = join_bits(d, bits, width_of(to));
    hn_dec_result(d, 0, from_bits(d, bits, to));
}

/* aten.nextafter(self, other): one step of the bits, which grow with the magnitude */
void hn_dec_nextafter(hn_dec *d) {
    hn_operands o = hn_dec_first_operands(d, 2, HN_OPERANDS_PLAIN);
    hn_value x = o.v[0], y = o.v[1];
    if (!m_require(d, hn_dtype_is_float(o.compute), "nextafter wants floats")) return;
    hn_value bits = to_bits(d, x), up = m_bin_c(d, HN_OP_GT, x, 0);
    hn_value grows = m_bin(d, HN_OP_EQ, up, m_bin(d, HN_OP_GT, y, x));
    hn_value stepped = m_where(d, grows, m_add_c(d, bits, 1), m_sub_c(d, bits, 1));
    /* the least number, with the sign of y */
    hn_value one = from_bits(d, m_c(d, bits, 1), o.compute);
    hn_value next = m_where(d, m_bin_c(d, HN_OP_EQ, x, 0), m_bin(d, HN_OP_COPYSIGN, one, y),
                            from_bits(d, stepped, o.compute));
    next = m_where(d, m_bin(d, HN_OP_EQ, x, y), y, next);
    hn_value is_nan = m_or(d, m_un(d, HN_OP_ISNAN, x), m_un(d, HN_OP_ISNAN, y));
    hn_dec_finish(d, 0, m_where(d, is_nan, m_c(d, x, NAN), next), &o);
}

/* aten.frexp(self) -> mantissa in [0.5, 1), exponent (i32): numbers below the least normal one are
 * scaled first */
void hn_dec_frexp(hn_dec *d) {
    hn_value x = m_opmath(d, hn_dec_tensor(d, 0));
    hn_dtype dtype = m_dtype(d, x);
    if (!x || !m_require(d, hn_dtype_is_float(dtype), "frexp wants floats")) return;
    bool wide = dtype == HN_DTYPE_F64;
    int digits = wide ? 52 : 23, bias = wide ? 1022 : 126;
    int64_t field = wide ? 0x7ff : 0xff;
    hn_value tiny = m_bin_c(d, HN_OP_LT, m_abs(d, x), wide ? 0x1p-1022 : 0x1p-126);
    hn_value bits = to_bits(d, m_where(d, tiny, m_mul_c(d, x, 0x1p64), x));
    hn_value power = m_and(d, m_bin_c(d, HN_OP_SHR, bits, digits),
                           hn_dec_scalar_value(d, hn_scalar_i(e_int(d, field)), m_dtype(d, bits)));
    hn_value rest =
        m_and(d, bits,
              hn_dec_scalar_value(d, hn_scalar_i(e_int(d, ~(field << digits))), m_dtype(d, bits)));
    hn_value middle =
        hn_dec_scalar_value(d, hn_scalar_i(e_int(d, (int64_t)bias << digits)), m_dtype(d, bits));
    hn_value mantissa = from_bits(d, m_or(d, rest, middle), dtype);
    hn_value shift = m_where(d, tiny, m_c(d, power, bias + 64), m_c(d, power, bias));
    hn_value whole = m_or(d, m_bin_c(d, HN_OP_EQ, x, 0),
                          m_un(d, HN_OP_NOT, m_bin_c(d, HN_OP_LT, m_abs(d, x), INFINITY)));
    m_result(d, 0, m_where(d, whole, x, mantissa));
    if (m_wants(d, 1)) m_result(d, 1, m_where(d, whole, m_c(d, power, 0), m_sub(d, power, shift)));
}

/* aten.ldexp(self, other): self 2^other; the power of an integer is an f32 */
void hn_dec_ldexp(hn_dec *d) {
    hn_value y = hn_dec_tensor(d, 1);
    hn_dtype power_dtype = hn_dtype_is_float(m_dtype(d, y)) ? m_dtype(d, y) : HN_DTYPE_F32,
             math = hn_dec_opmath(power_dtype);
    hn_value exponent = m_cast(d, y, math);
    hn_value power = m_cast(d, m_bin(d, HN_OP_POW, m_c(d, exponent, 2), exponent), power_dtype);
    hn_dtype out = m_meta_dtype(d, 0), wide = hn_dec_opmath(out);
    m_result(d, 0, m_mul(d, m_cast(d, hn_dec_tensor(d, 0), wide), m_cast(d, power, wide)));
}
