/* fuse.c: which loops share a kernel.
 *
 * Loops are taken in order; each joins a group or starts one. Groups stay in execution order
 * without any search for cycles: a loop may only join a group that is not older than every group it
 * depends on, so each group reads only from itself and earlier ones. One pass, a bounded number of
 * candidates a loop: linear.
 *
 * A loop joins when its iteration space lines up with the group's (dims.c) and every value that it
 * takes from the group is made by the same row (or, in a flat group, by the same element). */
#include "sched/internal.h"

#include <string.h>

static hn_item_info *item_of(sched *s, hn_item i) { return &s->p->items.items[i]; }

/* Whether the last variable among `vars[0..count)` moves loads by one element, weighing each load
 * once. */
static int contiguity(sched *s, const hn_loop *loop, hn_expr var) {
    int score = 0;
    for (hn_sid k = 1; k < loop->body.count; k++) {
        const hn_sop *op = &loop->body.items[k];
        hn_expr coeff, rest;
        if (op->kind != HN_SOP_LOAD || !hn_sym_uses(s->sym, op->index, var)) continue;
        bool affine = hn_sym_affine(s->sym, op->index, var, &coeff, &rest);
        score += affine && hn_sym_is_value(s->sym, coeff, 1) ? 1 : -1;
    }
    return score;
}

bool loop_goes_along(sched *s, const hn_loop *loop, hn_expr var) {
    return contiguity(s, loop, var) > 0;
}

bool is_column_reduction(sched *s, const hn_loop *loop) {
    if (loop->kind == HN_LOOP_SCAN) return true;
    if (loop->kind != HN_LOOP_REDUCE || !loop->rank || !loop->red_rank) return false;
    return contiguity(s, loop, loop->vars[loop->rank + loop->red_rank - 1]) <= 0 &&
           contiguity(s, loop, loop->vars[loop->rank - 1]) > 0;
}

/* --- what the members of a group write --- */

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
static bool reads_are_local(sched *s, const group *g, const hn_loop *loop) {
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

/* --- lining up --- */

/* A tentative rewrite of a group and a loop; committed only when the loop joins. */
typedef struct attempt {
    group_form form;
    dims outer;
    hn_loop *loops; /* members.count, then the new one; rewritten copies */
    dims *inner;
} attempt;

hn_status loop_copy(sched *s, const hn_loop *from, hn_loop *to) {
    *to = *from;
    HN_NEW(s->arena, to->body.items, from->body.count);
    memcpy(to->body.items, from->body.items, from->body.count * sizeof *from->body.items);
    to->body.cap = from->body.count;
    return NULL;
}

/* Rewrites member k (or the new loop) so that its first dims are `outer`, then `inner`. A pointwise
 * loop counts all its dims as parallel; a reduction's inner dims are its reduction dims. */
static bool rewrite(sched *s, hn_loop *loop, const dims *outer, const dims *inner) {
    dims to = *outer;
    if (to.count + inner->count > HN_MAX_RANK) return false;
    memcpy(&to.items[to.count], inner->items, inner->count * sizeof *inner->items);
    to.count += inner->count;
    return loop_revar(s, loop, &to, loop->kind == HN_LOOP_POINTWISE ? to.count : outer->count);
}

static dims sub_dims(const dims *d, uint32_t first, uint32_t count) {
    dims out = {.count = count};
    memcpy(out.items, &d->items[first], count * sizeof *out.items);
    return out;
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
            sub_dims(&refined, a->outer.count, refined.count - a->outer.count);
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
    dims all = loop_dims(s, loop), par = sub_dims(&all, 0, loop->rank),
         red = sub_dims(&all, loop->rank, loop->red_rank);
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

/* `*out_why` is NULL when the loop joined. `shares_reads`: only if both read something in common. */
static hn_status try_join(sched *s, uint32_t index, hn_loop *loop, uint32_t origin,
                          bool shares_reads, const char **out_why) {
    group *g = &s->groups.items[index];
    *out_why = !g->is_loop                       ? "the producer is an extern operation"
               : g->form == GROUP_SINGLE         ? "scans and scatters stay alone"
               : g->members.count >= MAX_MEMBERS ? "the kernel is full"
                                                 : NULL;
    if (*out_why) return NULL;
    *out_why = "the iteration spaces do not line up";
    attempt a = {0};
    dims flat_inner, new_inner;
    if (!line_up(s, g, loop, &a, &flat_inner, &new_inner)) return NULL;
    if (rows_too_few(s, &a, loop->kind == HN_LOOP_POINTWISE ? &new_inner : &flat_inner)) {
        *out_why = "too few rows would share the work";
        return NULL;
    }
    uint32_t count = g->members.count;
    HN_NEW(s->scratch, a.loops, count + 1);
    bool same_outer = a.form == g->form && a.outer.count == g->outer.count &&
                      memcmp(a.outer.items, g->outer.items, a.outer.count * sizeof(hn_expr)) == 0;
    for (uint32_t k = 0; k < count && !same_outer; k++) {
        member *m = &g->members.items[k];
        HN_TRY(loop_copy(s, m->loop, &a.loops[k]));
        if (!rewrite(s, &a.loops[k], &a.outer, g->form == GROUP_FLAT ? &flat_inner : &m->inner))
            return NULL;
    }
    HN_TRY(loop_copy(s, loop, &a.loops[count]));
    if (!rewrite(s, &a.loops[count], &a.outer, &new_inner)) return NULL;
    group trial = {.form = a.form, .outer = a.outer};
    for (uint32_t k = 0; k < count; k++)
        HN_PUSH(s->scratch, &trial.members,
                ((member){.loop = same_outer ? g->members.items[k].loop : &a.loops[k]}));
    if (!reads_are_local(s, &trial, &a.loops[count])) {
        *out_why = "it reads what other rows make";
        return NULL;
    }
    if (shares_reads && !mixed_shares_reads(s, &trial, &a.loops[count])) {
        *out_why = "rows and columns share nothing that both read";
        return NULL;
    }
    if (!sched_allows(s, "a loop joins a kernel (fuse.c)", origin, newest_origin(g))) {
        *out_why = "the limit of fusions is reached";
        return NULL;
    }
    for (uint32_t k = 0; k < count && !same_outer; k++) {
        *g->members.items[k].loop = a.loops[k];
        if (g->form == GROUP_FLAT) g->members.items[k].inner = flat_inner;
    }
    *loop = a.loops[count];
    g->form = a.form;
    g->outer = a.outer;
    HN_PUSH(s->arena, &g->members, ((member){.loop = loop, .origin = origin, .inner = new_inner}));
    *out_why = NULL;
    return NULL;
}

/* --- the walk --- */

void sched_explain(sched *s, uint32_t first, uint32_t second, const char *why) {
    s->out->refused++;
    if (!s->options->explain) return;
    hn_str a = s->p->graph->origins.items[first].node, b = s->p->graph->origins.items[second].node;
    hn_strbuf_printf(s->options->explain, HN_STR_FMT " -> " HN_STR_FMT ": %s\n", HN_STR_ARG(a),
                     HN_STR_ARG(b), why);
}

static void explain(sched *s, uint32_t index, uint32_t origin, const char *why) {
    const group *g = &s->groups.items[index];
    sched_explain(
        s, g->is_loop ? g->members.items[g->members.count - 1].origin : item_of(s, g->item)->origin,
        origin, why);
}

static hn_status new_group(sched *s, group g, uint32_t *out) {
    HN_PUSH(s->arena, &s->groups, g);
    *out = s->groups.count - 1;
    return NULL;
}

static hn_status start_group(sched *s, hn_loop *loop, uint32_t origin, uint32_t *out) {
    dims all = loop_dims(s, loop);
    group g = {.is_loop = true, .form = GROUP_FLAT, .outer = all};
    member m = {.loop = loop, .origin = origin};
    if (loop->kind == HN_LOOP_SCATTER || loop->kind == HN_LOOP_SCAN) {
        g.form = GROUP_SINGLE;
        g.outer = sub_dims(&all, 0, loop->rank);
        m.inner = sub_dims(&all, loop->rank, loop->red_rank);
    } else if (loop->kind == HN_LOOP_REDUCE) {
        g.form = is_column_reduction(s, loop) ? GROUP_COLUMN : GROUP_ROW;
        g.outer = sub_dims(&all, 0, loop->rank);
        m.inner = sub_dims(&all, loop->rank, loop->red_rank);
    }
    HN_PUSH(s->arena, &g.members, m);
    return new_group(s, g, out);
}

/* A reduction over nothing but single elements is a copy. */
static void reduce_to_pointwise(sched *s, hn_loop *loop) {
    if (loop->kind != HN_LOOP_REDUCE || loop->red_rank) return;
    loop->kind = HN_LOOP_POINTWISE;
    if (hn_op_has(loop->reduce_op, HN_TRAIT_POSITION))
        loop->store.value = hn_body_add(
            s->arena, &loop->body,
            &(hn_sop){.kind = HN_SOP_INDEX, .dtype = HN_DTYPE_I64, .index = hn_sym_int(s->sym, 0)});
}

static void note_access(sched *s, const hn_loop *loop, uint32_t index) {
    for (hn_sid k = 1; k < loop->body.count; k++)
        if (loop->body.items[k].kind == HN_SOP_LOAD &&
            s->reader_group[loop->body.items[k].buffer] <= index)
            s->reader_group[loop->body.items[k].buffer] = index + 1;
    if (loop->kind == HN_LOOP_SCATTER) s->reader_group[loop->store.buffer] = index + 1;
    s->writer_group[loop->store.buffer] = index + 1;
    if (loop->indices.buffer) s->writer_group[loop->indices.buffer] = index + 1;
}

/* Not older than what it reads, nor than who wrote or reads the buffer that it writes. */
static uint32_t newest_needed(const sched *s, const hn_loop *loop) {
    uint32_t newest = s->writer_group[loop->store.buffer];
    if (s->reader_group[loop->store.buffer] > newest) newest = s->reader_group[loop->store.buffer];
    for (hn_sid k = 1; k < loop->body.count; k++) {
        const hn_sop *op = &loop->body.items[k];
        if (op->kind == HN_SOP_LOAD && s->writer_group[op->buffer] > newest)
            newest = s->writer_group[op->buffer];
    }
    return newest;
}

static hn_status place_loop(sched *s, hn_loop *loop, uint32_t origin) {
    uint32_t newest = newest_needed(s, loop), shared = 0;
    for (hn_sid k = 1; k < loop->body.count; k++) {
        const hn_sop *op = &loop->body.items[k];
        if (op->kind == HN_SOP_LOAD && s->reader_group[op->buffer] > shared)
            shared = s->reader_group[op->buffer];
    }
    uint32_t candidates[2] = {newest, shared > newest ? shared : 0}, index = 0;
    bool joined = false;
    bool may_join =
        !s->options->no_fusion && (loop->kind == HN_LOOP_POINTWISE || loop->kind == HN_LOOP_REDUCE);
    for (uint32_t c = 0; c < 2 && may_join && !joined; c++) {
        if (candidates[c] <= s->barrier) continue;
        index = candidates[c] - 1;
        const char *why;
        HN_TRY(try_join(s, index, loop, origin, false, &why));
        joined = !why;
        if (why) explain(s, index, origin, why);
    }
    if (!joined) HN_TRY(start_group(s, loop, origin, &index));
    note_access(s, loop, index);
    return NULL;
}

/* What combines the slabs of a row kernel's reduction: in the kernel that does so for another one, if
 * there is one and it may. */
static hn_status place_combining(sched *s, uint32_t rows, hn_loop *loop, uint32_t origin) {
    const uint32_t combined = s->groups.items[rows].combined;
    const char *why = "it is the first";
    if (combined > s->barrier && combined >= newest_needed(s, loop))
        HN_TRY(try_join(s, combined - 1, loop, origin, false, &why));
    if (!why) note_access(s, loop, combined - 1);
    else HN_TRY(place_loop(s, loop, origin));
    if (s->options->limits->mixed_combines_once)
        s->groups.items[rows].combined = s->writer_group[loop->store.buffer];
    return NULL;
}

/* A reduction down columns joins one of the last row kernels, if it may. `says_why`: when not; it is
 * tried twice. */
static hn_status place_columns(sched *s, const hn_loop *loop, uint32_t origin, bool says_why,
                               bool *out_placed) {
    enum { MOST_TRIED = 16 };
    const uint32_t needed = newest_needed(s, loop);
    *out_placed = false;
    for (uint32_t index = s->groups.count, tried = 0; index-- > s->barrier && tried < MOST_TRIED;
         tried++) {
        hn_loop *first, *second;
        const char *why;
        if (index + 1 < needed) return NULL;
        if (!mixed_fits(s, &s->groups.items[index], loop, &why)) {
            if (says_why && s->groups.items[index].form == GROUP_ROW)
                explain(s, index, origin, why);
            continue;
        }
        HN_NEW(s->arena, first, 1);
        HN_TRY(mixed_first_stage(s, loop, first));
        HN_TRY(try_join(s, index, first, origin, true, &why));
        if (why) {
            if (says_why) explain(s, index, origin, why);
            continue;
        }
        HN_NEW(s->arena, second, 1);
        HN_TRY(mixed_second_stage(s, &s->groups.items[index], loop, second));
        note_access(s, first, index);
        *out_placed = true;
        return place_combining(s, index, second, origin);
    }
    return NULL;
}

/* ---- the order ---- */

/* Reductions down columns may come before those of the rows, and wait for them; so does what reads
 * their results. */
static bool is_touched(const hn_loop *waiting, const hn_loop *loop, bool *out_reads) {
    bool writes = waiting->store.buffer == loop->store.buffer ||
                  (loop->indices.buffer && loop->indices.buffer == waiting->store.buffer);
    for (hn_sid k = 1; k < waiting->body.count; k++)
        if (waiting->body.items[k].kind == HN_SOP_LOAD)
            writes |=
                waiting->body.items[k].buffer == loop->store.buffer ||
                (loop->indices.buffer && waiting->body.items[k].buffer == loop->indices.buffer);
    for (hn_sid k = 1; k < loop->body.count; k++)
        if (loop->body.items[k].kind == HN_SOP_LOAD)
            *out_reads |=
                loop->body.items[k].buffer == waiting->store.buffer ||
                (waiting->indices.buffer && loop->body.items[k].buffer == waiting->indices.buffer);
    return writes;
}

/* Whether nothing behind group `index` depends on it, or writes what it reads: it may come later. */
static bool may_move(const sched *s, uint32_t index) {
    const group *g = &s->groups.items[index];
    if (!g->is_loop || g->form != GROUP_FLAT || g->members.count != 1 || index < s->barrier)
        return false;
    const hn_loop *loop = g->members.items[0].loop;
    bool free = loop->kind == HN_LOOP_POINTWISE &&
                s->writer_group[loop->store.buffer] == index + 1 &&
                s->reader_group[loop->store.buffer] <= index;
    for (hn_sid k = 1; k < loop->body.count && free; k++)
        if (loop->body.items[k].kind == HN_SOP_LOAD)
            free = s->writer_group[loop->body.items[k].buffer] <= index;
    return free;
}

/* Elements that a reduction of rows reads, made by a kernel of their own, are made where the other
 * ones that it reads are: these two kernels had nothing in common so far. */
static hn_status gather_producers(sched *s, const hn_loop *loop) {
    const uint32_t newest = newest_needed(s, loop);
    if (!s->options->limits->mixed_slabs || s->options->no_fusion || !newest ||
        loop->kind != HN_LOOP_REDUCE || is_column_reduction(s, loop))
        return NULL;
    for (hn_sid k = 1; k < loop->body.count; k++) {
        const hn_sop *op = &loop->body.items[k];
        const uint32_t maker = op->kind == HN_SOP_LOAD ? s->writer_group[op->buffer] : 0;
        const char *why;
        if (!maker || maker == newest || !may_move(s, maker - 1)) continue;
        group *from = &s->groups.items[maker - 1];
        hn_loop *moved = from->members.items[0].loop;
        HN_TRY(try_join(s, newest - 1, moved, from->members.items[0].origin, false, &why));
        if (why) continue;
        from->members.count = 0;
        note_access(s, moved, newest - 1);
    }
    return NULL;
}

/* Single elements of rows are taken where the rows are, and then reduced. */
static hn_status place_picked(sched *s, hn_loop *loop, uint32_t origin, bool *out_picked) {
    uint32_t index;
    hn_loop *first;
    const char *why;
    if (!pick_group(s, loop, &index) || newest_needed(s, loop) != index + 1) return NULL;
    HN_NEW(s->arena, first, 1);
    HN_TRY(pick_first_stage(s, loop, first));
    HN_TRY(try_join(s, index, first, origin, false, &why));
    if (why) {
        explain(s, index, origin, why);
        return NULL;
    }
    HN_TRY(pick_second_stage(s, first, loop));
    note_access(s, first, index);
    *out_picked = true;
    return NULL;
}

static hn_status place_loop_item(sched *s, hn_loop *loop, uint32_t origin) {
    const hn_loop whole = *loop;
    hn_loop *second, *stages[SCAN_STAGES];
    uint32_t count;
    HN_TRY(scan_split(s, loop, origin, stages, &count));
    for (uint32_t k = 0; k < count; k++) HN_TRY(place_loop(s, stages[k], origin));
    if (count) return NULL;
    bool placed = false, picked = false;
    if (mixed_may_join(s, loop)) HN_TRY(place_columns(s, loop, origin, true, &placed));
    if (placed) return NULL;
    HN_TRY(place_picked(s, loop, origin, &picked));
    HN_TRY(gather_producers(s, loop));
    HN_TRY(loop_split(s, loop, origin, &second));
    HN_TRY(place_loop(s, loop, origin));
    if (second) return place_loop(s, second, origin);
    /* What was picked by, others may read there: reductions of as many elements. */
    if (picked) note_access(s, &whole, s->writer_group[loop->store.buffer] - 1);
    return NULL;
}

typedef struct waiting_loops {
    struct {
        hn_loop *loop;
        uint32_t origin;
    } items[MAX_MEMBERS];
    uint32_t count;
} waiting_loops;

static hn_status place_waiting(sched *s, waiting_loops *w) {
    for (uint32_t k = 0; k < w->count; k++)
        HN_TRY(place_loop_item(s, w->items[k].loop, w->items[k].origin));
    w->count = 0;
    return NULL;
}

static hn_status place_or_wait(sched *s, waiting_loops *w, const hn_item_info *item) {
    bool placed = false, writes = false, waits = false;
    loop_normalize(s, item->loop);
    reduce_to_pointwise(s, item->loop);
    for (uint32_t k = 0; k < w->count; k++)
        writes |= is_touched(w->items[k].loop, item->loop, &waits);
    if (writes || w->count == MAX_MEMBERS || item->loop->kind == HN_LOOP_SCATTER) {
        HN_TRY(place_waiting(s, w));
        waits = false;
    }
    if (!waits && mixed_may_join(s, item->loop)) {
        HN_TRY(place_columns(s, item->loop, item->origin, false, &placed));
        waits = !placed;
    }
    if (placed) return NULL;
    if (!waits) return place_loop_item(s, item->loop, item->origin);
    w->items[w->count].loop = item->loop;
    w->items[w->count++].origin = item->origin;
    return NULL;
}

static hn_status place_other(sched *s, hn_item i) {
    const hn_item_info *item = item_of(s, i);
    uint32_t index;
    HN_TRY(new_group(s, (group){.form = GROUP_SINGLE, .item = i}, &index));
    if (item->kind != HN_ITEM_EXTERN) {
        if (item->cond) s->reader_group[item->cond] = index + 1;
        if (item->to) s->writer_group[item->to] = index + 1;
        if (item->kind != HN_ITEM_ASSERT) s->barrier = index + 1;
        return NULL;
    }
    for (uint32_t k = 0; k < item->ext->operand_count; k++) {
        hn_buf b = item->ext->operands[k].buffer;
        if (b && item->ext->operands[k].written) s->writer_group[b] = index + 1;
        else if (b) s->reader_group[b] = index + 1;
    }
    return NULL;
}

hn_status sched_fuse(sched *s) {
    /* Picking and splitting add at most one buffer an item each; or splitting a scan two. */
    waiting_loops waiting = {0};
    uint32_t most = s->p->buffers.count + 2 * s->p->items.count;
    HN_NEW(s->scratch, s->writer_group, most);
    HN_NEW(s->scratch, s->reader_group, most);
    for (hn_item i = 1; i < s->p->items.count; i++) {
        hn_item_info *item = item_of(s, i);
        if (item->kind == HN_ITEM_LOOP) {
            HN_TRY(place_or_wait(s, &waiting, item));
            continue;
        }
        HN_TRY(place_waiting(s, &waiting));
        HN_TRY(place_other(s, i));
    }
    HN_TRY(place_waiting(s, &waiting));
    return hn_sym_status(s->sym);
}
