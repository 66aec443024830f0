/* hop.c: nodes that hold graphs. wrap_with_set_grad_enabled and a disabled autocast are inlined;
 * cond becomes HN_OP_COND with two graphs of its own. Inner graphs see nothing of the outer one:
 * all that they use is passed as an operand. */
#include "front/pt2/hop.h"

#include "base/compiler.h"

enum { MAX_GRAPH_DEPTH = 32 };

hn_status hop_args_read(const hn_pt2_scope *scope, const hn_pt2_node_text *node, hop_args *out) {
    hn_json json = hn_pt2_node_json(&scope->text, node->inputs);
    out->count = 0;
    HN_TRY(hn_json_array(&json));
    while (hn_json_item(&json)) {
        hn_str name;
        if (out->count == HN_COUNT_OF(out->items))
            return HN_ERROR(HN_UNSUPPORTED, "more than 64 arguments");
        HN_TRY(hn_pt2_named_read(&json, &name, &out->items[out->count++]));
    }
    return hn_json_status(&json);
}

/* {"as_graph": {"name": ..., "graph": {...}}} */
hn_status hop_graph(const hop_args *args, uint32_t k, hn_pt2_graph_text *out) {
    hn_str key;
    bool found = false;
    if (k >= args->count) return HN_ERROR(HN_INVALID_ARGUMENT, "argument %u is missing", k);
    hn_json json = args->items[k];
    HN_TRY(hn_pt2_union_begin(&json, &key));
    if (!hn_str_eq(key, HN_STR("as_graph")))
        return HN_ERROR(HN_INVALID_ARGUMENT, "argument %u is no graph", k);
    HN_TRY(hn_json_object(&json));
    while (hn_json_key(&json, &key)) {
        if (hn_str_eq(key, HN_STR("graph"))) {
            HN_TRY(hn_pt2_graph_text_read(&json, out));
            found = true;
        } else {
            HN_TRY(hn_json_skip(&json));
        }
    }
    HN_TRY(hn_json_status(&json));
    return found ? NULL : HN_ERROR(HN_INVALID_ARGUMENT, "argument %u holds no graph", k);
}

/* One name of a list of graph inputs or outputs, or of a node's operands. */
hn_status hop_argument_name(hn_json *json, hn_str *out) {
    hn_str key, inner;
    *out = HN_STR("");
    HN_TRY(hn_pt2_union_begin(json, &key));
    if (hn_str_eq(key, HN_STR("as_tensor"))) {
        HN_TRY(hn_pt2_name_read(json, out));
    } else if (hn_str_starts_with(key, HN_STR("as_sym_"))) {
        HN_TRY(hn_pt2_union_begin(json, &inner));
        if (hn_str_eq(inner, HN_STR("as_name"))) HN_TRY(hn_json_string(json, out));
        else HN_TRY(hn_json_skip(json));
        HN_TRY(hn_pt2_union_end(json));
    } else {
        HN_TRY(hn_json_skip(json));
    }
    return hn_pt2_union_end(json);
}

hn_status hop_enter(hn_pt2_scope *inner, hn_pt2_scope *outer, hn_graph *graph,
                    const hn_pt2_graph_text *text) {
    hn_pt2_importer *im = outer->im;
    if (im->depth == MAX_GRAPH_DEPTH)
        return HN_ERROR(HN_UNSUPPORTED, "graphs nested deeper than %d", MAX_GRAPH_DEPTH);
    im->depth++;
    return hn_pt2_scope_init(inner, im, graph, text);
}

/* Names of the inner graph's inputs stand for the node's operands, from args[first] on. */
static hn_status inline_inputs(hn_pt2_scope *inner, hn_pt2_scope *outer, const hop_args *args,
                               uint32_t first) {
    hn_json json = inner->text.inputs;
    uint32_t k = first;
    HN_TRY(hn_json_array(&json));
    while (hn_json_item(&json)) {
        hn_str formal, actual;
        HN_TRY(hop_argument_name(&json, &formal));
        if (k >= args->count)
            return HN_ERROR(HN_INVALID_ARGUMENT, "inner graph has more inputs than operands");
        hn_pt2_place operand = args->items[k++];
        HN_TRY(hop_argument_name(&operand, &actual));
        if (!formal.len || !actual.len) continue; /* constants are written where they are used */
        hn_pt2_name *entry = NULL;
        HN_TRY(hn_pt2_use(outer, actual, &entry));
        HN_TRY(hn_pt2_bind(inner, formal, entry->value, entry->expr));
    }
    return hn_json_status(&json);
}

/* Flattens a node's outputs to names; "" for those that are none. */
hn_status hop_names(hn_json json, hn_arena *arena, hn_str **out, uint32_t *out_count) {
    struct {
        hn_str *items;
        uint32_t count, cap;
    } names = {0};
    HN_TRY(hn_json_array(&json));
    while (hn_json_item(&json)) {
        hn_json mark = json;
        hn_str key, name;
        HN_TRY(hn_pt2_union_begin(&mark, &key));
        if (!hn_str_eq(key, HN_STR("as_tensors"))) {
            HN_TRY(hop_argument_name(&json, &name));
            HN_PUSH(arena, &names, name);
            continue;
        }
        HN_TRY(hn_json_array(&mark));
        while (hn_json_item(&mark)) {
            HN_TRY(hn_pt2_name_read(&mark, &name));
            HN_PUSH(arena, &names, name);
        }
        HN_TRY(hn_json_status(&mark));
        HN_TRY(hn_json_skip(&json));
    }
    *out = names.items;
    *out_count = names.count;
    return hn_json_status(&json);
}

static hn_status inline_outputs(hn_pt2_scope *inner, hn_pt2_scope *outer,
                                const hn_pt2_node_text *node) {
    hn_str *from = NULL, *to = NULL;
    uint32_t from_count = 0, to_count = 0;
    HN_TRY(hop_names(inner->text.outputs, outer->im->scratch, &from, &from_count));
    HN_TRY(hop_names(hn_pt2_node_json(&outer->text, node->outputs), outer->im->scratch, &to,
                     &to_count));
    if (from_count != to_count)
        return HN_ERROR(HN_INVALID_ARGUMENT, "inner graph has %u outputs, its node %u", from_count,
                        to_count);
    for (uint32_t k = 0; k < to_count; k++) {
        hn_pt2_name *entry = NULL;
        if (!to[k].len || !from[k].len) continue;
        HN_TRY(hn_pt2_use(inner, from[k], &entry));
        HN_TRY(hn_pt2_bind(outer, to[k], entry->value, entry->expr));
    }
    return NULL;
}

static hn_status graph_inline(hn_pt2_scope *outer, const hn_pt2_node_text *node,
                              const hop_args *args, uint32_t graph_at) {
    hn_pt2_graph_text text;
    hn_pt2_scope inner;
    HN_TRY(hop_graph(args, graph_at, &text));
    HN_TRY(hop_enter(&inner, outer, outer->graph, &text));
    HN_TRY(inline_inputs(&inner, outer, args, graph_at + 1));
    HN_TRY(hn_pt2_nodes_read(&inner));
    outer->im->depth--;
    return inline_outputs(&inner, outer, node);
}

hn_status hn_pt2_set_grad_read(hn_pt2_scope *scope, const hn_pt2_node_text *node) {
    hop_args args;
    HN_TRY(hop_args_read(scope, node, &args));
    return graph_inline(scope, node, &args, 1);
}

/* (device, dtype, enabled, cache_enabled, graph, operands...) */
hn_status hn_pt2_autocast_read(hn_pt2_scope *scope, const hn_pt2_node_text *node) {
    hop_args args;
    hn_arg enabled;
    HN_TRY(hop_args_read(scope, node, &args));
    if (args.count < 5)
        return HN_ERROR(HN_INVALID_ARGUMENT, "%u arguments where at least 5 are expected",
                        args.count);
    HN_TRY(hn_pt2_arg_read(scope, &args.items[2], NULL, &enabled));
    if (enabled.kind != HN_ARG_BOOL || enabled.as.b)
        return HN_ERROR(HN_UNSUPPORTED,
                        "autocast is on; export the model in the dtype that it shall run in");
    return graph_inline(scope, node, &args, 4);
}

/* A graph of its own: inputs are operands, outputs are results. */
static hn_status subgraph_read(hn_pt2_scope *outer, const hop_args *args, uint32_t at,
                               hn_graph **out) {
    hn_pt2_graph_text text;
    hn_pt2_scope inner;
    hn_pt2_importer *im = outer->im;
    HN_TRY(hop_graph(args, at, &text));
    HN_TRY(hn_graph_create(im->arena, im->sym, out));
    HN_TRY(hop_enter(&inner, outer, *out, &text));
    hn_str *names = NULL;
    uint32_t count = 0;
    HN_TRY(hop_names(text.inputs, im->scratch, &names, &count));
    for (uint32_t k = 0; k < count; k++) {
        hn_pt2_name *entry = names[k].len ? hn_pt2_name_find(&inner, names[k]) : NULL;
        hn_input input = {.kind = HN_INPUT_USER, .name = names[k]};
        if (!entry)
            return HN_ERROR(HN_UNSUPPORTED, "input %u of an inner graph is no tensor or number", k);
        HN_TRY(hn_pt2_define(&inner, names[k], entry->kind, NULL));
        HN_TRY(hn_pt2_use_value(&inner, names[k], &input.value));
        HN_TRY(hn_graph_add_input(*out, input));
    }
    HN_TRY(hn_pt2_nodes_read(&inner));
    HN_TRY(hop_names(text.outputs, im->scratch, &names, &count));
    for (uint32_t k = 0; k < count; k++) {
        hn_output output = {.kind = HN_OUTPUT_USER, .name = names[k]};
        if (!names[k].len)
            return HN_ERROR(HN_UNSUPPORTED, "output %u of an inner graph is no tensor or number",
                            k);
        HN_TRY(hn_pt2_use_value(&inner, names[k], &output.value));
        HN_TRY(hn_graph_add_output(*out, output));
    }
    im->depth--;
    return NULL;
}

/* A tensor, or a symbolic bool, which is computed from its expression. */
static hn_status predicate_read(hn_pt2_scope *scope, const hn_pt2_node_text *node,
                                hn_pt2_place place, hn_arg *out) {
    hn_str name;
    hn_pt2_name *entry = NULL;
    hn_json mark = place;
    HN_TRY(hop_argument_name(&mark, &name));
    if (name.len) HN_TRY(hn_pt2_use(scope, name, &entry));
    if (!entry) return HN_ERROR(HN_UNSUPPORTED, "condition that is a constant");
    if (entry->kind != HN_PT2_SYM_BOOL) return hn_pt2_arg_read(scope, &place, NULL, out);
    const hn_pt2_relation *relations = NULL;
    uint32_t count = 0;
    HN_TRY(hn_pt2_sym_bool_read(scope, entry, &relations, &count));
    HN_TRY(hn_pt2_origin_set(scope, node));
    *out = hn_arg_value(hn_pt2_relations_build(scope->graph, relations, count));
    return hn_graph_status(scope->graph);
}

static bool is_data_size(hn_sym *sym, hn_expr size) {
    hn_expr symbols[16];
    uint32_t count = hn_sym_symbols(sym, size, symbols, 16);
    for (uint32_t k = 0; k < count && k < 16; k++)
        if (hn_sym_symbol_kind(sym, symbols[k]) == HN_SYMBOL_DATA) return true;
    return false;
}

/* A result whose size a branch finds out has another size in each: nothing before the condition can
 * hold it. */
static hn_status result_sizes_check(hn_pt2_scope *scope, const hn_graph *branch,
                                    const hn_pt2_results *results) {
    for (uint32_t k = 0; k < results->count; k++) {
        const hn_value_info *result = hn_graph_value(scope->graph, results->items[k]),
                            *output = hn_graph_value(branch, branch->outputs.items[k].value);
        for (uint32_t d = 0; result->kind == HN_VALUE_TENSOR && d < result->rank; d++)
            if (is_data_size(scope->im->sym, result->sizes[d]) &&
                (output->rank != result->rank || output->sizes[d] != result->sizes[d]))
                return HN_ERROR(
                    HN_UNSUPPORTED,
                    "the size of result %u depends on data inside the branches, which henry cannot compile; "
                    "let both branches return the same size, such as a mask",
                    k);
    }
    return NULL;
}

/* (predicate, then graph, else graph, [operands]) */
hn_status hn_pt2_cond_read(hn_pt2_scope *scope, const hn_pt2_node_text *node) {
    hop_args places;
    hn_arg args[4] = {0};
    hn_pt2_results out = {0};
    HN_TRY(hop_args_read(scope, node, &places));
    if (places.count != 4)
        return HN_ERROR(HN_INVALID_ARGUMENT, "%u arguments where 4 are expected", places.count);
    HN_TRY(predicate_read(scope, node, places.items[0], &args[0]));
    for (uint32_t k = 1; k < 3; k++) {
        args[k].kind = HN_ARG_GRAPH;
        HN_TRY(hn_status_annotate(subgraph_read(scope, &places, k, &args[k].as.graph),
                                  k == 1 ? "then branch" : "else branch"));
    }
    HN_TRY(hn_pt2_arg_read(scope, &places.items[3], NULL, &args[3]));
    if (args[3].kind != HN_ARG_VALUES)
        return HN_ERROR(HN_UNSUPPORTED, "operands that are not all tensors");
    HN_TRY(hn_pt2_results_read(scope, node, true, &out));
    uint32_t then_count = args[1].as.graph->outputs.count,
             else_count = args[2].as.graph->outputs.count;
    if (then_count != out.count || else_count != out.count)
        return HN_ERROR(HN_INVALID_ARGUMENT, "branches with %u and %u outputs for %u results",
                        then_count, else_count, out.count);
    HN_TRY(result_sizes_check(scope, args[1].as.graph, &out));
    HN_TRY(result_sizes_check(scope, args[2].as.graph, &out));
    HN_TRY(hn_pt2_origin_set(scope, node));
    hn_graph_add_node(scope->graph, HN_OP_COND, args, 4, out.items, out.count);
    return hn_graph_status(scope->graph);
}
