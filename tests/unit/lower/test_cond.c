/* test_cond.c: conditionals as bracketed items: the program, run by the interpreters, gives what the
 * interpreter of graphs gives. */
#include "lowering_values.h"

static void expect_same(const char *statements) {
    static const double tolerance[HN_RANDOM_MAX_TENSORS] = {0};
    lowering t;
    if (lowering_parse(&t, statements)) {
        lower_with(&t, &hn_operations_all);
        expect_values(&t, HN_RUN_OPERATIONS, tolerance);
    }
    lowering_end(&t);
}

/* Of a mask of eight elements each one decides once; some of them are true, some false. */
TEST(a_predicate_inside_other_memory) {
    for (int at = 0; at < 8; at++) {
        char text[1024];
        snprintf(text, sizeof text,
                 "input user %%m : bool[8] \"m\"\ninput user %%x : f32[3] \"x\"\n"
                 "%%p = slice(%%m, dim=0, start=%d, size=1, step=1)\n"
                 "%%y = cond(%%p, then=graph {\ninput user %%a : f32[3] \"\"\n%%b = neg(%%a)\n"
                 "output user %%b \"\"\n}, otherwise=graph {\ninput user %%a : f32[3] \"\"\n"
                 "%%b = add(%%a, %%a)\noutput user %%b \"\"\n}, operands=[%%x]) : f32[3]\n"
                 "output user %%y \"\"",
                 at);
        expect_same(text);
    }
}

TEST_MAIN
