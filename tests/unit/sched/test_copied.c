/* test_copied.c: calls without epilogues that write their results where loops would copy them to,
 * and what must stay a copy. */
#include "unit/lower/lowering.h"

#define OPERANDS                                                                                   \
    "input user %g : f32[2, 2, 3, 4] \"g\"\n input user %q : f32[2, 2, 3, 4] \"q\"\n"              \
    "input user %k : f32[2, 2, 3, 4] \"k\"\n input user %v : f32[2, 2, 3, 4] \"v\"\n"
#define GRADIENTS                                                                                  \
    OPERANDS "%a, %b, %c = attention_backward(%g, %q, %k, %v, %g, mask=none, scale=0.5, "          \
             "causal=true)\n"
/* Heads beside each other. */
#define ROWS(to, from)                                                                             \
    "%" to "p = permute(%" from ", dims=[0, 2, 1, 3])\n%" to " = reshape(%" to "p, sizes=[6, 8])\n"
#define CALL(results) "other(" results ", in0, in1, in2, in3, in0, -)"

TEST(gradients_as_parts_of_one_tensor) {
    lowering_check_near(GRADIENTS ROWS("d", "a") ROWS("e", "b")
                            ROWS("f", "c") "%x = cat([%d, %e, %f], dim=1)\noutput user %x \"\"",
                        CALL("out, out, out"), 1e-5);
    /* one of them twice: its copies stay, and so does what is copied behind the first of them */
    lowering_check_near(GRADIENTS ROWS("d", "a") ROWS("e", "b")
                            ROWS("f", "c") "%x = cat([%f, %d, %e, %d], dim=1)\noutput user %x \"\"",
                        CALL("temp, temp, out") "; loop; loop; loop", 1e-5);
}

TEST(gradients_of_other_readers) {
    lowering_check_near(GRADIENTS ROWS("d", "a") "%s = relu(%b)\noutput user %d \"\"\n"
                                                 "output user %s \"\"\noutput user %c \"\"",
                        CALL("out, temp, out") "; loop", 1e-5);
    /* rows that would be columns */
    lowering_check_near(GRADIENTS "%t = permute(%a, dims=[3, 0, 1, 2])\n%y = reshape(%t, "
                                  "sizes=[48])\noutput user %y \"\"\noutput user %b \"\"\n"
                                  "output user %c \"\"",
                        CALL("temp, out, out") "; loop", 1e-5);
}

TEST(attention_as_a_part) {
    lowering_check_near(
        OPERANDS "%a = attention(%q, %k, %v, mask=none, scale=0.5, causal=false)\n"
                 "%b = attention(%g, %k, %v, mask=none, scale=0.5, causal=false)\n" ROWS("d", "a")
                     ROWS("e", "b") "%x = cat([%d, %e], dim=1)\n"
                                    "output user %x \"\"",
        "other(out, in1, in2, in3, -); other(out, in0, in2, in3, -)", 1e-5);
}

/* What makes a part is still to be read when the call is done: the other part is there before. */
TEST(another_part_comes_between) {
    lowering_check_near(GRADIENTS ROWS("d", "a") "input user %w : f32[6, 8] \"w\"\n"
                                                 "%x = cat([%w, %d], dim=1)\noutput user %x \"\"\n"
                                                 "output user %b \"\"\noutput user %c \"\"",
                        CALL("temp, out, out") "; loop; loop", 1e-5);
}

/* Another target's operation need not store in any strides. */
TEST(only_where_the_operation_can) {
    const hn_operations operations = {
        .of = {[HN_EXTERN_ATTENTION_BACKWARD] = {.dtypes = 1 << HN_DTYPE_F32}}};
    lowering t;
    if (lowering_parse(&t, GRADIENTS ROWS("d", "a") ROWS("e", "b")
                               ROWS("f", "c") "%x = cat([%d, %e, %f], dim=1)\noutput user %x \"\""))
        EXPECT_STR(lowering_describe_with(&t, &operations),
                   CALL("temp, temp, temp") "; loop; loop; loop");
    lowering_end(&t);
}

TEST_MAIN
