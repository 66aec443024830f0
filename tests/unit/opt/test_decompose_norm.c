/* Norms and softmax: few ops, each statistic once. */
#include "unit/opt/decompose_forms.h"

#define S "symbol size s0 in [2, 64] hint 8\n"
#define Y "output user %y \"\"\n"
#define X S "input user %x : f32[s0, 4] \"x\"\n"

TEST(softmax_is_shifted_by_the_maximum) {
    EXPECT_OPS(X "%y = aten._softmax.default(%x, 1, false) : f32[s0, 4]\n" Y,
               "amax div exp sub sum");
    EXPECT_OPS(X "%y = aten._log_softmax.default(%x, 1, false) : f32[s0, 4]\n" Y,
               "amax exp log sub sub sum");
}

TEST(sixteen_bit_floats_round_once) {
    EXPECT_OPS(
        "input user %x : bf16[2, 4] \"x\"\n%y = aten._softmax.default(%x, 1, false) : bf16[2, 4]\n" Y,
        "amax cast cast div exp sub sum");
    EXPECT_OPS(
        "input user %x : f16[2, 4] \"x\"\n%y = aten._softmax.default(%x, 1, true) : f32[2, 4]\n" Y,
        "amax cast div exp sub sum");
    EXPECT_OPS("input user %x : f16[2, 4] \"x\"\n%y = aten.softmax.int(%x, 1, f32) : f32[2, 4]\n" Y,
               "amax cast div exp sub sum");
}

TEST(layer_norm_takes_two_passes) {
    EXPECT_OPS(X "input user %w : f32[4] \"w\"\ninput user %b : f32[4] \"b\"\n"
                 "%y = aten.layer_norm.default(%x, [4], %w, %b) : f32[s0, 4]\n" Y,
               "add add div div mul mul mul rsqrt sub sum sum");
    EXPECT_OPS(X "%y = aten.rms_norm.default(%x, [4]) : f32[s0, 4]\n" Y,
               "add div mul mul rsqrt sum");
}

TEST(layer_norm_gradient_of_the_input_needs_two_sums) {
    EXPECT_OPS(
        X
        "input user %g : f32[s0, 4] \"g\"\ninput user %m : f32[s0, 1] \"m\"\ninput user %r : f32[s0, 1] \"r\"\n"
        "%y, _, _ = aten.native_layer_norm_backward.default(%g, %x, [4], %m, %r, none, none, [1, 0, 0]) : f32[s0, 4], _, _\n" Y,
        "div div mul mul mul mul sub sub sub sum sum");
}

#define BN                                                                                                \
    "input user %x : f32[2, 3, 8, 8] \"x\"\ninput user %w : f32[3] \"w\"\ninput user %b : f32[3] \"b\"\n" \
    "input user %m : f32[3] \"m\"\ninput user %v : f32[3] \"v\"\n"

TEST(batch_norm_in_evaluation_is_one_product_and_one_sum) {
    EXPECT_OPS(
        BN
        "%y, %i, %j = aten._native_batch_norm_legit_no_training.default(%x, %w, %b, %m, %v, 0.1, 1e-05) : f32[2, 3, 8, 8], f32[0], f32[0]\n" Y,
        "add add mul mul mul reshape reshape rsqrt sub");
}

TEST(batch_norm_without_statistics_is_refused) {
    EXPECT_REFUSES(
        BN
        "%y = aten.instance_norm.default(%x, %w, %b, none, none, false, 0.1, 1e-05, true) : f32[2, 3, 8, 8]\n" Y,
        HN_UNSUPPORTED, "needs running statistics");
}

TEST_MAIN
