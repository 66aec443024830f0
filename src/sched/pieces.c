/* pieces.c: a buffer that several loops write in pieces of one size is computed by those who read it.
 *
 *   pointwise (i0 < 128, i1 < 32): b3[64*i0 + i1] = neg(b1[64*i0 + i1 + 32])
 *   pointwise (i0 < 128, i1 < 32): b3[64*i0 + i1 + 32] = b1[64*i0 + i1]
 *   pointwise (i0 < 128, i1 < 64): b4 = b1[64*i0 + i1] * b3[64*i0 + i1]
 *   ->
 *   pointwise (i0 < 128, i1 < 2, i2 < 32):
 *     b4 = b1[64*i0 + 32*i1 + i2] * where(i1 == 0, neg(b1[64*i0 + i2 + 32]), b1[64*i0 + i2])
 *
 * The turned halves of rotary positions are such pieces. A reader walks the piece by a variable of its own,
 * so that loads stay sums over variables; each piece is computed for each element, and all are cheap.
 *
 * Values are computed by the same expressions, so they stay equal bit for bit. Buffers are looked at from
 * the last one to the first.
 *
 * Requires: before crossed.c and fuse.c. Time is linear in the program. */
#include "sched/internal.h"

#include <string.h>

enum {
    PIECES_MAX = LOOP_PIECES_MAX,
    READERS_MAX = 4, /* loops that read the whole */
    COST_MAX = 8,    /* of an element of all pieces together, in adds */
    BODY_MAX = 128   /* ops of a loop that computes it */
};

/* The items that touch a buffer. */
typedef struct touched {
    uint32_t writers, readers; /* how many; the first ones are */
    hn_item writer[PIECES_MAX], reader[READERS_MAX];
    hn_item last_write;
    bool is_used_else; /* by what is no loop, or as a part of the result */
} touched;

typedef struct pieces {
    sched *s;
    touched *of;      /* per buffer */
    uint32_t *region; /* per item: the bracket in front of it; 0: none */
    bool *dead;       /* per item */
} pieces;

static hn_item_info *item_of(const pieces *p, hn_item i) { return &p->s->p->items.items[i]; }

/* ---- who touches a buffer ---- */

static void note_write(pieces *p, hn_buf b, hn_item i) {
    touched *t = &p->of[b];
    if (t->writers < PIECES_MAX) t->writer[t->writers] = i;
    t->writers++;
    t->last_write = i;
}

static void note_else(pieces *p, hn_buf b, hn_item i, bool is_written) {
    p->of[b].is_used_else = true;
    if (is_written) p->of[b].last_write = i;
}

static void note_load(pieces *p, hn_buf b, hn_item i) {
    touched *t = &p->of[b];
    const uint32_t known = t->readers < READERS_MAX ? t->readers : READERS_MAX;
    if (known && t->reader[known - 1] == i) return;
    if (t->readers < READERS_MAX) t->reader[t->readers] = i;
    t->readers++;
}

static void note_loads(pieces *p, const hn_loop *loop, hn_item i) {
    for (hn_sid k = 1; k < loop->body.count; k++)
        if (loop->body.items[k].kind == HN_SOP_LOAD) note_load(p, loop->body.items[k].buffer, i);
}

static void note_item(pieces *p, hn_item i) {
    const hn_item_info *item = item_of(p, i);
    const bool is_bracket =
        item->kind != HN_ITEM_LOOP && item->kind != HN_ITEM_EXTERN && item->kind != HN_ITEM_COPY;
    p->region[i] = is_bracket ? i : p->region[i - 1];
    note_else(p, item->cond, i, false);
    note_else(p, item->to, i, true);
    for (uint32_t k = 0; item->kind == HN_ITEM_EXTERN && k < item->ext->operand_count; k++)
        note_else(p, item->ext->operands[k].buffer, i, item->ext->operands[k].written);
    if (item->kind != HN_ITEM_LOOP) return;
    const hn_loop *loop = item->loop;
    note_loads(p, loop, i);
    if (loop->indices.buffer) note_else(p, loop->indices.buffer, i, true);
    if (loop->kind == HN_LOOP_POINTWISE && loop->store.mode == HN_STORE_SET)
        note_write(p, loop->store.buffer, i);
    else note_else(p, loop->store.buffer, i, true);
}

static hn_status find_touched(pieces *p) {
    const hn_program *program = p->s->p;
    HN_NEW(p->s->scratch, p->of, program->buffers.count);
    HN_NEW(p->s->scratch, p->region, program->items.count);
    HN_NEW(p->s->scratch, p->dead, program->items.count);
    for (hn_item i = 1; i < program->items.count; i++) note_item(p, i);
    for (uint32_t k = 0; k < program->results.count; k++)
        p->of[program->results.items[k].buffer].is_used_else = true;
    return NULL;
}

/* ---- the pieces ---- */

/* By where they begin; false: they are not of one size, one behind the other. */
static bool line_up(sched *s, const hn_loop **loops, uint32_t count, loop_pieces *out) {
    int64_t begin[PIECES_MAX] = {0};
    *out = (loop_pieces){.count = count};
    for (uint32_t k = 0; k < count; k++) {
        uint32_t at = k;
        int64_t from;
        if (loops[k]->rank != loops[0]->rank ||
            memcmp(loops[k]->vars, loops[0]->vars, loops[0]->rank * sizeof(hn_expr)) != 0 ||
            !hn_sym_is_int(s->sym, hn_sym_sub(s->sym, loops[k]->store.index, loops[0]->store.index),
                           &from))
            return false;
        for (; at && begin[at - 1] > from; at--) {
            begin[at] = begin[at - 1];
            out->loops[at] = out->loops[at - 1];
        }
        begin[at] = from;
        out->loops[at] = loops[k];
    }
    out->step = begin[1] - begin[0];
    for (uint32_t k = 1; k < count; k++)
        if (begin[k] - begin[k - 1] != out->step) return false;
    return out->step > 0 &&
           hn_sym_is_value(s->sym, loop_piece_of(s, out, out->loops[0]->store.index), 0);
}

/* Whether what it loads stays as it is, from neighbours in memory where it stores to such. */
static bool reads_well(const pieces *p, const hn_loop *loop, hn_item first) {
    int64_t own[HN_MAX_RANK], strides[HN_MAX_RANK];
    if (!loop->rank || !loop_strides(p->s, loop, loop->store.index, own)) return false;
    for (hn_sid k = 1; k < loop->body.count; k++) {
        const hn_sop *op = &loop->body.items[k];
        if (op->kind == HN_SOP_INDIRECT || op->kind == HN_SOP_RANDOM) return false;
        if (op->kind != HN_SOP_LOAD) continue;
        if (p->of[op->buffer].last_write >= first ||
            !loop_strides(p->s, loop, op->index, strides) ||
            (strides[loop->rank - 1] && strides[loop->rank - 1] != own[loop->rank - 1]))
            return false;
    }
    return true;
}

static int64_t cost_of(const hn_loop *loop) {
    int64_t cost = 0;
    for (hn_sid k = 1; k < loop->body.count; k++) {
        const hn_sop *op = &loop->body.items[k];
        cost += op->kind == HN_SOP_ELEM   ? hn_op_facts(op->op)->cost
                : op->kind == HN_SOP_CAST ? 1
                                          : 0;
    }
    return cost;
}

/* Whether loops alone make the buffer, in such pieces, and read it. */
static bool find_pieces(const pieces *p, hn_buf b, loop_pieces *out) {
    const touched *t = &p->of[b];
    const hn_loop *loops[PIECES_MAX];
    int64_t cost = 0;
    if (p->s->p->buffers.items[b].kind != HN_BUFFER_TEMP || t->is_used_else || t->writers < 2 ||
        t->writers > PIECES_MAX || !t->readers || t->readers > READERS_MAX ||
        t->reader[0] < t->last_write)
        return false;
    for (uint32_t k = 0; k < t->writers; k++) {
        loops[k] = item_of(p, t->writer[k])->loop;
        cost += cost_of(loops[k]);
        if (p->region[t->writer[k]] != p->region[t->writer[0]] ||
            !reads_well(p, loops[k], t->writer[0]))
            return false;
    }
    for (uint32_t k = 0; k < t->readers; k++)
        if (p->region[t->reader[k]] != p->region[t->writer[0]]) return false;
    return cost <= COST_MAX && line_up(p->s, loops, t->writers, out);
}

static bool reads(const hn_loop *loop, hn_buf b) {
    for (hn_sid k = 1; k < loop->body.count; k++)
        if (loop->body.items[k].kind == HN_SOP_LOAD && loop->body.items[k].buffer == b) return true;
    return false;
}

/* Bytes that are moved less: the whole is neither written nor read, and what the pieces are made of is
 * read by those who need it, but for those that read it anyway. */
static int64_t gain_of(const pieces *p, hn_buf b, const loop_pieces *from) {
    const touched *t = &p->of[b];
    int64_t gain = 0;
    for (uint32_t k = 0; k < from->count; k++) {
        const hn_loop *own = from->loops[k];
        gain += (1 + t->readers) * loop_access_bytes(p->s, own, b, own->store.index);
        for (hn_sid e = 1; e < own->body.count; e++) {
            const hn_sop *op = &own->body.items[e];
            if (op->kind != HN_SOP_LOAD) continue;
            const int64_t bytes = loop_access_bytes(p->s, own, op->buffer, op->index);
            gain += bytes;
            for (uint32_t r = 0; r < t->readers; r++)
                if (!reads(item_of(p, t->reader[r])->loop, op->buffer)) gain -= bytes;
        }
    }
    return gain;
}

/* ---- a reader ---- */

/* Cuts a variable, so that the piece in which the loop reads is a variable of its own. */
static bool cut(sched *s, hn_loop *loop, const loop_pieces *from, hn_expr index) {
    const dims all = loop_dims(s, loop);
    for (uint32_t d = 0; d < all.count; d++) {
        int64_t stride;
        hn_expr coeff, rest;
        if (!hn_sym_affine(s->sym, index, loop->vars[d], &coeff, &rest) ||
            !hn_sym_is_int(s->sym, coeff, &stride) || stride <= 0 || from->step % stride)
            continue;
        const hn_expr inner = hn_sym_int(s->sym, from->step / stride),
                      count = hn_sym_int(s->sym, from->count),
                      outer = dims_quotient(s, all.items[d], hn_sym_mul(s->sym, inner, count));
        if (!outer || all.count + 2 > HN_MAX_RANK) continue;
        dims to = {.count = all.count + 2};
        for (uint32_t k = 0; k < all.count; k++) to.items[k + 2 * (k > d)] = all.items[k];
        to.items[d] = outer, to.items[d + 1] = count, to.items[d + 2] = inner;
        return loop_revar(s, loop, &to, loop->rank + (d < loop->rank ? 2 : 0));
    }
    return false;
}

static bool is_variable(const hn_loop *loop, hn_expr e) {
    for (uint32_t d = 0; d < loop->rank + loop->red_rank; d++)
        if (loop->vars[d] == e) return true;
    return false;
}

/* Whether the piece that it reads is a variable of the loop, or always the same; and its loads, if it
 * computes all of them, stay sums. */
static bool may_compute(sched *s, hn_loop *loop, hn_sid load, const loop_pieces *from) {
    int64_t number, strides[HN_MAX_RANK];
    hn_expr at[HN_MAX_RANK];
    hn_expr which = loop_piece_of(s, from, loop->body.items[load].index);
    if (!hn_sym_is_int(s->sym, which, &number) && !is_variable(loop, which)) {
        if (!cut(s, loop, from, loop->body.items[load].index)) return false;
        which = loop_piece_of(s, from, loop->body.items[load].index);
        if (!is_variable(loop, which)) return false;
    }
    for (uint32_t k = 0; k < from->count; k++) {
        const hn_loop *own = from->loops[k];
        if (!loop_point_in_piece(s, from, k, loop->body.items[load].index, at)) return false;
        for (hn_sid e = 1; e < own->body.count; e++) {
            const hn_sop *op = &own->body.items[e];
            if (op->kind == HN_SOP_LOAD &&
                !loop_strides(s, loop, hn_sym_subst(s->sym, op->index, own->vars, at, own->rank),
                              strides))
                return false;
        }
    }
    return true;
}

static hn_status try_reader(sched *s, const hn_loop *loop, hn_buf b, const loop_pieces *from,
                            hn_loop *out, bool *out_done) {
    *out_done = false;
    HN_TRY(loop_copy(s, loop, out));
    if (loop->body.count > BODY_MAX ||
        (loop->kind != HN_LOOP_POINTWISE && loop->kind != HN_LOOP_REDUCE) ||
        hn_op_has(loop->reduce_op, HN_TRAIT_POSITION))
        return NULL;
    for (hn_sid k = 1; k < out->body.count; k++)
        if (out->body.items[k].kind == HN_SOP_LOAD && out->body.items[k].buffer == b &&
            !may_compute(s, out, k, from))
            return NULL;
    *out_done = true;
    return loop_inline_pieces(s, out, b, from);
}

static hn_status try_buffer(pieces *p, hn_buf b) {
    const touched *t = &p->of[b];
    loop_pieces from;
    hn_loop *made[READERS_MAX];
    if (!find_pieces(p, b, &from) || gain_of(p, b, &from) <= 0 ||
        !sched_allows(p->s, HN_SCHED_PIECES, item_of(p, t->writer[0])->origin,
                      item_of(p, t->reader[0])->origin))
        return NULL;
    for (uint32_t r = 0; r < t->readers; r++) {
        bool is_done;
        HN_NEW(p->s->arena, made[r], 1);
        HN_TRY(try_reader(p->s, item_of(p, t->reader[r])->loop, b, &from, made[r], &is_done));
        if (!is_done) return NULL;
    }
    for (uint32_t r = 0; r < t->readers; r++) {
        item_of(p, t->reader[r])->loop = made[r];
        note_loads(p, made[r], t->reader[r]);
    }
    for (uint32_t k = 0; k < t->writers; k++) p->dead[t->writer[k]] = true;
    sched_done(p->s, HN_SCHED_PIECES);
    return NULL;
}

static void drop_dead(const pieces *p) {
    hn_program *program = p->s->p;
    uint32_t kept = 1;
    for (hn_item i = 1; i < program->items.count; i++)
        if (!p->dead[i]) program->items.items[kept++] = program->items.items[i];
    program->items.count = kept;
}

hn_status sched_pieces(sched *s) {
    pieces p = {.s = s};
    if (s->options->no_fusion) return NULL;
    HN_TRY(find_touched(&p));
    for (hn_buf b = s->p->buffers.count; b-- > 1;)
        if (p.of[b].writers > 1) HN_TRY(try_buffer(&p, b));
    if (s->out->rewrites[HN_SCHED_PIECES]) drop_dead(&p);
    return hn_sym_status(s->sym);
}
