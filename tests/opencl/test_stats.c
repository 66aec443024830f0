/* test_stats.c: the statistics that devices make of their tensors (src/runtime/device_stats.c)
 * against those of the host, on OpenCL by the row of the runtime, and as CUDA C++ on the CPU by a
 * row of this test. */
#include "runtime/device_stats.h"

#include "runtime/device/cuda.h"
#include "support/opencl_host.h"
#include "unit/harness.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

static opencl_host *host;
static uint64_t bytes_read; /* by the host */

/* ---- a row whose kernels are CUDA C++ on the CPU ---- */

static void *row_alloc(hn_dev *dev, size_t bytes) {
    (void)dev;
    return malloc(bytes);
}
static void row_free(hn_dev *dev, void *memory) {
    (void)dev;
    free(memory);
}
static hn_status row_copy(hn_queue *queue, void *to, const void *from, size_t bytes) {
    (void)queue;
    memcpy(to, from, bytes);
    return NULL;
}

static hn_status row_load(hn_dev *dev, const char *text, const char *name,
                          hn_device_program **out) {
    static const char calls[] =
        "\nextern \"C\" void call_hn_tensor_stats(void **a) { call(hn_tensor_stats, a); }\n"
        "extern \"C\" void call_hn_tensor_stats_join(void **a) { call(hn_tensor_stats_join, a); }\n"
        "extern \"C\" { unsigned blocks_hn_tensor_stats = 1, blocks_hn_tensor_stats_join = 1; }\n";
    hn_strbuf all;
    (void)dev, (void)name;
    hn_strbuf_init(&all);
    hn_strbuf_puts(&all, hn_cuda_words);
    hn_strbuf_puts(&all, text);
    hn_strbuf_puts(&all, calls);
    hn_status status = opencl_program_build(host, all.ptr, all.len, "", (opencl_program **)out);
    hn_strbuf_deinit(&all);
    return status;
}
static void row_unload(hn_device_program *program) {
    opencl_program_free((opencl_program *)program);
}

typedef struct row_kernel {
    opencl_program *program;
    const char *name;
} row_kernel;

static hn_status row_find(hn_device_program *program, const char *symbol, void **out) {
    static row_kernel kernels[2];
    row_kernel *k = &kernels[strcmp(symbol, "hn_tensor_stats") != 0];
    *k = (row_kernel){(opencl_program *)program, symbol};
    *out = k;
    return NULL;
}

static hn_status row_launch(hn_queue *queue, const hn_device_launch *l, hn_device_fault *fault) {
    const row_kernel *k = l->kernel;
    opencl_memory memories[2] = {{.bytes = l->args[0]}};
    int64_t sizes[64];
    int failed;
    (void)queue;
    *fault = (hn_device_fault){.is_set = false};
    if (l->arg_count > 1) memories[1].bytes = l->args[1];
    for (uint32_t p = 0; p < l->param_count; p++) sizes[p] = l->params[p];
    return opencl_program_run(k->program,
                              &(opencl_launch){.kernel = k->name,
                                               .memories = memories,
                                               .memory_count = l->arg_count,
                                               .sizes = sizes,
                                               .size_count = l->param_count,
                                               .groups = (size_t)l->groups[0],
                                               .threads = l->threads[0]},
                              &failed);
}

static const hn_device_ops row = {.alloc = row_alloc,
                                  .free = row_free,
                                  .copy_in = row_copy,
                                  .read = row_copy,
                                  .load_text = row_load,
                                  .unload = row_unload,
                                  .find = row_find,
                                  .launch = row_launch};

/* ---- a device, whose reads are counted ---- */

typedef struct fixture {
    hn_dev own;
    hn_queue own_queue;
    hn_device_ops counting;
    const hn_device_ops *ops;
    hn_module m;
    hn_context c;
} fixture;

static const hn_device_ops *counted;

static hn_status count_read(hn_queue *queue, void *to, const void *from, size_t bytes) {
    bytes_read += bytes;
    return counted->read(queue, to, from, bytes);
}

static bool is_cuda(void) { return strncmp(opencl_host_target(), "opencl", 6) != 0; }

static bool begin(fixture *f) {
    *f = (fixture){.own = {.ops = &row, .facts = {.name = "CUDA on the CPU"}}};
    f->m.device = &f->own;
    f->own_queue.dev = &f->own;
    hn_queue *queue = &f->own_queue;
    if (!is_cuda()) {
        const hn_device_ops *ops = hn_device_ops_of(HN_DEVICE_OPENCL);
        EXPECT_OK(hn_dev_open(ops, &(hn_device_options){.number = 0}, &f->m.device));
        if (!f->m.device) return false;
        EXPECT_OK(ops->queue_create(f->m.device, &(hn_queue_options){.step_count = 1}, &queue));
    }
    f->c.places[HN_PLACE_KERNELS].queue = queue;
    counted = f->ops = f->m.device->ops;
    f->counting = *f->ops;
    f->counting.read = count_read;
    f->m.device->ops = &f->counting;
    EXPECT_OK(hn_device_stats_init(&f->m));
    return true;
}

static void end(fixture *f) {
    hn_device_stats_deinit(&f->m);
    f->m.device->ops = f->ops;
    if (is_cuda()) return;
    f->ops->queue_destroy(f->c.places[HN_PLACE_KERNELS].queue);
    hn_dev_release(f->m.device);
}

/* ---- comparing ---- */

static bool is_near(double a, double b, double bound) {
    return fabs(a - b) <= bound || a == b || (isnan(a) && isnan(b));
}
static bool is_same(double a, double b) { return a == b || (isnan(a) && isnan(b)); }

static bool compare(const hn_tensor_stats *got, const hn_tensor_stats *want) {
    return got->count == want->count && got->nan_count == want->nan_count &&
           got->inf_count == want->inf_count && got->first_bad == want->first_bad &&
           (want->first_bad < 0 || is_same(got->first_bad_value, want->first_bad_value)) &&
           is_same(got->min, want->min) && is_same(got->max, want->max) &&
           is_near(got->mean, want->mean, 1e-6 * (fabs(want->mean) + want->std)) &&
           is_near(got->std, want->std, 1e-5 * want->std);
}

/* `bytes`: of the memory that is at `t->data` on the host. */
static void expect_same(fixture *f, const hn_stats_tensor *t, size_t bytes, const char *what) {
    hn_tensor_stats got, again, want;
    hn_stats_tensor there = *t;
    hn_queue *queue = f->c.places[HN_PLACE_KERNELS].queue;
    void *memory = hn_dev_alloc(f->m.device, bytes + 1);
    EXPECT_OK(f->ops->copy_in(queue, memory, t->data, bytes));
    there.data = memory;
    hn_tensor_stats_get(t, NULL, 1, &want);
    bytes_read = 0;
    EXPECT(hn_device_stats_get(&f->c, &f->m, 0, &there, &got));
    EXPECT(bytes_read <= 2 * 72); /* the record; a second one where the first bad one is sought */
    EXPECT(want.first_bad >= 0 || bytes_read <= 72);
    EXPECT(hn_device_stats_get(&f->c, &f->m, 0, &there, &again));
    if (want.count && memcmp(&got, &again, sizeof got) != 0)
        HN_TEST_FAIL("%s: not the same twice", what);
    if (!compare(&got, &want))
        HN_TEST_FAIL("%s, %s: %lld elements, nan %lld inf %lld first %lld, %.17g to %.17g, mean "
                     "%.17g std %.17g; expected nan %lld inf %lld first %lld, %.17g to %.17g, mean "
                     "%.17g std %.17g",
                     what, hn_scalar_type_name(t->type), (long long)got.count,
                     (long long)got.nan_count, (long long)got.inf_count, (long long)got.first_bad,
                     got.min, got.max, got.mean, got.std, (long long)want.nan_count,
                     (long long)want.inf_count, (long long)want.first_bad, want.min, want.max,
                     want.mean, want.std);
    hn_dev_free(f->m.device, memory);
}

/* ---- data ---- */

static uint64_t random_state = 7;
static uint64_t next_random(void) {
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return random_state >> 16;
}

/* Any bits: NaNs of all kinds, infinities and denormal numbers among those of floats. With `are_tame`
 * the exponents of floats are near that of 1. */
static void fill(hn_scalar_type type, uint8_t *data, size_t bytes, bool are_tame) {
    const size_t wide = hn_scalar_type_bytes(type);
    for (size_t k = 0; k < bytes; k++) data[k] = (uint8_t)next_random();
    if (!are_tame) return;
    for (size_t k = 0; k + wide <= bytes; k += wide) {
        const uint64_t r = next_random();
        const double x = 3 + (double)(r % 1000003) / 1000003;
        const float single = (float)x;
        uint32_t bits;
        memcpy(&bits, &single, sizeof bits);
        const uint16_t top = (uint16_t)(bits >> 16), half = (uint16_t)(0x4000 + r % 0x800);
        if (type == HN_F64) memcpy(data + k, &x, 8);
        if (type == HN_F32) memcpy(data + k, &single, 4);
        if (type == HN_F16) memcpy(data + k, &half, 2);
        if (type == HN_BF16) memcpy(data + k, &top, 2);
    }
}

typedef struct layout {
    const char *name;
    uint32_t rank;
    int64_t sizes[9], strides[9];
} layout;

static const layout layouts[] = {
    {"a number", 0, {0}, {0}},
    {"one", 1, {1}, {1}},
    {"few", 1, {7}, {1}},
    {"a group", 1, {1024}, {1}},
    {"a group and one", 1, {1025}, {1}},
    {"many", 1, {600001}, {1}},
    {"rows", 2, {37, 129}, {129, 1}},
    {"columns", 2, {129, 37}, {1, 129}},
    {"every third", 2, {50, 41}, {123, 3}},
    {"a part of rows", 2, {61, 17}, {100, 1}},
    {"permuted", 4, {3, 5, 7, 11}, {1, 33, 165, 3}},
    {"one row for all", 2, {300, 70}, {0, 1}},
    {"sizes of one", 5, {1, 40, 1, 13, 1}, {9, 13, 5, 1, 1}},
    {"nothing", 2, {4, 0}, {1, 1}},
};

static int64_t extent_of(const layout *l) {
    int64_t extent = 1;
    for (uint32_t d = 0; d < l->rank; d++) {
        if (!l->sizes[d]) return 0;
        extent += (l->sizes[d] - 1) * l->strides[d];
    }
    return extent;
}

TEST(types_and_layouts) {
    fixture f;
    if (!begin(&f)) return;
    for (size_t k = 0; k < sizeof layouts / sizeof *layouts; k++)
        for (int type = HN_F64; type < HN_SCALAR_TYPE_COUNT; type++)
            for (int are_tame = 0; are_tame < 2; are_tame++) {
                const layout *l = &layouts[k];
                const size_t wide = hn_scalar_type_bytes((hn_scalar_type)type);
                const size_t bytes = (size_t)extent_of(l) * wide;
                uint8_t *data = malloc(bytes + 1);
                fill((hn_scalar_type)type, data, bytes, are_tame);
                expect_same(
                    &f,
                    &(hn_stats_tensor){(hn_scalar_type)type, l->rank, l->sizes, l->strides, data},
                    bytes, l->name);
                free(data);
            }
    end(&f);
}

/* ---- numbers at the edges ---- */

static void expect_numbers(fixture *f, hn_scalar_type type, const void *data, int64_t count,
                           const char *what) {
    const int64_t stride = 1;
    expect_same(f, &(hn_stats_tensor){type, 1, &count, &stride, data},
                (size_t)count * hn_scalar_type_bytes(type), what);
}

TEST(numbers_at_the_edges) {
    static const float bad[] = {NAN, -INFINITY, INFINITY}, zeros[] = {-0.0f, 0.0f};
    static const float tiny[] = {0x1p-149f, -0x1p-149f, 0x1p-127f, FLT_MIN};
    static const float large[] = {FLT_MAX, FLT_MAX, -FLT_MAX, FLT_MAX};
    static const double wide[] = {DBL_MAX / 4, DBL_MAX / 4, DBL_MAX / 4};
    static const double small[] = {0x1p-1074, 0x1p-1030, -0x1p-1074};
    static const int64_t whole[] = {INT64_MIN, INT64_MAX, -1, 0};
    static const uint32_t payloads[] = {0x7f800001u, 0xffc12345u, 0x3f800000u};
    static const uint16_t halves[] = {1, 0x8001, 0x3ff, 0x7bff, 0x7c01}, quarter[] = {1, 0x80ff};
    static const uint8_t flags[] = {0, 1, 0, 2};
    fixture f;
    if (!begin(&f)) return;
    expect_numbers(&f, HN_F32, bad, 3, "no number at all");
    expect_numbers(&f, HN_F32, zeros, 2, "zeros");
    expect_numbers(&f, HN_F32, tiny, 4, "denormal numbers");
    expect_numbers(&f, HN_F32, large, 4, "the largest");
    expect_numbers(&f, HN_F64, wide, 3, "a sum that is not finite");
    expect_numbers(&f, HN_F64, small, 3, "denormal doubles");
    expect_numbers(&f, HN_I64, whole, 4, "the ends of i64");
    expect_numbers(&f, HN_F32, payloads, 3, "payloads");
    expect_numbers(&f, HN_F16, halves, 5, "halves");
    expect_numbers(&f, HN_BF16, quarter, 2, "bf16");
    expect_numbers(&f, HN_BOOL, flags, 4, "bools");
    end(&f);
}

/* The only bad one is late in memory and early by its index, and the other way round. */
TEST(the_first_bad_one_of_a_transposed_tensor) {
    static float x[512 * 300];
    const int64_t sizes[] = {300, 512}, strides[] = {1, 300};
    fixture f;
    if (!begin(&f)) return;
    x[511 * 300 + 2] = NAN;   /* [2, 511] */
    x[100 * 300 + 299] = NAN; /* [299, 100] */
    expect_same(&f, &(hn_stats_tensor){HN_F32, 2, sizes, strides, x}, sizeof x, "transposed");
    EXPECT_INT(bytes_read, 4 * 72); /* twice two records */
    end(&f);
}

/* More dimensions than the kernel takes: the caller copies. */
TEST(too_many_dimensions) {
    static const int64_t sizes[9] = {2, 2, 2, 2, 2, 2, 2, 2, 2};
    int64_t strides[9];
    static float x[20000];
    hn_tensor_stats out;
    fixture f;
    if (!begin(&f)) return;
    for (int d = 0, stride = 1; d < 9; d++, stride *= 3) strides[8 - d] = stride;
    EXPECT(!hn_device_stats_get(&f.c, &f.m, 0, &(hn_stats_tensor){HN_F32, 9, sizes, strides, x},
                                &out));
    end(&f);
}

int main(int argc, char **argv) {
    int code = opencl_host_open_or_skip(&host);
    if (code >= 0) return code;
    printf("device: %s\n", opencl_host_device(host));
    code = hn_test_main(argc, argv);
    opencl_host_close(host);
    return code;
}
