/* test_refused.c: the list of refused fusions: why, what it would have saved, between which steps. */
#include "codegen/codegen.h"

#include "unit/harness.h"

typedef struct scheduled {
    hn_arena arena, scratch;
    hn_program *program;
    hn_schedule schedule;
} scheduled;

static void make(scheduled *t, const char *statements) {
    hn_sym *sym;
    hn_strbuf text;
    *t = (scheduled){0};
    hn_arena_init(&t->arena);
    hn_arena_init(&t->scratch);
    hn_strbuf_init(&text);
    hn_strbuf_printf(&text, "program {\n%s}\n", statements);
    hn_status status = hn_sym_create(&t->arena, &sym);
    if (!status) status = hn_program_parse(&t->arena, sym, hn_strbuf_str(&text), &t->program);
    if (!status)
        status = hn_schedule_program(
            t->program, &(hn_sched_options){.threads = 2, .limits = hn_target_host().kind->limits},
            &t->arena, &t->scratch, &t->schedule);
    EXPECT_OK(status);
    hn_strbuf_deinit(&text);
}

static void drop(scheduled *t) {
    hn_arena_deinit(&t->scratch);
    hn_arena_deinit(&t->arena);
}

/* b2 is made and read by loops of two spaces: 15 of its 32 elements are read, each 4 bytes. */
#define TWO_SPACES(count)                                                                          \
    "b1 : input 0 f32[32]\n"                                                                       \
    "b2 : output f32[32] extent 32\n"                                                              \
    "b3 : output f32[32] extent 32\n"                                                              \
    "pointwise (i0 < 32; ) {\n"                                                                    \
    "  %1 = b1[i0] : f32\n"                                                                        \
    "  b2[i0] = %1\n"                                                                              \
    "}\n"                                                                                          \
    "pointwise (i0 < " count "; ) {\n"                                                             \
    "  %1 = b2[i0] : f32\n"                                                                        \
    "  b3[i0] = %1\n"                                                                              \
    "}\n"                                                                                          \
    "result 0 = b2[0] [32]\n"                                                                      \
    "result 1 = b3[0] [32]\n"

TEST(a_refusal_says_why_and_what_it_costs) {
    scheduled t;
    make(&t, TWO_SPACES("15"));
    EXPECT_INT(t.schedule.refusals.count, 1);
    const hn_refusal *r = &t.schedule.refusals.items[0];
    EXPECT_STR(hn_refusal_kind_of(r->why)->name, "spaces");
    EXPECT_INT(r->bytes, 60);
    EXPECT_INT(r->shared_count, 1);
    EXPECT_INT(r->shared[0], 2);
    EXPECT_INT(r->first_step, 0);
    EXPECT_INT(r->second_step, 1);
    EXPECT_INT(t.schedule.saved_bytes, 0);
    drop(&t);
}

TEST(what_shares_a_kernel_is_no_refusal) {
    scheduled t;
    make(&t, TWO_SPACES("32"));
    EXPECT_INT(t.schedule.steps.count, 1);
    EXPECT_INT(t.schedule.refusals.count, 0);
    EXPECT_INT(t.schedule.saved_bytes, 128);
    drop(&t);
}

/* The third loop has one buffer in common with each of the others, and is of the space of both: it
 * joins where it saves more. The second one reads what another row of the first makes. */
TEST(the_group_that_saves_most_is_joined) {
    scheduled t;
    make(&t, "b1 : input 0 f32[8]\n"
             "b2 : input 1 f32[32]\n"
             "b3 : output f32[32] extent 32\n"
             "b4 : output f32[32] extent 32\n"
             "b5 : output f32[32] extent 32\n"
             "pointwise (i0 < 4, i1 < 8; ) {\n"
             "  %1 = b2[8*i0 + 7 - i1] : f32\n"
             "  b3[8*i0 + i1] = %1\n"
             "}\n"
             "pointwise (i0 < 4, i1 < 8; ) {\n"
             "  %1 = b1[i1] : f32\n"
             "  %2 = b3[0] : f32\n"
             "  %3 = add(%1, %2) : f32\n"
             "  b4[8*i0 + i1] = %3\n"
             "}\n"
             "pointwise (i0 < 4, i1 < 8; ) {\n"
             "  %1 = b2[8*i0 + 7 - i1] : f32\n"
             "  %2 = b1[i1] : f32\n"
             "  %3 = add(%1, %2) : f32\n"
             "  b5[8*i0 + i1] = %3\n"
             "}\n"
             "result 0 = b3[0] [32]\n"
             "result 1 = b4[0] [32]\n"
             "result 2 = b5[0] [32]\n");
    EXPECT_INT(t.schedule.steps.count, 2);
    EXPECT_INT(t.schedule.steps.items[0].kernel->loop_count, 2);
    EXPECT_INT(t.schedule.saved_bytes, 128);
    drop(&t);
}

TEST_MAIN
