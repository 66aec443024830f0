/* skinny_body.h: products of a few rows with a matrix that is read once, in place, for one
 * instruction set. Included by kernels_body.h.
 *
 * There is no use in laying out the matrix anew: each of its elements serves a few multiplications
 * only. What counts is how it streams by: few rows at a time, in pieces that are long. */

#ifdef HN_EXT_WITHOUT_HALF
enum { SKINNY_TAKES_BF16 = 0 };
#else
enum { SKINNY_TAKES_BF16 = 1 };
#endif

/* Elements of the matrix: its element `at` and those after it. */
HN_INLINE vec skinny_load(const void *b, int64_t at, const bool is_bf16) {
    if (!is_bf16) return vec_load((const float *)b + at);
    const hvec x = *(const hvec_unaligned *)((const uint16_t *)b + at);
    return (vec)(__builtin_convertvector(x, uvec) << 16);
}
HN_INLINE float skinny_element(const void *b, int64_t at, const bool is_bf16) {
    if (!is_bf16) return ((const float *)b)[at];
    const uint32_t bits = (uint32_t)((const uint16_t *)b)[at] << 16;
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}
HN_INLINE void skinny_fetch(const void *b, int64_t at, const bool is_bf16) {
    __builtin_prefetch((const char *)b + at * (is_bf16 ? 2 : 4));
}

/* A part of the product: its first elements. */
typedef struct skinny_place {
    const float *a;
    int64_t b; /* element of the matrix */
    float *out;
} skinny_place;

/* out[r][j] for `rows` rows of a and `count` rows of b. */
HN_INLINE void dots_block(const hn_ext_skinny *f, const skinny_place at, const int rows,
                          const int count, const bool is_bf16) {
    const float *a = at.a;
    const int64_t b = at.b;
    vec sums[4][4];
    _Pragma("GCC unroll 4") for (int r = 0; r < rows; r++)
        _Pragma("GCC unroll 4") for (int j = 0; j < count; j++) sums[r][j] = vec_splat(0);
    int64_t k = 0;
    for (; k + HN_LANES <= f->k; k += HN_LANES) {
        vec x[4];
        _Pragma("GCC unroll 4") for (int j = 0; j < count; j++) x[j] =
            skinny_load(f->b, b + j * f->b_row + k, is_bf16);
        _Pragma("GCC unroll 4") for (int r = 0; r < rows; r++) {
            const vec y = vec_load(a + r * f->a_row + k);
            _Pragma("GCC unroll 4") for (int j = 0; j < count; j++) sums[r][j] += y * x[j];
        }
    }
    _Pragma("GCC unroll 4") for (int r = 0; r < rows; r++)
        _Pragma("GCC unroll 4") for (int j = 0; j < count; j++) {
        float sum = vec_total(sums[r][j]);
        for (int64_t i = k; i < f->k; i++)
            sum += a[r * f->a_row + i] * skinny_element(f->b, b + j * f->b_row + i, is_bf16);
        at.out[r * f->out_row + j] = sum;
    }
}

/* Four rows of a at a time. */
HN_INLINE void dots_rows(const hn_ext_skinny *f, int64_t j, const int count, const bool is_bf16) {
    for (int64_t r = 0; r < f->rows; r += 4) {
        const skinny_place at = {f->a + r * f->a_row, j * f->b_row, f->out + r * f->out_row + j};
        switch (f->rows - r) {
        case 1: dots_block(f, at, 1, count, is_bf16); break;
        case 2: dots_block(f, at, 2, count, is_bf16); break;
        case 3: dots_block(f, at, 3, count, is_bf16); break;
        default: dots_block(f, at, 4, count, is_bf16); break;
        }
    }
}

/* As many rows of b as there are registers for. */
HN_INLINE void dots_all(const hn_ext_skinny *f, const bool is_bf16) {
    int64_t j = 0;
    for (; f->rows <= 2 && j + 4 <= f->cols; j += 4) {
        const skinny_place at = {f->a, j * f->b_row, f->out + j};
        if (f->rows == 2) dots_block(f, at, 2, 4, is_bf16);
        else if (f->rows == 1) dots_block(f, at, 1, 4, is_bf16);
    }
    for (; j + 2 <= f->cols; j += 2) dots_rows(f, j, 2, is_bf16);
    for (; j < f->cols; j++) dots_rows(f, j, 1, is_bf16);
}

static void dots(const hn_ext_skinny *f) {
    if (SKINNY_TAKES_BF16 && f->b_is_bf16) dots_all(f, true);
    else dots_all(f, false);
}

enum { COMBINE_ROWS = 16 }; /* of b at a time: they stay in L1 while all rows of a take them */

/* out[rows][vectors] += a[rows][k] * b[k][vectors]; the rows of b that follow are prefetched. */
HN_INLINE void combine_block(const hn_ext_skinny *f, const skinny_place at, int64_t k,
                             const int rows, const int vectors, const bool is_bf16) {
    const int line = 64 / (is_bf16 ? 2 : 4) / HN_LANES;
    int64_t b = at.b;
    vec sums[4][8];
    _Pragma("GCC unroll 4") for (int r = 0; r < rows; r++)
        _Pragma("GCC unroll 8") for (int v = 0; v < vectors; v++) sums[r][v] =
            vec_load(at.out + r * f->out_row + v * HN_LANES);
    for (int64_t i = 0; i < k; i++, b += f->b_row) {
        vec x[8];
        _Pragma("GCC unroll 8") for (int v = 0; v < vectors; v++) x[v] =
            skinny_load(f->b, b + v * HN_LANES, is_bf16);
        _Pragma("GCC unroll 8") for (int v = 0; v < vectors; v++) if (v % line == 0)
            skinny_fetch(f->b, b + COMBINE_ROWS * f->b_row + v * HN_LANES, is_bf16);
        _Pragma("GCC unroll 4") for (int r = 0; r < rows; r++) {
            const vec y = vec_splat(at.a[r * f->a_row + i]);
            _Pragma("GCC unroll 8") for (int v = 0; v < vectors; v++) sums[r][v] += y * x[v];
        }
    }
    _Pragma("GCC unroll 4") for (int r = 0; r < rows; r++)
        _Pragma("GCC unroll 8") for (int v = 0; v < vectors; v++)
            vec_store(at.out + r * f->out_row + v * HN_LANES, sums[r][v]);
}

/* The columns of b that fill no vector. */
HN_INLINE void combine_tail(const hn_ext_skinny *f, const skinny_place at, int64_t k, int64_t first,
                            const int rows, const bool is_bf16) {
    for (int64_t c = first; c < f->cols; c++)
        for (int r = 0; r < rows; r++) {
            float sum = at.out[r * f->out_row + c];
            for (int64_t i = 0; i < k; i++)
                sum +=
                    at.a[r * f->a_row + i] * skinny_element(f->b, at.b + i * f->b_row + c, is_bf16);
            at.out[r * f->out_row + c] = sum;
        }
}

HN_INLINE void combine_rows(const hn_ext_skinny *f, const skinny_place at, int64_t k,
                            const int rows, const bool is_bf16) {
    const int wide = rows == 1 ? 8 : rows == 2 ? 4 : 2;
    int64_t c = 0;
    for (; c + wide * HN_LANES <= f->cols; c += wide * HN_LANES)
        combine_block(f, (skinny_place){at.a, at.b + c, at.out + c}, k, rows, wide, is_bf16);
    for (; c + HN_LANES <= f->cols; c += HN_LANES)
        combine_block(f, (skinny_place){at.a, at.b + c, at.out + c}, k, rows, 1, is_bf16);
    combine_tail(f, at, k, c, rows, is_bf16);
}

HN_INLINE void combine_all(const hn_ext_skinny *f, const bool is_bf16) {
    for (int64_t i = 0; i < f->k; i += COMBINE_ROWS) {
        const int64_t k = f->k - i < COMBINE_ROWS ? f->k - i : COMBINE_ROWS;
        for (int64_t r = 0; r < f->rows; r += 4) {
            const skinny_place at = {f->a + r * f->a_row + i, i * f->b_row,
                                     f->out + r * f->out_row};
            switch (f->rows - r) {
            case 1: combine_rows(f, at, k, 1, is_bf16); break;
            case 2: combine_rows(f, at, k, 2, is_bf16); break;
            case 3: combine_rows(f, at, k, 3, is_bf16); break;
            default: combine_rows(f, at, k, 4, is_bf16); break;
            }
        }
    }
}

static void combine(const hn_ext_skinny *f) {
    if (SKINNY_TAKES_BF16 && f->b_is_bf16) combine_all(f, true);
    else combine_all(f, false);
}
