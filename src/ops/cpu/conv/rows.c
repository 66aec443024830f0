/* rows.c: convolutions of few channels, as networks begin with, as matrix products: out[o,
 * position] = w[o, k] in[k, position].
 *
 * With few output channels collecting panels of inputs costs more than multiplying them. Here a few
 * rows of inputs are copied with their border, with stride 2 the even columns of a row apart from
 * the odd ones; then the inputs of neighbouring outputs are neighbours for every k, and a panel is
 * read there, at an offset for each k. */
#include "ops/cpu/conv/conv.h"

#include "henry/tensor.h"
#include "ops/cpu/pack_cache.h"
#include "ops/cpu/share.h"

#include <stdlib.h>
#include <string.h>

enum {
    MAX_K = 256,
    COPY_FLOATS = 6 << 10,      /* 24 KB of L1 */
    MOST_COPY_FLOATS = 24 << 10 /* L2: for a single row of outputs */
};

typedef struct rows_state {
    hn_ext_conv_state base;
    int64_t chunk, chunks; /* rows of outputs at once */
    /* of the copy; half: where the odd columns of a row begin, with stride 2 */
    int64_t in_rows, in_row, plane, half;
    int64_t k, tiles, panels, copy_floats;
    const float *packed;
    int64_t taps[MAX_K];
} rows_state;

static int64_t inputs_of(const hn_ext_conv *c, int d, int64_t outputs) {
    return (outputs - 1) * c->stride[d] + (c->kernel[d] - 1) * c->dilation[d] + 1;
}

/* Even columns, then odd ones; or all of them. */
static int64_t copied_row(const hn_ext_conv *c) {
    return hn_ext_ceil_div(inputs_of(c, 2, c->out[2]), c->stride[2]) * c->stride[2];
}

/* Whether rows of the result, and of the residual, take whole panels. */
static bool has_rows_of_outputs(const hn_ext_conv *c) {
    const int64_t cols = c->kernels->tile_cols;
    if (c->x[4] != 1 || c->y[4] != 1 || c->out[1] == 0 || c->out[2] < cols) return false;
    return !c->has_residual || (c->r[4] == 1 && c->out[2] % cols == 0);
}

/* Whether the last panel of a row computes little twice, and the inputs of one fit into a cache. */
static bool is_worth_it(const hn_ext_conv *c) {
    const int64_t cols = c->kernels->tile_cols;
    const int64_t twice = hn_ext_ceil_div(c->out[2], cols) * cols - c->out[2];
    return 8 * twice <= c->out[2] && c->c * inputs_of(c, 1, 1) * copied_row(c) <= MOST_COPY_FLOATS;
}

bool hn_ext_conv_rows_fits(const hn_ext_conv *c) {
    const int64_t taps = c->kernel[1] * c->kernel[2];
    if (!hn_ext_conv_is_2d(c) || hn_ext_conv_is_empty(c) || c->has_scale || !c->constant_weights)
        return false;
    if (c->stride[2] > 2 || taps == 1 || c->c * taps > MAX_K) return false;
    return has_rows_of_outputs(c) && hn_ext_conv_has_rows_of_weights(c) && is_worth_it(c);
}

/* ---- weights: [tile][k][tile_rows] ---- */

typedef struct pack_job {
    const rows_state *s;
    const float *w;
} pack_job;

static void pack_weights(void *user, void *memory) {
    const pack_job *job = user;
    const rows_state *s = job->s;
    const hn_ext_conv *c = &s->base.conv;
    const int64_t height = c->kernels->tile_rows;
    for (int64_t t = 0; t < s->tiles; t++) {
        const int64_t first = hn_ext_tile_start(c->o, s->tiles, t),
                      end = hn_ext_tile_start(c->o, s->tiles, t + 1);
        c->kernels->pack(&(hn_ext_pack){.in = job->w + first * c->w[0],
                                        .in_k = 1,
                                        .in_col = c->w[0],
                                        .k = s->k,
                                        .cols = end - first,
                                        .width = height,
                                        .out = (float *)memory + t * height * s->k,
                                        .out_panel = height * s->k});
    }
}

static hn_status get_weights(hn_ext_call *call, rows_state *s) {
    const hn_ext_conv *c = &s->base.conv;
    hn_ext_pack_key key = {.words = {HN_EXT_PACK_CONV_FIRST,
                                     (int64_t)(intptr_t)hn_ext_conv_weights(c, call), c->o, c->w[0],
                                     s->k, c->kernels->tile_rows}};
    void *packed = NULL;
    HN_TRY(hn_ext_pack_get(
        call, &key, (size_t)(s->tiles * c->kernels->tile_rows * s->k) * sizeof(float), pack_weights,
        &(pack_job){.s = s, .w = hn_ext_conv_weights(c, call)}, &packed));
    s->packed = packed;
    return NULL;
}

/* ---- running ---- */

/* Rows of inputs for outputs from row `first` on. What is beside the image is 0 from the start. */
static void copy_rows(const rows_state *s, const float *x, int64_t first, float *copy) {
    const hn_ext_conv *c = &s->base.conv;
    const int64_t before = c->padding[2], count = hn_ext_min(c->in[2], s->in_row - before),
                  from = first * c->stride[1] - c->padding[1];
    for (int64_t ch = 0; ch < c->c; ch++, x += c->x[1])
        for (int64_t i = 0; i < s->in_rows; i++) {
            float *row = copy + ch * s->plane + i * s->in_row, *even = row + (before + 1) / 2,
                  *odd = row + s->half + before / 2;
            const float *in = x + (from + i) * c->x[3];
            if (from + i < 0 || from + i >= c->in[1])
                memset(row, 0, (size_t)s->in_row * sizeof *row);
            else if (c->stride[2] == 1) memcpy(row + before, in, (size_t)count * sizeof *row);
            else
                c->kernels->conv->split(in, count, before % 2 ? odd : even,
                                        before % 2 ? even : odd);
        }
}

/* Panels of one row of outputs, from column `at` on. */
typedef struct row_part {
    int64_t n, y, at, panels;
} row_part;

static const float *residual_of(const rows_state *s, const hn_ext_call *call, const row_part *p) {
    const hn_ext_conv *c = &s->base.conv;
    if (!c->has_residual) return NULL;
    return (const float *)call->operands[HN_EXT_CONV_RESIDUAL] + p->n * c->r[0] + p->y * c->r[3] +
           p->at;
}

static void run_row(const rows_state *s, const hn_ext_call *call, const float *rows,
                    const row_part *p) {
    const hn_ext_conv *c = &s->base.conv;
    const int64_t low = c->o / s->tiles, tall = c->o % s->tiles, height = c->kernels->tile_rows;
    const float *bias = call->dtypes[HN_EXT_CONV_BIAS] ? call->operands[HN_EXT_CONV_BIAS] : NULL;
    const float *residual = residual_of(s, call, p);
    float *out = (float *)call->operands[HN_EXT_CONV_OUT] + p->n * c->y[0] + p->y * c->y[3] + p->at;
    hn_ext_column column = {.k = s->k,
                            .panels = p->panels,
                            .a_tile = height * s->k,
                            .b = rows + p->at,
                            .taps = s->taps,
                            .c_row = c->y[1],
                            .residual_row = c->r[1],
                            .epilogue = c->epilogue};
    /* those of one height */
    for (int64_t t = 0, o = 0; t < s->tiles; t += column.tiles, o += column.tiles * column.rows) {
        column.tiles = t < tall ? tall : s->tiles - t;
        column.rows = (int)(low + (t < tall));
        column.a = s->packed + t * column.a_tile;
        column.c = out + o * c->y[1];
        column.bias = bias ? bias + o : NULL;
        column.residual = residual ? residual + o * c->r[1] : NULL;
        c->kernels->column(&column);
    }
}

static void run_chunk(const rows_state *s, const hn_ext_call *call, int64_t n, int64_t chunk,
                      float *copy) {
    const hn_ext_conv *c = &s->base.conv;
    const int64_t first = c->out[1] * chunk / s->chunks, end = c->out[1] * (chunk + 1) / s->chunks,
                  cols = c->kernels->tile_cols;
    copy_rows(s, (const float *)call->operands[HN_EXT_CONV_INPUT] + n * c->x[0], first, copy);
    for (int64_t y = first; y < end; y++) {
        const float *rows = copy + (y - first) * c->stride[1] * s->in_row;
        run_row(s, call, rows, &(row_part){.n = n, .y = y, .at = 0, .panels = s->panels});
        if (c->out[2] % cols)
            run_row(s, call, rows,
                    &(row_part){.n = n, .y = y, .at = c->out[2] - cols, .panels = 1});
    }
}

typedef struct job {
    const hn_ext_call *call;
    hn_ext_share *shares;
} job;

static void run_chunks(void *context, int rank) {
    const job *j = context;
    const rows_state *s = j->call->state;
    const int size = s->base.conv.threads;
    float *copy = NULL;
    for (int64_t i; (i = hn_ext_share_next(j->shares, rank, size)) >= 0;) {
        if (!copy)
            copy = memset((float *)(j->shares + size) + rank * s->copy_floats, 0,
                          (size_t)s->copy_floats * sizeof *copy);
        run_chunk(s, j->call, i / s->chunks, i % s->chunks, copy);
    }
}

static void rows_run(const hn_ext_call *call, void *scratch) {
    const rows_state *s = call->state;
    const hn_ext_conv *c = &s->base.conv;
    job j = {.call = call, .shares = scratch};
    for (int rank = 0; rank < c->threads; rank++)
        hn_ext_share_set(j.shares, rank, c->threads, c->n * s->chunks);
    hn_team_run(call->team, c->threads, run_chunks, &j);
}

/* As many rows of outputs at once as L1 has room for the inputs of; every thread gets the same
 * number of chunks. */
static void plan_chunks(rows_state *s) {
    const hn_ext_conv *c = &s->base.conv;
    int64_t most = 1;
    while (most < c->out[1] && c->c * inputs_of(c, 1, most + 1) * s->in_row <= COPY_FLOATS) most++;
    s->chunks = hn_ext_ceil_div(c->out[1], most);
    s->chunks = hn_ext_min(c->out[1], hn_ext_ceil_div(s->chunks, c->threads) * c->threads);
    s->chunk = hn_ext_ceil_div(c->out[1], s->chunks);
    s->in_rows = inputs_of(c, 1, s->chunk);
    s->plane = s->in_rows * s->in_row;
}

hn_status hn_ext_conv_rows_prepare(hn_ext_call *call, const hn_ext_conv *c) {
    rows_state *s = calloc(1, sizeof *s);
    if (!s) return HN_ERROR(HN_OUT_OF_MEMORY, "no memory for a convolution");
    const int64_t taps = c->kernel[1] * c->kernel[2];
    s->base = (hn_ext_conv_state){.run = rows_run, .conv = *c};
    s->k = c->c * taps;
    s->tiles = hn_ext_ceil_div(c->o, c->kernels->tile_rows);
    s->panels = c->out[2] / c->kernels->tile_cols;
    s->in_row = copied_row(c);
    s->half = s->in_row / 2;
    plan_chunks(s);
    s->copy_floats = hn_ext_ceil_div(c->c * s->plane, 16) * 16;
    for (int64_t k = 0; k < s->k; k++) {
        const int64_t tap = k % taps, column = tap % c->kernel[2] * c->dilation[2];
        s->taps[k] = k / taps * s->plane + tap / c->kernel[2] * c->dilation[1] * s->in_row +
                     (c->stride[2] == 2 ? column % 2 * s->half + column / 2 : column);
    }
    hn_status status = c->n * s->chunks > HN_EXT_SHARE_MAX
                           ? HN_ERROR(HN_UNSUPPORTED, "too many rows of a convolution")
                           : get_weights(call, s);
    if (status) {
        free(s);
        return status;
    }
    call->state = s;
    call->scratch_bytes =
        (size_t)c->threads * (sizeof(hn_ext_share) + (size_t)s->copy_floats * sizeof(float));
    return NULL;
}
