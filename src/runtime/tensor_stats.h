/* tensor_stats.h: what is in a tensor: range, mean, deviation, and numbers that are none. */
#ifndef HN_RUNTIME_TENSOR_STATS_H
#define HN_RUNTIME_TENSOR_STATS_H

#include "base/team.h"
#include "henry/tensor.h"

/* A tensor in memory that the host can read. Strides are not negative. */
typedef struct hn_stats_tensor {
    hn_scalar_type type;
    uint32_t rank;
    const int64_t *sizes, *strides; /* elements */
    const void *data;               /* of element 0; not read when there are no elements */
} hn_stats_tensor;

/* One pass over the memory, by at most `threads` threads of the team, which may be NULL. The result
 * does not depend on them but for the last digits of mean and std. */
void hn_tensor_stats_get(const hn_stats_tensor *tensor, hn_team *team, int threads,
                         hn_tensor_stats *out);

/* Elements one behind the other, as numbers: exactly but for whole ones beyond 2^53. */
void hn_stats_to_doubles(hn_scalar_type type, const void *elements, int64_t count, double *out);

/* ---- parts of it, for devices that read a tensor themselves (stats_kernels.c) ---- */

/* What is known of some elements. */
typedef struct hn_stats_part {
    int64_t finite, nan_count, inf_count;
    int64_t first_bad;            /* in the order of the walk; -1: none */
    double lo, hi, mean, squares; /* of the finite ones; squares: of distances to the mean */
} hn_stats_part;

/* In which order elements are looked at: dimensions that are joined where they can be. */
typedef struct hn_stats_walk {
    hn_scalar_type type;
    size_t elem_bytes;
    const uint8_t *data;
    uint32_t rank; /* 1 or more; the last dimension is the innermost */
    int64_t sizes[HN_TENSOR_MAX_RANK], strides[HN_TENSOR_MAX_RANK];
    bool is_row_major; /* the walk goes in the order of the tensor's indices */
    int64_t units_per_row, units;
} hn_stats_walk;

/* In the order of memory, unless that of the indices is wanted. The tensor has elements. */
void hn_stats_walk_init(hn_stats_walk *w, const hn_stats_tensor *tensor, bool in_row_major_order);
/* Statistics of nothing, but for the count. Whether there are elements. */
bool hn_stats_begin(const hn_stats_tensor *tensor, hn_tensor_stats *out);
/* All but the first bad element. */
void hn_stats_put(const hn_stats_part *all, hn_tensor_stats *out);

#endif
