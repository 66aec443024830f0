/* test_forms.c: every form of a call gives what the reference gives, in its first runs and later
 * ones; names of forms, both ways. */
#include "ops/cpu/forms.h"
#include "ops_fixture.h"

typedef struct subject {
    hn_ext_call call;
    int64_t params[64];
    int64_t counts[HN_EXT_MAX_OPERANDS];
    float *memory[HN_EXT_MAX_OPERANDS], *expected;
} subject;

static void begin(subject *s, ext_random *r, hn_extern_kind kind) {
    s->call.kind = kind;
    s->call.param_count = hn_ext_param_count(kind);
    s->call.params = s->params;
    s->call.team = &ext_team;
    for (uint32_t i = 0; i < hn_ext_operand_count(kind); i++) {
        if (!s->counts[i]) continue;
        s->call.dtypes[i] = HN_F32;
        s->memory[i] = ext_memory(r, HN_F32, s->counts[i]);
    }
}

static void end(subject *s) {
    for (int i = 0; i < HN_EXT_MAX_OPERANDS; i++) free(s->memory[i]);
    free(s->expected);
}

/* Runs of a prepared call, each into memory that holds something else. */
static void run_often(subject *s, hn_ext_call *call, const char *name, double tolerance) {
    void *scratch =
        call->scratch_bytes ? aligned_alloc(64, (call->scratch_bytes + 63) / 64 * 64) : NULL;
    for (int i = 0; i < HN_EXT_MAX_OPERANDS; i++) call->operands[i] = s->memory[i];
    for (int run = 0; run < 3; run++) {
        for (int64_t k = 0; k < s->counts[0]; k++) s->memory[0][k] = 77;
        EXPECT_OK(hn_ext_run(call, scratch));
        for (int64_t k = 0; k < s->counts[0] && s->expected; k++)
            if (!(fabs((double)s->memory[0][k] - (double)s->expected[k]) <= tolerance)) {
                HN_TEST_FAIL("form %s, run %d: element %lld is %g, expected %g", name, run,
                             (long long)k, (double)s->memory[0][k], (double)s->expected[k]);
                break;
            }
    }
    free(scratch);
}

static void run_reference(subject *s) {
    for (int i = 0; i < HN_EXT_MAX_OPERANDS; i++) s->call.operands[i] = s->memory[i];
    EXPECT(ext_run_with(&s->call, &hn_ext_reference));
    s->expected = malloc((size_t)s->counts[0] * sizeof(float) + 1);
    memcpy(s->expected, s->memory[0], (size_t)s->counts[0] * sizeof(float));
}

static void expect_same(const hn_ext_form *a, const hn_ext_form *b) {
    EXPECT(a->rows == b->rows && a->repacks == b->repacks && a->pass == b->pass &&
           a->block == b->block && a->tasks == b->tasks);
    EXPECT(!a->kind == !b->kind && (!a->kind || strcmp(a->kind, b->kind) == 0));
}

/* How many forms there were. */
static uint32_t check_forms(subject *s, double tolerance) {
    hn_ext_expected forms[HN_EXT_FORMS_MAX];
    hn_ext_shared *shared = NULL;
    uint32_t count = 0;
    run_reference(s);
    EXPECT_OK(hn_ext_shared_create(&shared));
    for (int i = 0; i < HN_EXT_MAX_OPERANDS; i++)
        s->call.operands[i] = s->call.is_constant[i] ? s->memory[i] : NULL;
    s->call.shared = shared, s->call.state = NULL, s->call.impl = NULL;
    EXPECT_OK(hn_ext_forms_list(&s->call, forms, &count));
    for (uint32_t k = 0; k < count; k++) {
        hn_ext_call call = s->call;
        char name[HN_EXT_FORM_TEXT];
        hn_ext_form named;
        hn_ext_form_print(&forms[k].form, name);
        EXPECT_OK(hn_ext_form_parse(hn_ext_form_kind(&forms[k].form), name, &named));
        expect_same(&named, &forms[k].form);
        call.form = &named;
        EXPECT_OK(hn_ext_prepare(&call));
        call.form = NULL; /* it is of prepare alone */
        if (call.impl) run_often(s, &call, name, tolerance);
        hn_ext_release(&call);
    }
    hn_ext_shared_destroy(shared);
    return count;
}

static uint32_t check_product(ext_random *r, const int64_t sizes[4], bool has_weights,
                              bool by_columns, int threads) {
    const int64_t batch = sizes[0], m = sizes[1], n = sizes[2], k = sizes[3];
    subject s = {.counts = {batch * m * n, batch * m * k, batch * n * k}};
    int64_t *q = s.params;
    q[HN_MATMUL_M] = m, q[HN_MATMUL_N] = n, q[HN_MATMUL_K] = k;
    for (int d = 0; d < HN_EXTERN_BATCH; d++) q[HN_MATMUL_BATCH + d] = 1;
    q[HN_MATMUL_BATCH] = batch;
    q[HN_MATMUL_OUT] = m * n, q[HN_MATMUL_A] = m * k, q[HN_MATMUL_B] = n * k;
    q[HN_MATMUL_OUT + 4] = n, q[HN_MATMUL_OUT + 5] = 1;
    q[HN_MATMUL_A + 4] = k, q[HN_MATMUL_A + 5] = 1;
    q[HN_MATMUL_B + 4] = by_columns ? 1 : n, q[HN_MATMUL_B + 5] = by_columns ? k : 1;
    q[HN_MATMUL_B_CONSTANT] = has_weights;
    s.call.is_constant[2] = has_weights;
    s.call.threads = threads;
    begin(&s, r, HN_EXTERN_MATMUL);
    const uint32_t count = check_forms(&s, 1e-6 * (double)(k + 8));
    end(&s);
    return count;
}

TEST(products) {
    static const int64_t sizes[][4] = {{1, 1, 1, 1},    {1, 1, 97, 130},  {1, 3, 64, 64},
                                       {1, 7, 33, 700}, {1, 37, 50, 513}, {3, 20, 70, 65},
                                       {1, 65, 1, 40},  {5, 2, 19, 31},   {1, 130, 300, 90}};
    ext_random r = {3};
    uint32_t most = 0;
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++)
        for (int how = 0; how < 8; how++) {
            const uint32_t count = check_product(&r, sizes[k], how & 1, how & 2, how & 4 ? 3 : 1);
            if (count > most) most = count;
        }
    EXPECT(most > 12);
}

static uint32_t check_attention(ext_random *r, const int64_t *a, int threads) {
    const int64_t heads = a[0], kv = a[1], m = a[2], n = a[3], d = a[4];
    const double scale = 0.3;
    subject s = {.counts = {heads * m * d, heads * m * d, kv * n * d, kv * n * d}};
    int64_t *q = s.params;
    q[HN_ATTENTION_BATCH] = 1, q[HN_ATTENTION_BATCH + 1] = heads, q[HN_ATTENTION_KV_HEADS] = kv;
    q[HN_ATTENTION_M] = m, q[HN_ATTENTION_N] = n, q[HN_ATTENTION_D] = q[HN_ATTENTION_DV] = d;
    memcpy(&q[HN_ATTENTION_SCALE], &scale, sizeof scale);
    const int at[4] = {HN_ATTENTION_OUT, HN_ATTENTION_Q, HN_ATTENTION_K, HN_ATTENTION_V};
    for (int i = 0; i < 4; i++) {
        const int64_t rows = i < 2 ? m : n, strides[4] = {s.counts[i], rows * d, d, 1};
        memcpy(&q[at[i]], strides, sizeof strides);
    }
    s.call.threads = threads;
    begin(&s, r, HN_EXTERN_ATTENTION);
    const uint32_t count = check_forms(&s, 2e-5);
    end(&s);
    return count;
}

TEST(attention) {
    static const int64_t sizes[][5] = {{2, 2, 1, 1, 8},
                                       {4, 2, 3, 130, 16},
                                       {2, 1, 13, 70, 24},
                                       {3, 3, 65, 700, 8},
                                       {1, 1, 100, 33, 64}};
    ext_random r = {5};
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++)
        for (int threads = 1; threads < 4; threads += 2)
            EXPECT(check_attention(&r, sizes[k], threads) > 5);
}

static uint32_t check_convolution(ext_random *r, const int64_t *c) {
    const int64_t channels = c[0], outputs = c[1], groups = c[2], kernel = c[3], step = c[4],
                  side = c[5], out = (side + kernel / 2 * 2 - kernel) / step + 1,
                  inner = channels / groups;
    subject s = {
        .counts = {outputs * out * out, channels * side * side, outputs * inner * kernel * kernel}};
    int64_t *q = s.params;
    q[HN_CONV_N] = 1, q[HN_CONV_C] = channels, q[HN_CONV_O] = outputs, q[HN_CONV_GROUPS] = groups;
    for (int d = 0; d < 3; d++) {
        q[HN_CONV_IN + d] = d ? side : 1, q[HN_CONV_KERNEL + d] = d ? kernel : 1;
        q[HN_CONV_OUTSIZE + d] = d ? out : 1;
        q[HN_CONV_STRIDE + d] = d ? step : 1, q[HN_CONV_DILATION + d] = 1;
        q[HN_CONV_PADDING + d] = d ? kernel / 2 : 0;
    }
    const int64_t x[5] = {s.counts[1], side * side, side * side, side, 1},
                  w[5] = {inner * kernel * kernel, kernel * kernel, kernel * kernel, kernel, 1},
                  y[5] = {s.counts[0], out * out, out * out, out, 1};
    for (int d = 0; d < 5; d++)
        q[HN_CONV_X + d] = x[d], q[HN_CONV_W + d] = w[d], q[HN_CONV_OUT + d] = y[d];
    q[HN_CONV_W_CONSTANT] = 1;
    s.call.is_constant[2] = true;
    s.call.threads = 2;
    begin(&s, r, HN_EXTERN_CONV);
    const uint32_t count = check_forms(&s, 1e-5 * (double)(inner * kernel * kernel + 8));
    end(&s);
    return count;
}

TEST(convolutions) {
    static const int64_t sizes[][6] = {{16, 16, 1, 3, 1, 19},  {3, 20, 1, 5, 2, 23},
                                       {12, 12, 12, 3, 1, 30}, {24, 40, 1, 1, 1, 17},
                                       {8, 6, 2, 3, 2, 11},    {64, 64, 1, 3, 1, 13}};
    ext_random r = {7};
    uint32_t several = 0;
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++)
        several += check_convolution(&r, sizes[k]) > 2;
    EXPECT(several >= 3);
}

/* ---- names ---- */

TEST(names_that_are_none) {
    hn_ext_form f;
    EXPECT_ERROR(hn_ext_form_parse("fast", "", &f), HN_INVALID_ARGUMENT, "called 'fast'");
    EXPECT_ERROR(hn_ext_form_parse("gemm", "pass=0", &f), HN_INVALID_ARGUMENT, "'pass=0'");
    EXPECT_ERROR(hn_ext_form_parse("gemm", "pass=3x", &f), HN_INVALID_ARGUMENT, "'pass=3x'");
    EXPECT_ERROR(hn_ext_form_parse("gemm", "rows=", &f), HN_INVALID_ARGUMENT, "'rows='");
    EXPECT_ERROR(hn_ext_form_parse("gemm", "tasks=2 speed=9", &f), HN_INVALID_ARGUMENT,
                 "'speed=9'");
    EXPECT_OK(hn_ext_form_parse("gemm", "weights=each-call rows=packed-by-each pass=12", &f));
    EXPECT(f.repacks && f.rows == HN_EXT_ROWS_PACKED_BY_EACH && f.pass == 12);
}

/* The reference does not stand in for a form that a caller names. */
TEST(a_form_that_a_call_cannot_have) {
    const hn_ext_form form = {.kind = "winograd"};
    int64_t params[HN_MATMUL_PARAM_COUNT] = {0};
    float memory[3] = {1, 2, 3};
    hn_ext_shared *shared = NULL;
    for (int d = 0; d < HN_EXTERN_BATCH; d++) params[HN_MATMUL_BATCH + d] = 1;
    params[HN_MATMUL_M] = params[HN_MATMUL_N] = params[HN_MATMUL_K] = 1;
    hn_ext_call call = {.kind = HN_EXTERN_MATMUL,
                        .param_count = HN_MATMUL_PARAM_COUNT,
                        .params = params,
                        .dtypes = {HN_F32, HN_F32, HN_F32},
                        .operands = {&memory[0], &memory[1], &memory[2]},
                        .threads = 1,
                        .form = &form};
    EXPECT_OK(hn_ext_shared_create(&shared));
    call.shared = shared;
    EXPECT_ERROR(hn_ext_prepare(&call), HN_UNSUPPORTED, "no form 'winograd'");
    EXPECT(call.impl == NULL);
    hn_ext_shared_destroy(shared);
}

TEST_MAIN
