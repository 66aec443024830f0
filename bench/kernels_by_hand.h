/* kernels_by_hand.h: the kernels of kernels.c as a person writes them: explicit vectors, as many
 * accumulators as the latency of an add wants, stores that bypass the caches where they pay. What
 * generated code is measured against. */
#ifndef HN_BENCH_KERNELS_BY_HAND_H
#define HN_BENCH_KERNELS_BY_HAND_H

#include <stdbool.h>
#include <stdint.h>

/* Shapes: arrays are row-major [rows, cols] unless a kernel says otherwise; pointers are 64-byte
 * aligned and cols is a multiple of 64. */
typedef struct hand_args {
    const float *in[3];
    const int64_t *index;
    float *out;
    int64_t rows, cols, depth;
    bool streaming; /* stores bypass the caches */
} hand_args;

/* Does the part [begin, end) of `hand_extent` units. */
typedef void hand_fn(const hand_args *a, int64_t begin, int64_t end);

hand_fn hand_softmax, hand_layer_norm, hand_silu, hand_sum_rows; /* units: rows */
hand_fn hand_sum_columns;                                        /* units: 64 columns */
/* units: 16 rows of the output */
hand_fn hand_transpose, hand_add_transposed;
hand_fn hand_cat, hand_embedding, hand_gather; /* units: rows of the output */
hand_fn hand_copy;                             /* units: rows */
/* Reads everything, in four streams a quarter apart, and writes one number: what memory gives to a
 * loop that only reads. */
/* units: rows, a multiple of 4 a thread */
hand_fn hand_read;

/* All units, in as many parts as threads, by a team such as Henry's own kernels have. Threads: one at a
 * time. */
void hand_run(hand_fn *fn, const hand_args *a, int64_t units, int threads);

#endif
