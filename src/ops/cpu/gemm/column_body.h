/* column_body.h: register tiles side by side and one under the other, for one instruction set. Included by kernels_body.h.
 *
 * With few k a tile is short: what is done once for each of them, a call, the fields of hn_ext_tile, all the cases of its end,
 * costs half of it. Here that is done once for many tiles, and the end of one overlaps the sums of the next. Those side by side come
 * first: the rows of the result are often pages apart, and are written in long pieces so. */

HN_INLINE void column_finish(const hn_ext_column *t, vec acc[][2], float *c, const float *residual, const int rows) {
    if (t->accumulate) {
        _Pragma("GCC unroll 16") for (int i = 0; i < rows; i++)
            _Pragma("GCC unroll 2") for (int v = 0; v < 2; v++) acc[i][v] += vec_load(c + i * t->c_row + v * HN_LANES);
    }
    if (residual) {
        _Pragma("GCC unroll 16") for (int i = 0; i < rows; i++)
            _Pragma("GCC unroll 2") for (int v = 0; v < 2; v++) acc[i][v] += vec_load(residual + i * t->residual_row + v * HN_LANES);
    }
    if (t->epilogue == HN_EPILOGUE_RELU) {
        _Pragma("GCC unroll 16") for (int i = 0; i < rows; i++)
            _Pragma("GCC unroll 2") for (int v = 0; v < 2; v++) acc[i][v] = vec_relu(acc[i][v]);
    } else if (t->epilogue == HN_EPILOGUE_HARDSWISH) {
        _Pragma("GCC unroll 16") for (int i = 0; i < rows; i++)
            _Pragma("GCC unroll 2") for (int v = 0; v < 2; v++) acc[i][v] = vec_hardswish(acc[i][v]);
    }
    _Pragma("GCC unroll 16") for (int i = 0; i < rows; i++, c += t->c_row)
        _Pragma("GCC unroll 2") for (int v = 0; v < 2; v++) vec_store(c + v * HN_LANES, acc[i][v]);
}

/* One tile. taps: where the rows of b are, or else they are b_k apart. */
HN_INLINE void column_tile(const hn_ext_column *t, const float *a, const float *b, float *c, const float *bias, const float *residual,
                           const int64_t *taps, const int rows) {
    vec acc[HN_TILE_ROWS][2];
    _Pragma("GCC unroll 16") for (int i = 0; i < rows; i++) acc[i][0] = acc[i][1] = vec_splat(bias ? bias[i] : 0);
    const int64_t b_k = t->b_k;
    if (residual) { /* from another cache, rows far apart: the sums take as long as it is on its way */
        _Pragma("GCC unroll 16") for (int i = 0; i < rows; i++) {
            __builtin_prefetch(residual + i * t->residual_row, 0, 3);
            __builtin_prefetch(residual + i * t->residual_row + TILE_COLS - 1, 0, 3);
        }
    }
    int64_t k = 0;
#ifdef HN_TILE_AVX2
    for (; rows >= 5 && !taps && k + 4 <= t->k; k += 4, a += 4 * HN_TILE_ROWS, b += 4 * b_k) tile_four_steps_apart(acc, a, b, b_k, rows);
#endif
    _Pragma("GCC unroll 2") for (; k < t->k; k++) {
        const float *row = taps ? b + taps[k] : b;
        const vec low = vec_load(row), high = vec_load(row + HN_LANES);
        _Pragma("GCC unroll 16") for (int i = 0; i < rows; i++) {
            const vec x = vec_splat(a[i]);
            acc[i][0] += x * low;
            acc[i][1] += x * high;
        }
        a += HN_TILE_ROWS, b += taps ? 0 : b_k;
    }
    column_finish(t, acc, c, residual, rows);
    if (t->epilogue > HN_EPILOGUE_RELU && t->epilogue != HN_EPILOGUE_HARDSWISH) epilogue_rows(t->epilogue, c, rows, t->c_row, TILE_COLS);
}

HN_INLINE void column_compute(const hn_ext_column *t, const int rows) {
    const float *a = t->a, *bias = t->bias, *residual = t->residual;
    float *c = t->c;
    for (int64_t n = t->tiles; n > 0; n--, a += t->a_tile) {
        for (int64_t at = 0; at < t->panels * TILE_COLS; at += TILE_COLS) {
            if (t->taps)
                column_tile(t, a, t->b + at, c + at, bias, residual ? residual + at : NULL, t->taps, rows);
            else
                column_tile(t, a, t->b + at, c + at, bias, residual ? residual + at : NULL, NULL, rows);
        }
        c += rows * t->c_row;
        if (bias) bias += rows;
        if (residual) residual += rows * t->residual_row;
    }
}

/* One function for each height: the accumulators must be registers. */
#define COLUMN_CASE(R)                                                                             \
    case R: column_compute(t, R); return;

static void column(const hn_ext_column *t) {
    switch (t->rows) {
        COLUMN_CASE(1)
        COLUMN_CASE(2)
        COLUMN_CASE(3)
        COLUMN_CASE(4)
        COLUMN_CASE(5)
        COLUMN_CASE(6)
#if HN_TILE_ROWS > 6
        COLUMN_CASE(7)
        COLUMN_CASE(8)
        COLUMN_CASE(9)
        COLUMN_CASE(10)
        COLUMN_CASE(11)
        COLUMN_CASE(12)
        COLUMN_CASE(13)
        COLUMN_CASE(14)
#endif
    }
}
