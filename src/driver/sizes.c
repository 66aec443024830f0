/* sizes.c: from the sizes of the inputs of a coming call to the symbols of the graph. See
 * sizes.h. */
#include "driver/sizes.h"

#include "base/checked.h"

typedef struct binder {
    const hn_graph *graph;
    const hn_input_sizes *inputs;
    hn_arena *arena;
    hn_size_values *out;
    bool fit;
} binder;

static bool is_bound(const binder *b, hn_expr symbol) {
    for (uint32_t k = 0; k < b->out->count; k++)
        if (b->out->symbols[k] == symbol) return true;
    return false;
}

static hn_status add(binder *b, hn_expr symbol, int64_t value) {
    hn_size_values *v = b->out;
    int64_t lo, hi;
    hn_sym_range(b->graph->sym, symbol, &lo, &hi);
    b->fit &= value >= lo && value <= hi;
    if (v->count == v->cap) {
        uint32_t cap = v->cap;
        HN_TRY(
            hn_arena_grow(b->arena, &v->symbols, &cap, v->count, v->count + 1, sizeof *v->symbols));
        cap = v->cap;
        HN_TRY(
            hn_arena_grow(b->arena, &v->values, &cap, v->count, v->count + 1, sizeof *v->values));
        v->cap = cap;
    }
    v->symbols[v->count] = symbol;
    v->values[v->count++] = value;
    return NULL;
}

/* The one symbol of `x` that has no value yet; 0 when there are none or several. */
static hn_expr lone_symbol(const binder *b, hn_expr x) {
    hn_expr symbols[64], found = 0;
    uint32_t count = hn_sym_symbols(b->graph->sym, x, symbols, 64);
    for (uint32_t k = 0; k < count && k < 64; k++) {
        if (is_bound(b, symbols[k])) continue;
        if (found || hn_sym_symbol_kind(b->graph->sym, symbols[k]) != HN_SYMBOL_SIZE) return 0;
        found = symbols[k];
    }
    return count <= 64 ? found : 0;
}

/* x = value, where x = coeff * symbol + rest. */
static hn_status solve(binder *b, hn_expr x, int64_t value) {
    hn_sym *sym = b->graph->sym;
    hn_expr symbol = lone_symbol(b, x), coeff, rest;
    int64_t c, r, quotient;
    if (!symbol || !hn_sym_affine(sym, x, symbol, &coeff, &rest) ||
        !hn_sym_is_int(sym, coeff, &c) || !c)
        return NULL;
    if (!hn_sym_eval(sym, rest, b->out->symbols, b->out->values, b->out->count, &r) ||
        !hn_sub_i64(value, r, &value))
        return NULL;
    if (!hn_floor_div_i64(value, c, &quotient) || hn_floor_mod(value, c) != 0) {
        b->fit = false;
        return NULL;
    }
    return add(b, symbol, quotient);
}

/* Where nothing is left to solve, the values must agree. */
static hn_status check(binder *b, hn_expr x, int64_t value) {
    int64_t expected;
    if (hn_sym_eval(b->graph->sym, x, b->out->symbols, b->out->values, b->out->count, &expected))
        b->fit &= expected == value;
    return NULL;
}

typedef hn_status (*visitor)(binder *b, hn_expr x, int64_t value);

static hn_status visit_input(binder *b, const hn_input *in, const hn_input_sizes *given,
                             visitor visit) {
    if (in->kind == HN_INPUT_SCALAR) return NULL;
    const hn_value_info *info = hn_graph_value(b->graph, in->value);
    if (info->kind == HN_VALUE_SYM_INT)
        return given->has_value ? visit(b, info->expr, given->value) : NULL;
    if (info->kind != HN_VALUE_TENSOR) return NULL;
    b->fit &= info->rank == given->rank;
    for (uint32_t d = 0; b->fit && d < info->rank; d++)
        HN_TRY(visit(b, info->sizes[d], given->sizes[d]));
    return NULL;
}

static bool is_user_input(const hn_input *in) {
    return in->kind == HN_INPUT_USER || in->kind == HN_INPUT_SCALAR;
}

static bool is_tensor(const hn_graph *g, const hn_input *in) {
    return in->kind == HN_INPUT_USER && hn_graph_value(g, in->value)->kind == HN_VALUE_TENSOR;
}

/* Sizes come for all inputs, or for those that are tensors. */
static hn_status visit_inputs(binder *b, bool tensors_only, visitor visit) {
    uint32_t next = 0;
    for (uint32_t k = 0; k < b->graph->inputs.count; k++) {
        const hn_input *in = &b->graph->inputs.items[k];
        if (!is_user_input(in) || (tensors_only && !is_tensor(b->graph, in))) continue;
        HN_TRY(visit_input(b, in, &b->inputs[next++], visit));
    }
    return NULL;
}

hn_status hn_sizes_bind(const hn_graph *graph, const hn_input_sizes *inputs, uint32_t input_count,
                        hn_arena *arena, hn_size_values *out, bool *out_fit) {
    binder b = {.graph = graph, .inputs = inputs, .arena = arena, .out = out, .fit = true};
    uint32_t all = 0, tensors = 0;
    *out = (hn_size_values){.count = 0};
    for (uint32_t k = 0; k < graph->inputs.count; k++) {
        all += is_user_input(&graph->inputs.items[k]);
        tensors += is_tensor(graph, &graph->inputs.items[k]);
    }
    *out_fit = input_count == all || input_count == tensors;
    if (!*out_fit) return NULL;
    bool tensors_only = input_count != all;
    for (uint32_t before = UINT32_MAX; b.fit && before != out->count;) {
        before = out->count;
        HN_TRY(visit_inputs(&b, tensors_only, solve));
    }
    if (b.fit) HN_TRY(visit_inputs(&b, tensors_only, check));
    *out_fit = b.fit;
    return NULL;
}

bool hn_sizes_satisfy(const hn_sym *sym, const hn_size_values *values) {
    uint32_t count;
    const hn_guard *guards = hn_sym_guards(sym, &count);
    for (uint32_t k = 0; k < count; k++) {
        int64_t lhs, rhs;
        if (!hn_sym_eval(sym, guards[k].lhs, values->symbols, values->values, values->count,
                         &lhs) ||
            !hn_sym_eval(sym, guards[k].rhs, values->symbols, values->values, values->count, &rhs))
            continue; /* what only the data tells is found when the program runs */
        if (!hn_relation_holds(guards[k].relation, lhs, rhs)) return false;
    }
    return true;
}

void hn_sizes_expect(hn_sym *sym, const hn_size_values *values) {
    for (uint32_t k = 0; k < values->count; k++)
        hn_sym_set_hint(sym, values->symbols[k], values->values[k]);
}
