/* mixed.c: reductions down columns in the row kernel that reads the same, or makes what they read.
 *
 * The backward pass of a norm reduces the rows of x and dy for dx, and their columns for the
 * gradients of weight and bias. One kernel that takes slabs of rows does both, and reads x and dy
 * once: a slab has a row of partial results, and a second loop combines the slabs in order.
 *
 *   y[c] = sum_r f(r, c)      ->      t[s, c] = sum of f(r, c) over the rows of slab s
 *                                     y[c] = sum_s t[s, c]
 *
 * A kernel of elements becomes one of rows for it: that is how the gradient of a bias comes from the
 * kernel that makes the gradient of what the bias was added to.
 *
 * How many slabs there are does not depend on the sizes at run time: the buffer has a fixed size,
 * and a slab may be empty. A processor that keeps partial results in registers takes fewer slabs where
 * several reductions join, since fewer of them run at once; what combines the slabs of all of
 * them is one kernel. */
#include "sched/internal.h"

#include <string.h>

static int64_t hint(sched *s, hn_expr e) { return hn_sym_hint(s->sym, e, 1024); }

/* Reduction dims of the loop: rows; parallel ones: columns. */
static hn_expr rows_of(sched *s, const hn_loop *loop) {
    dims all = loop_dims(s, loop);
    return hn_sym_product(s->sym, &all.items[loop->rank], loop->red_rank);
}

static hn_expr columns_of(sched *s, const hn_loop *loop) {
    dims all = loop_dims(s, loop);
    return hn_sym_product(s->sym, all.items, loop->rank);
}

/* Partial results are numbers of the values' dtype: 16-bit floats would be rounded. */
static bool is_exact(const hn_loop *loop) {
    hn_dtype d = loop->body.items[loop->store.value].dtype;
    return d != HN_DTYPE_F16 && d != HN_DTYPE_BF16;
}

bool mixed_may_join(sched *s, const hn_loop *loop) {
    const hn_sched_limits *limits = s->options->limits;
    int64_t columns;
    if (!limits->mixed_slabs || s->options->no_fusion || loop->kind != HN_LOOP_REDUCE ||
        !is_column_reduction(s, loop) || hn_op_has(loop->reduce_op, HN_TRAIT_POSITION) ||
        !is_exact(loop) || loop->rank + loop->red_rank >= HN_MAX_RANK)
        return false;
    hn_expr rows = rows_of(s, loop);
    return hn_sym_is_int(s->sym, columns_of(s, loop), &columns) && columns > 1 &&
           columns >= limits->mixed_columns_min && columns <= limits->mixed_columns_max &&
           hint(s, rows) >= limits->mixed_slabs * limits->mixed_min_rows &&
           hint(s, rows) * columns >= limits->mixed_min_elems;
}

static int64_t columns_in(sched *s, const group *g) {
    int64_t columns = 0;
    for (uint32_t m = 0; m < g->members.count; m++)
        if (g->members.items[m].is_column) columns += hint(s, g->slab_elems);
    return columns;
}

static bool has_reduction(const group *g) {
    for (uint32_t m = 0; m < g->members.count; m++)
        if (g->members.items[m].loop->kind == HN_LOOP_REDUCE) return true;
    return false;
}

bool mixed_fits(sched *s, const group *g, const hn_loop *loop, hn_refusal_reason *out_why) {
    hn_expr columns = columns_of(s, loop);
    const bool has_rows = g->is_loop && g->form == GROUP_ROW && (has_reduction(g) || g->slabs);
    *out_why = !has_rows                                      ? HN_REFUSED_NO_ROWS
               : dims_numel(s, &g->outer) != rows_of(s, loop) ? HN_REFUSED_ROWS_DIFFER
               : g->slabs && g->slab_elems != columns         ? HN_REFUSED_COLUMNS_DIFFER
               : columns_in(s, g) + hint(s, columns) > s->options->limits->mixed_all_columns_max
                   ? HN_REFUSED_MANY_COLUMNS
                   : HN_REFUSED_NONE;
    return !*out_why;
}

bool mixed_may_have_rows(sched *s, const group *g, const hn_loop *loop, dims *out_rows) {
    const dims all = loop_dims(s, loop);
    *out_rows = dims_part(&all, loop->rank, loop->red_rank);
    return g->is_loop && g->form == GROUP_FLAT && g->members.count &&
           dims_numel(s, &g->outer) == dims_numel(s, &all);
}

hn_status mixed_first_stage(sched *s, const hn_loop *loop, hn_loop *out) {
    hn_expr fresh[HN_MAX_RANK], replacement[HN_MAX_RANK], at = hn_sym_int(s->sym, 0);
    uint32_t total = loop->rank + loop->red_rank;
    *out = *loop;
    HN_NEW(s->arena, out->body.items, loop->body.count);
    memcpy(out->body.items, loop->body.items, loop->body.count * sizeof *loop->body.items);
    out->body.cap = loop->body.count;
    for (uint32_t d = 0; d < total; d++) {
        uint32_t from = d < loop->red_rank ? loop->rank + d : d - loop->red_rank;
        hn_expr extent = hn_sym_symbol_extent(s->sym, loop->vars[from]);
        replacement[from] = fresh[d] = hn_sym_index(s->sym, d, extent);
        if (d >= loop->red_rank) at = hn_sym_add(s->sym, hn_sym_mul(s->sym, at, extent), fresh[d]);
    }
    loop_subst(s, out, loop->vars, replacement, total);
    memcpy(out->vars, fresh, total * sizeof *fresh);
    out->kind = HN_LOOP_POINTWISE;
    out->rank = total;
    out->red_rank = 0;
    out->store.buffer = 0;
    out->store.index = at;
    return NULL;
}

/* Whether the member reads an element, or makes it. */
static bool has_element(const hn_loop *own, hn_buf b, hn_expr index) {
    if (own->kind == HN_LOOP_POINTWISE && own->store.buffer == b && own->store.index == index)
        return true;
    for (hn_sid e = 1; e < own->body.count; e++)
        if (own->body.items[e].kind == HN_SOP_LOAD && own->body.items[e].buffer == b &&
            own->body.items[e].index == index)
            return true;
    return false;
}

bool mixed_shares_reads(sched *s, const group *g, const hn_loop *loop) {
    for (hn_sid k = 1; k < loop->body.count; k++) {
        const hn_sop *op = &loop->body.items[k];
        if (op->kind != HN_SOP_LOAD) continue;
        bool full = true;
        for (uint32_t d = 0; d < loop->rank; d++)
            full &= hn_sym_uses(s->sym, op->index, loop->vars[d]);
        for (uint32_t m = 0; m < g->members.count && full; m++)
            if (has_element(g->members.items[m].loop, op->buffer, op->index)) return true;
    }
    return false;
}

static bool reads_the_same(const hn_loop *a, const hn_loop *b) {
    for (hn_sid k = 1; k < a->body.count; k++)
        for (hn_sid e = 1; e < b->body.count && a->body.items[k].kind == HN_SOP_LOAD; e++)
            if (b->body.items[e].kind == HN_SOP_LOAD &&
                a->body.items[k].buffer == b->body.items[e].buffer)
                return true;
    return false;
}

/* How many reductions down the same columns the program has: they are expected to join, too. */
static int64_t count_alike(sched *s, const hn_loop *loop) {
    const hn_expr rows = rows_of(s, loop), columns = columns_of(s, loop);
    int64_t count = 0;
    for (hn_item i = 1; i < s->p->items.count; i++) {
        const hn_item_info *item = &s->p->items.items[i];
        if (item->kind == HN_ITEM_LOOP && mixed_may_join(s, item->loop) &&
            rows_of(s, item->loop) == rows && columns_of(s, item->loop) == columns)
            count += reads_the_same(loop, item->loop);
    }
    return count < 1 ? 1 : count;
}

/* A number of slabs for all sizes, by the hints: more where their partial results are small. */
static uint32_t slabs_of(sched *s, const hn_loop *loop) {
    const hn_sched_limits *limits = s->options->limits;
    const hn_expr rows = rows_of(s, loop), columns = columns_of(s, loop);
    int64_t factor = limits->mixed_slab_elems / hint(s, columns);
    if (limits->mixed_shares_slabs) factor /= count_alike(s, loop);
    if (factor > limits->mixed_slabs_factor) factor = limits->mixed_slabs_factor;
    while (factor > 1 && limits->mixed_slabs * factor * limits->mixed_slab_rows > hint(s, rows))
        factor /= 2;
    return (uint32_t)(limits->mixed_slabs * (factor < 1 ? 1 : factor));
}

hn_status mixed_second_stage(sched *s, group *g, const hn_loop *whole, hn_loop *out) {
    member *first = &g->members.items[g->members.count - 1];
    const hn_dtype dtype = whole->body.items[whole->store.value].dtype;
    hn_expr columns = columns_of(s, whole), *sizes, *strides, at = hn_sym_int(s->sym, 0);
    if (!g->slabs) g->slabs = slabs_of(s, whole);
    g->slab_elems = columns;
    first->is_column = true;
    HN_NEW(s->arena, sizes, 2);
    HN_NEW(s->arena, strides, 2);
    sizes[0] = hn_sym_int(s->sym, g->slabs);
    sizes[1] = columns;
    hn_contiguous_strides(s->sym, sizes, 2, strides);
    HN_TRY(hn_program_add_buffer(s->p,
                                 (hn_buffer){.kind = HN_BUFFER_TEMP,
                                             .dtype = dtype,
                                             .rank = 2,
                                             .sizes = sizes,
                                             .strides = strides,
                                             .extent = hn_sym_product(s->sym, sizes, 2)},
                                 &first->loop->store.buffer));
    *out = (hn_loop){.kind = HN_LOOP_REDUCE,
                     .reduce_op = whole->reduce_op,
                     .rank = whole->rank,
                     .red_rank = 1,
                     .store = whole->store};
    memcpy(out->vars, whole->vars, whole->rank * sizeof *whole->vars);
    out->vars[whole->rank] = hn_sym_index(s->sym, whole->rank, sizes[0]);
    for (uint32_t d = 0; d < whole->rank; d++)
        at =
            hn_sym_add(s->sym, hn_sym_mul(s->sym, at, hn_sym_symbol_extent(s->sym, whole->vars[d])),
                       whole->vars[d]);
    at = hn_sym_add(s->sym, at, hn_sym_mul(s->sym, columns, out->vars[whole->rank]));
    hn_sop load = {
        .kind = HN_SOP_LOAD, .dtype = dtype, .buffer = first->loop->store.buffer, .index = at};
    out->store.value = hn_body_add(s->arena, &out->body, &load);
    return out->store.value
               ? NULL
               : HN_ERROR(HN_OUT_OF_MEMORY, "out of memory while splitting a reduction");
}
