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

/* ---- groups far behind the first ---- */

#define CALL(out, a)                                                                                \
    "matmul(out " out "[0], " a "[0], b1[0], none, none) params [1, 1, 1, 1, 16, 16, 16, "          \
    "0, 0, 0, 0, 16, 1, 0, 0, 0, 0, 16, 1, 0, 0, 0, 0, 16, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, " \
    "0, 0]\n"
#define NEGATED(to, a)                                                                             \
    "pointwise (i0 < 16, i1 < 16; ) {\n  %1 = " a "[16*i0 + i1] : f32\n"                           \
    "  %2 = neg(%1) : f32\n  " to "[16*i0 + i1] = %2\n}\n"
#define PRODUCT(to, a, b)                                                                          \
    "pointwise (i0 < 16, i1 < 16; ) {\n  %1 = " a "[16*i0 + i1] : f32\n"                           \
    "  %2 = " b "[16*i0 + i1] : f32\n  %3 = mul(%1, %2) : f32\n  " to "[16*i0 + i1] = %3\n}\n"

/* `first` makes b3; then there are 40 calls that make b4, `between`, another 40, and `last`. */
static const char *kernels_far(const char *first, const char *between, const char *last,
                               char out[64]) {
    hn_strbuf text;
    hn_strbuf_init(&text);
    hn_strbuf_puts(&text, "b1 : input 0 f32[16, 16]\nb2 : input 1 bool[]\n");
    for (uint32_t b = 3; b < 11; b++)
        hn_strbuf_printf(&text, "b%u : %s f32[16, 16] extent 256\n", b, b == 5 ? "output" : "temp");
    hn_strbuf_puts(&text, first);
    for (uint32_t k = 0; k < 80; k++)
        hn_strbuf_printf(&text, "%s%s", k == 40 ? between : "", CALL("b4", "b1"));
    hn_strbuf_printf(&text, "%sresult 0 = b5[0] [16, 16]\n", last);
    kernels_of(text.ptr, out);
    hn_strbuf_deinit(&text);
    return out;
}

#define EXPECT_FAR(first, between, last, expected)                                                 \
    do {                                                                                           \
        char kernels[64];                                                                          \
        EXPECT_STR(kernels_far(first, between, last, kernels), expected);                          \
    } while (0)

TEST(a_group_waits_for_what_reads_it_however_far_that_is) {
    EXPECT_FAR(NEGATED("b3", "b1"), "", PRODUCT("b5", "b3", "b4"), "-80 2");
    EXPECT_FAR(NEGATED("b3", "b1"), "", PRODUCT("b5", "b3", "b4") CALL("b6", "b3"), "-80 2 -");
}

TEST(a_group_does_not_wait_behind_others_that_read_it) {
    EXPECT_FAR(NEGATED("b3", "b1"), CALL("b6", "b3"), PRODUCT("b5", "b3", "b4"), "1 -81 1");
    EXPECT_FAR(NEGATED("b3", "b1"), "", CALL("b6", "b3") PRODUCT("b5", "b3", "b4"), "1 -81 1");
    EXPECT_FAR(NEGATED("b3", "b1") NEGATED("b7", "b1"), CALL("b6", "b7"), PRODUCT("b5", "b3", "b4"),
               "2 -81 1");
}

/* b7 would be alive as long as the group waits, in place of b3, and b6 too. */
TEST(a_group_waits_only_if_no_more_memory_is_alive) {
    EXPECT_FAR(CALL("b7", "b1") NEGATED("b3", "b7"), "", PRODUCT("b5", "b3", "b4"), "-81 2");
    EXPECT_FAR(CALL("b6", "b1") CALL("b7", "b1") PRODUCT("b3", "b6", "b7"), "",
               PRODUCT("b5", "b3", "b4"), "- - 1 -80 1");
    EXPECT_FAR(CALL("b6", "b1") CALL("b7", "b1") PRODUCT("b3", "b6", "b7"), CALL("b8", "b7"),
               PRODUCT("b5", "b3", "b4"), "-83 2");
}

TEST(a_group_does_not_wait_behind_a_bracket) {
    EXPECT_FAR(NEGATED("b3", "b1"), "then b2\n" CALL("b6", "b1") "else\n" CALL("b6", "b4") "end\n",
               PRODUCT("b5", "b3", "b4"), "1 -85 1");
}

/* b7 has another value then, or b3 has. */
TEST(a_group_does_not_wait_behind_a_change_of_what_it_touches) {
    EXPECT_FAR(CALL("b7", "b1") NEGATED("b3", "b7"), CALL("b7", "b4"), PRODUCT("b5", "b3", "b4"),
               "- 1 -81 1");
    EXPECT_FAR(NEGATED("b3", "b1"), CALL("b3", "b1"), PRODUCT("b5", "b3", "b4"), "1 -81 1");
}

/* What reads b3 first has become part of a kernel in front of it. */
TEST(a_group_waits_for_a_reader_that_has_joined_another_group) {
    EXPECT_FAR(NEGATED("b3", "b1"), "",
               NEGATED("b6", "b4") CALL("b7", "b6") CALL("b8", "b1") PRODUCT("b9", "b3", "b8")
                   PRODUCT("b10", "b6", "b9") CALL("b8", "b10") PRODUCT("b5", "b3", "b8"),
               "-81 4 - - 1");
}

TEST_MAIN
