/* cond.c: a conditional becomes bracketed items: the branches' own items, each ending with copies
 * of its results into buffers that both share. Subgraphs have no closures: all they read comes in
 * as operands. */
#include "lower/internal.h"

static hn_item_info bracket(lower *l, hn_item_kind kind, hn_buf cond) {
    return (hn_item_info){.kind = kind, .origin = l->origin, .cond = cond};
}

/* A constant that a pass has made inside a branch becomes one of the program. */
static hn_status adopt_constant(lower *l, const hn_input *in) {
    const hn_value_info *vi = hn_graph_value(l->g, in->value);
    hn_input copy = {.kind = HN_INPUT_CONSTANT,
                     .name = in->name,
                     .storage_offset_elems = in->storage_offset_elems};
    hn_expr *strides;
    HN_NEW(l->arena, strides, vi->rank);
    hn_value_strides(l->sym, vi, strides);
    copy.storage = hn_graph_add_storage(l->root, l->g->storages.items[in->storage]);
    copy.value =
        hn_graph_add_tensor(l->root, vi->dtype, vi->rank, vi->sizes, vi->strides, HN_STR(""));
    HN_TRY(hn_graph_status(l->root));
    HN_TRY(hn_graph_add_input(l->root, copy));
    return lower_constant(l, in->value, l->root->inputs.count - 1, strides);
}

hn_status lower_subgraph_init(lower *l, lower *outer, hn_graph *graph, const hn_value *operands,
                              uint32_t count) {
    *l = (lower){.g = graph,
                 .sym = outer->sym,
                 .p = outer->p,
                 .arena = outer->arena,
                 .scratch = outer->scratch,
                 .zero = outer->zero,
                 .one = outer->one,
                 .operations = outer->operations,
                 .deterministic = outer->deterministic,
                 .origin = outer->origin,
                 .is_branch = true,
                 .root = outer->root};
    HN_TRY(lower_count_uses(l));
    for (uint32_t k = 0; k < graph->inputs.count && k < count; k++) {
        hn_value inside = graph->inputs.items[k].value;
        if (inside) l->values[inside] = outer->values[operands[k]];
    }
    /* Nothing inside leaves the program: results are copied. */
    for (uint32_t v = 0; v < graph->values.count; v++) l->output[v] = 0;
    for (uint32_t k = 0; k < graph->inputs.count; k++)
        if (graph->inputs.items[k].storage) HN_TRY(adopt_constant(l, &graph->inputs.items[k]));
    return NULL;
}

static hn_status lower_branch(lower *outer, const hn_node_info *n, hn_graph *branch) {
    lower l;
    HN_TRY(lower_subgraph_init(&l, outer, branch, n->args[3].as.values, n->args[3].count));
    HN_TRY(lower_nodes(&l));
    for (uint32_t k = 0; k < n->result_count; k++) {
        if (!n->results[k]) continue;
        const lower_value *to = &outer->values[n->results[k]];
        HN_TRY(lower_copy_loop(&l, branch->outputs.items[k].value, to->buffer, to->offset,
                               to->strides));
    }
    return NULL;
}

hn_status lower_cond(lower *l, const hn_node_info *n) {
    hn_value pred = n->args[0].as.value;
    const hn_arg *operands = &n->args[3];
    if (hn_graph_value(l->g, pred)->kind != HN_VALUE_TENSOR)
        return HN_ERROR(
            HN_UNSUPPORTED,
            "a conditional on a symbolic bool cannot be lowered; make the predicate a tensor");
    HN_TRY(lower_realize_at_start(l, pred));
    for (uint32_t k = 0; k < operands->count; k++)
        if (operands->as.values[k] &&
            hn_graph_value(l->g, operands->as.values[k])->kind == HN_VALUE_TENSOR)
            HN_TRY(lower_realize(l, operands->as.values[k]));
    for (uint32_t k = 0; k < n->result_count; k++)
        if (n->results[k]) HN_TRY(lower_new_buffer(l, n->results[k], NULL));
    HN_TRY(hn_program_add_item(l->p, bracket(l, HN_ITEM_BRANCH_THEN, l->values[pred].buffer)));
    HN_TRY(lower_branch(l, n, n->args[1].as.graph));
    HN_TRY(hn_program_add_item(l->p, bracket(l, HN_ITEM_BRANCH_ELSE, 0)));
    HN_TRY(lower_branch(l, n, n->args[2].as.graph));
    return hn_program_add_item(l->p, bracket(l, HN_ITEM_BRANCH_END, 0));
}
