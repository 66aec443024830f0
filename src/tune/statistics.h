/* statistics.h: medians, and the interval that a median lies in, by order statistics.
 *
 * Of n values that are drawn from any distribution, the number of those below its median is
 * binomial (n, 1/2). So the k-th smallest and the k-th largest value have the median between them but
 * for a probability of 2 P(B < k): the interval of the sign test. */
#ifndef HN_TUNE_STATISTICS_H
#define HN_TUNE_STATISTICS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct hn_interval {
    double median, low, high; /* of no values: 0, 0, INFINITY */
    bool is_known;            /* there are enough values for the confidence; else low and high are
                                 the smallest and the largest value */
} hn_interval;

/* The largest k with 2 P(B < k) <= 1 - confidence; 0: there is none. count <= 1000. */
uint32_t hn_interval_rank(uint32_t count, double confidence);
/* Sorts `values`. The median of an even count is the mean of the two in the middle. */
hn_interval hn_interval_of(double *values, uint32_t count, double confidence);
/* The share of the median that the middle half of the values takes: from the value at a quarter of
 * the count to that at three quarters. `sorted` is. 0 of no values. */
double hn_spread_of(const double *sorted, uint32_t count);

#endif
