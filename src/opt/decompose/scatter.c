/* scatter.c: copies of a tensor with some elements replaced or combined.
 *
 * Where the place of the new elements is an affine pattern (slice, select, diagonal) the result is
 * a choice by position, which fuses; only true index tensors become SCATTER. */
#include "opt/decompose/math.h"

#include <math.h>

/* --- scatter --- */

typedef struct scatter {
    hn_value x, index, src; /* src cut to the shape of index */
    uint32_t dim;
} scatter;

/* (self, dim, index, src or number); a rank-0 tensor counts as one of [1]. `dtype` is what is
 * computed in. */
static bool read_scatter(hn_dec *d, bool src_is_number, hn_dtype dtype, scatter *out) {
    *out = (scatter){.x = m_at_least_1d(d, m_cast(d, hn_dec_tensor(d, 0), dtype)),
                     .index = m_index64(d, m_at_least_1d(d, hn_dec_tensor(d, 2)))};
    uint32_t rank = m_rank(d, out->x);
    out->dim = hn_dec_dim(d, 1, rank);
    m_shape_t s = m_shape(d, out->index);
    if (src_is_number) {
        out->src = m_expand(d, hn_dec_number(d, 3, dtype), &s);
    } else {
        out->src = m_at_least_1d(d, m_cast(d, hn_dec_tensor(d, 3), dtype));
        if (!m_require(d, m_rank(d, out->src) == s.rank,
                       "scatter wants a source of the rank of its index"))
            return false;
        for (uint32_t k = 0; k < s.rank; k++)
            if (!e_eq(d, m_size(d, out->src, k), s.sizes[k]))
                out->src = m_slice(d, out->src, k, e_int(d, 0), s.sizes[k]);
    }
    return m_require(d, s.rank == rank, "scatter wants an index of the rank of its input");
}

static void scatter_as(hn_dec *d, bool src_is_number, const char *mode) {
    hn_dtype dtype = m_dtype(d, hn_dec_tensor(d, 0));
    scatter s;
    if (!read_scatter(d, src_is_number, mode[0] == 's' ? dtype : hn_dec_opmath(dtype), &s)) return;
    m_result(d, 0, m_like_meta(d, hn_b_scatter(d->g, s.x, s.index, s.src, s.dim, mode), 0));
}

/* aten.scatter.src(self, dim, index, src) */
void hn_dec_scatter_src(hn_dec *d) { scatter_as(d, false, "set"); }
/* aten.scatter.value(self, dim, index, value) */
void hn_dec_scatter_value(hn_dec *d) { scatter_as(d, true, "set"); }
/* aten.scatter_add(self, dim, index, src) */
void hn_dec_scatter_add(hn_dec *d) { scatter_as(d, false, "add"); }

static void scatter_by_name(hn_dec *d, bool src_is_number) {
    hn_str name = hn_dec_string(d, 4);
    bool is_add = hn_str_eq(name, HN_STR("add"));
    if (m_require(d, is_add || hn_str_eq(name, HN_STR("multiply")),
                  "scatter reduces by 'add' or 'multiply'"))
        scatter_as(d, src_is_number, is_add ? "add" : "mul");
}
/* aten.scatter.reduce(self, dim, index, src, *, reduce) */
void hn_dec_scatter_reduce_src(hn_dec *d) { scatter_by_name(d, false); }
/* aten.scatter.value_reduce(self, dim, index, value, *, reduce) */
void hn_dec_scatter_reduce_value(hn_dec *d) { scatter_by_name(d, true); }

typedef enum reduce_kind {
    REDUCE_SUM,
    REDUCE_PROD,
    REDUCE_MEAN,
    REDUCE_AMAX,
    REDUCE_AMIN,
    REDUCE_COUNT
} reduce_kind;

static bool read_kind(hn_str name, reduce_kind *out) {
    static const char *const names[REDUCE_COUNT] = {"sum", "prod", "mean", "amax", "amin"};
    for (reduce_kind k = 0; k < REDUCE_COUNT; k++) {
        *out = k;
        if (hn_str_eq(name, hn_str_of(names[k]))) return true;
    }
    return false;
}

/* The highest value of a dtype, as the negation (or complement) of the lowest. */
static hn_value highest(hn_dec *d, hn_dtype dtype) {
    if (dtype == HN_DTYPE_U8) return hn_dec_const(d, UINT8_MAX, dtype);
    return m_un(d, hn_dtype_is_float(dtype) ? HN_OP_NEG : HN_OP_NOT, m_lowest(d, dtype));
}

static hn_value identity_of(hn_dec *d, reduce_kind kind, hn_dtype dtype) {
    switch (kind) {
    case REDUCE_PROD: return hn_dec_const(d, 1, dtype);
    case REDUCE_AMAX: return m_lowest(d, dtype);
    case REDUCE_AMIN: return highest(d, dtype);
    default: return hn_dec_const(d, 0, dtype);
    }
}

/* How many elements each result of a mean is made of; where nothing lands, 1. */
static hn_value landed(hn_dec *d, const scatter *s, bool include_self) {
    hn_dtype dtype = m_dtype(d, s->x);
    m_shape_t sx = m_shape(d, s->x), si = m_shape(d, s->index);
    hn_value start = m_full(d, &sx, include_self ? 1 : 0, dtype), ones = m_full(d, &si, 1, dtype);
    return m_max_c(d, hn_b_scatter(d->g, start, s->index, ones, s->dim, "add"), 1);
}

static void reduce_into(hn_dec *d, const scatter *s, reduce_kind kind, bool include_self) {
    static const char *const modes[REDUCE_COUNT] = {"add", "mul", "add", "max", "min"};
    hn_dtype math = m_dtype(d, s->x);
    hn_value start = s->x;
    if (!include_self) {
        m_shape_t si = m_shape(d, s->index);
        start = hn_b_scatter(d->g, s->x, s->index, m_expand(d, identity_of(d, kind, math), &si),
                             s->dim, "set");
    }
    hn_value r = hn_b_scatter(d->g, start, s->index, s->src, s->dim, modes[kind]);
    if (kind == REDUCE_MEAN) {
        hn_op divide = hn_dtype_is_float(math) ? HN_OP_DIV : HN_OP_FLOORDIV;
        r = m_bin(d, divide, r, landed(d, s, include_self));
    }
    m_result(d, 0, m_like_meta(d, r, 0));
}

/* aten.scatter_reduce.two(self, dim, index, src, reduce, *, include_self): without self, elements
 * that something lands on start from the identity; the others stay */
void hn_dec_scatter_reduce_two(hn_dec *d) {
    hn_dtype math = hn_dec_opmath(m_dtype(d, hn_dec_tensor(d, 0)));
    reduce_kind kind;
    scatter s;
    if (!m_require(d, read_kind(hn_dec_string(d, 4), &kind),
                   "scatter_reduce reduces by sum, prod, mean, amax or amin"))
        return;
    if (read_scatter(d, false, math, &s)) reduce_into(d, &s, kind, hn_dec_bool(d, 5));
}

/* aten.index_reduce(self, dim, index, source, reduce, *, include_self): the same with one index for
 * each slice along dim */
void hn_dec_index_reduce(hn_dec *d) {
    hn_dtype math = hn_dec_opmath(m_dtype(d, hn_dec_tensor(d, 0)));
    reduce_kind kind;
    scatter s = {.x = m_at_least_1d(d, m_cast(d, hn_dec_tensor(d, 0), math)),
                 .src = m_at_least_1d(d, m_cast(d, hn_dec_tensor(d, 3), math))};
    m_shape_t shape = m_shape(d, s.src);
    s.dim = hn_dec_dim(d, 1, m_rank(d, s.x));
    if (!m_require(d,
                   read_kind(hn_dec_string(d, 4), &kind) && kind != REDUCE_SUM &&
                       shape.rank == m_rank(d, s.x),
                   "index_reduce reduces a source of the input's rank by prod, mean, amax or amin"))
        return;
    s.index = m_expand(
        d, m_along(d, m_index64(d, m_at_least_1d(d, hn_dec_tensor(d, 2))), s.dim, shape.rank),
        &shape);
    reduce_into(d, &s, kind, hn_dec_bool(d, 5));
}

/* --- by position --- */

/* Positions along dim of x, shaped to broadcast over x. */
static hn_value positions(hn_dec *d, hn_value x, uint32_t dim) {
    return m_along(d, m_iota(d, m_size(d, x, dim), HN_DTYPE_I64), dim, m_rank(d, x));
}

/* aten.slice_scatter(self, src, dim, start, end, step) */
void hn_dec_slice_scatter(hn_dec *d) {
    hn_value x = hn_dec_tensor(d, 0), src = m_cast(d, hn_dec_tensor(d, 1), m_dtype(d, x));
    m_shape_t sx = m_shape(d, x), cut = sx;
    uint32_t dim = hn_dec_dim(d, 2, sx.rank);
    int64_t step = hn_dec_int(d, 5);
    if (!m_require(d, sx.rank > 0 && step > 0,
                   "slice_scatter wants at least one dimension and a positive step"))
        return;
    hn_expr start = 0, count = 0, size = sx.sizes[dim];
    e_slice_bounds(d, size, hn_dec_has(d, 3) ? hn_dec_expr(d, 3) : 0,
                   hn_dec_has(d, 4) ? hn_dec_expr(d, 4) : 0, step, &start, &count);
    cut.sizes[dim] = count;
    src = m_expand(d, src, &cut);
    if (e_eq(d, count, size)) {
        m_result(d, 0, src);
        return;
    }
    hn_value at = m_sub(d, positions(d, x, dim), m_size_as(d, start, HN_DTYPE_I64));
    hn_value end = m_size_as(d, e_mulc(d, count, step), HN_DTYPE_I64);
    hn_value hit = m_and(d, m_bin_c(d, HN_OP_GE, at, 0), m_bin(d, HN_OP_LT, at, end));
    if (step > 1)
        hit = m_and(d, hit, m_bin_c(d, HN_OP_EQ, m_bin_c(d, HN_OP_REMAINDER, at, (double)step), 0));
    m_result(d, 0, m_where(d, hit, m_spread(d, src, dim, start, count, step, size), x));
}

/* aten.select_scatter(self, src, dim, index) */
void hn_dec_select_scatter(hn_dec *d) {
    hn_value x = hn_dec_tensor(d, 0), src = m_cast(d, hn_dec_tensor(d, 1), m_dtype(d, x));
    uint32_t rank = m_rank(d, x), dim = hn_dec_dim(d, 2, rank);
    if (!m_require(d, rank > 0 && m_rank(d, src) + 1 == rank,
                   "select_scatter wants a source of one dimension less"))
        return;
    hn_expr index = hn_dec_expr(d, 3);
    if (hn_sym_guard(d->g->sym, HN_REL_LT, index, e_int(d, 0), "a selected index is negative"))
        index = e_add(d, index, m_size(d, x, dim));
    hn_value hit = m_bin(d, HN_OP_EQ, positions(d, x, dim), m_size_as(d, index, HN_DTYPE_I64));
    m_result(d, 0, m_where(d, hit, hn_b_unsqueeze(d->g, src, dim), x));
}

/* aten.diagonal_scatter(self, src, offset, dim1, dim2): the last dim of src runs along the
 * diagonal. It is laid along dim1 (dim2 below the main diagonal, where dim1 does not start at 0)
 * and kept where both meet. */
void hn_dec_diagonal_scatter(hn_dec *d) {
    hn_value x = hn_dec_tensor(d, 0), src = m_cast(d, hn_dec_tensor(d, 1), m_dtype(d, x));
    uint32_t rank = m_rank(d, x), dim1 = hn_dec_dim(d, 3, rank), dim2 = hn_dec_dim(d, 4, rank);
    int64_t offset = hn_dec_int(d, 2);
    bool fits = rank >= 2 && dim1 != dim2 && m_rank(d, src) + 1 == rank && offset > -INT32_MAX &&
                offset < INT32_MAX;
    if (!m_require(d, fits,
                   "diagonal_scatter wants two different dimensions and a source of one less"))
        return;
    uint32_t along = offset >= 0 ? dim1 : dim2, other = offset >= 0 ? dim2 : dim1;
    /* src is [rest.., n]: give it a place for `other` and move n to `along` */
    hn_value laid = hn_b_unsqueeze(d->g, src, rank - 1); /* rest.., n, 1 */
    uint32_t dims[HN_MAX_RANK], at = 0;
    for (uint32_t k = 0; k < rank; k++)
        dims[k] = k == along ? rank - 2 : k == other ? rank - 1 : at++;
    laid = hn_b_permute(d->g, laid, dims);
    hn_expr missing = e_sub(d, m_size(d, x, along), m_size(d, src, rank - 2));
    laid = m_pad_dim(d, laid, along, e_int(d, 0), missing, m_zero_scalar(d, m_dtype(d, x)));
    hn_value hit = m_bin(d, HN_OP_EQ, m_sub(d, positions(d, x, dim2), positions(d, x, dim1)),
                         hn_dec_const(d, (double)offset, HN_DTYPE_I64));
    m_result(d, 0, m_where(d, hit, laid, x));
}

/* --- by storage position and by mask --- */

/* Whether the recorded strides of operand `arg` are row-major. */
static bool is_contiguous(hn_dec *d, uint32_t arg) {
    const hn_value_info *info = hn_dec_arg_meta(d, arg);
    if (!info || !info->strides) return true;
    return e_row_major(d, info->sizes, info->strides, info->rank);
}

/* aten.as_strided_scatter(self, src, size, stride, storage_offset): position of src[i, j..] in
 * self's memory is offset + i * stride0 + j * stride1.. */
void hn_dec_as_strided_scatter(hn_dec *d) {
    hn_value x = hn_dec_tensor(d, 0), src = m_cast(d, hn_dec_tensor(d, 1), m_dtype(d, x));
    hn_expr strides[HN_MAX_RANK];
    m_shape_t sx = m_shape(d, x), s;
    s.rank = hn_dec_exprs(d, 2, s.sizes);
    uint32_t stride_count = hn_dec_exprs(d, 3, strides);
    if (!m_require(d, stride_count == s.rank, "as_strided_scatter wants one stride for each size"))
        return;
    if (!m_require(d, is_contiguous(d, 0),
                   "as_strided_scatter into a tensor that is not contiguous"))
        return;
    hn_value at = m_size_as(d, hn_dec_has(d, 4) ? hn_dec_expr(d, 4) : e_int(d, 0), HN_DTYPE_I64);
    for (uint32_t k = 0; k < s.rank; k++) {
        hn_scalar start = hn_scalar_i(e_int(d, 0)), step = hn_scalar_i(strides[k]);
        at = m_add(d, at,
                   m_along(d, hn_b_iota(d->g, start, step, s.sizes[k], HN_DTYPE_I64), k, s.rank));
    }
    hn_expr numel = hn_numel(d->g, x);
    hn_value flat = m_reshape(d, x, &numel, 1);
    hn_value r = hn_b_index_put(d->g, flat, &at, 1, m_expand(d, src, &s), "set", false);
    m_result(d, 0, m_reshape(d, r, sx.sizes, sx.rank));
}

/* aten.masked_scatter(self, mask, source): the n-th true position takes the n-th element of
 * source */
void hn_dec_masked_scatter(hn_dec *d) {
    hn_value x = hn_dec_tensor(d, 0), mask = hn_dec_tensor(d, 1),
             src = m_cast(d, hn_dec_tensor(d, 2), m_dtype(d, x));
    m_shape_t s = m_meta_shape(d, 0);
    hn_expr numel = e_product(d, s.sizes, s.rank), src_numel = src ? hn_numel(d->g, src) : 0;
    mask = m_expand(d, m_cast(d, mask, HN_DTYPE_BOOL), &s);
    if (!src || !m_require(d, !e_is(d, src_numel, 0) || e_is(d, numel, 0),
                           "masked_scatter from an empty source"))
        return;
    if (e_is(d, numel, 0)) {
        m_result(d, 0, m_expand(d, x, &s));
        return;
    }
    hn_value order = m_reshape(d, m_cast(d, mask, HN_DTYPE_I64), &numel, 1);
    order = m_sub_c(d, hn_b_scan(d->g, HN_OP_CUMSUM, order, 0, NULL), 1);
    /* positions before the first true one take element 0 and do not show */
    order = m_reshape(d, m_max_c(d, order, 0), s.sizes, s.rank);
    hn_value shown = m_where(d, mask, order, m_c(d, order, 0));
    hn_value taken = hn_b_index(d->g, m_reshape(d, src, &src_numel, 1), &shown, 1, false);
    m_result(d, 0, m_where(d, mask, taken, m_expand(d, x, &s)));
}
