/* stats_cases.h: the statistics that a device makes of its tensors (src/runtime/device_stats.c)
 * against those of the host. Who includes it has defined open_device, which is false when there is
 * none, and close_device. */
#ifndef HN_TESTS_STATS_CASES_H
#define HN_TESTS_STATS_CASES_H

#include "runtime/device_stats.h"

#include "unit/harness.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

/* ---- a device, whose reads are counted ---- */

typedef struct stats_fixture {
    hn_device_ops counting;
    const hn_device_ops *ops;
    hn_module m;
    hn_context c;
} stats_fixture;

static uint64_t bytes_read; /* by the host */
static const hn_device_ops *counted;

static hn_status count_read(hn_queue *queue, void *to, const void *from, size_t bytes) {
    bytes_read += bytes;
    return counted->read(queue, to, from, bytes);
}

static bool stats_begin(stats_fixture *f) {
    *f = (stats_fixture){.ops = NULL};
    if (!open_device(&f->m.device, &f->c.places[HN_PLACE_KERNELS].queue)) return false;
    counted = f->ops = f->m.device->ops;
    f->counting = *f->ops;
    f->counting.read = count_read;
    f->m.device->ops = &f->counting;
    EXPECT_OK(hn_device_stats_init(&f->m));
    return true;
}

static void stats_end(stats_fixture *f) {
    hn_device_stats_deinit(&f->m);
    f->m.device->ops = f->ops;
    close_device(f->m.device, f->c.places[HN_PLACE_KERNELS].queue);
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
static void expect_same(stats_fixture *f, const hn_stats_tensor *t, size_t bytes,
                        const char *what) {
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
    stats_fixture f;
    if (!stats_begin(&f)) return;
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
    stats_end(&f);
}

/* ---- numbers at the edges ---- */

static void expect_numbers(stats_fixture *f, hn_scalar_type type, const void *data, int64_t count,
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
    stats_fixture f;
    if (!stats_begin(&f)) return;
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
    stats_end(&f);
}

/* The only bad one is late in memory and early by its index, and the other way round. */
TEST(the_first_bad_one_of_a_transposed_tensor) {
    static float x[512 * 300];
    const int64_t sizes[] = {300, 512}, strides[] = {1, 300};
    stats_fixture f;
    if (!stats_begin(&f)) return;
    x[511 * 300 + 2] = NAN;   /* [2, 511] */
    x[100 * 300 + 299] = NAN; /* [299, 100] */
    expect_same(&f, &(hn_stats_tensor){HN_F32, 2, sizes, strides, x}, sizeof x, "transposed");
    EXPECT_INT(bytes_read, 4 * 72); /* twice two records */
    stats_end(&f);
}

/* More dimensions than the kernel takes: the caller copies. */
TEST(too_many_dimensions) {
    static const int64_t sizes[9] = {2, 2, 2, 2, 2, 2, 2, 2, 2};
    int64_t strides[9];
    static float x[20000];
    hn_tensor_stats out;
    stats_fixture f;
    if (!stats_begin(&f)) return;
    for (int d = 0, stride = 1; d < 9; d++, stride *= 3) strides[8 - d] = stride;
    EXPECT(!hn_device_stats_get(&f.c, &f.m, 0, &(hn_stats_tensor){HN_F32, 9, sizes, strides, x},
                                &out));
    stats_end(&f);
}

#endif
