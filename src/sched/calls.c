/* calls.c: calls of operations, before loops are grouped.
 *
 * A call that the target has an operation for takes what that can do besides: epilogue.c, scale.c.
 * Any other one becomes the loops that stand beside it (prologue.c), which then fuse as any do.
 *
 * The calls come first because they take loops apart: of relu(b2) * b3, where b2 is a product, the
 * relu goes to the call, and what is left fuses with its own readers. A call that took whole loops
 * would refuse this one, and one that held its readers in a group would keep them from the rows
 * behind it. */
#include "sched/calls.h"

#include <string.h>

/* --- who touches a buffer --- */

static void note_read(calls *c, hn_buf b, hn_item i) {
    use *u = &c->uses[b];
    if (u->readers < USE_READERS_MAX) u->reader[u->readers] = i;
    u->readers++;
}

static void note_write(calls *c, hn_buf b, hn_item i) {
    c->uses[b].writers++;
    c->uses[b].writer = i;
}

static bool loads_before(const hn_body *body, hn_sid k) {
    for (hn_sid e = 1; e < k; e++)
        if (body->items[e].kind == HN_SOP_LOAD && body->items[e].buffer == body->items[k].buffer)
            return true;
    return false;
}

static void note_loop(calls *c, const hn_loop *loop, hn_item i) {
    for (hn_sid k = 1; k < loop->body.count; k++)
        if (loop->body.items[k].kind == HN_SOP_LOAD && !loads_before(&loop->body, k))
            note_read(c, loop->body.items[k].buffer, i);
    if (loop->kind == HN_LOOP_SCATTER) note_read(c, loop->store.buffer, i);
    note_write(c, loop->store.buffer, i);
    if (loop->indices.buffer) note_write(c, loop->indices.buffer, i);
}

static void note_call(calls *c, const hn_extern *call, hn_item i) {
    for (uint32_t k = 0; k < call->operand_count; k++) {
        const struct hn_extern_operand *o = &call->operands[k];
        bool seen = false;
        for (uint32_t e = 0; e < k && !seen; e++)
            seen = !call->operands[e].written && call->operands[e].buffer == o->buffer;
        if (o->written) note_write(c, o->buffer, i);
        else if (!seen) note_read(c, o->buffer, i);
    }
}

static void note_item(calls *c, hn_item i) {
    const hn_item_info *item = calls_item(c, i);
    bool is_bracket = item->kind == HN_ITEM_BRANCH_THEN || item->kind == HN_ITEM_BRANCH_ELSE ||
                      item->kind == HN_ITEM_BRANCH_END || item->kind == HN_ITEM_REPEAT ||
                      item->kind == HN_ITEM_WHILE || item->kind == HN_ITEM_AGAIN ||
                      item->kind == HN_ITEM_ASSERT; /* a call takes nothing that it checks */
    c->region[i] = is_bracket ? i : c->region[i - 1];
    if (item->kind == HN_ITEM_LOOP) note_loop(c, item->loop, i);
    if (item->kind == HN_ITEM_EXTERN) note_call(c, item->ext, i);
    if (item->cond) note_read(c, item->cond, i);
    if (item->to) note_write(c, item->to, i);
}

bool calls_reads_last(const calls *c, const hn_loop *loop, hn_item from) {
    for (hn_sid k = 1; k < loop->body.count; k++) {
        const hn_sop *op = &loop->body.items[k];
        if (op->kind == HN_SOP_LOAD && c->uses[op->buffer].writers &&
            c->uses[op->buffer].writer > from)
            return false;
    }
    return true;
}

/* --- the items --- */

static uint32_t count_calls(const sched *s) {
    uint32_t count = 0;
    for (hn_item i = 1; i < s->p->items.count; i++)
        count += s->p->items.items[i].kind == HN_ITEM_EXTERN;
    return count;
}

static bool has_operation(const sched *s, const hn_extern *call) {
    return !call->loop_count || hn_operation_of(s->options->limits->operations, s->p, call);
}

static hn_status rewrite_call(calls *c, hn_item i) {
    const hn_extern *call = calls_item(c, i)->ext;
    if (!has_operation(c->s, call)) return calls_take_prologues(c, i);
    const hn_operation *o = hn_operation_of(c->s->options->limits->operations, c->s->p, call);
    if (!o) return NULL; /* the host's, without loops: no product or convolution */
    HN_TRY(calls_take_epilogues(c, i, o));
    HN_TRY(calls_take_copies(c, i, o));
    return o->does & HN_DOES_SCALE ? calls_take_scale(c, i) : NULL;
}

/* The program without what is dead, and with loops in place of calls. */
static hn_status rebuild(calls *c) {
    hn_program *p = c->s->p, old = *p;
    memset(&p->items, 0, sizeof p->items);
    HN_PUSH(p->arena, &p->items, (hn_item_info){0});
    for (hn_item i = 1; i < old.items.count; i++) {
        const hn_item_info *item = &old.items.items[i];
        bool is_call = item->kind == HN_ITEM_EXTERN;
        if (c->dead[i]) continue;
        if (is_call && !has_operation(c->s, item->ext)) {
            for (uint32_t k = 0; k < item->ext->loop_count; k++)
                HN_TRY(hn_program_add_item(p, (hn_item_info){.kind = HN_ITEM_LOOP,
                                                             .origin = item->origin,
                                                             .loop = &item->ext->loops[k]}));
        } else {
            if (is_call) item->ext->loop_count = 0; /* they would say what it was before */
            HN_TRY(hn_program_add_item(p, *item));
        }
    }
    return NULL;
}

hn_status sched_calls(sched *s) {
    calls c = {.s = s};
    const uint32_t count = count_calls(s);
    if (!count) return NULL;
    HN_NEW(s->scratch, c.uses,
           s->p->buffers.count + 2 * count); /* scale.c adds at most two buffers a call */
    HN_NEW(s->scratch, c.dead, s->p->items.count);
    HN_NEW(s->scratch, c.region, s->p->items.count);
    for (hn_item i = 1; i < s->p->items.count; i++) note_item(&c, i);
    for (hn_item i = 1; i < s->p->items.count && !s->options->no_fusion; i++)
        if (calls_item(&c, i)->kind == HN_ITEM_EXTERN) HN_TRY(rewrite_call(&c, i));
    return rebuild(&c);
}
