/* ext_conv_winograd.c: 3 x 3 convolutions of stride 1 by Winograd's method, F(2 x 2) and F(4 x 4).
 *
 * Source: Lavin and Gray, Fast Algorithms for Convolutional Neural Networks (2015); points and their error: ext_conv_body.h.
 * The image is cut into tiles of m x m outputs. Inputs of a tile and filters are evaluated at n x n points, n = m + 2;
 * for each point there is one matrix product [o, c] [c, tile]; a last transformation makes outputs of the products. That is
 * 9 m^2 / n^2 times fewer multiplications: 2.25 for m = 2, 4 for m = 4. */
#include "runtime/ext_conv.h"

#include "henry/tensor.h"
#include "runtime/ext_pack_cache.h"

#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

enum {
    MAX_POINTS = 36,
    K_STEP = 256,
    A_GROUP_TILES = 32,
    TASKS_PER_THREAD = 8,
    LANES = HN_EXT_WINOGRAD_LANES
};

typedef struct winograd_state {
    hn_ext_conv_state base;
    int m, points;              /* outputs and points of a tile along one dimension */
    int64_t tiles_y, tiles_x;
    int64_t tiles, panels;      /* of tiles as columns */
    int64_t row_tiles;          /* of output channels as rows */
    hn_ext_border border;
    int64_t plane_floats, in_floats, out_floats;
    const float *packed; /* [point][row tile][c][tile_rows] */
} winograd_state;

/* ---- whether, and with which m ---- */

/* In multiply-adds of a register tile: products (8 lanes at least), the stream of weights (a float from memory costs as
 * much as 10), transformations. Source: measured on Zen 3. */
static double cost_of(const hn_ext_conv *c, int64_t m) {
    const double stream = 10, transform = 250, out = (double)c->o, in = (double)c->c;
    if (m == 1) return 9 * out * in * ((double)hn_ext_ceil_div(c->out[1] * c->out[2], 8) * 8 * (double)c->n + stream);
    double tiles = (double)(hn_ext_ceil_div(c->out[1], m) * hn_ext_ceil_div(c->out[2], m)), n2 = (double)((m + 2) * (m + 2));
    double lanes = ceil((double)tiles / 8) * 8;
    return n2 * out * in * (lanes * (double)c->n + stream) + transform * tiles * (double)c->n * (in + out);
}

static int best_m(const hn_ext_conv *c) {
    double direct = cost_of(c, 1), two = cost_of(c, 2), four = cost_of(c, 4);
    if (direct <= two && direct <= four) return 0;
    return two < four ? 2 : 4;
}

bool hn_ext_conv_winograd_fits(const hn_ext_conv *c) {
    bool shape = !c->transposed && c->groups == 1 && c->in[0] == 1 && c->out[0] == 1 && c->kernel[0] == 1 && c->padding[0] == 0 &&
                 c->n > 0 && c->c >= 8 && c->o >= 8 && (c->y[4] == 1 || c->out[2] == 1);
    for (int d = 1; d < 3; d++) shape = shape && c->kernel[d] == 3 && c->stride[d] == 1 && c->dilation[d] == 1 && c->in[d] > 0 && c->out[d] > 0;
    return shape && c->constant_weights && best_m(c) != 0;
}

/* ---- weights ---- */

typedef struct weights_job {
    const winograd_state *s;
    const hn_ext_call *call;
} weights_job;

/* g: the n x 3 matrix that evaluates a filter at the points, divided by what Lagrange's formula asks for. */
static void filter_matrix(int m, double g[6][3]) {
    const double points4[] = {0, 0.75, -0.75, 1.5, -1.5}, points2[] = {0, 1, -1};
    const double *p = m == 4 ? points4 : points2;
    for (int i = 0; i < m + 1; i++) {
        double scale = 1;
        for (int j = 0; j < m + 1; j++)
            if (j != i) scale *= p[i] - p[j];
        g[i][0] = 1 / scale, g[i][1] = p[i] / scale, g[i][2] = p[i] * p[i] / scale;
    }
    g[m + 1][0] = g[m + 1][1] = 0, g[m + 1][2] = 1;
}

/* Channel `ch` of one row tile: `count` filters side by side. */
static void transform_filters(const winograd_state *s, const hn_ext_call *call, int64_t first, int64_t count, int64_t ch, double g[6][3],
                              float *out) {
    enum { ROWS = 14 };
    const hn_ext_conv *c = &s->base.conv;
    const int64_t rows = c->kernels->tile_rows, point_floats = s->row_tiles * rows * c->c;
    const float *w = call->operands[HN_EXT_CONV_WEIGHTS];
    double filter[3][3][ROWS], half[6][3][ROWS];
    for (int64_t r = 0; r < count; r++) {
        const float *of = w + (first + r) * c->w[0] + ch * c->w[1], factor = hn_ext_conv_factor(c, call, first + r);
        for (int i = 0; i < 9; i++) filter[i / 3][i % 3][r] = (double)(of[i / 3 * c->w[3] + i % 3 * c->w[4]] * factor);
    }
    for (int i = 0; i < s->points; i++)
        for (int j = 0; j < 3; j++)
            for (int64_t r = 0; r < count; r++)
                half[i][j][r] = g[i][0] * filter[0][j][r] + g[i][1] * filter[1][j][r] + g[i][2] * filter[2][j][r];
    for (int i = 0; i < s->points; i++)
        for (int j = 0; j < s->points; j++, out += point_floats)
            for (int64_t r = 0; r < count; r++)
                out[r] = (float)(half[i][0][r] * g[j][0] + half[i][1][r] * g[j][1] + half[i][2][r] * g[j][2]);
}

static void fill_weights(void *user, void *memory) {
    const weights_job *job = user;
    const winograd_state *s = job->s;
    const hn_ext_conv *c = &s->base.conv;
    const int64_t rows = c->kernels->tile_rows;
    double g[6][3];
    filter_matrix(s->m, g);
#pragma omp parallel for num_threads(c->threads) schedule(static) if (c->threads > 1)
    for (int64_t t = 0; t < s->row_tiles; t++) {
        int64_t first = hn_ext_tile_start(c->o, s->row_tiles, t), count = hn_ext_tile_start(c->o, s->row_tiles, t + 1) - first;
        for (int64_t ch = 0; ch < c->c; ch++)
            transform_filters(s, job->call, first, count, ch, g, (float *)memory + (t * c->c + ch) * rows);
    }
    hn_ext_conv_drop_weights(c, job->call);
}

static hn_status get_weights(hn_ext_call *call, winograd_state *s) {
    const hn_ext_conv *c = &s->base.conv;
    hn_ext_pack_key key = {.words = {HN_EXT_PACK_WINOGRAD, (int64_t)(intptr_t)call->operands[HN_EXT_CONV_WEIGHTS], c->o, c->c, s->m,
                                           c->kernels->tile_rows, c->w[0], c->w[1], c->w[3], c->w[4]}};
    hn_ext_conv_put_factor(c, call, &key);
    void *packed = NULL;
    size_t floats = (size_t)(s->points * s->points) * (size_t)(s->row_tiles * c->kernels->tile_rows * c->c);
    HN_TRY(hn_ext_pack_get(call, &key, floats * sizeof(float), fill_weights,
                           &(weights_job){.s = s, .call = call}, &packed));
    s->packed = packed;
    return NULL;
}

/* ---- running ---- */

/* in: [point][panel][c][tile_cols]; out: [o][point][panels * tile_cols]. */
static void transform_channel(const winograd_state *s, const float *x, int64_t ch, float *plane, float *in) {
    const hn_ext_conv *c = &s->base.conv;
    const int64_t cols = c->kernels->tile_cols, row = s->border.size[2];
    hn_ext_conv_copy_inside(c, &s->border, x + ch * c->x[1], plane); /* the border stays 0 */
    for (int64_t y = 0; y < s->tiles_y; y++)
        for (int64_t t = 0; t < s->tiles_x; t += LANES) {
            int64_t at = y * s->tiles_x + t, lane = at % cols;
            c->kernels->winograd_in(&(hn_ext_winograd_in){
                .m = s->m, .in = plane + y * s->m * row + t * s->m, .in_row = row, .out = in + (at / cols * c->c + ch) * cols + lane,
                .out_point = s->panels * c->c * cols, .out_next = (c->c - 1) * cols, .room = (int)(cols - lane),
                .count = (int)hn_ext_min(LANES, s->tiles_x - t)});
        }
}

static void multiply(const winograd_state *s, const float *in, float *out, int64_t point, const int64_t tiles[2]) {
    const hn_ext_conv *c = &s->base.conv;
    const int64_t rows = c->kernels->tile_rows, cols = c->kernels->tile_cols, points = s->points * s->points;
    const int64_t steps = hn_ext_ceil_div(c->c, K_STEP), step = hn_ext_ceil_div(c->c, steps);
    const float *weights = s->packed + point * s->row_tiles * rows * c->c;
    hn_ext_tile t = {.a_row = 1, .a_k = rows, .b_k = cols, .c_row = points * s->panels * cols, .c_col = 1};
    for (int64_t k0 = 0; k0 < c->c; k0 += step) {
        t.k = hn_ext_min(step, c->c - k0);
        t.accumulate = k0 > 0;
        for (int64_t p = 0; p < s->panels; p++) {
            t.b = in + ((point * s->panels + p) * c->c + k0) * cols;
            t.cols = (int)(s->tiles - p * cols <= cols / 2 ? cols / 2 : cols); /* whole vectors: the rest is never read */
            for (int64_t i = tiles[0]; i < tiles[1]; i++) {
                int64_t first = hn_ext_tile_start(c->o, s->row_tiles, i);
                t.rows = (int)(hn_ext_tile_start(c->o, s->row_tiles, i + 1) - first);
                t.a = weights + (i * c->c + k0) * rows;
                t.c = out + first * t.c_row + point * s->panels * cols + p * cols;
                t.prefetch = t.a + rows * c->c;
                t.prefetch_step = rows;
                c->kernels->tile(&t);
            }
        }
    }
}

static void write_tile(const winograd_state *s, const float *from, int64_t tile, float *out) {
    const hn_ext_conv *c = &s->base.conv;
    const int64_t y = tile / s->tiles_x * s->m, x = tile % s->tiles_x * s->m;
    const int64_t height = hn_ext_min(s->m, c->out[1] - y), width = hn_ext_min(s->m, c->out[2] - x);
    out += y * c->y[3] + x;
    for (int64_t i = 0; i < height; i++) {
        if (width == 4)
            memcpy(out + i * c->y[3], from + i * s->m, 4 * sizeof *out);
        else
            for (int64_t j = 0; j < width; j++) out[i * c->y[3] + j] = from[i * s->m + j];
    }
}

static void finish_channel(const winograd_state *s, const float *products, int64_t o, float bias, float *out) {
    const hn_ext_conv *c = &s->base.conv;
    const int64_t columns = s->panels * c->kernels->tile_cols, points = s->points * s->points;
    float results[LANES * 16] __attribute__((aligned(64)));
    for (int64_t t = 0; t < s->tiles; t += LANES) {
        c->kernels->winograd_out(&(hn_ext_winograd_out){.m = s->m, .in = products + o * points * columns + t, .in_point = columns,
                                                       .bias = bias, .epilogue = hn_ext_conv_early_epilogue(c), .out = results});
        for (int64_t i = t; i < hn_ext_min(t + LANES, s->tiles); i++) write_tile(s, results + (i - t) * s->m * s->m, i, out);
    }
}

static void wait_all(int size) {
    if (size > 1) {
#pragma omp barrier
    }
}

static int64_t take(int64_t *next, int size) { return size > 1 ? __atomic_fetch_add(next, 1, __ATOMIC_RELAXED) : (*next)++; }

static void run_thread(const hn_ext_call *call, float *scratch, int64_t next[3], int rank, int size) {
    const winograd_state *s = call->state;
    const hn_ext_conv *c = &s->base.conv;
    const int64_t points = s->points * s->points, channel_group = 4;
    const float *bias = call->dtypes[HN_EXT_CONV_BIAS] ? call->operands[HN_EXT_CONV_BIAS] : NULL;
    float *in = scratch, *out = in + s->in_floats, *plane = out + s->out_floats + rank * s->plane_floats;
    int64_t o_groups = hn_ext_ceil_div(s->row_tiles, A_GROUP_TILES), task;
    if (size > 1) o_groups = hn_ext_min(s->row_tiles, hn_ext_max(o_groups, hn_ext_ceil_div(size * TASKS_PER_THREAD, points)));
    memset(plane, 0, (size_t)s->plane_floats * sizeof *plane);
    for (int64_t n = 0; n < c->n; n++) {
        const float *x = (const float *)call->operands[HN_EXT_CONV_INPUT] + n * c->x[0];
        float *y = (float *)call->operands[HN_EXT_CONV_OUT] + n * c->y[0];
        while ((task = take(&next[0], size) * channel_group) < c->c)
            for (int64_t ch = task; ch < hn_ext_min(task + channel_group, c->c); ch++) transform_channel(s, x, ch, plane, in);
        wait_all(size);
        if (rank == 0) next[2] = 0;
        while ((task = take(&next[1], size)) < points * o_groups) {
            int64_t group = task % o_groups;
            multiply(s, in, out, task / o_groups, (int64_t[]){s->row_tiles * group / o_groups, s->row_tiles * (group + 1) / o_groups});
        }
        wait_all(size);
        if (rank == 0) next[0] = 0;
        while ((task = take(&next[2], size) * channel_group) < c->o)
            for (int64_t o = task; o < hn_ext_min(task + channel_group, c->o); o++) {
                finish_channel(s, out, o, bias ? bias[o] : 0, y + o * c->y[1]);
                hn_ext_conv_add_residual(c, call, n, o);
            }
        wait_all(size);
        if (rank == 0) next[1] = 0; /* read only after the next wait */
    }
}

static void winograd_run(const hn_ext_call *call, void *scratch) {
    const hn_ext_conv *c = &((const winograd_state *)call->state)->base.conv;
    int64_t next[3] = {0};
#pragma omp parallel num_threads(c->threads) if (c->threads > 1)
    run_thread(call, scratch, next, omp_get_thread_num(), omp_get_num_threads());
}

hn_status hn_ext_conv_winograd_prepare(hn_ext_call *call, const hn_ext_conv *c) {
    winograd_state *s = calloc(1, sizeof *s);
    if (!s) return HN_ERROR(HN_OUT_OF_MEMORY, "no memory for a convolution");
    const int64_t cols = c->kernels->tile_cols;
    s->base = (hn_ext_conv_state){.run = winograd_run, .conv = *c};
    s->m = best_m(c);
    s->points = s->m + 2;
    s->tiles_y = hn_ext_ceil_div(c->out[1], s->m);
    s->tiles_x = hn_ext_ceil_div(c->out[2], s->m);
    s->tiles = s->tiles_y * s->tiles_x;
    s->panels = hn_ext_ceil_div(s->tiles, cols);
    s->row_tiles = hn_ext_ceil_div(c->o, c->kernels->tile_rows);
    s->border = (hn_ext_border){.before = {0, c->padding[1], c->padding[2]}, .size = {1, s->tiles_y * s->m + 2, s->tiles_x * s->m + 2}};
    const int64_t slack = LANES * 4 + 16, points = s->points * s->points;
    s->plane_floats = hn_ext_ceil_div(s->border.size[1] * s->border.size[2] + slack, 16) * 16;
    s->in_floats = points * s->panels * c->c * cols;
    s->out_floats = points * s->panels * cols * c->o;
    hn_status status = get_weights(call, s);
    if (status) {
        free(s);
        return status;
    }
    call->state = s;
    call->scratch_bytes = (size_t)(s->in_floats + s->out_floats + c->threads * s->plane_floats) * sizeof(float);
    return NULL;
}
