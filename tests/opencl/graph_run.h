/* graph_run.h: a graph on OpenCL. Passes, lowering and schedule are those of the driver; kernels
 * are planned for groups of threads, printed as OpenCL C and run on the device; calls of
 * operations, which only kinds without loops are, are those of support/program_run.h. */
#ifndef HN_TESTS_OPENCL_GRAPH_RUN_H
#define HN_TESTS_OPENCL_GRAPH_RUN_H

#include "opencl/kernel_run.h"
#include "support/program_run.h"

/* What the kernels of programs were like. */
typedef struct graph_counts {
    uint32_t kernels, different; /* kernels; different texts */
    uint32_t calls;              /* of operations: they run on the host */
    uint32_t reductions;         /* kernels that reduce, over rows and not in scans, */
    /* and those of them in which threads of a group add up together */
    uint32_t together;
} graph_counts;

/* How kernels are made; zeros: as they are for models. */
typedef struct graph_how {
    /* of the plans for a kernel one is taken by `choice`, which goes on; otherwise the best */
    bool any_plan;
    uint64_t choice;
    const hn_gpu_facts *facts; /* what kernels are planned for; NULL: those of the target */
    bool no_fusion, deterministic;
} graph_how;

/* As hn_interpret, and with any graph that the passes take. The graph is changed. `counts` are
 * added to; NULL will do. What nothing has written is NaN. */
hn_status graph_run(opencl_host *host, hn_arena *arena, hn_graph *graph, const graph_how *how,
                    const hn_ref_tensor *inputs, uint32_t input_count, hn_ref_tensor *out_outputs,
                    graph_counts *counts) HN_MUST_USE;

#endif
