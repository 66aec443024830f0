/* loops.c: what a loop by itself tells: which way its loads go, and how much they read. */
#include "sched/internal.h"

#include <string.h>

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

hn_status loop_copy(sched *s, const hn_loop *from, hn_loop *to) {
    *to = *from;
    HN_NEW(s->arena, to->body.items, from->body.count);
    memcpy(to->body.items, from->body.items, from->body.count * sizeof *from->body.items);
    to->body.cap = from->body.count;
    return NULL;
}

/* The elements that an index reaches, by the extents of the variables that it uses. */
static int64_t reached(sched *s, const hn_loop *loop, hn_expr index, int64_t most) {
    int64_t elems = 1;
    for (uint32_t d = 0; d < loop->rank + loop->red_rank; d++) {
        if (!hn_sym_uses(s->sym, index, loop->vars[d])) continue;
        const int64_t extent =
            hn_sym_hint(s->sym, hn_sym_symbol_extent(s->sym, loop->vars[d]), HINT_ELEMS);
        if (extent <= 0) return 0;
        if (elems > most / extent) return most;
        elems *= extent;
    }
    return elems;
}

int64_t loop_access_bytes(sched *s, const hn_loop *loop, hn_buf b, hn_expr index) {
    const hn_buffer *buffer = &s->p->buffers.items[b];
    const int64_t size = (int64_t)hn_dtype_facts(buffer->dtype)->size_bytes;
    const hn_expr elems = buffer->kind == HN_BUFFER_INPUT
                              ? hn_sym_product(s->sym, buffer->sizes, buffer->rank)
                              : buffer->extent;
    const int64_t all = hn_sym_hint(s->sym, elems, HINT_ELEMS);
    return all > 0 && all < INT64_MAX / 64 ? size * reached(s, loop, index, all) : 0;
}
