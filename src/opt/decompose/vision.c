/* vision.c: torchvision's operators on regions of images.
 *
 * Shapes: image [N, C, H, W]. Positions are floats until they are known to be inside. */
#include "opt/decompose/math.h"

static hn_value zero_of(hn_dec *d, hn_value like) { return m_c(d, like, 0); }

/* Channels last, so that one index takes all channels of a point: [N.., H, W, C] */
typedef struct points {
    hn_value lead[2]; /* what comes before y and x: the image, and its group of channels */
    uint32_t lead_count;
    hn_value y, x; /* all of one shape */
} points;

/* The pixels at whole positions that are inside, [points.., C]; `ok` says where they count. */
static hn_value corner(hn_dec *d, hn_value image, const points *p, hn_value y, hn_value x,
                       hn_value weight) {
    hn_value index[4];
    uint32_t count = 0;
    for (; count < p->lead_count; count++) index[count] = p->lead[count];
    index[count++] = m_cast(d, y, HN_DTYPE_I64);
    index[count++] = m_cast(d, x, HN_DTYPE_I64);
    hn_value taken = m_cast(d, hn_b_index(d->g, image, index, count, false), m_dtype(d, weight));
    return m_mul(d, taken, hn_b_unsqueeze(d->g, weight, m_rank(d, weight)));
}

/* --- roi_align --- */

/* One axis of the samples of all regions: two pixels and the second one's weight. */
typedef struct axis {
    hn_value low, high, weight, inside; /* [K, bins * samples] */
    hn_value taken;                     /* bool: this sample exists (adaptive), 0: all do */
    hn_value count;                     /* [K]: samples a bin */
    hn_expr samples;                    /* the most a bin has */
} axis;

/* [K] as [K, 1, 1] */
static hn_value per_region(hn_dec *d, hn_value v) {
    return hn_b_unsqueeze(d->g, hn_b_unsqueeze(d->g, v, 1), 1);
}

/* Positions [K, bins * samples]: start + (bin + (s + 0.5) / count) * width. Sets a.taken. */
static hn_value sample_positions(hn_dec *d, axis *a, hn_value start, hn_value width, hn_expr bins,
                                 bool adaptive) {
    hn_dtype dtype = m_dtype(d, start);
    hn_value bin = m_along(d, m_iota(d, bins, dtype), 1, 3);
    hn_value s = m_along(d, m_iota(d, a->samples, dtype), 2, 3);
    hn_value w = per_region(d, width), from = per_region(d, start);
    hn_value n = adaptive ? per_region(d, a->count) : a->count;
    hn_value in_bin = m_div(d, m_mul(d, m_add_c(d, s, 0.5), w), n);
    hn_value at = m_add(d, m_add(d, from, m_mul(d, bin, w)), in_bin);
    m_shape_t shape = m_shape(d, at);
    if (adaptive) a->taken = m_merge(d, m_expand(d, m_bin(d, HN_OP_LT, s, n), &shape), 1, 2);
    return m_merge(d, at, 1, 2);
}

/* The two pixels of each position: outside [-1, size] none, inside clamped to the image. */
static void sample_pixels(hn_dec *d, axis *a, hn_value at, hn_expr size) {
    hn_dtype dtype = m_dtype(d, at);
    hn_value last = m_size_as(d, e_addc(d, size, -1), dtype), end = m_size_as(d, size, dtype);
    a->inside = m_and(d, m_bin_c(d, HN_OP_GE, at, -1), m_bin(d, HN_OP_LE, at, end));
    hn_value clamped = m_max_c(d, m_where(d, a->inside, at, zero_of(d, at)), 0);
    a->low = m_bin(d, HN_OP_MIN, m_floor(d, clamped), last);
    a->high = m_bin(d, HN_OP_MIN, m_add_c(d, a->low, 1), last);
    hn_value is_last = m_bin(d, HN_OP_GE, a->low, last);
    a->weight = m_where(d, is_last, zero_of(d, at), m_sub(d, clamped, a->low));
    if (a->taken) a->inside = m_and(d, a->inside, a->taken);
}

/* `ratio`: samples of a bin; 0 or less: as many as pixels. */
static axis sample_axis(hn_dec *d, hn_value start, hn_value length, hn_expr bins, hn_expr size,
                        int64_t ratio) {
    const bool adaptive = ratio <= 0;
    axis a = {.samples = adaptive ? hn_sym_ceildiv(d->g->sym, size, bins) : e_int(d, ratio)};
    hn_value width = m_div(d, length, m_size_as(d, bins, m_dtype(d, start)));
    a.count = adaptive ? m_un(d, HN_OP_CEIL, width) : m_c(d, width, (double)ratio);
    hn_value at = sample_positions(d, &a, start, width, bins, adaptive);
    sample_pixels(d, &a, at, size);
    return a;
}

/* A region's edges in pixels of the image. */
static hn_value edge(hn_dec *d, hn_value rois, int64_t k, double scale, double offset) {
    hn_value v = hn_b_select(d->g, rois, 1, e_int(d, k));
    return m_sub_c(d, m_mul_c(d, v, scale), offset);
}

/* [K, Y, 1] or [K, 1, X] in the shape [K, Y, X] */
static hn_value spread_out(hn_dec *d, hn_value v, uint32_t new_dim, const m_shape_t *shape) {
    return m_expand(d, hn_b_unsqueeze(d->g, v, new_dim), shape);
}

static hn_value sampled(hn_dec *d, hn_value image, hn_value batch, const axis *y, const axis *x) {
    m_shape_t shape = {.rank = 3,
                       .sizes = {m_size(d, y->low, 0), m_size(d, y->low, 1), m_size(d, x->low, 1)}},
              each = shape;
    hn_value sum = 0, inside = m_and(d, hn_b_unsqueeze(d->g, y->inside, 2),
                                     hn_b_unsqueeze(d->g, x->inside, 1));
    points p = {.lead_count = 1};
    each.rank = 3;
    p.lead[0] = m_expand(d, hn_b_unsqueeze(d->g, hn_b_unsqueeze(d->g, batch, 1), 1), &each);
    for (int k = 0; k < 4; k++) {
        hn_value wy = k & 2 ? y->weight : m_c_sub(d, 1, y->weight),
                 wx = k & 1 ? x->weight : m_c_sub(d, 1, x->weight);
        hn_value weight = m_mul(d, spread_out(d, wy, 2, &shape), spread_out(d, wx, 1, &shape));
        weight = m_where(d, inside, weight, zero_of(d, weight));
        hn_value part = corner(d, image, &p, spread_out(d, k & 2 ? y->high : y->low, 2, &shape),
                               spread_out(d, k & 1 ? x->high : x->low, 1, &shape), weight);
        sum = sum ? m_add(d, sum, part) : part;
    }
    return sum;
}

static void require_fit(hn_dec *d, const axis *a) {
    hn_value most = m_size_as(d, a->samples, m_dtype(d, a->count)),
             fits = m_bin(d, HN_OP_LE, a->count, most);
    hn_b_assert(d->g, m_reduce_all(d, HN_OP_ALL, fits),
                HN_STR("a region of roi_align is larger than the image; give it a sampling_ratio"));
}

/* torchvision.roi_align(input, rois [K, 5], spatial_scale, pooled_height, pooled_width,
 * sampling_ratio, aligned): the mean of the samples of each bin. Without a ratio a region has as
 * many samples as pixels, up to the image's own number. */
void hn_dec_roi_align(hn_dec *d) {
    hn_value input = hn_dec_tensor(d, 0), rois = m_opmath(d, hn_dec_tensor(d, 1));
    double scale = hn_dec_float(d, 2), offset = hn_dec_bool(d, 6) ? 0.5 : 0;
    hn_expr bins[2] = {hn_dec_expr(d, 3), hn_dec_expr(d, 4)};
    int64_t ratio = hn_dec_int(d, 5);
    if (!m_require(d, m_rank(d, input) == 4 && m_rank(d, rois) == 2,
                   "roi_align wants images and a matrix of regions"))
        return;
    hn_value x0 = edge(d, rois, 1, scale, offset), y0 = edge(d, rois, 2, scale, offset);
    hn_value width = m_sub(d, edge(d, rois, 3, scale, offset), x0),
             height = m_sub(d, edge(d, rois, 4, scale, offset), y0);
    if (offset == 0) {
        width = m_max_c(d, width, 1);
        height = m_max_c(d, height, 1);
    }
    axis y = sample_axis(d, y0, height, bins[0], m_size(d, input, 2), ratio);
    axis x = sample_axis(d, x0, width, bins[1], m_size(d, input, 3), ratio);
    if (ratio <= 0) {
        require_fit(d, &y);
        require_fit(d, &x);
    }
    hn_value batch = m_cast(d, hn_b_select(d->g, rois, 1, e_int(d, 0)), HN_DTYPE_I64);
    hn_value v = sampled(d, m_move_dim(d, input, 1, 3), batch, &y,
                         &x); /* K, bins * samples, bins * samples, C */
    v = m_split(d, v, 2, (hn_expr[]){bins[1], x.samples}, 2);
    v = m_split(d, v, 1, (hn_expr[]){bins[0], y.samples}, 2);
    const uint32_t samples[2] = {2, 4};
    v = m_move_dim(d, m_reduce(d, HN_OP_SUM, v, samples, 2, false), 3, 1);
    hn_value count = m_max_c(d, m_mul(d, y.count, x.count), 1);
    for (uint32_t k = 1; ratio <= 0 && k < 4; k++) count = hn_b_unsqueeze(d->g, count, k);
    m_result(d, 0, m_div(d, v, count));
}

/* --- deform_conv2d --- */

typedef struct deform {
    hn_expr n, c, h, w, oh, ow;
    int64_t groups, offset_groups, kh, kw;
} deform;

/* Whole numbers k * step of a kernel position, or o * stride - padding of a result, along dimension
 * `dim` of 5. */
static hn_value ramp(hn_dec *d, hn_expr count, hn_expr step, hn_expr start, uint32_t dim,
                     hn_dtype dtype) {
    hn_value v =
        m_add(d, m_mul(d, m_iota(d, count, HN_DTYPE_I64), m_size_as(d, step, HN_DTYPE_I64)),
              m_size_as(d, start, HN_DTYPE_I64));
    return m_along(d, m_cast(d, v, dtype), dim, 6);
}

/* Bilinear pixels at y, x [N, G, kh, kw, oh, ow], zero beyond the border: [.., C / G] */
static hn_value deformed(hn_dec *d, hn_value image, const points *p, hn_value mask,
                         const deform *f) {
    hn_dtype dtype = m_dtype(d, p->y);
    hn_value y0 = m_floor(d, p->y), x0 = m_floor(d, p->x), dy = m_sub(d, p->y, y0),
             dx = m_sub(d, p->x, x0), sum = 0;
    hn_value bottom = m_size_as(d, f->h, dtype), right = m_size_as(d, f->w, dtype);
    for (int k = 0; k < 4; k++) {
        hn_value y = k & 2 ? m_add_c(d, y0, 1) : y0, x = k & 1 ? m_add_c(d, x0, 1) : x0;
        hn_value inside =
            m_and(d, m_and(d, m_bin_c(d, HN_OP_GE, y, 0), m_bin(d, HN_OP_LT, y, bottom)),
                  m_and(d, m_bin_c(d, HN_OP_GE, x, 0), m_bin(d, HN_OP_LT, x, right)));
        hn_value weight = m_mul(d, k & 2 ? dy : m_c_sub(d, 1, dy), k & 1 ? dx : m_c_sub(d, 1, dx));
        if (mask) weight = m_mul(d, weight, mask);
        weight = m_where(d, inside, weight, zero_of(d, weight));
        hn_value part = corner(d, image, p, m_where(d, inside, y, zero_of(d, y)),
                               m_where(d, inside, x, zero_of(d, x)), weight);
        sum = sum ? m_add(d, sum, part) : part;
    }
    return sum;
}

static hn_value lead_index(hn_dec *d, hn_expr count, uint32_t dim, const m_shape_t *shape) {
    return m_expand(d, m_along(d, m_iota(d, count, HN_DTYPE_I64), dim, 6), shape);
}

static bool read_deform(hn_dec *d, hn_value input, hn_value weight, deform *f) {
    m_shape_t out = m_meta_shape(d, 0);
    *f = (deform){.n = m_size(d, input, 0),
                  .c = m_size(d, input, 1),
                  .h = m_size(d, input, 2),
                  .w = m_size(d, input, 3),
                  .groups = hn_dec_int(d, 11),
                  .offset_groups = hn_dec_int(d, 12)};
    bool fits = m_rank(d, input) == 4 && out.rank == 4 && f->groups > 0 && f->offset_groups > 0 &&
                e_const(d, m_size(d, weight, 2), &f->kh) &&
                e_const(d, m_size(d, weight, 3), &f->kw);
    f->oh = out.sizes[2];
    f->ow = out.sizes[3];
    return m_require(d, fits, "deform_conv2d wants images and a weight of known sizes");
}

/* One axis, where the kernel would read without offsets: o * stride - padding + k * dilation. `xy`:
 * 0 y, 1 x. */
static hn_value base_position(hn_dec *d, hn_expr outputs, hn_expr kernel, uint32_t xy,
                              hn_dtype dtype) {
    hn_expr zero = e_int(d, 0), stride = hn_dec_expr(d, 5 + xy), padding = hn_dec_expr(d, 7 + xy);
    hn_value from = ramp(d, outputs, stride, e_sub(d, zero, padding), 4 + xy, dtype);
    return m_add(d, from, ramp(d, kernel, hn_dec_expr(d, 9 + xy), zero, 2 + xy, dtype));
}

/* The points that the kernel reads: N G kh kw oh ow. */
static points deform_points(hn_dec *d, hn_value offset, const deform *f) {
    hn_dtype dtype = m_dtype(d, offset);
    hn_expr groups = e_int(d, f->offset_groups), kh = e_int(d, f->kh), kw = e_int(d, f->kw),
            two = e_int(d, 2);
    m_shape_t grid = {.rank = 6, .sizes = {f->n, groups, kh, kw, f->oh, f->ow}};
    hn_value pairs =
        m_split(d, offset, 1, (hn_expr[]){groups, kh, kw, two}, 4); /* N G kh kw 2 oh ow */
    hn_value base_y = base_position(d, f->oh, kh, 0, dtype);
    hn_value base_x = base_position(d, f->ow, kw, 1, dtype);
    points p = {.lead_count = 2};
    p.lead[0] = lead_index(d, f->n, 0, &grid);
    p.lead[1] = lead_index(d, groups, 1, &grid);
    p.y = m_add(d, hn_b_select(d->g, pairs, 4, e_int(d, 0)), base_y);
    p.x = m_add(d, hn_b_select(d->g, pairs, 4, e_int(d, 1)), base_x);
    return p;
}

/* What the kernel reads of `input`: N G kh kw oh ow C/G. */
static hn_value deform_inputs(hn_dec *d, hn_value input, const points *p, const deform *f) {
    hn_expr groups = e_int(d, f->offset_groups), kh = e_int(d, f->kh), kw = e_int(d, f->kw);
    hn_expr channels = hn_sym_floordiv(d->g->sym, f->c, groups);
    hn_value mask = 0;
    if (hn_dec_bool(d, 13))
        mask = m_split(d, m_opmath(d, hn_dec_tensor(d, 3)), 1, (hn_expr[]){groups, kh, kw}, 3);
    hn_value image = m_split(d, input, 1, (hn_expr[]){groups, channels}, 2);
    return deformed(d, m_move_dim(d, image, 2, 4), p, mask, f);
}

/* Weights [groups, O / groups, depth] x columns [N, groups, depth, oh * ow], where depth is C /
 * groups * kh * kw. */
static hn_value deform_product(hn_dec *d, hn_value taken, hn_value weight, const deform *f) {
    m_shape_t out = m_meta_shape(d, 0);
    hn_expr all = e_int(d, f->groups), taps = e_mul(d, e_int(d, f->kh), e_int(d, f->kw));
    hn_expr depth = e_mul(d, hn_sym_floordiv(d->g->sym, f->c, all), taps);
    hn_expr part = hn_sym_floordiv(d->g->sym, out.sizes[1], all);
    hn_value columns = m_reshape(d, m_move_dim(d, taken, 6, 2),
                                 (hn_expr[]){f->n, all, depth, e_mul(d, f->oh, f->ow)}, 4);
    m_shape_t wide = {.rank = 4, .sizes = {f->n, all, part, depth}};
    hn_value w = m_reshape(d, weight, (hn_expr[]){e_int(d, 1), all, part, depth}, 4);
    return m_reshape(d, hn_b_matmul(d->g, m_expand(d, w, &wide), columns, 0), out.sizes, 4);
}

/* torchvision.deform_conv2d(input, weight, offset, mask, bias, stride, padding, dilation (two
 * each), groups, offset_groups, use_mask) */
void hn_dec_deform_conv2d(hn_dec *d) {
    hn_value input = hn_dec_tensor(d, 0), weight = hn_dec_tensor(d, 1),
             offset = m_opmath(d, hn_dec_tensor(d, 2));
    hn_dtype dtype = m_dtype(d, offset);
    deform f;
    if (!read_deform(d, input, weight, &f)) return;
    points p = deform_points(d, offset, &f);
    hn_value taken = deform_inputs(d, input, &p, &f);
    hn_value r = deform_product(d, taken, m_cast(d, weight, dtype), &f);
    hn_value bias = hn_dec_tensor(d, 4);
    if (bias) r = m_add(d, r, m_along(d, m_cast(d, bias, dtype), 1, 4));
    m_result(d, 0, r);
}
