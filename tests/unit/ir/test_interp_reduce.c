/* Reductions, scans, sorts and contractions. The values of convolutions and attention are those of
 * eager PyTorch 2.11 (float64); convolutions of small integers are exact in any order of
 * summation. */
#include "unit/ir/interp_cases.h"

#define F64  HN_DTYPE_F64
#define F32  HN_DTYPE_F32
#define F16  HN_DTYPE_F16
#define I64  HN_DTYPE_I64
#define I32  HN_DTYPE_I32
#define I8   HN_DTYPE_I8
#define U8   HN_DTYPE_U8
#define BOOL HN_DTYPE_BOOL
#define INF  INFINITY

/* Element n is (n * step) % 7 - 3: small integers in an order that no dimension repeats. */
static hn_value input_seq(fixture *f, shape s, int step, double scale) {
    double values[128];
    int64_t count = 1;
    for (uint32_t d = 0; d < s.rank; d++) count *= s.sizes[d];
    for (int64_t n = 0; n < count; n++) values[n] = (double)(n * step % 7 - 3) * scale;
    return input(f, F64, s, values, (size_t)count);
}

static hn_value reduce(fixture *f, hn_op op, hn_value x, uint32_t count, uint32_t dim0,
                       uint32_t dim1, bool keepdim) {
    return hn_b_reduce(f->g, op, x, (uint32_t[]){dim0, dim1}, count, keepdim);
}

/* --- reductions --- */

ROW_TEST(HN_OP_SUM, sum) {
    fixture f;
    begin(&f);
    hn_value x = input(&f, F32, S(2, 3), V(1, 2, 3, 4, 5, 6)),
             cube = input(&f, I32, S(2, 2, 2), V(1, 2, 3, 4, 5, 6, 7, 8));
    output(&f, reduce(&f, HN_OP_SUM, x, 1, 1, 0, false));
    output(&f, reduce(&f, HN_OP_SUM, x, 2, 0, 1, true));
    output(&f, reduce(&f, HN_OP_SUM, cube, 2, 0, 2, false));
    output(&f, reduce(&f, HN_OP_SUM, input(&f, F32, S(2, 0), NO_VALUES), 1, 1, 0, false));
    output(&f, reduce(&f, HN_OP_SUM, input(&f, U8, S(2), V(200, 100)), 1, 0, 0, false));
    /* 2051, then rounded */
    output(&f, reduce(&f, HN_OP_SUM, input(&f, F16, S(4), V(2048, 1, 1, 1)), 1, 0, 0, false));
    output(&f, reduce(&f, HN_OP_SUM, x, 0, 0, 0, false)); /* over no dims: x */
    EXPECT_OK(run(&f));
    expect(&f, 0, F32, S(2), V(6, 15));
    expect(&f, 1, F32, S(1, 1), V(21));
    expect(&f, 2, I32, S(2), V(1 + 2 + 5 + 6, 3 + 4 + 7 + 8));
    expect(&f, 3, F32, S(2), V(0, 0));
    expect(&f, 4, U8, SCALAR, V(44));
    expect(&f, 5, F16, SCALAR, V(2052));
    expect(&f, 6, F32, S(2, 3), V(1, 2, 3, 4, 5, 6));
    end(&f);
}

ROW_TEST(HN_OP_PROD, prod) {
    fixture f;
    begin(&f);
    output(&f, reduce(&f, HN_OP_PROD, input(&f, F32, S(2, 2), V(2, 3, -4, 5)), 1, 0, 0, false));
    output(&f, reduce(&f, HN_OP_PROD, input(&f, F32, S(0), NO_VALUES), 1, 0, 0, false));
    output(&f, reduce(&f, HN_OP_PROD, input(&f, I8, S(3), V(16, 16, 3)), 1, 0, 0, false));
    EXPECT_OK(run(&f));
    expect(&f, 0, F32, S(2), V(-8, 15));
    expect(&f, 1, F32, SCALAR, V(1));
    expect(&f, 2, I8, SCALAR, V(0));
    end(&f);
}

ROW_TEST(HN_OP_AMIN, amin) {
    fixture f;
    begin(&f);
    output(&f,
           reduce(&f, HN_OP_AMIN, input(&f, F32, S(3, 2), V(1, 5, NAN, 4, -2, 6)), 1, 0, 0, false));
    output(&f, reduce(&f, HN_OP_AMIN, input(&f, U8, S(2), V(200, 100)), 1, 0, 0, false));
    output(&f, reduce(&f, HN_OP_AMIN, input(&f, F32, S(2), V(INF, INF)), 1, 0, 0, false));
    EXPECT_OK(run(&f));
    expect(&f, 0, F32, S(2), V(NAN, 4));
    expect(&f, 1, U8, SCALAR, V(100));
    expect(&f, 2, F32, SCALAR, V(INF));
    end(&f);
}

ROW_TEST(HN_OP_AMAX, amax) {
    fixture f;
    begin(&f);
    output(&f,
           reduce(&f, HN_OP_AMAX, input(&f, F32, S(3, 2), V(1, 5, NAN, 4, -2, 6)), 1, 0, 0, true));
    output(&f, reduce(&f, HN_OP_AMAX, input(&f, F32, S(2), V(-INF, -3)), 1, 0, 0, false));
    EXPECT_OK(run(&f));
    expect(&f, 0, F32, S(1, 2), V(NAN, 6));
    expect(&f, 1, F32, SCALAR, V(-3));
    end(&f);
}

/* What a size known only at call time can bring; a constant one is refused when the graph is
 * built. */
TEST(extremes_of_nothing_are_errors) {
    static const hn_op ops[] = {HN_OP_AMIN, HN_OP_AMAX, HN_OP_ARGMIN, HN_OP_ARGMAX};
    for (int k = 0; k < 4; k++) {
        fixture f;
        begin(&f);
        hn_expr s = hn_sym_symbol(f.sym, HN_STR("s0"), HN_SYMBOL_SIZE, 0, 100);
        hn_value x = input_sym(&f, "x", F32, S(0), &s, NO_VALUES);
        output(&f, reduce(&f, ops[k], x, 1, 0, 0, false));
        EXPECT_ERROR(run(&f), HN_INVALID_ARGUMENT, "of no elements");
        end(&f);
    }
}

ROW_TEST(HN_OP_ANY, any) {
    fixture f;
    begin(&f);
    output(&f, reduce(&f, HN_OP_ANY, input(&f, BOOL, S(2, 2), V(0, 0, 0, 1)), 1, 1, 0, false));
    output(&f, reduce(&f, HN_OP_ANY, input(&f, F32, S(2, 2), V(0, -0.0, 0, NAN)), 1, 1, 0,
                      false)); /* the builder casts */
    output(&f, reduce(&f, HN_OP_ANY, input(&f, BOOL, S(0), NO_VALUES), 1, 0, 0, false));
    EXPECT_OK(run(&f));
    expect(&f, 0, BOOL, S(2), V(0, 1));
    expect(&f, 1, BOOL, S(2), V(0, 1));
    expect(&f, 2, BOOL, SCALAR, V(0));
    end(&f);
}

ROW_TEST(HN_OP_ALL, all) {
    fixture f;
    begin(&f);
    output(&f, reduce(&f, HN_OP_ALL, input(&f, BOOL, S(2, 2), V(1, 1, 0, 1)), 1, 1, 0, false));
    output(&f, reduce(&f, HN_OP_ALL, input(&f, I32, S(2), V(256, 1)), 1, 0, 0, false));
    output(&f, reduce(&f, HN_OP_ALL, input(&f, BOOL, S(0), NO_VALUES), 1, 0, 0, false));
    EXPECT_OK(run(&f));
    expect(&f, 0, BOOL, S(2), V(1, 0));
    expect(&f, 1, BOOL, SCALAR, V(1));
    expect(&f, 2, BOOL, SCALAR, V(1));
    end(&f);
}

ROW_TEST(HN_OP_ARGMIN, argmin) {
    fixture f;
    begin(&f);
    hn_value x = input(&f, F32, S(2, 3), V(3, 1, 1, 0, NAN, NAN));
    output(&f, reduce(&f, HN_OP_ARGMIN, x, 1, 1, 0, false));
    output(&f, reduce(&f, HN_OP_ARGMIN, x, 1, 0, 0, true));
    output(&f, reduce(&f, HN_OP_ARGMIN, input(&f, I8, S(4), V(3, -1, 3, -1)), 1, 0, 0, false));
    EXPECT_OK(run(&f));
    expect(&f, 0, I64, S(2), V(1, 1)); /* first of equals; the first NaN */
    expect(&f, 1, I64, S(1, 3), V(1, 1, 1));
    expect(&f, 2, I64, SCALAR, V(1));
    end(&f);
}

ROW_TEST(HN_OP_ARGMAX, argmax) {
    fixture f;
    begin(&f);
    hn_value x = input(&f, F32, S(2, 2, 2), V(1, 9, 3, 4, 9, 6, 7, 9));
    output(&f, reduce(&f, HN_OP_ARGMAX, x, 1, 2, 0, false));
    /* rows 1 9 9 6 and 3 4 7 9: flat positions 1 and 3 */
    output(&f, reduce(&f, HN_OP_ARGMAX, x, 2, 0, 2, false));
    output(&f, hn_b_reduce(f.g, HN_OP_ARGMAX, x, (uint32_t[]){0, 1, 2}, 3, false));
    EXPECT_OK(run(&f));
    expect(&f, 0, I64, S(2, 2), V(1, 1, 0, 1));
    expect(&f, 1, I64, S(2), V(1, 3));
    expect(&f, 2, I64, SCALAR, V(1));
    end(&f);
}

/* --- scans --- */

ROW_TEST(HN_OP_CUMSUM, cumsum) {
    fixture f;
    begin(&f);
    hn_value x = input(&f, F32, S(2, 3), V(1, 2, 3, 4, 5, 6));
    output(&f, hn_b_scan(f.g, HN_OP_CUMSUM, x, 1, NULL));
    output(&f, hn_b_scan(f.g, HN_OP_CUMSUM, x, 0, NULL));
    output(&f, hn_b_scan(f.g, HN_OP_CUMSUM, input(&f, I8, S(3), V(100, 20, 20)), 0, NULL));
    output(&f, hn_b_scan(f.g, HN_OP_CUMSUM, input(&f, F16, S(4), V(2048, 1, 1, 1)), 0,
                         NULL)); /* rounded only on the way out */
    output(&f, hn_b_scan(f.g, HN_OP_CUMSUM, input(&f, F32, S(2, 0), NO_VALUES), 1, NULL));
    EXPECT_OK(run(&f));
    expect(&f, 0, F32, S(2, 3), V(1, 3, 6, 4, 9, 15));
    expect(&f, 1, F32, S(2, 3), V(1, 2, 3, 5, 7, 9));
    expect(&f, 2, I8, S(3), V(100, 120, -116));
    expect(&f, 3, F16, S(4), V(2048, 2048, 2050, 2052));
    expect(&f, 4, F32, S(2, 0), NO_VALUES);
    end(&f);
}

ROW_TEST(HN_OP_CUMPROD, cumprod) {
    fixture f;
    begin(&f);
    output(&f, hn_b_scan(f.g, HN_OP_CUMPROD, input(&f, F32, S(4), V(2, -3, 0.5, 0)), 0, NULL));
    output(&f, hn_b_scan(f.g, HN_OP_CUMPROD, input(&f, U8, S(3), V(16, 16, 3)), 0, NULL));
    EXPECT_OK(run(&f));
    expect(&f, 0, F32, S(4), V(2, -6, -3, 0));
    expect(&f, 1, U8, S(3), V(16, 0, 0));
    end(&f);
}

/* The latest of equals gives the index, and so does each further NaN, as in eager PyTorch. */
ROW_TEST(HN_OP_CUMMAX, cummax) {
    fixture f;
    begin(&f);
    hn_value indices, x = input(&f, F32, S(9), V(2, 2, 1, 3, 3, NAN, 5, NAN, 0));
    output(&f, hn_b_scan(f.g, HN_OP_CUMMAX, x, 0, &indices));
    output(&f, indices);
    output(&f, hn_b_scan(f.g, HN_OP_CUMMAX, input(&f, I8, S(2, 3), V(-1, -2, 0, 5, 5, 4)), 1,
                         &indices));
    output(&f, indices);
    EXPECT_OK(run(&f));
    expect(&f, 0, F32, S(9), V(2, 2, 2, 3, 3, NAN, NAN, NAN, NAN));
    expect(&f, 1, I64, S(9), V(0, 1, 1, 3, 4, 5, 5, 7, 7));
    expect(&f, 2, I8, S(2, 3), V(-1, -1, 0, 5, 5, 5));
    expect(&f, 3, I64, S(2, 3), V(0, 0, 2, 0, 1, 1));
    end(&f);
}

ROW_TEST(HN_OP_CUMMIN, cummin) {
    fixture f;
    begin(&f);
    hn_value indices, x = input(&f, F32, S(9), V(2, 2, 1, 3, 3, NAN, 5, NAN, 0));
    output(&f, hn_b_scan(f.g, HN_OP_CUMMIN, x, 0, &indices));
    output(&f, indices);
    output(&f,
           hn_b_scan(f.g, HN_OP_CUMMIN, input(&f, F32, S(6), V(1, 2, 1, 3, 0, 0)), 0, &indices));
    output(&f, indices);
    EXPECT_OK(run(&f));
    expect(&f, 0, F32, S(9), V(2, 2, 1, 1, 1, NAN, NAN, NAN, NAN));
    expect(&f, 1, I64, S(9), V(0, 1, 2, 2, 2, 5, 5, 7, 7));
    expect(&f, 2, F32, S(6), V(1, 1, 1, 1, 0, 0));
    expect(&f, 3, I64, S(6), V(0, 0, 2, 2, 4, 5));
    end(&f);
}

ROW_TEST(HN_OP_LOGCUMSUMEXP, logcumsumexp) {
    fixture f;
    begin(&f);
    output(&f, hn_b_scan(f.g, HN_OP_LOGCUMSUMEXP, input(&f, F64, S(3), V(0, 1, 2)), 0, NULL));
    output(&f, hn_b_scan(f.g, HN_OP_LOGCUMSUMEXP, input(&f, F64, S(5), V(-INF, -INF, 3, INF, 1)), 0,
                         NULL));
    output(&f, hn_b_scan(f.g, HN_OP_LOGCUMSUMEXP, input(&f, F64, S(3), V(1, NAN, 1)), 0, NULL));
    output(&f, hn_b_scan(f.g, HN_OP_LOGCUMSUMEXP, input(&f, F64, S(2), V(1000, 1000)), 0, NULL));
    EXPECT_OK(run(&f));
    /* two units in the last place */
    expect_near(&f, 0, F64, S(3), V(0, 1.3132616875182228, 2.40760596444438), 1e-15);
    expect(&f, 1, F64, S(5), V(-INF, -INF, 3, INF, INF));
    expect(&f, 2, F64, S(3), V(1, NAN, NAN));
    expect_near(&f, 3, F64, S(2), V(1000, 1000.6931471805599), 2e-13);
    end(&f);
}

/* --- sorts --- */

ROW_TEST(HN_OP_SORT, sort) {
    fixture f;
    begin(&f);
    hn_value indices, x = input(&f, F32, S(6), V(3, NAN, 1, NAN, -1, 1)),
                      grid = input(&f, I8, S(3, 2), V(3, 1, 1, 2, 2, 1));
    output(&f, hn_b_sort(f.g, x, 0, false, true, &indices));
    output(&f, indices);
    output(&f, hn_b_sort(f.g, x, 0, true, true, &indices));
    output(&f, indices);
    output(&f, hn_b_sort(f.g, grid, 0, false, false, &indices));
    output(&f, indices);
    output(&f, hn_b_sort(f.g, input(&f, BOOL, S(3), V(1, 0, 1)), 0, false, true, &indices));
    output(&f, indices);
    EXPECT_OK(run(&f));
    expect(&f, 0, F32, S(6), V(-1, 1, 1, 3, NAN, NAN));
    expect(&f, 1, I64, S(6), V(4, 2, 5, 0, 1, 3));
    expect(&f, 2, F32, S(6), V(NAN, NAN, 3, 1, 1, -1));
    expect(&f, 3, I64, S(6), V(1, 3, 0, 2, 5, 4));
    expect(&f, 4, I8, S(3, 2), V(1, 1, 2, 1, 3, 2));
    expect(&f, 5, I64, S(3, 2), V(1, 0, 2, 2, 0, 1));
    expect(&f, 6, BOOL, S(3), V(0, 1, 1));
    expect(&f, 7, I64, S(3), V(1, 0, 2));
    end(&f);
}

ROW_TEST(HN_OP_TOPK, topk) {
    fixture f;
    begin(&f);
    hn_value indices, x = input(&f, F32, S(2, 4), V(3, NAN, 1, 5, 2, 2, 2, 2));
    output(&f, hn_b_topk(f.g, x, num(&f, 2), 1, true, true, &indices));
    output(&f, indices);
    output(&f, hn_b_topk(f.g, x, num(&f, 3), 1, false, true, &indices));
    output(&f, indices);
    output(&f, hn_b_topk(f.g, x, num(&f, 0), 1, true, false, NULL));
    output(&f, hn_b_topk(f.g, x, num(&f, 1), 0, true, true, &indices));
    output(&f, indices);
    EXPECT_OK(run(&f));
    expect(&f, 0, F32, S(2, 2), V(NAN, 5, 2, 2));
    expect(&f, 1, I64, S(2, 2), V(1, 3, 0, 1));
    expect(&f, 2, F32, S(2, 3), V(1, 3, 5, 2, 2, 2));
    expect(&f, 3, I64, S(2, 3), V(2, 0, 3, 0, 1, 2));
    expect(&f, 4, F32, S(2, 0), NO_VALUES);
    expect(&f, 5, F32, S(1, 4), V(3, NAN, 2, 5));
    expect(&f, 6, I64, S(1, 4), V(0, 0, 1, 0));
    end(&f);
}

/* Inside out boxes and those that are not numbers overlap nothing; equal to the threshold is not
 * above it. */
ROW_TEST(HN_OP_NMS, nms) {
    fixture f;
    begin(&f);
    hn_value boxes =
        input(&f, F32, S(6, 4),
              V(0, 0, 4, 4, 0, 0, 4, 3, 1, 1, 5, 5, 4, 4, 0, 0, 0, 0, NAN, 4, 0, 0, 4, 4));
    output(&f, hn_b_nms(f.g, boxes, 0.75));
    output(&f, hn_b_nms(f.g, boxes, 0.5));
    output(&f, hn_b_nms(f.g, hn_b_cast(f.g, boxes, F64), 0.0));
    output(&f, hn_b_nms(f.g, input(&f, F64, S(0, 4), NO_VALUES), 0.5));
    EXPECT_OK(run(&f));
    expect(&f, 0, BOOL, S(6), V(1, 1, 1, 1, 1, 0));
    expect(&f, 1, BOOL, S(6), V(1, 0, 1, 1, 1, 0));
    expect(&f, 2, BOOL, S(6), V(1, 0, 0, 1, 1, 0));
    expect(&f, 3, BOOL, S(0), NO_VALUES);
    end(&f);
}

/* --- contractions --- */

ROW_TEST(HN_OP_MATMUL, matmul) {
    fixture f;
    begin(&f);
    hn_value a = input(&f, F32, S(2, 3), V(1, 2, 3, 4, 5, 6)),
             b = input(&f, F32, S(3, 2), V(1, 0, 0, 1, 2, -1));
    hn_value batch_a = input(&f, I8, S(2, 1, 2), V(1, 2, 100, 100)),
             batch_b = input(&f, I8, S(2, 2, 1), V(3, 4, 1, 1));
    output(&f, hn_b_matmul(f.g, a, b, 0));
    output(&f, hn_b_matmul(f.g, a, b, input(&f, F32, S(2), V(10, 20))));
    output(&f, hn_b_matmul(f.g, a, b, input(&f, F32, S(2, 1), V(10, 20))));
    output(&f, hn_b_matmul(f.g, batch_a, batch_b, input(&f, I8, SCALAR, V(1))));
    output(&f, hn_b_matmul(f.g, input(&f, F32, S(2, 0), NO_VALUES),
                           input(&f, F32, S(0, 1), NO_VALUES), 0));
    EXPECT_OK(run(&f));
    expect(&f, 0, F32, S(2, 2), V(7, -1, 16, -1));
    expect(&f, 1, F32, S(2, 2), V(17, 19, 26, 19));
    expect(&f, 2, F32, S(2, 2), V(17, 9, 36, 19));
    expect(&f, 3, I8, S(2, 1, 1), V(12, -55));
    expect(&f, 4, F32, S(2, 1), V(0, 0));
    end(&f);
}

ROW_TEST(HN_OP_GROUPED_MATMUL, grouped_matmul) {
    fixture f;
    begin(&f);
    hn_value a = input(&f, F32, S(4, 2), V(1, 2, 3, 4, 5, 6, 7, 8)),
             b = input(&f, F32, S(3, 2, 1), V(1, 0, 9, 9, 0, 1));
    output(&f, hn_b_grouped_matmul(f.g, a, b, input(&f, I64, S(3), V(1, 1, 4))));
    output(&f, hn_b_grouped_matmul(f.g, a, b, input(&f, I64, S(3), V(0, 1, 2))));
    output(&f,
           hn_b_grouped_matmul(f.g, hn_b_cast(f.g, a, I8), input(&f, I8, S(1, 2, 1), V(100, 100)),
                               input(&f, I64, S(1), V(4))));
    EXPECT_OK(run(&f));
    expect(&f, 0, F32, S(4, 1), V(1, 4, 6, 8));
    expect(&f, 1, F32, S(4, 1), V(27, 4, 0, 0));
    expect(&f, 2, I8, S(4, 1), V(44, -68, 76, -36));
    end(&f);
}

TEST(grouped_matmul_of_wrong_ends) {
    static const double ends[][2] = {{-1, 2}, {2, 1}, {1, 3}};
    for (int k = 0; k < 3; k++) {
        fixture f;
        begin(&f);
        hn_value a = input(&f, F32, S(2, 1), V(1, 2)), b = input(&f, F32, S(2, 1, 1), V(1, 0));
        output(&f, hn_b_grouped_matmul(f.g, a, b, input(&f, I64, S(2), ends[k], 2)));
        EXPECT_ERROR(run(&f), HN_INVALID_ARGUMENT,
                     k == 0   ? "group 0 ends at row -1, must end in [0, 2]"
                     : k == 1 ? "group 1 ends at row 1, must end in [2, 2]"
                              : "group 1 ends at row 3, must end in [1, 2]");
        end(&f);
    }
}

/* 1 + 2^-24 + 2^-24: products and bias are added in double and rounded once. */
TEST(matmul_rounds_once) {
    fixture f;
    begin(&f);
    hn_value a = input(&f, F32, S(1, 2), V(1, 0x1p-12)), b = input(&f, F32, S(2, 1), V(1, 0x1p-12));
    run_expect(&f, hn_b_matmul(f.g, a, b, input(&f, F32, S(1), V(0x1p-24))), F32, S(1, 1),
               V(1 + 0x1p-23));
    end(&f);
}

static hn_conv_params conv_params(fixture *f, uint32_t spatial, shape stride, shape padding,
                                  shape dilation, int64_t groups) {
    hn_conv_params p = {.spatial = spatial, .groups = groups};
    for (uint32_t k = 0; k < spatial; k++) {
        p.stride[k] = num(f, stride.sizes[k]);
        p.padding[k] = num(f, padding.sizes[k]);
        p.dilation[k] = num(f, dilation.sizes[k]);
        p.output_padding[k] = num(f, 0);
    }
    return p;
}

ROW_TEST(HN_OP_CONV, conv_1d_stride_padding_bias) {
    fixture f;
    begin(&f);
    hn_conv_params p = conv_params(&f, 1, S(2), S(1), S(1), 1);
    hn_value x = input_seq(&f, S(1, 2, 5), 5, 1), w = input_seq(&f, S(2, 2, 3), 3, 1),
             bias = input(&f, F64, S(2), V(1, -2));
    run_expect(&f, hn_b_conv(f.g, x, w, bias, &p), F64, S(1, 2, 3), V(11, -20, 5, 4, 4, -7));
    end(&f);
}

TEST(conv_2d_groups_and_dilation) {
    fixture f;
    begin(&f);
    hn_conv_params p = conv_params(&f, 2, S(1, 2), S(1, 0), S(2, 1), 2);
    hn_value x = input_seq(&f, S(1, 4, 5, 4), 5, 1), w = input_seq(&f, S(4, 2, 2, 3), 3, 1);
    run_expect(
        &f, hn_b_conv(f.g, x, w, 0, &p), F64, S(1, 4, 5, 1),
        V(-6, 8, -14, -29, -12, 13, 25, -23, -29, 9, 8, 23, -30, -27, 14, 9, -3, -40, -42, 17));
    end(&f);
}

TEST(conv_3d) {
    fixture f;
    begin(&f);
    hn_conv_params p = conv_params(&f, 3, S(1, 2, 1), S(0, 1, 0), S(1, 1, 1), 1);
    hn_value x = input_seq(&f, S(1, 1, 3, 3, 3), 5, 1), w = input_seq(&f, S(2, 1, 2, 2, 2), 3, 1);
    run_expect(&f, hn_b_conv(f.g, x, w, 0, &p), F64, S(1, 2, 2, 2, 2),
               V(-5, -5, 12, -10, 2, -5, -18, 9, 7, 4, -5, 9, -13, 5, 9, -26));
    end(&f);
}

TEST(conv_1d_transposed) {
    fixture f;
    begin(&f);
    hn_conv_params p = conv_params(&f, 1, S(2), S(1), S(1), 1);
    p.transposed = true;
    p.output_padding[0] = num(&f, 1);
    hn_value x = input_seq(&f, S(1, 2, 3), 5, 1), w = input_seq(&f, S(2, 3, 3), 3, 1),
             bias = input(&f, F64, S(3), V(1, -2, 0));
    run_expect(&f, hn_b_conv(f.g, x, w, bias, &p), F64, S(1, 3, 6),
               V(3, -9, -2, 16, 0, 3, -10, 2, 5, -17, -1, -5, 3, 4, 3, -3, 3, -1));
    end(&f);
}

TEST(conv_2d_transposed_groups_and_dilation) {
    fixture f;
    begin(&f);
    hn_conv_params p = conv_params(&f, 2, S(2, 1), S(0, 1), S(1, 2), 2);
    p.transposed = true;
    p.output_padding[0] = num(&f, 1);
    hn_value x = input_seq(&f, S(1, 4, 2, 3), 5, 1), w = input_seq(&f, S(4, 1, 2, 2), 3, 1);
    run_expect(&f, hn_b_conv(f.g, x, w, 0, &p), F64, S(1, 2, 5, 3),
               V(-12, 6, 6, 3, 8, 7, -13, 3, 4, 7, 8, 3, 0, 0, 0, -2, 8, -2, -2, 8, -2, -4, 3, 2,
                 -6, 6, 0, 0, 0, 0));
    end(&f);
}

TEST(conv_of_integers_and_of_no_batch) {
    fixture f;
    begin(&f);
    hn_conv_params p = conv_params(&f, 1, S(1), S(0), S(1), 1);
    hn_value w = input(&f, I8, S(1, 1, 2), V(1, 2));
    output(&f, hn_b_conv(f.g, input(&f, I8, S(1, 1, 3), V(100, 50, 1)), w,
                         input(&f, I8, S(1), V(1)), &p));
    output(&f, hn_b_conv(f.g, input(&f, I8, S(0, 1, 3), NO_VALUES), w, 0, &p));
    EXPECT_OK(run(&f));
    expect(&f, 0, I8, S(1, 1, 2), V(201 - 256, 53));
    expect(&f, 1, I8, S(0, 1, 2), NO_VALUES);
    end(&f);
}

/* Four query heads share two heads of keys and values. */
typedef struct qkv {
    hn_value q, k, v;
} qkv;

static qkv attention_inputs(fixture *f) {
    return (qkv){input_seq(f, S(1, 4, 3, 2), 5, 0.25), input_seq(f, S(1, 2, 4, 2), 3, 0.25),
                 input_seq(f, S(1, 2, 4, 3), 4, 0.5)};
}

/* 1e-14: sums of four exponentials in another order. */
ROW_TEST(HN_OP_ATTENTION, attention_of_grouped_heads) {
    fixture f;
    begin(&f);
    qkv in = attention_inputs(&f);
    output(&f, hn_b_attention(f.g, in.q, in.k, in.v, 0, 0.5, false));
    EXPECT_OK(run(&f));
    expect_near(
        &f, 0, F64, S(1, 4, 3, 3),
        V(-0.5774746170576475, -0.009869641105345217, -0.07747461705764747, -0.37279361378770903,
          -0.11938119931464564, 0.12720638621229102, -0.203315255820896, -0.23113913545120884,
          0.29668474417910395, -0.42774236746372146, -0.08117772566238396, 0.07225763253627854,
          -0.2602960838668887, -0.1946250425566715, 0.2397039161331113, -0.518436203447961,
          -0.04780479035362489, -0.018436203447960958, 0.0, 0.25, -0.375, -0.0390516957252357,
          0.265618009305319, -0.3734731530372334, -0.07803866247052815, 0.2811941443376188,
          -0.3727936137877091, 0.15556237514535248, 0.18794462204505907, -0.38965461851813255,
          -0.15556237514535248, 0.3120553779549409, -0.37392880890039726, 0.07803866247052821,
          0.21880585566238125, -0.38061880068535436),
        1e-14);
    end(&f);
}

/* Query i sees keys 0..i, however many keys there are. */
TEST(attention_causal) {
    fixture f;
    begin(&f);
    qkv in = attention_inputs(&f);
    output(&f, hn_b_attention(f.g, in.q, in.k, in.v, 0, 0.5, true));
    EXPECT_OK(run(&f));
    expect_near(&f, 0, F64, S(1, 4, 3, 3),
                V(-1.5, 0.5, -1.0, -0.2109502106924609, -0.015619915723015632, 0.289049789307539,
                  0.04784532444649697, -0.6192645789331633, 0.547845324446497, -1.5, 0.5, -1.0,
                  -0.018333500114825596, -0.09266659995406978, 0.4816664998851744,
                  -0.39161862008584863, -0.3237393026639416, 0.10838137991415137, 1.5, 0.0, -1.5,
                  0.9921881357207956, -0.5078118642792044, -0.2304703393019889, 0.45836043713080377,
                  0.19865514635845066, -0.1361958020546562, 1.5, 0.0, -1.5, 0.9687906266262438,
                  -0.5312093733737563, -0.17197656656560933, 0.5416395628691963,
                  0.13619580205465615, -0.1986551463584506),
                1e-14);
    end(&f);
}

/* The numbers are those of PyTorch's gradients. */
ROW_TEST(HN_OP_ATTENTION_BACKWARD, attention_backward) {
    fixture f;
    begin(&f);
    qkv in = attention_inputs(&f);
    hn_value k_v[2];
    hn_attention_grad a = {.grad = input_seq(&f, S(1, 4, 3, 3), 2, 0.5),
                           .q = in.q,
                           .k = in.k,
                           .v = in.v,
                           .out = hn_b_attention(f.g, in.q, in.k, in.v, 0, 0.5, true),
                           .scale = 0.5,
                           .causal = true};
    output(&f, hn_b_attention_backward(f.g, &a, k_v));
    output(&f, k_v[0]);
    output(&f, k_v[1]);
    EXPECT_OK(run(&f));
    expect_near(&f, 0, F64, S(1, 4, 3, 2),
                V(0.0, 0.0, 0.889755814954371, -0.1482926358257285, 0.37984603285577195,
                  -0.13088624110743843, 0.0, 0.0, -0.8600334607136428, 0.14333891011894048,
                  0.2406840766531567, -0.0323275067432888, 0.0, 0.0, -0.10153770850294636,
                  -0.1015377085029463, 0.19016657357450606, 0.1901665735745061, 0.0, 0.0,
                  0.14007711094515982, 0.14007711094516, 0.03876972226864181, 0.038769722268641796),
                1e-14);
    expect_near(&f, 1, F64, S(1, 2, 4, 2),
                V(0.14579586950977522, 0.10661855391537886, -0.33291762861740715,
                  -0.14452059751660556, 0.18712175910763193, 0.037902043601226704, 0.0, 0.0,
                  0.32540414117589017, -0.7609952393895354, -0.4087328232508177, 0.5183505817886862,
                  0.08332868207492741, 0.24264465760084902, 0.0, 0.0),
                1e-14);
    expect_near(&f, 2, F64, S(1, 2, 4, 3),
                V(-0.2594440341818418, 0.7899831768490726, -0.5580361206909837, 1.0380632671779673,
                  -0.3899858208614255, -0.6709045232162585, 0.2213807670038743, -0.3999973559876473,
                  0.22894064390724236, 0.0, 0.0, 0.0, -0.03479135918858889, -1.0012685650518358,
                  -0.2542514341491233, 0.003236483805311441, 0.5429081279210322, -0.776653034771394,
                  0.5315548753832773, -0.04163956286919629, -0.4690955310794828, 0.0, 0.0, 0.0),
                1e-14);
    end(&f);
}

TEST(attention_float_mask) {
    fixture f;
    begin(&f);
    qkv in = attention_inputs(&f);
    output(&f,
           hn_b_attention(f.g, in.q, in.k, in.v, input_seq(&f, S(1, 1, 3, 4), 3, 1), 0.5, false));
    EXPECT_OK(run(&f));
    expect_near(&f, 0, F64, S(1, 4, 3, 3),
                V(0.021113027736620944, -1.402509530284176, 0.521113027736621, -1.0305604726693685,
                  -0.08786095828579281, -0.5305604726693683, 0.5027211822273897,
                  -0.16750518859283586, 1.0027211822273896, 0.01834783689138358, -1.405699236549686,
                  0.5183478368913835, -0.9635078399494149, -0.1683341599107935, -0.4635078399494149,
                  0.3708289549494499, -0.09789829388169627, 0.87082895494945, -0.4659727585309137,
                  1.3631571313116637, 0.025923577294923485, 0.9186422206295949, 0.4035618466315984,
                  -1.0497920529588876, -0.043749074053327286, -0.5139966714828665,
                  0.3458781135045976, -0.4566649607167539, 1.3494295652082535, 0.03297984130122801,
                  0.8380250450081272, 0.4608995978942518, -0.9907678475752032, 0.06016060633273346,
                  -0.5820418477039655, 0.4271768853704606),
                1e-14);
    end(&f);
}

/* Row 1 masks every key: it gives 0. */
TEST(attention_bool_mask) {
    fixture f;
    begin(&f);
    qkv in = attention_inputs(&f);
    hn_value mask = input(&f, BOOL, S(3, 4), V(0, 0, 1, 0, 0, 0, 0, 0, 0, 1, 0, 1));
    output(&f, hn_b_attention(f.g, in.q, in.k, in.v, mask, 0.5, false));
    EXPECT_OK(run(&f));
    expect_near(&f, 0, F64, S(1, 4, 3, 3),
                V(0.0, -1.5, 0.5, 0.0, 0.0, 0.0, 0.1243530017715962, 0.15673524867130284,
                  0.6243530017715961, 0.0, -1.5, 0.5, 0.0, 0.0, 0.0, 0.031239831446031263,
                  0.22657012641547652, 0.5312398314460312, -0.5, 1.5, 0.0, 0.0, 0.0, 0.0,
                  -0.5624187467475126, -0.20318593993936557, -0.06241874674751258, -0.5, 1.5, 0.0,
                  0.0, 0.0, 0.0, -0.4375812532524876, -0.2968140600606344, 0.062418746747512466),
                1e-14);
    end(&f);
}

TEST(attention_edges) {
    fixture f;
    begin(&f);
    hn_value q = input(&f, F32, S(1, 1, 1), V(1)), k = input(&f, F32, S(1, 2, 1), V(1, 1)),
             v = input(&f, F32, S(1, 2, 1), V(NAN, 5));
    hn_value none = input(&f, F32, S(1, 0, 1), NO_VALUES),
             sees_second = input(&f, F32, S(1, 1, 2), V(-INF, 0));
    /* a masked value does not count, even NaN */
    output(&f, hn_b_attention(f.g, q, k, v, sees_second, 1, false));
    output(&f, hn_b_attention(f.g, q, none, none, 0, 1, false));
    output(&f, hn_b_attention(f.g, input(&f, F32, S(1, 1, 1), V(NAN)), k, v, 0, 1, false));
    output(&f, hn_b_attention(f.g, input(&f, F32, S(1, 1, 1), V(1000)), k,
                              input(&f, F32, S(1, 2, 1), V(1, 3)), 0, 1, false));
    EXPECT_OK(run(&f));
    expect(&f, 0, F32, S(1, 1, 1), V(5));
    expect(&f, 1, F32, S(1, 1, 1), V(0));
    expect(&f, 2, F32, S(1, 1, 1), V(NAN));
    expect(&f, 3, F32, S(1, 1, 1), V(2));
    end(&f);
}

TEST(every_row_has_a_test) { expect_every_row_tested(PROGRAM_REDUCE); }

TEST_MAIN
