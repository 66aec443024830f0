/* nodes.c: the nodes of one graph. A node whose target is a row of the op table becomes a graph
 * node with its arguments in the order of the row; the others go to special.c or into the list of
 * what is missing. */
#include "front/pt2/import.h"

#include "ir/check.h"

enum { MAX_PARAMS = 64 };

/* --- results --- */

static hn_status result_define(hn_pt2_scope *scope, hn_str name, hn_pt2_name_kind kind,
                               bool want_value, hn_pt2_results *out) {
    hn_pt2_name *entry = NULL;
    hn_value value = 0;
    HN_TRY(hn_pt2_define(scope, name, kind, &entry));
    if (want_value && !entry->problem) HN_TRY(hn_pt2_use_value(scope, name, &value));
    HN_PUSH(scope->im->scratch, out, value);
    return NULL;
}

static hn_status tensor_results(hn_pt2_scope *scope, hn_json *json, bool list,
                                hn_pt2_results *out) {
    hn_str name;
    if (!list) {
        HN_TRY(hn_pt2_name_read(json, &name));
        return result_define(scope, name, HN_PT2_TENSOR, true, out);
    }
    HN_TRY(hn_json_array(json));
    while (hn_json_item(json)) {
        HN_TRY(hn_pt2_name_read(json, &name));
        HN_TRY(result_define(scope, name, HN_PT2_TENSOR, true, out));
    }
    return hn_json_status(json);
}

/* {"as_name": N}, or a constant, which defines nothing. */
static hn_status symbolic_result(hn_pt2_scope *scope, hn_json *json, hn_pt2_name_kind kind,
                                 bool want_value, hn_pt2_results *out) {
    hn_str key, name;
    HN_TRY(hn_pt2_union_begin(json, &key));
    if (hn_str_eq(key, HN_STR("as_name"))) {
        HN_TRY(hn_json_string(json, &name));
        HN_TRY(result_define(scope, name, kind, want_value, out));
    } else {
        HN_TRY(hn_json_skip(json));
        HN_PUSH(scope->im->scratch, out, 0);
    }
    return hn_pt2_union_end(json);
}

static hn_status result_read(hn_pt2_scope *scope, hn_json *json, bool want_value,
                             hn_pt2_results *out);

static hn_status optional_results(hn_pt2_scope *scope, hn_json *json, hn_pt2_results *out) {
    HN_TRY(hn_json_array(json));
    while (hn_json_item(json)) HN_TRY(result_read(scope, json, true, out));
    return hn_json_status(json);
}

static hn_status result_read(hn_pt2_scope *scope, hn_json *json, bool want_value,
                             hn_pt2_results *out) {
    hn_str key;
    HN_TRY(hn_pt2_union_begin(json, &key));
    if (hn_str_eq(key, HN_STR("as_tensor"))) {
        HN_TRY(tensor_results(scope, json, false, out));
    } else if (hn_str_eq(key, HN_STR("as_tensors"))) {
        HN_TRY(tensor_results(scope, json, true, out));
    } else if (hn_str_eq(key, HN_STR("as_sym_int"))) {
        HN_TRY(symbolic_result(scope, json, HN_PT2_SYM_INT, want_value, out));
    } else if (hn_str_eq(key, HN_STR("as_sym_bool"))) {
        HN_TRY(symbolic_result(scope, json, HN_PT2_SYM_BOOL, want_value, out));
    } else if (hn_str_eq(key, HN_STR("as_sym_float"))) {
        HN_TRY(symbolic_result(scope, json, HN_PT2_SYM_FLOAT, want_value, out));
    } else if (hn_str_eq(key, HN_STR("as_optional_tensors"))) {
        HN_TRY(optional_results(scope, json, out));
    } else if (hn_str_eq(key, HN_STR("as_optional_tensor"))) {
        HN_TRY(result_read(scope, json, want_value, out));
    } else if (hn_str_eq(key, HN_STR("as_none")) || hn_str_eq(key, HN_STR("as_int")) ||
               hn_str_eq(key, HN_STR("as_float")) || hn_str_eq(key, HN_STR("as_bool"))) {
        HN_TRY(hn_json_skip(json));
        HN_PUSH(scope->im->scratch, out, 0);
    } else {
        return HN_ERROR(HN_UNSUPPORTED, "result of kind '" HN_STR_FMT "'", HN_STR_ARG(key));
    }
    return hn_pt2_union_end(json);
}

hn_status hn_pt2_results_read(hn_pt2_scope *scope, const hn_pt2_node_text *node, bool want_values,
                              hn_pt2_results *out) {
    hn_json json = hn_pt2_node_json(&scope->text, node->outputs);
    HN_TRY(hn_json_array(&json));
    while (hn_json_item(&json)) HN_TRY(result_read(scope, &json, want_values, out));
    return hn_json_status(&json);
}

/* --- ATen nodes --- */

hn_status hn_pt2_named_read(hn_json *json, hn_str *out_name, hn_pt2_place *out_arg) {
    *out_name = HN_STR("");
    out_arg->at = NULL;
    HN_TRY(hn_json_object(json));
    for (hn_str key; hn_json_key(json, &key);) {
        if (hn_str_eq(key, HN_STR("name"))) {
            HN_TRY(hn_json_string(json, out_name));
            continue;
        }
        if (hn_str_eq(key, HN_STR("arg"))) *out_arg = *json;
        HN_TRY(hn_json_skip(json));
    }
    HN_TRY(hn_json_status(json));
    return out_arg->at ? NULL : hn_json_error(json, "an argument lacks its value");
}

/* The parameter `name`, tried first where it is expected; unnamed arguments go by position. */
static int param_find(const hn_param *params, uint32_t count, hn_str name, uint32_t expected) {
    if (name.len == 0) return expected < count ? (int)expected : -1;
    if (expected < count && hn_str_eq(params[expected].name, name)) return (int)expected;
    for (uint32_t k = 0; k < count; k++)
        if (hn_str_eq(params[k].name, name)) return (int)k;
    return -1;
}

static bool is_none(const hn_pt2_place *arg) {
    hn_json json = *arg;
    hn_str key = HN_STR("");
    hn_status status = hn_pt2_union_begin(&json, &key);
    hn_status_free(status);
    return !status && hn_str_eq(key, HN_STR("as_none"));
}

static hn_status args_read(hn_pt2_scope *scope, const hn_pt2_node_text *node, hn_op op,
                           hn_arg *args) {
    uint32_t count = 0, position = 0;
    const hn_param *params = hn_op_params(op, &count);
    const hn_arg *defaults = NULL;
    bool given[MAX_PARAMS] = {false};
    hn_json json = hn_pt2_node_json(&scope->text, node->inputs);
    HN_TRY(hn_json_array(&json));
    while (hn_json_item(&json)) {
        hn_str name;
        hn_pt2_place arg;
        HN_TRY(hn_pt2_named_read(&json, &name, &arg));
        int k = param_find(params, count, name, position++);
        if (k < 0 && is_none(&arg)) continue; /* a later version's new argument, not used */
        if (k < 0 || given[k])
            return HN_ERROR(HN_UNSUPPORTED, "argument '" HN_STR_FMT "' is %s", HN_STR_ARG(name),
                            k < 0 ? "not one of this operator's" : "given twice");
        given[k] = true;
        args[k] = hn_arg_none();
        if (params[k].is_unread) continue;
        HN_TRY(hn_status_annotate(hn_pt2_arg_read(scope, &arg, &params[k], &args[k]),
                                  "argument '" HN_STR_FMT "'", HN_STR_ARG(params[k].name)));
    }
    HN_TRY(hn_json_status(&json));
    HN_TRY(hn_pt2_defaults(scope->im, scope->graph, op, &defaults));
    for (uint32_t k = 0; k < count; k++) {
        if (given[k]) continue;
        if (!params[k].has_default && !params[k].optional)
            return HN_ERROR(HN_INVALID_ARGUMENT, "argument '" HN_STR_FMT "' is missing",
                            HN_STR_ARG(params[k].name));
        args[k] = defaults[k];
    }
    return NULL;
}

hn_status hn_pt2_origin_set(hn_pt2_scope *scope, const hn_pt2_node_text *node) {
    hn_origin origin = {.node = node->name};
    HN_TRY(hn_pt2_source_find(scope->im, node->trace, &origin.source));
    scope->graph->current_origin = hn_graph_add_origin(scope->graph, origin);
    return scope->graph->current_origin ? NULL : hn_graph_status(scope->graph);
}

static hn_status aten_read(hn_pt2_scope *scope, const hn_pt2_node_text *node, hn_op op) {
    hn_arg args[MAX_PARAMS];
    uint32_t count = 0;
    hn_pt2_results out = {0};
    (void)hn_op_params(op, &count);
    if (count > MAX_PARAMS) return HN_ERROR(HN_INTERNAL, "operator with %u parameters", count);
    HN_TRY(args_read(scope, node, op, args));
    hn_status misfit = hn_args_check(scope->graph, op, args, count);
    if (misfit) {
        hn_status status = HN_ERROR(HN_INVALID_ARGUMENT, "%s", hn_status_message(misfit));
        hn_status_free(misfit);
        return status;
    }
    HN_TRY(hn_pt2_results_read(scope, node, true, &out));
    int want = hn_op_result_count(op);
    if (want >= 0 && (uint32_t)want != out.count)
        return HN_ERROR(HN_INVALID_ARGUMENT, "%u results where %d are expected", out.count, want);
    HN_TRY(hn_pt2_origin_set(scope, node));
    if (!hn_graph_add_node(scope->graph, op, args, count, out.items, out.count))
        return hn_graph_status(scope->graph);
    return NULL;
}

/* --- dispatch --- */

/* Rows of the op table that are read in another way. */
static bool may_be_special(hn_str name) {
    return hn_str_starts_with(name, HN_STR("aten.sym_")) ||
           hn_str_starts_with(name, HN_STR("aten._assert_"));
}

/* One entry for each target and reason. */
static hn_status missing_add(hn_pt2_importer *im, const hn_pt2_node_text *node, hn_str reason) {
    char *key = hn_arena_printf(im->scratch, HN_STR_FMT "\n" HN_STR_FMT, HN_STR_ARG(node->target),
                                HN_STR_ARG(reason));
    if (!key) return HN_ERROR(HN_OUT_OF_MEMORY, "no memory for a report");
    uint64_t *index = hn_strmap_get(&im->missing_index, hn_str_of(key));
    if (index) {
        im->missing.items[*index].count++;
        return NULL;
    }
    hn_pt2_missing_op op = {
        .target = node->target, .reason = reason, .first.node = node->name, .count = 1};
    HN_TRY(hn_pt2_source_find(im, node->trace, &op.first.source));
    HN_TRY(hn_strmap_put(&im->missing_index, hn_str_of(key), im->missing.count));
    HN_PUSH(im->scratch, &im->missing, op);
    return NULL;
}

/* Defines the node's results all the same, so that what else is missing is found, too. */
static hn_status results_lose(hn_pt2_scope *scope, const hn_pt2_node_text *node) {
    hn_pt2_results ignored = {0};
    HN_TRY(hn_pt2_results_read(scope, node, false, &ignored));
    hn_json json = hn_pt2_node_json(&scope->text, node->outputs);
    HN_TRY(hn_json_array(&json));
    /* lists of results lose nothing: their uses are reported once more */
    while (hn_json_item(&json)) {
        hn_str key, name;
        HN_TRY(hn_pt2_union_begin(&json, &key));
        if (hn_str_eq(key, HN_STR("as_tensor"))) {
            HN_TRY(hn_pt2_name_read(&json, &name));
            hn_pt2_name *entry = hn_pt2_name_find(scope, name);
            if (entry) entry->lost = true;
        } else {
            HN_TRY(hn_json_skip(&json));
        }
        HN_TRY(hn_pt2_union_end(&json));
    }
    return hn_json_status(&json);
}

/* An export keeps torch.vmap as calls that open and close it, with operators of the whole batch
 * between them; so does associative_scan in its generic mode. */
static hn_status missing_note(hn_pt2_scope *scope, const hn_pt2_node_text *node) {
    const bool is_vmap =
        hn_str_starts_with(node->target, HN_STR("torch._functorch.predispatch._add_batch_dim"));
    HN_TRY(missing_add(scope->im, node,
                       is_vmap ? HN_STR("a step of torch.vmap; save program.run_decompositions() "
                                        "in place of the exported program")
                               : HN_STR("")));
    return results_lose(scope, node);
}

/* What henry cannot do with this node goes into the list; an error in the file itself ends the
 * import. */
static hn_status failure_note(hn_pt2_scope *scope, const hn_pt2_node_text *node,
                              hn_status failure) {
    hn_pt2_importer *im = scope->im;
    if (hn_status_code(failure) != HN_UNSUPPORTED) return failure;
    hn_status status = results_lose(scope, node);
    if (status) { /* it failed while its results were read */
        hn_status_free(status);
        return failure;
    }
    const char *message = hn_status_message(failure),
               *reason = hn_arena_strndup(im->scratch, message, strlen(message));
    status = !reason         ? HN_ERROR(HN_OUT_OF_MEMORY, "no memory for a report")
             : im->used_lost ? NULL
                             : missing_add(im, node, hn_str_of(reason));
    hn_status_free(failure);
    return status;
}

static hn_status node_dispatch(hn_pt2_scope *scope, const hn_pt2_node_text *node) {
    static const hn_str ops = HN_STR("torch.ops.");
    if (hn_str_starts_with(node->target, ops)) {
        hn_str name = {node->target.ptr + ops.len, node->target.len - ops.len};
        hn_pt2_node_reader special =
            may_be_special(name) ? hn_pt2_special_find(node->target) : NULL;
        if (special) return special(scope, node);
        hn_op op = hn_op_find(name);
        if (hn_op_is_aten(op)) return aten_read(scope, node, op);
    }
    hn_pt2_node_reader read = hn_pt2_special_find(node->target);
    return read ? read(scope, node) : missing_note(scope, node);
}

hn_status hn_pt2_nodes_read(hn_pt2_scope *scope) {
    for (uint32_t k = 0; k < scope->text.nodes.count; k++) {
        const hn_pt2_node_text *node = &scope->text.nodes.items[k];
        uint32_t depth = scope->im->depth;
        scope->im->used_lost = false;
        hn_status status = node_dispatch(scope, node);
        scope->im->depth = depth;
        if (status) status = failure_note(scope, node, status);
        if (status)
            return hn_status_annotate(status, "node '" HN_STR_FMT "' (" HN_STR_FMT ")",
                                      HN_STR_ARG(node->name), HN_STR_ARG(node->target));
    }
    scope->graph->current_origin = 0;
    return NULL;
}

/* --- the report --- */

hn_str hn_pt2_short_target(hn_str target) {
    static const hn_str ops = HN_STR("torch.ops.");
    return hn_str_starts_with(target, ops) ? (hn_str){target.ptr + ops.len, target.len - ops.len}
                                           : target;
}

hn_status hn_pt2_missing_status(const hn_pt2_importer *im) {
    if (!im->missing.count) return NULL;
    hn_strbuf text;
    hn_strbuf_init(&text);
    for (uint32_t k = 0; k < im->missing.count; k++) {
        const hn_pt2_missing_op *op = &im->missing.items[k];
        hn_str target = hn_pt2_short_target(op->target);
        hn_strbuf_printf(&text, "%s'" HN_STR_FMT "' (node '" HN_STR_FMT "'", k ? "; " : "",
                         HN_STR_ARG(target), HN_STR_ARG(op->first.node));
        if (op->first.source.len)
            hn_strbuf_printf(&text, ", " HN_STR_FMT, HN_STR_ARG(op->first.source));
        hn_strbuf_puts(&text, ")");
        if (op->count > 1) hn_strbuf_printf(&text, " and %u more", op->count - 1);
        if (op->reason.len) hn_strbuf_printf(&text, ": " HN_STR_FMT, HN_STR_ARG(op->reason));
    }
    hn_status status = hn_strbuf_status(&text);
    if (!status)
        status = HN_ERROR(HN_UNSUPPORTED, "model uses %u operator%s that henry cannot compile: %s",
                          im->missing.count, im->missing.count > 1 ? "s" : "", text.ptr);
    hn_strbuf_deinit(&text);
    return status;
}
