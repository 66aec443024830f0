/* interp_control.c: rows whose result or effect depends on data: nonzero, item, cond, assert. */
#include "ir/interp_impl.h"

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
