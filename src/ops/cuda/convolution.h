/* convolution.h: a call of CONV as the convolutions that libraries for GPUs do:
 *
 *   out = relu?(conv(x, w) + residual? + bias?)
 *
 * of tensors [n, c, spatial..] that all lie in memory with channels last, or all with channels in
 * front of the places. Nothing here knows a library. */
#ifndef HN_OPS_CUDA_CONVOLUTION_H
#define HN_OPS_CUDA_CONVOLUTION_H

#include "ops/cpu/ext.h"

enum { HN_CONVOLUTION_DIMS = 5 };

typedef enum hn_convolution_tensor {
    HN_CONVOLUTION_OUT,
    HN_CONVOLUTION_X,
    HN_CONVOLUTION_W,
    HN_CONVOLUTION_BIAS, /* [1, o, 1..] */
    HN_CONVOLUTION_RESIDUAL,
    HN_CONVOLUTION_TENSORS /* they have the numbers of the call's operands */
} hn_convolution_tensor;

typedef struct hn_convolution_shape {
    bool is_there;
    int64_t sizes[HN_CONVOLUTION_DIMS], strides[HN_CONVOLUTION_DIMS]; /* elements */
} hn_convolution_shape;

typedef struct hn_convolution {
    bool is_empty;    /* there is no result: nothing to do */
    uint32_t spatial; /* 2 or 3: tensors have two dimensions more */
    bool channels_last;
    hn_convolution_shape of[HN_CONVOLUTION_TENSORS];
    int64_t stride[3], padding[3], dilation[3]; /* the first `spatial` ones */
    bool relu;
} hn_convolution;

/* Groups are not written down: x has so many times w's channels. Errors: unsupported, saying why. Of
 * a call that hn_ext_check has accepted. */
hn_status hn_convolution_of(const hn_ext_call *call, hn_convolution *out) HN_MUST_USE;

#endif
