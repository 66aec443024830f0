/* conv.c: convolutions and their gradients -> CONV.
 *
 * Shapes: x [N, C, spatial..], w [O, C/groups, k..] ([C, O/groups, k..] when transposed). An input
 * without the batch dim gets one for the while. */
#include "opt/decompose/math.h"

typedef struct conv_input {
    hn_value x;      /* with batch */
    bool is_batched; /* as given */
} conv_input;

/* Reads x and w of a convolution with 1 to 3 spatial dims. */
static bool read_operands(hn_dec *d, uint32_t x_arg, hn_value w, conv_input *out,
                          uint32_t *out_spatial) {
    hn_value x = hn_dec_tensor(d, x_arg);
    uint32_t w_rank = m_rank(d, w), x_rank = m_rank(d, x);
    if (!m_require(d, w_rank >= 3 && w_rank <= 5,
                   "a convolution needs one to three spatial dimensions"))
        return false;
    if (!m_require(d, x_rank == w_rank || x_rank + 1 == w_rank,
                   "the input and the weight of a convolution do not fit"))
        return false;
    *out_spatial = w_rank - 2;
    *out = (conv_input){.x = x_rank == w_rank ? x : hn_b_unsqueeze(d->g, x, 0),
                        .is_batched = x_rank == w_rank};
    return true;
}

/* A list of one value per spatial dim; a list of one stands for all. */
static bool read_spatial(hn_dec *d, uint32_t arg, uint32_t spatial, hn_expr out[3]) {
    hn_expr list[HN_MAX_RANK];
    uint32_t count = hn_dec_exprs(d, arg, list);
    if (!m_require(d, count == 1 || count == spatial,
                   "a convolution parameter has another length than the spatial dimensions"))
        return false;
    for (uint32_t k = 0; k < spatial; k++) out[k] = list[count == 1 ? 0 : k];
    return true;
}

static bool is_zero_list(hn_dec *d, uint32_t arg) {
    hn_expr list[HN_MAX_RANK];
    uint32_t count = hn_dec_exprs(d, arg, list);
    for (uint32_t k = 0; k < count; k++)
        if (!e_is(d, list[k], 0)) return false;
    return true;
}

static void conv_result(hn_dec *d, conv_input in, hn_value w, hn_value bias,
                        const hn_conv_params *params) {
    hn_value y = hn_b_conv(d->g, in.x, w, bias, params);
    m_result(d, 0, in.is_batched ? y : hn_b_squeeze(d->g, y, 0));
}

/* Positions of the parameters in a schema; 0: absent (operands come first, so 0 is never a
 * parameter). */
typedef struct conv_args {
    uint32_t stride, padding, dilation, output_padding, groups;
} conv_args;

static bool read_params(hn_dec *d, conv_args args, uint32_t spatial, hn_conv_params *out) {
    *out = (hn_conv_params){.spatial = spatial, .groups = hn_dec_int(d, args.groups)};
    for (uint32_t k = 0; k < spatial; k++) out->padding[k] = out->output_padding[k] = e_int(d, 0);
    if (!m_require(d, out->groups > 0, "a convolution needs a positive number of groups"))
        return false;
    return read_spatial(d, args.stride, spatial, out->stride) &&
           read_spatial(d, args.dilation, spatial, out->dilation) &&
           (!args.padding || read_spatial(d, args.padding, spatial, out->padding)) &&
           (!args.output_padding ||
            read_spatial(d, args.output_padding, spatial, out->output_padding));
}

/* aten.conv1d/2d/3d(input, weight, bias, stride, padding, dilation, groups) */
void hn_dec_conv(hn_dec *d) {
    hn_value w = hn_dec_tensor(d, 1), bias = hn_dec_tensor(d, 2);
    conv_input in;
    hn_conv_params params;
    uint32_t spatial = 0;
    const conv_args args = {.stride = 3, .padding = 4, .dilation = 5, .groups = 6};
    if (!read_operands(d, 0, w, &in, &spatial) || !read_params(d, args, spatial, &params)) return;
    conv_result(d, in, w, bias, &params);
}

/* "same": d * (k - 1) zeros in all, the odd one at the end. CONV pads both ends alike, so that one
 * is padded apart. */
static bool pad_same(hn_dec *d, conv_input *in, hn_value w, hn_conv_params *params) {
    for (uint32_t k = 0; k < params->spatial; k++) {
        int64_t kernel = 0, dilation = 0;
        if (!m_require(d,
                       e_const(d, m_size(d, w, 2 + k), &kernel) &&
                           e_const(d, params->dilation[k], &dilation) && kernel > 0 &&
                           kernel < INT32_MAX && dilation > 0 && dilation < INT32_MAX,
                       "padding 'same' needs a kernel of a known size"))
            return false;
        int64_t total = dilation * (kernel - 1);
        params->padding[k] = e_int(d, total / 2);
        if (total % 2) in->x = m_pad_dim(d, in->x, 2 + k, e_int(d, 0), e_int(d, 1), hn_scalar_f(0));
    }
    return true;
}

/* aten.conv1d/2d.padding(input, weight, bias, stride, "same" or "valid", dilation, groups) */
void hn_dec_conv_padding(hn_dec *d) {
    hn_value w = hn_dec_tensor(d, 1), bias = hn_dec_tensor(d, 2);
    conv_input in;
    hn_conv_params params;
    uint32_t spatial = 0;
    const conv_args args = {.stride = 3, .dilation = 5, .groups = 6};
    if (!read_operands(d, 0, w, &in, &spatial) || !read_params(d, args, spatial, &params)) return;
    hn_str mode = hn_dec_string(d, 4);
    bool is_same = hn_str_eq(mode, HN_STR("same"));
    if (!m_require(d, is_same || hn_str_eq(mode, HN_STR("valid")),
                   "padding must be 'same' or 'valid'"))
        return;
    if (is_same && !pad_same(d, &in, w, &params)) return;
    conv_result(d, in, w, bias, &params);
}

/* aten.conv_transpose1d/2d/3d(input, weight, bias, stride, padding, output_padding, groups,
 * dilation) */
void hn_dec_conv_transpose(hn_dec *d) {
    hn_value w = hn_dec_tensor(d, 1), bias = hn_dec_tensor(d, 2);
    conv_input in;
    hn_conv_params params;
    uint32_t spatial = 0;
    const conv_args args = {
        .stride = 3, .padding = 4, .output_padding = 5, .groups = 6, .dilation = 7};
    if (!read_operands(d, 0, w, &in, &spatial) || !read_params(d, args, spatial, &params)) return;
    params.transposed = true;
    conv_result(d, in, w, bias, &params);
}

/* aten.convolution(input, weight, bias, stride, padding, dilation, transposed, output_padding,
 * groups) */
void hn_dec_convolution(hn_dec *d) {
    hn_value w = hn_dec_tensor(d, 1), bias = hn_dec_tensor(d, 2);
    conv_input in;
    hn_conv_params params;
    uint32_t spatial = 0;
    const conv_args args = {
        .stride = 3, .padding = 4, .dilation = 5, .output_padding = 7, .groups = 8};
    if (!read_operands(d, 0, w, &in, &spatial) || !read_params(d, args, spatial, &params)) return;
    params.transposed = hn_dec_bool(d, 6);
    if (!m_require(d, params.transposed || is_zero_list(d, 7),
                   "output padding without a transposed convolution"))
        return;
    conv_result(d, in, w, bias, &params);
}

/* aten.slow_conv3d, aten.thnn_conv2d (self, weight, kernel_size, bias, stride, padding) */
void hn_dec_slow_conv(hn_dec *d) {
    hn_value w = hn_dec_tensor(d, 1);
    conv_input in;
    uint32_t spatial = 0;
    if (!read_operands(d, 0, w, &in, &spatial)) return;
    hn_conv_params params = {.spatial = spatial, .groups = 1};
    for (uint32_t k = 0; k < spatial; k++) {
        params.dilation[k] = e_int(d, 1);
        params.output_padding[k] = e_int(d, 0);
    }
    if (read_spatial(d, 4, spatial, params.stride) && read_spatial(d, 5, spatial, params.padding))
        conv_result(d, in, w, hn_dec_tensor(d, 3), &params);
}

/* --- gradients --- */

/* Cuts spatial dims at their end to the sizes of `like`: a stride leaves positions that nothing
 * reads. */
static hn_value fit_spatial(hn_dec *d, hn_value x, hn_value like, uint32_t spatial) {
    for (uint32_t k = 2; x && k < 2 + spatial; k++)
        if (!e_eq(d, m_size(d, x, k), m_size(d, like, k)))
            x = m_slice(d, x, k, e_int(d, 0), m_size(d, like, k));
    return x;
}

/* Input positions that a plain convolution's stride leaves over at the end: what the transposed one
 * must add to its smallest output, (out - 1) * stride - 2 * padding + dilation * (kernel - 1) +
 * 1. */
static hn_expr left_over(hn_dec *d, const hn_conv_params *p, uint32_t k, hn_expr in, hn_expr out,
                         hn_expr kernel) {
    hn_expr reach = e_addc(d, e_mul(d, p->dilation[k], e_addc(d, kernel, -1)), 1);
    hn_expr least = e_add(d, e_mul(d, e_addc(d, out, -1), p->stride[k]), reach);
    return e_sub(d, in, e_sub(d, least, e_mulc(d, p->padding[k], 2)));
}

/* What reaches the input: the transpose of the forward operator, applied to the gradient. */
static hn_value input_gradient(hn_dec *d, hn_value grad, hn_value x, hn_value w,
                               const hn_conv_params *forward) {
    hn_conv_params p = *forward;
    p.transposed = !forward->transposed;
    for (uint32_t k = 0; k < p.spatial; k++)
        p.output_padding[k] = forward->transposed
                                  ? e_int(d, 0)
                                  : left_over(d, forward, k, m_size(d, x, 2 + k),
                                              m_size(d, grad, 2 + k), m_size(d, w, 2 + k));
    return fit_spatial(d, hn_b_conv(d->g, grad, w, 0, &p), x, p.spatial);
}

/* [N, G*C, ..] as [C, G*N, ..]: channels of a group become the batch, and the batch what is
 * summed */
static hn_value batch_as_channels(hn_dec *d, hn_value x, int64_t groups) {
    m_shape_t s = m_shape(d, x);
    hn_expr per_group = hn_sym_floordiv(d->g->sym, s.sizes[1], e_int(d, groups));
    /* N, G, C, .. */
    hn_value split = m_split(d, x, 1, (hn_expr[]){e_int(d, groups), per_group}, 2);
    uint32_t dims[HN_MAX_RANK] = {2, 1, 0};
    for (uint32_t k = 3; k < s.rank + 1; k++) dims[k] = k;
    return m_merge(d, hn_b_permute(d->g, split, dims), 1, 2);
}

/* Correlates the (plain) convolution's input with the gradient of its output, as a convolution
 * whose kernel is the gradient: its stride is the forward dilation and the other way round.
 * Shapes: x [N, G*C, ..], grad [N, O, ..] -> [O, C, k..] */
static hn_value weight_gradient(hn_dec *d, hn_value grad, hn_value x, hn_value w,
                                const hn_conv_params *forward) {
    hn_conv_params p = {.spatial = forward->spatial, .groups = forward->groups};
    for (uint32_t k = 0; k < p.spatial; k++) {
        p.stride[k] = forward->dilation[k];
        p.dilation[k] = forward->stride[k];
        p.padding[k] = forward->padding[k];
        p.output_padding[k] = e_int(d, 0);
    }
    hn_value kernel = hn_b_transpose(d->g, grad, 0, 1);
    /* [C, O, k..] */
    hn_value r = hn_b_conv(d->g, batch_as_channels(d, x, p.groups), kernel, 0, &p);
    return fit_spatial(d, r ? hn_b_transpose(d->g, r, 0, 1) : 0, w, p.spatial);
}

static hn_value bias_gradient(hn_dec *d, hn_value grad) {
    uint32_t dims[HN_MAX_RANK], count = 0, rank = m_rank(d, grad);
    for (uint32_t k = 0; k < rank; k++)
        if (k != 1) dims[count++] = k;
    return m_reduce(d, HN_OP_SUM, m_opmath(d, grad), dims, count, false);
}

/* aten.convolution_backward(grad_output, input, weight, bias_sizes, stride, padding, dilation,
 * transposed, output_padding, groups, output_mask) -> grad of input, weight, bias */
void hn_dec_convolution_backward(hn_dec *d) {
    hn_value grad = hn_dec_tensor(d, 0), w = hn_dec_tensor(d, 2);
    conv_input in;
    hn_conv_params forward;
    uint32_t spatial = 0;
    const conv_args args = {
        .stride = 4, .padding = 5, .dilation = 6, .output_padding = 8, .groups = 9};
    if (!read_operands(d, 1, w, &in, &spatial) || !read_params(d, args, spatial, &forward)) return;
    forward.transposed = hn_dec_bool(d, 7);
    if (!in.is_batched) grad = hn_b_unsqueeze(d->g, grad, 0);
    if (!m_require(d, m_rank(d, grad) == spatial + 2,
                   "the gradient of a convolution has another rank than its input"))
        return;
    if (m_wants(d, 0)) {
        hn_value gx = input_gradient(d, grad, in.x, w, &forward);
        m_result(d, 0, in.is_batched ? gx : hn_b_squeeze(d->g, gx, 0));
    }
    /* a transposed convolution maps the other way: what it reads is the "output" of the plain
     * one */
    if (m_wants(d, 1))
        m_result(d, 1,
                 forward.transposed ? weight_gradient(d, in.x, grad, w, &forward)
                                    : weight_gradient(d, grad, in.x, w, &forward));
    if (m_wants(d, 2)) m_result(d, 2, bias_gradient(d, grad));
}
