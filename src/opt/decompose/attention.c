/* attention.c: scaled dot product attention -> ATTENTION.
 *
 * Shapes: q [B.., H, m, d], k [B.., Hkv, n, d], v [B.., Hkv, n, dv]; ATTENTION wants equal batch
 * dims, so that sizes of 1 are expanded here. Mask, scale and causality stay as they are given. */
#include "opt/decompose/math.h"

#include <math.h>

typedef struct attention {
    hn_value q, k, v, mask;
    double scale, dropout;
    bool causal;
    bool is_flat; /* two dims were given: heads are added and removed */
} attention;

/* Expands the dims before the head of k and v to those of q and the other way round. */
static bool match_batches(hn_dec *d, attention *a) {
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
static void match_heads(hn_dec *d, attention *a) {
    uint32_t head = m_rank(d, a->k) - 3;
    hn_expr k_heads = m_size(d, a->k, head), v_heads = m_size(d, a->v, head);
    if (!a->k || !a->v || e_eq(d, k_heads, v_heads)) return;
    hn_value *one = e_is(d, k_heads, 1) ? &a->k : &a->v;
    m_shape_t s = m_shape(d, *one);
    s.sizes[head] = e_is(d, k_heads, 1) ? v_heads : k_heads;
    *one = m_expand(d, *one, &s);
}

/* q, k and v are the arguments from `first` on. */
static bool read_attention(hn_dec *d, uint32_t first, uint32_t mask_arg, uint32_t dropout_arg,
                           uint32_t causal_arg, uint32_t scale_arg, attention *out) {
    *out = (attention){.q = hn_dec_tensor(d, first),
                       .k = hn_dec_tensor(d, first + 1),
                       .v = hn_dec_tensor(d, first + 2),
                       .mask = hn_dec_tensor(d, mask_arg),
                       .causal = hn_dec_bool(d, causal_arg)};
    uint32_t rank = m_rank(d, out->q);
    out->dropout = hn_dec_float(d, dropout_arg);
    if (!m_require(d, rank >= 2 && m_rank(d, out->k) >= 2 && m_rank(d, out->v) >= 2,
                   "attention wants at least two dimensions"))
        return false;
    out->is_flat = rank == 2 && m_rank(d, out->k) == 2 && m_rank(d, out->v) == 2;
    hn_value *operands[3] = {&out->q, &out->k, &out->v};
    for (uint32_t k = 0; k < 3; k++)
        if (m_rank(d, *operands[k]) == 2) *operands[k] = hn_b_unsqueeze(d->g, *operands[k], 0);
    if (hn_dec_has(d, scale_arg)) {
        out->scale = hn_dec_float(d, scale_arg);
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

/* scale * q k^T with the mask, [B.., H, m, n], in opmath. 0 for grouped queries, which are
 * refused. */
static hn_value scores_of(hn_dec *d, const attention *a, const char *what) {
    uint32_t rank = m_rank(d, a->q);
    hn_dtype math = hn_dec_opmath(m_dtype(d, a->q));
    m_shape_t sk = m_shape(d, a->k);
    if (!a->q || !a->k ||
        !m_require(d, e_eq(d, m_size(d, a->q, rank - 3), sk.sizes[rank - 3]), what))
        return 0;
    hn_value k_t = hn_b_transpose(d->g, m_cast(d, a->k, math), rank - 2, rank - 1);
    hn_value scores = m_mul_c(d, hn_b_matmul(d->g, m_cast(d, a->q, math), k_t, 0), a->scale);
    if (a->causal) {
        hn_value row = hn_b_unsqueeze(d->g, m_iota(d, m_size(d, a->q, rank - 2), HN_DTYPE_I64), 1);
        hn_value col = m_iota(d, sk.sizes[rank - 2], HN_DTYPE_I64);
        scores = m_where(d, m_bin(d, HN_OP_LE, col, row), scores, m_c(d, scores, -INFINITY));
    }
    if (a->mask && m_dtype(d, a->mask) == HN_DTYPE_BOOL)
        return m_where(d, a->mask, scores, m_c(d, scores, -INFINITY));
    return a->mask ? m_add(d, scores, m_cast(d, a->mask, math)) : scores;
}

/* Every step of its own: the weights are dropped between the softmax and the second product. */
static hn_value attend_with_dropout(hn_dec *d, const attention *a) {
    hn_value scores = scores_of(d, a, "attention with dropout and grouped queries"), kept;
    if (!scores) return 0;
    uint32_t last = m_rank(d, scores) - 1;
    hn_value max = m_reduce1(d, HN_OP_AMAX, scores, last, true);
    hn_value masked = m_bin_c(d, HN_OP_EQ, max, -INFINITY); /* the whole row: it gives 0 */
    hn_value e = m_exp(d, m_sub(d, scores, m_where(d, masked, m_c(d, max, 0), max)));
    hn_value sum = m_reduce1(d, HN_OP_SUM, e, last, true);
    hn_value weights = m_div(d, e, m_where(d, masked, m_c(d, sum, 1), sum));
    hn_value v = m_cast(d, a->v, m_dtype(d, weights));
    return m_cast(d, hn_b_matmul(d->g, hn_dec_drop(d, weights, a->dropout, &kept), v, 0),
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
static hn_value attend_merged(hn_dec *d, const attention *a) {
    m_shape_t q = m_shape(d, a->q), batch = q, out = q;
    batch.rank = q.rank - 3;
    hn_value parts[3] = {a->q, a->k, a->v}, mask = a->mask ? merge_mask(d, a->mask, &batch) : 0;
    for (uint32_t k = 0; k < 3; k++) parts[k] = m_merge(d, parts[k], 0, batch.rank);
    out.sizes[out.rank - 1] = m_size(d, a->v, q.rank - 1);
    return m_reshape(d,
                     hn_b_attention(d->g, parts[0], parts[1], parts[2], mask, a->scale, a->causal),
                     out.sizes, out.rank);
}

static hn_value attend(hn_dec *d, const attention *a) {
    if (a->dropout == 0 && m_rank(d, a->q) > 4) return attend_merged(d, a);
    hn_value r = a->dropout > 0
                     ? attend_with_dropout(d, a)
                     : hn_b_attention(d->g, a->q, a->k, a->v, a->mask, a->scale, a->causal);
    return r && a->is_flat ? hn_b_squeeze(d->g, r, 0) : r;
}

/* aten.scaled_dot_product_attention(query, key, value, attn_mask, dropout_p, is_causal, *, scale,
 * enable_gqa): the head counts themselves tell whether queries are grouped */
void hn_dec_sdpa(hn_dec *d) {
    attention a;
    if (read_attention(d, 0, 3, 4, 5, 6, &a)) m_result(d, 0, attend(d, &a));
}

/* log(sum(exp(scores))) for each query, [B.., H, m]; what the flash kernels save for the
 * gradient */
static hn_value log_sum_exp(hn_dec *d, const attention *a) {
    hn_value scores = scores_of(d, a, "the log-sum-exp of grouped queries");
    uint32_t rank = m_rank(d, a->q);
    if (!scores) return 0;
    hn_value max = m_reduce1(d, HN_OP_AMAX, scores, rank - 1, true);
    hn_value sum = m_reduce1(d, HN_OP_SUM, m_exp(d, m_sub(d, scores, max)), rank - 1, false);
    return m_add(d, m_log(d, sum), hn_b_squeeze(d->g, max, rank - 1));
}

/* aten._scaled_dot_product_flash_attention_for_cpu(query, key, value, dropout_p, is_causal, *,
 * attn_mask, scale)
 * -> output, logsumexp */
void hn_dec_flash_attention_cpu(hn_dec *d) {
    attention a;
    if (!read_attention(d, 0, 5, 3, 4, 6, &a)) return;
    m_result(d, 0, attend(d, &a));
    if (m_wants(d, 1)) m_result(d, 1, log_sum_exp(d, &a));
}

/* aten._scaled_dot_product_flash_attention_for_cpu_backward(grad_out, query, key, value, out,
 * logsumexp, dropout_p, is_causal, *, attn_mask, scale) -> gradients of query, key, value. With P
 * the weights and D = sum(grad_out * out) of each row: dV = P^T dO, dS = P * (dO V^T - D), dQ =
 * scale * dS K, dK = scale * dS^T Q */
void hn_dec_flash_attention_cpu_backward(hn_dec *d) {
    attention a;
    if (!read_attention(d, 1, 8, 6, 7, 9, &a) ||
        !m_require(d, a.dropout == 0, "the gradient of attention with dropout"))
        return;
    hn_value scores = scores_of(d, &a, "the gradient of grouped queries"),
             grad = m_opmath(d, hn_dec_tensor(d, 0));
    uint32_t rank = m_rank(d, a.q);
    hn_value lse = hn_dec_tensor(d, 5);
    if (!scores || !grad) return;
    /* run_decompositions() of some versions takes the forward op apart and hands the weights on in
     * place of these sums. */
    if (!m_require(d, m_rank(d, lse) == rank - 1,
                   "its log-sum-exp is none: the attention was decomposed without its gradient"))
        return;
    lse = hn_b_unsqueeze(d->g, m_cast(d, lse, m_dtype(d, scores)), rank - 1);
    /* also in rows without any weight, where lse is -inf */
    hn_value hidden = m_bin_c(d, HN_OP_EQ, scores, -INFINITY);
    hn_value weights = m_where(d, hidden, m_c(d, scores, 0), m_exp(d, m_sub(d, scores, lse)));
    hn_value sums =
        m_reduce1(d, HN_OP_SUM, m_mul(d, grad, m_opmath(d, hn_dec_tensor(d, 4))), rank - 1, true);
    hn_value v_t = hn_b_transpose(d->g, m_opmath(d, a.v), rank - 2, rank - 1);
    hn_value d_scores =
        m_mul_c(d, m_mul(d, weights, m_sub(d, hn_b_matmul(d->g, grad, v_t, 0), sums)), a.scale);
    if (!d_scores) return;
    m_result(d, 0, hn_b_matmul(d->g, d_scores, m_opmath(d, a.k), 0));
    m_result(
        d, 1,
        hn_b_matmul(d->g, hn_b_transpose(d->g, d_scores, rank - 2, rank - 1), m_opmath(d, a.q), 0));
    m_result(d, 2, hn_b_matmul(d->g, hn_b_transpose(d->g, weights, rank - 2, rank - 1), grad, 0));
}
