/* test_merge.c: kernels that become one after all loops have theirs, and twins that must not. */
#include "unit/sched/kernels_of.h"

/* What the sum of rows reads is made by two kernels: one with a sum of its own, and a later one which has
 * nothing in common with it. `between` stands in front of the sum. */
#define NORM_BACKWARD(between, index)                                                              \
    "b1 : input 0 f32[8, 32]\n"                                                                    \
    "b2 : input 1 f32[8, 32]\n"                                                                    \
    "b3 : temp f32[8] extent 8\n"                                                                  \
    "b4 : temp f32[8, 32] extent 256\n"                                                            \
    "b5 : temp f32[8, 32] extent 256\n"                                                            \
    "b6 : output f32[8] extent 8\n"                                                                \
    "b7 : temp f32[8, 32] extent 256\n"                                                            \
    "b8 : output f32[7] extent 7\n"                                                                \
    "b9 : input 2 bool[]\n"                                                                        \
    "b10 : temp bool[] extent 1\n"                                                                 \
    "reduce sum (i0 < 8; i1 < 32) {\n"                                                             \
    "  %1 = b1[32*i0 + i1] : f32\n"                                                                \
    "  b3[i0] = %1\n"                                                                              \
    "}\n"                                                                                          \
    "pointwise (i0 < 8, i1 < 32; ) {\n"                                                            \
    "  %1 = b1[32*i0 + i1] : f32\n"                                                                \
    "  %2 = b3[i0] : f32\n"                                                                        \
    "  %3 = mul(%1, %2) : f32\n"                                                                   \
    "  b4[32*i0 + i1] = %3\n"                                                                      \
    "}\n" between "pointwise (i0 < 8, i1 < 32; ) {\n"                                              \
    "  %1 = " index " : f32\n"                                                                     \
    "  %2 = neg(%1) : f32\n"                                                                       \
    "  b5[32*i0 + i1] = %2\n"                                                                      \
    "}\n"                                                                                          \
    "reduce sum (i0 < 8; i1 < 32) {\n"                                                             \
    "  %1 = b4[32*i0 + i1] : f32\n"                                                                \
    "  %2 = b5[32*i0 + i1] : f32\n"                                                                \
    "  %3 = mul(%1, %2) : f32\n"                                                                   \
    "  b6[i0] = %3\n"                                                                              \
    "}\n"                                                                                          \
    "result 0 = b6[0] [8]\n"                                                                       \
    "result 1 = b8[0] [7]\n"

/* Of another space; reads `from`. */
#define OTHER(from) "pointwise (i0 < 7; ) {\n  %1 = " from "[3*i0] : f32\n  b8[i0] = %1\n}\n"
#define OTHER_AND_BACK                                                                             \
    OTHER("b4") "pointwise (i0 < 8, i1 < 32; ) {\n  %1 = b8[0] : f32\n  b7[32*i0 + i1] = %1\n}\n"

TEST(two_kernels_become_one_where_both_are_read) {
    EXPECT_KERNELS(NORM_BACKWARD(OTHER("b2"), "b2[32*i0 + i1]"), "1 4");
}

TEST(what_depends_on_the_first_comes_behind) {
    EXPECT_KERNELS(NORM_BACKWARD(OTHER("b4"), "b2[32*i0 + i1]"), "4 1");
}

TEST(what_the_second_needs_stays_in_front) {
    EXPECT_KERNELS(NORM_BACKWARD(OTHER("b2"), "b8[0]"), "1 4");
}

TEST(a_third_one_between_keeps_them_apart) {
    EXPECT_KERNELS(NORM_BACKWARD(OTHER_AND_BACK, "b7[32*i0 + i1]"), "2 1 3");
}

TEST(a_call_between_does_not_matter_and_a_bracket_does) {
    EXPECT_KERNELS(
        NORM_BACKWARD("then b9\n" OTHER("b2") "else\n" OTHER("b2") "end\n", "b2[32*i0 + i1]"),
        "2 - 1 - 1 - 2");
}

/* One that asks for something else moves up. */
TEST(an_assertion_of_what_the_first_makes_keeps_them_apart) {
#define CHECK(of)                                                                                  \
    "pointwise (; ) {\n  %1 = " of " : f32\n  %2 = const 0.0 : f32\n  %3 = gt(%1, %2) : bool\n"    \
    "  b10[0] = %3\n}\nassert b10 \"is not positive\"\n"
    EXPECT_KERNELS(NORM_BACKWARD(OTHER("b2") "assert b9 \"is not so\"\n", "b2[32*i0 + i1]"),
                   "1 - 4");
    EXPECT_KERNELS(NORM_BACKWARD(OTHER("b2") CHECK("b2[0]"), "b2[32*i0 + i1]"), "1 1 - 4");
    EXPECT_KERNELS(NORM_BACKWARD(OTHER("b2") CHECK("b4[0]"), "b2[32*i0 + i1]"), "2 1 1 - 2");
    EXPECT_KERNELS(NORM_BACKWARD(CHECK("b4[0]") OTHER("b2"), "b2[32*i0 + i1]"), "2 1 - 1 2");
}

TEST_MAIN
