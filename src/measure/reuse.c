/* reuse.c: distances of reuse.
 *
 * Memory is cut where a touch begins or ends, so that each touch is a row of whole pieces. A piece
 * remembers the step that touched it last. A Fenwick tree over the steps has the bytes of the pieces
 * that each was the last to touch: what lies at or behind a piece's own step is its distance.
 * Source: Bennett and Kruskal, LRU stack processing, IBM Journal 1975. */
#include "measure/reuse.h"

#include <stdlib.h>

typedef struct piece {
    int64_t bytes;
    uint32_t last;             /* step that touched it last, from 1; 0: none has */
    bool is_given, is_touched; /* in the first of the two runs */
} piece;

typedef struct walk {
    const hn_touch *touches;
    uint32_t count;
    uint64_t *ends; /* where pieces begin; one more than there are pieces */
    uint32_t piece_count;
    piece *pieces;
    double *tree; /* [1 .. 2 * steps] */
    uint32_t steps;
    const hn_ceilings *ceilings;
    hn_reuse *out;
} walk;

/* ---- pieces ---- */

static int by_address(const void *a, const void *b) {
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static bool is_something(const hn_touch *t) { return t->bytes > 0; }

static void cut(walk *w) {
    uint32_t n = 0, kept = 0;
    for (uint32_t k = 0; k < w->count; k++) {
        const hn_touch *t = &w->touches[k];
        if (!is_something(t)) continue;
        w->ends[n++] = t->address;
        w->ends[n++] = t->address + (uint64_t)t->bytes;
    }
    qsort(w->ends, n, sizeof *w->ends, by_address);
    for (uint32_t k = 0; k < n; k++)
        if (!kept || w->ends[kept - 1] != w->ends[k]) w->ends[kept++] = w->ends[k];
    w->piece_count = kept ? kept - 1 : 0;
    for (uint32_t k = 0; k < w->piece_count; k++)
        w->pieces[k].bytes = (int64_t)(w->ends[k + 1] - w->ends[k]);
}

static uint32_t first_piece(const walk *w, const hn_touch *t) {
    uint32_t low = 0, high = w->piece_count;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (w->ends[middle] < t->address) low = middle + 1;
        else high = middle;
    }
    return low;
}

static uint64_t end_of(const hn_touch *t) { return t->address + (uint64_t)t->bytes; }

/* ---- the tree ---- */

static void add(walk *w, uint32_t at, double bytes) {
    for (; at <= 2 * w->steps; at += at & -at) w->tree[at] += bytes;
}

static double sum_until(const walk *w, uint32_t at) {
    double sum = 0;
    for (; at; at -= at & -at) sum += w->tree[at];
    return sum;
}

/* ---- the walk ---- */

/* Of what is too far for a level, as much as it holds of all that is so far. */
static void share_out(const walk *w, const piece *p, double *out) {
    const uint32_t farthest = w->ceilings->level_count - 1;
    const double far = p->last ? sum_until(w, 2 * w->steps) - sum_until(w, p->last - 1) : 0;
    double nearer = 0;
    for (uint32_t l = 0; l <= farthest; l++) {
        const double holds = (double)w->ceilings->levels[l].bytes;
        double share = l == farthest || (p->last && far <= holds) ? 1 : 0;
        if (share == 0 && p->last) share = holds / far;
        out[l] += (share - nearer) * (double)p->bytes;
        nearer = share;
    }
}

static void look(walk *w, const hn_touch *t, hn_reuse *out) {
    double *bytes = t->is_written ? out->written : out->read;
    for (uint32_t k = first_piece(w, t); k < w->piece_count && w->ends[k] < end_of(t); k++)
        share_out(w, &w->pieces[k], bytes);
}

/* `now`: the step, from 1. */
static void touch(walk *w, const hn_touch *t, uint32_t now) {
    for (uint32_t k = first_piece(w, t); k < w->piece_count && w->ends[k] < end_of(t); k++) {
        piece *p = &w->pieces[k];
        if (!p->is_touched) p->is_given = !t->is_written;
        p->is_touched = true;
        if (p->last) add(w, p->last, -(double)p->bytes);
        p->last = now;
        add(w, now, (double)p->bytes);
    }
}

/* What a step reads is looked at before any of it is touched, and touched before what it writes. */
static void run_step(walk *w, uint32_t first, uint32_t end, uint32_t now, bool is_second) {
    for (uint32_t k = first; k < end && is_second; k++)
        if (is_something(&w->touches[k])) look(w, &w->touches[k], &w->out[w->touches[k].step]);
    for (int pass = 0; pass < 2; pass++)
        for (uint32_t k = first; k < end; k++)
            if (is_something(&w->touches[k]) && w->touches[k].is_written == (pass == 1))
                touch(w, &w->touches[k], now);
}

static void run(walk *w, bool is_second) {
    for (uint32_t k = 0, end; k < w->count; k = end) {
        const uint32_t step = w->touches[k].step;
        for (end = k; end < w->count && w->touches[end].step == step;) end++;
        run_step(w, k, end, step + 1 + (is_second ? w->steps : 0), is_second);
    }
}

static hn_footprint footprint_of(const walk *w) {
    hn_footprint all = {.bytes = 0};
    for (uint32_t k = 0; k < w->piece_count; k++) {
        const piece *p = &w->pieces[k];
        if (!p->is_touched) continue;
        all.bytes += (double)p->bytes;
        all.given_bytes += p->is_given ? (double)p->bytes : 0;
    }
    return all;
}

hn_status hn_reuse_of(const hn_touch *touches, uint32_t count, uint32_t step_count,
                      const hn_ceilings *ceilings, hn_reuse *out, hn_footprint *out_footprint) {
    walk w = {
        .touches = touches, .count = count, .steps = step_count, .ceilings = ceilings, .out = out};
    for (uint32_t k = 0; k < count; k++)
        if (touches[k].step >= step_count || (k && touches[k].step < touches[k - 1].step))
            return HN_ERROR(HN_INVALID_ARGUMENT, "step %u is out of order", touches[k].step);
    w.ends = calloc(2 * (size_t)count + 1, sizeof *w.ends);
    w.pieces = calloc(2 * (size_t)count + 1, sizeof *w.pieces);
    w.tree = calloc(2 * (size_t)step_count + 1, sizeof *w.tree);
    const bool has_memory = w.ends && w.pieces && w.tree;
    if (has_memory) {
        memset(out, 0, step_count * sizeof *out);
        cut(&w);
        run(&w, false);
        *out_footprint = footprint_of(&w);
        run(&w, true);
    }
    free(w.ends);
    free(w.pieces);
    free(w.tree);
    return has_memory ? NULL : HN_ERROR(HN_OUT_OF_MEMORY, "no memory to follow a run's memory");
}
