/* The importer on programs written here: what becomes of each construct, and what is refused.
 * Expected graphs are in the text form of docs/ir.md. */
#include "unit/front/import_fixture.h"

/* --- arguments --- */

TEST(defaults_names_and_order) {
    /* by name in another order; a number for a tensor; alpha left out */
    program_parts p =
        one_node(NODE("torch.ops.aten.add.Tensor", "n",
                      ARG("other", INT("2")) ", " ARG("self", TENSOR("x")), TENSOR("y")));
    expect_graph(&p, "graph @model {\n"
                     "  input user %x : f32[2, 3] \"x\"\n"
                     "  %y = aten.add.Tensor(%x, other=2, alpha=1) : f32[2, 3] at \"n\" \"\"\n"
                     "  output user %y \"y\"\n"
                     "}\n");
    /* without names, by position */
    program_parts q = one_node(
        NODE("torch.ops.aten.add.Tensor", "n",
             ARG("", TENSOR("x")) ", " ARG("", TENSOR("x")) ", " ARG("", "{\"as_float\": 0.5}"),
             TENSOR("y")));
    expect_graph(&q, "graph @model {\n"
                     "  input user %x : f32[2, 3] \"x\"\n"
                     "  %y = aten.add.Tensor(%x, %x, alpha=0.5) : f32[2, 3] at \"n\" \"\"\n"
                     "  output user %y \"y\"\n"
                     "}\n");
}

TEST(numbers_become_lists) {
    program_parts p = one_node(NODE(
        "torch.ops.aten.avg_pool2d.default", "n",
        ARG("self", TENSOR("x")) ", " ARG("kernel_size", INT("3")) ", " ARG("stride", INTS("2, 1")),
        TENSOR("y")));
    expect_graph(
        &p,
        "graph @model {\n"
        "  input user %x : f32[2, 3] \"x\"\n"
        "  %y = aten.avg_pool2d.default(%x, kernel_size=[3, 3], stride=[2, 1], padding=[0, 0], ceil_mode=false, "
        "count_include_pad=true, divisor_override=none) : f32[2, 3] at \"n\" \"\"\n"
        "  output user %y \"y\"\n"
        "}\n");
}

TEST(enums_devices_and_nones) {
    program_parts p = one_node(NODE(
        "torch.ops.aten._to_copy.default", "n",
        ARG("self", TENSOR("x")) ", " ARG("dtype", "{\"as_scalar_type\": 7}") ", " ARG("layout", "{\"as_layout\": 7}") ", " ARG(
            "device",
            "{\"as_device\": {\"type\": \"cuda\", \"index\": 1}}") ", " ARG("pin_memory",
                                                                            "{\"as_none\": []}") ", " ARG("memory_format",
                                                                                                          "{\"as_memory_format\": 4}"),
        TENSOR("y")));
    expect_graph(
        &p,
        "graph @model {\n"
        "  input user %x : f32[2, 3] \"x\"\n"
        "  %y = aten._to_copy.default(%x, dtype=f32, layout=\"strided\", device=\"cuda:1\", pin_memory=none, "
        "non_blocking=false, memory_format=\"preserve_format\") : f32[2, 3] at \"n\" \"\"\n"
        "  output user %y \"y\"\n"
        "}\n");
}

TEST(optional_tensors_and_empty_lists) {
    program_parts p = one_node(NODE(
        "torch.ops.aten.index.Tensor", "n",
        ARG("self", TENSOR("x")) ", " ARG(
            "indices",
            "{\"as_optional_tensors\": [{\"as_none\": true}, {\"as_tensor\": {\"name\": \"x\"}}]}"),
        TENSOR("y")) ", " NODE("torch.ops.aten.amax.default", "m",
                               ARG("self", TENSOR("y")) ", " ARG("dim", TENSORS("")), TENSOR("z")));
    p.metas = F23("x") ", " F23("y") ", " META("z", "7", "", "");
    expect_graph(&p, "graph @model {\n"
                     "  input user %x : f32[2, 3] \"x\"\n"
                     "  %y = aten.index.Tensor(%x, [none, %x]) : f32[2, 3] at \"n\" \"\"\n"
                     "  %z = aten.amax.default(%y, dim=[], keepdim=false) : f32[] at \"m\" \"\"\n"
                     "  output user %y \"y\"\n"
                     "}\n");
}

TEST(bad_arguments) {
    static const struct {
        const char *node;
        hn_code code;
        const char *message;
    } cases[] = {
        {NODE("torch.ops.aten.relu.default", "n", "", TENSOR("y")), HN_INVALID_ARGUMENT,
         "argument 'self' is missing"},
        {NODE("torch.ops.aten.relu.default", "n", ARG("self", TENSOR("q")), TENSOR("y")),
         HN_INVALID_ARGUMENT, "'q' is used but not defined"},
        {NODE("torch.ops.aten.relu.default", "n", ARG("self", TENSOR("y")), TENSOR("y")),
         HN_INVALID_ARGUMENT, "'y' is used but not defined"},
        {NODE("torch.ops.aten.relu.default", "n", ARG("self", TENSOR("x")), TENSOR("x")),
         HN_INVALID_ARGUMENT, "'x' is defined twice"},
        {NODE("torch.ops.aten.relu.default", "n", ARG("self", TENSOR("x")), TENSOR("w")),
         HN_INVALID_ARGUMENT, "'w' is not described"},
        {NODE("torch.ops.aten.relu.default", "n", ARG("self", TENSOR("x")), ""),
         HN_INVALID_ARGUMENT, "0 results where 1"},
        {NODE("torch.ops.aten.relu.default", "n",
              ARG("self", TENSOR("x")) ", " ARG("self", TENSOR("x")), TENSOR("y")),
         HN_UNSUPPORTED, "'self' is given twice"},
        {NODE("torch.ops.aten.relu.default", "n",
              ARG("self", TENSOR("x")) ", " ARG("new", INT("1")), TENSOR("y")),
         HN_UNSUPPORTED, "'new' is not one of this operator's"},
        {NODE("torch.ops.aten.relu.default", "n", ARG("self", "{\"as_string\": \"x\"}"),
              TENSOR("y")),
         HN_INVALID_ARGUMENT, "'self'"},
        {NODE("torch.ops.aten.relu.default", "n", ARG("self", "{\"as_hologram\": 1}"), TENSOR("y")),
         HN_UNSUPPORTED, "kind 'as_hologram'"},
        {NODE("torch.ops.aten.sum.default", "n",
              ARG("self", TENSOR("x")) ", " ARG("dtype", "{\"as_scalar_type\": 10}"), TENSOR("y")),
         HN_UNSUPPORTED, "complex64"},
        {NODE("torch.ops.aten.relu.default", "n",
              ARG("self", "{\"as_tensor\": {\"name\": \"x\"}, \"as_int\": 1}"), TENSOR("y")),
         HN_CORRUPT, "one key only"},
        {NODE("torch.ops.aten.relu.default", "n", ARG("self", "3"), TENSOR("y")), HN_CORRUPT,
         "expected an object"},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        program_parts p = one_node(cases[k].node);
        expect_refused(&p, cases[k].code, cases[k].message);
    }
    /* an argument that a later version added does no harm while it is None */
    program_parts p = one_node(NODE("torch.ops.aten.relu.default", "n",
                                    ARG("self", TENSOR("x")) ", " ARG("new", "{\"as_none\": true}"),
                                    TENSOR("y")));
    fixture f;
    EXPECT_OK(import_parts(&f, &p, NULL));
    done(&f);
}

/* --- results --- */

TEST(result_lists_and_absent_results) {
    program_parts p = one_node(NODE(
        "torch.ops.aten.split.Tensor", "s",
        ARG("self", TENSOR("x")) ", " ARG("split_size", INT("2")) ", " ARG("dim", INT("1")),
        TENSORS(NAME("a") ", " NAME(
            "b"))) ", " NODE("torch.ops.aten.native_layer_norm_backward.default", "l",
                             ARG("grad_out", TENSOR("a")) ", " ARG("input", TENSOR("a")) ", " ARG("normalized_shape", INTS("2")) ", " ARG(
                                 "mean",
                                 TENSOR(
                                     "a")) ", " ARG("rstd",
                                                    TENSOR(
                                                        "a")) ", " ARG("weight",
                                                                       "{\"as_none\": true}") ", " ARG("bias",
                                                                                                       "{\"as_none\": true}") ", " ARG("output_mask",
                                                                                                                                       "{\"as_bools\": [true, false, false]}"),
                             TENSOR("y") ", {\"as_none\": true}, {\"as_none\": true}"));
    p.metas =
        F23("x") ", " META("a", "7", INT("2") ", " INT("2"), INT("3") ", " INT("1")) ", " META(
            "b", "7", INT("2") ", " INT("1"),
            INT("3") ", " INT("1")) ", " META("y", "7", INT("2") ", " INT("2"),
                                              INT("2") ", " INT("1"));
    expect_graph(
        &p,
        "graph @model {\n"
        "  input user %x : f32[2, 3] \"x\"\n"
        "  %a, %b = aten.split.Tensor(%x, split_size=2, dim=1) : f32[2, 2] strides [3, 1], f32[2, 1] strides [3, 1] at \"s\" \"\"\n"
        "  %y, _, _ = aten.native_layer_norm_backward.default(%a, %a, normalized_shape=[2], %a, %a, weight=none, bias=none, "
        "output_mask=[1, 0, 0]) : f32[2, 2], _, _ at \"l\" \"\"\n"
        "  output user %y \"y\"\n"
        "}\n");
}

/* --- what henry lacks --- */

TEST(missing_operators_are_listed_once) {
    program_parts p = one_node(
        "{\"target\": \"torch.ops.aten.fft_fft.default\", \"inputs\": [" ARG("self", TENSOR("x")) "], \"outputs\": [" TENSOR(
            "c") "], \"name\": \"f1\", \"metadata\": {\"stack_trace\": \"File \\\"/home/u/net.py\\\", line 41, in forward\\n    a\\n  File "
                 "\\\"/v/site-packages/torch/nn/f.py\\\", line 9, in g\\n    b\"}}, " NODE(
                     "torch.ops.aten.real.default", "r", ARG("self", TENSOR("c")),
                     TENSOR("d")) ", " NODE("torch.ops.aten.fft_fft.default", "f2",
                                            ARG("self", TENSOR("d")),
                                            TENSOR("c2")) ", " NODE("torch.ops.mylib.twist.default",
                                                                    "t", ARG("x", TENSOR("d")),
                                                                    TENSOR("y")));
    p.metas = F23("x") ", " META("c", "10", INT("2"), INT("1")) ", " META(
        "c2", "10", INT("2"), INT("1")) ", " F23("d") ", " F23("y");
    expect_refused(
        &p, HN_UNSUPPORTED,
        "2 operators that henry cannot compile: 'aten.fft_fft.default' (node 'f1', net.py:41) and 1 more; 'mylib.twist.default' (node 't')");
}

TEST(a_vmap_that_was_not_applied) {
    program_parts p = one_node(NODE("torch._functorch.predispatch._add_batch_dim", "b",
                                    ARG("tensor", TENSOR("x")), TENSOR("y")));
    p.metas = F23("x") ", " F23("y");
    expect_refused(&p, HN_UNSUPPORTED,
                   "_add_batch_dim' (node 'b'): a step of torch.vmap; save "
                   "program.run_decompositions() in place of the exported program");
}

/* --- symbols --- */

#define S0 "Symbol('s0', positive=True, integer=True)"

TEST(symbolic_sizes_ranges_and_guards) {
    program_parts p = one_node(
        NODE("torch.ops.aten.sym_size.int", "sym_size", ARG("self", TENSOR("x")) ", " ARG("dim", INT("0")), "{\"as_sym_int\": {\"as_name\": \"n\"}}") ", " NODE(
            "_operator.mul", "mul",
            ARG("a", "{\"as_sym_int\": {\"as_name\": \"n\"}}") ", " ARG("b", INT("3")),
            "{\"as_sym_int\": {\"as_name\": \"m\"}}") ", " NODE("torch.ops.aten.view.default", "v",
                                                                ARG("self", TENSOR("x")) ", " ARG(
                                                                    "size",
                                                                    "{\"as_sym_ints\": [{\"as_name\": \"m\"}, {\"as_int\": 1}]}"),
                                                                TENSOR("y")));
    p.metas = META("x", "7", EXPR(S0, "8") ", " INT("3"), INT("3") ", " INT("1")) ", " META(
        "y", "7", EXPR("Mul(Integer(3), " S0 ")", "24") ", " INT("1"), INT("1") ", " INT("1"));
    p.sym_ints = "\"n\": " EXPR(S0, "8") ", \"m\": " EXPR("Mul(Integer(3), " S0 ")", "24");
    p.outputs = TENSOR("y") ", {\"as_sym_int\": {\"as_name\": \"m\"}}";
    p.output_specs =
        USER_OUTPUT(TENSOR("y")) ", " USER_OUTPUT("{\"as_sym_int\": {\"as_name\": \"m\"}}");
    p.ranges =
        "\"s0\": {\"min_val\": 2, \"max_val\": 64}, \"3*s0\": {\"min_val\": 9, \"max_val\": null}";
    p.guards =
        "\"(L['x'].size()[0] % 2) == 0\", \"L['x'].requires_grad == True\", \"L['x'].size()[0] <= 64\"";
    expect_graph(&p, "graph @model {\n"
                     "  symbol size s0 in [0, 64] hint 8\n"
                     "  guard 9 <= 3*s0 \"range of 3*s0\"\n"
                     "  guard s0%2 == 0 \"(L['x'].size()[0] % 2) == 0\"\n"
                     "  input user %x : f32[s0, 3] \"x\"\n"
                     "  %y = aten.view.default(%x, size=[3*s0, 1]) : f32[3*s0, 1] at \"v\" \"\"\n"
                     "  output user %y \"y\"\n"
                     "  output scalar \"\" = 3*s0\n"
                     "}\n");
}

TEST(assertions_on_sizes_and_data) {
#define ASSERT_SCALAR(name, cond)                                                                  \
    NODE("torch.ops.aten._assert_scalar.default", name,                                            \
         ARG("self", "{\"as_sym_bool\": {\"as_name\": \"" cond                                     \
                     "\"}}") ", " ARG("assert_msg", "{\"as_string\": \"msg " name "\"}"),          \
         "")
#define U0 "Symbol('u0', integer=True)"
    program_parts p =
        one_node(
            NODE("torch.ops.aten.item.default", "item", ARG("self", TENSOR("k")), "{\"as_sym_int\": {\"as_name\": \"item\"}}") ", " NODE("_operator.ge", "a", "", "{\"as_sym_bool\": {\"as_name\": \"a\"}}") ", " NODE("_operator.le", "b", "", "{\"as_sym_bool\": {\"as_name\": \"b\"}}") ", " NODE("_operator.lt", "c", "", "{\"as_sym_bool\": {\"as_name\": \"c\"}}") ", " ASSERT_SCALAR(
                "A",
                "a") ", " ASSERT_SCALAR("B",
                                        "b") ", " ASSERT_SCALAR("C",
                                                                "c") ", " NODE("torch.ops.aten.mul.Tensor",
                                                                               "y",
                                                                               ARG("self", TENSOR("x")) ", " ARG(
                                                                                   "other",
                                                                                   "{\"as_sym_int\": {\"as_name\": \"item\"}}"),
                                                                               TENSOR("y")));
    p.inputs = TENSOR("x") ", " TENSOR("k");
    p.input_specs = USER_INPUT(TENSOR("x")) ", " USER_INPUT(TENSOR("k"));
    p.metas = META("x", "7", EXPR(S0, "8") ", " INT("3"), INT("3") ", " INT("1")) ", " META(
        "y", "7", EXPR(S0, "8") ", " INT("3"), INT("3") ", " INT("1")) ", " META("k", "5", "", "");
    p.sym_ints = "\"item\": {\"as_expr\": {\"expr_str\": \"" U0 "\", \"hint\": null}}";
    p.sym_bools = "\"a\": {\"as_expr\": {\"expr_str\": \"GreaterThan(" U0 ", Integer(0))\"}}, "
                  "\"b\": {\"as_expr\": {\"expr_str\": \"LessThan(" U0 ", Integer(3))\"}}, "
                  "\"c\": {\"as_expr\": {\"expr_str\": \"StrictLessThan(" S0 ", Integer(50))\"}}";
    p.ranges =
        "\"s0\": {\"min_val\": 2, \"max_val\": 64}, \"u0\": {\"min_val\": 0, \"max_val\": 9}";
    /* A follows from the range; B is checked where the value is known; C when the program is
     * called */
    expect_graph(&p, "graph @model {\n"
                     "  symbol size s0 in [0, 49] hint 8\n"
                     "  symbol data u0 in [0, 9]\n"
                     "  guard s0 < 50 \"msg C\"\n"
                     "  input user %x : f32[s0, 3] \"x\"\n"
                     "  input user %k : i64[] \"k\"\n"
                     "  %item = aten.item.default(%k) : symint(u0) at \"item\" \"\"\n"
                     "  %3 = full(value=u0, sizes=[], dtype=i64) : i64[] at \"B\" \"\"\n"
                     "  %4 = full(value=3, sizes=[], dtype=i64) : i64[] at \"B\" \"\"\n"
                     "  %5 = le(%3, %4) : bool[] at \"B\" \"\"\n"
                     "  assert(%5, message=\"msg B\") at \"B\" \"\"\n"
                     "  %y = aten.mul.Tensor(%x, other=u0) : f32[s0, 3] at \"y\" \"\"\n"
                     "  output user %y \"y\"\n"
                     "}\n");
}

TEST(bad_symbols) {
    program_parts p =
        one_node(NODE("torch.ops.aten.relu.default", "n", ARG("self", TENSOR("x")), TENSOR("y")));
    p.ranges = "\"s0\": {\"min_val\": 5, \"max_val\": 4}";
    expect_refused(&p, HN_INVALID_ARGUMENT, "range of 's0' is empty");
    p.ranges = NULL;
    p.metas = META("x", "7", EXPR("Symbol('zf0', integer=True)", "1"), INT("1")) ", " F23("y");
    expect_refused(&p, HN_UNSUPPORTED, "tensor 'x': cannot read expression");
    p.metas = META("x", "7", EXPR("FloorDiv(", "1"), INT("1")) ", " F23("y");
    expect_refused(&p, HN_INVALID_ARGUMENT, "ends too early");
}

/* --- metas --- */

TEST(strides_and_bad_metas) {
    static const struct {
        const char *meta;
        hn_code code;
        const char *message;
    } bad[] = {
        {META("x", "7", INT("2"), INT("1") ", " INT("1")), HN_INVALID_ARGUMENT,
         "1 sizes but 2 strides"},
        {META("x", "7", INT("-2"), INT("1")), HN_INVALID_ARGUMENT, "negative size or stride -2"},
        {META("x", "7", INT("4611686018427387904") ", " INT("4"), INT("4") ", " INT("1")),
         HN_INVALID_ARGUMENT, "more elements than fit"},
        {META("x", "10", INT("2"), INT("1")), HN_UNSUPPORTED, "value 'x' has dtype complex64"},
        {"\"x\": {\"dtype\": 7, \"sizes\": [], \"strides\": [], \"layout\": 2}", HN_UNSUPPORTED,
         "sparse or opaque"},
        {F23("x") ", " F23("x"), HN_INVALID_ARGUMENT, "'x' is described twice"},
        {META(
             "x", "7",
             INT("1") "," INT("1") "," INT("1") "," INT("1") "," INT("1") "," INT("1") "," INT("1") "," INT("1") "," INT(
                 "1") "," INT("1") "," INT("1") "," INT("1") "," INT("1") "," INT("1") "," INT("1") "," INT("1") "," INT("1"),
             ""),
         HN_UNSUPPORTED, "more than 16 dimensions"},
    };
    char metas[4096];
    for (size_t k = 0; k < sizeof bad / sizeof *bad; k++) {
        program_parts p = one_node(
            NODE("torch.ops.aten.relu.default", "n", ARG("self", TENSOR("x")), TENSOR("y")));
        snprintf(metas, sizeof metas, "%s, " F23("y"), bad[k].meta);
        p.metas = metas;
        expect_refused(&p, bad[k].code, bad[k].message);
    }
    /* strides of dimensions of size 1 mean nothing; others are kept when they are not row-major */
    program_parts p =
        one_node(NODE("torch.ops.aten.relu.default", "n", ARG("self", TENSOR("x")), TENSOR("y")));
    p.metas = META("x", "7", INT("1") ", " INT("3"), INT("99") ", " INT("1")) ", " META(
        "y", "7", INT("2") ", " INT("3"), INT("1") ", " INT("2"));
    expect_graph(&p, "graph @model {\n"
                     "  input user %x : f32[1, 3] \"x\"\n"
                     "  %y = aten.relu.default(%x) : f32[2, 3] strides [1, 2] at \"n\" \"\"\n"
                     "  output user %y \"y\"\n"
                     "}\n");
}

/* --- weights --- */

static const float weight_bytes[6] = {1, 2, 3, 4, 5, 6};

static program_parts weight_parts(void) {
    program_parts p =
        one_node(NODE("torch.ops.aten.matmul.default", "n",
                      ARG("self", TENSOR("p_w")) ", " ARG("other", TENSOR("p_t")), TENSOR("y")));
    p.inputs = TENSOR("p_w") ", " TENSOR("p_t") ", " TENSOR("p_odd");
    p.input_specs = PARAMETER("p_w", "w") ", " PARAMETER("p_t", "t") ", " BUFFER("p_odd", "odd");
    p.metas =
        F23("p_w") ", " META("p_t", "7", INT("3") ", " INT("2"), INT("1") ", " INT("3")) ", " META(
            "p_odd", "29", INT("2"), INT("1")) ", " META("y", "7", INT("2") ", " INT("2"),
                                                         INT("2") ", " INT("1"));
    return p;
}
#define W_META       PAYLOAD_META("7", INT("2") ", " INT("3"), INT("3") ", " INT("1"), "0")
#define T_META       PAYLOAD_META("7", INT("3") ", " INT("2"), INT("1") ", " INT("3"), "0")
#define ODD          PAYLOAD("odd", "weight_1", PAYLOAD_META("29", INT("2"), INT("1"), "0"))
#define GOOD_WEIGHTS PAYLOAD("w", "weight_0", W_META) ", " PAYLOAD("t", "weight_0", T_META) ", " ODD

static hn_status import_weights(fixture *f, const char *weights, size_t bytes, bool deflated) {
    program_parts p = weight_parts();
    char *json = program_text(&p);
    *f = (fixture){0};
    zip_writer_add(&f->zip, "m/data/weights/weight_0", weight_bytes, bytes, deflated);
    zip_writer_add(&f->zip, "m/data/weights/weight_1", "ab", 2, false);
    program_archive(&f->zip, json, weights);
    free(json);
    return import_zip(f, "model");
}

/* What a compilation does behind the import. */
static hn_status verify(const fixture *f) {
    HN_TRY(f->file->importer->verify_begin(f->file, 2));
    return f->file->importer->verify_end(f->file);
}

TEST(tied_weights_share_a_storage) {
    for (int deflated = 0; deflated < 2; deflated++) {
        fixture f;
        EXPECT_OK(import_weights(&f, GOOD_WEIGHTS, sizeof weight_bytes, deflated));
        if (!f.graph) continue;
        const hn_graph *g = f.graph;
        EXPECT_INT(g->inputs.count, 2); /* the 8-bit float that nothing reads is left out */
        EXPECT_INT(g->storages.count - 1, 1);
        EXPECT_INT(g->inputs.items[0].storage, g->inputs.items[1].storage);
        const hn_storage *storage = &g->storages.items[1];
        EXPECT_INT(storage->size_bytes, sizeof weight_bytes);
        EXPECT(memcmp(storage->data, weight_bytes, sizeof weight_bytes) == 0);
        EXPECT(hn_graph_value(g, g->inputs.items[1].value)->strides != NULL);
        /* inflated bytes have no place in the archive */
        EXPECT_INT(storage->file_offset > 0, !deflated);
        EXPECT_INT(storage->file_record.len > 0, !deflated);
        EXPECT_OK(verify(&f));
        done(&f);
    }
}

TEST(bad_weights) {
    static const struct {
        const char *weights;
        size_t bytes;
        const char *message;
    } cases[] = {
        {GOOD_WEIGHTS, 20, "'w' reaches beyond its record of 20 bytes"},
        {PAYLOAD("w", "weight_0",
                 PAYLOAD_META("7", INT("2") ", " INT("3"), INT("3") ", " INT("1"), "1")),
         24, "reaches beyond"},
        {PAYLOAD("w", "weight_0",
                 PAYLOAD_META("7", INT("2") ", " INT("3"), INT("4611686018427387904") ", " INT("1"),
                              "0")),
         24, "reaches beyond"},
        {PAYLOAD("w", "weight_9", W_META), 24,
         "names the record 'data/weights/weight_9', which is missing"},
        {PAYLOAD("w", "weight_0", W_META) ", " PAYLOAD("w", "weight_0", W_META), 24,
         "'w' is stored twice"},
        {PAYLOAD("w", "weight_0", W_META), 24, "weights of 't' are not in the file"},
        {PAYLOAD("w", "weight_0", T_META) ", " PAYLOAD("t", "weight_0", T_META), 24,
         "stored with another shape"},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        fixture f;
        EXPECT_ERROR(import_weights(&f, cases[k].weights, cases[k].bytes, false), HN_CORRUPT,
                     cases[k].message);
        done(&f);
    }
    fixture f;
    EXPECT_ERROR(
        import_weights(
            &f,
            "\"w\": {\"path_name\": \"weight_0\", \"use_pickle\": true, \"tensor_meta\": {" W_META
            "}}, " PAYLOAD("t", "weight_0", T_META) ", " ODD,
            24, false),
        HN_UNSUPPORTED, "value 'p_w' is a pickled Python object");
    done(&f);
}

/* PyTorch 2.8: a torch.save archive in the archive, with or without compression. The checksum of a
 * record in it counts, unless it was written without any. */
static void expect_pickled(bool deflated, bool damaged, bool unchecked) {
    program_parts p = weight_parts();
    char *json = program_text(&p);
    zip_writer inner = {0};
    fixture f = {0};
    stream dict = {.len = 0};
    OPS(&dict, "\x80\x02}(");
    entry_of(&dict, "w", "\x00\x02\x03\x03\x01");
    entry_of(&dict, "t", "\x00\x03\x02\x01\x03");
    entry_of(&dict, "odd", "\x00\x01\x02\x02\x01");
    OPS(&dict, "u.");
    zip_writer_add(&inner, "archive/data.pkl", dict.bytes, dict.len, deflated);
    zip_writer_add(&inner, "archive/byteorder", "little", 6, false);
    zip_writer_add(&inner, "archive/data/7", weight_bytes, sizeof weight_bytes, deflated)->crc ^=
        damaged;
    for (uint32_t k = 0; k < inner.count && unchecked; k++) inner.entries[k].crc = 0;
    zip_writer_end(&inner);
    zip_writer_add(&f.zip, "m/data/weights/model.pt", inner.bytes, inner.len, deflated);
    program_archive(&f.zip, json, NULL);
    EXPECT_OK(import_zip(&f, NULL));
    if (f.graph) {
        EXPECT_INT(f.graph->inputs.count, 2);
        EXPECT_INT(f.graph->storages.count - 1, 1);
        EXPECT(memcmp(f.graph->storages.items[1].data, weight_bytes, sizeof weight_bytes) == 0);
        if (damaged)
            EXPECT_ERROR(verify(&f), HN_CORRUPT, "zip record 'archive/data/7' fails its checksum");
        else EXPECT_OK(verify(&f));
    }
    done(&f);
    zip_writer_free(&inner);
    free(json);
}

TEST(pickled_weights) {
    for (int deflated = 0; deflated < 2; deflated++) {
        expect_pickled(deflated, false, false);
        expect_pickled(deflated, true, false);
        expect_pickled(deflated, false, true);
    }
}

/* --- signature --- */

TEST(mutations_and_constants) {
    program_parts p =
        one_node(NODE("torch.ops.aten.neg.default", "n", ARG("self", TENSOR("x")), TENSOR("y")));
    p.inputs = TENSOR("x") ", {\"as_int\": 3}";
    p.input_specs = USER_INPUT(
        TENSOR("x")) ", {\"constant_input\": {\"name\": \"n\", \"value\": {\"as_int\": 3}}}";
    p.outputs = TENSOR("y") ", " TENSOR("x") ", {\"as_none\": true}, {\"as_string\": \"s\"}";
    p.output_specs =
        "{\"user_input_mutation\": {\"arg\": " NAME("y") ", \"user_input_name\": \"x\"}}, " USER_OUTPUT(
            TENSOR(
                "x")) ", " USER_OUTPUT("{\"as_none\": true}") ", " USER_OUTPUT("{\"as_string\": \"s\"}");
    expect_graph(&p, "graph @model {\n"
                     "  input user %x : f32[2, 3] \"x\"\n"
                     "  input scalar \"n\" = 3\n"
                     "  %y = aten.neg.default(%x) : f32[2, 3] at \"n\" \"\"\n"
                     "  output mutation %y of 0 \"y\"\n"
                     "  output user %x \"x\"\n"
                     "  output scalar \"\" = none\n"
                     "  output scalar \"\" = \"s\"\n"
                     "}\n");
}

TEST(bad_signatures) {
    static const struct {
        const char *inputs, *outputs;
        hn_code code;
        const char *message;
    } cases[] = {
        {"", USER_OUTPUT(TENSOR("y")), HN_CORRUPT, "graph has more inputs"},
        {USER_INPUT(TENSOR("x")) ", " USER_INPUT(TENSOR("x")), USER_OUTPUT(TENSOR("y")), HN_CORRUPT,
         "signature has more inputs"},
        {USER_INPUT(TENSOR("x")), "", HN_CORRUPT, "graph has more outputs"},
        {"{\"token\": {\"arg\": {\"name\": \"x\"}}}", USER_OUTPUT(TENSOR("y")), HN_UNSUPPORTED,
         "inputs of kind 'token'"},
        {USER_INPUT(TENSOR("x")), "{\"token\": {\"arg\": {\"name\": \"x\"}}}", HN_UNSUPPORTED,
         "outputs of kind 'token'"},
        {USER_INPUT(TENSOR("x")),
         "{\"buffer_mutation\": {\"arg\": {\"name\": \"y\"}, \"buffer_name\": \"b\"}}",
         HN_INVALID_ARGUMENT, "'b', which the program writes"},
        {PARAMETER("x", "x"), USER_OUTPUT(TENSOR("y")), HN_CORRUPT,
         "weights of 'x' are not in the file"},
        {"{\"user_input\": {}}", USER_OUTPUT(TENSOR("y")), HN_CORRUPT,
         "'user_input' without an argument"},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        program_parts p = one_node(
            NODE("torch.ops.aten.neg.default", "n", ARG("self", TENSOR("x")), TENSOR("y")));
        p.input_specs = cases[k].inputs;
        p.output_specs = cases[k].outputs;
        expect_refused(&p, cases[k].code, cases[k].message);
    }
}

/* --- archives --- */

TEST(versions) {
    static const struct {
        const char *version, *message;
    } cases[] = {{"{\"major\": 7, \"minor\": 3}", "7.3; henry reads 8.*"}, {"{}", "-1.0"}};
    for (size_t k = 0; k < 2; k++) {
        program_parts p = one_node(
            NODE("torch.ops.aten.neg.default", "n", ARG("self", TENSOR("x")), TENSOR("y")));
        p.version = cases[k].version;
        expect_refused(&p, HN_INCOMPATIBLE, cases[k].message);
    }
    fixture f;
    program_parts p =
        one_node(NODE("torch.ops.aten.neg.default", "n", ARG("self", TENSOR("x")), TENSOR("y")));
    p.version = "{\"major\": 8, \"minor\": 999}";
    EXPECT_OK(import_parts(&f, &p, NULL));
    done(&f);
}

static void archive_of(fixture *f, const char *const *records, size_t count) {
    *f = (fixture){0};
    hn_arena_init(&f->arena);
    for (size_t k = 0; k < count; k++)
        zip_writer_add(&f->zip, records[2 * k], records[2 * k + 1], strlen(records[2 * k + 1]),
                       false);
    zip_writer_end(&f->zip);
}

TEST(archives_without_a_program) {
    static const struct {
        const char *records[6];
        size_t count;
        hn_code code;
        const char *message;
    } cases[] = {
        {{"a.txt", "hello"},
         1,
         HN_INVALID_ARGUMENT,
         "it is a zip archive of another kind, not a PyTorch model"},
        {{"m/archive_format", "pt2"}, 1, HN_CORRUPT, "written to the end"},
        {{"m/archive_format", "pt2", "m/archive_version", "1"},
         2,
         HN_INCOMPATIBLE,
         "archive version is '1'"},
        {{"m/archive_format", "pt2", "m/byteorder", "big"}, 2, HN_UNSUPPORTED, "byte order"},
        {{"m/archive_format", "pt2", "m/data/aotinductor/model/x.so", ""},
         2,
         HN_UNSUPPORTED,
         "AOTInductor"},
        {{"version", "9.0", "serialized_exported_program.json", "{}"}, 2, HN_INCOMPATIBLE, "'9.0'"},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        fixture f;
        archive_of(&f, cases[k].records, cases[k].count);
        EXPECT_ERROR(hn_model_open_memory(f.zip.bytes, f.zip.len, &f.file), cases[k].code,
                     cases[k].message);
        done(&f);
    }
}

TEST(roots_and_several_models) {
    program_parts p =
        one_node(NODE("torch.ops.aten.neg.default", "n", ARG("self", TENSOR("x")), TENSOR("y")));
    char *json = program_text(&p);
    const char *records[] = {"archive_format", "pt2\n", "models/a.json", json,
                             "models/b.json",  json};
    fixture f;
    archive_of(&f, records, 3);
    EXPECT_OK(hn_sym_create(&f.arena, &f.sym));
    EXPECT_OK(hn_model_open_memory(f.zip.bytes, f.zip.len, &f.file));
    EXPECT_INT(f.file->model_count, 2);
    EXPECT(hn_str_eq(f.file->models[1], HN_STR("b")));
    EXPECT_ERROR(f.file->importer->import(f.file, NULL, &f.arena, f.sym, &f.graph),
                 HN_INVALID_ARGUMENT, "choose one of 'a', 'b'");
    EXPECT_ERROR(f.file->importer->import(f.file, "c", &f.arena, f.sym, &f.graph), HN_NOT_FOUND,
                 "it has 'a', 'b'");
    EXPECT_OK(f.file->importer->import(f.file, "b", &f.arena, f.sym, &f.graph));
    EXPECT(f.graph && hn_str_eq(f.graph->name, HN_STR("b")));
    done(&f);
    free(json);
}

/* Cutting the text of a program anywhere is an error, never a crash. */
TEST(every_cut_of_a_program) {
    program_parts p = weight_parts();
    char *json = program_text(&p);
    for (size_t len = 0; len < strlen(json); len += 7) {
        char *cut = strndup(json, len);
        fixture f = {0};
        program_archive(&f.zip, cut, GOOD_WEIGHTS);
        hn_status status = import_zip(&f, NULL);
        EXPECT(status != NULL);
        hn_status_free(status);
        done(&f);
        free(cut);
    }
    free(json);
}

TEST(deep_graphs) {
    enum { LEVELS = 150 };
    char *text = malloc(1 << 20), *to = text;
    for (int k = 0; k < LEVELS; k++)
        to += sprintf(
            to,
            "{\"target\": \"torch.ops.higher_order.wrap_with_set_grad_enabled\", \"name\": \"w\", \"outputs\": [], \"inputs\": [" ARG(
                "",
                "{\"as_bool\": true}") ", {\"name\": \"\", \"arg\": {\"as_graph\": {\"name\": \"g\", \"graph\": {\"inputs\": [], \"outputs\": [], \"tensor_values\": {}, \"nodes\": [");
    for (int k = 0; k < LEVELS; k++) to += sprintf(to, "]}}}}]}");
    program_parts p = one_node(text);
    fixture f;
    hn_status status = import_parts(&f, &p, NULL);
    EXPECT(status != NULL); /* refused by the depth of JSON or of graphs */
    hn_status_free(status);
    done(&f);
    free(text);
}

TEST_MAIN
