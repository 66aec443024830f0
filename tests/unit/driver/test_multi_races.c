/* test_multi_races.c: races whose times are told: whichever form they say is the fastest wins, and
 * gives the same results; who fails is out; of equal ones the first wins; what is known is not
 * timed again. */
#include "base/log.h"
#include "support/module_run.h"
#include "unit/driver/told.h"

#include <stdlib.h>
#include <unistd.h>

/* A sum down columns, and a softmax. */
static const char *const models[] = {
    "input user %x : f32[70, 40] \"x\"\n %y = sum(%x, dims=[0], keepdim=false) at \"total\" "
    "\"m.py:1\"\n output user %y \"y\"",
    "input user %x : f32[70, 40] \"x\"\n %m = amax(%x, dims=[1], keepdim=true)\n %d = sub(%x, %m)\n "
    "%e = exp(%d)\n %s = sum(%e, dims=[1], keepdim=true)\n %y = div(%e, %s) at \"total\" "
    "\"m.py:1\"\n output user %y \"y\"",
};
enum { MODELS = sizeof models / sizeof *models };

/* By the times of `t`. What the report says of the first kernel. */
static const hn_tuned_kernel *tune_in(told_graph *x, const char *statements, told *t,
                                      const char *cache_dir) {
    const hn_compile_options options = {
        .threads = 1, .tune = HN_TUNE_MISSING, .tune_budget_ns = INT64_C(1000000000000)};
    told_graph_begin(x, statements, cache_dir);
    EXPECT_OK(told_graph_tune(x, &options, t));
    EXPECT(x->d.tuned->kernel_count > 0);
    return &x->d.tuned->kernels[0];
}

static const hn_tuned_kernel *tune(told_graph *x, const char *statements, told *t) {
    return tune_in(x, statements, t, "");
}

static bool is_called(const hn_tuned_form *form, const char *name) {
    char own[160];
    snprintf(own, sizeof own, "%s %s", form->name, form->parameters);
    return strcmp(own, name) == 0;
}

/* ---- either form wins ---- */

static double chosen_is_fastest(const told *t, uint32_t form, const hn_timed_form *what) {
    (void)what;
    return form == t->chosen ? 10000 : 20000;
}

static void fill(hn_arena *arena, hn_ref_tensor *out) {
    EXPECT_OK(hn_ref_tensor_init(arena, HN_DTYPE_F32, 2, (int64_t[]){70, 40}, out));
    for (int64_t k = 0; k < out->numel; k++) out->data.f[k] = (double)(k * 37 % 101) / 64 - 0.75;
}

/* The program that the records of `tuned` give, and the interpreter. */
static void check_results(const char *statements, const hn_tune_report *tuned) {
    char path[] = "/tmp/henry_races_XXXXXX";
    const hn_compile_options options = {.threads = 1, .tuning = path};
    hn_compiled *compiled = NULL;
    hn_module *module = NULL;
    hn_ref_tensor input, got, want;
    hn_strbuf text;
    told_graph x, y;
    const int fd = mkstemp(path);
    EXPECT(fd >= 0 && write(fd, tuned->records, tuned->records_len) == (ssize_t)tuned->records_len);
    told_graph_begin(&x, statements, ""),
        told_graph_begin(&y, statements, ""); /* compiling changes a graph */
    fill(&y.arena, &input);
    hn_strbuf_init(&text);
    EXPECT_OK(hn_compile_graph(x.graph, x.service, &options, &compiled));
    EXPECT_OK(hn_compiled_load(compiled, &(hn_module_options){.threads = 1}, &module));
    EXPECT_OK(hn_test_module_run(&y.arena, module, &input, 1, &got, 1));
    EXPECT_OK(hn_interpret(&y.arena, y.graph, &input, 1, &want));
    EXPECT(hn_ref_compare(&got, &want, 1e-5, 1e-5, &text));
    hn_strbuf_deinit(&text);
    hn_module_release(module);
    hn_compiled_release(compiled);
    told_graph_end(&x), told_graph_end(&y);
    close(fd), unlink(path);
}

TEST(whichever_form_is_the_fastest_wins) {
    for (uint32_t m = 0; m < MODELS; m++) {
        uint32_t raced = 2;
        for (uint32_t chosen = 0; chosen < raced; chosen++) {
            told t = {.ns = chosen_is_fastest, .chosen = chosen};
            told_graph x;
            const hn_tuned_kernel *k = tune(&x, models[m], &t);
            EXPECT_INT(k->how, HN_TUNED_NOW);
            EXPECT(is_called(&k->forms[k->pick], t.forms[chosen]));
            EXPECT(k->is_certain && k->forms[k->pick].ratio == 1);
            EXPECT_NEAR(k->forms[0].ratio, chosen ? 2 : 1, 1e-9);
            EXPECT(x.d.picks->decided.count == 1);
            EXPECT_INT(x.d.picks->decided.items[0].how, HN_TUNING_TIMED);
            if (!chosen) /* the others were raced by then: neighbours come behind */
                for (raced = 0; raced < k->form_count && k->forms[raced].samples; raced++) {
                }
            check_results(models[m], x.d.tuned);
            told_graph_end(&x);
            if (raced > 4) raced = 4;
        }
        EXPECT(raced >= 2);
    }
}

/* ---- who is out, who is equal ---- */

static double chosen_fails(const told *t, uint32_t form, const hn_timed_form *what) {
    (void)what;
    return form == t->chosen ? 0 : 10000 + 5000 * form;
}

static void keep_line(void *context, const hn_log_line *line) {
    hn_strbuf_printf(context, "%s\n", line->text);
}

TEST(a_form_that_fails_is_out_and_a_line_says_so) {
    told t = {.ns = chosen_fails, .chosen = 0};
    hn_strbuf lines;
    told_graph x;
    hn_strbuf_init(&lines);
    EXPECT_OK(hn_log_sink_set(keep_line, &lines));
    const hn_tuned_kernel *k = tune(&x, models[0], &t);
    EXPECT_OK(hn_log_sink_set(NULL, NULL));
    EXPECT(is_called(&k->forms[0], t.forms[0]) && k->forms[0].samples == 0);
    EXPECT_STR(k->forms[0].why, "the form does not launch");
    EXPECT_INT(k->pick, 1);
    EXPECT(is_called(&k->forms[1], t.forms[1]) && k->forms[1].ratio == 1);
    EXPECT(strstr(hn_strbuf_str(&lines).ptr, "is out: the form does not launch\n"));
    hn_strbuf_deinit(&lines);
    told_graph_end(&x);
}

static double all_fail(const told *t, uint32_t form, const hn_timed_form *what) {
    (void)t, (void)form, (void)what;
    return 0;
}

TEST(where_all_forms_fail_the_guess_stays) {
    told t = {.ns = all_fail};
    told_graph x;
    const hn_tuned_kernel *k = tune(&x, models[0], &t);
    EXPECT_INT(k->how, HN_TUNED_GUESS);
    EXPECT(k->pick == 0 && strstr(k->why, "the form does not launch"));
    EXPECT_INT(x.d.picks->decided.count, 0);
    told_graph_end(&x);
}

/* Later ones are the faster ones, by half of a percent. */
static double nearly_equal(const told *t, uint32_t form, const hn_timed_form *what) {
    (void)t, (void)what;
    return form ? 10000 : 10050;
}

TEST(of_equal_forms_the_first_wins) {
    told t = {.ns = nearly_equal};
    told_graph x;
    const hn_tuned_kernel *k = tune(&x, models[0], &t);
    EXPECT_INT(k->pick, 0);
    EXPECT(!k->is_certain && k->forms[0].ratio == 1);
    EXPECT(is_called(&k->forms[0], t.forms[0]));
    told_graph_end(&x);
}

/* ---- what does not race ---- */

static double later_is_faster(const told *t, uint32_t form, const hn_timed_form *what) {
    (void)t, (void)what;
    double ns = 1e6;
    for (; form; form--) ns *= 0.9;
    return ns;
}

static size_t length_without_grain(const hn_tuned_form *f) {
    const char *grain = strstr(f->parameters, "grain=");
    return grain ? (size_t)(grain - f->parameters) : strlen(f->parameters);
}

/* One thread shares out nothing, so a form with another grain is the same one. */
TEST(forms_that_run_alike_do_not_race) {
    told t = {.ns = later_is_faster};
    told_graph x;
    const hn_tuned_kernel *k = tune(&x, models[1], &t);
    uint32_t searched = 0;
    for (uint32_t f = 0; f < k->form_count; f++) {
        if (!k->forms[f].is_extra) continue;
        searched++;
        for (uint32_t g = 0; g < k->form_count; g++)
            EXPECT(g == f || strcmp(k->forms[f].name, k->forms[g].name) != 0 ||
                   length_without_grain(&k->forms[f]) != length_without_grain(&k->forms[g]) ||
                   strncmp(k->forms[f].parameters, k->forms[g].parameters,
                           length_without_grain(&k->forms[f])) != 0);
    }
    EXPECT(searched > 0);
    told_graph_end(&x);
}

TEST(kernels_that_take_no_time_do_not_race) {
    static const char statements[] =
        "input user %x : f32[4096, 1024] \"x\"\n input user %z : f32[30, 20] \"z\"\n %s = "
        "sum(%x, dims=[0], keepdim=false) at \"long\" \"m.py:1\"\n %t = sum(%z, dims=[0], "
        "keepdim=false) at \"short\" \"m.py:2\"\n output user %s \"s\"\n output user %t \"t\"";
    told t = {.ns = nearly_equal};
    told_graph x;
    const hn_tuned_kernel *k = tune(&x, statements, &t);
    EXPECT_INT(x.d.tuned->kernel_count, 2);
    EXPECT_STR(k[0].name, "long");
    EXPECT_INT(k[0].how, HN_TUNED_NOW);
    EXPECT_STR(k[1].name, "short");
    EXPECT_INT(k[1].how, HN_TUNED_GUESS);
    EXPECT_STR(k[1].why, "it takes less than 0.1 % of a run by the model of costs");
    told_graph_end(&x);
}

/* ---- what is known ---- */

/* In one cache: nothing is asked the second time, and the same form runs. */
static void check_again(const char *statements, told *t, hn_tuning_how how) {
    char dir[] = "/tmp/henry_races_XXXXXX", command[80], form[160] = "";
    EXPECT(mkdtemp(dir) != NULL);
    for (int round = 0; round < 2; round++) {
        told_graph x;
        const hn_tuned_kernel *k = tune_in(&x, statements, t, dir);
        const hn_tuned_form *pick = &k->forms[k->pick];
        EXPECT(round ? is_called(pick, form) && t->asked == 0 : true);
        EXPECT_INT(x.d.picks->decided.count, 1);
        EXPECT_INT(x.d.picks->decided.items[0].how, how);
        if (round) EXPECT(x.d.tuned->timed_calls == 0 && x.d.tuned->timed_kernels == 0);
        snprintf(form, sizeof form, "%s %s", pick->name, pick->parameters);
        t->asked = 0;
        told_graph_end(&x);
    }
    snprintf(command, sizeof command, "rm -rf %s", dir);
    EXPECT_INT(system(command), 0);
}

TEST(what_was_timed_is_not_timed_again) {
    told one = {.ns = chosen_is_fastest, .chosen = 1}, search = {.ns = later_is_faster};
    check_again(models[0], &one, HN_TUNING_TIMED);
    check_again(models[1], &search, HN_TUNING_DESCENT);
}

static double rows_are_not_asked_for(const told *t, uint32_t form, const hn_timed_form *what) {
    (void)t, (void)form;
    EXPECT(!hn_str_eq(what->form->name, HN_STR("rows")));
    return 10000;
}

/* A copy, which has several forms, and a scatter by rows, which has one. */
TEST(of_one_form_nothing_is_timed) {
    static const char statements[] =
        "input user %x : f32[100] \"x\"\n input user %i : i64[30] \"i\"\n input user %v : f32[30] "
        "\"v\"\n %y = aten.scatter_add.default(%x, 0, %i, %v) : f32[100] at \"total\" \"m.py:1\"\n "
        "output user %y \"y\"";
    char dir[] = "/tmp/henry_races_XXXXXX", command[80];
    EXPECT(mkdtemp(dir) != NULL);
    for (int round = 0; round < 2; round++) {
        told t = {.ns = rows_are_not_asked_for};
        uint32_t alone = 0;
        told_graph x;
        tune_in(&x, statements, &t, dir);
        for (uint32_t k = 0; k < x.d.tuned->kernel_count; k++) {
            if (x.d.tuned->kernels[k].form_count > 1) continue;
            EXPECT_STR(x.d.tuned->kernels[k].forms[0].name, "rows");
            EXPECT_STR(x.d.tuned->kernels[k].why, "it has one form");
            alone++;
        }
        EXPECT_INT(alone, 1);
        EXPECT(round ? t.asked == 0 && !x.d.tuned->timed_calls : t.asked > 0);
        told_graph_end(&x);
    }
    snprintf(command, sizeof command, "rm -rf %s", dir);
    EXPECT_INT(system(command), 0);
}

/* By the form that both races have: 0.9 for each step. */
TEST(ratios_of_a_search_are_to_its_winner) {
    told t = {.ns = later_is_faster};
    told_graph x;
    const hn_tuned_kernel *k = tune(&x, models[1], &t);
    uint32_t last = 0, timed = 0;
    for (uint32_t n = 0; n < t.form_count; n++) last = n;
    EXPECT(is_called(&k->forms[k->pick], t.forms[last]) && k->forms[k->pick].is_extra);
    for (uint32_t f = 0; f < k->form_count; f++) {
        double want = 1;
        if (!k->forms[f].samples) continue;
        for (uint32_t n = 0; n < t.form_count && !is_called(&k->forms[f], t.forms[n]); n++)
            want /= 0.9;
        for (uint32_t n = last; n; n--) want *= 0.9;
        EXPECT_NEAR(k->forms[f].ratio * want, 1, 1e-6);
        EXPECT_NEAR(k->forms[f].median_ns / k->forms[k->pick].median_ns, k->forms[f].ratio, 1e-6);
        timed++;
    }
    EXPECT_INT(timed, t.form_count);
    told_graph_end(&x);
}

TEST_MAIN
