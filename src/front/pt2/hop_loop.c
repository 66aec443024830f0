/* hop_loop.c: while_loop, map, scan and associative_scan become HN_OP_LOOP. A walk over the elements
 * of tensors carries their number, and the tensors that it fills: element i is looked up, and result
 * i put, at that number. A few rounds of a small body are inlined one after the other instead. */
#include "front/pt2/hop.h"

#include "ir/build.h"

#include <inttypes.h>

/* Rounds and nodes of all rounds that are inlined: their kernels are fused across rounds. More take
 * longer to compile than they gain.
 * Source: `henry bench --threads 1` of 4, 8 and 16 rounds, AVX-512. A scan of h = tanh(h / 2 + e)
 * over rows of 4096: 14, 28, 58 us as a loop, 6, 17, 51 us inlined. Of tanh(h @ w + e), 8 rows of
 * 64: 5, 9, 19 us and 6, 11, 22 us. On a device each round that is inlined saves launches. */
enum { MAX_UNROLLED_ROUNDS = 8, MAX_UNROLLED_NODES = 64 };

/* Symbols of the data are other numbers in each round, so they need a body of their own. */
static bool is_short(const hn_pt2_graph_text *body, int64_t rounds) {
    if (rounds != 0 && hop_has_data_sizes(body)) return false;
    if (rounds == 0 || rounds == 1) return true;
    return rounds > 0 && rounds <= MAX_UNROLLED_ROUNDS &&
           rounds * (int64_t)(body->nodes.count + 1) <= MAX_UNROLLED_NODES;
}

static hn_status input_bind(hn_pt2_scope *inner, hn_str name, hn_value tensor, hn_expr number,
                            hop_numbers *numbers) {
    const hn_pt2_name *entry = hn_pt2_name_find(inner, name);
    const bool is_read = tensor && entry && entry->kind == HN_PT2_SYM_INT;
    if (is_read) return hop_number_bind(inner, name, tensor, numbers);
    return hn_pt2_bind(inner, name, tensor, tensor ? 0 : number);
}

hn_status hop_body_inline(hn_pt2_scope *outer, hn_graph *graph, const hn_pt2_graph_text *text,
                          hop_values operands, hop_values *out) {
    hn_pt2_scope inner;
    hn_str *names = NULL;
    hop_numbers numbers = {0};
    uint32_t count = 0;
    HN_TRY(hop_enter(&inner, outer, graph, text));
    HN_TRY(hop_names(text->inputs, outer->im->scratch, &names, &count));
    if (count != operands.count)
        return HN_ERROR(HN_INVALID_ARGUMENT, "inner graph has %u inputs for %u operands", count,
                        operands.count);
    for (uint32_t k = 0; k < count; k++) {
        if (!names[k].len)
            return HN_ERROR(HN_UNSUPPORTED, "input %u of an inner graph is no tensor or number", k);
        HN_TRY(input_bind(&inner, names[k], operands.items[k], operands.numbers[k], &numbers));
    }
    HN_TRY(hn_pt2_nodes_read(&inner));
    HN_TRY(hop_names(text->outputs, outer->im->scratch, &names, &count));
    HN_TRY(hop_values_make(outer, count, out));
    for (uint32_t k = 0; k < count; k++) {
        if (!names[k].len)
            return HN_ERROR(HN_UNSUPPORTED, "output %u of an inner graph is no tensor or number",
                            k);
        HN_TRY(hop_result_read(&inner, names[k], &numbers, &out->items[k]));
    }
    hop_numbers_drop_unread(graph, &numbers);
    outer->im->depth--;
    return NULL;
}

hn_value hop_value_like(hn_graph *inner, const hn_graph *outer, hn_value v) {
    const hn_value_info *info = hn_graph_value(outer, v);
    return hn_graph_add_tensor(inner, info->dtype, info->rank, info->sizes, NULL, HN_STR(""));
}

hn_status hop_graph_input(hn_graph *g, hn_value v) {
    HN_TRY(hn_graph_status(g));
    return hn_graph_add_input(g, (hn_input){.kind = HN_INPUT_USER, .value = v});
}

hn_status hop_graph_output(hn_graph *g, hn_value v) {
    HN_TRY(hn_graph_status(g));
    return hn_graph_add_output(g, (hn_output){.kind = HN_OUTPUT_USER, .value = v});
}

/* The tensor of a result: of a number, one that it is read from. */
static hn_value result_tensor(hn_graph *g, hn_value v) {
    const bool is_number = v && hn_graph_value(g, v)->kind == HN_VALUE_SYM_INT;
    return is_number ? hn_graph_add_tensor(g, HN_DTYPE_I64, 0, NULL, NULL, HN_STR("")) : v;
}

/* The node itself; its results are those of the file's node, behind `hidden` that nobody asks
 * for. */
static hn_status loop_add(hn_pt2_scope *scope, const hn_pt2_node_text *node, uint32_t hidden,
                          const hn_b_loop_parts *parts) {
    hn_pt2_results named = {0};
    hn_value *results;
    HN_TRY(hn_pt2_results_read(scope, node, true, &named));
    if (hidden + named.count != parts->carried_count)
        return HN_ERROR(HN_INVALID_ARGUMENT, "%u results of a loop that gives %u tensors",
                        named.count, parts->carried_count - hidden);
    HN_TRY(hn_arena_array(scope->im->scratch, parts->carried_count + 1, sizeof *results, &results));
    for (uint32_t k = 0; k < named.count; k++)
        results[hidden + k] = result_tensor(scope->graph, named.items[k]);
    HN_TRY(hn_pt2_origin_set(scope, node));
    hn_arg args[] = {parts->rounds ? hn_arg_expr(parts->rounds) : hn_arg_none(),
                     parts->test ? (hn_arg){.kind = HN_ARG_GRAPH, .as.graph = parts->test}
                                 : hn_arg_none(),
                     {.kind = HN_ARG_GRAPH, .as.graph = parts->body},
                     hn_arg_values(parts->operands, parts->carried_count),
                     hn_arg_values(parts->operands + parts->carried_count, parts->other_count)};
    hn_graph_add_node(scope->graph, HN_OP_LOOP, args, 5, results, parts->carried_count);
    for (uint32_t k = 0; k < named.count; k++) {
        const hn_arg from[] = {hn_arg_value(results[hidden + k])};
        if (results[hidden + k] != named.items[k])
            hn_graph_add_node(scope->graph, HN_OP_ITEM, from, 1, &named.items[k], 1);
    }
    return hn_graph_status(scope->graph);
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
    hop_values carried, elements, others; /* others: the same in every round */
    hn_expr length;
    int64_t rounds; /* -1: they are not known, or many */
    /* associative_scan: the first elements are what is carried, and what is collected */
    bool carries_elements;
    hn_value *collected; /* [outputs][rounds] */
} walk;

static hn_status walk_length(walk *w) {
    hn_sym *sym = w->scope->graph->sym;
    for (uint32_t k = 0; k < w->elements.count; k++) {
        const hn_value_info *info = hn_graph_value(w->scope->graph, w->elements.items[k]);
        int64_t size = 0, first = 0;
        if (info->rank == 0)
            return HN_ERROR(HN_INVALID_ARGUMENT, "a loop over a tensor without dimensions");
        if (!w->length) w->length = info->sizes[0];
        if (hn_sym_is_int(sym, w->length, &first) && hn_sym_is_int(sym, info->sizes[0], &size) &&
            first != size)
            return HN_ERROR(HN_INVALID_ARGUMENT, "tensors of %" PRId64 " and %" PRId64 " elements",
                            first, size);
        if (info->sizes[0] != w->length)
            hn_sym_require(sym, HN_REL_EQ, info->sizes[0], w->length, "a loop walks over both");
    }
    if (!w->length) return HN_ERROR(HN_UNSUPPORTED, "a loop over no tensors");
    if (!hn_sym_is_int(sym, w->length, &w->rounds)) w->rounds = -1;
    if (w->rounds == 0 && w->carries_elements)
        return HN_ERROR(HN_UNSUPPORTED, "a loop over no elements");
    if (w->rounds == 0 || !is_short(&w->body, w->rounds)) w->rounds = -1;
    return hn_sym_status(sym);
}

/* ---- inlined ---- */

/* carried, elements, others -> the operands of round `at` */
static hn_status round_operands(const walk *w, const hn_value *carried, uint32_t carried_count,
                                int64_t at, hop_values *out) {
    uint32_t n = 0;
    HN_TRY(hop_values_make(w->scope, carried_count + w->elements.count + w->others.count, out));
    for (uint32_t k = 0; k < carried_count; k++) out->items[n++] = carried[k];
    for (uint32_t k = 0; k < w->elements.count; k++)
        out->items[n++] = element(w->scope->graph, w->elements.items[k], at);
    hop_values_put(out, n, &w->others);
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
static hn_status walk_unroll(walk *w) {
    hn_str *names = NULL;
    uint32_t name_count = 0, outputs = 0;
    const hn_value *carried = w->carried.items;
    uint32_t carried_count = w->carried.count;
    HN_TRY(hop_names(hn_pt2_node_json(&w->scope->text, w->node->outputs), w->scope->im->scratch,
                     &names, &name_count));
    HN_TRY(hn_arena_array(w->scope->im->scratch, (size_t)(name_count + 1) * (size_t)w->rounds,
                          sizeof *w->collected, &w->collected));
    for (int64_t at = 0; at < w->rounds; at++) {
        hop_values operands, results;
        HN_TRY(hn_pt2_origin_set(w->scope, w->node));
        HN_TRY(round_operands(w, carried, carried_count, at, &operands));
        if (w->carries_elements && at == 0)
            results = (hop_values){operands.items, operands.numbers, w->elements.count};
        else HN_TRY(hop_body_inline(w->scope, w->scope->graph, &w->body, operands, &results));
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

/* ---- as a loop ---- */

/* The body around the body: its values, and those of the graph that they begin with. */
typedef struct walk_graph {
    hn_graph *g;
    hn_value at; /* the number of the round */
    hn_value *carried, *filled, *walked, *others;
    hn_value *begin;                    /* operands of the loop */
    uint32_t carried_count, fill_count; /* carried: with the first elements, if it carries those */
} walk_graph;

/* What goes into the round: element `at` of each tensor. */
static hn_status round_inputs(const walk *w, walk_graph *x, hop_values *out) {
    hn_graph *outer = w->scope->graph;
    uint32_t n = 0;
    HN_TRY(hop_values_make(w->scope, x->carried_count + w->elements.count + w->others.count, out));
    for (uint32_t k = 0; k < x->carried_count; k++) out->items[n++] = x->carried[k];
    for (uint32_t k = 0; k < w->elements.count; k++) {
        x->walked[k] = hop_value_like(x->g, outer, w->elements.items[k]);
        out->items[n++] = hn_b_index(x->g, x->walked[k], &x->at, 1, false);
    }
    hop_values_put(out, n, &w->others);
    for (uint32_t k = 0; k < w->others.count; k++)
        if (w->others.items[k])
            out->items[n + k] = x->others[k] = hop_value_like(x->g, outer, w->others.items[k]);
    return hn_graph_status(x->g);
}

/* A tensor of `length` times what a round gives, and what it holds before the first. */
static hn_status add_filled(const walk *w, walk_graph *x, uint32_t k, hn_value result) {
    hn_graph *outer = w->scope->graph;
    const hn_value_info *info = hn_graph_value(x->g, result);
    hn_expr sizes[HN_MAX_RANK];
    if (info->rank == HN_MAX_RANK)
        return HN_ERROR(HN_UNSUPPORTED, "results of more than %d dimensions", HN_MAX_RANK - 1);
    sizes[0] = w->length;
    for (uint32_t d = 0; d < info->rank; d++) sizes[d + 1] = info->sizes[d];
    const uint32_t rank = info->rank + 1;
    const hn_dtype dtype = info->dtype;
    hn_value *begin = &x->begin[1 + x->carried_count + k];
    x->filled[k] = hn_graph_add_tensor(x->g, dtype, rank, sizes, NULL, HN_STR(""));
    if (w->carries_elements) *begin = w->elements.items[k];
    else *begin = hn_b_full(outer, hn_scalar_i(hn_sym_int(outer->sym, 0)), sizes, rank, dtype);
    HN_TRY(hn_graph_status(outer));
    return hn_graph_status(x->g);
}

static hn_status walk_signature(const walk *w, walk_graph *x, const hop_values *results) {
    hn_graph *g = x->g;
    const hn_value one = hn_b_full(g, hn_scalar_i(hn_sym_int(g->sym, 1)), NULL, 0, HN_DTYPE_I64);
    HN_TRY(hop_graph_input(g, x->at));
    for (uint32_t k = 0; k < x->carried_count; k++) HN_TRY(hop_graph_input(g, x->carried[k]));
    for (uint32_t k = 0; k < x->fill_count; k++) HN_TRY(hop_graph_input(g, x->filled[k]));
    for (uint32_t k = 0; k < w->elements.count; k++) HN_TRY(hop_graph_input(g, x->walked[k]));
    for (uint32_t k = 0; k < w->others.count; k++)
        if (x->others[k]) HN_TRY(hop_graph_input(g, x->others[k]));
    HN_TRY(hop_graph_output(g, hn_b_binary(g, HN_OP_ADD, x->at, one)));
    for (uint32_t k = 0; k < x->carried_count; k++) HN_TRY(hop_graph_output(g, results->items[k]));
    for (uint32_t k = 0; k < x->fill_count; k++)
        HN_TRY(hop_graph_output(g, hn_b_index_put(g, x->filled[k], &x->at, 1,
                                                  results->items[w->carried.count + k], "set",
                                                  false)));
    return NULL;
}

static hn_status walk_rooms(const walk *w, uint32_t outputs, walk_graph *x) {
    hn_arena *scratch = w->scope->im->scratch;
    const uint32_t count =
        1 + 2 * outputs + w->carried.count + 2 * w->elements.count + w->others.count;
    HN_NEW(scratch, x->carried, count);
    HN_NEW(scratch, x->filled, count);
    HN_NEW(scratch, x->walked, count);
    HN_NEW(scratch, x->others, count);
    HN_NEW(scratch, x->begin, count);
    return NULL;
}

/* What is carried before the first round: of an associative_scan the first elements, with which the
 * second are combined. */
static hn_status walk_begin(const walk *w, walk_graph *x) {
    hn_graph *outer = w->scope->graph;
    const hop_values *list = w->carries_elements ? &w->elements : &w->carried;
    const hn_expr first = hn_sym_int(outer->sym, w->carries_elements);
    x->begin[0] = hn_b_full(outer, hn_scalar_i(first), NULL, 0, HN_DTYPE_I64);
    x->at = hn_graph_add_tensor(x->g, HN_DTYPE_I64, 0, NULL, NULL, HN_STR(""));
    x->carried_count = list->count;
    for (uint32_t k = 0; k < list->count; k++) {
        x->begin[1 + k] = w->carries_elements ? element(outer, list->items[k], 0) : list->items[k];
        x->carried[k] = hop_value_like(x->g, outer, x->begin[1 + k]);
    }
    HN_TRY(hn_graph_status(outer));
    return hn_graph_status(x->g);
}

static hn_status walk_loop(walk *w) {
    hn_pt2_scope *scope = w->scope;
    hn_sym *sym = scope->graph->sym;
    walk_graph x = {0};
    hn_str *names = NULL;
    uint32_t name_count = 0;
    hop_values operands, results;
    HN_TRY(hop_names(w->body.outputs, scope->im->scratch, &names, &name_count));
    HN_TRY(walk_rooms(w, name_count, &x));
    HN_TRY(hn_pt2_origin_set(scope, w->node));
    HN_TRY(hn_graph_create(scope->im->arena, scope->im->sym, &x.g));
    HN_TRY(walk_begin(w, &x));
    HN_TRY(round_inputs(w, &x, &operands));
    HN_TRY(hop_body_inline(scope, x.g, &w->body, operands, &results));
    if (results.count < x.carried_count)
        return HN_ERROR(HN_INVALID_ARGUMENT, "inner graph has %u outputs for %u carried tensors",
                        results.count, x.carried_count);
    x.fill_count = results.count - w->carried.count;
    for (uint32_t k = 0; k < x.fill_count; k++)
        HN_TRY(add_filled(w, &x, k, results.items[w->carried.count + k]));
    HN_TRY(walk_signature(w, &x, &results));
    uint32_t n = 1 + x.carried_count + x.fill_count;
    for (uint32_t k = 0; k < w->elements.count; k++) x.begin[n++] = w->elements.items[k];
    for (uint32_t k = 0; k < w->others.count; k++)
        if (w->others.items[k]) x.begin[n++] = w->others.items[k];
    const uint32_t carried = 1 + x.carried_count + x.fill_count;
    hn_b_loop_parts parts = {.rounds =
                                 hn_sym_sub(sym, w->length, hn_sym_int(sym, w->carries_elements)),
                             .body = x.g,
                             .operands = x.begin,
                             .carried_count = carried,
                             .other_count = n - carried};
    return loop_add(scope, w->node, 1 + (w->carries_elements ? x.carried_count : 0), &parts);
}

/* scan: (graph, [carried], [elements], [others]); map: without what is carried */
static hn_status walk_read(hn_pt2_scope *scope, const hn_pt2_node_text *node, bool carries,
                           bool carries_elements) {
    walk w = {.scope = scope, .node = node, .carries_elements = carries_elements};
    hop_args args;
    uint32_t at = 1;
    HN_TRY(hop_args_read(scope, node, &args));
    HN_TRY(hop_graph(&args, 0, &w.body));
    if (carries) HN_TRY(hop_operands_read(scope, &args, at++, &w.carried));
    HN_TRY(hop_operands_read(scope, &args, at, &w.elements));
    HN_TRY(hop_operands_read(scope, &args, at + 1, &w.others));
    if (hop_has_numbers(&w.elements) || hop_has_numbers(&w.carried))
        return HN_ERROR(HN_UNSUPPORTED, "a loop over elements that carries numbers");
    HN_TRY(walk_length(&w));
    return w.rounds < 0 ? walk_loop(&w) : walk_unroll(&w);
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

/* --- while --- */

static hn_status while_operands(hn_pt2_scope *scope, const hop_values *carried,
                                const hop_values *others, hop_values *out) {
    HN_TRY(hop_values_make(scope, carried->count + others->count, out));
    hop_values_put(out, 0, carried);
    hop_values_put(out, carried->count, others);
    return NULL;
}

/* One round: what is carried becomes the results of the body. */
static hn_status round_inline(hn_pt2_scope *scope, const hn_pt2_graph_text *body,
                              const hop_values *others, hop_values *carried) {
    hop_values operands, results;
    HN_TRY(while_operands(scope, carried, others, &operands));
    HN_TRY(hop_body_inline(scope, scope->graph, body, operands, &results));
    if (results.count != carried->count)
        return HN_ERROR(HN_INVALID_ARGUMENT, "inner graph has %u outputs for %u carried tensors",
                        results.count, carried->count);
    *carried = results;
    return NULL;
}

static hn_status while_unroll(hn_pt2_scope *scope, const hn_pt2_node_text *node,
                              const hn_pt2_graph_text *body, int64_t rounds,
                              const hop_values *others, hop_values carried) {
    hn_str *names = NULL;
    uint32_t name_count = 0;
    HN_TRY(hop_names(hn_pt2_node_json(&scope->text, node->outputs), scope->im->scratch, &names,
                     &name_count));
    if (name_count != carried.count)
        return HN_ERROR(HN_INVALID_ARGUMENT, "%u results of a loop that carries %u tensors",
                        name_count, carried.count);
    for (int64_t n = 0; n < rounds; n++) HN_TRY(round_inline(scope, body, others, &carried));
    for (uint32_t k = 0; k < name_count; k++)
        if (names[k].len) HN_TRY(hn_pt2_bind(scope, names[k], carried.items[k], 0));
    return NULL;
}

/* A graph with inputs like those operands that are tensors. */
static hn_status while_graph(hn_pt2_scope *scope, const hn_pt2_graph_text *text,
                             hop_values operands, uint32_t output_count, hn_graph **out) {
    hop_values inputs, results;
    HN_TRY(hop_values_make(scope, operands.count, &inputs));
    hop_values_put(&inputs, 0, &operands);
    HN_TRY(hn_graph_create(scope->im->arena, scope->im->sym, out));
    for (uint32_t k = 0; k < operands.count; k++) {
        if (!operands.items[k]) continue;
        inputs.items[k] = hop_value_like(*out, scope->graph, operands.items[k]);
        HN_TRY(hop_graph_input(*out, inputs.items[k]));
    }
    HN_TRY(hop_body_inline(scope, *out, text, inputs, &results));
    if (results.count != output_count)
        return HN_ERROR(HN_INVALID_ARGUMENT, "inner graph has %u outputs instead of %u",
                        results.count, output_count);
    for (uint32_t k = 0; k < results.count; k++) HN_TRY(hop_graph_output(*out, results.items[k]));
    return NULL;
}

static hn_status while_loop(hn_pt2_scope *scope, const hn_pt2_node_text *node,
                            const hn_pt2_graph_text *cond, const hn_pt2_graph_text *body,
                            int64_t rounds, const hop_values *others, const hop_values *carried) {
    hn_b_loop_parts parts = {.carried_count = carried->count};
    hop_values operands;
    hn_value *tensors;
    uint32_t count = 0;
    HN_TRY(while_operands(scope, carried, others, &operands));
    HN_TRY(hn_arena_array(scope->im->scratch, operands.count + 1, sizeof *tensors, &tensors));
    for (uint32_t k = 0; k < operands.count; k++)
        if (operands.items[k]) tensors[count++] = operands.items[k];
    parts.operands = tensors;
    parts.other_count = count - carried->count;
    if (rounds >= 0) parts.rounds = hn_sym_int(scope->graph->sym, rounds);
    else
        HN_TRY(hn_status_annotate(while_graph(scope, cond, operands, 1, &parts.test), "condition"));
    HN_TRY(hn_status_annotate(while_graph(scope, body, operands, carried->count, &parts.body),
                              "body"));
    return loop_add(scope, node, 0, &parts);
}

/* (condition, body, [carried], [others]) */
hn_status hn_pt2_while_read(hn_pt2_scope *scope, const hn_pt2_node_text *node) {
    hop_args args;
    hn_pt2_graph_text cond, body;
    hop_values carried, others;
    int64_t rounds;
    HN_TRY(hop_args_read(scope, node, &args));
    HN_TRY(hop_graph(&args, 0, &cond));
    HN_TRY(hop_graph(&args, 1, &body));
    HN_TRY(hop_operands_read(scope, &args, 2, &carried));
    HN_TRY(hop_operands_read(scope, &args, 3, &others));
    HN_TRY(hop_rounds_read(scope, &cond, &body, &carried, &rounds));
    HN_TRY(hn_pt2_origin_set(scope, node));
    hop_values_to_tensors(scope->graph, &carried);
    return is_short(&body, rounds) && !hop_has_numbers(&carried)
               ? while_unroll(scope, node, &body, rounds, &others, carried)
               : while_loop(scope, node, &cond, &body, rounds, &others, &carried);
}
