/* cublaslt_standin.h: what tests ask of the library that stands in for cuBLASLt
 * (cublaslt_standin.c): its functions beside the real ones, found with dlsym. */
#ifndef HN_TESTS_CUBLASLT_STANDIN_H
#define HN_TESTS_CUBLASLT_STANDIN_H

#include <stdint.h>

typedef struct cublaslt_standin {
    uint32_t calls;              /* of functions that can fail, since the last reset */
    uint32_t fail_at, fail_code; /* this call fails, from 1; 0: none does */
    uint32_t objects;            /* handles and descriptors that are there now */
    uint32_t products;           /* that were computed */
    uint32_t choices;            /* of the heuristic */
    /* of the last product */
    int compute_type, last_batch_count;
    uint32_t last_epilogue, last_align_a, last_candidate; /* from 1 */
    char misuse[160]; /* the first thing that a caller did wrong; "": nothing */
} cublaslt_standin;

/* "cublasLtStandin": the one record of the library. */
typedef cublaslt_standin *cublaslt_standin_fn(void);

#endif
