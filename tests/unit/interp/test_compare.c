/* test_compare.c: errors of memory against memory. */
#include "unit/harness.h"

#include "interp/compare.h"

#include <math.h>

static hn_comparison compare(const float *got, const float *want, int64_t count) {
    hn_comparison c;
    hn_compare_memory(HN_DTYPE_F32, (const uint8_t *)got, (const uint8_t *)want,
                      count * (int64_t)sizeof *got, &c);
    return c;
}

TEST(errors_by_the_largest_value) {
    const float want[] = {1, 4}, got[] = {1, 4 + 4 * 0x1p-21f};
    const hn_comparison c = compare(got, want, 2);
    EXPECT_INT(c.worst, 1);
    EXPECT(c.max_rel == 0x1p-21 && c.rel_ulp == 4 && c.max_ulp == 4);
}

/* 1e-9 where zeros are wanted is no fault, and 0.5 is one. */
TEST(zeros_are_measured_by_one) {
    const float zeros[] = {0, 0, 0}, rounding[] = {0, 0x1p-30f, 0}, wrong[] = {0, 0.5f, -0.25f};
    const hn_comparison small = compare(rounding, zeros, 3), large = compare(wrong, zeros, 3);
    EXPECT(isnan(small.max_rel) && isnan(large.max_rel));
    EXPECT(small.rel_ulp == 0x1p-7 && small.max_ulp == 0x1p-7);
    EXPECT(large.rel_ulp == 0x1p22 && large.max_ulp == 0x1p22);
    EXPECT(large.sum_ulp == 0x1.8p22);
    EXPECT_INT(large.worst, 1);
}

TEST(equal_zeros_and_numbers_that_are_none) {
    const float zeros[] = {0, 0}, minus[] = {0, -0.0f}, none[] = {0, NAN};
    const hn_comparison equal = compare(minus, zeros, 2), nan = compare(none, zeros, 2);
    EXPECT(equal.max_rel == 0 && equal.rel_ulp == 0 && equal.max_ulp == 0);
    EXPECT(isinf(nan.max_rel) && isinf(nan.rel_ulp));
}

TEST(whole_numbers_differ_by_themselves) {
    const int32_t zeros[] = {0, 0}, got[] = {0, 3};
    hn_comparison c;
    hn_compare_memory(HN_DTYPE_I32, (const uint8_t *)got, (const uint8_t *)zeros, sizeof got, &c);
    EXPECT(isnan(c.max_rel) && c.rel_ulp == 3 && c.max_ulp == 3);
}

TEST_MAIN
