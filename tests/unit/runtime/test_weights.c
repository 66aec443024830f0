/* Weights after loading: listed, exchanged by name, while runs go on. */
#include "unit/runtime/module_fixture.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

/* y = x + a + b; c has no use; w = w + x */
static const char program_text[] =
    "buffer b1 : input f32[4] source 0 buffer b2 : constant f32[4] source 1 buffer b3 : constant f32[4] source 2 buffer b4 : constant f32[4] source 4 "
    "buffer b5 : temp f32[4] bytes(16) buffer b6 : output f32[4] bytes(16) buffer b7 : output f32[4] bytes(16) " KERNELS
    "input \"x\" : f32[4] strides [1] in b1 call k1(b1 f32, b2 f32, out b5 f32) extent(4) call k1(b5 f32, b3 f32, out b6 f32) extent(4) "
    "call k1(b1 f32, b4 f32, out b7 f32) extent(4) "
    "output mutation \"w\" : f32[4] strides [1] in b7 output tensor \"y\" : f32[4] strides [1] in b6";

static const float a[4] = {1, 1, 1, 1}, b[4] = {10, 10, 10, 10}, c[4], w[4] = {5, 5, 5, 5};
static const fixture_weight weights[4] = {{"layer.a", HN_INPUT_PARAMETER, HN_DTYPE_F32, 4, a},
                                          {"layer.b", HN_INPUT_PARAMETER, HN_DTYPE_F32, 4, b},
                                          {"layer.c", HN_INPUT_CONSTANT, HN_DTYPE_F32, 4, c},
                                          {"w", HN_INPUT_BUFFER, HN_DTYPE_F32, 4, w}};

static hn_module *load_program(void) {
    return load_weights(program_text, weights, 4, &(hn_module_options){.threads = 1});
}

/* The output, whose four numbers must be the same; NAN when they are not. */
static float run_once(hn_module *m, float x) {
    float in4[4] = {x, x, x, x}, y = NAN;
    hn_tensor *in[1] = {F32(in4, 4)}, *out[1] = {NULL};
    EXPECT_OK(hn_module_run(m, in, 1, out, 1));
    const float *z = out[0] ? hn_tensor_data(out[0]) : NULL;
    if (z && z[0] == z[1] && z[0] == z[2] && z[0] == z[3]) y = z[0];
    hn_tensor_release(in[0]), hn_tensor_release(out[0]);
    return y;
}

static hn_status replace1(hn_module *m, const char *name, hn_tensor *t, bool borrow) {
    hn_status status = hn_module_weights_replace(m, &(hn_named_tensor){name, t}, 1, borrow);
    hn_tensor_release(t);
    return status;
}

TEST(weights_are_listed) {
    hn_module *m = load_program();
    hn_module_weight_info info;
    uint32_t index = 0;
    EXPECT_INT(hn_module_weight_count(m), 4);
    EXPECT_OK(hn_module_weight_find(m, "layer.b", &index));
    EXPECT_OK(hn_module_weight_info_get(m, index, &info));
    EXPECT_STR(info.name, "layer.b");
    EXPECT(info.kind == HN_WEIGHT_PARAMETER && info.type == HN_F32 && info.rank == 1 &&
           info.sizes[0] == 4 && info.bytes == 16);
    EXPECT(info.is_used && !info.is_folded && !info.is_state);
    EXPECT_OK(hn_module_weight_info_get(m, 2, &info));
    EXPECT(info.kind == HN_WEIGHT_CONSTANT && !info.is_used);
    EXPECT_OK(hn_module_weight_info_get(m, 3, &info));
    EXPECT(info.kind == HN_WEIGHT_BUFFER && info.is_state);
    EXPECT_ERROR(hn_module_weight_info_get(m, 4, &info), HN_INVALID_ARGUMENT,
                 "there is no weight 4; the module has 4");
    EXPECT_ERROR(
        hn_module_weight_find(m, "layer.d", &index), HN_NOT_FOUND,
        "the model has no weight 'layer.d'; did you mean 'layer.a', 'layer.b' or 'layer.c'?");
    EXPECT_ERROR(hn_module_weight_find(NULL, "w", &index), HN_INVALID_ARGUMENT, "'module' is NULL");
    EXPECT_ERROR(hn_module_weight_find(m, NULL, &index), HN_INVALID_ARGUMENT, "'name' is NULL");
    EXPECT_ERROR(hn_module_weight_find(m, "w", NULL), HN_INVALID_ARGUMENT, "'out_index' is NULL");
    EXPECT_ERROR(hn_module_weight_info_get(NULL, 0, &info), HN_INVALID_ARGUMENT,
                 "'module' is NULL");
    EXPECT_ERROR(hn_module_weight_info_get(m, 0, NULL), HN_INVALID_ARGUMENT, "'out' is NULL");
    EXPECT_INT(hn_module_weight_count(NULL), 0);
    hn_module_release(m);
}

static void count_free(void *user) { ++*(int *)user; }

TEST(weights_are_replaced) {
    hn_module *m = load_program();
    float fresh[4] = {2, 2, 2, 2}, strided[8] = {3, 0, 3, 0, 3, 0, 3, 0};
    static const float fixed[4] = {100, 100, 100, 100};
    int freed = 0;
    EXPECT_NEAR(run_once(m, 0), 11, 0);
    EXPECT_OK(replace1(m, "layer.a", F32(fresh, 4), false));
    fresh[0] = 77; /* it was copied */
    EXPECT_NEAR(run_once(m, 0), 12, 0);
    EXPECT_OK(replace1(m, "layer.a", tensor_of(HN_F32, 1, (int64_t[]){4}, (int64_t[]){2}, strided),
                       false));
    EXPECT_NEAR(run_once(m, 0), 13, 0);
    hn_tensor *borrowed = NULL;
    hn_tensor_desc desc = {.type = HN_F32,
                           .rank = 1,
                           .sizes = (int64_t[]){4},
                           .free_data = count_free,
                           .free_user = &freed};
    EXPECT_OK(hn_tensor_create_const(&desc, fixed, &borrowed));
    EXPECT_OK(replace1(m, "layer.b", borrowed, true));
    EXPECT_NEAR(run_once(m, 1), 104, 0);
    EXPECT_INT(freed, 0);
    float two[2][4] = {{6, 6, 6, 6}, {7, 7, 7, 7}};
    hn_named_tensor both[2] = {{"layer.a", F32(two[0], 4)}, {"layer.b", F32(two[1], 4)}};
    EXPECT_OK(hn_module_weights_replace(m, both, 2, false));
    EXPECT_INT(freed, 1); /* nobody needs the borrowed one any more */
    EXPECT_NEAR(run_once(m, 0), 13, 0);
    EXPECT_OK(hn_module_weights_replace(m, NULL, 0, false));
    EXPECT_OK(replace1(m, "layer.c", F32(two[0], 4), false)); /* has no use, and so no effect */
    EXPECT_NEAR(run_once(m, 0), 13, 0);
    hn_tensor_release(both[0].tensor), hn_tensor_release(both[1].tensor);
    hn_module_release(m);
}

TEST(wrong_replacements_change_nothing) {
    hn_module *m = load_program();
    float x[8] = {0};
    hn_tensor *good = F32(x, 4);
    hn_named_tensor two[2] = {{"layer.a", good}, {"layer.a", good}};
    EXPECT_ERROR(replace1(m, "layer.a", F32(x, 5), false), HN_INVALID_ARGUMENT,
                 "weight 'layer.a' has size 4 in dimension 0, the tensor has 5");
    EXPECT_ERROR(replace1(m, "layer.a", F32(x, 2, 2), false), HN_INVALID_ARGUMENT,
                 "weight 'layer.a' has 1 dimensions, the tensor has 2");
    EXPECT_ERROR(replace1(m, "layer.a", tensor_of(HN_F64, 1, (int64_t[]){4}, NULL, x), false),
                 HN_INVALID_ARGUMENT, "weight 'layer.a' has type f32, the tensor has f64");
    EXPECT_ERROR(hn_module_weights_replace(m, two, 2, false), HN_INVALID_ARGUMENT,
                 "weight 'layer.a' is given twice");
    two[1].name = "layer.z";
    EXPECT_ERROR(hn_module_weights_replace(m, two, 2, false), HN_NOT_FOUND,
                 "the model has no weight 'layer.z'");
    two[1].name = NULL;
    EXPECT_ERROR(hn_module_weights_replace(m, two, 2, false), HN_INVALID_ARGUMENT,
                 "the name of a weight to replace is NULL");
    two[1] = (hn_named_tensor){"layer.b", NULL};
    EXPECT_ERROR(hn_module_weights_replace(m, two, 2, false), HN_INVALID_ARGUMENT,
                 "the tensor of a weight to replace is NULL");
    EXPECT_ERROR(hn_module_weights_replace(NULL, two, 1, false), HN_INVALID_ARGUMENT,
                 "'module' is NULL");
    EXPECT_ERROR(hn_module_weights_replace(m, NULL, 1, false), HN_INVALID_ARGUMENT,
                 "'weights' is NULL");
    EXPECT_ERROR(
        replace1(m, "layer.a", tensor_of(HN_F32, 1, (int64_t[]){4}, (int64_t[]){2}, x), true),
        HN_UNSUPPORTED, "have it copied");
    EXPECT_ERROR(replace1(m, "layer.a", F32((char *)x + 4, 4), true), HN_INVALID_ARGUMENT,
                 "its address is no multiple of 8");
    EXPECT_NEAR(run_once(m, 0), 11, 0);
    hn_tensor_release(good);
    hn_module_release(m);
}

TEST(folded_weights_are_refused) {
    program p;
    hn_strbuf image;
    hn_module *m = NULL;
    bool was_read = true; /* as hn_storage_bytes notes it */
    float x[4] = {0};
    program_init(&p);
    for (int k = 0; k < 4; k++) program_add_weight(&p, &weights[k]);
    p.graph->storages.items[2].was_read = &was_read;
    EXPECT_OK(program_image(&p, program_text, NULL, &image));
    EXPECT_OK(hn_module_load_memory(image.ptr, image.len, false, NULL, &m));
    EXPECT_ERROR(replace1(m, "layer.b", F32(x, 4), false), HN_UNSUPPORTED,
                 "weight 'layer.b' cannot be replaced: the compiler computed with its values");
    EXPECT_OK(replace1(m, "layer.a", F32(x, 4), false));
    hn_module_weight_info info;
    EXPECT_OK(hn_module_weight_info_get(m, 1, &info));
    EXPECT(info.is_folded);
    hn_strbuf_deinit(&image);
    program_deinit(&p);
    hn_module_release(m);
}

/* Two weights that are one in memory, as tied embeddings are. */
TEST(shared_weights) {
    program p;
    hn_strbuf image;
    hn_module *m = NULL;
    program_init(&p);
    program_add_weight(&p, &weights[0]);
    hn_expr two = hn_sym_int(p.sym, 2);
    hn_value half = hn_graph_add_tensor(p.graph, HN_DTYPE_F32, 1, &two, NULL, HN_STR("half"));
    EXPECT_OK(hn_graph_add_input(p.graph, (hn_input){.kind = HN_INPUT_PARAMETER,
                                                     .value = half,
                                                     .name = HN_STR("half"),
                                                     .storage = 1,
                                                     .storage_offset_elems = 2}));
    EXPECT_OK(program_image(
        &p,
        "buffer b1 : input f32[4] source 0 buffer b2 : constant f32[4] source 1 buffer b3 : output f32[4] bytes(16) " KERNELS
        "input \"x\" : f32[4] strides [1] in b1 call k1(b1 f32, b2 f32, out b3 f32) extent(4) "
        "output tensor \"y\" : f32[4] strides [1] in b3",
        NULL, &image));
    EXPECT_OK(hn_module_load_memory(image.ptr, image.len, false, NULL, &m));
    float x[4] = {0}, all[4] = {1, 2, 3, 4}, part[2] = {8, 9};
    EXPECT_OK(replace1(m, "half", F32(part, 2), false));
    hn_tensor *in[1] = {F32(x, 4)}, *out[1] = {NULL};
    EXPECT_OK(hn_module_run(m, in, 1, out, 1));
    EXPECT(out[0] && memcmp(hn_tensor_data(out[0]), (const float[]){1, 1, 8, 9}, 16) == 0);
    hn_tensor_release(out[0]);
    hn_named_tensor both[2] = {{"layer.a", F32(all, 4)}, {"half", F32(part, 2)}};
    EXPECT_ERROR(hn_module_weights_replace(m, both, 2, false), HN_INVALID_ARGUMENT,
                 "weight 'layer.a' shares memory with another one");
    EXPECT_ERROR(hn_module_weights_replace(m, both + 1, 1, true), HN_UNSUPPORTED,
                 "it shares its memory in the model");
    part[0] = 3, part[1] = 4;
    EXPECT_OK(hn_module_weights_replace(m, both, 2, false));
    out[0] = NULL;
    EXPECT_OK(hn_module_run(m, in, 1, out, 1));
    EXPECT(out[0] && memcmp(hn_tensor_data(out[0]), all, 16) == 0);
    hn_tensor_release(both[0].tensor), hn_tensor_release(both[1].tensor), hn_tensor_release(in[0]),
        hn_tensor_release(out[0]);
    hn_strbuf_deinit(&image);
    program_deinit(&p);
    hn_module_release(m);
}

TEST(what_states_begin_with) {
    hn_module *m = load_program();
    float fresh[4] = {50, 50, 50, 50};
    hn_tensor *t = NULL;
    EXPECT_OK(replace1(m, "w", F32(fresh, 4), false));
    EXPECT_OK(hn_module_buffer_read(m, "w", &t)); /* the present state stays */
    EXPECT(t && *(float *)hn_tensor_data(t) == 5);
    hn_tensor_release(t);
    EXPECT_OK(hn_state_reset(hn_module_state(m)));
    EXPECT_OK(hn_module_buffer_read(m, "w", &t));
    EXPECT(t && *(float *)hn_tensor_data(t) == 50);
    hn_tensor_release(t);
    hn_module_release(m);
}

/* ---- from a file ---- */

static void write_safetensors(const char *path, const char *header, const void *data,
                              size_t bytes) {
    hn_strbuf file;
    uint64_t len = strlen(header);
    hn_strbuf_init(&file);
    hn_strbuf_append(&file, (const char *)&len, sizeof len);
    hn_strbuf_puts(&file, header);
    hn_strbuf_append(&file, data, bytes);
    EXPECT_OK(hn_file_write_atomic(path, file.ptr, file.len, false));
    hn_strbuf_deinit(&file);
}

#define ENTRY(name, from, to)                                                                      \
    "\"" name "\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[" #from "," #to "]}"

TEST(weights_from_a_file) {
    hn_module *m = load_program();
    char dir[PATH_MAX], path[PATH_MAX + 32];
    const float values[12] = {2, 2, 2, 2, 30, 30, 30, 30, 7, 7, 7, 7};
    EXPECT_OK(hn_dir_temp(dir, sizeof dir));
    snprintf(path, sizeof path, "%s/w.safetensors", dir);
    /* The header's length is odd, so that the data are not aligned; "\u0061" is an a. */
    write_safetensors(
        path,
        "{ \"__metadata__\":{\"format\":\"pt\"}," ENTRY("layer.\\u0061", 0, 16) ", " ENTRY(
            "layer.b", 16, 32) "," ENTRY("w", 32, 48) "}  ",
        values, sizeof values);
    EXPECT_OK(hn_module_weights_load(m, path));
    EXPECT_NEAR(run_once(m, 0), 32, 0);
    EXPECT_INT(unlink(path), 0);
    EXPECT_NEAR(run_once(m, 0), 32, 0);
    EXPECT_OK(hn_state_reset(hn_module_state(m)));
    hn_tensor *t = NULL;
    EXPECT_OK(hn_module_buffer_read(m, "w", &t));
    EXPECT(t && *(float *)hn_tensor_data(t) == 7);
    hn_tensor_release(t);
    static const struct {
        const char *header, *message;
        hn_code code;
    } cases[] = {
        {"{" ENTRY("layer.a", 0, 16) "," ENTRY("w", 32, 48) "}",
         "the file lacks the weight 'layer.b' (1 in all)", HN_NOT_FOUND},
        {"{" ENTRY("layer.a", 0, 16) "," ENTRY("layer.b", 16, 32) "," ENTRY("w", 32, 48) "," ENTRY(
             "layer.z", 0, 16) "}",
         "no weight 'layer.z'", HN_NOT_FOUND},
        {"{" ENTRY("layer.a", 0, 16) "," ENTRY("layer.b", 16, 32) "," ENTRY("w", 48, 64) "}",
         "weight 'w' lies outside", HN_CORRUPT},
        {"{" ENTRY("layer.a", 0, 12) "}", "has not the bytes of its shape", HN_CORRUPT},
        {"{" ENTRY("layer.a", 16, 0) "}", "has not the bytes of its shape", HN_CORRUPT},
        {"{\"layer.a\":{\"dtype\":\"F4\",\"shape\":[4],\"data_offsets\":[0,2]}}",
         "has type 'F4', which Henry lacks", HN_UNSUPPORTED},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4611686018427387904,4],\"data_offsets\":[0,0]}}",
         "has not the bytes of its shape", HN_CORRUPT},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[99999999999999999999],\"data_offsets\":[0,0]}}",
         "a number is too large", HN_CORRUPT},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[-1],\"data_offsets\":[0,0]}}",
         "a whole number is missing", HN_CORRUPT},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1],\"data_offsets\":[0,4]}}",
         "a list is too long", HN_CORRUPT},
        {"{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,4]}}", "a tensor without a shape",
         HN_CORRUPT},
        {"{\"a\":{\"shape\":[],\"what\":1}}", "an unknown key", HN_CORRUPT},
        {"{\"a", "a text has no end", HN_CORRUPT},
        {"{\"a\\u00\":{}}", "hexadecimal", HN_CORRUPT},
        {"{\"a\\ud800\":{}}", "half of a surrogate pair", HN_CORRUPT},
        {"{\"a\\x\":{}}", "an unknown escape", HN_CORRUPT},
        {"{\"a\\u0000\":{}}", "a zero byte", HN_CORRUPT},
        {"{} x", "more follows", HN_CORRUPT},
        {"[", "'{' is missing", HN_CORRUPT},
        {"", "'{' is missing", HN_CORRUPT},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        write_safetensors(path, cases[k].header, values, sizeof values);
        EXPECT_ERROR(hn_module_weights_load(m, path), cases[k].code, cases[k].message);
    }
    EXPECT_OK(hn_file_write_atomic(path, "\xff\xff\xff\xff\0\0\0\0{}", 10, false));
    EXPECT_ERROR(hn_module_weights_load(m, path), HN_CORRUPT,
                 "this is no safetensors file, or it is cut short: 10 bytes");
    EXPECT_NEAR(run_once(m, 0), 32, 0); /* nothing of that has changed anything */
    EXPECT_OK(hn_dir_remove(dir));
    EXPECT_ERROR(hn_module_weights_load(m, path), HN_NOT_FOUND, "cannot take weights from");
    EXPECT_ERROR(hn_module_weights_load(NULL, path), HN_INVALID_ARGUMENT, "'module' is NULL");
    EXPECT_ERROR(hn_module_weights_load(m, NULL), HN_INVALID_ARGUMENT, "'path' is NULL");
    hn_module_release(m);
}

/* ---- packed copies ---- */

/* y = x * m, a product of 40 x 64 and 64 x 64: the runtime packs m at its second use. */
TEST(packed_weights_are_made_again) {
    enum { N = 64, ROWS = 40 };
    static float first[N * N], second[N * N], x[ROWS * N];
    for (int k = 0; k < N * N; k++) first[k] = 1, second[k] = 2;
    for (int k = 0; k < ROWS * N; k++) x[k] = 1;
    hn_module *m = load_weights(
        "buffer b1 : input f32[40, 64] strides [64, 1] source 0 buffer b2 : constant f32[64, 64] source 1 buffer b3 : output f32[2560] bytes(10240) " KERNELS
        "input \"x\" : f32[40, 64] strides [64, 1] in b1 "
        "extern matmul(out b3 f32, b1 f32, b2 f32, none, none) params [1, 1, 1, 1, 40, 64, 64, 0, 0, 0, 0, 64, 1, 0, 0, 0, 0, 64, 1, "
        "0, 0, 0, 0, 64, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0] "
        "output tensor \"y\" : f32[40, 64] strides [64, 1] in b3",
        &(fixture_weight){"m", HN_INPUT_PARAMETER, HN_DTYPE_F32, N * N, first}, 1, NULL);
    for (int round = 0; m && round < 6; round++) {
        hn_tensor *in[1] = {F32(x, ROWS, N)}, *out[1] = {NULL};
        if (round == 3) EXPECT_OK(replace1(m, "m", F32(second, N * N), false));
        EXPECT_OK(hn_module_run(m, in, 1, out, 1));
        for (int k = 0; out[0] && k < ROWS * N; k++)
            EXPECT_NEAR(((float *)hn_tensor_data(out[0]))[k], round < 3 ? N : 2 * N, 0);
        hn_tensor_release(in[0]), hn_tensor_release(out[0]);
    }
    hn_module_stats stats;
    hn_module_stats_get(m, &stats);
    if (!FIXTURE_HAS_OPERATIONS) EXPECT(stats.weights_packed_bytes > 0);
    hn_module_release(m);
}

/* ---- while runs go on ---- */

typedef struct runner {
    hn_module *m;
    atomic_bool *stop;
    int wrong, runs;
} runner;

static void *run_often(void *user) {
    runner *r = user;
    while (!atomic_load(r->stop) || r->runs < 50) {
        float y = run_once(r->m, 0);
        r->wrong += y != 11 && y != 1100; /* 1 + 10 or 100 + 1000, never 1 + 1000 */
        r->runs++;
    }
    return NULL;
}

TEST(runs_see_old_or_new_weights) {
    enum { RUNNERS = 3 };
    static float sets[2][2][4];
    hn_module *m = load_program();
    atomic_bool stop;
    runner runners[RUNNERS];
    pthread_t threads[RUNNERS];
    atomic_init(&stop, false);
    for (int k = 0; k < 4; k++)
        sets[0][0][k] = 1, sets[0][1][k] = 10, sets[1][0][k] = 100, sets[1][1][k] = 1000;
    for (int k = 0; k < RUNNERS; k++) {
        runners[k] = (runner){.m = m, .stop = &stop};
        EXPECT_INT(pthread_create(&threads[k], NULL, run_often, &runners[k]), 0);
    }
    for (int round = 0; round < 100; round++) {
        hn_named_tensor both[2] = {{"layer.a", F32(sets[round % 2][0], 4)},
                                   {"layer.b", F32(sets[round % 2][1], 4)}};
        EXPECT_OK(hn_module_weights_replace(m, both, 2, round % 3 == 0));
        hn_tensor_release(both[0].tensor), hn_tensor_release(both[1].tensor);
    }
    atomic_store(&stop, true);
    for (int k = 0; k < RUNNERS; k++) {
        pthread_join(threads[k], NULL);
        EXPECT_INT(runners[k].wrong, 0);
    }
    EXPECT_NEAR(run_once(m, 0), 1100, 0);
    hn_module_release(m);
}

TEST_MAIN
