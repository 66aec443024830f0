/* scale.c: a product in front of a 1 x 1 convolution (squeeze and excitation) is done while the
 * convolution reads its input.
 *
 *   pointwise: b3 = b1 * b2[channel]        conv(out b5, b1, b4) scale b2
 *   conv(out b5, b3, b4)               ->
 *
 * What is multiplied must be memory, and the scale one number for each channel, or for each image
 * and channel; one that is computed gets a loop of its own. */
#include "sched/calls.h"

#include <string.h>

enum { IMAGE = 0, CHANNEL = 1, DIMS = 5 };

/* A convolution and the loop that makes its input. */
typedef struct scaling {
    calls *c;
    hn_item i, from;
    hn_extern *call;
    const hn_loop *loop;
    call_space space;
    loop_access input; /* where the loop stores it */
    uint32_t owner[HN_MAX_RANK];
} scaling;

static const hn_sop *op_of(const scaling *x, hn_sid v) { return &x->loop->body.items[v]; }

static bool is_value(const scaling *x, hn_expr e, int64_t value) {
    return hn_sym_is_value(x->c->s->sym, e, value);
}

static void input_space(const hn_extern *call, call_space *out) {
    static const uint8_t sizes[DIMS] = {HN_CONV_N, HN_CONV_C, HN_CONV_IN, HN_CONV_IN + 1,
                                        HN_CONV_IN + 2};
    *out = (call_space){.count = DIMS, .offset = call->operands[1].offset_elems};
    for (uint32_t d = 0; d < DIMS; d++) {
        out->extents[d] = call->params[sizes[d]];
        out->strides[d] = call->params[HN_CONV_X + d];
    }
}

/* Whether every position of the kernel is the only one, so that each input is read once for each
 * output channel. */
static bool is_pointwise(const scaling *x) {
    for (uint32_t d = 0; d < 3; d++)
        if (!is_value(x, x->call->params[HN_CONV_KERNEL + d], 1)) return false;
    return true;
}

/* Whether the call reads its input only as that. */
static bool is_input_alone(const hn_extern *call) {
    for (uint32_t k = 2; k < call->operand_count; k++)
        if (call->operands[k].buffer == call->operands[1].buffer) return false;
    return true;
}

/* The product that alone makes what the call alone reads. */
static bool find_product(scaling *x) {
    hn_buf b = x->call->operands[1].buffer;
    const use *u = &x->c->uses[b];
    const hn_buffer *buffer = &x->c->s->p->buffers.items[b];
    if (x->call->operands[5].buffer || !is_pointwise(x) || buffer->kind != HN_BUFFER_TEMP ||
        buffer->dtype != HN_DTYPE_F32)
        return false;
    if (u->readers != 1 || u->writers != 1 || u->writer >= x->i || !is_input_alone(x->call))
        return false;
    const hn_item_info *item = calls_item(x->c, x->from = u->writer);
    if (item->kind != HN_ITEM_LOOP || item->loop->kind != HN_LOOP_POINTWISE ||
        item->loop->store.mode != HN_STORE_SET)
        return false;
    x->loop = item->loop;
    const hn_sop *root = op_of(x, x->loop->store.value);
    if (root->kind != HN_SOP_ELEM || root->op != HN_OP_MUL ||
        !calls_reads_last(x->c, x->loop, x->from))
        return false;
    input_space(x->call, &x->space);
    return loop_access_of(x->c->s, x->loop, x->loop->store.index, &x->input);
}

/* The ops that make `v`. */
static void mark(const scaling *x, hn_sid v, bool *used) {
    used[v] = true;
    for (hn_sid k = v + 1; --k > 0;)
        for (uint32_t a = 0; a < 3 && used[k]; a++) used[op_of(x, k)->args[a]] = true;
}

/* Whether an index is the same at every place of an image. */
static bool is_of_channels(const scaling *x, hn_expr index) {
    for (uint32_t d = 0; d < x->loop->rank; d++)
        if (x->owner[d] != IMAGE && x->owner[d] != CHANNEL &&
            hn_sym_uses(x->c->s->sym, index, x->loop->vars[d]))
            return false;
    return true;
}

static bool is_scale(const scaling *x, const bool *used, hn_sid v) {
    for (hn_sid k = 1; k <= v; k++) {
        const hn_sop *op = op_of(x, k);
        if (!used[k]) continue;
        if (op->kind == HN_SOP_INDIRECT || op->kind == HN_SOP_RANDOM ||
            (op->index && !is_of_channels(x, op->index)))
            return false;
    }
    return true;
}

/* A copy of the ops that make `v`. */
static hn_status copy_ops(const scaling *x, const bool *used, hn_sid v, hn_body *out,
                          hn_sid *out_value) {
    sched *s = x->c->s;
    hn_sid *map;
    HN_NEW(s->scratch, map, x->loop->body.count);
    for (hn_sid k = 1; k <= v; k++) {
        hn_sop op = *op_of(x, k);
        if (!used[k]) continue;
        for (uint32_t a = 0; a < 3; a++) op.args[a] = op.args[a] ? map[op.args[a]] : 0;
        map[k] = hn_body_add(s->arena, out, &op);
        if (!map[k])
            return HN_ERROR(HN_OUT_OF_MEMORY, "out of memory for the scale of a convolution");
    }
    *out_value = map[v];
    return NULL;
}

static hn_status new_buffer(const scaling *x, hn_loop *loop) {
    sched *s = x->c->s;
    hn_expr *sizes, *strides;
    HN_NEW(s->arena, sizes, loop->rank);
    HN_NEW(s->arena, strides, loop->rank);
    for (uint32_t d = 0; d < loop->rank; d++)
        sizes[d] = hn_sym_symbol_extent(s->sym, loop->vars[d]);
    hn_contiguous_strides(s->sym, sizes, loop->rank, strides);
    loop->store.index = hn_sym_int(s->sym, 0);
    for (uint32_t d = 0; d < loop->rank; d++)
        loop->store.index =
            hn_sym_add(s->sym, loop->store.index, hn_sym_mul(s->sym, loop->vars[d], strides[d]));
    return hn_program_add_buffer(s->p,
                                 (hn_buffer){.kind = HN_BUFFER_TEMP,
                                             .dtype = HN_DTYPE_F32,
                                             .rank = loop->rank,
                                             .sizes = sizes,
                                             .strides = strides,
                                             .extent = hn_sym_product(s->sym, sizes, loop->rank)},
                                 &loop->store.buffer);
}

/* A loop over images and channels that makes the scale. */
static hn_status new_loop(const scaling *x, const bool *used, hn_sid v, hn_loop **out) {
    hn_loop *loop;
    HN_NEW(x->c->s->arena, loop, 1);
    loop->kind = HN_LOOP_POINTWISE;
    for (uint32_t d = 0; d < x->loop->rank; d++)
        if (x->owner[d] == IMAGE || x->owner[d] == CHANNEL)
            loop->vars[loop->rank++] = x->loop->vars[d];
    HN_TRY(copy_ops(x, used, v, &loop->body, &loop->store.value));
    *out = loop;
    return new_buffer(x, loop);
}

/* Memory of `index` by the dimensions of the convolution's input. */
static bool side_of(const scaling *x, hn_buf buffer, hn_expr index, call_side *out) {
    loop_access what;
    *out = (call_side){.buffer = buffer};
    if (!loop_access_of(x->c->s, x->loop, index, &what)) return false;
    out->offset = what.rest;
    return loop_strides_of(x->c->s, &x->space, x->loop, &x->input, &what, out->strides, NULL);
}

static bool is_load(const hn_sop *op) {
    return op->kind == HN_SOP_LOAD && op->dtype == HN_DTYPE_F32;
}

/* Whether `side` has an element for each input, and none twice. */
static bool is_whole(const scaling *x, const call_side *side) {
    for (uint32_t d = 0; d < DIMS; d++)
        if (is_value(x, side->strides[d], 0) && !is_value(x, x->space.extents[d], 1)) return false;
    return true;
}

static bool scales_channels(const scaling *x, const call_side *side) {
    for (uint32_t d = CHANNEL + 1; d < DIMS; d++)
        if (!is_value(x, side->strides[d], 0)) return false;
    return !is_value(x, side->strides[CHANNEL], 0) || is_value(x, x->space.extents[CHANNEL], 1);
}

/* The product without its loop: the call reads both factors. `made`: the loop that makes the scale,
 * or NULL. */
static void take(scaling *x, const call_side *whole, const call_side *scale, hn_loop *made) {
    hn_extern *call = x->call;
    x->c->uses[call->operands[1].buffer] = (use){0};
    x->c->uses[whole->buffer].readers++;
    x->c->uses[scale->buffer].readers++;
    call->operands[1] =
        (struct hn_extern_operand){.buffer = whole->buffer, .offset_elems = whole->offset};
    call->operands[5] =
        (struct hn_extern_operand){.buffer = scale->buffer, .offset_elems = scale->offset};
    for (uint32_t d = 0; d < DIMS; d++) /* where there is one element, any stride will do */
        if (!is_value(x, x->space.extents[d], 1)) call->params[HN_CONV_X + d] = whole->strides[d];
    memcpy(&call->params[HN_CONV_SCALE], scale->strides, 2 * sizeof *call->params);
    if (made) calls_item(x->c, x->from)->loop = made;
    else x->c->dead[x->from] = true;
}

/* Whether `v` is a scale that the loop computes; its ops are marked. */
static hn_status find_computed(const scaling *x, hn_sid v, bool **out_used, bool *out_found) {
    HN_NEW(x->c->s->scratch, *out_used, x->loop->body.count);
    mark(x, v, *out_used);
    *out_found = op_of(x, v)->dtype == HN_DTYPE_F32 && is_scale(x, *out_used, v);
    return NULL;
}

static hn_status take_side(scaling *x, hn_sid whole, hn_sid scale, bool *out_taken) {
    const uint32_t product = op_of(x, x->loop->store.value)->origin;
    call_side of_whole, of_scale;
    hn_loop *made = NULL;
    if (!is_load(op_of(x, whole)) ||
        !side_of(x, op_of(x, whole)->buffer, op_of(x, whole)->index, &of_whole))
        return NULL;
    if (!is_whole(x, &of_whole)) return NULL;
    if (is_load(op_of(x, scale))) {
        if (!side_of(x, op_of(x, scale)->buffer, op_of(x, scale)->index, &of_scale)) return NULL;
    } else {
        bool *used, found;
        HN_TRY(find_computed(x, scale, &used, &found));
        if (!found) return NULL;
        HN_TRY(new_loop(x, used, scale, &made));
        x->c->uses[made->store.buffer] = (use){.writers = 1, .writer = x->from};
        if (!side_of(x, made->store.buffer, made->store.index, &of_scale)) return NULL;
    }
    *out_taken = scales_channels(x, &of_scale) &&
                 sched_allows(x->c->s, HN_SCHED_SCALE, calls_item(x->c, x->i)->origin,
                              calls_item(x->c, x->from)->origin);
    if (!*out_taken) return NULL;
    sched_done(x->c->s, HN_SCHED_SCALE);
    take(x, &of_whole, &of_scale, made);
    return hn_origins_add(x->c->s->arena, &x->call->origins, product);
}

hn_status calls_take_scale(calls *c, hn_item i) {
    scaling x = {.c = c, .i = i, .call = calls_item(c, i)->ext};
    hn_expr ignored[CALL_DIMS_MAX];
    bool taken = false;
    if (x.call->kind != HN_EXTERN_CONV || !find_product(&x)) return NULL;
    if (!loop_strides_of(c->s, &x.space, x.loop, &x.input, &x.input, ignored, x.owner)) return NULL;
    const hn_sop *product = op_of(&x, x.loop->store.value);
    HN_TRY(take_side(&x, product->args[0], product->args[1], &taken));
    return taken ? NULL : take_side(&x, product->args[1], product->args[0], &taken);
}
