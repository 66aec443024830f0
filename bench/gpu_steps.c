/* gpu_steps.c: the steps of a module: time, and how many bytes they touch. */
#include "bench/gpu_steps.h"

#include <stdio.h>
#include <stdlib.h>

/* The elements of a tensor, without what lies between them; elements that are shared count once. */
static int64_t operand_bytes(const hn_step_operand *o) {
    int64_t bytes = (int64_t)hn_scalar_type_bytes(o->type);
    for (uint32_t d = 0; d < o->rank; d++)
        if (o->strides[d] || !o->sizes[d]) bytes *= o->sizes[d];
    return bytes < o->bytes ? bytes : o->bytes;
}

/* `before` and not `after`: behind a step that fails nothing has to be known. */
static hn_status count_step(void *user, const hn_step_info *step, uint64_t *note) {
    const gpu_traffic *t = user;
    int64_t sum = 0;
    (void)note;
    for (uint32_t k = 0; k < step->operand_count; k++) {
        hn_step_operand o;
        hn_status status = hn_step_operand_get(step, k, &o);
        if (status) return status;
        if (o.buffer && o.has_shape) sum += operand_bytes(&o);
    }
    if (step->index < t->count) t->bytes[step->index] = sum;
    return NULL;
}

hn_status gpu_traffic_count(hn_module *module, hn_tensor *const *inputs, uint32_t input_count,
                            hn_tensor **outputs, uint32_t output_count, gpu_traffic *out) {
    const hn_step_hook hook = {.before = count_step, .user = out};
    out->count = hn_module_step_count(module);
    out->bytes = calloc(out->count + 1u, sizeof *out->bytes);
    if (!out->bytes) return HN_ERROR(HN_OUT_OF_MEMORY, "out of memory");
    hn_status status = hn_module_hook_add(module, &hook);
    if (status) return status;
    status = hn_module_run(module, inputs, input_count, outputs, output_count);
    hn_status_free(hn_module_hook_remove(module, &hook));
    return status;
}

void gpu_steps_print(hn_module *module, const gpu_traffic *traffic) {
    const char *comma = "";
    printf(", \"steps\": [");
    for (uint32_t k = 0; k < hn_module_step_count(module); k++) {
        hn_module_step_profile p;
        if (hn_module_profile(module, k, &p) || !p.calls) continue;
        printf("%s{\"name\": \"%s\", \"origin\": \"%s\", \"us\": %.2f, \"bytes\": %lld}", comma,
               p.name, p.origin, (double)p.min_ns / 1e3,
               k < traffic->count ? (long long)traffic->bytes[k] : 0);
        comma = ", ";
    }
    printf("]");
}
