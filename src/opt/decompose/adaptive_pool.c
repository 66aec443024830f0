/* adaptive_pool.c: pooling to a given output size.
 *
 * Output o of n reads positions floor(o * size / n) .. ceil((o + 1) * size / n) - 1. Where n
 * divides the size that is a reshape; otherwise each window is gathered to the length of the
 * longest, and what is beyond its end is masked. */
#include "opt/decompose/math.h"

/* Outputs along a dim whose windows are looked at one by one here. */
enum { MAX_TRIED = 1 << 16 };

typedef struct adaptive {
    uint32_t spatial, base;
    hn_expr size[3], count[3];
} adaptive;

static bool read_adaptive(hn_dec *d, hn_value x, uint32_t spatial, adaptive *out) {
    hn_expr list[HN_MAX_RANK];
    uint32_t rank = m_rank(d, x), count = hn_dec_exprs(d, 1, list);
    if (!m_require(d, rank == spatial + 1 || rank == spatial + 2,
                   "the rank of a pooled input does not fit"))
        return false;
    if (!m_require(d, count == 1 || count == spatial,
                   "the output size has another length than the pooled dimensions"))
        return false;
    *out = (adaptive){.spatial = spatial, .base = rank - spatial};
    for (uint32_t k = 0; k < spatial; k++) {
        out->size[k] = m_size(d, x, out->base + k);
        out->count[k] = list[count == 1 ? 0 : k];
    }
    return true;
}

/* Whether all windows along dim k have one length; a symbolic size is decided by its hint, with a
 * guard. */
static bool divides(hn_dec *d, const adaptive *p, uint32_t k) {
    hn_sym *sym = d->g->sym;
    int64_t n = 0;
    if (e_eq(d, p->size[k], p->count[k])) return true;
    if (e_const(d, p->count[k], &n) && n <= 1) return n == 1;
    return hn_sym_guard(sym, HN_REL_EQ, hn_sym_mod(sym, p->size[k], p->count[k]), e_int(d, 0),
                        "an adaptive pooling has windows of one length");
}

/* Begin and length (i64 vectors) of the windows along dim k, and a length that none exceeds. */
typedef struct ragged {
    hn_value start, length;
    hn_expr longest;
} ragged;

/* The longest window; for symbolic sizes a bound, which is enough: what is beyond a window's end
 * does not count. */
static hn_expr longest_window(hn_dec *d, hn_expr size_expr, hn_expr count_expr) {
    int64_t size = 0, n = 0, longest = 0;
    bool known = e_const(d, size_expr, &size) && e_const(d, count_expr, &n) && size > 0 &&
                 size < INT32_MAX && n > 0 && n <= MAX_TRIED;
    if (!known) return e_addc(d, hn_sym_ceildiv(d->g->sym, size_expr, count_expr), 1);
    for (int64_t o = 0; o < n; o++) {
        int64_t length = ((o + 1) * size + n - 1) / n - o * size / n;
        if (length > longest) longest = length;
    }
    return e_int(d, longest);
}

static bool ragged_windows(hn_dec *d, const adaptive *p, uint32_t k, ragged *out) {
    if (!m_require(d, !e_is(d, p->count[k], 0), "adaptive pooling to nothing")) return false;
    hn_value size = m_size_as(d, p->size[k], HN_DTYPE_I64),
             n = m_size_as(d, p->count[k], HN_DTYPE_I64);
    hn_value o = m_iota(d, p->count[k], HN_DTYPE_I64);
    out->longest = longest_window(d, p->size[k], p->count[k]);
    out->start = m_div(d, m_mul(d, o, size), n);
    hn_value end = m_add(d, m_mul(d, m_add_c(d, o, 1), size), m_sub_c(d, n, 1)); /* rounded up */
    out->length = m_sub(d, m_div(d, end, n), out->start);
    return true;
}

/* [n, longest]: positions of the windows' elements, the last one repeated */
static hn_value ragged_positions(hn_dec *d, const ragged *w) {
    hn_value k = m_iota(d, w->longest, HN_DTYPE_I64);
    hn_value last = m_sub_c(d, hn_b_unsqueeze(d->g, w->length, 1), 1);
    return m_add(d, hn_b_unsqueeze(d->g, w->start, 1), m_bin(d, HN_OP_MIN, k, last));
}

/* --- average --- */

static hn_value even_average(hn_dec *d, hn_value x, const adaptive *p, uint32_t k) {
    if (e_eq(d, p->size[k], p->count[k])) return x;
    uint32_t dim = p->base + k;
    if (e_is(d, p->count[k], 1)) return m_mean(d, x, &dim, 1, true);
    hn_expr length = hn_sym_floordiv(d->g->sym, p->size[k], p->count[k]);
    hn_value cells = m_split(d, x, dim, (hn_expr[]){p->count[k], length}, 2);
    uint32_t inner = dim + 1;
    return m_mean(d, cells, &inner, 1, false);
}

static hn_value ragged_average(hn_dec *d, hn_value x, const adaptive *p, uint32_t k) {
    ragged w;
    if (!ragged_windows(d, p, k, &w)) return 0;
    uint32_t dim = p->base + k, rank = p->base + p->spatial;
    hn_value cells = m_take_dim(d, x, dim, ragged_positions(d, &w)); /* dim -> dim, dim + 1 */
    hn_value inside =
        m_bin(d, HN_OP_LT, m_iota(d, w.longest, HN_DTYPE_I64), hn_b_unsqueeze(d->g, w.length, 1));
    hn_expr mask_sizes[HN_MAX_RANK];
    for (uint32_t j = 0; j < rank + 1; j++)
        mask_sizes[j] = j == dim ? p->count[k] : j == dim + 1 ? w.longest : e_int(d, 1);
    inside = m_reshape(d, inside, mask_sizes, rank + 1);
    hn_value sum =
        m_reduce1(d, HN_OP_SUM, m_where(d, inside, cells, m_c(d, cells, 0)), dim + 1, false);
    return m_div(d, sum, m_cast(d, m_along(d, w.length, dim, rank), m_dtype(d, x)));
}

static hn_value mean_all(hn_dec *d, hn_value x, const adaptive *p) {
    uint32_t dims[3];
    for (uint32_t k = 0; k < p->spatial; k++) dims[k] = p->base + k;
    return m_mean(d, x, dims, p->spatial, true);
}

static void adaptive_average(hn_dec *d, uint32_t spatial) {
    hn_value x = hn_dec_tensor(d, 0);
    adaptive p;
    if (!read_adaptive(d, x, spatial, &p)) return;
    x = m_opmath(d, x);
    bool global = true;
    for (uint32_t k = 0; k < spatial; k++) global &= e_is(d, p.count[k], 1);
    if (global) {
        m_result(d, 0, mean_all(d, x, &p));
        return;
    }
    for (uint32_t k = 0; k < spatial; k++)
        x = divides(d, &p, k) ? even_average(d, x, &p, k) : ragged_average(d, x, &p, k);
    m_result(d, 0, x);
}

/* aten.adaptive_avg_pool1d/2d, _adaptive_avg_pool2d/3d (self, output_size) */
void hn_dec_adaptive_avg_pool1d(hn_dec *d) { adaptive_average(d, 1); }
void hn_dec_adaptive_avg_pool2d(hn_dec *d) { adaptive_average(d, 2); }
void hn_dec_adaptive_avg_pool3d(hn_dec *d) { adaptive_average(d, 3); }

/* Spreads grad along dim k: each window's gradient, divided by its length, goes to all its
 * elements. */
static hn_value spread_average(hn_dec *d, hn_value grad, const adaptive *p, uint32_t k) {
    uint32_t dim = p->base + k, rank = p->base + p->spatial;
    if (e_eq(d, p->size[k], p->count[k])) return grad;
    if (divides(d, p, k)) {
        hn_expr length = hn_sym_floordiv(d->g->sym, p->size[k], p->count[k]);
        hn_value cells =
            hn_b_unsqueeze(d->g, m_div(d, grad, m_size_as(d, length, m_dtype(d, grad))), dim + 1);
        m_shape_t s = m_shape(d, cells);
        if (!cells) return 0;
        s.sizes[dim + 1] = length;
        return m_merge(d, m_expand(d, cells, &s), dim, 2);
    }
    /* sum over the windows that hold a position: (n x size) membership, so that nothing is
     * scattered */
    ragged w;
    if (!ragged_windows(d, p, k, &w)) return 0;
    hn_value shared = m_div(d, grad, m_cast(d, m_along(d, w.length, dim, rank), m_dtype(d, grad)));
    hn_value at = m_iota(d, p->size[k], HN_DTYPE_I64), start = hn_b_unsqueeze(d->g, w.start, 1);
    hn_value end = m_add(d, start, hn_b_unsqueeze(d->g, w.length, 1));
    hn_value holds = m_and(d, m_bin(d, HN_OP_GE, at, start), m_bin(d, HN_OP_LT, at, end));
    hn_expr sizes[HN_MAX_RANK];
    for (uint32_t j = 0; j < rank + 1; j++)
        sizes[j] = j == dim ? p->count[k] : j == dim + 1 ? p->size[k] : e_int(d, 1);
    hn_value cells = hn_b_unsqueeze(d->g, shared, dim + 1);
    cells = m_where(d, m_reshape(d, holds, sizes, rank + 1), cells, m_c(d, cells, 0));
    return m_reduce1(d, HN_OP_SUM, cells, dim, false);
}

/* aten._adaptive_avg_pool2d_backward(grad_output, self) */
void hn_dec_adaptive_avg_pool2d_backward(hn_dec *d) {
    hn_value grad = hn_dec_tensor(d, 0), x = hn_dec_tensor(d, 1);
    uint32_t rank = m_rank(d, x);
    if (!m_require(d, rank >= 3 && m_rank(d, grad) == rank,
                   "the ranks of a pooling gradient do not fit"))
        return;
    adaptive p = {.spatial = 2, .base = rank - 2};
    for (uint32_t k = 0; k < 2; k++) {
        p.size[k] = m_size(d, x, p.base + k);
        p.count[k] = m_size(d, grad, p.base + k);
    }
    hn_value r = m_opmath(d, grad);
    for (uint32_t k = 0; k < 2; k++) r = spread_average(d, r, &p, k);
    m_result(d, 0, r);
}

/* --- max --- */

/* Flat index within the plane of pooled dims, from the flat index within a window of the longest
 * sizes. */
static hn_value ragged_plane_index(hn_dec *d, const adaptive *p, const ragged *w,
                                   hn_value in_window) {
    hn_value plane = 0, rest = in_window;
    uint32_t rank = p->base + p->spatial;
    for (uint32_t k = 0; k < p->spatial; k++) {
        hn_expr inner = e_int(d, 1);
        for (uint32_t j = k + 1; j < p->spatial; j++) inner = e_mul(d, inner, w[j].longest);
        hn_value below = m_size_as(d, inner, HN_DTYPE_I64);
        /* the repeated last element wins when it is NaN */
        hn_value last = m_sub_c(d, m_along(d, w[k].length, p->base + k, rank), 1);
        hn_value offset = m_bin(d, HN_OP_MIN, m_div(d, rest, below), last);
        hn_value at = m_add(d, m_along(d, w[k].start, p->base + k, rank), offset);
        rest = m_bin(d, HN_OP_REMAINDER, rest, below);
        plane = plane ? m_add(d, m_mul(d, plane, m_size_as(d, p->size[k], HN_DTYPE_I64)), at) : at;
    }
    return plane;
}

static void adaptive_max(hn_dec *d, uint32_t spatial) {
    hn_value x = hn_dec_tensor(d, 0);
    adaptive p;
    ragged w[3];
    if (!read_adaptive(d, x, spatial, &p)) return;
    for (uint32_t k = 0; k < spatial; k++)
        if (!ragged_windows(d, &p, k, &w[k])) return;
    uint32_t order[HN_MAX_RANK], dims[3];
    for (uint32_t k = 0; k < p.base; k++) order[k] = k;
    for (uint32_t k = 0; k < spatial; k++) { /* each dim becomes outputs and window elements */
        x = m_take_dim(d, x, p.base + 2 * k, ragged_positions(d, &w[k]));
        order[p.base + k] = p.base + 2 * k;
        order[p.base + spatial + k] = p.base + 2 * k + 1;
        dims[k] = p.base + spatial + k;
    }
    if (!x) return;
    x = hn_b_permute(d->g, x, order);
    m_result(d, 0, m_reduce(d, HN_OP_AMAX, x, dims, spatial, false));
    if (m_wants(d, 1))
        m_result(d, 1, ragged_plane_index(d, &p, w, m_pooled_position(d, x, spatial)));
}

/* aten.adaptive_max_pool1d/2d/3d(self, output_size) -> values, flat plane indices */
void hn_dec_adaptive_max_pool1d(hn_dec *d) { adaptive_max(d, 1); }
void hn_dec_adaptive_max_pool2d(hn_dec *d) { adaptive_max(d, 2); }
void hn_dec_adaptive_max_pool3d(hn_dec *d) { adaptive_max(d, 3); }
