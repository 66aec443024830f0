/* standin_stats.h: kernels of src/runtime/tensor_stats.cu, run by the CPU. */
#ifndef HN_TESTS_STANDIN_STATS_H
#define HN_TESTS_STANDIN_STATS_H

#include <stdint.h>

/* All groups. `args`: the numbers behind the memories and the status. */
void standin_stats(unsigned char *x, unsigned char *parts, unsigned groups, const uint64_t *args);
void standin_stats_join(unsigned char *parts, uint64_t groups);

#endif
