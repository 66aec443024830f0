/* Tensors of the interpreter: memory formats and the comparison that all numeric tests report
 * with. */
#include "unit/ir/interp_cases.h"

TEST(load_and_store_every_dtype) {
    static const double values[] = {0, 1, -1, 100, -128, 127};
    for (hn_dtype dtype = 1; dtype < HN_DTYPE_COUNT; dtype++) {
        fixture f;
        begin(&f);
        uint8_t bytes[6 * 8], again[6 * 8];
        bool is_unsigned = dtype == HN_DTYPE_U8 || dtype == HN_DTYPE_BOOL;
        hn_ref_tensor t = tensor_of(&f, dtype, S(2, 3), values, 6), back;
        for (int k = 0; k < 6 && is_unsigned; k++)
            t.data.i[k] = dtype == HN_DTYPE_BOOL ? k % 2 : 40 * k;
        hn_ref_tensor_store(&t, bytes);
        EXPECT_OK(hn_ref_tensor_load(&f.arena, dtype, 2, t.sizes, NULL, bytes, &back));
        EXPECT(hn_ref_compare(&back, &t, 0, 0, NULL));
        hn_ref_tensor_store(&back, again);
        EXPECT(memcmp(bytes, again, 6u * hn_dtype_facts(dtype)->size_bytes) == 0);
        end(&f);
    }
}

TEST(stores_have_the_format) {
    fixture f;
    begin(&f);
    uint8_t bytes[16];
    hn_ref_tensor t = tensor_of(&f, HN_DTYPE_BF16, S(2), V(1, 3.01));
    hn_ref_tensor_store(&t, bytes);
    EXPECT(memcmp(bytes, "\x80\x3f\x41\x40", 4) == 0);
    t = tensor_of(&f, HN_DTYPE_F16, S(2), V(1, 1e9));
    hn_ref_tensor_store(&t, bytes);
    EXPECT(memcmp(bytes, "\x00\x3c\x00\x7c", 4) == 0);
    t = tensor_of(&f, HN_DTYPE_I16, S(1), V(-2));
    hn_ref_tensor_store(&t, bytes);
    EXPECT(memcmp(bytes, "\xfe\xff", 2) == 0);
    end(&f);
}

TEST(load_follows_strides) {
    fixture f;
    begin(&f);
    static const int32_t numbers[] = {0, 1, 2, 3, 4, 5};
    hn_ref_tensor t, want = tensor_of(&f, HN_DTYPE_I32, S(3, 2), V(0, 3, 1, 4, 2, 5));
    EXPECT_OK(hn_ref_tensor_load(&f.arena, HN_DTYPE_I32, 2, (int64_t[]){3, 2}, (int64_t[]){1, 3},
                                 numbers, &t));
    EXPECT(hn_ref_compare(&t, &want, 0, 0, NULL));
    EXPECT_OK(hn_ref_tensor_load(&f.arena, HN_DTYPE_I32, 1, (int64_t[]){3}, (int64_t[]){-2},
                                 numbers + 5, &t));
    want = tensor_of(&f, HN_DTYPE_I32, S(3), V(5, 3, 1));
    EXPECT(hn_ref_compare(&t, &want, 0, 0, NULL));
    end(&f);
}

TEST(bad_tensors_are_refused) {
    fixture f;
    begin(&f);
    hn_ref_tensor t;
    EXPECT_ERROR(hn_ref_tensor_init(&f.arena, HN_DTYPE_F32, 1, (int64_t[]){-1}, &t),
                 HN_INVALID_ARGUMENT, "negative");
    EXPECT_ERROR(hn_ref_tensor_init(&f.arena, HN_DTYPE_NONE, 0, NULL, &t), HN_INVALID_ARGUMENT,
                 "without dtype");
    EXPECT_ERROR(hn_ref_tensor_init(&f.arena, HN_DTYPE_F32, 17, (int64_t[17]){0}, &t),
                 HN_INVALID_ARGUMENT, "rank 17");
    EXPECT_ERROR(hn_ref_tensor_init(&f.arena, HN_DTYPE_F32, 2, (int64_t[]){INT64_MAX, 4}, &t),
                 HN_OUT_OF_MEMORY, "elements");
    end(&f);
}

static void expect_text(fixture *f, hn_dtype dtype, const double *actual, const double *expected,
                        size_t count, double rtol, double atol, bool fits, const char *text) {
    hn_strbuf why;
    hn_strbuf_init(&why);
    shape s = count == 4 ? S(2, 2) : (shape){1, {(int64_t)count}};
    hn_ref_tensor a = tensor_of(f, dtype, s, actual, count),
                  e = tensor_of(f, dtype, s, expected, count);
    EXPECT_INT(hn_ref_compare(&a, &e, rtol, atol, &why), fits);
    EXPECT_STR(why.ptr ? why.ptr : "", text);
    hn_strbuf_deinit(&why);
}

TEST(compare_explains) {
    fixture f;
    begin(&f);
    expect_text(
        &f, HN_DTYPE_F32, (double[]){1, 2, 3, 4.5}, (double[]){1, 2, 3, 4}, 4, 0.01, 0.01, false,
        "element [1, 1] is 4.5, expected 4; 1 of 4 elements differ (rtol 0.01, atol 0.01); max absolute "
        "error 0.5, max "
        "relative error 0.125");
    expect_text(&f, HN_DTYPE_F32, (double[]){1.5, 2}, (double[]){1, 2}, 2, 0, 0.5, true,
                "max absolute error 0.5, max relative error 0.5");
    expect_text(&f, HN_DTYPE_F32, (double[]){1.5, 2}, (double[]){1, 2}, 2, 0.25, 0.25, true,
                "max absolute error 0.5, max relative error 0.5");
    expect_text(
        &f, HN_DTYPE_I64, (double[]){5, 7}, (double[]){5, 9}, 2, 0, 0, false,
        "element [1] is 7, expected 9; 1 of 2 elements differ (rtol 0, atol 0); max absolute error 2, max "
        "relative error 0.222222");
    expect_text(&f, HN_DTYPE_F64, (double[]){NAN, INFINITY, -0.0}, (double[]){NAN, INFINITY, 0}, 3,
                0, 0, true, "max absolute error 0, max relative error 0");
    expect_text(
        &f, HN_DTYPE_F64, (double[]){1, 2, 3}, (double[]){NAN, INFINITY, -INFINITY}, 3, 1, 1, false,
        "element [0] is 1, expected nan; 3 of 3 elements differ (rtol 1, atol 1); max absolute error inf, "
        "max relative error inf");
    expect_text(
        &f, HN_DTYPE_F64, (double[]){INFINITY}, (double[]){-INFINITY}, 1, 1, 1, false,
        "element [0] is inf, expected -inf; 1 of 1 elements differ (rtol 1, atol 1); max absolute error inf, "
        "max relative error inf");
    expect_text(
        &f, HN_DTYPE_F64, (double[]){0.5}, (double[]){0}, 1, 1, 0.25, false,
        "element [0] is 0.5, expected 0; 1 of 1 elements differ (rtol 1, atol 0.25); max absolute error 0.5, "
        "max relative error inf");
    end(&f);
}

TEST(compare_wants_equal_metas) {
    fixture f;
    begin(&f);
    hn_strbuf why;
    hn_strbuf_init(&why);
    hn_ref_tensor a = tensor_of(&f, HN_DTYPE_F32, S(2, 3), V(0, 0, 0, 0, 0, 0)),
                  b = tensor_of(&f, HN_DTYPE_F64, S(2, 3), V(0, 0, 0, 0, 0, 0));
    hn_ref_tensor c = tensor_of(&f, HN_DTYPE_F32, S(6), V(0, 0, 0, 0, 0, 0));
    EXPECT(!hn_ref_compare(&a, &b, 0, 0, &why));
    EXPECT_STR(why.ptr, "is f32[2, 3], expected f64[2, 3]");
    EXPECT(!hn_ref_compare(&a, &c, 0, 0, NULL));
    hn_strbuf_deinit(&why);
    end(&f);
}

TEST(compare_of_far_integers) {
    fixture f;
    begin(&f);
    hn_ref_tensor a = tensor_of(&f, HN_DTYPE_I64, S(1), V(0)), b = a;
    b.data.i = (int64_t[]){INT64_MIN};
    a.data.i = (int64_t[]){INT64_MAX};
    EXPECT(!hn_ref_compare(&a, &b, 0, 1e18, NULL));
    b.data.i[0] = INT64_MAX - 1; /* equal as doubles */
    EXPECT(!hn_ref_compare(&a, &b, 0, 0, NULL));
    end(&f);
}

TEST_MAIN
