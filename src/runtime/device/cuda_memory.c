/* cuda_memory.c: memory of the device. It comes from a pool of the driver that belongs to the open
 * device: freed memory stays in it, so that freeing waits for nobody and taking it again asks the
 * system for nothing. Devices without pools, such as some virtual ones, allocate each time. Or the
 * caller allocates. */
#include "runtime/device/cuda.h"

#include "base/log.h"

#include <stdlib.h>

/* ---- where memory comes from ---- */

static hn_status make_order(cuda_dev *d) {
    return hn_cuda_check(d, d->cuda.cuStreamCreate(&d->pool_work, HN_CUDA_STREAM_NON_BLOCKING),
                         "cuStreamCreate");
}

static hn_status make_pool(cuda_dev *d) {
    const hn_cuda_pool_options options = {
        .allocation_type = 1, .location_type = 1, .location = d->device};
    uint64_t keep = UINT64_MAX; /* bytes: until the device is closed */
    HN_TRY(hn_cuda_check(d, d->cuda.cuMemPoolCreate(&d->pool, &options), "cuMemPoolCreate"));
    HN_TRY(hn_cuda_check(
        d, d->cuda.cuMemPoolSetAttribute(d->pool, HN_CUDA_POOL_RELEASE_THRESHOLD, &keep),
        "cuMemPoolSetAttribute"));
    return make_order(d);
}

static void give(const cuda_dev *d, hn_cuda_address address, size_t bytes) {
    if (d->callers.free)
        d->callers.free(d->callers.context, (void *)(uintptr_t)address, bytes, d->pool_work);
    else if (d->pool) (void)d->cuda.cuMemFreeAsync(address, d->pool_work);
    else (void)d->cuda.cuMemFree(address);
}

static hn_status take_from_caller(cuda_dev *d, size_t bytes, hn_cuda_address *out) {
    *out = hn_cuda_at(d->callers.alloc(d->callers.context, bytes, d->pool_work));
    if (*out && *out % d->base.facts.align == 0) return NULL;
    hn_status status =
        *out ? HN_ERROR(HN_OUT_OF_MEMORY,
                        "the caller's allocator gave an address that is no multiple of %zu",
                        d->base.facts.align)
             : HN_ERROR(HN_OUT_OF_MEMORY, "the caller's allocator gave none");
    if (*out) give(d, *out, bytes);
    *out = 0;
    return status;
}

static hn_status take_in_order(cuda_dev *d, size_t bytes, hn_cuda_address *out) {
    if (d->callers.alloc) return take_from_caller(d, bytes, out);
    return hn_cuda_check(d, d->cuda.cuMemAllocFromPoolAsync(out, bytes, d->pool, d->pool_work),
                         "cuMemAllocFromPoolAsync");
}

/* Other queues may use it at once. */
static hn_status take(cuda_dev *d, size_t bytes, hn_cuda_address *out) {
    if (!d->pool_work) return hn_cuda_check(d, d->cuda.cuMemAlloc(out, bytes), "cuMemAlloc");
    HN_TRY(take_in_order(d, bytes, out));
    hn_status status =
        hn_cuda_check(d, d->cuda.cuStreamSynchronize(d->pool_work), "cuStreamSynchronize");
    if (status) {
        give(d, *out, bytes);
        *out = 0;
    }
    return status;
}

/* ---- what was given out ---- */

/* Room in the list and below the limit. With the lock held. */
static bool reserve(cuda_dev *d, size_t bytes) {
    if (bytes > d->memory_limit - d->memory_bytes - d->graph_bytes) return false;
    if (d->range_count == d->range_cap) {
        const uint32_t cap = d->range_cap ? 2 * d->range_cap : 64;
        cuda_range *more = realloc(d->ranges, cap * sizeof *more);
        if (!more) return false;
        d->ranges = more;
        d->range_cap = cap;
    }
    d->range_count++;
    d->memory_bytes += bytes;
    if (d->memory_bytes > d->peak_bytes) d->peak_bytes = d->memory_bytes;
    return true;
}

static bool begin_range(cuda_dev *d, size_t bytes) {
    pthread_mutex_lock(&d->lock);
    const bool has_room = reserve(d, bytes);
    if (has_room) d->ranges[d->range_count - 1] = (cuda_range){.bytes = bytes};
    pthread_mutex_unlock(&d->lock);
    return has_room;
}

/* Ends the range of these bytes that has no address yet: with one, or not at all. */
static void end_range(cuda_dev *d, size_t bytes, hn_cuda_address address) {
    uint32_t k = 0;
    pthread_mutex_lock(&d->lock);
    while (d->ranges[k].begin || d->ranges[k].bytes != bytes) k++;
    d->ranges[k].begin = address;
    if (!address) {
        d->ranges[k] = d->ranges[--d->range_count];
        d->memory_bytes -= bytes;
    }
    pthread_mutex_unlock(&d->lock);
}

/* How many bytes it had; 0: it was none. */
static size_t drop_range(cuda_dev *d, hn_cuda_address address) {
    size_t bytes = 0;
    pthread_mutex_lock(&d->lock);
    uint32_t k = d->range_count;
    while (k > 0 && d->ranges[k - 1].begin != address) k--;
    if (k) {
        bytes = d->ranges[k - 1].bytes;
        d->memory_bytes -= bytes;
        d->ranges[k - 1] = d->ranges[--d->range_count];
    }
    pthread_mutex_unlock(&d->lock);
    return bytes;
}

/* ---- memory that work of the caller's may still use ---- */

/* One that is free now, or with `waits` any. */
static bool take_leftover(cuda_dev *d, bool waits, cuda_leftover *out) {
    bool is_found = false;
    pthread_mutex_lock(&d->lock);
    for (uint32_t k = 0; k < d->leftover_count && !is_found; k++) {
        is_found = waits || d->cuda.cuEventQuery(d->leftovers[k].behind) == HN_CUDA_SUCCESS;
        if (!is_found) continue;
        *out = d->leftovers[k];
        d->leftovers[k] = d->leftovers[--d->leftover_count];
    }
    pthread_mutex_unlock(&d->lock);
    return is_found;
}

/* Whether there were any. The context is current. */
static bool free_leftovers(cuda_dev *d, bool waits) {
    cuda_leftover l;
    bool were_any = false;
    while (take_leftover(d, waits, &l)) {
        if (waits) (void)d->cuda.cuEventSynchronize(l.behind);
        (void)d->cuda.cuEventDestroy(l.behind);
        hn_cuda_free(&d->base, l.memory);
        were_any = true;
    }
    return were_any;
}

static bool keep_leftover(cuda_dev *d, void *memory, hn_cuda_event behind) {
    pthread_mutex_lock(&d->lock);
    if (d->leftover_count == d->leftover_cap) {
        const uint32_t cap = 2 * d->leftover_cap + 8;
        cuda_leftover *more = realloc(d->leftovers, cap * sizeof *more);
        if (more) d->leftovers = more, d->leftover_cap = cap;
    }
    const bool has_room = d->leftover_count < d->leftover_cap;
    if (has_room) d->leftovers[d->leftover_count++] = (cuda_leftover){memory, behind};
    pthread_mutex_unlock(&d->lock);
    return has_room;
}

/* Whether its turn has come is asked when memory is wanted: a stream of the caller's may be
 * captured now, which an event that is asked for would end (cudaStreamCaptureModeGlobal). */
void hn_cuda_free_behind(cuda_dev *d, void *memory, hn_cuda_event behind) {
    if (!keep_leftover(d, memory, behind)) {
        (void)d->cuda.cuEventSynchronize(behind);
        (void)d->cuda.cuEventDestroy(behind);
        hn_cuda_free(&d->base, memory);
    }
}

/* ---- begin and end ---- */

hn_status hn_cuda_memory_init(cuda_dev *d) {
    int has_pools = 0;
    HN_TRY(hn_cuda_check(
        d,
        d->cuda.cuDeviceGetAttribute(&has_pools, HN_CUDA_DEVICE_MEMORY_POOLS_SUPPORTED, d->device),
        "cuDeviceGetAttribute"));
    if (d->callers.alloc) HN_TRY(make_order(d));
    else if (has_pools) HN_TRY(make_pool(d));
    return take(d, HN_CUDA_ROOM_BYTES, &d->nothing);
}

void hn_cuda_memory_deinit(cuda_dev *d) {
    (void)free_leftovers(d, true);
    if (d->nothing) give(d, d->nothing, HN_CUDA_ROOM_BYTES);
    if (d->pool_work) {
        (void)d->cuda.cuStreamSynchronize(d->pool_work);
        (void)d->cuda.cuStreamDestroy(d->pool_work);
    }
    if (d->pool) (void)d->cuda.cuMemPoolDestroy(d->pool);
}

/* ---- the row's functions ---- */

/* The runtime knows for what the memory was to be, and tells it as an error. */
static void tell_refusal(cuda_dev *d, size_t bytes, const char *why) {
    pthread_mutex_lock(&d->lock);
    const size_t taken = d->memory_bytes;
    pthread_mutex_unlock(&d->lock);
    hn_log("run", HN_LOG_DEBUG,
           "cuda:%u, which has %llu bytes, gives no %zu to a module that takes %zu: %s",
           d->base.number, (unsigned long long)d->base.facts.memory_bytes, bytes, taken, why);
}

static hn_status take_range(cuda_dev *d, size_t bytes, hn_cuda_address *out) {
    *out = 0;
    if (!begin_range(d, bytes))
        return HN_ERROR(HN_OUT_OF_MEMORY, "that is above the limit (device_memory_bytes)");
    hn_status status = take(d, bytes, out);
    if (status) *out = 0;
    end_range(d, bytes, *out);
    return status;
}

/* What others are done with goes first; what they are still at work with is waited for only where
 * there is no memory otherwise. */
static hn_status allocate(cuda_dev *d, size_t bytes, hn_cuda_address *out) {
    bool pushed;
    HN_TRY(hn_cuda_enter(d, &pushed));
    (void)free_leftovers(d, false);
    hn_status status = take_range(d, bytes, out);
    if (status && free_leftovers(d, true)) {
        hn_status_free(status);
        status = take_range(d, bytes, out);
    }
    hn_cuda_leave(d, pushed);
    return status;
}

void *hn_cuda_alloc(hn_dev *dev, size_t bytes) {
    cuda_dev *d = (cuda_dev *)dev;
    hn_cuda_address address = 0;
    if (bytes > SIZE_MAX / 16) return NULL;
    bytes += HN_CUDA_ROOM_BYTES;
    hn_status status = allocate(d, bytes, &address);
    if (status) tell_refusal(d, bytes, hn_status_message(status));
    hn_status_free(status);
    return (void *)(uintptr_t)address;
}

/* Also of a lost context: the range goes, and the driver may refuse the rest. */
void hn_cuda_free(hn_dev *dev, void *memory) {
    cuda_dev *d = (cuda_dev *)dev;
    const size_t bytes = memory ? drop_range(d, hn_cuda_at(memory)) : 0;
    if (!bytes) return;
    const bool pushed = d->cuda.cuCtxPushCurrent(d->context) == HN_CUDA_SUCCESS;
    give(d, hn_cuda_at(memory), bytes);
    hn_cuda_leave(d, pushed);
}

/* What others have of the device is not known here; the driver tells what is left. */
static uint64_t free_bytes(cuda_dev *d) {
    size_t left = 0, all = 0;
    bool pushed;
    hn_status status = hn_cuda_enter(d, &pushed);
    if (!status) {
        if (d->cuda.cuMemGetInfo(&left, &all) != HN_CUDA_SUCCESS) left = 0;
        hn_cuda_leave(d, pushed);
    }
    hn_status_free(status);
    return left;
}

void hn_cuda_usage(hn_dev *dev, hn_device_usage *out) {
    cuda_dev *d = (cuda_dev *)dev;
    *out = (hn_device_usage){.free_bytes = free_bytes(d),
                             .limit_bytes = d->memory_limit < SIZE_MAX ? d->memory_limit : 0};
    pthread_mutex_lock(&d->lock);
    out->bytes = d->memory_bytes;
    out->peak_bytes = d->peak_bytes;
    out->libraries_ns = d->libraries_ns;
    out->start_ns = d->start_ns;
    out->choose_ns = d->choose_ns;
    out->first_ns = d->first_ns;
    pthread_mutex_unlock(&d->lock);
}
