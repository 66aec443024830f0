/* epilogue.c: what stands behind a matrix product or a convolution and is done by the operation
 * itself, while the result is still in the cache: a factor and a summand for each channel, the sum
 * with another value of the same elements (a residual connection), an activation.
 *
 *   conv(out b4, b1, b2)                                    conv(out b6, b1, b2) residual b5, relu
 *   pointwise: b6 = relu(b4 + b5)                      ->
 *
 *   matmul(out b4, b1, b2)                                  matmul(out b4, b1, b2) relu
 *   reduce sum: b6 = b3 * relu(b4)                     ->   reduce sum: b6 = b3 * b4
 *
 * Patterns over scalar ops say what an operation can do. Every load of the result must have the
 * same of it behind it; the loops then load what the operation has made. A loop that only copies is
 * left out, and the operation writes where it did (copied.c). A residual must be in memory before
 * the call.
 *
 * Loops round 16-bit floats between their ops, and compute some in f32. An operation that rounds
 * only at its end takes such an activation as well: casts between the two are passed over. Of
 * 16-bit results it takes nothing else. */
#include "sched/calls.h"

#include "base/compiler.h"

#include <math.h>
#include <string.h>

/* --- activations --- */

/* A pattern node: an op with one or two operands, the value X that the activation is of, or a
 * constant. */
typedef struct pattern {
    hn_op op; /* HN_OP_NONE: X; HN_OP_FULL: the constant `c` */
    const struct pattern *a, *b;
    double c;
} pattern;

#define X_               (&(const pattern){.op = HN_OP_NONE})
#define C_(value)        (&(const pattern){.op = HN_OP_FULL, .c = (value)})
#define U_(name, x)      (&(const pattern){.op = HN_OP_##name, .a = (x)})
#define B_(name, x, y)   (&(const pattern){.op = HN_OP_##name, .a = (x), .b = (y)})
#define CLAMP6_          B_(MIN, B_(MAX, B_(ADD, X_, C_(3)), C_(0)), C_(6))
#define CUBE_            B_(MUL, B_(MUL, X_, X_), X_)
#define HALF_GATED(gate) B_(MUL, B_(MUL, X_, C_(0.5)), B_(ADD, gate, C_(1)))
#define TANH_ARGUMENT(cube)                                                                        \
    B_(MUL, B_(ADD, X_, B_(MUL, cube, C_(0.044715))), C_(0.7978845608028654))

/* Of patterns with one root the larger one comes first. Costly ones take more than a few
 * instructions. */
static const struct {
    hn_epilogue epilogue;
    bool is_costly;
    const pattern *root;
} activations[] = {
    {HN_EPILOGUE_HARDSWISH, false, B_(DIV, B_(MUL, X_, CLAMP6_), C_(6))},
    {HN_EPILOGUE_HARDSWISH, false, B_(MUL, X_, B_(DIV, CLAMP6_, C_(6)))},
    {HN_EPILOGUE_HARDSWISH, false, B_(MUL, B_(MUL, X_, CLAMP6_), C_(1.0 / 6))},
    {HN_EPILOGUE_HARDSIGMOID, false, B_(DIV, CLAMP6_, C_(6))},
    {HN_EPILOGUE_HARDSIGMOID, false, B_(MUL, CLAMP6_, C_(1.0 / 6))},
    {HN_EPILOGUE_GELU_ERF, true, HALF_GATED(U_(ERF, B_(MUL, X_, C_(0.7071067811865476))))},
    {HN_EPILOGUE_GELU_TANH, true, HALF_GATED(U_(TANH, TANH_ARGUMENT(CUBE_)))},
    {HN_EPILOGUE_GELU_TANH, true, HALF_GATED(U_(TANH, TANH_ARGUMENT(B_(POW, X_, C_(3)))))},
    {HN_EPILOGUE_SILU, true, B_(MUL, X_, U_(SIGMOID, X_))},
    {HN_EPILOGUE_RELU, false, U_(RELU, X_)},
    {HN_EPILOGUE_RELU, false, B_(MAX, X_, C_(0))},
    {HN_EPILOGUE_SIGMOID, true, U_(SIGMOID, X_)},
    {HN_EPILOGUE_TANH, true, U_(TANH, X_)},
};

enum { INSIDE_MAX = 32, TAILS_MAX = 16 };

/* One attempt in one body. */
typedef struct match {
    const hn_loop *loop;
    hn_sid x;
    hn_dtype dtype;            /* of x: f32, or with 16 bits */
    hn_sid inside[INSIDE_MAX]; /* the ops of the pattern */
    uint32_t inside_count;
} match;

static const hn_sop *op_of(const hn_loop *loop, hn_sid v) { return &loop->body.items[v]; }

static bool is_elem(const hn_sop *op, hn_op which) {
    return op->kind == HN_SOP_ELEM && op->op == which && op->dtype == HN_DTYPE_F32;
}

/* An op of the pattern in the dtype of x, or in the f32 that is computed with. */
static bool is_part(const match *m, const hn_sop *op, hn_op which) {
    return op->kind == HN_SOP_ELEM && op->op == which &&
           (op->dtype == HN_DTYPE_F32 || op->dtype == m->dtype);
}

static bool is_float_of(const match *m, hn_dtype dtype) {
    return dtype == HN_DTYPE_F32 || dtype == m->dtype;
}

/* Casts between 16 bits and f32 are a part of the pattern wherever they stand. 0: too many. */
static hn_sid behind_casts(match *m, hn_sid v) {
    for (const hn_sop *op = op_of(m->loop, v);
         m->dtype != HN_DTYPE_F32 && op->kind == HN_SOP_CAST && is_float_of(m, op->dtype) &&
         is_float_of(m, op_of(m->loop, op->args[0])->dtype);
         op = op_of(m->loop, v)) {
        if (m->inside_count == INSIDE_MAX) return 0;
        m->inside[m->inside_count++] = v;
        v = op->args[0];
    }
    return v;
}

static bool matches(match *m, const pattern *p, hn_sid v);

static bool matches_pair(match *m, const pattern *a, const pattern *b, hn_sid x, hn_sid y) {
    uint32_t before = m->inside_count;
    if (matches(m, a, x) && matches(m, b, y)) return true;
    m->inside_count = before;
    return false;
}

static bool matches(match *m, const pattern *p, hn_sid v) {
    v = behind_casts(m, v);
    if (!v) return false;
    const hn_sop *op = op_of(m->loop, v);
    if (p->op == HN_OP_NONE) return v == m->x;
    if (p->op == HN_OP_FULL)
        return op->kind == HN_SOP_CONST && fabs(op->imm.f - p->c) <= 1e-6 * fabs(p->c);
    if (!is_part(m, op, p->op) || m->inside_count == INSIDE_MAX) return false;
    m->inside[m->inside_count++] = v;
    if (!p->b) return matches(m, p->a, op->args[0]);
    if (matches_pair(m, p->a, p->b, op->args[0], op->args[1])) return true;
    return hn_op_has(p->op, HN_TRAIT_COMMUTES) &&
           matches_pair(m, p->a, p->b, op->args[1], op->args[0]);
}

static bool uses(const hn_sop *op, hn_sid v) {
    return op->args[0] == v || op->args[1] == v || op->args[2] == v;
}

static bool is_stored(const hn_loop *loop, hn_sid v) {
    return loop->store.value == v || (loop->indices.buffer && loop->indices.value == v);
}

static bool is_inside(const match *m, hn_sid v) {
    for (uint32_t k = 0; k < m->inside_count; k++)
        if (m->inside[k] == v) return true;
    return false;
}

/* Whether only ops of the pattern use `v`. */
static bool stays_inside(const match *m, hn_sid v) {
    if (is_stored(m->loop, v)) return false;
    for (hn_sid k = v + 1; k < m->loop->body.count; k++)
        if (uses(op_of(m->loop, k), v) && !is_inside(m, k)) return false;
    return true;
}

static bool is_closed(const match *m, hn_sid root) {
    for (uint32_t k = 0; k < m->inside_count; k++)
        if (m->inside[k] != root && !stays_inside(m, m->inside[k])) return false;
    return stays_inside(m, m->x);
}

/* --- what stands behind one load of the result --- */

typedef enum stage { STAGE_FACTOR, STAGE_SHIFT, STAGE_RESIDUAL, STAGE_ACTIVATION, STAGES } stage;

typedef struct tail {
    hn_item item;
    hn_sid load;
    hn_sid root[STAGES]; /* what a stage makes; 0: it is absent */
    call_side side[STAGES];
    hn_epilogue activation;
} tail;

/* A call and the loads of its result. */
typedef struct reading {
    calls *c;
    const hn_operation *operation;
    hn_item i;
    hn_extern *call;
    hn_buf result;
    hn_dtype dtype; /* of the result */
    call_space space;
    tail *tails;
    uint32_t tail_count;
} reading;

static bool is_narrow(hn_dtype dtype) { return dtype == HN_DTYPE_F16 || dtype == HN_DTYPE_BF16; }

static uint32_t epilogues_of(const reading *r) {
    return is_narrow(r->dtype) ? r->operation->narrow_epilogues : r->operation->epilogues;
}

static hn_sym *sym_of(const reading *r) { return r->c->s->sym; }

/* The op that alone uses `v`; 0: there are several, or none. */
static hn_sid only_user(const hn_loop *loop, hn_sid v) {
    hn_sid user = 0;
    if (is_stored(loop, v)) return 0;
    for (hn_sid k = v + 1; k < loop->body.count; k++) {
        if (!uses(op_of(loop, k), v)) continue;
        if (user) return 0;
        user = k;
    }
    return user;
}

/* Whether a costly activation `root` is worth it. Measured for two linear layers with GELU or SiLU
 * between them, on one thread: from 256 results on the tiles were mostly 2 to 9 % slower than a
 * kernel for the activation, and about equal for 1, 4 and 16 rows with many columns; two-thread
 * readings of large sizes were too noisy to tell (docs/contractions.md). Nor is it worth it where
 * the kernel stays anyway. Convolutions always take theirs. */
static bool is_worth(const reading *r, const hn_loop *loop, hn_sid root) {
    if (r->call->kind == HN_EXTERN_CONV) return true;
    int64_t elems =
        hn_sym_hint(sym_of(r), hn_sym_product(sym_of(r), r->space.extents, r->space.count), 8192);
    bool saves_kernel = r->c->uses[r->result].readers == 1 && loop->kind == HN_LOOP_POINTWISE &&
                        loop->store.value == root;
    return saves_kernel && elems <= r->c->s->options->limits->costly_epilogue_max_elems;
}

/* Whether an activation may have `op` at its end: `which`, or what rounds it to 16 bits. */
static bool may_end(const reading *r, const hn_sop *op, hn_op which) {
    if (op->dtype != r->dtype) return false;
    return (op->kind == HN_SOP_ELEM && op->op == which) ||
           (op->kind == HN_SOP_CAST && is_narrow(r->dtype));
}

/* The largest activation of `x` that an op behind it is. *out_root: that op. */
static hn_epilogue activation_of(const reading *r, const hn_loop *loop, hn_sid x, bool only_worthy,
                                 hn_sid *out_root) {
    for (hn_sid root = loop->body.count; --root > x;)
        for (size_t k = 0; k < HN_COUNT_OF(activations); k++) {
            if (!may_end(r, op_of(loop, root), activations[k].root->op))
                continue; /* most are refused here */
            if (!(epilogues_of(r) >> activations[k].epilogue & 1)) continue;
            match m = {.loop = loop, .x = x, .dtype = r->dtype};
            if (!matches(&m, activations[k].root, root) || !is_closed(&m, root)) continue;
            if (only_worthy && activations[k].is_costly && !is_worth(r, loop, root)) continue;
            *out_root = root;
            return activations[k].epilogue;
        }
    return HN_EPILOGUE_NONE;
}

/* The memory that `load` reads, by the dimensions of the call. */
static bool side_of(const reading *r, const hn_loop *loop, hn_sid result, hn_sid load,
                    call_side *out) {
    const hn_sop *op = op_of(loop, load);
    loop_access by, what;
    memset(out, 0, sizeof *out);
    if (op->kind != HN_SOP_LOAD || op->dtype != HN_DTYPE_F32 || op->buffer == r->result)
        return false;
    if (!loop_access_of(r->c->s, loop, op_of(loop, result)->index, &by) ||
        !loop_access_of(r->c->s, loop, op->index, &what))
        return false;
    out->buffer = op->buffer;
    out->offset = what.rest;
    return loop_strides_of(r->c->s, &r->space, loop, &by, &what, out->strides, NULL);
}

static bool is_constant(const reading *r, hn_buf b) {
    const hn_buffer *buffer = &r->c->s->p->buffers.items[b];
    const hn_graph *g = r->c->s->p->graph;
    return buffer->kind == HN_BUFFER_INPUT && buffer->input < g->inputs.count &&
           g->inputs.items[buffer->input].kind == HN_INPUT_CONSTANT;
}

/* One number for each channel, one after the other. */
static bool is_of_channels(const reading *r, const call_side *side) {
    for (uint32_t d = 0; d < r->space.count; d++) {
        bool one = hn_sym_is_value(sym_of(r), r->space.extents[d], 1);
        if (!one && !hn_sym_is_value(sym_of(r), side->strides[d], d == 1)) return false;
    }
    return is_constant(r, side->buffer);
}

/* An element for each one of the result, and none for two. */
static bool is_whole(const reading *r, const call_side *side) {
    for (uint32_t d = 0; d < r->space.count; d++)
        if (hn_sym_is_value(sym_of(r), side->strides[d], 0) &&
            !hn_sym_is_value(sym_of(r), r->space.extents[d], 1))
            return false;
    return true;
}

static bool is_there(const reading *r, hn_buf b) {
    return !r->c->uses[b].writers || r->c->uses[b].writer < r->i;
}

/* A stage that combines what is behind the load so far with other memory. */
static void take_side(const reading *r, const hn_loop *loop, tail *t, stage k, hn_op op,
                      hn_sid *at) {
    hn_sid user = only_user(loop, *at);
    if (!user || !is_elem(op_of(loop, user), op)) return;
    hn_sid other = op_of(loop, user)->args[op_of(loop, user)->args[0] == *at];
    call_side side;
    if (other == *at || !side_of(r, loop, t->load, other, &side) ||
        !calls_knows_place(r->c, r->i, &r->space, &side, t->item))
        return;
    if (k == STAGE_RESIDUAL ? !is_whole(r, &side) || !is_there(r, side.buffer)
                            : !is_of_channels(r, &side))
        return;
    t->side[k] = side;
    t->root[k] = *at = user;
}

static bool may_scale(const reading *r) {
    const hn_expr *p = r->call->params;
    return !is_narrow(r->dtype) && r->operation->does & HN_DOES_CHANNELS &&
           r->call->kind == HN_EXTERN_CONV && !r->call->operands[3].buffer &&
           !r->call->operands[4].buffer && !r->call->operands[5].buffer &&
           hn_sym_is_value(sym_of(r), p[HN_CONV_W_CONSTANT], 1) &&
           hn_sym_is_value(sym_of(r), p[HN_CONV_TRANSPOSED], 0);
}

static void find_tail(const reading *r, const hn_loop *loop, tail *t) {
    hn_sid at = t->load;
    if (may_scale(r)) {
        take_side(r, loop, t, STAGE_FACTOR, HN_OP_MUL, &at);
        if (t->root[STAGE_FACTOR]) take_side(r, loop, t, STAGE_SHIFT, HN_OP_ADD, &at);
    }
    if (r->operation->does & HN_NEEDS_BIAS && !r->call->operands[3].buffer) return;
    if (r->operation->does & HN_DOES_RESIDUAL && !is_narrow(r->dtype) &&
        !r->call->operands[4].buffer)
        take_side(r, loop, t, STAGE_RESIDUAL, HN_OP_ADD, &at);
    t->activation = activation_of(r, loop, at, true, &t->root[STAGE_ACTIVATION]);
}

static bool stages_equal(const tail *a, const tail *b, stage k) {
    if (k == STAGE_ACTIVATION && a->activation != b->activation) return false;
    return !a->root[k] == !b->root[k] && memcmp(&a->side[k], &b->side[k], sizeof a->side[k]) == 0;
}

/* The stages from `k` on are dropped where the tails differ. */
static void keep_common(reading *r) {
    bool same = true;
    for (stage k = 0; k < STAGES; k++) {
        for (uint32_t t = 1; t < r->tail_count && same; t++)
            same = stages_equal(&r->tails[0], &r->tails[t], k);
        for (uint32_t t = 0; t < r->tail_count && !same; t++) r->tails[t].root[k] = 0;
    }
}

/* False when there are too many loads. */
static bool add_tails(reading *r, hn_item i) {
    const hn_loop *loop = calls_item(r->c, i)->loop;
    for (hn_sid k = 1; k < loop->body.count; k++) {
        if (op_of(loop, k)->kind != HN_SOP_LOAD || op_of(loop, k)->buffer != r->result) continue;
        if (r->tail_count == TAILS_MAX) return false;
        tail *t = &r->tails[r->tail_count++];
        memset(t, 0, sizeof *t);
        t->item = i;
        t->load = k;
        find_tail(r, loop, t);
    }
    return true;
}

static bool takes_anything(const tail *t) {
    for (stage k = 0; k < STAGES; k++)
        if (t->root[k]) return true;
    return false;
}

/* --- taking it --- */

static void take_operand(hn_extern *call, uint32_t operand, const call_side *side) {
    call->operands[operand] =
        (struct hn_extern_operand){.buffer = side->buffer, .offset_elems = side->offset};
}

static void fill_call(const reading *r, const tail *t) {
    hn_extern *call = r->call;
    hn_sym *sym = sym_of(r);
    bool is_conv = call->kind == HN_EXTERN_CONV;
    if (t->root[STAGE_FACTOR]) {
        take_operand(call, 5, &t->side[STAGE_FACTOR]);
        call->params[HN_CONV_SCALE + 1] = call->params[HN_CONV_SCALE_OUT] = hn_sym_int(sym, 1);
    }
    if (t->root[STAGE_SHIFT]) take_operand(call, 3, &t->side[STAGE_SHIFT]);
    if (t->root[STAGE_RESIDUAL]) {
        take_operand(call, 4, &t->side[STAGE_RESIDUAL]);
        calls_put_strides(r->c, &r->space, t->side[STAGE_RESIDUAL].strides,
                          &call->params[is_conv ? HN_CONV_RESIDUAL : HN_MATMUL_RESIDUAL]);
        r->c->uses[t->side[STAGE_RESIDUAL].buffer].readers++;
    }
    if (t->root[STAGE_ACTIVATION])
        call->params[is_conv ? HN_CONV_EPILOGUE : HN_MATMUL_EPILOGUE] =
            hn_sym_int(sym, t->activation);
}

static void replace(hn_loop *loop, hn_sid from, hn_sid to) {
    for (hn_sid k = from + 1; k < loop->body.count; k++)
        for (uint32_t a = 0; a < 3; a++)
            if (loop->body.items[k].args[a] == from) loop->body.items[k].args[a] = to;
    if (loop->store.value == from) loop->store.value = to;
    if (loop->indices.value == from) loop->indices.value = to;
}

/* The body without ops that nothing uses, which the call does from here on. Checks of indices
 * stay. */
static hn_status drop_unused(sched *s, hn_loop *loop, hn_extern *call) {
    hn_body old = loop->body, body = {0};
    hn_sid *map;
    bool *used;
    HN_NEW(s->scratch, map, old.count);
    HN_NEW(s->scratch, used, old.count);
    used[loop->store.value] = true;
    if (loop->indices.buffer) used[loop->indices.value] = true;
    for (hn_sid k = old.count; --k > 0;) {
        used[k] |= old.items[k].kind == HN_SOP_INDIRECT;
        for (uint32_t a = 0; a < 3 && used[k]; a++) used[old.items[k].args[a]] = true;
    }
    for (hn_sid k = 1; k < old.count; k++) {
        hn_sop op = old.items[k];
        if (!used[k]) {
            HN_TRY(hn_origins_add(s->arena, &call->origins, op.origin));
            continue;
        }
        for (uint32_t a = 0; a < 3; a++) op.args[a] = op.args[a] ? map[op.args[a]] : 0;
        map[k] = hn_body_add(s->arena, &body, &op);
        if (!map[k])
            return HN_ERROR(HN_OUT_OF_MEMORY, "out of memory while a call takes what is behind it");
    }
    loop->body = body;
    loop->store.value = map[loop->store.value];
    if (loop->indices.buffer) loop->indices.value = map[loop->indices.value];
    return NULL;
}

static hn_sid last_root(const tail *t) {
    hn_sid root = t->load;
    for (stage k = 0; k < STAGES; k++)
        if (t->root[k]) root = t->root[k];
    return root;
}

/* The result holds another value from here on: that of the loop's buffer, or of the node whose last
 * op the call does. A value inside a node is none of the model's. */
static void name_result(const reading *r, const tail *t) {
    const hn_loop *loop = calls_item(r->c, t->item)->loop;
    const hn_sid root = last_root(t);
    hn_buffer *buffers = r->c->s->p->buffers.items, *result = &buffers[r->result];
    result->value = loop->store.value == root ? buffers[loop->store.buffer].value : 0;
    result->origin = op_of(loop, root)->origin;
    for (hn_sid k = root + 1; k < loop->body.count; k++)
        if (uses(op_of(loop, k), root) && op_of(loop, k)->origin == result->origin)
            result->origin = 0;
}

static hn_status take(reading *r) {
    const tail *first = &r->tails[0];
    fill_call(r, first);
    name_result(r, first);
    for (uint32_t t = 0; t < r->tail_count; t++) {
        const tail *each = &r->tails[t];
        replace(calls_item(r->c, each->item)->loop, last_root(each), each->load);
    }
    for (uint32_t t = 0; t < r->tail_count; t++) /* ops keep their numbers until all are replaced */
        if (t == 0 || r->tails[t].item != r->tails[t - 1].item)
            HN_TRY(drop_unused(r->c->s, calls_item(r->c, r->tails[t].item)->loop, r->call));
    return NULL;
}

static bool allows(const reading *r) {
    return sched_allows(r->c->s, HN_SCHED_EPILOGUE, calls_item(r->c, r->i)->origin,
                        calls_item(r->c, r->c->uses[r->result].reader[0])->origin);
}

/* --- entry --- */

static void result_space(const hn_extern *call, call_space *out) {
    static const uint8_t conv[] = {HN_CONV_N, HN_CONV_O, HN_CONV_OUTSIZE, HN_CONV_OUTSIZE + 1,
                                   HN_CONV_OUTSIZE + 2};
    bool is_conv = call->kind == HN_EXTERN_CONV;
    *out = (call_space){.count = is_conv ? 5 : HN_EXTERN_BATCH + 2,
                        .offset = call->operands[0].offset_elems};
    for (uint32_t d = 0; d < out->count; d++) {
        out->extents[d] = call->params[is_conv ? conv[d] : HN_MATMUL_BATCH + d];
        out->strides[d] = call->params[(is_conv ? HN_CONV_OUT : HN_MATMUL_OUT) + d];
    }
}

/* All that read the result are loops, where the call is. */
static bool has_good_readers(const reading *r) {
    const use *u = &r->c->uses[r->result];
    if (u->readers > USE_READERS_MAX || u->writers != 1) return false;
    for (uint32_t k = 0; k < u->readers; k++)
        if (calls_item(r->c, u->reader[k])->kind != HN_ITEM_LOOP ||
            r->c->region[u->reader[k]] != r->c->region[r->i])
            return false;
    return u->readers > 0;
}

static bool has_activation(const reading *r) {
    return !hn_sym_is_value(
        sym_of(r),
        r->call->params[r->call->kind == HN_EXTERN_CONV ? HN_CONV_EPILOGUE : HN_MATMUL_EPILOGUE],
        0);
}

/* Whether an activation was left that is not worth it. */
static bool has_costly(const reading *r) {
    for (uint32_t t = 0; t < r->tail_count; t++) {
        const tail *each = &r->tails[t];
        hn_sid ignored;
        if (activation_of(r, calls_item(r->c, each->item)->loop, last_root(each), false, &ignored))
            return true;
    }
    return false;
}

/* The result would be neither written nor read. */
static hn_status refuse(const reading *r, hn_refusal_reason why) {
    const use *u = &r->c->uses[r->result];
    const sched *s = r->c->s;
    const hn_buffer *result = &s->p->buffers.items[r->result];
    const int64_t elems = hn_sym_hint(s->sym, result->extent, HINT_ELEMS),
                  size = (int64_t)hn_dtype_facts(result->dtype)->size_bytes;
    if (!u->readers) return NULL;
    return sched_refuse(r->c->s,
                        &(hn_refusal){.why = why,
                                      .first = calls_item(r->c, r->i)->origin,
                                      .second = calls_item(r->c, u->reader[0])->origin,
                                      .first_step = HN_REFUSAL_NO_STEP,
                                      .second_step = HN_REFUSAL_NO_STEP,
                                      .bytes = elems < INT64_MAX / 64 ? 2 * size * elems : 0,
                                      .shared_count = 1,
                                      .shared = {r->result}});
}

static hn_status take_tails(reading *r, bool *out_takes) {
    const use *u = &r->c->uses[r->result];
    *out_takes = false;
    if (has_activation(r)) return refuse(r, HN_REFUSED_HAS_ACTIVATION);
    bool all = true;
    for (uint32_t k = 0; k < u->readers && all; k++) all = add_tails(r, u->reader[k]);
    keep_common(r);
    *out_takes = all && r->tail_count && takes_anything(&r->tails[0]) && allows(r);
    if (*out_takes) {
        sched_done(r->c->s, HN_SCHED_EPILOGUE);
        return take(r);
    }
    return refuse(r, has_costly(r) ? HN_REFUSED_COSTLY_FUNCTION : HN_REFUSED_NO_SUCH_END);
}

/* One round. *out_again: the result is in other memory now, and its readers may want more. */
static hn_status take_round(calls *c, hn_item i, const hn_operation *o, bool *out_again) {
    hn_extern *call = calls_item(c, i)->ext;
    tail tails[TAILS_MAX];
    reading r = {.c = c,
                 .operation = o,
                 .i = i,
                 .call = call,
                 .result = call->operands[0].buffer,
                 .dtype = c->s->p->buffers.items[call->operands[0].buffer].dtype,
                 .tails = tails};
    bool takes;
    *out_again = false;
    if (c->s->p->buffers.items[r.result].kind != HN_BUFFER_TEMP) return NULL;
    if (!has_good_readers(&r)) return refuse(&r, HN_REFUSED_READ_TOO);
    result_space(call, &r.space);
    HN_TRY(take_tails(&r, &takes));
    if (!takes && is_narrow(r.dtype)) return NULL;
    return calls_take_copy(
        c,
        &(call_result){.i = i,
                       .strides = call->kind == HN_EXTERN_CONV ? HN_CONV_OUT : HN_MATMUL_OUT,
                       .space = r.space,
                       .keeps_rows = !takes || !(o->does & HN_DOES_STRIDES)},
        out_again);
}

hn_status calls_take_epilogues(calls *c, hn_item i, const hn_operation *o) {
    const hn_extern *call = calls_item(c, i)->ext;
    bool again = call->kind == HN_EXTERN_MATMUL || call->kind == HN_EXTERN_CONV;
    if (again) {
        const hn_dtype dtype = c->s->p->buffers.items[call->operands[0].buffer].dtype;
        again = dtype == HN_DTYPE_F32 || (is_narrow(dtype) && o->narrow_epilogues);
    }
    while (again) HN_TRY(take_round(c, i, o, &again));
    return NULL;
}
