/* gpu_turns.h: what runs cost the host above the launches that they give to CUDA's driver. The same
 * launches, with the same arguments in the same stream, are given to the driver alone, in turns with
 * the runs. */
#ifndef HN_BENCH_GPU_TURNS_H
#define HN_BENCH_GPU_TURNS_H

#include "runtime/module_impl.h"

/* Medians over rounds; what is above the driver's are medians of the differences in a round. */
typedef struct gpu_turns {
    uint32_t launches; /* of a run */
    /* the host's time for one of several launches in an empty queue */
    double launch_ns, bare_launch_ns, launch_above_ns;
    /* a call with tensors on the device, until it has returned and its outputs are released; and its
     * launches with one wait. In a thread that has the context */
    double call_us, bare_call_us, call_above_us;
    double apart_above_us; /* the same call in a thread that has no context */
} gpu_turns;

/* Of a module that has run with inputs in memory of the device, without a profile. Errors:
 * unsupported when a run is not made of launches alone, or the driver does not tell what kernels
 * take (12.4). */
hn_status gpu_turns_measure(hn_module *m, hn_tensor *const *inputs, uint32_t input_count,
                            gpu_turns *out) HN_MUST_USE;
void gpu_turns_print(const gpu_turns *turns); /* as a member "turns" of a line of JSON */

#endif
