/* fuse_rows.c: whether a loop takes from a group only what its own row, or element, makes there. */
#include "sched/fuse.h"

#include <string.h>

static bool group_writes(const group *g, hn_buf b) {
    for (uint32_t k = 0; k < g->members.count; k++)
        if (g->members.items[k].loop->store.buffer == b ||
            (b && g->members.items[k].loop->indices.buffer == b))
            return true;
    return false;
}

/* base + sum(coeff * outer var) of an index: the part that depends on the row must be affine; the
 * rest is `inner`. */
static bool split_row(sched *s, const dims *outer, hn_expr index, hn_expr *coeffs, hn_expr *inner) {
    for (uint32_t d = 0; d < outer->count; d++) {
        hn_expr var = hn_sym_index(s->sym, d, outer->items[d]);
        if (!hn_sym_affine(s->sym, index, var, &coeffs[d], &index)) return false;
        for (uint32_t e = 0; e < outer->count; e++)
            if (hn_sym_uses(s->sym, coeffs[d], hn_sym_index(s->sym, e, outer->items[e])))
                return false;
    }
    *inner = index;
    return true;
}

/* Rows that start `coeffs` apart and stay within [lo, hi] of their start do not meet. */
static bool rows_are_apart(sched *s, const dims *outer, const hn_expr *coeffs, hn_expr span) {
    bool used[HN_MAX_RANK] = {false};
    for (uint32_t round = 0; round < outer->count; round++) {
        uint32_t best = outer->count;
        for (uint32_t d = 0; d < outer->count; d++)
            if (!used[d] &&
                (best == outer->count || hn_sym_prove_lt(s->sym, coeffs[d], coeffs[best])))
                best = d;
        used[best] = true;
        if (!hn_sym_prove_le(s->sym, span, coeffs[best])) return false;
        hn_expr steps = hn_sym_sub(s->sym, outer->items[best], hn_sym_int(s->sym, 1));
        span = hn_sym_add(s->sym, span, hn_sym_mul(s->sym, steps, coeffs[best]));
    }
    return true;
}

/* The largest value of an index over the inner loops, by setting each variable to its end: an
 * expression. */
static bool inner_span(sched *s, hn_expr inner, hn_expr *out) {
    hn_expr symbols[32];
    uint32_t count = hn_sym_symbols(s->sym, inner, symbols, 32);
    if (count > 32) return false;
    hn_expr one = hn_sym_int(s->sym, 1), rest = inner, last = one;
    for (uint32_t k = 0; k < count; k++) {
        if (hn_sym_symbol_kind(s->sym, symbols[k]) == HN_SYMBOL_SIZE ||
            hn_sym_symbol_kind(s->sym, symbols[k]) == HN_SYMBOL_DATA)
            continue;
        hn_expr coeff, end;
        if (!hn_sym_affine(s->sym, rest, symbols[k], &coeff, &rest)) return false;
        if (!hn_sym_prove_le(s->sym, hn_sym_int(s->sym, 0), coeff)) return false;
        end = hn_sym_mul(s->sym, coeff,
                         hn_sym_sub(s->sym, hn_sym_symbol_extent(s->sym, symbols[k]), one));
        last = hn_sym_add(s->sym, last, end);
    }
    if (!hn_sym_prove_le(s->sym, hn_sym_int(s->sym, 0), rest)) return false;
    *out = hn_sym_add(s->sym, last, rest);
    return true;
}

/* Whether a read at `index` takes only what the same row wrote at `store_index`. */
static bool is_row_local(sched *s, const dims *outer, hn_expr index, hn_expr store_index) {
    if (index == store_index) return true;
    hn_expr ca[HN_MAX_RANK], cb[HN_MAX_RANK], a, b, span_a, span_b;
    if (!split_row(s, outer, index, ca, &a) || !split_row(s, outer, store_index, cb, &b))
        return false;
    if (memcmp(ca, cb, outer->count * sizeof *ca) != 0) return false;
    if (!inner_span(s, a, &span_a) || !inner_span(s, b, &span_b)) return false;
    return rows_are_apart(s, outer, ca, hn_sym_max(s->sym, span_a, span_b));
}

/* Every read of the group's results by `loop` must stay in the row; in a flat group it must be the
 * same element. */
bool fuse_reads_are_local(sched *s, const group *g, const hn_loop *loop) {
    for (hn_sid k = 1; k < loop->body.count; k++) {
        const hn_sop *op = &loop->body.items[k];
        if (op->kind != HN_SOP_LOAD) continue;
        for (uint32_t m = 0; m < g->members.count; m++) {
            const hn_loop *w = g->members.items[m].loop;
            bool first = w->store.buffer == op->buffer,
                 second = w->indices.buffer == op->buffer && op->buffer;
            if (!first && !second) continue;
            if (w->kind == HN_LOOP_SCAN || second) return false;
            if (g->form == GROUP_FLAT || g->form == GROUP_COLUMN) {
                if (op->index != w->store.index) return false;
            } else if (!is_row_local(s, &g->outer, op->index, w->store.index)) {
                return false;
            }
        }
    }
    return !group_writes(g, loop->store.buffer) || loop->kind == HN_LOOP_POINTWISE;
}
