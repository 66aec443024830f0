/* math.h: shorthand for decomposition functions, so that they read like the formula they
 * implement. Private to src/opt/decompose/. All of it passes 0 on: after a failure in the graph
 * every call gives 0 and changes nothing.
 *
 * `m_` builds tensors, `e_` builds size expressions, `_c` takes a constant of x's dtype as second
 * operand. */
#ifndef HN_OPT_DECOMPOSE_MATH_H
#define HN_OPT_DECOMPOSE_MATH_H

#include "opt/decompose/decompose.h"

/* Sizes by value: for sizes that are computed or changed, which belong to no value. */
typedef struct m_shape_t {
    uint32_t rank;
    hn_expr sizes[HN_MAX_RANK];
} m_shape_t;

m_shape_t m_shape(const hn_dec *d, hn_value v); /* rank 0 for value 0 */
m_shape_t m_meta_shape(const hn_dec *d, uint32_t result);
hn_dtype m_meta_dtype(const hn_dec *d, uint32_t result);
static inline hn_dtype m_dtype(const hn_dec *d, hn_value v) {
    return v ? hn_graph_value(d->g, v)->dtype : HN_DTYPE_NONE;
}
static inline uint32_t m_rank(const hn_dec *d, hn_value v) {
    return v ? hn_graph_value(d->g, v)->rank : 0;
}
static inline hn_expr m_size(const hn_dec *d, hn_value v, uint32_t dim) {
    return v && dim < hn_graph_value(d->g, v)->rank ? hn_graph_value(d->g, v)->sizes[dim] : 0;
}
/* The number of results that the node has and some other node or output may use. */
static inline bool m_wants(const hn_dec *d, uint32_t result) {
    return result < d->node->result_count && d->node->results[result] != 0;
}
/* False, and the use is reported as unsupported, when `ok` is false. */
static inline bool m_require(hn_dec *d, bool ok, const char *why) {
    if (!ok) hn_dec_unsupported(d, why);
    return ok;
}

/* --- expressions --- */
static inline hn_expr e_int(const hn_dec *d, int64_t v) { return hn_sym_int(d->g->sym, v); }
static inline hn_expr e_add(const hn_dec *d, hn_expr a, hn_expr b) {
    return hn_sym_add(d->g->sym, a, b);
}
static inline hn_expr e_sub(const hn_dec *d, hn_expr a, hn_expr b) {
    return hn_sym_sub(d->g->sym, a, b);
}
static inline hn_expr e_mul(const hn_dec *d, hn_expr a, hn_expr b) {
    return hn_sym_mul(d->g->sym, a, b);
}
static inline hn_expr e_addc(const hn_dec *d, hn_expr a, int64_t c) {
    return e_add(d, a, e_int(d, c));
}
static inline hn_expr e_mulc(const hn_dec *d, hn_expr a, int64_t c) {
    return e_mul(d, a, e_int(d, c));
}
static inline hn_expr e_max0(const hn_dec *d, hn_expr a) {
    return hn_sym_max(d->g->sym, a, e_int(d, 0));
}
static inline bool e_is(const hn_dec *d, hn_expr a, int64_t v) {
    return hn_sym_is_value(d->g->sym, a, v);
}
static inline bool e_eq(const hn_dec *d, hn_expr a, hn_expr b) {
    return hn_sym_prove_eq(d->g->sym, a, b);
}
static inline hn_expr e_product(const hn_dec *d, const hn_expr *sizes, uint32_t count) {
    return hn_sym_product(d->g->sym, sizes, count);
}
bool e_const(const hn_dec *d, hn_expr e, int64_t *out); /* a known integer */
/* Whether the strides are row-major; those of dimensions of size 1 mean nothing. */
bool e_row_major(const hn_dec *d, const hn_expr *sizes, const hn_expr *strides, uint32_t rank);
/* toward zero; the limits of i64 beyond them, 0 for NaN */
hn_expr e_trunc(const hn_dec *d, double v);
/* Where slice(start, end, step) of a dimension of `size` begins and how many elements it has:
 * negative positions count from the end, all clamp; `step` > 0. */
void e_slice_bounds(hn_dec *d, hn_expr size, hn_expr start, hn_expr end, int64_t step,
                    hn_expr *out_start, hn_expr *out_count);

/* --- constants --- */
static inline hn_value m_c(hn_dec *d, hn_value like, double c) {
    return like ? hn_dec_const(d, c, m_dtype(d, like)) : 0;
}
static inline hn_value m_size_as(hn_dec *d, hn_expr size, hn_dtype dtype) {
    return hn_dec_scalar_value(d, hn_scalar_i(size), dtype);
}
hn_value m_full(hn_dec *d, const m_shape_t *shape, double value, hn_dtype dtype);
static inline hn_value m_zeros(hn_dec *d, const m_shape_t *shape, hn_dtype dtype) {
    return m_full(d, shape, 0, dtype);
}
/* [size]: 0, 1, 2... */
hn_value m_iota(hn_dec *d, hn_expr size, hn_dtype dtype);
/* 0 in the kind of number that fits a dtype. */
hn_scalar m_zero_scalar(hn_dec *d, hn_dtype dtype);
/* The lowest value of a dtype: -inf, the least integer, false. */
hn_value m_lowest(hn_dec *d, hn_dtype dtype);
hn_scalar m_lowest_scalar(hn_dec *d, hn_dtype dtype);

/* --- element-wise --- */
static inline hn_value m_un(hn_dec *d, hn_op op, hn_value x) { return hn_b_unary(d->g, op, x); }
static inline hn_value m_bin(hn_dec *d, hn_op op, hn_value x, hn_value y) {
    return hn_b_binary(d->g, op, x, y);
}
static inline hn_value m_bin_c(hn_dec *d, hn_op op, hn_value x, double c) {
    return hn_b_binary(d->g, op, x, m_c(d, x, c));
}
static inline hn_value m_add(hn_dec *d, hn_value x, hn_value y) {
    return m_bin(d, HN_OP_ADD, x, y);
}
static inline hn_value m_sub(hn_dec *d, hn_value x, hn_value y) {
    return m_bin(d, HN_OP_SUB, x, y);
}
static inline hn_value m_mul(hn_dec *d, hn_value x, hn_value y) {
    return m_bin(d, HN_OP_MUL, x, y);
}
static inline hn_value m_div(hn_dec *d, hn_value x, hn_value y) {
    return m_bin(d, HN_OP_DIV, x, y);
}
static inline hn_value m_and(hn_dec *d, hn_value x, hn_value y) {
    return m_bin(d, HN_OP_AND, x, y);
}
static inline hn_value m_or(hn_dec *d, hn_value x, hn_value y) { return m_bin(d, HN_OP_OR, x, y); }
static inline hn_value m_add_c(hn_dec *d, hn_value x, double c) {
    return m_bin_c(d, HN_OP_ADD, x, c);
}
static inline hn_value m_sub_c(hn_dec *d, hn_value x, double c) {
    return m_bin_c(d, HN_OP_SUB, x, c);
}
static inline hn_value m_mul_c(hn_dec *d, hn_value x, double c) {
    return m_bin_c(d, HN_OP_MUL, x, c);
}
static inline hn_value m_div_c(hn_dec *d, hn_value x, double c) {
    return m_bin_c(d, HN_OP_DIV, x, c);
}
static inline hn_value m_max_c(hn_dec *d, hn_value x, double c) {
    return m_bin_c(d, HN_OP_MAX, x, c);
}
static inline hn_value m_min_c(hn_dec *d, hn_value x, double c) {
    return m_bin_c(d, HN_OP_MIN, x, c);
}
static inline hn_value m_c_sub(hn_dec *d, double c, hn_value x) {
    return m_bin(d, HN_OP_SUB, m_c(d, x, c), x);
}
static inline hn_value m_where(hn_dec *d, hn_value cond, hn_value x, hn_value y) {
    return hn_b_where(d->g, cond, x, y);
}
static inline hn_value m_cast(hn_dec *d, hn_value x, hn_dtype dtype) {
    return x ? hn_b_cast(d->g, x, dtype) : 0;
}
static inline hn_value m_exp(hn_dec *d, hn_value x) { return m_un(d, HN_OP_EXP, x); }
static inline hn_value m_log(hn_dec *d, hn_value x) { return m_un(d, HN_OP_LOG, x); }
static inline hn_value m_neg(hn_dec *d, hn_value x) { return m_un(d, HN_OP_NEG, x); }
static inline hn_value m_abs(hn_dec *d, hn_value x) { return m_un(d, HN_OP_ABS, x); }
static inline hn_value m_floor(hn_dec *d, hn_value x) { return m_un(d, HN_OP_FLOOR, x); }
static inline hn_value m_square(hn_dec *d, hn_value x) { return m_mul(d, x, x); }
/* x in the dtype that eager PyTorch computes in. */
static inline hn_value m_opmath(hn_dec *d, hn_value x) {
    return x ? m_cast(d, x, hn_dec_opmath(m_dtype(d, x))) : 0;
}

/* --- views --- */
static inline hn_value m_reshape(hn_dec *d, hn_value x, const hn_expr *sizes, uint32_t rank) {
    return hn_b_reshape(d->g, x, sizes, rank);
}
static inline hn_value m_expand(hn_dec *d, hn_value x, const m_shape_t *shape) {
    return hn_b_expand(d->g, x, shape->sizes, shape->rank);
}
static inline hn_value m_slice(hn_dec *d, hn_value x, uint32_t dim, hn_expr start, hn_expr size) {
    return hn_b_slice(d->g, x, dim, start, size, 1);
}
/* A scalar becomes [1], everything else stays. */
hn_value m_at_least_1d(hn_dec *d, hn_value x);
/* x in the recorded shape of result `k` (undoes m_at_least_1d). */
hn_value m_like_meta(hn_dec *d, hn_value x, uint32_t k);
/* Merges dims first .. first+count-1 into one. */
hn_value m_merge(hn_dec *d, hn_value x, uint32_t first, uint32_t count);
/* Splits dim into `count` sizes whose product is its size. */
hn_value m_split(hn_dec *d, hn_value x, uint32_t dim, const hn_expr *sizes, uint32_t count);
hn_value m_move_dim(hn_dec *d, hn_value x, uint32_t from, uint32_t to);
/* A rank-1 x as a tensor of `rank` dims that lies along `dim`. */
hn_value m_along(hn_dec *d, hn_value x, uint32_t dim, uint32_t rank);
/* Border of one dimension; amounts may be symbolic but are >= 0. x itself when both are 0. */
hn_value m_pad_dim(hn_dec *d, hn_value x, uint32_t dim, hn_expr lo, hn_expr hi, hn_scalar value);
/* src, `count` elements along dim, placed at start, start + step.. of a dim of `size`; zeros
 * elsewhere. */
hn_value m_spread(hn_dec *d, hn_value src, uint32_t dim, hn_expr start, hn_expr count, int64_t step,
                  hn_expr size);

/* --- reductions --- */
static inline hn_value m_reduce(hn_dec *d, hn_op op, hn_value x, const uint32_t *dims,
                                uint32_t count, bool keepdim) {
    return hn_b_reduce(d->g, op, x, dims, count, keepdim);
}
hn_value m_reduce1(hn_dec *d, hn_op op, hn_value x, uint32_t dim, bool keepdim);
hn_value m_reduce_all(hn_dec *d, hn_op op, hn_value x);
/* ARGMAX over the last `count` dims as pooling has it: of several NaN the last, of other equals the
 * first. */
hn_value m_pooled_position(hn_dec *d, hn_value x, uint32_t count);
/* Number of elements of x over dims. */
hn_expr m_count(hn_dec *d, hn_value x, const uint32_t *dims, uint32_t count);
/* sum / N; x is a float */
hn_value m_mean(hn_dec *d, hn_value x, const uint32_t *dims, uint32_t count, bool keepdim);
/* (sum |x|^p)^(1/p) over dims, none: of each element; x is a float in opmath */
hn_value m_vector_norm(hn_dec *d, hn_value x, double p, const uint32_t *dims, uint32_t count,
                       bool keepdim);

/* A result in the recorded dtype. */
static inline void m_result(hn_dec *d, uint32_t k, hn_value x) {
    hn_dec_result(d, k, x ? m_cast(d, x, m_meta_dtype(d, k)) : 0);
}

/* --- whole pieces that several families share --- */
hn_value m_softmax(hn_dec *d, hn_value x, uint32_t dim);     /* x in opmath, rank >= 1 */
hn_value m_log_softmax(hn_dec *d, hn_value x, uint32_t dim); /* same */
/* sigmoid(x), and log(sigmoid(x)) without overflow */
static inline hn_value m_sigmoid(hn_dec *d, hn_value x) { return m_un(d, HN_OP_SIGMOID, x); }
hn_value m_log_sigmoid(hn_dec *d, hn_value x);
/* x[..., index, ...] along dim with a rank-1 or higher index tensor: its dims take the place of
 * dim. Checked, no wrap. */
hn_value m_take_dim(hn_dec *d, hn_value x, uint32_t dim, hn_value index);
/* Weights of the taps at -1, 0, 1 and 2 for a point at distance t in [0, 1] from tap 0: Keys'
 * kernel with A = -0.75. */
void m_cubic_weights(hn_dec *d, hn_value t, hn_value out[4]);
/* How many boundaries stand before each value: those below it, or not above it when `right`. A NaN
 * comes after all of them. Shapes: boundaries [n] or [.., n], values [.., m] -> i64 of the shape of
 * values. */
hn_value m_count_before(hn_dec *d, hn_value boundaries, hn_value values, bool right);
/* Any ints as i64. */
static inline hn_value m_index64(hn_dec *d, hn_value index) {
    return m_cast(d, index, HN_DTYPE_I64);
}

/* Sums x (opmath) to the form that a loss's reduction asks for: 0 none, 1 mean, 2 sum. */
hn_value m_loss_reduce(hn_dec *d, hn_value x, int64_t reduction);

/* random.c: x / (1 - p) where kept, in opmath, and which elements are kept. */
hn_value hn_dec_drop(hn_dec *d, hn_value x, double p, hn_value *out_kept);

#endif
