/* test_attention_backward.c: gradients of attention in blocks against plain loops: shapes, strides,
 * masks, shared heads, special values, threads; and the plain loops against differences of
 * attention itself. */
#include "ops/cpu/attention/attention.h"
#include "ops/cpu/attention/backward.h"
#include "ops_fixture.h"

enum {
    RESULTS = 3,
    GRAD = HN_EXT_BACKWARD_GRAD,
    Q = HN_EXT_BACKWARD_Q,
    K = HN_EXT_BACKWARD_K,
    V = HN_EXT_BACKWARD_V,
    OUT = HN_EXT_BACKWARD_OUT,
    MASK = HN_EXT_BACKWARD_MASK,
    OPERANDS = HN_EXT_BACKWARD_OPERANDS
};

static const uint8_t strides_at[OPERANDS] = {
    HN_ATTENTION_BACKWARD_D_Q,  HN_ATTENTION_BACKWARD_D_K, HN_ATTENTION_BACKWARD_D_V,
    HN_ATTENTION_BACKWARD_GRAD, HN_ATTENTION_BACKWARD_Q,   HN_ATTENTION_BACKWARD_K,
    HN_ATTENTION_BACKWARD_V,    HN_ATTENTION_BACKWARD_OUT, HN_ATTENTION_BACKWARD_MASK};

typedef struct gradient_case {
    int64_t p[HN_ATTENTION_BACKWARD_PARAM_COUNT];
    uint8_t dtype, mask;
    bool mask_by_key; /* the mask repeats along the queries */
    bool special, hides_rows;
    int threads;
} gradient_case;

static void print_case(const gradient_case *c) {
    fprintf(stderr, "dtype %d mask %d threads %d params", c->dtype, c->mask, c->threads);
    for (int i = 0; i < HN_ATTENTION_BACKWARD_PARAM_COUNT; i++)
        fprintf(stderr, " %lld", (long long)c->p[i]);
    fputc('\n', stderr);
}

static void sizes_of(const int64_t *p, int operand, int64_t out[4]) {
    const bool of_keys = operand == K || operand == V || operand == HN_EXT_BACKWARD_D_K ||
                         operand == HN_EXT_BACKWARD_D_V;
    const bool wide = operand == Q || operand == K || operand == HN_EXT_BACKWARD_D_Q ||
                      operand == HN_EXT_BACKWARD_D_K;
    out[0] = p[0], out[1] = of_keys ? p[HN_ATTENTION_KV_HEADS] : p[1];
    out[2] = of_keys ? p[HN_ATTENTION_N] : p[HN_ATTENTION_M];
    out[3] = wide ? p[HN_ATTENTION_D] : p[HN_ATTENTION_DV];
    if (operand == MASK) out[3] = p[HN_ATTENTION_N];
}

/* A call with random operands, and what it owns. */
typedef struct problem {
    gradient_case *c;
    hn_ext_call call;
    void *memory[OPERANDS];
    int64_t counts[OPERANDS], before[RESULTS]; /* elements; those in front of the first one */
} problem;

static void make_mask(ext_random *r, problem *x) {
    gradient_case *c = x->c;
    int64_t *p = c->p, *strides = p + HN_ATTENTION_BACKWARD_MASK, sizes[4];
    sizes_of(p, MASK, sizes);
    if (c->mask_by_key) sizes[2] = 1;
    if (ext_int(r, 0, 1)) sizes[1] = 1;
    x->counts[MASK] = ext_random_strides(r, sizes, 4, strides);
    for (int d = 0; d < 3; d++)
        if (sizes[d] == 1) strides[d] = 0;
    x->call.operands[MASK] = x->memory[MASK] = ext_memory(r, c->mask, x->counts[MASK]);
    for (int64_t i = 0; c->mask == HN_F32 && i < x->counts[MASK]; i++)
        if (c->hides_rows || ext_int(r, 0, 2) == 0) ((float *)x->memory[MASK])[i] = -INFINITY;
    if (c->mask == HN_BOOL && c->hides_rows) memset(x->memory[MASK], 0, (size_t)x->counts[MASK]);
}

/* The result of the attention itself. */
static void find_out(problem *x) {
    const int64_t *p = x->c->p;
    int64_t params[HN_ATTENTION_PARAM_COUNT];
    memcpy(params, p, 7 * sizeof *p);
    for (int k = 0; k < 4; k++) {
        params[HN_ATTENTION_Q + k] = p[HN_ATTENTION_BACKWARD_Q + k];
        params[HN_ATTENTION_K + k] = p[HN_ATTENTION_BACKWARD_K + k];
        params[HN_ATTENTION_V + k] = p[HN_ATTENTION_BACKWARD_V + k];
        params[HN_ATTENTION_OUT + k] = p[HN_ATTENTION_BACKWARD_OUT + k];
        params[HN_ATTENTION_MASK + k] = p[HN_ATTENTION_BACKWARD_MASK + k];
    }
    params[HN_ATTENTION_CAUSAL] = p[HN_ATTENTION_BACKWARD_CAUSAL];
    params[HN_ATTENTION_SCALE] = p[HN_ATTENTION_BACKWARD_SCALE];
    const uint8_t t = x->c->dtype;
    hn_ext_call call = {.kind = HN_EXTERN_ATTENTION,
                        .dtypes = {t, t, t, t, x->call.dtypes[MASK]},
                        .params = params,
                        .param_count = HN_ATTENTION_PARAM_COUNT,
                        .threads = 1,
                        .operands = {x->call.operands[OUT], x->call.operands[Q],
                                     x->call.operands[K], x->call.operands[V],
                                     x->call.operands[MASK]}};
    EXPECT(ext_run_with(&call, &hn_ext_reference));
}

static void problem_init(ext_random *r, gradient_case *c, problem *x) {
    const double scale = 1 / sqrt((double)c->p[HN_ATTENTION_D] + 1);
    *x = (problem){.c = c,
                   .call = {.kind = HN_EXTERN_ATTENTION_BACKWARD,
                            .params = c->p,
                            .param_count = HN_ATTENTION_BACKWARD_PARAM_COUNT,
                            .threads = c->threads,
                            .team = &ext_team}};
    memcpy(&c->p[HN_ATTENTION_BACKWARD_SCALE], &scale, sizeof scale);
    for (int k = 0; k < MASK; k++) {
        int64_t sizes[4], *strides = c->p + strides_at[k];
        sizes_of(c->p, k, sizes);
        x->call.dtypes[k] = c->dtype;
        x->counts[k] = ext_random_strides(r, sizes, 4, strides);
        const int64_t before = ext_random_turns(r, sizes, 4, strides);
        if (k < RESULTS) x->before[k] = before;
        x->memory[k] = ext_memory(r, c->dtype, x->counts[k]);
        x->call.operands[k] = ext_first(x->memory[k], c->dtype, before);
    }
    x->call.dtypes[MASK] = c->mask;
    if (c->mask) make_mask(r, x);
}

/* One element of each: often hidden, or of a weight that is not 0. */
static void put_special(ext_random *r, problem *x) {
    static const uint8_t where[] = {GRAD, Q, K, V};
    for (int k = 0; k < 4; k++) {
        int64_t sizes[4];
        sizes_of(x->c->p, where[k], sizes);
        if (ext_int(r, 0, 2) || sizes[0] * sizes[1] * sizes[2] * sizes[3] == 0) continue;
        float *row = (float *)x->call.operands[where[k]] +
                     ext_int(r, 0, sizes[2] - 1) * x->c->p[strides_at[where[k]] + 2];
        *row = ext_int(r, 0, 1) ? NAN : INFINITY;
    }
}

static void problem_deinit(problem *x) {
    for (int k = 0; k < OPERANDS; k++) free(x->memory[k]);
}

/* Runs into copies of the results' memory, which the caller frees. Returns whether it was taken. */
static bool run_into(const problem *x, const hn_ext_impl *impl, int threads, void *out[RESULTS]) {
    hn_ext_call call = x->call;
    call.threads = threads;
    for (int k = 0; k < RESULTS; k++) {
        const size_t bytes = (size_t)x->counts[k] * ext_bytes(x->c->dtype);
        out[k] = malloc(bytes + 1);
        memcpy(out[k], x->memory[k], bytes);
        call.operands[k] = ext_first(out[k], x->c->dtype, x->before[k]);
    }
    return ext_run_with(&call, impl);
}

static void compare(const problem *x, void *const got[RESULTS], void *const want[RESULTS]) {
    /* Weights are within a few ulp, and sums of a few hundred products below 1; a 16-bit result is
     * rounded once. */
    const double tolerance = x->c->dtype == HN_F32 ? 4e-6 : x->c->dtype == HN_F16 ? 1e-3 : 8e-3;
    for (int k = 0; k < RESULTS; k++)
        for (int64_t i = 0; i < x->counts[k]; i++) {
            const double a = ext_get(x->c->dtype, got[k], i), b = ext_get(x->c->dtype, want[k], i);
            if (ext_close(a, b, tolerance, tolerance)) continue;
            HN_TEST_FAIL("element %lld of result %d is %.9g, expected %.9g", (long long)i, k, a, b);
            print_case(x->c);
            return;
        }
}

static void free_results(void *of[RESULTS]) {
    for (int k = 0; k < RESULTS; k++) free(of[k]);
}

static void check(ext_random *r, gradient_case *c) {
    problem x;
    void *want[RESULTS], *got[RESULTS], *again[RESULTS];
    problem_init(r, c, &x);
    find_out(&x);
    if (c->special) put_special(r, &x);
    EXPECT(run_into(&x, &hn_ext_reference, 1, want));
    EXPECT(run_into(&x, &hn_ext_attention_backward, c->threads, got));
    EXPECT(run_into(&x, &hn_ext_attention_backward, c->threads % 3 + 1, again));
    compare(&x, got, want);
    for (int k = 0; k < RESULTS; k++)
        EXPECT(memcmp(got[k], again[k], (size_t)x.counts[k] * ext_bytes(c->dtype)) == 0);
    free_results(want), free_results(got), free_results(again);
    problem_deinit(&x);
}

static void random_cases(uint64_t seed, int cases, const uint8_t *dtypes, int dtype_count) {
    static const uint8_t masks[] = {HN_NO_TYPE, HN_NO_TYPE, HN_BOOL, HN_F32, HN_F64};
    ext_random r = {seed};
    for (int i = 0; i < cases; i++) {
        gradient_case c = {.dtype = dtypes[i % dtype_count],
                           .mask = masks[ext_int(&r, 0, 4)],
                           .mask_by_key = ext_int(&r, 0, 1)};
        const int64_t kv = ext_int(&r, 1, 3);
        c.p[0] = ext_int(&r, 0, 20) ? ext_int(&r, 1, 2) : 0;
        c.p[1] = ext_int(&r, 0, 20) ? kv * ext_int(&r, 1, 3) : 0;
        c.p[HN_ATTENTION_KV_HEADS] = kv;
        c.p[HN_ATTENTION_M] = ext_int(&r, 0, i % 3 ? 75 : 150);
        c.p[HN_ATTENTION_N] = ext_int(&r, 0, i % 5 ? 60 : 150);
        c.p[HN_ATTENTION_D] = ext_int(&r, 1, 70);
        c.p[HN_ATTENTION_DV] = ext_int(&r, 0, 2) ? c.p[HN_ATTENTION_D] : ext_int(&r, 0, 70);
        c.p[HN_ATTENTION_BACKWARD_CAUSAL] = ext_int(&r, 0, 1);
        c.threads = (int)ext_int(&r, 1, 3), c.special = c.dtype == HN_F32 && i % 4 == 0;
        c.hides_rows = i % 11 == 0;
        check(&r, &c);
    }
}

TEST(random_f32) { random_cases(1, 240, (uint8_t[]){HN_F32}, 1); }
TEST(random_narrow) { random_cases(2, 60, (uint8_t[]){HN_F16, HN_BF16}, 2); }

/* Sums of weights of several blocks; few heads, whose blocks are tasks of their own for more than
 * one thread, and many. */
TEST(many_blocks) {
    ext_random r = {3};
    for (int i = 0; i < 10; i++) {
        gradient_case c = {.dtype = HN_F32,
                           .threads = 1 + i % 3,
                           .p = {1, i % 4 < 2 ? 2 : 12, 1, 70, 1040 + 13 * i, 9, 7}};
        if (i % 2) c.p[HN_ATTENTION_KV_HEADS] = c.p[1];
        if (i % 5 == 0) c.p[HN_ATTENTION_M] = 1100;
        c.p[HN_ATTENTION_BACKWARD_CAUSAL] = i % 5 == 0 || i % 3 == 0;
        if (i % 3 == 1) c.mask = HN_F32, c.mask_by_key = i % 2, c.hides_rows = i == 13;
        c.special = i % 7 == 6;
        check(&r, &c);
    }
}

/* A query that sees no key has no gradient, and gives keys none. */
TEST(hidden_rows_are_zero) {
    ext_random r = {4};
    gradient_case c = {.dtype = HN_F32,
                       .mask = HN_BOOL,
                       .hides_rows = true,
                       .threads = 2,
                       .p = {1, 2, 2, 5, 37, 8, 8}};
    problem x;
    void *got[RESULTS];
    problem_init(&r, &c, &x);
    EXPECT(run_into(&x, &hn_ext_attention_backward, 2, got));
    for (int k = 0; k < RESULTS; k++) {
        int64_t sizes[4];
        const int64_t *s = c.p + strides_at[k];
        sizes_of(c.p, k, sizes);
        for (int64_t i = 0; i < sizes[1] * sizes[2] * sizes[3]; i++)
            EXPECT(((float *)got[k])[x.before[k] + i / sizes[2] / sizes[3] * s[1] +
                                     i / sizes[3] % sizes[2] * s[2] + i % sizes[3] * s[3]] == 0);
    }
    free_results(got);
    problem_deinit(&x);
}

/* ---- the plain loops ---- */

/* sum(grad * out), where the gradients are those of this number. */
static double loss_of(problem *x) {
    const int64_t *g = x->c->p + HN_ATTENTION_BACKWARD_GRAD,
                  *o = x->c->p + HN_ATTENTION_BACKWARD_OUT;
    int64_t sizes[4];
    double sum = 0;
    find_out(x);
    sizes_of(x->c->p, OUT, sizes);
    for (int64_t b = 0; b < sizes[0]; b++)
        for (int64_t h = 0; h < sizes[1]; h++)
            for (int64_t i = 0; i < sizes[2]; i++)
                for (int64_t c = 0; c < sizes[3]; c++)
                    sum += ((double *)
                                x->call.operands[GRAD])[b * g[0] + h * g[1] + i * g[2] + c * g[3]] *
                           ((double *)
                                x->call.operands[OUT])[b * o[0] + h * o[1] + i * o[2] + c * o[3]];
    return sum;
}

/* Every element of q, k and v is moved a little both ways. */
static void check_differences(ext_random *r, gradient_case *c) {
    const double step = 1e-5;
    problem x;
    void *got[RESULTS];
    problem_init(r, c, &x);
    find_out(&x);
    EXPECT(run_into(&x, &hn_ext_reference, 1, got));
    for (int k = 0; k < RESULTS; k++) {
        const int64_t *from = c->p + strides_at[Q + k], *to = c->p + strides_at[k];
        int64_t sizes[4];
        sizes_of(c->p, k, sizes);
        for (int64_t i = 0; i < sizes[0] * sizes[1] * sizes[2] * sizes[3]; i++) {
            const int64_t at[4] = {i / sizes[3] / sizes[2] / sizes[1],
                                   i / sizes[3] / sizes[2] % sizes[1], i / sizes[3] % sizes[2],
                                   i % sizes[3]};
            int64_t read = 0, written = x.before[k];
            for (int d = 0; d < 4; d++) read += at[d] * from[d], written += at[d] * to[d];
            double *value = (double *)x.call.operands[Q + k] + read;
            const double old = *value;
            *value = old + step;
            const double above = loss_of(&x);
            *value = old - step;
            const double below = loss_of(&x);
            *value = old;
            EXPECT_NEAR(((double *)got[k])[written], (above - below) / (2 * step), 1e-8);
        }
    }
    free_results(got);
    problem_deinit(&x);
}

TEST(plain_loops_are_derivatives) {
    static const uint8_t masks[] = {HN_NO_TYPE, HN_BOOL, HN_F64};
    ext_random r = {5};
    for (int i = 0; i < 12; i++) {
        gradient_case c = {.dtype = HN_F64,
                           .mask = masks[i % 3],
                           .p = {1 + i % 2, 4, i % 2 ? 2 : 4, 1 + i % 5, 1 + i % 7, 3, 2 + i % 3}};
        c.p[HN_ATTENTION_BACKWARD_CAUSAL] = i % 2;
        check_differences(&r, &c);
    }
}

/* f64 has no other way. */
TEST(f64_is_declined) {
    ext_random r = {6};
    gradient_case c = {.dtype = HN_F64, .threads = 1, .p = {1, 1, 1, 3, 3, 2, 2}};
    problem x;
    void *got[RESULTS];
    problem_init(&r, &c, &x);
    EXPECT(!run_into(&x, &hn_ext_attention_backward, 1, got));
    free_results(got);
    problem_deinit(&x);
}

TEST_MAIN
