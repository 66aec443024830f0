/* split.c: a long reduction with few results becomes two: S partial results side by side, then
 * their combination. One row alone would leave every thread but one idle.
 *
 *   y[p] = sum_r x[p, r]      ->      t[s, p] = sum_q x[p, s * Q + q]      y[p] = sum_s t[s, p] */
#include "sched/internal.h"

#include <string.h>

static int64_t hint(sched *s, hn_expr e) { return hn_sym_hint(s->sym, e, 1024); }

static int64_t extent_hint(sched *s, hn_expr var) {
    return hint(s, hn_sym_symbol_extent(s->sym, var));
}

/* How many parts: the most that divide the first reduction dim exactly and leave each part some
 * work. 0: do not split. */
static int64_t parts_of(sched *s, const hn_loop *loop) {
    const hn_sched_limits *limits = s->options->limits;
    int64_t results = 1, elems = 1, extent;
    if (loop->kind != HN_LOOP_REDUCE || s->options->threads < 2) return 0;
    /* positions within parts cannot be combined */
    if (hn_op_has(loop->reduce_op, HN_TRAIT_POSITION)) return 0;
    for (uint32_t d = 0; d < loop->rank; d++) results *= extent_hint(s, loop->vars[d]);
    for (uint32_t d = 0; d < loop->red_rank; d++)
        elems *= extent_hint(s, loop->vars[loop->rank + d]);
    if (results == 0 || elems == 0) return 0;
    int64_t rows = results, last = loop->rank ? extent_hint(s, loop->vars[loop->rank - 1]) : 1;
    bool column = is_column_reduction(s, loop);
    int64_t per_part = column ? limits->column_min_steps : 1;
    if (column) rows = results / last * ((last + limits->column_strip - 1) / limits->column_strip);
    if (100 * rows >=
            (column ? limits->split_strips : limits->split_rows) * (int64_t)s->options->threads ||
        results * elems < limits->split_min_elems)
        return 0;
    if (!hn_sym_is_int(s->sym, hn_sym_symbol_extent(s->sym, loop->vars[loop->rank]), &extent))
        return 0;
    for (int64_t parts = limits->split_parts_max; parts >= 4; parts /= 2)
        if (extent % parts == 0 && results * elems / parts >= 4096 && elems / parts >= per_part)
            return parts;
    return 0;
}

static hn_status partial_buffer(sched *s, const hn_loop *loop, int64_t parts, hn_buf *out,
                                hn_expr *strides) {
    hn_expr *sizes, *own;
    uint32_t rank = loop->rank + 1;
    HN_NEW(s->arena, sizes, rank);
    HN_NEW(s->arena, own, rank);
    sizes[0] = hn_sym_int(s->sym, parts);
    for (uint32_t d = 0; d < loop->rank; d++)
        sizes[d + 1] = hn_sym_symbol_extent(s->sym, loop->vars[d]);
    hn_contiguous_strides(s->sym, sizes, rank, own);
    memcpy(strides, own, rank * sizeof *own);
    hn_dtype dtype = loop->body.items[loop->store.value].dtype;
    return hn_program_add_buffer(s->p,
                                 (hn_buffer){.kind = HN_BUFFER_TEMP,
                                             .dtype = dtype,
                                             .rank = rank,
                                             .sizes = sizes,
                                             .strides = own,
                                             .extent = hn_sym_product(s->sym, sizes, rank)},
                                 out);
}

/* Variables of the first stage: part, then the old ones with the split dim shortened. */
static void first_stage(sched *s, hn_loop *loop, int64_t parts, hn_buf buffer,
                        const hn_expr *strides) {
    hn_expr fresh[HN_MAX_RANK], replacement[HN_MAX_RANK];
    uint32_t total = loop->rank + loop->red_rank, cut = loop->rank;
    fresh[0] = hn_sym_index(s->sym, 0, hn_sym_int(s->sym, parts));
    for (uint32_t d = 0; d < total; d++) {
        hn_expr extent = hn_sym_symbol_extent(s->sym, loop->vars[d]);
        if (d == cut) extent = hn_sym_floordiv(s->sym, extent, hn_sym_int(s->sym, parts));
        replacement[d] = fresh[d + 1] = hn_sym_index(s->sym, d + 1, extent);
        if (d == cut)
            replacement[d] = hn_sym_add(s->sym, hn_sym_mul(s->sym, fresh[0], extent), fresh[d + 1]);
    }
    loop_subst(s, loop, loop->vars, replacement, total);
    memcpy(loop->vars, fresh, (total + 1) * sizeof *fresh);
    loop->rank++;
    loop->store.buffer = buffer;
    loop->store.index = hn_sym_int(s->sym, 0);
    for (uint32_t d = 0; d < loop->rank; d++)
        loop->store.index =
            hn_sym_add(s->sym, loop->store.index, hn_sym_mul(s->sym, strides[d], fresh[d]));
}

/* The second stage: the old parallel variables, one reduction over the parts. */
static hn_status second_stage(sched *s, const hn_loop *whole, int64_t parts, hn_buf buffer,
                              const hn_expr *strides, hn_loop *out) {
    hn_dtype dtype = whole->body.items[whole->store.value].dtype;
    hn_expr part = hn_sym_index(s->sym, whole->rank, hn_sym_int(s->sym, parts));
    hn_expr at = hn_sym_mul(s->sym, strides[0], part);
    for (uint32_t d = 0; d < whole->rank; d++)
        at = hn_sym_add(s->sym, at, hn_sym_mul(s->sym, strides[d + 1], whole->vars[d]));
    *out = (hn_loop){.kind = HN_LOOP_REDUCE,
                     .reduce_op = whole->reduce_op,
                     .rank = whole->rank,
                     .red_rank = 1,
                     .store = whole->store};
    memcpy(out->vars, whole->vars, whole->rank * sizeof *whole->vars);
    out->vars[whole->rank] = part;
    out->store.value =
        hn_body_add(s->arena, &out->body,
                    &(hn_sop){.kind = HN_SOP_LOAD, .dtype = dtype, .buffer = buffer, .index = at});
    return out->store.value
               ? NULL
               : HN_ERROR(HN_OUT_OF_MEMORY, "out of memory while splitting a reduction");
}

hn_status loop_split(sched *s, hn_loop *loop, uint32_t origin, hn_loop **out_second) {
    hn_expr strides[HN_MAX_RANK];
    hn_buf buffer;
    *out_second = NULL;
    int64_t parts =
        loop->rank + loop->red_rank < HN_MAX_RANK && loop->red_rank ? parts_of(s, loop) : 0;
    if (!parts || !sched_allows(s, HN_SCHED_SPLIT, origin, 0)) return NULL;
    HN_NEW(s->arena, *out_second, 1);
    HN_TRY(partial_buffer(s, loop, parts, &buffer, strides));
    HN_TRY(second_stage(s, loop, parts, buffer, strides, *out_second));
    first_stage(s, loop, parts, buffer, strides);
    sched_done(s, HN_SCHED_SPLIT);
    return NULL;
}
