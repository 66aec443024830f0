/* views.c: the table of view ops: when a result shares memory, and how a write through it
 * changes what it views.
 *
 * A view that keeps the elements (view, squeeze, permute...) is inverted; one that picks some of
 * them (slice, select, diagonal...) is scattered back into a copy of the base. */
#include "opt/functionalize/functionalize.h"

#include "base/compiler.h"

/* --- small tools --- */

hn_value hn_emit_like(hn_graph *g, hn_op op, const hn_arg *args, uint32_t count,
                      hn_value_info like) {
    hn_value v =
        hn_graph_add_tensor(g, like.dtype, like.rank, like.sizes, like.strides, HN_STR(""));
    hn_graph_add_node(g, op, args, count, &v, 1);
    return g->failed ? 0 : v;
}

static hn_value cannot(const hn_view_write *w, const char *why) {
    hn_graph_fail(w->g, HN_ERROR(HN_UNSUPPORTED, "cannot write through '%s': %s",
                                 hn_op_facts(w->view->op)->name, why));
    return 0;
}

static bool constant(const hn_graph *g, const hn_arg *arg, int64_t *out) {
    return arg->kind == HN_ARG_INT && hn_sym_is_int(g->sym, arg->as.expr, out);
}

static int64_t wrap(int64_t dim, uint32_t rank) { return dim < 0 ? dim + (rank ? rank : 1) : dim; }

static bool same_sizes(const hn_graph *g, const hn_value_info *a, const hn_value_info *b) {
    if (a->rank != b->rank) return false;
    for (uint32_t k = 0; k < a->rank; k++)
        if (!hn_sym_prove_eq(g->sym, a->sizes[k], b->sizes[k])) return false;
    return true;
}

static bool same_layout(const hn_graph *g, const hn_value_info *a, const hn_value_info *b) {
    hn_expr x[HN_MAX_RANK], y[HN_MAX_RANK];
    if (!same_sizes(g, a, b)) return false;
    hn_value_strides(g->sym, a, x);
    hn_value_strides(g->sym, b, y);
    for (uint32_t k = 0; k < a->rank; k++)
        if (!hn_sym_is_value(g->sym, a->sizes[k], 1) && !hn_sym_prove_eq(g->sym, x[k], y[k]))
            return false;
    return true;
}

static const hn_value_info *operand_info(const hn_graph *g, const hn_node_info *node) {
    return hn_graph_value(g, node->args[hn_view_operand(node->op)].as.value);
}
static const hn_value_info *result_info(const hn_graph *g, const hn_node_info *node) {
    return hn_graph_value(g, node->results[0]);
}

static const hn_arg *arg_named(const hn_node_info *node, const char *name) {
    int at = hn_op_param_index(node->op, name);
    return at >= 0 ? &node->args[at] : NULL;
}

/* --- does the result share memory? --- */

static hn_alias alias_same(const hn_graph *g, const hn_node_info *node) {
    return (void)g, (void)node, HN_ALIAS_SAME;
}

/* aten.contiguous: the tensor itself when it has the layout already. */
static hn_alias alias_contiguous(const hn_graph *g, const hn_node_info *node) {
    return same_layout(g, operand_info(g, node), result_info(g, node)) ? HN_ALIAS_SAME
                                                                       : HN_ALIAS_NONE;
}

/* aten.to.*, type_as: the tensor itself when nothing changes and no copy is asked for. */
static hn_alias alias_to(const hn_graph *g, const hn_node_info *node) {
    const hn_arg *copy = arg_named(node, "copy");
    if (copy && copy->kind == HN_ARG_BOOL && copy->as.b) return HN_ALIAS_NONE;
    if (operand_info(g, node)->dtype != result_info(g, node)->dtype) return HN_ALIAS_NONE;
    return alias_contiguous(g, node);
}

/* aten.dropout and its kin: in evaluation they return their operand. */
static hn_alias alias_dropout(const hn_graph *g, const hn_node_info *node) {
    const hn_arg *train = arg_named(node, "train");
    (void)g;
    return train && train->kind == HN_ARG_BOOL && !train->as.b ? HN_ALIAS_SAME : HN_ALIAS_NONE;
}

/* Known sizes and strides of a tensor; false when some are symbolic. */
static bool known_layout(const hn_graph *g, const hn_value_info *info, int64_t *sizes,
                         int64_t *strides) {
    hn_expr exprs[HN_MAX_RANK];
    hn_value_strides(g->sym, info, exprs);
    for (uint32_t k = 0; k < info->rank; k++)
        if (!hn_sym_is_int(g->sym, info->sizes[k], &sizes[k]) ||
            !hn_sym_is_int(g->sym, exprs[k], &strides[k]))
            return false;
    return true;
}

/* Whether the strides can be kept under the new sizes: every run of dimensions that is dense in
 * memory must be made up of whole new dimensions. */
static bool reshape_keeps(uint32_t rank, const int64_t *sizes, const int64_t *strides,
                          uint32_t new_rank, const int64_t *new_sizes) {
    int64_t run = 1, taken = 1, step = rank ? strides[rank - 1] : 1;
    uint32_t next = new_rank;
    for (uint32_t k = 0; k < rank; k++)
        if (sizes[k] == 0) return true;
    for (uint32_t k = rank; k-- > 0;) {
        run *= sizes[k];
        if (k > 0 && (sizes[k - 1] == 1 || strides[k - 1] == run * step)) continue;
        while (next > 0 && (taken < run || new_sizes[next - 1] == 1)) taken *= new_sizes[--next];
        if (taken != run) return false;
        if (k > 0) step = strides[k - 1];
        run = taken = 1;
    }
    return next == 0 || rank == 0;
}

/* aten.reshape, flatten, ravel: a view when the strides allow one, else a copy. */
static hn_alias alias_reshape(const hn_graph *g, const hn_node_info *node) {
    const hn_value_info *from = operand_info(g, node), *to = result_info(g, node);
    int64_t sizes[HN_MAX_RANK], strides[HN_MAX_RANK], new_sizes[HN_MAX_RANK],
        new_strides[HN_MAX_RANK];
    if (!from->strides || same_sizes(g, from, to)) return HN_ALIAS_VIEW;
    if (!known_layout(g, from, sizes, strides) || !known_layout(g, to, new_sizes, new_strides))
        return HN_ALIAS_UNCLEAR;
    return reshape_keeps(from->rank, sizes, strides, to->rank, new_sizes) ? HN_ALIAS_VIEW
                                                                          : HN_ALIAS_NONE;
}

/* --- views of all elements: the inverse view of the new content --- */

static hn_value scatter_reshape(const hn_view_write *w) {
    if (same_sizes(w->g, &w->base_info, &w->view_info)) return w->source;
    const hn_arg args[] = {hn_arg_value(w->source),
                           hn_arg_exprs(w->base_info.sizes, w->base_info.rank)};
    return hn_emit_like(w->g, HN_ATEN_reshape_default, args, 2, w->base_info);
}

static hn_value scatter_same_size(const hn_view_write *w) {
    if (same_sizes(w->g, &w->base_info, &w->view_info)) return w->source;
    return cannot(w, "several of its elements share memory");
}

/* `dims[k]` is the base's dimension that the view's dimension k is. */
static hn_value permute_back(const hn_view_write *w, const int64_t *dims) {
    hn_expr back[HN_MAX_RANK];
    for (uint32_t k = 0; k < w->base_info.rank; k++) back[k] = 0;
    for (uint32_t k = 0; k < w->base_info.rank; k++) {
        if (dims[k] < 0 || dims[k] >= (int64_t)w->base_info.rank || back[dims[k]])
            return cannot(w, "its dimensions are no permutation");
        back[dims[k]] = hn_sym_int(w->g->sym, k);
    }
    const hn_arg args[] = {hn_arg_value(w->source), hn_arg_exprs(back, w->base_info.rank)};
    return hn_emit_like(w->g, HN_ATEN_permute_default, args, 2, w->base_info);
}

static hn_value scatter_permute(const hn_view_write *w) {
    const hn_arg *list = &w->view->args[1];
    int64_t dims[HN_MAX_RANK];
    if (list->kind != HN_ARG_INTS || list->count != w->base_info.rank)
        return cannot(w, "its dimensions are no permutation");
    for (uint32_t k = 0; k < list->count; k++) {
        if (!hn_sym_is_int(w->g->sym, list->as.exprs[k], &dims[k]))
            return cannot(w, "its dimensions are symbolic");
        dims[k] = wrap(dims[k], w->base_info.rank);
    }
    return permute_back(w, dims);
}

/* A transposition is its own inverse. */
static hn_value transpose_back(const hn_view_write *w, int64_t a, int64_t b) {
    int64_t dims[HN_MAX_RANK], rank = w->base_info.rank;
    if (rank == 0 || a == b) return w->source;
    if (a < 0 || b < 0 || a >= rank || b >= rank) return cannot(w, "a dimension is out of range");
    for (int64_t k = 0; k < rank; k++) dims[k] = k == a ? b : k == b ? a : k;
    return permute_back(w, dims);
}

static hn_value scatter_transpose(const hn_view_write *w) {
    int64_t a = 0, b = 0;
    if (!constant(w->g, &w->view->args[1], &a) || !constant(w->g, &w->view->args[2], &b))
        return cannot(w, "its dimensions are symbolic");
    return transpose_back(w, wrap(a, w->base_info.rank), wrap(b, w->base_info.rank));
}

/* aten.t and mT: the last two dimensions; t leaves rank 0 and 1 alone. */
static hn_value scatter_t(const hn_view_write *w) {
    uint32_t rank = w->base_info.rank;
    return rank < 2 ? w->source : transpose_back(w, rank - 1, rank - 2);
}

static hn_value scatter_reverse(const hn_view_write *w) {
    int64_t dims[HN_MAX_RANK];
    for (uint32_t k = 0; k < w->base_info.rank; k++) dims[k] = w->base_info.rank - 1 - k;
    return permute_back(w, dims);
}

static bool dims_read(const hn_view_write *w, const hn_arg *arg, int64_t out[HN_MAX_RANK],
                      uint32_t *out_count) {
    hn_expr one = arg->kind == HN_ARG_INT ? arg->as.expr : 0;
    const hn_expr *list = one ? &one : arg->as.exprs;
    *out_count = one ? 1 : arg->count;
    if ((!one && arg->kind != HN_ARG_INTS) || *out_count > HN_MAX_RANK) return false;
    for (uint32_t k = 0; k < *out_count; k++) {
        if (!hn_sym_is_int(w->g->sym, list[k], &out[k])) return false;
        out[k] = wrap(out[k], w->base_info.rank);
        if (out[k] < 0 || out[k] >= (int64_t)w->base_info.rank) return false;
    }
    return true;
}

/* aten.movedim: sources go to destinations, the other dimensions fill the gaps in order. */
static hn_value scatter_movedim(const hn_view_write *w) {
    int64_t from[HN_MAX_RANK], to[HN_MAX_RANK], dims[HN_MAX_RANK];
    uint32_t count = 0, to_count = 0, rank = w->base_info.rank;
    bool moved[HN_MAX_RANK] = {false};
    if (!dims_read(w, &w->view->args[1], from, &count) ||
        !dims_read(w, &w->view->args[2], to, &to_count) || count != to_count)
        return cannot(w, "its dimensions are not known");
    for (uint32_t k = 0; k < rank; k++) dims[k] = -1;
    for (uint32_t k = 0; k < count; k++) {
        dims[to[k]] = from[k];
        moved[from[k]] = true;
    }
    for (uint32_t k = 0, next = 0; k < rank; k++) {
        if (dims[k] >= 0) continue;
        while (next < rank && moved[next]) next++;
        if (next < rank) dims[k] = next++;
    }
    return permute_back(w, dims);
}

/* --- views of some elements: scattered into the base --- */

/* `op`(base, source, arguments of the view behind its operand...) */
static hn_value scatter_by(const hn_view_write *w, hn_op op) {
    hn_arg args[8] = {hn_arg_value(w->base), hn_arg_value(w->source)};
    uint32_t count = w->view->arg_count + 1;
    if (count > HN_COUNT_OF(args)) return cannot(w, "it has too many arguments");
    for (uint32_t k = 2; k < count; k++) args[k] = w->view->args[k - 1];
    return hn_emit_like(w->g, op, args, count, w->base_info);
}

static hn_value scatter_select(const hn_view_write *w) {
    return scatter_by(w, HN_ATEN_select_scatter_default);
}
static hn_value scatter_slice(const hn_view_write *w) {
    return scatter_by(w, HN_ATEN_slice_scatter_default);
}
static hn_value scatter_diagonal(const hn_view_write *w) {
    return scatter_by(w, HN_ATEN_diagonal_scatter_default);
}
static hn_value scatter_as_strided(const hn_view_write *w) {
    return scatter_by(w, HN_ATEN_as_strided_scatter_default);
}

/* source into base[.., start : start + size, ..] of dimension `dim` */
static hn_value slice_in(const hn_view_write *w, int64_t dim, hn_expr start, hn_expr size) {
    hn_sym *sym = w->g->sym;
    const hn_arg args[] = {hn_arg_value(w->base),
                           hn_arg_value(w->source),
                           hn_arg_expr(hn_sym_int(sym, dim)),
                           hn_arg_expr(start),
                           hn_arg_expr(hn_sym_add(sym, start, size)),
                           hn_arg_expr(hn_sym_int(sym, 1))};
    return hn_emit_like(w->g, HN_ATEN_slice_scatter_default, args, 6, w->base_info);
}

/* aten.narrow(self, dim, start, length) */
static hn_value scatter_narrow(const hn_view_write *w) {
    int64_t dim = 0, start = 0;
    if (!constant(w->g, &w->view->args[1], &dim)) return cannot(w, "its dimension is symbolic");
    dim = wrap(dim, w->base_info.rank);
    if (dim < 0 || dim >= (int64_t)w->base_info.rank || w->view->args[2].kind != HN_ARG_INT)
        return cannot(w, "a dimension is out of range");
    hn_expr begin = w->view->args[2].as.expr;
    if (constant(w->g, &w->view->args[2], &start) && start < 0)
        begin = hn_sym_add(w->g->sym, w->base_info.sizes[dim], begin);
    return slice_in(w, dim, begin, w->view_info.sizes[dim]);
}

/* The dimension of a split and where its piece `result_idx` begins. */
static bool piece_find(const hn_graph *g, const hn_node_info *view, uint32_t result_idx,
                       uint32_t rank, int64_t *out_dim, hn_expr *out_start) {
    const hn_arg *dim = arg_named(view, "dim");
    if (!dim || !constant(g, dim, out_dim)) return false;
    *out_dim = wrap(*out_dim, rank);
    if (*out_dim < 0 || *out_dim >= (int64_t)rank) return false;
    *out_start = hn_sym_int(g->sym, 0);
    for (uint32_t k = 0; k < result_idx; k++) {
        if (!view->results[k]) return false;
        *out_start =
            hn_sym_add(g->sym, *out_start, hn_graph_value(g, view->results[k])->sizes[*out_dim]);
    }
    return true;
}

static hn_value scatter_split(const hn_view_write *w) {
    int64_t dim = 0;
    hn_expr start = 0;
    if (!piece_find(w->g, w->view, w->result_idx, w->base_info.rank, &dim, &start))
        return cannot(w, "its pieces are not known");
    return slice_in(w, dim, start, w->view_info.sizes[dim]);
}

static hn_value scatter_unbind(const hn_view_write *w) {
    const hn_arg *dim = arg_named(w->view, "dim");
    const hn_arg args[] = {hn_arg_value(w->base), hn_arg_value(w->source), *dim,
                           hn_arg_expr(hn_sym_int(w->g->sym, w->result_idx))};
    return hn_emit_like(w->g, HN_ATEN_select_scatter_default, args, 4, w->base_info);
}

/* --- the table --- */

static const hn_view_rule rules[] = {
    {HN_ATEN_alias_default, alias_same, scatter_reshape},
    {HN_ATEN_detach_default, alias_same, scatter_reshape},
    {HN_ATEN_lift_default, alias_same, scatter_reshape},
    {HN_ATEN_lift_fresh_default, alias_same, scatter_reshape},
    {HN_ATEN_positive_default, alias_same, scatter_reshape},
    {HN_ATEN_real_default, alias_same, scatter_reshape},
    {HN_ATEN_dropout_default, alias_dropout, scatter_reshape},
    {HN_ATEN_feature_dropout_default, alias_dropout, scatter_reshape},
    {HN_ATEN_alpha_dropout_default, alias_dropout, scatter_reshape},
    {HN_ATEN_contiguous_default, alias_contiguous, scatter_reshape},
    {HN_ATEN_to_device, alias_to, scatter_reshape},
    {HN_ATEN_to_dtype, alias_to, scatter_reshape},
    {HN_ATEN_to_dtype_layout, alias_to, scatter_reshape},
    {HN_ATEN_to_other, alias_to, scatter_reshape},
    {HN_ATEN_to_prim_Device, alias_to, scatter_reshape},
    {HN_ATEN_type_as_default, alias_to, scatter_reshape},
    {HN_ATEN_view_default, NULL, scatter_reshape},
    {HN_ATEN_view_as_default, NULL, scatter_reshape},
    {HN_ATEN__unsafe_view_default, NULL, scatter_reshape},
    {HN_ATEN__reshape_alias_default, NULL, scatter_reshape},
    {HN_ATEN_reshape_default, alias_reshape, scatter_reshape},
    {HN_ATEN_reshape_as_default, alias_reshape, scatter_reshape},
    {HN_ATEN_flatten_using_ints, alias_reshape, scatter_reshape},
    {HN_ATEN_ravel_default, alias_reshape, scatter_reshape},
    {HN_ATEN_unflatten_int, NULL, scatter_reshape},
    {HN_ATEN_squeeze_default, NULL, scatter_reshape},
    {HN_ATEN_squeeze_dim, NULL, scatter_reshape},
    {HN_ATEN_squeeze_dims, NULL, scatter_reshape},
    {HN_ATEN_unsqueeze_default, NULL, scatter_reshape},
    {HN_ATEN_expand_default, NULL, scatter_same_size},
    {HN_ATEN_expand_as_default, NULL, scatter_same_size},
    {HN_ATEN_broadcast_to_default, NULL, scatter_same_size},
    {HN_ATEN_permute_default, NULL, scatter_permute},
    {HN_ATEN_transpose_int, NULL, scatter_transpose},
    {HN_ATEN_swapaxes_default, NULL, scatter_transpose},
    {HN_ATEN_swapdims_default, NULL, scatter_transpose},
    {HN_ATEN_t_default, NULL, scatter_t},
    {HN_ATEN_mT_default, NULL, scatter_t},
    {HN_ATEN_mH_default, NULL, scatter_t},
    {HN_ATEN_adjoint_default, NULL, scatter_t},
    {HN_ATEN_matrix_H_default, NULL, scatter_t},
    {HN_ATEN_numpy_T_default, NULL, scatter_reverse},
    {HN_ATEN_movedim_int, NULL, scatter_movedim},
    {HN_ATEN_movedim_intlist, NULL, scatter_movedim},
    {HN_ATEN_moveaxis_int, NULL, scatter_movedim},
    {HN_ATEN_moveaxis_intlist, NULL, scatter_movedim},
    {HN_ATEN_select_int, NULL, scatter_select},
    {HN_ATEN_slice_Tensor, NULL, scatter_slice},
    {HN_ATEN_narrow_default, NULL, scatter_narrow},
    {HN_ATEN_diagonal_default, NULL, scatter_diagonal},
    {HN_ATEN_as_strided_default, NULL, scatter_as_strided},
    {HN_ATEN_split_Tensor, NULL, scatter_split},
    {HN_ATEN_split_sizes, NULL, scatter_split},
    {HN_ATEN_split_with_sizes_default, NULL, scatter_split},
    {HN_ATEN_tensor_split_sections, NULL, scatter_split},
    {HN_ATEN_chunk_default, NULL, scatter_split},
    {HN_ATEN_unsafe_split_Tensor, NULL, scatter_split},
    {HN_ATEN_unsafe_chunk_default, NULL, scatter_split},
    {HN_ATEN_unbind_int, NULL, scatter_unbind},
};

uint32_t hn_view_operand(hn_op op) {
    uint32_t count = 0;
    const hn_param *params = hn_op_params(op, &count);
    for (uint32_t k = 0; k < count; k++)
        if (params[k].alias && !params[k].mutated) return k;
    return 0;
}

/* A view op that the table lacks is one that cannot be written through (unfold). */
const hn_view_rule *hn_view_rule_find(hn_op op) {
    static const hn_view_rule other = {HN_OP_NONE, NULL, NULL};
    uint32_t count = 0;
    if (!hn_op_is_aten(op)) return NULL;
    for (size_t k = 0; k < HN_COUNT_OF(rules); k++)
        if (rules[k].op == op) return &rules[k];
    const hn_param *params = hn_op_params(op, &count);
    return count && params[hn_view_operand(op)].alias && !params[hn_view_operand(op)].mutated
               ? &other
               : NULL;
}

/* --- views again --- */

static hn_value piece_again(hn_graph *g, const hn_node_info *view, uint32_t result_idx,
                            hn_value base, const hn_value_info *like) {
    int64_t dim = 0;
    hn_expr start = 0;
    if (view->op == HN_ATEN_unbind_int) {
        const hn_arg args[] = {hn_arg_value(base), *arg_named(view, "dim"),
                               hn_arg_expr(hn_sym_int(g->sym, result_idx))};
        return hn_emit_like(g, HN_ATEN_select_int, args, 3, *like);
    }
    if (!piece_find(g, view, result_idx, hn_graph_value(g, base)->rank, &dim, &start)) {
        hn_graph_fail(g, HN_ERROR(HN_UNSUPPORTED,
                                  "cannot repeat '%s' after a write: its pieces are not known",
                                  hn_op_facts(view->op)->name));
        return 0;
    }
    const hn_arg args[] = {hn_arg_value(base), hn_arg_expr(hn_sym_int(g->sym, dim)),
                           hn_arg_expr(start),
                           hn_arg_expr(hn_sym_add(g->sym, start, like->sizes[dim])),
                           hn_arg_expr(hn_sym_int(g->sym, 1))};
    return hn_emit_like(g, HN_ATEN_slice_Tensor, args, 5, *like);
}

hn_value hn_view_regenerate(hn_graph *g, const hn_node_info *view, uint32_t result_idx,
                            hn_value base) {
    hn_arg args[16];
    hn_value_info like = *hn_graph_value(g, view->results[result_idx]);
    if (hn_op_result_count(view->op) < 0) return piece_again(g, view, result_idx, base, &like);
    if (view->arg_count > HN_COUNT_OF(args)) {
        hn_graph_fail(g, HN_ERROR(HN_INTERNAL, "view '%s' has too many arguments",
                                  hn_op_facts(view->op)->name));
        return 0;
    }
    for (uint32_t k = 0; k < view->arg_count; k++) args[k] = view->args[k];
    args[hn_view_operand(view->op)] = hn_arg_value(base);
    return hn_emit_like(g, view->op, args, view->arg_count, like);
}
