/* cuda.h: functions of NVIDIA's driver, where there is one, and what all users of it share: the
 * list of devices, architectures, errors.
 *
 * Nothing is linked with CUDA, and no header of it is needed: the functions come from libcuda.so.1,
 * which the driver installs, and what is used of their types and numbers is declared here. They are
 * those of CUDA 11.4 (driver 470), which later drivers have, too. The library stays in the process:
 * it has threads and ends with it. */
#ifndef HN_BASE_CUDA_H
#define HN_BASE_CUDA_H

#include "base/str.h"

/* ---- types and numbers of the driver ---- */

typedef int hn_cuda_result;       /* CUresult */
typedef uint64_t hn_cuda_address; /* CUdeviceptr */
typedef struct hn_cuda_context_ *hn_cuda_context;
typedef struct hn_cuda_module_ *hn_cuda_module;
typedef struct hn_cuda_function_ *hn_cuda_function;
typedef struct hn_cuda_stream_ *hn_cuda_stream;
typedef struct hn_cuda_event_ *hn_cuda_event;
typedef struct hn_cuda_pool_ *hn_cuda_pool;
typedef struct hn_cuda_graph_ *hn_cuda_graph;
typedef struct hn_cuda_graph_node_ *hn_cuda_graph_node;
typedef struct hn_cuda_graph_exec_ *hn_cuda_graph_exec;

/* CUresult: those that are treated in a way of their own */
enum {
    HN_CUDA_SUCCESS = 0,
    HN_CUDA_INVALID_VALUE = 1,
    HN_CUDA_OUT_OF_MEMORY = 2,
    HN_CUDA_NOT_INITIALIZED = 3,
    HN_CUDA_STUB_LIBRARY = 34,
    HN_CUDA_NO_DEVICE = 100,
    HN_CUDA_INVALID_IMAGE = 200,
    HN_CUDA_NO_BINARY_FOR_GPU = 209,
    HN_CUDA_ECC_UNCORRECTABLE = 214,
    HN_CUDA_INVALID_PTX = 218,
    HN_CUDA_NVLINK_UNCORRECTABLE = 220,
    HN_CUDA_JIT_COMPILER_NOT_FOUND = 221,
    HN_CUDA_UNSUPPORTED_PTX_VERSION = 222,
    HN_CUDA_INVALID_SOURCE = 300,
    HN_CUDA_NOT_FOUND = 500,
    HN_CUDA_ILLEGAL_ADDRESS = 700,
    HN_CUDA_LAUNCH_OUT_OF_RESOURCES = 701,
    HN_CUDA_LAUNCH_TIMEOUT = 702,
    HN_CUDA_CONTEXT_IS_DESTROYED = 709,
    HN_CUDA_ASSERT = 710,
    HN_CUDA_HARDWARE_STACK_ERROR = 714,
    HN_CUDA_LAUNCH_FAILED = 719,
    HN_CUDA_SYSTEM_NOT_READY = 802,
    HN_CUDA_SYSTEM_DRIVER_MISMATCH = 803,
    HN_CUDA_COMPAT_NOT_SUPPORTED = 804
};

/* CUdevice_attribute */
enum {
    HN_CUDA_DEVICE_MAX_THREADS_PER_BLOCK = 1,
    HN_CUDA_DEVICE_MULTIPROCESSOR_COUNT = 16,
    HN_CUDA_DEVICE_L2_CACHE_SIZE = 38,
    HN_CUDA_DEVICE_CAPABILITY_MAJOR = 75,
    HN_CUDA_DEVICE_CAPABILITY_MINOR = 76,
    HN_CUDA_DEVICE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN = 97,
    HN_CUDA_DEVICE_MEMORY_POOLS_SUPPORTED = 115
};

/* CUfunction_attribute */
enum {
    HN_CUDA_FUNCTION_MAX_THREADS_PER_BLOCK = 0,
    HN_CUDA_FUNCTION_SHARED_SIZE_BYTES = 1,
    HN_CUDA_FUNCTION_NUM_REGS = 4,
    HN_CUDA_FUNCTION_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8
};

enum { HN_CUDA_STREAM_NON_BLOCKING = 1, HN_CUDA_EVENT_DEFAULT = 0, HN_CUDA_EVENT_NO_TIME = 2 };
enum { HN_CUDA_HOST_ALLOC_PORTABLE = 1, HN_CUDA_HOST_ALLOC_MAPPED = 2 };
/* CUmemorytype */
enum { HN_CUDA_POINTER_MEMORY_TYPE = 2, HN_CUDA_MEMORY_HOST = 1, HN_CUDA_MEMORY_DEVICE = 2 };
enum { HN_CUDA_JIT_ERROR_LOG = 5, HN_CUDA_JIT_ERROR_LOG_BYTES = 6 };
enum { HN_CUDA_POOL_RELEASE_THRESHOLD = 4 };

/* Of this mode, other threads and calls that are no work of the stream are not disturbed. */
enum { HN_CUDA_CAPTURE_RELAXED = 2 };
enum { HN_CUDA_CAPTURE_NONE = 0 }; /* of a stream */

/* CUgraphExecUpdateResultInfo */
typedef struct hn_cuda_graph_update {
    int result;
    void *node, *from_node;
} hn_cuda_graph_update;

/* CUDA_KERNEL_NODE_PARAMS_v1 */
typedef struct hn_cuda_kernel_node {
    hn_cuda_function function;
    unsigned grid[3], block[3];
    unsigned shared_bytes;
    void **params, **extra;
} hn_cuda_kernel_node;

/* Half of a CUDA_MEMCPY3D: where bytes come from, or where they go to */
typedef struct hn_cuda_copy_side {
    size_t x_bytes, y, z, lod;
    int memory_type;
    const void *host;
    hn_cuda_address device;
    void *array, *reserved;
    size_t pitch, height;
} hn_cuda_copy_side;

/* CUDA_MEMCPY3D */
typedef struct hn_cuda_copy_node {
    hn_cuda_copy_side from, to;
    size_t width_bytes, height, depth; /* of bytes in a row: height and depth are 1 */
} hn_cuda_copy_node;

/* CUDA_MEMSET_NODE_PARAMS_v1 */
typedef struct hn_cuda_fill_node {
    hn_cuda_address to;
    size_t pitch;
    unsigned value, element_bytes;
    size_t width, height; /* elements; rows */
} hn_cuda_fill_node;

/* CUuuid */
typedef struct hn_cuda_uuid {
    uint8_t bytes[16];
} hn_cuda_uuid;

/* CUmemPoolProps */
typedef struct hn_cuda_pool_options {
    int allocation_type; /* 1: pinned, the only one */
    int handle_types;    /* 0: none */
    int location_type;   /* 1: a device */
    int location;        /* its number */
    void *security;
    size_t max_bytes; /* 0: no limit */
    uint8_t reserved[56];
} hn_cuda_pool_options;

/* Every function that is called: its name here, which is that of the header, the name under which
 * the library has it, and its parameters. All return a hn_cuda_result. */
#define HN_CUDA_FUNCTIONS(X)                                                                       \
    X(cuInit, "cuInit", (unsigned flags))                                                          \
    X(cuDriverGetVersion, "cuDriverGetVersion", (int *out))                                        \
    X(cuGetErrorName, "cuGetErrorName", (hn_cuda_result code, const char **out))                   \
    X(cuDeviceGetCount, "cuDeviceGetCount", (int *out))                                            \
    X(cuDeviceGet, "cuDeviceGet", (int *out, int number))                                          \
    X(cuDeviceGetName, "cuDeviceGetName", (char *out, int bytes, int device))                      \
    X(cuDeviceGetUuid, "cuDeviceGetUuid_v2", (hn_cuda_uuid * out, int device))                     \
    X(cuDeviceTotalMem, "cuDeviceTotalMem_v2", (size_t * out, int device))                         \
    X(cuDeviceGetAttribute, "cuDeviceGetAttribute", (int *out, int attribute, int device))         \
    X(cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain", (hn_cuda_context * out, int device))   \
    X(cuDevicePrimaryCtxRelease, "cuDevicePrimaryCtxRelease_v2", (int device))                     \
    X(cuCtxGetCurrent, "cuCtxGetCurrent", (hn_cuda_context * out))                                 \
    X(cuCtxGetDevice, "cuCtxGetDevice", (int *out))                                                \
    X(cuCtxPushCurrent, "cuCtxPushCurrent_v2", (hn_cuda_context context))                          \
    X(cuCtxPopCurrent, "cuCtxPopCurrent_v2", (hn_cuda_context * out))                              \
    X(cuMemAlloc, "cuMemAlloc_v2", (hn_cuda_address * out, size_t bytes))                          \
    X(cuMemFree, "cuMemFree_v2", (hn_cuda_address address))                                        \
    X(cuMemGetInfo, "cuMemGetInfo_v2", (size_t * out_free, size_t * out_all))                      \
    X(cuMemPoolCreate, "cuMemPoolCreate",                                                          \
      (hn_cuda_pool * out, const hn_cuda_pool_options *options))                                   \
    X(cuMemPoolSetAttribute, "cuMemPoolSetAttribute",                                              \
      (hn_cuda_pool pool, int attribute, void *value))                                             \
    X(cuMemPoolDestroy, "cuMemPoolDestroy", (hn_cuda_pool pool))                                   \
    X(cuMemAllocFromPoolAsync, "cuMemAllocFromPoolAsync",                                          \
      (hn_cuda_address * out, size_t bytes, hn_cuda_pool pool, hn_cuda_stream stream))             \
    X(cuMemFreeAsync, "cuMemFreeAsync", (hn_cuda_address address, hn_cuda_stream stream))          \
    X(cuMemHostAlloc, "cuMemHostAlloc", (void **out, size_t bytes, unsigned flags))                \
    X(cuMemFreeHost, "cuMemFreeHost", (void *memory))                                              \
    X(cuMemHostRegister, "cuMemHostRegister_v2", (void *memory, size_t bytes, unsigned flags))     \
    X(cuMemHostUnregister, "cuMemHostUnregister", (void *memory))                                  \
    X(cuMemHostGetDevicePointer, "cuMemHostGetDevicePointer_v2",                                   \
      (hn_cuda_address * out, void *memory, unsigned flags))                                       \
    X(cuPointerGetAttributes, "cuPointerGetAttributes",                                            \
      (unsigned count, int *attributes, void **outs, hn_cuda_address address))                     \
    X(cuMemcpyHtoDAsync, "cuMemcpyHtoDAsync_v2",                                                   \
      (hn_cuda_address to, const void *from, size_t bytes, hn_cuda_stream stream))                 \
    X(cuMemcpyDtoHAsync, "cuMemcpyDtoHAsync_v2",                                                   \
      (void *to, hn_cuda_address from, size_t bytes, hn_cuda_stream stream))                       \
    X(cuMemcpyDtoDAsync, "cuMemcpyDtoDAsync_v2",                                                   \
      (hn_cuda_address to, hn_cuda_address from, size_t bytes, hn_cuda_stream stream))             \
    X(cuMemsetD8Async, "cuMemsetD8Async",                                                          \
      (hn_cuda_address to, unsigned char byte, size_t bytes, hn_cuda_stream stream))               \
    X(cuStreamCreate, "cuStreamCreate", (hn_cuda_stream * out, unsigned flags))                    \
    X(cuStreamDestroy, "cuStreamDestroy_v2", (hn_cuda_stream stream))                              \
    X(cuStreamSynchronize, "cuStreamSynchronize", (hn_cuda_stream stream))                         \
    X(cuStreamWaitEvent, "cuStreamWaitEvent",                                                      \
      (hn_cuda_stream stream, hn_cuda_event event, unsigned flags))                                \
    X(cuEventCreate, "cuEventCreate", (hn_cuda_event * out, unsigned flags))                       \
    X(cuEventDestroy, "cuEventDestroy_v2", (hn_cuda_event event))                                  \
    X(cuEventRecord, "cuEventRecord", (hn_cuda_event event, hn_cuda_stream stream))                \
    X(cuEventSynchronize, "cuEventSynchronize", (hn_cuda_event event))                             \
    X(cuEventQuery, "cuEventQuery", (hn_cuda_event event))                                         \
    X(cuEventElapsedTime, "cuEventElapsedTime",                                                    \
      (float *out_ms, hn_cuda_event begin, hn_cuda_event end))                                     \
    X(cuModuleLoadDataEx, "cuModuleLoadDataEx",                                                    \
      (hn_cuda_module * out, const void *image, unsigned count, int *options, void **values))      \
    X(cuModuleUnload, "cuModuleUnload", (hn_cuda_module module))                                   \
    X(cuModuleGetFunction, "cuModuleGetFunction",                                                  \
      (hn_cuda_function * out, hn_cuda_module module, const char *name))                           \
    X(cuFuncGetAttribute, "cuFuncGetAttribute",                                                    \
      (int *out, int attribute, hn_cuda_function function))                                        \
    X(cuFuncSetAttribute, "cuFuncSetAttribute",                                                    \
      (hn_cuda_function function, int attribute, int value))                                       \
    X(cuLaunchKernel, "cuLaunchKernel",                                                            \
      (hn_cuda_function function, unsigned grid_x, unsigned grid_y, unsigned grid_z,               \
       unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,                \
       hn_cuda_stream stream, void **params, void **extra))                                        \
    X(cuStreamIsCapturing, "cuStreamIsCapturing", (hn_cuda_stream stream, int *out_state))         \
    X(cuStreamBeginCapture, "cuStreamBeginCapture_v2", (hn_cuda_stream stream, int mode))          \
    X(cuStreamEndCapture, "cuStreamEndCapture", (hn_cuda_stream stream, hn_cuda_graph * out))      \
    X(cuGraphInstantiate, "cuGraphInstantiateWithFlags",                                           \
      (hn_cuda_graph_exec * out, hn_cuda_graph graph, unsigned long long flags))                   \
    X(cuGraphLaunch, "cuGraphLaunch", (hn_cuda_graph_exec exec, hn_cuda_stream stream))            \
    X(cuGraphDestroy, "cuGraphDestroy", (hn_cuda_graph graph))                                     \
    X(cuGraphExecDestroy, "cuGraphExecDestroy", (hn_cuda_graph_exec exec))

/* Those that a driver may lack: they are NULL then. */
#define HN_CUDA_NEWER_FUNCTIONS(X)                                                                 \
    X(cuFuncGetParamInfo, "cuFuncGetParamInfo", /* CUDA 12.4 */                                    \
      (hn_cuda_function function, size_t index, size_t * out_offset, size_t * out_bytes))          \
    X(cuGraphExecUpdate, "cuGraphExecUpdate_v2", /* CUDA 12.0 */                                   \
      (hn_cuda_graph_exec exec, hn_cuda_graph graph, hn_cuda_graph_update * out))                  \
    /* with the nodes that the next one waits for; CUDA 11.3 */                                    \
    X(cuStreamGetCaptureInfo, "cuStreamGetCaptureInfo_v2",                                         \
      (hn_cuda_stream stream, int *out_state, uint64_t *out_id, hn_cuda_graph *out_graph,          \
       const hn_cuda_graph_node **out_nodes, size_t *out_count))                                   \
    X(cuGraphGetNodes, "cuGraphGetNodes", /* CUDA 10 */                                            \
      (hn_cuda_graph graph, hn_cuda_graph_node * out, size_t * count))                             \
    X(cuGraphExecKernelNodeSetParams, "cuGraphExecKernelNodeSetParams", /* CUDA 10.1 */            \
      (hn_cuda_graph_exec exec, hn_cuda_graph_node node, const hn_cuda_kernel_node *params))       \
    X(cuGraphExecMemcpyNodeSetParams, "cuGraphExecMemcpyNodeSetParams", /* CUDA 10.2 */            \
      (hn_cuda_graph_exec exec, hn_cuda_graph_node node, const hn_cuda_copy_node *params,          \
       hn_cuda_context context))                                                                   \
    X(cuGraphExecMemsetNodeSetParams, "cuGraphExecMemsetNodeSetParams", /* CUDA 10.2 */            \
      (hn_cuda_graph_exec exec, hn_cuda_graph_node node, const hn_cuda_fill_node *params,          \
       hn_cuda_context context))

/* The functions. A copy with other functions in it is as good. */
typedef struct hn_cuda {
#define HN_CUDA_MEMBER(name, symbol, params) hn_cuda_result(*name) params;
    HN_CUDA_FUNCTIONS(HN_CUDA_MEMBER)
    HN_CUDA_NEWER_FUNCTIONS(HN_CUDA_MEMBER)
#undef HN_CUDA_MEMBER
} hn_cuda;

/* Loads the driver and initialises it. Errors: not-found without a driver or device; incompatible
 * when the driver is too old; device when it cannot be initialised, as in the child of a process
 * that has used it. */
hn_status hn_cuda_load(hn_cuda *out) HN_MUST_USE;

/* ---- devices ---- */

enum { HN_CUDA_UUID_BYTES = 41 }; /* "GPU-" and 36 characters, and the end */

typedef struct hn_cuda_device {
    uint32_t number; /* what the driver calls it; CUDA_VISIBLE_DEVICES decides */
    char name[64];   /* "NVIDIA H200", without what would steer a terminal */
    char uuid[HN_CUDA_UUID_BYTES];
    uint32_t arch; /* 90: of capability 9.0 */
    uint64_t memory_bytes;
} hn_cuda_device;

/* At least 1. Errors: device. */
hn_status hn_cuda_count(const hn_cuda *cuda, uint32_t *out) HN_MUST_USE;
/* Errors: not-found, when there is no device of this number; device. */
hn_status hn_cuda_device_get(const hn_cuda *cuda, uint32_t number, hn_cuda_device *out) HN_MUST_USE;
/* The number of the device whose UUID begins so, "GPU-8f2c". Errors: not-found, with those that are
 * there; invalid-argument when there are several; device. */
hn_status hn_cuda_device_named(const hn_cuda *cuda, const char *uuid, uint32_t *out) HN_MUST_USE;
/* "13.0": the newest CUDA that the driver knows. Nothing if it does not tell. */
void hn_cuda_version_print(const hn_cuda *cuda, hn_strbuf *out);

/* ---- errors ---- */

/* Whether a result means that the context is lost: all calls fail from now on, in this process. */
bool hn_cuda_is_sticky(hn_cuda_result code);
/* NULL for success. Else "CUDA: cuLaunchKernel failed: CUDA_ERROR_INVALID_VALUE (1)",
 * out-of-memory when that is what it says, else device. */
hn_status hn_cuda_status(const hn_cuda *cuda, hn_cuda_result code, const char *call) HN_MUST_USE;

#endif
