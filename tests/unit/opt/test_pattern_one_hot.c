/* test_pattern_one_hot.c: sums of which one element at most is not 0, against the interpreter: the
 * same bits, with indices in range and out of it. */
#include "unit/opt/equivalence.h"

static const eq_options same_bits = {.rtol = 0};

/* Runs patterns alone: `sums` are left. */
static void expect_sums(const char *text, uint32_t sums) {
    eq_graph before, after;
    bool parsed = eq_parse(&before, text);
    if (eq_parse(&after, text) && parsed) {
        EXPECT_OK(eq_run_pass(&after, hn_pass_patterns, false));
        if (eq_count(after.g, HN_OP_SUM) != sums)
            HN_TEST_FAIL("%s\nleaves %u sums, expected %u", text, eq_count(after.g, HN_OP_SUM),
                         sums);
        eq_expect_same(&before, &after, text, &same_bits);
    }
    eq_end(&before);
    eq_end(&after);
}

#define HEAD(index, value)                                                                         \
    "graph { input user %t : " index " \"t\" input user %v : " value " \"v\" "                     \
    "input user %c : bool[6, 1] \"c\" "
#define COUNTER(start, step, n, dtype)                                                             \
    "%i = iota(start=" start ", step=" step ", size=" n ", dtype=" dtype ") "
#define ZERO(dtype, text) "%z = full(value=" text ", sizes=[], dtype=" dtype ") "
#define TAIL(dim, keep)   "%s = sum(%w, dims=[" dim "], keepdim=" keep ") output user %s \"\" }"

TEST(one_place_of_a_row) {
    expect_sums(HEAD("i64[6, 1]", "f32[6, 1]") COUNTER("0", "1", "3", "i64")
                    ZERO("f32", "0.0") "%e = eq(%t, %i) %w = where(%e, %v, %z) " TAIL("1", "true"),
                0);
    expect_sums(HEAD("i64[6, 1]", "f32[6, 1]") COUNTER("0", "1", "3", "i64")
                    ZERO("f32", "0.0") "%e = eq(%i, %t) %w = where(%e, %v, %z) " TAIL("1", "false"),
                0);
    /* of the loss: with a condition, and the whole is read as well */
    expect_sums(
        HEAD("i64[6, 1]", "f32[6, 1]") COUNTER("0", "1", "5", "i64") ZERO(
            "f32",
            "0.0") "%e = eq(%t, %i) %a = and(%e, %c) %b = and(%c, %a) %w = where(%b, %v, %z) %y = exp(%w) "
                   "%s = sum(%w, dims=[1], keepdim=true) output user %s \"\" output user %y \"\" }",
        0);
}

TEST(other_dims_types_and_shapes) {
    expect_sums(
        HEAD("i32[1, 6]", "bf16[6]") COUNTER("0", "1", "4", "i32") ZERO(
            "bf16",
            "0.0") "%j = reshape(%i, sizes=[4, 1]) %e = eq(%t, %j) %w = where(%e, %v, %z) " TAIL("0",
                                                                                                 "false"),
        0);
    expect_sums(HEAD("i64[6, 1]", "i64[6, 1]") COUNTER("0", "1", "3", "i64")
                    ZERO("i64", "0") "%e = eq(%t, %i) %w = where(%e, %v, %z) " TAIL("1", "true"),
                0);
    /* sizes come from the counter alone */
    expect_sums(
        HEAD("i64[1]", "f32[]") COUNTER("0", "1", "3", "i64")
            ZERO("f32", "0.0") "%r = reshape(%i, sizes=[1, 3]) %j = expand(%r, sizes=[2, 3]) %e = eq(%t, %j) %w = where(%e, %v, %z) " TAIL(
                "1", "false"),
        0);
    /* the middle of three, and a size that is known in a run only */
    expect_sums(
        "graph { symbol size s0 in [0, 9] hint 4 input user %t : i64[2, 1, 3] \"t\" input user %x : f32[s0] \"x\" "
        "input user %v : f32[2, 1, 1] \"v\" " COUNTER("0", "1", "s0", "i64")
            ZERO("f32",
                 "0.0") "%j = reshape(%i, sizes=[1, s0, 1]) %e = eq(%t, %j) %w = where(%e, %v, %z) "
                        "%s = sum(%w, dims=[1], keepdim=false) output user %s \"\" }",
        0);
}

TEST(what_is_no_single_place) {
    /* what is chosen, or where, differs along the row */
    expect_sums(HEAD("i64[6, 1]", "f32[6, 3]") COUNTER("0", "1", "3", "i64")
                    ZERO("f32", "0.0") "%e = eq(%t, %i) %w = where(%e, %v, %z) " TAIL("1", "true"),
                1);
    expect_sums(HEAD("i64[6, 3]", "f32[6, 1]") COUNTER("0", "1", "3", "i64")
                    ZERO("f32", "0.0") "%e = eq(%t, %i) %w = where(%e, %v, %z) " TAIL("1", "true"),
                1);
    /* along the other dimension; along both */
    expect_sums(HEAD("i64[6, 1]", "f32[6, 1]") COUNTER("0", "1", "3", "i64")
                    ZERO("f32", "0.0") "%e = eq(%t, %i) %w = where(%e, %v, %z) " TAIL("0", "true"),
                1);
    expect_sums(HEAD("i64[6, 1]", "f32[6, 1]") COUNTER("0", "1", "3", "i64") ZERO(
                    "f32", "0.0") "%e = eq(%t, %i) %w = where(%e, %v, %z) " TAIL("0, 1", "true"),
                1);
    /* counters that begin elsewhere, or step over some */
    expect_sums(HEAD("i64[6, 1]", "f32[6, 1]") COUNTER("1", "1", "3", "i64")
                    ZERO("f32", "0.0") "%e = eq(%t, %i) %w = where(%e, %v, %z) " TAIL("1", "true"),
                1);
    expect_sums(HEAD("i64[6, 1]", "f32[6, 1]") COUNTER("0", "2", "3", "i64")
                    ZERO("f32", "0.0") "%e = eq(%t, %i) %w = where(%e, %v, %z) " TAIL("1", "true"),
                1);
    /* other numbers elsewhere; one place or another; all places but one */
    expect_sums(HEAD("i64[6, 1]", "f32[6, 1]") COUNTER("0", "1", "3", "i64")
                    ZERO("f32", "1.0") "%e = eq(%t, %i) %w = where(%e, %v, %z) " TAIL("1", "true"),
                1);
    expect_sums(
        HEAD("i64[6, 1]", "f32[6, 1]") COUNTER("0", "1", "3", "i64")
            ZERO("f32",
                 "0.0") "%e = eq(%t, %i) %a = or(%e, %c) %w = where(%a, %v, %z) " TAIL("1", "true"),
        1);
    expect_sums(HEAD("i64[6, 1]", "f32[6, 1]") COUNTER("0", "1", "3", "i64")
                    ZERO("f32", "0.0") "%e = ne(%t, %i) %w = where(%e, %v, %z) " TAIL("1", "true"),
                1);
    /* two places at once, of which only equal ones are both */
    expect_sums(
        HEAD("i64[6, 1]", "f32[6, 1]") COUNTER("0", "1", "3", "i64")
            ZERO("f32", "0.0") "%u = mul(%t, %t) %e = eq(%t, %i) %d = eq(%u, %i) %a = and(%e, %d) %w = where(%a, %v, %z) " TAIL(
                "1", "true"),
        1);
    /* a type that may not hold the size */
    expect_sums(HEAD("u8[6, 1]", "f32[6, 1]") COUNTER("0", "1", "3", "u8")
                    ZERO("f32", "0.0") "%e = eq(%t, %i) %w = where(%e, %v, %z) " TAIL("1", "true"),
                1);
}

TEST_MAIN
