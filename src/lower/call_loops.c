/* call_loops.c: what a call of an operation computes, as loops of loop IR, for targets that do not
 * have the operation.
 *
 *   matmul(out b4, b1, b2, b3)   ->   reduce sum (m, n; k): b5 = f32(b1) * f32(b2)
 *                                     pointwise (m, n):     b4 = narrow(b5 + f32(b3))
 *
 * All is read from the operands and the parameters of the call (henry/abi/extern_abi.h), so the
 * loops and the call cannot differ in sizes or strides. Sums of 16-bit floats are f32 ones, and are
 * rounded once, at the end, as the operations do it. Calls of other kinds have no loops. No call
 * has an epilogue yet: the scheduler finds those (sched/epilogue.c). */
#include "lower/internal.h"

#include <math.h>
#include <string.h>

enum { LOOPS_MAX = 8, OPS_MAX = 64 };

/* The arrays are the caller's: a program has thousands of calls, and clearing them takes time. */
typedef struct maker {
    lower *l;
    hn_sym *sym;
    const hn_extern *call;
    hn_dtype sums; /* of sums and of what is computed of them */
    hn_sop *ops;   /* of the loop under construction */
    hn_loop *loops;
    uint32_t count;
} maker;

/* A loop under construction. */
typedef struct nest {
    maker *m;
    hn_loop loop;
    lower_body b;
} nest;

/* --- one loop --- */

static void begin(maker *m, hn_loop_kind kind, hn_op reduce_op, nest *out) {
    *out = (nest){.m = m, .loop = {.kind = kind, .reduce_op = reduce_op}};
    lower_body_init(&out->b, m->l);
    out->b.body.items = m->ops;
    out->b.body.cap = OPS_MAX;
}

/* One dimension more: its variable, and no variable where there is one iteration. Parallel
 * dimensions come first. */
static hn_expr add_dim(nest *x, bool is_reduced, hn_expr extent) {
    uint32_t at = x->loop.rank + x->loop.red_rank;
    if (hn_sym_is_value(x->m->sym, extent, 1)) return x->m->l->zero;
    *(is_reduced ? &x->loop.red_rank : &x->loop.rank) += 1;
    return x->loop.vars[at] = hn_sym_index(x->m->sym, at, extent);
}

static void add_dims(nest *x, bool is_reduced, const hn_expr *extents, uint32_t count,
                     hn_expr *out_at) {
    for (uint32_t d = 0; d < count; d++) out_at[d] = add_dim(x, is_reduced, extents[d]);
}

static hn_status finish(nest *x, hn_sid value, hn_buf buffer, hn_expr index) {
    if (x->b.failed) return x->b.failed;
    hn_body *body = &x->loop.body;
    HN_NEW(x->m->l->arena, body->items, x->b.body.count);
    memcpy(body->items, x->b.body.items, x->b.body.count * sizeof *body->items);
    body->count = body->cap = x->b.body.count;
    x->loop.store = (hn_loop_store){.buffer = buffer, .value = value, .index = index};
    x->m->loops[x->m->count++] = x->loop;
    return NULL;
}

/* --- scalars --- */

static hn_dtype dtype_of(const nest *x, hn_buf b) { return x->m->l->p->buffers.items[b].dtype; }

static hn_sid elem(nest *x, hn_op op, hn_sid a, hn_sid b, hn_sid c) {
    if (x->b.failed) return 0;
    bool compares = hn_op_facts(op)->op_class == HN_OPC_COMPARE;
    hn_dtype dtype = compares ? HN_DTYPE_BOOL : x->b.body.items[c ? b : a].dtype;
    return lower_gen_sop(
        &x->b, (hn_sop){.kind = HN_SOP_ELEM, .op = op, .dtype = dtype, .args = {a, b, c}});
}

static hn_sid cast(nest *x, hn_sid a, hn_dtype to) {
    if (x->b.failed || x->b.body.items[a].dtype == to) return a;
    return lower_gen_sop(&x->b, (hn_sop){.kind = HN_SOP_CAST, .dtype = to, .args = {a}});
}

static hn_sid number(nest *x, double value) {
    hn_sop op = {.kind = HN_SOP_CONST, .dtype = x->m->sums};
    if (hn_dtype_is_float(op.dtype))
        op.imm.f = op.dtype == HN_DTYPE_F32 ? (double)(float)value : value;
    else op.imm.i = (int64_t)value;
    return lower_gen_sop(&x->b, op);
}

static hn_sid index_of(nest *x, hn_expr e) {
    return lower_gen_sop(&x->b, (hn_sop){.kind = HN_SOP_INDEX, .dtype = HN_DTYPE_I64, .index = e});
}

static hn_sid load(nest *x, hn_buf b, hn_expr index) {
    return lower_gen_sop(
        &x->b, (hn_sop){.kind = HN_SOP_LOAD, .dtype = dtype_of(x, b), .buffer = b, .index = index});
}

/* Where an operand's element is: `strides` of the call's parameters. */
static hn_expr place(const nest *x, uint32_t operand, const hn_expr *at, uint32_t strides,
                     uint32_t rank) {
    return lower_index_linear(x->m->l, x->m->call->operands[operand].offset_elems, at,
                              &x->m->call->params[strides], rank);
}

/* An element of an operand, as one of the sums. */
static hn_sid load_operand(nest *x, uint32_t operand, const hn_expr *at, uint32_t strides,
                           uint32_t rank) {
    hn_sid value =
        load(x, x->m->call->operands[operand].buffer, place(x, operand, at, strides, rank));
    return cast(x, value, x->m->sums);
}

/* --- memory between the loops --- */

/* A temporary with an element for each point of `extents`. */
typedef struct temp {
    hn_buf buffer;
    hn_expr strides[HN_MAX_RANK];
    uint32_t rank;
} temp;

static hn_status new_temp(maker *m, const hn_expr *extents, uint32_t rank, temp *out) {
    hn_buffer buffer = {.kind = HN_BUFFER_TEMP, .dtype = m->sums, .extent = m->l->one};
    hn_expr *sizes, *strides;
    HN_NEW(m->l->arena, sizes, rank);
    HN_NEW(m->l->arena, strides, rank);
    for (uint32_t d = 0; d < rank; d++)
        if (!hn_sym_is_value(m->sym, extents[d], 1)) sizes[buffer.rank++] = extents[d];
    hn_contiguous_strides(m->sym, sizes, buffer.rank, strides);
    if (buffer.rank) buffer.extent = hn_sym_mul(m->sym, sizes[0], strides[0]);
    for (uint32_t d = 0, k = 0; d < rank; d++)
        out->strides[d] = hn_sym_is_value(m->sym, extents[d], 1) ? m->l->zero : strides[k++];
    out->rank = rank;
    buffer.sizes = sizes, buffer.strides = strides;
    return hn_program_add_buffer(m->l->p, buffer, &out->buffer);
}

static hn_expr temp_place(const nest *x, const temp *t, const hn_expr *at) {
    return lower_index_linear(x->m->l, x->m->l->zero, at, t->strides, t->rank);
}

static hn_sid load_temp(nest *x, const temp *t, const hn_expr *at) {
    return load(x, t->buffer, temp_place(x, t, at));
}

/* --- behind the sum of a matrix product or a convolution --- */

/* Points of the result, where they are stored, and where the bias of each is. */
typedef struct ending {
    const hn_expr *extents;
    uint32_t rank, out;                /* strides */
    bool channels_last;                /* in memory */
    hn_expr bias_strides[HN_MAX_RANK]; /* of operand 3 */
} ending;

enum { OUT = 0, BIAS = 3 };

static bool is_sum_alone(const maker *m) {
    return !m->call->operands[BIAS].buffer &&
           m->l->p->buffers.items[m->call->operands[OUT].buffer].dtype == m->sums;
}

static hn_sid load_bias(nest *x, const hn_expr *at, const ending *e) {
    const struct hn_extern_operand *o = &x->m->call->operands[BIAS];
    hn_expr index = lower_index_linear(x->m->l, o->offset_elems, at, e->bias_strides, e->rank);
    return cast(x, load(x, o->buffer, index), x->m->sums);
}

/* A dimension for each one of the result, in the order of memory. */
static void add_points(nest *x, const ending *e, hn_expr *at) {
    uint32_t order[HN_MAX_RANK];
    lower_order(e->rank, e->channels_last, order);
    for (uint32_t k = 0; k < e->rank; k++) at[order[k]] = add_dim(x, false, e->extents[order[k]]);
}

/* out = sum + bias, narrowed */
static hn_status end_sum(maker *m, const ending *e, const temp *sums) {
    hn_expr at[HN_MAX_RANK];
    nest x;
    begin(m, HN_LOOP_POINTWISE, HN_OP_NONE, &x);
    add_points(&x, e, at);
    hn_sid value = load_temp(&x, sums, at);
    if (m->call->operands[BIAS].buffer) value = elem(&x, HN_OP_ADD, value, load_bias(&x, at, e), 0);
    hn_buf out = m->call->operands[OUT].buffer;
    return finish(&x, cast(&x, value, dtype_of(&x, out)), out, place(&x, OUT, at, e->out, e->rank));
}

/* The sum of `value`, which `x` computes at `at`, and what is behind it. */
static hn_status finish_sum(nest *x, hn_sid value, const hn_expr *at, const ending *e) {
    maker *m = x->m;
    temp sums;
    if (is_sum_alone(m))
        return finish(x, value, m->call->operands[OUT].buffer, place(x, OUT, at, e->out, e->rank));
    HN_TRY(new_temp(m, e->extents, e->rank, &sums));
    HN_TRY(finish(x, value, sums.buffer, temp_place(x, &sums, at)));
    return end_sum(m, e, &sums);
}

/* --- matrix product --- */

static hn_status matmul_loops(maker *m) {
    enum { RANK = HN_EXTERN_BATCH + 2, M = HN_EXTERN_BATCH, N };
    const hn_expr *p = m->call->params;
    hn_expr at[RANK], a[RANK], b[RANK];
    ending e = {.extents = &p[HN_MATMUL_BATCH], .rank = RANK, .out = HN_MATMUL_OUT};
    memcpy(e.bias_strides, &p[HN_MATMUL_BIAS], RANK * sizeof *p);
    nest x;
    begin(m, HN_LOOP_REDUCE, HN_OP_SUM, &x);
    add_dims(&x, false, e.extents, RANK, at);
    memcpy(a, at, sizeof a);
    memcpy(b, at, sizeof b);
    a[N] = b[M] = add_dim(&x, true, p[HN_MATMUL_K]);
    hn_sid left = load_operand(&x, 1, a, HN_MATMUL_A, RANK),
           right = load_operand(&x, 2, b, HN_MATMUL_B, RANK);
    return finish_sum(&x, elem(&x, HN_OP_MUL, left, right, 0), at, &e);
}

/* --- convolution --- */

/* a // b, and 0 where b is: there is no element then. */
static hn_expr quotient(const maker *m, hn_expr a, hn_expr b) {
    return hn_sym_is_value(m->sym, b, 0) ? m->l->zero : hn_sym_floordiv(m->sym, a, b);
}

static hn_expr remainder_of(const maker *m, hn_expr a, hn_expr b) {
    return hn_sym_is_value(m->sym, b, 0) ? m->l->zero : hn_sym_mod(m->sym, a, b);
}

static hn_sid both(nest *x, hn_sid a, hn_sid b) {
    return a && b ? elem(x, HN_OP_AND, a, b, 0) : a ? a : b;
}

static hn_sid whole(nest *x, int64_t value) {
    return lower_gen_const_i(&x->b, value, HN_DTYPE_I64);
}

/* The input position that position k of the kernel meets at output position o, kept inside the
 * input; *inside becomes a condition where it may be outside. */
static hn_expr input_position(nest *x, uint32_t d, hn_expr o, hn_expr k, hn_sid *inside) {
    hn_sym *sym = x->m->sym;
    const hn_expr *p = x->m->call->params;
    hn_expr zero = x->m->l->zero, last = hn_sym_sub(sym, p[HN_CONV_IN + d], x->m->l->one);
    hn_expr shift =
        hn_sym_sub(sym, hn_sym_mul(sym, k, p[HN_CONV_DILATION + d]), p[HN_CONV_PADDING + d]);
    hn_expr at = hn_sym_add(sym, hn_sym_mul(sym, o, p[HN_CONV_STRIDE + d]), shift);
    if (hn_sym_is_value(sym, p[HN_CONV_TRANSPOSED], 1)) {
        hn_expr spread = hn_sym_sub(sym, o, shift),
                rest = hn_sym_mod(sym, spread, p[HN_CONV_STRIDE + d]);
        at = hn_sym_floordiv(sym, spread, p[HN_CONV_STRIDE + d]);
        if (!hn_sym_is_value(sym, rest, 0))
            *inside = both(x, *inside, elem(x, HN_OP_EQ, index_of(x, rest), whole(x, 0), 0));
    }
    if (!hn_sym_prove_le(sym, zero, at)) {
        *inside = both(x, *inside, elem(x, HN_OP_GE, index_of(x, at), whole(x, 0), 0));
        at = hn_sym_max(sym, at, zero);
    }
    if (hn_sym_prove_le(sym, at, last)) return at;
    *inside = both(x, *inside, elem(x, HN_OP_LE, index_of(x, at), index_of(x, last), 0));
    return hn_sym_min(sym, at, hn_sym_max(sym, last, zero)); /* a size may be 0 */
}

static bool has_empty_input(const maker *m) {
    for (uint32_t d = 0; d < 3; d++)
        if (hn_sym_is_value(m->sym, m->call->params[HN_CONV_IN + d], 0)) return true;
    return false;
}

/* One product. `at`: [n, o, s0, s1, s2]; `k`: [channel of the group, k0, k1, k2]. A position
 * outside counts for nothing, whatever the weight. */
static hn_sid conv_product(nest *x, const hn_expr *at, const hn_expr *k) {
    maker *m = x->m;
    const hn_expr *p = m->call->params;
    hn_expr groups = p[HN_CONV_GROUPS], c_group = quotient(m, p[HN_CONV_C], groups),
            o_group = quotient(m, p[HN_CONV_O], groups);
    hn_expr channel =
        hn_sym_add(m->sym, hn_sym_mul(m->sym, quotient(m, at[1], o_group), c_group), k[0]);
    hn_expr in[5] = {at[0], channel}, w[5] = {at[1], k[0], k[1], k[2], k[3]};
    hn_sid inside = 0;
    if (has_empty_input(m)) return number(x, 0);
    for (uint32_t d = 0; d < 3; d++) in[2 + d] = input_position(x, d, at[2 + d], k[1 + d], &inside);
    if (hn_sym_is_value(m->sym, p[HN_CONV_TRANSPOSED], 1))
        w[0] = channel, w[1] = remainder_of(m, at[1], o_group);
    hn_sid value = elem(x, HN_OP_MUL, load_operand(x, 1, in, HN_CONV_X, 5),
                        load_operand(x, 2, w, HN_CONV_W, 5), 0);
    return inside ? elem(x, HN_OP_WHERE, inside, value, number(x, 0)) : value;
}

static hn_status conv_loops(maker *m) {
    const hn_expr *p = m->call->params;
    hn_expr extents[5] = {p[HN_CONV_N], p[HN_CONV_O], p[HN_CONV_OUTSIZE], p[HN_CONV_OUTSIZE + 1],
                          p[HN_CONV_OUTSIZE + 2]};
    hn_expr at[5], k[4], zero = m->l->zero;
    ending e = {.extents = extents,
                .rank = 5,
                .out = HN_CONV_OUT,
                .channels_last = lower_are_last(m->l, &p[HN_CONV_OUT], 5),
                .bias_strides = {zero, m->l->one, zero, zero, zero}};
    nest x;
    begin(m, HN_LOOP_REDUCE, HN_OP_SUM, &x);
    add_points(&x, &e, at);
    k[0] = add_dim(&x, true, quotient(m, p[HN_CONV_C], p[HN_CONV_GROUPS]));
    add_dims(&x, true, &p[HN_CONV_KERNEL], 3, &k[1]);
    return finish_sum(&x, conv_product(&x, at, k), at, &e);
}

/* --- attention --- */

/* What the loops of attention share: dimensions [batch, head, query], then keys or columns. */
typedef struct attention {
    maker *m;
    hn_expr rows[3], keys, depth, columns;
    temp scores, weights, high, sum, product;
} attention;

static void add_rows(nest *x, const attention *a, hn_expr *at) {
    add_dims(x, false, a->rows, 3, at);
}

/* The [batch, head of keys] of a row. */
static void key_head(const attention *a, const hn_expr *at, hn_expr *out) {
    hn_expr heads = a->rows[1], kv_heads = a->m->call->params[HN_ATTENTION_KV_HEADS];
    out[0] = at[0];
    out[1] = heads == kv_heads ? at[1] : quotient(a->m, at[1], quotient(a->m, heads, kv_heads));
}

/* scores = q k^T */
static hn_status attention_dots(attention *a) {
    hn_expr at[4], q[4], k[4];
    nest x;
    begin(a->m, HN_LOOP_REDUCE, HN_OP_SUM, &x);
    add_rows(&x, a, at);
    at[3] = add_dim(&x, false, a->keys);
    memcpy(q, at, sizeof q);
    key_head(a, at, k);
    k[2] = at[3];
    q[3] = k[3] = add_dim(&x, true, a->depth);
    hn_sid left = load_operand(&x, 1, q, HN_ATTENTION_Q, 4),
           right = load_operand(&x, 2, k, HN_ATTENTION_K, 4);
    temp *dots = &a->product; /* of another shape later */
    HN_TRY(new_temp(a->m, (hn_expr[]){a->rows[0], a->rows[1], a->rows[2], a->keys}, 4, dots));
    return finish(&x, elem(&x, HN_OP_MUL, left, right, 0), dots->buffer, temp_place(&x, dots, at));
}

static double scale_of(const attention *a) {
    int64_t bits = 0;
    double scale;
    (void)hn_sym_is_int(a->m->sym, a->m->call->params[HN_ATTENTION_SCALE], &bits);
    memcpy(&scale, &bits, sizeof scale);
    return scale;
}

/* A score that the mask adds to, or hides. */
static hn_sid masked(nest *x, hn_sid score, const hn_expr *at) {
    const struct hn_extern_operand *mask = &x->m->call->operands[4];
    if (!mask->buffer) return score;
    hn_sid value = load(x, mask->buffer, place(x, 4, at, HN_ATTENTION_MASK, 4)),
           hidden = number(x, -(double)INFINITY);
    if (!hn_dtype_is_float(dtype_of(x, mask->buffer)))
        return elem(x, HN_OP_WHERE, cast(x, value, HN_DTYPE_BOOL), score, hidden);
    value = cast(x, value, x->m->sums);
    hn_sid sum = elem(x, HN_OP_ADD, score, value, 0);
    return elem(x, HN_OP_WHERE, elem(x, HN_OP_EQ, value, hidden, 0), hidden, sum);
}

/* scores = scale * scores + mask, -inf where a key is not seen: then q and k do not matter */
static hn_status attention_scores(attention *a) {
    hn_expr at[4];
    nest x;
    begin(a->m, HN_LOOP_POINTWISE, HN_OP_NONE, &x);
    add_rows(&x, a, at);
    at[3] = add_dim(&x, false, a->keys);
    hn_sid score = elem(&x, HN_OP_MUL, load_temp(&x, &a->product, at), number(&x, scale_of(a)), 0);
    score = masked(&x, score, at);
    if (hn_sym_is_value(a->m->sym, a->m->call->params[HN_ATTENTION_CAUSAL], 1)) {
        hn_sid seen = elem(&x, HN_OP_LE, index_of(&x, at[3]), index_of(&x, at[2]), 0);
        score = elem(&x, HN_OP_WHERE, seen, score, number(&x, -(double)INFINITY));
    }
    HN_TRY(new_temp(a->m, (hn_expr[]){a->rows[0], a->rows[1], a->rows[2], a->keys}, 4, &a->scores));
    return finish(&x, score, a->scores.buffer, temp_place(&x, &a->scores, at));
}

/* high = max over keys of scores */
static hn_status attention_high(attention *a) {
    hn_expr at[4];
    nest x;
    begin(a->m, HN_LOOP_REDUCE, HN_OP_AMAX, &x);
    add_rows(&x, a, at);
    at[3] = add_dim(&x, true, a->keys);
    hn_sid score = load_temp(&x, &a->scores, at);
    HN_TRY(new_temp(a->m, a->rows, 3, &a->high));
    return finish(&x, score, a->high.buffer, temp_place(&x, &a->high, at));
}

/* weights = e^(scores - high), and -1 for a key that is not seen: its value counts for nothing,
 * even if that is infinite, but a weight of 0 times an infinite value is NaN. */
static hn_status attention_weights(attention *a) {
    hn_expr at[4];
    nest x;
    begin(a->m, HN_LOOP_POINTWISE, HN_OP_NONE, &x);
    add_rows(&x, a, at);
    at[3] = add_dim(&x, false, a->keys);
    hn_sid score = load_temp(&x, &a->scores, at), high = load_temp(&x, &a->high, at);
    hn_sid power = lower_gen_sop(&x.b, (hn_sop){.kind = HN_SOP_ELEM,
                                                .op = HN_OP_EXP,
                                                .dtype = a->m->sums,
                                                .args = {elem(&x, HN_OP_SUB, score, high, 0)}});
    hn_sid hidden = elem(&x, HN_OP_EQ, score, number(&x, -(double)INFINITY), 0);
    HN_TRY(
        new_temp(a->m, (hn_expr[]){a->rows[0], a->rows[1], a->rows[2], a->keys}, 4, &a->weights));
    return finish(&x, elem(&x, HN_OP_WHERE, hidden, number(&x, -1), power), a->weights.buffer,
                  temp_place(&x, &a->weights, at));
}

/* `value` where the key of `weight` is seen, else 0. */
static hn_sid where_seen(nest *x, hn_sid weight, hn_sid value) {
    hn_sid zero = number(x, 0);
    return elem(x, HN_OP_WHERE, elem(x, HN_OP_LT, weight, zero, 0), zero, value);
}

/* sum = sum over keys of weights */
static hn_status attention_sum(attention *a) {
    hn_expr at[4];
    nest x;
    begin(a->m, HN_LOOP_REDUCE, HN_OP_SUM, &x);
    add_rows(&x, a, at);
    at[3] = add_dim(&x, true, a->keys);
    hn_sid weight = load_temp(&x, &a->weights, at);
    HN_TRY(new_temp(a->m, a->rows, 3, &a->sum));
    return finish(&x, where_seen(&x, weight, weight), a->sum.buffer, temp_place(&x, &a->sum, at));
}

/* product = weights v */
static hn_status attention_product(attention *a) {
    hn_expr at[4], w[4], v[4];
    nest x;
    begin(a->m, HN_LOOP_REDUCE, HN_OP_SUM, &x);
    add_rows(&x, a, at);
    at[3] = add_dim(&x, false, a->columns);
    memcpy(w, at, sizeof w);
    key_head(a, at, v);
    v[3] = at[3];
    w[3] = v[2] = add_dim(&x, true, a->keys);
    hn_sid weight = load_temp(&x, &a->weights, w),
           value = load_operand(&x, 3, v, HN_ATTENTION_V, 4);
    value = where_seen(&x, weight, elem(&x, HN_OP_MUL, weight, value, 0));
    HN_TRY(new_temp(a->m, (hn_expr[]){a->rows[0], a->rows[1], a->rows[2], a->columns}, 4,
                    &a->product));
    return finish(&x, value, a->product.buffer, temp_place(&x, &a->product, at));
}

/* out = product / sum, narrowed; 0 where no key is seen, or there is none. */
static hn_status attention_out(attention *a, bool is_empty) {
    hn_expr at[4];
    hn_buf out = a->m->call->operands[OUT].buffer;
    nest x;
    begin(a->m, HN_LOOP_POINTWISE, HN_OP_NONE, &x);
    add_rows(&x, a, at);
    at[3] = add_dim(&x, false, a->columns);
    hn_sid value = number(&x, 0);
    if (!is_empty) {
        hn_sid sum = load_temp(&x, &a->sum, at), product = load_temp(&x, &a->product, at);
        hn_sid none = elem(&x, HN_OP_EQ, sum, value, 0);
        value = elem(&x, HN_OP_WHERE, none, value, elem(&x, HN_OP_DIV, product, sum, 0));
    }
    return finish(&x, cast(&x, value, dtype_of(&x, out)), out,
                  place(&x, OUT, at, HN_ATTENTION_OUT, 4));
}

static hn_status attention_loops(maker *m) {
    const hn_expr *p = m->call->params;
    attention a = {.m = m,
                   .rows = {p[HN_ATTENTION_BATCH], p[HN_ATTENTION_BATCH + 1], p[HN_ATTENTION_M]},
                   .keys = p[HN_ATTENTION_N],
                   .depth = p[HN_ATTENTION_D],
                   .columns = p[HN_ATTENTION_DV]};
    bool is_empty = hn_sym_is_value(m->sym, a.keys, 0);
    if (is_empty) return attention_out(&a, true);
    HN_TRY(attention_dots(&a));
    HN_TRY(attention_scores(&a));
    HN_TRY(attention_high(&a));
    HN_TRY(attention_weights(&a));
    HN_TRY(attention_sum(&a));
    HN_TRY(attention_product(&a));
    return attention_out(&a, false);
}

/* --- entry --- */

static hn_status keep(maker *m, hn_extern *call) {
    HN_NEW(m->l->arena, call->loops, m->count);
    memcpy(call->loops, m->loops, m->count * sizeof *m->loops);
    call->loop_count = m->count;
    return hn_sym_status(m->sym);
}

hn_status lower_loops_of(lower *l, hn_extern *call) {
    static hn_status (*const of_kind[HN_EXTERN_KIND_COUNT])(maker *) = {
        [HN_EXTERN_MATMUL] = matmul_loops,
        [HN_EXTERN_CONV] = conv_loops,
        [HN_EXTERN_ATTENTION] = attention_loops,
    };
    hn_sop ops[OPS_MAX];
    hn_loop loops[LOOPS_MAX];
    maker m = {.l = l,
               .sym = l->sym,
               .call = call,
               .ops = ops,
               .loops = loops,
               .sums = l->p->buffers.items[call->operands[1].buffer].dtype};
    if (!of_kind[call->kind]) return NULL;
    if (m.sums == HN_DTYPE_F16 || m.sums == HN_DTYPE_BF16) m.sums = HN_DTYPE_F32;
    HN_TRY(of_kind[call->kind](&m));
    return keep(&m, call);
}

hn_status lower_call_loops(lower *l, hn_extern *call) {
    return hn_operation_of(l->operations, l->p, call) ? NULL : lower_loops_of(l, call);
}
