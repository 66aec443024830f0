/* quantize.c: rounding to the numbers that a quantised tensor can hold. */
#include "opt/decompose/math.h"

/* x as the nearest of (q - zero) * scale with q in low..high; result 1: where nothing was cut off.
 * `scale` and `zero` in opmath. */
static void fake_quantize(hn_dec *d, hn_value scale, hn_value zero, double low, double high) {
    hn_value x = m_opmath(d, hn_dec_tensor(d, 0));
    hn_value q =
        m_add(d, m_un(d, HN_OP_ROUND, m_mul(d, x, m_div(d, m_c(d, scale, 1), scale))), zero);
    m_result(d, 0, m_mul(d, m_sub(d, m_min_c(d, m_max_c(d, q, low), high), zero), scale));
    if (m_wants(d, 1))
        m_result(d, 1, m_and(d, m_bin_c(d, HN_OP_GE, q, low), m_bin_c(d, HN_OP_LE, q, high)));
}

/* aten.fake_quantize_per_tensor_affine, .._cachemask (self, scale, zero_point, quant_min,
 * quant_max) */
void hn_dec_fake_quantize_tensor(hn_dec *d) {
    hn_dtype math = hn_dec_opmath(m_dtype(d, hn_dec_tensor(d, 0)));
    fake_quantize(d, hn_dec_number(d, 1, math), hn_dec_number(d, 2, math), hn_dec_float(d, 3),
                  hn_dec_float(d, 4));
}

/* aten.fake_quantize_per_channel_affine, .._cachemask (self, scale, zero_point, axis, quant_min,
 * quant_max) */
void hn_dec_fake_quantize_channel(hn_dec *d) {
    hn_value x = hn_dec_tensor(d, 0), scale = hn_dec_tensor(d, 1), zero = hn_dec_tensor(d, 2);
    uint32_t rank = m_rank(d, x), axis = hn_dec_dim(d, 3, rank);
    hn_dtype math = hn_dec_opmath(m_dtype(d, x));
    if (!m_require(d, rank > 0 && m_rank(d, scale) == 1 && m_rank(d, zero) == 1,
                   "channels want a vector of scales and one of zero points"))
        return;
    fake_quantize(d, m_along(d, m_cast(d, scale, math), axis, rank),
                  m_along(d, m_cast(d, zero, math), axis, rank), hn_dec_float(d, 4),
                  hn_dec_float(d, 5));
}
