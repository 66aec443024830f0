/* Data-dependent rows and branches; and what surrounds the rows: binding of size symbols, guards,
 * constants, messages, nothing leaked on failure (the sanitizers watch). */
#include "unit/ir/interp_cases.h"

#define F64  HN_DTYPE_F64
#define F32  HN_DTYPE_F32
#define BF16 HN_DTYPE_BF16
#define I64  HN_DTYPE_I64
#define I32  HN_DTYPE_I32
#define U8   HN_DTYPE_U8
#define BOOL HN_DTYPE_BOOL

static hn_expr size_symbol(fixture *f, const char *name, int64_t lo, int64_t hi) {
    return hn_sym_symbol(f->sym, hn_str_of(name), HN_SYMBOL_SIZE, lo, hi);
}

static hn_expr data_symbol(fixture *f, const char *name, int64_t lo, int64_t hi) {
    return hn_sym_symbol(f->sym, hn_str_of(name), HN_SYMBOL_DATA, lo, hi);
}

/* --- data-dependent rows --- */

ROW_TEST(HN_OP_NONZERO, nonzero_lists_coordinates) {
    fixture f;
    begin(&f);
    hn_expr u0 = data_symbol(&f, "u0", 0, 6), u1 = data_symbol(&f, "u1", 0, 1),
            u2 = data_symbol(&f, "u2", 0, 2);
    hn_value x = input(&f, F32, S(2, 3), V(0, 1, NAN, -0.0, 0, -5));
    hn_value where = hn_b_nonzero(f.g, x, u0);
    output(&f, where);
    output(&f, hn_b_nonzero(f.g, input(&f, BOOL, SCALAR, V(1)), u1));
    output(&f, hn_b_nonzero(f.g, input(&f, I64, S(2), V(0, 0)), u2));
    output(&f, hn_b_iota(f.g, hn_scalar_i(num(&f, 0)), hn_scalar_i(num(&f, 1)),
                         hn_sym_add(f.sym, u0, num(&f, 1)), I64));
    EXPECT_OK(run(&f));
    expect(&f, 0, I64, S(3, 2), V(0, 1, 0, 2, 1, 2));
    expect(&f, 1, I64, S(1, 0), NO_VALUES);
    expect(&f, 2, I64, S(0, 1), NO_VALUES);
    expect(&f, 3, I64, S(4), V(0, 1, 2, 3)); /* the symbol is known from here on */
    end(&f);
}

TEST(nonzero_count_has_a_range) {
    fixture f;
    begin(&f);
    output(&f, hn_b_nonzero(f.g, input(&f, I64, S(3), V(1, 1, 1)), data_symbol(&f, "u0", 0, 2)));
    EXPECT_ERROR(run(&f), HN_INVALID_ARGUMENT,
                 "the count of non-zero elements is 3, must be in [0, 2] ('u0')");
    end(&f);
}

ROW_TEST(HN_OP_ITEM, item_gives_a_symbol_its_value) {
    fixture f;
    begin(&f);
    hn_expr u0 = data_symbol(&f, "u0", 0, 10);
    hn_value x = input(&f, I64, S(1, 1), V(3));
    hn_value count = hn_b_item(f.g, x, HN_VALUE_SYM_INT, u0);
    hn_value real = hn_b_item(f.g, input(&f, F32, SCALAR, V(0.1)), HN_VALUE_SYM_FLOAT, 0);
    hn_expr twice = hn_sym_mul(f.sym, num(&f, 2), u0);
    output(&f, hn_b_full(f.g, hn_scalar_i(twice), &u0, 1, I32));
    EXPECT(count != 0);
    output(&f, count);
    output(&f, real);
    EXPECT_OK(run(&f));
    expect(&f, 0, I32, S(3), V(6, 6, 6));
    expect(&f, 1, I64, SCALAR, V(3));
    expect(&f, 2, F64, SCALAR, V(0.100000001490116119384765625));
    end(&f);
}

TEST(item_out_of_its_range) {
    fixture f;
    begin(&f);
    hn_b_item(f.g, input(&f, I64, SCALAR, V(11)), HN_VALUE_SYM_INT, data_symbol(&f, "u0", 0, 10));
    EXPECT_ERROR(run(&f), HN_INVALID_ARGUMENT, "the element is 11, must be in [0, 10] ('u0')");
    end(&f);
}

TEST(guards_on_data_wait_for_the_data) {
    for (int value = 4; value <= 5; value++) {
        fixture f;
        begin(&f);
        hn_expr u0 = data_symbol(&f, "u0", 0, 10);
        hn_sym_require(f.sym, HN_REL_EQ, hn_sym_mod(f.sym, u0, num(&f, 2)), num(&f, 0), "pairs");
        hn_b_item(f.g, input(&f, I64, SCALAR, V(value)), HN_VALUE_SYM_INT, u0);
        if (value == 4) EXPECT_OK(run(&f));
        else EXPECT_ERROR(run(&f), HN_INVALID_ARGUMENT, "1 and 0 (pairs)");
        end(&f);
    }
}

/* --- branches --- */

/* then: x + x; otherwise: -x, where x has `sizes` */
static void branches(fixture *f, shape s, const hn_expr *sizes, hn_graph *out[2]) {
    for (int k = 0; k < 2; k++) {
        EXPECT_OK(hn_graph_create(&f->arena, f->sym, &out[k]));
        hn_value x = hn_graph_add_tensor(out[k], F32, s.rank, sizes, NULL, HN_STR("x"));
        EXPECT_OK(hn_graph_add_input(
            out[k], (hn_input){.kind = HN_INPUT_USER, .value = x, .name = HN_STR("x")}));
        hn_value y =
            k == 0 ? hn_b_binary(out[k], HN_OP_ADD, x, x) : hn_b_unary(out[k], HN_OP_NEG, x);
        EXPECT_OK(hn_graph_add_output(out[k], (hn_output){.kind = HN_OUTPUT_USER, .value = y}));
    }
}

ROW_TEST(HN_OP_COND, cond_runs_one_branch) {
    for (int pred = 0; pred < 2; pred++) {
        fixture f;
        begin(&f);
        hn_expr sizes[] = {size_symbol(&f, "s0", 1, 100)};
        hn_graph *graphs[2];
        hn_value result;
        branches(&f, S(3), sizes, graphs);
        hn_value flag = input(&f, BOOL, SCALAR, V(pred)),
                 x = input_sym(&f, "x", F32, S(3), sizes, V(1, 2, 3));
        hn_b_cond(f.g, flag, graphs[0], graphs[1], &x, 1, &result, 1);
        output(&f, result);
        EXPECT_OK(run(&f));
        if (pred) expect(&f, 0, F32, S(3), V(2, 4, 6));
        else expect(&f, 0, F32, S(3), V(-1, -2, -3));
        end(&f);
    }
}

/* The verifier wants branches that agree; what importers make of those that do not has a symbol. */
TEST(cond_result_of_unknown_size) {
    fixture f;
    begin(&f);
    hn_graph *graphs[2];
    branches(&f, S(3), exprs(&f, S(3)), graphs);
    hn_value flag = input(&f, BOOL, SCALAR, V(1)), x = input(&f, F32, S(3), V(1, 2, 3));
    hn_expr u0 = data_symbol(&f, "u0", 0, 9);
    hn_value y = hn_graph_add_tensor(f.g, F32, 1, &u0, NULL, HN_STR("y"));
    hn_arg args[] = {hn_arg_value(flag),
                     {.kind = HN_ARG_GRAPH, .as.graph = graphs[0]},
                     {.kind = HN_ARG_GRAPH, .as.graph = graphs[1]},
                     hn_arg_values(&x, 1)};
    hn_graph_add_node(f.g, HN_OP_COND, args, 4, &y, 1);
    output(&f, y);
    output(&f, hn_b_full(f.g, hn_scalar_f(7), &u0, 1, F32));
    EXPECT_OK(hn_interpret(&f.arena, f.g, f.inputs, f.input_count, f.outputs));
    expect(&f, 0, F32, S(3), V(2, 4, 6));
    expect(&f, 1, F32, S(3), V(7, 7, 7));
    end(&f);
}

TEST(errors_in_a_branch_name_it) {
    fixture f;
    begin(&f);
    hn_graph *graphs[2];
    hn_value result;
    branches(&f, S(1), exprs(&f, S(1)), graphs);
    hn_b_assert(graphs[1], hn_b_full(graphs[1], hn_scalar_i(num(&f, 0)), NULL, 0, BOOL),
                HN_STR("never here"));
    hn_value flag = input(&f, BOOL, SCALAR, V(0)), x = input(&f, F32, S(1), V(1));
    hn_b_cond(f.g, flag, graphs[0], graphs[1], &x, 1, &result, 1);
    output(&f, result);
    EXPECT_ERROR(run(&f), HN_INVALID_ARGUMENT,
                 "in the branch 'otherwise': node 3 'assert': assertion failed: never here");
    end(&f);
}

/* --- loops --- */

static hn_value graph_input(fixture *f, hn_graph *g, hn_dtype dtype, shape s) {
    hn_value v = hn_graph_add_tensor(g, dtype, s.rank, exprs(f, s), NULL, HN_STR(""));
    EXPECT_OK(hn_graph_add_input(g, (hn_input){.kind = HN_INPUT_USER, .value = v}));
    return v;
}

static void graph_output(hn_graph *g, hn_value v) {
    EXPECT_OK(hn_graph_add_output(g, (hn_output){.kind = HN_OUTPUT_USER, .value = v}));
}

static hn_value one(fixture *f, hn_graph *g) {
    return hn_b_full(g, hn_scalar_i(num(f, 1)), NULL, 0, I64);
}

/* n, x, y -> n + 1, x + y, x: two numbers of Fibonacci, and a counter */
static hn_graph *fibonacci(fixture *f) {
    hn_graph *g;
    EXPECT_OK(hn_graph_create(&f->arena, f->sym, &g));
    hn_value n = graph_input(f, g, I64, SCALAR), x = graph_input(f, g, F32, S(1)),
             y = graph_input(f, g, F32, S(1));
    (void)graph_input(f, g, I64, SCALAR);
    graph_output(g, hn_b_binary(g, HN_OP_ADD, n, one(f, g)));
    graph_output(g, hn_b_binary(g, HN_OP_ADD, x, y));
    graph_output(g, x);
    return g;
}

static hn_graph *is_below(fixture *f) {
    hn_graph *g;
    EXPECT_OK(hn_graph_create(&f->arena, f->sym, &g));
    hn_value n = graph_input(f, g, I64, SCALAR);
    (void)graph_input(f, g, F32, S(1));
    (void)graph_input(f, g, F32, S(1));
    graph_output(g, hn_b_binary(g, HN_OP_LT, n, graph_input(f, g, I64, SCALAR)));
    return g;
}

static void expect_fibonacci(bool is_counted, int64_t rounds, double n, double x, double y) {
    fixture f;
    begin(&f);
    hn_value out[3];
    hn_value operands[] = {input(&f, I64, SCALAR, V(0)), input(&f, F32, S(1), V(1)),
                           input(&f, F32, S(1), V(0)), input(&f, I64, SCALAR, V((double)rounds))};
    hn_b_loop_parts parts = {.body = fibonacci(&f),
                             .rounds = is_counted ? num(&f, rounds) : 0,
                             .test = is_counted ? NULL : is_below(&f),
                             .operands = operands,
                             .carried_count = 3,
                             .other_count = 1};
    hn_b_loop(f.g, &parts, out);
    for (int k = 0; k < 3; k++) output(&f, out[k]);
    EXPECT_OK(run(&f));
    expect(&f, 0, I64, SCALAR, V(n));
    expect(&f, 1, F32, S(1), V(x));
    expect(&f, 2, F32, S(1), V(y));
    end(&f);
}

ROW_TEST(HN_OP_LOOP, loop_runs_its_rounds) {
    for (int is_counted = 0; is_counted < 2; is_counted++) {
        expect_fibonacci(is_counted, 0, 0, 1, 0);
        expect_fibonacci(is_counted, 1, 1, 1, 1);
        expect_fibonacci(is_counted, 10, 10, 89, 55);
    }
}

TEST(loop_subgraphs_must_agree) {
    fixture f;
    begin(&f);
    hn_value out[3], x = input(&f, F32, S(1), V(1)), n = input(&f, I64, SCALAR, V(1));
    hn_value operands[] = {n, x, n, n};
    hn_b_loop_parts parts = {.body = fibonacci(&f),
                             .rounds = num(&f, 1),
                             .operands = operands,
                             .carried_count = 3,
                             .other_count = 1};
    hn_b_loop(f.g, &parts, out);
    EXPECT_ERROR(hn_graph_status(f.g), HN_INTERNAL, "the body of 'loop': input 2");
    end(&f);
    begin(&f);
    x = input(&f, F32, S(1), V(1)), n = input(&f, I64, SCALAR, V(1));
    hn_value fitting[] = {n, x, x, n};
    parts = (hn_b_loop_parts){.body = fibonacci(&f),
                              .rounds = num(&f, 1),
                              .test = is_below(&f),
                              .operands = fitting,
                              .carried_count = 3,
                              .other_count = 1};
    hn_b_loop(f.g, &parts, out);
    EXPECT_ERROR(hn_graph_status(f.g), HN_INTERNAL, "either a number of rounds or a test");
    end(&f);
}

ROW_TEST(HN_OP_ASSERT, assert_fails_with_its_message) {
    for (int k = 0; k < 2; k++) {
        fixture f;
        begin(&f);
        hn_value x = input(&f, BOOL, S(1), V(k));
        f.g->current_origin =
            hn_graph_add_origin(f.g, (hn_origin){HN_STR("_assert_async"), HN_STR("model.py:7")});
        hn_b_assert(f.g, x, HN_STR("lengths must be sorted"));
        if (k) EXPECT_OK(run(&f));
        else
            EXPECT_ERROR(
                run(&f), HN_INVALID_ARGUMENT,
                "node 1 'assert' from '_assert_async' at model.py:7: assertion failed: lengths must be sorted");
        end(&f);
    }
}

/* --- symbols and inputs --- */

TEST(sizes_are_bound_from_inputs) {
    fixture f;
    begin(&f);
    hn_expr s0 = size_symbol(&f, "s0", 1, 100), s1 = size_symbol(&f, "s1", 1, 100);
    hn_expr x_sizes[] = {hn_sym_add(f.sym, s0, s1)}, y_sizes[] = {s0, num(&f, 2)};
    hn_value x =
        /* derived, and stands before the plain one */
        input_sym(&f, "x", F32, S(5), x_sizes, V(1, 2, 3, 4, 5));
    hn_value y = input_sym(&f, "y", F32, S(3, 2), y_sizes, V(1, 2, 3, 4, 5, 6));
    output(&f, hn_b_slice(f.g, x, 0, s0, s1, 1)); /* s1 = 5 - 3, solved */
    output(&f, hn_b_reduce(f.g, HN_OP_SUM, y, (uint32_t[]){0, 1}, 2, false));
    EXPECT_OK(run(&f));
    expect(&f, 0, F32, S(2), V(4, 5));
    expect(&f, 1, F32, SCALAR, V(21));
    end(&f);
}

/* One input x of the given recorded sizes; the message for a tensor of shape `s`. */
static void expect_input_error(fixture *f, const hn_expr *sizes, shape s, const char *text) {
    double zeros[64] = {0};
    size_t count = 1;
    for (uint32_t d = 0; d < s.rank; d++) count *= (size_t)s.sizes[d];
    output(f, hn_b_unary(f->g, HN_OP_NEG, input_sym(f, "x", F32, s, sizes, zeros, count)));
    EXPECT_ERROR(run(f), HN_INVALID_ARGUMENT, text);
    end(f);
}

TEST(wrong_sizes_are_explained) {
    fixture f;
    begin(&f);
    expect_input_error(&f, exprs(&f, S(2, 4)), S(2, 5), "input 'x' dimension 1 is 5, must be 4");
    begin(&f);
    hn_expr s = size_symbol(&f, "s77", 2, HN_SYM_MAX);
    expect_input_error(&f, &s, S(1), "input 'x' dimension 0 is 1, must be at least 2 ('s77')");
    begin(&f);
    s = size_symbol(&f, "s77", 2, 8);
    expect_input_error(&f, &s, S(9), "input 'x' dimension 0 is 9, must be in [2, 8] ('s77')");
    begin(&f);
    s = size_symbol(&f, "s77", 1, 64);
    hn_expr derived[] = {hn_sym_mul(f.sym, num(&f, 2), s), s};
    expect_input_error(&f, derived, S(7, 4), "input 'x' dimension 0 is 7, must be 2*s77 = 8");
    begin(&f);
    derived[0] = size_symbol(&f, "s77", 1, 64);
    derived[0] = hn_sym_add(f.sym, hn_sym_mul(f.sym, num(&f, 2), derived[0]), num(&f, 1));
    expect_input_error(&f, derived, S(6),
                       "input 'x' dimension 0 is 6, must be 1 plus a multiple of 2 (of 's77')");
    begin(&f);
    hn_expr same[] = {size_symbol(&f, "s0", 1, 64), 0};
    same[1] = same[0];
    expect_input_error(&f, same, S(3, 4), "input 'x' dimension 1 is 4, must be s0 = 3");
}

TEST(guards_are_checked) {
    fixture f;
    begin(&f);
    hn_expr s0 = size_symbol(&f, "s0", 1, 64), s1 = size_symbol(&f, "s1", 1, 64),
            sizes[] = {s0, s1};
    hn_sym_require(f.sym, HN_REL_LE, s0, s1, "the kernel fits");
    expect_input_error(&f, sizes, S(4, 3), "4 and 3 (the kernel fits)");
}

TEST(symbols_that_nothing_gives) {
    fixture f;
    begin(&f);
    hn_expr s9 = size_symbol(&f, "s9", 1, 64);
    output(&f, hn_b_full(f.g, hn_scalar_f(1), &s9, 1, F32));
    EXPECT_ERROR(run(&f), HN_INVALID_ARGUMENT, "cannot evaluate 's9': no input or node gives 's9'");
    end(&f);
}

TEST(inputs_of_another_kind) {
    fixture f;
    begin(&f);
    hn_value x = input_sym(&f, "x", F32, S(2), NULL, V(1, 2));
    output(&f, hn_b_unary(f.g, HN_OP_NEG, x));
    hn_ref_tensor right = f.inputs[0], doubles = tensor_of(&f, F64, S(2), V(1, 2)),
                  grid = tensor_of(&f, F32, S(1, 2), V(1, 2));
    EXPECT_ERROR(hn_interpret(&f.arena, f.g, &doubles, 1, f.outputs), HN_INVALID_ARGUMENT,
                 "input 'x' has dtype f64, must be f32");
    EXPECT_ERROR(hn_interpret(&f.arena, f.g, &grid, 1, f.outputs), HN_INVALID_ARGUMENT,
                 "input 'x' has rank 2, must be 1");
    EXPECT_ERROR(hn_interpret(&f.arena, f.g, NULL, 0, f.outputs), HN_INVALID_ARGUMENT,
                 "0 inputs given, must be 1");
    EXPECT_OK(hn_interpret(&f.arena, f.g, &right, 1, f.outputs));
    end(&f);
}

TEST(symbolic_inputs) {
    fixture f;
    begin(&f);
    hn_expr s0 = size_symbol(&f, "s0", 0, 9);
    hn_value n = hn_graph_add_scalar(f.g, HN_VALUE_SYM_INT, s0, HN_STR("n"));
    EXPECT_OK(hn_graph_add_input(
        f.g, (hn_input){.kind = HN_INPUT_USER, .value = n, .name = HN_STR("n")}));
    f.inputs[f.input_count++] = tensor_of(&f, I64, SCALAR, V(3));
    output(&f, hn_b_full(f.g, hn_scalar_i(hn_sym_add(f.sym, s0, num(&f, 1))), &s0, 1, I32));
    EXPECT_OK(run(&f));
    expect(&f, 0, I32, S(3), V(4, 4, 4));
    f.inputs[0] = tensor_of(&f, I64, SCALAR, V(10));
    EXPECT_ERROR(run(&f), HN_INVALID_ARGUMENT, "input 'n' is 10, must be in [0, 9] ('s0')");
    end(&f);
}

/* --- constants --- */

static hn_value stored(fixture *f, hn_dtype dtype, shape s, const hn_expr *strides,
                       const void *bytes, size_t len, int64_t offset) {
    uint32_t storage = hn_graph_add_storage(f->g, (hn_storage){.data = bytes, .size_bytes = len});
    hn_value v = hn_graph_add_tensor(f->g, dtype, s.rank, exprs(f, s), strides, HN_STR("w"));
    EXPECT_OK(hn_graph_add_input(f->g, (hn_input){.kind = HN_INPUT_PARAMETER,
                                                  .value = v,
                                                  .name = HN_STR("layer.weight"),
                                                  .storage = storage,
                                                  .storage_offset_elems = offset}));
    return v;
}

TEST(constants_come_from_storages) {
    static const float floats[] = {0, 1, 2, 3, 4, 5, 6};
    static const uint16_t halves[] = {0x3f80, 0xc040}; /* bf16 1 and -3 */
    static const uint8_t flags[] = {0, 7};
    fixture f;
    begin(&f);
    /* transposed, from element 1 */
    output(&f, stored(&f, F32, S(2, 3), exprs(&f, S(1, 2)), floats, sizeof floats, 1));
    output(&f, stored(&f, BF16, S(2), NULL, halves, sizeof halves, 0));
    output(&f, stored(&f, BOOL, S(2), NULL, flags, sizeof flags, 0));
    output(&f, stored(&f, F32, S(2, 2), exprs(&f, S(0, 1)), floats, 8, 0));
    output(&f, hn_graph_add_constant(f.g, I32, 1, exprs(&f, S(2)), (const int32_t[]){-7, 8}, 8));
    output(&f, stored(&f, F32, S(0, 3), NULL, NULL, 0, 0));
    EXPECT_OK(run(&f));
    expect(&f, 0, F32, S(2, 3), V(1, 3, 5, 2, 4, 6));
    expect(&f, 1, BF16, S(2), V(1, -3));
    expect(&f, 2, BOOL, S(2), V(0, 1));
    expect(&f, 3, F32, S(2, 2), V(0, 1, 0, 1));
    expect(&f, 4, I32, S(2), V(-7, 8));
    expect(&f, 5, F32, S(0, 3), NO_VALUES);
    end(&f);
}

/* Run without the verifier, which would refuse the second first. */
TEST(constants_that_cannot_be_read) {
    static const float floats[] = {0, 1, 2};
    fixture f;
    begin(&f);
    output(&f, stored(&f, F32, S(3), NULL, NULL, 12, 0));
    EXPECT_ERROR(hn_interpret(&f.arena, f.g, NULL, 0, f.outputs), HN_UNSUPPORTED,
                 "cannot read 'layer.weight': its bytes were not loaded");
    end(&f);
    begin(&f);
    output(&f, stored(&f, F32, S(3), NULL, floats, sizeof floats, 1));
    EXPECT_ERROR(hn_interpret(&f.arena, f.g, NULL, 0, f.outputs), HN_INVALID_ARGUMENT,
                 "reach beyond the 12 bytes");
    end(&f);
}

/* --- outputs and life of values --- */

TEST(mutations_scalars_and_repeated_outputs) {
    fixture f;
    begin(&f);
    hn_value x = input(&f, F32, S(1), V(1)), y = hn_b_unary(f.g, HN_OP_NEG, x);
    EXPECT_OK(
        hn_graph_add_output(f.g, (hn_output){.kind = HN_OUTPUT_MUTATION, .value = y, .target = 0}));
    EXPECT_OK(hn_graph_add_output(
        f.g, (hn_output){.kind = HN_OUTPUT_SCALAR, .scalar = hn_arg_bool(true)}));
    EXPECT_OK(hn_graph_add_output(f.g, (hn_output){.kind = HN_OUTPUT_USER, .value = y}));
    EXPECT_OK(hn_graph_add_output(f.g, (hn_output){.kind = HN_OUTPUT_USER, .value = x}));
    EXPECT_OK(run(&f));
    expect(&f, 0, F32, S(1), V(-1));
    EXPECT_INT(f.outputs[1].dtype, HN_DTYPE_NONE);
    EXPECT_INT(f.outputs[1].rank, 0);
    expect(&f, 2, F32, S(1), V(-1));
    expect(&f, 3, F32, S(1), V(1));
    end(&f);
}

TEST(values_read_late_and_never) {
    fixture f;
    begin(&f);
    hn_value x = input(&f, F32, S(2), V(1, 2)), early = hn_b_unary(f.g, HN_OP_NEG, x), sum = early;
    hn_b_unary(f.g, HN_OP_EXP, x); /* nobody reads it */
    for (int k = 0; k < 5; k++) sum = hn_b_binary(f.g, HN_OP_ADD, sum, x);
    run_expect(&f, hn_b_binary(f.g, HN_OP_MUL, sum, early), F32, S(2), V(-4, -16));
    end(&f);
}

TEST(dead_nodes_are_skipped) {
    fixture f;
    begin(&f);
    hn_value x = input(&f, BOOL, SCALAR, V(0));
    hn_b_assert(f.g, x, HN_STR("dead"));
    hn_graph_node(f.g, 1)->dead = true;
    output(&f, x);
    EXPECT_OK(run(&f));
    end(&f);
}

TEST(only_primitives_run) {
    fixture f;
    begin(&f);
    hn_value x = input(&f, F32, S(1), V(1)),
             y = hn_graph_add_tensor(f.g, F32, 1, exprs(&f, S(1)), NULL, HN_STR("y"));
    hn_op relu = hn_op_find(HN_STR("aten.relu.default"));
    EXPECT(relu != HN_OP_NONE);
    hn_graph_add_node(f.g, relu, (hn_arg[]){hn_arg_value(x)}, 1, &y, 1);
    output(&f, y);
    EXPECT_ERROR(hn_interpret(&f.arena, f.g, f.inputs, 1, f.outputs), HN_UNSUPPORTED,
                 "decompose the graph first");
    end(&f);
}

/* A graph that records other sizes than the op gives: the interpreter computes them by itself. */
TEST(recorded_sizes_are_checked) {
    fixture f;
    begin(&f);
    hn_value x = input(&f, F32, S(2), V(1, 2)),
             y = hn_graph_add_tensor(f.g, F32, 1, exprs(&f, S(3)), NULL, HN_STR("y"));
    hn_graph_add_node(f.g, HN_OP_NEG, (hn_arg[]){hn_arg_value(x)}, 1, &y, 1);
    output(&f, y);
    EXPECT_ERROR(hn_interpret(&f.arena, f.g, f.inputs, 1, f.outputs), HN_INTERNAL,
                 "size 2 in dimension 0, but the graph records 3");
    end(&f);
}

TEST(huge_tensors_are_refused) {
    fixture f;
    begin(&f);
    hn_expr s0 = data_symbol(&f, "u0", 0, HN_SYM_MAX), sizes[] = {s0, s0};
    hn_b_item(f.g, input(&f, I64, SCALAR, V(1 << 20)), HN_VALUE_SYM_INT, s0);
    output(&f, hn_b_full(f.g, hn_scalar_f(0), sizes, 2, F32));
    EXPECT_ERROR(run(&f), HN_OUT_OF_MEMORY, "a tensor of more than 2147483648 elements");
    end(&f);
}

TEST(every_row_has_a_test) { expect_every_row_tested(PROGRAM_CONTROL); }

TEST_MAIN
