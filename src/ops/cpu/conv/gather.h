/* gather.h: the plan of a convolution as a matrix product (im2col), out[o, position] = w[o, k]
 * in[k, position], where k counts channels and kernel positions ("taps"). Made by gather_plan.c,
 * run by gather.c.
 *
 * A convolution is a sum of phases. A phase is a regular grid of outputs that all read their inputs
 * at the same offsets: one phase for a convolution; for a transposed one of stride s, s phases
 * along each dimension, each with the taps that meet its outputs. So nothing is multiplied by the
 * zeros that a stride inserts. */
#ifndef HN_OPS_CPU_CONV_GATHER_H
#define HN_OPS_CPU_CONV_GATHER_H

#include "ops/cpu/conv/conv.h"

enum {
    HN_EXT_GATHER_K = 256,    /* that are collected and multiplied at once */
    HN_EXT_GATHER_PANELS = 8, /* likewise; x K x 16 floats: 128 KB of L2 */
    HN_EXT_GATHER_SLACK = 64  /* floats that may be read or overwritten beyond a buffer */
};

/* Along one dimension. */
typedef struct hn_ext_axis {
    int64_t out_first, out_step, out_count; /* outputs of the hn_ext_phase */
    int64_t tap_first, tap_step, tap_count; /* kernel positions */
    /* input of output 0 and tap 0 (in the bordered input); from output to output */
    int64_t in_first, in_step;
    int64_t tap_in; /* from tap to tap */
} hn_ext_axis;

typedef struct hn_ext_phase {
    hn_ext_axis axes[3];
    int64_t k, positions;
    int64_t weights; /* floats before its packed weights */
    int64_t *taps;   /* input offset of each; in the state's memory */
    int64_t tap_count, origin, panels, chunks;
} hn_ext_phase;

typedef struct hn_ext_gather_state {
    hn_ext_conv_state base;
    hn_ext_border border;
    bool copies;     /* the input gets a border (or contiguous rows) first */
    bool direct;     /* panels are read where they are */
    bool by_outputs; /* threads share the output channels rather than the positions */
    /* outputs (or residuals) of a panel are not contiguous: computed in a buffer */
    bool staged;
    int64_t spatial[3]; /* strides of the input as it is read */
    int64_t channel;    /* likewise */
    int64_t weights_floats, copy_floats, chunk_floats, stage_floats;
    /* not 0: panels of all k are collected once, before the threads share the output channels */
    int64_t shared_floats;
    int64_t o_blocks, task_count;
    /* output channels and row tiles of a group; `tall` tiles have low + 1 rows, the others low */
    int64_t group_rows, tiles, low, tall;
    const float *packed; /* NULL: weights are packed in each run */
    int64_t phase_count;
    hn_ext_phase phases[];
} hn_ext_gather_state;

static inline int64_t hn_ext_gather_tiles(const hn_ext_conv *c) {
    return hn_ext_ceil_div(c->o / c->groups, c->kernels->tile_rows);
}

/* Whether its inputs are the rows of a matrix. */
static inline bool hn_ext_phase_is_flat(const hn_ext_phase *p) {
    return p->tap_count == 1 && p->axes[0].out_count == 1 && p->axes[1].out_count == 1 &&
           p->axes[2].in_step == 1;
}

/* How many k are collected and multiplied at once. */
static inline int64_t hn_ext_phase_k_step(const hn_ext_phase *p) {
    return hn_ext_ceil_div(p->k, hn_ext_max(1, hn_ext_ceil_div(p->k, HN_EXT_GATHER_K)));
}

/* A new state without its weights; free() it. HN_UNSUPPORTED: too many parts. */
hn_status hn_ext_gather_plan(const hn_ext_conv *c, hn_ext_gather_state **out) HN_MUST_USE;
/* Fills in s->packed. */
hn_status hn_ext_gather_get_weights(hn_ext_call *call, hn_ext_gather_state *s) HN_MUST_USE;
/* Part `part` of `parts` of all weights. */
void hn_ext_gather_pack(const hn_ext_gather_state *s, const hn_ext_call *call, float *out,
                        int64_t part, int64_t parts);

#endif
