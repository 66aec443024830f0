/* tensor_stats.c: one pass over a tensor. Dimensions are put in the order of memory and joined
 * where they can be. Blocks of a few KiB are then looked at: numbers that are no floats become
 * doubles, 16-bit floats become floats. A block is read twice, from the first cache the second time:
 * for its range and mean, and then for the squares around that mean. So large numbers with a small
 * deviation lose nothing. Blocks are joined by the formula of Chan, Golub and LeVeque (1983). */
#include "runtime/tensor_stats.h"

#include "base/compiler.h"

#include <math.h>
#include <string.h>

enum { BLOCK = 2048 };            /* elements that are looked at together */
enum { LANES = 16 };              /* sums side by side, so that the compiler uses vectors */
enum { TASK_ELEMENTS = 1 << 16 }; /* fewer are not worth a thread */

/* ---- what is known of some elements ---- */

typedef hn_stats_part part;

static const part nothing = {.first_bad = -1, .lo = INFINITY, .hi = -INFINITY};

/* Adds elements that come later in the walk. */
static void join(part *all, const part *more) {
    const double count = (double)all->finite + (double)more->finite;
    all->nan_count += more->nan_count;
    all->inf_count += more->inf_count;
    if (all->first_bad < 0) all->first_bad = more->first_bad;
    if (!more->finite) return;
    const double apart = more->mean - all->mean, share = (double)more->finite / count;
    all->squares += more->squares;
    if (all->finite) all->squares += apart * apart * (double)all->finite * share;
    if (!all->finite) all->mean = more->mean;
    else if (isfinite(apart)) all->mean += apart * share;
    else all->mean = all->mean * (1 - share) + more->mean * share;
    all->finite += more->finite;
    if (more->lo < all->lo) all->lo = more->lo;
    if (more->hi > all->hi) all->hi = more->hi;
}

/* ---- a block ---- */

/* Any numbers, one by one. */
static void look_slowly(const double *x, int64_t count, part *out) {
    double mean = 0;
    *out = nothing;
    for (int64_t k = 0; k < count; k++) {
        if (!isfinite(x[k])) {
            if (out->first_bad < 0) out->first_bad = k;
            if (isnan(x[k])) out->nan_count++;
            else out->inf_count++;
            continue;
        }
        out->finite++;
        /* a running mean: the sum of large numbers may not be finite, nor their difference */
        const double n = (double)out->finite, apart = x[k] - mean;
        mean += isfinite(apart) ? apart / n : x[k] / n - mean / n;
        if (x[k] < out->lo) out->lo = x[k];
        if (x[k] > out->hi) out->hi = x[k];
    }
    out->mean = mean;
    for (int64_t k = 0; k < count; k++)
        if (isfinite(x[k])) out->squares += (x[k] - mean) * (x[k] - mean);
}

/* Fast, and right when all numbers are finite, neither their sum nor that of the squares is too large
 * for the type, and the squares are not so small that bits of them are lost. Of the first two,
 * something in `out` is not finite if they fail: 0 times infinity is NaN. */
#define LOOK_FAST(name, real, least)                                                               \
    static bool name(const real *x, int64_t count, part *out) {                                    \
        real lo[LANES], hi[LANES], sum[LANES] = {0}, squares[LANES] = {0};                         \
        double total = 0, around = 0;                                                              \
        const int64_t whole = count - count % LANES;                                               \
        *out = nothing;                                                                            \
        for (int l = 0; l < LANES; l++) lo[l] = hi[l] = x[0];                                      \
        for (int64_t k = 0; k < whole; k += LANES)                                                 \
            for (int l = 0; l < LANES; l++) {                                                      \
                const real v = x[k + l];                                                           \
                lo[l] = v < lo[l] ? v : lo[l];                                                     \
                hi[l] = v > hi[l] ? v : hi[l];                                                     \
                sum[l] += v;                                                                       \
            }                                                                                      \
        for (int64_t k = whole; k < count; k++) {                                                  \
            lo[0] = x[k] < lo[0] ? x[k] : lo[0];                                                   \
            hi[0] = x[k] > hi[0] ? x[k] : hi[0];                                                   \
            sum[0] += x[k];                                                                        \
        }                                                                                          \
        for (int l = 0; l < LANES; l++) {                                                          \
            total += (double)sum[l];                                                               \
            if (lo[l] < out->lo) out->lo = lo[l];                                                  \
            if (hi[l] > out->hi) out->hi = hi[l];                                                  \
        }                                                                                          \
        out->finite = count;                                                                       \
        out->mean = total / (double)count;                                                         \
        const real mean = (real)out->mean;                                                         \
        for (int64_t k = 0; k < whole; k += LANES)                                                 \
            for (int l = 0; l < LANES; l++) squares[l] += (x[k + l] - mean) * (x[k + l] - mean);   \
        for (int64_t k = whole; k < count; k++) squares[0] += (x[k] - mean) * (x[k] - mean);       \
        for (int l = 0; l < LANES; l++) around += (double)squares[l];                              \
        out->squares = around;                                                                     \
        return isfinite(out->mean) && isfinite(around) &&                                          \
               (around > (least) || out->lo == out->hi);                                           \
    }
LOOK_FAST(look_floats, float, 0x1p-90)
LOOK_FAST(look_doubles, double, 0x1p-900)

/* ---- elements as numbers ---- */

/* Of a half, without branches: the exponent is moved by a product, which also makes small numbers
 * right. */
static inline float from_half(uint16_t h) {
    uint32_t bits = (uint32_t)(h & 0x7fffu) << 13, sign = (uint32_t)(h & 0x8000u) << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    value *= 0x1p112f;
    memcpy(&bits, &value, sizeof bits);
    bits |= (h & 0x7c00u) == 0x7c00u ? 0x7f800000u : 0;
    bits |= sign;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline float from_bf16(uint16_t h) {
    const uint32_t bits = (uint32_t)h << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

#define EACH(type, expression)                                                                     \
    {                                                                                              \
        const type *x = raw;                                                                       \
        for (int64_t k = 0; k < count; k++) out[k] = (expression);                                 \
        return;                                                                                    \
    }

void hn_stats_to_doubles(hn_scalar_type type, const void *raw, int64_t count, double *out) {
    switch (type) {
    case HN_F64: EACH(double, x[k])
    case HN_F32: EACH(float, (double)x[k])
    case HN_F16: EACH(uint16_t, (double)from_half(x[k]))
    case HN_BF16: EACH(uint16_t, (double)from_bf16(x[k]))
    case HN_I64: EACH(int64_t, (double)x[k])
    case HN_I32: EACH(int32_t, (double)x[k])
    case HN_I16: EACH(int16_t, (double)x[k])
    case HN_I8: EACH(int8_t, (double)x[k])
    case HN_BOOL: EACH(uint8_t, x[k] ? 1.0 : 0.0)
    default: EACH(uint8_t, (double)x[k])
    }
}

static void halves_to_floats(hn_scalar_type type, const void *raw, int64_t count, float *out) {
    if (type == HN_F16) EACH(uint16_t, from_half(x[k]))
    EACH(uint16_t, from_bf16(x[k]))
}

static void look(hn_scalar_type type, const void *raw, int64_t count, part *out) {
    double wide[BLOCK];
    float floats[BLOCK];
    bool good;
    switch (type) {
    case HN_F32: good = look_floats(raw, count, out); break;
    case HN_F64: good = look_doubles(raw, count, out); break;
    case HN_F16:
    case HN_BF16:
        halves_to_floats(type, raw, count, floats);
        good = look_floats(floats, count, out);
        break;
    default: /* integers are finite, and so is the sum of a block of their squares */
        hn_stats_to_doubles(type, raw, count, wide);
        (void)look_doubles(wide, count, out);
        return;
    }
    if (HN_LIKELY(good)) return;
    hn_stats_to_doubles(type, raw, count, wide);
    look_slowly(wide, count, out);
}

/* ---- the walk ---- */

typedef hn_stats_walk walk;

/* Larger strides first; equal ones keep their order. */
static void sort_dimensions(walk *w) {
    for (uint32_t k = 1; k < w->rank; k++)
        for (uint32_t d = k; d > 0 && w->strides[d - 1] < w->strides[d]; d--) {
            const int64_t size = w->sizes[d], stride = w->strides[d];
            w->sizes[d] = w->sizes[d - 1], w->strides[d] = w->strides[d - 1];
            w->sizes[d - 1] = size, w->strides[d - 1] = stride;
            w->is_row_major = false;
        }
}

static void join_dimensions(walk *w) {
    uint32_t last = 0;
    for (uint32_t d = 1; d < w->rank; d++) {
        if (w->strides[last] == w->strides[d] * w->sizes[d]) {
            w->sizes[last] *= w->sizes[d];
            w->strides[last] = w->strides[d];
        } else {
            last++;
            w->sizes[last] = w->sizes[d];
            w->strides[last] = w->strides[d];
        }
    }
    w->rank = last + 1;
}

void hn_stats_walk_init(walk *w, const hn_stats_tensor *t, bool in_row_major_order) {
    int64_t rows = 1;
    *w = (walk){.type = t->type,
                .elem_bytes = hn_scalar_type_bytes(t->type),
                .data = t->data,
                .is_row_major = true};
    for (uint32_t d = 0; d < t->rank; d++) {
        if (t->sizes[d] == 1) continue;
        w->sizes[w->rank] = t->sizes[d];
        w->strides[w->rank++] = t->strides[d];
    }
    if (!w->rank) w->sizes[w->rank] = 1, w->strides[w->rank++] = 1;
    if (!in_row_major_order) sort_dimensions(w);
    join_dimensions(w);
    for (uint32_t d = 0; d + 1 < w->rank; d++) rows *= w->sizes[d];
    w->units_per_row = (w->sizes[w->rank - 1] + BLOCK - 1) / BLOCK;
    w->units = rows * w->units_per_row;
}

/* Where a row begins. */
static const uint8_t *row_at(const walk *w, int64_t row) {
    int64_t offset = 0;
    for (uint32_t d = w->rank - 1; d-- > 0; row /= w->sizes[d])
        offset += row % w->sizes[d] * w->strides[d];
    return w->data + offset * (int64_t)w->elem_bytes;
}

/* Elements that are not side by side. */
static void gather(const walk *w, const uint8_t *from, int64_t count, uint8_t *out) {
    const int64_t step = w->strides[w->rank - 1] * (int64_t)w->elem_bytes;
    for (int64_t k = 0; k < count; k++)
        memcpy(out + k * (int64_t)w->elem_bytes, from + k * step, w->elem_bytes);
}

/* A unit: a row of the innermost dimension, or a block of one. */
static void look_at_unit(const walk *w, int64_t unit, part *all) {
    _Alignas(8) uint8_t gathered[BLOCK * sizeof(double)];
    const int64_t size = w->sizes[w->rank - 1], stride = w->strides[w->rank - 1];
    const int64_t row = unit / w->units_per_row, at = unit % w->units_per_row * BLOCK;
    const int64_t count = size - at < BLOCK ? size - at : BLOCK;
    const uint8_t *from = row_at(w, row) + at * stride * (int64_t)w->elem_bytes;
    part here;
    if (stride != 1) {
        gather(w, from, count, gathered);
        from = gathered;
    }
    look(w->type, from, count, &here);
    if (here.first_bad >= 0) here.first_bad += row * size + at;
    join(all, &here);
}

/* ---- threads ---- */

enum { MAX_TASKS = 64 };

typedef struct job {
    const walk *walk;
    int tasks;
    part parts[MAX_TASKS];
} job;

static void run_task(void *context, int task) {
    job *j = context;
    const int64_t units = j->walk->units;
    part all = nothing;
    for (int64_t k = units * task / j->tasks; k < units * (task + 1) / j->tasks; k++)
        look_at_unit(j->walk, k, &all);
    j->parts[task] = all;
}

static void run(const walk *w, hn_team *team, int threads, int64_t count, part *out) {
    job j = {.walk = w};
    int64_t tasks = count / TASK_ELEMENTS;
    if (tasks > threads) tasks = threads;
    if (tasks > MAX_TASKS) tasks = MAX_TASKS;
    if (tasks > w->units) tasks = w->units;
    j.tasks = tasks < 1 || !team ? 1 : (int)tasks;
    if (j.tasks == 1) run_task(&j, 0);
    else hn_team_run(team, j.tasks, run_task, &j);
    *out = nothing;
    for (int t = 0; t < j.tasks; t++) join(out, &j.parts[t]);
}

/* ---- the result ---- */

static double value_at(const walk *w, int64_t index) {
    const int64_t size = w->sizes[w->rank - 1];
    const uint8_t *at = row_at(w, index / size);
    double value;
    at += index % size * w->strides[w->rank - 1] * (int64_t)w->elem_bytes;
    hn_stats_to_doubles(w->type, at, 1, &value);
    return value;
}

/* The first bad element in the order of indices; there is one. */
static void find_first(const hn_stats_tensor *t, walk *w, const part *all, hn_tensor_stats *out) {
    part seen = nothing;
    out->first_bad = all->first_bad;
    if (!w->is_row_major) {
        hn_stats_walk_init(w, t, true);
        for (int64_t k = 0; k < w->units && seen.first_bad < 0; k++) look_at_unit(w, k, &seen);
        out->first_bad = seen.first_bad;
    }
    out->first_bad_value = value_at(w, out->first_bad);
}

bool hn_stats_begin(const hn_stats_tensor *t, hn_tensor_stats *out) {
    *out = (hn_tensor_stats){
        .count = 1, .first_bad = -1, .min = NAN, .max = NAN, .mean = NAN, .std = NAN};
    for (uint32_t d = 0; d < t->rank; d++) out->count *= t->sizes[d];
    return out->count != 0;
}

void hn_stats_put(const part *all, hn_tensor_stats *out) {
    out->nan_count = all->nan_count;
    out->inf_count = all->inf_count;
    if (!all->finite) return;
    out->min = all->lo;
    out->max = all->hi;
    out->mean = all->mean;
    out->std = sqrt(all->squares / (double)all->finite);
}

void hn_tensor_stats_get(const hn_stats_tensor *t, hn_team *team, int threads,
                         hn_tensor_stats *out) {
    walk w;
    part all;
    if (!hn_stats_begin(t, out)) return;
    hn_stats_walk_init(&w, t, false);
    run(&w, team, threads, out->count, &all);
    hn_stats_put(&all, out);
    if (all.first_bad >= 0) find_first(t, &w, &all, out);
}
