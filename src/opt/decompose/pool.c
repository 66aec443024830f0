/* pool.c: pooling -> PAD, WINDOW and a reduction.
 *
 *   max_pool2d(x, 3, stride=2, padding=1)
 *   ->  pad(x, -inf) -> window(H) -> window(W) -> amax(last two)
 *
 * Pooled dims are the last ones; whatever stands before (N, C or C) is carried along. Windows have
 * their own dims at the end: [.., oH, oW, kH, kW]. */
#include "opt/decompose/math.h"

typedef struct pool {
    uint32_t spatial, base; /* pooled dims are base .. base + spatial - 1 */
    int64_t kernel[3], stride[3], padding[3], dilation[3];
    bool ceil_mode;
    hn_expr size[3];  /* of the input */
    hn_expr count[3]; /* windows */
} pool;

/* --- reading --- */

/* One number per pooled dim: a list of one stands for all, an empty one gives `fallback`. */
static bool read_list(hn_dec *d, uint32_t arg, uint32_t spatial, const int64_t *fallback,
                      int64_t least, int64_t out[3]) {
    hn_expr list[HN_MAX_RANK];
    uint32_t count = hn_dec_exprs(d, arg, list);
    bool fits = count == 1 || count == spatial || (count == 0 && fallback);
    if (!m_require(d, fits, "a pooling parameter has another length than the pooled dimensions"))
        return false;
    for (uint32_t k = 0; k < spatial; k++) {
        if (count == 0) {
            out[k] = fallback[k];
            continue;
        }
        bool ok =
            e_const(d, list[count == 1 ? 0 : k], &out[k]) && out[k] >= least && out[k] <= INT32_MAX;
        if (!m_require(d, ok, "a pooling parameter is out of range")) return false;
    }
    return true;
}

/* ceil mode may add a window, but one that would begin in the padding at the end is dropped. */
static hn_expr window_count(hn_dec *d, const pool *p, uint32_t k) {
    hn_sym *sym = d->g->sym;
    hn_expr stride = e_int(d, p->stride[k]);
    hn_expr room =
        e_addc(d, p->size[k], 2 * p->padding[k] - p->dilation[k] * (p->kernel[k] - 1) - 1);
    if (!p->ceil_mode) return e_addc(d, hn_sym_floordiv(sym, room, stride), 1);
    hn_expr starts = hn_sym_floordiv(sym, e_addc(d, p->size[k], p->padding[k] - 1), stride);
    return e_addc(d, hn_sym_min(sym, hn_sym_ceildiv(sym, room, stride), starts), 1);
}

typedef struct pool_args {
    uint32_t kernel, stride, padding, dilation, ceil_mode; /* schema positions; dilation 0: none */
} pool_args;

static bool read_pool(hn_dec *d, hn_value x, uint32_t spatial, pool_args args, pool *out) {
    uint32_t rank = m_rank(d, x);
    *out = (pool){.spatial = spatial, .base = rank - spatial, .dilation = {1, 1, 1}};
    if (!m_require(d, rank == spatial + 1 || rank == spatial + 2,
                   "the rank of a pooled input does not fit"))
        return false;
    if (!read_list(d, args.kernel, spatial, NULL, 1, out->kernel) ||
        !read_list(d, args.stride, spatial, out->kernel, 1, out->stride) ||
        !read_list(d, args.padding, spatial, NULL, 0, out->padding) ||
        (args.dilation && !read_list(d, args.dilation, spatial, NULL, 1, out->dilation)))
        return false;
    out->ceil_mode = hn_dec_bool(d, args.ceil_mode);
    for (uint32_t k = 0; k < spatial; k++) {
        int64_t reach = out->dilation[k] * (out->kernel[k] - 1) + 1;
        bool fits = reach <= INT32_MAX && out->padding[k] <= reach / 2;
        if (!m_require(d, fits, "pooling padding must be at most half of the kernel")) return false;
        out->size[k] = m_size(d, x, out->base + k);
        out->count[k] = window_count(d, out, k);
    }
    return true;
}

/* --- windows --- */

static hn_value padded(hn_dec *d, hn_value x, const pool *p, hn_scalar value) {
    hn_expr lo[HN_MAX_RANK], hi[HN_MAX_RANK], zero = e_int(d, 0);
    bool needed = false;
    for (uint32_t k = 0; k < p->base + p->spatial; k++) lo[k] = hi[k] = zero;
    for (uint32_t k = 0; k < p->spatial; k++) {
        hn_expr pad = e_int(d, p->padding[k]);
        lo[p->base + k] = hi[p->base + k] = pad;
        if (p->ceil_mode) { /* the last window may reach further */
            hn_expr end = e_addc(d, e_mulc(d, e_addc(d, p->count[k], -1), p->stride[k]),
                                 p->dilation[k] * (p->kernel[k] - 1) + 1);
            hi[p->base + k] = hn_sym_max(d->g->sym, pad, e_sub(d, end, e_add(d, p->size[k], pad)));
        }
        needed |= !e_is(d, lo[p->base + k], 0) || !e_is(d, hi[p->base + k], 0);
    }
    return needed ? hn_b_pad(d->g, x, value, lo, hi) : x;
}

/* [.., size..] -> [.., count.., kernel..] */
static hn_value windows(hn_dec *d, hn_value x, const pool *p, hn_scalar border) {
    x = padded(d, x, p, border);
    for (uint32_t k = 0; k < p->spatial; k++)
        x = hn_b_window(d->g, x, p->base + k, p->count[k], e_int(d, p->kernel[k]),
                        e_int(d, p->stride[k]), e_int(d, p->dilation[k]));
    return x;
}

static hn_value reduce_windows(hn_dec *d, hn_op op, hn_value windowed, const pool *p) {
    uint32_t dims[3];
    for (uint32_t k = 0; k < p->spatial; k++) dims[k] = p->base + p->spatial + k;
    return m_reduce(d, op, windowed, dims, p->spatial, false);
}

/* Along pooled dim k, shaped to broadcast over the output: where each window begins in the unpadded
 * input. */
static hn_value window_starts(hn_dec *d, const pool *p, uint32_t k, uint32_t rank) {
    hn_scalar start = hn_scalar_i(e_int(d, -p->padding[k])),
              step = hn_scalar_i(e_int(d, p->stride[k]));
    return m_along(d, hn_b_iota(d->g, start, step, p->count[k], HN_DTYPE_I64), p->base + k, rank);
}

/* --- max --- */

/* The coordinate that element `offset` of each window has in the unpadded input. A window of
 * nothing but
 * -inf reports its first element, which can lie in the border: then the first inside is meant. */
static hn_value coordinate(hn_dec *d, const pool *p, uint32_t k, hn_value offset) {
    if (p->dilation[k] != 1) offset = m_mul_c(d, offset, (double)p->dilation[k]);
    hn_value at = m_add(d, window_starts(d, p, k, p->base + p->spatial), offset);
    if (p->padding[k] == 0) return at;
    if (p->dilation[k] == 1) return m_max_c(d, at, 0);
    hn_value inside = m_bin_c(d, HN_OP_REMAINDER, at, (double)p->dilation[k]);
    return m_where(d, m_bin_c(d, HN_OP_LT, at, 0), inside, at);
}

/* Flat index within the plane of pooled dims, from the flat index within a window. */
static hn_value plane_index(hn_dec *d, const pool *p, hn_value in_window) {
    hn_value plane = 0, rest = in_window;
    int64_t inner = 1;
    for (uint32_t k = 0; k < p->spatial; k++) inner *= p->kernel[k];
    for (uint32_t k = 0; k < p->spatial; k++) {
        inner /= p->kernel[k];
        hn_value offset = inner == 1 ? rest : m_div_c(d, rest, (double)inner);
        rest = inner == 1 ? rest : m_bin_c(d, HN_OP_REMAINDER, rest, (double)inner);
        hn_value at = coordinate(d, p, k, offset);
        plane = plane ? m_add(d, m_mul(d, plane, m_size_as(d, p->size[k], HN_DTYPE_I64)), at) : at;
    }
    return plane;
}

static bool kernel_is_small(const pool *p) {
    int64_t count = 1;
    for (uint32_t k = 0; k < p->spatial; k++)
        if (__builtin_mul_overflow(count, p->kernel[k], &count) || count > INT32_MAX) return false;
    return true;
}

static void max_pool(hn_dec *d, uint32_t spatial) {
    hn_value x = hn_dec_tensor(d, 0);
    pool p;
    const pool_args args = {.kernel = 1, .stride = 2, .padding = 3, .dilation = 4, .ceil_mode = 5};
    if (!read_pool(d, x, spatial, args, &p)) return;
    if (!m_require(d, kernel_is_small(&p), "the pooling kernel is too large")) return;
    hn_value windowed = windows(d, x, &p, m_lowest_scalar(d, m_dtype(d, x)));
    m_result(d, 0, reduce_windows(d, HN_OP_AMAX, windowed, &p));
    if (m_wants(d, 1)) m_result(d, 1, plane_index(d, &p, m_pooled_position(d, windowed, spatial)));
}

/* aten.max_pool1d/2d/3d, max_pool2d/3d_with_indices (self, kernel, stride, padding, dilation,
 * ceil_mode) */
void hn_dec_max_pool1d(hn_dec *d) { max_pool(d, 1); }
void hn_dec_max_pool2d(hn_dec *d) { max_pool(d, 2); }
void hn_dec_max_pool3d(hn_dec *d) { max_pool(d, 3); }

/* Each gradient goes to the element that won; `index` counts within the last `spatial` dims. */
static void max_pool_backward(hn_dec *d, uint32_t spatial, uint32_t index_arg) {
    hn_value grad = hn_dec_tensor(d, 0), x = hn_dec_tensor(d, 1),
             index = hn_dec_tensor(d, index_arg);
    m_shape_t sx = m_shape(d, x), flat = sx;
    if (!m_require(d,
                   sx.rank >= spatial && m_rank(d, grad) == sx.rank && m_rank(d, index) == sx.rank,
                   "the ranks of a pooling gradient do not fit"))
        return;
    uint32_t base = sx.rank - spatial;
    flat.rank = base + 1;
    flat.sizes[base] = e_product(d, sx.sizes + base, spatial);
    hn_dtype math = hn_dec_opmath(m_dtype(d, grad));
    hn_value values = m_merge(d, m_cast(d, grad, math), base, spatial),
             zeros = m_zeros(d, &flat, math);
    hn_value r = hn_b_scatter(d->g, zeros, m_merge(d, index, base, spatial), values, base, "add");
    m_result(d, 0, m_reshape(d, r, sx.sizes, sx.rank));
}

/* aten.max_pool2d_with_indices_backward(grad_output, self, kernel, stride, padding, dilation,
 * ceil_mode, indices), aten.adaptive_max_pool2d_backward(grad_output, self, indices) */
void hn_dec_max_pool2d_backward(hn_dec *d) { max_pool_backward(d, 2, 7); }
void hn_dec_max_pool3d_backward(hn_dec *d) { max_pool_backward(d, 3, 7); }
void hn_dec_adaptive_max_pool2d_backward(hn_dec *d) { max_pool_backward(d, 2, 2); }
void hn_dec_adaptive_max_pool3d_backward(hn_dec *d) { max_pool_backward(d, 3, 2); }

/* Zeros, with each value at the flat index of its plane. */
static void unpool(hn_dec *d, uint32_t spatial) {
    hn_value x = hn_dec_tensor(d, 0), index = m_index64(d, hn_dec_tensor(d, 1));
    m_shape_t out = m_meta_shape(d, 0), flat = out;
    uint32_t rank = m_rank(d, x);
    bool fits = rank > spatial && m_rank(d, index) == rank && out.rank == rank;
    if (!m_require(d, fits, "the ranks of an unpooling do not fit")) return;
    flat.rank = rank - spatial + 1;
    flat.sizes[flat.rank - 1] = e_product(d, out.sizes + rank - spatial, spatial);
    hn_value values = m_merge(d, x, rank - spatial, spatial);
    hn_value at = m_merge(d, index, rank - spatial, spatial),
             zeros = m_zeros(d, &flat, m_dtype(d, x));
    hn_value r = hn_b_scatter(d->g, zeros, at, values, flat.rank - 1, "set");
    m_result(d, 0, m_reshape(d, r, out.sizes, out.rank));
}

/* aten.max_unpool2d(self, indices, output_size), max_unpool3d(.., stride, padding) */
void hn_dec_max_unpool2d(hn_dec *d) { unpool(d, 2); }
void hn_dec_max_unpool3d(hn_dec *d) { unpool(d, 3); }

/* --- average --- */

/* How many elements the windows along dim k count: all where the border counts (but not what ceil
 * mode adds beyond it), else those inside. i64, along that dim. */
static hn_value counted(hn_dec *d, const pool *p, uint32_t k, bool include_pad) {
    hn_value size = m_size_as(d, p->size[k], HN_DTYPE_I64);
    hn_value start = window_starts(d, p, k, p->base + p->spatial);
    hn_value end = m_add_c(d, start, (double)p->kernel[k]);
    end = m_bin(d, HN_OP_MIN, end, include_pad ? m_add_c(d, size, (double)p->padding[k]) : size);
    return m_sub(d, end, include_pad ? start : m_max_c(d, start, 0));
}

/* The divisor of each window: a rank-0 constant where all are the same. */
static hn_value pool_divisor(hn_dec *d, const pool *p, bool include_pad, int64_t override,
                             hn_dtype dtype) {
    double all = 1;
    for (uint32_t k = 0; k < p->spatial; k++) all *= (double)p->kernel[k];
    if (override) return hn_dec_const(d, (double) override, dtype);
    hn_value product = 0;
    for (uint32_t k = 0; k < p->spatial; k++) {
        if (!p->ceil_mode && (include_pad || p->padding[k] == 0)) continue;
        all /= (double)p->kernel[k];
        hn_value n = counted(d, p, k, include_pad);
        product = product ? m_mul(d, product, n) : n;
    }
    if (!product) return hn_dec_const(d, all, dtype);
    return m_cast(d, all == 1 ? product : m_mul_c(d, product, all), dtype);
}

static int64_t read_override(hn_dec *d, uint32_t arg) {
    if (!arg || !hn_dec_has(d, arg)) return 0;
    int64_t value = hn_dec_int(d, arg);
    m_require(d, value != 0, "the divisor of a pooling must not be 0");
    return value;
}

static void avg_pool(hn_dec *d, uint32_t spatial, uint32_t override_arg) {
    hn_value x = hn_dec_tensor(d, 0);
    pool p;
    const pool_args args = {.kernel = 1, .stride = 2, .padding = 3, .ceil_mode = 4};
    if (!read_pool(d, x, spatial, args, &p)) return;
    hn_dtype math = hn_dec_opmath(m_dtype(d, x));
    hn_value divisor = pool_divisor(d, &p, hn_dec_bool(d, 5), read_override(d, override_arg), math);
    hn_value sum = reduce_windows(d, HN_OP_SUM,
                                  windows(d, m_cast(d, x, math), &p, m_zero_scalar(d, math)), &p);
    m_result(d, 0, m_div(d, sum, divisor));
}

/* aten.avg_pool1d/2d/3d(self, kernel, stride, padding, ceil_mode, count_include_pad,
 * divisor_override) */
void hn_dec_avg_pool1d(hn_dec *d) { avg_pool(d, 1, 0); }
void hn_dec_avg_pool2d(hn_dec *d) { avg_pool(d, 2, 6); }
void hn_dec_avg_pool3d(hn_dec *d) { avg_pool(d, 3, 6); }

/* n elements along `dim` with step - 1 zeros between them and after the last. */
static hn_value spread(hn_dec *d, hn_value x, uint32_t dim, int64_t step) {
    if (step == 1) return x;
    hn_expr one = e_int(d, 1), n = m_size(d, x, dim);
    hn_value cells = m_split(d, x, dim, (hn_expr[]){n, one}, 2);
    cells = m_pad_dim(d, cells, dim + 1, e_int(d, 0), e_int(d, step - 1), hn_scalar_f(0));
    return m_merge(d, cells, dim, 2);
}

/* The transpose of "sum over windows" along one dim: input position h gets every output whose
 * window covers it. On outputs spread by the stride that is again a window sum, of `kernel` cells
 * that end at h + padding. */
static hn_value cover_sum(hn_dec *d, hn_value y, const pool *p, uint32_t k) {
    uint32_t dim = p->base + k;
    y = spread(d, y, dim, p->stride[k]);
    hn_expr have = m_size(d, y, dim), lo = e_int(d, p->kernel[k] - 1);
    /* positions padding .. padding + size - 1 are wanted; the window of the last ends there */
    hn_expr need = e_addc(d, p->size[k], p->padding[k]);
    y = m_pad_dim(d, y, dim, lo, e_max0(d, e_sub(d, need, have)), hn_scalar_f(0));
    y = m_slice(d, y, dim, e_int(d, p->padding[k]), e_addc(d, p->size[k], p->kernel[k] - 1));
    y = hn_b_window(d->g, y, dim, p->size[k], e_int(d, p->kernel[k]), e_int(d, 1), e_int(d, 1));
    return m_reduce1(d, HN_OP_SUM, y, m_rank(d, y) ? m_rank(d, y) - 1 : 0, false);
}

/* aten.avg_pool2d_backward(grad_output, self, kernel, stride, padding, ceil_mode,
 * count_include_pad, divisor_override) */
void hn_dec_avg_pool2d_backward(hn_dec *d) {
    hn_value grad = hn_dec_tensor(d, 0), x = hn_dec_tensor(d, 1);
    pool p;
    const pool_args args = {.kernel = 2, .stride = 3, .padding = 4, .ceil_mode = 5};
    if (!read_pool(d, x, 2, args, &p)) return;
    if (!m_require(d, m_rank(d, grad) == m_rank(d, x),
                   "the ranks of a pooling gradient do not fit"))
        return;
    hn_dtype math = hn_dec_opmath(m_dtype(d, grad));
    hn_value divisor = pool_divisor(d, &p, hn_dec_bool(d, 6), read_override(d, 7), math);
    hn_value r = m_div(d, m_cast(d, grad, math), divisor);
    for (uint32_t k = 0; k < p.spatial; k++) r = cover_sum(d, r, &p, k);
    m_result(d, 0, r);
}
