/* test_cuda_calls.c: the calls of CUDA's driver that a run with known sizes makes, one after the
 * other: launches, what copies there have to be, and one wait. Each is host time of every run. With
 * the stand-in for the driver, which keeps a list. */
#include "unit/runtime/cuda_caller.h"

/* The list since it was set to be empty, without the suffixes of versions. */
static const char *list_calls(const cuda_standin *s) {
    static char text[2048];
    size_t at = 0;
    text[0] = 0;
    for (long k = 0; k < s->logged && k < CUDA_STANDIN_LOG; k++) {
        const char *name = s->log[k];
        const char *version = strstr(name, "_v2");
        at += (size_t)snprintf(text + at, sizeof text - at, "%s%.*s", k ? " " : "",
                               version ? (int)(version - name) : (int)strlen(name), name);
    }
    return text;
}

/* The calls of the fourth run with the same sizes: the first three load, allocate and record. */
static void expect_calls(const caller *c, hn_module *m, const hn_run_options *options,
                         hn_tensor *in, hn_tensor *out, const char *wanted) {
    for (int k = 0; k < 4; k++) {
        hn_tensor *outputs[1] = {out};
        c->standin->logged = 0;
        EXPECT_OK(hn_module_run_with(m, options, &in, 1, outputs, 1));
        if (k == 3) EXPECT_STR(list_calls(c->standin), wanted);
        if (!out) hn_tensor_release(outputs[0]);
    }
}

#define TWO_LAUNCHES "cuLaunchKernel cuLaunchKernel "
#define WAIT         "cuStreamSynchronize"

static void check_calls(bool has_graphs, const char *launches) {
    caller c;
    float x[4] = {1, 2, 3, 4}, y[4];
    char wanted[512];
    if (!begin(&c)) return;
    hn_module *m = load_text(SCALED, &(hn_module_options){.device_graphs = has_graphs});
    if (!m) return;
    const hn_cuda_address a = take(&c, 16), b = take(&c, 16);
    hn_tensor *in = there(a, 4, 1, 0), *out = there(b, 4, 1, 0), *from = F32(x, 4), *to = F32(y, 4);
    const hn_run_options plain = {.threads = 0}, stay = {.device_outputs = true},
                         ordered = {.has_stream = true, .stream = c.stream};
    /* tensors on the device: nothing is copied, and outputs are made without asking for memory */
    snprintf(wanted, sizeof wanted, "cuCtxGetCurrent %s" WAIT, launches);
    expect_calls(&c, m, &plain, in, out, wanted);
    expect_calls(&c, m, &stay, in, NULL, wanted);
    /* tensors on the host: a copy each */
    snprintf(wanted, sizeof wanted, "cuCtxGetCurrent cuMemcpyHtoDAsync %scuMemcpyDtoHAsync " WAIT,
             launches);
    expect_calls(&c, m, &plain, from, to, wanted);
    expect_calls(&c, m, &plain, from, NULL, wanted);
    /* behind work of the caller's; what the caller does next is behind the wait */
    snprintf(wanted, sizeof wanted, "cuCtxGetCurrent cuEventRecord cuStreamWaitEvent %s" WAIT,
             launches);
    expect_calls(&c, m, &ordered, in, out, wanted);
    /* in a thread that has no context: it is pushed once, and popped */
    hn_cuda_context own = NULL;
    EXPECT_INT(c.cuda.cuCtxPopCurrent(&own), 0);
    snprintf(wanted, sizeof wanted, "cuCtxGetCurrent cuCtxPushCurrent %s" WAIT " cuCtxPopCurrent",
             launches);
    expect_calls(&c, m, &plain, in, out, wanted);
    EXPECT_INT(c.cuda.cuCtxPushCurrent(own), 0);
    hn_tensor_release(in), hn_tensor_release(out), hn_tensor_release(from), hn_tensor_release(to);
    (void)c.cuda.cuMemFree(a), (void)c.cuda.cuMemFree(b);
    end(&c, m);
}

TEST(calls_of_a_run) { check_calls(false, TWO_LAUNCHES); }
TEST(calls_of_a_run_with_a_graph) { check_calls(true, "cuGraphLaunch "); }

/* Addresses of launches are laid out once for known sizes; what becomes empty, or is empty no longer,
 * is laid out anew. */
#define MAYBE_EMPTY                                                                                             \
    "symbol size s0 in [0, 64] hint 4 buffer b1 : input f32[s0] source 0 buffer b2 : temp f32[s0] bytes(4*s0) " \
    "buffer b3 : output f32[4] bytes(16) " KERNELS "input \"x\" : f32[s0] strides [1] in b1 "                   \
    "call k4(b1 f32, out b2 f32) extent(s0) call k6(b2 f32, out b3 f32) extent(4) output tensor \"y\" : f32[4] strides [1] in b3"

TEST(memory_that_is_empty_at_times) {
    caller c;
    float x[64] = {1, 2, 3};
    if (!begin(&c)) return;
    hn_module *m = load_text(MAYBE_EMPTY, NULL);
    if (!m) return;
    static const int64_t sizes[] = {0, 4, 0, 64, 0, 4, 64};
    for (int k = 0; k < 7; k++) {
        hn_tensor *in = F32(x, sizes[k]), *out = NULL;
        EXPECT_OK(hn_module_run(m, &in, 1, &out, 1));
        hn_tensor_release(in), hn_tensor_release(out);
    }
    end(&c, m);
}

TEST_MAIN
