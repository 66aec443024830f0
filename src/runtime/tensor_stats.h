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

#endif
