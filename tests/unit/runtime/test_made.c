/* Storages that are made of others when a module is loaded: what they hold, and what happens when
 * the weights that they are made of are exchanged. */
#include "unit/runtime/module_fixture.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

/* y = x + m: m has a and b in turns, then two zeros; with `plain`, y2 = x2 + a, too */
#define PROGRAM(buffers, inputs, calls, outputs)                                                   \
    "buffer b1 : input f32[10] source 0 buffer b2 : constant f32[10] source 4 "                    \
    "buffer b3 : output f32[10] bytes(40) " buffers KERNELS                                        \
    "input \"x\" : f32[10] strides [1] in b1 " inputs                                              \
    "call k1(b1 f32, b2 f32, out b3 f32) extent(10) " calls                                        \
    "output tensor \"y\" : f32[10] strides [1] in b3" outputs

static const char joined_text[] = PROGRAM("", "", "", "");
static const char both_text[] = PROGRAM(
    "buffer b4 : input f32[4] source 1 buffer b5 : constant f32[4] source 1 buffer b6 : output f32[4] bytes(16) ",
    "input \"x2\" : f32[4] strides [1] in b4 ", "call k1(b4 f32, b5 f32, out b6 f32) extent(4) ",
    " output tensor \"y2\" : f32[4] strides [1] in b6");
/* m itself leaves the program */
static const char output_text[] =
    PROGRAM("", "", "", " output tensor \"m\" : f32[10] strides [1] in b2");

static const float a[4] = {1, 2, 3, 4}, b[4] = {10, 20, 30, 40}, c[4];
static const fixture_weight weights[3] = {{"a", HN_INPUT_PARAMETER, HN_DTYPE_F32, 4, a},
                                          {"b", HN_INPUT_PARAMETER, HN_DTYPE_F32, 4, b},
                                          {"c", HN_INPUT_PARAMETER, HN_DTYPE_F32, 4, c}};

static const hn_box_dim every_other = {.size = 4, .from_stride = 4, .to_stride = 8};
static const hn_storage_piece pieces[2] = {
    {1, {.rank = 1, .dims = &every_other, .run_bytes = 4, .from = 0, .to = 0}},
    {2, {.rank = 1, .dims = &every_other, .run_bytes = 4, .from = 0, .to = 4}}};

static void add_made(hn_wrapper *w) {
    (void)hn_graph_add_storage(
        (hn_graph *)(uintptr_t)w->graph,
        (hn_storage){
            .size_bytes = 40, .file_record = HN_STR(""), .pieces = pieces, .piece_count = 2});
}

static hn_module *load_made(const char *text, const hn_module_options *options) {
    fixture_edit = add_made;
    hn_module *m = load_weights(text, weights, 3, options);
    fixture_edit = NULL;
    return m;
}

static void expect_sums(hn_tensor *y, float x, const float *first, const float *second) {
    const float *z = y ? hn_tensor_data(y) : NULL;
    for (int k = 0; z && k < 4; k++) {
        EXPECT_NEAR(z[2 * k], x + first[k], 0);
        EXPECT_NEAR(z[2 * k + 1], x + second[k], 0);
    }
    if (z) EXPECT(z[8] == x && z[9] == x);
}

static void expect_run(hn_module *m, float x, const float *first, const float *second) {
    float in10[10];
    hn_tensor *out[1] = {NULL};
    for (int k = 0; k < 10; k++) in10[k] = x;
    hn_tensor *in[1] = {F32(in10, 10)};
    EXPECT_OK(hn_module_run(m, in, 1, out, 1));
    expect_sums(out[0], x, first, second);
    hn_tensor_release(in[0]), hn_tensor_release(out[0]);
}

static hn_status replace1(hn_module *m, const char *name, hn_tensor *t, bool borrow) {
    hn_status status = hn_module_weights_replace(m, &(hn_named_tensor){name, t}, 1, borrow);
    hn_tensor_release(t);
    return status;
}

TEST(joined_weights_are_weights) {
    hn_module *m = load_made(joined_text, NULL);
    hn_module_weight_info info;
    if (!m) return;
    EXPECT_INT(hn_module_weight_count(m), 3);
    EXPECT_OK(hn_module_weight_info_get(m, 0, &info));
    EXPECT(info.is_used && !info.is_folded);
    EXPECT_OK(hn_module_weight_info_get(m, 2, &info));
    EXPECT(!info.is_used);
    expect_run(m, 0, a, b);
    expect_run(m, 5, a, b);
    hn_module_release(m);
}

TEST(joined_weights_are_replaced) {
    hn_module *m = load_made(joined_text, NULL);
    float fresh[4] = {5, 6, 7, 8}, borrowed[4] = {-1, -2, -3, -4};
    if (!m) return;
    expect_run(m, 1, a, b);
    EXPECT_OK(replace1(m, "a", F32(fresh, 4), false));
    expect_run(m, 1, fresh, b);
    EXPECT_OK(replace1(m, "b", F32(borrowed, 4), true));
    expect_run(m, 1, fresh, borrowed);
    EXPECT_OK(replace1(m, "c", F32(fresh, 4), false)); /* nothing is made of it */
    expect_run(m, 1, fresh, borrowed);
    hn_tensor *both[2] = {F32((float *)(uintptr_t)a, 4), F32((float *)(uintptr_t)b, 4)};
    EXPECT_OK(hn_module_weights_replace(m, (hn_named_tensor[]){{"a", both[0]}, {"b", both[1]}}, 2,
                                        false));
    hn_tensor_release(both[0]), hn_tensor_release(both[1]);
    expect_run(m, 1, a, b);
    EXPECT_ERROR(replace1(m, "a", F32(fresh, 3), false), HN_INVALID_ARGUMENT, "weight 'a'");
    expect_run(m, 1, a, b);
    hn_module_release(m);
}

/* Of what only joined weights are made of the device has no copy of its own. */
TEST(the_device_has_them_once) {
    static const struct {
        const char *text;
        uint64_t bytes;
    } cases[] = {{joined_text, 40}, {both_text, 56}, {output_text, 40}};
    for (int k = 0; k < 3; k++) {
        hn_module *m = load_made(cases[k].text, NULL);
        float in10[10] = {0}, in4[4] = {1, 1, 1, 1};
        hn_tensor *in[2] = {F32(in10, 10), F32(in4, 4)}, *out[2] = {NULL};
        hn_module_stats stats;
        if (!m) return;
        EXPECT_OK(hn_module_run(m, in, k == 1 ? 2 : 1, out, k ? 2 : 1));
        expect_sums(out[0], 0, a, b);
        if (k == 1) EXPECT_NEAR(((const float *)hn_tensor_data(out[1]))[3], 5, 0);
        if (k == 2) expect_sums(out[1], 0, a, b);
        hn_module_stats_get(m, &stats);
        EXPECT_INT(stats.weights_uploaded_bytes, FIXTURE_IS_REMOTE ? cases[k].bytes : 0);
        for (int o = 0; o < 2; o++) hn_tensor_release(in[o]), hn_tensor_release(out[o]);
        hn_module_release(m);
    }
}

/* What is shared with joined weights and is used by itself changes in both places. */
TEST(plain_and_joined) {
    hn_module *m = load_made(both_text, NULL);
    float fresh[4] = {5, 6, 7, 8}, in10[10] = {0}, in4[4] = {0};
    hn_tensor *in[2] = {F32(in10, 10), F32(in4, 4)}, *out[2] = {NULL};
    if (!m) return;
    EXPECT_OK(replace1(m, "a", F32(fresh, 4), false));
    EXPECT_OK(hn_module_run(m, in, 2, out, 2));
    expect_sums(out[0], 0, fresh, b);
    for (int k = 0; out[1] && k < 4; k++)
        EXPECT_NEAR(((const float *)hn_tensor_data(out[1]))[k], fresh[k], 0);
    for (int o = 0; o < 2; o++) hn_tensor_release(in[o]), hn_tensor_release(out[o]);
    hn_module_release(m);
}

TEST(joined_weights_from_a_file) {
    static const char header[] =
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0,16]},"
        "\"b\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[16,32]}}";
    static const float values[8] = {2, 3, 5, 7, 11, 13, 17, 19};
    const uint64_t len = sizeof header - 1;
    hn_module *m = load_made(joined_text, NULL);
    char dir[PATH_MAX], path[PATH_MAX + 32];
    hn_strbuf file;
    hn_strbuf_init(&file);
    hn_strbuf_append(&file, (const char *)&len, sizeof len);
    hn_strbuf_puts(&file, header);
    hn_strbuf_append(&file, (const char *)values, sizeof values);
    EXPECT_OK(hn_dir_temp(dir, sizeof dir));
    snprintf(path, sizeof path, "%s/w.safetensors", dir);
    EXPECT_OK(hn_file_write_atomic(path, file.ptr, file.len, false));
    EXPECT_OK(hn_module_weights_load(m, path));
    expect_run(m, 0, values, values + 4);
    EXPECT_OK(hn_dir_remove(dir));
    hn_strbuf_deinit(&file);
    hn_module_release(m);
}

/* ---- while runs go on ---- */

typedef struct runner {
    hn_module *m;
    atomic_bool *stop;
} runner;

/* All of one set, whichever: 1, 2, 3, 4 or 10 times that. */
static void *run_often(void *user) {
    const runner *r = user;
    float in10[10] = {0};
    while (!atomic_load(r->stop)) {
        hn_tensor *in[1] = {F32(in10, 10)}, *out[1] = {NULL};
        EXPECT_OK(hn_module_run(r->m, in, 1, out, 1));
        const float *z = out[0] ? hn_tensor_data(out[0]) : NULL;
        for (int k = 0; z && k < 8; k++) EXPECT(z[k] == (float)(k / 2 + 1) * (z[0] == 1 ? 1 : 10));
        hn_tensor_release(in[0]), hn_tensor_release(out[0]);
    }
    return NULL;
}

TEST(runs_see_old_or_new_joined_weights) {
    hn_module *m = load_made(joined_text, &(hn_module_options){.threads = 1});
    atomic_bool stop = false;
    runner r = {m, &stop};
    pthread_t threads[2];
    float sets[2][4] = {{1, 2, 3, 4}, {10, 20, 30, 40}};
    for (int round = 0; m && round < 60; round++) {
        hn_tensor *one[2] = {F32(sets[round % 2], 4), F32(sets[round % 2], 4)};
        EXPECT_OK(hn_module_weights_replace(m, (hn_named_tensor[]){{"a", one[0]}, {"b", one[1]}}, 2,
                                            round % 3 == 0));
        hn_tensor_release(one[0]), hn_tensor_release(one[1]);
        for (int k = 0; k < 2 && round == 0; k++)
            EXPECT(pthread_create(&threads[k], NULL, run_often, &r) == 0);
        usleep(500);
    }
    atomic_store(&stop, true);
    for (int k = 0; m && k < 2; k++) pthread_join(threads[k], NULL);
    hn_module_release(m);
}

TEST_MAIN
