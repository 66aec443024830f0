/* matrix.c: rows of a matrix as floats. */
#include "ops/cpu/gemm/matrix.h"

#include "henry/tensor.h"

#include <string.h>

bool hn_ext_matrix_takes(uint8_t dtype) {
    return dtype == HN_F32 || dtype == HN_F16 || dtype == HN_BF16;
}

bool hn_ext_matrix_is_plain(const hn_ext_matrix *x) {
    return x->dtype != HN_F16 && x->col_stride == 1;
}

static bool is_float_rows(const hn_ext_matrix *x) {
    return x->dtype == HN_F32 && x->col_stride == 1;
}

hn_ext_matrix hn_ext_matrix_at(const hn_ext_matrix *x, int64_t at) {
    hn_ext_matrix from = *x;
    from.base =
        x->dtype == HN_F32 ? (void *)((float *)x->base + at) : (void *)((uint16_t *)x->base + at);
    return from;
}

hn_ext_matrix hn_ext_matrix_from(const hn_ext_matrix *x, int64_t row, int64_t col) {
    return hn_ext_matrix_at(x, row * x->row_stride + col * x->col_stride);
}

static void read_row(const hn_ext_matrix *x, int64_t cols, float *out) {
    const bool is_bf16 = x->dtype == HN_BF16;
    if (x->dtype == HN_F32) {
        const float *in = x->base;
        for (int64_t c = 0; c < cols; c++) out[c] = in[c * x->col_stride];
    } else if (x->col_stride == 1) {
        x->kernels->from_half(is_bf16, x->base, out, cols);
    } else {
        const uint16_t *in = x->base;
        for (int64_t c = 0; c < cols; c++)
            x->kernels->from_half(is_bf16, in + c * x->col_stride, out + c, 1);
    }
}

const float *hn_ext_matrix_rows(const hn_ext_matrix *x, int64_t rows, int64_t cols, float *buffer,
                                int64_t *out_row) {
    if (is_float_rows(x)) {
        *out_row = x->row_stride;
        return x->base;
    }
    for (int64_t r = 0; r < rows; r++) {
        hn_ext_matrix row = hn_ext_matrix_from(x, r, 0);
        read_row(&row, cols, buffer + r * cols);
    }
    *out_row = cols;
    return buffer;
}

void hn_ext_matrix_take(const hn_ext_matrix *x, int64_t rows, int64_t cols, float *buffer,
                        hn_ext_skinny *f) {
    f->b_is_bf16 = x->dtype == HN_BF16 && x->col_stride == 1;
    f->b = x->base;
    f->b_row = x->row_stride;
    if (!f->b_is_bf16) f->b = hn_ext_matrix_rows(x, rows, cols, buffer, &f->b_row);
}

void hn_ext_matrix_put_row(const hn_ext_matrix *x, const float *row, int64_t cols) {
    const bool is_bf16 = x->dtype == HN_BF16;
    if (is_float_rows(x)) {
        memcpy(x->base, row, (size_t)cols * sizeof *row);
    } else if (x->dtype == HN_F32) {
        float *out = x->base;
        for (int64_t c = 0; c < cols; c++) out[c * x->col_stride] = row[c];
    } else if (x->col_stride == 1) {
        x->kernels->to_half(is_bf16, row, x->base, cols);
    } else {
        uint16_t *out = x->base;
        for (int64_t c = 0; c < cols; c++)
            x->kernels->to_half(is_bf16, row + c, out + c * x->col_stride, 1);
    }
}
