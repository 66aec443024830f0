/* targets.c: the table of codegen.h. */
#include "codegen/codegen.h"

#include "base/compiler.h"
#include "base/cpu.h"
#include "base/cuda.h"
#include "base/device.h"
#include "base/gpu_arch.h"
#include "codegen/c/c.h"
#include "codegen/cuda/cuda.h"
#include "codegen/cuda/operations.h"
#include "codegen/opencl/opencl.h"
#include "codegen/walk.h"
#include "kernel/plan_cpu.h"
#include "kernel/plan_gpu.h"

#include <string.h>

static hn_status plan_cpu(const hn_program *program, const hn_kernel *kernel,
                          const hn_target *target, uint32_t most, hn_arena *arena,
                          hn_arena *scratch, hn_form **out, uint32_t *out_count) {
    return hn_form_plans_cpu(program, kernel, target->vector_bytes, target->cpu, most, arena,
                             scratch, out, out_count);
}

static hn_status plan_gpu(const hn_program *program, const hn_kernel *kernel,
                          const hn_target *target, uint32_t most, hn_arena *arena,
                          hn_arena *scratch, hn_form **out, uint32_t *out_count) {
    return hn_form_plans_gpu(program, kernel, target->gpu, most, arena, scratch, out, out_count);
}

/* Integers of tensors wrap; gcc 12 gets max(INT_MIN, -x) of vectors wrong where they may not.
 * Vectors are explicit in the text: the compiler's own vectorizer would take a tenth of the time
 * and gain nothing. */
static const char *const c_flags[] = {"-O2",
                                      "-fwrapv",
                                      "-fno-tree-vectorize",
                                      "-fno-math-errno",
                                      "-fno-trapping-math",
                                      "-fno-tree-loop-distribute-patterns",
                                      "-w",
                                      NULL};

static const hn_target_kind cpu = {
    .language = "c",
    .flags = c_flags,
    .abi = HN_ABI_RANGE,
    .device = HN_DEVICE_CPU,
    .unit_bytes = 6 << 10, /* of 3 to 16 KiB the best for nine small models on two processors, and
                              no worse for large ones */
    .limits = &hn_cpu_facts_common.limits,
    .plan = plan_cpu,
    .words = &hn_c_language,
    .unit = hn_c_unit,
};

/* Division and square root round as the other languages' do; without the option OpenCL allows 2.5
 * and 3 ulp. */
static const char *const opencl_flags[] = {"-cl-std=CL1.2",
                                           "-cl-fp32-correctly-rounded-divide-sqrt", "-w", NULL};

static const hn_target_kind opencl_device = {
    .language = "opencl",
    .flags = opencl_flags,
    .abi = HN_ABI_GROUPS,
    .device = HN_DEVICE_OPENCL,
    .unit_bytes = 6 << 10, /* as of C: nothing was measured */
    .limits = &hn_gpu_facts_common.limits,
    .plan = plan_gpu,
    .words = &hn_opencl_language,
    .unit = hn_opencl_unit,
};

/* Division and square root round by default, and denormal numbers are kept. Functions of the
 * prelude may contract; products of the program are __fmul_rn (ops.def). */
static const char *const cuda_flags[] = {"-std=c++17", "-w", NULL};

static const hn_target_kind cuda_device = {
    .language = "cuda",
    .flags = cuda_flags,
    .abi = HN_ABI_GROUPS,
    .device = HN_DEVICE_CUDA,
    .unit_bytes = 8 << 10, /* a unit costs 20 ms, and 10 ms for each KiB of kernels (NVRTC 13.0):
                              larger ones leave processors idle, smaller ones work twice as long */
    .limits = &hn_gpu_facts_sm_80.limits,
    .plan = plan_gpu,
    .operation = hn_cuda_operation,
    .words = &hn_cuda_language,
    .unit = hn_cuda_unit,
};

/* Machine code for an architecture is better than PTX, which is for all later ones; of two, the one
 * for the later architecture is. */
#define CUDA(architecture_, processor, rank_)                                                      \
    {                                                                                              \
        .kind = &cuda_device, .name = architecture_, .flags = "", .architecture = architecture_,   \
        .gpu = &(processor), .rank = (rank_)                                                       \
    }

/* Targets that are no levels of CPUs. */
static const hn_target others[] = {
#ifdef HN_TARGET_ROWS_OF_TESTS /* tests/support/imaginary_target.c */
    HN_TARGET_ROWS_OF_TESTS
#endif
    {.kind = &opencl_device, .name = "opencl", .flags = "", .gpu = &hn_gpu_facts_common},
    CUDA("sm_80", hn_gpu_facts_sm_80, 1080),
    CUDA("sm_86", hn_gpu_facts_sm_86, 1086),
    CUDA("sm_89", hn_gpu_facts_sm_89, 1089),
    CUDA("sm_90a", hn_gpu_facts_sm_90, 1090),
    CUDA("sm_100a", hn_gpu_facts_sm_100, 1100),
    CUDA("sm_120", hn_gpu_facts_sm_120, 1120),
    CUDA("compute_80", hn_gpu_facts_sm_80, 80),
    CUDA("compute_90", hn_gpu_facts_compute_90, 90),
    CUDA("compute_100", hn_gpu_facts_compute_100, 100),
    CUDA("compute_120", hn_gpu_facts_sm_120, 120),
};

hn_status hn_target_print_form(const hn_target *target, const hn_form *form, hn_arena *arena,
                               hn_arena *scratch, hn_kernel_code *out) {
    return hn_form_text(form, target->kind->words, arena, scratch, out);
}

hn_status hn_target_print(const hn_target *target, const hn_program *program,
                          const hn_kernel *kernel, hn_arena *arena, hn_arena *scratch,
                          hn_kernel_code *out) {
    hn_form *form;
    uint32_t count = 0;
    HN_TRY(target->kind->plan(program, kernel, target, 1, scratch, scratch, &form, &count));
    if (!count) return HN_ERROR(HN_INTERNAL, "no form of a kernel fits the processor");
    return hn_target_print_form(target, form, arena, scratch, out);
}

/* The levels of CPUs: base/cpu.c has their names, flags and vectors. */
static hn_target of_level(const hn_cpu_level *level) {
    return (hn_target){.kind = &cpu,
                       .name = level->name,
                       .flags = level->flags,
                       .cpu = level->machine == HN_MACHINE_AARCH64 ? &hn_cpu_facts_neon
                                                                   : &hn_cpu_facts_common,
                       .machine = level->machine,
                       .ops = level->ops,
                       .rank = level->vector_bytes,
                       .vector_bytes = level->vector_bytes};
}

hn_target hn_target_host(void) { return of_level(hn_cpu_level_host()); }

void hn_target_put_names(hn_device_kind device, hn_strbuf *out) {
    const char *between = "";
    for (size_t k = 0; k < HN_COUNT_OF(others); k++) {
        if (others[k].kind->device != device) continue;
        hn_strbuf_printf(out, "%s%s", between, others[k].name);
        between = ", ";
    }
}

static hn_status refuse_name(hn_str name) {
    hn_strbuf known;
    hn_strbuf_init(&known);
    for (size_t k = 0; k < HN_COUNT_OF(others); k++)
        hn_strbuf_printf(&known, ", %s", others[k].name);
    hn_status status = hn_strbuf_status(&known);
    if (!status)
        status = HN_ERROR(HN_INVALID_ARGUMENT,
                          "unknown target '" HN_STR_FMT "'; known: " HN_CPU_LEVELS_TEXT "%s",
                          HN_STR_ARG(name), known.ptr);
    hn_strbuf_deinit(&known);
    return status;
}

/* "cuda", "cuda:1", "cuda:GPU-8f2c" */
static hn_status find_gpu(hn_str name, hn_cuda_device *out, uint32_t *out_number) {
    hn_cuda cuda;
    hn_device device;
    char text[80];
    const char *uuid;
    snprintf(text, sizeof text, HN_STR_FMT, HN_STR_ARG(name));
    HN_TRY(hn_device_parse(text, &device, &uuid));
    HN_TRY(hn_cuda_load(&cuda));
    if (uuid) HN_TRY(hn_cuda_device_named(&cuda, uuid, &device.number));
    *out_number = device.number;
    return hn_cuda_device_get(&cuda, device.number, out);
}

/* The best for a GPU of this machine. */
static hn_status of_gpu(hn_str name, hn_target *out) {
    hn_cuda_device device;
    uint32_t number;
    int best = -1;
    HN_TRY(find_gpu(name, &device, &number));
    for (size_t k = 0; k < HN_COUNT_OF(others); k++) {
        if (others[k].kind != &cuda_device) continue;
        int fitness = hn_arch_fitness(others[k].architecture, (int)device.arch);
        if (fitness > best) best = fitness, *out = others[k];
    }
    out->device = number;
    if (best >= 0) return NULL;
    return HN_ERROR(HN_UNSUPPORTED, "no target is for '%s', whose architecture is sm_%u",
                    device.name, device.arch);
}

hn_status hn_target_named(hn_str name, hn_target *out) {
    if (name.len >= 4 && memcmp(name.ptr, "cuda", 4) == 0 && (name.len == 4 || name.ptr[4] == ':'))
        return of_gpu(name, out);
    for (size_t k = 0; k < HN_COUNT_OF(others); k++) {
        if (!hn_str_eq(name, hn_str_of(others[k].name))) continue;
        *out = others[k];
        return NULL;
    }
    const hn_cpu_level *level = hn_cpu_level_named(name);
    if (!level) return refuse_name(name);
    *out = of_level(level);
    return NULL;
}

uint32_t hn_target_threads(const hn_target *target, uint32_t of_caller) {
    return target->gpu ? target->gpu->multiprocessors : of_caller;
}

void hn_target_put_flags(const hn_target *target, hn_strbuf *out) {
    const char *between = "";
    for (const char *const *flag = target->kind->flags; *flag; flag++, between = " ")
        hn_strbuf_printf(out, "%s%s", between, *flag);
    if (*target->flags) hn_strbuf_printf(out, "%s%s", between, target->flags);
}

/* "-mavx2 -mfma" -> "avx2\0fma\0". Options that are no features stay out. */
void hn_target_features(const hn_target *target, hn_strbuf *out) {
    for (const char *at = target->flags; *at;) {
        size_t len = strcspn(at, " ");
        if (len > 2 && memcmp(at, "-m", 2) == 0 && !memchr(at, '=', len)) {
            hn_strbuf_append(out, at + 2, len - 2);
            hn_strbuf_putc(out, '\0');
        }
        at += len;
        while (*at == ' ') at++;
    }
}
