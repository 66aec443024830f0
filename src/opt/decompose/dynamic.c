/* dynamic.c: numbers and sizes that only the data tells, and assertions about them. The importer
 * records a DATA symbol where PyTorch has an unbacked one; here the primitive is made that defines
 * it. */
#include "opt/decompose/math.h"
#include "opt/decompose/operands.h"

static bool is_data_symbol(const hn_dec *d, hn_expr e) {
    const hn_sym *sym = d->g->sym;
    return e && hn_sym_kind(sym, e) == HN_EXPR_SYMBOL &&
           hn_sym_symbol_kind(sym, e) == HN_SYMBOL_DATA;
}

/* --- numbers --- */

/* A number that export has specialised to a constant needs no node. */
static void read_number(hn_dec *d, hn_value x) {
    const hn_value_info *meta = hn_dec_meta(d, 0);
    if (!m_wants(d, 0) ||
        (meta->kind == HN_VALUE_SYM_INT && meta->expr && !is_data_symbol(d, meta->expr)))
        return;
    hn_dec_result(d, 0, hn_b_item(d->g, x, meta->kind, meta->expr));
}

void hn_dec_item(hn_dec *d) { read_number(d, hn_dec_tensor(d, 0)); }
void hn_dec_is_nonzero(hn_dec *d) { read_number(d, m_cast(d, hn_dec_tensor(d, 0), HN_DTYPE_BOOL)); }

/* --- assertions --- */

void hn_dec__assert_async(hn_dec *d) {
    hn_b_assert(d->g, m_cast(d, hn_dec_tensor(d, 0), HN_DTYPE_BOOL), hn_dec_string(d, 1));
}

void hn_dec__assert_scalar(hn_dec *d) {
    double known = 0;
    if (hn_dec_known_number(d, 0, &known) && known != 0) return;
    hn_b_assert(d->g, hn_dec_number(d, 0, HN_DTYPE_BOOL), hn_dec_string(d, 1));
}

/* --- sizes --- */

/* The coordinates of what is not 0, [count, rank]; `count` must be a symbol that nothing else
 * defines. */
static hn_value positions(hn_dec *d, hn_value x, hn_expr count) {
    if (!m_require(d, is_data_symbol(d, count),
                   "the recorded number of results is not data-dependent"))
        return 0;
    return hn_b_nonzero(d->g, x, count);
}

void hn_dec_nonzero(hn_dec *d) {
    if (m_meta_shape(d, 0).rank == 2)
        hn_dec_result(d, 0, positions(d, hn_dec_tensor(d, 0), m_meta_shape(d, 0).sizes[0]));
    else hn_dec_unsupported(d, "the recorded result is not a matrix");
}

/* aten.where(condition): the coordinates of what is not 0, a vector for each dimension */
void hn_dec_where_true(hn_dec *d) {
    hn_value x = m_at_least_1d(d, hn_dec_tensor(d, 0)), at = 0;
    for (uint32_t k = 0; k < d->node->result_count; k++) {
        if (!m_wants(d, k)) continue;
        if (!m_require(d, m_meta_shape(d, k).rank == 1 && k < m_rank(d, x),
                       "the recorded results are not a vector for each dimension"))
            return;
        if (!at) at = positions(d, x, m_meta_shape(d, k).sizes[0]);
        hn_dec_result(d, k, at ? hn_b_select(d->g, at, 1, e_int(d, k)) : 0);
    }
}

/* torchvision.nms(dets, scores, iou_threshold): the numbers of the boxes that stay, the best ones
 * first */
void hn_dec_nms(hn_dec *d) {
    hn_value boxes = hn_dec_tensor(d, 0), order = 0;
    m_shape_t result = m_meta_shape(d, 0);
    bool is_supported = m_rank(d, boxes) == 2 &&
                        (m_dtype(d, boxes) == HN_DTYPE_F32 || m_dtype(d, boxes) == HN_DTYPE_F64);
    if (!m_require(d, is_supported && result.rank == 1,
                   "nms wants a matrix of boxes of float32 or float64"))
        return;
    hn_b_sort(d->g, hn_dec_tensor(d, 1), 0, true, true, &order);
    hn_value keep = hn_b_nms(d->g, hn_b_index(d->g, boxes, &order, 1, false), hn_dec_float(d, 2));
    hn_value at = positions(d, keep, result.sizes[0]);
    hn_value first = at ? hn_b_select(d->g, at, 1, e_int(d, 0)) : 0;
    hn_dec_result(d, 0, first ? hn_b_index(d->g, order, &first, 1, false) : 0);
}

/* aten.nonzero_static(self, *, size, fill_value): the first `size` coordinates. Each place that is
 * not 0 is put at its number among those, and what is 0 or comes too late at a row behind the
 * result. */
void hn_dec_nonzero_static(hn_dec *d) {
    hn_value x = m_at_least_1d(d, hn_dec_tensor(d, 0));
    m_shape_t shape = m_shape(d, x), result = m_meta_shape(d, 0);
    bool is_scalar = result.rank == 2 && e_is(d, result.sizes[1], 0);
    if (!x || !m_require(d, result.rank == 2, "the recorded result is not a matrix")) return;
    hn_expr size = hn_dec_expr(d, 1), numel = hn_numel(d->g, x);
    hn_value set = m_cast(d, m_reshape(d, m_cast(d, x, HN_DTYPE_BOOL), &numel, 1), HN_DTYPE_I64);
    hn_value end = m_size_as(d, size, HN_DTYPE_I64),
             place = m_sub_c(d, hn_b_scan(d->g, HN_OP_CUMSUM, set, 0, NULL), 1);
    place = m_where(d, m_bin_c(d, HN_OP_NE, set, 0), m_bin(d, HN_OP_MIN, place, end), end);
    m_shape_t slots = {.rank = 1, .sizes = {e_addc(d, size, 1)}};
    hn_value at[HN_MAX_RANK] = {0}, fill = m_full(d, &slots, hn_dec_float(d, 2), HN_DTYPE_I64),
             flat = m_iota(d, numel, HN_DTYPE_I64);
    for (uint32_t k = shape.rank; k-- > 0;) { /* the last dimension runs fastest */
        hn_value extent = m_size_as(d, shape.sizes[k], HN_DTYPE_I64);
        hn_value column = hn_b_index_put(d->g, fill, &place, 1,
                                         m_bin(d, HN_OP_REMAINDER, flat, extent), "set", false);
        at[k] = hn_b_unsqueeze(d->g, m_slice(d, column, 0, e_int(d, 0), size), 1);
        flat = m_bin(d, HN_OP_FLOORDIV, flat, extent);
    }
    m_result(d, 0,
             is_scalar ? m_zeros(d, &result, HN_DTYPE_I64) : hn_b_cat(d->g, at, shape.rank, 1));
}

/* x[mask], x and mask broadcast */
void hn_dec_masked_select(hn_dec *d) {
    hn_value x = hn_dec_tensor(d, 0), mask = hn_dec_tensor(d, 1), indices[HN_MAX_RANK];
    m_shape_t xs = m_shape(d, x), ms = m_shape(d, mask), both = {0}, result = m_meta_shape(d, 0);
    hn_status status =
        hn_broadcast(d->g, xs.sizes, xs.rank, ms.sizes, ms.rank, both.sizes, &both.rank);
    if (status) hn_graph_fail(d->g, status);
    /* a scalar is a vector of one here */
    if (both.rank == 0) both = (m_shape_t){.rank = 1, .sizes = {e_int(d, 1)}};
    if (!m_require(d, result.rank == 1, "the recorded result is not a vector")) return;
    hn_value at = positions(d, m_expand(d, mask, &both), result.sizes[0]);
    for (uint32_t k = 0; k < both.rank; k++)
        indices[k] = at ? hn_b_select(d->g, at, 1, e_int(d, k)) : 0;
    if (at) hn_dec_result(d, 0, hn_b_index(d->g, m_expand(d, x, &both), indices, both.rank, false));
}

/* Which of the counted things stands at each place of the result: place i has number k, the number
 * of running sums of `repeats` that are <= i. `total` is defined here unless `is_given`. */
static hn_value repeated(hn_dec *d, hn_value repeats, hn_expr total, bool is_given) {
    if (is_data_symbol(d, total) && !is_given)
        hn_b_item(d->g, m_reduce_all(d, HN_OP_SUM, repeats), HN_VALUE_SYM_INT, total);
    hn_value ends = m_along(d, hn_b_scan(d->g, HN_OP_CUMSUM, repeats, 0, NULL), 1, 2);
    hn_value i = m_along(d, m_iota(d, total, HN_DTYPE_I64), 0, 2);
    hn_value passed = m_cast(d, m_bin(d, HN_OP_LE, ends, i), HN_DTYPE_I64);
    return m_reduce1(d, HN_OP_SUM, passed, 1, false);
}

/* aten.repeat_interleave.Tensor(repeats, output_size): the numbers themselves */
void hn_dec_repeat_interleave_index(hn_dec *d) {
    hn_value repeats = m_index64(d, hn_dec_tensor(d, 0));
    m_shape_t result = m_meta_shape(d, 0);
    if (!m_require(d, result.rank == 1 && m_rank(d, repeats) == 1, "repeats is not a vector"))
        return;
    m_result(d, 0, repeated(d, repeats, result.sizes[0], hn_dec_has(d, 1)));
}

void hn_dec_repeat_interleave_tensor(hn_dec *d) {
    hn_value x = hn_dec_tensor(d, 0), repeats = m_index64(d, m_at_least_1d(d, hn_dec_tensor(d, 1)));
    bool flat = !hn_dec_has(d, 2);
    if (flat) x = m_merge(d, m_at_least_1d(d, x), 0, m_rank(d, m_at_least_1d(d, x)));
    uint32_t dim = flat ? 0 : hn_dec_dim(d, 2, m_rank(d, x));
    m_shape_t counts = {.rank = 1, .sizes = {m_size(d, x, dim)}};
    repeats = m_expand(d, repeats, &counts);
    hn_dec_result(
        d, 0,
        m_take_dim(d, x, dim,
                   repeated(d, repeats, m_meta_shape(d, 0).sizes[dim], hn_dec_has(d, 3))));
}

/* Runs of equal elements of the vector x, which are begun by the elements of the bool vector
 * `begins`. */
typedef struct runs {
    hn_value begins, starts; /* starts: the index of each first element, [count] */
} runs;

/* A run begins where an element (of a matrix, a row) differs from the one before; nothing begins
 * where there are none. `count` is the number of runs. False when d was refused. */
static bool find_runs(hn_dec *d, hn_value x, hn_expr count, runs *out) {
    hn_value i = m_iota(d, m_size(d, x, 0), HN_DTYPE_I64), before = m_max_c(d, m_sub_c(d, i, 1), 0);
    hn_value changed = m_bin(d, HN_OP_NE, x, hn_b_index(d->g, x, &before, 1, false));
    if (m_rank(d, x) == 2) changed = m_reduce1(d, HN_OP_ANY, changed, 1, false);
    out->begins = m_bin(d, HN_OP_OR, m_bin_c(d, HN_OP_EQ, i, 0), changed);
    hn_value at = positions(d, out->begins, count);
    if (!at) return false;
    out->starts = hn_b_select(d->g, at, 1, e_int(d, 0));
    return true;
}

/* The run of each element. */
static hn_value run_numbers(hn_dec *d, const runs *r) {
    return m_sub_c(d, hn_b_scan(d->g, HN_OP_CUMSUM, m_cast(d, r->begins, HN_DTYPE_I64), 0, NULL),
                   1);
}

/* To the next start, or to the end of the n elements. */
static hn_value run_lengths(hn_dec *d, const runs *r, hn_expr n) {
    hn_expr count = m_size(d, r->starts, 0);
    hn_value next = m_add_c(d, m_iota(d, count, HN_DTYPE_I64), 1);
    hn_value last = m_size_as(d, e_addc(d, count, -1), HN_DTYPE_I64),
             inside = m_bin(d, HN_OP_LE, next, last);
    hn_value at = m_bin(d, HN_OP_MIN, next, last);
    hn_value end = m_where(d, inside, hn_b_index(d->g, r->starts, &at, 1, false),
                           m_size_as(d, n, HN_DTYPE_I64));
    return m_sub(d, end, r->starts);
}

/* Result k, or the empty tensor that PyTorch gives for one that was not asked for. */
static void optional_result(hn_dec *d, uint32_t k, bool asked, hn_value v) {
    m_shape_t none = m_meta_shape(d, k);
    if (m_wants(d, k)) hn_dec_result(d, k, asked ? v : m_zeros(d, &none, HN_DTYPE_I64));
}

/* Where each element stands in the sorted order: `numbers` by sorted place, put where `order` says
 * they come from. */
static hn_value unsorted(hn_dec *d, hn_value numbers, hn_value order) {
    m_shape_t flat = m_shape(d, order);
    return hn_b_index_put(d->g, m_zeros(d, &flat, HN_DTYPE_I64), &order, 1, numbers, "set", false);
}

/* Slices along dim as rows of a matrix. */
static hn_value slices(hn_dec *d, hn_value x, uint32_t dim) {
    uint32_t rank = m_rank(d, x);
    hn_value rows = m_move_dim(d, x, dim, 0);
    return rank == 1 ? hn_b_unsqueeze(d->g, rows, 1) : m_merge(d, rows, 1, rank - 1);
}

enum { MAX_UNIQUE_COLUMNS = 1024 }; /* each is a sort of its own */

/* The order of the rows of a matrix: sorted by the last column first, each sort keeping the order
 * of the ones before. */
static bool row_order(hn_dec *d, hn_value rows, hn_value *out) {
    int64_t columns = 0;
    bool known = e_const(d, m_size(d, rows, 1), &columns) && columns <= MAX_UNIQUE_COLUMNS;
    if (!m_require(d, known,
                   "slices of more than 1024 elements, or of a symbolic number, cannot be sorted"))
        return false;
    *out = m_iota(d, m_size(d, rows, 0), HN_DTYPE_I64);
    for (int64_t c = columns; c-- > 0;) {
        hn_value order = 0, column = hn_b_select(d->g, rows, 1, e_int(d, c));
        hn_b_sort(d->g, hn_b_index(d->g, column, out, 1, false), 0, false, true, &order);
        *out = hn_b_index(d->g, *out, &order, 1, false);
    }
    return true;
}

/* Unique slices along dim, of a sorted order or in the order in which they stand. PyTorch gives all
 * three results whatever is asked for. */
static void unique_slices(hn_dec *d, bool sorts, uint32_t dim_arg) {
    hn_value x = m_at_least_1d(d, hn_dec_tensor(d, 0)), order = 0;
    uint32_t dim = hn_dec_dim(d, dim_arg, m_rank(d, x));
    hn_value rows = slices(d, x, dim);
    runs r;
    if (sorts && !row_order(d, rows, &order)) return;
    if (sorts) rows = hn_b_index(d->g, rows, &order, 1, false);
    if (!find_runs(d, rows, m_meta_shape(d, 0).sizes[dim], &r)) return;
    hn_value from = sorts ? hn_b_index(d->g, order, &r.starts, 1, false) : r.starts;
    hn_dec_result(d, 0, m_take_dim(d, x, dim, from));
    if (m_wants(d, 1))
        hn_dec_result(d, 1, sorts ? unsorted(d, run_numbers(d, &r), order) : run_numbers(d, &r));
    if (m_wants(d, 2)) hn_dec_result(d, 2, run_lengths(d, &r, m_size(d, rows, 0)));
}

/* aten.unique_dim(self, dim, sorted, return_inverse, return_counts): sorted whatever `sorted`
 * says */
void hn_dec_unique_dim(hn_dec *d) { unique_slices(d, true, 1); }

/* aten.unique_consecutive(self, return_inverse, return_counts, dim) of slices or of the flattened
 * tensor */
void hn_dec_unique_consecutive(hn_dec *d) {
    hn_value x = hn_dec_tensor(d, 0);
    m_shape_t shape = m_shape(d, x);
    runs r;
    if (hn_dec_has(d, 3)) {
        unique_slices(d, false, 3);
        return;
    }
    x = m_merge(d, m_at_least_1d(d, x), 0, shape.rank ? shape.rank : 1);
    if (!find_runs(d, x, m_meta_shape(d, 0).sizes[0], &r)) return;
    hn_dec_result(d, 0, hn_b_index(d->g, x, &r.starts, 1, false));
    bool inverse = m_wants(d, 1) && hn_dec_bool(d, 1), counts = m_wants(d, 2) && hn_dec_bool(d, 2);
    optional_result(d, 1, inverse,
                    inverse ? m_reshape(d, run_numbers(d, &r), shape.sizes, shape.rank) : 0);
    optional_result(d, 2, counts, counts ? run_lengths(d, &r, m_size(d, x, 0)) : 0);
}

/* aten._unique2(self, sorted, return_inverse, return_counts), aten._unique(self, sorted,
 * return_inverse): the runs of the sorted elements. PyTorch sorts on the CPU whatever `sorted`
 * says. */
void hn_dec_unique2(hn_dec *d) {
    hn_value x = hn_dec_tensor(d, 0), order = 0;
    m_shape_t shape = m_shape(d, x);
    runs r;
    x = m_merge(d, m_at_least_1d(d, x), 0, shape.rank ? shape.rank : 1);
    hn_value sorted = hn_b_sort(d->g, x, 0, false, true, &order);
    if (!find_runs(d, sorted, m_meta_shape(d, 0).sizes[0], &r)) return;
    hn_dec_result(d, 0, hn_b_index(d->g, sorted, &r.starts, 1, false));
    bool inverse = m_wants(d, 1) && hn_dec_bool(d, 2), counts = m_wants(d, 2) && hn_dec_bool(d, 3);
    hn_value places =
        inverse ? m_reshape(d, unsorted(d, run_numbers(d, &r), order), shape.sizes, shape.rank) : 0;
    optional_result(d, 1, inverse, places);
    optional_result(d, 2, counts, counts ? run_lengths(d, &r, m_size(d, x, 0)) : 0);
}
