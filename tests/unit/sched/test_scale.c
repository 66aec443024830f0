/* test_scale.c: which products in front of a convolution are done while it reads its input, and
 * which must not be. */
#include "unit/lower/lowering.h"

#define X       "input user %x : f32[2, 4, 3, 3] \"x\"\n"
#define X_AND_W X "input user %w : f32[5, 4, 1, 1] \"w\"\n"
#define CONV    "%y = conv(%p, %w, none, " CONV_PLAIN "output user %y \"\""
#define SCALED  "%p = mul(%x, %s)\n" CONV
#define INSIDE  "conv(out, in0, in1, -, -, in2)"
#define BEFORE  "loop; conv(out, temp, in1, -, -, -)"

TEST(scale_for_each_channel) {
    lowering_check(X_AND_W "input user %s : f32[1, 4, 1, 1] \"s\"\n" SCALED, INSIDE " scale 0,1");
    lowering_check(X_AND_W "input user %s : f32[4, 1, 1] \"s\"\n" SCALED, INSIDE " scale 0,1");
    lowering_check(X_AND_W "input user %s : f32[1, 4, 1, 1] \"s\"\n%p = mul(%s, %x)\n" CONV,
                   INSIDE " scale 0,1");
}

TEST(scale_for_each_image_and_channel) {
    lowering_check(X_AND_W "input user %s : f32[2, 4, 1, 1] \"s\"\n" SCALED, INSIDE " scale 4,1");
    /* strides are those of its memory */
    lowering_check(
        X_AND_W
        "input user %t : f32[4, 2, 1, 1] \"t\"\n%s = permute(%t, dims=[1, 0, 2, 3])\n" SCALED,
        INSIDE " scale 1,2");
}

TEST(scale_that_is_computed) {
    lowering_check(X_AND_W "input user %t : f32[2, 4, 1, 1] \"t\"\n%s = neg(%t)\n" SCALED,
                   "loop; conv(out, in0, in1, -, -, temp) scale 4,1");
}

TEST(scale_and_residual) {
    lowering_check(
        X_AND_W
        "input user %s : f32[2, 4, 1, 1] \"s\"\n input user %r : f32[2, 5, 3, 3] \"r\"\n%p = mul(%x, %s)\n"
        "%c = conv(%p, %w, none, " CONV_PLAIN
        "%a = add(%c, %r)\n%y = relu(%a)\noutput user %y \"\"",
        "conv(out, in0, in1, -, in3, in2) relu residual 45,9,0,3,1 scale 4,1");
}

TEST(larger_kernel) {
    lowering_check(
        X "input user %w : f32[5, 4, 3, 3] \"w\"\n input user %s : f32[1, 4, 1, 1] \"s\"\n" SCALED,
        BEFORE);
    lowering_check(
        X "input user %w : f32[5, 4, 1, 2] \"w\"\n input user %s : f32[1, 4, 1, 1] \"s\"\n" SCALED,
        BEFORE);
}

TEST(scale_of_places) {
    lowering_check(X_AND_W "input user %s : f32[1, 1, 3, 3] \"s\"\n" SCALED, BEFORE);
    lowering_check(X_AND_W "input user %s : f32[2, 4, 3, 3] \"s\"\n" SCALED, BEFORE);
    lowering_check(X_AND_W "input user %s : f32[1, 4, 1, 3] \"s\"\n" SCALED, BEFORE);
    /* one for each image, and one for all, are no scales of channels */
    lowering_check(X_AND_W "input user %s : f32[2, 1, 1, 1] \"s\"\n" SCALED, BEFORE);
    lowering_check(X_AND_W "input user %s : f32[] \"s\"\n" SCALED, BEFORE);
}

TEST(input_that_is_computed) {
    /* one loop computes both */
    lowering_check(X_AND_W
                   "input user %s : f32[1, 4, 1, 1] \"s\"\n%n = neg(%x)\n%p = mul(%n, %s)\n" CONV,
                   BEFORE);
}

TEST(other_types) {
    lowering_check("input user %x : f16[2, 4, 3, 3] \"x\"\n input user %w : f16[5, 4, 1, 1] \"w\"\n"
                   "input user %s : f16[1, 4, 1, 1] \"s\"\n" SCALED,
                   BEFORE);
}

/* A product that is the weights as well must be in memory. */
TEST(product_that_is_read_twice) {
    lowering_check("input user %x : f32[4, 4, 1, 1] \"x\"\n"
                   "input user %s : f32[1, 4, 1, 1] \"s\"\n%p = mul(%x, %s)\n"
                   "%y = conv(%p, %p, none, " CONV_PLAIN "output user %y \"\"",
                   "loop; conv(out, temp, temp, -, -, -)");
}

TEST(groups_and_transposed) {
#define GROUPS(transposed, w)                                                                      \
    X "input user %s : f32[2, 4, 1, 1] \"s\"\n input user %w : f32[" w "] \"w\"\n"                 \
      "input user %r : f32[2, 6, 3, 3] \"r\"\n%p = mul(%x, %s)\n%y = conv(%p, %w, none, "          \
      "stride=[1, 1], padding=[0, 0], dilation=[1, 1], transposed=" transposed                     \
      ", output_padding=[0, 0], groups=2)\n%a = add(%r, %y)\n%z = relu(%a)\noutput user %z \"\""
    lowering_check(GROUPS("false", "6, 2, 1, 1"),
                   "conv(out, in0, in2, -, in3, in1) relu residual 54,9,0,3,1 scale 4,1");
    lowering_check(GROUPS("true", "4, 3, 1, 1"),
                   "conv(out, in0, in2, -, in3, in1) relu residual 54,9,0,3,1 scale 4,1");
}

TEST(product_that_is_a_result) {
    lowering_check(X_AND_W "input user %s : f32[1, 4, 1, 1] \"s\"\n" SCALED "\noutput user %p \"\"",
                   "loop; conv(out, out, in1, -, -, -)");
}

TEST_MAIN
