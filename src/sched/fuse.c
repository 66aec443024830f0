/* fuse.c: which loops share a kernel.
 *
 * Loops are taken in order; each joins a group or starts one. Groups stay in execution order
 * without any search for cycles: a loop may only join a group that is not older than every group it
 * depends on, so each group reads only from itself and earlier ones. Of the groups that it may join and
 * has buffers in common with, the one comes first that saves most bytes (fuse_saved.c). One pass, a
 * bounded number of candidates a loop: linear.
 *
 * A loop joins when its iteration space lines up with the group's (fuse_join.c, dims.c) and every value
 * that it takes from the group is made by the same row or, in a flat group, by the same element
 * (fuse_rows.c). */
#include "sched/fuse.h"

enum {
    TRIED_MAX = 4,      /* groups that a loop tries to join, */
    ROWS_TRIED_MAX = 16 /* and a reduction down columns */
};

static hn_item_info *item_of(sched *s, hn_item i) { return &s->p->items.items[i]; }

static hn_status new_group(sched *s, group g, uint32_t *out) {
    g.id = s->groups.count + 1;
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
        g.outer = dims_part(&all, 0, loop->rank);
        m.inner = dims_part(&all, loop->rank, loop->red_rank);
    } else if (loop->kind == HN_LOOP_REDUCE) {
        g.form = is_column_reduction(s, loop) ? GROUP_COLUMN : GROUP_ROW;
        g.outer = dims_part(&all, 0, loop->rank);
        m.inner = dims_part(&all, loop->rank, loop->red_rank);
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

/* Whether the loop reads something that the group, of this index, makes. */
static bool reads_result(const sched *s, const hn_loop *loop, uint32_t index) {
    for (hn_sid k = 1; k < loop->body.count; k++) {
        const hn_sop *op = &loop->body.items[k];
        if (op->kind == HN_SOP_LOAD && s->writer_group[op->buffer] == index + 1) return true;
    }
    return false;
}

/* The loop joins the group, or the refusal is noted. `joins`: what joins in its stead, or itself. */
static hn_status try_candidate(sched *s, const fuse_candidate *c, hn_loop *loop, uint32_t origin,
                               bool *out_joined) {
    hn_refusal_reason why;
    *out_joined = false;
    if (fuse_is_too_early(s, loop, c)) return fuse_refuse(s, c, loop, origin, HN_REFUSED_MEMORY);
    HN_TRY(fuse_join(s, &s->groups.items[c->group], loop, origin, false, &why));
    if (why) HN_TRY(fuse_join_reordered(s, &s->groups.items[c->group], loop, origin, &why));
    *out_joined = !why;
    if (why) return fuse_refuse(s, c, loop, origin, why);
    sched_done(s, HN_SCHED_JOIN);
    if (!reads_result(s, loop, c->group)) sched_done(s, HN_SCHED_SIBLINGS);
    s->out->saved_bytes += c->bytes;
    return NULL;
}

static hn_status place_loop(sched *s, hn_loop *loop, uint32_t origin) {
    const uint32_t refused = s->out->refusals.count;
    fuse_candidates candidates = {0};
    uint32_t index = 0;
    bool joined = false;
    if (!s->options->no_fusion && (loop->kind == HN_LOOP_POINTWISE || loop->kind == HN_LOOP_REDUCE))
        fuse_find_candidates(s, loop, &candidates);
    for (uint32_t c = 0; c < candidates.count && c < TRIED_MAX && !joined; c++) {
        index = candidates.items[c].group;
        HN_TRY(try_candidate(s, &candidates.items[c], loop, origin, &joined));
    }
    if (!joined) HN_TRY(start_group(s, loop, origin, &index));
    fuse_note_access(s, loop, index);
    fuse_refused_place(s, refused, index);
    return NULL;
}

/* What combines the slabs of a row kernel's reduction: in the kernel that does so for another one, if
 * there is one and it may. */
static hn_status place_combining(sched *s, uint32_t rows, hn_loop *loop, uint32_t origin) {
    const uint32_t combined = s->groups.items[rows].combined;
    hn_refusal_reason why = HN_REFUSED_SPACES;
    if (combined > s->barrier && combined >= fuse_newest_needed(s, loop))
        HN_TRY(fuse_join(s, &s->groups.items[combined - 1], loop, origin, false, &why));
    if (!why) fuse_note_access(s, loop, combined - 1);
    else HN_TRY(place_loop(s, loop, origin));
    s->groups.items[rows].combined = s->writer_group[loop->store.buffer];
    return NULL;
}

static hn_status refuse_columns(sched *s, const hn_loop *loop, uint32_t index, uint32_t origin,
                                hn_refusal_reason why) {
    const fuse_candidate c = fuse_common_with(s, loop, index);
    return fuse_refuse(s, &c, loop, origin, why);
}

/* The first stage of the reduction joins group `index`: `*out_why`. */
static hn_status join_columns(sched *s, uint32_t index, const hn_loop *loop, uint32_t origin,
                              bool makes_rows, hn_loop **out_first, hn_refusal_reason *out_why) {
    group *g = &s->groups.items[index], trial;
    dims rows;
    *out_why = HN_REFUSED_NO_ROWS;
    if (makes_rows ? !mixed_may_have_rows(s, g, loop, &rows) : !mixed_fits(s, g, loop, out_why))
        return NULL;
    HN_NEW(s->arena, *out_first, 1);
    HN_TRY(mixed_first_stage(s, loop, *out_first));
    if (!makes_rows) return fuse_join(s, g, *out_first, origin, true, out_why);
    HN_TRY(fuse_group_copy(s, g, &trial));
    if (!fuse_make_rows(s, &trial, &rows)) return NULL;
    HN_TRY(fuse_join(s, &trial, *out_first, origin, true, out_why));
    if (!*out_why) fuse_group_commit(g, &trial);
    return NULL;
}

/* A reduction down columns joins one of the last row kernels, if it may; or, with `makes_rows`, one of
 * elements, which becomes one of rows. `says_why`: when not; it is tried several times. */
static hn_status place_columns(sched *s, const hn_loop *loop, uint32_t origin, bool makes_rows,
                               bool says_why, bool *out_placed) {
    const uint32_t needed = fuse_newest_needed(s, loop);
    *out_placed = false;
    for (uint32_t index = s->groups.count, tried = 0;
         index-- > s->barrier && tried < ROWS_TRIED_MAX; tried++) {
        hn_loop *first, *second;
        hn_refusal_reason why;
        if (index + 1 < needed) return NULL;
        HN_TRY(join_columns(s, index, loop, origin, makes_rows, &first, &why));
        if (why) {
            if (says_why && s->groups.items[index].form == GROUP_ROW)
                HN_TRY(refuse_columns(s, loop, index, origin, why));
            continue;
        }
        s->out->saved_bytes += fuse_common_with(s, first, index).bytes;
        HN_NEW(s->arena, second, 1);
        HN_TRY(mixed_second_stage(s, &s->groups.items[index], loop, second));
        fuse_note_access(s, first, index);
        *out_placed = true;
        sched_done(s, HN_SCHED_COLUMNS);
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
    const uint32_t newest = fuse_newest_needed(s, loop);
    if (!s->options->limits->mixed_slabs || s->options->no_fusion || !newest ||
        loop->kind != HN_LOOP_REDUCE || is_column_reduction(s, loop))
        return NULL;
    for (hn_sid k = 1; k < loop->body.count; k++) {
        const hn_sop *op = &loop->body.items[k];
        const uint32_t maker = op->kind == HN_SOP_LOAD ? s->writer_group[op->buffer] : 0;
        hn_refusal_reason why;
        if (!maker || maker == newest || !may_move(s, maker - 1)) continue;
        group *from = &s->groups.items[maker - 1];
        hn_loop *moved = from->members.items[0].loop;
        HN_TRY(fuse_join(s, &s->groups.items[newest - 1], moved, from->members.items[0].origin,
                         false, &why));
        if (why) continue;
        from->members.count = 0;
        sched_done(s, HN_SCHED_GATHER);
        fuse_note_access(s, moved, newest - 1);
    }
    return NULL;
}

/* Single elements of rows are taken where the rows are, and then reduced. */
static hn_status place_picked(sched *s, hn_loop *loop, uint32_t origin, bool *out_picked) {
    uint32_t index;
    hn_loop *first;
    hn_refusal_reason why;
    if (!pick_group(s, loop, &index) || fuse_newest_needed(s, loop) != index + 1) return NULL;
    HN_NEW(s->arena, first, 1);
    HN_TRY(pick_first_stage(s, loop, first));
    HN_TRY(fuse_join(s, &s->groups.items[index], first, origin, false, &why));
    if (why) {
        const fuse_candidate c = fuse_common_with(s, loop, index);
        return fuse_refuse(s, &c, loop, origin, why);
    }
    sched_done(s, HN_SCHED_PICK);
    HN_TRY(pick_second_stage(s, first, loop));
    fuse_note_access(s, first, index);
    *out_picked = true;
    return NULL;
}

/* As its stages, or as it is. */
static hn_status place_stages(sched *s, hn_loop *loop, uint32_t origin) {
    const hn_loop whole = *loop;
    hn_loop *second, *stages[SCAN_STAGES];
    uint32_t count;
    HN_TRY(scan_split(s, loop, origin, stages, &count));
    for (uint32_t k = 0; k < count; k++) HN_TRY(place_loop(s, stages[k], origin));
    if (count) return NULL;
    bool placed = false, picked = false;
    if (mixed_may_join(s, loop)) {
        HN_TRY(place_columns(s, loop, origin, false, true, &placed));
        if (!placed) HN_TRY(place_columns(s, loop, origin, true, false, &placed));
    }
    if (placed) return NULL;
    HN_TRY(place_picked(s, loop, origin, &picked));
    HN_TRY(gather_producers(s, loop));
    HN_TRY(loop_split(s, loop, origin, &second));
    HN_TRY(place_loop(s, loop, origin));
    if (second) return place_loop(s, second, origin);
    /* What was picked by, others may read there: reductions of as many elements. */
    if (picked) fuse_note_access(s, &whole, s->writer_group[loop->store.buffer] - 1);
    return NULL;
}

static hn_status place_loop_item(sched *s, hn_loop *loop, uint32_t origin) {
    const uint32_t refused = s->out->refusals.count;
    const hn_buf made = loop->store.buffer;
    HN_TRY(place_stages(s, loop, origin));
    fuse_refused_place(s, refused, s->writer_group[made] - 1);
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
        HN_TRY(place_columns(s, item->loop, item->origin, false, false, &placed));
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
        fuse_note_read(s, item->cond, index);
        fuse_note_write(s, item->to, index);
        s->barrier = index + 1;
        return NULL;
    }
    for (uint32_t k = 0; k < item->ext->operand_count; k++) {
        hn_buf b = item->ext->operands[k].buffer;
        if (item->ext->operands[k].written) fuse_note_write(s, b, index);
        else fuse_note_read(s, b, index);
    }
    return NULL;
}

hn_status sched_fuse(sched *s) {
    waiting_loops waiting = {0};
    HN_TRY(fuse_saved_begin(s));
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
    HN_TRY(fuse_merge_groups(s, false));
    return hn_sym_status(s->sym);
}
