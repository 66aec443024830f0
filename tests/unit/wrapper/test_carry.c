/* test_carry.c: which copies at the end of a round go, and which stay. That nothing else changes is
 * shown by random graphs with loops (run_wrappers --loops). */
#include "unit/harness.h"
#include "wrapper/carry.h"

static hn_status parse(const char *lines, hn_arena *arena, hn_wrapper **out) {
    static const char *const head =
        "buffer b1 : input f32[8] source 0 buffer b2 : temp f32[8] bytes(32) "
        "buffer b3 : temp f32[8] bytes(32) buffer b4 : temp f32[8] bytes(32) "
        "buffer b5 : output f32[8] bytes(32) buffer b6 : temp f32[4] bytes(16) "
        "buffer b7 : input bool[] source 1 buffer b8 : temp bool[] bytes(1) kernel k1 : object 0 "
        "input \"x\" : f32[8] strides [1] in b1 input \"p\" : bool[] strides [] in b7 "
        "copy b2 from b1 copy b5 from b1 ";
    hn_sym *sym;
    hn_strbuf text;
    hn_strbuf_init(&text);
    hn_strbuf_printf(&text, "wrapper { %s %s output tensor \"y\" : f32[8] strides [1] in b5 }",
                     head, lines);
    hn_status status = hn_sym_create(arena, &sym);
    if (!status) status = hn_wrapper_parse(arena, sym, hn_strbuf_str(&text), out);
    hn_strbuf_deinit(&text);
    return status;
}

/* What is left of the lines, as they are printed. */
static void expect_lines(const char *lines, const char *expected) {
    hn_arena arena;
    hn_wrapper *w = NULL, *wanted = NULL;
    hn_strbuf got, want;
    hn_arena_init(&arena);
    hn_strbuf_init(&got);
    hn_strbuf_init(&want);
    EXPECT_OK(parse(lines, &arena, &w));
    EXPECT_OK(parse(expected, &arena, &wanted));
    if (w && wanted) {
        EXPECT_OK(hn_wrapper_verify(w));
        EXPECT_OK(hn_wrapper_carry(w));
        EXPECT_OK(hn_wrapper_verify(w));
        hn_wrapper_print(w, &got);
        hn_wrapper_print(wanted, &want);
        EXPECT_STR(got.ptr, want.ptr);
    }
    hn_strbuf_deinit(&got);
    hn_strbuf_deinit(&want);
    hn_arena_deinit(&arena);
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

TEST_MAIN
