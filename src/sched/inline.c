/* inline.c: a loop computes what it loads, element by element, in place of loading it.
 *
 *   pointwise: b2 = cast(b1)        reduce sum: b5 = cast(b1) * b4
 *   reduce sum: b5 = b2 * b4   ->
 */
#include "sched/internal.h"

enum { BODY_MAX = 256 }; /* ops of a loop that computes what it loads */

bool loop_point_of(sched *s, const hn_loop *loop, hn_expr index, hn_expr *out_at) {
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

/* Whether an index is a sum over the variables of the loop. */
static bool is_affine(sched *s, const hn_loop *loop, hn_expr index) {
    hn_expr coeff;
    for (uint32_t d = 0; d < loop->rank + loop->red_rank; d++)
        if (!hn_sym_affine(s->sym, index, loop->vars[d], &coeff, &index)) return false;
    return true;
}

/* Whether the loop can compute the maker's value at `index`, and walks memory no worse then. */
static bool can_inline_at(sched *s, const hn_loop *loop, const hn_loop *maker, hn_expr index) {
    hn_expr at[HN_MAX_RANK];
    if (!loop_point_of(s, maker, index, at)) return false;
    if (!is_affine(s, loop, index)) return true;
    for (hn_sid k = 1; k < maker->body.count; k++) {
        const hn_sop *op = &maker->body.items[k];
        if (op->kind == HN_SOP_LOAD && is_affine(s, maker, op->index) &&
            !is_affine(s, loop, hn_sym_subst(s->sym, op->index, maker->vars, at, maker->rank)))
            return false;
    }
    return true;
}

bool loop_can_inline(sched *s, const hn_loop *loop, const hn_loop *maker) {
    for (hn_sid k = 1; k < loop->body.count; k++) {
        const hn_sop *op = &loop->body.items[k];
        if (op->kind != HN_SOP_LOAD || op->buffer != maker->store.buffer) continue;
        if (loop->body.count + maker->body.count > BODY_MAX ||
            !can_inline_at(s, loop, maker, op->index))
            return false;
    }
    return true;
}

typedef struct rewrite {
    sched *s;
    const hn_loop *producer;
    hn_body body; /* the new one */
} rewrite;

static hn_status put(rewrite *r, const hn_sop *op, const hn_sid *map, hn_sid *out) {
    hn_sop copy = *op;
    for (uint32_t a = 0; a < 3; a++) copy.args[a] = op->args[a] ? map[op->args[a]] : 0;
    *out = hn_body_add(r->s->arena, &r->body, &copy);
    return *out ? NULL
                : HN_ERROR(HN_OUT_OF_MEMORY, "out of memory while computing what a loop reads");
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

hn_status loop_inline(sched *s, hn_loop *loop, const hn_loop *producer) {
    rewrite r = {.s = s, .producer = producer};
    hn_sid *map;
    HN_NEW(s->scratch, map, loop->body.count);
    for (hn_sid k = 1; k < loop->body.count; k++) {
        const hn_sop *op = &loop->body.items[k];
        hn_expr at[HN_MAX_RANK];
        if (op->kind == HN_SOP_LOAD && op->buffer == producer->store.buffer &&
            loop_point_of(s, producer, op->index, at))
            HN_TRY(put_producer(&r, at, &map[k]));
        else HN_TRY(put(&r, op, map, &map[k]));
    }
    loop->body = r.body;
    loop->store.value = map[loop->store.value];
    return NULL;
}

/* ---- pieces ---- */

hn_expr loop_piece_of(sched *s, const loop_pieces *from, hn_expr index) {
    return hn_sym_mod(s->sym, hn_sym_floordiv(s->sym, index, hn_sym_int(s->sym, from->step)),
                      hn_sym_int(s->sym, from->count));
}

bool loop_point_in_piece(sched *s, const loop_pieces *from, uint32_t piece, hn_expr index,
                         hn_expr *out_at) {
    hn_sym *sym = s->sym;
    const hn_expr away = hn_sym_sub(sym, hn_sym_int(sym, piece), loop_piece_of(s, from, index));
    return loop_point_of(s, from->loops[piece],
                         hn_sym_add(sym, index, hn_sym_mul(sym, away, hn_sym_int(sym, from->step))),
                         out_at);
}

static hn_status put_op(rewrite *r, hn_sop op, hn_sid *out) {
    *out = hn_body_add(r->s->arena, &r->body, &op);
    return *out ? NULL
                : HN_ERROR(HN_OUT_OF_MEMORY, "out of memory while computing what a loop reads");
}

/* where(it is this piece, its value, `*other`) in place of `*other`. */
static hn_status put_choice(rewrite *r, hn_expr which, uint32_t piece, hn_sid value,
                            hn_sid *other) {
    hn_sid index, number, is_it;
    const hn_dtype dtype = r->body.items[value].dtype;
    HN_TRY(
        put_op(r, (hn_sop){.kind = HN_SOP_INDEX, .dtype = HN_DTYPE_I64, .index = which}, &index));
    HN_TRY(
        put_op(r, (hn_sop){.kind = HN_SOP_CONST, .dtype = HN_DTYPE_I64, .imm.i = piece}, &number));
    HN_TRY(put_op(
        r,
        (hn_sop){
            .kind = HN_SOP_ELEM, .op = HN_OP_EQ, .dtype = HN_DTYPE_BOOL, .args = {index, number}},
        &is_it));
    return put_op(
        r,
        (hn_sop){
            .kind = HN_SOP_ELEM, .op = HN_OP_WHERE, .dtype = dtype, .args = {is_it, value, *other}},
        other);
}

/* The value of the buffer at an index, in place of a load of it. */
static hn_status put_pieces(rewrite *r, const loop_pieces *from, hn_expr index, hn_sid *out) {
    const hn_expr which = loop_piece_of(r->s, from, index);
    int64_t only = -1;
    *out = 0;
    (void)hn_sym_is_int(r->s->sym, which, &only);
    for (uint32_t k = from->count; k-- > 0;) {
        hn_expr at[HN_MAX_RANK];
        hn_sid value;
        if (only >= 0 && only != k) continue;
        (void)loop_point_in_piece(r->s, from, k, index, at); /* it has been asked before */
        r->producer = from->loops[k];
        HN_TRY(put_producer(r, at, &value));
        if (!*out) *out = value;
        else HN_TRY(put_choice(r, which, k, value, out));
    }
    return NULL;
}

hn_status loop_inline_pieces(sched *s, hn_loop *loop, hn_buf b, const loop_pieces *from) {
    rewrite r = {.s = s};
    hn_sid *map;
    HN_NEW(s->scratch, map, loop->body.count);
    for (hn_sid k = 1; k < loop->body.count; k++) {
        const hn_sop *op = &loop->body.items[k];
        if (op->kind == HN_SOP_LOAD && op->buffer == b)
            HN_TRY(put_pieces(&r, from, op->index, &map[k]));
        else HN_TRY(put(&r, op, map, &map[k]));
    }
    loop->body = r.body;
    loop->store.value = map[loop->store.value];
    return NULL;
}
