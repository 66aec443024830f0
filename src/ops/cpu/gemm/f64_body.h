/* f64_body.h: the register tile of f64 products, for one instruction set. Included by
 * kernels_body.h. */

typedef double dvec __attribute__((vector_size(HN_LANES * 4)));
typedef double dvec_unaligned __attribute__((vector_size(HN_LANES * 4), aligned(8), may_alias));

/* As many registers as a tile of floats: HN_TILE_ROWS rows, two vectors wide. */
static void tile_f64(int64_t k, const double *a, const double *b, double *sums, int64_t sums_row) {
    dvec acc[HN_TILE_ROWS][2];
    _Pragma("GCC unroll 16") for (int i = 0; i < HN_TILE_ROWS; i++)
        _Pragma("GCC unroll 2") for (int v = 0; v < 2; v++) acc[i][v] = (dvec){0};
    for (; k > 0; k--, a += HN_TILE_ROWS, b += HN_LANES) {
        dvec row[2];
        _Pragma("GCC unroll 2") for (int v = 0; v < 2; v++) row[v] =
            *(const dvec_unaligned *)(b + v * (HN_LANES / 2));
        _Pragma("GCC unroll 16") for (int i = 0; i < HN_TILE_ROWS; i++)
            _Pragma("GCC unroll 2") for (int v = 0; v < 2; v++) acc[i][v] += a[i] * row[v];
    }
    _Pragma("GCC unroll 16") for (int i = 0; i < HN_TILE_ROWS; i++)
            _Pragma("GCC unroll 2") for (int v = 0; v < 2; v++) *
        (dvec_unaligned *)(sums + i * sums_row + v * (HN_LANES / 2)) += acc[i][v];
}
