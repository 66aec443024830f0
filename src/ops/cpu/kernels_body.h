/* kernels_body.h: the kernels of kernels.h, for one instruction set.
 *
 * Before: HN_LANES, HN_TILE_ROWS (rows of the register tile; it is two vectors wide),
 * HN_KERNELS_TABLE and HN_KERNELS_NAME. The tile fills the registers: rows x 2 accumulators, 2
 * vectors of b, 1 broadcast of a.
 *
 * This takes longest in the build of a source project, which makes two objects of it, side by side:
 * HN_EXT_PART 1 is all but the loops of convolutions, HN_EXT_PART 2 those alone. */
#include "ops/cpu/kernels.h"
#include "ops/cpu/vec_body.h"

#ifndef HN_EXT_PART
#define HN_EXT_PART 0
#endif

enum { TILE_COLS = 2 * HN_LANES };

typedef float vec8 __attribute__((vector_size(32)));
typedef float vec8_unaligned __attribute__((vector_size(32), aligned(4), may_alias));

HN_INLINE void transpose_8x8(vec8 r[8]) {
    vec8 t[8];
    _Pragma("GCC unroll 4") for (int i = 0; i < 8; i += 2) {
        t[i] = __builtin_shufflevector(r[i], r[i + 1], 0, 8, 1, 9, 4, 12, 5, 13);
        t[i + 1] = __builtin_shufflevector(r[i], r[i + 1], 2, 10, 3, 11, 6, 14, 7, 15);
    }
    vec8 u[8];
    _Pragma("GCC unroll 2") for (int i = 0; i < 8; i += 4) {
        u[i] = __builtin_shufflevector(t[i], t[i + 2], 0, 1, 8, 9, 4, 5, 12, 13);
        u[i + 1] = __builtin_shufflevector(t[i], t[i + 2], 2, 3, 10, 11, 6, 7, 14, 15);
        u[i + 2] = __builtin_shufflevector(t[i + 1], t[i + 3], 0, 1, 8, 9, 4, 5, 12, 13);
        u[i + 3] = __builtin_shufflevector(t[i + 1], t[i + 3], 2, 3, 10, 11, 6, 7, 14, 15);
    }
    _Pragma("GCC unroll 4") for (int i = 0; i < 4; i++) {
        r[i] = __builtin_shufflevector(u[i], u[i + 4], 0, 1, 2, 3, 8, 9, 10, 11);
        r[i + 4] = __builtin_shufflevector(u[i], u[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);
    }
}

typedef float vec4 __attribute__((vector_size(16)));
typedef float vec4_unaligned __attribute__((vector_size(16), aligned(4), may_alias));

#if HN_EXT_PART != 2
#include "ops/cpu/gemm/tile_body.h"

/* The first `count` (4 to 7) floats. */
HN_INLINE void store_some(float *out, const vec8 *v, const int64_t count) {
    *(vec4_unaligned *)out = __builtin_shufflevector(*v, *v, 0, 1, 2, 3);
    vec4 high = __builtin_shufflevector(*v, *v, 4, 5, 6, 7);
    _Pragma("GCC unroll 3") for (int64_t i = 4; i < count; i++) out[i] = high[i - 4];
}

/* `cols` columns from `in` on to a panel, when k is contiguous: 8 x 8 blocks. Returns how many k it
 * did. */
HN_INLINE int64_t pack_transposed(const hn_ext_pack *p, const float *in, float *out,
                                  const int64_t cols) {
    const int64_t width = p->width;
    int64_t k = 0;
    for (; k + 8 <= p->k; k += 8) {
        vec8 r[8];
        _Pragma("GCC unroll 8") for (int64_t j = 0; j < 8; j++) {
            r[j] = (vec8){0};
            if (j < cols) r[j] = *(const vec8_unaligned *)(in + j * p->in_col + k);
        }
        transpose_8x8(r);
        /* what spills into the next row is overwritten by it */
        if (cols == 8 || (width < 8 && k + 8 < p->k)) {
            _Pragma("GCC unroll 8") for (int64_t i = 0; i < 8; i++) *
                (vec8_unaligned *)(out + (k + i) * width) = r[i];
            continue;
        }
        _Pragma("GCC unroll 8") for (int64_t i = 0; i < 8; i++)
            store_some(out + (k + i) * width, &r[i], cols);
    }
    return k;
}

/* cols <= 8 of one panel. */
static void pack_columns(const hn_ext_pack *p, const float *in, float *out, int64_t cols) {
    int64_t k = 0;
    if (p->in_k == 1) {
        if (cols == 8) k = pack_transposed(p, in, out, 8);
        if (cols == 6) k = pack_transposed(p, in, out, 6);
        if (cols == 5) k = pack_transposed(p, in, out, 5);
        if (cols == 4) k = pack_transposed(p, in, out, 4);
    }
    for (; k < p->k; k++)
        for (int64_t j = 0; j < cols; j++) out[k * p->width + j] = in[k * p->in_k + j * p->in_col];
}

/* `cols` (at least 4) floats of each row, in pieces of 8 or of 4; the last piece ends where the row
 * does. */
HN_INLINE void pack_pieces(const hn_ext_pack *p, const float *in, float *out, const int64_t cols,
                           const bool by_8, const bool scaled) {
    const int64_t piece = by_8 ? 8 : 4;
    for (int64_t k = 0; k < p->k; k++, in += p->in_k, out += p->width) {
        const float factor = scaled ? p->scale[k * p->scale_k] : 1;
        for (int64_t j = 0, next; j < cols; j = next) {
            if (by_8) {
                vec8 v = *(const vec8_unaligned *)(in + j);
                *(vec8_unaligned *)(out + j) = scaled ? v * factor : v;
            } else {
                vec4 v = *(const vec4_unaligned *)(in + j);
                *(vec4_unaligned *)(out + j) = scaled ? v * factor : v;
            }
            next = j + piece;
            if (next < cols && next + piece > cols) next = cols - piece;
        }
    }
}

/* A panel of contiguous columns: the rows of a transposed matrix. */
static void pack_contiguous(const hn_ext_pack *p, const float *in, float *out, int64_t cols) {
    if (cols >= 8 && p->scale) pack_pieces(p, in, out, cols, true, true);
    else if (cols >= 8) pack_pieces(p, in, out, cols, true, false);
    else if (p->scale) pack_pieces(p, in, out, cols, false, true);
    else pack_pieces(p, in, out, cols, false, false);
}

/* Whole panels of contiguous columns, `panels` of them side by side: long reads, as rows are often
 * pages apart. */
HN_INLINE void pack_rows(const hn_ext_pack *p, const float *in, float *out, const int panels,
                         const bool scaled) {
    for (int64_t k = 0; k < p->k; k++) {
        const vec scale = vec_splat(scaled ? p->scale[k * p->scale_k] : 1);
        _Pragma("GCC unroll 4") for (int i = 0; i < panels; i++) {
            vec low = vec_load(in + i * TILE_COLS), high = vec_load(in + i * TILE_COLS + HN_LANES);
            if (scaled) low *= scale, high *= scale;
            vec_store(out + i * p->out_panel, low);
            vec_store(out + i * p->out_panel + HN_LANES, high);
        }
        in += p->in_k, out += TILE_COLS;
    }
}

static void pack_any(const hn_ext_pack *p, const float *in, float *out, int64_t cols) {
    for (int64_t j = 0; j < cols; j += 8)
        pack_columns(p, in + j * p->in_col, out + j, cols - j < 8 ? cols - j : 8);
    for (int64_t k = 0; k < p->k && p->scale; k++) {
        const float factor = p->scale[k * p->scale_k];
        for (int64_t j = 0; j < cols; j++) out[k * p->width + j] *= factor;
    }
}

static void pack_panel(const hn_ext_pack *p, const float *in, float *out, int64_t cols) {
    if (p->in_col == 1 && cols >= 4) pack_contiguous(p, in, out, cols);
    else pack_any(p, in, out, cols);
    /* a tile reads no more rows than it has, but whole vectors of columns */
    if (p->width != TILE_COLS) return;
    for (int64_t j = cols; j < TILE_COLS; j++)
        for (int64_t k = 0; k < p->k; k++) out[k * TILE_COLS + j] = 0;
}

static void pack(const hn_ext_pack *p) {
    int64_t j = 0;
    float *out = p->out;
    if (p->in_col == 1 && p->width == TILE_COLS) {
        for (; j + 4 * TILE_COLS <= p->cols; j += 4 * TILE_COLS, out += 4 * p->out_panel) {
            if (p->scale) pack_rows(p, p->in + j, out, 4, true);
            else pack_rows(p, p->in + j, out, 4, false);
        }
        for (; j + TILE_COLS <= p->cols; j += TILE_COLS, out += p->out_panel) {
            if (p->scale) pack_rows(p, p->in + j, out, 1, true);
            else pack_rows(p, p->in + j, out, 1, false);
        }
    }
    for (; j < p->cols; j += p->width, out += p->out_panel)
        pack_panel(p, p->in + j * p->in_col, out, p->cols - j < p->width ? p->cols - j : p->width);
}

/* The sum of the lanes. */
HN_INLINE float vec_total(vec v) {
#if HN_LANES == 16
    const vec8 half = __builtin_shufflevector(v, v, 0, 1, 2, 3, 4, 5, 6, 7) +
                      __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15);
#elif HN_LANES == 8
    const vec8 half = v;
#endif
#if HN_LANES == 4
    const vec4 x = v;
#else
    const vec4 x = __builtin_shufflevector(half, half, 0, 1, 2, 3) +
                   __builtin_shufflevector(half, half, 4, 5, 6, 7);
#endif
    const vec4 y = x + __builtin_shufflevector(x, x, 2, 3, 0, 1);
    return y[0] + y[1];
}

#endif

/* Operations that a project does without (ext.h) leave their loops out: they are most of the time
 * to compile this. */
#ifndef HN_EXT_WITHOUT_CONV
#if HN_EXT_PART == 1
extern const hn_ext_conv_kernels hn_ext_conv_part;
#else
#include "ops/cpu/conv/body.h"
#include "ops/cpu/conv/strip_body.h"

#if HN_EXT_PART == 0
static
#endif
    const hn_ext_conv_kernels hn_ext_conv_part = {
        .gather = gather,
        .split = split,
#ifndef HN_EXT_WITHOUT_DEPTHWISE
        .plane = plane,
        .strip = strip,
#endif
#ifndef HN_EXT_WITHOUT_WINOGRAD
        .winograd_in = winograd_in,
        .winograd_out = winograd_out,
#endif
};
#endif
#endif

#if HN_EXT_PART != 2
#if !defined(HN_EXT_WITHOUT_CONV) || !defined(HN_EXT_WITHOUT_ATTENTION)
#include "ops/cpu/gemm/column_body.h"
#endif
#ifndef HN_EXT_WITHOUT_ATTENTION
#include "ops/cpu/attention/body.h"
#endif
#ifndef HN_EXT_WITHOUT_ATTENTION_BACKWARD
#include "ops/cpu/attention/backward_body.h"
#endif
#include "ops/cpu/half_body.h"
#if !defined(HN_EXT_WITHOUT_MATMUL) || !defined(HN_EXT_WITHOUT_ATTENTION)
#include "ops/cpu/gemm/skinny_body.h"
#endif
#ifndef HN_EXT_WITHOUT_MATMUL_F64
#include "ops/cpu/gemm/f64_body.h"
#endif

const hn_ext_kernels HN_KERNELS_TABLE = {
    .name = HN_KERNELS_NAME,
    .tile_rows = HN_TILE_ROWS,
    .tile_cols = TILE_COLS,
    .lanes = HN_LANES,
    .tile = tile,
    .pack = pack,
#ifndef HN_EXT_WITHOUT_MATMUL_F64
    .tile_f64 = tile_f64,
#endif
#if !defined(HN_EXT_WITHOUT_CONV) || !defined(HN_EXT_WITHOUT_ATTENTION)
    .column = column,
#endif
#ifndef HN_EXT_WITHOUT_CONV
    .conv = &hn_ext_conv_part,
#endif
#ifndef HN_EXT_WITHOUT_ATTENTION
    .softmax = softmax,
    .transpose = transpose,
    .scale = scale,
    .weights = weights_of,
#endif
#ifndef HN_EXT_WITHOUT_ATTENTION_BACKWARD
    .mask = mask_scores,
    .gradient = gradient,
#endif
#if !defined(HN_EXT_WITHOUT_MATMUL) || !defined(HN_EXT_WITHOUT_ATTENTION)
    .dots = dots,
    .combine = combine,
#endif
    .epilogue = epilogue_apply,
#ifndef HN_EXT_WITHOUT_HALF
    .from_half = from_half,
    .to_half = to_half,
#endif
};
#endif
