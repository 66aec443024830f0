/* test_cuda_outputs.c: outputs that stay on the device (device_outputs of hn_run_options), on the
 * stand-in for CUDA's driver. */
#include "unit/runtime/cuda_caller.h"

#include "henry/dlpack.h"

static const hn_run_options stay = {.device_outputs = true};

/* Copies to the host, by the caller. */
static void fetch(const caller *c, const hn_tensor *t, void *out) {
    const size_t bytes = (size_t)hn_tensor_numel(t) * hn_scalar_type_bytes(hn_tensor_type(t));
    if (bytes) get(c, out, (uintptr_t)hn_tensor_data(t), bytes);
}

static bool is_there(const hn_tensor *t) {
    return t && hn_tensor_device(t).kind == HN_DEVICE_CUDA && !hn_tensor_device(t).number;
}

static void expect_numbers(const caller *c, const hn_tensor *t, int count, float first,
                           float step) {
    float y[16] = {0};
    EXPECT(is_there(t));
    if (!is_there(t)) return;
    EXPECT_INT(hn_tensor_numel(t), count);
    fetch(c, t, y);
    for (int k = 0; k < count; k++) EXPECT(y[k] == first + step * (float)k);
}

/* Whether the driver was asked for memory since the list of calls was set to be empty. */
static bool has_allocated(const caller *c) {
    for (long k = 0; k < c->standin->logged && k < CUDA_STANDIN_LOG; k++)
        if (strncmp(c->standin->log[k], "cuMemAlloc", 10) == 0) return true;
    return false;
}

/* What one module leaves on the device is what the next one reads, and nothing is copied. */
TEST(a_chain_of_modules_without_copies) {
    caller c;
    float x[4] = {1, 2, 3, 4};
    hn_module_stats stats;
    if (!begin(&c)) return;
    hn_module *m[2] = {load_text(SCALED, NULL), load_text(SCALED, NULL)};
    if (!m[0] || !m[1]) return;
    const hn_cuda_address a = take(&c, 16);
    put(&c, a, x, sizeof x);
    EXPECT_INT(c.cuda.cuStreamSynchronize(c.stream), 0);
    hn_tensor *in = there(a, 4, 1, 0), *between = NULL, *out = NULL;
    for (int k = 0; k < 4; k++) {
        const long copies = c.standin->copies, memories = c.standin->memories;
        EXPECT_OK(hn_module_run_with(m[0], &stay, &in, 1, &between, 1));
        EXPECT_OK(hn_module_run_with(m[1], &stay, &between, 1, &out, 1));
        EXPECT_INT(c.standin->copies, copies);
        if (k) EXPECT_INT(c.standin->memories, memories); /* that of the run before */
        expect_numbers(&c, out, 4, 16, 16);
        hn_tensor_release(between), hn_tensor_release(out);
        between = out = NULL;
    }
    hn_module_stats_get(m[0], &stats);
    EXPECT(stats.bytes_to_device == 0 && stats.bytes_from_device == 0);
    hn_tensor_release(in);
    (void)c.cuda.cuMemFree(a);
    hn_module_release(m[1]);
    end(&c, m[0]);
}

/* Memory of another library in, of ours out. */
TEST(tensors_of_dlpack) {
    caller c;
    float x[4] = {1, 2, 3, 4}, y[4] = {0};
    int64_t four = 4;
    if (!begin(&c)) return;
    hn_module *m = load_text(SCALED, NULL);
    if (!m) return;
    const hn_cuda_address a = take(&c, 80);
    put(&c, a + 64, x, sizeof x);
    EXPECT_INT(c.cuda.cuStreamSynchronize(c.stream), 0);
    DLManagedTensorVersioned given = {.version = {1, 0},
                                      .flags = DLPACK_FLAG_BITMASK_READ_ONLY,
                                      .dl_tensor = {.data = (void *)(uintptr_t)a,
                                                    .device = {kDLCUDA, 0},
                                                    .ndim = 1,
                                                    .dtype = {kDLFloat, 32, 1},
                                                    .shape = &four,
                                                    .byte_offset = 64}};
    DLManagedTensorVersioned *result = NULL;
    hn_tensor *in = NULL, *out = NULL;
    EXPECT_OK(hn_tensor_from_dlpack_versioned(&given, &in));
    EXPECT_OK(hn_module_run_with(m, &stay, &in, 1, &out, 1));
    EXPECT_OK(hn_tensor_to_dlpack_versioned(out, &result));
    hn_tensor_release(in), hn_tensor_release(out);
    if (!result) return;
    EXPECT(result->dl_tensor.device.device_type == kDLCUDA && !result->dl_tensor.device.device_id);
    get(&c, y, (uintptr_t)result->dl_tensor.data, sizeof y);
    EXPECT(y[0] == 4 && y[3] == 16);
    result->deleter(result);
    (void)c.cuda.cuMemFree(a);
    end(&c, m);
}

/* They live on without the module. */
TEST(outputs_outlive_their_module) {
    caller c;
    float x[4] = {1, 2, 3, 4};
    hn_tensor *out = NULL;
    if (!begin(&c)) return;
    hn_module *m = load_text(SCALED, NULL);
    if (!m) return;
    hn_tensor *in = F32(x, 4);
    EXPECT_OK(hn_module_run_with(m, &stay, &in, 1, &out, 1));
    hn_module_release(m);
    expect_numbers(&c, out, 4, 4, 4);
    hn_tensor_release(in), hn_tensor_release(out);
    end(&c, NULL);
}

/* An output buffer with a part of it, a view of the input, a weight, an intermediate, a number. */
#define MANY                                                                                                    \
    "buffer b1 : input f32[4] source 0 buffer b2 : constant f32[4] source 1 buffer b3 : temp f32[4] bytes(16) " \
    "buffer b4 : output f32[4] bytes(16) buffer b5 : view f32[2] buffer b6 : view f32[2] strides [2] " KERNELS  \
    "input \"x\" : f32[4] strides [1] in b1 "                                                                   \
    "call k1(b1 f32, b2 f32, out b3 f32) extent(4) call k4(b3 f32, out b4 f32) extent(4) "                      \
    "view b5 of b4 at(2) view b6 of b1 at(1) "                                                                  \
    "output tensor \"y\" : f32[4] strides [1] in b4 output tensor \"part\" : f32[2] strides [1] in b5 "         \
    "output tensor \"x2\" : f32[2] strides [2] in b6 output tensor \"w\" : f32[4] strides [1] in b2 "           \
    "output tensor \"t\" : f32[4] strides [1] in b3 output scalar \"n\" : int(5) output tensor \"none\" : f32[0] strides [1] in b4"

TEST(all_kinds_of_outputs) {
    caller c;
    static const float w[4] = {10, 20, 30, 40};
    const fixture_weight weight = {"w", HN_INPUT_PARAMETER, HN_DTYPE_F32, 4, w};
    float x[4] = {1, 2, 3, 4}, given[4] = {0};
    hn_tensor *out[7];
    if (!begin(&c)) return;
    hn_module *m = load_weights(MANY, &weight, 1, NULL);
    if (!m) return;
    hn_tensor *in = F32(x, 4);
    for (int k = 0; k < 3; k++) {
        for (int o = 0; o < 7; o++) out[o] = NULL;
        if (k == 2) out[0] = F32(given, 4); /* the rest of the same buffer stays */
        c.standin->logged = 0;
        EXPECT_OK(hn_module_run_with(m, &stay, &in, 1, out, 7));
        if (k == 1) EXPECT(!has_allocated(&c)); /* what was copied is kept, too */
        if (k < 2) expect_numbers(&c, out[0], 4, 22, 22);
        else EXPECT(given[0] == 22 && given[3] == 88);
        expect_numbers(&c, out[1], 2, 66, 22);
        EXPECT(is_there(out[2]) && hn_tensor_strides(out[2])[0] == 2);
        float strided[3] = {0};
        get(&c, strided, (uintptr_t)hn_tensor_data(out[2]), sizeof strided);
        EXPECT(strided[0] == 2 && strided[2] == 4);
        expect_numbers(&c, out[3], 4, 10, 10);
        expect_numbers(&c, out[4], 4, 11, 11);
        EXPECT_INT(*(int64_t *)hn_tensor_data(out[5]), 5);
        EXPECT(is_there(out[6]) && hn_tensor_numel(out[6]) == 0);
        for (int o = 0; o < 7; o++) hn_tensor_release(out[o]);
    }
    hn_tensor_release(in);
    end(&c, m);
}

/* What the program changes of its inputs is written all the same. */
TEST(with_a_mutation) {
    caller c;
    float x[4] = {1, 2, 3, 4};
    hn_tensor *out = NULL;
    if (!begin(&c)) return;
    hn_module *m = load_text(
        "buffer b1 : input f32[4] source 0 buffer b2 : output f32[4] bytes(16) " KERNELS
        "input \"x\" : f32[4] strides [1] in b1 call k4(b1 f32, out b2 f32) extent(4) "
        "output mutation \"x\" target 0 : f32[4] strides [1] in b2 output tensor \"y\" : f32[4] strides [1] in b2",
        NULL);
    if (!m) return;
    hn_tensor *in = F32(x, 4);
    EXPECT_OK(hn_module_run_with(m, &stay, &in, 1, &out, 1));
    EXPECT(x[0] == 2 && x[3] == 8);
    expect_numbers(&c, out, 4, 2, 2);
    hn_tensor_release(in), hn_tensor_release(out);
    end(&c, m);
}

/* Their size is told by the data. */
TEST(sizes_from_data) {
    caller c;
    uint8_t mask[8] = {1, 0, 0, 1, 1, 0, 1, 0};
    float x[8] = {0, 1, 2, 3, 4, 5, 6, 7}, y[4];
    const int64_t n = 8;
    hn_tensor *out[1] = {NULL};
    if (!begin(&c)) return;
    hn_module *m = load_text(
        "symbol data u0 in [0, 600] buffer b1 : input bool[8] source 0 buffer b2 : input f32[8] source 1 "
        "buffer b3 : temp i64[1] bytes(8) buffer b4 : temp i64[u0] bytes(8*u0) buffer b5 : output f32[u0] bytes(4*u0) " KERNELS
        "input \"m\" : bool[8] strides [1] in b1 input \"x\" : f32[8] strides [1] in b2 "
        "call k7(b1 bool, out b3 i64) params [8] extent(1) define(b3 i64) symbol(u0) origin 1 "
        "extern nonzero(out b4 i64, b1 bool) params [u0, 1, 8, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1] "
        "call k3(b2 f32, b4 i64, out b5 f32) params [8] extent(u0) grain 16 "
        "output tensor \"y\" : f32[u0] strides [1] in b5",
        NULL);
    if (!m) return;
    hn_tensor *in[2] = {tensor_of(HN_BOOL, 1, &n, NULL, mask), F32(x, 8)};
    for (int k = 0; k < 2; k++) {
        EXPECT_OK(hn_module_run_with(m, &stay, in, 2, out, 1));
        EXPECT(is_there(out[0]) && hn_tensor_numel(out[0]) == 4);
        if (is_there(out[0])) fetch(&c, out[0], y);
        EXPECT(y[0] == 0 && y[1] == 3 && y[2] == 4 && y[3] == 6);
        hn_tensor_release(out[0]);
        out[0] = NULL;
    }
    hn_tensor_release(in[0]), hn_tensor_release(in[1]);
    end(&c, m);
}

#define ANY_SIZE                                                                                                   \
    "symbol size s0 in [1, 64] buffer b1 : input f32[s0] source 0 buffer b2 : output f32[s0] bytes(4*s0) " KERNELS \
    "input \"x\" : f32[s0] strides [1] in b1 call k4(b1 f32, out b2 f32) extent(s0) "                              \
    "output tensor \"y\" : f32[s0] strides [1] in b2"

/* Work of the caller's that reads an output has been given to the stream, and is not done, when the
 * output is released. Then its memory is used again by a run of the same size. The stand-in does
 * work late. */
TEST(memory_is_used_again_behind_the_callers_work) {
    caller c;
    float x[2][64], y[64] = {0};
    if (!begin(&c)) return;
    hn_module *m = load_text(ANY_SIZE, NULL);
    if (!m) return;
    const hn_run_options first = {.device_outputs = true, .has_stream = true, .stream = c.stream};
    const hn_cuda_address copy = take(&c, sizeof y);
    for (int k = 0; k < 64; k++) x[0][k] = (float)k, x[1][k] = (float)-k;
    hn_tensor *in[2] = {F32(x[0], 64), F32(x[1], 64)}, *out[2] = {NULL};
    EXPECT_OK(hn_module_run_with(m, &first, &in[0], 1, &out[0], 1));
    if (!out[0]) return;
    const void *at = hn_tensor_data(out[0]);
    EXPECT_INT(c.cuda.cuMemcpyDtoDAsync(copy, (uintptr_t)at, sizeof y, c.stream), 0);
    hn_tensor_release(out[0]);
    EXPECT_OK(hn_module_run_with(m, &stay, &in[1], 1, &out[1], 1));
    EXPECT(out[1] && hn_tensor_data(out[1]) == at);
    hn_tensor_release(out[1]);
    get(&c, y, copy, sizeof y);
    for (int k = 0; k < 64; k++) EXPECT(y[k] == 2 * x[0][k]);
    hn_tensor_release(in[0]), hn_tensor_release(in[1]);
    (void)c.cuda.cuMemFree(copy);
    end(&c, m);
}

/* Two outputs are more than a call makes, so the memory of one goes back, also behind that work:
 * but whoever wants memory meanwhile waits for it only if there is no other. */
static void free_early(bool is_little) {
    caller c;
    float x[64], y[2][64] = {{0}};
    hn_cuda_event done = NULL;
    if (!begin(&c)) return;
    hn_module *m = load_text(ANY_SIZE, NULL);
    if (!m) return;
    const hn_run_options first = {.device_outputs = true, .has_stream = true, .stream = c.stream};
    const hn_cuda_address copy = take(&c, sizeof y);
    for (int k = 0; k < 64; k++) x[k] = (float)k;
    hn_tensor *in[2] = {F32(x, 64), F32(x, 32)}, *out[2] = {NULL};
    for (int k = 0; k < 2; k++) {
        EXPECT_OK(hn_module_run_with(m, &first, &in[0], 1, &out[k], 1));
        if (!out[k]) return;
        EXPECT_INT(c.cuda.cuMemcpyDtoDAsync(copy + 256u * (unsigned)k,
                                            (uintptr_t)hn_tensor_data(out[k]), 256, c.stream),
                   0);
    }
    EXPECT_INT(c.cuda.cuEventCreate(&done, HN_CUDA_EVENT_NO_TIME), 0);
    EXPECT_INT(c.cuda.cuEventRecord(done, c.stream), 0);
    const long memories = c.standin->memories;
    hn_tensor_release(out[0]), hn_tensor_release(out[1]);
    out[0] = NULL;
    EXPECT_INT(c.standin->memories, memories);
    if (is_little) c.standin->memory_max = c.standin->memory;
    EXPECT_OK(hn_module_run_with(m, &stay, &in[1], 1, &out[0], 1));
    EXPECT_INT(c.cuda.cuEventQuery(done) == 0, is_little);
    EXPECT_INT(c.standin->memories, memories + !is_little);
    c.standin->memory_max = 0;
    get(&c, y, copy, sizeof y);
    for (int k = 0; k < 128; k++) EXPECT(y[k / 64][k % 64] == 2 * x[k % 64]);
    hn_tensor_release(out[0]);
    hn_tensor_release(in[0]), hn_tensor_release(in[1]);
    EXPECT_INT(c.cuda.cuEventDestroy(done), 0);
    (void)c.cuda.cuMemFree(copy);
    end(&c, m);
}

TEST(memory_is_freed_behind_the_callers_work) { free_early(false); }
TEST(memory_that_somebody_waits_for) { free_early(true); }

/* The caller makes a graph of work with an output, which may be launched at any time: the memory is
 * nobody else's as long as the module is there, and the graph is not disturbed. */
TEST(a_release_while_the_stream_is_captured) {
    caller c;
    float x[4] = {1, 2, 3, 4}, y[4] = {0};
    hn_cuda_graph graph = NULL;
    hn_cuda_graph_exec exec = NULL;
    if (!begin(&c)) return;
    hn_module *m = load_text(SCALED, NULL);
    if (!m) return;
    const hn_run_options first = {.device_outputs = true, .has_stream = true, .stream = c.stream};
    const hn_cuda_address copy = take(&c, sizeof y);
    hn_tensor *in = F32(x, 4), *out[2] = {NULL};
    EXPECT_OK(hn_module_run_with(m, &first, &in, 1, &out[0], 1));
    if (!out[0]) return;
    const void *at = hn_tensor_data(out[0]);
    EXPECT_INT(c.cuda.cuStreamBeginCapture(c.stream, 0), 0);
    EXPECT_INT(c.cuda.cuMemcpyDtoDAsync(copy, (uintptr_t)at, sizeof y, c.stream), 0);
    hn_tensor_release(out[0]);
    for (int k = 0; k < 2; k++) {
        x[0] = -1;
        EXPECT_OK(hn_module_run_with(m, &stay, &in, 1, &out[1], 1));
        EXPECT(out[1] && hn_tensor_data(out[1]) != at);
        hn_tensor_release(out[1]);
        out[1] = NULL;
        if (k) break;
        EXPECT_INT(c.cuda.cuStreamEndCapture(c.stream, &graph), 0);
        EXPECT_INT(c.cuda.cuGraphInstantiate(&exec, graph, 0), 0);
    }
    EXPECT_INT(c.cuda.cuGraphLaunch(exec, c.stream), 0);
    get(&c, y, copy, sizeof y);
    EXPECT(y[0] == 4 && y[3] == 16);
    (void)c.cuda.cuGraphExecDestroy(exec), (void)c.cuda.cuGraphDestroy(graph);
    hn_tensor_release(in);
    (void)c.cuda.cuMemFree(copy);
    end(&c, m);
}

/* The graph is at work with the memory when the module goes: that waits for it. */
TEST(a_module_ends_while_a_graph_reads_its_output) {
    caller c;
    float x[4] = {1, 2, 3, 4}, y[4] = {0};
    hn_cuda_graph graph = NULL;
    hn_cuda_graph_exec exec = NULL;
    if (!begin(&c)) return;
    hn_module *m = load_text(SCALED, NULL);
    if (!m) return;
    const hn_run_options first = {.device_outputs = true, .has_stream = true, .stream = c.stream};
    const hn_cuda_address copy = take(&c, sizeof y);
    hn_tensor *in = F32(x, 4), *out = NULL;
    EXPECT_OK(hn_module_run_with(m, &first, &in, 1, &out, 1));
    if (!out) return;
    EXPECT_INT(c.cuda.cuStreamBeginCapture(c.stream, 0), 0);
    EXPECT_INT(c.cuda.cuMemcpyDtoDAsync(copy, (uintptr_t)hn_tensor_data(out), sizeof y, c.stream),
               0);
    hn_tensor_release(out);
    EXPECT_INT(c.cuda.cuStreamEndCapture(c.stream, &graph), 0);
    EXPECT_INT(c.cuda.cuGraphInstantiate(&exec, graph, 0), 0);
    EXPECT_INT(c.cuda.cuGraphLaunch(exec, c.stream), 0);
    hn_module_release(m);
    get(&c, y, copy, sizeof y);
    EXPECT(y[0] == 4 && y[3] == 16);
    (void)c.cuda.cuGraphExecDestroy(exec), (void)c.cuda.cuGraphDestroy(graph);
    hn_tensor_release(in);
    (void)c.cuda.cuMemFree(copy);
    end(&c, NULL);
}

/* What the driver does not tell at a release it is asked again by the next run. */
TEST(a_release_that_the_driver_refuses) {
    caller c;
    float x[4] = {1, 2, 3, 4}, y[4] = {0};
    if (!begin(&c)) return;
    hn_module *m = load_text(SCALED, NULL);
    if (!m) return;
    const hn_run_options first = {.device_outputs = true, .has_stream = true, .stream = c.stream};
    const hn_cuda_address copy = take(&c, sizeof y);
    hn_tensor *in = F32(x, 4), *out = NULL;
    EXPECT_OK(hn_module_run_with(m, &first, &in, 1, &out, 1));
    if (!out) return;
    const void *at = hn_tensor_data(out);
    EXPECT_INT(c.cuda.cuMemcpyDtoDAsync(copy, (uintptr_t)at, sizeof y, c.stream), 0);
    for (long fail = 1; fail <= 3; fail++) { /* cuStreamIsCapturing, cuEventCreate, cuEventRecord */
        cuda_standin_reset(c.standin);
        c.standin->code = 1;
        c.standin->fail_at = fail;
        hn_tensor_release(out);
        out = NULL;
        EXPECT(c.standin->failed);
        cuda_standin_reset(c.standin);
        EXPECT_OK(hn_module_run_with(m, &first, &in, 1, &out, 1));
        EXPECT(out && hn_tensor_data(out) == at);
    }
    hn_tensor_release(out);
    get(&c, y, copy, sizeof y);
    EXPECT(y[0] == 4 && y[3] == 16);
    hn_tensor_release(in);
    (void)c.cuda.cuMemFree(copy);
    end(&c, m);
}

/* Memory is kept for each of the sizes that a context remembers. */
TEST(sizes_that_take_turns) {
    caller c;
    float x[64] = {0};
    if (!begin(&c)) return;
    hn_module *m = load_text(ANY_SIZE, NULL);
    if (!m) return;
    hn_tensor *in[2] = {F32(x, 64), F32(x, 4)};
    for (int k = 0; k < 8; k++) {
        hn_tensor *out = NULL;
        c.standin->logged = 0;
        EXPECT_OK(hn_module_run_with(m, &stay, &in[k % 2], 1, &out, 1));
        if (k > 2) EXPECT(!has_allocated(&c));
        hn_tensor_release(out);
    }
    hn_tensor_release(in[0]), hn_tensor_release(in[1]);
    end(&c, m);
}

/* The stream may go when the outputs are released, before the module. */
TEST(a_stream_that_goes_first) {
    caller c;
    float x[4] = {1, 2, 3, 4};
    if (!begin(&c)) return;
    hn_module *m = load_text(SCALED, NULL);
    hn_cuda_stream stream = NULL;
    if (!m) return;
    hn_tensor *in = F32(x, 4), *out = NULL;
    for (int k = 0; k < 3; k++) {
        EXPECT_INT(c.cuda.cuStreamCreate(&stream, 1), 0);
        const hn_run_options options = {
            .device_outputs = true, .has_stream = true, .stream = stream};
        EXPECT_OK(hn_module_run_with(m, &options, &in, 1, &out, 1));
        hn_tensor_release(out);
        out = NULL;
        EXPECT_INT(c.cuda.cuStreamDestroy(stream), 0);
    }
    hn_tensor_release(in);
    end(&c, m);
}

/* Runs that are begun and ended; with graphs, too, which get the addresses. */
static void two_at_a_time(bool has_graphs) {
    caller c;
    float x[2][4];
    if (!begin(&c)) return;
    hn_module *m = load_text(SCALED, &(hn_module_options){.device_graphs = has_graphs});
    if (!m) return;
    hn_tensor *in[2] = {F32(x[0], 4), F32(x[1], 4)};
    for (int round = 0; round < 4; round++) {
        hn_run *run[2] = {NULL, NULL};
        hn_tensor *out[2] = {NULL, NULL};
        for (int r = 0; r < 2; r++) {
            for (int k = 0; k < 4; k++) x[r][k] = (float)(10 * r + round + k);
            EXPECT_OK(hn_run_begin(m, &stay, &in[r], 1, &out[r], 1, &run[r]));
        }
        for (int r = 0; r < 2; r++) {
            EXPECT_OK(hn_run_end(run[r]));
            expect_numbers(&c, out[r], 4, (float)(4 * (10 * r + round)), 4);
            hn_tensor_release(out[r]);
        }
    }
    hn_tensor_release(in[0]), hn_tensor_release(in[1]);
    end(&c, m);
}

TEST(runs_at_the_same_time) { two_at_a_time(false); }
TEST(runs_at_the_same_time_with_graphs) { two_at_a_time(true); }

/* The caller holds outputs of `held` runs, and the next run has other memory. The calls of the
 * driver in the last run are in the list. */
static hn_module *hold_outputs(const caller *c, uint32_t held) {
    hn_module *m = load_text(SCALED, &(hn_module_options){.device_graphs = true});
    hn_tensor *out[8] = {NULL};
    for (uint32_t k = 0; m && k < 40; k++) {
        float x[4] = {(float)k, (float)k + 1, (float)k + 2, (float)k + 3};
        hn_tensor *in = F32(x, 4), **next = &out[k % held];
        hn_tensor_release(*next);
        *next = NULL;
        c->standin->logged = 0;
        EXPECT_OK(hn_module_run_with(m, &stay, &in, 1, next, 1));
        expect_numbers(c, *next, 4, 4 * (float)k, 4);
        hn_tensor_release(in);
    }
    for (uint32_t k = 0; k < held; k++) hn_tensor_release(out[k]);
    return m;
}

/* Few addresses have graphs of their own, of many a graph gets the new ones; all are made of the
 * steps that were captured once. */
TEST(graphs_with_addresses_that_take_turns) {
    caller c;
    hn_module_stats stats;
    if (!begin(&c)) return;
    for (uint32_t held = 1; held <= 8; held++) {
        cuda_standin_reset(c.standin);
        hn_module *m = hold_outputs(&c, held);
        if (!m) return;
        hn_module_stats_get(m, &stats);
        EXPECT_INT(c.standin->instantiations, held < 4 ? held : 4);
        EXPECT(held <= 4 ? stats.graphs_made <= held + 2 : stats.graphs_made > 30);
        EXPECT_INT(stats.graph_runs, 39);
        EXPECT_INT(c.standin->execs, held < 4 ? held : 4);
        EXPECT_INT(c.standin->captures, 1);
        end(&c, m);
        EXPECT_INT(c.standin->graphs, 0);
        if (held < 8) EXPECT(begin(&c));
    }
}

/* Every call of the driver fails once: no memory is lost, and nothing is used that is gone. */
TEST(failures) {
    caller c;
    float x[4] = {1, 2, 3, 4};
    bool has_failed = true;
    if (!begin(&c)) return;
    hn_module *m = load_text(SCALED, NULL);
    hn_tensor *in = F32(x, 4), *out = NULL;
    if (!m) return;
    const hn_run_options options = {.device_outputs = true, .has_stream = true, .stream = c.stream};
    for (long at = 1; has_failed && at < 100; at++) {
        cuda_standin_reset(c.standin);
        c.standin->code = 1;
        c.standin->fail_at = at;
        hn_status_free(hn_module_run_with(m, &options, &in, 1, &out, 1));
        hn_tensor_release(out);
        out = NULL;
        has_failed = c.standin->failed != NULL;
    }
    EXPECT(!has_failed);
    cuda_standin_reset(c.standin);
    EXPECT_OK(hn_module_run_with(m, &options, &in, 1, &out, 1));
    expect_numbers(&c, out, 4, 4, 4);
    hn_tensor_release(in), hn_tensor_release(out);
    end(&c, m);
}

TEST_MAIN
