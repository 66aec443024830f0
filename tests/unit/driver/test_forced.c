/* test_forced.c: forms that the user names: the kernel that matches has that form, its results are
 * right, and what cannot be had is an error that says what there is. */
#include "driver/picked.h"
#include "henry/log.h"
#include "henry/record.h"
#include "support/module_run.h"
#include "unit/driver/scheduled.h"

#include <stdlib.h>

/* Two kernels: rows of a softmax, and a sum down columns. */
static const char model[] =
    "input user %x : f32[7, 4000] \"x\"\n input user %z : f32[90, 48] \"z\"\n "
    "%y = aten._softmax.default(%x, -1, false) : f32[7, 4000] at \"softmax_3\" \"m.py:1\"\n "
    "%s = sum(%z, dims=[0], keepdim=false) at \"total\" \"m.py:2\"\n "
    "output user %y \"y\"\n output user %s \"s\"";

static hn_status compile(const char *forms, hn_compiled **out) {
    scheduled m;
    const hn_compile_options options = {.threads = 1, .forms = forms};
    hn_strbuf text;
    hn_strbuf_init(&text);
    *out = NULL;
    m = (scheduled){.graph = NULL};
    hn_arena_init(&m.arena);
    hn_strbuf_printf(&text, "graph {\n%s\n}\n", model);
    EXPECT_OK(hn_service_create(&(hn_service_options){.threads = 1, .cache_dir = ""}, &m.service));
    EXPECT_OK(hn_sym_create(&m.arena, &m.d.sym));
    EXPECT_OK(hn_graph_parse(&m.arena, m.d.sym, hn_strbuf_str(&text), &m.graph));
    hn_status status = hn_compile_graph(m.graph, m.service, &options, out);
    hn_graph_deinit(m.graph);
    hn_service_destroy(m.service);
    hn_arena_deinit(&m.arena);
    hn_strbuf_deinit(&text);
    return status;
}

static void fill(hn_arena *arena, int64_t rows, int64_t columns, hn_ref_tensor *out) {
    EXPECT_OK(hn_ref_tensor_init(arena, HN_DTYPE_F32, 2, (int64_t[]){rows, columns}, out));
    for (int64_t k = 0; k < out->numel; k++) out->data.f[k] = (double)(k * 7919 % 64 - 32) / 16;
}

/* The form of the step that is named after the node. */
static void form_of(hn_module *module, const char *node, char *out, size_t bytes) {
    hn_step_record step;
    snprintf(out, bytes, "none");
    for (uint32_t k = 0; k < hn_module_step_count(module); k++) {
        EXPECT_OK(hn_module_step_record(module, k, &step));
        if (step.has_form && strcmp(step.node, node) == 0) snprintf(out, bytes, "%s", step.form);
    }
}

/* Whether the kernels have these forms, and what they compute without the option. */
static void check(const char *forms, const char *softmax, const char *total) {
    static hn_ref_tensor plain[2];
    static hn_arena kept;
    hn_arena arena;
    hn_ref_tensor inputs[2], got[2];
    hn_compiled *compiled;
    hn_module *module = NULL;
    char form[64];
    hn_strbuf text;
    hn_arena_init(&arena);
    hn_strbuf_init(&text);
    fill(&arena, 7, 4000, &inputs[0]), fill(&arena, 90, 48, &inputs[1]);
    EXPECT_OK(compile(forms, &compiled));
    EXPECT_OK(hn_compiled_load(compiled, &(hn_module_options){.threads = 1}, &module));
    form_of(module, "softmax_3", form, sizeof form);
    EXPECT_STR(form, softmax);
    form_of(module, "total", form, sizeof form);
    EXPECT_STR(form, total);
    if (!plain[0].numel) {
        hn_arena_init(&kept);
        EXPECT_OK(hn_test_module_run(&kept, module, inputs, 2, plain, 2));
    }
    EXPECT_OK(hn_test_module_run(&arena, module, inputs, 2, got, 2));
    for (uint32_t k = 0; k < 2; k++)
        if (!hn_ref_compare(&got[k], &plain[k], 1e-5, 1e-5, &text))
            HN_TEST_FAIL("%s, output %u: %s", forms, k, hn_strbuf_str(&text).ptr);
    hn_module_release(module);
    hn_compiled_release(compiled);
    hn_strbuf_deinit(&text);
    hn_arena_deinit(&arena);
}

TEST(kernels_have_the_forms_that_are_named) {
    check("", "rows", "columns");
    check("softmax_3=rows-pipelined", "rows, pipelined", "columns");
    check("softmax=pipelined ahead=2 vectors=4", "rows, pipelined", "columns"); /* the operation */
    check("soft*=pipelined; total=strips-of-columns", "rows, pipelined", "strips of columns");
    check("tot?l = strips width=256;", "rows", "strips of columns");
    check("softmax=persistent;softmax*=pipelined;*=strips", "rows", "strips of columns");
}

TEST(a_kernel_has_a_name_of_its_own) {
    hn_compiled *compiled;
    hn_module *module = NULL;
    hn_step_record step = {.name = "", .node = ""};
    char forms[64];
    EXPECT_OK(compile("", &compiled));
    EXPECT_OK(hn_compiled_load(compiled, NULL, &module));
    for (uint32_t k = 0; k < hn_module_step_count(module) && strcmp(step.node, "total") != 0; k++)
        EXPECT_OK(hn_module_step_record(module, k, &step));
    snprintf(forms, sizeof forms, "%s=strips", step.name);
    EXPECT(strncmp(forms, "k_", 2) == 0);
    hn_module_release(module);
    hn_compiled_release(compiled);
    check(forms, "rows", "strips of columns");
}

TEST(the_variable_counts_where_the_option_says_nothing) {
    setenv("HENRY_FORM", "total=strips", 1);
    check(NULL, "rows", "strips of columns");
    check("softmax=pipelined", "rows, pipelined", "columns");
    unsetenv("HENRY_FORM");
    check(NULL, "rows", "columns");
}

TEST(what_cannot_be_had) {
    hn_compiled *c;
    EXPECT_ERROR(compile("softmax=looped", &c), HN_NOT_FOUND,
                 "'softmax=looped': the kernel has no form 'looped'; it has rows");
    EXPECT_ERROR(compile("*=tiles", &c), HN_NOT_FOUND, "no form 'tiles'; it has ");
    EXPECT_ERROR(compile("softmax=rows width=3", &c), HN_INVALID_ARGUMENT,
                 "no parameter 'width=3'");
    EXPECT_ERROR(compile("softmax", &c), HN_INVALID_ARGUMENT, "PATTERN=FORM");
    EXPECT_ERROR(compile("total=strips;=rows", &c), HN_INVALID_ARGUMENT, "'=rows'");
    EXPECT_ERROR(compile("total=", &c), HN_INVALID_ARGUMENT, "'total='");
}

static void keep_line(void *context, const hn_log_line *line) {
    hn_strbuf_printf(context, "%s\n", line->text);
}

TEST(a_pattern_without_a_kernel_is_a_warning) {
    hn_strbuf lines;
    hn_strbuf_init(&lines);
    EXPECT_OK(hn_log_levels_set("warn"));
    EXPECT_OK(hn_log_sink_set(keep_line, &lines));
    check("layer_norm=rows;total=strips", "rows", "strips of columns");
    EXPECT_STR(hn_strbuf_str(&lines).ptr,
               "no kernel or call is left that the form 'layer_norm=rows' may be for; others: "
               "softmax\n");
    EXPECT_OK(hn_log_sink_set(NULL, NULL));
    hn_strbuf_deinit(&lines);
}

/* A record without times: the bundle says what was forced, whatever records say. */
TEST(what_is_forced_is_recorded) {
    scheduled m;
    scheduled_begin(&m, model, &(hn_compile_options){.threads = 1, .forms = "total=strips"});
    EXPECT_INT(m.d.picks->decided.count, 1);
    const hn_tuning_record *r = &m.d.picks->decided.items[0];
    EXPECT_INT(r->how, HN_TUNING_FORCED);
    EXPECT_OK(hn_tuning_record_check(r));
    EXPECT(hn_str_eq(r->kernel, HN_STR("total")));
    EXPECT(hn_str_eq(r->forms[r->pick].form.name, HN_STR("strips-of-columns")));
    scheduled_end(&m);
}

/* Which of a GPU's forms it is, whatever sizes are expected, its name tells. */
static void check_gpu(const char *forms, const char *begin) {
    scheduled m;
    bool found = false;
    scheduled_begin(&m, model,
                    &(hn_compile_options){.threads = 1, .target = "sm_90a", .forms = forms});
    for (uint32_t k = 0; k < m.d.schedule.steps.count; k++) {
        const hn_kernel_code *code = &m.d.levels[0].step_kernels[k];
        if (!code->form) continue;
        found = true;
        if (strncmp(code->form, begin, strlen(begin)) != 0)
            HN_TEST_FAIL("%s: the form is %s", forms, code->form);
    }
    EXPECT(found);
    scheduled_end(&m);
}

TEST(forms_of_a_gpu) {
    check_gpu("softmax=persistent", "rows-kept threads=");
    check_gpu("softmax=looped", "rows threads=");
    check_gpu("softmax=looped threads=128 rows=2", "rows threads=128 rows=2 ");
    check_gpu("softmax=rows threads=64 rows=1 vector=2 unroll=2 blocks=0 slabs=0 stages=0 tile=0 "
              "parts=0 resident=0",
              "rows threads=64 rows=1 vector=2 unroll=2 ");
    hn_compiled *c;
    EXPECT_ERROR(compile("softmax=kept", &c), HN_NOT_FOUND, "no form 'kept'; it has rows");
}

TEST_MAIN
