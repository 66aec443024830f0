/* decompose_dynamic.c: numbers and sizes that only the data tells, and assertions about them. The importer
 * records a DATA symbol where PyTorch has an unbacked one; here the primitive is made that defines it. */
#include "opt/decompose_math.h"
#include "opt/decompose_operands.h"

static bool is_data_symbol(const hn_dec *d, hn_expr e) {
    const hn_sym *sym = d->g->sym;
    return e && hn_sym_kind(sym, e) == HN_EXPR_SYMBOL && hn_sym_symbol_kind(sym, e) == HN_SYMBOL_DATA;
}

/* --- numbers --- */

/* A number that export has specialised to a constant needs no node. */
static void read_number(hn_dec *d, hn_value x) {
    const hn_value_info *meta = hn_dec_meta(d, 0);
    if (!m_wants(d, 0) || (meta->kind == HN_VALUE_SYM_INT && meta->expr && !is_data_symbol(d, meta->expr))) return;
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

/* The coordinates of what is not 0, [count, rank]; `count` must be a symbol that nothing else defines. */
static hn_value positions(hn_dec *d, hn_value x, hn_expr count) {
    if (!m_require(d, is_data_symbol(d, count), "the recorded number of results is not data-dependent")) return 0;
    return hn_b_nonzero(d->g, x, count);
}

void hn_dec_nonzero(hn_dec *d) {
    if (m_meta_shape(d, 0).rank == 2) hn_dec_result(d, 0, positions(d, hn_dec_tensor(d, 0), m_meta_shape(d, 0).sizes[0]));
    else hn_dec_unsupported(d, "the recorded result is not a matrix");
}

/* x[mask], x and mask broadcast */
void hn_dec_masked_select(hn_dec *d) {
    hn_value x = hn_dec_tensor(d, 0), mask = hn_dec_tensor(d, 1), indices[HN_MAX_RANK];
    m_shape_t xs = m_shape(d, x), ms = m_shape(d, mask), both = {0}, result = m_meta_shape(d, 0);
    hn_status status = hn_broadcast(d->g, xs.sizes, xs.rank, ms.sizes, ms.rank, both.sizes, &both.rank);
    if (status) hn_graph_fail(d->g, status);
    if (both.rank == 0) both = (m_shape_t){.rank = 1, .sizes = {e_int(d, 1)}}; /* a scalar is a vector of one here */
    if (!m_require(d, result.rank == 1, "the recorded result is not a vector")) return;
    hn_value at = positions(d, m_expand(d, mask, &both), result.sizes[0]);
    for (uint32_t k = 0; k < both.rank; k++) indices[k] = at ? hn_b_select(d->g, at, 1, e_int(d, k)) : 0;
    if (at) hn_dec_result(d, 0, hn_b_index(d->g, m_expand(d, x, &both), indices, both.rank, false));
}

/* Element i of the result comes from place k, the number of running sums of `repeats` that are <= i. */
void hn_dec_repeat_interleave_tensor(hn_dec *d) {
    hn_value x = hn_dec_tensor(d, 0), repeats = m_index64(d, m_at_least_1d(d, hn_dec_tensor(d, 1)));
    bool flat = !hn_dec_has(d, 2);
    if (flat) x = m_merge(d, m_at_least_1d(d, x), 0, m_rank(d, m_at_least_1d(d, x)));
    uint32_t dim = flat ? 0 : hn_dec_dim(d, 2, m_rank(d, x));
    m_shape_t counts = {.rank = 1, .sizes = {m_size(d, x, dim)}};
    hn_expr total = m_meta_shape(d, 0).sizes[dim];
    repeats = m_expand(d, repeats, &counts);
    if (is_data_symbol(d, total) && !hn_dec_has(d, 3))
        hn_b_item(d->g, m_reduce_all(d, HN_OP_SUM, repeats), HN_VALUE_SYM_INT, total);
    hn_value ends = m_along(d, hn_b_scan(d->g, HN_OP_CUMSUM, repeats, 0, NULL), 1, 2);
    hn_value i = m_along(d, m_iota(d, total, HN_DTYPE_I64), 0, 2);
    hn_value passed = m_cast(d, m_bin(d, HN_OP_LE, ends, i), HN_DTYPE_I64);
    hn_dec_result(d, 0, m_take_dim(d, x, dim, m_reduce1(d, HN_OP_SUM, passed, 1, false)));
}

/* Runs of equal elements of the flattened tensor: results are one element of each, the run of every
 * element, and the lengths. A run begins where an element differs from the one before. */
void hn_dec_unique_consecutive(hn_dec *d) {
    hn_value x = hn_dec_tensor(d, 0);
    m_shape_t shape = m_shape(d, x), one = {.rank = 1, .sizes = {e_int(d, 1)}};
    if (!m_require(d, !hn_dec_has(d, 3), "dim is given")) return;
    x = m_merge(d, m_at_least_1d(d, x), 0, shape.rank ? shape.rank : 1);
    hn_expr n = m_size(d, x, 0), rest = e_addc(d, n, -1);
    if (!m_require(d, hn_sym_prove_lt(d->g->sym, e_int(d, 0), n), "the operand may be empty")) return;
    hn_value changed = m_bin(d, HN_OP_NE, m_slice(d, x, 0, e_int(d, 1), rest), m_slice(d, x, 0, e_int(d, 0), rest));
    hn_value begins = hn_b_cat(d->g, (hn_value[]){m_full(d, &one, 1, HN_DTYPE_BOOL), changed}, 2, 0);
    hn_value at = positions(d, begins, m_meta_shape(d, 0).sizes[0]);
    if (!at) return;
    hn_value starts = hn_b_select(d->g, at, 1, e_int(d, 0));
    hn_dec_result(d, 0, hn_b_index(d->g, x, &starts, 1, false));
    if (m_wants(d, 1) && hn_dec_bool(d, 1)) {
        hn_value runs = hn_b_scan(d->g, HN_OP_CUMSUM, m_cast(d, begins, HN_DTYPE_I64), 0, NULL);
        hn_dec_result(d, 1, m_reshape(d, m_sub_c(d, runs, 1), shape.sizes, shape.rank));
    } else if (m_wants(d, 1)) {
        m_shape_t none = m_meta_shape(d, 1);
        hn_dec_result(d, 1, m_zeros(d, &none, HN_DTYPE_I64));
    }
    if (m_wants(d, 2) && hn_dec_bool(d, 2)) {
        hn_value end = m_expand(d, m_size_as(d, n, HN_DTYPE_I64), &one);
        hn_expr count = m_size(d, starts, 0);
        hn_value next = hn_b_cat(d->g, (hn_value[]){m_slice(d, starts, 0, e_int(d, 1), e_addc(d, count, -1)), end}, 2, 0);
        hn_dec_result(d, 2, m_sub(d, next, starts));
    } else if (m_wants(d, 2)) {
        m_shape_t none = m_meta_shape(d, 2);
        hn_dec_result(d, 2, m_zeros(d, &none, HN_DTYPE_I64));
    }
}
