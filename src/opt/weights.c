/* weights.c: what depends on weights alone is computed once.
 *
 * Algorithm: one walk forwards finds the values that are computed from weights and numbers alone,
 * and what each costs a call. One walk backwards, from what calls need, chooses: where a call needs
 * such a value, either the value is kept, and its node moves to the program of weights; or the node
 * stays, and calls need its operands. Costs are in bytes that a call would move.
 *
 * A value is kept when reading it costs a call clearly less than computing it, and when it has not
 * much more bytes than the weights that it is made of: a result that is larger, such as an expanded
 * or unpacked weight, would take memory that the model was made to save. What is computed from
 * numbers alone is for constant folding. Views are never kept, but what they look at. All together
 * have a limit. Where little is gained, nothing is done: a program costs a compilation, and time
 * when the model is opened.
 *
 * Requires: primitives. Establishes: hn_graph.weights_program, or nothing.
 * Preserves: values, and layouts of outputs.
 *
 *   %1 = matmul(%b, %a)  %2 = add(%w, %1)  %3 = matmul(%x, %2)
 *   ->  weights graph { %1 = matmul(%b, %a)  %2 = add(%w, %1)  output %2 }  %3 = matmul(%x, %2) */
#include "opt/weights.h"

#include "base/checked.h"
#include "base/log.h"

/* An addition takes about as long as half a byte from memory (fold/fold.c: eight for a float from a
 * cache); a multiplication of a contraction half of that. */
#define ADD_BYTES    0.5
#define MULADD_BYTES 0.25
/* A call that reads a kept value must save this part of the value's bytes at least. */
#define LEAST_PART 0.5
/* Bytes of a kept value for each byte of the weights that it is made of, at most; smaller ones may
 * have more: tables. */
#define MOST_GROWTH 2.0
#define SMALL_BYTES ((double)(1 << 20))
/* All kept values may have this many bytes, and as many as all weights. */
#define SMALL_MODEL_BYTES ((uint64_t)16 << 20)

enum { NEEDED = 1, IN_MEMORY = 2, IS_OUTPUT = 4, KEPT = 8, FOR_KEPT = 16 };

typedef struct finder {
    hn_graph *g;
    hn_weights_limits limits;
    hn_limit *limit;
    uint8_t *is_const, *marks; /* per value */
    double *costs;             /* per value: what a call pays that computes it */
    double *sources;           /* per value: bytes of the weights that it is made of */
    double kept_bytes, gain;
} finder;

/* ---- sizes ---- */

/* Elements of a tensor of known sizes; negative: they are not known, or too many. */
static double numel(const hn_graph *g, hn_value v) {
    const hn_value_info *info = hn_graph_value(g, v);
    int64_t count = 1, size;
    if (info->kind != HN_VALUE_TENSOR) return -1;
    for (uint32_t d = 0; d < info->rank; d++)
        if (!hn_sym_is_int(g->sym, info->sizes[d], &size) || !hn_mul_i64(count, size, &count))
            return -1;
    return (double)count;
}

static double bytes_of(const hn_graph *g, hn_value v) {
    return numel(g, v) * hn_dtype_facts(hn_graph_value(g, v)->dtype)->size_bytes;
}

/* ---- forwards: what is constant, and what it costs ---- */

static bool is_weight(const hn_input *in) {
    return in->kind == HN_INPUT_PARAMETER || in->kind == HN_INPUT_BUFFER ||
           in->kind == HN_INPUT_CONSTANT;
}

/* Inputs that lie in one storage change together. */
static hn_status find_inputs(finder *f, hn_arena *scratch) {
    hn_graph *g = f->g;
    uint8_t *is_changed;
    HN_NEW(scratch, is_changed, g->storages.count);
    for (uint32_t k = 0; k < g->outputs.count; k++)
        if (g->outputs.items[k].kind == HN_OUTPUT_MUTATION)
            is_changed[g->inputs.items[g->outputs.items[k].target].storage] = 1;
    for (uint32_t k = 0; k < g->inputs.count; k++) {
        const hn_input *in = &g->inputs.items[k];
        if (!is_weight(in) || !in->storage || is_changed[in->storage]) continue;
        const double bytes = bytes_of(g, in->value);
        if (bytes < 0) continue;
        f->is_const[in->value] = 1;
        f->costs[in->value] = f->sources[in->value] = bytes;
    }
    return NULL;
}

typedef struct operands {
    const finder *f;
    bool are_const;
    double costs, sources, most; /* sums; elements of the largest */
} operands;

static void look_at_operand(void *user, hn_value v) {
    operands *o = user;
    o->are_const &= o->f->is_const[v] != 0;
    o->costs += o->f->costs[v];
    o->sources += o->f->sources[v];
    const double count = numel(o->f->g, v);
    if (count > o->most) o->most = count;
}

static bool has_known_args(const hn_graph *g, const hn_node_info *n) {
    for (uint32_t k = 0; k < n->arg_count; k++) {
        const hn_arg *arg = &n->args[k];
        if (arg->kind == HN_ARG_GRAPH) return false;
        if (arg->kind == HN_ARG_INT && !hn_sym_is_int(g->sym, arg->as.expr, NULL)) return false;
        for (uint32_t i = 0; arg->kind == HN_ARG_INTS && i < arg->count; i++)
            if (!hn_sym_is_int(g->sym, arg->as.exprs[i], NULL)) return false;
    }
    return true;
}

static bool is_constant(const finder *f, const hn_node_info *n, const operands *o) {
    if (hn_op_is_aten(n->op) || hn_op_facts(n->op)->purity != HN_PURITY_PURE || !o->are_const ||
        !has_known_args(f->g, n))
        return false;
    for (uint32_t k = 0; k < n->result_count; k++)
        if (n->results[k] && numel(f->g, n->results[k]) < 0) return false;
    return true;
}

/* Whether the result is in memory in any case, since it is made by a loop or an operation of its
 * own. */
static bool is_made_in_memory(hn_op op) {
    switch (hn_op_facts(op)->op_class) {
    case HN_OPC_REDUCE:
    case HN_OPC_SCAN:
    case HN_OPC_SORT:
    case HN_OPC_CONTRACT: return true;
    default: return op == HN_OP_SCATTER || op == HN_OP_INDEX_PUT;
    }
}

/* How often an element of the result of a contraction multiplies and adds. */
static double row_of(const hn_graph *g, const hn_node_info *n) {
    const hn_value second = n->args[1].as.value;
    const hn_value_info *info = hn_graph_value(g, second);
    int64_t lines = 1;
    const bool is_matmul = n->op == HN_OP_MATMUL || n->op == HN_OP_GROUPED_MATMUL;
    if (is_matmul && info->rank > 1) {
        (void)hn_sym_is_int(g->sym, info->sizes[info->rank - 2], &lines);
        return (double)lines;
    }
    if (info->rank) (void)hn_sym_is_int(g->sym, info->sizes[0], &lines);
    return lines > 0 ? numel(g, second) / (double)lines : 0;
}

/* What computing the node adds to what its operands cost. */
static double work_of(const hn_graph *g, const hn_node_info *n, double most) {
    const double count = n->results[0] ? numel(g, n->results[0]) : most;
    const double adds = hn_op_facts(n->op)->cost;
    if (hn_op_is_elementwise(n->op)) return count * adds * ADD_BYTES;
    switch (hn_op_facts(n->op)->op_class) {
    case HN_OPC_CONTRACT: return count * row_of(g, n) * MULADD_BYTES;
    case HN_OPC_REDUCE:
    case HN_OPC_SCAN: return most * ADD_BYTES;
    case HN_OPC_SORT: return most * 32 * ADD_BYTES;
    case HN_OPC_DATA: return count * ADD_BYTES;
    default: return 0;
    }
}

/* Lookups read what they give, and a slice a part. */
static double operand_cost(const finder *f, const hn_node_info *n, const operands *o) {
    const hn_op op = n->op;
    if (op != HN_OP_INDEX && op != HN_OP_GATHER && op != HN_OP_SLICE) return o->costs;
    const hn_value x = n->args[0].as.value;
    const double all = f->costs[x], have = numel(f->g, x), want = numel(f->g, n->results[0]);
    return o->costs - all + (have > want ? all * want / have : all);
}

static void look_at_node(finder *f, const hn_node_info *n) {
    operands o = {.f = f, .are_const = true};
    hn_node_each_value(n, look_at_operand, &o);
    if (!is_constant(f, n, &o)) return;
    double cost = operand_cost(f, n, &o) + work_of(f->g, n, o.most);
    for (uint32_t k = 0; k < n->result_count; k++)
        if (n->results[k] && is_made_in_memory(n->op)) cost += 2 * bytes_of(f->g, n->results[k]);
    for (uint32_t k = 0; k < n->result_count; k++) {
        if (!n->results[k]) continue;
        f->is_const[n->results[k]] = 1;
        f->costs[n->results[k]] = cost;
        f->sources[n->results[k]] = o.sources;
    }
}

/* ---- backwards: what is kept ---- */

/* What a call saves by reading the result. */
static double gain_of(const finder *f, const hn_node_info *n, hn_value v) {
    const double bytes = bytes_of(f->g, v);
    const bool is_stored = f->marks[v] & IN_MEMORY && !is_made_in_memory(n->op);
    return f->costs[v] + (is_stored ? 2 * bytes : 0) - bytes;
}

static bool is_worth(const finder *f, const hn_node_info *n, hn_value v) {
    const double bytes = bytes_of(f->g, v);
    return bytes > 0 && f->sources[v] > 0 && gain_of(f, n, v) >= bytes * LEAST_PART &&
           (bytes <= SMALL_BYTES || bytes <= MOST_GROWTH * f->sources[v]) &&
           f->kept_bytes + bytes <= (double)f->limits.most_bytes;
}

/* Only the first result counts of a node with several, of which others may be needed, too. */
static bool is_to_keep(const finder *f, const hn_node_info *n) {
    const hn_op_class op_class = hn_op_facts(n->op)->op_class;
    if (op_class == HN_OPC_VIEW || op_class == HN_OPC_CREATE) return false;
    for (uint32_t k = 0; k < n->result_count; k++) {
        const hn_value v = n->results[k];
        if (!v || !(f->marks[v] & NEEDED)) continue;
        if (!is_worth(f, n, v) || (n->result_count > 1 && f->marks[v] & IS_OUTPUT)) return false;
    }
    return hn_limit_allows(f->limit, "weights are computed once", n->origin, 0);
}

typedef struct marker {
    uint8_t *marks, bits;
} marker;

static void mark(void *user, hn_value v) {
    const marker *m = user;
    m->marks[v] |= m->bits;
}

static uint8_t marks_of(const finder *f, const hn_node_info *n) {
    uint8_t marks = 0;
    for (uint32_t k = 0; k < n->result_count; k++)
        if (n->results[k]) marks |= f->marks[n->results[k]];
    return marks;
}

/* What operations want is in memory; so is what they want a view of. */
static uint8_t wants(const hn_node_info *n, uint8_t results) {
    const hn_op_class op_class = hn_op_facts(n->op)->op_class;
    if (op_class == HN_OPC_VIEW) return NEEDED | (results & IN_MEMORY);
    return op_class == HN_OPC_CONTRACT || op_class == HN_OPC_SORT ? NEEDED | IN_MEMORY : NEEDED;
}

static void keep(finder *f, const hn_node_info *n) {
    for (uint32_t k = 0; k < n->result_count; k++) {
        const hn_value v = n->results[k];
        if (!v || !(f->marks[v] & NEEDED)) continue;
        f->gain += gain_of(f, n, v);
        f->kept_bytes += bytes_of(f->g, v);
        f->marks[v] |= KEPT | FOR_KEPT;
    }
}

static bool node_is_const(const finder *f, const hn_node_info *n) {
    for (uint32_t k = 0; k < n->result_count; k++)
        if (n->results[k]) return f->is_const[n->results[k]];
    return false;
}

static void choose(finder *f, const hn_node_info *n) {
    marker m = {.marks = f->marks};
    const uint8_t results = marks_of(f, n);
    const bool is_const = node_is_const(f, n);
    const bool is_kept = is_const && results & NEEDED && is_to_keep(f, n);
    if (is_kept) keep(f, n);
    if (!is_const || (results & NEEDED && !is_kept)) m.bits |= wants(n, results);
    if (is_const && (results & FOR_KEPT || is_kept)) m.bits |= FOR_KEPT;
    hn_node_each_value(n, mark, &m);
}

static hn_status find(finder *f, hn_arena *scratch) {
    hn_graph *g = f->g;
    HN_NEW(scratch, f->is_const, g->values.count);
    HN_NEW(scratch, f->marks, g->values.count);
    HN_NEW(scratch, f->costs, g->values.count);
    HN_NEW(scratch, f->sources, g->values.count);
    HN_TRY(find_inputs(f, scratch));
    for (hn_node n = 1; n < g->nodes.count; n++) look_at_node(f, &g->nodes.items[n]);
    for (uint32_t k = 0; k < g->outputs.count; k++)
        f->marks[g->outputs.items[k].value] |= NEEDED | IS_OUTPUT;
    for (hn_node n = g->nodes.count; n-- > 1;) choose(f, &g->nodes.items[n]);
    return NULL;
}

/* ---- the pass ---- */

/* By default the memory of the weights may double. */
static uint64_t default_bytes(const hn_graph *g) {
    uint64_t sum = 0;
    for (uint32_t k = 1; k < g->storages.count; k++) sum += g->storages.items[k].size_bytes;
    return sum > SMALL_MODEL_BYTES ? sum : SMALL_MODEL_BYTES;
}

/* Nodes whose results are all kept, or that nothing but the program of weights needs, go. */
static hn_status divide(finder *f, hn_arena *scratch) {
    hn_weights_split split;
    HN_TRY(hn_weights_split_begin(f->g, scratch, &split));
    for (hn_node n = 1; n < f->g->nodes.count; n++) {
        const uint8_t marks = marks_of(f, &f->g->nodes.items[n]);
        if (!node_is_const(f, &f->g->nodes.items[n])) continue;
        if (marks & FOR_KEPT) HN_TRY(hn_weights_split_copy(&split, n));
        for (uint32_t k = 0; marks & KEPT && k < f->g->nodes.items[n].result_count; k++) {
            const hn_value v = f->g->nodes.items[n].results[k];
            if (v && f->marks[v] & KEPT)
                HN_TRY(hn_weights_split_keep(&split, v, f->marks[v] & IS_OUTPUT));
        }
        if (!(marks & NEEDED) || (marks & KEPT && !(marks & IS_OUTPUT)))
            f->g->nodes.items[n].dead = true;
    }
    return hn_weights_split_end(&split);
}

hn_status hn_pass_weights(hn_graph *g, hn_pass_context *context) {
    finder f = {
        .g = g, .limits = {default_bytes(g), HN_WEIGHTS_LEAST_GAIN}, .limit = context->limit};
    if (context->weights) f.limits = *context->weights;
    context->is_unchanged = true;
    if (g->weights_program || !f.limits.most_bytes) return NULL;
    HN_TRY(find(&f, context->scratch));
    if (!f.kept_bytes || f.gain < f.limits.least_gain) return NULL;
    context->is_unchanged = false;
    hn_log("pass", HN_LOG_INFO,
           "weights: %.0f bytes are computed once, a call saves as many as %.0f", f.kept_bytes,
           f.gain);
    return divide(&f, context->scratch);
}
