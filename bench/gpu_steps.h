/* gpu_steps.h: the steps of a module: time, and how many bytes they touch. */
#ifndef HN_BENCH_GPU_STEPS_H
#define HN_BENCH_GPU_STEPS_H

#include "henry/henry.h"

#include <stdint.h>

typedef struct gpu_traffic {
    uint32_t count; /* steps */
    int64_t *bytes; /* of each step; 0: it has not run */
} gpu_traffic;

/* Calls the module once more, and counts: each tensor that a step reads or writes is touched once and
 * whole. Of a table from which a few rows are taken that is more than what moves. */
hn_status gpu_traffic_count(hn_module *module, hn_tensor *const *inputs, uint32_t input_count,
                            hn_tensor **outputs, uint32_t output_count, gpu_traffic *out);

/* Of a module that was loaded with `profile`: the member "steps" of a JSON object, with a comma in
 * front. */
void gpu_steps_print(hn_module *module, const gpu_traffic *traffic);

#endif
