/* gpu_costs.h: what a layout of a kernel is expected to cost, for the planner for groups of
 * threads. */
#ifndef HN_KERNEL_GPU_COSTS_H
#define HN_KERNEL_GPU_COSTS_H

#include "kernel/gpu_internal.h"

/* Memory is read in sectors: threads that read less side by side waste the rest of it. Less than a
 * line is read with some loss. */
enum { HN_GPU_SECTOR_BYTES = 32, HN_GPU_LINE_BYTES = 128 };

/* Registers that a compiler has over: one that has just enough uses memory. */
enum { HN_GPU_SPARE_REGISTERS = 8 };

/* A warp reads a number in shared memory: the other warps of a multiprocessor wait. */
static const double hn_gpu_exchanged_ns = 0.6;

/* A launch, at the hints of the sizes. */
typedef struct hn_gpu_launch {
    double groups;        /* each of a cluster's blocks counts as one */
    uint32_t threads;     /* of a group */
    uint32_t blocks;      /* of a cluster; else 1, or 0 */
    int64_t run_bytes;    /* that threads read side by side */
    double bytes, again;  /* from and to memory; and read once more, from the second cache */
    int64_t flight_bytes; /* reads that a thread has under way at once */
    int64_t steps;        /* reads of a thread one after the other */
    int64_t waits;        /* reads that nothing else goes on beside: at the beginning; 0: all */
    int64_t last_reads;   /* reads of single numbers behind them, one after the other */
    double exchange_ns;   /* of a group: its threads read in shared memory what others have */
    uint32_t acrosses;    /* one after the other */
    uint32_t levels;      /* of one of them that go through shared memory */
    int64_t registers;    /* of a thread */
    int64_t shared_bytes; /* of a group */
    bool keeps;           /* a group reads, and only then computes */
    bool is_busy;         /* so does one of elements, and computing takes long */
} hn_gpu_launch;

static inline int64_t hn_gpu_ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

/* Memory is busy when enough reads are under way (Little's law): a group has its reads under way
 * for a part of its life, which is the latency of its steps and of what its threads do together.
 * Arithmetic goes on at the same time. */
double hn_gpu_predicted_ns(const hn_gpu_planner *pl, const hn_gpu_launch *l);
/* Of layouts that memory makes equal, that is best whose threads have `best` bytes under way: a
 * factor. */
double hn_gpu_balance(const hn_gpu_launch *l, int64_t best);
/* Adds a layout to the best ones, best first, each once, if it is wished for. */
void hn_gpu_keep_layout(const hn_gpu_planner *pl, hn_gpu_layout items[HN_GPU_PLANS_MAX],
                        uint32_t *count, hn_gpu_layout l);
/* How many groups a multiprocessor has room for, some registers to spare; 0: no compiler needs to
 * know. */
uint32_t hn_gpu_bound_groups(const hn_gpu_planner *pl, hn_gpu_launch run, int64_t other_registers);

#endif
