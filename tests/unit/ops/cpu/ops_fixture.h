/* ops_fixture.h: random calls of extern operations, run by an implementation and by the reference.
 *
 * Memory that a call may not touch is guarded: outputs lie in a buffer that is filled with a
 * pattern before. */
#ifndef HN_TEST_OPS_FIXTURE_H
#define HN_TEST_OPS_FIXTURE_H

#include "base/compiler.h"
#include "unit/harness.h"
#include "henry/tensor.h"
#include "ops/cpu/ext.h"

#include <stdlib.h>

/* Of all calls: they come one after another. */
HN_UNUSED static hn_team ext_team;

typedef struct ext_random {
    uint64_t state;
} ext_random;

static uint64_t ext_next(ext_random *r) {
    r->state = r->state * 6364136223846793005u + 1442695040888963407u;
    return r->state >> 33;
}
/* In [low, high]. */
static int64_t ext_int(ext_random *r, int64_t low, int64_t high) {
    return low + (int64_t)(ext_next(r) % (uint64_t)(high - low + 1));
}
static double ext_real(ext_random *r) { return (double)ext_next(r) * 0x1p-30 - 1.0; }

static float ext_half_value(uint16_t bits) {
    int exponent = bits >> 10 & 31, mantissa = bits & 1023;
    float v = exponent == 0    ? ldexpf((float)mantissa, -24)
              : exponent == 31 ? (mantissa ? NAN : INFINITY)
                               : ldexpf((float)(mantissa + 1024), exponent - 25);
    return bits & 0x8000 ? -v : v;
}

HN_UNUSED static double ext_get(uint8_t dtype, const void *base, int64_t at) {
    uint32_t bits;
    float f;
    switch (dtype) {
    case HN_F64: return ((const double *)base)[at];
    case HN_F32: return (double)((const float *)base)[at];
    case HN_F16: return (double)ext_half_value(((const uint16_t *)base)[at]);
    case HN_BF16:
        bits = (uint32_t)((const uint16_t *)base)[at] << 16;
        memcpy(&f, &bits, sizeof f);
        return (double)f;
    case HN_I64: return (double)((const int64_t *)base)[at];
    case HN_I32: return ((const int32_t *)base)[at];
    case HN_I16: return ((const int16_t *)base)[at];
    case HN_I8: return ((const int8_t *)base)[at];
    default: return ((const uint8_t *)base)[at];
    }
}

static size_t ext_bytes(uint8_t dtype) { return hn_scalar_type_bytes((hn_scalar_type)dtype); }

/* Any bits that are a sane number of the type. */
static void ext_put_random(ext_random *r, uint8_t dtype, void *base, int64_t at) {
    double x = ext_real(r);
    float f = (float)x;
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    switch (dtype) {
    case HN_F64: ((double *)base)[at] = x; return;
    case HN_F32: ((float *)base)[at] = f; return;
    case HN_F16:
        ((uint16_t *)base)[at] =
            (uint16_t)((ext_next(r) & 0x83ff) | (uint64_t)ext_int(r, 8, 14) << 10);
        return;
    case HN_BF16: ((uint16_t *)base)[at] = (uint16_t)(bits >> 16); return;
    case HN_I64: ((int64_t *)base)[at] = ext_int(r, -100, 100); return;
    case HN_I32: ((int32_t *)base)[at] = (int32_t)ext_int(r, -100, 100); return;
    case HN_I16: ((int16_t *)base)[at] = (int16_t)ext_int(r, -100, 100); return;
    case HN_I8: ((int8_t *)base)[at] = (int8_t)ext_int(r, -100, 100); return;
    case HN_BOOL: ((uint8_t *)base)[at] = (uint8_t)(ext_next(r) & 1); return;
    default: ((uint8_t *)base)[at] = (uint8_t)ext_int(r, 0, 100); return;
    }
}

/* An operand's memory: `count` elements. Owns: the caller frees. */
static void *ext_memory(ext_random *r, uint8_t dtype, int64_t count) {
    /* exact, so that a sanitizer sees what goes beyond */
    void *p = malloc((size_t)count * ext_bytes(dtype) + 1);
    for (int64_t i = 0; p && i < count; i++) ext_put_random(r, dtype, p, i);
    return p;
}

/* Strides of `rank` sizes in a random order of the dimensions, sometimes with gaps. Returns the
 * element count. */
HN_UNUSED static int64_t ext_random_strides(ext_random *r, const int64_t *sizes, int rank,
                                            int64_t *out) {
    int order[8];
    for (int d = 0; d < rank; d++) order[d] = rank - 1 - d;
    if (ext_int(r, 0, 2) == 0)
        for (int d = rank - 1; d > 0; d--) {
            int e = (int)ext_int(r, 0, d), t = order[d];
            order[d] = order[e], order[e] = t;
        }
    int64_t stride = ext_int(r, 0, 7) == 0 ? 2 : 1, last = 0;
    for (int d = 0; d < rank; d++) {
        out[order[d]] = stride;
        last += stride * (sizes[order[d]] > 0 ? sizes[order[d]] - 1 : 0);
        stride *= sizes[order[d]] > 0 ? sizes[order[d]] : 1;
        if (ext_int(r, 0, 5) == 0) stride += ext_int(r, 0, 3);
    }
    return last + 1;
}

/* Turns some dimensions around, now and then: their strides become negative. Returns how many
 * elements lie before the first. */
HN_UNUSED static int64_t ext_random_turns(ext_random *r, const int64_t *sizes, int rank,
                                          int64_t *strides) {
    int64_t before = 0;
    if (ext_int(r, 0, 2)) return 0;
    for (int d = 0; d < rank; d++) {
        if (ext_int(r, 0, 1)) continue;
        before += sizes[d] > 0 ? (sizes[d] - 1) * strides[d] : 0;
        strides[d] = -strides[d];
    }
    return before;
}

/* Where an operand with so many elements before its first one points to. */
HN_UNUSED static void *ext_first(void *memory, uint8_t dtype, int64_t before) {
    return memory ? (char *)memory + (size_t)before * ext_bytes(dtype) : NULL;
}

/* Prepares with `impl` as hn_ext_prepare does, runs once, releases. Returns whether the
 * implementation took the case. */
static bool ext_run_with(hn_ext_call *call, const hn_ext_impl *impl) {
    hn_ext_shared *shared = NULL;
    void *given[HN_EXT_MAX_OPERANDS];
    EXPECT_OK(hn_ext_shared_create(&shared));
    call->shared = shared, call->state = NULL, call->scratch_bytes = 0, call->impl = impl;
    memcpy(given, call->operands, sizeof given);
    for (int i = 0; i < HN_EXT_MAX_OPERANDS; i++)
        if (!call->is_constant[i]) call->operands[i] = NULL;
    hn_status status = impl->prepare(call);
    memcpy(call->operands, given, sizeof given);
    bool taken = status == NULL;
    if (status && hn_status_code(status) != HN_UNSUPPORTED)
        HN_TEST_FAIL("prepare: %s", hn_status_message(status));
    hn_status_free(status);
    if (taken) {
        void *scratch =
            call->scratch_bytes ? aligned_alloc(64, (call->scratch_bytes + 63) / 64 * 64) : NULL;
        /* NaN: nothing may count on its content */
        if (scratch) memset(scratch, 0xff, call->scratch_bytes);
        EXPECT_OK(impl->run(call, scratch));
        if (impl->release) impl->release(call);
        free(scratch);
    }
    hn_ext_shared_destroy(shared);
    return taken;
}

/* Whether two results agree: NaN and infinities alike, numbers within the tolerance. */
HN_UNUSED static bool ext_close(double x, double want, double absolute, double relative) {
    if (isnan(want) || isnan(x)) return isnan(want) && isnan(x);
    if (isinf(want) || isinf(x)) return x == want;
    return fabs(x - want) <= absolute + relative * fabs(want);
}

#endif
