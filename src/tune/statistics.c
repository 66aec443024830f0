/* statistics.c: see the header. */
#include "tune/statistics.h"

#include <math.h>
#include <stdlib.h>

static int by_value(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

uint32_t hn_interval_rank(uint32_t count, double confidence) {
    const double error = (1 - confidence) / 2;
    double term = ldexp(1, -(int)count), below = term; /* P(B = k), P(B <= k) */
    uint32_t k = 0;
    while (k < count / 2 && below <= error) {
        term *= (double)(count - k) / (double)(k + 1);
        below += term;
        k++;
    }
    return k;
}

static double middle_of(const double *sorted, uint32_t count) {
    return (sorted[(count - 1) / 2] + sorted[count / 2]) / 2;
}

hn_interval hn_interval_of(double *values, uint32_t count, double confidence) {
    if (!count) return (hn_interval){.high = INFINITY};
    qsort(values, count, sizeof *values, by_value);
    const uint32_t rank = hn_interval_rank(count, confidence), first = rank ? rank - 1 : 0;
    return (hn_interval){.median = middle_of(values, count),
                         .low = values[first],
                         .high = values[count - 1 - first],
                         .is_known = rank > 0};
}

double hn_spread_of(const double *sorted, uint32_t count) {
    const double middle = count ? middle_of(sorted, count) : 0;
    if (!(middle > 0)) return 0;
    return (sorted[(count - 1) * 3 / 4] - sorted[(count - 1) / 4]) / middle;
}
