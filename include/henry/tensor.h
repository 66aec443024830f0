/* henry/tensor.h: arrays that go into and come out of a module.
 *
 * A tensor describes memory: element type, sizes, strides, address. It borrows the memory, takes it
 * over together with a function that frees it, or allocates its own. Tensors are reference counted;
 * the memory is freed with the last reference.
 *
 * Threads: retain and release are safe from any thread. A tensor's description never changes; its
 * elements need the same synchronization as any memory. */
#ifndef HENRY_TENSOR_H
#define HENRY_TENSOR_H

#include "henry/status.h"

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Element types. The numbers are part of stored formats: they never change. F16 is IEEE half
 * precision, BF16 the upper half of an F32, BOOL one byte that is 0 or 1. */
typedef enum hn_scalar_type {
    HN_NO_TYPE = 0,
    HN_F64 = 1,
    HN_F32 = 2,
    HN_F16 = 3,
    HN_BF16 = 4,
    HN_I64 = 5,
    HN_I32 = 6,
    HN_I16 = 7,
    HN_I8 = 8,
    HN_U8 = 9,
    HN_BOOL = 10,
    HN_SCALAR_TYPE_COUNT
} hn_scalar_type;

/* The kinds of devices that memory lies on. The numbers are part of stored formats: they never
 * change. */
typedef enum hn_device_kind {
    HN_DEVICE_CPU = 0,
    HN_DEVICE_CUDA = 1,
    HN_DEVICE_OPENCL = 2,
    HN_DEVICE_KIND_COUNT
} hn_device_kind;

/* "cpu"; "unknown" out of range. Never NULL. */
HN_API const char *hn_device_kind_name(hn_device_kind kind);

/* One device. Zeros are the CPU. */
typedef struct hn_device {
    hn_device_kind kind;
    uint32_t number; /* among those of the kind, from 0; of the CPU 0 */
} hn_device;

/* Bytes of an element; 0 for an unknown type. */
HN_API size_t hn_scalar_type_bytes(hn_scalar_type type);
/* "f32"; "none" for an unknown type. Never NULL. */
HN_API const char *hn_scalar_type_name(hn_scalar_type type);

#define HN_TENSOR_MAX_RANK 16

typedef struct hn_tensor hn_tensor;

/* What a tensor is made from.
 * Shapes: sizes[rank] (may be NULL for rank 0), strides[rank]; strides NULL means row-major
 * contiguous.
 * Units: sizes and strides in elements. Strides of user memory may be 0 but not negative. */
typedef struct hn_tensor_desc {
    hn_scalar_type type;
    uint32_t rank;
    const int64_t *sizes;
    const int64_t *strides;
    void *data; /* address of element 0; NULL: the tensor allocates (64-byte aligned, not zeroed) */
    /* Called with `free_user` when the last reference goes. NULL: `data` is borrowed and must
     * outlive the tensor. */
    void (*free_data)(void *free_user);
    void *free_user;
    /* Where `data` is. On another device than the CPU, `data` must be given; the tensor describes
     * it, and what needs the CPU's memory refuses it. On CUDA it is an address of the driver's, of a
     * device of this number (of those that are visible). */
    hn_device device;
} hn_tensor_desc;

/* Makes a tensor with one reference. sizes and strides are copied.
 * Errors: invalid-argument (unknown type, rank above 16, sizes missing, negative size or stride;
 * elements, packed or as laid out, of more bytes than 63 bits count; a device that cannot be),
 * unsupported (no `data` on another device than the CPU), out-of-memory. After an error the caller
 * still owns `data`. */
HN_API hn_status hn_tensor_create(const hn_tensor_desc *desc, hn_tensor **out_tensor) HN_MUST_USE;

/* Makes a tensor over memory that is only read: weights in flash, a mapped file, const data.
 * `desc->data` must be NULL; `data` takes its place under the same rules, including `free_data`. A
 * run accepts it as any other input, but refuses it where the program would write: as an output, or
 * as an input that the program changes.
 * Errors: as hn_tensor_create; invalid-argument also when `data` is NULL or `desc->data` is not. */
HN_API hn_status hn_tensor_create_const(const hn_tensor_desc *desc, const void *data,
                                        hn_tensor **out_tensor) HN_MUST_USE;
/* Whether the tensor was made by hn_tensor_create_const. False for NULL. */
HN_API bool hn_tensor_is_const(const hn_tensor *tensor);

/* Adds a reference and returns the tensor. NULL stays NULL. */
HN_API hn_tensor *hn_tensor_retain(hn_tensor *tensor);
/* Drops a reference; the last one frees. NULL is allowed. */
HN_API void hn_tensor_release(hn_tensor *tensor);

/* Of NULL: HN_NO_TYPE, 0 and NULL. */
HN_API hn_scalar_type hn_tensor_type(const hn_tensor *tensor);
HN_API uint32_t hn_tensor_rank(const hn_tensor *tensor);
HN_API const int64_t *hn_tensor_sizes(const hn_tensor *tensor);   /* borrowed; rank elements */
HN_API const int64_t *hn_tensor_strides(const hn_tensor *tensor); /* borrowed; rank elements */
/* Borrowed; address of element 0. Do not write to it if hn_tensor_is_const. */
HN_API void *hn_tensor_data(const hn_tensor *tensor);
HN_API int64_t hn_tensor_numel(const hn_tensor *tensor);
HN_API hn_device hn_tensor_device(const hn_tensor *tensor); /* of NULL: the CPU */

/* Copies the elements in row-major order to `out` (numel elements), whatever the strides.
 * Errors: invalid-argument (NULL, unless there are no elements); unsupported if the tensor is not
 * on the CPU. */
HN_API hn_status hn_tensor_copy_out(const hn_tensor *tensor, void *out);
/* The reverse: fills the tensor from row-major elements. Errors: also invalid-argument for a tensor
 * of read-only memory. */
HN_API hn_status hn_tensor_copy_in(hn_tensor *tensor, const void *elements);

/* What is in a tensor, as debuggers tell it (henry/debug.h). Units: elements. */
typedef struct hn_tensor_stats {
    int64_t count;
    int64_t nan_count, inf_count;
    /* the first NaN or infinite element in row-major order, and its value; -1: there is none */
    int64_t first_bad;
    double first_bad_value;
    /* of the finite elements; NaN when there are none. `std` is that of the population, bools are 0
     * and 1 */
    double min, max, mean, std;
} hn_tensor_stats;

/* ---- DLPack: tensors of other libraries, and for them, without a copy ----
 *
 * The structs are those of dlpack/dlpack.h, or of henry/dlpack.h for programs without it. All element
 * types of Henry have a number there. Memory is the CPU's (kDLCPU, kDLCUDAHost) or that of a CUDA device
 * (kDLCUDA). Order between streams is the callers' matter, as in Python's __dlpack__(stream). */
struct DLManagedTensor;
struct DLManagedTensorVersioned;

/* A tensor over the memory of `managed`, whose deleter is called when the last reference goes, by the
 * thread that drops it. One that is flagged as read-only becomes as of hn_tensor_create_const.
 * Owns: the tensor takes `managed` over; after an error it is still the caller's.
 * Errors: unsupported (an element type, or memory of a device, that Henry does not have), incompatible
 * (another major version than 1), invalid-argument (as hn_tensor_create; elements without address). */
HN_API hn_status hn_tensor_from_dlpack(struct DLManagedTensor *managed,
                                       hn_tensor **out_tensor) HN_MUST_USE;
HN_API hn_status hn_tensor_from_dlpack_versioned(struct DLManagedTensorVersioned *managed,
                                                 hn_tensor **out_tensor) HN_MUST_USE;

/* The tensor as a struct of DLPack, with strides and without an offset. Of read-only memory only the
 * newer struct can be made, which says so.
 * Owns: it has a reference to the tensor, and is the caller's, who calls its deleter or passes it on to
 * who does. Errors: unsupported (read-only memory; memory of an OpenCL device), out-of-memory. */
HN_API hn_status hn_tensor_to_dlpack(hn_tensor *tensor,
                                     struct DLManagedTensor **out_managed) HN_MUST_USE;
HN_API hn_status hn_tensor_to_dlpack_versioned(
    hn_tensor *tensor, struct DLManagedTensorVersioned **out_managed) HN_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
