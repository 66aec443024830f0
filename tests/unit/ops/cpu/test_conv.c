/* test_conv.c: convolutions against the reference: random shapes of every kind, and the shapes of
 * known networks. */
#include "ops/cpu/conv/conv.h"
#include "ops_fixture.h"

typedef struct conv_case {
    int64_t p[HN_CONV_PARAM_COUNT];
    bool constant, bias, random_strides;
    bool residual, scale; /* drawn by check */
    uint8_t dtype;
    int threads;
} conv_case;

static void print_case(const conv_case *c) {
    fprintf(stderr, "conv dtype %d constant %d bias %d residual %d scale %d threads %d params",
            c->dtype, c->constant, c->bias, c->residual, c->scale, c->threads);
    for (int i = 0; i < HN_CONV_PARAM_COUNT; i++) fprintf(stderr, " %lld", (long long)c->p[i]);
    fputc('\n', stderr);
}

/* Returns the element count; before: those before the first one. */
static int64_t strides_of(ext_random *r, const conv_case *c, const int64_t *sizes, int64_t *out,
                          int64_t *before) {
    int64_t stride = 1;
    *before = 0;
    if (c->random_strides) {
        int64_t count = ext_random_strides(r, sizes, 5, out);
        *before = ext_random_turns(r, sizes, 5, out);
        return count;
    }
    for (int d = 4; d >= 0; d--) out[d] = stride, stride *= sizes[d];
    return stride;
}

/* Output sizes from the others. False: there is none. */
static bool set_output(int64_t *p, ext_random *r) {
    for (int d = 0; d < 3; d++) {
        int64_t span = p[HN_CONV_DILATION + d] * (p[HN_CONV_KERNEL + d] - 1),
                in = p[HN_CONV_IN + d], pad = p[HN_CONV_PADDING + d];
        int64_t stride = p[HN_CONV_STRIDE + d];
        int64_t out = p[HN_CONV_TRANSPOSED] ? (in - 1) * stride - 2 * pad + span + 1 +
                                                  (stride > 1 ? ext_int(r, 0, stride - 1) : 0)
                      : in + 2 * pad < span + 1 ? 0
                                                : (in + 2 * pad - span - 1) / stride + 1;
        if (out <= 0) return false;
        p[HN_CONV_OUTSIZE + d] = out;
    }
    return true;
}

static bool check(ext_random *r, conv_case *c) {
    int64_t *p = c->p;
    if (!set_output(p, r)) return false;
    const bool transposed = p[HN_CONV_TRANSPOSED];
    const int64_t cg = p[HN_CONV_C] / p[HN_CONV_GROUPS], og = p[HN_CONV_O] / p[HN_CONV_GROUPS];
    int64_t x_sizes[5] = {p[HN_CONV_N], p[HN_CONV_C], p[4], p[5], p[6]};
    int64_t w_sizes[5] = {transposed ? p[HN_CONV_C] : p[HN_CONV_O], transposed ? og : cg, p[7],
                          p[8], p[9]};
    int64_t y_sizes[5] = {p[HN_CONV_N], p[HN_CONV_O], p[10], p[11], p[12]};
    int64_t counts[6], before[6] = {0};
    counts[1] = strides_of(r, c, x_sizes, p + HN_CONV_X, &before[1]);
    counts[2] = strides_of(r, c, w_sizes, p + HN_CONV_W, &before[2]);
    const int64_t y_count = counts[0] = strides_of(r, c, y_sizes, p + HN_CONV_OUT, &before[0]);
    counts[3] = p[HN_CONV_O];
    counts[4] = strides_of(r, c, y_sizes, p + HN_CONV_RESIDUAL, &before[4]);
    c->residual = ext_int(r, 0, 2) == 0, c->scale = ext_int(r, 0, 4) == 0;
    p[HN_CONV_SCALE] = ext_int(r, 0, 1) * p[HN_CONV_C] * 2, p[HN_CONV_SCALE + 1] = ext_int(r, 1, 2);
    p[HN_CONV_SCALE_OUT] = ext_int(r, 0, 1);
    counts[5] = p[HN_CONV_SCALE_OUT] ? (p[HN_CONV_O] - 1) * p[HN_CONV_SCALE + 1] + 1
                                     : (p[HN_CONV_N] - 1) * p[HN_CONV_SCALE] +
                                           (p[HN_CONV_C] - 1) * p[HN_CONV_SCALE + 1] + 1;
    p[HN_CONV_W_CONSTANT] = c->constant;
    uint8_t t = c->dtype;
    hn_ext_call call = {
        .kind = HN_EXTERN_CONV,
        .dtypes = {t, t, t, c->bias ? t : 0, c->residual ? t : 0, c->scale ? t : 0},
        .params = p,
        .param_count = HN_CONV_PARAM_COUNT,
        .threads = c->threads,
        .team = &ext_team,
        .is_constant = {[2] = c->constant, [5] = p[HN_CONV_SCALE_OUT] && ext_int(r, 0, 2)}};
    void *memory[6] = {NULL};
    for (int i = 1; i < 6; i++) {
        if (call.dtypes[i]) memory[i] = ext_memory(r, t, counts[i]);
        call.operands[i] = ext_first(memory[i], t, before[i]);
    }
    void *want = ext_memory(r, t, y_count), *got = malloc((size_t)y_count * ext_bytes(t) + 1);
    memcpy(got, want, (size_t)y_count * ext_bytes(t));
    call.operands[0] = ext_first(want, t, before[0]);
    EXPECT(ext_run_with(&call, &hn_ext_reference));
    call.operands[0] = ext_first(got, t, before[0]);
    if (getenv("EXT_VERBOSE")) print_case(c);
    bool taken = ext_run_with(&call, &hn_ext_convolution);
    /* Products of numbers below 1, rounded in another order; Winograd's transformations lose a
     * little more. */
    double terms = (double)(cg * p[7] * p[8] * p[9]) + 8,
           tolerance = t == HN_F64 ? 1e-15 * terms : 6e-8 * terms + 2e-6 * sqrt(terms);
    double relative = t == HN_F16 ? 1.0 / 1024 : t == HN_BF16 ? 1.0 / 128 : 2e-6;
    if (t == HN_F16 || t == HN_BF16) tolerance += relative;
    if (t != HN_F64 && (t < HN_F64 || t > HN_BF16)) tolerance = relative = 0;
    for (int64_t i = 0; taken && i < y_count; i++)
        if (!ext_close(ext_get(t, got, i), ext_get(t, want, i), tolerance, relative)) {
            HN_TEST_FAIL("element %lld is %.9g, expected %.9g", (long long)i, ext_get(t, got, i),
                         ext_get(t, want, i));
            print_case(c);
            break;
        }
    for (int i = 1; i < 6; i++) free(memory[i]);
    free(want), free(got);
    return taken;
}

static void random_shape(ext_random *r, conv_case *c, bool transposed) {
    int64_t *p = c->p;
    int rank = (int)ext_int(r, 1, 3);
    p[HN_CONV_N] = ext_int(r, 1, 3);
    p[HN_CONV_GROUPS] = ext_int(r, 0, 3) ? 1 : ext_int(r, 1, 4);
    p[HN_CONV_C] = p[HN_CONV_GROUPS] * (ext_int(r, 0, 3) ? ext_int(r, 1, 9) : ext_int(r, 1, 40));
    p[HN_CONV_O] = p[HN_CONV_GROUPS] * (ext_int(r, 0, 3) ? ext_int(r, 1, 9) : ext_int(r, 1, 40));
    p[HN_CONV_TRANSPOSED] = transposed;
    for (int d = 0; d < 3; d++) {
        bool used = d >= 3 - rank;
        p[HN_CONV_IN + d] = used ? ext_int(r, 1, rank == 3 ? 6 : rank == 2 ? 17 : 70) : 1;
        p[HN_CONV_KERNEL + d] = used ? ext_int(r, 1, 4) : 1;
        p[HN_CONV_STRIDE + d] = used && ext_int(r, 0, 1) ? ext_int(r, 1, 4) : 1;
        p[HN_CONV_PADDING + d] = used && ext_int(r, 0, 1) ? ext_int(r, 0, 3) : 0;
        p[HN_CONV_DILATION + d] = used && ext_int(r, 0, 3) == 0 ? ext_int(r, 1, 3) : 1;
    }
    c->constant = ext_int(r, 0, 1), c->bias = ext_int(r, 0, 1),
    c->random_strides = ext_int(r, 0, 2) == 0;
    c->threads = (int)ext_int(r, 1, 3);
}

static void random_cases(uint64_t seed, int count, bool transposed, const uint8_t *dtypes,
                         int dtype_count) {
    ext_random r = {seed};
    int taken = 0;
    for (int i = 0; i < count; i++) {
        conv_case c = {.dtype = dtypes[i % dtype_count]};
        random_shape(&r, &c, transposed);
        bool is_float = c.dtype >= HN_F64 && c.dtype <= HN_BF16;
        c.p[HN_CONV_EPILOGUE] =
            ext_int(&r, 0, 1)
                ? 0
                : ext_int(&r, 0, is_float ? HN_EPILOGUE_HARDSIGMOID : HN_EPILOGUE_RELU);
        taken += check(&r, &c);
    }
    if (dtypes[0] == HN_F32) EXPECT(taken > count / 2);
}

TEST(random_f32) { random_cases(1, 700, false, (uint8_t[]){HN_F32}, 1); }
TEST(random_transposed_f32) { random_cases(2, 500, true, (uint8_t[]){HN_F32}, 1); }
TEST(random_other_dtypes) {
    random_cases(3, 300, false, (uint8_t[]){HN_F64, HN_F16, HN_BF16, HN_I64, HN_I32, HN_U8}, 6);
    random_cases(4, 200, true, (uint8_t[]){HN_F64, HN_F16, HN_BF16, HN_I32}, 4);
}

/* Dilations as large as the image: taps at the ends meet padding only, in one dimension or in
 * both. */
TEST(dead_taps) {
    ext_random r = {15};
    int taken = 0;
    for (int i = 0; i < 400; i++) {
        conv_case c = {.dtype = HN_F32};
        random_shape(&r, &c, false);
        int64_t *p = c.p;
        if (i % 4 == 0) p[HN_CONV_GROUPS] = p[HN_CONV_O] = p[HN_CONV_C];
        for (int d = 0; d < 3; d++) {
            p[HN_CONV_IN + d] = d ? ext_int(&r, 1, 17) : 1,
                           p[HN_CONV_KERNEL + d] = d ? ext_int(&r, 1, 6) : 1;
            p[HN_CONV_DILATION + d] = d ? ext_int(&r, 1, 24) : 1;
            p[HN_CONV_PADDING + d] = d ? p[HN_CONV_DILATION + d] * (p[HN_CONV_KERNEL + d] / 2) : 0;
            if (d && i % 5 == 0)
                p[HN_CONV_PADDING + d] = hn_ext_max(0, p[HN_CONV_PADDING + d] - ext_int(&r, 0, 3));
        }
        p[HN_CONV_EPILOGUE] = ext_int(&r, 0, 8);
        taken += check(&r, &c);
    }
    EXPECT(taken > 300);
}

/* Depthwise: every kernel, stride, dilation and multiplier. */
TEST(depthwise) {
    ext_random r = {5};
    for (int i = 0; i < 400; i++) {
        conv_case c = {.dtype = HN_F32};
        random_shape(&r, &c, false);
        c.p[HN_CONV_C] = c.p[HN_CONV_GROUPS] = ext_int(&r, 1, 20);
        c.p[HN_CONV_O] = c.p[HN_CONV_C] * (ext_int(&r, 0, 2) ? 1 : ext_int(&r, 1, 3));
        c.p[HN_CONV_EPILOGUE] = ext_int(&r, 0, 8);
        c.p[HN_CONV_IN + 2] = ext_int(&r, 1, 80);
        c.p[HN_CONV_KERNEL + 2] = ext_int(&r, 1, 7);
        check(&r, &c);
    }
}

/* 3 x 3 and 5 x 5 planes straight from the input: sizes around the vectors and the blocks of 7 and
 * 4 rows. */
TEST(strips) {
    ext_random r = {8};
    int taken = 0;
    for (int i = 0; i < 600; i++) {
        conv_case c = {.dtype = HN_F32,
                       .constant = i & 1,
                       .bias = i & 2,
                       .threads = 1 + i % 3,
                       .random_strides = i % 7 == 0};
        int64_t *p = c.p, kernel = i % 2 ? 3 : 5, stride = ext_int(&r, 1, 2);
        p[HN_CONV_N] = ext_int(&r, 1, 2), p[HN_CONV_C] = p[HN_CONV_GROUPS] = ext_int(&r, 1, 9),
        p[HN_CONV_O] = p[HN_CONV_C] * ext_int(&r, 1, 2);
        for (int d = 0; d < 3; d++) {
            p[HN_CONV_IN + d] = d ? ext_int(&r, 1, 37) : 1, p[HN_CONV_KERNEL + d] = d ? kernel : 1,
                           p[HN_CONV_STRIDE + d] = d ? stride : 1;
            p[HN_CONV_PADDING + d] = d ? ext_int(&r, 0, kernel - 1) : 0,
                                p[HN_CONV_DILATION + d] = 1;
        }
        if (i % 10 == 0) /* planes of which each thread has a part */
            p[HN_CONV_N] = 1, p[HN_CONV_IN + 1] = ext_int(&r, 56, 130),
            p[HN_CONV_IN + 2] = ext_int(&r, 33, 80), c.threads = (int)ext_int(&r, 2, 3);
        p[HN_CONV_EPILOGUE] = ext_int(&r, 0, 8);
        taken += check(&r, &c);
    }
    EXPECT(taken > 400);
}

/* Few channels, rows of outputs of a panel and more. */
TEST(few_channels) {
    ext_random r = {13};
    for (int i = 0; i < 300; i++) {
        conv_case c = {.dtype = HN_F32,
                       .constant = i % 9 != 0,
                       .bias = i & 1,
                       .residual = i & 2,
                       .threads = 1 + i % 3,
                       .random_strides = i % 11 == 0};
        int64_t *p = c.p;
        p[HN_CONV_N] = ext_int(&r, 1, 2), p[HN_CONV_C] = ext_int(&r, 1, 4), p[HN_CONV_GROUPS] = 1,
        p[HN_CONV_O] = ext_int(&r, 1, 20);
        for (int d = 0; d < 3; d++) {
            p[HN_CONV_KERNEL + d] = d ? ext_int(&r, 1, 7) : 1,
                               p[HN_CONV_STRIDE + d] = d ? ext_int(&r, 1, d == 1 ? 3 : 2) : 1;
            p[HN_CONV_DILATION + d] = d && i % 4 == 0 ? ext_int(&r, 1, 3) : 1,
                                 p[HN_CONV_PADDING + d] = d ? ext_int(&r, 0, 3) : 0;
            p[HN_CONV_IN + d] = d ? ext_int(&r, d == 1 ? 1 : 20, d == 1 ? 20 : 70) : 1;
        }
        p[HN_CONV_EPILOGUE] = ext_int(&r, 0, 8);
        check(&r, &c);
    }
}

/* 1 x 1 to many channels: threads share these. */
TEST(many_outputs) {
    ext_random r = {14};
    for (int i = 0; i < 60; i++) {
        conv_case c = {.dtype = HN_F32,
                       .constant = i & 1,
                       .bias = i & 2,
                       .residual = i & 4,
                       .threads = 1 + i % 4};
        int64_t *p = c.p;
        p[HN_CONV_N] = ext_int(&r, 1, 2), p[HN_CONV_C] = ext_int(&r, 20, 60), p[HN_CONV_GROUPS] = 1,
        p[HN_CONV_O] = p[HN_CONV_C] * ext_int(&r, 2, 4);
        for (int d = 0; d < 3; d++)
            p[HN_CONV_IN + d] = d ? ext_int(&r, 8, 20) : 1, p[HN_CONV_KERNEL + d] =
                                                                p[HN_CONV_STRIDE + d] =
                                                                    p[HN_CONV_DILATION + d] = 1;
        p[HN_CONV_EPILOGUE] = ext_int(&r, 0, 8);
        check(&r, &c);
    }
}

/* Columns of tiles of every instruction set that this processor has; sums of small whole numbers
 * are exact. */
TEST(column_tables) {
    enum { MOST_K = 20, MOST_ROWS = 14 * 3, B_ROW = 80, C_ROW = 71 };
    const hn_ext_kernels *tables[3];
    ext_random r = {11};
    static float a[3 * MOST_K * 14], b[MOST_K * B_ROW], bias[MOST_ROWS],
        residual[MOST_ROWS * C_ROW], before[MOST_ROWS * C_ROW], c[MOST_ROWS * C_ROW];
    float *const filled[] = {a, b, bias, residual, before};
    const size_t counts[] = {sizeof a, sizeof b, sizeof bias, sizeof residual, sizeof before};
    for (int f = 0; f < 5; f++)
        for (size_t i = 0; i < counts[f] / sizeof(float); i++)
            filled[f][i] = (float)ext_int(&r, -8, 8);
    for (size_t t = hn_ext_kernels_list(tables); t-- > 0;)
        for (int i = 0; i < 200; i++) {
            const int64_t height = tables[t]->tile_rows, rows = ext_int(&r, 1, height),
                          tiles = ext_int(&r, 1, 3), panels = ext_int(&r, 1, 2);
            const int64_t cols = panels * tables[t]->tile_cols;
            int64_t taps[MOST_K];
            for (int k = 0; k < MOST_K; k++) taps[k] = ext_int(&r, 0, (MOST_K - 1) * B_ROW + 1);
            hn_ext_column x = {.k = ext_int(&r, 1, MOST_K),
                               .tiles = tiles,
                               .panels = panels,
                               .taps = i % 4 ? NULL : taps,
                               .rows = (int)rows,
                               .accumulate = i % 2,
                               .a = a,
                               .a_tile = MOST_K * height,
                               .epilogue = i % 3 ? HN_EPILOGUE_RELU : HN_EPILOGUE_NONE,
                               .b = b,
                               .b_k = B_ROW,
                               .c = c,
                               .c_row = C_ROW,
                               .bias = i % 5 ? bias : NULL,
                               .residual = i % 7 ? residual : NULL,
                               .residual_row = C_ROW};
            memcpy(c, before, sizeof c);
            tables[t]->column(&x);
            for (int64_t at = 0; at < MOST_ROWS * C_ROW; at++) {
                const int64_t row = at / C_ROW, col = at % C_ROW;
                float sum = before[at];
                if (row < rows * tiles && col < cols) {
                    sum = (x.accumulate ? sum : 0) + (x.bias ? bias[row] : 0) +
                          (x.residual ? residual[at] : 0);
                    for (int64_t k = 0; k < x.k; k++)
                        sum += a[row / rows * x.a_tile + k * height + row % rows] *
                               b[(x.taps ? taps[k] : k * B_ROW) + col];
                    if (x.epilogue == HN_EPILOGUE_RELU && sum < 0) sum = 0;
                }
                if (c[at] != sum) {
                    HN_TEST_FAIL("%s: row %lld of %lld x %lld, column %lld is %g, expected %g",
                                 tables[t]->name, (long long)row, (long long)tiles, (long long)rows,
                                 (long long)col, (double)c[at], (double)sum);
                    break;
                }
            }
        }
}

/* Strips of every instruction set that this processor has. */
TEST(strip_tables) {
    enum { SIDE = 29, ROOM = 64 };
    const hn_ext_kernels *tables[3];
    ext_random r = {9};
    static float in[SIDE * SIDE + 2 * ROOM], zeros[SIDE + 2 * ROOM], padded[8 * SIDE * SIDE],
        out[SIDE * SIDE];
    for (size_t i = 0; i < sizeof in / sizeof *in; i++) in[i] = (float)ext_int(&r, -8, 8);
    for (size_t t = hn_ext_kernels_list(tables); t-- > 0;)
        for (int i = 0; i < 200; i++) {
            int32_t masks[SIDE * 5 * HN_EXT_MAX_LANES];
            float weights[25];
            const int kernel = i % 2 ? 3 : 5, stride = 1 + i / 2 % 2,
                      pad = (int)ext_int(&r, 0, kernel - 1), lanes = tables[t]->lanes;
            const int64_t high = ext_int(&r, kernel, SIDE), wide = ext_int(&r, kernel, SIDE);
            hn_ext_strip s = {.kernel = kernel,
                              .stride = stride,
                              .planes = 1,
                              .in = in + ROOM,
                              .in_row = SIDE,
                              .in_rows = high,
                              .top = pad,
                              .left = pad,
                              .zeros = zeros + ROOM,
                              .masks = masks,
                              .weights = weights,
                              .out = out,
                              .bias = &(float){2},
                              .epilogue = HN_EPILOGUE_RELU};
            s.rows = (high + 2 * pad - kernel) / stride + 1,
            s.cols = (wide + 2 * pad - kernel) / stride + 1;
            if (s.rows * s.cols > SIDE * SIDE) continue;
            s.out_row = s.cols;
            for (int k = 0; k < kernel * kernel; k++) weights[k] = (float)ext_int(&r, -4, 4);
            for (int64_t b = 0; b * lanes < s.cols; b++)
                for (int64_t j = 0; j < kernel * lanes; j++) {
                    int64_t x = b * lanes + lanes <= s.cols || b == 0 ? b * lanes : s.cols - lanes;
                    int64_t column = (x + hn_ext_strip_lane(lanes, stride, j % lanes)) * stride +
                                     j / lanes - pad;
                    masks[b * kernel * lanes + j] = column >= 0 && column < wide ? -1 : 0;
                }
            if (i % 3 == 0) { /* through a copy with a border */
                memset(padded, 0, sizeof padded);
                s.padded = padded, s.in_cols = wide;
                hn_ext_strip_pad(&s, lanes);
                EXPECT(2 * s.padded_plane <= (int64_t)(sizeof padded / sizeof *padded));
            }
            tables[t]->conv->strip(&s);
            for (int64_t o = 0; o < s.rows * s.cols; o++) {
                float sum = 2;
                for (int64_t k = 0; k < kernel * kernel; k++) {
                    int64_t y = o / s.cols * stride + k / kernel - pad,
                            x = o % s.cols * stride + k % kernel - pad;
                    if (y >= 0 && y < high && x >= 0 && x < wide)
                        sum += weights[k] * in[ROOM + y * SIDE + x];
                }
                if (out[o] != (sum > 0 ? sum : 0)) { /* small whole numbers: every sum is exact */
                    HN_TEST_FAIL(
                        "%s kernel %d stride %d, output %lld of %lld x %lld is %g, expected %g",
                        tables[t]->name, kernel, stride, (long long)o, (long long)s.rows,
                        (long long)s.cols, (double)out[o], (double)sum);
                    break;
                }
            }
        }
}

/* Few positions and many output channels: threads share collected panels; the last panel has one to
 * four columns. */
TEST(many_channels) {
    ext_random r = {10};
    for (int i = 0; i < 60; i++) {
        conv_case c = {.dtype = HN_F32,
                       .constant = i & 1,
                       .bias = i & 2,
                       .threads = 1 + i % 3,
                       .random_strides = i % 9 == 8};
        int64_t *p = c.p, kernel = ext_int(&r, 1, 3), stride = ext_int(&r, 1, 3);
        p[HN_CONV_N] = ext_int(&r, 1, 2), p[HN_CONV_C] = ext_int(&r, 30, 150),
        p[HN_CONV_O] = ext_int(&r, 90, 260), p[HN_CONV_GROUPS] = 1;
        for (int d = 0; d < 3; d++) {
            p[HN_CONV_IN + d] = d ? ext_int(&r, 3, 13) : 1, p[HN_CONV_KERNEL + d] = d ? kernel : 1,
                           p[HN_CONV_STRIDE + d] = d ? stride : 1;
            p[HN_CONV_PADDING + d] = d ? ext_int(&r, 0, 1) : 0, p[HN_CONV_DILATION + d] = 1;
        }
        p[HN_CONV_EPILOGUE] = ext_int(&r, 0, 8);
        check(&r, &c);
    }
}

/* 1 x 1 over images of which the last panel would be mostly empty: positions are the rows of the
 * tiles, results are transposed. Deep enough for two passes over k. */
TEST(transposed_products) {
    ext_random r = {11};
    for (int i = 0; i < 60; i++) {
        conv_case c = {.dtype = HN_F32,
                       .constant = i % 4 != 3,
                       .bias = i & 1,
                       .threads = 1 + i % 3,
                       .random_strides = i % 9 == 8};
        int64_t *p = c.p;
        p[HN_CONV_N] = ext_int(&r, 1, 2), p[HN_CONV_C] = i % 10 == 9 ? 1700 : ext_int(&r, 1, 300),
        p[HN_CONV_O] = ext_int(&r, 1, 90);
        p[HN_CONV_GROUPS] = 1;
        for (int d = 0; d < 3; d++) {
            p[HN_CONV_IN + d] = d ? ext_int(&r, 1, 9) : 1;
            p[HN_CONV_KERNEL + d] = p[HN_CONV_STRIDE + d] = p[HN_CONV_DILATION + d] = 1;
        }
        p[HN_CONV_EPILOGUE] = ext_int(&r, 0, 8);
        EXPECT(check(&r, &c));
    }
}

/* 3 x 3, stride 1, sizes around the tiles of 2 and 4 and the panels of tiles. */
TEST(winograd) {
    ext_random r = {6};
    int fits = 0;
    for (int i = 0; i < 150; i++) {
        conv_case c = {.dtype = HN_F32, .constant = true, .bias = i & 1, .threads = 1 + i % 3};
        int64_t *p = c.p;
        p[HN_CONV_N] = ext_int(&r, 1, 2), p[HN_CONV_C] = ext_int(&r, 8, i % 10 ? 40 : 300),
        p[HN_CONV_O] = ext_int(&r, 8, 40), p[HN_CONV_GROUPS] = 1;
        for (int d = 0; d < 3; d++)
            p[HN_CONV_KERNEL + d] = 3, p[HN_CONV_STRIDE + d] = 1, p[HN_CONV_DILATION + d] = 1;
        p[HN_CONV_IN] = p[HN_CONV_KERNEL] = 1;
        for (int d = 1; d < 3; d++)
            p[HN_CONV_IN + d] = ext_int(&r, 3, i % 7 ? 20 : 60),
                           p[HN_CONV_PADDING + d] = ext_int(&r, 0, 2);
        p[HN_CONV_EPILOGUE] = ext_int(&r, 0, 8);
        c.random_strides = i % 5 == 0;
        check(&r, &c);
        hn_ext_conv d = {.n = p[0],
                         .c = p[1],
                         .o = p[2],
                         .groups = 1,
                         .in = {1, p[5], p[6]},
                         .kernel = {1, 3, 3},
                         .out = {1, p[11], p[12]},
                         .stride = {1, 1, 1},
                         .padding = {0, p[17], p[18]},
                         .dilation = {1, 1, 1},
                         .y = {0, 0, 0, 0, 1},
                         .constant_weights = true};
        fits += hn_ext_conv_winograd_fits(&d);
    }
    EXPECT(fits > 75);
}

/* Few positions whose inputs are collected: strides, dilations and borders wider than the kernel
 * reaches. */
TEST(collected) {
    ext_random r = {19};
    int fits = 0;
    for (int i = 0; i < 160; i++) {
        conv_case c = {.dtype = HN_F32,
                       .constant = true,
                       .bias = i & 1,
                       .residual = i % 3 == 0,
                       .threads = 1 + i % 3};
        int64_t *p = c.p;
        p[HN_CONV_N] = 1, p[HN_CONV_C] = ext_int(&r, 40, 150), p[HN_CONV_O] = ext_int(&r, 1, 40),
        p[HN_CONV_GROUPS] = 1;
        p[HN_CONV_IN] = p[HN_CONV_KERNEL] = p[HN_CONV_STRIDE] = p[HN_CONV_DILATION] = 1;
        for (int d = 1; d < 3; d++) {
            p[HN_CONV_IN + d] = ext_int(&r, 7, 15), p[HN_CONV_KERNEL + d] = ext_int(&r, 1, 4),
                           p[HN_CONV_STRIDE + d] = ext_int(&r, 1, 3);
            p[HN_CONV_DILATION + d] = ext_int(&r, 1, 2), p[HN_CONV_PADDING + d] = ext_int(&r, 0, 4);
        }
        p[HN_CONV_EPILOGUE] = ext_int(&r, 0, 8);
        check(&r, &c);
        hn_ext_conv d = {.n = 1,
                         .c = p[1],
                         .o = p[2],
                         .groups = 1,
                         .in = {1, p[5], p[6]},
                         .kernel = {1, p[8], p[9]},
                         .out = {1, p[11], p[12]},
                         .y = {0, 0, 0, p[12], 1},
                         .r = {0, 0, 0, p[12], 1},
                         .w = {0, p[8] * p[9], 0, p[9], 1},
                         .constant_weights = true,
                         .kernels = hn_ext_kernels_get()};
        fits += hn_ext_conv_collected_fits(&d);
    }
    EXPECT(fits > 20);
}

/* Winograd's rounding on the deepest sum of a usual network, as a part of the result's
 * magnitude. */
TEST(known_networks) {
    /* n c o groups, in, kernel, stride, padding */
    static const int64_t shapes[][8] = {
        {1, 3, 64, 1, 40, 7, 2, 3},    {1, 64, 64, 1, 28, 3, 1, 1},  {1, 128, 128, 1, 28, 3, 2, 1},
        {1, 256, 256, 1, 14, 3, 1, 1}, {1, 512, 512, 1, 7, 3, 1, 1}, {1, 64, 256, 1, 28, 1, 1, 0},
        {1, 256, 128, 1, 28, 1, 2, 0}, {2, 3, 96, 1, 32, 16, 16, 0}, {1, 240, 60, 1, 1, 1, 1, 0},
        {3, 72, 24, 1, 1, 1, 1, 0},    {1, 72, 72, 72, 28, 5, 2, 2}, {1, 32, 64, 8, 14, 3, 1, 1},
        {1, 512, 80, 1, 14, 3, 2, 1},  {1, 512, 96, 1, 14, 1, 2, 0}, {1, 64, 64, 1, 56, 3, 1, 1}};
    ext_random r = {7};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int threads = 1; threads < 4; threads += 2) {
            const int64_t *s = shapes[i];
            conv_case c = {.dtype = HN_F32, .constant = true, .bias = true, .threads = threads};
            memcpy(c.p, s, 4 * sizeof *s);
            for (int d = 0; d < 3; d++) {
                c.p[HN_CONV_IN + d] = d ? s[4] : 1, c.p[HN_CONV_KERNEL + d] = d ? s[5] : 1;
                c.p[HN_CONV_STRIDE + d] = d ? s[6] : 1, c.p[HN_CONV_PADDING + d] = d ? s[7] : 0,
                                     c.p[HN_CONV_DILATION + d] = 1;
            }
            c.p[HN_CONV_EPILOGUE] = HN_EPILOGUE_RELU;
            EXPECT(check(&r, &c));
        }
}

TEST_MAIN
