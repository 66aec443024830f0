/* repeat.c: a loop becomes bracketed items. What is carried has a buffer for the whole loop, which
 * begins as a copy of the operand and is the result in the end:
 *
 *   b5 = first                    pointwise loops, in front
 *   repeat 10                     or "repeat *", the test's items, "while b6"
 *     ...                         the body reads b5
 *     b7 = next
 *     copy b5 = b7                all copies stand at the end of the body
 *   again
 *
 * A body that only puts elements into what it carries (the results of a scan) does so in b5. */
#include "lower/internal.h"

#include "ir/check.h"

#include <string.h>

typedef struct repeat {
    lower *outer;
    const hn_node_info *node;
    uint32_t carried_count, operand_count;
    const hn_value *operands; /* carried, then others */
    lower_value *memory;      /* of each that is carried */
} repeat;

static hn_status add_bracket(lower *l, hn_item_info item) {
    item.origin = l->origin;
    return hn_program_add_item(l->p, item);
}

/* ---- memory ---- */

/* For a value that the graph does not ask for. */
static hn_status unnamed_memory(lower *l, hn_value like, lower_value *out) {
    const hn_value_info *info = hn_graph_value(l->g, like);
    hn_expr *strides;
    HN_NEW(l->arena, strides, info->rank);
    hn_contiguous_strides(l->sym, info->sizes, info->rank, strides);
    hn_buffer buffer = {.kind = HN_BUFFER_TEMP,
                        .dtype = info->dtype,
                        .rank = info->rank,
                        .sizes = info->sizes,
                        .strides = strides,
                        .extent = hn_strided_extent(l->sym, info->sizes, strides, info->rank)};
    *out = (lower_value){.defined = true, .strides = strides, .offset = l->zero, .loads = 1};
    return hn_program_add_buffer(l->p, buffer, &out->buffer);
}

static hn_status begin_carried(repeat *r, uint32_t k) {
    lower *l = r->outer;
    const hn_value result = r->node->results[k];
    if (result) {
        HN_TRY(lower_new_buffer(l, result, NULL));
        r->memory[k] = l->values[result];
    } else {
        HN_TRY(unnamed_memory(l, r->operands[k], &r->memory[k]));
    }
    return lower_copy_loop(l, r->operands[k], r->memory[k].buffer, r->memory[k].offset,
                           r->memory[k].strides);
}

static hn_status subgraph_begin(repeat *r, lower *l, hn_graph *graph) {
    HN_TRY(lower_subgraph_init(l, r->outer, graph, r->operands, r->operand_count));
    for (uint32_t k = 0; k < r->carried_count; k++) {
        const hn_value inside = graph->inputs.items[k].value;
        if (inside) l->values[inside] = r->memory[k];
    }
    return NULL;
}

static bool has_layout(const lower *l, hn_value v, const lower_value *memory) {
    const lower_value *lv = &l->values[v];
    const hn_value_info *info = hn_graph_value(l->g, v);
    if (!lv->buffer || lv->offset != memory->offset) return false;
    return !info->rank ||
           memcmp(lv->strides, memory->strides, info->rank * sizeof *lv->strides) == 0;
}

/* ---- puts ---- */

static const hn_node_info *put_of(const lower *l, hn_value v) {
    const hn_node producer = hn_graph_value(l->g, v)->producer;
    if (!producer) return NULL;
    const hn_node_info *n = &l->g->nodes.items[producer];
    return n->op == HN_OP_INDEX_PUT || n->op == HN_OP_SCATTER ? n : NULL;
}

/* Output k is input k with puts into it, one after the other, and nothing else reads what was there
 * before each. */
static void find_puts(lower *l, uint32_t k) {
    const hn_value input = l->g->inputs.items[k].value, output = l->g->outputs.items[k].value;
    hn_value v = output;
    for (const hn_node_info *n; v != input; v = n->args[0].as.value) {
        n = put_of(l, v);
        if (!n || l->uses[n->args[0].as.value] != 1) return;
    }
    for (v = output; v != input; v = put_of(l, v)->args[0].as.value) l->in_place[v] = true;
}

/* ---- the body ---- */

/* Memory of its own for output k, laid out like what is carried. */
static hn_status next_memory(repeat *r, lower *l, uint32_t k, hn_buf *out) {
    const hn_value v = l->g->outputs.items[k].value;
    const lower_value *lv = &l->values[v];
    bool is_own =
        has_layout(l, v, &r->memory[k]) && l->p->buffers.items[lv->buffer].kind == HN_BUFFER_TEMP &&
        l->p->buffers.items[lv->buffer].extent == l->p->buffers.items[r->memory[k].buffer].extent;
    for (uint32_t j = 0; j < r->carried_count && is_own; j++)
        is_own = lv->buffer != r->memory[j].buffer;
    for (uint32_t j = r->carried_count; j < r->operand_count && is_own; j++)
        is_own = lv->buffer != r->outer->values[r->operands[j]].buffer;
    if (!is_own) HN_TRY(lower_realize_in(l, v, r->memory[k].strides));
    *out = l->values[v].buffer;
    return NULL;
}

static hn_status end_round(repeat *r, lower *l) {
    hn_buf *next;
    bool *stays;
    HN_NEW(l->scratch, next, r->carried_count);
    HN_NEW(l->scratch, stays, r->carried_count);
    for (uint32_t k = 0; k < r->carried_count; k++) {
        const hn_value v = l->g->outputs.items[k].value;
        stays[k] = l->values[v].buffer == r->memory[k].buffer && has_layout(l, v, &r->memory[k]);
    }
    for (uint32_t k = 0; k < r->carried_count; k++)
        if (!stays[k]) HN_TRY(next_memory(r, l, k, &next[k]));
    for (uint32_t k = 0; k < r->carried_count; k++)
        if (!stays[k])
            HN_TRY(add_bracket(
                l,
                (hn_item_info){.kind = HN_ITEM_COPY, .to = r->memory[k].buffer, .cond = next[k]}));
    return NULL;
}

static hn_status lower_body_of(repeat *r, hn_graph *body) {
    lower l;
    HN_TRY(subgraph_begin(r, &l, body));
    HN_NEW(l.scratch, l.in_place, body->values.count);
    for (uint32_t k = 0; k < r->carried_count; k++) find_puts(&l, k);
    HN_TRY(lower_nodes(&l));
    return end_round(r, &l);
}

static hn_status lower_test(repeat *r, hn_graph *test) {
    lower l;
    HN_TRY(subgraph_begin(r, &l, test));
    HN_TRY(lower_nodes(&l));
    const hn_value v = test->outputs.items[0].value;
    HN_TRY(lower_realize_at_start(&l, v));
    return add_bracket(&l, (hn_item_info){.kind = HN_ITEM_WHILE, .cond = l.values[v].buffer});
}

static hn_status lower_rounds(repeat *r) {
    lower *l = r->outer;
    const hn_arg *args = r->node->args;
    const bool is_counted = args[HN_LOOP_ROUNDS].kind == HN_ARG_INT;
    HN_TRY(add_bracket(l, (hn_item_info){.kind = HN_ITEM_REPEAT,
                                         .rounds = is_counted ? args[HN_LOOP_ROUNDS].as.expr : 0}));
    if (!is_counted) HN_TRY(lower_test(r, args[HN_LOOP_TEST].as.graph));
    HN_TRY(lower_body_of(r, args[HN_LOOP_BODY].as.graph));
    return add_bracket(l, (hn_item_info){.kind = HN_ITEM_AGAIN});
}

hn_status lower_repeat(lower *l, const hn_node_info *n) {
    const hn_arg *carried = &n->args[HN_LOOP_CARRIED], *others = &n->args[HN_LOOP_OTHERS];
    repeat r = {.outer = l,
                .node = n,
                .carried_count = carried->count,
                .operand_count = carried->count + others->count};
    hn_value *operands;
    HN_NEW(l->scratch, operands, r.operand_count);
    HN_NEW(l->scratch, r.memory, r.carried_count);
    for (uint32_t k = 0; k < carried->count; k++) operands[k] = carried->as.values[k];
    for (uint32_t k = 0; k < others->count; k++) {
        const hn_value v = operands[carried->count + k] = others->as.values[k];
        if (hn_graph_value(l->g, v)->kind == HN_VALUE_TENSOR) HN_TRY(lower_realize(l, v));
    }
    r.operands = operands;
    for (uint32_t k = 0; k < r.carried_count; k++) HN_TRY(begin_carried(&r, k));
    return lower_rounds(&r);
}
