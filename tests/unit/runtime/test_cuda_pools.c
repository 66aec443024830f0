/* test_cuda_pools.c: pools in memory of a device, and inputs there that the caller gives up, on the
 * stand-in for CUDA's driver. */
#include "unit/runtime/cuda_caller.h"

#include "runtime/module_impl.h"

enum { N = 64, BYTES = 4 * N };

static const hn_run_options stay = {.device_outputs = true};

static const hn_pool_mode modes[] = {HN_POOL_INTERMEDIATES, HN_POOL_NONE, HN_POOL_OUTPUTS,
                                     HN_POOL_COMBINED};

static hn_module *load(const char *text, hn_pool_mode pool, bool reuses) {
    fixture_plan = (hn_plan_options){pool};
    fixture_reuses = reuses;
    return load_text(text, NULL);
}

/* y = 2x, z = 4x, w = x + 4x */
static const char three_outputs[] =
    "buffer b1 : input f32[64] source 0 buffer b2 : temp f32[64] bytes(256) buffer b3 : temp f32[64] bytes(256) "
    "buffer b4 : output f32[64] bytes(256) buffer b5 : output f32[64] bytes(256) buffer b6 : output f32[64] bytes(256) " KERNELS
    "input \"x\" : f32[64] strides [1] in b1 "
    "call k4(b1 f32, out b2 f32) extent(64) call k4(b2 f32, out b3 f32) extent(64) "
    "call k1(b1 f32, b3 f32, out b6 f32) extent(64) "
    "call k4(b1 f32, out b4 f32) extent(64) call k4(b4 f32, out b5 f32) extent(64) "
    "output tensor \"y\" : f32[64] strides [1] in b4 output tensor \"z\" : f32[64] strides [1] in b5 "
    "output tensor \"w\" : f32[64] strides [1] in b6 ";

/* y = 2a in place, z = 4a + b */
static const char donating[] =
    "buffer b1 : input f32[64] source 0 buffer b2 : input f32[64] source 1 buffer b3 : output f32[64] bytes(256) "
    "buffer b4 : temp f32[64] bytes(256) buffer b5 : output f32[64] bytes(256) " KERNELS
    "input \"a\" donated : f32[64] strides [1] in b1 input \"b\" : f32[64] strides [1] in b2 "
    "call k4(b1 f32, out b3 f32 over [0]) extent(64) call k4(b3 f32, out b4 f32) extent(64) "
    "call k1(b4 f32, b2 f32, out b5 f32) extent(64) "
    "output tensor \"y\" : f32[64] strides [1] in b3 output tensor \"z\" : f32[64] strides [1] in b5 ";

static void put_ramp(const caller *c, hn_cuda_address at) {
    float x[N];
    for (int i = 0; i < N; i++) x[i] = (float)i;
    put(c, at, x, sizeof x);
    EXPECT_INT(c->cuda.cuStreamSynchronize(c->stream), 0);
}

static void expect_ramp(const caller *c, const void *at, float factor, float base) {
    float y[N] = {0};
    get(c, y, (uintptr_t)at, sizeof y);
    for (int i = 0; i < N; i++) EXPECT(y[i] == factor * (float)i + base);
}

/* ---- outputs that stay ---- */

TEST(outputs_of_a_pool_stay_and_hold_it) {
    static const float factors[3] = {2, 4, 5};
    caller c;
    if (!begin(&c)) return;
    const hn_cuda_address a = take(&c, BYTES);
    put_ramp(&c, a);
    for (uint32_t k = 0; k < 3 * HN_COUNT_OF(modes); k++) {
        hn_module *m = load(three_outputs, modes[k / 3], false);
        hn_tensor *in = there(a, N, 1, 0), *out[3] = {NULL}, *next[3] = {NULL};
        if (!m) return;
        EXPECT_OK(hn_module_run_with(m, &stay, &in, 1, out, 3));
        hn_tensor_release(out[k % 3]);
        EXPECT_OK(hn_module_run_with(m, &stay, &in, 1, next, 3)); /* not where others still lie */
        hn_module_release(m);
        for (uint32_t i = 0; i < 3; i++) {
            if (i != k % 3) expect_ramp(&c, hn_tensor_data(out[i]), factors[i], 0);
            expect_ramp(&c, hn_tensor_data(next[i]), factors[i], 0);
        }
        for (uint32_t i = 0; i < 3; i++) {
            if (i != k % 3) hn_tensor_release(out[i]);
            hn_tensor_release(next[i]);
        }
        hn_tensor_release(in);
    }
    (void)c.cuda.cuMemFree(a);
    end(&c, NULL);
}

/* Bytes that a run has on the device: the plan's, whose pools hold what lies in them. */
static uint64_t plan_bytes(hn_pool_mode mode) {
    hn_module *m = load(three_outputs, mode, false);
    float x[N] = {0};
    hn_tensor *in = F32(x, N), *out[3] = {NULL};
    hn_module_stats stats = {0};
    if (!m) return 0;
    EXPECT_OK(hn_module_run(m, &in, 1, out, 3));
    hn_module_stats_get(m, &stats);
    hn_tensor_release(in);
    for (uint32_t i = 0; i < 3; i++) hn_tensor_release(out[i]);
    hn_module_release(m);
    return stats.plan_bytes;
}

TEST(a_combined_pool_is_smaller) {
    caller c;
    if (!begin(&c)) return;
    EXPECT_INT((int)plan_bytes(HN_POOL_NONE), 6 * BYTES);
    EXPECT_INT((int)plan_bytes(HN_POOL_INTERMEDIATES), 6 * BYTES);
    EXPECT_INT((int)plan_bytes(HN_POOL_OUTPUTS), 6 * BYTES);
    EXPECT_INT((int)plan_bytes(HN_POOL_COMBINED), 4 * BYTES);
    end(&c, NULL);
}

/* An output that the caller has brought memory for, one for the host, and one that stays. */
TEST(given_outputs_of_a_pool) {
    caller c;
    if (!begin(&c)) return;
    const hn_cuda_address a = take(&c, BYTES), own = take(&c, BYTES);
    put_ramp(&c, a);
    for (uint32_t k = 0; k < HN_COUNT_OF(modes); k++) {
        hn_module *m = load(three_outputs, modes[k], false);
        float w[N] = {0};
        hn_tensor *in = there(a, N, 1, 0), *out[3] = {NULL, there(own, N, 1, 0), F32(w, N)};
        if (!m) return;
        EXPECT_OK(hn_module_run_with(m, &stay, &in, 1, out, 3));
        expect_ramp(&c, hn_tensor_data(out[0]), 2, 0);
        expect_ramp(&c, (void *)(uintptr_t)own, 4, 0);
        for (int i = 0; i < N; i++) EXPECT(w[i] == 5 * (float)i);
        for (uint32_t i = 0; i < 3; i++) hn_tensor_release(out[i]);
        hn_tensor_release(in);
        hn_module_release(m);
    }
    (void)c.cuda.cuMemFree(a), (void)c.cuda.cuMemFree(own);
    end(&c, NULL);
}

/* ---- inputs that are given up ---- */

typedef struct donated_run {
    hn_cuda_address a, b;
    hn_tensor *inputs[2], *outputs[2];
} donated_run;

static void set_up(const caller *c, donated_run *r, uint32_t shift) {
    *r = (donated_run){.a = take(c, BYTES + 64), .b = take(c, BYTES)};
    put_ramp(c, r->a + shift), put_ramp(c, r->b);
    r->inputs[0] = there(r->a + shift, N, 1, 0), r->inputs[1] = there(r->b, N, 1, 0);
}
static void tear_down(const caller *c, donated_run *r) {
    for (int k = 0; k < 2; k++) hn_tensor_release(r->inputs[k]), hn_tensor_release(r->outputs[k]);
    (void)c->cuda.cuMemFree(r->a), (void)c->cuda.cuMemFree(r->b);
}

static hn_status run_donated(hn_module *m, donated_run *r, const uint32_t *donated, uint32_t count,
                             bool stays) {
    const hn_run_options options = {
        .donated = donated, .donated_count = count, .device_outputs = stays};
    return hn_module_run_with(m, &options, r->inputs, 2, r->outputs, 2);
}

static void expect_results(const caller *c, const donated_run *r, bool stays) {
    expect_ramp(c, (void *)(uintptr_t)r->b, 1, 0);
    if (stays) {
        expect_ramp(c, hn_tensor_data(r->outputs[0]), 2, 0);
        expect_ramp(c, hn_tensor_data(r->outputs[1]), 5, 0);
        return;
    }
    for (int i = 0; i < N; i++) {
        EXPECT(((float *)hn_tensor_data(r->outputs[0]))[i] == 2 * (float)i);
        EXPECT(((float *)hn_tensor_data(r->outputs[1]))[i] == 5 * (float)i);
    }
}

TEST(memory_on_the_device_is_taken_only_if_the_run_says_so) {
    static const uint32_t zero = 0;
    caller c;
    if (!begin(&c)) return;
    for (uint32_t k = 0; k < 2 * HN_COUNT_OF(modes); k++) {
        const bool takes = modes[k / 2] != HN_POOL_NONE, stays = k & 1;
        hn_module *m = load(donating, modes[k / 2], takes);
        donated_run r;
        if (!m) return;
        set_up(&c, &r, 0);
        EXPECT_OK(run_donated(m, &r, NULL, 0, stays));
        expect_results(&c, &r, stays);
        expect_ramp(&c, (void *)(uintptr_t)r.a, 1, 0);
        tear_down(&c, &r);
        set_up(&c, &r, 0);
        EXPECT_OK(run_donated(m, &r, &zero, 1, stays));
        expect_results(&c, &r, stays);
        if (stays) EXPECT_INT(hn_tensor_data(r.outputs[0]) == (void *)(uintptr_t)r.a, takes);
        expect_ramp(&c, (void *)(uintptr_t)r.a, takes ? 2 : 1, 0);
        tear_down(&c, &r);
        set_up(&c, &r, 4); /* kernels want other alignment: it is copied, and the copy is taken */
        EXPECT_OK(run_donated(m, &r, &zero, 1, stays));
        expect_results(&c, &r, stays);
        expect_ramp(&c, (void *)(uintptr_t)(r.a + 4), 1, 0);
        tear_down(&c, &r);
        hn_module_release(m);
    }
    end(&c, NULL);
}

/* What a run has copied to the device is its own: results may take it without leave. */
TEST(copies_of_inputs_are_taken) {
    caller c;
    float a[N], b[N];
    hn_context *context;
    if (!begin(&c)) return;
    for (int i = 0; i < N; i++) a[i] = b[i] = (float)i;
    hn_module *m = load(donating, HN_POOL_INTERMEDIATES, true);
    hn_tensor *in[2] = {F32(a, N), F32(b, N)}, *out[2] = {NULL};
    if (!m) return;
    EXPECT_OK(hn_module_run(m, in, 2, out, 2));
    for (int i = 0; i < N; i++) EXPECT(((float *)hn_tensor_data(out[0]))[i] == 2 * (float)i);
    EXPECT_OK(hn_context_take(m, &context));
    EXPECT_INT((int)m->view.buffers[m->output_buffers[0]].kind, HNB_BUFFER_POOL);
    EXPECT(context->io[2] == context->remote[m->output_buffer_count].memory); /* pool, copy of a */
    EXPECT(!context->remote[0].memory); /* the pool has no memory of its own */
    hn_context_give(m, context);
    for (int k = 0; k < 2; k++) hn_tensor_release(in[k]), hn_tensor_release(out[k]);
    end(&c, m);
}

TEST(wrong_donations_are_refused) {
    static const uint32_t zero = 0;
    caller c;
    donated_run r;
    if (!begin(&c)) return;
    hn_module *m = load(donating, HN_POOL_COMBINED, true);
    if (!m) return;
    set_up(&c, &r, 0);
    hn_tensor_release(r.inputs[1]);
    r.inputs[1] = hn_tensor_retain(r.inputs[0]);
    EXPECT_ERROR(run_donated(m, &r, &zero, 1, true), HN_INVALID_ARGUMENT, "has the same memory");
    expect_ramp(&c, (void *)(uintptr_t)r.a, 1, 0);
    EXPECT_OK(run_donated(m, &r, NULL, 0, true));
    expect_ramp(&c, (void *)(uintptr_t)r.a, 1, 0);
    tear_down(&c, &r);
    end(&c, m);
}

/* An output in the memory of an input holds the input, and its bytes come from there. */
TEST(an_output_keeps_the_input_on_the_device) {
    static const uint32_t zero = 0;
    caller c;
    float x[N];
    if (!begin(&c)) return;
    for (int i = 0; i < N; i++) x[i] = (float)i;
    hn_module *first = load(three_outputs, HN_POOL_INTERMEDIATES, false);
    hn_module *m = load(donating, HN_POOL_INTERMEDIATES, true);
    hn_tensor *in = F32(x, N), *between[3] = {NULL}, *out[2] = {NULL};
    const hn_run_options options = {.donated = &zero, .donated_count = 1, .device_outputs = true};
    if (!first || !m) return;
    EXPECT_OK(hn_module_run_with(first, &stay, &in, 1, between, 3));
    hn_module_release(first);
    const void *at = hn_tensor_data(between[0]);
    EXPECT_OK(hn_module_run_with(m, &options, between, 2, out, 2));
    for (uint32_t i = 0; i < 3; i++) hn_tensor_release(between[i]);
    EXPECT(hn_tensor_data(out[0]) == at);
    expect_ramp(&c, hn_tensor_data(out[0]), 4, 0);
    expect_ramp(&c, hn_tensor_data(out[1]), 12, 0);
    hn_tensor_release(in), hn_tensor_release(out[0]), hn_tensor_release(out[1]);
    end(&c, m);
}

/* The input's memory comes from a run without a stream; the result, which lies there, is released
 * while work of the caller's stream reads it. */
TEST(memory_of_a_donated_input_is_used_again_behind_the_callers_work) {
    static const uint32_t zero = 0;
    caller c;
    float x[N], other[N], y[N] = {0};
    if (!begin(&c)) return;
    for (int i = 0; i < N; i++) x[i] = (float)i, other[i] = (float)-i;
    hn_module *first = load(three_outputs, HN_POOL_INTERMEDIATES, false);
    hn_module *m = load(donating, HN_POOL_INTERMEDIATES, true);
    hn_tensor *in = F32(x, N), *next = F32(other, N), *between[3] = {NULL}, *out[2] = {NULL};
    const hn_run_options options = {.donated = &zero,
                                    .donated_count = 1,
                                    .device_outputs = true,
                                    .has_stream = true,
                                    .stream = c.stream};
    const hn_cuda_address copy = take(&c, BYTES);
    if (!first || !m) return;
    EXPECT_OK(hn_module_run_with(first, &stay, &in, 1, between, 3));
    EXPECT_OK(hn_module_run_with(m, &options, between, 2, out, 2));
    EXPECT(hn_tensor_data(out[0]) == hn_tensor_data(between[0]));
    EXPECT_INT(c.cuda.cuMemcpyDtoDAsync(copy, (uintptr_t)hn_tensor_data(out[0]), BYTES, c.stream),
               0);
    for (uint32_t i = 0; i < 3; i++) hn_tensor_release(between[i]), between[i] = NULL;
    hn_tensor_release(out[0]), hn_tensor_release(out[1]);
    EXPECT_OK(hn_module_run_with(first, &stay, &next, 1, between, 3));
    get(&c, y, copy, BYTES);
    for (int i = 0; i < N; i++) EXPECT(y[i] == 4 * x[i]);
    for (uint32_t i = 0; i < 3; i++) hn_tensor_release(between[i]);
    hn_tensor_release(in), hn_tensor_release(next);
    (void)c.cuda.cuMemFree(copy);
    hn_module_release(first);
    end(&c, m);
}

/* Work of that stream may use other outputs of the same block. */
TEST(memory_of_another_stream_is_not_taken) {
    static const uint32_t zero = 0;
    caller c;
    float x[N];
    hn_cuda_stream other = NULL;
    if (!begin(&c)) return;
    for (int i = 0; i < N; i++) x[i] = (float)i;
    hn_module *first = load(three_outputs, HN_POOL_INTERMEDIATES, false);
    hn_module *m = load(donating, HN_POOL_INTERMEDIATES, true);
    if (!first || !m) return;
    EXPECT_INT(c.cuda.cuStreamCreate(&other, 1), 0);
    const hn_run_options there = {.device_outputs = true, .has_stream = true, .stream = other};
    for (int same = 0; same < 2; same++) {
        hn_tensor *in = F32(x, N), *between[3] = {NULL}, *out[2] = {NULL};
        const hn_run_options options = {.donated = &zero,
                                        .donated_count = 1,
                                        .device_outputs = true,
                                        .has_stream = true,
                                        .stream = same ? other : c.stream};
        EXPECT_OK(hn_module_run_with(first, &there, &in, 1, between, 3));
        EXPECT_INT(c.cuda.cuStreamSynchronize(other), 0);
        EXPECT_OK(hn_module_run_with(m, &options, between, 2, out, 2));
        EXPECT_INT(hn_tensor_data(out[0]) == hn_tensor_data(between[0]), same);
        EXPECT_INT(c.cuda.cuStreamSynchronize(options.stream), 0);
        expect_ramp(&c, hn_tensor_data(out[0]), 4, 0);
        for (uint32_t i = 0; i < 3; i++) hn_tensor_release(between[i]);
        hn_tensor_release(in), hn_tensor_release(out[0]), hn_tensor_release(out[1]);
    }
    EXPECT_INT(c.cuda.cuStreamDestroy(other), 0);
    hn_module_release(first);
    end(&c, m);
}

TEST_MAIN
