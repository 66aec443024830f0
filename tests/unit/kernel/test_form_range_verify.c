/* test_form_range_verify.c: what the verifier refuses in forms of ranges, and what is set of the
 * lanes of values and stores. */
#include "base/compiler.h"
#include "form_fixture.h"

/* --- what is refused --- */

typedef struct refusal {
    const char *text, *message;
} refusal;

static const char range[] = "form (range i64 to i65 of s0; lanes 4; grain 1) {\n";

static void expect_refused(const char *before, const refusal *list, size_t count) {
    for (size_t k = 0; k < count; k++) {
        fixture x;
        hn_form *f;
        char text[2048];
        EXPECT_OK(fixture_init(&x));
        snprintf(text, sizeof text, "%s%s", before, list[k].text);
        hn_status status = hn_form_parse(x.program, &x.arena, hn_str_of(text), &f);
        EXPECT_ERROR(status, HN_INVALID_ARGUMENT, list[k].message);
        fixture_deinit(&x);
    }
}

#define EXPECT_REFUSED(before, list) expect_refused((before), (list), HN_COUNT_OF(list))

TEST(wrong_headers_of_ranges_are_refused) {
    static const refusal list[] = {
        {"form (range i64 to i65 of s0; lanes 0; grain 1) {}", "a vector has no lanes"},
        {"form (range i64 to i65 of s0; lanes 4; grain 0) {}", "the grain is not above 0"},
        {"form (range i65 to i64 of s0; lanes 4; grain 1) {}", "a range goes from i64 to i65"},
        {"form (range i64 to i65 of i64; lanes 4; grain 1) {}", "unknown symbol"},
        {"form (range i64 of s0; lanes 4; grain 1) {}", "expected 'to'"},
        {"form (range i64 to i65 of s0; lanes 4) {}", "expected ';'"},
    };
    EXPECT_REFUSED("", list);
}

TEST(wrong_marks_are_refused) {
    static const refusal list[] = {
        {"m1 : shared f32[4] stale }", "it is stale, but no scratch memory"},
        {"m1 : argument b2 f32 padded }", "it is padded, but an argument"},
        {"m1 : argument b1 f32 m2 : argument b1 f32 over m1 }",
         "it lies over an argument, but is none that is written"},
        {"m1 : argument b2 f32 write over m1 %1 = const 1.0 : f32 m1[0] = %1 }",
         "it lies over itself"},
        {"m1 : argument b2 f32 write over m2 }", "it is no argument"},
        {"m1 : argument b2 f32 write over m2 m2 : shared f32[4] }", "it is no argument"},
        {"r1 : sum f32 loses_nan }", "it loses a NaN, but is no amax of f32"},
        {"r1 : amax f64 loses_nan }", "it loses a NaN, but is no amax of f32"},
        {"r1 : sum f32 across }", "it is marked as across, but nothing combines its lanes"},
        {"r1 : sum f32 init r1 across r1 }",
         "its lanes are combined, but it is not marked as across"},
        {"r1 : sum f32 across across r1 }", "r1 is not initialised here"},
    };
    EXPECT_REFUSED(range, list);
}

TEST(statements_in_the_wrong_place_are_refused) {
    static const refusal list[] = {
        {"barrier }", "statement 1: a 'barrier' outside of lanes"},
        {"vector { } }", "statement 1: a 'vector' outside of lanes"},
        {"lanes i66 in [0, s0) masked { lanes i67 in [0, s0) masked { } } }",
         "statement 2: a 'lanes' in lanes, but in no vector"},
        {"lanes i66 in [0, s0) masked { for i68 in [0, 2) { lanes i67 in [0, s0) masked { } } } }",
         "statement 3: a 'lanes' in lanes, but in no vector"},
        {"lanes i66 in [0, s0) masked { %2 = const 1.0 : f32 } }",
         "statement 2: a 'value' in lanes, but in no vector"},
        {"lanes i66 in [0, s0) masked { vector { for i67 in [0, 2) { } } } }",
         "statement 3: a 'for' in a vector"},
        {"lanes i66 in [0, s0) masked { vector { if 0 < 1 { } } } }",
         "statement 3: a 'if' in a vector"},
        {"lanes i66 in [0, s0) masked { vector { let i67 < 3 = 1 } } }",
         "statement 3: a 'let' in a vector"},
        {"lanes i66 in [0, s0) masked { vector { block { } } } }",
         "statement 3: a 'block' in a vector"},
        {"lanes i66 in [0, s0) masked { vector { vector { } } } }",
         "statement 3: a 'vector' in a vector"},
        {"r1 : sum f32 lanes i66 in [0, s0) masked { vector { init r1 } } }",
         "statement 3: a 'init' in a vector"},
        {"r1 : sum f32 across init r1 lanes i66 in [0, s0) masked { across r1 } }",
         "statement 3: a 'across' in lanes, but in no vector"},
        {"m1 : argument b2 f32 lanes i66 in [0, s0) masked { if aligned m1 { } } }",
         "statement 2: a 'aligned' in lanes, but in no vector"},
        {"m1 : shared f32[4] if aligned m1 { } }", "statement 1: m1 is no argument"},
    };
    static const refusal groups[] = {
        {"lanes i66 in [0, s0) masked { } }", "statement 1: a 'lanes' in a form of groups"},
        {"r1 : sum f32 init r1 across r1 }",
         "statement 2: a row whose width or pitch is no power of two"},
        {"m1 : argument b2 f32 prefetch m1[0] }", "statement 1: a 'prefetch' in a form of groups"},
        {"%1 = index(0) : i32 }", "statement 1: an index that is no i64"},
    };
    EXPECT_REFUSED(range, list);
    EXPECT_REFUSED("form (group i64 < s0; thread i65 < 4) {\n", groups);
}

TEST(wrong_lanes_are_refused) {
    static const refusal list[] = {
        {"lanes i66 in [0, s0) { } }", "it has no steps"},
        {"lanes i66 in [0, s0) unroll 0 whole { } }", "a step has no vectors"},
        {"lanes i66 in [0, s0) whole single { } }",
         "whole steps of one vector leave nothing to single ones"},
        {"lanes i66 in [0, s0) unroll 2 single masked { } }", "no step has 2 vectors"},
        {"lanes i66 in [0, s0) unroll 2 single masked_step { } }",
         "one step leaves nothing to single vectors"},
        {"lanes i66 in [0, i67) masked { } }", "unknown symbol"},
        {"lanes i66 in [0, s0) masked { for i67 in [i66, 4) { } } }",
         "statement 2: the beginning uses i66, which is not defined here"},
        {"lanes i66 in [0, s0) masked { for i66 in [0, 4) { } } }",
         "statement 2: i66 is defined already"},
        {"for i66 in [0, s0) { lanes i66 in [0, s0) masked { vector { } } } }",
         "statement 3: i66 is defined already"},
        {"lanes i66 in [0, s0) masked { vector { } } %3 = index(i66) : i64 }",
         "statement 3: the index uses i66, which is not defined here"},
        {"lanes i66 in [0, s0) masked { vector { %3 = index(i66) : i64 } "
         "vector { %5 = cast(%3) : f32 } } }",
         "statement 5: its argument %3 is not defined here"},
        {"m1 : argument b4 i64 read lanes i66 in [0, s0) masked { vector { %3 = m1[i66] : i64 "
         "%4 = t0 := check(%3 < s0) : i64 } vector { %6 = index(t0) : i64 } } }",
         "statement 6: the index uses t0, which is not defined here"},
        {"r1 : sum f32 %1 = const 1.0 : f32 set r1 %1 }",
         "statement 2: r1 is not initialised here"},
    };
    EXPECT_REFUSED(range, list);
}

TEST(wrong_attributes_are_refused) {
    static const refusal list[] = {
        {"%1 = const 1.0 : f32 %2 = add(%1, %1) : f32 rounded }", "it is rounded, but no product"},
        {"%1 = const 1 : i64 %2 = mul(%1, %1) : i64 rounded }", "it is rounded, but no product"},
        {"%1 = const 1.0 : f32 %2 = log(%1) : f32 not_positive }",
         "its argument is not positive, but it is no exp"},
        {"%1 = const 1.0 : f32 quiet }", "it is quiet, but no checked index"},
        {"m1 : argument b2 f32 write %1 = const 1.0 : f32 m1[0] = %1 in_order }",
         "a store in order outside of a vector"},
        {"m1 : argument b2 f32 write %1 = const 1.0 : f32 m1[0] = %1 streams }",
         "a store that streams or is aligned, but is no whole vector"},
        {"m1 : argument b2 f32 write lanes i66 in [0, s0) masked { vector { "
         "%3 = const 1.0 : f32 m1[2*i66] = %3 aligned } } }",
         "a store that streams or is aligned, but is no whole vector"},
        {"m1 : argument b2 f32 write lanes i66 in [0, s0) masked { vector { "
         "%3 = const 1.0 : f32 m1[i66] = %3 streams in_order } } }",
         "a store that streams or is aligned, but is no whole vector"},
        {"m1 : shared f32[4] write lanes i66 in [0, s0) masked { vector { "
         "%3 = const 1.0 : f32 m1[i66] = %3 streams } } }",
         "a store that streams to a memory that is no argument"},
        {"m1 : argument b2 f32 read write %1 = const 1.0 : f32 m1[0] += %1 }",
         "a store that combines in a form of more than one thread"},
        {"m1 : argument b2 f32 prefetch m1[0] every 2 }", "there is one vector that could ask"},
        {"m1 : argument b2 f32 lanes i66 in [0, s0) masked { vector { "
         "prefetch m1[0] every 0 } } }",
         "no vector asks"},
        {"m1 : argument b2 f32 read prefetch m1[0] }",
         "it is marked as read, but nothing reads it"},
    };
    static const refusal alone[] = {
        {"m1 : argument b2 f32 read write lanes i66 in [0, s0) overlapping { vector { "
         "%3 = const 1.0 : f32 m1[i66] += %3 } } }",
         "a store that combines in lanes that overlap"},
    };
    EXPECT_REFUSED(range, list);
    EXPECT_REFUSED("form (range i64 to i65 of 1; lanes 4; grain 1) {\n", alone);
}

TEST(wrong_transposes_are_refused) {
    static const char memories[] = "form (range i64 to i65 of s0; lanes 4; grain 1) {\n"
                                   "m1 : argument b1 f32 read\n"
                                   "m2 : shared f32[64] write\n"
                                   "m3 : shared f64[64]\n";
    static const refusal list[] = {
        {"transpose m3[0] pitch 8 = m1[0] stride s1, rows 8, columns 8 }",
         "m3 has another dtype than m1"},
        {"transpose m2[0] pitch 0 = m1[0] stride s1, rows 8, columns 8 }",
         "the pitch is not above 0"},
        {"transpose m2[0] pitch 8 = m2[0] stride s1, rows 8, columns 8 }",
         "m2 is transposed into itself"},
        {"transpose m2[0] pitch 8 = m4[0] stride s1, rows 8, columns 8 }",
         "the memory is not declared"},
        {"transpose m2[0] pitch 8 = m1[0] stride s1 rows 8, columns 8 }",
         "cannot parse expression"},
        {"for i66 in [0, 8) { } transpose m2[0] pitch 8 = m1[0] stride s1, rows i66, columns 8 }",
         "the number of rows uses i66, which is not defined here"},
    };
    EXPECT_REFUSED(memories, list);
}

/* Broken by hand, in what no text can say. */
TEST(broken_ranges_are_refused) {
    static const char *const messages[] = {
        "a range is not run by one thread",
        "first or until is no index symbol up to the number of iterations",
        "ranges, but the numbers of a group",
        "what it transposes is missing",
        "no kind of rest",
        "it streams, is aligned or in order, but is no store",
        "what it defines is no index symbol",
        "ranges are on no multiprocessor",
    };
    for (size_t k = 0; k < HN_COUNT_OF(messages); k++) {
        fixture x;
        hn_form *f;
        EXPECT_OK(fixture_init(&x));
        EXPECT_OK(hn_form_create_range(x.program, &x.arena, 4, x.rows, &f));
        hn_expr lane = hn_form_symbol(f, x.rows);
        hn_form_lanes_in(f, lane, f->first, f->until, 1, (hn_form_lanes){.single = true});
        hn_form_close(f);
        EXPECT_OK(hn_form_end(f));
        hn_form_stmt *stmt = &f->stmts.items[1];
        if (k == 0) f->threads = 2;
        if (k == 1) f->until = lane;
        if (k == 2) f->thread = lane;
        if (k == 3) *stmt = (hn_form_stmt){.kind = HN_FORM_TRANSPOSE};
        if (k == 4) stmt->lanes.rest = (hn_form_rest)(HN_FORM_REST_MASKED_STEP + 1);
        if (k == 5) stmt->in_order = true;
        if (k == 6) stmt->var = x.rows;
        if (k == 7) f->resident = 2;
        EXPECT_ERROR(hn_form_verify(f), HN_INTERNAL, messages[k]);
        fixture_deinit(&x);
    }
}

/* --- what differs from lane to lane --- */

typedef struct expected_facts {
    hn_fid s;
    bool varies;
    hn_access access;
    const char *stride; /* NULL: none */
    bool clamped;
} expected_facts;

static void expect_stride(const hn_form *f, hn_expr stride, const char *text) {
    hn_strbuf out;
    hn_strbuf_init(&out);
    hn_sym_print(f->sym, stride, &out);
    EXPECT_STR(out.ptr, text);
    hn_strbuf_deinit(&out);
}

static void expect_facts(const char *text, const expected_facts *list, size_t count) {
    fixture x;
    hn_form *f = NULL;
    char whole[2048];
    EXPECT_OK(fixture_init(&x));
    snprintf(whole, sizeof whole, "%s%s", range, text);
    EXPECT_OK(hn_form_parse(x.program, &x.arena, hn_str_of(whole), &f));
    for (size_t k = 0; f && k < count; k++) {
        const hn_form_lane_facts *facts = &f->stmts.items[list[k].s].in_lanes;
        EXPECT_INT(facts->varies, list[k].varies);
        EXPECT_INT(facts->access, list[k].access);
        EXPECT_INT(facts->clamp != NULL, list[k].clamped);
        if (list[k].stride) expect_stride(f, facts->stride, list[k].stride);
    }
    fixture_deinit(&x);
}

#define EXPECT_FACTS(text, list) expect_facts((text), (list), HN_COUNT_OF(list))

TEST(indices_move_over_lanes) {
    static const expected_facts list[] = {
        {3, false, HN_ACCESS_UNIFORM, NULL, false},    {4, true, HN_ACCESS_CONTIGUOUS, "1", false},
        {5, true, HN_ACCESS_STRIDED, "s1", false},     {6, true, HN_ACCESS_STRIDED, "-1", false},
        {7, true, HN_ACCESS_GATHER, NULL, false},      {8, true, HN_ACCESS_GATHER, NULL, true},
        {9, true, HN_ACCESS_GATHER, NULL, false}, /* two clamps */
        {10, true, HN_ACCESS_CONTIGUOUS, "1", false},  {11, true, HN_ACCESS_UNIFORM, NULL, false},
        {12, false, HN_ACCESS_CONTIGUOUS, "1", false}, {13, false, HN_ACCESS_STRIDED, "2", false},
    };
    EXPECT_FACTS("m1 : argument b1 f32 read\n"
                 "m2 : argument b5 f32 write\n"
                 "lanes i66 in [0, s0) unroll 2 whole single masked {\n"
                 "  vector {\n"
                 "    %3 = m1[s1 - 1] : f32\n"
                 "    %4 = m1[i66 + 3] : f32\n"
                 "    %5 = m1[s1*i66] : f32\n"
                 "    %6 = m1[s0 - i66] : f32\n"
                 "    %7 = m1[i66//2] : f32\n"
                 "    %8 = m1[Max(0, Min(s0 - 2, i66 - 1)) + 1] : f32\n"
                 "    %9 = m1[Max(0, i66 - 1) + Min(5, i66)] : f32\n"
                 "    %10 = index(i66) : i64\n"
                 "    %11 = add(%4, %3) : f32\n"
                 "    m2[i66] = %11\n"
                 "    m2[2*i66] = %11\n"
                 "  }\n"
                 "}\n"
                 "}\n",
                 list);
}

TEST(checked_indices_vary_with_what_they_are) {
    static const expected_facts list[] = {
        {5, true, HN_ACCESS_UNIFORM, NULL, false},   {6, true, HN_ACCESS_GATHER, NULL, false},
        {7, true, HN_ACCESS_GATHER, NULL, false},    {8, false, HN_ACCESS_UNIFORM, NULL, false},
        {9, true, HN_ACCESS_CONTIGUOUS, "1", false}, {10, false, HN_ACCESS_GATHER, NULL, false},
    };
    EXPECT_FACTS("m1 : argument b4 i64 read\n"
                 "m2 : argument b1 f32 read\n"
                 "m3 : argument b5 f32 write\n"
                 "%1 = m1[0] : i64\n"
                 "lanes i66 in [0, s0) masked {\n"
                 "  vector {\n"
                 "    %4 = m1[i66] : i64\n"
                 "    %5 = t0 := check(%4 < s0) : i64\n"
                 "    %6 = m2[t0] : f32\n"
                 "    %7 = m2[i66 + t0] : f32\n"
                 "    %8 = t1 := check(%1 < s0) : i64\n"
                 "    %9 = m2[i66 + t1] : f32\n"
                 "    m3[s1*t0] = %9 in_order\n"
                 "  }\n"
                 "}\n"
                 "}\n",
                 list);
}

/* r1 is worked on before the second LANES, r2 in it. */
TEST(results_vary_where_their_register_is_worked_on) {
    static const expected_facts before[] = {{9, false, HN_ACCESS_UNIFORM, NULL, false}};
    static const expected_facts list[] = {{9, false, HN_ACCESS_UNIFORM, NULL, false},
                                          {10, true, HN_ACCESS_UNIFORM, NULL, false},
                                          {11, true, HN_ACCESS_UNIFORM, NULL, false}};
    EXPECT_FACTS("m1 : argument b1 f32 read\n"
                 "r1 : sum f32 across\n"
                 "init r1\n"
                 "lanes i66 in [0, s0) masked {\n"
                 "  vector {\n"
                 "    %4 = m1[i66] : f32\n"
                 "    step r1 %4\n"
                 "  }\n"
                 "}\n"
                 "across r1\n"
                 "lanes i66 in [0, s0) masked {\n"
                 "  vector {\n"
                 "    %9 = result r1 : f32\n"
                 "  }\n"
                 "}\n"
                 "}\n",
                 before);
    EXPECT_FACTS("m1 : argument b1 f32 read\n"
                 "m2 : argument b5 f32 write\n"
                 "r1 : sum f32\n"
                 "r2 : sum f32\n"
                 "init r1\n"
                 "lanes i66 in [0, s0) masked {\n"
                 "  init r2\n"
                 "  for i67 in [0, 4) {\n"
                 "    vector {\n"
                 "      %6 = m1[i66 + s1*i67] : f32\n"
                 "      step r2 %6\n"
                 "    }\n"
                 "  }\n"
                 "  vector {\n"
                 "    %9 = result r1 : f32\n"
                 "    %10 = result r2 : f32\n"
                 "    %11 = add(%9, %10) : f32\n"
                 "    m2[i66] = %11\n"
                 "  }\n"
                 "}\n"
                 "}\n",
                 list);
}

TEST_MAIN
