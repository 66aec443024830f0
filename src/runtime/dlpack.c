/* dlpack.c: tensors from and for other libraries, as structs of DLPack. */
#include "henry/dlpack.h"

#include "base/compiler.h"
#include "base/device.h"
#include "base/require.h"
#include "runtime/device/device.h"

#include <stdbool.h>
#include <stdlib.h>

static const struct {
    hn_scalar_type type;
    uint8_t code, bits;
} types[] = {
    {HN_F64, kDLFloat, 64},   {HN_F32, kDLFloat, 32}, {HN_F16, kDLFloat, 16},
    {HN_BF16, kDLBfloat, 16}, {HN_I64, kDLInt, 64},   {HN_I32, kDLInt, 32},
    {HN_I16, kDLInt, 16},     {HN_I8, kDLInt, 8},     {HN_U8, kDLUInt, 8},
    {HN_BOOL, kDLBool, 8},
};

/* ---- from others ---- */

static hn_status read_type(DLDataType t, hn_scalar_type *out) {
    for (size_t k = 0; k < HN_COUNT_OF(types); k++) {
        if (types[k].code != t.code || types[k].bits != t.bits || t.lanes != 1) continue;
        *out = types[k].type;
        return NULL;
    }
    return HN_ERROR(HN_UNSUPPORTED,
                    "elements of DLPack's type code %u with %u bits and %u lanes have no type here",
                    t.code, t.bits, t.lanes);
}

/* The row whose memory it is; pinned memory is the host's. NULL: none. */
static const hn_device_ops *row_of(int32_t device_type) {
    for (uint32_t kind = 0; kind < HN_DEVICE_KIND_COUNT && device_type; kind++) {
        const hn_device_ops *ops = hn_device_ops_of(kind);
        if (ops && ops->dlpack_type == device_type) return ops;
        if (ops && ops->dlpack_pinned_type == device_type) return hn_device_ops_of_host();
    }
    return NULL;
}

/* The host is one, whatever number others give to it. */
static hn_status read_device(DLDevice d, hn_device *out) {
    const hn_device_ops *ops = row_of(d.device_type);
    if (!ops)
        return HN_ERROR(HN_UNSUPPORTED, "memory of DLPack's device type %d cannot be used",
                        (int)d.device_type);
    *out = (hn_device){.kind = ops->kind};
    if (ops == hn_device_ops_of_host()) return NULL;
    if (d.device_id < 0)
        return HN_ERROR(HN_INVALID_ARGUMENT, "memory on %s:%d", hn_device_name(ops->kind),
                        (int)d.device_id);
    out->number = (uint32_t)d.device_id;
    return NULL;
}

/* Memory without elements has no address there, and any here. */
static void *address_of(const DLTensor *t) {
    static uint64_t nowhere;
    return t->data ? (uint8_t *)t->data + t->byte_offset : (void *)&nowhere;
}

static bool has_elements(const DLTensor *t) {
    for (int32_t d = 0; d < t->ndim; d++)
        if (t->shape[d] == 0) return false;
    return true;
}

/* `release` gets `owner` when the last reference goes. */
static hn_status import(const DLTensor *t, bool is_const, void (*release)(void *owner), void *owner,
                        hn_tensor **out) {
    hn_tensor_desc desc = {.free_data = release, .free_user = owner};
    HN_TRY(read_type(t->dtype, &desc.type));
    HN_TRY(read_device(t->device, &desc.device));
    if (t->ndim < 0 || (t->ndim > 0 && !t->shape))
        return HN_ERROR(HN_INVALID_ARGUMENT, "a tensor of DLPack has %d dimensions and %s",
                        (int)t->ndim, t->shape ? "sizes" : "no sizes");
    if (!t->data && has_elements(t))
        return HN_ERROR(HN_INVALID_ARGUMENT, "a tensor of DLPack has elements, but no address");
    desc.rank = (uint32_t)t->ndim;
    desc.sizes = t->shape;
    desc.strides = t->strides;
    if (is_const) return hn_tensor_create_const(&desc, address_of(t), out);
    desc.data = address_of(t);
    return hn_tensor_create(&desc, out);
}

static void release_managed(void *owner) {
    DLManagedTensor *managed = owner;
    if (managed->deleter) managed->deleter(managed);
}

hn_status hn_tensor_from_dlpack(DLManagedTensor *managed, hn_tensor **out_tensor) {
    HN_REQUIRE(managed, "managed");
    HN_REQUIRE(out_tensor, "out_tensor");
    return import(&managed->dl_tensor, false, release_managed, managed, out_tensor);
}

static void release_versioned(void *owner) {
    DLManagedTensorVersioned *managed = owner;
    if (managed->deleter) managed->deleter(managed);
}

hn_status hn_tensor_from_dlpack_versioned(DLManagedTensorVersioned *managed,
                                          hn_tensor **out_tensor) {
    HN_REQUIRE(managed, "managed");
    HN_REQUIRE(out_tensor, "out_tensor");
    if (managed->version.major != DLPACK_MAJOR_VERSION)
        return HN_ERROR(HN_INCOMPATIBLE, "a tensor of DLPack %u.%u, where %d.x can be read",
                        managed->version.major, managed->version.minor, DLPACK_MAJOR_VERSION);
    return import(&managed->dl_tensor, managed->flags & DLPACK_FLAG_BITMASK_READ_ONLY,
                  release_versioned, managed, out_tensor);
}

/* ---- for others ---- */

static hn_status write_device(hn_device from, DLDevice *out) {
    const hn_device_ops *ops = hn_device_ops_of(from.kind);
    *out = (DLDevice){.device_type = ops ? ops->dlpack_type : 0, .device_id = (int32_t)from.number};
    if (out->device_type) return NULL;
    return HN_ERROR(HN_UNSUPPORTED, "DLPack has no tensors in memory of %s",
                    hn_device_name(from.kind));
}

static DLDataType write_type(hn_scalar_type type) {
    size_t k = 0;
    while (types[k].type != type) k++; /* a tensor has one of them */
    return (DLDataType){.code = types[k].code, .bits = types[k].bits, .lanes = 1};
}

/* Sizes and strides are those of the tensor, which nobody changes. */
static hn_status fill(const hn_tensor *t, DLTensor *out) {
    *out = (DLTensor){.data = hn_tensor_numel(t) ? hn_tensor_data(t) : NULL,
                      .ndim = (int32_t)hn_tensor_rank(t),
                      .dtype = write_type(hn_tensor_type(t)),
                      .shape = (int64_t *)(uintptr_t)hn_tensor_sizes(t),
                      .strides = (int64_t *)(uintptr_t)hn_tensor_strides(t)};
    return write_device(hn_tensor_device(t), &out->device);
}

static hn_status no_memory(void) {
    return HN_ERROR(HN_OUT_OF_MEMORY, "no memory for a tensor of DLPack");
}

static void delete_managed(DLManagedTensor *managed) {
    hn_tensor_release(managed->manager_ctx);
    free(managed);
}

hn_status hn_tensor_to_dlpack(hn_tensor *tensor, DLManagedTensor **out_managed) {
    DLTensor view;
    HN_REQUIRE(tensor, "tensor");
    HN_REQUIRE(out_managed, "out_managed");
    if (hn_tensor_is_const(tensor))
        return HN_ERROR(HN_UNSUPPORTED,
                        "the tensor is read-only memory, which a DLManagedTensor cannot say; use "
                        "hn_tensor_to_dlpack_versioned");
    HN_TRY(fill(tensor, &view));
    DLManagedTensor *managed = malloc(sizeof *managed);
    if (!managed) return no_memory();
    *managed = (DLManagedTensor){
        .dl_tensor = view, .manager_ctx = hn_tensor_retain(tensor), .deleter = delete_managed};
    *out_managed = managed;
    return NULL;
}

static void delete_versioned(DLManagedTensorVersioned *managed) {
    hn_tensor_release(managed->manager_ctx);
    free(managed);
}

hn_status hn_tensor_to_dlpack_versioned(hn_tensor *tensor, DLManagedTensorVersioned **out_managed) {
    DLTensor view;
    HN_REQUIRE(tensor, "tensor");
    HN_REQUIRE(out_managed, "out_managed");
    HN_TRY(fill(tensor, &view));
    DLManagedTensorVersioned *managed = malloc(sizeof *managed);
    if (!managed) return no_memory();
    *managed = (DLManagedTensorVersioned){
        .version = {DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION},
        .manager_ctx = hn_tensor_retain(tensor),
        .deleter = delete_versioned,
        .flags = hn_tensor_is_const(tensor) ? DLPACK_FLAG_BITMASK_READ_ONLY : 0,
        .dl_tensor = view};
    *out_managed = managed;
    return NULL;
}
