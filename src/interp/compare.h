/* compare.h: two pieces of memory of one dtype, element by element. */
#ifndef HN_INTERP_COMPARE_H
#define HN_INTERP_COMPARE_H

#include "ir/dtype.h"

#include <stdint.h>

typedef struct hn_comparison {
    int64_t elems;
    /* of each element, in units of the last place of the value that is wanted; of whole numbers and
     * bools the difference itself */
    double max_ulp, sum_ulp;
    double max_rel; /* the largest difference over the largest value that is wanted */
    double rel_ulp; /* the same in units of the last place of that value */
    int64_t worst;  /* the element of the largest difference */
    double got, want;
} hn_comparison;

/* Equal bits are equal, as are NaNs. A NaN or an infinity where the other is not makes all of the
 * errors INFINITY; such values do not count as the largest one. Where only zeros are wanted, the units
 * are those of the number 1, and max_rel is NaN unless there is no difference. */
void hn_compare_memory(hn_dtype dtype, const uint8_t *got, const uint8_t *want, int64_t bytes,
                       hn_comparison *out);

/* One unit of the last place of numbers as large as `value`, which is finite. */
double hn_ulp_of(hn_dtype dtype, double value);

/* The coordinates of the element `at` elements behind the first of a tensor. Strides must not
 * overlap; of dimensions with stride 0 it is the first. */
void hn_comparison_index(int64_t at, uint32_t rank, const int64_t *sizes, const int64_t *strides,
                         int64_t *out_index);

#endif
