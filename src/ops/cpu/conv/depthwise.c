/* depthwise.c: convolutions with one input channel for each output channel: sums over the taps,
 * vectors along the rows.
 *
 *   strip   3 x 3 and 5 x 5, stride 1 and 2: straight from the input, with masks for the border
 *   plane   any other: a plane is copied with its border first; rows then need no edge cases */
#include "ops/cpu/conv/conv.h"

#include "henry/tensor.h"
#include "ops/cpu/share.h"

#include <stdlib.h>
#include <string.h>

enum {
    MAX_TAPS = 128,
    CHUNKS_PER_THREAD = 8,
    /* of outputs, at least, that a thread takes of each plane; smaller planes are quicker whole.
     * Source: measured on Zen 3 */
    PART_ROWS = 28,
    MAX_GROUP = 8,
    GROUP_FLOATS = 4096 /* of L1 */
};

typedef struct depthwise_state {
    hn_ext_conv_state base;
    hn_ext_border border;
    /* stride 2: even columns, then odd ones, so that neighbours stay neighbours */
    bool split;
    int64_t half; /* of a split row: where the odd columns begin */
    /* channels that are copied before the first of them is computed */
    int64_t tap_count, plane_floats, group;
    int64_t taps[MAX_TAPS];
} depthwise_state;

bool hn_ext_conv_depthwise_fits(const hn_ext_conv *c) {
    if (c->transposed || c->groups == 0 || c->c != c->groups || c->n == 0 || c->c == 0)
        return false;
    for (int d = 0; d < 3; d++)
        if (c->in[d] == 0 || c->out[d] == 0) return false;
    return c->in[0] == 1 && c->out[0] == 1 && c->kernel[0] == 1 && c->padding[0] == 0 &&
           c->kernel[1] <= MAX_TAPS && c->kernel[2] <= MAX_TAPS &&
           c->kernel[1] * c->kernel[2] <= MAX_TAPS && (c->y[4] == 1 || c->out[2] == 1);
}

/* Elements 0, 2 .. and 1, 3 .. of `count` apart. Written so that a compiler makes shuffles of
 * it. */
static void split_row(const float *in, int64_t count, float *even, float *odd) {
    for (int64_t j = 0; j < count / 2; j++) even[j] = in[2 * j], odd[j] = in[2 * j + 1];
    if (count % 2) even[count / 2] = in[count - 1];
}

static void copy_split(const depthwise_state *s, const float *x, float *plane) {
    const hn_ext_conv *c = &s->base.conv;
    const hn_ext_border *b = &s->border;
    const int64_t before = b->before[2], rows = hn_ext_min(c->in[1], b->size[1] - b->before[1]),
                  count = hn_ext_min(c->in[2], 2 * s->half - before);
    for (int64_t i = 0; i < rows; i++) {
        const float *from = x + i * c->x[3];
        float *row = plane + (i + b->before[1]) * 2 * s->half, *even = row + (before + 1) / 2,
              *odd = row + s->half + before / 2;
        if (c->x[4] == 1 && before % 2) split_row(from, count, odd, even);
        else if (c->x[4] == 1) split_row(from, count, even, odd);
        else
            for (int64_t j = 0; j < count; j++)
                row[(before + j) % 2 * s->half + (before + j) / 2] = from[j * c->x[4]];
    }
}

static void copy_channel(const hn_ext_call *call, int64_t index, float *plane) {
    const depthwise_state *s = call->state;
    const hn_ext_conv *c = &s->base.conv;
    const int64_t n = index / c->o, channel = index % c->o / (c->o / c->groups);
    const float *x =
        (const float *)call->operands[HN_EXT_CONV_INPUT] + n * c->x[0] + channel * c->x[1];
    if (s->split) copy_split(s, x, plane);
    else hn_ext_conv_copy_inside(c, &s->border, x, plane);
}

static void run_channel(const hn_ext_call *call, int64_t index, const float *plane) {
    const depthwise_state *s = call->state;
    const hn_ext_conv *c = &s->base.conv;
    const int64_t n = index / c->o, o = index % c->o;
    const float *w = hn_ext_conv_weights(c, call) + o * c->w[0];
    const float *bias = call->dtypes[HN_EXT_CONV_BIAS] ? call->operands[HN_EXT_CONV_BIAS] : NULL;
    float copy[MAX_TAPS];
    if (c->w[4] != 1 || c->w[3] != c->kernel[2]) {
        for (int64_t i = 0; i < s->tap_count; i++)
            copy[i] = w[i / c->kernel[2] * c->w[3] + i % c->kernel[2] * c->w[4]];
        w = copy;
    }
    c->kernels->conv->plane(
        &(hn_ext_plane){.in = plane,
                        .in_row = s->border.size[2] * c->stride[1],
                        .step = s->split ? 1 : c->stride[2],
                        .taps = s->taps,
                        .weights = w,
                        .tap_count = s->tap_count,
                        .out = (float *)call->operands[HN_EXT_CONV_OUT] + n * c->y[0] + o * c->y[1],
                        .out_row = c->y[3],
                        .rows = c->out[1],
                        .cols = c->out[2],
                        .bias = bias ? bias[o] : 0,
                        .epilogue = hn_ext_conv_early_epilogue(c)});
    hn_ext_conv_add_residual(c, call, n, o);
}

typedef struct plane_job {
    const hn_ext_call *call;
    float *scratch;
    int64_t next; /* group that nobody has taken */
} plane_job;

/* A plane that was written just now is slow to read: stores must reach the cache first, as they are
 * narrower than the loads. So several are written before the first one is read. */
static void depthwise_task(void *context, int rank) {
    plane_job *j = context;
    const depthwise_state *s = j->call->state;
    const hn_ext_conv *c = &s->base.conv;
    const int64_t count = c->n * c->o, groups = hn_ext_ceil_div(count, s->group);
    float *planes = j->scratch + rank * s->plane_floats * s->group;
    int64_t g = __atomic_fetch_add(&j->next, 1, __ATOMIC_RELAXED);
    if (g < groups) memset(planes, 0, (size_t)(s->plane_floats * s->group) * sizeof *planes);
    for (; g < groups; g = __atomic_fetch_add(&j->next, 1, __ATOMIC_RELAXED)) {
        int64_t first = g * s->group, end = hn_ext_min(first + s->group, count);
        for (int64_t i = first; i < end; i++)
            copy_channel(j->call, i, planes + (i - first) * s->plane_floats);
        for (int64_t i = first; i < end; i++)
            run_channel(j->call, i, planes + (i - first) * s->plane_floats);
    }
}

static void depthwise_run(const hn_ext_call *call, void *scratch) {
    const depthwise_state *s = call->state;
    const hn_ext_conv *c = &s->base.conv;
    const int64_t groups = hn_ext_ceil_div(c->n * c->o, s->group);
    hn_team_run(call->team, (int)hn_ext_min(c->threads, groups), depthwise_task,
                &(plane_job){.call = call, .scratch = scratch});
}

/* ---- 3 x 3 and 5 x 5 ---- */

typedef struct strip_state {
    hn_ext_conv_state base;
    /* floats that are read before a plane, and after the first float of its last row */
    int64_t before, after;
    /* of the copy of a plane, a row of zeros, and all that a thread has */
    int64_t copy_floats, row_floats, thread_floats;
    int64_t chunk, chunks; /* channels that a thread takes at once */
    /* of the rows of each plane: as the threads share them in the 1 x 1 convolutions before and
     * after */
    int64_t parts;
    bool padded;
    hn_ext_strip strip; /* what all calls of the kernel have in common */
    int32_t masks[];
} strip_state;

static bool strip_fits(const hn_ext_conv *c) {
    for (int d = 1; d < 3; d++)
        if (c->kernel[d] != c->kernel[1] || c->stride[d] != c->stride[1] || c->dilation[d] != 1 ||
            c->padding[d] >= c->kernel[d])
            return false;
    return (c->kernel[1] == 3 || c->kernel[1] == 5) && c->stride[1] <= 2 &&
           (c->x[4] == 1 || c->in[2] == 1) && c->x[3] >= c->in[2] && c->x[1] >= 0 && c->x[0] >= 0 &&
           c->w[4] == 1 && c->w[3] == c->kernel[2] && (c->y[4] == 1 || c->out[2] == 1);
}

/* Whether what is read around a plane belongs to the input. */
static bool has_room(const strip_state *s, int64_t plane) {
    const hn_ext_conv *c = &s->base.conv;
    const int64_t last_row = plane + (c->in[1] - 1) * c->x[3];
    const int64_t end =
        (c->n - 1) * c->x[0] + (c->c - 1) * c->x[1] + (c->in[1] - 1) * c->x[3] + c->in[2];
    return plane >= s->before && last_row + s->after <= end;
}

/* How many channels from output channel `o` of image n on, up to `most`, are planes with the same
 * distances. */
static int64_t strip_together(const strip_state *s, int64_t n, int64_t o, int64_t most) {
    const hn_ext_conv *c = &s->base.conv;
    if (c->o != c->groups || c->w[0] != c->kernel[1] * c->kernel[2]) return 1;
    int64_t count = 0;
    while (count < most && has_room(s, n * c->x[0] + (o + count) * c->x[1])) count++;
    return hn_ext_max(1, count);
}

/* The rows of outputs of one part, and the inputs that they need. Returns the first of these. */
static int64_t strip_part(const strip_state *s, int64_t part, hn_ext_strip *out) {
    const int64_t first = s->strip.rows * part / s->parts,
                  end = s->strip.rows * (part + 1) / s->parts;
    const int64_t top = first * out->stride - s->strip.top,
                  from = hn_ext_max(0, hn_ext_min(top, s->strip.in_rows));
    out->rows = end - first;
    out->out = out->out + first * out->out_row;
    out->top = from - top;
    out->in_rows = hn_ext_min(s->strip.in_rows, hn_ext_max(from, (end - 1) * out->stride +
                                                                     out->kernel - s->strip.top)) -
                   from;
    return from;
}

/* What a task keeps from piece to piece. */
typedef struct strip_buffers {
    float *copy, *zeros, *padded;
    int64_t part; /* whose border `padded` has */
} strip_buffers;

/* Channels [first, end) of all images' output channels. */
static void strip_channels(const hn_ext_call *call, int64_t part, int64_t first, int64_t end,
                           strip_buffers *b) {
    const strip_state *s = call->state;
    const hn_ext_conv *c = &s->base.conv;
    const float *x = call->operands[HN_EXT_CONV_INPUT],
                *bias = call->dtypes[HN_EXT_CONV_BIAS] ? call->operands[HN_EXT_CONV_BIAS] : NULL;
    hn_ext_strip strip = s->strip;
    strip.masks = s->masks;
    strip.zeros = b->zeros;
    if (s->padded && b->part != part)
        memset(b->padded, 0, (size_t)(2 * s->strip.padded_plane) * sizeof(float));
    if (s->padded) strip.padded = b->padded;
    b->part = part;
    strip.out = call->operands[HN_EXT_CONV_OUT];
    const int64_t row = strip_part(s, part, &strip) * c->x[3];
    float *out = strip.out;
    hn_ext_strip_pad(&strip, c->kernels->lanes);
    while (first < end) {
        const int64_t n = first / c->o, o = first % c->o,
                      plane = n * c->x[0] + o / (c->o / c->groups) * c->x[1];
        strip.planes = strip_together(s, n, o, hn_ext_min(end - first, c->o - o));
        strip.in = x + plane + row;
        if (!has_room(s, plane)) { /* near the ends of the input: copied to where there is */
            for (int64_t i = 0; i < strip.in_rows; i++)
                memcpy(b->copy + s->before + i * c->x[3], strip.in + i * c->x[3],
                       (size_t)c->in[2] * sizeof(float));
            strip.in = b->copy + s->before;
        }
        strip.weights = hn_ext_conv_weights(c, call) + o * c->w[0];
        strip.bias = bias ? bias + o : NULL;
        strip.out = out + n * c->y[0] + o * c->y[1];
        c->kernels->conv->strip(&strip);
        for (int64_t i = 0; i < strip.planes; i++) hn_ext_conv_add_residual(c, call, n, o + i);
        first += strip.planes;
    }
}

typedef struct strip_job {
    const hn_ext_call *call;
    hn_ext_share *shares;
} strip_job;

static void strip_task(void *context, int rank) {
    const strip_job *j = context;
    const strip_state *s = j->call->state;
    const hn_ext_conv *c = &s->base.conv;
    const int64_t count = c->n * c->o;
    strip_buffers b = {.copy = (float *)(j->shares + c->threads) + rank * s->thread_floats,
                       .part = -1};
    b.zeros = b.copy + s->copy_floats + s->before,
    b.padded = b.copy + s->copy_floats + s->row_floats;
    int64_t k = hn_ext_share_next(j->shares, rank, c->threads);
    if (k >= 0) memset(b.copy, 0, (size_t)(s->copy_floats + s->row_floats) * sizeof(float));
    for (; k >= 0; k = hn_ext_share_next(j->shares, rank, c->threads)) {
        const int64_t at = k % s->chunks;
        strip_channels(j->call, k / s->chunks, at * s->chunk,
                       hn_ext_min((at + 1) * s->chunk, count), &b);
    }
}

static void strip_run(const hn_ext_call *call, void *scratch) {
    const strip_state *s = call->state;
    const hn_ext_conv *c = &s->base.conv;
    strip_job j = {.call = call, .shares = scratch};
    for (int rank = 0; rank < c->threads; rank++)
        hn_ext_share_set(j.shares, rank, c->threads, s->parts * s->chunks);
    hn_team_run(call->team, c->threads, strip_task, &j);
}

/* Which blocks have columns outside of the image. */
static void fill_masks(strip_state *s) {
    const hn_ext_conv *c = &s->base.conv;
    const int64_t lanes = c->kernels->lanes, kernel = c->kernel[2], stride = c->stride[2];
    for (int64_t b = 0; b * lanes < c->out[2]; b++) {
        int64_t x = hn_ext_max(0, hn_ext_min(b * lanes, c->out[2] - lanes));
        for (int64_t j = 0; j < kernel * lanes; j++) {
            int64_t column = (x + hn_ext_strip_lane(lanes, stride, j % lanes)) * stride +
                             j / lanes - c->padding[2];
            s->masks[b * kernel * lanes + j] = column >= 0 && column < c->in[2] ? -1 : 0;
        }
        if (x * stride < c->padding[2]) s->strip.plain[0] = b + 1;
        if ((x + lanes - 1) * stride + kernel - c->padding[2] <= c->in[2])
            s->strip.plain[1] = b + 1;
    }
}

static hn_status plane_prepare(hn_ext_call *call, const hn_ext_conv *c) {
    depthwise_state *s = calloc(1, sizeof *s);
    if (!s) return HN_ERROR(HN_OUT_OF_MEMORY, "no memory for a convolution");
    s->base = (hn_ext_conv_state){.run = depthwise_run, .conv = *c};
    s->border.size[0] = 1;
    for (int d = 1; d < 3; d++) {
        s->border.before[d] = c->padding[d];
        s->border.size[d] =
            (c->out[d] - 1) * c->stride[d] + (c->kernel[d] - 1) * c->dilation[d] + 1;
    }
    s->tap_count = c->kernel[1] * c->kernel[2];
    s->split = c->stride[2] == 2;
    s->half = (s->border.size[2] + 1) / 2;
    if (s->split) s->border.size[2] = 2 * s->half;
    for (int64_t i = 0; i < s->tap_count; i++) {
        int64_t column = i % c->kernel[2] * c->dilation[2];
        if (s->split) column = column % 2 * s->half + column / 2;
        s->taps[i] = i / c->kernel[2] * c->dilation[1] * s->border.size[2] + column;
    }
    /* Threads' planes do not share cache lines. */
    s->plane_floats = hn_ext_ceil_div(s->border.size[1] * s->border.size[2] +
                                          4 * hn_ext_min(c->stride[2], 2) * HN_EXT_MAX_LANES,
                                      16) *
                      16;
    s->group = hn_ext_max(1, hn_ext_min(MAX_GROUP, GROUP_FLOATS / s->plane_floats));
    call->state = s;
    call->scratch_bytes = (size_t)(c->threads * s->group * s->plane_floats) * sizeof(float);
    return NULL;
}

static hn_status strip_prepare(hn_ext_call *call, const hn_ext_conv *c) {
    const int64_t lanes = c->kernels->lanes, blocks = hn_ext_ceil_div(c->out[2], lanes),
                  stride = c->stride[2];
    strip_state *s =
        calloc(1, sizeof *s + (size_t)(blocks * c->kernel[2] * lanes) * sizeof *s->masks);
    if (!s) return HN_ERROR(HN_OUT_OF_MEMORY, "no memory for a convolution");
    s->base = (hn_ext_conv_state){.run = strip_run, .conv = *c};
    s->parts = 1;
    s->strip = (hn_ext_strip){.kernel = (int)c->kernel[1],
                              .stride = (int)stride,
                              .in_plane = c->x[1],
                              .out_plane = c->y[1],
                              .in_row = c->x[3],
                              .in_rows = c->in[1],
                              .in_cols = c->in[2],
                              .top = c->padding[1],
                              .left = c->padding[2],
                              .out_row = c->y[3],
                              .rows = c->out[1],
                              .cols = c->out[2],
                              .epilogue = hn_ext_conv_early_epilogue(c)};
    fill_masks(s);
    const int64_t most = hn_ext_strip_padded_cols(stride);
    s->padded =
        c->in[2] <= most && c->in[1] <= most && s->strip.plain[1] - s->strip.plain[0] < blocks;
    if (!HN_EXT_HAS_STRIPS(c->kernel[1], stride, s->padded)) {
        free(s);
        return plane_prepare(call, c);
    }
    if (s->padded) hn_ext_strip_pad(&s->strip, lanes);
    s->before = c->padding[2];
    s->after = hn_ext_max(hn_ext_max(0, c->out[2] - lanes) * stride + stride * lanes + 6,
                          hn_ext_ceil_div(c->in[2], stride * lanes) * stride * lanes);
    s->row_floats = hn_ext_ceil_div(s->before + s->after, 16) * 16;
    s->copy_floats = hn_ext_ceil_div((c->in[1] - 1) * c->x[3], 16) * 16 + s->row_floats;
    s->thread_floats = s->copy_floats + s->row_floats + (s->padded ? 2 * s->strip.padded_plane : 0);
    if (c->n == 1 && !c->has_residual && !s->padded && c->out[1] >= c->threads * PART_ROWS)
        s->parts = c->threads;
    s->chunk = hn_ext_max(1, s->parts * c->n * c->o / (c->threads * CHUNKS_PER_THREAD));
    s->chunks = hn_ext_ceil_div(c->n * c->o, s->chunk);
    if (s->parts * s->chunks > HN_EXT_SHARE_MAX) {
        free(s);
        return HN_ERROR(HN_UNSUPPORTED, "too many channels of a convolution");
    }
    call->state = s;
    call->scratch_bytes =
        (size_t)c->threads * (sizeof(hn_ext_share) + (size_t)s->thread_floats * sizeof(float));
    return NULL;
}

/* ---- */

hn_status hn_ext_conv_depthwise_prepare(hn_ext_call *call, const hn_ext_conv *c) {
    return strip_fits(c) ? strip_prepare(call, c) : plane_prepare(call, c);
}
