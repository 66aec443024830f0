/* test_lives.c: how long buffers live around conditionals, seen from where the planner puts them.
 * The planner's own verifier asks the same lives, so the places are compared here. */
#include "unit/harness.h"
#include "wrapper/wrapper.h"

enum { BYTES = 4096 };

/* b1 is the predicate, b9 goes out; b2 to b8 are temporaries of BYTES. */
#define HEAD                                                                                                                           \
    "  buffer b1 : input bool[] source 0\n  buffer b2 : temp f32[1024] bytes(4096)\n  buffer b3 : temp f32[1024] bytes(4096)\n"        \
    "  buffer b4 : temp f32[1024] bytes(4096)\n  buffer b5 : temp f32[1024] bytes(4096)\n  buffer b6 : temp f32[1024] bytes(4096)\n"   \
    "  buffer b7 : temp f32[1024] bytes(4096)\n  buffer b8 : temp f32[1024] bytes(4096)\n  buffer b9 : output f32[1024] bytes(4096)\n" \
    "  buffer b10 : input f32[1024] source 1\n  kernel k1 : object 0\n  input \"p\" : bool[] strides [] in b1\n"                       \
    "  input \"x\" : f32[1024] strides [1] in b10\n"
#define TAIL "  output tensor \"y\" : f32[1024] strides [1] in b9\n"

/* No two of `together` share a byte, and the workspace holds at most `most` buffers. */
static void check(const char *lines, const char *together, int64_t most) {
    hn_arena arena;
    hn_sym *sym;
    hn_wrapper *w = NULL;
    hn_memory_plan plan;
    hn_strbuf text;
    hn_arena_init(&arena);
    hn_strbuf_init(&text);
    hn_strbuf_printf(&text, "wrapper {\n%s}\n", lines);
    EXPECT_OK(hn_sym_create(&arena, &sym));
    EXPECT_OK(hn_wrapper_parse(&arena, sym, hn_strbuf_str(&text), &w));
    EXPECT_OK(hn_wrapper_verify(w));
    EXPECT_OK(hn_wrapper_plan(w, &plan));
    for (const char *a = together; *a; a++)
        for (const char *b = together; b < a; b++) {
            int64_t x = hn_sym_hint(sym, plan.offsets[*a - '0'], -1),
                    y = hn_sym_hint(sym, plan.offsets[*b - '0'], -1);
            if (x < y + BYTES && y < x + BYTES) HN_TEST_FAIL("b%c and b%c share memory", *a, *b);
        }
    EXPECT(hn_sym_hint(sym, plan.workspaces[HN_DEVICE_CPU], -1) <= most * BYTES);
    hn_strbuf_deinit(&text);
    hn_arena_deinit(&arena);
}

#define CALL(operands) "call k1(" operands ") extent(1)\n"
#define OUT(b)         "out " b " f32"
#define IN(b)          b " f32"

/* b2 is from before and is read at the end of a body: what the body makes until then lies
 * elsewhere. */
TEST(what_a_body_reads_from_outside) {
    check(HEAD CALL(OUT("b2")) "cond(b1 bool) {\n" CALL(OUT("b3")) CALL(IN("b3") ", " OUT("b4"))
              CALL(IN("b4") ", " IN("b2") ", " OUT("b9")) "} else {\n" CALL(OUT("b9")) "}\n" TAIL,
          "23", 3);
    check(HEAD CALL(OUT("b2")) "cond(b1 bool) {\n" CALL(OUT("b3")) CALL(IN("b3") ", " OUT("b4"))
              CALL(IN("b4") ", " IN("b2") ", " OUT("b9")) "} else {\n" CALL(OUT("b9")) "}\n" TAIL,
          "24", 3);
    check(HEAD CALL(OUT("b2")) "cond(b1 bool) {\n" CALL(OUT("b9")) "} else {\n" CALL(OUT("b3"))
              CALL(IN("b3") ", " OUT("b4")) CALL(IN("b4") ", " IN("b2") ", " OUT("b9")) "}\n" TAIL,
          "24", 3);
}

/* b4 is what both bodies make, first of all. */
TEST(what_both_bodies_make_for_later) {
    check(HEAD "cond(b1 bool) {\n" CALL(OUT("b4")) CALL(OUT("b5")) CALL(IN("b5") ", " OUT("b6"))
              CALL(IN("b6") ", " OUT("b5")) "} else {\n" CALL(OUT("b4")) CALL(OUT("b7"))
                  CALL(IN("b7") ", " OUT("b8"))
                      CALL(IN("b8") ", " OUT("b7")) "}\n" CALL(IN("b4") ", " OUT("b9")) TAIL,
          "456", 3);
    check(HEAD "cond(b1 bool) {\n" CALL(OUT("b4")) CALL(OUT("b5")) CALL(IN("b5") ", " OUT("b6"))
              CALL(IN("b6") ", " OUT("b5")) "} else {\n" CALL(OUT("b4")) CALL(OUT("b7"))
                  CALL(IN("b7") ", " OUT("b8"))
                      CALL(IN("b8") ", " OUT("b7")) "}\n" CALL(IN("b4") ", " OUT("b9")) TAIL,
          "478", 3);
}

/* Of an inner conditional. */
TEST(what_an_inner_body_reads_from_far_outside) {
    check(HEAD CALL(OUT("b2")) "cond(b1 bool) {\n" CALL(OUT("b3")) "cond(b1 bool) {\n" CALL(
              OUT("b5")) CALL(IN("b5") ", " OUT("b6"))
              CALL(IN("b6") ", " IN("b2") ", " IN("b3") ", " OUT("b9")) "} else {\n" CALL(
                  OUT("b9")) "}\n} else {\n" CALL(OUT("b9")) "}\n" TAIL,
          "2356", 4);
}

/* What changes an input is needed to the end, wherever it was made. */
TEST(what_leaves_from_a_body) {
    check(HEAD
          "cond(b1 bool) {\n" CALL(OUT("b4")) "} else {\n" CALL(OUT("b4")) "}\n" CALL(OUT("b5"))
              CALL(IN("b5") ", " OUT("b9")) TAIL
          "  output mutation \"x\" target 1 : f32[1024] strides [1] in b4\n",
          "45", 2);
}

TEST_MAIN
