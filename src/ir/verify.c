/* verify.c: what must hold of a graph between passes. One walk in node order with a bit for each
 * value that says whether it is defined; every primitive's results are inferred again and
 * compared. */
#include "base/checked.h"
#include "ir/build.h"
#include "ir/check.h"

typedef struct verifier {
    hn_graph *g;
    hn_legal legal;
    uint32_t depth;
    uint8_t *defined; /* per value */
    hn_value missing; /* found by visit_operand */
} verifier;

static hn_status verify_at(hn_graph *g, hn_legal legal, uint32_t depth);

/* --- values --- */

static hn_status check_list(const verifier *v, const hn_expr *list, uint32_t count,
                            const char *what) {
    hn_sym *sym = v->g->sym;
    for (uint32_t i = 0; i < count; i++) {
        int64_t known;
        if (!list[i]) return HN_ERROR(HN_INTERNAL, "%s %u is invalid", what, i);
        if (hn_sym_is_int(sym, list[i], &known) && known < 0)
            return HN_ERROR(HN_INTERNAL, "%s %u is negative: %lld", what, i, (long long)known);
    }
    return NULL;
}

static hn_status check_value(const verifier *v, hn_value id) {
    const hn_value_info *info = hn_graph_value(v->g, id);
    if (info->kind != HN_VALUE_TENSOR) {
        if (info->kind == HN_VALUE_SYM_INT && !info->expr)
            return HN_ERROR(HN_INTERNAL, "a symbolic int has no expression");
        return (uint32_t)info->kind <= HN_VALUE_SYM_BOOL
                   ? NULL
                   : HN_ERROR(HN_INTERNAL, "the kind of a value is invalid");
    }
    if (info->dtype == HN_DTYPE_NONE || (uint32_t)info->dtype >= HN_DTYPE_COUNT)
        return HN_ERROR(HN_INTERNAL, "a tensor has no dtype");
    if (info->rank > HN_MAX_RANK)
        return HN_ERROR(HN_INTERNAL, "rank %u exceeds the limit of %d", info->rank, HN_MAX_RANK);
    HN_TRY(check_list(v, info->sizes, info->rank, "size"));
    return info->strides ? check_list(v, info->strides, info->rank, "stride") : NULL;
}

static hn_status define(verifier *v, hn_value id, hn_node producer) {
    if (!id || id >= v->g->values.count)
        return HN_ERROR(HN_INTERNAL, "value %u does not exist", id);
    if (v->defined[id]) return HN_ERROR(HN_INTERNAL, "value %u is defined twice", id);
    if (hn_graph_value(v->g, id)->producer != producer)
        return HN_ERROR(HN_INTERNAL, "value %u names node %u as its producer", id,
                        hn_graph_value(v->g, id)->producer);
    v->defined[id] = 1;
    return check_value(v, id);
}

static hn_status check_use(const verifier *v, hn_value id) {
    if (!id || id >= v->g->values.count)
        return HN_ERROR(HN_INTERNAL, "value %u does not exist", id);
    if (!v->defined[id]) return HN_ERROR(HN_INTERNAL, "value %u is used before it is defined", id);
    return NULL;
}

/* --- inputs and outputs --- */

/* The bytes that a constant's sizes, strides and offset reach are within its storage. */
static hn_status check_storage(const verifier *v, const hn_input *input) {
    const hn_value_info *info = hn_graph_value(v->g, input->value);
    if (input->storage >= v->g->storages.count || !input->storage)
        return HN_ERROR(HN_INTERNAL, "it has no storage");
    int64_t last = input->storage_offset_elems, expected = 1, bytes;
    for (uint32_t k = info->rank; k-- > 0;) {
        int64_t size, stride = expected, reach;
        if (!hn_sym_is_int(v->g->sym, info->sizes[k], &size))
            return HN_ERROR(HN_INTERNAL, "size %u is not a constant", k);
        if (info->strides && !hn_sym_is_int(v->g->sym, info->strides[k], &stride))
            return HN_ERROR(HN_INTERNAL, "stride %u is not a constant", k);
        if (size == 0) return NULL;
        if (!hn_mul_i64(size - 1, stride, &reach) || !hn_add_i64(last, reach, &last) ||
            !hn_mul_i64(expected, size, &expected))
            return HN_ERROR(HN_INTERNAL, "its extent overflows");
    }
    if (input->storage_offset_elems < 0 || !hn_add_i64(last, 1, &last) ||
        !hn_mul_i64(last, hn_dtype_facts(info->dtype)->size_bytes, &bytes) ||
        (uint64_t)bytes > v->g->storages.items[input->storage].size_bytes)
        return HN_ERROR(HN_INTERNAL, "it reaches beyond its storage of %zu bytes",
                        v->g->storages.items[input->storage].size_bytes);
    return NULL;
}

static hn_status check_example(const verifier *v, const hn_input *input) {
    const hn_value_info *info = hn_graph_value(v->g, input->value);
    const hn_example *example = input->example;
    int64_t size;
    if (!example) return NULL;
    if (input->kind != HN_INPUT_USER)
        return HN_ERROR(HN_INTERNAL, "only inputs of the user have an example");
    if (example->rank != info->rank) return HN_ERROR(HN_INTERNAL, "its example has another rank");
    for (uint32_t d = 0; d < info->rank; d++)
        if (hn_sym_is_int(v->g->sym, info->sizes[d], &size) && size != example->sizes[d])
            return HN_ERROR(HN_INTERNAL, "size %u of its example is %lld, not %lld", d,
                            (long long)example->sizes[d], (long long)size);
    return NULL;
}

static hn_status check_kind(verifier *v, const hn_input *input) {
    switch (input->kind) {
    case HN_INPUT_SCALAR:
        return input->value ? HN_ERROR(HN_INTERNAL, "a scalar of the signature has a value") : NULL;
    case HN_INPUT_USER: return define(v, input->value, 0);
    case HN_INPUT_PARAMETER:
    case HN_INPUT_BUFFER:
    case HN_INPUT_CONSTANT:
        HN_TRY(define(v, input->value, 0));
        if (hn_graph_value(v->g, input->value)->kind != HN_VALUE_TENSOR)
            return HN_ERROR(HN_INTERNAL, "it is no tensor");
        return check_storage(v, input);
    }
    return HN_ERROR(HN_INTERNAL, "its kind is invalid");
}

static hn_status check_input(verifier *v, const hn_input *input) {
    HN_TRY(check_kind(v, input));
    return check_example(v, input);
}

/* Strides may differ: what is written back is the logical tensor. */
static hn_status check_same_meta(const hn_graph *ga, const hn_value_info *a,
                                 const hn_value_info *b) {
    if (a->kind == b->kind && a->kind != HN_VALUE_TENSOR) return NULL;
    if (a->kind == b->kind && a->dtype == b->dtype && a->rank == b->rank) {
        bool same = true;
        for (uint32_t i = 0; i < a->rank; i++) same &= hn_sizes_agree(ga, a->sizes[i], b->sizes[i]);
        if (same) return NULL;
    }
    hn_strbuf text;
    hn_strbuf_init(&text);
    hn_sizes_print(ga, a->dtype, a->sizes, a->rank, &text);
    hn_strbuf_puts(&text, " where ");
    hn_sizes_print(ga, b->dtype, b->sizes, b->rank, &text);
    hn_status status = HN_ERROR(HN_INTERNAL, "%s is wanted",
                                text.ptr ? text.ptr : "one type is found where another");
    hn_strbuf_deinit(&text);
    return status;
}

static hn_status check_output(const verifier *v, const hn_output *output) {
    if (output->kind == HN_OUTPUT_SCALAR) {
        if (output->value) return HN_ERROR(HN_INTERNAL, "a scalar output has a tensor");
        return output->scalar.kind == HN_ARG_VALUE ? check_use(v, output->scalar.as.value) : NULL;
    }
    HN_TRY(check_use(v, output->value));
    if (output->kind == HN_OUTPUT_USER) return NULL;
    if (output->kind != HN_OUTPUT_MUTATION) return HN_ERROR(HN_INTERNAL, "its kind is invalid");
    if (output->target >= v->g->inputs.count)
        return HN_ERROR(HN_INTERNAL, "it mutates input %u, which does not exist", output->target);
    const hn_input *target = &v->g->inputs.items[output->target];
    if (!target->value || target->kind == HN_INPUT_CONSTANT)
        return HN_ERROR(HN_INTERNAL, "it mutates input %u, which cannot be written",
                        output->target);
    return hn_status_annotate(check_same_meta(v->g, hn_graph_value(v->g, output->value),
                                              hn_graph_value(v->g, target->value)),
                              "the new content of input %u", output->target);
}

/* --- nodes --- */

static void visit_operand(void *user, hn_value id) {
    verifier *v = user;
    if (!v->missing && (id >= v->g->values.count || !v->defined[id])) v->missing = id;
}

static hn_status check_results(const verifier *v, const hn_node_info *node, const hn_meta *metas,
                               uint32_t count) {
    if (node->result_count != count)
        return HN_ERROR(HN_INTERNAL, "it has %u results instead of %u", node->result_count, count);
    for (uint32_t k = 0; k < count; k++) {
        if (!node->results[k]) continue;
        const hn_value_info *info = hn_graph_value(v->g, node->results[k]);
        hn_value_info want = {
            .dtype = metas[k].dtype, .rank = metas[k].rank, .sizes = metas[k].sizes};
        hn_expr sizes[HN_MAX_RANK];
        if (node->op == HN_OP_NONZERO && info->rank == 2) { /* the count is a symbol of its own */
            sizes[0] = info->sizes[0];
            sizes[1] = metas[k].sizes[1];
            want.sizes = sizes;
        }
        HN_TRY(hn_status_annotate(check_same_meta(v->g, info, &want), "result %u", k));
    }
    return NULL;
}

/* The inputs of a subgraph are like the operands. */
static hn_status check_subgraph_inputs(const hn_graph *g, const hn_graph *branch,
                                       const hn_value *operands, uint32_t count,
                                       uint32_t output_count) {
    if (branch->sym != g->sym) return HN_ERROR(HN_INTERNAL, "it has symbols of its own");
    /* constants that passes have made stand behind the operands */
    uint32_t users = branch->inputs.count;
    while (users && branch->inputs.items[users - 1].kind == HN_INPUT_CONSTANT) users--;
    if (users != count || branch->outputs.count != output_count)
        return HN_ERROR(HN_INTERNAL, "it has %u inputs and %u outputs instead of %u and %u", users,
                        branch->outputs.count, count, output_count);
    for (uint32_t i = 0; i < count; i++) {
        const hn_input *input = &branch->inputs.items[i];
        if (input->kind != HN_INPUT_USER || !input->value)
            return HN_ERROR(HN_INTERNAL, "input %u is no operand", i);
        HN_TRY(hn_status_annotate(check_same_meta(g, hn_graph_value(g, operands[i]),
                                                  hn_graph_value(branch, input->value)),
                                  "input %u", i));
    }
    return NULL;
}

static hn_status check_branch(const hn_graph *g, const hn_graph *branch, const hn_arg *operands,
                              const hn_value *results, uint32_t result_count) {
    HN_TRY(check_subgraph_inputs(g, branch, operands->as.values, operands->count, result_count));
    for (uint32_t k = 0; k < result_count; k++) {
        const hn_output *output = &branch->outputs.items[k];
        if (output->kind == HN_OUTPUT_MUTATION)
            return HN_ERROR(HN_INTERNAL, "output %u is a mutation", k);
        if (!results[k]) continue; /* a constant of the signature, or unused */
        if (!output->value) return HN_ERROR(HN_INTERNAL, "output %u has no value", k);
        HN_TRY(hn_status_annotate(check_same_meta(g, hn_graph_value(branch, output->value),
                                                  hn_graph_value(g, results[k])),
                                  "output %u", k));
    }
    return NULL;
}

hn_status hn_cond_check(const hn_graph *g, const hn_arg args[4], const hn_value *results,
                        uint32_t result_count) {
    for (int k = 1; k <= 2; k++)
        HN_TRY(
            hn_status_annotate(check_branch(g, args[k].as.graph, &args[3], results, result_count),
                               "the %s graph of 'cond'", k == 1 ? "then" : "otherwise"));
    return NULL;
}

/* Whether a subgraph's output `output` is a tensor like `like`, a value of `g`. */
static hn_status check_carried(const hn_graph *g, const hn_graph *body, uint32_t k, hn_value like) {
    const hn_output *output = &body->outputs.items[k];
    if (output->kind != HN_OUTPUT_USER || !output->value)
        return HN_ERROR(HN_INTERNAL, "output %u has no value", k);
    return hn_status_annotate(
        check_same_meta(g, hn_graph_value(g, like), hn_graph_value(body, output->value)),
        "output %u", k);
}

static hn_status check_loop_body(const hn_graph *g, const hn_graph *body, const hn_value *operands,
                                 uint32_t count, uint32_t carried) {
    HN_TRY(check_subgraph_inputs(g, body, operands, count, carried));
    for (uint32_t k = 0; k < carried; k++) HN_TRY(check_carried(g, body, k, operands[k]));
    return NULL;
}

static hn_status check_loop_test(const hn_graph *g, const hn_graph *test, const hn_value *operands,
                                 uint32_t count) {
    HN_TRY(check_subgraph_inputs(g, test, operands, count, 1));
    const hn_output *output = &test->outputs.items[0];
    const hn_value_info *info = hn_graph_value(test, output->value);
    bool ok = output->kind == HN_OUTPUT_USER && output->value && info->kind == HN_VALUE_TENSOR &&
              info->dtype == HN_DTYPE_BOOL;
    for (uint32_t d = 0; ok && d < info->rank; d++)
        ok = hn_sizes_agree(g, info->sizes[d], hn_sym_int(g->sym, 1));
    return ok ? NULL : HN_ERROR(HN_INTERNAL, "its output is no bool tensor of one element");
}

static hn_status check_loop_results(const hn_graph *g, const hn_arg *carried,
                                    const hn_value *results, uint32_t count) {
    if (count != carried->count)
        return HN_ERROR(HN_INTERNAL, "'loop' has %u results and carries %u tensors", count,
                        carried->count);
    for (uint32_t k = 0; k < count; k++) {
        const hn_value_info *info = hn_graph_value(g, carried->as.values[k]);
        if (info->kind != HN_VALUE_TENSOR)
            return HN_ERROR(HN_INTERNAL, "'loop' carries a symbolic scalar");
        if (results[k])
            HN_TRY(hn_status_annotate(check_same_meta(g, info, hn_graph_value(g, results[k])),
                                      "result %u of 'loop'", k));
    }
    return NULL;
}

hn_status hn_loop_args_check(const hn_graph *g, const hn_arg args[HN_LOOP_ARGS],
                             const hn_value *results, uint32_t result_count) {
    const hn_arg *carried = &args[HN_LOOP_CARRIED], *others = &args[HN_LOOP_OTHERS];
    const uint32_t count = carried->count + others->count;
    const bool is_counted = args[HN_LOOP_ROUNDS].kind != HN_ARG_NONE;
    hn_arena scratch;
    hn_value *operands;
    if (is_counted == (args[HN_LOOP_TEST].kind != HN_ARG_NONE))
        return HN_ERROR(HN_INTERNAL, "'loop' wants either a number of rounds or a test");
    HN_TRY(check_loop_results(g, carried, results, result_count));
    hn_arena_init(&scratch);
    hn_status status = hn_arena_array(&scratch, (size_t)count + 1, sizeof *operands, &operands);
    if (!status) {
        for (uint32_t k = 0; k < carried->count; k++) operands[k] = carried->as.values[k];
        for (uint32_t k = 0; k < others->count; k++)
            operands[carried->count + k] = others->as.values[k];
        status = hn_status_annotate(
            check_loop_body(g, args[HN_LOOP_BODY].as.graph, operands, count, carried->count),
            "the body of 'loop'");
    }
    if (!status && !is_counted)
        status = hn_status_annotate(
            check_loop_test(g, args[HN_LOOP_TEST].as.graph, operands, count), "the test of 'loop'");
    hn_arena_deinit(&scratch);
    return status;
}

static hn_status check_single_element(const verifier *v, hn_value id) {
    const hn_value_info *info = hn_graph_value(v->g, id);
    for (uint32_t i = 0; info->kind == HN_VALUE_TENSOR && i < info->rank; i++)
        if (!hn_sizes_agree(v->g, info->sizes[i], hn_sym_int(v->g->sym, 1)))
            return HN_ERROR(HN_INTERNAL, "an operand of one element is wanted");
    return NULL;
}

static hn_status check_result_count(const hn_node_info *node) {
    int want = hn_op_result_count(node->op);
    if (want < 0 || node->result_count == (uint32_t)want) return NULL;
    return HN_ERROR(HN_INTERNAL, "it has %u results instead of %d", node->result_count, want);
}

static hn_status check_control(const verifier *v, const hn_node_info *node) {
    if (node->op == HN_OP_LOOP)
        return hn_loop_args_check(v->g, node->args, node->results, node->result_count);
    HN_TRY(check_single_element(v, node->args[0].as.value));
    if (node->op == HN_OP_COND)
        return hn_cond_check(v->g, node->args, node->results, node->result_count);
    HN_TRY(check_result_count(node));
    if (node->result_count && node->results[0] &&
        hn_graph_value(v->g, node->results[0])->kind == HN_VALUE_TENSOR)
        return HN_ERROR(HN_INTERNAL, "its result is no symbolic scalar");
    return NULL;
}

static hn_status check_semantics(verifier *v, const hn_node_info *node) {
    if (hn_op_is_aten(node->op)) return check_result_count(node);
    if (hn_op_facts(node->op)->op_class == HN_OPC_CONTROL || node->op == HN_OP_ITEM)
        return check_control(v, node);
    hn_meta metas[HN_RESULTS_MAX];
    uint32_t count;
    HN_TRY(hn_infer(v->g, node->op, node->args, node->arg_count, metas, &count));
    return check_results(v, node, metas, count);
}

static hn_status check_node(verifier *v, hn_node n) {
    const hn_node_info *node = hn_graph_node(v->g, n);
    if (hn_op_facts(node->op)->op_class == HN_OPC_NONE)
        return HN_ERROR(HN_INTERNAL, "op %u does not exist", (unsigned)node->op);
    if (v->legal == HN_LEGAL_PRIMITIVE && hn_op_is_aten(node->op))
        return HN_ERROR(HN_INTERNAL, "it is no primitive");
    if (node->origin >= v->g->origins.count)
        return HN_ERROR(HN_INTERNAL, "its origin does not exist");
    v->missing = 0;
    hn_node_each_value(node, visit_operand, v);
    if (v->missing)
        return HN_ERROR(HN_INTERNAL, "value %u is used before it is defined", v->missing);
    HN_TRY(hn_args_check(v->g, node->op, node->args, node->arg_count));
    for (uint32_t i = 0; i < node->arg_count; i++)
        if (node->args[i].kind == HN_ARG_GRAPH)
            HN_TRY(verify_at(node->args[i].as.graph, v->legal, v->depth + 1));
    for (uint32_t k = 0; k < node->result_count; k++) {
        if (!node->results[k]) continue;
        HN_TRY(define(v, node->results[k], n));
        if (hn_graph_value(v->g, node->results[k])->result_idx != k)
            return HN_ERROR(HN_INTERNAL, "result %u has another index", k);
    }
    return check_semantics(v, node);
}

static hn_status annotate_node(const verifier *v, hn_node n, hn_status status) {
    if (!status) return NULL;
    const hn_node_info *node = hn_graph_node(v->g, n);
    hn_origin origin = v->g->origins.items[node->origin < v->g->origins.count ? node->origin : 0];
    return hn_status_annotate(status, "node %u '%s' from '" HN_STR_FMT "' " HN_STR_FMT, n,
                              hn_op_facts(node->op)->name, HN_STR_ARG(origin.node),
                              HN_STR_ARG(origin.source));
}

static hn_status verify_all(verifier *v) {
    hn_graph *g = v->g;
    for (uint32_t i = 0; i < g->inputs.count; i++)
        HN_TRY(hn_status_annotate(check_input(v, &g->inputs.items[i]), "input %u '" HN_STR_FMT "'",
                                  i, HN_STR_ARG(g->inputs.items[i].name)));
    for (uint32_t n = 1; n < g->nodes.count; n++)
        if (!g->nodes.items[n].dead) HN_TRY(annotate_node(v, n, check_node(v, n)));
    for (uint32_t i = 0; i < g->outputs.count; i++)
        HN_TRY(hn_status_annotate(check_output(v, &g->outputs.items[i]),
                                  "output %u '" HN_STR_FMT "'", i,
                                  HN_STR_ARG(g->outputs.items[i].name)));
    return NULL;
}

static hn_status verify_at(hn_graph *g, hn_legal legal, uint32_t depth) {
    if (depth > HN_MAX_GRAPH_DEPTH)
        return HN_ERROR(HN_UNSUPPORTED, "subgraphs are nested more than %d deep",
                        HN_MAX_GRAPH_DEPTH);
    HN_TRY(hn_graph_status(g));
    hn_arena scratch;
    hn_arena_init(&scratch);
    verifier v = {.g = g, .legal = legal, .depth = depth};
    hn_status status = hn_arena_array(&scratch, g->values.count, 1, &v.defined);
    if (!status) status = verify_all(&v);
    hn_arena_deinit(&scratch);
    return status;
}

hn_status hn_graph_verify(hn_graph *graph, hn_legal legal) {
    if (graph->weights_program)
        HN_TRY(hn_status_annotate(verify_at(graph->weights_program, legal, 1),
                                  "the program of weights"));
    HN_TRY(hn_weights_program_check(graph));
    return verify_at(graph, legal, 0);
}
