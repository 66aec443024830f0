/* test_remade.c: what a kernel writes for later kernels alone is computed by them, if fewer bytes move. */
#include "kernel/facts.h"
#include "unit/harness.h"

/* How many values are computed by their readers in the schedule of a program, and how many kernels
 * there are; whether one stores b4. */
static uint32_t schedule_of(const char *statements, uint32_t *out_kernels, bool *out_stores) {
    hn_arena arena, scratch;
    hn_sym *sym;
    hn_program *program = NULL;
    hn_schedule schedule = {.steps.count = 0};
    hn_strbuf text;
    hn_sched_limits limits = hn_cpu_facts_common.limits;
    limits.again_min_bytes = 0; /* another matter: again.c */
    hn_arena_init(&arena);
    hn_arena_init(&scratch);
    hn_strbuf_init(&text);
    hn_strbuf_printf(&text, "program {\n%s}\n", statements);
    hn_status status = hn_sym_create(&arena, &sym);
    if (!status) status = hn_program_parse(&arena, sym, hn_strbuf_str(&text), &program);
    if (!status)
        status = hn_schedule_program(program, &(hn_sched_options){.threads = 2, .limits = &limits},
                                     &arena, &scratch, &schedule);
    EXPECT_OK(status);
    *out_kernels = schedule.steps.count;
    *out_stores = false;
    for (uint32_t k = 0; k < schedule.steps.count; k++) {
        const hn_kernel *kernel = schedule.steps.items[k].kernel;
        for (uint32_t f = 0; kernel && f < kernel->phases.count; f++)
            for (uint32_t n = 0; n < kernel->phases.items[f].stores.count; n++)
                *out_stores |= kernel->phases.items[f].stores.items[n].buffer == 4;
    }
    const uint32_t again = schedule.rewrites[HN_SCHED_REMADE];
    hn_strbuf_deinit(&text);
    hn_arena_deinit(&scratch);
    hn_arena_deinit(&arena);
    return again;
}

/* Rows of 1000: b3 = their sums, b4 = a value; then b6 = the sum of all, and b7 = b4 * b6 + b3. The
 * last kernel cannot join the first: it waits for all rows. */
#define PROGRAM(value, kind)                                                                         \
    "b1 : input 0 f32[64, 1000]\nb2 : input 1 f32[64, 1000]\n"                                       \
    "b3 : temp f32[64] extent 64\nb4 : " kind " f32[64, 1000] extent 64000\n"                        \
    "b5 : output f32[64, 1000] extent 64000\nb6 : temp f32[] extent 1\n"                             \
    "b7 : output f32[64, 1000] extent 64000\n"                                                       \
    "reduce sum (i0 < 64; i1 < 1000) {\n  %1 = b1[1000*i0 + i1] : f32\n  b3[i0] = %1\n}\n"           \
    "pointwise (i0 < 64, i1 < 1000; ) {\n  %1 = b1[1000*i0 + i1] : f32\n  %2 = b3[i0] : f32\n" value \
    "}\n"                                                                                            \
    "pointwise (i0 < 64, i1 < 1000; ) {\n  %1 = b4[1000*i0 + i1] : f32\n  %2 = neg(%1) : f32\n"      \
    "  b5[1000*i0 + i1] = %2\n}\n"                                                                   \
    "reduce sum (; i0 < 64) {\n  %1 = b3[i0] : f32\n  b6[0] = %1\n}\n"                               \
    "pointwise (i0 < 64, i1 < 1000; ) {\n  %1 = b4[1000*i0 + i1] : f32\n  %2 = b6[0] : f32\n"        \
    "  %3 = mul(%1, %2) : f32\n  %4 = b3[i0] : f32\n  %5 = add(%3, %4) : f32\n"                      \
    "  b7[1000*i0 + i1] = %5\n}\n"                                                                   \
    "result 0 = b5[0] [64, 1000]\nresult 1 = b7[0] [64, 1000]\n"
#define LOG  "  %3 = log(%2) : f32\n  %4 = sub(%1, %3) : f32\n  b4[1000*i0 + i1] = %4\n"
#define TWO  "  %3 = b2[1000*i0 + i1] : f32\n  %4 = sub(%1, %3) : f32\n  b4[1000*i0 + i1] = %4\n"
#define MUCH "  %3 = tan(%1) : f32\n  %4 = sub(%3, %2) : f32\n  b4[1000*i0 + i1] = %4\n"

TEST(rows_that_a_later_kernel_reads_are_computed_there) {
    uint32_t kernels;
    bool stores;
    EXPECT_INT(schedule_of(PROGRAM(LOG, "temp"), &kernels, &stores), 1);
    EXPECT(!stores);
    EXPECT(kernels >= 2);
}

TEST(a_result_of_the_program_is_written) {
    uint32_t kernels;
    bool stores;
    EXPECT_INT(
        schedule_of(PROGRAM(LOG, "output") "result 2 = b4[0] [64, 1000]\n", &kernels, &stores), 0);
    EXPECT(stores);
}

/* Two buffers of its size are read in its place: as many bytes as it was written and read. */
TEST(what_saves_nothing_is_written) {
    uint32_t kernels;
    bool stores;
    EXPECT_INT(schedule_of(PROGRAM(TWO, "temp"), &kernels, &stores), 0);
    EXPECT(stores);
}

TEST(what_takes_longer_than_memory_is_written) {
    uint32_t kernels;
    bool stores;
    EXPECT_INT(schedule_of(PROGRAM(MUCH, "temp"), &kernels, &stores), 0);
    EXPECT(stores);
}

TEST_MAIN
