/* facts.h: what the planners know of a processor. */
#ifndef HN_KERNEL_FACTS_H
#define HN_KERNEL_FACTS_H

#include <stdint.h>

/* A processor that runs groups of threads. */
typedef struct hn_gpu_facts {
    uint32_t warp;            /* threads that go together: they read memory side by side */
    uint32_t threads_max;     /* of a group */
    uint32_t shared_bytes;    /* of a group */
    uint32_t multiprocessors; /* groups run on each of them at once: */
    uint32_t resident;        /* so many threads on one */
    double bytes_per_ns;      /* of memory, all multiprocessors together */
    double ops_per_ns;        /* additions of f32, likewise */
    double barrier_ns;        /* a level of a tree in shared memory */
    double launch_ns;
} hn_gpu_facts;

/* A processor with vectors and caches: its sizes, and from where on a choice of cpu.h pays. `cost` is that of ops, in additions.
 * Source, unless another is given: bench/ceilings.c, which has a loop by hand for each choice beside the plain one. */
typedef struct hn_cpu_facts {
    uint32_t line_bytes;       /* of memory */
    int64_t first_cache_bytes; /* of one core */
    int64_t second_cache_bytes;

    /* Threads. */
    int64_t grain_work;        /* elements times cost; less is not worth waking a thread (about 20 us). Source: performance.md 2.4 */
    uint32_t flat_block_elems; /* of a parallel iteration of a flat kernel */

    /* Memory. A kernel that writes more than this does so round the caches: half of a last-level cache of 32 MiB. What is
     * written with ordinary stores is first read, and would push everything else out. Copies of 16 MiB and up gain 1.6. */
    int64_t nontemporal_bytes;
    /* Arguments: accesses of one buffer at most this far apart share one; and how many a buffer gets, as they are registers. */
    uint32_t near_access_bytes;
    uint32_t bases_max;

    /* A body with this many loads of single elements (bilinear sampling has four) gains nothing from a second copy of itself,
     * and a compiler works longest on such bodies. */
    uint32_t many_gathers;

    /* Prefetches: the distance for rows that are in some cache; for rows from memory, which the first cache keeps beside the
     * row at hand; for rows that an index picks and one pass copies; and in a flat kernel. */
    int64_t ahead_cached_bytes, ahead_memory_bytes, ahead_picked_bytes;
    uint32_t ahead_flat_elems;
    int64_t rows_ahead_max;
    /* A phase of this cost has room for prefetches; before it comes to that, the last one, which stores, has. */
    uint32_t busy_cost;
    /* A gathered row of up to this many times the loop's length is asked for as a whole. */
    int64_t gather_sparseness;

    /* Pipelined rows: the cost of the phase before the last one. A cheaper one is no arithmetic to speak of. */
    uint32_t pipelined_cost_min;

    /* Split streams: bytes read from rows, how many rows at once, and the cost of a phase that only reads. */
    int64_t split_min_bytes;
    uint32_t split_streams, split_cost_max;

    /* Strips of column sums. A strip of results stays in the first cache. Long strips read memory best; short ones share out
     * better when there is nothing else to share. Source: bench/kernels.c, "sum of columns": 2.3 times as fast from memory,
     * and 1.25 for the distance between the rows of a step. */
    int64_t strip_min_cols, strip_min_rows;
    uint32_t strip_cols_long, strip_cols_short;
    uint32_t strip_step; /* rows at a time */

    /* Tiles. A wide one takes a cache's worth of memory and makes fewer parts for threads: at least so many. */
    int64_t tile_min_elems; /* along each of the two variables */
    int64_t wide_tile_parts_min;
    uint32_t tile_rows_ahead; /* prefetched: no more, because rows a power of two apart share the sets of a cache */
} hn_cpu_facts;

static const hn_cpu_facts hn_cpu_facts_common = {
    .line_bytes = 64,
    .first_cache_bytes = 32 << 10,
    .second_cache_bytes = 1 << 19,
    .grain_work = 40000,
    .flat_block_elems = 1024,
    .nontemporal_bytes = 16 << 20,
    .near_access_bytes = 256,
    .bases_max = 4,
    .many_gathers = 4,
    .ahead_cached_bytes = 4 << 10,
    .ahead_memory_bytes = 8 << 10,
    .ahead_picked_bytes = 16 << 10,
    .ahead_flat_elems = 512,
    .rows_ahead_max = 64,
    .busy_cost = 12,
    .gather_sparseness = 2,
    .pipelined_cost_min = 12,
    .split_min_bytes = 16 << 20,
    .split_streams = 4,
    .split_cost_max = 8,
    .strip_min_cols = 128,
    .strip_min_rows = 48,
    .strip_cols_long = 2048,
    .strip_cols_short = 512,
    .strip_step = 4,
    .tile_min_elems = 8,
    .wide_tile_parts_min = 16,
    .tile_rows_ahead = 8,
};

#endif
