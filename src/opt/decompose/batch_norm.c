/* batch_norm.c: batch norm and instance norm, evaluation and training.
 *
 * Evaluation is x * alpha + beta with alpha = w * rsqrt(var + eps) and beta = b - mean * alpha per
 * channel: both are constants when the parameters are, and a convolution before it can take them
 * up. Training normalises by the batch's own statistics and gives the new running ones; writing
 * those back is the business of functionalisation. */
#include "opt/decompose/math.h"

typedef struct batch_norm {
    hn_value x, w, b, running_mean, running_var; /* x in opmath, the others as given; 0: absent */
    double momentum, eps;
    uint32_t dims[HN_MAX_RANK], count; /* reduced: all but the channels */
    /* results of training: per channel */
    hn_value y, mean, var, rstd;
} batch_norm;

static bool read_batch_norm(hn_dec *d, batch_norm *out) {
    *out = (batch_norm){.x = m_opmath(d, hn_dec_tensor(d, 0)),
                        .w = hn_dec_tensor(d, 1),
                        .b = hn_dec_tensor(d, 2),
                        .running_mean = hn_dec_tensor(d, 3),
                        .running_var = hn_dec_tensor(d, 4)};
    uint32_t rank = m_rank(d, out->x);
    for (uint32_t k = 0; k < rank; k++)
        if (k != 1) out->dims[out->count++] = k;
    return m_require(d, rank >= 2, "batch norm wants [N, C, ..]");
}

static hn_value channel(hn_dec *d, const batch_norm *n, hn_value v) {
    return m_along(d, m_cast(d, v, m_dtype(d, n->x)), 1, m_rank(d, n->x));
}

static void evaluate(hn_dec *d, batch_norm *n) {
    hn_dtype dtype = m_dtype(d, n->x);
    if (!m_require(d, n->running_mean && n->running_var,
                   "batch norm in evaluation needs running statistics"))
        return;
    hn_value mean = m_cast(d, n->running_mean, dtype), var = m_cast(d, n->running_var, dtype);
    hn_value alpha = m_un(d, HN_OP_RSQRT, m_add_c(d, var, n->eps));
    if (n->w) alpha = m_mul(d, alpha, m_cast(d, n->w, dtype));
    hn_value beta = m_mul(d, mean, alpha);
    beta = n->b ? m_sub(d, m_cast(d, n->b, dtype), beta) : m_neg(d, beta);
    n->y = m_add(d, m_mul(d, n->x, channel(d, n, alpha)), channel(d, n, beta));
}

static hn_value flat(hn_dec *d, const batch_norm *n, hn_value kept) {
    hn_expr size = m_size(d, n->x, 1);
    return m_reshape(d, kept, &size, 1);
}

static void train(hn_dec *d, batch_norm *n) {
    hn_value mean = m_mean(d, n->x, n->dims, n->count, true), centered = m_sub(d, n->x, mean);
    hn_value var = m_mean(d, m_square(d, centered), n->dims, n->count, true);
    hn_value rstd = m_un(d, HN_OP_RSQRT, m_add_c(d, var, n->eps));
    n->y = m_mul(d, centered, rstd);
    if (n->w) n->y = m_mul(d, n->y, channel(d, n, n->w));
    if (n->b) n->y = m_add(d, n->y, channel(d, n, n->b));
    n->mean = flat(d, n, mean);
    n->var = flat(d, n, var);
    n->rstd = flat(d, n, rstd);
}

/* (1 - momentum) * old + momentum * batch */
static hn_value moved_average(hn_dec *d, const batch_norm *n, hn_value old, hn_value batch) {
    hn_value kept = m_mul_c(d, m_cast(d, old, m_dtype(d, batch)), 1 - n->momentum);
    return m_add(d, kept, m_mul_c(d, batch, n->momentum));
}

/* New running statistics as results k and k + 1; the variance is the unbiased one. */
static void running_results(hn_dec *d, const batch_norm *n, bool training, uint32_t k) {
    if (!training || !n->running_mean || !n->running_var) {
        if (m_wants(d, k)) m_result(d, k, n->running_mean);
        if (m_wants(d, k + 1)) m_result(d, k + 1, n->running_var);
        return;
    }
    hn_dtype dtype = m_dtype(d, n->var);
    hn_expr total = m_count(d, n->x, n->dims, n->count);
    hn_value ratio =
        m_div(d, m_size_as(d, total, dtype), m_size_as(d, e_addc(d, total, -1), dtype));
    if (m_wants(d, k)) m_result(d, k, moved_average(d, n, n->running_mean, n->mean));
    if (m_wants(d, k + 1))
        m_result(d, k + 1, moved_average(d, n, n->running_var, m_mul(d, n->var, ratio)));
}

/* Saved statistics as results 1 and 2: in evaluation PyTorch leaves them empty. */
static void saved_results(hn_dec *d, const batch_norm *n) {
    for (uint32_t k = 1; k <= 2; k++) {
        if (!m_wants(d, k)) continue;
        m_shape_t s = m_meta_shape(d, k);
        hn_value saved = k == 1 ? n->mean : n->rstd;
        m_result(d, k, saved ? saved : m_zeros(d, &s, m_meta_dtype(d, k)));
    }
}

static void normalise(hn_dec *d, batch_norm *n, bool training) {
    if (training) train(d, n);
    else evaluate(d, n);
    m_result(d, 0, n->y);
    if (d->node->result_count > 1) saved_results(d, n);
}

/* aten.batch_norm, native_batch_norm, cudnn_batch_norm, _native_batch_norm_legit(_functional)
 * (input, weight, bias, running_mean, running_var, training, momentum, eps) -> y, mean, rstd, and
 * by op: a reserve of bytes, or new running statistics */
static void batch_norm_of(hn_dec *d, bool *out_training, batch_norm *n) {
    if (!read_batch_norm(d, n)) return;
    n->momentum = hn_dec_float(d, 6);
    n->eps = hn_dec_float(d, 7);
    /* without running statistics the batch's are taken in any case */
    *out_training = hn_dec_bool(d, 5) || !n->running_mean;
    normalise(d, n, *out_training);
}

static void empty_reserve(hn_dec *d, uint32_t k) {
    m_shape_t s = m_meta_shape(d, k);
    if (m_wants(d, k)) hn_dec_result(d, k, m_zeros(d, &s, m_meta_dtype(d, k)));
}

void hn_dec_batch_norm(hn_dec *d) {
    batch_norm n;
    bool training = false;
    batch_norm_of(d, &training, &n);
    if (d->node->result_count == 4) empty_reserve(d, 3); /* cudnn_batch_norm */
}

/* aten._native_batch_norm_legit_functional: results 3 and 4 are the new running statistics */
void hn_dec_batch_norm_functional(hn_dec *d) {
    batch_norm n;
    bool training = false;
    batch_norm_of(d, &training, &n);
    if (!d->unsupported) running_results(d, &n, training, 3);
}

/* aten._batch_norm_with_update_functional(input, weight, bias, running_mean, running_var, momentum,
 * eps)
 * -> y, mean, rstd, reserve, new running statistics; always training */
void hn_dec_batch_norm_with_update(hn_dec *d) {
    batch_norm n;
    if (!read_batch_norm(d, &n)) return;
    n.momentum = hn_dec_float(d, 5);
    n.eps = hn_dec_float(d, 6);
    normalise(d, &n, true);
    empty_reserve(d, 3);
    running_results(d, &n, true, 4);
}

/* aten._native_batch_norm_legit_no_training(input, weight, bias, running_mean, running_var,
 * momentum, eps) */
void hn_dec_batch_norm_no_training(hn_dec *d) {
    batch_norm n;
    if (!read_batch_norm(d, &n)) return;
    n.eps = hn_dec_float(d, 6);
    normalise(d, &n, false);
}

/* aten._native_batch_norm_legit.no_stats(input, weight, bias, training, momentum, eps) */
void hn_dec_batch_norm_no_stats(hn_dec *d) {
    hn_value x = m_opmath(d, hn_dec_tensor(d, 0));
    batch_norm n = {
        .x = x, .w = hn_dec_tensor(d, 1), .b = hn_dec_tensor(d, 2), .eps = hn_dec_float(d, 5)};
    uint32_t rank = m_rank(d, x);
    for (uint32_t k = 0; k < rank; k++)
        if (k != 1) n.dims[n.count++] = k;
    if (m_require(d, rank >= 2, "batch norm wants [N, C, ..]")) normalise(d, &n, true);
}

/* aten.native_batch_norm_backward(grad_out, input, weight, running_mean, running_var, save_mean,
 * save_invstd, train, eps, output_mask) -> grad of input, weight, bias.
 * In training the statistics depend on x too; in evaluation they are constants. */
void hn_dec_batch_norm_backward(hn_dec *d) {
    hn_value grad = m_opmath(d, hn_dec_tensor(d, 0)), w = hn_dec_tensor(d, 2);
    bool training = hn_dec_bool(d, 7);
    batch_norm n = {.x = m_opmath(d, hn_dec_tensor(d, 1)), .eps = hn_dec_float(d, 8)};
    uint32_t rank = m_rank(d, n.x);
    for (uint32_t k = 0; k < rank; k++)
        if (k != 1) n.dims[n.count++] = k;
    hn_value mean = hn_dec_tensor(d, training ? 5 : 3), spread = hn_dec_tensor(d, training ? 6 : 4);
    if (!m_require(d, rank >= 2 && mean && spread,
                   "the gradient of batch norm needs its statistics"))
        return;
    hn_value rstd = m_cast(d, spread, m_dtype(d, n.x));
    if (!training) rstd = m_un(d, HN_OP_RSQRT, m_add_c(d, rstd, n.eps));
    hn_value scale = channel(d, &n, rstd),
             xhat = m_mul(d, m_sub(d, n.x, channel(d, &n, mean)), scale);
    if (m_wants(d, 0)) {
        hn_value g = grad;
        if (training) {
            hn_value average = m_mean(d, grad, n.dims, n.count, true);
            hn_value corr = m_mean(d, m_mul(d, grad, xhat), n.dims, n.count, true);
            g = m_sub(d, m_sub(d, grad, average), m_mul(d, xhat, corr));
        }
        if (w) scale = m_mul(d, scale, channel(d, &n, w));
        m_result(d, 0, m_mul(d, g, scale));
    }
    if (m_wants(d, 1))
        m_result(d, 1, m_reduce(d, HN_OP_SUM, m_mul(d, grad, xhat), n.dims, n.count, false));
    if (m_wants(d, 2)) m_result(d, 2, m_reduce(d, HN_OP_SUM, grad, n.dims, n.count, false));
}

/* aten.instance_norm(input, weight, bias, running_mean, running_var, use_input_stats, momentum,
 * eps): each sample and channel has its own statistics */
void hn_dec_instance_norm(hn_dec *d) {
    batch_norm n;
    if (!read_batch_norm(d, &n)) return;
    n.eps = hn_dec_float(d, 7);
    if (hn_dec_bool(d, 5)) {
        n.count = 0;
        for (uint32_t k = 2; k < m_rank(d, n.x); k++) n.dims[n.count++] = k;
        if (!m_require(d, n.count > 0, "instance norm wants [N, C, spatial..]")) return;
        hn_value centered = m_sub(d, n.x, m_mean(d, n.x, n.dims, n.count, true));
        hn_value var = m_mean(d, m_square(d, centered), n.dims, n.count, true);
        n.y = m_mul(d, centered, m_un(d, HN_OP_RSQRT, m_add_c(d, var, n.eps)));
        if (n.w) n.y = m_mul(d, n.y, channel(d, &n, n.w));
        if (n.b) n.y = m_add(d, n.y, channel(d, &n, n.b));
    } else {
        evaluate(d, &n);
    }
    m_result(d, 0, n.y);
}
