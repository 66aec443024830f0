/* test_pick.c: reductions over rows that take single elements of them. */
#include "kernel/facts.h"
#include "tests/support/imaginary_gpu.h"
#include "unit/harness.h"

static bool stores(const hn_kernel *kernel, hn_buf b) {
    for (uint32_t f = 0; f < kernel->phases.count; f++)
        for (uint32_t k = 0; k < kernel->phases.items[f].stores.count; k++)
            if (kernel->phases.items[f].stores.items[k].buffer == b) return true;
    return false;
}

/* The kernels in their order: how many loops each holds; "!" where it stores b4. */
static const char *kernels_of(const char *statements, const hn_sched_limits *limits, char out[64]) {
    hn_arena arena, scratch;
    hn_sym *sym;
    hn_program *program = NULL;
    hn_schedule schedule = {.steps.count = 0};
    hn_strbuf text;
    hn_sched_limits own = *limits;
    own.again_min_bytes = 0; /* rows that are made again are another matter: again.c, remade.c */
    own.remade_min_bytes = 0;
    hn_arena_init(&arena);
    hn_arena_init(&scratch);
    hn_strbuf_init(&text);
    hn_strbuf_printf(&text, "program {\n%s}\n", statements);
    hn_status status = hn_sym_create(&arena, &sym);
    if (!status) status = hn_program_parse(&arena, sym, hn_strbuf_str(&text), &program);
    if (!status)
        status = hn_schedule_program(program, &(hn_sched_options){.threads = 2, .limits = &own},
                                     &arena, &scratch, &schedule);
    EXPECT_OK(status);
    size_t at = 0;
    out[0] = 0;
    for (uint32_t k = 0; k < schedule.steps.count && at < 48; k++) {
        const hn_kernel *kernel = schedule.steps.items[k].kernel;
        at += (size_t)snprintf(out + at, 64 - at, "%s%u%s", k ? " " : "", kernel->loop_count,
                               stores(kernel, 4) ? "!" : "");
    }
    hn_strbuf_deinit(&text);
    hn_arena_deinit(&scratch);
    hn_arena_deinit(&arena);
    return out;
}

#define EXPECT_KERNELS(statements, limits, expected)                                               \
    do {                                                                                           \
        char kernels[64];                                                                          \
        EXPECT_STR(kernels_of(statements, limits, kernels), expected);                             \
    } while (0)

/* Rows of 1028 elements: too long to be kept for another phase. b4 is their distance to the
 * largest. */
#define BUFFERS(b4)                                                                                \
    "b1 : input 0 f32[300, 1028]\n"                                                                \
    "b2 : input 1 i64[300]\n"                                                                      \
    "b3 : temp f32[300] extent 300\n"                                                              \
    "b4 : " b4 " f32[300, 1028] extent 308400\n"                                                   \
    "b5 : temp f32[300] extent 300\n"                                                              \
    "b6 : output f32[] extent 1\n"                                                                 \
    "b7 : output i64[] extent 1\n"
#define ROWS                                                                                       \
    "reduce amax (i0 < 300; i1 < 1028) {\n  %1 = b1[1028*i0 + i1] : f32\n  b3[i0] = %1\n}\n"       \
    "pointwise (i0 < 300, i1 < 1028; ) {\n  %1 = b1[1028*i0 + i1] : f32\n  %2 = b3[i0] : f32\n"    \
    "  %3 = sub(%1, %2) : f32\n  b4[1028*i0 + i1] = %3\n}\n"                                       \
    "reduce sum (i0 < 300; i1 < 1028) {\n  %1 = b4[1028*i0 + i1] : f32\n  %2 = exp(%1) : f32\n"    \
    "  b5[i0] = %2\n}\n"
#define PICK(op)                                                                                   \
    "reduce " op " (; i0 < 300) {\n  %1 = b2[i0] : i64\n  %2 = t0 := check(%1 < 1028) : i64\n"     \
    "  %3 = b4[1028*i0 + t0] : f32\n  %4 = b5[i0] : f32\n  %5 = sub(%3, %4) : f32\n"               \
    "  b6[0] = %5\n}\n"
#define COUNT  "reduce sum (; i0 < 300) {\n  %1 = b2[i0] : i64\n  b7[0] = %1\n}\n"
#define RESULT "result 0 = b6[0] []\n"

/* The rows are not written: one element of each is. */
TEST(picked_elements_are_made_where_the_rows_are) {
    EXPECT_KERNELS(BUFFERS("temp") ROWS PICK("sum") RESULT, &hn_test_gpu.limits, "4 1");
    EXPECT_KERNELS(BUFFERS("temp") ROWS PICK("amax") RESULT, &hn_test_gpu.limits, "4 1");
}

/* What reads the index as well, and as many of them, joins what is left. */
TEST(other_reductions_of_the_index_join) {
    EXPECT_KERNELS(BUFFERS("temp") ROWS PICK("sum") COUNT RESULT "result 1 = b7[0] []\n",
                   &hn_test_gpu.limits, "4 2");
}

/* Where rows are written all the same, or elements are not computed again, nothing is picked. */
TEST(rows_that_are_needed_are_read) {
    EXPECT_KERNELS(BUFFERS("output") ROWS PICK("sum") RESULT "result 1 = b4[0] [300, 1028]\n",
                   &hn_test_gpu.limits, "3! 1");
    EXPECT_KERNELS(BUFFERS("temp") ROWS PICK("sum") RESULT, &hn_cpu_facts_common.limits, "3! 1");
}

/* Several elements of a row are as many numbers as there are, which may be more than the rows. */
TEST(several_of_a_row_are_read) {
    EXPECT_KERNELS(BUFFERS("temp") ROWS
                   "reduce sum (; i0 < 300, i1 < 5) {\n  %1 = b2[i1] : i64\n"
                   "  %2 = t0 := check(%1 < 1028) : i64\n  %3 = b4[1028*i0 + t0] : f32\n"
                   "  b6[0] = %3\n}\n" RESULT,
                   &hn_test_gpu.limits, "3! 1");
}

TEST_MAIN
