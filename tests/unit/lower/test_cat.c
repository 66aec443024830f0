/* test_cat.c: which concatenations are no memory: chosen from for each element where they are read, on
 * targets on which a kernel costs more than a load, or read piece by piece in loops that are cut. */
#include "lowering.h"

#define X_AND_W "input user %x : f32[6, 8] \"x\"\n input user %w : f32[6, 8] \"w\"\n"
#define HALVES                                                                                     \
    "%a = slice(%x, dim=1, start=4, size=4, step=1)\n%n = neg(%a)\n"                               \
    "%b = slice(%x, dim=1, start=0, size=4, step=1)\n"
#define TURNED X_AND_W HALVES "%c = cat([%n, %b], dim=1)\n"

static void check(bool chooses, const char *statements, const char *expected) {
    const hn_operations operations = {.chooses_pieces = chooses};
    lowering t;
    if (lowering_parse(&t, statements))
        EXPECT_STR(lowering_describe_with(&t, &operations), expected);
    lowering_end(&t);
}

#define READ "%y = mul(%c, %w)\noutput user %y \"\""

TEST(read_by_one_op) {
    check(true, TURNED READ, "loop");
    check(false, TURNED READ, "loop; loop");
    lowering_check_values(TURNED READ, 0);
}

#define SHIFTED                                                                                    \
    X_AND_W "%h = slice(%x, dim=0, start=0, size=5, step=1)\n"                                     \
            "%z = slice(%w, dim=0, start=0, size=1, step=1)\n%c = cat([%z, %h], dim=0)\n"

/* A reader that adds up needs it whole, and so do an output, and what may leave a loop uncut. */
TEST(made_all_the_same) {
#define MADE "loop; loop; loop"
    check(true, TURNED READ "\noutput user %c \"\"", MADE);
    check(true, SHIFTED "%y = sum(%c, dims=[0], keepdim=false)\noutput user %y \"\"", MADE);
    check(false, SHIFTED "%d = exp(%c)\n%y = sum(%d, dims=[0], keepdim=false)\noutput user %y \"\"",
          MADE);
    /* pieces of sizes that a run knows */
    check(
        true,
        "symbol size s0 in [0, 64]\ninput user %x : f32[6, s0] \"x\"\n input user %w : f32[6, s0 + 4] \"w\"\n"
        "input user %b : f32[6, 4] \"b\"\n"
        "%c = cat([%x, %b], dim=1)\n%y = mul(%c, %w)\noutput user %y \"\"",
        MADE);
    /* each element of it is read six times */
    check(true,
          "input user %x : f32[1, 4] \"x\"\ninput user %w : f32[6, 8] \"w\"\n%e = exp(%x)\n"
          "%c = cat([%e, %x], dim=1)\n%d = expand(%c, sizes=[6, 8])\n%y = mul(%d, %w)\n"
          "output user %y \"\"",
          MADE);
    /* what is stored is larger than what would be read */
    check(true,
          "input user %x : bf16[6, 4] \"x\"\ninput user %w : f32[6, 8] \"w\"\n%e = exp(%x)\n"
          "%c = cat([%e, %x], dim=1)\n%d = cast(%c, dtype=f32)\n%y = mul(%d, %w)\n"
          "output user %y \"\"",
          MADE);
    /* a product takes what is added to it */
    lowering_check_near(X_AND_W HALVES
                        "input user %m : f32[8, 8] \"m\"\n%c = cat([%n, %b], dim=1)\n"
                        "%p = matmul(%w, %m)\n%y = add(%p, %c)\noutput user %y \"\"",
                        "loop; loop; matmul(out, in1, in2, -, temp) residual 0,0,0,0,8,1", 1e-4);
}

static void check_near(const char *statements, const char *expected, uint32_t cut,
                       double tolerance) {
    lowering t;
    if (lowering_parse(&t, statements)) {
        EXPECT_STR(lowering_describe_with(&t, &(hn_operations){0}), expected);
        if (t.program) EXPECT_INT(t.program->cats_cut, cut);
    }
    lowering_end(&t);
    lowering_check_values(statements, tolerance);
}

static void check_cut(const char *statements, const char *expected, uint32_t cut) {
    check_near(statements, expected, cut, 0);
}

#define EXP_ERROR 1e-5 /* of exp, of numbers up to 4 */

TEST(a_loop_is_cut_where_a_piece_ends) {
    /* pieces that cost more than a load; three, of uneven sizes, one of them of none */
    check_near(X_AND_W HALVES "%e = exp(%n)\n%c = cat([%e, %b], dim=1)\n" READ, "loop; loop", 1,
               EXP_ERROR);
    check_cut(X_AND_W "input user %v : f32[6, 16] \"v\"\n" HALVES
                      "%o = slice(%x, dim=1, start=0, size=0, step=1)\n"
                      "%c = cat([%n, %o, %b, %x], dim=1)\n%y = mul(%c, %v)\noutput user %y \"\"",
              "loop; loop; loop", 1);
    /* along the rows; two readers of two pieces; one more reader is too many */
    check_cut(SHIFTED READ, "loop; loop", 1);
    check_cut(SHIFTED "%d = add(%c, %w)\noutput user %d \"\"\n" READ, "loop; loop; loop; loop", 1);
    check_cut(SHIFTED
              "%d = add(%c, %w)\noutput user %d \"\"\n%e = abs(%c)\noutput user %e \"\"\n" READ,
              "loop; loop; loop; loop; loop", 0);
    /* a concatenation of concatenations, along one dimension */
    check_cut(X_AND_W "input user %v : f32[18, 8] \"v\"\n%c = cat([%x, %w], dim=0)\n"
                      "%d = cat([%c, %x], dim=0)\n%y = mul(%d, %v)\noutput user %y \"\"",
              "loop; loop; loop", 2);
}

/* Two dimensions turned: a window that is shifted. */
#define ROLLED(ROWS, REST)                                                                         \
    X_AND_W "%a = slice(%x, dim=0, start=" REST ", size=" ROWS ", step=1)\n"                       \
            "%b = slice(%x, dim=0, start=0, size=" REST ", step=1)\n%c = cat([%a, %b], dim=0)\n"   \
            "%f = slice(%c, dim=1, start=3, size=5, step=1)\n"                                     \
            "%g = slice(%c, dim=1, start=0, size=3, step=1)\n%d = cat([%f, %g], dim=1)\n"

TEST(two_dimensions_are_cut) {
    check_cut(ROLLED("2", "4") "%y = mul(%d, %w)\noutput user %y \"\"", "loop; loop; loop; loop",
              2);
    check_cut(ROLLED("5", "1") "output user %d \"\"", "loop; loop; loop; loop", 1);
}

TEST(a_variable_is_cut_where_the_index_tells_it) {
    /* backwards; every second one; two of the dimensions of a cut one */
    check_cut(X_AND_W "input user %v : f32[12, 8] \"v\"\n%c = cat([%x, %w], dim=0)\n"
                      "%f = slice(%c, dim=0, start=11, size=12, step=-1)\n%y = mul(%f, %v)\n"
                      "output user %y \"\"",
              "loop; loop", 1);
    check_cut(X_AND_W "input user %v : f32[5, 8] \"v\"\n%c = cat([%x, %w], dim=0)\n"
                      "%f = slice(%c, dim=0, start=1, size=5, step=2)\n%y = mul(%f, %v)\n"
                      "output user %y \"\"",
              "loop; loop", 1);
    /* of one piece alone nothing is cut */
    check_cut(X_AND_W "input user %v : f32[3, 8] \"v\"\n%c = cat([%x, %w], dim=0)\n"
                      "%f = slice(%c, dim=0, start=7, size=3, step=1)\n%y = mul(%f, %v)\n"
                      "output user %y \"\"",
              "loop", 1);
    /* rows of another length: no number tells the piece */
    check_cut(
        X_AND_W
        "%a = slice(%w, dim=1, start=0, size=3, step=1)\n"
        "%c = cat([%x, %a], dim=1)\n%e = relu(%c)\n%f = reshape(%e, sizes=[66])\n%y = neg(%f)\noutput user %y \"\"",
        "loop; loop; loop", 0);
}

TEST_MAIN
