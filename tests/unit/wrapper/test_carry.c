/* test_carry.c: which copies at the end of a round go, and which stay, by carry.c and by swap.c. That
 * nothing else changes is shown by random graphs with loops (run_wrappers --loops). */
#include "unit/harness.h"
#include "wrapper/carry.h"

static hn_status parse(const char *more, const char *lines, hn_arena *arena, hn_wrapper **out) {
    static const char
        *const head = "buffer b1 : input f32[8] source 0 buffer b2 : temp f32[8] bytes(32) "
                      "buffer b3 : temp f32[8] bytes(32) buffer b4 : temp f32[8] bytes(32) "
                      "buffer b5 : output f32[8] bytes(32) buffer b6 : temp f32[4] bytes(16) "
                      "buffer b7 : input bool[] source 1 buffer b8 : temp bool[] bytes(1) ",
               *const behind =
                   "kernel k1 : object 0 "
                   "input \"x\" : f32[8] strides [1] in b1 input \"p\" : bool[] strides [] in b7 "
                   "copy b2 from b1 copy b5 from b1 ";
    hn_sym *sym;
    hn_strbuf text;
    hn_strbuf_init(&text);
    hn_strbuf_printf(&text,
                     "wrapper { %s %s %s %s output tensor \"y\" : f32[8] strides [1] in b5 }", head,
                     more, behind, lines);
    hn_status status = hn_sym_create(arena, &sym);
    if (!status) status = hn_wrapper_parse(arena, sym, hn_strbuf_str(&text), out);
    hn_strbuf_deinit(&text);
    return status;
}

/* What a pass makes of the lines, as they are printed. `more`: buffers behind those. */
static void expect_after(hn_status (*pass)(hn_wrapper *w), const char *lines, const char *more,
                         const char *expected) {
    hn_arena arena;
    hn_wrapper *w = NULL, *wanted = NULL;
    hn_strbuf got, want;
    hn_arena_init(&arena);
    hn_strbuf_init(&got);
    hn_strbuf_init(&want);
    EXPECT_OK(parse("", lines, &arena, &w));
    EXPECT_OK(parse(more, expected, &arena, &wanted));
    if (w && wanted) {
        EXPECT_OK(hn_wrapper_verify(w));
        EXPECT_OK(pass(w));
        EXPECT_OK(hn_wrapper_verify(w));
        hn_wrapper_print(w, &got);
        hn_wrapper_print(wanted, &want);
        EXPECT_STR(got.ptr, want.ptr);
    }
    hn_strbuf_deinit(&got);
    hn_strbuf_deinit(&want);
    hn_arena_deinit(&arena);
}

static void expect_lines(const char *lines, const char *expected) {
    expect_after(hn_wrapper_carry, lines, "", expected);
}

static void expect_unchanged(const char *lines) { expect_lines(lines, lines); }

TEST(a_kernel_writes_over_what_it_reads) {
    expect_lines(
        "loop rounds(3) { call k1(b5 f32, out b3 f32 over [0]) extent(8) copy b5 from b3 }",
        "loop rounds(3) { call k1(b5 f32, out b5 f32 over [0]) extent(8) }");
    /* two that are carried, by one kernel; what is made first is read once more */
    expect_lines("loop rounds(3) { call k1(b2 f32, b5 f32, out b3 f32 over [0, 1], "
                 "out b4 f32 over [0, 1]) extent(8) copy b2 from b3 copy b5 from b4 }",
                 "loop rounds(3) { call k1(b2 f32, b5 f32, out b2 f32 over [0, 1], "
                 "out b5 f32 over [0, 1]) extent(8) }");
    expect_lines(
        "loop rounds(3) { call k1(b5 f32, out b3 f32 over [0]) extent(8) "
        "call k1(b3 f32, out b6 f32) extent(4) call k1(b6 f32, out b3 f32) extent(8) copy b5 from b3 }",
        "loop rounds(3) { call k1(b5 f32, out b5 f32 over [0]) extent(8) "
        "call k1(b5 f32, out b6 f32) extent(4) call k1(b6 f32, out b5 f32) extent(8) }");
}

/* The test reads it before; so does a loop inside that is over. */
TEST(all_is_read_before) {
    expect_lines("loop { call k1(b5 f32, out b8 bool) extent(1) } while (b8 bool) { "
                 "loop rounds(2) { call k1(b5 f32, out b6 f32) extent(4) } "
                 "call k1(b2 f32, out b3 f32) extent(8) copy b5 from b3 }",
                 "loop { call k1(b5 f32, out b8 bool) extent(1) } while (b8 bool) { "
                 "loop rounds(2) { call k1(b5 f32, out b6 f32) extent(4) } "
                 "call k1(b2 f32, out b5 f32) extent(8) }");
    expect_lines(
        "loop rounds(3) { loop rounds(2) { call k1(b2 f32, out b3 f32 over [0]) extent(8) "
        "copy b2 from b3 } call k1(b5 f32, b2 f32, out b4 f32 over [0]) extent(8) copy b5 from b4 }",
        "loop rounds(3) { loop rounds(2) { call k1(b2 f32, out b2 f32 over [0]) extent(8) "
        "} call k1(b5 f32, b2 f32, out b5 f32 over [0]) extent(8) }");
}

TEST(what_stays_a_copy) {
    /* no promise; one of two operands without it; the old content is read behind */
    expect_unchanged("loop rounds(3) { call k1(b5 f32, out b3 f32) extent(8) copy b5 from b3 }");
    expect_unchanged(
        "loop rounds(3) { call k1(b5 f32, b5 f32 at(1), out b3 f32 over [0]) extent(7) copy b5 from b3 }");
    expect_unchanged("loop rounds(3) { call k1(b5 f32, out b3 f32 over [0]) extent(8) "
                     "call k1(b5 f32, out b6 f32) extent(4) copy b5 from b3 }");
    /* made in a branch, or used behind the loop; of another size */
    expect_unchanged(
        "call k1(out b3 f32) extent(8) loop rounds(3) { "
        "cond(b7 bool) { call k1(b5 f32, out b3 f32 over [0]) extent(8) } else { } copy b5 from b3 }");
    expect_unchanged(
        "call k1(out b3 f32) extent(8) loop rounds(3) { call k1(b5 f32, out b3 f32 over [0]) extent(8) "
        "copy b5 from b3 } call k1(b3 f32, out b4 f32) extent(8)");
    expect_unchanged(
        "loop rounds(3) { call k1(b5 f32, out b6 f32 over [0]) extent(4) copy b5 from b6 }");
    /* a change of places: one copy is left */
    expect_lines("loop rounds(3) { call k1(b5 f32, out b3 f32) extent(8) call k1(b2 f32, b5 f32, "
                 "out b4 f32 over [0, 1]) extent(8) copy b2 from b3 copy b5 from b4 }",
                 "loop rounds(3) { call k1(b5 f32, out b3 f32) extent(8) call k1(b2 f32, b5 f32, "
                 "out b5 f32 over [0, 1]) extent(8) copy b2 from b3 }");
    /* not at the end of the round */
    expect_unchanged(
        "loop rounds(3) { call k1(b5 f32, out b3 f32 over [0]) extent(8) copy b5 from b3 "
        "call k1(b5 f32, out b6 f32) extent(4) }");
}

/* ---- swapped ---- */

static void expect_swapped(const char *lines, const char *more, const char *expected) {
    expect_after(hn_wrapper_swap, lines, more, expected);
}

#define FOUR     "buffer b9 : temp f32[4] bytes(16) "
#define EIGHT(b) "buffer " b " : temp f32[8] bytes(32) "

TEST(two_rounds_are_one) {
    /* a round is left; other temporaries are others in each round */
    expect_swapped("loop rounds(5) { call k1(b5 f32, out b6 f32) extent(4) "
                   "call k1(b5 f32, b6 f32, out b3 f32) extent(8) copy b5 from b3 }",
                   FOUR EIGHT("b10") "buffer b11 : temp f32[4] bytes(16) ",
                   "loop rounds(2) { call k1(b5 f32, out b6 f32) extent(4) "
                   "call k1(b5 f32, b6 f32, out b3 f32) extent(8) "
                   "call k1(b3 f32, out b9 f32) extent(4) "
                   "call k1(b3 f32, b9 f32, out b5 f32) extent(8) } "
                   "loop rounds(1) { call k1(b5 f32, out b11 f32) extent(4) "
                   "call k1(b5 f32, b11 f32, out b10 f32) extent(8) copy b5 from b10 }");
    /* none is left, and one of two copies goes: the other is of what the loop does not make */
    expect_swapped("loop rounds(4) { call k1(b5 f32, b2 f32, out b3 f32) extent(8) "
                   "copy b5 from b3 copy b2 from b1 }",
                   "",
                   "loop rounds(2) { call k1(b5 f32, b2 f32, out b3 f32) extent(8) copy b2 from b1 "
                   "call k1(b3 f32, b2 f32, out b5 f32) extent(8) copy b2 from b1 }");
}

TEST(loops_that_stay) {
    static const char *const lines[] = {
        "loop rounds(1) { call k1(b5 f32, out b3 f32) extent(8) copy b5 from b3 }",
        "loop { call k1(b5 f32, out b8 bool) extent(1) } while (b8 bool) { "
        "call k1(b5 f32, out b3 f32) extent(8) copy b5 from b3 }",
        "loop rounds(2) { loop rounds(4) { call k1(b5 f32, out b3 f32) extent(8) copy b5 from b3 } }",
        /* it is read behind the loop, or made in front of it, or by nobody here */
        "call k1(b1 f32, out b3 f32) extent(8) loop rounds(4) { "
        "call k1(b5 f32, out b3 f32) extent(8) copy b5 from b3 }",
        "loop rounds(4) { call k1(b5 f32, out b2 f32) extent(8) copy b5 from b1 }",
        /* two are made of one, or one of the other */
        "loop rounds(4) { call k1(b5 f32, out b3 f32) extent(8) copy b5 from b3 copy b2 from b3 }",
        "loop rounds(4) { call k1(b5 f32, out b3 f32) extent(8) copy b2 from b5 copy b5 from b3 }"};
    for (size_t k = 0; k < HN_COUNT_OF(lines); k++) expect_swapped(lines[k], "", lines[k]);
}

TEST_MAIN
