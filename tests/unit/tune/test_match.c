/* test_match.c: results that are right, and made-up elements. */
#include "tune/match.h"

#include "ir/dtype.h"
#include "ir/loop_interp.h"
#include "tune/subject.h"
#include "unit/harness.h"

#include <stdlib.h>

static bool match(hn_scalar_type type, const void *got, const void *want, int64_t count) {
    hn_strbuf why;
    hn_strbuf_init(&why);
    const bool good = hn_elements_match(type, got, want, count, &why);
    EXPECT(good == (why.len == 0));
    hn_strbuf_deinit(&why);
    return good;
}

TEST(floats_are_near_by_the_largest) {
    const float want[] = {100, 0, -3}, near[] = {100.01f, 0.01f, -3.01f}, far[] = {100, 0.02f, -3};
    EXPECT_NEAR(hn_match_tolerance(HN_F32, 100), 100 * (1.3e-6 * 100 + 1e-8), 1e-12);
    EXPECT(match(HN_F32, near, want, 3));
    EXPECT(!match(HN_F32, far, want, 3));
}

TEST(what_is_no_number_has_to_be_the_same) {
    const double want[] = {1, NAN, INFINITY}, same[] = {1, -NAN, INFINITY},
                 finite[] = {1, NAN, 1e300}, other[] = {1, NAN, -INFINITY},
                 nan[] = {NAN, NAN, INFINITY};
    EXPECT(match(HN_F64, same, want, 3));
    EXPECT(!match(HN_F64, finite, want, 3));
    EXPECT(!match(HN_F64, other, want, 3));
    EXPECT(!match(HN_F64, nan, want, 3));
}

TEST(whole_numbers_have_to_be_equal) {
    const int64_t want[] = {(INT64_C(1) << 60) + 1, 5}, got[] = {(INT64_C(1) << 60) + 2, 5};
    EXPECT(match(HN_I64, want, want, 2));
    EXPECT(!match(HN_I64, got, want, 2)); /* equal as doubles */
    const uint8_t yes[] = {1}, no[] = {0};
    EXPECT(!match(HN_BOOL, yes, no, 1));
    EXPECT(match(HN_I8, NULL, NULL, 0));
}

TEST(the_element_is_named) {
    float want[3000] = {0}, got[3000] = {0};
    hn_strbuf why;
    hn_strbuf_init(&why);
    want[7] = got[7] = 2;
    got[2500] = 1;
    EXPECT(!hn_elements_match(HN_F32, (uint8_t *)got, (uint8_t *)want, 3000, &why));
    EXPECT_STR(why.ptr, "element 2500 in memory is 1, not 0");
    hn_strbuf_deinit(&why);
}

/* ---- made-up elements ---- */

enum { COUNT = 4099 };

static void look(const hn_bench_arg *arg, hn_made_up how, double *out_lo, double *out_hi,
                 double *out_mean) {
    static uint8_t bytes[8 * COUNT];
    const size_t size = hn_scalar_type_bytes(arg->type);
    double sum = 0;
    *out_lo = INFINITY, *out_hi = -INFINITY;
    hn_make_up(arg, how, 3, bytes, size * COUNT);
    for (size_t k = 0; k < COUNT; k++) {
        const hn_ref_elem e = hn_ref_elem_read((hn_dtype)arg->type, bytes + k * size);
        const bool is_float = hn_dtype_is_float((hn_dtype)arg->type);
        const double v = is_float ? e.f : (double)e.i;
        if (is_float) EXPECT(fabs(v) >= 0.5 && fabs(v) < 2);
        if (v < *out_lo) *out_lo = v;
        if (v > *out_hi) *out_hi = v;
        sum += v;
    }
    *out_mean = sum / COUNT;
}

TEST(floats_are_of_ordinary_size) {
    const hn_scalar_type types[] = {HN_F64, HN_F32, HN_F16, HN_BF16};
    for (int k = 0; k < 4; k++) {
        double lo, hi, mean;
        const hn_bench_arg arg = {.type = types[k]};
        look(&arg, HN_MADE_SIGNED, &lo, &hi, &mean);
        EXPECT(lo < -1.9 && hi > 1.9 && fabs(mean) < 0.1);
        look(&arg, HN_MADE_POSITIVE, &lo, &hi, &mean);
        EXPECT(lo < 0.51 && lo >= 0.5 && mean > 1 && mean < 1.25);
    }
}

TEST(whole_numbers_are_small_and_indices_fill_their_range) {
    const hn_scalar_type types[] = {HN_I64, HN_I32, HN_I16, HN_I8, HN_U8};
    const int64_t limits[] = {INT64_C(1) << 40, 1 << 20, 1 << 20, 100, 300};
    const double top[] = {1e12, 1e6, 32767, 99, 255};
    for (int k = 0; k < 5; k++) {
        double lo, hi, mean;
        hn_bench_arg arg = {.type = types[k]};
        look(&arg, HN_MADE_SIGNED, &lo, &hi, &mean);
        EXPECT(lo == 1 && hi == 7);
        look(&arg, HN_MADE_ZERO, &lo, &hi, &mean);
        EXPECT(lo == 0 && hi == 0);
        arg.index_limit = limits[k];
        for (int how = 0; how < HN_MADE_COUNT; how++) {
            look(&arg, (hn_made_up)how, &lo, &hi, &mean);
            EXPECT(lo >= 0 && hi < (double)limits[k] && hi <= top[k] * 1.1 && hi > 0.95 * top[k]);
        }
        arg.index_limit = 1;
        look(&arg, HN_MADE_SIGNED, &lo, &hi, &mean);
        EXPECT(lo == 0 && hi == 0);
    }
    double lo, hi, mean;
    look(&(hn_bench_arg){.type = HN_BOOL}, HN_MADE_SIGNED, &lo, &hi, &mean);
    EXPECT(lo == 0 && hi == 1 && fabs(mean - 0.5) < 0.05);
}

TEST_MAIN
