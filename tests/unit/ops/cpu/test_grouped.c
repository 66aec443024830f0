/* test_grouped.c: grouped products against one product after the other by the reference, and
 * overlapping boxes against their definition. */
#include "ops/cpu/gemm/grouped.h"
#include "ops/cpu/sort/nms.h"
#include "ops_fixture.h"

/* ---- grouped products ---- */

typedef struct grouped {
    uint8_t dtype;
    int64_t p[HN_GROUPED_PARAM_COUNT];
    int64_t *ends;
    void *a, *b, *out, *want;
    int threads;
    bool is_constant;
} grouped;

enum { GROUPS = HN_GROUPED_GROUPS, M = HN_GROUPED_M, N = HN_GROUPED_N, K = HN_GROUPED_K };

static int64_t out_count(const grouped *c) { return c->p[M] * c->p[N]; }

/* Ends in ascending order, often equal; not always up to the last row. */
static void make_ends(ext_random *r, grouped *c) {
    int64_t at = 0;
    c->ends = malloc((size_t)c->p[GROUPS] * sizeof *c->ends + 1);
    for (int64_t g = 0; g < c->p[GROUPS]; g++) {
        if (ext_int(r, 0, 2)) at += ext_int(r, 0, 1 + 2 * c->p[M] / c->p[GROUPS]);
        c->ends[g] = at =
            at > c->p[M] || (g + 1 == c->p[GROUPS] && ext_int(r, 0, 2)) ? c->p[M] : at;
    }
}

static grouped make_grouped(ext_random *r, uint8_t dtype, const int64_t sizes[4]) {
    grouped c = {.dtype = dtype, .threads = (int)ext_int(r, 1, 3), .is_constant = ext_int(r, 0, 1)};
    memcpy(c.p, sizes, 4 * sizeof *sizes);
    int64_t a = ext_random_strides(r, (int64_t[]){c.p[M], c.p[K]}, 2, c.p + HN_GROUPED_A);
    int64_t b =
        ext_random_strides(r, (int64_t[]){c.p[GROUPS], c.p[K], c.p[N]}, 3, c.p + HN_GROUPED_B);
    c.p[HN_GROUPED_B_CONSTANT] = c.is_constant;
    c.a = ext_memory(r, dtype, a), c.b = ext_memory(r, dtype, b);
    c.out = ext_memory(r, dtype, out_count(&c));
    c.want = calloc((size_t)out_count(&c) + 1, ext_bytes(dtype));
    make_ends(r, &c);
    return c;
}

static void free_grouped(grouped *c) {
    free(c->a), free(c->b), free(c->out), free(c->want), free(c->ends);
}

static hn_ext_call call_of(grouped *c) {
    return (hn_ext_call){.kind = HN_EXTERN_GROUPED_MATMUL,
                         .dtypes = {c->dtype, c->dtype, c->dtype, HN_I64},
                         .params = c->p,
                         .param_count = HN_GROUPED_PARAM_COUNT,
                         .threads = c->threads,
                         .team = &ext_team,
                         .operands = {c->out, c->a, c->b, c->ends},
                         .is_constant = {[2] = c->is_constant}};
}

static void *element(uint8_t dtype, void *base, int64_t at) {
    return (char *)base + at * (int64_t)ext_bytes(dtype);
}

static void want_group(grouped *c, int64_t g, int64_t first, int64_t rows) {
    int64_t p[HN_MATMUL_PARAM_COUNT] = {1, 1, 1, 1, rows, c->p[N], c->p[K]};
    memcpy(p + HN_MATMUL_A + HN_EXTERN_BATCH, c->p + HN_GROUPED_A, 2 * sizeof *p);
    memcpy(p + HN_MATMUL_B + HN_EXTERN_BATCH, c->p + HN_GROUPED_B + 1, 2 * sizeof *p);
    p[HN_MATMUL_OUT + HN_EXTERN_BATCH] = c->p[N], p[HN_MATMUL_OUT + HN_EXTERN_BATCH + 1] = 1;
    hn_ext_call call = {.kind = HN_EXTERN_MATMUL,
                        .dtypes = {c->dtype, c->dtype, c->dtype},
                        .params = p,
                        .param_count = HN_MATMUL_PARAM_COUNT,
                        .threads = 1,
                        .operands = {element(c->dtype, c->want, first * c->p[N]),
                                     element(c->dtype, c->a, first * c->p[HN_GROUPED_A]),
                                     element(c->dtype, c->b, g * c->p[HN_GROUPED_B])}};
    EXPECT(ext_run_with(&call, &hn_ext_reference));
}

/* Sums of k products below 1, in another order, and rounded to the type; whole numbers are
 * exact. */
static void compare(const grouped *c, const char *what) {
    static const double units[HN_SCALAR_TYPE_COUNT] = {
        [HN_F32] = 0x1p-22, [HN_F64] = 0x1p-50, [HN_F16] = 0x1p-10, [HN_BF16] = 0x1p-7};
    const double absolute = (c->dtype == HN_F64    ? 0x1p-50
                             : c->dtype <= HN_BF16 ? 0x1p-22
                                                   : 0) *
                            (double)(c->p[K] + 1);
    for (int64_t i = 0; i < out_count(c); i++)
        if (!ext_close(ext_get(c->dtype, c->out, i), ext_get(c->dtype, c->want, i), absolute,
                       units[c->dtype])) {
            HN_TEST_FAIL(
                "%s: dtype %d, %lld groups, %lld x %lld x %lld, %d threads: element %lld is %g, must be %g",
                what, c->dtype, (long long)c->p[GROUPS], (long long)c->p[M], (long long)c->p[N],
                (long long)c->p[K], c->threads, (long long)i, ext_get(c->dtype, c->out, i),
                ext_get(c->dtype, c->want, i));
            return;
        }
}

/* Three runs of one call: constant matrices are read as they are, then packed, then used packed. */
static void check_runs(ext_random *r, grouped *c) {
    hn_ext_call call = call_of(c);
    hn_ext_shared *shared = NULL;
    EXPECT_OK(hn_ext_shared_create(&shared));
    call.shared = shared;
    void *given[4];
    memcpy(given, call.operands, sizeof given);
    for (int i = 0; i < 4; i++)
        if (!call.is_constant[i]) call.operands[i] = NULL;
    EXPECT_OK(hn_ext_prepare(&call));
    memcpy(call.operands, given, sizeof given);
    void *scratch =
        call.scratch_bytes ? aligned_alloc(64, (call.scratch_bytes + 63) / 64 * 64) : NULL;
    for (int i = 0; i < 3 && call.impl; i++) {
        for (int64_t j = 0; j < out_count(c); j++) ext_put_random(r, c->dtype, c->out, j);
        EXPECT_OK(hn_ext_run(&call, scratch));
        compare(c, i == 0 ? "first run" : i == 1 ? "second run" : "third run");
    }
    hn_ext_release(&call);
    hn_ext_shared_destroy(shared);
    free(scratch);
}

static void check_grouped(ext_random *r, uint8_t dtype, int64_t groups, int64_t m, int64_t n,
                          int64_t k) {
    grouped c = make_grouped(r, dtype, (int64_t[]){groups, m, n, k});
    int64_t first = 0;
    for (int64_t g = 0; g < groups; first = c.ends[g++])
        if (c.ends[g] > first && n > 0) want_group(&c, g, first, c.ends[g] - first);
    check_runs(r, &c);
    free_grouped(&c);
}

TEST(random_groups) {
    static const uint8_t dtypes[] = {HN_F32,  HN_F32, HN_F32, HN_F16,
                                     HN_BF16, HN_F64, HN_I64, HN_I8};
    ext_random r = {11};
    for (int i = 0; i < 400; i++) {
        int64_t most = i % 5 ? 20 : 90;
        check_grouped(&r, dtypes[i % 8], ext_int(&r, 0, 6), ext_int(&r, 0, most),
                      ext_int(&r, 0, most), ext_int(&r, 0, most));
    }
}

TEST(large_groups) {
    ext_random r = {12};
    check_grouped(&r, HN_F32, 3, 300, 200, 150);
    check_grouped(&r, HN_F32, 8, 40, 513, 257);
    check_grouped(&r, HN_BF16, 3, 100, 130, 200);
    check_grouped(&r, HN_F64, 2, 180, 140, 270);
    check_grouped(&r, HN_F32, 40, 25, 64, 64);
}

/* What the ends say is not trusted, and nothing is written then. */
TEST(wrong_ends) {
    static const int64_t ends[][3] = {
        {-1, 2, 4}, {3, 2, 4}, {1, 2, 5}, {INT64_MAX, 2, 4}, {1, 4, INT64_MIN}};
    static const char *const texts[] = {
        "group 0 ends at row -1, must end in [0, 4]", "group 1 ends at row 2, must end in [3, 4]",
        "group 2 ends at row 5, must end in [2, 4]", "group 0 ends at row 9223372036854775807",
        "group 2 ends at row -9223372036854775808, must end in [4, 4]"};
    for (int i = 0; i < 5; i++) {
        float a[4] = {1, 1, 1, 1}, b[3] = {1, 1, 1}, out[4] = {7, 7, 7, 7};
        int64_t p[HN_GROUPED_PARAM_COUNT] = {3, 4, 1, 1, 1, 1, 1, 1, 1, 0}, own[3];
        memcpy(own, ends[i], sizeof own);
        hn_ext_shared *shared = NULL;
        EXPECT_OK(hn_ext_shared_create(&shared));
        hn_ext_call call = {.kind = HN_EXTERN_GROUPED_MATMUL,
                            .dtypes = {HN_F32, HN_F32, HN_F32, HN_I64},
                            .params = p,
                            .param_count = HN_GROUPED_PARAM_COUNT,
                            .threads = 1,
                            .shared = shared};
        EXPECT_OK(hn_ext_prepare(&call));
        call.operands[0] = out, call.operands[1] = a, call.operands[2] = b, call.operands[3] = own;
        void *scratch = aligned_alloc(64, call.scratch_bytes / 64 * 64 + 64);
        EXPECT_ERROR(hn_ext_run(&call, scratch), HN_INVALID_ARGUMENT, texts[i]);
        EXPECT(out[0] == 7 && out[3] == 7);
        hn_ext_release(&call);
        hn_ext_shared_destroy(shared);
        free(scratch);
    }
}

static void refused(const hn_ext_call *like, const char *text) {
    hn_ext_call call = *like;
    EXPECT_ERROR(hn_ext_prepare(&call), HN_INVALID_ARGUMENT, text);
}

TEST(wrong_calls) {
    int64_t p[HN_GROUPED_PARAM_COUNT] = {3, 4, 1, 1, 1, 1, 1, 1, 1, 0},
            q[HN_NMS_PARAM_COUNT] = {3, 0};
    hn_ext_call call = {.kind = HN_EXTERN_GROUPED_MATMUL,
                        .dtypes = {HN_F32, HN_F32, HN_F32, HN_I32},
                        .params = p,
                        .param_count = HN_GROUPED_PARAM_COUNT,
                        .threads = 1};
    hn_ext_call nms = {.kind = HN_EXTERN_NMS,
                       .dtypes = {HN_BOOL, HN_F16},
                       .params = q,
                       .param_count = HN_NMS_PARAM_COUNT,
                       .threads = 1};
    refused(&call, "the ends are i32, must be i64");
    call.dtypes[3] = HN_I64, call.dtypes[2] = HN_F64;
    refused(&call, "operand 2 is f64, but operand 0 is f32");
    call.dtypes[2] = HN_F32, p[HN_GROUPED_K] = -1;
    refused(&call, "parameter 3 is -1");
    p[HN_GROUPED_K] = 1, p[HN_GROUPED_B] = INT64_MAX;
    refused(&call, "operand 2 is too large");
    refused(&nms, "the boxes f16, must be bool and f32 or f64");
    nms.dtypes[1] = HN_F32, q[HN_NMS_N] = INT64_MAX / 8;
    refused(&nms, "too large");
}

/* ---- boxes ---- */

#define SHARES_MORE(NAME, TYPE)                                                                    \
    static bool NAME(const TYPE *a, const TYPE *b, double threshold) {                             \
        TYPE w = (b[2] < a[2] ? b[2] : a[2]) - (a[0] < b[0] ? b[0] : a[0]);                        \
        TYPE h = (b[3] < a[3] ? b[3] : a[3]) - (a[1] < b[1] ? b[1] : a[1]);                        \
        TYPE common = (w > 0 ? w : 0) * (h > 0 ? h : 0);                                           \
        TYPE both = (a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]);                 \
        return (double)(common / (both - common)) > threshold;                                     \
    }
SHARES_MORE(shares_more_f32, float)
SHARES_MORE(shares_more_f64, double)
#undef SHARES_MORE

static bool shares_more(uint8_t dtype, const void *boxes, int64_t i, int64_t j, double threshold) {
    if (dtype == HN_F32)
        return shares_more_f32((const float *)boxes + 4 * i, (const float *)boxes + 4 * j,
                               threshold);
    return shares_more_f64((const double *)boxes + 4 * i, (const double *)boxes + 4 * j, threshold);
}

/* Corners on a coarse grid, so that ratios equal thresholds often; some are inside out, some are
 * not numbers. */
static void put_box(ext_random *r, uint8_t dtype, void *boxes, int64_t i) {
    double x = (double)ext_int(r, 0, 6), y = (double)ext_int(r, 0, 6),
           box[4] = {x, y, x + (double)ext_int(r, -1, 4), y + (double)ext_int(r, -1, 4)};
    if (ext_int(r, 0, 40) == 0) box[ext_int(r, 0, 3)] = NAN;
    if (ext_int(r, 0, 40) == 0) box[ext_int(r, 0, 3)] = INFINITY;
    for (int k = 0; k < 4; k++)
        if (dtype == HN_F32) ((float *)boxes)[4 * i + k] = (float)box[k];
        else ((double *)boxes)[4 * i + k] = box[k];
}

static void check_boxes(ext_random *r, uint8_t dtype, int64_t n, double threshold) {
    int64_t p[HN_NMS_PARAM_COUNT] = {n};
    uint8_t *keep = malloc((size_t)n + 1);
    void *boxes = malloc((size_t)n * 4 * ext_bytes(dtype) + 1);
    memcpy(&p[HN_NMS_THRESHOLD], &threshold, sizeof threshold);
    for (int64_t i = 0; i < n; i++) put_box(r, dtype, boxes, i);
    memset(keep, 0xee, (size_t)n + 1);
    hn_ext_call call = {.kind = HN_EXTERN_NMS,
                        .dtypes = {HN_BOOL, dtype},
                        .params = p,
                        .param_count = HN_NMS_PARAM_COUNT,
                        .threads = 2,
                        .operands = {keep, boxes}};
    EXPECT(ext_run_with(&call, &hn_ext_nms));
    EXPECT_INT(keep[n], 0xee);
    for (int64_t i = 0; i < n; i++) {
        bool want = true;
        for (int64_t j = 0; j < i; j++)
            want = want && !(keep[j] && shares_more(dtype, boxes, j, i, threshold));
        if (keep[i] != want)
            HN_TEST_FAIL("dtype %d, %lld boxes, threshold %g: box %lld is %d", dtype, (long long)n,
                         threshold, (long long)i, keep[i]);
    }
    free(keep), free(boxes);
}

TEST(random_boxes) {
    static const double thresholds[] = {0, 0.25, 1.0 / 3, 0.3, 0.5,      0.7,
                                        1, -1,   2,       NAN, INFINITY, -INFINITY};
    ext_random r = {13};
    for (int i = 0; i < 600; i++)
        check_boxes(&r, i % 2 ? HN_F32 : HN_F64, ext_int(&r, 0, i % 10 ? 30 : 300),
                    thresholds[i % 12]);
}

TEST_MAIN
