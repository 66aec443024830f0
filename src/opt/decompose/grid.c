/* grid.c: sampling an image at given points (spatial transformers), and the grid of points of
 * an affine map.
 *
 * Shapes: image [N, C, H, W], grid [N, oH, oW, 2] of (x, y) in -1..1, result [N, C, oH, oW]; or one
 * dim more each: [N, C, D, H, W], [N, oD, oH, oW, 3] of (x, y, z). Points are compared as floats
 * before they become indices, so that no cast is out of range and NaN is outside. */
#include "opt/decompose/math.h"

enum { MAX_AXES = 3 };

typedef enum sample_mode { SAMPLE_LINEAR, SAMPLE_NEAREST, SAMPLE_CUBIC, SAMPLE_COUNT } sample_mode;
typedef enum outside { OUTSIDE_ZERO, OUTSIDE_BORDER, OUTSIDE_REFLECT, OUTSIDE_COUNT } outside;

typedef struct sampler {
    uint32_t axes;           /* 2 or 3 */
    hn_value image;          /* [N, (D), H, W, C] */
    hn_value batch;          /* [N, (oD), oH, oW]: the sample each point belongs to */
    hn_value size[MAX_AXES]; /* of x, y and z, rank 0, dtype of the points */
    hn_dtype dtype;          /* of the points: opmath */
    outside outside;
    bool align_corners;
} sampler;

/* -1..1 to pixels: the ends are the centres of the corner pixels (aligned), or their outer
 * edges. */
static hn_value to_pixels(hn_dec *d, const sampler *s, uint32_t axis, hn_value at) {
    hn_value size = s->size[axis], shifted = m_add_c(d, at, 1);
    if (s->align_corners) return m_mul(d, m_div_c(d, shifted, 2), m_sub_c(d, size, 1));
    return m_div_c(d, m_sub_c(d, m_mul(d, shifted, size), 1), 2);
}

/* Folds positions back into the image at its (aligned: pixel centre, else: outer) edges. */
static hn_value reflect(hn_dec *d, const sampler *s, uint32_t axis, hn_value at) {
    double low = s->align_corners ? 0 : -0.5;
    hn_value span = s->align_corners ? m_sub_c(d, s->size[axis], 1) : s->size[axis];
    hn_value from = m_abs(d, m_sub_c(d, at, low)), extra = m_bin(d, HN_OP_FMOD, from, span);
    hn_value flips = m_floor(d, m_div(d, from, span));
    hn_value is_even = m_bin_c(d, HN_OP_EQ, m_bin_c(d, HN_OP_FMOD, flips, 2), 0);
    hn_value folded = m_add_c(d, m_where(d, is_even, extra, m_sub(d, span, extra)), low);
    /* one pixel, aligned: there is nothing to fold over */
    return m_where(d, m_bin_c(d, HN_OP_EQ, span, 0), m_c(d, folded, 0), folded);
}

/* PyTorch's clamps take NaN, which reflection makes of infinities too, as the first pixel in two
 * dimensions and as the last in three. */
static hn_value into_image(hn_dec *d, const sampler *s, uint32_t axis, hn_value at) {
    hn_value last = m_sub_c(d, s->size[axis], 1);
    if (s->outside == OUTSIDE_ZERO) return at;
    if (s->outside == OUTSIDE_REFLECT) at = reflect(d, s, axis, at);
    if (s->axes == 2) return m_bin(d, HN_OP_MIN, m_bin_c(d, HN_OP_FMAX, at, 0), last);
    return m_bin(d, HN_OP_FMIN, m_max_c(d, at, 0), last);
}

static hn_value is_inside(hn_dec *d, const sampler *s, const hn_value at[]) {
    hn_value all = 0;
    for (uint32_t k = 0; k < s->axes; k++) {
        hn_value ok =
            m_and(d, m_bin_c(d, HN_OP_GE, at[k], 0), m_bin(d, HN_OP_LT, at[k], s->size[k]));
        all = all ? m_and(d, all, ok) : ok;
    }
    return all;
}

/* The pixels at whole positions (floats, [N, (oD), oH, oW], x first), 0 outside: [N, C, (oD), oH,
 * oW] */
static hn_value pixels_at(hn_dec *d, const sampler *s, const hn_value at[]) {
    hn_value inside = is_inside(d, s, at), zero = m_c(d, at[0], 0),
             index[1 + MAX_AXES] = {s->batch};
    for (uint32_t k = 0; k < s->axes; k++)
        index[s->axes - k] = m_cast(d, m_where(d, inside, at[k], zero), HN_DTYPE_I64);
    /* N (oD) oH oW C */
    hn_value taken = m_cast(d, hn_b_index(d->g, s->image, index, 1 + s->axes, false), s->dtype);
    taken = taken ? m_move_dim(d, taken, s->axes + 1, 1) : 0;
    return m_where(d, hn_b_unsqueeze(d->g, inside, 1), taken, m_c(d, taken, 0));
}

static hn_value weighted(hn_dec *d, hn_value pixels, hn_value weight) {
    return m_mul(d, pixels, hn_b_unsqueeze(d->g, weight, 1));
}

/* The corners around each point, x changing fastest, by their distance from the opposite corner. */
static hn_value sample_linear(hn_dec *d, const sampler *s, const hn_value at[]) {
    hn_value ends[2][MAX_AXES] = {{0}}, weights[2][MAX_AXES] = {{0}}, sum = 0;
    for (uint32_t k = 0; k < s->axes; k++) {
        ends[0][k] = m_floor(d, at[k]);
        ends[1][k] = m_add_c(d, ends[0][k], 1);
        weights[0][k] = m_sub(d, ends[1][k], at[k]);
        weights[1][k] = m_sub(d, at[k], ends[0][k]);
    }
    for (uint32_t corner = 0; corner < 1U << s->axes; corner++) {
        hn_value position[MAX_AXES] = {0}, weight = weights[corner & 1][0];
        for (uint32_t k = 0; k < s->axes; k++) {
            position[k] = ends[corner >> k & 1][k];
            if (k) weight = m_mul(d, weight, weights[corner >> k & 1][k]);
        }
        hn_value part = weighted(d, pixels_at(d, s, position), weight);
        /* PyTorch leaves out what is outside, here also where the weight is NaN */
        if (s->axes == 3)
            part = m_where(d, hn_b_unsqueeze(d->g, is_inside(d, s, position), 1), part,
                           m_c(d, part, 0));
        sum = corner ? m_add(d, sum, part) : part;
    }
    return sum;
}

static hn_value sample_cubic(hn_dec *d, const sampler *s, const hn_value at[]) {
    hn_value x0 = m_floor(d, at[0]), y0 = m_floor(d, at[1]), wx[4], wy[4], sum = 0;
    m_cubic_weights(d, m_sub(d, at[0], x0), wx);
    m_cubic_weights(d, m_sub(d, at[1], y0), wy);
    for (uint32_t j = 0; j < 4; j++) {
        hn_value row = 0, at_y = into_image(d, s, 1, m_add_c(d, y0, (double)j - 1));
        for (uint32_t k = 0; k < 4; k++) {
            hn_value at_x = into_image(d, s, 0, m_add_c(d, x0, (double)k - 1));
            hn_value part = weighted(d, pixels_at(d, s, (hn_value[]){at_x, at_y}), wx[k]);
            row = k ? m_add(d, row, part) : part;
        }
        row = weighted(d, row, wy[j]);
        sum = j ? m_add(d, sum, row) : row;
    }
    return sum;
}

static bool read_sampler(hn_dec *d, hn_value image, hn_value grid, sampler *out) {
    int64_t border = hn_dec_int(d, 3);
    uint32_t rank = m_rank(d, image), axes = rank - 2;
    bool fits = (rank == 4 || rank == 5) && m_rank(d, grid) == rank;
    int64_t coordinates = axes; /* of a point, as far as that is known */
    if (fits) hn_sym_is_int(d->g->sym, m_size(d, grid, rank - 1), &coordinates);
    fits = fits && coordinates == axes;
    if (!m_require(d, fits,
                   "sampling by a grid wants [N, C, H, W] and [N, oH, oW, 2], or a dimension more"))
        return false;
    if (!m_require(d, border >= 0 && border < OUTSIDE_COUNT,
                   "grid sampling pads by 0 (zeros), 1 (border) or 2 (reflection)"))
        return false;
    hn_dtype dtype = hn_dec_opmath(m_dtype(d, image));
    *out = (sampler){.axes = axes,
                     .dtype = dtype,
                     .outside = (outside)border,
                     .align_corners = hn_dec_bool(d, 4)};
    for (uint32_t k = 0; k < axes; k++)
        out->size[k] = m_size_as(d, m_size(d, image, rank - 1 - k), dtype);
    out->image = m_move_dim(d, image, 1, rank - 1);
    m_shape_t points = m_shape(d, grid);
    points.rank--;
    out->batch =
        m_expand(d, m_along(d, m_iota(d, points.sizes[0], HN_DTYPE_I64), 0, points.rank), &points);
    return true;
}

/* aten.grid_sampler, grid_sampler_2d, grid_sampler_3d (input, grid, interpolation_mode,
 * padding_mode, align_corners) */
void hn_dec_grid_sampler(hn_dec *d) {
    hn_value image = hn_dec_tensor(d, 0), grid = hn_dec_tensor(d, 1), at[MAX_AXES] = {0};
    int64_t mode = hn_dec_int(d, 2);
    sampler s;
    if (!m_require(d, mode >= 0 && mode < SAMPLE_COUNT,
                   "grid sampling is 0 (bilinear), 1 (nearest) or 2 (bicubic)"))
        return;
    if (!read_sampler(d, image, grid, &s)) return;
    if (!m_require(d, mode != SAMPLE_CUBIC || s.axes == 2,
                   "bicubic grid sampling has two dimensions"))
        return;
    for (uint32_t k = 0; k < s.axes; k++) {
        hn_value points = m_cast(d, hn_b_select(d->g, grid, s.axes + 1, e_int(d, k)), s.dtype);
        at[k] = to_pixels(d, &s, k, points);
        /* cubic folds each tap instead */
        if (mode != SAMPLE_CUBIC) at[k] = into_image(d, &s, k, at[k]);
        if (mode == SAMPLE_NEAREST) at[k] = m_un(d, HN_OP_ROUND, at[k]);
    }
    if (mode == SAMPLE_NEAREST) m_result(d, 0, pixels_at(d, &s, at));
    else m_result(d, 0, mode == SAMPLE_LINEAR ? sample_linear(d, &s, at) : sample_cubic(d, &s, at));
}

/* n points from -1 to 1, symmetric to the last bit; not aligned: the centres of n equal cells. A
 * single point lies at 0. */
static hn_value axis_points(hn_dec *d, hn_expr n, bool align_corners, hn_dtype dtype) {
    hn_value i = m_iota(d, n, dtype), last = m_size_as(d, e_addc(d, n, -1), dtype);
    if (e_is(d, n, 1)) return m_mul_c(d, i, 0);
    hn_value step = m_div(d, m_c(d, last, 2), last);
    hn_value lower = m_sub_c(d, m_mul(d, i, step), 1),
             upper = m_c_sub(d, 1, m_mul(d, m_sub(d, last, i), step));
    hn_value half = m_size_as(d, hn_sym_floordiv(d->g->sym, n, e_int(d, 2)), dtype);
    hn_value points = m_where(d, m_bin(d, HN_OP_LT, i, half), lower, upper);
    return align_corners ? points : m_div(d, m_mul(d, points, last), m_size_as(d, n, dtype));
}

/* aten.affine_grid_generator(theta, size, align_corners): theta [N, 2, 3] with size [N, C, H, W],
 * or [N, 3, 4] with [N, C, D, H, W] -> [N, H, W, 2] (x, y) or [N, D, H, W, 3] (x, y, z) */
void hn_dec_affine_grid(hn_dec *d) {
    hn_value theta = hn_dec_tensor(d, 0);
    hn_expr size[HN_MAX_RANK];
    uint32_t rank = hn_dec_exprs(d, 1, size), spatial = rank - 2;
    if (!m_require(d, (rank == 4 || rank == 5) && m_rank(d, theta) == 3,
                   "affine grids have two or three dimensions"))
        return;
    hn_dtype dtype = m_dtype(d, theta), math = hn_dec_opmath(dtype);
    bool align_corners = hn_dec_bool(d, 2);
    theta = m_cast(d, theta, math);
    hn_value sum = 0;
    for (uint32_t k = 0; k <= spatial; k++) {                       /* columns x, y, (z), 1 */
        hn_value column = hn_b_select(d->g, theta, 2, e_int(d, k)); /* [N, spatial] */
        hn_expr sizes[HN_MAX_RANK];
        for (uint32_t j = 0; j < rank; j++) sizes[j] = e_int(d, 1);
        sizes[0] = m_size(d, theta, 0);
        sizes[rank - 1] = m_size(d, theta, 1);
        column = m_reshape(d, column, sizes, rank);
        if (k < spatial) /* x runs along the last spatial dim */
            column = m_mul(d, column,
                           m_along(d, axis_points(d, size[rank - 1 - k], align_corners, math),
                                   rank - 2 - k, rank));
        sum = k ? m_add(d, sum, column) : column;
    }
    m_shape_t out = m_meta_shape(d, 0);
    m_result(d, 0, m_expand(d, sum, &out));
}
