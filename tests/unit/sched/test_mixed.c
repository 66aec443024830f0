/* test_mixed.c: which reductions down columns join a row kernel, and which do not. */
#include "kernel/facts.h"
#include "tests/support/imaginary_gpu.h"
#include "unit/harness.h"

/* The kernels in their order: how many loops each holds, and of one with slabs also how many these
 * are. */
static const char *kernels_of(const char *statements, char out[64]) {
    hn_arena arena, scratch;
    hn_sym *sym;
    hn_program *program = NULL;
    hn_schedule schedule = {.refused = 0};
    hn_strbuf text;
    hn_arena_init(&arena);
    hn_arena_init(&scratch);
    hn_strbuf_init(&text);
    hn_strbuf_printf(&text, "program {\n%s}\n", statements);
    hn_status status = hn_sym_create(&arena, &sym);
    if (!status) status = hn_program_parse(&arena, sym, hn_strbuf_str(&text), &program);
    if (!status)
        status = hn_schedule_program(
            program, &(hn_sched_options){.threads = 2, .limits = &hn_test_gpu.limits}, &arena,
            &scratch, &schedule);
    EXPECT_OK(status);
    size_t at = 0;
    out[0] = 0;
    for (uint32_t k = 0; k < schedule.steps.count && at < 48; k++) {
        const hn_kernel *kernel = schedule.steps.items[k].kernel;
        at += (size_t)snprintf(out + at, 64 - at, "%s%u", k ? " " : "", kernel->loop_count);
        if (kernel->slabs) at += (size_t)snprintf(out + at, 64 - at, "/%u", kernel->slabs);
    }
    hn_strbuf_deinit(&text);
    hn_arena_deinit(&scratch);
    hn_arena_deinit(&arena);
    return out;
}

#define EXPECT_KERNELS(statements, expected)                                                       \
    do {                                                                                           \
        char kernels[64];                                                                          \
        EXPECT_STR(kernels_of(statements, kernels), expected);                                     \
    } while (0)

#define BUFFERS                                                                                    \
    "b1 : input 0 f32[64, 256]\n"                                                                  \
    "b2 : input 1 f32[64, 256]\n"                                                                  \
    "b3 : output f32[64] extent 64\n"                                                              \
    "b4 : output f32[256] extent 256\n"                                                            \
    "b5 : temp f32[256] extent 256\n"
#define ROWS "reduce sum (i0 < 64; i1 < 256) {\n  %1 = b1[256*i0 + i1] : f32\n  b3[i0] = %1\n}\n"
#define COLUMNS(from, step, to)                                                                    \
    "reduce sum (i0 < 256; i1 < 64) {\n  %1 = " from "[i0 + " step "*i1] : f32\n  " to             \
    "[i0] = %1\n}\n"
#define NEGATE                                                                                     \
    "pointwise (i0 < 256; ) {\n  %1 = b5[i0] : f32\n  %2 = neg(%1) : f32\n  b4[i0] = %2\n}\n"
#define RESULTS "result 0 = b3[0] [64]\nresult 1 = b4[0] [256]\n"

TEST(columns_join_the_rows_of_what_they_read) {
    EXPECT_KERNELS(BUFFERS ROWS COLUMNS("b1", "256", "b4") RESULTS, "2/3 1");
    EXPECT_KERNELS(BUFFERS ROWS COLUMNS("b2", "256", "b4") RESULTS, "1 1");
    EXPECT_KERNELS(BUFFERS ROWS COLUMNS("b1", "128", "b4") RESULTS, "1 1"); /* other elements */
}

/* They wait for the rows, and so does what reads their result. */
TEST(columns_may_come_first) {
    EXPECT_KERNELS(BUFFERS COLUMNS("b1", "256", "b4") ROWS RESULTS, "2/3 1");
    EXPECT_KERNELS(BUFFERS COLUMNS("b1", "256", "b5") NEGATE ROWS RESULTS, "2/3 2");
}

/* The rows read what the columns come to. */
#define ROWS_OF_COLUMNS                                                                            \
    "reduce sum (i0 < 64; i1 < 256) {\n  %1 = b1[256*i0 + i1] : f32\n  %2 = b4[i1] : f32\n"        \
    "  %3 = mul(%1, %2) : f32\n  b3[i0] = %3\n}\n"

TEST(rows_that_need_the_columns_come_later) {
    EXPECT_KERNELS(BUFFERS COLUMNS("b1", "256", "b4") ROWS_OF_COLUMNS RESULTS, "1 1");
    EXPECT_KERNELS(BUFFERS ROWS COLUMNS("b1", "256", "b4") RESULTS, "2/3 1");
}

TEST_MAIN
