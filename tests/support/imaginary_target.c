/* imaginary_target.c: a target whose kernels are those of CPUs, for the device of
 * imaginary_device.h: whole models run there, with operations on the device, and no driver is
 * needed.
 *
 * A program gets it by being linked with this file, which has the table of targets again, with the
 * target in the place of OpenCL's; and with `--wrap=hn_wrapper_host_memory`: kernels of CPUs take a
 * range of iterations, and here each iteration is a group of one thread. */
#include "codegen/codegen.h"

static const hn_target_kind imaginary_kind;
#define HN_TARGET_ROWS_OF_TESTS                                                                    \
    {.kind = &imaginary_kind,                                                                      \
     .name = "opencl",                                                                             \
     .flags = "",                                                                                  \
     .cpu = &hn_cpu_facts_common,                                                                  \
     .vector_bytes = 16},
#include "codegen/targets.c"

#include "wrapper/place.h"
#include "wrapper/workspaces.h"

static const hn_target_kind imaginary_kind = {
    .language = "c",
    .flags = c_flags,
    .abi = HN_ABI_GROUPS,
    .device = HN_DEVICE_OPENCL,
    .unit_bytes = 6 << 10,
    .limits = &hn_cpu_facts_common.limits,
    .plan = plan_cpu,
    .words = &hn_c_language,
    .unit = hn_c_unit,
};

hn_status __real_hn_wrapper_host_memory(hn_wrapper *w);
hn_status __wrap_hn_wrapper_host_memory(hn_wrapper *w);

/* Copies of launches, one thread each. */
static hn_status with_threads(hn_wrapper *w, const hn_wlaunch *launches, uint32_t count,
                              const hn_wlaunch **out) {
    hn_wlaunch *copies;
    HN_NEW(w->arena, copies, count + 1);
    for (uint32_t k = 0; k < count; k++) {
        copies[k] = launches[k];
        copies[k].threads = 1;
    }
    *out = copies;
    return NULL;
}

/* Of all launches of the line. */
static hn_status set_threads(hn_wrapper *w, hn_line *line) {
    hn_wvariant *variants;
    line->threads = 1;
    if (line->others) HN_TRY(with_threads(w, line->others, w->target_count - 1, &line->others));
    HN_NEW(w->arena, variants, line->variant_count + 1);
    for (uint32_t v = 0; v < line->variant_count; v++) {
        variants[v] = line->variants[v];
        HN_TRY(with_threads(w, variants[v].launches, w->target_count, &variants[v].launches));
    }
    line->variants = variants;
    return NULL;
}

hn_status __wrap_hn_wrapper_host_memory(hn_wrapper *w) {
    for (uint32_t k = 0; k < w->lines.count; k++) {
        hn_line *line = &w->lines.items[k];
        if (line->kind != HN_LINE_KERNEL || line->device == HN_DEVICE_CPU) continue;
        HN_TRY(set_threads(w, line));
        HN_TRY(hn_wrapper_add_workspace(w, line->device, hn_workspace_of_groups(w, line),
                                        &line->workspace));
    }
    return __real_hn_wrapper_host_memory(w);
}
