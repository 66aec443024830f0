/* test_align.c: loops whose dims are put in another order, cut or walked backwards to share a kernel; and
 * twins that stay alone. */
#include "unit/sched/kernels_of.h"

/* A sum over i0 and i2 of each i1, which is what a batch norm begins with, and a reader. */
#define BATCH_NORM(loop, index, mean)                                                              \
    "b1 : input 0 f32[4, 6, 32]\n"                                                                 \
    "b2 : temp f32[6] extent 6\n"                                                                  \
    "b3 : output f32[4, 6, 32] extent 768\n"                                                       \
    "reduce sum (i0 < 6; i1 < 4, i2 < 32) {\n"                                                     \
    "  %1 = b1[32*i0 + 192*i1 + i2] : f32\n"                                                       \
    "  b2[i0] = %1\n"                                                                              \
    "}\n"                                                                                          \
    "pointwise (" loop "; ) {\n"                                                                   \
    "  %1 = b1[" index "] : f32\n"                                                                 \
    "  %2 = b2[" mean "] : f32\n"                                                                  \
    "  %3 = sub(%1, %2) : f32\n"                                                                   \
    "  b3[" index "] = %3\n"                                                                       \
    "}\n"                                                                                          \
    "result 0 = b3[0] [4, 6, 32]\n"

TEST(the_dims_of_a_reader_are_those_of_the_rows) {
    EXPECT_KERNELS(BATCH_NORM("i0 < 4, i1 < 6, i2 < 32", "192*i0 + 32*i1 + i2", "i1"), "2");
    EXPECT_KERNELS(BATCH_NORM("i0 < 6, i1 < 4, i2 < 32", "32*i0 + 192*i1 + i2", "i0"), "2");
    /* the mean of another row than its own */
    EXPECT_KERNELS(BATCH_NORM("i0 < 4, i1 < 6, i2 < 32", "192*i0 + 32*i1 + i2", "5 - i1"), "1 1");
    EXPECT_KERNELS(BATCH_NORM("i0 < 4, i1 < 6, i2 < 32", "192*i0 + 32*i1 + i2", "0"), "1 1");
}

TEST(a_dim_is_cut_where_the_rows_are) {
    /* four rows of 32 at a time, and the rows in halves */
    EXPECT_KERNELS(
        BATCH_NORM("i0 < 4, i1 < 6, i2 < 2, i3 < 16", "192*i0 + 32*i1 + 16*i2 + i3", "i1"), "2");
    EXPECT_KERNELS(
        BATCH_NORM("i0 < 2, i1 < 2, i2 < 6, i3 < 32", "384*i0 + 192*i1 + 32*i2 + i3", "i2"), "2");
}

/* A sum of each row, and a reader that takes the rows in another order: of 4 x 6 rows those of one
 * column after the other. */
#define ROWS_TURNED(rows, index, sum)                                                              \
    "b1 : input 0 f32[24, 32]\n"                                                                   \
    "b2 : temp f32[24] extent 24\n"                                                                \
    "b3 : output f32[24, 32] extent 768\n"                                                         \
    "reduce sum (i0 < 24; i1 < 32) {\n"                                                            \
    "  %1 = b1[32*i0 + i1] : f32\n"                                                                \
    "  b2[i0] = %1\n"                                                                              \
    "}\n"                                                                                          \
    "pointwise (i0 < " rows ", i1 < 32; ) {\n"                                                     \
    "  %1 = b1[" index " + i1] : f32\n"                                                            \
    "  %2 = b2[" sum "] : f32\n"                                                                   \
    "  %3 = sub(%1, %2) : f32\n"                                                                   \
    "  b3[32*i0 + i1] = %3\n"                                                                      \
    "}\n"                                                                                          \
    "result 0 = b3[0] [24, 32]\n"

TEST(a_dim_in_which_an_index_wraps_is_two) {
    EXPECT_KERNELS(ROWS_TURNED("24", "192*(i0%4) + 32*(i0//4)", "6*(i0%4) + i0//4"), "2");
    /* the sums of other rows; and not all of the rows */
    EXPECT_KERNELS(ROWS_TURNED("24", "192*(i0%4) + 32*(i0//4)", "23 - i0"), "1 1");
    EXPECT_KERNELS(ROWS_TURNED("22", "192*(i0%4) + 32*(i0//4)", "6*(i0%4) + i0//4"), "1 1");
}

/* Two readers of one matrix, each in its own order; what they write stays, with gaps behind rows. */
#define TURNED(rows, columns, elems)                                                               \
    "b1 : input 0 f32[" elems "]\n"                                                                \
    "b2 : output f32[" elems "] extent " elems "\n"                                                \
    "b3 : output f32[" elems "] extent " elems "\n"                                                \
    "pointwise (i0 < " rows ", i1 < " columns "; ) {\n"                                            \
    "  %1 = b1[1000*i0 + i1] : f32\n"                                                              \
    "  b2[1000*i0 + i1] = %1\n"                                                                    \
    "}\n"                                                                                          \
    "pointwise (i0 < " columns ", i1 < " rows "; ) {\n"                                            \
    "  %1 = b1[i0 + 1000*i1] : f32\n"                                                              \
    "  %2 = neg(%1) : f32\n"                                                                       \
    "  b3[1000*i0 + i1] = %2\n"                                                                    \
    "}\n"                                                                                          \
    "result 0 = b2[0] [" elems "]\n"                                                               \
    "result 1 = b3[0] [" elems "]\n"

TEST(a_small_matrix_is_turned) { EXPECT_KERNELS(TURNED("50", "30", "50000"), "2"); }

TEST(a_large_matrix_is_written_in_the_order_of_its_rows) {
    EXPECT_KERNELS(TURNED("500", "300", "500000"), "1 1");
}

/* What is made is read again by a sum over some of its dims: the maker's order is changed. */
#define SUMMED(sum, index)                                                                         \
    "b1 : input 0 f32[4, 6, 32]\n"                                                                 \
    "b2 : output f32[4, 6, 32] extent 768\n"                                                       \
    "b3 : output f32[8] extent 8\n"                                                                \
    "pointwise (i0 < 4, i1 < 6, i2 < 32; ) {\n"                                                    \
    "  %1 = b1[192*i0 + 32*i1 + i2] : f32\n"                                                       \
    "  %2 = relu(%1) : f32\n"                                                                      \
    "  b2[192*i0 + 32*i1 + i2] = %2\n"                                                             \
    "}\n"                                                                                          \
    "reduce sum (" sum ") {\n"                                                                     \
    "  %1 = b2[" index "] : f32\n"                                                                 \
    "  b3[i0] = %1\n"                                                                              \
    "}\n"                                                                                          \
    "result 0 = b2[0] [4, 6, 32]\n"                                                                \
    "result 1 = b3[0] [8]\n"

TEST(what_is_summed_is_made_in_the_order_of_the_sums) {
    EXPECT_KERNELS(SUMMED("i0 < 6; i1 < 4, i2 < 32", "32*i0 + 192*i1 + i2"), "2");
    EXPECT_KERNELS(SUMMED("i0 < 6; i1 < 3, i2 < 32", "32*i0 + 192*i1 + i2"),
                   "1 1"); /* not all of it */
    EXPECT_KERNELS(SUMMED("i0 < 6; i1 < 4, i2 < 16", "32*i0 + 192*i1 + 2*i2"), "1 1");
}

/* Backwards: the elements, the rows, or by steps that leave some out. */
#define BACKWARDS(index)                                                                           \
    "b1 : input 0 f32[64, 512]\n"                                                                  \
    "b2 : output f32[64, 512] extent 32768\n"                                                      \
    "b3 : output f32[64, 512] extent 32768\n"                                                      \
    "pointwise (i0 < 64, i1 < 512; ) {\n"                                                          \
    "  %1 = b1[511 + 512*i0 - i1] : f32\n"                                                         \
    "  b2[512*i0 + i1] = %1\n"                                                                     \
    "}\n"                                                                                          \
    "pointwise (i0 < 64, i1 < 512; ) {\n"                                                          \
    "  %1 = b2[" index "] : f32\n"                                                                 \
    "  %2 = neg(%1) : f32\n"                                                                       \
    "  b3[512*i0 + i1] = %2\n"                                                                     \
    "}\n"                                                                                          \
    "result 0 = b2[0] [64, 512]\n"                                                                 \
    "result 1 = b3[0] [64, 512]\n"

TEST(an_index_is_inverted) {
    EXPECT_KERNELS(BACKWARDS("32256 - 512*i0 + i1"), "2");
    EXPECT_KERNELS(BACKWARDS("511 + 512*i0 - i1"), "2");
    EXPECT_KERNELS(BACKWARDS("32767 - 512*i0 - i1"), "2");
    EXPECT_KERNELS(BACKWARDS("512*i0"), "1 1");
}

TEST_MAIN
