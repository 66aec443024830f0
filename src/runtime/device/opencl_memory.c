/* opencl_memory.c: addresses for memory objects. Drivers of OpenCL 1.2 have handles and no
 * addresses, so each allocation gets a range of numbers that nothing else has, and a number is
 * looked up when it is used: by a binary search, since ranges are given out in ascending order and
 * so the list of them is sorted. */
#include "runtime/device/opencl.h"

#include <stdlib.h>

/* Room behind each object: a failed check of an index reads element 0 also of memory without
 * elements, and such memory may begin at the end of an object. */
enum { ROOM = 64 };

/* The first range that ends behind `address`, or range_count. Ends are addresses, too. */
static uint32_t search(const opencl_dev *d, uintptr_t address) {
    uint32_t low = 0, high = d->range_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (d->ranges[middle].begin + d->ranges[middle].bytes < address) low = middle + 1;
        else high = middle;
    }
    return low;
}

/* With the lock held. A gap follows each range, so that its end is in no other. */
static void *add_range(opencl_dev *d, size_t bytes, cl_mem object) {
    const uintptr_t align = d->base.facts.align, begin = d->next;
    if (d->range_count == d->range_cap) {
        const uint32_t cap = d->range_cap ? 2 * d->range_cap : 64;
        opencl_range *more = realloc(d->ranges, cap * sizeof *more);
        if (!more) return NULL;
        d->ranges = more;
        d->range_cap = cap;
    }
    d->ranges[d->range_count++] = (opencl_range){begin, bytes, object};
    d->next = begin + (bytes + align) / align * align + align;
    d->memory_bytes += bytes;
    if (d->memory_bytes > d->peak_bytes) d->peak_bytes = d->memory_bytes;
    return (void *)begin;
}

void *hn_opencl_alloc(hn_dev *dev, size_t bytes) {
    opencl_dev *d = (opencl_dev *)dev;
    cl_int code;
    /* NVIDIA's driver makes an object of any size, and fails when it is used. */
    if (bytes > SIZE_MAX / 16 || (d->base.facts.memory_bytes && bytes > d->base.facts.memory_bytes))
        return NULL;
    cl_mem object = d->cl.clCreateBuffer(d->context, CL_MEM_READ_WRITE, bytes + ROOM, NULL, &code);
    if (!object) return NULL;
    pthread_rwlock_wrlock(&d->lock);
    void *memory = add_range(d, bytes, object);
    pthread_rwlock_unlock(&d->lock);
    if (!memory) d->cl.clReleaseMemObject(object);
    return memory;
}

void hn_opencl_free(hn_dev *dev, void *memory) {
    opencl_dev *d = (opencl_dev *)dev;
    cl_mem object = NULL;
    if (!memory) return;
    pthread_rwlock_wrlock(&d->lock);
    const uint32_t k = search(d, (uintptr_t)memory);
    if (k < d->range_count && d->ranges[k].begin == (uintptr_t)memory) {
        object = d->ranges[k].object;
        d->memory_bytes -= d->ranges[k].bytes;
        d->range_count--;
        memmove(d->ranges + k, d->ranges + k + 1, (d->range_count - k) * sizeof *d->ranges);
    }
    pthread_rwlock_unlock(&d->lock);
    if (object) d->cl.clReleaseMemObject(object);
}

void hn_opencl_usage(hn_dev *dev, hn_device_usage *out) {
    opencl_dev *d = (opencl_dev *)dev;
    pthread_rwlock_rdlock(&d->lock);
    *out = (hn_device_usage){.bytes = d->memory_bytes, .peak_bytes = d->peak_bytes};
    pthread_rwlock_unlock(&d->lock);
}

hn_status hn_opencl_find(opencl_dev *d, const void *address, opencl_place *out) {
    const uintptr_t at = (uintptr_t)address;
    *out = (opencl_place){d->nothing, 0};
    if (!address) return NULL;
    pthread_rwlock_rdlock(&d->lock);
    const uint32_t k = search(d, at);
    const bool is_known = k < d->range_count && d->ranges[k].begin <= at;
    if (is_known) *out = (opencl_place){d->ranges[k].object, at - d->ranges[k].begin};
    pthread_rwlock_unlock(&d->lock);
    return is_known
               ? NULL
               : HN_ERROR(HN_INTERNAL, "%p is no address on opencl:%u", address, d->base.number);
}
