/* cuda_row.h: for tests of the row of CUDA: an open device with a queue and kernels, and launches
 * of them. With the stand-in for the driver, which is found first; with the driver of a GPU when
 * its folder is in LD_LIBRARY_PATH. */
#ifndef HN_TESTS_CUDA_ROW_H
#define HN_TESTS_CUDA_ROW_H

#include "runtime/device/cuda.h"

#include "base/compiler.h"
#include "runtime/device/rows.h"
#include "support/cuda_kernels.h"
#include "support/cuda_standin.h"
#include "unit/harness.h"

#include <stdlib.h>

/* A device, a queue, and the kernels. */
typedef struct fixture {
    hn_dev *dev;
    const hn_device_ops *ops;
    hn_queue *queue;
    hn_device_program *code;
    void *gather, *sum, *spin;
} fixture;

HN_UNUSED static hn_status load_kernels(const fixture *f, hn_device_program **out) {
    const char *code = cuda_standin_find() ? cuda_standin_kernels : cuda_ptx_kernels;
    return f->ops->load(f->dev, code, strlen(code), "kernels", out);
}

HN_UNUSED static bool begin_with(fixture *f, const hn_device_options *options) {
    *f = (fixture){.dev = NULL};
    hn_status status = hn_dev_open(&hn_device_cuda, options, &f->dev);
    if (hn_status_code(status) == HN_NOT_FOUND) {
        hn_test_lacks(status);
        return false;
    }
    EXPECT_OK(status);
    if (!f->dev) return false;
    f->ops = f->dev->ops;
    EXPECT_OK(f->ops->queue_create(f->dev, &(hn_queue_options){.step_count = 8}, &f->queue));
    EXPECT_OK(load_kernels(f, &f->code));
    if (!f->queue || !f->code) return false;
    EXPECT_OK(f->ops->find(f->code, "gather", &f->gather));
    EXPECT_OK(f->ops->find(f->code, "sum", &f->sum));
    EXPECT_OK(f->ops->find(f->code, "spin", &f->spin));
    return f->gather && f->sum && f->spin;
}

HN_UNUSED static bool begin(fixture *f) { return begin_with(f, &(hn_device_options){.number = 0}); }

/* Of the stand-in nothing is left. */
HN_UNUSED static void expect_nothing_left(void) {
    const cuda_standin *s = cuda_standin_find();
    if (!s) return;
    EXPECT_INT(s->memories, 0);
    EXPECT_INT(s->pinned, 0);
    EXPECT_INT(s->streams, 0);
    EXPECT_INT(s->events, 0);
    EXPECT_INT(s->modules, 0);
    EXPECT_INT(s->pools, 0);
}

HN_UNUSED static void end(fixture *f) {
    if (!f->dev) return;
    f->ops->unload(f->code);
    f->ops->queue_destroy(f->queue);
    hn_dev_release(f->dev);
}

HN_UNUSED static hn_status finish(const fixture *f, hn_queue *queue, int expected_step) {
    hn_device_fault fault;
    HN_TRY(f->ops->finish(queue, &fault));
    EXPECT_INT(fault.is_set ? (int)fault.step : -1, expected_step);
    return NULL;
}

/* ---- launches ---- */

enum { LONG = 24 };

/* x, index and y, in one piece of memory, none of them at its beginning. */
typedef struct gather_memory {
    uint8_t *whole;
    void *args[3];
} gather_memory;

HN_UNUSED static hn_status gather_begin(const fixture *f, hn_queue *queue, const float x[4],
                                        const long long index[LONG], gather_memory *out) {
    out->whole = f->ops->alloc(f->dev, 1024);
    if (!out->whole) return HN_ERROR(HN_OUT_OF_MEMORY, "no memory");
    for (int k = 0; k < 3; k++) out->args[k] = out->whole + 64 + 256 * k;
    HN_TRY(f->ops->copy_in(queue, out->args[0], x, 4 * sizeof *x));
    return f->ops->copy_in(queue, out->args[1], index, LONG * sizeof *index);
}

HN_UNUSED static hn_status gather(const fixture *f, hn_queue *queue, const gather_memory *m,
                                  uint32_t step, long long count) {
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

HN_UNUSED static hn_status launch_one(const fixture *f, const char *name, void *y, uint32_t threads,
                                      int64_t shared) {
    hn_device_fault fault;
    void *kernel = NULL;
    HN_TRY(f->ops->find(f->code, name, &kernel));
    return f->ops->launch(f->queue,
                          &(hn_device_launch){.kernel = kernel,
                                              .args = &y,
                                              .arg_count = strcmp(name, "crash") != 0,
                                              .extent = 1,
                                              .groups = {1, 1, 1},
                                              .threads = {threads, 1, 1},
                                              .shared_bytes = shared},
                          &fault);
}

#endif
