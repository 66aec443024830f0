/* join.c: joining tensors (cat, stack) and repeating or reversing them (repeat, flip, rot90). */
#include "opt/decompose/math.h"

/* --- cat and its relatives --- */

/* A [0] tensor joins anything, whatever the other ranks are: PyTorch's old empty tensor. */
static bool is_old_empty(const hn_dec *d, hn_value x) {
    return m_rank(d, x) == 1 && e_is(d, m_size(d, x, 0), 0);
}

/* Operands in the recorded dtype, without the old empty ones. Returns how many. */
static uint32_t joinable(hn_dec *d, const hn_value *xs, uint32_t count, hn_value *out) {
    uint32_t kept = 0;
    for (uint32_t k = 0; k < count; k++)
        if (!is_old_empty(d, xs[k])) out[kept++] = m_cast(d, xs[k], m_meta_dtype(d, 0));
    return kept;
}

static void join(hn_dec *d, const hn_value *xs, uint32_t count, uint32_t dim) {
    m_shape_t shape = m_meta_shape(d, 0);
    if (count == 0) hn_dec_result(d, 0, m_zeros(d, &shape, m_meta_dtype(d, 0)));
    else hn_dec_result(d, 0, count == 1 ? xs[0] : hn_b_cat(d->g, xs, count, dim));
}

static hn_value *value_list(hn_dec *d, uint32_t count) {
    hn_value *list = hn_arena_alloc(d->scratch, (count + 1) * sizeof *list);
    m_require(d, list != NULL, "out of memory");
    return list;
}

void hn_dec_cat(hn_dec *d) {
    const hn_value *xs = NULL;
    uint32_t count = hn_dec_tensors(d, 0, &xs), dim = hn_dec_dim(d, 1, m_meta_shape(d, 0).rank);
    hn_value *list = value_list(d, count);
    if (list) join(d, list, joinable(d, xs, count, list), dim);
}

void hn_dec_stack(hn_dec *d) {
    const hn_value *xs = NULL;
    uint32_t count = hn_dec_tensors(d, 0, &xs), dim = hn_dec_dim(d, 1, m_meta_shape(d, 0).rank);
    hn_value *list = value_list(d, count);
    if (!list) return;
    for (uint32_t k = 0; k < count; k++)
        list[k] = hn_b_unsqueeze(d->g, m_cast(d, xs[k], m_meta_dtype(d, 0)), dim);
    join(d, list, count, dim);
}

/* vectors along dim 0, all else along dim 1 */
void hn_dec_hstack(hn_dec *d) {
    const hn_value *xs = NULL;
    uint32_t count = hn_dec_tensors(d, 0, &xs);
    hn_value *list = value_list(d, count);
    if (!list) return;
    for (uint32_t k = 0; k < count; k++)
        list[k] = m_cast(d, m_at_least_1d(d, xs[k]), m_meta_dtype(d, 0));
    join(d, list, count, m_meta_shape(d, 0).rank > 1 ? 1 : 0);
}

/* a vector counts as one row */
void hn_dec_vstack(hn_dec *d) {
    const hn_value *xs = NULL;
    uint32_t count = hn_dec_tensors(d, 0, &xs);
    hn_value *list = value_list(d, count);
    if (!list) return;
    for (uint32_t k = 0; k < count; k++) {
        hn_value x = m_cast(d, m_at_least_1d(d, xs[k]), m_meta_dtype(d, 0));
        list[k] = m_rank(d, x) < 2 ? hn_b_unsqueeze(d->g, x, 0) : x;
    }
    join(d, list, count, 0);
}

/* --- repeat --- */

/* x's dim k occurs reps[k] times: each repeated dim [n] becomes [1, n], is expanded to [r, n] and
 * merged. */
static hn_value repeat(hn_dec *d, hn_value x, const hn_expr *reps) {
    m_shape_t shape = m_shape(d, x), split = {0}, wide = {0}, out = {.rank = shape.rank};
    for (uint32_t k = 0; k < shape.rank; k++) {
        bool once = e_is(d, reps[k], 1);
        if (!m_require(d, split.rank + (once ? 1 : 2) <= HN_MAX_RANK,
                       "the rank of an intermediate result is above 16"))
            return 0;
        if (!once) {
            split.sizes[split.rank++] = e_int(d, 1);
            wide.sizes[wide.rank++] = reps[k];
        }
        split.sizes[split.rank++] = wide.sizes[wide.rank++] = shape.sizes[k];
        out.sizes[k] = e_mul(d, reps[k], shape.sizes[k]);
    }
    x = m_expand(d, m_reshape(d, x, split.sizes, split.rank), &wide);
    return m_reshape(d, x, out.sizes, out.rank);
}

/* repeat and tile: counts and sizes are aligned at the last dimension, missing ones are 1 */
void hn_dec_repeat(hn_dec *d) {
    hn_value x = hn_dec_tensor(d, 0);
    hn_expr listed[HN_MAX_RANK], reps[HN_MAX_RANK];
    m_shape_t shape = m_shape(d, x), lead = {0}, result = m_meta_shape(d, 0);
    uint32_t count = hn_dec_exprs(d, 1, listed), rank = count > shape.rank ? count : shape.rank;
    for (uint32_t k = 0; k < result.rank; k++) {
        if (!e_is(d, result.sizes[k], 0)) continue;
        hn_dec_result(d, 0, m_zeros(d, &result, m_dtype(d, x)));
        return;
    }
    for (lead.rank = 0; lead.rank < rank; lead.rank++) {
        uint32_t k = lead.rank, from_end = rank - k;
        reps[k] = from_end <= count ? listed[count - from_end] : e_int(d, 1);
        lead.sizes[k] = from_end <= shape.rank ? shape.sizes[shape.rank - from_end] : e_int(d, 1);
    }
    hn_dec_result(d, 0, repeat(d, m_reshape(d, x, lead.sizes, rank), reps));
}

/* --- reversal --- */

static hn_value flip(hn_dec *d, hn_value x, uint32_t dim) {
    return e_is(d, m_size(d, x, dim), 0) ? x : hn_b_flip(d->g, x, dim);
}

void hn_dec_flip(hn_dec *d) {
    hn_value x = hn_dec_tensor(d, 0);
    uint32_t dims[HN_MAX_RANK], count = hn_dec_dims(d, 1, m_rank(d, x), false, dims);
    for (uint32_t k = 0; k < count; k++) x = flip(d, x, dims[k]);
    hn_dec_result(d, 0, x);
}
void hn_dec_flipud(hn_dec *d) { hn_dec_result(d, 0, flip(d, hn_dec_tensor(d, 0), 0)); }
void hn_dec_fliplr(hn_dec *d) { hn_dec_result(d, 0, flip(d, hn_dec_tensor(d, 0), 1)); }

/* k quarter turns from the first dim of `dims` toward the second */
void hn_dec_rot90(hn_dec *d) {
    hn_value x = hn_dec_tensor(d, 0);
    hn_expr list[HN_MAX_RANK];
    uint32_t rank = m_rank(d, x), count = hn_dec_exprs(d, 2, list);
    int64_t turns = hn_dec_int(d, 1) & 3, a = 0, b = 1, limit = rank;
    if (count == 2 && (!e_const(d, list[0], &a) || !e_const(d, list[1], &b))) count = 0;
    a += a < 0 ? limit : 0;
    b += b < 0 ? limit : 0;
    if (!m_require(d, count == 2 && a >= 0 && a < limit && b >= 0 && b < limit && a != b,
                   "dims is out of range"))
        return;
    if (turns == 1 || turns == 2) x = flip(d, x, (uint32_t)b);
    if (turns == 2 || turns == 3) x = flip(d, x, (uint32_t)a);
    hn_dec_result(d, 0, turns & 1 ? hn_b_transpose(d->g, x, (uint32_t)a, (uint32_t)b) : x);
}

/* --- NumPy's stacking --- */

/* x with at least `rank` dims, 1 to 3, where NumPy puts the new ones: [n] becomes [1, n], then [1,
 * n, 1]. */
static hn_value at_least(hn_dec *d, hn_value x, uint32_t rank) {
    x = m_at_least_1d(d, x);
    if (rank >= 2 && m_rank(d, x) == 1) x = hn_b_unsqueeze(d->g, x, 0);
    if (rank >= 3 && m_rank(d, x) == 2) x = hn_b_unsqueeze(d->g, x, 2);
    return x;
}

/* aten.dstack(tensors) */
void hn_dec_dstack(hn_dec *d) {
    const hn_value *xs = NULL;
    uint32_t count = hn_dec_tensors(d, 0, &xs);
    hn_value *list = value_list(d, count);
    if (!list) return;
    for (uint32_t k = 0; k < count; k++)
        list[k] = at_least(d, m_cast(d, xs[k], m_meta_dtype(d, 0)), 3);
    join(d, list, count, 2);
}

/* aten.column_stack(tensors): vectors are columns */
void hn_dec_column_stack(hn_dec *d) {
    const hn_value *xs = NULL;
    uint32_t count = hn_dec_tensors(d, 0, &xs);
    hn_value *list = value_list(d, count);
    if (!list) return;
    for (uint32_t k = 0; k < count; k++) {
        hn_value x = m_at_least_1d(d, m_cast(d, xs[k], m_meta_dtype(d, 0)));
        list[k] = m_rank(d, x) < 2 ? hn_b_unsqueeze(d->g, x, 1) : x;
    }
    join(d, list, count, 1);
}

/* aten.atleast_1d, atleast_2d, atleast_3d .Sequence, broadcast_tensors: each in its recorded
 * shape */
void hn_dec_atleast_list(hn_dec *d) {
    const hn_value *xs = NULL;
    uint32_t count = hn_dec_tensors(d, 0, &xs);
    for (uint32_t k = 0; k < count && k < d->node->result_count; k++) {
        m_shape_t shape = m_meta_shape(d, k);
        if (m_wants(d, k)) hn_dec_result(d, k, m_reshape(d, xs[k], shape.sizes, shape.rank));
    }
}
void hn_dec_broadcast_tensors(hn_dec *d) {
    const hn_value *xs = NULL;
    uint32_t count = hn_dec_tensors(d, 0, &xs);
    for (uint32_t k = 0; k < count && k < d->node->result_count; k++) {
        m_shape_t shape = m_meta_shape(d, k);
        if (m_wants(d, k)) hn_dec_result(d, k, m_expand(d, xs[k], &shape));
    }
}

/* aten.cartesian_prod(tensors): the last vector runs fastest; one vector alone stays as it is */
void hn_dec_cartesian_prod(hn_dec *d) {
    const hn_value *xs = NULL;
    uint32_t count = hn_dec_tensors(d, 0, &xs);
    if (count == 1) hn_dec_result(d, 0, xs[0]);
    if (count < 2 || !m_require(d, count <= HN_MAX_RANK, "a product of more than 16 vectors"))
        return;
    hn_value columns[HN_MAX_RANK];
    m_shape_t grid = {.rank = count};
    for (uint32_t k = 0; k < count; k++) grid.sizes[k] = xs[k] ? hn_numel(d->g, xs[k]) : 0;
    for (uint32_t k = 0; k < count; k++) {
        hn_value along =
            m_along(d, m_at_least_1d(d, m_cast(d, xs[k], m_meta_dtype(d, 0))), k, count);
        columns[k] = hn_b_unsqueeze(d->g, m_merge(d, m_expand(d, along, &grid), 0, count), 1);
    }
    hn_dec_result(d, 0, hn_b_cat(d->g, columns, count, 1));
}

/* aten.block_diag(tensors): each block padded to the columns of the result */
void hn_dec_block_diag(hn_dec *d) {
    const hn_value *xs = NULL;
    uint32_t count = hn_dec_tensors(d, 0, &xs);
    hn_value *list = value_list(d, count);
    if (!list) return;
    hn_expr columns = m_meta_shape(d, 0).sizes[1], before = e_int(d, 0);
    for (uint32_t k = 0; k < count; k++) {
        hn_value x = at_least(d, m_cast(d, xs[k], m_meta_dtype(d, 0)), 2);
        hn_expr end = e_add(d, before, m_size(d, x, 1));
        list[k] =
            m_pad_dim(d, x, 1, before, e_sub(d, columns, end), m_zero_scalar(d, m_dtype(d, x)));
        before = end;
    }
    join(d, list, count, 0);
}

/* aten.pad_sequence(sequences, batch_first, padding_value, padding_side): each padded to the
 * longest */
void hn_dec_pad_sequence(hn_dec *d) {
    const hn_value *xs = NULL;
    uint32_t count = hn_dec_tensors(d, 0, &xs), batch_dim = hn_dec_bool(d, 1) ? 0 : 1;
    hn_value *list = value_list(d, count);
    m_shape_t shape = m_meta_shape(d, 0);
    if (!list ||
        !m_require(d, shape.rank >= 2, "pad_sequence wants sequences of one or more dimensions"))
        return;
    bool left = hn_str_eq(hn_dec_string(d, 3), HN_STR("left")),
         is_float = hn_dtype_is_float(m_meta_dtype(d, 0));
    double value = hn_dec_float(d, 2);
    hn_scalar border = is_float ? hn_scalar_f(value) : hn_scalar_i(e_trunc(d, value));
    for (uint32_t k = 0; k < count; k++) {
        hn_value x = m_cast(d, xs[k], m_meta_dtype(d, 0));
        hn_expr more = e_sub(d, shape.sizes[1 - batch_dim], m_size(d, x, 0)), none = e_int(d, 0);
        list[k] = hn_b_unsqueeze(
            d->g, m_pad_dim(d, x, 0, left ? more : none, left ? none : more, border), batch_dim);
    }
    join(d, list, count, batch_dim);
}
