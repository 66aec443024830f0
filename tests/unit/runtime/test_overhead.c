/* test_overhead.c: what the runtime costs above its kernels. Prints nanoseconds; fails only when
 * they are so many that something is broken, because machines and builds differ. */
#include "unit/runtime/module_fixture.h"

#include "base/trace.h"

enum { STEPS = 1000, ROUNDS = 200 };

/* The best of some rounds of one call, in ns. */
static int64_t best_call(hn_module *m, hn_tensor **in, uint32_t inputs) {
    int64_t best = INT64_MAX;
    for (int round = 0; round < ROUNDS; round++) {
        hn_tensor *out[1] = {NULL};
        int64_t begin = hn_now_ns();
        EXPECT_OK(hn_module_run(m, in, inputs, out, 1));
        int64_t ns = hn_now_ns() - begin;
        if (ns < best) best = ns;
        hn_tensor_release(out[0]);
    }
    return best;
}

static hn_module *load_chain(int steps, const char *call, const hn_module_options *options) {
    hn_strbuf text;
    hn_strbuf_init(&text);
    hn_strbuf_puts(
        &text,
        "symbol size s0 in [1, none] buffer b1 : input f32[s0] source 0 buffer b2 : temp f32[16*s0] bytes(64*s0) "
        "buffer b3 : output f32[s0] bytes(4*s0) " KERNELS
        "input \"x\" : f32[s0] strides [1] in b1 ");
    for (int i = 0; i < steps; i++) hn_strbuf_puts(&text, call);
    hn_strbuf_puts(
        &text,
        "call k6(b1 f32, out b3 f32) extent(1) output tensor \"z\" : f32[s0] strides [1] in b3");
    hn_module *m = load_text(text.ptr, options);
    hn_strbuf_deinit(&text);
    return m;
}

TEST(step_overhead) {
    float x[8] = {0};
    hn_tensor *in[1] = {F32(x, 8)};
    static const char call[] = "call k6(b1 f32, out b2 f32 at(s0)) params [s0, 3*s0] extent(s0) ";
    hn_module *none = load_chain(0, call, NULL), *many = load_chain(STEPS, call, NULL);
    int64_t base = best_call(none, in, 1), all = best_call(many, in, 1);
    printf("call of 1 step: %lld ns; each further step: %.1f ns\n", (long long)base,
           (double)(all - base) / STEPS);
    EXPECT(base < 100000);
    EXPECT(all < STEPS * 2000);
    hn_module_release(none), hn_module_release(many);
    hn_tensor_release(in[0]);
}

TEST(rebinding_overhead) {
    float x[64] = {0};
    hn_module *m =
        load_chain(STEPS, "call k6(b1 f32, out b2 f32 at(s0)) params [s0, 3*s0] extent(s0) ", NULL);
    int64_t begin = hn_now_ns();
    for (int64_t n = 1; n <= 64; n++) {
        hn_tensor *in[1] = {F32(x, n)}, *out[1] = {NULL};
        EXPECT_OK(hn_module_run(m, in, 1, out, 1));
        hn_tensor_release(in[0]), hn_tensor_release(out[0]);
    }
    printf("call of %d steps with new sizes: %lld ns\n", STEPS,
           (long long)(hn_now_ns() - begin) / 64);
    hn_module_release(m);
}

TEST(parallel_overhead) {
    float x[8] = {0};
    hn_tensor *in[1] = {F32(x, 8)};
    hn_module *m = load_chain(STEPS, "call k6(b1 f32, out b2 f32) extent(8) grain 1 ",
                              &(hn_module_options){.threads = 2});
    printf("parallel step on 2 threads: %.1f ns\n", (double)best_call(m, in, 1) / STEPS);
    hn_module_release(m);
    hn_tensor_release(in[0]);
}

TEST_MAIN
