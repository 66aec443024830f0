/* content.c: elements that are made up. Floats are made of bits: magnitudes from 0.5 to 2, so that no
 * type has denormals, and sums and products of some of them stay ordinary. */
#include "tune/subject.h"

#include <string.h>

/* Source: Steele, Lea and Flood (2014), the finalizer of SplitMix64. */
static uint64_t next_random(uint64_t *state) {
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* Bits of the fraction of each type, and the exponent of 1. */
typedef struct format {
    uint32_t fraction, bias, bits;
} format;

static const format formats[HN_SCALAR_TYPE_COUNT] = {[HN_F64] = {52, 1023, 64},
                                                     [HN_F32] = {23, 127, 32},
                                                     [HN_F16] = {10, 15, 16},
                                                     [HN_BF16] = {7, 127, 16}};

static uint64_t float_bits(const format *f, hn_made_up how, uint64_t random) {
    const uint64_t fraction = random & ((UINT64_C(1) << f->fraction) - 1),
                   exponent = f->bias - (random >> 62 & 1),
                   sign = how == HN_MADE_POSITIVE ? 0 : random >> 63;
    return fraction | exponent << f->fraction | sign << (f->bits - 1);
}

/* The largest value of a whole number, plus 1, as far as it matters. */
static uint64_t limit_of(hn_scalar_type type) {
    return type == HN_I8 ? 1 << 7 : type == HN_U8 ? 1 << 8 : type == HN_I16 ? 1 << 15 : INT32_MAX;
}

static uint64_t whole_number(const hn_bench_arg *arg, hn_made_up how, uint64_t random) {
    const uint64_t most = limit_of(arg->type), limit = (uint64_t)arg->index_limit;
    if (arg->type == HN_BOOL) return random >> 63;
    if (!limit) return how == HN_MADE_ZERO ? 0 : 1 + (random >> 33) % 7;
    return (random >> 1) % (arg->type == HN_I64 || limit < most ? limit : most);
}

void hn_make_up(const hn_bench_arg *arg, hn_made_up how, uint64_t seed, uint8_t *out,
                size_t bytes) {
    const size_t size = hn_scalar_type_bytes(arg->type);
    const format *f = &formats[arg->type];
    for (size_t at = 0; at + size <= bytes; at += size) {
        const uint64_t random = next_random(&seed),
                       bits = f->bits ? float_bits(f, how, random) : whole_number(arg, how, random);
        /* little-endian, as every machine that kernels are compiled for */
        memcpy(out + at, &bits, size);
    }
}
