/* interp_control.c: rows whose result or effect depends on data: nonzero, item, cond, assert,
 * loop. */
#include "ir/interp_impl.h"

#include "ir/check.h"

#include <inttypes.h>

static bool elem_is_true(const hn_ref_tensor *t, int64_t at) {
    return hn_ref_is_float(t) ? t->data.f[at] != 0 : t->data.i[at] != 0;
}

/* Gives a data-dependent symbol its value, checks its range and the guards that waited for it. */
static hn_status bind_data(hn_ref_run *run, hn_expr e, int64_t value, const char *what) {
    HN_TRY(hn_ref_bind(run->bindings, e, value, what));
    return hn_sym_kind(run->graph->sym, e) == HN_EXPR_SYMBOL ? hn_ref_check_guards(run->bindings, e)
                                                             : NULL;
}

hn_status hn_ref_nonzero(hn_ref_run *run) {
    const hn_ref_tensor *x;
    int64_t count = 0, coord[HN_MAX_RANK] = {0}, row = 0;
    hn_ref_tensor *out;
    HN_TRY(hn_ref_arg_tensor(run, "x", &x));
    for (int64_t n = 0; n < x->numel; n++) count += elem_is_true(x, n);
    hn_value result = run->node->result_count ? run->node->results[0] : 0;
    if (result && hn_graph_value(run->graph, result)->rank == 2)
        HN_TRY(bind_data(run, hn_graph_value(run->graph, result)->sizes[0], count,
                         "the count of non-zero elements"));
    HN_TRY(hn_ref_result(run, 0, HN_DTYPE_I64, 2, (int64_t[]){count, x->rank}, &out));
    for (int64_t n = 0; n < x->numel; n++, hn_ref_next(coord, x->sizes, x->rank)) {
        if (!elem_is_true(x, n)) continue;
        for (uint32_t d = 0; d < x->rank; d++) out->data.i[row * x->rank + d] = coord[d];
        row++;
    }
    return NULL;
}

/* Puts a scalar in the slot of a value of a symbolic kind. */
static hn_status scalar_store(hn_ref_run *run, hn_value value, const hn_ref_tensor *from) {
    static const hn_dtype dtypes[] = {[HN_VALUE_SYM_INT] = HN_DTYPE_I64,
                                      [HN_VALUE_SYM_FLOAT] = HN_DTYPE_F64,
                                      [HN_VALUE_SYM_BOOL] = HN_DTYPE_BOOL};
    const hn_value_info *info = hn_graph_value(run->graph, value);
    hn_ref_slot *slot = &run->slots[value];
    if (info->kind == HN_VALUE_TENSOR || from->numel != 1)
        return HN_ERROR(HN_INTERNAL, "the result is not one number");
    if (slot->full) return HN_ERROR(HN_INTERNAL, "value %u is defined twice", value);
    HN_TRY(hn_ref_alloc(dtypes[info->kind], 0, NULL, &slot->tensor));
    slot->full = true;
    hn_ref_elem e = hn_ref_cast(hn_ref_get(from, 0), from->dtype, slot->tensor.dtype);
    hn_ref_set(&slot->tensor, 0, e);
    if (info->kind == HN_VALUE_SYM_FLOAT || info->expr == 0) return NULL;
    return bind_data(run, info->expr, e.i, "the element");
}

hn_status hn_ref_item(hn_ref_run *run) {
    const hn_ref_tensor *x;
    HN_TRY(hn_ref_arg_tensor(run, "x", &x));
    if (x->numel != 1)
        return HN_ERROR(HN_INVALID_ARGUMENT, "a tensor of %" PRId64 " elements, must have one",
                        x->numel);
    if (run->node->result_count == 0 || run->node->results[0] == 0) return NULL;
    return scalar_store(run, run->node->results[0], x);
}

/* Where the branches give different sizes, the graph around them knows the size as a symbol of its
 * own. */
static hn_status bind_result_sizes(hn_ref_run *run, hn_value value, const hn_ref_tensor *t) {
    const hn_value_info *info = hn_graph_value(run->graph, value);
    for (uint32_t d = 0; d < info->rank && info->rank == t->rank; d++)
        if (hn_sym_kind(run->graph->sym, info->sizes[d]) == HN_EXPR_SYMBOL)
            HN_TRY(bind_data(run, info->sizes[d], t->sizes[d], "a size of the result"));
    return NULL;
}

static hn_status cond_result(hn_ref_run *run, hn_ref_run *branch, uint32_t k) {
    hn_value value = run->node->results[k];
    const hn_output *output = &branch->graph->outputs.items[k];
    const hn_ref_tensor *from;
    hn_ref_tensor *to;
    if (!value) return NULL;
    if (output->kind != HN_OUTPUT_USER)
        return HN_ERROR(HN_UNSUPPORTED, "output %u of a branch is not a value", k);
    HN_TRY(hn_ref_run_value(branch, output->value, &from));
    if (hn_graph_value(run->graph, value)->kind != HN_VALUE_TENSOR)
        return scalar_store(run, value, from);
    HN_TRY(bind_result_sizes(run, value, from));
    HN_TRY(hn_ref_result(run, k, from->dtype, from->rank, from->sizes, &to));
    for (int64_t n = 0; n < from->numel; n++) hn_ref_move(to, n, from, n);
    return NULL;
}

/* A branch sees the symbols of the graph around it when both use one context. */
static hn_status cond_branch(hn_ref_run *run, hn_ref_run *branch, hn_graph *graph) {
    const hn_ref_tensor **operands;
    uint32_t count;
    HN_TRY(hn_ref_arg_tensors(run, "operands", &operands, &count));
    HN_TRY(hn_ref_run_init(branch, run->arena, run->scratch, graph, run->depth + 1));
    if (graph->sym == run->graph->sym) branch->bindings = run->bindings;
    if (graph->outputs.count != run->node->result_count)
        return HN_ERROR(HN_INTERNAL, "a branch with %u outputs for %u results",
                        graph->outputs.count, run->node->result_count);
    HN_TRY(hn_ref_run_nodes(branch, operands, count));
    for (uint32_t k = 0; k < run->node->result_count; k++) HN_TRY(cond_result(run, branch, k));
    return NULL;
}

hn_status hn_ref_cond(hn_ref_run *run) {
    const hn_ref_tensor *pred;
    hn_graph *graph;
    hn_ref_run branch = {0};
    HN_TRY(hn_ref_arg_tensor(run, "pred", &pred));
    if (pred->numel != 1)
        return HN_ERROR(HN_INVALID_ARGUMENT,
                        "the condition has %" PRId64 " elements, must have one", pred->numel);
    const char *side = elem_is_true(pred, 0) ? "then" : "otherwise";
    HN_TRY(hn_ref_arg_graph(run, side, &graph));
    hn_status status = cond_branch(run, &branch, graph);
    if (branch.graph) hn_ref_run_deinit(&branch);
    return hn_status_annotate(status, "in the branch '%s'", side);
}

hn_status hn_ref_assert(hn_ref_run *run) {
    const hn_ref_tensor *cond;
    hn_str message;
    HN_TRY(hn_ref_arg_tensor(run, "cond", &cond));
    HN_TRY(hn_ref_arg_string(run, "message", &message));
    if (cond->numel != 1)
        return HN_ERROR(HN_INVALID_ARGUMENT,
                        "the condition has %" PRId64 " elements, must have one", cond->numel);
    if (elem_is_true(cond, 0)) return NULL;
    return HN_ERROR(HN_INVALID_ARGUMENT, "assertion failed: " HN_STR_FMT, HN_STR_ARG(message));
}

/* --- loops --- */

/* What a loop carries is copied from round to round; each round is a run of its own, whose memory
 * goes when it ends. */
typedef struct loop_run {
    hn_ref_run *outer;
    hn_arena arena, scratch;        /* of a round */
    hn_ref_tensor *carried, *next;  /* on the heap */
    const hn_ref_tensor **operands; /* carried, then others */
    uint32_t carried_count, operand_count;
} loop_run;

static hn_status tensor_copy(const hn_ref_tensor *from, hn_ref_tensor *out) {
    hn_ref_free(out);
    HN_TRY(hn_ref_alloc(from->dtype, from->rank, from->sizes, out));
    for (int64_t n = 0; n < from->numel; n++) hn_ref_move(out, n, from, n);
    return NULL;
}

static hn_status outputs_copy(hn_ref_run *inner, hn_ref_tensor *out, uint32_t count) {
    if (inner->graph->outputs.count != count)
        return HN_ERROR(HN_INTERNAL, "a subgraph with %u outputs instead of %u",
                        inner->graph->outputs.count, count);
    for (uint32_t k = 0; k < count; k++) {
        const hn_ref_tensor *from;
        HN_TRY(hn_ref_run_value(inner, inner->graph->outputs.items[k].value, &from));
        HN_TRY(tensor_copy(from, &out[k]));
    }
    return NULL;
}

/* Runs a subgraph on the operands. It sees the symbols of the graph around it; those that it gives
 * a value are its own. */
static hn_status subgraph_run(loop_run *l, hn_graph *graph, hn_ref_tensor *out, uint32_t count) {
    hn_ref_run inner = {0};
    hn_ref_bindings *around = l->outer->bindings;
    const uint32_t symbols = around->symbols.count, values = around->values.count;
    hn_status status = hn_ref_run_init(&inner, &l->arena, &l->scratch, graph, l->outer->depth + 1);
    if (!status && graph->sym == l->outer->graph->sym) inner.bindings = around;
    if (!status) status = hn_ref_run_nodes(&inner, l->operands, l->operand_count);
    if (!status) status = outputs_copy(&inner, out, count);
    if (inner.graph) hn_ref_run_deinit(&inner);
    around->symbols.count = symbols;
    around->values.count = values;
    hn_arena_reset(&l->arena);
    hn_arena_reset(&l->scratch);
    return status;
}

static hn_status round_run(loop_run *l, hn_graph *body) {
    HN_TRY(hn_status_annotate(subgraph_run(l, body, l->next, l->carried_count),
                              "in the body of a loop"));
    for (uint32_t k = 0; k < l->carried_count; k++) {
        hn_ref_tensor before = l->carried[k];
        l->carried[k] = l->next[k];
        l->next[k] = before;
    }
    return NULL;
}

static hn_status test_run(loop_run *l, hn_graph *test, bool *out_goes_on) {
    hn_ref_tensor flag = {0};
    hn_status status = hn_status_annotate(subgraph_run(l, test, &flag, 1), "in the test of a loop");
    if (!status && flag.numel != 1)
        status = HN_ERROR(HN_INVALID_ARGUMENT,
                          "the test of a loop has %" PRId64 " elements, must have one", flag.numel);
    *out_goes_on = !status && elem_is_true(&flag, 0);
    hn_ref_free(&flag);
    return status;
}

static hn_status rounds_run(loop_run *l) {
    const hn_arg *args = l->outer->node->args;
    const bool is_counted = args[HN_LOOP_ROUNDS].kind == HN_ARG_INT;
    hn_graph *body = NULL, *test = NULL;
    int64_t rounds = 0;
    HN_TRY(hn_ref_arg_graph(l->outer, "body", &body));
    if (is_counted) HN_TRY(hn_ref_eval(l->outer->bindings, args[HN_LOOP_ROUNDS].as.expr, &rounds));
    else HN_TRY(hn_ref_arg_graph(l->outer, "test", &test));
    for (int64_t n = 0; !is_counted || n < rounds; n++) {
        bool goes_on = true;
        if (test) HN_TRY(test_run(l, test, &goes_on));
        if (!goes_on) break;
        HN_TRY(round_run(l, body));
    }
    return NULL;
}

static hn_status loop_begin(loop_run *l) {
    const hn_ref_tensor **carried, **others;
    uint32_t other_count;
    hn_arena *scratch = l->outer->scratch;
    HN_TRY(hn_ref_arg_tensors(l->outer, "carried", &carried, &l->carried_count));
    HN_TRY(hn_ref_arg_tensors(l->outer, "others", &others, &other_count));
    l->operand_count = l->carried_count + other_count;
    HN_NEW(scratch, l->operands, l->operand_count);
    HN_NEW(scratch, l->next, l->carried_count);
    HN_NEW(scratch, l->carried, l->carried_count);
    for (uint32_t k = 0; k < l->carried_count; k++) {
        HN_TRY(tensor_copy(carried[k], &l->carried[k]));
        l->operands[k] = &l->carried[k];
    }
    for (uint32_t k = 0; k < other_count; k++) l->operands[l->carried_count + k] = others[k];
    return NULL;
}

static hn_status loop_results(loop_run *l) {
    for (uint32_t k = 0; k < l->carried_count && k < l->outer->node->result_count; k++) {
        const hn_ref_tensor *from = &l->carried[k];
        hn_ref_tensor *to;
        if (!l->outer->node->results[k]) continue;
        HN_TRY(hn_ref_result(l->outer, k, from->dtype, from->rank, from->sizes, &to));
        for (int64_t n = 0; n < from->numel; n++) hn_ref_move(to, n, from, n);
    }
    return NULL;
}

hn_status hn_ref_loop(hn_ref_run *run) {
    loop_run l = {.outer = run};
    hn_arena_init(&l.arena);
    hn_arena_init(&l.scratch);
    hn_status status = loop_begin(&l);
    if (!status) status = rounds_run(&l);
    if (!status) status = loop_results(&l);
    for (uint32_t k = 0; l.carried && k < l.carried_count; k++) {
        hn_ref_free(&l.carried[k]);
        hn_ref_free(&l.next[k]);
    }
    hn_arena_deinit(&l.scratch);
    hn_arena_deinit(&l.arena);
    return status;
}
