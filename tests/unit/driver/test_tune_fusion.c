/* test_tune_fusion.c: loops that share a kernel race against kernels of their own; what is faster
 * apart is apart, also in later compilations that know it, and results are the same. Times are told
 * (told.h), but where a test says otherwise. */
#include "driver/fusion.h"
#include "henry/log.h"
#include "henry/module.h"
#include "ir/interp.h"
#include "support/module_run.h"
#include "unit/driver/told.h"

#include <stdlib.h>
#include <unistd.h>

/* Rows are normalised by their largest element, then by their sum. */
static const char model[] = "input user %x : f32[33, 70] \"x\"\n "
                            "%m = amax(%x, dims=[1], keepdim=true) at \"largest\" \"m.py:1\"\n "
                            "%d = div(%x, %m) at \"scaled\" \"m.py:2\"\n "
                            "%s = sum(%d, dims=[1], keepdim=true) at \"total\" \"m.py:3\"\n "
                            "%y = div(%d, %s) at \"norm\" \"m.py:4\"\n output user %y \"y\"";

static double by_name(const told *t, const hn_timed_form *what) {
    const bool is_apart = hn_str_eq(what->form->name, HN_STR("apart"));
    const bool is_faster = is_apart == (t->chosen == HN_FUSION_APART);
    return is_faster ? 10000 : 20000;
}

static double told_ns(const told *t, uint32_t form, const hn_timed_form *what) {
    (void)form;
    const bool is_fusion = hn_str_eq(what->form->name, HN_STR("apart")) ||
                           hn_str_eq(what->form->name, HN_STR("fused"));
    return is_fusion ? by_name(t, what) : 10000;
}

static void tune(told_graph *x, told *t, const hn_compile_options *more) {
    hn_compile_options options = *more;
    options.threads = 1;
    options.tune = HN_TUNE_MISSING;
    options.tune_budget_ns = INT64_C(1000000000000);
    told_graph_begin(x, model, "");
    EXPECT_OK(told_graph_tune(x, &options, t));
}

static uint32_t kernels_of(const told_graph *x) {
    uint32_t count = 0;
    for (uint32_t k = 0; k < x->d.schedule.steps.count; k++)
        count += x->d.schedule.steps.items[k].kind == HN_STEP_KERNEL;
    return count;
}

/* A text of records as a file, whose name goes to `path`. */
static void write_records(const hn_tune_report *report, char path[64]) {
    snprintf(path, 64, "/tmp/henry_fusion_XXXXXX");
    const int fd = mkstemp(path);
    EXPECT(fd >= 0 &&
           write(fd, report->records, report->records_len) == (ssize_t)report->records_len);
    close(fd);
}

/* The program of these options computes what the interpreter does. How many steps it has. */
static uint32_t check_program(const hn_compile_options *options) {
    told_graph x;
    hn_sym *sym;
    hn_graph *plain;
    hn_strbuf text;
    hn_compiled *compiled = NULL;
    hn_module *module = NULL;
    hn_ref_tensor input, got, want;
    hn_strbuf_init(&text);
    told_graph_begin(&x, model, "");
    hn_strbuf_printf(&text, "graph {\n%s\n}\n", model);
    EXPECT_OK(hn_sym_create(&x.arena, &sym));
    EXPECT_OK(hn_graph_parse(&x.arena, sym, hn_strbuf_str(&text), &plain));
    EXPECT_OK(hn_compile_graph(x.graph, x.service, options, &compiled));
    EXPECT_OK(hn_compiled_load(compiled, &(hn_module_options){.threads = 1}, &module));
    EXPECT_OK(hn_ref_tensor_init(&x.arena, HN_DTYPE_F32, 2, (int64_t[]){33, 70}, &input));
    for (int64_t k = 0; k < input.numel; k++) input.data.f[k] = 1 + (double)(k * 37 % 101) / 64;
    EXPECT_OK(hn_test_module_run(&x.arena, module, &input, 1, &got, 1));
    EXPECT_OK(hn_interpret(&x.arena, plain, &input, 1, &want));
    hn_strbuf_reset(&text);
    if (!hn_ref_compare(&got, &want, 1e-5, 1e-6, &text)) HN_TEST_FAIL("%s", text.ptr);
    const uint32_t steps = module ? hn_module_step_count(module) : 0;
    hn_module_release(module);
    hn_compiled_release(compiled);
    hn_strbuf_deinit(&text);
    hn_graph_deinit(plain);
    told_graph_end(&x);
    return steps;
}

/* ---- tests ---- */

TEST(what_is_faster_apart_is_apart) {
    told t = {.ns = told_ns, .chosen = HN_FUSION_APART};
    told_graph x;
    char path[64];
    tune(&x, &t, &(hn_compile_options){.tune_fusion = true});
    EXPECT(kernels_of(&x) > 1);
    EXPECT(x.d.tuned->fusion_count > 0);
    for (uint32_t k = 0; k < x.d.tuned->fusion_count; k++) {
        const hn_tuned_fusion *f = &x.d.tuned->fusions[k];
        EXPECT(f->is_apart && f->was_timed && f->fused_ns > f->apart_ns);
    }
    write_records(x.d.tuned, path);
    EXPECT_INT(check_program(&(hn_compile_options){.threads = 1, .tuning = path}), kernels_of(&x));
    EXPECT_INT(check_program(&(hn_compile_options){.threads = 1, .tuning = ""}), 1);
    /* another device has made no such records */
    EXPECT_INT(check_program(&(hn_compile_options){.threads = 2, .tuning = path}), 1);
    unlink(path);
    told_graph_end(&x);
}

TEST(what_is_faster_together_stays) {
    told t = {.ns = told_ns, .chosen = HN_FUSION_FUSED};
    told_graph x;
    char path[64];
    tune(&x, &t, &(hn_compile_options){.tune_fusion = true});
    EXPECT_INT(kernels_of(&x), 1);
    EXPECT(x.d.tuned->fusion_count > 0);
    for (uint32_t k = 0; k < x.d.tuned->fusion_count; k++) EXPECT(!x.d.tuned->fusions[k].is_apart);
    write_records(x.d.tuned, path);
    EXPECT_INT(check_program(&(hn_compile_options){.threads = 1, .tuning = path}), 1);
    unlink(path);
    told_graph_end(&x);
}

/* What is known is not asked for again, unless everything is to be timed. */
TEST(what_is_known_is_not_timed_again) {
    told t = {.ns = told_ns, .chosen = HN_FUSION_APART};
    told_graph x, y;
    char path[64];
    tune(&x, &t, &(hn_compile_options){.tune_fusion = true});
    write_records(x.d.tuned, path);
    const uint32_t kernels = kernels_of(&x), fusions = x.d.tuned->fusion_count;
    t.asked = 0;
    tune(&y, &t, &(hn_compile_options){.tune_fusion = true, .tuning = path});
    EXPECT_INT(t.asked, 0);
    EXPECT_INT(kernels_of(&y), kernels);
    EXPECT_INT(y.d.tuned->fusion_count, fusions);
    EXPECT(fusions && !y.d.tuned->fusions[0].was_timed);
    unlink(path);
    told_graph_end(&y), told_graph_end(&x);
}

TEST(without_the_option_no_fusion_is_timed) {
    told t = {.ns = told_ns, .chosen = HN_FUSION_APART};
    told_graph x;
    tune(&x, &t, &(hn_compile_options){.tune_fusion = false});
    EXPECT_INT(kernels_of(&x), 1);
    EXPECT_INT(x.d.tuned->fusion_count, 0);
    for (uint32_t k = 0; k < t.form_count; k++) EXPECT(!strstr(t.forms[k], "apart"));
    told_graph_end(&x);
}

/* Kernels really race, on this machine. */
TEST(kernels_are_timed) {
    const hn_compile_options options = {.threads = 1,
                                        .tune = HN_TUNE_MISSING,
                                        .tune_fusion = true,
                                        .tune_budget_ns = INT64_C(4000000000)};
    told_graph x;
    told_graph_begin(&x, model, "");
    hn_driver_init(&x.d, &options, x.service);
    x.d.sym = x.sym;
    x.d.graph = x.graph;
    EXPECT_OK(hn_driver_targets(&x.d));
    EXPECT_OK(hn_driver_passes(&x.d));
    EXPECT_OK(hn_driver_kernels(&x.d));
    const hn_tune_report *r = x.d.tuned;
    EXPECT(r->fusion_count > 0);
    for (uint32_t k = 0; k < r->fusion_count; k++)
        EXPECT(r->fusions[k].fused_ns > 0 && r->fusions[k].apart_ns > 0);
    told_graph_end(&x);
}

TEST_MAIN
