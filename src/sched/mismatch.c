/* mismatch.c: how two loops walk a buffer that they share, for those who want to know why they have
 * no kernel in common.
 *
 * An access is a list of dims, each with an extent and a stride in memory, and the element at which
 * it begins. Neighbours that memory walks as one are one:
 *
 *   (i0 < 4, i1 < 8)  b[8*i0 + i1]      32 elements, stride 1
 *   (i0 < 8, i1 < 4)  b[i0 + 8*i1]      the same, if sorted: another order
 *   (i0 < 32)         b[31 - i0]        the same, backwards */
#include "sched/fuse.h"

#include <string.h>

static const hn_mismatch_kind kinds[] = {
#define HN_MISMATCH(id, name, sentence) {name, sentence},
#include "sched/mismatches.def"
#undef HN_MISMATCH
};

const hn_mismatch_kind *hn_mismatch_kind_of(hn_mismatch mismatch) { return &kinds[mismatch]; }

typedef struct walked_dim {
    hn_expr stride, extent; /* the stride without its sign */
    bool is_inner;          /* reduced, or of a row */
    bool is_backwards;
} walked_dim;

typedef struct walk {
    uint32_t count;
    walked_dim items[HN_MAX_RANK];
} walk;

typedef struct access {
    walk walk;     /* without dims of one iteration, and those that repeat */
    hn_expr elems; /* iterations of the loop */
    hn_expr first;
    bool is_indirect, wraps, repeats;
    bool has_inner; /* whether it matters which dims are inner */
} access;

static bool is_indirect(const sched *s, const hn_loop *loop, hn_expr index) {
    for (hn_sid k = 1; k < loop->body.count; k++)
        if (loop->body.items[k].kind == HN_SOP_INDIRECT &&
            hn_sym_uses(s->sym, index, loop->body.items[k].index))
            return true;
    return false;
}

/* The dim of a variable: `out->stride` is 0 if the index does not use it. */
static bool dim_of(sched *s, hn_expr var, hn_expr *index, walked_dim *out) {
    int64_t lo, hi;
    *out = (walked_dim){.extent = hn_sym_symbol_extent(s->sym, var)};
    if (!hn_sym_affine(s->sym, *index, var, &out->stride, index)) return false;
    hn_sym_range(s->sym, out->stride, &lo, &hi);
    out->is_backwards = hi < 0;
    if (out->is_backwards) out->stride = hn_sym_sub(s->sym, hn_sym_int(s->sym, 0), out->stride);
    return true;
}

/* The dims from `inner` on are inner. */
static access access_of(sched *s, const hn_loop *loop, hn_expr index, uint32_t inner) {
    const dims all = loop_dims(s, loop);
    access a = {.elems = dims_numel(s, &all), .first = index, .has_inner = inner < all.count};
    a.is_indirect = is_indirect(s, loop, index);
    for (uint32_t d = 0; d < all.count && !a.is_indirect && !a.wraps; d++) {
        walked_dim own;
        a.wraps = !dim_of(s, loop->vars[d], &a.first, &own);
        own.is_inner = d >= inner;
        if (a.wraps || hn_sym_is_value(s->sym, own.extent, 1)) continue;
        if (hn_sym_is_value(s->sym, own.stride, 0)) a.repeats = true;
        else a.walk.items[a.walk.count++] = own;
    }
    for (uint32_t d = 0; d < all.count; d++)
        for (uint32_t k = 0; k < a.walk.count; k++)
            a.wraps |= hn_sym_uses(s->sym, a.walk.items[k].stride, loop->vars[d]);
    return a;
}

static hn_sid next_load(const hn_loop *loop, hn_buf b, hn_sid from) {
    for (hn_sid k = from + 1; k < loop->body.count; k++)
        if (loop->body.items[k].kind == HN_SOP_LOAD && loop->body.items[k].buffer == b) return k;
    return 0;
}

/* How a group makes the buffer, or reads it first. False: it does not touch it. */
static bool find_group_access(sched *s, const group *g, hn_buf b, access *out) {
    const uint32_t inner = g->form == GROUP_FLAT ? HN_MAX_RANK : g->outer.count;
    for (uint32_t k = g->members.count; k-- > 0;) {
        const hn_loop *loop = g->members.items[k].loop;
        const hn_sid load = next_load(loop, b, 0);
        const bool stores = loop->store.buffer == b;
        if (!stores && !load) continue;
        *out = access_of(s, loop, stores ? loop->store.index : loop->body.items[load].index, inner);
        return true;
    }
    return false;
}

/* ---- comparing ---- */

/* The largest stride first. */
static walk sorted(const sched *s, const walk *w) {
    walk out = {.count = w->count};
    for (uint32_t k = 0; k < w->count; k++) {
        const int64_t stride = hn_sym_hint(s->sym, w->items[k].stride, HINT_ELEMS);
        uint32_t at = k;
        for (; at && hn_sym_hint(s->sym, out.items[at - 1].stride, HINT_ELEMS) < stride; at--)
            out.items[at] = out.items[at - 1];
        out.items[at] = w->items[k];
    }
    return out;
}

/* Neighbours that memory walks as one become one. */
static walk merged(sched *s, const walk *w) {
    walk out = {0};
    for (uint32_t k = 0; k < w->count; k++) {
        const walked_dim *d = &w->items[k];
        walked_dim *last = out.count ? &out.items[out.count - 1] : NULL;
        if (last && last->is_backwards == d->is_backwards &&
            last->stride == hn_sym_mul(s->sym, d->stride, d->extent)) {
            last->extent = hn_sym_mul(s->sym, last->extent, d->extent);
            last->stride = d->stride;
        } else {
            out.items[out.count++] = *d;
        }
    }
    return out;
}

static walk outer_of(const walk *w) {
    walk out = {0};
    for (uint32_t k = 0; k < w->count; k++)
        if (!w->items[k].is_inner) out.items[out.count++] = w->items[k];
    return out;
}

/* `*out_direction`: where both do, whether in the same direction. */
static bool walk_alike(sched *s, const walk *x, const walk *y, bool *out_direction) {
    const walk a = merged(s, x), b = merged(s, y);
    *out_direction = true;
    if (a.count != b.count) return false;
    for (uint32_t k = 0; k < a.count; k++) {
        if (a.items[k].stride != b.items[k].stride || a.items[k].extent != b.items[k].extent)
            return false;
        *out_direction &= a.items[k].is_backwards == b.items[k].is_backwards;
    }
    return true;
}

static hn_mismatch compare_order(sched *s, const access *a, const access *b) {
    bool same;
    const walk x = sorted(s, &a->walk), y = sorted(s, &b->walk), x_outer = outer_of(&x),
               y_outer = outer_of(&y);
    if (!walk_alike(s, &x, &y, &same))
        return a->repeats != b->repeats ? HN_MISMATCH_REPEATS : HN_MISMATCH_STRIDES;
    if (!same) return HN_MISMATCH_REVERSED;
    if (a->first != b->first) return HN_MISMATCH_OFFSET;
    if (a->has_inner && b->has_inner && !walk_alike(s, &x_outer, &y_outer, &same))
        return HN_MISMATCH_REDUCED;
    return walk_alike(s, &a->walk, &b->walk, &same) ? HN_MISMATCH_ALIKE : HN_MISMATCH_ORDER;
}

static hn_mismatch compare(sched *s, const access *a, const access *b) {
    if (a->is_indirect || b->is_indirect) return HN_MISMATCH_INDIRECT;
    if (a->wraps || b->wraps) return HN_MISMATCH_WRAPS;
    if (a->elems == b->elems) return compare_order(s, a, b);
    const bool is_less = dims_quotient(s, a->elems, b->elems) == 0,
               is_part = is_less && dims_quotient(s, b->elems, a->elems);
    if (is_less && !is_part) return HN_MISMATCH_SIZES;
    return (is_less ? b : a)->repeats ? HN_MISMATCH_REPEATS : HN_MISMATCH_MULTIPLE;
}

/* Of the loop's loads of the buffer. */
static hn_mismatch compare_loads(sched *s, const access *its, const hn_loop *loop, hn_buf b) {
    enum { LOADS_MAX = 4 };
    const uint32_t inner = loop->kind == HN_LOOP_POINTWISE ? HN_MAX_RANK : loop->rank;
    hn_mismatch mismatch = HN_MISMATCH_ALIKE;
    hn_sid load = 0;
    for (uint32_t k = 0; k < LOADS_MAX && mismatch == HN_MISMATCH_ALIKE; k++) {
        if (!(load = next_load(loop, b, load))) break;
        const access own = access_of(s, loop, loop->body.items[load].index, inner);
        mismatch = compare(s, its, &own);
    }
    return mismatch;
}

hn_mismatch fuse_mismatch(sched *s, const fuse_candidate *c, const hn_loop *loop,
                          hn_refusal_reason why) {
    hn_mismatch mismatch = HN_MISMATCH_ALIKE;
    if (why != HN_REFUSED_SPACES && why != HN_REFUSED_OTHER_ROWS && why != HN_REFUSED_ROWS_DIFFER &&
        why != HN_REFUSED_COLUMNS_DIFFER)
        return HN_MISMATCH_NONE;
    for (uint32_t k = 0; k < c->shared_count && mismatch == HN_MISMATCH_ALIKE; k++) {
        access its;
        if (find_group_access(s, &s->groups.items[c->group], c->shared[k], &its))
            mismatch = compare_loads(s, &its, loop, c->shared[k]);
    }
    return mismatch;
}
