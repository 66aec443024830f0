/* upsample.c: resizing of images. Each output position has 1 (nearest), 2 (linear) or 4 (cubic)
 * taps along each resized dim; the taps of all dims are read by one INDEX each and weighted, so
 * that the whole is one element-wise kernel.
 *
 * Rules of PyTorch that one can get wrong: the source position is computed in f32 (f64 for f64
 * images), a given scale factor is used as it is and not the ratio of the sizes, and nearest floors
 * i * scale.
 * Shapes: [N, C, size..] -> [N, C, out..]. */
#include "opt/decompose/math.h"

#include <math.h>

enum { MAX_TAPS = 4, MAX_SPATIAL = 3 };

typedef struct resize {
    uint32_t spatial;
    hn_expr in[MAX_SPATIAL], out[MAX_SPATIAL];
    double factor[MAX_SPATIAL]; /* given scale factors; 0: none */
    bool align_corners;
    bool is_exact; /* nearest of pixel centres: (i + 1/2) * step */
    hn_dtype math; /* of positions and weights */
} resize;

/* Taps along one dim: positions (i64) and weights, vectors over the output. */
typedef struct taps {
    uint32_t count;
    hn_value index[MAX_TAPS], weight[MAX_TAPS];
} taps;

/* --- reading --- */

/* Scale factors: one list (".vec") or one argument per dim. */
static bool read_factors(hn_dec *d, bool is_vec, uint32_t arg, resize *r) {
    if (is_vec) {
        const double *list = NULL;
        uint32_t count = hn_dec_floats(d, arg, &list);
        for (uint32_t k = 0; k < count && k < r->spatial; k++) r->factor[k] = list[k];
        return m_require(d, count == 0 || count == r->spatial,
                         "resizing wants one scale factor for each dimension");
    }
    for (uint32_t k = 0; k < r->spatial; k++)
        if (hn_dec_has(d, arg + k)) r->factor[k] = hn_dec_float(d, arg + k);
    return true;
}

static bool read_resize(hn_dec *d, hn_value x, uint32_t spatial, bool is_vec, bool has_align,
                        resize *out) {
    m_shape_t s = m_shape(d, x), to = m_meta_shape(d, 0);
    *out = (resize){.spatial = spatial,
                    .math = m_dtype(d, x) == HN_DTYPE_F64 ? HN_DTYPE_F64 : HN_DTYPE_F32};
    if (!m_require(d, s.rank == spatial + 2 && to.rank == s.rank, "resizing wants [N, C, size..]"))
        return false;
    for (uint32_t k = 0; k < spatial; k++) {
        out->in[k] = s.sizes[2 + k];
        out->out[k] = to.sizes[2 + k];
    }
    if (has_align) out->align_corners = hn_dec_bool(d, 2);
    return read_factors(d, is_vec, has_align ? 3 : 2, out);
}

/* --- positions --- */

/* Input positions per output position, a rank-0 tensor of `dtype`. */
static hn_value step_of(hn_dec *d, const resize *r, uint32_t k, hn_dtype dtype) {
    int64_t in = 0, out = 0, trim = r->align_corners ? 1 : 0;
    if (!trim && r->factor[k] > 0) return hn_dec_const(d, 1.0 / r->factor[k], dtype);
    if (trim && e_is(d, r->out[k], 1)) return hn_dec_const(d, 0, dtype);
    hn_expr a = e_addc(d, r->in[k], -trim), b = e_addc(d, r->out[k], -trim);
    if (!e_const(d, a, &in) || !e_const(d, b, &out))
        return m_div(d, m_size_as(d, a, dtype), m_size_as(d, b, dtype));
    if (out == 0) return hn_dec_const(d, 0, dtype); /* nothing is read */
    return hn_dec_const(
        d, dtype == HN_DTYPE_F64 ? (double)in / (double)out : (double)((float)in / (float)out),
        dtype);
}

/* Of positions as indices: words where they do, which are cheaper to compute and to compile. */
static hn_dtype index_dtype(hn_dec *d, const resize *r, uint32_t k) {
    int64_t in = 0;
    return e_const(d, r->in[k], &in) && in <= INT32_MAX / 2 ? HN_DTYPE_I32 : HN_DTYPE_I64;
}

static hn_value last_index(hn_dec *d, const resize *r, uint32_t k) {
    return m_size_as(d, e_addc(d, r->in[k], -1), index_dtype(d, r, k));
}

static hn_value clamp_index(hn_dec *d, const resize *r, uint32_t k, hn_value index) {
    return m_bin(d, HN_OP_MIN, m_max_c(d, index, 0), last_index(d, r, k));
}

/* floor(i * step) or floor((i + 1/2) * step), at most the last; always in f32 */
static hn_value nearest_index(hn_dec *d, const resize *r, uint32_t k) {
    hn_value i = m_iota(d, r->out[k], HN_DTYPE_F32);
    if (r->is_exact) i = m_add_c(d, i, 0.5);
    hn_value at =
        m_cast(d, m_floor(d, m_mul(d, i, step_of(d, r, k, HN_DTYPE_F32))), index_dtype(d, r, k));
    return m_bin(d, HN_OP_MIN, at, last_index(d, r, k));
}

/* Where output position i lies in the input. */
static hn_value source_position(hn_dec *d, const resize *r, uint32_t k, bool is_cubic) {
    hn_value i = m_iota(d, r->out[k], r->math), step = step_of(d, r, k, r->math);
    if (r->align_corners) return m_mul(d, i, step);
    hn_value at = m_sub_c(d, m_mul(d, m_add_c(d, i, 0.5), step), 0.5);
    return is_cubic ? at : m_max_c(d, at, 0);
}

/* The tap below a position, and the position's distance from it in [0, 1]. */
static hn_value lower_tap(hn_dec *d, const resize *r, uint32_t k, hn_value at,
                          hn_value *out_distance) {
    hn_value low =
        m_bin(d, HN_OP_MIN, m_cast(d, m_floor(d, at), index_dtype(d, r, k)), last_index(d, r, k));
    *out_distance = m_min_c(d, m_max_c(d, m_sub(d, at, m_cast(d, low, r->math)), 0), 1);
    return low;
}

static taps linear_taps(hn_dec *d, const resize *r, uint32_t k) {
    taps t = {.count = 2};
    t.index[0] = lower_tap(d, r, k, source_position(d, r, k, false), &t.weight[1]);
    t.index[1] = m_bin(d, HN_OP_MIN, m_add_c(d, t.index[0], 1), last_index(d, r, k));
    t.weight[0] = m_c_sub(d, 1, t.weight[1]);
    return t;
}

static taps cubic_taps(hn_dec *d, const resize *r, uint32_t k) {
    taps t = {.count = 4};
    hn_value distance = 0, low = lower_tap(d, r, k, source_position(d, r, k, true), &distance);
    m_cubic_weights(d, distance, t.weight);
    for (uint32_t j = 0; j < 4; j++)
        t.index[j] = clamp_index(d, r, k, m_add_c(d, low, (double)j - 1));
    return t;
}

/* --- reading the image --- */

/* x[N, C, index0.., index1..]: each index a vector along its own dim. */
static hn_value read_at(hn_dec *d, hn_value x, uint32_t spatial, const hn_value *index) {
    hn_value full[MAX_SPATIAL];
    m_shape_t s = {.rank = spatial};
    uint32_t front[MAX_SPATIAL + 2], back[MAX_SPATIAL + 2];
    for (uint32_t k = 0; k < spatial; k++) s.sizes[k] = m_size(d, index[k], 0);
    for (uint32_t k = 0; k < spatial; k++)
        full[k] = m_expand(d, m_along(d, index[k], k, spatial), &s);
    for (uint32_t k = 0; k < spatial + 2; k++) {
        front[k] = (k + 2) % (spatial + 2);
        back[k] = (k + spatial) % (spatial + 2);
    }
    if (!x) return 0;
    hn_value taken = hn_b_index(d->g, hn_b_permute(d->g, x, front), full, spatial, false);
    return hn_b_permute(d->g, taken, back);
}

/* Weighted sum over the taps of dims k, k+1.. with those of earlier dims chosen. */
static hn_value weigh(hn_dec *d, hn_value x, const resize *r, const taps *t, uint32_t k,
                      hn_value chosen[MAX_SPATIAL]) {
    if (k == r->spatial) return m_cast(d, read_at(d, x, r->spatial, chosen), r->math);
    hn_value sum = 0;
    for (uint32_t j = 0; j < t[k].count; j++) {
        chosen[k] = t[k].index[j];
        hn_value part = m_mul(d, weigh(d, x, r, t, k + 1, chosen),
                              m_along(d, t[k].weight[j], 2 + k, r->spatial + 2));
        sum = j ? m_add(d, sum, part) : part;
    }
    return sum;
}

typedef taps (*taps_fn)(hn_dec *d, const resize *r, uint32_t k);

static void interpolate(hn_dec *d, uint32_t spatial, bool is_vec, taps_fn fn) {
    hn_value x = hn_dec_tensor(d, 0), chosen[MAX_SPATIAL];
    resize r;
    taps t[MAX_SPATIAL];
    if (!read_resize(d, x, spatial, is_vec, true, &r)) return;
    if (!m_require(d, hn_dtype_is_float(m_dtype(d, x)), "interpolation of integers")) return;
    for (uint32_t k = 0; k < spatial; k++) t[k] = fn(d, &r, k);
    m_result(d, 0, weigh(d, x, &r, t, 0, chosen));
}

/* aten.upsample_linear1d, upsample_bilinear2d, upsample_trilinear3d, upsample_bicubic2d (self,
 * output_size, align_corners, scales) */
void hn_dec_upsample_linear1d(hn_dec *d) { interpolate(d, 1, false, linear_taps); }
void hn_dec_upsample_linear1d_vec(hn_dec *d) { interpolate(d, 1, true, linear_taps); }
void hn_dec_upsample_bilinear2d(hn_dec *d) { interpolate(d, 2, false, linear_taps); }
void hn_dec_upsample_bilinear2d_vec(hn_dec *d) { interpolate(d, 2, true, linear_taps); }
void hn_dec_upsample_trilinear3d(hn_dec *d) { interpolate(d, 3, false, linear_taps); }
void hn_dec_upsample_trilinear3d_vec(hn_dec *d) { interpolate(d, 3, true, linear_taps); }
void hn_dec_upsample_bicubic2d(hn_dec *d) { interpolate(d, 2, false, cubic_taps); }
void hn_dec_upsample_bicubic2d_vec(hn_dec *d) { interpolate(d, 2, true, cubic_taps); }

/* --- antialiased --- */

/* (1 - |t|)+, or the cubic of A = -1/2 */
static hn_value smoothing(hn_dec *d, hn_value t, bool is_cubic) {
    hn_value x = m_abs(d, t);
    if (!is_cubic) return m_max_c(d, m_c_sub(d, 1, x), 0);
    hn_value near_part =
        m_add_c(d, m_mul(d, m_mul(d, m_sub_c(d, m_mul_c(d, x, 1.5), 2.5), x), x), 1);
    hn_value far_part = m_add_c(d, m_mul(d, m_sub_c(d, x, 5), x), 8);
    far_part = m_mul_c(d, m_sub_c(d, m_mul(d, far_part, x), 4), -0.5);
    far_part = m_where(d, m_bin_c(d, HN_OP_LT, x, 2), far_part, m_c(d, x, 0));
    return m_where(d, m_bin_c(d, HN_OP_LT, x, 1), near_part, far_part);
}

/* Weights of all input positions for all output positions along dim k: [in, out]. The filter is
 * stretched by the step when that is above 1, and cut to whole positions as eager PyTorch cuts
 * it. */
static hn_value smoothing_weights(hn_dec *d, const resize *r, uint32_t k, bool is_cubic) {
    hn_value step = step_of(d, r, k, r->math), stretch = m_max_c(d, step, 1);
    hn_value reach = is_cubic ? m_mul_c(d, stretch, 2) : stretch;
    hn_value centre = m_mul(d, m_add_c(d, m_iota(d, r->out[k], r->math), 0.5), step);
    hn_value first = m_un(d, HN_OP_TRUNC, m_add_c(d, m_sub(d, centre, reach), 0.5));
    hn_value end = m_un(d, HN_OP_TRUNC, m_add_c(d, m_add(d, centre, reach), 0.5));
    hn_value at = m_along(d, m_iota(d, r->in[k], r->math), 0, 2);
    hn_value inside = m_and(d, m_bin(d, HN_OP_GE, at, first), m_bin(d, HN_OP_LT, at, end));
    hn_value t = m_div(d, m_add_c(d, m_sub(d, at, centre), 0.5), stretch);
    hn_value weights = smoothing(d, t, is_cubic);
    weights = m_where(d, inside, weights, m_c(d, weights, 0));
    return m_div(d, weights, m_reduce1(d, HN_OP_SUM, weights, 0, true));
}

static void smoothed(hn_dec *d, bool is_vec, bool is_cubic) {
    hn_value x = hn_dec_tensor(d, 0);
    resize r;
    if (!read_resize(d, x, 2, is_vec, true, &r)) return;
    if (!m_require(d, hn_dtype_is_float(m_dtype(d, x)), "interpolation of integers")) return;
    x = m_cast(d, x, r.math);
    /* [N, C, H, W] -> [N, C, W, H] each time: the resized dim comes last */
    for (uint32_t k = 2; k-- > 0;) {
        m_shape_t s = m_shape(d, x);
        hn_value rows = m_reshape(d, x, (hn_expr[]){e_product(d, s.sizes, 3), s.sizes[3]}, 2);
        rows = hn_b_matmul(d->g, rows, smoothing_weights(d, &r, k, is_cubic), 0);
        s.sizes[3] = r.out[k];
        x = m_reshape(d, rows, s.sizes, 4);
        if (!x) return;
        x = hn_b_transpose(d->g, x, 2, 3);
    }
    m_result(d, 0, x);
}

/* aten._upsample_bilinear2d_aa, _upsample_bicubic2d_aa (self, output_size, align_corners,
 * scales) */
void hn_dec_upsample_bilinear2d_aa(hn_dec *d) { smoothed(d, false, false); }
void hn_dec_upsample_bilinear2d_aa_vec(hn_dec *d) { smoothed(d, true, false); }
void hn_dec_upsample_bicubic2d_aa(hn_dec *d) { smoothed(d, false, true); }
void hn_dec_upsample_bicubic2d_aa_vec(hn_dec *d) { smoothed(d, true, true); }

/* --- nearest --- */

/* How often each element is repeated along dim k when all are repeated equally often; 0 otherwise.
 * f32 rounding can move a position below its multiple, so known sizes are tried out; with symbolic
 * ones a power of two is exact. */
static int64_t whole_factor(hn_dec *d, const resize *r, uint32_t k) {
    enum { MAX_TRIED = 1 << 16 };
    int64_t in = 0, out = 0;
    if (!e_const(d, r->in[k], &in) || !e_const(d, r->out[k], &out)) {
        for (int64_t f = 1; f <= 64; f *= 2)
            if (e_eq(d, r->out[k], e_mulc(d, r->in[k], f)) &&
                (r->factor[k] == 0 || r->factor[k] == (double)f))
                return f;
        return 0;
    }
    if (in <= 0 || out <= 0 || out % in || out > MAX_TRIED) return 0;
    float step = r->factor[k] > 0 ? (float)(1.0 / r->factor[k]) : (float)in / (float)out;
    for (int64_t i = 0; i < out; i++) {
        int64_t at = (int64_t)floorf(((float)i + (r->is_exact ? 0.5F : 0.0F)) * step);
        if ((at < in ? at : in - 1) != i / (out / in)) return 0;
    }
    return out / in;
}

static bool whole_factors(hn_dec *d, const resize *r, int64_t out[MAX_SPATIAL]) {
    for (uint32_t k = 0; k < r->spatial; k++)
        if ((out[k] = whole_factor(d, r, k)) == 0) return false;
    return true;
}

/* [.., size, ..] -> [.., size * factor, ..] by repeating: views only */
static hn_value repeat_dim(hn_dec *d, hn_value x, uint32_t dim, int64_t factor) {
    if (factor == 1) return x;
    x = hn_b_unsqueeze(d->g, x, dim + 1);
    m_shape_t s = m_shape(d, x);
    if (s.rank) s.sizes[dim + 1] = e_int(d, factor);
    return m_merge(d, m_expand(d, x, &s), dim, 2);
}

static void nearest(hn_dec *d, uint32_t spatial, bool is_vec, bool is_exact) {
    hn_value x = hn_dec_tensor(d, 0), index[MAX_SPATIAL];
    resize r;
    int64_t factor[MAX_SPATIAL];
    if (!read_resize(d, x, spatial, is_vec, false, &r)) return;
    r.is_exact = is_exact;
    if (whole_factors(d, &r, factor)) {
        for (uint32_t k = 0; k < spatial; k++) x = repeat_dim(d, x, 2 + k, factor[k]);
        m_result(d, 0, x);
        return;
    }
    for (uint32_t k = 0; k < spatial; k++) index[k] = nearest_index(d, &r, k);
    m_result(d, 0, read_at(d, x, spatial, index));
}

/* aten.upsample_nearest1d/2d/3d (self, output_size, scales) */
void hn_dec_upsample_nearest1d(hn_dec *d) { nearest(d, 1, false, false); }
void hn_dec_upsample_nearest1d_vec(hn_dec *d) { nearest(d, 1, true, false); }
void hn_dec_upsample_nearest2d(hn_dec *d) { nearest(d, 2, false, false); }
void hn_dec_upsample_nearest2d_vec(hn_dec *d) { nearest(d, 2, true, false); }
void hn_dec_upsample_nearest3d(hn_dec *d) { nearest(d, 3, false, false); }
void hn_dec_upsample_nearest3d_vec(hn_dec *d) { nearest(d, 3, true, false); }

/* aten._upsample_nearest_exact1d/2d/3d, the same arguments */
void hn_dec_upsample_nearest_exact1d(hn_dec *d) { nearest(d, 1, false, true); }
void hn_dec_upsample_nearest_exact1d_vec(hn_dec *d) { nearest(d, 1, true, true); }
void hn_dec_upsample_nearest_exact2d(hn_dec *d) { nearest(d, 2, false, true); }
void hn_dec_upsample_nearest_exact2d_vec(hn_dec *d) { nearest(d, 2, true, true); }
void hn_dec_upsample_nearest_exact3d(hn_dec *d) { nearest(d, 3, false, true); }
void hn_dec_upsample_nearest_exact3d_vec(hn_dec *d) { nearest(d, 3, true, true); }

/* Adds each gradient to the element it was read from. grad [N, C, oH, oW] -> [N, C, H, W] */
static hn_value add_where_read(hn_dec *d, hn_value grad, const resize *r, const m_shape_t *to) {
    m_shape_t plane = {.rank = 2, .sizes = {r->out[0], r->out[1]}};
    m_shape_t front = {.rank = 4,
                       .sizes = {to->sizes[2], to->sizes[3], to->sizes[0], to->sizes[1]}};
    hn_value index[2];
    for (uint32_t k = 0; k < 2; k++)
        index[k] = m_expand(d, m_along(d, nearest_index(d, r, k), k, 2), &plane);
    hn_value values = hn_b_permute(d->g, grad, (uint32_t[]){2, 3, 0, 1});
    hn_value sum =
        hn_b_index_put(d->g, m_zeros(d, &front, m_dtype(d, grad)), index, 2, values, "add", false);
    return hn_b_permute(d->g, sum, (uint32_t[]){2, 3, 0, 1});
}

/* aten.upsample_nearest2d_backward(grad_output, output_size, input_size, scales_h, scales_w) */
void hn_dec_upsample_nearest2d_backward(hn_dec *d) {
    hn_value grad = m_opmath(d, hn_dec_tensor(d, 0));
    m_shape_t from = m_shape(d, grad), to;
    to.rank = hn_dec_exprs(d, 2, to.sizes);
    if (!m_require(d, from.rank == 4 && to.rank == 4,
                   "the gradient of resizing wants [N, C, H, W]"))
        return;
    resize r = {
        .spatial = 2, .in = {to.sizes[2], to.sizes[3]}, .out = {from.sizes[2], from.sizes[3]}};
    int64_t factor[MAX_SPATIAL];
    if (!read_factors(d, false, 3, &r)) return;
    if (!whole_factors(d, &r, factor)) {
        m_result(d, 0, add_where_read(d, grad, &r, &to));
        return;
    }
    grad = m_split(d, grad, 3, (hn_expr[]){to.sizes[3], e_int(d, factor[1])}, 2);
    grad = m_split(d, grad, 2, (hn_expr[]){to.sizes[2], e_int(d, factor[0])}, 2);
    m_result(d, 0, m_reduce(d, HN_OP_SUM, grad, (uint32_t[]){3, 5}, 2, false));
}

/* The weights of all input positions for all output positions along dim k: [out, in] */
static hn_value tap_weights(hn_dec *d, const resize *r, uint32_t k, const taps *t) {
    hn_value at = m_along(d, m_iota(d, r->in[k], m_dtype(d, t->index[0])), 1, 2), sum = 0;
    for (uint32_t j = 0; j < t->count; j++) {
        hn_value weight = m_along(d, t->weight[j], 0, 2),
                 here = m_bin(d, HN_OP_EQ, m_along(d, t->index[j], 0, 2), at);
        hn_value part = m_where(d, here, weight, m_c(d, weight, 0));
        sum = j ? m_add(d, sum, part) : part;
    }
    return sum;
}

/* Resizing is a product with a matrix along each dim; its gradient is the product with the
 * transposed ones. */
static void interpolate_backward(hn_dec *d, taps_fn fn) {
    hn_value grad = m_opmath(d, hn_dec_tensor(d, 0));
    m_shape_t from = m_shape(d, grad), to;
    to.rank = hn_dec_exprs(d, 2, to.sizes);
    if (!m_require(d, from.rank == 4 && to.rank == 4,
                   "the gradient of resizing wants [N, C, H, W]"))
        return;
    resize r = {.spatial = 2,
                .in = {to.sizes[2], to.sizes[3]},
                .out = {from.sizes[2], from.sizes[3]},
                .math = m_dtype(d, grad)};
    r.align_corners = hn_dec_bool(d, 3);
    if (!read_factors(d, false, 4, &r)) return;
    for (uint32_t k = 2; k-- > 0;) { /* [N, C, oH, oW] -> [N, C, W, oH] -> [N, C, H, W] */
        taps t = fn(d, &r, k);
        m_shape_t s = m_shape(d, grad);
        hn_value rows = m_reshape(d, grad, (hn_expr[]){e_product(d, s.sizes, 3), s.sizes[3]}, 2);
        rows = hn_b_matmul(d->g, rows, tap_weights(d, &r, k, &t), 0);
        s.sizes[3] = r.in[k];
        grad = m_reshape(d, rows, s.sizes, 4);
        if (!grad) return;
        grad = hn_b_transpose(d->g, grad, 2, 3);
    }
    m_result(d, 0, grad);
}

/* aten.upsample_bilinear2d_backward, upsample_bicubic2d_backward (grad_output, output_size,
 * input_size, align_corners, scales_h, scales_w) */
void hn_dec_upsample_bilinear2d_backward(hn_dec *d) { interpolate_backward(d, linear_taps); }
void hn_dec_upsample_bicubic2d_backward(hn_dec *d) { interpolate_backward(d, cubic_taps); }
