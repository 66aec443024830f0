/* test_epilogue.c: which sums and activations behind a product or a convolution become a part of
 * it, and which must not. */
#include "unit/lower/lowering.h"

#define X_AND_W  "input user %x : f32[2, 3, 4, 4] \"x\"\n input user %w : f32[5, 3, 1, 1] \"w\"\n"
#define RESIDUAL "input user %r : f32[2, 5, 4, 4] \"r\"\n"
#define CONV     "%y = conv(%x, %w, none, " CONV_PLAIN
#define PLAIN    "conv(out, in0, in1, -, -, -)"
#define INSIDE   "conv(out, in0, in1, -, in2, -)"
#define BEFORE   "conv(temp, in0, in1, -, -, -); loop"

#define A_AND_B "input user %a : f32[6, 4] \"a\"\n input user %b : f32[4, 5] \"b\"\n"
#define MATMUL  "%m = matmul(%a, %b, bias=none)\n"

TEST(sum_then_activation) {
    lowering_check(X_AND_W RESIDUAL CONV "%s = add(%y, %r)\n%z = relu(%s)\noutput user %z \"\"",
                   INSIDE " relu residual 80,16,0,4,1");
    lowering_check(X_AND_W RESIDUAL CONV "%s = add(%r, %y)\n%z = relu(%s)\noutput user %z \"\"",
                   INSIDE " relu residual 80,16,0,4,1");
    lowering_check(X_AND_W RESIDUAL CONV "%s = add(%y, %r)\noutput user %s \"\"",
                   INSIDE " residual 80,16,0,4,1");
    lowering_check(X_AND_W CONV "%z = relu(%y)\noutput user %z \"\"", PLAIN " relu");
}

TEST(largest_activation) {
    /* one in front of the other: sigmoid alone would leave the product to a kernel. Its exponential
     * is the runtime's own. */
    lowering_check_near(X_AND_W CONV "%g = sigmoid(%y)\n%z = mul(%y, %g)\noutput user %z \"\"",
                        PLAIN " silu", 1e-5);
    lowering_check_near(X_AND_W RESIDUAL CONV
                        "%s = add(%y, %r)\n%g = sigmoid(%s)\n%z = mul(%g, %s)\noutput user %z \"\"",
                        INSIDE " silu residual 80,16,0,4,1", 1e-5);
}

TEST(sum_behind_matmul) {
    lowering_check(A_AND_B "input user %r : f32[6, 5] \"r\"\n" MATMUL
                           "%s = add(%m, %r)\noutput user %s \"\"",
                   "matmul(out, in0, in1, -, in2) residual 0,0,0,0,5,1");
    /* a residual in another order of memory */
    lowering_check(A_AND_B "input user %q : f32[5, 6] \"q\"\n%r = permute(%q, dims=[1, 0])\n" MATMUL
                           "%s = add(%m, %r)\noutput user %s \"\"",
                   "matmul(out, in0, in1, -, in2) residual 0,0,0,0,1,6");
}

/* What the operation of another target does not take stays a loop behind the call. */
static void check_with(hn_operation o, const char *statements, const char *expected) {
    const hn_operations operations = {.of = {[HN_EXTERN_MATMUL] = o, [HN_EXTERN_CONV] = o}};
    lowering t;
    if (lowering_parse(&t, statements))
        EXPECT_STR(lowering_describe_with(&t, &operations), expected);
    lowering_end(&t);
}

TEST(what_an_operation_takes) {
    const hn_operation plain = {.dtypes = 1 << HN_DTYPE_F32};
    const hn_operation relu = {.dtypes = 1 << HN_DTYPE_F32, .epilogues = 1 << HN_EPILOGUE_RELU};
    const hn_operation sum = {.dtypes = 1 << HN_DTYPE_F32, .does = HN_DOES_RESIDUAL};
    const hn_operation strides = {.dtypes = 1 << HN_DTYPE_F32, .does = HN_DOES_STRIDES};
#define SUM_RELU                                                                                   \
    A_AND_B "input user %r : f32[6, 5] \"r\"\n" MATMUL                                             \
            "%s = add(%m, %r)\n%z = relu(%s)\noutput user %z \"\""
    check_with(relu, A_AND_B MATMUL "%z = relu(%m)\noutput user %z \"\"",
               "matmul(out, in0, in1, -, -) relu");
    check_with(plain, A_AND_B MATMUL "%z = relu(%m)\noutput user %z \"\"",
               "matmul(temp, in0, in1, -, -); loop");
    check_with(sum, SUM_RELU, "matmul(temp, in0, in1, -, in2) residual 0,0,0,0,5,1; loop");
    check_with(relu, SUM_RELU, "matmul(temp, in0, in1, -, -); loop");
    check_with(plain, A_AND_B MATMUL "%y = tanh(%m)\noutput user %y \"\"",
               "matmul(temp, in0, in1, -, -); loop");
    check_with(strides, X_AND_W RESIDUAL CONV "%s = add(%y, %r)\noutput user %s \"\"",
               "conv(temp, in0, in1, -, -, -); loop");
    check_with(sum, X_AND_W RESIDUAL CONV "%s = add(%y, %r)\noutput user %s \"\"",
               INSIDE " residual 80,16,0,4,1");
}

#define NARROW                                                                                     \
    "input user %a : bf16[6, 4] \"a\"\n input user %b : bf16[4, 5] \"b\"\n"                        \
    "input user %r : bf16[6, 5] \"r\"\n" MATMUL

/* The tanh form of GELU of a product, as it is spelt out: in `dtype`, of x in it, and partly in f32. */
static const char *gelu(const char *x, const char *dtype, const char *outputs) {
    static char text[1500];
    snprintf(text, sizeof text,
             "%s%%half = full(value=0.5, sizes=[], dtype=%s)\n"
             "%%one = full(value=1.0, sizes=[], dtype=%s)\n"
             "%%c = full(value=0.044715, sizes=[], dtype=f32)\n"
             "%%d = full(value=0.7978845608028654, sizes=[], dtype=f32)\n"
             "%%f = cast(%%m, dtype=f32)\n"
             "%%s = mul(%%f, %%f)\n%%t = mul(%%s, %%f)\n%%u = mul(%%t, %%c)\n"
             "%%v = cast(%%u, dtype=%s)\n%%i = add(%s, %%v)\n"
             "%%j = cast(%%i, dtype=f32)\n%%k = mul(%%j, %%d)\n"
             "%%l = cast(%%k, dtype=%s)\n%%n = tanh(%%l)\n%%o = add(%%n, %%one)\n"
             "%%h = mul(%s, %%half)\n%%p = mul(%%h, %%o)\n"
             "%%z = cast(%%p, dtype=bf16)\noutput user %%z \"\"\n%s",
             NARROW, dtype, dtype, dtype, x, dtype, x, outputs);
    return text;
}

/* An operation that rounds to 16 bits once takes an activation whose ops the loop rounds one by one,
 * and nothing else; the rest is as of f32. */
TEST(activations_of_16_bits) {
    const hn_operation narrow = {.dtypes = 1 << HN_DTYPE_BF16,
                                 .epilogues = UINT32_MAX,
                                 .narrow_epilogues =
                                     1 << HN_EPILOGUE_RELU | 1 << HN_EPILOGUE_GELU_TANH,
                                 .does = HN_DOES_RESIDUAL};
    const hn_operation wide = {.dtypes = 1 << HN_DTYPE_BF16, .epilogues = UINT32_MAX};
    check_with(narrow, NARROW "%z = relu(%m)\noutput user %z \"\"",
               "matmul(out, in0, in1, -, -) relu");
    check_with(wide, NARROW "%z = relu(%m)\noutput user %z \"\"",
               "matmul(temp, in0, in1, -, -); loop");
    check_with(narrow, gelu("%f", "f32", ""), "matmul(out, in0, in1, -, -) gelu_tanh");
    check_with(narrow, gelu("%m", "bf16", ""), "matmul(out, in0, in1, -, -) gelu_tanh");
    check_with(narrow, gelu("%m", "bf16", "output user %t \"\""),
               "matmul(temp, in0, in1, -, -); loop; loop");
    check_with(wide, gelu("%m", "bf16", ""), "matmul(temp, in0, in1, -, -); loop");
    check_with(narrow, NARROW "%z = tanh(%m)\noutput user %z \"\"",
               "matmul(temp, in0, in1, -, -); loop");
    check_with(narrow, NARROW "%z = add(%m, %r)\noutput user %z \"\"",
               "matmul(temp, in0, in1, -, -); loop");
}

#define WITH_BIAS "input user %b : f32[5] \"b\"\n%y = conv(%x, %w, %b, " CONV_PLAIN

/* An operation that does these only together with a bias. */
TEST(what_needs_a_bias) {
    const hn_operation o = {.dtypes = 1 << HN_DTYPE_F32,
                            .epilogues = 1 << HN_EPILOGUE_RELU,
                            .does = HN_DOES_RESIDUAL | HN_NEEDS_BIAS};
    check_with(o, X_AND_W CONV "%z = relu(%y)\noutput user %z \"\"", BEFORE);
    check_with(o, X_AND_W RESIDUAL CONV "%s = add(%y, %r)\noutput user %s \"\"", BEFORE);
    check_with(o, X_AND_W WITH_BIAS "%z = relu(%y)\noutput user %z \"\"",
               "conv(out, in0, in1, in2, -, -) relu");
    check_with(o, X_AND_W RESIDUAL WITH_BIAS "%s = add(%y, %r)\n%z = relu(%s)\noutput user %z \"\"",
               "conv(out, in0, in1, in3, in2, -) relu residual 80,16,0,4,1");
}

TEST(through_reshapes) {
    lowering_check(A_AND_B "input user %r : f32[2, 3, 5] \"r\"\n" MATMUL
                           "%t = reshape(%m, sizes=[2, 3, 5])\n%s = add(%t, %r)\n"
                           "%z = relu(%s)\noutput user %z \"\"",
                   "matmul(out, in0, in1, -, in2) relu residual 0,0,0,0,5,1");
    /* memory that cannot be seen as rows and columns is added by a kernel */
    lowering_check(A_AND_B
                   "input user %q : f32[3, 2, 5] \"q\"\n%r = permute(%q, dims=[1, 0, 2])\n" MATMUL
                   "%t = reshape(%m, sizes=[2, 3, 5])\n%s = add(%t, %r)\noutput user %s \"\"",
                   "matmul(temp, in0, in1, -, -); loop");
    lowering_check_near(A_AND_B MATMUL
                        "%t = reshape(%m, sizes=[2, 3, 5])\n%z = tanh(%t)\noutput user %z \"\"",
                        "matmul(out, in0, in1, -, -) tanh", 1e-5);
}

/* A sum with a value that is walked in another order, and what stands behind the sum. */
TEST(through_permutes) {
    lowering_check(A_AND_B "input user %q : f32[5, 6] \"q\"\n" MATMUL
                           "%t = permute(%m, dims=[1, 0])\n%s = add(%t, %q)\n"
                           "%y = sum(%s, dims=[1], keepdim=false)\noutput user %y \"\"",
                   "matmul(temp, in0, in1, -, in2) residual 0,0,0,0,1,6; loop");
}

#define LARGE "input user %a : f32[600, 4] \"a\"\n input user %b : f32[4, 500] \"b\"\n"

/* A costly activation is a kernel behind a product of many results, and where that kernel stays
 * anyway. */
TEST(costly_activations) {
    lowering_check_near(A_AND_B MATMUL "%z = tanh(%m)\noutput user %z \"\"",
                        "matmul(out, in0, in1, -, -) tanh", 1e-5);
    lowering_check_near(LARGE MATMUL "%z = tanh(%m)\noutput user %z \"\"",
                        "matmul(temp, in0, in1, -, -); loop", 1e-5);
    lowering_check_near(LARGE MATMUL "%z = relu(%m)\noutput user %z \"\"",
                        "matmul(out, in0, in1, -, -) relu", 1e-5);
    lowering_check_near(A_AND_B "input user %r : f32[6, 5] \"r\"\n" MATMUL
                                "%g = sigmoid(%m)\n%z = mul(%g, %r)\noutput user %z \"\"",
                        "matmul(temp, in0, in1, -, -); loop", 1e-5);
}

/* What all readers do first, and nothing where one does not. */
TEST(several_readers) {
#define TWO(first, second)                                                                         \
    X_AND_W RESIDUAL CONV first "%m = sum(%p, dims=[2, 3], keepdim=true)\n" second                 \
                                "%z = sub(%q, %r)\noutput user %m \"\"\noutput user %z \"\""
    lowering_check(TWO("%p = relu(%y)\n", "%q = relu(%y)\n"),
                   "conv(temp, in0, in1, -, -, -) relu; loop; loop");
    lowering_check(TWO("%p = relu(%y)\n", "%q = neg(%y)\n"),
                   "conv(temp, in0, in1, -, -, -); loop; loop");
    lowering_check(TWO("%s = add(%y, %r)\n%p = relu(%s)\n", "%t = add(%y, %r)\n%q = abs(%t)\n"),
                   "conv(temp, in0, in1, -, in2, -) residual 80,16,0,4,1; loop; loop");
    lowering_check(TWO("%p = relu(%y)\n", "%q = relu(%y)\n") "\noutput user %y \"\"",
                   "conv(out, in0, in1, -, -, -); loop; loop");
}

/* Part of a body goes to the operation, and what is left reads what that has made. */
TEST(parts_of_bodies) {
    lowering_check(X_AND_W RESIDUAL CONV "%p = relu(%y)\n%z = sub(%p, %r)\noutput user %z \"\"",
                   "conv(temp, in0, in1, -, -, -) relu; loop");
    lowering_check(X_AND_W RESIDUAL CONV
                   "%p = add(%y, %r)\n%m = sum(%p, dims=[2, 3], keepdim=true)\noutput user %m \"\"",
                   "conv(temp, in0, in1, -, in2, -) residual 80,16,0,4,1; loop");
}

/* A copy into another layout: rows stay rows, or it stays a kernel. */
TEST(copies) {
    lowering_check(X_AND_W CONV "%t = permute(%y, dims=[1, 0, 2, 3])\noutput user %t \"\"",
                   "conv(out, in0, in1, -, -, -)");
    lowering_check(A_AND_B MATMUL "%t = permute(%m, dims=[1, 0])\noutput user %t \"\"",
                   "matmul(temp, in0, in1, -, -); loop");
}

/* Heads beside each other in rows: the loop that copies them wraps its index at each head. */
#define HEADS                                                                                      \
    "input user %a : f32[2, 3, 4, 5] \"a\"\n input user %b : f32[2, 3, 5, 6] \"b\"\n"              \
    "%m = matmul(%a, %b, bias=none)\n%p = permute(%m, dims=[0, 2, 1, 3])\n"                        \
    "%r = reshape(%p, sizes=[8, 18])\n"

TEST(copies_of_heads) {
    lowering_check(HEADS "output user %r \"\"", "matmul(out, in0, in1, -, -)");
    lowering_check(HEADS "%t = permute(%r, dims=[1, 0])\n%q = reshape(%t, sizes=[144])\n"
                         "output user %q \"\"",
                   "matmul(temp, in0, in1, -, -); loop");
}

/* Products that are parts of one tensor are written there. */
TEST(copies_into_parts) {
    lowering_check(HEADS "%n = matmul(%a, %b, bias=none)\n%o = relu(%n)\n"
                         "%u = permute(%o, dims=[0, 2, 1, 3])\n%v = reshape(%u, sizes=[8, 18])\n"
                         "%c = cat([%r, %v], dim=1)\noutput user %c \"\"",
                   "matmul(out, in0, in1, -, -); matmul(out, in0, in1, -, -) relu");
    /* another part is written between the product and the copy: nothing says that they are apart */
    lowering_check("input user %x : f32[8, 18] \"x\"\n" HEADS
                   "%c = cat([%x, %r], dim=1)\noutput user %c \"\"",
                   "matmul(temp, in1, in2, -, -); loop; loop");
}

TEST(one_sum_only) {
    lowering_check(A_AND_B
                   "input user %r : f32[6, 5] \"r\"\n input user %q : f32[6, 5] \"q\"\n" MATMUL
                   "%s = add(%m, %r)\n%z = add(%s, %q)\noutput user %z \"\"",
                   "matmul(temp, in0, in1, -, in2) residual 0,0,0,0,5,1; loop");
    lowering_check(X_AND_W CONV "%s = add(%y, %y)\noutput user %s \"\"", BEFORE);
}

TEST(residual_that_is_computed) {
#define SCAN    "%r = cumsum(%q, dim=1)\n"
#define SCANNED "input user %q : f32[2, 5, 4, 4] \"q\"\n"
    lowering_check(X_AND_W SCANNED SCAN CONV "%s = add(%y, %r)\noutput user %s \"\"",
                   "loop; conv(out, in0, in1, -, temp, -) residual 80,16,0,4,1");
    /* later: it is not there yet */
    lowering_check(X_AND_W SCANNED CONV SCAN "%s = add(%y, %r)\noutput user %s \"\"",
                   "conv(temp, in0, in1, -, -, -); loop; loop");
    /* for this sum alone: the sum's kernel computes it */
    lowering_check(X_AND_W SCANNED "%r = neg(%q)\n" CONV "%s = add(%y, %r)\noutput user %s \"\"",
                   BEFORE);
    /* of two convolutions the later one takes the earlier one */
    lowering_check(
        X_AND_W "input user %v : f32[5, 3, 1, 1] \"v\"\n" CONV "%r = conv(%x, %v, none, " CONV_PLAIN
                "%s = add(%y, %r)\noutput user %s \"\"",
        "conv(temp, in0, in1, -, -, -); conv(out, in0, in2, -, temp, -) residual 80,16,0,4,1");
}

TEST(other_readers) {
    lowering_check(X_AND_W RESIDUAL CONV
                   "%s = add(%y, %r)\n%n = neg(%y)\noutput user %s \"\"\noutput user %n \"\"",
                   "conv(temp, in0, in1, -, -, -); loop; loop");
    /* the contraction, or the sum, is a result itself */
    lowering_check(X_AND_W RESIDUAL CONV
                   "%s = add(%y, %r)\noutput user %y \"\"\noutput user %s \"\"",
                   "conv(out, in0, in1, -, -, -); loop");
    lowering_check(X_AND_W RESIDUAL CONV
                   "%s = add(%y, %r)\n%z = relu(%s)\noutput user %s \"\"\noutput user %z \"\"",
                   INSIDE " residual 80,16,0,4,1; loop");
}

TEST(other_sizes) {
    lowering_check(X_AND_W "input user %r : f32[1, 5, 4, 4] \"r\"\n" CONV
                           "%s = add(%y, %r)\noutput user %s \"\"",
                   BEFORE);
    lowering_check(X_AND_W "input user %r : f32[4, 4] \"r\"\n" CONV
                           "%s = add(%y, %r)\noutput user %s \"\"",
                   BEFORE);
    /* the contraction is what repeats */
    lowering_check(A_AND_B "input user %r : f32[2, 6, 5] \"r\"\n" MATMUL
                           "%s = add(%m, %r)\noutput user %s \"\"",
                   "matmul(temp, in0, in1, -, -); loop");
}

TEST(other_types) {
    lowering_check(
        "input user %a : f16[6, 4] \"a\"\n input user %b : f16[4, 5] \"b\"\n input user %r : f16[6, 5] \"r\"\n" MATMUL
        "%s = add(%m, %r)\n%z = relu(%s)\noutput user %z \"\"",
        "matmul(temp, in0, in1, -, -); loop");
    lowering_check(
        "input user %a : f64[6, 4] \"a\"\n input user %b : f64[4, 5] \"b\"\n input user %r : f64[6, 5] \"r\"\n" MATMUL
        "%s = add(%m, %r)\noutput user %s \"\"",
        "matmul(temp, in0, in1, -, -); loop");
    /* a 16-bit residual is converted by the kernel of the sum */
    lowering_check(A_AND_B "input user %h : f16[6, 5] \"h\"\n%r = cast(%h, dtype=f32)\n" MATMUL
                           "%s = add(%m, %r)\noutput user %s \"\"",
                   "matmul(temp, in0, in1, -, -); loop");
}

/* Where a residual begins may depend on a number that is only known behind the call. */
TEST(residual_at_a_number_of_the_data) {
#define AT                                                                                         \
    "symbol data u0 in [0, 4]\n" A_AND_B                                                           \
    "input user %r : f32[10, 5] \"r\"\n input user %k : u8[] \"k\"\n"
#define NUMBER "%n = item(%k) : symint(u0)\n%q = slice(%r, dim=0, start=u0, size=6, step=1)\n"
    lowering_check(AT MATMUL NUMBER "%s = add(%m, %q)\noutput user %s \"\"",
                   "matmul(temp, in0, in1, -, -); loop; other; loop");
    lowering_check(AT NUMBER MATMUL "%s = add(%m, %q)\noutput user %s \"\"",
                   "loop; other; matmul(out, in0, in1, -, in2) residual 0,0,0,0,5,1");
}

/* ... or be there only if an assertion behind the call holds. */
TEST(residual_behind_an_assertion) {
#define CHECKED "input user %k : f32[] \"k\"\n" A_AND_B "input user %r : f32[6, 5] \"r\"\n"
#define CHECK   "%e = eq(%k, %k)\nassert(%e, message=\"no\")\n"
    lowering_check(CHECKED MATMUL CHECK "%s = add(%m, %r)\noutput user %s \"\"",
                   "matmul(temp, in1, in2, -, -); loop; other; loop");
    lowering_check(CHECKED CHECK MATMUL "%s = add(%m, %r)\noutput user %s \"\"",
                   "loop; other; matmul(out, in1, in2, -, in3) residual 0,0,0,0,5,1");
}

TEST(residual_that_is_turned_round) {
    lowering_check(A_AND_B "input user %r : f32[6, 5] \"r\"\n" MATMUL
                           "%f = slice(%r, dim=0, start=5, size=6, step=-1)\n"
                           "%g = slice(%f, dim=1, start=4, size=5, step=-1)\n"
                           "%s = add(%m, %g)\noutput user %s \"\"",
                   "matmul(out, in0, in1, -, in2) residual 0,0,0,0,-5,-1");
}

/* What stands behind a sum of nothing is done all the same. */
TEST(empty_sums) {
    lowering_check("input user %a : f32[6, 0] \"a\"\n input user %b : f32[0, 5] \"b\"\n"
                   "input user %r : f32[6, 5] \"r\"\n" MATMUL
                   "%s = add(%m, %r)\n%z = relu(%s)\noutput user %z \"\"",
                   "matmul(out, in0, in1, -, in2) relu residual 0,0,0,0,5,1");
    lowering_check("input user %x : f32[2, 0, 4, 4] \"x\"\n"
                   "input user %w : f32[5, 0, 1, 1] \"w\"\n" RESIDUAL CONV
                   "%s = add(%y, %r)\n%z = relu(%s)\noutput user %z \"\"",
                   INSIDE " relu residual 80,16,0,4,1");
}

/* A residual that the call reads otherwise, too, or that the program gives another content. */
TEST(residual_that_is_an_operand) {
    lowering_check("input user %x : f32[6, 6] \"x\"\n%a = cumsum(%x, dim=0)\n"
                   "%t = permute(%a, dims=[1, 0])\n%m = matmul(%a, %a, bias=none)\n"
                   "%s = add(%m, %t)\n%z = relu(%s)\noutput user %z \"\"",
                   "loop; matmul(out, temp, temp, -, temp) relu residual 0,0,0,0,1,6");
    lowering_check("input user %a : f32[6, 6] \"a\"\n input user %b : f32[6, 6] \"b\"\n" MATMUL
                   "%s = add(%m, %a)\n%z = relu(%s)\noutput mutation %z of 0 \"\"",
                   "matmul(out, in0, in1, -, in0) relu residual 0,0,0,0,6,1");
}

TEST_MAIN
