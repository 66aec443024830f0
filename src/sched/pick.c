/* pick.c: a reduction over rows that takes from each row what an index picks, such as the loss of a
 * classifier: the picked elements become a buffer of their own, made where the rows are.
 *
 *     s = sum_n f(d[n, t[n]])      ->      p[n] = f(d[n, t[n]])      s = sum_n p[n]
 *
 * Otherwise the rows of d would be written for the sake of one element each. */
#include "sched/internal.h"

#include <string.h>

/* Whether an index uses a checked one of the loop. */
static bool is_picked(const sched *s, const hn_loop *loop, hn_expr index) {
    for (hn_sid k = 1; k < loop->body.count; k++)
        if (loop->body.items[k].kind == HN_SOP_INDIRECT &&
            hn_sym_uses(s->sym, index, loop->body.items[k].index))
            return true;
    return false;
}

/* Whether a row of the group makes the buffer, element by element. */
static bool is_row_of(const group *g, hn_buf b) {
    bool makes = false;
    for (uint32_t m = 0; m < g->members.count; m++) {
        const member *own = &g->members.items[m];
        if (own->loop->store.buffer == b)
            makes = own->loop->kind == HN_LOOP_POINTWISE && own->inner.count > 0;
    }
    return makes && g->is_loop && g->form == GROUP_ROW;
}

/* Whether the loop has as many elements as the group has rows: one of each row. */
static bool is_one_a_row(sched *s, const hn_loop *loop, const group *g) {
    const dims all = loop_dims(s, loop);
    return dims_numel(s, &all) == dims_numel(s, &g->outer);
}

bool pick_group(sched *s, const hn_loop *loop, uint32_t *out_group) {
    if (!s->options->limits->long_row_again_ops || s->options->no_fusion ||
        loop->kind != HN_LOOP_REDUCE || hn_op_has(loop->reduce_op, HN_TRAIT_POSITION))
        return false;
    for (hn_sid k = 1; k < loop->body.count; k++) {
        const hn_sop *op = &loop->body.items[k];
        const uint32_t maker = op->kind == HN_SOP_LOAD ? s->writer_group[op->buffer] : 0;
        if (!maker || maker <= s->barrier || !is_picked(s, loop, op->index) ||
            s->p->buffers.items[op->buffer].kind != HN_BUFFER_TEMP ||
            !is_row_of(&s->groups.items[maker - 1], op->buffer) ||
            !is_one_a_row(s, loop, &s->groups.items[maker - 1]))
            continue;
        *out_group = maker - 1;
        return true;
    }
    return false;
}

/* Of the element that a loop stands at, row-major. */
static hn_expr row_major(const sched *s, const hn_loop *loop) {
    hn_expr at = hn_sym_int(s->sym, 0);
    for (uint32_t d = 0; d < loop->rank + loop->red_rank; d++) {
        hn_expr extent = hn_sym_symbol_extent(s->sym, loop->vars[d]);
        at = hn_sym_add(s->sym, hn_sym_mul(s->sym, at, extent), loop->vars[d]);
    }
    return at;
}

hn_status pick_first_stage(sched *s, const hn_loop *loop, hn_loop *out) {
    *out = *loop;
    HN_NEW(s->arena, out->body.items, loop->body.count);
    memcpy(out->body.items, loop->body.items, loop->body.count * sizeof *loop->body.items);
    out->body.cap = loop->body.count;
    out->kind = HN_LOOP_POINTWISE;
    out->rank = loop->rank + loop->red_rank;
    out->red_rank = 0;
    out->store = (hn_loop_store){.index = row_major(s, loop), .value = loop->store.value};
    return NULL;
}

static hn_status add_buffer(sched *s, const hn_loop *whole, hn_dtype dtype, hn_buf *out) {
    const dims all = loop_dims(s, whole);
    hn_expr *sizes, *strides;
    HN_NEW(s->arena, sizes, all.count + 1);
    HN_NEW(s->arena, strides, all.count + 1);
    memcpy(sizes, all.items, all.count * sizeof *sizes);
    hn_contiguous_strides(s->sym, sizes, all.count, strides);
    return hn_program_add_buffer(s->p,
                                 (hn_buffer){.kind = HN_BUFFER_TEMP,
                                             .dtype = dtype,
                                             .rank = all.count,
                                             .sizes = sizes,
                                             .strides = strides,
                                             .extent = dims_numel(s, &all)},
                                 out);
}

hn_status pick_second_stage(sched *s, hn_loop *first, hn_loop *loop) {
    hn_sop load = {.kind = HN_SOP_LOAD,
                   .dtype = loop->body.items[loop->store.value].dtype,
                   .index = row_major(s, loop)};
    HN_TRY(add_buffer(s, loop, load.dtype, &first->store.buffer));
    load.buffer = first->store.buffer;
    loop->body = (hn_body){0};
    loop->store.value = hn_body_add(s->arena, &loop->body, &load);
    return loop->store.value
               ? NULL
               : HN_ERROR(HN_OUT_OF_MEMORY, "out of memory while splitting a reduction");
}
