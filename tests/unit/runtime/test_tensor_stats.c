/* test_tensor_stats.c: statistics of tensors of every type and layout, against plain loops. */
#include "runtime/tensor_stats.h"

#include "unit/harness.h"

#include <math.h>
#include <stdlib.h>

enum { MOST = 1 << 20 };

static hn_tensor_stats stats_of(hn_scalar_type type, uint32_t rank, const int64_t *sizes,
                                const int64_t *strides, const void *data) {
    static hn_team team;
    hn_tensor_stats one, many;
    const hn_stats_tensor t = {type, rank, sizes, strides, data};
    hn_tensor_stats_get(&t, NULL, 1, &one);
    hn_tensor_stats_get(&t, &team, 4, &many);
    hn_team_end(&team);
    EXPECT(one.count == many.count && one.nan_count == many.nan_count &&
           one.inf_count == many.inf_count && one.first_bad == many.first_bad);
    EXPECT((one.min == many.min && one.max == many.max) || (isnan(one.min) && isnan(many.min)));
    EXPECT(!(fabs(one.std - many.std) > 1e-9 * one.std));
    return one;
}

/* The same by definition, of elements as doubles in row-major order. */
static hn_tensor_stats expected(const double *x, int64_t count) {
    hn_tensor_stats s = {.count = count, .first_bad = -1, .min = INFINITY, .max = -INFINITY};
    long double sum = 0, squares = 0;
    int64_t finite = 0;
    for (int64_t k = 0; k < count; k++) {
        s.nan_count += isnan(x[k]);
        s.inf_count += isinf(x[k]) != 0;
        if (!isfinite(x[k])) {
            if (s.first_bad < 0) s.first_bad = k;
            continue;
        }
        finite++;
        sum += x[k];
        s.min = fmin(s.min, x[k]);
        s.max = fmax(s.max, x[k]);
    }
    s.mean = (double)(sum / finite);
    for (int64_t k = 0; k < count; k++)
        if (isfinite(x[k])) squares += ((long double)x[k] - s.mean) * ((long double)x[k] - s.mean);
    s.std = sqrt((double)(squares / finite));
    return s;
}

static void expect_same(const hn_tensor_stats *got, const hn_tensor_stats *want) {
    EXPECT_INT(got->count, want->count);
    EXPECT_INT(got->nan_count, want->nan_count);
    EXPECT_INT(got->inf_count, want->inf_count);
    EXPECT_INT(got->first_bad, want->first_bad);
    EXPECT(got->min == want->min && got->max == want->max);
    EXPECT(fabs(got->mean - want->mean) <= 1e-6 * (fabs(want->mean) + want->std));
    EXPECT(fabs(got->std - want->std) <= 1e-5 * want->std);
}

static double noise(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (double)(int64_t)(*state >> 11) / 4503599627370496.0 - 1; /* [-1, 1) */
}

TEST(floats_of_many_counts) {
    static const int64_t counts[] = {1, 2, 15, 16, 17, 2047, 2048, 2049, 5000, 300000, MOST};
    static float x[MOST];
    static double wide[MOST];
    uint64_t state = 1;
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++)
        for (int bad = 0; bad < 3; bad++) {
            const int64_t n = counts[c];
            for (int64_t k = 0; k < n; k++) x[k] = (float)(1000 + noise(&state));
            if (bad && n > 4) x[n / 2] = NAN, x[n / 2 + 1] = -INFINITY;
            if (bad == 2 && n > 4) x[0] = INFINITY, x[n - 1] = NAN;
            for (int64_t k = 0; k < n; k++) wide[k] = (double)x[k];
            const hn_tensor_stats got = stats_of(HN_F32, 1, &n, (int64_t[]){1}, x),
                                  want = expected(wide, n);
            expect_same(&got, &want);
        }
}

TEST(numbers_near_the_end_of_the_range) {
    const float x[4] = {3e38f, 3e38f, -3e38f, 3e38f};
    const hn_tensor_stats s = stats_of(HN_F32, 1, (int64_t[]){4}, (int64_t[]){1}, x);
    EXPECT(s.first_bad < 0 && s.inf_count == 0 && s.nan_count == 0);
    EXPECT(s.max == (double)3e38f && fabs(s.mean / 1.5e38 - 1) < 1e-6);
    EXPECT(fabs(s.std / 2.598e38 - 1) < 1e-3);
    const double y[2] = {1e308, 1e308}; /* their sum is infinite */
    const hn_tensor_stats t = stats_of(HN_F64, 1, (int64_t[]){2}, (int64_t[]){1}, y);
    EXPECT(t.inf_count == 0 && t.mean == 1e308 && t.std == 0);
}

/* The ends of the range are further apart than any number; the squares of small distances are less
 * than the smallest float. */
TEST(very_far_apart_and_very_near) {
    const double far[3] = {-1.7e308, 1.7e308, NAN};
    const hn_tensor_stats s = stats_of(HN_F64, 1, (int64_t[]){3}, (int64_t[]){1}, far);
    EXPECT(s.nan_count == 1 && s.mean == 0 && isinf(s.std));
    const float near[4] = {1e-30f, 3e-30f, 1e-30f, 3e-30f};
    const hn_tensor_stats t = stats_of(HN_F32, 1, (int64_t[]){4}, (int64_t[]){1}, near);
    EXPECT(fabs(t.mean / 2e-30 - 1) < 1e-6 && fabs(t.std / 1e-30 - 1) < 1e-6);
}

#define EXPECT_STATS(s, n, lo, hi, middle)                                                         \
    EXPECT((s).count == (n) && (s).min == (lo) && (s).max == (hi) && (s).mean == (middle))

TEST(every_type) {
    const int64_t n = 4, one = 1;
    const double f64[] = {-1, 2, 3, 4};
    const uint16_t f16[] = {0xbc00, 0x4000, 0x0001, 0x7c00}; /* -1, 2, the smallest, infinity */
    const uint16_t bf16[] = {0xbf80, 0x4000, 0x7fc0, 0x0000};
    const int64_t i64[] = {-9000000000, 1, 2, 3};
    const int32_t i32[] = {-5, 1, 2, 6};
    const int16_t i16[] = {-32768, 32767, 0, 1};
    const int8_t i8[] = {-128, 127, 0, 1};
    const uint8_t u8[] = {255, 1, 0, 0}, bools[] = {1, 0, 2, 0};
    EXPECT_STATS(stats_of(HN_F64, 1, &n, &one, f64), 4, -1, 4, 2);
    hn_tensor_stats s = stats_of(HN_F16, 1, &n, &one, f16);
    EXPECT(s.min == -1 && s.max == 2 && s.inf_count == 1 && s.first_bad == 3 &&
           s.first_bad_value == INFINITY);
    s = stats_of(HN_BF16, 1, &n, &one, bf16);
    EXPECT(s.min == -1 && s.max == 2 && s.nan_count == 1 && s.first_bad == 2);
    s = stats_of(HN_I64, 1, &n, &one, i64);
    EXPECT(s.min == -9e9 && s.max == 3 && s.first_bad == -1);
    EXPECT_STATS(stats_of(HN_I32, 1, &n, &one, i32), 4, -5, 6, 1);
    EXPECT_STATS(stats_of(HN_I16, 1, &n, &one, i16), 4, -32768, 32767, 0);
    EXPECT_STATS(stats_of(HN_I8, 1, &n, &one, i8), 4, -128, 127, 0);
    EXPECT_STATS(stats_of(HN_U8, 1, &n, &one, u8), 4, 0, 255, 64);
    EXPECT_STATS(stats_of(HN_BOOL, 1, &n, &one, bools), 4, 0, 1, 0.5);
    EXPECT(stats_of(HN_BOOL, 1, &n, &one, bools).std == 0.5);
}

/* Each half as a float, by what the bits mean. */
TEST(every_half) {
    for (uint32_t bits = 0; bits < 0x10000; bits++) {
        const uint16_t h = (uint16_t)bits;
        const int exponent = (int)(bits >> 10 & 31), fraction = (int)(bits & 1023);
        const double sign = bits & 0x8000 ? -1 : 1;
        const double value = exponent == 0 ? sign * ldexp(fraction, -24)
                                           : sign * ldexp(1024 + fraction, exponent - 25);
        const hn_tensor_stats s = stats_of(HN_F16, 0, NULL, NULL, &h);
        if (exponent == 31)
            EXPECT(fraction ? s.nan_count == 1 : s.first_bad_value == sign * INFINITY);
        else EXPECT(s.min == value);
    }
}

TEST(scalars_and_empty_tensors) {
    const float x = -7;
    hn_tensor_stats s = stats_of(HN_F32, 0, NULL, NULL, &x);
    EXPECT(s.count == 1 && s.min == -7 && s.max == -7 && s.mean == -7 && s.std == 0);
    s = stats_of(HN_F32, 2, (int64_t[]){3, 0}, (int64_t[]){1, 1}, NULL);
    EXPECT(s.count == 0 && s.first_bad == -1 && isnan(s.min) && isnan(s.mean));
    const float bad[2] = {NAN, INFINITY};
    s = stats_of(HN_F32, 1, (int64_t[]){2}, (int64_t[]){1}, bad);
    EXPECT(s.nan_count == 1 && s.inf_count == 1 && isnan(s.max) && isnan(s.std));
}

/* Transposed, padded, expanded and overlapping layouts: what is between elements is not looked at,
 * and the first bad element is the first by its indices, wherever it lies. */
TEST(layouts) {
    static const struct {
        uint32_t rank;
        int64_t sizes[4], strides[4];
    } cases[] = {
        {2, {3, 5}, {1, 3}},      {2, {3, 5}, {8, 1}},
        {2, {3, 5}, {1, 7}},      {3, {2, 3, 4}, {1, 8, 2}},
        {2, {4, 3}, {0, 1}},      {2, {4, 3}, {1, 0}},
        {2, {4, 4}, {1, 1}},      {4, {2, 1, 3, 2}, {6, 9, 2, 1}},
        {2, {60, 3000}, {1, 60}}, {2, {60, 3000}, {3001, 1}},
        {1, {5000}, {2}},
    };
    static float x[400000];
    static double wide[400000];
    uint64_t state = 7;
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        const uint32_t rank = cases[c].rank;
        const int64_t *sizes = cases[c].sizes, *strides = cases[c].strides;
        int64_t count = 1;
        for (uint32_t d = 0; d < rank; d++) count *= sizes[d];
        for (int bad = 0; bad < 3; bad++) {
            for (size_t k = 0; k < 400000; k++) x[k] = NAN; /* between elements */
            for (int64_t pass = 0; pass < 2; pass++)
                for (int64_t k = 0; k < count; k++) {
                    int64_t at = 0, rest = k;
                    for (uint32_t d = rank; d-- > 0; rest /= sizes[d])
                        at += rest % sizes[d] * strides[d];
                    if (!pass) x[at] = (float)noise(&state);
                    if (!pass && bad && (k == count / 3 || k == count / 2)) x[at] = INFINITY;
                    wide[k] = (double)x[at];
                }
            const hn_tensor_stats got = stats_of(HN_F32, rank, sizes, strides, x),
                                  want = expected(wide, count);
            expect_same(&got, &want);
        }
    }
}

TEST_MAIN
