/* infer.c: dtype and sizes of the results of every primitive but COND, ITEM and ASSERT. One rule an
 * op or class, in a table; views, data movement and contractions have files of their own. */
#include "ir/infer.h"

#include <string.h>

/* --- helpers of the rules --- */

static const char *op_name(const hn_infer_state *in) { return hn_op_facts(in->op)->name; }

void hn_infer_set(hn_meta *out, hn_dtype dtype, uint32_t rank, const hn_expr *sizes) {
    out->dtype = dtype;
    out->rank = rank;
    if (rank) memmove(out->sizes, sizes, rank * sizeof *sizes);
}

static hn_str param_name(const hn_infer_state *in, uint32_t arg) {
    uint32_t count;
    const hn_param *params = hn_op_params(in->op, &count);
    return arg < count ? params[arg].name : HN_STR("?");
}

hn_status hn_infer_const(const hn_infer_state *in, uint32_t arg, int64_t *out) {
    if (hn_sym_is_int(in->g->sym, in->args[arg].as.expr, out)) return NULL;
    return HN_ERROR(HN_INTERNAL, "argument '" HN_STR_FMT "' of '%s' is no constant",
                    HN_STR_ARG(param_name(in, arg)), op_name(in));
}

hn_status hn_infer_dim(const hn_infer_state *in, uint32_t arg, uint32_t rank, uint32_t *out) {
    int64_t dim;
    HN_TRY(hn_infer_const(in, arg, &dim));
    if (dim < 0 || dim >= rank)
        return HN_ERROR(HN_INTERNAL, "dimension %lld of '%s' is out of range for rank %u",
                        (long long)dim, op_name(in), rank);
    *out = (uint32_t)dim;
    return NULL;
}

hn_status hn_infer_word(const hn_infer_state *in, uint32_t arg, const char *const *words) {
    for (; *words; words++)
        if (hn_str_eq(in->args[arg].as.s, hn_str_of(*words))) return NULL;
    return HN_ERROR(HN_INTERNAL, "'" HN_STR_FMT "' is no '" HN_STR_FMT "' of '%s'",
                    HN_STR_ARG(in->args[arg].as.s), HN_STR_ARG(param_name(in, arg)), op_name(in));
}

hn_status hn_infer_same_dtype(const hn_infer_state *in, hn_dtype a, hn_dtype b) {
    if (a == b) return NULL;
    return HN_ERROR(HN_INTERNAL, "operands of '%s' have dtypes %s and %s; cast one of them",
                    op_name(in), hn_dtype_facts(a)->name, hn_dtype_facts(b)->name);
}

hn_status hn_infer_defined(const hn_infer_state *in, hn_dtype dtype) {
    if (hn_op_takes(in->op, dtype)) return NULL;
    const char *hint = hn_op_facts(in->op)->op_class == HN_OPC_CREATE ? "" : "; cast the operand";
    return HN_ERROR(HN_INTERNAL, "'%s' is not defined on %s%s", op_name(in),
                    hn_dtype_facts(dtype)->name, hint);
}

hn_status hn_infer_int_dtype(const hn_infer_state *in, hn_dtype dtype, const char *what) {
    if (hn_dtype_is_int(dtype)) return NULL;
    return HN_ERROR(HN_INTERNAL, "the %s of '%s' has dtype %s instead of an integer one", what,
                    op_name(in), hn_dtype_facts(dtype)->name);
}

hn_status hn_infer_relation(const hn_infer_state *in, hn_relation relation, hn_expr a, hn_expr b,
                            const char *what) {
    return hn_status_annotate(hn_size_require(in->g, relation, a, b, what), "'%s'", op_name(in));
}

hn_status hn_infer_at_least(const hn_infer_state *in, hn_expr e, int64_t least, const char *what) {
    return hn_infer_relation(in, HN_REL_LE, hn_sym_int(in->g->sym, least), e, what);
}

hn_status hn_infer_sizes(const hn_infer_state *in, uint32_t arg, hn_meta *out) {
    const hn_arg *list = &in->args[arg];
    if (list->count > HN_MAX_RANK)
        return HN_ERROR(HN_UNSUPPORTED, "rank %u of '%s' exceeds the limit of %d", list->count,
                        op_name(in), HN_MAX_RANK);
    for (uint32_t i = 0; i < list->count; i++)
        HN_TRY(hn_infer_at_least(in, list->as.exprs[i], 0, "sizes are not negative"));
    out->rank = list->count;
    if (list->count) memcpy(out->sizes, list->as.exprs, list->count * sizeof *out->sizes);
    return NULL;
}

/* --- element-wise --- */

static hn_status broadcast_dim(hn_graph *g, hn_expr a, hn_expr b, hn_expr *out) {
    *out = a;
    if (a == b || hn_sym_is_value(g->sym, b, 1)) return NULL;
    if (hn_sym_is_value(g->sym, a, 1)) {
        *out = b;
        return NULL;
    }
    if (hn_sym_is_int(g->sym, b, NULL)) *out = b; /* a literal makes the better kernel */
    if (hn_sizes_agree(g, a, b)) return NULL;
    return hn_size_require(g, HN_REL_EQ, a, b, "sizes that meet in a broadcast are equal");
}

/* `decides`: sizes may turn out to be 1. Not for operands of a node: there only a literal 1 is read
 * as one. */
static hn_status broadcast(hn_graph *g, bool decides, const hn_expr *a, uint32_t a_rank,
                           const hn_expr *b, uint32_t b_rank, hn_expr *out, uint32_t *out_rank) {
    hn_expr sizes[HN_MAX_RANK];
    uint32_t rank = a_rank > b_rank ? a_rank : b_rank;
    if (rank > HN_MAX_RANK)
        return HN_ERROR(HN_UNSUPPORTED, "rank %u exceeds the limit of %d", rank, HN_MAX_RANK);
    hn_expr one = hn_sym_int(g->sym, 1);
    for (uint32_t i = 0; i < rank; i++) {
        hn_expr x = i < a_rank ? a[a_rank - 1 - i] : one, y = i < b_rank ? b[b_rank - 1 - i] : one;
        if (decides && hn_size_stretches(g, x, y)) x = one;
        if (decides && hn_size_stretches(g, y, x)) y = one;
        HN_TRY(broadcast_dim(g, x, y, &sizes[rank - 1 - i]));
    }
    if (rank) memcpy(out, sizes, rank * sizeof *out);
    *out_rank = rank;
    return NULL;
}

hn_status hn_broadcast(hn_graph *g, const hn_expr *a, uint32_t a_rank, const hn_expr *b,
                       uint32_t b_rank, hn_expr *out, uint32_t *out_rank) {
    return broadcast(g, true, a, a_rank, b, b_rank, out, out_rank);
}

static hn_status broadcast_into(hn_infer_state *in, uint32_t arg) {
    const hn_value_info *x = hn_infer_arg(in, arg);
    return broadcast(in->g, false, in->out->sizes, in->out->rank, x->sizes, x->rank, in->out->sizes,
                     &in->out->rank);
}

static hn_status infer_unary(hn_infer_state *in) {
    const hn_value_info *x = hn_infer_arg(in, 0);
    HN_TRY(hn_infer_defined(in, x->dtype));
    bool predicate = hn_op_facts(in->op)->op_class == HN_OPC_PREDICATE;
    hn_infer_set(in->out, predicate ? HN_DTYPE_BOOL : x->dtype, x->rank, x->sizes);
    return NULL;
}

static hn_status infer_binary(hn_infer_state *in) {
    const hn_value_info *x = hn_infer_arg(in, 0);
    HN_TRY(hn_infer_same_dtype(in, x->dtype, hn_infer_arg(in, 1)->dtype));
    HN_TRY(hn_infer_defined(in, x->dtype));
    bool compare = hn_op_facts(in->op)->op_class == HN_OPC_COMPARE;
    hn_infer_set(in->out, compare ? HN_DTYPE_BOOL : x->dtype, x->rank, x->sizes);
    return broadcast_into(in, 1);
}

static hn_status infer_where(hn_infer_state *in) {
    const hn_value_info *cond = hn_infer_arg(in, 0), *x = hn_infer_arg(in, 1);
    if (cond->dtype != HN_DTYPE_BOOL)
        return HN_ERROR(HN_INTERNAL, "the condition of 'where' has dtype %s instead of bool",
                        hn_dtype_facts(cond->dtype)->name);
    HN_TRY(hn_infer_same_dtype(in, x->dtype, hn_infer_arg(in, 2)->dtype));
    HN_TRY(hn_infer_defined(in, x->dtype));
    hn_infer_set(in->out, x->dtype, cond->rank, cond->sizes);
    HN_TRY(broadcast_into(in, 1));
    return broadcast_into(in, 2);
}

static hn_status infer_cast(hn_infer_state *in) {
    const hn_value_info *x = hn_infer_arg(in, 0);
    hn_infer_set(in->out, in->args[1].as.dtype, x->rank, x->sizes);
    return NULL;
}

/* A float and an integer of one width. */
static hn_status infer_bitcast(hn_infer_state *in) {
    const hn_value_info *x = hn_infer_arg(in, 0);
    const hn_dtype_info *from = hn_dtype_facts(x->dtype),
                        *to = hn_dtype_facts(in->args[1].as.dtype);
    bool one_float = hn_dtype_is_float(x->dtype) != hn_dtype_is_float(in->args[1].as.dtype);
    if (!one_float || from->size_bytes != to->size_bytes || from->size_bytes == 1)
        return HN_ERROR(HN_INTERNAL, "'bitcast' is not defined from %s to %s", from->name,
                        to->name);
    hn_infer_set(in->out, in->args[1].as.dtype, x->rank, x->sizes);
    return NULL;
}

/* --- creation --- */

static hn_status infer_full(hn_infer_state *in) {
    in->out->dtype = in->args[2].as.dtype;
    return hn_infer_sizes(in, 1, in->out);
}

static hn_status infer_iota(hn_infer_state *in) {
    hn_dtype dtype = in->args[3].as.dtype;
    HN_TRY(hn_infer_defined(in, dtype));
    HN_TRY(hn_infer_at_least(in, in->args[2].as.expr, 0, "sizes are not negative"));
    hn_infer_set(in->out, dtype, 1, &in->args[2].as.expr);
    return NULL;
}

static hn_status infer_random(hn_infer_state *in) {
    static const char *const kinds[] = {"uniform", "normal", "bits", NULL};
    hn_dtype dtype = in->args[2].as.dtype;
    const hn_value_info *seed = hn_infer_arg(in, 3);
    HN_TRY(hn_infer_word(in, 0, kinds));
    bool bits = hn_str_eq(in->args[0].as.s, HN_STR("bits"));
    if (bits ? !hn_dtype_is_int(dtype) : !hn_dtype_is_float(dtype))
        return HN_ERROR(HN_INTERNAL, "'random' of kind '" HN_STR_FMT "' is not defined on %s",
                        HN_STR_ARG(in->args[0].as.s), hn_dtype_facts(dtype)->name);
    if (seed->dtype != HN_DTYPE_I64 || seed->rank != 0)
        return HN_ERROR(HN_INTERNAL, "the seed of 'random' is not an i64 tensor of rank 0");
    in->out->dtype = dtype;
    return hn_infer_sizes(in, 1, in->out);
}

/* --- reductions, scans, sorts --- */

/* The mask of reduced dimensions: ascending, in range. */
static hn_status reduced_dims(const hn_infer_state *in, uint32_t rank, bool reduced[HN_MAX_RANK]) {
    const hn_arg *dims = &in->args[1];
    int64_t last = -1;
    for (uint32_t i = 0; i < dims->count; i++) {
        int64_t dim;
        if (!hn_sym_is_int(in->g->sym, dims->as.exprs[i], &dim) || dim <= last || dim >= rank)
            return HN_ERROR(HN_INTERNAL,
                            "the dims of '%s' are not ascending numbers below the rank %u",
                            op_name(in), rank);
        reduced[dim] = true;
        last = dim;
    }
    return NULL;
}

static hn_status infer_reduce(hn_infer_state *in) {
    const hn_value_info *x = hn_infer_arg(in, 0);
    bool reduced[HN_MAX_RANK] = {false}, none_reduced = false, none_kept = false;
    HN_TRY(hn_infer_defined(in, x->dtype));
    in->out->dtype = hn_op_has(in->op, HN_TRAIT_POSITION) ? HN_DTYPE_I64 : x->dtype;
    HN_TRY(reduced_dims(in, x->rank, reduced));
    hn_expr one = hn_sym_int(in->g->sym, 1);
    for (uint32_t i = 0; i < x->rank; i++) {
        bool empty = hn_sym_is_value(in->g->sym, x->sizes[i], 0);
        if (reduced[i]) none_reduced |= empty;
        else none_kept |= empty;
        if (!reduced[i]) in->out->sizes[in->out->rank++] = x->sizes[i];
        else if (in->args[2].as.b) in->out->sizes[in->out->rank++] = one;
    }
    if (none_reduced && !none_kept && !hn_op_has(in->op, HN_TRAIT_IDENTITY))
        return HN_ERROR(HN_INTERNAL, "'%s' over no elements has no value", op_name(in));
    return NULL;
}

static hn_status infer_scan(hn_infer_state *in) {
    const hn_value_info *x = hn_infer_arg(in, 0);
    uint32_t dim;
    HN_TRY(hn_infer_dim(in, 1, x->rank, &dim));
    HN_TRY(hn_infer_defined(in, x->dtype));
    hn_infer_set(in->out, x->dtype, x->rank, x->sizes);
    return NULL;
}

/* CUMMAX, CUMMIN, SORT, TOPK: a second result of the same sizes holds positions. */
static void add_indices(hn_infer_state *in) {
    in->out[1] = in->out[0];
    in->out[1].dtype = HN_DTYPE_I64;
}

static hn_status infer_scan_indices(hn_infer_state *in) {
    HN_TRY(infer_scan(in));
    add_indices(in);
    return NULL;
}

static hn_status infer_topk(hn_infer_state *in) {
    const hn_value_info *x = hn_infer_arg(in, 0);
    hn_expr k = in->args[1].as.expr;
    uint32_t dim;
    HN_TRY(hn_infer_dim(in, 2, x->rank, &dim));
    HN_TRY(hn_infer_at_least(in, k, 0, "k is not negative"));
    HN_TRY(hn_infer_relation(in, HN_REL_LE, k, x->sizes[dim],
                             "k is at most the size of the dimension"));
    hn_infer_set(in->out, x->dtype, x->rank, x->sizes);
    in->out->sizes[dim] = k;
    add_indices(in);
    return NULL;
}

static hn_status infer_nms(hn_infer_state *in) {
    const hn_value_info *x = hn_infer_arg(in, 0);
    if (x->rank != 2)
        return HN_ERROR(HN_INTERNAL, "'nms' wants a matrix of boxes, not rank %u", x->rank);
    if (x->dtype != HN_DTYPE_F32 && x->dtype != HN_DTYPE_F64)
        return HN_ERROR(HN_INTERNAL, "'nms' wants boxes of f32 or f64, not %s",
                        hn_dtype_facts(x->dtype)->name);
    HN_TRY(hn_infer_relation(in, HN_REL_EQ, x->sizes[1], hn_sym_int(in->g->sym, 4),
                             "a box has four numbers"));
    hn_infer_set(in->out, HN_DTYPE_BOOL, 1, x->sizes);
    return NULL;
}

/* [count, rank]: only the builder knows the symbol, so the first size is left 0, "any". */
static hn_status infer_nonzero(hn_infer_state *in) {
    hn_expr sizes[2] = {0, hn_sym_int(in->g->sym, hn_infer_arg(in, 0)->rank)};
    hn_infer_set(in->out, HN_DTYPE_I64, 2, sizes);
    return NULL;
}

/* --- dispatch --- */

static hn_infer_rule class_rule(hn_op_class op_class) {
    switch (op_class) {
    case HN_OPC_UNARY:
    case HN_OPC_PREDICATE: return infer_unary;
    case HN_OPC_BINARY:
    case HN_OPC_COMPARE: return infer_binary;
    case HN_OPC_REDUCE: return infer_reduce;
    case HN_OPC_SCAN: return infer_scan;
    default: return NULL;
    }
}

static const hn_infer_rule op_rules[HN_OP_COUNT] = {
    [HN_OP_WHERE] = infer_where,
    [HN_OP_CAST] = infer_cast,
    [HN_OP_BITCAST] = infer_bitcast,
    [HN_OP_FULL] = infer_full,
    [HN_OP_IOTA] = infer_iota,
    [HN_OP_RANDOM] = infer_random,
    [HN_OP_RESHAPE] = hn_infer_reshape,
    [HN_OP_PERMUTE] = hn_infer_permute,
    [HN_OP_EXPAND] = hn_infer_expand,
    [HN_OP_SLICE] = hn_infer_slice,
    [HN_OP_WINDOW] = hn_infer_window,
    [HN_OP_AS_STRIDED] = hn_infer_as_strided,
    [HN_OP_PAD] = hn_infer_pad,
    [HN_OP_CAT] = hn_infer_cat,
    [HN_OP_GATHER] = hn_infer_gather,
    [HN_OP_INDEX] = hn_infer_index,
    [HN_OP_INDEX_PUT] = hn_infer_index_put,
    [HN_OP_SCATTER] = hn_infer_scatter,
    [HN_OP_CUMMAX] = infer_scan_indices,
    [HN_OP_CUMMIN] = infer_scan_indices,
    [HN_OP_SORT] = infer_scan_indices,
    [HN_OP_TOPK] = infer_topk,
    [HN_OP_NMS] = infer_nms,
    [HN_OP_MATMUL] = hn_infer_matmul,
    [HN_OP_CONV] = hn_infer_conv,
    [HN_OP_ATTENTION] = hn_infer_attention,
    [HN_OP_ATTENTION_BACKWARD] = hn_infer_attention_backward,
    [HN_OP_GROUPED_MATMUL] = hn_infer_grouped_matmul,
    [HN_OP_NONZERO] = infer_nonzero,
};

hn_status hn_infer(hn_graph *g, hn_op op, const hn_arg *args, uint32_t arg_count,
                   hn_meta out[HN_RESULTS_MAX], uint32_t *out_count) {
    *out_count = 0;
    out[0].rank = 0;
    out[0].dtype = HN_DTYPE_NONE;
    hn_infer_rule rule = (uint32_t)op < HN_OP_COUNT && op_rules[op]
                             ? op_rules[op]
                             : class_rule(hn_op_facts(op)->op_class);
    if (!rule)
        return HN_ERROR(HN_INTERNAL, "'%s' has no rule for its results", hn_op_facts(op)->name);
    HN_TRY(hn_args_check(g, op, args, arg_count));
    HN_TRY(rule(&(hn_infer_state){.g = g, .op = op, .args = args, .out = out}));
    *out_count = (uint32_t)hn_op_facts(op)->result_count;
    for (uint32_t i = 0; i < out[0].rank; i++) {
        if (out[0].sizes[i] || (op == HN_OP_NONZERO && i == 0)) continue;
        HN_TRY(hn_sym_status(g->sym));
        return HN_ERROR(HN_INTERNAL, "size %u of the result of '%s' is invalid", i,
                        hn_op_facts(op)->name);
    }
    return NULL;
}

/* --- questions about sizes and rows --- */

bool hn_same_sizes(hn_graph *g, const hn_expr *a, const hn_expr *b, uint32_t rank) {
    for (uint32_t i = 0; i < rank; i++)
        if (!hn_sizes_agree(g, a[i], b[i]) ||
            hn_sym_is_value(g->sym, a[i], 1) != hn_sym_is_value(g->sym, b[i], 1))
            return false;
    return true;
}

hn_expr hn_numel(hn_graph *g, hn_value v) {
    const hn_value_info *info = hn_graph_value(g, v);
    return hn_sym_product(g->sym, info->sizes, info->rank);
}

int hn_op_param_index(hn_op op, const char *name) {
    uint32_t count;
    const hn_param *params = hn_op_params(op, &count);
    for (uint32_t i = 0; i < count; i++)
        if (hn_str_eq(params[i].name, hn_str_of(name))) return (int)i;
    return -1;
}
