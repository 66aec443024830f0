/* test_cuda_check.c: the debugger's check on a GPU: the host waits once a run, or once for so many
 * tensors, not behind each; and what is found has its kernel, tensor, index and node. With the
 * stand-in for the driver, which counts. Skipped without NVRTC, which compiles the statistics. */
#include "unit/runtime/cuda_caller.h"

#include "base/nvrtc.h"

static bool has_compiler(void) {
    char path[PATH_MAX];
    hn_status status = hn_nvrtc_find(path);
    const bool has = !status;
    if (status) fprintf(stderr, "skipped: %s\n", hn_status_message(status));
    hn_status_free(status);
    return has;
}

/* y = 2^calls * x, a kernel for each factor. */
static hn_module *load_chain(uint32_t calls) {
    hn_strbuf text;
    hn_strbuf_init(&text);
    hn_strbuf_puts(&text, "buffer b1 : input f32[4] source 0 name \"x\" ");
    for (uint32_t k = 2; k <= calls; k++)
        hn_strbuf_printf(&text, "buffer b%u : temp f32[4] bytes(16) ", k);
    hn_strbuf_printf(&text,
                     "buffer b%u : output f32[4] bytes(16) " KERNELS
                     "input \"x\" : f32[4] strides [1] in b1 ",
                     calls + 1);
    for (uint32_t k = 1; k <= calls; k++)
        hn_strbuf_printf(&text, "call k4(b%u f32, out b%u f32) extent(4) origin 1 ", k, k + 1);
    hn_strbuf_printf(&text, "output tensor \"y\" : f32[4] strides [1] in b%u", calls + 1);
    hn_module *m = load_text(text.ptr, NULL);
    hn_strbuf_deinit(&text);
    return m;
}

static hn_status run_once(hn_module *m, float *x) {
    hn_tensor *in = F32(x, 4), *out = NULL;
    hn_status status = hn_module_run(m, &in, 1, &out, 1);
    hn_tensor_release(in);
    hn_tensor_release(out);
    return status;
}

/* Of the fourth run: the first ones load and allocate. */
static long count_waits(const caller *c, hn_module *m) {
    float x[4] = {0, 0, 0, 0};
    long before = 0;
    for (int k = 0; k < 4; k++) {
        before = c->standin->waits;
        EXPECT_OK(run_once(m, x));
    }
    return c->standin->waits - before;
}

static hn_debug *attach(hn_module *m, hn_debug_options options) {
    hn_debug *d = NULL;
    options.level = HN_DEBUG_CHECK;
    EXPECT_OK(hn_debug_attach(m, &options, &d));
    return d;
}

TEST(the_host_waits_once_for_many_tensors) {
    static const struct {
        uint32_t calls;
        long more; /* waits than without the check */
    } rows[] = {{1, 1}, {2, 1}, {10, 1}, {200, 1}, {300, 2}, {600, 3}};
    if (!has_compiler()) return;
    for (size_t k = 0; k < HN_COUNT_OF(rows); k++) {
        caller c;
        if (!begin(&c)) return;
        hn_module *m = load_chain(rows[k].calls);
        if (!m) return;
        const long plain = count_waits(&c, m);
        hn_debug *d = attach(m, (hn_debug_options){.ignore_inf = false});
        EXPECT_INT(count_waits(&c, m), plain + rows[k].more);
        hn_debug_detach(d);
        EXPECT_INT(count_waits(&c, m), plain);
        end(&c, m);
    }
}

/* Another hook wants to see the results of each step. */
static hn_status see(void *user, const hn_step_info *step, uint64_t *note) {
    (void)step, (void)note;
    ++*(int *)user;
    return NULL;
}

TEST(another_hook_still_finds_a_device_that_has_ended) {
    caller c;
    int seen = 0;
    if (!has_compiler() || !begin(&c)) return;
    hn_module *m = load_chain(10);
    if (!m) return;
    const long plain = count_waits(&c, m);
    attach(m, (hn_debug_options){.ignore_inf = false});
    EXPECT_OK(hn_module_hook_add(m, &(hn_step_hook){.after = see, .user = &seen}));
    EXPECT(count_waits(&c, m) >= plain + 10);
    EXPECT(seen > 0);
    EXPECT_OK(hn_module_hook_remove(m, &(hn_step_hook){.after = see, .user = &seen}));
    EXPECT_INT(count_waits(&c, m), plain + 1);
    end(&c, m);
}

/* The sentence has all parts, and names its node once, wherever the batch was read. */
static void expect_found(hn_module *m, float *x, const char *step, const char *rest) {
    hn_status status = run_once(m, x);
    const char *text = status ? hn_status_message(status) : "nothing was found";
    const char *node = strstr(text, "node 'node_one' (model.py:12): 'scale2' (step ");
    if (!node || strstr(node + 1, "node '") || !strstr(text, step) || !strstr(text, rest))
        HN_TEST_FAIL("expected '%s' and '%s', got: %s", step, rest, text);
    EXPECT_INT(hn_status_code(status), HN_INVALID_ARGUMENT);
    hn_status_free(status);
}

TEST(what_is_found_has_kernel_tensor_index_and_node) {
    for (uint32_t calls = 4; calls <= 400; calls *= 10) {
        caller c;
        float x[4] = {1e-30f, 0, 1e38f, 0}, good[4] = {0, 0, 0, 0};
        if (!has_compiler() || !begin(&c)) return;
        hn_module *m = load_chain(calls);
        if (!m) return;
        hn_debug *d = attach(m, (hn_debug_options){.ignore_inf = false});
        EXPECT_OK(run_once(m, good));
        expect_found(m, x, " of call 2) has written inf to b3 at [2]",
                     "of 4 elements (f32) 0 are NaN and 1 infinite");
        x[1] = NAN;
        expect_found(m, x, " of call 3) is given nan in b1 'x' at [1]",
                     "of 4 elements (f32) 1 are NaN and 0 infinite");
        EXPECT_OK(run_once(m, good)); /* nothing is left of the runs that failed */
        hn_debug_detach(d);
        /* of the two, one is looked for: the first of its kind is told */
        d = attach(m, (hn_debug_options){.ignore_inf = true});
        x[0] = INFINITY;
        expect_found(m, x, "is given nan in b1 'x' at [1]", "1 are NaN and 1 infinite");
        hn_debug_detach(d);
        d = attach(m, (hn_debug_options){.ignore_nan = true});
        x[0] = NAN;
        expect_found(m, x, "has written inf to b3 at [2]", "2 are NaN and 1 infinite");
        x[2] = 0;
        EXPECT_OK(run_once(m, x));
        end(&c, m);
    }
}

TEST_MAIN
