/* test_cat.c: which concatenations are chosen from piece by piece where they are read, on targets on
 * which a kernel costs more than a load. */
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

TEST(read_by_one_op) {
    check(true, TURNED "%y = mul(%c, %w)\noutput user %y \"\"", "loop");
    check(false, TURNED "%y = mul(%c, %w)\noutput user %y \"\"", "loop; loop; loop");
    lowering_check_values(TURNED "%y = mul(%c, %w)\noutput user %y \"\"", 0);
}

TEST(made_all_the_same) {
#define MADE "loop; loop; loop"
    /* an output, two readers, and a reader that adds up rows */
    check(true, TURNED "%y = mul(%c, %w)\noutput user %y \"\"\noutput user %c \"\"", MADE);
    check(true, TURNED "%d = mul(%c, %w)\n%y = mul(%d, %c)\noutput user %y \"\"", MADE);
    check(true, TURNED "%y = sum(%c, dims=[1], keepdim=false)\noutput user %y \"\"", MADE);
    /* pieces that cost more than a load, and of no elements */
    check(true,
          X_AND_W HALVES "%e = exp(%n)\n%c = cat([%e, %b], dim=1)\n%y = mul(%c, %w)\n"
                         "output user %y \"\"",
          MADE);
    check(
        true,
        "symbol size s0 in [0, 64]\ninput user %x : f32[6, s0] \"x\"\n input user %w : f32[6, s0 + 4] \"w\"\n"
        "input user %b : f32[6, 4] \"b\"\n"
        "%c = cat([%x, %b], dim=1)\n%y = mul(%c, %w)\noutput user %y \"\"",
        MADE);
    /* three */
    check(true,
          X_AND_W "input user %v : f32[6, 16] \"v\"\n" HALVES
                  "%c = cat([%n, %b, %x], dim=1)\n%y = mul(%c, %v)\noutput user %y \"\"",
          "loop; loop; loop; loop");
}

TEST_MAIN
