/* tiles.c: see tiles.h. */
#include "ops/cpu/attention/tiles.h"

#include "henry/tensor.h"
#include "ops/cpu/conv/conv.h"

#include <math.h>

int64_t hn_ext_tiles_count(const hn_ext_kernels *kernels, int64_t rows) {
    return hn_ext_ceil_div(rows, kernels->tile_rows);
}

void hn_ext_tiles_pack(const hn_ext_kernels *kernels, const hn_ext_tiles *t, float *out) {
    const int64_t tiles = hn_ext_tiles_count(kernels, t->rows), width = kernels->tile_rows;
    for (int64_t i = 0; i < tiles; i++) {
        const int64_t first = hn_ext_tile_start(t->rows, tiles, i),
                      count = hn_ext_tile_start(t->rows, tiles, i + 1) - first;
        kernels->pack(&(hn_ext_pack){.in = t->x + first * t->row,
                                     .in_k = t->col,
                                     .in_col = t->row,
                                     .k = t->k,
                                     .cols = count,
                                     .width = width,
                                     .out = out + i * width * t->k,
                                     .out_panel = width * t->k,
                                     .scale = t->scale});
    }
}

/* Tiles of one height, half as wide. */
static void multiply_halves(const hn_ext_kernels *kernels, const hn_ext_column *t) {
    hn_ext_tile tile = {.k = t->k,
                        .a = t->a,
                        .a_row = 1,
                        .a_k = kernels->tile_rows,
                        .b = t->b,
                        .b_k = t->b_k,
                        .c = t->c,
                        .c_row = t->c_row,
                        .c_col = 1,
                        .rows = t->rows,
                        .cols = kernels->tile_cols / 2,
                        .accumulate = t->accumulate};
    for (int64_t i = 0; i < t->tiles; i++) {
        kernels->tile(&tile);
        tile.a += t->a_tile;
        tile.c += t->rows * t->c_row;
    }
}

void hn_ext_tiles_multiply(const hn_ext_kernels *kernels, const hn_ext_tiles_product *x) {
    const int64_t rows = kernels->tile_rows, tiles = hn_ext_tiles_count(kernels, x->rows);
    if (tiles == 0) return;
    const int64_t low = x->rows / tiles, tall = x->rows % tiles;
    hn_ext_column t = {.k = x->k,
                       .a_tile = rows * x->length,
                       .b = x->b,
                       .b_k = x->b_k,
                       .c_row = x->c_row,
                       .panels = 1,
                       .accumulate = x->accumulate};
    for (int64_t i = 0, end; i < tiles; i = end) { /* those of one height */
        const int64_t first = hn_ext_tile_start(x->rows, tiles, i);
        t.rows = (int)(low + (i < tall));
        end = hn_ext_min(i < tall ? tall : tiles, i + hn_ext_ceil_div(x->needed - first, t.rows));
        if (first >= x->needed) return;
        t.tiles = end - i;
        t.a = x->a + i * rows * x->length;
        t.c = x->c + first * x->c_row;
        if (x->half) multiply_halves(kernels, &t);
        else kernels->column(&t);
    }
}

double hn_ext_mask_value(uint8_t dtype, const void *base, int64_t at) {
    switch (dtype) {
    case HN_F64: return ((const double *)base)[at];
    case HN_F32: return (double)((const float *)base)[at];
    default: return ((const uint8_t *)base)[at] ? 0.0 : -INFINITY;
    }
}

typedef float float4 __attribute__((vector_size(16), aligned(4), may_alias));

/* Times 0, infinities and NaN are NaN. */
bool hn_ext_all_finite(const float *x, int64_t row, int64_t col, int64_t rows, int64_t cols) {
    float4 low = {0}, high = {0};
    float rest = 0;
    for (int64_t i = 0; i < rows; i++) {
        int64_t j = 0;
        for (; col == 1 && j + 8 <= cols; j += 8) {
            low += *(const float4 *)(x + i * row + j) * 0.0f;
            high += *(const float4 *)(x + i * row + j + 4) * 0.0f;
        }
        for (; j < cols; j++) rest += x[i * row + j * col] * 0.0f;
    }
    low += high;
    return low[0] + low[1] + low[2] + low[3] + rest == 0;
}
