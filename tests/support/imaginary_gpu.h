/* imaginary_gpu.h: a processor for tests of kernel forms. Small tensors reach its limits of the
 * schedule. */
#ifndef HN_TESTS_IMAGINARY_GPU_H
#define HN_TESTS_IMAGINARY_GPU_H

#include "kernel/facts.h"

/* Of groups of so many threads, which are so many blocks. */
#define HN_TEST_GPU(threads, blocks)                                                               \
    {                                                                                              \
        .limits = {.operations = NULL,                                                             \
                   .prologue_max_ops = 4,                                                          \
                   .prologue_max_loads = 2,                                                        \
                   .split_min_elems = 4096,                                                        \
                   .split_rows = 200,                                                              \
                   .split_strips = 200,                                                            \
                   .split_parts_max = 64,                                                          \
                   .scan_min_elems = 4096,                                                         \
                   .scan_piece_elems = 64,                                                         \
                   .column_strip = 32,                                                             \
                   .column_min_steps = 8,                                                          \
                   .long_row_elems = 256,                                                          \
                   .local_max_elems = 1024,                                                        \
                   .long_row_again_ops = 16,                                                       \
                   .mixed_slabs = 3,                                                               \
                   .mixed_slab_elems = 256,                                                        \
                   .mixed_slabs_factor = 2,                                                        \
                   .mixed_min_elems = 0,                                                           \
                   .mixed_min_rows = 0,                                                            \
                   .mixed_columns_max = 8192,                                                      \
                   .mixed_all_columns_max = 8192,                                                  \
                   .mixed_shares_slabs = true,                                                     \
                   .remade_min_bytes = 1,                                                          \
                   .again_min_bytes = 1,                                                           \
                   .segment_arguments_max = 40,                                                    \
                   .segment_waiting_bytes = 4096,                                                  \
                   .segment_vector_elems = 8},                                                     \
        .warp = 32, .shuffle = 32, .threads_max = (threads), .blocks_max = (blocks),               \
        .blocks_row_elems = 256, .shared_bytes = 48 << 10, .shared_all_bytes = 192 << 10,          \
        .registers = 65536, .registers_thread = 255, .vector_bytes = 16, .atomic_bytes = 8,        \
        .multiprocessors = 132, .resident = 2048, .groups = 32, .bytes_per_ns = 3000,              \
        .cache_bytes_per_ns = 6000, .latency_ns = 800, .flight_bytes = 40 << 10,                   \
        .ops_per_ns = 30000, .launch_ns = 3000, .barrier_ns = 20, .blocks_ns = 400                 \
    }

static const hn_gpu_facts hn_test_gpu = HN_TEST_GPU(1024, 1);

#endif
