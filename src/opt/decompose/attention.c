/* attention.c: scaled dot product attention -> ATTENTION. What training adds is attention_training.c.
 *
 * Shapes: q [B.., H, m, d], k [B.., Hkv, n, d], v [B.., Hkv, n, dv]; ATTENTION wants equal batch
 * dims, so that sizes of 1 are expanded here. Mask, scale and causality stay as they are given. */
#include "opt/decompose/attention.h"

#include <math.h>

/* Expands the dims before the head of k and v to those of q and the other way round. */
static bool match_batches(hn_dec *d, hn_attention *a) {
    hn_value *operands[3] = {&a->q, &a->k, &a->v};
    m_shape_t batch = {.rank = 0};
    for (uint32_t k = 0; k < 3; k++) {
        m_shape_t s = m_shape(d, *operands[k]);
        if (s.rank < 3) return false;
        m_shape_t both;
        hn_status status = hn_broadcast(d->g, batch.sizes, batch.rank, s.sizes, s.rank - 3,
                                        both.sizes, &both.rank);
        if (status) {
            hn_graph_fail(d->g, status);
            return false;
        }
        batch = both;
    }
    for (uint32_t k = 0; k < 3; k++) {
        m_shape_t s = m_shape(d, *operands[k]), to = batch;
        for (uint32_t j = s.rank - 3; j < s.rank; j++) to.sizes[to.rank++] = s.sizes[j];
        *operands[k] = m_expand(d, *operands[k], &to);
    }
    return true;
}

/* k and v may have fewer heads than q (grouped queries), but as many as each other. */
static void match_heads(hn_dec *d, hn_attention *a) {
    uint32_t head = m_rank(d, a->k) - 3;
    hn_expr k_heads = m_size(d, a->k, head), v_heads = m_size(d, a->v, head);
    if (!a->k || !a->v || e_eq(d, k_heads, v_heads)) return;
    hn_value *one = e_is(d, k_heads, 1) ? &a->k : &a->v;
    m_shape_t s = m_shape(d, *one);
    s.sizes[head] = e_is(d, k_heads, 1) ? v_heads : k_heads;
    *one = m_expand(d, *one, &s);
}

bool hn_attention_read(hn_dec *d, const hn_attention_args *at, hn_attention *out) {
    *out = (hn_attention){.q = hn_dec_tensor(d, at->query),
                          .k = hn_dec_tensor(d, at->query + 1u),
                          .v = hn_dec_tensor(d, at->query + 2u),
                          .mask = at->mask ? hn_dec_tensor(d, at->mask) : 0,
                          .causal = hn_dec_bool(d, at->causal)};
    uint32_t rank = m_rank(d, out->q);
    out->dropout = hn_dec_float(d, at->dropout);
    if (!m_require(d, rank >= 2 && m_rank(d, out->k) >= 2 && m_rank(d, out->v) >= 2,
                   "attention wants at least two dimensions"))
        return false;
    out->is_flat = rank == 2 && m_rank(d, out->k) == 2 && m_rank(d, out->v) == 2;
    hn_value *operands[3] = {&out->q, &out->k, &out->v};
    for (uint32_t k = 0; k < 3; k++)
        if (m_rank(d, *operands[k]) == 2) *operands[k] = hn_b_unsqueeze(d->g, *operands[k], 0);
    if (hn_dec_has(d, at->scale)) {
        out->scale = hn_dec_float(d, at->scale);
    } else {
        int64_t width = 0;
        hn_value q = out->q;
        bool known = q && e_const(d, m_size(d, q, m_rank(d, q) - 1), &width) && width > 0;
        if (!m_require(d, known, "attention without a scale needs a head size that is known"))
            return false;
        out->scale = 1 / sqrt((double)width);
    }
    if (!match_batches(d, out)) return false;
    match_heads(d, out);
    return true;
}

/* How many query heads share a head of keys. */
static hn_expr group_of(hn_dec *d, hn_value x, hn_value keys) {
    uint32_t head = m_rank(d, keys) - 3;
    return hn_sym_floordiv(d->g->sym, m_size(d, x, head), m_size(d, keys, head));
}

hn_value hn_attention_rows(hn_dec *d, hn_value x, hn_value keys) {
    uint32_t rank = m_rank(d, x);
    if (!x || !keys || e_eq(d, m_size(d, x, rank - 3), m_size(d, keys, rank - 3))) return x;
    m_shape_t s = m_shape(d, x);
    s.sizes[rank - 2] = e_mul(d, s.sizes[rank - 2], group_of(d, x, keys));
    s.sizes[rank - 3] = m_size(d, keys, rank - 3);
    return m_reshape(d, x, s.sizes, rank);
}

hn_value hn_attention_product(hn_dec *d, hn_value rows, hn_value y) {
    m_shape_t s = m_shape(d, rows);
    if (!rows || !y) return 0;
    hn_value x = hn_attention_rows(d, rows, y), product = hn_b_matmul(d->g, x, y, 0);
    s.sizes[s.rank - 1] = m_size(d, y, s.rank - 1);
    return x == rows ? product : m_reshape(d, product, s.sizes, s.rank);
}

hn_value hn_attention_scores(hn_dec *d, const hn_attention *a) {
    uint32_t rank = m_rank(d, a->q);
    hn_dtype math = hn_dec_opmath(m_dtype(d, a->q));
    if (!a->q || !a->k) return 0;
    hn_expr keys = m_size(d, a->k, rank - 2);
    hn_value k_t = hn_b_transpose(d->g, m_cast(d, a->k, math), rank - 2, rank - 1);
    hn_value scores = m_mul_c(d, hn_attention_product(d, m_cast(d, a->q, math), k_t), a->scale);
    if (a->causal) {
        hn_value row = hn_b_unsqueeze(d->g, m_iota(d, m_size(d, a->q, rank - 2), HN_DTYPE_I64), 1);
        hn_value col = m_iota(d, keys, HN_DTYPE_I64);
        scores = m_where(d, m_bin(d, HN_OP_LE, col, row), scores, m_c(d, scores, -INFINITY));
    }
    if (a->mask && m_dtype(d, a->mask) == HN_DTYPE_BOOL)
        return m_where(d, a->mask, scores, m_c(d, scores, -INFINITY));
    return a->mask ? m_add(d, scores, m_cast(d, a->mask, math)) : scores;
}

/* Every step of its own: the weights are dropped between the softmax and the second product. */
static hn_value attend_with_dropout(hn_dec *d, const hn_attention *a) {
    hn_value scores = hn_attention_scores(d, a), kept;
    if (!scores) return 0;
    uint32_t last = m_rank(d, scores) - 1;
    hn_value max = m_reduce1(d, HN_OP_AMAX, scores, last, true);
    hn_value masked = m_bin_c(d, HN_OP_EQ, max, -INFINITY); /* the whole row: it gives 0 */
    hn_value e = m_exp(d, m_sub(d, scores, m_where(d, masked, m_c(d, max, 0), max)));
    hn_value sum = m_reduce1(d, HN_OP_SUM, e, last, true);
    hn_value weights = m_div(d, e, m_where(d, masked, m_c(d, sum, 1), sum));
    hn_value v = m_cast(d, a->v, m_dtype(d, weights));
    return m_cast(d, hn_attention_product(d, hn_dec_drop(d, weights, a->dropout, &kept), v),
                  m_dtype(d, a->q));
}

/* A mask for merged batch dims: one that is the same for all of them stays as small as it is. */
static hn_value merge_mask(hn_dec *d, hn_value mask, const m_shape_t *batch) {
    uint32_t rank = m_rank(d, mask), before = rank > 3 ? rank - 3 : 0;
    bool is_same = true;
    if (!before) return mask;
    m_shape_t s = m_shape(d, mask), to = *batch;
    for (uint32_t k = 0; k < before; k++) is_same &= e_is(d, s.sizes[k], 1);
    if (is_same) return m_merge(d, mask, 0, before);
    for (uint32_t k = before; k < rank; k++) to.sizes[to.rank++] = s.sizes[k];
    return m_merge(d, m_expand(d, mask, &to), 0, batch->rank);
}

/* Kernels know one batch dim; several are one for them. */
static hn_value attend_merged(hn_dec *d, const hn_attention *a) {
    m_shape_t q = m_shape(d, a->q), batch = q, out = q;
    batch.rank = q.rank - 3;
    hn_value parts[3] = {a->q, a->k, a->v}, mask = a->mask ? merge_mask(d, a->mask, &batch) : 0;
    for (uint32_t k = 0; k < 3; k++) parts[k] = m_merge(d, parts[k], 0, batch.rank);
    out.sizes[out.rank - 1] = m_size(d, a->v, q.rank - 1);
    return m_reshape(d,
                     hn_b_attention(d->g, parts[0], parts[1], parts[2], mask, a->scale, a->causal),
                     out.sizes, out.rank);
}

hn_value hn_attention_output(hn_dec *d, const hn_attention *a) {
    if (a->dropout == 0 && m_rank(d, a->q) > 4) return attend_merged(d, a);
    hn_value r = a->dropout > 0
                     ? attend_with_dropout(d, a)
                     : hn_b_attention(d->g, a->q, a->k, a->v, a->mask, a->scale, a->causal);
    return r && a->is_flat ? hn_b_squeeze(d->g, r, 0) : r;
}

/* aten.scaled_dot_product_attention(query, key, value, attn_mask, dropout_p, is_causal, *, scale,
 * enable_gqa): the head counts themselves tell whether queries are grouped */
void hn_dec_sdpa(hn_dec *d) {
    hn_attention a;
    const hn_attention_args at = {.query = 0, .mask = 3, .dropout = 4, .causal = 5, .scale = 6};
    if (hn_attention_read(d, &at, &a)) m_result(d, 0, hn_attention_output(d, &a));
}
