/* test_calls.c: forms of a call race on operands that are made up. */
#include "tune/calls.h"
#include "unit/harness.h"

#include <string.h>

enum { M = 20, N = 48, K = 64 };

typedef struct fixture {
    int64_t params[HN_MATMUL_PARAM_COUNT];
    hn_call_subject subject;
} fixture;

/* A product of matrices of f32. */
static void setup(fixture *f) {
    const int64_t bytes[3] = {M * N * 4, M * K * 4, K * N * 4};
    memset(f, 0, sizeof *f);
    for (int d = 0; d < HN_EXTERN_BATCH; d++) f->params[HN_MATMUL_BATCH + d] = 1;
    f->params[HN_MATMUL_M] = M, f->params[HN_MATMUL_N] = N, f->params[HN_MATMUL_K] = K;
    f->params[HN_MATMUL_OUT + 4] = N, f->params[HN_MATMUL_OUT + 5] = 1;
    f->params[HN_MATMUL_A + 4] = K, f->params[HN_MATMUL_A + 5] = 1;
    f->params[HN_MATMUL_B + 4] = N, f->params[HN_MATMUL_B + 5] = 1;
    f->subject = (hn_call_subject){.kind = HN_EXTERN_MATMUL, .params = f->params, .threads = 1};
    f->subject.is_written[0] = true;
    for (int k = 0; k < 3; k++) f->subject.dtypes[k] = HN_F32, f->subject.bytes[k] = bytes[k];
}

static const hn_ext_form forms[] = {
    {.kind = NULL}, {.kind = "winograd"}, {.kind = "skinny"}, {.kind = "gemm", .pass = 256}};
static const char *const names[] = {"own", "winograd", "skinny", "gemm pass=256"};
enum { COUNT = 4 };

static const hn_bench_options quick = {.budget_ns = 5000000, .max_rounds = 8};

TEST(who_can_do_it_is_timed) {
    hn_bench_report *report = NULL;
    fixture f;
    setup(&f);
    EXPECT_OK(hn_bench_call_forms(&quick, &f.subject, forms, names, COUNT, &report));
    for (uint32_t k = 0; k < COUNT; k++) {
        EXPECT_INT(report->results[k].state == HN_BENCH_DROPPED, k == 1);
        EXPECT(k == 1 || report->results[k].median_ns > 0);
    }
    EXPECT(strstr(report->results[1].why, "winograd"));
    EXPECT(report->winner != 1);
    hn_bench_report_destroy(report);
}

/* As a module reads them: out of a constant, from behind the beginning of a buffer. A program with
 * more constants has copies of this one, whose results are the same. */
static void race_with_constants(int64_t constant_bytes) {
    hn_bench_report *report = NULL;
    fixture f;
    setup(&f);
    f.params[HN_MATMUL_B_CONSTANT] = 1;
    f.subject.is_constant[2] = true;
    f.subject.constant_bytes = constant_bytes;
    for (int k = 1; k < 3; k++) {
        f.subject.offset_bytes[k] = 128;
        f.subject.bytes[k] += 128;
    }
    EXPECT_OK(hn_bench_call_forms(&quick, &f.subject, forms, names, COUNT, &report));
    EXPECT(report->results[0].median_ns > 0 && report->results[3].median_ns > 0);
    for (uint32_t k = 0; k < COUNT; k++)
        EXPECT_INT(report->results[k].state == HN_BENCH_DROPPED, k == 1);
    hn_bench_report_destroy(report);
}

TEST(constants_and_parts_of_buffers) {
    race_with_constants(0);
    race_with_constants(3 * K * N * 4);
    race_with_constants(INT64_C(1) << 40);
}

TEST(operands_that_reach_beyond_their_buffers_are_refused) {
    hn_bench_report *report = NULL;
    fixture f;
    setup(&f);
    f.subject.bytes[2] -= 4;
    EXPECT_ERROR(hn_bench_call_forms(&quick, &f.subject, forms, names, COUNT, &report), HN_CORRUPT,
                 "operand 2 reaches beyond its buffer");
    setup(&f);
    f.subject.bytes[2] = INT64_C(1) << 40;
    EXPECT_ERROR(hn_bench_call_forms(&quick, &f.subject, forms, names, COUNT, &report),
                 HN_UNSUPPORTED, "too large to be made up");
}

TEST_MAIN
