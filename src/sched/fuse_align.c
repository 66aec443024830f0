/* fuse_align.c: dims of a loop in another order, cut in other places, or walked backwards, so that
 * it reads a buffer as a group does; and groups so that they read as a loop does.
 *
 *   row kernel:  m[c] = sum_{n,k} x[n,c,k]                 rows c, inner n, k
 *   loop:        y[n,c,k] = x[n,c,k] - m[c]          ->    y over c, n, k: it joins
 *
 * The iterations of pointwise loops may come in any order, so every such rewrite is right; whether
 * it helps is found out by joining (fuse_join.c), on copies. Two accesses of one buffer, with
 * strides s and t over the variables of the loop and of the target, say which variable is which:
 *
 *   loop  (a < 6, b < 4)  x[a + 6*b]       6*b is the target's u for b = u, and a is v
 *   target (u < 4, v < 6) x[6*u + v]       so the loop becomes (u < 4, v < 6), a = v, b = u
 *
 * A variable may be several of the target's, innermost part first, or the other way round. One in
 * which an index wraps, as x[768*(i/4) + 151296*(i%4)] does, is two variables. The innermost
 * variable stays the innermost one, unless all is small: memory is slow where neighbours are
 * written far apart.
 *
 * Source: loop reordering after fusion, and inverted indices, of TorchInductor's scheduler. */
#include "sched/fuse.h"

#include <string.h>

enum {
    PAIRS_MAX = 4,     /* of accesses that are tried for a loop and a group */
    CUTS_MAX = 2,      /* of variables of a loop */
    SMALL_ELEMS = 8192 /* which stay in the first cache: in any order */
};

/* Part of a source variable: digit `var / inner % extent` of it, backwards if `reversed`. */
typedef struct piece {
    uint32_t var;
    hn_expr inner, extent;
    bool reversed;
} piece;

/* An iteration space and how an index walks it. */
typedef struct walked {
    uint32_t count;
    hn_expr vars[HN_MAX_RANK], extents[HN_MAX_RANK], strides[HN_MAX_RANK];
    bool backwards[HN_MAX_RANK]; /* strides are without their sign */
} walked;

typedef struct alignment {
    sched *s;
    walked from, to;
    hn_expr taken[HN_MAX_RANK]; /* of each source variable: the product of its pieces so far */
    bool done[HN_MAX_RANK];     /* target dims */
    piece pieces[HN_MAX_RANK][HN_MAX_RANK]; /* of each target dim, the innermost one first */
    uint32_t counts[HN_MAX_RANK];
} alignment;

/* Every variable must move the index, or the elements do not tell the iterations apart. */
static bool walk_of(sched *s, const hn_expr *vars, uint32_t count, hn_expr index, walked *out) {
    *out = (walked){.count = count};
    for (uint32_t d = 0; d < count; d++) {
        int64_t lo, hi;
        hn_expr stride;
        out->vars[d] = vars[d];
        out->extents[d] = hn_sym_symbol_extent(s->sym, vars[d]);
        if (!hn_sym_affine(s->sym, index, vars[d], &stride, &index)) return false;
        hn_sym_range(s->sym, stride, &lo, &hi);
        if (lo <= 0 && hi >= 0) return false;
        out->backwards[d] = hi < 0;
        out->strides[d] = hi < 0 ? hn_sym_sub(s->sym, hn_sym_int(s->sym, 0), stride) : stride;
    }
    for (uint32_t d = 0; d < count; d++)
        for (uint32_t e = 0; e < count; e++)
            if (hn_sym_uses(s->sym, out->strides[d], vars[e])) return false;
    return true;
}

/* The source variable of which the next piece has this stride; false: none. */
static bool next_var(const alignment *a, hn_expr stride, uint32_t *out_var) {
    for (uint32_t d = 0; d < a->from.count; d++) {
        if (a->taken[d] == a->from.extents[d] ||
            hn_sym_mul(a->s->sym, a->from.strides[d], a->taken[d]) != stride)
            continue;
        *out_var = d;
        return true;
    }
    return false;
}

/* Takes the pieces of one target dim. False: they are not to be had, as yet. */
static bool take_dim(alignment *a, uint32_t dim) {
    hn_sym *sym = a->s->sym;
    hn_expr left = a->to.extents[dim], stride = a->to.strides[dim];
    const alignment was = *a;
    while (!hn_sym_is_value(sym, left, 1)) {
        uint32_t var;
        if (a->counts[dim] == HN_MAX_RANK || !next_var(a, stride, &var)) break;
        const hn_expr rest = dims_quotient(a->s, a->from.extents[var], a->taken[var]);
        hn_expr extent = rest, quotient = 0;
        if (!rest) break;
        if (rest == left) quotient = hn_sym_int(sym, 1);
        else if ((quotient = dims_quotient(a->s, left, rest))) extent = rest;
        else if (dims_quotient(a->s, rest, left)) extent = left, quotient = hn_sym_int(sym, 1);
        else break;
        a->pieces[dim][a->counts[dim]++] =
            (piece){var, a->taken[var], extent, a->from.backwards[var] != a->to.backwards[dim]};
        a->taken[var] = hn_sym_mul(sym, a->taken[var], extent);
        stride = hn_sym_mul(sym, stride, extent);
        left = quotient;
    }
    a->done[dim] = hn_sym_is_value(sym, left, 1);
    if (a->done[dim]) return true;
    *a = was;
    return false;
}

/* Whether each target dim consists of pieces of the source, and nothing of the source is left over. */
static bool find_pieces(alignment *a) {
    bool moved = true;
    for (uint32_t d = 0; d < a->from.count; d++) a->taken[d] = hn_sym_int(a->s->sym, 1);
    while (moved) {
        moved = false;
        for (uint32_t d = 0; d < a->to.count; d++) moved |= !a->done[d] && take_dim(a, d);
    }
    for (uint32_t d = 0; d < a->to.count; d++)
        if (!a->done[d]) return false;
    for (uint32_t d = 0; d < a->from.count; d++)
        if (a->taken[d] != a->from.extents[d]) return false;
    return true;
}

/* The pieces in their new order. */
static uint32_t list_pieces(const alignment *a, piece *out) {
    uint32_t count = 0;
    for (uint32_t d = 0; d < a->to.count; d++)
        for (uint32_t k = a->counts[d]; k-- > 0;) {
            if (count == MAX_DIMS) return 0;
            out[count++] = a->pieces[d][k];
        }
    return count;
}

/* Whether neighbours in memory stay neighbours in time. */
static bool keeps_innermost(const alignment *a, const piece *pieces, uint32_t count) {
    const piece *last = &pieces[count - 1];
    dims all = {.count = a->from.count};
    memcpy(all.items, a->from.extents, all.count * sizeof *all.items);
    return (last->var == a->from.count - 1 && hn_sym_is_value(a->s->sym, last->inner, 1)) ||
           hn_sym_hint(a->s->sym, dims_numel(a->s, &all), HINT_ELEMS) <= SMALL_ELEMS;
}

static bool is_same_order(const alignment *a, const piece *pieces, uint32_t count) {
    if (count != a->from.count) return false;
    for (uint32_t k = 0; k < count; k++)
        if (pieces[k].var != k || pieces[k].reversed) return false;
    return true;
}

/* What a loop over the source variables becomes. */
typedef struct reordering {
    uint32_t count;
    hn_expr vars[HN_MAX_RANK]; /* the new ones */
    bool reverses;             /* some are walked backwards */
    uint32_t from_count;
    hn_expr from[HN_MAX_RANK], at[HN_MAX_RANK]; /* each old one over these */
} reordering;

static bool find_reordering(alignment *a, reordering *out) {
    hn_sym *sym = a->s->sym;
    piece pieces[HN_MAX_RANK];
    if (!find_pieces(a)) return false;
    *out = (reordering){.count = list_pieces(a, pieces), .from_count = a->from.count};
    if (!out->count || is_same_order(a, pieces, out->count) ||
        !keeps_innermost(a, pieces, out->count))
        return false;
    for (uint32_t d = 0; d < a->from.count; d++) {
        out->from[d] = a->from.vars[d];
        out->at[d] = hn_sym_int(sym, 0);
    }
    for (uint32_t k = 0; k < out->count; k++) {
        const piece *p = &pieces[k];
        hn_expr digit = out->vars[k] = hn_sym_index(sym, k, p->extent);
        out->reverses |= p->reversed;
        if (p->reversed)
            digit = hn_sym_sub(sym, hn_sym_sub(sym, p->extent, hn_sym_int(sym, 1)), digit);
        out->at[p->var] = hn_sym_add(sym, out->at[p->var], hn_sym_mul(sym, digit, p->inner));
    }
    return true;
}

static void count_order(sched *s, const reordering *r, hn_sched_rewrite rewrite, uint32_t loops) {
    s->out->rewrites[rewrite] += loops;
    if (r->reverses) sched_done(s, HN_SCHED_REVERSE);
}

static void reorder(sched *s, const reordering *r, hn_loop *loop) {
    loop_subst(s, loop, r->from, r->at, r->from_count);
    memcpy(loop->vars, r->vars, r->count * sizeof *r->vars);
    loop->rank = r->count;
}

/* ---- which accesses tell the order ---- */

/* Tries the accesses of one buffer by a member and a loop. */
typedef struct meeting {
    sched *s;
    const hn_loop *loop, *member;
    bool moves_group; /* else the loop */
    uint32_t tried;
} meeting;

static bool try_pair(meeting *m, hn_expr loop_index, hn_expr member_index, reordering *out) {
    alignment a = {.s = m->s};
    const hn_loop *from = m->moves_group ? m->member : m->loop,
                  *to = m->moves_group ? m->loop : m->member;
    if (m->tried == PAIRS_MAX) return false;
    if (!walk_of(m->s, from->vars, from->rank + from->red_rank,
                 m->moves_group ? member_index : loop_index, &a.from) ||
        !walk_of(m->s, to->vars, to->rank + to->red_rank,
                 m->moves_group ? loop_index : member_index, &a.to))
        return false;
    m->tried++;
    return find_reordering(&a, out);
}

static bool try_member(meeting *m, reordering *out) {
    const hn_body *mine = &m->loop->body, *its = &m->member->body;
    for (hn_sid k = 1; k < mine->count; k++) {
        const hn_sop *load = &mine->items[k];
        if (load->kind != HN_SOP_LOAD) continue;
        if (m->member->store.buffer == load->buffer &&
            try_pair(m, load->index, m->member->store.index, out))
            return true;
        for (hn_sid e = 1; e < its->count; e++)
            if (its->items[e].kind == HN_SOP_LOAD && its->items[e].buffer == load->buffer &&
                try_pair(m, load->index, its->items[e].index, out))
                return true;
    }
    return false;
}

static bool find_order(sched *s, const group *g, const hn_loop *loop, bool moves_group,
                       reordering *out) {
    meeting m = {.s = s, .loop = loop, .moves_group = moves_group};
    for (uint32_t k = g->members.count; k-- > 0 && m.tried < PAIRS_MAX;) {
        m.member = g->members.items[k].loop;
        if (try_member(&m, out)) return true;
    }
    return false;
}

/* ---- variables that wrap ---- */

/* The divisor of a floordiv or mod of `var` in the sum; 0: there is none. */
static hn_expr wraps_at(const sched *s, hn_expr index, hn_expr var) {
    const hn_sum sum = hn_sym_sum(s->sym, index);
    for (uint32_t k = 0; k < sum.count; k++) {
        const hn_expr_kind kind = hn_sym_kind(s->sym, sum.terms[k]);
        uint32_t count;
        const hn_expr *args = hn_sym_args(s->sym, sum.terms[k], &count);
        if ((kind == HN_EXPR_FLOORDIV || kind == HN_EXPR_MOD) && args[0] == var) return args[1];
    }
    return 0;
}

static bool find_wrap(const sched *s, const hn_loop *loop, uint32_t *out_var, hn_expr *out_at) {
    for (hn_sid k = 1; k < loop->body.count; k++)
        for (uint32_t d = 0; d < loop->rank && loop->body.items[k].kind == HN_SOP_LOAD; d++)
            if ((*out_at = wraps_at(s, loop->body.items[k].index, loop->vars[d]))) {
                *out_var = d;
                return true;
            }
    return false;
}

/* Each variable in which a load wraps becomes two. False: there are none, or they cannot. */
static bool cut_wrapped(sched *s, hn_loop *loop) {
    uint32_t var, cuts = 0;
    hn_expr at;
    for (; cuts < CUTS_MAX && find_wrap(s, loop, &var, &at); cuts++) {
        const dims all = loop_dims(s, loop);
        const hn_expr outer = dims_quotient(s, all.items[var], at);
        dims to = {.count = all.count + 1};
        if (!outer || to.count > MAX_DIMS) return false;
        for (uint32_t k = 0; k < all.count; k++) to.items[k + (k > var)] = all.items[k];
        to.items[var] = outer, to.items[var + 1] = at;
        if (!loop_revar(s, loop, &to, loop->rank + 1)) return false;
    }
    return cuts > 0;
}

/* ---- joining ---- */

static hn_status join_loop(sched *s, group *g, hn_loop *loop, uint32_t origin,
                           hn_refusal_reason *out_why) {
    reordering order;
    hn_loop *copy;
    uint32_t var;
    hn_expr at;
    const bool wraps = find_wrap(s, loop, &var, &at);
    if (!wraps && !find_order(s, g, loop, false, &order)) return NULL;
    HN_NEW(s->arena, copy, 1);
    HN_TRY(loop_copy(s, loop, copy));
    if (wraps && (!cut_wrapped(s, copy) || !find_order(s, g, copy, false, &order))) return NULL;
    reorder(s, &order, copy);
    HN_TRY(fuse_join(s, g, copy, origin, false, out_why));
    if (*out_why) return NULL;
    *loop = *copy;
    g->members.items[g->members.count - 1].loop = loop;
    count_order(s, &order, HN_SCHED_ORDER_LOOP, 1);
    if (wraps) sched_done(s, HN_SCHED_CUT);
    return NULL;
}

hn_status fuse_group_copy(sched *s, const group *from, group *to) {
    *to = *from;
    to->members.items = NULL;
    to->members.count = to->members.cap = 0;
    for (uint32_t k = 0; k < from->members.count; k++) {
        member m = from->members.items[k];
        HN_NEW(s->arena, m.loop, 1);
        HN_TRY(loop_copy(s, from->members.items[k].loop, m.loop));
        HN_PUSH(s->arena, &to->members, m);
    }
    return NULL;
}

void fuse_group_commit(group *g, const group *trial) {
    const uint32_t count = g->members.count;
    for (uint32_t k = 0; k < count; k++) {
        hn_loop *loop = g->members.items[k].loop;
        *loop = *trial->members.items[k].loop;
        trial->members.items[k].loop = loop;
    }
    *g = *trial;
}

static hn_status join_reordered_group(sched *s, group *g, hn_loop *loop, uint32_t origin,
                                      hn_refusal_reason *out_why) {
    reordering order;
    group trial;
    if (!find_order(s, g, loop, true, &order)) return NULL;
    HN_TRY(fuse_group_copy(s, g, &trial));
    for (uint32_t k = 0; k < trial.members.count; k++)
        reorder(s, &order, trial.members.items[k].loop);
    trial.outer.count = order.count;
    for (uint32_t d = 0; d < order.count; d++)
        trial.outer.items[d] = hn_sym_symbol_extent(s->sym, order.vars[d]);
    HN_TRY(fuse_join(s, &trial, loop, origin, false, out_why));
    if (*out_why) return NULL;
    count_order(s, &order, HN_SCHED_ORDER_KERNEL, g->members.count);
    fuse_group_commit(g, &trial);
    return NULL;
}

hn_status fuse_join_reordered(sched *s, group *g, hn_loop *loop, uint32_t origin,
                              hn_refusal_reason *out_why) {
    const hn_refusal_reason why = *out_why;
    if ((why != HN_REFUSED_SPACES && why != HN_REFUSED_OTHER_ROWS) || !g->is_loop ||
        (g->form != GROUP_FLAT && g->form != GROUP_ROW))
        return NULL;
    if (loop->kind == HN_LOOP_POINTWISE) HN_TRY(join_loop(s, g, loop, origin, out_why));
    else if (g->form == GROUP_FLAT && !is_column_reduction(s, loop))
        HN_TRY(join_reordered_group(s, g, loop, origin, out_why));
    if (*out_why) *out_why = why;
    return NULL;
}
