/* column_body.h: register tiles side by side and one under the other, for one instruction set.
 * Included by kernels_body.h.
 *
 * With few k a tile is short: what is done once for each of them, a call, the fields of
 * hn_ext_tile, all the cases of its end, costs half of it. Here that is done once for many tiles,
 * and the end of one overlaps the sums of the next. Those side by side come first: the rows of the
 * result are often pages apart, and are written in long pieces so. */

/* Only convolutions have taps. */
#ifdef HN_EXT_WITHOUT_CONV
enum { COLUMN_HAS_TAPS = 0 };
#else
enum { COLUMN_HAS_TAPS = 1 };
#endif

/* Where one tile of the column reads and writes. */
typedef struct column_place {
    const float *a, *b;
    float *c;
    const float *bias, *residual; /* NULL: none */
} column_place;

/* From another cache, rows far apart: the sums take as long as it is on its way. */
HN_INLINE void column_fetch_residual(const hn_ext_column *t, const float *residual,
                                     const int rows) {
    _Pragma("GCC unroll 16") for (int i = 0; i < rows; i++) {
        __builtin_prefetch(residual + i * t->residual_row, 0, 3);
        __builtin_prefetch(residual + i * t->residual_row + TILE_COLS - 1, 0, 3);
    }
}

/* taps: where the rows of b are; NULL: they are b_k apart. */
HN_INLINE void column_sum(const hn_ext_column *t, const column_place *at, const int64_t *taps,
                          vec acc[][2], const int rows) {
    const float *a = at->a, *b = at->b;
    const int64_t b_k = t->b_k;
    int64_t k = 0;
#ifdef HN_TILE_AVX2
    for (; rows >= 5 && !taps && k + 4 <= t->k; k += 4, a += 4 * HN_TILE_ROWS, b += 4 * b_k)
        tile_four_steps_apart(acc, a, b, b_k, rows);
#endif
    _Pragma("GCC unroll 2") for (; k < t->k; k++) {
        acc_multiply(acc, a, 1, taps ? b + taps[k] : b, rows, 2);
        a += HN_TILE_ROWS, b += taps ? 0 : b_k;
    }
}

HN_INLINE void column_tile(const hn_ext_column *t, const column_place *at, const int rows) {
    vec acc[HN_TILE_ROWS][2];
    _Pragma("GCC unroll 16") for (int i = 0; i < rows; i++) {
        acc[i][0] = acc[i][1] = vec_splat(at->bias ? at->bias[i] : 0);
    }
    if (at->residual) column_fetch_residual(t, at->residual, rows);
    if (COLUMN_HAS_TAPS && t->taps) column_sum(t, at, t->taps, acc, rows);
    else column_sum(t, at, NULL, acc, rows);
    if (t->accumulate) acc_add(acc, at->c, t->c_row, rows, 2);
    if (at->residual) acc_add(acc, at->residual, t->residual_row, rows, 2);
    acc_apply_epilogue(acc, t->epilogue, rows, 2);
    acc_store(acc, at->c, t->c_row, rows, 2);
    if (!acc_has_epilogue(t->epilogue))
        epilogue_rows(t->epilogue, at->c, rows, t->c_row, TILE_COLS);
}

HN_INLINE void column_compute(const hn_ext_column *t, const int rows) {
    const float *a = t->a, *bias = t->bias, *residual = t->residual;
    float *c = t->c;
    for (int64_t n = t->tiles; n > 0; n--, a += t->a_tile) {
        for (int64_t j = 0; j < t->panels * TILE_COLS; j += TILE_COLS) {
            const column_place at = {a, t->b + j, c + j, bias, residual ? residual + j : NULL};
            column_tile(t, &at, rows);
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
