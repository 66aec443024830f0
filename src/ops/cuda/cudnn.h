/* cudnn.h: the functions of cuDNN that are called: of its graphs, which version 9 has. Nothing is
 * linked with it, and none of its headers is needed: these are own declarations. It comes with
 * PyTorch, and by itself. Its parts are libraries beside it, which it opens when it needs them. */
#ifndef HN_OPS_CUDA_CUDNN_H
#define HN_OPS_CUDA_CUDNN_H

#include "henry/status.h"

#include <stddef.h>
#include <stdint.h>

/* cudnnStatus_t: thousands are categories */
enum {
    HN_DNN_SUCCESS = 0,
    HN_DNN_BAD_PARAM = 2000,     /* ... to 2999: not known to this version, for one */
    HN_DNN_NOT_SUPPORTED = 3000, /* ... to 3999 */
    HN_DNN_NOT_SUPPORTED_END = 4000,
    HN_DNN_HOST_ALLOCATION_FAILED = 4003,
    HN_DNN_DEVICE_ALLOCATION_FAILED = 4004
};

/* cudnnDataType_t */
enum { HN_DNN_FLOAT = 0, HN_DNN_HALF = 2, HN_DNN_BFLOAT16 = 9 };

/* cudnnBackendDescriptorType_t */
enum {
    HN_DNN_POINTWISE = 0,
    HN_DNN_CONVOLUTION = 1,
    HN_DNN_ENGINE = 2,
    HN_DNN_ENGINECFG = 3,
    HN_DNN_ENGINEHEUR = 4,
    HN_DNN_EXECUTION_PLAN = 5,
    HN_DNN_OPERATION_CONVOLUTION = 10, /* forward */
    HN_DNN_OPERATION_POINTWISE = 13,
    HN_DNN_OPERATIONGRAPH = 15,
    HN_DNN_VARIANT_PACK = 16,
    HN_DNN_TENSOR = 17,
    HN_DNN_DEVICEPROP = 38
};

/* cudnnBackendAttributeType_t */
enum {
    HN_DNN_TYPE_HANDLE = 0,
    HN_DNN_TYPE_DATA_TYPE = 1,
    HN_DNN_TYPE_BOOLEAN = 2,
    HN_DNN_TYPE_INT64 = 3,
    HN_DNN_TYPE_FLOAT = 4,
    HN_DNN_TYPE_VOID_PTR = 6,
    HN_DNN_TYPE_CONVOLUTION_MODE = 7,
    HN_DNN_TYPE_HEUR_MODE = 8,
    HN_DNN_TYPE_NAN_PROPAGATION = 10,
    HN_DNN_TYPE_NUMERICAL_NOTE = 11,
    HN_DNN_TYPE_POINTWISE_MODE = 14,
    HN_DNN_TYPE_DESCRIPTOR = 15,
    HN_DNN_TYPE_BEHAVIOR_NOTE = 19,
    HN_DNN_TYPE_CHAR = 24
};

/* cudnnBackendAttributeName_t */
enum {
    HN_DNN_POINTWISE_MODE = 0,
    HN_DNN_POINTWISE_MATH_PREC = 1,
    HN_DNN_POINTWISE_NAN_PROPAGATION = 2,
    HN_DNN_CONVOLUTION_COMP_TYPE = 100,
    HN_DNN_CONVOLUTION_CONV_MODE = 101,
    HN_DNN_CONVOLUTION_DILATIONS = 102,
    HN_DNN_CONVOLUTION_FILTER_STRIDES = 103,
    HN_DNN_CONVOLUTION_POST_PADDINGS = 104,
    HN_DNN_CONVOLUTION_PRE_PADDINGS = 105,
    HN_DNN_CONVOLUTION_SPATIAL_DIMS = 106,
    HN_DNN_ENGINEHEUR_MODE = 200,
    HN_DNN_ENGINEHEUR_OPERATION_GRAPH = 201,
    HN_DNN_ENGINEHEUR_RESULTS = 202,
    HN_DNN_ENGINEHEUR_DEVICEPROP = 204,
    HN_DNN_ENGINECFG_ENGINE = 300,
    HN_DNN_EXECUTION_PLAN_HANDLE = 400,
    HN_DNN_EXECUTION_PLAN_ENGINE_CONFIG = 401,
    HN_DNN_EXECUTION_PLAN_WORKSPACE_SIZE = 402,
    HN_DNN_EXECUTION_PLAN_DEVICEPROP = 407,
    HN_DNN_OPERATION_CONVOLUTION_ALPHA = 700,
    HN_DNN_OPERATION_CONVOLUTION_BETA = 701,
    HN_DNN_OPERATION_CONVOLUTION_CONV_DESC = 702,
    HN_DNN_OPERATION_CONVOLUTION_W = 703,
    HN_DNN_OPERATION_CONVOLUTION_X = 704,
    HN_DNN_OPERATION_CONVOLUTION_Y = 705,
    HN_DNN_OPERATION_POINTWISE_DESC = 750,
    HN_DNN_OPERATION_POINTWISE_X = 751,
    HN_DNN_OPERATION_POINTWISE_B = 752,
    HN_DNN_OPERATION_POINTWISE_Y = 753,
    HN_DNN_OPERATIONGRAPH_HANDLE = 800,
    HN_DNN_OPERATIONGRAPH_OPS = 801,
    HN_DNN_TENSOR_BYTE_ALIGNMENT = 900,
    HN_DNN_TENSOR_DATA_TYPE = 901,
    HN_DNN_TENSOR_DIMENSIONS = 902,
    HN_DNN_TENSOR_STRIDES = 903,
    HN_DNN_TENSOR_UNIQUE_ID = 906,
    HN_DNN_TENSOR_IS_VIRTUAL = 907,
    HN_DNN_VARIANT_PACK_UNIQUE_IDS = 1000,
    HN_DNN_VARIANT_PACK_DATA_POINTERS = 1001,
    HN_DNN_VARIANT_PACK_WORKSPACE = 1003,
    HN_DNN_ENGINE_NUMERICAL_NOTE = 1303,
    HN_DNN_ENGINE_BEHAVIOR_NOTE = 1305,
    HN_DNN_DEVICEPROP_JSON = 2702
};

enum { HN_DNN_CROSS_CORRELATION = 1 };              /* cudnnConvolutionMode_t */
enum { HN_DNN_PROPAGATE_NAN = 1 };                  /* cudnnNanPropagation_t */
enum { HN_DNN_ADD = 0, HN_DNN_RELU = 100 };         /* cudnnPointwiseMode_t */
enum { HN_DNN_HEUR_FALLBACK = 2, HN_DNN_HEUR = 3 }; /* cudnnBackendHeurMode_t */

/* cudnnBackendNumericalNote_t: what an engine does to numbers */
enum {
    HN_DNN_NOTE_TENSOR_CORE = 0,
    HN_DNN_NOTE_DOWN_CONVERT = 1,
    HN_DNN_NOTE_NARROW_SUMS = 2,
    HN_DNN_NOTE_FFT = 3,
    HN_DNN_NOTE_NONDETERMINISTIC = 4,
    HN_DNN_NOTE_WINOGRAD = 5,
    HN_DNN_NOTES_MAX = 32
};

/* cudnnBackendBehaviorNote_t: what it takes besides */
enum { HN_DNN_NEEDS_NVRTC = 0, HN_DNN_GRAPH_NATIVE = 3 };

/* Handles and descriptors are pointers to what the library keeps to itself. */
#define HN_CUDNN_FUNCTIONS(X)                                                                      \
    X(int, cudnnCreate, (void **handle))                                                           \
    X(int, cudnnDestroy, (void *handle))                                                           \
    X(int, cudnnSetStream, (void *handle, void *stream))                                           \
    X(size_t, cudnnGetVersion, (void))                                                             \
    X(const char *, cudnnGetErrorString, (int status))                                             \
    X(void, cudnnGetLastErrorString, (char *message, size_t room))                                 \
    X(int, cudnnBackendCreateDescriptor, (int type, void **descriptor))                            \
    X(int, cudnnBackendDestroyDescriptor, (void *descriptor))                                      \
    X(int, cudnnBackendFinalize, (void *descriptor))                                               \
    X(int, cudnnBackendSetAttribute,                                                               \
      (void *descriptor, int attribute, int type, int64_t count, const void *elements))            \
    X(int, cudnnBackendGetAttribute,                                                               \
      (const void *descriptor, int attribute, int type, int64_t wanted, int64_t *out_count,        \
       void *elements))                                                                            \
    X(int, cudnnBackendExecute, (void *handle, void *plan, void *pack))

typedef struct hn_cudnn {
#define HN_CUDNN_MEMBER(result, name, parameters) result(*name) parameters;
    HN_CUDNN_FUNCTIONS(HN_CUDNN_MEMBER)
#undef HN_CUDNN_MEMBER
} hn_cudnn;

/* From the library that HENRY_CUDNN names ("off": none), or else from libcudnn.so.9, where the loader
 * finds it or in a toolkit (CUDA_HOME, /usr/local/cuda). Errors: not-found; incompatible when a
 * function is missing. */
hn_status hn_cudnn_load(hn_cudnn *out) HN_MUST_USE;
/* Opens the library, if it is there, and what it needs for convolutions. */
void hn_cudnn_open_early(void);

/* NULL for success. Else "cuDNN: cudnnBackendFinalize failed: CUDNN_STATUS_... (2000): why", for the
 * call that this thread made last: unsupported, out-of-memory, or device. */
hn_status hn_cudnn_status(const hn_cudnn *dnn, int code, const char *call) HN_MUST_USE;

#endif
