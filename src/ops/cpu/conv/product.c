/* product.c: convolutions over few positions, as out^T[position, o] = x^T[position, k] w^T[k, o]:
 * weights stream by, and positions are the rows of the tiles, which 49 of them fill, not the
 * columns. Inputs are used where they are with 1 x 1, or else collected first. */
#include "ops/cpu/conv/conv.h"

#include "henry/tensor.h"
#include "ops/cpu/gemm/gemm.h"

#include <stdlib.h>
#include <string.h>

enum {
    SKINNY_POSITIONS = 6, /* up to here weights are what costs */
    MOST_POSITIONS = 256,
    MOST_COLLECTED = 64,
    LINE = 16,
    /* of a tile's columns on their way to rows of the result, in k. Source: measured on Zen 3 */
    TRANSPOSE_COST = 48
};

/* Whether positions are better the rows of the tiles than their columns: 49 are 8 tiles of 6 and
 * one row, but columns of 4 times 16. */
bool hn_ext_conv_product_fits(const hn_ext_conv *c) {
    const int64_t positions = c->in[2], cols = c->kernels->tile_cols,
                  empty = hn_ext_ceil_div(positions, cols) * cols - positions;
    if (c->in[0] != 1 || c->in[1] != 1 || (c->has_scale && (c->n != 1 || !c->constant_weights)))
        return false;
    if (c->has_factor && !c->constant_weights) return false;
    return positions <= SKINNY_POSITIONS ||
           (positions <= MOST_POSITIONS && c->c * empty >= TRANSPOSE_COST * positions);
}

/* Whether a channel of the result, and of the residual, is one row. */
static bool has_rows_of_positions(const hn_ext_conv *c) {
    if (c->y[4] != 1 || c->y[3] != c->out[2]) return false;
    return !c->has_residual || (c->r[4] == 1 && c->r[3] == c->out[2]);
}

/* Kernels and strides, one image. What half panels at the end leave empty is more than the tiles'
 * way costs. */
bool hn_ext_conv_collected_fits(const hn_ext_conv *c) {
    const int64_t taps = c->kernel[1] * c->kernel[2], half = c->kernels->tile_cols / 2;
    if (!hn_ext_conv_is_2d(c) || hn_ext_conv_is_empty(c) || c->n != 1 || c->has_scale ||
        !c->constant_weights)
        return false;
    if (!has_rows_of_positions(c) || (taps > 1 && !hn_ext_conv_has_rows_of_weights(c)))
        return false;
    const int64_t positions = c->out[1] * c->out[2];
    if (positions <= SKINNY_POSITIONS || positions > MOST_COLLECTED) return false;
    const int64_t empty = hn_ext_ceil_div(positions, half) * half - positions;
    return c->c * taps * empty >= TRANSPOSE_COST * positions;
}

typedef struct product_state {
    hn_ext_conv_state base;
    hn_ext_gemm gemm;
    const float *packed;
    int64_t collected, row; /* floats of inputs, [k][row]; 0: they are used where they are */
} product_state;

/* Outputs [first, end) of dimension d read inputs of the image with this tap; the others read its
 * border. */
static void range_of(const hn_ext_conv *c, int d, int64_t tap, int64_t range[2]) {
    const int64_t from = tap * c->dilation[d] - c->padding[d], s = c->stride[d];
    range[0] = hn_ext_min(c->out[d], from < 0 ? hn_ext_ceil_div(-from, s) : 0);
    range[1] = hn_ext_max(
        range[0], hn_ext_min(c->out[d], from < c->in[d] ? (c->in[d] - 1 - from) / s + 1 : 0));
}

/* One row of the output, of which [cols[0], cols[1]) reads the input. */
static void collect_row(const hn_ext_conv *c, const float *in, const int64_t cols[2], float *out) {
    const int64_t step = c->stride[2] * c->x[4], count = cols[1] - cols[0];
    for (int64_t k = 0; k < cols[0]; k++) out[k] = 0;
    if (step == 1) memcpy(out + cols[0], in, (size_t)count * sizeof *out);
    else
        for (int64_t k = 0; k < count; k++) out[cols[0] + k] = in[k * step];
    for (int64_t k = cols[1]; k < c->out[2]; k++) out[k] = 0;
}

static void collect_tap(const hn_ext_conv *c, const float *x, int64_t i, int64_t j, float *out) {
    int64_t rows[2], cols[2];
    range_of(c, 1, i, rows);
    range_of(c, 2, j, cols);
    const int64_t top = i * c->dilation[1] - c->padding[1],
                  left = cols[0] * c->stride[2] + j * c->dilation[2] - c->padding[2];
    for (int64_t y = 0; y < c->out[1]; y++, out += c->out[2]) {
        if (y >= rows[0] && y < rows[1] && cols[0] < cols[1])
            collect_row(c, x + (y * c->stride[1] + top) * c->x[3] + left * c->x[4], cols, out);
        else memset(out, 0, (size_t)c->out[2] * sizeof *out);
    }
}

typedef struct collect_job {
    const product_state *s;
    const float *x;
    float *out;
} collect_job;

/* Inputs of all positions for each k: out[k][position]. */
static void collect(void *context, int rank) {
    const collect_job *j = context;
    const hn_ext_conv *c = &j->s->base.conv;
    const int64_t taps = c->kernel[1] * c->kernel[2];
    for (int64_t ch = c->c * rank / c->threads; ch < c->c * (rank + 1) / c->threads; ch++)
        for (int64_t t = 0; t < taps; t++)
            collect_tap(c, j->x + ch * c->x[1], t / c->kernel[2], t % c->kernel[2],
                        j->out + (ch * taps + t) * j->s->row);
}

static void product_run(const hn_ext_call *call, void *scratch) {
    const product_state *s = call->state;
    float *collected = scratch;
    if (s->collected)
        hn_team_run(
            call->team, s->base.conv.threads, collect,
            &(collect_job){.s = s, .x = call->operands[HN_EXT_CONV_INPUT], .out = collected});
    hn_ext_gemm_run(
        &s->gemm,
        &(hn_ext_gemm_args){.out = call->operands[HN_EXT_CONV_OUT],
                            .a = s->collected ? collected : call->operands[HN_EXT_CONV_INPUT],
                            .b = s->packed ? s->packed : hn_ext_conv_weights(&s->base.conv, call),
                            .bias = call->operands[HN_EXT_CONV_BIAS],
                            .residual = call->operands[HN_EXT_CONV_RESIDUAL],
                            .scale = call->operands[HN_EXT_CONV_SCALE],
                            .team = call->team},
        collected + s->collected);
}

typedef struct pack_job {
    const hn_ext_gemm *gemm;
    const hn_ext_conv *conv;
    const hn_ext_call *call;
} pack_job;

/* Column o of the panels times its factor. */
static void scale_panels(const pack_job *job, float *packed) {
    const hn_ext_gemm *g = job->gemm;
    const int64_t cols = g->kernels->tile_cols;
    for (int64_t o = 0; o < g->n; o++) {
        const float factor = hn_ext_conv_factor(job->conv, job->call, o);
        float *column = packed + o / cols * cols * g->k + o % cols;
        for (int64_t k = 0; k < g->k; k++) column[k * cols] *= factor;
    }
}

static void product_pack(void *user, void *memory) {
    const pack_job *job = user;
    hn_ext_gemm_pack_b(job->gemm, job->call->team, hn_ext_conv_weights(job->conv, job->call),
                       memory);
    if (job->conv->has_factor) scale_panels(job, memory);
    hn_ext_conv_drop_weights(job->conv, job->call);
}

/* 1 x 1 whose positions are one row. */
static bool is_plain(const hn_ext_conv *c) {
    return c->in[1] == 1 && c->out[1] == 1 && c->in[2] == c->out[2] &&
           c->kernel[1] * c->kernel[2] == 1 && c->stride[2] == 1 && c->padding[2] == 0;
}

static hn_ext_gemm gemm_of(const hn_ext_call *call, const hn_ext_conv *c, int64_t row) {
    const bool plain = is_plain(c);
    const int64_t taps = c->kernel[1] * c->kernel[2];
    return (hn_ext_gemm){.batch = {1, 1, 1, c->n},
                         .m = c->out[1] * c->out[2],
                         .n = c->o,
                         .k = c->c * taps,
                         .a = {0, 0, 0, c->x[0], plain ? c->x[4] : 1, plain ? c->x[1] : row},
                         .b = {0, 0, 0, 0, taps > 1 ? 1 : c->w[1], c->w[0]},
                         .out = {0, 0, 0, c->y[0], c->y[4], c->y[1]},
                         .has_bias = call->dtypes[HN_EXT_CONV_BIAS] != HN_NO_TYPE,
                         .bias = {0, 0, 0, 0, 0, 1},
                         .has_residual = c->has_residual,
                         .residual = {0, 0, 0, c->r[0], c->r[4], c->r[1]},
                         .has_scale = c->has_scale,
                         .scale_k = c->scale[1],
                         .prepack_b = c->constant_weights,
                         .epilogue = c->epilogue,
                         .kernels = c->kernels,
                         .threads = call->threads};
}

static hn_status get_weights(hn_ext_call *call, const hn_ext_conv *c, product_state *s) {
    hn_ext_gemm *g = &s->gemm;
    hn_ext_pack_key key = {.words = {HN_EXT_PACK_GEMM_B,
                                     (int64_t)(intptr_t)hn_ext_conv_weights(c, call), g->n, g->k,
                                     g->b[4], g->b[5], g->kernels->tile_cols, 0, 1, 1, 1, 1}};
    hn_ext_conv_put_factor(c, call, &key);
    void *packed = NULL;
    hn_status status = hn_ext_pack_get(call, &key, hn_ext_gemm_packed_bytes(g), product_pack,
                                       &(pack_job){.gemm = g, .conv = c, .call = call}, &packed);
    s->packed = packed;
    return status;
}

hn_status hn_ext_conv_product_prepare(hn_ext_call *call, const hn_ext_conv *c) {
    product_state *s = calloc(1, sizeof *s);
    if (!s) return HN_ERROR(HN_OUT_OF_MEMORY, "no memory for a convolution");
    /* whole vectors of a row may be read */
    s->row = hn_ext_ceil_div(c->out[1] * c->out[2], LINE) * LINE;
    s->gemm = gemm_of(call, c, s->row);
    s->collected = is_plain(c) ? 0 : s->gemm.k * s->row;
    hn_ext_gemm_plan(&s->gemm);
    hn_status status = s->gemm.prepack_b ? get_weights(call, c, s) : NULL;
    if (status) {
        free(s);
        return status;
    }
    s->base = (hn_ext_conv_state){.run = product_run, .conv = *c};
    call->state = s;
    call->scratch_bytes =
        (size_t)s->collected * sizeof(float) + hn_ext_gemm_scratch_bytes(&s->gemm);
    return NULL;
}
