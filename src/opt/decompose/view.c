/* view.c: shapes and views. Where PyTorch resolves -1s and defaults, the recorded sizes of the
 * result are the answer. A view is an index map here: no strides are involved, except
 * as_strided's. */
#include "opt/decompose/math.h"

/* --- same elements, new sizes: view, reshape, flatten, squeeze, unsqueeze... --- */

void hn_dec_reshape(hn_dec *d) {
    m_shape_t shape = m_meta_shape(d, 0);
    hn_dec_result(d, 0, m_reshape(d, hn_dec_tensor(d, 0), shape.sizes, shape.rank));
}

void hn_dec_expand(hn_dec *d) {
    m_shape_t shape = m_meta_shape(d, 0);
    hn_dec_result(d, 0, m_expand(d, hn_dec_tensor(d, 0), &shape));
}

/* --- permutations --- */

/* An element of a list of dims, wrapped. */
static uint32_t listed_dim(hn_dec *d, hn_expr e, uint32_t rank) {
    int64_t dim = 0;
    if (!m_require(d, e_const(d, e, &dim) && dim >= -(int64_t)rank && dim < (int64_t)rank,
                   "a dimension is out of range"))
        return 0;
    return (uint32_t)(dim < 0 ? dim + rank : dim);
}

void hn_dec_permute(hn_dec *d) {
    hn_value x = hn_dec_tensor(d, 0);
    hn_expr list[HN_MAX_RANK];
    uint32_t rank = m_rank(d, x), dims[HN_MAX_RANK];
    uint32_t count = hn_dec_exprs(d, 1, list);
    if (!m_require(d, count == rank, "dims does not list every dimension")) return;
    for (uint32_t k = 0; k < rank; k++) dims[k] = listed_dim(d, list[k], rank);
    hn_dec_result(d, 0, hn_b_permute(d->g, x, dims));
}

static hn_value swap_dims(hn_dec *d, hn_value x, uint32_t a, uint32_t b) {
    return m_rank(d, x) < 2 ? x : hn_b_transpose(d->g, x, a, b);
}

void hn_dec_transpose(hn_dec *d) {
    hn_value x = hn_dec_tensor(d, 0);
    uint32_t rank = m_rank(d, x);
    hn_dec_result(d, 0, swap_dims(d, x, hn_dec_dim(d, 1, rank), hn_dec_dim(d, 2, rank)));
}

void hn_dec_t(hn_dec *d) { hn_dec_result(d, 0, swap_dims(d, hn_dec_tensor(d, 0), 0, 1)); }

void hn_dec_mT(hn_dec *d) {
    hn_value x = hn_dec_tensor(d, 0);
    uint32_t rank = m_rank(d, x);
    hn_dec_result(d, 0, rank < 2 ? x : swap_dims(d, x, rank - 2, rank - 1));
}

/* reverses all dimensions */
void hn_dec_numpy_T(hn_dec *d) {
    hn_value x = hn_dec_tensor(d, 0);
    uint32_t rank = m_rank(d, x), dims[HN_MAX_RANK];
    for (uint32_t k = 0; k < rank; k++) dims[k] = rank - 1 - k;
    hn_dec_result(d, 0, rank ? hn_b_permute(d->g, x, dims) : x);
}

/* source[k] goes to destination[k]; the rest fill the other places in order */
void hn_dec_movedim(hn_dec *d) {
    hn_value x = hn_dec_tensor(d, 0);
    hn_expr from[HN_MAX_RANK], to[HN_MAX_RANK];
    uint32_t rank = m_rank(d, x), count = hn_dec_exprs(d, 1, from);
    if (!m_require(d, count == hn_dec_exprs(d, 2, to) && count <= rank,
                   "source and destination differ in length"))
        return;
    if (rank == 0) {
        hn_dec_result(d, 0, x);
        return;
    }
    uint32_t dims[HN_MAX_RANK], next = 0;
    bool placed[HN_MAX_RANK] = {false}, moved[HN_MAX_RANK] = {false};
    for (uint32_t k = 0; k < count; k++) {
        uint32_t source = listed_dim(d, from[k], rank), place = listed_dim(d, to[k], rank);
        dims[place] = source;
        placed[place] = moved[source] = true;
    }
    for (uint32_t k = 0; k < rank; k++) {
        if (placed[k]) continue;
        while (next < rank && moved[next]) next++;
        if (!m_require(d, next < rank, "a dimension is listed twice")) return;
        dims[k] = next++;
    }
    hn_dec_result(d, 0, hn_b_permute(d->g, x, dims));
}

/* --- parts --- */

/* A negative index counts from the end. Of a symbolic one whose sign is unknown, the remainder by
 * the size is right for both signs. */
static hn_expr wrap_index(hn_dec *d, hn_expr index, hn_expr size) {
    hn_sym *sym = d->g->sym;
    if (!m_require(d, !e_is(d, size, 0), "it selects from an empty dimension")) return 0;
    if (hn_sym_prove_le(sym, e_int(d, 0), index)) return index;
    if (hn_sym_prove_lt(sym, index, e_int(d, 0))) return e_add(d, index, size);
    return hn_sym_mod(sym, index, size);
}

void hn_dec_select(hn_dec *d) {
    hn_value x = hn_dec_tensor(d, 0);
    uint32_t dim = hn_dec_dim(d, 1, m_rank(d, x));
    hn_dec_result(d, 0,
                  hn_b_select(d->g, x, dim, wrap_index(d, hn_dec_expr(d, 2), m_size(d, x, dim))));
}

/* "to the end", as exporters write it */
static bool is_end(hn_dec *d, uint32_t arg) {
    int64_t value = 0;
    return !hn_dec_has(d, arg) || (e_const(d, hn_dec_expr(d, arg), &value) && value == INT64_MAX);
}

void hn_dec_slice(hn_dec *d) {
    hn_value x = hn_dec_tensor(d, 0);
    uint32_t dim = hn_dec_dim(d, 1, m_rank(d, x));
    hn_expr start = hn_dec_has(d, 2) ? hn_dec_expr(d, 2) : 0,
            end = is_end(d, 3) ? 0 : hn_dec_expr(d, 3), count = 0;
    int64_t step = hn_dec_has(d, 4) ? hn_dec_int(d, 4) : 1;
    if (!m_require(d, step > 0, "step is not positive")) return;
    e_slice_bounds(d, m_size(d, x, dim), start, end, step, &start, &count);
    hn_dec_result(d, 0, hn_b_slice(d->g, x, dim, start, count, step));
}

void hn_dec_narrow(hn_dec *d) {
    hn_value x = hn_dec_tensor(d, 0);
    uint32_t dim = hn_dec_dim(d, 1, m_rank(d, x));
    hn_expr start = hn_dec_expr(d, 2), size = m_size(d, x, dim);
    /* start may equal size, which a remainder would turn into 0: then nothing is read */
    bool at_end = hn_sym_prove_eq(d->g->sym, start, size);
    hn_dec_result(
        d, 0, m_slice(d, x, dim, at_end ? start : wrap_index(d, start, size), hn_dec_expr(d, 3)));
}

/* Consecutive parts along `dim`, with the recorded sizes. */
static void split_along(hn_dec *d, uint32_t dim) {
    hn_value x = hn_dec_tensor(d, 0);
    hn_expr start = hn_dec_i(d, 0);
    for (uint32_t k = 0; k < d->node->result_count; k++) {
        if (!m_require(d, m_wants(d, k) && hn_dec_meta(d, k)->rank > dim,
                       "a part has no recorded size"))
            return;
        hn_expr size = hn_dec_meta(d, k)->sizes[dim];
        hn_dec_result(d, k, m_slice(d, x, dim, start, size));
        start = e_add(d, start, size);
    }
}

/* split, chunk, tensor_split in all their overloads: consecutive parts with the recorded sizes. The
 * dimension is the last parameter. */
void hn_dec_split(hn_dec *d) { split_along(d, hn_dec_dim(d, 2, m_rank(d, hn_dec_tensor(d, 0)))); }

void hn_dec_unbind(hn_dec *d) {
    hn_value x = hn_dec_tensor(d, 0);
    uint32_t dim = hn_dec_dim(d, 1, m_rank(d, x));
    for (uint32_t k = 0; k < d->node->result_count; k++)
        if (m_wants(d, k)) hn_dec_result(d, k, hn_b_select(d->g, x, dim, hn_dec_i(d, k)));
}

/* windows of `size` every `step` along a dimension; they run along a new last one */
void hn_dec_unfold(hn_dec *d) {
    hn_value x = m_at_least_1d(d, hn_dec_tensor(d, 0));
    uint32_t dim = hn_dec_dim(d, 1, m_rank(d, x));
    hn_expr size = hn_dec_expr(d, 2), step = hn_dec_expr(d, 3);
    if (!m_require(d, hn_sym_prove_lt(d->g->sym, e_int(d, 0), step), "step may not be positive"))
        return;
    hn_expr span = e_sub(d, m_size(d, x, dim), size);
    hn_expr count = e_addc(d, hn_sym_floordiv(d->g->sym, span, step), 1);
    m_shape_t shape = m_meta_shape(d, 0);
    hn_value windows = hn_b_window(d->g, x, dim, count, size, step, hn_dec_i(d, 1));
    /* a scalar unfolds to [size] */
    hn_dec_result(d, 0,
                  shape.rank < m_rank(d, windows) ? m_reshape(d, windows, shape.sizes, shape.rank)
                                                  : windows);
}

/* --- diagonals --- */

/* The number of the diagonal, small enough to be negated and multiplied. */
static int64_t diagonal_offset(hn_dec *d, uint32_t arg) {
    int64_t offset = hn_dec_int(d, arg);
    return m_require(d, offset > -INT32_MAX && offset < INT32_MAX, "the offset is out of range")
               ? offset
               : 0;
}

/* Moves dims a and b to the end, a before b. */
static hn_value dims_to_end(hn_dec *d, hn_value x, uint32_t a, uint32_t b) {
    uint32_t rank = m_rank(d, x), dims[HN_MAX_RANK], count = 0;
    for (uint32_t k = 0; k < rank; k++)
        if (k != a && k != b) dims[count++] = k;
    dims[count++] = a;
    dims[count++] = b;
    return hn_b_permute(d->g, x, dims);
}

/* Every (cols + 1)th element of the flattened matrices, from the first one on the diagonal. */
static hn_value take_diagonal(hn_dec *d, hn_value x, int64_t offset, uint32_t dim1, uint32_t dim2,
                              hn_expr length) {
    x = dims_to_end(d, x, dim1, dim2);
    if (!x) return 0;
    uint32_t rank = m_rank(d, x);
    hn_expr cols = m_size(d, x, rank - 1),
            start = offset >= 0 ? e_int(d, offset) : e_mulc(d, cols, -offset);
    int64_t known = 0;
    if (e_is(d, length, 0)) start = e_int(d, 0);
    if (e_const(d, cols, &known))
        return hn_b_slice(d->g, m_merge(d, x, rank - 2, 2), rank - 2, start, length, known + 1);
    /* a symbolic step is a stride; the matrices before it are rows * cols apart */
    m_shape_t shape = m_shape(d, x);
    hn_expr sizes[HN_MAX_RANK], strides[HN_MAX_RANK], step = e_mul(d, shape.sizes[rank - 2], cols);
    sizes[rank - 2] = length;
    strides[rank - 2] = e_addc(d, cols, 1);
    for (uint32_t k = rank - 2; k-- > 0;) {
        sizes[k] = shape.sizes[k];
        strides[k] = step;
        step = e_mul(d, step, shape.sizes[k]);
    }
    return hn_b_as_strided(d->g, x, sizes, strides, rank - 1, start);
}

void hn_dec_diagonal(hn_dec *d) {
    hn_value x = hn_dec_tensor(d, 0);
    m_shape_t shape = m_meta_shape(d, 0);
    uint32_t rank = m_rank(d, x), dim1 = hn_dec_dim(d, 2, rank), dim2 = hn_dec_dim(d, 3, rank);
    if (!m_require(d, rank >= 2 && shape.rank == rank - 1 && dim1 != dim2,
                   "the diagonal needs two dimensions"))
        return;
    hn_dec_result(d, 0,
                  take_diagonal(d, x, diagonal_offset(d, 1), dim1, dim2, shape.sizes[rank - 2]));
}

/* Matrices with x's last dim on a diagonal: x padded to their size, kept where column - row =
 * offset. */
static hn_value put_diagonal(hn_dec *d, hn_value x, int64_t offset) {
    uint32_t rank = m_rank(d, x);
    x = m_pad_dim(d, x, rank - 1, e_int(d, 0), e_int(d, offset < 0 ? -offset : offset),
                  hn_scalar_i(e_int(d, 0)));
    hn_expr n = m_size(d, x, rank - 1);
    hn_value rows = m_along(d, m_iota(d, n, HN_DTYPE_I64), 0, 2),
             cols = m_along(d, m_iota(d, n, HN_DTYPE_I64), 1, 2);
    hn_value on = m_bin_c(d, HN_OP_EQ, m_sub(d, cols, rows), (double)offset);
    x = hn_b_unsqueeze(d->g, x, offset >= 0 ? rank : rank - 1);
    return m_where(d, on, x, m_c(d, x, 0));
}

void hn_dec_diag_embed(hn_dec *d) {
    hn_value x = hn_dec_tensor(d, 0);
    uint32_t rank = m_rank(d, x) + 1, dims[HN_MAX_RANK], next = 0;
    if (!m_require(d, rank >= 2 && rank <= HN_MAX_RANK, "the rank of the result is not 2 to 16"))
        return;
    uint32_t dim1 = hn_dec_dim(d, 2, rank), dim2 = hn_dec_dim(d, 3, rank);
    for (uint32_t k = 0; k < rank; k++)
        dims[k] = k == dim1 ? rank - 2 : k == dim2 ? rank - 1 : next++;
    hn_dec_result(d, 0, hn_b_permute(d->g, put_diagonal(d, x, diagonal_offset(d, 1)), dims));
}

/* a vector becomes a matrix, a matrix gives its diagonal */
void hn_dec_diag(hn_dec *d) {
    hn_value x = hn_dec_tensor(d, 0);
    int64_t offset = diagonal_offset(d, 1);
    if (m_rank(d, x) == 1) hn_dec_result(d, 0, put_diagonal(d, x, offset));
    else if (m_require(d, m_rank(d, x) == 2, "the operand is neither a vector nor a matrix"))
        hn_dec_result(d, 0, take_diagonal(d, x, offset, 0, 1, m_meta_shape(d, 0).sizes[0]));
}

/* aten.diagflat(self, offset): all elements in a row on a diagonal */
void hn_dec_diagflat(hn_dec *d) {
    hn_value x = hn_dec_tensor(d, 0);
    hn_expr numel = x ? hn_numel(d->g, x) : 0;
    hn_dec_result(d, 0, put_diagonal(d, m_reshape(d, x, &numel, 1), diagonal_offset(d, 1)));
}

/* Positions need not ascend: each part is a slice from one to the next. */
static void split_before(hn_dec *d, uint32_t dim) {
    hn_value x = hn_dec_tensor(d, 0);
    hn_expr at[HN_MAX_RANK];
    uint32_t count = hn_dec_exprs(d, 1, at);
    if (!m_require(d, d->node->result_count <= count + 1,
                   "a split has another number of parts than positions"))
        return;
    for (uint32_t k = 0; k < d->node->result_count; k++) {
        hn_expr start = 0, size = 0;
        e_slice_bounds(d, m_size(d, x, dim), k ? at[k - 1] : 0, k < count ? at[k] : 0, 1, &start,
                       &size);
        if (m_wants(d, k)) hn_dec_result(d, k, m_slice(d, x, dim, start, size));
    }
}

static uint32_t column_dim(hn_dec *d) { return m_rank(d, hn_dec_tensor(d, 0)) > 1 ? 1 : 0; }

/* aten.tensor_split.indices(self, indices, dim), hsplit, vsplit, dsplit (self, sections or
 * indices) */
void hn_dec_split_indices(hn_dec *d) {
    split_before(d, hn_dec_dim(d, 2, m_rank(d, hn_dec_tensor(d, 0))));
}
void hn_dec_hsplit(hn_dec *d) { split_along(d, column_dim(d)); }
void hn_dec_vsplit(hn_dec *d) { split_along(d, 0); }
void hn_dec_dsplit(hn_dec *d) { split_along(d, 2); }
void hn_dec_hsplit_indices(hn_dec *d) { split_before(d, column_dim(d)); }
void hn_dec_vsplit_indices(hn_dec *d) { split_before(d, 0); }
void hn_dec_dsplit_indices(hn_dec *d) { split_before(d, 2); }
