/* test_cuda_operations.c: operations of the row of CUDA, with libraries that stand in for NVIDIA's
 * driver (cuda_standin.c) and for cuBLASLt (cublaslt_standin.c): they run in the order of the
 * stream, on memory of the device, and every failure of either comes back as a status. Which
 * products the library takes: tests/unit/ops/cuda. */
#include "runtime/device/cuda.h"

#include "runtime/device/rows.h"
#include "support/cublaslt_standin.h"
#include "support/cuda_standin.h"
#include "unit/harness.h"

#include <dlfcn.h>
#include <stdlib.h>

static cublaslt_standin *library(void) {
    cublaslt_standin_fn *record;
    void *handle = dlopen(HN_CUBLASLT_STANDIN, RTLD_NOW),
         *address = handle ? dlsym(handle, "cublasLtStandin") : NULL;
    memcpy(&record, &address, sizeof record);
    return address ? record() : NULL;
}

/* y = relu(x @ w + b), for 2 x 3 and 3 x 4. */
enum { M = 2, N = 4, K = 3 };
static const float x[M * K] = {1, 2, 3, -1, -2, 4}, bias[N] = {0, 1, -40, 3};
static const float w[K * N] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
static const float expected[M * N] = {38, 45, 10, 59, 25, 27, 0, 31};

static const int64_t params[HN_MATMUL_PARAM_COUNT] = {1,
                                                      1,
                                                      1,
                                                      1,
                                                      M,
                                                      N,
                                                      K,
                                                      [HN_MATMUL_A + 4] = K,
                                                      1,
                                                      [HN_MATMUL_B + 4] = N,
                                                      1,
                                                      [HN_MATMUL_OUT + 4] = N,
                                                      1,
                                                      [HN_MATMUL_BIAS + 5] = 1,
                                                      [HN_MATMUL_EPILOGUE] = HN_EPILOGUE_RELU};

typedef struct fixture {
    hn_dev *dev;
    const hn_device_ops *ops;
    hn_queue *queue;
    hn_ext_call call;
    void *at[4], *scratch;
    hn_device_operation *operation;
} fixture;

static hn_status put(fixture *f, uint32_t k, const float *from, size_t count) {
    f->at[k] = f->ops->alloc(f->dev, count * sizeof *from);
    if (!f->at[k]) return HN_ERROR(HN_OUT_OF_MEMORY, "no memory of the device");
    f->call.dtypes[k] = HN_F32;
    f->call.rooms[k].behind = (int64_t)(count * sizeof *from);
    return from ? f->ops->copy_in(f->queue, f->at[k], from, count * sizeof *from) : NULL;
}

static hn_status begin(fixture *f) {
    *f = (fixture){.ops = &hn_device_cuda};
    f->call = (hn_ext_call){.kind = HN_EXTERN_MATMUL,
                            .params = params,
                            .param_count = HN_MATMUL_PARAM_COUNT,
                            .threads = 1,
                            .knows_rooms = true};
    HN_TRY(hn_dev_open(&hn_device_cuda, &(hn_device_options){.number = 0}, &f->dev));
    HN_TRY(f->ops->queue_create(f->dev, &(hn_queue_options){.step_count = 8}, &f->queue));
    HN_TRY(put(f, 0, NULL, M * N));
    HN_TRY(put(f, 1, x, M * K));
    HN_TRY(put(f, 2, w, K * N));
    HN_TRY(put(f, 3, bias, N));
    HN_TRY(hn_ext_check(&f->call));
    HN_TRY(f->ops->operations->prepare(f->dev, &f->call, &f->operation));
    const size_t bytes = f->ops->operations->scratch_bytes(f->operation);
    f->scratch = bytes ? f->ops->alloc(f->dev, bytes) : NULL;
    return bytes && !f->scratch ? HN_ERROR(HN_OUT_OF_MEMORY, "no scratch memory") : NULL;
}

/* *out_right: what came out was. */
static hn_status run(fixture *f, bool *out_right) {
    float y[M * N] = {0};
    hn_device_fault fault;
    void *args[HN_EXT_MAX_OPERANDS] = {f->at[0], f->at[1], f->at[2], f->at[3]};
    *out_right = false;
    HN_TRY(f->ops->operations->run(f->queue, f->operation, 3, args, f->scratch, &fault));
    HN_TRY(f->ops->copy_out(f->queue, y, f->at[0], sizeof y));
    HN_TRY(f->ops->finish(f->queue, &fault));
    *out_right = !fault.is_set && memcmp(y, expected, sizeof y) == 0;
    return NULL;
}

static void end(fixture *f) {
    hn_device_fault fault;
    if (f->queue) hn_status_free(f->ops->finish(f->queue, &fault));
    if (f->dev) hn_dev_operation_release(f->dev, f->operation);
    for (uint32_t k = 0; f->dev && k < 4; k++) hn_dev_free(f->dev, f->at[k]);
    if (f->dev) hn_dev_free(f->dev, f->scratch);
    hn_queue_destroy(f->queue);
    hn_dev_release(f->dev);
}

static void reset(cuda_standin *driver, cublaslt_standin *lt) {
    cuda_standin_reset(driver);
    *lt = (cublaslt_standin){.objects = lt->objects};
}

static void expect_nothing_left(const cuda_standin *driver, const cublaslt_standin *lt) {
    EXPECT_INT(driver->memories, 0);
    EXPECT_INT(driver->pinned, 0);
    EXPECT_INT(driver->streams, 0);
    EXPECT_INT(driver->contexts, 0);
    EXPECT_INT(lt->objects, 0);
    EXPECT_STR(lt->misuse, "");
}

static bool find(cuda_standin **driver, cublaslt_standin **lt) {
    setenv("HENRY_CUBLASLT", HN_CUBLASLT_STANDIN, 1);
    *driver = cuda_standin_find();
    *lt = library();
    if (*driver && *lt) {
        reset(*driver, *lt);
        return true;
    }
    fprintf(stderr, "skipped: the libraries that are found are not those of the tests\n");
    return false;
}

TEST(a_product) {
    cuda_standin *driver;
    cublaslt_standin *lt;
    fixture f;
    bool right = false;
    if (!find(&driver, &lt)) return;
    EXPECT_OK(begin(&f));
    for (int k = 0; f.operation && k < 3; k++) {
        EXPECT_OK(run(&f, &right));
        EXPECT(right);
    }
    EXPECT_INT(lt->products, 3);
    end(&f);
    expect_nothing_left(driver, lt);
}

/* What a product has done is told when it is waited for, like what a kernel has. */
TEST(a_product_may_be_the_reason) {
    cuda_standin *driver;
    cublaslt_standin *lt;
    fixture f;
    hn_device_fault fault;
    if (!find(&driver, &lt)) return;
    EXPECT_OK(begin(&f));
    void *args[HN_EXT_MAX_OPERANDS] = {f.at[0], f.at[1], f.at[2], f.at[3]};
    if (f.operation)
        EXPECT_OK(f.ops->operations->run(f.queue, f.operation, 3, args, f.scratch, &fault));
    driver->calls = 0;
    driver->code = 700;
    driver->is_lost = true;
    driver->fail_at = 2; /* behind that which makes the context current */
    EXPECT_ERROR(f.ops->finish(f.queue, &fault), HN_DEVICE,
                 "one of the operations, 1 in all: CUDA: cuStreamSynchronize failed: "
                 "CUDA_ERROR_ILLEGAL_ADDRESS (700)");
    reset(driver, lt);
    end(&f);
    expect_nothing_left(driver, lt);
}

TEST(without_the_library) {
    cuda_standin *driver;
    cublaslt_standin *lt;
    fixture f;
    if (!find(&driver, &lt)) return;
    setenv("HENRY_CUBLASLT", "off", 1);
    EXPECT_ERROR(begin(&f), HN_UNSUPPORTED, "cuBLASLt is switched off");
    end(&f);
    expect_nothing_left(driver, lt);
}

/* Begins and runs with a failure in it. Whether it came so far. */
static bool try_once(cuda_standin *driver, cublaslt_standin *lt) {
    fixture f;
    bool right = false;
    hn_status status = begin(&f);
    if (!status) status = run(&f, &right);
    const bool failed = driver->failed || (lt->fail_at && lt->calls >= lt->fail_at);
    EXPECT((failed || !status) && right == !status); /* the row does without some of the driver */
    hn_status_free(status);
    reset(driver, lt);
    end(&f);
    expect_nothing_left(driver, lt);
    return failed;
}

TEST(each_call_of_the_driver_fails) {
    cuda_standin *driver;
    cublaslt_standin *lt;
    long n = 0;
    bool failed = true;
    if (!find(&driver, &lt)) return;
    while (failed && ++n < 500) {
        driver->code = 2;
        driver->calls = 0;
        driver->fail_at = n;
        failed = try_once(driver, lt);
    }
    if (n <= 20 || n >= 500) HN_TEST_FAIL("%ld calls", n);
}

TEST(each_call_of_the_library_fails) {
    cuda_standin *driver;
    cublaslt_standin *lt;
    uint32_t n = 0;
    bool failed = true;
    if (!find(&driver, &lt)) return;
    while (failed && ++n < 500) {
        lt->calls = 0;
        lt->fail_at = n;
        lt->fail_code = 13;
        failed = try_once(driver, lt);
    }
    EXPECT(n > 10 && n < 500);
}

TEST_MAIN
