/* picked_fill.c: sizes of which no record says anything have the times that the model of costs
 * expects. The model is wrong by some factor for each form; where a form was timed beside the one
 * that was picked there, that factor is known, and it is taken from the nearest such sizes. */
#include "driver/picked.h"

#include <math.h>
#include <string.h>

/* What is this near to sizes that were timed is like them: a factor of four, the step of sizes. */
static const double near_log2 = 2;

/* What is expected is less certain than what was timed. */
static const double doubt = 1.1;

typedef struct filler {
    const hn_tunable *t;
    const hn_tuning_list *records;
    const hn_form_name *names;
    hn_choice_times *times;
    hn_choice_time *own_times; /* of `times` */
    int64_t *own_sizes;
    uint32_t *own_picks;
} filler;

static bool is_of(const filler *f, const hn_tuning_record *r) {
    return r->size_count == f->t->sizes.symbol_count;
}

static const int64_t *values_at(const filler *f, uint32_t sample) {
    return hn_variant_sizes_at(&f->t->sizes, sample).values;
}

static bool is_near_any(const filler *f, const int64_t *values) {
    for (uint32_t k = 0; k < f->records->count; k++) {
        const hn_tuning_record *r = &f->records->items[k];
        if (is_of(f, r) && hn_variant_distance(r->sizes, values, r->size_count) <= near_log2)
            return true;
    }
    return false;
}

static const hn_form_timing *timing_of(const hn_tuning_record *r, const hn_form_name *name) {
    for (uint32_t k = 0; k < r->form_count; k++)
        if (hn_form_name_eq(&r->forms[k].form, name) && r->forms[k].samples &&
            r->forms[k].predicted_ns > 0)
            return &r->forms[k];
    return NULL;
}

/* How many times as long as the pick the form took, over what was expected. 0: it is not known
 * there. */
static double error_at(const hn_tuning_record *r, const hn_form_name *name) {
    const hn_form_timing *f = timing_of(r, name), *pick = timing_of(r, &r->forms[r->pick].form);
    if (!f || !pick) return 0;
    const double measured =
        f->ratio > 0 && pick->ratio > 0 ? f->ratio / pick->ratio : f->median_ns / pick->median_ns;
    return measured / (f->predicted_ns / pick->predicted_ns);
}

/* At the nearest sizes where it is known; 1: nowhere. */
static double error_near(const filler *f, const int64_t *values, const hn_form_name *name) {
    double least = INFINITY, error = 1;
    for (uint32_t k = 0; k < f->records->count; k++) {
        const hn_tuning_record *r = &f->records->items[k];
        const double here = is_of(f, r) ? error_at(r, name) : 0;
        if (!(here > 0)) continue;
        const double distance = hn_variant_distance(r->sizes, values, r->size_count);
        if (distance < least) least = distance, error = here;
    }
    return error;
}

/* 0: the form cannot be had there. */
static hn_status expect(const filler *f, uint32_t sample, const hn_form_name *name, double *out) {
    const hn_ref_sizes at = hn_variant_sizes_at(&f->t->sizes, sample);
    hn_status status = hn_variant_cost(&f->t->of, name, &at, out);
    const hn_code code = hn_status_code(status);
    if (!status && !(isfinite(*out) && *out > 0)) *out = 0;
    if (code != HN_NOT_FOUND && code != HN_INVALID_ARGUMENT) return status;
    hn_status_free(status);
    *out = 0;
    return NULL;
}

static hn_status fill(filler *f, uint32_t sample) {
    const uint32_t n = f->times->sample_count++, symbols = f->times->size_count;
    const int64_t *values = values_at(f, sample);
    memcpy(f->own_sizes + (size_t)n * symbols, values, symbols * sizeof *values);
    f->own_picks[n] = HN_CHOICE_ANY;
    for (uint32_t v = 0; v < f->times->variant_count; v++) {
        double ns;
        HN_TRY(expect(f, sample, &f->names[v], &ns));
        ns *= error_near(f, values, &f->names[v]);
        f->own_times[(size_t)n * f->times->variant_count + v] =
            (hn_choice_time){ns, ns / doubt, ns * doubt};
    }
    return NULL;
}

/* Lists that have room for all sizes. */
static hn_status make_room(filler *f, hn_arena *arena) {
    hn_choice_times *t = f->times;
    const size_t count = (size_t)t->sample_count + f->t->sizes.count;
    HN_NEW(arena, f->own_sizes, count * t->size_count + 1);
    HN_NEW(arena, f->own_times, count * t->variant_count + 1);
    HN_NEW(arena, f->own_picks, count + 1);
    memcpy(f->own_sizes, t->sizes, t->sample_count * t->size_count * sizeof *t->sizes);
    memcpy(f->own_times, t->times, t->sample_count * t->variant_count * sizeof *t->times);
    memcpy(f->own_picks, t->picks, t->sample_count * sizeof *t->picks);
    t->sizes = f->own_sizes, t->times = f->own_times, t->picks = f->own_picks;
    return NULL;
}

hn_status hn_picked_fill(const hn_tunable *t, const hn_tuning_list *records,
                         const hn_form_name *names, hn_arena *arena, hn_choice_times *times) {
    filler f = {.t = t, .records = records, .names = names, .times = times};
    if (times->size_count != t->sizes.symbol_count) return NULL;
    HN_TRY(make_room(&f, arena));
    for (uint32_t k = 0; k < t->sizes.count; k++)
        if (!is_near_any(&f, values_at(&f, k))) HN_TRY(fill(&f, k));
    return NULL;
}
