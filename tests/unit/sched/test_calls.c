/* test_calls.c: calls that the target has no operation for are scheduled as their loops, and what
 * only they read is computed in them, or is not. */
#include "kernel/facts.h"

#include "base/compiler.h"
#include "unit/harness.h"

static const hn_operations only_matmul = {.of = {[HN_EXTERN_MATMUL] = {.dtypes = UINT32_MAX}}};
static const hn_operations all_but_matmul = {.of = {[HN_EXTERN_CONV] = {.dtypes = UINT32_MAX}}};
static const hn_operations of_f32 = {.of = {[HN_EXTERN_MATMUL] = {.dtypes = 1 << HN_DTYPE_F32}}};
static const hn_operations of_f64 = {.of = {[HN_EXTERN_MATMUL] = {.dtypes = 1 << HN_DTYPE_F64}}};

/* The program after fusion, with the operations of `operations`. */
static void fuse(const char *statements, const hn_operations *operations, bool no_fusion,
                 hn_strbuf *out) {
    hn_arena arena, scratch;
    hn_sym *sym;
    hn_program *program = NULL;
    hn_schedule schedule;
    hn_strbuf text;
    hn_sched_limits limits = hn_gpu_facts_common.limits;
    limits.operations = operations;
    hn_arena_init(&arena);
    hn_arena_init(&scratch);
    hn_strbuf_init(&text);
    hn_strbuf_printf(&text, "program {\n%s}\n", statements);
    hn_status status = hn_sym_create(&arena, &sym);
    if (!status) status = hn_program_parse(&arena, sym, hn_strbuf_str(&text), &program);
    if (!status) {
        hn_sched_options options = {
            .threads = 2, .limits = &limits, .no_fusion = no_fusion, .fused = out};
        status = hn_schedule_program(program, &options, &arena, &scratch, &schedule);
    }
    EXPECT_OK(status);
    hn_strbuf_deinit(&text);
    hn_arena_deinit(&scratch);
    hn_arena_deinit(&arena);
}

/* Whether the fused text holds `part`, if `expected`, and does not otherwise. */
static void check(const char *statements, const hn_operations *operations, const char *part,
                  bool expected) {
    hn_strbuf out;
    hn_strbuf_init(&out);
    fuse(statements, operations, false, &out);
    bool found = strstr(hn_strbuf_str(&out).ptr, part) != NULL;
    if (found != expected) HN_TEST_FAIL("'%s' is %s in:\n%s", part, found ? "" : "not", out.ptr);
    hn_strbuf_deinit(&out);
}

/* b4 = matmul(b3, b2), where b3 is what `producer` makes of b1. */
#define PRODUCT(producer, buffers, behind)                                                         \
    "b1 : input 0 f32[6, 4]\n"                                                                     \
    "b2 : input 1 f32[4, 5]\n"                                                                     \
    "b3 : temp f32[6, 4] extent 24\n"                                                              \
    "b4 : output f32[6, 5] extent 30\n"                                                            \
    "b5 : output f32[6, 4] extent 24\n" buffers producer                                           \
    "matmul(out b4[0], b3[0], b2[0]) params [] as {\n"                                             \
    "  reduce sum (i0 < 6, i1 < 5; i2 < 4) {\n"                                                    \
    "    %1 = b3[4*i0 + i2] : f32\n"                                                               \
    "    %2 = b2[5*i2 + i1] : f32\n"                                                               \
    "    %3 = mul(%1, %2) : f32\n"                                                                 \
    "    b4[5*i0 + i1] = %3\n"                                                                     \
    "  }\n"                                                                                        \
    "}\n" behind "result 0 = b4[0] [6, 5]\n"

#define MAP(ops, value)                                                                            \
    "pointwise (i0 < 6, i1 < 4; ) {\n%1 = b1[4*i0 + i1] : f32\n" ops "b3[4*i0 + i1] = " value      \
    "\n}\n"
#define NEGATED MAP("%2 = neg(%1) : f32\n", "%2")
#define MATMUL  (&only_matmul)
#define STORED  "b3[" /* what the producer makes has memory */

TEST(loops_where_there_is_no_operation) {
    check(PRODUCT(NEGATED, "", ""), NULL, "matmul(", false);
    check(PRODUCT(NEGATED, "", ""), NULL, "reduce sum", true);
    check(PRODUCT(NEGATED, "", ""), MATMUL, "matmul(", true);
    check(PRODUCT(NEGATED, "", ""), &hn_operations_all, "matmul(", true);
    check(PRODUCT(NEGATED, "", ""), &all_but_matmul, "matmul(", false);
}

TEST(loops_where_the_operation_is_of_another_dtype) {
    check(PRODUCT(NEGATED, "", ""), &of_f32, "matmul(", true);
    check(PRODUCT(NEGATED, "", ""), &of_f64, "matmul(", false);
}

TEST(cheap_producers_are_computed_in_the_loops) {
    check(PRODUCT(NEGATED, "", ""), NULL, STORED, false);
    check(PRODUCT(NEGATED, "", ""), NULL, "%2 = neg(%1)", true);
    /* in another order of the variables */
    check(PRODUCT("pointwise (i0 < 4, i1 < 6; ) {\n%1 = b1[i0 + 4*i1] : f32\n%2 = neg(%1) : f32\n"
                  "b3[i0 + 4*i1] = %2\n}\n",
                  "", ""),
          0, STORED, false);
    /* and where one variable runs over both dimensions */
    check(
        PRODUCT("pointwise (i0 < 24; ) {\n%1 = b1[i0] : f32\n%2 = neg(%1) : f32\nb3[i0] = %2\n}\n",
                "", ""),
        0, STORED, false);
}

TEST(costly_producers_keep_their_memory) {
    check(PRODUCT(MAP("%2 = exp(%1) : f32\n", "%2"), "", ""), NULL, STORED, true);
    check(PRODUCT(MAP("%2 = neg(%1) : f32\n%3 = abs(%2) : f32\n%4 = neg(%3) : f32\n"
                      "%5 = mul(%4, %3) : f32\n",
                      "%5"),
                  "", ""),
          0, STORED, false);
    check(PRODUCT(MAP("%2 = neg(%1) : f32\n%3 = abs(%2) : f32\n%4 = neg(%3) : f32\n"
                      "%5 = mul(%4, %3) : f32\n%6 = add(%5, %1) : f32\n",
                      "%6"),
                  "", ""),
          0, STORED, true);
}

TEST(what_others_read_has_memory) {
    check(PRODUCT(NEGATED, "", "pointwise (i0 < 24; ) {\n%1 = b3[i0] : f32\nb5[i0] = %1\n}\n"),
          NULL, STORED, true);
}

/* The producer reads b6, and b6 is other memory by the time of the call. */
TEST(what_changes_in_between_is_not_read_later) {
#define REWRITTEN(between)                                                                         \
    PRODUCT("pointwise (i0 < 24; ) {\n%1 = b1[i0] : f32\nb6[i0] = %1\n}\n"                         \
            "pointwise (i0 < 24; ) {\n%1 = b6[i0] : f32\nb3[i0] = %1\n}\n" between,                \
            "b6 : temp f32[24] extent 24\n", "")
    check(REWRITTEN(""), NULL, STORED, false);
    check(REWRITTEN("pointwise (i0 < 24; ) {\n%1 = const 1.0 : f32\nb6[i0] = %1\n}\n"), NULL,
          STORED, true);
}

/* A producer that stores elsewhere than the call reads is no function of what it reads. */
TEST(points_that_cannot_be_told) {
    check(PRODUCT("pointwise (i0 < 6, i1 < 4; ) {\n%1 = b1[4*i0 + i1] : f32\nb3[i0 + i1] = %1\n}\n",
                  "", ""),
          0, STORED, true);
}

/* No row is the one that an element is in. */
TEST(producers_of_no_elements) {
    check("b1 : input 0 f32[0, 4]\n"
          "b2 : input 1 f32[4, 5]\n"
          "b3 : temp f32[0, 4] extent 0\n"
          "b4 : output f32[0, 5] extent 0\n"
          "pointwise (i0 < 0, i1 < 4; ) {\n%1 = b1[4*i0 + i1] : f32\nb3[4*i0 + i1] = %1\n}\n"
          "matmul(out b4[0], b3[0], b2[0]) params [] as {\n"
          "  reduce sum (i0 < 0, i1 < 5; i2 < 4) {\n"
          "    %1 = b3[4*i0 + i2] : f32\n"
          "    %2 = b2[5*i2 + i1] : f32\n"
          "    %3 = mul(%1, %2) : f32\n"
          "    b4[5*i0 + i1] = %3\n"
          "  }\n"
          "}\n"
          "result 0 = b4[0] [0, 5]\n",
          0, STORED, true);
}

TEST(without_fusion_loops_stay_apart) {
    hn_strbuf out;
    hn_strbuf_init(&out);
    fuse(PRODUCT(NEGATED, "", ""), NULL, true, &out);
    EXPECT(strstr(hn_strbuf_str(&out).ptr, STORED) && strstr(out.ptr, "reduce sum"));
    hn_strbuf_deinit(&out);
}

TEST_MAIN
