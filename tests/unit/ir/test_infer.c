/* The builders and the inference rules: what each primitive gives, and what each refuses. */
#include "base/compiler.h"
#include "unit/ir/ir_fixture.h"

static hn_expr num(fixture *f, int64_t value) { return hn_sym_int(f->sym, value); }

static uint32_t guard_count(const fixture *f) {
    uint32_t count;
    (void)hn_sym_guards(f->sym, &count);
    return count;
}

/* --- element-wise --- */

TEST(unary_keeps_dtype_and_sizes) {
    fixture f;
    fixture_init(&f);
    hn_value x = fixture_input(&f, HN_DTYPE_BF16, "2,s0"), i = fixture_input(&f, HN_DTYPE_I32, "3");
    hn_value b = fixture_input(&f, HN_DTYPE_BOOL, "3");
    EXPECT_TYPE(&f, hn_b_unary(f.g, HN_OP_EXP, x), "bf16[2, s0]");
    EXPECT_TYPE(&f, hn_b_unary(f.g, HN_OP_ISNAN, x), "bool[2, s0]");
    EXPECT_TYPE(&f, hn_b_unary(f.g, HN_OP_FLOOR, i), "i32[3]");
    EXPECT_TYPE(&f, hn_b_unary(f.g, HN_OP_RELU, i), "i32[3]");
    EXPECT_TYPE(&f, hn_b_unary(f.g, HN_OP_NOT, b), "bool[3]");
    EXPECT_REFUSED(&f, hn_b_unary(f.g, HN_OP_EXP, i), "'exp' is not defined on i32");
    EXPECT_REFUSED(&f, hn_b_unary(f.g, HN_OP_SIGMOID, b), "not defined on bool");
    EXPECT_REFUSED(&f, hn_b_unary(f.g, HN_OP_NEG, b), "not defined on bool");
    EXPECT_REFUSED(&f, hn_b_unary(f.g, HN_OP_NOT, x), "not defined on bf16");
    EXPECT_REFUSED(&f, hn_b_unary(f.g, HN_OP_ADD, x), "'add' has 1 arguments instead of 2");
    fixture_deinit(&f);
}

TEST(every_unary_and_binary_row_infers) {
    fixture f;
    fixture_init(&f);
    static const hn_dtype dtypes[] = {HN_DTYPE_F32, HN_DTYPE_I64, HN_DTYPE_BOOL};
    for (uint32_t op = 1; op < HN_OP_COUNT; op++) {
        hn_op_class c = hn_op_facts((hn_op)op)->op_class;
        bool two = c == HN_OPC_BINARY || c == HN_OPC_COMPARE;
        if (!two && c != HN_OPC_UNARY && c != HN_OPC_PREDICATE) continue;
        for (int d = 0; d < 3; d++) {
            hn_value x = fixture_input(&f, dtypes[d], "4");
            hn_value y = two ? hn_b_binary(f.g, (hn_op)op, x, x) : hn_b_unary(f.g, (hn_op)op, x);
            hn_status_free(hn_graph_status(f.g));
            EXPECT_INT(y != 0, hn_op_takes((hn_op)op, dtypes[d]));
            if (!y) continue;
            bool logical = c == HN_OPC_COMPARE || c == HN_OPC_PREDICATE;
            EXPECT_INT(hn_graph_value(f.g, y)->dtype, logical ? HN_DTYPE_BOOL : dtypes[d]);
        }
    }
    EXPECT_OK(hn_graph_verify(f.g, HN_LEGAL_PRIMITIVE));
    fixture_deinit(&f);
}

TEST(binary_broadcasts) {
    fixture f;
    fixture_init(&f);
    hn_value a = fixture_input(&f, HN_DTYPE_F32, "2,1,s0"),
             b = fixture_input(&f, HN_DTYPE_F32, "5,1");
    hn_value scalar = hn_b_scalar(f.g, 2, HN_DTYPE_F32);
    EXPECT_TYPE(&f, hn_b_binary(f.g, HN_OP_ADD, a, b), "f32[2, 5, s0]");
    EXPECT_TYPE(&f, hn_b_binary(f.g, HN_OP_ADD, b, a), "f32[2, 5, s0]");
    EXPECT_TYPE(&f, hn_b_binary(f.g, HN_OP_LT, scalar, a), "bool[2, 1, s0]");
    EXPECT_TYPE(&f, hn_b_binary(f.g, HN_OP_MUL, scalar, scalar), "f32[]");
    EXPECT_INT(guard_count(&f), 0);
    hn_value c = fixture_input(&f, HN_DTYPE_F32, "3,4");
    EXPECT_REFUSED(&f, hn_b_binary(f.g, HN_OP_ADD, b, c), "5 == 3 does not hold");
    hn_value zero = fixture_input(&f, HN_DTYPE_F32, "0,1");
    EXPECT_TYPE(&f, hn_b_binary(f.g, HN_OP_ADD, zero, fixture_input(&f, HN_DTYPE_F32, "7")),
                "f32[0, 7]");
    fixture_deinit(&f);
}

TEST(broadcast_of_different_symbols_is_guarded_once) {
    fixture f;
    fixture_init(&f);
    hn_value a = fixture_input(&f, HN_DTYPE_F32, "s0"), b = fixture_input(&f, HN_DTYPE_F32, "s1"),
             c = fixture_input(&f, HN_DTYPE_F32, "16");
    EXPECT_TYPE(&f, hn_b_binary(f.g, HN_OP_ADD, a, b), "f32[s0]");
    EXPECT_INT(guard_count(&f), 1);
    EXPECT_TYPE(&f, hn_b_binary(f.g, HN_OP_SUB, b, a), "f32[s1]");
    EXPECT_INT(guard_count(&f), 1);
    EXPECT_TYPE(&f, hn_b_binary(f.g, HN_OP_ADD, a, c), "f32[16]"); /* the literal wins */
    EXPECT_INT(guard_count(&f), 2);
    EXPECT_OK(hn_graph_verify(f.g, HN_LEGAL_PRIMITIVE));
    EXPECT_OK(hn_graph_verify(f.g, HN_LEGAL_PRIMITIVE));
    EXPECT_INT(guard_count(&f), 2); /* verifying asks nothing new */
    fixture_deinit(&f);
}

/* 1 - Max(0, 1 - s0) is 1 for every size but 0: PyTorch broadcasts it, the nodes see a literal. */
TEST(broadcast_of_a_size_that_is_1_by_the_hints) {
    fixture f;
    fixture_init(&f);
    hn_expr size = hn_sym_symbol(f.sym, HN_STR("s2"), HN_SYMBOL_SIZE, 0, HN_SYM_MAX),
            wide[2] = {num(&f, 3), size}, both[2];
    uint32_t rank;
    hn_sym_set_hint(f.sym, size, 12);
    hn_expr start = fixture_expr(&f, "Max(0, 1 - s2)"), left = hn_sym_sub(f.sym, num(&f, 1), start);
    hn_value a = hn_b_slice(f.g, fixture_input(&f, HN_DTYPE_F32, "3,1"), 1, start, left, 1),
             b = fixture_input(&f, HN_DTYPE_F32, "3,s2");
    uint32_t before = guard_count(&f);
    EXPECT_OK(hn_broadcast(f.g, wide, 2, hn_graph_value(f.g, a)->sizes, 2, both, &rank));
    EXPECT(both[1] == size);
    EXPECT_INT(guard_count(&f), before + 1);
    EXPECT_TYPE(&f, hn_b_binary(f.g, HN_OP_ADD, a, b), "f32[3, s2]");
    EXPECT_TYPE(&f, hn_b_where(f.g, hn_b_binary(f.g, HN_OP_LT, a, a), b, a), "f32[3, s2]");
    EXPECT_TYPE(&f, hn_b_expand(f.g, a, wide, 2), "f32[3, s2]");
    uint32_t count;
    const hn_guard *guards = hn_sym_guards(f.sym, &count);
    /* none says that s2 is 1 */
    for (uint32_t k = 0; k < count; k++) EXPECT(guards[k].lhs != size && guards[k].rhs != size);
    EXPECT_OK(hn_graph_verify(f.g, HN_LEGAL_PRIMITIVE));
    EXPECT_INT(guard_count(&f), count);
    fixture_deinit(&f);
}

/* Equal by a guard is not enough where a literal 1 stands: it broadcasts. */
TEST(only_a_literal_1_is_the_same_as_one) {
    fixture f;
    fixture_init(&f);
    hn_expr one = num(&f, 1), a = fixture_expr(&f, "Min(s0, s1)"), b = fixture_expr(&f, "s1//2");
    hn_sym_require(f.sym, HN_REL_EQ, a, one, "");
    hn_sym_require(f.sym, HN_REL_EQ, b, a, "");
    EXPECT(!hn_same_sizes(f.g, &a, &one, 1) && !hn_same_sizes(f.g, &one, &a, 1));
    EXPECT(hn_same_sizes(f.g, &a, &b, 1) && hn_same_sizes(f.g, &one, &one, 1));
    fixture_deinit(&f);
}

TEST(binary_dtypes) {
    fixture f;
    fixture_init(&f);
    hn_value x = fixture_input(&f, HN_DTYPE_F32, "2"), h = fixture_input(&f, HN_DTYPE_F16, "2"),
             b = fixture_input(&f, HN_DTYPE_BOOL, "2"), i = fixture_input(&f, HN_DTYPE_I64, "2");
    EXPECT_TYPE(&f, hn_b_binary(f.g, HN_OP_ADD, b, b), "bool[2]");
    EXPECT_TYPE(&f, hn_b_binary(f.g, HN_OP_XOR, b, b), "bool[2]");
    EXPECT_TYPE(&f, hn_b_binary(f.g, HN_OP_SHL, i, i), "i64[2]");
    EXPECT_REFUSED(&f, hn_b_binary(f.g, HN_OP_ADD, x, h), "dtypes f32 and f16; cast one of them");
    EXPECT_REFUSED(&f, hn_b_binary(f.g, HN_OP_SUB, b, b), "'sub' is not defined on bool");
    EXPECT_REFUSED(&f, hn_b_binary(f.g, HN_OP_AND, x, x), "'and' is not defined on f32");
    EXPECT_REFUSED(&f, hn_b_binary(f.g, HN_OP_SHR, b, b), "not defined on bool");
    EXPECT_REFUSED(&f, hn_b_binary(f.g, HN_OP_ATAN2, i, i), "not defined on i64");
    fixture_deinit(&f);
}

TEST(where_and_cast) {
    fixture f;
    fixture_init(&f);
    hn_value c = fixture_input(&f, HN_DTYPE_BOOL, "3,1"), x = fixture_input(&f, HN_DTYPE_F32, "4"),
             y = hn_b_scalar(f.g, 0, HN_DTYPE_F32);
    EXPECT_TYPE(&f, hn_b_where(f.g, c, x, y), "f32[3, 4]");
    EXPECT_INT(hn_b_cast(f.g, x, HN_DTYPE_F32), x);
    EXPECT_TYPE(&f, hn_b_cast(f.g, x, HN_DTYPE_I8), "i8[4]");
    EXPECT_REFUSED(&f, hn_b_where(f.g, x, x, y), "condition of 'where' has dtype f32");
    EXPECT_REFUSED(&f, hn_b_where(f.g, c, x, hn_b_cast(f.g, y, HN_DTYPE_F64)),
                   "dtypes f32 and f64");
    EXPECT_REFUSED(&f, hn_b_cast(f.g, x, HN_DTYPE_NONE), "argument 'dtype' of 'cast'");
    fixture_deinit(&f);
}

/* --- creation --- */

static const hn_arg *first_arg(fixture *f, hn_value v) {
    return &hn_graph_node(f->g, hn_graph_value(f->g, v)->producer)->args[0];
}

TEST(creation) {
    fixture f;
    fixture_init(&f);
    hn_expr sizes[2] = {num(&f, 2), fixture_expr(&f, "s0")};
    hn_value full = hn_b_full(f.g, hn_scalar_i(num(&f, 3)), sizes, 2, HN_DTYPE_F32);
    EXPECT_TYPE(&f, full, "f32[2, s0]");
    EXPECT_INT(first_arg(&f, full)->kind, HN_ARG_FLOAT); /* one spelling for a number of a dtype */
    full = hn_b_scalar(f.g, 3, HN_DTYPE_I32);
    EXPECT_INT(first_arg(&f, full)->kind, HN_ARG_INT);
    EXPECT(hn_sym_is_value(f.sym, first_arg(&f, full)->as.expr, 3));
    EXPECT_INT(first_arg(&f, hn_b_full(f.g, hn_scalar_i(sizes[1]), NULL, 0, HN_DTYPE_F32))->kind,
               HN_ARG_INT);
    EXPECT_INT(first_arg(&f, hn_b_scalar(f.g, 1e30, HN_DTYPE_I64))->kind, HN_ARG_FLOAT);
    EXPECT_TYPE(&f, hn_b_iota(f.g, hn_scalar_f(0), hn_scalar_f(1), sizes[1], HN_DTYPE_I64),
                "i64[s0]");
    EXPECT_REFUSED(&f, hn_b_iota(f.g, hn_scalar_f(0), hn_scalar_f(1), num(&f, -1), HN_DTYPE_I64),
                   "sizes are not negative");
    EXPECT_REFUSED(&f, hn_b_iota(f.g, hn_scalar_f(0), hn_scalar_f(1), sizes[0], HN_DTYPE_BOOL),
                   "not defined on bool");
    hn_value seed = fixture_input(&f, HN_DTYPE_I64, "");
    EXPECT_TYPE(&f, hn_b_random(f.g, "normal", sizes, 2, HN_DTYPE_F16, seed, num(&f, 0)),
                "f16[2, s0]");
    EXPECT_TYPE(&f, hn_b_random(f.g, "bits", sizes, 1, HN_DTYPE_I64, seed, num(&f, 1)), "i64[2]");
    EXPECT_REFUSED(&f, hn_b_random(f.g, "gamma", sizes, 1, HN_DTYPE_F32, seed, num(&f, 1)),
                   "'gamma' is no 'kind' of 'random'");
    EXPECT_REFUSED(&f, hn_b_random(f.g, "uniform", sizes, 1, HN_DTYPE_I64, seed, num(&f, 1)),
                   "not defined on i64");
    EXPECT_REFUSED(&f,
                   hn_b_random(f.g, "uniform", sizes, 1, HN_DTYPE_F32,
                               full = hn_b_scalar(f.g, 0, HN_DTYPE_F32), num(&f, 1)),
                   "the seed");
    fixture_deinit(&f);
}

/* --- views --- */

TEST(reshape) {
    fixture f;
    fixture_init(&f);
    hn_value x = fixture_input(&f, HN_DTYPE_F32, "2,s0,3");
    hn_expr flat[1] = {fixture_expr(&f, "6*s0")}, wrong[1] = {fixture_expr(&f, "6*s0 + 1")},
            same[3], guarded[2];
    EXPECT_TYPE(&f, hn_b_reshape(f.g, x, flat, 1), "f32[6*s0]");
    fixture_exprs(&f, "2,s0,3", same);
    EXPECT_INT(hn_b_reshape(f.g, x, same, 3), x);
    EXPECT_REFUSED(&f, hn_b_reshape(f.g, x, wrong, 1), "a reshape keeps the number of elements");
    EXPECT_INT(guard_count(&f), 0);
    fixture_exprs(&f, "s1,6", guarded);
    EXPECT_TYPE(&f, hn_b_reshape(f.g, x, guarded, 2), "f32[s1, 6]");
    EXPECT_INT(guard_count(&f), 1);
    EXPECT_TYPE(&f, hn_b_reshape(f.g, hn_b_scalar(f.g, 1, HN_DTYPE_F32), same, 0), "f32[]");
    hn_expr negative[2] = {num(&f, -2), num(&f, -2)};
    EXPECT_REFUSED(&f, hn_b_reshape(f.g, fixture_input(&f, HN_DTYPE_F32, "4"), negative, 2),
                   "not negative");
    fixture_deinit(&f);
}

TEST(permute_and_expand) {
    fixture f;
    fixture_init(&f);
    hn_value x = fixture_input(&f, HN_DTYPE_F32, "2,1,s0");
    EXPECT_TYPE(&f, hn_b_permute(f.g, x, (uint32_t[]){2, 0, 1}), "f32[s0, 2, 1]");
    EXPECT_INT(hn_b_permute(f.g, x, (uint32_t[]){0, 1, 2}), x);
    EXPECT_TYPE(&f, hn_b_transpose(f.g, x, 0, 2), "f32[s0, 1, 2]");
    EXPECT_INT(hn_b_transpose(f.g, x, 1, 1), x);
    EXPECT_REFUSED(&f, hn_b_permute(f.g, x, (uint32_t[]){0, 0, 1}), "no permutation");
    EXPECT_REFUSED(&f, hn_b_permute(f.g, x, (uint32_t[]){0, 1, 3}), "no permutation");
    EXPECT_REFUSED(&f, hn_b_transpose(f.g, x, 0, 3), "out of range");
    hn_expr sizes[4];
    fixture_exprs(&f, "7,2,5,s0", sizes);
    EXPECT_TYPE(&f, hn_b_expand(f.g, x, sizes, 4), "f32[7, 2, 5, s0]");
    EXPECT_TYPE(&f, hn_b_expand(f.g, x, sizes + 1, 3), "f32[2, 5, s0]");
    sizes[0] = num(&f, 1);
    sizes[2] = num(&f, 1);
    EXPECT_TYPE(&f, hn_b_expand(f.g, x, sizes, 4), "f32[1, 2, 1, s0]");
    /* nothing left to expand */
    EXPECT_INT(hn_graph_node(f.g, f.g->nodes.count - 1)->op, HN_OP_RESHAPE);
    EXPECT_INT(hn_b_expand(f.g, x, sizes + 1, 3), x);
    sizes[1] = num(&f, 3);
    EXPECT_REFUSED(&f, hn_b_expand(f.g, x, sizes + 1, 3), "only sizes of 1 expand: 3 == 2");
    EXPECT_REFUSED(&f, hn_b_expand(f.g, x, sizes + 2, 2),
                   "'expand' gives rank 2 to an operand of rank 3");
    fixture_deinit(&f);
}

TEST(squeeze_and_unsqueeze) {
    fixture f;
    fixture_init(&f);
    hn_value x = fixture_input(&f, HN_DTYPE_F32, "2,1");
    EXPECT_TYPE(&f, hn_b_unsqueeze(f.g, x, 0), "f32[1, 2, 1]");
    EXPECT_TYPE(&f, hn_b_unsqueeze(f.g, x, 2), "f32[2, 1, 1]");
    EXPECT_TYPE(&f, hn_b_squeeze(f.g, x, 1), "f32[2]");
    EXPECT_REFUSED(&f, hn_b_unsqueeze(f.g, x, 3), "out of range");
    EXPECT_REFUSED(&f, hn_b_squeeze(f.g, x, 0), "a squeezed size is 1");
    EXPECT_TYPE(&f, hn_b_unsqueeze(f.g, hn_b_scalar(f.g, 1, HN_DTYPE_F32), 0), "f32[1]");
    hn_value big = fixture_input(&f, HN_DTYPE_F32, "1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1");
    EXPECT_INT(hn_b_unsqueeze(f.g, big, 16), 0);
    EXPECT_ERROR(hn_graph_status(f.g), HN_UNSUPPORTED, "rank 17");
    fixture_deinit(&f);
}

TEST(slices) {
    fixture f;
    fixture_init(&f);
    hn_value x = fixture_input(&f, HN_DTYPE_F32, "10,4");
    EXPECT_TYPE(&f, hn_b_slice(f.g, x, 0, num(&f, 1), num(&f, 3), 3), "f32[3, 4]");
    EXPECT_TYPE(&f, hn_b_slice(f.g, x, 0, num(&f, 0), num(&f, 4), 3), "f32[4, 4]"); /* 0 3 6 9 */
    EXPECT_TYPE(&f, hn_b_slice(f.g, x, 0, num(&f, 10), num(&f, 0), 1), "f32[0, 4]");
    EXPECT_TYPE(&f, hn_b_slice(f.g, x, 0, num(&f, 9), num(&f, 10), -1), "f32[10, 4]");
    EXPECT_INT(hn_b_slice(f.g, x, 0, num(&f, 0), num(&f, 10), 1), x);
    EXPECT_TYPE(&f, hn_b_flip(f.g, x, 1), "f32[10, 4]");
    EXPECT_TYPE(&f, hn_b_select(f.g, x, 0, num(&f, 9)), "f32[4]");
    EXPECT_REFUSED(&f, hn_b_slice(f.g, x, 0, num(&f, 0), num(&f, 5), 3),
                   "a slice ends within its dimension");
    EXPECT_REFUSED(&f, hn_b_slice(f.g, x, 0, num(&f, 0), num(&f, 11), 1),
                   "a slice ends within its dimension");
    EXPECT_REFUSED(&f, hn_b_slice(f.g, x, 0, num(&f, 8), num(&f, 10), -1),
                   "a slice starts within its dimension");
    EXPECT_REFUSED(&f, hn_b_slice(f.g, x, 0, num(&f, 10), num(&f, 3), -1),
                   "a slice ends within its dimension");
    EXPECT_REFUSED(&f, hn_b_slice(f.g, x, 0, num(&f, -1), num(&f, 1), 1),
                   "a slice starts within its dimension");
    EXPECT_REFUSED(&f, hn_b_slice(f.g, x, 0, num(&f, 0), num(&f, -1), 1), "not negative");
    EXPECT_REFUSED(&f, hn_b_slice(f.g, x, 0, num(&f, 0), num(&f, 1), 0), "step of 0");
    EXPECT_REFUSED(&f, hn_b_slice(f.g, x, 2, num(&f, 0), num(&f, 1), 1), "out of range");
    EXPECT_REFUSED(&f, hn_b_select(f.g, x, 0, num(&f, 10)), "a slice ends within its dimension");
    EXPECT_INT(guard_count(&f), 0);
    hn_value y = fixture_input(&f, HN_DTYPE_F32, "s0");
    EXPECT_TYPE(&f, hn_b_flip(f.g, y, 0), "f32[s0]");
    EXPECT_INT(guard_count(&f), 0);
    EXPECT_TYPE(&f, hn_b_slice(f.g, y, 0, num(&f, 0), num(&f, 3), 1), "f32[3]");
    EXPECT_INT(guard_count(&f), 1); /* 3 <= s0 */
    EXPECT_OK(hn_graph_verify(f.g, HN_LEGAL_PRIMITIVE));
    fixture_deinit(&f);
}

TEST(windows_and_strides) {
    fixture f;
    fixture_init(&f);
    hn_value x = fixture_input(&f, HN_DTYPE_F32, "2,7");
    hn_expr one = num(&f, 1), two = num(&f, 2), three = num(&f, 3);
    EXPECT_TYPE(&f, hn_b_window(f.g, x, 1, three, three, two, one), "f32[2, 3, 3]");
    EXPECT_TYPE(&f, hn_b_window(f.g, x, 0, two, one, one, one), "f32[2, 7, 1]");
    EXPECT_REFUSED(&f, hn_b_window(f.g, x, 1, three, three, two, two),
                   "windows lie within their dimension");
    EXPECT_REFUSED(&f, hn_b_window(f.g, x, 1, three, num(&f, 0), two, one),
                   "a window holds an element");
    EXPECT_REFUSED(&f, hn_b_window(f.g, x, 1, three, three, num(&f, 0), one),
                   "step of a window is positive");
    hn_expr sizes[2] = {three, two}, strides[2] = {num(&f, 4), one}, far[2] = {num(&f, 7), one};
    EXPECT_TYPE(&f, hn_b_as_strided(f.g, x, sizes, strides, 2, num(&f, 4)), "f32[3, 2]");
    EXPECT_REFUSED(&f, hn_b_as_strided(f.g, x, sizes, strides, 2, num(&f, 5)),
                   "the elements lie within the operand");
    EXPECT_REFUSED(&f, hn_b_as_strided(f.g, x, sizes, far, 2, num(&f, 0)),
                   "the elements lie within the operand: 16 <= 14");
    EXPECT_REFUSED(&f, hn_b_as_strided(f.g, x, sizes, strides, 2, num(&f, -1)),
                   "the offset is not negative");
    fixture_deinit(&f);
}

/* --- data movement --- */

TEST(pad_and_cat) {
    fixture f;
    fixture_init(&f);
    hn_value x = fixture_input(&f, HN_DTYPE_F32, "2,s0"),
             y = fixture_input(&f, HN_DTYPE_F32, "3,s0");
    hn_expr lo[2] = {num(&f, 1), num(&f, 0)}, hi[2] = {num(&f, 0), num(&f, 4)},
            none[2] = {num(&f, 0), num(&f, 0)};
    hn_expr negative[2] = {num(&f, -1), num(&f, 0)};
    EXPECT_TYPE(&f, hn_b_pad(f.g, x, hn_scalar_f(0), lo, hi), "f32[3, s0 + 4]");
    EXPECT_INT(hn_b_pad(f.g, x, hn_scalar_f(0), none, none), x);
    EXPECT_REFUSED(&f, hn_b_pad(f.g, x, hn_scalar_f(0), negative, hi), "padding is not negative");
    EXPECT_TYPE(&f, hn_b_cat(f.g, (hn_value[]){x, y, x}, 3, 0), "f32[7, s0]");
    EXPECT_TYPE(&f, hn_b_cat(f.g, (hn_value[]){x, x}, 2, 1), "f32[2, 2*s0]");
    EXPECT_INT(hn_b_cat(f.g, &x, 1, 1), x);
    EXPECT_REFUSED(&f, hn_b_cat(f.g, (hn_value[]){x, y}, 2, 1),
                   "the other sizes of a cat are equal");
    EXPECT_REFUSED(&f, hn_b_cat(f.g, (hn_value[]){x, hn_b_cast(f.g, y, HN_DTYPE_F64)}, 2, 0),
                   "dtypes f32 and f64");
    EXPECT_REFUSED(&f, hn_b_cat(f.g, (hn_value[]){x, hn_b_scalar(f.g, 1, HN_DTYPE_F32)}, 2, 0),
                   "rank 0 instead of 2");
    EXPECT_REFUSED(&f, hn_b_cat(f.g, (hn_value[]){x, y}, 2, 2), "out of range");
    EXPECT_REFUSED(&f, hn_b_cat(f.g, NULL, 0, 0), "no operands");
    EXPECT_INT(hn_b_cat(f.g, (hn_value[]){x, 0}, 2, 0), 0);
    EXPECT_OK(hn_graph_status(f.g));
    fixture_deinit(&f);
}

TEST(gather_and_scatter) {
    fixture f;
    fixture_init(&f);
    hn_value x = fixture_input(&f, HN_DTYPE_F32, "4,5"), i = fixture_input(&f, HN_DTYPE_I64, "3,7"),
             src = fixture_input(&f, HN_DTYPE_F32, "3,7"),
             large = fixture_input(&f, HN_DTYPE_F32, "4,9"),
             wide = fixture_input(&f, HN_DTYPE_I64, "5,5");
    EXPECT_TYPE(&f, hn_b_gather(f.g, x, i, 1), "f32[3, 7]");
    EXPECT_TYPE(&f, hn_b_scatter(f.g, x, i, src, 1, "add"), "f32[4, 5]");
    EXPECT_TYPE(&f, hn_b_scatter(f.g, x, i, large, 1, "set"), "f32[4, 5]"); /* the source is cut */
    EXPECT_REFUSED(&f, hn_b_gather(f.g, x, wide, 1), "an index is no larger than its tensor");
    EXPECT_TYPE(&f, hn_b_gather(f.g, x, wide, 0), "f32[5, 5]");
    EXPECT_REFUSED(&f, hn_b_gather(f.g, x, src, 1), "the index of 'gather' has dtype f32");
    EXPECT_REFUSED(&f, hn_b_scatter(f.g, x, i, src, 1, "mean"), "'mean' is no 'mode' of 'scatter'");
    EXPECT_REFUSED(&f, hn_b_scatter(f.g, x, wide, src, 0, "set"),
                   "source and index have equal sizes");
    EXPECT_REFUSED(&f, hn_b_scatter(f.g, x, i, hn_b_cast(f.g, src, HN_DTYPE_F16), 1, "set"),
                   "dtypes f32 and f16");
    hn_value s = hn_b_scalar(f.g, 1, HN_DTYPE_F32), zero = hn_b_scalar(f.g, 0, HN_DTYPE_I64);
    EXPECT_TYPE(&f, hn_b_gather(f.g, s, zero, 0), "f32[]");
    EXPECT_TYPE(&f, hn_b_scatter(f.g, s, zero, s, 0, "set"), "f32[]");
    fixture_deinit(&f);
}

TEST(indexing) {
    fixture f;
    fixture_init(&f);
    hn_value x = fixture_input(&f, HN_DTYPE_F32, "4,5,6"),
             i = fixture_input(&f, HN_DTYPE_I64, "s0,2"),
             j = fixture_input(&f, HN_DTYPE_I32, "s0,2"), v = fixture_input(&f, HN_DTYPE_F32, "6");
    EXPECT_TYPE(&f, hn_b_index(f.g, x, (hn_value[]){i, j}, 2, true), "f32[s0, 2, 6]");
    EXPECT_TYPE(&f, hn_b_index(f.g, x, &i, 1, false), "f32[s0, 2, 5, 6]");
    /* values expand */
    EXPECT_TYPE(&f, hn_b_index_put(f.g, x, (hn_value[]){i, j}, 2, v, "add", true), "f32[4, 5, 6]");
    EXPECT_TYPE(&f, hn_b_index_put(f.g, x, &i, 1, hn_b_scalar(f.g, 0, HN_DTYPE_F32), "set", true),
                "f32[4, 5, 6]");
    EXPECT_REFUSED(&f, hn_b_index(f.g, x, (hn_value[]){i, i, i, i}, 4, true),
                   "4 indices for rank 3");
    EXPECT_REFUSED(&f, hn_b_index(f.g, x, NULL, 0, true), "0 indices");
    EXPECT_REFUSED(&f, hn_b_index(f.g, x, &v, 1, true), "dtype f32 instead of an integer");
    hn_value k = fixture_input(&f, HN_DTYPE_I64, "3");
    EXPECT_REFUSED(&f, hn_b_index(f.g, x, (hn_value[]){i, k}, 2, true), "differ in rank");
    hn_value bad = fixture_input(&f, HN_DTYPE_F32, "5");
    EXPECT_REFUSED(&f, hn_b_index_put(f.g, x, (hn_value[]){i, j}, 2, bad, "add", true),
                   "only sizes of 1 expand");
    EXPECT_REFUSED(&f, hn_b_index_put(f.g, x, (hn_value[]){i, j}, 2, v, "sum", true),
                   "'sum' is no 'mode'");
    fixture_deinit(&f);
}

/* --- reductions, scans, sorts --- */

TEST(reductions) {
    fixture f;
    fixture_init(&f);
    hn_value x = fixture_input(&f, HN_DTYPE_F32, "2,s0,4"),
             b = fixture_input(&f, HN_DTYPE_BOOL, "3");
    EXPECT_TYPE(&f, hn_b_reduce(f.g, HN_OP_SUM, x, (uint32_t[]){0, 2}, 2, false), "f32[s0]");
    EXPECT_TYPE(&f, hn_b_reduce(f.g, HN_OP_SUM, x, (uint32_t[]){0, 2}, 2, true), "f32[1, s0, 1]");
    EXPECT_TYPE(&f, hn_b_reduce(f.g, HN_OP_ARGMAX, x, (uint32_t[]){1}, 1, false), "i64[2, 4]");
    EXPECT_TYPE(&f, hn_b_reduce(f.g, HN_OP_AMAX, x, NULL, 0, false), "f32[2, s0, 4]");
    EXPECT_TYPE(&f, hn_b_reduce(f.g, HN_OP_ANY, b, (uint32_t[]){0}, 1, false), "bool[]");
    /* cast first */
    EXPECT_TYPE(&f, hn_b_reduce(f.g, HN_OP_ALL, x, (uint32_t[]){0}, 1, false), "bool[s0, 4]");
    EXPECT_TYPE(
        &f,
        hn_b_reduce(f.g, HN_OP_SUM, hn_b_scalar(f.g, 1, HN_DTYPE_F32), (uint32_t[]){0}, 1, true),
        "f32[]");
    EXPECT_REFUSED(&f, hn_b_reduce(f.g, HN_OP_SUM, b, (uint32_t[]){0}, 1, false),
                   "'sum' is not defined on bool");
    EXPECT_REFUSED(&f, hn_b_reduce(f.g, HN_OP_SUM, x, (uint32_t[]){2, 0}, 2, false), "ascending");
    EXPECT_REFUSED(&f, hn_b_reduce(f.g, HN_OP_SUM, x, (uint32_t[]){0, 0}, 2, false), "ascending");
    EXPECT_REFUSED(&f, hn_b_reduce(f.g, HN_OP_SUM, x, (uint32_t[]){3}, 1, false),
                   "below the rank 3");
    hn_value none = fixture_input(&f, HN_DTYPE_F32, "3,0"),
             nothing = fixture_input(&f, HN_DTYPE_F32, "0,0");
    EXPECT_TYPE(&f, hn_b_reduce(f.g, HN_OP_SUM, none, (uint32_t[]){1}, 1, false), "f32[3]");
    EXPECT_REFUSED(&f, hn_b_reduce(f.g, HN_OP_AMAX, none, (uint32_t[]){1}, 1, false),
                   "over no elements");
    EXPECT_TYPE(&f, hn_b_reduce(f.g, HN_OP_AMAX, none, (uint32_t[]){0}, 1, false), "f32[0]");
    EXPECT_TYPE(&f, hn_b_reduce(f.g, HN_OP_AMAX, nothing, (uint32_t[]){1}, 1, false), "f32[0]");
    fixture_deinit(&f);
}

/* Every reduction and scan, by what its row says. */
TEST(rows_say_what_reductions_accept) {
    fixture f;
    fixture_init(&f);
    static const hn_dtype dtypes[] = {HN_DTYPE_F32, HN_DTYPE_I64, HN_DTYPE_BOOL};
    for (hn_op op = HN_OP_NONE + 1; op < HN_OP_COUNT; op++) {
        bool reduces = hn_op_facts(op)->op_class == HN_OPC_REDUCE;
        if (!reduces && hn_op_facts(op)->op_class != HN_OPC_SCAN) continue;
        for (size_t d = 0; d < HN_COUNT_OF(dtypes); d++) {
            hn_value x = fixture_input(&f, dtypes[d], "4"),
                     none = fixture_input(&f, dtypes[d], "0"), indices = 0;
            bool casts = op == HN_OP_ANY || op == HN_OP_ALL; /* the builder does */
            hn_value y = reduces ? hn_b_reduce(f.g, op, x, (uint32_t[]){0}, 1, false)
                                 : hn_b_scan(f.g, op, x, 0, &indices);
            hn_status_free(hn_graph_status(f.g));
            EXPECT_INT(y != 0, casts || hn_op_takes(op, dtypes[d]));
            EXPECT_INT(indices != 0, y && hn_op_result_count(op) == 2);
            if (!y || casts) continue;
            EXPECT_INT(hn_graph_value(f.g, y)->dtype,
                       hn_op_has(op, HN_TRAIT_POSITION) ? HN_DTYPE_I64 : dtypes[d]);
            if (!reduces) continue;
            EXPECT_INT(hn_b_reduce(f.g, op, none, (uint32_t[]){0}, 1, false) != 0,
                       hn_op_has(op, HN_TRAIT_IDENTITY));
            hn_status_free(hn_graph_status(f.g));
        }
    }
    fixture_deinit(&f);
}

TEST(scans_and_sorts) {
    fixture f;
    fixture_init(&f);
    hn_value x = fixture_input(&f, HN_DTYPE_F32, "2,s0"), i = fixture_input(&f, HN_DTYPE_I64, "8"),
             b = fixture_input(&f, HN_DTYPE_BOOL, "8"), indices = 7;
    EXPECT_TYPE(&f, hn_b_scan(f.g, HN_OP_CUMSUM, x, 1, &indices), "f32[2, s0]");
    EXPECT_INT(indices, 0);
    EXPECT_TYPE(&f, hn_b_scan(f.g, HN_OP_CUMMAX, x, 0, &indices), "f32[2, s0]");
    EXPECT_TYPE(&f, indices, "i64[2, s0]");
    EXPECT_TYPE(&f, hn_b_scan(f.g, HN_OP_CUMMAX, x, 0, NULL), "f32[2, s0]");
    EXPECT_REFUSED(&f, hn_b_scan(f.g, HN_OP_CUMSUM, b, 0, NULL), "'cumsum' is not defined on bool");
    EXPECT_REFUSED(&f, hn_b_scan(f.g, HN_OP_LOGCUMSUMEXP, i, 0, NULL), "not defined on i64");
    EXPECT_REFUSED(&f, hn_b_scan(f.g, HN_OP_CUMSUM, i, 1, NULL), "out of range");
    EXPECT_TYPE(&f, hn_b_sort(f.g, b, 0, true, true, &indices), "bool[8]");
    EXPECT_TYPE(&f, indices, "i64[8]");
    EXPECT_TYPE(&f, hn_b_topk(f.g, x, num(&f, 2), 0, true, true, &indices), "f32[2, s0]");
    EXPECT_TYPE(&f, hn_b_topk(f.g, i, num(&f, 3), 0, true, true, &indices), "i64[3]");
    EXPECT_TYPE(&f, indices, "i64[3]");
    EXPECT_REFUSED(&f, hn_b_topk(f.g, i, num(&f, 9), 0, true, true, &indices),
                   "k is at most the size");
    EXPECT_INT(indices, 0);
    hn_value scalar = hn_b_scalar(f.g, 1, HN_DTYPE_F32);
    EXPECT_TYPE(&f, hn_b_sort(f.g, scalar, 0, false, false, &indices), "f32[]");
    EXPECT_TYPE(&f, indices, "i64[]");
    EXPECT_TYPE(&f, hn_b_scan(f.g, HN_OP_CUMPROD, scalar, 0, NULL), "f32[]");
    EXPECT_OK(hn_graph_verify(f.g, HN_LEGAL_PRIMITIVE));
    fixture_deinit(&f);
}

/* --- contractions --- */

TEST(matmul) {
    fixture f;
    fixture_init(&f);
    hn_value a = fixture_input(&f, HN_DTYPE_F32, "s0,3,4"),
             b = fixture_input(&f, HN_DTYPE_F32, "s0,4,5"),
             bias = fixture_input(&f, HN_DTYPE_F32, "5"),
             m = fixture_input(&f, HN_DTYPE_F32, "4,5"),
             tall = fixture_input(&f, HN_DTYPE_F32, "2,s0,3,5");
    EXPECT_TYPE(&f, hn_b_matmul(f.g, a, b, 0), "f32[s0, 3, 5]");
    EXPECT_TYPE(&f, hn_b_matmul(f.g, a, b, bias), "f32[s0, 3, 5]");
    EXPECT_TYPE(&f, hn_b_matmul(f.g, m, hn_b_transpose(f.g, m, 0, 1), 0), "f32[4, 4]");
    EXPECT_REFUSED(&f, hn_b_matmul(f.g, m, m, 0), "the inner sizes of a product are equal: 5 == 4");
    EXPECT_REFUSED(&f, hn_b_matmul(f.g, a, m, 0), "not 3 and 2");
    EXPECT_REFUSED(&f, hn_b_matmul(f.g, bias, bias, 0), "at least 2");
    EXPECT_REFUSED(&f, hn_b_matmul(f.g, a, b, tall),
                   "the bias broadcasts to the product, but has rank 4");
    EXPECT_REFUSED(&f, hn_b_matmul(f.g, a, b, m), "the bias broadcasts to the product: 4 == 3");
    EXPECT_REFUSED(&f, hn_b_matmul(f.g, a, hn_b_cast(f.g, b, HN_DTYPE_BF16), 0),
                   "dtypes f32 and bf16");
    hn_value p = hn_b_cast(f.g, m, HN_DTYPE_BOOL);
    EXPECT_REFUSED(&f, hn_b_matmul(f.g, p, hn_b_transpose(f.g, p, 0, 1), 0), "not defined on bool");
    fixture_deinit(&f);
}

TEST(grouped_matmul_and_nms) {
    fixture f;
    fixture_init(&f);
    hn_value a = fixture_input(&f, HN_DTYPE_BF16, "s0,8"),
             b = fixture_input(&f, HN_DTYPE_BF16, "4,8,5"),
             ends = fixture_input(&f, HN_DTYPE_I64, "4"),
             few = fixture_input(&f, HN_DTYPE_I64, "3");
    EXPECT_TYPE(&f, hn_b_grouped_matmul(f.g, a, b, ends), "bf16[s0, 5]");
    EXPECT_REFUSED(&f, hn_b_grouped_matmul(f.g, a, b, few), "each group has an end: 4 == 3");
    EXPECT_REFUSED(&f, hn_b_grouped_matmul(f.g, a, hn_b_transpose(f.g, b, 1, 2), ends),
                   "the inner sizes of a product are equal: 8 == 5");
    EXPECT_REFUSED(&f, hn_b_grouped_matmul(f.g, a, b, hn_b_cast(f.g, ends, HN_DTYPE_I32)),
                   "dtypes i64 and i32");
    EXPECT_REFUSED(&f, hn_b_grouped_matmul(f.g, b, b, ends),
                   "wants ranks 2, 3 and 1, not 3, 3 and 1");
    hn_value boxes = fixture_input(&f, HN_DTYPE_F32, "s0,4");
    EXPECT_TYPE(&f, hn_b_nms(f.g, boxes, 0.5), "bool[s0]");
    EXPECT_REFUSED(&f, hn_b_nms(f.g, fixture_input(&f, HN_DTYPE_F32, "s0,5"), 0.5),
                   "a box has four numbers: 5 == 4");
    EXPECT_REFUSED(&f, hn_b_nms(f.g, a, 0.5), "f32 or f64, not bf16");
    EXPECT_REFUSED(&f, hn_b_nms(f.g, ends, 0.5), "a matrix of boxes, not rank 1");
    fixture_deinit(&f);
}

static hn_conv_params conv_params(fixture *f, uint32_t spatial, int64_t stride, int64_t padding,
                                  int64_t dilation) {
    hn_conv_params p = {.spatial = spatial, .groups = 1};
    for (uint32_t i = 0; i < spatial; i++) {
        p.stride[i] = num(f, stride);
        p.padding[i] = num(f, padding);
        p.dilation[i] = num(f, dilation);
        p.output_padding[i] = num(f, 0);
    }
    return p;
}

TEST(convolution) {
    fixture f;
    fixture_init(&f);
    hn_value x = fixture_input(&f, HN_DTYPE_F32, "s0,4,28,28"),
             w = fixture_input(&f, HN_DTYPE_F32, "8,4,3,3"),
             bias = fixture_input(&f, HN_DTYPE_F32, "8"),
             dw = fixture_input(&f, HN_DTYPE_F32, "4,1,3,3");
    hn_conv_params p = conv_params(&f, 2, 2, 1, 1);
    EXPECT_TYPE(&f, hn_b_conv(f.g, x, w, bias, &p), "f32[s0, 8, 14, 14]");
    p = conv_params(&f, 2, 1, 0, 2);
    EXPECT_TYPE(&f, hn_b_conv(f.g, x, w, 0, &p), "f32[s0, 8, 24, 24]");
    p.groups = 4;
    EXPECT_TYPE(&f, hn_b_conv(f.g, x, dw, 0, &p), "f32[s0, 4, 24, 24]");
    EXPECT_REFUSED(&f, hn_b_conv(f.g, x, w, 0, &p), "input channels and weight agree");
    p = conv_params(&f, 2, 2, 1, 1);
    p.transposed = true;
    p.output_padding[0] = p.output_padding[1] = num(&f, 1);
    hn_value wt = fixture_input(&f, HN_DTYPE_F32, "4,6,3,3");
    EXPECT_TYPE(&f, hn_b_conv(f.g, x, wt, 0, &p), "f32[s0, 6, 56, 56]");
    EXPECT_REFUSED(&f, hn_b_conv(f.g, x, wt, bias, &p),
                   "the bias has an element for each output channel");
    p = conv_params(&f, 2, 0, 0, 1);
    EXPECT_REFUSED(&f, hn_b_conv(f.g, x, w, 0, &p), "a stride is positive");
    p = conv_params(&f, 2, 1, 0, 14);
    EXPECT_REFUSED(&f, hn_b_conv(f.g, x, w, 0, &p),
                   "the kernel fits into the padded input: 29 <= 28");
    p = conv_params(&f, 1, 1, 0, 1);
    EXPECT_REFUSED(&f, hn_b_conv(f.g, x, w, 0, &p), "a list of 1 numbers for 2 spatial dimensions");
    p = conv_params(&f, 2, 1, 0, 1);
    p.groups = 0;
    EXPECT_REFUSED(&f, hn_b_conv(f.g, x, w, 0, &p), "0 groups");
    p.groups = 3;
    hn_value w3 = fixture_input(&f, HN_DTYPE_F32, "8,1,3,3"),
             x3 = fixture_input(&f, HN_DTYPE_F32, "1,3,9,9");
    EXPECT_REFUSED(&f, hn_b_conv(f.g, x3, w3, 0, &p), "channels are a multiple of the groups");
    p = conv_params(&f, 1, 2, 0, 1);
    hn_value x1 = fixture_input(&f, HN_DTYPE_F32, "1,4,s1"),
             w1 = fixture_input(&f, HN_DTYPE_F32, "8,4,3");
    EXPECT_INT(guard_count(&f), 0);
    hn_value y1 = hn_b_conv(f.g, x1, w1, 0, &p);
    EXPECT_OK(hn_graph_status(f.g));
    EXPECT(hn_graph_value(f.g, y1)->sizes[2] == fixture_expr(&f, "(s1 - 3)//2 + 1"));
    EXPECT_INT(guard_count(&f), 1); /* 3 <= s1 */
    fixture_deinit(&f);
}

TEST(attention) {
    fixture f;
    fixture_init(&f);
    hn_value q = fixture_input(&f, HN_DTYPE_F16, "2,8,s0,64"),
             k = fixture_input(&f, HN_DTYPE_F16, "2,2,s1,64"),
             v = fixture_input(&f, HN_DTYPE_F16, "2,2,s1,32"),
             mask = fixture_input(&f, HN_DTYPE_BOOL, "s0,s1"),
             k3 = fixture_input(&f, HN_DTYPE_F16, "2,3,s1,64"),
             v3 = fixture_input(&f, HN_DTYPE_F16, "2,3,s1,32");
    EXPECT_TYPE(&f, hn_b_attention(f.g, q, k, v, 0, 0.125, true), "f16[2, 8, s0, 32]");
    EXPECT_TYPE(&f, hn_b_attention(f.g, q, k, v, mask, 0.125, false), "f16[2, 8, s0, 32]");
    EXPECT_REFUSED(&f, hn_b_attention(f.g, q, k3, v3, 0, 1, false),
                   "query heads are a multiple of key heads");
    EXPECT_REFUSED(&f, hn_b_attention(f.g, q, k, v3, 0, 1, false),
                   "keys and values have as many heads");
    EXPECT_REFUSED(&f, hn_b_attention(f.g, q, v, v, 0, 1, false), "queries and keys are as long");
    hn_value bad = fixture_input(&f, HN_DTYPE_F16, "3,1,1,1");
    EXPECT_REFUSED(&f, hn_b_attention(f.g, q, k, v, bad, 1, false),
                   "the mask broadcasts to the scores: 3 == 2");
    EXPECT_REFUSED(&f, hn_b_attention(f.g, q, k, v, hn_b_cast(f.g, mask, HN_DTYPE_I64), 1, false),
                   "neither bool nor float");
    hn_value none = fixture_input(&f, HN_DTYPE_F16, "2,0,s1,64");
    EXPECT_REFUSED(&f, hn_b_attention(f.g, q, none, none, 0, 1, false), "there is a head");
    EXPECT_OK(hn_sym_status(f.sym)); /* nothing was divided by the 0 heads */
    fixture_deinit(&f);
}

TEST(attention_backward) {
    fixture f;
    fixture_init(&f);
    hn_value q = fixture_input(&f, HN_DTYPE_F16, "2,8,s0,64"),
             k = fixture_input(&f, HN_DTYPE_F16, "2,2,s1,64"),
             v = fixture_input(&f, HN_DTYPE_F16, "2,2,s1,32"),
             out = fixture_input(&f, HN_DTYPE_F16, "2,8,s0,32"), k_v[2];
    hn_attention_grad a = {.grad = out, .q = q, .k = k, .v = v, .out = out, .scale = 0.125};
    EXPECT_TYPE(&f, hn_b_attention_backward(f.g, &a, k_v), "f16[2, 8, s0, 64]");
    EXPECT_TYPE(&f, k_v[0], "f16[2, 2, s1, 64]");
    EXPECT_TYPE(&f, k_v[1], "f16[2, 2, s1, 32]");
    a.grad = q;
    EXPECT_REFUSED(&f, hn_b_attention_backward(f.g, &a, k_v),
                   "results of attention are as large: 64 == 32");
    fixture_deinit(&f);
}

/* --- data-dependent --- */

TEST(data_dependent_ops) {
    fixture f;
    fixture_init(&f);
    hn_value x = fixture_input(&f, HN_DTYPE_I64, "1"), m = fixture_input(&f, HN_DTYPE_BOOL, "3,4");
    hn_expr u0 = hn_sym_symbol(f.sym, HN_STR("u0"), HN_SYMBOL_DATA, 0, 12);
    hn_value item = hn_b_item(f.g, x, HN_VALUE_SYM_INT, u0);
    EXPECT_INT(hn_graph_value(f.g, item)->kind, HN_VALUE_SYM_INT);
    EXPECT_TYPE(&f, hn_b_nonzero(f.g, m, u0), "i64[u0, 2]");
    EXPECT_REFUSED(&f, hn_b_item(f.g, m, HN_VALUE_SYM_INT, u0),
                   "'item' wants a tensor of one element");
    EXPECT_INT(hn_b_assert(f.g, hn_b_reduce(f.g, HN_OP_ALL, m, (uint32_t[]){0, 1}, 2, false),
                           HN_STR("all set")),
               0);
    EXPECT_OK(hn_graph_status(f.g));
    EXPECT_INT(hn_graph_node(f.g, f.g->nodes.count - 1)->op, HN_OP_ASSERT);
    EXPECT_REFUSED(&f, hn_b_assert(f.g, m, HN_STR("")),
                   "'assert' wants a condition of one element");
    EXPECT_REFUSED(&f, hn_b_unary(f.g, HN_OP_NEG, item), "a value was given, a tensor is wanted");
    EXPECT_OK(hn_graph_verify(f.g, HN_LEGAL_PRIMITIVE));
    fixture_deinit(&f);
}

/* --- shared questions --- */

TEST(questions) {
    fixture f;
    fixture_init(&f);
    hn_expr a[3], b[3], out[HN_MAX_RANK];
    uint32_t rank;
    fixture_exprs(&f, "2,s0,1", a);
    fixture_exprs(&f, "s0,5", b);
    EXPECT_OK(hn_broadcast(f.g, a, 3, b, 2, a, &rank)); /* the result may replace an operand */
    EXPECT_INT(rank, 3);
    EXPECT(hn_sym_is_value(f.sym, a[2], 5) && a[1] == b[0]);
    EXPECT_OK(hn_broadcast(f.g, NULL, 0, NULL, 0, out, &rank));
    EXPECT_INT(rank, 0);
    EXPECT(hn_same_sizes(f.g, a + 1, b, 2) && !hn_same_sizes(f.g, a, b, 1));
    EXPECT(hn_numel(f.g, fixture_input(&f, HN_DTYPE_F32, "2,s0")) == fixture_expr(&f, "2*s0"));
    EXPECT_INT(hn_op_param_index(HN_OP_CONV, "groups"), 8);
    EXPECT_INT(hn_op_param_index(HN_OP_CONV, "x"), 0);
    EXPECT_INT(hn_op_param_index(HN_OP_CONV, "y"), -1);
    hn_meta metas[HN_RESULTS_MAX];
    uint32_t count;
    EXPECT_ERROR(hn_infer(f.g, HN_OP_COND, NULL, 0, metas, &count), HN_INTERNAL, "no rule");
    EXPECT_ERROR(hn_infer(f.g, HN_ATEN_add_Tensor, NULL, 0, metas, &count), HN_INTERNAL, "no rule");
    EXPECT_ERROR(hn_infer(f.g, HN_ALL_OP_COUNT, NULL, 0, metas, &count), HN_INTERNAL, "no rule");
    fixture_deinit(&f);
}

/* --- defaults of ATen schemas --- */

static const char *default_text(fixture *f, hn_op op, const char *name) {
    static char text[128];
    uint32_t count;
    const hn_param *params = hn_op_params(op, &count);
    hn_arg arg;
    EXPECT_OK(hn_graph_default_arg(f->g, &params[hn_op_param_index(op, name)], &arg));
    switch (arg.kind) {
    case HN_ARG_NONE: return "none";
    case HN_ARG_BOOL: return arg.as.b ? "true" : "false";
    case HN_ARG_DTYPE: return hn_dtype_facts(arg.as.dtype)->name;
    case HN_ARG_STRING:
        snprintf(text, sizeof text, "'" HN_STR_FMT "'", HN_STR_ARG(arg.as.s));
        return text;
    case HN_ARG_INT:
        snprintf(text, sizeof text, "%lld", (long long)hn_sym_hint(f->sym, arg.as.expr, -99));
        return text;
    case HN_ARG_FLOAT: snprintf(text, sizeof text, "float %g", arg.as.f); return text;
    default: break;
    }
    size_t len = (size_t)snprintf(text, sizeof text, "[");
    for (uint32_t i = 0; i < arg.count; i++)
        len += (size_t)snprintf(text + len, sizeof text - len, "%s%lld", i ? ", " : "",
                                (long long)hn_sym_hint(f->sym, arg.as.exprs[i], -99));
    snprintf(text + len, sizeof text - len, "]");
    return text;
}

TEST(defaults) {
    fixture f;
    fixture_init(&f);
    EXPECT_STR(default_text(&f, HN_ATEN_add_Tensor, "alpha"), "1");
    EXPECT_STR(default_text(&f, HN_ATEN_var_correction, "correction"), "none");
    EXPECT_STR(default_text(&f, HN_ATEN_all_dim, "keepdim"), "false");
    EXPECT_STR(default_text(&f, HN_ATEN_avg_pool2d_default, "padding"), "[0, 0]");
    EXPECT_STR(default_text(&f, HN_ATEN_avg_pool2d_default, "stride"), "[]");
    EXPECT_STR(default_text(&f, HN_ATEN_conv2d_padding, "stride"), "[1, 1]");
    EXPECT_STR(default_text(&f, HN_ATEN_conv2d_padding, "padding"), "'valid'");
    EXPECT_STR(default_text(&f, HN_ATEN_bernoulli__float, "p"), "float 0.5");
    EXPECT_STR(default_text(&f, HN_ATEN_randperm_default, "dtype"), "i64");
    EXPECT_STR(default_text(&f, HN_ATEN_contiguous_default, "memory_format"),
               "'contiguous_format'");
    fixture_deinit(&f);
}

TEST(every_default_is_an_argument) {
    fixture f;
    fixture_init(&f);
    for (uint32_t op = HN_ATEN_FIRST + 1; op < HN_ALL_OP_COUNT; op++) {
        uint32_t count;
        const hn_param *params = hn_op_params((hn_op)op, &count);
        for (uint32_t i = 0; i < count; i++) {
            hn_arg arg;
            if (!params[i].has_default) continue;
            hn_status status = hn_graph_default_arg(f.g, &params[i], &arg);
            if (status)
                HN_TEST_FAIL("%s: %s", hn_op_facts((hn_op)op)->name, hn_status_message(status));
            hn_status_free(status);
        }
    }
    fixture_deinit(&f);
}

TEST_MAIN
