/* test_repeat.c: loops of graphs as bracketed items: the program, run by the interpreter of loop IR,
 * and the compiled kernels give what the interpreter of graphs gives; what is copied each round. */
#include "lowering_values.h"

static void expect_same(const char *statements, uint32_t copies) {
    static const double tolerance[HN_RANDOM_MAX_TENSORS] = {0};
    lowering t;
    if (lowering_parse(&t, statements)) {
        uint32_t found = 0;
        lower_with(&t, &hn_operations_all);
        for (hn_item i = 1; t.program && i < t.program->items.count; i++)
            found += t.program->items.items[i].kind == HN_ITEM_COPY;
        EXPECT_INT(found, copies);
        expect_values(&t, HN_RUN_OPERATIONS, tolerance);
    }
    lowering_end(&t);
}

#define COUNTER "%one = full(value=1, sizes=[], dtype=i64)\n %m = add(%n, %one)\n"
#define START   "%z = full(value=0, sizes=[], dtype=i64)\n"

TEST(rounds_that_are_counted) {
    static const char *const rounds[] = {"0", "1", "7"};
    for (size_t k = 0; k < HN_COUNT_OF(rounds); k++) {
        char text[1024];
        snprintf(
            text, sizeof text,
            "input user %%x : f32[3] \"x\"\n%s%%a, %%b = loop(rounds=%s, test=none, body=graph {\n"
            "input user %%n : i64[] \"\"\ninput user %%v : f32[3] \"\"\ninput user %%w : f32[3] \"\"\n%s"
            "%%u = add(%%v, %%w)\noutput user %%m \"\"\noutput user %%u \"\"\n}, carried=[%%z, %%x], others=[%%x]) : i64[], f32[3]\n"
            "output user %%a \"\"\noutput user %%b \"\"",
            START, rounds[k], COUNTER);
        expect_same(text, 2);
    }
}

/* What is swapped, or handed on, is copied before anything is written. */
TEST(carried_values_that_change_places) {
    expect_same(
        "input user %x : f32[3] \"x\"\ninput user %y : f32[3] \"y\"\n"
        "%a, %b, %c = loop(rounds=5, test=none, body=graph {\n"
        "input user %u : f32[3] \"\"\ninput user %v : f32[3] \"\"\ninput user %w : f32[3] \"\"\n"
        "output user %v \"\"\noutput user %u \"\"\noutput user %w \"\"\n}, carried=[%x, %y, %x], others=[]) : f32[3], f32[3], f32[3]\n"
        "output user %a \"\"\noutput user %b \"\"\noutput user %c \"\"",
        2);
}

/* Views of what is carried, and of the operands. */
TEST(carried_views) {
    expect_same(
        "input user %x : f32[3, 4] \"x\"\n%t = permute(%x, dims=[1, 0])\n"
        "%a = loop(rounds=3, test=none, body=graph {\n"
        "input user %u : f32[4, 3] \"\"\n%f = slice(%u, dim=0, start=3, size=4, step=-1)\n"
        "%g = neg(%f)\noutput user %g \"\"\n}, carried=[%t], others=[]) : f32[4, 3]\noutput user %a \"\"",
        1);
    expect_same("input user %x : f32[6] \"x\"\n%t = slice(%x, dim=0, start=2, size=3, step=1)\n"
                "%a = loop(rounds=3, test=none, body=graph {\n"
                "input user %u : f32[3] \"\"\ninput user %o : f32[6] \"\"\n"
                "%s = slice(%o, dim=0, start=3, size=3, step=1)\n"
                "output user %s \"\"\n}, carried=[%t], others=[%x]) : f32[3]\noutput user %a \"\"",
                1);
}

/* A test that reads what is carried; a loop and a conditional inside. */
TEST(rounds_that_a_test_tells) {
    static const char *const inner[] = {
        "%k = loop(rounds=2, test=none, body=graph {\n input user %p : f32[3] \"\"\n%q = add(%p, %p)\n"
        "output user %q \"\"\n}, carried=[%v], others=[]) : f32[3]\n",
        "%two = full(value=2, sizes=[], dtype=i64)\n%odd = lt(%n, %two)\n"
        "%k = cond(%odd, then=graph {\ninput user %p : f32[3] \"\"\noutput user %p \"\"\n}, otherwise=graph {\n"
        "input user %p : f32[3] \"\"\n%q = neg(%p)\noutput user %q \"\"\n}, operands=[%v]) : f32[3]\n"};
    for (size_t k = 0; k < HN_COUNT_OF(inner); k++) {
        char text[2048];
        snprintf(
            text, sizeof text,
            "input user %%x : f32[3] \"x\"\n%s%%a, %%b = loop(rounds=none, test=graph {\n"
            "input user %%n : i64[] \"\"\ninput user %%v : f32[3] \"\"\n"
            "%%end = full(value=4, sizes=[], dtype=i64)\n%%goes = lt(%%n, %%end)\noutput user %%goes \"\"\n}, body=graph {\n"
            "input user %%n : i64[] \"\"\ninput user %%v : f32[3] \"\"\n%s"
            "%s output user %%m \"\"\noutput user %%k \"\"\n}, carried=[%%z, %%x], others=[]) : i64[], f32[3]\n"
            "output user %%a \"\"\noutput user %%b \"\"",
            START, COUNTER, inner[k]);
        expect_same(text, k == 0 ? 3 : 2);
    }
}

#define PUT_LOOP(more)                                                                                  \
    "input user %x : f32[5, 3] \"x\"\ninput user %y : f32[3] \"y\"\n" START                             \
    "%a, %b, %c = loop(rounds=4, test=none, body=graph {\n"                                             \
    "input user %n : i64[] \"\"\ninput user %v : f32[5, 3] \"\"\ninput user %w : f32[3] \"\"\n" COUNTER \
    "%s = add(%w, %w)\n%p = index_put(%v, indices=[%n], %s, mode=\"set\", wrap=false)\n" more           \
    "}, carried=[%z, %x, %y], others=[]) : i64[], f32[5, 3], f32[3]\n"                                  \
    "output user %a \"\"\noutput user %b \"\"\noutput user %c \"\""

/* Elements are put where what is carried lies, unless something else reads what was there. */
TEST(puts_stay_in_place) {
    expect_same(PUT_LOOP("output user %m \"\"\noutput user %p \"\"\noutput user %s \"\"\n"), 2);
    expect_same(
        PUT_LOOP("%r = index_put(%p, indices=[%m], %w, mode=\"add\", wrap=false)\n"
                 "%q = slice(%r, dim=0, start=1, size=1, step=1)\n%o = reshape(%q, sizes=[3])\n"
                 "output user %m \"\"\noutput user %r \"\"\noutput user %o \"\"\n"),
        2);
    expect_same(
        PUT_LOOP("%q = slice(%v, dim=0, start=1, size=1, step=1)\n%o = reshape(%q, sizes=[3])\n"
                 "output user %m \"\"\noutput user %p \"\"\noutput user %o \"\"\n"),
        3);
}

TEST_MAIN
