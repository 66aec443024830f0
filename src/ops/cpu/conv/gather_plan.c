/* gather_plan.c: how a convolution is cut for gather.c: phases, taps, borders, tasks; and its
 * packed weights. */
#include "ops/cpu/conv/gather.h"

#include "henry/tensor.h"
#include "ops/cpu/pack_cache.h"
#include "ops/cpu/share.h"

#include <stdlib.h>

enum {
    DIRECT_K = 256, /* rows of a panel that stay in L1 where they are, pages apart */
    /* from here on half as many rows: each may be two lines of L1, and collecting them once costs 1
     * % */
    MANY_OUTPUTS = 512,
    TASKS_PER_THREAD = 4,
    WHOLE_POSITIONS = 1024,
    SHARED_FLOATS = 4 << 20 /* 16 MB, as much as the weights of such a layer */
};

/* ---- planning ---- */

/* Which taps the outputs first, first + step ... of dimension d meet, and where their inputs are
 * (without border). */
static hn_ext_axis axis_of(const hn_ext_conv *c, int d, int64_t first) {
    const int64_t s = c->stride[d];
    if (!c->transposed)
        return (hn_ext_axis){.out_step = 1,
                             .out_count = c->out[d],
                             .tap_step = 1,
                             .tap_count = c->kernel[d],
                             .in_first = -c->padding[d],
                             .in_step = s,
                             .tap_in = c->dilation[d]};
    hn_ext_axis a = {.out_first = first, .out_step = s, .in_step = 1};
    a.out_count = first < c->out[d] ? (c->out[d] - first - 1) / s + 1 : 0;
    for (int64_t k = 0; k < c->kernel[d] && k < 2 * s; k++) {
        int64_t spread = first + c->padding[d] - k * c->dilation[d];
        if (spread % s != 0) continue;
        if (a.tap_count == 0) a.tap_first = k, a.in_first = spread / s;
        else a.tap_step = k - a.tap_first, a.tap_in = spread / s - a.in_first;
        if (++a.tap_count == 2) break;
    }
    if (a.tap_count == 2) a.tap_count = (c->kernel[d] - 1 - a.tap_first) / a.tap_step + 1;
    return a;
}

static int64_t hn_ext_gather_phases(const hn_ext_conv *c, int d) {
    return c->transposed ? hn_ext_min(c->stride[d], c->out[d]) : 1;
}

/* The range of inputs that all phases read decides the border. */
static void plan_border(hn_ext_gather_state *s) {
    const hn_ext_conv *c = &s->base.conv;
    bool needed = c->x[4] != 1 && c->in[2] > 1;
    for (int d = 0; d < 3; d++) {
        int64_t low = 0, high = c->in[d] - 1;
        for (int64_t i = 0; i < s->phase_count; i++) {
            const hn_ext_axis *a = &s->phases[i].axes[d];
            if (a->tap_count == 0 || a->out_count == 0) continue;
            int64_t last_tap = (a->tap_count - 1) * a->tap_in,
                    last_out = (a->out_count - 1) * a->in_step;
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
        s->copy_floats = c->c * s->channel + HN_EXT_GATHER_SLACK;
    } else {
        for (int d = 0; d < 3; d++) s->spatial[d] = c->x[2 + d];
        s->spatial[2] = 1;
        s->channel = c->x[1];
        for (int d = 0; d < 3; d++) s->border.before[d] = 0;
    }
}

static void plan_taps(hn_ext_gather_state *s, hn_ext_phase *p, int64_t *memory) {
    const hn_ext_axis *a = p->axes;
    p->taps = memory;
    p->origin = 0;
    for (int d = 0; d < 3; d++) p->origin += (a[d].in_first + s->border.before[d]) * s->spatial[d];
    int64_t count = 0;
    for (int64_t i = 0; i < a[0].tap_count; i++)
        for (int64_t j = 0; j < a[1].tap_count; j++)
            for (int64_t k = 0; k < a[2].tap_count; k++)
                p->taps[count++] = p->origin + i * a[0].tap_in * s->spatial[0] +
                                   j * a[1].tap_in * s->spatial[1] +
                                   k * a[2].tap_in * s->spatial[2];
}

static void plan_phases(hn_ext_gather_state *s) {
    const hn_ext_conv *c = &s->base.conv;
    const int64_t n1 = hn_ext_gather_phases(c, 1), n2 = hn_ext_gather_phases(c, 2);
    for (int64_t i = 0; i < s->phase_count; i++) {
        hn_ext_phase *p = &s->phases[i];
        p->axes[0] = axis_of(c, 0, i / (n1 * n2));
        p->axes[1] = axis_of(c, 1, i / n2 % n1);
        p->axes[2] = axis_of(c, 2, i % n2);
        p->tap_count = p->axes[0].tap_count * p->axes[1].tap_count * p->axes[2].tap_count;
        p->positions = p->axes[0].out_count * p->axes[1].out_count * p->axes[2].out_count;
        p->k = p->tap_count * (c->c / c->groups);
        p->weights = s->weights_floats;
        s->weights_floats += c->groups * hn_ext_gather_tiles(c) * c->kernels->tile_rows * p->k;
    }
}

/* Chunks of positions, and blocks of output channels, so that every thread gets several; what is
 * larger is split first. */
static void plan_tasks(hn_ext_gather_state *s) {
    const hn_ext_conv *c = &s->base.conv;
    const int64_t cols = c->kernels->tile_cols, tiles = hn_ext_gather_tiles(c);
    int64_t chunks = 0, panels = 0;
    for (int64_t i = 0; i < s->phase_count; i++) {
        hn_ext_phase *p = &s->phases[i];
        p->panels = hn_ext_ceil_div(p->positions, cols);
        p->chunks = hn_ext_ceil_div(p->panels, HN_EXT_GATHER_PANELS);
        /* the same positions in each step */
        if (p->chunks >= c->threads)
            p->chunks = hn_ext_ceil_div(p->chunks, c->threads) * c->threads;
        chunks += p->chunks, panels += p->panels;
    }
    const int64_t wanted = c->threads > 1 ? (int64_t)c->threads * TASKS_PER_THREAD : 1;
    bool weights_first = s->weights_floats > panels * cols * c->c;
    /* Small planes belong to a thread as a whole (depthwise); so do outputs where few channels
     * become many. */
    const hn_ext_phase *first = &s->phases[0];
    s->by_outputs = s->phase_count == 1 && c->groups == 1 && first->tap_count == 1 &&
                    first->k <= DIRECT_K && c->o >= 2 * c->c &&
                    first->positions <= WHOLE_POSITIONS && !c->has_scale && tiles >= c->threads;
    s->o_blocks = s->by_outputs ? c->threads : 1;
    while (chunks * c->groups * s->o_blocks < wanted) {
        if (tiles / s->o_blocks >= 8 && (weights_first || chunks >= panels)) {
            s->o_blocks *= 2;
        } else if (chunks < panels) {
            chunks = 0;
            for (int64_t i = 0; i < s->phase_count; i++) {
                hn_ext_phase *p = &s->phases[i];
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
    return (y[4] == 1 || c->out[2] == 1) && (y[3] == c->out[2] || c->out[1] == 1) &&
           (y[2] == c->out[1] * c->out[2] || c->out[0] == 1);
}

static void plan_scratch(hn_ext_gather_state *s) {
    const hn_ext_conv *c = &s->base.conv;
    const int64_t cols = c->kernels->tile_cols,
                  most = hn_ext_gather_tiles(c) * c->kernels->tile_rows;
    s->group_rows = c->o / c->groups, s->tiles = hn_ext_gather_tiles(c);
    s->low = s->group_rows / s->tiles, s->tall = s->group_rows % s->tiles;
    s->staged = s->phase_count > 1 || !is_contiguous(c, c->y) ||
                (c->has_residual && !is_contiguous(c, c->r));
    const hn_ext_phase *p = &s->phases[0];
    s->direct = s->phase_count == 1 && hn_ext_phase_is_flat(p) && !s->copies && !s->staged &&
                !c->has_scale && p->k > 0 &&
                p->k <= (c->o < MANY_OUTPUTS ? DIRECT_K : DIRECT_K / 2);
    if (s->o_blocks > 1 && !s->direct && s->phase_count == 1 && c->groups == 1 && p->k > 0) {
        const int64_t steps = hn_ext_ceil_div(p->k, HN_EXT_GATHER_K);
        s->shared_floats = p->panels * (p->k + steps) * cols + HN_EXT_GATHER_SLACK;
        if (s->shared_floats > SHARED_FLOATS) s->shared_floats = 0;
    }
    s->chunk_floats = HN_EXT_GATHER_PANELS * (HN_EXT_GATHER_K + 1) * cols + HN_EXT_GATHER_SLACK;
    s->stage_floats = s->staged ? most * HN_EXT_GATHER_PANELS * cols : 0;
}

hn_status hn_ext_gather_plan(const hn_ext_conv *c, hn_ext_gather_state **out) {
    int64_t phase_count = 1, tap_count = 1;
    for (int d = 0; d < 3; d++)
        phase_count *= hn_ext_gather_phases(c, d), tap_count *= c->kernel[d];
    if (phase_count > 4096 || tap_count > 1 << 24)
        return HN_ERROR(HN_UNSUPPORTED, "too many phases of a convolution");
    if (c->n == 0 || c->c == 0 || c->o == 0 || phase_count == 0)
        return HN_ERROR(HN_UNSUPPORTED, "an empty convolution");
    for (int d = 0; d < 3; d++)
        if (c->in[d] == 0 || c->out[d] == 0)
            return HN_ERROR(HN_UNSUPPORTED, "an empty convolution");
    size_t head = sizeof(hn_ext_gather_state) + (size_t)phase_count * sizeof(hn_ext_phase);
    /* each tap belongs to one hn_ext_phase */
    hn_ext_gather_state *s = calloc(1, head + (size_t)tap_count * sizeof(int64_t));
    if (!s) return HN_ERROR(HN_OUT_OF_MEMORY, "no memory for a convolution");
    s->base.conv = *c;
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
    *out = s;
    return NULL;
}

/* ---- weights ---- */

typedef struct weights_job {
    const hn_ext_gather_state *s;
    const hn_ext_call *call;
    float *memory;
} weights_job;

/* The weights of one row tile: [k][tile_rows]. */
static void pack_tile(const hn_ext_gather_state *s, const hn_ext_phase *p, const float *w,
                      int64_t group, int64_t tile, float *out) {
    const hn_ext_conv *c = &s->base.conv;
    const int64_t rows = c->kernels->tile_rows, og = c->o / c->groups, cg = c->c / c->groups,
                  tiles = hn_ext_gather_tiles(c);
    const int64_t first = hn_ext_tile_start(og, tiles, tile),
                  count = hn_ext_tile_start(og, tiles, tile + 1) - first;
    const hn_ext_axis *a = p->axes;
    const int64_t o_stride = c->w[c->transposed ? 1 : 0], c_stride = c->w[c->transposed ? 0 : 1];
    w += c->transposed ? group * cg * c_stride + first * o_stride : (group * og + first) * o_stride;
    bool plain = !c->transposed && c->w[4] == 1 && c->w[3] == c->kernel[2] &&
                 c->w[2] == c->kernel[1] * c->kernel[2] && c_stride == p->tap_count;
    if (plain) {
        c->kernels->pack(&(hn_ext_pack){.in = w,
                                        .in_k = 1,
                                        .in_col = o_stride,
                                        .k = p->k,
                                        .cols = count,
                                        .width = rows,
                                        .out = out,
                                        .out_panel = rows * p->k});
        return;
    }
    for (int64_t ch = 0; ch < cg; ch++)
        for (int64_t i = 0; i < a[0].tap_count; i++)
            for (int64_t j = 0; j < a[1].tap_count; j++)
                for (int64_t k = 0; k < a[2].tap_count; k++, out += rows)
                    for (int64_t r = 0; r < count; r++)
                        out[r] = w[ch * c_stride + r * o_stride +
                                   (a[0].tap_first + i * a[0].tap_step) * c->w[2] +
                                   (a[1].tap_first + j * a[1].tap_step) * c->w[3] +
                                   (a[2].tap_first + k * a[2].tap_step) * c->w[4]];
}

/* Its rows times the factors of their channels. */
static void scale_tile(const hn_ext_gather_state *s, const hn_ext_phase *p, const hn_ext_call *call,
                       int64_t group, int64_t tile, float *out) {
    const hn_ext_conv *c = &s->base.conv;
    const int64_t rows = c->kernels->tile_rows, og = c->o / c->groups,
                  tiles = hn_ext_gather_tiles(c);
    const int64_t first = hn_ext_tile_start(og, tiles, tile),
                  count = hn_ext_tile_start(og, tiles, tile + 1) - first;
    for (int64_t r = 0; r < count; r++) {
        const float factor = hn_ext_conv_factor(c, call, group * og + first + r);
        for (int64_t k = 0; k < p->k; k++) out[k * rows + r] *= factor;
    }
}

void hn_ext_gather_pack(const hn_ext_gather_state *s, const hn_ext_call *call, float *out,
                        int64_t part, int64_t parts) {
    const hn_ext_conv *c = &s->base.conv;
    const float *w = hn_ext_conv_weights(c, call);
    const int64_t tiles = hn_ext_gather_tiles(c), per_phase = c->groups * tiles,
                  all = s->phase_count * per_phase;
    for (int64_t i = all * part / parts; i < all * (part + 1) / parts; i++) {
        const hn_ext_phase *p = &s->phases[i / per_phase];
        int64_t t = i % per_phase;
        float *to = out + p->weights + t * c->kernels->tile_rows * p->k;
        pack_tile(s, p, w, t / tiles, t % tiles, to);
        if (c->has_factor) scale_tile(s, p, call, t / tiles, t % tiles, to);
    }
}

static void pack_task(void *context, int rank) {
    const weights_job *job = context;
    hn_ext_gather_pack(job->s, job->call, job->memory, rank, job->s->base.conv.threads);
}

static void fill_weights(void *user, void *memory) {
    weights_job *job = user;
    job->memory = memory;
    hn_team_run(job->call->team, job->s->base.conv.threads, pack_task, job);
    hn_ext_conv_drop_weights(&job->s->base.conv, job->call);
}

hn_status hn_ext_gather_get_weights(hn_ext_call *call, hn_ext_gather_state *s) {
    const hn_ext_conv *c = &s->base.conv;
    hn_ext_pack_key key = {.words = {HN_EXT_PACK_CONV_ROWS,
                                     (int64_t)(intptr_t)hn_ext_conv_weights(c, call), c->o, c->c,
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
