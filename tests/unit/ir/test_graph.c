/* The graph's arrays, the sweeps, and the verifier: each of its rules broken once. */
#include "unit/ir/ir_fixture.h"

#include "base/trace.h"

#include <stdlib.h>

TEST(ids_start_at_one) {
    fixture f;
    fixture_init(&f);
    EXPECT_INT(f.g->values.count, 1);
    EXPECT_INT(f.g->nodes.count, 1);
    hn_value x = fixture_input(&f, HN_DTYPE_F32, "2,3");
    hn_value y = hn_b_unary(f.g, HN_OP_NEG, x);
    EXPECT_INT(x, 1);
    EXPECT_INT(hn_graph_value(f.g, y)->producer, 1);
    EXPECT_INT(hn_graph_value(f.g, x)->producer, 0);
    EXPECT_INT(hn_graph_node(f.g, 1)->op, HN_OP_NEG);
    EXPECT(hn_graph_value(f.g, y)->strides == NULL);
    fixture_output(&f, y);
    EXPECT_OK(hn_graph_verify(f.g, HN_LEGAL_PRIMITIVE));
    fixture_deinit(&f);
}

TEST(strides_are_there_when_left_out) {
    fixture f;
    fixture_init(&f);
    hn_expr sizes[3], recorded[3], strides[3];
    EXPECT_INT(fixture_exprs(&f, "2,s0,4", sizes), 3);
    EXPECT_INT(fixture_exprs(&f, "1,2,s0*2", recorded), 3);
    hn_value plain = hn_graph_add_tensor(f.g, HN_DTYPE_F32, 3, sizes, NULL, HN_STR(""));
    hn_value laid = hn_graph_add_tensor(f.g, HN_DTYPE_F32, 3, sizes, recorded, HN_STR(""));
    hn_value number = hn_graph_add_tensor(f.g, HN_DTYPE_F32, 0, NULL, NULL, HN_STR(""));
    hn_value_strides(f.sym, hn_graph_value(f.g, plain), strides);
    EXPECT(strides[0] == fixture_expr(&f, "s0*4") && hn_sym_is_value(f.sym, strides[1], 4) &&
           hn_sym_is_value(f.sym, strides[2], 1));
    hn_value_strides(f.sym, hn_graph_value(f.g, laid), strides);
    EXPECT(memcmp(strides, recorded, sizeof strides) == 0);
    hn_value_strides(f.sym, hn_graph_value(f.g, number), strides);
    EXPECT(memcmp(strides, recorded, sizeof strides) == 0); /* nothing is written */
    fixture_deinit(&f);
}

TEST(node_arguments_are_copied) {
    fixture f;
    fixture_init(&f);
    hn_value list[2] = {fixture_input(&f, HN_DTYPE_F32, "2"), fixture_input(&f, HN_DTYPE_F32, "2")};
    hn_expr sizes[1] = {hn_sym_int(f.sym, 2)};
    char message[] = "text";
    hn_arg args[] = {hn_arg_values(list, 2), hn_arg_exprs(sizes, 1),
                     hn_arg_string(hn_str_of(message)), hn_arg_floats((double[]){1.5}, 1)};
    hn_node n = hn_graph_add_node(f.g, HN_OP_CAT, args, 4, NULL, 0);
    list[0] = sizes[0] = 0;
    message[0] = '?';
    const hn_node_info *node = hn_graph_node(f.g, n);
    EXPECT_INT(node->args[0].as.values[0], 1);
    EXPECT(hn_sym_is_value(f.sym, node->args[1].as.exprs[0], 2));
    EXPECT(hn_str_eq(node->args[2].as.s, HN_STR("text")));
    EXPECT_NEAR(node->args[3].as.floats[0], 1.5, 0);
    fixture_deinit(&f);
}

TEST(builders_latch) {
    fixture f;
    fixture_init(&f);
    hn_value x = fixture_input(&f, HN_DTYPE_F32, "2"), y = fixture_input(&f, HN_DTYPE_I64, "2");
    EXPECT_INT(hn_b_binary(f.g, HN_OP_ADD, x, 0), 0);
    EXPECT(f.g->failed == NULL); /* a missing operand is no failure of its own */
    EXPECT_INT(hn_b_binary(f.g, HN_OP_ADD, x, y), 0);
    uint32_t nodes = f.g->nodes.count;
    EXPECT_INT(hn_b_unary(f.g, HN_OP_NEG, x), 0);
    EXPECT_INT(hn_b_scalar(f.g, 1, HN_DTYPE_F32), 0);
    EXPECT_INT(hn_graph_add_tensor(f.g, HN_DTYPE_F32, 0, NULL, NULL, HN_STR("")), 0);
    EXPECT_INT(f.g->nodes.count, nodes);
    hn_graph_fail(f.g, HN_ERROR(HN_INTERNAL, "a later error"));
    EXPECT_ERROR(hn_graph_status(f.g), HN_INTERNAL, "dtypes f32 and i64");
    EXPECT_OK(hn_graph_status(f.g));
    EXPECT(hn_b_unary(f.g, HN_OP_NEG, x) != 0);
    fixture_deinit(&f);
}

TEST(tensors_are_checked) {
    fixture f;
    fixture_init(&f);
    hn_expr sizes[HN_MAX_RANK + 1] = {0};
    EXPECT_INT(hn_graph_add_tensor(f.g, HN_DTYPE_F32, HN_MAX_RANK + 1, sizes, NULL, HN_STR("")), 0);
    EXPECT_ERROR(hn_graph_status(f.g), HN_UNSUPPORTED, "rank 17");
    EXPECT_REFUSED(&f, hn_graph_add_tensor(f.g, HN_DTYPE_F32, 1, sizes, NULL, HN_STR("")),
                   "invalid");
    EXPECT_REFUSED(&f, hn_graph_add_tensor(f.g, HN_DTYPE_NONE, 0, NULL, NULL, HN_STR("")),
                   "element type");
    EXPECT_REFUSED(&f, hn_graph_add_scalar(f.g, HN_VALUE_SYM_INT, 0, HN_STR("")), "invalid");
    fixture_deinit(&f);
}

TEST(constants_carry_their_bytes) {
    fixture f;
    fixture_init(&f);
    float bytes[2] = {1, 2};
    hn_expr two = hn_sym_int(f.sym, 2);
    hn_value c = hn_graph_add_constant(f.g, HN_DTYPE_F32, 1, &two, bytes, sizeof bytes);
    bytes[0] = 7;
    const hn_input *input = &f.g->inputs.items[0];
    EXPECT_INT(input->kind, HN_INPUT_CONSTANT);
    EXPECT_INT(input->value, c);
    EXPECT_INT(f.g->storages.items[input->storage].size_bytes, 8);
    float first;
    memcpy(&first, f.g->storages.items[input->storage].data, 4);
    EXPECT_NEAR(first, 1, 0);
    EXPECT_OK(hn_graph_verify(f.g, HN_LEGAL_ANY));
    EXPECT_REFUSED(&f, hn_graph_add_constant(f.g, HN_DTYPE_F32, 1, &two, bytes, 4),
                   "8 bytes was given 4");
    fixture_deinit(&f);
}

static void count_value(void *user, hn_value v) { *(hn_value *)user = *(hn_value *)user * 10 + v; }

TEST(each_value_sees_lists_and_skips_holes) {
    hn_value list[] = {2, 0, 3};
    hn_arg args[] = {hn_arg_value(1), hn_arg_values(list, 3), hn_arg_none(), hn_arg_value(4)};
    hn_node_info node = {.args = args, .arg_count = 4};
    hn_value seen = 0;
    hn_node_each_value(&node, count_value, &seen);
    EXPECT_INT(seen, 1234);
}

TEST(replace_uses_and_compact) {
    fixture f;
    fixture_init(&f);
    hn_value x = fixture_input(&f, HN_DTYPE_F32, "2");
    hn_value a = hn_b_unary(f.g, HN_OP_NEG, x), b = hn_b_unary(f.g, HN_OP_ABS, a),
             c = hn_b_binary(f.g, HN_OP_ADD, b, a);
    hn_value cat = hn_b_cat(f.g, (hn_value[]){a, b, c}, 3, 0);
    fixture_output(&f, cat);
    fixture_output(&f, b);
    hn_value map[8] = {0};
    map[b] = a; /* a chain: b -> a -> x */
    map[a] = x;
    hn_graph_replace_uses(f.g, map);
    hn_graph_node(f.g, hn_graph_value(f.g, a)->producer)->dead = true;
    hn_graph_node(f.g, hn_graph_value(f.g, b)->producer)->dead = true;
    EXPECT_OK(hn_graph_verify(f.g, HN_LEGAL_PRIMITIVE));
    hn_graph_compact(f.g);
    EXPECT_INT(f.g->nodes.count, 3);
    EXPECT_INT(hn_graph_value(f.g, c)->producer, 1);
    EXPECT_INT(hn_graph_value(f.g, cat)->producer, 2);
    EXPECT_INT(hn_graph_value(f.g, a)->producer, 0);
    EXPECT_INT(hn_graph_node(f.g, 2)->args[0].as.values[1], x);
    EXPECT_INT(f.g->outputs.items[1].value, x);
    EXPECT_OK(hn_graph_verify(f.g, HN_LEGAL_PRIMITIVE));
    fixture_deinit(&f);
}

TEST(sort_moves_nodes_behind_their_operands) {
    fixture f;
    fixture_init(&f);
    hn_value x = fixture_input(&f, HN_DTYPE_F32, "2");
    hn_value a = hn_b_unary(f.g, HN_OP_NEG, x), b = hn_b_unary(f.g, HN_OP_ABS, a),
             c = hn_b_unary(f.g, HN_OP_SIGN, x);
    fixture_output(&f, b);
    fixture_output(&f, c);
    /* a pass replaces a by late */
    hn_value late = hn_b_unary(f.g, HN_OP_EXP, hn_b_unary(f.g, HN_OP_SQRT, x));
    hn_value map[16] = {0};
    map[a] = late;
    hn_graph_replace_uses(f.g, map);
    hn_graph_node(f.g, hn_graph_value(f.g, a)->producer)->dead = true;
    EXPECT_ERROR(hn_graph_verify(f.g, HN_LEGAL_PRIMITIVE), HN_INTERNAL,
                 "used before it is defined");
    EXPECT_OK(hn_graph_sort(f.g));
    EXPECT_OK(hn_graph_verify(f.g, HN_LEGAL_PRIMITIVE));
    static const hn_op want[] = {HN_OP_SQRT, HN_OP_EXP, HN_OP_ABS, HN_OP_SIGN};
    EXPECT_INT(f.g->nodes.count, 5);
    for (uint32_t n = 1; n < f.g->nodes.count; n++)
        EXPECT_INT(hn_graph_node(f.g, n)->op, want[n - 1]);
    hn_graph_node(f.g, 1)->args[0] = hn_arg_value(late);
    EXPECT_ERROR(hn_graph_sort(f.g), HN_INTERNAL, "cycle");
    fixture_deinit(&f);
}

/* Three operands of one node, made in each order that a C compiler may choose for nested calls. */
static void build_tail(fixture *f, const uint32_t order[3]) {
    hn_value x = fixture_input(f, HN_DTYPE_F32, "4"), made[3] = {0};
    hn_node first = f->g->nodes.count;
    for (uint32_t k = 0; k < 3; k++) {
        static const hn_op ops[] = {HN_OP_EXP, HN_OP_NEG, HN_OP_ABS};
        hn_value y = hn_b_unary(f->g, ops[order[k]], x);
        made[order[k]] = order[k] ? y : hn_b_binary(f->g, HN_OP_GT, y, x);
    }
    (void)hn_b_unary(f->g, HN_OP_SQRT, x); /* nobody needs it */
    hn_value root = hn_b_where(f->g, made[0], made[1], made[2]);
    fixture_output(f, root);
    EXPECT_OK(hn_graph_sort_tail(f->g, first, &root, 1, &f->arena));
    EXPECT_OK(hn_graph_verify(f->g, HN_LEGAL_PRIMITIVE));
}

TEST(the_order_of_a_tail_is_not_that_of_its_making) {
    static const uint32_t orders[][3] = {{0, 1, 2}, {2, 1, 0}, {1, 2, 0}, {0, 2, 1}};
    static const hn_op want[] = {HN_OP_EXP, HN_OP_GT, HN_OP_NEG, HN_OP_ABS, HN_OP_WHERE};
    for (uint32_t k = 0; k < 4; k++) {
        fixture f;
        fixture_init(&f);
        build_tail(&f, orders[k]);
        EXPECT_INT(f.g->nodes.count, 6);
        for (uint32_t n = 1; n < f.g->nodes.count; n++)
            EXPECT_INT(hn_graph_node(f.g, n)->op, want[n - 1]);
        fixture_deinit(&f);
    }
}

/* --- the verifier --- */

typedef struct broken {
    fixture f;
    hn_value x, y, z; /* y = neg(x), z = add(x, y) */
} broken;

static void broken_init(broken *b) {
    fixture_init(&b->f);
    b->x = fixture_input(&b->f, HN_DTYPE_F32, "2,s0");
    b->f.g->current_origin =
        hn_graph_add_origin(b->f.g, (hn_origin){HN_STR("add_7"), HN_STR("model.py:3")});
    b->y = hn_b_unary(b->f.g, HN_OP_NEG, b->x);
    b->z = hn_b_binary(b->f.g, HN_OP_ADD, b->x, b->y);
    fixture_output(&b->f, b->z);
    EXPECT_OK(hn_graph_verify(b->f.g, HN_LEGAL_PRIMITIVE));
}
static void broken_expect(broken *b, const char *text) {
    EXPECT_ERROR(hn_graph_verify(b->f.g, HN_LEGAL_PRIMITIVE), HN_INTERNAL, text);
    fixture_deinit(&b->f);
}

TEST(verifier_names_the_node) {
    broken b;
    broken_init(&b);
    hn_graph_node(b.f.g, 2)->arg_count = 1;
    broken_expect(&b, "node 2 'add' from 'add_7' model.py:3: 'add' has 1 arguments instead of 2");
}
TEST(verifier_sees_uses_before_definitions) {
    broken b;
    broken_init(&b);
    hn_graph_node(b.f.g, 1)->args[0].as.value = b.z;
    broken_expect(&b, "node 1 'neg'");
}
TEST(verifier_sees_dead_producers) {
    broken b;
    broken_init(&b);
    hn_graph_node(b.f.g, 1)->dead = true;
    broken_expect(&b, "value 2 is used before it is defined");
}
TEST(verifier_sees_ids_out_of_range) {
    broken b;
    broken_init(&b);
    hn_graph_node(b.f.g, 1)->args[0].as.value = 99;
    broken_expect(&b, "value 99");
}
TEST(verifier_sees_double_definitions) {
    broken b;
    broken_init(&b);
    hn_graph_node(b.f.g, 2)->results = hn_graph_node(b.f.g, 1)->results;
    broken_expect(&b, "defined twice");
}
TEST(verifier_sees_wrong_producers) {
    broken b;
    broken_init(&b);
    b.f.g->values.items[b.y].producer = 2;
    broken_expect(&b, "names node 2 as its producer");
}
TEST(verifier_sees_wrong_result_indices) {
    broken b;
    broken_init(&b);
    b.f.g->values.items[b.y].result_idx = 1;
    broken_expect(&b, "another index");
}
TEST(verifier_sees_wrong_kinds) {
    broken b;
    broken_init(&b);
    hn_graph_node(b.f.g, 1)->args[0] = hn_arg_float(1);
    broken_expect(&b, "argument 'x' of 'neg' does not fit: a float was given, a tensor is wanted");
}
TEST(verifier_sees_wrong_sizes) {
    broken b;
    broken_init(&b);
    b.f.g->values.items[b.z].sizes = (hn_expr[]){hn_sym_int(b.f.sym, 2), hn_sym_int(b.f.sym, 3)};
    broken_expect(&b, "result 0: f32[2, 3] where f32[2, s0] is wanted");
}
TEST(verifier_sees_wrong_dtypes) {
    broken b;
    broken_init(&b);
    b.f.g->values.items[b.z].dtype = HN_DTYPE_F64;
    broken_expect(&b, "f64[2, s0] where f32[2, s0] is wanted");
}
TEST(verifier_sees_wrong_result_counts) {
    broken b;
    broken_init(&b);
    hn_graph_node(b.f.g, 2)->result_count = 0;
    broken_expect(&b, "0 results instead of 1");
}
TEST(verifier_sees_unknown_ops) {
    broken b;
    broken_init(&b);
    hn_graph_node(b.f.g, 2)->op = HN_ATEN_FIRST;
    broken_expect(&b, "does not exist");
}
TEST(verifier_sees_negative_sizes) {
    broken b;
    broken_init(&b);
    b.f.g->values.items[b.x].sizes = (hn_expr[]){hn_sym_int(b.f.sym, -2), hn_sym_int(b.f.sym, 3)};
    broken_expect(&b, "size 0 is negative");
}
TEST(verifier_sees_broken_outputs) {
    broken b;
    broken_init(&b);
    b.f.g->outputs.items[0].value = 0;
    broken_expect(&b, "output 0");
}
TEST(verifier_sees_shared_input_values) {
    broken b;
    broken_init(&b);
    EXPECT_OK(hn_graph_add_input(
        b.f.g, (hn_input){.kind = HN_INPUT_USER, .value = b.x, .name = HN_STR("again")}));
    broken_expect(&b, "input 1 'again': value 1 is defined twice");
}
TEST(verifier_takes_a_latched_error) {
    broken b;
    broken_init(&b);
    hn_graph_fail(b.f.g, HN_ERROR(HN_INTERNAL, "an earlier failure"));
    broken_expect(&b, "an earlier failure");
}
TEST(verifier_wants_primitives_when_told) {
    broken b;
    broken_init(&b);
    hn_arg args[] = {hn_arg_value(b.x), hn_arg_value(b.y), hn_arg_expr(hn_sym_int(b.f.sym, 1))};
    hn_value r = hn_graph_add_tensor(b.f.g, HN_DTYPE_F32, 2, hn_graph_value(b.f.g, b.x)->sizes,
                                     NULL, HN_STR(""));
    hn_graph_add_node(b.f.g, HN_ATEN_add_Tensor, args, 3, &r, 1);
    EXPECT_OK(hn_graph_verify(b.f.g, HN_LEGAL_ANY));
    broken_expect(&b, "'aten.add.Tensor' from 'add_7' model.py:3: it is no primitive");
}

TEST(verifier_checks_mutations) {
    broken b;
    broken_init(&b);
    hn_output output = {.kind = HN_OUTPUT_MUTATION, .value = b.z, .target = 0, .name = HN_STR("x")};
    EXPECT_OK(hn_graph_add_output(b.f.g, output));
    EXPECT_OK(hn_graph_verify(b.f.g, HN_LEGAL_PRIMITIVE));
    b.f.g->outputs.items[1].target = 1;
    EXPECT_ERROR(hn_graph_verify(b.f.g, HN_LEGAL_PRIMITIVE), HN_INTERNAL,
                 "mutates input 1, which does not exist");
    b.f.g->outputs.items[1].target = 0;
    b.f.g->outputs.items[1].value = hn_b_cast(b.f.g, b.z, HN_DTYPE_F64);
    broken_expect(&b, "the new content of input 0: f64[2, s0] where f32[2, s0] is wanted");
}

TEST(verifier_checks_storages) {
    fixture f;
    fixture_init(&f);
    hn_expr sizes[2] = {hn_sym_int(f.sym, 3), hn_sym_int(f.sym, 4)},
            strides[2] = {hn_sym_int(f.sym, 1), hn_sym_int(f.sym, 3)};
    hn_value w = hn_graph_add_tensor(f.g, HN_DTYPE_F32, 2, sizes, strides, HN_STR("w"));
    uint32_t storage =
        hn_graph_add_storage(f.g, (hn_storage){.size_bytes = 64, .file_record = HN_STR("w")});
    EXPECT_OK(hn_graph_add_input(f.g, (hn_input){.kind = HN_INPUT_PARAMETER,
                                                 .value = w,
                                                 .storage = storage,
                                                 .storage_offset_elems = 4,
                                                 .name = HN_STR("w")}));
    EXPECT_OK(hn_graph_verify(f.g, HN_LEGAL_ANY));
    f.g->inputs.items[0].storage_offset_elems = 5;
    EXPECT_ERROR(hn_graph_verify(f.g, HN_LEGAL_ANY), HN_INTERNAL,
                 "input 0 'w': it reaches beyond its storage of 64 bytes");
    f.g->inputs.items[0].storage_offset_elems = -1;
    EXPECT_ERROR(hn_graph_verify(f.g, HN_LEGAL_ANY), HN_INTERNAL, "beyond");
    f.g->inputs.items[0].storage_offset_elems = INT64_MAX;
    EXPECT_ERROR(hn_graph_verify(f.g, HN_LEGAL_ANY), HN_INTERNAL, "");
    f.g->inputs.items[0].storage = 0;
    EXPECT_ERROR(hn_graph_verify(f.g, HN_LEGAL_ANY), HN_INTERNAL, "no storage");
    fixture_deinit(&f);
}

/* --- subgraphs --- */

static hn_graph *branch(fixture *f, hn_op op, hn_dtype dtype) {
    hn_graph *g = NULL, *outer = f->g;
    EXPECT_OK(hn_graph_create(&f->arena, f->sym, &g));
    f->g = g;
    hn_value x = fixture_input(f, dtype, "2");
    fixture_output(f, hn_b_unary(g, op, x));
    f->g = outer;
    return g;
}

TEST(cond_matches_its_branches) {
    fixture f;
    fixture_init(&f);
    hn_value p = fixture_input(&f, HN_DTYPE_BOOL, ""), x = fixture_input(&f, HN_DTYPE_F32, "2"),
             out[1];
    hn_graph *yes = branch(&f, HN_OP_NEG, HN_DTYPE_F32), *no = branch(&f, HN_OP_ABS, HN_DTYPE_F32);
    hn_b_cond(f.g, p, yes, no, &x, 1, out, 1);
    EXPECT_TYPE(&f, out[0], "f32[2]");
    fixture_output(&f, out[0]);
    EXPECT_OK(hn_graph_verify(f.g, HN_LEGAL_PRIMITIVE));
    yes->values.items[2].dtype = HN_DTYPE_F64; /* the verifier goes into subgraphs */
    EXPECT_ERROR(hn_graph_verify(f.g, HN_LEGAL_PRIMITIVE), HN_INTERNAL,
                 "node 1 'cond' from '' : node 1 'neg'");
    yes->values.items[2].dtype = HN_DTYPE_F32;
    hn_b_cond(f.g, p, yes, branch(&f, HN_OP_ABS, HN_DTYPE_F64), &x, 1, out, 1);
    EXPECT_REFUSED(&f, out[0],
                   "the otherwise graph of 'cond': input 0: f32[2] where f64[2] is wanted");
    hn_b_cond(f.g, p, yes, no, &x, 0, out, 1);
    EXPECT_REFUSED(&f, out[0], "1 inputs and 1 outputs instead of 0 and 1");
    hn_b_cond(f.g, x, yes, no, &x, 1, out, 1);
    EXPECT_REFUSED(&f, out[0], "'cond' wants a condition of one element");
    fixture_deinit(&f);
}

TEST(deep_nesting_is_refused) {
    fixture f;
    fixture_init(&f);
    hn_graph *inner = f.g, *leaf = NULL;
    EXPECT_OK(hn_graph_create(&f.arena, f.sym, &leaf));
    for (int depth = 1; depth <= 101; depth++) {
        EXPECT_OK(hn_graph_create(&f.arena, f.sym, &f.g));
        hn_b_cond(f.g, hn_b_scalar(f.g, 1, HN_DTYPE_BOOL), inner, leaf, NULL, 0, NULL, 0);
        EXPECT_OK(hn_graph_status(f.g));
        inner = f.g;
        if (depth == 100) EXPECT_OK(hn_graph_verify(f.g, HN_LEGAL_PRIMITIVE));
    }
    EXPECT_ERROR(hn_graph_verify(f.g, HN_LEGAL_PRIMITIVE), HN_UNSUPPORTED,
                 "nested more than 100 deep");
    fixture_deinit(&f);
}

/* --- size and speed --- */

TEST(ten_thousand_nodes_in_milliseconds) {
    fixture f;
    fixture_init(&f);
    hn_value x = fixture_input(&f, HN_DTYPE_F32, "s0,64");
    int64_t begin = hn_now_ns();
    hn_value y = x;
    for (int i = 0; i < 10000; i++) y = hn_b_binary(f.g, i % 2 ? HN_OP_ADD : HN_OP_MUL, y, x);
    int64_t built = hn_now_ns();
    fixture_output(&f, y);
    EXPECT_OK(hn_graph_verify(f.g, HN_LEGAL_PRIMITIVE));
    int64_t verified = hn_now_ns();
    EXPECT_OK(hn_graph_sort(f.g));
    EXPECT_OK(hn_graph_verify(f.g, HN_LEGAL_PRIMITIVE));
    if (getenv("HENRY_TEST_TIMES"))
        printf("build %.2f ms, verify %.2f ms, %zu bytes\n", (double)(built - begin) / 1e6,
               (double)(verified - built) / 1e6, f.arena.total_bytes);
    /* A quadratic step would take 100 million visits, seconds under sanitizers; a loaded machine
     * stays below this. */
    EXPECT(verified - begin < 2000000000);
    fixture_deinit(&f);
}

TEST_MAIN
