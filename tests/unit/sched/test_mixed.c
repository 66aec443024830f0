/* test_mixed.c: which reductions down columns join a row kernel, and which do not. */
#include "kernel/facts.h"
#include "tests/support/imaginary_gpu.h"
#include "unit/harness.h"

/* The kernels in their order: how many loops each holds, of one with slabs also how many these are,
 * and behind "+" how many values it keeps for a row. */
static const char *kernels_of(const char *statements, const hn_sched_limits *limits, char out[64]) {
    hn_arena arena, scratch;
    hn_sym *sym;
    hn_program *program = NULL;
    hn_schedule schedule = {.steps.count = 0};
    hn_strbuf text;
    hn_arena_init(&arena);
    hn_arena_init(&scratch);
    hn_strbuf_init(&text);
    hn_strbuf_printf(&text, "program {\n%s}\n", statements);
    hn_status status = hn_sym_create(&arena, &sym);
    if (!status) status = hn_program_parse(&arena, sym, hn_strbuf_str(&text), &program);
    if (!status)
        status = hn_schedule_program(program, &(hn_sched_options){.threads = 2, .limits = limits},
                                     &arena, &scratch, &schedule);
    EXPECT_OK(status);
    size_t at = 0;
    out[0] = 0;
    for (uint32_t k = 0; k < schedule.steps.count && at < 48; k++) {
        const hn_kernel *kernel = schedule.steps.items[k].kernel;
        at += (size_t)snprintf(out + at, 64 - at, "%s%u", k ? " " : "", kernel->loop_count);
        if (kernel->slabs) at += (size_t)snprintf(out + at, 64 - at, "/%u", kernel->slabs);
        if (kernel->locals.count)
            at += (size_t)snprintf(out + at, 64 - at, "+%u", kernel->locals.count);
    }
    hn_strbuf_deinit(&text);
    hn_arena_deinit(&scratch);
    hn_arena_deinit(&arena);
    return out;
}

#define EXPECT_KERNELS_OF(limits, statements, expected)                                            \
    do {                                                                                           \
        char kernels[64];                                                                          \
        EXPECT_STR(kernels_of(statements, limits, kernels), expected);                             \
    } while (0)
#define EXPECT_KERNELS(statements, expected)                                                       \
    EXPECT_KERNELS_OF(&hn_test_gpu.limits, statements, expected)

#define BUFFERS                                                                                    \
    "b1 : input 0 f32[64, 256]\n"                                                                  \
    "b2 : input 1 f32[64, 256]\n"                                                                  \
    "b3 : output f32[64] extent 64\n"                                                              \
    "b4 : output f32[256] extent 256\n"                                                            \
    "b5 : temp f32[256] extent 256\n"                                                              \
    "b6 : output f32[256] extent 256\n"
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

/* Elements, row by row or turned around, in a kernel without a reduction. */
#define MADE "b7 : output f32[64, 256] extent 16384\n"
#define MAKE(index)                                                                                \
    "pointwise (i0 < 64, i1 < 256; ) {\n  %1 = b1[" index "] : f32\n  %2 = neg(%1) : f32\n"        \
    "  b7[256*i0 + i1] = %2\n}\n"
#define MADE_RESULTS "result 0 = b7[0] [64, 256]\nresult 1 = b4[0] [256]\n"

TEST(columns_join_what_makes_the_elements) {
    EXPECT_KERNELS(BUFFERS MADE MAKE("256*i0 + i1") COLUMNS("b7", "256", "b4") MADE_RESULTS,
                   "2/3 1");
    EXPECT_KERNELS(BUFFERS MADE MAKE("256*i0 + i1") COLUMNS("b1", "256", "b4") MADE_RESULTS,
                   "2/3 1"); /* reads the same */
    EXPECT_KERNELS(BUFFERS MADE MAKE("256*i0 + i1") COLUMNS("b2", "256", "b4") MADE_RESULTS, "1 1");
    EXPECT_KERNELS(BUFFERS MADE MAKE("256*i0 + i1") COLUMNS("b7", "128", "b4") MADE_RESULTS, "1 1");
}

TEST(columns_of_what_a_row_kernel_makes_join_it) {
    const char *rows = BUFFERS MADE ROWS
        "pointwise (i0 < 64, i1 < 256; ) {\n  %1 = b2[256*i0 + i1] : f32\n  %2 = b3[i0] : f32\n"
        "  %3 = mul(%1, %2) : f32\n  b7[256*i0 + i1] = %3\n}\n" COLUMNS("b7", "256", "b4")
            MADE_RESULTS "result 2 = b3[0] [64]\n";
    EXPECT_KERNELS(rows, "3/3 1");
}

/* What combines the slabs is one kernel, even if something reads a result in between. */
TEST(slabs_of_several_columns_are_combined_once) {
    const char *both = BUFFERS ROWS COLUMNS("b1", "256", "b5") NEGATE COLUMNS("b1", "256", "b6")
        RESULTS "result 2 = b6[0] [256]\n";
    hn_sched_limits limits = hn_test_gpu.limits;
    EXPECT_KERNELS(both, "3/3 3");
    limits.mixed_shares_slabs = false;
    EXPECT_KERNELS_OF(&limits, both, "3/3 3");
}

/* Their partial results are what the slabs' number goes by. */
TEST(slabs_are_fewer_where_several_columns_join) {
    const char *one = BUFFERS ROWS COLUMNS("b1", "256", "b4") RESULTS,
               *two = BUFFERS ROWS COLUMNS("b1", "256", "b4") COLUMNS("b1", "256", "b6") RESULTS
               "result 2 = b6[0] [256]\n";
    hn_sched_limits limits = hn_test_gpu.limits;
    limits.mixed_slab_elems = 512;
    EXPECT_KERNELS_OF(&limits, one, "2/6 1");
    EXPECT_KERNELS_OF(&limits, two, "3/3 2");
    limits.mixed_all_columns_max = 256;
    EXPECT_KERNELS_OF(&limits, two, "2/3 1 1");
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

/* Rows and columns of one input of a CPU's program, by its shape. */
static void expect_on_cpu(int rows, int columns, const char *expected) {
    char text[1000];
    snprintf(text, sizeof text,
             "b1 : input 0 f32[%d, %d]\nb2 : output f32[%d] extent %d\n"
             "b3 : output f32[%d] extent %d\n"
             "reduce sum (i0 < %d; i1 < %d) {\n  %%1 = b1[%d*i0 + i1] : f32\n  b2[i0] = %%1\n}\n"
             "reduce sum (i0 < %d; i1 < %d) {\n  %%1 = b1[i0 + %d*i1] : f32\n  b3[i0] = %%1\n}\n"
             "result 0 = b2[0] [%d]\nresult 1 = b3[0] [%d]\n",
             rows, columns, rows, rows, columns, columns, rows, columns, columns, columns, rows,
             columns, rows, columns);
    EXPECT_KERNELS_OF(&hn_cpu_facts_common.limits, text, expected);
}

/* Where measurements say that it pays: enough rows for the slabs, more than a cache keeps, rows
 * that fill vectors and leave room for the columns. */
TEST(cpus_take_slabs_of_what_leaves_a_cache) {
    expect_on_cpu(8192, 1024, "2/512 1");
    expect_on_cpu(1024, 128, "2/64 1");
    expect_on_cpu(1024, 96, "1 1");
    expect_on_cpu(256, 1024, "2/64 1");
    expect_on_cpu(252, 1024, "1 1");
    expect_on_cpu(8192, 64, "2/512 1");
    expect_on_cpu(65536, 48, "1 1 1");
    expect_on_cpu(2048, 32768, "2/64 1");
    expect_on_cpu(2048, 65536, "1 1");
}

/* A product, its sum for each row, what the sum is taken from, and a sum down columns of a
 * factor. */
static void expect_product(const char *type, unsigned n, const hn_sched_limits *limits,
                           const char *expected) {
    char text[1600];
    const bool wide = strcmp(type, "f32") == 0;
    snprintf(text, sizeof text,
             "b1 : input 0 %s[8192, %u]\nb2 : input 1 %s[8192, %u]\n"
             "b3 : temp f32[8192, %u] extent %u\nb4 : temp f32[8192] extent 8192\n"
             "b5 : output f32[8192, %u] extent %u\nb6 : output f32[%u] extent %u\n"
             "pointwise (i0 < 8192, i1 < %u; ) {\n  %%1 = b1[%u*i0 + i1] : %s\n"
             "  %%2 = b2[%u*i0 + i1] : %s\n%s  b3[%u*i0 + i1] = %s\n}\n"
             "reduce sum (i0 < 8192; i1 < %u) {\n  %%1 = b3[%u*i0 + i1] : f32\n  b4[i0] = %%1\n}\n"
             "pointwise (i0 < 8192, i1 < %u; ) {\n  %%1 = b3[%u*i0 + i1] : f32\n"
             "  %%2 = b4[i0] : f32\n  %%3 = sub(%%1, %%2) : f32\n  b5[%u*i0 + i1] = %%3\n}\n"
             "reduce sum (i0 < %u; i1 < 8192) {\n  %%1 = b1[i0 + %u*i1] : %s\n%s  b6[i0] = %s\n}\n"
             "result 0 = b5[0] [8192, %u]\nresult 1 = b6[0] [%u]\n",
             type, n, type, n, n, n * 8192, n, n * 8192, n, n, n, n, type, n, type,
             wide ? "  %3 = mul(%1, %2) : f32\n"
                  : "  %3 = cast(%1) : f32\n  %4 = cast(%2) : f32\n  %5 = mul(%3, %4) : f32\n",
             n, wide ? "%3" : "%5", n, n, n, n, n, n, n, type,
             wide ? "" : "  %2 = cast(%1) : f32\n", wide ? "%1" : "%2", n, n);
    EXPECT_KERNELS_OF(limits, text, expected);
}

/* On CPUs 16-bit floats are widened each time that they are loaded. */
TEST(products_of_narrow_floats_are_kept) {
    expect_product("f32", 1024, &hn_cpu_facts_common.limits, "4/512 1");
    expect_product("bf16", 1024, &hn_cpu_facts_common.limits, "4/512+1 1");
    expect_product("f16", 1024, &hn_cpu_facts_common.limits, "4/512+1 1");
    hn_sched_limits limits = hn_cpu_facts_common.limits;
    limits.local_max_elems = 512; /* a longer row would be kept in memory */
    expect_product("bf16", 1024, &limits, "4/512 1");
    limits = hn_cpu_facts_common.limits;
    limits.mixed_narrow_loads = 0;
    expect_product("bf16", 1024, &limits, "4/512 1");
}

TEST_MAIN
