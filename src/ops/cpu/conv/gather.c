/* gather.c: convolutions of any kind as matrix products. Panels of 16 or 32 positions are collected
 * from the input while they are needed, or read where they are. */
#include "ops/cpu/conv/gather.h"

#include "henry/tensor.h"
#include "ops/cpu/share.h"

#include <stdlib.h>
#include <string.h>

enum {
    A_GROUP_TILES = 32,    /* x K x 6 floats: 192 KB of L2 */
    BLOCK_FLOATS = 5 << 10 /* of direct panels side by side: 20 KB of L1 */
};

/* What a thread works with. */
typedef struct worker {
    const hn_ext_gather_state *s;
    const float *weights, *x, *in_end, *bias; /* x: of the image, as it is read */
    const float *residual, *scale;            /* of the image; NULL: none */
    float *out, *chunk, *stage;
    float *shared; /* NULL: each task collects its own panels */
} worker;

typedef struct task {
    const hn_ext_phase *p;
    int64_t group, panels[2], tiles[2];
} task;

/* The runs of the task's panels, which are panel_floats apart. */
static int find_runs(const hn_ext_gather_state *s, const task *t, int64_t panel_floats,
                     hn_ext_gather_run *runs) {
    const hn_ext_axis *a = t->p->axes;
    const int64_t cols = s->base.conv.kernels->tile_cols,
                  end = hn_ext_min(t->panels[1] * cols, t->p->positions);
    int count = 0;
    for (int64_t at = t->panels[0] * cols; at < end;) {
        int64_t i2 = at % a[2].out_count, rest = at / a[2].out_count, i1 = rest % a[1].out_count,
                i0 = rest / a[1].out_count;
        int64_t length = hn_ext_min(a[2].out_count - i2, hn_ext_min(end - at, cols - at % cols));
        runs[count++] =
            (hn_ext_gather_run){.from = i0 * a[0].in_step * s->spatial[0] +
                                        i1 * a[1].in_step * s->spatial[1] + i2 * a[2].in_step,
                                .to = (at / cols - t->panels[0]) * panel_floats + at % cols,
                                .count = length};
        at += length;
    }
    return count;
}

/* Rows k0 .. of the task's panels times the scale of their channels. */
static void scale_panels(const worker *w, const task *t, int64_t k0, int64_t k,
                         const float *scale) {
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
    const hn_ext_gather_state *s = w->s;
    const hn_ext_conv *c = &s->base.conv;
    const int64_t cols = c->kernels->tile_cols;
    const int64_t channel = t->group * (c->c / c->groups);
    const float *in = w->x + channel * s->channel,
                *scale = w->scale ? w->scale + channel * c->scale[1] : NULL;
    if (hn_ext_phase_is_flat(t->p)) {
        int64_t first = t->panels[0] * cols, end = hn_ext_min(t->panels[1] * cols, t->p->positions);
        c->kernels->pack(&(hn_ext_pack){.in = in + t->p->taps[0] + first + k0 * s->channel,
                                        .in_k = s->channel,
                                        .in_col = 1,
                                        .k = k,
                                        .cols = end - first,
                                        .width = cols,
                                        .out = w->chunk,
                                        .out_panel = (k + 1) * cols,
                                        .scale = scale ? scale + k0 * c->scale[1] : NULL,
                                        .scale_k = c->scale[1]});
        return;
    }
    hn_ext_gather_run runs[HN_EXT_GATHER_PANELS * 2 * HN_EXT_MAX_LANES];
    hn_ext_gather g = {.in = in,
                       .in_end = w->in_end,
                       .in_channel = s->channel,
                       .taps = t->p->taps,
                       .tap_count = t->p->tap_count,
                       .k_first = k0,
                       .k = k,
                       .step = t->p->axes[2].in_step,
                       .runs = runs,
                       .run_count = find_runs(s, t, (k + 1) * cols, runs),
                       .out = w->chunk};
    c->kernels->conv->gather(&g);
    if (scale) scale_panels(w, t, k0, k, scale);
}

/* Rows of panels, b_k floats apart. */
typedef struct panel_rows {
    const float *b;
    int64_t b_k, panels; /* side by side */
} panel_rows;

/* Tiles [tiles[0], tiles[1]) of whole panels from `panel` on. */
static void multiply_column(const worker *w, const task *t, const int64_t tiles[2], int64_t panel,
                            int64_t k0, int64_t k, const panel_rows *of) {
    const hn_ext_gather_state *s = w->s;
    const hn_ext_conv *c = &s->base.conv;
    const hn_ext_phase *ph = t->p;
    const int64_t height = c->kernels->tile_rows, cols = c->kernels->tile_cols, og = s->group_rows,
                  all = s->tiles, tall = s->tall;
    const bool last = k0 + k == ph->k;
    hn_ext_column column = {.k = k,
                            .panels = of->panels,
                            .a_tile = height * ph->k,
                            .b = of->b,
                            .b_k = of->b_k,
                            .c_row = c->y[1],
                            .residual_row = c->r[1],
                            .accumulate = k0 > 0,
                            .epilogue = last ? c->epilogue : HN_EPILOGUE_NONE};
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

static void multiply(const worker *w, const task *t, const int64_t tiles[2], int64_t k0,
                     int64_t k) {
    const hn_ext_gather_state *s = w->s;
    const hn_ext_conv *c = &s->base.conv;
    const hn_ext_phase *ph = t->p;
    const int64_t height = c->kernels->tile_rows, cols = c->kernels->tile_cols,
                  og = c->o / c->groups, all = hn_ext_gather_tiles(c);
    const float *weights = w->weights + ph->weights + t->group * all * height * ph->k + k0 * height;
    const bool last = k0 + k == ph->k;
    hn_ext_tile tile = {.k = k,
                        .a_row = 1,
                        .a_k = height,
                        .b_k = cols,
                        .c_row = c->y[1],
                        .c_col = 1,
                        .bias_row = 1,
                        .residual_row = c->r[1],
                        .residual_col = 1,
                        .accumulate = k0 > 0 || (s->staged && w->residual),
                        .epilogue = last ? c->epilogue : HN_EPILOGUE_NONE};
    const int64_t stage_row = (t->panels[1] - t->panels[0]) * cols;
    if (s->staged) tile.c_row = stage_row;
    for (int64_t p = t->panels[0]; p < t->panels[1]; p++) {
        tile.b = w->chunk + (p - t->panels[0]) * (k + 1) * cols;
        tile.cols = (int)hn_ext_min(cols, ph->positions - p * cols);
        if (!s->staged && tile.cols == cols) {
            multiply_column(w, t, tiles, p, k0, k,
                            &(panel_rows){.b = tile.b, .b_k = cols, .panels = 1});
            continue;
        }
        for (int64_t i = tiles[0]; i < tiles[1]; i++) {
            int64_t first = hn_ext_tile_start(og, all, i), o = t->group * og + first;
            tile.rows = (int)(hn_ext_tile_start(og, all, i + 1) - first);
            tile.a = weights + i * height * ph->k;
            tile.c = s->staged ? w->stage +
                                     (first - hn_ext_tile_start(og, all, t->tiles[0])) * stage_row +
                                     (p - t->panels[0]) * cols
                               : w->out + o * c->y[1] + p * cols;
            tile.bias = last && w->bias ? w->bias + o : NULL;
            tile.residual =
                last && w->residual && !s->staged ? w->residual + o * c->r[1] + p * cols : NULL;
            tile.prefetch = tile.a;
            c->kernels->tile(&tile);
        }
    }
}

/* From aside to `out`, or, without it, the residuals that sums begin with to aside. Strides: of
 * either tensor. */
static void move_stage(const worker *w, const task *t, float *out, const float *residual,
                       const int64_t strides[5]) {
    const hn_ext_gather_state *s = w->s;
    const hn_ext_conv *c = &s->base.conv;
    const hn_ext_axis *a = t->p->axes;
    const int64_t cols = c->kernels->tile_cols, og = c->o / c->groups, all = hn_ext_gather_tiles(c);
    const int64_t begin = t->panels[0] * cols,
                  end = hn_ext_min(t->panels[1] * cols, t->p->positions),
                  row = (t->panels[1] - t->panels[0]) * cols;
    const int64_t first = hn_ext_tile_start(og, all, t->tiles[0]),
                  count = hn_ext_tile_start(og, all, t->tiles[1]) - first;
    const int64_t origin = (t->group * og + first) * strides[1];
    for (int64_t at = begin; at < end; at++) {
        int64_t i2 = at % a[2].out_count, rest = at / a[2].out_count, i1 = rest % a[1].out_count,
                i0 = rest / a[1].out_count;
        int64_t to = origin + (a[0].out_first + i0 * a[0].out_step) * strides[2] +
                     (a[1].out_first + i1 * a[1].out_step) * strides[3] +
                     (a[2].out_first + i2 * a[2].out_step) * strides[4];
        float *stage = w->stage + at - begin;
        if (out)
            for (int64_t o = 0; o < count; o++) out[to + o * strides[1]] = stage[o * row];
        else
            for (int64_t o = 0; o < count; o++) stage[o * row] = residual[to + o * strides[1]];
    }
}

/* Where panel 0 of the step at k0 is among those that all threads share. */
static float *shared_panels(const hn_ext_gather_state *s, float *shared, int64_t k0) {
    const hn_ext_phase *p = &s->phases[0];
    return shared +
           p->panels * (k0 + k0 / hn_ext_phase_k_step(p)) * s->base.conv.kernels->tile_cols;
}

/* The task's part of them. */
static void collect_shared(const worker *w, float *shared, int rank, int size) {
    const hn_ext_phase *p = &w->s->phases[0];
    const int64_t step = hn_ext_phase_k_step(p), cols = w->s->base.conv.kernels->tile_cols;
    const int64_t chunks = hn_ext_ceil_div(p->panels, HN_EXT_GATHER_PANELS);
    int64_t item = 0;
    for (int64_t k0 = 0; k0 < p->k; k0 += step)
        for (int64_t chunk = 0; chunk < chunks; chunk++, item++) {
            if (item % size != rank) continue;
            worker own = *w;
            const int64_t k = hn_ext_min(step, p->k - k0), first = p->panels * chunk / chunks;
            own.chunk = shared_panels(w->s, shared, k0) + first * (k + 1) * cols;
            gather_panels(
                &own, &(task){.p = p, .panels = {first, p->panels * (chunk + 1) / chunks}}, k0, k);
        }
}

/* Whole panels where they are in the input; as many weights at once as L2 keeps. Returns the first
 * panel that is left. */
static int64_t run_direct(const worker *w, const task *t) {
    const hn_ext_gather_state *s = w->s;
    const int64_t cols = s->base.conv.kernels->tile_cols, k = t->p->k,
                  end = hn_ext_min(t->panels[1], t->p->positions / cols);
    const int64_t step = A_GROUP_TILES * HN_EXT_GATHER_K / k,
                  block = hn_ext_max(1, BLOCK_FLOATS / (k * cols));
    const float *x = w->x + t->p->taps[0] + t->group * k * s->channel;
    for (int64_t i = t->tiles[0]; i < t->tiles[1]; i += step)
        for (int64_t p = t->panels[0]; p < end; p += block)
            multiply_column(w, t, (int64_t[]){i, hn_ext_min(i + step, t->tiles[1])}, p, 0, k,
                            &(panel_rows){.b = x + p * cols,
                                          .b_k = s->channel,
                                          .panels = hn_ext_min(block, end - p)});
    return hn_ext_max(end, t->panels[0]);
}

static void run_task(const worker *whose, const task *of) {
    int64_t k0 = 0;
    task rest = *of, *t = &rest;
    if (whose->s->direct) rest.panels[0] = run_direct(whose, of);
    if (rest.panels[0] >= rest.panels[1]) return;
    const int64_t step = hn_ext_phase_k_step(t->p);
    worker own = *whose, *w = &own;
    if (w->s->staged && w->residual) move_stage(w, t, NULL, w->residual, w->s->base.conv.r);
    do { /* without any tap the outputs are still the bias */
        int64_t k = hn_ext_min(step, t->p->k - k0);
        if (own.shared)
            own.chunk = shared_panels(own.s, own.shared, k0) +
                        t->panels[0] * (k + 1) * own.s->base.conv.kernels->tile_cols;
        else if (k > 0) gather_panels(w, t, k0, k);
        for (int64_t i = t->tiles[0]; i < t->tiles[1]; i += A_GROUP_TILES)
            multiply(w, t, (int64_t[]){i, hn_ext_min(i + A_GROUP_TILES, t->tiles[1])}, k0, k);
        k0 += k;
    } while (k0 < t->p->k);
    if (w->s->staged) move_stage(w, t, w->out, NULL, w->s->base.conv.y);
}

/* Task i of an image; false: there are no more. */
static bool task_at(const hn_ext_gather_state *s, int64_t i, task *out) {
    const hn_ext_conv *c = &s->base.conv;
    const int64_t tiles = hn_ext_gather_tiles(c);
    for (int64_t n = 0; n < s->phase_count; n++) {
        const hn_ext_phase *p = &s->phases[n];
        int64_t count = p->chunks * c->groups * s->o_blocks;
        if (i >= count) {
            i -= count;
            continue;
        }
        int64_t block = i % s->o_blocks, chunk = i / s->o_blocks % p->chunks;
        if (s->by_outputs) block = i / p->chunks, chunk = i % p->chunks;
        *out =
            (task){.p = p,
                   .group = i / s->o_blocks / p->chunks,
                   .panels = {p->panels * chunk / p->chunks, p->panels * (chunk + 1) / p->chunks},
                   .tiles = {tiles * block / s->o_blocks, tiles * (block + 1) / s->o_blocks}};
        return true;
    }
    return false;
}

/* The address after the last input that an image has. */
static const float *end_of(const hn_ext_conv *c, const float *x) {
    return x + (c->c - 1) * c->x[1] + (c->in[0] - 1) * c->x[2] + (c->in[1] - 1) * c->x[3] +
           (c->in[2] - 1) * c->x[4] + 1;
}

typedef struct buffers {
    hn_ext_share *shares;
    float *weights, *copy, *shared, *threads;
} buffers;

/* One image of a run; what its tasks have in common. */
typedef struct job {
    const hn_ext_gather_state *s;
    const hn_ext_call *call;
    buffers b;
    int64_t n;
} job;

static worker worker_of(const job *j, int rank) {
    const hn_ext_gather_state *s = j->s;
    const hn_ext_conv *c = &s->base.conv;
    const hn_ext_call *call = j->call;
    const float *x = (const float *)call->operands[HN_EXT_CONV_INPUT] + j->n * c->x[0];
    worker w = {.s = s,
                .weights = s->packed ? s->packed : j->b.weights,
                .bias = call->operands[HN_EXT_CONV_BIAS],
                .chunk = j->b.threads + rank * (s->chunk_floats + s->stage_floats),
                .x = x,
                .in_end = end_of(c, x)};
    w.stage = w.chunk + s->chunk_floats;
    if (call->dtypes[HN_EXT_CONV_BIAS] == HN_NO_TYPE) w.bias = NULL;
    w.out = (float *)call->operands[HN_EXT_CONV_OUT] + j->n * c->y[0];
    if (c->has_residual)
        w.residual = (const float *)call->operands[HN_EXT_CONV_RESIDUAL] + j->n * c->r[0];
    if (c->has_scale)
        w.scale = (const float *)call->operands[HN_EXT_CONV_SCALE] + j->n * c->scale[0];
    if (s->copies) w.x = j->b.copy, w.in_end = j->b.copy + s->copy_floats;
    return w;
}

static void pack_task(void *context, int rank) {
    const job *j = context;
    hn_ext_gather_pack(j->s, j->call, j->b.weights, rank, j->s->base.conv.threads);
}

static void copy_task(void *context, int rank) {
    const job *j = context;
    const hn_ext_conv *c = &j->s->base.conv;
    const float *x = (const float *)j->call->operands[HN_EXT_CONV_INPUT] + j->n * c->x[0];
    hn_ext_conv_copy(c, &j->s->border, x, c->c * rank / c->threads, c->c * (rank + 1) / c->threads,
                     j->b.copy);
}

static void collect_task(void *context, int rank) {
    const job *j = context;
    const worker w = worker_of(j, rank);
    collect_shared(&w, j->b.shared, rank, j->s->base.conv.threads);
}

static void multiply_task(void *context, int rank) {
    const job *j = context;
    worker w = worker_of(j, rank);
    task t;
    if (j->s->shared_floats) w.shared = j->b.shared;
    for (int64_t i; (i = hn_ext_share_next(j->b.shares, rank, j->s->base.conv.threads)) >= 0;)
        if (task_at(j->s, i, &t)) run_task(&w, &t);
}

static void run_image(job *j) {
    const hn_ext_gather_state *s = j->s;
    const int size = s->base.conv.threads;
    hn_team *team = j->call->team;
    if (s->copies) hn_team_run(team, size, copy_task, j);
    if (s->shared_floats) hn_team_run(team, size, collect_task, j);
    for (int rank = 0; rank < size; rank++)
        hn_ext_share_set(j->b.shares, rank, size, s->task_count);
    hn_team_run(team, size, multiply_task, j);
}

static void gather_run(const hn_ext_call *call, void *scratch) {
    const hn_ext_gather_state *s = call->state;
    const hn_ext_conv *c = &s->base.conv;
    buffers b = {.shares = scratch};
    b.weights = (float *)(b.shares + c->threads);
    b.copy = b.weights + (s->packed ? 0 : hn_ext_ceil_div(s->weights_floats, 16) * 16);
    b.shared = b.copy + hn_ext_ceil_div(s->copy_floats, 16) * 16;
    b.threads = b.shared + hn_ext_ceil_div(s->shared_floats, 16) * 16;
    if (s->copies)
        memset(b.copy + s->copy_floats - HN_EXT_GATHER_SLACK, 0,
               HN_EXT_GATHER_SLACK * sizeof(float));
    job j = {.s = s, .call = call, .b = b};
    if (!s->packed) hn_team_run(call->team, c->threads, pack_task, &j);
    for (; j.n < c->n; j.n++) run_image(&j);
}

hn_status hn_ext_conv_gather_prepare(hn_ext_call *call, const hn_ext_conv *c) {
    hn_ext_gather_state *s = NULL;
    HN_TRY(hn_ext_gather_plan(c, &s));
    s->base.run = gather_run;
    hn_status status = c->constant_weights ? hn_ext_gather_get_weights(call, s) : NULL;
    if (status) {
        free(s);
        return status;
    }
    call->state = s;
    const int64_t weights = s->packed ? 0 : hn_ext_ceil_div(s->weights_floats, 16) * 16,
                  shared = hn_ext_ceil_div(s->shared_floats, 16) * 16;
    const int64_t copied = hn_ext_ceil_div(s->copy_floats, 16) * 16,
                  own = c->threads * (s->chunk_floats + s->stage_floats);
    call->scratch_bytes = (size_t)c->threads * sizeof(hn_ext_share) +
                          (size_t)(weights + copied + shared + own) * sizeof(float);
    return NULL;
}
