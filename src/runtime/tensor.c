/* tensor.c: tensors of the public API. */
#include "henry/tensor.h"

#include "base/checked.h"
#include "base/device.h"
#include "base/require.h"
#include "bundle/view.h"
#include "runtime/copy.h"
#include "runtime/module_impl.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DATA_ALIGN = 64 };

struct hn_tensor {
    atomic_uint refs;
    uint32_t rank;
    hn_scalar_type type;
    bool is_const, is_on_host;
    hn_device device;
    int64_t numel;
    void *data;
    void (*free_data)(void *user);
    void *free_user;
    int64_t sizes[HN_TENSOR_MAX_RANK], strides[HN_TENSOR_MAX_RANK];
};

hn_block *hn_tensor_block(const hn_tensor *t) {
    while (t->free_data == hn_pool_release_input) t = t->free_user;
    return t->free_data == hn_block_release ? t->free_user : NULL;
}

size_t hn_scalar_type_bytes(hn_scalar_type type) { return hn_bundle_dtype_bytes(type); }
const char *hn_scalar_type_name(hn_scalar_type type) { return hn_bundle_dtype_name(type); }
const char *hn_device_kind_name(hn_device_kind kind) { return hn_device_name(kind); }

/* Sizes, strides, count; and the bytes from the first element to one past the last in
 * `*out_bytes`. */
static hn_status describe(const hn_tensor_desc *desc, hn_tensor *t, size_t *out_bytes) {
    size_t elem_bytes = hn_scalar_type_bytes(desc->type);
    int64_t numel = 1, extent = 1, step = 1, span, packed_bytes;
    bool ok = true;
    if (!elem_bytes)
        return HN_ERROR(HN_INVALID_ARGUMENT, "tensor of unknown type %d", (int)desc->type);
    if (desc->rank > HN_TENSOR_MAX_RANK)
        return HN_ERROR(HN_INVALID_ARGUMENT, "tensor has %u dimensions, at most %d are possible",
                        desc->rank, HN_TENSOR_MAX_RANK);
    if (desc->rank && !desc->sizes)
        return HN_ERROR(HN_INVALID_ARGUMENT, "tensor has %u dimensions but no sizes", desc->rank);
    for (uint32_t d = desc->rank; d-- > 0;) {
        int64_t size = desc->sizes[d], stride = desc->strides ? desc->strides[d] : step;
        if (size < 0 || stride < 0)
            return HN_ERROR(
                HN_INVALID_ARGUMENT,
                "tensor dimension %u has size %lld and stride %lld; neither may be negative", d,
                (long long)size, (long long)stride);
        t->sizes[d] = size;
        t->strides[d] = stride;
        ok = ok && hn_mul_i64(numel, size, &numel) &&
             hn_mul_i64(step, size > 1 ? size : 1, &step) &&
             (size < 2 ||
              (hn_mul_i64(size - 1, stride, &span) && hn_add_i64(extent, span, &extent)));
    }
    t->numel = numel;
    if (ok && !numel) extent = 0;
    /* With strides of 0 the memory is small, but copies of the elements are not. */
    ok = ok && hn_mul_i64(numel, (int64_t)elem_bytes, &packed_bytes);
    if (!ok || !hn_mul_i64(extent, (int64_t)elem_bytes, &extent))
        return HN_ERROR(HN_INVALID_ARGUMENT, "tensor is larger than 63 bits can count");
    *out_bytes = (size_t)extent;
    return NULL;
}

/* The device is one that can be, and memory that is to be allocated is on one that can do that. */
static hn_status check_device(const hn_tensor_desc *desc) {
    const hn_device at = desc->device;
    const hn_device_ops *ops = hn_device_ops_of((uint32_t)at.kind);
    if ((uint32_t)at.kind >= HN_DEVICE_KIND_COUNT)
        return HN_ERROR(HN_INVALID_ARGUMENT, "tensor on a device of unknown kind %d", (int)at.kind);
    if (ops == hn_device_ops_of_host() && at.number)
        return HN_ERROR(HN_INVALID_ARGUMENT, "tensor on %s:%u; there is %s:0 only",
                        hn_device_name(at.kind), at.number, hn_device_name(at.kind));
    if (ops == hn_device_ops_of_host() || desc->data) return NULL;
    return HN_ERROR(HN_UNSUPPORTED, "cannot allocate a tensor on %s:%u; give its memory as 'data'",
                    hn_device_name(at.kind), at.number);
}

static hn_status create(const hn_tensor_desc *desc, hn_tensor *t) {
    size_t bytes = 0;
    HN_TRY(describe(desc, t, &bytes));
    HN_TRY(check_device(desc));
    atomic_init(&t->refs, 1);
    t->rank = desc->rank;
    t->type = desc->type;
    t->device = desc->device;
    t->is_on_host = hn_device_ops_of(desc->device.kind) == hn_device_ops_of_host();
    t->data = desc->data;
    t->free_data = desc->data ? desc->free_data : NULL;
    t->free_user = desc->free_user;
    if (desc->data) return NULL;
    if (bytes > SIZE_MAX / 2 || posix_memalign(&t->data, DATA_ALIGN, bytes ? bytes : 1) != 0)
        return HN_ERROR(HN_OUT_OF_MEMORY, "no memory for a tensor of %zu bytes", bytes);
    t->free_data = free;
    t->free_user = t->data;
    return NULL;
}

static hn_status make(const hn_tensor_desc *desc, bool is_const, hn_tensor **out) {
    hn_tensor *t = malloc(sizeof *t);
    if (!t) return HN_ERROR(HN_OUT_OF_MEMORY, "no memory for a tensor");
    hn_status status = create(desc, t);
    t->is_const = is_const;
    if (status) free(t);
    else *out = t;
    return status;
}

hn_status hn_tensor_create(const hn_tensor_desc *desc, hn_tensor **out_tensor) {
    HN_REQUIRE(desc, "desc");
    HN_REQUIRE(out_tensor, "out_tensor");
    return make(desc, false, out_tensor);
}

hn_status hn_tensor_create_const(const hn_tensor_desc *desc, const void *data,
                                 hn_tensor **out_tensor) {
    HN_REQUIRE(desc, "desc");
    HN_REQUIRE(data, "data");
    HN_REQUIRE(out_tensor, "out_tensor");
    if (desc->data)
        return HN_ERROR(
            HN_INVALID_ARGUMENT,
            "hn_tensor_create_const: 'desc->data' is set; give the address as 'data' only");
    hn_tensor_desc own = *desc;
    own.data = (void *)(uintptr_t)data; /* nobody writes to it: is_const */
    return make(&own, true, out_tensor);
}

bool hn_tensor_is_const(const hn_tensor *tensor) { return tensor && tensor->is_const; }

hn_tensor *hn_tensor_retain(hn_tensor *tensor) {
    if (tensor) atomic_fetch_add_explicit(&tensor->refs, 1, memory_order_relaxed);
    return tensor;
}

void hn_tensor_release(hn_tensor *tensor) {
    if (!tensor || atomic_fetch_sub_explicit(&tensor->refs, 1, memory_order_acq_rel) != 1) return;
    if (tensor->free_data) tensor->free_data(tensor->free_user);
    free(tensor);
}

hn_scalar_type hn_tensor_type(const hn_tensor *tensor) {
    return tensor ? tensor->type : HN_NO_TYPE;
}
uint32_t hn_tensor_rank(const hn_tensor *tensor) { return tensor ? tensor->rank : 0; }
const int64_t *hn_tensor_sizes(const hn_tensor *tensor) { return tensor ? tensor->sizes : NULL; }
const int64_t *hn_tensor_strides(const hn_tensor *tensor) {
    return tensor ? tensor->strides : NULL;
}
void *hn_tensor_data(const hn_tensor *tensor) { return tensor ? tensor->data : NULL; }
int64_t hn_tensor_numel(const hn_tensor *tensor) { return tensor ? tensor->numel : 0; }
hn_device hn_tensor_device(const hn_tensor *tensor) {
    return tensor ? tensor->device : (hn_device){.number = 0};
}

bool hn_tensor_is_on_host(const hn_tensor *t) { return t->is_on_host; }

bool hn_tensor_is_on_device(const hn_module *m, const hn_tensor *t) {
    return m->place_count > 1 && m->device->facts.has_addresses &&
           t->device.kind == m->device->ops->kind && t->device.number == m->device->number;
}

void hn_tensor_device_print(const hn_tensor *t, char out[HN_DEVICE_TEXT_BYTES]) {
    snprintf(out, HN_DEVICE_TEXT_BYTES, "%s:%u", hn_device_name(t->device.kind), t->device.number);
}

/* Its elements are read or written by the host: what for is said by `what`. */
static hn_status need_host(const hn_tensor *t, const char *what) {
    char at[HN_DEVICE_TEXT_BYTES];
    if (hn_tensor_is_on_host(t)) return NULL;
    hn_tensor_device_print(t, at);
    return HN_ERROR(HN_UNSUPPORTED, "cannot %s a tensor on %s; it must be on %s", what, at,
                    hn_device_name(hn_device_ops_of_host()->kind));
}

hn_status hn_tensor_check(const char *what, const char *name, const hn_tensor *t,
                          hn_scalar_type type, uint32_t rank, const int64_t *sizes) {
    if (!t->is_on_host) {
        char at[HN_DEVICE_TEXT_BYTES];
        hn_tensor_device_print(t, at);
        return HN_ERROR(HN_UNSUPPORTED, "%s '%s' cannot take a tensor on %s; give one on %s", what,
                        name, at, hn_device_name(hn_device_ops_of_host()->kind));
    }
    if (t->type != type)
        return HN_ERROR(HN_INVALID_ARGUMENT, "%s '%s' has type %s, the tensor has %s", what, name,
                        hn_scalar_type_name(type), hn_scalar_type_name(t->type));
    if (t->rank != rank)
        return HN_ERROR(HN_INVALID_ARGUMENT, "%s '%s' has %u dimensions, the tensor has %u", what,
                        name, rank, t->rank);
    for (uint32_t d = 0; d < rank; d++)
        if (t->sizes[d] != sizes[d])
            return HN_ERROR(HN_INVALID_ARGUMENT,
                            "%s '%s' has size %lld in dimension %u, the tensor has %lld", what,
                            name, (long long)sizes[d], d, (long long)t->sizes[d]);
    return NULL;
}

hn_status hn_tensor_copy_out(const hn_tensor *tensor, void *out) {
    int64_t strides[HN_TENSOR_MAX_RANK];
    HN_REQUIRE(tensor, "tensor");
    if (!tensor->numel) return NULL;
    HN_REQUIRE(out, "out");
    HN_TRY(need_host(tensor, "copy out of"));
    hn_packed_strides(tensor->sizes, tensor->rank, strides);
    hn_copy_strided(out, strides, tensor->data, tensor->strides, tensor->sizes, tensor->rank,
                    hn_scalar_type_bytes(tensor->type));
    return NULL;
}

hn_status hn_tensor_copy_in(hn_tensor *tensor, const void *elements) {
    int64_t strides[HN_TENSOR_MAX_RANK];
    HN_REQUIRE(tensor, "tensor");
    if (!tensor->numel) return NULL;
    HN_REQUIRE(elements, "elements");
    HN_TRY(need_host(tensor, "fill"));
    if (tensor->is_const)
        return HN_ERROR(HN_INVALID_ARGUMENT,
                        "cannot fill a tensor of read-only memory; make it with hn_tensor_create");
    hn_packed_strides(tensor->sizes, tensor->rank, strides);
    hn_copy_strided(tensor->data, tensor->strides, elements, strides, tensor->sizes, tensor->rank,
                    hn_scalar_type_bytes(tensor->type));
    return NULL;
}
