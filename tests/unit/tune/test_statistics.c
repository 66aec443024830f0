/* test_statistics.c: medians and their intervals, against numbers by hand and against all samples of a
 * fair coin. */
#include "tune/statistics.h"

#include "unit/harness.h"

TEST(ranks_are_those_of_the_sign_test) {
    /* 2 * 0.5^8 = 0.0078; 2 * (1 + 12) / 2^12 = 0.0063; 2 * (1 + 11) / 2^11 = 0.0117 */
    EXPECT_INT(hn_interval_rank(7, 0.99), 0);
    EXPECT_INT(hn_interval_rank(8, 0.99), 1);
    EXPECT_INT(hn_interval_rank(11, 0.99), 1);
    EXPECT_INT(hn_interval_rank(12, 0.99), 2);
    EXPECT_INT(hn_interval_rank(5, 0.95), 0);
    EXPECT_INT(hn_interval_rank(6, 0.95), 1);
    EXPECT_INT(hn_interval_rank(9, 0.95), 2);
    EXPECT_INT(hn_interval_rank(0, 0.95), 0);
    /* tables of the sign test, two-sided, 0.01 */
    EXPECT_INT(hn_interval_rank(25, 0.99), 6);
    EXPECT_INT(hn_interval_rank(100, 0.99), 37);
}

static double choose(uint32_t n, uint32_t k) {
    double product = 1;
    for (uint32_t i = 0; i < k; i++) product *= (double)(n - i) / (double)(i + 1);
    return product;
}

/* Below the rank there is no more than the error, and with one more there would be. */
TEST(ranks_are_the_largest_that_the_error_allows) {
    const double confidences[] = {0.6, 0.9, 0.95, 0.99, 0.9999};
    for (uint32_t n = 1; n <= 60; n++)
        for (int c = 0; c < 5; c++) {
            const double error = 1 - confidences[c];
            const uint32_t rank = hn_interval_rank(n, confidences[c]);
            double below = 0;
            for (uint32_t k = 0; k < rank; k++) below += choose(n, k) / ldexp(1, (int)n);
            EXPECT(2 * below <= error * (1 + 1e-9));
            below += choose(n, rank) / ldexp(1, (int)n);
            EXPECT(2 * below > error * (1 - 1e-9) || rank >= n / 2);
        }
}

TEST(many_values_do_not_underflow) {
    EXPECT_INT(hn_interval_rank(1000, 0.99), 459);
    EXPECT_INT(hn_interval_rank(999, 0.99), 459);
}

TEST(an_interval_is_of_the_sorted_values) {
    double values[] = {5, 1, 9, 3, 7, 8, 2, 4, 6, 12, 11, 10};
    hn_interval i = hn_interval_of(values, 12, 0.99);
    EXPECT(i.is_known);
    EXPECT_NEAR(i.median, 6.5, 0);
    EXPECT_NEAR(i.low, 2, 0);
    EXPECT_NEAR(i.high, 11, 0);
    i = hn_interval_of(values, 9, 0.95);
    EXPECT_NEAR(i.median, 5, 0);
    EXPECT_NEAR(i.low, 2, 0);
    EXPECT_NEAR(i.high, 8, 0);
}

TEST(of_too_few_values_the_interval_is_all) {
    double values[] = {3, 1, 2};
    hn_interval i = hn_interval_of(values, 3, 0.95);
    EXPECT(!i.is_known);
    EXPECT_NEAR(i.median, 2, 0);
    EXPECT_NEAR(i.low, 1, 0);
    EXPECT_NEAR(i.high, 3, 0);
    i = hn_interval_of(values, 0, 0.95);
    EXPECT(!i.is_known && i.low == 0 && isinf(i.high));
}

TEST(a_spread_is_the_middle_half) {
    const double sorted[] = {1, 8, 10, 12, 100};
    EXPECT_NEAR(hn_spread_of(sorted, 5), 0.4, 1e-15);
    EXPECT_NEAR(hn_spread_of(sorted, 1), 0, 0);
    EXPECT_NEAR(hn_spread_of(sorted, 0), 0, 0);
}

TEST_MAIN
