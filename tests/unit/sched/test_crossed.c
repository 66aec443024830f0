/* test_crossed.c: cheap values that a reduction reads across the rows that they are made in. */
#include "kernel/facts.h"
#include "unit/harness.h"

/* The schedule of a program: how many values their readers compute, and how many kernels there are. */
static void schedule_of(const char *statements, uint32_t *out_again, uint32_t *out_kernels) {
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
        status = hn_schedule_program(
            program, &(hn_sched_options){.threads = 2, .limits = &hn_cpu_facts_common.limits},
            &arena, &scratch, &schedule);
    EXPECT_OK(status);
    *out_again = schedule.rewrites[HN_SCHED_CROSSED];
    *out_kernels = schedule.steps.count;
    hn_strbuf_deinit(&text);
    hn_arena_deinit(&scratch);
    hn_arena_deinit(&arena);
}

/* Batch norm of 6 x 8 x 49: b3 = mean, b4 = distance to it, b5 = its squares' sum. */
#define BUFFERS(b4)                                                                                \
    "b1 : input 0 f32[6, 8, 49]\n"                                                                 \
    "b2 : input 1 f32[6, 8, 49]\n"                                                                 \
    "b3 : temp f32[8] extent 8\n"                                                                  \
    "b4 : " b4 " f32[6, 8, 49] extent 2352\n"                                                      \
    "b5 : temp f32[8] extent 8\n"                                                                  \
    "b6 : output f32[6, 8, 49] extent 2352\n"
#define MEAN                                                                                       \
    "reduce sum (i0 < 8; i1 < 6, i2 < 49) {\n  %1 = b1[49*i0 + 392*i1 + i2] : f32\n  b3[i0] = "    \
    "%1\n}\n"
#define MADE(body)                                                                                 \
    "pointwise (i0 < 6, i1 < 8, i2 < 49; ) {\n  %1 = b1[392*i0 + 49*i1 + i2] : f32\n"              \
    "  %2 = b3[i1] : f32\n" body "}\n"
#define SUB "  %3 = sub(%1, %2) : f32\n  b4[392*i0 + 49*i1 + i2] = %3\n"
#define SQUARES                                                                                    \
    "reduce sum (i0 < 8; i1 < 6, i2 < 49) {\n  %1 = b4[49*i0 + 392*i1 + i2] : f32\n"               \
    "  %2 = mul(%1, %1) : f32\n  b5[i0] = %2\n}\n"
#define LAST                                                                                       \
    "pointwise (i0 < 6, i1 < 8, i2 < 49; ) {\n  %1 = b4[392*i0 + 49*i1 + i2] : f32\n"              \
    "  %2 = b5[i1] : f32\n  %3 = mul(%1, %2) : f32\n  b6[392*i0 + 49*i1 + i2] = %3\n}\n"
#define RESULT "result 0 = b6[0] [6, 8, 49]\n"

TEST(a_distance_to_the_mean_of_channels_is_computed_by_its_readers) {
    uint32_t again, kernels;
    schedule_of(BUFFERS("temp") MEAN MADE(SUB) SQUARES LAST RESULT, &again, &kernels);
    EXPECT_INT(again, 1);
    EXPECT(kernels <= 2);
}

TEST(what_leaves_the_program_is_made) {
    uint32_t again, kernels;
    schedule_of(BUFFERS("output") MEAN MADE(SUB) SQUARES LAST RESULT
                "result 1 = b4[0] [6, 8, 49]\n",
                &again, &kernels);
    EXPECT_INT(again, 0);
}

/* Two buffers of its size: readers would read more. */
TEST(what_is_made_of_two_large_buffers_stays) {
    uint32_t again, kernels;
    schedule_of(BUFFERS("temp")
                    MEAN MADE("  %3 = b2[392*i0 + 49*i1 + i2] : f32\n  %4 = sub(%1, %3) : f32\n"
                              "  %5 = sub(%4, %2) : f32\n  b4[392*i0 + 49*i1 + i2] = %5\n")
                        SQUARES LAST RESULT,
                &again, &kernels);
    EXPECT_INT(again, 0);
}

TEST(what_costs_much_stays) {
    uint32_t again, kernels;
    schedule_of(BUFFERS("temp") MEAN MADE("  %3 = sub(%1, %2) : f32\n  %4 = exp(%3) : f32\n"
                                          "  b4[392*i0 + 49*i1 + i2] = %4\n") SQUARES LAST RESULT,
                &again, &kernels);
    EXPECT_INT(again, 0);
}

/* Rows that a reduction takes as they are made are one kernel: nothing is computed twice. */
TEST(reductions_of_the_rows_themselves_take_what_is_there) {
    uint32_t again, kernels;
    schedule_of("b1 : input 0 f32[60, 40]\nb2 : temp f32[60] extent 60\n"
                "b3 : temp f32[60, 40] extent 2400\nb4 : temp f32[60] extent 60\n"
                "b5 : output f32[60, 40] extent 2400\n"
                "reduce sum (i0 < 60; i1 < 40) {\n  %1 = b1[40*i0 + i1] : f32\n  b2[i0] = %1\n}\n"
                "pointwise (i0 < 60, i1 < 40; ) {\n  %1 = b1[40*i0 + i1] : f32\n"
                "  %2 = b2[i0] : f32\n  %3 = sub(%1, %2) : f32\n  b3[40*i0 + i1] = %3\n}\n"
                "reduce sum (i0 < 60; i1 < 40) {\n  %1 = b3[40*i0 + i1] : f32\n  b4[i0] = %1\n}\n"
                "pointwise (i0 < 60, i1 < 40; ) {\n  %1 = b3[40*i0 + i1] : f32\n"
                "  %2 = b4[i0] : f32\n  %3 = mul(%1, %2) : f32\n  b5[40*i0 + i1] = %3\n}\n"
                "result 0 = b5[0] [60, 40]\n",
                &again, &kernels);
    EXPECT_INT(again, 0);
    EXPECT_INT(kernels, 1);
}

/* b3 = b2 * b1 is read down the columns; b2 = b1 - mean is then, too. */
TEST(a_value_made_of_another_one_goes_with_it) {
    uint32_t again, kernels;
    schedule_of("b1 : input 0 f32[60, 40]\nb2 : input 1 f32[60]\n"
                "b3 : temp f32[60, 40] extent 2400\nb4 : temp f32[60, 40] extent 2400\n"
                "b5 : output f32[40] extent 40\nb6 : output f32[60, 40] extent 2400\n"
                "pointwise (i0 < 60, i1 < 40; ) {\n  %1 = b1[40*i0 + i1] : f32\n"
                "  %2 = b2[i0] : f32\n  %3 = sub(%1, %2) : f32\n  b3[40*i0 + i1] = %3\n}\n"
                "pointwise (i0 < 60, i1 < 40; ) {\n  %1 = b3[40*i0 + i1] : f32\n"
                "  %2 = b2[i0] : f32\n  %3 = mul(%1, %2) : f32\n  b4[40*i0 + i1] = %3\n}\n"
                "pointwise (i0 < 60, i1 < 40; ) {\n  %1 = b3[40*i0 + i1] : f32\n"
                "  %2 = b4[40*i0 + i1] : f32\n  %3 = mul(%1, %2) : f32\n  b6[40*i0 + i1] = %3\n}\n"
                "reduce sum (i0 < 40; i1 < 60) {\n  %1 = b4[i0 + 40*i1] : f32\n  b5[i0] = %1\n}\n"
                "result 0 = b5[0] [40]\nresult 1 = b6[0] [60, 40]\n",
                &again, &kernels);
    EXPECT_INT(again, 2);
}

TEST_MAIN
