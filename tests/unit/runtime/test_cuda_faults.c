/* test_cuda_faults.c: what comes of each failure of CUDA's driver, of crashes of kernels, and of
 * drivers and devices that cannot be used. With the stand-in for the driver. */
#include "unit/runtime/cuda_row.h"

#include <limits.h>

/* ---- failures of the driver ---- */

static void faults_set(long nth, int code, bool is_lost) {
    cuda_standin *s = cuda_standin_find();
    cuda_standin_reset(s);
    s->code = code;
    s->is_lost = is_lost;
    s->fail_at = nth;
}

static long faults_calls(void) { return cuda_standin_find()->calls; }

/* The name of the header, which has no version. */
static const char *faults_failed(void) {
    static char name[64];
    const char *call = cuda_standin_find()->failed;
    snprintf(name, sizeof name, "%.*s", call ? (int)strcspn(call, "_") : 0, call ? call : "");
    return name;
}

enum { UNKNOWN = 999, NO_MEMORY = 2, LAUNCH_FAILED = 719, ILLEGAL_ADDRESS = 700 };

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

/* Calls up to the last use of a device: those behind it give things back. */
static long used_calls;

/* All functions of the table, from opening the device to closing it. `out` is 7 at the end. */
static hn_status use_device(float *out) {
    fixture f = {.dev = NULL};
    used_calls = LONG_MAX;
    HN_TRY(hn_dev_open(&hn_device_cuda, &(hn_device_options){.number = 0}, &f.dev));
    f.ops = f.dev->ops;
    hn_status status =
        f.ops->queue_create(f.dev, &(hn_queue_options){.step_count = 8, .profile = true}, &f.queue);
    if (!status) status = load_kernels(&f, &f.code);
    if (!status) status = f.ops->find(f.code, "gather", &f.gather);
    if (!status) status = use_kernel(&f, out);
    used_calls = faults_calls();
    end(&f);
    return status;
}

/* A device without its name gets another one; what frees does what it can; of arguments the driver
 * need not tell. */
static bool may_be_ignored(const char *call) {
    return strcmp(call, "cuDeviceGetName") == 0 || strcmp(call, "cuCtxPushCurrent") == 0;
}

static void expect_failure(hn_status status, hn_code code) {
    const char *call = faults_failed();
    const hn_code got = hn_status_code(status);
    if (!status) {
        if (!may_be_ignored(call)) HN_TEST_FAIL("a failure of %s went unnoticed", call);
        return;
    }
    if (got == HN_OUT_OF_MEMORY &&
        (strncmp(call, "cuMemAlloc", 10) == 0 || strcmp(call, "cuStreamSynchronize") == 0 ||
         strcmp(call, "cuCtxPushCurrent") == 0))
        return; /* `alloc` has no other error */
    const bool is_named = strncmp(call, "cuModuleLoad", 12) != 0 ||
                          strstr(hn_status_message(status), "'kernels'") != NULL;
    if (got != code || !is_named || !strstr(hn_status_message(status), call))
        HN_TEST_FAIL("%s failed: %s", call, hn_status_message(status));
}

/* Every call fails once: an error that names it, nothing is left behind, and the next attempt is
 * right. */
static void every_call_fails(int driver_code, hn_code code, bool is_lost) {
    float y = 0;
    if (!cuda_standin_find()) return;
    faults_set(0, 0, false);
    EXPECT_OK(use_device(&y));
    const long calls = faults_calls();
    EXPECT(y == 7 && calls > 40);
    fprintf(stderr, "note: %ld calls from opening a device to closing it\n", calls);
    expect_nothing_left();
    for (long k = 1; k <= calls; k++) {
        faults_set(k, driver_code, is_lost);
        hn_status status = use_device(&y);
        if (k > used_calls) EXPECT(!status);
        else if (is_lost) EXPECT(status != NULL || may_be_ignored(faults_failed()));
        else expect_failure(status, code);
        hn_status_free(status);
        expect_nothing_left();
    }
    faults_set(0, 0, false);
    y = 0;
    EXPECT_OK(use_device(&y));
    EXPECT(y == 7);
    expect_nothing_left();
}

TEST(each_call_of_the_driver_fails_once) { every_call_fails(UNKNOWN, HN_DEVICE, false); }
TEST(memory_runs_out_in_each_call) { every_call_fails(NO_MEMORY, HN_OUT_OF_MEMORY, false); }
TEST(the_device_is_lost_at_each_call) { every_call_fails(LAUNCH_FAILED, HN_DEVICE, true); }

/* A queue goes on after a failure: each of its calls fails once, and the next use is right. */
TEST(a_queue_outlives_failures) {
    fixture f;
    hn_queue *plain;
    float y = 0;
    if (!cuda_standin_find() || !begin(&f)) return;
    plain = f.queue;
    EXPECT_OK(f.ops->queue_create(f.dev, &(hn_queue_options){.step_count = 8, .profile = true},
                                  &f.queue));
    EXPECT_OK(use_kernel(&f, &y)); /* the first one makes pinned memory, too */
    faults_set(0, 0, false);
    EXPECT_OK(use_kernel(&f, &y));
    const long calls = faults_calls();
    EXPECT(y == 7 && calls > 20);
    fprintf(stderr, "note: %ld calls of one use of a queue\n", calls);
    for (long k = 1; k <= calls; k++) {
        faults_set(k, UNKNOWN, false);
        hn_status status = use_kernel(&f, &y);
        expect_failure(status, HN_DEVICE);
        hn_status_free(status);
        y = 0;
        EXPECT_OK(use_kernel(&f, &y));
        EXPECT(y == 7);
    }
    faults_set(0, 0, false);
    f.ops->queue_destroy(plain);
    end(&f);
}

/* An error after which the context is of no use: the device says so from then on, and why. */
TEST(a_crash_is_remembered) {
    fixture f;
    float y;
    if (!cuda_standin_find()) return; /* it would be the end of this process's context */
    if (!begin(&f)) return end(&f);
    void *m = f.ops->alloc(f.dev, sizeof y);
    EXPECT_OK(launch_one(&f, "narrow", m, 1, 0));
    EXPECT_OK(launch_one(&f, "crash", m, 1, 0));
    EXPECT_ERROR(finish(&f, f.queue, -1), HN_DEVICE,
                 "one of 2 kernels, 'narrow' to 'crash': CUDA: cuStreamSynchronize failed: "
                 "CUDA_ERROR_ILLEGAL_ADDRESS (700)");
    static const char cause[] =
        "cuda:0 cannot be used any more in this process, because of an earlier error: one of 2 "
        "kernels, 'narrow' to 'crash': CUDA: cuStreamSynchronize failed: "
        "CUDA_ERROR_ILLEGAL_ADDRESS (700); start the process anew";
    EXPECT_ERROR(f.ops->copy_in(f.queue, m, &y, sizeof y), HN_DEVICE, cause);
    EXPECT_ERROR(launch_one(&f, "narrow", m, 1, 0), HN_DEVICE, cause);
    EXPECT_ERROR(finish(&f, f.queue, -1), HN_DEVICE, cause);
    EXPECT(!f.ops->alloc(f.dev, 100));
    f.ops->free(f.dev, m);
    end(&f);
    expect_nothing_left();
    EXPECT_INT(cuda_standin_find()->contexts, 0);
}

/* An allocation is the first to know, and has launched nothing; who has says so. */
TEST(a_crash_may_be_told_by_an_allocation) {
    fixture f;
    float y;
    hn_device_program *other = NULL;
    if (!cuda_standin_find() || !begin(&f)) return;
    void *m = f.ops->alloc(f.dev, sizeof y);
    EXPECT_OK(load_kernels(&f, &other));
    EXPECT_OK(launch_one(&f, "crash", m, 1, 0));
    f.ops->unload(other); /* waits for the device */
    EXPECT(!f.ops->alloc(f.dev, 100));
    EXPECT_ERROR(finish(&f, f.queue, -1), HN_DEVICE,
                 "kernel 'crash': cuda:0 cannot be used any more in this process, because of an "
                 "earlier error: CUDA: cu");
    f.ops->free(f.dev, m);
    end(&f);
    expect_nothing_left();
}

/* What a kernel has done may be told by the launch of another one, which is not the reason. */
static hn_status launch_after_crash(long nth, bool *out_launched) {
    fixture f;
    float y;
    void *kernel;
    if (!begin(&f)) return NULL;
    void *m = f.ops->alloc(f.dev, sizeof y);
    EXPECT_OK(launch_one(&f, "narrow", m, 1, 0));
    EXPECT_OK(f.ops->find(f.code, "crash", &kernel));
    faults_set(nth, ILLEGAL_ADDRESS, true);
    hn_status status = launch_one(&f, "crash", m, 1, 0);
    *out_launched = strcmp(faults_failed(), "cuLaunchKernel") == 0;
    f.ops->free(f.dev, m);
    end(&f);
    faults_set(0, 0, false);
    return status;
}

TEST(a_crash_may_be_told_by_the_next_launch) {
    bool launched = false;
    if (!cuda_standin_find()) return;
    for (long nth = 1; nth < 8 && !launched; nth++) {
        hn_status status = launch_after_crash(nth, &launched);
        if (launched)
            EXPECT_ERROR(status, HN_DEVICE,
                         "one of 2 kernels, 'narrow' to 'crash': CUDA: cuLaunchKernel failed: "
                         "CUDA_ERROR_ILLEGAL_ADDRESS (700)");
        else hn_status_free(status);
    }
    EXPECT(launched);
    expect_nothing_left();
}

/* The number that a program asks for is the first to know. */
TEST(a_crash_is_told_by_a_read) {
    fixture f;
    float y;
    if (!cuda_standin_find() || !begin(&f)) return;
    void *m = f.ops->alloc(f.dev, sizeof y);
    EXPECT_OK(launch_one(&f, "crash", m, 1, 0));
    EXPECT_ERROR(f.ops->read(f.queue, &y, m, sizeof y), HN_DEVICE, "kernel 'crash': CUDA: ");
    hn_status_free(finish(&f, f.queue, -1));
    f.ops->free(f.dev, m);
    end(&f);
    expect_nothing_left();
}

/* ---- which device ---- */

/* What a driver says that cannot be used, and what is to be done about it. */
TEST(drivers_that_cannot_be_used) {
    static const struct {
        int code;
        hn_code expected;
        const char *message;
    } rows[] = {{3, HN_DEVICE, "use it in the children only, or start them by exec"},
                {34, HN_NOT_FOUND, "take its folder out of LD_LIBRARY_PATH"},
                {100, HN_NOT_FOUND, "does CUDA_VISIBLE_DEVICES leave it visible?"},
                {802, HN_DEVICE, "nvidia-fabricmanager"},
                {803, HN_DEVICE, "restart the machine"},
                {804, HN_INCOMPATIBLE, "install a newer driver"},
                {999, HN_DEVICE, "cuInit failed: "}};
    for (size_t k = 0; k < HN_COUNT_OF(rows) && cuda_standin_find(); k++) {
        hn_dev *dev = NULL;
        faults_set(1, rows[k].code, false);
        EXPECT_ERROR(hn_dev_open(&hn_device_cuda, &(hn_device_options){.number = 0}, &dev),
                     rows[k].expected, rows[k].message);
        EXPECT(!dev);
    }
    if (cuda_standin_find()) faults_set(0, 0, false);
}

TEST(devices_have_numbers) {
    fixture f;
    hn_dev *dev = NULL;
    if (!begin(&f)) return end(&f);
    EXPECT_ERROR(f.ops->open(&(hn_device_options){.number = 99}, &dev), HN_NOT_FOUND,
                 "there is no device cuda:99; the last one is cuda:");
    EXPECT(f.dev->facts.name[0] && f.dev->facts.memory_bytes && !f.dev->facts.is_host);
    EXPECT(strncmp(f.dev->facts.driver, "CUDA ", 5) == 0);
    EXPECT_STR(f.ops->target_named("sm_90a"), "sm_90a");
    EXPECT_STR(f.ops->target_named("compute_80"), "compute_80");
    EXPECT(!f.ops->target_named("avx2") && !f.ops->target_named("cuda"));
    end(&f);
}

TEST(devices_have_uuids) {
    hn_cuda_device device;
    hn_cuda cuda;
    uint32_t number = 9, count = 0;
    hn_status status = hn_cuda_load(&cuda);
    if (status) return hn_status_free(status);
    EXPECT_OK(hn_cuda_count(&cuda, &count));
    for (uint32_t k = 0; k < count; k++) {
        EXPECT_OK(hn_cuda_device_get(&cuda, k, &device));
        EXPECT_OK(hn_device_cuda.number_of(device.uuid, &number));
        EXPECT_INT(number, k);
        device.uuid[8] = 0;
        EXPECT_OK(hn_device_cuda.number_of(device.uuid, &number));
        EXPECT_INT(number, k);
    }
    EXPECT_ERROR(hn_device_cuda.number_of("GPU-0123456789", &number), HN_NOT_FOUND,
                 "there is no device cuda:GPU-0123456789; there are: GPU-");
    if (count > 1)
        EXPECT_ERROR(hn_device_cuda.number_of("GPU-", &number), HN_INVALID_ARGUMENT,
                     "there is more than one device cuda:GPU-");
}

TEST(devices_without_pools) {
    cuda_standin *s = cuda_standin_find();
    float y = 0;
    if (!s) return;
    s->has_pools = false;
    EXPECT_OK(use_device(&y));
    EXPECT(y == 7);
    expect_nothing_left();
    s->has_pools = true;
}

TEST_MAIN
