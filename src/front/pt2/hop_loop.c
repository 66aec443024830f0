/* hop_loop.c: loops whose number of rounds the file tells: map, scan and associative_scan over a
 * dimension of a known size, while_loop with a counter that starts at a constant. Their bodies are
 * inlined once for each round; what comes after sees no loop. Others are refused: a program has no
 * step that jumps back. */
#include "front/pt2/hop.h"

#include <inttypes.h>
#include <string.h>

/* Copies of nodes that one loop may make: compiling them takes seconds. */
enum { MAX_ROUNDS = 4096, MAX_COPIES = 32768 };

typedef struct value_list {
    const hn_value *items;
    uint32_t count;
} value_list;

static hn_status operands_read(hn_pt2_scope *scope, const hop_args *args, uint32_t at,
                               value_list *out) {
    hn_arg list;
    *out = (value_list){0};
    if (at >= args->count) return NULL;
    hn_pt2_place place = args->items[at];
    HN_TRY(hn_pt2_arg_read(scope, &place, NULL, &list));
    if (list.kind == HN_ARG_NONE || (list.kind != HN_ARG_VALUES && list.count == 0)) return NULL;
    if (list.kind != HN_ARG_VALUES)
        return HN_ERROR(HN_UNSUPPORTED, "operands of a loop that are not all tensors");
    for (uint32_t k = 0; k < list.count; k++)
        if (!list.as.values[k] ||
            hn_graph_value(scope->graph, list.as.values[k])->kind != HN_VALUE_TENSOR)
            return HN_ERROR(HN_UNSUPPORTED, "operands of a loop that are not all tensors");
    *out = (value_list){list.as.values, list.count};
    return NULL;
}

static hn_status rounds_check(const hn_pt2_graph_text *body, int64_t rounds) {
    if (rounds <= MAX_ROUNDS && rounds * (int64_t)(body->nodes.count + 1) <= MAX_COPIES)
        return NULL;
    return HN_ERROR(HN_UNSUPPORTED,
                    "a loop of %" PRId64
                    " rounds of %u nodes would be too long when it is unrolled",
                    rounds, body->nodes.count);
}

/* One round: the body's nodes with its inputs bound to `operands`. */
static hn_status body_inline(hn_pt2_scope *outer, const hn_pt2_graph_text *text,
                             value_list operands, value_list *out) {
    hn_pt2_scope inner;
    hn_str *names = NULL;
    hn_value *results;
    uint32_t count = 0;
    HN_TRY(hop_enter(&inner, outer, outer->graph, text));
    HN_TRY(hop_names(text->inputs, outer->im->scratch, &names, &count));
    if (count != operands.count)
        return HN_ERROR(HN_INVALID_ARGUMENT, "inner graph has %u inputs for %u operands", count,
                        operands.count);
    for (uint32_t k = 0; k < count; k++) {
        if (!names[k].len)
            return HN_ERROR(HN_UNSUPPORTED, "input %u of an inner graph is no tensor", k);
        HN_TRY(hn_pt2_bind(&inner, names[k], operands.items[k], 0));
    }
    HN_TRY(hn_pt2_nodes_read(&inner));
    HN_TRY(hop_names(text->outputs, outer->im->scratch, &names, &count));
    HN_TRY(hn_arena_array(outer->im->scratch, count + 1, sizeof *results, &results));
    for (uint32_t k = 0; k < count; k++) {
        if (!names[k].len)
            return HN_ERROR(HN_UNSUPPORTED, "output %u of an inner graph is no tensor", k);
        HN_TRY(hn_pt2_use_value(&inner, names[k], &results[k]));
        if (hn_graph_value(outer->graph, results[k])->kind != HN_VALUE_TENSOR)
            return HN_ERROR(HN_UNSUPPORTED, "output %u of an inner graph is no tensor", k);
    }
    outer->im->depth--;
    *out = (value_list){results, count};
    return NULL;
}

/* --- over the first dimension of tensors --- */

static hn_value element(hn_graph *g, hn_value xs, int64_t at) {
    hn_value_info info = *hn_graph_value(g, xs);
    const hn_arg args[] = {hn_arg_value(xs), hn_arg_expr(hn_sym_int(g->sym, 0)),
                           hn_arg_expr(hn_sym_int(g->sym, at))};
    hn_value v = hn_graph_add_tensor(g, info.dtype, info.rank - 1, info.sizes + 1,
                                     info.strides ? info.strides + 1 : NULL, HN_STR(""));
    hn_graph_add_node(g, HN_ATEN_select_int, args, 3, &v, 1);
    return v;
}

/* A walk over the elements of some tensors, and what the rounds gave. */
typedef struct walk {
    hn_pt2_scope *scope;
    const hn_pt2_node_text *node;
    hn_pt2_graph_text body;
    value_list carried, elements, others; /* others: the same in every round */
    int64_t rounds;
    /* associative_scan: the first elements are what is carried, and what is collected */
    bool carries_elements;
    hn_value *collected; /* [outputs][rounds] */
} walk;

static hn_status walk_length(walk *w) {
    w->rounds = -1;
    for (uint32_t k = 0; k < w->elements.count; k++) {
        const hn_value_info *info = hn_graph_value(w->scope->graph, w->elements.items[k]);
        int64_t size = 0;
        if (info->rank == 0 || !hn_sym_is_int(w->scope->graph->sym, info->sizes[0], &size))
            return HN_ERROR(
                HN_UNSUPPORTED,
                "a loop over a symbolic number of elements; export it with a fixed size");
        if (w->rounds >= 0 && size != w->rounds)
            return HN_ERROR(HN_INVALID_ARGUMENT, "tensors of %" PRId64 " and %" PRId64 " elements",
                            w->rounds, size);
        w->rounds = size;
    }
    if (w->rounds < 1) return HN_ERROR(HN_UNSUPPORTED, "a loop over no elements");
    return rounds_check(&w->body, w->rounds);
}

/* carried, elements, others -> the operands of round `at` */
static hn_status round_operands(const walk *w, const hn_value *carried, uint32_t carried_count,
                                int64_t at, value_list *out) {
    uint32_t count = carried_count + w->elements.count + w->others.count, n = 0;
    hn_value *all;
    HN_TRY(hn_arena_array(w->scope->im->scratch, count + 1, sizeof *all, &all));
    for (uint32_t k = 0; k < carried_count; k++) all[n++] = carried[k];
    for (uint32_t k = 0; k < w->elements.count; k++)
        all[n++] = element(w->scope->graph, w->elements.items[k], at);
    for (uint32_t k = 0; k < w->others.count; k++) all[n++] = w->others.items[k];
    *out = (value_list){all, n};
    return hn_graph_status(w->scope->graph);
}

/* Output k of all rounds as the node's result `name`. */
static hn_status collect(const walk *w, uint32_t k, hn_str name) {
    hn_pt2_name *entry = NULL;
    hn_value result = 0;
    hn_arg args[2] = {{.kind = HN_ARG_VALUES, .count = (uint32_t)w->rounds},
                      hn_arg_expr(hn_sym_int(w->scope->graph->sym, 0))};
    args[0].as.values = w->collected + (size_t)k * (size_t)w->rounds;
    if (!name.len) return NULL;
    HN_TRY(hn_pt2_define(w->scope, name, HN_PT2_TENSOR, &entry));
    HN_TRY(hn_pt2_use_value(w->scope, name, &result));
    hn_graph_add_node(w->scope->graph, HN_ATEN_stack_default, args, 2, &result, 1);
    return hn_graph_status(w->scope->graph);
}

/* Runs the rounds; the node's results are what is carried at the end, then the other outputs of all
 * rounds. */
static hn_status walk_run(walk *w) {
    hn_str *names = NULL;
    uint32_t name_count = 0, outputs = 0;
    const hn_value *carried = w->carried.items;
    uint32_t carried_count = w->carried.count;
    HN_TRY(walk_length(w));
    HN_TRY(hop_names(hn_pt2_node_json(&w->scope->text, w->node->outputs), w->scope->im->scratch,
                     &names, &name_count));
    HN_TRY(hn_arena_array(w->scope->im->scratch, (size_t)(name_count + 1) * (size_t)w->rounds,
                          sizeof *w->collected, &w->collected));
    for (int64_t at = 0; at < w->rounds; at++) {
        value_list operands, results;
        HN_TRY(hn_pt2_origin_set(w->scope, w->node));
        HN_TRY(round_operands(w, carried, carried_count, at, &operands));
        if (w->carries_elements && at == 0)
            results = (value_list){operands.items, w->elements.count};
        else HN_TRY(body_inline(w->scope, &w->body, operands, &results));
        outputs = results.count;
        if (outputs < w->carried.count || outputs != name_count)
            return HN_ERROR(HN_INVALID_ARGUMENT, "inner graph has %u outputs, its node %u", outputs,
                            name_count);
        if (w->carries_elements) carried_count = outputs;
        carried = results.items;
        for (uint32_t k = w->carried.count; k < outputs; k++)
            w->collected[(size_t)k * (size_t)w->rounds + (size_t)at] = results.items[k];
    }
    HN_TRY(hn_pt2_origin_set(w->scope, w->node));
    for (uint32_t k = 0; k < w->carried.count; k++)
        if (names[k].len) HN_TRY(hn_pt2_bind(w->scope, names[k], carried[k], 0));
    for (uint32_t k = w->carried.count; k < outputs; k++) HN_TRY(collect(w, k, names[k]));
    return NULL;
}

/* scan: (graph, [carried], [elements], [others]); map: without what is carried */
static hn_status walk_read(hn_pt2_scope *scope, const hn_pt2_node_text *node, bool carries,
                           bool carries_elements) {
    walk w = {.scope = scope, .node = node, .carries_elements = carries_elements};
    hop_args args;
    uint32_t at = 1;
    HN_TRY(hop_args_read(scope, node, &args));
    HN_TRY(hop_graph(&args, 0, &w.body));
    if (carries) HN_TRY(operands_read(scope, &args, at++, &w.carried));
    HN_TRY(operands_read(scope, &args, at, &w.elements));
    HN_TRY(operands_read(scope, &args, at + 1, &w.others));
    return walk_run(&w);
}

hn_status hn_pt2_scan_read(hn_pt2_scope *scope, const hn_pt2_node_text *node) {
    return walk_read(scope, node, true, false);
}
hn_status hn_pt2_map_read(hn_pt2_scope *scope, const hn_pt2_node_text *node) {
    return walk_read(scope, node, false, false);
}
hn_status hn_pt2_associative_scan_read(hn_pt2_scope *scope, const hn_pt2_node_text *node) {
    return walk_read(scope, node, false, true);
}

/* --- while a counter is below a limit --- */

/* The node of an inner graph that makes `name`: its target and arguments. */
static hn_status maker_find(const hn_pt2_scope *scope, const hn_pt2_graph_text *text, hn_str name,
                            hn_str *out_target, hop_args *out) {
    *out_target = HN_STR("");
    out->count = 0;
    hn_pt2_scope inner = *scope;
    inner.text = *text;
    for (uint32_t k = 0; k < text->nodes.count; k++) {
        hn_str *names = NULL;
        uint32_t count = 0;
        HN_TRY(hop_names(hn_pt2_node_json(text, text->nodes.items[k].outputs), scope->im->scratch,
                         &names, &count));
        if (count != 1 || !hn_str_eq(names[0], name)) continue;
        *out_target = text->nodes.items[k].target;
        return hop_args_read(&inner, &text->nodes.items[k], out);
    }
    return NULL;
}

static bool int_of(hn_pt2_scope *scope, const hop_args *args, uint32_t k, int64_t *out) {
    hn_arg arg = {0};
    hn_str name = HN_STR("");
    if (k >= args->count) return false;
    hn_pt2_place place = args->items[k], again = place;
    hn_status status = hop_argument_name(&again, &name);
    if (!status && !name.len) status = hn_pt2_arg_read(scope, &place, NULL, &arg);
    bool ok =
        !status && arg.kind == HN_ARG_INT && hn_sym_is_int(scope->graph->sym, arg.as.expr, out);
    hn_status_free(status);
    return ok;
}

static int position_of(const hn_str *names, uint32_t count, hn_str name) {
    for (uint32_t k = 0; k < count; k++)
        if (name.len && hn_str_eq(names[k], name)) return (int)k;
    return -1;
}

typedef struct counter {
    int carried; /* which of the carried tensors; -1: none was found */
    int64_t start, step, limit;
    enum { BELOW, UP_TO, ABOVE, DOWN_TO, UNTIL } relation;
} counter;

/* The condition: one comparison of a carried tensor with a number. */
static hn_status condition_read(hn_pt2_scope *scope, const hn_pt2_graph_text *cond, counter *out) {
    static const char *const targets[] = {"torch.ops.aten.lt.Scalar", "torch.ops.aten.le.Scalar",
                                          "torch.ops.aten.gt.Scalar", "torch.ops.aten.ge.Scalar",
                                          "torch.ops.aten.ne.Scalar"};
    hn_str *inputs = NULL, *outputs = NULL, target, name = HN_STR("");
    uint32_t input_count = 0, output_count = 0;
    hop_args args;
    out->carried = -1;
    HN_TRY(hop_names(cond->inputs, scope->im->scratch, &inputs, &input_count));
    HN_TRY(hop_names(cond->outputs, scope->im->scratch, &outputs, &output_count));
    if (output_count != 1) return NULL;
    HN_TRY(maker_find(scope, cond, outputs[0], &target, &args));
    for (int k = 0; k < 5; k++) {
        if (!hn_str_eq(target, hn_str_of(targets[k])) || args.count != 2 ||
            !int_of(scope, &args, 1, &out->limit))
            continue;
        hn_pt2_place place = args.items[0];
        HN_TRY(hop_argument_name(&place, &name));
        out->relation = k;
        out->carried = position_of(inputs, input_count, name);
    }
    return NULL;
}

/* The body: that tensor plus or minus a number. Sets carried to -1 when it is something else. */
static hn_status step_read(hn_pt2_scope *scope, const hn_pt2_graph_text *body, counter *c) {
    hn_str *inputs = NULL, *outputs = NULL, target, name = HN_STR("");
    uint32_t input_count = 0, output_count = 0, at = (uint32_t)c->carried;
    hop_args args;
    c->carried = -1;
    HN_TRY(hop_names(body->inputs, scope->im->scratch, &inputs, &input_count));
    HN_TRY(hop_names(body->outputs, scope->im->scratch, &outputs, &output_count));
    if (at >= input_count || at >= output_count) return NULL;
    HN_TRY(maker_find(scope, body, outputs[at], &target, &args));
    bool adds = hn_str_starts_with(target, HN_STR("torch.ops.aten.add.")),
         subtracts = hn_str_starts_with(target, HN_STR("torch.ops.aten.sub."));
    if ((!adds && !subtracts) || args.count != 2 || !int_of(scope, &args, 1, &c->step)) return NULL;
    hn_pt2_place place = args.items[0];
    HN_TRY(hop_argument_name(&place, &name));
    if (subtracts) c->step = -c->step;
    if (hn_str_eq(name, inputs[at])) c->carried = (int)at;
    return NULL;
}

static const hn_node_info *maker_of(const hn_graph *g, hn_value v) {
    for (hn_node n = g->nodes.count; n-- > 1;)
        for (uint32_t k = 0; k < g->nodes.items[n].result_count; k++)
            if (g->nodes.items[n].results[k] == v) return &g->nodes.items[n];
    return NULL;
}

/* An integer of one element whose bytes are in the file. */
static bool stored_number(const hn_graph *g, hn_value v, int64_t *out) {
    for (uint32_t k = 0; k < g->inputs.count; k++) {
        const hn_input *in = &g->inputs.items[k];
        const hn_value_info *info = hn_graph_value(g, v);
        int32_t word;
        if (in->value != v || in->kind != HN_INPUT_CONSTANT || !in->storage || info->rank) continue;
        const hn_storage *storage = &g->storages.items[in->storage];
        size_t size = hn_dtype_facts(info->dtype)->size_bytes,
               begin = (size_t)in->storage_offset_elems * size;
        const uint8_t *bytes =
            storage->data && begin + size <= storage->size_bytes ? hn_storage_bytes(storage) : NULL;
        if (!bytes || (info->dtype != HN_DTYPE_I64 && info->dtype != HN_DTYPE_I32)) return false;
        if (info->dtype == HN_DTYPE_I64) memcpy(out, bytes + begin, sizeof *out);
        else {
            memcpy(&word, bytes + begin, sizeof word);
            *out = word;
        }
        return true;
    }
    return false;
}

/* Whether some node writes into `v`; a detach in place does not. */
static bool is_written(const hn_graph *g, hn_value v) {
    for (hn_node n = 1; n < g->nodes.count; n++) {
        const hn_node_info *node = &g->nodes.items[n];
        uint32_t count = 0;
        const hn_param *params = hn_op_params(node->op, &count);
        for (uint32_t k = 0; k < count && k < node->arg_count; k++)
            if (params[k].mutated && node->op != HN_ATEN_detach__default &&
                node->args[k].kind == HN_ARG_VALUE && node->args[k].as.value == v)
                return true;
    }
    return false;
}

/* What a carried tensor is before the first round: a number made by the graph, or stored, and
 * copied. */
static bool start_of(const hn_graph *g, hn_value v, int64_t *out) {
    static const hn_op copies[] = {HN_ATEN_lift_fresh_copy_default, HN_ATEN_detach__default,
                                   HN_ATEN_detach_default, HN_ATEN_clone_default,
                                   HN_ATEN_alias_default};
    if (hn_graph_value(g, v)->dtype != HN_DTYPE_I64 && hn_graph_value(g, v)->dtype != HN_DTYPE_I32)
        return false;
    for (int hops = 0; hops < 16; hops++) {
        const hn_node_info *node = maker_of(g, v);
        bool is_copy = false;
        if (is_written(g, v)) return false;
        if (!node) return stored_number(g, v, out);
        for (size_t k = 0; k < sizeof copies / sizeof *copies; k++)
            is_copy |= node->op == copies[k];
        const hn_arg *arg = &node->args[node->op == HN_ATEN_full_default ? 1 : 0];
        *out = 0;
        if (node->op == HN_ATEN_zeros_default) return true;
        if (node->op == HN_ATEN_full_default || node->op == HN_ATEN_scalar_tensor_default)
            return arg->kind == HN_ARG_INT && hn_sym_is_int(g->sym, arg->as.expr, out);
        if (!is_copy || arg->kind != HN_ARG_VALUE) return false;
        v = arg->as.value;
    }
    return false;
}

/* The number of rounds; -1: more than can be unrolled, or it never ends. */
static int64_t rounds_of(const counter *c) {
    int64_t at = c->start;
    for (int64_t n = 0; n <= MAX_ROUNDS; n++, at += c->step) {
        bool goes_on = c->relation == BELOW     ? at < c->limit
                       : c->relation == UP_TO   ? at <= c->limit
                       : c->relation == ABOVE   ? at > c->limit
                       : c->relation == DOWN_TO ? at >= c->limit
                                                : at != c->limit;
        if (!goes_on) return n;
        if (c->step > INT32_MAX || c->step < INT32_MIN || at > INT32_MAX || at < INT32_MIN)
            return -1;
    }
    return -1;
}

/* (condition, body, [carried], [others]) */
/* How often the loop runs, from its counter. */
static hn_status rounds_read(hn_pt2_scope *scope, const hn_pt2_graph_text *cond,
                             const hn_pt2_graph_text *body, const value_list *carried,
                             int64_t *out) {
    counter c;
    HN_TRY(condition_read(scope, cond, &c));
    if (c.carried >= 0) HN_TRY(step_read(scope, body, &c));
    bool counts = c.carried >= 0 && (uint32_t)c.carried < carried->count &&
                  start_of(scope->graph, carried->items[c.carried], &c.start);
    *out = counts ? rounds_of(&c) : -1;
    if (*out < 0)
        return HN_ERROR(
            HN_UNSUPPORTED,
            "a loop whose number of rounds is not known; only counters that start at a constant, change by a "
            "constant and are compared with a constant of at most %d rounds can be unrolled",
            MAX_ROUNDS);
    return rounds_check(body, *out);
}

/* One round: what is carried becomes the results of the body. */
static hn_status round_inline(hn_pt2_scope *scope, const hn_pt2_graph_text *body,
                              const value_list *others, value_list *carried) {
    hn_value *operands;
    value_list results;
    uint32_t count = carried->count + others->count;
    HN_TRY(hn_arena_array(scope->im->scratch, count + 1, sizeof *operands, &operands));
    for (uint32_t k = 0; k < carried->count; k++) operands[k] = carried->items[k];
    for (uint32_t k = 0; k < others->count; k++) operands[carried->count + k] = others->items[k];
    HN_TRY(body_inline(scope, body, (value_list){operands, count}, &results));
    if (results.count != carried->count)
        return HN_ERROR(HN_INVALID_ARGUMENT, "inner graph has %u outputs for %u carried tensors",
                        results.count, carried->count);
    *carried = results;
    return NULL;
}

hn_status hn_pt2_while_read(hn_pt2_scope *scope, const hn_pt2_node_text *node) {
    hop_args args;
    hn_pt2_graph_text cond, body;
    value_list carried, others;
    hn_str *names = NULL;
    uint32_t name_count = 0;
    int64_t rounds;
    HN_TRY(hop_args_read(scope, node, &args));
    HN_TRY(hop_graph(&args, 0, &cond));
    HN_TRY(hop_graph(&args, 1, &body));
    HN_TRY(operands_read(scope, &args, 2, &carried));
    HN_TRY(operands_read(scope, &args, 3, &others));
    HN_TRY(rounds_read(scope, &cond, &body, &carried, &rounds));
    HN_TRY(hop_names(hn_pt2_node_json(&scope->text, node->outputs), scope->im->scratch, &names,
                     &name_count));
    if (name_count != carried.count)
        return HN_ERROR(HN_INVALID_ARGUMENT, "%u results of a loop that carries %u tensors",
                        name_count, carried.count);
    for (int64_t n = 0; n < rounds; n++) HN_TRY(round_inline(scope, &body, &others, &carried));
    for (uint32_t k = 0; k < name_count; k++)
        if (names[k].len) HN_TRY(hn_pt2_bind(scope, names[k], carried.items[k], 0));
    return NULL;
}
