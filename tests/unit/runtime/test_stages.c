/* test_stages.c: sizes that only the data tells: definitions, slots, outputs, checks, conditionals,
 * threads. */
#include "unit/runtime/module_fixture.h"

#include <pthread.h>

#define ONES15 "1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1"

/* y = x[m], and how many */
#define CHOOSE(range)                                                                                          \
    "symbol size s0 in [0, 4096] hint 8 symbol data u0 in " range " "                                          \
    "buffer b1 : input bool[s0] source 0 buffer b2 : input f32[s0] source 1 buffer b3 : temp i64[1] bytes(8) " \
    "buffer b4 : temp i64[u0] bytes(8*u0) buffer b5 : output f32[u0] bytes(4*u0) " KERNELS                     \
    "input \"m\" : bool[s0] strides [1] in b1 input \"x\" : f32[s0] strides [1] in b2 "                        \
    "call k7(b1 bool, out b3 i64) params [s0] extent(1) "                                                      \
    "define(b3 i64) symbol(u0) origin 1 "                                                                      \
    "extern nonzero(out b4 i64, b1 bool) params [u0, 1, s0, " ONES15 "] "                                      \
    "call k3(b2 f32, b4 i64, out b5 f32) params [s0] extent(u0) grain 16 "                                     \
    "output tensor \"y\" : f32[u0] strides [1] in b5 output scalar \"n\" : int(2*u0 + 1)"

/* Mask number `which` of n elements; how many are true. */
static int64_t make_mask(uint8_t *m, int64_t n, uint32_t which) {
    int64_t count = 0;
    for (int64_t i = 0; i < n; i++) count += m[i] = which && (uint32_t)i % which == 0;
    return count;
}

static void check_choice(hn_module *m, int64_t n, uint32_t which) {
    uint8_t mask[512];
    float x[512];
    int64_t count = make_mask(mask, n, which), at = 0;
    for (int64_t i = 0; i < n; i++) x[i] = (float)i;
    hn_tensor *in[2] = {tensor_of(HN_BOOL, 1, &n, NULL, mask), F32(x, n)}, *out[2] = {NULL};
    EXPECT_OK(hn_module_run(m, in, 2, out, 2));
    if (out[0] && out[1]) {
        EXPECT_INT(hn_tensor_sizes(out[0])[0], count);
        EXPECT_INT(*(int64_t *)hn_tensor_data(out[1]), 2 * count + 1);
        for (int64_t i = 0; i < n; i++)
            if (mask[i]) EXPECT(((float *)hn_tensor_data(out[0]))[at++] == x[i]);
    }
    for (int k = 0; k < 2; k++) hn_tensor_release(in[k]), hn_tensor_release(out[k]);
}

static void check_choices(const char *text) {
    hn_module *m = load_text(text, NULL);
    static const int64_t sizes[] = {7, 500, 0, 64, 7, 1};
    for (uint32_t k = 0; m && k < 6; k++)
        for (uint32_t which = 0; which < 5; which++) check_choice(m, sizes[k], which);
    hn_module_release(m);
}

TEST(sizes_from_data_in_slots) { check_choices(CHOOSE("[0, none]")); }
TEST(sizes_from_data_with_a_small_bound) { check_choices(CHOOSE("[0, 600]")); }

TEST(values_out_of_range_name_the_node) {
    hn_module *m = load_text(CHOOSE("[1, 3]"), NULL);
    uint8_t mask[5] = {1, 1, 1, 1, 0};
    float x[5] = {0};
    int64_t n = 5;
    hn_tensor *in[2] = {tensor_of(HN_BOOL, 1, &n, NULL, mask), F32(x, 5)}, *out[2] = {NULL};
    EXPECT_ERROR(
        hn_module_run(m, in, 2, out, 2), HN_INVALID_ARGUMENT,
        "node 'node_one' (model.py:12): u0, which depends on data, is 4, must be at most 3");
    memset(mask, 0, sizeof mask);
    EXPECT_ERROR(hn_module_run(m, in, 2, out, 2), HN_INVALID_ARGUMENT, "is 0, must be at least 1");
    EXPECT(!out[0] && !out[1]);
    hn_tensor_release(in[0]), hn_tensor_release(in[1]);
    hn_module_release(m);
}

TEST(given_outputs_are_checked_when_their_size_is_known) {
    hn_module *m = load_text(CHOOSE("[0, none]"), NULL);
    uint8_t mask[4] = {0, 1, 1, 0};
    float x[4] = {1, 2, 3, 4}, y[3] = {0};
    int64_t n = 4;
    hn_tensor *in[2] = {tensor_of(HN_BOOL, 1, &n, NULL, mask), F32(x, 4)},
              *out[2] = {F32(y, 2), NULL};
    EXPECT_OK(hn_module_run(m, in, 2, out, 2));
    EXPECT(y[0] == 2 && y[1] == 3);
    hn_tensor_release(out[0]), hn_tensor_release(out[1]), out[1] = NULL;
    out[0] = F32(y, 3);
    EXPECT_ERROR(hn_module_run(m, in, 2, out, 2), HN_INVALID_ARGUMENT,
                 "has size 3 in dimension 0, the result has 2");
    hn_tensor_release(out[0]);
    hn_tensor_release(in[0]), hn_tensor_release(in[1]);
    hn_module_release(m);
}

/* Two numbers, the second at most the first; temporaries take turns in slots, copied one to the
 * next. */
static const char *const two_numbers =
    "symbol data u0 in [0, none] symbol data u1 in [-5, none] guard u1 <= u0 \"never more\" "
    "buffer b1 : input f32[8] source 0 buffer b2 : input i64[] source 1 buffer b3 : input i32[] source 2 "
    "buffer b4 : temp f32[u0] bytes(4*u0) buffer b5 : temp f32[u0] bytes(4*u0) buffer b6 : temp f32[u0] bytes(4*u0) "
    "buffer b7 : output f32[u0] bytes(4*u0) buffer b8 : output f32[u1 + 5] bytes(4*u1 + 20) " KERNELS
    "input \"x\" : f32[8] strides [1] in b1 input \"n\" : i64[] strides [] in b2 input \"k\" : i32[] strides [] in b3 "
    "define(b2 i64) symbol(u0) origin 1 "
    "call k4(b1 f32, out b4 f32) extent(u0) call k4(b4 f32, out b5 f32) extent(u0) "
    "call k4(b5 f32, out b6 f32) extent(u0) call k4(b6 f32, out b7 f32) extent(u0) "
    "define(b3 i32) symbol(u1) origin 1 "
    "copy b8 from b1 "
    "output tensor \"y\" : f32[u0] strides [1] in b7 output tensor \"z\" : f32[u1 + 5] strides [1] in b8";

static hn_status run_two(hn_module *m, int64_t n, int32_t k, hn_tensor **out) {
    float x[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    hn_tensor *in[3] = {F32(x, 8), tensor_of(HN_I64, 0, NULL, NULL, &n),
                        tensor_of(HN_I32, 0, NULL, NULL, &k)};
    out[0] = out[1] = NULL;
    hn_status status = hn_module_run(m, in, 3, out, 2);
    for (int i = 0; i < 3; i++) hn_tensor_release(in[i]);
    return status;
}

TEST(several_numbers) {
    hn_module *m = load_text(two_numbers, NULL);
    hn_tensor *out[2];
    for (int64_t n = 0; m && n <= 8; n++) {
        for (int32_t k = -5; k <= 3 && k <= n; k++) {
            EXPECT_OK(run_two(m, n, k, out));
            if (!out[0] || !out[1]) return;
            EXPECT_INT(hn_tensor_sizes(out[0])[0], n);
            EXPECT_INT(hn_tensor_sizes(out[1])[0], k + 5);
            for (int64_t i = 0; i < n; i++)
                EXPECT(((float *)hn_tensor_data(out[0]))[i] == 16 * (float)(i + 1));
            for (int32_t i = 0; i < k + 5; i++)
                EXPECT(((float *)hn_tensor_data(out[1]))[i] == (float)(i + 1));
            hn_tensor_release(out[0]), hn_tensor_release(out[1]);
        }
    }
    EXPECT_ERROR(run_two(m, 2, 3, out), HN_INVALID_ARGUMENT,
                 "breaks the constraint u1 <= u0: u1 is 3, u0 is 2 (never more)");
    EXPECT_ERROR(run_two(m, -1, 0, out), HN_INVALID_ARGUMENT,
                 "u0, which depends on data, is -1, must be at least 0");
    hn_module_release(m);
}

TEST(sizes_that_no_memory_holds) {
    hn_module *m = load_text(two_numbers, NULL);
    hn_tensor *out[2];
    EXPECT_ERROR(run_two(m, INT64_MAX, 0, out), HN_INVALID_ARGUMENT, "4*u0 cannot be computed");
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) /* their allocators abort */
    EXPECT_ERROR(run_two(m, INT64_MAX / 8, 0, out), HN_OUT_OF_MEMORY, "no memory");
#endif
    EXPECT_OK(run_two(m, 3, 0, out)); /* the module is as good as before */
    hn_tensor_release(out[0]), hn_tensor_release(out[1]);
    hn_module_release(m);
}

TEST(a_second_definition_must_agree) {
    hn_module *m = load_text(
        "symbol data u0 in [0, none] buffer b1 : input i64[] source 0 buffer b2 : input bool[] source 1 " KERNELS
        "input \"n\" : i64[] strides [] in b1 input \"k\" : bool[] strides [] in b2 "
        "define(b1 i64) symbol(u0) define(b2 bool) symbol(u0) origin 1 output scalar \"n\" : int(u0)",
        NULL);
    int64_t n = 1;
    uint8_t k = 1;
    hn_tensor *in[2] = {tensor_of(HN_I64, 0, NULL, NULL, &n),
                        tensor_of(HN_BOOL, 0, NULL, NULL, &k)},
              *out[1] = {NULL};
    EXPECT_OK(hn_module_run(m, in, 2, out, 1));
    hn_tensor_release(out[0]), out[0] = NULL, n = 2;
    EXPECT_ERROR(hn_module_run(m, in, 2, out, 1), HN_INVALID_ARGUMENT,
                 "u0 is 1 here, but was 2 before");
    hn_tensor_release(in[0]), hn_tensor_release(in[1]);
    hn_module_release(m);
}

/* A call of the runtime whose sizes change from run to run with nothing but the data. */
TEST(sizes_of_calls_follow_the_data) {
    hn_module *m = load_text(
        "symbol data u0 in [0, 64] buffer b1 : input f32[8] source 0 buffer b2 : input i64[] source 1 buffer b3 : output f32[u0] bytes(4*u0) "
        "buffer b4 : output i64[u0] bytes(8*u0) " KERNELS
        "input \"x\" : f32[8] strides [1] in b1 input \"n\" : i64[] strides [] in b2 "
        "define(b2 i64) symbol(u0) "
        "extern sort(out b3 f32, out b4 i64, b1 f32) params [1, u0, 1, u0, 0, 1] "
        "output tensor \"y\" : f32[u0] strides [1] in b3",
        NULL);
    float x[8] = {8, 7, 6, 5, 4, 3, 2, 1};
    static const int64_t counts[] = {3, 8, 8, 0, 5, 1};
    for (size_t k = 0; m && k < sizeof counts / sizeof *counts; k++) {
        int64_t n = counts[k];
        hn_tensor *in[2] = {F32(x, 8), tensor_of(HN_I64, 0, NULL, NULL, &n)}, *out[1] = {NULL};
        EXPECT_OK(hn_module_run(m, in, 2, out, 1));
        for (int64_t i = 0; out[0] && i < n; i++)
            EXPECT(((float *)hn_tensor_data(out[0]))[i] == (float)(9 - n + i));
        hn_tensor_release(in[0]), hn_tensor_release(in[1]), hn_tensor_release(out[0]);
    }
    hn_module_release(m);
}

/* An output whose own sizes are known from the start, in memory that only the data tells. */
TEST(a_known_output_in_late_memory) {
    hn_module *m = load_text(
        "symbol data u0 in [4, none] buffer b1 : input f32[8] source 0 buffer b2 : input i64[] source 1 buffer b3 : output f32[u0] bytes(4*u0) " KERNELS
        "input \"x\" : f32[8] strides [1] in b1 input \"n\" : i64[] strides [] in b2 "
        "define(b2 i64) symbol(u0) call k4(b1 f32, out b3 f32) extent(u0) "
        "output tensor \"y\" : f32[4] strides [1] in b3",
        NULL);
    float x[8] = {1, 2, 3, 4, 5, 6, 7, 8}, given[4] = {0};
    for (int64_t n = 4; m && n <= 8; n += 2) {
        hn_tensor *in[2] = {F32(x, 8), tensor_of(HN_I64, 0, NULL, NULL, &n)},
                  *out[1] = {n == 6 ? F32(given, 4) : NULL};
        EXPECT_OK(hn_module_run(m, in, 2, out, 1));
        for (int i = 0; out[0] && i < 4; i++)
            EXPECT(((float *)hn_tensor_data(out[0]))[i] == 2 * x[i]);
        hn_tensor_release(in[0]), hn_tensor_release(in[1]), hn_tensor_release(out[0]);
    }
    hn_module_release(m);
}

/* A number that only one branch needs. */
TEST(definitions_inside_a_branch) {
    hn_module *m = load_text(
        "symbol data u0 in [0, none] buffer b1 : input f32[8] source 0 buffer b2 : input i64[] source 1 buffer b3 : input bool[] source 2 "
        "buffer b4 : temp f32[u0] bytes(4*u0) buffer b5 : output f32[8] bytes(32) " KERNELS
        "input \"x\" : f32[8] strides [1] in b1 input \"n\" : i64[] strides [] in b2 input \"p\" : bool[] strides [] in b3 "
        "copy b5 from b1 "
        "cond(b3 bool) { define(b2 i64) symbol(u0) call k4(b1 f32, out b4 f32) extent(u0) copy b5 from b4 } else { } "
        "output tensor \"y\" : f32[8] strides [1] in b5",
        NULL);
    float x[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    int64_t n = 3;
    uint8_t p = 1;
    hn_tensor *in[3] = {F32(x, 8), tensor_of(HN_I64, 0, NULL, NULL, &n),
                        tensor_of(HN_BOOL, 0, NULL, NULL, &p)},
              *out[1] = {NULL};
    for (int round = 0; m && round < 4; round++) {
        n = round + 1, p = round % 2 == 0;
        EXPECT_OK(hn_module_run(m, in, 3, out, 1));
        if (!out[0]) break;
        for (int i = 0; i < 8; i++)
            EXPECT(((float *)hn_tensor_data(out[0]))[i] == (p && i < n ? 2 : 1) * x[i]);
        hn_tensor_release(out[0]), out[0] = NULL;
    }
    for (int i = 0; i < 3; i++) hn_tensor_release(in[i]);
    hn_module_release(m);
}

static void expect_refused(const char *text, const char *why) {
    program p;
    hn_strbuf image;
    program_init(&p);
    hn_status status = program_image(&p, text, NULL, &image);
    EXPECT(status && strstr(hn_status_message(status), why));
    if (status && !strstr(hn_status_message(status), why))
        HN_TEST_FAIL("%s", hn_status_message(status));
    hn_status_free(status);
    hn_strbuf_deinit(&image);
    program_deinit(&p);
}

TEST(verify_finds_early_uses) {
#define START                                                                                                                                        \
    "symbol data u0 in [0, none] buffer b1 : input f32[8] source 0 buffer b2 : input i64[] source 1 buffer b3 : output f32[u0] bytes(4*u0) " KERNELS \
    "input \"x\" : f32[8] strides [1] in b1 input \"n\" : i64[] strides [] in b2 "
    expect_refused(
        START
        "call k4(b1 f32, out b3 f32) extent(4) define(b2 i64) symbol(u0) output tensor \"y\" : f32[u0] strides [1] in b3",
        "size 'u0' depends on data and is used before it is known");
    expect_refused(
        START
        "call k4(b1 f32, out b3 f32) extent(4) output tensor \"y\" : f32[u0] strides [1] in b3",
        "nothing in the program defines it");
    expect_refused(START "define(b1 f32) symbol(u0) output scalar \"y\" : int(u0)",
                   "a symbol from a f32");
    expect_refused(
        START "cond(b2 bool) { define(b2 i64) symbol(u0) } else { } output scalar \"y\" : int(u0)",
        "before it is known");
    expect_refused(START "define(b2 i64) symbol(u0 + 1) output scalar \"y\" : int(u0)",
                   "defines no data-dependent symbol");
}

static void *run_many(void *user) {
    for (uint32_t k = 0; k < 60; k++) check_choice(user, 40 + k % 3, k % 5);
    return NULL;
}

TEST(many_threads) {
    hn_module *m = load_text(CHOOSE("[0, none]"), &(hn_module_options){.threads = 1});
    pthread_t threads[4];
    for (int k = 0; k < 4; k++) EXPECT_INT(pthread_create(&threads[k], NULL, run_many, m), 0);
    for (int k = 0; k < 4; k++) EXPECT_INT(pthread_join(threads[k], NULL), 0);
    hn_module_release(m);
}

TEST(text_reads_back) {
    program p;
    hn_strbuf image, first, second, json;
    hn_wrapper *again;
    hn_arena arena;
    hn_sym *sym;
    program_init(&p), hn_strbuf_init(&first), hn_strbuf_init(&second), hn_strbuf_init(&json),
        hn_arena_init(&arena);
    EXPECT_OK(program_image(&p, two_numbers, NULL, &image));
    hn_wrapper_print(p.w, &first);
    EXPECT(strstr(first.ptr, "define(b3 i32) symbol(u1)"));
    EXPECT_OK(hn_sym_create(&arena, &sym));
    EXPECT_OK(hn_wrapper_parse(&arena, sym, hn_strbuf_str(&first), &again));
    hn_wrapper_print(again, &second);
    EXPECT_STR(second.ptr, first.ptr);
    hn_wrapper_print_json(p.w, &json);
    EXPECT(strstr(json.ptr, "\"kind\":\"define\"") && strstr(json.ptr, "\"symbol\":\"u1\""));
    hn_strbuf_deinit(&image), hn_strbuf_deinit(&first), hn_strbuf_deinit(&second),
        hn_strbuf_deinit(&json);
    hn_arena_deinit(&arena);
    program_deinit(&p);
}

TEST_MAIN
