/* lower.c: the walk over the graph. */
#include "lower/lower.h"

#include "lower/internal.h"

/* The function of an op: by op where it has one of its own, else by class. */
static lower_fn find_fn(hn_op op) {
    static const struct {
        hn_op op;
        lower_fn fn;
    } by_op[] = {
        {HN_OP_CAT, lower_cat},
        {HN_OP_SCATTER, lower_scatter},
        {HN_OP_INDEX_PUT, lower_index_put},
        {HN_OP_MATMUL, lower_matmul},
        {HN_OP_CONV, lower_conv},
        {HN_OP_ATTENTION, lower_attention},
        {HN_OP_ATTENTION_BACKWARD, lower_attention_backward},
        {HN_OP_ASSERT, lower_assert},
        {HN_OP_COND, lower_cond},
        {HN_OP_LOOP, lower_repeat},
        {HN_OP_NONZERO, lower_nonzero},
        {HN_OP_ITEM, lower_item},
        {HN_OP_NMS, lower_nms},
        {HN_OP_GROUPED_MATMUL, lower_grouped_matmul},
    };
    static const lower_fn by_class[] = {
        [HN_OPC_UNARY] = lower_expression,
        [HN_OPC_BINARY] = lower_expression,
        [HN_OPC_COMPARE] = lower_expression,
        [HN_OPC_PREDICATE] = lower_expression,
        [HN_OPC_SELECT] = lower_expression,
        [HN_OPC_CAST] = lower_expression,
        [HN_OPC_CREATE] = lower_expression,
        [HN_OPC_VIEW] = lower_view,
        [HN_OPC_DATA] = lower_expression,
        [HN_OPC_REDUCE] = lower_reduce,
        [HN_OPC_SCAN] = lower_scan,
        [HN_OPC_SORT] = lower_sort,
        [HN_OPC_ATEN] = NULL,
    };
    for (size_t k = 0; k < sizeof by_op / sizeof *by_op; k++)
        if (by_op[k].op == op) return by_op[k].fn;
    return by_class[hn_op_facts(op)->op_class];
}

static void count_use(void *user, hn_value v) { ((uint32_t *)user)[v]++; }

hn_status lower_count_uses(lower *l) {
    hn_map_init(&l->sums, l->scratch);
    HN_NEW(l->scratch, l->values, l->g->values.count);
    HN_NEW(l->scratch, l->uses, l->g->values.count);
    HN_NEW(l->scratch, l->output, l->g->values.count);
    for (hn_node n = 1; n < l->g->nodes.count; n++)
        if (!l->g->nodes.items[n].dead)
            hn_node_each_value(&l->g->nodes.items[n], count_use, l->uses);
    for (uint32_t k = 0; k < l->g->outputs.count; k++) {
        hn_value v = l->g->outputs.items[k].value;
        if (!v) continue;
        l->uses[v]++;
        if (!l->output[v]) l->output[v] = k + 1;
    }
    HN_TRY(lower_layouts(l));
    return lower_rows(l);
}

hn_status lower_constant(lower *l, hn_value v, uint32_t input, const hn_expr *strides) {
    const hn_value_info *vi = hn_graph_value(l->g, v);
    lower_value *lv = &l->values[v];
    *lv = (lower_value){.defined = true, .strides = strides, .offset = l->zero, .loads = 1};
    hn_buffer buffer = {.kind = HN_BUFFER_INPUT,
                        .dtype = vi->dtype,
                        .rank = vi->rank,
                        .sizes = vi->sizes,
                        .strides = strides,
                        .input = input,
                        .extent = l->zero};
    return hn_program_add_buffer(l->p, buffer, &lv->buffer);
}

static hn_status add_input(lower *l, uint32_t index) {
    const hn_input *in = &l->g->inputs.items[index];
    /* an expression */
    if (!in->value || hn_graph_value(l->g, in->value)->kind == HN_VALUE_SYM_INT) return NULL;
    const hn_value_info *vi = hn_graph_value(l->g, in->value);
    hn_expr *strides;
    HN_NEW(l->arena, strides, vi->rank);
    hn_value_strides(l->sym, vi, strides);
    lower_value *lv = &l->values[in->value];
    hn_buffer buffer = {.kind = HN_BUFFER_INPUT,
                        .dtype = vi->dtype,
                        .rank = vi->rank,
                        .sizes = vi->sizes,
                        .strides = strides,
                        .input = index,
                        .value = in->value,
                        .extent = l->zero};
    HN_TRY(hn_program_add_buffer(l->p, buffer, &lv->buffer));
    lv->defined = true;
    lv->strides = strides;
    lv->offset = l->zero; /* a weight's own storage offset is added when the program is bound */
    lv->loads = 1;
    return NULL;
}

static hn_status lower_node(lower *l, const hn_node_info *n) {
    lower_fn fn = find_fn(n->op);
    const hn_origin *origin = &l->g->origins.items[n->origin];
    if (!fn)
        return HN_ERROR(HN_UNSUPPORTED, "op '%s' (node '" HN_STR_FMT "') cannot be lowered",
                        hn_op_facts(n->op)->name, HN_STR_ARG(origin->node));
    if (!l->is_branch) l->origin = n->origin;
    hn_status status = fn(l, n);
    if (!status) status = hn_sym_status(l->sym);
    if (status)
        return hn_status_annotate(status, "node '" HN_STR_FMT "'", HN_STR_ARG(origin->node));
    return NULL;
}

hn_status lower_nodes(lower *l) {
    for (hn_node n = 1; n < l->g->nodes.count; n++)
        if (!l->g->nodes.items[n].dead) HN_TRY(lower_node(l, &l->g->nodes.items[n]));
    return NULL;
}

/* Whether the memory of `v` has exactly the strides that the output must have. */
static bool strides_are_right(lower *l, hn_value v) {
    const hn_value_info *vi = hn_graph_value(l->g, v);
    hn_expr wanted[HN_MAX_RANK];
    hn_value_strides(l->sym, vi, wanted);
    for (uint32_t d = 0; d < vi->rank; d++)
        if (l->values[v].strides[d] != wanted[d] && !hn_sym_is_value(l->sym, vi->sizes[d], 1))
            return false;
    return true;
}

static hn_status copy_output(lower *l, hn_value v) {
    lower_value view = l->values[v];
    HN_TRY(lower_new_buffer(l, v, NULL));
    lower_value memory = l->values[v];
    l->values[v] = view;
    hn_status status = lower_copy_loop(l, v, memory.buffer, memory.offset, memory.strides);
    l->values[v] = memory;
    return status;
}

static hn_status add_result(lower *l, uint32_t k) {
    hn_value v = l->g->outputs.items[k].value;
    if (!v) return NULL;
    const hn_value_info *vi = hn_graph_value(l->g, v);
    /* an expression */
    if (vi->kind == HN_VALUE_SYM_INT || (vi->kind != HN_VALUE_TENSOR && !l->values[v].buffer))
        return NULL;
    HN_TRY(lower_realize(l, v));
    if (!strides_are_right(l, v)) HN_TRY(copy_output(l, v));
    const lower_value *lv = &l->values[v];
    hn_buffer *buffer = &l->p->buffers.items[lv->buffer];
    if (buffer->kind == HN_BUFFER_TEMP) buffer->kind = HN_BUFFER_OUTPUT;
    hn_result result = {.output = k,
                        .buffer = lv->buffer,
                        .rank = vi->rank,
                        .sizes = vi->sizes,
                        .strides = lv->strides,
                        .offset = lv->offset};
    HN_PUSH(l->arena, &l->p->results, result);
    return NULL;
}

hn_status hn_lower(hn_graph *graph, const hn_lower_options *options, hn_arena *arena,
                   hn_arena *scratch, hn_program **out) {
    const hn_lower_options own = options ? *options : (hn_lower_options){0};
    lower l = {.g = graph,
               .root = graph,
               .operations = own.operations,
               .limit = own.limit,
               .deterministic = own.deterministic,
               .sym = graph->sym,
               .arena = arena,
               .scratch = scratch,
               .zero = hn_sym_int(graph->sym, 0),
               .one = hn_sym_int(graph->sym, 1)};
    HN_TRY(hn_program_create(graph, arena, &l.p));
    HN_TRY(lower_count_uses(&l));
    for (uint32_t k = 0; k < graph->inputs.count; k++) HN_TRY(add_input(&l, k));
    HN_TRY(lower_nodes(&l));
    for (uint32_t k = 0; k < graph->outputs.count; k++) HN_TRY(add_result(&l, k));
    *out = l.p;
    return NULL;
}
