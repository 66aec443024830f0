/* strip_body.h: depthwise convolutions of 3 x 3 and 5 x 5 straight from the input, for one
 * instruction set. Included by kernels_body.h.
 *
 * What limits them: two multiplications, but also two loads of a vector in a cycle. A block of
 * outputs, one vector wide, takes one column of the kernel after the other: the column's weights
 * stay in registers while the rows of inputs go by, and each of these is loaded once for all the
 * rows of outputs that it goes into. With 7 rows of outputs and 5 x 5 that is 80 loads for 175
 * multiplications; with weights as operands in memory it was 230. */

/* Elements j, j + 2 ... of 2 * HN_LANES floats, j = 0 or 1, in the order of hn_ext_strip_lane: one
 * shuffle instead of three. */
HN_INLINE vec load_pairs(const float *p, const int j) {
    vec a = vec_load(p), b = vec_load(p + HN_LANES);
#if HN_LANES == 4
    return j == 0 ? __builtin_shufflevector(a, b, 0, 2, 4, 6)
                  : __builtin_shufflevector(a, b, 1, 3, 5, 7);
#elif HN_LANES == 8
    return j == 0 ? __builtin_shufflevector(a, b, 0, 2, 8, 10, 4, 6, 12, 14)
                  : __builtin_shufflevector(a, b, 1, 3, 9, 11, 5, 7, 13, 15);
#else
    return j == 0 ? __builtin_shufflevector(a, b, 0, 2, 16, 18, 4, 6, 20, 22, 8, 10, 24, 26, 12, 14,
                                            28, 30)
                  : __builtin_shufflevector(a, b, 1, 3, 17, 19, 5, 7, 21, 23, 9, 11, 25, 27, 13, 15,
                                            29, 31);
#endif
}

/* From the order of load_pairs to that of memory. */
HN_INLINE vec order_pairs(vec x) {
#if HN_LANES == 4
    return x;
#elif HN_LANES == 8
    typedef double pairs __attribute__((vector_size(32)));
    return (vec)__builtin_shufflevector((pairs)x, (pairs)x, 0, 2, 1, 3);
#else
    typedef double pairs __attribute__((vector_size(64)));
    return (vec)__builtin_shufflevector((pairs)x, (pairs)x, 0, 2, 4, 6, 1, 3, 5, 7);
#endif
}

static void split(const float *in, int64_t count, float *even, float *odd) {
    int64_t j = 0;
    for (; j + 2 * HN_LANES <= count; j += 2 * HN_LANES) {
        vec_store(even + j / 2, order_pairs(load_pairs(in + j, 0)));
        vec_store(odd + j / 2, order_pairs(load_pairs(in + j, 1)));
    }
    for (; j < count; j++) (j % 2 ? odd : even)[j / 2] = in[j];
}

#ifndef HN_EXT_WITHOUT_DEPTHWISE
/* Rows that are shorter than a vector: what one has too much is overwritten by the next ones, if
 * these are the block's. */
static __attribute__((noinline)) void strip_store_narrow(const hn_ext_strip *p, float *out,
                                                         const float *lanes, int height) {
    for (int r = 0; r < height; r++, out += p->out_row, lanes += HN_LANES) {
        if (p->out_row == p->cols && (height - r) * p->cols >= HN_LANES)
            vec_store(out, vec_load(lanes));
        else
            for (int64_t k = 0; k < p->cols; k++) out[k] = lanes[k];
    }
}

enum { STRIP_MAX_ROWS = 6 * 2 + 5 }; /* of inputs, for 7 rows of outputs */

/* Constants where these functions are inlined: then the accumulators are registers. */
typedef struct strip_shape {
    int height; /* rows of outputs at once */
    int kernel, stride;
    bool split; /* stride 2: the odd columns of a row of inputs are behind the even ones */
} strip_shape;

/* What the blocks of some rows of outputs share. */
typedef struct strip_rows {
    const float *in[STRIP_MAX_ROWS]; /* rows of inputs, less `left` */
    int64_t half;                    /* split: where the odd columns of a row begin */
    const float *weights;
    float bias;
    float *out;
} strip_rows;

/* Which block: its first column, and its masks. NULL: no column is outside. */
typedef struct strip_place {
    int64_t x;
    const int32_t *masks;
} strip_place;

/* The inputs of a vector of outputs for column j of the kernel. */
HN_INLINE vec strip_load(const float *in, int64_t half, const int j, const strip_shape h) {
    if (h.split) return vec_load(in + j % 2 * half + j / 2);
    return h.stride == 1 ? vec_load(in + j) : load_pairs(in + j / 2 * 2, j % 2);
}

/* Columns [first, first + count) of the kernel: acc += weights x inputs. */
HN_INLINE void strip_columns(const strip_rows *s, const strip_place at, vec acc[], const int first,
                             const int count, const strip_shape h) {
    vec w[5][2];
    _Pragma("GCC unroll 5") for (int tap = 0; tap < h.kernel; tap++) {
        const float *row = s->weights + tap * h.kernel + first;
        _Pragma("GCC unroll 2") for (int j = 0; j < count; j++) {
            if (first + j < h.kernel) w[tap][j] = vec_splat(row[j]);
        }
    }
    _Pragma("GCC unroll 20") for (int i = 0; i < (h.height - 1) * h.stride + h.kernel; i++) {
        const float *in = s->in[i] + (h.split ? at.x : at.x * h.stride);
        _Pragma("GCC unroll 2") for (int k = 0; k < count; k++) {
            const int j = first + k;
            if (j >= h.kernel) continue;
            vec v = strip_load(in, s->half, j, h);
            if (at.masks) v = (vec)((ivec)v & *(const ivec_unaligned *)(at.masks + j * HN_LANES));
            __asm__("" : "+x"(v)); /* in this order: the registers suffice for it */
            _Pragma("GCC unroll 7") for (int r = 0; r < h.height; r++) {
                const int tap = i - r * h.stride;
                if (tap >= 0 && tap < h.kernel) acc[r] += v * w[tap][k];
            }
        }
    }
}

HN_INLINE void strip_finish(const hn_ext_strip *p, vec acc[], float *out, const strip_shape h) {
    const bool in_pairs = h.stride == 2 && !h.split;
    if (p->epilogue == HN_EPILOGUE_RELU) {
        _Pragma("GCC unroll 7") for (int r = 0; r < h.height; r++) acc[r] = vec_relu(acc[r]);
    } else if (p->epilogue == HN_EPILOGUE_HARDSWISH) {
        _Pragma("GCC unroll 7") for (int r = 0; r < h.height; r++) acc[r] = vec_hardswish(acc[r]);
    }
    if (p->cols < HN_LANES) {
        float lanes[7 * HN_LANES];
        _Pragma("GCC unroll 7") for (int r = 0; r < h.height; r++)
            vec_store(lanes + r * HN_LANES, in_pairs ? order_pairs(acc[r]) : acc[r]);
        strip_store_narrow(p, out, lanes, h.height);
        return;
    }
    _Pragma("GCC unroll 7") for (int r = 0; r < h.height; r++, out += p->out_row)
        vec_store(out, in_pairs ? order_pairs(acc[r]) : acc[r]);
}

/* height x HN_LANES outputs. */
HN_INLINE void strip_block(const hn_ext_strip *p, const strip_rows *s, const strip_place at,
                           const strip_shape h) {
    vec acc[7];
    _Pragma("GCC unroll 7") for (int r = 0; r < h.height; r++) acc[r] = vec_splat(s->bias);
    /* columns that come from the same loads, if there are registers */
    const int together = h.stride == 2 && !h.split && h.kernel == 3 ? 2 : 1;
    _Pragma("GCC unroll 5") for (int j = 0; j < h.kernel; j += together)
        strip_columns(s, at, acc, j, together, h);
    strip_finish(p, acc, s->out + at.x, h);
}

/* What a later call reads, brought near meanwhile. */
HN_INLINE void strip_fetch(const float *in, int64_t floats) {
    for (int64_t i = 0; i < floats; i += 16) __builtin_prefetch(in + i, 0, 3);
}

/* Rows of outputs of channel c, from row y on. */
HN_INLINE strip_rows strip_rows_at(const hn_ext_strip *p, int64_t c, int64_t y,
                                   const strip_shape h) {
    return (strip_rows){.weights = p->weights + c * h.kernel * h.kernel,
                        .bias = p->bias ? p->bias[c] : 0,
                        .out = p->out + c * p->out_plane + y * p->out_row};
}

/* The first column of block b: the last one overlaps the one before. */
HN_INLINE int64_t strip_block_start(const hn_ext_strip *p, int64_t b, int64_t blocks) {
    const int64_t last = p->cols >= HN_LANES ? p->cols - HN_LANES : 0;
    return b + 1 < blocks ? b * HN_LANES : last;
}

/* Rows y .. of channel c. The rows of inputs that come next are fetched, a part with each block:
 * jumps from row to row are nothing that a processor follows by itself. */
HN_INLINE void strip_row(const hn_ext_strip *p, int64_t c, int64_t y, const strip_shape h) {
    const int64_t blocks = (p->cols + HN_LANES - 1) / HN_LANES, first = y * h.stride - p->top;
    const float *in = p->in + c * p->in_plane;
    strip_rows s = strip_rows_at(p, c, y, h);
    _Pragma("GCC unroll 20") for (int i = 0; i < (h.height - 1) * h.stride + h.kernel; i++) {
        const bool inside = first + i >= 0 && first + i < p->in_rows;
        s.in[i] = (inside ? in + (first + i) * p->in_row : p->zeros) - p->left;
    }
    const int64_t next_row = first + (h.height - 1) * h.stride + h.kernel;
    const float *next = y + h.height < p->rows ? in + next_row * p->in_row : in + p->in_plane;
    const int64_t ahead = (h.height * h.stride * p->in_row / blocks + 15) / 16 * 16;
    /* Two loops: in one, a compiler moves the loads of both cases in front of the branch, and out
     * of the registers. */
    for (int64_t b = p->plain[0]; b < p->plain[1]; b++, next += ahead) {
        strip_fetch(next, ahead);
        strip_block(p, &s, (strip_place){strip_block_start(p, b, blocks), NULL}, h);
    }
    for (int64_t b = 0; b < blocks; b++) {
        if (b == p->plain[0] && p->plain[0] < p->plain[1]) b = p->plain[1];
        if (b == blocks) break;
        strip_fetch(next, ahead);
        next += ahead;
        const int32_t *masks = p->masks + b * h.kernel * HN_LANES;
        strip_block(p, &s, (strip_place){strip_block_start(p, b, blocks), masks}, h);
    }
}

/* The rows after row y: the last ones overlap those before. */
HN_INLINE int64_t strip_next_rows(const hn_ext_strip *p, int64_t y, const int height) {
    return y + 2 * height <= p->rows ? y + height : p->rows - height;
}

/* All planes. */
HN_INLINE void strip_all(const hn_ext_strip *p, const strip_shape h) {
    for (int64_t c = 0; c < p->planes; c++)
        for (int64_t y = 0;; y = strip_next_rows(p, y, h.height)) {
            strip_row(p, c, y, h);
            if (y + h.height >= p->rows) break;
        }
}

/* ---- small planes: copied with their border ---- */

/* -1 in the lanes l with l * step + first < count. */
HN_INLINE ivec strip_tail(int64_t count, int step, int first) {
    int32_t lanes[HN_LANES];
    for (int l = 0; l < HN_LANES; l++) lanes[l] = l * step + first < count ? -1 : 0;
    return *(const ivec_unaligned *)lanes;
}

/* A plane into one that has room for zeros all around; with stride 2 the even columns come first in
 * each row, then the odd ones. */
HN_INLINE void strip_copy_by(const hn_ext_strip *p, const float *in, float *out, const int stride) {
    const int64_t step = stride * HN_LANES, rest = (p->in_cols - 1) % step + 1,
                  whole = p->in_cols - rest;
    const ivec even = strip_tail(rest, stride, 0), odd = strip_tail(rest, stride, 1);
    out += p->top * p->padded_row;
    float *first = out + p->left, *second = first;
    if (stride == 2)
        first = out + (p->left % 2 ? p->half : 0) + p->left / 2,
        second = out + (p->left % 2 ? 0 : p->half) + (p->left + 1) / 2;
    for (int64_t y = 0; y < p->padded_rows;
         y++, in += p->in_row, first += p->padded_row, second += p->padded_row) {
        for (int64_t x = 0; x < whole; x += step) {
            vec_store(first + x / stride,
                      stride == 1 ? vec_load(in + x) : order_pairs(load_pairs(in + x, 0)));
            if (stride == 2) vec_store(second + x / stride, order_pairs(load_pairs(in + x, 1)));
        }
        const vec v = stride == 1 ? vec_load(in + whole) : order_pairs(load_pairs(in + whole, 0));
        vec_store(first + whole / stride, (vec)((ivec)v & even));
        if (stride == 2)
            vec_store(second + whole / stride,
                      (vec)((ivec)order_pairs(load_pairs(in + whole, 1)) & odd));
    }
}

/* Out of line: the copies exist once, not in each shape. */
static __attribute__((noinline)) void strip_copy_1(const hn_ext_strip *p, const float *in,
                                                   float *out) {
    strip_copy_by(p, in, out, 1);
}
static __attribute__((noinline)) void strip_copy_2(const hn_ext_strip *p, const float *in,
                                                   float *out) {
    strip_copy_by(p, in, out, 2);
}
HN_INLINE void strip_copy(const hn_ext_strip *p, const float *in, float *out, const int stride) {
    if (stride == 1) strip_copy_1(p, in, out);
    else strip_copy_2(p, in, out);
}

/* Channel c, whose copy is at `in`. */
HN_INLINE void strip_padded_plane(const hn_ext_strip *p, const float *in, int64_t c,
                                  const strip_shape h) {
    const int64_t last = p->cols >= HN_LANES ? p->cols - HN_LANES : 0;
    for (int64_t y = 0;; y = strip_next_rows(p, y, h.height)) {
        strip_rows s = strip_rows_at(p, c, y, h);
        s.half = p->half;
        _Pragma("GCC unroll 20") for (int i = 0; i < (h.height - 1) * h.stride + h.kernel; i++)
            s.in[i] = in + (y * h.stride + i) * p->padded_row;
        for (int64_t x = 0;; x = x + 2 * HN_LANES <= p->cols ? x + HN_LANES : last) {
            strip_block(p, &s, (strip_place){x, NULL}, h);
            if (x + HN_LANES >= p->cols) break;
        }
        if (y + h.height >= p->rows) break;
    }
}

/* One plane ahead: what was just stored is slow to load in other pieces. */
HN_INLINE void strip_padded(const hn_ext_strip *p, const strip_shape h) {
    strip_copy(p, p->in, p->padded, h.stride);
    for (int64_t c = 0; c < p->planes; c++) {
        float *next = p->padded + (c + 1) % 2 * p->padded_plane;
        if (c + 1 < p->planes) strip_copy(p, p->in + (c + 1) * p->in_plane, next, h.stride);
        if (c + 2 < p->planes) strip_fetch(p->in + (c + 2) * p->in_plane, p->in_rows * p->in_row);
        strip_padded_plane(p, p->padded + c % 2 * p->padded_plane, c, h);
    }
}

/* One function for each shape: accumulators must be registers. */
#define STRIP_SHAPE(NAME, HEIGHT, KERNEL, STRIDE)                                                  \
    static __attribute__((noinline)) void NAME(const hn_ext_strip *p) {                            \
        strip_all(p, (strip_shape){HEIGHT, KERNEL, STRIDE, false});                                \
    }
#define STRIP_PADDED(NAME, HEIGHT, KERNEL, STRIDE)                                                 \
    static __attribute__((noinline)) void NAME(const hn_ext_strip *p) {                            \
        strip_padded(p, (strip_shape){HEIGHT, KERNEL, STRIDE, STRIDE == 2});                       \
    }

#if HN_EXT_HAS_STRIPS(3, 1, 0)
STRIP_SHAPE(strip_3_1_high, 7, 3, 1)
STRIP_SHAPE(strip_3_1_four, 4, 3, 1)
#else
#define strip_3_1_high NULL
#define strip_3_1_four NULL
#endif
#if HN_EXT_HAS_STRIPS(3, 1, 1)
STRIP_PADDED(strip_3_1_padded_high, 7, 3, 1)
STRIP_PADDED(strip_3_1_padded_four, 4, 3, 1)
#else
#define strip_3_1_padded_high NULL
#define strip_3_1_padded_four NULL
#endif
#if HN_EXT_HAS_STRIPS(3, 1, 0) || HN_EXT_HAS_STRIPS(3, 1, 1)
STRIP_SHAPE(strip_3_1_one, 1, 3, 1)
#else
#define strip_3_1_one NULL
#endif
#if HN_EXT_HAS_STRIPS(3, 2, 0)
STRIP_SHAPE(strip_3_2_high, 7, 3, 2)
STRIP_SHAPE(strip_3_2_four, 4, 3, 2)
#else
#define strip_3_2_high NULL
#define strip_3_2_four NULL
#endif
#if HN_EXT_HAS_STRIPS(3, 2, 1)
STRIP_PADDED(strip_3_2_padded_high, 7, 3, 2)
STRIP_PADDED(strip_3_2_padded_four, 4, 3, 2)
#else
#define strip_3_2_padded_high NULL
#define strip_3_2_padded_four NULL
#endif
#if HN_EXT_HAS_STRIPS(3, 2, 0) || HN_EXT_HAS_STRIPS(3, 2, 1)
STRIP_SHAPE(strip_3_2_one, 1, 3, 2)
#else
#define strip_3_2_one NULL
#endif
#if HN_EXT_HAS_STRIPS(5, 1, 0)
STRIP_SHAPE(strip_5_1_high, 7, 5, 1)
STRIP_SHAPE(strip_5_1_four, 4, 5, 1)
#else
#define strip_5_1_high NULL
#define strip_5_1_four NULL
#endif
#if HN_EXT_HAS_STRIPS(5, 1, 1)
STRIP_PADDED(strip_5_1_padded_high, 7, 5, 1)
STRIP_PADDED(strip_5_1_padded_four, 4, 5, 1)
#else
#define strip_5_1_padded_high NULL
#define strip_5_1_padded_four NULL
#endif
#if HN_EXT_HAS_STRIPS(5, 1, 0) || HN_EXT_HAS_STRIPS(5, 1, 1)
STRIP_SHAPE(strip_5_1_one, 1, 5, 1)
#else
#define strip_5_1_one NULL
#endif
#if HN_EXT_HAS_STRIPS(5, 2, 0)
STRIP_SHAPE(strip_5_2_high, 7, 5, 2)
STRIP_SHAPE(strip_5_2_four, 4, 5, 2)
#else
#define strip_5_2_high NULL
#define strip_5_2_four NULL
#endif
#if HN_EXT_HAS_STRIPS(5, 2, 1)
STRIP_PADDED(strip_5_2_padded_high, 7, 5, 2)
STRIP_PADDED(strip_5_2_padded_four, 4, 5, 2)
#else
#define strip_5_2_padded_high NULL
#define strip_5_2_padded_four NULL
#endif
#if HN_EXT_HAS_STRIPS(5, 2, 0) || HN_EXT_HAS_STRIPS(5, 2, 1)
STRIP_SHAPE(strip_5_2_one, 1, 5, 2)
#else
#define strip_5_2_one NULL
#endif

/* ---- narrow planes ---- */

#include "ops/cpu/conv/narrow_body.h"

/* ---- all ---- */

static void strip(const hn_ext_strip *p) {
    static void (*const shapes[2][2][5])(const hn_ext_strip *p) = {
        {{strip_3_1_one, strip_3_1_four, strip_3_1_high, strip_3_1_padded_four,
          strip_3_1_padded_high},
         {strip_3_2_one, strip_3_2_four, strip_3_2_high, strip_3_2_padded_four,
          strip_3_2_padded_high}},
        {{strip_5_1_one, strip_5_1_four, strip_5_1_high, strip_5_1_padded_four,
          strip_5_1_padded_high},
         {strip_5_2_one, strip_5_2_four, strip_5_2_high, strip_5_2_padded_four,
          strip_5_2_padded_high}}};
    if (p->rows == 0 || p->cols == 0 || p->planes == 0) return;
    if (p->padded && p->narrow) narrow(p);
    else
        shapes[p->kernel == 5][p->stride - 1]
              [p->rows < 4 ? 0 : (p->padded ? 3 : 1) + (p->rows % 7 == 0)](p);
    if (p->epilogue == HN_EPILOGUE_RELU || p->epilogue == HN_EPILOGUE_HARDSWISH) return;
    for (int64_t c = 0; c < p->planes; c++)
        if (p->out_row == p->cols)
            epilogue_rows(p->epilogue, p->out + c * p->out_plane, 1, 0, p->rows * p->cols);
        else epilogue_rows(p->epilogue, p->out + c * p->out_plane, p->rows, p->out_row, p->cols);
}
#endif
