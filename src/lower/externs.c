/* externs.c: contractions, convolutions, attention and sort become calls of the runtime
 * (henry/abi/extern_abi.h). Operands are memory seen through strides, so transposes and slices cost
 * nothing. */
#include "lower/internal.h"

#include <string.h>

static const hn_value_info *info(lower *l, hn_value v) { return hn_graph_value(l->g, v); }

static struct hn_extern_operand operand(lower *l, hn_value v, bool written) {
    if (!v) return (struct hn_extern_operand){0};
    return (struct hn_extern_operand){
        .buffer = l->values[v].buffer, .offset_elems = l->values[v].offset, .written = written};
}

static void fill(lower *l, hn_extern *e, uint32_t param_count) {
    e->param_count = param_count;
    for (uint32_t k = 0; k < param_count; k++) e->params[k] = l->zero;
}

static hn_status add_call(lower *l, hn_extern *call) {
    hn_item item;
    HN_TRY(lower_call_loops(l, call));
    return hn_program_add_extern(l->p, call, l->origin, &item);
}

/* The memory of an operand, which may be other than the value's own. */
static struct hn_extern_operand place_operand(lower *l, const lower_place *p, hn_value v) {
    if (!p->buffer) return operand(l, v, false);
    return (struct hn_extern_operand){.buffer = p->buffer, .offset_elems = l->zero};
}

/* Whether memory is a parameter's or a constant's. */
static bool is_weight(lower *l, hn_buf b) {
    if (!b || l->p->buffers.items[b].kind != HN_BUFFER_INPUT) return false;
    hn_input_kind kind = l->root->inputs.items[l->p->buffers.items[b].input].kind;
    return kind == HN_INPUT_PARAMETER || kind == HN_INPUT_BUFFER || kind == HN_INPUT_CONSTANT;
}

/* Writes HN_EXTERN_BATCH leading sizes (when sizes is not NULL) of a value whose last `keep` dims
 * are the operation's own. */
static void put_batch(lower *l, const hn_value_info *vi, const hn_expr *source, uint32_t keep,
                      hn_expr pad, hn_expr *out) {
    uint32_t batch = vi->rank - keep;
    for (uint32_t k = 0; k < HN_EXTERN_BATCH; k++) {
        uint32_t skip = HN_EXTERN_BATCH - batch;
        out[k] = k < skip ? pad : source[k - skip];
    }
    (void)l;
}

/* The strides of the memory of `v`. */
static void put_strides(lower *l, hn_value v, const hn_expr *strides, hn_expr *out) {
    const hn_value_info *vi = info(l, v);
    put_batch(l, vi, strides, 2, l->zero, out);
    memcpy(&out[HN_EXTERN_BATCH], &strides[vi->rank - 2], 2 * sizeof *out);
}

/* Strides of a bias that broadcasts to the result's shape. */
static void put_bias(lower *l, hn_value bias, uint32_t out_rank, hn_expr *out) {
    const hn_value_info *bi = info(l, bias);
    for (uint32_t d = 0; d < bi->rank; d++) {
        uint32_t from_last = bi->rank - 1 - d;
        hn_expr stride =
            hn_sym_is_value(l->sym, bi->sizes[d], 1) ? l->zero : l->values[bias].strides[d];
        if (from_last < out_rank) out[HN_EXTERN_BATCH + 1 - from_last] = stride;
    }
}

hn_status lower_matmul(lower *l, const hn_node_info *n) {
    hn_value a = n->args[0].as.value, b = n->args[1].as.value;
    hn_value bias = n->args[2].kind == HN_ARG_VALUE ? n->args[2].as.value : 0;
    hn_value v = n->results[0];
    const hn_value_info *out = info(l, v);
    lower_product product;
    bool is_joined;
    HN_TRY(lower_join_products(l, n, &is_joined));
    if (is_joined) return NULL;
    if (out->rank > 2 + HN_EXTERN_BATCH)
        return HN_ERROR(HN_UNSUPPORTED, "matmul of rank %u has more than %d batch dimensions",
                        out->rank, HN_EXTERN_BATCH);
    HN_TRY(lower_product_memory(l, n, &product));
    hn_extern e = {.kind = HN_EXTERN_MATMUL,
                   .operand_count = 5,
                   .operands = {operand(l, v, true), place_operand(l, &product.a, a),
                                place_operand(l, &product.b, b),
                                place_operand(l, &product.bias, bias)}};
    fill(l, &e, HN_MATMUL_PARAM_COUNT);
    put_batch(l, out, out->sizes, 2, l->one, &e.params[HN_MATMUL_BATCH]);
    e.params[HN_MATMUL_M] = out->sizes[out->rank - 2];
    e.params[HN_MATMUL_N] = out->sizes[out->rank - 1];
    e.params[HN_MATMUL_K] = info(l, a)->sizes[out->rank - 1];
    put_strides(l, a, product.a.strides, &e.params[HN_MATMUL_A]);
    put_strides(l, b, product.b.strides, &e.params[HN_MATMUL_B]);
    put_strides(l, v, l->values[v].strides, &e.params[HN_MATMUL_OUT]);
    if (bias) put_bias(l, bias, out->rank, &e.params[HN_MATMUL_BIAS]);
    if (is_weight(l, e.operands[2].buffer)) e.params[HN_MATMUL_B_CONSTANT] = l->one;
    HN_TRY(lower_product_split(l, &e, &product));
    return add_call(l, &e);
}

hn_status lower_grouped_matmul(lower *l, const hn_node_info *n) {
    hn_value a = n->args[0].as.value, b = n->args[1].as.value, ends = n->args[2].as.value,
             v = n->results[0];
    const hn_value_info *bi = info(l, b), *out = info(l, v);
    hn_expr row_major[2];
    HN_TRY(lower_realize(l, a));
    HN_TRY(lower_realize(l, b));
    HN_TRY(lower_realize_contiguous(l, ends));
    hn_contiguous_strides(l->sym, out->sizes, 2, row_major);
    HN_TRY(lower_new_buffer(l, v, row_major)); /* an output in another layout is copied */
    hn_extern e = {.kind = HN_EXTERN_GROUPED_MATMUL,
                   .operand_count = 4,
                   .operands = {operand(l, v, true), operand(l, a, false), operand(l, b, false),
                                operand(l, ends, false)}};
    fill(l, &e, HN_GROUPED_PARAM_COUNT);
    e.params[HN_GROUPED_GROUPS] = bi->sizes[0];
    e.params[HN_GROUPED_M] = out->sizes[0];
    e.params[HN_GROUPED_N] = bi->sizes[2];
    e.params[HN_GROUPED_K] = bi->sizes[1];
    memcpy(&e.params[HN_GROUPED_A], l->values[a].strides, 2 * sizeof *e.params);
    memcpy(&e.params[HN_GROUPED_B], l->values[b].strides, 3 * sizeof *e.params);
    if (is_weight(l, l->values[b].buffer)) e.params[HN_GROUPED_B_CONSTANT] = l->one;
    return add_call(l, &e);
}

/* [lead dims..., spatial...] strides with unused leading spatial ones 0. */
static void put_conv_strides(const hn_expr *strides, uint32_t spatial, hn_expr *out) {
    out[0] = strides[0];
    out[1] = strides[1];
    for (uint32_t s = 0; s < spatial; s++) out[5 - spatial + s] = strides[2 + s];
}

static void put_spatial(lower *l, const hn_expr *source, uint32_t spatial, hn_expr pad,
                        hn_expr *out) {
    (void)l;
    for (uint32_t s = 0; s < 3; s++) out[s] = s + spatial < 3 ? pad : source[s + spatial - 3];
}

void lower_conv_sizes(lower *l, const hn_node_info *n, hn_extern *e) {
    const hn_value_info *xi = info(l, n->args[0].as.value), *wi = info(l, n->args[1].as.value),
                        *out = info(l, n->results[0]);
    uint32_t spatial = xi->rank - 2;
    fill(l, e, HN_CONV_PARAM_COUNT);
    hn_expr *p = e->params;
    p[HN_CONV_N] = xi->sizes[0];
    p[HN_CONV_C] = xi->sizes[1];
    p[HN_CONV_O] = out->sizes[1];
    p[HN_CONV_GROUPS] = n->args[8].as.expr;
    put_spatial(l, xi->sizes + 2, spatial, l->one, &p[HN_CONV_IN]);
    put_spatial(l, wi->sizes + 2, spatial, l->one, &p[HN_CONV_KERNEL]);
    put_spatial(l, out->sizes + 2, spatial, l->one, &p[HN_CONV_OUTSIZE]);
    put_spatial(l, n->args[3].as.exprs, spatial, l->one, &p[HN_CONV_STRIDE]);
    put_spatial(l, n->args[4].as.exprs, spatial, l->zero, &p[HN_CONV_PADDING]);
    put_spatial(l, n->args[5].as.exprs, spatial, l->one, &p[HN_CONV_DILATION]);
    p[HN_CONV_TRANSPOSED] = n->args[6].as.b ? l->one : l->zero;
}

/* Memory of x and w: as they are, or with more channels. */
static hn_status conv_operands(lower *l, const hn_node_info *n, lower_place *x, lower_place *w) {
    const hn_value of_x = n->args[0].as.value, of_w = n->args[1].as.value;
    const bool last = l->channels_last && l->channels_last[n->results[0]];
    HN_TRY(lower_add_channels(l, n, x, w));
    if (x->buffer) return NULL;
    HN_TRY(last ? lower_realize_last(l, of_x) : lower_realize(l, of_x));
    HN_TRY(last ? lower_realize_last(l, of_w) : lower_realize(l, of_w));
    *x = (lower_place){.sizes = info(l, of_x)->sizes, .strides = l->values[of_x].strides};
    *w = (lower_place){.sizes = info(l, of_w)->sizes, .strides = l->values[of_w].strides};
    return NULL;
}

/* Memory of the bias and the result. */
static hn_status conv_result(lower *l, hn_value bias, hn_value v) {
    const bool last = l->channels_last && l->channels_last[v];
    hn_expr strides[HN_MAX_RANK];
    if (bias) HN_TRY(lower_realize_contiguous(l, bias));
    lower_default_strides(l, v, strides);
    return lower_new_buffer(l, v, last ? strides : NULL); /* an output is copied then */
}

hn_status lower_conv(lower *l, const hn_node_info *n) {
    hn_value x = n->args[0].as.value, w = n->args[1].as.value, v = n->results[0];
    hn_value bias = n->args[2].kind == HN_ARG_VALUE ? n->args[2].as.value : 0;
    uint32_t spatial = info(l, x)->rank - 2;
    lower_place of_x, of_w;
    HN_TRY(conv_operands(l, n, &of_x, &of_w));
    HN_TRY(conv_result(l, bias, v));
    hn_extern e = {.kind = HN_EXTERN_CONV,
                   .operand_count = 6,
                   .operands = {operand(l, v, true), place_operand(l, &of_x, x),
                                place_operand(l, &of_w, w), operand(l, bias, false)}};
    lower_conv_sizes(l, n, &e);
    hn_expr *p = e.params;
    p[HN_CONV_C] = of_x.sizes[1];
    put_conv_strides(of_x.strides, spatial, &p[HN_CONV_X]);
    put_conv_strides(of_w.strides, spatial, &p[HN_CONV_W]);
    put_conv_strides(l->values[v].strides, spatial, &p[HN_CONV_OUT]);
    if (of_w.buffer || is_weight(l, l->values[w].buffer)) p[HN_CONV_W_CONSTANT] = l->one;
    return add_call(l, &e);
}

/* The [batch, head, row, column] strides of a rank 3 or 4 value; sizes of 1 that must repeat get
 * stride 0. */
static void put_attention(lower *l, hn_value v, bool broadcast, hn_expr *out) {
    const hn_value_info *vi = info(l, v);
    for (uint32_t k = 0; k < 4; k++) {
        uint32_t skip = 4 - vi->rank;
        if (k < skip) continue;
        bool repeat = broadcast && hn_sym_is_value(l->sym, vi->sizes[k - skip], 1);
        out[k] = repeat ? l->zero : l->values[v].strides[k - skip];
    }
}

/* Memory order [batch, row, head, column]: what follows attention merges heads and columns, then
 * for free. */
static hn_status attention_out(lower *l, hn_value v) {
    const hn_value_info *vi = info(l, v);
    if (vi->rank != 4 || l->output[v]) return lower_new_buffer(l, v, NULL);
    hn_expr order[4] = {vi->sizes[0], vi->sizes[2], vi->sizes[1], vi->sizes[3]}, s[4];
    hn_contiguous_strides(l->sym, order, 4, s);
    return lower_new_buffer(l, v, (hn_expr[]){s[0], s[2], s[1], s[3]});
}

static void put_attention_sizes(lower *l, const hn_value_info *q, const hn_value_info *k,
                                const hn_value_info *v, hn_expr *p) {
    const uint32_t r = q->rank;
    p[HN_ATTENTION_BATCH] = r > 3 ? q->sizes[0] : l->one;
    p[HN_ATTENTION_BATCH + 1] = r > 2 ? q->sizes[r - 3] : l->one;
    p[HN_ATTENTION_KV_HEADS] = r > 2 ? k->sizes[r - 3] : l->one;
    p[HN_ATTENTION_M] = q->sizes[r - 2];
    p[HN_ATTENTION_N] = k->sizes[r - 2];
    p[HN_ATTENTION_D] = q->sizes[r - 1];
    p[HN_ATTENTION_DV] = v->sizes[r - 1];
}

static hn_expr bits_of(lower *l, double number) {
    int64_t bits;
    memcpy(&bits, &number, sizeof bits);
    return hn_sym_int(l->sym, bits);
}

hn_status lower_attention(lower *l, const hn_node_info *n) {
    hn_value q = n->args[0].as.value, k = n->args[1].as.value, v = n->args[2].as.value,
             out = n->results[0];
    hn_value mask = n->args[3].kind == HN_ARG_VALUE ? n->args[3].as.value : 0;
    const hn_value_info *qi = info(l, q), *ki = info(l, k), *vi = info(l, v);
    if (qi->rank > 4 || qi->rank < 2)
        return HN_ERROR(HN_UNSUPPORTED, "attention of rank %u; it must be 2, 3 or 4", qi->rank);
    HN_TRY(lower_realize(l, q));
    HN_TRY(lower_realize(l, k));
    HN_TRY(lower_realize(l, v));
    if (mask) HN_TRY(lower_realize(l, mask));
    HN_TRY(attention_out(l, out));
    hn_extern e = {.kind = HN_EXTERN_ATTENTION,
                   .operand_count = 5,
                   .operands = {operand(l, out, true), operand(l, q, false), operand(l, k, false),
                                operand(l, v, false), operand(l, mask, false)}};
    fill(l, &e, HN_ATTENTION_PARAM_COUNT);
    hn_expr *p = e.params;
    put_attention_sizes(l, qi, ki, vi, p);
    put_attention(l, q, false, &p[HN_ATTENTION_Q]);
    put_attention(l, k, false, &p[HN_ATTENTION_K]);
    put_attention(l, v, false, &p[HN_ATTENTION_V]);
    put_attention(l, out, false, &p[HN_ATTENTION_OUT]);
    if (mask) put_attention(l, mask, true, &p[HN_ATTENTION_MASK]);
    p[HN_ATTENTION_CAUSAL] = n->args[5].as.b ? l->one : l->zero;
    p[HN_ATTENTION_SCALE] = bits_of(l, n->args[4].as.f);
    return add_call(l, &e);
}

/* Decompositions write the op for targets that have it, only. */
hn_status lower_attention_backward(lower *l, const hn_node_info *n) {
    enum { GRAD, Q, K, V, OUT, MASK, SCALE, CAUSAL, OPERANDS = 6, RESULTS = 3 };
    static const uint8_t strides[OPERANDS] = {
        HN_ATTENTION_BACKWARD_GRAD, HN_ATTENTION_BACKWARD_Q,   HN_ATTENTION_BACKWARD_K,
        HN_ATTENTION_BACKWARD_V,    HN_ATTENTION_BACKWARD_OUT, HN_ATTENTION_BACKWARD_MASK};
    hn_extern e = {.kind = HN_EXTERN_ATTENTION_BACKWARD, .operand_count = RESULTS + OPERANDS};
    hn_value values[OPERANDS];
    for (uint32_t k = 0; k < OPERANDS; k++) {
        values[k] = n->args[k].kind == HN_ARG_VALUE ? n->args[k].as.value : 0;
        if (values[k]) HN_TRY(lower_realize(l, values[k]));
        e.operands[RESULTS + k] = operand(l, values[k], false);
    }
    if (info(l, values[Q])->rank > 4)
        return HN_ERROR(HN_UNSUPPORTED, "gradients of attention of rank %u; it must be 3 or 4",
                        info(l, values[Q])->rank);
    for (uint32_t k = 0; k < RESULTS; k++) {
        HN_TRY(attention_out(l, n->results[k]));
        e.operands[k] = operand(l, n->results[k], true);
    }
    fill(l, &e, HN_ATTENTION_BACKWARD_PARAM_COUNT);
    put_attention_sizes(l, info(l, values[Q]), info(l, values[K]), info(l, values[V]), e.params);
    for (uint32_t k = 0; k < OPERANDS; k++)
        if (values[k]) put_attention(l, values[k], k == MASK, &e.params[strides[k]]);
    for (uint32_t k = 0; k < RESULTS; k++)
        put_attention(l, n->results[k], false, &e.params[HN_ATTENTION_BACKWARD_D_Q + 4 * k]);
    e.params[HN_ATTENTION_BACKWARD_CAUSAL] = n->args[CAUSAL].as.b ? l->one : l->zero;
    e.params[HN_ATTENTION_BACKWARD_SCALE] = bits_of(l, n->args[SCALE].as.f);
    if (l->operations && !hn_operation_of(l->operations, l->p, &e))
        return HN_ERROR(HN_UNSUPPORTED, "the target has no gradients of attention in one piece");
    return add_call(l, &e);
}

hn_status lower_sort(lower *l, const hn_node_info *n) {
    bool topk = n->op == HN_OP_TOPK;
    hn_value x = n->args[0].as.value;
    const hn_value_info *xi = info(l, x);
    uint32_t dim = xi->rank ? (uint32_t)lower_int(l, &n->args[topk ? 2 : 1]) : 0;
    HN_TRY(lower_realize_contiguous(l, x));
    HN_TRY(lower_new_buffer(l, n->results[0], NULL));
    HN_TRY(lower_new_buffer(l, n->results[1], NULL));
    hn_extern e = {.kind = topk ? HN_EXTERN_TOPK : HN_EXTERN_SORT,
                   .operand_count = 3,
                   .operands = {operand(l, n->results[0], true), operand(l, n->results[1], true),
                                operand(l, x, false)}};
    fill(l, &e, HN_SORT_PARAM_COUNT);
    e.params[HN_SORT_OUTER] = hn_sym_product(l->sym, xi->sizes, dim);
    e.params[HN_SORT_N] = xi->rank ? xi->sizes[dim] : l->one;
    e.params[HN_SORT_INNER] =
        xi->rank ? hn_sym_product(l->sym, xi->sizes + dim + 1, xi->rank - dim - 1) : l->one;
    e.params[HN_SORT_K] = topk ? n->args[1].as.expr : e.params[HN_SORT_N];
    bool descending = n->args[topk ? 3 : 2].as.b;
    e.params[HN_SORT_DESCENDING] = descending ? l->one : l->zero;
    e.params[HN_SORT_STABLE] = l->one;
    return add_call(l, &e);
}

hn_status lower_nms(lower *l, const hn_node_info *n) {
    hn_value boxes = n->args[0].as.value, v = n->results[0];
    HN_TRY(lower_realize_contiguous(l, boxes));
    HN_TRY(lower_new_buffer(l, v, &l->one)); /* one stride */
    hn_extern e = {.kind = HN_EXTERN_NMS,
                   .operand_count = 2,
                   .operands = {operand(l, v, true), operand(l, boxes, false)}};
    fill(l, &e, HN_NMS_PARAM_COUNT);
    int64_t bits;
    memcpy(&bits, &n->args[1].as.f, sizeof bits);
    e.params[HN_NMS_N] = info(l, v)->sizes[0];
    e.params[HN_NMS_THRESHOLD] = hn_sym_int(l->sym, bits);
    return add_call(l, &e);
}
