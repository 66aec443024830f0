/* test_targets.c: the table of targets: what its rows say fits together. */
#include "base/compiler.h"
#include "base/gpu_arch.h"
#include "codegen/walk.h"
#include "kernel/plan_gpu.h"
#include "unit/harness.h"

static const char *const names[] = {
    "x86-64-v4", "x86-64-v3", "generic", "opencl",     "sm_80",      "sm_86",       "sm_89",
    "sm_90a",    "sm_100a",   "sm_120",  "compute_80", "compute_90", "compute_100", "compute_120"};
enum { COUNT = sizeof names / sizeof *names };

static hn_target target_of(const char *name) {
    hn_target target = {0};
    EXPECT_OK(hn_target_named(hn_str_of(name), &target));
    return target;
}

static const hn_sched_limits *limits_of(const hn_target *target) {
    return target->cpu ? &target->cpu->limits : &target->gpu->limits;
}

/* A row has the facts of one processor, and limits that are those of the facts. */
TEST(facts_and_calls_fit) {
    for (int k = 0; k < COUNT; k++) {
        const hn_target target = target_of(names[k]);
        const hn_target_kind *kind = target.kind;
        EXPECT_STR(target.name, names[k]);
        EXPECT((target.cpu != NULL) != (target.gpu != NULL));
        EXPECT(memcmp(kind->limits, limits_of(&target), sizeof *kind->limits) == 0);
        EXPECT((kind->abi == HN_ABI_GROUPS) == (target.gpu != NULL));
        if (target.gpu) EXPECT_INT(kind->words->shuffle_threads, target.gpu->shuffle);
        EXPECT(kind->language && kind->flags && kind->unit_bytes && kind->plan && kind->words &&
               kind->unit);
    }
}

TEST(flags) {
    hn_strbuf flags;
    const hn_target cpu = target_of("x86-64-v3"), opencl = target_of("opencl");
    hn_strbuf_init(&flags);
    hn_target_put_flags(&cpu, &flags);
    EXPECT(strncmp(flags.ptr, "-O2 -fwrapv ", 12) == 0);
    EXPECT(strstr(flags.ptr, " -w -mavx2 -mfma") != NULL);
    hn_strbuf_reset(&flags);
    hn_target_put_flags(&opencl, &flags);
    EXPECT_STR(flags.ptr, "-cl-std=CL1.2 -cl-fp32-correctly-rounded-divide-sqrt -w");
    hn_strbuf_reset(&flags);
    hn_target_features(&opencl, &flags);
    EXPECT_INT(flags.len, 0);
    hn_strbuf_deinit(&flags);
}

/* The scheduler shares work out to the caller's threads, or to the processor's own. */
TEST(threads) {
    const hn_target cpu = target_of("generic"), opencl = target_of("opencl");
    EXPECT_INT(hn_target_threads(&cpu, 6), 6);
    EXPECT_INT(hn_target_threads(&opencl, 6), hn_gpu_facts_common.multiprocessors);
}

#define ROW_SUM                                                                                    \
    "program { b1 : input 0 f32[64, 1000]\n b2 : output f32[64] extent 64\n"                       \
    "reduce sum (i0 < 64; i1 < 1000) { %1 = b1[1000*i0 + i1] : f32 b2[i0] = %1 } }"

typedef struct printed {
    hn_arena arena, scratch;
    hn_program *program;
    const hn_kernel *kernel;
    hn_kernel_code code;
} printed;

/* The only kernel of the program, by the row's limits and printer alone. */
static void print_by(const hn_target *target, printed *out) {
    hn_sym *sym;
    hn_schedule schedule = {0};
    const hn_sched_options options = {.threads = hn_target_threads(target, 2),
                                      .limits = target->kind->limits};
    *out = (printed){0};
    hn_arena_init(&out->arena);
    hn_arena_init(&out->scratch);
    EXPECT_OK(hn_sym_create(&out->arena, &sym));
    EXPECT_OK(hn_program_parse(&out->arena, sym, HN_STR(ROW_SUM), &out->program));
    EXPECT_OK(hn_schedule_program(out->program, &options, &out->arena, &out->scratch, &schedule));
    EXPECT_INT(schedule.steps.count, 1);
    out->kernel = schedule.steps.items[0].kernel;
    EXPECT_OK(
        hn_target_print(target, out->program, out->kernel, &out->arena, &out->scratch, &out->code));
}

static void drop(printed *p) {
    hn_arena_deinit(&p->scratch);
    hn_arena_deinit(&p->arena);
}

/* A kernel has the threads of a group where the ABI launches groups, and only there. */
TEST(a_kernel_of_each_row) {
    for (int k = 0; k < COUNT; k++) {
        const hn_target target = target_of(names[k]);
        printed p;
        print_by(&target, &p);
        EXPECT((p.code.threads > 0) == (target.kind->abi == HN_ABI_GROUPS));
        if (target.gpu) EXPECT(p.code.threads > 1 && p.code.threads <= target.gpu->threads_max);
        EXPECT_INT(p.code.buffer_count, 2);
        drop(&p);
    }
}

/* Printing takes the best of the plans by the row's facts. */
TEST(opencl_prints_the_best_plan) {
    const hn_target target = target_of("opencl");
    printed p;
    hn_form *form;
    hn_kernel_code code;
    print_by(&target, &p);
    EXPECT_OK(hn_form_plan_gpu(p.program, p.kernel, target.gpu, &p.arena, &p.scratch, &form));
    EXPECT_OK(hn_target_print_form(&target, form, &p.arena, &p.scratch, &code));
    EXPECT_STR(code.text.ptr, p.code.text.ptr);
    EXPECT_INT(code.threads, p.code.threads);
    drop(&p);
}

/* Machine code before what a driver translates, and of two architectures the later one. */
TEST(ranks_of_architectures) {
    const hn_target older = target_of("sm_80"), later = target_of("sm_90a"),
                    text = target_of("compute_120");
    EXPECT(later.rank > older.rank && older.rank > text.rank);
    EXPECT_STR(later.architecture, "sm_90a");
    EXPECT(target_of("opencl").architecture == NULL);
    EXPECT_INT(hn_target_threads(&later, 6), 132);
}

/* Shared memory that a group may ask for, by capability (CUDA C++ Programming Guide, technical
 * specifications). A layout that wants more than its target's facts say is none of the planner's,
 * so no launch is refused on a device that runs the target's code. */
TEST(every_device_of_a_target_has_its_shared_memory) {
    static const struct {
        int arch;
        uint32_t kib;
    } devices[] = {{80, 163},  {86, 99},   {87, 163},  {89, 99},  {90, 227},
                   {100, 227}, {103, 227}, {110, 227}, {120, 99}, {121, 99}};
    uint32_t pairs = 0;
    for (int k = 0; k < COUNT; k++) {
        const hn_target target = target_of(names[k]);
        for (size_t d = 0; target.architecture && d < HN_COUNT_OF(devices); d++) {
            if (hn_arch_fitness(target.architecture, devices[d].arch) < 0) continue;
            pairs++;
            EXPECT(target.gpu->shared_bytes <= 48 << 10); /* what a text may declare */
            if (target.gpu->staged_bytes > devices[d].kib << 10)
                HN_TEST_FAIL("%s on sm_%d: %u bytes", target.name, devices[d].arch,
                             target.gpu->staged_bytes);
        }
    }
    EXPECT(pairs > 20);
}

TEST(unknown_names) {
    hn_target target;
    EXPECT_ERROR(
        hn_target_named(HN_STR("pentium"), &target), HN_INVALID_ARGUMENT,
        "unknown target 'pentium'; known: x86-64-v4, x86-64-v3, generic, aarch64, opencl, sm_80, sm_86");
}

TEST_MAIN
