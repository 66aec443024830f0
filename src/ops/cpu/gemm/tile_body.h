/* tile_body.h: one register tile of a matrix product, for one instruction set. Included by kernels_body.h. */

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
    return t->c_row == 1 && t->c_col != 1 && (!t->bias || t->bias_row == 0) && (!t->residual || t->residual_row == 1);
}

/* 8 x 8 at a time: columns become vectors. */
static __attribute__((noinline)) void tile_finish_transposed(const hn_ext_tile *t, const float *tile) {
    for (int j0 = 0; j0 < t->cols; j0 += 8)
        for (int i0 = 0; i0 < t->rows; i0 += 8) {
            const int rows = t->rows - i0 < 8 ? t->rows - i0 : 8, cols = t->cols - j0 < 8 ? t->cols - j0 : 8;
            vec8 r[8];
            _Pragma("GCC unroll 8") for (int i = 0; i < 8; i++) {
                r[i] = (vec8){0};
                if (i < rows) r[i] = *(const vec8_unaligned *)(tile + (i0 + i) * TILE_COLS + j0);
            }
            transpose_8x8(r);
            float *c = t->c + i0 + j0 * t->c_col;
            _Pragma("GCC unroll 8") for (int j = 0; j < 8; j++) {
                if (j >= cols) break;
                if (t->accumulate) add_count(&r[j], c + j * t->c_col, rows);
                if (t->bias) r[j] += t->bias[(j0 + j) * t->bias_col];
                if (t->residual) add_count(&r[j], t->residual + i0 + (j0 + j) * t->residual_col, rows);
            }
            if (t->epilogue) {
                float lanes[64] __attribute__((aligned(32)));
                _Pragma("GCC unroll 8") for (int j = 0; j < 8; j++) *(vec8_unaligned *)(lanes + j * 8) = r[j];
                if (t->epilogue == HN_EPILOGUE_RELU)
                    for (int l = 0; l < 64; l += HN_LANES) vec_store(lanes + l, vec_relu(vec_load(lanes + l)));
                else if (t->epilogue == HN_EPILOGUE_HARDSWISH)
                    for (int l = 0; l < 64; l += HN_LANES) vec_store(lanes + l, vec_hardswish(vec_load(lanes + l)));
                else
                    epilogue_rows(t->epilogue, lanes, 1, 0, 64);
                _Pragma("GCC unroll 8") for (int j = 0; j < 8; j++) r[j] = *(const vec8_unaligned *)(lanes + j * 8);
            }
            _Pragma("GCC unroll 8") for (int j = 0; j < 8; j++) {
                if (j >= cols) break;
                store_count(c + j * t->c_col, &r[j], rows);
            }
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
            for (int j = 0; j < t->cols; j++) row[j] += t->residual[i * t->residual_row + j * t->residual_col];
    }
    epilogue_rows(t->epilogue, tile, t->rows, TILE_COLS, t->cols);
    if (t->c_row == 1) {
        for (int j = 0; j < t->cols; j++)
            for (int i = 0; i < t->rows; i++) t->c[i + j * t->c_col] = tile[i * TILE_COLS + j];
        return;
    }
    for (int i = 0; i < t->rows; i++)
        for (int j = 0; j < t->cols; j++) t->c[i * t->c_row + j * t->c_col] = tile[i * TILE_COLS + j];
}

/* Sums that go on at the same time for each element: 8 independent additions hide the latency of one. */
#define TILE_CHAINS(rows, vecs)                                                                     \
    ((rows) * (vecs) >= 8 || (rows) * 2 > HN_TILE_ROWS ? 1 : (rows) * (vecs) >= 4 || (rows) * 4 > HN_TILE_ROWS ? 2 : 4)

#ifdef HN_TILE_AVX2
#include "ops/cpu/gemm/tile_avx2.h"
#endif

HN_INLINE void tile_compute(const hn_ext_tile *t, const int rows, const int vecs) {
    const int chains = TILE_CHAINS(rows, vecs);
    vec acc[HN_TILE_ROWS][2];
    _Pragma("GCC unroll 16") for (int i = 0; i < rows * chains; i++)
        _Pragma("GCC unroll 2") for (int v = 0; v < vecs; v++) acc[i][v] = vec_splat(0);
    const float *a = t->a, *b = t->b, *ahead = t->prefetch;
    const int64_t a_row = t->a_row, a_k = t->a_k, b_k = t->b_k, ahead_step = t->prefetch_step;
    int64_t k = t->k;
    if (chains == 1 && a_row == 1 && a_k == HN_TILE_ROWS && b_k == TILE_COLS) { /* both packed: addresses are constants */
#ifdef HN_TILE_AVX2
        if (rows >= 5 && vecs == 2) {
            _Pragma("GCC unroll 6") for (int i = 0; i < rows; i++) __builtin_prefetch(t->c + i * t->c_row, 1);
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
            _Pragma("GCC unroll 2") for (int c = 0; c < 2; c++) {
                vec bk[2];
                _Pragma("GCC unroll 2") for (int v = 0; v < vecs; v++) bk[v] = vec_load(b + c * TILE_COLS + v * HN_LANES);
                _Pragma("GCC unroll 16") for (int i = 0; i < rows; i++) {
                    vec x = vec_splat(a[c * HN_TILE_ROWS + i]);
                    _Pragma("GCC unroll 2") for (int v = 0; v < vecs; v++) acc[i][v] += x * bk[v];
                }
            }
            a += 2 * HN_TILE_ROWS, b += 2 * TILE_COLS;
        }
    }
    _Pragma("GCC unroll 2") for (; k >= chains; k -= chains) {
        _Pragma("GCC unroll 4") for (int c = 0; c < chains; c++) {
            vec bk[2];
            _Pragma("GCC unroll 2") for (int v = 0; v < vecs; v++) bk[v] = vec_load(b + v * HN_LANES);
            _Pragma("GCC unroll 16") for (int i = 0; i < rows; i++) {
                vec x = vec_splat(a[i * a_row]);
                _Pragma("GCC unroll 2") for (int v = 0; v < vecs; v++) acc[c * rows + i][v] += x * bk[v];
            }
            __builtin_prefetch(ahead, 0, 2);
            a += a_k, b += b_k, ahead += ahead_step;
        }
    }
    if (chains > 1) {
        for (; k > 0; k--) {
            _Pragma("GCC unroll 16") for (int i = 0; i < rows; i++) {
                vec x = vec_splat(a[i * a_row]);
                _Pragma("GCC unroll 2") for (int v = 0; v < vecs; v++) acc[i][v] += x * vec_load(b + v * HN_LANES);
            }
            a += a_k, b += b_k;
        }
        _Pragma("GCC unroll 4") for (int c = 1; c < chains; c++)
            _Pragma("GCC unroll 16") for (int i = 0; i < rows; i++)
                _Pragma("GCC unroll 2") for (int v = 0; v < vecs; v++) acc[i][v] += acc[c * rows + i][v];
    }
    bool plain_bias = !t->bias || t->bias_col == 0 || (t->bias_col == 1 && t->bias_row == 0);
    bool plain_residual = !t->residual || t->residual_col == 1;
    if (t->cols != vecs * HN_LANES || t->c_col != 1 || !plain_bias || !plain_residual) {
        float tile[HN_TILE_ROWS * TILE_COLS] __attribute__((aligned(64)));
        _Pragma("GCC unroll 16") for (int i = 0; i < rows; i++)
            _Pragma("GCC unroll 2") for (int v = 0; v < vecs; v++) vec_store(tile + i * TILE_COLS + v * HN_LANES, acc[i][v]);
        if (tile_is_transposed(t))
            tile_finish_transposed(t, tile);
        else
            tile_finish(t, tile);
        return;
    }
    float *c = t->c;
    if (t->accumulate) {
        _Pragma("GCC unroll 16") for (int i = 0; i < rows; i++)
            _Pragma("GCC unroll 2") for (int v = 0; v < vecs; v++) acc[i][v] += vec_load(c + i * t->c_row + v * HN_LANES);
    }
    if (t->bias && t->bias_col) {
        _Pragma("GCC unroll 2") for (int v = 0; v < vecs; v++) {
            vec bias = vec_load(t->bias + v * HN_LANES);
            _Pragma("GCC unroll 16") for (int i = 0; i < rows; i++) acc[i][v] += bias;
        }
    } else if (t->bias) {
        _Pragma("GCC unroll 16") for (int i = 0; i < rows; i++) {
            vec bias = vec_splat(t->bias[i * t->bias_row]);
            _Pragma("GCC unroll 2") for (int v = 0; v < vecs; v++) acc[i][v] += bias;
        }
    }
    if (t->residual) {
        const float *residual = t->residual;
        _Pragma("GCC unroll 16") for (int i = 0; i < rows; i++)
            _Pragma("GCC unroll 2") for (int v = 0; v < vecs; v++) acc[i][v] += vec_load(residual + i * t->residual_row + v * HN_LANES);
    }
    if (t->epilogue == HN_EPILOGUE_RELU) { /* common, and cheaper than a second pass */
        _Pragma("GCC unroll 16") for (int i = 0; i < rows; i++)
            _Pragma("GCC unroll 2") for (int v = 0; v < vecs; v++) acc[i][v] = vec_relu(acc[i][v]);
    } else if (t->epilogue == HN_EPILOGUE_HARDSWISH) {
        _Pragma("GCC unroll 16") for (int i = 0; i < rows; i++)
            _Pragma("GCC unroll 2") for (int v = 0; v < vecs; v++) acc[i][v] = vec_hardswish(acc[i][v]);
    }
    _Pragma("GCC unroll 16") for (int i = 0; i < rows; i++)
        _Pragma("GCC unroll 2") for (int v = 0; v < vecs; v++) vec_store(c + i * t->c_row + v * HN_LANES, acc[i][v]);
    if (t->epilogue > HN_EPILOGUE_RELU && t->epilogue != HN_EPILOGUE_HARDSWISH) epilogue_rows(t->epilogue, c, rows, t->c_row, vecs * HN_LANES);
}

#if HN_LANES >= HN_TILE_ROWS
/* One to four columns: vectors along the rows, as a vector along so few columns would be mostly empty. */
HN_INLINE void tile_narrow(const hn_ext_tile *t, const int cols) {
    const int chains = cols <= 2 ? 4 : 2;
    vec acc[4][4];
    _Pragma("GCC unroll 4") for (int c = 0; c < chains; c++)
        _Pragma("GCC unroll 4") for (int j = 0; j < cols; j++) acc[c][j] = vec_splat(0);
    const float *a = t->a, *b = t->b;
    int64_t k = t->k - 1; /* the last row of a has nothing behind it */
    for (; k >= chains; k -= chains)
        _Pragma("GCC unroll 4") for (int c = 0; c < chains; c++, a += t->a_k, b += t->b_k)
            _Pragma("GCC unroll 4") for (int j = 0; j < cols; j++) acc[c][j] += vec_load(a) * vec_splat(b[j]);
    for (; k > 0; k--, a += t->a_k, b += t->b_k)
        _Pragma("GCC unroll 4") for (int j = 0; j < cols; j++) acc[0][j] += vec_load(a) * vec_splat(b[j]);
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
    return t->cols <= 4 && t->rows > t->cols && t->k > 0 && t->a_row == 1 && 2 * t->rows >= HN_LANES && t->a_k >= t->rows;
}
#endif

/* The residual, which is needed after all sums: often it is in another cache, and its rows are far apart. */
HN_INLINE void tile_fetch_residual(const hn_ext_tile *t) {
    const bool transposed = t->residual_row == 1;
    const int64_t count = transposed ? t->cols : t->rows, step = transposed ? t->residual_col : t->residual_row;
    const int64_t last = transposed ? t->rows - 1 : (t->cols - 1) * t->residual_col;
    for (int64_t i = 0; i < count; i++) {
        __builtin_prefetch(t->residual + i * step, 0, 3);
        __builtin_prefetch(t->residual + i * step + last, 0, 3);
    }
}

/* One function for each height: the accumulators must be registers, so their number is a constant. */
#define TILE_CASE(R)                                                                               \
    case R:                                                                                        \
        if (t->cols > HN_LANES)                                                                    \
            tile_compute(t, R, 2);                                                                 \
        else                                                                                       \
            tile_compute(t, R, 1);                                                                 \
        return;

static void tile(const hn_ext_tile *t) {
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
    switch (t->rows) {
        TILE_CASE(1)
        TILE_CASE(2)
        TILE_CASE(3)
        TILE_CASE(4)
        TILE_CASE(5)
        TILE_CASE(6)
#if HN_TILE_ROWS > 6
        TILE_CASE(7)
        TILE_CASE(8)
        TILE_CASE(9)
        TILE_CASE(10)
        TILE_CASE(11)
        TILE_CASE(12)
        TILE_CASE(13)
        TILE_CASE(14)
#endif
    }
}
