/* test_pools.c: outputs that share a block are released in any order; memory of inputs is taken only
 * if program and run say so, and an output that lies there keeps it. Of programs for a device, to
 * which the inputs are copied, only copies are taken: test_cuda_pools.c has inputs that are there. */
#include "unit/runtime/module_fixture.h"

enum { N = 64 };

static hn_module *load(const char *text, hn_pool_mode pool, bool reuses) {
    fixture_plan = (hn_plan_options){pool};
    fixture_reuses = reuses;
    return load_text(text, &(hn_module_options){.threads = 2});
}

/* y = 2x, z = 4x, w = x + 4x through temporaries that overlap with outputs in a combined pool. */
static const char three_outputs[] =
    "buffer b1 : input f32[64] source 0 buffer b2 : temp f32[64] bytes(256) buffer b3 : temp f32[64] bytes(256) "
    "buffer b4 : output f32[64] bytes(256) buffer b5 : output f32[64] bytes(256) buffer b6 : output f32[64] bytes(256) " KERNELS
    "input \"x\" : f32[64] strides [1] in b1 "
    "call k4(b1 f32, out b2 f32) extent(64) call k4(b2 f32, out b3 f32) extent(64) "
    "call k4(b1 f32, out b4 f32) extent(64) call k4(b4 f32, out b5 f32) extent(64) "
    "call k1(b1 f32, b3 f32, out b6 f32) extent(64) "
    "output tensor \"y\" : f32[64] strides [1] in b4 output tensor \"z\" : f32[64] strides [1] in b5 "
    "output tensor \"w\" : f32[64] strides [1] in b6 ";

static void check_filled(const hn_tensor *t, float factor, float base) {
    const float *values = hn_tensor_data(t);
    for (int i = 0; i < N; i++) EXPECT(values[i] == factor * (base + (float)i));
}

static void run_three(hn_module *m, float base, hn_tensor **outputs) {
    float x[N];
    for (int i = 0; i < N; i++) x[i] = base + (float)i;
    hn_tensor *input = F32(x, N);
    EXPECT_OK(hn_module_run(m, &input, 1, outputs, 3));
    hn_tensor_release(input);
}

static const hn_pool_mode modes[] = {HN_POOL_INTERMEDIATES, HN_POOL_NONE, HN_POOL_OUTPUTS,
                                     HN_POOL_COMBINED};

TEST(outputs_are_released_in_any_order) {
    for (uint32_t k = 0; k < HN_COUNT_OF(modes); k++) {
        hn_module *m = load(three_outputs, modes[k], false);
        for (uint32_t first = 0; first < 3; first++) {
            hn_tensor *a[3] = {NULL}, *b[3] = {NULL};
            run_three(m, 1, a);
            hn_tensor_release(a[first]);
            run_three(m, 100, b); /* other memory than that of the outputs which are left */
            const float factors[3] = {2, 4, 5};
            for (uint32_t i = 0; i < 3; i++) {
                if (i != first) check_filled(a[i], factors[i], 1);
                check_filled(b[i], factors[i], 100);
            }
            hn_tensor_release(b[1]), hn_tensor_release(b[0]);
            check_filled(b[2], 5, 100);
            for (uint32_t i = 0; i < 3; i++)
                if (i != first) hn_tensor_release(a[i]);
            hn_tensor_release(b[2]);
        }
        hn_module_release(m);
    }
}

TEST(outputs_outlive_the_module) {
    hn_module *m = load(three_outputs, HN_POOL_COMBINED, false);
    hn_tensor *out[3] = {NULL};
    run_three(m, 1, out);
    hn_module_release(m);
    hn_tensor_release(out[0]);
    check_filled(out[2], 5, 1);
    hn_tensor_release(out[2]);
    check_filled(out[1], 4, 1);
    hn_tensor_release(out[1]);
}

/* Memory that the caller brings stays apart from the pool. */
TEST(given_outputs_of_a_pool) {
    for (uint32_t k = 0; k < HN_COUNT_OF(modes); k++) {
        hn_module *m = load(three_outputs, modes[k], false);
        float own[N];
        hn_tensor *out[3] = {NULL, F32(own, N), NULL};
        run_three(m, 7, out);
        check_filled(out[0], 2, 7), check_filled(out[2], 5, 7);
        for (int i = 0; i < N; i++) EXPECT(own[i] == 4 * (7 + (float)i));
        for (uint32_t i = 0; i < 3; i++) hn_tensor_release(out[i]);
        hn_module_release(m);
    }
}

/* Outputs, and an input that is given up, of no elements: their pool has no bytes. */
TEST(pools_of_no_bytes) {
    static const char sized[] =
        "symbol size s0 in [0, 64] hint 8 buffer b1 : input f32[s0] source 0 buffer b2 : temp f32[s0] bytes(4*s0) "
        "buffer b3 : output f32[s0] bytes(4*s0) buffer b4 : output f32[s0] bytes(4*s0) " KERNELS
        "input \"x\" donated : f32[s0] strides [1] in b1 call k4(b1 f32, out b2 f32) extent(s0) "
        "call k4(b2 f32, out b3 f32) extent(s0) call k4(b3 f32, out b4 f32) extent(s0) "
        "output tensor \"y\" : f32[s0] strides [1] in b3 output tensor \"z\" : f32[s0] strides [1] in b4 ";
    static const char fixed[] =
        "buffer b1 : input f32[0] source 0 buffer b2 : temp f32[0] bytes(0) "
        "buffer b3 : output f32[0] bytes(0) buffer b4 : output f32[0] bytes(0) " KERNELS
        "input \"x\" donated : f32[0] strides [1] in b1 call k4(b1 f32, out b2 f32) extent(0) "
        "call k4(b2 f32, out b3 f32) extent(0) call k4(b3 f32, out b4 f32) extent(0) "
        "output tensor \"y\" : f32[0] strides [1] in b3 output tensor \"z\" : f32[0] strides [1] in b4 ";
    static const uint32_t zero = 0;
    const hn_run_options options[2] = {{0}, {.donated = &zero, .donated_count = 1}};
    for (uint32_t k = 0; k < 4 * HN_COUNT_OF(modes); k++) {
        hn_module *m = load(k & 1 ? sized : fixed, modes[k / 4], false);
        float x[1];
        hn_tensor *in = F32(x, 0), *out[2] = {NULL};
        EXPECT_OK(hn_module_run_with(m, &options[k / 2 % 2], &in, 1, out, 2));
        if (out[1]) EXPECT_INT(hn_tensor_numel(out[1]), 0);
        hn_tensor_release(in), hn_tensor_release(out[0]), hn_tensor_release(out[1]);
        hn_module_release(m);
    }
}

/* ---- inputs that are given up ---- */

/* y = 2a in place, z = 4a + b */
static const char donating[] =
    "buffer b1 : input f32[64] source 0 buffer b2 : input f32[64] source 1 buffer b3 : output f32[64] bytes(256) "
    "buffer b4 : temp f32[64] bytes(256) buffer b5 : output f32[64] bytes(256) " KERNELS
    "input \"a\" donated : f32[64] strides [1] in b1 input \"b\" : f32[64] strides [1] in b2 "
    "call k4(b1 f32, out b3 f32 over [0]) extent(64) call k4(b3 f32, out b4 f32) extent(64) "
    "call k1(b4 f32, b2 f32, out b5 f32) extent(64) "
    "output tensor \"y\" : f32[64] strides [1] in b3 output tensor \"z\" : f32[64] strides [1] in b5 ";

typedef struct donated_run {
    _Alignas(64) float a[N + 1], b[N];
    hn_tensor *inputs[2], *outputs[2];
} donated_run;

static void set_up(donated_run *r, uint32_t shift) {
    *r = (donated_run){0};
    for (int i = 0; i < N; i++) r->a[(uint32_t)i + shift] = (float)i, r->b[i] = 1;
    r->inputs[0] = F32(r->a + shift, N), r->inputs[1] = F32(r->b, N);
}
static void tear_down(donated_run *r) {
    for (int k = 0; k < 2; k++) hn_tensor_release(r->inputs[k]), hn_tensor_release(r->outputs[k]);
}

static hn_status run_donated(hn_module *m, donated_run *r, const uint32_t *donated,
                             uint32_t count) {
    const hn_run_options options = {.donated = donated, .donated_count = count};
    return hn_module_run_with(m, &options, r->inputs, 2, r->outputs, 2);
}

static void check_results(const donated_run *r) {
    for (int i = 0; i < N; i++) {
        EXPECT(((float *)hn_tensor_data(r->outputs[0]))[i] == 2 * (float)i);
        EXPECT(((float *)hn_tensor_data(r->outputs[1]))[i] == 4 * (float)i + 1);
        EXPECT(r->b[i] == 1);
    }
}

static bool is_untouched(const donated_run *r, uint32_t shift) {
    for (int i = 0; i < N; i++)
        if (r->a[(uint32_t)i + shift] != (float)i) return false;
    return true;
}

TEST(memory_is_taken_only_if_the_run_says_so) {
    static const uint32_t zero = 0, one = 1;
    for (uint32_t k = 0; k < HN_COUNT_OF(modes); k++) {
        hn_module *m = load(donating, modes[k], modes[k] != HN_POOL_NONE);
        hn_module_value_info info;
        donated_run r;
        EXPECT_OK(hn_module_input_info(m, 0, &info));
        EXPECT_INT(info.is_donated, modes[k] != HN_POOL_NONE);
        set_up(&r, 0);
        EXPECT_OK(run_donated(m, &r, NULL, 0));
        check_results(&r);
        EXPECT(is_untouched(&r, 0) && hn_tensor_data(r.outputs[0]) != r.a);
        tear_down(&r);
        set_up(&r, 0); /* an input that the program was not compiled for */
        EXPECT_OK(run_donated(m, &r, &one, 1));
        check_results(&r);
        EXPECT(is_untouched(&r, 0));
        tear_down(&r);
        set_up(&r, 0);
        EXPECT_OK(run_donated(m, &r, &zero, 1));
        check_results(&r);
        EXPECT_INT(hn_tensor_data(r.outputs[0]) == r.a,
                   modes[k] != HN_POOL_NONE && !FIXTURE_IS_REMOTE);
        EXPECT(is_untouched(&r, 0) || !FIXTURE_IS_REMOTE);
        tear_down(&r);
        set_up(&r, 1); /* kernels want other alignment of what they write */
        EXPECT_OK(run_donated(m, &r, &zero, 1));
        check_results(&r);
        EXPECT(is_untouched(&r, 1));
        tear_down(&r);
        hn_module_release(m);
    }
}

/* An output in the memory of an input holds it. */
static int freed;
static void free_counted(void *memory) {
    freed++;
    free(memory);
}

TEST(an_output_keeps_the_input) {
    static const uint32_t zero = 0;
    hn_module *m = load(donating, HN_POOL_INTERMEDIATES, true);
    donated_run r;
    set_up(&r, 0);
    hn_tensor_release(r.inputs[0]);
    float *memory = aligned_alloc(64, N * sizeof *memory);
    for (int i = 0; memory && i < N; i++) memory[i] = (float)i;
    EXPECT_OK(hn_tensor_create(&(hn_tensor_desc){.type = HN_F32,
                                                 .rank = 1,
                                                 .sizes = (int64_t[]){N},
                                                 .data = memory,
                                                 .free_data = free_counted,
                                                 .free_user = memory},
                               &r.inputs[0]));
    EXPECT_OK(run_donated(m, &r, &zero, 1));
    freed = 0;
    hn_tensor_release(r.inputs[0]);
    hn_module_release(m);
    r.inputs[0] = NULL;
    EXPECT_INT(freed, FIXTURE_IS_REMOTE);
    check_results(&r);
    hn_tensor_release(r.outputs[0]);
    r.outputs[0] = NULL;
    EXPECT_INT(freed, 1);
    tear_down(&r);
}

/* Memory that somebody else uses, too, is refused, and nothing is written. */
TEST(wrong_donations_are_refused) {
    static const uint32_t zero = 0, nine = 9;
    hn_module *m = load(donating, HN_POOL_COMBINED, true);
    donated_run r;
    set_up(&r, 0);
    EXPECT_ERROR(run_donated(m, &r, &nine, 1), HN_INVALID_ARGUMENT, "there are 2 inputs");
    EXPECT_ERROR(run_donated(m, &r, NULL, 1), HN_INVALID_ARGUMENT, "'donated' is NULL");
    hn_tensor_release(r.inputs[1]);
    r.inputs[1] = hn_tensor_retain(r.inputs[0]);
    if (!FIXTURE_IS_REMOTE)
        EXPECT_ERROR(run_donated(m, &r, &zero, 1), HN_INVALID_ARGUMENT, "has the same memory");
    EXPECT(is_untouched(&r, 0));
    EXPECT_OK(run_donated(m, &r, NULL, 0));
    EXPECT(is_untouched(&r, 0));
    tear_down(&r);
    set_up(&r, 0);
    r.outputs[1] = F32(r.a, N);
    if (!FIXTURE_IS_REMOTE)
        EXPECT_ERROR(run_donated(m, &r, &zero, 1), HN_INVALID_ARGUMENT, "given for output 1");
    EXPECT(is_untouched(&r, 0));
    tear_down(&r);
    set_up(&r, 0);
    hn_tensor_release(r.inputs[0]);
    EXPECT_OK(hn_tensor_create_const(
        &(hn_tensor_desc){.type = HN_F32, .rank = 1, .sizes = (int64_t[]){N}}, r.a, &r.inputs[0]));
    EXPECT_ERROR(run_donated(m, &r, &zero, 1), HN_INVALID_ARGUMENT, "read-only");
    tear_down(&r);
    hn_module_release(m);
}

/* A begun run keeps what it was given. */
TEST(begun_runs_take_memory_too) {
    static const uint32_t zero = 0;
    hn_module *m = load(donating, HN_POOL_OUTPUTS, true);
    hn_run *run = NULL;
    donated_run r;
    set_up(&r, 0);
    const hn_run_options options = {.donated = &zero, .donated_count = 1};
    EXPECT_OK(hn_run_begin(m, &options, r.inputs, 2, r.outputs, 2, &run));
    EXPECT_OK(hn_run_end(run));
    check_results(&r);
    EXPECT_INT(hn_tensor_data(r.outputs[0]) == r.a, !FIXTURE_IS_REMOTE);
    tear_down(&r);
    hn_module_release(m);
}

TEST_MAIN
