/* test_cuda_row.c: the row of CUDA: memory, code, launches, faults, queues and threads; and what
 * comes of each failure of the driver. With the stand-in for the driver, which is found first; with
 * the driver of a GPU when its folder is in LD_LIBRARY_PATH, without the tests that make it fail.
 * tests/unit/runtime/test_device.c has what all rows must do. */
#include "runtime/device/cuda.h"

#include "base/compiler.h"
#include "runtime/device/rows.h"
#include "support/cuda_kernels.h"
#include "support/cuda_standin.h"
#include "support/driver_leaks.h"
#include "unit/harness.h"

#include <dlfcn.h>
#include <elf.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

/* A device, a queue, and the kernels. */
typedef struct fixture {
    hn_dev *dev;
    const hn_device_ops *ops;
    hn_queue *queue;
    hn_device_program *code;
    void *gather, *sum, *spin;
} fixture;

static hn_status load_kernels(const fixture *f, hn_device_program **out) {
    const char *code = cuda_standin_find() ? cuda_standin_kernels : cuda_ptx_kernels;
    return f->ops->load(f->dev, code, strlen(code), "kernels", out);
}

static bool begin_with(fixture *f, const hn_device_options *options) {
    *f = (fixture){.dev = NULL};
    hn_status status = hn_dev_open(&hn_device_cuda, options, &f->dev);
    if (hn_status_code(status) == HN_NOT_FOUND) {
        fprintf(stderr, "skipped: %s\n", hn_status_message(status));
        hn_status_free(status);
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

static bool begin(fixture *f) { return begin_with(f, &(hn_device_options){.number = 0}); }

/* Of the stand-in nothing is left. */
static void expect_nothing_left(void) {
    const cuda_standin *s = cuda_standin_find();
    if (!s) return;
    EXPECT_INT(s->memories, 0);
    EXPECT_INT(s->pinned, 0);
    EXPECT_INT(s->streams, 0);
    EXPECT_INT(s->events, 0);
    EXPECT_INT(s->modules, 0);
    EXPECT_INT(s->pools, 0);
}

static void end(fixture *f) {
    if (!f->dev) return;
    f->ops->unload(f->code);
    f->ops->queue_destroy(f->queue);
    hn_dev_release(f->dev);
}

static hn_status finish(const fixture *f, hn_queue *queue, int expected_step) {
    hn_device_fault fault;
    HN_TRY(f->ops->finish(queue, &fault));
    EXPECT_INT(fault.is_set ? (int)fault.step : -1, expected_step);
    return NULL;
}

/* ---- memory and copies ---- */

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
    expect_nothing_left();
}

TEST(memory_ends) {
    fixture f;
    if (!begin(&f)) return end(&f);
    EXPECT(!f.ops->alloc(f.dev, (size_t)1 << 58));
    EXPECT(!f.ops->alloc(f.dev, SIZE_MAX));
    EXPECT_INT(((cuda_dev *)f.dev)->range_count, 0);
    end(&f);
    expect_nothing_left();
}

TEST(memory_has_a_limit) {
    fixture f;
    if (!begin_with(&f, &(hn_device_options){.number = 0, .memory_limit = 1 << 20})) return end(&f);
    void *half = f.ops->alloc(f.dev, 1 << 19);
    EXPECT(half && !f.ops->alloc(f.dev, 1 << 19));
    f.ops->free(f.dev, half);
    half = f.ops->alloc(f.dev, (1 << 20) - HN_CUDA_ROOM_BYTES);
    EXPECT(half != NULL);
    f.ops->free(f.dev, half);
    end(&f);
    expect_nothing_left();
}

static void fill(uint8_t *bytes, size_t count, unsigned seed) {
    for (size_t k = 0; k < count; k++) bytes[k] = (uint8_t)((k * 2654435761u + seed) >> 13);
}

/* Of all sizes, with many at a time: through pinned memory that is used again. */
TEST(copies_of_all_sizes_come_back) {
    enum { SIZES = 9, ROUNDS_ = 3 };
    static const size_t sizes[SIZES] = {
        1, 63, 65536, 65537, 1 << 20, (4 << 20) - 1, (9 << 20) + 5, (70 << 20) + 3, 40 << 20};
    fixture f;
    uint8_t *there[SIZES], *here[SIZES], *back[SIZES];
    hn_queue *plain = NULL;
    hn_team team = {.limit = 3};
    if (!begin(&f)) return end(&f);
    plain = f.queue;
    EXPECT_OK(f.ops->queue_create(
        f.dev, &(hn_queue_options){.step_count = 8, .team = &team, .threads = 3}, &f.queue));
    for (int k = 0; k < SIZES; k++) {
        there[k] = f.ops->alloc(f.dev, sizes[k]);
        here[k] = malloc(sizes[k]);
        back[k] = malloc(sizes[k]);
        EXPECT(there[k] && here[k] && back[k]);
    }
    for (unsigned round = 0; round < ROUNDS_; round++) {
        for (int k = 0; k < SIZES; k++) {
            fill(here[k], sizes[k], round + (unsigned)k);
            memset(back[k], 0xee, sizes[k]);
            EXPECT_OK(f.ops->copy_in(f.queue, there[k], here[k], sizes[k]));
        }
        for (int k = 0; k < SIZES; k++)
            EXPECT_OK(f.ops->copy_out(f.queue, back[k], there[k], sizes[k]));
        EXPECT_OK(finish(&f, f.queue, -1));
        for (int k = 0; k < SIZES; k++) EXPECT(memcmp(here[k], back[k], sizes[k]) == 0);
    }
    for (int k = 0; k < SIZES; k++) {
        f.ops->free(f.dev, there[k]);
        free(here[k]), free(back[k]);
    }
    hn_team_end(&team);
    f.ops->queue_destroy(plain);
    end(&f);
    expect_nothing_left();
}

/* A run gives its work and goes on: nothing of it waits, whatever memory the host has. */
TEST(copies_do_not_wait) {
    fixture f;
    cuda_standin *s = cuda_standin_find();
    uint8_t bytes[1000];
    if (!s || !begin(&f)) return;
    fill(bytes, sizeof bytes, 1);
    uint8_t *m = f.ops->alloc(f.dev, sizeof bytes);
    EXPECT_OK(f.ops->copy_in(f.queue, m, bytes, sizeof bytes));
    cuda_standin_reset(s);
    for (int k = 0; k < 10; k++) {
        EXPECT_OK(f.ops->copy_in(f.queue, m, bytes, sizeof bytes));
        EXPECT_OK(f.ops->copy_out(f.queue, bytes, m, sizeof bytes));
    }
    EXPECT_INT(s->waits, 0);
    EXPECT_INT(s->pageable, 0);
    EXPECT_OK(finish(&f, f.queue, -1));
    EXPECT_INT(s->waits, 1);
    f.ops->free(f.dev, m);
    end(&f);
    expect_nothing_left();
}

/* Memory of the caller's that is pinned is copied as it is. */
TEST(pinned_memory_is_not_staged) {
    fixture f;
    cuda_standin *s = cuda_standin_find();
    enum { BYTES = 1 << 20 };
    void *pinned = NULL;
    bool pushed;
    if (!s || !begin(&f)) return;
    cuda_dev *d = (cuda_dev *)f.dev;
    EXPECT_OK(hn_cuda_enter(d, &pushed));
    EXPECT_INT(d->cuda.cuMemHostAlloc(&pinned, BYTES, 0), 0);
    hn_cuda_leave(d, pushed);
    uint8_t *m = f.ops->alloc(f.dev, BYTES);
    const long before = s->pinned;
    EXPECT_OK(f.ops->copy_in(f.queue, m, pinned, BYTES));
    EXPECT_OK(f.ops->copy_out(f.queue, pinned, m, BYTES));
    EXPECT_INT(s->pinned, before);
    EXPECT_INT(s->pageable, 0);
    EXPECT_OK(finish(&f, f.queue, -1));
    (void)d->cuda.cuMemFreeHost(pinned);
    f.ops->free(f.dev, m);
    end(&f);
    expect_nothing_left();
}

typedef int (*register_fn)(void *host, size_t bytes, unsigned flags);
typedef int (*unregister_fn)(void *host);

static void *driver_function(const char *name) {
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    void *function = library ? dlsym(library, name) : NULL;
    EXPECT(function != NULL);
    if (library) dlclose(library);
    return function;
}

static bool register_memory(const fixture *f, uint8_t *at, size_t bytes) {
    register_fn function;
    bool pushed;
    *(void **)&function = driver_function("cuMemHostRegister_v2");
    if (!function) return false;
    EXPECT_OK(hn_cuda_enter((cuda_dev *)f->dev, &pushed));
    const int code = function(at, bytes, 0);
    hn_cuda_leave((cuda_dev *)f->dev, pushed);
    EXPECT_INT(code, 0);
    return code == 0;
}

static void unregister_memory(uint8_t *at) {
    unregister_fn function;
    *(void **)&function = driver_function("cuMemHostUnregister");
    if (function) (void)function(at);
}

/* There and back, with `pinned` bytes at the beginning, and at the end. */
static void copy_pinned_in_part(size_t bytes, size_t first, size_t last) {
    fixture f;
    if (!begin(&f)) return end(&f);
    uint8_t *here = malloc(bytes), *back = malloc(bytes);
    uint8_t *m = f.ops->alloc(f.dev, bytes);
    EXPECT(here && back && m);
    fill(here, bytes, 7);
    memset(back, 0, bytes);
    uint8_t *const pieces[2] = {here, back};
    for (int k = 0; k < 2; k++) {
        if (first) EXPECT(register_memory(&f, pieces[k], first));
        if (last) EXPECT(register_memory(&f, pieces[k] + bytes - last, last));
    }
    EXPECT_OK(f.ops->copy_in(f.queue, m, here, bytes));
    EXPECT_OK(f.ops->copy_out(f.queue, back, m, bytes));
    EXPECT_OK(finish(&f, f.queue, -1));
    EXPECT(memcmp(here, back, bytes) == 0);
    for (int k = 0; k < 2; k++) {
        if (first) unregister_memory(pieces[k]);
        if (last) unregister_memory(pieces[k] + bytes - last);
    }
    f.ops->free(f.dev, m);
    free(here), free(back);
    end(&f);
    expect_nothing_left();
}

/* The driver refuses copies of memory that the host has pinned in part: at its beginning, at its
 * end, or at both with other memory between. Also of more than stays in pinned memory until a queue
 * is finished. */
TEST(memory_that_is_pinned_in_part_is_staged) {
    static const size_t sizes[] = {200000, (70 << 20) + 5};
    if (!cuda_standin_find()) return;
    for (size_t k = 0; k < HN_COUNT_OF(sizes); k++) {
        copy_pinned_in_part(sizes[k], 4096, 0);
        copy_pinned_in_part(sizes[k], 0, 4096);
        copy_pinned_in_part(sizes[k], 4096, 4096);
    }
}

/* What is mapped from a file goes to the device without the pages of the map. */
TEST(maps_of_files_are_read) {
    enum { BYTES = (9 << 20) + 77, SKIP = 4096 };
    static uint8_t bytes[BYTES], back[BYTES];
    char path[] = "/tmp/henry-cuda-map-XXXXXX";
    fixture f;
    hn_file_map map;
    hn_queue *plain;
    hn_team team = {.limit = 2};
    hn_ext_shared *files = NULL;
    if (!begin(&f)) return end(&f);
    fill(bytes, BYTES, 3);
    const int fd = mkstemp(path);
    EXPECT(fd >= 0 && write(fd, bytes, BYTES) == BYTES);
    EXPECT_OK(hn_file_map_init(&map, path));
    EXPECT(mprotect(map.base, map.size_bytes, PROT_NONE) == 0); /* who touches it is found */
    EXPECT_OK(hn_ext_shared_create(&files));
    hn_ext_shared_add_file(files, &map);
    plain = f.queue;
    EXPECT_OK(f.ops->queue_create(
        f.dev, &(hn_queue_options){.team = &team, .threads = 2, .files = files}, &f.queue));
    uint8_t *m = f.ops->alloc(f.dev, BYTES);
    EXPECT_OK(f.ops->copy_in(f.queue, m, map.data + SKIP, BYTES - SKIP));
    EXPECT_OK(f.ops->copy_in(f.queue, m + BYTES - SKIP, bytes, SKIP)); /* of no file */
    EXPECT_OK(f.ops->copy_out(f.queue, back, m, BYTES));
    EXPECT_OK(finish(&f, f.queue, -1));
    EXPECT(memcmp(back, bytes + SKIP, BYTES - SKIP) == 0);
    EXPECT(memcmp(back + BYTES - SKIP, bytes, SKIP) == 0);
    f.ops->free(f.dev, m);
    hn_team_end(&team);
    f.ops->queue_destroy(plain);
    end(&f);
    hn_ext_shared_destroy(files);
    hn_file_map_deinit(&map);
    (void)close(fd), (void)unlink(path);
    expect_nothing_left();
}

/* Pinned memory is as much as the copies want: none of a queue that copies nothing. */
TEST(pinned_memory_is_bounded_by_need) {
    fixture f;
    cuda_standin *s = cuda_standin_find();
    uint8_t bytes[1000] = {1};
    if (!s || !begin(&f)) return;
    const long before = s->pinned; /* the status words */
    uint8_t *m = f.ops->alloc(f.dev, sizeof bytes);
    for (int k = 0; k < 3; k++) {
        EXPECT_OK(f.ops->copy_in(f.queue, m, bytes, sizeof bytes));
        EXPECT_OK(finish(&f, f.queue, -1));
        EXPECT_INT(s->pinned, before + 1);
    }
    f.ops->free(f.dev, m);
    end(&f);
    expect_nothing_left();
}

/* ---- code ---- */

TEST(errors_of_code) {
    fixture f;
    hn_device_program *code = NULL;
    void *kernel = NULL;
    static const char text[] = ".version 8.4\n.target sm_80\nnothing\n", none[] = "no code";
    if (!begin(&f)) return end(&f);
    EXPECT_ERROR(f.ops->find(f.code, "gathers", &kernel), HN_NOT_FOUND,
                 "'kernels' has no kernel 'gathers'");
    EXPECT_ERROR(f.ops->load(f.dev, text, sizeof text - 1, "unit 3", &code), HN_TOOLCHAIN,
                 "cannot load 'unit 3': CUDA: cuModuleLoadDataEx failed: CUDA_ERROR_");
    EXPECT_ERROR(f.ops->load(f.dev, none, sizeof none - 1, "unit 3", &code), HN_TOOLCHAIN,
                 "cannot load 'unit 3'");
    Elf64_Ehdr cut = {.e_ident = ELFMAG "\2", .e_shoff = 1 << 30, .e_shnum = 3, .e_shentsize = 64};
    for (size_t len = 5; len <= sizeof cut; len += sizeof cut - 5)
        EXPECT_ERROR(f.ops->load(f.dev, &cut, len, "unit 3", &code), HN_TOOLCHAIN,
                     "cannot load 'unit 3': a part of the machine code is missing");
    EXPECT(!code && !kernel && !f.ops->direct);
    end(&f);
    expect_nothing_left();
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
    if (((cuda_dev *)f.dev)->cuda.cuFuncGetParamInfo)
        EXPECT_ERROR(f.ops->launch(f.queue, &launch, &fault), HN_CORRUPT,
                     "kernel 'sum' has 5 arguments, where 3 or 4 are given");
    launch.arg_count = 2, launch.groups[1] = 65536;
    EXPECT_ERROR(f.ops->launch(f.queue, &launch, &fault), HN_INVALID_ARGUMENT, "too many groups");
    EXPECT_OK(finish(&f, f.queue, -1));
    f.ops->free(f.dev, m.whole);
    end(&f);
    expect_nothing_left();
}

/* NULL stands for memory without elements, of which a failed check reads the first one. */
TEST(no_memory_is_an_argument) {
    fixture f;
    hn_device_fault fault;
    long long count = 0, index[4] = {0};
    if (!begin(&f)) return end(&f);
    void *there = f.ops->alloc(f.dev, sizeof index), *y = f.ops->alloc(f.dev, 16);
    EXPECT_OK(f.ops->copy_in(f.queue, there, index, sizeof index));
    EXPECT_OK(f.ops->launch(f.queue,
                            &(hn_device_launch){.kernel = f.gather,
                                                .step = 4,
                                                .args = (void *[]){NULL, there, y},
                                                .arg_count = 3,
                                                .params = &count,
                                                .param_count = 1,
                                                .extent = 4,
                                                .groups = {1, 1, 1},
                                                .threads = {4, 1, 1}},
                            &fault));
    EXPECT_OK(finish(&f, f.queue, 4));
    f.ops->free(f.dev, there), f.ops->free(f.dev, y);
    end(&f);
    expect_nothing_left();
}

/* ---- what a group may have ---- */

static hn_status launch_one(const fixture *f, const char *name, void *y, uint32_t threads,
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

TEST(shared_memory) {
    fixture f;
    float y[32] = {0};
    if (!begin(&f)) return end(&f);
    const int64_t most = (int64_t)((cuda_dev *)f.dev)->shared_max;
    void *m = f.ops->alloc(f.dev, sizeof y);
    EXPECT(most > 50000);
    EXPECT_OK(launch_one(&f, "wide", m, 32, 1000));
    EXPECT_OK(launch_one(&f, "wide", m, 32, 50000));
    EXPECT_OK(launch_one(&f, "wide", m, 32, most));
    EXPECT_OK(launch_one(&f, "wide", m, 32, 60000));
    EXPECT_ERROR(launch_one(&f, "wide", m, 32, most + 1), HN_UNSUPPORTED,
                 "out of resource: kernel 'wide' wants");
    EXPECT_ERROR(launch_one(&f, "wide", m, 32, 100000000), HN_UNSUPPORTED,
                 "wants 100000000 bytes of shared memory for a group of threads");
    EXPECT_ERROR(launch_one(&f, "narrow", m, 128, 0), HN_UNSUPPORTED,
                 "out of resource: kernel 'narrow' wants groups of 128 threads");
    EXPECT_OK(f.ops->copy_out(f.queue, y, m, sizeof y));
    EXPECT_OK(finish(&f, f.queue, -1));
    for (int k = 0; k < 32 && !cuda_standin_find(); k++) EXPECT(y[k] == (float)(31 - k));
    f.ops->free(f.dev, m);
    end(&f);
    expect_nothing_left();
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
    /* on a device it takes 10 ms and more */
    EXPECT(end_ns - begin_ns >= (cuda_standin_find() ? 1000 : 1000000));
    f.ops->event_free(before), f.ops->event_free(after);
    EXPECT_OK(f.ops->record(f.queue, &before)); /* of a queue without times */
    EXPECT_ERROR(f.ops->event_time(before, &begin_ns), HN_INTERNAL, "of a queue without times");
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

/* ---- the host's own use of CUDA ---- */

/* A thread that has no context has none afterwards, and one that has another keeps it. */
TEST(the_current_context_stays) {
    fixture f;
    hn_cuda_context before = NULL, now = NULL, other = NULL;
    float y;
    void *m;
    if (!begin(&f)) return end(&f);
    const hn_cuda *cuda = &((cuda_dev *)f.dev)->cuda;
    (void)cuda->cuCtxGetCurrent(&before);
    EXPECT(!before);
    int count = 0;
    if (cuda->cuDeviceGetCount(&count) == 0 && count > 1 &&
        cuda->cuDevicePrimaryCtxRetain(&other, 1) == 0)
        EXPECT_INT(cuda->cuCtxPushCurrent(other), 0);
    for (int k = 0; k < 2; k++) {
        hn_queue_enter(f.queue); /* around all calls of a run */
        m = f.ops->alloc(f.dev, sizeof y);
        EXPECT_OK(f.ops->copy_in(f.queue, m, &y, sizeof y));
        EXPECT_OK(launch_one(&f, "narrow", m, 1, 0));
        EXPECT_OK(f.ops->read(f.queue, &y, m, sizeof y));
        EXPECT_OK(finish(&f, f.queue, -1));
        hn_queue_leave(f.queue);
        f.ops->free(f.dev, m);
        (void)cuda->cuCtxGetCurrent(&now);
        EXPECT(now == (k == 0 ? other : NULL));
        if (k == 0 && other) (void)cuda->cuCtxPopCurrent(&before);
    }
    if (other) (void)cuda->cuDevicePrimaryCtxRelease(1);
    end(&f);
    expect_nothing_left();
}

TEST(a_forked_child_is_refused) {
    fixture f;
    hn_dev *dev = NULL;
    if (!begin(&f)) return end(&f);
    const pid_t child = fork();
    if (child == 0) {
        hn_status status = hn_dev_open(&hn_device_cuda, &(hn_device_options){.number = 0}, &dev);
        const bool is_told =
            status && strstr(hn_status_message(status), "before this process was forked");
        hn_status_free(status);
        hn_dev_release(f.dev); /* nothing of the driver is called */
        const pid_t grandchild = fork();
        if (grandchild == 0) _exit(hn_dev_is_here(f.dev));
        int there = -1;
        const bool is_ended = waitpid(grandchild, &there, 0) == grandchild;
        _exit(is_told && is_ended && there == 0 && !hn_dev_is_here(f.dev) ? 0 : 1);
    }
    EXPECT(hn_dev_is_here(f.dev));
    int result = -1;
    EXPECT(waitpid(child, &result, 0) == child && result == 0);
    end(&f);
    expect_nothing_left();
}

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
