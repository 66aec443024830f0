/* numbering.c: see numbering.h. */
#include "wrapper/numbering.h"

#include "codegen/codegen.h"
#include "wrapper/exprs.h"

uint32_t hn_wnumbering_node(const hn_wnumbering *n, hn_expr e) {
    const uint64_t *node = e ? hn_map_get(&n->known, e) : NULL;
    return node ? (uint32_t)*node : 0;
}

const hn_storage *hn_wnumbering_storage(const hn_wnumbering *n, uint32_t number) {
    return &n->w->graph->storages.items[n->places.storages.items[number].storage];
}

hn_status hn_wnumbering_bytes(const hn_wnumbering *n, uint32_t number, hn_arena *arena,
                              const uint8_t **out) {
    HN_TRY(
        hn_graph_storage_data(n->w->graph, n->places.storages.items[number].storage, arena, out));
    if (*out || !hn_wnumbering_storage(n, number)->size_bytes) return NULL;
    return HN_ERROR(HN_UNSUPPORTED,
                    "weight '" HN_STR_FMT "' has no bytes: the model holds only its description",
                    HN_STR_ARG(n->places.storages.items[number].name));
}

static hn_str symbol_name(const void *numbering, uint32_t symbol) {
    const hn_wnumbering *n = numbering;
    return hn_sym_symbol_name(n->w->sym, n->symbols.items[symbol].symbol);
}

hn_named_nodes hn_wnumbering_named(const hn_wnumbering *n) {
    return (hn_named_nodes){.nodes = n->nodes.items, .name = symbol_name, .context = n};
}

static hn_status add_expr(hn_wnumbering *n, hn_expr e, uint32_t *out_node);

static hn_status add_const(hn_wnumbering *n, int64_t value, uint32_t *out_node) {
    return hn_nodes_add(&n->nodes, HNB_OP_CONST, 0, value, out_node);
}

static hn_status add_symbol(hn_wnumbering *n, hn_expr symbol, uint32_t *out_node) {
    uint32_t place;
    if (hn_wsymbols_find(&n->symbols, symbol, &place))
        return hn_nodes_add(&n->nodes, HNB_OP_SYMBOL, place, 0, out_node);
    hn_str name = hn_sym_symbol_name(n->w->sym, symbol);
    hn_symbol_kind kind = hn_sym_symbol_kind(n->w->sym, symbol);
    if (kind == HN_SYMBOL_DATA)
        return HN_ERROR(HN_UNSUPPORTED,
                        "size '" HN_STR_FMT
                        "' depends on data, but nothing in the program defines it",
                        HN_STR_ARG(name));
    if (kind != HN_SYMBOL_SIZE)
        return HN_ERROR(HN_INTERNAL, "loop variable '" HN_STR_FMT "' in a wrapper",
                        HN_STR_ARG(name));
    return HN_ERROR(HN_UNSUPPORTED,
                    "size '" HN_STR_FMT "' is not determined by the shape of any input",
                    HN_STR_ARG(name));
}

/* total = total OP node, or node when there is no total yet. */
static hn_status add_to(hn_wnumbering *n, hnb_op op, uint32_t *total, uint32_t node) {
    if (*total) return hn_nodes_add(&n->nodes, op, *total, node, total);
    *total = node;
    return NULL;
}

static hn_status add_sum(hn_wnumbering *n, hn_expr e, uint32_t *out_node) {
    hn_sum sum = hn_sym_sum(n->w->sym, e);
    uint32_t total = 0, term, coeff;
    for (uint32_t k = 0; k < sum.count; k++) {
        HN_TRY(add_expr(n, sum.terms[k], &term));
        if (sum.coeffs[k] != 1) {
            HN_TRY(add_const(n, sum.coeffs[k], &coeff));
            HN_TRY(hn_nodes_add(&n->nodes, HNB_OP_MUL, coeff, term, &term));
        }
        HN_TRY(add_to(n, HNB_OP_ADD, &total, term));
    }
    if (sum.constant || !total) {
        HN_TRY(add_const(n, sum.constant, &term));
        HN_TRY(add_to(n, HNB_OP_ADD, &total, term));
    }
    *out_node = total;
    return NULL;
}

static hn_status add_args(hn_wnumbering *n, hn_expr e, hnb_op op, uint32_t *out_node) {
    uint32_t count, total = 0, node;
    const hn_expr *args = hn_sym_args(n->w->sym, e, &count);
    for (uint32_t k = 0; k < count; k++) {
        HN_TRY(add_expr(n, args[k], &node));
        HN_TRY(add_to(n, op, &total, node));
    }
    if (!total) return HN_ERROR(HN_INTERNAL, "expression without arguments");
    *out_node = total;
    return NULL;
}

static hn_status add_new(hn_wnumbering *n, hn_expr e, uint32_t *out_node) {
    int64_t value = 0;
    switch (hn_sym_kind(n->w->sym, e)) {
    case HN_EXPR_CONST:
        (void)hn_sym_is_int(n->w->sym, e, &value);
        return add_const(n, value, out_node);
    case HN_EXPR_SYMBOL: return add_symbol(n, e, out_node);
    case HN_EXPR_ADD: return add_sum(n, e, out_node);
    case HN_EXPR_MUL: return add_args(n, e, HNB_OP_MUL, out_node);
    case HN_EXPR_FLOORDIV: return add_args(n, e, HNB_OP_FLOORDIV, out_node);
    case HN_EXPR_MOD: return add_args(n, e, HNB_OP_MOD, out_node);
    case HN_EXPR_MIN: return add_args(n, e, HNB_OP_MIN, out_node);
    case HN_EXPR_MAX: return add_args(n, e, HNB_OP_MAX, out_node);
    case HN_EXPR_INVALID: break;
    }
    return HN_ERROR(HN_INTERNAL, "invalid expression in a wrapper");
}

/* Recursion is bounded by the depth limit of src/sym. */
static hn_status add_expr(hn_wnumbering *n, hn_expr e, uint32_t *out_node) {
    const uint64_t *known = hn_map_get(&n->known, e);
    if (known) {
        *out_node = (uint32_t)*known;
        return NULL;
    }
    HN_TRY(add_new(n, e, out_node));
    return hn_map_put(&n->known, e, *out_node);
}

static hn_status visit(void *context, hn_expr e) {
    uint32_t ignored;
    return add_expr(context, e, &ignored);
}

hn_status hn_wnumbering_add_shapes(hn_wnumbering *n) {
    for (hn_wbuf b = 1; b < n->w->buffers.count; b++) {
        const hn_wplace *place = &n->places.buffers[b];
        for (uint32_t d = 0; d < place->rank; d++) {
            HN_TRY(visit(n, place->sizes[d]));
            HN_TRY(visit(n, place->strides[d]));
        }
    }
    return NULL;
}

/* A number is in the record itself. */
static hn_status visit_quantity(hn_wnumbering *n, hn_expr e) {
    return !e || hn_sym_is_int(n->w->sym, e, NULL) ? NULL : visit(n, e);
}

hn_status hn_wnumbering_add_records(hn_wnumbering *n) {
    for (uint32_t k = 0; k < n->w->lines.count; k++) {
        const hn_wrecord *record = n->w->lines.items[k].record;
        if (!record) continue;
        HN_TRY(visit_quantity(n, record->work->traffic.read_expr));
        HN_TRY(visit_quantity(n, record->work->traffic.written_expr));
        HN_TRY(visit_quantity(n, record->work->operations_expr));
        for (uint32_t d = 0; d < record->work->rank; d++) HN_TRY(visit(n, record->work->sizes[d]));
    }
    return NULL;
}

static hn_status add_rests(hn_wnumbering *n) {
    for (uint32_t k = 0; k < n->symbols.solved_count; k++) {
        const hn_expr rest = n->symbols.items[k].rest;
        if (!hn_sym_is_value(n->w->sym, rest, 0)) HN_TRY(visit(n, rest));
    }
    return NULL;
}

/* Whether a symbol in `e` is in no input and was never defined: what is said of it concerns nothing
 * in the program, as all guards of sizes do in a program of weights. Where anything else has that
 * symbol, it is an error. */
static bool is_undefined(const hn_wnumbering *n, hn_expr e) {
    hn_expr symbols[64];
    uint32_t count = hn_sym_symbols(n->w->sym, e, symbols, 64), ignored;
    for (uint32_t k = 0; k < count && k < 64; k++)
        if (!hn_wsymbols_find(&n->symbols, symbols[k], &ignored)) return true;
    return false;
}

static hn_status add_guards(hn_wnumbering *n, hn_arena *arena) {
    uint32_t count;
    const hn_guard *guards = hn_sym_guards(n->w->sym, &count);
    for (uint32_t k = 0; k < count; k++) {
        if (is_undefined(n, guards[k].lhs) || is_undefined(n, guards[k].rhs)) continue;
        HN_TRY(visit(n, guards[k].lhs));
        HN_TRY(visit(n, guards[k].rhs));
        HN_PUSH(arena, &n->guards, guards[k]);
    }
    return NULL;
}

static hn_status find_values(hn_wnumbering *n, hn_arena *arena) {
    const hn_wrapper *w = n->w;
    HN_NEW(arena, n->inputs, w->inputs.count);
    HN_NEW(arena, n->outputs, w->outputs.count);
    for (uint32_t k = 0; k < w->inputs.count; k++)
        HN_TRY(hn_winput_value(&w->inputs.items[k], &n->inputs[k]));
    for (uint32_t k = 0; k < w->outputs.count; k++)
        HN_TRY(hn_woutput_value(&w->outputs.items[k], &n->outputs[k]));
    return NULL;
}

hn_status hn_wrapper_number(const hn_wrapper *w, const hn_memory_plan *plan, hn_arena *arena,
                            hn_wnumbering *out) {
    *out = (hn_wnumbering){.w = w, .plan = plan};
    hn_map_init(&out->known, arena);
    HN_TRY(hn_nodes_init(&out->nodes, arena));
    HN_TRY(hn_wrapper_solve(w, arena, &out->symbols));
    HN_TRY(hn_wrapper_place(w, plan, arena, &out->places));
    HN_TRY(find_values(out, arena));
    HN_TRY(add_rests(out));
    HN_TRY(add_guards(out, arena));
    return hn_wrapper_each_expr(w, plan, &out->places, visit, out);
}
