/* test_cuda_kernels.c: forms of kernels on a GPU, timed by its events: with the stand-in for the
 * driver, and on a GPU when its driver is found. */
#include "henry/bench.h"

#include "unit/runtime/cuda_row.h"

enum { COUNT = 64, TABLE = 100, ROWS = 8 };

static const int64_t table = TABLE, count = COUNT, rows = ROWS, scratch_rows[] = {ROWS, COUNT};
static const hn_bench_arg gather_args[] = {
    {.type = HN_F32, .rank = 1, .sizes = &table},
    {.type = HN_I64, .rank = 1, .sizes = &count, .index_limit = TABLE},
    {.type = HN_F32, .rank = 1, .sizes = &count, .access = HN_BENCH_WRITE}};
static const hn_bench_place gather_places[] = {{.arg = 0}, {.arg = 1}, {.arg = 2}};
static const long long gather_params[] = {TABLE}, sum_params[] = {COUNT};
static const hn_bench_arg sum_args[] = {
    {.type = HN_F32, .rank = 2, .sizes = scratch_rows},
    {.type = HN_F32, .rank = 1, .sizes = &rows, .access = HN_BENCH_WRITE}};
static const hn_bench_place sum_places[] = {{.arg = 0}, {.arg = 1}};

static const char *code(void) {
    return cuda_standin_find() ? cuda_standin_kernels : cuda_ptx_kernels;
}

static hn_bench_launch gather_with(uint32_t threads) {
    return (hn_bench_launch){.code = code(),
                             .code_len = strlen(code()),
                             .symbol = "gather",
                             .places = gather_places,
                             .place_count = 3,
                             .params = gather_params,
                             .param_count = 1,
                             .extent = COUNT / threads,
                             .groups = {COUNT / threads, 1, 1},
                             .threads = {threads, 1, 1}};
}

static bool has_device(void) {
    hn_dev *dev;
    if (hn_test_lacks(hn_dev_open(&hn_device_cuda, &(hn_device_options){.number = 0}, &dev)))
        return false;
    hn_dev_release(dev);
    return true;
}

static hn_bench_subject subject_of(const hn_bench_arg *args, uint32_t arg_count) {
    return (hn_bench_subject){
        .args = args, .arg_count = arg_count, .device = {.kind = HN_DEVICE_CUDA}};
}

/* What the gather is to do, on the host. */
static hn_status reference(void *user, void *const *args) {
    (void)user;
    for (int k = 0; k < COUNT; k++)
        ((float *)args[2])[k] = ((const float *)args[0])[((const int64_t *)args[1])[k]];
    return NULL;
}

static const hn_bench_options short_race = {.max_rounds = 9, .warmup_ns = 1000};

TEST(forms_race_by_the_clock_of_the_device) {
    hn_bench_launch launches[] = {gather_with(8), gather_with(16), gather_with(8)};
    const hn_bench_kernel kernels[] = {
        {.name = "8", .launches = &launches[0], .launch_count = 1},
        {.name = "16", .launches = &launches[1], .launch_count = 1},
        {.name = "none", .launches = &launches[2], .launch_count = 1}};
    hn_bench_subject s = subject_of(gather_args, 3);
    hn_bench_report *report = NULL;
    if (!has_device()) return;
    launches[2].symbol = "no_such_kernel";
    s.reference = reference;
    s.is_cold = true;
    EXPECT_OK(hn_bench_kernels(&short_race, &s, kernels, 3, &report));
    if (report) {
        EXPECT(report->winner < 2);
        for (int k = 0; k < 2; k++) {
            EXPECT_STR(report->results[k].why, "");
            EXPECT(report->results[k].state != HN_BENCH_DROPPED);
        }
        EXPECT_INT(report->results[2].state, HN_BENCH_DROPPED);
        EXPECT(strstr(report->results[2].why, "no_such_kernel") != NULL);
        EXPECT(report->timed_calls > 0);
    }
    hn_bench_report_destroy(report);
    expect_nothing_left();
}

TEST(groups_have_scratch_memory) {
    const hn_bench_launch launch = {.code = code(),
                                    .code_len = strlen(code()),
                                    .symbol = "sum",
                                    .places = sum_places,
                                    .place_count = 2,
                                    .params = sum_params,
                                    .param_count = 1,
                                    .extent = ROWS,
                                    .groups = {ROWS, 1, 1},
                                    .threads = {1, 1, 1},
                                    .scratch_bytes = 64};
    const hn_bench_kernel kernels[] = {{.name = "a", .launches = &launch, .launch_count = 1},
                                       {.name = "b", .launches = &launch, .launch_count = 1}};
    const hn_bench_subject s = subject_of(sum_args, 2);
    hn_bench_report *report = NULL;
    if (!has_device()) return;
    EXPECT_OK(hn_bench_kernels(&short_race, &s, kernels, 2, &report));
    for (int k = 0; report && k < 2; k++) EXPECT_STR(report->results[k].why, "");
    hn_bench_report_destroy(report);
    expect_nothing_left();
}

/* The kernel checks its indices: other numbers than those in range are a fault of the form. */
TEST(indices_out_of_bounds_are_faults) {
    static const long long few[] = {3};
    hn_bench_launch launches[] = {gather_with(8), gather_with(8), gather_with(8)};
    const hn_bench_kernel kernels[] = {{.name = "few", .launches = &launches[0], .launch_count = 1},
                                       {.name = "a", .launches = &launches[1], .launch_count = 1},
                                       {.name = "b", .launches = &launches[2], .launch_count = 1}};
    const hn_bench_subject s = subject_of(gather_args, 3);
    hn_bench_report *report = NULL;
    if (!has_device()) return;
    launches[0].params = few;
    EXPECT_OK(hn_bench_kernels(&short_race, &s, kernels, 3, &report));
    if (report) {
        EXPECT_STR(report->results[0].why, "an index is out of bounds");
        EXPECT(report->winner > 0);
    }
    hn_bench_report_destroy(report);
    expect_nothing_left();
}

/* A call of the driver fails, each of the first ones: the race is an error, or goes on; nothing is
 * left. */
TEST(a_call_that_fails_leaves_nothing) {
    cuda_standin *standin = cuda_standin_find();
    const hn_bench_launch launches[] = {gather_with(8), gather_with(16)};
    const hn_bench_kernel kernels[] = {{.name = "8", .launches = &launches[0], .launch_count = 1},
                                       {.name = "16", .launches = &launches[1], .launch_count = 1}};
    hn_bench_subject s = subject_of(gather_args, 3);
    if (!standin || !has_device()) return;
    s.reference = reference;
    for (long k = 1; k < 120; k += 1 + k / 16) {
        hn_bench_report *report = NULL;
        cuda_standin_reset(standin);
        standin->fail_at = k;
        standin->code = 1;
        hn_status status = hn_bench_kernels(&short_race, &s, kernels, 2, &report);
        EXPECT(status || report->winner < 2);
        EXPECT(!status || *hn_status_message(status));
        hn_status_free(status);
        hn_bench_report_destroy(report);
        cuda_standin_reset(standin);
    }
    expect_nothing_left();
}

TEST_MAIN
