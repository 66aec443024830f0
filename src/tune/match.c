/* match.c: whether results are right. */
#include "tune/match.h"

#include "runtime/tensor_stats.h"

#include <math.h>
#include <string.h>

enum { BLOCK = 1024 };

/* Of assert_close. */
static const struct tolerance {
    double rtol, atol;
} tolerances[] = {
#define HN_DTYPE(name, text, bytes, category, c_type, npy, pt2, rtol, atol)                        \
    [HN_##name] = {rtol, atol},
#include "ir/dtypes.def"
#undef HN_DTYPE
};

static bool is_float(hn_scalar_type type) { return tolerances[type].rtol > 0; }

double hn_match_tolerance(hn_scalar_type type, double largest) {
    const struct tolerance *t = &tolerances[type];
    return (hn_scalar_type_bytes(type) == 2 ? 4 : 100) * (t->rtol * largest + t->atol * 1e-3);
}

static double largest_of(hn_scalar_type type, const uint8_t *want, int64_t count) {
    double values[BLOCK], largest = 0;
    const size_t size = hn_scalar_type_bytes(type);
    for (int64_t at = 0; at < count; at += BLOCK) {
        const int64_t n = count - at < BLOCK ? count - at : BLOCK;
        hn_stats_to_doubles(type, want + (size_t)at * size, n, values);
        for (int64_t k = 0; k < n; k++)
            if (isfinite(values[k]) && fabs(values[k]) > largest) largest = fabs(values[k]);
    }
    return largest;
}

static bool is_near(double got, double want, double tolerance) {
    if (got == want || (isnan(got) && isnan(want))) return true;
    return fabs(got - want) <= tolerance; /* not where one is NaN or infinite */
}

static bool mismatch(int64_t at, double got, double want, hn_strbuf *why) {
    hn_strbuf_printf(why, "element %lld in memory is %.9g, not %.9g", (long long)at, got, want);
    return false;
}

bool hn_elements_match(hn_scalar_type type, const uint8_t *got, const uint8_t *want, int64_t count,
                       hn_strbuf *why) {
    double a[BLOCK], b[BLOCK];
    const size_t size = hn_scalar_type_bytes(type);
    if (!count || memcmp(got, want, (size_t)count * size) == 0) return true;
    const double tolerance =
        is_float(type) ? hn_match_tolerance(type, largest_of(type, want, count)) : 0;
    for (int64_t at = 0; at < count; at += BLOCK) {
        const int64_t n = count - at < BLOCK ? count - at : BLOCK;
        const uint8_t *x = got + (size_t)at * size, *y = want + (size_t)at * size;
        hn_stats_to_doubles(type, x, n, a);
        hn_stats_to_doubles(type, y, n, b);
        for (int64_t k = 0; k < n; k++) {
            const bool is_same = memcmp(x + (size_t)k * size, y + (size_t)k * size, size) == 0;
            if (is_same || (is_float(type) && is_near(a[k], b[k], tolerance))) continue;
            return mismatch(at + k, a[k], b[k], why);
        }
    }
    return true;
}
