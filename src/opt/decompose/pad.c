/* pad.c: borders, and the patches of im2col and col2im.
 *
 * Padding amounts come in pairs from the last dim backwards. Constant borders are PAD (negative
 * amounts cut); reflected, replicated and circular ones read by computed positions. */
#include "opt/decompose/math.h"

typedef enum border { BORDER_CONSTANT, BORDER_REFLECT, BORDER_REPLICATE, BORDER_CIRCULAR } border;

typedef struct amounts {
    uint32_t count;                           /* padded dims: rank - count .. rank - 1 */
    hn_expr lo[HN_MAX_RANK], hi[HN_MAX_RANK]; /* lo[0] is of the last dim */
} amounts;

static bool read_amounts(hn_dec *d, hn_value x, amounts *out) {
    hn_expr list[HN_MAX_RANK];
    uint32_t count = hn_dec_exprs(d, 1, list);
    if (!m_require(d, count % 2 == 0 && count / 2 <= m_rank(d, x),
                   "padding wants two amounts for each padded dimension"))
        return false;
    out->count = count / 2;
    for (uint32_t k = 0; k < out->count; k++) {
        out->lo[k] = list[2 * k];
        out->hi[k] = list[2 * k + 1];
    }
    return true;
}

static bool is_negative(hn_dec *d, hn_expr amount) {
    return hn_sym_guard(d->g->sym, HN_REL_LT, amount, e_int(d, 0), "a padding amount is negative");
}

/* Takes negative amounts off x and sets them to 0. */
static hn_value cut(hn_dec *d, hn_value x, amounts *a) {
    uint32_t rank = m_rank(d, x);
    hn_expr zero = e_int(d, 0);
    for (uint32_t k = 0; k < a->count; k++) {
        uint32_t dim = rank - 1 - k;
        bool cut_lo = is_negative(d, a->lo[k]), cut_hi = is_negative(d, a->hi[k]);
        hn_expr start = cut_lo ? hn_sym_neg(d->g->sym, a->lo[k]) : zero,
                size = e_sub(d, m_size(d, x, dim), start);
        if (cut_hi) size = e_add(d, size, a->hi[k]);
        if (cut_lo || cut_hi) x = m_slice(d, x, dim, start, size);
        if (cut_lo) a->lo[k] = zero;
        if (cut_hi) a->hi[k] = zero;
    }
    return x;
}

static hn_value pad_constant(hn_dec *d, hn_value x, amounts *a, hn_scalar value) {
    uint32_t rank = m_rank(d, x);
    hn_expr lo[HN_MAX_RANK], hi[HN_MAX_RANK];
    bool grows = false;
    x = cut(d, x, a);
    for (uint32_t k = 0; k < rank; k++) lo[k] = hi[k] = e_int(d, 0);
    for (uint32_t k = 0; k < a->count; k++) {
        lo[rank - 1 - k] = a->lo[k];
        hi[rank - 1 - k] = a->hi[k];
        grows |= !e_is(d, a->lo[k], 0) || !e_is(d, a->hi[k], 0);
    }
    return grows ? hn_b_pad(d->g, x, value, lo, hi) : x;
}

/* The value of the border in the tensor's dtype. */
static hn_scalar border_value(hn_dec *d, uint32_t arg, hn_dtype dtype) {
    if (!hn_dec_has(d, arg)) return m_zero_scalar(d, dtype);
    hn_scalar s = hn_dec_scalar(d, arg);
    if (dtype == HN_DTYPE_BOOL && s.is_float) return hn_scalar_i(e_int(d, s.f != 0));
    if (!hn_dtype_is_float(dtype) && s.is_float) return hn_scalar_i(e_trunc(d, s.f));
    int64_t value = 0;
    if (hn_dtype_is_float(dtype) && !s.is_float && e_const(d, s.i, &value))
        return hn_scalar_f((double)value);
    return s;
}

/* aten.constant_pad_nd(self, pad, value) */
void hn_dec_constant_pad(hn_dec *d) {
    hn_value x = hn_dec_tensor(d, 0);
    amounts a;
    if (read_amounts(d, x, &a))
        m_result(d, 0, pad_constant(d, x, &a, border_value(d, 2, m_dtype(d, x))));
}

/* Positions 0 .. lo + size + hi - 1 of a padded dim as positions of the unpadded one. */
static hn_value border_positions(hn_dec *d, border kind, hn_expr size, hn_expr lo, hn_expr hi) {
    hn_scalar start = hn_scalar_i(hn_sym_neg(d->g->sym, lo)), step = hn_scalar_i(e_int(d, 1));
    hn_value at = hn_b_iota(d->g, start, step, e_add(d, size, e_add(d, lo, hi)), HN_DTYPE_I64);
    hn_value last = m_size_as(d, e_addc(d, size, -1), HN_DTYPE_I64);
    switch (kind) {
    case BORDER_REFLECT: /* last - |last - |i|| */
        return m_sub(d, last, m_abs(d, m_sub(d, last, m_abs(d, at))));
    case BORDER_REPLICATE: return m_max_c(d, m_bin(d, HN_OP_MIN, at, last), 0);
    default: return m_bin(d, HN_OP_REMAINDER, at, m_size_as(d, size, HN_DTYPE_I64));
    }
}

/* A circular border repeats what negative amounts leave; the others may read what they take off. */
static void pad_by_position(hn_dec *d, border kind) {
    hn_value x = hn_dec_tensor(d, 0);
    amounts a;
    if (!read_amounts(d, x, &a)) return;
    if (kind == BORDER_CIRCULAR) x = cut(d, x, &a);
    uint32_t rank = m_rank(d, x);
    for (uint32_t k = 0; k < a.count; k++) {
        uint32_t dim = rank - 1 - k;
        if (e_is(d, a.lo[k], 0) && e_is(d, a.hi[k], 0)) continue;
        x = m_take_dim(d, x, dim, border_positions(d, kind, m_size(d, x, dim), a.lo[k], a.hi[k]));
    }
    m_result(d, 0, x);
}

/* aten.reflection_pad1d/2d/3d(self, padding) */
void hn_dec_reflection_pad(hn_dec *d) { pad_by_position(d, BORDER_REFLECT); }
/* aten._pad_circular(self, pad) */
void hn_dec_pad_circular(hn_dec *d) { pad_by_position(d, BORDER_CIRCULAR); }

/* aten._pad_enum(self, pad, mode, value): 0 reflect, 1 replicate, 2 circular, 3 constant */
void hn_dec_pad_enum(hn_dec *d) {
    static const border kinds[3] = {BORDER_REFLECT, BORDER_REPLICATE, BORDER_CIRCULAR};
    int64_t mode = hn_dec_int(d, 2);
    hn_value x = hn_dec_tensor(d, 0);
    amounts a;
    if (mode >= 0 && mode < 3) pad_by_position(d, kinds[mode]);
    else if (m_require(d, mode == 3, "an unknown padding mode") && read_amounts(d, x, &a))
        m_result(d, 0, pad_constant(d, x, &a, border_value(d, 3, m_dtype(d, x))));
}

/* aten.replication_pad1d/2d/3d(self, padding) */
void hn_dec_replication_pad(hn_dec *d) { pad_by_position(d, BORDER_REPLICATE); }

/* aten.pad(self, pad, mode, value) */
void hn_dec_pad(hn_dec *d) {
    hn_str mode = hn_dec_string(d, 2);
    hn_value x = hn_dec_tensor(d, 0);
    amounts a;
    if (hn_str_eq(mode, HN_STR("constant"))) {
        if (read_amounts(d, x, &a))
            m_result(d, 0, pad_constant(d, x, &a, border_value(d, 3, m_dtype(d, x))));
    } else if (hn_str_eq(mode, HN_STR("reflect"))) {
        pad_by_position(d, BORDER_REFLECT);
    } else if (hn_str_eq(mode, HN_STR("replicate"))) {
        pad_by_position(d, BORDER_REPLICATE);
    } else if (hn_str_eq(mode, HN_STR("circular"))) {
        pad_by_position(d, BORDER_CIRCULAR);
    } else {
        hn_dec_unsupported(d, "padding is constant, reflect, replicate or circular");
    }
}

/* --- patches --- */

typedef struct patches {
    int64_t kernel[2], dilation[2], padding[2], stride[2];
    hn_expr size[2], count[2]; /* of the image; windows */
    bool is_batched;
} patches;

static bool read_two(hn_dec *d, uint32_t arg, int64_t least, int64_t out[2]) {
    hn_expr list[HN_MAX_RANK];
    uint32_t count = hn_dec_exprs(d, arg, list);
    for (uint32_t k = 0; k < 2; k++) {
        bool ok =
            count == 2 && e_const(d, list[k], &out[k]) && out[k] >= least && out[k] <= INT16_MAX;
        if (!m_require(d, ok, "a parameter of im2col or col2im is out of range")) return false;
    }
    return true;
}

/* kernel, dilation, padding, stride from argument `first` on, for an image of `size` */
static bool read_patches(hn_dec *d, uint32_t first, patches *p) {
    if (!read_two(d, first, 1, p->kernel) || !read_two(d, first + 1, 1, p->dilation) ||
        !read_two(d, first + 2, 0, p->padding) || !read_two(d, first + 3, 1, p->stride))
        return false;
    for (uint32_t k = 0; k < 2; k++) {
        hn_expr room =
            e_addc(d, p->size[k], 2 * p->padding[k] - p->dilation[k] * (p->kernel[k] - 1) - 1);
        p->count[k] = e_addc(d, hn_sym_floordiv(d->g->sym, room, e_int(d, p->stride[k])), 1);
    }
    return true;
}

/* aten.im2col(self, kernel, dilation, padding, stride): [N, C, H, W] -> [N, C*kH*kW, windows] */
void hn_dec_im2col(hn_dec *d) {
    hn_value x = hn_dec_tensor(d, 0);
    patches p = {.is_batched = m_rank(d, x) == 4};
    if (!m_require(d, p.is_batched || m_rank(d, x) == 3,
                   "im2col wants an image or a batch of them"))
        return;
    if (!p.is_batched) x = hn_b_unsqueeze(d->g, x, 0);
    for (uint32_t k = 0; k < 2; k++) p.size[k] = m_size(d, x, 2 + k);
    if (!read_patches(d, 1, &p)) return;
    for (uint32_t k = 0; k < 2; k++) {
        hn_expr pad = e_int(d, p.padding[k]);
        x = m_pad_dim(d, x, 2 + k, pad, pad, m_zero_scalar(d, m_dtype(d, x)));
    }
    for (uint32_t k = 0; k < 2; k++)
        x = hn_b_window(d->g, x, 2 + k, p.count[k], e_int(d, p.kernel[k]), e_int(d, p.stride[k]),
                        e_int(d, p.dilation[k]));
    if (!x) return;
    x = hn_b_permute(d->g, x, (uint32_t[]){0, 1, 4, 5, 2, 3}); /* N C kH kW oH oW */
    x = m_merge(d, m_merge(d, x, 4, 2), 1, 3);
    m_result(d, 0, p.is_batched ? x : hn_b_squeeze(d->g, x, 0));
}

/* Positions of window elements along image dim k in the padded image: [kernel, count] */
static hn_value patch_positions(hn_dec *d, const patches *p, uint32_t k) {
    hn_scalar zero = hn_scalar_i(e_int(d, 0));
    hn_value in_window = hn_b_iota(d->g, zero, hn_scalar_i(e_int(d, p->dilation[k])),
                                   e_int(d, p->kernel[k]), HN_DTYPE_I64);
    hn_value starts =
        hn_b_iota(d->g, zero, hn_scalar_i(e_int(d, p->stride[k])), p->count[k], HN_DTYPE_I64);
    return m_add(d, hn_b_unsqueeze(d->g, in_window, 1), starts);
}

/* Where each value of the patches is in a flat padded image: [kH, kW, oH, oW]. */
static hn_value flat_positions(hn_dec *d, const patches *p, hn_expr width) {
    hn_value row = patch_positions(d, p, 0), col = patch_positions(d, p, 1);
    row = hn_b_unsqueeze(d->g, hn_b_unsqueeze(d->g, row, 1), 3);
    col = hn_b_unsqueeze(d->g, hn_b_unsqueeze(d->g, col, 0), 2);
    return m_add(d, m_mul(d, row, m_size_as(d, width, HN_DTYPE_I64)), col);
}

/* The sums of the patches x [N, C * kH * kW, L] in padded images [N, C, H, W]. */
static hn_value sum_patches(hn_dec *d, hn_value x, const patches *p, const hn_expr padded[2]) {
    hn_dtype math = hn_dec_opmath(m_dtype(d, x));
    hn_expr kernel = e_int(d, p->kernel[0] * p->kernel[1]);
    hn_expr channels = hn_sym_floordiv(d->g->sym, m_size(d, x, 1), kernel);
    hn_value at = flat_positions(d, p, padded[1]);
    /* N C kHkW L */
    hn_value values = m_cast(d, m_split(d, x, 1, (hn_expr[]){channels, kernel}, 2), math);
    m_shape_t flat = {.rank = 3, .sizes = {m_size(d, x, 0), channels, 0}},
              index = m_shape(d, m_merge(d, values, 2, 2));
    flat.sizes[2] = e_mul(d, padded[0], padded[1]);
    hn_value where = m_expand(d, m_merge(d, at, 0, 4), &index);
    hn_value r =
        hn_b_scatter(d->g, m_zeros(d, &flat, math), where, m_merge(d, values, 2, 2), 2, "add");
    return m_split(d, r, 2, padded, 2);
}

/* aten.col2im(self, output_size, kernel, dilation, padding, stride): overlapping patches add up */
void hn_dec_col2im(hn_dec *d) {
    hn_value x = hn_dec_tensor(d, 0);
    hn_expr size[HN_MAX_RANK];
    patches p = {.is_batched = m_rank(d, x) == 3};
    bool fits = (p.is_batched || m_rank(d, x) == 2) && hn_dec_exprs(d, 1, size) == 2;
    if (!m_require(d, fits, "col2im wants [N, C*kH*kW, windows] and two sizes")) return;
    if (!p.is_batched) x = hn_b_unsqueeze(d->g, x, 0);
    for (uint32_t k = 0; k < 2; k++) p.size[k] = size[k];
    if (!read_patches(d, 2, &p)) return;
    hn_expr padded[2] = {e_addc(d, size[0], 2 * p.padding[0]),
                         e_addc(d, size[1], 2 * p.padding[1])};
    hn_value r = sum_patches(d, x, &p, padded);
    for (uint32_t k = 0; k < 2; k++)
        if (p.padding[k]) r = m_slice(d, r, 2 + k, e_int(d, p.padding[k]), size[k]);
    m_result(d, 0, p.is_batched ? r : hn_b_squeeze(d->g, r, 0));
}
