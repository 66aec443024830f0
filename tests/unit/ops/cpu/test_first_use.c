/* test_first_use.c: constants in a mapped file are read from the file at their first use, packed at
 * their second: the result is the same to the bit, and the one of the reference. */
#include "ops/cpu/gemm/gemm.h"
#include "ops/cpu/gemm/matmul.h"
#include "ops_fixture.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

/* A file of random floats, mapped. */
typedef struct weights {
    char path[64];
    hn_file_map map;
    hn_ext_shared *shared;
} weights;

static void weights_init(weights *w, ext_random *r, size_t skip, int64_t count) {
    float *x = ext_memory(r, HN_F32, count);
    static const char zeros[64];
    *w = (weights){.path = "/tmp/henry-test-XXXXXX"};
    int fd = mkstemp(w->path);
    EXPECT(fd >= 0 && write(fd, zeros, skip) == (ssize_t)skip);
    EXPECT(write(fd, x, (size_t)count * sizeof *x) == (ssize_t)((size_t)count * sizeof *x));
    close(fd);
    free(x);
    EXPECT_OK(hn_file_map_init(&w->map, w->path));
    EXPECT_OK(hn_ext_shared_create(&w->shared));
    hn_ext_shared_add_file(w->shared, &(hn_file_map){0});
    hn_ext_shared_add_file(w->shared, &w->map);
}

static void weights_deinit(weights *w) {
    hn_ext_shared_destroy(w->shared);
    hn_file_map_deinit(&w->map);
    unlink(w->path);
}

/* How b lies: rows, columns, rows or columns with gaps, every second float. */
enum { ROWS, COLUMNS, ROWS_APART, COLUMNS_APART, SCATTERED, LAYOUTS };

static int64_t lay_out(int layout, int64_t n, int64_t k, int64_t *b) {
    static const int64_t gaps[LAYOUTS] = {0, 0, 40, 40, 0};
    const int64_t unit = layout == SCATTERED ? 2 : 1, gap = gaps[layout];
    const bool by_rows = layout == ROWS || layout == ROWS_APART || layout == SCATTERED;
    b[4] = by_rows ? (n + gap) * unit : unit;
    b[5] = by_rows ? unit : (k + gap) * unit;
    return (k - 1) * b[4] + (n - 1) * b[5] + 1;
}

static void run_case(ext_random *r, const int64_t *shape, int layout, int threads,
                     const char *what) {
    const int64_t m = shape[0], n = shape[1], k = shape[2];
    int64_t p[HN_MATMUL_PARAM_COUNT] = {1,
                                        1,
                                        1,
                                        1,
                                        m,
                                        n,
                                        k,
                                        [HN_MATMUL_A + 4] = k,
                                        1,
                                        [HN_MATMUL_OUT + 4] = n,
                                        1,
                                        [HN_MATMUL_BIAS + 5] = 1,
                                        [HN_MATMUL_B_CONSTANT] = 1};
    const int64_t b_count = lay_out(layout, n, k, p + HN_MATMUL_B);
    const size_t bytes = (size_t)(m * n) * sizeof(float);
    weights w;
    weights_init(&w, r, 4 * sizeof(float), b_count);
    float *a = ext_memory(r, HN_F32, m * k), *bias = ext_memory(r, HN_F32, n),
          *first = malloc(bytes), *next = malloc(bytes), *want = malloc(bytes);
    hn_ext_call call = {
        .kind = HN_EXTERN_MATMUL,
        .dtypes = {HN_F32, HN_F32, HN_F32, HN_F32},
        .params = p,
        .param_count = HN_MATMUL_PARAM_COUNT,
        .threads = threads,
        .team = &ext_team,
        .operands = {want, a, (void *)(uintptr_t)(w.map.data + 4 * sizeof(float)), bias}};
    EXPECT(ext_run_with(&call, &hn_ext_reference));
    call.is_constant[2] = true, call.shared = w.shared, call.impl = NULL, call.state = NULL,
    call.scratch_bytes = 0;
    EXPECT_OK(hn_ext_prepare(&call));
    char *scratch = aligned_alloc(64, (call.scratch_bytes + 127) / 64 * 64);
    memset(scratch, 0xff, (call.scratch_bytes + 127) / 64 * 64);
    call.operands[0] = first;
    EXPECT_OK(hn_ext_run(&call, scratch));
    for (size_t i = call.scratch_bytes; i < (call.scratch_bytes + 127) / 64 * 64; i++)
        EXPECT(scratch[i] == (char)0xff);
    EXPECT_INT(hn_ext_shared_bytes(w.shared), 0);
    call.operands[0] = next;
    EXPECT_OK(hn_ext_run(&call, scratch));
    EXPECT(hn_ext_shared_bytes(w.shared) > 0);
    bool same = memcmp(first, next, bytes) == 0, close_enough = true;
    for (int64_t i = 0; i < m * n; i++)
        close_enough &= ext_close((double)first[i], (double)want[i], 6e-8 * (double)(k + 8), 1e-6);
    if (!same || !close_enough)
        HN_TEST_FAIL("%s: %lld x %lld x %lld layout %d threads %d: same %d, right %d", what,
                     (long long)m, (long long)n, (long long)k, layout, threads, same, close_enough);
    hn_ext_release(&call);
    weights_deinit(&w);
    free(a), free(bias), free(first), free(next), free(want), free(scratch);
}

TEST(random_shapes) {
    ext_random r = {21};
    for (int i = 0; i < 400; i++) {
        int64_t shape[3] = {ext_int(&r, 1, 40), ext_int(&r, 2, 300), ext_int(&r, 1, 200)};
        run_case(&r, shape, i % LAYOUTS, 1 + i / LAYOUTS % 3, "random");
    }
}

/* Several blocks, chunks and parts of lines, and tails of all of them. */
TEST(large_shapes) {
    static const int64_t shapes[][3] = {{7, 2000, 1100}, {5, 50001, 30}, {3, 700, 5003},
                                        {3, 5003, 700},  {130, 900, 70}, {2, 33, 8191}};
    ext_random r = {22};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int layout = 0; layout < LAYOUTS; layout++)
            run_case(&r, shapes[i], layout, 1 + (int)(i + (size_t)layout) % 3, "large");
}

/* What no file has is read at its address; what a file has is read from it, and the map takes no
 * pages. */
TEST(reads_of_constants) {
    ext_random r = {23};
    weights w;
    const int64_t count = 40000;
    weights_init(&w, &r, 0, count);
    float own[8] = {1, 2, 3}, *buffer = malloc((size_t)count * sizeof *buffer);
    EXPECT(hn_ext_shared_read(w.shared, own, sizeof own, buffer) == own);
    const uint8_t *data = w.map.data;
    const size_t size = w.map.size_bytes;
    EXPECT(hn_ext_shared_read(w.shared, data + 12, size - 12, buffer) == buffer);
    EXPECT(memcmp(buffer, data + 12, size - 12) == 0);
    /* one byte too many */
    EXPECT(hn_ext_shared_read(w.shared, data + 12, size - 11, buffer) == data + 12);
    EXPECT(hn_ext_shared_read(w.shared, data + size, 0, buffer) == buffer);
    EXPECT(truncate(w.path, 4096) == 0); /* a file that got shorter: left to the map */
    EXPECT(hn_ext_shared_read(w.shared, data, 8192, buffer) == data);
    EXPECT(hn_ext_shared_read(w.shared, data, 4096, buffer) == buffer);
    free(buffer);
    weights_deinit(&w);
}

TEST_MAIN
