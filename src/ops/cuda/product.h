/* product.h: a call of MATMUL as the products that BLAS libraries do: matrices stored by columns,
 *
 *   D = epilogue(op(A) op(B) + C + bias)      once for each matrix of a strided batch
 *
 * A result in rows is the transpose of one in columns: out^T = b^T a^T. So D has out's columns as
 * rows then, A is the call's b, and B its a. Nothing here knows a library. */
#ifndef HN_OPS_CUDA_PRODUCT_H
#define HN_OPS_CUDA_PRODUCT_H

#include "ops/cpu/ext.h"

enum { HN_PRODUCT_OPERANDS = 5 }; /* of the call: out, a, b, bias, residual */

typedef enum hn_product_matrix {
    HN_PRODUCT_A,
    HN_PRODUCT_B,
    HN_PRODUCT_C,
    HN_PRODUCT_D,
    HN_PRODUCT_MATRICES
} hn_product_matrix;

/* As it is stored: `rows` numbers in a row of memory, `ld` elements from one column to the next. */
typedef struct hn_product_layout {
    uint32_t operand; /* of the call */
    bool transposed;  /* the product takes its transpose */
    int64_t rows, columns, ld;
    int64_t batch_stride;
} hn_product_layout;

/* A dimension of batches that is no stride of the library's: the product is called once for each
 * of its elements. */
typedef struct hn_product_loop {
    int64_t size;
    int64_t strides[HN_PRODUCT_OPERANDS]; /* elements */
} hn_product_loop;

typedef struct hn_product {
    bool is_empty;                             /* there is no result: nothing to do */
    hn_product_layout of[HN_PRODUCT_MATRICES]; /* C is D when there is none */
    bool has_c;
    uint32_t bias; /* operand that is added to each column of D, contiguous; 0: none */
    int64_t bias_batch_stride;
    int64_t batch_count; /* 1 or more */
    uint32_t loop_count;
    hn_product_loop loops[HN_EXTERN_BATCH];
    int64_t call_count; /* the product of the loops' sizes */
} hn_product;

/* Errors: unsupported, saying why. Of a call that hn_ext_check has accepted. */
hn_status hn_product_of(const hn_ext_call *call, hn_product *out) HN_MUST_USE;

#endif
