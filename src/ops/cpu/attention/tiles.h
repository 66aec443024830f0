/* tiles.h: products of attention and of its gradients, by register tiles.
 *
 * The left operand is packed in tiles of rows, [tile][k][tile_rows], which differ by at most one
 * row; the right one is a panel of tile_cols columns. */
#ifndef HN_OPS_CPU_ATTENTION_TILES_H
#define HN_OPS_CPU_ATTENTION_TILES_H

#include "ops/cpu/ext.h"
#include "ops/cpu/kernels.h"

/* A matrix [rows, k] at `x`, to be packed; times `scale`, if that is not NULL. */
typedef struct hn_ext_tiles {
    const float *x;
    int64_t row, col; /* strides */
    int64_t rows, k;
    const float *scale;
} hn_ext_tiles;

/* How many tiles `rows` rows are. */
int64_t hn_ext_tiles_count(const hn_ext_kernels *kernels, int64_t rows);
/* out: tiles * tile_rows * k floats. */
void hn_ext_tiles_pack(const hn_ext_kernels *kernels, const hn_ext_tiles *t, float *out);

/* Rows [0, needed) of an operand in tiles, of which `rows` rows and `length` columns are packed,
 * times the first k rows of a panel, into or added to c. */
typedef struct hn_ext_tiles_product {
    const float *a, *b;
    int64_t rows, needed, length, k;
    int64_t b_k, c_row; /* floats from row to row */
    float *c;
    bool accumulate;
    bool half; /* only the first tile_cols / 2 columns are computed */
} hn_ext_tiles_product;

void hn_ext_tiles_multiply(const hn_ext_kernels *kernels, const hn_ext_tiles_product *x);

/* Element `at` of a mask of HN_F64, HN_F32 or HN_BOOL, as what is added to a score. */
double hn_ext_mask_value(uint8_t dtype, const void *base, int64_t at);
/* Whether no element is infinite or NaN. */
bool hn_ext_all_finite(const float *x, int64_t row, int64_t col, int64_t rows, int64_t cols);

#endif
