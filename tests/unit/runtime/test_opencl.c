/* test_opencl.c: the row of OpenCL: memory, code, launches, faults, queues and threads; and what
 * comes of each failure of the driver. Skipped where there is no device.
 * tests/unit/runtime/test_device.c has what all rows must do. */
#include "runtime/device/opencl.h"

#include "base/opencl_program.h"
#include "support/opencl_faults.h"
#include "unit/harness.h"

#include <stdlib.h>

/* Under the convention of src/codegen/opencl/README.md. */
static const char kernels[] =
    "__kernel void gather(__global const float *x, const long x_at, __global const long *index, const long index_at, __global float *y,\n"
    "                     const long y_at, __global int *status, const long status_at, const long count) {\n"
    "  x += x_at / sizeof *x, index += index_at / sizeof *index, y += y_at / sizeof *y, status += status_at / sizeof *status;\n"
    "  long at = index[get_global_id(0)];\n"
    "  if (at < 0 || at >= count) *status = 1, at = 0;\n"
    "  y[get_global_id(0)] = x[at];\n"
    "}\n"
    "__kernel void sum(__global const float *x, const long x_at, __global float *y, const long y_at, __global uchar *scratch,\n"
    "                  const long scratch_at, __global int *status, const long status_at, const long count) {\n"
    "  x += x_at / sizeof *x, y += y_at / sizeof *y, scratch += scratch_at;\n"
    "  __global float *part = (__global float *)(scratch + get_group_id(0) * 64);\n"
    "  part[0] = 0;\n"
    "  for (long k = 0; k < count; k++) part[0] += x[get_group_id(0) * count + k];\n"
    "  y[get_group_id(0)] = part[0];\n"
    "}\n"
    "__kernel void spin(__global float *y, const long y_at, __global int *status, const long status_at, const long count) {\n"
    "  y += y_at / sizeof *y;\n"
    "  for (long k = 0; k < count; k++) y[get_global_id(0)] = y[get_global_id(0)] * 0.5f + 1;\n"
    "}\n";

static void put_object(hn_str source, const hn_opencl_binary *binary, hn_strbuf *out) {
    hn_opencl_program program = {
        .options = HN_STR("-cl-std=CL1.2"), .source = source, .binary_count = binary != NULL};
    if (binary) program.binaries[0] = *binary;
    hn_strbuf_init(out);
    hn_opencl_program_write(&program, out);
}

/* A device, a queue, and the kernels. */
typedef struct fixture {
    hn_dev *dev;
    const hn_device_ops *ops;
    hn_queue *queue;
    hn_device_program *code;
    void *gather, *sum, *spin;
} fixture;

/* NULL when there is a device. */
static hn_status open_first(hn_dev **out) {
    static hn_opencl cl;
    HN_TRY(hn_opencl_load(&cl));
    opencl_faults_wrap(&cl);
    return hn_opencl_dev_open(&cl, &(hn_device_options){.number = 0}, out);
}

static bool begin(fixture *f) {
    hn_strbuf object;
    *f = (fixture){.dev = NULL};
    hn_status status = open_first(&f->dev);
    if (hn_status_code(status) == HN_NOT_FOUND) {
        hn_test_lacks(status);
        return false;
    }
    EXPECT_OK(status);
    if (!f->dev) return false;
    f->ops = f->dev->ops;
    put_object(HN_STR(kernels), NULL, &object);
    EXPECT_OK(f->ops->queue_create(f->dev, &(hn_queue_options){.step_count = 8}, &f->queue));
    EXPECT_OK(f->ops->load(f->dev, object.ptr, object.len, "kernels", &f->code));
    hn_strbuf_deinit(&object);
    if (!f->queue || !f->code) return false;
    EXPECT_OK(f->ops->find(f->code, "gather", &f->gather));
    EXPECT_OK(f->ops->find(f->code, "sum", &f->sum));
    EXPECT_OK(f->ops->find(f->code, "spin", &f->spin));
    return f->gather && f->sum && f->spin;
}

static void end(fixture *f) {
    if (!f->dev) return;
    f->ops->unload(f->code);
    f->ops->queue_destroy(f->queue);
    f->ops->close(f->dev);
}

static hn_status finish(const fixture *f, hn_queue *queue, int expected_step) {
    hn_device_fault fault;
    HN_TRY(f->ops->finish(queue, &fault));
    EXPECT_INT(fault.is_set ? (int)fault.step : -1, expected_step);
    return NULL;
}

/* ---- memory ---- */

TEST(addresses_are_found_again) {
    fixture f;
    enum { COUNT = 200 };
    uint8_t *memory[COUNT];
    opencl_place place, other;
    if (!begin(&f)) return end(&f);
    opencl_dev *d = (opencl_dev *)f.dev;
    for (int k = 0; k < COUNT; k++) {
        memory[k] = f.ops->alloc(f.dev, (size_t)(k * 7 % 90));
        EXPECT(memory[k] && (uintptr_t)memory[k] % f.dev->facts.align == 0);
    }
    for (int k = 0; k < COUNT; k += 3) f.ops->free(f.dev, memory[k]);
    for (int k = 0; k < COUNT; k++) {
        const size_t bytes = (size_t)(k * 7 % 90);
        if (k % 3 == 0) {
            EXPECT_ERROR(hn_opencl_find(d, memory[k], &place), HN_INTERNAL,
                         "is no address on opencl:0");
            continue;
        }
        EXPECT_OK(hn_opencl_find(d, memory[k], &place));
        EXPECT_OK(hn_opencl_find(d, memory[k] + bytes, &other)); /* the end, too */
        EXPECT(place.object == other.object && place.offset == 0 && other.offset == bytes);
    }
    EXPECT_ERROR(hn_opencl_find(d, &f, &place), HN_INTERNAL, "is no address");
    EXPECT_OK(hn_opencl_find(d, NULL, &place));
    EXPECT(place.object == d->nothing);
    for (int k = 0; k < COUNT; k++)
        if (k % 3) f.ops->free(f.dev, memory[k]);
    EXPECT_INT(d->range_count, 0);
    end(&f);
}

TEST(copies_may_overlap) {
    fixture f;
    uint8_t bytes[100], back[100] = {0}, expected[100];
    if (!begin(&f)) return end(&f);
    for (int k = 0; k < 100; k++) bytes[k] = expected[k] = (uint8_t)k;
    uint8_t *m = f.ops->alloc(f.dev, sizeof bytes);
    EXPECT_OK(f.ops->copy_in(f.queue, m, bytes, sizeof bytes));
    EXPECT_OK(f.ops->copy(f.queue, m + 10, m, 80));
    memmove(expected + 10, expected, 80);
    EXPECT_OK(f.ops->copy(f.queue, m + 1, m + 5, 60));
    memmove(expected + 1, expected + 5, 60);
    EXPECT_OK(f.ops->copy(f.queue, m, m, 60));
    EXPECT_OK(f.ops->copy_out(f.queue, back, m, sizeof back));
    EXPECT_OK(finish(&f, f.queue, -1));
    EXPECT(memcmp(back, expected, sizeof back) == 0);
    f.ops->free(f.dev, m);
    end(&f);
}

TEST(memory_ends) {
    fixture f;
    if (!begin(&f)) return end(&f);
    EXPECT(!f.ops->alloc(f.dev, (size_t)1 << 58));
    EXPECT(!f.ops->alloc(f.dev, SIZE_MAX));
    EXPECT_INT(((opencl_dev *)f.dev)->range_count, 0);
    end(&f);
}

/* ---- code ---- */

static hn_status load(const fixture *f, const hn_strbuf *object, hn_device_program **out) {
    return f->ops->load(f->dev, object->ptr, object->len, "unit 3", out);
}

TEST(errors_of_code) {
    fixture f;
    hn_strbuf object;
    hn_device_program *code = NULL;
    void *kernel = NULL;
    if (!begin(&f)) return end(&f);
    EXPECT_ERROR(f.ops->find(f.code, "gathers", &kernel), HN_NOT_FOUND,
                 "'kernels' has no kernel 'gathers'");
    put_object(HN_STR("\n__kernel void f(__global int *p) { *p = nothing; }\n"), NULL, &object);
    EXPECT_ERROR(load(&f, &object, &code), HN_TOOLCHAIN,
                 "OpenCL cannot build 'unit 3': CL_BUILD_PROGRAM_FAILURE");
    EXPECT_ERROR(load(&f, &object, &code), HN_TOOLCHAIN, "nothing");
    object.len--;
    EXPECT_ERROR(load(&f, &object, &code), HN_CORRUPT,
                 "cannot load 'unit 3': an OpenCL program is damaged");
    hn_strbuf_deinit(&object);
    EXPECT(!code && !kernel && !f.ops->direct);
    end(&f);
}

/* The driver's own binary of the kernels. */
static hn_status read_binary(const opencl_code *c, hn_strbuf *out) {
    const hn_opencl *cl = &c->dev->cl;
    size_t size = 0;
    HN_TRY(hn_opencl_status(
        cl->clGetProgramInfo(c->program, CL_PROGRAM_BINARY_SIZES, sizeof size, &size, NULL),
        "clGetProgramInfo"));
    unsigned char *bytes = (unsigned char *)hn_strbuf_reserve(out, size);
    out->len = size;
    return hn_opencl_status(
        cl->clGetProgramInfo(c->program, CL_PROGRAM_BINARIES, sizeof bytes, &bytes, NULL),
        "clGetProgramInfo");
}

TEST(the_binary_of_the_driver_comes_before_the_text) {
    fixture f;
    hn_strbuf binary, object;
    hn_device_program *code = NULL;
    void *kernel = NULL;
    if (!begin(&f)) return end(&f);
    const opencl_dev *d = (opencl_dev *)f.dev;
    hn_strbuf_init(&binary);
    EXPECT_OK(read_binary((opencl_code *)f.code, &binary));
    hn_opencl_binary own = {hn_strbuf_str(&d->identity), hn_strbuf_str(&binary)};

    put_object(HN_STR("no OpenCL C"), &own, &object);
    EXPECT_OK(load(&f, &object, &code));
    if (code) EXPECT_OK(f.ops->find(code, "gather", &kernel));
    f.ops->unload(code), hn_strbuf_deinit(&object);

    own.bytes = HN_STR("no binary at all");
    put_object(HN_STR(kernels), &own, &object);
    code = NULL;
    EXPECT_OK(load(&f, &object, &code)); /* from the text */
    f.ops->unload(code), hn_strbuf_deinit(&object);

    own = (hn_opencl_binary){HN_STR("another driver"), hn_strbuf_str(&binary)};
    put_object(HN_STR("no OpenCL C"), &own, &object);
    code = NULL;
    EXPECT_ERROR(load(&f, &object, &code), HN_TOOLCHAIN, "cannot build");
    hn_strbuf_deinit(&object), hn_strbuf_deinit(&binary);
    end(&f);
}

/* ---- launches ---- */

enum { LONG = 24 };

/* x, index and y, in one piece of memory, none of them at its beginning. */
typedef struct gather_memory {
    uint8_t *whole;
    void *args[3];
} gather_memory;

static hn_status gather_begin(const fixture *f, hn_queue *queue, const float x[4],
                              const long long index[LONG], gather_memory *out) {
    out->whole = f->ops->alloc(f->dev, 1024);
    if (!out->whole) return HN_ERROR(HN_OUT_OF_MEMORY, "no memory");
    for (int k = 0; k < 3; k++) out->args[k] = out->whole + 64 + 256 * k;
    HN_TRY(f->ops->copy_in(queue, out->args[0], x, 4 * sizeof *x));
    return f->ops->copy_in(queue, out->args[1], index, LONG * sizeof *index);
}

static hn_status gather(const fixture *f, hn_queue *queue, const gather_memory *m, uint32_t step,
                        long long count) {
    hn_device_fault fault = {.is_set = true};
    hn_status status = f->ops->launch(queue,
                                      &(hn_device_launch){.kernel = f->gather,
                                                          .step = step,
                                                          .args = m->args,
                                                          .arg_count = 3,
                                                          .params = &count,
                                                          .param_count = 1,
                                                          .extent = LONG / 4,
                                                          .groups = {LONG / 4, 1, 1},
                                                          .threads = {4, 1, 1},
                                                          .scratch = m->whole},
                                      &fault);
    if (!status) EXPECT(!fault.is_set);
    return status;
}

TEST(launches) {
    fixture f;
    gather_memory m;
    const float x[4] = {1, 2, 3, 4};
    long long index[LONG];
    float y[LONG] = {0};
    for (int k = 0; k < LONG; k++) index[k] = k * 3 % 4;
    if (!begin(&f)) return end(&f);
    EXPECT_OK(gather_begin(&f, f.queue, x, index, &m));
    EXPECT_OK(gather(&f, f.queue, &m, 0, 4));
    EXPECT_OK(f.ops->copy_out(f.queue, y, m.args[2], sizeof y));
    EXPECT_OK(finish(&f, f.queue, -1));
    for (int k = 0; k < LONG; k++) EXPECT(y[k] == x[k * 3 % 4]);
    /* of a kernel with scratch memory */
    long long count = 2;
    hn_device_fault fault;
    hn_device_launch launch = {.kernel = f.sum,
                               .step = 1,
                               .args = (void *[]){m.args[2], m.args[0]},
                               .arg_count = 2,
                               .params = &count,
                               .param_count = 1,
                               .extent = 4,
                               .groups = {4, 1, 1},
                               .threads = {1, 1, 1},
                               .scratch = m.args[1],
                               .scratch_stride = 64};
    EXPECT_OK(f.ops->launch(f.queue, &launch, &fault));
    EXPECT_OK(f.ops->read(f.queue, y + 4, m.args[0], 4 * sizeof *y));
    for (int k = 0; k < 4; k++) EXPECT(y[4 + k] == x[k * 6 % 4] + x[(k * 6 + 3) % 4]);
    launch.groups[0] = 0; /* no group: nothing */
    EXPECT_OK(f.ops->launch(f.queue, &launch, &fault));
    launch.groups[0] = 4, launch.arg_count = 1;
    EXPECT_ERROR(f.ops->launch(f.queue, &launch, &fault), HN_CORRUPT,
                 "kernel 'sum' has 9 arguments, where 5 or 7 are given");
    launch.arg_count = 2, launch.args = (void *[]){m.args[2], &f};
    EXPECT_ERROR(f.ops->launch(f.queue, &launch, &fault), HN_INTERNAL, "kernel 'sum'");
    EXPECT_OK(finish(&f, f.queue, -1));
    f.ops->free(f.dev, m.whole);
    end(&f);
}

TEST(the_first_step_with_a_fault_is_told_once) {
    fixture f;
    gather_memory m;
    const float x[4] = {1, 2, 3, 4};
    long long index[LONG] = {0};
    index[LONG - 1] = 3;
    if (!begin(&f)) return end(&f);
    EXPECT_OK(gather_begin(&f, f.queue, x, index, &m));
    EXPECT_OK(gather(&f, f.queue, &m, 5, 4));
    EXPECT_OK(gather(&f, f.queue, &m, 6, 3)); /* 3 is outside */
    EXPECT_OK(gather(&f, f.queue, &m, 7, 3));
    EXPECT_OK(gather(&f, f.queue, &m, 3, 2));
    EXPECT_OK(finish(&f, f.queue, 3));
    EXPECT_OK(finish(&f, f.queue, -1));
    for (uint32_t step = 0; step < 8; step++)
        EXPECT_OK(gather(&f, f.queue, &m, step, 4)); /* nothing is left of it */
    EXPECT_OK(finish(&f, f.queue, -1));
    EXPECT_OK(gather(&f, f.queue, &m, 7, 3));
    EXPECT_OK(finish(&f, f.queue, 7));
    EXPECT_ERROR(gather(&f, f.queue, &m, 8, 4), HN_INTERNAL, "a queue of 8 steps gets step 8");
    f.ops->free(f.dev, m.whole);
    end(&f);
}

/* ---- queues, threads, contexts ---- */

/* What one queue computes slowly, another takes when it is done, without the host. */
TEST(a_queue_waits_for_another) {
    fixture f;
    hn_queue *second = NULL;
    hn_event *event = NULL;
    hn_device_fault fault;
    float y = 8, got = 0;
    long long count = 3000000;
    if (!begin(&f)) return end(&f);
    EXPECT_OK(f.ops->queue_create(f.dev, &(hn_queue_options){.step_count = 1}, &second));
    void *a = f.ops->alloc(f.dev, sizeof y), *b = f.ops->alloc(f.dev, sizeof y);
    EXPECT_OK(f.ops->copy_in(f.queue, a, &y, sizeof y));
    EXPECT_OK(f.ops->launch(f.queue,
                            &(hn_device_launch){.kernel = f.spin,
                                                .args = &a,
                                                .arg_count = 1,
                                                .params = &count,
                                                .param_count = 1,
                                                .extent = 1,
                                                .groups = {1, 1, 1},
                                                .threads = {1, 1, 1}},
                            &fault));
    EXPECT_OK(f.ops->record(f.queue, &event));
    EXPECT_OK(f.ops->wait(second, event));
    EXPECT_OK(f.ops->copy(second, b, a, sizeof y));
    EXPECT_OK(f.ops->read(second, &got, b, sizeof got));
    EXPECT_NEAR(got, 2, 1e-6);
    EXPECT_OK(finish(&f, f.queue, -1));
    f.ops->event_free(event);
    f.ops->queue_destroy(second);
    f.ops->free(f.dev, a), f.ops->free(f.dev, b);
    end(&f);
}

TEST(events_have_times) {
    fixture f;
    hn_queue *queue = NULL;
    hn_event *before = NULL, *after = NULL;
    hn_device_fault fault;
    int64_t begin_ns = 0, end_ns = 0;
    float y = 8;
    long long count = 3000000;
    if (!begin(&f)) return end(&f);
    EXPECT_OK(
        f.ops->queue_create(f.dev, &(hn_queue_options){.step_count = 1, .profile = true}, &queue));
    EXPECT(f.ops->handle(queue) && f.ops->handle(queue) != f.ops->handle(f.queue));
    void *a = f.ops->alloc(f.dev, sizeof y);
    EXPECT_OK(f.ops->copy_in(queue, a, &y, sizeof y));
    EXPECT_OK(f.ops->record(queue, &before));
    EXPECT_OK(f.ops->launch(queue,
                            &(hn_device_launch){.kernel = f.spin,
                                                .args = &a,
                                                .arg_count = 1,
                                                .params = &count,
                                                .param_count = 1,
                                                .extent = 1,
                                                .groups = {1, 1, 1},
                                                .threads = {1, 1, 1}},
                            &fault));
    EXPECT_OK(f.ops->record(queue, &after));
    EXPECT_OK(finish(&f, queue, -1));
    EXPECT_OK(f.ops->event_time(before, &begin_ns));
    EXPECT_OK(f.ops->event_time(after, &end_ns));
    EXPECT(end_ns - begin_ns > 1000000); /* it takes 10 ms and more */
    f.ops->event_free(before), f.ops->event_free(after);
    EXPECT_OK(f.ops->record(f.queue, &before)); /* of a queue without times */
    EXPECT_ERROR(f.ops->event_time(before, &begin_ns), HN_DEVICE,
                 "CL_PROFILING_INFO_NOT_AVAILABLE");
    f.ops->event_free(before);
    f.ops->queue_destroy(queue);
    f.ops->free(f.dev, a);
    end(&f);
}

typedef struct worker {
    pthread_t thread;
    const fixture *f;
    int number, wrong;
    hn_status status;
} worker;

enum { THREADS = 4, ROUNDS = 60 };

static hn_status work(worker *w, hn_queue *queue) {
    const float x[4] = {(float)w->number, 10, 20, 30};
    long long index[LONG] = {0};
    float y[LONG];
    gather_memory m;
    for (int k = 0; k < LONG; k++) index[k] = (k + w->number) % 4;
    hn_status status = gather_begin(w->f, queue, x, index, &m);
    for (int round = 0; !status && round < ROUNDS; round++) {
        hn_device_fault fault;
        const bool is_bad = (round + w->number) % 5 == 0;
        status = gather(w->f, queue, &m, (uint32_t)round % 8, is_bad ? 2 : 4);
        if (!status) status = w->f->ops->copy_out(queue, y, m.args[2], sizeof y);
        if (!status) status = w->f->ops->finish(queue, &fault);
        if (status) break;
        w->wrong += fault.is_set != is_bad;
        for (int k = 0; k < LONG && !is_bad; k++) w->wrong += y[k] != x[index[k]];
    }
    w->f->ops->free(w->f->dev, m.whole);
    return status;
}

static void *run_worker(void *context) {
    worker *w = context;
    hn_queue *queue = NULL;
    w->status = w->f->ops->queue_create(w->f->dev, &(hn_queue_options){.step_count = 8}, &queue);
    if (!w->status) w->status = work(w, queue);
    w->f->ops->queue_destroy(queue);
    return NULL;
}

/* Each has a queue and memory of its own; device, program and kernel are shared. */
TEST(threads_share_a_device_and_its_kernels) {
    fixture f, other;
    worker workers[THREADS] = {0};
    if (!begin(&f)) return end(&f);
    EXPECT(begin(&other)); /* and there is a second device, with a context of its own */
    for (int k = 0; k < THREADS; k++) {
        workers[k] = (worker){.f = k % 4 == 3 ? &other : &f, .number = k};
        EXPECT_INT(pthread_create(&workers[k].thread, NULL, run_worker, &workers[k]), 0);
    }
    for (int k = 0; k < THREADS; k++) {
        pthread_join(workers[k].thread, NULL);
        EXPECT_OK(workers[k].status);
        EXPECT_INT(workers[k].wrong, 0);
    }
    end(&other);
    end(&f);
}

/* ---- failures of the driver ---- */

static hn_status use_kernel(const fixture *f, float *out) {
    const float x[4] = {5, 6, 7, 8};
    long long index[LONG] = {2};
    gather_memory m = {NULL};
    hn_event *event = NULL;
    hn_device_fault fault;
    int64_t ns;
    hn_status status = gather_begin(f, f->queue, x, index, &m);
    if (!status) status = gather(f, f->queue, &m, 1, 4);
    if (!status) status = f->ops->copy(f->queue, m.whole + 68, m.args[0], 12);
    if (!status) status = f->ops->record(f->queue, &event);
    if (!status) status = f->ops->wait(f->queue, event);
    if (!status) status = f->ops->read(f->queue, out, m.args[2], sizeof *out);
    if (!status) status = f->ops->copy_out(f->queue, out, m.args[2], sizeof *out);
    if (!status) status = gather(f, f->queue, &m, 2, 1); /* a fault */
    hn_status late = f->ops->finish(f->queue, &fault);   /* whatever has happened */
    if (!status && !late) EXPECT(fault.is_set && fault.step == 2);
    if (!status && !late) status = f->ops->event_time(event, &ns);
    if (status) hn_status_free(late);
    f->ops->event_free(event);
    f->ops->free(f->dev, m.whole);
    return status ? status : late;
}

/* All functions of the table, from opening the device to closing it. `out` is 7 at the end. */
static hn_status use_device(float *out) {
    fixture f = {.dev = NULL};
    hn_strbuf object;
    HN_TRY(open_first(&f.dev));
    f.ops = f.dev->ops;
    put_object(HN_STR(kernels), NULL, &object);
    hn_status status =
        f.ops->queue_create(f.dev, &(hn_queue_options){.step_count = 8, .profile = true}, &f.queue);
    if (!status) status = f.ops->load(f.dev, object.ptr, object.len, "kernels", &f.code);
    if (!status) status = f.ops->find(f.code, "gather", &f.gather);
    if (!status) status = use_kernel(&f, out);
    hn_strbuf_deinit(&object);
    end(&f);
    return status;
}

/* Names of devices are asked for messages and identities: without them there is a worse name, and
 * no binary. Platforms that fail have no devices. */
static bool may_be_ignored(const char *call) {
    return strcmp(call, "clGetDeviceInfo") == 0 || strcmp(call, "clGetPlatformInfo") == 0 ||
           strcmp(call, "clGetDeviceIDs") == 0;
}

static void expect_failure(hn_status status, hn_code code) {
    const char *call = opencl_faults_failed();
    const hn_code got = hn_status_code(status);
    if (!status) {
        if (!may_be_ignored(call)) HN_TEST_FAIL("a failure of %s went unnoticed", call);
        return;
    }
    if (got == HN_NOT_FOUND &&
        (strcmp(call, "clGetPlatformIDs") == 0 || strcmp(call, "clGetDeviceIDs") == 0))
        return;
    if (got == HN_OUT_OF_MEMORY && strcmp(call, "clCreateBuffer") == 0)
        return; /* `alloc` has no other error */
    const bool is_named = strncmp(call, "clCreateProgramWith", 19) != 0 ||
                          strstr(hn_status_message(status), "'kernels'") != NULL;
    if (got != code || !is_named || !strstr(hn_status_message(status), call))
        HN_TEST_FAIL("%s failed: %s", call, hn_status_message(status));
}

/* Every call fails once: an error that names it, nothing is left behind, and the next attempt is
 * right. */
static void every_call_fails(cl_int driver_code, hn_code code, bool is_lost) {
    fixture f;
    float y = 0;
    if (!begin(&f)) return end(&f);
    end(&f);
    opencl_faults_set(0, 0, false);
    EXPECT_OK(use_device(&y));
    const long calls = opencl_faults_calls();
    EXPECT(y == 7 && calls > 40);
    fprintf(stderr, "note: %ld calls from opening a device to closing it\n", calls);
    for (long k = 1; k <= calls; k++) {
        opencl_faults_set(k, driver_code, is_lost);
        hn_status status = use_device(&y);
        if (is_lost) EXPECT(status != NULL || may_be_ignored(opencl_faults_failed()));
        else expect_failure(status, code);
        hn_status_free(status);
    }
    opencl_faults_set(0, 0, false);
    y = 0;
    EXPECT_OK(use_device(&y));
    EXPECT(y == 7);
}

TEST(each_call_of_the_driver_fails_once) {
    every_call_fails(CL_OUT_OF_RESOURCES, HN_DEVICE, false);
}
TEST(memory_runs_out_in_each_call) {
    every_call_fails(CL_OUT_OF_HOST_MEMORY, HN_OUT_OF_MEMORY, false);
}
TEST(the_device_is_lost_at_each_call) {
    every_call_fails(CL_DEVICE_NOT_AVAILABLE, HN_DEVICE, true);
}

/* A queue goes on after a failure: each of its calls fails once, and the next use is right. */
TEST(a_queue_outlives_failures) {
    fixture f;
    hn_queue *plain;
    float y = 0;
    if (!begin(&f)) return end(&f);
    plain = f.queue;
    EXPECT_OK(f.ops->queue_create(f.dev, &(hn_queue_options){.step_count = 8, .profile = true},
                                  &f.queue));
    opencl_faults_set(0, 0, false);
    EXPECT_OK(use_kernel(&f, &y));
    const long calls = opencl_faults_calls();
    EXPECT(y == 7 && calls > 20);
    fprintf(stderr, "note: %ld calls of one use of a queue\n", calls);
    for (long k = 1; k <= calls; k++) {
        opencl_faults_set(k, CL_OUT_OF_RESOURCES, false);
        hn_status status = use_kernel(&f, &y);
        expect_failure(status, HN_DEVICE);
        hn_status_free(status);
        y = 0;
        EXPECT_OK(use_kernel(&f, &y));
        EXPECT(y == 7);
    }
    opencl_faults_set(0, 0, false);
    f.ops->queue_destroy(plain);
    end(&f);
}

/* ---- which device ---- */

TEST(devices_have_numbers) {
    fixture f;
    hn_dev *dev = NULL;
    if (!begin(&f)) return end(&f);
    hn_status status = f.ops->open(&(hn_device_options){.number = 99}, &dev);
    EXPECT_ERROR(status, HN_NOT_FOUND, "there is no device opencl:99; the last one is opencl:");
    EXPECT(f.dev->facts.name[0] && f.dev->facts.memory_bytes && !f.dev->facts.is_host);
    EXPECT_STR(f.ops->target_named("opencl"), "opencl");
    EXPECT(!f.ops->target_named("avx2") && !f.ops->target_named("opencl2"));
    end(&f);
}

TEST_MAIN
