/* test_cuda_copies.c: memory of the row of CUDA, and copies: through pinned memory, from maps of
 * files, of all sizes. With the stand-in for the driver, or on a GPU (cuda_row.h). */
#include "unit/runtime/cuda_row.h"

#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

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

/* Memory that is large is mapped and then pinned; where that is refused the driver gives some. */
TEST(large_copies_without_what_the_driver_refuses) {
    enum { BYTES = 5 << 20 };
    cuda_standin *s = cuda_standin_find();
    uint8_t *bytes = malloc(BYTES), *back = malloc(BYTES);
    for (long n = 1; s && n <= 12; n++) {
        fixture f;
        if (!begin(&f)) return end(&f);
        void *m = f.ops->alloc(f.dev, BYTES);
        fill(bytes, BYTES, (unsigned)n);
        s->calls = 0;
        s->code = 2;
        s->fail_at = n;
        hn_status status = f.ops->copy_in(f.queue, m, bytes, BYTES);
        if (!status) status = f.ops->copy_out(f.queue, back, m, BYTES);
        s->fail_at = 0;
        if (status) {
            hn_status_free(status);
            EXPECT_OK(f.ops->copy_in(f.queue, m, bytes, BYTES));
            EXPECT_OK(f.ops->copy_out(f.queue, back, m, BYTES));
        }
        EXPECT_OK(finish(&f, f.queue, -1));
        EXPECT(memcmp(back, bytes, BYTES) == 0);
        f.ops->free(f.dev, m);
        end(&f);
        expect_nothing_left();
    }
    free(bytes), free(back);
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

TEST_MAIN
