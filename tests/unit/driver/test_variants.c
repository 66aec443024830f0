/* test_variants.c: forms by name: what is listed can be asked for by name, whatever sizes are
 * expected; all of them and their neighbours give right results; which sizes are compared. The
 * clock is the test's. */
#include "driver/variants.h"

#include "driver/forms.h"
#include "kernel/plan_cpu.h"
#include "unit/driver/scheduled.h"

enum { NAMES_MAX = 64 };

typedef struct fixture {
    scheduled m;
    hn_variants_of of; /* the first kernel */
} fixture;

static const hn_compile_options host = {.threads = 2};

static void begin(fixture *x, const char *statements, const hn_compile_options *options) {
    *x = (fixture){.of = {.kernel = NULL}};
    scheduled_begin(&x->m, statements, options);
    for (uint32_t k = 0; k < x->m.d.schedule.steps.count && !x->of.kernel; k++)
        x->of.kernel = x->m.d.schedule.steps.items[k].kernel;
    x->of.program = x->m.d.program;
    x->of.target = &x->m.d.levels[0].target;
}

static void end(fixture *x) { scheduled_end(&x->m); }

static hn_expr symbol(fixture *x, const char *name) {
    return hn_sym_symbol(x->m.d.sym, hn_str_of(name), HN_SYMBOL_SIZE, 1, 1 << 20);
}

/* ---- names ---- */

static bool is_same_form(fixture *x, const hn_form *a, const hn_form *b) {
    hn_kernel_code code[2];
    EXPECT_OK(hn_target_print_form(x->of.target, a, &x->m.arena, &x->m.arena, &code[0]));
    EXPECT_OK(hn_target_print_form(x->of.target, b, &x->m.arena, &x->m.arena, &code[1]));
    return hn_str_eq(code[0].text, code[1].text) && code[0].grain == code[1].grain;
}

/* All forms at some sizes; each by its name where other sizes are expected. */
static void check_names(fixture *x, const hn_ref_sizes *sizes, const hn_ref_sizes *others) {
    hn_variants set;
    EXPECT_OK(hn_variants_list(&x->of, sizes, 0, &x->m.arena, &set));
    EXPECT(set.count > 0);
    for (uint32_t k = 0; k < set.count; k++) {
        const hn_variant *v = &set.items[k];
        hn_variant again = {.form = NULL};
        double ns = 0;
        for (uint32_t s = 0; others && s < others->count; s++)
            hn_sym_set_hint(x->m.d.sym, others->symbols[s], others->values[s]);
        EXPECT_OK(hn_variant_named(&x->of, &v->name, &x->m.arena, &again));
        EXPECT(again.form && hn_form_name_eq(&again.name, &v->name));
        if (!again.form || !is_same_form(x, v->form, again.form))
            HN_TEST_FAIL(HN_STR_FMT " " HN_STR_FMT " is another form", HN_STR_ARG(v->name.name),
                         HN_STR_ARG(v->name.parameters));
        EXPECT_OK(hn_variant_cost(&x->of, &v->name, sizes, &ns));
        EXPECT(ns == v->ns && (k == 0 || ns >= set.items[k - 1].ns));
        for (uint32_t e = 0; e < k; e++) EXPECT(!hn_form_name_eq(&v->name, &set.items[e].name));
    }
}

static const char *const subjects[] = {
    "input user %x : f32[37, 65] \"x\"\n %y = aten._softmax.default(%x, -1, false) : f32[37, 65]\n "
    "output user %y \"y\"",
    "input user %x : f32[70, 41] \"x\"\n %y = sum(%x, dims=[0], keepdim=false)\n output user %y "
    "\"y\"",
    "input user %x : f32[69, 300] \"x\"\n %y = sum(%x, dims=[1], keepdim=false)\n output user %y "
    "\"y\"",
    "input user %x : f32[140, 150] \"x\"\n input user %b : f32[150, 140] \"b\"\n %t = permute(%x, "
    "dims=[1, 0])\n %y = add(%t, %b)\n output user %y \"y\"",
    "input user %x : f32[5003] \"x\"\n input user %b : f32[5003] \"b\"\n %y = mul(%x, %b)\n output "
    "user %y \"y\"",
    "input user %x : bf16[9, 40] \"x\"\n input user %w : bf16[40] \"w\"\n %y = "
    "aten.layer_norm.default(%x, [40], %w, %w, 1e-05, false) : bf16[9, 40]\n output user %y \"y\"",
    "input user %x : f32[11, 40] \"x\"\n input user %i : i64[23] \"i\"\n %y = "
    "aten.embedding.default(%x, %i, -1, false, false) : f32[23, 40]\n output user %y \"y\"",
    "input user %x : f16[5, 100] \"x\"\n %y = cumsum(%x, dim=1)\n output user %y \"y\"",
    "input user %x : f32[0, 4] \"x\"\n %y = exp(%x)\n output user %y \"y\"",
};

TEST(a_name_gives_the_form) {
    for (size_t k = 0; k < sizeof subjects / sizeof *subjects; k++) {
        fixture x;
        begin(&x, subjects[k], &host);
        check_names(&x, NULL, NULL);
        end(&x);
    }
}

TEST(a_name_gives_the_form_whatever_is_expected) {
    static const char *const dynamic[] = {
        "symbol size s0 in [1, 1048576] symbol size s1 in [1, 1048576] input user %x : f32[s0, s1] \"x\"\n "
        "%y = aten._softmax.default(%x, -1, false) : f32[s0, s1]\n output user %y \"y\"",
        "symbol size s0 in [1, 1048576] symbol size s1 in [1, 1048576] input user %x : f32[s0, s1] \"x\"\n "
        "%y = sum(%x, dims=[0], keepdim=false)\n output user %y \"y\"",
        "symbol size s0 in [1, 1048576] symbol size s1 in [1, 1048576] input user %x : f32[s0, s1] \"x\"\n "
        "%t = permute(%x, dims=[1, 0])\n %y = exp(%t)\n output user %y \"y\"",
    };
    const int64_t small[] = {3, 17}, large[] = {8192, 4096};
    for (size_t k = 0; k < sizeof dynamic / sizeof *dynamic; k++) {
        fixture x;
        begin(&x, dynamic[k], &host);
        const hn_expr symbols[] = {symbol(&x, "s0"), symbol(&x, "s1")};
        const hn_ref_sizes at_small = {symbols, small, 2}, at_large = {symbols, large, 2};
        check_names(&x, &at_small, &at_large);
        check_names(&x, &at_large, &at_small);
        end(&x);
    }
}

TEST(names_that_are_none) {
    fixture x;
    hn_variant v;
    begin(&x, subjects[0], &host);
#define NAMED(kind, text)                                                                          \
    hn_variant_named(&x.of, &(hn_form_name){hn_str_of(kind), hn_str_of(text)}, &x.m.arena, &v)
    EXPECT_ERROR(NAMED("looped", ""), HN_NOT_FOUND, "no form 'looped'; it has rows");
    EXPECT_ERROR(NAMED("tiles", ""), HN_NOT_FOUND, "no form 'tiles'; it has rows");
    EXPECT_ERROR(NAMED("rows", "width=8"), HN_INVALID_ARGUMENT, "no parameter 'width=8'");
    EXPECT_ERROR(NAMED("rows", "vectors=3"), HN_INVALID_ARGUMENT, "no parameter 'vectors=3'");
    EXPECT_ERROR(NAMED("rows", "vectors=16"), HN_INVALID_ARGUMENT, "no parameter 'vectors=16'");
    EXPECT_ERROR(NAMED("rows", "vectors=2 vectors=2"), HN_INVALID_ARGUMENT, "'vectors=2'");
    EXPECT_ERROR(NAMED("rows", "ahead=-1"), HN_INVALID_ARGUMENT, "'ahead=-1'");
    EXPECT_ERROR(NAMED("rows", "stores=near"), HN_INVALID_ARGUMENT, "'stores=near'");
    EXPECT_ERROR(NAMED("rows", "grain=0"), HN_INVALID_ARGUMENT, "'grain=0'");
    EXPECT_ERROR(NAMED("rows", "ahead"), HN_INVALID_ARGUMENT, "'ahead'");
    EXPECT_OK(NAMED("rows", "ahead=7 vectors=8 grain=never"));
#undef NAMED
    end(&x);
}

/* ---- right results ---- */

static void race(fixture *x, const hn_form *const *forms, uint32_t count) {
    int64_t now = 0;
    const hn_bench_options bench = {.now_ns = ticks,
                                    .disturbances = nobody,
                                    .clock_user = &now,
                                    .sample_ns = 1,
                                    .warmup_ns = 1,
                                    .max_rounds = 2};
    const hn_forms_options options = {
        .forms = forms, .count = count, .threads = 2, .bench = &bench};
    hn_bench_report *report = NULL;
    EXPECT_OK(hn_forms_bench(&x->m.d, x->of.target, x->of.kernel, &options, &report));
    for (uint32_t k = 0; report && k < report->count; k++)
        if (report->results[k].state == HN_BENCH_DROPPED)
            HN_TEST_FAIL("%s %s: %s", report->results[k].name, forms[k]->parameters,
                         report->results[k].why);
    hn_bench_report_destroy(report);
}

/* The forms, and those around every third of them. */
TEST(all_forms_and_their_neighbours_are_right) {
    for (size_t s = 0; s < sizeof subjects / sizeof *subjects; s++) {
        const hn_form *forms[NAMES_MAX];
        fixture x;
        hn_variants set;
        uint32_t count = 0;
        begin(&x, subjects[s], &host);
        EXPECT_OK(hn_variants_list(&x.of, NULL, 0, &x.m.arena, &set));
        for (uint32_t k = 0; k < set.count; k++) {
            hn_form_name *names = NULL;
            uint32_t near = 0;
            forms[count++] = set.items[k].form;
            if (k % 3) continue;
            EXPECT_OK(hn_variant_neighbours(&x.of, &set.items[k].name, &x.m.arena, &names, &near));
            for (uint32_t n = 0; n < near && count + set.count - k < NAMES_MAX; n++) {
                hn_variant v = {.form = NULL};
                EXPECT_OK(hn_variant_named(&x.of, &names[n], &x.m.arena, &v));
                if (v.form) forms[count++] = v.form;
            }
        }
        race(&x, forms, count);
        end(&x);
    }
}

/* ---- identities ---- */

static hn_kernel_identity identity_of(const char *statements) {
    fixture x;
    hn_kernel_identity id = {.symbol_count = 0};
    begin(&x, statements, &host);
    EXPECT_OK(hn_kernel_identify(&x.of, &x.m.arena, &id));
    end(&x);
    return id;
}

static bool is_same(hn_kernel_identity a, hn_kernel_identity b) {
    return memcmp(&a.digest, &b.digest, sizeof a.digest) == 0;
}

TEST(an_identity_is_of_what_is_computed) {
#define SOFTMAX(a, b, inner)                                                                       \
    "symbol size " a " in [1, 9000] symbol size " b " in [1, 9000] input user %x : f32[" a         \
    ", " inner "] \"x\"\n %y = aten._softmax.default(%x, -1, false) : f32[" a ", " inner           \
    "]\n output user %y "                                                                          \
    "\"y\""
    const hn_kernel_identity id = identity_of(SOFTMAX("s0", "s1", "s1"));
    EXPECT(id.is_tunable);
    EXPECT_INT(id.symbol_count, 2);
    EXPECT(is_same(id, identity_of(SOFTMAX("batch", "tokens", "tokens"))));
    EXPECT(!is_same(id, identity_of(SOFTMAX("s0", "s1", "64"))));
    EXPECT_INT(identity_of(SOFTMAX("s0", "s1", "64")).symbol_count, 1);
    EXPECT(!is_same(identity_of(subjects[1]), identity_of(subjects[2])));
#undef SOFTMAX
}

/* ---- sizes ---- */

static const char two_symbols[] =
    "symbol size s0 in [2, 300] symbol size s1 in [1, 1048576] input user %x : f32[s0, s1] \"x\"\n %y = "
    "aten._softmax.default(%x, -1, false) : f32[s0, s1]\n output user %y \"y\"";

static uint32_t sets_with(const hn_variant_sizes *s, int64_t a, int64_t b) {
    uint32_t found = 0;
    for (uint32_t k = 0; k < s->count; k++)
        found += s->values[2 * k] == a && s->values[2 * k + 1] == b;
    return found;
}

TEST(sizes_are_hints_and_powers_of_four) {
    fixture x;
    hn_kernel_identity id;
    hn_variant_sizes sizes;
    begin(&x, two_symbols, &host);
    hn_sym_set_hint(x.m.d.sym, symbol(&x, "s0"), 7);
    EXPECT_OK(hn_kernel_identify(&x.of, &x.m.arena, &id));
    EXPECT_OK(hn_variant_sizes_list(&x.of, &id, NULL, &x.m.arena, &sizes));
    const uint32_t first = id.symbols[0] == symbol(&x, "s0") ? 0 : 1;
    EXPECT(sizes.count > 8 && sizes.count <= HN_VARIANT_SAMPLES);
    EXPECT_INT(sizes.values[first], 7);
    for (uint32_t k = 0; k < sizes.count; k++) {
        const int64_t value = sizes.values[2 * k + first], other = sizes.values[2 * k + 1 - first];
        EXPECT(value == 7 || value == 4 || value == 16 || value == 64 || value == 256);
        EXPECT(value * other * 4 <= HN_VARIANT_BYTES_MAX);
        EXPECT_INT(sets_with(&sizes, sizes.values[2 * k], sizes.values[2 * k + 1]), 1);
    }
    end(&x);
}

/* However few are taken: behind the corners, each is further from all before it than those behind
 * it are. */
TEST(the_first_sizes_cover_all) {
    fixture x;
    hn_kernel_identity id;
    hn_variant_sizes sizes;
    begin(&x, two_symbols, &host);
    EXPECT_OK(hn_kernel_identify(&x.of, &x.m.arena, &id));
    EXPECT_OK(
        hn_variant_sizes_list(&x.of, &id, &(hn_size_hints){.samples_max = 64}, &x.m.arena, &sizes));
    double before = INFINITY;
    for (uint32_t k = 5; k < sizes.count; k++) {
        double nearest = INFINITY;
        for (uint32_t j = 0; j < k; j++)
            nearest =
                fmin(nearest, hn_variant_distance(&sizes.values[2 * k], &sizes.values[2 * j], 2));
        EXPECT(nearest > 0 && nearest <= before);
        before = nearest;
    }
    const uint32_t rows = id.symbols[0] == symbol(&x, "s0") ? 0 : 1;
    uint32_t wide = 0, tall = 0, small = 0;
    for (uint32_t k = 0; k < 5; k++) {
        const int64_t s0 = sizes.values[2 * k + rows], s1 = sizes.values[2 * k + 1 - rows];
        wide += s0 <= 4 && s1 >= 65536, tall += s0 == 256 && s1 == 1, small += s0 == 4 && s1 == 1;
    }
    EXPECT(wide && tall && small);
    end(&x);
}

TEST(sizes_that_a_caller_names) {
    fixture x;
    hn_kernel_identity id;
    hn_variant_sizes sizes;
    const int64_t rows[] = {2, 64, 300}, columns[] = {1, 4096}, bad[] = {301};
    const hn_size_hint items[] = {{hn_str_of("s0"), rows, 3}, {hn_str_of("s1"), columns, 2}},
                       wrong[] = {{hn_str_of("s0"), bad, 1}};
    begin(&x, two_symbols, &host);
    EXPECT_OK(hn_kernel_identify(&x.of, &x.m.arena, &id));
    EXPECT_OK(hn_variant_sizes_list(&x.of, &id, &(hn_size_hints){.items = items, .count = 2},
                                    &x.m.arena, &sizes));
    EXPECT_INT(sizes.count, 6);
    const bool turned = id.symbols[0] != symbol(&x, "s0");
    for (uint32_t r = 0; r < 3; r++)
        for (uint32_t c = 0; c < 2; c++)
            EXPECT_INT(turned ? sets_with(&sizes, columns[c], rows[r])
                              : sets_with(&sizes, rows[r], columns[c]),
                       1);
    EXPECT_ERROR(hn_variant_sizes_list(&x.of, &id, &(hn_size_hints){.items = wrong, .count = 1},
                                       &x.m.arena, &sizes),
                 HN_INVALID_ARGUMENT, "'s0' cannot be 301: it is from 2 to 300");
    end(&x);
}

/* ---- over all sizes ---- */

TEST(a_table_of_what_is_expected) {
    fixture x;
    hn_kernel_identity id;
    hn_variant_sizes sizes;
    hn_variants set;
    hn_choice_times times;
    hn_choice_made made;
    uint32_t order[HN_VARIANTS_MAX];
    begin(&x, two_symbols, &host);
    EXPECT_OK(hn_kernel_identify(&x.of, &x.m.arena, &id));
    EXPECT_OK(hn_variant_sizes_list(&x.of, &id, NULL, &x.m.arena, &sizes));
    EXPECT_OK(hn_variants_over(&x.of, &sizes, 2, &x.m.arena, &set));
    EXPECT(set.count >= 2 && set.count <= HN_VARIANTS_MAX);
    for (uint32_t k = 0; k < sizes.count; k++) {
        uint64_t seen = 0;
        hn_variants_order(&set, k, order);
        for (uint32_t v = 0; v < set.count; v++) {
            seen |= (uint64_t)1 << order[v];
            EXPECT(v == 0 ||
                   set.ns[k * set.count + order[v - 1]] <= set.ns[k * set.count + order[v]]);
        }
        EXPECT(seen == ((uint64_t)1 << set.count) - 1);
    }
    EXPECT_OK(hn_variants_times(&set, &x.m.arena, &times));
    EXPECT_OK(hn_choice_make(&times, &x.m.arena, &made));
    for (uint32_t k = 0; k < sizes.count; k++) {
        int64_t at[HN_CHOICE_AXES] = {0};
        for (uint32_t a = 0; a < made.table.head.axis_count; a++)
            at[a] = sizes.values[k * sizes.symbol_count + made.axes[a]];
        const double *ns = &set.ns[k * set.count];
        hn_variants_order(&set, k, order);
        EXPECT(ns[hn_choice_pick(&made.table, at)] <= 1.5 * ns[order[0]]);
    }
    end(&x);
}

/* ---- GPUs ---- */

static const hn_compile_options gpu = {.threads = 2, .target = "sm_90a"};

TEST(forms_of_a_gpu) {
    for (size_t k = 0; k < sizeof subjects / sizeof *subjects; k++) {
        fixture x;
        hn_kernel_identity id;
        begin(&x, subjects[k], &gpu);
        check_names(&x, NULL, NULL);
        EXPECT_OK(hn_kernel_identify(&x.of, &x.m.arena, &id));
        EXPECT(id.is_tunable);
        end(&x);
    }
}

#define S0 "symbol size s0 in [1, 1048576] hint 8\n "
#define S1 "symbol size s1 in [1, 1048576] hint 1024\n "
static const char *const dynamic_subjects[] = {
    S0 S1 "input user %x : f32[s0, s1] \"x\"\n %y = aten._softmax.default(%x, -1, false) : f32[s0, "
          "s1]\n output user %y \"y\"",
    S0
    "input user %x : bf16[s0, 4096] \"x\"\n %y = aten._softmax.default(%x, -1, false) : bf16[s0, "
    "4096]\n output user %y \"y\"",
    S0 "input user %x : bf16[s0, 32768] \"x\"\n %y = aten._softmax.default(%x, -1, false) : "
       "bf16[s0, 32768]\n output user %y \"y\"",
    S0 "input user %x : f32[s0, 131072] \"x\"\n %y = aten._softmax.default(%x, -1, false) : "
       "f32[s0, 131072]\n output user %y \"y\"",
    "symbol size s0 in [1, 1048576] hint 2048\n input user %x : f32[s0, 131072] \"x\"\n %y = "
    "aten._softmax.default(%x, -1, false) : f32[s0, 131072]\n output user %y \"y\"",
    S0 "input user %x : f32[s0, 771] \"x\"\n input user %w : f32[771] \"w\"\n %y = "
       "aten.layer_norm.default(%x, [771], %w, %w, 1e-05, false) : f32[s0, 771]\n output user %y "
       "\"y\"",
    S0 S1 "input user %x : f32[s0, s1] \"x\"\n %y = sum(%x, dims=[0], keepdim=false)\n output user "
          "%y \"y\"",
    S0 S1 "input user %x : f32[s0, s1] \"x\"\n %t = permute(%x, dims=[1, 0])\n %z = exp(%x)\n %u = "
          "permute(%z, dims=[1, 0])\n %y = add(%t, %u)\n output user %y \"y\"",
    S0 S1 "input user %x : bf16[s0, s1] \"x\"\n %y = exp(%x)\n output user %y \"y\"",
    S0 "input user %x : f16[s0, 100] \"x\"\n %y = cumsum(%x, dim=1)\n output user %y \"y\"",
    S0
    "input user %x : f32[s0, 64] \"x\"\n input user %i : i64[s0] \"i\"\n input user %b : f32[50, "
    "64] \"b\"\n %y = aten.index_add.default(%b, 0, %i, %x) : f32[50, 64]\n output user %y "
    "\"y\"",
    "input user %x : f32[8192, 1024] \"x\"\n %m = sum(%x, dims=[1], keepdim=true)\n %d = sub(%x, "
    "%m)\n %s = sum(%d, dims=[0], keepdim=false)\n output user %d \"d\"\n output user %s \"s\"",
};

/* Sets of sizes at which all forms are listed; each is asked for at all others. */
static uint32_t list_symbols(fixture *x, hn_expr symbols[2]) {
    hn_kernel_identity id;
    EXPECT_OK(hn_kernel_identify(&x->of, &x->m.arena, &id));
    EXPECT(id.is_tunable && id.symbol_count <= 2);
    for (uint32_t k = 0; k < id.symbol_count; k++) symbols[k] = id.symbols[k];
    return id.symbol_count;
}

static void expect_costs(fixture *x, const hn_variants *set, const hn_ref_sizes *sizes) {
    for (uint32_t k = 0; k < set->count; k++) {
        double ns = 0;
        EXPECT_OK(hn_variant_cost(&x->of, &set->items[k].name, sizes, &ns));
        if (!(ns > 0))
            HN_TEST_FAIL("no cost of " HN_STR_FMT " " HN_STR_FMT,
                         HN_STR_ARG(set->items[k].name.name),
                         HN_STR_ARG(set->items[k].name.parameters));
    }
}

/* Kinds of forms that were seen. */
static const char *const shape_names[] = {"elements", "rows",    "rows-kept",    "rows-over-blocks",
                                          "tiles",    "scatter", "slabs-of-rows"};
enum { SHAPES = sizeof shape_names / sizeof *shape_names };
static unsigned seen_shapes;

static unsigned shapes_of(const hn_variants *set) {
    unsigned seen = 0;
    for (uint32_t k = 0; k < set->count; k++)
        for (uint32_t s = 0; s < SHAPES; s++)
            if (hn_str_eq(set->items[k].name.name, hn_str_of(shape_names[s]))) seen |= 1u << s;
    return seen;
}

/* All forms at some sizes, where others are expected. */
static void check_kernel(fixture *x) {
    static const int64_t values[][2] = {{3, 17}, {1, 1000}, {512, 48}, {64, 4096}, {65536, 513}};
    enum { SETS = sizeof values / sizeof *values };
    hn_expr symbols[2];
    const uint32_t count = list_symbols(x, symbols);
    for (uint32_t a = 0; a < SETS; a++)
        for (uint32_t b = 0; b < SETS; b++) {
            const hn_ref_sizes at = {symbols, values[a], count},
                               other = {symbols, values[b], count};
            hn_variants set;
            check_names(x, &at, &other);
            EXPECT_OK(hn_variants_list(&x->of, &at, 0, &x->m.arena, &set));
            expect_costs(x, &set, &other);
            seen_shapes |= shapes_of(&set);
        }
}

TEST(forms_of_a_gpu_at_any_size_have_names_at_all_sizes) {
    for (size_t k = 0; k < sizeof dynamic_subjects / sizeof *dynamic_subjects; k++) {
        fixture x;
        begin(&x, dynamic_subjects[k], &gpu);
        for (uint32_t s = 0; s < x.m.d.schedule.steps.count; s++) {
            x.of.kernel = x.m.d.schedule.steps.items[s].kernel;
            if (x.of.kernel) check_kernel(&x);
        }
        end(&x);
    }
    EXPECT_INT(seen_shapes, (1u << SHAPES) - 1);
}

/* More forms than there is room for: the best one of each set of sizes is there, and so the table
 * has it. */
TEST(forms_over_many_sizes_have_the_best_of_each) {
    fixture x;
    hn_kernel_identity id;
    hn_variant_sizes sizes;
    hn_variants set, one;
    begin(&x, dynamic_subjects[0], &gpu);
    EXPECT_OK(hn_kernel_identify(&x.of, &x.m.arena, &id));
    EXPECT_OK(hn_variant_sizes_list(&x.of, &id, NULL, &x.m.arena, &sizes));
    EXPECT_OK(hn_variants_over(&x.of, &sizes, 0, &x.m.arena, &set));
    EXPECT_INT(set.count, HN_VARIANTS_MAX);
    for (uint32_t k = 0; k < sizes.count; k++) {
        const hn_ref_sizes at = hn_variant_sizes_at(&sizes, k);
        bool found = false;
        EXPECT_OK(hn_variants_list(&x.of, &at, 1, &x.m.arena, &one));
        for (uint32_t v = 0; v < set.count; v++) {
            const bool is_best = hn_form_name_eq(&set.items[v].name, &one.items[0].name);
            found |= is_best;
            EXPECT(!is_best || set.ns[k * set.count + v] == one.items[0].ns);
            EXPECT(set.ns[k * set.count + v] > 0);
        }
        EXPECT(found);
    }
    end(&x);
}

/* What is near differs, fits, and has a name of its own; from two forms of most kinds something is
 * near. */
static void check_near(fixture *x, const hn_variant *v, uint32_t *total) {
    hn_form_name *names, *around;
    uint32_t count, around_count;
    EXPECT_OK(hn_variant_neighbours(&x->of, &v->name, &x->m.arena, &names, &count));
    EXPECT_OK(hn_variants_around(&x->of, &v->name, 1, &x->m.arena, &around, &around_count));
    EXPECT_INT(around_count, count);
    for (uint32_t n = 0; n < count; n++) {
        hn_variant near = {.form = NULL};
        EXPECT(hn_form_name_eq(&names[n], &around[n]));
        EXPECT(!hn_form_name_eq(&names[n], &v->name));
        EXPECT_OK(hn_variant_named(&x->of, &names[n], &x->m.arena, &near));
        if (near.form) EXPECT(hn_form_name_eq(&near.name, &names[n]) && near.ns > 0);
        if (near.form && is_same_form(x, v->form, near.form))
            HN_TEST_FAIL(HN_STR_FMT " " HN_STR_FMT " has the form of " HN_STR_FMT,
                         HN_STR_ARG(v->name.name), HN_STR_ARG(v->name.parameters),
                         HN_STR_ARG(names[n].parameters));
    }
    *total += count;
}

TEST(neighbours_of_a_gpu) {
    for (size_t k = 0; k < sizeof dynamic_subjects / sizeof *dynamic_subjects; k++) {
        fixture x;
        hn_variants set;
        uint32_t total = 0;
        begin(&x, dynamic_subjects[k], &gpu);
        EXPECT_OK(hn_variants_list(&x.of, NULL, 0, &x.m.arena, &set));
        for (uint32_t v = 0; v < set.count; v += 3) check_near(&x, &set.items[v], &total);
        if (total < 4) HN_TEST_FAIL("%zu: %u forms are near", k, total);
        end(&x);
    }
}

/* Two steps lead further than one, and to forms that differ in two numbers. */
TEST(forms_around_another_one) {
    for (int on_gpu = 0; on_gpu < 2; on_gpu++) {
        fixture x;
        hn_variant v;
        hn_form_name *one, *two;
        uint32_t ones, twos;
        begin(&x, subjects[0], on_gpu ? &gpu : &host);
        EXPECT_OK(hn_variant_planned(&x.of, &x.m.arena, &v));
        EXPECT_OK(hn_variants_around(&x.of, &v.name, 1, &x.m.arena, &one, &ones));
        EXPECT_OK(hn_variants_around(&x.of, &v.name, 2, &x.m.arena, &two, &twos));
        EXPECT(ones > 1 && twos > ones && twos <= HN_VARIANTS_AROUND_MAX);
        for (uint32_t k = 0; k < ones; k++) EXPECT(hn_form_name_eq(&one[k], &two[k]));
        for (uint32_t k = 0; k < twos; k++)
            for (uint32_t e = 0; e < k; e++) EXPECT(!hn_form_name_eq(&two[k], &two[e]));
        end(&x);
    }
}

TEST(names_of_a_gpu_that_are_none) {
    fixture x;
    hn_variant v;
    begin(&x, subjects[0], &gpu);
#define NAMED(kind, text)                                                                          \
    hn_variant_named(&x.of, &(hn_form_name){hn_str_of(kind), hn_str_of(text)}, &x.m.arena, &v)
#define WHOLE(threads, rows, vector, unroll, more)                                                 \
    "threads=" threads " rows=" rows " vector=" vector " unroll=" unroll                           \
    " blocks=0 slabs=0 stages=0 tile=0 parts=0 resident=0" more
    EXPECT_ERROR(NAMED("looped", ""), HN_NOT_FOUND, "no form 'looped'; it has rows, rows-kept");
    EXPECT_ERROR(NAMED("tiles", ""), HN_NOT_FOUND, "no form 'tiles'; it has rows");
    EXPECT_ERROR(NAMED("rows", "width=8"), HN_INVALID_ARGUMENT, "no parameter 'width=8'");
    EXPECT_ERROR(NAMED("rows", "rows=x"), HN_INVALID_ARGUMENT, "'rows=x'");
    EXPECT_ERROR(NAMED("rows", "rows=1 rows=1"), HN_INVALID_ARGUMENT, "'rows=1'");
    EXPECT_ERROR(NAMED("rows", "keeps"), HN_INVALID_ARGUMENT, "'keeps'");
    EXPECT_ERROR(NAMED("rows", WHOLE("96", "64", "1", "1", "")), HN_INVALID_ARGUMENT, "96 threads");
    EXPECT_ERROR(NAMED("rows", WHOLE("4096", "1", "1", "1", "")), HN_NOT_FOUND, "does not fit");
    EXPECT_ERROR(NAMED("rows", WHOLE("96", "1", "1", "1", "")), HN_NOT_FOUND, "does not fit");
    EXPECT_ERROR(NAMED("rows", WHOLE("64", "1", "16", "1", "")), HN_NOT_FOUND, "does not fit");
    EXPECT_ERROR(NAMED("rows", WHOLE("64", "1", "1", "1", " guard=1")), HN_NOT_FOUND,
                 "does not fit");
    EXPECT_ERROR(NAMED("rows-kept", WHOLE("64", "2", "1", "1", "")), HN_NOT_FOUND, "does not fit");
    EXPECT_OK(NAMED("rows", WHOLE("64", "2", "1", "1", "")));
    /* what is left out the planner chooses */
    EXPECT_OK(NAMED("rows-kept", "rows=4"));
    EXPECT(v.ns > 0 && strstr(v.form->parameters, " rows=4 "));
    EXPECT_OK(NAMED("rows", ""));
#undef WHOLE
#undef NAMED
    end(&x);
}

TEST_MAIN
