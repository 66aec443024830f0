/* test_sort.c: sort and top-k against the reference, which both are stable: equal results, bit for
 * bit. */
#include "ops/cpu/sort/sort.h"
#include "ops_fixture.h"

static const uint8_t dtypes[] = {HN_F32, HN_F64, HN_F16, HN_BF16, HN_I64,
                                 HN_I32, HN_I16, HN_I8,  HN_U8,   HN_BOOL};

static void spoil(ext_random *r, uint8_t dtype, void *x, int64_t count) {
    static const float special[] = {NAN, INFINITY, -INFINITY, 0.0f, -0.0f, 1e-42f};
    for (int64_t i = 0; i < count / 4; i++) {
        int64_t at = ext_int(r, 0, count - 1);
        float f = special[ext_int(r, 0, 5)];
        if (dtype == HN_F32) ((float *)x)[at] = ext_int(r, 0, 3) ? f : -f;
        if (dtype == HN_F64) ((double *)x)[at] = (double)f;
        if (dtype == HN_F16) ((uint16_t *)x)[at] = (uint16_t)ext_next(r);
        if (dtype == HN_BF16) ((uint16_t *)x)[at] = (uint16_t)ext_next(r);
        if (dtype == HN_I64) ((int64_t *)x)[at] = ext_int(r, 0, 1) ? INT64_MIN : INT64_MAX;
        if (dtype == HN_I32) ((int32_t *)x)[at] = ext_int(r, 0, 1) ? INT32_MIN : INT32_MAX;
    }
}

static void check(ext_random *r, uint8_t dtype, int64_t outer, int64_t n, int64_t inner, int64_t k,
                  bool topk, bool few_values) {
    int64_t p[HN_SORT_PARAM_COUNT] = {outer, n, inner, topk ? k : n, ext_int(r, 0, 1), 1},
            count = outer * n * inner;
    int64_t out = outer * p[HN_SORT_K] * inner;
    size_t bytes = ext_bytes(dtype), values_bytes = (size_t)out * bytes,
           indices_bytes = (size_t)out * 8;
    hn_ext_call call = {.kind = topk ? HN_EXTERN_TOPK : HN_EXTERN_SORT,
                        .dtypes = {dtype, HN_I64, dtype},
                        .params = p,
                        .param_count = HN_SORT_PARAM_COUNT,
                        .threads = (int)ext_int(r, 1, 3),
                        .team = &ext_team};
    char *x = ext_memory(r, dtype, count);
    if (count > 0) spoil(r, dtype, x, count);
    for (int64_t i = 3; few_values && i < count; i++)
        memcpy(x + (size_t)i * bytes, x + (size_t)(i % 3) * bytes, bytes);
    char *values[2] = {malloc(values_bytes + 1), malloc(values_bytes + 1)};
    char *indices[2] = {malloc(indices_bytes + 1), malloc(indices_bytes + 1)};
    const hn_ext_impl *impls[2] = {&hn_ext_reference, &hn_ext_sort};
    for (int i = 0; i < 2; i++) {
        call.operands[0] = values[i], call.operands[1] = indices[i], call.operands[2] = x;
        EXPECT(ext_run_with(&call, impls[i]));
    }
    if (memcmp(values[0], values[1], values_bytes) != 0 ||
        memcmp(indices[0], indices[1], indices_bytes) != 0)
        HN_TEST_FAIL(
            "dtype %d, %lld x %lld x %lld, k %lld, topk %d, descending %lld: results differ", dtype,
            (long long)outer, (long long)n, (long long)inner, (long long)p[HN_SORT_K], topk,
            (long long)p[HN_SORT_DESCENDING]);
    free(x);
    for (int i = 0; i < 2; i++) free(values[i]), free(indices[i]);
}

static void random_cases(uint64_t seed, bool topk) {
    ext_random r = {seed};
    for (int i = 0; i < 600; i++) {
        int64_t n = ext_int(&r, 0, i % 10 ? 70 : 900);
        check(&r, dtypes[i % 10], ext_int(&r, 0, 4), n, ext_int(&r, 0, 2) ? 1 : ext_int(&r, 0, 5),
              ext_int(&r, 0, n), topk, i % 7 == 0);
    }
}

TEST(random_sort) { random_cases(1, false); }
TEST(random_topk) { random_cases(2, true); }

/* Long rows: radix; the buffer of top-k fills many times. */
TEST(long_rows) {
    ext_random r = {3};
    for (int i = 0; i < 10; i++) {
        check(&r, dtypes[i], 2, 20000, 1, 0, false, i % 3 == 0);
        check(&r, dtypes[i], 2, 20000, 1, 1 + 300 * (i % 4), true, i % 3 == 0);
    }
}

/* Rows of nothing but the last of all keys: NaN, the largest or the smallest number. */
TEST(rows_of_the_last_key) {
    static const int64_t last[] = {INT64_MIN, INT64_MAX};
    for (int kind = 0; kind < 3; kind++) {
        enum { N = 3000, TOP = 7 };
        static int64_t x[N];
        int64_t values[TOP], indices[TOP], p[HN_SORT_PARAM_COUNT] = {1, N, 1, TOP, kind == 1, 1};
        const double nan = NAN;
        for (int64_t i = 0; i < N; i++)
            memcpy(&x[i], kind == 0 ? (const void *)&nan : (const void *)&last[kind - 1],
                   sizeof *x);
        hn_ext_call call = {.kind = HN_EXTERN_TOPK,
                            .dtypes = {kind ? HN_I64 : HN_F64, HN_I64, kind ? HN_I64 : HN_F64},
                            .params = p,
                            .param_count = HN_SORT_PARAM_COUNT,
                            .threads = 1,
                            .operands = {values, indices, x}};
        EXPECT(ext_run_with(&call, &hn_ext_sort));
        for (int64_t i = 0; i < TOP; i++) EXPECT(indices[i] == i && values[i] == x[0]);
    }
}

TEST_MAIN
