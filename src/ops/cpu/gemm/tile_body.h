/* tile_body.h: one register tile of a matrix product, for one instruction set. Included by
 * kernels_body.h. */

/* The first `count` floats, 1 to 8. */
HN_INLINE void add_count(vec8 *v, const float *p, int count) {
    float lanes[8] = {0};
    for (int i = 0; i < count; i++) lanes[i] = p[i];
    *v += *(const vec8_unaligned *)(count == 8 ? p : lanes);
}
HN_INLINE void store_count(float *p, const vec8 *of, int count) {
    vec8 v = *of;
    typedef float vec2_unaligned __attribute__((vector_size(8), aligned(4), may_alias));
    if (count == 8) {
        *(vec8_unaligned *)p = v;
        return;
    }
    int at = 0;
    if (count >= 4) {
        *(vec4_unaligned *)p = __builtin_shufflevector(v, v, 0, 1, 2, 3);
        v = __builtin_shufflevector(v, v, 4, 5, 6, 7, 4, 5, 6, 7);
        at = 4;
    }
    if (count & 2) {
        *(vec2_unaligned *)(p + at) = __builtin_shufflevector(v, v, 0, 1);
        v = __builtin_shufflevector(v, v, 2, 3, 2, 3, 2, 3, 2, 3);
        at += 2;
    }
    if (count & 1) p[at] = v[0];
}

/* Whether the tile's columns, not its rows, are contiguous in c (and in the residual). */
HN_INLINE bool tile_is_transposed(const hn_ext_tile *t) {
    return t->c_row == 1 && t->c_col != 1 && (!t->bias || t->bias_row == 0) &&
           (!t->residual || t->residual_row == 1);
}

/* 8 columns of the tile, as vectors along the rows, from row i and column j on. */
typedef struct tile_block {
    int i, j, rows, cols;
} tile_block;

/* Adds what there is in the layout of c. */
HN_INLINE void tile_block_add(const hn_ext_tile *t, const tile_block b, vec8 r[8]) {
    const float *c = t->c + b.i + b.j * t->c_col;
    _Pragma("GCC unroll 8") for (int j = 0; j < 8; j++) {
        if (j >= b.cols) break;
        if (t->accumulate) add_count(&r[j], c + j * t->c_col, b.rows);
        if (t->bias) r[j] += t->bias[(b.j + j) * t->bias_col];
        if (t->residual) add_count(&r[j], t->residual + b.i + (b.j + j) * t->residual_col, b.rows);
    }
}

HN_INLINE void tile_block_apply_epilogue(hn_epilogue epilogue, vec8 r[8]) {
    float lanes[64] __attribute__((aligned(32)));
    _Pragma("GCC unroll 8") for (int j = 0; j < 8; j++) * (vec8_unaligned *)(lanes + j * 8) = r[j];
    if (epilogue == HN_EPILOGUE_RELU)
        for (int l = 0; l < 64; l += HN_LANES) vec_store(lanes + l, vec_relu(vec_load(lanes + l)));
    else if (HN_EXT_HAS_EPILOGUE(HN_EPILOGUE_HARDSWISH) && epilogue == HN_EPILOGUE_HARDSWISH)
        for (int l = 0; l < 64; l += HN_LANES)
            vec_store(lanes + l, vec_hardswish(vec_load(lanes + l)));
    else epilogue_rows(epilogue, lanes, 1, 0, 64);
    _Pragma("GCC unroll 8") for (int j = 0; j < 8; j++) {
        r[j] = *(const vec8_unaligned *)(lanes + j * 8);
    }
}

HN_INLINE void tile_block_finish(const hn_ext_tile *t, const tile_block b, const float *tile) {
    vec8 r[8];
    _Pragma("GCC unroll 8") for (int i = 0; i < 8; i++) {
        r[i] = (vec8){0};
        if (i < b.rows) r[i] = *(const vec8_unaligned *)(tile + (b.i + i) * TILE_COLS + b.j);
    }
    transpose_8x8(r);
    tile_block_add(t, b, r);
    if (t->epilogue) tile_block_apply_epilogue(t->epilogue, r);
    float *c = t->c + b.i + b.j * t->c_col;
    _Pragma("GCC unroll 8") for (int j = 0; j < 8; j++) {
        if (j >= b.cols) break;
        store_count(c + j * t->c_col, &r[j], b.rows);
    }
}

/* 8 x 8 at a time. */
static __attribute__((noinline)) void tile_finish_transposed(const hn_ext_tile *t,
                                                             const float *tile) {
    for (int j = 0; j < t->cols; j += 8)
        for (int i = 0; i < t->rows; i += 8) {
            const int rows = t->rows - i < 8 ? t->rows - i : 8,
                      cols = t->cols - j < 8 ? t->cols - j : 8;
            tile_block_finish(t, (tile_block){i, j, rows, cols}, tile);
        }
}

/* c += through a buffer: columns that do not fill vectors, or c not contiguous along columns. */
static __attribute__((noinline)) void tile_finish(const hn_ext_tile *t, float *tile) {
    for (int i = 0; i < t->rows; i++) {
        float *row = tile + i * TILE_COLS, *c = t->c + i * t->c_row;
        if (t->accumulate)
            for (int j = 0; j < t->cols; j++) row[j] += c[j * t->c_col];
        if (t->bias)
            for (int j = 0; j < t->cols; j++) row[j] += t->bias[i * t->bias_row + j * t->bias_col];
        if (t->residual)
            for (int j = 0; j < t->cols; j++)
                row[j] += t->residual[i * t->residual_row + j * t->residual_col];
    }
    epilogue_rows(t->epilogue, tile, t->rows, TILE_COLS, t->cols);
    if (t->c_row == 1) {
        for (int j = 0; j < t->cols; j++)
            for (int i = 0; i < t->rows; i++) t->c[i + j * t->c_col] = tile[i * TILE_COLS + j];
        return;
    }
    for (int i = 0; i < t->rows; i++)
        for (int j = 0; j < t->cols; j++)
            t->c[i * t->c_row + j * t->c_col] = tile[i * TILE_COLS + j];
}

/* ---- accumulators ----
 *
 * rows x vecs vectors that stay in registers: where these functions are inlined, `rows` and `vecs`
 * are constants, and all their loops are unrolled. */

HN_INLINE void acc_clear(vec acc[][2], const int rows, const int vecs) {
    _Pragma("GCC unroll 16") for (int i = 0; i < rows; i++)
        _Pragma("GCC unroll 2") for (int v = 0; v < vecs; v++) acc[i][v] = vec_splat(0);
}

/* acc += rows of memory, `stride` apart. */
HN_INLINE void acc_add(vec acc[][2], const float *p, int64_t stride, const int rows,
                       const int vecs) {
    _Pragma("GCC unroll 16") for (int i = 0; i < rows; i++) {
        vec *x = acc[i];
        const float *y = p + i * stride;
        _Pragma("GCC unroll 2") for (int v = 0; v < vecs; v++) x[v] += vec_load(y + v * HN_LANES);
    }
}

HN_INLINE void acc_store(vec acc[][2], float *p, int64_t stride, const int rows, const int vecs) {
    _Pragma("GCC unroll 16") for (int i = 0; i < rows; i++)
        _Pragma("GCC unroll 2") for (int v = 0; v < vecs; v++)
            vec_store(p + i * stride + v * HN_LANES, acc[i][v]);
}

/* One k: acc += column of a (elements `stride` apart) x row of b. */
HN_INLINE void acc_multiply(vec acc[][2], const float *a, int64_t stride, const float *b,
                            const int rows, const int vecs) {
    vec bk[2];
    _Pragma("GCC unroll 2") for (int v = 0; v < vecs; v++) bk[v] = vec_load(b + v * HN_LANES);
    _Pragma("GCC unroll 16") for (int i = 0; i < rows; i++) {
        vec x = vec_splat(a[i * stride]);
        _Pragma("GCC unroll 2") for (int v = 0; v < vecs; v++) acc[i][v] += x * bk[v];
    }
}

/* Epilogues that are common, and cheaper here than in a second pass (epilogue_rows). */
HN_INLINE bool acc_has_epilogue(hn_epilogue e) {
    return e <= HN_EPILOGUE_RELU || e == HN_EPILOGUE_HARDSWISH;
}
HN_INLINE void acc_apply_epilogue(vec acc[][2], hn_epilogue e, const int rows, const int vecs) {
    if (e == HN_EPILOGUE_RELU) {
        _Pragma("GCC unroll 16") for (int i = 0; i < rows; i++)
            _Pragma("GCC unroll 2") for (int v = 0; v < vecs; v++) acc[i][v] = vec_relu(acc[i][v]);
    } else if (HN_EXT_HAS_EPILOGUE(HN_EPILOGUE_HARDSWISH) && e == HN_EPILOGUE_HARDSWISH) {
        _Pragma("GCC unroll 16") for (int i = 0; i < rows; i++) {
            vec *x = acc[i];
            _Pragma("GCC unroll 2") for (int v = 0; v < vecs; v++) x[v] = vec_hardswish(x[v]);
        }
    }
}

/* ---- the sums over k ---- */

/* Chains: sums that go on at the same time for each element. 8 independent additions hide the
 * latency of one. */
#define TILE_CHAINS(rows, vecs)                                                                    \
    ((rows) * (vecs) >= 8 || (rows)*2 > HN_TILE_ROWS   ? 1                                         \
     : (rows) * (vecs) >= 4 || (rows)*4 > HN_TILE_ROWS ? 2                                         \
                                                       : 4)

#ifdef HN_TILE_AVX2
#include "ops/cpu/gemm/tile_avx2.h"
#endif

/* What is left to multiply. */
typedef struct tile_source {
    const float *a, *b, *ahead; /* ahead: to prefetch */
    int64_t k;
} tile_source;

/* Both operands are packed: addresses are constants. Leaves at most one k. */
HN_INLINE void tile_sum_packed(const hn_ext_tile *t, tile_source *s, vec acc[][2], const int rows,
                               const int vecs) {
    const float *a = s->a, *b = s->b, *ahead = s->ahead;
    const int64_t ahead_step = t->prefetch_step;
    int64_t k = s->k;
#ifdef HN_TILE_AVX2
    if (rows >= 5 && vecs == 2) {
        _Pragma("GCC unroll 6") for (int i = 0; i < rows; i++)
            __builtin_prefetch(t->c + i * t->c_row, 1);
        for (; k >= 4; k -= 4) {
            __builtin_prefetch(ahead, 0, 2);
            ahead += 4 * ahead_step;
            tile_four_steps(acc, a, b, rows);
            a += 4 * HN_TILE_ROWS, b += 4 * TILE_COLS;
        }
    }
#endif
    for (; k >= 2; k -= 2) { /* of gcc 12's schedules for 2, 4 and 8 this one is up to 8 % faster */
        __builtin_prefetch(ahead, 0, 2);
        ahead += 2 * ahead_step;
        _Pragma("GCC unroll 2") for (int c = 0; c < 2; c++)
            acc_multiply(acc, a + c * HN_TILE_ROWS, 1, b + c * TILE_COLS, rows, vecs);
        a += 2 * HN_TILE_ROWS, b += 2 * TILE_COLS;
    }
    *s = (tile_source){.a = a, .b = b, .ahead = ahead, .k = k};
}

/* Operands of any layout. */
HN_INLINE void tile_sum_strided(const hn_ext_tile *t, const tile_source s, vec acc[][2],
                                const int rows, const int vecs, const int chains) {
    const int64_t a_row = t->a_row, a_k = t->a_k, b_k = t->b_k, ahead_step = t->prefetch_step;
    const float *a = s.a, *b = s.b, *ahead = s.ahead;
    int64_t k = s.k;
    _Pragma("GCC unroll 2") for (; k >= chains; k -= chains) {
        _Pragma("GCC unroll 4") for (int c = 0; c < chains; c++) {
            acc_multiply(acc + c * rows, a, a_row, b, rows, vecs);
            __builtin_prefetch(ahead, 0, 2);
            a += a_k, b += b_k, ahead += ahead_step;
        }
    }
    for (; chains > 1 && k > 0; k--) {
        acc_multiply(acc, a, a_row, b, rows, vecs);
        a += a_k, b += b_k;
    }
}

HN_INLINE void acc_join_chains(vec acc[][2], const int rows, const int vecs, const int chains) {
    _Pragma("GCC unroll 16") for (int i = rows; i < rows * chains; i++) {
        vec *x = acc[i % rows];
        _Pragma("GCC unroll 2") for (int v = 0; v < vecs; v++) x[v] += acc[i][v];
    }
}

HN_INLINE void tile_sum(const hn_ext_tile *t, vec acc[][2], const int rows, const int vecs) {
    const int chains = TILE_CHAINS(rows, vecs);
    tile_source s = {.a = t->a, .b = t->b, .ahead = t->prefetch, .k = t->k};
    acc_clear(acc, rows * chains, vecs);
    if (chains == 1 && t->a_row == 1 && t->a_k == HN_TILE_ROWS && t->b_k == TILE_COLS)
        tile_sum_packed(t, &s, acc, rows, vecs);
    tile_sum_strided(t, s, acc, rows, vecs, chains);
    acc_join_chains(acc, rows, vecs, chains);
}

/* ---- the result ---- */

/* Whether c, the bias and the residual have whole vectors along columns. */
HN_INLINE bool tile_has_vectors(const hn_ext_tile *t, const int vecs) {
    const bool plain_bias = !t->bias || t->bias_col == 0 || (t->bias_col == 1 && t->bias_row == 0);
    const bool plain_residual = !t->residual || t->residual_col == 1;
    return t->cols == vecs * HN_LANES && t->c_col == 1 && plain_bias && plain_residual;
}

HN_INLINE void tile_finish_buffered(const hn_ext_tile *t, vec acc[][2], const int rows,
                                    const int vecs) {
    float tile[HN_TILE_ROWS * TILE_COLS] __attribute__((aligned(64)));
    acc_store(acc, tile, TILE_COLS, rows, vecs);
    if (tile_is_transposed(t)) tile_finish_transposed(t, tile);
    else tile_finish(t, tile);
}

HN_INLINE void tile_add_bias(const hn_ext_tile *t, vec acc[][2], const int rows, const int vecs) {
    if (t->bias_col) {
        _Pragma("GCC unroll 2") for (int v = 0; v < vecs; v++) {
            vec bias = vec_load(t->bias + v * HN_LANES);
            _Pragma("GCC unroll 16") for (int i = 0; i < rows; i++) acc[i][v] += bias;
        }
    } else {
        _Pragma("GCC unroll 16") for (int i = 0; i < rows; i++) {
            vec bias = vec_splat(t->bias[i * t->bias_row]);
            _Pragma("GCC unroll 2") for (int v = 0; v < vecs; v++) acc[i][v] += bias;
        }
    }
}

HN_INLINE void tile_finish_vectors(const hn_ext_tile *t, vec acc[][2], const int rows,
                                   const int vecs) {
    float *c = t->c;
    if (t->accumulate) acc_add(acc, c, t->c_row, rows, vecs);
    if (t->bias) tile_add_bias(t, acc, rows, vecs);
    if (t->residual) acc_add(acc, t->residual, t->residual_row, rows, vecs);
    acc_apply_epilogue(acc, t->epilogue, rows, vecs);
    acc_store(acc, c, t->c_row, rows, vecs);
    if (!acc_has_epilogue(t->epilogue))
        epilogue_rows(t->epilogue, c, rows, t->c_row, vecs * HN_LANES);
}

HN_INLINE void tile_compute(const hn_ext_tile *t, const int rows, const int vecs) {
    vec acc[HN_TILE_ROWS][2];
    tile_sum(t, acc, rows, vecs);
    if (tile_has_vectors(t, vecs)) tile_finish_vectors(t, acc, rows, vecs);
    else tile_finish_buffered(t, acc, rows, vecs);
}

#if HN_LANES >= HN_TILE_ROWS
/* One k: acc += rows of a, a vector, x each column of b. */
HN_INLINE void narrow_multiply(vec acc[], const float *a, const float *b, const int cols) {
    const vec x = vec_load(a);
    _Pragma("GCC unroll 4") for (int j = 0; j < cols; j++) acc[j] += x * vec_splat(b[j]);
}

/* One to four columns: vectors along the rows, as a vector along so few columns would be mostly
 * empty. */
HN_INLINE void tile_narrow(const hn_ext_tile *t, const int cols) {
    const int chains = cols <= 2 ? 4 : 2;
    vec acc[4][4];
    _Pragma("GCC unroll 4") for (int c = 0; c < chains; c++)
        _Pragma("GCC unroll 4") for (int j = 0; j < cols; j++) acc[c][j] = vec_splat(0);
    const float *a = t->a, *b = t->b;
    int64_t k = t->k - 1; /* the last row of a has nothing behind it */
    for (; k >= chains; k -= chains)
        _Pragma("GCC unroll 4") for (int c = 0; c < chains; c++, a += t->a_k, b += t->b_k)
            narrow_multiply(acc[c], a, b, cols);
    for (; k > 0; k--, a += t->a_k, b += t->b_k) narrow_multiply(acc[0], a, b, cols);
    float last[HN_LANES] = {0}, tile[HN_TILE_ROWS * TILE_COLS];
    memcpy(last, a, (size_t)t->rows * sizeof *a);
    _Pragma("GCC unroll 4") for (int j = 0; j < cols; j++) {
        vec sum = acc[0][j] + acc[1][j] + vec_load(last) * vec_splat(b[j]);
        if (chains == 4) sum += acc[2][j] + acc[3][j];
        float column[HN_LANES];
        vec_store(column, sum);
        for (int i = 0; i < t->rows; i++) tile[i * TILE_COLS + j] = column[i];
    }
    tile_finish(t, tile);
}

/* Whether a's rows lie side by side, and whole vectors of them may be read, but for the last k. */
static bool tile_is_narrow(const hn_ext_tile *t) {
    return t->cols <= 4 && t->rows > t->cols && t->k > 0 && t->a_row == 1 &&
           2 * t->rows >= HN_LANES && t->a_k >= t->rows;
}
#endif

/* The residual, which is needed after all sums: often it is in another cache, and its rows are far
 * apart. */
HN_INLINE void tile_fetch_residual(const hn_ext_tile *t) {
    const bool transposed = t->residual_row == 1;
    const int64_t count = transposed ? t->cols : t->rows,
                  step = transposed ? t->residual_col : t->residual_row;
    const int64_t last = transposed ? t->rows - 1 : (t->cols - 1) * t->residual_col;
    for (int64_t i = 0; i < count; i++) {
        __builtin_prefetch(t->residual + i * step, 0, 3);
        __builtin_prefetch(t->residual + i * step + last, 0, 3);
    }
}

/* One function for each shape: the accumulators must be registers, so their number is a constant.
 * Out of line, so that each has all registers for its addresses. */
#define TILE_SHAPE(NAME, ROWS, VECS)                                                               \
    static __attribute__((noinline)) void NAME(const hn_ext_tile *t) {                             \
        tile_compute(t, ROWS, VECS);                                                               \
    }

TILE_SHAPE(tile_1_half, 1, 1)
TILE_SHAPE(tile_1_whole, 1, 2)
TILE_SHAPE(tile_2_half, 2, 1)
TILE_SHAPE(tile_2_whole, 2, 2)
TILE_SHAPE(tile_3_half, 3, 1)
TILE_SHAPE(tile_3_whole, 3, 2)
TILE_SHAPE(tile_4_half, 4, 1)
TILE_SHAPE(tile_4_whole, 4, 2)
TILE_SHAPE(tile_5_half, 5, 1)
TILE_SHAPE(tile_5_whole, 5, 2)
TILE_SHAPE(tile_6_half, 6, 1)
TILE_SHAPE(tile_6_whole, 6, 2)
#if HN_TILE_ROWS > 6
TILE_SHAPE(tile_7_half, 7, 1)
TILE_SHAPE(tile_7_whole, 7, 2)
TILE_SHAPE(tile_8_half, 8, 1)
TILE_SHAPE(tile_8_whole, 8, 2)
TILE_SHAPE(tile_9_half, 9, 1)
TILE_SHAPE(tile_9_whole, 9, 2)
TILE_SHAPE(tile_10_half, 10, 1)
TILE_SHAPE(tile_10_whole, 10, 2)
TILE_SHAPE(tile_11_half, 11, 1)
TILE_SHAPE(tile_11_whole, 11, 2)
TILE_SHAPE(tile_12_half, 12, 1)
TILE_SHAPE(tile_12_whole, 12, 2)
TILE_SHAPE(tile_13_half, 13, 1)
TILE_SHAPE(tile_13_whole, 13, 2)
TILE_SHAPE(tile_14_half, 14, 1)
TILE_SHAPE(tile_14_whole, 14, 2)
#endif

static void tile(const hn_ext_tile *t) {
    static void (*const shapes[HN_TILE_ROWS][2])(const hn_ext_tile *t) = {
        {tile_1_half, tile_1_whole},
        {tile_2_half, tile_2_whole},
        {tile_3_half, tile_3_whole},
        {tile_4_half, tile_4_whole},
        {tile_5_half, tile_5_whole},
        {tile_6_half, tile_6_whole},
#if HN_TILE_ROWS > 6
        {tile_7_half, tile_7_whole},
        {tile_8_half, tile_8_whole},
        {tile_9_half, tile_9_whole},
        {tile_10_half, tile_10_whole},
        {tile_11_half, tile_11_whole},
        {tile_12_half, tile_12_whole},
        {tile_13_half, tile_13_whole},
        {tile_14_half, tile_14_whole},
#endif
    };
    if (t->residual) tile_fetch_residual(t);
#if HN_LANES >= HN_TILE_ROWS
    if (t->cols <= 4 && tile_is_narrow(t)) {
        if (t->cols == 1) tile_narrow(t, 1);
        if (t->cols == 2) tile_narrow(t, 2);
        if (t->cols == 3) tile_narrow(t, 3);
        if (t->cols == 4) tile_narrow(t, 4);
        return;
    }
#endif
    if (t->rows > 0) shapes[t->rows - 1][t->cols > HN_LANES](t);
}
