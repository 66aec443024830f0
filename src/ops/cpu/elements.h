/* elements.h: single elements of operands of every dtype, as the plain loops read and write
 * them. */
#ifndef HN_OPS_CPU_ELEMENTS_H
#define HN_OPS_CPU_ELEMENTS_H

#include "henry/tensor.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

typedef union hn_ext_number {
    double f;   /* floats */
    uint64_t u; /* integers and bools, sign extended: arithmetic that wraps */
} hn_ext_number;

static inline bool hn_ext_is_float(uint8_t dtype) { return dtype >= HN_F64 && dtype <= HN_BF16; }

static inline float hn_ext_f32_of_bits(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline double hn_ext_bf16_value(uint16_t bits) {
    return (double)hn_ext_f32_of_bits((uint32_t)bits << 16);
}

/* The exponent moves to its place in a float and is then off by 127 - 15, which a product repairs
 * also for subnormals; infinity and NaN have no such exponent. */
static inline double hn_ext_f16_value(uint16_t bits) {
    uint32_t magnitude = (uint32_t)(bits & 0x7fff) << 13;
    double value = magnitude < 0x0f800000 ? (double)hn_ext_f32_of_bits(magnitude) * 0x1p112
                                          : (double)hn_ext_f32_of_bits(magnitude | 0x7f800000);
    return bits & 0x8000 ? -value : value;
}

/* A 16-bit float with this many mantissa bits, nearest even, rounded once. */
static inline uint16_t hn_ext_bits16_of(double value, int mantissa_bits) {
    const int bias = (1 << (14 - mantissa_bits)) - 1;
    const uint16_t infinity = (uint16_t)(0x7fff >> mantissa_bits << mantissa_bits),
                   sign = signbit(value) ? 0x8000 : 0;
    if (isnan(value)) return (uint16_t)(sign | infinity | 1u << (mantissa_bits - 1));
    if (value == 0) return sign;
    if (isinf(value)) return sign | infinity;
    int exponent;
    frexp(value, &exponent);
    /* subnormals share the least one */
    exponent = exponent - 1 < 1 - bias ? 1 - bias : exponent - 1;
    int units = (int)nearbyint(ldexp(fabs(value), mantissa_bits - exponent));
    /* The leading 1 of `units`, and a carry out of the rounding, add to the exponent field. */
    int bits = ((exponent + bias - 1) << mantissa_bits) + units;
    return (uint16_t)(sign | (bits < infinity ? bits : infinity));
}

static inline hn_ext_number hn_ext_load(uint8_t dtype, const void *base, int64_t at) {
    switch (dtype) {
    case HN_F64: return (hn_ext_number){.f = ((const double *)base)[at]};
    case HN_F32: return (hn_ext_number){.f = (double)((const float *)base)[at]};
    case HN_F16: return (hn_ext_number){.f = hn_ext_f16_value(((const uint16_t *)base)[at])};
    case HN_BF16: return (hn_ext_number){.f = hn_ext_bf16_value(((const uint16_t *)base)[at])};
    case HN_I64: return (hn_ext_number){.u = (uint64_t)((const int64_t *)base)[at]};
    case HN_I32: return (hn_ext_number){.u = (uint64_t)((const int32_t *)base)[at]};
    case HN_I16: return (hn_ext_number){.u = (uint64_t)((const int16_t *)base)[at]};
    case HN_I8: return (hn_ext_number){.u = (uint64_t)((const int8_t *)base)[at]};
    default: return (hn_ext_number){.u = ((const uint8_t *)base)[at]};
    }
}

static inline void hn_ext_store(uint8_t dtype, void *base, int64_t at, hn_ext_number x) {
    switch (dtype) {
    case HN_F64: ((double *)base)[at] = x.f; return;
    case HN_F32: ((float *)base)[at] = (float)x.f; return;
    case HN_F16: ((uint16_t *)base)[at] = hn_ext_bits16_of(x.f, 10); return;
    case HN_BF16: ((uint16_t *)base)[at] = hn_ext_bits16_of(x.f, 7); return;
    case HN_I64: ((uint64_t *)base)[at] = x.u; return;
    case HN_I32: ((uint32_t *)base)[at] = (uint32_t)x.u; return;
    case HN_I16: ((uint16_t *)base)[at] = (uint16_t)x.u; return;
    case HN_BOOL: ((uint8_t *)base)[at] = x.u != 0; return;
    default: ((uint8_t *)base)[at] = (uint8_t)x.u; return;
    }
}

#endif
