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

/* A buffer of a body holds no value of the graph around it, whose numbers are others. */
TEST(buffers_inside_a_body) {
    lowering t;
    if (lowering_parse(&t, "input user %x : f32[3, 4] \"x\"\n"
                           "%a = loop(rounds=3, test=none, body=graph {\n"
                           "input user %u : f32[3, 4] \"\"\n%b = neg(%u)\n%c = exp(%b)\n"
                           "%d = sum(%c, dims=[1], keepdim=true)\n%e = sub(%b, %d)\n"
                           "output user %e \"\"\n}, carried=[%x], others=[]) : f32[3, 4]\n"
                           "output user %a \"\"")) {
        uint32_t of_values = 0;
        lower_with(&t, &hn_operations_all);
        for (hn_buf b = 1; t.program && b < t.program->buffers.count; b++) {
            const hn_value v = t.program->buffers.items[b].value;
            EXPECT(v < t.graph->values.count);
            of_values += v != 0;
        }
        EXPECT_INT(of_values, 2); /* the input, and the result of the loop */
    }
    lowering_end(&t);
}

/* Numbers and sizes that are others in each round; in the test, too. */
TEST(sizes_of_the_data_in_a_body) {
    expect_same(
        "symbol data u0 in [0, 9]\ninput user %x : f32[8] \"x\"\n" START
        "%a, %b = loop(rounds=5, test=none, body=graph {\n"
        "input user %n : i64[] \"\"\ninput user %v : f32[8] \"\"\n" COUNTER
        "%k = item(%n) : symint(u0)\n%h = slice(%v, dim=0, start=0, size=u0 + 1, step=1)\n"
        "%s = cumsum(%h, dim=0)\n%t = amax(%s, dims=[0], keepdim=true)\n%w = sub(%v, %t)\n"
        "output user %m \"\"\noutput user %w \"\"\n}, carried=[%z, %x], others=[]) : i64[], f32[8]\n"
        "output user %a \"\"\noutput user %b \"\"",
        2);
    expect_same(
        "symbol data u0 in [0, 8]\nsymbol data u1 in [0, 8]\ninput user %x : f32[8] \"x\"\n"
        "%a = loop(rounds=none, test=graph {\ninput user %v : f32[8] \"\"\n"
        "%i = nonzero(%v) : i64[u0, 1]\n%s = sum(%i, dims=[0], keepdim=false)\n"
        "%z = full(value=0, sizes=[1], dtype=i64)\n%g = gt(%s, %z)\noutput user %g \"\"\n}, "
        "body=graph {\ninput user %v : f32[8] \"\"\n%i = nonzero(%v) : i64[u0, 1]\n"
        "%j = slice(%i, dim=0, start=u0 + -1, size=1, step=1)\n%l = reshape(%j, sizes=[1])\n"
        "%o = full(value=0, sizes=[1], dtype=f32)\n"
        "%p = index_put(%v, indices=[%l], %o, mode=\"set\", wrap=false)\noutput user %p \"\"\n}, "
        "carried=[%x], others=[]) : f32[8]\noutput user %a \"\"",
        1);
}

TEST_MAIN
