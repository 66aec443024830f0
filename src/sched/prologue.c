/* prologue.c: what only the loops of a call read is computed in them, if it is cheap: the target
 * has no operation that would read it from memory faster.
 *
 *   pointwise: b2 = cast(b1)        reduce sum: b5 = cast(b1) * b4
 *   matmul(out b5, b2, b4)     ->
 */
#include "sched/calls.h"

static bool is_cheap(const sched *s, const hn_body *body) {
    int64_t ops = 0, loads = 0;
    for (hn_sid k = 1; k < body->count; k++) {
        const hn_sop *op = &body->items[k];
        if (op->kind == HN_SOP_INDIRECT || op->kind == HN_SOP_RANDOM) return false;
        if (op->kind == HN_SOP_ELEM && hn_op_has(op->op, HN_TRAIT_KEEP)) return false;
        loads += op->kind == HN_SOP_LOAD;
        ops += op->kind == HN_SOP_ELEM || op->kind == HN_SOP_CAST;
    }
    return ops <= s->options->limits->prologue_max_ops &&
           loads <= s->options->limits->prologue_max_loads;
}

/* The loop that alone makes buffer `b`, which call `i` alone reads, if the call may compute it;
 * NULL: none. */
static hn_loop *prologue_of(calls *c, hn_buf b, hn_item i) {
    const use *u = &c->uses[b];
    if (!b || c->s->p->buffers.items[b].kind != HN_BUFFER_TEMP || u->readers != 1 ||
        u->writers != 1 || u->writer >= i)
        return NULL;
    const hn_item_info *item = calls_item(c, u->writer);
    bool is_loop = item->kind == HN_ITEM_LOOP && item->loop->kind == HN_LOOP_POINTWISE &&
                   item->loop->store.mode == HN_STORE_SET;
    return is_loop && is_cheap(c->s, &item->loop->body) &&
                   calls_reads_last(c, item->loop, u->writer)
               ? item->loop
               : NULL;
}

static bool is_solvable(sched *s, const hn_extern *call, const hn_loop *producer) {
    for (uint32_t l = 0; l < call->loop_count; l++) {
        const hn_body *body = &call->loops[l].body;
        for (hn_sid k = 1; k < body->count; k++) {
            hn_expr at[HN_MAX_RANK];
            bool reads = body->items[k].kind == HN_SOP_LOAD &&
                         body->items[k].buffer == producer->store.buffer;
            if (reads && !loop_point_of(s, producer, body->items[k].index, at)) return false;
        }
    }
    return true;
}

hn_status calls_take_prologues(calls *c, hn_item i) {
    hn_extern *call = calls_item(c, i)->ext;
    for (uint32_t k = 0; k < call->operand_count; k++) {
        hn_buf b = call->operands[k].buffer;
        hn_loop *producer = call->operands[k].written ? NULL : prologue_of(c, b, i);
        if (!producer || !is_solvable(c->s, call, producer) ||
            !sched_allows(c->s, HN_SCHED_PROLOGUE, calls_item(c, i)->origin,
                          calls_item(c, c->uses[b].writer)->origin))
            continue;
        for (uint32_t l = 0; l < call->loop_count; l++)
            HN_TRY(loop_inline(c->s, &call->loops[l], producer));
        c->dead[c->uses[b].writer] = true;
        sched_done(c->s, HN_SCHED_PROLOGUE);
        c->uses[b] = (use){0};
    }
    return NULL;
}
