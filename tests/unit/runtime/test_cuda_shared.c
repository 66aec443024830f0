/* test_cuda_shared.c: dynamic shared memory of launches, from the wrapper's text to the stand-in for
 * CUDA's driver, which refuses launches of more than 48 KiB that it was not told of. */
#define HN_FIXTURE_CUDA
#include "unit/runtime/module_fixture.h"

#include "support/cuda_standin.h"

#define SCALED_WITH(first, second)                                                                 \
    "buffer b1 : input f32[4] source 0 buffer b2 : temp f32[4] bytes(16) "                         \
    "buffer b3 : output f32[4] bytes(16) " KERNELS "input \"x\" : f32[4] strides [1] in b1 "       \
    "call k4(b1 f32, out b2 f32) extent(4) threads 1 shared " #first " "                           \
    "call k4(b2 f32, out b3 f32) extent(4) threads 1 shared " #second " "                          \
    "output tensor \"y\" : f32[4] strides [1] in b3"

static hn_status run(const char *text, bool graphs) {
    const float expected[4] = {4, 8, 12, 16};
    float x[4] = {1, 2, 3, 4};
    hn_status status = NULL;
    hn_module *m = load_text(text, &(hn_module_options){.threads = 1, .device_graphs = graphs});
    hn_tensor *in[1] = {F32(x, 4)};
    for (int k = 0; m && k < 3 && !status; k++) {
        hn_tensor *out[1] = {NULL};
        status = hn_module_run(m, in, 1, out, 1);
        if (!status) EXPECT(memcmp(hn_tensor_data(out[0]), expected, sizeof expected) == 0);
        hn_tensor_release(out[0]);
    }
    hn_tensor_release(in[0]);
    hn_module_release(m);
    return status;
}

/* A kernel keeps what it was allowed first, when a later launch has less. */
TEST(more_than_48_kib) {
    if (!cuda_standin_find()) return;
    for (int graphs = 0; graphs < 2; graphs++) {
        EXPECT_OK(run(SCALED_WITH(1000, 48000), graphs));
        EXPECT_OK(run(SCALED_WITH(232448, 65536), graphs));
        EXPECT_OK(run(SCALED_WITH(65536, 65540), graphs));
    }
}

TEST(more_than_the_device_has) {
    if (!cuda_standin_find()) return;
    EXPECT_ERROR(run(SCALED_WITH(65536, 232449), false), HN_UNSUPPORTED,
                 "wants 232449 bytes of shared memory for a group of threads");
}

TEST_MAIN
