/* from_schedule.h: a schedule as wrapper IR: buffers, calls of kernels and operations, outputs. */
#ifndef HN_WRAPPER_FROM_SCHEDULE_H
#define HN_WRAPPER_FROM_SCHEDULE_H

#include "codegen/codegen.h"
#include "wrapper/wrapper.h"

/* The kernels of one target, an entry for each step of the schedule, zeros for steps that call no
 * kernel. Several may have equal text; `object` is hn_wkernel_info.object. */
typedef struct hn_wrapper_target {
    const hn_kernel_code *kernels;
} hn_wrapper_target;

/* What a wrapper is made from. */
typedef struct hn_wrapper_source {
    const hn_program *program; /* with its graph */
    const hn_schedule *schedule;
    const hn_operations *operations;  /* that the device of the kernels has; NULL: none */
    const hn_wrapper_target *targets; /* the best first; one or more */
    uint32_t target_count;
    const hn_work_record *work; /* of each step of the schedule; NULL: lines get no records */
} hn_wrapper_source;

/* Owns: the wrapper lives in `arena` and refers to the graph and to lists of the kernels.
 * Errors: unsupported when nothing computes an output; internal when the kernel of a step has other
 * arguments for another target; out-of-memory. */
hn_status hn_wrapper_from_schedule(const hn_wrapper_source *source, hn_arena *arena,
                                   hn_arena *scratch, hn_wrapper **out) HN_MUST_USE;

#endif
