/* test_cuda_tensors.c: inputs and outputs in memory of the device, and streams of the caller's, on
 * the stand-in for CUDA's driver. */
#include "unit/runtime/cuda_caller.h"

static bool is_scaled(const float *y, const float *x) {
    for (int k = 0; k < 4; k++)
        if (y[k] != 4 * x[k]) return false;
    return true;
}

TEST(memory_of_the_device_is_used_in_place) {
    caller c;
    const float x[4] = {1, 2, 3, 4};
    float y[4] = {0};
    hn_module_stats stats;
    if (!begin(&c)) return;
    hn_module *m = load_text(SCALED, NULL);
    if (!m) return;
    const hn_cuda_address a = take(&c, 16), b = take(&c, 16);
    put(&c, a, x, sizeof x);
    EXPECT_INT(c.cuda.cuStreamSynchronize(c.stream), 0);
    hn_tensor *in[1] = {there(a, 4, 1, 0)}, *out[1] = {there(b, 4, 1, 0)};
    for (int k = 0; k < 3; k++) EXPECT_OK(hn_module_run(m, in, 1, out, 1));
    get(&c, y, b, sizeof y);
    EXPECT(is_scaled(y, x));
    hn_module_stats_get(m, &stats);
    EXPECT(stats.bytes_to_device == 0 && stats.bytes_from_device == 0);
    /* one on the device, one on the host */
    hn_tensor *host[1] = {NULL};
    EXPECT_OK(hn_module_run(m, in, 1, host, 1));
    if (host[0]) EXPECT(is_scaled(hn_tensor_data(host[0]), x));
    hn_tensor_release(host[0]);
    float x2[4] = {5, 6, 7, 8};
    hn_tensor *in2[1] = {F32(x2, 4)};
    EXPECT_OK(hn_module_run(m, in2, 1, out, 1));
    get(&c, y, b, sizeof y);
    EXPECT(is_scaled(y, x2));
    hn_tensor_release(in[0]), hn_tensor_release(in2[0]), hn_tensor_release(out[0]);
    (void)c.cuda.cuMemFree(a), (void)c.cuda.cuMemFree(b);
    end(&c, m);
}

/* Addresses that are less aligned than kernels expect: inputs are copied, on the device. */
TEST(alignment) {
    caller c;
    const float x[4] = {1, 2, 3, 4};
    if (!begin(&c)) return;
    hn_module *m = load_text(SCALED, NULL);
    if (!m) return;
    const hn_cuda_address a = take(&c, 64);
    put(&c, a + 4, x, sizeof x);
    EXPECT_INT(c.cuda.cuStreamSynchronize(c.stream), 0);
    hn_tensor *in[1] = {there(a + 4, 4, 1, 0)}, *odd[1] = {there(a + 32, 4, 1, 0)},
              *out[1] = {NULL};
    EXPECT_OK(hn_module_run(m, in, 1, out, 1));
    if (out[0]) EXPECT(is_scaled(hn_tensor_data(out[0]), x));
    EXPECT_ERROR(hn_module_run(m, in, 1, odd, 1), HN_UNSUPPORTED,
                 "the tensor given for output 0 on cuda:0 cannot take the result");
    hn_tensor_release(in[0]), hn_tensor_release(odd[0]), hn_tensor_release(out[0]);
    (void)c.cuda.cuMemFree(a);
    end(&c, m);
}

TEST(what_is_refused) {
    caller c;
    float x[4] = {1, 2, 3, 4};
    if (!begin(&c)) return;
    hn_module *m = load_text(SCALED, NULL);
    if (!m) return;
    const hn_cuda_address a = take(&c, 64);
    hn_tensor *strided[1] = {there(a, 4, 2, 0)}, *other[1] = {there(a, 4, 1, 1)}, *out[1] = {NULL},
              *host[1] = {F32(x, 4)};
    EXPECT_ERROR(hn_module_run(m, strided, 1, out, 1), HN_UNSUPPORTED,
                 "input 'x' is on cuda:0 in another layout than the recorded one");
    EXPECT_ERROR(hn_module_run(m, other, 1, out, 1), HN_UNSUPPORTED,
                 "input 'x' is on cuda:1; give it on cpu");
    EXPECT_ERROR(hn_module_run(m, host, 1, strided, 1), HN_UNSUPPORTED,
                 "the tensor given for output 0 on cuda:0 cannot take the result");
    EXPECT_ERROR(hn_module_run(m, host, 1, other, 1), HN_UNSUPPORTED,
                 "the tensor given for output 0 is on cuda:1; give one on cpu");
    EXPECT(!out[0]);
    hn_tensor_release(strided[0]), hn_tensor_release(other[0]), hn_tensor_release(host[0]);
    (void)c.cuda.cuMemFree(a);
    end(&c, m);
}

/* Its address is no memory; a kernel that finds an index outside reads there all the same. */
TEST(an_input_without_elements) {
    caller c;
    int64_t index[4] = {0}, count = 4;
    float y[4];
    if (!begin(&c)) return;
    hn_module *m =
        load_text("symbol size s0 in [0, 64] hint 4 buffer b1 : input f32[s0] source 0 "
                  "buffer b2 : input i64[4] source 1 buffer b3 : output f32[4] bytes(16) " KERNELS
                  "input \"x\" : f32[s0] strides [1] in b1 input \"i\" : i64[4] strides [1] in b2 "
                  "call k3(b1 f32, b2 i64, out b3 f32) params [s0] extent(4) "
                  "output tensor \"y\" : f32[4] strides [1] in b3",
                  NULL);
    if (!m) return;
    const hn_cuda_address a = take(&c, 64);
    hn_tensor *in[2] = {there(a + 64, 0, 1, 0)}, *out[1] = {F32(y, 4)};
    EXPECT_OK(hn_tensor_create(
        &(hn_tensor_desc){.type = HN_I64, .rank = 1, .sizes = &count, .data = index}, &in[1]));
    EXPECT_ERROR(hn_module_run(m, in, 2, out, 1), HN_INVALID_ARGUMENT, "");
    hn_tensor_release(in[0]), hn_tensor_release(in[1]), hn_tensor_release(out[0]);
    (void)c.cuda.cuMemFree(a);
    end(&c, m);
}

/* Kernels are compiled for memory that is apart. */
TEST(outputs_on_inputs) {
    caller c;
    if (!begin(&c)) return;
    hn_module *m = load_text(SCALED, NULL);
    if (!m) return;
    const hn_cuda_address a = take(&c, 256);
    put(&c, a, (float[4]){1, 2, 3, 4}, 16);
    EXPECT_INT(c.cuda.cuStreamSynchronize(c.stream), 0);
    hn_tensor *in[1] = {there(a, 4, 1, 0)}, *behind[1] = {there(a + 64, 4, 1, 0)};
    EXPECT_ERROR(
        hn_module_run(m, in, 1, in, 1), HN_INVALID_ARGUMENT,
        "a tensor given for an output on cuda overlaps with an input or with another output");
    EXPECT_OK(hn_module_run(m, in, 1, behind, 1));
    hn_tensor_release(in[0]), hn_tensor_release(behind[0]);
    (void)c.cuda.cuMemFree(a);
    end(&c, m);
}

/* An output that is an input, and an input that the program changes, are the host's. */
TEST(inputs_that_the_host_needs) {
    caller c;
    if (!begin(&c)) return;
    hn_module *m = load_text(
        "buffer b1 : input f32[4] source 0 buffer b2 : output f32[4] bytes(16) " KERNELS
        "input \"x\" : f32[4] strides [1] in b1 call k4(b1 f32, out b2 f32) extent(4) "
        "output tensor \"y\" : f32[4] strides [1] in b2 output tensor \"z\" : f32[4] strides [1] in b1",
        NULL);
    if (!m) return;
    const hn_cuda_address a = take(&c, 64);
    hn_tensor *in[1] = {there(a, 4, 1, 0)}, *out[2] = {NULL, NULL};
    EXPECT_ERROR(hn_module_run(m, in, 1, out, 2), HN_UNSUPPORTED,
                 "input 'x' is on cuda:0, but this program reads or writes it on cpu, too");
    hn_tensor_release(in[0]);
    (void)c.cuda.cuMemFree(a);
    end(&c, m);
}

/* Work of the caller's before and behind the run, in a stream of its own or in one of CUDA's
 * default streams: with a run that is begun and ended, which the host waits for at its end, or one
 * that is not. */
typedef struct way {
    uintptr_t stream; /* NULL, CU_STREAM_LEGACY, CU_STREAM_PER_THREAD */
    bool is_own, has_graphs, is_begun;
} way;

static hn_status run_and_read(const caller *c, const way *w, hn_module *m, hn_tensor *in,
                              hn_tensor *out, hn_cuda_address copy, float *y) {
    const hn_run_options options = {.has_stream = true, .stream = c->stream};
    hn_run *run = NULL;
    if (w->is_begun) HN_TRY(hn_run_begin(m, &options, &in, 1, &out, 1, &run));
    else HN_TRY(hn_module_run_with(m, &options, &in, 1, &out, 1));
    EXPECT_INT(
        c->cuda.cuMemcpyDtoDAsync(copy, (uintptr_t)hn_tensor_data(out), 4 * sizeof *y, c->stream),
        0);
    get(c, y, copy, 4 * sizeof *y);
    return hn_run_end(run);
}

static void run_in_stream(way w) {
    caller c;
    float x[4], y[4] = {0};
    if (!begin(&c)) return;
    hn_module *m = load_text(SCALED, &(hn_module_options){.device_graphs = w.has_graphs});
    if (!m) return;
    hn_cuda_stream own = c.stream;
    if (!w.is_own) c.stream = (hn_cuda_stream)w.stream;
    for (int k = 0; k < 5; k++) {
        const hn_cuda_address a = take(&c, 16), b = take(&c, 16), d = take(&c, 16);
        hn_tensor *in = there(a, 4, 1, 0), *out = there(b, 4, 1, 0);
        for (int e = 0; e < 4; e++) x[e] = (float)(10 * k + e);
        put(&c, a, x, sizeof x);
        EXPECT_OK(run_and_read(&c, &w, m, in, out, d, y));
        EXPECT(is_scaled(y, x));
        hn_tensor_release(in), hn_tensor_release(out);
        (void)c.cuda.cuMemFree(a), (void)c.cuda.cuMemFree(b), (void)c.cuda.cuMemFree(d);
    }
    /* from the second change of addresses on there is another graph */
    if (w.has_graphs) EXPECT(c.standin->instantiations == 3 && c.standin->captures == 1);
    c.stream = own;
    end(&c, m);
}

TEST(a_stream_of_the_caller) {
    run_in_stream((way){.is_own = true, .is_begun = true});
    run_in_stream((way){.is_own = true});
}
TEST(the_default_stream) {
    for (uintptr_t stream = 0; stream < 2; stream++) {
        run_in_stream((way){.stream = stream, .is_begun = true});
        run_in_stream((way){.stream = stream});
    }
}
TEST(the_default_stream_of_the_thread) {
    run_in_stream((way){.stream = 2, .is_begun = true});
    run_in_stream((way){.stream = 2});
}
TEST(graphs_get_addresses_of_the_caller) {
    run_in_stream((way){.is_own = true, .is_begun = true, .has_graphs = true});
}

TEST_MAIN
