/* again.c: what is kept in memory for a reader far behind is computed again there, where that lowers
 * the peak of memory.
 *
 *   kernel k1: b2 = mul(b1, b1), b3 = ...              kernel k1: b3 = ...
 *   ... the peak; b1 and b2 are alive         ->       ... the peak; b1 is alive
 *   kernel k9: b9 = mul(b8, b2), reads b1 too          kernel k9: b9 = mul(b8, mul(b1, b1))
 *
 * A training step shows why. Its backward pass reads what the forward pass computes, such as the
 * derivative of an activation, and fusion puts all that depends on the forward pass alone into the
 * forward kernels. So all of it is alive where the one pass ends.
 *
 * Only what is alive at the peak is looked at, the last ones first, since those read the ones before
 * them. The loops at the peak and behind it that read one compute it, if what they read for that
 * keeps less memory alive than it did itself. Where one of its readers there is a call, which reads
 * memory, a kernel in front of the first of them makes it once more: only if it costs hardly more
 * than a copy, and if what all such kernels move is worth it. Values are computed by the same
 * expressions, so results stay equal bit for bit. Each round is kept only if the peak is clearly
 * lower then, so a program that would gain little stays as it is; the next one looks at the new
 * peak. The peak is that of temporaries at the hints of sizes. Time is linear in the program.
 *
 * Source: AOTAutograd's partitioner takes a minimal cut between the two passes. Here there is one
 * program and nothing marks the passes; the peak takes the place of the cut. */
#include "sched/lives.h"

#include <stdlib.h>
#include <string.h>

enum {
    ROUNDS_MAX = 6,
    READERS_MAX = 4,   /* groups that would compute one value again */
    COST_MAX = 160,    /* of a value that loops compute, in adds */
    COPY_COST_MAX = 8, /* of an element that a kernel makes once more, in adds, */
    MOVED_FACTOR = 4,  /* which all move at most so many bytes for each byte less at the peak */
    GAIN_PARTS = 32    /* a round is kept if it saves one part of so many of the peak */
};

/* What a round has changed, as it was before: a loop, or a call. */
typedef struct change {
    hn_loop *loop;
    hn_extern *call;
    hn_loop loop_was;
    hn_extern call_was;
} change;

/* A group to be, in front of another one. */
typedef struct copy {
    uint32_t before;
    hn_buf buffer; /* that it makes */
    group made;
} copy;

typedef struct again {
    sched *s;
    lives l;
    struct {
        change *items;
        uint32_t count, cap;
    } changes; /* of the round at hand, as are the others below */
    struct {
        copy *items;
        uint32_t count, cap;
    } copies;
    bool may_copy;
    int64_t moved; /* bytes, by copies */
} again;

/* What may be computed again, and by whom. */
typedef struct value {
    hn_buf buffer;
    const life *life;
    const member *maker;
    uint32_t readers[READERS_MAX], count; /* groups at the peak and behind it, the last one first */
    bool is_computed;                     /* by all of these; else they read a copy */
} value;

/* ---- what can be computed again ---- */

static int64_t cost_of(const hn_body *body) {
    int64_t cost = 0;
    for (hn_sid k = 1; k < body->count; k++)
        if (body->items[k].kind == HN_SOP_ELEM) cost += hn_op_facts(body->items[k].op)->cost;
    return cost;
}

/* Whether what the maker of a value reads is the same ever after. */
static bool reads_last(const again *a, const value *v) {
    const hn_body *body = &v->maker->loop->body;
    for (hn_sid k = 1; k < body->count; k++) {
        if (body->items[k].kind != HN_SOP_LOAD) continue;
        const life *x = &a->l.of[body->items[k].buffer];
        if (x->last_write == LIVES_NONE || x->last_write < v->life->last_write) continue;
        if (x->last_write > v->life->last_write || x->writers > 1) return false;
    }
    return true;
}

/* Whether one loop makes the value, element by element, and would make it so again. */
static bool is_repeatable(const again *a, value *v) {
    const life *u = v->life;
    if (u->writers != 1 || !a->s->groups.items[u->last_write].is_loop) return false;
    v->maker = &a->s->groups.items[u->last_write].members.items[u->member];
    const hn_loop *loop = v->maker->loop;
    if (v->maker->is_column || loop->kind != HN_LOOP_POINTWISE ||
        loop->store.mode != HN_STORE_SET || loop->store.buffer != v->buffer ||
        cost_of(&loop->body) > COST_MAX)
        return false;
    for (hn_sid k = 1; k < loop->body.count; k++)
        if (loop->body.items[k].kind == HN_SOP_INDIRECT ||
            loop->body.items[k].kind == HN_SOP_RANDOM)
            return false;
    return reads_last(a, v);
}

/* An assertion or a bracket reads one number: it stays where it is. */
static bool is_loop_or_call(const again *a, const group *g) {
    return g->is_loop || a->s->p->items.items[g->item].kind == HN_ITEM_EXTERN;
}

/* False when there are none, too many, or some that run in another region. */
static bool find_readers(const again *a, value *v) {
    v->is_computed = true;
    for (uint32_t r = v->life->readers; r; r = a->l.reads.items[r - 1].next) {
        const uint32_t g = a->l.reads.items[r - 1].group;
        const group *own = &a->s->groups.items[g];
        if (g < a->l.peak_at || g <= v->life->last_write) break;
        if (v->count == READERS_MAX || a->l.region[g] != a->l.region[v->life->last_write] ||
            !is_loop_or_call(a, own))
            return false;
        v->readers[v->count++] = g;
        v->is_computed &= own->is_loop;
        for (uint32_t m = 0; m < own->members.count; m++)
            v->is_computed &= loop_can_inline(a->s, own->members.items[m].loop, v->maker->loop);
    }
    return v->count > 0;
}

/* ---- what it is worth ---- */

/* Whether no earlier op of the body loads from the same buffer. */
static bool is_first_load(const hn_body *body, hn_sid k) {
    if (body->items[k].kind != HN_SOP_LOAD) return false;
    for (hn_sid e = 1; e < k; e++)
        if (body->items[e].kind == HN_SOP_LOAD && body->items[e].buffer == body->items[k].buffer)
            return false;
    return true;
}

/* The bytes that are alive longer when group `until` reads what the maker does. */
static int64_t kept_bytes(const again *a, const value *v, uint32_t until) {
    const hn_body *body = &v->maker->loop->body;
    int64_t bytes = 0;
    for (hn_sid k = 1; k < body->count; k++) {
        if (!is_first_load(body, k)) continue;
        const life *x = &a->l.of[body->items[k].buffer];
        if (!life_is_in_memory(x) || x->last < until) bytes += x->bytes;
    }
    return bytes;
}

static int64_t moved_bytes(const again *a, const value *v) {
    const hn_body *body = &v->maker->loop->body;
    int64_t bytes = v->life->bytes;
    for (hn_sid k = 1; k < body->count; k++)
        if (is_first_load(body, k)) bytes += a->l.of[body->items[k].buffer].bytes;
    return bytes;
}

static bool is_worth_it(const again *a, const value *v) {
    const uint32_t last = v->readers[0], first = v->readers[v->count - 1];
    if (v->is_computed) return kept_bytes(a, v, last) < v->life->bytes;
    return a->may_copy && first > a->l.peak_at &&
           loop_element_cost(a->s, v->maker->loop) <= COPY_COST_MAX &&
           kept_bytes(a, v, first) < v->life->bytes;
}

/* ---- it is done ---- */

static hn_status note_reads(again *a, const value *v, uint32_t g) {
    const hn_body *body = &v->maker->loop->body;
    for (hn_sid k = 1; k < body->count; k++)
        if (is_first_load(body, k)) HN_TRY(lives_add_read(&a->l, body->items[k].buffer, g));
    return NULL;
}

static bool loads(const hn_loop *loop, hn_buf b) {
    for (hn_sid k = 1; k < loop->body.count; k++)
        if (loop->body.items[k].kind == HN_SOP_LOAD && loop->body.items[k].buffer == b) return true;
    return false;
}

static hn_status compute(again *a, const value *v) {
    for (uint32_t r = 0; r < v->count; r++) {
        const group *own = &a->s->groups.items[v->readers[r]];
        for (uint32_t m = 0; m < own->members.count; m++) {
            hn_loop *loop = own->members.items[m].loop;
            if (!loads(loop, v->buffer)) continue;
            HN_PUSH(a->s->scratch, &a->changes, ((change){.loop = loop, .loop_was = *loop}));
            HN_TRY(loop_inline(a->s, loop, v->maker->loop));
        }
        HN_TRY(note_reads(a, v, v->readers[r]));
    }
    return NULL;
}

/* All reads of one buffer in a group become reads of another. */
static hn_status read_copy(again *a, const group *own, hn_buf from, hn_buf to) {
    for (uint32_t m = 0; m < own->members.count; m++) {
        hn_loop *loop = own->members.items[m].loop;
        if (!loads(loop, from)) continue;
        const hn_loop was = *loop;
        HN_PUSH(a->s->scratch, &a->changes, ((change){.loop = loop, .loop_was = was}));
        HN_TRY(loop_copy(a->s, &was, loop));
        for (hn_sid k = 1; k < loop->body.count; k++)
            if (loop->body.items[k].kind == HN_SOP_LOAD && loop->body.items[k].buffer == from)
                loop->body.items[k].buffer = to;
    }
    if (own->is_loop) return NULL;
    hn_extern *call = a->s->p->items.items[own->item].ext;
    HN_PUSH(a->s->scratch, &a->changes, ((change){.call = call, .call_was = *call}));
    for (uint32_t k = 0; k < call->operand_count; k++)
        if (call->operands[k].buffer == from) call->operands[k].buffer = to;
    return NULL;
}

static hn_status make_copy(again *a, const value *v) {
    const uint32_t first = v->readers[v->count - 1];
    hn_buffer buffer = a->s->p->buffers.items[v->buffer];
    hn_loop *loop;
    buffer.value = 0;
    buffer.origin = v->maker->origin;
    HN_NEW(a->s->arena, loop, 1);
    HN_TRY(loop_copy(a->s, v->maker->loop, loop));
    HN_TRY(hn_program_add_buffer(a->s->p, buffer, &loop->store.buffer));
    copy c = {first,
              loop->store.buffer,
              {.is_loop = true, .form = GROUP_FLAT, .outer = loop_dims(a->s, loop)}};
    HN_PUSH(a->s->arena, &c.made.members, ((member){.loop = loop, .origin = v->maker->origin}));
    HN_PUSH(a->s->scratch, &a->copies, c);
    for (uint32_t r = 0; r < v->count; r++)
        HN_TRY(read_copy(a, &a->s->groups.items[v->readers[r]], v->buffer, loop->store.buffer));
    a->moved += moved_bytes(a, v);
    return note_reads(a, v, first);
}

/* ---- a round ---- */

static hn_status try_buffer(again *a, hn_buf b) {
    value v = {.buffer = b, .life = &a->l.of[b]};
    if (!is_repeatable(a, &v) || !find_readers(a, &v) || !is_worth_it(a, &v)) return NULL;
    const group *last = &a->s->groups.items[v.readers[0]];
    const uint32_t other =
        last->is_loop ? last->members.items[0].origin : a->s->p->items.items[last->item].origin;
    if (!sched_allows(a->s, HN_SCHED_AGAIN, v.maker->origin, other)) return NULL;
    sched_done(a->s, HN_SCHED_AGAIN);
    return v.is_computed ? compute(a, &v) : make_copy(a, &v);
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

static hn_status try_all(again *a) {
    const uint32_t most = a->s->p->buffers.count;
    candidate *list;
    uint32_t count = 0;
    HN_NEW(a->s->scratch, list, most);
    for (hn_buf b = 1; b < most; b++) {
        const life *u = &a->l.of[b];
        if (u->bytes && u->last_write != LIVES_NONE && u->first <= a->l.peak_at)
            list[count++] = (candidate){u->last_write, u->member, b};
    }
    if (count) qsort(list, count, sizeof *list, last_first);
    for (uint32_t k = 0; k < count; k++) HN_TRY(try_buffer(a, list[k].buffer));
    return NULL;
}

static int by_place(const void *x, const void *y) {
    const copy *a = x, *b = y;
    if (a->before != b->before) return a->before < b->before ? -1 : 1;
    return a->buffer < b->buffer ? -1 : a->buffer > b->buffer;
}

static hn_status add_copies(again *a) {
    group *items;
    uint32_t at = 0, next = 0;
    sched *s = a->s;
    if (!a->copies.count) return NULL;
    qsort(a->copies.items, a->copies.count, sizeof *a->copies.items, by_place);
    HN_NEW(s->arena, items, (size_t)s->groups.count + a->copies.count);
    for (uint32_t g = 0; g < s->groups.count; g++) {
        while (next < a->copies.count && a->copies.items[next].before == g)
            items[at++] = a->copies.items[next++].made;
        items[at++] = s->groups.items[g];
    }
    s->groups.items = items;
    s->groups.count = s->groups.cap = at;
    return NULL;
}

static void undo(again *a) {
    for (uint32_t k = a->changes.count; k-- > 0;) {
        const change *c = &a->changes.items[k];
        if (c->loop) *c->loop = c->loop_was;
        else *c->call = c->call_was;
    }
}

static hn_status round_of(again *a, bool *out_better) {
    sched *s = a->s;
    const lives was = a->l;
    const uint32_t buffers = s->p->buffers.count, count = s->groups.count;
    group *items = s->groups.items;
    a->changes.count = a->copies.count = 0;
    a->moved = 0;
    HN_TRY(try_all(a));
    HN_TRY(add_copies(a));
    HN_TRY(lives_find(s, &a->l));
    const int64_t gain = was.peak - a->l.peak;
    *out_better = gain >= was.peak / GAIN_PARTS && gain >= s->options->limits->again_min_bytes &&
                  a->moved <= gain * MOVED_FACTOR;
    s->changed |= *out_better;
    if (*out_better) return NULL;
    undo(a);
    s->groups.items = items;
    s->groups.count = count;
    s->p->buffers.count = buffers;
    return lives_find(s, &a->l);
}

/* Without copies as long as that is better, and then with them. */
hn_status sched_again(sched *s) {
    again a = {.s = s};
    const int64_t least = s->options->limits->again_min_bytes;
    bool better = true;
    if (!least || s->options->no_fusion) return NULL;
    HN_TRY(lives_find(s, &a.l));
    for (uint32_t k = 0; k < ROUNDS_MAX && a.l.peak > least; k++) {
        HN_TRY(round_of(&a, &better));
        if (!better && a.may_copy) break;
        a.may_copy |= !better;
    }
    return hn_sym_status(s->sym);
}
