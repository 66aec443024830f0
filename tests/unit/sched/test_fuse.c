/* test_fuse.c: which loops may not share a kernel: those that would read what another row has yet
 * to write, and those that would write before what was there has been read. Every refusal stands
 * beside a twin that differs in one number and is fused. */
#include "unit/sched/kernels_of.h"

/* One loop over 32 elements. */
#define COPY(from, to) "pointwise (i0 < 32; ) {\n  %1 = " from "[i0] : f32\n  " to "[i0] = %1\n}\n"
#define NEGATE(from, to)                                                                           \
    "pointwise (i0 < 32; ) {\n  %1 = " from "[i0] : f32\n  %2 = neg(%1) : f32\n  " to              \
    "[i0] = %2\n}\n"

/* Four rows of eight are written and added up; the third loop reads them at `index`. */
#define ROWS(index)                                                                                \
    "b1 : input 0 f32[64]\n"                                                                       \
    "b2 : temp f32[64] extent 64\n"                                                                \
    "b3 : temp f32[4] extent 4\n"                                                                  \
    "b4 : output f32[32] extent 32\n"                                                              \
    "pointwise (i0 < 4, i1 < 8; ) {\n"                                                             \
    "  %1 = b1[8*i0 + 2*i1] : f32\n"                                                               \
    "  b2[8*i0 + i1] = %1\n"                                                                       \
    "}\n"                                                                                          \
    "reduce sum (i0 < 4; i1 < 8) {\n"                                                              \
    "  %1 = b2[8*i0 + i1] : f32\n"                                                                 \
    "  b3[i0] = %1\n"                                                                              \
    "}\n"                                                                                          \
    "pointwise (i0 < 4, i1 < 8; ) {\n"                                                             \
    "  %1 = b2[" index "] : f32\n"                                                                 \
    "  %2 = b3[i0] : f32\n"                                                                        \
    "  %3 = div(%1, %2) : f32\n"                                                                   \
    "  b4[8*i0 + i1] = %3\n"                                                                       \
    "}\n"                                                                                          \
    "result 0 = b4[0] [32]\n"

TEST(a_row_reads_what_it_wrote) {
    EXPECT_KERNELS(ROWS("8*i0 + i1"), "3");
    EXPECT_KERNELS(ROWS("8*i0"), "3"); /* the first of its own row, by each element */
}

TEST(a_row_does_not_read_what_another_one_writes) {
    EXPECT_KERNELS(ROWS("8*i0 + i1 + 8"), "2 1");  /* the next row */
    EXPECT_KERNELS(ROWS("8*i0 + i1 + 1"), "2 1");  /* its first element */
    EXPECT_KERNELS(ROWS("8*i0 + 2*i1"), "2 1");    /* half of it */
    EXPECT_KERNELS(ROWS("16*i0 + i1"), "2 1");     /* every other row */
    EXPECT_KERNELS(ROWS("24 - 8*i0 + i1"), "2 1"); /* from below */
    EXPECT_KERNELS(ROWS("i1"), "2 1");             /* the first row, by all */
    EXPECT_KERNELS(ROWS("8*i0 + i1 - 1"), "2 1");  /* the end of the row before */
    EXPECT_KERNELS(ROWS("8*i0 - i1"), "2 1");
}

/* Rows that lie `step` apart in two dimensions: each writes `width` elements. */
#define PLANES(plane, step, width)                                                                 \
    "b1 : input 0 f32[512]\n"                                                                      \
    "b2 : temp f32[512] extent 512\n"                                                              \
    "b3 : temp f32[3, 4] extent 12\n"                                                              \
    "b4 : output f32[512] extent 512\n"                                                            \
    "pointwise (i0 < 3, i1 < 4, i2 < " width "; ) {\n"                                             \
    "  %1 = b1[100*i0 + 9*i1 + 2*i2] : f32\n"                                                      \
    "  b2[" plane "*i0 + " step "*i1 + i2] = %1\n"                                                 \
    "}\n"                                                                                          \
    "reduce sum (i0 < 3, i1 < 4; i2 < " width ") {\n"                                              \
    "  %1 = b2[" plane "*i0 + " step "*i1 + i2] : f32\n"                                           \
    "  b3[4*i0 + i1] = %1\n"                                                                       \
    "}\n"                                                                                          \
    "pointwise (i0 < 3, i1 < 4, i2 < " width "; ) {\n"                                             \
    "  %1 = b2[" plane "*i0 + " step "*i1] : f32\n"                                                \
    "  %2 = b3[4*i0 + i1] : f32\n"                                                                 \
    "  %3 = div(%1, %2) : f32\n"                                                                   \
    "  b4[100*i0 + 20*i1 + i2] = %3\n"                                                             \
    "}\n"                                                                                          \
    "result 0 = b4[0] [512]\n"

TEST(rows_of_two_dimensions_are_apart) {
    EXPECT_KERNELS(PLANES("64", "16", "8"), "3");
    EXPECT_KERNELS(PLANES("56", "16", "8"), "3"); /* three steps and a row: just */
    /* a plane begins in the last row of the one before */
    EXPECT_KERNELS(PLANES("55", "16", "8"), "2 1");
    EXPECT_KERNELS(PLANES("64", "8", "8"), "3");
    EXPECT_KERNELS(PLANES("64", "7", "8"), "2 1"); /* a row begins in the one before */
}

/* b2 is written, read by a loop of another space (`reads`), and written again. */
#define REWRITTEN(reads)                                                                           \
    "b1 : input 0 f32[32]\n"                                                                       \
    "b2 : temp f32[32] extent 32\n"                                                                \
    "b3 : output f32[5] extent 5\n"                                                                \
    "b4 : output f32[32] extent 32\n"                                                              \
    "b5 : input 1 f32[32]\n" COPY("b1", "b2") "pointwise (i0 < 5; ) {\n"                           \
                                              "  %1 = " reads "[3*i0] : f32\n"                     \
                                              "  b3[i0] = %1\n"                                    \
                                              "}\n" NEGATE("b1", "b2")                             \
                                                  COPY("b2", "b4") "result 0 = b3[0] [5]\n"        \
                                                                   "result 1 = b4[0] [32]\n"

TEST(what_is_still_to_be_read_is_not_overwritten) {
    EXPECT_KERNELS(REWRITTEN("b5"), "3 1");
    EXPECT_KERNELS(REWRITTEN("b2"), "1 1 2");
}

/* Two loops of one space write b2, and between them one of another space writes `middle`. */
#define WRITTEN_TWICE(middle)                                                                      \
    "b1 : input 0 f32[32]\n"                                                                       \
    "b2 : output f32[32] extent 32\n"                                                              \
    "b3 : output f32[32] extent 32\n"                                                              \
    "b4 : input 1 f32[32]\n" COPY("b1", "b2") "pointwise (i0 < 5; ) {\n"                           \
                                              "  %1 = b4[i0] : f32\n"                              \
                                              "  " middle "[3*i0] = %1\n"                          \
                                              "}\n" NEGATE("b1", "b2") "result 0 = b2[0] [32]\n"   \
                                                                       "result 1 = " middle        \
                                                                       "[0] [32]\n"

TEST(the_later_write_stays_the_later_one) {
    EXPECT_KERNELS(WRITTEN_TWICE("b3"), "2 1");
    EXPECT_KERNELS(WRITTEN_TWICE("b2"), "1 1 1");
}

/* Element by element. */
#define ELEMENTS(index)                                                                            \
    "b1 : input 0 f32[32]\n"                                                                       \
    "b2 : temp f32[32] extent 32\n"                                                                \
    "b3 : output f32[32] extent 32\n" COPY("b1", "b2") "pointwise (i0 < 32; ) {\n"                 \
                                                       "  %1 = b2[" index "] : f32\n"              \
                                                       "  b3[i0] = %1\n"                           \
                                                       "}\n"                                       \
                                                       "result 0 = b3[0] [32]\n"

TEST(an_element_reads_itself) {
    EXPECT_KERNELS(ELEMENTS("i0"), "2");
    EXPECT_KERNELS(ELEMENTS("31 - i0"), "2"); /* computed from behind: test_align.c */
    EXPECT_KERNELS(ELEMENTS("0"), "1 1");
}

#define BRANCHES(open, between, close)                                                             \
    "b1 : input 0 f32[32]\n"                                                                       \
    "b2 : temp f32[32] extent 32\n"                                                                \
    "b3 : output f32[32] extent 32\n"                                                              \
    "b4 : input 1 bool[]\n" COPY("b1", "b2") open COPY("b2", "b3") between NEGATE("b2", "b3")      \
        close "result 0 = b3[0] [32]\n"

TEST(a_branch_is_not_run_before_its_condition) {
    EXPECT_KERNELS(BRANCHES("", "", ""), "3");
    EXPECT_KERNELS(BRANCHES("then b4\n", "else\n", "end\n"), "1 - 1 - 1 -");
}

/* It may be safe only by what the assertion checks, and the caller may see what it writes. What the
 * assertion asks for stands in front of it anyway. */
#define CHECKED(of, between)                                                                       \
    "b1 : input 0 f32[32]\n"                                                                       \
    "b2 : output f32[32] extent 32\n"                                                              \
    "b3 : output f32[32] extent 32\n"                                                              \
    "b4 : temp bool[32] extent 32\n" COPY("b1", "b2") "pointwise (i0 < 32; ) {\n"                  \
                                                      "  %1 = " of "[i0] : f32\n"                  \
                                                      "  %2 = eq(%1, %1) : bool\n"                 \
                                                      "  b4[i0] = %2\n"                            \
                                                      "}\n" between NEGATE(                        \
                                                          "b1", "b3") "result 0 = b2[0] [32]\n"    \
                                                                      "result 1 = b3[0] [32]\n"

TEST(a_loop_is_not_run_before_an_assertion_in_front_of_it) {
    EXPECT_KERNELS(CHECKED("b1", ""), "3");
    EXPECT_KERNELS(CHECKED("b1", "assert b4 \"is no number\"\n"), "2 - 1");
    EXPECT_KERNELS(CHECKED("b2", "assert b4 \"is no number\"\n"), "2 - 1");
}

/* A reduction that writes what its group has written would store once for a row, between two phases
 * of others. */
#define REDUCED_INTO(target)                                                                       \
    "b1 : input 0 f32[4, 8]\n"                                                                     \
    "b2 : output f32[32] extent 32\n"                                                              \
    "b3 : output f32[32] extent 32\n"                                                              \
    "pointwise (i0 < 4, i1 < 8; ) {\n"                                                             \
    "  %1 = b1[8*i0 + i1] : f32\n"                                                                 \
    "  b2[8*i0 + i1] = %1\n"                                                                       \
    "}\n"                                                                                          \
    "reduce sum (i0 < 4; i1 < 8) {\n"                                                              \
    "  %1 = b1[8*i0 + i1] : f32\n"                                                                 \
    "  " target "[i0] = %1\n"                                                                      \
    "}\n"                                                                                          \
    "pointwise (i0 < 1; ) {\n"                                                                     \
    "  %1 = b1[0] : f32\n"                                                                         \
    "  b3[31] = %1\n"                                                                              \
    "}\n"                                                                                          \
    "result 0 = b2[0] [32]\n"                                                                      \
    "result 1 = b3[0] [32]\n"

TEST(a_reduction_does_not_write_what_its_group_wrote) {
    EXPECT_KERNELS(REDUCED_INTO("b3"), "2 1");
    EXPECT_KERNELS(REDUCED_INTO("b2"), "1 1 1");
}

TEST_MAIN
