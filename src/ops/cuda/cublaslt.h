/* cublaslt.h: the functions of cuBLASLt that are called. Nothing is linked with it, and none of its
 * headers is needed: these are own declarations, of versions 12 and 13. It comes with the CUDA
 * toolkit, and with PyTorch. The library stays in the process: it has threads and state. */
#ifndef HN_OPS_CUDA_CUBLASLT_H
#define HN_OPS_CUDA_CUBLASLT_H

#include "henry/status.h"
#include "ops/cuda/library.h"

#include <stddef.h>
#include <stdint.h>

/* cublasStatus_t */
enum {
    HN_LT_SUCCESS = 0,
    HN_LT_ALLOC_FAILED = 3,
    HN_LT_INVALID_VALUE = 7,
    HN_LT_EXECUTION_FAILED = 13,
    HN_LT_NOT_SUPPORTED = 15
};

/* cudaDataType */
enum { HN_LT_R_32F = 0, HN_LT_R_64F = 1, HN_LT_R_16F = 2, HN_LT_R_16BF = 14 };

/* cublasComputeType_t: 32F is IEEE f32, also of sums of 16-bit products */
enum { HN_LT_COMPUTE_32F = 68, HN_LT_COMPUTE_64F = 70, HN_LT_COMPUTE_32F_FAST_TF32 = 77 };

enum { HN_LT_OP_N = 0, HN_LT_OP_T = 1 }; /* cublasOperation_t */

/* cublasLtEpilogue_t: RELU and GELU (that by tanh) go with BIAS */
enum {
    HN_LT_EPILOGUE_DEFAULT = 1,
    HN_LT_EPILOGUE_RELU = 2,
    HN_LT_EPILOGUE_BIAS = 4,
    HN_LT_EPILOGUE_GELU = 32
};

/* cublasLtMatrixLayoutAttribute_t; matrices are stored by columns unless another order is set */
enum {
    HN_LT_LAYOUT_BATCH_COUNT = 5, /* int32 */
    HN_LT_LAYOUT_BATCH_STRIDE = 6 /* int64, elements */
};

/* cublasLtMatmulDescAttributes_t */
enum {
    HN_LT_DESC_TRANSA = 3,            /* int32 */
    HN_LT_DESC_TRANSB = 4,            /* int32 */
    HN_LT_DESC_EPILOGUE = 7,          /* uint32 */
    HN_LT_DESC_BIAS_POINTER = 8,      /* address; one element for each row of D */
    HN_LT_DESC_BIAS_BATCH_STRIDE = 10 /* int64, elements */
};

/* cublasLtMatmulPreferenceAttributes_t */
enum {
    HN_LT_PREF_MAX_WORKSPACE = 1,     /* uint64 */
    HN_LT_PREF_REDUCTION_SCHEMES = 3, /* uint32, a mask */
    HN_LT_PREF_ALIGNMENT_A = 5        /* uint32, bytes; of B, C and D the next ones */
};

enum { HN_LT_REDUCE_IN_COMPUTE_TYPE = 2 }; /* cublasLtReductionScheme_t */

typedef struct hn_lt_algo {
    uint64_t data[8];
} hn_lt_algo;

typedef struct hn_lt_heuristic {
    hn_lt_algo algo;
    size_t workspace_bytes;
    int state; /* cublasStatus_t: only then is the rest good */
    float waves;
    int reserved[4];
} hn_lt_heuristic;

/* Handles and descriptors are pointers to what the library keeps to itself. */
#define HN_CUBLASLT_FUNCTIONS(X)                                                                   \
    X(int, cublasLtCreate, (void **handle))                                                        \
    X(int, cublasLtDestroy, (void *handle))                                                        \
    X(size_t, cublasLtGetVersion, (void))                                                          \
    X(const char *, cublasLtGetStatusName, (int status))                                           \
    X(int, cublasLtMatrixLayoutCreate,                                                             \
      (void **layout, int type, uint64_t rows, uint64_t cols, int64_t ld))                         \
    X(int, cublasLtMatrixLayoutSetAttribute,                                                       \
      (void *layout, int attribute, const void *value, size_t bytes))                              \
    X(int, cublasLtMatrixLayoutDestroy, (void *layout))                                            \
    X(int, cublasLtMatmulDescCreate, (void **desc, int compute_type, int scale_type))              \
    X(int, cublasLtMatmulDescSetAttribute,                                                         \
      (void *desc, int attribute, const void *value, size_t bytes))                                \
    X(int, cublasLtMatmulDescDestroy, (void *desc))                                                \
    X(int, cublasLtMatmulPreferenceCreate, (void **preference))                                    \
    X(int, cublasLtMatmulPreferenceSetAttribute,                                                   \
      (void *preference, int attribute, const void *value, size_t bytes))                          \
    X(int, cublasLtMatmulPreferenceDestroy, (void *preference))                                    \
    X(int, cublasLtMatmulAlgoGetHeuristic,                                                         \
      (void *handle, void *desc, void *a, void *b, void *c, void *d, void *preference, int wanted, \
       hn_lt_heuristic *results, int *out_count))                                                  \
    X(int, cublasLtMatmul,                                                                         \
      (void *handle, void *desc, const void *alpha, const void *a, void *a_layout, const void *b,  \
       void *b_layout, const void *beta, const void *c, void *c_layout, void *d, void *d_layout,   \
       const hn_lt_algo *algo, void *workspace, size_t workspace_bytes, void *stream))

typedef struct hn_cublaslt {
#define HN_CUBLASLT_MEMBER(result, name, parameters) result(*name) parameters;
    HN_CUBLASLT_FUNCTIONS(HN_CUBLASLT_MEMBER)
#undef HN_CUBLASLT_MEMBER
} hn_cublaslt;

/* From the library that HENRY_CUBLASLT names ("off": none), or else from libcublasLt.so.13 or .12,
 * where the loader finds them or in a toolkit (CUDA_HOME, /usr/local/cuda). Errors: not-found;
 * incompatible when a function is missing. */
hn_status hn_cublaslt_load(hn_cublaslt *out) HN_MUST_USE;
/* The file of it. */
hn_nvidia_library hn_cublaslt_library(void);
/* Opens the library, if it is there, for a `load` that comes later. */
void hn_cublaslt_open_early(void);

/* NULL for success. Else "cuBLASLt: cublasLtMatmul failed: CUBLAS_STATUS_... (13)": unsupported,
 * out-of-memory, or device. */
hn_status hn_cublaslt_status(const hn_cublaslt *lt, int code, const char *call) HN_MUST_USE;

#endif
