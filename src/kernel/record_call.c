/* record_call.c: what a call of an operation must move and compute: see record.h. Operands are read
 * or written once; the strides of each say along which sizes it repeats. */
#include "kernel/quantity.h"
#include "kernel/record.h"

typedef struct counter {
    const hn_program *p;
    const hn_extern *call;
    hn_sym *sym;
    hn_quantity read, written; /* bytes */
} counter;

static hn_quantity size_at(const counter *c, uint32_t param) {
    return hn_quantity_of(c->sym, c->call->params[param]);
}
static hn_quantity times(const counter *c, hn_quantity a, hn_quantity b) {
    return hn_quantity_mul(c->sym, a, b);
}
/* The product of sizes at parameters [first, first + count). */
static hn_quantity sizes_at(const counter *c, uint32_t first, uint32_t count) {
    hn_quantity all = hn_quantity_int(1);
    for (uint32_t k = 0; k < count; k++) all = times(c, all, size_at(c, first + k));
    return all;
}
static int64_t value_at(const counter *c, uint32_t param) {
    int64_t value = 0;
    (void)hn_sym_is_int(c->sym, c->call->params[param], &value);
    return value;
}

static void add_operand(counter *c, uint32_t operand, hn_quantity elems) {
    const struct hn_extern_operand *o = &c->call->operands[operand];
    if (operand >= c->call->operand_count || !o->buffer) return;
    const uint32_t bytes = hn_dtype_facts(c->p->buffers.items[o->buffer].dtype)->size_bytes;
    hn_quantity *sum = o->written ? &c->written : &c->read;
    *sum = hn_quantity_add(c->sym, *sum, times(c, elems, hn_quantity_int(bytes)));
}

/* A view of a larger tensor: of `rank` sizes, those with a stride other than 0, whose strides are
 * parameters from `strides` on. */
static void add_strided(counter *c, uint32_t operand, const hn_quantity *sizes, uint32_t rank,
                        uint32_t strides) {
    hn_quantity elems = hn_quantity_int(1);
    for (uint32_t d = 0; d < rank; d++)
        if (!hn_sym_is_value(c->sym, c->call->params[strides + d], 0))
            elems = times(c, elems, sizes[d]);
    add_operand(c, operand, elems);
}

static hn_quantity matmul(counter *c) {
    enum { RANK = HN_EXTERN_BATCH + 2 };
    hn_quantity a[RANK], b[RANK], out[RANK];
    for (uint32_t d = 0; d < HN_EXTERN_BATCH; d++)
        a[d] = b[d] = out[d] = size_at(c, HN_MATMUL_BATCH + d);
    a[RANK - 2] = out[RANK - 2] = size_at(c, HN_MATMUL_M);
    b[RANK - 1] = out[RANK - 1] = size_at(c, HN_MATMUL_N);
    a[RANK - 1] = b[RANK - 2] = size_at(c, HN_MATMUL_K);
    add_strided(c, 0, out, RANK, HN_MATMUL_OUT);
    add_strided(c, 1, a, RANK, HN_MATMUL_A);
    add_strided(c, 2, b, RANK, HN_MATMUL_B);
    add_strided(c, 3, out, RANK, HN_MATMUL_BIAS);
    add_strided(c, 4, out, RANK, HN_MATMUL_RESIDUAL);
    return times(c, hn_quantity_int(2), sizes_at(c, HN_MATMUL_BATCH, HN_EXTERN_BATCH + 3));
}

static hn_quantity conv(counter *c) {
    const bool transposed = value_at(c, HN_CONV_TRANSPOSED) != 0;
    const hn_quantity n = size_at(c, HN_CONV_N), in = size_at(c, HN_CONV_C),
                      out = size_at(c, HN_CONV_O), kernel = sizes_at(c, HN_CONV_KERNEL, 3),
                      image = times(c, times(c, n, in), sizes_at(c, HN_CONV_IN, 3)),
                      result = times(c, times(c, n, out), sizes_at(c, HN_CONV_OUTSIZE, 3));
    const int64_t groups = value_at(c, HN_CONV_GROUPS) > 0 ? value_at(c, HN_CONV_GROUPS) : 1;
    /* of a group: the channels at the other end of a weight */
    const hn_expr each = hn_sym_floordiv(
        c->sym, c->call->params[transposed ? HN_CONV_O : HN_CONV_C], hn_sym_int(c->sym, groups));
    const hn_quantity taps = times(c, hn_quantity_of(c->sym, each), kernel);
    add_operand(c, 0, result);
    add_operand(c, 1, image);
    add_operand(c, 2, times(c, transposed ? in : out, taps));
    add_operand(c, 3, out);
    add_operand(c, 4, result);
    add_operand(c, 5, value_at(c, HN_CONV_SCALE_OUT) ? out : times(c, n, in));
    return times(c, hn_quantity_int(2), times(c, transposed ? image : result, taps));
}

/* Pairs of a query and a key that sees it. */
static hn_quantity pairs_of(const counter *c, bool causal) {
    const hn_quantity m = size_at(c, HN_ATTENTION_M), n = size_at(c, HN_ATTENTION_N);
    const hn_quantity heads = sizes_at(c, HN_ATTENTION_BATCH, 2);
    if (!causal) return times(c, heads, times(c, m, n));
    /* query i sees i + 1 keys, as long as there are so many */
    const hn_expr rows = hn_quantity_expr(c->sym, m),
                  all = hn_sym_min(c->sym, rows, hn_quantity_expr(c->sym, n));
    const hn_quantity ramp = {.hint = m.hint < n.hint ? m.hint : n.hint, .expr = all};
    hn_quantity few = times(c, ramp, hn_quantity_add(c->sym, ramp, hn_quantity_int(1)));
    few.hint /= 2;
    if (few.expr) few.expr = hn_sym_floordiv(c->sym, few.expr, hn_sym_int(c->sym, 2));
    if (all == rows) return times(c, heads, few);
    const hn_quantity behind = {.hint = m.hint - ramp.hint, .expr = hn_sym_sub(c->sym, rows, all)};
    return times(c, heads, hn_quantity_add(c->sym, few, times(c, behind, n)));
}

/* An operand of attention: its sizes are batch, heads, and two more. */
static void add_heads(counter *c, uint32_t operand, uint32_t heads, uint32_t rows, uint32_t columns,
                      uint32_t strides) {
    const hn_quantity sizes[4] = {size_at(c, HN_ATTENTION_BATCH), size_at(c, heads),
                                  size_at(c, rows), size_at(c, columns)};
    add_strided(c, operand, sizes, 4, strides);
}

enum { HEADS = HN_ATTENTION_BATCH + 1, KV = HN_ATTENTION_KV_HEADS, M = HN_ATTENTION_M };
enum { N = HN_ATTENTION_N, D = HN_ATTENTION_D, DV = HN_ATTENTION_DV };

static hn_quantity attention(counter *c) {
    add_heads(c, 0, HEADS, M, DV, HN_ATTENTION_OUT);
    add_heads(c, 1, HEADS, M, D, HN_ATTENTION_Q);
    add_heads(c, 2, KV, N, D, HN_ATTENTION_K);
    add_heads(c, 3, KV, N, DV, HN_ATTENTION_V);
    add_heads(c, 4, HEADS, M, N, HN_ATTENTION_MASK);
    const hn_quantity both = hn_quantity_add(c->sym, size_at(c, D), size_at(c, DV));
    return times(c, hn_quantity_int(2),
                 times(c, pairs_of(c, value_at(c, HN_ATTENTION_CAUSAL) != 0), both));
}

/* Five products: the scores again, d_v, d_p, d_q and d_k. */
static hn_quantity attention_backward(counter *c) {
    add_heads(c, 0, HEADS, M, D, HN_ATTENTION_BACKWARD_D_Q);
    add_heads(c, 1, KV, N, D, HN_ATTENTION_BACKWARD_D_K);
    add_heads(c, 2, KV, N, DV, HN_ATTENTION_BACKWARD_D_V);
    add_heads(c, 3, HEADS, M, DV, HN_ATTENTION_BACKWARD_GRAD);
    add_heads(c, 4, HEADS, M, D, HN_ATTENTION_BACKWARD_Q);
    add_heads(c, 5, KV, N, D, HN_ATTENTION_BACKWARD_K);
    add_heads(c, 6, KV, N, DV, HN_ATTENTION_BACKWARD_V);
    add_heads(c, 7, HEADS, M, DV, HN_ATTENTION_BACKWARD_OUT);
    add_heads(c, 8, HEADS, M, N, HN_ATTENTION_BACKWARD_MASK);
    const hn_quantity pairs = pairs_of(c, value_at(c, HN_ATTENTION_BACKWARD_CAUSAL) != 0);
    const hn_quantity each = hn_quantity_add(c->sym, times(c, hn_quantity_int(6), size_at(c, D)),
                                             times(c, hn_quantity_int(4), size_at(c, DV)));
    return times(c, pairs, each);
}

static hn_quantity sort(counter *c, bool is_topk) {
    const hn_quantity rest = times(c, size_at(c, HN_SORT_OUTER), size_at(c, HN_SORT_INNER));
    const hn_quantity all = times(c, rest, size_at(c, HN_SORT_N));
    const hn_quantity kept = is_topk ? times(c, rest, size_at(c, HN_SORT_K)) : all;
    add_operand(c, 0, kept);
    add_operand(c, 1, kept);
    add_operand(c, 2, all);
    return hn_quantity_int(0);
}

static hn_quantity nonzero(counter *c) {
    add_operand(c, 0, times(c, size_at(c, HN_NONZERO_COUNT), size_at(c, HN_NONZERO_RANK)));
    add_operand(c, 1, sizes_at(c, HN_NONZERO_SIZES, HN_NONZERO_RANK_MAX));
    return hn_quantity_int(0);
}

static hn_quantity grouped_matmul(counter *c) {
    const hn_quantity groups = size_at(c, HN_GROUPED_GROUPS), m = size_at(c, HN_GROUPED_M),
                      n = size_at(c, HN_GROUPED_N), k = size_at(c, HN_GROUPED_K);
    add_operand(c, 0, times(c, m, n));
    add_strided(c, 1, (const hn_quantity[]){m, k}, 2, HN_GROUPED_A);
    add_strided(c, 2, (const hn_quantity[]){groups, k, n}, 3, HN_GROUPED_B);
    add_operand(c, 3, groups);
    return times(c, hn_quantity_int(2), times(c, m, times(c, n, k)));
}

/* Each pair of boxes: a common area and a quotient. */
static hn_quantity nms(counter *c) {
    const hn_quantity n = size_at(c, HN_NMS_N);
    add_operand(c, 0, n);
    add_operand(c, 1, times(c, hn_quantity_int(4), n));
    return times(c, hn_quantity_int(8), times(c, n, n));
}

/* One operation for each value. */
static hn_quantity combine_sorted(counter *c) {
    const hn_quantity columns = size_at(c, HN_COMBINE_COLUMNS), n = size_at(c, HN_COMBINE_N),
                      result = times(c, size_at(c, HN_COMBINE_PLACES), columns),
                      values = times(c, n, columns);
    add_operand(c, 0, result);
    add_operand(c, 1, n);
    add_operand(c, 2, n);
    add_operand(c, 3, values);
    add_operand(c, 4, result);
    return values;
}

static hn_quantity count(counter *c) {
    switch (c->call->kind) {
    case HN_EXTERN_MATMUL: return matmul(c);
    case HN_EXTERN_CONV: return conv(c);
    case HN_EXTERN_ATTENTION: return attention(c);
    case HN_EXTERN_ATTENTION_BACKWARD: return attention_backward(c);
    case HN_EXTERN_SORT: return sort(c, false);
    case HN_EXTERN_TOPK: return sort(c, true);
    case HN_EXTERN_NONZERO: return nonzero(c);
    case HN_EXTERN_GROUPED_MATMUL: return grouped_matmul(c);
    case HN_EXTERN_NMS: return nms(c);
    case HN_EXTERN_COMBINE_SORTED: return combine_sorted(c);
    default: return (hn_quantity){0};
    }
}

void hn_call_record_of(const hn_program *program, const hn_extern *call, hn_work_record *out) {
    counter c = {.p = program, .call = call, .sym = program->sym};
    c.read = c.written = hn_quantity_int(0);
    const hn_quantity operations = count(&c);
    *out = (hn_work_record){.category = HN_CATEGORY_CALL,
                            .traffic = {.read_bytes = c.read.hint,
                                        .written_bytes = c.written.hint,
                                        .read_expr = hn_quantity_expr(c.sym, c.read),
                                        .written_expr = hn_quantity_expr(c.sym, c.written),
                                        .is_bound = call->kind == HN_EXTERN_GROUPED_MATMUL},
                            .operations = operations.hint,
                            .operations_expr = hn_quantity_expr(c.sym, operations)};
}
