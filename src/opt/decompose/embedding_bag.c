/* embedding_bag.c: rows of a table, looked up and put together by bags.
 *
 * Shapes: weight [rows, D], indices [N], offsets [B] (with include_last_offset [B + 1]) -> [B, D].
 * A bag begins at its offset and ends where the next one begins. Bags of one length (offsets 0, L,
 * 2L.. as nn.EmbeddingBag makes them for a matrix) are a reduction over [B, L, D]; others are added
 * to their results row by row. */
#include "opt/decompose/math.h"

typedef enum bag_mode { BAG_SUM, BAG_MEAN, BAG_MAX, BAG_COUNT } bag_mode;

typedef struct bags {
    hn_value rows; /* [N, D] in opmath, weighted */
    /* [N] in opmath: 0 where the index is the padding, which belongs to no bag; 0: all count */
    hn_value counts;
    hn_expr count; /* B */
    bag_mode mode;
} bags;

/* Schema positions that differ between the overloads: all but padding_idx (8) are the same. */
enum { ARG_MODE = 4, ARG_WEIGHTS = 6, ARG_LAST = 7, ARG_PADDING = 8 };

static bool read_bags(hn_dec *d, bool has_padding, hn_value *out_index, bags *out) {
    hn_value table = hn_dec_tensor(d, 0), index = m_index64(d, hn_dec_tensor(d, 1)),
             weights = hn_dec_tensor(d, ARG_WEIGHTS);
    int64_t mode = hn_dec_int(d, ARG_MODE);
    m_shape_t result = m_meta_shape(d, 0);
    bool fits = m_rank(d, table) == 2 && m_rank(d, index) == 1 && result.rank == 2 && mode >= 0 &&
                mode < BAG_COUNT;
    if (!m_require(
            d, fits,
            "bags want a table, a vector of indices, and the mode 0 (sum), 1 (mean) or 2 (max)"))
        return false;
    *out = (bags){.count = result.sizes[0], .mode = (bag_mode)mode};
    *out_index = index;
    if (has_padding && hn_dec_has(d, ARG_PADDING)) {
        int64_t padding = hn_dec_int(d, ARG_PADDING);
        hn_value kept = padding >= 0 ? m_bin_c(d, HN_OP_NE, index, (double)padding) : 0;
        out->counts = kept ? m_cast(d, kept, hn_dec_opmath(m_dtype(d, table))) : 0;
    }
    out->rows = m_opmath(d, hn_b_index(d->g, table, &index, 1, false));
    if (weights)
        out->rows =
            m_mul(d, out->rows, hn_b_unsqueeze(d->g, m_cast(d, weights, m_dtype(d, out->rows)), 1));
    if (!out->counts) return out->rows != 0;
    hn_value kept = hn_b_unsqueeze(d->g, m_bin_c(d, HN_OP_NE, out->counts, 0), 1);
    hn_value nothing =
        out->mode == BAG_MAX ? m_lowest(d, m_dtype(d, out->rows)) : m_c(d, out->rows, 0);
    out->rows = m_where(d, kept, out->rows, nothing);
    return out->rows != 0;
}

/* The length of all bags when offsets are 0, L, 2L.. up to N; 0 otherwise. */
static hn_expr equal_length(hn_dec *d, const bags *b, hn_expr total) {
    const hn_value_info *offsets = hn_dec_info(d, hn_dec_tensor(d, 2));
    int64_t start = 0, step = 0;
    if (!offsets || !offsets->producer || hn_dec_bool(d, ARG_LAST)) return 0;
    const hn_node_info *maker = hn_graph_node(d->g, offsets->producer);
    if (maker->op != HN_OP_IOTA) return 0;
    const hn_arg *from = &maker->args[hn_op_param_index(HN_OP_IOTA, "start")],
                 *by = &maker->args[hn_op_param_index(HN_OP_IOTA, "step")];
    if (from->kind != HN_ARG_INT || !e_const(d, from->as.expr, &start) || start != 0) return 0;
    if (by->kind != HN_ARG_INT || !e_const(d, by->as.expr, &step) || step < 1) return 0;
    return e_eq(d, e_mulc(d, b->count, step), total) ? e_int(d, step) : 0;
}

/* The results of bags of `length`, and how many indices each has. */
static hn_value reduce_equal(hn_dec *d, const bags *b, hn_expr length, hn_value *out_counts) {
    hn_expr split[2] = {b->count, length};
    hn_value counts =
        b->counts ? m_reduce1(d, HN_OP_SUM, m_split(d, b->counts, 0, split, 2), 1, false) : 0;
    m_shape_t all = {.rank = 1, .sizes = {b->count}};
    *out_counts = counts ? counts : m_expand(d, m_size_as(d, length, m_dtype(d, b->rows)), &all);
    return m_reduce1(d, b->mode == BAG_MAX ? HN_OP_AMAX : HN_OP_SUM,
                     m_split(d, b->rows, 0, split, 2), 1, false);
}

/* The same with bags as the offsets tell: element i is of the last bag whose offset is not above
 * i. */
static hn_value reduce_by_offsets(hn_dec *d, const bags *b, hn_value *out_counts) {
    hn_value offsets = m_index64(d, hn_dec_tensor(d, 2));
    hn_expr total = m_size(d, b->rows, 0);
    if (hn_dec_bool(d, ARG_LAST)) offsets = m_slice(d, offsets, 0, e_int(d, 0), b->count);
    hn_value bag = m_sub_c(d, m_count_before(d, offsets, m_iota(d, total, HN_DTYPE_I64), true), 1);
    m_shape_t flat = {.rank = 1, .sizes = {b->count}},
              full = {.rank = 2, .sizes = {b->count, m_size(d, b->rows, 1)}};
    m_shape_t each = {.rank = 1, .sizes = {total}};
    hn_dtype math = m_dtype(d, b->rows);
    hn_value ones = b->counts ? b->counts : m_full(d, &each, 1, math);
    *out_counts = hn_b_index_put(d->g, m_zeros(d, &flat, math), &bag, 1, ones, "add", false);
    hn_value start =
        b->mode == BAG_MAX ? m_expand(d, m_lowest(d, math), &full) : m_zeros(d, &full, math);
    return hn_b_index_put(d->g, start, &bag, 1, b->rows, b->mode == BAG_MAX ? "max" : "add", false);
}

/* Result 0 alone: what the gradient needs (1 to 3) is not made, and whoever uses it is told so. */
static void embedding_bag(hn_dec *d, bool has_padding) {
    bags b;
    hn_value index, counts = 0;
    if (!read_bags(d, has_padding, &index, &b)) return;
    hn_expr length = equal_length(d, &b, m_size(d, index, 0));
    hn_value r = length ? reduce_equal(d, &b, length, &counts) : reduce_by_offsets(d, &b, &counts);
    counts = counts ? hn_b_unsqueeze(d->g, counts, 1) : 0;
    if (b.mode == BAG_MEAN) r = m_div(d, r, m_max_c(d, counts, 1));
    /* an empty bag */
    if (b.mode == BAG_MAX) r = m_where(d, m_bin_c(d, HN_OP_EQ, counts, 0), m_c(d, r, 0), r);
    m_result(d, 0, r);
}

/* aten.embedding_bag(weight, indices, offsets, scale_grad_by_freq, mode, sparse,
 * per_sample_weights, include_last_offset) */
void hn_dec_embedding_bag(hn_dec *d) { embedding_bag(d, false); }
/* aten.embedding_bag.padding_idx, _embedding_bag, _embedding_bag_forward_only: with padding_idx,
 * negative for none */
void hn_dec_embedding_bag_padding(hn_dec *d) { embedding_bag(d, true); }
