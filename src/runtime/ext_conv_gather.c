/* ext_conv_gather.c: convolutions of any kind as matrix products, out[o, position] = w[o, k] in[k, position], where k counts
 * channels and kernel positions ("taps"). Panels of 16 or 32 positions are collected from the input while they are needed.
 *
 * A convolution is a sum of phases. A phase is a regular grid of outputs that all read their inputs at the same
 * offsets: one phase for a convolution; for a transposed one of stride s, s phases along each dimension, each with the taps
 * that meet its outputs. So nothing is multiplied by the zeros that a stride inserts. */
#include "runtime/ext_conv.h"

#include "henry/tensor.h"
#include "runtime/ext_pack_cache.h"
#include "runtime/ext_share.h"

#include <omp.h>
#include <stdlib.h>
#include <string.h>

enum {
    K_STEP = 256,
    DIRECT_K = 256,       /* rows of a panel that stay in L1 where they are, pages apart */
    MANY_OUTPUTS = 512,   /* from here on half as many rows: each may be two lines of L1, and collecting them once costs 1 % */
    CHUNK_PANELS = 8,     /* x K_STEP x 16 floats: 128 KB of L2 */
    A_GROUP_TILES = 32,   /* x K_STEP x 6 floats: 192 KB of L2 */
    TASKS_PER_THREAD = 4,
    BLOCK_FLOATS = 5 << 10, /* of direct panels side by side: 20 KB of L1 */
    WHOLE_POSITIONS = 1024,
    SHARED_FLOATS = 4 << 20, /* 16 MB, as much as the weights of such a layer */
    SLACK = 64            /* floats that may be read or overwritten beyond a buffer */
};

/* Along one dimension. */
typedef struct axis {
    int64_t out_first, out_step, out_count; /* outputs of the phase */
    int64_t tap_first, tap_step, tap_count; /* kernel positions */
    int64_t in_first, in_step;              /* input of output 0 and tap 0 (in the bordered input); from output to output */
    int64_t tap_in;                         /* from tap to tap */
} axis;

typedef struct phase {
    axis axes[3];
    int64_t k, positions;
    int64_t weights; /* floats before its packed weights */
    int64_t *taps;   /* input offset of each; in the state's memory */
    int64_t tap_count, origin, panels, chunks;
} phase;

typedef struct gather_state {
    hn_ext_conv_state base;
    hn_ext_border border;
    bool copies;       /* the input gets a border (or contiguous rows) first */
    bool direct;       /* panels are read where they are */
    bool by_outputs;   /* threads share the output channels rather than the positions */
    bool staged;       /* outputs (or residuals) of a panel are not contiguous: computed aside */
    int64_t spatial[3]; /* strides of the input as it is read */
    int64_t channel;    /* likewise */
    int64_t weights_floats, copy_floats, chunk_floats, stage_floats;
    int64_t shared_floats; /* not 0: panels of all k are collected once, before the threads share the output channels */
    int64_t o_blocks, task_count;
    int64_t group_rows, tiles, low, tall; /* output channels and row tiles of a group; `tall` tiles have low + 1 rows, the others low */
    const float *packed; /* NULL: weights are packed in each run */
    int64_t phase_count;
    phase phases[];
} gather_state;

/* ---- planning ---- */

/* Which taps the outputs first, first + step ... of dimension d meet, and where their inputs are (without border). */
static axis axis_of(const hn_ext_conv *c, int d, int64_t first) {
    const int64_t s = c->stride[d];
    if (!c->transposed)
        return (axis){.out_step = 1, .out_count = c->out[d], .tap_step = 1, .tap_count = c->kernel[d], .in_first = -c->padding[d],
                      .in_step = s, .tap_in = c->dilation[d]};
    axis a = {.out_first = first, .out_step = s, .in_step = 1};
    a.out_count = first < c->out[d] ? (c->out[d] - first - 1) / s + 1 : 0;
    for (int64_t k = 0; k < c->kernel[d] && k < 2 * s; k++) {
        int64_t spread = first + c->padding[d] - k * c->dilation[d];
        if (spread % s != 0) continue;
        if (a.tap_count == 0)
            a.tap_first = k, a.in_first = spread / s;
        else
            a.tap_step = k - a.tap_first, a.tap_in = spread / s - a.in_first;
        if (++a.tap_count == 2) break;
    }
    if (a.tap_count == 2) a.tap_count = (c->kernel[d] - 1 - a.tap_first) / a.tap_step + 1;
    return a;
}

static int64_t phases_along(const hn_ext_conv *c, int d) { return c->transposed ? hn_ext_min(c->stride[d], c->out[d]) : 1; }

/* The range of inputs that all phases read decides the border. */
static void plan_border(gather_state *s) {
    const hn_ext_conv *c = &s->base.conv;
    bool needed = c->x[4] != 1 && c->in[2] > 1;
    for (int d = 0; d < 3; d++) {
        int64_t low = 0, high = c->in[d] - 1;
        for (int64_t i = 0; i < s->phase_count; i++) {
            const axis *a = &s->phases[i].axes[d];
            if (a->tap_count == 0 || a->out_count == 0) continue;
            int64_t last_tap = (a->tap_count - 1) * a->tap_in, last_out = (a->out_count - 1) * a->in_step;
            low = hn_ext_min(low, a->in_first + hn_ext_min(last_tap, 0));
            high = hn_ext_max(high, a->in_first + hn_ext_max(last_tap, 0) + last_out);
        }
        s->border.before[d] = -low;
        s->border.size[d] = high - low + 1;
        needed |= low < 0 || high >= c->in[d];
    }
    s->copies = needed;
    const int64_t *size = s->border.size;
    if (needed) {
        s->spatial[0] = size[1] * size[2], s->spatial[1] = size[2], s->spatial[2] = 1;
        s->channel = size[0] * size[1] * size[2];
        s->copy_floats = c->c * s->channel + SLACK;
    } else {
        for (int d = 0; d < 3; d++) s->spatial[d] = c->x[2 + d];
        s->spatial[2] = 1;
        s->channel = c->x[1];
        for (int d = 0; d < 3; d++) s->border.before[d] = 0;
    }
}

static void plan_taps(gather_state *s, phase *p, int64_t *memory) {
    const axis *a = p->axes;
    p->taps = memory;
    p->origin = 0;
    for (int d = 0; d < 3; d++) p->origin += (a[d].in_first + s->border.before[d]) * s->spatial[d];
    int64_t count = 0;
    for (int64_t i = 0; i < a[0].tap_count; i++)
        for (int64_t j = 0; j < a[1].tap_count; j++)
            for (int64_t k = 0; k < a[2].tap_count; k++)
                p->taps[count++] = p->origin + i * a[0].tap_in * s->spatial[0] + j * a[1].tap_in * s->spatial[1] +
                                   k * a[2].tap_in * s->spatial[2];
}

static int64_t tiles_of(const hn_ext_conv *c) { return hn_ext_ceil_div(c->o / c->groups, c->kernels->tile_rows); }

static void plan_phases(gather_state *s) {
    const hn_ext_conv *c = &s->base.conv;
    const int64_t n1 = phases_along(c, 1), n2 = phases_along(c, 2);
    for (int64_t i = 0; i < s->phase_count; i++) {
        phase *p = &s->phases[i];
        p->axes[0] = axis_of(c, 0, i / (n1 * n2));
        p->axes[1] = axis_of(c, 1, i / n2 % n1);
        p->axes[2] = axis_of(c, 2, i % n2);
        p->tap_count = p->axes[0].tap_count * p->axes[1].tap_count * p->axes[2].tap_count;
        p->positions = p->axes[0].out_count * p->axes[1].out_count * p->axes[2].out_count;
        p->k = p->tap_count * (c->c / c->groups);
        p->weights = s->weights_floats;
        s->weights_floats += c->groups * tiles_of(c) * c->kernels->tile_rows * p->k;
    }
}

/* Chunks of positions, and blocks of output channels, so that every thread gets several; what is larger is split first. */
static void plan_tasks(gather_state *s) {
    const hn_ext_conv *c = &s->base.conv;
    const int64_t cols = c->kernels->tile_cols, tiles = tiles_of(c);
    int64_t chunks = 0, panels = 0;
    for (int64_t i = 0; i < s->phase_count; i++) {
        phase *p = &s->phases[i];
        p->panels = hn_ext_ceil_div(p->positions, cols);
        p->chunks = hn_ext_ceil_div(p->panels, CHUNK_PANELS);
        if (p->chunks >= c->threads) p->chunks = hn_ext_ceil_div(p->chunks, c->threads) * c->threads; /* the same positions in each step */
        chunks += p->chunks, panels += p->panels;
    }
    const int64_t wanted = c->threads > 1 ? (int64_t)c->threads * TASKS_PER_THREAD : 1;
    bool weights_first = s->weights_floats > panels * cols * c->c;
    /* Small planes belong to a thread as a whole (depthwise); so do outputs where few channels become many. */
    const phase *first = &s->phases[0];
    s->by_outputs = s->phase_count == 1 && c->groups == 1 && first->tap_count == 1 && first->k <= DIRECT_K && c->o >= 2 * c->c &&
                    first->positions <= WHOLE_POSITIONS && !c->has_scale && tiles >= c->threads;
    s->o_blocks = s->by_outputs ? c->threads : 1;
    while (chunks * c->groups * s->o_blocks < wanted) {
        if (tiles / s->o_blocks >= 8 && (weights_first || chunks >= panels)) {
            s->o_blocks *= 2;
        } else if (chunks < panels) {
            chunks = 0;
            for (int64_t i = 0; i < s->phase_count; i++) {
                phase *p = &s->phases[i];
                p->chunks = hn_ext_min(p->panels, p->chunks * 2);
                chunks += p->chunks;
            }
        } else {
            break;
        }
    }
    s->task_count = chunks * c->groups * s->o_blocks;
}

static bool is_contiguous(const hn_ext_conv *c, const int64_t y[5]) {
    return (y[4] == 1 || c->out[2] == 1) && (y[3] == c->out[2] || c->out[1] == 1) && (y[2] == c->out[1] * c->out[2] || c->out[0] == 1);
}

/* Whether its inputs are the rows of a matrix. */
static bool is_flat(const phase *p) {
    return p->tap_count == 1 && p->axes[0].out_count == 1 && p->axes[1].out_count == 1 && p->axes[2].in_step == 1;
}

static void plan_scratch(gather_state *s) {
    const hn_ext_conv *c = &s->base.conv;
    const int64_t cols = c->kernels->tile_cols, most = tiles_of(c) * c->kernels->tile_rows;
    s->group_rows = c->o / c->groups, s->tiles = tiles_of(c);
    s->low = s->group_rows / s->tiles, s->tall = s->group_rows % s->tiles;
    s->staged = s->phase_count > 1 || !is_contiguous(c, c->y) || (c->has_residual && !is_contiguous(c, c->r));
    const phase *p = &s->phases[0];
    s->direct = s->phase_count == 1 && is_flat(p) && !s->copies && !s->staged && !c->has_scale && p->k > 0 &&
                p->k <= (c->o < MANY_OUTPUTS ? DIRECT_K : DIRECT_K / 2);
    if (s->o_blocks > 1 && !s->direct && s->phase_count == 1 && c->groups == 1 && p->k > 0) {
        const int64_t steps = hn_ext_ceil_div(p->k, K_STEP);
        s->shared_floats = p->panels * (p->k + steps) * cols + SLACK;
        if (s->shared_floats > SHARED_FLOATS) s->shared_floats = 0;
    }
    s->chunk_floats = CHUNK_PANELS * (K_STEP + 1) * cols + SLACK;
    s->stage_floats = s->staged ? most * CHUNK_PANELS * cols : 0;
}

/* ---- weights ---- */

typedef struct weights_job {
    const gather_state *s;
    const hn_ext_call *call;
} weights_job;

/* The weights of one row tile: [k][tile_rows]. */
static void pack_tile(const gather_state *s, const phase *p, const float *w, int64_t group, int64_t tile, float *out) {
    const hn_ext_conv *c = &s->base.conv;
    const int64_t rows = c->kernels->tile_rows, og = c->o / c->groups, cg = c->c / c->groups, tiles = tiles_of(c);
    const int64_t first = hn_ext_tile_start(og, tiles, tile), count = hn_ext_tile_start(og, tiles, tile + 1) - first;
    const axis *a = p->axes;
    const int64_t o_stride = c->w[c->transposed ? 1 : 0], c_stride = c->w[c->transposed ? 0 : 1];
    w += c->transposed ? group * cg * c_stride + first * o_stride : (group * og + first) * o_stride;
    bool plain = !c->transposed && c->w[4] == 1 && c->w[3] == c->kernel[2] && c->w[2] == c->kernel[1] * c->kernel[2] &&
                 c_stride == p->tap_count;
    if (plain) {
        c->kernels->pack(&(hn_ext_pack){.in = w, .in_k = 1, .in_col = o_stride, .k = p->k, .cols = count, .width = rows, .out = out,
                                        .out_panel = rows * p->k});
        return;
    }
    for (int64_t ch = 0; ch < cg; ch++)
        for (int64_t i = 0; i < a[0].tap_count; i++)
            for (int64_t j = 0; j < a[1].tap_count; j++)
                for (int64_t k = 0; k < a[2].tap_count; k++, out += rows)
                    for (int64_t r = 0; r < count; r++)
                        out[r] = w[ch * c_stride + r * o_stride + (a[0].tap_first + i * a[0].tap_step) * c->w[2] +
                                   (a[1].tap_first + j * a[1].tap_step) * c->w[3] + (a[2].tap_first + k * a[2].tap_step) * c->w[4]];
}

/* Its rows times the factors of their channels. */
static void scale_tile(const gather_state *s, const phase *p, const hn_ext_call *call, int64_t group, int64_t tile, float *out) {
    const hn_ext_conv *c = &s->base.conv;
    const int64_t rows = c->kernels->tile_rows, og = c->o / c->groups, tiles = tiles_of(c);
    const int64_t first = hn_ext_tile_start(og, tiles, tile), count = hn_ext_tile_start(og, tiles, tile + 1) - first;
    for (int64_t r = 0; r < count; r++) {
        const float factor = hn_ext_conv_factor(c, call, group * og + first + r);
        for (int64_t k = 0; k < p->k; k++) out[k * rows + r] *= factor;
    }
}

static void pack_weights(const gather_state *s, const hn_ext_call *call, float *out, int64_t part, int64_t parts) {
    const hn_ext_conv *c = &s->base.conv;
    const float *w = call->operands[HN_EXT_CONV_WEIGHTS];
    const int64_t tiles = tiles_of(c), per_phase = c->groups * tiles, all = s->phase_count * per_phase;
    for (int64_t i = all * part / parts; i < all * (part + 1) / parts; i++) {
        const phase *p = &s->phases[i / per_phase];
        int64_t t = i % per_phase;
        float *to = out + p->weights + t * c->kernels->tile_rows * p->k;
        pack_tile(s, p, w, t / tiles, t % tiles, to);
        if (c->has_factor) scale_tile(s, p, call, t / tiles, t % tiles, to);
    }
}

static void fill_weights(void *user, void *memory) {
    const weights_job *job = user;
    const int threads = job->s->base.conv.threads;
#pragma omp parallel for num_threads(threads) schedule(static) if (threads > 1)
    for (int i = 0; i < threads; i++) pack_weights(job->s, job->call, memory, i, threads);
    hn_ext_conv_drop_weights(&job->s->base.conv, job->call);
}

static hn_status get_weights(hn_ext_call *call, gather_state *s) {
    const hn_ext_conv *c = &s->base.conv;
    hn_ext_pack_key key = {.words = {HN_EXT_PACK_CONV_ROWS, (int64_t)(intptr_t)call->operands[HN_EXT_CONV_WEIGHTS], c->o, c->c,
                                     c->groups, c->kernels->tile_rows, c->transposed}};
    int at = 7;
    for (int d = 0; d < 5; d++) key.words[at++] = c->w[d];
    for (int d = 0; d < 3; d++) {
        key.words[at++] = c->kernel[d];
        if (!c->transposed) continue; /* the phases do not depend on the rest */
        key.words[at++] = c->stride[d];
        key.words[at++] = c->padding[d] % c->stride[d];
        key.words[at++] = hn_ext_min(c->out[d], c->stride[d]) << 32 | c->dilation[d] % c->stride[d];
    }
    hn_ext_conv_put_factor(c, call, &key);
    void *packed = NULL;
    HN_TRY(hn_ext_pack_get(call, &key, (size_t)s->weights_floats * sizeof(float), fill_weights,
                           &(weights_job){.s = s, .call = call}, &packed));
    s->packed = packed;
    return NULL;
}

/* ---- running ---- */

/* What a thread works with. */
typedef struct worker {
    const gather_state *s;
    const float *weights, *x, *in_end, *bias; /* x: of the image, as it is read */
    const float *residual, *scale;            /* of the image; NULL: none */
    float *out, *chunk, *stage;
    float *shared; /* NULL: each task collects its own panels */
} worker;

typedef struct task {
    const phase *p;
    int64_t group, panels[2], tiles[2];
} task;

/* The runs of the task's panels, which are panel_floats apart. */
static int find_runs(const gather_state *s, const task *t, int64_t panel_floats, hn_ext_stretch *runs) {
    const axis *a = t->p->axes;
    const int64_t cols = s->base.conv.kernels->tile_cols, end = hn_ext_min(t->panels[1] * cols, t->p->positions);
    int count = 0;
    for (int64_t at = t->panels[0] * cols; at < end;) {
        int64_t i2 = at % a[2].out_count, rest = at / a[2].out_count, i1 = rest % a[1].out_count, i0 = rest / a[1].out_count;
        int64_t length = hn_ext_min(a[2].out_count - i2, hn_ext_min(end - at, cols - at % cols));
        runs[count++] = (hn_ext_stretch){
            .from = i0 * a[0].in_step * s->spatial[0] + i1 * a[1].in_step * s->spatial[1] + i2 * a[2].in_step,
            .to = (at / cols - t->panels[0]) * panel_floats + at % cols, .count = length};
        at += length;
    }
    return count;
}

/* Rows k0 .. of the task's panels times the scale of their channels. */
static void scale_panels(const worker *w, const task *t, int64_t k0, int64_t k, const float *scale) {
    const hn_ext_conv *c = &w->s->base.conv;
    const int64_t cols = c->kernels->tile_cols, panel_floats = (k + 1) * cols;
    for (int64_t p = 0; p < t->panels[1] - t->panels[0]; p++)
        for (int64_t i = 0; i < k; i++) {
            const float factor = scale[(k0 + i) / t->p->tap_count * c->scale[1]];
            float *row = w->chunk + p * panel_floats + i * cols;
            for (int64_t j = 0; j < cols; j++) row[j] *= factor;
        }
}

static void gather_panels(const worker *w, const task *t, int64_t k0, int64_t k) {
    const gather_state *s = w->s;
    const hn_ext_conv *c = &s->base.conv;
    const int64_t cols = c->kernels->tile_cols;
    const int64_t channel = t->group * (c->c / c->groups);
    const float *in = w->x + channel * s->channel, *scale = w->scale ? w->scale + channel * c->scale[1] : NULL;
    if (is_flat(t->p)) {
        int64_t first = t->panels[0] * cols, end = hn_ext_min(t->panels[1] * cols, t->p->positions);
        c->kernels->pack(&(hn_ext_pack){.in = in + t->p->taps[0] + first + k0 * s->channel, .in_k = s->channel, .in_col = 1, .k = k,
                                        .cols = end - first, .width = cols, .out = w->chunk, .out_panel = (k + 1) * cols,
                                        .scale = scale ? scale + k0 * c->scale[1] : NULL, .scale_k = c->scale[1]});
        return;
    }
    hn_ext_stretch runs[CHUNK_PANELS * 2 * HN_EXT_MAX_LANES];
    hn_ext_gather g = {.in = in, .in_end = w->in_end, .in_channel = s->channel, .taps = t->p->taps, .tap_count = t->p->tap_count,
                       .k_first = k0, .k = k, .step = t->p->axes[2].in_step, .runs = runs,
                       .run_count = find_runs(s, t, (k + 1) * cols, runs), .out = w->chunk};
    c->kernels->gather(&g);
    if (scale) scale_panels(w, t, k0, k, scale);
}

/* Rows of panels, b_k floats apart. */
typedef struct panel_rows {
    const float *b;
    int64_t b_k, panels; /* side by side */
} panel_rows;

/* Tiles [tiles[0], tiles[1]) of whole panels from `panel` on. */
static void multiply_column(const worker *w, const task *t, const int64_t tiles[2], int64_t panel, int64_t k0, int64_t k, const panel_rows *of) {
    const gather_state *s = w->s;
    const hn_ext_conv *c = &s->base.conv;
    const phase *ph = t->p;
    const int64_t height = c->kernels->tile_rows, cols = c->kernels->tile_cols, og = s->group_rows, all = s->tiles, tall = s->tall;
    const bool last = k0 + k == ph->k;
    hn_ext_column column = {.k = k, .panels = of->panels, .a_tile = height * ph->k, .b = of->b, .b_k = of->b_k, .c_row = c->y[1], .residual_row = c->r[1],
                            .accumulate = k0 > 0, .epilogue = last ? c->epilogue : HN_EPILOGUE_NONE};
    for (int64_t i = tiles[0], end; i < tiles[1]; i = end) { /* those of one height */
        end = i < tall ? hn_ext_min(tall, tiles[1]) : tiles[1];
        const int64_t o = t->group * og + i * s->low + hn_ext_min(i, tall);
        column.tiles = end - i;
        column.rows = (int)(s->low + (i < tall));
        column.a = w->weights + ph->weights + (t->group * all + i) * height * ph->k + k0 * height;
        column.c = w->out + o * c->y[1] + panel * cols;
        if (last && w->bias) column.bias = w->bias + o;
        if (last && w->residual) column.residual = w->residual + o * c->r[1] + panel * cols;
        c->kernels->column(&column);
    }
}

static void multiply(const worker *w, const task *t, const int64_t tiles[2], int64_t k0, int64_t k) {
    const gather_state *s = w->s;
    const hn_ext_conv *c = &s->base.conv;
    const phase *ph = t->p;
    const int64_t height = c->kernels->tile_rows, cols = c->kernels->tile_cols, og = c->o / c->groups, all = tiles_of(c);
    const float *weights = w->weights + ph->weights + t->group * all * height * ph->k + k0 * height;
    const bool last = k0 + k == ph->k;
    hn_ext_tile tile = {.k = k, .a_row = 1, .a_k = height, .b_k = cols, .c_row = c->y[1], .c_col = 1, .bias_row = 1,
                        .residual_row = c->r[1], .residual_col = 1,
                        .accumulate = k0 > 0 || (s->staged && w->residual), .epilogue = last ? c->epilogue : HN_EPILOGUE_NONE};
    const int64_t stage_row = (t->panels[1] - t->panels[0]) * cols;
    if (s->staged) tile.c_row = stage_row;
    for (int64_t p = t->panels[0]; p < t->panels[1]; p++) {
        tile.b = w->chunk + (p - t->panels[0]) * (k + 1) * cols;
        tile.cols = (int)hn_ext_min(cols, ph->positions - p * cols);
        if (!s->staged && tile.cols == cols) {
            multiply_column(w, t, tiles, p, k0, k, &(panel_rows){.b = tile.b, .b_k = cols, .panels = 1});
            continue;
        }
        for (int64_t i = tiles[0]; i < tiles[1]; i++) {
            int64_t first = hn_ext_tile_start(og, all, i), o = t->group * og + first;
            tile.rows = (int)(hn_ext_tile_start(og, all, i + 1) - first);
            tile.a = weights + i * height * ph->k;
            tile.c = s->staged ? w->stage + (first - hn_ext_tile_start(og, all, t->tiles[0])) * stage_row + (p - t->panels[0]) * cols
                               : w->out + o * c->y[1] + p * cols;
            tile.bias = last && w->bias ? w->bias + o : NULL;
            tile.residual = last && w->residual && !s->staged ? w->residual + o * c->r[1] + p * cols : NULL;
            tile.prefetch = tile.a;
            c->kernels->tile(&tile);
        }
    }
}

/* From aside to `out`, or, without it, the residuals that sums begin with to aside. Strides: of either tensor. */
static void move_stage(const worker *w, const task *t, float *out, const float *residual, const int64_t strides[5]) {
    const gather_state *s = w->s;
    const hn_ext_conv *c = &s->base.conv;
    const axis *a = t->p->axes;
    const int64_t cols = c->kernels->tile_cols, og = c->o / c->groups, all = tiles_of(c);
    const int64_t begin = t->panels[0] * cols, end = hn_ext_min(t->panels[1] * cols, t->p->positions), row = (t->panels[1] - t->panels[0]) * cols;
    const int64_t first = hn_ext_tile_start(og, all, t->tiles[0]), count = hn_ext_tile_start(og, all, t->tiles[1]) - first;
    const int64_t origin = (t->group * og + first) * strides[1];
    for (int64_t at = begin; at < end; at++) {
        int64_t i2 = at % a[2].out_count, rest = at / a[2].out_count, i1 = rest % a[1].out_count, i0 = rest / a[1].out_count;
        int64_t to = origin + (a[0].out_first + i0 * a[0].out_step) * strides[2] + (a[1].out_first + i1 * a[1].out_step) * strides[3] +
                     (a[2].out_first + i2 * a[2].out_step) * strides[4];
        float *stage = w->stage + at - begin;
        if (out)
            for (int64_t o = 0; o < count; o++) out[to + o * strides[1]] = stage[o * row];
        else
            for (int64_t o = 0; o < count; o++) stage[o * row] = residual[to + o * strides[1]];
    }
}

/* How many k are collected and multiplied at once. */
static int64_t k_step_of(const phase *p) { return hn_ext_ceil_div(p->k, hn_ext_max(1, hn_ext_ceil_div(p->k, K_STEP))); }

/* Where panel 0 of the step at k0 is among those that all threads share. */
static float *shared_panels(const gather_state *s, float *shared, int64_t k0) {
    const phase *p = &s->phases[0];
    return shared + p->panels * (k0 + k0 / k_step_of(p)) * s->base.conv.kernels->tile_cols;
}

/* This thread's part of them. */
static void collect_shared(const worker *w, float *shared, int rank, int size) {
    const phase *p = &w->s->phases[0];
    const int64_t step = k_step_of(p), cols = w->s->base.conv.kernels->tile_cols;
    const int64_t chunks = hn_ext_ceil_div(p->panels, CHUNK_PANELS);
    int64_t item = 0;
    for (int64_t k0 = 0; k0 < p->k; k0 += step)
        for (int64_t chunk = 0; chunk < chunks; chunk++, item++) {
            if (item % size != rank) continue;
            worker own = *w;
            const int64_t k = hn_ext_min(step, p->k - k0), first = p->panels * chunk / chunks;
            own.chunk = shared_panels(w->s, shared, k0) + first * (k + 1) * cols;
            gather_panels(&own, &(task){.p = p, .panels = {first, p->panels * (chunk + 1) / chunks}}, k0, k);
        }
}

/* Whole panels where they are in the input; as many weights at once as L2 keeps. Returns the first panel that is left. */
static int64_t run_direct(const worker *w, const task *t) {
    const gather_state *s = w->s;
    const int64_t cols = s->base.conv.kernels->tile_cols, k = t->p->k, end = hn_ext_min(t->panels[1], t->p->positions / cols);
    const int64_t step = A_GROUP_TILES * K_STEP / k, block = hn_ext_max(1, BLOCK_FLOATS / (k * cols));
    const float *x = w->x + t->p->taps[0] + t->group * k * s->channel;
    for (int64_t i = t->tiles[0]; i < t->tiles[1]; i += step)
        for (int64_t p = t->panels[0]; p < end; p += block)
            multiply_column(w, t, (int64_t[]){i, hn_ext_min(i + step, t->tiles[1])}, p, 0, k,
                            &(panel_rows){.b = x + p * cols, .b_k = s->channel, .panels = hn_ext_min(block, end - p)});
    return hn_ext_max(end, t->panels[0]);
}

static void run_task(const worker *whose, const task *of) {
    int64_t k0 = 0;
    task rest = *of, *t = &rest;
    if (whose->s->direct) rest.panels[0] = run_direct(whose, of);
    if (rest.panels[0] >= rest.panels[1]) return;
    const int64_t step = k_step_of(t->p);
    worker own = *whose, *w = &own;
    if (w->s->staged && w->residual) move_stage(w, t, NULL, w->residual, w->s->base.conv.r);
    do { /* without any tap the outputs are still the bias */
        int64_t k = hn_ext_min(step, t->p->k - k0);
        if (own.shared)
            own.chunk = shared_panels(own.s, own.shared, k0) + t->panels[0] * (k + 1) * own.s->base.conv.kernels->tile_cols;
        else if (k > 0)
            gather_panels(w, t, k0, k);
        for (int64_t i = t->tiles[0]; i < t->tiles[1]; i += A_GROUP_TILES)
            multiply(w, t, (int64_t[]){i, hn_ext_min(i + A_GROUP_TILES, t->tiles[1])}, k0, k);
        k0 += k;
    } while (k0 < t->p->k);
    if (w->s->staged) move_stage(w, t, w->out, NULL, w->s->base.conv.y);
}

/* Task i of an image; false: there are no more. */
static bool task_at(const gather_state *s, int64_t i, task *out) {
    const hn_ext_conv *c = &s->base.conv;
    const int64_t tiles = tiles_of(c);
    for (int64_t n = 0; n < s->phase_count; n++) {
        const phase *p = &s->phases[n];
        int64_t count = p->chunks * c->groups * s->o_blocks;
        if (i >= count) {
            i -= count;
            continue;
        }
        int64_t block = i % s->o_blocks, chunk = i / s->o_blocks % p->chunks;
        if (s->by_outputs) block = i / p->chunks, chunk = i % p->chunks;
        *out = (task){.p = p, .group = i / s->o_blocks / p->chunks,
                      .panels = {p->panels * chunk / p->chunks, p->panels * (chunk + 1) / p->chunks},
                      .tiles = {tiles * block / s->o_blocks, tiles * (block + 1) / s->o_blocks}};
        return true;
    }
    return false;
}

static void wait_all(int size) {
    if (size > 1) {
#pragma omp barrier
    }
}

/* The address after the last input that an image has. */
static const float *end_of(const hn_ext_conv *c, const float *x) {
    return x + (c->c - 1) * c->x[1] + (c->in[0] - 1) * c->x[2] + (c->in[1] - 1) * c->x[3] + (c->in[2] - 1) * c->x[4] + 1;
}

typedef struct buffers {
    hn_ext_share *shares;
    float *weights, *copy, *shared, *threads;
} buffers;

static void run_thread(const gather_state *s, const hn_ext_call *call, const buffers *b, int rank, int size) {
    const hn_ext_conv *c = &s->base.conv;
    worker w = {.s = s, .weights = s->packed ? s->packed : b->weights, .bias = call->operands[HN_EXT_CONV_BIAS],
                .chunk = b->threads + rank * (s->chunk_floats + s->stage_floats)};
    w.stage = w.chunk + s->chunk_floats;
    if (call->dtypes[HN_EXT_CONV_BIAS] == HN_NO_TYPE) w.bias = NULL;
    if (!s->packed) {
        pack_weights(s, call, b->weights, rank, size);
        wait_all(size);
    }
    for (int64_t n = 0; n < c->n; n++) {
        const float *x = (const float *)call->operands[HN_EXT_CONV_INPUT] + n * c->x[0];
        w.x = x, w.in_end = end_of(c, x);
        w.out = (float *)call->operands[HN_EXT_CONV_OUT] + n * c->y[0];
        if (c->has_residual) w.residual = (const float *)call->operands[HN_EXT_CONV_RESIDUAL] + n * c->r[0];
        if (c->has_scale) w.scale = (const float *)call->operands[HN_EXT_CONV_SCALE] + n * c->scale[0];
        if (s->copies) {
            hn_ext_conv_copy(c, &s->border, x, c->c * rank / size, c->c * (rank + 1) / size, b->copy);
            w.x = b->copy, w.in_end = b->copy + s->copy_floats;
        }
        hn_ext_share_set(b->shares, rank, size, s->task_count);
        if (s->shared_floats) {
            if (s->copies) wait_all(size);
            collect_shared(&w, b->shared, rank, size);
            w.shared = b->shared;
        }
        wait_all(size);
        task t;
        for (int64_t i; (i = hn_ext_share_next(b->shares, rank, size)) >= 0;)
            if (task_at(s, i, &t)) run_task(&w, &t);
        wait_all(size);
    }
}

static void gather_run(const hn_ext_call *call, void *scratch) {
    const gather_state *s = call->state;
    const hn_ext_conv *c = &s->base.conv;
    buffers b = {.shares = scratch};
    b.weights = (float *)(b.shares + c->threads);
    b.copy = b.weights + (s->packed ? 0 : hn_ext_ceil_div(s->weights_floats, 16) * 16);
    b.shared = b.copy + hn_ext_ceil_div(s->copy_floats, 16) * 16;
    b.threads = b.shared + hn_ext_ceil_div(s->shared_floats, 16) * 16;
    if (s->copies) memset(b.copy + s->copy_floats - SLACK, 0, SLACK * sizeof(float));
#pragma omp parallel num_threads(c->threads) if (c->threads > 1)
    run_thread(s, call, &b, omp_get_thread_num(), omp_get_num_threads());
}

hn_status hn_ext_conv_gather_prepare(hn_ext_call *call, const hn_ext_conv *c) {
    int64_t phase_count = 1, tap_count = 1;
    for (int d = 0; d < 3; d++) phase_count *= phases_along(c, d), tap_count *= c->kernel[d];
    if (phase_count > 4096 || tap_count > 1 << 24) return HN_ERROR(HN_UNSUPPORTED, "too many phases of a convolution");
    if (c->n == 0 || c->c == 0 || c->o == 0 || phase_count == 0) return HN_ERROR(HN_UNSUPPORTED, "an empty convolution");
    for (int d = 0; d < 3; d++)
        if (c->in[d] == 0 || c->out[d] == 0) return HN_ERROR(HN_UNSUPPORTED, "an empty convolution");
    size_t head = sizeof(gather_state) + (size_t)phase_count * sizeof(phase);
    gather_state *s = calloc(1, head + (size_t)tap_count * sizeof(int64_t)); /* each tap belongs to one phase */
    if (!s) return HN_ERROR(HN_OUT_OF_MEMORY, "no memory for a convolution");
    s->base = (hn_ext_conv_state){.run = gather_run, .conv = *c};
    s->phase_count = phase_count;
    plan_phases(s);
    plan_border(s);
    int64_t *memory = (int64_t *)((char *)s + head);
    for (int64_t i = 0; i < phase_count; i++) {
        plan_taps(s, &s->phases[i], memory);
        memory += s->phases[i].tap_count;
    }
    plan_tasks(s);
    plan_scratch(s);
    if (s->task_count > HN_EXT_SHARE_MAX) {
        free(s);
        return HN_ERROR(HN_UNSUPPORTED, "too many parts of a convolution");
    }
    hn_status status = c->constant_weights ? get_weights(call, s) : NULL;
    if (status) {
        free(s);
        return status;
    }
    call->state = s;
    call->scratch_bytes = (size_t)c->threads * sizeof(hn_ext_share) + (size_t)((s->packed ? 0 : hn_ext_ceil_div(s->weights_floats, 16) * 16) +
                                   hn_ext_ceil_div(s->copy_floats, 16) * 16 + hn_ext_ceil_div(s->shared_floats, 16) * 16 + c->threads * (s->chunk_floats + s->stage_floats)) * sizeof(float);
    return NULL;
}
