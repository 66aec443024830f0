/* small.c: what is the same for whole rows or columns of a loop.
 *
 * A kernel computes it once for each of them, so it costs nothing for each element: of
 *
 *   pointwise (i0 < 1024, i1 < 768): b5 = mul(sub(b1[i0, i1], b2[i0]), rsqrt(b3[i0]))
 *
 * sub and mul. */
#include "sched/internal.h"

enum {
    SMALL_PARTS = 8, /* a buffer of one part of so many of the loop's elements is small */
    BODY_MAX = 128   /* ops; of longer bodies all count */
};

bool loop_strides(sched *s, const hn_loop *loop, hn_expr index, int64_t *out) {
    for (uint32_t d = 0; d < loop->rank + loop->red_rank; d++) {
        hn_expr coeff;
        if (!hn_sym_affine(s->sym, index, loop->vars[d], &coeff, &index)) return false;
        for (uint32_t e = 0; e < loop->rank + loop->red_rank; e++)
            if (hn_sym_uses(s->sym, coeff, loop->vars[e])) return false;
        const hn_expr extent = hn_sym_symbol_extent(s->sym, loop->vars[d]);
        out[d] = hn_sym_is_value(s->sym, extent, 1) ? 0 : hn_sym_hint(s->sym, coeff, 1);
    }
    return true;
}

static int64_t points_of(sched *s, const hn_loop *loop, const int64_t *strides) {
    int64_t points = 1;
    for (uint32_t d = 0; d < loop->rank; d++) {
        const int64_t extent =
            hn_sym_hint(s->sym, hn_sym_symbol_extent(s->sym, loop->vars[d]), 1024);
        if (strides && !strides[d]) continue;
        if (extent > 0 && points < INT64_MAX / SMALL_PARTS / extent) points *= extent;
    }
    return points;
}

bool loop_load_is_small(sched *s, const hn_loop *loop, hn_expr index) {
    int64_t strides[HN_MAX_RANK];
    return loop_strides(s, loop, index, strides) &&
           points_of(s, loop, strides) * SMALL_PARTS <= points_of(s, loop, NULL);
}

void loop_mark_small(sched *s, const hn_loop *loop, bool *out) {
    out[0] = true;
    for (hn_sid k = 1; k < loop->body.count; k++) {
        const hn_sop *op = &loop->body.items[k];
        out[k] = op->kind == HN_SOP_LOAD ? loop_load_is_small(s, loop, op->index)
                                         : op->kind != HN_SOP_INDEX;
        for (uint32_t a = 0; a < 3; a++) out[k] &= out[op->args[a]];
    }
}

int64_t loop_element_cost(sched *s, const hn_loop *loop) {
    bool is_small[BODY_MAX] = {false};
    int64_t cost = 0;
    if (loop->body.count <= BODY_MAX) loop_mark_small(s, loop, is_small);
    for (hn_sid k = 1; k < loop->body.count; k++) {
        const hn_sop *op = &loop->body.items[k];
        if (op->kind == HN_SOP_ELEM && (k >= BODY_MAX || !is_small[k]))
            cost += hn_op_facts(op->op)->cost;
    }
    return cost;
}
