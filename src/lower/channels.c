/* channels.c: convolutions of few channels, such as those of an image, for targets that want a
 * number of channels which is a multiple (hn_operation.channel_bytes): more channels are added,
 * with zeros in them and in the weight. The input is copied to have its channels last in any case.
 *
 *   conv(out b3, b1 [8, 3, 224, 224], w [64, 3, 7, 7])
 *     ->   pointwise: b4 [8, 8, 224, 224] = b1, or 0 from channel 3 on
 *          conv(out b3, b4, w' [64, 8, 7, 7])
 *
 * Requires that the bytes of the weight are known: those with more channels are a constant of the
 * program. */
#include "lower/internal.h"

#include <string.h>

static const hn_value_info *info(const lower *l, hn_value v) { return hn_graph_value(l->g, v); }

/* From so many channels on, more of them are mostly work for nothing. */
enum { FEW = 8 };

/* The number of channels to have; 0: those that there are. */
static int64_t wanted_channels(const lower *l, const hn_node_info *n) {
    const hn_value_info *xi = info(l, n->args[0].as.value);
    const hn_operation *o = l->operations ? &l->operations->of[HN_EXTERN_CONV] : NULL;
    const bool last = l->channels_last && l->channels_last[n->results[0]];
    int64_t channels;
    if (!last || !(o->dtypes >> xi->dtype & 1) || !o->channel_bytes || n->args[6].as.b ||
        !hn_sym_is_value(l->sym, n->args[8].as.expr, 1) ||
        !hn_sym_is_int(l->sym, xi->sizes[1], &channels) || channels < 1 || channels >= FEW)
        return 0;
    const int64_t unit = o->channel_bytes / (int64_t)hn_dtype_facts(xi->dtype)->size_bytes;
    return channels % unit ? (channels + unit - 1) / unit * unit : 0;
}

/* Sizes with so many channels, and strides with these last. */
static hn_status make_shape(lower *l, hn_value v, int64_t channels, lower_place *out) {
    const hn_value_info *vi = info(l, v);
    hn_expr *sizes, *strides, ordered[HN_MAX_RANK], steps[HN_MAX_RANK];
    uint32_t order[HN_MAX_RANK];
    HN_NEW(l->arena, sizes, vi->rank);
    HN_NEW(l->arena, strides, vi->rank);
    memcpy(sizes, vi->sizes, vi->rank * sizeof *sizes);
    sizes[1] = hn_sym_int(l->sym, channels);
    lower_order(vi->rank, true, order);
    for (uint32_t k = 0; k < vi->rank; k++) ordered[k] = sizes[order[k]];
    hn_contiguous_strides(l->sym, ordered, vi->rank, steps);
    for (uint32_t k = 0; k < vi->rank; k++) strides[order[k]] = steps[k];
    *out = (lower_place){.sizes = sizes, .strides = strides};
    return NULL;
}

static hn_sid elem(lower_body *b, hn_op op, hn_dtype dtype, hn_sid x, hn_sid y, hn_sid z) {
    return lower_gen_sop(
        b, (hn_sop){.kind = HN_SOP_ELEM, .op = op, .dtype = dtype, .args = {x, y, z}});
}

/* x at `at`, whose channels may be more than x has. */
static hn_sid gen_channel(lower_body *b, hn_value x, const hn_expr *at) {
    lower *l = b->l;
    const hn_value_info *xi = info(l, x);
    const hn_expr last = hn_sym_sub(l->sym, xi->sizes[1], l->one);
    hn_expr inside[HN_MAX_RANK];
    memcpy(inside, at, xi->rank * sizeof *inside);
    inside[1] = hn_sym_min(l->sym, at[1], last);
    const hn_sid channel =
        lower_gen_sop(b, (hn_sop){.kind = HN_SOP_INDEX, .dtype = HN_DTYPE_I64, .index = at[1]});
    const hn_sid most =
        lower_gen_sop(b, (hn_sop){.kind = HN_SOP_INDEX, .dtype = HN_DTYPE_I64, .index = last});
    const hn_sid is_there = elem(b, HN_OP_LE, HN_DTYPE_BOOL, channel, most, 0),
                 value = lower_gen(b, x, inside),
                 none = lower_gen_sop(b, (hn_sop){.kind = HN_SOP_CONST, .dtype = xi->dtype});
    return elem(b, HN_OP_WHERE, xi->dtype, is_there, value, none);
}

static hn_status copy_input(lower *l, hn_value x, lower_place *to) {
    const hn_value_info *xi = info(l, x);
    hn_loop loop = {.kind = HN_LOOP_POINTWISE, .rank = xi->rank};
    hn_buffer buffer = {.kind = HN_BUFFER_TEMP,
                        .dtype = xi->dtype,
                        .rank = xi->rank,
                        .sizes = to->sizes,
                        .strides = to->strides,
                        .extent = hn_strided_extent(l->sym, to->sizes, to->strides, xi->rank)};
    hn_expr extents[HN_MAX_RANK], at[HN_MAX_RANK];
    uint32_t order[HN_MAX_RANK];
    lower_body b;
    hn_item item;
    HN_TRY(hn_program_add_buffer(l->p, buffer, &to->buffer));
    lower_order(xi->rank, true, order);
    for (uint32_t k = 0; k < xi->rank; k++) extents[k] = to->sizes[order[k]];
    lower_loop_vars(l, &loop, extents, xi->rank);
    for (uint32_t k = 0; k < xi->rank; k++) at[order[k]] = loop.vars[k];
    lower_body_init(&b, l);
    const hn_sid value = gen_channel(&b, x, at);
    if (b.failed) return b.failed;
    loop.body = b.body;
    loop.store =
        (hn_loop_store){.buffer = to->buffer,
                        .value = value,
                        .index = lower_index_linear(l, l->zero, at, to->strides, xi->rank)};
    return hn_program_add_loop(l->p, &loop, l->origin, &item);
}

static hn_status copy_weight(lower *l, hn_value w, lower_place *to) {
    const hn_value_info *wi = info(l, w);
    static const int64_t begin = 0;
    return lower_join_weights(l,
                              &(lower_joint){.dtype = wi->dtype,
                                             .rank = wi->rank,
                                             .count = 1,
                                             .sizes = to->sizes,
                                             .strides = to->strides,
                                             .parts = &w,
                                             .offsets = &begin},
                              &to->buffer);
}

hn_status lower_add_channels(lower *l, const hn_node_info *n, lower_place *out_x,
                             lower_place *out_w) {
    const hn_value x = n->args[0].as.value, w = n->args[1].as.value;
    const int64_t channels = wanted_channels(l, n);
    *out_x = *out_w = (lower_place){0};
    if (!channels || !l->values[w].buffer) return NULL;
    HN_TRY(make_shape(l, w, channels, out_w));
    if (!lower_can_relay_weight(l, w, out_w->strides)) return NULL;
    HN_TRY(copy_weight(l, w, out_w));
    if (!out_w->buffer) return NULL;
    HN_TRY(make_shape(l, x, channels, out_x));
    return copy_input(l, x, out_x);
}
