/* build.c: the typed builders: infer, make the result values, append the node. Each is the row of
 * ops.def as a C function; what a builder does beyond that (returning an operand unchanged, adding
 * dimensions) stands in build.h. */
#include "ir/build.h"

#include "ir/check.h"

/* --- the one way to a node --- */

static hn_status emit_checked(hn_graph *g, hn_op op, const hn_arg *args, uint32_t arg_count,
                              const hn_meta *metas, uint32_t count, hn_value results[2]) {
    for (uint32_t k = 0; k < count; k++) {
        results[k] =
            hn_graph_add_tensor(g, metas[k].dtype, metas[k].rank, metas[k].sizes, NULL, HN_STR(""));
        HN_TRY(hn_graph_status(g));
    }
    hn_graph_add_node(g, op, args, arg_count, results, count);
    return hn_graph_status(g);
}

/* Appends the node and gives its first result; all go to `out`. */
static hn_value emit_all(hn_graph *g, hn_op op, const hn_arg *args, uint32_t arg_count,
                         hn_value out[HN_RESULTS_MAX]) {
    hn_meta metas[HN_RESULTS_MAX];
    uint32_t count = 0;
    memset(out, 0, HN_RESULTS_MAX * sizeof *out);
    if (g->failed) return 0;
    hn_status status = hn_infer(g, op, args, arg_count, metas, &count);
    if (!status) status = emit_checked(g, op, args, arg_count, metas, count, out);
    if (status) {
        hn_graph_fail(g, status);
        return 0;
    }
    return out[0];
}

/* The second result goes to *out_second (may be NULL). */
static hn_value emit(hn_graph *g, hn_op op, const hn_arg *args, uint32_t arg_count,
                     hn_value *out_second) {
    hn_value results[HN_RESULTS_MAX];
    const hn_value first = emit_all(g, op, args, arg_count, results);
    if (out_second && first) *out_second = results[1];
    return first;
}

static hn_value fail(hn_graph *g, hn_status status) {
    hn_graph_fail(g, status);
    return 0;
}

/* A builder does nothing when something failed before or an operand is missing. */
static bool idle(const hn_graph *g, hn_value v) { return g->failed || !v; }

static hn_expr int_expr(hn_graph *g, int64_t value) { return hn_sym_int(g->sym, value); }
static hn_arg int_arg(hn_graph *g, int64_t value) { return hn_arg_expr(int_expr(g, value)); }

static bool in_rank(hn_graph *g, hn_value x, uint32_t dim, uint32_t extra, const char *what) {
    uint32_t rank = hn_graph_value(g, x)->rank + extra;
    if (dim < rank) return true;
    hn_graph_fail(g, HN_ERROR(HN_INTERNAL, "dimension %u of '%s' is out of range for rank %u", dim,
                              what, rank));
    return false;
}

/* --- element-wise --- */

hn_value hn_b_unary(hn_graph *g, hn_op op, hn_value x) {
    if (idle(g, x)) return 0;
    return emit(g, op, &(hn_arg){.kind = HN_ARG_VALUE, .as.value = x}, 1, NULL);
}

/* Nodes broadcast literal ones only: sizes of x that turn out to be 1 where they meet these become
 * such. */
static hn_value stretch_ready(hn_graph *g, hn_value x, const hn_expr *sizes, uint32_t rank) {
    uint32_t own = hn_graph_value(g, x)->rank;
    for (uint32_t i = 0; x && i < own && i < rank; i++)
        if (hn_size_stretches(g, hn_graph_value(g, x)->sizes[own - 1 - i], sizes[rank - 1 - i]))
            x = hn_b_slice(g, x, own - 1 - i, int_expr(g, 0), int_expr(g, 1), 1);
    return x;
}

static void stretch_operands(hn_graph *g, hn_value *operands, uint32_t count) {
    for (uint32_t k = 0; k < count; k++)
        for (uint32_t j = 0; j < count && operands[j] && operands[k]; j++) {
            const hn_value_info *other = hn_graph_value(g, operands[j]);
            hn_expr sizes[HN_MAX_RANK];
            for (uint32_t i = 0; i < other->rank; i++) sizes[i] = other->sizes[i];
            if (j != k) operands[k] = stretch_ready(g, operands[k], sizes, other->rank);
        }
}

hn_value hn_b_binary(hn_graph *g, hn_op op, hn_value x, hn_value y) {
    if (idle(g, x) || !y) return 0;
    hn_value operands[2] = {x, y};
    stretch_operands(g, operands, 2);
    if (idle(g, x = operands[0]) || !(y = operands[1])) return 0;
    return emit(g, op, (hn_arg[]){hn_arg_value(x), hn_arg_value(y)}, 2, NULL);
}

hn_value hn_b_where(hn_graph *g, hn_value cond, hn_value x, hn_value y) {
    if (idle(g, cond) || !x || !y) return 0;
    hn_value operands[3] = {cond, x, y};
    stretch_operands(g, operands, 3);
    cond = operands[0], x = operands[1], y = operands[2];
    if (idle(g, cond) || !x || !y) return 0;
    return emit(g, HN_OP_WHERE, (hn_arg[]){hn_arg_value(cond), hn_arg_value(x), hn_arg_value(y)}, 3,
                NULL);
}

hn_value hn_b_cast(hn_graph *g, hn_value x, hn_dtype dtype) {
    if (idle(g, x)) return 0;
    if (hn_graph_value(g, x)->dtype == dtype) return x;
    return emit(g, HN_OP_CAST, (hn_arg[]){hn_arg_value(x), hn_arg_dtype(dtype)}, 2, NULL);
}

hn_value hn_b_bitcast(hn_graph *g, hn_value x, hn_dtype dtype) {
    if (idle(g, x)) return 0;
    return emit(g, HN_OP_BITCAST, (hn_arg[]){hn_arg_value(x), hn_arg_dtype(dtype)}, 2, NULL);
}

/* --- creation --- */

/* One spelling for each number, so that equal constants are equal nodes: FLOAT for float dtypes,
 * INT otherwise, where the value allows. */
static hn_arg scalar_arg(hn_graph *g, hn_scalar s, hn_dtype dtype) {
    int64_t i;
    bool wants_float = hn_dtype_is_float(dtype);
    if (!s.is_float && wants_float && hn_sym_is_int(g->sym, s.i, &i) && i >= -(1ll << 53) &&
        i <= 1ll << 53)
        return hn_arg_float((double)i);
    if (s.is_float && !wants_float && s.f >= -0x1p62 && s.f <= 0x1p62 &&
        (double)(int64_t)s.f == s.f)
        return int_arg(g, (int64_t)s.f);
    return s.is_float ? hn_arg_float(s.f) : hn_arg_expr(s.i);
}

hn_value hn_b_full(hn_graph *g, hn_scalar value, const hn_expr *sizes, uint32_t rank,
                   hn_dtype dtype) {
    if (g->failed) return 0;
    hn_arg args[] = {scalar_arg(g, value, dtype), hn_arg_exprs(sizes, rank), hn_arg_dtype(dtype)};
    return emit(g, HN_OP_FULL, args, 3, NULL);
}

hn_value hn_b_scalar(hn_graph *g, double value, hn_dtype dtype) {
    return hn_b_full(g, hn_scalar_f(value), NULL, 0, dtype);
}

hn_value hn_b_iota(hn_graph *g, hn_scalar start, hn_scalar step, hn_expr size, hn_dtype dtype) {
    if (g->failed) return 0;
    hn_arg args[] = {scalar_arg(g, start, dtype), scalar_arg(g, step, dtype), hn_arg_expr(size),
                     hn_arg_dtype(dtype)};
    return emit(g, HN_OP_IOTA, args, 4, NULL);
}

hn_value hn_b_random(hn_graph *g, const char *kind, const hn_expr *sizes, uint32_t rank,
                     hn_dtype dtype, hn_value seed, hn_expr stream) {
    if (idle(g, seed)) return 0;
    hn_arg args[] = {hn_arg_string(hn_str_of(kind)), hn_arg_exprs(sizes, rank), hn_arg_dtype(dtype),
                     hn_arg_value(seed), hn_arg_expr(stream)};
    return emit(g, HN_OP_RANDOM, args, 5, NULL);
}

/* --- views --- */

static bool has_sizes(hn_graph *g, hn_value x, const hn_expr *sizes, uint32_t rank) {
    const hn_value_info *info = hn_graph_value(g, x);
    return info->rank == rank && (!rank || memcmp(info->sizes, sizes, rank * sizeof *sizes) == 0);
}

hn_value hn_b_reshape(hn_graph *g, hn_value x, const hn_expr *sizes, uint32_t rank) {
    if (idle(g, x)) return 0;
    if (has_sizes(g, x, sizes, rank)) return x;
    return emit(g, HN_OP_RESHAPE, (hn_arg[]){hn_arg_value(x), hn_arg_exprs(sizes, rank)}, 2, NULL);
}

hn_value hn_b_permute(hn_graph *g, hn_value x, const uint32_t *dims) {
    if (idle(g, x)) return 0;
    uint32_t rank = hn_graph_value(g, x)->rank;
    hn_expr list[HN_MAX_RANK];
    bool identity = true;
    for (uint32_t i = 0; i < rank; i++) {
        list[i] = int_expr(g, dims[i]);
        identity &= dims[i] == i;
    }
    if (identity) return x;
    return emit(g, HN_OP_PERMUTE, (hn_arg[]){hn_arg_value(x), hn_arg_exprs(list, rank)}, 2, NULL);
}

hn_value hn_b_transpose(hn_graph *g, hn_value x, uint32_t dim0, uint32_t dim1) {
    if (idle(g, x) || !in_rank(g, x, dim0, 0, "transpose") || !in_rank(g, x, dim1, 0, "transpose"))
        return 0;
    uint32_t dims[HN_MAX_RANK];
    for (uint32_t i = 0; i < HN_MAX_RANK; i++) dims[i] = i;
    dims[dim0] = dim1;
    dims[dim1] = dim0;
    return hn_b_permute(g, x, dims);
}

hn_value hn_b_expand(hn_graph *g, hn_value x, const hn_expr *sizes, uint32_t rank) {
    if (idle(g, x)) return 0;
    if (has_sizes(g, x, sizes, rank)) return x;
    const hn_value_info *info = hn_graph_value(g, x);
    if (rank > info->rank && rank <= HN_MAX_RANK) {
        hn_expr padded[HN_MAX_RANK];
        uint32_t extra = rank - info->rank;
        for (uint32_t i = 0; i < rank; i++)
            padded[i] = i < extra ? int_expr(g, 1) : info->sizes[i - extra];
        x = hn_b_reshape(g, x, padded, rank);
        if (idle(g, x)) return 0;
        if (has_sizes(g, x, sizes, rank)) return x;
    }
    x = stretch_ready(g, x, sizes, rank);
    if (idle(g, x)) return 0;
    return emit(g, HN_OP_EXPAND, (hn_arg[]){hn_arg_value(x), hn_arg_exprs(sizes, rank)}, 2, NULL);
}

hn_value hn_b_unsqueeze(hn_graph *g, hn_value x, uint32_t dim) {
    if (idle(g, x) || !in_rank(g, x, dim, 1, "unsqueeze")) return 0;
    const hn_value_info *info = hn_graph_value(g, x);
    hn_expr sizes[HN_MAX_RANK + 1];
    for (uint32_t i = 0, k = 0; i <= info->rank; i++)
        sizes[i] = i == dim ? int_expr(g, 1) : info->sizes[k++];
    return hn_b_reshape(g, x, sizes, info->rank + 1);
}

hn_value hn_b_squeeze(hn_graph *g, hn_value x, uint32_t dim) {
    if (idle(g, x) || !in_rank(g, x, dim, 0, "squeeze")) return 0;
    const hn_value_info *info = hn_graph_value(g, x);
    hn_status status =
        hn_size_require(g, HN_REL_EQ, info->sizes[dim], int_expr(g, 1), "a squeezed size is 1");
    if (status) return fail(g, status);
    hn_expr sizes[HN_MAX_RANK];
    uint32_t rank = 0;
    for (uint32_t i = 0; i < info->rank; i++)
        if (i != dim) sizes[rank++] = info->sizes[i];
    return hn_b_reshape(g, x, sizes, rank);
}

hn_value hn_b_slice(hn_graph *g, hn_value x, uint32_t dim, hn_expr start, hn_expr size,
                    int64_t step) {
    if (idle(g, x) || !in_rank(g, x, dim, 0, "slice")) return 0;
    if (step == 1 && hn_sym_is_value(g->sym, start, 0) && size == hn_graph_value(g, x)->sizes[dim])
        return x;
    hn_arg args[] = {hn_arg_value(x), int_arg(g, dim), hn_arg_expr(start), hn_arg_expr(size),
                     int_arg(g, step)};
    return emit(g, HN_OP_SLICE, args, 5, NULL);
}

hn_value hn_b_select(hn_graph *g, hn_value x, uint32_t dim, hn_expr index) {
    return hn_b_squeeze(g, hn_b_slice(g, x, dim, index, int_expr(g, 1), 1), dim);
}

hn_value hn_b_flip(hn_graph *g, hn_value x, uint32_t dim) {
    if (idle(g, x) || !in_rank(g, x, dim, 0, "flip")) return 0;
    hn_expr size = hn_graph_value(g, x)->sizes[dim];
    if (hn_sym_is_value(g->sym, size, 1)) return x;
    return hn_b_slice(g, x, dim, hn_sym_sub(g->sym, size, int_expr(g, 1)), size, -1);
}

hn_value hn_b_window(hn_graph *g, hn_value x, uint32_t dim, hn_expr count, hn_expr size,
                     hn_expr step, hn_expr dilation) {
    if (idle(g, x)) return 0;
    hn_arg args[] = {hn_arg_value(x),   int_arg(g, dim),   hn_arg_expr(count),
                     hn_arg_expr(size), hn_arg_expr(step), hn_arg_expr(dilation)};
    return emit(g, HN_OP_WINDOW, args, 6, NULL);
}

hn_value hn_b_as_strided(hn_graph *g, hn_value x, const hn_expr *sizes, const hn_expr *strides,
                         uint32_t rank, hn_expr offset) {
    if (idle(g, x)) return 0;
    hn_arg args[] = {hn_arg_value(x), hn_arg_exprs(sizes, rank), hn_arg_exprs(strides, rank),
                     hn_arg_expr(offset)};
    return emit(g, HN_OP_AS_STRIDED, args, 4, NULL);
}

/* --- data movement --- */

hn_value hn_b_pad(hn_graph *g, hn_value x, hn_scalar value, const hn_expr *lo, const hn_expr *hi) {
    if (idle(g, x)) return 0;
    const hn_value_info *info = hn_graph_value(g, x);
    bool nothing = true;
    for (uint32_t i = 0; i < info->rank; i++)
        nothing &= hn_sym_is_value(g->sym, lo[i], 0) && hn_sym_is_value(g->sym, hi[i], 0);
    if (nothing) return x;
    hn_arg args[] = {hn_arg_value(x), scalar_arg(g, value, info->dtype),
                     hn_arg_exprs(lo, info->rank), hn_arg_exprs(hi, info->rank)};
    return emit(g, HN_OP_PAD, args, 4, NULL);
}

static bool any_missing(const hn_value *values, uint32_t count) {
    for (uint32_t i = 0; i < count; i++)
        if (!values[i]) return true;
    return false;
}

hn_value hn_b_cat(hn_graph *g, const hn_value *xs, uint32_t count, uint32_t dim) {
    if (g->failed || any_missing(xs, count)) return 0;
    if (count == 1) return in_rank(g, xs[0], dim, 0, "cat") ? xs[0] : 0;
    return emit(g, HN_OP_CAT, (hn_arg[]){hn_arg_values(xs, count), int_arg(g, dim)}, 2, NULL);
}

static hn_value as_rank_1(hn_graph *g, hn_value x) {
    return x && !g->failed && hn_graph_value(g, x)->rank == 0 ? hn_b_unsqueeze(g, x, 0) : x;
}

hn_value hn_b_gather(hn_graph *g, hn_value x, hn_value index, uint32_t dim) {
    if (idle(g, x) || !index) return 0;
    bool scalar = hn_graph_value(g, index)->rank == 0;
    x = as_rank_1(g, x);
    index = as_rank_1(g, index);
    if (idle(g, x) || !index) return 0;
    hn_value y = emit(g, HN_OP_GATHER,
                      (hn_arg[]){hn_arg_value(x), hn_arg_value(index), int_arg(g, dim)}, 3, NULL);
    return scalar ? hn_b_squeeze(g, y, 0) : y;
}

hn_value hn_b_index(hn_graph *g, hn_value x, const hn_value *indices, uint32_t count, bool wrap) {
    if (idle(g, x) || any_missing(indices, count)) return 0;
    return emit(g, HN_OP_INDEX,
                (hn_arg[]){hn_arg_value(x), hn_arg_values(indices, count), hn_arg_bool(wrap)}, 3,
                NULL);
}

/* The values of an index_put broadcast to the shape that indexing gives. */
static hn_value expand_put_values(hn_graph *g, hn_value x, const hn_value *indices, uint32_t count,
                                  hn_value values) {
    const hn_value_info *info = hn_graph_value(g, x), *index = hn_graph_value(g, indices[0]);
    hn_expr sizes[2 * HN_MAX_RANK];
    uint32_t rank = 0;
    for (uint32_t i = 0; i < index->rank; i++) sizes[rank++] = index->sizes[i];
    for (uint32_t i = count; i < info->rank; i++) sizes[rank++] = info->sizes[i];
    if (rank > HN_MAX_RANK) return values; /* for inference to refuse */
    const hn_value_info *v = hn_graph_value(g, values);
    if (v->rank == rank && hn_same_sizes(g, v->sizes, sizes, rank)) return values;
    return hn_b_expand(g, values, sizes, rank);
}

hn_value hn_b_index_put(hn_graph *g, hn_value x, const hn_value *indices, uint32_t count,
                        hn_value values, const char *mode, bool wrap) {
    if (idle(g, x) || !values || any_missing(indices, count)) return 0;
    if (count) values = expand_put_values(g, x, indices, count, values);
    if (idle(g, values)) return 0;
    hn_arg args[] = {hn_arg_value(x), hn_arg_values(indices, count), hn_arg_value(values),
                     hn_arg_string(hn_str_of(mode)), hn_arg_bool(wrap)};
    return emit(g, HN_OP_INDEX_PUT, args, 5, NULL);
}

/* PyTorch lets a scatter's source be larger than its index. */
static hn_value shrink_source(hn_graph *g, hn_value src, hn_value index) {
    uint32_t rank = hn_graph_value(g, index)->rank;
    if (hn_graph_value(g, src)->rank != rank) return src; /* for inference to refuse */
    for (uint32_t i = 0; i < rank && src; i++) {
        hn_expr have = hn_graph_value(g, src)->sizes[i], want = hn_graph_value(g, index)->sizes[i];
        if (!hn_sizes_agree(g, have, want) && hn_sym_prove_lt(g->sym, want, have))
            src = hn_b_slice(g, src, i, int_expr(g, 0), want, 1);
    }
    return src;
}

hn_value hn_b_scatter(hn_graph *g, hn_value x, hn_value index, hn_value src, uint32_t dim,
                      const char *mode) {
    if (idle(g, x) || !index || !src) return 0;
    bool scalar = hn_graph_value(g, x)->rank == 0;
    x = as_rank_1(g, x);
    index = as_rank_1(g, index);
    src = as_rank_1(g, src);
    if (idle(g, x) || !index || !src) return 0;
    src = shrink_source(g, src, index);
    if (idle(g, src)) return 0;
    hn_arg args[] = {hn_arg_value(x), hn_arg_value(index), hn_arg_value(src), int_arg(g, dim),
                     hn_arg_string(hn_str_of(mode))};
    hn_value y = emit(g, HN_OP_SCATTER, args, 5, NULL);
    return scalar ? hn_b_squeeze(g, y, 0) : y;
}

/* --- reductions, scans, sorts --- */

hn_value hn_b_reduce(hn_graph *g, hn_op op, hn_value x, const uint32_t *dims, uint32_t dim_count,
                     bool keepdim) {
    if (idle(g, x)) return 0;
    if (op == HN_OP_ANY || op == HN_OP_ALL) x = hn_b_cast(g, x, HN_DTYPE_BOOL);
    if (idle(g, x)) return 0;
    /* A scalar has no dimension to reduce, though PyTorch lets one name dimension 0 of it. */
    if (hn_graph_value(g, x)->rank == 0 && dim_count == 1 && dims[0] == 0) dim_count = 0;
    if (dim_count > HN_MAX_RANK)
        return fail(g, HN_ERROR(HN_INTERNAL, "a reduction over %u dimensions", dim_count));
    hn_expr list[HN_MAX_RANK];
    for (uint32_t i = 0; i < dim_count; i++) list[i] = int_expr(g, dims[i]);
    return emit(g, op,
                (hn_arg[]){hn_arg_value(x), hn_arg_exprs(list, dim_count), hn_arg_bool(keepdim)}, 3,
                NULL);
}

/* A scan or sort over `dim`; a scalar is treated as one element in a row. `args[0]` is left to be
 * filled in. */
static hn_value emit_along(hn_graph *g, hn_op op, hn_value x, hn_arg *args, uint32_t arg_count,
                           hn_value *out_indices) {
    hn_value indices = 0, row = as_rank_1(g, x);
    if (idle(g, row)) return 0;
    args[0] = hn_arg_value(row);
    hn_value y = emit(g, op, args, arg_count, &indices);
    if (row != x) {
        y = hn_b_squeeze(g, y, 0);
        if (indices && out_indices) indices = hn_b_squeeze(g, indices, 0);
    }
    if (out_indices) *out_indices = y ? indices : 0;
    return y;
}

hn_value hn_b_scan(hn_graph *g, hn_op op, hn_value x, uint32_t dim, hn_value *out_indices) {
    if (out_indices) *out_indices = 0;
    if (idle(g, x)) return 0;
    return emit_along(g, op, x, (hn_arg[]){hn_arg_none(), int_arg(g, dim)}, 2, out_indices);
}

hn_value hn_b_sort(hn_graph *g, hn_value x, uint32_t dim, bool descending, bool stable,
                   hn_value *out_indices) {
    if (out_indices) *out_indices = 0;
    if (idle(g, x)) return 0;
    hn_arg args[] = {hn_arg_none(), int_arg(g, dim), hn_arg_bool(descending), hn_arg_bool(stable)};
    return emit_along(g, HN_OP_SORT, x, args, 4, out_indices);
}

hn_value hn_b_topk(hn_graph *g, hn_value x, hn_expr k, uint32_t dim, bool largest, bool sorted,
                   hn_value *out_indices) {
    if (out_indices) *out_indices = 0;
    if (idle(g, x)) return 0;
    hn_arg args[] = {hn_arg_none(), hn_arg_expr(k), int_arg(g, dim), hn_arg_bool(largest),
                     hn_arg_bool(sorted)};
    return emit_along(g, HN_OP_TOPK, x, args, 5, out_indices);
}

hn_value hn_b_nms(hn_graph *g, hn_value boxes, double threshold) {
    if (idle(g, boxes)) return 0;
    return emit(g, HN_OP_NMS, (hn_arg[]){hn_arg_value(boxes), hn_arg_float(threshold)}, 2, NULL);
}

/* --- contractions --- */

hn_value hn_b_matmul(hn_graph *g, hn_value a, hn_value b, hn_value bias) {
    if (idle(g, a) || !b) return 0;
    return emit(g, HN_OP_MATMUL, (hn_arg[]){hn_arg_value(a), hn_arg_value(b), hn_arg_value(bias)},
                3, NULL);
}

hn_value hn_b_grouped_matmul(hn_graph *g, hn_value a, hn_value b, hn_value ends) {
    if (idle(g, a) || !b || !ends) return 0;
    return emit(g, HN_OP_GROUPED_MATMUL,
                (hn_arg[]){hn_arg_value(a), hn_arg_value(b), hn_arg_value(ends)}, 3, NULL);
}

hn_value hn_b_conv(hn_graph *g, hn_value x, hn_value w, hn_value bias,
                   const hn_conv_params *params) {
    if (idle(g, x) || !w) return 0;
    if (params->spatial < 1 || params->spatial > 3)
        return fail(g, HN_ERROR(HN_INTERNAL, "'conv' over %u spatial dimensions", params->spatial));
    hn_arg args[] = {hn_arg_value(x),
                     hn_arg_value(w),
                     hn_arg_value(bias),
                     hn_arg_exprs(params->stride, params->spatial),
                     hn_arg_exprs(params->padding, params->spatial),
                     hn_arg_exprs(params->dilation, params->spatial),
                     hn_arg_bool(params->transposed),
                     hn_arg_exprs(params->output_padding, params->spatial),
                     int_arg(g, params->groups)};
    return emit(g, HN_OP_CONV, args, 9, NULL);
}

hn_value hn_b_attention(hn_graph *g, hn_value q, hn_value k, hn_value v, hn_value mask,
                        double scale, bool causal) {
    if (idle(g, q) || !k || !v) return 0;
    hn_arg args[] = {hn_arg_value(q),    hn_arg_value(k),     hn_arg_value(v),
                     hn_arg_value(mask), hn_arg_float(scale), hn_arg_bool(causal)};
    return emit(g, HN_OP_ATTENTION, args, 6, NULL);
}

hn_value hn_b_attention_backward(hn_graph *g, const hn_attention_grad *a, hn_value out_k_v[2]) {
    hn_value results[HN_RESULTS_MAX];
    out_k_v[0] = out_k_v[1] = 0;
    if (idle(g, a->grad) || !a->q || !a->k || !a->v || !a->out) return 0;
    hn_arg args[] = {hn_arg_value(a->grad),  hn_arg_value(a->q),    hn_arg_value(a->k),
                     hn_arg_value(a->v),     hn_arg_value(a->out),  hn_arg_value(a->mask),
                     hn_arg_float(a->scale), hn_arg_bool(a->causal)};
    if (!emit_all(g, HN_OP_ATTENTION_BACKWARD, args, 8, results)) return 0;
    out_k_v[0] = results[1], out_k_v[1] = results[2];
    return results[0];
}

/* --- control and data-dependent sizes --- */

/* Appends a node of which hn_infer knows nothing; `results` are values made by the caller. */
static bool append(hn_graph *g, hn_op op, const hn_arg *args, uint32_t arg_count,
                   const hn_value *results, uint32_t count) {
    hn_status status = hn_args_check(g, op, args, arg_count);
    if (status) return fail(g, status);
    return hn_graph_add_node(g, op, args, arg_count, results, count) != 0;
}

static bool has_one_element(hn_graph *g, hn_value x, const char *what) {
    const hn_value_info *info = hn_graph_value(g, x);
    if (info->kind != HN_VALUE_TENSOR) return true;
    hn_status status = hn_size_require(g, HN_REL_EQ, hn_numel(g, x), int_expr(g, 1), what);
    if (status) hn_graph_fail(g, status);
    return !g->failed;
}

hn_value hn_b_item(hn_graph *g, hn_value x, hn_value_kind kind, hn_expr symbol) {
    if (idle(g, x) || !has_one_element(g, x, "'item' wants a tensor of one element")) return 0;
    hn_value y = hn_graph_add_scalar(g, kind, symbol, HN_STR(""));
    if (!y) return 0;
    return append(g, HN_OP_ITEM, (hn_arg[]){hn_arg_value(x)}, 1, &y, 1) ? y : 0;
}

hn_value hn_b_nonzero(hn_graph *g, hn_value x, hn_expr count_symbol) {
    if (idle(g, x)) return 0;
    hn_expr sizes[2] = {count_symbol, int_expr(g, hn_graph_value(g, x)->rank)};
    hn_value y = hn_graph_add_tensor(g, HN_DTYPE_I64, 2, sizes, NULL, HN_STR(""));
    if (!y) return 0;
    return append(g, HN_OP_NONZERO, (hn_arg[]){hn_arg_value(x)}, 1, &y, 1) ? y : 0;
}

hn_value hn_b_assert(hn_graph *g, hn_value cond, hn_str message) {
    if (idle(g, cond) || !has_one_element(g, cond, "'assert' wants a condition of one element"))
        return 0;
    append(g, HN_OP_ASSERT, (hn_arg[]){hn_arg_value(cond), hn_arg_string(message)}, 2, NULL, 0);
    return 0;
}

/* A value of `g` like output k of the subgraph. */
static hn_value cond_result(hn_graph *g, const hn_graph *branch, uint32_t k) {
    const hn_output *output = &branch->outputs.items[k];
    if (!output->value) return 0;
    const hn_value_info *info = hn_graph_value(branch, output->value);
    if (info->kind != HN_VALUE_TENSOR)
        return hn_graph_add_scalar(g, info->kind, info->expr, HN_STR(""));
    return hn_graph_add_tensor(g, info->dtype, info->rank, info->sizes, NULL, HN_STR(""));
}

void hn_b_cond(hn_graph *g, hn_value pred, hn_graph *then_graph, hn_graph *else_graph,
               const hn_value *operands, uint32_t count, hn_value *out, uint32_t out_count) {
    for (uint32_t k = 0; k < out_count; k++) out[k] = 0;
    if (idle(g, pred) || any_missing(operands, count)) return;
    if (!has_one_element(g, pred, "'cond' wants a condition of one element")) return;
    hn_arg args[] = {hn_arg_value(pred),
                     {.kind = HN_ARG_GRAPH, .as.graph = then_graph},
                     {.kind = HN_ARG_GRAPH, .as.graph = else_graph},
                     hn_arg_values(operands, count)};
    hn_status status = hn_args_check(g, HN_OP_COND, args, 4);
    if (!status && then_graph->outputs.count != out_count)
        status = HN_ERROR(HN_INTERNAL, "'cond' has %u outputs instead of %u",
                          then_graph->outputs.count, out_count);
    if (!status) {
        for (uint32_t k = 0; k < out_count; k++) out[k] = cond_result(g, then_graph, k);
        status = hn_cond_check(g, args, out, out_count);
    }
    if (status) hn_graph_fail(g, status);
    else append(g, HN_OP_COND, args, 4, out, out_count);
    for (uint32_t k = 0; k < out_count && g->failed; k++) out[k] = 0;
}

void hn_b_loop(hn_graph *g, const hn_b_loop_parts *parts, hn_value *out) {
    const uint32_t carried = parts->carried_count;
    for (uint32_t k = 0; k < carried; k++) out[k] = 0;
    if (g->failed || any_missing(parts->operands, carried + parts->other_count)) return;
    hn_arg args[HN_LOOP_ARGS] = {[HN_LOOP_BODY] = {.kind = HN_ARG_GRAPH, .as.graph = parts->body},
                                 [HN_LOOP_CARRIED] = hn_arg_values(parts->operands, carried),
                                 [HN_LOOP_OTHERS] =
                                     hn_arg_values(parts->operands + carried, parts->other_count)};
    if (parts->rounds) args[HN_LOOP_ROUNDS] = hn_arg_expr(parts->rounds);
    if (parts->test) args[HN_LOOP_TEST] = (hn_arg){.kind = HN_ARG_GRAPH, .as.graph = parts->test};
    hn_status status = hn_args_check(g, HN_OP_LOOP, args, HN_LOOP_ARGS);
    for (uint32_t k = 0; k < carried && !status; k++) {
        const hn_value_info info = *hn_graph_value(g, parts->operands[k]);
        out[k] = hn_graph_add_tensor(g, info.dtype, info.rank, info.sizes, NULL, HN_STR(""));
    }
    if (!status) status = hn_loop_args_check(g, args, out, carried);
    if (status) hn_graph_fail(g, status);
    else append(g, HN_OP_LOOP, args, HN_LOOP_ARGS, out, carried);
    for (uint32_t k = 0; k < carried && g->failed; k++) out[k] = 0;
}
