/* reduce.c: reductions. 16-bit floats accumulate in f32; sums of ints are i64; `dim` None or []
 * means all dimensions. Variances take two passes: the mean, then the mean of squared
 * deviations. */
#include "opt/decompose/math.h"

#include <math.h>

/* Which dimensions a reduction goes over. */
typedef struct reduction {
    uint32_t dims[HN_MAX_RANK], count;
    bool keepdim;
} reduction;

/* `dim_arg` and `keep_arg` are positions; NO_ARG reads as None and false. */
enum { NO_ARG = 1000 };
static reduction read_reduction(hn_dec *d, hn_value x, uint32_t dim_arg, uint32_t keep_arg) {
    reduction r = {.keepdim = keep_arg != NO_ARG && hn_dec_bool(d, keep_arg)};
    r.count = hn_dec_dims(d, dim_arg, m_rank(d, x), true, r.dims);
    return r;
}

/* Reducing a rank-0 tensor, or over no dimension, changes nothing. */
static hn_value reduce(hn_dec *d, hn_op op, hn_value x, const reduction *r) {
    return r->count ? m_reduce(d, op, x, r->dims, r->count, r->keepdim) : x;
}
static hn_value reduce_kept(hn_dec *d, hn_op op, hn_value x, const reduction *r) {
    return r->count ? m_reduce(d, op, x, r->dims, r->count, true) : x;
}

/* x in the dtype of result 0 (where `dtype=` rounds), then in the dtype to accumulate in. */
static hn_value widen(hn_dec *d, hn_value x, hn_dtype result) {
    if (hn_dec_opmath(m_dtype(d, x)) != result) x = m_cast(d, x, result);
    return m_cast(d, x, hn_dec_opmath(result));
}

static hn_value element_count(hn_dec *d, hn_value x, const reduction *r) {
    return m_size_as(d, m_count(d, x, r->dims, r->count), m_dtype(d, x));
}

/* --- sums and products --- */

static void reduce_to_result(hn_dec *d, hn_op op, hn_value x, uint32_t dim_arg, uint32_t keep_arg) {
    reduction r = read_reduction(d, x, dim_arg, keep_arg);
    m_result(d, 0, reduce(d, op, widen(d, x, m_meta_dtype(d, 0)), &r));
}

/* The .default overloads have dtype where the others have dim. */
static bool has_dim(const hn_dec *d) { return d->node->arg_count > 2; }

void hn_dec_sum(hn_dec *d) {
    reduce_to_result(d, HN_OP_SUM, hn_dec_tensor(d, 0), has_dim(d) ? 1 : NO_ARG,
                     has_dim(d) ? 2 : NO_ARG);
}

void hn_dec_prod(hn_dec *d) {
    reduce_to_result(d, HN_OP_PROD, hn_dec_tensor(d, 0), has_dim(d) ? 1 : NO_ARG,
                     has_dim(d) ? 2 : NO_ARG);
}

void hn_dec_nansum(hn_dec *d) {
    hn_value x = hn_dec_tensor(d, 0);
    if (hn_dtype_is_float(m_dtype(d, x))) x = m_where(d, m_un(d, HN_OP_ISNAN, x), m_c(d, x, 0), x);
    reduce_to_result(d, HN_OP_SUM, x, 1, 2);
}

/* aten.nanmean(self, dim, keepdim, *, dtype): sum and number of what is no NaN */
void hn_dec_nanmean(hn_dec *d) {
    hn_value x = hn_dec_tensor(d, 0), lost = m_un(d, HN_OP_ISNAN, x);
    reduction r = read_reduction(d, x, 1, 2);
    hn_value kept = widen(d, m_where(d, lost, m_c(d, x, 0), x), m_meta_dtype(d, 0));
    hn_value count =
        reduce(d, HN_OP_SUM, m_cast(d, m_un(d, HN_OP_NOT, lost), m_dtype(d, kept)), &r);
    m_result(d, 0, m_div(d, reduce(d, HN_OP_SUM, kept, &r), count));
}

void hn_dec_mean(hn_dec *d) {
    hn_value x = widen(d, hn_dec_tensor(d, 0), m_meta_dtype(d, 0));
    reduction r = read_reduction(d, x, has_dim(d) ? 1 : NO_ARG, has_dim(d) ? 2 : NO_ARG);
    hn_value sum = reduce(d, HN_OP_SUM, x, &r);
    m_result(d, 0, m_div(d, sum, element_count(d, x, &r)));
}

void hn_dec_count_nonzero(hn_dec *d) {
    hn_value x = m_cast(d, hn_dec_tensor(d, 0), HN_DTYPE_BOOL);
    reduce_to_result(d, HN_OP_SUM, x, 1, NO_ARG);
}

void hn_dec_trace(hn_dec *d) {
    hn_value x = widen(d, hn_dec_tensor(d, 0), m_meta_dtype(d, 0));
    hn_value rows = m_along(d, m_iota(d, m_size(d, x, 0), HN_DTYPE_I64), 0, 2);
    hn_value cols = m_along(d, m_iota(d, m_size(d, x, 1), HN_DTYPE_I64), 1, 2);
    x = m_where(d, m_bin(d, HN_OP_EQ, rows, cols), x, m_c(d, x, 0));
    m_result(d, 0, m_reduce_all(d, HN_OP_SUM, x));
}

/* --- any, all --- */

/* .default has no dim; .dims with [] reduces nothing, unlike None. The result of u8 is u8. */
static void reduce_truth(hn_dec *d, hn_op op) {
    hn_value x = m_cast(d, hn_dec_tensor(d, 0), HN_DTYPE_BOOL);
    reduction r = read_reduction(d, x, d->node->arg_count > 1 ? 1 : NO_ARG,
                                 d->node->arg_count > 1 ? 2 : NO_ARG);
    const hn_arg *dim = d->node->arg_count > 1 ? &d->node->args[1] : NULL;
    if (dim && dim->kind != HN_ARG_NONE && dim->kind != HN_ARG_INT && dim->count == 0) r.count = 0;
    m_result(d, 0, reduce(d, op, x, &r));
}
void hn_dec_any(hn_dec *d) { reduce_truth(d, HN_OP_ANY); }
void hn_dec_all(hn_dec *d) { reduce_truth(d, HN_OP_ALL); }

/* --- extrema --- */

/* The extremum of bools is any or all. */
static hn_value extremum(hn_dec *d, bool max, hn_value x, const reduction *r) {
    bool is_bool = m_dtype(d, x) == HN_DTYPE_BOOL;
    if (is_bool) return reduce(d, max ? HN_OP_ANY : HN_OP_ALL, x, r);
    return reduce(d, max ? HN_OP_AMAX : HN_OP_AMIN, x, r);
}

static hn_value arg_extremum(hn_dec *d, bool max, hn_value x, const reduction *r) {
    if (m_dtype(d, x) == HN_DTYPE_BOOL) x = m_cast(d, x, HN_DTYPE_U8);
    if (r->count == 0) return hn_dec_scalar_value(d, hn_scalar_i(hn_dec_i(d, 0)), HN_DTYPE_I64);
    return reduce(d, max ? HN_OP_ARGMAX : HN_OP_ARGMIN, x, r);
}

static void amax_or_amin(hn_dec *d, bool max) {
    hn_value x = hn_dec_tensor(d, 0);
    reduction r = read_reduction(d, x, 1, 2);
    hn_dec_result(d, 0, extremum(d, max, x, &r));
}
void hn_dec_amax(hn_dec *d) { amax_or_amin(d, true); }
void hn_dec_amin(hn_dec *d) { amax_or_amin(d, false); }

void hn_dec_aminmax(hn_dec *d) {
    hn_value x = hn_dec_tensor(d, 0);
    reduction r = read_reduction(d, x, 1, 2);
    hn_dec_result(d, 0, extremum(d, false, x, &r));
    hn_dec_result(d, 1, extremum(d, true, x, &r));
}

/* .default: over all; .dim: values and indices. The values are a reduction of
 * their own, not a gather by the indices: it fuses, and whichever result is unused goes away. */
static void max_or_min(hn_dec *d, bool max) {
    hn_value x = hn_dec_tensor(d, 0);
    hn_op op = d->node->op;
    bool whole = op == HN_ATEN_max_default || op == HN_ATEN_min_default;
    reduction r = read_reduction(d, x, whole ? NO_ARG : 1, whole ? NO_ARG : 2);
    hn_dec_result(d, 0, extremum(d, max, x, &r));
    if (!whole) hn_dec_result(d, 1, arg_extremum(d, max, x, &r));
}
void hn_dec_max(hn_dec *d) { max_or_min(d, true); }
void hn_dec_min(hn_dec *d) { max_or_min(d, false); }

static void argmax_or_argmin(hn_dec *d, bool max) {
    hn_value x = hn_dec_tensor(d, 0);
    reduction r = read_reduction(d, x, 1, 2);
    hn_dec_result(d, 0, arg_extremum(d, max, x, &r));
}
void hn_dec_argmax(hn_dec *d) { argmax_or_argmin(d, true); }
void hn_dec_argmin(hn_dec *d) { argmax_or_argmin(d, false); }

/* --- variance --- */

typedef struct moments {
    hn_value mean, var;
} moments;

/* max(0, N - correction): 0 gives NaN or infinity, as in PyTorch. */
static hn_value degrees_of_freedom(hn_dec *d, hn_value x, const reduction *r, double correction) {
    int64_t n = 0;
    if (e_const(d, m_count(d, x, r->dims, r->count), &n))
        return m_c(d, x, fmax(0, (double)n - correction));
    return m_max_c(d, m_sub_c(d, element_count(d, x, r), correction), 0);
}

static moments take_moments(hn_dec *d, hn_value x, const reduction *r, double correction) {
    hn_value mean = m_div(d, reduce_kept(d, HN_OP_SUM, x, r), element_count(d, x, r));
    hn_value squares = m_square(d, m_sub(d, x, mean));
    moments m = {
        .var = m_div(d, reduce(d, HN_OP_SUM, squares, r), degrees_of_freedom(d, x, r, correction)),
        .mean = mean};
    if (!r->keepdim && r->count) {
        m_shape_t shape = m_shape(d, m.var);
        m.mean = m_reshape(d, mean, shape.sizes, shape.rank);
    }
    return m;
}

/* Positions of the overloads: .default (self, unbiased), .dim (self, dim, unbiased, keepdim),
 * .correction (self, dim, correction, keepdim). A correction of None is 1. */
static moments variance(hn_dec *d, hn_dtype *out_dtype) {
    hn_value x = hn_dec_tensor(d, 0);
    *out_dtype = m_dtype(d, x);
    x = m_opmath(d, x);
    if (d->node->arg_count == 2) {
        reduction all = read_reduction(d, x, NO_ARG, NO_ARG);
        return take_moments(d, x, &all, hn_dec_bool(d, 1) ? 1 : 0);
    }
    reduction r = read_reduction(d, x, 1, 3);
    return take_moments(d, x, &r, hn_dec_has(d, 2) ? hn_dec_float(d, 2) : 1);
}

static void variance_results(hn_dec *d, bool root, bool with_mean) {
    hn_dtype dtype = HN_DTYPE_NONE;
    moments m = variance(d, &dtype);
    hn_dec_result(d, 0, m_cast(d, root ? m_un(d, HN_OP_SQRT, m.var) : m.var, dtype));
    if (with_mean) hn_dec_result(d, 1, m_cast(d, m.mean, dtype));
}
void hn_dec_var(hn_dec *d) { variance_results(d, false, false); }
void hn_dec_std(hn_dec *d) { variance_results(d, true, false); }
void hn_dec_var_mean(hn_dec *d) { variance_results(d, false, true); }
void hn_dec_std_mean(hn_dec *d) { variance_results(d, true, true); }

hn_value m_pooled_position(hn_dec *d, hn_value x, uint32_t count) {
    m_shape_t tail = {.rank = count};
    uint32_t dims[HN_MAX_RANK] = {0}, base = m_rank(d, x) - count;
    for (uint32_t k = 0; k < count && x; k++) {
        dims[k] = base + k;
        tail.sizes[k] = m_size(d, x, base + k);
    }
    hn_value first = m_reduce(d, HN_OP_ARGMAX, x, dims, count, false);
    if (!x || !hn_dtype_is_float(m_dtype(d, x))) return first;
    hn_value at =
        m_reshape(d, m_iota(d, e_product(d, tail.sizes, count), HN_DTYPE_I64), tail.sizes, count);
    hn_value nan_at = m_where(d, m_un(d, HN_OP_ISNAN, x), at, hn_dec_const(d, -1, HN_DTYPE_I64));
    return m_bin(d, HN_OP_MAX, first, m_reduce(d, HN_OP_AMAX, nan_at, dims, count, false));
}

/* --- norms --- */

hn_value m_vector_norm(hn_dec *d, hn_value x, double p, const uint32_t *dims, uint32_t count,
                       bool keepdim) {
    reduction r = {.count = count, .keepdim = keepdim};
    for (uint32_t k = 0; k < count; k++) r.dims[k] = dims[k];
    hn_value size = m_abs(d, x);
    if (p == INFINITY) return reduce(d, HN_OP_AMAX, size, &r);
    if (p == -INFINITY) return reduce(d, HN_OP_AMIN, size, &r);
    if (p == 0)
        return reduce(d, HN_OP_SUM, m_cast(d, m_bin_c(d, HN_OP_NE, x, 0), m_dtype(d, x)), &r);
    if (p == 1) return reduce(d, HN_OP_SUM, size, &r);
    if (p == 2) return m_un(d, HN_OP_SQRT, reduce(d, HN_OP_SUM, m_square(d, x), &r));
    hn_value sum = reduce(d, HN_OP_SUM, m_bin_c(d, HN_OP_POW, size, p), &r);
    return m_bin_c(d, HN_OP_POW, sum, 1 / p);
}

/* p = None is 2. An infinite norm of nothing is an error in PyTorch, so export refuses it. */
static void norm_result(hn_dec *d, hn_value x, uint32_t p_arg, uint32_t dim_arg,
                        uint32_t keep_arg) {
    x = widen(d, x, m_meta_dtype(d, 0));
    reduction r = read_reduction(d, x, dim_arg, keep_arg);
    double p = hn_dec_has(d, p_arg) ? hn_dec_float(d, p_arg) : 2;
    m_result(d, 0, m_vector_norm(d, x, p, r.dims, r.count, r.keepdim));
}

void hn_dec_linalg_vector_norm(hn_dec *d) { norm_result(d, hn_dec_tensor(d, 0), 1, 2, 3); }

void hn_dec_norm(hn_dec *d) {
    /* (self, p), (self, p, dtype) or (self, p, dim, keepdim[, dtype]) */
    bool with_dim = d->node->arg_count > 3;
    norm_result(d, hn_dec_tensor(d, 0), 1, with_dim ? 2 : NO_ARG, with_dim ? 3 : NO_ARG);
}

void hn_dec_dist(hn_dec *d) {
    hn_dtype result = m_meta_dtype(d, 0);
    hn_value x = widen(d, hn_dec_tensor(d, 0), result), y = widen(d, hn_dec_tensor(d, 1), result);
    norm_result(d, m_sub(d, x, y), 2, NO_ARG, NO_ARG);
}

/* log sum exp(x - m) + m, with m = 0 where the maximum is infinite: inf - inf is NaN */
void hn_dec_logsumexp(hn_dec *d) {
    hn_value x = widen(d, hn_dec_tensor(d, 0), m_meta_dtype(d, 0));
    reduction r = read_reduction(d, x, 1, 2);
    if (e_is(d, m_count(d, x, r.dims, r.count), 0)) { /* nothing to take a maximum of */
        m_result(d, 0, m_log(d, reduce(d, HN_OP_SUM, m_exp(d, x), &r)));
        return;
    }
    hn_value top = reduce_kept(d, HN_OP_AMAX, x, &r);
    top = m_where(d, m_un(d, HN_OP_ISINF, top), m_c(d, x, 0), top);
    hn_value sum = m_log(d, reduce(d, HN_OP_SUM, m_exp(d, m_sub(d, x, top)), &r));
    m_shape_t shape = m_shape(d, sum);
    m_result(d, 0, m_add(d, sum, m_reshape(d, top, shape.sizes, shape.rank)));
}
