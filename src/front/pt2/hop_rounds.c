/* hop_rounds.c: how often a while_loop runs, where its counter tells: a carried integer that starts
 * at a constant, changes by a constant and is compared with a constant. */
#include "front/pt2/hop.h"

#include <string.h>

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

/* The condition: one comparison of a carried tensor, or number, with a number. */
static hn_status condition_read(hn_pt2_scope *scope, const hn_pt2_graph_text *cond, counter *out) {
    static const char *const targets[][2] = {{"torch.ops.aten.lt.Scalar", "_operator.lt"},
                                             {"torch.ops.aten.le.Scalar", "_operator.le"},
                                             {"torch.ops.aten.gt.Scalar", "_operator.gt"},
                                             {"torch.ops.aten.ge.Scalar", "_operator.ge"},
                                             {"torch.ops.aten.ne.Scalar", "_operator.ne"}};
    hn_str *inputs = NULL, *outputs = NULL, target, name = HN_STR("");
    uint32_t input_count = 0, output_count = 0;
    hop_args args;
    out->carried = -1;
    HN_TRY(hop_names(cond->inputs, scope->im->scratch, &inputs, &input_count));
    HN_TRY(hop_names(cond->outputs, scope->im->scratch, &outputs, &output_count));
    if (output_count != 1) return NULL;
    HN_TRY(maker_find(scope, cond, outputs[0], &target, &args));
    for (int k = 0; k < 5; k++) {
        const bool is_it = hn_str_eq(target, hn_str_of(targets[k][0])) ||
                           hn_str_eq(target, hn_str_of(targets[k][1]));
        if (!is_it || args.count != 2 || !int_of(scope, &args, 1, &out->limit)) continue;
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
    bool adds = hn_str_starts_with(target, HN_STR("torch.ops.aten.add.")) ||
                hn_str_eq(target, HN_STR("_operator.add")),
         subtracts = hn_str_starts_with(target, HN_STR("torch.ops.aten.sub.")) ||
                     hn_str_eq(target, HN_STR("_operator.sub"));
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

/* Rounds until `at` has gone `distance` in steps of `step`. */
static int64_t rounds_over(int64_t distance, int64_t step) {
    if (distance <= 0) return 0;
    return step > 0 ? (distance + step - 1) / step : -1;
}

/* The number of rounds; -1: it never ends, or not by the numbers alone. */
static int64_t rounds_of(const counter *c) {
    const int64_t most = INT32_MAX / 2, way = c->limit - c->start;
    if (c->start > most || c->start < -most || c->limit > most || c->limit < -most ||
        c->step > most || c->step < -most)
        return -1;
    switch (c->relation) {
    case BELOW: return rounds_over(way, c->step);
    case UP_TO: return rounds_over(way + 1, c->step);
    case ABOVE: return rounds_over(-way, -c->step);
    case DOWN_TO: return rounds_over(1 - way, -c->step);
    case UNTIL: break;
    }
    if (way == 0) return 0;
    return c->step && way % c->step == 0 && way / c->step > 0 ? way / c->step : -1;
}

hn_status hop_rounds_read(hn_pt2_scope *scope, const hn_pt2_graph_text *cond,
                          const hn_pt2_graph_text *body, const hop_values *carried, int64_t *out) {
    counter c;
    HN_TRY(condition_read(scope, cond, &c));
    if (c.carried >= 0) HN_TRY(step_read(scope, body, &c));
    bool counts = c.carried >= 0 && (uint32_t)c.carried < carried->count;
    if (counts && carried->numbers[c.carried])
        counts = hn_sym_is_int(scope->graph->sym, carried->numbers[c.carried], &c.start);
    else if (counts) counts = start_of(scope->graph, carried->items[c.carried], &c.start);
    *out = counts ? rounds_of(&c) : -1;
    return NULL;
}
