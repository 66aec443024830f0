/* facts.h: what the planners know of a processor. */
#ifndef HN_KERNEL_FACTS_H
#define HN_KERNEL_FACTS_H

#include "sched/sched.h"

/* A processor that runs groups of threads. */
typedef struct hn_gpu_facts {
    hn_sched_limits limits; /* of the schedule */
    uint32_t warp;          /* threads that go together: they read memory side by side */
    uint32_t shuffle;       /* threads that exchange registers without shared memory; 1: none do */
    uint32_t threads_max;   /* of a block: of a group, unless it is several blocks */
    uint32_t blocks_max;    /* of a group, a power of two; 1: there are no clusters. Only rows of at
                               least so many elements may take several: */
    int64_t blocks_row_elems;
    uint32_t shared_bytes;     /* of a group; */
    uint32_t shared_all_bytes; /* of a multiprocessor */
    uint32_t staged_bytes; /* staged memory of a group; 0: there is none. Only rows of at least so
                                  many elements take it: */
    int64_t staged_row_elems;
    uint32_t registers;        /* of a multiprocessor, of 32 bits; */
    uint32_t registers_thread; /* most that a thread has */
    uint32_t vector_bytes;     /* of an access of a thread */
    uint32_t atomic_bytes; /* of the largest numbers that threads which meet can combine; 0: none */
    uint32_t multiprocessors;  /* groups run on each of them at once: */
    uint32_t resident;         /* so many threads on one, */
    uint32_t groups;           /* and so many groups */
    double bytes_per_ns;       /* of memory, all multiprocessors together; */
    double cache_bytes_per_ns; /* of the cache that they share */
    double latency_ns;         /* of a read from memory */
    double flight_bytes;       /* reads of a multiprocessor under way that keep memory busy */
    double ops_per_ns;         /* additions of f32, all multiprocessors together */
    double
        barrier_ns; /* threads that exchange registers combine one; a step through shared memory */
    double blocks_ns; /* threads of several blocks combine a register */
    double launch_ns;
    bool few_registers; /* forms of as few registers as there can be: hn_gpu_facts_few_registers */
} hn_gpu_facts;

/* The same processor, but for forms whose threads take single elements, one after the other, and
 * keep no row: what is left for a kernel whose other forms have more values than there are
 * registers. They are slow, and expected to be. */
hn_gpu_facts hn_gpu_facts_few_registers(const hn_gpu_facts *facts);

/* A graphics processor of the middle class, with a group that all makers' devices can run: 32 KiB
 * is the shared memory that OpenCL 1.2 asks for, and 256 threads are what they all take. The other
 * numbers are rough: they only compare layouts. */
extern const hn_gpu_facts hn_gpu_facts_common;

/* NVIDIA's architectures, each by the processor that is most in use for such work. Their limits of
 * the schedule are equal. */
extern const hn_gpu_facts hn_gpu_facts_sm_80;  /* A100 */
extern const hn_gpu_facts hn_gpu_facts_sm_86;  /* A40 */
extern const hn_gpu_facts hn_gpu_facts_sm_89;  /* L40S */
extern const hn_gpu_facts hn_gpu_facts_sm_90;  /* H200 */
extern const hn_gpu_facts hn_gpu_facts_sm_100; /* B200 */
extern const hn_gpu_facts hn_gpu_facts_sm_120; /* RTX 5090 */
/* What runs on later ones, too, takes no more staged memory than all of them have. */
extern const hn_gpu_facts hn_gpu_facts_compute_90;  /* otherwise as sm_90 */
extern const hn_gpu_facts hn_gpu_facts_compute_100; /* otherwise as sm_100 */

/* How many vectors go side by side, by the cost of an element: the count of the first row whose
 * `cost_max` is not below the cost. At most HN_CPU_UNROLL_MAX (cpu.h). */
enum { HN_COST_STEPS = 3 };
typedef struct hn_cost_steps {
    struct {
        uint32_t cost_max, count;
    } rows[HN_COST_STEPS];
} hn_cost_steps;

static inline uint32_t hn_count_for_cost(const hn_cost_steps *steps, uint32_t cost) {
    for (uint32_t k = 0; k < HN_COST_STEPS; k++)
        if (cost <= steps->rows[k].cost_max) return steps->rows[k].count;
    return 1;
}

/* A processor with vectors and caches: its sizes, and from where on a choice of cpu.h pays. `cost`
 * is that of ops, in additions. Source, unless another is given: bench/ceilings.c, which has a loop
 * by hand for each choice beside the plain one. */
typedef struct hn_cpu_facts {
    hn_sched_limits limits;    /* of the schedule */
    uint32_t line_bytes;       /* of memory */
    int64_t first_cache_bytes; /* of one core */
    int64_t second_cache_bytes;

    /* The model of costs (cpu_costs.c), of one core. Bytes a ns that go through its caches and
     * memory, and that stores write which bypass them; */
    int64_t last_cache_bytes;
    double first_cache_rate, second_cache_rate, last_cache_rate, memory_rate, stream_rate;
    /* cycles: of an addition of vectors, of each lane that is loaded by itself, of a loop's step,
     * of a step of a chain of sums, of beginning a phase of a row, of combining the lanes of a sum;
     * and how many times as long as a whole vector the rest of a row takes; */
    double op_cycles, lane_cycles, loop_cycles, chain_cycles, phase_cycles, combine_cycles,
        rest_factor;
    /* the part of the shorter one of memory and arithmetic that is not hidden behind the other. */
    double overlap_loss;
    double doubt; /* times as long, of a number that the planner would not choose */
    double cycles_per_ns, call_ns, team_ns; /* a call; waking threads */

    /* Of one core: a copy's bytes, and additions of one vector of 32 bytes each cycle. */
    double bytes_per_ns, ops_per_ns;
    /* How many times as fast as the plain form another one is where it pays: rows one by one for
     * pipelined rows, split streams and tiles, tiles for wide ones, narrow columns for strips.
     * Elsewhere it is expected to be as many times slower. */
    double pipelined_gain, split_gain, tile_gain, wide_tile_gain, strip_gain;

    /* Threads. */
    /* elements times cost; less is not worth waking a thread (about 20 us). Source: performance.md
     * 2.4 */
    int64_t grain_work;
    uint32_t flat_block_elems; /* of a parallel iteration of a flat kernel */

    /* Memory. A kernel that writes as much as this bypasses the caches: half of a last-level cache
     * of 32 MiB. What is written with ordinary stores is first read, and would push everything else
     * out. Copies of 16 MiB and up gain 1.6. */
    int64_t nontemporal_bytes;
    /* Arguments: accesses of one buffer at most this far apart share one; and how many a buffer
     * gets, as they are registers. */
    uint32_t near_access_bytes;
    uint32_t bases_max;

    /* Vectors side by side in the loop over lanes. A reduction has an accumulator for each vector:
     * they hide the latency of its op, and take registers, the more the longer the chain of ops is.
     * Without a reduction two chains (exp, division) go on side by side if one costs from
     * `chain_cost_min` to `chain_cost_max`: each vector waits for its chain. */
    hn_cost_steps accumulators;
    uint32_t chain_cost_min, chain_cost_max;
    /* A loop of non-temporal stores takes whole lines at a time, if an element costs no more.
     * One that only copies takes more vectors: only the loop's own work is in its way. */
    uint32_t whole_lines_cost_max;
    uint32_t copy_cost_max, copy_vectors;
    /* A body with this many loads of single elements (bilinear sampling has four) gains nothing
     * from a second copy of itself, and a compiler works longest on such bodies. */
    uint32_t many_gathers;

    /* Prefetches: the distance for rows that are in some cache; for rows from memory, which the
     * first cache keeps beside the row at hand; for rows that an index picks and one pass copies;
     * and in a flat kernel. */
    int64_t ahead_cached_bytes, ahead_memory_bytes, ahead_picked_bytes;
    uint32_t ahead_flat_elems;
    int64_t rows_ahead_max;
    int64_t picked_rows_min; /* rows that an index picks: fewer are not prefetched. bench_picks */
    /* A phase of this cost has room for prefetches; before it comes to that, the last one, which
     * stores, has. */
    uint32_t busy_cost;
    /* A gathered row of up to this many times the loop's length is asked for as a whole. */
    int64_t gather_sparseness;

    /* Pipelined rows: the cost of the phase before the last one. A cheaper one is no arithmetic to
     * speak of. */
    uint32_t pipelined_cost_min;

    /* Split streams: bytes read from rows, how many rows at once, and the cost of a phase that only
     * reads. */
    int64_t split_min_bytes;
    uint32_t split_streams, split_cost_max;
    uint32_t split_short_vectors; /* rows of at most so many vectors are split, too. bench_picks */

    /* Narrow columns: vectors of rows that go through all phases side by side. */
    hn_cost_steps column_vectors;
    /* ... of 64 bytes, at most, where so many steps go down memory: bench_picks, AVX-512 */
    uint32_t far_column_vectors;
    int64_t far_column_steps;

    /* Strips of column sums. A strip of results stays in the first cache. Strips of
     * `limits.column_strip` columns read memory best; short ones share out better when there is
     * nothing else to share. Source: bench/kernels.c, "sum of columns": 2.3 times as fast from
     * memory, and 1.25 for the distance between the rows of a step. */
    int64_t strip_min_cols, strip_min_rows;
    uint32_t strip_cols_short;
    uint32_t strip_step;         /* rows at a time */
    uint32_t strip_cost_max;     /* of an element: strips are for sums that wait for memory */
    hn_cost_steps strip_vectors; /* of a strip with one sum; with two sums there is one vector */

    /* Tiles. A wide one takes a cache's worth of memory and makes fewer parts for threads: at least
     * so many. */
    int64_t tile_min_elems; /* along each of the two variables */
    int64_t wide_tile_parts_min;
    uint32_t narrow_tile_vectors; /* sides of less than so many vectors take one in any case */
    int64_t tile_ahead_bytes;     /* written: from there on the next square is prefetched */
    /* prefetched, into the second cache: rows a power of two apart share the sets of a cache */
    uint32_t tile_rows_ahead;
} hn_cpu_facts;

extern const hn_cpu_facts hn_cpu_facts_common; /* of all levels of x86-64 */
extern const hn_cpu_facts hn_cpu_facts_neon;   /* AArch64; of equal limits */

#endif
