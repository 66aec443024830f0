/* fuse_join.c: a loop joins a group, if their iteration spaces line up and its reads allow it. All
 * is tried on copies: group and loop change only when the loop joins. */
#include "sched/fuse.h"

#include <string.h>

/* A tentative rewrite of a group and a loop; committed only when the loop joins. */
typedef struct attempt {
    group_form form;
    dims outer;
    hn_loop *loops;  /* members.count, then the new one; rewritten copies */
    bool same_outer; /* the members stay as they are, and have no copies */
} attempt;

/* Rewrites member k (or the new loop) so that its first dims are `outer`, then `inner`. A pointwise
 * loop counts all its dims as parallel; a reduction's inner dims are its reduction dims. */
static bool rewrite(sched *s, hn_loop *loop, const dims *outer, const dims *inner) {
    dims to = *outer;
    if (to.count + inner->count > HN_MAX_RANK) return false;
    memcpy(&to.items[to.count], inner->items, inner->count * sizeof *inner->items);
    to.count += inner->count;
    return loop_revar(s, loop, &to, loop->kind == HN_LOOP_POINTWISE ? to.count : outer->count);
}

/* The group's own dims cut as P ++ R or as P alone, for a reduction that joins a flat group. */
static bool cut_flat(sched *s, const group *g, const dims *par, const dims *red, attempt *a,
                     dims *member_inner, dims *new_inner) {
    dims full = *par, refined;
    if (par->count + red->count > HN_MAX_RANK) return false;
    memcpy(&full.items[full.count], red->items, red->count * sizeof *red->items);
    full.count += red->count;
    if (dims_refine(s, &g->outer, &full, &refined)) {
        dims rest;
        if (!dims_refine_prefix(s, &refined, par, &a->outer, &rest)) return false;
        *member_inner = *new_inner =
            dims_part(&refined, a->outer.count, refined.count - a->outer.count);
        return a->outer.count + member_inner->count == refined.count;
    }
    if (!dims_refine(s, &g->outer, par, &a->outer)) return false;
    *member_inner = (dims){0};
    *new_inner = *red;
    return true;
}

/* Finds outer and inner dims for `loop` in `g`. Members of a row group keep their inner dims. */
static bool line_up(sched *s, const group *g, const hn_loop *loop, attempt *a, dims *flat_inner,
                    dims *new_inner) {
    dims all = loop_dims(s, loop), par = dims_part(&all, 0, loop->rank),
         red = dims_part(&all, loop->rank, loop->red_rank);
    bool column = is_column_reduction(s, loop);
    *flat_inner = *new_inner = (dims){0};
    a->form = g->form;
    if (loop->kind == HN_LOOP_POINTWISE) {
        if (g->form == GROUP_ROW)
            return dims_refine_prefix(s, &all, &g->outer, &a->outer, new_inner);
        return dims_refine(s, &all, &g->outer, &a->outer);
    }
    if (loop->kind != HN_LOOP_REDUCE) return false;
    *new_inner = red;
    if (g->form == GROUP_FLAT) {
        a->form = column ? GROUP_COLUMN : GROUP_ROW;
        if (column) return dims_refine(s, &g->outer, &par, &a->outer);
        return cut_flat(s, g, &par, &red, a, flat_inner, new_inner);
    }
    return (g->form == GROUP_COLUMN) == column && dims_refine(s, &g->outer, &par, &a->outer);
}

/* Too little parallelism would be left: few long rows, where the loop alone could use every
 * thread. */
static bool rows_too_few(sched *s, const attempt *a, const dims *new_inner) {
    if (a->form != GROUP_ROW || s->options->threads < 2) return false;
    int64_t rows = hn_sym_hint(s->sym, dims_numel(s, &a->outer), 1024);
    int64_t row = hn_sym_hint(s->sym, dims_numel(s, new_inner), 1024);
    return rows < 2 * (int64_t)s->options->threads && row > s->options->limits->long_row_elems;
}

static uint32_t newest_origin(const group *g) {
    return g->members.count ? g->members.items[g->members.count - 1].origin : 0;
}

/* Why no loop may join the group. */
static hn_refusal_reason closed_because(const group *g) {
    return !g->is_loop                       ? HN_REFUSED_EXTERN
           : g->form == GROUP_SINGLE         ? HN_REFUSED_ALONE
           : g->members.count >= MAX_MEMBERS ? HN_REFUSED_FULL
                                             : HN_REFUSED_NONE;
}

/* Copies of the members and of the loop over the dims of the attempt, or the members as they are.
 * False when they do not line up. */
static hn_status rewrite_all(sched *s, const group *g, const hn_loop *loop, const dims *flat_inner,
                             const dims *new_inner, attempt *a, bool *out_fits) {
    const uint32_t count = g->members.count;
    *out_fits = false;
    HN_NEW(s->scratch, a->loops, count + 1);
    a->same_outer = a->form == g->form && a->outer.count == g->outer.count &&
                    memcmp(a->outer.items, g->outer.items, a->outer.count * sizeof(hn_expr)) == 0;
    for (uint32_t k = 0; k < count && !a->same_outer; k++) {
        const member *m = &g->members.items[k];
        HN_TRY(loop_copy(s, m->loop, &a->loops[k]));
        if (!rewrite(s, &a->loops[k], &a->outer, g->form == GROUP_FLAT ? flat_inner : &m->inner))
            return NULL;
    }
    HN_TRY(loop_copy(s, loop, &a->loops[count]));
    *out_fits = rewrite(s, &a->loops[count], &a->outer, new_inner);
    return NULL;
}

/* Whether the rewritten loop may stand in the rewritten group. */
static hn_status check_reads(sched *s, const group *g, const attempt *a, bool shares_reads,
                             hn_refusal_reason *out_why) {
    const uint32_t count = g->members.count;
    group trial = {.form = a->form, .outer = a->outer};
    for (uint32_t k = 0; k < count; k++)
        HN_PUSH(s->scratch, &trial.members,
                ((member){.loop = a->same_outer ? g->members.items[k].loop : &a->loops[k]}));
    if (!fuse_reads_are_local(s, &trial, &a->loops[count])) *out_why = HN_REFUSED_OTHER_ROWS;
    else if (shares_reads && !mixed_shares_reads(s, &trial, &a->loops[count]))
        *out_why = HN_REFUSED_NOTHING_SHARED;
    return NULL;
}

static hn_status commit(sched *s, group *g, const attempt *a, const dims *flat_inner,
                        const dims *new_inner, hn_loop *loop, uint32_t origin) {
    const uint32_t count = g->members.count;
    for (uint32_t k = 0; k < count && !a->same_outer; k++) {
        *g->members.items[k].loop = a->loops[k];
        if (g->form == GROUP_FLAT) g->members.items[k].inner = *flat_inner;
    }
    *loop = a->loops[count];
    g->form = a->form;
    g->outer = a->outer;
    HN_PUSH(s->arena, &g->members, ((member){.loop = loop, .origin = origin, .inner = *new_inner}));
    return NULL;
}

hn_status fuse_join(sched *s, group *g, hn_loop *loop, uint32_t origin, bool shares_reads,
                    hn_refusal_reason *out_why) {
    attempt a = {0};
    dims flat_inner, new_inner;
    bool fits;
    *out_why = closed_because(g);
    if (*out_why) return NULL;
    *out_why = HN_REFUSED_SPACES;
    if (!line_up(s, g, loop, &a, &flat_inner, &new_inner)) return NULL;
    if (rows_too_few(s, &a, loop->kind == HN_LOOP_POINTWISE ? &new_inner : &flat_inner)) {
        *out_why = HN_REFUSED_FEW_ROWS;
        return NULL;
    }
    HN_TRY(rewrite_all(s, g, loop, &flat_inner, &new_inner, &a, &fits));
    if (!fits) return NULL;
    *out_why = HN_REFUSED_NONE;
    HN_TRY(check_reads(s, g, &a, shares_reads, out_why));
    if (!*out_why &&
        !sched_allows(s, shares_reads ? HN_SCHED_COLUMNS : HN_SCHED_JOIN, origin, newest_origin(g)))
        *out_why = HN_REFUSED_LIMIT;
    return *out_why ? NULL : commit(s, g, &a, &flat_inner, &new_inner, loop, origin);
}

bool fuse_make_rows(sched *s, group *g, const dims *rows) {
    dims outer, inner;
    if (!dims_refine_prefix(s, &g->outer, rows, &outer, &inner) || !inner.count) return false;
    for (uint32_t k = 0; k < g->members.count; k++) {
        if (!rewrite(s, g->members.items[k].loop, &outer, &inner)) return false;
        g->members.items[k].inner = inner;
    }
    g->form = GROUP_ROW;
    g->outer = outer;
    return true;
}
