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

/* The point of `loop` that stores element `index`: one expression for each variable. False when it
 * cannot be told. */
static bool solve(sched *s, const hn_loop *loop, hn_expr index, hn_expr *out_at) {
    hn_expr coeffs[HN_MAX_RANK], rest = loop->store.index;
    for (uint32_t d = 0; d < loop->rank; d++)
        if (!hn_sym_affine(s->sym, rest, loop->vars[d], &coeffs[d], &rest)) return false;
    hn_expr from = hn_sym_sub(s->sym, index, rest);
    for (uint32_t d = 0; d < loop->rank; d++) {
        hn_expr extent = hn_sym_symbol_extent(s->sym, loop->vars[d]);
        bool is_one = hn_sym_is_value(s->sym, extent, 1);
        if (hn_sym_is_value(s->sym, extent, 0)) return false;
        if (!is_one && hn_sym_is_value(s->sym, coeffs[d], 0)) return false;
        out_at[d] = is_one ? hn_sym_int(s->sym, 0)
                           : hn_sym_mod(s->sym, hn_sym_floordiv(s->sym, from, coeffs[d]), extent);
    }
    return hn_sym_subst(s->sym, loop->store.index, loop->vars, out_at, loop->rank) == index;
}

typedef struct rewrite {
    sched *s;
    const hn_loop *producer;
    hn_buf buffer;
    hn_body body; /* the new one */
} rewrite;

static hn_status put(rewrite *r, const hn_sop *op, const hn_sid *map, hn_sid *out) {
    hn_sop copy = *op;
    for (uint32_t a = 0; a < 3; a++) copy.args[a] = op->args[a] ? map[op->args[a]] : 0;
    *out = hn_body_add(r->s->arena, &r->body, &copy);
    return *out ? NULL
                : HN_ERROR(HN_OUT_OF_MEMORY, "out of memory while computing what a call reads");
}

/* The producer's value at a point, in place of a load of it. */
static hn_status put_producer(rewrite *r, const hn_expr *at, hn_sid *out) {
    const hn_loop *from = r->producer;
    hn_sid *map;
    HN_NEW(r->s->scratch, map, from->body.count);
    for (hn_sid k = 1; k < from->body.count; k++) {
        hn_sop op = from->body.items[k];
        if (op.index) op.index = hn_sym_subst(r->s->sym, op.index, from->vars, at, from->rank);
        HN_TRY(put(r, &op, map, &map[k]));
    }
    *out = map[from->store.value];
    return NULL;
}

static hn_status put_body(rewrite *r, hn_loop *loop) {
    hn_sid *map;
    HN_NEW(r->s->scratch, map, loop->body.count);
    for (hn_sid k = 1; k < loop->body.count; k++) {
        const hn_sop *op = &loop->body.items[k];
        hn_expr at[HN_MAX_RANK];
        if (op->kind == HN_SOP_LOAD && op->buffer == r->buffer &&
            solve(r->s, r->producer, op->index, at))
            HN_TRY(put_producer(r, at, &map[k]));
        else HN_TRY(put(r, op, map, &map[k]));
    }
    loop->body = r->body;
    loop->store.value = map[loop->store.value];
    return NULL;
}

static bool is_solvable(sched *s, const hn_extern *call, const hn_loop *producer) {
    for (uint32_t l = 0; l < call->loop_count; l++) {
        const hn_body *body = &call->loops[l].body;
        for (hn_sid k = 1; k < body->count; k++) {
            hn_expr at[HN_MAX_RANK];
            bool reads = body->items[k].kind == HN_SOP_LOAD &&
                         body->items[k].buffer == producer->store.buffer;
            if (reads && !solve(s, producer, body->items[k].index, at)) return false;
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
            !sched_allows(c->s, "a call computes what it reads (prologue.c)",
                          calls_item(c, i)->origin, calls_item(c, c->uses[b].writer)->origin))
            continue;
        for (uint32_t l = 0; l < call->loop_count; l++)
            HN_TRY(put_body(&(rewrite){.s = c->s, .producer = producer, .buffer = b},
                            &call->loops[l]));
        c->dead[c->uses[b].writer] = true;
        c->uses[b] = (use){0};
    }
    return NULL;
}
