/* test_cuda_operations.c: operations of the row of CUDA, with libraries that stand in for NVIDIA's
 * driver (cuda_standin.c), for cuBLASLt (cublaslt_standin.c) and for cuDNN (cudnn_standin.c): they
 * run in the order of the stream, on memory of the device, and every failure of each comes back as
 * a status. Which calls the libraries take: tests/unit/ops/cuda. */
#include "runtime/device/cuda.h"

#include "runtime/device/rows.h"
#include "support/cublaslt_standin.h"
#include "support/cuda_standin.h"
#include "support/cudnn_standin.h"
#include "tune/calls.h"
#include "tune/device.h"
#include "unit/harness.h"

#include <dlfcn.h>
#include <stdlib.h>

/* Records of the libraries. */
typedef struct standins {
    cuda_standin *driver;
    cublaslt_standin *lt;
    cudnn_standin *dnn;
} standins;

static void *record_of(const char *path, const char *name) {
    void *handle = dlopen(path, RTLD_NOW), *address = handle ? dlsym(handle, name) : NULL;
    void *(*record)(void);
    memcpy(&record, &address, sizeof record);
    return address ? record() : NULL;
}

/* y = relu(x @ w + b), for 2 x 3 and 3 x 4; the same as a convolution of two images of one
 * place. */
enum { M = 2, N = 4, K = 3 };
static const float x[M * K] = {1, 2, 3, -1, -2, 4}, bias[N] = {0, 1, -40, 3};
static const float w[K * N] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
static const float w_conv[N * K] = {1, 5, 9, 2, 6, 10, 3, 7, 11, 4, 8, 12};
static const float expected[M * N] = {38, 45, 10, 59, 25, 27, 0, 31};

static const int64_t product[HN_MATMUL_PARAM_COUNT] = {1,
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

static const int64_t conv[HN_CONV_PARAM_COUNT] = {M,
                                                  K,
                                                  N,
                                                  1,
                                                  [HN_CONV_IN] = 1,
                                                  1,
                                                  1,
                                                  [HN_CONV_KERNEL] = 1,
                                                  1,
                                                  1,
                                                  [HN_CONV_OUTSIZE] = 1,
                                                  1,
                                                  1,
                                                  [HN_CONV_STRIDE] = 1,
                                                  1,
                                                  1,
                                                  [HN_CONV_DILATION] = 1,
                                                  1,
                                                  1,
                                                  [HN_CONV_X] = K,
                                                  1,
                                                  [HN_CONV_W] = K,
                                                  1,
                                                  [HN_CONV_OUT] = N,
                                                  1,
                                                  [HN_CONV_EPILOGUE] = HN_EPILOGUE_RELU};

/* The two operations. */
static const struct {
    hn_extern_kind kind;
    const int64_t *params;
    uint32_t param_count;
    const float *w;
} cases[] = {{HN_EXTERN_MATMUL, product, HN_MATMUL_PARAM_COUNT, w},
             {HN_EXTERN_CONV, conv, HN_CONV_PARAM_COUNT, w_conv}};
enum { PRODUCT, CONVOLUTION, CASES };

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

static hn_status begin(fixture *f, uint32_t which) {
    *f = (fixture){.ops = &hn_device_cuda};
    f->call = (hn_ext_call){.kind = cases[which].kind,
                            .params = cases[which].params,
                            .param_count = cases[which].param_count,
                            .threads = 1,
                            .knows_rooms = true};
    HN_TRY(hn_dev_open(&hn_device_cuda, &(hn_device_options){.number = 0}, &f->dev));
    HN_TRY(f->ops->queue_create(f->dev, &(hn_queue_options){.step_count = 8}, &f->queue));
    HN_TRY(put(f, 0, NULL, M * N));
    HN_TRY(put(f, 1, x, M * K));
    HN_TRY(put(f, 2, cases[which].w, K * N));
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

static void reset(const standins *s) {
    cuda_standin_reset(s->driver);
    *s->lt = (cublaslt_standin){.objects = s->lt->objects};
    *s->dnn = (cudnn_standin){.objects = s->dnn->objects};
}

static void expect_nothing_left(const standins *s) {
    EXPECT_INT(s->driver->memories, 0);
    EXPECT_INT(s->driver->pinned, 0);
    EXPECT_INT(s->driver->streams, 0);
    EXPECT_INT(s->driver->contexts, 0);
    EXPECT_INT(s->lt->objects, 0);
    EXPECT_STR(s->lt->misuse, "");
    EXPECT_INT(s->dnn->objects, 0);
    EXPECT_STR(s->dnn->misuse, "");
}

static bool find(standins *s) {
    setenv("HENRY_CUBLASLT", HN_CUBLASLT_STANDIN, 1);
    setenv("HENRY_CUDNN", HN_CUDNN_STANDIN, 1);
    *s = (standins){.driver = cuda_standin_find(),
                    .lt = record_of(HN_CUBLASLT_STANDIN, "cublasLtStandin"),
                    .dnn = record_of(HN_CUDNN_STANDIN, "cudnnStandin")};
    if (s->driver && s->lt && s->dnn) {
        reset(s);
        return true;
    }
    hn_test_skip("the libraries that are found are not those of the tests");
    return false;
}

TEST(operations) {
    standins s;
    if (!find(&s)) return;
    for (uint32_t which = 0; which < CASES; which++) {
        fixture f;
        bool right = false;
        EXPECT_OK(begin(&f, which));
        for (int k = 0; f.operation && k < 3; k++) {
            EXPECT_OK(run(&f, &right));
            EXPECT(right);
        }
        EXPECT_INT(which == PRODUCT ? s.lt->products : s.dnn->convolutions, 3);
        end(&f);
        expect_nothing_left(&s);
    }
}

/* The nodes of an operation keep their addresses: a recording of one is right for the same ones,
 * and is not touched for others. The kernel, copy or fill beside it would be exchanged. */
TEST(operations_in_recordings) {
    standins s;
    if (!find(&s)) return;
    for (uint32_t which = 0; which < CASES; which++) {
        fixture f;
        hn_recording *r = NULL;
        hn_device_fault fault;
        bool right = false;
        float y[M * N] = {0};
        EXPECT_OK(begin(&f, which));
        EXPECT_OK(run(&f, &right));
        if (!f.operation) return;
        void *args[HN_EXT_MAX_OPERANDS] = {f.at[0], f.at[1], f.at[2], f.at[3]};
        void *cleared = f.ops->alloc(f.dev, sizeof y);
        EXPECT_OK(f.ops->recording_begin(f.queue));
        EXPECT_OK(f.ops->fill(f.queue, f.at[0], 0, sizeof y));
        EXPECT_OK(f.ops->operations->run(f.queue, f.operation, 3, args, f.scratch, &fault));
        EXPECT_OK(f.ops->recording_end(f.queue, true, &r));
        for (int is_other = 0; is_other < 2; is_other++) {
            args[0] = is_other ? cleared : f.at[0];
            EXPECT(f.ops->patch_begin(f.queue, r));
            EXPECT_OK(f.ops->fill(f.queue, cleared, 0, sizeof y));
            EXPECT_OK(f.ops->operations->run(f.queue, f.operation, 3, args, f.scratch, &fault));
            EXPECT_INT(f.ops->patch_end(f.queue, true, false, &r), !is_other);
            EXPECT_INT(s.driver->patches, 1);
        }
        EXPECT_OK(f.ops->fill(f.queue, f.at[0], 0, sizeof y));
        EXPECT_OK(f.ops->replay(f.queue, r));
        EXPECT_OK(f.ops->copy_out(f.queue, y, f.at[0], sizeof y));
        EXPECT_OK(f.ops->finish(f.queue, &fault));
        EXPECT(memcmp(y, expected, sizeof y) == 0);
        hn_recording_free(r);
        hn_dev_free(f.dev, cleared);
        end(&f);
        expect_nothing_left(&s);
        reset(&s);
    }
}

/* Layers repeat: the libraries are asked once. Each call goes on when the other one is gone. */
TEST(equal_operations_are_chosen_once) {
    standins s;
    if (!find(&s)) return;
    for (uint32_t which = 0; which < CASES; which++) {
        fixture f;
        hn_device_operation *other = NULL;
        bool right = false;
        reset(&s);
        EXPECT_OK(begin(&f, which));
        if (!f.operation) return;
        const uint32_t *asked = which == PRODUCT ? &s.lt->choices : &s.dnn->plans;
        const uint32_t once = *asked;
        EXPECT(once > 0);
        EXPECT_OK(f.ops->operations->prepare(f.dev, &f.call, &other));
        EXPECT_INT(*asked, once);
        hn_dev_operation_release(f.dev, f.operation);
        f.operation = other;
        EXPECT_OK(run(&f, &right));
        EXPECT(right);
        f.call.rooms[1].before = 4; /* aligned to 4 bytes only */
        EXPECT_OK(f.ops->operations->prepare(f.dev, &f.call, &other));
        EXPECT_INT(*asked, 2 * once);
        hn_dev_operation_release(f.dev, other);
        end(&f);
        expect_nothing_left(&s);
    }
}

static const hn_ext_form forms[] = {{.kind = NULL},
                                    {.kind = "library", .candidate = 2},
                                    {.kind = "library", .candidate = 3},
                                    {.kind = "library", .candidate = 4},
                                    {.kind = "winograd"}};
static const char *const names[] = {"own", "library candidate=2", "library candidate=3",
                                    "library candidate=4", "winograd"};
enum { FORMS = 5, FORMS_OF_PRODUCTS = 3 };

TEST(an_operation_is_asked_for_a_form) {
    standins s;
    fixture f;
    bool right = false;
    if (!find(&s)) return;
    EXPECT_OK(begin(&f, PRODUCT));
    for (uint32_t k = 0; f.operation && k < FORMS; k++) {
        hn_device_operation *o = NULL;
        f.call.form = &forms[k];
        hn_status status = f.ops->operations->prepare(f.dev, &f.call, &o);
        EXPECT_INT(hn_status_code(status), k < FORMS_OF_PRODUCTS ? HN_OK : HN_UNSUPPORTED);
        hn_status_free(status);
        if (!o) continue;
        hn_dev_operation_release(f.dev, f.operation);
        f.operation = o;
        EXPECT_OK(run(&f, &right));
        EXPECT(right);
        EXPECT_INT(s.lt->last_candidate, k + 1);
    }
    end(&f);
    expect_nothing_left(&s);
}

/* Tuning compares them on the device. */
TEST(forms_of_operations_race) {
    const hn_bench_options quick = {.budget_ns = 5000000, .max_rounds = 8};
    hn_call_subject subject = {.params = product, .threads = 1, .device = {HN_DEVICE_CUDA, 0}};
    hn_bench_report *report = NULL;
    standins s;
    const int64_t bytes[] = {4 * M * N, 4 * M * K, 4 * K * N, 4 * N};
    if (!find(&s)) return;
    for (int k = 0; k < 4; k++) subject.dtypes[k] = HN_F32, subject.bytes[k] = bytes[k];
    subject.is_written[0] = true;
    for (uint32_t which = 0; which < CASES; which++) {
        reset(&s);
        subject.kind = cases[which].kind;
        subject.params = cases[which].params;
        EXPECT_OK(hn_bench_call_forms(&quick, &subject, forms, names, FORMS, &report));
        for (uint32_t k = 0; report && k < FORMS; k++) {
            const bool is_there = which == PRODUCT ? k < FORMS_OF_PRODUCTS : k == 0 || k == 2;
            const bool is_out = report->results[k].state == HN_BENCH_DROPPED;
            EXPECT_INT(is_out, !is_there);
            EXPECT(is_out == (report->results[k].why && *report->results[k].why));
        }
        hn_bench_report_destroy(report);
        report = NULL;
        expect_nothing_left(&s);
    }
}

/* What is the fastest depends on the libraries. */
TEST(records_of_tuning_name_the_libraries) {
    standins s;
    hn_strbuf text;
    if (!find(&s)) return;
    hn_strbuf_init(&text);
    EXPECT(hn_tuning_device_find((hn_device){HN_DEVICE_CUDA, 0},
                                 &(hn_tuning_code){.target = "sm_90a"}, &text));
    EXPECT(strstr(hn_strbuf_str(&text).ptr, "libraries=cuBLASLt ") &&
           strstr(hn_strbuf_str(&text).ptr, " cuDNN "));
    hn_strbuf_deinit(&text);
    expect_nothing_left(&s);
}

/* What an operation has done is told when it is waited for, like what a kernel has. */
TEST(an_operation_may_be_the_reason) {
    standins s;
    fixture f;
    hn_device_fault fault;
    if (!find(&s)) return;
    EXPECT_OK(begin(&f, PRODUCT));
    void *args[HN_EXT_MAX_OPERANDS] = {f.at[0], f.at[1], f.at[2], f.at[3]};
    if (f.operation)
        EXPECT_OK(f.ops->operations->run(f.queue, f.operation, 3, args, f.scratch, &fault));
    s.driver->calls = 0;
    s.driver->code = 700;
    s.driver->is_lost = true;
    s.driver->fail_at = 2; /* behind that which makes the context current */
    EXPECT_ERROR(f.ops->finish(f.queue, &fault), HN_DEVICE,
                 "one of the operations, 1 in all: CUDA: cuStreamSynchronize failed: "
                 "CUDA_ERROR_ILLEGAL_ADDRESS (700)");
    reset(&s);
    end(&f);
    expect_nothing_left(&s);
}

TEST(without_the_libraries) {
    standins s;
    fixture f;
    if (!find(&s)) return;
    setenv("HENRY_CUBLASLT", "off", 1);
    setenv("HENRY_CUDNN", "off", 1);
    EXPECT_ERROR(begin(&f, PRODUCT), HN_UNSUPPORTED, "cuBLASLt is switched off");
    end(&f);
    EXPECT_ERROR(begin(&f, CONVOLUTION), HN_UNSUPPORTED, "cuDNN is switched off");
    end(&f);
    expect_nothing_left(&s);
}

/* Begins and runs with a failure in it. Whether it came so far. */
static bool try_once(const standins *s, uint32_t which) {
    fixture f;
    bool right = false;
    hn_status status = begin(&f, which);
    if (!status) status = run(&f, &right);
    const bool failed = s->driver->failed || (s->lt->fail_at && s->lt->calls >= s->lt->fail_at) ||
                        (s->dnn->fail_at && s->dnn->calls >= s->dnn->fail_at);
    EXPECT((failed || !status) && right == !status); /* the row does without some of the driver */
    hn_status_free(status);
    reset(s);
    end(&f);
    expect_nothing_left(s);
    return failed;
}

TEST(each_call_of_the_driver_fails) {
    standins s;
    if (!find(&s)) return;
    for (uint32_t which = 0; which < CASES; which++) {
        long n = 0;
        bool failed = true;
        while (failed && ++n < 500) {
            s.driver->code = 2;
            s.driver->calls = 0;
            s.driver->fail_at = n;
            failed = try_once(&s, which);
        }
        if (n <= 20 || n >= 500) HN_TEST_FAIL("%ld calls", n);
    }
}

TEST(each_call_of_a_library_fails) {
    standins s;
    if (!find(&s)) return;
    for (uint32_t which = 0; which < CASES; which++) {
        uint32_t n = 0;
        bool failed = true;
        while (failed && ++n < 500) {
            if (which == PRODUCT) s.lt->fail_at = n, s.lt->fail_code = 13;
            else s.dnn->fail_at = n, s.dnn->fail_code = 5000;
            failed = try_once(&s, which);
        }
        EXPECT(n > 10 && n < 500);
    }
}

TEST_MAIN
