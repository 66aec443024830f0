/* compare.c: see compare.h. */
#include "interp/compare.h"

#include "ir/loop_interp.h"

#include <math.h>
#include <string.h>

/* Bits of the significand, and the exponent of the least normal number. */
static const struct format {
    int bits, least;
} formats[HN_DTYPE_COUNT] = {[HN_DTYPE_F64] = {53, -1022},
                             [HN_DTYPE_F32] = {24, -126},
                             [HN_DTYPE_F16] = {11, -14},
                             [HN_DTYPE_BF16] = {8, -126}};

double hn_ulp_of(hn_dtype dtype, double value) {
    const struct format f = formats[dtype];
    int exponent = f.least;
    if (!f.bits) return 1;
    if (value != 0 && ilogb(value) > exponent) exponent = ilogb(value);
    return ldexp(1, exponent - (f.bits - 1));
}

/* Whole numbers up to 2^53 are exact, and beyond that nearly. */
static double value_at(hn_dtype dtype, const uint8_t *bytes) {
    const hn_ref_elem e = hn_ref_elem_read(dtype, bytes);
    return hn_dtype_is_float(dtype) ? e.f : (double)e.i;
}

/* INFINITY where just one is no number, or both are infinities of other signs. */
static double difference(double got, double want) {
    if (got == want || (isnan(got) && isnan(want))) return 0;
    return isfinite(got) && isfinite(want) ? fabs(got - want) : INFINITY;
}

static void add(hn_dtype dtype, int64_t at, double got, double want, double *worst,
                hn_comparison *c) {
    const double d = difference(got, want),
                 ulp = isfinite(d) && d > 0 ? d / hn_ulp_of(dtype, want) : d;
    c->sum_ulp += ulp;
    if (ulp > c->max_ulp) c->max_ulp = ulp;
    if (d <= *worst && at) return;
    *worst = d;
    c->worst = at, c->got = got, c->want = want;
}

/* Nothing is wanted but zeros: no value says how large a difference is. */
static void measure_by_one(hn_dtype dtype, double worst, hn_comparison *c) {
    const double scale = hn_ulp_of(dtype, 0) / hn_ulp_of(dtype, 1);
    c->max_rel = NAN;
    c->rel_ulp = worst / hn_ulp_of(dtype, 1);
    c->max_ulp *= scale;
    c->sum_ulp *= scale;
}

void hn_compare_memory(hn_dtype dtype, const uint8_t *got, const uint8_t *want, int64_t bytes,
                       hn_comparison *out) {
    const int64_t size = hn_dtype_facts(dtype)->size_bytes;
    double worst = 0, largest = 0;
    *out = (hn_comparison){.elems = bytes / size};
    for (int64_t k = 0; k < out->elems; k++) {
        const double w = value_at(dtype, want + k * size);
        if (isfinite(w) && fabs(w) > largest) largest = fabs(w);
        if (k && memcmp(got + k * size, want + k * size, (size_t)size) == 0) continue;
        add(dtype, k, value_at(dtype, got + k * size), w, &worst, out);
    }
    out->max_rel = !worst ? 0 : largest ? worst / largest : INFINITY;
    out->rel_ulp = !worst ? 0 : worst / hn_ulp_of(dtype, largest);
    if (worst && !largest && isfinite(worst)) measure_by_one(dtype, worst, out);
}

void hn_comparison_index(int64_t at, uint32_t rank, const int64_t *sizes, const int64_t *strides,
                         int64_t *out_index) {
    bool done[HN_MAX_RANK] = {false};
    for (uint32_t round = 0; round < rank && round < HN_MAX_RANK; round++) {
        uint32_t d = rank;
        for (uint32_t k = 0; k < rank; k++)
            if (!done[k] && (d == rank || strides[k] > strides[d])) d = k;
        done[d] = true;
        out_index[d] = strides[d] > 0 && sizes[d] > 1 ? at / strides[d] : 0;
        if (sizes[d] > 0 && out_index[d] >= sizes[d]) out_index[d] = sizes[d] - 1;
        at -= out_index[d] * strides[d];
    }
}
