/* winograd.c: 3 x 3 convolutions of stride 1 by Winograd's method, F(2 x 2) and F(4 x 4).
 *
 * Source: Lavin and Gray, Fast Algorithms for Convolutional Neural Networks (2015); points and
 * their error: body.h. The image is cut into tiles of m x m outputs. Inputs of a tile and filters
 * are evaluated at n x n points, n = m + 2; for each point there is one matrix product [o, c] [c,
 * tile]; a last transformation makes outputs of the products. That is 9 m^2 / n^2 times fewer
 * multiplications: 2.25 for m = 2, 4 for m = 4.
 *
 * Large images are cut into blocks of tiles, for which one task does all of that: what lies between
 * the steps stays in its thread's caches. Small images of a batch are such blocks whole. Where
 * vectors would be left empty, or there are too many weights to pass by for each block, all tasks
 * share each step. */
#include "ops/cpu/conv/conv.h"

#include "henry/tensor.h"
#include "ops/cpu/pack_cache.h"
#include "ops/cpu/share.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    K_STEP = 256,
    BLOCK_FLOATS = 80 << 10, /* of a block's inputs: 320 KB of L2 */
    /* of its products at once: 192 KB, of which a part is never touched */
    BLOCK_PRODUCTS = 48 << 10,
    BLOCK_WEIGHTS = 1 << 20, /* 4 MB of L3, which pass by for each block */
    /* of weights that each thread fetches while it transforms inputs: 192 KB of L2 */
    AHEAD_FLOATS = 48 << 10,
    TASKS_PER_THREAD = 8,
    CHANNEL_GROUP = 4, /* that a thread takes at once */
    LANES = HN_EXT_WINOGRAD_LANES,
    LINE = 16 /* floats */
};

typedef struct winograd_state {
    hn_ext_conv_state base;
    int m, points; /* outputs and points of a tile along one dimension */
    int64_t tiles_y, tiles_x, tiles;
    int64_t row_tiles; /* of output channels as rows */
    /* that are a task's own, for each task; 0: all tasks share one */
    int64_t blocks;
    bool by_image; /* a block is an image, and `blocks` is 1 */
    /* of the products of the largest block: tiles, and what whole vectors have too much */
    int64_t columns;
    /* floats from point to point, from output channel to output channel */
    int64_t in_point, out_row;
    int64_t group; /* row tiles whose products are kept at once */
    int64_t border_row, plane_floats, in_floats, out_floats;
    const float *packed; /* [point][row tile][c][tile_rows] */
} winograd_state;

/* ---- whether, and with which m ---- */

/* In multiply-adds of a register tile: products (8 lanes at least), the stream of weights (a float
 * from memory costs as much as 10), transformations. Source: measured on Zen 3. */
static double cost_of(const hn_ext_conv *c, int64_t m) {
    const double stream = 10, transform = 250, out = (double)c->o, in = (double)c->c;
    if (m == 1)
        return 9 * out * in *
               ((double)hn_ext_ceil_div(c->out[1] * c->out[2], 8) * 8 * (double)c->n + stream);
    double tiles = (double)(hn_ext_ceil_div(c->out[1], m) * hn_ext_ceil_div(c->out[2], m)),
           n2 = (double)((m + 2) * (m + 2));
    double lanes = ceil((double)tiles / 8) * 8;
    return n2 * out * in * (lanes * (double)c->n + stream) +
           transform * tiles * (double)c->n * (in + out);
}

static int best_m(const hn_ext_conv *c) {
    double direct = cost_of(c, 1), two = cost_of(c, 2), four = cost_of(c, 4);
    if (direct <= two && direct <= four) return 0;
    return two < four ? 2 : 4;
}

static bool is_dense_3(const hn_ext_conv *c, int d) {
    return c->kernel[d] == 3 && c->stride[d] == 1 && c->dilation[d] == 1 && c->in[d] > 0 &&
           c->out[d] > 0;
}

bool hn_ext_conv_winograd_fits(const hn_ext_conv *c) {
    if (!hn_ext_conv_is_2d(c) || !is_dense_3(c, 1) || !is_dense_3(c, 2) || !c->constant_weights)
        return false;
    if (c->n == 0 || c->c < 8 || c->o < 8 || (c->y[4] != 1 && c->out[2] != 1)) return false;
    return best_m(c) != 0;
}

/* ---- weights ---- */

typedef struct weights_job {
    const winograd_state *s;
    const hn_ext_call *call;
    float *memory;
    double g[6][3];
} weights_job;

/* g: the n x 3 matrix that evaluates a filter at the points, divided by what Lagrange's formula
 * asks for. */
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
static void transform_filters(const winograd_state *s, const hn_ext_call *call, int64_t first,
                              int64_t count, int64_t ch, double g[6][3], float *out) {
    enum { ROWS = 14 };
    const hn_ext_conv *c = &s->base.conv;
    const int64_t rows = c->kernels->tile_rows, point_floats = s->row_tiles * rows * c->c;
    const float *w = hn_ext_conv_weights(c, call);
    double filter[3][3][ROWS], half[6][3][ROWS];
    for (int64_t r = 0; r < count; r++) {
        const float *of = w + (first + r) * c->w[0] + ch * c->w[1],
                    factor = hn_ext_conv_factor(c, call, first + r);
        for (int i = 0; i < 9; i++)
            filter[i / 3][i % 3][r] = (double)(of[i / 3 * c->w[3] + i % 3 * c->w[4]] * factor);
    }
    for (int i = 0; i < s->points; i++)
        for (int j = 0; j < 3; j++)
            for (int64_t r = 0; r < count; r++)
                half[i][j][r] = g[i][0] * filter[0][j][r] + g[i][1] * filter[1][j][r] +
                                g[i][2] * filter[2][j][r];
    for (int i = 0; i < s->points; i++)
        for (int j = 0; j < s->points; j++, out += point_floats)
            for (int64_t r = 0; r < count; r++)
                out[r] = (float)(half[i][0][r] * g[j][0] + half[i][1][r] * g[j][1] +
                                 half[i][2][r] * g[j][2]);
}

static void transform_task(void *context, int rank) {
    weights_job *job = context;
    const winograd_state *s = job->s;
    const hn_ext_conv *c = &s->base.conv;
    const int64_t rows = c->kernels->tile_rows;
    for (int64_t t = s->row_tiles * rank / c->threads; t < s->row_tiles * (rank + 1) / c->threads;
         t++) {
        int64_t first = hn_ext_tile_start(c->o, s->row_tiles, t),
                count = hn_ext_tile_start(c->o, s->row_tiles, t + 1) - first;
        for (int64_t ch = 0; ch < c->c; ch++)
            transform_filters(s, job->call, first, count, ch, job->g,
                              job->memory + (t * c->c + ch) * rows);
    }
}

static void fill_weights(void *user, void *memory) {
    weights_job *job = user;
    const hn_ext_conv *c = &job->s->base.conv;
    job->memory = memory;
    filter_matrix(job->s->m, job->g);
    hn_team_run(job->call->team, c->threads, transform_task, job);
    hn_ext_conv_drop_weights(c, job->call);
}

static hn_status get_weights(hn_ext_call *call, winograd_state *s) {
    const hn_ext_conv *c = &s->base.conv;
    hn_ext_pack_key key = {
        .words = {HN_EXT_PACK_WINOGRAD, (int64_t)(intptr_t)hn_ext_conv_weights(c, call), c->o, c->c,
                  s->m, c->kernels->tile_rows, c->w[0], c->w[1], c->w[3], c->w[4]}};
    hn_ext_conv_put_factor(c, call, &key);
    void *packed = NULL;
    size_t floats =
        (size_t)(s->points * s->points) * (size_t)(s->row_tiles * c->kernels->tile_rows * c->c);
    HN_TRY(hn_ext_pack_get(call, &key, floats * sizeof(float), fill_weights,
                           &(weights_job){.s = s, .call = call}, &packed));
    s->packed = packed;
    return NULL;
}

/* ---- running ---- */

/* Tiles of an image from `first` on, and where a task (or all of them) work on them. */
typedef struct block {
    const winograd_state *s;
    const hn_ext_call *call;
    int64_t n, first, end;
    float *in;    /* [point][c][columns] */
    float *out;   /* [o][point][columns] */
    float *plane; /* one channel's rows with their border, of this task */
} block;

/* Rows [first, first + count) of a channel with its border, whose columns are 0 already. What is
 * `next` floats further will be read next: rows of small images are too short for the processor to
 * see that they follow each other. */
static void copy_rows(const winograd_state *s, const float *x, int64_t first, int64_t count,
                      int64_t next, float *plane) {
    const hn_ext_conv *c = &s->base.conv;
    /* no output may read the rest */
    const int64_t width = hn_ext_min(c->in[2], s->border_row - c->padding[2]);
    for (int64_t i = first - c->padding[1]; i < first - c->padding[1] + count;
         i++, plane += s->border_row) {
        float *to = plane + c->padding[2];
        const float *from = x + i * c->x[3];
        if (i < 0 || i >= c->in[1]) {
            memset(to, 0, (size_t)width * sizeof *to);
        } else if (c->x[4] == 1) {
            for (int64_t j = 0; j < width; j += LINE) __builtin_prefetch(from + next + j, 0, 3);
            hn_ext_conv_copy_row(to, from, width);
        } else {
            for (int64_t j = 0; j < width; j++) to[j] = from[j * c->x[4]];
        }
    }
}

static void transform_channel(const block *b, int64_t ch) {
    const winograd_state *s = b->s;
    const hn_ext_conv *c = &s->base.conv;
    const int64_t m = s->m, row = s->border_row, y = b->first / s->tiles_x;
    copy_rows(
        s, (const float *)b->call->operands[HN_EXT_CONV_INPUT] + b->n * c->x[0] + ch * c->x[1],
        y * m, ((b->end - 1) / s->tiles_x - y + 1) * m + 2, ch + 1 < c->c ? c->x[1] : 0, b->plane);
    hn_ext_winograd_in w = {.m = s->m, .in_row = row, .out_point = s->in_point};
    int64_t x = b->first % s->tiles_x;
    const float *in = b->plane;
    for (int64_t t = b->first; t < b->end; t += w.count) {
        w.in = in + x * m;
        w.out = b->in + ch * s->columns + t - b->first;
        w.count = (int)hn_ext_min(LANES, hn_ext_min(s->tiles_x - x, b->end - t));
        w.room = (int)(s->columns - (t - b->first));
        c->kernels->conv->winograd_in(&w);
        if ((x += w.count) == s->tiles_x) x = 0, in += m * row;
    }
}

/* Whole vectors of a block's tiles: half a panel or a whole one at the end. */
static int64_t columns_of(const hn_ext_kernels *k, int64_t tiles) {
    const int64_t unit = hn_ext_max(LANES, k->tile_cols / 2);
    return hn_ext_ceil_div(tiles, unit) * unit;
}

/* Row tiles [tiles[0], tiles[1]) of one point, for k values; their products begin at `out`. */
static void multiply_step(const block *b, const int64_t tiles[2], const float *weights,
                          const float *in, float *out, int64_t k, bool more) {
    const winograd_state *s = b->s;
    const hn_ext_conv *c = &s->base.conv;
    const int64_t rows = c->kernels->tile_rows, cols = c->kernels->tile_cols,
                  low = c->o / s->row_tiles, tall = c->o % s->row_tiles;
    const int64_t columns = columns_of(c->kernels, b->end - b->first), panels = columns / cols;
    /* a single panel: weights come from memory, and are fetched ahead */
    const bool alone = s->columns == cols;
    hn_ext_column column = {.k = k,
                            .panels = panels,
                            .a_tile = rows * c->c,
                            .b = in,
                            .b_k = s->columns,
                            .c_row = s->out_row,
                            .accumulate = more};
    hn_ext_tile t = {.k = k,
                     .a_row = 1,
                     .a_k = rows,
                     .b_k = s->columns,
                     .c_row = s->out_row,
                     .c_col = 1,
                     .accumulate = more,
                     .prefetch_step = rows};
    for (int64_t i = tiles[0], end; i < tiles[1]; i = end) { /* those of one height */
        end = i < tall ? hn_ext_min(tall, tiles[1]) : tiles[1];
        const int height = (int)(low + (i < tall));
        column.a = weights, column.c = out, column.tiles = end - i, column.rows = height;
        if (!alone) c->kernels->column(&column);
        for (int64_t p = alone ? 0 : panels; p * cols < columns; p++) {
            t.b = in + p * cols;
            t.cols = (int)hn_ext_min(cols, columns - p * cols);
            t.rows = height;
            for (int64_t j = 0; j < end - i; j++) {
                t.a = weights + j * rows * c->c;
                t.prefetch = t.a + rows * c->c;
                t.c = out + j * height * s->out_row + p * cols;
                c->kernels->tile(&t);
            }
        }
        weights += (end - i) * rows * c->c;
        out += (end - i) * height * s->out_row;
    }
}

/* `first`: the output channel whose products begin at b->out. */
static void multiply(const block *b, int64_t point, const int64_t tiles[2], int64_t first) {
    const winograd_state *s = b->s;
    const hn_ext_conv *c = &s->base.conv;
    const int64_t rows = c->kernels->tile_rows, steps = hn_ext_ceil_div(c->c, K_STEP),
                  step = hn_ext_ceil_div(c->c, steps);
    const float *weights = s->packed + (point * s->row_tiles + tiles[0]) * rows * c->c,
                *in = b->in + point * s->in_point;
    float *out = b->out + (hn_ext_tile_start(c->o, s->row_tiles, tiles[0]) - first) * s->out_row +
                 point * s->columns;
    for (int64_t k0 = 0; k0 < c->c; k0 += step)
        multiply_step(b, tiles, weights + k0 * rows, in + k0 * s->columns, out,
                      hn_ext_min(step, c->c - k0), k0 > 0);
}

/* The outputs of a tile that the image has: adds the residual to them, or writes them. */
static void move_tile(const winograd_state *s, int64_t y, int64_t x, float *tile, float *out,
                      const float *residual) {
    const hn_ext_conv *c = &s->base.conv;
    const int64_t m = s->m, height = hn_ext_min(m, c->out[1] - y * m),
                  width = hn_ext_min(m, c->out[2] - x * m);
    if (residual) residual += y * m * c->r[3] + x * m * c->r[4];
    out += y * m * c->y[3] + x * m;
    for (int64_t i = 0; i < height; i++, tile += m, out += c->y[3]) {
        if (residual)
            for (int64_t j = 0; j < width; j++) tile[j] += residual[i * c->r[3] + j * c->r[4]];
        else if (width == 4) memcpy(out, tile, 4 * sizeof *out);
        else
            for (int64_t j = 0; j < width; j++) out[j] = tile[j];
    }
}

static void finish_channel(const block *b, const float *products, int64_t o) {
    const winograd_state *s = b->s;
    const hn_ext_conv *c = &s->base.conv;
    const int64_t floats = s->m * s->m;
    const float *bias =
                    b->call->dtypes[HN_EXT_CONV_BIAS] ? b->call->operands[HN_EXT_CONV_BIAS] : NULL,
                *residual = NULL;
    float *out = (float *)b->call->operands[HN_EXT_CONV_OUT] + b->n * c->y[0] + o * c->y[1];
    if (c->has_residual)
        residual =
            (const float *)b->call->operands[HN_EXT_CONV_RESIDUAL] + b->n * c->r[0] + o * c->r[1];
    float results[LANES * 16] __attribute__((aligned(64)));
    int64_t y = b->first / s->tiles_x, x = b->first % s->tiles_x;
    for (int64_t t = b->first; t < b->end; t += LANES) {
        const int64_t count = hn_ext_min(LANES, b->end - t);
        c->kernels->conv->winograd_out(
            &(hn_ext_winograd_out){.m = s->m,
                                   .in = products + t - b->first,
                                   .in_point = s->columns,
                                   .bias = bias ? bias[o] : 0,
                                   .epilogue = hn_ext_conv_early_epilogue(c),
                                   .out = results});
        if (residual) {
            for (int64_t i = 0; i < count; i++)
                move_tile(s, y + (x + i) / s->tiles_x, (x + i) % s->tiles_x, results + i * floats,
                          out, residual);
            c->kernels->epilogue(c->epilogue, results, count * floats);
        }
        for (int64_t i = 0; i < count; i++) {
            move_tile(s, y, x, results + i * floats, out, NULL);
            if (++x == s->tiles_x) x = 0, y++;
        }
    }
}

/* All of it for one block. */
static void run_block(const block *b) {
    const winograd_state *s = b->s;
    const hn_ext_conv *c = &s->base.conv;
    for (int64_t ch = 0; ch < c->c; ch++) transform_channel(b, ch);
    for (int64_t i = 0; i < s->row_tiles; i += s->group) {
        const int64_t tiles[2] = {i, hn_ext_min(i + s->group, s->row_tiles)};
        const int64_t first = hn_ext_tile_start(c->o, s->row_tiles, tiles[0]),
                      end = hn_ext_tile_start(c->o, s->row_tiles, tiles[1]);
        for (int64_t point = 0; point < s->points * s->points; point++)
            multiply(b, point, tiles, first);
        for (int64_t o = first; o < end; o++)
            finish_channel(b, b->out + (o - first) * s->out_row, o);
    }
}

static int64_t blocks_of_image(const winograd_state *s) {
    return s->by_image ? 1 : s->blocks * s->base.conv.threads;
}

/* The tiles of block `i` of an image: each task's are neighbours, and all of them but its last have
 * whole panels. */
static void block_at(const winograd_state *s, int64_t i, block *out) {
    const hn_ext_conv *c = &s->base.conv;
    const int64_t rank = i / s->blocks, part = i % s->blocks, cols = c->kernels->tile_cols;
    if (s->by_image) return; /* all of its tiles, as the block has */
    const int64_t first = s->tiles * rank / c->threads, end = s->tiles * (rank + 1) / c->threads,
                  panels = hn_ext_ceil_div(end - first, cols);
    out->first = first + panels * part / s->blocks * cols;
    out->end = hn_ext_min(end, first + panels * (part + 1) / s->blocks * cols);
}

/* Part of the weights that this task will multiply with: `part` of `parts` of as many as L2 has
 * room for. */
static void fetch_weights(const winograd_state *s, int64_t part, int64_t parts, int rank,
                          int size) {
    const hn_ext_conv *c = &s->base.conv;
    const int64_t all = s->points * s->points * s->row_tiles * c->kernels->tile_rows * c->c,
                  most = hn_ext_min(all / size, AHEAD_FLOATS);
    const float *from = s->packed + all / size * rank;
    for (int64_t i = most * part / parts; i < most * (part + 1) / parts; i += LINE)
        __builtin_prefetch(from + i, 0, 2);
}

/* A run; what its tasks have in common. */
typedef struct job {
    const winograd_state *s;
    const hn_ext_call *call;
    hn_ext_share *shares; /* of the tasks: blocks, or inputs, products and outputs */
    float *memory;
    int64_t n, parts; /* the image; of the products of a point, where tasks share each step */
} job;

static block block_of(const job *j, int rank) {
    const winograd_state *s = j->s;
    const int64_t own = s->blocks ? rank : 0, floats = s->in_floats + s->out_floats;
    block b = {.s = s, .call = j->call, .n = j->n, .end = s->tiles, .in = j->memory + own * floats};
    b.out = b.in + s->in_floats;
    b.plane = j->memory + (s->blocks ? s->base.conv.threads : 1) * floats + rank * s->plane_floats;
    return b;
}

/* The border of a plane is 0, and is never written. */
static void clear_plane(const block *b) {
    memset(b->plane, 0, (size_t)b->s->plane_floats * sizeof *b->plane);
}

static void blocks_task(void *context, int rank) {
    const job *j = context;
    const winograd_state *s = j->s;
    const int size = s->base.conv.threads;
    const int64_t all = blocks_of_image(s);
    block b = block_of(j, rank);
    int64_t i = hn_ext_share_next(j->shares, rank, size);
    if (i >= 0) clear_plane(&b);
    for (; i >= 0; i = hn_ext_share_next(j->shares, rank, size)) {
        b.n = i / all;
        block_at(s, i % all, &b);
        run_block(&b);
    }
}

static void inputs_task(void *context, int rank) {
    const job *j = context;
    const hn_ext_conv *c = &j->s->base.conv;
    const int64_t size = c->threads, groups = hn_ext_ceil_div(c->c, CHANNEL_GROUP);
    const block b = block_of(j, rank);
    int64_t done = 0;
    for (int64_t i; (i = hn_ext_share_next(j->shares, rank, c->threads)) >= 0; done++) {
        if (done == 0 && c->n == 1) clear_plane(&b);
        if (done * size < groups)
            fetch_weights(j->s, done, hn_ext_ceil_div(groups, size), rank, c->threads);
        for (int64_t ch = i * CHANNEL_GROUP; ch < hn_ext_min((i + 1) * CHANNEL_GROUP, c->c); ch++)
            transform_channel(&b, ch);
    }
}

static void products_task(void *context, int rank) {
    const job *j = context;
    const winograd_state *s = j->s;
    const int size = s->base.conv.threads;
    const block b = block_of(j, rank);
    for (int64_t i; (i = hn_ext_share_next(j->shares + size, rank, size)) >= 0;) {
        const int64_t part = i % j->parts;
        multiply(&b, i / j->parts,
                 (int64_t[]){s->row_tiles * part / j->parts, s->row_tiles * (part + 1) / j->parts},
                 0);
    }
}

static void outputs_task(void *context, int rank) {
    const job *j = context;
    const hn_ext_conv *c = &j->s->base.conv;
    const block b = block_of(j, rank);
    for (int64_t i; (i = hn_ext_share_next(j->shares + 2 * c->threads, rank, c->threads)) >= 0;)
        for (int64_t o = i * CHANNEL_GROUP; o < hn_ext_min((i + 1) * CHANNEL_GROUP, c->o); o++)
            finish_channel(&b, b.out + o * j->s->out_row, o);
}

/* The steps of one image, each by all tasks. */
static void run_image(job *j) {
    const winograd_state *s = j->s;
    const hn_ext_conv *c = &s->base.conv;
    const int size = c->threads;
    for (int rank = 0; rank < size; rank++) {
        hn_ext_share_set(j->shares, rank, size, hn_ext_ceil_div(c->c, CHANNEL_GROUP));
        hn_ext_share_set(j->shares + size, rank, size, s->points * s->points * j->parts);
        hn_ext_share_set(j->shares + 2 * size, rank, size, hn_ext_ceil_div(c->o, CHANNEL_GROUP));
    }
    hn_team_run(j->call->team, size, inputs_task, j);
    hn_team_run(j->call->team, size, products_task, j);
    hn_team_run(j->call->team, size, outputs_task, j);
}

static void winograd_run(const hn_ext_call *call, void *scratch) {
    const winograd_state *s = call->state;
    const hn_ext_conv *c = &s->base.conv;
    const int64_t points = s->points * s->points;
    const int size = c->threads;
    job j = {.s = s,
             .call = call,
             .shares = scratch,
             .memory = (float *)((hn_ext_share *)scratch + 3 * size)};
    if (s->blocks) {
        for (int rank = 0; rank < size; rank++)
            hn_ext_share_set(j.shares, rank, size, c->n * blocks_of_image(s));
        hn_team_run(call->team, size, blocks_task, &j);
        return;
    }
    j.parts =
        size == 1 ? 1 : hn_ext_min(s->row_tiles, hn_ext_ceil_div(size * TASKS_PER_THREAD, points));
    for (int rank = 0; c->n > 1 && rank < size; rank++) {
        const block b = block_of(&j, rank);
        clear_plane(&b);
    }
    for (; j.n < c->n; j.n++) run_image(&j);
}

/* ---- planning ---- */

static void plan_blocks(winograd_state *s) {
    const hn_ext_conv *c = &s->base.conv;
    const int64_t points = s->points * s->points, cols = c->kernels->tile_cols,
                  share = hn_ext_ceil_div(s->tiles, c->threads);
    const int64_t blocks = hn_ext_ceil_div(share * points * c->c, BLOCK_FLOATS),
                  panels = hn_ext_ceil_div(share, cols);
    const bool full =
        16 * c->threads * columns_of(c->kernels, share) <= 17 * columns_of(c->kernels, s->tiles);
    s->columns = columns_of(c->kernels, s->tiles);
    s->group = s->row_tiles;
    const bool images =
        c->threads > 1 && c->n >= c->threads && (c->n % c->threads == 0 || c->n >= 4 * c->threads);
    if ((full || images) && points * c->o * c->c <= BLOCK_WEIGHTS) {
        s->by_image = !full;
        s->blocks = full ? hn_ext_min(blocks, panels) : 1;
        if (full) s->columns = hn_ext_ceil_div(panels, s->blocks) * cols;
        s->group = hn_ext_min(
            s->row_tiles,
            hn_ext_max(1, BLOCK_PRODUCTS / (points * s->columns * c->kernels->tile_rows)));
    }
    /* Points and rows that are a multiple of 4 KB apart would share a few lines of L1. */
    s->in_point = c->c * s->columns + 16;
    s->out_row = points * s->columns + 16;
    s->in_floats = points * s->in_point;
    s->out_floats = (s->blocks ? s->group * c->kernels->tile_rows : c->o) * s->out_row;
}

hn_status hn_ext_conv_winograd_prepare(hn_ext_call *call, const hn_ext_conv *c) {
    winograd_state *s = calloc(1, sizeof *s);
    if (!s) return HN_ERROR(HN_OUT_OF_MEMORY, "no memory for a convolution");
    s->base = (hn_ext_conv_state){.run = winograd_run, .conv = *c};
    s->m = best_m(c);
    s->points = s->m + 2;
    s->tiles_y = hn_ext_ceil_div(c->out[1], s->m);
    s->tiles_x = hn_ext_ceil_div(c->out[2], s->m);
    s->tiles = s->tiles_y * s->tiles_x;
    s->row_tiles = hn_ext_ceil_div(c->o, c->kernels->tile_rows);
    plan_blocks(s);
    const int64_t slack = LANES * 4 + 16;
    s->border_row = s->tiles_x * s->m + 2;
    s->plane_floats = hn_ext_ceil_div((s->tiles_y * s->m + 2) * s->border_row + slack, 16) * 16;
    if (c->n * hn_ext_max(1, s->blocks * c->threads) > HN_EXT_SHARE_MAX) {
        free(s);
        return HN_ERROR(HN_UNSUPPORTED, "too many parts of a convolution");
    }
    hn_status status = get_weights(call, s);
    if (status) {
        free(s);
        return status;
    }
    call->state = s;
    call->scratch_bytes = 3 * (size_t)c->threads * sizeof(hn_ext_share) +
                          (size_t)((s->blocks ? c->threads : 1) * (s->in_floats + s->out_floats) +
                                   c->threads * s->plane_floats) *
                              sizeof(float);
    return NULL;
}
