/* sort.c: order statistics, search, and running values. */
#include "opt/decompose/math.h"

/* --- sort --- */

static void sort_results(hn_dec *d, uint32_t dim_arg, uint32_t descending_arg, bool stable,
                         bool only_indices) {
    hn_value x = m_at_least_1d(d, hn_dec_tensor(d, 0)), indices = 0;
    uint32_t dim = hn_dec_dim(d, dim_arg, m_rank(d, x));
    hn_value values = hn_b_sort(d->g, x, dim, hn_dec_bool(d, descending_arg), stable, &indices);
    m_result(d, 0, m_like_meta(d, only_indices ? indices : values, 0));
    if (!only_indices && m_wants(d, 1)) m_result(d, 1, m_like_meta(d, indices, 1));
}

/* aten.sort(self, dim, descending) */
void hn_dec_sort(hn_dec *d) { sort_results(d, 1, 2, false, false); }
/* aten.sort.stable(self, *, stable, dim, descending) */
void hn_dec_sort_stable(hn_dec *d) {
    sort_results(d, 2, 3, hn_dec_has(d, 1) && hn_dec_bool(d, 1), false);
}
/* aten.argsort(self, dim, descending) */
void hn_dec_argsort(hn_dec *d) { sort_results(d, 1, 2, false, true); }
/* aten.argsort.stable(self, *, stable, dim, descending) */
void hn_dec_argsort_stable(hn_dec *d) { sort_results(d, 2, 3, hn_dec_bool(d, 1), true); }

/* aten.msort(self): along dim 0, values only */
void hn_dec_msort(hn_dec *d) {
    hn_value x = m_at_least_1d(d, hn_dec_tensor(d, 0)), indices = 0;
    m_result(d, 0, m_like_meta(d, hn_b_sort(d->g, x, 0, false, false, &indices), 0));
}

/* aten.topk(self, k, dim, largest, sorted) */
void hn_dec_topk(hn_dec *d) {
    hn_value x = m_at_least_1d(d, hn_dec_tensor(d, 0)), indices = 0;
    uint32_t dim = hn_dec_dim(d, 2, m_rank(d, x));
    hn_value values =
        hn_b_topk(d->g, x, hn_dec_expr(d, 1), dim, hn_dec_bool(d, 3), hn_dec_bool(d, 4), &indices);
    m_result(d, 0, m_like_meta(d, values, 0));
    if (m_wants(d, 1)) m_result(d, 1, m_like_meta(d, indices, 1));
}

/* --- one element of the sorted order --- */

typedef struct sorted {
    hn_value values, indices;
    uint32_t dim;
} sorted;

static sorted sort_along(hn_dec *d, hn_value x, uint32_t dim) {
    sorted s = {.dim = dim};
    s.values = hn_b_sort(d->g, x, dim, false, true, &s.indices);
    return s;
}

/* Results 0 and 1: what stands at `position` (i64, size 1 along dim) of the sorted order. */
static void pick_results(hn_dec *d, const sorted *s, hn_value position) {
    hn_value picked[2] = {hn_b_gather(d->g, s->values, position, s->dim), 0};
    if (m_wants(d, 1)) picked[1] = hn_b_gather(d->g, s->indices, position, s->dim);
    for (uint32_t k = 0; k < 2; k++) {
        if (!m_wants(d, k)) continue;
        m_shape_t shape = m_meta_shape(d, k);
        m_result(d, k, m_reshape(d, picked[k], shape.sizes, shape.rank));
    }
}

/* A constant position in the shape that GATHER wants: x's with 1 along dim. */
static hn_value position_like(hn_dec *d, hn_value x, uint32_t dim, hn_expr position) {
    m_shape_t s = m_shape(d, x);
    if (s.rank) s.sizes[dim] = e_int(d, 1);
    return m_expand(d, m_size_as(d, position, HN_DTYPE_I64), &s);
}

/* aten.kthvalue(self, k, dim, keepdim): the k-th smallest, counted from 1 */
void hn_dec_kthvalue(hn_dec *d) {
    hn_value x = m_at_least_1d(d, hn_dec_tensor(d, 0));
    uint32_t dim = hn_dec_dim(d, 2, m_rank(d, x));
    sorted s = sort_along(d, x, dim);
    pick_results(d, &s, position_like(d, x, dim, e_addc(d, hn_dec_expr(d, 1), -1)));
}

static hn_value nan_count(hn_dec *d, hn_value x, uint32_t dim) {
    return m_reduce1(d, HN_OP_SUM, m_cast(d, m_un(d, HN_OP_ISNAN, x), HN_DTYPE_I64), dim, true);
}

/* The lower middle; with a NaN in the row, the first NaN (they are sorted last). */
static hn_value median_position(hn_dec *d, hn_value x, uint32_t dim) {
    hn_expr size = m_size(d, x, dim);
    hn_value middle =
        position_like(d, x, dim, hn_sym_floordiv(d->g->sym, e_addc(d, size, -1), e_int(d, 2)));
    if (!hn_dtype_is_float(m_dtype(d, x))) return middle;
    hn_value nans = nan_count(d, x, dim), first = m_sub(d, m_size_as(d, size, HN_DTYPE_I64), nans);
    return m_where(d, m_bin_c(d, HN_OP_GT, nans, 0), first, middle);
}

/* Which of `size` equal elements libstdc++'s nth_element leaves in front, which PyTorch reports of
 * a row of NaNs: each round swaps the front with the middle, turns the rest around and goes on with
 * its first half. 0 for a symbolic size, which is a NaN of the row too. */
static int64_t front_of_equals(hn_dec *d, hn_expr size) {
    int64_t n = 0, lengths[64], front = 0;
    uint32_t rounds = 0;
    if (!e_const(d, size, &n)) return 0;
    for (; n > 3; n = n / 2 + (n % 2)) lengths[rounds++] = n;
    while (rounds--) { /* backwards: where the element stood before the round */
        int64_t middle = lengths[rounds] / 2, before = front ? lengths[rounds] - front : middle;
        front = before == middle && front ? 0 : before;
    }
    return front;
}

/* The lower middle of what is no NaN, which sorts last. */
static hn_value nanmedian_position(hn_dec *d, hn_value x, uint32_t dim) {
    hn_expr size = m_size(d, x, dim);
    if (!hn_dtype_is_float(m_dtype(d, x))) return median_position(d, x, dim);
    hn_value held = m_sub(d, m_size_as(d, size, HN_DTYPE_I64), nan_count(d, x, dim));
    hn_value middle = m_bin_c(d, HN_OP_SHR, m_max_c(d, m_sub_c(d, held, 1), 0), 1);
    hn_value front = hn_dec_const(d, (double)front_of_equals(d, size), HN_DTYPE_I64);
    return m_where(d, m_bin_c(d, HN_OP_GT, held, 0), middle, front);
}

typedef hn_value (*position_fn)(hn_dec *d, hn_value x, uint32_t dim);

/* aten.<name>.dim(self, dim, keepdim) */
static void pick_along(hn_dec *d, position_fn position) {
    hn_value x = m_at_least_1d(d, hn_dec_tensor(d, 0));
    uint32_t dim = hn_dec_dim(d, 1, m_rank(d, x));
    sorted s = sort_along(d, x, dim);
    pick_results(d, &s, position(d, x, dim));
}

/* aten.<name>(self): of all elements */
static void pick_of_all(hn_dec *d, position_fn position) {
    hn_value x = hn_dec_tensor(d, 0);
    hn_expr numel = x ? hn_numel(d->g, x) : 0;
    x = m_reshape(d, x, &numel, 1);
    sorted s = sort_along(d, x, 0);
    pick_results(d, &s, position(d, x, 0));
}

void hn_dec_median_dim(hn_dec *d) { pick_along(d, median_position); }
void hn_dec_median(hn_dec *d) { pick_of_all(d, median_position); }
void hn_dec_nanmedian_dim(hn_dec *d) { pick_along(d, nanmedian_position); }
void hn_dec_nanmedian(hn_dec *d) { pick_of_all(d, nanmedian_position); }

/* aten.mode(self, dim, keepdim): the smallest of the most frequent values. In sorted order the
 * first position with the highest count begins its run; the index reported is that of the run's
 * end. */
void hn_dec_mode(hn_dec *d) {
    hn_value x = m_at_least_1d(d, hn_dec_tensor(d, 0));
    uint32_t rank = m_rank(d, x), dim = hn_dec_dim(d, 1, rank);
    sorted s = sort_along(d, x, dim);
    if (!m_require(d, rank > 0 && rank < HN_MAX_RANK, "mode of a tensor of 16 dimensions")) return;
    hn_value a = hn_b_unsqueeze(d->g, s.values, dim + 1), b = hn_b_unsqueeze(d->g, s.values, dim);
    hn_value counts =
        m_reduce1(d, HN_OP_SUM, m_cast(d, m_bin(d, HN_OP_EQ, a, b), HN_DTYPE_I64), dim + 1, false);
    hn_value first = m_reduce1(d, HN_OP_ARGMAX, counts, dim, true),
             count = m_reduce1(d, HN_OP_AMAX, counts, dim, true);
    pick_results(d, &s, m_sub_c(d, m_add(d, first, count), 1));
}

/* --- search --- */

/* aten.bucketize.Tensor(self, boundaries, *, out_int32, right) */
void hn_dec_bucketize(hn_dec *d) {
    hn_value x = hn_dec_tensor(d, 0), boundaries = hn_dec_tensor(d, 1);
    if (!m_require(d, m_rank(d, boundaries) == 1 && m_rank(d, x) < HN_MAX_RANK,
                   "bucketize wants boundaries of one dimension"))
        return;
    m_result(d, 0, m_count_before(d, boundaries, x, hn_dec_bool(d, 3)));
}

/* aten.searchsorted.Tensor(sorted_sequence, self, *, out_int32, right, side, sorter) */
void hn_dec_searchsorted(hn_dec *d) {
    hn_value boundaries = hn_dec_tensor(d, 0), x = hn_dec_tensor(d, 1),
             sorter = hn_dec_tensor(d, 5);
    uint32_t rank = m_rank(d, boundaries);
    bool fits = rank >= 1 && (rank == 1 || rank == m_rank(d, x)) && m_rank(d, x) < HN_MAX_RANK;
    if (!m_require(d, fits, "searchsorted wants one sequence, or one for each row of values"))
        return;
    bool right = hn_dec_bool(d, 3) || hn_str_eq(hn_dec_string(d, 4), HN_STR("right"));
    if (sorter) boundaries = hn_b_gather(d->g, boundaries, m_index64(d, sorter), rank - 1);
    m_result(d, 0, m_count_before(d, boundaries, x, right));
}

/* --- running values --- */

static void scan(hn_dec *d, hn_op op, hn_dtype dtype) {
    hn_value x = m_at_least_1d(d, m_cast(d, hn_dec_tensor(d, 0), dtype));
    uint32_t dim = hn_dec_dim(d, 1, m_rank(d, x));
    m_result(d, 0, m_like_meta(d, hn_b_scan(d->g, op, x, dim, NULL), 0));
}

/* aten.cumsum, aten.cumprod (self, dim, *, dtype): ints give i64; `dtype` is applied before */
static void scan_sum(hn_dec *d, hn_op op) { scan(d, op, hn_dec_opmath(m_meta_dtype(d, 0))); }
void hn_dec_cumsum(hn_dec *d) { scan_sum(d, HN_OP_CUMSUM); }
void hn_dec_cumprod(hn_dec *d) { scan_sum(d, HN_OP_CUMPROD); }
/* aten.logcumsumexp(self, dim) */
void hn_dec_logcumsumexp(hn_dec *d) {
    scan(d, HN_OP_LOGCUMSUMEXP, hn_dec_opmath(m_meta_dtype(d, 0)));
}

static void scan_extreme(hn_dec *d, hn_op op) {
    hn_value x = m_at_least_1d(d, hn_dec_tensor(d, 0)), indices = 0;
    uint32_t dim = hn_dec_dim(d, 1, m_rank(d, x));
    hn_value values = hn_b_scan(d->g, op, x, dim, &indices);
    m_result(d, 0, m_like_meta(d, values, 0));
    if (m_wants(d, 1)) m_result(d, 1, m_like_meta(d, indices, 1));
}
/* aten.cummax, aten.cummin (self, dim) */
void hn_dec_cummax(hn_dec *d) { scan_extreme(d, HN_OP_CUMMAX); }
void hn_dec_cummin(hn_dec *d) { scan_extreme(d, HN_OP_CUMMIN); }

/* x[1:] - x[:-1] along dim; bools differ by xor */
static hn_value difference(hn_dec *d, hn_value x, uint32_t dim) {
    hn_expr have = m_size(d, x, dim), size = e_max0(d, e_addc(d, have, -1)), zero = e_int(d, 0);
    if (e_is(d, size, 0)) return m_slice(d, x, dim, zero, zero);
    hn_expr second = hn_sym_min(d->g->sym, e_int(d, 1), have); /* 0 when the dim is empty */
    hn_value upper = m_slice(d, x, dim, second, size), lower = m_slice(d, x, dim, zero, size);
    return m_bin(d, m_dtype(d, x) == HN_DTYPE_BOOL ? HN_OP_XOR : HN_OP_SUB, upper, lower);
}

/* Orders above this empty any dimension in practice and would only make nodes. */
enum { MAX_DIFF_ORDER = 256 };

/* aten.diff(self, n, dim, prepend, append) */
void hn_dec_diff(hn_dec *d) {
    hn_value x = hn_dec_tensor(d, 0), parts[3];
    int64_t order = hn_dec_int(d, 1);
    uint32_t dim = hn_dec_dim(d, 2, m_rank(d, x)), count = 0;
    if (!m_require(d, m_rank(d, x) > 0 && order >= 0 && order <= MAX_DIFF_ORDER,
                   "diff wants a dimension and an order of 0 to 256"))
        return;
    if (hn_dec_has(d, 3)) parts[count++] = hn_dec_tensor(d, 3);
    parts[count++] = x;
    if (hn_dec_has(d, 4)) parts[count++] = hn_dec_tensor(d, 4);
    hn_dtype dtype = m_meta_dtype(d, 0);
    for (uint32_t k = 0; k < count; k++) parts[k] = m_cast(d, parts[k], dtype);
    if (count > 1) x = hn_b_cat(d->g, parts, count, dim);
    for (int64_t k = 0; k < order; k++) x = difference(d, x, dim);
    m_result(d, 0, x);
}

/* --- histogram --- */

typedef struct bins {
    hn_value low, high; /* rank 0 */
} bins;

/* Bounds as given, or the data's when both are equal, or one to each side when those are equal
 * too. */
static bins histogram_bounds(hn_dec *d, hn_value x, double low, double high) {
    hn_dtype dtype = m_dtype(d, x);
    bins b = {hn_dec_const(d, low, dtype), hn_dec_const(d, high, dtype)};
    if (low == high && !e_is(d, m_size(d, x, 0), 0))
        b = (bins){m_reduce_all(d, HN_OP_AMIN, x), m_reduce_all(d, HN_OP_AMAX, x)};
    if (low != high) return b;
    hn_value same = m_bin(d, HN_OP_EQ, b.low, b.high);
    return (bins){m_where(d, same, m_sub_c(d, b.low, 1), b.low),
                  m_where(d, same, m_add_c(d, b.high, 1), b.high)};
}

/* aten.histc(self, bins, min, max): elements outside the bounds (and NaN) count nowhere, the upper
 * bound counts in the last bin */
void hn_dec_histc(hn_dec *d) {
    hn_value x = hn_dec_tensor(d, 0);
    hn_dtype dtype = m_dtype(d, x),
             math = hn_dtype_is_float(dtype) ? hn_dec_opmath(dtype) : HN_DTYPE_F32;
    int64_t count = hn_dec_int(d, 1);
    if (!x ||
        !m_require(d, count > 0 && count < INT32_MAX, "histc wants a positive number of bins"))
        return;
    hn_expr numel = hn_numel(d->g, x);
    x = m_cast(d, m_reshape(d, x, &numel, 1), math);
    bins b = histogram_bounds(d, x, hn_dec_float(d, 2), hn_dec_float(d, 3));
    hn_value scaled =
        m_div(d, m_mul_c(d, m_sub(d, x, b.low), (double)count), m_sub(d, b.high, b.low));
    hn_value inside = m_and(d, m_bin(d, HN_OP_GE, x, b.low), m_bin(d, HN_OP_LE, x, b.high));
    /* the cast of what lies outside is undefined, so it is replaced before */
    hn_value bin = m_cast(d, m_where(d, inside, scaled, m_c(d, scaled, 0)), HN_DTYPE_I64);
    bin = m_min_c(d, bin, (double)(count - 1));
    m_shape_t s = {.rank = 1, .sizes = {e_int(d, count)}};
    m_result(d, 0,
             hn_b_scatter(d->g, m_zeros(d, &s, math), bin, m_cast(d, inside, math), 0, "add"));
}
