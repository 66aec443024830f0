/* conv.c: chooses how a convolution is computed. */
#include "ops/cpu/conv/conv.h"

#include "henry/tensor.h"
#include "ops/cpu/pack_cache.h"

#include <string.h>

enum { FLOPS_PER_THREAD = 1 << 19, DEPTHWISE_COST = 6 };

static hn_ext_conv describe(const hn_ext_call *call) {
    const int64_t *p = call->params;
    hn_ext_conv c = {.n = p[HN_CONV_N],
                     .c = p[HN_CONV_C],
                     .o = p[HN_CONV_O],
                     .groups = p[HN_CONV_GROUPS],
                     .transposed = p[HN_CONV_TRANSPOSED] != 0,
                     .epilogue = (hn_epilogue)p[HN_CONV_EPILOGUE],
                     .threads = hn_ext_tasks(call),
                     .kernels = hn_ext_kernels_get()};
    memcpy(c.in, p + HN_CONV_IN, sizeof c.in);
    memcpy(c.kernel, p + HN_CONV_KERNEL, sizeof c.kernel);
    memcpy(c.out, p + HN_CONV_OUTSIZE, sizeof c.out);
    memcpy(c.stride, p + HN_CONV_STRIDE, sizeof c.stride);
    memcpy(c.padding, p + HN_CONV_PADDING, sizeof c.padding);
    memcpy(c.dilation, p + HN_CONV_DILATION, sizeof c.dilation);
    memcpy(c.x, p + HN_CONV_X, sizeof c.x);
    memcpy(c.w, p + HN_CONV_W, sizeof c.w);
    memcpy(c.y, p + HN_CONV_OUT, sizeof c.y);
    memcpy(c.r, p + HN_CONV_RESIDUAL, sizeof c.r);
    memcpy(c.scale, p + HN_CONV_SCALE, sizeof c.scale);
    c.has_residual = call->dtypes[HN_EXT_CONV_RESIDUAL] != HN_NO_TYPE;
    c.has_scale = call->dtypes[HN_EXT_CONV_SCALE] != HN_NO_TYPE && !p[HN_CONV_SCALE_OUT];
    c.has_factor = call->dtypes[HN_EXT_CONV_SCALE] != HN_NO_TYPE && p[HN_CONV_SCALE_OUT];
    c.constant_weights = call->is_constant[HN_EXT_CONV_WEIGHTS] &&
                         call->operands[HN_EXT_CONV_WEIGHTS] && p[HN_CONV_W_CONSTANT];
    if (c.has_factor &&
        !(call->is_constant[HN_EXT_CONV_SCALE] && call->operands[HN_EXT_CONV_SCALE]))
        c.constant_weights = false;
    return c;
}

static double flops_of(const hn_ext_conv *c) {
    double per_output = 2.0 * (double)(c->c / c->groups) * (double)c->n * (double)c->o;
    for (int d = 0; d < 3; d++)
        per_output *= (double)(c->transposed ? c->in[d] : c->out[d]) * (double)c->kernel[d];
    return per_output;
}

/* Taps at both ends that meet nothing but padding, as with large dilations over small images, are
 * left out. */
static void drop_dead_taps(hn_ext_conv *c, int d) {
    while (c->kernel[d] > 2 && c->padding[d] >= c->dilation[d]) {
        bool first_is_dead = (c->out[d] - 1) * c->stride[d] < c->padding[d];
        bool last_is_dead = (c->kernel[d] - 1) * c->dilation[d] >= c->in[d] + c->padding[d];
        if (!first_is_dead || !last_is_dead) return;
        c->kernel[d] -= 2, c->padding[d] -= c->dilation[d];
        c->w_first += c->w[2 + d];
    }
}

/* A dimension of one position or one tap reads fewer inputs and has fewer parameters than are
 * given. */
static void simplify(hn_ext_conv *c) {
    for (int d = 0; d < 3; d++) {
        if (!c->transposed) drop_dead_taps(c, d);
        if (c->kernel[d] == 1) c->dilation[d] = 1;
        if (!c->transposed && c->out[d] == 1) c->stride[d] = 1;
        if (!c->transposed && c->kernel[d] == 1 && c->padding[d] == 0 && c->out[d] > 0)
            c->in[d] = (c->out[d] - 1) * c->stride[d] + 1;
        if (c->transposed && c->in[d] == 1 && c->kernel[d] == 1) c->stride[d] = 1;
    }
}

static bool is_pointwise(const hn_ext_conv *c) {
    for (int d = 0; d < 3; d++)
        if (c->kernel[d] != 1 || c->stride[d] != 1 || c->padding[d] != 0 || c->in[d] != c->out[d])
            return false;
    return !c->transposed && c->groups == 1;
}

/* Positions that lie in memory like one row become one: [1, 1, count]. */
static void flatten_positions(hn_ext_conv *c) {
    for (int d = 1; d >= 0; d--) {
        if (c->in[d] == 1) continue;
        if (c->x[2 + d] != c->x[4] * c->in[2] || c->y[2 + d] != c->y[4] * c->in[2]) return;
        if (c->has_residual && c->r[2 + d] != c->r[4] * c->in[2]) return;
        c->in[2] *= c->in[d];
        c->out[2] = c->in[2];
        c->in[d] = c->out[d] = 1;
    }
}

void hn_ext_conv_copy_inside(const hn_ext_conv *c, const hn_ext_border *b, const float *x,
                             float *out) {
    int64_t count[3];
    /* no output may read the rest */
    for (int d = 0; d < 3; d++) count[d] = hn_ext_min(c->in[d], b->size[d] - b->before[d]);
    for (int64_t i = 0; i < count[0]; i++)
        for (int64_t j = 0; j < count[1]; j++) {
            float *to = out + ((i + b->before[0]) * b->size[1] + j + b->before[1]) * b->size[2] +
                        b->before[2];
            const float *from = x + i * c->x[2] + j * c->x[3];
            if (c->x[4] == 1) hn_ext_conv_copy_row(to, from, count[2]);
            else
                for (int64_t k = 0; k < count[2]; k++) to[k] = from[k * c->x[4]];
        }
}

void hn_ext_conv_copy(const hn_ext_conv *c, const hn_ext_border *b, const float *x, int64_t first,
                      int64_t end, float *out) {
    const int64_t volume = b->size[0] * b->size[1] * b->size[2];
    for (int64_t ch = first; ch < end; ch++) {
        memset(out + ch * volume, 0, (size_t)volume * sizeof *out);
        hn_ext_conv_copy_inside(c, b, x + ch * c->x[1], out + ch * volume);
    }
}

static void add_row(float *out, const float *in, int64_t step, int64_t count) {
    int64_t j = 0;
    for (; step == 1 && j + 8 <= count; j += 8)
        *(hn_ext_float8 *)(out + j) += *(const hn_ext_float8 *)(in + j);
    for (; j < count; j++) out[j] += in[j * step];
}

void hn_ext_conv_add_residual(const hn_ext_conv *c, const hn_ext_call *call, int64_t n, int64_t o) {
    if (!c->has_residual) return;
    float *y = (float *)call->operands[HN_EXT_CONV_OUT] + n * c->y[0] + o * c->y[1];
    const float *r =
        (const float *)call->operands[HN_EXT_CONV_RESIDUAL] + n * c->r[0] + o * c->r[1];
    int64_t rows = c->out[1], count = c->out[2];
    if (c->y[3] == count && c->r[3] == count * c->r[4]) count *= rows, rows = 1;
    for (int64_t i = 0; i < c->out[0]; i++)
        for (int64_t j = 0; j < rows; j++) {
            float *row = y + i * c->y[2] + j * c->y[3];
            add_row(row, r + i * c->r[2] + j * c->r[3], c->r[4], count);
            c->kernels->epilogue(c->epilogue, row, count);
        }
}

void hn_ext_conv_put_factor(const hn_ext_conv *c, const hn_ext_call *call, hn_ext_pack_key *key) {
    if (!c->has_factor) return;
    key->words[HN_EXT_PACK_KEY_WORDS - 3] = (int64_t)(intptr_t)call->operands[HN_EXT_CONV_SCALE];
    key->words[HN_EXT_PACK_KEY_WORDS - 2] = c->scale[1];
}

void hn_ext_conv_drop_weights(const hn_ext_conv *c, const hn_ext_call *call) {
    const int64_t outer = c->transposed ? c->c : c->o,
                  inner = (c->transposed ? c->o : c->c) / c->groups;
    int64_t floats = 1 + (outer - 1) * c->w[0] + (inner - 1) * c->w[1];
    for (int d = 0; d < 3; d++) floats += (c->kernel[d] - 1) * c->w[2 + d];
    if (floats > 0)
        hn_ext_shared_drop(call->shared, hn_ext_conv_weights(c, call),
                           (size_t)floats * sizeof(float));
}

/* ---- the implementation ---- */

/* Counts and products of sizes stay far from what overflows, borders included. */
static bool is_small_enough(const hn_ext_conv *c) {
    double outputs = (double)c->n * (double)c->o, inputs = (double)c->n * ((double)c->c + 1),
           weights = ((double)c->o + 64) * ((double)c->c + 1);
    for (int d = 0; d < 3; d++) {
        double reach = (double)c->in[d] + 2 * (double)c->padding[d] +
                       (double)c->kernel[d] * (double)c->dilation[d] +
                       ((double)c->out[d] + (double)c->in[d]) * (double)c->stride[d];
        outputs *= (double)c->out[d] + 64, inputs *= reach, weights *= (double)c->kernel[d];
    }
    return outputs < 0x1p50 && inputs < 0x1p50 && weights < 0x1p50;
}

static bool takes_types(const hn_ext_call *call) {
    for (int i = 0; i < 6; i++)
        if (call->dtypes[i] != HN_F32 && !(i > 2 && call->dtypes[i] == HN_NO_TYPE)) return false;
    return true;
}

/* Small ones do not pay for all threads. */
static void set_threads(hn_ext_conv *c, bool depthwise) {
    const double most = flops_of(c) * (depthwise ? DEPTHWISE_COST : 1) / FLOPS_PER_THREAD;
    if (c->threads > most) c->threads = most < 1 ? 1 : (int)most;
}

static bool fits_product(hn_ext_conv *c) {
    if (!is_pointwise(c)) return false;
    flatten_positions(c);
    return hn_ext_conv_product_fits(c);
}
static bool fits_depthwise(hn_ext_conv *c) {
    return !c->has_scale && !c->has_factor && hn_ext_conv_depthwise_fits(c);
}
static bool fits_winograd(hn_ext_conv *c) { return !c->has_scale && hn_ext_conv_winograd_fits(c); }
static bool fits_collected(hn_ext_conv *c) {
    return !c->has_scale && hn_ext_conv_collected_fits(c);
}
static bool fits_rows(hn_ext_conv *c) {
    return !c->has_scale && !c->has_factor && hn_ext_conv_rows_fits(c);
}
static bool fits_gather(hn_ext_conv *c) {
    (void)c;
    return true;
}

/* The form that the caller names. */
static hn_status prepare_named(hn_ext_call *call, hn_ext_conv *c, const char *kind) {
    static const struct {
        const char *kind;
        bool (*fits)(hn_ext_conv *c);
        hn_status (*prepare)(hn_ext_call *call, const hn_ext_conv *c);
    } forms[] = {
        {"product", fits_product, hn_ext_conv_product_prepare},
        {"depthwise", fits_depthwise, hn_ext_conv_depthwise_prepare},
        {"winograd", fits_winograd, hn_ext_conv_winograd_prepare},
        {"collected", fits_collected, hn_ext_conv_product_prepare},
        {"rows", fits_rows, hn_ext_conv_rows_prepare},
        {"gather", fits_gather, hn_ext_conv_gather_prepare},
    };
    for (size_t k = 0; k < sizeof forms / sizeof *forms; k++)
        if (strcmp(kind, forms[k].kind) == 0 && forms[k].fits(c)) return forms[k].prepare(call, c);
    return HN_ERROR(HN_UNSUPPORTED, "the convolution has no form '%s'", kind);
}

/* The first form that takes it, the most special ones first. */
static hn_status prepare_form(hn_ext_call *call, hn_ext_conv *c, bool depthwise) {
    if (is_pointwise(c)) {
        flatten_positions(c);
        if (hn_ext_conv_product_fits(c)) return hn_ext_conv_product_prepare(call, c);
    }
    if (c->has_scale) return hn_ext_conv_gather_prepare(call, c); /* the others do not scale */
    if (depthwise) return hn_ext_conv_depthwise_prepare(call, c);
    if (hn_ext_conv_winograd_fits(c)) return hn_ext_conv_winograd_prepare(call, c);
    if (hn_ext_conv_collected_fits(c)) return hn_ext_conv_product_prepare(call, c);
    if (!c->has_factor && hn_ext_conv_rows_fits(c)) return hn_ext_conv_rows_prepare(call, c);
    return hn_ext_conv_gather_prepare(call, c);
}

static hn_status conv_prepare(hn_ext_call *call) {
    if (!takes_types(call)) return HN_ERROR(HN_UNSUPPORTED, "blocked convolution is for f32");
    hn_ext_conv c = describe(call);
    if (!is_small_enough(&c))
        return HN_ERROR(HN_UNSUPPORTED, "the convolution is too large for blocks");
    simplify(&c);
    if (c.has_factor && c.transposed)
        return HN_ERROR(HN_UNSUPPORTED, "a transposed convolution with factors of its channels");
    /* loads and stores for few sums */
    const bool depthwise = !c.has_factor && hn_ext_conv_depthwise_fits(&c);
    set_threads(&c, depthwise);
    if (call->form && call->form->kind) return prepare_named(call, &c, call->form->kind);
    return prepare_form(call, &c, depthwise);
}

static hn_status conv_run(const hn_ext_call *call, void *scratch) {
    ((const hn_ext_conv_state *)call->state)->run(call, scratch);
    return NULL;
}

const hn_ext_impl hn_ext_conv_f32 = {
    .name = "conv", .prepare = conv_prepare, .run = conv_run, .release = hn_ext_state_free};
