/* henry/dlpack.h: the structs of DLPack 1.x, for programs that do not have DLPack's own header. The
 * functions that take them are hn_tensor_from_dlpack and its siblings in henry/tensor.h.
 *
 * The names are DLPack's (https://github.com/dmlc/dlpack), whose layout never changes within a major
 * version. A program that includes dlpack/dlpack.h includes it before this header, which then declares
 * nothing; or does without this one. */
#ifndef HENRY_DLPACK_H
#define HENRY_DLPACK_H

#include "henry/tensor.h"

#ifndef DLPACK_DLPACK_H_ /* what DLPack's own header defines */

#define DLPACK_MAJOR_VERSION 1
#define DLPACK_MINOR_VERSION 1

#define DLPACK_FLAG_BITMASK_READ_ONLY (UINT64_C(1) << 0)
#define DLPACK_FLAG_BITMASK_IS_COPIED (UINT64_C(1) << 1)

#ifdef __cplusplus
extern "C" {
#endif

/* Kinds of memory, those that Henry knows. */
enum { kDLCPU = 1, kDLCUDA = 2, kDLCUDAHost = 3 };

typedef struct DLDevice {
    int32_t device_type;
    int32_t device_id;
} DLDevice;

/* Kinds of elements, those that Henry knows. */
enum { kDLInt = 0, kDLUInt = 1, kDLFloat = 2, kDLBfloat = 4, kDLBool = 6 };

/* Units: `bits` of an element; `lanes` is 1, unless an element is a vector. */
typedef struct DLDataType {
    uint8_t code;
    uint8_t bits;
    uint16_t lanes;
} DLDataType;

/* Units: `shape` and `strides` in elements; strides NULL means row-major contiguous. Element 0 is
 * `byte_offset` bytes behind `data`, which is NULL when there are no elements. */
typedef struct DLTensor {
    void *data;
    DLDevice device;
    int32_t ndim;
    DLDataType dtype;
    int64_t *shape;
    int64_t *strides;
    uint64_t byte_offset;
} DLTensor;

/* Owns: whoever has it calls `deleter` with it, once; NULL: there is nothing to be done. */
typedef struct DLManagedTensor {
    DLTensor dl_tensor;
    void *manager_ctx;
    void (*deleter)(struct DLManagedTensor *self);
} DLManagedTensor;

typedef struct DLPackVersion {
    uint32_t major;
    uint32_t minor;
} DLPackVersion;

/* The same since DLPack 1.0. Of another major version only `version`, `manager_ctx` and `deleter` mean
 * what they mean here. */
typedef struct DLManagedTensorVersioned {
    DLPackVersion version;
    void *manager_ctx;
    void (*deleter)(struct DLManagedTensorVersioned *self);
    uint64_t flags; /* DLPACK_FLAG_BITMASK_... */
    DLTensor dl_tensor;
} DLManagedTensorVersioned;

#ifdef __cplusplus
}
#endif

#endif
#endif
