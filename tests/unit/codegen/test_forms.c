/* test_forms.c: forms of kernels that only large shapes take, at sizes that divide by nothing:
 * strips of column sums, blocks of transposes, non-temporal stores. Each against a plain loop. */
#include "compile_fixture.h"
#include "ir/dtype.h"
#include "unit/harness.h"

#include <math.h>
#include <stdlib.h>

static const char *level; /* of CPU; NULL: this machine's */

/* y = graph(x); x is a matrix. */
static hn_status run_graph_to(const char *text, float *x, const int64_t *x_sizes, void *y,
                              hn_scalar_type type, uint32_t y_rank, const int64_t *y_sizes) {
    hn_module *module = NULL;
    hn_tensor *in = NULL, *out = NULL;
    hn_status status = compile_text(hn_str_of(text), level, 2, &module);
    if (!status)
        status = hn_tensor_create(
            &(hn_tensor_desc){.type = HN_F32, .rank = 2, .sizes = x_sizes, .data = x}, &in);
    if (!status)
        status = hn_tensor_create(
            &(hn_tensor_desc){.type = type, .rank = y_rank, .sizes = y_sizes, .data = y}, &out);
    if (!status) status = hn_module_run(module, &in, 1, &out, 1);
    hn_tensor_release(in);
    hn_tensor_release(out);
    hn_module_release(module);
    return status;
}

static hn_status run_graph(const char *text, float *x, const int64_t *x_sizes, float *y,
                           uint32_t y_rank, const int64_t *y_sizes) {
    return run_graph_to(text, x, x_sizes, y, HN_F32, y_rank, y_sizes);
}

static float *numbers(int64_t count) {
    float *x = aligned_alloc(64, ((size_t)count * sizeof *x + 127) / 64 * 64);
    uint32_t seed = 7;
    for (int64_t k = 0; x && k < count; k++) {
        seed = seed * 1664525u + 1013904223u;
        x[k] = (float)(int)(seed >> 8) / (float)(1 << 22) - 2.0f;
    }
    return x;
}

static void check_columns(int64_t rows, int64_t cols) {
    char text[256];
    float *x = numbers(rows * cols), *y = numbers(cols);
    snprintf(
        text, sizeof text,
        "graph @g {\n  input user %%x : f32[%lld, %lld] \"x\"\n  %%y = sum(%%x, dims=[0], keepdim=false)\n  output user %%y \"y\"\n}\n",
        (long long)rows, (long long)cols);
    EXPECT_OK(run_graph(text, x, (int64_t[]){rows, cols}, y, 1, (int64_t[]){cols}));
    double worst = 0;
    for (int64_t j = 0; j < cols; j++) {
        double sum = 0;
        for (int64_t i = 0; i < rows; i++) sum += x[i * cols + j];
        worst = fmax(worst, fabs(sum - y[j]));
    }
    /* blocks of 32 and their sums: a few ulp of the largest partial sum */
    EXPECT_NEAR(worst, 0, 1e-6 * (double)rows);
    free(x);
    free(y);
}

TEST(sums_of_columns_in_strips) {
    check_columns(300, 197);  /* neither rows nor columns come out even */
    check_columns(256, 2200); /* more than one strip */
    check_columns(131, 128);
    check_columns(50, 1029); /* the four streams end at different rows */
    check_columns(48, 130);
    check_columns(8192, 1024); /* in two stages */
}

/* y = op over the rows of x; `divisor` of the plain loop's result. */
static void check_rows(const char *op, bool largest, double divisor, int64_t rows, int64_t cols) {
    char text[256];
    float *x = numbers(rows * cols), *y = numbers(rows);
    snprintf(
        text, sizeof text,
        "graph @g {\n  input user %%x : f32[%lld, %lld] \"x\"\n  %%y = %s(%%x, dims=[1], keepdim=false)\n  output user %%y \"y\"\n}\n",
        (long long)rows, (long long)cols, op);
    /* each row has a result of its own */
    for (int64_t i = 0; i < rows; i++) x[i * cols + i % cols] = (float)(3 + i % 5);
    EXPECT_OK(run_graph(text, x, (int64_t[]){rows, cols}, y, 1, (int64_t[]){rows}));
    double worst = 0;
    for (int64_t i = 0; i < rows; i++) {
        double all = 0;
        for (int64_t j = 0; j < cols; j++)
            all = largest ? fmax(all, x[i * cols + j]) : all + x[i * cols + j];
        worst = fmax(worst, fabs(all / divisor - y[i]));
    }
    /* of a sum, a few ulp of the largest partial sum */
    EXPECT_NEAR(worst, 0, largest ? 0 : 1e-6 * (double)cols / divisor);
    free(x);
    free(y);
}

/* More than 16 MB: four rows far apart at a time. */
TEST(rows_in_quarters) {
    check_rows("sum", false, 1, 4103, 1043);
    check_rows("sum", false, 1, 4100, 1024);
    check_rows("amax", true, 1, 4102, 1037);
    check_rows("sum", false, 1, 5, 1 << 20); /* fewer rows a thread than streams */
}

static void check_transpose(int64_t rows, int64_t cols, int64_t skew) {
    char text[256];
    float *x = numbers(rows * cols), *y = numbers(rows * cols + 16);
    snprintf(
        text, sizeof text,
        "graph @g {\n  input user %%x : f32[%lld, %lld] \"x\"\n  %%y = permute(%%x, dims=[1, 0])\n  output user %%y \"y\"\n}\n",
        (long long)rows, (long long)cols);
    EXPECT_OK(run_graph(text, x, (int64_t[]){rows, cols}, y + skew, 2, (int64_t[]){cols, rows}));
    int64_t wrong = 0;
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < cols; j++) wrong += y[skew + j * rows + i] != x[i * cols + j];
    EXPECT_INT(wrong, 0);
    free(x);
    free(y);
}

/* x.t() + x: what is read along the rows is asked for, too. */
static void check_sum_with_transposed(int64_t n) {
    char text[256];
    float *x = numbers(n * n), *y = numbers(n * n);
    snprintf(
        text, sizeof text,
        "graph @g {\n  input user %%x : f32[%lld, %lld] \"x\"\n  %%t = permute(%%x, dims=[1, 0])\n  %%y = add(%%t, %%x)\n  output user %%y \"y\"\n}\n",
        (long long)n, (long long)n);
    EXPECT_OK(run_graph(text, x, (int64_t[]){n, n}, y, 2, (int64_t[]){n, n}));
    int64_t wrong = 0;
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++) wrong += y[i * n + j] != x[j * n + i] + x[i * n + j];
    EXPECT_INT(wrong, 0);
    free(x);
    free(y);
}

/* Several matrices, a multiple of blocks or not; a thread's share begins and ends inside of one. */
static void check_transposes(int64_t count, int64_t rows, int64_t cols) {
    char text[512];
    float *x = numbers(count * rows * cols), *y = numbers(count * rows * cols);
    long long b = count, r = rows, c = cols;
    snprintf(
        text, sizeof text,
        "graph @g {\n  input user %%x : f32[%lld, %lld] \"x\"\n  %%v = reshape(%%x, sizes=[%lld, %lld, %lld])\n"
        "  %%y = permute(%%v, dims=[0, 2, 1])\n  output user %%y \"y\"\n}\n",
        b * r, c, b, r, c);
    EXPECT_OK(
        run_graph(text, x, (int64_t[]){count * rows, cols}, y, 3, (int64_t[]){count, cols, rows}));
    int64_t wrong = 0;
    for (int64_t m = 0; m < count; m++)
        for (int64_t i = 0; i < rows; i++)
            for (int64_t j = 0; j < cols; j++)
                wrong += y[(m * cols + j) * rows + i] != x[(m * rows + i) * cols + j];
    EXPECT_INT(wrong, 0);
    free(x);
    free(y);
}

TEST(transposes_in_blocks) {
    check_transpose(65, 71, 0);
    check_transpose(197, 768, 0);
    check_transpose(2100, 2051, 0); /* non-temporal, rows of any alignment */
    check_transpose(2112, 2048, 4); /* an output that no line begins with */
    check_transpose(2048, 2048, 0); /* whole blocks only */
    check_transpose(50, 90000, 0);  /* no whole block */
    check_sum_with_transposed(2176);
    check_sum_with_transposed(2090);
    check_transposes(5, 1024, 900);
    check_transposes(3, 1300, 1152);
}

TEST(transposes_in_blocks_of_short_vectors) {
    level = "generic";
    check_transpose(2100, 2051, 0);
    check_sum_with_transposed(2090);
    check_transposes(5, 1024, 900);
    level = NULL;
}

static void check_softmax(int64_t rows, int64_t cols, int64_t skew) {
    char text[256];
    float *x = numbers(rows * cols), *block = numbers(rows * cols + skew), *y = block + skew;
    snprintf(
        text, sizeof text,
        "graph @g {\n  input user %%x : f32[%lld, %lld] \"x\"\n  %%y = aten._softmax.default(%%x, -1, false) : f32[%lld, %lld]\n  output user %%y \"y\"\n}\n",
        (long long)rows, (long long)cols, (long long)rows, (long long)cols);
    for (int64_t j = 0; j < cols; j++) x[j] = j ? -INFINITY : 3; /* a masked row */
    x[cols + 1] = NAN;
    EXPECT_OK(run_graph(text, x, (int64_t[]){rows, cols}, y, 2, (int64_t[]){rows, cols}));
    EXPECT_NEAR(y[0], 1, 0);
    EXPECT_NEAR(y[1], 0, 0);
    EXPECT(isnan(y[cols]) && isnan(y[2 * cols - 1]));
    double worst = 0;
    for (int64_t i = 2; i < rows; i++) {
        double sum = 0;
        for (int64_t j = 0; j < cols; j++) sum += exp(x[i * cols + j]);
        for (int64_t j = 0; j < cols; j++) {
            double want = exp(x[i * cols + j]) / sum;
            worst = fmax(worst, fabs(y[i * cols + j] - want) / want);
        }
    }
    /* 1 ulp each of exp, sum, reciprocal and product, 6e-8 apiece, and the rounded difference in
     * exp */
    EXPECT_NEAR(worst, 0, 1e-6);
    free(x);
    free(block);
}

TEST(softmax_with_one_reciprocal) {
    check_softmax(5, 1027, 0);
    check_softmax(4200, 1025, 0); /* non-temporal */
    check_softmax(4200, 1024, 0); /* the last pass in the next row's */
    check_softmax(4200, 1032, 0); /* with a rest of a vector */
    check_softmax(4200, 1024, 3); /* an output that no vector begins with */
}

static void check_limit(const char *op, double (*want)(double)) {
    enum { COUNT = 100000 };
    char text[256];
    float *x = numbers(COUNT), *y = numbers(COUNT);
    const float edges[] = {INFINITY, -INFINITY, 1e30f, 9.4f, -9.4f, 4.08f, -4.08f, 0.0f};
    snprintf(
        text, sizeof text,
        "graph @g {\n  input user %%x : f32[100, 1000] \"x\"\n  %%y = %s(%%x)\n  output user %%y \"y\"\n}\n",
        op);
    for (int64_t k = 0; k < COUNT; k++) x[k] *= 6; /* -12 to 12 */
    for (size_t k = 0; k < sizeof edges / sizeof *edges; k++) x[k] = edges[k];
    x[COUNT - 1] = NAN;
    EXPECT_OK(run_graph(text, x, (int64_t[]){100, 1000}, y, 2, (int64_t[]){100, 1000}));
    EXPECT(isnan(y[COUNT - 1]));
    double worst = 0;
    int64_t above = 0, not_one = 0;
    for (int64_t k = 0; k < COUNT - 1; k++) {
        double exact = want(x[k]);
        worst = fmax(worst, fabs(y[k] - exact) / fmax(fabs(exact), 1e-30));
        above += fabsf(y[k]) > 1;
        not_one += fabsf(x[k]) >= 9.4f && fabsf(y[k]) != 1;
    }
    EXPECT_NEAR(worst, 0, 4 * 0x1p-23); /* the error that snippets.c states */
    EXPECT_INT(above, 0);
    EXPECT_INT(not_one, 0);
    free(x);
    free(y);
}

TEST(tanh_and_erf_end_at_one) {
    check_limit("tanh", tanh);
    check_limit("erf", erf);
}

static void check_windows(int64_t h, int64_t w, int64_t kernel, int64_t stride, int64_t padding) {
    char text[512];
    const int64_t oh = (h + 2 * padding - kernel) / stride + 1,
                  ow = (w + 2 * padding - kernel) / stride + 1;
    float *x = numbers(h * w), *y = numbers(oh * ow);
    snprintf(
        text, sizeof text,
        "graph @g {\n  input user %%x : f32[%lld, %lld] \"x\"\n  %%v = reshape(%%x, sizes=[1, %lld, %lld])\n"
        "  %%y = aten.max_pool2d.default(%%v, kernel_size=[%lld], stride=[%lld], padding=[%lld]) : f32[1, %lld, %lld]\n"
        "  output user %%y \"y\"\n}\n",
        (long long)h, (long long)w, (long long)h, (long long)w, (long long)kernel,
        (long long)stride, (long long)padding, (long long)oh, (long long)ow);
    EXPECT_OK(run_graph(text, x, (int64_t[]){h, w}, y, 3, (int64_t[]){1, oh, ow}));
    int64_t wrong = 0;
    for (int64_t at = 0; at < oh * ow; at++) {
        const int64_t top = at / ow * stride - padding, left = at % ow * stride - padding;
        float most = -HUGE_VALF;
        for (int64_t i = top < 0 ? 0 : top; i < top + kernel && i < h; i++)
            for (int64_t j = left < 0 ? 0 : left; j < left + kernel && j < w; j++)
                if (x[i * w + j] > most) most = x[i * w + j];
        wrong += y[at] != most;
    }
    EXPECT_INT(wrong, 0);
    free(x), free(y);
}

/* Rows of several vectors, whose first and last one meet the border. */
TEST(windows_with_a_border) {
    check_windows(9, 56, 3, 2, 1);
    check_windows(8, 112, 3, 2, 1);
    check_windows(8, 49, 3, 2, 1);
    check_windows(7, 35, 3, 1, 1);
    check_windows(9, 66, 2, 2, 1);
    check_windows(12, 97, 5, 3, 2);
    check_windows(9, 64, 2, 2, 0);
}

/* --- 16 bits --- */

/* Of any bits: numbers that are rounded to even, up to infinity, and below the normal ones. */
static float *any_floats(int64_t count) {
    uint32_t *bits = aligned_alloc(64, ((size_t)count * sizeof *bits + 127) / 64 * 64);
    uint32_t seed = 7;
    for (int64_t k = 0; bits && k < count; k++) {
        seed = seed * 1664525u + 1013904223u;
        bits[k] = k % 3 ? seed : (seed & 0xffff0000u) | 0x8000u;
    }
    return (float *)(void *)bits;
}

static uint16_t half_of(float x, hn_scalar_type type) {
    return type == HN_BF16 ? hn_f32_to_bf16(x) : hn_f32_to_f16(x);
}

static bool is_same(uint16_t got, float x, hn_scalar_type type) {
    const uint16_t infinity = type == HN_BF16 ? 0x7f80 : 0x7c00;
    return isnan(x) ? (got & 0x7fff) > infinity : got == half_of(x, type);
}

/* `shift` elements behind the start of a line. */
static void check_halves(const char *dtype, hn_scalar_type type, int64_t rows, int64_t cols,
                         int64_t shift) {
    char text[256];
    float *x = any_floats(rows * cols);
    uint16_t *y = (uint16_t *)(void *)numbers((rows * cols + shift) / 2 + 1);
    snprintf(
        text, sizeof text,
        "graph @g {\n  input user %%x : f32[%lld, %lld] \"x\"\n  %%y = cast(%%x, dtype=%s)\n  output user %%y \"y\"\n}\n",
        (long long)rows, (long long)cols, dtype);
    EXPECT_OK(run_graph_to(text, x, (int64_t[]){rows, cols}, y + shift, type, 2,
                           (int64_t[]){rows, cols}));
    int64_t wrong = 0;
    for (int64_t k = 0; k < rows * cols; k++) wrong += !is_same(y[shift + k], x[k], type);
    EXPECT_INT(wrong, 0);
    free(x), free(y);
}

/* The last vector has some lanes only. */
TEST(halves_of_a_few_lanes) {
    for (int64_t cols = 1; cols < 36; cols += 2) {
        check_halves("bf16", HN_BF16, 1, cols, 0);
        check_halves("f16", HN_F16, 1, cols, 3);
    }
}

/* Past the caches: 18 MB. */
TEST(halves_bypass_the_caches) {
    check_halves("bf16", HN_BF16, 2999, 3001, 0);
    check_halves("bf16", HN_BF16, 2999, 3001, 8);
    check_halves("f16", HN_F16, 2999, 3001, 0);
    level = "x86-64-v3";
    check_halves("bf16", HN_BF16, 2999, 3001, 4);
    level = "generic";
    check_halves("bf16", HN_BF16, 2999, 3001, 0);
    level = NULL;
}

TEST_MAIN
