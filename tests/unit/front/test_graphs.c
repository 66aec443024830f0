/* Nodes that hold graphs: what is inlined, unrolled, kept whole or refused; and floats that are
 * made of sizes. */
#include "unit/front/import_fixture.h"

/* --- inlined and kept --- */

#define INNER_RELU                                                                                 \
    GRAPH(TENSOR("x"), TENSOR("r"),                                                                \
          NODE("torch.ops.aten.relu.default", "r", ARG("self", TENSOR("x")), TENSOR("r")),         \
          F23("x") ", " F23("r"))

TEST(set_grad_is_inlined) {
    program_parts p = one_node(
        NODE("torch.ops.aten.neg.default", "a", ARG("self", TENSOR("x")), TENSOR("a")) ", " NODE(
            "torch.ops.higher_order.wrap_with_set_grad_enabled", "w",
            ARG("", "{\"as_bool\": false}") ", " ARG(
                "", "{\"as_graph\": {\"name\": \"g\", \"graph\": " INNER_RELU
                    "}}") ", " ARG("", TENSOR("a")),
            TENSOR("y")));
    p.metas = F23("x") ", " F23("a") ", " F23("y");
    expect_graph(&p, "graph @model {\n"
                     "  input user %x : f32[2, 3] \"x\"\n"
                     "  %a = aten.neg.default(%x) : f32[2, 3] at \"a\" \"\"\n"
                     "  %r = aten.relu.default(%a) : f32[2, 3] at \"r\" \"\"\n"
                     "  output user %r \"y\"\n"
                     "}\n");
}

TEST(cond_holds_two_graphs) {
#define BRANCH(graph) "{\"as_graph\": {\"name\": \"g\", \"graph\": " graph "}}"
    program_parts p =
        one_node(NODE("torch.ops.higher_order.cond", "c",
                      ARG("", TENSOR("p")) ", " ARG("", BRANCH(INNER_RELU)) ", " ARG(
                          "", BRANCH(GRAPH(TENSOR("x"), TENSOR("x"), "",
                                           F23("x")))) ", " ARG("", TENSORS(NAME("x"))),
                      TENSOR("y")));
    p.inputs = TENSOR("x") ", " TENSOR("p");
    p.input_specs = USER_INPUT(TENSOR("x")) ", " USER_INPUT(TENSOR("p"));
    p.metas = F23("x") ", " F23("y") ", " META("p", "12", "", "");
    expect_graph(&p, "graph @model {\n"
                     "  input user %x : f32[2, 3] \"x\"\n"
                     "  input user %p : bool[] \"p\"\n"
                     "  %y = cond(%p, then=graph {\n"
                     "    input user %x : f32[2, 3] \"x\"\n"
                     "    %r = aten.relu.default(%x) : f32[2, 3] at \"r\" \"\"\n"
                     "    output user %r \"r\"\n"
                     "  }, otherwise=graph {\n"
                     "    input user %x : f32[2, 3] \"x\"\n"
                     "    output user %x \"x\"\n"
                     "  }, [%x]) : f32[2, 3] at \"c\" \"\"\n"
                     "  output user %y \"y\"\n"
                     "}\n");
}

/* --- loops --- */

#define F3(name)             META(name, "7", INT("3"), INT("1"))
#define I0(name)             META(name, "5", "", "")
#define INPUT_OF(kind, name) "{\"as_" kind "\": {\"name\": \"" name "\"}}"

TEST(scan_is_unrolled) {
#define STEP                                                                                       \
    GRAPH(TENSOR("c") ", " TENSOR("e"), TENSOR("s") ", " TENSOR("r"),                              \
          NODE("torch.ops.aten.add.Tensor", "s",                                                   \
               ARG("self", TENSOR("c")) ", " ARG("other", TENSOR("e")),                            \
               TENSOR("s")) ", " NODE("torch.ops.aten.relu.default", "r",                          \
                                      ARG("self", TENSOR("s")), TENSOR("r")),                      \
          F3("c") ", " F3("e") ", " F3("s") ", " F3("r"))
    program_parts p = one_node(NODE("torch.ops.higher_order.scan", "w",
                                    ARG("", BRANCH(STEP)) ", " ARG("", TENSORS(NAME("h"))) ", " ARG(
                                        "", TENSORS(NAME("x"))) ", " ARG("", TENSORS("")),
                                    TENSOR("last") ", " TENSOR("y")));
    p.inputs = TENSOR("x") ", " TENSOR("h");
    p.input_specs = USER_INPUT(TENSOR("x")) ", " USER_INPUT(TENSOR("h"));
    p.metas = F23("x") ", " F3("h") ", " F3("last") ", " F23("y");
    p.outputs = TENSOR("last") ", " TENSOR("y");
    p.output_specs = USER_OUTPUT(TENSOR("last")) ", " USER_OUTPUT(TENSOR("y"));
    expect_graph(&p, "graph @model {\n"
                     "  input user %x : f32[2, 3] \"x\"\n"
                     "  input user %h : f32[3] \"h\"\n"
                     "  %2 = aten.select.int(%x, dim=0, index=0) : f32[3] at \"w\" \"\"\n"
                     "  %s = aten.add.Tensor(%h, %2, alpha=1) : f32[3] at \"s\" \"\"\n"
                     "  %r = aten.relu.default(%s) : f32[3] at \"r\" \"\"\n"
                     "  %5 = aten.select.int(%x, dim=0, index=1) : f32[3] at \"w\" \"\"\n"
                     "  %6 = aten.add.Tensor(%s, %5, alpha=1) : f32[3] name \"s\" at \"s\" \"\"\n"
                     "  %7 = aten.relu.default(%6) : f32[3] name \"r\" at \"r\" \"\"\n"
                     "  %y = aten.stack.default([%r, %7], dim=0) : f32[2, 3] at \"w\" \"\"\n"
                     "  output user %6 \"last\"\n"
                     "  output user %y \"y\"\n"
                     "}\n");
}

#define WHILE(condition, start)                                                                    \
    one_node(NODE(                                                                                 \
        "torch.ops.aten.full.default", "i",                                                        \
        ARG("size", INTS("")) ", " ARG("fill_value", INT(start)),                                  \
        TENSOR("i")) ", " NODE("torch.ops.higher_order.while_loop", "w",                           \
                               ARG("", BRANCH(condition)) ", " ARG(                                \
                                   "",                                                             \
                                   BRANCH(GRAPH(                                                   \
                                       TENSOR("a") ", " TENSOR("b"), TENSOR("n") ", " TENSOR("r"), \
                                       NODE("torch.ops.aten.add.Tensor", "n",                      \
                                            ARG("self", TENSOR("a")) ", " ARG("other", INT("2")),  \
                                            TENSOR("n")) ", " NODE("torch.ops.aten.relu.default",  \
                                                                   "r", ARG("self", TENSOR("b")),  \
                                                                   TENSOR("r")),                   \
                                       I0("a") ", " F23("b") ", " I0("n") ", " F23(                \
                                           "r")))) ", " ARG("",                                    \
                                                            TENSORS(NAME("i") ", " NAME(           \
                                                                "x"))) ", " ARG("", TENSORS("")),  \
                               TENSOR("j") ", " TENSOR("y")))
#define BELOW(op, limit)                                                                           \
    GRAPH(TENSOR("a") ", " TENSOR("b"), TENSOR("t"),                                               \
          NODE("torch.ops.aten." op ".Scalar", "t",                                                \
               ARG("self", TENSOR("a")) ", " ARG("other", INT(limit)), TENSOR("t")),               \
          I0("a") ", " F23("b") ", " META("t", "12", "", ""))

TEST(counted_loops_are_unrolled) {
    program_parts p = WHILE(BELOW("lt", "4"), "1");
    p.metas = F23("x") ", " I0("i") ", " I0("j") ", " F23("y");
    expect_graph(
        &p,
        "graph @model {\n"
        "  input user %x : f32[2, 3] \"x\"\n"
        "  %i = aten.full.default(size=[], fill_value=1, dtype=none, layout=none, device=none, pin_memory=none) : i64[] at \"i\" \"\"\n"
        "  %n = aten.add.Tensor(%i, other=2, alpha=1) : i64[] at \"n\" \"\"\n"
        "  %r = aten.relu.default(%x) : f32[2, 3] at \"r\" \"\"\n"
        "  %4 = aten.add.Tensor(%n, other=2, alpha=1) : i64[] name \"n\" at \"n\" \"\"\n"
        "  %5 = aten.relu.default(%r) : f32[2, 3] name \"r\" at \"r\" \"\"\n"
        "  output user %5 \"y\"\n"
        "}\n");
}

/* Rounds that are known, and many; those that only the test tells, which may never end. */
TEST(long_loops_have_a_body) {
#define LOOP_TEXT(start, rounds, test)                                                             \
    "graph @model {\n"                                                                             \
    "  input user %x : f32[2, 3] \"x\"\n"                                                          \
    "  %i = aten.full.default(size=[], fill_value=" start                                          \
    ", dtype=none, layout=none, device=none, pin_memory=none) : i64[] at \"i\" \"\"\n"             \
    "  %j, %y = loop(" rounds ", " test ", body=graph {\n"                                         \
    "    input user %0 : i64[] \"\"\n"                                                             \
    "    input user %1 : f32[2, 3] \"\"\n"                                                         \
    "    %n = aten.add.Tensor(%0, other=2, alpha=1) : i64[] at \"n\" \"\"\n"                       \
    "    %r = aten.relu.default(%1) : f32[2, 3] at \"r\" \"\"\n"                                   \
    "    output user %n \"\"\n"                                                                    \
    "    output user %r \"\"\n"                                                                    \
    "  }, [%i, %x], []) : i64[], f32[2, 3] at \"w\" \"\"\n"                                        \
    "  output user %y \"y\"\n"                                                                     \
    "}\n"
#define TEST_TEXT(op, limit)                                                                       \
    "test=graph {\n"                                                                               \
    "    input user %0 : i64[] \"\"\n"                                                             \
    "    input user %1 : f32[2, 3] \"\"\n"                                                         \
    "    %t = aten." op ".Scalar(%0, other=" limit ") : bool[] at \"t\" \"\"\n"                    \
    "    output user %t \"\"\n"                                                                    \
    "  }"
    program_parts endless = WHILE(BELOW("ge", "1"), "1"), many = WHILE(BELOW("lt", "100001"), "0"),
                  other = WHILE(BELOW("eq", "1"), "1");
    endless.metas = many.metas = other.metas = F23("x") ", " I0("i") ", " I0("j") ", " F23("y");
    expect_graph(&many, LOOP_TEXT("0", "rounds=50001", "test=none"));
    expect_graph(&endless, LOOP_TEXT("1", "rounds=none", TEST_TEXT("ge", "1")));
    expect_graph(&other, LOOP_TEXT("1", "rounds=none", TEST_TEXT("eq", "1")));
}

TEST(malformed_loops_and_autocast) {
    program_parts loop =
        one_node(NODE("torch.ops.higher_order.while_loop", "w", ARG("", TENSOR("x")), TENSOR("y")));
    expect_refused(&loop, HN_INVALID_ARGUMENT, "argument 0 is no graph");
    program_parts cast = one_node(NODE(
        "torch.ops.higher_order.wrap_with_autocast", "w",
        ARG("", "{\"as_string\": \"cpu\"}") ", " ARG("", "{\"as_scalar_type\": 13}") ", " ARG(
            "",
            "{\"as_bool\": true}") ", " ARG("",
                                            "{\"as_none\": true}") ", " ARG("",
                                                                            "{\"as_graph\": {\"name\": \"g\", \"graph\": " GRAPH(
                                                                                "", "", "",
                                                                                "") "}}"),
        TENSOR("y")));
    expect_refused(&cast, HN_UNSUPPORTED, "autocast is on");
}

/* --- floats --- */

#define S0          "Symbol('s0', positive=True, integer=True)"
#define FLOAT(name) "{\"as_sym_float\": {\"as_name\": \"" name "\"}}"

TEST(fractions_of_sizes_are_computed) {
    program_parts p = one_node(NODE(
        "torch.ops.aten.sym_size.int", "n", ARG("self", TENSOR("x")) ", " ARG("dim", INT("0")),
        "{\"as_sym_int\": {\"as_name\": \"n\"}}") ", " NODE("_operator.truediv", "h",
                                                            ARG("a", "{\"as_sym_int\": {\"as_name\": \"n\"}}") ", " ARG(
                                                                "b", INT("2")),
                                                            FLOAT(
                                                                "h")) ", " NODE("torch.ops.aten.mul.Tensor",
                                                                                "m",
                                                                                ARG("self", TENSOR("x")) ", " ARG(
                                                                                    "other",
                                                                                    FLOAT("h")),
                                                                                TENSOR("y")));
    p.metas = META("x", "7", EXPR(S0, "8"), INT("1")) ", " META("y", "7", EXPR(S0, "8"), INT("1"));
    p.sym_ints = "\"n\": " EXPR(S0, "8");
    p.sym_floats = "\"h\": " EXPR("IntTrueDiv(" S0 ", Integer(2))", "4");
    p.ranges = "\"s0\": {\"min_val\": 2, \"max_val\": 64}";
    expect_graph(&p, "graph @model {\n"
                     "  symbol size s0 in [0, 64] hint 8\n"
                     "  input user %x : f32[s0] \"x\"\n"
                     "  %1 = full(value=s0, sizes=[], dtype=i64) : i64[] at \"h\" \"\"\n"
                     "  %2 = cast(%1, dtype=f64) : f64[] at \"h\" \"\"\n"
                     "  %3 = full(value=2, sizes=[], dtype=i64) : i64[] at \"h\" \"\"\n"
                     "  %4 = cast(%3, dtype=f64) : f64[] at \"h\" \"\"\n"
                     "  %5 = div(%2, %4) : f64[] at \"h\" \"\"\n"
                     "  %6 = item(%5) : symfloat at \"h\" \"\"\n"
                     "  %y = aten.mul.Tensor(%x, %6) : f32[s0] at \"m\" \"\"\n"
                     "  output user %y \"y\"\n"
                     "}\n");
}

TEST_MAIN
