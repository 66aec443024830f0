/* quantile.c: quantile and nanquantile: the sorted order read at a fractional rank. */
#include "opt/decompose/math.h"

typedef struct quantiles {
    hn_value sorted; /* [.., n]: NaNs last */
    hn_value ranks;  /* [.., k], of the same float dtype; constant leading dims are 1 */
} quantiles;

/* [.., n] with the reduced dim last: all elements when `dim` is None. */
static hn_value rows_of(hn_dec *d, uint32_t dim_arg, uint32_t *out_dim) {
    hn_value x = m_at_least_1d(d, hn_dec_tensor(d, 0));
    uint32_t rank = m_rank(d, x);
    *out_dim = 0;
    if (!hn_dec_has(d, dim_arg)) return m_merge(d, x, 0, rank);
    *out_dim = hn_dec_dim(d, dim_arg, rank);
    return m_move_dim(d, x, *out_dim, rank - 1);
}

/* q * (n - 1), n counting what is no NaN when these are ignored; else a NaN makes the rank that of
 * the last. */
static hn_value fractional_ranks(hn_dec *d, hn_value x, hn_value q, bool ignore_nan) {
    uint32_t last = m_rank(d, x) - 1;
    hn_dtype math = m_dtype(d, x);
    hn_value nan = m_un(d, HN_OP_ISNAN, x), n = m_size_as(d, m_size(d, x, last), math);
    if (ignore_nan) {
        hn_value held =
            m_reduce1(d, HN_OP_SUM, m_cast(d, m_un(d, HN_OP_NOT, nan), math), last, true);
        return m_max_c(d, m_mul(d, q, m_sub_c(d, held, 1)), 0);
    }
    hn_value top = m_sub_c(d, n, 1);
    return m_where(d, m_reduce1(d, HN_OP_ANY, nan, last, true), top, m_mul(d, q, top));
}

static hn_value at_rank(hn_dec *d, const quantiles *v, hn_value rank) {
    m_shape_t shape = m_shape(d, v->sorted);
    if (!v->sorted) return 0;
    uint32_t last = shape.rank - 1;
    shape.sizes[last] = m_size(d, rank, last);
    hn_value index = m_expand(d, m_cast(d, rank, HN_DTYPE_I64), &shape);
    return hn_b_gather(d->g, v->sorted, index, last);
}

/* [.., k] */
static hn_value interpolated(hn_dec *d, const quantiles *v, hn_str how) {
    hn_value below = m_floor(d, v->ranks), above = m_un(d, HN_OP_CEIL, v->ranks);
    if (hn_str_eq(how, HN_STR("lower"))) return at_rank(d, v, below);
    if (hn_str_eq(how, HN_STR("higher"))) return at_rank(d, v, above);
    if (hn_str_eq(how, HN_STR("nearest"))) return at_rank(d, v, m_un(d, HN_OP_ROUND, v->ranks));
    bool linear = hn_str_eq(how, HN_STR("linear"));
    if (!m_require(d, linear || hn_str_eq(how, HN_STR("midpoint")),
                   "an unknown interpolation of a quantile"))
        return 0;
    hn_value weight = linear ? m_sub(d, v->ranks, below) : m_c(d, v->ranks, 0.5);
    hn_value low = at_rank(d, v, below), high = at_rank(d, v, above), span = m_sub(d, high, low);
    hn_value near_low = m_add(d, low, m_mul(d, weight, span));
    hn_value near_high = m_sub(d, high, m_mul(d, span, m_c_sub(d, 1, weight)));
    return m_where(d, m_bin_c(d, HN_OP_LT, weight, 0.5), near_low, near_high);
}

static void quantile(hn_dec *d, bool ignore_nan) {
    uint32_t dim = 0;
    hn_value x = rows_of(d, 2, &dim), q = m_cast(d, hn_dec_tensor(d, 1), m_dtype(d, x)),
             indices = 0;
    if (!x || !m_require(d, m_rank(d, q) <= 1, "quantile wants a number or a vector of them"))
        return;
    bool many = m_rank(d, q) == 1;
    uint32_t rank = m_rank(d, x), last = rank - 1;
    q = m_along(d, m_at_least_1d(d, q), last, rank);
    quantiles v = {.sorted = hn_b_sort(d->g, x, last, false, true, &indices)};
    v.ranks = fractional_ranks(d, x, q, ignore_nan);
    hn_value r = interpolated(d, &v, hn_dec_string(d, 4));
    m_shape_t shape = m_meta_shape(d, 0);
    if (many)
        r = m_move_dim(d, r, last, 0); /* the quantiles come first, a kept dim stays where it was */
    m_result(d, 0, m_reshape(d, r, shape.sizes, shape.rank));
}

/* aten.quantile, nanquantile (self, q, dim, keepdim, *, interpolation) and their .scalar */
void hn_dec_quantile(hn_dec *d) { quantile(d, false); }
void hn_dec_nanquantile(hn_dec *d) { quantile(d, true); }
