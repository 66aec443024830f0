/* interp.c: runs a graph node by node: values and their life, the table from rows to functions,
 * messages.
 *
 * Every value is a tensor of its own, views included; it is freed after the last node that reads
 * it. Parameters and constants are read from their storage at their first use. */
#include "ir/interp_impl.h"

#include "base/checked.h"

#include <inttypes.h>

/* One entry a row; element-wise rows have a table of their own in interp_elementwise.c. */
static const hn_ref_fn row_functions[HN_OP_COUNT] = {
    [HN_OP_FULL] = hn_ref_full,
    [HN_OP_IOTA] = hn_ref_iota,
    [HN_OP_RANDOM] = hn_ref_random,
    [HN_OP_RESHAPE] = hn_ref_reshape,
    [HN_OP_PERMUTE] = hn_ref_permute,
    [HN_OP_EXPAND] = hn_ref_expand,
    [HN_OP_SLICE] = hn_ref_slice,
    [HN_OP_WINDOW] = hn_ref_window,
    [HN_OP_AS_STRIDED] = hn_ref_as_strided,
    [HN_OP_PAD] = hn_ref_pad,
    [HN_OP_CAT] = hn_ref_cat,
    [HN_OP_GATHER] = hn_ref_gather,
    [HN_OP_INDEX] = hn_ref_index,
    [HN_OP_INDEX_PUT] = hn_ref_index_put,
    [HN_OP_SCATTER] = hn_ref_scatter,
    [HN_OP_SUM] = hn_ref_reduce,
    [HN_OP_PROD] = hn_ref_reduce,
    [HN_OP_AMIN] = hn_ref_reduce,
    [HN_OP_AMAX] = hn_ref_reduce,
    [HN_OP_ANY] = hn_ref_reduce,
    [HN_OP_ALL] = hn_ref_reduce,
    [HN_OP_ARGMIN] = hn_ref_reduce,
    [HN_OP_ARGMAX] = hn_ref_reduce,
    [HN_OP_CUMSUM] = hn_ref_scan,
    [HN_OP_CUMPROD] = hn_ref_scan,
    [HN_OP_CUMMAX] = hn_ref_scan,
    [HN_OP_CUMMIN] = hn_ref_scan,
    [HN_OP_LOGCUMSUMEXP] = hn_ref_scan,
    [HN_OP_SORT] = hn_ref_sort,
    [HN_OP_TOPK] = hn_ref_topk,
    [HN_OP_MATMUL] = hn_ref_matmul,
    [HN_OP_CONV] = hn_ref_conv,
    [HN_OP_ATTENTION] = hn_ref_attention,
    [HN_OP_ATTENTION_BACKWARD] = hn_ref_attention_backward,
    [HN_OP_NONZERO] = hn_ref_nonzero,
    [HN_OP_NMS] = hn_ref_nms,
    [HN_OP_GROUPED_MATMUL] = hn_ref_grouped_matmul,
    [HN_OP_ITEM] = hn_ref_item,
    [HN_OP_COND] = hn_ref_cond,
    [HN_OP_LOOP] = hn_ref_loop,
    [HN_OP_ASSERT] = hn_ref_assert,
};

#define MAX_DEPTH 32 /* of graphs within graphs */

/* --- life of values --- */

typedef struct use_marker {
    hn_ref_run *run;
    uint32_t node;
} use_marker;

static void mark_use(void *user, hn_value value) {
    use_marker *marker = user;
    if (value && value < marker->run->graph->values.count)
        marker->run->slots[value].last_use = marker->node;
}

static void mark_uses(hn_ref_run *run) {
    for (hn_node n = 1; n < run->graph->nodes.count; n++) {
        const hn_node_info *node = hn_graph_node(run->graph, n);
        if (!node->dead) hn_node_each_value(node, mark_use, &(use_marker){run, n});
    }
    for (uint32_t k = 0; k < run->graph->outputs.count; k++)
        mark_use(&(use_marker){run, UINT32_MAX}, run->graph->outputs.items[k].value);
}

static void slot_free(hn_ref_slot *slot) {
    if (slot->full) hn_ref_free(&slot->tensor);
    slot->full = false;
}

static void free_dead(void *user, hn_value value) {
    use_marker *marker = user;
    if (value && value < marker->run->graph->values.count &&
        marker->run->slots[value].last_use <= marker->node)
        slot_free(&marker->run->slots[value]);
}

static void free_after(hn_ref_run *run) {
    use_marker marker = {run, run->node_id};
    hn_node_each_value(run->node, free_dead, &marker);
    for (uint32_t k = 0; k < run->node->result_count; k++)
        free_dead(&marker, run->node->results[k]);
    hn_ref_free(&run->absent[0]);
    hn_ref_free(&run->absent[1]);
}

hn_status hn_ref_run_init(hn_ref_run *run, hn_arena *arena, hn_arena *scratch, hn_graph *graph,
                          uint32_t depth) {
    *run = (hn_ref_run){.arena = arena, .scratch = scratch, .graph = graph, .depth = depth};
    if (depth > MAX_DEPTH)
        return HN_ERROR(HN_UNSUPPORTED, "graphs are nested more than %d deep", MAX_DEPTH);
    HN_NEW(arena, run->slots, graph->values.count + 1);
    HN_NEW(arena, run->bindings, 1);
    run->bindings->arena = arena;
    run->bindings->sym = graph->sym;
    for (uint32_t k = 0; k < graph->inputs.count; k++) {
        hn_value v = graph->inputs.items[k].value;
        if (v >= graph->values.count) return HN_ERROR(HN_INTERNAL, "input %u has no value", k);
        if (v) run->slots[v].input = k + 1;
    }
    mark_uses(run);
    return NULL;
}

void hn_ref_run_deinit(hn_ref_run *run) {
    for (uint32_t v = 0; run->slots && v < run->graph->values.count; v++) slot_free(&run->slots[v]);
    hn_ref_free(&run->absent[0]);
    hn_ref_free(&run->absent[1]);
}

/* --- inputs --- */

/* First and last element that sizes and strides reach, relative to the offset. */
static bool reach(const hn_ref_tensor *t, const int64_t *strides, int64_t offset, int64_t *out_lo,
                  int64_t *out_hi) {
    *out_lo = *out_hi = offset;
    for (uint32_t d = 0; d < t->rank; d++) {
        int64_t span, *end = strides[d] < 0 ? out_lo : out_hi;
        if (!hn_mul_i64(strides[d], t->sizes[d] - 1, &span) || !hn_add_i64(*end, span, end))
            return false;
    }
    return true;
}

static hn_status stored_strides(const hn_ref_run *run, const hn_value_info *info,
                                const hn_ref_tensor *t, int64_t *out) {
    if (info->strides) return hn_ref_eval_sizes(run->bindings, info->rank, info->strides, out);
    int64_t stride = 1;
    for (uint32_t d = t->rank; d-- > 0; stride *= t->sizes[d]) out[d] = stride;
    return NULL;
}

static hn_status read_stored(hn_ref_run *run, const hn_input *input, hn_ref_slot *slot) {
    const hn_value_info *info = hn_graph_value(run->graph, input->value);
    int64_t sizes[HN_MAX_RANK], strides[HN_MAX_RANK], lo, hi,
        elem_bytes = hn_dtype_facts(info->dtype)->size_bytes;
    const uint8_t *data;
    if (info->kind != HN_VALUE_TENSOR || input->storage == 0 ||
        input->storage >= run->graph->storages.count)
        return HN_ERROR(HN_INTERNAL, "it has no storage");
    const hn_storage *storage = &run->graph->storages.items[input->storage];
    HN_TRY(hn_ref_eval_sizes(run->bindings, info->rank, info->sizes, sizes));
    HN_TRY(hn_ref_alloc(info->dtype, info->rank, sizes, &slot->tensor));
    slot->full = true;
    if (slot->tensor.numel == 0) return NULL;
    HN_TRY(hn_graph_storage_data(run->graph, input->storage, run->arena, &data));
    if (!data) return HN_ERROR(HN_UNSUPPORTED, "its bytes were not loaded");
    HN_TRY(stored_strides(run, info, &slot->tensor, strides));
    if (!reach(&slot->tensor, strides, input->storage_offset_elems, &lo, &hi) || lo < 0 ||
        hi >= (int64_t)(storage->size_bytes / (size_t)elem_bytes))
        return HN_ERROR(HN_INVALID_ARGUMENT,
                        "its sizes and strides reach beyond the %zu bytes of its storage",
                        storage->size_bytes);
    hn_ref_read(&slot->tensor, strides, data + input->storage_offset_elems * elem_bytes);
    return NULL;
}

static hn_status copy_users(hn_ref_run *run, const hn_ref_tensor *const *inputs) {
    uint32_t k = 0;
    for (uint32_t n = 0; n < run->graph->inputs.count; n++) {
        const hn_input *input = &run->graph->inputs.items[n];
        if (input->kind != HN_INPUT_USER) continue;
        const hn_ref_tensor *given = inputs[k++];
        hn_ref_slot *slot = &run->slots[input->value];
        if (input->value == 0 || slot->full)
            return HN_ERROR(HN_INTERNAL, "input %u has no value of its own", n);
        HN_TRY(hn_ref_alloc(given->dtype, given->rank, given->sizes, &slot->tensor));
        slot->full = true;
        for (int64_t at = 0; at < given->numel; at++) hn_ref_move(&slot->tensor, at, given, at);
        hn_ref_round(&slot->tensor);
    }
    return NULL;
}

/* --- values --- */

/* The integer of a symbolic scalar that no node or input has put in its slot. */
static hn_status fill_expr(hn_ref_run *run, const hn_value_info *info, hn_ref_slot *slot) {
    int64_t value;
    HN_TRY(hn_ref_eval(run->bindings, info->expr, &value));
    HN_TRY(hn_ref_alloc(info->kind == HN_VALUE_SYM_BOOL ? HN_DTYPE_BOOL : HN_DTYPE_I64, 0, NULL,
                        &slot->tensor));
    slot->full = true;
    slot->tensor.data.i[0] = value;
    return NULL;
}

hn_status hn_ref_run_value(hn_ref_run *run, hn_value value, const hn_ref_tensor **out) {
    if (value == 0 || value >= run->graph->values.count)
        return HN_ERROR(HN_INTERNAL, "value %u does not exist", value);
    hn_ref_slot *slot = &run->slots[value];
    const hn_value_info *info = hn_graph_value(run->graph, value);
    if (!slot->full && slot->input) {
        const hn_input *input = &run->graph->inputs.items[slot->input - 1];
        HN_TRY(hn_status_annotate(read_stored(run, input, slot), "cannot read '" HN_STR_FMT "'",
                                  HN_STR_ARG(input->name)));
    }
    if (!slot->full && (info->kind == HN_VALUE_SYM_INT || info->kind == HN_VALUE_SYM_BOOL) &&
        info->expr)
        HN_TRY(fill_expr(run, info, slot));
    if (!slot->full) return HN_ERROR(HN_INTERNAL, "value %u is used before it is computed", value);
    *out = &slot->tensor;
    return NULL;
}

/* --- nodes --- */

static hn_status annotate_node(const hn_ref_run *run, hn_status status) {
    if (!status) return NULL;
    const hn_node_info *node = run->node;
    const hn_origin none = {0};
    const hn_origin *origin =
        node->origin < run->graph->origins.count ? &run->graph->origins.items[node->origin] : &none;
    hn_strbuf where;
    hn_strbuf_init(&where);
    hn_strbuf_printf(&where, "node %u '%s'", run->node_id, hn_op_facts(node->op)->name);
    if (origin->node.len)
        hn_strbuf_printf(&where, " from '" HN_STR_FMT "'", HN_STR_ARG(origin->node));
    if (origin->source.len) hn_strbuf_printf(&where, " at " HN_STR_FMT, HN_STR_ARG(origin->source));
    status = hn_status_annotate(status, "%s", where.ptr ? where.ptr : "node");
    hn_strbuf_deinit(&where);
    return status;
}

static hn_status run_node(hn_ref_run *run) {
    hn_op op = run->node->op;
    if (op == HN_OP_NONE || op >= HN_OP_COUNT)
        return HN_ERROR(HN_UNSUPPORTED,
                        "only primitives can be interpreted; decompose the graph first");
    hn_ref_fn fn = hn_op_is_elementwise(op) ? hn_ref_run_elementwise : row_functions[op];
    if (!fn) return HN_ERROR(HN_UNSUPPORTED, "the interpreter has no function for this row");
    HN_TRY(fn(run));
    for (uint32_t k = 0; k < run->node->result_count; k++) {
        hn_value v = run->node->results[k];
        if (v && run->slots[v].full) hn_ref_round(&run->slots[v].tensor);
    }
    return NULL;
}

hn_status hn_ref_run_nodes(hn_ref_run *run, const hn_ref_tensor *const *inputs,
                           uint32_t input_count) {
    HN_TRY(hn_ref_bind_inputs(run->bindings, run->graph, inputs, input_count));
    HN_TRY(copy_users(run, inputs));
    for (hn_node n = 1; n < run->graph->nodes.count; n++) {
        run->node = hn_graph_node(run->graph, n);
        run->node_id = n;
        if (run->node->dead) continue;
        HN_TRY(annotate_node(run, run_node(run)));
        free_after(run);
        /* nested runs keep the memory of the node above */
        if (run->depth == 0) hn_arena_reset(run->scratch);
    }
    return NULL;
}

static hn_status take_outputs(hn_ref_run *run, hn_arena *arena, hn_ref_tensor *out_outputs) {
    for (uint32_t k = 0; k < run->graph->outputs.count; k++) {
        const hn_output *output = &run->graph->outputs.items[k];
        const hn_ref_tensor *t;
        out_outputs[k] = (hn_ref_tensor){0};
        if (output->kind == HN_OUTPUT_SCALAR) continue;
        HN_TRY(hn_status_annotate(hn_ref_run_value(run, output->value, &t), "output %u", k));
        HN_TRY(hn_ref_tensor_init(arena, t->dtype, t->rank, t->sizes, &out_outputs[k]));
        for (int64_t at = 0; at < t->numel; at++) hn_ref_move(&out_outputs[k], at, t, at);
    }
    return NULL;
}

hn_status hn_interpret(hn_arena *arena, hn_graph *graph, const hn_ref_tensor *inputs,
                       uint32_t input_count, hn_ref_tensor *out_outputs) {
    hn_arena own, scratch;
    hn_ref_run run = {0};
    const hn_ref_tensor **list = NULL;
    hn_arena_init(&own);
    hn_arena_init(&scratch);
    hn_status status = hn_arena_array(&own, (size_t)input_count + 1, sizeof *list, &list);
    for (uint32_t k = 0; !status && k < input_count; k++) list[k] = &inputs[k];
    if (!status) status = hn_ref_run_init(&run, &own, &scratch, graph, 0);
    if (!status) status = hn_ref_run_nodes(&run, list, input_count);
    if (!status) status = take_outputs(&run, arena, out_outputs);
    if (run.graph) hn_ref_run_deinit(&run);
    hn_arena_deinit(&scratch);
    hn_arena_deinit(&own);
    return status;
}
