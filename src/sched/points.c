/* points.c: which element of one buffer belongs to which of another, where a loop reads both. */
#include "sched/calls.h"

/* Whether `e` is the same at each iteration: sizes alone. */
static bool is_fixed(const sched *s, hn_expr e) {
    hn_expr symbols[32];
    uint32_t count = hn_sym_symbols(s->sym, e, symbols, 32);
    for (uint32_t k = 0; k < count && k < 32; k++) {
        hn_symbol_kind kind = hn_sym_symbol_kind(s->sym, symbols[k]);
        if (kind == HN_SYMBOL_INDEX || kind == HN_SYMBOL_INDIRECT) return false;
    }
    return count <= 32;
}

bool loop_access_of(sched *s, const hn_loop *loop, hn_expr index, loop_access *out) {
    out->rest = index;
    for (uint32_t d = 0; d < loop->rank + loop->red_rank; d++) {
        if (!hn_sym_affine(s->sym, out->rest, loop->vars[d], &out->coeffs[d], &out->rest))
            return false;
        if (!is_fixed(s, out->coeffs[d])) return false;
    }
    return is_fixed(s, out->rest);
}

/* Whether the loop's loads and its store are sums over its variables, as far as `var` is in them. */
static bool is_straight(sched *s, const hn_loop *loop, hn_expr var) {
    hn_expr coeff, rest;
    for (hn_sid k = 1; k < loop->body.count; k++) {
        const hn_sop *op = &loop->body.items[k];
        if (op->kind == HN_SOP_LOAD &&
            (!hn_sym_affine(s->sym, op->index, var, &coeff, &rest) || !is_fixed(s, coeff)))
            return false;
    }
    return hn_sym_affine(s->sym, loop->store.index, var, &coeff, &rest) && is_fixed(s, coeff);
}

/* Variable `d` as two, the inner one of `extent`. */
static hn_status cut_at(sched *s, const hn_loop *loop, uint32_t d, hn_expr extent, hn_loop *out,
                        bool *out_better) {
    const dims all = loop_dims(s, loop);
    const hn_expr outer = dims_quotient(s, all.items[d], extent);
    dims to = {.count = all.count + 1};
    *out_better = false;
    if (!outer || hn_sym_is_value(s->sym, outer, 1) || hn_sym_is_value(s->sym, extent, 1) ||
        all.count == HN_MAX_RANK)
        return NULL;
    for (uint32_t k = 0; k < all.count; k++) to.items[k + (k > d)] = all.items[k];
    to.items[d] = outer, to.items[d + 1] = extent;
    HN_TRY(loop_copy(s, loop, out));
    *out_better = loop_revar(s, out, &to, loop->rank + 1) && is_straight(s, out, out->vars[d]) &&
                  is_straight(s, out, out->vars[d + 1]);
    return NULL;
}

hn_status loop_cut(sched *s, const hn_loop *loop, const hn_expr *extents, uint32_t count,
                   hn_loop *out) {
    *out = *loop;
    for (uint32_t d = 0; d < out->rank; d++) {
        bool is_better = is_straight(s, out, out->vars[d]);
        for (uint32_t k = 0; k < count && !is_better; k++) {
            hn_loop tried;
            HN_TRY(cut_at(s, out, d, extents[k], &tried, &is_better));
            if (is_better) *out = tried;
        }
    }
    return NULL;
}

/* A variable, or what is left of it when inner dimensions have taken their part. */
typedef struct part {
    uint32_t var;
    hn_expr extent, by, what; /* coefficients */
} part;

typedef struct walk {
    sched *s;
    const call_space *of;
    const hn_loop *loop;
    const loop_access *by, *what;
    bool used[HN_MAX_RANK];
    part rest; /* extent 0: nothing is left over */
    uint32_t *owner;
} walk;

static bool is_one(const walk *w, hn_expr e) { return hn_sym_is_value(w->s->sym, e, 1); }

/* What walks the operand in steps of `stride`. */
static bool next_part(walk *w, hn_expr stride, part *out) {
    if (w->rest.extent) {
        *out = w->rest;
        w->rest.extent = 0;
        return out->by == stride;
    }
    for (uint32_t d = 0; d < w->loop->rank + w->loop->red_rank; d++) {
        hn_expr extent = hn_sym_symbol_extent(w->s->sym, w->loop->vars[d]);
        if (w->used[d] || w->by->coeffs[d] != stride || is_one(w, extent)) continue;
        w->used[d] = true;
        *out = (part){d, extent, stride, w->what->coeffs[d]};
        return true;
    }
    return false;
}

static void own(const walk *w, uint32_t var, uint32_t dim) {
    if (!w->owner) return;
    bool first = w->owner[var] == UINT32_MAX || w->owner[var] == dim;
    w->owner[var] = first ? dim : CALL_DIMS_MAX;
}

/* One dimension: one variable, several whose products it is, or part of one. */
static bool walk_dim(walk *w, uint32_t dim, hn_expr *out_stride) {
    hn_sym *sym = w->s->sym;
    hn_expr left = w->of->extents[dim], stride = w->of->strides[dim], expected = 0;
    *out_stride = hn_sym_int(sym, 0);
    while (!is_one(w, left)) {
        part p;
        hn_expr quotient;
        if (!next_part(w, stride, &p) || (expected && p.what != expected)) return false;
        own(w, p.var, dim);
        if (!expected) *out_stride = p.what;
        if (p.extent == left) return true;
        if ((quotient = dims_quotient(w->s, left, p.extent))) {
            left = quotient;
            stride = hn_sym_mul(sym, stride, p.extent);
            expected = hn_sym_mul(sym, p.what, p.extent);
        } else if ((quotient = dims_quotient(w->s, p.extent, left))) {
            w->rest =
                (part){p.var, quotient, hn_sym_mul(sym, p.by, left), hn_sym_mul(sym, p.what, left)};
            return true;
        } else {
            return false;
        }
    }
    return true;
}

/* The last dimension that is not done; what is left of a variable belongs to the one that goes on
 * where it stands in memory, such as the head beside the columns. CALL_DIMS_MAX: there is none. */
static uint32_t next_dim(const walk *w, const bool *done) {
    for (uint32_t dim = w->of->count; dim-- > 0;)
        if (!done[dim] && (!w->rest.extent ||
                           (w->of->strides[dim] == w->rest.by && !is_one(w, w->of->extents[dim]))))
            return dim;
    return CALL_DIMS_MAX;
}

bool loop_strides_of(sched *s, const call_space *of, const hn_loop *loop, const loop_access *by,
                     const loop_access *what, hn_expr *out_strides, uint32_t *out_owner) {
    walk w = {.s = s, .of = of, .loop = loop, .by = by, .what = what, .owner = out_owner};
    uint32_t rank = loop->rank + loop->red_rank;
    if (by->rest != of->offset) return false;
    for (uint32_t d = 0; d < rank && out_owner; d++) out_owner[d] = UINT32_MAX;
    bool done[CALL_DIMS_MAX] = {0};
    for (uint32_t k = 0; k < of->count; k++) {
        const uint32_t dim = next_dim(&w, done);
        if (dim == CALL_DIMS_MAX || !walk_dim(&w, dim, &out_strides[dim])) return false;
        done[dim] = true;
    }
    if (w.rest.extent) return false;
    for (uint32_t d = 0; d < rank; d++)
        if (!w.used[d] && !is_one(&w, hn_sym_symbol_extent(s->sym, loop->vars[d]))) return false;
    return true;
}
