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

/* ---- how both walk what they share ---- */

/* b2 is made by 32 elements in order, from 0 on; a loop reads it and makes b3. */
#define MADE(loop, read)                                                                           \
    "b1 : input 0 f32[32]\n"                                                                       \
    "b2 : output f32[64] extent 64\n"                                                              \
    "b3 : output f32[128] extent 128\n"                                                            \
    "b4 : input 1 i64[32]\n"                                                                       \
    "pointwise (i0 < 32; ) {\n  %1 = b1[i0] : f32\n  b2[i0] = %1\n}\n" loop read                   \
    "result 0 = b2[0] [64]\nresult 1 = b3[0] [128]\n"
#define ONE(extent, index)                                                                         \
    MADE("pointwise (i0 < " extent "; ) {\n", "  %1 = b2[" index "] : f32\n  b3[i0] = %1\n}\n")
/* The second read is that of the same element: no order of dims serves both. */
#define TWO(index)                                                                                 \
    MADE("pointwise (i0 < 32; ) {\n",                                                              \
         "  %1 = b2[" index "] : f32\n  %2 = b2[i0] : f32\n  %3 = add(%1, %2) : f32\n"             \
         "  b3[i0] = %3\n}\n")
/* Two loops that read b1. */
#define BOTH_READ(first, second)                                                                   \
    "b1 : input 0 f32[128, 128]\nb2 : output f32[16384] extent 16384\n"                            \
    "b3 : output f32[16384] extent 16384\n" first second                                           \
    "result 0 = b2[0] [16384]\nresult 1 = b3[0] [16384]\n"

TEST(a_mismatch_of_indices_is_told_by_its_kind) {
    static const struct {
        const char *mismatch, *statements;
    } cases[] = {
        {"sizes", ONE("15", "i0")},
        {"multiple", ONE("16", "i0")},
        {"multiple", ONE("64", "i0")},
        {"repeats", MADE("pointwise (i0 < 4, i1 < 32; ) {\n",
                         "  %1 = b2[i1] : f32\n  b3[32*i0 + i1] = %1\n}\n")},
        {"repeats", TWO("0")},
        {"strides", ONE("32", "2*i0")},
        {"offset", ONE("32", "i0 + 1")},
        {"reversed", TWO("31 - i0")},
        {"wraps", TWO("8*(i0%4) + i0//4")},
        {"indirect", MADE("pointwise (i0 < 32; ) {\n",
                          "  %1 = b4[i0] : i64\n  %2 = t0 := check(%1 < 32) : i64\n"
                          "  %3 = b2[t0] : f32\n  b3[i0] = %3\n}\n")},
        {"order", BOTH_READ("pointwise (i0 < 128, i1 < 128; ) {\n  %1 = b1[128*i0 + i1] : f32\n"
                            "  b2[128*i0 + i1] = %1\n}\n",
                            "pointwise (i0 < 128, i1 < 128; ) {\n  %1 = b2[i0 + 128*i1] : f32\n"
                            "  b3[128*i0 + i1] = %1\n}\n")},
        {"reduced", BOTH_READ("reduce sum (i0 < 128; i1 < 128) {\n  %1 = b1[128*i0 + i1] : f32\n"
                              "  b2[i0] = %1\n}\n",
                              "reduce sum (i0 < 128; i1 < 128) {\n  %1 = b1[i0 + 128*i1] : f32\n"
                              "  b3[i0] = %1\n}\n")},
        {"alike", BOTH_READ("reduce sum (i0 < 128; i1 < 128) {\n  %1 = b1[i0 + 128*i1] : f32\n"
                            "  b2[i0] = %1\n}\n",
                            "pointwise (i0 < 128, i1 < 128; ) {\n  %1 = b1[i0 + 128*i1] : f32\n"
                            "  b3[128*i0 + i1] = %1\n}\n")},
    };
    for (size_t k = 0; k < HN_COUNT_OF(cases); k++) {
        scheduled t;
        make(&t, cases[k].statements);
        if (t.schedule.refusals.count) {
            const hn_mismatch mismatch = t.schedule.refusals.items[0].mismatch;
            EXPECT_STR(hn_mismatch_kind_of(mismatch)->name, cases[k].mismatch);
        } else {
            HN_TEST_FAIL("case %zu, %s: nothing was refused", k, cases[k].mismatch);
        }
        drop(&t);
    }
}

TEST_MAIN
