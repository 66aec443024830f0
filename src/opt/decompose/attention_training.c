/* attention_training.c: what training needs of attention: the operators that give the log-sum-exp of
 * each row beside the result, and their gradients.
 *
 * PyTorch has one pair of operators for each kernel that it may choose. They differ in where their
 * arguments are, and in what a row of results looks like (`variant`). Of random numbers there is
 * nothing: dropout is refused, since a gradient would have to draw PyTorch's numbers again.
 *
 * With P = exp(scores - lse) and D = sum(grad * out) of each row:
 *   dV = P^T grad, dS = P * (grad V^T - D), dQ = scale * dS K, dK = scale * dS^T Q.
 * A mask that is added has the gradient dS. */
#include "opt/decompose/attention.h"

#include <math.h>

/* --- the operators --- */

typedef struct variant {
    hn_attention_args at;
    uint8_t debug_mask;    /* 0: none, as everywhere here; of the forward operator, */
    uint8_t wants_lse;     /* and so is this: false: an empty one */
    uint8_t out, lse;      /* of the gradient; grad_out is argument 0 */
    uint8_t wanted;        /* the list that says whether a gradient of the mask is wanted */
    bool is_square_causal; /* elsewhere the triangle would end in the last row and column */
    bool is_dead_row_zero; /* the log-sum-exp of a row without keys, which else is -inf */
} variant;

/* --- what both ways share --- */

static bool read_use(hn_dec *d, const variant *v, hn_attention *a) {
    if (!hn_attention_read(d, &v->at, a) ||
        !m_require(d, a->dropout == 0, "attention with dropout and a log-sum-exp") ||
        !m_require(d, !v->debug_mask || !hn_dec_bool(d, v->debug_mask), "a debug mask"))
        return false;
    uint32_t rows = m_rank(d, a->q) - 2;
    return m_require(d,
                     !v->is_square_causal || !a->causal ||
                         e_eq(d, m_size(d, a->q, rows), m_size(d, a->k, rows)),
                     "causal flash attention of other than as many queries as keys");
}

/* --- forward --- */

/* [B.., H, m] */
static hn_value log_sum_exp(hn_dec *d, const variant *v, const hn_attention *a) {
    hn_value scores = hn_attention_scores(d, a);
    uint32_t last = m_rank(d, a->q) - 1;
    if (!scores) return 0;
    hn_value max = m_reduce1(d, HN_OP_AMAX, scores, last, true);
    hn_value is_dead = m_bin_c(d, HN_OP_EQ, max, -INFINITY);
    max = m_where(d, is_dead, m_c(d, max, 0), max);
    hn_value sum = m_reduce1(d, HN_OP_SUM, m_exp(d, m_sub(d, scores, max)), last, true);
    if (v->is_dead_row_zero) sum = m_where(d, is_dead, m_c(d, sum, 1), sum);
    return hn_b_squeeze(d->g, m_add(d, m_log(d, sum), max), last);
}

/* In the recorded shape: with a last dimension of 1, with a batch of 1, or in rows of a multiple of 32,
 * whose ends are infinite. */
static hn_value lay_out_lse(hn_dec *d, hn_value lse) {
    m_shape_t to = m_meta_shape(d, 1);
    if (!lse || !to.rank) return lse;
    uint32_t rank = m_rank(d, lse);
    hn_expr rows = m_size(d, lse, rank - 1), want = to.sizes[to.rank - 1];
    if (to.rank == rank && !e_eq(d, rows, want))
        return m_pad_dim(d, lse, rank - 1, e_int(d, 0), e_sub(d, want, rows),
                         hn_scalar_f(INFINITY));
    return m_reshape(d, lse, to.sizes, to.rank);
}

/* What says nothing without dropout: seeds, and masks of debugging. */
static void zero_results(hn_dec *d, uint32_t first) {
    for (uint32_t k = first; k < d->node->result_count; k++) {
        if (!m_wants(d, k) || hn_dec_meta(d, k)->kind != HN_VALUE_TENSOR) continue;
        m_shape_t s = m_meta_shape(d, k);
        hn_dec_result(d, k, m_zeros(d, &s, m_meta_dtype(d, k)));
    }
}

static void forward(hn_dec *d, const variant *v) {
    hn_attention a;
    if (!read_use(d, v, &a)) return;
    m_result(d, 0, hn_attention_output(d, &a));
    zero_results(d, 2);
    if (!m_wants(d, 1)) return;
    if (!v->wants_lse || hn_dec_bool(d, v->wants_lse)) {
        m_result(d, 1, lay_out_lse(d, log_sum_exp(d, v, &a)));
    } else {
        m_shape_t s = m_meta_shape(d, 1);
        hn_dec_result(d, 1, m_zeros(d, &s, m_meta_dtype(d, 1)));
    }
}

/* --- backward --- */

/* [B.., H, m, 1] of what the forward operator gave. */
static hn_value read_lse(hn_dec *d, const variant *v, const hn_attention *a, hn_dtype math) {
    hn_value lse = hn_dec_tensor(d, v->lse);
    m_shape_t to = m_shape(d, a->q);
    uint32_t rank = m_rank(d, lse), last = to.rank - 1;
    /* run_decompositions() of some versions takes the forward op apart and hands the weights on in
     * place of these sums. */
    if (!m_require(d, rank + 1 >= to.rank && (rank < to.rank || e_is(d, m_size(d, lse, last), 1)),
                   "its log-sum-exp is none: the attention was decomposed without its gradient"))
        return 0;
    if (rank + 1 == to.rank && !e_eq(d, m_size(d, lse, rank - 1), to.sizes[last - 1]))
        lse = m_slice(d, lse, rank - 1, e_int(d, 0), to.sizes[last - 1]);
    to.sizes[last] = e_int(d, 1);
    return m_reshape(d, m_cast(d, lse, math), to.sizes, to.rank);
}

/* Keys and values are as they were given, not repeated for batches or for each other. */
static bool are_given(hn_dec *d, const variant *v, const hn_attention *a) {
    const hn_value read[2] = {a->k, a->v};
    for (uint32_t k = 0; k < 2; k++) {
        m_shape_t s = m_shape(d, read[k]),
                  given = m_shape(d, hn_dec_tensor(d, v->at.query + 1 + k));
        if (s.rank != given.rank) return false;
        for (uint32_t j = 0; j < s.rank; j++)
            if (!e_eq(d, s.sizes[j], given.sizes[j])) return false;
    }
    return true;
}

/* x^T y, where heads that share the keys' are rows of one. */
static hn_value transposed_product(hn_dec *d, hn_value x, hn_value y, hn_value keys) {
    uint32_t rank = m_rank(d, x);
    if (!x || !y) return 0;
    hn_value rows = hn_attention_rows(d, x, keys);
    return hn_b_matmul(d->g, hn_b_transpose(d->g, rows, rank - 2, rank - 1),
                       hn_attention_rows(d, y, keys), 0);
}

/* The sum over what the mask repeats. */
static hn_value mask_gradient(hn_dec *d, const hn_attention *a, hn_value d_scores) {
    m_shape_t s = m_shape(d, a->mask);
    uint32_t dims[HN_MAX_RANK], count = 0, rank = m_rank(d, d_scores);
    if (!d_scores) return 0;
    for (uint32_t k = 0; k < rank; k++) {
        uint32_t missing = rank - s.rank;
        if (k < missing ||
            (e_is(d, s.sizes[k - missing], 1) && !e_is(d, m_size(d, d_scores, k), 1)))
            dims[count++] = k;
    }
    if (count) d_scores = m_reduce(d, HN_OP_SUM, d_scores, dims, count, true);
    return m_reshape(d, d_scores, s.sizes, s.rank);
}

static bool wants_mask_gradient(hn_dec *d, const variant *v, const hn_attention *a) {
    enum { MASK = 3 };
    hn_expr wanted[HN_MAX_RANK];
    if (!v->wanted || !a->mask || !m_wants(d, MASK)) return false;
    return hn_dec_exprs(d, v->wanted, wanted) > MASK && !e_is(d, wanted[MASK], 0);
}

/* Whether the target computes gradients without a matrix of scores in memory. */
static bool is_target_s(hn_dec *d, const hn_attention *a) {
    const hn_operations *operations = hn_dec_operations(d);
    const uint32_t rank = m_rank(d, a->q);
    if (!operations || rank > 4) return false;
    const hn_operation *o = &operations->of[HN_EXTERN_ATTENTION_BACKWARD];
    hn_extern call = {.kind = HN_EXTERN_ATTENTION_BACKWARD};
    call.params[HN_ATTENTION_D] = m_size(d, a->q, rank - 1);
    call.params[HN_ATTENTION_DV] = m_size(d, a->v, rank - 1);
    return o->dtypes >> m_dtype(d, a->q) & 1 && (!o->takes || o->takes(d->g->sym, &call));
}

/* In one piece, which needs no sums of the forward operator. */
static void backward_whole(hn_dec *d, const variant *v, const hn_attention *a) {
    const hn_attention_grad grad = {.grad = hn_dec_tensor(d, 0),
                                    .q = a->q,
                                    .k = a->k,
                                    .v = a->v,
                                    .out = hn_dec_tensor(d, v->out),
                                    .mask = a->mask,
                                    .scale = a->scale,
                                    .causal = a->causal};
    hn_value k_v[2];
    m_result(d, 0, hn_b_attention_backward(d->g, &grad, k_v));
    m_result(d, 1, k_v[0]);
    m_result(d, 2, k_v[1]);
}

static void backward(hn_dec *d, const variant *v) {
    hn_attention a;
    if (!read_use(d, v, &a) ||
        !m_require(d, are_given(d, v, &a), "the gradient of keys or values that are repeated"))
        return;
    if (!wants_mask_gradient(d, v, &a) && is_target_s(d, &a)) {
        backward_whole(d, v, &a);
        return;
    }
    hn_value scores = hn_attention_scores(d, &a), grad = m_opmath(d, hn_dec_tensor(d, 0));
    uint32_t rank = m_rank(d, a.q);
    hn_value lse = scores ? read_lse(d, v, &a, m_dtype(d, scores)) : 0;
    if (!lse || !grad) return;
    /* also in rows without any weight, where lse is -inf */
    hn_value hidden = m_bin_c(d, HN_OP_EQ, scores, -INFINITY);
    hn_value weights = m_where(d, hidden, m_c(d, scores, 0), m_exp(d, m_sub(d, scores, lse)));
    hn_value sums = m_reduce1(d, HN_OP_SUM, m_mul(d, grad, m_opmath(d, hn_dec_tensor(d, v->out))),
                              rank - 1, true);
    hn_value v_t = hn_b_transpose(d->g, m_opmath(d, a.v), rank - 2, rank - 1);
    hn_value d_scores = m_mul(d, weights, m_sub(d, hn_attention_product(d, grad, v_t), sums));
    if (!d_scores) return;
    if (wants_mask_gradient(d, v, &a)) m_result(d, 3, mask_gradient(d, &a, d_scores));
    d_scores = m_mul_c(d, d_scores, a.scale);
    m_result(d, 0, hn_attention_product(d, d_scores, m_opmath(d, a.k)));
    m_result(d, 1, transposed_product(d, d_scores, m_opmath(d, a.q), a.k));
    m_result(d, 2, transposed_product(d, weights, grad, a.k));
}

/* --- aten._scaled_dot_product_* -> output, logsumexp and more; *_backward -> gradients of query,
 * key, value and the mask, where there may be one --- */

void hn_dec_flash_attention_cpu(hn_dec *d) {
    forward(d, &(variant){.at = {.mask = 5, .dropout = 3, .causal = 4, .scale = 6},
                          .is_dead_row_zero = true});
}

void hn_dec_flash_attention_cpu_backward(hn_dec *d) {
    backward(d, &(variant){.at = {.query = 1, .mask = 8, .dropout = 6, .causal = 7, .scale = 9},
                           .out = 4,
                           .lse = 5});
}

void hn_dec_flash_attention(hn_dec *d) {
    forward(d, &(variant){.at = {.dropout = 3, .causal = 4, .scale = 6},
                          .debug_mask = 5,
                          .is_square_causal = true});
}

void hn_dec_flash_attention_backward(hn_dec *d) {
    backward(d, &(variant){.at = {.query = 1, .dropout = 10, .causal = 11, .scale = 14},
                           .out = 4,
                           .lse = 5,
                           .is_square_causal = true});
}

void hn_dec_efficient_attention(hn_dec *d) {
    forward(d,
            &(variant){.at = {.mask = 3, .dropout = 5, .causal = 6, .scale = 7}, .wants_lse = 4});
}

void hn_dec_efficient_attention_backward(hn_dec *d) {
    backward(d, &(variant){.at = {.query = 1, .mask = 4, .dropout = 9, .causal = 11, .scale = 12},
                           .out = 5,
                           .lse = 6,
                           .wanted = 10});
}

void hn_dec_cudnn_attention(hn_dec *d) {
    forward(d, &(variant){.at = {.mask = 3, .dropout = 5, .causal = 6, .scale = 8},
                          .debug_mask = 7,
                          .wants_lse = 4});
}

void hn_dec_cudnn_attention_backward(hn_dec *d) {
    backward(d, &(variant){.at = {.query = 1, .mask = 8, .dropout = 13, .causal = 14, .scale = 15},
                           .out = 4,
                           .lse = 5});
}

void hn_dec_fused_attention(hn_dec *d) {
    forward(d,
            &(variant){.at = {.mask = 3, .dropout = 4, .causal = 5, .scale = 7}, .debug_mask = 6});
}

void hn_dec_fused_attention_backward(hn_dec *d) {
    backward(d, &(variant){.at = {.query = 1, .mask = 4, .dropout = 12, .causal = 13, .scale = 16},
                           .out = 6,
                           .lse = 7,
                           .wanted = 5});
}
