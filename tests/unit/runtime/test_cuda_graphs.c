/* test_cuda_graphs.c: runs that are launched as CUDA graphs, on the stand-in for the driver: when
 * they are made, brought up to date and done without. The tests of the runtime are built with
 * graphs once more (CMakeLists.txt), which shows that programs compute the same. */
#define HN_FIXTURE_CUDA
#define HN_FIXTURE_GRAPHS
#include "unit/runtime/module_fixture.h"

#include "support/cuda_standin.h"

#define SCALED                                                                                                            \
    "buffer b1 : input f32[4] source 0 buffer b2 : temp f32[4] bytes(16) buffer b3 : output f32[4] bytes(16) " KERNELS    \
    "input \"x\" : f32[4] strides [1] in b1 call k4(b1 f32, out b2 f32) extent(4) call k4(b2 f32, out b3 f32) extent(4) " \
    "output tensor \"y\" : f32[4] strides [1] in b3"

#define DYNAMIC                                                                                                              \
    "symbol size s0 in [1, 64] buffer b1 : input f32[s0] source 0 buffer b2 : temp f32[s0] bytes(4*s0) "                     \
    "buffer b3 : output f32[s0] bytes(4*s0) " KERNELS                                                                        \
    "input \"x\" : f32[s0] strides [1] in b1 call k4(b1 f32, out b2 f32) extent(s0) call k4(b2 f32, out b3 f32) extent(s0) " \
    "output tensor \"y\" : f32[s0] strides [1] in b3"

static cuda_standin *begin(void) {
    cuda_standin *s = cuda_standin_find();
    if (!s) hn_test_skip("this is another driver than the stand-in");
    else cuda_standin_reset(s);
    return s;
}

static void end(hn_module *m, const cuda_standin *s) {
    hn_module_release(m);
    EXPECT_INT(s->graphs, 0);
    EXPECT_INT(s->memories, 0);
    EXPECT_INT(s->pinned, 0);
    EXPECT_INT(s->streams, 0);
}

/* y = 4 * x, for `count` numbers that begin with `first`. */
static hn_status run_scaled(hn_module *m, int64_t count, float first) {
    float x[64];
    hn_tensor *out[1] = {NULL};
    for (int k = 0; k < count; k++) x[k] = first + (float)k;
    hn_tensor *in[1] = {F32(x, count)};
    hn_status status = hn_module_run(m, in, 1, out, 1);
    const float *y = status ? NULL : hn_tensor_data(out[0]);
    for (int k = 0; k < count && y; k++) EXPECT(y[k] == 4 * x[k]);
    hn_tensor_release(in[0]), hn_tensor_release(out[0]);
    return status;
}

TEST(the_second_run_makes_a_graph) {
    cuda_standin *s = begin();
    hn_module *m = s ? load_text(SCALED, NULL) : NULL;
    hn_module_stats stats;
    if (!m) return;
    EXPECT_OK(run_scaled(m, 4, 1));
    EXPECT(s->launches == 2 && s->instantiations == 0);
    EXPECT_OK(run_scaled(m, 4, 2));
    EXPECT(s->launches == 4 && s->instantiations == 1 && s->graph_launches == 1);
    for (int k = 3; k < 10; k++) EXPECT_OK(run_scaled(m, 4, (float)k));
    EXPECT(s->launches == 4 && s->instantiations == 1 && s->graph_launches == 8);
    EXPECT_INT(s->updates, 0);
    hn_module_stats_get(m, &stats);
    EXPECT(stats.graphs_made == 1 && stats.graph_runs == 8);
    end(m, s);
}

TEST(graphs_are_asked_for) {
    cuda_standin *s = begin();
    program p;
    hn_strbuf image;
    hn_module *m = NULL;
    if (!s) return;
    program_init(&p);
    EXPECT_OK(program_image(&p, SCALED, NULL, &image));
    EXPECT_OK(hn_module_load_memory(image.ptr, image.len, false, NULL, &m));
    for (int k = 0; k < 3 && m; k++) EXPECT_OK(run_scaled(m, 4, (float)k));
    EXPECT_INT(s->instantiations, 0);
    end(m, s);
    hn_strbuf_deinit(&image);
    program_deinit(&p);
}

/* The context was lost by kernels before, and the launch of a graph is the first to know. */
TEST(a_lost_device_is_told_with_kernels) {
    cuda_standin *s = begin();
    hn_module *m = s ? load_text(SCALED, NULL) : NULL;
    if (!m) return;
    for (int k = 0; k < 3; k++) EXPECT_OK(run_scaled(m, 4, 1));
    s->calls = 0;
    s->code = 700;
    s->fail_at = 3; /* behind a push of the context and a copy */
    s->is_lost = true;
    EXPECT_ERROR(run_scaled(m, 4, 1), HN_DEVICE,
                 "one of 2 kernels, 'scale2' to 'scale2': CUDA: cuGraphLaunch failed: "
                 "CUDA_ERROR_ILLEGAL_ADDRESS (700)");
    EXPECT_STR(s->failed, "cuGraphLaunch");
    EXPECT_ERROR(run_scaled(m, 4, 1), HN_DEVICE,
                 "because of an earlier error: one of 2 kernels, 'scale2' to 'scale2': CUDA: "
                 "cuGraphLaunch failed");
    end(m, s);
    cuda_standin_reset(s);
}

/* Sizes have graphs of their own; memory that has moved is told to them. */
TEST(sizes_and_addresses) {
    cuda_standin *s = begin();
    hn_module *m = s ? load_text(DYNAMIC, NULL) : NULL;
    if (!m) return;
    for (int k = 0; k < 3; k++) EXPECT_OK(run_scaled(m, 8, (float)k));
    EXPECT(s->instantiations == 1 && s->updates == 0);
    for (int k = 0; k < 3; k++) EXPECT_OK(run_scaled(m, 64, (float)k)); /* larger memory */
    EXPECT(s->instantiations == 2 && s->updates == 0);
    for (int k = 0; k < 3; k++) EXPECT_OK(run_scaled(m, 8, (float)k));
    EXPECT(s->instantiations == 2 && s->captures == 2 && s->patches == 2);
    const long launches = s->launches;
    for (int k = 0; k < 3; k++) {
        EXPECT_OK(run_scaled(m, 8, (float)k));
        EXPECT_OK(run_scaled(m, 64, (float)k));
    }
    EXPECT_INT(s->launches, launches);
    end(m, s);
}

TEST(there_are_not_more_than_bounds) {
    cuda_standin *s = begin();
    hn_module *m = s ? load_text(DYNAMIC, NULL) : NULL;
    if (!m) return;
    for (int64_t size = 1; size <= 60; size++)
        for (int k = 0; k < 3; k++) EXPECT_OK(run_scaled(m, size, (float)k));
    EXPECT(s->execs <= 8 && s->execs > 0);
    EXPECT(s->graph_launches == 120);
    end(m, s);
}

/* Two runs at a time, each with memory and a graph of its own. */
TEST(runs_that_are_begun) {
    cuda_standin *s = begin();
    hn_module *m = s ? load_text(SCALED, NULL) : NULL;
    float x[2][4] = {{1, 2, 3, 4}, {5, 6, 7, 8}};
    if (!m) return;
    hn_tensor *in[2][1] = {{F32(x[0], 4)}, {F32(x[1], 4)}};
    for (int k = 0; k < 4; k++) {
        hn_tensor *out[2][1] = {{NULL}, {NULL}};
        hn_run *run[2] = {NULL, NULL};
        for (int r = 0; r < 2; r++) EXPECT_OK(hn_run_begin(m, NULL, in[r], 1, out[r], 1, &run[r]));
        for (int r = 0; r < 2; r++) {
            EXPECT_OK(hn_run_end(run[r]));
            for (int e = 0; e < 4 && out[r][0]; e++)
                EXPECT(((float *)hn_tensor_data(out[r][0]))[e] == 4 * x[r][e]);
            hn_tensor_release(out[r][0]);
        }
    }
    EXPECT_INT(s->instantiations, 2);
    hn_tensor_release(in[0][0]), hn_tensor_release(in[1][0]);
    end(m, s);
}

#define GATHERED                                                                                                       \
    "buffer b1 : input f32[4] source 0 buffer b2 : input i64[4] source 1 buffer b3 : output f32[4] bytes(16) " KERNELS \
    "input \"x\" : f32[4] strides [1] in b1 input \"at\" : i64[4] strides [1] in b2 "                                  \
    "call k3(b1 f32, b2 i64, out b3 f32) params [4] extent(4) output tensor \"y\" : f32[4] strides [1] in b3"

/* A bad index is told by a run that launches a graph, too. */
TEST(indices_out_of_bounds) {
    cuda_standin *s = begin();
    hn_module *m = s ? load_text(GATHERED, NULL) : NULL;
    float x[4] = {1, 2, 3, 4};
    int64_t at[4] = {3, 2, 1, 0};
    const int64_t sizes[1] = {4};
    if (!m) return;
    hn_tensor *in[2] = {F32(x, 4), tensor_of(HN_I64, 1, sizes, NULL, at)};
    for (int k = 0; k < 8; k++) {
        hn_tensor *out[1] = {NULL};
        at[2] = k % 3 == 2 ? 4 : 1;
        hn_status status = hn_module_run(m, in, 2, out, 1);
        if (k % 3 == 2) EXPECT_ERROR(status, HN_INVALID_ARGUMENT, "out of bounds");
        else EXPECT_OK(status);
        if (out[0]) EXPECT(((float *)hn_tensor_data(out[0]))[0] == 4);
        hn_tensor_release(out[0]);
    }
    EXPECT_INT(s->graph_launches, 7);
    hn_tensor_release(in[0]), hn_tensor_release(in[1]);
    end(m, s);
}

static hn_status see_nothing(void *user, const hn_step_info *step, uint64_t *note) {
    (void)user, (void)step, (void)note;
    return NULL;
}

/* Runs with hooks launch each step; the graph is used again when they are gone. */
TEST(hooks_see_steps) {
    cuda_standin *s = begin();
    hn_module *m = s ? load_text(DYNAMIC, NULL) : NULL;
    const hn_step_hook hook = {.after = see_nothing};
    if (!m) return;
    for (int k = 0; k < 3; k++) EXPECT_OK(run_scaled(m, 8, (float)k));
    const long graphs = s->graph_launches;
    EXPECT_OK(hn_module_hook_add(m, &hook));
    EXPECT_OK(run_scaled(m, 64, 1)); /* memory moves */
    EXPECT_OK(run_scaled(m, 8, 1));
    EXPECT_INT(s->graph_launches, graphs);
    EXPECT_OK(hn_module_hook_remove(m, &hook));
    EXPECT_OK(run_scaled(m, 8, 1));
    EXPECT(s->graph_launches == graphs + 1 && s->captures == 1 && s->patches > 0);
    end(m, s);
}

/* A graph counts as memory of the device: one that would be above the limit is not made. */
TEST(graphs_are_below_the_limit) {
    enum { NODES = 2, NODE_BYTES = 10 << 10, ENOUGH = 8192 };
    cuda_standin *s = begin();
    for (int has_room = 0; s && has_room < 2; has_room++) {
        const uint64_t limit = ENOUGH + (uint64_t)has_room * NODES * NODE_BYTES;
        hn_module *m = load_text(SCALED, &(hn_module_options){.device_memory_bytes = limit});
        if (!m) return;
        cuda_standin_reset(s);
        for (int k = 0; k < 4; k++) EXPECT_OK(run_scaled(m, 4, (float)k));
        EXPECT_INT(s->graph_launches, has_room ? 3 : 0);
        EXPECT_INT(s->launches, has_room ? 4 : 4 * 2 + 2); /* two were captured in vain */
        end(m, s);
    }
}

/* Each call of runs with graphs fails once: the run fails, or does without a graph, and the next
 * run is right. */
TEST(each_call_fails_once) {
    static const int codes[] = {999, 2, 900};
    cuda_standin *s = begin();
    long calls = 1, failed = 0;
    for (size_t c = 0; s && c < HN_COUNT_OF(codes); c++)
        for (long call = 1; call <= calls; call++) {
            hn_module *m = load_text(DYNAMIC, NULL);
            if (!m) return;
            cuda_standin_reset(s);
            s->code = codes[c];
            s->fail_at = call;
            for (int k = 0; k < 5; k++) { /* the others move its memory */
                hn_status status = run_scaled(m, k == 3 ? 64 : 8, (float)k);
                failed += status != NULL;
                hn_status_free(status);
            }
            if (!s->failed) calls = s->calls; /* none is left */
            else calls = call + 1;
            s->fail_at = 0;
            for (int k = 0; k < 3; k++) EXPECT_OK(run_scaled(m, 8, (float)k));
            end(m, s);
        }
    if (s) fprintf(stderr, "note: %ld calls of five runs, %ld failed runs\n", calls, failed);
    if (s) EXPECT(calls > 30 && failed > 30);
}

TEST_MAIN
