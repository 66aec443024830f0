/* test_partial.c: tuning of which the budget ends before all sizes are timed: which come first, how
 * long each may take, and what runs where nothing was timed. Times are told. */
#include "base/trace.h"
#include "unit/driver/told.h"

static const char softmax[] =
    "symbol size s0 in [1, 1048576] hint 512 symbol size s1 in [1, 1048576] hint 1000 input user %x : "
    "f32[s0, s1] \"x\"\n %y = aten._softmax.default(%x, -1, false) : f32[s0, s1] at \"soft\" \"m.py:1\"\n "
    "output user %y \"y\"";

static hn_status try_begin(told_graph *x, const hn_compile_options *options, told *t) {
    told_graph_begin(x, softmax, "");
    return told_graph_tune(x, options, t);
}

static void begin(told_graph *x, const hn_compile_options *options, told *t) {
    EXPECT_OK(try_begin(x, options, t));
}

static int64_t value_of(const hn_sym *sym, hn_ref_sizes sizes, const char *name) {
    for (uint32_t k = 0; k < sizes.count; k++)
        if (hn_str_eq(hn_sym_symbol_name(sym, sizes.symbols[k]), hn_str_of(name)))
            return sizes.values[k];
    HN_TEST_FAIL("there is no size %s", name);
    return 1;
}

/* ---- what is told ---- */

enum { SETS_MAX = 128 };
typedef struct sets {
    told told; /* first: it is handed to `ns` */
    int64_t values[SETS_MAX][2];
    int64_t ns[SETS_MAX]; /* that races at these sizes took */
    uint32_t count;
    const hn_sym *sym;
} sets;

static bool is_streaming(const char *form) { return strstr(form, "stores=streaming") != NULL; }

static void note(sets *s, const hn_ref_sizes *sizes, double ns) {
    uint32_t k = 0;
    while (k < s->count && memcmp(s->values[k], sizes->values, sizeof s->values[k]) != 0) k++;
    EXPECT(k < SETS_MAX && sizes->count == 2);
    if (k == s->count) memcpy(s->values[s->count++], sizes->values, sizeof s->values[k]);
    s->ns[k] += (int64_t)ns;
}

/* An element takes a nanosecond; results that bypass the caches gain a third where there are many,
 * and take twice as long elsewhere. */
static double by_elements(const told *t, uint32_t form, const hn_timed_form *what) {
    const double elements = (double)what->sizes.values[0] * (double)what->sizes.values[1];
    const double factor = !is_streaming(t->forms[form]) ? 1 : elements > 4e6 ? 0.67 : 2;
    const double ns = (elements + 1000) * factor;
    note((sets *)t, &what->sizes, ns);
    return ns;
}

/* Whether the kernel's form for these sizes is one that bypasses the caches. */
static bool streams(told_graph *x, int64_t s0, int64_t s1) {
    const hn_kernel_code *code = x->d.levels[0].step_kernels;
    int64_t values[HN_CHOICE_AXES] = {0};
    EXPECT(code->choice);
    for (uint32_t d = 0; code->choice && d < code->choice->head.axis_count; d++) {
        const hn_str name = hn_sym_symbol_name(x->d.sym, code->choice->axes[d]);
        values[d] = hn_str_eq(name, HN_STR("s0")) ? s0 : s1;
    }
    const uint32_t variant =
        code->choice ? hn_choice_find(&code->choice->head, code->choice->boxes, values) : 0;
    return is_streaming(variant ? code->variants[variant - 1].form : code->form);
}

/* ---- where nothing was timed ---- */

/* Three sizes of one number of columns were timed. What they say does not count for a column. */
TEST(far_from_what_was_timed_the_model_decides) {
    static const char *const hints[] = {"s0=8,16384,65536", "s1=1000"};
    const hn_compile_options options = {.threads = 1,
                                        .tune = HN_TUNE_MISSING,
                                        .tune_hints = hints,
                                        .tune_hint_count = 2,
                                        .tune_budget_ns = INT64_C(1) << 50};
    sets s = {.told = {.ns = by_elements}};
    told_graph x;
    begin(&x, &options, &s.told);
    EXPECT_INT(s.count, 3);
    EXPECT(streams(&x, 65536, 1000) && streams(&x, 16384, 1000) && streams(&x, 30000, 900));
    EXPECT(!streams(&x, 8, 1000) && !streams(&x, 30, 1000));
    for (int64_t rows = 363; rows <= 1 << 16; rows *= 4) EXPECT(!streams(&x, rows, 1));
    EXPECT(!streams(&x, 400, 16) && !streams(&x, 1, 1));
    told_graph_end(&x);
}

/* ---- which sizes come first ---- */

static uint32_t count_where(const sets *s, told_graph *x, bool (*is_so)(int64_t s0, int64_t s1)) {
    uint32_t count = 0;
    const hn_variant_sizes *all = NULL;
    hn_tunable t;
    EXPECT_OK(hn_tunable_identify(&x->d, &x->d.levels[0].target,
                                  x->d.schedule.steps.items[0].kernel, &x->arena, &t));
    EXPECT_OK(hn_tunable_complete(&t, &x->arena));
    all = &t.sizes;
    for (uint32_t k = 0; k < s->count; k++) {
        const hn_ref_sizes at = {all->symbols, s->values[k], 2};
        count += is_so(value_of(x->d.sym, at, "s0"), value_of(x->d.sym, at, "s1"));
    }
    return count;
}

static bool is_small(int64_t s0, int64_t s1) { return s0 * s1 <= 4096; }
static bool is_wide(int64_t s0, int64_t s1) { return s0 <= 4 && s1 >= 65536; }
static bool is_tall(int64_t s0, int64_t s1) { return s0 >= 65536 && s1 <= 4; }

static void check_spread(int64_t budget_ns, uint32_t least) {
    const hn_compile_options options = {
        .threads = 1, .tune = HN_TUNE_MISSING, .tune_budget_ns = budget_ns};
    sets s = {.told = {.ns = by_elements}};
    told_graph x;
    begin(&x, &options, &s.told);
    EXPECT(s.count >= least);
    EXPECT(count_where(&s, &x, is_small) >= s.count / 4);
    EXPECT(count_where(&s, &x, is_wide) >= 1 && count_where(&s, &x, is_tall) >= 1);
    EXPECT(!x.d.tuned->is_complete);
    EXPECT(s.told.now < 2 * budget_ns);
    for (uint32_t k = 0; k < s.count; k++) /* none takes what others need */
        if (s.ns[k] > budget_ns / 2) HN_TEST_FAIL("set %u took %lld ns", k, (long long)s.ns[k]);
    told_graph_end(&x);
}

TEST(a_small_budget_is_spread_over_all_sizes) {
    check_spread(INT64_C(2000000000), 8);
    check_spread(INT64_C(8000000000), 20);
}

/* More combinations than a list of forms is made over. */
TEST(a_large_budget_takes_more_combinations) {
    const hn_compile_options options = {
        .threads = 1, .tune = HN_TUNE_MISSING, .tune_budget_ns = INT64_C(1) << 50};
    sets s = {.told = {.ns = by_elements}};
    told_graph x;
    begin(&x, &options, &s.told);
    EXPECT(x.d.tuned->is_complete);
    EXPECT(s.count > HN_VARIANT_SAMPLES && s.count <= HN_VARIANT_SAMPLES_MAX);
    EXPECT(!streams(&x, 400, 1) && streams(&x, 65536, 1000) && !streams(&x, 64, 64));
    told_graph_end(&x);
}

/* ---- who is told ---- */

static const char *const two_hints[] = {"s0=8,16384", "s1=1000"};
static const hn_compile_options at_two = {.threads = 1,
                                          .tune = HN_TUNE_MISSING,
                                          .tune_hints = two_hints,
                                          .tune_hint_count = 2,
                                          .tune_budget_ns = INT64_C(1) << 50};

static bool note_progress(void *user, const hn_tune_progress *p) {
    uint32_t *calls = user;
    EXPECT_INT(p->done, *calls);
    EXPECT_INT(p->total, 2);
    EXPECT_STR(p->kernel, "soft");
    EXPECT(strstr(p->sizes, *calls ? "s0=16384" : "s0=8") && strstr(p->sizes, "s1=1000"));
    EXPECT(p->forms > 1 && p->elapsed_ns > 0 && p->budget_ns == at_two.tune_budget_ns);
    return ++*calls;
}

static bool stop(void *user, const hn_tune_progress *p) {
    (void)user, (void)p;
    return false;
}

TEST(a_caller_is_told_what_is_timed) {
    uint32_t calls = 0;
    hn_compile_options options = at_two;
    sets s = {.told = {.ns = by_elements}};
    told_graph x;
    options.tune_progress = note_progress, options.tune_progress_context = &calls;
    begin(&x, &options, &s.told);
    EXPECT_INT(calls, 2);
    told_graph_end(&x);
    options.tune_progress = stop, s.told.asked = 0;
    EXPECT_ERROR(try_begin(&x, &options, &s.told), HN_CANCELLED, "the tuning was cancelled");
    EXPECT_INT(s.told.asked, 0);
    told_graph_end(&x);
}

TEST(a_trace_has_sizes_and_picks) {
    sets s = {.told = {.ns = by_elements}};
    hn_strbuf text;
    told_graph x;
    hn_strbuf_init(&text);
    hn_trace_start();
    begin(&x, &at_two, &s.told);
    EXPECT_OK(hn_trace_take(&text));
    const char *small = strstr(text.ptr, "\"soft [s"),
               *large = small ? strstr(small + 1, "\"soft [s") : "";
    EXPECT(small && strstr(small, "s0=8") && strstr(small, "]: rows stores=cached"));
    EXPECT(large && strstr(large, "s0=16384") && strstr(large, "]: rows stores=streaming"));
    hn_strbuf_deinit(&text);
    told_graph_end(&x);
}

TEST_MAIN
