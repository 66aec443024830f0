/* cublaslt_matmul.h: MATMUL by cuBLASLt. */
#ifndef HN_OPS_CUDA_CUBLASLT_MATMUL_H
#define HN_OPS_CUDA_CUBLASLT_MATMUL_H

#include "ops/cpu/ext.h"
#include "ops/cuda/cublaslt.h"

#include <pthread.h>

typedef struct hn_lt_matmul hn_lt_matmul;

/* What the heuristic of a handle has chosen, for calls that are equal but for addresses. Threads:
 * any. */
typedef struct hn_lt_choices {
    pthread_mutex_t lock; /* of what follows */
    struct hn_lt_known *items;
    uint32_t count, next; /* the one that goes when there is no more room */
} hn_lt_choices;

void hn_lt_choices_init(hn_lt_choices *c);
void hn_lt_choices_deinit(hn_lt_choices *c);

typedef struct hn_lt_options {
    bool tf32;              /* f32 operands may be rounded to 11 bits first: several times faster */
    size_t workspace_bytes; /* at most */
    uint32_t candidate;     /* of the heuristic's list, from 1 on; 0: the first */
    hn_lt_choices *choices; /* NULL: the heuristic is asked for each call */
} hn_lt_options;

/* The longest list that the heuristic is asked for. */
enum { HN_LT_CANDIDATES_MAX = 32 };

/* Chooses how: the first of the library's heuristic, or the candidate that the options name, which
 * is unsupported where the list is shorter. The CUDA context of `handle` (of
 * cublasLtCreate) is current, here and in each run. Takes f32, f64, f16 and bf16; any strides that
 * are a matrix by rows or columns with up to one stride of batches, or a few calls of such; a bias
 * for each column or row; a residual, or a bias for each element, stored as the result; relu, and
 * of 16-bit floats gelu by tanh. `call` was checked, and stays until `destroy`. Errors: unsupported
 * for other calls; device; out-of-memory. */
hn_status hn_lt_matmul_create(const hn_cublaslt *lt, void *handle, const hn_lt_options *options,
                              const hn_ext_call *call, hn_lt_matmul **out) HN_MUST_USE;
void hn_lt_matmul_destroy(hn_lt_matmul *m); /* NULL is allowed */

/* Memory of the device, aligned to 256 bytes, that a run wants. */
size_t hn_lt_matmul_scratch_bytes(const hn_lt_matmul *m);
/* `args`: addresses of the call's operands. One thread at a time. */
hn_status hn_lt_matmul_run(hn_lt_matmul *m, void *const *args, void *scratch,
                           void *stream) HN_MUST_USE;

#endif
