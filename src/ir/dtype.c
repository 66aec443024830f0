/* dtype.c: the table of element types and the conversions of the 16-bit floats. */
#include "ir/dtype.h"

#include "base/compiler.h"

static const hn_dtype_info dtype_facts[HN_DTYPE_COUNT] = {
    [HN_DTYPE_NONE] = {"none", "void", "", 0, HN_CATEGORY_NONE, 0, 0, 0},
#define HN_DTYPE(name, text, bytes, category, c_type, npy, pt2, rtol, atol)                        \
    [HN_DTYPE_##name] = {text, c_type, npy, bytes, HN_CATEGORY_##category, pt2, rtol, atol},
#include "ir/dtypes.def"
#undef HN_DTYPE
};

const hn_dtype_info *hn_dtype_facts(hn_dtype dtype) {
    return &dtype_facts[(uint32_t)dtype < HN_DTYPE_COUNT ? dtype : HN_DTYPE_NONE];
}

hn_dtype hn_dtype_parse(hn_str name) {
    for (uint32_t d = 1; d < HN_DTYPE_COUNT; d++)
        if (hn_str_eq(name, hn_str_of(dtype_facts[d].name))) return (hn_dtype)d;
    return HN_DTYPE_NONE;
}

hn_dtype hn_dtype_from_pt2(int64_t code) {
    for (uint32_t d = 1; d < HN_DTYPE_COUNT; d++)
        if (dtype_facts[d].pt2_code == code) return (hn_dtype)d;
    return HN_DTYPE_NONE;
}

static uint64_t f64_bits(double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static float f32_of_bits(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* A double to a 16-bit float of `mantissa_bits` and 15 - mantissa_bits exponent bits, nearest even,
 * one rounding. A NaN keeps its sign and the top of its payload and becomes quiet, as the
 * conversion instructions of CPUs do. */
static uint16_t round_to_16(double value, int mantissa_bits) {
    const int exponent_bits = 15 - mantissa_bits, bias = (1 << (exponent_bits - 1)) - 1;
    const uint32_t infinity = ((1u << exponent_bits) - 1) << mantissa_bits;
    uint64_t bits = f64_bits(value), fraction = bits & 0xfffffffffffffull;
    uint32_t sign = (uint32_t)(bits >> 63) << 15;
    int exponent = (int)(bits >> 52 & 0x7ff);
    if (exponent == 0x7ff && fraction)
        return (uint16_t)(sign | infinity | 1u << (mantissa_bits - 1) |
                          (uint32_t)(fraction >> (52 - mantissa_bits)));
    exponent += bias - 1023;
    if (exponent >= (1 << exponent_bits) - 1) return (uint16_t)(sign | infinity);
    /* Below the smallest normal number the significand loses bits; shifted by more than 54 it
     * rounds to zero, as all subnormal doubles do, so that their missing leading 1 never
     * matters. */
    int shift = 52 - mantissa_bits + (exponent < 1 ? 1 - exponent : 0);
    if (shift > 54) return (uint16_t)sign;
    uint64_t significand = fraction | 1ull << 52, kept = significand >> shift;
    uint64_t lost = significand & ((1ull << shift) - 1), half = 1ull << (shift - 1);
    if (lost > half || (lost == half && (kept & 1))) kept++;
    /* A normal number's leading 1 adds to the exponent field; a carry out of the mantissa does so
     * too, up to inf. */
    uint32_t base = exponent < 1 ? 0 : (uint32_t)(exponent - 1) << mantissa_bits;
    return (uint16_t)(sign | (base + (uint32_t)kept));
}

uint16_t hn_f64_to_f16(double value) { return round_to_16(value, 10); }
uint16_t hn_f64_to_bf16(double value) { return round_to_16(value, 7); }
uint16_t hn_f32_to_f16(float value) { return round_to_16((double)value, 10); }

uint16_t hn_f32_to_bf16(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    if ((bits & 0x7fffffff) > 0x7f800000) return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

float hn_bf16_to_f32(uint16_t bits) { return f32_of_bits((uint32_t)bits << 16); }

float hn_f16_to_f32(uint16_t bits) {
    uint32_t sign = (uint32_t)(bits >> 15) << 31, exponent = bits >> 10 & 31,
             fraction = bits & 1023;
    if (exponent == 31)
        return f32_of_bits(sign | 0x7f800000 | (fraction ? 1u << 22 : 0) | fraction << 13);
    if (exponent) return f32_of_bits(sign | (exponent + 112) << 23 | fraction << 13);
    float value = (float)fraction * 0x1p-24f; /* exact: subnormals of f16 are normal in f32 */
    return sign ? -value : value;
}
