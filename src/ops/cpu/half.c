/* half.c: contractions of f16 and bf16 through f32.
 *
 * An operand's memory is converted as it lies, so the call's strides hold for the copy too; of the
 * result only its elements are written back. Weights are converted once for the module. */
#include "ops/cpu/fast.h"

#include "henry/tensor.h"
#include "ops/cpu/attention/attention.h"
#include "ops/cpu/conv/conv.h"
#include "ops/cpu/kernels.h"
#include "ops/cpu/gemm/matmul.h"
#include "ops/cpu/pack_cache.h"

#include <stdlib.h>
#include <string.h>

enum { OPERANDS = 6, MAX_RANK = 6, WEIGHTS = 2, CHUNK = 16384 };

/* An operand's elements in memory. Strides may be negative: then some lie before the one that the
 * operand points to. */
typedef struct extent {
    int rank;
    int64_t sizes[MAX_RANK], strides[MAX_RANK];
    /* elements before that one; from the lowest to the highest one. 0 without any */
    int64_t before, span;
} extent;

typedef struct half_state {
    const hn_ext_impl *impl;
    hn_ext_call call; /* in f32 */
    const hn_ext_kernels *kernels;
    bool converts[OPERANDS]; /* in each run */
    extent extents[OPERANDS];
    size_t inner_bytes;
} half_state;

static bool is_half(uint8_t dtype) { return dtype == HN_F16 || dtype == HN_BF16; }

/* ---- where elements are ---- */

static void put_matmul(const int64_t *p, int64_t rows, int64_t cols, int strides, extent *out) {
    out->rank = HN_EXTERN_BATCH + 2;
    memcpy(out->sizes, p + HN_MATMUL_BATCH, HN_EXTERN_BATCH * sizeof *p);
    out->sizes[HN_EXTERN_BATCH] = rows;
    out->sizes[HN_EXTERN_BATCH + 1] = cols;
    memcpy(out->strides, p + strides, (HN_EXTERN_BATCH + 2) * sizeof *p);
}

static void put_conv(const int64_t *p, int64_t first, int64_t second, int spatial, int strides,
                     extent *out) {
    out->rank = 5;
    out->sizes[0] = first, out->sizes[1] = second;
    memcpy(out->sizes + 2, p + spatial, 3 * sizeof *p);
    memcpy(out->strides, p + strides, 5 * sizeof *p);
}

static void put_attention(const int64_t *p, int64_t heads, int64_t rows, int64_t cols, int strides,
                          extent *out) {
    out->rank = 4;
    out->sizes[0] = p[HN_ATTENTION_BATCH], out->sizes[1] = heads, out->sizes[2] = rows,
    out->sizes[3] = cols;
    memcpy(out->strides, p + strides, 4 * sizeof *p);
}

static void set_span(extent *e) {
    int64_t before = 0, after = 0;
    for (int d = 0; d < e->rank; d++) {
        int64_t last = (e->sizes[d] - 1) * e->strides[d];
        if (e->sizes[d] == 0) return;
        before += hn_ext_max(0, -last);
        after += hn_ext_max(0, last);
    }
    e->before = before;
    e->span = before + 1 + after;
}

static void find_extents(const hn_ext_call *call, extent out[OPERANDS]) {
    const int64_t *p = call->params;
    memset(out, 0, OPERANDS * sizeof *out);
    if (call->kind == HN_EXTERN_MATMUL) {
        put_matmul(p, p[HN_MATMUL_M], p[HN_MATMUL_N], HN_MATMUL_OUT, &out[0]);
        put_matmul(p, p[HN_MATMUL_M], p[HN_MATMUL_K], HN_MATMUL_A, &out[1]);
        put_matmul(p, p[HN_MATMUL_K], p[HN_MATMUL_N], HN_MATMUL_B, &out[2]);
        put_matmul(p, p[HN_MATMUL_M], p[HN_MATMUL_N], HN_MATMUL_BIAS, &out[3]);
        put_matmul(p, p[HN_MATMUL_M], p[HN_MATMUL_N], HN_MATMUL_RESIDUAL, &out[4]);
    } else if (call->kind == HN_EXTERN_CONV) {
        int64_t c = p[HN_CONV_C], o = p[HN_CONV_O], g = p[HN_CONV_GROUPS];
        bool transposed = p[HN_CONV_TRANSPOSED];
        put_conv(p, p[HN_CONV_N], o, HN_CONV_OUTSIZE, HN_CONV_OUT, &out[0]);
        put_conv(p, p[HN_CONV_N], c, HN_CONV_IN, HN_CONV_X, &out[1]);
        put_conv(p, transposed ? c : o, (transposed ? o : c) / g, HN_CONV_KERNEL, HN_CONV_W,
                 &out[2]);
        out[3] = (extent){.rank = 1, .sizes = {o}, .strides = {1}};
        put_conv(p, p[HN_CONV_N], o, HN_CONV_OUTSIZE, HN_CONV_RESIDUAL, &out[4]);
        out[5] = (extent){.rank = 2,
                          .sizes = {p[HN_CONV_N], c},
                          .strides = {p[HN_CONV_SCALE], p[HN_CONV_SCALE + 1]}};
        if (p[HN_CONV_SCALE_OUT])
            out[5] = (extent){.rank = 1, .sizes = {o}, .strides = {p[HN_CONV_SCALE + 1]}};
    } else {
        int64_t h = p[HN_ATTENTION_BATCH + 1], kv = p[HN_ATTENTION_KV_HEADS], m = p[HN_ATTENTION_M],
                n = p[HN_ATTENTION_N];
        put_attention(p, h, m, p[HN_ATTENTION_DV], HN_ATTENTION_OUT, &out[0]);
        put_attention(p, h, m, p[HN_ATTENTION_D], HN_ATTENTION_Q, &out[1]);
        put_attention(p, kv, n, p[HN_ATTENTION_D], HN_ATTENTION_K, &out[2]);
        put_attention(p, kv, n, p[HN_ATTENTION_DV], HN_ATTENTION_V, &out[3]);
        put_attention(p, h, m, n, HN_ATTENTION_MASK, &out[4]);
    }
    for (int i = 0; i < OPERANDS; i++) set_span(&out[i]);
}

/* ---- converting ---- */

/* One conversion; what its tasks have in common. */
typedef struct conversion {
    const half_state *s;
    bool is_bf16;
    uint16_t *half; /* read or written */
    float *floats;
    int64_t count; /* elements or rows */
} conversion;

static void to_f32_task(void *context, int rank) {
    const conversion *j = context;
    const int64_t chunks = hn_ext_ceil_div(j->count, CHUNK), threads = j->s->call.threads;
    for (int64_t k = chunks * rank / threads; k < chunks * (rank + 1) / threads; k++)
        j->s->kernels->from_half(j->is_bf16, j->half + k * CHUNK, j->floats + k * CHUNK,
                                 hn_ext_min(CHUNK, j->count - k * CHUNK));
}

/* As one task where threads would wait for each other longer than they work. */
static void run_tasks(const half_state *s, int64_t elements, hn_task_fn fn, conversion *j) {
    hn_team *team = elements > 4 * CHUNK ? s->call.team : NULL;
    hn_team_run(team, s->call.threads, fn, j);
}

static void to_f32(const half_state *s, uint8_t dtype, const uint16_t *in, float *out,
                   int64_t count) {
    run_tasks(s, count, to_f32_task,
              &(conversion){.s = s,
                            .is_bf16 = dtype == HN_BF16,
                            .half = (uint16_t *)(uintptr_t)in,
                            .floats = out,
                            .count = count});
}

/* Rows of the result, the last dimension in one go where it is contiguous. */
static void write_back_task(void *context, int rank) {
    const conversion *j = context;
    const extent *e = &j->s->extents[0];
    const int last = e->rank - 1;
    const int64_t threads = j->s->call.threads;
    for (int64_t r = j->count * rank / threads; r < j->count * (rank + 1) / threads; r++) {
        int64_t at = 0, rest = r;
        for (int d = last - 1; d >= 0; d--) {
            at += rest % e->sizes[d] * e->strides[d];
            rest /= e->sizes[d];
        }
        if (e->strides[last] == 1)
            j->s->kernels->to_half(j->is_bf16, j->floats + at, j->half + at, e->sizes[last]);
        else
            for (int64_t i = 0; i < e->sizes[last]; i++, at += e->strides[last])
                j->s->kernels->to_half(j->is_bf16, j->floats + at, j->half + at, 1);
    }
}

static void write_back(const half_state *s, uint8_t dtype, const float *in, uint16_t *out) {
    const extent *e = &s->extents[0];
    int64_t rows = 1;
    for (int d = 0; d < e->rank - 1; d++) rows *= e->sizes[d];
    if (e->span == 0) return;
    run_tasks(s, rows * e->sizes[e->rank - 1], write_back_task,
              &(conversion){.s = s,
                            .is_bf16 = dtype == HN_BF16,
                            .half = out,
                            .floats = (float *)(uintptr_t)in,
                            .count = rows});
}

/* All of an operand, from its lowest element on. */
static void operand_to_f32(const half_state *s, uint8_t dtype, const void *in, const extent *e,
                           float *out) {
    to_f32(s, dtype, (const uint16_t *)in - e->before, out, e->span);
}

typedef struct convert_job {
    const half_state *s;
    uint8_t dtype;
    const void *in;
} convert_job;

static void fill_converted(void *user, void *memory) {
    const convert_job *job = user;
    operand_to_f32(job->s, job->dtype, job->in, &job->s->extents[WEIGHTS], memory);
}

/* Constant weights in f32, for as long as the module lives: what is packed from them is found by
 * their address. */
static hn_status convert_weights(hn_ext_call *call, half_state *s) {
    const extent *e = &s->extents[WEIGHTS];
    const hn_ext_pack_key key = {.words = {HN_EXT_PACK_TO_F32,
                                           (int64_t)(intptr_t)call->operands[WEIGHTS],
                                           call->dtypes[WEIGHTS], e->before, e->span}};
    convert_job job = {.s = s, .dtype = call->dtypes[WEIGHTS], .in = call->operands[WEIGHTS]};
    void *converted;
    HN_TRY(hn_ext_pack_get(call, &key, (size_t)e->span * sizeof(float), fill_converted, &job,
                           &converted));
    s->call.operands[WEIGHTS] = (float *)converted + e->before;
    return NULL;
}

/* ---- the implementation ---- */

static int64_t copy_floats(const half_state *s, int i) {
    return s->converts[i] ? hn_ext_ceil_div(s->extents[i].span, 16) * 16 : 0;
}

static hn_status prepare_inner(hn_ext_call *call, half_state *s) {
    const bool keeps_weights =
        call->kind != HN_EXTERN_ATTENTION && call->is_constant[WEIGHTS] && call->operands[WEIGHTS];
    for (int i = 0; i < OPERANDS; i++) {
        s->call.operands[i] = NULL;
        s->call.is_constant[i] = false;
        if (is_half(call->dtypes[i])) s->call.dtypes[i] = HN_F32;
        s->converts[i] = is_half(call->dtypes[i]) && !(i == WEIGHTS && keeps_weights);
    }
    s->call.is_constant[WEIGHTS] = keeps_weights;
    if (keeps_weights) HN_TRY(convert_weights(call, s));
    s->call.state = NULL, s->call.scratch_bytes = 0;
    return s->impl->prepare(&s->call);
}

static hn_status half_prepare(hn_ext_call *call) {
    if (!is_half(call->dtypes[0]) || call->kind > HN_EXTERN_ATTENTION)
        return HN_ERROR(HN_UNSUPPORTED, "no 16-bit floats");
    half_state *s = calloc(1, sizeof *s);
    if (!s) return HN_ERROR(HN_OUT_OF_MEMORY, "no memory for an extern call");
    s->impl = call->kind == HN_EXTERN_MATMUL ? &hn_ext_matmul_f32
              : call->kind == HN_EXTERN_CONV ? &hn_ext_conv_f32
                                             : &hn_ext_attention_f32;
    s->call = *call;
    s->kernels = hn_ext_kernels_get();
    find_extents(call, s->extents);
    hn_status status = prepare_inner(call, s);
    if (status) {
        free(s);
        return status;
    }
    s->inner_bytes = (s->call.scratch_bytes + 63) / 64 * 64;
    call->scratch_bytes = s->inner_bytes;
    for (int i = 0; i < OPERANDS; i++)
        call->scratch_bytes += (size_t)copy_floats(s, i) * sizeof(float);
    call->state = s;
    return NULL;
}

static hn_status half_run(const hn_ext_call *call, void *scratch) {
    const half_state *s = call->state;
    hn_ext_call inner = s->call;
    float *at = (float *)((char *)scratch + s->inner_bytes);
    for (int i = 0; i < OPERANDS; i++) {
        if (!s->converts[i]) {
            if (!inner.operands[i]) inner.operands[i] = call->operands[i];
            continue;
        }
        inner.operands[i] = at + s->extents[i].before;
        if (i > 0) operand_to_f32(s, call->dtypes[i], call->operands[i], &s->extents[i], at);
        at += copy_floats(s, i);
    }
    HN_TRY(s->impl->run(&inner, scratch));
    write_back(s, call->dtypes[0], inner.operands[0], call->operands[0]);
    return NULL;
}

static void half_release(hn_ext_call *call) {
    half_state *s = call->state;
    if (s->impl->release) s->impl->release(&s->call);
    free(s);
    call->state = NULL;
}

const hn_ext_impl hn_ext_half = {
    .name = "through f32", .prepare = half_prepare, .run = half_run, .release = half_release};
