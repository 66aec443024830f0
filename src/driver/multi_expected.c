/* multi_expected.c: kernels of which no form is good at all sizes, as the model of costs has it.
 *
 * The form that the planner makes for the sizes of the export is compared with the best ones at
 * other sizes. Where it is expected to be further behind than the margin, the kernel gets the form
 * that helps most, over all sizes, and so on. Forms of the same text come first: on a CPU they
 * differ in how many iterations are worth a thread, and cost no compiler anything. Of a GPU each
 * form has a text of its own. */
#include "driver/multi.h"

#include "kernel/plan_cpu.h"

#include <math.h>
#include <stdlib.h>

/* The model is within a tenth in most cells of bench/picks, and a quarter in some. */
static const double margin = 0.25;

enum {
    SAMPLES = 12,
    NAMED_SAMPLES = 32, /* ... of sizes that the caller names */
    BEST = 2,           /* forms that are looked at for each sample */
    CANDIDATES_MAX = 48,
    FORMS_MOST = 4,
    TEXTS_MOST = 2
};

/* A form: of a CPU what is chosen, of a GPU its name. */
typedef struct candidate {
    hn_cpu_choice choice;
    hn_form_name name;
} candidate;

typedef struct expecter {
    const hn_variants_of *of;
    hn_arena *arena;
    hn_kernel_identity id;
    hn_variant_sizes sizes;
    candidate candidates[CANDIDATES_MAX]; /* the planner's first */
    uint32_t count;
    double *ns; /* [sample][CANDIDATES_MAX]; INFINITY: it cannot be had there */
    uint32_t taken[FORMS_MOST];
    uint32_t taken_count;
    uint32_t texts;
} expecter;

/* ---- sizes ---- */

/* Whether every loop has a number of points that is known: cheaper than what asks for symbols. */
static bool is_static(const hn_variants_of *of) {
    const hn_sym *sym = of->program->sym;
    for (uint32_t f = 0; f < of->kernel->loop_count; f++) {
        const hn_loop *loop = &of->kernel->loops[f].loop;
        for (uint32_t v = 0; v < loop->rank + loop->red_rank; v++)
            if (!hn_sym_is_int(sym, hn_sym_symbol_extent(sym, loop->vars[v]), NULL)) return false;
    }
    return true;
}

static hn_status list_sizes(expecter *x, const hn_size_hints *given) {
    hn_size_hints hints = given ? *given : (hn_size_hints){.count = 0};
    hints.samples_max = hints.count ? NAMED_SAMPLES : SAMPLES;
    return hn_variant_sizes_list(x->of, &x->id, &hints, x->arena, &x->sizes);
}

/* ---- candidates ---- */

static bool is_cpu(const expecter *x) { return x->of->target->cpu != NULL; }

static bool is_same(const expecter *x, const candidate *a, const candidate *b) {
    return is_cpu(x) ? hn_cpu_choice_eq(&a->choice, &b->choice)
                     : hn_form_name_eq(&a->name, &b->name);
}

static void add(expecter *x, const candidate *c) {
    for (uint32_t k = 0; k < x->count; k++)
        if (is_same(x, &x->candidates[k], c)) return;
    if (x->count < CANDIDATES_MAX) x->candidates[x->count++] = *c;
}

static hn_status add_planned(expecter *x) {
    hn_variant planned;
    candidate c = {.name = {{NULL, 0}, {NULL, 0}}};
    HN_TRY(hn_variant_planned(x->of, x->arena, &planned));
    c.name = planned.name;
    if (is_cpu(x)) HN_TRY(hn_variant_choice(x->of, &planned.name, x->arena, &c.choice));
    add(x, &c);
    return NULL;
}

/* The best ones there; and the planner's, with the part of a thread that the best one has. */
static hn_status add_best_cpu(expecter *x) {
    hn_cpu_variant all[HN_CPU_CHOICES_MAX];
    const hn_target *target = x->of->target;
    candidate c = x->candidates[0];
    uint32_t count;
    HN_TRY(hn_cpu_variants(x->of->program, x->of->kernel, target->vector_bytes, target->cpu,
                           x->of->kernel->threads, x->arena, all, &count));
    if (!count) return NULL;
    c.choice.grain = all[0].choice.grain;
    add(x, &c);
    for (uint32_t k = 0; k < count && k < BEST; k++) {
        c.choice = all[k].choice;
        add(x, &c);
    }
    return NULL;
}

static hn_status add_best_gpu(expecter *x) {
    hn_variants *best;
    HN_NEW(x->arena, best, 1);
    HN_TRY(hn_variants_list(x->of, NULL, BEST, x->arena, best));
    for (uint32_t k = 0; k < best->count; k++) add(x, &(candidate){.name = best->items[k].name});
    return NULL;
}

static hn_status cost_of(expecter *x, const candidate *c, double *out) {
    const hn_target *target = x->of->target;
    hn_cpu_variant v = {.choice = c->choice};
    if (!is_cpu(x)) return hn_variant_cost(x->of, &c->name, NULL, out);
    HN_TRY(hn_cpu_expect(x->of->program, x->of->kernel, target->vector_bytes, target->cpu,
                         x->of->kernel->threads, x->arena, &v));
    *out = v.ns;
    return NULL;
}

static hn_status expect(expecter *x, uint32_t number, double *out) {
    double ns = 0;
    hn_status status = cost_of(x, &x->candidates[number], &ns);
    *out = status || !(ns > 0) ? INFINITY : ns;
    if (hn_status_code(status) != HN_NOT_FOUND) return status;
    hn_status_free(status);
    return NULL;
}

static hn_status expect_all(expecter *x, uint32_t sample) {
    for (uint32_t c = 0; c < x->count; c++)
        HN_TRY(expect(x, c, &x->ns[(size_t)sample * CANDIDATES_MAX + c]));
    return NULL;
}

/* `what`, while the sizes of sample k are expected. */
static hn_status at_sample(expecter *x, uint32_t k, hn_status (*what)(expecter *, uint32_t)) {
    const hn_ref_sizes sizes = hn_variant_sizes_at(&x->sizes, k);
    hn_variant_hints was;
    HN_TRY(hn_variant_hints_begin(x->of->program->sym, &sizes, &was));
    hn_status status = what(x, k);
    hn_variant_hints_end(&was);
    return status;
}

static hn_status add_best_of(expecter *x, uint32_t sample) {
    (void)sample;
    return is_cpu(x) ? add_best_cpu(x) : add_best_gpu(x);
}

static hn_status list_candidates(expecter *x) {
    HN_NEW(x->arena, x->ns, (size_t)x->sizes.count * CANDIDATES_MAX + 1);
    HN_TRY(add_planned(x));
    for (uint32_t k = 0; k < x->sizes.count; k++) HN_TRY(at_sample(x, k, add_best_of));
    for (uint32_t k = 0; k < x->sizes.count; k++) HN_TRY(at_sample(x, k, expect_all));
    return NULL;
}

/* ---- choosing ---- */

static double ns_of(const expecter *x, uint32_t sample, uint32_t number) {
    return x->ns[(size_t)sample * CANDIDATES_MAX + number];
}

static double best_of(const expecter *x, uint32_t sample) {
    double best = INFINITY;
    for (uint32_t c = 0; c < x->count; c++) best = fmin(best, ns_of(x, sample, c));
    return best;
}

static double taken_at(const expecter *x, uint32_t sample) {
    double best = INFINITY;
    for (uint32_t k = 0; k < x->taken_count; k++) best = fmin(best, ns_of(x, sample, x->taken[k]));
    return best;
}

/* How far the forms that were taken are behind, where that is the most. */
static double most_behind(const expecter *x) {
    double most = 1;
    for (uint32_t k = 0; k < x->sizes.count; k++) most = fmax(most, taken_at(x, k) / best_of(x, k));
    return most;
}

/* What counts as a gain at least. On a GPU each form costs the compiler a text, so what is less
 * than launching the kernel takes is not worth one: it would be a form for a few elements. */
static double least_gain_ns(const expecter *x) {
    return is_cpu(x) ? 0 : x->of->target->gpu->launch_ns;
}

/* What a candidate gains over those that were taken, over all sizes: logarithms of what is more
 * than the margin. */
static double gain_of(const expecter *x, uint32_t number) {
    double gain = 0;
    for (uint32_t k = 0; k < x->sizes.count; k++) {
        const double taken = taken_at(x, k), ns = ns_of(x, k, number);
        if (taken > ns * (1 + margin) && taken - ns >= least_gain_ns(x)) gain += log(taken / ns);
    }
    return gain;
}

static bool has_text(const expecter *x, uint32_t number) {
    for (uint32_t k = 0; k < x->taken_count; k++) {
        candidate taken = x->candidates[x->taken[k]];
        taken.choice.grain = x->candidates[number].choice.grain;
        if (is_same(x, &taken, &x->candidates[number])) return true;
    }
    return false;
}

/* Takes the one that gains most; false: none gains anything. */
static bool take_one(expecter *x, bool of_same_text) {
    uint32_t best = 0;
    double most = 0;
    for (uint32_t c = 1; c < x->count; c++) {
        const double gain = has_text(x, c) == of_same_text ? gain_of(x, c) : 0;
        if (gain > most) most = gain, best = c;
    }
    if (!(most > 0)) return false;
    x->taken[x->taken_count++] = best;
    if (!of_same_text) x->texts++;
    return true;
}

static void take_all(expecter *x) {
    x->taken[x->taken_count++] = 0;
    x->texts = 1;
    while (x->taken_count < FORMS_MOST && most_behind(x) > 1 + margin)
        if (!take_one(x, true) && (x->texts == TEXTS_MOST || !take_one(x, false))) return;
}

/* ---- the table ---- */

static hn_status make_times(const expecter *x, hn_choice_times *out) {
    hn_choice_time *times;
    HN_NEW(x->arena, times, (size_t)x->sizes.count * x->taken_count + 1);
    for (uint32_t k = 0; k < x->sizes.count; k++)
        for (uint32_t v = 0; v < x->taken_count; v++) {
            const double ns = ns_of(x, k, x->taken[v]), known = isfinite(ns) ? ns : 0;
            times[(size_t)k * x->taken_count + v] = (hn_choice_time){known, known, known};
        }
    *out = (hn_choice_times){.size_count = x->sizes.symbol_count,
                             .variant_count = x->taken_count,
                             .sample_count = x->sizes.count,
                             .sizes = x->sizes.values,
                             .times = times,
                             .fallback = 0,
                             .least_gain = margin};
    return NULL;
}

static hn_status make_multi(const expecter *x, hn_multi *out) {
    hn_choice_times times;
    hn_choice_made *made;
    hn_form_name *names;
    HN_NEW(x->arena, made, 1);
    HN_NEW(x->arena, names, x->taken_count);
    for (uint32_t v = 0; v < x->taken_count; v++) {
        const candidate *c = &x->candidates[x->taken[v]];
        names[v] = c->name;
        if (is_cpu(x)) HN_TRY(hn_variant_choice_name(&c->choice, x->arena, &names[v]));
    }
    HN_TRY(make_times(x, &times));
    HN_TRY(hn_choice_make(&times, x->arena, made));
    *out = (hn_multi){.names = names, .table = &made->table};
    for (uint32_t k = 0; k < made->table.head.axis_count; k++)
        out->axes[k] = x->id.symbols[made->axes[k]];
    return NULL;
}

hn_status hn_multi_expect(const hn_variants_of *of, const hn_size_hints *hints, hn_arena *arena,
                          hn_multi *out, bool *out_is_multi) {
    expecter *x;
    *out_is_multi = false;
    if (is_static(of)) return NULL;
    HN_NEW(arena, x, 1);
    x->of = of, x->arena = arena;
    HN_TRY(hn_kernel_identify(of, arena, &x->id));
    if (!x->id.is_tunable || !x->id.symbol_count) return NULL;
    HN_TRY(list_sizes(x, hints));
    HN_TRY(list_candidates(x));
    take_all(x);
    if (x->taken_count < 2) return NULL;
    HN_TRY(make_multi(x, out));
    *out_is_multi = out->table->head.box_count > 0;
    return NULL;
}
