/* test_foreach.c: which kernels become segments of one. That they compute the same then is checked
 * in kernel/test_segments.c. */
#include "kernel/facts.h"
#include "tests/support/imaginary_gpu.h"
#include "unit/harness.h"

/* Steps in their order: how many segments each kernel has, 1 where it is an ordinary one; a bracket
 * of a conditional is "-". */
static const char *steps_of(const char *statements, const hn_sched_limits *limits, char out[64]) {
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
        const uint32_t count = kernel && kernel->segments.count ? kernel->segments.count : 1;
        at += (size_t)(kernel ? snprintf(out + at, 64 - at, "%s%u", k ? " " : "", count)
                              : snprintf(out + at, 64 - at, "%s-", k ? " " : ""));
    }
    hn_strbuf_deinit(&text);
    hn_arena_deinit(&scratch);
    hn_arena_deinit(&arena);
    return out;
}

#define EXPECT_STEPS_OF(statements, limits, expected)                                              \
    do {                                                                                           \
        char steps[64];                                                                            \
        EXPECT_STR(steps_of(statements, limits, steps), expected);                                 \
    } while (0)
#define EXPECT_STEPS(statements, expected)                                                         \
    EXPECT_STEPS_OF(statements, &hn_cpu_facts_common.limits, expected)

#define LOOP(op, count, from, to)                                                                  \
    "pointwise (i0 < " count "; ) {\n  %1 = " from "[i0] : f32\n  %2 = " op "(%1) : f32\n  " to    \
    "[i0] = %2\n}\n"
#define BUFFERS                                                                                    \
    "b1 : input 0 f32[32]\nb2 : input 1 f32[16]\nb3 : input 2 f32[7]\n"                            \
    "b4 : output f32[32] extent 32\nb5 : output f32[16] extent 16\nb6 : output f32[7] extent 7\n"  \
    "b7 : temp f32[16] extent 16\nb8 : input 3 bool[]\nb9 : input 4 f32[16]\n"
#define RESULTS    "result 0 = b4[0] [32]\nresult 1 = b5[0] [16]\nresult 2 = b6[0] [7]\n"
#define RESULTS_45 "result 0 = b4[0] [32]\nresult 1 = b5[0] [16]\n"
#define RESULTS_46 "result 0 = b4[0] [32]\nresult 1 = b6[0] [7]\n"
#define RESULTS_S0 "result 0 = b3[0] [s0]\nresult 1 = b4[0] [s0]\n"
#define RESULTS_56 "result 0 = b5[0] [16]\nresult 1 = b6[0] [7]\n"

TEST(loops_that_do_the_same_to_other_memory_become_one) {
    EXPECT_STEPS(BUFFERS LOOP("neg", "32", "b1", "b4") LOOP("neg", "16", "b2", "b5")
                     LOOP("neg", "7", "b3", "b6") RESULTS,
                 "3");
    EXPECT_STEPS(BUFFERS LOOP("neg", "32", "b1", "b4") LOOP("exp", "16", "b2", "b5")
                     LOOP("neg", "7", "b3", "b6") RESULTS,
                 "2 1");
    EXPECT_STEPS(BUFFERS LOOP("neg", "32", "b1", "b4") LOOP("exp", "16", "b2", "b5")
                     LOOP("abs", "7", "b3", "b6") RESULTS,
                 "1 1 1");
}

TEST(lengths_that_are_no_vectors_stay_apart_on_a_gpu) {
    EXPECT_STEPS_OF(BUFFERS LOOP("neg", "32", "b1", "b4") LOOP("neg", "7", "b3", "b6")
                        LOOP("neg", "16", "b2", "b5") RESULTS,
                    &hn_test_gpu.limits, "2 1");
}

/* The second one reads a part of what the first one makes; its twin reads an input. */
TEST(a_loop_does_not_join_what_it_depends_on) {
    EXPECT_STEPS(BUFFERS LOOP("neg", "16", "b2", "b5") LOOP("neg", "7", "b5", "b6") RESULTS_56,
                 "1 1");
    EXPECT_STEPS(BUFFERS LOOP("neg", "16", "b2", "b5") LOOP("neg", "7", "b3", "b6") RESULTS_56,
                 "2");
    /* by way of another one, which comes behind the first */
    EXPECT_STEPS(BUFFERS LOOP("neg", "32", "b1", "b4") LOOP("exp", "16", "b2", "b7")
                     LOOP("neg", "7", "b7", "b6") RESULTS_46,
                 "1 1 1");
    EXPECT_STEPS(BUFFERS LOOP("neg", "32", "b1", "b4") LOOP("exp", "16", "b2", "b7")
                     LOOP("neg", "7", "b3", "b6") RESULTS_46,
                 "2 1");
}

/* b7 is read before it is written again. */
TEST(a_loop_does_not_run_before_who_reads_what_it_overwrites) {
    EXPECT_STEPS(BUFFERS LOOP("exp", "16", "b2", "b7") LOOP("neg", "32", "b1", "b4")
                     LOOP("abs", "7", "b7", "b6") LOOP("neg", "16", "b2", "b7")
                         LOOP("sqrt", "7", "b7", "b5") RESULTS,
                 "1 1 1 1 1");
    EXPECT_STEPS(BUFFERS LOOP("exp", "16", "b2", "b7") LOOP("neg", "32", "b1", "b4")
                     LOOP("abs", "7", "b3", "b6") LOOP("neg", "16", "b9", "b5") RESULTS,
                 "1 2 1");
}

TEST(a_loop_stays_in_its_conditional) {
    EXPECT_STEPS(BUFFERS LOOP("neg", "32", "b1", "b4") "then b8\n" LOOP(
                     "neg", "16", "b2", "b5") "else\n" LOOP("neg", "16", "b2",
                                                            "b5") "end\n" LOOP("neg", "7", "b3",
                                                                               "b6") RESULTS,
                 "1 - 1 - 1 - 1");
}

TEST(a_loop_stays_behind_an_assertion) {
    EXPECT_STEPS(BUFFERS LOOP("neg", "32", "b1", "b4") "assert b8 \"is not so\"\n" LOOP(
                     "neg", "16", "b2", "b5") LOOP("neg", "7", "b3", "b6") RESULTS,
                 "1 - 2");
}

TEST(a_kernel_has_as_many_arguments_as_the_target_allows) {
    hn_sched_limits limits = hn_cpu_facts_common.limits;
    limits.segment_arguments_max = 8; /* two of two memories, a length and an end each */
    EXPECT_STEPS_OF(BUFFERS LOOP("neg", "32", "b1", "b4") LOOP("neg", "16", "b2", "b5")
                        LOOP("neg", "7", "b3", "b6") RESULTS,
                    &limits, "2 1");
    limits.segment_arguments_max = 0;
    EXPECT_STEPS_OF(BUFFERS LOOP("neg", "32", "b1", "b4") LOOP("neg", "16", "b2", "b5") RESULTS_45,
                    &limits, "1 1");
}

/* Each has two memories, a size that only its extent has, a length and an end; without the size, one
 * argument less. */
TEST(sizes_of_extents_are_arguments) {
    static const char sized[] = "symbol size s0 in [1, 64] hint 8\nb1 : input 0 f32[s0]\n"
                                "b2 : input 1 f32[s0]\nb3 : output f32[s0] extent s0\n"
                                "b4 : output f32[s0] extent s0\n" LOOP("neg", "s0", "b1", "b3")
                                    LOOP("neg", "s0", "b2", "b4") RESULTS_S0;
    hn_sched_limits limits = hn_cpu_facts_common.limits;
    limits.segment_arguments_max = 10;
    EXPECT_STEPS_OF(sized, &limits, "2");
    limits.segment_arguments_max = 9;
    EXPECT_STEPS_OF(sized, &limits, "1 1");
    EXPECT_STEPS_OF(BUFFERS LOOP("neg", "32", "b1", "b4") LOOP("neg", "16", "b2", "b5") RESULTS_45,
                    &limits, "2");
}

/* b7 is read later, so that it would live longer. */
TEST(large_results_do_not_wait) {
    hn_sched_limits limits = hn_cpu_facts_common.limits;
#define WAITING                                                                                    \
    BUFFERS LOOP("neg", "32", "b1", "b4") LOOP("neg", "16", "b2", "b7")                            \
        LOOP("exp", "7", "b7", "b6") RESULTS_46
    limits.segment_waiting_bytes = 64;
    EXPECT_STEPS_OF(WAITING, &limits, "2 1");
    limits.segment_waiting_bytes = 63;
    EXPECT_STEPS_OF(WAITING, &limits, "1 1 1");
}

TEST_MAIN
