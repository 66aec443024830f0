/* cudnn_standin.h: what tests ask of the library that stands in for cuDNN (cudnn_standin.c): a
 * function beside the real ones, found with dlsym. */
#ifndef HN_TESTS_CUDNN_STANDIN_H
#define HN_TESTS_CUDNN_STANDIN_H

#include <stdbool.h>
#include <stdint.h>

/* The engines that its heuristic names, in this order. */
typedef enum cudnn_standin_engine {
    CUDNN_STANDIN_COMPILES, /* needs NVRTC */
    CUDNN_STANDIN_WINOGRAD,
    CUDNN_STANDIN_REFUSES,     /* when a plan is made of it */
    CUDNN_STANDIN_LARGE,       /* wants a GiB of workspace */
    CUDNN_STANDIN_TENSOR_CORE, /* rounds f32 to TF32 */
    CUDNN_STANDIN_PLAIN,
    CUDNN_STANDIN_ENGINES
} cudnn_standin_engine;

typedef struct cudnn_standin {
    uint32_t calls;              /* of functions that can fail, since the last reset */
    uint32_t fail_at, fail_code; /* this call fails, from 1; 0: none does */
    uint32_t objects;            /* handles and descriptors that are there now */
    uint32_t convolutions;       /* that were computed */
    uint32_t packs;              /* variant packs that were made */
    uint32_t plans;              /* that were made */
    bool has_fallback_only;      /* the better list of the heuristic is empty */
    bool has_nothing;            /* both are */
    /* of the last convolution */
    cudnn_standin_engine engine;
    uint32_t operations;
    bool channels_last;
    int64_t align_x;
    char misuse[160]; /* the first thing that a caller did wrong; "": nothing */
} cudnn_standin;

/* "cudnnStandin": the one record of the library. */
typedef cudnn_standin *cudnn_standin_fn(void);

#endif
