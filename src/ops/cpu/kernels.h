/* kernels.h: the inner loops of the contractions, once for each instruction set.
 *
 * kernels_body.h is the one source; ext_kernels_{generic,avx2,avx512}.c compile it with the vectors
 * of their instruction set. The processor is asked once which table to use. All memory is float;
 * strides are in elements. */
#ifndef HN_OPS_CPU_KERNELS_H
#define HN_OPS_CPU_KERNELS_H

#include "henry/abi/extern_abi.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A source project has the loops that its program can need (driver/source_parts.c): a bit for each
 * epilogue of its calls, and for each shape of strips. Everything else has all. */
#ifndef HN_EXT_EPILOGUES
#define HN_EXT_EPILOGUES ~0u
#endif
#ifndef HN_EXT_STRIPS
#define HN_EXT_STRIPS 255u
#endif
#define HN_EXT_HAS_EPILOGUE(e) (HN_EXT_EPILOGUES >> (e)&1)
/* padded: 1, of planes that are copied with their border first; 0, straight from the input */
#define HN_EXT_STRIPS_BIT(kernel, stride, padded) ((padded)*4 + ((kernel) == 5) * 2 + (stride)-1)
#define HN_EXT_HAS_STRIPS(kernel, stride, padded)                                                  \
    (HN_EXT_STRIPS >> HN_EXT_STRIPS_BIT(kernel, stride, padded) & 1)

enum { HN_EXT_MAX_TILE = 14 * 32 }; /* floats of the largest register tile */

/* One register tile: c[rows, cols] = epilogue(c? + sum_k a[rows, k] * b[k, cols] + bias +
 * residual). rows <= tile_rows, cols <= tile_cols of the table. b has tile_cols readable columns in
 * every row (half of them are enough when cols <= tile_cols / 2); columns from `cols` on have no
 * effect. */
typedef struct hn_ext_tile {
    int64_t k;
    const float *a;
    int64_t a_row, a_k;
    const float *b;
    int64_t b_k;
    float *c;
    int64_t c_row, c_col;
    const float *bias; /* NULL: none */
    int64_t bias_row, bias_col;
    const float *residual; /* NULL: none */
    int64_t residual_row, residual_col;
    int rows, cols;
    hn_epilogue epilogue;
    bool accumulate; /* start from c instead of 0 */
    /* memory that a later tile reads, brought near meanwhile: k times a step */
    const float *prefetch;
    int64_t prefetch_step;
} hn_ext_tile;

/* `tiles` register tiles of `rows` rows and tile_cols columns one under the other, `panels` such
 * columns of tiles side by side: c[rows, tile_cols] = epilogue(c? + bias + sum_k a[k, rows] * b[k,
 * tile_cols] + residual). a is packed: tile_rows floats for each k. */
typedef struct hn_ext_column {
    int64_t k, tiles, panels;
    int rows;
    hn_epilogue epilogue;
    bool accumulate; /* start from c instead of 0 */
    const float *a;
    int64_t a_tile; /* floats from tile to tile */
    const float *b; /* panels are tile_cols floats apart */
    int64_t b_k;
    const int64_t *taps; /* NULL, or where the rows of b are, from b on: b_k does not count */
    float *c;
    int64_t c_row;
    const float *bias;     /* [rows of all tiles]; NULL: none */
    const float *residual; /* NULL: none */
    int64_t residual_row;
} hn_ext_column;

/* Lays out columns in panels: out[panel][k][width] = in[k * in_k + col * in_col], panels out_panel
 * floats apart. With width tile_cols the last panel is filled up with zeros. With a scale, in is
 * multiplied by scale[k * scale_k] first. */
typedef struct hn_ext_pack {
    const float *in;
    int64_t in_k, in_col;
    int64_t k, cols, width;
    float *out;
    int64_t out_panel;
    const float *scale; /* NULL: none */
    int64_t scale_k;
} hn_ext_pack;

/* Neighbouring outputs of a convolution that read neighbouring inputs, within one panel. */
typedef struct hn_ext_gather_run {
    int64_t from; /* of the input, for the first one */
    int64_t to;   /* of the first row of panels */
    int64_t count;
} hn_ext_gather_run;

/* Panels of inputs for a convolution as a matrix product. Row k is channel k / tap_count and tap k
 * % tap_count: out[k * tile_cols + run.to + i] = in[channel * in_channel + taps[tap] + run.from + i
 * * step]. Other lanes are unspecified, and so are the tile_cols floats after the last row of each
 * panel. */
typedef struct hn_ext_gather {
    const float *in, *in_end; /* what lies before in_end may be read */
    int64_t in_channel;
    const int64_t *taps;
    int64_t tap_count, k_first, k, step;
    const hn_ext_gather_run *runs; /* `to` ascends */
    int run_count;
    float *out;
} hn_ext_gather;

/* One channel of a depthwise convolution: out[y][x] = epilogue(bias + sum_t weights[t] * in[y *
 * in_row + x * step + taps[t]]). 4 * step * HN_EXT_MAX_LANES floats of `in` after the last one used
 * must be readable. */
typedef struct hn_ext_plane {
    const float *in;
    int64_t in_row, step;
    const int64_t *taps;
    const float *weights;
    int64_t tap_count;
    float *out;
    int64_t out_row, rows, cols;
    float bias;
    hn_epilogue epilogue;
} hn_ext_plane;

enum { HN_EXT_MAX_LANES = 16, HN_EXT_WINOGRAD_LANES = 8 };

/* Channels of a depthwise convolution of 3 x 3 or 5 x 5, stride 1 or 2, straight from the input:
 * out[y][x] = epilogue(bias + sum weights[i][j] * in[y * stride + i - top][x * stride + j - left]),
 * where rows outside of [0, in_rows) count as zeros, and columns where the block's mask is 0 do.
 * Blocks of columns are as wide as a vector (lanes of the table); block b begins at min(b * lanes,
 * cols - lanes), or at 0. In each row, `left` floats before the first and stride * lanes + 6 from
 * the last block's first input on must be readable. */
typedef struct hn_ext_strip {
    int kernel, stride;
    int64_t planes, in_plane, out_plane; /* how many channels, and floats from one to the next */
    const float *in;
    int64_t in_row, in_rows, top, left;
    const float *zeros; /* a row of them, with what must be readable around it */
    /* [blocks][kernel][lanes]: -1 or 0; lane l is of column hn_ext_strip_lane */
    const int32_t *masks;
    int64_t plain[2]; /* blocks from the first up to the second have only -1 */
    /* NULL, or two planes, zeros at first, that inputs are copied to with their border; for narrow
     * images, whose blocks would all need masks. See hn_ext_strip_pad. */
    float *padded;
    int64_t in_cols, padded_row, padded_rows, padded_plane, half;
    /* vectors of outputs of a plane whose rows go on in them (narrow_body.h), and floats from one
     * of its copies to the next; 0: not so */
    int64_t narrow, narrow_copy;
    const float *weights; /* [planes][kernel][kernel] */
    const float *bias;    /* [planes]; NULL: none */
    float *out;
    int64_t out_row, rows, cols;
    hn_epilogue epilogue;
} hn_ext_strip;

/* Rows of narrow planes go on in vectors where that takes fewer of these. Not where strips are
 * seven rows high: then they share loads, and wait for no multiplication. Source: ns for a plane of
 * 3 x 3, 6 x 6 and 7 x 7 with 5 x 5, 6 x 6 with 3 x 3, as strips: 88, 94, 69, 53; so: 33, 56, 88,
 * 35 (one thread of a shared Xeon with AVX-512, the fastest of 900 runs in turns). */
enum { HN_EXT_NARROW_MAX = 8 };
static inline void hn_ext_strip_narrow(hn_ext_strip *s, int64_t lanes) {
    const int64_t beyond = (s->kernel - 1) / s->stride,
                  rows = s->rows < 4 ? s->rows : (s->rows + 3) / 4 * 4,
                  as_strips = rows * ((s->cols + lanes - 1) / lanes);
    int64_t row = s->cols + beyond, used = (s->left + s->in_cols - 1) / s->stride + 1;
    if (s->stride == 1) row -= s->left; /* those of the next row */
    if (row < used) row = used;
    s->narrow = ((s->rows - 1) * row + s->cols + lanes - 1) / lanes;
    if (s->narrow > HN_EXT_NARROW_MAX || s->narrow >= as_strips || s->rows % 7 == 0) s->narrow = 0;
    if (!s->narrow) return;
    /* a load behind the last output's, or a store behind the last row */
    const int64_t loads = beyond * (row + 1) + s->narrow * lanes,
                  stores = (s->rows + beyond) * row + used + lanes;
    s->narrow_copy = ((loads > stores ? loads : stores) + 15) / 16 * 16;
    s->padded_row = row;
    s->padded_plane = s->narrow_copy * s->stride * s->stride;
}

/* Fills in the sizes of padded planes: of two planes, 2 * padded_plane floats. Rows of `in` are
 * then read up to the next multiple of stride * lanes. */
static inline void hn_ext_strip_pad(hn_ext_strip *s, int64_t lanes) {
    const int64_t step = s->stride * lanes, copied = (s->in_cols + step - 1) / step * step,
                  rows = (s->rows - 1) * s->stride + s->kernel;
    int64_t row = s->left + copied, need = (s->cols - 1) * s->stride + s->kernel;
    if (row < need) row = need;
    s->half = (row + 1) / 2 + 1;
    s->padded_row = s->stride == 2 ? 2 * s->half : row;
    s->padded_rows = s->in_rows < rows - s->top ? s->in_rows : rows - s->top;
    s->padded_plane = ((rows + 1) * s->padded_row + step + 31) / 16 * 16;
    hn_ext_strip_narrow(s, lanes);
}

/* Columns and rows up to which a plane is copied with its border: that costs less than masks; with
 * stride 2 less than taking every second float for each tap, and two larger planes leave L1. */
static inline int64_t hn_ext_strip_padded_cols(int64_t stride) { return stride == 2 ? 64 : 32; }

/* Which column of its block lane l of a strip holds: vectors of every second float are quickest in
 * this order. */
static inline int64_t hn_ext_strip_lane(int64_t lanes, int64_t stride, int64_t l) {
    if (stride == 1) return l;
    return l % 4 < 2 ? l / 4 * 2 + l % 4 : lanes / 2 + l / 4 * 2 + l % 4 - 2;
}

/* Winograd's F(m x m, 3 x 3), m = 2 or 4, with points n = m + 2 along each dimension.
 * Input: tiles [0, count) of a row of tiles; tile t starts at in + t * m. out[point * out_point +
 * t], n * n points; what comes after the last tile up to `room` is unspecified. count <= room.
 * HN_EXT_WINOGRAD_LANES * m + 8 floats of each of the n rows must be readable. count <=
 * HN_EXT_WINOGRAD_LANES. */
typedef struct hn_ext_winograd_in {
    int m;
    const float *in;
    int64_t in_row;
    float *out;
    int64_t out_point;
    int count, room;
} hn_ext_winograd_in;

/* Output: points at in + point * in_point, for HN_EXT_WINOGRAD_LANES tiles side by side.
 * out[tile][m][m] = epilogue(bias + result). */
typedef struct hn_ext_winograd_out {
    int m;
    const float *in;
    int64_t in_point;
    float bias;
    hn_epilogue epilogue;
    float *out;
} hn_ext_winograd_out;

/* Scores of tile_cols queries, [keys][tile_cols], become weights in place: exp(score + mask - max).
 * max and sum go on from what they are (-inf and 0 at first); rescale is what sums of earlier
 * weights must be multiplied with. A score whose mask is -inf is -inf, even when it is NaN. */
typedef struct hn_ext_softmax {
    float *scores;
    int64_t keys;
    const float *mask;          /* [keys][tile_cols], or NULL */
    const float *key_mask;      /* [keys], or NULL */
    float *max, *sum, *rescale; /* tile_cols each */
} hn_ext_softmax;

/* A skinny product: a few rows a[rows] times a matrix that is read once, in place. dots: out[r][j]
 * = sum_i a[r][i] * b[j][i], j < cols, i < k. combine: out[r][j] += sum_i a[r][i] * b[i][j]. Rows
 * are contiguous, and *_row elements apart. */
typedef struct hn_ext_skinny {
    int64_t rows, cols, k;
    const float *a;
    int64_t a_row;
    const void *b; /* floats, or bf16 */
    bool b_is_bf16;
    int64_t b_row;
    float *out;
    int64_t out_row;
} hn_ext_skinny;

/* The loops of convolutions. */
typedef struct hn_ext_conv_kernels {
    void (*gather)(const hn_ext_gather *g);
    void (*plane)(const hn_ext_plane *p);
    /* Elements 0, 2 .. and 1, 3 .. of `count` apart. */
    void (*split)(const float *in, int64_t count, float *even, float *odd);
    void (*strip)(const hn_ext_strip *p);
    void (*winograd_in)(const hn_ext_winograd_in *w);
    void (*winograd_out)(const hn_ext_winograd_out *w);
} hn_ext_conv_kernels;

typedef struct hn_ext_kernels {
    const char *name;
    int tile_rows, tile_cols, lanes;
    void (*tile)(const hn_ext_tile *t);
    /* sums[tile_rows][tile_cols / 2] += a[k][tile_rows] * b[k][tile_cols / 2]; rows of sums are
     * sums_row apart. */
    void (*tile_f64)(int64_t k, const double *a, const double *b, double *sums, int64_t sums_row);
    void (*column)(const hn_ext_column *t);
    void (*pack)(const hn_ext_pack *p);
    const hn_ext_conv_kernels *conv;
    void (*softmax)(const hn_ext_softmax *s);
    /* x[rows][tile_cols], column by column times factor[col], to out[col * out_row + row] for col <
     * cols. */
    void (*transpose)(const float *x, int64_t rows, int64_t cols, const float *factor, float *out,
                      int64_t out_row);
    /* x[rows][tile_cols], column by column times factor[col], in place. */
    void (*scale)(float *x, int64_t rows, const float *factor);
    void (*dots)(const hn_ext_skinny *f);
    void (*combine)(const hn_ext_skinny *f);
    /* x becomes e^(x - its maximum), or 0 where x is -inf; returns the sum. A NaN is no maximum,
     * but the sum is NaN then. */
    float (*weights)(float *x, int64_t count, float *out_max);
    /* scores += mask; one whose mask is -inf is -inf, even when it is NaN. */
    void (*mask)(float *scores, const float *mask, int64_t count);
    /* weights times the factor; changes become those times (change - dot). Both are 0 where the
     * weight is 0. */
    void (*gradient)(float *weights, float *changes, int64_t count, float factor, float dot);
    void (*epilogue)(hn_epilogue epilogue, float *x, int64_t count); /* in place */
    /* bf16 or f16; to the nearest, ties to even. */
    void (*from_half)(bool is_bf16, const uint16_t *in, float *out, int64_t count);
    void (*to_half)(bool is_bf16, const float *in, uint16_t *out, int64_t count);
} hn_ext_kernels;

/* The best table for this processor. Threads: any. */
const hn_ext_kernels *hn_ext_kernels_get(void);
/* All tables that this processor can run, best first; for tests and measurements. */
size_t hn_ext_kernels_list(const hn_ext_kernels *out[3]);

#endif
