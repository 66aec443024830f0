/* weights_split.c: see weights.h. Both graphs have their sizes in one sym. */
#include "opt/weights.h"

hn_status hn_weights_split_begin(hn_graph *graph, hn_arena *scratch, hn_weights_split *s) {
    *s = (hn_weights_split){.from = graph, .scratch = scratch};
    HN_TRY(hn_graph_create(graph->arena, graph->sym, &s->to));
    s->to->name = graph->name;
    HN_NEW(scratch, s->copies, graph->values.count);
    HN_NEW(scratch, s->inputs, graph->values.count);
    HN_NEW(scratch, s->storages, graph->storages.count);
    for (uint32_t k = 0; k < graph->inputs.count; k++)
        s->inputs[graph->inputs.items[k].value] = k + 1;
    return NULL;
}

/* ---- copies ---- */

static hn_status copy_value(hn_weights_split *s, hn_value v, const hn_expr *strides,
                            hn_value *out) {
    const hn_value_info *info = hn_graph_value(s->from, v);
    *out = hn_graph_add_tensor(s->to, info->dtype, info->rank, info->sizes, strides, info->name);
    s->copies[v] = *out;
    return hn_graph_status(s->to);
}

/* Bytes of a weight lie as its strides say. */
static hn_status copy_input(hn_weights_split *s, hn_value v) {
    const uint32_t index = s->inputs[v];
    if (!index) return HN_ERROR(HN_INTERNAL, "value %u of weights is no weight", v);
    hn_input copy = s->from->inputs.items[index - 1];
    uint32_t *storage = &s->storages[copy.storage];
    if (!*storage) {
        hn_storage same = s->from->storages.items[copy.storage];
        same.outer = copy.storage;
        *storage = hn_graph_add_storage(s->to, same);
    }
    copy.storage = *storage;
    HN_TRY(copy_value(s, v, hn_graph_value(s->from, v)->strides, &copy.value));
    return hn_graph_add_input(s->to, copy);
}

static hn_status copied(hn_weights_split *s, hn_value v, hn_value *out) {
    if (v && !s->copies[v]) HN_TRY(copy_input(s, v));
    *out = s->copies[v];
    return NULL;
}

static hn_status copy_arg(hn_weights_split *s, const hn_arg *from, hn_arg *out) {
    hn_value *values;
    *out = *from;
    if (from->kind == HN_ARG_VALUE) return copied(s, from->as.value, &out->as.value);
    if (from->kind != HN_ARG_VALUES) return NULL;
    HN_NEW(s->scratch, values, from->count);
    for (uint32_t k = 0; k < from->count; k++) HN_TRY(copied(s, from->as.values[k], &values[k]));
    out->as.values = values;
    return NULL;
}

hn_status hn_weights_split_copy(hn_weights_split *s, hn_node n) {
    const hn_node_info *node = &s->from->nodes.items[n];
    hn_arg *args;
    hn_value *results;
    HN_NEW(s->scratch, args, node->arg_count);
    HN_NEW(s->scratch, results, node->result_count);
    for (uint32_t k = 0; k < node->arg_count; k++) HN_TRY(copy_arg(s, &node->args[k], &args[k]));
    for (uint32_t k = 0; k < node->result_count; k++)
        if (node->results[k]) HN_TRY(copy_value(s, node->results[k], NULL, &results[k]));
    s->to->current_origin = 0;
    if (node->origin)
        s->to->current_origin = hn_graph_add_origin(s->to, s->from->origins.items[node->origin]);
    hn_graph_add_node(s->to, node->op, args, node->arg_count, results, node->result_count);
    return hn_graph_status(s->to);
}

/* ---- what is kept ---- */

static size_t bytes_of(const hn_graph *g, const hn_value_info *info) {
    size_t bytes = hn_dtype_facts(info->dtype)->size_bytes;
    int64_t size = 0;
    for (uint32_t d = 0; d < info->rank; d++)
        if (hn_sym_is_int(g->sym, info->sizes[d], &size)) bytes *= (size_t)size;
    return bytes;
}

/* The node of an output gives a copy in the layout of the output. */
static hn_status copy_to_output(hn_graph *g, hn_value constant, hn_value v) {
    const hn_value_info info = *hn_graph_value(g, v);
    const hn_arg args[] = {hn_arg_value(constant), hn_arg_dtype(info.dtype)};
    hn_node_info *node = hn_graph_node(g, info.producer);
    HN_NEW(g->arena, node->args, 2);
    memcpy(node->args, args, sizeof args);
    node->op = HN_OP_CAST;
    node->arg_count = 2;
    return NULL;
}

hn_status hn_weights_split_keep(hn_weights_split *s, hn_value v, bool is_output) {
    hn_graph *g = s->from;
    const hn_value_info info = *hn_graph_value(g, v);
    hn_input input = {.kind = HN_INPUT_CONSTANT, .value = v, .name = info.name};
    HN_TRY(hn_graph_add_output(
        s->to, (hn_output){.kind = HN_OUTPUT_USER, .value = s->copies[v], .name = info.name}));
    input.storage = hn_graph_add_storage(g, (hn_storage){.size_bytes = bytes_of(g, &info),
                                                         .file_record = HN_STR(""),
                                                         .computed = s->to->outputs.count});
    if (is_output) {
        input.value = hn_graph_add_tensor(g, info.dtype, info.rank, info.sizes, NULL, HN_STR(""));
        HN_TRY(hn_graph_status(g));
        HN_TRY(copy_to_output(g, input.value, v));
    } else {
        g->values.items[v].producer = 0;
        g->values.items[v].result_idx = 0;
        g->values.items[v].strides = NULL;
    }
    return hn_graph_add_input(g, input);
}

hn_status hn_weights_split_end(hn_weights_split *s) {
    s->from->weights_program = s->to;
    hn_graph_compact(s->from);
    return hn_graph_status(s->from);
}
