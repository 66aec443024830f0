/* conv.c: factors and summands for each channel behind a convolution, as batch norm in evaluation
 * leaves them, go into its weight and bias.
 *
 *   add(mul(conv(x, w, b), scale [1,O,1,1]), shift [1,O,1,1])
 *   ->  conv(x, w * scale, b * scale + shift)
 *
 * The new weight is computed now and lies in the program, so scale must come from weights alone;
 * the sum of all new weights is bounded. Large weights stay what they are: the runtime multiplies
 * them when it packs them (sched/epilogue.c), which costs neither a copy in the program nor time to
 * start. There, beyond the bound and behind other ops, scale and shift become tables, so that no
 * call computes them again. Only f32 and f64: a rounded 16-bit weight would not be the same. */
#include "opt/patterns/pattern.h"

#include "base/checked.h"

#include <string.h>

#define MAX_WEIGHT_BYTES   ((size_t)64 << 20)
#define LARGE_WEIGHT_BYTES ((size_t)1 << 20)

/* --- looks --- */

/* Whether `v` broadcasts to a value of `rank` dims along dim 1 alone. */
static bool is_per_channel(const hn_patterns *p, hn_value v, uint32_t rank, hn_expr channels) {
    const hn_value_info *info = hn_info(p, v);
    if (info->rank > rank || info->rank + 1 < rank) return false;
    uint32_t channel = info->rank + 1 - rank; /* 1, or 0 where the batch is left out */
    for (uint32_t k = 0; k < info->rank; k++)
        if (k == channel ? !hn_same_sizes(p->g, &info->sizes[k], &channels, 1)
                         : !hn_size_is(p->g, info->sizes[k], 1))
            return false;
    return true;
}

/* Computed from weights, by more than views of one. */
static bool is_computed_weight(const hn_patterns *p, hn_value v) {
    if (hn_facts_constness(&p->facts, v) == HN_NOT_CONST) return false;
    for (hn_node n; (n = hn_info(p, v)->producer);) {
        const hn_node_info *node = hn_graph_node(p->g, n);
        hn_op_class class = hn_op_facts(node->op)->op_class;
        if (class == HN_OPC_CREATE) return false;
        if (class != HN_OPC_VIEW) return true;
        v = node->args[0].as.value;
    }
    return false;
}

/* The only reader of a convolution, in a dtype that is folded. */
static const hn_node_info *conv_of(const hn_patterns *p, hn_value v) {
    const hn_node_info *conv = hn_made_by(p->g, v, HN_OP_CONV);
    hn_dtype dtype = hn_info(p, v)->dtype;
    return conv && hn_read_once(p, v) && (dtype == HN_DTYPE_F32 || dtype == HN_DTYPE_F64) ? conv
                                                                                          : NULL;
}

static hn_value rebuild_conv(hn_graph *g, const hn_node_info *conv, hn_value w, hn_value bias) {
    hn_conv_params params = {.spatial = conv->args[3].count, .transposed = conv->args[6].as.b};
    for (uint32_t k = 0; k < params.spatial; k++) {
        params.stride[k] = conv->args[3].as.exprs[k];
        params.padding[k] = conv->args[4].as.exprs[k];
        params.dilation[k] = conv->args[5].as.exprs[k];
        params.output_padding[k] = conv->args[7].as.exprs[k];
    }
    if (!hn_sym_is_int(g->sym, conv->args[8].as.expr, &params.groups)) return 0;
    return hn_b_conv(g, conv->args[0].as.value, w, bias, &params);
}

/* --- channels as numbers --- */

/* One number for each of `count` channels. */
static hn_status read_channels(hn_patterns *p, hn_value v, int64_t count, const double **out) {
    hn_ref_tensor t;
    bool done;
    *out = NULL;
    HN_TRY(hn_const_eval_value(&p->eval, v, HN_CONST_WEIGHT, &t, &done));
    if (done && t.numel == count && hn_dtype_is_float(t.dtype)) *out = t.data.f;
    return NULL;
}

static hn_status place_channels(hn_patterns *p, const double *numbers, int64_t count,
                                hn_dtype dtype, hn_value *out) {
    int64_t sizes[1] = {count};
    hn_ref_tensor t;
    hn_expr size = hn_sym_int(p->g->sym, count);
    size_t bytes = (size_t)count * hn_dtype_facts(dtype)->size_bytes;
    uint8_t *data;
    HN_TRY(hn_ref_tensor_init(p->context->scratch, dtype, 1, sizes, &t));
    if (count) memcpy(t.data.f, numbers, (size_t)count * sizeof *numbers);
    HN_NEW(p->context->scratch, data, bytes);
    hn_ref_tensor_store(&t, data);
    *out = hn_graph_add_constant(p->g, dtype, 1, &size, data, bytes);
    return hn_graph_status(p->g);
}

/* --- the weight --- */

typedef struct weight {
    const uint8_t *bytes;
    size_t len;
    int64_t outer, inner; /* dims 0 and 1 of the weight */
    int64_t rest;         /* elements behind them */
    int64_t groups, channels;
    bool transposed;
} weight;

static bool is_row_major(const hn_patterns *p, const hn_value_info *info) {
    int64_t step = 1;
    for (uint32_t k = info->rank; info->strides && k-- > 0;) {
        int64_t size;
        if (!hn_sym_is_int(p->g->sym, info->sizes[k], &size)) return false;
        if (size != 1 && !hn_size_is(p->g, info->strides[k], step)) return false;
        if (!hn_mul_i64(step, size, &step)) return false;
    }
    return true;
}

static bool read_weight(const hn_patterns *p, const hn_node_info *conv, weight *out) {
    hn_value w = conv->args[1].as.value;
    const hn_value_info *info = hn_info(p, w);
    const hn_input *in = hn_facts_stored(&p->facts, w);
    size_t elem = hn_dtype_facts(info->dtype)->size_bytes;
    int64_t elems, size, end;
    if (!in || !is_row_major(p, info)) return false;
    *out = (weight){.rest = 1, .transposed = conv->args[6].as.b};
    if (!hn_sym_is_int(p->g->sym, info->sizes[0], &out->outer) ||
        !hn_sym_is_int(p->g->sym, info->sizes[1], &out->inner))
        return false;
    for (uint32_t k = 2; k < info->rank; k++)
        if (!hn_sym_is_int(p->g->sym, info->sizes[k], &size) ||
            !hn_mul_i64(out->rest, size, &out->rest))
            return false;
    if (!hn_sym_is_int(p->g->sym, conv->args[8].as.expr, &out->groups) || out->groups < 1)
        return false;
    if (!hn_mul_i64(out->outer, out->inner, &elems) || !hn_mul_i64(elems, out->rest, &elems))
        return false;
    if (!hn_add_i64(in->storage_offset_elems, elems, &end) || !hn_mul_i64(end, (int64_t)elem, &end))
        return false;
    const hn_storage *storage = &p->g->storages.items[in->storage];
    if (in->storage_offset_elems < 0 || (uint64_t)end > storage->size_bytes) return false;
    out->bytes = hn_storage_bytes(storage) + (size_t)in->storage_offset_elems * elem;
    out->len = (size_t)elems * elem;
    out->channels = out->transposed ? out->inner * out->groups : out->outer;
    return true;
}

/* The output channel that weight[outer][inner] belongs to. */
static int64_t channel_of(const weight *w, int64_t outer, int64_t inner) {
    if (!w->transposed) return outer;
    return outer / (w->outer / w->groups) * w->inner + inner;
}

/* Bytes in a file need not be aligned. The product of two floats is exact in double, so multiplying
 * in the dtype is the same. */
static void scale_f32(uint8_t *to, const uint8_t *from, int64_t count, float scale) {
    for (int64_t k = 0; k < count; k++) {
        float x;
        memcpy(&x, from + k * 4, 4);
        x *= scale;
        memcpy(to + k * 4, &x, 4);
    }
}

static void scale_f64(uint8_t *to, const uint8_t *from, int64_t count, double scale) {
    for (int64_t k = 0; k < count; k++) {
        double x;
        memcpy(&x, from + k * 8, 8);
        x *= scale;
        memcpy(to + k * 8, &x, 8);
    }
}

/* A constant over bytes of the graph's arena: hn_graph_add_constant would copy them, and weights
 * are large. */
static hn_status add_weight(hn_graph *g, const hn_value_info *like, const uint8_t *bytes,
                            size_t len, hn_value *out) {
    hn_input input = {.kind = HN_INPUT_CONSTANT, .name = HN_STR("")};
    input.value = hn_graph_add_tensor(g, like->dtype, like->rank, like->sizes, NULL, HN_STR(""));
    input.storage = hn_graph_add_storage(
        g, (hn_storage){.data = bytes, .size_bytes = len, .file_record = HN_STR("")});
    HN_TRY(hn_graph_status(g));
    *out = input.value;
    return hn_graph_add_input(g, input);
}

static hn_status scale_weight(hn_patterns *p, const hn_node_info *conv, const weight *w,
                              const double *scale, hn_value *out) {
    const hn_value_info info = *hn_info(p, conv->args[1].as.value);
    /* What has one factor is a row: all behind dim 0, or dim 1 when transposed. */
    int64_t inner = w->transposed ? w->inner : 1,
            row = w->transposed ? w->rest : w->inner * w->rest;
    size_t row_bytes = (size_t)row * hn_dtype_facts(info.dtype)->size_bytes;
    uint8_t *bytes;
    HN_NEW(p->g->arena, bytes, w->len);
    for (int64_t o = 0; o < w->outer; o++)
        for (int64_t i = 0; i < inner; i++) {
            size_t at = (size_t)(o * inner + i) * row_bytes;
            double factor = scale[channel_of(w, o, i)];
            if (info.dtype == HN_DTYPE_F64) scale_f64(bytes + at, w->bytes + at, row, factor);
            else scale_f32(bytes + at, w->bytes + at, row, (float)factor);
        }
    p->weight_bytes += w->len;
    return add_weight(p->g, &info, bytes, w->len, out);
}

/* --- mul(conv, scale) --- */

static hn_status conv_scale(hn_patterns *p, const hn_node_info *mul, uint32_t side, hn_value *out) {
    hn_value y = mul->args[side].as.value, factor = mul->args[1 - side].as.value, bias = 0, w = 0;
    const hn_node_info *conv = conv_of(p, y);
    weight facts;
    const double *scale, *old_bias = NULL;
    if (!conv || p->is_nested || p->context->metadata_only) return NULL;
    if (!is_per_channel(p, factor, hn_info(p, y)->rank, hn_info(p, y)->sizes[1])) return NULL;
    bool has_bias = conv->args[2].kind == HN_ARG_VALUE;
    if (!read_weight(p, conv, &facts) || facts.len > MAX_WEIGHT_BYTES - p->weight_bytes)
        return NULL;
    if (facts.len >= LARGE_WEIGHT_BYTES && !has_bias && !facts.transposed &&
        hn_info(p, y)->dtype == HN_DTYPE_F32)
        return NULL;
    HN_TRY(read_channels(p, factor, facts.channels, &scale));
    if (!scale) return NULL;
    if (has_bias) HN_TRY(read_channels(p, conv->args[2].as.value, facts.channels, &old_bias));
    if (has_bias && !old_bias) return NULL;
    hn_dtype dtype = hn_info(p, y)->dtype;
    if (has_bias) {
        double *scaled;
        HN_NEW(p->context->scratch, scaled, facts.channels);
        for (int64_t k = 0; k < facts.channels; k++) scaled[k] = old_bias[k] * scale[k];
        HN_TRY(place_channels(p, scaled, facts.channels, dtype, &bias));
    }
    HN_TRY(scale_weight(p, conv, &facts, scale, &w));
    *out = rebuild_conv(p->g, conv, w, bias);
    p->fired[HN_PATTERN_CONV_SCALE]++;
    return hn_graph_status(p->g);
}

/* --- add(conv, shift), sub(conv, shift) --- */

static hn_status conv_shift(hn_patterns *p, const hn_node_info *add, uint32_t side, hn_value *out) {
    hn_value y = add->args[side].as.value, shift = add->args[1 - side].as.value, bias = 0;
    const hn_node_info *conv = conv_of(p, y);
    int64_t channels;
    double sign = add->op == HN_OP_SUB ? -1 : 1;
    if (!conv || !hn_in_memory(p, shift)) return NULL;
    if (!is_per_channel(p, shift, hn_info(p, y)->rank, hn_info(p, y)->sizes[1])) return NULL;
    if (!hn_sym_is_int(p->g->sym, hn_info(p, y)->sizes[1], &channels)) return NULL;
    bool has_bias = conv->args[2].kind == HN_ARG_VALUE,
         may_store = !p->is_nested && !p->context->metadata_only;
    if (!has_bias && sign > 0 && !is_computed_weight(p, shift)) {
        bias = hn_v_reshape(p->g, shift, &hn_info(p, y)->sizes[1], 1);
    } else if (may_store && hn_facts_constness(&p->facts, shift) != HN_NOT_CONST) {
        const double *new_part, *old_part = NULL;
        double *sum;
        HN_TRY(read_channels(p, shift, channels, &new_part));
        if (has_bias) HN_TRY(read_channels(p, conv->args[2].as.value, channels, &old_part));
        if (!new_part || (has_bias && !old_part)) return NULL;
        HN_NEW(p->context->scratch, sum, channels);
        for (int64_t k = 0; k < channels; k++)
            sum[k] = (has_bias ? old_part[k] : 0) + sign * new_part[k];
        HN_TRY(place_channels(p, sum, channels, hn_info(p, y)->dtype, &bias));
    }
    if (!bias) return hn_graph_status(p->g);
    *out = rebuild_conv(p->g, conv, conv->args[1].as.value, bias);
    p->fired[HN_PATTERN_CONV_BIAS]++;
    return hn_graph_status(p->g);
}

/* --- tables --- */

static bool is_small(const hn_patterns *p, hn_value v) {
    const hn_value_info *info = hn_info(p, v);
    int64_t bytes = hn_dtype_facts(info->dtype)->size_bytes, size;
    for (uint32_t k = 0; k < info->rank; k++)
        if (!hn_sym_is_int(p->g->sym, info->sizes[k], &size) || !hn_mul_i64(bytes, size, &bytes))
            return false;
    return bytes <= (int64_t)HN_FOLD_TABLE_BYTES;
}

/* The value as a table; 0: it cannot be one. Asked once for each value: layers share rotation
 * tables and the like. */
static hn_status table_of(hn_patterns *p, hn_value v, hn_value *out) {
    const uint64_t *known = hn_map_get(&p->tables, v);
    hn_ref_tensor t;
    bool done;
    *out = known ? (hn_value)*known : 0;
    if (known) return NULL;
    HN_TRY(hn_const_eval_value(&p->eval, v, HN_CONST_WEIGHT, &t, &done));
    if (done) HN_TRY(hn_const_place(&p->facts, &t, true, out));
    return hn_map_put(&p->tables, v, *out);
}

/* An operand that is computed from weights alone, next to one that is not. What is computed from
 * numbers alone was looked at by folding. */
static hn_status weight_table(hn_patterns *p, const hn_node_info *n, uint32_t side, hn_value *out) {
    hn_value other = n->args[side].as.value, v = n->args[1 - side].as.value, table = 0;
    if (p->is_nested || p->context->metadata_only ||
        hn_facts_constness(&p->facts, other) != HN_NOT_CONST)
        return NULL;
    if (hn_facts_constness(&p->facts, v) != HN_CONST_WEIGHT || !is_computed_weight(p, v) ||
        !is_small(p, v))
        return NULL;
    HN_TRY(table_of(p, v, &table));
    if (!table) return NULL;
    *out =
        side == 0 ? hn_b_binary(p->g, n->op, other, table) : hn_b_binary(p->g, n->op, table, other);
    p->fired[HN_PATTERN_WEIGHT_TABLE]++;
    return hn_graph_status(p->g);
}

hn_status hn_pattern_channels(hn_patterns *p, const hn_node_info *n, hn_value *out) {
    for (uint32_t side = 0; side < 2 && !*out; side++) {
        if (n->op == HN_OP_MUL) HN_TRY(conv_scale(p, n, side, out));
        if (n->op == HN_OP_ADD || (n->op == HN_OP_SUB && side == 0))
            HN_TRY(conv_shift(p, n, side, out));
    }
    for (uint32_t side = 0; side < 2 && !*out; side++) HN_TRY(weight_table(p, n, side, out));
    return NULL;
}
