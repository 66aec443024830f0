/* hand_vectors.h: vectors of this machine's width for the loops of the benchmarks. */
#ifndef HN_BENCH_HAND_VECTORS_H
#define HN_BENCH_HAND_VECTORS_H

#include <stdbool.h>
#include <stdint.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#if defined(__AVX512F__)
enum { W = 16 };
#else
enum { W = 8 };
#endif

typedef float vf __attribute__((vector_size(W * 4)));
typedef int32_t vi __attribute__((vector_size(W * 4)));
typedef float vf_u __attribute__((vector_size(W * 4), aligned(4), may_alias));
#define INLINE static inline __attribute__((always_inline))

INLINE vf load(const float *p) { return *(const vf_u *)p; }
INLINE vf splat(float x) { return x - (vf){0}; }
INLINE void store(float *p, vf x, bool streaming) {
#if defined(__AVX512F__)
    if (streaming) _mm512_stream_ps(p, (__m512)x);
    else *(vf_u *)p = x;
#elif defined(__AVX__)
    if (streaming) _mm256_stream_ps(p, (__m256)x);
    else *(vf_u *)p = x;
#else
    (void)streaming;
    *(vf_u *)p = x;
#endif
}
INLINE void fence(bool streaming) {
#if defined(__x86_64__)
    if (streaming) _mm_sfence();
#endif
}
INLINE vf larger(vf a, vf b) {
#if defined(__AVX512F__)
    return (vf)_mm512_max_ps((__m512)a, (__m512)b);
#elif defined(__AVX__)
    return (vf)_mm256_max_ps((__m256)a, (__m256)b);
#else
    vi m = a > b;
    return (vf)(((vi)a & m) | ((vi)b & ~m));
#endif
}
INLINE float sum_of(vf x) {
    float s = 0;
    for (int k = 0; k < W; k++) s += x[k];
    return s;
}
INLINE float largest_of(vf x) {
    float s = x[0];
    for (int k = 1; k < W; k++) s = x[k] > s ? x[k] : s;
    return s;
}

/* exp of x <= 88: 2^n times a polynomial of the rest; below -87 it gives 2^-126 or so, which is
 * zero enough here. */
INLINE vf exponential(vf x) {
    const vf magic = splat(0x1.8p23f);
    x = larger(x, splat(-87.0f));
    vf shifted = x * 0x1.715476p0f + magic, n = shifted - magic;
    vf r = x - n * 0x1.63p-1f; /* ln 2 in two pieces, as in generated code */
    r = r - n * -0x1.bd0106p-13f;
    vf p = splat(0x1.6a98dap-10f) * r + 0x1.1272cap-7f;
    p = p * r + 0x1.555a98p-5f;
    p = p * r + 0x1.55542ep-3f;
    p = p * r + 0x1.fffff8p-2f;
    p = p * r + 1.0f;
    p = p * r + 1.0f;
    return (vf)((vi)p + ((vi)shifted << 23));
}

/* --- squares of 8 x 8 --- */

typedef float v8 __attribute__((vector_size(32)));
typedef float v8_u __attribute__((vector_size(32), aligned(4), may_alias));

INLINE void transpose_8x8(const float *x, int64_t stride, v8 out[8]) {
    v8 r[8], s[8];
#pragma GCC unroll 8
    for (int k = 0; k < 8; k++) r[k] = *(const v8_u *)(x + k * stride);
#pragma GCC unroll 4
    for (int k = 0; k < 8; k += 2) {
        s[k] = __builtin_shufflevector(r[k], r[k + 1], 0, 8, 1, 9, 4, 12, 5, 13);
        s[k + 1] = __builtin_shufflevector(r[k], r[k + 1], 2, 10, 3, 11, 6, 14, 7, 15);
    }
#pragma GCC unroll 2
    for (int k = 0; k < 8; k += 4) {
        r[k] = __builtin_shufflevector(s[k], s[k + 2], 0, 1, 8, 9, 4, 5, 12, 13);
        r[k + 1] = __builtin_shufflevector(s[k], s[k + 2], 2, 3, 10, 11, 6, 7, 14, 15);
        r[k + 2] = __builtin_shufflevector(s[k + 1], s[k + 3], 0, 1, 8, 9, 4, 5, 12, 13);
        r[k + 3] = __builtin_shufflevector(s[k + 1], s[k + 3], 2, 3, 10, 11, 6, 7, 14, 15);
    }
#pragma GCC unroll 4
    for (int k = 0; k < 4; k++) {
        out[k] = __builtin_shufflevector(r[k], r[k + 4], 0, 1, 2, 3, 8, 9, 10, 11);
        out[k + 4] = __builtin_shufflevector(r[k], r[k + 4], 4, 5, 6, 7, 12, 13, 14, 15);
    }
}

INLINE void store8(float *p, v8 x, bool streaming) {
#if defined(__AVX__)
    if (streaming) _mm256_stream_ps(p, (__m256)x);
    else *(v8_u *)p = x;
#else
    (void)streaming;
    *(v8_u *)p = x;
#endif
}

#endif
