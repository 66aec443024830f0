/* Products, convolutions and attention: the forms that kernels are chosen for. */
#include "unit/opt/decompose_forms.h"

#define S "symbol size s0 in [2, 64] hint 8\n"
#define Y "output user %y \"\"\n"

TEST(a_batch_of_rows_is_folded_into_one_product) {
    EXPECT_OPS(
        S
        "input user %x : f32[s0, 3, 4] \"x\"\ninput user %w : f32[5, 4] \"w\"\ninput user %b : f32[5] \"b\"\n"
        "%y = aten.linear.default(%x, %w, %b) : f32[s0, 3, 5]\n" Y,
        "matmul permute reshape reshape");
    EXPECT_OPS(S "input user %x : f32[s0, 3, 4] \"x\"\ninput user %w : f32[4, 5] \"w\"\n"
                 "%y = aten.matmul.default(%x, %w) : f32[s0, 3, 5]\n" Y,
               "matmul reshape reshape");
    EXPECT_OPS(
        "input user %x : f32[3, 4] \"x\"\ninput user %w : f32[4, 5] \"w\"\n%y = aten.matmul.default(%x, %w) : f32[3, 5]\n" Y,
        "matmul");
}

TEST(a_bias_rides_on_the_product) {
    EXPECT_OPS(
        "input user %c : f32[5] \"c\"\ninput user %x : f32[3, 4] \"x\"\ninput user %w : f32[4, 5] \"w\"\n"
        "%y = aten.addmm.default(%c, %x, %w) : f32[3, 5]\n" Y,
        "matmul");
    EXPECT_OPS(
        "input user %c : f32[5] \"c\"\ninput user %x : f32[3, 4] \"x\"\ninput user %w : f32[4, 5] \"w\"\n"
        "%y = aten.addmm.default(%c, %x, %w, beta=0) : f32[3, 5]\n" Y,
        "matmul");
    EXPECT_OPS(
        "input user %c : f32[5] \"c\"\ninput user %x : f32[3, 4] \"x\"\ninput user %w : f32[4, 5] \"w\"\n"
        "%y = aten.addmm.default(%c, %x, %w, alpha=2) : f32[3, 5]\n" Y,
        "add matmul mul");
}

TEST(vectors_reduce) {
    EXPECT_OPS("input user %x : bf16[4] \"x\"\n%y = aten.dot.default(%x, %x) : bf16[]\n" Y,
               "cast cast cast mul sum");
}

TEST(einsum_becomes_one_product) {
    EXPECT_OPS("input user %q : f32[2, 3, 4, 5] \"q\"\ninput user %k : f32[2, 3, 6, 5] \"k\"\n"
               "%y = aten.einsum.default(\"bhqd,bhkd->bhqk\", [%q, %k]) : f32[2, 3, 4, 6]\n" Y,
               "matmul permute reshape reshape reshape");
    EXPECT_OPS("input user %a : f32[2] \"a\"\ninput user %b : f32[3] \"b\"\n"
               "%y = aten.einsum.default(\"i,j->ij\", [%a, %b]) : f32[2, 3]\n" Y,
               "mul reshape reshape");
}

TEST(einsum_refuses_what_does_not_fit) {
    EXPECT_REFUSES(
        "input user %a : f32[2] \"a\"\n%y = aten.einsum.default(\"ij->i\", [%a]) : f32[2]\n" Y,
        HN_UNSUPPORTED, "does not fit its operands");
    EXPECT_REFUSES(
        "input user %a : f32[2] \"a\"\n%y = aten.einsum.default(\"i->j\", [%a]) : f32[2]\n" Y,
        HN_UNSUPPORTED, "does not fit its operands");
    EXPECT_REFUSES(
        "input user %a : f32[2] \"a\"\n%y = aten.einsum.default(\"i,i\", [%a]) : f32[]\n" Y,
        HN_UNSUPPORTED, "does not fit its operands");
}

#define ATTENTION                                                                                  \
    S "input user %q : f32[2, 4, s0, 8] \"q\"\ninput user %k : f32[2, 2, s0, 8] \"k\"\ninput user %v : f32[2, 2, s0, 8] \"v\"\n"

TEST(attention_stays_whole) {
    EXPECT_DECOMPOSES(
        ATTENTION
        "%y = aten.scaled_dot_product_attention.default(%q, %k, %v, is_causal=true, enable_gqa=true) : f32[2, 4, s0, 8]\n" Y,
        ATTENTION
        "%y = attention(%q, %k, %v, mask=none, scale=0.35355339059327373, causal=true) : f32[2, 4, s0, 8]\n" Y);
}

#define FLASH(args)                                                                                   \
    ATTENTION                                                                                         \
    "%y, _, _, _, _, _, _, _, _ = aten._scaled_dot_product_flash_attention.default(%q, %k, %v, " args \
    ") : f32[2, 4, s0, 8], _, _, _, _, _, _, _, _\n" Y

TEST(attention_of_training) {
    /* nobody reads the log-sum-exp: it is not computed */
    EXPECT_DECOMPOSES(
        FLASH("0.0, true, false"), ATTENTION
        "%y = attention(%q, %k, %v, mask=none, scale=0.35355339059327373, causal=true) : f32[2, 4, s0, 8]\n" Y);
    EXPECT_REFUSES(FLASH("0.5, false, false"), HN_UNSUPPORTED, "dropout");
    EXPECT_REFUSES(FLASH("0.0, false, true"), HN_UNSUPPORTED, "debug mask");
    /* PyTorch's flash kernels and others disagree on where the triangle is */
    EXPECT_REFUSES(
        "input user %q : f32[1, 1, 3, 8] \"q\"\ninput user %k : f32[1, 1, 5, 8] \"k\"\n"
        "%y, _, _, _, _, _, _, _, _ = aten._scaled_dot_product_flash_attention.default(%q, %k, %k, 0.0, true, false) : f32[1, 1, 3, 8], _, _, _, _, _, _, _, _\n" Y,
        HN_UNSUPPORTED, "as many queries as keys");
    EXPECT_REFUSES(
        "input user %q : f32[1, 2, 3, 8] \"q\"\ninput user %k : f32[1, 1, 3, 8] \"k\"\ninput user %l : f32[1, 2, 3] \"l\"\n"
        "%y, _, _ = aten._scaled_dot_product_flash_attention_for_cpu_backward.default(%q, %q, %k, %q, %q, %l, 0.0, false) : f32[1, 2, 3, 8], _, _\n" Y,
        HN_UNSUPPORTED, "repeated");
}

/* The ops that the gradient of an attention of `dtype` becomes for a target that has it of bf16. */
static const char *gradient_ops(opt_fixture *f, const char *dtype) {
    static const hn_operations operations = {
        .of = {[HN_EXTERN_ATTENTION_BACKWARD] = {.dtypes = 1u << HN_DTYPE_BF16}}};
    char text[1024], x[64];
    snprintf(x, sizeof x, "%s[1, 2, 3, 8]", dtype);
    snprintf(
        text, sizeof text,
        "graph {\ninput user %%q : %s \"q\"\ninput user %%l : f32[1, 2, 3] \"l\"\n"
        "%%a, %%b, %%c = aten._scaled_dot_product_flash_attention_for_cpu_backward.default(%%q, %%q, %%q, %%q, %%q, %%l, 0.0, true) : %s, %s, %s\n"
        "output user %%a \"\"\noutput user %%b \"\"\noutput user %%c \"\"\n}\n",
        x, x, x, x);
    opt_begin(f, text);
    hn_pass_context context = {.scratch = &f->scratch, .operations = &operations};
    EXPECT_OK(hn_pass_decompose(f->g, &context));
    EXPECT_OK(hn_pass_dce(f->g, &context));
    return form_ops(f);
}

TEST(gradients_of_attention_that_the_target_has) {
    opt_fixture f;
    EXPECT_STR(gradient_ops(&f, "bf16"), "attention_backward");
    opt_end(&f);
    EXPECT(strstr(gradient_ops(&f, "f32"), "matmul matmul matmul matmul matmul"));
    opt_end(&f);
}

#define CONV "input user %x : f32[2, 4, 9, 9] \"x\"\ninput user %w : f32[6, 4, 3, 3] \"w\"\n"

TEST(padding_same_pads_only_the_odd_element_apart) {
    EXPECT_OPS(CONV
               "%y = aten.conv2d.padding(%x, %w, none, [1, 1], \"same\") : f32[2, 6, 9, 9]\n" Y,
               "conv");
    EXPECT_OPS("input user %x : f32[2, 4, 9] \"x\"\ninput user %w : f32[6, 4, 2] \"w\"\n"
               "%y = aten.conv1d.padding(%x, %w, none, [1], \"same\") : f32[2, 6, 9]\n" Y,
               "conv pad");
}

TEST(gradients_not_asked_for_are_not_built) {
    EXPECT_OPS(
        CONV
        "input user %g : f32[2, 6, 7, 7] \"g\"\n"
        "_, _, %y = aten.convolution_backward.default(%g, %x, %w, [6], [1, 1], [0, 0], [1, 1], false, [0, 0], 1, [0, 0, 1]) : _, _, f32[6]\n" Y,
        "sum");
    EXPECT_OPS(
        CONV
        "input user %g : f32[2, 6, 7, 7] \"g\"\n"
        "%y, _, _ = aten.convolution_backward.default(%g, %x, %w, [6], [1, 1], [0, 0], [1, 1], false, [0, 0], 1, [1, 0, 0]) : f32[2, 4, 9, 9], _, _\n" Y,
        "conv");
}

TEST_MAIN
