/* gpu_there.c: tensors in memory of a device, for calls without copies. */
#include "bench/gpu_there.h"

#include <stdlib.h>

typedef struct device_memory {
    hn_dev *dev;
    void *memory;
} device_memory;

static void free_device_memory(void *user) {
    device_memory *d = user;
    hn_dev_free(d->dev, d->memory);
    hn_dev_release(d->dev);
    free(d);
}

/* Memory of the device with the content of a tensor. */
static hn_status copy_there(hn_module *m, hn_queue *queue, const hn_tensor *t, device_memory *out) {
    hn_device_fault fault;
    int64_t bytes;
    HN_TRY(hn_extent_bytes(hn_tensor_rank(t), hn_tensor_sizes(t), hn_tensor_strides(t),
                           (uint32_t)hn_scalar_type_bytes(hn_tensor_type(t)), &bytes));
    out->memory = hn_dev_alloc(m->device, bytes ? (size_t)bytes : 1);
    if (!out->memory) return HN_ERROR(HN_OUT_OF_MEMORY, "no memory for an input");
    if (bytes)
        HN_TRY(m->device->ops->copy_in(queue, out->memory, hn_tensor_data(t), (size_t)bytes));
    return m->device->ops->finish(queue, &fault);
}

hn_status gpu_tensor_move(hn_module *m, hn_queue *queue, hn_tensor **t) {
    device_memory *d = calloc(1, sizeof *d);
    hn_tensor *moved = NULL;
    if (!d) return HN_ERROR(HN_OUT_OF_MEMORY, "out of memory");
    d->dev = hn_dev_retain(m->device);
    hn_status status = copy_there(m, queue, *t, d);
    if (!status)
        status =
            hn_tensor_create(&(hn_tensor_desc){.type = hn_tensor_type(*t),
                                               .rank = hn_tensor_rank(*t),
                                               .sizes = hn_tensor_sizes(*t),
                                               .strides = hn_tensor_strides(*t),
                                               .data = d->memory,
                                               .free_data = free_device_memory,
                                               .free_user = d,
                                               .device = {m->device->ops->kind, m->device->number}},
                             &moved);
    if (status) {
        free_device_memory(d);
        return status;
    }
    hn_tensor_release(*t);
    *t = moved;
    return NULL;
}
