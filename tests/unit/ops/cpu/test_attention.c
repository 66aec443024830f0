/* test_attention.c: blocked attention against the reference: shapes, strides, masks, shared heads,
 * special values. */
#include "ops/cpu/attention/attention.h"
#include "ops_fixture.h"

typedef struct attention_case {
    int64_t p[HN_ATTENTION_PARAM_COUNT];
    uint8_t dtype, mask;
    bool mask_by_key; /* the mask repeats along the queries */
    bool special;
    int threads;
} attention_case;

static void print_case(const attention_case *c) {
    fprintf(stderr, "attention dtype %d mask %d threads %d params", c->dtype, c->mask, c->threads);
    for (int i = 0; i < HN_ATTENTION_PARAM_COUNT; i++) fprintf(stderr, " %lld", (long long)c->p[i]);
    fputc('\n', stderr);
}

/* An operand and where its memory begins, which the caller frees. */
static void *operand(ext_random *r, uint8_t dtype, const int64_t *sizes, int64_t *strides,
                     void **memory) {
    *memory = ext_memory(r, dtype, ext_random_strides(r, sizes, 4, strides));
    return ext_first(*memory, dtype, ext_random_turns(r, sizes, 4, strides));
}

static void *mask_of(ext_random *r, attention_case *c, int64_t *count) {
    int64_t *p = c->p,
            sizes[4] = {p[0], p[1], c->mask_by_key ? 1 : p[HN_ATTENTION_M], p[HN_ATTENTION_N]};
    if (!c->mask) return NULL;
    if (ext_int(r, 0, 1)) sizes[1] = 1;
    *count = ext_random_strides(r, sizes, 4, p + HN_ATTENTION_MASK);
    for (int d = 0; d < 3; d++)
        if (sizes[d] == 1) p[HN_ATTENTION_MASK + d] = 0;
    void *mask = ext_memory(r, c->mask, *count);
    for (int64_t i = 0; c->mask == HN_F32 && i < *count; i++)
        if (ext_int(r, 0, 2) == 0) ((float *)mask)[i] = -INFINITY;
    return mask;
}

/* Returns whether the implementation took it. */
static bool check(ext_random *r, attention_case *c) {
    int64_t *p = c->p, b = p[0], h = p[1], kh = p[HN_ATTENTION_KV_HEADS], m = p[HN_ATTENTION_M],
            n = p[HN_ATTENTION_N];
    int64_t d = p[HN_ATTENTION_D], dv = p[HN_ATTENTION_DV], mask_count = 0;
    double scale = 1 / sqrt((double)d + 1);
    memcpy(&p[HN_ATTENTION_SCALE], &scale, sizeof scale);
    hn_ext_call call = {.kind = HN_EXTERN_ATTENTION,
                        .dtypes = {c->dtype, c->dtype, c->dtype, c->dtype, c->mask},
                        .params = p,
                        .param_count = HN_ATTENTION_PARAM_COUNT,
                        .threads = c->threads,
                        .team = &ext_team};
    void *memory[5];
    call.operands[1] =
        operand(r, c->dtype, (int64_t[]){b, h, m, d}, p + HN_ATTENTION_Q, &memory[1]);
    call.operands[2] =
        operand(r, c->dtype, (int64_t[]){b, kh, n, d}, p + HN_ATTENTION_K, &memory[2]);
    call.operands[3] =
        operand(r, c->dtype, (int64_t[]){b, kh, n, dv}, p + HN_ATTENTION_V, &memory[3]);
    call.operands[4] = memory[4] = mask_of(r, c, &mask_count);
    /* one key of NaN and one infinite value, often hidden */
    if (c->special && n > 0 && d > 0 && dv > 0) {
        ((float *)call.operands[2])[ext_int(r, 0, n - 1) * p[HN_ATTENTION_K + 2]] = NAN;
        ((float *)call.operands[3])[ext_int(r, 0, n - 1) * p[HN_ATTENTION_V + 2]] =
            ext_int(r, 0, 1) ? INFINITY : NAN;
    }
    int64_t out_sizes[4] = {b, h, m, dv},
            count = ext_random_strides(r, out_sizes, 4, p + HN_ATTENTION_OUT);
    int64_t before = ext_random_turns(r, out_sizes, 4, p + HN_ATTENTION_OUT);
    void *want = ext_memory(r, c->dtype, count),
         *got = malloc((size_t)count * ext_bytes(c->dtype) + 1);
    memcpy(got, want, (size_t)count * ext_bytes(c->dtype));
    call.operands[0] = ext_first(want, c->dtype, before);
    EXPECT(ext_run_with(&call, &hn_ext_reference));
    call.operands[0] = ext_first(got, c->dtype, before);
    bool taken = ext_run_with(&call, &hn_ext_attention);
    /* Weights are within a few ulp, values below 1; a 16-bit result is rounded once. */
    double tolerance = c->dtype == HN_F32   ? 2e-6
                       : c->dtype == HN_F64 ? 1e-13
                       : c->dtype == HN_F16 ? 1e-3
                                            : 8e-3;
    for (int64_t i = 0; taken && i < count; i++)
        if (!ext_close(ext_get(c->dtype, got, i), ext_get(c->dtype, want, i), tolerance,
                       tolerance)) {
            HN_TEST_FAIL("element %lld is %.9g, expected %.9g", (long long)i,
                         ext_get(c->dtype, got, i), ext_get(c->dtype, want, i));
            print_case(c);
            break;
        }
    for (int i = 1; i < 5; i++) free(memory[i]);
    free(want), free(got);
    return taken;
}

static void random_cases(uint64_t seed, int cases, const uint8_t *dtypes, int dtype_count) {
    static const uint8_t masks[] = {HN_NO_TYPE, HN_NO_TYPE, HN_BOOL, HN_F32};
    ext_random r = {seed};
    for (int i = 0; i < cases; i++) {
        attention_case c = {.dtype = dtypes[i % dtype_count],
                            .mask = masks[ext_int(&r, 0, 3)],
                            .mask_by_key = ext_int(&r, 0, 1)};
        int64_t kv = ext_int(&r, 1, 3);
        c.p[0] = ext_int(&r, 0, 20) ? ext_int(&r, 1, 3) : 0;
        c.p[1] = kv * ext_int(&r, 1, 3), c.p[HN_ATTENTION_KV_HEADS] = kv;
        c.p[HN_ATTENTION_M] = ext_int(&r, 0, i % 3 ? 40 : 8),
        c.p[HN_ATTENTION_N] = ext_int(&r, 0, i % 9 ? 60 : 150);
        c.p[HN_ATTENTION_D] = ext_int(&r, 1, 70),
        c.p[HN_ATTENTION_DV] = ext_int(&r, 0, 2) ? c.p[HN_ATTENTION_D] : ext_int(&r, 0, 70);
        c.p[HN_ATTENTION_CAUSAL] = ext_int(&r, 0, 1);
        c.threads = (int)ext_int(&r, 1, 3), c.special = c.dtype == HN_F32 && i % 5 == 0;
        bool taken = check(&r, &c);
        EXPECT(taken || c.dtype == HN_F64);
    }
}

TEST(random_f32) { random_cases(1, 600, (uint8_t[]){HN_F32}, 1); }
TEST(random_other_dtypes) { random_cases(2, 150, (uint8_t[]){HN_F64, HN_F16, HN_BF16}, 3); }

/* Several blocks of keys: sums are rescaled; scores grow along the keys, so that every block has a
 * new maximum. */
TEST(many_blocks) {
    ext_random r = {3};
    for (int i = 0; i < 12; i++) {
        attention_case c = {.dtype = HN_F32,
                            .threads = 1 + i % 3,
                            .p = {1, 2, 1 + i % 2, 37, 1100 + 13 * i, 24, 20}};
        c.p[HN_ATTENTION_CAUSAL] = i & 1;
        if (i % 2) c.p[HN_ATTENTION_M] = 1100;
        if (i % 3 == 0) c.mask = HN_F32, c.mask_by_key = true;
        EXPECT(check(&r, &c));
    }
}

/* Few queries, as when text is written token by token: several ranges of keys, heads that share
 * them, every type and mask. */
TEST(few_queries) {
    static const uint8_t dtypes[] = {HN_F32, HN_F16, HN_BF16},
                         masks[] = {HN_NO_TYPE, HN_BOOL, HN_F32};
    ext_random r = {4};
    for (int i = 0; i < 90; i++) {
        attention_case c = {.dtype = dtypes[i % 3],
                            .mask = masks[i / 3 % 3],
                            .mask_by_key = i / 9 % 2,
                            .threads = 1 + i % 3};
        const int64_t kv = ext_int(&r, 1, 3),
                      n = ext_int(&r, 0, 3) ? ext_int(&r, 500, 1600) : 512 * ext_int(&r, 1, 3);
        const int64_t p[] = {ext_int(&r, 1, 2),  kv * ext_int(&r, 1, 5), kv, ext_int(&r, 1, 8), n,
                             ext_int(&r, 1, 70), ext_int(&r, 1, 70)};
        memcpy(c.p, p, sizeof p);
        c.p[HN_ATTENTION_CAUSAL] = i % 7 == 0, c.special = c.dtype == HN_F32 && i % 4 == 0;
        EXPECT(check(&r, &c));
    }
}

/* Large scores: exp must not overflow, and the weights must still sum to 1. */
TEST(large_scores) {
    float q[4] = {200, 0, -200, 300}, k[6] = {1, 2, 3, -1, -2, -3}, v[6] = {1, 2, 3, 4, 5, 6},
          out[4];
    double scale = 1;
    int64_t p[HN_ATTENTION_PARAM_COUNT] = {1, 1, 1, 4, 6, 1, 1, 0, 0, 1, 1, 0,
                                           0, 1, 1, 0, 0, 1, 1, 0, 0, 1, 1};
    memcpy(&p[HN_ATTENTION_SCALE], &scale, sizeof scale);
    hn_ext_call call = {.kind = HN_EXTERN_ATTENTION,
                        .dtypes = {HN_F32, HN_F32, HN_F32, HN_F32},
                        .params = p,
                        .threads = 1,
                        .param_count = HN_ATTENTION_PARAM_COUNT,
                        .operands = {out, q, k, v}};
    EXPECT(ext_run_with(&call, &hn_ext_attention));
    EXPECT_NEAR((double)out[0], 3, 1e-6);
    EXPECT_NEAR((double)out[1], 3.5, 1e-6);
    EXPECT_NEAR((double)out[2], 6, 1e-6);
    EXPECT_NEAR((double)out[3], 3, 1e-6);
}

TEST_MAIN
