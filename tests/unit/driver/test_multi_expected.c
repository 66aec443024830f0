/* test_multi_expected.c: kernels in several forms without a measurement: where the model of costs
 * says that no form is good at all sizes, and nowhere else. */
#include "driver/multi.h"
#include "support/module_run.h"
#include "unit/driver/scheduled.h"

#include <stdlib.h>

#define INPUT                                                                                           \
    "symbol size s0 in [1, 1048576] hint 512 symbol size s1 in [1, 1048576] hint 1000 input user %x : " \
    "f32[s0, s1] \"x\"\n "
#define SUM(dim) "%y = sum(%x, dims=[" dim "], keepdim=false)\n output user %y \"y\""

static const char sum_of_rows[] = INPUT SUM("1"), sum_of_columns[] = INPUT SUM("0"),
                  static_sum[] = "input user %x : f32[512, 1000] \"x\"\n " SUM("1"),
                  add_to_rows[] = INPUT
                  "input user %z : f32[s1] \"z\"\n %y = add(%x, %z)\n output user %y \"y\"";

static const hn_kernel_code *code_of(const scheduled *m) { return m->d.levels[0].step_kernels; }

static int64_t value_of(const scheduled *m, hn_expr axis, int64_t s0, int64_t s1) {
    return hn_str_eq(hn_sym_symbol_name(m->d.sym, axis), HN_STR("s0")) ? s0 : s1;
}

/* The form that runs at these sizes. */
static const hn_kernel_code *form_at(const scheduled *m, int64_t s0, int64_t s1) {
    const hn_kernel_code *code = code_of(m);
    int64_t values[HN_CHOICE_AXES] = {0};
    for (uint32_t d = 0; d < code->choice->head.axis_count; d++)
        values[d] = value_of(m, code->choice->axes[d], s0, s1);
    const uint32_t v = hn_choice_find(&code->choice->head, code->choice->boxes, values);
    return v ? &code->variants[v - 1] : code;
}

/* ---- which kernels ---- */

static double cost_at(scheduled *m, const char *form, int64_t s0, int64_t s1) {
    const hn_variants_of of = {.program = m->d.program,
                               .kernel = m->d.schedule.steps.items[0].kernel,
                               .target = &m->d.levels[0].target};
    const char *blank = strchr(form, ' ');
    const hn_form_name name = {{form, (size_t)(blank - form)}, hn_str_of(blank + 1)};
    hn_kernel_identity id;
    double ns = 0;
    EXPECT_OK(hn_kernel_identify(&of, &m->arena, &id));
    int64_t values[HN_VARIANT_SYMBOLS_MAX];
    for (uint32_t k = 0; k < id.symbol_count; k++) values[k] = value_of(m, id.symbols[k], s0, s1);
    const hn_ref_sizes at = {id.symbols, values, id.symbol_count};
    EXPECT_OK(hn_variant_cost(&of, &name, &at, &ns));
    return ns;
}

/* At corners and at the export's size, the form of the table is as good as any other of the
 * program's, but for the margin; and somewhere it is better than the one without a table. */
static void check_table(const char *statements, const hn_compile_options *options) {
    static const int64_t sizes[][2] = {{512, 1000}, {1, 1}, {65536, 1}, {1, 65536}, {65536, 1024}};
    scheduled m;
    double most = 1;
    scheduled_begin(&m, statements, options);
    const hn_kernel_code *code = code_of(&m);
    EXPECT(code->variant_count >= 1 && code->variant_count <= 3 && code->choice);
    for (size_t k = 0; code->choice && k < sizeof sizes / sizeof *sizes; k++) {
        const int64_t s0 = sizes[k][0], s1 = sizes[k][1];
        const double own = cost_at(&m, form_at(&m, s0, s1)->form, s0, s1),
                     first = cost_at(&m, code->form, s0, s1);
        for (uint32_t v = 0; v < code->variant_count; v++)
            EXPECT(own <= 1.26 * cost_at(&m, code->variants[v].form, s0, s1));
        EXPECT(own <= first * 1.0001);
        most = fmax(most, first / own);
    }
    EXPECT(code->choice && form_at(&m, 512, 1000) == code); /* as without a table */
    EXPECT(most > 1.25);
    scheduled_end(&m);
}

TEST(a_kernel_whose_best_form_differs_has_a_table) {
    check_table(sum_of_rows, &(hn_compile_options){.threads = 2});
    check_table(sum_of_columns, &(hn_compile_options){.threads = 2});
}

TEST(so_has_one_of_a_gpu) {
    check_table(sum_of_rows, &(hn_compile_options){.target = "sm_90a"});
    check_table(sum_of_columns, &(hn_compile_options){.target = "sm_90a"});
}

static uint32_t count_variants(const char *statements, const hn_compile_options *options) {
    scheduled m;
    scheduled_begin(&m, statements, options);
    const uint32_t count = code_of(&m)->variant_count;
    EXPECT(!count == !code_of(&m)->choice);
    scheduled_end(&m);
    return count;
}

TEST(others_have_one_form) {
    static const char *const hints[] = {"s0=512,513", "s1=1000"};
    const hn_compile_options host = {.threads = 2}, gpu = {.target = "sm_90a"},
                             near = {.threads = 2, .tune_hints = hints, .tune_hint_count = 2};
    EXPECT(count_variants(sum_of_rows, &host) > 0);
    EXPECT_INT(count_variants(static_sum, &host), 0);
    EXPECT_INT(count_variants(sum_of_rows, &near), 0); /* sizes that are alike */
    EXPECT_INT(count_variants(static_sum, &gpu), 0);
    EXPECT_INT(count_variants(add_to_rows, &gpu), 0); /* only a few elements would gain */
}

/* Sizes that are named, and no others. */
TEST(hints_say_for_which_sizes) {
    static const char *const hints[] = {"s0=512,65536", "s1=4,1000"};
    const hn_compile_options options = {.threads = 2, .tune_hints = hints, .tune_hint_count = 2};
    scheduled m;
    scheduled_begin(&m, sum_of_rows, &options);
    EXPECT(code_of(&m)->variant_count > 0);
    EXPECT(code_of(&m)->choice && form_at(&m, 65536, 4) != code_of(&m));
    scheduled_end(&m);
}

/* A function of the sizes, so it is there where no measurement may be. */
TEST(the_same_where_nothing_is_measured) {
    scheduled m, n;
    scheduled_begin(&m, sum_of_columns, &(hn_compile_options){.threads = 2});
    scheduled_begin(&n, sum_of_columns, &(hn_compile_options){.threads = 2, .deterministic = true});
    const hn_kernel_code *a = code_of(&m), *b = code_of(&n);
    EXPECT(a->variant_count > 0);
    EXPECT_INT(a->variant_count, b->variant_count);
    EXPECT(a->choice && b->choice && a->choice->head.box_count == b->choice->head.box_count &&
           memcmp(a->choice->boxes, b->choice->boxes,
                  a->choice->head.box_count * sizeof *a->choice->boxes) == 0);
    for (uint32_t v = 0; v < a->variant_count && v < b->variant_count; v++)
        EXPECT(hn_str_eq(a->variants[v].text, b->variants[v].text));
    scheduled_end(&m), scheduled_end(&n);
}

/* ---- right results ---- */

static hn_status note(void *user, const hn_step_info *step, uint64_t *unused) {
    (void)unused;
    *(uint64_t *)user |= UINT64_C(1) << step->variant;
    return NULL;
}

static void check_run(hn_module *module, hn_graph *graph, int64_t s0, int64_t s1) {
    hn_arena arena;
    hn_ref_tensor input, got, want;
    hn_strbuf text;
    hn_arena_init(&arena);
    hn_strbuf_init(&text);
    EXPECT_OK(hn_ref_tensor_init(&arena, HN_DTYPE_F32, 2, (int64_t[]){s0, s1}, &input));
    for (int64_t k = 0; k < input.numel; k++) input.data.f[k] = (double)(k * 37 % 101) / 64 - 0.75;
    EXPECT_OK(hn_test_module_run(&arena, module, &input, 1, &got, 1));
    EXPECT_OK(hn_interpret(&arena, graph, &input, 1, &want));
    if (!hn_ref_compare(&got, &want, 1e-4, 1e-4, &text))
        HN_TEST_FAIL("%lld x %lld: %s", (long long)s0, (long long)s1, hn_strbuf_str(&text).ptr);
    hn_strbuf_deinit(&text);
    hn_arena_deinit(&arena);
}

static void check_results(const char *statements) {
    static const int64_t sizes[][2] = {{1, 1}, {3, 5}, {512, 100}, {1, 9000}, {9000, 3}, {40, 700}};
    const hn_compile_options options = {.threads = 2};
    hn_compiled *compiled = NULL;
    hn_module *module = NULL;
    uint64_t seen = 0;
    scheduled m, n;
    scheduled_begin(&n, statements, &options); /* its graph, which compiling changes */
    scheduled_begin(&m, statements, &options);
    EXPECT_OK(hn_compile_graph(m.graph, m.service, &options, &compiled));
    EXPECT_OK(hn_compiled_load(compiled, &(hn_module_options){.threads = 2}, &module));
    EXPECT_OK(hn_module_hook_add(module, &(hn_step_hook){.before = note, .user = &seen}));
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++)
        check_run(module, n.graph, sizes[k][0], sizes[k][1]);
    EXPECT(seen & 1 && seen & ~UINT64_C(1));
    hn_module_release(module);
    hn_compiled_release(compiled);
    scheduled_end(&m), scheduled_end(&n);
}

TEST(whichever_form_runs_the_results_are_right) {
    check_results(sum_of_rows);
    check_results(sum_of_columns);
}

TEST_MAIN
