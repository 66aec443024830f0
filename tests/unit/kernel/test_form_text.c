/* test_form_text.c: forms written by hand verify, and come back from their text; what is wrong in a
 * text is refused with line and column. */
#include "base/file.h"
#include "unit/kernel/form_fixture.h"

static hn_status print_again(hn_str text, hn_strbuf *out) {
    fixture x;
    hn_form *f;
    hn_status status = fixture_init(&x);
    if (!status) status = hn_form_parse(x.program, &x.arena, text, &f);
    if (!status) status = hn_form_verify(f);
    if (!status) hn_form_print(f, out);
    fixture_deinit(&x);
    return status;
}

static void expect_printed(const char *text, const char *expected) {
    hn_strbuf again;
    hn_strbuf_init(&again);
    EXPECT_OK(print_again(hn_str_of(text), &again));
    EXPECT_STR(again.ptr, expected);
    hn_strbuf_deinit(&again);
}

static void expect_same(const char *text) { expect_printed(text, text); }

static hn_status parse(const char *text) {
    hn_strbuf ignored;
    hn_strbuf_init(&ignored);
    hn_status status = print_again(hn_str_of(text), &ignored);
    hn_strbuf_deinit(&ignored);
    return status;
}

/* --- forms by hand --- */

/* The first form in a file that begins so, with the line that closes it. */
static void expect_file_same(const char *path, const char *beginning) {
    hn_strbuf file;
    hn_strbuf_init(&file);
    EXPECT_OK(hn_file_read(path, &file));
    char *begin = file.ptr ? strstr(file.ptr, beginning) : NULL;
    char *end = begin ? strstr(begin, "\n}\n") : NULL;
    EXPECT(end != NULL);
    if (end) {
        end[strlen("\n}\n")] = '\0';
        expect_same(begin);
    }
    hn_strbuf_deinit(&file);
}

/* The corpus of the fuzz target. */
TEST(forms_by_hand_come_back) {
    static const char *const names[] = {"row_sum",       "flat_copy", "both_ways",
                                        "checked_index", "argmax",    "everything_else",
                                        "threads",       "registers", "prefixes"};
    static const char *const ranges[] = {"rows", "flat", "columns", "tiles"};
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        char path[64];
        snprintf(path, sizeof path, "tests/fuzz/corpus/form_text/%s.hnir", names[k]);
        expect_file_same(path, "form (group");
    }
    for (size_t k = 0; k < sizeof ranges / sizeof *ranges; k++) {
        char path[64];
        snprintf(path, sizeof path, "tests/fuzz/corpus/form_text/range_%s.hnir", ranges[k]);
        expect_file_same(path, "form (range");
    }
}

TEST(the_examples_of_the_specification_come_back) {
    expect_file_same("docs/kernel-forms.md", "form (group");
    expect_file_same("docs/kernel-forms.md", "form (range");
}

/* In order of first use: not those of the header and of extents. */
TEST(sizes_are_listed) {
    fixture x;
    hn_form *f;
    EXPECT_OK(fixture_init(&x));
    EXPECT_OK(hn_form_parse(x.program, &x.arena,
                            HN_STR("form (group i64 < s0; thread i65 < 1) {\n"
                                   "  m1 : argument b1 f32 read\n"
                                   "  m2 : argument b2 f32 write\n"
                                   "  let i66 < s0 = 0\n"
                                   "  for i67 in [0, s1) {\n"
                                   "    %3 = m1[i67 + s1*i64] : f32\n"
                                   "    m2[i64] = %3\n"
                                   "  }\n"
                                   "}\n"),
                            &f));
    EXPECT_INT(f->sizes.count, 1);
    EXPECT(hn_str_eq(hn_sym_symbol_name(f->sym, f->sizes.items[0]), HN_STR("s1")));
    fixture_deinit(&x);
}

TEST(an_empty_form_comes_back) { expect_same("form (group i64 < 1; thread i65 < 1) {\n}\n"); }

/* What says nothing is left out; text that only looks different is the same form. */
TEST(printing_is_canonical) {
    expect_printed(
        "form(group i64<1;thread i65<4){ # nothing\n"
        " m1:argument b1 f32 read m2:argument b5[0] f32 write\n"
        " for i66 in[0,s1)step 1 unroll 1 extent s1{if i66<3{%3=m1[i66]:f32 m2[i66]=%3}else{}}}",
        "form (group i64 < 1; thread i65 < 4) {\n"
        "  m1 : argument b1 f32 read\n"
        "  m2 : argument b5[0] f32 write\n"
        "  for i66 in [0, s1) {\n"
        "    if i66 < 3 {\n"
        "      %3 = m1[i66] : f32\n"
        "      m2[i66] = %3\n"
        "    }\n"
        "  }\n"
        "}\n");
}

/* Forms may be built in another order than they are read: the text counts from its beginning. */
TEST(numbers_follow_the_text) {
    fixture x;
    hn_form *f = NULL;
    hn_strbuf text;
    hn_strbuf_init(&text);
    EXPECT_OK(fixture_init(&x));
    EXPECT_OK(hn_form_parse(x.program, &x.arena,
                            HN_STR("form (group i64 < 1; thread i65 < 1) {\n"
                                   "  m1 : argument b2 f32 write\n"
                                   "  %1 = const 1.0 : f32\n"
                                   "  %2 = const 2.0 : f32\n"
                                   "  m1[0] = %1\n"
                                   "}\n"),
                            &f));
    f->body = 2;
    f->stmts.items[2].next = 1;
    f->stmts.items[1].next = 3;
    EXPECT_OK(hn_form_verify(f));
    hn_form_print(f, &text);
    EXPECT_STR(text.ptr, "form (group i64 < 1; thread i65 < 1) {\n"
                         "  m1 : argument b2 f32 write\n"
                         "  %1 = const 2.0 : f32\n"
                         "  %2 = const 1.0 : f32\n"
                         "  m1[0] = %2\n"
                         "}\n");
    hn_strbuf_deinit(&text);
    fixture_deinit(&x);
}

/* --- what is wrong --- */

typedef struct wrong_text {
    const char *text, *message;
} wrong_text;

static void expect_refused(const char *before, const wrong_text *list, size_t count) {
    for (size_t k = 0; k < count; k++) {
        char text[1024];
        snprintf(text, sizeof text, "%s%s", before, list[k].text);
        hn_status status = parse(text);
        EXPECT_INT(hn_status_code(status), HN_INVALID_ARGUMENT);
        EXPECT_STR(hn_status_message(status), list[k].message);
        hn_status_free(status);
    }
}

#define EXPECT_REFUSED(before, list) expect_refused((before), (list), sizeof(list) / sizeof *(list))

TEST(wrong_headers_are_refused) {
    static const wrong_text list[] = {
        {"program {}", "line 1, column 1: expected 'form'"},
        {"form {", "line 1, column 6: expected '('"},
        {"form (group i0 < 1; thread i65 < 4) {",
         "line 1, column 13: the group is i64, the thread i65"},
        {"form (group i64 < i64; thread i65 < 4) {",
         "line 1, column 19: cannot parse expression 'i64' at offset 0: unknown symbol; expected a declared one, s<N> or u<N>"},
        {"form (group i64 < 1; thread i65 < s0) {", "line 1, column 35: expected an integer"},
        {"form (group i64 < 1; thread i65 < 0) { }",
         "line 1, column 1: kernel form: a group has no threads"},
        {"form (group i64 < 1; thread i65 < 4) {", "line 1, column 39: expected '}'"},
        {"form (group i64 < 1; thread i65 < 4) { } }",
         "line 1, column 42: expected the end of the text"},
        {"form (group i64 < 1; thread i65 < 4) { cost 1 bytes",
         "line 1, column 45: expected a float"},
        {"form (group i64 < 1; thread i65 < 4) { cost 1.0 ns",
         "line 1, column 49: expected 'bytes'"},
    };
    EXPECT_REFUSED("", list);
}

TEST(wrong_declarations_are_refused) {
    static const wrong_text list[] = {
        {"m2 : shared f32[4] }", "line 2, column 1: memories are numbered from m1 in order"},
        {"m1 : local f32[4] }",
         "line 2, column 6: expected 'argument', 'shared', 'scratch' or 'private'"},
        {"m1 : argument s0 f32 }", "line 2, column 15: expected a buffer"},
        {"m1 : argument b9 f32 }",
         "line 2, column 1: kernel form, memory m1: its buffer is not one of the program"},
        {"m1 : argument b1 f64 }",
         "line 2, column 1: kernel form, memory m1: its buffer b1 has another dtype"},
        {"m1 : argument b1 f32 write }",
         "line 2, column 1: kernel form, memory m1: it writes b1, an input of the program"},
        {"m1 : argument b1[i65] f32 }",
         "line 2, column 1: kernel form, memory m1: its base uses i65, but may use sizes only"},
        {"m1 : shared f33[4] }", "line 2, column 13: unknown dtype"},
        {"m1 : shared f32[i64] }",
         "line 2, column 1: kernel form, memory m1: the number of its elements uses i64, but may use sizes only"},
        {"m1 : shared f32 }", "line 2, column 17: expected '['"},
        {"m1 : shared f32[4] read }",
         "line 2, column 1: kernel form, memory m1: it is marked as read, but nothing reads it"},
        {"r0 : sum f32 }", "line 2, column 1: registers are numbered from r1 in order"},
        {"r1 : total f32 }", "line 2, column 6: unknown op"},
        {"r1 : add f32 }",
         "line 2, column 1: kernel form, register r1: its op does not combine values"},
        {"r1 : sum f32 m1 : shared f32[4] }", "line 2, column 14: the memory is not declared"},
    };
    EXPECT_REFUSED("form (group i64 < s0; thread i65 < 64) {\n", list);
}

#define DECLARED                                                                                   \
    "form (group i64 < s0; thread i65 < 64) {\n"                                                   \
    " m1 : argument b1 f32 read\n"                                                                 \
    " m2 : shared f32[64] write\n"                                                                 \
    " m3 : shared i64[64]\n"                                                                       \
    " r1 : sum f32\n"                                                                              \
    " r2 : argmin f32\n"                                                                           \
    " %1 = m1[i65] : f32\n"                                                                        \
    " m2[i65] = %1\n"

TEST(wrong_statements_are_refused) {
    static const wrong_text list[] = {
        {"loop { }", "line 9, column 1: expected a statement"},
        {"{ }", "line 9, column 1: expected a statement"},
        {"} else { }", "line 9, column 3: expected the end of the text"},
        {"if 1 < 2 { } else { } else { }", "line 9, column 23: expected a statement"},
        {"for i66 in [0, 4) { } else { }", "line 9, column 23: expected a statement"},
        {"for i66 in (0, 4) { }", "line 9, column 12: expected '['"},
        {"for i66 in [0, 4] { }", "line 9, column 17: expected ')'"},
        {"for i99999 in [0, 4) { }",
         "line 9, column 5: the number of the index symbol is too large"},
        {"for s0 in [0, 4) { }", "line 9, column 5: expected an index symbol"},
        {"let i66 = i65", "line 9, column 9: expected '<'"},
        {"%2 = const 1.0 : f32",
         "line 9, column 1: a value has the number of its statement, from 1"},
        {"%3 = m4[0] : f32", "line 9, column 6: the memory is not declared"},
        {"%3 = b1[0] : f32", "line 9, column 6: unknown op"},
        {"%3 = neg(%3) : f32", "line 9, column 11: the op is not defined"},
        {"m1[0] -= %1", "line 9, column 7: expected '='"},
        {"step 1", "line 9, column 6: expected a register"},
    };
    EXPECT_REFUSED(DECLARED, list);
}

/* What the verifier says, with the place of the statement. */
TEST(wrong_uses_are_refused) {
#define AT "line 9, column 1: kernel form, statement 3: "
    static const wrong_text list[] = {
        {"for i66 in [0, s1) step 0 { } }", AT "the step is not above 0"},
        {"for i65 in [0, s1) { } }", AT "i65 is defined already"},
        {"let i64 < 4 = 0 }", AT "i64 is defined already"},
        {"for i66 in [0, s1) { for i66 in [0, 4) { } } }",
         "line 9, column 22: kernel form, statement 4: i66 is defined already"},
        {"let i66 < 4 = 0\nlet i66 < 5 = 0 }",
         "line 10, column 1: kernel form, statement 4: i66 is defined already"},
        {"for i66 in [0, s1) { } m2[i66] = %1 }",
         "line 9, column 24: kernel form, statement 4: the index uses i66, which is not defined here"},
        {"if i65 < 1 { let i66 < 4 = 0 } else { m2[i66] = %1 } }",
         "line 9, column 39: kernel form, statement 5: the index uses i66, which is not defined here"},
        {"if i65 < 1 { %4 = const 1.0 : f32 } m2[0] = %4 }",
         "line 9, column 37: kernel form, statement 5: its value %4 is not defined here"},
        {"if i65 < 1 { %4 = const 1.0 : f32 } else { m2[0] = %4 } }",
         "line 9, column 44: kernel form, statement 5: its value %4 is not defined here"},
        {"m2[0] = %2 }", AT "its value: statement 2 computes no value"},
        {"%3 = add(%1, %2) : f32 }", AT "its argument: statement 2 computes no value"},
        {"%3 = add(%1) : f32 }", AT "wrong number of arguments"},
        {"%3 = add(%1, %1) : f64 }", AT "a result of another dtype than the arguments"},
        {"%3 = sum(%1) : f32 }", AT "not an element-wise op"},
        {"%3 = m1[0] : f64 }", AT "m1 has another dtype"},
        {"m3[0] = %1 }", AT "m3 has another dtype than %1"},
        {"%3 = const 1 : i64 m3[0] = %3 }",
         "line 4, column 2: kernel form, memory m3: it is written, but not marked as written"},
        {"m2[0] += %1 }", AT "a store that combines in a form of more than one thread"},
        {"%3 = t7 := check(%1 < 4) : i64 }", AT "an index that is no i64"},
        {"%3 = const 1 : i64 if i65 < 1 { %5 = t7 := check(%3 < 4) : i64 } m2[t7] = %1 }",
         "line 9, column 66: kernel form, statement 6: the index uses t7, which is not defined here"},
        {"%3 = const 1 : i64 %4 = t7 := check(%3 < 4) : i64 %5 = t7 := check(%3 < 4) : i64 }",
         "line 9, column 51: kernel form, statement 5: t7 is defined already"},
        {"%3 = const 1 : i64 %4 = t7 := check(%3 < s0 + i65) : i64 }",
         "line 9, column 42: a loop variable outside of its loop"},
        {"step r1 %1 }", AT "r1 is not initialised here"},
        {"%3 = result r1 : f32 }", AT "r1 is not initialised here"},
        {"if i65 < 1 { init r1 } step r1 %1 }",
         "line 9, column 24: kernel form, statement 5: r1 is not initialised here"},
        {"init r3 }", AT "there is no register r3"},
        {"init r1 step r1 %1 at %1 }",
         "line 9, column 9: kernel form, statement 4: a position, but r1 keeps none"},
        {"init r2 step r2 %1 }",
         "line 9, column 9: kernel form, statement 4: no position, but r2 keeps one"},
        {"init r2 step r2 %1 at %1 }",
         "line 9, column 9: kernel form, statement 4: a position that is no i64"},
        {"init r1 %4 = const 1.0 : f64 step r1 %4 }",
         "line 9, column 30: kernel form, statement 5: r1 has another dtype than %4"},
        {"init r1 %4 = position r1 : i64 }",
         "line 9, column 9: kernel form, statement 4: r1 keeps no position"},
        {"init r2 %4 = position r2 : f32 }",
         "line 9, column 9: kernel form, statement 4: r2 has another dtype"},
        {"init r1 %4 = result r1 : f64 }",
         "line 9, column 9: kernel form, statement 4: r1 has another dtype"},
    };
    EXPECT_REFUSED(DECLARED, list);
}

/* A store that combines is for one thread, not for one thread of each group. */
TEST(groups_may_not_combine_in_memory) {
    EXPECT_ERROR(parse("form (group i64 < s0; thread i65 < 1) {\n m1 : argument b2 f32 read write\n"
                       " %1 = const 1.0 : f32\n m1[i64] += %1\n}"),
                 HN_INVALID_ARGUMENT, "line 4, column 2: kernel form, statement 2: a store that");
    EXPECT_ERROR(parse("form (group i64 < 1; thread i65 < 1) {\n m1 : argument b2 f32 write\n"
                       " %1 = const 1.0 : f32\n m1[i64] += %1\n}"),
                 HN_INVALID_ARGUMENT, "memory m1: it is read, but not marked as read");
}

/* --- barriers --- */

#define BARRIER(text)                                                                              \
    "form (group i64 < s0; thread i65 < 64) {\n"                                                   \
    " m1 : argument b4 i64 read\n"                                                                 \
    " %1 = m1[i64] : i64\n" text "\n}\n"

TEST(barriers_stand_where_all_threads_arrive) {
    EXPECT_OK(parse(BARRIER("barrier")));
    EXPECT_OK(parse(BARRIER("for i66 in [i64, s1) step 64 { barrier }")));
    EXPECT_OK(parse(BARRIER("if i64 < s0 - 1 { barrier } else { barrier }")));
    EXPECT_OK(parse(
        BARRIER("let i66 < s0 = i64\n for i67 in [0, i66 + 1) { if i67 < i66 { barrier } }")));
    EXPECT_OK(parse(BARRIER("for i66 in [i65, s1) { } barrier")));
    EXPECT_OK(parse(BARRIER("if i65 < 3 { } else { } barrier")));
}

TEST(barriers_that_not_all_threads_reach_are_refused) {
#define WITHIN(number, inner)                                                                      \
    "kernel form, statement " #inner ": a barrier within statement " #number                       \
    ", whose limits differ between threads"
    static const wrong_text list[] = {
        {BARRIER("if i65 < 3 { barrier }"), WITHIN(2, 3)},
        {BARRIER("if i65 < 3 { } else { barrier }"), WITHIN(2, 3)},
        {BARRIER("if 3 < i64 + i65 { barrier }"), WITHIN(2, 3)},
        {BARRIER("for i66 in [i65, 64) { barrier }"), WITHIN(2, 3)},
        {BARRIER("for i66 in [0, i65) { barrier }"), WITHIN(2, 3)},
        {BARRIER("if i65 < 3 { for i66 in [0, 4) { barrier } }"), WITHIN(2, 4)},
        {BARRIER(
             "for i66 in [0, i65) { } for i66 in [i65, 64) { if i64 < 1 { } if i64 < 2 { barrier } }"),
         WITHIN(3, 6)},
        {BARRIER("let i66 < 64 = i65\n if i66 < 3 { barrier }"), WITHIN(3, 4)},
        {BARRIER("let i66 < 64 = i65\n let i67 < 64 = 63 - i66\n for i68 in [0, i67) { barrier }"),
         WITHIN(4, 5)},
        {BARRIER("for i66 in [i65, s1) step 64 extent s1 + 64 { if i66 < 3 { barrier } }"),
         WITHIN(3, 4)},
        {BARRIER("%2 = t0 := check(%1 < s0) : i64 if t0 < 3 { barrier }"), WITHIN(3, 4)},
        {BARRIER("%2 = t0 := check(%1 < s0) : i64 for i66 in [0, t0) { barrier }"), WITHIN(3, 4)},
        {BARRIER("%2 = t0 := check(%1 < s0) : i64 let i66 < s0 = t0\n if i66 < 3 { barrier }"),
         WITHIN(4, 5)},
    };
    for (size_t k = 0; k < sizeof list / sizeof *list; k++)
        EXPECT_ERROR(parse(list[k].text), HN_INVALID_ARGUMENT, list[k].message);
}

/* --- depth --- */

static hn_status parse_nested(int depth) {
    hn_strbuf text;
    hn_strbuf_init(&text);
    hn_strbuf_puts(&text, "form (group i64 < 1; thread i65 < 1) {");
    for (int k = 0; k < depth; k++) hn_strbuf_puts(&text, " if 0 < 1 {");
    for (int k = 0; k <= depth; k++) hn_strbuf_puts(&text, " }");
    hn_status status = parse(text.ptr);
    hn_strbuf_deinit(&text);
    return status;
}

TEST(blocks_are_nested_only_so_deep) {
    EXPECT_OK(parse_nested(64));
    EXPECT_ERROR(parse_nested(65), HN_INVALID_ARGUMENT, "statement 65: blocks are nested too deep");
    EXPECT_ERROR(parse_nested(100000), HN_INVALID_ARGUMENT, "blocks are nested too deep");
}

TEST_MAIN
