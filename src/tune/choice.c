/* choice.c: see choice.h. The sizes that were timed make a grid, one line for each value of an
 * axis. A cell of the grid is a set of variants that will do. Cells become boxes; boxes that lie
 * side by side are joined along one axis after the other. */
#include "tune/choice.h"

#include <math.h>
#include <stdlib.h>

/* Lines of one axis: of more values, those near each other share one. */
static const uint32_t lines_max[HN_CHOICE_AXES + 1] = {1, 256, 32, 12};

typedef struct axis {
    uint32_t size; /* which one */
    uint32_t count;
    int64_t *values; /* ascending: the timed ones; of those that share a line the first, ... */
    int64_t *last;   /* ... and the last */
} axis;

typedef struct cell {
    uint64_t fit;                    /* bit v: variant v will do */
    double cost[HN_CHOICE_VARIANTS]; /* ln of the time over the fastest one's */
} cell;

typedef struct box {
    uint32_t lo[HN_CHOICE_AXES], hi[HN_CHOICE_AXES]; /* lines, both included */
    uint64_t fit;                                    /* of all its cells */
    uint32_t variant;
    double gain; /* over the fallback, ln, of all its cells */
} box;

typedef struct maker {
    const hn_choice_times *t;
    hn_arena *arena;
    double least_gain;
    uint32_t fallback;
    const int64_t *
        *order; /* the sizes of samples, ascending: the order in which they are given is none */
    uint32_t axis_count;
    axis axes[HN_CHOICE_AXES];
    cell *samples; /* of each sample */
    uint32_t cell_count;
    cell *cells;
    struct {
        box *items;
        uint32_t count, cap;
    } boxes;
} maker;

enum { SAMPLES_MAX = 65536 };

/* Intervals that meet are no reason for a variant whose median is so much longer. */
static const double doubt_max = 0.1;

/* Where a variant has no time: as if it took sixteen times as long. */
static const double unknown_cost = 2.772588722239781;

/* ---- checking ---- */

static bool is_time(double ns) { return isfinite(ns) && ns > 0; }

static hn_status check_counts(const hn_choice_times *t) {
    if (t->size_count > HN_TUNING_SIZES_MAX || !t->variant_count ||
        t->variant_count > HN_CHOICE_VARIANTS)
        return HN_ERROR(HN_INVALID_ARGUMENT, "no decision over %u sizes for %u variants",
                        t->size_count, t->variant_count);
    if (t->sample_count > SAMPLES_MAX)
        return HN_ERROR(HN_INVALID_ARGUMENT, "no decision from %u samples", t->sample_count);
    if (t->fallback != HN_CHOICE_ANY && t->fallback >= t->variant_count)
        return HN_ERROR(HN_INVALID_ARGUMENT, "variant %u of %u cannot be fallen back on",
                        t->fallback, t->variant_count);
    return NULL;
}

static hn_status check(const hn_choice_times *t) {
    HN_TRY(check_counts(t));
    for (size_t k = 0; k < (size_t)t->sample_count * t->variant_count; k++) {
        const hn_choice_time *x = &t->times[k];
        if (x->ns != 0 && (!is_time(x->ns) || !is_time(x->low_ns) || !is_time(x->high_ns) ||
                           x->low_ns > x->ns || x->ns > x->high_ns))
            return HN_ERROR(HN_INVALID_ARGUMENT, "sample %zu of variant %zu has no time",
                            k / t->variant_count, k % t->variant_count);
    }
    for (uint32_t k = 0; t->picks && k < t->sample_count; k++)
        if (t->picks[k] != HN_CHOICE_ANY && t->picks[k] >= t->variant_count)
            return HN_ERROR(HN_INVALID_ARGUMENT, "sample %u picks variant %u of %u", k, t->picks[k],
                            t->variant_count);
    return NULL;
}

static bool has_limit(const hn_choice_times *t, uint32_t variant, uint32_t size) {
    const hn_choice_limit *l = t->limits ? &t->limits[variant] : NULL;
    return l && (l->lo[size] != INT64_MIN || l->hi[size] != INT64_MAX);
}

static bool is_general(const hn_choice_times *t, uint32_t variant) {
    for (uint32_t s = 0; s < t->size_count; s++)
        if (has_limit(t, variant, s)) return false;
    return true;
}

static bool may_run(const hn_choice_times *t, uint32_t variant, const int64_t *sizes) {
    for (uint32_t s = 0; t->limits && s < t->size_count; s++)
        if (sizes[s] < t->limits[variant].lo[s] || sizes[s] > t->limits[variant].hi[s])
            return false;
    return true;
}

/* ---- samples ---- */

static int compare_sizes(const void *a, const void *b, void *size_count) {
    const int64_t *x = *(const int64_t *const *)a, *y = *(const int64_t *const *)b;
    for (uint32_t s = 0; s < *(const uint32_t *)size_count; s++)
        if (x[s] != y[s]) return x[s] < y[s] ? -1 : 1;
    return (x > y) - (x < y);
}

static hn_status order_samples(maker *m) {
    uint32_t size_count = m->t->size_count;
    HN_NEW(m->arena, m->order, (size_t)m->t->sample_count + 1);
    for (uint32_t k = 0; k < m->t->sample_count; k++)
        m->order[k] = size_count ? m->t->sizes + (size_t)k * size_count : NULL;
    if (size_count)
        qsort_r(m->order, m->t->sample_count, sizeof *m->order, compare_sizes, &size_count);
    return NULL;
}

static const int64_t *sizes_of(const maker *m, uint32_t sample) { return m->order[sample]; }
static size_t number_of(const maker *m, uint32_t sample) {
    return m->t->size_count ? (size_t)(m->order[sample] - m->t->sizes) / m->t->size_count : sample;
}
static const hn_choice_time *times_of(const maker *m, uint32_t sample) {
    return &m->t->times[number_of(m, sample) * m->t->variant_count];
}

/* What the others are measured by: the pick, else the fastest of those that count. */
static uint32_t base_of(const maker *m, uint32_t sample, const cell *c) {
    const hn_choice_time *times = times_of(m, sample);
    uint32_t best = m->t->picks ? m->t->picks[number_of(m, sample)] : HN_CHOICE_ANY;
    if (best != HN_CHOICE_ANY && c->cost[best] == 0) return best;
    best = HN_CHOICE_ANY;
    for (uint32_t v = 0; v < m->t->variant_count; v++)
        if (c->cost[v] == 0 && (best == HN_CHOICE_ANY || times[v].ns < times[best].ns)) best = v;
    return best;
}

static bool is_as_fast(const maker *m, const hn_choice_time *x, const hn_choice_time *base) {
    const double share = fabs(x->ns / base->ns - 1);
    return share <= m->least_gain ||
           (share <= doubt_max && x->low_ns <= base->high_ns && base->low_ns <= x->high_ns);
}

static void judge(const maker *m, uint32_t sample, cell *out) {
    const hn_choice_time *times = times_of(m, sample);
    out->fit = 0;
    for (uint32_t v = 0; v < m->t->variant_count; v++) {
        const bool counts = times[v].ns > 0 && may_run(m->t, v, sizes_of(m, sample));
        out->cost[v] = counts ? 0 : unknown_cost;
    }
    const uint32_t best = base_of(m, sample, out);
    if (best == HN_CHOICE_ANY) { /* nothing is known: whatever there is */
        out->fit = UINT64_MAX;
        return;
    }
    for (uint32_t v = 0; v < m->t->variant_count; v++) {
        if (out->cost[v] > 0) continue;
        /* none is ahead of a pick */
        out->cost[v] = times[v].ns > times[best].ns ? log(times[v].ns / times[best].ns) : 0;
        if (is_as_fast(m, &times[v], &times[best])) out->fit |= UINT64_C(1) << v;
    }
}

/* By all samples together; what will do at a sample costs nothing there. */
static hn_status choose_fallback(maker *m) {
    double best = INFINITY;
    m->fallback = m->t->fallback;
    for (uint32_t v = 0; v < m->t->variant_count; v++) {
        double cost = 0;
        if (!is_general(m->t, v)) continue;
        for (uint32_t k = 0; k < m->t->sample_count; k++)
            if (!(m->samples[k].fit >> v & 1)) cost += m->samples[k].cost[v];
        if (m->t->fallback == HN_CHOICE_ANY && cost < best) best = cost, m->fallback = v;
    }
    if (m->fallback == HN_CHOICE_ANY || !is_general(m->t, m->fallback))
        return HN_ERROR(HN_INVALID_ARGUMENT, "no variant runs at every size");
    return NULL;
}

/* ---- the grid ---- */

static int by_value(const void *a, const void *b) {
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* The different values of a size, ascending. */
static hn_status values_of(const maker *m, uint32_t size, int64_t **out, uint32_t *out_count) {
    uint32_t count = 0;
    HN_NEW(m->arena, *out, (size_t)m->t->sample_count + 1);
    for (uint32_t k = 0; k < m->t->sample_count; k++) (*out)[k] = sizes_of(m, k)[size];
    qsort(*out, m->t->sample_count, sizeof **out, by_value);
    for (uint32_t k = 0; k < m->t->sample_count; k++)
        if (!count || (*out)[count - 1] != (*out)[k]) (*out)[count++] = (*out)[k];
    *out_count = count;
    return NULL;
}

/* Those that limits are about come before those with many values. */
static uint64_t weight_of(const maker *m, uint32_t size, uint32_t count) {
    uint64_t weight = count > 1 ? count : 0;
    for (uint32_t v = 0; v < m->t->variant_count; v++)
        if (has_limit(m->t, v, size)) weight += UINT64_C(1) << 32;
    return weight;
}

static hn_status choose_axes(maker *m) {
    uint64_t weights[HN_TUNING_SIZES_MAX];
    int64_t *values[HN_TUNING_SIZES_MAX];
    uint32_t counts[HN_TUNING_SIZES_MAX];
    bool is_taken[HN_TUNING_SIZES_MAX] = {false};
    for (uint32_t s = 0; s < m->t->size_count; s++) {
        HN_TRY(values_of(m, s, &values[s], &counts[s]));
        weights[s] = weight_of(m, s, counts[s]);
    }
    for (uint32_t d = 0; d < HN_CHOICE_AXES; d++) {
        uint32_t best = HN_CHOICE_ANY;
        for (uint32_t s = 0; s < m->t->size_count; s++)
            if (!is_taken[s] && weights[s] && (best == HN_CHOICE_ANY || weights[s] > weights[best]))
                best = s;
        if (best != HN_CHOICE_ANY) is_taken[best] = true;
    }
    for (uint32_t s = 0; s < m->t->size_count; s++)
        if (is_taken[s])
            m->axes[m->axis_count++] = (axis){.size = s, .count = counts[s], .values = values[s]};
    return NULL;
}

/* log2 as differences see it: sizes of 0 and less are one below 1. */
static double log2_of(int64_t size) { return size > 0 ? log2((double)size) : -1; }

/* Keeps `most` lines, evenly spread over log2. */
static void thin(axis *a, uint32_t most) {
    if (a->count <= most) return;
    const double first = log2_of(a->values[0]), last = log2_of(a->values[a->count - 1]);
    const double step = last > first ? (last - first) / most : 1;
    uint32_t count = 1;
    for (uint32_t k = 1; k < a->count && count < most; k++)
        if ((log2_of(a->values[k]) - first) / step >= (double)count)
            a->values[count++] = a->values[k];
    a->count = count;
}

/* The line that a value belongs to: the last one that is not above it. */
static uint32_t line_of(const axis *a, int64_t value) {
    uint32_t line = 0;
    while (line + 1 < a->count && a->values[line + 1] <= value) line++;
    return line;
}

static void lines_of(const maker *m, uint32_t number, uint32_t out[HN_CHOICE_AXES]) {
    for (uint32_t d = 0; d < HN_CHOICE_AXES; d++) {
        const uint32_t count = d < m->axis_count ? m->axes[d].count : 1;
        out[d] = number % count, number /= count;
    }
}

static uint32_t cell_of(const maker *m, uint32_t sample) {
    uint32_t number = 0;
    for (uint32_t d = m->axis_count; d-- > 0;)
        number =
            number * m->axes[d].count + line_of(&m->axes[d], sizes_of(m, sample)[m->axes[d].size]);
    return number;
}

static double distance(const maker *m, uint32_t a, uint32_t b) {
    uint32_t x[HN_CHOICE_AXES], y[HN_CHOICE_AXES];
    double sum = 0;
    lines_of(m, a, x), lines_of(m, b, y);
    for (uint32_t d = 0; d < m->axis_count; d++)
        sum += fabs(log2_of(m->axes[d].values[x[d]]) - log2_of(m->axes[d].values[y[d]]));
    return sum;
}

static void add_to(cell *to, const cell *from) {
    to->fit &= from->fit;
    for (uint32_t v = 0; v < HN_CHOICE_VARIANTS; v++) to->cost[v] += from->cost[v];
}

/* Where samples of one cell agree on nothing: what is the fastest for all of them together. */
static void settle(const maker *m, cell *c) {
    uint32_t best = 0;
    if (c->fit) return;
    for (uint32_t v = 1; v < m->t->variant_count; v++)
        if (c->cost[v] < c->cost[best]) best = v;
    c->fit = UINT64_C(1) << best;
}

static hn_status make_grid(maker *m) {
    m->cell_count = 1;
    for (uint32_t d = 0; d < m->axis_count; d++) {
        axis *a = &m->axes[d];
        thin(a, lines_max[m->axis_count]);
        m->cell_count *= a->count;
        HN_NEW(m->arena, a->last, a->count);
        for (uint32_t k = 0; k < a->count; k++) a->last[k] = a->values[k];
        for (uint32_t k = 0; k < m->t->sample_count; k++) {
            const int64_t value = sizes_of(m, k)[a->size];
            int64_t *last = &a->last[line_of(a, value)];
            if (value > *last) *last = value;
        }
    }
    HN_NEW(m->arena, m->cells, m->cell_count);
    return NULL;
}

/* The nearest cell that has samples, of equal ones the first. */
static uint32_t nearest_to(const maker *m, uint32_t c, const uint32_t *filled, uint32_t count) {
    uint32_t nearest = filled[0];
    double least = distance(m, c, nearest);
    for (uint32_t k = 1; k < count; k++) {
        const double d = distance(m, c, filled[k]);
        if (d < least) least = d, nearest = filled[k];
    }
    return nearest;
}

static hn_status fill_cells(maker *m) {
    bool *is_filled;
    uint32_t *filled, count = 0;
    HN_TRY(make_grid(m));
    HN_NEW(m->arena, is_filled, m->cell_count);
    HN_NEW(m->arena, filled, m->cell_count);
    for (uint32_t k = 0; k < m->t->sample_count; k++) {
        const uint32_t c = cell_of(m, k);
        if (is_filled[c]) add_to(&m->cells[c], &m->samples[k]);
        else m->cells[c] = m->samples[k];
        is_filled[c] = true;
    }
    for (uint32_t c = 0; c < m->cell_count; c++)
        if (is_filled[c]) settle(m, &m->cells[c]), filled[count++] = c;
    for (uint32_t c = 0; c < m->cell_count; c++)
        if (!is_filled[c]) m->cells[c] = m->cells[nearest_to(m, c, filled, count)];
    return NULL;
}

/* ---- boxes ---- */

static bool is_inside(const box *b, const uint32_t lines[HN_CHOICE_AXES]) {
    bool inside = true;
    for (uint32_t d = 0; d < HN_CHOICE_AXES; d++)
        inside = inside && lines[d] >= b->lo[d] && lines[d] <= b->hi[d];
    return inside;
}

/* The cheapest variant that will do in all cells of a box. */
static void decide(const maker *m, box *b) {
    double costs[HN_CHOICE_VARIANTS] = {0}, best = INFINITY;
    uint32_t lines[HN_CHOICE_AXES];
    for (uint32_t c = 0; c < m->cell_count; c++) {
        lines_of(m, c, lines);
        if (!is_inside(b, lines)) continue;
        for (uint32_t v = 0; v < m->t->variant_count; v++) costs[v] += m->cells[c].cost[v];
    }
    for (uint32_t v = 0; v < m->t->variant_count; v++)
        if ((b->fit >> v & 1) && costs[v] < best) best = costs[v], b->variant = v;
    b->gain = costs[m->fallback] - best;
}

/* Whether `b` goes on where `a` ends, along axis `d`. */
static bool is_next(const box *a, const box *b, uint32_t d) {
    for (uint32_t k = 0; k < HN_CHOICE_AXES; k++)
        if (k == d ? b->lo[k] != a->hi[k] + 1 : b->lo[k] != a->lo[k] || b->hi[k] != a->hi[k])
            return false;
    return true;
}

/* Boxes are in the order of their first cells, so that the next one along an axis is behind. */
static void join_along(maker *m, uint32_t d) {
    for (uint32_t a = 0; a < m->boxes.count; a++) {
        for (uint32_t b = a + 1; b < m->boxes.count; b++) {
            box *x = &m->boxes.items[a];
            const box *y = &m->boxes.items[b];
            if (!is_next(x, y, d) || !(x->fit & y->fit)) continue;
            x->fit &= y->fit, x->hi[d] = y->hi[d];
            memmove(&m->boxes.items[b], &m->boxes.items[b + 1],
                    (m->boxes.count - b - 1) * sizeof *m->boxes.items);
            m->boxes.count--, b = a; /* what came before may go on now */
        }
    }
}

static int by_gain(const void *a, const void *b) {
    const box *x = a, *y = b;
    if (x->gain != y->gain) return x->gain < y->gain ? 1 : -1;
    return memcmp(x->lo, y->lo, sizeof x->lo);
}

/* A box for each cell where the fallback will not do, joined, and the most useful of them. */
static hn_status make_boxes(maker *m) {
    for (uint32_t c = 0; c < m->cell_count; c++) {
        box b = {.fit = m->cells[c].fit};
        if (b.fit >> m->fallback & 1) continue;
        lines_of(m, c, b.lo);
        memcpy(b.hi, b.lo, sizeof b.hi);
        HN_PUSH(m->arena, &m->boxes, b);
    }
    for (uint32_t d = 0; d < m->axis_count; d++) join_along(m, d);
    for (uint32_t k = 0; k < m->boxes.count; k++) decide(m, &m->boxes.items[k]);
    if (m->boxes.count) qsort(m->boxes.items, m->boxes.count, sizeof *m->boxes.items, by_gain);
    if (m->boxes.count > HN_CHOICE_BOXES) m->boxes.count = HN_CHOICE_BOXES;
    return NULL;
}

/* ---- the table ---- */

/* The last size that is nearer to `low`, which is below `high`, by their logarithms. */
static int64_t border(int64_t low, int64_t high) {
    if (low < 1) return low;
    const double middle = sqrt((double)low) * sqrt((double)high);
    if (middle >= (double)high) return high - 1;
    return middle < (double)low ? low : (int64_t)middle;
}

static int64_t end_of(const axis *a, uint32_t line) {
    return line + 1 == a->count ? INT64_MAX : border(a->last[line], a->values[line + 1]);
}

/* False for one in which the variant may not run at all. */
static bool place(const maker *m, const box *b, hn_choice_box *out) {
    *out = (hn_choice_box){.variant = b->variant};
    for (uint32_t d = 0; d < m->axis_count; d++) {
        const axis *a = &m->axes[d];
        out->lo[d] = b->lo[d] ? end_of(a, b->lo[d] - 1) + 1 : INT64_MIN;
        out->hi[d] = end_of(a, b->hi[d]);
        if (!m->t->limits) continue;
        const hn_choice_limit *l = &m->t->limits[b->variant];
        if (out->lo[d] < l->lo[a->size]) out->lo[d] = l->lo[a->size];
        if (out->hi[d] > l->hi[a->size]) out->hi[d] = l->hi[a->size];
        if (out->lo[d] > out->hi[d]) return false;
    }
    return true;
}

/* Limits of sizes that are no axis cannot be looked at. */
static bool is_seen(const maker *m, uint32_t variant) {
    for (uint32_t s = 0; s < m->t->size_count; s++) {
        bool is_axis = false;
        for (uint32_t d = 0; d < m->axis_count; d++) is_axis = is_axis || m->axes[d].size == s;
        if (!is_axis && has_limit(m->t, variant, s)) return false;
    }
    return true;
}

static int by_bounds(const void *a, const void *b) {
    const hn_choice_box *x = a, *y = b;
    for (int d = 0; d < HN_CHOICE_AXES; d++)
        if (x->lo[d] != y->lo[d]) return x->lo[d] < y->lo[d] ? -1 : 1;
    return 0;
}

static void put_table(const maker *m, hn_choice_made *out) {
    hn_choice *head = &out->table.head;
    *head = (hn_choice){
        .axis_count = m->axis_count, .variant_count = m->t->variant_count, .fallback = m->fallback};
    for (uint32_t d = 0; d < m->axis_count; d++) out->axes[d] = m->axes[d].size;
    for (uint32_t k = 0; k < m->boxes.count; k++) {
        const box *b = &m->boxes.items[k];
        if (m->axis_count && is_seen(m, b->variant) &&
            place(m, b, &out->table.boxes[head->box_count]))
            head->box_count++;
    }
    memset(&out->table.boxes[head->box_count], 0,
           (HN_CHOICE_BOXES - head->box_count) * sizeof *out->table.boxes);
    if (head->box_count)
        qsort(out->table.boxes, head->box_count, sizeof *out->table.boxes, by_bounds);
    if (!head->box_count) head->axis_count = 0;
}

/* All sizes are like the one that was timed: its variant is the fallback. */
static void take_only(maker *m) {
    if (m->axis_count || !m->boxes.count || !is_general(m->t, m->boxes.items[0].variant)) return;
    m->fallback = m->boxes.items[0].variant;
    m->boxes.count = 0;
}

hn_status hn_choice_make(const hn_choice_times *t, hn_arena *scratch, hn_choice_made *out) {
    maker m = {.t = t,
               .arena = scratch,
               .least_gain = t->least_gain > 0 ? t->least_gain : HN_CHOICE_LEAST_GAIN};
    *out = (hn_choice_made){.axes = {0}};
    HN_TRY(check(t));
    HN_TRY(order_samples(&m));
    HN_NEW(scratch, m.samples, (size_t)t->sample_count + 1);
    for (uint32_t k = 0; k < t->sample_count; k++) judge(&m, k, &m.samples[k]);
    HN_TRY(choose_fallback(&m));
    if (t->sample_count) {
        HN_TRY(choose_axes(&m));
        HN_TRY(fill_cells(&m));
        HN_TRY(make_boxes(&m));
    }
    take_only(&m);
    put_table(&m, out);
    return hn_choice_check(&out->table.head, out->table.boxes);
}

/* ---- from records ---- */

static hn_choice_time exactly(double ns) { return (hn_choice_time){ns, ns, ns}; }

/* The number of the form; form_count: the record does not have it. */
static uint32_t form_of(const hn_tuning_record *r, const hn_form_name *variant) {
    uint32_t k = 0;
    while (k < r->form_count && !hn_form_name_eq(&r->forms[k].form, variant)) k++;
    return k;
}

/* Where somebody has said what runs, nothing else has a time. */
static hn_choice_time time_of(const hn_tuning_record *r, uint32_t k) {
    if (k == r->form_count) return exactly(0);
    const hn_form_timing *f = &r->forms[k];
    if (r->how == HN_TUNING_FORCED) return exactly(k == r->pick);
    if (r->how == HN_TUNING_MODEL) return exactly(f->predicted_ns);
    if (hn_tuning_record_has_winner(r)) /* in units of the winner's time: nobody asks for more */
        return (hn_choice_time){f->ratio, f->ratio_low, f->ratio_high};
    return (hn_choice_time){f->median_ns, f->low_ns, f->high_ns};
}

/* What the model of costs has put in front is no verdict. */
static bool is_pick(const hn_tuning_record *r, uint32_t form) {
    return form == r->pick && r->how != HN_TUNING_MODEL;
}

hn_status hn_choice_times_of(const hn_tuning_record *const *records, uint32_t record_count,
                             const hn_form_name *variants, uint32_t variant_count, hn_arena *arena,
                             hn_choice_times *out) {
    int64_t *sizes;
    uint32_t *picks;
    hn_choice_time *times;
    *out = (hn_choice_times){.variant_count = variant_count,
                             .size_count = record_count ? records[0]->size_count : 0,
                             .fallback = HN_CHOICE_ANY};
    HN_NEW(arena, sizes, (size_t)record_count * out->size_count + 1);
    HN_NEW(arena, picks, (size_t)record_count + 1);
    HN_NEW(arena, times, (size_t)record_count * variant_count + 1);
    for (uint32_t k = 0; k < record_count; k++) {
        const hn_tuning_record *r = records[k];
        const size_t n = out->sample_count;
        if (r->size_count != out->size_count) continue;
        for (uint32_t s = 0; s < r->size_count; s++) sizes[n * r->size_count + s] = r->sizes[s];
        picks[n] = HN_CHOICE_ANY;
        for (uint32_t v = 0; v < variant_count; v++) {
            const uint32_t form = form_of(r, &variants[v]);
            times[n * variant_count + v] = time_of(r, form);
            if (is_pick(r, form)) picks[n] = v;
        }
        out->sample_count++;
    }
    out->sizes = sizes, out->times = times, out->picks = picks;
    return NULL;
}
