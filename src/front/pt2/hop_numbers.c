/* hop_numbers.c: whole numbers among what a loop takes and carries. One that is the same in all
 * rounds is an expression of sizes, which the body sees as it is. One that is carried is a tensor
 * of one i64 outside; inside, an ITEM reads it as the symbol that the file has for it:
 *
 *     while i < 5: i, x = i + 1, x * i
 *     loop body: %i = input, u0 = item %i, %next = %i + 1, %y = %x * u0
 *
 * What the body gives is built from the tensors, so that a number that is only counted is never
 * read: its ITEM goes again. */
#include "front/pt2/hop.h"

#include "base/compiler.h"
#include "ir/build.h"

#include <ctype.h>

/* ---- operands ---- */

static hn_status not_supported(void) {
    return HN_ERROR(HN_UNSUPPORTED, "operands of a loop that are no tensors and no whole numbers");
}

static hn_status operand_take(const hn_graph *g, hn_value v, hop_values *out, uint32_t k) {
    const hn_value_info *info = v ? hn_graph_value(g, v) : NULL;
    if (!info || (info->kind != HN_VALUE_TENSOR && (info->kind != HN_VALUE_SYM_INT || !info->expr)))
        return not_supported();
    if (info->kind == HN_VALUE_TENSOR) out->items[k] = v;
    else out->numbers[k] = info->expr;
    return NULL;
}

hn_status hop_operands_read(hn_pt2_scope *scope, const hop_args *args, uint32_t at,
                            hop_values *out) {
    hn_arg list;
    *out = (hop_values){0};
    if (at >= args->count) return NULL;
    hn_pt2_place place = args->items[at];
    HN_TRY(hn_pt2_arg_read(scope, &place, NULL, &list));
    const bool is_empty = list.kind == HN_ARG_NONE || list.count == 0;
    if (is_empty) return NULL;
    if (list.kind != HN_ARG_VALUES && list.kind != HN_ARG_INTS) return not_supported();
    HN_TRY(hop_values_make(scope, list.count, out));
    for (uint32_t k = 0; k < list.count; k++) {
        if (list.kind == HN_ARG_INTS) out->numbers[k] = list.as.exprs[k];
        else HN_TRY(operand_take(scope->graph, list.as.values[k], out, k));
    }
    return NULL;
}

hn_status hop_values_make(hn_pt2_scope *scope, uint32_t count, hop_values *out) {
    *out = (hop_values){.count = count};
    HN_NEW(scope->im->scratch, out->items, count);
    HN_NEW(scope->im->scratch, out->numbers, count);
    return NULL;
}

void hop_values_put(hop_values *to, uint32_t at, const hop_values *from) {
    for (uint32_t k = 0; k < from->count; k++) {
        to->items[at + k] = from->items[k];
        to->numbers[at + k] = from->numbers[k];
    }
}

void hop_values_to_tensors(hn_graph *g, hop_values *list) {
    for (uint32_t k = 0; k < list->count; k++)
        if (!list->items[k])
            list->items[k] = hn_b_full(g, hn_scalar_i(list->numbers[k]), NULL, 0, HN_DTYPE_I64);
}

bool hop_has_numbers(const hop_values *list) {
    for (uint32_t k = 0; k < list->count; k++)
        if (list->numbers[k]) return true;
    return false;
}

/* ---- sizes that only the data tells ---- */

/* Whether a name like u0 stands in the text in quotes: names of such symbols begin so. */
static bool names_data(hn_json place) {
    hn_json behind = place;
    if (!place.at) return false;
    hn_status status = hn_json_skip(&behind);
    hn_status_free(status);
    for (const char *p = place.at; p + 2 < behind.at; p++)
        if ((*p == '\'' || *p == '"') && p[1] == 'u' && isdigit((unsigned char)p[2])) return true;
    return false;
}

bool hop_has_data_sizes(const hn_pt2_graph_text *text) {
    return names_data(text->tensor_values) || names_data(text->sym_int_values);
}

/* ---- numbers as tensors ---- */

static hn_value known_value(const hop_numbers *known, hn_expr symbol) {
    for (uint32_t k = 0; k < known->count; k++)
        if (known->items[k].symbol == symbol) return known->items[k].value;
    return 0;
}

static bool uses_known(const hn_graph *g, const hop_numbers *known, hn_expr e) {
    for (uint32_t k = 0; k < known->count; k++)
        if (hn_sym_uses(g->sym, e, known->items[k].symbol)) return true;
    return false;
}

static hn_value build_sum(hn_graph *g, const hop_numbers *known, hn_expr e) {
    const hn_sum sum = hn_sym_sum(g->sym, e);
    const hn_expr constant = hn_sym_int(g->sym, sum.constant); /* a double would round it */
    hn_value all = hn_b_full(g, hn_scalar_i(constant), NULL, 0, HN_DTYPE_I64);
    for (uint32_t k = 0; k < sum.count; k++) {
        /* looked up again: the pointers end with the next expression that is made */
        const hn_sum now = hn_sym_sum(g->sym, e);
        const hn_expr coeff = hn_sym_int(g->sym, now.coeffs[k]);
        hn_value term = hop_number_build(g, known, hn_sym_sum(g->sym, e).terms[k]);
        if (!hn_sym_is_value(g->sym, coeff, 1))
            term = hn_b_binary(g, HN_OP_MUL, term,
                               hn_b_full(g, hn_scalar_i(coeff), NULL, 0, HN_DTYPE_I64));
        all = k || !hn_sym_is_value(g->sym, constant, 0) ? hn_b_binary(g, HN_OP_ADD, all, term)
                                                         : term;
    }
    return all;
}

hn_value hop_number_build(hn_graph *g, const hop_numbers *known, hn_expr e) {
    static const hn_op ops[] = {[HN_EXPR_MUL] = HN_OP_MUL,
                                [HN_EXPR_FLOORDIV] = HN_OP_FLOORDIV,
                                [HN_EXPR_MOD] = HN_OP_REMAINDER,
                                [HN_EXPR_MIN] = HN_OP_MIN,
                                [HN_EXPR_MAX] = HN_OP_MAX};
    uint32_t count = 0;
    if (!uses_known(g, known, e)) return hn_b_full(g, hn_scalar_i(e), NULL, 0, HN_DTYPE_I64);
    const hn_expr_kind kind = hn_sym_kind(g->sym, e);
    if (kind == HN_EXPR_SYMBOL) return known_value(known, e);
    if (kind == HN_EXPR_ADD) return build_sum(g, known, e);
    hn_sym_args(g->sym, e, &count);
    hn_value all = 0;
    for (uint32_t k = 0; k < count; k++) {
        const hn_value v = hop_number_build(g, known, hn_sym_args(g->sym, e, &count)[k]);
        all = k ? hn_b_binary(g, ops[kind], all, v) : v;
    }
    return all;
}

/* A bool tensor of one element that says whether all relations hold. */
static hn_value relations_build(hn_graph *g, const hop_numbers *known,
                                const hn_pt2_relation *relations, uint32_t count) {
    static const hn_op ops[] = {[HN_REL_EQ] = HN_OP_EQ,
                                [HN_REL_NE] = HN_OP_NE,
                                [HN_REL_LT] = HN_OP_LT,
                                [HN_REL_LE] = HN_OP_LE};
    hn_value all = count ? 0 : hn_b_scalar(g, 1, HN_DTYPE_BOOL);
    for (uint32_t k = 0; k < count; k++) {
        const hn_value lhs = hop_number_build(g, known, relations[k].lhs),
                       rhs = hop_number_build(g, known, relations[k].rhs),
                       holds = hn_b_binary(g, ops[relations[k].relation], lhs, rhs);
        all = k ? hn_b_binary(g, HN_OP_AND, all, holds) : holds;
    }
    return all;
}

hn_status hop_result_read(hn_pt2_scope *inner, hn_str name, const hop_numbers *known,
                          hn_value *out) {
    hn_pt2_name *entry = NULL;
    const hn_pt2_relation *relations = NULL;
    uint32_t count = 0;
    HN_TRY(hn_pt2_use(inner, name, &entry));
    switch (entry->kind) {
    case HN_PT2_TENSOR: return hn_pt2_use_value(inner, name, out);
    case HN_PT2_SYM_INT: *out = hop_number_build(inner->graph, known, entry->expr); break;
    case HN_PT2_SYM_BOOL:
        HN_TRY(hn_pt2_sym_bool_read(inner, entry, &relations, &count));
        *out = relations_build(inner->graph, known, relations, count);
        break;
    default:
        return HN_ERROR(HN_UNSUPPORTED, "'" HN_STR_FMT "', a result of a loop, is no tensor",
                        HN_STR_ARG(name));
    }
    return hn_graph_status(inner->graph);
}

/* ---- reading a number that is carried ---- */

hn_status hop_number_bind(hn_pt2_scope *inner, hn_str name, hn_value tensor, hop_numbers *known) {
    hn_pt2_name *entry = NULL;
    HN_TRY(hn_pt2_define(inner, name, HN_PT2_SYM_INT, &entry));
    if (entry->problem || hn_sym_kind(inner->im->sym, entry->expr) != HN_EXPR_SYMBOL)
        return HN_ERROR(HN_UNSUPPORTED, "'" HN_STR_FMT "', a number that is carried, is no symbol",
                        HN_STR_ARG(name));
    entry->value = hn_b_item(inner->graph, tensor, HN_VALUE_SYM_INT, entry->expr);
    HN_PUSH(inner->im->scratch, known,
            ((hop_number){.symbol = entry->expr, .value = tensor, .read = entry->value}));
    return hn_graph_status(inner->graph);
}

static bool arg_uses(const hn_graph *g, const hn_arg *arg, hn_expr symbol, hn_value read);

static bool graph_uses(const hn_graph *g, hn_expr symbol, hn_value read) {
    for (hn_value v = 1; v < g->values.count; v++) {
        const hn_value_info *info = hn_graph_value(g, v);
        for (uint32_t d = 0; d < info->rank; d++)
            if (hn_sym_uses(g->sym, info->sizes[d], symbol) ||
                (info->strides && hn_sym_uses(g->sym, info->strides[d], symbol)))
                return true;
        if (v != read && info->expr && info->producer && hn_sym_uses(g->sym, info->expr, symbol))
            return true;
    }
    for (hn_node n = 1; n < g->nodes.count; n++)
        for (uint32_t k = 0; k < g->nodes.items[n].arg_count; k++)
            if (arg_uses(g, &g->nodes.items[n].args[k], symbol, read)) return true;
    return false;
}

static bool arg_uses(const hn_graph *g, const hn_arg *arg, hn_expr symbol, hn_value read) {
    bool uses = arg->kind == HN_ARG_VALUE && arg->as.value == read;
    if (arg->kind == HN_ARG_INT) uses = hn_sym_uses(g->sym, arg->as.expr, symbol);
    for (uint32_t k = 0; k < arg->count && !uses; k++)
        uses = arg->kind == HN_ARG_INTS     ? hn_sym_uses(g->sym, arg->as.exprs[k], symbol)
               : arg->kind == HN_ARG_VALUES ? arg->as.values[k] == read
                                            : false;
    return uses || (arg->kind == HN_ARG_GRAPH && graph_uses(arg->as.graph, symbol, 0));
}

void hop_numbers_drop_unread(hn_graph *g, const hop_numbers *known) {
    for (uint32_t k = 0; k < known->count; k++) {
        const hn_value read = known->items[k].read;
        if (!graph_uses(g, known->items[k].symbol, read))
            hn_graph_node(g, hn_graph_value(g, read)->producer)->dead = true;
    }
}
