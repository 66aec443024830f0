/* test_cpu_in_place.c: which arguments of a kernel may share memory: what the forms prove, and what
 * they must not claim. */
#include "codegen/codegen.h"
#include "kernel/cpu.h"
#include "unit/harness.h"

enum { BUFFERS_MAX = 8 };

/* "b3/b1 b3/b2": b3 may be where b1 or b2 is. */
static void list_claims(const hn_cpu_plan *plan, hn_strbuf *out) {
    hn_buf buffers[BUFFERS_MAX];
    uint64_t over[BUFFERS_MAX] = {0};
    uint32_t count = 0;
    for (uint32_t k = 0; k < plan->bases.count; k++) /* in order of buffers */
        if (!count || buffers[count - 1] != plan->bases.items[k].buffer)
            buffers[count++] = plan->bases.items[k].buffer;
    hn_cpu_in_place(plan, buffers, count, over);
    for (uint32_t b = 0; b < count; b++)
        for (uint32_t a = 0; a < count; a++)
            if (over[b] >> a & 1)
                hn_strbuf_printf(out, "%sb%u/b%u", out->len ? " " : "", buffers[b], buffers[a]);
}

/* The claims of the only kernel of a program. */
static void check(const char *body, const char *expected) {
    hn_arena arena, scratch;
    hn_sym *sym;
    hn_program *p;
    hn_cpu_plan *plan;
    hn_schedule schedule = {0};
    hn_target host = hn_target_host();
    hn_strbuf text, claims;
    hn_arena_init(&arena);
    hn_arena_init(&scratch);
    hn_strbuf_init(&text);
    hn_strbuf_init(&claims);
    hn_strbuf_printf(&text, "program {\n%s\n}\n", body);
    EXPECT_OK(hn_sym_create(&arena, &sym));
    EXPECT_OK(hn_program_parse(&arena, sym, hn_strbuf_str(&text), &p));
    EXPECT(p->buffers.count <= BUFFERS_MAX);
    EXPECT_OK(hn_schedule_program(p, &(hn_sched_options){.threads = 2, .limits = host.kind->limits},
                                  &arena, &scratch, &schedule));
    EXPECT_INT(schedule.steps.count, 1);
    EXPECT_OK(hn_cpu_plan_create(p, schedule.steps.items[0].kernel, 32, &hn_cpu_facts_common,
                                 &arena, &plan));
    list_claims(plan, &claims);
    EXPECT_STR(claims.ptr ? claims.ptr : "", expected);
    hn_strbuf_deinit(&claims);
    hn_strbuf_deinit(&text);
    hn_arena_deinit(&scratch);
    hn_arena_deinit(&arena);
}

TEST(element_by_element) {
    check(
        "b1 : input 0 f32[7, 5]\n b2 : input 1 f32[7, 5]\n b3 : output f32[7, 5] extent 35\n"
        "pointwise (i0 < 7, i1 < 5;) { %1 = b1[5*i0 + i1] : f32 %2 = b2[5*i0 + i1] : f32 %3 = add(%1, %2) : f32 b3[5*i0 + i1] = %3 }",
        "b3/b1 b3/b2");
}

TEST(sizes_that_are_symbols) {
    check(
        "symbol size s0 in [1, 64] hint 8\n symbol size s1 in [1, 64] hint 8\n"
        "b1 : input 0 f32[s0, s1]\n b2 : input 1 f32[s1]\n b3 : output f32[s0, s1] extent s0*s1\n"
        "pointwise (i0 < s0, i1 < s1;) { %1 = b1[s1*i0 + i1] : f32 %2 = b2[i1] : f32 %3 = add(%1, %2) : f32 b3[s1*i0 + i1] = %3 }",
        "b3/b1");
}

TEST(other_elements) {
    /* another order of the dimensions: a tile */
    check(
        "b1 : input 0 f32[64, 64]\n b2 : output f32[64, 64] extent 4096\n"
        "pointwise (i0 < 64, i1 < 64;) { %1 = b1[64*i1 + i0] : f32 %2 = exp(%1) : f32 b2[64*i0 + i1] = %2 }",
        "");
    /* a square too small for one */
    check(
        "b1 : input 0 f32[4, 4]\n b2 : output f32[4, 4] extent 16\n"
        "pointwise (i0 < 4, i1 < 4;) { %1 = b1[4*i1 + i0] : f32 %2 = exp(%1) : f32 b2[4*i0 + i1] = %2 }",
        "");
    /* the next element, the same one backwards, a row for all */
    check("b1 : input 0 f32[9]\n b2 : output f32[8] extent 8\n"
          "pointwise (i0 < 8;) { %1 = b1[i0 + 1] : f32 %2 = exp(%1) : f32 b2[i0] = %2 }",
          "");
    check("b1 : input 0 f32[8]\n b2 : output f32[8] extent 8\n"
          "pointwise (i0 < 8;) { %1 = b1[7 - i0] : f32 %2 = exp(%1) : f32 b2[i0] = %2 }",
          "");
    check("b1 : input 0 f32[8]\n b2 : output f32[3, 8] extent 24\n"
          "pointwise (i0 < 3, i1 < 8;) { %1 = b1[i1] : f32 %2 = exp(%1) : f32 b2[8*i0 + i1] = %2 }",
          "");
    /* the right element, and one more */
    check(
        "b1 : input 0 f32[9]\n b2 : output f32[8] extent 8\n"
        "pointwise (i0 < 8;) { %1 = b1[i0 + 1] : f32 %2 = b1[i0] : f32 %3 = add(%1, %2) : f32 b2[i0] = %3 }",
        "");
    /* a table: the element is found by data */
    check(
        "b1 : input 0 f32[8]\n b2 : input 1 i64[8]\n b3 : output f32[8] extent 8\n"
        "pointwise (i0 < 8;) { %1 = b2[i0] : i64 %2 = t0 := check(%1 < 8) : i64 %3 = b1[t0] : f32 b3[i0] = %3 }",
        "");
}

/* Points that share an element: the second one would read what the first one wrote. */
#define WALK(sizes, index)                                                                         \
    "b1 : input 0 f32[512]\n b2 : output f32[512] extent 512\n"                                    \
    "pointwise (" sizes ";) { %1 = b1[" index "] : f32 %2 = exp(%1) : f32 b2[" index "] = %2 }"

TEST(points_that_share_an_element) {
    check(WALK("i0 < 4, i1 < 3", "3*i0 + i1"), "b2/b1");
    check(WALK("i0 < 4, i1 < 3", "5*i0 + i1"), "b2/b1"); /* gaps are none of its business */
    check(WALK("i0 < 4, i1 < 3", "2*i0 + i1"), "");
    check(WALK("i0 < 4, i1 < 3", "i0 + i1"), "");
    check(WALK("i0 < 4, i1 < 3", "i0"), "");
    check(WALK("i0 < 2, i1 < 2, i2 < 3", "6*i0 + 3*i1 + i2"), "b2/b1");
    /* apart two by two, but not all three */
    check(WALK("i0 < 2, i1 < 2, i2 < 3", "5*i0 + 3*i1 + i2"), "");
    /* would be; backwards is not looked into */
    check(WALK("i0 < 4, i1 < 3", "21 - 3*i0 + i1"), "");
}

TEST(other_types) {
    check("b1 : input 0 f32[8]\n b2 : output f64[8] extent 8\n"
          "pointwise (i0 < 8;) { %1 = b1[i0] : f32 %2 = cast(%1) : f64 b2[i0] = %2 }",
          "");
    check("b1 : input 0 i32[8]\n b2 : output f32[8] extent 8\n"
          "pointwise (i0 < 8;) { %1 = b1[i0] : i32 %2 = cast(%1) : f32 b2[i0] = %2 }",
          "");
}

/* softmax: three passes over a row, the last one writes */
TEST(rows_that_are_read_first) {
    check(
        "b1 : input 0 f32[6, 40]\n b2 : temp f32[6] extent 6\n b3 : temp f32[6] extent 6\n b4 : output f32[6, 40] extent 240\n"
        "reduce amax (i0 < 6; i1 < 40) { %1 = b1[40*i0 + i1] : f32 b2[i0] = %1 }\n"
        "reduce sum (i0 < 6; i1 < 40) { %1 = b1[40*i0 + i1] : f32 %2 = b2[i0] : f32 %3 = sub(%1, %2) : f32 %4 = exp(%3) : f32 b3[i0] = %4 }\n"
        "pointwise (i0 < 6, i1 < 40;) { %1 = b1[40*i0 + i1] : f32 %2 = b2[i0] : f32 %3 = sub(%1, %2) : f32 %4 = exp(%3) : f32\n"
        "  %5 = b3[i0] : f32 %6 = div(%4, %5) : f32 b4[40*i0 + i1] = %6 }",
        "b4/b1");
}

/* Lanes are columns: the sum is stored where an addend was, but not where the matrix begins. */
TEST(sums_of_columns) {
    check(
        "b1 : input 0 f32[40, 24]\n b2 : input 1 f32[24]\n b3 : temp f32[24] extent 24\n b4 : output f32[24] extent 24\n"
        "reduce sum (i0 < 24; i1 < 40) { %1 = b1[24*i1 + i0] : f32 b3[i0] = %1 }\n"
        "pointwise (i0 < 24;) { %1 = b2[i0] : f32 %2 = b3[i0] : f32 %3 = add(%1, %2) : f32 b4[i0] = %3 }",
        "b4/b2");
}

/* A row is written, and what it was made of is read again for the sum: too late. */
TEST(a_later_pass_reads_again) {
    check(
        "b1 : input 0 f32[6, 70000]\n b2 : output f32[6, 70000] extent 420000\n b3 : temp f32[6] extent 6\n b4 : output f32[6, 70000] extent 420000\n"
        "pointwise (i0 < 6, i1 < 70000;) { %1 = b1[70000*i0 + i1] : f32 %2 = neg(%1) : f32 b2[70000*i0 + i1] = %2 }\n"
        "reduce sum (i0 < 6; i1 < 70000) { %1 = b2[70000*i0 + i1] : f32 b3[i0] = %1 }\n"
        "pointwise (i0 < 6, i1 < 70000;) { %1 = b1[70000*i0 + i1] : f32 %2 = b3[i0] : f32 %3 = sub(%1, %2) : f32 b4[70000*i0 + i1] = %3 }",
        "b4/b1");
}

TEST(orders_of_their_own) {
    check("b1 : input 0 f32[6, 40]\n b2 : output f32[6, 40] extent 240\n"
          "scan cumsum (i0 < 6; i1 < 40) { %1 = b1[40*i0 + i1] : f32 b2[40*i0 + i1] = %1 }",
          "");
    check(
        "b1 : input 0 f32[8]\n b2 : input 1 i64[8]\n b3 : output f32[8] extent 8\n"
        "scatter (i0 < 8;) { %1 = b2[i0] : i64 %2 = t0 := check(%1 < 8) : i64 %3 = b1[i0] : f32 b3[t0] = %3 }",
        "");
}

/* Two results, and what is read in part of the kernel only. */
TEST(several_results) {
    check(
        "b1 : input 0 f32[6, 8]\n b2 : input 1 f32[6, 8]\n b3 : output f32[6, 8] extent 48\n b4 : output f32[6, 8] extent 48\n"
        "pointwise (i0 < 6, i1 < 8;) { %1 = b1[8*i0 + i1] : f32 %2 = neg(%1) : f32 b3[8*i0 + i1] = %2 }\n"
        "pointwise (i0 < 6, i1 < 8;) { %1 = b1[8*i0 + i1] : f32 %2 = b2[8*i0 + i1] : f32 %3 = mul(%1, %2) : f32 b4[8*i0 + i1] = %3 }",
        "b3/b1 b3/b2 b4/b1 b4/b2");
}

TEST_MAIN
