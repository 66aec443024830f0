/* remade.c: what a kernel writes for later kernels alone is computed by them, if fewer bytes move so.
 *
 *   kernel k1: b2 = amax(b1), b3 = sum(exp(b1 - b2)),        kernel k1: b2 = amax(b1),
 *              b4 = b1 - b2 - log(b3)                    ->             b3 = sum(exp(b1 - b2))
 *   kernel k5: b5 = exp(b4) * b6                             kernel k5: b5 = exp(b1 - b2 - log(b3)) * b6
 *
 * b4 is neither written nor read then, and b1 is read in its place: half of the bytes. What the value is
 * made of within its kernel is computed with it, but for numbers of whole rows, which are small in
 * memory.
 *
 * Values are computed by the same expressions, so results stay equal bit for bit. Buffers are looked
 * at from the last one made to the first. Time is linear in the program. */
#include "sched/lives.h"

#include <stdlib.h>

enum {
    READERS_MAX = 4,  /* groups that would compute one value */
    OPS_MAX = 128,    /* of the loop of a value */
    COST_OF_BYTE = 4, /* adds that a byte less is worth */
    CHAIN_MAX = 8,    /* values of the kernel that are computed with it */
    SMALL_PARTS = 8,  /* a buffer of one part of so many of the value's bytes is small */
    GAIN_PARTS = 8    /* what is saved at least: one part of so many */
};

typedef struct remade {
    sched *s;
    lives l;
} remade;

static const member *maker_of(const remade *r, hn_buf b) {
    const life *u = &r->l.of[b];
    if (u->writers != 1 || !r->s->groups.items[u->last_write].is_loop) return NULL;
    const member *m = &r->s->groups.items[u->last_write].members.items[u->member];
    const hn_loop *loop = m->loop;
    return !m->is_column && loop->kind == HN_LOOP_POINTWISE && loop->store.mode == HN_STORE_SET &&
                   loop->store.buffer == b
               ? m
               : NULL;
}

static bool is_small(const remade *r, const hn_loop *loop, const hn_sop *load, int64_t bytes) {
    return loop_access_bytes(r->s, loop, load->buffer, load->index) <= bytes / SMALL_PARTS;
}

/* The value by what is in memory, or small: *out_loop. False: there is no such expression. */
static hn_status expand(remade *r, hn_buf b, const member *maker, hn_loop *out_loop,
                        bool *out_done) {
    const life *own = &r->l.of[b];
    *out_done = false;
    HN_TRY(loop_copy(r->s, maker->loop, out_loop));
    for (uint32_t round = 0; round < CHAIN_MAX; round++) {
        hn_buf inner = 0;
        for (hn_sid k = 1; k < out_loop->body.count && !inner; k++) {
            const hn_sop *op = &out_loop->body.items[k];
            if (op->kind != HN_SOP_LOAD || is_small(r, out_loop, op, own->bytes)) continue;
            const life *x = &r->l.of[op->buffer];
            const bool is_temp = r->s->p->buffers.items[op->buffer].kind == HN_BUFFER_TEMP;
            if (is_temp && x->last_write == own->last_write && !life_is_in_memory(x))
                inner = op->buffer;
        }
        if (!inner) {
            *out_done = true;
            return NULL;
        }
        const member *m = maker_of(r, inner);
        if (!m || !loop_can_inline(r->s, out_loop, m->loop)) return NULL;
        HN_TRY(loop_inline(r->s, out_loop, m->loop));
    }
    return NULL;
}

/* Whether what it loads is the same ever after, and how much an element costs, in adds. What is made
 * of small loads alone is the same for whole rows or columns, and does not count. */
static bool is_repeatable(const remade *r, const hn_loop *loop, const life *own,
                          int64_t *out_cost) {
    const hn_body *body = &loop->body;
    bool small[OPS_MAX] = {true};
    *out_cost = 0;
    if (body->count > OPS_MAX) return false;
    for (hn_sid k = 1; k < body->count; k++) {
        const hn_sop *op = &body->items[k];
        if (op->kind == HN_SOP_INDIRECT || op->kind == HN_SOP_RANDOM) return false;
        small[k] =
            op->kind == HN_SOP_LOAD ? is_small(r, loop, op, own->bytes) : op->kind != HN_SOP_INDEX;
        for (uint32_t n = 0; n < 3; n++) small[k] &= small[op->args[n]];
        if (!small[k] && op->kind == HN_SOP_ELEM) *out_cost += hn_op_facts(op->op)->cost;
        if (!small[k]) *out_cost += op->kind == HN_SOP_CAST;
        if (op->kind != HN_SOP_LOAD) continue;
        const life *x = &r->l.of[op->buffer];
        if (x->last_write == LIVES_NONE) continue;
        if (x->last_write > own->last_write || x->writers > 1) return false;
    }
    return true;
}

/* Groups that read the value behind its own. False: too many, or some that cannot compute it. */
static bool find_readers(const remade *r, hn_buf b, const hn_loop *loop, uint32_t out[READERS_MAX],
                         uint32_t *out_count) {
    const life *own = &r->l.of[b];
    *out_count = 0;
    for (uint32_t k = own->readers; k; k = r->l.reads.items[k - 1].next) {
        const uint32_t at = r->l.reads.items[k - 1].group;
        const group *g = &r->s->groups.items[at];
        if (at == own->last_write) continue;
        if (at < own->last_write || !g->is_loop || *out_count == READERS_MAX ||
            r->l.region[at] != r->l.region[own->last_write])
            return false;
        for (uint32_t m = 0; m < g->members.count; m++)
            if (g->members.items[m].is_column ||
                !loop_can_inline(r->s, g->members.items[m].loop, loop))
                return false;
        out[(*out_count)++] = at;
    }
    return *out_count > 0;
}

static bool is_first_load(const hn_body *body, hn_sid k) {
    if (body->items[k].kind != HN_SOP_LOAD) return false;
    for (hn_sid e = 1; e < k; e++)
        if (body->items[e].kind == HN_SOP_LOAD && body->items[e].buffer == body->items[k].buffer)
            return false;
    return true;
}

static bool reads(const remade *r, hn_buf b, uint32_t at) {
    for (uint32_t k = r->l.of[b].readers; k; k = r->l.reads.items[k - 1].next)
        if (r->l.reads.items[k - 1].group == at) return true;
    return false;
}

/* Bytes that are moved less. */
static int64_t gain_of(const remade *r, hn_buf b, const hn_loop *loop, const uint32_t *readers,
                       uint32_t count) {
    int64_t gain = r->l.of[b].bytes * (1 + (int64_t)count);
    for (hn_sid k = 1; k < loop->body.count; k++) {
        const hn_sop *op = &loop->body.items[k];
        if (!is_first_load(&loop->body, k)) continue;
        const int64_t bytes = loop_access_bytes(r->s, loop, op->buffer, op->index);
        const life *x = &r->l.of[op->buffer];
        for (uint32_t n = 0; n < count; n++) gain -= reads(r, op->buffer, readers[n]) ? 0 : bytes;
        if (x->last_write == r->l.of[b].last_write && !life_is_in_memory(x)) gain -= bytes;
    }
    return gain;
}

static hn_status compute(remade *r, hn_buf b, const hn_loop *loop, const uint32_t *readers,
                         uint32_t count) {
    for (uint32_t n = 0; n < count; n++) {
        const group *g = &r->s->groups.items[readers[n]];
        for (uint32_t m = 0; m < g->members.count; m++) {
            bool is_reader = false;
            const hn_body *body = &g->members.items[m].loop->body;
            for (hn_sid k = 1; k < body->count; k++)
                is_reader |= body->items[k].kind == HN_SOP_LOAD && body->items[k].buffer == b;
            if (is_reader) HN_TRY(loop_inline(r->s, g->members.items[m].loop, loop));
        }
        for (hn_sid k = 1; k < loop->body.count; k++)
            if (is_first_load(&loop->body, k))
                HN_TRY(lives_add_read(&r->l, loop->body.items[k].buffer, readers[n]));
    }
    sched_done(r->s, HN_SCHED_REMADE);
    r->s->changed = true;
    return NULL;
}

static hn_status try_buffer(remade *r, hn_buf b) {
    const life *own = &r->l.of[b];
    const member *maker = maker_of(r, b);
    uint32_t readers[READERS_MAX], count;
    int64_t cost;
    hn_loop loop;
    bool is_done;
    if (!maker || own->bytes < r->s->options->limits->remade_min_bytes || !life_is_in_memory(own))
        return NULL;
    HN_TRY(expand(r, b, maker, &loop, &is_done));
    if (!is_done || !is_repeatable(r, &loop, own, &cost) ||
        !find_readers(r, b, &loop, readers, &count))
        return NULL;
    const int64_t gain = gain_of(r, b, &loop, readers, count), all = own->bytes * (1 + count);
    const int64_t size = hn_dtype_facts(r->s->p->buffers.items[b].dtype)->size_bytes;
    const int64_t worth = COST_OF_BYTE * size * (1 + count); /* of an element */
    if (gain < all / GAIN_PARTS || cost * count > worth * gain / all) return NULL;
    const uint32_t last = readers[0];
    if (!sched_allows(r->s, HN_SCHED_REMADE, maker->origin,
                      r->s->groups.items[last].members.items[0].origin))
        return NULL;
    return compute(r, b, &loop, readers, count);
}

/* Loops whose results nobody reads any more. */
static hn_status drop_unread(remade *r, bool *out_some) {
    const hn_program *p = r->s->p;
    *out_some = false;
    HN_TRY(lives_find(r->s, &r->l));
    for (uint32_t g = 0; g < r->s->groups.count; g++) {
        group *own = &r->s->groups.items[g];
        uint32_t kept = 0;
        for (uint32_t m = 0; m < own->members.count; m++) {
            const member *each = &own->members.items[m];
            const hn_buf b = each->loop->store.buffer;
            const bool is_read = p->buffers.items[b].kind != HN_BUFFER_TEMP || r->l.of[b].readers ||
                                 r->l.of[b].writers != 1 || each->is_column ||
                                 each->loop->indices.buffer;
            if (is_read) own->members.items[kept++] = *each;
            else *out_some = true;
        }
        own->members.count = kept;
    }
    return NULL;
}

typedef struct candidate {
    uint32_t group, member;
    hn_buf buffer;
} candidate;

static int last_first(const void *x, const void *y) {
    const candidate *a = x, *b = y;
    if (a->group != b->group) return a->group < b->group ? 1 : -1;
    return a->member < b->member ? 1 : a->member > b->member ? -1 : 0;
}

hn_status sched_remade(sched *s) {
    enum { ROUNDS_MAX = CHAIN_MAX };
    remade r = {.s = s};
    const uint32_t most = s->p->buffers.count;
    candidate *list;
    uint32_t count = 0;
    bool some = true;
    if (s->options->no_fusion || !s->options->limits->remade_min_bytes) return NULL;
    HN_TRY(lives_find(s, &r.l));
    HN_NEW(s->scratch, list, most);
    for (hn_buf b = 1; b < most; b++)
        if (r.l.of[b].bytes && r.l.of[b].last_write != LIVES_NONE)
            list[count++] = (candidate){r.l.of[b].last_write, r.l.of[b].member, b};
    if (count) qsort(list, count, sizeof *list, last_first);
    for (uint32_t k = 0; k < count; k++) HN_TRY(try_buffer(&r, list[k].buffer));
    if (!s->out->rewrites[HN_SCHED_REMADE]) return NULL;
    for (uint32_t k = 0; k < ROUNDS_MAX && some; k++) HN_TRY(drop_unread(&r, &some));
    return hn_sym_status(s->sym);
}
