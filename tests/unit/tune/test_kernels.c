/* test_kernels.c: forms of kernels on arguments that are made up. Times are those of a clock of the
 * test's, which each form moves. */
#include "henry/bench.h"

#include "unit/harness.h"

#include <stdlib.h>

enum { ROWS = 6, COLS = 40, STRIDE = 48, COUNT = ROWS * COLS };

/* Kernels have nothing but their arguments: the test looks through here. */
static struct {
    int64_t now;
    int calls, faults, most_parts;
    bool is_wrong;
} seen;

static int64_t now(void *user) {
    (void)user;
    return seen.now;
}
static uint64_t nothing(void *user) {
    (void)user;
    return 0;
}

static const hn_bench_options options = {
    .now_ns = now, .disturbances = nothing, .sample_ns = 1000, .warmup_ns = 1000};

/* ---- forms of out = 2 x + y, where x has gaps between its rows ---- */

static int add(void *const *b, long long begin, long long end, float factor) {
    const float *x = b[0], *y = b[1];
    float *out = b[2];
    for (long long r = begin; r < end; r++)
        for (int c = 0; c < COLS; c++)
            out[r * COLS + c] = factor * x[r * STRIDE + c] + y[r * COLS + c];
    seen.calls++;
    return 0;
}
static int slow(void *const *b, const long long *s, long long begin, long long end, void *w) {
    (void)s, (void)w;
    seen.now += 1500;
    return add(b, begin, end, 2);
}
static int fast(void *const *b, const long long *s, long long begin, long long end, void *w) {
    (void)s, (void)w;
    seen.now += 1000;
    return add(b, begin, end, 2);
}
/* Other arguments in another order, a number, and scratch memory. */
static int other(void *const *b, const long long *s, long long begin, long long end, void *w) {
    void *const order[] = {b[2], b[1], b[0]};
    float *scratch = w;
    seen.is_wrong |= s[0] != COLS || s[1] != -7 || ((uintptr_t)w & 63) != 0;
    for (int k = 0; k < 25; k++) scratch[k] += 1;
    seen.now += 700;
    return add(order, begin, end, 2);
}
static int wrong(void *const *b, const long long *s, long long begin, long long end, void *w) {
    (void)s, (void)w;
    seen.now += 10;
    return add(b, begin, end, 2.001f);
}
static int idle(void *const *b, const long long *s, long long begin, long long end, void *w) {
    (void)b, (void)s, (void)begin, (void)end, (void)w;
    seen.now += 10;
    return 0;
}
static int partial(void *const *b, const long long *s, long long begin, long long end, void *w) {
    (void)s, (void)w;
    seen.now += 10;
    return add(b, begin, end - 1, 2);
}
static int vandal(void *const *b, const long long *s, long long begin, long long end, void *w) {
    (void)s, (void)w;
    const int failed = add(b, begin, end, 2);
    ((float *)b[1])[3] = 1e9f;
    return failed;
}

static const int64_t shape[] = {ROWS, COLS}, strides[] = {STRIDE, 1};
static const hn_bench_arg args[] = {
    {.type = HN_F32, .rank = 2, .sizes = shape, .strides = strides, .offset_bytes = 4},
    {.type = HN_F32, .rank = 2, .sizes = shape},
    {.type = HN_F32, .rank = 2, .sizes = shape, .access = HN_BENCH_WRITE}};
static const hn_bench_subject subject = {.args = args, .arg_count = 3, .threads = 1};
static const hn_bench_place places[] = {{.arg = 0}, {.arg = 1}, {.arg = 2}};
static const hn_bench_place turned[] = {{.arg = 2}, {.arg = 1}, {.arg = 0}};
static const long long numbers[] = {COLS, -7};

/* A form with the arguments as they are. */
static hn_bench_launch launch_of(hn_kernel_fn fn, uint32_t arg_count) {
    return (hn_bench_launch){.fn = fn, .places = places, .place_count = arg_count, .extent = ROWS};
}

enum { FORMS = 4 };
typedef struct forms {
    hn_bench_launch launches[FORMS];
    hn_bench_kernel kernels[FORMS];
    uint32_t count;
    hn_bench_report *report;
} forms;

static void add_form(forms *f, const char *name, hn_bench_launch launch) {
    const uint32_t k = f->count++;
    f->launches[k] = launch;
    f->kernels[k] = (hn_bench_kernel){.name = name, .launches = &f->launches[k], .launch_count = 1};
}
static void add_fn(forms *f, const char *name, hn_kernel_fn fn, uint32_t arg_count) {
    add_form(f, name, launch_of(fn, arg_count));
}

static hn_status go(forms *f, const hn_bench_subject *s) {
    memset(&seen, 0, sizeof seen);
    f->report = NULL;
    return hn_bench_kernels(&options, s, f->kernels, f->count, &f->report);
}

/* The race goes on without form k. */
static void expect_out(forms *f, const hn_bench_subject *s, uint32_t k, const char *why) {
    EXPECT_OK(go(f, s));
    if (!f->report) return;
    EXPECT_INT(f->report->results[k].state, HN_BENCH_DROPPED);
    if (!strstr(f->report->results[k].why, why))
        HN_TEST_FAIL("'%s' has no '%s'", f->report->results[k].why, why);
    EXPECT(f->report->winner != k);
    hn_bench_report_destroy(f->report);
}

/* ---- forms ---- */

TEST(the_fastest_right_form_wins) {
    forms f = {.count = 0};
    add_fn(&f, "slow", slow, 3);
    add_fn(&f, "fast", fast, 3);
    EXPECT_OK(go(&f, &subject));
    EXPECT_INT(f.report->winner, 1);
    EXPECT_NEAR(f.report->results[0].median_ns, 1500, 0);
    hn_bench_report_destroy(f.report);
}

TEST(forms_have_arguments_of_their_own) {
    forms f = {.count = 0};
    hn_bench_launch launch = launch_of(other, 3);
    launch.places = turned;
    launch.params = numbers;
    launch.param_count = 2;
    launch.scratch_bytes = 100;
    add_fn(&f, "slow", slow, 3);
    add_form(&f, "other", launch);
    EXPECT_OK(go(&f, &subject));
    EXPECT(!seen.is_wrong);
    EXPECT_INT(f.report->winner, 1);
    EXPECT_STR(f.report->results[1].why, "");
    hn_bench_report_destroy(f.report);
}

TEST(one_form_is_never_called) {
    forms f = {.count = 0};
    add_fn(&f, "slow", slow, 3);
    EXPECT_OK(go(&f, &subject));
    EXPECT_INT(seen.calls, 0);
    EXPECT_INT(f.report->winner, 0);
    EXPECT_INT(f.report->end, HN_BENCH_END_ALONE);
    hn_bench_report_destroy(f.report);
}

TEST(wrong_forms_are_refused_however_fast) {
    static const struct {
        hn_kernel_fn fn;
        const char *why;
    } cases[] = {{wrong, "the result is wrong: argument 2: element"},
                 {idle, "the result is wrong: argument 2: element 0"},
                 {partial, "the result is wrong: argument 2: element 200"},
                 {vandal, "argument 1, which is only read, was changed"}};
    for (int k = 0; k < 4; k++) {
        forms f = {.count = 0};
        add_fn(&f, "slow", slow, 3);
        add_fn(&f, "wrong", cases[k].fn, 3);
        add_fn(&f, "fast", fast, 3); /* right behind it: nothing of the wrong one is left */
        expect_out(&f, &subject, 1, cases[k].why);
        EXPECT_INT(seen.faults, 0);
    }
}

/* ---- the reference ---- */

static hn_status reference(void *user, void *const *a) {
    ++*(int *)user;
    (void)add(a, 0, ROWS, 2);
    return NULL;
}
static hn_status no_reference(void *user, void *const *a) {
    (void)user;
    ((float *)a[2])[0] = 77; /* it has begun */
    return HN_ERROR(HN_UNSUPPORTED, "too large to interpret");
}

TEST(the_reference_decides_even_against_the_first_form) {
    int asked = 0;
    hn_bench_subject s = subject;
    s.reference = reference;
    s.reference_user = &asked;
    forms f = {.count = 0};
    add_fn(&f, "wrong", wrong, 3);
    add_fn(&f, "slow", slow, 3);
    add_fn(&f, "fast", fast, 3);
    expect_out(&f, &s, 0, "the result is wrong");
    EXPECT_INT(asked, 1);
}

TEST(without_a_reference_the_first_form_is_right) {
    hn_bench_subject s = subject;
    s.reference = no_reference;
    forms f = {.count = 0};
    add_fn(&f, "slow", slow, 3);
    add_fn(&f, "wrong", wrong, 3);
    add_fn(&f, "fast", fast, 3);
    expect_out(&f, &s, 1, "the result is wrong");
}

/* ---- memory that is changed ---- */

/* x += 1, and whether it was as before. */
static float first_x;
static int count_up(void *const *b, long long begin, long long end) {
    float *x = b[0];
    if (begin == 0 && !first_x) first_x = x[0];
    if (begin == 0) seen.faults += x[0] != first_x;
    for (long long k = begin; k < end; k++) x[k] += 1;
    seen.calls++;
    return 0;
}
static int up_slow(void *const *b, const long long *s, long long begin, long long end, void *w) {
    (void)s, (void)w;
    seen.now += 400;
    return count_up(b, begin, end);
}
static int up_fast(void *const *b, const long long *s, long long begin, long long end, void *w) {
    (void)s, (void)w;
    seen.now += 300;
    return count_up(b, begin, end);
}

TEST(updated_arguments_are_restored_before_each_call) {
    const hn_bench_arg x = {.type = HN_F32, .rank = 2, .sizes = shape, .access = HN_BENCH_UPDATE};
    const hn_bench_subject s = {.args = &x, .arg_count = 1, .threads = 1};
    forms f = {.count = 0};
    add_fn(&f, "slow", up_slow, 1);
    add_fn(&f, "fast", up_fast, 1);
    first_x = 0;
    EXPECT_OK(go(&f, &s));
    EXPECT_INT(f.report->winner, 1);
    EXPECT_INT(seen.faults, 0);
    EXPECT_INT(f.report->results[1].calls, 4);
    EXPECT_NEAR(f.report->results[1].median_ns, 300, 1e-9);
    EXPECT(seen.calls > 40);
    hn_bench_report_destroy(f.report);
}

/* Faults in its eighth call, when it has changed everything. */
static int up_fails(void *const *b, const long long *s, long long begin, long long end, void *w) {
    static int calls;
    (void)up_fast(b, s, begin, end, w);
    return ++calls == 8;
}

TEST(who_fails_in_a_round_leaves_nothing_behind) {
    const hn_bench_arg x = {.type = HN_F32, .rank = 2, .sizes = shape, .access = HN_BENCH_UPDATE};
    const hn_bench_subject s = {.args = &x, .arg_count = 1, .threads = 1};
    forms f = {.count = 0};
    add_fn(&f, "slow", up_slow, 1);
    add_fn(&f, "fails", up_fails, 1);
    add_fn(&f, "fast", up_fast, 1);
    first_x = 0;
    expect_out(&f, &s, 1, "an index is out of bounds");
    EXPECT_INT(seen.faults, 0);
}

/* out = x + 1, over x. */
static int over_slow(void *const *b, const long long *s, long long begin, long long end, void *w) {
    seen.is_wrong |= b[0] != b[1];
    return up_slow(b, s, begin, end, w);
}
static int over_fast(void *const *b, const long long *s, long long begin, long long end, void *w) {
    seen.is_wrong |= b[0] != b[1];
    return up_fast(b, s, begin, end, w);
}

TEST(a_result_in_place_shares_memory_and_is_restored) {
    const hn_bench_arg both[] = {
        {.type = HN_F32, .rank = 2, .sizes = shape},
        {.type = HN_F32, .rank = 2, .sizes = shape, .same_as = 1, .access = HN_BENCH_WRITE}};
    const hn_bench_subject s = {.args = both, .arg_count = 2, .threads = 1};
    forms f = {.count = 0};
    add_fn(&f, "slow", over_slow, 2);
    add_fn(&f, "fast", over_fast, 2);
    first_x = 0;
    EXPECT_OK(go(&f, &s));
    EXPECT(!seen.is_wrong);
    EXPECT_INT(seen.faults, 0);
    EXPECT_INT(f.report->winner, 1);
    hn_bench_report_destroy(f.report);
}

/* ---- what arguments are ---- */

/* Whether memory is as the arguments say: places, values, one tensor twice. */
static int look(void *const *b, const long long *s, long long begin, long long end, void *w) {
    const float *x = b[0];
    const uint16_t *half = b[1];
    const int64_t *index = b[2];
    (void)s, (void)begin, (void)end, (void)w;
    seen.is_wrong |= ((uintptr_t)b[0] & 63) != 4 || ((uintptr_t)b[1] & 63) != 0;
    seen.is_wrong |= b[3] != b[2];
    for (int r = 0; r < ROWS; r++)
        for (int c = 0; c < COLS; c++) {
            const float v = fabsf(x[r * STRIDE + c]);
            seen.is_wrong |= !(v >= 0.5f && v < 2);
        }
    for (int k = 0; k < COUNT; k++) {
        const int exponent = half[k] >> 10 & 31;
        seen.is_wrong |= exponent != 14 && exponent != 15;
        if (index[k] < 0 || index[k] >= 17) return 1;
    }
    *(int64_t *)b[4] = 5;
    seen.now += 100;
    seen.calls++;
    return 0;
}

TEST(arguments_have_layout_alignment_aliases_and_ranges) {
    const hn_bench_place five[] = {{.arg = 0}, {.arg = 1}, {.arg = 2}, {.arg = 3}, {.arg = 4}};
    const hn_bench_arg a[] = {
        args[0],
        {.type = HN_F16, .rank = 2, .sizes = shape},
        {.type = HN_I64, .rank = 2, .sizes = shape, .index_limit = 17},
        {.type = HN_I64, .rank = 2, .sizes = shape, .same_as = 3, .index_limit = 17},
        {.type = HN_I64, .access = HN_BENCH_WRITE}};
    const hn_bench_subject s = {.args = a, .arg_count = 5, .threads = 1};
    forms f = {.count = 0};
    hn_bench_launch launch = launch_of(look, 5);
    launch.places = five;
    add_form(&f, "one", launch);
    add_form(&f, "two", launch);
    EXPECT_OK(go(&f, &s));
    EXPECT(!seen.is_wrong);
    EXPECT(seen.calls > 0);
    EXPECT_INT(f.report->winner, 0);
    EXPECT_INT(f.report->end, HN_BENCH_END_EQUAL);
    hn_bench_report_destroy(f.report);
}

/* An index that the kernel computes: only zeros are inside. */
static int computed(void *const *b, const long long *s, long long begin, long long end, void *w) {
    const int32_t *index = b[0];
    (void)s, (void)w;
    for (long long k = begin; k < end; k++)
        if (index[k] * 3 >= 2) return 1;
    *(float *)b[1] = 3;
    seen.now += 100;
    return 0;
}
static int never(void *const *b, const long long *s, long long begin, long long end, void *w) {
    (void)b, (void)s, (void)begin, (void)end, (void)w;
    return 2;
}

TEST(content_is_found_for_indices_that_are_computed) {
    const int64_t count = 8;
    const hn_bench_arg a[] = {{.type = HN_I32, .rank = 1, .sizes = &count},
                              {.type = HN_F32, .access = HN_BENCH_WRITE}};
    const hn_bench_subject s = {.args = a, .arg_count = 2, .threads = 1};
    forms f = {.count = 0};
    add_fn(&f, "one", computed, 2);
    add_fn(&f, "two", computed, 2);
    EXPECT_OK(go(&f, &s));
    hn_bench_report_destroy(f.report);
    f.count = 0;
    add_fn(&f, "never", never, 2); /* it is this form, and not the content */
    add_fn(&f, "one", computed, 2);
    add_fn(&f, "two", computed, 2);
    expect_out(&f, &s, 0, "an index is out of bounds");
    f.count = 0;
    add_fn(&f, "never", never, 2);
    add_fn(&f, "never", never, 2);
    EXPECT_ERROR(go(&f, &s), HN_INVALID_ARGUMENT,
                 "no content of the arguments will do: an index is out of bounds");
}

/* Of negative numbers there is no root: results are numbers where that is possible. */
static int root(void *const *b, const long long *s, long long begin, long long end, void *w) {
    (void)s, (void)w;
    for (long long k = begin; k < end; k++) {
        ((float *)b[1])[k] = sqrtf(((const float *)b[0])[k]);
        seen.is_wrong |= seen.calls > 1 && isnan(((float *)b[1])[k]);
    }
    seen.now += 100;
    seen.calls++;
    return 0;
}

TEST(results_are_numbers_where_that_can_be) {
    const hn_bench_arg a[] = {
        {.type = HN_F32, .rank = 2, .sizes = shape},
        {.type = HN_F32, .rank = 2, .sizes = shape, .access = HN_BENCH_WRITE}};
    const hn_bench_subject s = {.args = a, .arg_count = 2, .threads = 1};
    forms f = {.count = 0};
    hn_bench_launch launch = launch_of(root, 2);
    launch.extent = COUNT;
    add_form(&f, "one", launch);
    add_form(&f, "two", launch);
    EXPECT_OK(go(&f, &s));
    EXPECT(!seen.is_wrong);
    hn_bench_report_destroy(f.report);
}

static int says(void *const *b, const long long *s, long long begin, long long end, void *w) {
    (void)s, (void)begin, (void)end, (void)w;
    seen.is_wrong |= ((const int32_t *)b[0])[0] != 4711 || ((const int32_t *)b[0])[1] != 12;
    *(int32_t *)b[1] = 1;
    seen.now += 100;
    return 0;
}

TEST(content_may_be_given) {
    const int32_t content[] = {4711, 12};
    const int64_t count = 2;
    const hn_bench_arg a[] = {
        {.type = HN_I32, .rank = 1, .sizes = &count, .offset_bytes = 8, .content = content},
        {.type = HN_I32, .access = HN_BENCH_WRITE}};
    const hn_bench_subject s = {.args = a, .arg_count = 2, .threads = 1, .is_cold = true};
    forms f = {.count = 0};
    add_fn(&f, "one", says, 2);
    add_fn(&f, "two", says, 2);
    EXPECT_OK(go(&f, &s));
    EXPECT(!seen.is_wrong);
    hn_bench_report_destroy(f.report);
}

TEST(tensors_without_elements_are_no_trouble) {
    const int64_t none[] = {0, 4};
    const hn_bench_arg a[] = {{.type = HN_F32, .rank = 2, .sizes = none},
                              {.type = HN_F32, .rank = 2, .sizes = none, .access = HN_BENCH_WRITE}};
    const hn_bench_subject s = {.args = a, .arg_count = 2, .threads = 1};
    forms f = {.count = 0};
    hn_bench_launch launch = launch_of(never, 2);
    launch.extent = 0; /* nothing is called */
    add_form(&f, "one", launch);
    add_form(&f, "two", launch);
    EXPECT_OK(go(&f, &s));
    EXPECT_INT(f.report->winner, 0);
    hn_bench_report_destroy(f.report);
}

/* ---- threads ---- */

static int parts(void *const *b, const long long *s, long long begin, long long end, void *w) {
    __atomic_fetch_add(&seen.calls, 1, __ATOMIC_RELAXED);
    __atomic_fetch_add(&seen.now, 1000, __ATOMIC_RELAXED);
    (void)s;
    ((float *)w)[0] = 1; /* each thread's own */
    for (long long k = begin; k < end; k++) ((float *)b[0])[k] = (float)k;
    return 0;
}

TEST(threads_share_iterations_by_the_grain) {
    const hn_bench_arg x = {.type = HN_F32, .rank = 2, .sizes = shape, .access = HN_BENCH_WRITE};
    const hn_bench_subject s = {.args = &x, .arg_count = 1, .threads = 3};
    forms f = {.count = 0};
    hn_bench_launch launch = launch_of(parts, 1);
    launch.extent = COUNT;
    launch.scratch_bytes = 4;
    add_form(&f, "whole", launch);
    launch.grain = COUNT / 2;
    add_form(&f, "halves", launch);
    launch.grain = 1;
    add_form(&f, "thirds", launch);
    EXPECT_OK(go(&f, &s));
    /* by the test's clock each part takes as long */
    EXPECT_NEAR(f.report->results[0].median_ns, 1000, 0);
    EXPECT_NEAR(f.report->results[1].median_ns, 2000, 0);
    EXPECT_NEAR(f.report->results[2].median_ns, 3000, 0);
    hn_bench_report_destroy(f.report);
}

/* ---- failures ---- */

static hn_status does_not_compile(void *user) {
    (void)user;
    return HN_ERROR(HN_TOOLCHAIN, "the compiler says no");
}
static hn_status makes_launch(void *user) {
    *(hn_bench_launch *)user = launch_of(fast, 3);
    return NULL;
}

TEST(forms_are_built_when_the_race_begins) {
    forms f = {.count = 0};
    add_fn(&f, "slow", slow, 3);
    add_fn(&f, "late", NULL, 0);
    f.kernels[1].build = makes_launch;
    f.kernels[1].user = &f.launches[1];
    EXPECT_OK(go(&f, &subject));
    EXPECT_INT(f.report->winner, 1);
    hn_bench_report_destroy(f.report);
}

TEST(who_cannot_be_built_or_launched_is_out) {
    forms f = {.count = 0};
    add_fn(&f, "broken", slow, 3); /* the first one */
    add_fn(&f, "slow", slow, 3);
    add_fn(&f, "fast", fast, 3);
    f.kernels[0].build = does_not_compile;
    expect_out(&f, &subject, 0, "the compiler says no");
    f.kernels[0].build = NULL;
    const hn_bench_place outside[] = {{.arg = 0, .offset_bytes = 1 << 20}}, none[] = {{.arg = 3}};
    f.launches[0] = launch_of(NULL, 3);
    expect_out(&f, &subject, 0, "has no code");
    f.launches[0].code = "no object", f.launches[0].code_len = 9, f.launches[0].symbol = "k";
    expect_out(&f, &subject, 0, "broken");
    f.launches[0] = launch_of(slow, 1);
    f.launches[0].places = outside;
    expect_out(&f, &subject, 0, "outside of its memory");
    f.launches[0].places = none;
    expect_out(&f, &subject, 0, "an argument that is none");
    f.launches[0] = launch_of(slow, 3);
    f.launches[0].scratch_bytes = -1;
    expect_out(&f, &subject, 0, "scratch memory");
    f.kernels[0].launch_count = 0;
    expect_out(&f, &subject, 0, "missing");
}

TEST(when_no_form_is_left_the_last_cause_is_told) {
    forms f = {.count = 0};
    add_fn(&f, "a", slow, 3);
    add_fn(&f, "b", slow, 3);
    f.kernels[0].build = f.kernels[1].build = does_not_compile;
    EXPECT_ERROR(go(&f, &subject), HN_TOOLCHAIN,
                 "none of 2 candidates is left: 'b': the compiler says no");
}

/* The work of a form may be any function of the host. */
static hn_status by_hand(void *user, void *const *a) {
    (void)user;
    seen.now += 200;
    (void)add(a, 0, ROWS, 2);
    return NULL;
}

TEST(a_form_may_be_a_function_of_the_host) {
    forms f = {.count = 0};
    add_fn(&f, "slow", slow, 3);
    f.kernels[f.count++] = (hn_bench_kernel){.name = "hand", .run = by_hand};
    EXPECT_OK(go(&f, &subject));
    EXPECT_INT(f.report->winner, 1);
    hn_bench_report_destroy(f.report);
}

TEST(arguments_that_cannot_be_are_refused) {
    const int64_t negative[] = {-1}, large[] = {INT64_MAX / 2, 8};
    const struct {
        hn_bench_arg arg;
        const char *why;
    } cases[] = {{{.type = HN_NO_TYPE}, "argument 0 of a benchmark has no element type"},
                 {{.type = HN_F32, .rank = 1}, "has no sizes"},
                 {{.type = HN_F32, .rank = 1, .sizes = negative}, "a size below 0"},
                 {{.type = HN_F32, .rank = 2, .sizes = large}, "too large"},
                 {{.type = HN_F32, .offset_bytes = 2}, "a whole element"},
                 {{.type = HN_F32, .offset_bytes = -4}, "before its memory"},
                 {{.type = HN_F32, .same_as = 1}, "not before it"},
                 {{.type = HN_I32, .index_limit = -1}, "below 0"}};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        const hn_bench_subject s = {.args = &cases[k].arg, .arg_count = 1, .threads = 1};
        forms f = {.count = 0};
        add_fn(&f, "a", slow, 1);
        add_fn(&f, "b", slow, 1);
        EXPECT_ERROR(go(&f, &s), HN_INVALID_ARGUMENT, cases[k].why);
    }
    hn_bench_subject s = subject;
    forms f = {.count = 0};
    add_fn(&f, "a", slow, 3);
    add_fn(&f, "b", slow, 3);
    s.device = (hn_device){.kind = HN_DEVICE_CPU, .number = 7};
    EXPECT_ERROR(go(&f, &s), HN_NOT_FOUND, "there is no device cpu:7");
    s = subject;
    s.threads = -1;
    EXPECT_ERROR(go(&f, &s), HN_INVALID_ARGUMENT, "threads");
}

TEST_MAIN
