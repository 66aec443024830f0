/* The text form: canonical texts stay as they are, every construct survives, errors have places. */
#include "unit/ir/ir_fixture.h"

#include "base/compiler.h"

#include <locale.h>
#include <stdlib.h>

typedef struct text_test {
    hn_arena arena;
    hn_sym *sym;
    hn_graph *g;
} text_test;

static hn_status parse(text_test *t, hn_str text) {
    hn_arena_init(&t->arena);
    t->g = NULL;
    HN_TRY(hn_sym_create(&t->arena, &t->sym));
    return hn_graph_parse(&t->arena, t->sym, text, &t->g);
}
static void release(text_test *t) {
    hn_graph_deinit(t->g);
    hn_arena_deinit(&t->arena);
}

/* Owns: the caller frees the text. */
static char *print(const hn_graph *g) {
    hn_strbuf buf;
    hn_strbuf_init(&buf);
    hn_graph_print(g, &buf);
    EXPECT_OK(hn_strbuf_status(&buf));
    return buf.ptr;
}

/* Prints, parses in a fresh context, verifies and prints again: both texts must be equal. */
static char *round_trip(hn_graph *g, bool verify) {
    char *first = print(g), *second = NULL;
    text_test t;
    EXPECT_OK(parse(&t, hn_str_of(first)));
    if (t.g) {
        if (verify) EXPECT_OK(hn_graph_verify(t.g, HN_LEGAL_ANY));
        second = print(t.g);
        EXPECT_STR(second, first);
    }
    free(second);
    release(&t);
    return first;
}

/* A text that printing gives back byte for byte. */
static void expect_canonical(const char *text) {
    text_test t;
    EXPECT_OK(parse(&t, hn_str_of(text)));
    if (t.g) {
        EXPECT_OK(hn_graph_verify(t.g, HN_LEGAL_ANY));
        char *printed = print(t.g);
        EXPECT_STR(printed, text);
        free(printed);
    }
    release(&t);
}

/* `text` parses, and then prints as `canonical`. */
static void expect_prints(const char *text, const char *canonical) {
    text_test t;
    EXPECT_OK(parse(&t, hn_str_of(text)));
    if (t.g) {
        char *printed = print(t.g);
        EXPECT_STR(printed, canonical);
        free(printed);
    }
    release(&t);
}

static void expect_fails(const char *text, const char *message) {
    text_test t;
    EXPECT_ERROR(parse(&t, hn_str_of(text)), HN_INVALID_ARGUMENT, message);
    EXPECT(t.g == NULL);
    release(&t);
}

TEST(examples_of_inputs) {
    expect_canonical("graph {\n"
                     "  symbol size s0 in [0, inf]\n"
                     "  input user %x : f32[s0] strides [1] example [1] hex 0000803f \"x\"\n"
                     "  input user %n : symint(s0) example [] hex 0100000000000000 \"n\"\n"
                     "  input user %e : i64[s0, 3] example [0, 3] \"e\"\n"
                     "}\n");
    expect_fails("graph {\n  input user %x : f32[2] example [2, 1] hex 00 \"x\"\n}",
                 "line 2, column 34: the example has another rank than the input");
    expect_fails("graph {\n  input user %x : f32[2] example [-1] hex 00 \"x\"\n}",
                 "line 2, column 35: a size is not negative");
    expect_fails("graph {\n  input user %x : f32[2] example [2] hex 00 \"x\"\n}",
                 "line 2, column 42: the number of bytes differs from the size");
    expect_fails("graph {\n  input user %x : f32[2] example [2] \"x\"\n}",
                 "line 2, column 38: expected 'hex'");
    expect_fails("graph {\n  input user %x : f32[2, 2] example [4611686018427387904, 4] hex 00 "
                 "\"x\"\n}",
                 "the bytes of the example exceed 64 bits");
}

/* Sizes of examples are those of the input, and only users' inputs have some. */
TEST(examples_are_verified) {
    static const struct {
        const char *input, *message;
    } cases[] = {
        {"input user %x : f32[2] example [1] hex 00000000 \"x\"",
         "size 0 of its example is 1, not 2"},
        {"storage 1 : 4 bytes\n"
         "input constant %x : f32[1] storage 1 offset 0 example [1] hex 00000000 \"x\"",
         "only inputs of the user have an example"},
    };
    for (size_t k = 0; k < HN_COUNT_OF(cases); k++) {
        char text[200];
        text_test t;
        snprintf(text, sizeof text, "graph {\n%s\n}", cases[k].input);
        EXPECT_OK(parse(&t, hn_str_of(text)));
        if (t.g) EXPECT_ERROR(hn_graph_verify(t.g, HN_LEGAL_ANY), HN_INTERNAL, cases[k].message);
        release(&t);
    }
}

/* What the usual text leaves out: bytes of large storages and examples. */
TEST(whole_texts_have_all_bytes) {
    char text[600] = "graph {\n  storage 1 : 100 bytes hex ";
    for (int k = 0; k < 100; k++) strcat(text, "a5");
    strcat(text, "\n  input user %x : u8[70] example [70] hex ");
    for (int k = 0; k < 70; k++) strcat(text, "01");
    strcat(text, " \"x\"\n}\n");
    text_test t;
    hn_strbuf whole;
    hn_strbuf_init(&whole);
    EXPECT_OK(parse(&t, hn_str_of(text)));
    if (t.g) {
        char *usual = print(t.g);
        hn_graph_print_whole(t.g, &whole);
        EXPECT_STR(hn_strbuf_str(&whole).ptr, text);
        EXPECT_STR(usual, "graph {\n  storage 1 : 100 bytes\n  input user %x : u8[70] \"x\"\n}\n");
        free(usual);
    }
    hn_strbuf_deinit(&whole);
    release(&t);
}

TEST(documented_example) {
    expect_canonical(
        "graph @mlp {\n"
        "  symbol size s77 in [2, 32] hint 8\n"
        "  guard s77 <= 32 \"sizes that meet in a broadcast are equal\"\n"
        "  storage 1 : 2560 bytes record \"data/weights/weight_0\"\n"
        "  input user %x : f32[s77, 64] strides [64, 1] \"x\"\n"
        "  input parameter %w : f32[10, 64] storage 1 offset 0 \"linear.weight\"\n"
        "  %2 = permute(%w, dims=[1, 0]) : f32[64, 10]\n"
        "  %linear = matmul(%x, %2, bias=none) : f32[s77, 10] at \"linear_1\" \"model.py:12\"\n"
        "  output user %linear \"y\"\n"
        "}\n");
}

TEST(every_statement) {
    expect_canonical(
        "graph @\"odd \\\"name\\\"\\n\" {\n"
        "  symbol size s0 in [2, inf] divisor 8 hint 16\n"
        "  symbol size s1 in [-inf, 100]\n"
        "  symbol data u0 in [0, 12]\n"
        "  symbol data u8 in [0, inf]\n"
        "  guard s0 != s1 \"a\"\n"
        "  guard s0//3 < s1 \"b\"\n"
        "  storage 1 : 8 bytes hex 0000803f00ff0040\n"
        "  storage 2 : 1048576 bytes record \"w\" offset 64\n"
        "  storage 3 : 0 bytes\n"
        "  input user %0 : bool[] \"\"\n"
        "  input user %n : symint(s0 + s1) \"n\"\n"
        "  input user %2 : symfloat name \"n\" \"f\"\n"
        "  input user %3 : symbool \"q\"\n"
        "  input constant %4 : f32[2] storage 1 offset 0 \"c\"\n"
        "  input buffer %b : f32[2, 1] strides [0, 1] storage 1 offset 1 \"b\"\n"
        "  input scalar \"k\" = 3\n"
        "  input scalar \"mode\" = \"a\\x00b\\t\"\n"
        "  input scalar \"nothing\" = none\n"
        "  %6, %7 = sort(%b, dim=1, descending=true, stable=false) : f32[2, 1], i64[2, 1]\n"
        "  _, %8 = cummax(%b, dim=0) : _, i64[2, 1]\n"
        "  %9 = aten.add.Tensor(%b, %6, alpha=1) : f32[2, 1] strides [1, 1] name \"two words\"\n"
        "  %10 = aten.index.Tensor(%9, [none, %8]) : f32[2, 2, 1]\n"
        "  %11 = aten.upsample_nearest3d.vec(%9, output_size=none, scale_factors=[0.5, 1.0, 2.5]) : f32[]\n"
        "  %12 = full(value=-inf, sizes=[2, s0], dtype=bf16) : bf16[2, s0] at \"full\" \"\"\n"
        "  %13 = iota(start=0, step=s1 - 2*s0, size=s0, dtype=i64) : i64[s0]\n"
        "  %14 = nonzero(%b) : i64[u0, 2]\n"
        "  %15 = item(%0) : symbool\n"
        "  %16 = aten.view.default(%b, [%n]) : f32[s0 + s1]\n"
        "  assert(%15, message=\"it \\\\ holds\")\n"
        "  %17 = cond(%0, then=graph @yes {\n"
        "    input user %x : f32[2] \"\"\n"
        "    %1 = neg(%x) : f32[2]\n"
        "    output user %1 \"\"\n"
        "  }, otherwise=graph {\n"
        "    input user %0 : f32[2] \"\"\n"
        "    output user %0 \"\"\n"
        "  }, [%4]) : f32[2]\n"
        "  output user %17 \"y\"\n"
        "  output mutation %9 of 5 \"b\"\n"
        "  output scalar \"z\" = %n\n"
        "  output scalar \"e\" = 2*s0 + 1\n"
        "  output scalar \"t\" = true\n"
        "  output scalar \"p\" = 0.1\n"
        "  output scalar \"l\" = [1, s0]\n"
        "  output scalar \"u8\" = u8\n"
        "  output scalar \"d\" = dtype(u8)\n"
        "}\n");
}

TEST(floats_survive) {
    expect_canonical("graph {\n"
                     "  %0 = full(value=1.0, sizes=[], dtype=f64) : f64[]\n"
                     "  %1 = full(value=-0.0, sizes=[], dtype=f64) : f64[]\n"
                     "  %2 = full(value=1e-05, sizes=[], dtype=f64) : f64[]\n"
                     "  %3 = full(value=1e+300, sizes=[], dtype=f64) : f64[]\n"
                     "  %4 = full(value=0.1, sizes=[], dtype=f64) : f64[]\n"
                     "  %5 = full(value=0.30000000000000004, sizes=[], dtype=f64) : f64[]\n"
                     "  %6 = full(value=4.94065645841247e-324, sizes=[], dtype=f64) : f64[]\n"
                     "  %7 = full(value=nan, sizes=[], dtype=f64) : f64[]\n"
                     "  %8 = full(value=inf, sizes=[], dtype=f64) : f64[]\n"
                     "  %9 = full(value=-inf, sizes=[], dtype=f64) : f64[]\n"
                     "  %10 = full(value=-7, sizes=[], dtype=f64) : f64[]\n"
                     "  %11 = full(value=9.223372036854776e+18, sizes=[], dtype=f64) : f64[]\n"
                     "}\n");
}

TEST(expressions_print_alike_in_every_context) {
    fixture f;
    fixture_init(&f);
    /* Made in another order than a reader of the text makes them. */
    fixture_expr(&f, "s9//2");
    fixture_expr(&f, "Max(s10, s9)");
    hn_value x = fixture_input(&f, HN_DTYPE_F32, "s10*s2 + s9//2 - 3*s2 + 4");
    fixture_input(&f, HN_DTYPE_F32, "-(s3//2) - s3%5 - 2*(s10*s2) + 7,(s2 + s3)//(s3 - s2*2),-s9");
    char *text = round_trip(f.g, false);
    EXPECT(strstr(text, "f32[s9//2 - 3*s2 + s2*s10 + 4]") != NULL);
    EXPECT(strstr(text, "f32[-(s3%5) - s3//2 - 2*s2*s10 + 7, (s2 + s3)//(s3 - 2*s2), -s9]") !=
           NULL);
    EXPECT(
        strstr(
            text,
            "symbol size s2 in [-inf, inf]\n  symbol size s3 in [-inf, inf]\n  symbol size s9 ") !=
        NULL);
    free(text);
    fixture_output(&f, x);
    fixture_deinit(&f);
}

TEST(guards_survive_with_what_was_learned_from_them) {
    fixture f;
    fixture_init(&f);
    hn_value a = fixture_input(&f, HN_DTYPE_F32, "s0"), b = fixture_input(&f, HN_DTYPE_F32, "s1,4");
    hn_b_slice(f.g, a, 0, fixture_expr(&f, "0"), fixture_expr(&f, "5"), 1); /* 5 <= s0 narrows s0 */
    hn_b_slice(f.g, a, 0, fixture_expr(&f, "0"), fixture_expr(&f, "7"), 1);
    hn_b_binary(f.g, HN_OP_MUL, hn_b_reduce(f.g, HN_OP_SUM, b, (uint32_t[]){1}, 1, false), a);
    EXPECT_OK(hn_graph_status(f.g));
    char *text = round_trip(f.g, true);
    EXPECT(strstr(text, "guard 5 <= s0") && strstr(text, "guard 7 <= s0"));
    EXPECT(strstr(text, "s1 == s0") || strstr(text, "s0 == s1"));
    free(text);
    fixture_deinit(&f);
}

TEST(names_become_labels_once) {
    fixture f;
    fixture_init(&f);
    hn_expr two = hn_sym_int(f.sym, 2);
    static const char *const names[] = {"x", "x", "7", "a b", "x.y", "_", "inf"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        hn_value v = hn_graph_add_tensor(f.g, HN_DTYPE_F32, 1, &two, NULL, hn_str_of(names[i]));
        EXPECT_OK(hn_graph_add_input(
            f.g, (hn_input){.kind = HN_INPUT_USER, .value = v, .name = HN_STR("")}));
    }
    char *text = round_trip(f.g, true);
    EXPECT_STR(text, "graph {\n"
                     "  input user %x : f32[2] \"\"\n"
                     "  input user %1 : f32[2] name \"x\" \"\"\n"
                     "  input user %2 : f32[2] name \"7\" \"\"\n"
                     "  input user %3 : f32[2] name \"a b\" \"\"\n"
                     "  input user %x.y : f32[2] \"\"\n"
                     "  input user %5 : f32[2] name \"_\" \"\"\n"
                     "  input user %inf : f32[2] \"\"\n"
                     "}\n");
    free(text);
    fixture_deinit(&f);
}

TEST(bytes_of_constants) {
    fixture f;
    fixture_init(&f);
    uint8_t bytes[65];
    for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (uint8_t)(i * 37);
    hn_expr sizes[] = {hn_sym_int(f.sym, 64), hn_sym_int(f.sym, 65)};
    hn_graph_add_constant(f.g, HN_DTYPE_U8, 1, &sizes[0], bytes, 64);
    hn_graph_add_constant(f.g, HN_DTYPE_U8, 1, &sizes[1], bytes, 65);
    char *text = round_trip(f.g, true);
    text_test t;
    EXPECT_OK(parse(&t, hn_str_of(text)));
    EXPECT(t.g->storages.items[1].data && memcmp(t.g->storages.items[1].data, bytes, 64) == 0);
    EXPECT(t.g->storages.items[2].data == NULL && t.g->storages.items[2].size_bytes == 65);
    release(&t);
    free(text);
    fixture_deinit(&f);
}

TEST(dead_nodes_are_not_printed) {
    fixture f;
    fixture_init(&f);
    hn_value x = fixture_input(&f, HN_DTYPE_F32, "2"), dead = fixture_input(&f, HN_DTYPE_F32, "2");
    dead = hn_b_reshape(f.g, dead, (hn_expr[]){fixture_expr(&f, "s1")}, 1);
    hn_graph_node(f.g, 1)->dead = true;
    fixture_output(&f, hn_b_unary(f.g, HN_OP_NEG, x));
    char *text = round_trip(f.g, true);
    EXPECT(!strstr(text, "reshape(") && strstr(text, "%2 = neg(%0) : f32[2]"));
    free(text);
    fixture_deinit(&f);
}

TEST(short_forms) {
    expect_prints(
        "graph{symbol size s0 in[2,9]input user %x:f32[s0,3]\"\" # a comment with a \" quote\n"
        "%y=permute(%x,[1,0])%v, %i = topk(%y,1,0,true,true)"
        "%m = matmul(%x, %y) %a = aten.add.Tensor(self=%x, other=%x) : f32[s0,3]\n"
        "%p = aten.avg_pool2d.default(%x, [2, 2], ceil_mode=true) : f32[s0, 3]\n"
        "output user %m\"\"}#",
        "graph {\n"
        "  symbol size s0 in [2, 9]\n"
        "  input user %x : f32[s0, 3] \"\"\n"
        "  %y = permute(%x, dims=[1, 0]) : f32[3, s0]\n"
        "  %v, %i = topk(%y, k=1, dim=0, largest=true, sorted=true) : f32[1, s0], i64[1, s0]\n"
        "  %m = matmul(%x, %y, bias=none) : f32[s0, s0]\n"
        "  %a = aten.add.Tensor(%x, %x, alpha=1) : f32[s0, 3]\n"
        "  %p = aten.avg_pool2d.default(%x, kernel_size=[2, 2], stride=[], padding=[0, 0], ceil_mode=true, "
        "count_include_pad=true, divisor_override=none) : f32[s0, 3]\n"
        "  output user %m \"\"\n"
        "}\n");
}

TEST(every_op_prints_and_parses) {
    fixture f;
    fixture_init(&f);
    hn_value x = fixture_input(&f, HN_DTYPE_F32, "2"), xs[2] = {x, x};
    hn_expr one = hn_sym_int(f.sym, 1), ints[2] = {one, fixture_expr(&f, "s0")};
    double floats[2] = {1, 2};
    hn_graph *leaf = NULL;
    EXPECT_OK(hn_graph_create(&f.arena, f.sym, &leaf));
    for (uint32_t op = 1; op < HN_ALL_OP_COUNT; op++) {
        uint32_t count;
        const hn_param *params = hn_op_params((hn_op)op, &count);
        hn_arg args[64];
        if (hn_op_facts((hn_op)op)->op_class == HN_OPC_NONE) continue;
        for (uint32_t i = 0; i < count; i++) {
            switch (params[i].kind) {
            case HN_PARAM_TENSOR: args[i] = hn_arg_value(x); break;
            case HN_PARAM_TENSORS: args[i] = hn_arg_values(xs, 2); break;
            case HN_PARAM_INT: args[i] = hn_arg_expr(ints[1]); break;
            case HN_PARAM_INTS: args[i] = hn_arg_exprs(ints, 2); break;
            case HN_PARAM_FLOAT:
            case HN_PARAM_SCALAR: args[i] = hn_arg_float(2.5); break;
            case HN_PARAM_FLOATS: args[i] = hn_arg_floats(floats, 2); break;
            case HN_PARAM_BOOL: args[i] = hn_arg_bool(true); break;
            case HN_PARAM_STRING: args[i] = hn_arg_string(HN_STR("word")); break;
            case HN_PARAM_DTYPE: args[i] = hn_arg_dtype(HN_DTYPE_I64); break;
            case HN_PARAM_GRAPH: args[i] = (hn_arg){.kind = HN_ARG_GRAPH, .as.graph = leaf}; break;
            }
        }
        hn_value result = hn_graph_add_tensor(f.g, HN_DTYPE_F32, 2, ints, NULL, HN_STR(""));
        hn_graph_add_node(f.g, (hn_op)op, args, count, &result, 1);
    }
    EXPECT_OK(hn_graph_status(f.g));
    free(round_trip(f.g, false));
    fixture_deinit(&f);
}

TEST(locale_does_not_matter) {
    /* not on this machine: the C locale was tested above */
    if (!setlocale(LC_NUMERIC, "de_DE.UTF-8")) return;
    expect_canonical("graph {\n  %0 = full(value=0.5, sizes=[], dtype=f64) : f64[]\n}\n");
    setlocale(LC_NUMERIC, "C");
}

/* --- errors --- */

TEST(errors_have_places) {
    expect_fails("", "line 1, column 1: expected 'graph'");
    expect_fails("graph {", "line 1, column 8: expected '}'");
    expect_fails("graph {\n  input user %x : f32[2] \"\"\n  %y = foo(%x)\n}",
                 "line 3, column 8: unknown op");
    expect_fails("graph {\n%y = neg(%x)\n}", "line 2, column 11: the value is not defined");
    expect_fails("graph {\n input user %x : f32[2] \"\"\n input user %x : f32[2] \"\"}",
                 "line 3, column 14: the value is defined twice");
    expect_fails("graph {} x", "line 1, column 10: expected the end of the text");
    expect_fails("graph { input user %x : q8[2] \"\" }", "column 25: unknown type");
    expect_fails("graph { input user %x : f32[2 \"\" }", "expected ']'");
    expect_fails("graph { input user %x : f32[+] \"\" }", "line 1, column 29: ");
    expect_fails("graph { input user %x : f32[] strides [1] \"\" }",
                 "sizes and strides differ in number");
    expect_fails("graph { input user %x : f32[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1] \"\" }",
                 "too many sizes");
    expect_fails("graph { input user %x : symint \"\" }", "a symint needs its expression");
    expect_fails("graph { input thing %x : f32[] \"\" }", "expected the kind of an input");
    expect_fails("graph { input user %x : f32[] }", "expected '\"'");
    expect_fails("graph { input user %x : f32[] \"abc }", "the string does not end on its line");
    expect_fails("graph { input user %x : f32[] \"\\q\" }", "unknown escape");
    expect_fails("graph { input user %x : f32[] \"\\x4\" }", "unknown escape");
    expect_fails("graph { storage 2 : 8 bytes }", "storages are numbered from 1");
    expect_fails("graph { storage 1 : 2 bytes hex 00 }",
                 "the number of bytes differs from the size");
    expect_fails("graph { storage 1 : 2 bytes hex 000g }", "expected a hexadecimal digit");
    expect_fails("graph { storage 1 : -2 bytes }", "expected a size in bytes");
    expect_fails("graph { storage 1 : 99999999999999999999 bytes }", "the integer exceeds 64 bits");
    expect_fails("graph { input constant %x : f32[] storage 7 offset 0 \"\" }",
                 "storage does not exist");
    expect_fails("graph { symbol size inf in [0, 1] }", "not a fit name for a symbol");
    expect_fails("graph { symbol size s0 in [3, 1] }", "the range is empty");
    expect_fails("graph { guard s0 > 3 \"\" }", "line 1, column ");
    expect_fails("graph { output user 3 \"\" }", "expected '%'");
    expect_fails("graph { output mutation 3 \"\" }", "expected '%'");
}

TEST(errors_of_arguments) {
#define X "graph { input user %x : f32[2] \"\"\n"
    expect_fails(X "%y = neg() }", "argument 'x' is missing");
    expect_fails(X "%y = neg(%x, %x) }", "too many arguments");
    expect_fails(X "%y = add(y=%x, x=%x) }", "line 2, column 12: argument 'x' is missing");
    expect_fails(X "%y = neg(q=%x) }", "no such parameter, or out of order");
    expect_fails(X "%y = cast(%x, dtype=f33) }", "line 2, column 21: ");
    expect_fails(X "%y = neg(3) }", "argument 'x' of 'neg' does not fit");
    expect_fails(X "%y = permute(%x, [0, true]) }", "the elements of a list differ in kind");
    expect_fails(X "%y = permute(%x, [[0]]) }", "lists do not nest");
    expect_fails(X "%y = permute(%x, [\"a\"]) }", "a list holds values, integers or floats");
    expect_fails(X "%y = permute(%x, [1]) }", "no permutation");
    expect_fails(X "%y, %z = neg(%x) }", "the types of the results are missing");
    expect_fails(X "%y = nonzero(%x) }", "the types of the results are missing");
    expect_fails(X "%y = item(%x) }", "no rule");
    expect_fails(X "%y = neg(%x) : _ }", "unknown type");
    expect_fails(X "_ = neg(%x) : f32[2] }", "expected '_' for an absent result");
    expect_fails(X "%y = neg(%x) : f32[2], f32[2] }", "");
    expect_fails(X "%y = neg(%x) at \"a\" }", "expected '\"'");
#undef X
}

TEST(nesting_is_limited) {
    for (int depth = 100; depth <= 101; depth++) {
        hn_strbuf text;
        hn_strbuf_init(&text);
        for (int i = 0; i < depth; i++)
            hn_strbuf_puts(&text, "graph { %p = full(true, [], bool) cond(%p, ");
        hn_strbuf_puts(&text, "graph {}");
        for (int i = 0; i < depth; i++) hn_strbuf_puts(&text, ", graph {}, []) }");
        text_test t;
        if (depth <= 100) EXPECT_OK(parse(&t, hn_strbuf_str(&text)));
        else
            EXPECT_ERROR(parse(&t, hn_strbuf_str(&text)), HN_INVALID_ARGUMENT,
                         "subgraphs are nested too deep");
        if (t.g) {
            EXPECT_OK(hn_graph_verify(t.g, HN_LEGAL_PRIMITIVE));
            free(round_trip(t.g, true));
        }
        release(&t);
        hn_strbuf_deinit(&text);
    }
}

/* Every prefix of a text, and every text with one byte changed, gives a graph or an error. */
TEST(damaged_texts_give_errors) {
    static const char text[] =
        "graph @g {\n  symbol size s0 in [2, 64] hint 8\n  guard s0 != 7 \"r\"\n"
        "  storage 1 : 4 bytes hex 0000803f\n  input constant %c : f32[1] storage 1 offset 0 \"c\"\n"
        "  input user %x : f32[s0, 4] strides [4, 1] \"x\"\n"
        "  %2 = slice(%x, dim=0, start=s0 - 1, size=1, step=1) : f32[1, 4] at \"n\" \"f\"\n"
        "  %3 = cat([%2, %2], dim=0) : f32[2, 4]\n  output user %3 \"\"\n}\n";
    char copy[sizeof text];
    for (size_t len = 0; len + 1 < sizeof text; len++) {
        text_test t;
        char *exact = malloc(len ? len : 1); /* so that sanitizers see a read beyond */
        memcpy(exact, text, len);
        hn_status status = parse(&t, (hn_str){exact, len});
        if (!status && len + 2 < sizeof text) HN_TEST_FAIL("a text of %zu bytes parses", len);
        hn_status_free(status);
        release(&t);
        free(exact);
    }
    for (size_t i = 0; i + 1 < sizeof text; i++)
        for (const char *c = "%[]{}(),:\"0a#-="; *c; c++) {
            text_test t;
            memcpy(copy, text, sizeof text);
            copy[i] = *c;
            hn_status status = parse(&t, hn_str_of(copy));
            if (!status) status = hn_graph_verify(t.g, HN_LEGAL_ANY);
            hn_status_free(status);
            release(&t);
        }
}

/* --- the document --- */

static char *read_file(const char *path) {
    FILE *file = fopen(path, "rb");
    if (!file) return NULL;
    char *text = calloc(1, 1 << 20);
    size_t len = text ? fread(text, 1, (1 << 20) - 1, file) : 0;
    fclose(file);
    if (len == 0) HN_TEST_FAIL("'%s' is empty", path);
    return text;
}

static const char *word_of(unsigned dtypes) {
    static const char *const words[HN_DTYPES_ANY + 1] = {
        [HN_DTYPES_FLOAT] = "floats",   [HN_DTYPES_INT] = "ints",        [HN_DTYPES_BOOL] = "bool",
        [HN_DTYPES_NUMBER] = "numbers", [HN_DTYPES_BITS] = "ints, bool", [HN_DTYPES_ANY] = "all",
    };
    return words[dtypes] ? words[dtypes] : "?";
}

/* docs/ir.md lists every primitive as its row does. */
TEST(document_lists_the_rows) {
    char *text = read_file("docs/ir.md"), line[512];
    EXPECT(text != NULL); /* tests run in the root of the repository */
    for (uint32_t op = 1; text && op < HN_OP_COUNT; op++) {
        const hn_op_info *facts = hn_op_facts((hn_op)op);
        size_t len = (size_t)snprintf(line, sizeof line, "\n| `%s` | `%s` | %s | ", facts->name,
                                      facts->params_text, word_of(facts->dtypes));
        for (const char *c = facts->doc; *c && len + 6 < sizeof line; c++) {
            if (*c == '|') line[len++] = '\\';
            line[len++] = *c;
        }
        memcpy(line + len, " |\n", 4);
        if (!strstr(text, line)) HN_TEST_FAIL("docs/ir.md lacks the line%s", line);
    }
    free(text);
}

TEST_MAIN
