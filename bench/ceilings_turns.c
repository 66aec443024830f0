/* ceilings_turns.c: the times of loops by hand and of the generated kernels that they are the ceilings
 * of, in turns with a copy. */
#include "bench/ceilings.h"

#include "bench/median.h"

#include <math.h>
#include <stdio.h>
#include <time.h>

enum { MAX_ROUNDS = 200 };

/* The generated kernels that a group's loops are for; others have the group's name. */
enum { OWN_MAX = 2 };
static const char *const sums[OWN_MAX] = {"sum of rows", "sum of columns"};

typedef struct series {
    double values[MAX_ROUNDS];
} series;

static double now_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static double time_of(hand_fn *fn, const hand_args *a, int64_t units, int threads) {
    double begin = now_us();
    hand_run(fn, a, units, threads);
    return now_us() - begin;
}

/* The median over rounds of the time of `a` over that of `b`. */
static double ratio_of(const series *a, const series *b, int rounds) {
    double ratios[MAX_ROUNDS];
    for (int r = 0; r < rounds; r++) ratios[r] = a->values[r] / b->values[r];
    return median(ratios, (size_t)rounds);
}

/* `ceiling` NULL: of a loop by hand. It sorts the values. */
static void report(const loop *l, const char *name, const run_options *o, const series *copy,
                   series *mine, const series *ceiling, int rounds) {
    double copies[MAX_ROUNDS];
    for (int r = 0; r < rounds; r++) copies[r] = copy->values[r];
    printf(
        "{\"kernel\": \"%s\", \"loop\": \"%s\", \"sort\": \"%s\", \"threads\": %d, \"rounds\": %d, \"of_copy\": %.3f",
        l->kernel, name,
        ceiling   ? "henry"
        : l->part ? "part"
                  : "whole",
        o->threads, rounds, ratio_of(copy, mine, rounds));
    if (ceiling) printf(", \"of_ceiling\": %.3f", ratio_of(ceiling, mine, rounds));
    double m = median(mine->values, (size_t)rounds), c = median(copies, (size_t)rounds);
    printf(", \"us\": [%.1f, %.1f], \"copy_us\": [%.1f, %.1f], \"copy_gb_s\": %.2f}\n", m,
           mine->values[0], c, copies[0], 4e-3 * l->words * ROWS * COLS / c);
}

/* Whether a whole loop left what it should; the kernels whose results are looked at are those that
 * only move. */
static bool is_right(const loop *l, const hand_args *a) {
    for (int64_t i = 0; i < a->rows; i += 37)
        for (int64_t j = 0; j < a->cols; j += 5) {
            float got = a->out[i * a->cols + j], want = got;
            if (l->square)
                want = a->in[0][j * a->rows + i] + (l->words == 3 ? a->in[1][i * a->cols + j] : 0);
            else if (l->table) want = a->in[0][a->index[i] * a->cols + j];
            else if (strcmp(l->kernel, "gather") == 0)
                want = a->in[0][i * a->cols + a->index[i * a->cols + j]];
            if (!(got == want)) return false;
        }
    return true;
}

/* ---- the generated kernels ---- */

typedef struct own_kernel {
    const char *name; /* NULL: there is none */
    generated g;
    float *out; /* as large as the arguments' */
    series times;
} own_kernel;

static hn_status make_own(own_kernel *k, const loop *l, const hand_args *a, const run_options *o,
                          hn_service *service) {
    HN_TRY(generated_make(&(generated_wanted){k->name, a->rows, a->cols, a->depth, o->threads},
                          service, &k->g));
    const uint32_t count = hn_module_input_count(k->g.module), floats = count - has_index(l);
    for (uint32_t i = 0; i < floats; i++) HN_TRY(generated_give(&k->g, (void *)a->in[i]));
    if (has_index(l)) HN_TRY(generated_give(&k->g, (void *)a->index));
    return generated_give(&k->g, k->out);
}

static hn_status time_own(own_kernel *k, double *out_us) {
    const double begin = now_us();
    HN_TRY(generated_run(&k->g));
    *out_us = now_us() - begin;
    return NULL;
}

/* Some results beside those of a whole loop; those of sums are compared in kernels.c. */
static hn_status compare_own(const own_kernel *k, const loop *l, const hand_args *a) {
    double worst = 0;
    for (int64_t i = 0; i < a->rows * a->cols && !l->part; i += 61) {
        const double difference = fabs((double)k->out[i] - (double)a->out[i]);
        if (!(difference <= worst)) worst = difference;
    }
    return worst < 1e-3
               ? NULL
               : HN_ERROR(HN_INTERNAL, "'%s' differs from the loop by hand by %g", k->name, worst);
}

/* --- a group: the loops of one kernel --- */

typedef struct group {
    const loop *loops;
    int count;
    hand_args a, copied;
    const run_options *options;
    series times[LOOPS_MAX], copy;
    own_kernel own[OWN_MAX];
    int rounds;
} group;

/* Once each, and whether the results are right. The last whole loop leaves its own in `out`. */
static hn_status warm_up(group *g, hn_service *service) {
    const loop *last = &g->loops[0];
    for (int k = 0; k < g->count; k++) {
        const loop *l = &g->loops[k];
        time_of(l->fn, &g->a, g->a.rows / l->unit, g->options->threads);
        if (!l->part) last = l;
        if (!l->part && !is_right(l, &g->a))
            return HN_ERROR(HN_INTERNAL, "'%s, %s' is wrong", l->kernel, l->name);
    }
    time_of(last->fn, &g->a, g->a.rows / last->unit, g->options->threads);
    for (int k = 0; k < OWN_MAX && g->own[k].name; k++) {
        double ignored;
        HN_TRY(make_own(&g->own[k], last, &g->a, g->options, service));
        HN_TRY(time_own(&g->own[k], &ignored));
        HN_TRY(compare_own(&g->own[k], last, &g->a));
    }
    return NULL;
}

static hn_status run_rounds(group *g) {
    const double begin = now_us(), enough = g->options->seconds * 1e6 * g->count;
    const int threads = g->options->threads;
    for (g->rounds = 0; g->rounds < MAX_ROUNDS && (g->rounds < 5 || now_us() - begin < enough);
         g->rounds++) {
        const int r = g->rounds;
        g->copy.values[r] = time_of(hand_copy, &g->copied, g->copied.rows, threads);
        for (int k = 0; k < g->count; k++)
            g->times[k].values[r] =
                time_of(g->loops[k].fn, &g->a, g->a.rows / g->loops[k].unit, threads);
        for (int k = 0; k < OWN_MAX && g->own[k].name; k++)
            HN_TRY(time_own(&g->own[k], &g->own[k].times.values[r]));
    }
    return NULL;
}

/* The whole loop with the best median; of a group of parts the best one of all. */
static int ceiling_of(const group *g) {
    int best = -1;
    double most = 0;
    bool has_whole = false;
    for (int k = 0; k < g->count; k++) has_whole |= !g->loops[k].part;
    for (int k = 0; k < g->count; k++) {
        const double rate = ratio_of(&g->copy, &g->times[k], g->rounds);
        if ((has_whole && g->loops[k].part) || (best >= 0 && rate <= most)) continue;
        best = k, most = rate;
    }
    return best;
}

static void report_group(group *g) {
    const int best = ceiling_of(g);
    for (int k = 0; k < OWN_MAX && g->own[k].name; k++)
        report(&g->loops[best], g->own[k].name, g->options, &g->copy, &g->own[k].times,
               &g->times[best], g->rounds);
    for (int k = 0; k < g->count; k++)
        report(&g->loops[k], g->loops[k].name, g->options, &g->copy, &g->times[k], NULL, g->rounds);
    fflush(stdout);
}

hn_status run_kernel(const loop *first, int count, hand_args a, const hand_args *copied,
                     float *own_out, const run_options *o, hn_service *service) {
    static group g;
    const bool is_sums = strcmp(first->kernel, "sums") == 0;
    g = (group){.loops = first, .count = count, .a = a, .copied = *copied, .options = o};
    if (first->square) g.a.rows = g.a.cols = SIDE;
    if (has_index(first)) g.a.depth = first->table ? DEPTH : COLS;
    g.copied.rows = (int64_t)ROWS * first->words / 2;
    for (int k = 0; k < (is_sums ? OWN_MAX : 1); k++)
        g.own[k] = (own_kernel){.name = is_sums ? sums[k] : first->kernel, .out = own_out};
    hn_status status = warm_up(&g, service);
    if (!status) status = run_rounds(&g);
    if (!status) report_group(&g);
    for (int k = 0; k < OWN_MAX && g.own[k].name; k++) generated_deinit(&g.own[k].g);
    return status;
}
