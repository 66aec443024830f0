/* test_call_forms.c: products, convolutions and attention are tuned as kernels are: their forms
 * race, records say which one a program asks for at which sizes, and whichever it is, the results
 * are right. Times are told (told.h). */
#include "bundle/view.h"
#include "driver/call_forms.h"
#include "henry/module.h"
#include "support/module_run.h"
#include "unit/driver/told.h"

#include <math.h>
#include <stdlib.h>
#include <unistd.h>

/* A product of any number of rows by a matrix that is no constant. */
static const char product[] =
    "symbol size s0 in [1, 4096] hint 8\n input user %x : f32[s0, 64] \"x\"\n input user %w : "
    "f32[64, 48] \"w\"\n %y = aten.mm.default(%x, %w) : f32[s0, 48] at \"total\" \"m.py:1\"\n "
    "output user %y \"y\"";

static void tune(told_graph *x, const char *statements, told *t, const hn_compile_options *more) {
    hn_compile_options options = *more;
    options.tune = HN_TUNE_MISSING;
    options.tune_budget_ns = INT64_C(1000000000000);
    told_graph_begin(x, statements, "");
    EXPECT_OK(told_graph_tune(x, &options, t));
}

/* ---- what runs ---- */

typedef struct seen {
    char form[HN_EXT_FORM_TEXT];
    uint32_t variant_count;
} seen;

static hn_status note_form(void *user, const hn_step_info *step, uint64_t *note) {
    seen *s = user;
    (void)note;
    if (step->kind != HN_MODULE_STEP_EXTERN) return NULL;
    snprintf(s->form, sizeof s->form, "%s", step->form);
    s->variant_count = step->variant_count;
    return NULL;
}

static void fill(hn_ref_tensor *t, int64_t step) {
    for (int64_t k = 0; k < t->numel; k++) t->data.f[k] = (double)(k * step % 101) / 64 - 0.75;
}

static void check_product(const hn_ref_tensor *in, const hn_ref_tensor *got, int64_t rows) {
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < 48; j++) {
            double sum = 0;
            for (int64_t k = 0; k < 64; k++)
                sum += in[0].data.f[i * 64 + k] * in[1].data.f[k * 48 + j];
            if (fabs(got->data.f[i * 48 + j] - sum) <= 1e-4) continue;
            HN_TEST_FAIL("%lld rows: element %lld, %lld is %g, not %g", (long long)rows,
                         (long long)i, (long long)j, got->data.f[i * 48 + j], sum);
            return;
        }
}

/* Results at so many rows; the form that the call had. */
static void check_at(hn_module *m, int64_t rows, const char *form) {
    hn_arena arena;
    hn_ref_tensor in[2], got;
    seen s = {.form = "?"};
    const hn_step_hook hook = {.before = note_form, .user = &s};
    hn_arena_init(&arena);
    EXPECT_OK(hn_ref_tensor_init(&arena, HN_DTYPE_F32, 2, (int64_t[]){rows, 64}, &in[0]));
    EXPECT_OK(hn_ref_tensor_init(&arena, HN_DTYPE_F32, 2, (int64_t[]){64, 48}, &in[1]));
    fill(&in[0], 37), fill(&in[1], 53);
    EXPECT_OK(hn_module_hook_add(m, &hook));
    EXPECT_OK(hn_test_module_run(&arena, m, in, 2, &got, 1));
    EXPECT_OK(hn_module_hook_remove(m, &hook));
    check_product(in, &got, rows);
    EXPECT_STR(s.form, form);
    hn_arena_deinit(&arena);
}

static hn_module *load_with(told_graph *x, const char *statements,
                            const hn_compile_options *options) {
    hn_compiled *compiled = NULL;
    hn_module *module = NULL;
    told_graph_begin(x, statements, "");
    EXPECT_OK(hn_compile_graph(x->graph, x->service, options, &compiled));
    EXPECT_OK(hn_compiled_load(compiled, &(hn_module_options){.threads = 1}, &module));
    hn_compiled_release(compiled);
    return module;
}

/* The program that these records give, loaded. */
static hn_module *load(told_graph *x, const char *statements, const char *records, size_t len) {
    char path[] = "/tmp/henry_calls_XXXXXX";
    const hn_compile_options options = {.threads = 1, .tuning = path};
    const int fd = mkstemp(path);
    EXPECT(fd >= 0 && write(fd, records, len) == (ssize_t)len);
    hn_module *module = load_with(x, statements, &options);
    close(fd), unlink(path);
    return module;
}

/* ---- tests ---- */

static bool is_form(const hn_timed_form *what, const char *kind, const char *parameters) {
    return hn_str_eq(what->form->name, hn_str_of(kind)) &&
           hn_str_eq(what->form->parameters, hn_str_of(parameters));
}

static double skinny_is_for_few_rows(const told *t, uint32_t form, const hn_timed_form *what) {
    (void)t, (void)form;
    const bool few = what->sizes.values[0] <= 64;
    const bool is_best =
        few ? is_form(what, "skinny", "block=256") : is_form(what, "gemm", "rows=packed");
    return is_best ? 10000 : 20000;
}

TEST(a_table_says_which_form_a_product_is_asked_for) {
    told t = {.ns = skinny_is_for_few_rows};
    told_graph x, z;
    tune(&x, product, &t, &(hn_compile_options){.threads = 1});
    EXPECT(t.asked > 0);
    hn_module *m = load(&z, product, x.d.tuned->records, x.d.tuned->records_len);
    check_at(m, 3, "skinny block=256");
    check_at(m, 64, "skinny block=256");
    check_at(m, 300, "gemm rows=packed");
    check_at(m, 4096, "gemm rows=packed");
    hn_module_release(m);
    told_graph_end(&z), told_graph_end(&x);
}

static double own_is_fastest(const told *t, uint32_t form, const hn_timed_form *what) {
    (void)t, (void)form;
    return is_form(what, "own", "") ? 10000 : 20000;
}

/* The program is the same as without records. */
TEST(what_decides_by_itself_is_asked_for_nothing) {
    told t = {.ns = own_is_fastest};
    told_graph x, z;
    tune(&x, product, &t, &(hn_compile_options){.threads = 1});
    hn_module *m = load(&z, product, x.d.tuned->records, x.d.tuned->records_len);
    check_at(m, 3, "");
    hn_module_release(m);
    told_graph_end(&z), told_graph_end(&x);
}

/* A form that the call cannot have where the program runs: as written by a later Henry, say. */
TEST(a_form_that_cannot_be_had_is_left_to_the_operation) {
    told t = {.ns = skinny_is_for_few_rows};
    char *records;
    told_graph x, z;
    tune(&x, product, &t, &(hn_compile_options){.threads = 1});
    records = calloc(x.d.tuned->records_len + 1, 1);
    memcpy(records, x.d.tuned->records, x.d.tuned->records_len);
    for (char *at = records; (at = strstr(at, "skinny block=256")); at++)
        memcpy(at, "winograd        ", 16);
    hn_module *m = load(&z, product, records, strlen(records));
    check_at(m, 3, "gemm rows=packed"); /* lines with such a pick are left out */
    hn_module_release(m);
    free(records);
    told_graph_end(&z), told_graph_end(&x);
}

/* Twice as fast as the others as long as these race, and half as fast later. */
static double skinny_wins_once(const told *t, uint32_t form, const hn_timed_form *what) {
    static uint32_t since_others;
    const bool is_own = is_form(what, "own", ""), is_best = is_form(what, "skinny", "block=256");
    (void)t, (void)form;
    since_others = is_own || is_best ? since_others + 1 : 0;
    return !is_best ? 20000 : since_others > 12 ? 40000 : 10000;
}

static const char *picked(const told_graph *x) {
    const hn_tuned_kernel *kernel = &x->d.tuned->kernels[0];
    return kernel->forms[kernel->pick].name;
}

TEST(what_wins_has_to_win_again) {
    static const char few[] =
        "input user %x : f32[8, 64] \"x\"\n input user %w : f32[64, 48] \"w\"\n %y = "
        "aten.mm.default(%x, %w) : f32[8, 48]\n output user %y \"y\"";
    double (*const times[])(const told *, uint32_t, const hn_timed_form *) = {skinny_wins_once,
                                                                              own_is_fastest};
    for (size_t k = 0; k < 2; k++) {
        told t = {.ns = times[k]};
        told_graph x;
        tune(&x, few, &t, &(hn_compile_options){.threads = 1});
        EXPECT_STR(picked(&x), "own");
        told_graph_end(&x);
    }
}

/* Equal calls, with other names of sizes, are one; another layout, type or operand is another. */
TEST(calls_are_known_by_what_they_compute) {
    static const char *const texts[] = {
        product,
        "symbol size s7 in [1, 4096] hint 100\n input user %a : f32[s7, 64] \"a\"\n input user %b : "
        "f32[64, 48] \"b\"\n %y = aten.mm.default(%a, %b) : f32[s7, 48]\n output user %y \"y\"",
        "symbol size s0 in [1, 4096] hint 8\n input user %x : f32[s0, 64] \"x\"\n input user %w : "
        "f32[64, 47] \"w\"\n %y = aten.mm.default(%x, %w) : f32[s0, 47]\n output user %y \"y\"",
        "symbol size s0 in [1, 4096] hint 8\n input user %x : f64[s0, 64] \"x\"\n input user %w : "
        "f64[64, 48] \"w\"\n %y = aten.mm.default(%x, %w) : f64[s0, 48]\n output user %y \"y\"",
        "input user %x : f32[8, 64] \"x\"\n input user %w : f32[64, 48] \"w\"\n %y = "
        "aten.mm.default(%x, %w) : f32[8, 48]\n output user %y \"y\"",
    };
    char digests[5][65];
    hn_ext_form all[HN_EXT_FORMS_MAX];
    for (size_t k = 0; k < sizeof texts / sizeof *texts; k++) {
        told t = {.ns = own_is_fastest};
        told_graph x;
        tune(&x, texts[k], &t, &(hn_compile_options){.threads = 1});
        snprintf(digests[k], sizeof digests[k], "%s", x.d.tuned->kernels[0].digest);
        EXPECT_INT(x.d.tuned->kernels[0].form_count,
                   hn_ext_forms_all(HN_EXTERN_MATMUL, false, 1, all));
        told_graph_end(&x);
    }
    EXPECT_STR(digests[1], digests[0]);
    for (size_t k = 2; k < 5; k++)
        for (size_t j = 0; j < k; j++) EXPECT(j == 1 || strcmp(digests[k], digests[j]) != 0);
}

/* Forms race on operands that are made up, on this machine. */
TEST(forms_are_timed) {
    static const char two[] =
        "input user %x : f32[24, 64] \"x\"\n input user %w : f32[64, 48] \"w\"\n input user %v : "
        "f32[64, 48] \"v\"\n %y = aten.mm.default(%x, %w) : f32[24, 48]\n %z = "
        "aten.mm.default(%x, %v) : f32[24, 48]\n output user %y \"y\"\n output user %z \"z\"";
    const hn_compile_options options = {
        .threads = 2, .tune = HN_TUNE_MISSING, .tune_budget_ns = 200000000};
    told_graph x;
    told_graph_begin(&x, two, "");
    hn_driver_init(&x.d, &options, x.service);
    x.d.sym = x.sym;
    x.d.graph = x.graph;
    EXPECT_OK(hn_driver_targets(&x.d));
    EXPECT_OK(hn_driver_passes(&x.d));
    EXPECT_OK(hn_driver_kernels(&x.d));
    const hn_tune_report *r = x.d.tuned;
    EXPECT_INT(r->kernel_count, 1);
    EXPECT_INT(r->kernels[0].launches, 2);
    EXPECT_INT(r->kernels[0].how, HN_TUNED_NOW);
    EXPECT_STR(r->kernels[0].forms[0].name, "own");
    for (uint32_t k = 0; k < r->kernels[0].form_count; k++)
        EXPECT(r->kernels[0].forms[k].samples > 0 || *r->kernels[0].forms[k].why);
    told_graph_end(&x);
}

/* ---- forms that the user names ---- */

static void check_forced(const char *forms, const char *form) {
    told_graph x;
    hn_module *m =
        load_with(&x, product, &(hn_compile_options){.threads = 1, .forms = forms, .tuning = ""});
    check_at(m, 3, form);
    check_at(m, 1000, form);
    hn_module_release(m);
    told_graph_end(&x);
}

TEST(a_call_has_the_form_that_the_user_names) {
    check_forced("total=skinny block=256", "skinny block=256");
    check_forced("mm=gemm;t*=gemm rows=packed pass=256", "gemm rows=packed pass=256");
    check_forced("total=own;total=gemm", "");
    check_forced("total=rows", ""); /* is for kernels */
}

/* Whatever records say. */
TEST(what_the_user_names_decides_before_records) {
    told t = {.ns = skinny_is_for_few_rows};
    told_graph x;
    hn_compile_options options = {.threads = 1, .forms = "total=gemm pass=512"};
    tune(&x, product, &t, &options);
    const hn_kernel_code *code = &x.d.levels[0].step_kernels[0];
    EXPECT_STR(code->form, "gemm pass=512");
    EXPECT(code->is_forced && !code->variant_count);
    told_graph_end(&x);
}

static void refuse_forced(const char *statements, const char *forms, hn_code code,
                          const char *message) {
    told_graph x;
    hn_compiled *compiled = NULL;
    const hn_compile_options options = {.threads = 1, .forms = forms};
    told_graph_begin(&x, statements, "");
    EXPECT_ERROR(hn_compile_graph(x.graph, x.service, &options, &compiled), code, message);
    hn_compiled_release(compiled);
    told_graph_end(&x);
}

TEST(a_form_that_a_call_cannot_have_is_an_error) {
    static const char conv[] =
        "input user %x : f32[1, 4, 9, 9] \"x\"\n input user %w : f32[8, 4, 2, 2] \"w\"\n %y = "
        "aten.convolution.default(%x, %w, none, [1, 1], [0, 0], [1, 1], false, [0, 0], 1) : "
        "f32[1, 8, 8, 8] at \"conv2d\" \"m.py:1\"\n output user %y \"y\"";
    refuse_forced(
        product, "total=winograd", HN_NOT_FOUND,
        "'total=winograd': no form 'winograd' of the call 'total'; it has own, skinny, gemm");
    refuse_forced(product, "total=gemm width=3", HN_INVALID_ARGUMENT, "no parameter 'width=3'");
    refuse_forced(conv, "conv2d=winograd", HN_NOT_FOUND, "no form 'winograd'");
    refuse_forced(conv, "conv2d=gemm", HN_NOT_FOUND, "it has own, product, ");
}

/* ---- on a GPU ---- */

/* All sizes have the form of the table, beside the kernel that does the call without a library. */
TEST(calls_of_a_gpu_have_forms_beside_their_kernel) {
    const hn_compile_options options = {
        .threads = 1, .target = "sm_90a,sm_80", .forms_shipped = 2, .tuning = ""};
    told_graph x;
    hn_bundle b;
    size_t len;
    hn_compiled *compiled = NULL;
    told_graph_begin(&x, product, "");
    hn_status status = hn_compile_graph(x.graph, x.service, &options, &compiled);
    if (!hn_test_lacks(status)) {
        const void *image = hn_compiled_image(compiled, &len);
        EXPECT_OK(hn_bundle_open(image, len, true, &b));
        for (uint32_t target = 0; target < 2; target++) {
            const hn_bundle_call call = hn_bundle_call_of(&b, 0, target, 2);
            EXPECT_INT(hn_bundle_variant_count(&b, 0, target), 8);
            EXPECT(call.kernel && call.launch);
            EXPECT_STR(hn_bundle_text(&b, call.form), "library candidate=3");
        }
    }
    hn_compiled_release(compiled);
    told_graph_end(&x);
}

TEST_MAIN
