/* part.c: see part.h. */
#include "reduce/part.h"

#include "base/checked.h"

#include <string.h>

/* --- values for inputs --- */

static void fill(hn_dtype dtype, int64_t numel, uint64_t *state, uint8_t *bytes) {
    const size_t elem_bytes = (size_t)hn_dtype_facts(dtype)->size_bytes;
    for (int64_t k = 0; k < numel; k++) {
        *state = *state * 6364136223846793005u + 1442695040888963407u;
        const double f = (double)(*state >> 40) / (1 << 23) - 1;
        const uint8_t bit = (uint8_t)(*state >> 63);
        uint8_t *at = bytes + (size_t)k * elem_bytes;
        const float f32 = (float)f;
        const uint16_t half = dtype == HN_DTYPE_BF16 ? hn_f32_to_bf16(f32) : hn_f32_to_f16(f32);
        if (dtype == HN_DTYPE_F64) memcpy(at, &f, sizeof f);
        else if (dtype == HN_DTYPE_F32) memcpy(at, &f32, sizeof f32);
        else if (hn_dtype_is_float(dtype)) memcpy(at, &half, sizeof half);
        else at[0] = bit;
    }
}

static hn_status make_example(const hn_graph *g, const hn_value_info *info, uint64_t *state,
                              hn_arena *keep, const hn_example **out) {
    enum { SIZE_EXPECTED = 8 };
    int64_t *sizes, numel = 1, bytes;
    hn_example *e;
    uint8_t *data;
    HN_NEW(keep, e, 1);
    HN_NEW(keep, sizes, info->rank + 1u);
    for (uint32_t d = 0; d < info->rank; d++) {
        sizes[d] = hn_sym_hint(g->sym, info->sizes[d], SIZE_EXPECTED);
        if (sizes[d] < 0 || !hn_mul_i64(numel, sizes[d], &numel))
            return HN_ERROR(HN_INVALID_ARGUMENT, "the sizes of an input are not known");
    }
    if (!hn_mul_i64(numel, hn_dtype_facts(info->dtype)->size_bytes, &bytes))
        return HN_ERROR(HN_INVALID_ARGUMENT, "an input is too large");
    HN_TRY(hn_arena_array(keep, (size_t)bytes + 8, 1, &data));
    fill(info->dtype, numel, state, data);
    if (info->kind == HN_VALUE_SYM_INT) {
        const int64_t value = hn_sym_hint(g->sym, info->expr, SIZE_EXPECTED);
        memcpy(data, &value, sizeof value);
    }
    *e = (hn_example){info->rank, sizes, data, (size_t)bytes};
    *out = e;
    return NULL;
}

/* The same numbers each time. */
static hn_status fill_inputs(hn_graph *g, hn_arena *keep) {
    uint64_t state = 1;
    for (uint32_t k = 0; k < g->inputs.count; k++) {
        hn_input *input = &g->inputs.items[k];
        if (input->kind == HN_INPUT_USER && !input->example)
            HN_TRY(make_example(g, hn_graph_value(g, input->value), &state, keep, &input->example));
    }
    return NULL;
}

/* --- what is used --- */

typedef struct uses {
    hn_graph *g;
    bool *by_kept, *by_others; /* by value */
    bool *to;                  /* the one that `visit` marks in */
} uses;

static void visit(void *user, hn_value v) {
    uses *u = user;
    if (v) u->to[v] = true;
}

static hn_status find_uses(hn_graph *g, const bool *kept, uses *out) {
    *out = (uses){.g = g};
    HN_NEW(g->arena, out->by_kept, g->values.count);
    HN_NEW(g->arena, out->by_others, g->values.count);
    for (hn_node n = 1; n < g->nodes.count; n++) {
        if (g->nodes.items[n].dead) continue;
        out->to = kept[n] ? out->by_kept : out->by_others;
        hn_node_each_value(&g->nodes.items[n], visit, out);
    }
    return NULL;
}

/* Whether a kept node makes it. */
static bool is_made(const hn_graph *g, const bool *kept, hn_value v) {
    const hn_node n = v ? hn_graph_value(g, v)->producer : 0;
    return n && kept[n];
}

/* --- outputs --- */

static hn_status find_outputs(hn_graph *g, const bool *kept, uses *u) {
    hn_output *old = g->outputs.items;
    const uint32_t count = g->outputs.count;
    bool *is_output;
    HN_NEW(g->arena, is_output, g->values.count);
    g->outputs.items = NULL;
    g->outputs.count = g->outputs.cap = 0;
    for (uint32_t k = 0; k < count; k++) {
        if (old[k].kind == HN_OUTPUT_SCALAR || !is_made(g, kept, old[k].value)) continue;
        if (old[k].kind == HN_OUTPUT_USER &&
            hn_graph_value(g, old[k].value)->kind != HN_VALUE_TENSOR)
            continue;
        is_output[old[k].value] = true;
        HN_PUSH(g->arena, &g->outputs, old[k]);
        if (old[k].kind == HN_OUTPUT_MUTATION)
            u->by_kept[g->inputs.items[old[k].target].value] = true;
    }
    for (hn_value v = 1; v < g->values.count; v++) {
        const hn_value_info *info = hn_graph_value(g, v);
        if (!u->by_others[v] || is_output[v] || !is_made(g, kept, v)) continue;
        if (info->kind != HN_VALUE_TENSOR) continue;
        HN_PUSH(g->arena, &g->outputs,
                ((hn_output){.kind = HN_OUTPUT_USER, .value = v, .name = info->name}));
    }
    return NULL;
}

/* --- inputs --- */

/* Elements of an expanded tensor share places, which an input cannot. */
static bool shares_places(const hn_graph *g, const hn_value_info *info) {
    for (uint32_t d = 0; info->strides && d < info->rank; d++)
        if (hn_sym_is_value(g->sym, info->strides[d], 0)) return true;
    return false;
}

static hn_status add_input(hn_graph *g, hn_value v, const hn_part_values *values) {
    hn_value_info *info = &g->values.items[v];
    hn_input input = {.kind = HN_INPUT_USER, .value = v, .name = info->name};
    info->producer = 0;
    info->result_idx = 0;
    if (shares_places(g, info)) info->strides = NULL;
    if (v < values->count) input.example = values->items[v];
    return hn_graph_add_input(g, input);
}

static hn_status add_inputs(hn_graph *g, const bool *kept, const uses *u,
                            const hn_part_values *values) {
    for (hn_node n = 1; n < g->nodes.count; n++) {
        const hn_node_info *node = &g->nodes.items[n];
        for (uint32_t k = 0; !node->dead && !kept[n] && k < node->result_count; k++)
            if (node->results[k] && u->by_kept[node->results[k]])
                HN_TRY(add_input(g, node->results[k], values));
    }
    return NULL;
}

/* Whether the shape of an input, or its value, is the symbol. */
static bool gives(const hn_graph *g, const hn_input *input, hn_expr symbol) {
    const hn_value_info *info = hn_graph_value(g, input->value);
    bool found = info->expr == symbol;
    for (uint32_t d = 0; d < info->rank; d++) found |= info->sizes[d] == symbol;
    return input->kind == HN_INPUT_USER && found;
}

static bool reads_symbol(const hn_graph *g, const hn_node_info *node, hn_expr symbol) {
    for (uint32_t k = 0; k < node->result_count; k++) {
        const hn_value_info *info = hn_graph_value(g, node->results[k]);
        for (uint32_t d = 0; node->results[k] && d < info->rank; d++)
            if (hn_sym_uses(g->sym, info->sizes[d], symbol)) return true;
    }
    for (uint32_t k = 0; k < node->arg_count; k++) {
        const hn_arg *arg = &node->args[k];
        if (arg->kind == HN_ARG_INT && hn_sym_uses(g->sym, arg->as.expr, symbol)) return true;
        for (uint32_t i = 0; arg->kind == HN_ARG_INTS && i < arg->count; i++)
            if (hn_sym_uses(g->sym, arg->as.exprs[i], symbol)) return true;
    }
    return false;
}

static bool is_needed(const hn_graph *g, const bool *kept, const uses *u, hn_expr symbol) {
    bool needed = false;
    if (hn_sym_kind(g->sym, symbol) != HN_EXPR_SYMBOL) return false;
    for (uint32_t k = 0; k < g->inputs.count; k++) {
        const hn_input *input = &g->inputs.items[k];
        if (input->value && u->by_kept[input->value] && gives(g, input, symbol)) return false;
    }
    for (hn_node n = 1; n < g->nodes.count && !needed; n++)
        needed = !g->nodes.items[n].dead && kept[n] && reads_symbol(g, &g->nodes.items[n], symbol);
    return needed;
}

/* Inputs that no node reads may be the only ones that tell a size. */
static void keep_sizes(const hn_graph *g, const bool *kept, uses *u) {
    for (uint32_t k = 0; k < g->inputs.count; k++) {
        const hn_input *input = &g->inputs.items[k];
        if (input->kind != HN_INPUT_USER || u->by_kept[input->value]) continue;
        const hn_value_info *info = hn_graph_value(g, input->value);
        bool needed = info->expr && is_needed(g, kept, u, info->expr);
        for (uint32_t d = 0; d < info->rank && !needed; d++)
            needed = is_needed(g, kept, u, info->sizes[d]);
        u->by_kept[input->value] = needed;
    }
}

static hn_status drop_inputs(hn_graph *g, const uses *u) {
    uint32_t count = 0, *places;
    HN_NEW(g->arena, places, g->inputs.count + 1u);
    for (uint32_t k = 0; k < g->inputs.count; k++) {
        const hn_input *input = &g->inputs.items[k];
        if (input->kind == HN_INPUT_SCALAR || !u->by_kept[input->value]) continue;
        places[k] = count;
        g->inputs.items[count++] = *input;
    }
    g->inputs.count = count;
    for (uint32_t k = 0; k < g->outputs.count; k++)
        if (g->outputs.items[k].kind == HN_OUTPUT_MUTATION)
            g->outputs.items[k].target = places[g->outputs.items[k].target];
    return NULL;
}

static hn_status drop_storages(hn_graph *g) {
    uint32_t count = 1, *places;
    HN_NEW(g->arena, places, g->storages.count);
    for (uint32_t k = 0; k < g->inputs.count; k++) places[g->inputs.items[k].storage] = 1;
    places[0] = 0;
    for (uint32_t k = 1; k < g->storages.count; k++) {
        if (!places[k]) continue;
        places[k] = count;
        g->storages.items[count++] = g->storages.items[k];
    }
    g->storages.count = count;
    for (uint32_t k = 0; k < g->inputs.count; k++)
        g->inputs.items[k].storage = places[g->inputs.items[k].storage];
    return NULL;
}

/* --- all --- */

hn_status hn_part_cut(hn_graph *g, const bool *kept, const hn_part_values *values, hn_arena *keep) {
    uses u;
    HN_TRY(find_uses(g, kept, &u));
    HN_TRY(find_outputs(g, kept, &u));
    HN_TRY(add_inputs(g, kept, &u, values));
    keep_sizes(g, kept, &u);
    HN_TRY(drop_inputs(g, &u));
    HN_TRY(drop_storages(g));
    for (hn_node n = 1; n < g->nodes.count; n++) g->nodes.items[n].dead |= !kept[n];
    hn_graph_compact(g);
    return fill_inputs(g, keep);
}

hn_status hn_part_tidy(hn_graph *g, hn_arena *keep) {
    const hn_part_values nothing = {.count = 0};
    bool *kept;
    hn_graph_compact(g);
    HN_NEW(g->arena, kept, g->nodes.count);
    for (hn_node n = 1; n < g->nodes.count; n++) kept[n] = true;
    return hn_part_cut(g, kept, &nothing, keep);
}

static void need(void *user, hn_value v) {
    bool *needed = user;
    if (v) needed[v] = true;
}

hn_status hn_part_drop_output(hn_graph *g, uint32_t output, hn_arena *keep) {
    bool *needed, *kept;
    memmove(&g->outputs.items[output], &g->outputs.items[output + 1],
            (g->outputs.count - output - 1) * sizeof *g->outputs.items);
    g->outputs.count--;
    HN_NEW(g->arena, needed, g->values.count);
    HN_NEW(g->arena, kept, g->nodes.count);
    for (uint32_t k = 0; k < g->outputs.count; k++) needed[g->outputs.items[k].value] = true;
    for (hn_node n = g->nodes.count; n-- > 1;) {
        const hn_node_info *node = &g->nodes.items[n];
        for (uint32_t k = 0; k < node->result_count; k++) kept[n] |= needed[node->results[k]];
        if (kept[n]) hn_node_each_value(node, need, needed);
    }
    for (hn_node n = 1; n < g->nodes.count; n++) g->nodes.items[n].dead |= !kept[n];
    return hn_part_tidy(g, keep);
}
