/* cuda_caller.h: for tests of what a program has that uses CUDA by itself: memory and a stream, in
 * the primary context of device 0 of the stand-in for CUDA's driver. */
#ifndef HN_TESTS_CUDA_CALLER_H
#define HN_TESTS_CUDA_CALLER_H

#define HN_FIXTURE_CUDA
#include "unit/runtime/module_fixture.h"

#include "base/cuda.h"
#include "support/cuda_standin.h"

/* y = 4 * x, by two kernels */
#define SCALED                                                                                                            \
    "buffer b1 : input f32[4] source 0 buffer b2 : temp f32[4] bytes(16) buffer b3 : output f32[4] bytes(16) " KERNELS    \
    "input \"x\" : f32[4] strides [1] in b1 call k4(b1 f32, out b2 f32) extent(4) call k4(b2 f32, out b3 f32) extent(4) " \
    "output tensor \"y\" : f32[4] strides [1] in b3"

typedef struct caller {
    hn_cuda cuda;
    hn_cuda_context context;
    hn_cuda_stream stream;
    cuda_standin *standin;
} caller;

HN_UNUSED static bool begin(caller *c) {
    c->standin = cuda_standin_find();
    if (!c->standin) {
        hn_test_skip("this is another driver than the stand-in");
        return false;
    }
    cuda_standin_reset(c->standin);
    EXPECT_OK(hn_cuda_load(&c->cuda));
    EXPECT_INT(c->cuda.cuDevicePrimaryCtxRetain(&c->context, 0), 0);
    EXPECT_INT(c->cuda.cuCtxPushCurrent(c->context), 0);
    EXPECT_INT(c->cuda.cuStreamCreate(&c->stream, 1), 0);
    return true;
}

HN_UNUSED static void end(caller *c, hn_module *m) {
    hn_module_release(m);
    EXPECT_INT(c->cuda.cuStreamDestroy(c->stream), 0);
    EXPECT_INT(c->cuda.cuCtxPopCurrent(&c->context), 0);
    EXPECT_INT(c->cuda.cuDevicePrimaryCtxRelease(0), 0);
    EXPECT_INT(c->standin->memories, 0);
    EXPECT_INT(c->standin->events, 0);
    EXPECT_INT(c->standin->streams, 0);
}

HN_UNUSED static hn_cuda_address take(const caller *c, size_t bytes) {
    hn_cuda_address at = 0;
    EXPECT_INT(c->cuda.cuMemAlloc(&at, bytes), 0);
    return at;
}

HN_UNUSED static void put(const caller *c, hn_cuda_address to, const void *from, size_t bytes) {
    EXPECT_INT(c->cuda.cuMemcpyHtoDAsync(to, from, bytes, c->stream), 0);
}

HN_UNUSED static void get(const caller *c, void *to, hn_cuda_address from, size_t bytes) {
    EXPECT_INT(c->cuda.cuMemcpyDtoHAsync(to, from, bytes, c->stream), 0);
    EXPECT_INT(c->cuda.cuStreamSynchronize(c->stream), 0);
}

HN_UNUSED static hn_tensor *there(hn_cuda_address at, int64_t count, int64_t stride,
                                  uint32_t number) {
    hn_tensor *t = NULL;
    EXPECT_OK(hn_tensor_create(&(hn_tensor_desc){.type = HN_F32,
                                                 .rank = 1,
                                                 .sizes = &count,
                                                 .strides = &stride,
                                                 .data = (void *)(uintptr_t)at,
                                                 .device = {HN_DEVICE_CUDA, number}},
                               &t));
    return t;
}

#endif
