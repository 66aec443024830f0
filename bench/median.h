/* median.h: the figure that the benchmarks report. */
#ifndef HN_BENCH_MEDIAN_H
#define HN_BENCH_MEDIAN_H

#include <stddef.h>
#include <stdlib.h>

static int median_by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Sorts `values`; of an even count the lower of the two in the middle. count >= 1. */
static inline double median(double *values, size_t count) {
    qsort(values, count, sizeof *values, median_by_value);
    return values[(count - 1) / 2];
}

#endif
