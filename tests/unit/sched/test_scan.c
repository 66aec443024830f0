/* test_scan.c: scans of few long rows become several loops. */
#include "kernel/facts.h"
#include "unit/harness.h"

/* The kernels of a scan of `rows` rows of `elems` elements. */
static uint32_t kernels_of(const char *op, const char *dtype, int rows, int elems,
                           const hn_sched_limits *limits) {
    hn_arena arena, scratch;
    hn_sym *sym;
    hn_program *program = NULL;
    hn_schedule schedule = {.steps.count = 0};
    hn_strbuf text;
    hn_arena_init(&arena);
    hn_arena_init(&scratch);
    hn_strbuf_init(&text);
    hn_strbuf_printf(&text,
                     "program {\nb1 : input 0 %3$s[%1$d, %2$d]\n"
                     "b2 : output %3$s[%1$d, %2$d] extent %1$d*%2$d\n"
                     "scan %4$s (i0 < %1$d; i1 < %2$d) {\n %%1 = b1[%2$d*i0 + i1] : %3$s\n"
                     " b2[%2$d*i0 + i1] = %%1\n}\nresult 0 = b2[0] []\n}\n",
                     rows, elems, dtype, op);
    hn_status status = hn_sym_create(&arena, &sym);
    if (!status) status = hn_program_parse(&arena, sym, hn_strbuf_str(&text), &program);
    if (!status)
        status = hn_schedule_program(program, &(hn_sched_options){.threads = 132, .limits = limits},
                                     &arena, &scratch, &schedule);
    EXPECT_OK(status);
    const uint32_t count = schedule.steps.count;
    hn_strbuf_deinit(&text);
    hn_arena_deinit(&scratch);
    hn_arena_deinit(&arena);
    return count;
}

#define EXPECT_KERNELS(count, op, dtype, rows, elems)                                              \
    EXPECT_INT(kernels_of(op, dtype, rows, elems, &hn_gpu_facts_sm_90.limits), count)

TEST(few_long_rows_are_cut) {
    EXPECT_KERNELS(3, "cumsum", "f32", 1, 1 << 20);
    EXPECT_KERNELS(3, "cumsum", "f32", 64, 128256);
    EXPECT_KERNELS(3, "cumprod", "i64", 2, 1 << 20);
}

/* The elements that are left behind the last whole piece. */
TEST(a_rest_is_a_kernel) { EXPECT_KERNELS(4, "cumsum", "f32", 1, 1000003); }

TEST(short_or_many_rows_stay) {
    EXPECT_KERNELS(1, "cumsum", "f32", 1, 65536);
    EXPECT_KERNELS(1, "cumsum", "f32", 67, 128256);
}

/* Positions would be those within a piece; products of floats may be 0 times infinity; and sums of 16
 * bits would be rounded. */
TEST(what_does_not_combine_stays) {
    EXPECT_KERNELS(1, "cummax", "f32", 1, 1 << 20);
    EXPECT_KERNELS(1, "logcumsumexp", "f32", 1, 1 << 20);
    EXPECT_KERNELS(1, "cumprod", "f32", 1, 1 << 20);
    EXPECT_KERNELS(1, "cumsum", "bf16", 1, 1 << 20);
}

/* A CPU's results are those of one loop, bit for bit. */
TEST(cpus_cut_no_scan) {
    EXPECT_INT(kernels_of("cumsum", "f32", 1, 1 << 20, &hn_cpu_facts_common.limits), 1);
}

TEST_MAIN
