/* gpu_launch.c: see the header. */
#include "bench/gpu_launch.h"

#include "base/cuda.h"
#include "base/trace.h"
#include "bench/median.h"

enum { LAUNCHES = 400, BLOCKS = 21, THREADS = 128 };

static const char kernel_text[] = ".version 7.0\n.target sm_75\n.address_size 64\n"
                                  ".visible .entry nothing(.param .u64 a, .param .u64 b, "
                                  ".param .u64 c, .param .u64 d) { ret; }\n";

typedef struct driver {
    hn_cuda cuda;
    hn_cuda_function kernel;
    hn_cuda_stream stream;
} driver;

static hn_status open_driver(uint32_t number, driver *d) {
    hn_cuda_context context;
    hn_cuda_module module;
    int device;
    HN_TRY(hn_cuda_load(&d->cuda));
    const hn_cuda *cuda = &d->cuda;
    HN_TRY(hn_cuda_status(cuda, cuda->cuDeviceGet(&device, (int)number), "cuDeviceGet"));
    HN_TRY(hn_cuda_status(cuda, cuda->cuDevicePrimaryCtxRetain(&context, device),
                          "cuDevicePrimaryCtxRetain"));
    HN_TRY(hn_cuda_status(cuda, cuda->cuCtxPushCurrent(context), "cuCtxPushCurrent"));
    HN_TRY(hn_cuda_status(cuda, cuda->cuModuleLoadDataEx(&module, kernel_text, 0, NULL, NULL),
                          "cuModuleLoadDataEx"));
    HN_TRY(hn_cuda_status(cuda, cuda->cuModuleGetFunction(&d->kernel, module, "nothing"),
                          "cuModuleGetFunction"));
    return hn_cuda_status(cuda, cuda->cuStreamCreate(&d->stream, HN_CUDA_STREAM_NON_BLOCKING),
                          "cuStreamCreate");
}

static hn_status launch(const driver *d, uint32_t count) {
    static uint64_t addresses[4];
    void *params[] = {&addresses[0], &addresses[1], &addresses[2], &addresses[3]};
    hn_cuda_result code = HN_CUDA_SUCCESS;
    for (uint32_t k = 0; k < count && code == HN_CUDA_SUCCESS; k++)
        code =
            d->cuda.cuLaunchKernel(d->kernel, 1, 1, 1, THREADS, 1, 1, 0, d->stream, params, NULL);
    return hn_cuda_status(&d->cuda, code, "cuLaunchKernel");
}

static hn_status wait_for(const driver *d) {
    return hn_cuda_status(&d->cuda, d->cuda.cuStreamSynchronize(d->stream), "cuStreamSynchronize");
}

hn_status bare_launches_measure(uint32_t device, uint32_t count, bare_launches *out) {
    static driver d; /* it stays, as its context does */
    double launches[BLOCKS], runs[BLOCKS];
    HN_TRY(open_driver(device, &d));
    HN_TRY(launch(&d, LAUNCHES));
    HN_TRY(wait_for(&d));
    for (int k = 0; k < BLOCKS; k++) {
        int64_t begin = hn_now_ns();
        HN_TRY(launch(&d, LAUNCHES));
        launches[k] = (double)(hn_now_ns() - begin) / LAUNCHES;
        HN_TRY(wait_for(&d));
        begin = hn_now_ns();
        HN_TRY(launch(&d, count));
        HN_TRY(wait_for(&d));
        runs[k] = (double)(hn_now_ns() - begin) / 1e3;
    }
    *out = (bare_launches){median(launches, BLOCKS), median(runs, BLOCKS)};
    return NULL;
}
