/* test_loop_text.c: the text form of loop IR: what was printed comes back, and errors name a line.
 * Whole models and random graphs go through tests/graphs/run_loop_text.c. */
#include "ir/loop.h"

#include "base/file.h"
#include "unit/harness.h"

static hn_status print_again(hn_str text, hn_strbuf *out) {
    hn_arena arena;
    hn_sym *sym;
    hn_program *p;
    hn_arena_init(&arena);
    hn_status status = hn_sym_create(&arena, &sym);
    if (!status) status = hn_program_parse(&arena, sym, text, &p);
    if (!status) status = hn_program_verify(p);
    if (!status) hn_program_print(p, out);
    hn_arena_deinit(&arena);
    return status;
}

static void expect_same(hn_str text) {
    hn_strbuf again;
    hn_strbuf_init(&again);
    EXPECT_OK(print_again(text, &again));
    EXPECT(hn_str_eq(hn_strbuf_str(&again), text));
    if (!hn_str_eq(hn_strbuf_str(&again), text)) fprintf(stderr, "%s", again.ptr ? again.ptr : "");
    hn_strbuf_deinit(&again);
}

static hn_status parse(const char *text) {
    hn_strbuf ignored;
    hn_strbuf_init(&ignored);
    hn_status status = print_again(hn_str_of(text), &ignored);
    hn_strbuf_deinit(&ignored);
    return status;
}

TEST(every_statement_comes_back) {
    hn_strbuf file;
    hn_strbuf_init(&file);
    EXPECT_OK(hn_file_read("tests/fuzz/corpus/loop_text/every_statement.hnir", &file));
    const char *begin = file.ptr ? strstr(file.ptr, "program {") : NULL; /* behind the comment */
    EXPECT(begin != NULL);
    if (begin) expect_same(hn_str_of(begin));
    hn_strbuf_deinit(&file);
}

TEST(an_empty_program_comes_back) { expect_same(HN_STR("program {\n}\n")); }

/* Numbers survive whatever the context in which they are read has seen before. */
TEST(equal_loops_share_symbols) {
    expect_same(HN_STR("program {\n"
                       "  b1 : input 0 f32[8]\n"
                       "  b2 : output f32[8] extent 8\n"
                       "  pointwise (i0 < 2, i1 < 4; ) {\n"
                       "    %1 = b1[4*i0 + i1] : f32\n"
                       "    b2[4*i0 + i1] = %1\n"
                       "  }\n"
                       "  pointwise (i0 < 8; ) {\n"
                       "    %1 = b1[i0] : f32\n"
                       "    b2[i0] = %1\n"
                       "  }\n"
                       "}\n"));
}

#define BUFFERS                                                                                    \
    "program {\n b1 : input 0 f32[4]\n b2 : output f32[4] extent 4\n b3 : temp i64[4] extent 4\n"
#define LOOP(ops) BUFFERS " pointwise (i0 < 4; ) {\n" ops "\n }\n}\n"

TEST(errors_of_grammar_name_the_place) {
    EXPECT_ERROR(parse("graph {}"), HN_INVALID_ARGUMENT, "line 1, column 1: expected 'program'");
    EXPECT_ERROR(parse("program {"), HN_INVALID_ARGUMENT, "expected '}'");
    EXPECT_ERROR(parse("program { } x"), HN_INVALID_ARGUMENT, "expected the end");
    EXPECT_ERROR(parse("program {\n b2 : temp f32[] extent 1 }"), HN_INVALID_ARGUMENT,
                 "line 2, column 2: buffers are numbered");
    EXPECT_ERROR(parse("program { b1 : temp f33[] extent 1 }"), HN_INVALID_ARGUMENT,
                 "unknown dtype");
    EXPECT_ERROR(parse("program { b1 : temp f32[i0] extent 1 }"), HN_INVALID_ARGUMENT,
                 "unknown symbol");
    EXPECT_ERROR(parse("program { b1 : temp f32[2] on moon extent 2 }"), HN_INVALID_ARGUMENT,
                 "line 1, column 31: not a device");
    EXPECT_ERROR(parse("program { b1 : temp f32[2] strides [1, 1] extent 1 }"), HN_INVALID_ARGUMENT,
                 "differ in number");
    EXPECT_ERROR(parse(LOOP("  %2 = b1[i0] : f32")), HN_INVALID_ARGUMENT,
                 "line 6, column 3: ops are numbered");
    EXPECT_ERROR(parse(LOOP("  %1 = sing(%1) : f32")), HN_INVALID_ARGUMENT,
                 "line 6, column 8: unknown op");
    EXPECT_ERROR(parse(LOOP("  %1 = neg(%1) : f32")), HN_INVALID_ARGUMENT, "the op is not defined");
    EXPECT_ERROR(parse(LOOP("  %1 = const 1 : f32")), HN_INVALID_ARGUMENT, "expected a float");
    EXPECT_ERROR(parse(LOOP("  %1 = const 1.0 : i64")), HN_INVALID_ARGUMENT, "expected an integer");
    EXPECT_ERROR(parse(LOOP("  %1 = b9[i0] : f32")), HN_INVALID_ARGUMENT,
                 "the buffer is not declared");
    EXPECT_ERROR(parse(BUFFERS " define s0 = b1\n}"), HN_INVALID_ARGUMENT, "only a data symbol");
    EXPECT_ERROR(
        parse(
            BUFFERS
            " sort(out b2[0], b3[0], b1[0], none, none, none, none, none, none, none) params []\n}"),
        HN_INVALID_ARGUMENT, "too many operands");
    EXPECT_ERROR(parse(LOOP("  %1 = b1[i0] : f32\n  b2[i0] = %1") "program {}"),
                 HN_INVALID_ARGUMENT, "expected the end");
}

TEST(errors_of_the_verifier_name_the_line) {
    EXPECT_ERROR(parse(LOOP("  %1 = b1[i0] : f64")), HN_INVALID_ARGUMENT,
                 "line 6, column 3: loop IR item 1: load of another dtype at op 1");
    EXPECT_ERROR(parse(LOOP("  %1 = b2[i0] : f32")), HN_INVALID_ARGUMENT,
                 "line 6, column 3: loop IR item 1: read before it is written: buffer 2");
    EXPECT_ERROR(parse(LOOP("  %1 = b1[i0] : f32\n  %2 = add(%1) : f32")), HN_INVALID_ARGUMENT,
                 "line 7, column 3: loop IR item 1: wrong number of arguments");
    EXPECT_ERROR(parse(LOOP("  %1 = b1[i0] : f32\n  %2 = lt(%1, %1) : f32")), HN_INVALID_ARGUMENT,
                 "line 7");
    EXPECT_ERROR(parse(LOOP("  %1 = b1[i0] : f32\n  %2 = matmul(%1, %1) : f32")),
                 HN_INVALID_ARGUMENT, "not an element-wise op");
    EXPECT_ERROR(parse(LOOP("  %1 = b1[i0] : f32\n  %2 = and(%1, %1) : f32")), HN_INVALID_ARGUMENT,
                 "arguments of a dtype that the op is not defined on at op 2");
    EXPECT_ERROR(parse(LOOP("  %1 = const 1 : i64\n  %2 = b1[i0] : f32\n  %3 = add(%1, %2) : i64")),
                 HN_INVALID_ARGUMENT, "line 8");
    EXPECT_ERROR(parse(LOOP("  %1 = b1[i0] : f32\n  b1[i0] = %1")), HN_INVALID_ARGUMENT,
                 "line 5, column 2: loop IR item 1: store to input buffer 1");
    EXPECT_ERROR(parse(LOOP("  %1 = b1[i0] : f32\n  b3[i0] = %1")), HN_INVALID_ARGUMENT,
                 "store of another dtype");
    EXPECT_ERROR(
        parse(BUFFERS " reduce sum (; i0 < 4) {\n  %1 = b1[i0] : f32\n  b2[i0] = %1\n }\n}"),
        HN_INVALID_ARGUMENT, "not in scope");
    EXPECT_ERROR(
        parse(BUFFERS " reduce add (; i0 < 4) {\n  %1 = b1[i0] : f32\n  b2[0] = %1\n }\n}"),
        HN_INVALID_ARGUMENT, "op that does not combine");
    EXPECT_ERROR(
        parse(BUFFERS " pointwise (i0 < 4, i0 < 2; ) {\n  %1 = b1[i0] : f32\n  b2[0] = %1\n }\n}"),
        HN_INVALID_ARGUMENT, "two variables of one name");
    EXPECT_ERROR(parse(BUFFERS " result 0 = b2[0] [4]\n}"), HN_INVALID_ARGUMENT,
                 "result 0 is never written");
    EXPECT_ERROR(parse(BUFFERS " then b2\n}"), HN_INVALID_ARGUMENT,
                 "line 5, column 2: loop IR item 1: condition read before it is written");
    EXPECT_ERROR(parse("program { b1 : input 0 bool[] then b1 }"), HN_INVALID_ARGUMENT,
                 "a conditional or loop has no end");
    EXPECT_ERROR(parse("program { b1 : input 0 bool[] end }"), HN_INVALID_ARGUMENT,
                 "without 'then'");
    EXPECT_ERROR(parse("program { b1 : input 0 bool[] then b1 else else end }"),
                 HN_INVALID_ARGUMENT, "a second 'else'");
}

/* matmul(out b2, b1, b1), its loops, and what follows. */
#define CALL(loops, behind)                                                                                                   \
    "program {\n b1 : input 0 f32[4]\n b2 : output f32[4] extent 4\n b3 : temp f32[4] extent 4\n b4 : temp f32[4] extent 4\n" \
    "pointwise (i0 < 4; ) {\n%1 = b1[i0] : f32\nb4[i0] = %1\n}\n"                                                             \
    "matmul(out b2[0], b1[0], b1[0]) params [] as {\n" loops "}\n" behind "}\n"
#define STEP(from, to) "pointwise (i0 < 4; ) {\n%1 = " from "[i0] : f32\n" to "[i0] = %1\n}\n"

TEST(loops_of_a_call_keep_to_themselves) {
    EXPECT_OK(parse(CALL(STEP("b1", "b3") STEP("b3", "b2"), STEP("b4", "b4"))));
    EXPECT_ERROR(parse(CALL("", "")), HN_INVALID_ARGUMENT, "line 11, column 1: expected a loop");
    EXPECT_ERROR(parse(CALL(STEP("b1", "b3") STEP("b4", "b2"), "")), HN_INVALID_ARGUMENT,
                 "a loop of a call reads what is no operand: buffer 4");
    EXPECT_ERROR(parse(CALL(STEP("b3", "b2"), "")), HN_INVALID_ARGUMENT,
                 "read before it is written: buffer 3");
    EXPECT_ERROR(
        parse(CALL(STEP("b1", "b4") STEP("b4", "b2"), "")), HN_INVALID_ARGUMENT,
        "line 11, column 1: loop IR item 2: a loop of a call stores to what is no temporary of its own: buffer 4");
    EXPECT_ERROR(parse(CALL(STEP("b1", "b1"), "")), HN_INVALID_ARGUMENT,
                 "stores to what is no temporary of its own: buffer 1");
    EXPECT_ERROR(parse(CALL(STEP("b1", "b3"), "")), HN_INVALID_ARGUMENT,
                 "not the last loop alone stores the result of a call: loop 0");
    EXPECT_ERROR(parse(CALL(STEP("b1", "b2") STEP("b1", "b2"), "")), HN_INVALID_ARGUMENT,
                 "not the last loop alone stores the result of a call: loop 0");
    EXPECT_ERROR(parse(CALL(STEP("b1", "b3") STEP("b3", "b2"), STEP("b3", "b4"))),
                 HN_INVALID_ARGUMENT, "read before it is written: buffer 3");
    EXPECT_ERROR(parse(CALL(STEP("b1", "b3") STEP("b3", "b2"), STEP("b4", "b3"))),
                 HN_INVALID_ARGUMENT, "store to a temporary of a call: buffer 3");
}

/* A variable of an earlier loop is known to the context, but not in scope; an index has one
 * limit. */
TEST(symbols_belong_to_their_loop) {
    EXPECT_ERROR(parse(BUFFERS
                       " pointwise (i0 < 4; ) {\n  %1 = b1[i0] : f32\n  b2[i0] = %1\n }\n"
                       " pointwise (i1 < 4; ) {\n  %1 = b1[i0] : f32\n  b2[i1] = %1\n }\n}"),
                 HN_INVALID_ARGUMENT,
                 "line 10, column 3: loop IR item 2: a symbol that is not in scope at op 1");
    EXPECT_ERROR(
        parse(LOOP(
            "  %1 = const 1 : i64\n  %2 = t0 := check(%1 < 4) : i64\n  %3 = t0 := check(%1 < 5) : i64")),
        HN_INVALID_ARGUMENT, "the index has another limit");
    EXPECT_ERROR(parse(LOOP("  %1 = b1[t0] : f32")), HN_INVALID_ARGUMENT, "unknown symbol");
}

TEST_MAIN
