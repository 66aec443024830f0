/* sym_float.c: floats made of sizes. Arithmetic on sizes is recorded as expressions, and those are
 * whole numbers; a node whose result is a fraction or a root is computed at run time instead, in
 * double as Python does. */
#include "front/pt2/hop.h"

#include "base/compiler.h"
#include "ir/build.h"

static const struct {
    const char *target;
    hn_op op;
    uint32_t arity;
} arithmetic[] = {
    {"_operator.truediv", HN_OP_DIV, 2}, {"_operator.mul", HN_OP_MUL, 2},
    {"_operator.add", HN_OP_ADD, 2},     {"_operator.sub", HN_OP_SUB, 2},
    {"_operator.pow", HN_OP_POW, 2},     {"_operator.neg", HN_OP_NEG, 1},
    {"math.sqrt", HN_OP_SQRT, 1},        {"torch._sym_sqrt", HN_OP_SQRT, 1},
    {"torch.sym_float", HN_OP_CAST, 1},  {"math.log", HN_OP_LOG, 1},
    {"torch._sym_log2", HN_OP_LOG2, 1},  {"math.log2", HN_OP_LOG2, 1},
    {"math.exp", HN_OP_EXP, 1},          {"torch.sym_max", HN_OP_MAX, 2},
    {"torch.sym_min", HN_OP_MIN, 2},
};

/* The tensor that a float was read from; 0: it was not. */
static hn_value source_of(hn_graph *g, hn_value number) {
    for (hn_node n = g->nodes.count; n-- > 1;) {
        const hn_node_info *node = &g->nodes.items[n];
        bool reads = node->op == HN_OP_ITEM || node->op == HN_ATEN_item_default ||
                     node->op == HN_ATEN__local_scalar_dense_default;
        if (reads && node->result_count && node->results[0] == number)
            return node->args[0].as.value;
    }
    return 0;
}

static hn_value of_expr(hn_graph *g, hn_expr e) {
    return hn_b_cast(g, hn_b_full(g, hn_scalar_i(e), NULL, 0, HN_DTYPE_I64), HN_DTYPE_F64);
}

/* A named number as a tensor of rank 0; 0 when it cannot be had. */
static hn_status named_operand(hn_pt2_scope *scope, hn_str name, hn_value *out) {
    hn_graph *g = scope->graph;
    hn_pt2_name *entry = NULL;
    hn_expr size = 0;
    HN_TRY(hn_pt2_use(scope, name, &entry));
    if (entry->kind == HN_PT2_SYM_FLOAT && !entry->value)
        HN_TRY(hn_pt2_sym_float_read(scope, entry, &size));
    if (entry->kind == HN_PT2_SYM_INT) size = entry->expr;
    hn_value tensor =
        !size && entry->value && hn_graph_value(g, entry->value)->kind == HN_VALUE_SYM_FLOAT
            ? source_of(g, entry->value)
            : 0;
    *out = size     ? of_expr(g, size)
           : tensor ? hn_b_cast(g, hn_b_reshape(g, tensor, NULL, 0), HN_DTYPE_F64)
                    : 0;
    return hn_graph_status(g);
}

static hn_status operand_read(hn_pt2_scope *scope, hn_pt2_place place, hn_value *out) {
    hn_pt2_place again = place;
    hn_str name;
    hn_arg number;
    *out = 0;
    HN_TRY(hop_argument_name(&again, &name));
    if (name.len) return named_operand(scope, name, out);
    HN_TRY(hn_pt2_arg_read(scope, &place, NULL, &number));
    if (number.kind == HN_ARG_FLOAT) *out = hn_b_scalar(scope->graph, number.as.f, HN_DTYPE_F64);
    if (number.kind == HN_ARG_INT) *out = of_expr(scope->graph, number.as.expr);
    return hn_graph_status(scope->graph);
}

static hn_status result_build(hn_pt2_scope *scope, const hn_pt2_node_text *node, hn_value *out) {
    hop_args args;
    hn_value operands[2] = {0};
    HN_TRY(hop_args_read(scope, node, &args));
    for (size_t k = 0; k < HN_COUNT_OF(arithmetic); k++) {
        if (!hn_str_eq(node->target, hn_str_of(arithmetic[k].target)) ||
            args.count != arithmetic[k].arity)
            continue;
        for (uint32_t a = 0; a < args.count; a++) {
            HN_TRY(operand_read(scope, args.items[a], &operands[a]));
            if (!operands[a]) return NULL;
        }
        *out = arithmetic[k].op == HN_OP_CAST ? operands[0]
               : args.count == 2
                   ? hn_b_binary(scope->graph, arithmetic[k].op, operands[0], operands[1])
                   : hn_b_unary(scope->graph, arithmetic[k].op, operands[0]);
    }
    return hn_graph_status(scope->graph);
}

/* Gives the float that `node` makes, if it is one and no whole number, a value that is computed. */
hn_status hn_pt2_sym_float_build(hn_pt2_scope *scope, const hn_pt2_node_text *node) {
    hn_str *names = NULL;
    uint32_t count = 0;
    hn_expr whole = 0;
    hn_value tensor = 0;
    HN_TRY(hop_names(hn_pt2_node_json(&scope->text, node->outputs), scope->im->scratch, &names,
                     &count));
    hn_pt2_name *entry = count == 1 && names[0].len ? hn_pt2_name_find(scope, names[0]) : NULL;
    if (!entry || entry->kind != HN_PT2_SYM_FLOAT || entry->problem || !entry->defined) return NULL;
    HN_TRY(hn_pt2_sym_float_read(scope, entry, &whole));
    if (whole) return NULL;
    HN_TRY(hn_pt2_origin_set(scope, node));
    HN_TRY(result_build(scope, node, &tensor));
    entry->value = tensor ? hn_b_item(scope->graph, tensor, HN_VALUE_SYM_FLOAT, 0) : 0;
    if (!entry->value)
        entry->problem = "is a float made of sizes in a way that henry cannot compute";
    return hn_graph_status(scope->graph);
}
