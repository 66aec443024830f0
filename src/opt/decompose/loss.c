/* loss.c: losses and their gradients.
 *
 * The `reduction` of a loss is 0 none, 1 mean, 2 sum. Losses of 16-bit floats are computed in f32
 * and rounded once. */
#include "opt/decompose/math.h"

#include <math.h>

enum { REDUCE_NONE = 0, REDUCE_MEAN = 1 };

/* --- negative log likelihood --- */

/* A class axis at dim 1 ([N, C, ..]) or 0 ([C]); targets lack that dim. */
typedef struct nll {
    hn_value x, target, weight; /* x in opmath, target i64, weight [C] in opmath or 0 */
    uint32_t axis;
    hn_value valid;   /* bool, shape of target: not the ignored class */
    hn_value index;   /* target with ignored ones replaced by 0, with a class dim of 1 */
    hn_value weights; /* of each target, opmath; 0 for ignored ones */
} nll;

static bool read_nll(hn_dec *d, uint32_t x_arg, uint32_t weight_arg, uint32_t ignore_arg,
                     nll *out) {
    *out = (nll){.x = m_opmath(d, hn_dec_tensor(d, x_arg)),
                 .target = m_index64(d, hn_dec_tensor(d, x_arg + 1))};
    uint32_t rank = m_rank(d, out->x);
    if (!m_require(d, rank >= 1 && m_rank(d, out->target) + 1 == rank,
                   "the ranks of a loss and its target do not fit"))
        return false;
    out->axis = rank == 1 ? 0 : 1;
    hn_dtype math = m_dtype(d, out->x);
    hn_value ignored = m_size_as(d, hn_dec_expr(d, ignore_arg), HN_DTYPE_I64);
    out->valid = m_bin(d, HN_OP_NE, out->target, ignored);
    hn_value safe = m_where(d, out->valid, out->target, m_c(d, out->target, 0));
    out->index = hn_b_unsqueeze(d->g, safe, out->axis);
    hn_value weight = hn_dec_tensor(d, weight_arg);
    out->weights = m_cast(d, out->valid, math);
    if (weight) {
        out->weight = m_cast(d, weight, math);
        hn_value taken = hn_b_index(d->g, out->weight, &safe, 1, false);
        out->weights = m_where(d, out->valid, taken, m_c(d, taken, 0));
    }
    return true;
}

/* -x[target] * weight[target], 0 where ignored (even if x is infinite there) */
static hn_value nll_each(hn_dec *d, const nll *n) {
    hn_value picked = hn_b_squeeze(d->g, hn_b_gather(d->g, n->x, n->index, n->axis), n->axis);
    hn_value loss = m_neg(d, picked);
    if (n->weight) loss = m_mul(d, loss, n->weights);
    return m_where(d, n->valid, loss, m_c(d, loss, 0));
}

static hn_value nll_reduce(hn_dec *d, const nll *n, hn_value each, int64_t reduction,
                           hn_value *out_total) {
    *out_total = m_reduce_all(d, HN_OP_SUM, n->weights);
    if (reduction == REDUCE_NONE) return each;
    hn_value sum = m_reduce_all(d, HN_OP_SUM, each);
    return reduction == REDUCE_MEAN ? m_div(d, sum, *out_total) : sum;
}

/* aten.nll_loss(_nd), nll_loss_forward, nll_loss2d_forward (self, target, weight, reduction,
 * ignore_index)
 * -> loss, total weight (0 without a reduction) */
void hn_dec_nll_loss(hn_dec *d) {
    nll n;
    if (!read_nll(d, 0, 2, 4, &n)) return;
    int64_t reduction = hn_dec_int(d, 3);
    hn_value total = 0;
    m_result(d, 0, nll_reduce(d, &n, nll_each(d, &n), reduction, &total));
    if (!m_wants(d, 1)) return;
    /* a batch that is not reduced has none */
    bool one = reduction == REDUCE_NONE && m_rank(d, n.x) > 1;
    m_result(d, 1, one ? hn_dec_const(d, 0, m_dtype(d, n.x)) : total);
}

/* aten.nll_loss_backward(grad_output, self, target, weight, reduction, ignore_index, total_weight):
 * one element per target, so a comparison with the class number places it; nothing is scattered */
void hn_dec_nll_loss_backward(hn_dec *d) {
    nll n;
    if (!read_nll(d, 1, 3, 5, &n)) return;
    hn_value grad = m_opmath(d, hn_dec_tensor(d, 0));
    hn_dtype math = m_dtype(d, n.x);
    if (hn_dec_int(d, 4) == REDUCE_MEAN)
        grad = m_div(d, grad, m_cast(d, hn_dec_tensor(d, 6), math));
    hn_value each = m_neg(d, m_mul(d, n.weights, grad));
    hn_value classes =
        m_along(d, m_iota(d, m_size(d, n.x, n.axis), HN_DTYPE_I64), n.axis, m_rank(d, n.x));
    hn_value hit =
        m_and(d, m_bin(d, HN_OP_EQ, n.index, classes), hn_b_unsqueeze(d->g, n.valid, n.axis));
    hn_value placed = hn_b_unsqueeze(d->g, each, n.axis);
    m_result(d, 0, m_where(d, hit, placed, m_c(d, placed, 0)));
}

/* --- cross entropy --- */

/* Targets that are class probabilities: -sum(log_p * weight * t) over classes. */
static void soft_cross_entropy(hn_dec *d, hn_value log_p, uint32_t axis, hn_value weight,
                               double smoothing) {
    int64_t reduction = hn_dec_int(d, 3);
    hn_dtype math = m_dtype(d, log_p);
    hn_value target = m_cast(d, hn_dec_tensor(d, 1), math);
    uint32_t rank = m_rank(d, log_p);
    if (!m_require(d, m_rank(d, target) == rank,
                   "class probabilities must have the shape of the input"))
        return;
    if (smoothing != 0) {
        hn_value classes = m_size_as(d, m_size(d, log_p, axis), math);
        target = m_add(d, m_mul_c(d, target, 1 - smoothing),
                       m_div(d, m_c(d, target, smoothing), classes));
    }
    hn_value terms = m_mul(d, log_p, target);
    if (weight) terms = m_mul(d, terms, m_along(d, weight, axis, rank));
    hn_value each = m_neg(d, m_reduce1(d, HN_OP_SUM, terms, axis, false));
    hn_value r = each;
    if (reduction != REDUCE_NONE) r = m_reduce_all(d, HN_OP_SUM, each);
    /* the mean is over samples and positions, not classes */
    if (reduction == REDUCE_MEAN && rank > 1) {
        r = m_div(d, r, m_size_as(d, hn_numel(d->g, each), math));
    }
    m_result(d, 0, r);
}

/* With smoothing e over C classes: (1 - e) * nll + e / C * sum over classes of -log_p * weight. */
static hn_value smooth_term(hn_dec *d, const nll *n, int64_t reduction, hn_value total) {
    hn_value terms = m_neg(d, n->x);
    if (n->weight) terms = m_mul(d, terms, m_along(d, n->weight, n->axis, m_rank(d, terms)));
    hn_value each = m_reduce1(d, HN_OP_SUM, terms, n->axis, false);
    each = m_where(d, n->valid, each, m_c(d, each, 0));
    if (reduction == REDUCE_NONE) return each;
    hn_value sum = m_reduce_all(d, HN_OP_SUM, each);
    return reduction == REDUCE_MEAN ? m_div(d, sum, total) : sum;
}

/* aten.cross_entropy_loss(self, target, weight, reduction, ignore_index, label_smoothing) */
void hn_dec_cross_entropy(hn_dec *d) {
    hn_value x = m_opmath(d, hn_dec_tensor(d, 0)), target = hn_dec_tensor(d, 1);
    hn_dtype math = m_dtype(d, x);
    uint32_t rank = m_rank(d, x), axis = rank <= 1 ? 0 : 1;
    if (!m_require(d, rank >= 1, "cross entropy wants a class dimension")) return;
    double smoothing = hn_dec_float(d, 5);
    hn_value log_p = m_log_softmax(d, x, axis);
    if (hn_dtype_is_float(m_dtype(d, target))) {
        soft_cross_entropy(d, log_p, axis, m_cast(d, hn_dec_tensor(d, 2), math), smoothing);
        return;
    }
    nll n;
    if (!read_nll(d, 0, 2, 4, &n)) return;
    n.x = log_p;
    int64_t reduction = hn_dec_int(d, 3);
    hn_value total = 0, loss = nll_reduce(d, &n, nll_each(d, &n), reduction, &total);
    if (smoothing != 0) {
        hn_value spread =
            m_div(d, smooth_term(d, &n, reduction, total), m_size_as(d, m_size(d, x, axis), math));
        loss = m_add(d, m_mul_c(d, loss, 1 - smoothing), m_mul_c(d, spread, smoothing));
    }
    m_result(d, 0, loss);
}

/* --- element-wise losses --- */

typedef struct pair {
    hn_value x, y; /* opmath of the promoted dtype */
} pair;

static pair read_pair(hn_dec *d, uint32_t first) {
    hn_value both[2] = {hn_dec_tensor(d, first), hn_dec_tensor(d, first + 1)};
    hn_dtype math = hn_dec_opmath(hn_dec_promote(d, both, 2, NULL, 0, NULL));
    return (pair){m_cast(d, both[0], math), m_cast(d, both[1], math)};
}

static void loss_result(hn_dec *d, hn_value each, int64_t reduction) {
    m_result(d, 0, m_loss_reduce(d, each, reduction));
}

/* aten.mse_loss(self, target, reduction) */
void hn_dec_mse_loss(hn_dec *d) {
    pair p = read_pair(d, 0);
    loss_result(d, m_square(d, m_sub(d, p.x, p.y)), hn_dec_int(d, 2));
}

/* aten.mse_loss_backward(grad_output, self, target, reduction) */
void hn_dec_mse_loss_backward(hn_dec *d) {
    pair p = read_pair(d, 1);
    hn_value delta = m_mul_c(d, m_sub(d, p.x, p.y), 2);
    if (hn_dec_int(d, 3) == REDUCE_MEAN)
        delta = m_div(d, delta, m_size_as(d, hn_numel(d->g, p.x), m_dtype(d, delta)));
    m_result(d, 0, m_mul(d, delta, m_cast(d, hn_dec_tensor(d, 0), m_dtype(d, delta))));
}

/* aten.l1_loss(self, target, reduction) */
void hn_dec_l1_loss(hn_dec *d) {
    pair p = read_pair(d, 0);
    loss_result(d, m_abs(d, m_sub(d, p.x, p.y)), hn_dec_int(d, 2));
}

/* aten.smooth_l1_loss(self, target, reduction, beta): z^2 / (2 beta) below beta, z - beta/2
 * above */
void hn_dec_smooth_l1_loss(hn_dec *d) {
    pair p = read_pair(d, 0);
    double beta = hn_dec_float(d, 3);
    hn_value z = m_abs(d, m_sub(d, p.x, p.y)), each = z;
    if (beta != 0) {
        hn_value inner = m_div_c(d, m_mul(d, m_mul_c(d, z, 0.5), z), beta);
        each = m_where(d, m_bin_c(d, HN_OP_LT, z, beta), inner, m_sub_c(d, z, 0.5 * beta));
    }
    loss_result(d, each, hn_dec_int(d, 2));
}

/* aten.huber_loss(self, target, reduction, delta): z^2 / 2 up to delta, delta * (z - delta/2)
 * above */
void hn_dec_huber_loss(hn_dec *d) {
    pair p = read_pair(d, 0);
    double delta = hn_dec_float(d, 3);
    hn_value z = m_abs(d, m_sub(d, p.x, p.y));
    hn_value inner = m_mul(d, m_mul_c(d, z, 0.5), z),
             outer = m_mul_c(d, m_sub_c(d, z, 0.5 * delta), delta);
    loss_result(d, m_where(d, m_bin_c(d, HN_OP_LE, z, delta), inner, outer), hn_dec_int(d, 2));
}

/* The gradient of a loss's output, divided among its elements where it is a mean. */
static hn_value shared_gradient(hn_dec *d, const pair *p, int64_t reduction) {
    hn_value grad = m_cast(d, hn_dec_tensor(d, 0), m_dtype(d, p->x));
    return reduction == REDUCE_MEAN
               ? m_div(d, grad, m_size_as(d, hn_numel(d->g, p->x), m_dtype(d, grad)))
               : grad;
}

/* +-g * top where x and y are `limit` or more apart, in between g * (x - y) * top / limit. */
static void clipped_backward(hn_dec *d, double limit, double top) {
    pair p = read_pair(d, 1);
    hn_value g = shared_gradient(d, &p, hn_dec_int(d, 3)), z = m_sub(d, p.x, p.y),
             upper = m_mul_c(d, g, top);
    hn_value high =
        m_where(d, m_bin_c(d, HN_OP_GE, z, limit), upper, m_mul(d, m_mul_c(d, g, top / limit), z));
    m_result(d, 0, m_where(d, m_bin_c(d, HN_OP_LE, z, -limit), m_neg(d, upper), high));
}

/* aten.smooth_l1_loss_backward(grad_output, self, target, reduction, beta), huber_loss_backward(..,
 * delta) */
void hn_dec_smooth_l1_loss_backward(hn_dec *d) { clipped_backward(d, hn_dec_float(d, 4), 1); }
void hn_dec_huber_loss_backward(hn_dec *d) {
    clipped_backward(d, hn_dec_float(d, 4), hn_dec_float(d, 4));
}

/* aten.binary_cross_entropy(self, target, weight, reduction); logarithms are cut at -100 */
void hn_dec_bce(hn_dec *d) {
    pair p = read_pair(d, 0);
    hn_value log_x = m_max_c(d, m_log(d, p.x), -100);
    hn_value log_1mx = m_max_c(d, m_un(d, HN_OP_LOG1P, m_neg(d, p.x)), -100);
    hn_value each = m_sub(d, m_mul(d, m_sub_c(d, p.y, 1), log_1mx), m_mul(d, p.y, log_x));
    if (hn_dec_has(d, 2)) each = m_mul(d, each, m_cast(d, hn_dec_tensor(d, 2), m_dtype(d, each)));
    loss_result(d, each, hn_dec_int(d, 3));
}

/* aten.binary_cross_entropy_backward(grad_output, self, target, weight, reduction): g (x - y) /
 * max(x (1 - x), 1e-12) */
void hn_dec_bce_backward(hn_dec *d) {
    pair p = read_pair(d, 1);
    hn_value g = shared_gradient(d, &p, hn_dec_int(d, 4));
    if (hn_dec_has(d, 3)) g = m_mul(d, g, m_cast(d, hn_dec_tensor(d, 3), m_dtype(d, g)));
    hn_value below = m_max_c(d, m_mul(d, m_c_sub(d, 1, p.x), p.x), 1e-12);
    m_result(d, 0, m_div(d, m_mul(d, g, m_sub(d, p.x, p.y)), below));
}

/* aten.binary_cross_entropy_with_logits(self, target, weight, pos_weight, reduction):
 * (1 - y) * x - (1 + (pos - 1) * y) * log_sigmoid(x) */
void hn_dec_bce_with_logits(hn_dec *d) {
    pair p = read_pair(d, 0);
    hn_dtype math = m_dtype(d, p.x);
    hn_value log_sigmoid = m_log_sigmoid(d, p.x);
    if (hn_dec_has(d, 3)) {
        hn_value pos = m_cast(d, hn_dec_tensor(d, 3), math);
        log_sigmoid = m_mul(d, log_sigmoid, m_add_c(d, m_mul(d, m_sub_c(d, pos, 1), p.y), 1));
    }
    hn_value each = m_sub(d, m_mul(d, m_c_sub(d, 1, p.y), p.x), log_sigmoid);
    if (hn_dec_has(d, 2)) each = m_mul(d, each, m_cast(d, hn_dec_tensor(d, 2), math));
    loss_result(d, each, hn_dec_int(d, 4));
}

/* aten.kl_div(self, target, reduction, *, log_target): t * (log t - x), with 0 log 0 = 0 */
void hn_dec_kl_div(hn_dec *d) {
    pair p = read_pair(d, 0);
    hn_value each;
    if (hn_dec_bool(d, 3)) {
        each = m_mul(d, m_exp(d, p.y), m_sub(d, p.y, p.x));
    } else {
        hn_value y_log_y = m_mul(d, p.y, m_log(d, p.y));
        y_log_y = m_where(d, m_bin_c(d, HN_OP_EQ, p.y, 0), m_c(d, p.y, 0), y_log_y);
        each = m_sub(d, y_log_y, m_mul(d, p.y, p.x));
    }
    loss_result(d, each, hn_dec_int(d, 2));
}
