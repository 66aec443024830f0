/* test_matmul.c: blocked matrix products against the reference: random shapes, strides, biases,
 * epilogues. */
#include "ops/cpu/gemm/matmul.h"
#include "ops/cpu/gemm/gemm.h"
#include "ops_fixture.h"

#include <sys/mman.h>
#include <unistd.h>

typedef struct matmul_case {
    int64_t p[HN_MATMUL_PARAM_COUNT];
    uint8_t dtype;
    bool constant;
    int threads;
} matmul_case;

static void print_case(const matmul_case *c) {
    fprintf(stderr, "matmul dtype %s constant %d threads %d params",
            hn_scalar_type_name((hn_scalar_type)c->dtype), c->constant, c->threads);
    for (int i = 0; i < HN_MATMUL_PARAM_COUNT; i++) fprintf(stderr, " %lld", (long long)c->p[i]);
    fputc('\n', stderr);
}

/* Rounding of sums of k products of numbers below 1 in another order; 16-bit results are rounded
 * once, like the reference. */
static double tolerance(const matmul_case *c) {
    double k = (double)c->p[HN_MATMUL_K] + 8;
    if (c->dtype == HN_F64) return 1e-15 * k;
    if (c->dtype == HN_F32) return 6e-8 * k;
    if (c->dtype == HN_F16) return 6e-8 * k + 5e-4;
    if (c->dtype == HN_BF16) return 6e-8 * k + 4e-3;
    return 0;
}
static double relative(const matmul_case *c) {
    return c->dtype == HN_F16    ? 1.0 / 1024
           : c->dtype == HN_BF16 ? 1.0 / 128
           : c->dtype == HN_F32  ? 1e-6
                                 : 1e-14;
}

/* Memory of an operand. */
typedef struct span {
    int64_t count, before; /* elements; of them before the first one of the operand */
} span;

/* Strides of [batch.., rows, cols]. The first `repeat` dimensions may repeat (stride 0), rows and
 * columns seldom. */
static span strides_of(ext_random *r, const int64_t *batch, int64_t rows, int64_t cols, int repeat,
                       int64_t *out) {
    int64_t sizes[6] = {batch[0], batch[1], batch[2], batch[3], rows, cols};
    bool zero[6];
    for (int d = 0; d < 6; d++) {
        zero[d] = d < repeat && ext_int(r, 0, d < 4 ? 2 : 11) == 0;
        if (zero[d] && sizes[d] > 1) sizes[d] = 1;
    }
    span s = {.count = ext_random_strides(r, sizes, 6, out)};
    for (int d = 0; d < 6; d++)
        if (zero[d]) out[d] = 0;
    s.before = ext_random_turns(r, sizes, 6, out);
    return s;
}

static void compare(const matmul_case *c, const void *got, const void *want, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        double x = ext_get(c->dtype, got, i), y = ext_get(c->dtype, want, i);
        if (ext_close(x, y, tolerance(c), relative(c))) continue;
        HN_TEST_FAIL("element %lld is %.9g, expected %.9g", (long long)i, x, y);
        print_case(c);
        return;
    }
}

/* Returns whether the implementation took it. */
static bool check(ext_random *r, matmul_case *c, bool special) {
    int64_t *p = c->p;
    const int64_t *batch = p + HN_MATMUL_BATCH;
    span spans[5];
    spans[1] = strides_of(r, batch, p[HN_MATMUL_M], p[HN_MATMUL_K], 5, p + HN_MATMUL_A);
    spans[2] = strides_of(r, batch, p[HN_MATMUL_K], p[HN_MATMUL_N], 4, p + HN_MATMUL_B);
    spans[0] = strides_of(r, batch, p[HN_MATMUL_M], p[HN_MATMUL_N], 0, p + HN_MATMUL_OUT);
    spans[3] = strides_of(r, batch, p[HN_MATMUL_M], p[HN_MATMUL_N], 6, p + HN_MATMUL_BIAS);
    bool bias = ext_int(r, 0, 1);
    if (ext_int(r, 0, 2)) { /* the usual bias: one row */
        memset(p + HN_MATMUL_BIAS, 0, 6 * sizeof *p);
        p[HN_MATMUL_BIAS + 5] = 1;
        spans[3] = (span){.count = p[HN_MATMUL_N] + 1};
    }
    bool residual = ext_int(r, 0, 2) == 0;
    spans[4] = strides_of(r, batch, p[HN_MATMUL_M], p[HN_MATMUL_N], 6, p + HN_MATMUL_RESIDUAL);
    p[HN_MATMUL_B_CONSTANT] = c->constant;
    hn_ext_call call = {
        .kind = HN_EXTERN_MATMUL,
        .params = p,
        .dtypes = {c->dtype, c->dtype, c->dtype, bias ? c->dtype : 0, residual ? c->dtype : 0},
        .param_count = HN_MATMUL_PARAM_COUNT,
        .threads = c->threads,
        .team = &ext_team,
        .is_constant = {[2] = c->constant}};
    void *memory[5] = {NULL};
    for (int i = 1; i < 5; i++) {
        if (call.dtypes[i]) memory[i] = ext_memory(r, c->dtype, spans[i].count);
        call.operands[i] = ext_first(memory[i], c->dtype, spans[i].before);
    }
    if (special && c->dtype == HN_F32) {
        ((float *)memory[1])[ext_int(r, 0, spans[1].count - 1)] = NAN;
        ((float *)memory[2])[ext_int(r, 0, spans[2].count - 1)] = INFINITY;
    }
    const size_t out_bytes = (size_t)spans[0].count * ext_bytes(c->dtype);
    void *want = ext_memory(r, c->dtype, spans[0].count), *got = malloc(out_bytes + 1);
    memcpy(got, want, out_bytes);
    call.operands[0] = ext_first(want, c->dtype, spans[0].before);
    EXPECT(ext_run_with(&call, &hn_ext_reference));
    call.operands[0] = ext_first(got, c->dtype, spans[0].before);
    bool taken = ext_run_with(&call, &hn_ext_matmul);
    if (taken) compare(c, got, want, spans[0].count);
    for (int i = 1; i < 5; i++) free(memory[i]);
    free(want), free(got);
    return taken;
}

static int64_t random_size(ext_random *r, int64_t most) {
    static const int64_t usual[] = {0, 1, 1, 2, 3, 5, 6, 7, 8, 12, 13, 16, 17, 31, 32, 33, 64, 97};
    int64_t s = ext_int(r, 0, 3) ? usual[ext_int(r, 0, 17)] : ext_int(r, 1, most);
    return s < most ? s : most;
}

static void random_cases(uint64_t seed, int count, const uint8_t *dtypes, int dtype_count) {
    ext_random r = {seed};
    for (int i = 0; i < count; i++) {
        matmul_case c = {.dtype = dtypes[i % dtype_count],
                         .constant = ext_int(&r, 0, 1),
                         .threads = (int)ext_int(&r, 1, 3)};
        for (int d = 0; d < 4; d++)
            c.p[d] = ext_int(&r, 0, 3) ? 1 : ext_int(&r, 0, 19) ? ext_int(&r, 1, 4) : 0;
        c.p[HN_MATMUL_M] = random_size(&r, 100);
        c.p[HN_MATMUL_N] = random_size(&r, 150);
        c.p[HN_MATMUL_K] = random_size(&r, i % 10 ? 100 : 700);
        bool is_float = c.dtype >= HN_F64 && c.dtype <= HN_BF16;
        c.p[HN_MATMUL_EPILOGUE] =
            ext_int(&r, 0, 1)
                ? 0
                : ext_int(&r, 0, is_float ? HN_EPILOGUE_HARDSIGMOID : HN_EPILOGUE_RELU);
        EXPECT(check(&r, &c, i % 8 == 0 && !c.p[HN_MATMUL_EPILOGUE]));
    }
}

TEST(random_f32) { random_cases(1, 1500, (uint8_t[]){HN_F32}, 1); }
TEST(random_other_dtypes) {
    random_cases(
        2, 900, (uint8_t[]){HN_F64, HN_F16, HN_BF16, HN_I64, HN_I32, HN_I16, HN_I8, HN_U8, HN_BOOL},
        9);
}

/* Above the thresholds for threads and blocks along every dimension. */
TEST(large_f32) {
    static const int64_t shapes[][3] = {{130, 520, 600}, {3, 9000, 40},   {9000, 20, 40},
                                        {20, 30, 9000},  {700, 300, 300}, {1, 3000, 900},
                                        {40, 40, 1024},  {150, 20, 2048}};
    ext_random r = {3};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int variant = 0; variant < 4; variant++) {
            matmul_case c = {.dtype = HN_F32,
                             .constant = variant & 1,
                             .threads = 1 + (variant >> 1) * 2,
                             .p = {1, 1, 1, 1}};
            memcpy(c.p + HN_MATMUL_M, shapes[i], sizeof shapes[i]);
            EXPECT(check(&r, &c, false));
        }
}

/* Several blocks along every dimension, batches of blocks, and shapes around the border to plain
 * loops. */
TEST(large_f64) {
    static const int64_t shapes[][4] = {{1, 84, 128, 256}, {1, 85, 129, 257}, {1, 200, 300, 520},
                                        {3, 90, 40, 30},   {2, 4, 4, 3000},   {1, 3, 200, 200},
                                        {1, 4, 64, 64},    {1, 4, 64, 63}};
    ext_random r = {13};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int variant = 0; variant < 8; variant++) {
            matmul_case c = {.dtype = HN_F64,
                             .constant = variant & 1,
                             .threads = 1 + (variant >> 1) % 2 * 2,
                             .p = {1, 1, shapes[i][0], 1}};
            memcpy(c.p + HN_MATMUL_M, shapes[i] + 1, 3 * sizeof *shapes[i]);
            c.p[HN_MATMUL_EPILOGUE] = variant;
            EXPECT(check(&r, &c, false));
        }
}

/* A tile adds to what is there, and takes no k at all. */
TEST(tiles_of_f64) {
    const hn_ext_kernels *tables[3];
    const size_t count = hn_ext_kernels_list(tables);
    ext_random r = {14};
    for (size_t t = 0; t < count; t++)
        for (int64_t k = 0; k < 40; k += 13) {
            const int64_t rows = tables[t]->tile_rows, cols = tables[t]->tile_cols / 2,
                          row = cols + 3;
            double *a = ext_memory(&r, HN_F64, k * rows), *b = ext_memory(&r, HN_F64, k * cols),
                   *sums = ext_memory(&r, HN_F64, rows * row);
            double *want = malloc((size_t)(rows * row) * sizeof *want);
            memcpy(want, sums, (size_t)(rows * row) * sizeof *want);
            for (int64_t i = 0; i < rows; i++)
                for (int64_t j = 0; j < cols; j++)
                    for (int64_t l = 0; l < k; l++)
                        want[i * row + j] += a[l * rows + i] * b[l * cols + j];
            tables[t]->tile_f64(k, a, b, sums, row);
            for (int64_t i = 0; i < rows * row; i++) /* between the rows: untouched */
                EXPECT(
                    ext_close(sums[i], want[i], i % row < cols ? 1e-15 * (double)(k + 8) : 0, 0));
            free(a), free(b), free(sums), free(want);
        }
}

/* A constant is packed at its second use, and the result stays the same to the bit; who comes later
 * packs at once. */
TEST(packed_at_the_second_use) {
    static const int64_t shapes[][3] = {{5, 40, 70},    {33, 600, 300}, {1, 50, 900},
                                        {12, 64, 9000}, {130, 8, 300},  {130, 8, 9000}};
    ext_random r = {9};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        const int64_t m = shapes[i][0], n = shapes[i][1], k = shapes[i][2];
        int64_t p[HN_MATMUL_PARAM_COUNT] = {1, 1, 1, 1, m, n, k, 0, 0, 0, 0, k, 1,
                                            0, 0, 0, 0, n, 1, 0, 0, 0, 0, n, 1};
        p[HN_MATMUL_B_CONSTANT] = 1;
        const size_t bytes = (size_t)(m * n) * sizeof(float);
        float *a = ext_memory(&r, HN_F32, m * k), *b = ext_memory(&r, HN_F32, k * n),
              *first = malloc(bytes), *next = malloc(bytes);
        hn_ext_shared *shared;
        EXPECT_OK(hn_ext_shared_create(&shared));
        hn_ext_call call = {.kind = HN_EXTERN_MATMUL,
                            .dtypes = {HN_F32, HN_F32, HN_F32},
                            .params = p,
                            .param_count = HN_MATMUL_PARAM_COUNT,
                            .threads = 2,
                            .is_constant = {[2] = true},
                            .operands = {[2] = b},
                            .shared = shared};
        hn_ext_call later = call;
        /* a result of one panel with a long k has another order of sums: packed at once */
        const bool waits = n > 16 || k <= 8192;
        EXPECT_OK(hn_ext_prepare(&call));
        EXPECT((hn_ext_shared_bytes(shared) == 0) == waits);
        call.operands[0] = first, call.operands[1] = a;
        void *scratch = aligned_alloc(64, (call.scratch_bytes + 64) / 64 * 64);
        EXPECT_OK(hn_ext_run(&call, scratch));
        EXPECT((hn_ext_shared_bytes(shared) == 0) == waits);
        EXPECT_OK(hn_ext_prepare(&later));
        size_t packed = hn_ext_shared_bytes(shared);
        EXPECT(packed >= (size_t)(k * n) * sizeof(float));
        for (int run = 0; run < 2; run++) {
            call.operands[0] = next;
            memset(next, 7, bytes);
            EXPECT_OK(hn_ext_run(&call, scratch));
            EXPECT(memcmp(first, next, bytes) == 0);
            EXPECT_INT(hn_ext_shared_bytes(shared), packed);
        }
        hn_ext_release(&call);
        hn_ext_release(&later);
        hn_ext_shared_destroy(shared);
        free(a), free(b), free(first), free(next), free(scratch);
    }
}

/* Only pages of the named files go, whole ones, and they come back. */
TEST(dropped_pages_come_back) {
    const size_t page = 4096, pages = 4;
    char name[] = "/tmp/henry-test-XXXXXX";
    int fd = mkstemp(name);
    unsigned char *bytes = malloc(pages * page), *heap = malloc(pages * page);
    for (size_t i = 0; i < pages * page; i++) bytes[i] = heap[i] = (unsigned char)(i * 31 >> 3);
    EXPECT(fd >= 0 && write(fd, bytes, pages * page) == (ssize_t)(pages * page));
    void *map = mmap(NULL, pages * page, PROT_READ, MAP_PRIVATE, fd, 0);
    EXPECT(map != MAP_FAILED);
    hn_ext_shared *shared;
    EXPECT_OK(hn_ext_shared_create(&shared));
    hn_ext_shared_add_file(shared, &(hn_file_map){0});
    hn_ext_shared_add_file(
        shared, &(hn_file_map){.data = map, .size_bytes = pages * page, .base = map, .fd = fd});
    EXPECT(memcmp(map, bytes, pages * page) == 0); /* all are here */
    hn_ext_shared_drop(shared, (char *)map + 100, 2 * page);
    unsigned char here[4] = {0};
    /* the page cache keeps them: nothing to see but that it is sound */
    EXPECT(mincore(map, pages * page, here) == 0);
    EXPECT(memcmp(map, bytes, pages * page) == 0);
    hn_ext_shared_drop(shared, heap, pages * page); /* memory of its own must stay */
    EXPECT(memcmp(heap, bytes, pages * page) == 0);
    hn_ext_shared_destroy(shared);
    munmap(map, pages * page);
    close(fd), unlink(name), free(bytes), free(heap);
}

/* Rows at the same places of the first cache are packed, though few panels read them: not for so
 * few tiles, and not for one panel. */
TEST(rows_four_kib_apart_are_packed) {
    static const struct {
        int64_t row, tiles, panels;
        bool packs;
    } cases[] = {{1000, 8, 3, false}, {1024, 8, 3, true},  {4096, 8, 3, true}, {1536, 8, 3, false},
                 {1024, 2, 3, false}, {1024, 8, 1, false}, {1000, 8, 5, true}};
    const hn_ext_kernels *tables[3];
    const size_t count = hn_ext_kernels_list(tables);
    for (size_t t = 0; t < count; t++)
        for (size_t i = 0; i < HN_COUNT_OF(cases); i++) {
            const int64_t n = cases[i].panels * tables[t]->tile_cols;
            hn_ext_gemm g = {.batch = {1, 1, 1, 1},
                             .m = cases[i].tiles * tables[t]->tile_rows,
                             .n = n,
                             .k = 900,
                             .a = {0, 0, 0, 0, cases[i].row, 1},
                             .b = {0, 0, 0, 0, n, 1},
                             .out = {0, 0, 0, 0, n, 1},
                             .threads = 1,
                             .kernels = tables[t]};
            hn_ext_gemm_plan(&g);
            EXPECT_INT(g.pack_a, cases[i].packs);
        }
}

/* Every table of kernels that this processor runs. */
TEST(every_instruction_set) {
    const hn_ext_kernels *tables[3];
    size_t count = hn_ext_kernels_list(tables);
    ext_random r = {4};
    for (size_t t = 0; t < count; t++)
        for (int i = 0; i < 300; i++) {
            int64_t m = random_size(&r, 60), n = random_size(&r, 80), k = random_size(&r, 90);
            hn_ext_gemm g = {.batch = {1, 1, 1, 1},
                             .m = m,
                             .n = n,
                             .k = k,
                             .a = {0, 0, 0, 0, k, 1},
                             .b = {0, 0, 0, 0, n, 1},
                             .out = {0, 0, 0, 0, n, 1},
                             .threads = 1,
                             .kernels = tables[t],
                             .prepack_b = n > 1 && i % 2,
                             .epilogue = (hn_epilogue)(i % 9)};
            if (i % 3 == 0) g.a[4] = 1, g.a[5] = m;
            if (i % 5 == 0) g.b[4] = 1, g.b[5] = k;
            g.has_residual = i % 4 == 0, g.residual[4] = i % 8 ? n : 1,
            g.residual[5] = i % 8 ? 1 : m;
            hn_ext_gemm_plan(&g);
            float *a = ext_memory(&r, HN_F32, m * k), *b = ext_memory(&r, HN_F32, k * n),
                  *out = ext_memory(&r, HN_F32, m * n);
            float *packed = aligned_alloc(64, (hn_ext_gemm_packed_bytes(&g) + 127) / 64 * 64),
                  *want = malloc((size_t)(m * n) * 4 + 1);
            float *scratch = aligned_alloc(64, (hn_ext_gemm_scratch_bytes(&g) + 127) / 64 * 64);
            if (g.prepack_b) hn_ext_gemm_pack_b(&g, NULL, b, packed);
            float *residual = ext_memory(&r, HN_F32, m * n);
            hn_ext_gemm_run(
                &g,
                &(hn_ext_gemm_args){
                    .out = out, .a = a, .b = g.prepack_b ? packed : b, .residual = residual},
                scratch);
            int64_t p[HN_MATMUL_PARAM_COUNT] = {1, 1, 1, 1, m, n, k};
            p[HN_MATMUL_RESIDUAL + 4] = i % 8 ? n : 1, p[HN_MATMUL_RESIDUAL + 5] = i % 8 ? 1 : m;
            p[11] = i % 3 ? k : 1, p[12] = i % 3 ? 1 : m, p[17] = i % 5 ? n : 1,
            p[18] = i % 5 ? 1 : k, p[23] = n, p[24] = 1;
            p[HN_MATMUL_EPILOGUE] = i % 9;
            hn_ext_call call = {.kind = HN_EXTERN_MATMUL,
                                .dtypes = {HN_F32, HN_F32, HN_F32},
                                .params = p,
                                .threads = 1,
                                .param_count = HN_MATMUL_PARAM_COUNT,
                                .operands = {want, a, b, NULL, residual}};
            if (g.has_residual) call.dtypes[4] = HN_F32;
            EXPECT(ext_run_with(&call, &hn_ext_reference));
            for (int64_t e = 0; e < m * n; e++)
                if (!ext_close((double)out[e], (double)want[e], 6e-8 * (double)(k + 8), 1e-6)) {
                    HN_TEST_FAIL("%s %lld %lld %lld case %d: %g, expected %g", tables[t]->name,
                                 (long long)m, (long long)n, (long long)k, i, (double)out[e],
                                 (double)want[e]);
                    break;
                }
            free(a), free(b), free(out), free(packed), free(want), free(scratch), free(residual);
        }
}

typedef struct skinny_case {
    hn_ext_skinny f;
    float *a, *b, *out; /* b: the values that f.b holds, as floats */
    bool combines;
} skinny_case;

/* Elements from the first to the last one. */
static int64_t span_of(int64_t rows, int64_t row, int64_t cols) {
    return rows && cols ? (rows - 1) * row + cols : 0;
}

static skinny_case skinny_case_make(ext_random *r) {
    skinny_case c = {.f = {.rows = ext_int(r, 1, 9),
                           .cols = random_size(r, 90),
                           .k = random_size(r, 90),
                           .b_is_bf16 = ext_int(r, 0, 1)},
                     .combines = ext_int(r, 0, 1)};
    const int64_t b_rows = c.combines ? c.f.k : c.f.cols, b_cols = c.combines ? c.f.cols : c.f.k;
    c.f.a_row = c.f.k + ext_int(r, 0, 3), c.f.b_row = b_cols + ext_int(r, 0, 3),
    c.f.out_row = c.f.cols + ext_int(r, 0, 3);
    const int64_t b_count = span_of(b_rows, c.f.b_row, b_cols);
    c.f.a = c.a = ext_memory(r, HN_F32, span_of(c.f.rows, c.f.a_row, c.f.k));
    c.f.out = c.out = ext_memory(r, HN_F32, span_of(c.f.rows, c.f.out_row, c.f.cols));
    void *b = ext_memory(r, c.f.b_is_bf16 ? HN_BF16 : HN_F32, b_count);
    c.b = malloc((size_t)b_count * sizeof(float));
    for (int64_t i = 0; i < b_count; i++)
        c.b[i] = (float)ext_get(c.f.b_is_bf16 ? HN_BF16 : HN_F32, b, i);
    c.f.b = b;
    return c;
}

static double skinny_element(const skinny_case *c, int64_t row, int64_t col) {
    double sum = c->combines ? (double)c->out[row * c->f.out_row + col] : 0;
    for (int64_t i = 0; i < c->f.k; i++)
        sum += (double)c->a[row * c->f.a_row + i] *
               (double)c->b[c->combines ? i * c->f.b_row + col : col * c->f.b_row + i];
    return sum;
}

/* What lies between the rows of the result stays. */
TEST(skinny_products_of_every_instruction_set) {
    const hn_ext_kernels *tables[3];
    ext_random r = {6};
    for (size_t t = hn_ext_kernels_list(tables); t-- > 0;)
        for (int i = 0; i < 500; i++) {
            skinny_case c = skinny_case_make(&r);
            const int64_t count = span_of(c.f.rows, c.f.out_row, c.f.cols);
            c.f.out = malloc((size_t)count * sizeof(float));
            memcpy(c.f.out, c.out, (size_t)count * sizeof(float));
            (c.combines ? tables[t]->combine : tables[t]->dots)(&c.f);
            for (int64_t e = 0; e < count; e++) {
                const int64_t row = e / c.f.out_row, col = e % c.f.out_row;
                const double want =
                    col < c.f.cols ? skinny_element(&c, row, col) : (double)c.out[e];
                if (ext_close((double)c.f.out[e], want,
                              col < c.f.cols ? 6e-8 * (double)(c.f.k + 8) : 0, 1e-6))
                    continue;
                HN_TEST_FAIL("%s case %d: %g, expected %g", tables[t]->name, i, (double)c.f.out[e],
                             want);
                break;
            }
            free(c.a), free((void *)c.f.b), free(c.b), free(c.out), free(c.f.out);
        }
}

/* Weights of a softmax: hidden keys, a row of them, NaN, and every length of a rest. */
TEST(weights_of_every_instruction_set) {
    const hn_ext_kernels *tables[3];
    ext_random r = {7};
    for (size_t t = hn_ext_kernels_list(tables); t-- > 0;)
        for (int64_t count = 0; count < 70; count++) {
            float x[70], y[70], max;
            double most = -INFINITY, sum = 0;
            for (int64_t i = 0; i < count; i++) {
                x[i] = y[i] =
                    ext_int(&r, 0, 3) && count % 10 ? (float)ext_real(&r) * 90 : -INFINITY;
                most = fmax(most, (double)x[i]);
            }
            const float got = tables[t]->weights(y, count, &max);
            EXPECT((double)max == most);
            for (int64_t i = 0; i < count; i++) {
                /* the difference is a float */
                const double want = x[i] == -INFINITY ? 0 : exp((double)(x[i] - max));
                sum += want;
                EXPECT(ext_close((double)y[i], want, 1e-37, 1e-6));
            }
            EXPECT(ext_close((double)got, sum, 0, 1e-6));
            if (count == 0) continue;
            x[count / 2] = NAN;
            EXPECT(isnan(tables[t]->weights(x, count, &max)));
        }
}

/* The functions of the epilogues over their whole range, edges included. */
TEST(epilogues_are_accurate) {
    static const double edges[] = {0.0,  -0.0,  1e-40, -1e-40, 0.625, -0.625, 1.0,     -1.0,
                                   88.5, -88.5, 104,   -104,   1e30,  -1e30,  INFINITY};
    const hn_ext_kernels *tables[3];
    size_t count = hn_ext_kernels_list(tables);
    for (size_t t = 0; t < count; t++)
        for (int e = HN_EPILOGUE_RELU; e <= HN_EPILOGUE_HARDSIGMOID; e++) {
            float x[1015], y[1015], one = 1, want;
            for (int i = 0; i < 1000; i++) x[i] = (float)((i - 500) * 0.021);
            for (int i = 0; i < 15; i++) x[1000 + i] = (float)edges[i];
            memcpy(y, x, sizeof y);
            tables[t]->epilogue((hn_epilogue)e, y, 1015);
            for (int i = 0; i < 1015; i++) {
                int64_t p[HN_MATMUL_PARAM_COUNT] = {1, 1, 1, 1, 1, 1, 1, [HN_MATMUL_EPILOGUE] = e};
                hn_ext_call call = {.kind = HN_EXTERN_MATMUL,
                                    .dtypes = {HN_F32, HN_F32, HN_F32},
                                    .params = p,
                                    .threads = 1,
                                    .param_count = HN_MATMUL_PARAM_COUNT,
                                    .operands = {&want, &x[i], &one}};
                EXPECT(ext_run_with(&call, &hn_ext_reference));
                if (!ext_close((double)y[i], (double)want,
                               4e-7 * fmax(1, fmin(fabs((double)x[i]), 8)), 1e-6))
                    HN_TEST_FAIL("%s epilogue %d of %g is %.9g, expected %.9g", tables[t]->name, e,
                                 (double)x[i], (double)y[i], (double)want);
            }
            y[0] = NAN;
            tables[t]->epilogue((hn_epilogue)e, y, 1);
            EXPECT(isnan(y[0]));
        }
}

TEST_MAIN
