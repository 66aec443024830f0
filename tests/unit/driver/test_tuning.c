/* test_tuning.c: which form a kernel gets; what is timed, and what is
 * not. No test depends on which form is the fastest here. */
#include "driver/known.h"
#include "driver/tuning.h"
#include "tune/record.h"
#include "unit/harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct fixture {
    hn_arena arena;
    hn_graph *graph;
    hn_driver d;
    hn_service *service;
} fixture;

/* A sum down columns, which has two forms. */
static const char sum[] =
    "input user %x : f32[70, 40] \"x\"\n %y = sum(%x, dims=[0], keepdim=false) "
    "at \"total\" \"m.py:1\"\n output user %y \"y\"";

static void begin_in(fixture *x, const char *statements, const hn_compile_options *options,
                     const char *cache_dir) {
    hn_strbuf text;
    hn_strbuf_init(&text);
    memset(x, 0, sizeof *x);
    hn_arena_init(&x->arena);
    hn_strbuf_printf(&text, "graph {\n%s\n}\n", statements);
    EXPECT_OK(hn_service_create(&(hn_service_options){.threads = 1, .cache_dir = cache_dir},
                                &x->service));
    hn_driver_init(&x->d, options, x->service);
    EXPECT_OK(hn_sym_create(&x->arena, &x->d.sym));
    EXPECT_OK(hn_graph_parse(&x->arena, x->d.sym, hn_strbuf_str(&text), &x->graph));
    x->d.graph = x->graph;
    EXPECT_OK(hn_driver_targets(&x->d));
    EXPECT_OK(hn_driver_tables_open(&x->d));
    EXPECT_OK(hn_driver_passes(&x->d));
    EXPECT_OK(hn_driver_kernels(&x->d));
    hn_strbuf_deinit(&text);
}

static void begin(fixture *x, const char *statements, const hn_compile_options *options) {
    begin_in(x, statements, options, "");
}

static void end(fixture *x) {
    hn_driver_deinit(&x->d);
    hn_service_destroy(x->service);
    hn_graph_deinit(x->graph);
    hn_arena_deinit(&x->arena);
}

/* The n-th kernel of the schedule. */
static const hn_kernel *kernel_of(const fixture *x, uint32_t n, uint32_t *out_step) {
    for (uint32_t k = 0; k < x->d.schedule.steps.count; k++) {
        if (x->d.schedule.steps.items[k].kind != HN_STEP_KERNEL || n--) continue;
        *out_step = k;
        return x->d.schedule.steps.items[k].kernel;
    }
    HN_TEST_FAIL("%s", "too few kernels");
    return NULL;
}

/* ---- which form a kernel gets ---- */

/* The fastest is form `pick` of the set, by far. */
static void print_record(const hn_tunable *t, uint32_t pick, hn_str device, int64_t size,
                         hn_strbuf *out) {
    hn_form_timing forms[HN_VARIANTS_MAX];
    memset(forms, 0, sizeof forms);
    for (uint32_t k = 0; k < t->set.count; k++) {
        const double ratio = k == pick ? 1 : 2, ns = 100 * ratio;
        forms[k] = (hn_form_timing){.form = t->names[k],
                                    .median_ns = ns,
                                    .low_ns = ns,
                                    .high_ns = ns,
                                    .samples = 9,
                                    .ratio = ratio,
                                    .ratio_low = ratio,
                                    .ratio_high = ratio};
    }
    hn_tuning_record r = {.kernel = t->name,
                          .digest = t->id.digest,
                          .size_count = t->id.symbol_count,
                          .device = device,
                          .forms = forms,
                          .form_count = t->set.count,
                          .pick = pick,
                          .how = HN_TUNING_TIMED,
                          .tool = HN_STR("test")};
    for (uint32_t s = 0; s < r.size_count; s++) r.sizes[s] = size, r.symbols[s] = HN_STR("s0");
    EXPECT_OK(hn_tuning_record_check(&r));
    hn_tuning_record_print(&r, out);
}

/* Sizes that have records, where a kernel has any. */
static const int64_t recorded[] = {4, 64, 1024};
enum { RECORDED = sizeof recorded / sizeof *recorded };

/* A file with records for the one kernel of `x`, one for each value of its size symbol, if it has
 * one: the n-th picks form picks[n] of the set. */
static void write_records(const fixture *x, const int64_t *sizes, const uint32_t *picks,
                          uint32_t count, const char *path) {
    hn_tunable t;
    hn_strbuf device, text;
    uint32_t step;
    fixture *w = (fixture *)x;
    hn_strbuf_init(&device);
    hn_strbuf_init(&text);
    EXPECT_OK(
        hn_tunable_identify(&w->d, &w->d.levels[0].target, kernel_of(x, 0, &step), &w->arena, &t));
    EXPECT_OK(hn_tunable_complete(&t, &w->arena));
    EXPECT_OK(hn_driver_tuning_device(&w->d, &w->d.levels[0].target, &device));
    EXPECT(t.set.count >= 2);
    for (uint32_t n = 0; n < count; n++)
        print_record(&t, picks[n], hn_strbuf_str(&device), sizes ? sizes[n] : 0, &text);
    FILE *f = fopen(path, "w");
    EXPECT(f && fputs(text.ptr, f) >= 0);
    if (f) fclose(f);
    hn_strbuf_deinit(&device);
    hn_strbuf_deinit(&text);
}

/* Records that all pick the same form. */
static void write_record(const fixture *x, bool is_dynamic, uint32_t pick, const char *path) {
    write_records(x, recorded, (const uint32_t[]){pick, pick, pick}, is_dynamic ? RECORDED : 1,
                  path);
}

static void name_of(const fixture *x, char out[24]) {
    uint32_t step;
    (void)kernel_of(x, 0, &step);
    memcpy(out, x->d.levels[0].step_kernels[step].name, 24);
    EXPECT_INT(x->d.levels[0].step_kernels[step].is_picked, x->d.picks->decided.count > 0);
}

/* The name of the kernel's text when a file says form `pick`. */
static void picked_name(uint32_t pick, const char *file, char out[24], uint32_t *out_decided) {
    const hn_compile_options plain = {.threads = 2}, tuned = {.threads = 2, .tuning = file};
    fixture x;
    begin(&x, sum, &plain);
    write_records(&x, NULL, &pick, 1, file);
    end(&x);
    begin(&x, sum, &tuned);
    name_of(&x, out);
    *out_decided = x.d.picks->decided.count;
    end(&x);
}

TEST(a_record_decides_and_the_model_of_costs_where_there_is_none) {
    char dir[] = "/tmp/henry_tuning_XXXXXX", file[64], guess[24], names[2][24];
    uint32_t decided;
    fixture x;
    EXPECT(mkdtemp(dir) != NULL);
    snprintf(file, sizeof file, "%s/t.json", dir);
    begin(&x, sum, &(hn_compile_options){.threads = 2});
    name_of(&x, guess);
    EXPECT_INT(x.d.picks->decided.count, 0);
    end(&x);
    for (uint32_t k = 0; k < 2; k++) {
        picked_name(k, file, names[k], &decided);
        EXPECT_INT(decided, 1);
    }
    EXPECT(strcmp(names[0], names[1]) != 0);
    /* a record of another number of threads is of another device */
    begin(&x, sum, &(hn_compile_options){.threads = 3, .tuning = file});
    EXPECT_INT(x.d.picks->decided.count, 0);
    end(&x);
    /* what is measured has no say where results must not depend on it */
    begin(&x, sum, &(hn_compile_options){.threads = 2, .tuning = file, .deterministic = true});
    EXPECT_INT(x.d.picks->decided.count, 0);
    end(&x);
    unlink(file);
    rmdir(dir);
}

/* What a person does: another pick in the lines from `first` on, and nothing else. */
static void edit_picks(const char *path, uint32_t first, const hn_form_name *pick) {
    hn_strbuf from, to;
    hn_strbuf_init(&from);
    hn_strbuf_init(&to);
    EXPECT_OK(hn_file_read(path, &from));
    const char *at = from.ptr;
    for (uint32_t line = 0; at && *at; line++) {
        const char *begin = strstr(at, "\"pick\":\"") + 8, *end = strchr(begin, '"');
        hn_strbuf_append(&to, at, (size_t)(begin - at));
        if (line >= first) hn_form_name_print(pick, &to);
        else hn_strbuf_append(&to, begin, (size_t)(end - begin));
        at = strchr(end, '\n') + 1;
        hn_strbuf_append(&to, end, (size_t)(at - end));
    }
    EXPECT_OK(hn_file_write_atomic(path, to.ptr, to.len, false));
    hn_strbuf_deinit(&from);
    hn_strbuf_deinit(&to);
}

/* How many forms the one kernel has, as a file of records says. */
static uint32_t count_forms(const char *statements, const char *file, char out_name[24]) {
    fixture x;
    uint32_t step;
    begin(&x, statements, &(hn_compile_options){.threads = 2, .tuning = file});
    (void)kernel_of(&x, 0, &step);
    name_of(&x, out_name);
    const uint32_t count = 1 + x.d.levels[0].step_kernels[step].variant_count;
    end(&x);
    return count;
}

/* The last form of a set is twice as slow as the first, says the file; but that is what it
 * picks. */
static void check_edited(const char *statements, bool is_dynamic) {
    char dir[] = "/tmp/henry_tuning_XXXXXX", file[64], first[24], names[2][24];
    hn_tunable t;
    uint32_t step;
    fixture x;
    EXPECT(mkdtemp(dir) != NULL);
    snprintf(file, sizeof file, "%s/t.json", dir);
    begin(&x, statements, &(hn_compile_options){.threads = 2});
    EXPECT_OK(
        hn_tunable_identify(&x.d, &x.d.levels[0].target, kernel_of(&x, 0, &step), &x.arena, &t));
    EXPECT_OK(hn_tunable_complete(&t, &x.arena));
    write_record(&x, is_dynamic, t.set.count - 1, file);
    EXPECT_INT(count_forms(statements, file, names[0]), 1);
    write_record(&x, is_dynamic, 0, file);
    EXPECT_INT(count_forms(statements, file, first), 1);
    edit_picks(file, 0, &t.names[t.set.count - 1]);
    EXPECT_INT(count_forms(statements, file, names[1]), 1);
    EXPECT_STR(names[1], names[0]);
    EXPECT(strcmp(first, names[0]) != 0);
    write_record(&x, is_dynamic, 0, file);
    edit_picks(file, 1, &t.names[t.set.count - 1]);
    EXPECT_INT(count_forms(statements, file, names[1]), is_dynamic ? 2 : 1);
    end(&x);
    unlink(file);
    rmdir(dir);
}

static const char dynamic[] =
    "symbol size s0 in [1, 4096] hint 8\n input user %x : f32[s0, 100] \"x\"\n %y = "
    "aten._softmax.default(%x, -1, false) : f32[s0, 100]\n output user %y \"y\"";

TEST(a_pick_that_is_changed_is_obeyed) {
    check_edited(sum, false);
    check_edited(dynamic, true);
}

/* What a compilation with a file of records counts; how many forms the one kernel has. */
static uint32_t count_tuned(const char *statements, const char *file, hn_metrics *out) {
    fixture x;
    uint32_t step;
    begin(&x, statements, &(hn_compile_options){.threads = 2, .tuning = file});
    EXPECT_OK(hn_driver_count(&x.d));
    *out = x.d.metrics;
    (void)kernel_of(&x, 0, &step);
    const uint32_t forms = 1 + x.d.levels[0].step_kernels[step].variant_count;
    end(&x);
    return forms;
}

TEST(kernels_that_records_decide_are_counted) {
    static const char any_rows[] =
        "symbol size s0 in [1, 100000] hint 8\n input user %x : f32[s0, 100] \"x\"\n "
        "%y = sum(%x, dims=[0], keepdim=false)\n output user %y \"y\"";
    char dir[] = "/tmp/henry_tuning_XXXXXX", file[64];
    hn_metrics m;
    fixture x;
    EXPECT(mkdtemp(dir) != NULL);
    snprintf(file, sizeof file, "%s/t.json", dir);
    for (int several = 0; several < 2; several++) {
        begin(&x, several ? any_rows : sum, &(hn_compile_options){.threads = 2});
        EXPECT_OK(hn_driver_count(&x.d));
        EXPECT_INT(hn_metrics_value(&x.d.metrics, "kernels_picked"), 0);
        EXPECT_INT(hn_metrics_value(&x.d.metrics, "tuning_ns"), 0);
        write_records(&x, (const int64_t[]){8, 50000}, (const uint32_t[]){0, 1}, 1 + several, file);
        end(&x);
        const uint32_t forms = count_tuned(several ? any_rows : sum, file, &m);
        EXPECT(several ? forms >= 2 : forms == 1);
        EXPECT_INT(hn_metrics_value(&m, "kernels_picked"), 1);
        EXPECT_INT(hn_metrics_value(&m, "kernels_of_variants"), several);
        EXPECT_INT(hn_metrics_value(&m, "kernel_variants"), several ? forms : 0);
    }
    unlink(file);
    rmdir(dir);
}

/* ---- what is timed ---- */

/* Two equal sums, one behind the other. */
static const char two_sums[] =
    "input user %x : f32[1, 40] \"x\"\n input user %w : f32[40, 2800] \"w\"\n input user %e : "
    "f32[90] \"e\"\n %a = aten.mm.default(%x, %w) : f32[1, 2800]\n %b = aten.view.default(%a, [70, "
    "40]) : f32[70, 40]\n %c = sum(%b, dims=[0], keepdim=true)\n %d = aten.mm.default(%c, %w) : "
    "f32[1, 2800]\n %f = aten.view.default(%d, [70, 40]) : f32[70, 40]\n %h = sum(%f, dims=[0], "
    "keepdim=true)\n %y = aten.mm.default(%h, %w) : f32[1, 2800]\n %g = exp(%e)\n output user %y "
    "\"y\"\n output user %g \"g\"";

static const hn_tuned_kernel *launched(const hn_tune_report *r, uint32_t times) {
    for (uint32_t k = 0; k < r->kernel_count; k++)
        if (r->kernels[k].launches == times && r->kernels[k].form_count > 1) return &r->kernels[k];
    HN_TEST_FAIL("no kernel of several forms is launched %u times", times);
    return r->kernels;
}

TEST(equal_kernels_are_timed_once_and_known_ones_not_at_all) {
    char dir[] = "/tmp/henry_tuning_XXXXXX", command[80];
    const hn_compile_options options = {.threads = 1, .tune = HN_TUNE_MISSING};
    fixture x;
    EXPECT(mkdtemp(dir) != NULL);
    for (int round = 0; round < 2; round++) {
        begin_in(&x, two_sums, &options, dir);
        const hn_tune_report *r = x.d.tuned;
        const hn_tuned_kernel *k = launched(r, 2);
        EXPECT_INT(k->how, round ? HN_TUNED_KNOWN : HN_TUNED_NOW);
        EXPECT_STR(k->why, round ? "the cache" : "");
        EXPECT(round ? !r->timed_calls : r->timed_calls > 0);
        EXPECT(round ? !r->timed_kernels : r->timed_kernels > 0);
        EXPECT(r->is_complete);
        EXPECT(k->forms[k->pick].samples > 0 && k->forms[k->pick].median_ns > 0);
        EXPECT(strstr(r->records, "\"record\":") == r->records + 1);
        EXPECT(x.d.picks->decided.count > 0);
        EXPECT_OK(hn_driver_count(&x.d));
        EXPECT_INT(hn_metrics_value(&x.d.metrics, "kernels_tuned"), r->timed_kernels);
        EXPECT((hn_metrics_value(&x.d.metrics, "tuning_runs") > 0) == !round);
        EXPECT(hn_metrics_value(&x.d.metrics, "tuning_ns") > 0); /* to look them up, too */
        end(&x);
    }
    snprintf(command, sizeof command, "rm -rf %s", dir);
    EXPECT_INT(system(command), 0);
}

/* ---- sizes that differ from call to call ---- */

static bool has_sizes(const hn_tune_report *r, const char *sizes) {
    for (uint32_t k = 0; k < r->kernel_count; k++)
        if (strcmp(r->kernels[k].sizes, sizes) == 0) return true;
    return false;
}

TEST(kernels_are_timed_at_the_sizes_that_are_named) {
    static const char *const hints[] = {"s0=3,64"};
    hn_compile_options options = {.threads = 1,
                                  .tune = HN_TUNE_MISSING,
                                  .tune_hints = hints,
                                  .tune_hint_count = 1,
                                  .tune_budget_ns = INT64_C(600000000000)};
    fixture x;
    begin(&x, dynamic, &options);
    EXPECT_INT(x.d.tuned->kernel_count, 2);
    EXPECT(has_sizes(x.d.tuned, "s0=3") && has_sizes(x.d.tuned, "s0=64"));
    EXPECT(x.d.tuned->is_complete);
    for (uint32_t k = 0; k < x.d.tuned->kernel_count; k++)
        EXPECT_INT(x.d.tuned->kernels[k].how, HN_TUNED_NOW);
    EXPECT_INT(x.d.picks->decided.count, 2);
    end(&x);
    options.tune_hint_count = 0;
    options.tune_budget_ns = 1;
    begin(&x, dynamic, &options);
    EXPECT(has_sizes(x.d.tuned, "s0=8") && has_sizes(x.d.tuned, "s0=4096"));
    EXPECT(!x.d.tuned->is_complete);
    end(&x);
}

TEST(hints_that_are_none_are_refused) {
    static const char *const texts[] = {
        "s0",
        "=3",
        "s0=",
        "s0=3,",
        "s0=x",
        "s0=-1",
        "s0=3;4",
        "s0=,",
        "",
        "s0=1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31,32,33",
        "s0=99999999999999999999"};
    hn_size_hints hints;
    fixture x;
    for (uint32_t k = 0; k < sizeof texts / sizeof *texts; k++) {
        hn_compile_options options = {.threads = 1, .tune_hints = &texts[k]};
        begin(&x, sum, &options);
        options.tune_hint_count = 1;
        EXPECT_ERROR(hn_size_hints_parse(&x.d, &hints), HN_INVALID_ARGUMENT, "NAME=N,N");
        end(&x);
    }
}

/* ---- results in place ---- */

/* Between two products: nobody needs what the kernel reads any more, so that its result lies there.
 * Where a product of the same comes later, it does not. */
#define BETWEEN(more)                                                                              \
    "input user %x : f32[70, 40] \"x\"\n input user %w : f32[40, 40] \"w\"\n %a = "                \
    "aten.mm.default(%x, %w) : f32[70, 40]\n %s = sum(%a, dims=[1], keepdim=true)\n %b = div(%a, " \
    "%s)\n %y = aten.mm.default(%b, %w) : f32[70, 40]\n " more "output user %y \"y\""

static uint32_t count_overs(fixture *x, bool *out_right) {
    hn_tune_jobs jobs;
    uint32_t count = 0;
    *out_right = true;
    EXPECT_OK(hn_tune_jobs_list(&x->d, &jobs));
    EXPECT_OK(hn_tune_overs_find(&x->d, &jobs));
    for (uint32_t k = 0; k < jobs.count; k++)
        for (uint32_t o = 0; o < jobs.items[k]->kernel->overs.count; o++) {
            const hn_forms_over over = jobs.items[k]->kernel->overs.items[o];
            const hn_kernel *kernel = jobs.items[k]->kernel->t.of.kernel;
            *out_right &= over.over != over.result && kernel->loop_count > 0 &&
                          kernel->loops[kernel->loop_count - 1].loop.store.buffer == over.result;
            count++;
        }
    return count;
}

TEST(results_in_place_are_timed_in_place) {
    bool is_right;
    fixture x;
    begin(&x, BETWEEN(""), &(hn_compile_options){.threads = 1});
    EXPECT_INT(count_overs(&x, &is_right), 1);
    EXPECT(is_right);
    end(&x);
    begin(&x, BETWEEN("%z = aten.mm.default(%a, %w) : f32[70, 40]\n output user %z \"z\"\n "),
          &(hn_compile_options){.threads = 1});
    EXPECT_INT(count_overs(&x, &is_right), 0);
    end(&x);
    /* the forms are right there, too */
    begin(&x, BETWEEN(""), &(hn_compile_options){.threads = 1, .tune = HN_TUNE_MISSING});
    const hn_tuned_kernel *k = launched(x.d.tuned, 1);
    EXPECT_INT(k->how, HN_TUNED_NOW);
    for (uint32_t f = 0; f < k->form_count; f++) EXPECT_STR(k->forms[f].why, "");
    end(&x);
}

/* ---- budgets and reports ---- */

static const char soft[] =
    "input user %x : f32[70, 40] \"x\"\n %m = amax(%x, dims=[1], keepdim=true)\n %d = sub(%x, "
    "%m)\n %e = exp(%d)\n %s = sum(%e, dims=[1], keepdim=true)\n %y = div(%e, %s)\n output user "
    "%y \"y\"";

TEST(a_search_keeps_what_it_has_timed) {
    fixture x;
    begin(&x, soft,
          &(hn_compile_options){
              .threads = 1, .tune = HN_TUNE_MISSING, .tune_budget_ns = INT64_C(600000000000)});
    const hn_tuned_kernel *k = launched(x.d.tuned, 1);
    uint32_t extra = 0;
    for (uint32_t f = 0; f < k->form_count; f++) {
        extra += k->forms[f].is_extra;
        if (k->forms[f].is_extra) EXPECT(k->forms[f].samples > 0 || *k->forms[f].why);
        for (uint32_t g = 0; g < f; g++)
            EXPECT(strcmp(k->forms[f].name, k->forms[g].name) != 0 ||
                   strcmp(k->forms[f].parameters, k->forms[g].parameters) != 0);
    }
    EXPECT(extra > 0); /* the neighbours of whatever is the fastest of the set */
    EXPECT(k->forms[k->pick].samples > 0);
    EXPECT_INT(x.d.picks->decided.count, 1);
    end(&x);
}

/* A column of a row that is a JSON object, as it stands there. */
static const char *cell(const char *row, const char *column, char out[160]) {
    char key[80];
    snprintf(key, sizeof key, "\"%s\":", column);
    const char *at = row ? strstr(row, key) : NULL;
    const size_t len = at ? strcspn(at += strlen(key), ",}\n") : 0;
    snprintf(out, 160, "%.*s", (int)len, at ? at : "");
    return out;
}

/* All columns have a value in some row, but for those of forms that need not be there. */
static void expect_columns(hn_table_id id, const char *rows, const char *but) {
    const hn_metric_table *t = hn_metric_table_get(id);
    for (uint32_t c = 0; rows && c < t->column_count; c++) {
        char key[80], null[88];
        uint32_t all = 0, empty = 0;
        snprintf(key, sizeof key, "\"%s\":", t->columns[c].name);
        snprintf(null, sizeof null, "%snull", key);
        for (const char *at = rows; (at = strstr(at, key)); at++) {
            all++;
            empty += strncmp(at, null, strlen(null)) == 0;
        }
        if (all == empty && !strstr(but, t->columns[c].name))
            HN_TEST_FAIL("no row of '%s' has a value for '%s'", t->name, t->columns[c].name);
    }
}

TEST(forms_that_were_timed_are_rows_of_tables) {
    fixture x;
    char text[160], pick[200];
    uint32_t picks = 0;
    begin(
        &x, sum,
        &(hn_compile_options){.threads = 1,
                              .tune = HN_TUNE_MISSING,
                              .metric_tables = "kernel_autotune.jsonl,persistent_red_perf.jsonl"});
    const hn_tuned_kernel *k = launched(x.d.tuned, 1);
    const hn_tuned_form *best = &k->forms[k->pick];
    const char *forms = x.d.tables.rows[HN_TABLE_KERNEL_AUTOTUNE][1].ptr,
               *sums = x.d.tables.rows[HN_TABLE_PERSISTENT_RED_PERF][1].ptr;
    snprintf(pick, sizeof pick, "\"%s%s%s\"", best->name, *best->parameters ? " " : "",
             best->parameters);
    expect_columns(HN_TABLE_KERNEL_AUTOTUNE, forms, "");
    for (const char *row = forms; row && *row; row = strchr(row, '\n') + 1) {
        EXPECT_STR(cell(row, "kernel_name", text), "\"total\"");
        EXPECT_STR(cell(row, "size_hints", text), "\"40 70\"");
        if (strcmp(cell(row, "is_pick", text), "true") != 0) continue;
        picks++;
        EXPECT_STR(cell(row, "config", text), pick);
        EXPECT_INT(atoi(cell(row, "samples", text)), best->samples);
        EXPECT_STR(cell(row, "is_certain", text), k->is_certain ? "true" : "false");
        EXPECT(atof(cell(row, "latency_low", text)) <= best->median_ns);
        EXPECT(atof(cell(row, "latency_high", text)) >= best->median_ns);
    }
    EXPECT_INT(picks, 1);
    /* of two forms, and what a search has found */
    expect_columns(HN_TABLE_PERSISTENT_RED_PERF, sums,
                   "kernel2_name kernel2_latency kernel3_name kernel3_latency");
    EXPECT_STR(cell(sums, "size_hints", text), "\"40 70\"");
    EXPECT_STR(cell(sums, "pick_name", text), pick);
    const char *first = sums ? strstr(sums, pick) : NULL;
    EXPECT(first && strstr(first + 1, pick)); /* it is one of the four, and the pick */
    end(&x);
}

/* What a model was tuned with: an entry of another model is not found, and a damaged one is
 * none. */
TEST(what_a_model_was_tuned_with_is_kept) {
    static const char *const hints[] = {"s0=3"};
    char dir[] = "/tmp/henry_tuning_XXXXXX", command[80];
    const hn_compile_options plain = {.threads = 1},
                             hinted = {.threads = 1, .tune_hints = hints, .tune_hint_count = 1};
    const hn_digest key = hn_digest_of("key", 3);
    hn_known_tuning known;
    hn_cache *cache;
    fixture x;
    EXPECT(mkdtemp(dir) != NULL);
    for (int round = 0; round < 2; round++) {
        begin_in(&x, sum, round ? &hinted : &plain, dir);
        EXPECT_OK(hn_service_cache(x.service, &cache));
        hn_known_tuning_init(&known);
        known.key = key;
        if (!round) EXPECT_OK(hn_known_tuning_keep(&x.d, cache, &known, HN_STR("lines\n"), true));
        hn_strbuf_reset(&known.text);
        EXPECT(hn_tuning_get(cache, &key, &known.text));
        EXPECT_OK(hn_known_tuning_read(&x.d, &known));
        EXPECT(hn_str_eq(known.records, HN_STR("lines\n")));
        EXPECT(known.is_complete == !round); /* for the sizes that were named */
        hn_strbuf_reset(&known.text);
        hn_strbuf_puts(&known.text, "no end of a line");
        EXPECT_OK(hn_known_tuning_read(&x.d, &known));
        EXPECT(!known.is_complete && !known.records.len);
        hn_known_tuning_deinit(&known);
        end(&x);
    }
    snprintf(command, sizeof command, "rm -rf %s", dir);
    EXPECT_INT(system(command), 0);
}

TEST(a_budget_that_is_over_leaves_the_guess) {
    fixture x;
    begin(&x, sum,
          &(hn_compile_options){.threads = 1, .tune = HN_TUNE_MISSING, .tune_budget_ns = 1});
    const hn_tuned_kernel *k = launched(x.d.tuned, 1);
    EXPECT(!x.d.tuned->is_complete);
    EXPECT_INT(k->how, HN_TUNED_GUESS);
    EXPECT_STR(k->why, "the budget was over");
    EXPECT_INT(k->pick, 0);
    EXPECT_INT(x.d.tuned->timed_calls, 0);
    EXPECT_INT(x.d.tuned->records_len, 0);
    end(&x);
}

TEST(reports_join) {
    const hn_compile_options options = {.threads = 1, .tune = HN_TUNE_MISSING, .tune_budget_ns = 1};
    fixture x, y;
    begin(&x, sum, &options);
    begin(&y, two_sums, &options);
    const uint32_t kernels = x.d.tuned->kernel_count + y.d.tuned->kernel_count;
    EXPECT_OK(hn_tune_report_join(x.d.tuned, y.d.tuned));
    y.d.tuned = NULL;
    EXPECT_INT(x.d.tuned->kernel_count, kernels);
    EXPECT_STR(x.d.tuned->kernels[0].name, "total");
    end(&x);
    end(&y);
}

TEST_MAIN
