/* test_module.c: bundles loaded and run: sizes, layouts, checks, constants, mutations,
 * conditionals, threads. */
#include "unit/runtime/module_fixture.h"

#include <pthread.h>

static const char *const add_twice =
    "symbol size s0 in [1, 64] hint 4 "
    "guard s0 != 13 \"unlucky\" "
    "buffer b1 : input f32[s0, 4] strides [4, 1] source 0 buffer b2 : input f32[s0, 4] strides [4, 1] source 1 buffer b3 : temp f32[4*s0] bytes(16*s0) buffer b4 : output f32[4*s0] bytes(16*s0) " KERNELS
    "input \"x\" : f32[s0, 4] strides [4, 1] in b1 input \"y\" : f32[s0, 4] strides [4, 1] in b2 "
    "call k1(b1 f32, b2 f32, out b3 f32) extent(4*s0) grain 1 origin 1 "
    "call k1(b3 f32, b2 f32, out b4 f32) extent(4*s0) grain 1 origin 1 "
    "output tensor \"z\" : f32[s0, 4] strides [4, 1] in b4";

TEST(runs_with_several_sizes) {
    hn_module *m = load_text(add_twice, &(hn_module_options){.threads = 2});
    float x[64 * 4], y[64 * 4];
    for (int i = 0; i < 256; i++) x[i] = (float)i, y[i] = 0.5f * (float)i;
    for (int round = 0; m && round < 3; round++) {
        for (int64_t n = 1; n < 13; n++) { /* more sizes than a context remembers */
            hn_tensor *in[2] = {F32(x, n, 4), F32(y, n, 4)}, *out[1] = {NULL};
            EXPECT_OK(hn_module_run(m, in, 2, out, 1));
            if (!out[0]) return;
            EXPECT_INT(hn_tensor_rank(out[0]), 2);
            EXPECT_INT(hn_tensor_sizes(out[0])[0], n);
            const float *z = hn_tensor_data(out[0]);
            for (int64_t i = 0; i < 4 * n; i++) EXPECT_NEAR(z[i], 2 * (double)i, 0);
            EXPECT_INT((uintptr_t)z % 64, 0);
            hn_tensor_release(in[0]), hn_tensor_release(in[1]), hn_tensor_release(out[0]);
        }
    }
    hn_module_stats stats;
    hn_module_stats_get(m, &stats);
    EXPECT_INT(stats.runs, 36);
    EXPECT_INT(stats.steps, 2);
    EXPECT_INT(stats.contexts, 1);
    EXPECT_INT(stats.inputs_copied, 0);
    EXPECT(stats.peak_workspace_bytes >= 16 * 12);
    hn_module_release(m);
}

TEST(infos) {
    hn_module *m = load_text(add_twice, NULL);
    hn_module_value_info info;
    EXPECT_INT(hn_module_input_count(m), 2);
    EXPECT_INT(hn_module_output_count(m), 1);
    EXPECT_OK(hn_module_input_info(m, 1, &info));
    EXPECT_STR(info.name, "y");
    EXPECT_INT(info.type, HN_F32);
    EXPECT_INT(info.rank, 2);
    EXPECT(!info.sizes[0].is_static && info.sizes[1].is_static && info.sizes[1].value == 4);
    EXPECT_STR(info.sizes[0].text, "s0");
    EXPECT_STR(info.strides[0].text, "4");
    EXPECT_ERROR(hn_module_output_info(m, 1, &info), HN_INVALID_ARGUMENT, "no output 1");
    hn_module_release(m);
}

/* One call with two inputs of these sizes. */
static hn_status call2(hn_module *m, hn_tensor *x, hn_tensor *y) {
    hn_tensor *in[2] = {x, y}, *out[1] = {NULL};
    hn_status status = hn_module_run(m, in, 2, out, 1);
    hn_tensor_release(x), hn_tensor_release(y), hn_tensor_release(out[0]);
    return status;
}

TEST(refuses_what_does_not_fit) {
    hn_module *m = load_text(add_twice, NULL);
    float x[300] = {0};
    hn_tensor *none[1] = {NULL};
    EXPECT_ERROR(call2(m, F32(x, 3, 5), F32(x, 3, 4)), HN_INVALID_ARGUMENT,
                 "input 'x' dimension 1 is 5, must be 4");
    EXPECT_ERROR(call2(m, F32(x, 3, 4), F32(x, 2, 4)), HN_INVALID_ARGUMENT,
                 "input 'y' dimension 0 is 2, must be 3 = s0");
    EXPECT_ERROR(call2(m, F32(x, 65, 4), F32(x, 65, 4)), HN_INVALID_ARGUMENT,
                 "input 'x' dimension 0 is 65, must be at most 64 (s0)");
    EXPECT_ERROR(call2(m, F32(x, 0, 4), F32(x, 0, 4)), HN_INVALID_ARGUMENT,
                 "must be at least 1 (s0)");
    EXPECT_ERROR(call2(m, F32(x, 13, 4), F32(x, 13, 4)), HN_INVALID_ARGUMENT,
                 "break the constraint s0 != 13: s0 is 13 (unlucky)");
    EXPECT_ERROR(call2(m, F32(x, 12), F32(x, 3, 4)), HN_INVALID_ARGUMENT,
                 "input 'x' has 1 dimensions, must have 2");
    EXPECT_ERROR(call2(m, tensor_of(HN_I32, 2, (int64_t[]){3, 4}, NULL, x), F32(x, 3, 4)),
                 HN_INVALID_ARGUMENT, "input 'x' has type i32, must be f32");
    EXPECT_ERROR(call2(m, NULL, F32(x, 3, 4)), HN_INVALID_ARGUMENT, "input 'x' is missing");
    EXPECT_ERROR(hn_module_run(m, none, 1, none, 1), HN_INVALID_ARGUMENT, "takes 2 inputs, got 1");
    EXPECT_ERROR(hn_module_run(m, none, 1, none, 0), HN_INVALID_ARGUMENT, "gives 1 outputs");
    EXPECT_OK(call2(m, F32(x, 3, 4), F32(x, 3, 4))); /* none of that has hurt */
    hn_module_release(m);
}

TEST(lays_out_inputs) {
    hn_module *m = load_text(add_twice, NULL);
    float x[12], y[12];
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 4; j++) x[j * 3 + i] = (float)(10 * i + j), y[i * 4 + j] = 100;
    /* unaligned memory as well */
    char raw[sizeof y + 1];
    memcpy(raw + 1, y, sizeof y);
    hn_tensor *in[2] = {tensor_of(HN_F32, 2, (int64_t[]){3, 4}, (int64_t[]){1, 3}, x),
                        F32(raw + 1, 3, 4)},
              *out[1] = {NULL};
    EXPECT_OK(hn_module_run(m, in, 2, out, 1));
    const float *z = hn_tensor_data(out[0]);
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 4; j++) EXPECT_NEAR(z[i * 4 + j], 10 * i + j + 200, 0);
    hn_module_stats stats;
    hn_module_stats_get(m, &stats);
    EXPECT_INT(stats.inputs_copied, 2);
    hn_tensor_release(in[0]), hn_tensor_release(in[1]), hn_tensor_release(out[0]);
    hn_module_release(m);
}

TEST(writes_into_given_outputs) {
    hn_module *m = load_text(add_twice, NULL);
    float x[8] = {1, 2, 3, 4, 5, 6, 7, 8}, y[8] = {0}, direct[8] = {0}, strided[16] = {0};
    hn_tensor *in[2] = {F32(x, 2, 4), F32(y, 2, 4)};
    hn_tensor *out[1] = {F32(direct, 2, 4)}, *kept = out[0];
    EXPECT_OK(hn_module_run(m, in, 2, out, 1));
    EXPECT(out[0] == kept && direct[0] == 1 && direct[7] == 8);
    hn_tensor_release(kept);
    out[0] = kept = tensor_of(HN_F32, 2, (int64_t[]){2, 4}, (int64_t[]){8, 2}, strided);
    EXPECT_OK(hn_module_run(m, in, 2, out, 1));
    EXPECT(strided[0] == 1 && strided[1] == 0 && strided[2] == 2 && strided[8] == 5 &&
           strided[14] == 8);
    hn_tensor_release(kept);
    out[0] = kept = F32(direct, 4, 2);
    EXPECT_ERROR(hn_module_run(m, in, 2, out, 1), HN_INVALID_ARGUMENT,
                 "given for output 0 has size 4 in dimension 0, the result has 2");
    hn_tensor_release(kept);
    out[0] = kept = tensor_of(HN_F64, 2, (int64_t[]){2, 4}, NULL, NULL);
    EXPECT_ERROR(hn_module_run(m, in, 2, out, 1), HN_INVALID_ARGUMENT,
                 "has type f64, the result has f32");
    hn_tensor_release(kept);
    hn_tensor_release(in[0]), hn_tensor_release(in[1]);
    hn_module_release(m);
}

static const char *const bounds_check =
    "symbol size s0 in [0, none] hint 4 "
    "buffer b1 : input f32[10] source 0 buffer b2 : input i64[s0] source 1 buffer b3 : output f32[s0] bytes(4*s0) " KERNELS
    "input \"x\" : f32[10] strides [1] in b1 input \"at\" : i64[s0] strides [1] in b2 "
    "call k3(b1 f32, b2 i64, out b3 f32) params [10] extent(s0) grain 2 origin 1 "
    "output tensor \"z\" : f32[s0] strides [1] in b3";

TEST(index_out_of_bounds) {
    for (int threads = 1; threads <= 4; threads += 3) {
        hn_module *m = load_text(bounds_check, &(hn_module_options){.threads = threads});
        float x[10] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
        int64_t at[8] = {9, 8, 7, 6, 5, 4, 3, 2};
        hn_tensor *in[2] = {F32(x, 10), tensor_of(HN_I64, 1, (int64_t[]){8}, NULL, at)},
                  *out[1] = {NULL};
        EXPECT_OK(hn_module_run(m, in, 2, out, 1));
        EXPECT(out[0] && ((float *)hn_tensor_data(out[0]))[7] == 2);
        hn_tensor_release(out[0]);
        out[0] = NULL;
        at[6] = 10;
        EXPECT_ERROR(hn_module_run(m, in, 2, out, 1), HN_INVALID_ARGUMENT,
                     "node 'node_one' (model.py:12): an index is out of bounds");
        EXPECT(!out[0]);
        hn_tensor_release(in[1]);
        in[1] = tensor_of(HN_I64, 1, (int64_t[]){0}, NULL, at); /* nothing to do */
        EXPECT_OK(hn_module_run(m, in, 2, out, 1));
        EXPECT_INT(hn_tensor_numel(out[0]), 0);
        hn_tensor_release(in[0]), hn_tensor_release(in[1]), hn_tensor_release(out[0]);
        hn_module_release(m);
    }
}

TEST(parallel_kernels_have_own_scratch) {
    hn_module *m = load_text(
        "buffer b1 : input f32[1000, 50] strides [50, 1] source 0 buffer b2 : output f32[1000] bytes(4000) " KERNELS
        "input \"x\" : f32[1000, 50] strides [50, 1] in b1 "
        "call k2(b1 f32, out b2 f32) params [50] extent(1000) grain 10 scratch(8) "
        "output tensor \"z\" : f32[1000] strides [1] in b2",
        &(hn_module_options){.threads = 7});
    float *x = malloc(50000 * sizeof *x);
    for (int i = 0; i < 50000; i++) x[i] = (float)(i / 50);
    for (int round = 0; round < 50; round++) {
        hn_tensor *in[1] = {F32(x, 1000, 50)}, *out[1] = {NULL};
        EXPECT_OK(hn_module_run(m, in, 1, out, 1));
        for (int i = 0; out[0] && i < 1000; i++)
            EXPECT_NEAR(((float *)hn_tensor_data(out[0]))[i], 50.0 * i, 0);
        hn_tensor_release(in[0]), hn_tensor_release(out[0]);
    }
    free(x);
    hn_module_release(m);
}

/* ---- constants and state ---- */

static hn_module *load_with_weight(const char *text, const float *weight, size_t count,
                                   hn_input_kind kind) {
    return load_weights(text, &(fixture_weight){"w", kind, HN_DTYPE_F32, (int64_t)count, weight}, 1,
                        NULL);
}

TEST(mutations) {
    /* x becomes x + w, w becomes x (as it was), the output is w (as it was): everything reads old
     * content. */
    const float weight[4] = {10, 20, 30, 40};
    hn_module *m = load_with_weight(
        "buffer b1 : input f32[4] source 0 buffer b2 : constant f32[4] source 1 buffer b3 : output f32[4] bytes(16) " KERNELS
        "input \"x\" : f32[4] strides [1] in b1 "
        "call k1(b1 f32, b2 f32, out b3 f32) extent(4) "
        "output mutation \"w\" : f32[4] strides [1] in b1 "
        "output mutation \"x\" target 0 : f32[4] strides [1] in b3 "
        "output tensor \"old\" : f32[4] strides [1] in b2",
        weight, 4, HN_INPUT_BUFFER);
    float memory[8] = {1, 0, 2, 0, 3, 0, 4, 0};
    hn_tensor *in[1] = {tensor_of(HN_F32, 1, (int64_t[]){4}, (int64_t[]){2}, memory)},
              *out[1] = {NULL}, *w = NULL;
    EXPECT_OK(hn_module_run(m, in, 1, out, 1));
    EXPECT(((float *)hn_tensor_data(out[0]))[3] == 40);
    EXPECT(memory[0] == 11 && memory[2] == 22 && memory[6] == 44 && memory[1] == 0);
    EXPECT_OK(hn_module_buffer_read(m, "w", &w));
    EXPECT(w && ((float *)hn_tensor_data(w))[0] == 1 && ((float *)hn_tensor_data(w))[3] == 4);
    hn_tensor_release(w), hn_tensor_release(out[0]);
    out[0] = NULL;
    EXPECT_OK(hn_module_run(m, in, 1, out, 1)); /* the state of the first run is there */
    EXPECT(((float *)hn_tensor_data(out[0]))[3] == 4 && memory[0] == 12 && memory[6] == 48);
    hn_module_mutation_info info;
    EXPECT_INT(hn_module_mutation_count(m), 2);
    EXPECT_OK(hn_module_mutation_info_get(m, 0, &info));
    EXPECT_STR(info.name, "w");
    EXPECT_INT(info.input, -1);
    EXPECT_ERROR(hn_module_buffer_read(m, "v", &w), HN_NOT_FOUND, "no buffer 'v'");
    hn_module_stats stats;
    hn_module_stats_get(m, &stats);
    EXPECT_INT(stats.weights_copied_bytes, 16);
    hn_tensor_release(in[0]), hn_tensor_release(out[0]);
    hn_module_release(m);
}

/* x takes the content of w and w that of x: whichever is written first, the other one reads what
 * was there. */
TEST(mutations_that_swap) {
    for (int x_first = 0; x_first < 2; x_first++) {
        const float weight[4] = {10, 20, 30, 40};
        static const char *const text[2] = {
            "output mutation \"w\" : f32[4] strides [1] in b1 output mutation \"x\" target 0 : f32[4] strides [1] in b2 ",
            "output mutation \"x\" target 0 : f32[4] strides [1] in b2 output mutation \"w\" : f32[4] strides [1] in b1 "};
        char all[1024];
        snprintf(all, sizeof all,
                 "buffer b1 : input f32[4] source 0 buffer b2 : constant f32[4] source 1 " KERNELS
                 "input \"x\" : f32[4] strides [1] in b1 %s",
                 text[x_first]);
        hn_module *m = load_with_weight(all, weight, 4, HN_INPUT_BUFFER);
        float memory[4] = {1, 2, 3, 4};
        hn_tensor *in[1] = {F32(memory, 4)}, *w = NULL;
        EXPECT_OK(hn_module_run(m, in, 1, NULL, 0));
        EXPECT(memory[0] == 10 && memory[3] == 40);
        EXPECT_OK(hn_module_buffer_read(m, "w", &w));
        EXPECT(w && ((float *)hn_tensor_data(w))[0] == 1 && ((float *)hn_tensor_data(w))[3] == 4);
        hn_tensor_release(w), hn_tensor_release(in[0]);
        hn_module_release(m);
    }
}

TEST(outputs_share_a_buffer) {
    /* Two outputs look into one buffer, one into the input, one is a scalar. */
    hn_module *m = load_text(
        "symbol size s0 in [1, 100] buffer b1 : input f32[2*s0] source 0 buffer b2 : output f32[2*s0] bytes(8*s0) buffer b3 : view f32[s0] " KERNELS
        "input \"x\" : f32[2*s0] strides [1] in b1 input \"n\" : int(3) input \"mode\" : string \"mean\" "
        "call k4(b1 f32, out b2 f32) extent(2*s0) "
        "view b3 of b2 at(s0) output tensor \"a\" : f32[2*s0] strides [1] in b2 output tensor \"b\" : f32[s0] strides [1] in b3 "
        "output tensor \"c\" : f32[s0] strides [2] in b1 output scalar \"n\" : int(s0*s0) output scalar \"h\" : float(0.5) "
        "output scalar \"z\" : none",
        NULL);
    float x[6] = {1, 2, 3, 4, 5, 6};
    hn_tensor *in[3] = {F32(x, 6), NULL, NULL}, *out[6] = {NULL};
    EXPECT_OK(hn_module_run(m, in, 3, out, 6));
    EXPECT(((float *)hn_tensor_data(out[0]))[5] == 12 && ((float *)hn_tensor_data(out[1]))[0] == 8);
    const float *c = hn_tensor_data(out[2]);
    EXPECT(c != x && c[0] == 1 && c[2] == 3 && c[4] == 5 && hn_tensor_strides(out[2])[0] == 2);
    EXPECT(hn_tensor_type(out[3]) == HN_I64 && *(int64_t *)hn_tensor_data(out[3]) == 9);
    EXPECT(hn_tensor_type(out[4]) == HN_F64 && *(double *)hn_tensor_data(out[4]) == 0.5 && !out[5]);
    hn_module_release(m); /* outputs outlive the module */
    hn_tensor_release(out[0]);
    EXPECT(((float *)hn_tensor_data(out[1]))[2] == 12);
    for (int i = 1; i < 5; i++) hn_tensor_release(out[i]);
    hn_tensor_release(in[0]);
}

TEST(scalars_and_affine_sizes) {
    hn_module *m = load_text(
        "symbol size s0 in [0, none] symbol size s1 in [0, none] buffer b1 : input f32[2*s0 + 1] source 0 buffer b2 : output f32[s0] bytes(4*s0) " KERNELS
        "input \"x\" : f32[2*s0 + 1] strides [1] in b1 input \"n\" : int(3) input \"alpha\" : float(0.5) input \"flag\" : true "
        "input \"k\" : int(s1) "
        "call k4(b1 f32, out b2 f32) extent(s0) "
        "output tensor \"a\" : f32[s0] strides [1] in b2 output scalar \"k\" : int(s1 + 1)",
        NULL);
    float x[7] = {1, 2, 3, 4, 5, 6, 7};
    int64_t three = 3, k = 41;
    double half = 0.5;
    uint8_t yes = 1;
    hn_tensor *in[5] = {F32(x, 7), tensor_of(HN_I64, 0, NULL, NULL, &three),
                        tensor_of(HN_F64, 0, NULL, NULL, &half),
                        tensor_of(HN_BOOL, 0, NULL, NULL, &yes),
                        tensor_of(HN_I64, 0, NULL, NULL, &k)},
              *out[2] = {NULL};
    EXPECT_OK(hn_module_run(m, in, 5, out, 2));
    EXPECT_INT(hn_tensor_sizes(out[0])[0], 3);
    EXPECT_INT(*(int64_t *)hn_tensor_data(out[1]), 42);
    hn_tensor_release(out[0]), hn_tensor_release(out[1]);
    out[0] = out[1] = NULL;
    k = 6; /* another value of a symbol, same sizes: bound again */
    EXPECT_OK(hn_module_run(m, in, 5, out, 2));
    EXPECT_INT(*(int64_t *)hn_tensor_data(out[1]), 7);
    hn_tensor_release(out[0]), hn_tensor_release(out[1]);
    out[0] = out[1] = NULL;
    three = 4;
    EXPECT_ERROR(hn_module_run(m, in, 5, out, 2), HN_INVALID_ARGUMENT,
                 "input 'n' is 4, but the model was exported for 3");
    three = 3, half = 0.25;
    EXPECT_ERROR(hn_module_run(m, in, 5, out, 2), HN_INVALID_ARGUMENT,
                 "input 'alpha' is 0.25, but the model was exported for 0.5");
    half = 0.5, yes = 0;
    EXPECT_ERROR(hn_module_run(m, in, 5, out, 2), HN_INVALID_ARGUMENT,
                 "input 'flag' is false, but the model was exported for true");
    yes = 1;
    hn_tensor_release(in[0]);
    in[0] = F32(x, 6);
    EXPECT_ERROR(hn_module_run(m, in, 5, out, 2), HN_INVALID_ARGUMENT,
                 "input 'x' dimension 0 is 6, must be 2*s0 + 1");
    hn_tensor_release(in[4]);
    in[4] = NULL;
    EXPECT_ERROR(hn_module_run(m, in, 5, out, 2), HN_INVALID_ARGUMENT, "input 'k' is missing");
    for (int i = 0; i < 4; i++) hn_tensor_release(in[i]);
    hn_module_release(m);
}

/* A symbol's number comes in any integer type, with its sign. */
TEST(whole_numbers_of_all_types) {
    hn_module *m = load_text(
        "symbol size s0 in [-100, 100] input \"k\" : int(s0) output scalar \"k\" : int(s0)", NULL);
    const struct {
        hn_scalar_type type;
        uint64_t bits;
        int64_t value;
    } cases[] = {{HN_I64, (uint64_t)-7, -7},
                 {HN_I32, 0xfffffff9u, -7},
                 {HN_I16, 0xfff9u, -7},
                 {HN_I8, 0xf9u, -7},
                 {HN_I8, 0x7bu, 123},
                 {HN_U8, 0xf9u, 249},
                 {HN_U8, 99, 99}};
    for (size_t k = 0; m && k < sizeof cases / sizeof *cases; k++) {
        uint64_t bits = cases[k].bits;
        hn_tensor *in[1] = {tensor_of(cases[k].type, 0, NULL, NULL, &bits)}, *out[1] = {NULL};
        if (cases[k].value > 100) {
            EXPECT_ERROR(hn_module_run(m, in, 1, out, 1), HN_INVALID_ARGUMENT,
                         "must be at most 100 (s0)");
        } else {
            EXPECT_OK(hn_module_run(m, in, 1, out, 1));
            if (out[0]) EXPECT_INT(*(int64_t *)hn_tensor_data(out[0]), cases[k].value);
        }
        hn_tensor_release(in[0]), hn_tensor_release(out[0]);
    }
    float half = 0.5f;
    hn_tensor *in[1] = {tensor_of(HN_F32, 0, NULL, NULL, &half)}, *out[1] = {NULL};
    EXPECT_ERROR(hn_module_run(m, in, 1, out, 1), HN_INVALID_ARGUMENT,
                 "input 'k' is an integer, got f32");
    hn_tensor_release(in[0]);
    hn_module_release(m);
}

/* Each relation, at its border; s1 is 9. */
TEST(guards_at_their_border) {
    static const struct {
        const char *guard;
        int64_t holds, breaks;
    } cases[] = {{"s0 < s1", 8, 9},  {"s0 <= s1", 9, 10}, {"s1 < s0", 10, 9},
                 {"s1 <= s0", 9, 8}, {"s0 == s1", 9, 8},  {"s0 != s1", 8, 9}};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        char text[256], message[64];
        snprintf(
            text, sizeof text,
            "symbol size s0 in [0, 64] symbol size s1 in [0, 64] guard %s \"why\" input \"k\" : int(s0) input \"n\" : int(s1) "
            "output scalar \"k\" : int(s0)",
            cases[k].guard);
        snprintf(message, sizeof message, "break the constraint %s: ", cases[k].guard);
        hn_module *m = load_text(text, NULL);
        for (int breaks = 0; m && breaks < 2; breaks++) {
            int64_t value = breaks ? cases[k].breaks : cases[k].holds, nine = 9;
            hn_tensor *in[2] = {tensor_of(HN_I64, 0, NULL, NULL, &value),
                                tensor_of(HN_I64, 0, NULL, NULL, &nine)},
                      *out[1] = {NULL};
            if (breaks) EXPECT_ERROR(hn_module_run(m, in, 2, out, 1), HN_INVALID_ARGUMENT, message);
            else EXPECT_OK(hn_module_run(m, in, 2, out, 1));
            hn_tensor_release(in[0]), hn_tensor_release(in[1]), hn_tensor_release(out[0]);
        }
        hn_module_release(m);
    }
}

/* Programs that no compiler of ours makes: what they would touch is beyond their memory for some
 * sizes. */
TEST(programs_that_reach_too_far) {
#define REACH_WITH(views)                                                                          \
    "symbol size s0 in [1, 64] hint 4 buffer b1 : input f32[s0] source 0 "                         \
    "buffer b2 : output f32[4] bytes(16) " views KERNELS                                           \
    "input \"x\" : f32[s0] strides [1] in b1 "
#define REACH REACH_WITH("")
    static const struct {
        const char *text, *message;
    } cases[] = {
        {REACH
         "call k4(b1 f32, out b2 f32 at(s0)) extent(1) output tensor \"a\" : f32[1] strides [1] in b2",
         "an operand starts beyond its buffer 2"},
        {REACH
         "call k4(b1 f32, out b2 f32) extent(1) output tensor \"a\" : f32[s0] strides [1] in b2",
         "output 'a' reaches beyond its buffer"},
        {REACH_WITH(
             "buffer b3 : view f32[1] ") "call k4(b1 f32, out b2 f32) extent(1) view b3 of b2 at(s0) output tensor \"a\" : f32[1] strides [1] in b3",
         "output 'a' reaches beyond its buffer"},
        {REACH
         "call k4(b1 f32, out b2 f32) extent(1) output mutation \"x\" target 0 : f32[4] strides [1] in b2",
         "the program changes the size of input 'x'"},
        /* what the walk itself reads, and what an operation reads: buffers of no bytes, and their
         * ends */
        {"symbol size s0 in [1, 64] hint 4 buffer b1 : input f32[s0] source 0 buffer b2 : output f32[4] bytes(16) buffer b3 : temp bool[0] bytes(0) " KERNELS
         "input \"x\" : f32[s0] strides [1] in b1 call k4(b1 f32, out b3 bool) extent(1) cond(b3 bool) { } else { }",
         "an operand of one element lies outside its buffer 3"},
        {REACH "assert(b1 bool at(4*s0))", "an operand of one element lies outside its buffer 1"},
        {REACH
         "extern matmul(out b2 f32, b1 f32, b1 f32 at(s0 - 3), none, none) params [1, 1, 1, 1, 2, 2, 2, "
         "0, 0, 0, 0, 2, 1, 0, 0, 0, 0, 2, 1, 0, 0, 0, 0, 2, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0] ",
         "operand 2 reaches beyond its buffer"},
        {REACH
         "extern matmul(out b2 f32, b1 f32, b1 f32 at(1), none, none) params [1, 1, 1, 1, 2, 2, 2, "
         "0, 0, 0, 0, 2, 1, 0, 0, 0, 0, -2, 1, 0, 0, 0, 0, 2, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0] ",
         "operand 2 reaches beyond its buffer"}};
    float x[8] = {0};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        program p;
        hn_strbuf image;
        hn_module *m = NULL;
        program_init(&p);
        hn_status status = program_image(&p, cases[k].text, NULL, &image);
        if (!status) status = hn_module_load_memory(image.ptr, image.len, false, NULL, &m);
        EXPECT_OK(status);
        hn_tensor *in[1] = {F32(x, 8)}, *out[1] = {NULL};
        if (m)
            EXPECT_ERROR(hn_module_run(m, in, 1, out, hn_module_output_count(m)), HN_CORRUPT,
                         cases[k].message);
        hn_tensor_release(in[0]);
        hn_module_release(m);
        hn_strbuf_deinit(&image);
        program_deinit(&p);
    }
}

TEST(expanded_inputs) {
    hn_module *m = load_text(
        "buffer b1 : input f32[4, 4] strides [0, 1] source 0 buffer b2 : output f32[4] bytes(16) " KERNELS
        "input \"x\" : f32[4, 4] strides [0, 1] in b1 call k4(b1 f32, out b2 f32) extent(4) "
        "output tensor \"a\" : f32[4] strides [1] in b2",
        NULL);
    float x[16] = {1, 2, 3, 4};
    hn_tensor *in[1] = {tensor_of(HN_F32, 2, (int64_t[]){4, 4}, (int64_t[]){0, 1}, x)},
              *out[1] = {NULL};
    EXPECT_OK(hn_module_run(m, in, 1, out, 1));
    EXPECT(((float *)hn_tensor_data(out[0]))[3] == 8);
    hn_tensor_release(in[0]), hn_tensor_release(out[0]);
    in[0] = F32(x, 4, 4), out[0] = NULL;
    EXPECT_ERROR(hn_module_run(m, in, 1, out, 1), HN_INVALID_ARGUMENT,
                 "input 'x' dimension 0 has stride 4, must be 0");
    hn_tensor_release(in[0]);
    hn_module_release(m);
}

TEST(conditionals_and_assertions) {
    hn_module *m = load_text(
        "buffer b1 : input f32[4] source 0 buffer b2 : input bool[] source 1 buffer b3 : input bool[] source 2 "
        "buffer b4 : temp f32[4] bytes(16) buffer b5 : output f32[4] bytes(16) " KERNELS
        "input \"x\" : f32[4] strides [1] in b1 input \"p\" : bool[] strides [] in b2 input \"ok\" : bool[] strides [] in b3 "
        "assert(b3 bool) origin 1 text \"x must be positive\" "
        "cond(b2 bool) { call k4(b1 f32, out b4 f32) extent(4) "
        "  cond(b3 bool) { call k4(b4 f32, out b5 f32) extent(4) } else { copy b5 from b1 } } "
        "else { copy b5 from b1 } "
        "output tensor \"a\" : f32[4] strides [1] in b5",
        NULL);
    float x[4] = {1, 2, 3, 4};
    uint8_t p = 1, ok = 1;
    hn_tensor *in[3] = {F32(x, 4), tensor_of(HN_BOOL, 0, NULL, NULL, &p),
                        tensor_of(HN_BOOL, 0, NULL, NULL, &ok)},
              *out[1] = {NULL};
    EXPECT_OK(hn_module_run(m, in, 3, out, 1));
    EXPECT(((float *)hn_tensor_data(out[0]))[3] == 16);
    hn_tensor_release(out[0]), out[0] = NULL, p = 0;
    EXPECT_OK(hn_module_run(m, in, 3, out, 1));
    EXPECT(((float *)hn_tensor_data(out[0]))[3] == 4);
    hn_tensor_release(out[0]), out[0] = NULL, ok = 0;
    EXPECT_ERROR(hn_module_run(m, in, 3, out, 1), HN_INVALID_ARGUMENT,
                 "node 'node_one' (model.py:12): assertion failed: x must be positive");
    for (int i = 0; i < 3; i++) hn_tensor_release(in[i]);
    hn_module_release(m);
}

static hn_tensor *flag(const uint8_t *truth) {
    return tensor_of(HN_BOOL, 0, NULL, NULL, (void *)truth);
}

/* Doubles x while the first of three bools is true; then the next takes its place. */
TEST(loops_with_a_test) {
    hn_module *m = load_text(
        "buffer b1 : input f32[4] source 0 buffer b2 : input bool[] source 1 buffer b3 : input bool[] source 2 "
        "buffer b4 : input bool[] source 3 buffer b5 : temp bool[] bytes(1) buffer b6 : temp bool[] bytes(1) "
        "buffer b7 : temp f32[4] bytes(16) buffer b8 : output f32[4] bytes(16) " KERNELS
        "input \"x\" : f32[4] strides [1] in b1 input \"p\" : bool[] strides [] in b2 "
        "input \"q\" : bool[] strides [] in b3 input \"r\" : bool[] strides [] in b4 "
        "copy b8 from b1 copy b5 from b2 copy b6 from b3 "
        "loop { call k4(b8 f32, out b7 f32) extent(4) } while (b5 bool) { "
        "  copy b8 from b7 copy b5 from b6 copy b6 from b4 } "
        "output tensor \"a\" : f32[4] strides [1] in b8",
        NULL);
    static const uint8_t truths[][3] = {{0, 1, 0}, {1, 0, 0}, {1, 1, 0}};
    float x[4] = {1, 2, 3, 4};
    for (int rounds = 0; rounds < 3; rounds++) {
        hn_tensor *in[4] = {F32(x, 4), flag(&truths[rounds][0]), flag(&truths[rounds][1]),
                            flag(&truths[rounds][2])},
                  *out[1] = {NULL};
        EXPECT_OK(hn_module_run(m, in, 4, out, 1));
        if (out[0]) EXPECT(((float *)hn_tensor_data(out[0]))[3] == (float)(4 << rounds));
        hn_tensor_release(out[0]);
        for (int i = 0; i < 4; i++) hn_tensor_release(in[i]);
    }
    hn_module_release(m);
}

/* A number of the data in each round: as many elements are doubled twice, in memory that grows. The
 * second run finds other numbers. */
TEST(loops_with_sizes_of_the_data) {
    hn_module *m = load_text(
        "symbol data u0 in [0, 1000000] hint 8 "
        "buffer b1 : input f32[50000] source 0 buffer b2 : input i64[] source 1 buffer b3 : input i64[] source 2 "
        "buffer b4 : input i64[] source 3 buffer b5 : temp i64[] bytes(8) buffer b6 : temp i64[] bytes(8) "
        "buffer b7 : temp f32[u0] bytes(4*u0) buffer b8 : output f32[50000] bytes(200000) " KERNELS
        "input \"x\" : f32[50000] strides [1] in b1 input \"l\" : i64[] strides [] in b2 "
        "input \"m\" : i64[] strides [] in b3 input \"n\" : i64[] strides [] in b4 "
        "copy b8 from b1 copy b5 from b2 copy b6 from b3 "
        "loop rounds(3) { define(b5 i64) symbol(u0) call k4(b8 f32, out b7 f32) extent(u0) "
        "  call k4(b7 f32, out b8 f32) extent(u0) copy b5 from b6 copy b6 from b4 } "
        "output tensor \"a\" : f32[50000] strides [1] in b8",
        NULL);
    static const int64_t counts[][3] = {{2, 50000, 7}, {40000, 0, 3}, {2, 3, 50000}};
    static float x[50000];
    for (int k = 0; k < 50000; k++) x[k] = 1;
    for (int run = 0; run < 3; run++) {
        hn_tensor *in[4] = {F32(x, 50000)}, *out[1] = {NULL};
        for (int k = 0; k < 3; k++)
            in[1 + k] = tensor_of(HN_I64, 0, NULL, NULL, (void *)&counts[run][k]);
        EXPECT_OK(hn_module_run(m, in, 4, out, 1));
        for (int i = 0; out[0] && i < 50000; i++) {
            float want = 1;
            for (int k = 0; k < 3; k++) want *= i < counts[run][k] ? 4 : 1;
            if (((float *)hn_tensor_data(out[0]))[i] != want) {
                EXPECT(((float *)hn_tensor_data(out[0]))[i] == want);
                break;
            }
        }
        hn_tensor_release(out[0]);
        for (int i = 0; i < 4; i++) hn_tensor_release(in[i]);
    }
    hn_module_release(m);
}

/* Rounds that a size tells, also none; a loop in a loop; a loop in a branch. */
TEST(loops_of_some_rounds) {
    hn_module *m = load_text(
        "symbol size s0 in [0, 64] hint 4 buffer b1 : input f32[1] source 0 buffer b2 : input f32[s0] source 1 "
        "buffer b3 : input bool[] source 2 buffer b4 : temp f32[1] bytes(4) buffer b5 : output f32[1] bytes(4) " KERNELS
        "input \"x\" : f32[1] strides [1] in b1 input \"n\" : f32[s0] strides [1] in b2 "
        "input \"p\" : bool[] strides [] in b3 copy b5 from b1 "
        "loop rounds(s0) { call k4(b5 f32, out b4 f32) extent(1) copy b5 from b4 "
        "  loop rounds(s0 - 3) { call k4(b5 f32, out b4 f32) extent(1) copy b5 from b4 } } "
        "cond(b3 bool) { loop rounds(2) { call k4(b5 f32, out b4 f32) extent(1) copy b5 from b4 } } else { } "
        "output tensor \"a\" : f32[1] strides [1] in b5",
        NULL);
    float x[1] = {1}, sizes[8] = {0};
    for (int k = 0; k < 12; k++) {
        const int n = k / 2;
        const uint8_t is_taken = (uint8_t)(k % 2);
        const int rounds = n + (n > 3 ? n * (n - 3) : 0) + 2 * is_taken;
        hn_tensor *in[3] = {F32(x, 1), F32(sizes, n), flag(&is_taken)}, *out[1] = {NULL};
        EXPECT_OK(hn_module_run(m, in, 3, out, 1));
        if (out[0]) EXPECT(((float *)hn_tensor_data(out[0]))[0] == (float)(1 << rounds));
        hn_tensor_release(out[0]);
        for (int i = 0; i < 3; i++) hn_tensor_release(in[i]);
    }
    hn_module_release(m);
}

TEST(externs_and_libm) {
    /* exp(x) @ w with w constant: what is packed is packed once for all shapes and contexts. */
    const float weight[6] = {1, 0, 0, 1, 2, 3}; /* [3, 2] */
    hn_module *m = load_with_weight(
        "symbol size s0 in [1, none] buffer b1 : input f32[s0, 3] strides [3, 1] source 0 buffer b2 : constant f32[3, 2] source 1 "
        "buffer b3 : temp f32[3*s0] bytes(12*s0) buffer b4 : output f32[2*s0] bytes(8*s0) " KERNELS
        "input \"x\" : f32[s0, 3] strides [3, 1] in b1 call k5(b1 f32, out b3 f32) extent(3*s0) "
        "extern matmul(out b4 f32, b3 f32, b2 f32, none, none) params [1, 1, 1, 1, s0, 2, 3, 0, 0, 0, 0, 3, 1, 0, 0, 0, 0, 2, 1, "
        "0, 0, 0, 0, 2, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0] "
        "output tensor \"z\" : f32[s0, 2] strides [2, 1] in b4",
        weight, 6, HN_INPUT_PARAMETER);
    float x[6] = {0, 1, 2, 2, 1, 0};
    for (int64_t n = 1; n <= 2; n++) {
        hn_tensor *in[1] = {F32(x, n, 3)}, *out[1] = {NULL};
        EXPECT_OK(hn_module_run(m, in, 1, out, 1));
        const float *z = out[0] ? hn_tensor_data(out[0]) : NULL;
        for (int64_t i = 0; z && i < n; i++) {
            double a = exp((double)x[3 * i]), b = exp((double)x[3 * i + 1]),
                   c = exp((double)x[3 * i + 2]);
            EXPECT_NEAR(z[2 * i], a + 2 * c, 1e-5); /* a few f32 roundings of values near 15 */
            EXPECT_NEAR(z[2 * i + 1], b + 3 * c, 1e-5);
        }
        hn_tensor_release(in[0]), hn_tensor_release(out[0]);
    }
    hn_module_release(m);
}

/* ---- memory of outputs ---- */

TEST(large_outputs_are_used_again) {
    hn_module *m = load_text(
        "symbol size s0 in [1, none] buffer b1 : input f32[s0] source 0 buffer b2 : output f32[s0] bytes(4*s0) " KERNELS
        "input \"x\" : f32[s0] strides [1] in b1 call k4(b1 f32, out b2 f32) extent(s0) "
        "output tensor \"z\" : f32[s0] strides [1] in b2",
        NULL);
    int64_t n = 1 << 20;
    float *x = calloc((size_t)n, sizeof *x);
    hn_tensor *in[1] = {F32(x, n)}, *first[1] = {NULL}, *second[1] = {NULL}, *third[1] = {NULL};
    EXPECT_OK(hn_module_run(m, in, 1, first, 1));
    EXPECT_OK(hn_module_run(m, in, 1, second, 1));
    void *data = hn_tensor_data(first[0]);
    EXPECT(data != hn_tensor_data(second[0]));
    hn_tensor_release(first[0]);
    EXPECT_OK(hn_module_run(m, in, 1, third, 1));
    EXPECT(hn_tensor_data(third[0]) == data);
    hn_tensor_release(in[0]);
    /* too small for a block of twice the size, which is given back to the system */
    in[0] = F32(x, n / 2);
    hn_tensor_release(third[0]), third[0] = NULL;
    EXPECT_OK(hn_module_run(m, in, 1, third, 1));
    hn_module_release(m);
    hn_tensor_release(second[0]), hn_tensor_release(third[0]), hn_tensor_release(in[0]);
    free(x);
}

/* ---- threads ---- */

typedef struct caller {
    hn_module *m;
    int64_t rows;
    int failures;
} caller;

static void *call_often(void *user) {
    caller *c = user;
    float x[64 * 4], y[64 * 4];
    for (int i = 0; i < 256; i++) x[i] = (float)(i + c->rows), y[i] = (float)c->rows;
    for (int round = 0; round < 200; round++) {
        int64_t rows = 1 + (c->rows + round) % 12;
        hn_tensor *in[2] = {F32(x, rows, 4), F32(y, rows, 4)}, *out[1] = {NULL};
        hn_status status = hn_module_run(c->m, in, 2, out, 1);
        const float *z = out[0] ? hn_tensor_data(out[0]) : NULL;
        for (int64_t i = 0; z && i < 4 * rows; i++) c->failures += z[i] != (float)(i + 3 * c->rows);
        c->failures += status != NULL;
        hn_status_free(status);
        hn_tensor_release(in[0]), hn_tensor_release(in[1]), hn_tensor_release(out[0]);
    }
    return NULL;
}

TEST(many_threads) {
    hn_module *m = load_text(add_twice, &(hn_module_options){.threads = 1, .profile = true});
    caller callers[6];
    pthread_t threads[6];
    for (int i = 0; i < 6; i++) {
        callers[i] = (caller){.m = hn_module_retain(m), .rows = i + 1};
        EXPECT_INT(pthread_create(&threads[i], NULL, call_often, &callers[i]), 0);
    }
    for (int i = 0; i < 6; i++) {
        pthread_join(threads[i], NULL);
        EXPECT_INT(callers[i].failures, 0);
        hn_module_release(m);
    }
    hn_module_stats stats;
    hn_module_step_profile profile;
    hn_module_stats_get(m, &stats);
    EXPECT_INT(stats.runs, 1200);
    EXPECT(stats.contexts <= 6);
    EXPECT_OK(hn_module_profile(m, 1, &profile));
    EXPECT_INT(profile.calls, 1200);
    EXPECT_STR(profile.name, "add");
    EXPECT_STR(profile.origin, "node_one");
    EXPECT(profile.min_ns >= 0 && profile.total_ns >= profile.min_ns);
    hn_module_release(m);
}

TEST_MAIN
