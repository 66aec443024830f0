/* special.c: nodes that are no rows of the op table. Arithmetic on sizes becomes nothing, because
 * its result is recorded as an expression; assertions on sizes become guards; nodes that hold
 * graphs are in hop.c. */
#include "front/pt2/import.h"

#include "base/compiler.h"
#include "base/log.h"
#include "ir/build.h"

/* The result of arithmetic on sizes is an expression or a condition in the graph's tables, or a
 * float. */
static hn_status symbolic_read(hn_pt2_scope *scope, const hn_pt2_node_text *node) {
    hn_pt2_results ignored = {0};
    HN_TRY(hn_pt2_results_read(scope, node, false, &ignored));
    return hn_pt2_sym_float_build(scope, node);
}

static hn_status nothing_read(hn_pt2_scope *scope, const hn_pt2_node_text *node) {
    return (void)scope, (void)node, NULL;
}

static bool is_bound_at_entry(hn_sym *sym, hn_expr expr) {
    hn_expr symbols[16];
    uint32_t count = hn_sym_symbols(sym, expr, symbols, HN_COUNT_OF(symbols));
    if (count > HN_COUNT_OF(symbols)) return false;
    for (uint32_t k = 0; k < count; k++)
        if (hn_sym_symbol_kind(sym, symbols[k]) != HN_SYMBOL_SIZE) return false;
    return true;
}

static bool is_proved(hn_sym *sym, const hn_pt2_relation *r) {
    switch (r->relation) {
    case HN_REL_EQ: return hn_sym_prove_eq(sym, r->lhs, r->rhs);
    case HN_REL_NE: return hn_sym_prove_ne(sym, r->lhs, r->rhs);
    case HN_REL_LT: return hn_sym_prove_lt(sym, r->lhs, r->rhs);
    case HN_REL_LE: return hn_sym_prove_le(sym, r->lhs, r->rhs);
    }
    return false;
}

/* A relation of sizes is a guard; one of data-dependent numbers is checked where it stands. */
static hn_status relation_require(hn_pt2_scope *scope, const hn_pt2_node_text *node,
                                  const hn_pt2_relation *r, hn_str message) {
    hn_graph *g = scope->graph;
    if (is_proved(g->sym, r)) return NULL;
    if (is_bound_at_entry(g->sym, r->lhs) && is_bound_at_entry(g->sym, r->rhs)) {
        const char *reason = hn_arena_strndup(g->arena, message.ptr, message.len);
        if (!reason) return HN_ERROR(HN_OUT_OF_MEMORY, "no memory for a guard");
        hn_sym_require(g->sym, r->relation, r->lhs, r->rhs, reason);
        return hn_sym_status(g->sym);
    }
    HN_TRY(hn_pt2_origin_set(scope, node));
    hn_b_assert(g, hn_pt2_relations_build(g, r, 1), message);
    return hn_graph_status(g);
}

/* aten._assert_scalar(cond, message) */
static hn_status assert_scalar_read(hn_pt2_scope *scope, const hn_pt2_node_text *node) {
    hn_json json = hn_pt2_node_json(&scope->text, node->inputs);
    hn_str name, condition = HN_STR(""), message = HN_STR("");
    HN_TRY(hn_json_array(&json));
    while (hn_json_item(&json)) {
        hn_pt2_place arg;
        hn_str key;
        HN_TRY(hn_pt2_named_read(&json, &name, &arg));
        HN_TRY(hn_pt2_union_begin(&arg, &key));
        if (hn_str_eq(key, HN_STR("as_string"))) HN_TRY(hn_json_string(&arg, &message));
        if (!hn_str_eq(key, HN_STR("as_sym_bool"))) continue;
        HN_TRY(hn_pt2_union_begin(&arg, &key));
        if (hn_str_eq(key, HN_STR("as_name"))) HN_TRY(hn_json_string(&arg, &condition));
    }
    HN_TRY(hn_json_status(&json));
    if (!condition.len) return NULL; /* a constant: true, or the export would have failed */
    hn_pt2_name *entry = NULL;
    const hn_pt2_relation *relations = NULL;
    uint32_t count = 0;
    HN_TRY(hn_pt2_use(scope, condition, &entry));
    if (entry->kind != HN_PT2_SYM_BOOL)
        return HN_ERROR(HN_INVALID_ARGUMENT, "'" HN_STR_FMT "' is no condition",
                        HN_STR_ARG(condition));
    hn_status status = hn_pt2_sym_bool_read(scope, entry, &relations, &count);
    if (hn_status_code(status) == HN_UNSUPPORTED) {
        hn_log("pt2", HN_LOG_INFO, "dropped assertion '" HN_STR_FMT "': %s", HN_STR_ARG(message),
               hn_status_message(status));
        hn_status_free(status);
        return NULL;
    }
    HN_TRY(status);
    for (uint32_t k = 0; k < count; k++)
        HN_TRY(relation_require(scope, node, &relations[k], message));
    return NULL;
}

/* --- the table --- */

/* Targets that end with "*" match by prefix; the first match counts. */
static const struct {
    const char *target;
    hn_pt2_node_reader read;
} special[] = {
    {"_operator.*", symbolic_read},
    {"math.*", symbolic_read},
    {"torch.sym_*", symbolic_read},
    {"torch._sym_*", symbolic_read},
    {"torch.ops.aten.sym_constrain_range*", nothing_read}, /* already in range_constraints */
    {"torch.ops.aten.sym_*", symbolic_read},
    /* metas are checked by every pass */
    {"torch.ops.aten._assert_tensor_metadata.default", nothing_read},
    {"torch.ops.aten._assert_scalar.default", assert_scalar_read},
    {"torch.ops.higher_order.wrap_with_set_grad_enabled", hn_pt2_set_grad_read},
    {"torch.ops.higher_order.wrap_with_autocast", hn_pt2_autocast_read},
    {"torch.ops.higher_order.cond", hn_pt2_cond_read},
    {"torch.ops.higher_order.while_loop", hn_pt2_while_read},
    {"torch.ops.higher_order.while_loop_stack_output", hn_pt2_while_stack_read},
    {"torch.ops.higher_order.map*", hn_pt2_map_read},
    {"torch.ops.higher_order.scan", hn_pt2_scan_read},
    {"torch.ops.higher_order.associative_scan", hn_pt2_associative_scan_read},
};

static bool target_matches(hn_str target, const char *pattern) {
    size_t len = strlen(pattern);
    if (pattern[len - 1] != '*') return hn_str_eq(target, (hn_str){pattern, len});
    return hn_str_starts_with(target, (hn_str){pattern, len - 1});
}

hn_pt2_node_reader hn_pt2_special_find(hn_str target) {
    for (size_t k = 0; k < HN_COUNT_OF(special); k++)
        if (target_matches(target, special[k].target)) return special[k].read;
    return NULL;
}
