/* cudnn_graph.h: descriptors of cuDNN, and the graph of a convolution made of them. */
#ifndef HN_OPS_CUDA_CUDNN_GRAPH_H
#define HN_OPS_CUDA_CUDNN_GRAPH_H

#include "ops/cuda/convolution.h"
#include "ops/cuda/cudnn.h"

enum { HN_DNN_DESCRIPTORS_MAX = 64 };

/* Descriptors that end together. It latches: after the first failure nothing is done any more, and
 * descriptors are NULL. */
typedef struct hn_dnn_builder {
    const hn_cudnn *dnn;
    hn_status status; /* the first failure; owned */
    void *items[HN_DNN_DESCRIPTORS_MAX];
    uint32_t count;
} hn_dnn_builder;

void *hn_dnn_make(hn_dnn_builder *b, int type);
void hn_dnn_set(hn_dnn_builder *b, void *descriptor, int attribute, int type, int64_t count,
                const void *elements);
void hn_dnn_finish(hn_dnn_builder *b, void *descriptor);
/* How many of `wanted` there are. Descriptors that an attribute is got into were made before. */
int64_t hn_dnn_get(hn_dnn_builder *b, const void *descriptor, int attribute, int type,
                   int64_t wanted, void *elements);
void hn_dnn_drop(hn_dnn_builder *b, void *descriptor); /* ends one; NULL is allowed */
void hn_dnn_end(hn_dnn_builder *b);                    /* ends all */

typedef struct hn_dnn_tensors {
    int type;                               /* cudnnDataType_t; sums are f32 */
    uint32_t align[HN_CONVOLUTION_TENSORS]; /* bytes */
} hn_dnn_tensors;

/* The operations of `conv`, whose tensors have the numbers of operands as ids. `handle` may be
 * NULL. */
void *hn_dnn_graph(hn_dnn_builder *b, const hn_convolution *conv, const hn_dnn_tensors *tensors,
                   void *handle);

#endif
