/* vec_body.h: float vectors and the functions of the epilogues, for the instruction set of the
 * including file.
 *
 * Before: HN_LANES (floats in a vector). GNU vectors only, so one source serves every instruction
 * set. The polynomials are minimax fits made for this file; errors are of the function computed in
 * float against the exact one: exp 1 ulp, tanh and erf 4 ulp. NaN goes through everything. */
#include <stdint.h>
#include <string.h>

#define HN_INLINE static inline __attribute__((always_inline, unused))

typedef float vec __attribute__((vector_size(HN_LANES * 4)));
typedef int32_t ivec __attribute__((vector_size(HN_LANES * 4)));
typedef int32_t ivec_unaligned __attribute__((vector_size(HN_LANES * 4), aligned(4), may_alias));
typedef float vec_unaligned __attribute__((vector_size(HN_LANES * 4), aligned(4), may_alias));

HN_INLINE vec vec_load(const float *p) { return *(const vec_unaligned *)p; }
HN_INLINE void vec_store(float *p, vec v) { *(vec_unaligned *)p = v; }

/* A literal is a plain broadcast; "0 + x" would keep an addition, because -0 + 0 is not -0. */
HN_INLINE vec vec_splat(float x) {
#if HN_LANES == 4
    return (vec){x, x, x, x};
#elif HN_LANES == 8
    return (vec){x, x, x, x, x, x, x, x};
#else
    return (vec){x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x};
#endif
}

HN_INLINE vec vec_select(ivec mask, vec yes, vec no) {
    return (vec)((mask & (ivec)yes) | (~mask & (ivec)no));
}
/* x, and `low` (`high`) where x is less (more); NaN stays NaN. The instruction gives its second
 * operand then, which compilers may not assume of a comparison. */
#if HN_LANES == 8
HN_INLINE vec vec_at_least(vec x, float low) { return __builtin_ia32_maxps256(vec_splat(low), x); }
HN_INLINE vec vec_at_most(vec x, float high) { return __builtin_ia32_minps256(vec_splat(high), x); }
#else
HN_INLINE vec vec_at_least(vec x, float low) {
    return vec_select(x < vec_splat(low), vec_splat(low), x);
}
HN_INLINE vec vec_at_most(vec x, float high) {
    return vec_select(x > vec_splat(high), vec_splat(high), x);
}
#endif
HN_INLINE vec vec_clamp(vec x, float low, float high) {
    return vec_at_most(vec_at_least(x, low), high);
}
HN_INLINE vec vec_abs(vec x) { return (vec)((ivec)x & 0x7fffffff); }
HN_INLINE vec vec_max(vec a, vec b) { return vec_select(a > b, a, b); }

HN_INLINE float vec_sum(vec v) {
    float sum = 0;
    for (int i = 0; i < HN_LANES; i++) sum += v[i];
    return sum;
}

/* e^x = the result times 2^n; *out_shifted holds n in its low bits. Adding the magic number rounds
 * to an integer. */
HN_INLINE vec exp_mantissa(vec x, vec *out_shifted) {
    const vec magic = vec_splat(0x1.8p23f);
    vec shifted = x * 1.44269504088896341f + magic;
    vec n = shifted - magic;
    vec r = x - n * 0.693145751953125f; /* the high part of ln 2 has 15 bits: exact products */
    r -= n * 1.42860682030941723212e-6f;
    vec p = r * 0.0013950602151453495f + 0.008368953131139278f;
    p = p * r + 0.04166620597243309f;
    p = p * r + 0.166665181517601f;
    p = p * r + 0.5f;
    *out_shifted = shifted;
    return p * (r * r) + r + 1.0f;
}

HN_INLINE vec vec_exp(vec x) {
    vec shifted, p = exp_mantissa(vec_clamp(x, -104.0f, 89.0f), &shifted);
    /* in two steps: 2^k alone can leave the range */
    ivec k = (ivec)shifted - (ivec)vec_splat(0x1.8p23f), half = k >> 1;
    return p * (vec)((half + 127) << 23) * (vec)((k - half + 127) << 23);
}

HN_INLINE vec vec_sigmoid(vec x) { return 1.0f / (1.0f + vec_exp(-x)); }

/* x P(x^2) / Q(x^2), at most 1: from 9.4 on, where the quotient is above 1, that is exactly 1. */
HN_INLINE vec vec_tanh(vec x) {
    x = vec_clamp(x, -9.4f, 9.4f);
    const vec z = x * x;
    vec p = z * 1.335486852e-08f + 2.060926296e-05f, q = z * 7.776652130e-07f + 3.285654091e-04f;
    p = p * z + 3.495600540e-03f, q = q * z + 2.587703097e-02f;
    p = p * z + 1.338103659e-01f, q = q * z + 4.671435221e-01f;
    p = p * z + 9.999999795e-01f, q = q * z + 1.0f;
    return vec_clamp(x * p / q, -1.0f, 1.0f);
}

/* The same from 4.08 on. */
HN_INLINE vec vec_erf(vec x) {
    x = vec_clamp(x, -4.08f, 4.08f);
    const vec z = x * x;
    vec p = z * 2.025851611e-06f + 2.846829623e-04f, q = z * 3.783095840e-05f + 1.170713490e-03f;
    p = p * z + 3.808147121e-03f, q = q * z + 1.505507226e-02f;
    p = p * z + 5.287540829e-02f, q = q * z + 1.145596689e-01f;
    p = p * z + 1.915505902e-01f, q = q * z + 5.030899673e-01f;
    p = p * z + 1.128379144e+00f, q = q * z + 1.0f;
    return vec_clamp(x * p / q, -1.0f, 1.0f);
}

HN_INLINE vec vec_relu(vec x) { return vec_at_least(x, 0); }
HN_INLINE vec vec_gelu_erf(vec x) { return 0.5f * x * (1.0f + vec_erf(x * 0.70710678118654752f)); }
HN_INLINE vec vec_gelu_tanh(vec x) {
    return 0.5f * x * (1.0f + vec_tanh(0.79788456080286536f * (x + 0.044715f * x * x * x)));
}
HN_INLINE vec vec_silu(vec x) { return x * vec_sigmoid(x); }
HN_INLINE vec vec_hardsigmoid(vec x) { return vec_clamp(x + 3.0f, 0.0f, 6.0f) * (1.0f / 6.0f); }
HN_INLINE vec vec_hardswish(vec x) { return x * vec_hardsigmoid(x); }

/* All rows of `count` floats, `stride` apart, in place. */
#define EPILOGUE_ROWS(FUNCTION)                                                                    \
    for (int64_t i = 0; i < rows; i++, x += stride) {                                              \
        int64_t j = 0;                                                                             \
        for (; j + HN_LANES <= count; j += HN_LANES) vec_store(x + j, FUNCTION(vec_load(x + j)));  \
        if (j == count) continue;                                                                  \
        float rest[HN_LANES] = {0};                                                                \
        memcpy(rest, x + j, (size_t)(count - j) * sizeof *x);                                      \
        vec_store(rest, FUNCTION(vec_load(rest)));                                                 \
        memcpy(x + j, rest, (size_t)(count - j) * sizeof *x);                                      \
    }

/* Out of line: the polynomials exist once, not in each tile. */
static __attribute__((noinline)) void epilogue_rows(hn_epilogue epilogue, float *x, int64_t rows,
                                                    int64_t stride, int64_t count) {
    switch (epilogue) {
    case HN_EPILOGUE_NONE: return;
    case HN_EPILOGUE_RELU:
        if (HN_EXT_HAS_EPILOGUE(HN_EPILOGUE_RELU)) EPILOGUE_ROWS(vec_relu)
        return;
    case HN_EPILOGUE_GELU_ERF:
        if (HN_EXT_HAS_EPILOGUE(HN_EPILOGUE_GELU_ERF)) EPILOGUE_ROWS(vec_gelu_erf)
        return;
    case HN_EPILOGUE_GELU_TANH:
        if (HN_EXT_HAS_EPILOGUE(HN_EPILOGUE_GELU_TANH)) EPILOGUE_ROWS(vec_gelu_tanh)
        return;
    case HN_EPILOGUE_SILU:
        if (HN_EXT_HAS_EPILOGUE(HN_EPILOGUE_SILU)) EPILOGUE_ROWS(vec_silu)
        return;
    case HN_EPILOGUE_HARDSWISH:
        if (HN_EXT_HAS_EPILOGUE(HN_EPILOGUE_HARDSWISH)) EPILOGUE_ROWS(vec_hardswish)
        return;
    case HN_EPILOGUE_SIGMOID:
        if (HN_EXT_HAS_EPILOGUE(HN_EPILOGUE_SIGMOID)) EPILOGUE_ROWS(vec_sigmoid)
        return;
    case HN_EPILOGUE_TANH:
        if (HN_EXT_HAS_EPILOGUE(HN_EPILOGUE_TANH)) EPILOGUE_ROWS(vec_tanh)
        return;
    case HN_EPILOGUE_HARDSIGMOID:
        if (HN_EXT_HAS_EPILOGUE(HN_EPILOGUE_HARDSIGMOID)) EPILOGUE_ROWS(vec_hardsigmoid)
        return;
    }
}

static void epilogue_apply(hn_epilogue epilogue, float *x, int64_t count) {
    epilogue_rows(epilogue, x, 1, 0, count);
}
