/* picks.c: what the model of costs guesses, against the best of all forms, timed in turns.
 *
 *     bench_picks [--device DEVICE] [--threads N] [--budget MS] [--predict] [--part K/N] [NAME-PART]
 *
 * Each cell is a kernel at one set of sizes: all forms that may be chosen for it (of a CPU
 * kernel/cpu_choice.h, of another device the planner's list) race (henry/bench.h). One JSON object
 * a cell on stdout, with each form's name, time expected and time over that of the fastest, and
 * whether a tuning would time it. --predict: only what is expected; nothing is compiled.
 * `picks.py` makes the table. Sizes are literals, as in a program whose sizes are known. Kernels
 * and sizes for a GPU (--device cuda) are others than those for a CPU. */
#include "base/log.h"
#include "bench/picks_print.h"
#include "bench/picks_subjects.h"
#include "driver/tuning.h"
#include "kernel/plan_cpu.h"
#include "kernel/plan_gpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FORMS_MAX = HN_CPU_CHOICES_MAX };
_Static_assert((int)FORMS_MAX >= (int)HN_GPU_PLANS_MAX, "a cell has room for all forms");

typedef struct settings {
    const char *target; /* NULL: the CPU of this machine */
    uint32_t threads;
    int64_t budget_ns;
    bool predicts;
    uint32_t part, parts;
    const char *name;
    hn_service *service;
} settings;

/* One graph at one size, compiled up to its schedule. */
typedef struct subject {
    hn_arena arena;
    hn_graph *graph;
    hn_driver d;
    hn_compile_options options;
} subject;

static hn_status subject_begin(const settings *s, const char *text, subject *x) {
    *x = (subject){.options = {.threads = (int)s->threads, .target = s->target}};
    hn_arena_init(&x->arena);
    hn_driver_init(&x->d, &x->options, s->service);
    HN_TRY(hn_scope_create(s->service, &x->d.scope));
    HN_TRY(hn_sym_create(&x->arena, &x->d.sym));
    HN_TRY(hn_graph_parse(&x->arena, x->d.sym, hn_str_of(text), &x->graph));
    x->d.graph = x->graph;
    HN_TRY(hn_driver_targets(&x->d));
    HN_TRY(hn_driver_passes(&x->d));
    return hn_driver_kernels(&x->d);
}

static void subject_end(subject *x) {
    hn_driver_deinit(&x->d);
    if (x->graph) hn_graph_deinit(x->graph);
    hn_arena_deinit(&x->arena);
}

/* ---- a cell ---- */

typedef struct cell {
    hn_form *forms[FORMS_MAX]; /* the one that is expected to be the fastest in front */
    hn_form_name names[FORMS_MAX];
    uint32_t count;
    hn_form_name own; /* what the planner makes by itself */
} cell;

static hn_status add_form(subject *x, hn_form *form, double ns, cell *c) {
    form->cost.ns = ns;
    c->forms[c->count] = form;
    return hn_variant_name(form, &x->d.arena, &c->names[c->count++]);
}

static hn_status list_cpu(const settings *s, subject *x, const hn_kernel *kernel, cell *c) {
    const hn_target *t = &x->d.levels[0].target;
    hn_arena *arena = &x->d.arena;
    hn_cpu_variant all[HN_CPU_CHOICES_MAX];
    uint32_t count;
    HN_TRY(hn_cpu_variants(x->d.program, kernel, t->vector_bytes, t->cpu, s->threads, arena, all,
                           &count));
    for (uint32_t k = 0; k < count; k++) {
        hn_form *form;
        HN_TRY(hn_form_plan_cpu_as(x->d.program, kernel, t->vector_bytes, t->cpu, &all[k].choice,
                                   arena, arena, &form));
        HN_TRY(add_form(x, form, all[k].ns, c));
    }
    return NULL;
}

static hn_status list_planned(subject *x, const hn_kernel *kernel, cell *c) {
    const hn_target *t = &x->d.levels[0].target;
    hn_arena *arena = &x->d.arena;
    hn_form *forms[HN_GPU_PLANS_MAX];
    uint32_t count;
    HN_TRY(t->kind->plan(x->d.program, kernel, t, HN_GPU_PLANS_MAX, arena, arena, forms, &count));
    for (uint32_t k = 0; k < count; k++) HN_TRY(add_form(x, forms[k], forms[k]->cost.ns, c));
    return NULL;
}

static hn_status list_forms(const settings *s, subject *x, const hn_kernel *kernel, cell *c) {
    const hn_variants_of of = {
        .program = x->d.program, .kernel = kernel, .target = &x->d.levels[0].target};
    hn_variant own;
    HN_TRY(s->target ? list_planned(x, kernel, c) : list_cpu(s, x, kernel, c));
    HN_TRY(hn_variant_planned(&of, &x->d.arena, &own));
    c->own = own.name;
    return NULL;
}

static bool is_own(const cell *c, uint32_t k) { return hn_form_name_eq(&c->names[k], &c->own); }

/* Whether a tuning lets it race. */
static bool is_tuned(const cell *c, uint32_t k) {
    return k < HN_TUNE_FORMS_MOST &&
           c->forms[k]->cost.ns <= HN_TUNE_FORMS_MARGIN * c->forms[0]->cost.ns;
}

enum { AGAIN_MAX = 4 };

/* The best form of a race, the best of those that a tuning times, the guess and the planner's own:
 * each once. */
static uint32_t list_again(const cell *c, const hn_bench_report *report, uint32_t out[AGAIN_MAX]) {
    uint32_t best = FORMS_MAX, tuned = FORMS_MAX, count = 0;
    for (uint32_t k = 0; k < c->count; k++) {
        const hn_bench_result *r = &report->results[k];
        if (r->state == HN_BENCH_DROPPED) continue;
        if (best == FORMS_MAX || r->ratio < report->results[best].ratio) best = k;
        if (is_tuned(c, k) && (tuned == FORMS_MAX || r->ratio < report->results[tuned].ratio))
            tuned = k;
    }
    for (uint32_t k = 0; k < c->count; k++)
        if (k == best || k == tuned || !k || is_own(c, k)) out[count++] = k;
    return count;
}

static void print_form(const cell *c, uint32_t k) {
    const hn_form_name *name = &c->names[k];
    printf("{\"form\": \"" HN_STR_FMT " " HN_STR_FMT "\"", HN_STR_ARG(name->name),
           HN_STR_ARG(name->parameters));
}

static hn_forms_options options_of(const settings *s, const subject *x, const hn_form *const *forms,
                                   uint32_t count, const hn_bench_options *bench) {
    const hn_target *t = &x->d.levels[0].target;
    return (hn_forms_options){.forms = forms,
                              .count = count,
                              .device = {.kind = t->kind->device, .number = t->device},
                              .threads = (int)s->threads,
                              .bench = bench};
}

/* Of a race of many forms the winner is also the luckiest: those that are compared race again. */
static hn_status race_again(const settings *s, subject *x, const hn_kernel *kernel, const cell *c,
                            const hn_bench_report *first) {
    const hn_form *forms[AGAIN_MAX];
    uint32_t numbers[AGAIN_MAX];
    const uint32_t count = list_again(c, first, numbers);
    const hn_bench_options bench = {.budget_ns = s->budget_ns, .noise = 0.01};
    hn_bench_report *report = NULL;
    for (uint32_t k = 0; k < count; k++) forms[k] = c->forms[numbers[k]];
    const hn_forms_options options = options_of(s, x, forms, count, &bench);
    if (count == 1) return NULL;
    HN_TRY(hn_forms_bench(&x->d, &x->d.levels[0].target, kernel, &options, &report));
    for (uint32_t k = 0; k < count; k++) {
        printf(k ? ", " : "], \"again\": [");
        print_form(c, numbers[k]);
        picks_print_time(&report->results[k]);
    }
    hn_bench_report_destroy(report);
    return NULL;
}

static void print_cell(const char *name, const char *sizes, uint32_t step, const cell *c,
                       const hn_bench_report *report) {
    printf("{\"kernel\": \"%s\", \"sizes\": \"%s\", \"step\": %u, \"end\": \"%s\", \"forms\": [",
           name, sizes, step, report ? hn_bench_end_name(report->end) : "");
    for (uint32_t k = 0; k < c->count; k++) {
        if (k) printf(", ");
        print_form(c, k);
        printf(", \"own\": %s, \"tuned\": %s, \"expected\": %.1f", is_own(c, k) ? "true" : "false",
               is_tuned(c, k) ? "true" : "false", c->forms[k]->cost.ns);
        if (report) picks_print_time(&report->results[k]);
        else printf("}");
    }
}

static hn_status run_kernel(const settings *s, subject *x, uint32_t step, const char *name,
                            const char *sizes) {
    const hn_kernel *kernel = x->d.schedule.steps.items[step].kernel;
    const hn_bench_options bench = {.budget_ns = s->budget_ns, .noise = 0.02};
    hn_bench_report *report = NULL;
    cell c = {.count = 0};
    HN_TRY(list_forms(s, x, kernel, &c));
    const hn_forms_options options =
        options_of(s, x, (const hn_form *const *)c.forms, c.count, &bench);
    if (!s->predicts && c.count > 1)
        HN_TRY(hn_forms_bench(&x->d, &x->d.levels[0].target, kernel, &options, &report));
    print_cell(name, sizes, step, &c, report);
    hn_status status = report ? race_again(s, x, kernel, &c, report) : NULL;
    printf("]}\n");
    fflush(stdout);
    hn_bench_report_destroy(report);
    return status;
}

static hn_status run_graph(const settings *s, const char *name, const char *sizes,
                           const char *text) {
    subject x;
    hn_status status = subject_begin(s, text, &x);
    for (uint32_t k = 0; !status && k < x.d.schedule.steps.count; k++)
        if (x.d.schedule.steps.items[k].kind == HN_STEP_KERNEL)
            status = run_kernel(s, &x, k, name, sizes);
    subject_end(&x);
    return status;
}

/* ---- all of them ---- */

/* A capital letter that stands alone becomes a number. */
static void fill_in(const char *text, const picks_size *size, hn_strbuf *out) {
    for (const char *p = text; *p; p++) {
        const bool alone =
            p > text && (p[-1] == '[' || p[-1] == ' ') && (p[1] == ']' || p[1] == ',');
        if (alone && *p == 'R') hn_strbuf_i64(out, size->rows);
        else if (alone && *p == 'C') hn_strbuf_i64(out, size->columns);
        else if (alone && *p == 'H') hn_strbuf_i64(out, size->columns / 2);
        else hn_strbuf_putc(out, *p);
    }
}

static hn_status run_subject(const settings *s, const picks_subject *graph,
                             const picks_size *size) {
    char sizes[48];
    hn_strbuf text;
    hn_strbuf_init(&text);
    snprintf(sizes, sizeof sizes, "%lld x %lld", (long long)size->rows, (long long)size->columns);
    fill_in(graph->text, size, &text);
    hn_status status = hn_strbuf_status(&text);
    if (!status) status = run_graph(s, graph->name, sizes, text.ptr);
    hn_strbuf_deinit(&text);
    return status;
}

static int report(hn_status status, const char *name) {
    if (!status) return 0;
    fprintf(stderr, "bench_picks: %s: %s\n", name, hn_status_message(status));
    hn_status_free(status);
    return 1;
}

static int run_all(const settings *s) {
    const picks_cells *cells = s->target ? &picks_of_gpu : &picks_of_cpu;
    int failed = 0;
    uint32_t number = 0;
    for (uint32_t k = 0; k < cells->subject_count; k++)
        for (uint32_t n = 0; n < cells->size_count; n++) {
            const picks_subject *graph = &cells->subjects[k];
            if (s->name && !strstr(graph->name, s->name)) continue;
            if (number++ % s->parts != s->part) continue;
            failed |= report(run_subject(s, graph, &cells->sizes[n]), graph->name);
        }
    return failed;
}

static settings read_settings(int count, char **words) {
    settings s = {.threads = 1, .budget_ns = 1000000000, .parts = 1};
    for (int k = 1; k < count; k++) {
        if (strcmp(words[k], "--predict") == 0) s.predicts = true;
        else if (strcmp(words[k], "--device") == 0 && k + 1 < count) s.target = words[++k];
        else if (strcmp(words[k], "--threads") == 0 && k + 1 < count)
            s.threads = (uint32_t)atoi(words[++k]);
        else if (strcmp(words[k], "--budget") == 0 && k + 1 < count)
            s.budget_ns = atoll(words[++k]) * 1000000;
        else if (strcmp(words[k], "--part") == 0 && k + 1 < count)
            sscanf(words[++k], "%u/%u", &s.part, &s.parts);
        else s.name = words[k];
    }
    return s;
}

int main(int count, char **words) {
    settings s = read_settings(count, words);
    if (s.target && strcmp(s.target, "cpu") == 0) s.target = NULL;
    if (report(hn_service_create(NULL, &s.service), "service")) return 1;
    const int failed = run_all(&s);
    hn_service_destroy(s.service);
    return failed;
}
