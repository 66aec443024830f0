/* test_pieces.c: what loops write in pieces is computed by who reads it, and twins that stay. */
#include "unit/sched/kernels_of.h"

/* b3 is two pieces of `from` turned, the first one by `op`; `size` and `rest` are their lengths. */
#define TURNED_OF(from, before, op, size, rest, readers)                                           \
    "b1 : input 0 f32[8, 64]\n"                                                                    \
    "b2 : input 1 f32[8, 64]\n"                                                                    \
    "b3 : temp f32[8, 64] extent 512\n"                                                            \
    "b4 : output f32[8, 64] extent 512\n"                                                          \
    "b5 : output f32[8] extent 8\n"                                                                \
    "b6 : temp f32[8, 64] extent 512\n" before "pointwise (i0 < 8, i1 < " size "; ) {\n"           \
    "  %1 = " from "[64*i0 + i1 + " rest "] : f32\n"                                               \
    "  %2 = " op "(%1) : f32\n"                                                                    \
    "  b3[64*i0 + i1] = %2\n"                                                                      \
    "}\n"                                                                                          \
    "pointwise (i0 < 8, i1 < " rest "; ) {\n"                                                      \
    "  %1 = " from "[64*i0 + i1] : f32\n"                                                          \
    "  b3[64*i0 + i1 + " size "] = %1\n"                                                           \
    "}\n" readers "result 0 = b4[0] [8, 64]\n"
#define TURNED(op, size, rest, readers) TURNED_OF("b1", "", op, size, rest, readers)

#define TIMES(from)                                                                                \
    "pointwise (i0 < 8, i1 < 64; ) {\n"                                                            \
    "  %1 = b2[64*i0 + i1] : f32\n"                                                                \
    "  %2 = " from " : f32\n"                                                                      \
    "  %3 = mul(%1, %2) : f32\n"                                                                   \
    "  b4[64*i0 + i1] = %3\n"                                                                      \
    "}\n"
#define SUM                                                                                        \
    "reduce sum (i0 < 8; i1 < 64) {\n"                                                             \
    "  %1 = b3[64*i0 + i1] : f32\n"                                                                \
    "  b5[i0] = %1\n"                                                                              \
    "}\n"
#define FILL(from)                                                                                 \
    "pointwise (i0 < 8, i1 < 64; ) {\n"                                                            \
    "  %1 = " from "[64*i0 + i1] : f32\n"                                                          \
    "  b6[64*i0 + i1] = %1\n"                                                                      \
    "}\n"

TEST(who_reads_pieces_computes_them) {
    EXPECT_KERNELS(TURNED("neg", "32", "32", TIMES("b3[64*i0 + i1]")), "1");
}

TEST(so_do_several_readers) {
    EXPECT_KERNELS(TURNED("neg", "32", "32", TIMES("b3[64*i0 + i1]") SUM) "result 1 = b5[0] [8]\n",
                   "2");
}

/* The dims of the reader are cut where the pieces meet, wherever they are. */
TEST(a_reader_of_merged_dims_is_cut) {
    EXPECT_KERNELS(TURNED("neg", "32", "32",
                          "pointwise (i0 < 512; ) {\n  %1 = b3[i0] : f32\n  b4[i0] = %1\n}\n"),
                   "1");
}

TEST(a_piece_that_is_always_the_same_is_read_alone) {
    EXPECT_KERNELS(TURNED("neg", "32", "32",
                          "pointwise (i0 < 8, i1 < 32; ) {\n  %1 = b3[64*i0 + i1 + 32] : f32\n"
                          "  b4[64*i0 + i1] = %1\n}\n"),
                   "1");
}

TEST(pieces_of_different_sizes_stay) {
    EXPECT_KERNELS(TURNED("neg", "16", "48", TIMES("b3[64*i0 + i1]")), "1 1 1");
}

TEST(costly_pieces_stay) {
    EXPECT_KERNELS(TURNED("exp", "32", "32", TIMES("b3[64*i0 + i1]")), "2 1");
}

TEST(pieces_that_are_read_backwards_stay) {
    EXPECT_KERNELS(TURNED("neg", "32", "32", TIMES("b3[511 - 64*i0 - i1]")), "2 1");
}

TEST(pieces_of_what_changes_stay) {
    EXPECT_KERNELS(
        TURNED_OF("b6", FILL("b1"), "neg", "32", "32", FILL("b2") TIMES("b3[64*i0 + i1]")),
        "1 2 2");
}

TEST(pieces_of_what_was_made_before_are_computed) {
    EXPECT_KERNELS(TURNED_OF("b6", FILL("b1"), "neg", "32", "32", TIMES("b3[64*i0 + i1]")), "1 1");
}

TEST_MAIN
