/* matrix.h: a matrix that is read once, in place, by skinny products: what matmul and attention
 * share.
 *
 * Laying a matrix out anew takes as long as several rows times it; for fewer rows it is read in
 * place. It may be f16 or bf16, or strided: then a piece at a time goes through a buffer. */
#ifndef HN_OPS_CPU_GEMM_MATRIX_H
#define HN_OPS_CPU_GEMM_MATRIX_H

#include "ops/cpu/kernels.h"

/* Elements at (row, col) are at base + row * row_stride + col * col_stride elements. */
typedef struct hn_ext_matrix {
    const hn_ext_kernels *kernels;
    void *base;
    uint8_t dtype; /* HN_F32, HN_F16 or HN_BF16 */
    int64_t row_stride, col_stride;
} hn_ext_matrix;

/* Whether hn_ext_matrix is for this type. */
bool hn_ext_matrix_takes(uint8_t dtype);
/* Whether the kernels of hn_ext_skinny take its rows where they lie. */
bool hn_ext_matrix_is_plain(const hn_ext_matrix *x);
/* Its first rows and columns become f->b: where they lie, or in `buffer` of rows * cols floats. */
void hn_ext_matrix_take(const hn_ext_matrix *x, int64_t rows, int64_t cols, float *buffer,
                        hn_ext_skinny *f);
/* The matrix from an element on: `at` elements further, or from (row, col). */
hn_ext_matrix hn_ext_matrix_at(const hn_ext_matrix *x, int64_t at);
hn_ext_matrix hn_ext_matrix_from(const hn_ext_matrix *x, int64_t row, int64_t col);
/* Its first rows and columns as floats, each row contiguous and *out_row floats after the one
 * before: in `buffer` of rows * cols floats, or where they lie. */
const float *hn_ext_matrix_rows(const hn_ext_matrix *x, int64_t rows, int64_t cols, float *buffer,
                                int64_t *out_row);
/* Writes one row of `cols` floats to the matrix's first row. */
void hn_ext_matrix_put_row(const hn_ext_matrix *x, const float *row, int64_t cols);

#endif
