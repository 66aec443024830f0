/* test_factor.c: which factors and summands of channels behind a convolution are done by it, and
 * which must not be. */
#include "unit/lower/lowering.h"

/* Decisions alone: the check of values knows no constants. Values:
 * tests/unit/ops/cpu/test_conv.c. */
static void check(const char *statements, const char *expected) {
    lowering t;
    if (lowering_parse(&t, statements)) EXPECT_STR(lowering_describe(&t), expected);
    lowering_end(&t);
}

#define HEAD                                                                                                \
    "storage 1 : 16 bytes hex 0000803f00000040000080bf0000003f\nstorage 2 : 8 bytes hex 0000004000004040\n" \
    "storage 3 : 8 bytes hex 0000003f000080be\ninput user %x : f32[1, 2, 3, 3] \"x\"\n"                     \
    "input parameter %w : f32[2, 2, 1, 1] storage 1 offset 0 \"w\"\n"                                       \
    "input constant %s : f32[1, 2, 1, 1] storage 2 offset 0 \"\"\ninput constant %t : f32[2, 1, 1] storage 3 offset 0 \"\"\n"
#define USER   "input user %u : f32[1, 2, 1, 1] \"u\"\n"
#define CONV   "%c = conv(%x, %w, none, " CONV_PLAIN
#define RESULT "output user %y \"\""

TEST(factor_and_summand) {
    check(HEAD CONV "%m = mul(%c, %s)\n%y = add(%m, %t)\n" RESULT,
          "conv(out, in0, in1, in3, -, in2) factors scale 0,1");
    check(HEAD CONV "%m = mul(%s, %c)\n%y = add(%t, %m)\n" RESULT,
          "conv(out, in0, in1, in3, -, in2) factors scale 0,1");
}

TEST(factor_alone) {
    check(HEAD CONV "%y = mul(%c, %s)\n" RESULT,
          "conv(out, in0, in1, -, -, in2) factors scale 0,1");
}

TEST(factor_residual_and_activation) {
    check(HEAD "input user %r : f32[1, 2, 3, 3] \"r\"\n" CONV
               "%m = mul(%c, %s)\n%n = add(%m, %t)\n%a = add(%r, %n)\n%y = relu(%a)\n" RESULT,
          "conv(out, in0, in1, in3, in4, in2) relu residual 18,9,0,3,1 factors scale 0,1");
}

TEST(residual_with_factors_of_its_own) {
    check(HEAD "input parameter %v : f32[2, 2, 1, 1] storage 1 offset 0 \"v\"\n" CONV
               "%m = mul(%c, %s)\n%n = add(%m, %t)\n"
               "%d = conv(%x, %v, none, " CONV_PLAIN
               "%e = mul(%d, %s)\n%f = add(%e, %t)\n%y = add(%f, %n)\n" RESULT,
          "conv(temp, in0, in1, in3, -, in2) factors scale 0,1; "
          "conv(out, in0, in4, in3, temp, in2) residual 18,9,0,3,1 factors scale 0,1");
}

TEST(numbers_that_may_change) {
    check(HEAD USER CONV "%y = mul(%c, %u)\n" RESULT, "conv(temp, in0, in1, -, -, -); loop");
    /* the factor is one, the summand is none */
    check(HEAD USER CONV "%m = mul(%c, %s)\n%y = add(%m, %u)\n" RESULT,
          "conv(temp, in0, in1, -, -, in2) factors scale 0,1; loop");
}

TEST(results_that_are_read_elsewhere) {
    check(HEAD CONV "%y = mul(%c, %s)\n" RESULT "\noutput user %c \"\"",
          "conv(out, in0, in1, -, -, -); loop");
    check(HEAD CONV "%m = mul(%c, %s)\n%y = add(%m, %t)\n" RESULT "\noutput user %m \"\"",
          "conv(out, in0, in1, -, -, in2) factors scale 0,1; loop");
}

TEST(convolution_with_a_bias) {
    check(HEAD
          "input parameter %b : f32[2] storage 3 offset 0 \"b\"\n%c = conv(%x, %w, %b, " CONV_PLAIN
          "%y = mul(%c, %s)\n" RESULT,
          "conv(temp, in0, in1, in4, -, -); loop");
}

TEST(numbers_of_places) {
    check(
        "storage 1 : 16 bytes hex 0000803f00000040000080bf0000003f\nstorage 2 : 8 bytes hex 0000004000004040\n"
        "input user %x : f32[1, 2, 3, 2] \"x\"\ninput parameter %w : f32[2, 2, 1, 1] storage 1 offset 0 \"w\"\n"
        "input constant %s : f32[1, 1, 1, 2] storage 2 offset 0 \"\"\n" CONV
        "%y = mul(%c, %s)\n" RESULT,
        "conv(temp, in0, in1, -, -, -); loop");
}

TEST_MAIN
