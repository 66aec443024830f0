/* reference.c: the extern operations as plain loops, for every dtype: what the fast implementations
 * are measured against, and the last resort where they decline.
 *
 * Floats of every width are summed in double and rounded once, at the end; integers wrap; a bool
 * result is "not 0". One thread. hn_ext_prepare has checked the call: no size is negative, no
 * offset overflows. */
#include "ops/cpu/ext.h"

#include "base/checked.h"
#include "henry/tensor.h"
#include "ops/cpu/attention/backward.h"
#include "ops/cpu/elements.h"

#include <math.h>
#include <string.h>

/* ---- sums of products ---- */

/* Elements of an operand, `step` apart. */
typedef struct walk {
    const void *base;
    int64_t at, step;
} walk;

typedef void (*dot_fn)(hn_ext_number *sum, walk a, walk b, int64_t count);

/* sum += a . b: one function for each dtype, so that the loop does not branch on it. */
#define DOT(NAME, TYPE, FIELD, VALUE)                                                              \
    static void NAME(hn_ext_number *sum, walk a, walk b, int64_t count) {                          \
        if (count == 0) return;                                                                    \
        const TYPE *x = (const TYPE *)a.base + a.at, *y = (const TYPE *)b.base + b.at;             \
        for (int64_t k = 0; k < count; k++)                                                        \
            sum->FIELD += VALUE(x[k * a.step]) * VALUE(y[k * b.step]);                             \
    }
DOT(dot_f64, double, f, (double))
DOT(dot_f32, float, f, (double))
DOT(dot_f16, uint16_t, f, hn_ext_f16_value)
DOT(dot_bf16, uint16_t, f, hn_ext_bf16_value)
DOT(dot_i64, int64_t, u, (uint64_t))
DOT(dot_i32, int32_t, u, (uint64_t))
DOT(dot_i16, int16_t, u, (uint64_t))
DOT(dot_i8, int8_t, u, (uint64_t))
DOT(dot_u8, uint8_t, u, (uint64_t))
#undef DOT

static const dot_fn dots[HN_SCALAR_TYPE_COUNT] = {
    [HN_F64] = dot_f64, [HN_F32] = dot_f32, [HN_F16] = dot_f16, [HN_BF16] = dot_bf16,
    [HN_I64] = dot_i64, [HN_I32] = dot_i32, [HN_I16] = dot_i16, [HN_I8] = dot_i8,
    [HN_U8] = dot_u8,   [HN_BOOL] = dot_u8,
};

/* Without elements there is nothing to do, however many empty rounds the other sizes would ask
 * for. */
static bool any_zero(const int64_t *sizes, int count) {
    for (int d = 0; d < count; d++)
        if (sizes[d] == 0) return true;
    return false;
}

/* ---- epilogues ---- */

/* NaN stays. */
static double clamp_0_6(double x) { return x < 0 ? 0 : x > 6 ? 6 : x; }

static double apply_epilogue(hn_epilogue epilogue, double x) {
    const double sqrt_2_over_pi = 0.79788456080286535588;
    switch (epilogue) {
    case HN_EPILOGUE_RELU: return x > 0 || isnan(x) ? x : 0;
    case HN_EPILOGUE_GELU_ERF: return 0.5 * x * (1 + erf(x * 0.70710678118654752440));
    case HN_EPILOGUE_GELU_TANH:
        return 0.5 * x * (1 + tanh(sqrt_2_over_pi * (x + 0.044715 * x * x * x)));
    case HN_EPILOGUE_SILU: return x / (1 + exp(-x));
    case HN_EPILOGUE_HARDSWISH: return x * clamp_0_6(x + 3) / 6;
    case HN_EPILOGUE_SIGMOID: return 1 / (1 + exp(-x));
    case HN_EPILOGUE_TANH: return tanh(x);
    case HN_EPILOGUE_HARDSIGMOID: return clamp_0_6(x + 3) / 6;
    default: return x;
    }
}

static void add(uint8_t dtype, hn_ext_number *sum, hn_ext_number x) {
    if (hn_ext_is_float(dtype)) sum->f += x.f;
    else sum->u += x.u;
}

/* Operands 3 and 4 of contractions, when they are there. */
enum { OPERAND_BIAS = 3, OPERAND_RESIDUAL = 4 };

/* out[at] = epilogue(sum + bias + residual). */
static void finish(const hn_ext_call *call, int64_t at, hn_ext_number sum, int64_t bias_at,
                   int64_t residual_at, hn_epilogue epilogue) {
    const uint8_t dtype = call->dtypes[0];
    void *out = call->operands[0];
    if (call->dtypes[OPERAND_BIAS])
        add(dtype, &sum, hn_ext_load(dtype, call->operands[OPERAND_BIAS], bias_at));
    if (call->dtypes[OPERAND_RESIDUAL])
        add(dtype, &sum, hn_ext_load(dtype, call->operands[OPERAND_RESIDUAL], residual_at));
    if (hn_ext_is_float(dtype)) {
        sum.f = apply_epilogue(epilogue, sum.f);
        hn_ext_store(dtype, out, at, sum);
        return;
    }
    hn_ext_store(dtype, out, at, sum);
    /* Which sums are negative shows only in the result's own width. */
    if (epilogue == HN_EPILOGUE_RELU && (int64_t)hn_ext_load(dtype, out, at).u < 0)
        hn_ext_store(dtype, out, at, (hn_ext_number){.u = 0});
}

/* ---- matmul ---- */

enum { ROW = HN_EXTERN_BATCH, COL = HN_EXTERN_BATCH + 1 };

static int64_t batch_offset(const int64_t *strides, const int64_t coord[HN_EXTERN_BATCH]) {
    int64_t at = 0;
    for (int d = 0; d < HN_EXTERN_BATCH; d++) at += coord[d] * strides[d];
    return at;
}

static void matmul_item(const hn_ext_call *call, const int64_t coord[HN_EXTERN_BATCH]) {
    const int64_t *p = call->params;
    const int64_t *as = p + HN_MATMUL_A, *bs = p + HN_MATMUL_B, *os = p + HN_MATMUL_OUT,
                  *cs = p + HN_MATMUL_BIAS, *rs = p + HN_MATMUL_RESIDUAL;
    const int64_t a = batch_offset(as, coord), b = batch_offset(bs, coord),
                  out = batch_offset(os, coord), bias = batch_offset(cs, coord),
                  residual = batch_offset(rs, coord);
    for (int64_t m = 0; m < p[HN_MATMUL_M]; m++)
        for (int64_t n = 0; n < p[HN_MATMUL_N]; n++) {
            hn_ext_number sum = {.u = 0}; /* also 0.0 */
            dots[call->dtypes[0]](&sum, (walk){call->operands[1], a + m * as[ROW], as[COL]},
                                  (walk){call->operands[2], b + n * bs[COL], bs[ROW]},
                                  p[HN_MATMUL_K]);
            finish(call, out + m * os[ROW] + n * os[COL], sum, bias + m * cs[ROW] + n * cs[COL],
                   residual + m * rs[ROW] + n * rs[COL], (hn_epilogue)p[HN_MATMUL_EPILOGUE]);
        }
}

static void run_matmul(const hn_ext_call *call) {
    const int64_t *sizes = call->params + HN_MATMUL_BATCH;
    int64_t c[HN_EXTERN_BATCH];
    if (any_zero(sizes, HN_EXTERN_BATCH) || call->params[HN_MATMUL_M] == 0 ||
        call->params[HN_MATMUL_N] == 0)
        return;
    for (c[0] = 0; c[0] < sizes[0]; c[0]++)
        for (c[1] = 0; c[1] < sizes[1]; c[1]++)
            for (c[2] = 0; c[2] < sizes[2]; c[2]++)
                for (c[3] = 0; c[3] < sizes[3]; c[3]++) matmul_item(call, c);
}

/* ---- convolution ---- */

/* Which input position kernel position `k` pairs with output position `o` in spatial dimension d;
 * false: none. */
static bool conv_input_at(const int64_t *p, int d, int64_t o, int64_t k, int64_t *out) {
    const int64_t stride = p[HN_CONV_STRIDE + d],
                  shift = k * p[HN_CONV_DILATION + d] - p[HN_CONV_PADDING + d];
    if (p[HN_CONV_TRANSPOSED]) {
        int64_t spread = o - shift; /* input position * stride */
        *out = spread / stride;
        return spread >= 0 && spread % stride == 0 && *out < p[HN_CONV_IN + d];
    }
    *out = o * stride + shift;
    return *out >= 0 && *out < p[HN_CONV_IN + d];
}

/* The weights between output channel `o` and the input channels of its group, at kernel position
 * k. */
static walk conv_weights(const hn_ext_call *call, int64_t o, const int64_t k[3]) {
    const int64_t *p = call->params, *s = p + HN_CONV_W, groups = p[HN_CONV_GROUPS],
                  o_per_group = p[HN_CONV_O] / groups;
    int64_t at = k[0] * s[2] + k[1] * s[3] + k[2] * s[4];
    if (!p[HN_CONV_TRANSPOSED]) return (walk){call->operands[2], at + o * s[0], s[1]};
    at += o / o_per_group * (p[HN_CONV_C] / groups) * s[0] + o % o_per_group * s[1];
    return (walk){call->operands[2], at, s[0]};
}

/* The input channels of the group of output channel `o`, at input position x. */
static walk conv_inputs(const hn_ext_call *call, int64_t n, int64_t o, const int64_t x[3]) {
    const int64_t *p = call->params, *s = p + HN_CONV_X, groups = p[HN_CONV_GROUPS];
    int64_t first = o / (p[HN_CONV_O] / groups) * (p[HN_CONV_C] / groups);
    return (walk){call->operands[1],
                  n * s[0] + first * s[1] + x[0] * s[2] + x[1] * s[3] + x[2] * s[4], s[1]};
}

/* sum += (inputs * scale) . weights over the channels of a group. */
static void conv_dot(const hn_ext_call *call, hn_ext_number *sum, int64_t n, int64_t o, walk inputs,
                     walk weights) {
    const int64_t *p = call->params, *s = p + HN_CONV_SCALE,
                  count = p[HN_CONV_C] / p[HN_CONV_GROUPS];
    const uint8_t dtype = call->dtypes[0];
    const int64_t first = o / (p[HN_CONV_O] / p[HN_CONV_GROUPS]) * count;
    if (!call->dtypes[5] || p[HN_CONV_SCALE_OUT]) {
        dots[dtype](sum, inputs, weights, count);
        return;
    }
    for (int64_t c = 0; c < count; c++, inputs.at += inputs.step, weights.at += weights.step) {
        hn_ext_number product = {.u = 0},
                      scale = hn_ext_load(dtype, call->operands[5], n * s[0] + (first + c) * s[1]);
        dots[dtype](&product, inputs, weights, 1);
        if (hn_ext_is_float(dtype)) product.f *= scale.f;
        else product.u *= scale.u;
        add(dtype, sum, product);
    }
}

static int64_t conv_at(const int64_t s[5], int64_t n, int64_t o, const int64_t at[3]) {
    return n * s[0] + o * s[1] + at[0] * s[2] + at[1] * s[3] + at[2] * s[4];
}

/* sum *= the scale of output channel o. */
static void scale_output(const hn_ext_call *call, hn_ext_number *sum, int64_t o) {
    const uint8_t dtype = call->dtypes[0];
    if (!call->dtypes[5] || !call->params[HN_CONV_SCALE_OUT]) return;
    hn_ext_number scale =
        hn_ext_load(dtype, call->operands[5], o * call->params[HN_CONV_SCALE + 1]);
    if (hn_ext_is_float(dtype)) sum->f *= scale.f;
    else sum->u *= scale.u;
}

static void conv_one(const hn_ext_call *call, int64_t n, int64_t o, const int64_t at[3]) {
    const int64_t *p = call->params, *kernel = p + HN_CONV_KERNEL;
    int64_t k[3], x[3];
    hn_ext_number sum = {.u = 0};
    for (k[0] = 0; k[0] < kernel[0]; k[0]++) {
        if (!conv_input_at(p, 0, at[0], k[0], &x[0])) continue;
        for (k[1] = 0; k[1] < kernel[1]; k[1]++) {
            if (!conv_input_at(p, 1, at[1], k[1], &x[1])) continue;
            for (k[2] = 0; k[2] < kernel[2]; k[2]++)
                if (conv_input_at(p, 2, at[2], k[2], &x[2]))
                    conv_dot(call, &sum, n, o, conv_inputs(call, n, o, x),
                             conv_weights(call, o, k));
        }
    }
    scale_output(call, &sum, o);
    finish(call, conv_at(p + HN_CONV_OUT, n, o, at), sum, o,
           conv_at(p + HN_CONV_RESIDUAL, n, o, at), (hn_epilogue)p[HN_CONV_EPILOGUE]);
}

static void run_conv(const hn_ext_call *call) {
    const int64_t *p = call->params, *out = p + HN_CONV_OUTSIZE;
    int64_t at[3];
    if (p[HN_CONV_O] == 0 || any_zero(out, 3)) return;
    for (int64_t n = 0; n < p[HN_CONV_N]; n++)
        for (int64_t o = 0; o < p[HN_CONV_O]; o++)
            for (at[0] = 0; at[0] < out[0]; at[0]++)
                for (at[1] = 0; at[1] < out[1]; at[1]++)
                    for (at[2] = 0; at[2] < out[2]; at[2]++) conv_one(call, n, o, at);
}

/* ---- attention ---- */

/* One query and the keys of its head: offsets of their first elements. */
typedef struct query {
    int64_t q, k, v, out, mask;
    int64_t row;
} query;

/* The score of key j, -inf when it is masked out: then q and k do not matter, whatever they
 * hold. */
static double attention_score(const hn_ext_call *call, const query *q, int64_t j, double scale) {
    const int64_t *p = call->params;
    const uint8_t mask_dtype = call->dtypes[4];
    double added = 0;
    if (p[HN_ATTENTION_CAUSAL] && j > q->row) return -INFINITY;
    if (mask_dtype) {
        hn_ext_number mask =
            hn_ext_load(mask_dtype, call->operands[4], q->mask + j * p[HN_ATTENTION_MASK + 3]);
        if (hn_ext_is_float(mask_dtype)) added = mask.f;
        else if (!mask.u) return -INFINITY;
        if (added == -INFINITY) return -INFINITY;
    }
    hn_ext_number sum = {.u = 0};
    dots[call->dtypes[0]](
        &sum, (walk){call->operands[1], q->q, p[HN_ATTENTION_Q + 3]},
        (walk){call->operands[2], q->k + j * p[HN_ATTENTION_K + 2], p[HN_ATTENTION_K + 3]},
        p[HN_ATTENTION_D]);
    return sum.f * scale + added;
}

/* scratch: n scores, dv sums. Keys of score -inf count for nothing, even where their value is
 * infinite or NaN; without a key left the row is 0. */
static void attention_row(const hn_ext_call *call, const query *q, double scale, double *scores,
                          double *row) {
    const int64_t *p = call->params, n = p[HN_ATTENTION_N], dv = p[HN_ATTENTION_DV];
    double high = -INFINITY, sum = 0;
    for (int64_t j = 0; j < n; j++) {
        scores[j] = attention_score(call, q, j, scale);
        if (isnan(scores[j]) || scores[j] > high) high = scores[j];
    }
    for (int64_t c = 0; c < dv; c++) row[c] = 0;
    for (int64_t j = 0; j < n; j++) {
        if (scores[j] == -INFINITY) continue;
        double weight = exp(scores[j] - high);
        sum += weight;
        for (int64_t c = 0; c < dv; c++)
            row[c] +=
                weight * hn_ext_load(call->dtypes[0], call->operands[3],
                                     q->v + j * p[HN_ATTENTION_V + 2] + c * p[HN_ATTENTION_V + 3])
                             .f;
    }
    for (int64_t c = 0; c < dv; c++)
        hn_ext_store(call->dtypes[0], call->operands[0], q->out + c * p[HN_ATTENTION_OUT + 3],
                     (hn_ext_number){.f = sum != 0 ? row[c] / sum : 0});
}

static int64_t offset3(const int64_t *strides, int64_t batch, int64_t head, int64_t row) {
    return batch * strides[0] + head * strides[1] + row * strides[2];
}

static void run_attention(const hn_ext_call *call, void *scratch) {
    const int64_t *p = call->params, heads = p[HN_ATTENTION_BATCH + 1];
    double scale, *scores = scratch, *row = scratch;
    memcpy(&scale, &p[HN_ATTENTION_SCALE], sizeof scale);
    if (heads == 0 || p[HN_ATTENTION_M] == 0 || p[HN_ATTENTION_DV] == 0) return;
    row += p[HN_ATTENTION_N];
    for (int64_t b = 0; b < p[HN_ATTENTION_BATCH]; b++)
        for (int64_t h = 0; h < heads; h++)
            for (int64_t m = 0; m < p[HN_ATTENTION_M]; m++) {
                int64_t kv = h / (heads / p[HN_ATTENTION_KV_HEADS]);
                query q = {.q = offset3(p + HN_ATTENTION_Q, b, h, m),
                           .k = offset3(p + HN_ATTENTION_K, b, kv, 0),
                           .v = offset3(p + HN_ATTENTION_V, b, kv, 0),
                           .out = offset3(p + HN_ATTENTION_OUT, b, h, m),
                           .mask = offset3(p + HN_ATTENTION_MASK, b, h, m),
                           .row = m};
                attention_row(call, &q, scale, scores, row);
            }
}

/* ---- sort and top-k ---- */

typedef struct line {
    const hn_ext_number *keys;
    uint8_t dtype;
    bool descending;
} line;

static bool less(uint8_t dtype, hn_ext_number a, hn_ext_number b) {
    if (!hn_ext_is_float(dtype)) return (int64_t)a.u < (int64_t)b.u;
    return isnan(b.f) ? !isnan(a.f) : a.f < b.f;
}

/* Whether element q must stand before element p, which came first. */
static bool goes_before(const line *l, int64_t q, int64_t p) {
    return l->descending ? less(l->dtype, l->keys[p], l->keys[q])
                         : less(l->dtype, l->keys[q], l->keys[p]);
}

/* Stable merge sort of order[0..count); `spare` is as long. The depth is the logarithm of count. */
static void sort_order(const line *l, int64_t *order, int64_t *spare, int64_t count) {
    if (count < 2) return;
    const int64_t half = count / 2;
    sort_order(l, order, spare, half);
    sort_order(l, order + half, spare, count - half);
    int64_t left = 0, right = half;
    for (int64_t n = 0; n < count; n++) {
        bool take_right =
            left == half || (right < count && goes_before(l, order[right], order[left]));
        spare[n] = take_right ? order[right++] : order[left++];
    }
    memcpy(order, spare, (size_t)count * sizeof *order);
}

/* scratch: keys, order, spare: n each. Values are moved as bytes, so that -0 and NaN stay what they
 * are. */
static void run_sort(const hn_ext_call *call, void *scratch) {
    const int64_t *p = call->params, n = p[HN_SORT_N], keep = p[HN_SORT_K],
                  inner = p[HN_SORT_INNER];
    const size_t bytes = hn_scalar_type_bytes((hn_scalar_type)call->dtypes[2]);
    if (keep == 0 || inner == 0) return;
    hn_ext_number *keys = scratch;
    int64_t *order = (int64_t *)scratch + n, *spare = order + n, *indices = call->operands[1];
    const line l = {keys, call->dtypes[2], p[HN_SORT_DESCENDING] != 0};
    for (int64_t o = 0; o < p[HN_SORT_OUTER]; o++)
        for (int64_t i = 0; i < inner; i++) {
            for (int64_t j = 0; j < n; j++) {
                keys[j] = hn_ext_load(l.dtype, call->operands[2], (o * n + j) * inner + i);
                order[j] = j;
            }
            sort_order(&l, order, spare, n);
            for (int64_t j = 0; j < keep; j++) {
                int64_t to = (o * keep + j) * inner + i, from = (o * n + order[j]) * inner + i;
                memcpy((char *)call->operands[0] + (size_t)to * bytes,
                       (const char *)call->operands[2] + (size_t)from * bytes, bytes);
                indices[to] = order[j];
            }
        }
}

/* ---- the implementation's row ---- */

static hn_status prepare(hn_ext_call *call) {
    const int64_t *p = call->params;
    int64_t words = 0, bytes;
    bool fits = true;
    if (call->kind == HN_EXTERN_ATTENTION)
        fits = hn_add_i64(p[HN_ATTENTION_N], p[HN_ATTENTION_DV], &words);
#ifndef HN_EXT_WITHOUT_ATTENTION_BACKWARD
    else if (call->kind == HN_EXTERN_ATTENTION_BACKWARD)
        fits = hn_ext_backward_plain_doubles(call, &words);
#endif
    else if (call->kind == HN_EXTERN_SORT || call->kind == HN_EXTERN_TOPK)
        fits = hn_mul_i64(p[HN_SORT_N], 3, &words);
    if (!fits || !hn_mul_i64(words, sizeof(hn_ext_number), &bytes))
        return HN_ERROR(HN_INVALID_ARGUMENT, "the work space exceeds 63 bits");
    call->scratch_bytes = (size_t)bytes;
    return NULL;
}

static hn_status run_attention_backward(const hn_ext_call *call, void *scratch) {
#ifndef HN_EXT_WITHOUT_ATTENTION_BACKWARD
    for (int64_t b = 0; b < call->params[HN_ATTENTION_BATCH]; b++)
        for (int64_t h = 0; h < call->params[HN_ATTENTION_KV_HEADS]; h++)
            hn_ext_backward_plain(call, b, h, scratch);
#else
    (void)call, (void)scratch; /* no program here calls it */
#endif
    return NULL;
}

static hn_status run(const hn_ext_call *call, void *scratch) {
    switch (call->kind) {
    case HN_EXTERN_MATMUL: run_matmul(call); return NULL;
    case HN_EXTERN_CONV: run_conv(call); return NULL;
    case HN_EXTERN_ATTENTION: run_attention(call, scratch); return NULL;
    case HN_EXTERN_ATTENTION_BACKWARD: return run_attention_backward(call, scratch);
    case HN_EXTERN_SORT:
    case HN_EXTERN_TOPK: run_sort(call, scratch); return NULL;
    default: return HN_ERROR(HN_INTERNAL, "extern operation %d has no reference", (int)call->kind);
    }
}

const hn_ext_impl hn_ext_reference = {.name = "reference", .prepare = prepare, .run = run};
