/* epilogue.c: what stands behind a contraction or a convolution and is done by the runtime itself, while the result is still
 * in the cache: the sum with another value of the same sizes (a residual connection), then an activation.
 *
 *   relu(add(conv(x, w, b), r))      ->      conv with residual r and epilogue relu
 *   add(mul(conv(x, w), s), t)       ->      conv with factors s and bias t, where s and t are constants of the channels
 *
 * An activation is a pattern over primitives. What is taken feeds nothing but the pattern, and nothing inside the pattern is
 * used elsewhere; reshapes on the way only name the same memory. A residual must be there before the contraction, as
 * memory: one that would be computed only for this is better computed in the kernel of the sum. */
#include "lower/internal.h"

#include "base/compiler.h"

#include <math.h>

/* A pattern node: an op with one or two operands, the contraction's result, or a constant. */
typedef struct pattern {
    hn_op op; /* HN_OP_NONE: the result X; HN_OP_FULL: the constant `c` */
    const struct pattern *a, *b;
    double c;
} pattern;

#define X_ (&(const pattern){.op = HN_OP_NONE})
#define C_(value) (&(const pattern){.op = HN_OP_FULL, .c = (value)})
#define U_(name, x) (&(const pattern){.op = HN_OP_##name, .a = (x)})
#define B_(name, x, y) (&(const pattern){.op = HN_OP_##name, .a = (x), .b = (y)})
#define CLAMP6_ B_(MIN, B_(MAX, B_(ADD, X_, C_(3)), C_(0)), C_(6))
#define CUBE_ B_(MUL, B_(MUL, X_, X_), X_)
#define HALF_GATED(gate) B_(MUL, B_(MUL, X_, C_(0.5)), B_(ADD, gate, C_(1)))
#define TANH_ARGUMENT(cube) B_(MUL, B_(ADD, X_, B_(MUL, cube, C_(0.044715))), C_(0.7978845608028654))

static const struct {
    hn_epilogue epilogue;
    const pattern *root;
} activations[] = {
    {HN_EPILOGUE_HARDSWISH, B_(DIV, B_(MUL, X_, CLAMP6_), C_(6))},
    {HN_EPILOGUE_HARDSWISH, B_(MUL, X_, B_(DIV, CLAMP6_, C_(6)))},
    {HN_EPILOGUE_HARDSWISH, B_(MUL, B_(MUL, X_, CLAMP6_), C_(1.0 / 6))},
    {HN_EPILOGUE_HARDSIGMOID, B_(DIV, CLAMP6_, C_(6))},
    {HN_EPILOGUE_HARDSIGMOID, B_(MUL, CLAMP6_, C_(1.0 / 6))},
    {HN_EPILOGUE_GELU_ERF, HALF_GATED(U_(ERF, B_(MUL, X_, C_(0.7071067811865476))))},
    {HN_EPILOGUE_GELU_TANH, HALF_GATED(U_(TANH, TANH_ARGUMENT(CUBE_)))},
    {HN_EPILOGUE_GELU_TANH, HALF_GATED(U_(TANH, TANH_ARGUMENT(B_(POW, X_, C_(3)))))},
    {HN_EPILOGUE_SILU, B_(MUL, X_, U_(SIGMOID, X_))},
    {HN_EPILOGUE_RELU, U_(RELU, X_)},
    {HN_EPILOGUE_RELU, B_(MAX, X_, C_(0))},
    {HN_EPILOGUE_SIGMOID, U_(SIGMOID, X_)},
    {HN_EPILOGUE_TANH, U_(TANH, X_)},
};

static hn_sid gen_pattern(lower_body *b, const pattern *p, hn_sid x) {
    if (p->op == HN_OP_NONE) return x;
    if (p->op == HN_OP_FULL)
        return lower_gen_sop(b, (hn_sop){.kind = HN_SOP_CONST, .dtype = HN_DTYPE_F32, .imm.f = (double)(float)p->c});
    hn_sop op = {.kind = HN_SOP_ELEM, .op = p->op, .dtype = HN_DTYPE_F32};
    op.args[0] = gen_pattern(b, p->a, x);
    if (p->b) op.args[1] = gen_pattern(b, p->b, x);
    return lower_gen_sop(b, op);
}

hn_sid lower_gen_epilogue(lower_body *b, hn_epilogue kind, hn_sid x) {
    for (size_t k = 0; k < HN_COUNT_OF(activations); k++)
        if (activations[k].epilogue == kind) return gen_pattern(b, activations[k].root, x);
    return x;
}

enum { MAX_INSIDE = 16, MAX_CHAIN = 4 };

/* From an X back to its contraction: nodes that each are the only reader of the one before. */
typedef struct chain {
    hn_value contraction, residual; /* residual 0: none */
    hn_value factor, shift;         /* of a convolution's channels; 0: none */
    hn_node nodes[MAX_CHAIN];
    uint32_t count;
    bool reshapes;
} chain;

/* One attempt: what X is, and which nodes the pattern covers. */
typedef struct match {
    lower *l;
    hn_value x;
    uint32_t x_uses; /* operands of the pattern that are x */
    chain from;
    hn_node inside[MAX_INSIDE];
    uint32_t inside_count;
} match;

static hn_node_info *maker(const match *m, hn_value v) {
    hn_node n = hn_graph_value(m->l->g, v)->producer;
    return n ? hn_graph_node(m->l->g, n) : NULL;
}

/* The value of a FULL, through casts of it. */
static bool constant_of(const match *m, hn_value v, double *out) {
    const hn_node_info *n = maker(m, v);
    int64_t i;
    if (!n || n->op != HN_OP_FULL) return false;
    if (n->args[0].kind == HN_ARG_FLOAT) {
        *out = n->args[0].as.f;
        return true;
    }
    if (n->args[0].kind != HN_ARG_INT || !hn_sym_is_int(m->l->sym, n->args[0].as.expr, &i)) return false;
    *out = (double)i;
    return true;
}

static bool read_once(const lower *l, hn_value v) { return l->uses[v] == 1 && !l->output[v]; }

static bool has_same_sizes(lower *l, hn_value a, hn_value b) {
    const hn_value_info *x = hn_graph_value(l->g, a), *y = hn_graph_value(l->g, b);
    return x->dtype == y->dtype && x->rank == y->rank && hn_same_sizes(l->g, x->sizes, y->sizes, x->rank);
}

static bool find_factor(const match *m, const hn_node_info *mul, chain *out);
static bool find_shift(const match *m, const hn_node_info *add, chain *out);

/* Whether `v` is memory in any case: expressions with one reader are not. */
static bool is_memory(const match *m, hn_value v) {
    const lower *l = m->l;
    for (const hn_node_info *n; (n = maker(m, v)); v = n->args[0].as.value) {
        hn_op_class class = hn_op_facts(n->op)->op_class;
        if (class == HN_OPC_VIEW) continue;
        chain own = {0};
        if ((n->op == HN_OP_ADD && find_shift(m, n, &own)) || (n->op == HN_OP_MUL && find_factor(m, n, &own))) return true;
        bool is_computed = hn_op_is_elementwise(n->op) || class == HN_OPC_CREATE || class == HN_OPC_DATA;
        return !is_computed || (class != HN_OPC_CREATE && (l->uses[v] > 1 || l->output[v]));
    }
    return hn_graph_value(l->g, v)->kind == HN_VALUE_TENSOR;
}

static bool find_contraction(const match *m, hn_value v, chain *out);

/* One operand leads to a contraction, the other one is there before it. */
static bool find_sum(const match *m, const hn_node_info *add, chain *out) {
    hn_value v[2] = {add->args[0].as.value, add->args[1].as.value};
    if (out->residual || v[0] == v[1] || !has_same_sizes(m->l, v[0], v[1])) return false;
    for (int side = 0; side < 2; side++) {
        chain attempt = *out;
        attempt.residual = v[1 - side];
        if (!read_once(m->l, v[side]) || !is_memory(m, v[1 - side]) || !find_contraction(m, v[side], &attempt)) continue;
        if (hn_graph_value(m->l->g, v[1 - side])->producer >= hn_graph_value(m->l->g, attempt.contraction)->producer) continue;
        *out = attempt;
        return true;
    }
    return false;
}

/* Whether `v` is a constant of one number for each channel of `like`. */
static bool is_channel_constant(const match *m, hn_value v, hn_value like) {
    const hn_value_info *vi = hn_graph_value(m->l->g, v), *li = hn_graph_value(m->l->g, like);
    bool is_constant = false;
    if (vi->producer || vi->dtype != li->dtype || vi->rank > li->rank || vi->rank + 1 < li->rank || li->rank < 2) return false;
    for (uint32_t k = 0; k < vi->rank; k++) {
        uint32_t d = k + li->rank - vi->rank;
        bool fits = d == 1 ? hn_same_sizes(m->l->g, &vi->sizes[k], &li->sizes[d], 1) : hn_sym_is_value(m->l->sym, vi->sizes[k], 1);
        if (!fits) return false;
    }
    for (uint32_t k = 0; k < m->l->g->inputs.count; k++) {
        const hn_input *in = &m->l->g->inputs.items[k];
        is_constant |= in->value == v && in->kind == HN_INPUT_CONSTANT;
    }
    return is_constant;
}

/* mul(conv(x, w), factor); and add(that, shift). Weights must be ones that are packed once. */
static bool find_factor(const match *m, const hn_node_info *mul, chain *out) {
    for (int side = 0; side < 2; side++) {
        hn_value y = mul->args[side].as.value, factor = mul->args[1 - side].as.value;
        const hn_node_info *conv = maker(m, y);
        if (!conv || conv->op != HN_OP_CONV || hn_graph_value(m->l->g, y)->dtype != HN_DTYPE_F32) continue;
        bool has_bias = conv->args[2].kind == HN_ARG_VALUE, is_transposed = conv->args[6].as.b;
        if (has_bias || is_transposed || maker(m, conv->args[1].as.value)) continue;
        if (!read_once(m->l, y) || !is_channel_constant(m, factor, y)) continue;
        out->contraction = y, out->factor = factor;
        return true;
    }
    return false;
}

static bool find_shift(const match *m, const hn_node_info *add, chain *out) {
    for (int side = 0; side < 2; side++) {
        hn_value y = add->args[side].as.value, shift = add->args[1 - side].as.value;
        const hn_node_info *mul = maker(m, y);
        if (!mul || mul->op != HN_OP_MUL || out->count == MAX_CHAIN || !read_once(m->l, y) || !find_factor(m, mul, out)) continue;
        if (!is_channel_constant(m, shift, y)) {
            out->contraction = out->factor = 0;
            continue;
        }
        out->nodes[out->count++] = hn_graph_value(m->l->g, y)->producer;
        out->shift = shift;
        return true;
    }
    return false;
}

static bool find_contraction(const match *m, hn_value v, chain *out) {
    const hn_node_info *n = maker(m, v);
    if (!n) return false;
    if (n->op == HN_OP_MATMUL || n->op == HN_OP_CONV) {
        out->contraction = v;
        return true;
    }
    if (out->count == MAX_CHAIN || (n->op != HN_OP_RESHAPE && n->op != HN_OP_ADD && n->op != HN_OP_MUL)) return false;
    out->nodes[out->count++] = hn_graph_value(m->l->g, v)->producer;
    if (n->op == HN_OP_ADD) return find_shift(m, n, out) || find_sum(m, n, out);
    if (n->op == HN_OP_MUL) return find_factor(m, n, out);
    out->reshapes = true;
    return read_once(m->l, n->args[0].as.value) && find_contraction(m, n->args[0].as.value, out);
}

static bool matches(match *m, const pattern *p, hn_value v);

static bool matches_pair(match *m, const pattern *a, const pattern *b, hn_value x, hn_value y) {
    match before = *m;
    if (matches(m, a, x) && matches(m, b, y)) return true;
    *m = before;
    return false;
}

static bool matches(match *m, const pattern *p, hn_value v) {
    double c;
    if (p->op == HN_OP_NONE) {
        if (m->x ? m->x != v : !find_contraction(m, v, &m->from)) return false;
        m->x = v;
        m->x_uses++;
        return true;
    }
    if (p->op == HN_OP_FULL) return constant_of(m, v, &c) && fabs(c - p->c) <= 1e-6 * fabs(p->c);
    const hn_node_info *n = maker(m, v);
    if (!n || n->op != p->op || m->inside_count == MAX_INSIDE) return false;
    hn_node node = hn_graph_value(m->l->g, v)->producer;
    m->inside[m->inside_count++] = node;
    if (!p->b) return matches(m, p->a, n->args[0].as.value);
    hn_value x = n->args[0].as.value, y = n->args[1].as.value;
    if (matches_pair(m, p->a, p->b, x, y)) return true;
    return hn_op_has(p->op, HN_TRAIT_COMMUTES) && matches_pair(m, p->a, p->b, y, x);
}

/* Each covered value but the root is used by the pattern alone. A shared one (X^2 in X^3) counts each of its places. */
static bool is_closed(const match *m, hn_value root) {
    if (m->l->uses[m->x] != m->x_uses || m->l->output[m->x]) return false;
    for (uint32_t k = 0; k < m->inside_count; k++) {
        hn_value v = hn_graph_node(m->l->g, m->inside[k])->results[0];
        uint32_t places = 0;
        for (uint32_t e = 0; e < m->inside_count; e++) places += m->inside[e] == m->inside[k];
        if (v != root && (m->l->uses[v] != places || m->l->output[v])) return false;
    }
    return true;
}

/* Activations of a few instructions; the others take as long in a tile as in a kernel of their own. */
static bool is_cheap(hn_epilogue kind) { return kind <= HN_EPILOGUE_RELU || kind == HN_EPILOGUE_HARDSWISH || kind == HN_EPILOGUE_HARDSIGMOID; }

/* The result of a reshape is row-major in any shape; an output may ask for other strides. Behind a reshape, as linear layers have
 * it, a costly activation stays a kernel: 128 x 3072 GELUs take 100 us there and 150 us in the tiles. */
static bool take(const match *m, hn_epilogue kind, hn_value root) {
    lower *l = m->l;
    if (m->from.reshapes && !is_cheap(kind)) return false;
    if (m->from.reshapes && l->output[root] && hn_graph_value(l->g, root)->strides) return false;
    l->epilogues[m->from.contraction] = (lower_epilogue){kind, root, m->from.residual, m->from.factor, m->from.shift};
    for (uint32_t k = 0; k < m->inside_count; k++) l->covered[m->inside[k]] = true;
    for (uint32_t k = 0; k < m->from.count; k++) l->covered[m->from.nodes[k]] = true;
    return true;
}

static void try_root(lower *l, hn_value root) {
    if (hn_graph_value(l->g, root)->dtype != HN_DTYPE_F32) return; /* 16-bit floats round between the ops */
    for (size_t k = 0; k < HN_COUNT_OF(activations); k++) {
        match m = {.l = l};
        if (!matches(&m, activations[k].root, root) || !m.x || !is_closed(&m, root)) continue;
        if (has_same_sizes(l, m.x, root) && take(&m, activations[k].epilogue, root)) return;
    }
    match m = {.l = l};
    if (find_contraction(&m, root, &m.from) && (m.from.residual || m.from.factor)) take(&m, HN_EPILOGUE_NONE, root);
}

hn_status lower_find_epilogues(lower *l) {
    HN_NEW(l->scratch, l->epilogues, l->g->values.count);
    HN_NEW(l->scratch, l->covered, l->g->nodes.count);
    /* Backwards: the largest pattern first, so that SIGMOID does not take what SILU wants. */
    for (hn_node n = l->g->nodes.count; n-- > 1;) {
        const hn_node_info *node = hn_graph_node(l->g, n);
        if (!node->dead && !l->covered[n] && node->result_count == 1 && hn_op_is_elementwise(node->op)) try_root(l, node->results[0]);
    }
    return NULL;
}
