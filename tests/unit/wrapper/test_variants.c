/* test_variants.c: calls with several variants: text, what is refused, and how they are built. */
#include "base/compiler.h"
#include "unit/harness.h"
#include "wrapper/reuse.h"
#include "wrapper/variants.h"
#include "wrapper/workspaces.h"

typedef struct fixture {
    hn_arena arena;
    hn_sym *sym;
    hn_wrapper *w;
} fixture;

static hn_status setup(fixture *f, const char *text) {
    hn_arena_init(&f->arena);
    HN_TRY(hn_sym_create(&f->arena, &f->sym));
    return hn_wrapper_parse(&f->arena, f->sym, hn_str_of(text), &f->w);
}
static void teardown(fixture *f) { hn_arena_deinit(&f->arena); }

#define TABLES                                                                                     \
    "wrapper {\n"                                                                                  \
    "  symbol size s0 in [1, none]\n"                                                              \
    "  symbol size s1 in [1, none]\n"                                                              \
    "  buffer b1 : input f32[s0, s1] source 0\n"                                                   \
    "  buffer b2 : temp f32[s0] bytes(4*s0)\n"                                                     \
    "  buffer b3 : output f32[s0] bytes(4*s0)\n"                                                   \
    "  buffer b4 : temp u8[64] bytes(64)\n"                                                        \
    "  kernel k1 : object 0 name \"looped\"\n"                                                     \
    "  kernel k2 : object 1 name \"whole\"\n"                                                      \
    "  input \"x\" : f32[s0, s1] strides [s1, 1] in b1\n"

static const char *const sample = TABLES
    "  call k1(b1 f32, out b2 f32, out b4 u8) takes [0, 1] params [s0, s1] extent(s0) grain 8 "
    "form \"rows\" or k2 takes [2, 0, 1] params [s0] extent(s0//16) grain 1 scratch(64) form \"columns\" "
    "or k1 takes [1, 0] extent(s0) form \"rows\" "
    "choose [s0, s1] else 0 [1 in [1, 96] and [2048, none], 2 in [97, 97] and [none, none]] origin 3\n"
    "  call k1(b2 f32, out b3 f32) extent(s0) form \"flat\" or k2 extent(s0) form \"tiles\" "
    "choose [s0*s1] else 1 []\n"
    "  output tensor \"y\" : f32[s0] strides [1] in b3\n"
    "}\n";

TEST(text_reads_back) {
    fixture f;
    hn_strbuf out;
    EXPECT_OK(setup(&f, sample));
    EXPECT_OK(hn_wrapper_verify(f.w));
    hn_strbuf_init(&out);
    hn_wrapper_print(f.w, &out);
    EXPECT_STR(out.ptr, sample);
    const hn_line *line = &f.w->lines.items[0];
    EXPECT_INT(hn_line_variants(line), 3);
    EXPECT_INT(hn_line_kernel(line, 1), 2);
    const hn_wlaunch own = hn_line_launch(line, 0, 0), other = hn_line_launch(line, 1, 0);
    EXPECT_INT(own.arg_count, 2);
    EXPECT_INT(other.arg_count, 3);
    EXPECT_INT(hn_wlaunch_operand(&other, 0), 2);
    EXPECT(hn_str_eq(own.form, HN_STR("rows")) && hn_str_eq(other.form, HN_STR("columns")));
    EXPECT(hn_line_takes(f.w, line, 1, 2) && !hn_line_takes(f.w, line, 0, 2));
    EXPECT(hn_line_always_takes(f.w, line, 1) && !hn_line_always_takes(f.w, line, 2));
    const int64_t sizes[][3] = {{96, 2048, 1}, {96, 2047, 0}, {97, 1, 2}, {98, 5000, 0}};
    for (size_t k = 0; k < HN_COUNT_OF(sizes); k++)
        EXPECT_INT(hn_choice_find(&line->choices->head, line->choices->boxes, sizes[k]),
                   sizes[k][2]);
    hn_strbuf_deinit(&out);
    teardown(&f);
}

TEST(json_has_variants) {
    static const char *const parts[] = {
        "\"form\":\"rows\",\"takes\":[0,1],\"params\":[\"s0\",\"s1\"]",
        "\"variants\":[{\"kernel\":2,\"grain\":1,\"form\":\"columns\",\"takes\":[2,0,1]",
        "\"choose\":{\"sizes\":[\"s0\",\"s1\"],\"otherwise\":0,\"ranges\":["
        "{\"variant\":1,\"in\":[[1,96],[2048,null]]},{\"variant\":2,\"in\":[[97,97],[null,null]]}]}",
        "\"otherwise\":1,\"ranges\":[]}"};
    fixture f;
    hn_strbuf out;
    EXPECT_OK(setup(&f, sample));
    hn_strbuf_init(&out);
    hn_wrapper_print_json(f.w, &out);
    for (size_t k = 0; k < HN_COUNT_OF(parts); k++)
        if (!strstr(hn_strbuf_str(&out).ptr, parts[k])) HN_TEST_FAIL("no %s", parts[k]);
    hn_strbuf_deinit(&out);
    teardown(&f);
}

/* What operations are asked for. */
#define ASKED                                                                                      \
    "wrapper {\n"                                                                                  \
    "  symbol size s0 in [1, none]\n"                                                              \
    "  buffer b1 : input f32[s0] source 0\n"                                                       \
    "  buffer b2 : output f32[s0] bytes(4*s0)\n"                                                   \
    "  buffer b3 : output i64[s0] bytes(8*s0)\n"                                                   \
    "  input \"x\" : f32[s0] strides [1] in b1\n"                                                  \
    "  extern sort(out b2 f32, out b3 i64, b1 f32) params [1, s0, 1, s0, 0, 0] "
#define ASKED_END                                                                                  \
    "  output tensor \"y\" : f32[s0] strides [1] in b2\n"                                          \
    "  output tensor \"z\" : i64[s0] strides [1] in b3\n}\n"

TEST(forms_of_operations) {
    static const char *const texts[] = {
        ASKED
        "form \"one\" or form \"two words=3\" choose [s0] else 0 [1 in [none, 2]]\n" ASKED_END,
        ASKED "form \"one\" choose [] else 0 []\n" ASKED_END};
    for (uint32_t k = 0; k < 2; k++) {
        fixture f;
        hn_strbuf out;
        EXPECT_OK(setup(&f, texts[k]));
        EXPECT_OK(hn_wrapper_verify(f.w));
        hn_strbuf_init(&out);
        hn_wrapper_print(f.w, &out);
        EXPECT_STR(out.ptr, texts[k]);
        EXPECT_INT(hn_line_variants(&f.w->lines.items[0]), 2 - k);
        hn_strbuf_deinit(&out);
        teardown(&f);
    }
}

TEST(forms_of_operations_that_are_refused) {
    static const struct {
        const char *text, *message;
    } rows[] = {
        {ASKED "form \"one\"\n" ASKED_END, "has forms, and no table"},
        {ASKED "form \"one\" or choose [s0] else 0 [1 in [none, 2]]\n" ASKED_END,
         "variant 1 has no form"},
        {ASKED "form \"one\" choose [s0] else 1 []\n" ASKED_END, "falls back on variant 1 of 1"},
    };
    for (size_t k = 0; k < HN_COUNT_OF(rows); k++) {
        fixture f;
        EXPECT_OK(setup(&f, rows[k].text));
        EXPECT_ERROR(hn_wrapper_variants_verify(f.w), HN_INTERNAL, rows[k].message);
        teardown(&f);
    }
}

TEST(forms_are_set) {
    static const hn_str forms[] = {{"one", 3}, {"two", 3}};
    const hn_sym_choice choice = {.head = {.variant_count = 2}};
    fixture f;
    EXPECT_OK(setup(&f, ASKED "\n" ASKED_END));
    hn_line *line = (hn_line *)&f.w->lines.items[0];
    EXPECT_ERROR(hn_line_set_forms(f.w, line, forms, 0, &choice), HN_INTERNAL, "0 forms");
    EXPECT_OK(hn_line_set_forms(f.w, line, forms, 2, &choice));
    EXPECT_OK(hn_wrapper_variants_verify(f.w));
    EXPECT(hn_str_eq(hn_line_launch(line, 1, 0).form, forms[1]));
    line->kernel = 1; /* of another device a kernel may be there besides */
    EXPECT_ERROR(hn_line_set_forms(f.w, line, forms, 2, &choice), HN_INTERNAL, "no call of an");
    EXPECT_ERROR(hn_wrapper_variants_verify(f.w), HN_INTERNAL, "has no forms");
    line->device = HN_DEVICE_OPENCL;
    EXPECT_OK(hn_line_set_forms(f.w, line, forms, 2, &choice));
    EXPECT_OK(hn_wrapper_variants_verify(f.w));
    teardown(&f);
}

/* Every text cut short is an error with a place, and none crashes. */
TEST(text_cut_short) {
    char text[4096];
    for (size_t cut = 0; cut < strlen(sample) - 2; cut++) {
        fixture f;
        memcpy(text, sample, cut);
        text[cut] = 0;
        EXPECT_ERROR(setup(&f, text), HN_INVALID_ARGUMENT, "line ");
        teardown(&f);
    }
}

TEST(text_errors) {
    static const struct {
        const char *text, *message;
    } rows[] = {
        {"call k1() or b2", "expected a kernel"},
        {"call k1() takes []  or k1 takes [x]", "column"},
        {"call k1() choose [1, 2, 3, 4] else 0 []", "the table has too many sizes"},
        {"call k1() or k1 choose [s0] [1 in [1, 2]]", "else"},
        {"call k1() or k1 choose [s0] else 0 [1 in [1, 2] and [3, 4]]", "expected"},
        {"call k1() or k1 choose [s0, s1] else 0 [1 in [1, 2]]", "and"},
        {"call k1() or k1 choose [s0] else 0 [1 in [one, 2]]", "column"},
        {"extern matmul() or k1 or k2", "expected"},
    };
    for (size_t k = 0; k < HN_COUNT_OF(rows); k++) {
        fixture f;
        char text[512];
        snprintf(text, sizeof text,
                 "wrapper { symbol size s0 in [1, none] symbol size s1 in [1, none] %s }",
                 rows[k].text);
        EXPECT_ERROR(setup(&f, text), HN_INVALID_ARGUMENT, rows[k].message);
        teardown(&f);
    }
}

static void refuse(const char *line, hn_code code, const char *message) {
    fixture f;
    char text[2048];
    snprintf(text, sizeof text, TABLES "%s }", line);
    EXPECT_OK(setup(&f, text));
    EXPECT_ERROR(hn_wrapper_verify(f.w), code, message);
    teardown(&f);
}

#define CALL "call k1(b1 f32, out b2 f32) extent(s0) form \"a\" "

TEST(verify_finds) {
    static const struct {
        const char *line, *message;
    } rows[] = {
        {"assert(b1 bool) takes [0]", "line 0 has variants, and is no call of a kernel"},
        {CALL "choose [s0] else 0 []", "line 0 has a table, and no variants"},
        {"call k1(b1 f32, out b2 f32) takes [1] extent(s0)",
         "line 0 leaves out operands, and has no variants"},
        {CALL "or k2 extent(s0) form \"b\"", "line 0 has variants, and no table"},
        {CALL "or k3 extent(s0) form \"b\" choose [s0] else 0 []", "variant 1 is unknown kernel 3"},
        {"call k9(b1 f32, out b2 f32) extent(s0) form \"a\" or k1 extent(s0) form \"b\" "
         "choose [s0] else 0 []",
         "variant 0 is unknown kernel 9"},
        {CALL "or k2 form \"b\" choose [s0] else 0 []", "variant 1 has no extent"},
        {CALL "or k2 extent(s0) choose [s0] else 0 []", "variant 1 has no form"},
        {"call k1(b1 f32, out b2 f32) extent(s0) or k2 extent(s0) form \"b\" choose [s0] else 0 []",
         "variant 0 has no form"},
        {CALL "or k2 extent(s0) threads 32 form \"b\" choose [s0] else 0 []",
         "variant 1 runs in groups of 32 threads, variant 0 of 0"},
        {CALL "or k2 takes [0, 2] extent(s0) form \"b\" choose [s0] else 0 []",
         "variant 1 takes operand 2 of 2"},
        {"call k1(b1 f32, out b2 f32, out b4 u8) takes [0, 1] extent(s0) form \"a\" "
         "or k2 takes [1, 0] extent(s0) form \"b\" choose [s0] else 0 []",
         "nothing takes operand 2"},
        {CALL "or k2 extent(s0) form \"b\" choose [s0] else 2 []", "falls back on variant 2 of 2"},
        {CALL "or k2 extent(s0) form \"b\" choose [s0] else 0 [2 in [1, 2]]", "has variant 2 of 2"},
        {CALL "or k2 extent(s0) form \"b\" choose [s0] else 0 [1 in [3, 2]]",
         "box 0 of a decision table is empty"},
        {CALL "or k2 extent(s0) form \"b\" choose [s0] else 0 [1 in [1, 2], 0 in [2, 4]]",
         "boxes 0 and 1 of a decision table overlap"},
        {CALL "or k2 extent(s0) form \"b\" choose [s0] else 0 [1 in [5, 6], 0 in [2, 4]]",
         "box 1 of a decision table is not behind the one before"},
        {CALL "or k2 extent(s0) form \"b\" choose [] else 0 [1 in]",
         "a decision table has boxes, but no sizes"},
        {CALL "or k2 extent(s0) form \"b\" choose [64] else 0 [1 in [1, 2]]",
         "size 0 of its table is a number"},
        {CALL "or k2 extent(s0) form \"b\" choose [s0, s0] else 0 []",
         "its table has size 1 twice"},
        /* what one variant leaves alone is not there for those behind */
        {"call k1(b1 f32, out b2 f32) takes [0] extent(s0) form \"a\" or k2 extent(s0) form \"b\" "
         "choose [s0] else 0 [] call k1(b2 f32, out b3 f32) extent(s0)",
         "line 1: buffer 2 is used before it is written"},
        {"call k1(out b2 f32) extent(s0) "
         "call k1(b1 f32, out b2 f32) takes [0] extent(s0) form \"a\" or k2 extent(s0) form \"b\" "
         "choose [s0] else 0 [] call k1(b2 f32, out b3 f32) extent(s0)",
         "line 2: buffer 2 is used before it is written"},
        {"call k1(b1 f32, b2 f32, out b3 f32) takes [0, 2] extent(s0) form \"a\" or k2 extent(s0) "
         "form \"b\" choose [s0] else 0 []",
         "line 0: buffer 2 is used before it is written"},
    };
    for (size_t k = 0; k < HN_COUNT_OF(rows); k++)
        refuse(rows[k].line, HN_INTERNAL, rows[k].message);
}

/* Sizes from data are there before a table looks at them, or a variant that may not run does. */
TEST(sizes_of_variants_are_there) {
    static const char *const rows[] = {
        CALL "or k2 extent(s0) form \"b\" choose [u0] else 0 [1 in [1, 2]]",
        CALL "or k2 params [u0] extent(s0) form \"b\" choose [s0] else 0 []",
        CALL "or k2 extent(u0) form \"b\" choose [s0] else 0 []",
        CALL "or k2 extent(s0) scratch(u0) form \"b\" choose [s0] else 0 []"};
    for (size_t k = 0; k < HN_COUNT_OF(rows); k++) {
        fixture f;
        char text[2048];
        snprintf(text, sizeof text, "wrapper { symbol data u0 in [0, 9] %s %s }",
                 strstr(TABLES, "symbol size s0"), rows[k]);
        EXPECT_OK(setup(&f, text));
        EXPECT_ERROR(hn_wrapper_verify(f.w), HN_UNSUPPORTED, "nothing in the program defines it");
        teardown(&f);
    }
}

/* ---- building ---- */

/* Two calls as they would stand alone; the second becomes a variant of the first. */
static hn_line join(fixture *f, const char *first, const char *second) {
    char text[2048];
    snprintf(text, sizeof text, TABLES "%s %s }", first, second);
    EXPECT_OK(setup(f, text));
    hn_line line = f->w->lines.items[0];
    EXPECT_OK(hn_line_add_variant(f->w, &line, &f->w->lines.items[1]));
    return line;
}

TEST(variants_have_arguments_of_their_own) {
    fixture f;
    hn_line line = join(&f, "call k1(b1 f32, out b2 f32) params [s0] extent(s0) form \"a\"",
                        "call k2(out b4 u8, b1 f32, b1 f32 at(1), out b2 f32, b1 f32) extent(s1) "
                        "scratch(8) form \"b\"");
    const hn_wlaunch own = hn_line_launch(&line, 0, 0), other = hn_line_launch(&line, 1, 0);
    const uint32_t order[] = {2, 0, 3, 1, 0};
    EXPECT_INT(line.operand_count, 4);
    EXPECT_INT(own.arg_count, 2);
    EXPECT(hn_wlaunch_operand(&own, 0) == 0 && hn_wlaunch_operand(&own, 1) == 1);
    EXPECT_INT(other.arg_count, 5);
    for (uint32_t k = 0; k < other.arg_count && k < 5; k++)
        EXPECT_INT(hn_wlaunch_operand(&other, k), order[k]);
    EXPECT(hn_str_eq(other.form, HN_STR("b")) && other.param_count == 0);
    /* a third one, with what is there */
    hn_line third = f.w->lines.items[0];
    third.form = HN_STR("c");
    EXPECT_OK(hn_line_add_variant(f.w, &line, &third));
    EXPECT_INT(line.operand_count, 4);
    EXPECT_INT(hn_line_launch(&line, 2, 0).arg_count, 2);
    const hn_sym_choice choice = {
        .head = {.axis_count = 1, .variant_count = 3, .box_count = 1},
        .axes = {hn_sym_symbol(f.sym, HN_STR("s0"), HN_SYMBOL_SIZE, 1, HN_SYM_MAX)},
        .boxes = &(hn_choice_box){.lo = {1}, .hi = {64}, .variant = 2}};
    EXPECT_OK(hn_line_set_choices(f.w, &line, &choice));
    EXPECT(line.choices->boxes != choice.boxes);
    f.w->lines.count = 0;
    EXPECT_OK(hn_wrapper_add_line(f.w, line));
    EXPECT_OK(hn_wrapper_verify(f.w));
    teardown(&f);
}

static bool is_over(const hn_line *line, uint32_t a, uint32_t b) {
    return hn_woperand_is_over(&line->operands[a], b);
}

TEST(over_only_where_all_variants_allow_it) {
    static const struct {
        const char *first, *second;
        bool is_over_0, is_over_1;
    } rows[] = {
        {"b2 f32, b3 f32, out b1 f32 over [0, 1]", "b2 f32, b3 f32, out b1 f32 over [0, 1]", true,
         true},
        {"b2 f32, b3 f32, out b1 f32 over [0, 1]", "b2 f32, b3 f32, out b1 f32 over [1]", false,
         true},
        {"b2 f32, b3 f32, out b1 f32 over [0]", "b2 f32, b3 f32, out b1 f32 over [1]", false,
         false},
        /* another order of arguments */
        {"b2 f32, b3 f32, out b1 f32 over [0]", "out b1 f32 over [2], b3 f32, b2 f32", true, false},
        /* the variant does not read the one, or read it twice and allows it once */
        {"b2 f32, b3 f32, out b1 f32 over [0, 1]", "b3 f32, out b1 f32 over [0]", true, true},
        {"b2 f32, b3 f32, out b1 f32 over [0, 1]", "b2 f32, b2 f32, b3 f32, out b1 f32 over [0, 2]",
         false, true},
        /* it has no such result */
        {"b2 f32, b3 f32, out b1 f32 over [0, 1]", "b2 f32, b3 f32", true, true},
    };
    for (size_t k = 0; k < HN_COUNT_OF(rows); k++) {
        fixture f;
        char first[256], second[256];
        snprintf(first, sizeof first, "call k1(%s) extent(s0) form \"a\"", rows[k].first);
        snprintf(second, sizeof second, "call k2(%s) extent(s0) form \"b\"", rows[k].second);
        const hn_line line = join(&f, first, second);
        if (is_over(&line, 2, 0) != rows[k].is_over_0 || is_over(&line, 2, 1) != rows[k].is_over_1)
            HN_TEST_FAIL("row %zu", k);
        teardown(&f);
    }
}

/* A result of the variant alone has its own promises. */
TEST(over_of_what_one_variant_has) {
    fixture f;
    const hn_line line = join(&f, "call k1(b2 f32, out b3 f32 over [0]) extent(s0) form \"a\"",
                              "call k2(b2 f32 at(4), out b1 f32 over [0], out b3 f32 over [0]) "
                              "extent(s0) form \"b\"");
    EXPECT_INT(line.operand_count, 4); /* b2, b3, b2 at(4), b1 */
    EXPECT(is_over(&line, 1, 0) && is_over(&line, 1, 2));
    EXPECT(is_over(&line, 3, 2) && !is_over(&line, 3, 0));
    teardown(&f);
}

/* b2 may not be overwritten if one variant reads it again: the plan keeps both alive. */
TEST(no_memory_is_reused_that_a_variant_needs) {
    static const char *const over[] = {" over [0]", ""};
    for (uint32_t k = 0; k < 2; k++) {
        fixture f;
        hn_line line;
        char second[256];
        snprintf(second, sizeof second, "call k2(b2 f32, out b3 f32%s) extent(s0) form \"b\"",
                 over[k]);
        line = join(&f, "call k1(b2 f32, out b3 f32 over [0]) extent(s0) form \"a\"", second);
        const hn_sym_choice choice = {.head = {.variant_count = 2}};
        EXPECT_OK(hn_line_set_choices(f.w, &line, &choice));
        f.w->buffers.items[3].kind = HN_WBUF_TEMP;
        const hn_woperand out = {.buffer = 2, .dtype = HN_DTYPE_F32, .written = true};
        hn_line first = {.kind = HN_LINE_KERNEL,
                         .kernel = 1,
                         .operands = &out,
                         .operand_count = 1,
                         .extent = hn_sym_int(f.sym, 1)};
        f.w->lines.count = 0;
        EXPECT_OK(hn_wrapper_add_line(f.w, first));
        EXPECT_OK(hn_wrapper_add_line(f.w, line));
        EXPECT_OK(hn_wrapper_reuse(f.w));
        uint32_t reused = 0;
        for (uint32_t i = 0; i < f.w->lines.count; i++)
            reused += f.w->lines.items[i].kind == HN_LINE_REUSE;
        EXPECT_INT(reused, k == 0);
        hn_memory_plan plan;
        EXPECT_OK(hn_wrapper_plan(f.w, &plan));
        EXPECT_OK(hn_wrapper_verify(f.w));
        EXPECT_OK(hn_wrapper_plan_verify(f.w, &plan));
        teardown(&f);
    }
}

/* What one variant alone uses has memory in its line. */
TEST(memory_of_a_variant_is_planned) {
    fixture f;
    hn_memory_plan plan;
    hn_strbuf out;
    EXPECT_OK(setup(&f, sample));
    EXPECT_OK(hn_wrapper_plan(f.w, &plan));
    EXPECT_OK(hn_wrapper_verify(f.w));
    EXPECT_OK(hn_wrapper_plan_verify(f.w, &plan));
    EXPECT(plan.offsets[4] != 0);
    hn_strbuf_init(&out);
    hn_wrapper_print(f.w, &out);
    EXPECT(strstr(hn_strbuf_str(&out).ptr, "allocate b4") != NULL);
    hn_strbuf_deinit(&out);
    teardown(&f);
}

/* The largest that a variant wants: the sizes say which. */
TEST(workspaces_are_merged) {
    fixture f;
    EXPECT_OK(setup(&f, "wrapper { symbol size s0 in [1, 100] kernel k1 : object 0 "
                        "call k1() extent(8) threads 32 scratch(64) form \"a\" on cuda "
                        "or k1 extent(s0) threads 32 scratch(16) form \"b\" "
                        "or k1 extent(1) threads 64 form \"c\" choose [s0] else 0 [] }"));
    const hn_line *line = &f.w->lines.items[0];
    const hn_expr bytes = hn_workspace_of_groups(f.w, line).bytes,
                  s0 = hn_sym_symbol(f.sym, HN_STR("s0"), HN_SYMBOL_SIZE, 1, 100);
    static const int64_t sizes[][2] = {{1, 512}, {32, 512}, {33, 528}, {100, 1600}};
    for (size_t k = 0; k < HN_COUNT_OF(sizes); k++) {
        int64_t got = 0;
        EXPECT(hn_sym_eval(f.sym, bytes, &s0, &sizes[k][0], 1, &got));
        EXPECT_INT(got, sizes[k][1]);
    }
    teardown(&f);
}

TEST(workspace_for_all_variants) {
    fixture f;
    EXPECT_OK(setup(
        &f, "wrapper { symbol size s0 in [1, 100] buffer b1 : output f32[8] on cuda bytes(32) "
            "buffer b2 : workspace u8[64] on cuda bytes(64) kernel k1 : object 0 "
            "call k1(out b1 f32) extent(1) threads 32 scratch(64) form \"a\" in b2 on cuda "
            "or k1 extent(2) threads 32 scratch(64) form \"b\" choose [s0] else 0 [] }"));
    EXPECT_ERROR(hn_wrapper_verify(f.w), HN_INTERNAL, "line 0: workspace 2 is too small");
    teardown(&f);
}

TEST(what_is_no_variant) {
    static const char *const rows[][2] = {
        {CALL, "copy b3 from b2"},
        {"copy b3 from b2", CALL},
        {CALL, "call k2(b1 f32) extent(s0) threads 32 form \"b\""},
        {CALL, CALL "or k2 extent(s0) form \"c\" choose [s0] else 0 []"}};
    for (size_t k = 0; k < HN_COUNT_OF(rows); k++) {
        fixture f;
        char text[2048];
        snprintf(text, sizeof text, TABLES "%s %s }", rows[k][0], rows[k][1]);
        EXPECT_OK(setup(&f, text));
        hn_line line = f.w->lines.items[0];
        EXPECT_ERROR(hn_line_add_variant(f.w, &line, &f.w->lines.items[1]), HN_INTERNAL,
                     "cannot be a variant");
        teardown(&f);
    }
}

TEST(too_many_variants) {
    fixture f;
    EXPECT_OK(setup(&f, TABLES CALL "}"));
    const hn_line one = f.w->lines.items[0];
    hn_line line = one;
    while (hn_line_variants(&line) < HN_CHOICE_VARIANTS)
        EXPECT_OK(hn_line_add_variant(f.w, &line, &one));
    EXPECT_ERROR(hn_line_add_variant(f.w, &line, &one), HN_INTERNAL, "more than 64 variants");
    teardown(&f);
}

TEST_MAIN
