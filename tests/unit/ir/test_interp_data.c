/* Rows that create, view and move elements. */
#include "unit/ir/interp_cases.h"

#define F64  HN_DTYPE_F64
#define F32  HN_DTYPE_F32
#define F16  HN_DTYPE_F16
#define BF16 HN_DTYPE_BF16
#define I64  HN_DTYPE_I64
#define I32  HN_DTYPE_I32
#define I8   HN_DTYPE_I8
#define U8   HN_DTYPE_U8
#define BOOL HN_DTYPE_BOOL

/* --- creation --- */

ROW_TEST(HN_OP_FULL, full_converts_its_value) {
    fixture f;
    begin(&f);
    output(&f, hn_b_full(f.g, hn_scalar_f(0.1), exprs(&f, S(2)), 1, F16));
    output(&f, hn_b_full(f.g, hn_scalar_i(num(&f, 300)), NULL, 0, U8));
    output(&f, hn_b_full(f.g, hn_scalar_f(-2.7), exprs(&f, S(1, 2)), 2, I32));
    output(&f, hn_b_full(f.g, hn_scalar_i(num(&f, 16777217)), NULL, 0, F32));
    output(&f, hn_b_full(f.g, hn_scalar_i(num(&f, 7)), NULL, 0, BOOL));
    output(&f, hn_b_full(f.g, hn_scalar_f(1), exprs(&f, S(0, 2)), 2, F32));
    EXPECT_OK(run(&f));
    expect(&f, 0, F16, S(2), V(0.0999755859375, 0.0999755859375));
    expect(&f, 1, U8, SCALAR, V(44));
    expect(&f, 2, I32, S(1, 2), V(-2, -2));
    expect(&f, 3, F32, SCALAR, V(16777216));
    expect(&f, 4, BOOL, SCALAR, V(1));
    expect(&f, 5, F32, S(0, 2), NO_VALUES);
    end(&f);
}

ROW_TEST(HN_OP_IOTA, iota_counts) {
    fixture f;
    begin(&f);
    output(&f, hn_b_iota(f.g, hn_scalar_i(num(&f, 5)), hn_scalar_i(num(&f, -2)), num(&f, 4), I64));
    output(&f, hn_b_iota(f.g, hn_scalar_i(num(&f, 250)), hn_scalar_i(num(&f, 3)), num(&f, 3), U8));
    output(&f, hn_b_iota(f.g, hn_scalar_f(0.5), hn_scalar_f(0.25), num(&f, 3), F32));
    /* 0.5 1.25 2 2.75 */
    output(&f, hn_b_iota(f.g, hn_scalar_f(0.5), hn_scalar_f(0.75), num(&f, 4), I64));
    output(&f, hn_b_iota(f.g, hn_scalar_i(num(&f, 0)), hn_scalar_i(num(&f, 1)), num(&f, 0), F32));
    output(&f, hn_b_iota(f.g, hn_scalar_f(0), hn_scalar_f(0.1), num(&f, 4),
                         F64)); /* start + i * step, not a running sum */
    EXPECT_OK(run(&f));
    expect(&f, 0, I64, S(4), V(5, 3, 1, -1));
    expect(&f, 1, U8, S(3), V(250, 253, 0));
    expect(&f, 2, F32, S(3), V(0.5, 0.75, 1));
    expect(&f, 3, I64, S(4), V(0, 1, 2, 2));
    expect(&f, 4, F32, S(0), NO_VALUES);
    expect(&f, 5, F64, S(4), V(0, 0.1, 0.2, 3 * 0.1));
    end(&f);
}

static hn_value random_of(fixture *f, const char *kind, shape s, hn_dtype dtype, hn_value seed,
                          int64_t stream) {
    return hn_b_random(f->g, kind, exprs(f, s), s.rank, dtype, seed, num(f, stream));
}

/* Block (key 0, counter 0) is one of the known answers that the authors of Philox publish; the
 * other words come from an independent implementation that gives all their known answers. */
ROW_TEST(HN_OP_RANDOM, random_bits_are_philox) {
    fixture f;
    begin(&f);
    hn_value zero = input(&f, I64, SCALAR, V(0)), seed = input(&f, I64, SCALAR, V(42)),
             negative = input(&f, I64, SCALAR, V(-2));
    output(&f, random_of(&f, "bits", S(4), I64, zero, 0));
    output(&f, random_of(&f, "bits", S(2, 4), I64, seed, 5));
    output(&f, random_of(&f, "bits", S(8), I64, negative, ((int64_t)1 << 32) + 7));
    output(&f, random_of(&f, "bits", S(2), I32, seed, 5));
    output(&f, random_of(&f, "bits", S(2), U8, seed, 5));
    EXPECT_OK(run(&f));
    expect(&f, 0, I64, S(4), V(0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8));
    expect(&f, 1, I64, S(2, 4),
           V(2072206047, 1756863668, 2065836197, 3747278620, 2557553593, 3331768798, 1480969198,
             1957083671));
    for (int k = 0; k < 4; k++)
        EXPECT_INT(f.outputs[2].data.i[4 + k],
                   ((const int64_t[]){3472821154, 2540829355, 3890109345, 1237941688})[k]);
    expect(&f, 3, I32, S(2), V(2072206047, 1756863668));
    expect(&f, 4, U8, S(2), V(2072206047 & 255, 1756863668 & 255));
    end(&f);
}

TEST(random_uniform_takes_the_high_bits) {
    fixture f;
    begin(&f);
    hn_value seed = input(&f, I64, SCALAR, V(42));
    static const hn_dtype dtypes[] = {F64, F32, F16, BF16};
    for (int k = 0; k < 4; k++) output(&f, random_of(&f, "uniform", S(2), dtypes[k], seed, 5));
    EXPECT_OK(run(&f));
    const unsigned w0 = 2072206047u, w1 = 1756863668u;
    expect(&f, 0, F64, S(2), V(w0 / 0x1p32, w1 / 0x1p32));
    expect(&f, 1, F32, S(2), V((w0 >> 8) / 0x1p24, (w1 >> 8) / 0x1p24));
    expect(&f, 2, F16, S(2), V((w0 >> 21) / 0x1p11, (w1 >> 21) / 0x1p11));
    expect(&f, 3, BF16, S(2), V((w0 >> 24) / 0x1p8, (w1 >> 24) / 0x1p8));
    end(&f);
}

TEST(random_normal_is_box_muller) {
    fixture f;
    begin(&f);
    hn_value seed = input(&f, I64, SCALAR, V(42));
    output(&f, random_of(&f, "normal", S(8), F64, seed, 5));
    output(&f, random_of(&f, "normal", S(4096), F32, seed, 6));
    EXPECT_OK(run(&f));
    /* 1e-14: sine and cosine of angles up to 2 pi, computed elsewhere */
    expect_near(&f, 0, F64, S(8),
                V(-1.015514880484064, 0.6529853616446621, 0.8418711746441608, -0.8689480084299073,
                  0.16394659467448397, -1.004941315475045, -1.4030352245971982,
                  0.40123131135632284),
                1e-14);
    double mean = 0, square = 0;
    for (int k = 0; k < 4096; k++) {
        mean += f.outputs[1].data.f[k] / 4096;
        square += f.outputs[1].data.f[k] * f.outputs[1].data.f[k] / 4096;
    }
    EXPECT_NEAR(mean, 0, 0.06); /* four standard errors */
    EXPECT_NEAR(square, 1, 0.09);
    end(&f);
}

/* --- views --- */

ROW_TEST(HN_OP_RESHAPE, reshape_keeps_the_order) {
    fixture f;
    begin(&f);
    hn_value x = input(&f, F32, S(2, 3), V(1, 2, 3, 4, 5, 6));
    output(&f, hn_b_reshape(f.g, x, exprs(&f, S(3, 1, 2)), 3));
    output(&f, hn_b_reshape(f.g, input(&f, F32, S(1, 1), V(7)), NULL, 0));
    EXPECT_OK(run(&f));
    expect(&f, 0, F32, S(3, 1, 2), V(1, 2, 3, 4, 5, 6));
    expect(&f, 1, F32, SCALAR, V(7));
    end(&f);
}

ROW_TEST(HN_OP_PERMUTE, permute_takes_dims_from) {
    fixture f;
    begin(&f);
    hn_value x = input(&f, I8, S(2, 1, 3), V(1, 2, 3, 4, 5, 6));
    /* out dim 0 is x dim 2, out dim 1 is x dim 0, out dim 2 is x dim 1 */
    run_expect(&f, hn_b_permute(f.g, x, (const uint32_t[]){2, 0, 1}), I8, S(3, 2, 1),
               V(1, 4, 2, 5, 3, 6));
    end(&f);
}

ROW_TEST(HN_OP_EXPAND, expand_repeats) {
    fixture f;
    begin(&f);
    hn_value x = input(&f, F32, S(2, 1), V(1, 2));
    output(&f, hn_b_expand(f.g, x, exprs(&f, S(2, 3)), 2));
    /* a leading dim too: reshape, then expand */
    output(&f, hn_b_expand(f.g, x, exprs(&f, S(2, 2, 2)), 3));
    output(&f, hn_b_expand(f.g, x, exprs(&f, S(2, 0)), 2));
    EXPECT_OK(run(&f));
    expect(&f, 0, F32, S(2, 3), V(1, 1, 1, 2, 2, 2));
    expect(&f, 1, F32, S(2, 2, 2), V(1, 1, 2, 2, 1, 1, 2, 2));
    expect(&f, 2, F32, S(2, 0), NO_VALUES);
    end(&f);
}

ROW_TEST(HN_OP_SLICE, slice_steps_both_ways) {
    fixture f;
    begin(&f);
    hn_value x = input(&f, I32, S(2, 5), V(0, 1, 2, 3, 4, 5, 6, 7, 8, 9));
    output(&f, hn_b_slice(f.g, x, 1, num(&f, 1), num(&f, 2), 3));
    output(&f, hn_b_slice(f.g, x, 1, num(&f, 4), num(&f, 3), -2));
    output(&f, hn_b_flip(f.g, x, 0));
    output(&f, hn_b_select(f.g, x, 1, num(&f, 2)));
    output(&f, hn_b_slice(f.g, x, 1, num(&f, 5), num(&f, 0), 1));
    EXPECT_OK(run(&f));
    expect(&f, 0, I32, S(2, 2), V(1, 4, 6, 9));
    expect(&f, 1, I32, S(2, 3), V(4, 2, 0, 9, 7, 5));
    expect(&f, 2, I32, S(2, 5), V(5, 6, 7, 8, 9, 0, 1, 2, 3, 4));
    expect(&f, 3, I32, S(2), V(2, 7));
    expect(&f, 4, I32, S(2, 0), NO_VALUES);
    end(&f);
}

ROW_TEST(HN_OP_WINDOW, window_overlaps_and_dilates) {
    fixture f;
    begin(&f);
    hn_value x = input(&f, F32, S(6), V(0, 1, 2, 3, 4, 5));
    hn_value y = input(&f, F32, S(3, 2), V(1, 2, 3, 4, 5, 6));
    output(&f, hn_b_window(f.g, x, 0, num(&f, 3), num(&f, 2), num(&f, 1), num(&f, 3)));
    output(&f, hn_b_window(f.g, x, 0, num(&f, 2), num(&f, 3), num(&f, 3), num(&f, 1)));
    /* the window is the last dim */
    output(&f, hn_b_window(f.g, y, 0, num(&f, 2), num(&f, 2), num(&f, 1), num(&f, 1)));
    EXPECT_OK(run(&f));
    expect(&f, 0, F32, S(3, 2), V(0, 3, 1, 4, 2, 5));
    expect(&f, 1, F32, S(2, 3), V(0, 1, 2, 3, 4, 5));
    expect(&f, 2, F32, S(2, 2, 2), V(1, 3, 2, 4, 3, 5, 4, 6));
    end(&f);
}

ROW_TEST(HN_OP_AS_STRIDED, as_strided_reads_elements_in_order) {
    fixture f;
    begin(&f);
    hn_value x = input(&f, F32, S(2, 3), V(0, 1, 2, 3, 4, 5));
    output(&f, hn_b_as_strided(f.g, x, exprs(&f, S(2, 2)), exprs(&f, S(1, 3)), 2, num(&f, 1)));
    output(&f, hn_b_as_strided(f.g, x, exprs(&f, S(3, 2)), exprs(&f, S(1, 0)), 2, num(&f, 0)));
    EXPECT_OK(run(&f));
    expect(&f, 0, F32, S(2, 2), V(1, 4, 2, 5));
    expect(&f, 1, F32, S(3, 2), V(0, 0, 1, 1, 2, 2));
    end(&f);
}

/* --- data movement --- */

ROW_TEST(HN_OP_PAD, pad_borders) {
    fixture f;
    begin(&f);
    hn_value x = input(&f, I8, S(1, 2), V(1, 2));
    output(&f, hn_b_pad(f.g, x, hn_scalar_f(9), exprs(&f, S(1, 0)), exprs(&f, S(0, 2))));
    output(&f, hn_b_pad(f.g, input(&f, F32, S(0), NO_VALUES), hn_scalar_f(-INFINITY),
                        exprs(&f, S(1)), exprs(&f, S(1))));
    EXPECT_OK(run(&f));
    expect(&f, 0, I8, S(2, 4), V(9, 9, 9, 9, 1, 2, 9, 9));
    expect(&f, 1, F32, S(2), V(-INFINITY, -INFINITY));
    end(&f);
}

ROW_TEST(HN_OP_CAT, cat_joins) {
    fixture f;
    begin(&f);
    hn_value a = input(&f, F32, S(2, 1), V(1, 2)), b = input(&f, F32, S(2, 2), V(3, 4, 5, 6)),
             c = input(&f, F32, S(2, 0), NO_VALUES);
    output(&f, hn_b_cat(f.g, (const hn_value[]){a, b, c, a}, 4, 1));
    output(&f, hn_b_cat(f.g, (const hn_value[]){b, b}, 2, 0));
    EXPECT_OK(run(&f));
    expect(&f, 0, F32, S(2, 4), V(1, 3, 4, 1, 2, 5, 6, 2));
    expect(&f, 1, F32, S(4, 2), V(3, 4, 5, 6, 3, 4, 5, 6));
    end(&f);
}

ROW_TEST(HN_OP_GATHER, gather_along_a_dim) {
    fixture f;
    begin(&f);
    hn_value x = input(&f, F32, S(3, 2), V(1, 2, 3, 4, 5, 6));
    output(&f, hn_b_gather(f.g, x, input(&f, I64, S(2, 2), V(2, 0, 1, 1)), 0));
    output(&f, hn_b_gather(f.g, x, input(&f, I32, S(1, 3), V(1, 1, 0)), 1)); /* fewer rows than x */
    EXPECT_OK(run(&f));
    expect(&f, 0, F32, S(2, 2), V(5, 2, 3, 4));
    expect(&f, 1, F32, S(1, 3), V(2, 2, 1));
    end(&f);
}

static void expect_index_error(hn_value (*build)(fixture *f, hn_value x), const char *text) {
    fixture f;
    begin(&f);
    hn_value x = input(&f, F32, S(2, 3), V(1, 2, 3, 4, 5, 6));
    f.g->current_origin =
        hn_graph_add_origin(f.g, (hn_origin){HN_STR("lookup_7"), HN_STR("model.py:12")});
    output(&f, build(&f, x));
    EXPECT_ERROR(run(&f), HN_INVALID_ARGUMENT, text);
    end(&f);
}

static hn_value gather_beyond(fixture *f, hn_value x) {
    return hn_b_gather(f->g, x, input(f, I64, S(1, 1), V(3)), 1);
}
static hn_value gather_negative(fixture *f, hn_value x) {
    return hn_b_gather(f->g, x, input(f, I64, S(1, 1), V(-1)), 1);
}
static hn_value index_beyond(fixture *f, hn_value x) {
    return hn_b_index(f->g, x, (hn_value[]){input(f, I64, S(1), V(2))}, 1, true);
}
static hn_value index_below(fixture *f, hn_value x) {
    return hn_b_index(f->g, x, (hn_value[]){input(f, I64, S(1), V(-3))}, 1, true);
}
static hn_value index_no_wrap(fixture *f, hn_value x) {
    return hn_b_index(f->g, x, (hn_value[]){input(f, I64, S(1), V(-1))}, 1, false);
}
static hn_value scatter_beyond(fixture *f, hn_value x) {
    return hn_b_scatter(f->g, x, input(f, I64, S(1, 1), V(2)), input(f, F32, S(1, 1), V(0)), 0,
                        "set");
}
static hn_value put_beyond(fixture *f, hn_value x) {
    hn_value at[] = {input(f, I64, S(1), V(0)), input(f, I64, S(1), V(-4))};
    return hn_b_index_put(f->g, x, at, 2, input(f, F32, S(1), V(0)), "set", true);
}

TEST(indices_out_of_range_are_errors) {
    expect_index_error(
        gather_beyond,
        "'gather' from 'lookup_7' at model.py:12: index 3 is out of range for dimension 1 of size 3");
    expect_index_error(gather_negative, "index -1 is out of range for dimension 1 of size 3");
    expect_index_error(
        index_beyond,
        "'index' from 'lookup_7' at model.py:12: index 2 is out of range for dimension 0 of size 2");
    expect_index_error(index_below, "index -3 is out of range for dimension 0 of size 2");
    expect_index_error(index_no_wrap, "index -1 is out of range for dimension 0 of size 2");
    expect_index_error(scatter_beyond, "index 2 is out of range for dimension 0 of size 2");
    expect_index_error(put_beyond, "index -4 is out of range for dimension 1 of size 3");
}

ROW_TEST(HN_OP_INDEX, index_replaces_leading_dims) {
    fixture f;
    begin(&f);
    hn_value x = input(&f, F32, S(2, 3), V(1, 2, 3, 4, 5, 6));
    hn_value rows = input(&f, I64, S(3), V(1, -2, 1)), columns = input(&f, I64, S(3), V(0, 2, -1)),
             scalar = input(&f, I64, SCALAR, V(1));
    output(&f, hn_b_index(f.g, x, (hn_value[]){rows}, 1, true));
    output(&f, hn_b_index(f.g, x, (hn_value[]){rows, columns}, 2, true));
    output(&f, hn_b_index(f.g, x, (hn_value[]){scalar}, 1, false));
    output(&f, hn_b_index(f.g, x, (hn_value[]){input(&f, I64, S(2, 1), V(1, 0))}, 1, false));
    EXPECT_OK(run(&f));
    expect(&f, 0, F32, S(3, 3), V(4, 5, 6, 1, 2, 3, 4, 5, 6));
    expect(&f, 1, F32, S(3), V(4, 3, 6));
    expect(&f, 2, F32, S(3), V(4, 5, 6));
    expect(&f, 3, F32, S(2, 1, 3), V(4, 5, 6, 1, 2, 3));
    end(&f);
}

ROW_TEST(HN_OP_INDEX_PUT, index_put_sets_and_combines) {
    fixture f;
    begin(&f);
    hn_value x = input(&f, F32, S(3), V(1, 2, 3)), at = input(&f, I64, S(3), V(0, -1, 0)),
             values = input(&f, F32, S(3), V(10, NAN, 30));
    hn_value grid = input(&f, I8, S(2, 2), V(1, 2, 3, 4)), row = input(&f, I64, S(2), V(1, 1)),
             put = input(&f, I8, S(2), V(100, 50));
    output(&f, hn_b_index_put(f.g, x, &at, 1, values, "set", true));
    output(&f, hn_b_index_put(f.g, x, &at, 1, values, "add", true));
    output(&f, hn_b_index_put(f.g, x, &at, 1, values, "mul", true));
    output(&f, hn_b_index_put(f.g, x, &at, 1, values, "min", true));
    output(&f, hn_b_index_put(f.g, x, &at, 1, values, "max", true));
    /* values broadcast over the rows */
    output(&f, hn_b_index_put(f.g, grid, &row, 1, put, "add", false));
    EXPECT_OK(run(&f));
    expect(&f, 0, F32, S(3), V(30, 2, NAN));
    expect(&f, 1, F32, S(3), V(41, 2, NAN));
    expect(&f, 2, F32, S(3), V(300, 2, NAN));
    expect(&f, 3, F32, S(3), V(1, 2, NAN));
    expect(&f, 4, F32, S(3), V(30, 2, NAN));
    expect(&f, 5, I8, S(2, 2), V(1, 2, -53, 104)); /* 3 + 200 wraps */
    end(&f);
}

/* 1 + 2^-24 + 2^-24 in f32: combined in double and rounded once. */
TEST(index_put_adds_before_rounding) {
    fixture f;
    begin(&f);
    hn_value x = input(&f, F32, S(1), V(1)), at = input(&f, I64, S(2), V(0, 0)),
             values = input(&f, F32, S(2), V(0x1p-24, 0x1p-24));
    run_expect(&f, hn_b_index_put(f.g, x, &at, 1, values, "add", false), F32, S(1), V(1 + 0x1p-23));
    end(&f);
}

ROW_TEST(HN_OP_SCATTER, scatter_sets_and_combines) {
    fixture f;
    begin(&f);
    hn_value x = input(&f, F32, S(3, 2), V(1, 2, 3, 4, 5, 6)),
             index = input(&f, I64, S(2, 2), V(2, 0, 2, 1));
    hn_value src = input(&f, F32, S(2, 2), V(10, 20, 30, 40));
    static const char *const modes[] = {"set", "add", "mul", "min", "max"};
    for (int k = 0; k < 5; k++) output(&f, hn_b_scatter(f.g, x, index, src, 0, modes[k]));
    hn_value flags = input(&f, BOOL, S(2), V(1, 0)), at = input(&f, I64, S(2), V(1, 1)),
             more = input(&f, BOOL, S(2), V(1, 1));
    output(&f, hn_b_scatter(f.g, flags, at, more, 0, "add"));
    output(&f, hn_b_scatter(f.g, x, input(&f, I64, S(1, 1), V(1)),
                            input(&f, F32, S(2, 2), V(-1, -2, -3, -4)), 1, "set"));
    EXPECT_OK(run(&f));
    expect(&f, 0, F32, S(3, 2), V(1, 20, 3, 40, 30, 6)); /* the last one stays */
    expect(&f, 1, F32, S(3, 2), V(1, 22, 3, 44, 45, 6));
    expect(&f, 2, F32, S(3, 2), V(1, 40, 3, 160, 1500, 6));
    expect(&f, 3, F32, S(3, 2), V(1, 2, 3, 4, 5, 6));
    expect(&f, 4, F32, S(3, 2), V(1, 20, 3, 40, 30, 6));
    expect(&f, 5, BOOL, S(2), V(1, 1));
    expect(&f, 6, F32, S(3, 2), V(1, -1, 3, 4, 5, 6)); /* only the part of src that index covers */
    end(&f);
}

TEST(empty_indices) {
    fixture f;
    begin(&f);
    hn_value x = input(&f, F32, S(2, 2), V(1, 2, 3, 4)), none = input(&f, I64, S(0), NO_VALUES);
    output(&f, hn_b_index(f.g, x, &none, 1, true));
    output(&f, hn_b_index_put(f.g, x, &none, 1, input(&f, F32, S(0, 2), NO_VALUES), "set", true));
    EXPECT_OK(run(&f));
    expect(&f, 0, F32, S(0, 2), NO_VALUES);
    expect(&f, 1, F32, S(2, 2), V(1, 2, 3, 4));
    end(&f);
}

TEST(every_row_has_a_test) { expect_every_row_tested(PROGRAM_DATA); }

TEST_MAIN
