/* crossed.c: cheap values that a reduction reads across the rows that they are made in.
 *
 *   pointwise (i0 < 4, i1 < 8, i2 < 49): b3 = sub(b1, b2)      (the statistics of a batch norm)
 *   reduce sum (i0 < 8; i1 < 4, i2 < 49): b4 = b3 * b3
 *   ->
 *   reduce sum (i0 < 8; i1 < 4, i2 < 49): b4 = sub(b1, b2) * sub(b1, b2)
 *
 * Such a reduction is not in the kernel that makes the value, so the value would be written, and read
 * in place of what it is made of. If that is one buffer of its size, and otherwise smaller ones, all
 * readers compute it: no more bytes are read, and none written. The reduction then needs nothing of
 * that kernel, and may share one with those that read the same.
 *
 * Values are computed by the same expressions, so results stay equal bit for bit. Items are looked at
 * from the last one to the first: what replaces a value may be read across its rows then.
 *
 * Requires: before fuse.c. Time is linear in the program. */
#include "sched/internal.h"

#include <stdlib.h>
#include <string.h>

enum {
    COST_MAX = 16,      /* of an element, in adds, */
    SMALL_COST_MAX = 8, /* and of an op that is the same for whole rows */
    BODY_MAX = 128,     /* ops of a loop that computes it */
    READERS_MAX = 16    /* of a value */
};

/* The items that touch a buffer. */
typedef struct touched {
    hn_item writer; /* the last one */
    uint32_t writers, readers;
    uint32_t last;     /* index + 1 into `reads`, of the last reader; 0: none */
    bool is_read_else; /* by what is no loop, or as a part of the result */
} touched;

typedef struct reading {
    hn_item item;
    uint32_t next; /* index + 1; 0: none */
} reading;

typedef struct crossed {
    sched *s;
    touched *of; /* per buffer */
    struct {
        reading *items;
        uint32_t count, cap;
    } reads;
    uint32_t *region; /* per item: the bracket in front of it; 0: none */
    bool *dead;       /* per item */
} crossed;

static hn_item_info *item_of(const crossed *c, hn_item i) { return &c->s->p->items.items[i]; }

/* ---- who touches a buffer ---- */

static void note_write(crossed *c, hn_buf b, hn_item i) {
    if (!b) return;
    c->of[b].writers++;
    c->of[b].writer = i;
}

static hn_status note_loads(crossed *c, const hn_body *body, hn_item i) {
    for (hn_sid k = 1; k < body->count; k++) {
        if (body->items[k].kind != HN_SOP_LOAD) continue;
        touched *t = &c->of[body->items[k].buffer];
        bool seen = false;
        for (uint32_t r = t->last; r && !seen; r = c->reads.items[r - 1].next)
            seen = c->reads.items[r - 1].item == i;
        if (seen || t->readers++ >= READERS_MAX) continue;
        HN_PUSH(c->s->scratch, &c->reads, ((reading){i, t->last}));
        t->last = c->reads.count;
    }
    return NULL;
}

static hn_status note_item(crossed *c, hn_item i) {
    const hn_item_info *item = item_of(c, i);
    const bool is_bracket = item->kind != HN_ITEM_LOOP && item->kind != HN_ITEM_EXTERN &&
                            item->kind != HN_ITEM_ASSERT && item->kind != HN_ITEM_COPY;
    c->region[i] = is_bracket ? i : c->region[i - 1];
    c->of[item->cond].is_read_else = true;
    note_write(c, item->to, i);
    for (uint32_t k = 0; item->kind == HN_ITEM_EXTERN && k < item->ext->operand_count; k++) {
        const hn_buf b = item->ext->operands[k].buffer;
        if (item->ext->operands[k].written) note_write(c, b, i);
        else c->of[b].is_read_else = true;
    }
    if (item->kind != HN_ITEM_LOOP) return NULL;
    if (item->loop->kind == HN_LOOP_SCATTER) c->of[item->loop->store.buffer].is_read_else = true;
    note_write(c, item->loop->store.buffer, i);
    note_write(c, item->loop->indices.buffer, i);
    return note_loads(c, &item->loop->body, i);
}

static hn_status find_touched(crossed *c) {
    const hn_program *p = c->s->p;
    HN_NEW(c->s->scratch, c->of, p->buffers.count);
    HN_NEW(c->s->scratch, c->region, p->items.count);
    HN_NEW(c->s->scratch, c->dead, p->items.count);
    for (hn_item i = 1; i < p->items.count; i++) HN_TRY(note_item(c, i));
    for (uint32_t k = 0; k < p->results.count; k++)
        c->of[p->results.items[k].buffer].is_read_else = true;
    return NULL;
}

/* ---- how a loop walks a buffer ---- */

/* Whether a reduction walks the memory of an access in another order than its loops have. */
static bool is_across(sched *s, const hn_loop *loop, hn_expr index) {
    int64_t strides[HN_MAX_RANK], last = INT64_MAX;
    if (loop->kind != HN_LOOP_REDUCE || !loop_strides(s, loop, index, strides)) return false;
    for (uint32_t d = 0; d < loop->rank + loop->red_rank; d++) {
        if (!strides[d]) continue;
        if (strides[d] > last) return true;
        last = strides[d];
    }
    return false;
}

/* Whether two accesses of a loop go through memory in the same order, as far as both move. */
static bool same_order(const int64_t *a, const int64_t *b, uint32_t rank) {
    for (uint32_t d = 0; d < rank; d++)
        for (uint32_t e = 0; e < d; e++)
            if (a[d] && a[e] && b[d] && b[e] && (a[d] < a[e]) != (b[d] < b[e])) return false;
    return true;
}

/* ---- what may be computed again ---- */

/* What is made of small loads alone is the same for whole rows or columns: it is not computed for
 * each element. */
static bool is_cheap(const crossed *c, const hn_loop *maker) {
    const hn_body *body = &maker->body;
    bool is_small[BODY_MAX];
    int64_t cost = 0;
    if (body->count > BODY_MAX) return false;
    loop_mark_small(c->s, maker, is_small);
    for (hn_sid k = 1; k < body->count; k++) {
        const hn_sop *op = &body->items[k];
        const hn_op_info *facts = op->kind == HN_SOP_ELEM ? hn_op_facts(op->op) : NULL;
        if (op->kind == HN_SOP_INDIRECT || op->kind == HN_SOP_RANDOM) return false;
        if (facts && hn_op_has(op->op, HN_TRAIT_KEEP) &&
            (!is_small[k] || facts->cost > SMALL_COST_MAX))
            return false;
        if (!is_small[k]) cost += facts ? facts->cost : op->kind == HN_SOP_CAST;
    }
    return cost <= COST_MAX;
}

/* Whether what the maker, item `at`, reads stays as it is, and is hardly more than it writes: one
 * buffer of its size, in its order, and small ones. */
static bool reads_little(const crossed *c, const hn_loop *maker, hn_item at) {
    const hn_buffer *buffers = c->s->p->buffers.items;
    const uint32_t bytes = hn_dtype_facts(buffers[maker->store.buffer].dtype)->size_bytes;
    int64_t own[HN_MAX_RANK], strides[HN_MAX_RANK];
    hn_buf big = 0; /* the one that is not small */
    if (!loop_strides(c->s, maker, maker->store.index, own)) return false;
    for (hn_sid k = 1; k < maker->body.count; k++) {
        const hn_sop *op = &maker->body.items[k];
        if (op->kind != HN_SOP_LOAD) continue;
        const touched *t = &c->of[op->buffer];
        if (t->writers > 1 || (t->writers && t->writer >= at) ||
            !loop_strides(c->s, maker, op->index, strides))
            return false;
        if (loop_load_is_small(c->s, maker, op->index)) continue;
        if (!same_order(own, strides, maker->rank) || (big && big != op->buffer) ||
            hn_dtype_facts(buffers[op->buffer].dtype)->size_bytes > bytes)
            return false;
        big = op->buffer;
    }
    return true;
}

static const hn_loop *maker_of(const crossed *c, hn_buf b) {
    const touched *t = &c->of[b];
    if (c->s->p->buffers.items[b].kind != HN_BUFFER_TEMP || t->is_read_else || t->writers != 1 ||
        item_of(c, t->writer)->kind != HN_ITEM_LOOP || !t->readers || t->readers > READERS_MAX)
        return NULL;
    const hn_loop *loop = item_of(c, t->writer)->loop;
    return loop->kind == HN_LOOP_POINTWISE && loop->store.mode == HN_STORE_SET &&
                   is_cheap(c, loop) && reads_little(c, loop, t->writer)
               ? loop
               : NULL;
}

/* Whether the loop can compute the value where it reads it; an index stays a sum. */
static bool can_compute(sched *s, const hn_loop *loop, const hn_loop *maker, bool *out_across) {
    int64_t strides[HN_MAX_RANK];
    hn_expr at[HN_MAX_RANK];
    if (loop->body.count + maker->body.count > BODY_MAX) return false;
    for (hn_sid k = 1; k < loop->body.count; k++) {
        const hn_sop *op = &loop->body.items[k];
        if (op->kind != HN_SOP_LOAD || op->buffer != maker->store.buffer) continue;
        if (!loop_strides(s, loop, op->index, strides) || !loop_point_of(s, maker, op->index, at))
            return false;
        *out_across |= is_across(s, loop, op->index);
        for (hn_sid e = 1; e < maker->body.count; e++) {
            const hn_sop *load = &maker->body.items[e];
            if (load->kind == HN_SOP_LOAD &&
                !loop_strides(s, loop,
                              hn_sym_subst(s->sym, load->index, maker->vars, at, maker->rank),
                              strides))
                return false;
        }
    }
    return true;
}

static bool all_can(const crossed *c, hn_buf b, const hn_loop *maker) {
    const touched *t = &c->of[b];
    bool is_across_any = false;
    for (uint32_t r = t->last; r; r = c->reads.items[r - 1].next) {
        const hn_item i = c->reads.items[r - 1].item;
        if (i < t->writer || c->region[i] != c->region[t->writer] ||
            !can_compute(c->s, item_of(c, i)->loop, maker, &is_across_any))
            return false;
    }
    return is_across_any && sched_allows(c->s, HN_SCHED_CROSSED, item_of(c, t->writer)->origin,
                                         item_of(c, c->reads.items[t->last - 1].item)->origin);
}

static hn_status compute(crossed *c, hn_buf b, const hn_loop *maker) {
    const touched *t = &c->of[b];
    for (uint32_t r = t->last; r; r = c->reads.items[r - 1].next) {
        const hn_item i = c->reads.items[r - 1].item;
        HN_TRY(loop_inline(c->s, item_of(c, i)->loop, maker));
        HN_TRY(note_loads(c, &maker->body, i));
    }
    c->dead[t->writer] = true;
    sched_done(c->s, HN_SCHED_CROSSED);
    return NULL;
}

static void drop_dead(crossed *c) {
    hn_program *p = c->s->p;
    uint32_t kept = 1;
    for (hn_item i = 1; i < p->items.count; i++)
        if (!c->dead[i]) p->items.items[kept++] = p->items.items[i];
    p->items.count = kept;
}

hn_status sched_crossed(sched *s) {
    crossed c = {.s = s};
    if (s->options->no_fusion) return NULL;
    HN_TRY(find_touched(&c));
    for (hn_item i = s->p->items.count; i-- > 1;) {
        const hn_buf b =
            item_of(&c, i)->kind == HN_ITEM_LOOP ? item_of(&c, i)->loop->store.buffer : 0;
        const hn_loop *maker = b ? maker_of(&c, b) : NULL;
        if (maker && all_can(&c, b, maker)) HN_TRY(compute(&c, b, maker));
    }
    if (s->out->rewrites[HN_SCHED_CROSSED]) drop_dead(&c);
    return hn_sym_status(s->sym);
}
