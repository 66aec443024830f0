/* longer.c: memory that is longer than its value along one dimension, with zeros at the end. It is
 * for operations that want multiples: of channels in convolutions (channels.c), of the length of
 * sums in products (rows.c).
 *
 *   b1 [333, 1023]   ->   pointwise: b4 [333, 1024] = b1, or 0 from column 1023 on */
#include "lower/internal.h"

#include <string.h>

static const hn_value_info *info(const lower *l, hn_value v) { return hn_graph_value(l->g, v); }

/* The dimensions from the outermost in memory to the innermost. */
static void order_along(uint32_t rank, uint32_t along, uint32_t *out) {
    uint32_t count = 0;
    for (uint32_t d = 0; d < rank; d++)
        if (d != along) out[count++] = d;
    out[count] = along;
}

static void put_shape(const lower *l, hn_value v, const lower_longer *how, hn_expr *sizes,
                      hn_expr *strides) {
    const hn_value_info *vi = info(l, v);
    hn_expr ordered[HN_MAX_RANK], steps[HN_MAX_RANK];
    uint32_t order[HN_MAX_RANK];
    memcpy(sizes, vi->sizes, vi->rank * sizeof *sizes);
    sizes[how->dim] = hn_sym_int(l->sym, how->size);
    sizes[how->along] = hn_sym_int(l->sym, how->row);
    order_along(vi->rank, how->along, order);
    for (uint32_t k = 0; k < vi->rank; k++) ordered[k] = sizes[order[k]];
    hn_contiguous_strides(l->sym, ordered, vi->rank, steps);
    for (uint32_t k = 0; k < vi->rank; k++) strides[order[k]] = steps[k];
}

hn_status lower_longer_shape(lower *l, hn_value v, const lower_longer *how, lower_place *out) {
    hn_expr *sizes, *strides;
    HN_NEW(l->arena, sizes, info(l, v)->rank);
    HN_NEW(l->arena, strides, info(l, v)->rank);
    put_shape(l, v, how, sizes, strides);
    *out = (lower_place){.sizes = sizes, .strides = strides};
    return NULL;
}

static hn_sid elem(lower_body *b, hn_op op, hn_dtype dtype, hn_sid x, hn_sid y, hn_sid z) {
    return lower_gen_sop(
        b, (hn_sop){.kind = HN_SOP_ELEM, .op = op, .dtype = dtype, .args = {x, y, z}});
}

/* v at `at`, or 0 where it has no such element along `dim`. */
static hn_sid gen_longer(lower_body *b, hn_value v, uint32_t dim, const hn_expr *at) {
    lower *l = b->l;
    const hn_value_info *vi = info(l, v);
    const hn_expr last = hn_sym_sub(l->sym, vi->sizes[dim], l->one);
    hn_expr inside[HN_MAX_RANK];
    if (hn_sym_prove_le(l->sym, at[dim], last)) return lower_gen(b, v, at);
    memcpy(inside, at, vi->rank * sizeof *inside);
    inside[dim] = hn_sym_min(l->sym, at[dim], last);
    const hn_sid place =
        lower_gen_sop(b, (hn_sop){.kind = HN_SOP_INDEX, .dtype = HN_DTYPE_I64, .index = at[dim]});
    const hn_sid most =
        lower_gen_sop(b, (hn_sop){.kind = HN_SOP_INDEX, .dtype = HN_DTYPE_I64, .index = last});
    const hn_sid is_there = elem(b, HN_OP_LE, HN_DTYPE_BOOL, place, most, 0),
                 value = lower_gen(b, v, inside),
                 none = lower_gen_sop(b, (hn_sop){.kind = HN_SOP_CONST, .dtype = vi->dtype});
    return elem(b, HN_OP_WHERE, vi->dtype, is_there, value, none);
}

hn_status lower_copy_longer(lower *l, hn_value v, const lower_longer *how, lower_place *out) {
    const hn_value_info *vi = info(l, v);
    hn_loop loop = {.kind = HN_LOOP_POINTWISE, .rank = vi->rank};
    hn_expr extents[HN_MAX_RANK], at[HN_MAX_RANK];
    uint32_t order[HN_MAX_RANK];
    lower_body b;
    hn_item item;
    HN_TRY(lower_longer_shape(l, v, how, out));
    hn_buffer buffer = {.kind = HN_BUFFER_TEMP,
                        .dtype = vi->dtype,
                        .rank = vi->rank,
                        .sizes = out->sizes,
                        .strides = out->strides,
                        .extent = hn_strided_extent(l->sym, out->sizes, out->strides, vi->rank)};
    HN_TRY(hn_program_add_buffer(l->p, buffer, &out->buffer));
    order_along(vi->rank, how->along, order);
    for (uint32_t k = 0; k < vi->rank; k++)
        extents[k] = order[k] == how->dim ? out->sizes[how->dim] : vi->sizes[order[k]];
    lower_loop_vars(l, &loop, extents, vi->rank);
    for (uint32_t k = 0; k < vi->rank; k++) at[order[k]] = loop.vars[k];
    lower_body_init(&b, l);
    const hn_sid value = gen_longer(&b, v, how->dim, at);
    if (b.failed) return b.failed;
    loop.body = b.body;
    loop.store =
        (hn_loop_store){.buffer = out->buffer,
                        .value = value,
                        .index = lower_index_linear(l, l->zero, at, out->strides, vi->rank)};
    return hn_program_add_loop(l->p, &loop, l->origin, &item);
}

hn_status lower_end_rows(lower *l, hn_value v, int64_t row) {
    const hn_value_info *vi = info(l, v);
    const uint32_t last = vi->rank - 1;
    const hn_expr begin = vi->sizes[last];
    lower_value *lv = &l->values[v];
    hn_buffer *buffer = &l->p->buffers.items[lv->buffer];
    hn_loop loop = {.kind = HN_LOOP_POINTWISE, .rank = vi->rank};
    hn_expr extents[HN_MAX_RANK], at[HN_MAX_RANK];
    lower_body b;
    hn_item item;
    memcpy(extents, vi->sizes, vi->rank * sizeof *extents);
    extents[last] = hn_sym_int(l->sym, row);
    buffer->extent = hn_strided_extent(l->sym, extents, lv->strides, vi->rank);
    extents[last] = hn_sym_sub(l->sym, extents[last], begin);
    lower_loop_vars(l, &loop, extents, vi->rank);
    memcpy(at, loop.vars, vi->rank * sizeof *at);
    at[last] = hn_sym_add(l->sym, begin, at[last]);
    lower_body_init(&b, l);
    const hn_sid none = lower_gen_sop(&b, (hn_sop){.kind = HN_SOP_CONST, .dtype = vi->dtype});
    if (b.failed) return b.failed;
    loop.body = b.body;
    loop.store = lower_store_at(l, v, at, vi->rank, none);
    (void)hn_sym_is_int(l->sym, extents[last], &lv->zeros);
    return hn_program_add_loop(l->p, &loop, l->origin, &item);
}

bool lower_can_be_longer(const lower *l, hn_value w, const lower_longer *how) {
    hn_expr sizes[HN_MAX_RANK], strides[HN_MAX_RANK];
    put_shape(l, w, how, sizes, strides);
    return l->values[w].buffer && lower_can_relay_weight(l, w, strides);
}

hn_status lower_weight_longer(lower *l, hn_value w, const lower_longer *how, lower_place *out) {
    const hn_value_info *wi = info(l, w);
    static const int64_t begin = 0;
    HN_TRY(lower_longer_shape(l, w, how, out));
    if (!lower_can_be_longer(l, w, how)) return NULL;
    return lower_join_weights(l,
                              &(lower_joint){.dtype = wi->dtype,
                                             .rank = wi->rank,
                                             .count = 1,
                                             .sizes = out->sizes,
                                             .strides = out->strides,
                                             .parts = &w,
                                             .offsets = &begin},
                              &out->buffer);
}
