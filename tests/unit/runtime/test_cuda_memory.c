/* test_cuda_memory.c: what a module has of a device's memory: the counters, what the plan wants and
 * needs, and what is said when there is no more. On the stand-in for the driver. */
#define HN_FIXTURE_CUDA
#include "unit/runtime/module_fixture.h"

#include "support/cuda_standin.h"

#include <pthread.h>

/* y = 2 * (2 * (2 * (x + w))), of 1024 numbers: 4096 bytes. Two temporaries are alive at a time,
 * the third takes the place of the first. */
#define CHAIN                                                                                                        \
    "buffer b1 : input f32[1024] source 0 buffer b2 : constant f32[1024] source 1 "                                  \
    "buffer b3 : temp f32[1024] bytes(4096) buffer b4 : temp f32[1024] bytes(4096) "                                 \
    "buffer b5 : temp f32[1024] bytes(4096) buffer b6 : output f32[1024] bytes(4096) " KERNELS                       \
    "input \"x\" : f32[1024] strides [1] in b1 call k1(b1 f32, b2 f32, out b3 f32) extent(1024) "                    \
    "call k4(b3 f32, out b4 f32) extent(1024) call k4(b4 f32, out b5 f32) extent(1024) call k4(b5 f32, out b6 f32) " \
    "extent(1024) output tensor \"y\" : f32[1024] strides [1] in b6"

enum { COUNT = 1024, BYTES = 4 * COUNT };

static cuda_standin *begin(void) {
    cuda_standin *s = cuda_standin_find();
    if (!s) hn_test_skip("this is another driver than the stand-in");
    else cuda_standin_reset(s);
    return s;
}

static hn_module *load_chain(void) {
    static float w[COUNT];
    for (int k = 0; k < COUNT; k++) w[k] = 1;
    return load_weights(CHAIN, &(fixture_weight){"w", HN_INPUT_PARAMETER, HN_DTYPE_F32, COUNT, w},
                        1, NULL);
}

static hn_status run_chain(hn_module *m) {
    float x[COUNT] = {3};
    hn_tensor *in[1] = {F32(x, COUNT)}, *out[1] = {NULL};
    hn_status status = hn_module_run(m, in, 1, out, 1);
    if (!status) EXPECT(((float *)hn_tensor_data(out[0]))[0] == 32);
    hn_tensor_release(in[0]), hn_tensor_release(out[0]);
    return status;
}

TEST(memory_is_counted) {
    cuda_standin *s = begin();
    hn_module *m = s ? load_chain() : NULL;
    hn_module_stats stats;
    if (!m) return;
    hn_module_stats_get(m, &stats);
    EXPECT_INT(stats.device_weights_bytes, BYTES);
    EXPECT(stats.device_bytes >= BYTES && stats.device_bytes < 2 * BYTES);
    EXPECT_INT(stats.plan_bytes, 0); /* there was no run */
    EXPECT_OK(run_chain(m));
    hn_module_stats_get(m, &stats);
    EXPECT_INT(stats.plan_bytes, 2 * BYTES + 2 * BYTES); /* temporaries; input and output */
    EXPECT_INT(stats.plan_least_bytes, 4 * BYTES);
    EXPECT_INT(stats.device_states_bytes, 0);
    /* weights and the plan, and room behind each piece of memory */
    EXPECT(stats.device_peak_bytes >= 5 * BYTES && stats.device_peak_bytes <= 5 * BYTES + 1024);
    EXPECT_INT(stats.device_bytes, stats.device_peak_bytes);
    EXPECT(stats.weights_upload_ns > 0 && stats.resolve_ns > 0 && stats.kernels_load_ns > 0);
    EXPECT(stats.open_ns > stats.device_open_ns && stats.device_open_ns > 0);
    hn_module_release(m);
    EXPECT_INT(s->memories, 0);
}

static void *run_chains(void *user) {
    for (int k = 0; k < 50; k++) EXPECT_OK(run_chain(user));
    return NULL;
}

/* A thread that asks while others run. */
TEST(memory_is_counted_beside_runs) {
    cuda_standin *s = begin();
    hn_module *m = s ? load_chain() : NULL;
    hn_module_stats stats;
    pthread_t thread;
    if (!m) return;
    EXPECT_OK(run_chain(m));
    EXPECT_INT(pthread_create(&thread, NULL, run_chains, m), 0);
    do {
        hn_module_stats_get(m, &stats);
        EXPECT(stats.plan_least_bytes == 4 * BYTES || !stats.plan_bytes); /* the run has it */
    } while (stats.runs < 51);
    EXPECT_INT(pthread_join(thread, NULL), 0);
    hn_module_stats_get(m, &stats);
    EXPECT_INT(stats.plan_least_bytes, 4 * BYTES);
    hn_module_release(m);
    EXPECT_INT(s->memories, 0);
}

/* Who has what, what is wanted, and what is left. */
TEST(no_memory_for_weights) {
    cuda_standin *s = begin();
    program p;
    hn_strbuf image;
    hn_module *m = NULL;
    static float w[COUNT];
    if (!s) return;
    program_init(&p);
    program_add_weight(&p, &(fixture_weight){"w", HN_INPUT_PARAMETER, HN_DTYPE_F32, COUNT, w});
    EXPECT_OK(program_image(&p, CHAIN, NULL, &image));
    s->memory_max = 2000;
    EXPECT_ERROR(hn_module_load_memory(image.ptr, image.len, false, NULL, &m), HN_OUT_OF_MEMORY,
                 "no memory for weights of 4096 bytes on NVIDIA Stand-In; the module has 0.0 KiB "
                 "there: weights want 4.0 KiB, states 0.0 KiB, and runs have 0.0 KiB; the device "
                 "has 1.9 KiB left, of 8.0 GiB; use a smaller batch");
    EXPECT(!m);
    s->memory_max = 0;
    hn_strbuf_deinit(&image);
    program_deinit(&p);
    EXPECT_INT(s->memories, 0);
}

TEST(no_memory_for_a_run) {
    cuda_standin *s = begin();
    hn_module *m = s ? load_chain() : NULL;
    if (!m) return;
    s->memory_max = 8000;
    EXPECT_ERROR(run_chain(m), HN_OUT_OF_MEMORY,
                 "no memory for intermediates of 8192 bytes on NVIDIA Stand-In; the module has "
                 "4.1 KiB there: weights want 4.0 KiB, states 0.0 KiB, and runs have 0.1 KiB; the "
                 "device has 3.7 KiB left, of 8.0 GiB; a run of these sizes wants 8.0 KiB for "
                 "temporaries, at least 8.0 KiB, 8.0 KiB for inputs and outputs, and 0.0 KiB for "
                 "scratch memory; use a smaller batch, fewer runs at the same time, or another "
                 "device");
    s->memory_max = 0;
    EXPECT_OK(run_chain(m));
    hn_module_release(m);
    EXPECT_INT(s->memories, 0);
}

TEST(a_limit_is_told) {
    cuda_standin *s = begin();
    hn_module *m = NULL;
    static float w[COUNT];
    if (!s) return;
    m = load_weights(CHAIN, &(fixture_weight){"w", HN_INPUT_PARAMETER, HN_DTYPE_F32, COUNT, w}, 1,
                     &(hn_module_options){.device_memory_bytes = 10240});
    if (!m) return;
    EXPECT_ERROR(run_chain(m), HN_OUT_OF_MEMORY, "; its limit is 10.0 KiB (device_memory_bytes)");
    hn_module_release(m);
    EXPECT_INT(s->memories, 0);
}

TEST_MAIN
