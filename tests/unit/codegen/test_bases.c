/* test_bases.c: from where in its buffers a kernel counts: slices that differ in their beginning
 * share a text, and no argument points beyond its buffer. */
#include "codegen/c/c.h"
#include "unit/harness.h"

typedef struct printed {
    hn_arena arena, scratch;
    hn_sym *sym;
    hn_kernel_code kernel;
    hn_strbuf arguments; /* "b1+32 b2" */
} printed;

/* The only kernel of a program. */
static void print_body(const char *body, printed *out) {
    hn_program *p;
    hn_schedule schedule = {0};
    hn_target target;
    hn_strbuf text;
    hn_arena_init(&out->arena);
    hn_arena_init(&out->scratch);
    hn_strbuf_init(&text);
    hn_strbuf_init(&out->arguments);
    hn_strbuf_printf(&text, "program {\n%s\n}\n", body);
    EXPECT_OK(hn_target_named(HN_STR("x86-64-v3"), &target));
    EXPECT_OK(hn_sym_create(&out->arena, &out->sym));
    EXPECT_OK(hn_program_parse(&out->arena, out->sym, hn_strbuf_str(&text), &p));
    EXPECT_OK(hn_schedule_program(
        p, &(hn_sched_options){.threads = 2, .limits = hn_target_host().kind->limits}, &out->arena,
        &out->scratch, &schedule));
    EXPECT_INT(schedule.steps.count, 1);
    EXPECT_OK(hn_target_print(&target, p, schedule.steps.items[0].kernel, &out->arena,
                              &out->scratch, &out->kernel));
    for (uint32_t k = 0; k < out->kernel.buffer_count; k++) {
        hn_strbuf_printf(&out->arguments, "%sb%u", k ? " " : "", out->kernel.buffers[k]);
        if (!out->kernel.offsets[k]) continue;
        hn_strbuf_putc(&out->arguments, '+');
        hn_sym_print(out->sym, out->kernel.offsets[k], &out->arguments);
    }
    hn_strbuf_deinit(&text);
}

static void drop(printed *p) {
    hn_strbuf_deinit(&p->arguments);
    hn_arena_deinit(&p->scratch);
    hn_arena_deinit(&p->arena);
}

static void check_arguments(const char *body, const char *expected) {
    printed p;
    print_body(body, &p);
    EXPECT_STR(p.arguments.ptr ? p.arguments.ptr : "", expected);
    drop(&p);
}

static void check_same(const char *one, const char *other, bool same) {
    printed a, b;
    print_body(one, &a);
    print_body(other, &b);
    EXPECT_INT(memcmp(&a.kernel.digest, &b.kernel.digest, sizeof a.kernel.digest) == 0, same);
    drop(&a);
    drop(&b);
}

#define STEP(from, to)                                                                             \
    "b1 : input 0 f32[4, 100, 32]\n b2 : output f32[4, 100, 32] extent 12800\n"                    \
    "pointwise (i0 < 4, i1 < 32;) { %1 = b1[3200*i0 + i1 + " #from                                 \
    "] : f32 %2 = tanh(%1) : f32 b2[3200*i0 + i1 + " #to "] = %2 }"

TEST(slices_share_a_text) {
    check_arguments(STEP(96, 32), "b1+96 b2+32");
    check_same(STEP(96, 32), STEP(3168, 3), true);
    check_same(STEP(96, 32), STEP(0, 0), true);
}

#define PAIR(one, other)                                                                           \
    "b1 : input 0 f32[4, 6400]\n b2 : output f32[4, 32] extent 128\n"                              \
    "pointwise (i0 < 4, i1 < 32;) { %1 = b1[6400*i0 + i1 + " #one                                  \
    "] : f32 %2 = b1[6400*i0 + i1 + " #other "] : f32 "                                            \
    "%3 = add(%1, %2) : f32 b2[32*i0 + i1] = %3 }"

/* Accesses that are near keep their distance in the text; those far apart have arguments of their
 * own, in order of use. */
TEST(distances) {
    check_arguments(PAIR(64, 72), "b1+64 b2");
    check_arguments(PAIR(640, 1280), "b1+640 b1+1280 b2");
    check_same(PAIR(640, 1280), PAIR(4000, 320), true);
    check_same(PAIR(64, 72), PAIR(640, 648), true);
    check_same(PAIR(64, 72), PAIR(64, 73), false);
}

TEST(sizes_that_are_symbols) {
#define BATCH(t)                                                                                               \
    "symbol size s0 in [1, 64] hint 8\n b1 : input 0 f32[10, s0, 16]\n b2 : output f32[s0, 16] extent 16*s0\n" \
    "pointwise (i0 < s0, i1 < 16;) { %1 = b1[" #t                                                              \
    "*s0 + 16*i0 + i1] : f32 %2 = tanh(%1) : f32 b2[16*i0 + i1] = %2 }"
    check_arguments(BATCH(32), "b1+32*s0 b2");
    check_same(BATCH(32), BATCH(144), true);
}

/* An argument is never before its buffer, nor behind its end for any value of a symbol. */
TEST(reach) {
    check_arguments(
        "symbol size s0 in [0, 64] hint 8\n b1 : input 0 f32[s0]\n b2 : output f32[s0] extent s0\n"
        "pointwise (i0 < s0;) { %1 = b1[s0 - i0 - 1] : f32 %2 = tanh(%1) : f32 b2[i0] = %2 }",
        "b1 b2");
    check_arguments("b1 : input 0 f32[9]\n b2 : output f32[8] extent 8\n"
                    "pointwise (i0 < 8;) { %1 = b1[7 - i0] : f32 %2 = exp(%1) : f32 b2[i0] = %2 }",
                    "b1+7 b2");
    check_arguments(
        "b1 : input 0 f32[9]\n b2 : output f32[8] extent 8\n"
        "pointwise (i0 < 8;) { %1 = b1[Max(i0, 3) - 3] : f32 %2 = exp(%1) : f32 b2[i0] = %2 }",
        "b1 b2");
}

/* Terms stand in the order of their text, and not in that in which they were first met. */
TEST(order_of_terms) {
#define SLIDING(terms)                                                                             \
    "symbol size s0 in [1, 64] hint 8\n b1 : input 0 f32[100, s0]\n"                               \
    "b2 : output f32[8, 9, s0] extent 72*s0\n"                                                     \
    "pointwise (i0 < 8, i1 < 9, i2 < s0;) { %1 = b1[" terms " + i2] : f32 %2 = tanh(%1) : f32\n"   \
    "b2[9*s0*i0 + s0*i1 + i2] = %2 }"
    check_same(SLIDING("2*s0*i0 + 3*s0*i1"), SLIDING("3*s0*i1 + 2*s0*i0"), true);
}

TEST_MAIN
