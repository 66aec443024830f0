/* debug_fixture.h: what tests of the tensor debugger share: a sink, a program, counting. */
#ifndef HN_TESTS_DEBUG_FIXTURE_H
#define HN_TESTS_DEBUG_FIXTURE_H

#include "unit/runtime/module_fixture.h"

#include <dirent.h>

/* ---- a sink that writes down what it gets, without numbers of buffers ---- */

typedef struct heard {
    hn_strbuf text;
    uint32_t lines;
    bool has_stats, refuses;
} heard;

static hn_status hear(void *user, const hn_debug_event *e) {
    static const char *const whens[] = {"input", "before", "after"};
    heard *h = user;
    h->lines++;
    hn_strbuf_printf(&h->text, "%llu %s", (unsigned long long)e->call, whens[e->when]);
    if (e->when != HN_DEBUG_INPUT) hn_strbuf_printf(&h->text, " %s", e->step->name);
    if (e->tensor) {
        hn_strbuf_printf(&h->text, " %s %s", *e->tensor->name ? e->tensor->name : "-",
                         hn_scalar_type_name(e->tensor->type));
        if (e->tensor->is_partial) hn_strbuf_puts(&h->text, " partial");
    }
    if (e->stats)
        hn_strbuf_printf(&h->text, " %lld: %g to %g", (long long)e->stats->count, e->stats->min,
                         e->stats->max);
    if (e->file) hn_strbuf_printf(&h->text, " %s", e->file);
    hn_strbuf_puts(&h->text, "\n");
    EXPECT(e->line && !strchr(e->line, '\n'));
    return h->refuses ? HN_ERROR(HN_IO, "enough") : NULL;
}

HN_UNUSED static hn_debug *listen(hn_module *m, hn_debug_options options, heard *h) {
    hn_debug *d = NULL;
    hn_strbuf_init(&h->text);
    options.sink = hear;
    options.user = h;
    EXPECT_OK(hn_debug_attach(m, &options, &d));
    return d;
}

HN_UNUSED static void expect_heard(heard *h, const char *expected) {
    EXPECT_STR(h->text.ptr ? h->text.ptr : "", expected);
    hn_strbuf_deinit(&h->text);
    hn_strbuf_init(&h->text);
}

/* On a device that is not the host there are copies, too; kernels are enough for these tests. */
HN_UNUSED static const char any_kernel[] = "scale2|exps|add|nothing|matmul|row_sum";

HN_UNUSED static const char *const scaled =
    "symbol size s0 in [0, none] buffer b1 : input f32[s0, 4] source 0 name \"x\" "
    "buffer b2 : temp f32[s0, 4] bytes(16*s0) buffer b3 : output f32[s0, 4] bytes(16*s0) " KERNELS
    "input \"x\" : f32[s0, 4] strides [4, 1] in b1 call k4(b1 f32, out b2 f32) extent(4*s0) origin 1 "
    "call k5(b2 f32, out b3 f32) extent(4*s0) origin 1 "
    "output tensor \"y\" : f32[s0, 4] strides [4, 1] in b3";

HN_UNUSED static hn_status run_with(hn_module *m, hn_tensor **in, uint32_t count) {
    hn_tensor *out[1] = {NULL};
    hn_status status = hn_module_run(m, in, count, out, 1);
    hn_tensor_release(out[0]);
    return status;
}

/* Runs `scaled` on two rows. */
HN_UNUSED static hn_status run_scaled(hn_module *m, float *x) {
    hn_tensor *in[1] = {F32(x, 2, 4)};
    hn_status status = run_with(m, in, 1);
    hn_tensor_release(in[0]);
    return status;
}

/* ---- files ---- */

HN_UNUSED static uint32_t count_files(const char *path, const char *suffix) {
    DIR *dir = opendir(path);
    uint32_t count = 0;
    EXPECT(dir);
    for (struct dirent *e; dir && (e = readdir(dir));) {
        const size_t len = strlen(e->d_name), tail = strlen(suffix);
        count += len > tail && strcmp(e->d_name + len - tail, suffix) == 0;
    }
    if (dir) closedir(dir);
    return count;
}

HN_UNUSED static uint32_t count_in(const char *text, const char *what) {
    uint32_t count = 0;
    for (const char *at = text; (at = strstr(at, what)); at++) count++;
    return count;
}

#endif
