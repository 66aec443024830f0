/* conv.h: HN_EXTERN_CONV of floats, and what its algorithms share.
 *
 *   gather     any convolution as a matrix product; panels of inputs are collected on the way
 *              (gather.c)
 *   winograd   3 x 3, stride 1 (winograd.c)
 *   depthwise  one input channel for each output channel (depthwise.c)
 *   rows       few channels: inputs are read at an offset for each k (rows.c)
 *   product    few positions: weights stream by (product.c) */
#ifndef HN_OPS_CPU_CONV_CONV_H
#define HN_OPS_CPU_CONV_CONV_H

#include "ops/cpu/ext.h"
#include "ops/cpu/kernels.h"
#include "ops/cpu/pack_cache.h"

#include <string.h>

/* The row of the table: takes every dtype that has a fast way (fast.c). */
extern const hn_ext_impl hn_ext_convolution;
#ifdef HN_EXT_WITHOUT_CONV
#define hn_ext_conv_f32 hn_ext_reference
#else
extern const hn_ext_impl hn_ext_conv_f32;
#endif

enum {
    HN_EXT_CONV_OUT = 0,
    HN_EXT_CONV_INPUT = 1,
    HN_EXT_CONV_WEIGHTS = 2,
    HN_EXT_CONV_BIAS = 3,
    HN_EXT_CONV_RESIDUAL = 4,
    HN_EXT_CONV_SCALE = 5
};

/* The parameters of a call by name. Strides: [n, channel, 3 spatial], of w [first, second, 3
 * kernel]. */
typedef struct hn_ext_conv {
    int64_t n, c, o, groups;
    int64_t in[3], kernel[3], out[3], stride[3], padding[3], dilation[3];
    int64_t x[5], w[5], y[5], r[5]; /* r: of the residual */
    int64_t w_first;                /* elements before the first weight that counts */
    int64_t scale[2];
    bool transposed, constant_weights, has_residual, has_scale;
    bool has_factor; /* the scale is for output channels: it goes into the packed weights */
    hn_epilogue epilogue;
    int threads; /* as many as the work is worth */
    const hn_ext_kernels *kernels;
} hn_ext_conv;

/* The first member of each algorithm's state. Owns: freed with free(). */
typedef struct hn_ext_conv_state {
    void (*run)(const hn_ext_call *call, void *scratch);
    hn_ext_conv conv;
} hn_ext_conv_state;

static inline const float *hn_ext_conv_weights(const hn_ext_conv *c, const hn_ext_call *call) {
    return (const float *)call->operands[HN_EXT_CONV_WEIGHTS] + c->w_first;
}

/* Each makes call->state and call->scratch_bytes. `fits` first: whether the algorithm can do it,
 * and is worth it. */
bool hn_ext_conv_rows_fits(const hn_ext_conv *c);
bool hn_ext_conv_product_fits(const hn_ext_conv *c);   /* of 1 x 1 whose positions are one row */
bool hn_ext_conv_collected_fits(const hn_ext_conv *c); /* of others: the same prepare */
hn_status hn_ext_conv_rows_prepare(hn_ext_call *call, const hn_ext_conv *c) HN_MUST_USE;
hn_status hn_ext_conv_product_prepare(hn_ext_call *call, const hn_ext_conv *c) HN_MUST_USE;
hn_status hn_ext_conv_gather_prepare(hn_ext_call *call, const hn_ext_conv *c) HN_MUST_USE;

/* A source project may do without these (ext.h). */
#ifdef HN_EXT_WITHOUT_WINOGRAD
#define hn_ext_conv_winograd_fits(c) ((void)(c), false)
#define hn_ext_conv_winograd_prepare hn_ext_conv_gather_prepare
#else
bool hn_ext_conv_winograd_fits(const hn_ext_conv *c);
hn_status hn_ext_conv_winograd_prepare(hn_ext_call *call, const hn_ext_conv *c) HN_MUST_USE;
#endif
#ifdef HN_EXT_WITHOUT_DEPTHWISE
#define hn_ext_conv_depthwise_fits(c) ((void)(c), false)
#define hn_ext_conv_depthwise_prepare hn_ext_conv_gather_prepare
#else
bool hn_ext_conv_depthwise_fits(const hn_ext_conv *c);
hn_status hn_ext_conv_depthwise_prepare(hn_ext_call *call, const hn_ext_conv *c) HN_MUST_USE;
#endif

/* What the kernels apply themselves: nothing before the residual is added. */
static inline hn_epilogue hn_ext_conv_early_epilogue(const hn_ext_conv *c) {
    return c->has_residual ? HN_EPILOGUE_NONE : c->epilogue;
}
/* Adds the residual to output plane [n, o], which holds everything before it, and applies the
 * epilogue. Without a residual there is nothing to do. y[4] is 1, or rows have one element. */
void hn_ext_conv_add_residual(const hn_ext_conv *c, const hn_ext_call *call, int64_t n, int64_t o);

/* The factor of output channel o; 1 without any. */
static inline float hn_ext_conv_factor(const hn_ext_conv *c, const hn_ext_call *call, int64_t o) {
    return c->has_factor ? ((const float *)call->operands[HN_EXT_CONV_SCALE])[o * c->scale[1]] : 1;
}

/* Makes the key one of weights with this factor: words that no packing of convolutions uses, but of
 * transposed ones. */
void hn_ext_conv_put_factor(const hn_ext_conv *c, const hn_ext_call *call, hn_ext_pack_key *key);

/* Weights that have just been packed are not read again: their pages may leave the process. */
void hn_ext_conv_drop_weights(const hn_ext_conv *c, const hn_ext_call *call);

/* A tensor that is copied into a larger one with a border of zeros: [channels][3 sizes] <- x. */
typedef struct hn_ext_border {
    int64_t before[3], size[3]; /* of the result */
} hn_ext_border;

/* Channel by channel, from `first` to `end`. `x` is at the image's channel 0. */
void hn_ext_conv_copy(const hn_ext_conv *c, const hn_ext_border *b, const float *x, int64_t first,
                      int64_t end, float *out);
/* The same of one channel, where the border of `out` is zero already. */
void hn_ext_conv_copy_inside(const hn_ext_conv *c, const hn_ext_border *b, const float *x,
                             float *out);

typedef float hn_ext_float8 __attribute__((vector_size(32), aligned(4), may_alias));

/* A call of memcpy costs more than the few floats of a small image's row. */
static inline void hn_ext_conv_copy_row(float *out, const float *in, int64_t count) {
    int64_t j = 0;
    if (count >= 64) {
        memcpy(out, in, (size_t)count * sizeof *out);
        return;
    }
    for (; j + 8 <= count; j += 8) *(hn_ext_float8 *)(out + j) = *(const hn_ext_float8 *)(in + j);
    for (; j < count; j++) {
        __asm__(""); /* or else the compiler makes the call itself */
        out[j] = in[j];
    }
}

static inline int64_t hn_ext_ceil_div(int64_t x, int64_t by) { return (x + by - 1) / by; }
static inline int64_t hn_ext_min(int64_t x, int64_t y) { return x < y ? x : y; }
static inline int64_t hn_ext_max(int64_t x, int64_t y) { return x > y ? x : y; }
/* Row panels of a matrix differ by at most one row: where panel `t` of `tiles` begins. */
static inline int64_t hn_ext_tile_start(int64_t m, int64_t tiles, int64_t t) {
    return t * (m / tiles) + hn_ext_min(t, m % tiles);
}

/* ---- what the forms ask before they take a convolution ---- */

/* One group, not transposed, without a depth. */
static inline bool hn_ext_conv_is_2d(const hn_ext_conv *c) {
    return !c->transposed && c->groups == 1 && c->in[0] == 1 && c->out[0] == 1 &&
           c->kernel[0] == 1 && c->padding[0] == 0;
}

/* Whether nothing is read. */
static inline bool hn_ext_conv_is_empty(const hn_ext_conv *c) {
    return c->n == 0 || c->c == 0 || c->o == 0 || c->in[1] == 0 || c->in[2] == 0;
}

/* Of two dimensions: whether an output's weights lie in a row. */
static inline bool hn_ext_conv_has_rows_of_weights(const hn_ext_conv *c) {
    return c->w[4] == 1 && c->w[3] == c->kernel[2] && c->w[1] == c->kernel[1] * c->kernel[2];
}

#endif
