/* interp_args.c: reads the arguments of the node being executed by the names in its row, and makes
 * its results. Wrong kinds are internal errors: the verifier finds them first, so nobody sees
 * these, but the interpreter must not read wild memory when somebody runs a graph unverified. */
#include "ir/interp_impl.h"

#include <inttypes.h>

static const hn_arg *arg_find(const hn_ref_run *run, const char *name) {
    static const hn_arg none = {.kind = HN_ARG_NONE};
    int at = hn_op_param_index(run->node->op, name);
    return at >= 0 && (uint32_t)at < run->node->arg_count ? &run->node->args[at] : &none;
}

static hn_status bad_arg(const char *name, const char *want) {
    return HN_ERROR(HN_INTERNAL, "argument '%s' is not %s", name, want);
}

hn_status hn_ref_arg_optional(hn_ref_run *run, const char *name, const hn_ref_tensor **out) {
    const hn_arg *arg = arg_find(run, name);
    *out = NULL;
    if (arg->kind == HN_ARG_NONE) return NULL;
    if (arg->kind != HN_ARG_VALUE) return bad_arg(name, "a value");
    return hn_ref_run_value(run, arg->as.value, out);
}

hn_status hn_ref_arg_tensor(hn_ref_run *run, const char *name, const hn_ref_tensor **out) {
    HN_TRY(hn_ref_arg_optional(run, name, out));
    return *out ? NULL : HN_ERROR(HN_INTERNAL, "argument '%s' is missing", name);
}

hn_status hn_ref_arg_tensors(hn_ref_run *run, const char *name, const hn_ref_tensor ***out,
                             uint32_t *out_count) {
    const hn_arg *arg = arg_find(run, name);
    if (arg->kind != HN_ARG_VALUES) return bad_arg(name, "a list of values");
    HN_NEW(run->scratch, *out, arg->count + 1);
    for (uint32_t k = 0; k < arg->count; k++)
        HN_TRY(hn_ref_run_value(run, arg->as.values[k], &(*out)[k]));
    *out_count = arg->count;
    return NULL;
}

hn_status hn_ref_arg_int(hn_ref_run *run, const char *name, int64_t *out) {
    const hn_arg *arg = arg_find(run, name);
    if (arg->kind == HN_ARG_INT)
        return hn_status_annotate(hn_ref_eval(run->bindings, arg->as.expr, out), "argument '%s'",
                                  name);
    if (arg->kind != HN_ARG_VALUE) return bad_arg(name, "an integer");
    const hn_ref_tensor *t;
    HN_TRY(hn_ref_run_value(run, arg->as.value, &t));
    if (hn_ref_is_float(t) || t->numel != 1) return bad_arg(name, "an integer");
    *out = t->data.i[0];
    return NULL;
}

hn_status hn_ref_arg_ints(hn_ref_run *run, const char *name, int64_t out[HN_MAX_RANK],
                          uint32_t *out_count) {
    const hn_arg *arg = arg_find(run, name);
    if (arg->kind != HN_ARG_INTS || arg->count > HN_MAX_RANK)
        return bad_arg(name, "a list of integers");
    *out_count = arg->count;
    return hn_status_annotate(hn_ref_eval_sizes(run->bindings, arg->count, arg->as.exprs, out),
                              "argument '%s'", name);
}

hn_status hn_ref_arg_ints_n(hn_ref_run *run, const char *name, int64_t out[HN_MAX_RANK],
                            uint32_t count) {
    uint32_t given;
    HN_TRY(hn_ref_arg_ints(run, name, out, &given));
    return given == count ? NULL
                          : HN_ERROR(HN_INTERNAL, "argument '%s' has %u elements, must be %u", name,
                                     given, count);
}

hn_status hn_ref_arg_dim(hn_ref_run *run, const char *name, uint32_t rank, uint32_t *out) {
    int64_t dim;
    HN_TRY(hn_ref_arg_int(run, name, &dim));
    if (dim < 0 || dim >= rank)
        return HN_ERROR(HN_INTERNAL, "dimension %" PRId64 " of rank %u", dim, rank);
    *out = (uint32_t)dim;
    return NULL;
}

hn_status hn_ref_arg_float(hn_ref_run *run, const char *name, double *out) {
    hn_ref_elem e;
    HN_TRY(hn_ref_arg_scalar(run, name, HN_DTYPE_F64, &e));
    *out = e.f;
    return NULL;
}

hn_status hn_ref_arg_bool(hn_ref_run *run, const char *name, bool *out) {
    const hn_arg *arg = arg_find(run, name);
    if (arg->kind != HN_ARG_BOOL) return bad_arg(name, "a bool");
    *out = arg->as.b;
    return NULL;
}

hn_status hn_ref_arg_string(hn_ref_run *run, const char *name, hn_str *out) {
    const hn_arg *arg = arg_find(run, name);
    if (arg->kind != HN_ARG_STRING) return bad_arg(name, "a string");
    *out = arg->as.s;
    return NULL;
}

hn_status hn_ref_arg_dtype(hn_ref_run *run, const char *name, hn_dtype *out) {
    const hn_arg *arg = arg_find(run, name);
    if (arg->kind != HN_ARG_DTYPE || hn_dtype_facts(arg->as.dtype)->size_bytes == 0)
        return bad_arg(name, "a dtype");
    *out = arg->as.dtype;
    return NULL;
}

hn_status hn_ref_arg_graph(hn_ref_run *run, const char *name, hn_graph **out) {
    const hn_arg *arg = arg_find(run, name);
    if (arg->kind != HN_ARG_GRAPH || !arg->as.graph) return bad_arg(name, "a graph");
    *out = arg->as.graph;
    return NULL;
}

hn_status hn_ref_arg_scalar(hn_ref_run *run, const char *name, hn_dtype dtype, hn_ref_elem *out) {
    const hn_arg *arg = arg_find(run, name);
    hn_ref_elem e;
    hn_dtype from = HN_DTYPE_I64;
    if (arg->kind == HN_ARG_FLOAT) {
        e.f = arg->as.f;
        from = HN_DTYPE_F64;
    } else if (arg->kind == HN_ARG_BOOL) {
        e.i = arg->as.b;
    } else if (arg->kind == HN_ARG_INT) {
        HN_TRY(hn_ref_arg_int(run, name, &e.i));
    } else {
        const hn_ref_tensor *t;
        HN_TRY(hn_ref_arg_tensor(run, name, &t));
        if (t->numel != 1) return bad_arg(name, "a number");
        e = hn_ref_get(t, 0);
        from = t->dtype;
    }
    *out = hn_ref_cast(e, from, dtype);
    return NULL;
}

/* --- results --- */

static hn_value result_value(const hn_ref_run *run, uint32_t k) {
    return k < run->node->result_count ? run->node->results[k] : 0;
}

hn_dtype hn_ref_result_dtype(const hn_ref_run *run, uint32_t k, hn_dtype fallback) {
    hn_value v = result_value(run, k);
    return v ? hn_graph_value(run->graph, v)->dtype : fallback;
}

static hn_status check_recorded(const hn_ref_run *run, hn_value v, const hn_ref_tensor *t) {
    const hn_value_info *info = hn_graph_value(run->graph, v);
    int64_t sizes[HN_MAX_RANK];
    if (info->kind != HN_VALUE_TENSOR || info->dtype != t->dtype || info->rank != t->rank)
        return HN_ERROR(
            HN_INTERNAL, "the result is %s of rank %u, but the graph records %s of rank %u",
            hn_dtype_facts(t->dtype)->name, t->rank, hn_dtype_facts(info->dtype)->name, info->rank);
    HN_TRY(hn_status_annotate(hn_ref_eval_sizes(run->bindings, info->rank, info->sizes, sizes),
                              "result size"));
    for (uint32_t d = 0; d < t->rank; d++)
        if (sizes[d] != t->sizes[d])
            return HN_ERROR(HN_INTERNAL,
                            "the result has size %" PRId64
                            " in dimension %u, but the graph records %" PRId64,
                            t->sizes[d], d, sizes[d]);
    return NULL;
}

hn_status hn_ref_result(hn_ref_run *run, uint32_t k, hn_dtype dtype, uint32_t rank,
                        const int64_t *sizes, hn_ref_tensor **out) {
    hn_value v = result_value(run, k);
    if (!v && k >= 2)
        return HN_ERROR(HN_INTERNAL, "result %u of a node with %u", k, run->node->result_count);
    hn_ref_tensor *t = v ? &run->slots[v].tensor : &run->absent[k];
    if (v && run->slots[v].full) return HN_ERROR(HN_INTERNAL, "value %u is defined twice", v);
    HN_TRY(hn_ref_alloc(dtype, rank, sizes, t));
    if (v) run->slots[v].full = true;
    if (v) HN_TRY(check_recorded(run, v, t));
    *out = t;
    return NULL;
}

hn_status hn_ref_need_int(const hn_ref_tensor *t, const char *name) {
    return hn_dtype_is_int(t->dtype) ? NULL
                                     : HN_ERROR(HN_INTERNAL, "'%s' is %s, must be integers", name,
                                                hn_dtype_facts(t->dtype)->name);
}

hn_status hn_ref_need_dtype(const hn_ref_tensor *t, hn_dtype dtype, const char *name) {
    return t->dtype == dtype
               ? NULL
               : HN_ERROR(HN_INTERNAL, "'%s' is %s, must be %s", name,
                          hn_dtype_facts(t->dtype)->name, hn_dtype_facts(dtype)->name);
}
