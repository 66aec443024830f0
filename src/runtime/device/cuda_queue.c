/* cuda_queue.c: work of a queue, which is a stream. */
#include "runtime/device/cuda.h"

#include <stdlib.h>

enum { NUMBER_BYTES = 64 }; /* room for a number that is read, in front of the words */

static cuda_dev *dev_of(hn_queue *queue) { return (cuda_dev *)queue->dev; }

/* ---- the queue ---- */

static hn_status open_words(cuda_queue *q) {
    cuda_dev *d = dev_of(&q->base);
    hn_cuda_address at = 0;
    void *memory = NULL;
    const size_t bytes = NUMBER_BYTES + q->step_count * sizeof *q->words;
    HN_TRY(
        hn_cuda_check(d,
                      d->cuda.cuMemHostAlloc(
                          &memory, bytes, HN_CUDA_HOST_ALLOC_PORTABLE | HN_CUDA_HOST_ALLOC_MAPPED),
                      "cuMemHostAlloc"));
    memset(memory, 0, bytes);
    q->pinned = memory;
    q->words = (int *)(void *)(q->pinned + NUMBER_BYTES);
    HN_TRY(hn_cuda_check(d, d->cuda.cuMemHostGetDevicePointer(&at, memory, 0),
                         "cuMemHostGetDevicePointer"));
    q->words_at = at + NUMBER_BYTES;
    return NULL;
}

/* A queue for copies has no words. */
static hn_status open_queue(cuda_queue *q, const hn_queue_options *options) {
    cuda_dev *d = dev_of(&q->base);
    HN_TRY(hn_cuda_check(d, d->cuda.cuStreamCreate(&q->stream, HN_CUDA_STREAM_NON_BLOCKING),
                         "cuStreamCreate"));
    return options->copy_bytes ? hn_cuda_stage_open(q, options) : open_words(q);
}

static void free_queue(cuda_queue *q) {
    const hn_cuda *cuda = &dev_of(&q->base)->cuda;
    hn_cuda_stage_deinit(q);
    if (q->pinned) (void)cuda->cuMemFreeHost(q->pinned);
    if (q->stream) (void)cuda->cuStreamDestroy(q->stream);
    if (q->order) (void)cuda->cuEventDestroy(q->order);
    hn_cuda_clock_release(q->clock);
    free(q->params);
    free(q);
}

hn_status hn_cuda_queue_create(hn_dev *dev, const hn_queue_options *options, hn_queue **out) {
    bool pushed;
    HN_TRY(hn_cuda_enter((cuda_dev *)dev, &pushed));
    cuda_queue *q = calloc(1, sizeof *q);
    hn_status status = q ? NULL : HN_ERROR(HN_OUT_OF_MEMORY, "no memory for a queue");
    if (!status) {
        q->base.dev = dev;
        q->step_count = options->step_count || options->copy_bytes ? options->step_count : 1;
        q->has_times = options->profile;
        q->team = options->team;
        q->threads = options->team && options->threads > 1 ? options->threads : 1;
        q->files = options->files;
        q->is_idle = true;
        status = open_queue(q, options);
        if (status) free_queue(q);
        else *out = &q->base;
    }
    hn_cuda_leave((cuda_dev *)dev, pushed);
    return status;
}

void hn_cuda_queue_destroy(hn_queue *queue) {
    if (!queue) return;
    cuda_dev *d = dev_of(queue);
    const bool pushed = d->cuda.cuCtxPushCurrent(d->context) == HN_CUDA_SUCCESS;
    free_queue((cuda_queue *)queue);
    hn_cuda_leave(d, pushed);
}

/* ---- errors that are told late ---- */

/* What may be the reason of an error that any call behind it may tell. */
static hn_status name_work(const cuda_queue *q, hn_status status) {
    const cuda_launches *l = &q->launches;
    if (!status || !(l->count + l->operations)) return status;
    if (!l->count)
        return hn_status_annotate(status, "one of the operations, %u in all", l->operations);
    if (l->operations)
        return hn_status_annotate(
            status, "one of %u kernels, '%s' to '%s', or of the operations, %u in all", l->count,
            l->first_kernel->name, l->last_kernel->name, l->operations);
    if (l->count == 1) return hn_status_annotate(status, "kernel '%s'", l->last_kernel->name);
    return hn_status_annotate(status, "one of %u kernels, '%s' to '%s'", l->count,
                              l->first_kernel->name, l->last_kernel->name);
}

static bool is_lost(const cuda_queue *q) {
    return atomic_load_explicit(&((const cuda_dev *)q->base.dev)->is_lost, memory_order_acquire);
}

/* The same of a call that does something else: only where the context was lost by work before. */
hn_status hn_cuda_name_late(cuda_queue *q, hn_status status) {
    if (!status || !is_lost(q) || !(q->launches.count + q->launches.operations)) return status;
    status = name_work(q, status);
    hn_cuda_name_loss(dev_of(&q->base), status);
    return status;
}

/* ---- copies ---- */

hn_status hn_cuda_copy_in(hn_queue *queue, void *to, const void *from_host, size_t bytes) {
    cuda_queue *q = (cuda_queue *)queue;
    bool pushed;
    if (!bytes) return NULL;
    HN_TRY(hn_cuda_enter_queue((cuda_queue *)queue, &pushed));
    q->is_idle = false;
    hn_status status = hn_cuda_stage_in(q, hn_cuda_at(to), from_host, bytes);
    hn_cuda_leave(dev_of(queue), pushed);
    return hn_cuda_name_late(q, status);
}

hn_status hn_cuda_make_in(hn_queue *queue, void *to, const hn_device_maker *maker, size_t bytes) {
    cuda_queue *q = (cuda_queue *)queue;
    bool pushed;
    if (!bytes) return NULL;
    HN_TRY(hn_cuda_enter_queue(q, &pushed));
    q->is_idle = false;
    hn_status status = hn_cuda_stage_made(q, hn_cuda_at(to), maker, bytes);
    hn_cuda_leave(dev_of(queue), pushed);
    return hn_cuda_name_late(q, status);
}

hn_status hn_cuda_copy_out(hn_queue *queue, void *to_host, const void *from, size_t bytes) {
    cuda_queue *q = (cuda_queue *)queue;
    bool pushed;
    if (!bytes) return NULL;
    HN_TRY(hn_cuda_enter_queue((cuda_queue *)queue, &pushed));
    q->is_idle = false;
    hn_status status = hn_cuda_stage_out(q, to_host, hn_cuda_at(from), bytes);
    hn_cuda_leave(dev_of(queue), pushed);
    return hn_cuda_name_late(q, status);
}

static hn_status copy_apart(cuda_queue *q, hn_cuda_address to, hn_cuda_address from, size_t bytes) {
    cuda_dev *d = dev_of(&q->base);
    return hn_cuda_check(d, d->cuda.cuMemcpyDtoDAsync(to, from, bytes, q->stream),
                         "cuMemcpyDtoDAsync");
}

/* Of a recording. */
static hn_status copy_recorded(cuda_queue *q, hn_cuda_address to, hn_cuda_address from,
                               size_t bytes, bool is_apart) {
    void *const values[] = {&to, &from};
    const cuda_call call = {
        .kind = CUDA_COPY, .bytes = bytes, .values = values, .value_count = HN_COUNT_OF(values)};
    if (!is_apart) return HN_ERROR(HN_UNSUPPORTED, "a copy that overlaps cannot be recorded");
    if (hn_cuda_call_compare(q, &call)) return NULL;
    HN_TRY(copy_apart(q, to, from, bytes));
    hn_cuda_call_note(q, &call);
    return NULL;
}

static hn_status wait_for_all(cuda_queue *q) {
    cuda_dev *d = dev_of(&q->base);
    return hn_cuda_check(d, d->cuda.cuStreamSynchronize(q->stream), "cuStreamSynchronize");
}

/* What CUDA makes of it is not defined, so the bytes go through other memory. */
static hn_status copy_overlapping(cuda_queue *q, hn_cuda_address to, hn_cuda_address from,
                                  size_t bytes) {
    void *aside = hn_cuda_alloc(q->base.dev, bytes);
    if (!aside) return HN_ERROR(HN_OUT_OF_MEMORY, "no memory to copy %zu bytes", bytes);
    hn_status status = copy_apart(q, hn_cuda_at(aside), from, bytes);
    if (!status) status = copy_apart(q, to, hn_cuda_at(aside), bytes);
    hn_status late = wait_for_all(q);
    if (status) hn_status_free(late);
    else status = late;
    hn_cuda_free(q->base.dev, aside);
    return status;
}

hn_status hn_cuda_copy(hn_queue *queue, void *to, const void *from, size_t bytes) {
    cuda_queue *q = (cuda_queue *)queue;
    const hn_cuda_address target = hn_cuda_at(to), source = hn_cuda_at(from);
    const size_t apart = target < source ? source - target : target - source;
    bool pushed;
    if (!bytes || !apart) return NULL;
    HN_TRY(hn_cuda_enter_queue((cuda_queue *)queue, &pushed));
    q->is_idle = false;
    hn_status status = q->calls        ? copy_recorded(q, target, source, bytes, apart >= bytes)
                       : apart < bytes ? copy_overlapping(q, target, source, bytes)
                                       : copy_apart(q, target, source, bytes);
    hn_cuda_leave(dev_of(queue), pushed);
    return hn_cuda_name_late(q, status);
}

static hn_status fill(cuda_queue *q, hn_cuda_address to, uint8_t byte, size_t bytes) {
    cuda_dev *d = dev_of(&q->base);
    return hn_cuda_check(d, d->cuda.cuMemsetD8Async(to, byte, bytes, q->stream), "cuMemsetD8Async");
}

/* Of a recording. */
static hn_status fill_recorded(cuda_queue *q, hn_cuda_address to, uint8_t byte, size_t bytes) {
    void *const values[] = {&to};
    const cuda_call call = {.kind = CUDA_FILL,
                            .bytes = bytes,
                            .byte = byte,
                            .values = values,
                            .value_count = HN_COUNT_OF(values)};
    if (hn_cuda_call_compare(q, &call)) return NULL;
    HN_TRY(fill(q, to, byte, bytes));
    hn_cuda_call_note(q, &call);
    return NULL;
}

hn_status hn_cuda_fill(hn_queue *queue, void *to, uint8_t byte, size_t bytes) {
    cuda_queue *q = (cuda_queue *)queue;
    bool pushed;
    if (!bytes) return NULL;
    HN_TRY(hn_cuda_enter_queue(q, &pushed));
    q->is_idle = false;
    hn_status status = q->calls ? fill_recorded(q, hn_cuda_at(to), byte, bytes)
                                : fill(q, hn_cuda_at(to), byte, bytes);
    hn_cuda_leave(dev_of(queue), pushed);
    return hn_cuda_name_late(q, status);
}

/* Numbers go through pinned memory; of more the driver sees to it. */
static hn_status read_now(cuda_queue *q, void *to_host, hn_cuda_address from, size_t bytes) {
    cuda_dev *d = dev_of(&q->base);
    void *to = bytes <= NUMBER_BYTES && q->pinned ? q->pinned : to_host;
    HN_TRY(hn_cuda_check(d, d->cuda.cuMemcpyDtoHAsync(to, from, bytes, q->stream),
                         "cuMemcpyDtoHAsync"));
    HN_TRY(wait_for_all(q));
    if (to != to_host) memcpy(to_host, to, bytes);
    return NULL;
}

hn_status hn_cuda_read(hn_queue *queue, void *to_host, const void *from, size_t bytes) {
    bool pushed;
    if (!bytes) return NULL;
    HN_TRY(hn_cuda_enter_queue((cuda_queue *)queue, &pushed));
    hn_status status = read_now((cuda_queue *)queue, to_host, hn_cuda_at(from), bytes);
    hn_cuda_leave(dev_of(queue), pushed);
    return hn_cuda_name_late((cuda_queue *)queue, status);
}

/* ---- launches: arguments as in codegen/cuda/README.md ---- */

static hn_status check_arguments(const cuda_kernel *k, const hn_device_launch *l) {
    const uint32_t least = l->arg_count + 1 + l->param_count;
    if (HN_LIKELY(k->arg_count == UINT32_MAX || k->arg_count == least || k->arg_count == least + 1))
        return NULL;
    return HN_ERROR(HN_CORRUPT, "kernel '%s' has %u arguments, where %u or %u are given", k->name,
                    k->arg_count, least, least + 1);
}

static hn_status grow_params(cuda_queue *q, uint32_t count) {
    if (HN_LIKELY(count <= q->param_cap)) return NULL;
    void **more = realloc(q->params, count * sizeof *more);
    if (!more) return HN_ERROR(HN_OUT_OF_MEMORY, "no memory for the arguments of a kernel");
    q->params = more;
    q->param_cap = count;
    return NULL;
}

/* More than the driver takes of groups: 2^31 - 1, and 65535 in the other directions. */
static hn_status check_groups(const hn_device_launch *l) {
    if (HN_LIKELY(l->groups[0] <= INT32_MAX && l->groups[1] <= UINT16_MAX &&
                  l->groups[2] <= UINT16_MAX))
        return NULL;
    return HN_ERROR(HN_INVALID_ARGUMENT, "too many groups of threads for a CUDA device");
}

/* What the driver gets: where each argument is. Scratch memory, the last one, is told by each
 * launch. */
static void lay_out(cuda_queue *q, const hn_device_launch *l, const uint64_t *word, void **params) {
    const cuda_dev *d = dev_of(&q->base);
    uint32_t count = 0;
    for (uint32_t a = 0; a < l->arg_count; a++)
        params[count++] =
            (void *)(uintptr_t)(l->args[a] ? (const void *)&l->args[a] : (const void *)&d->nothing);
    params[count++] = (void *)(uintptr_t)word;
    for (uint32_t p = 0; p < l->param_count; p++)
        params[count++] = (void *)(uintptr_t)&l->params[p];
}

static hn_status prepare_launch(cuda_queue *q, cuda_kernel *k, const hn_device_launch *l,
                                uint64_t *word, void **params) {
    HN_TRY(check_arguments(k, l));
    HN_TRY(check_groups(l));
    if (HN_UNLIKELY((size_t)l->shared_bytes >
                    atomic_load_explicit(&k->shared_ok, memory_order_acquire)))
        HN_TRY(hn_cuda_allow_shared(k, (size_t)l->shared_bytes));
    *word = q->words_at + l->step * sizeof *q->words;
    lay_out(q, l, word, params);
    return NULL;
}

static hn_status give(cuda_queue *q, const cuda_kernel *k, const hn_device_launch *l,
                      void **params) {
    cuda_dev *d = dev_of(&q->base);
    return hn_cuda_check(d,
                         d->cuda.cuLaunchKernel(k->function, (unsigned)l->groups[0],
                                                (unsigned)l->groups[1], (unsigned)l->groups[2],
                                                l->threads[0], l->threads[1] ? l->threads[1] : 1,
                                                l->threads[2] ? l->threads[2] : 1,
                                                (unsigned)l->shared_bytes, q->stream, params, NULL),
                         "cuLaunchKernel");
}

/* Of a recording. */
HN_NOINLINE static hn_status give_recorded(cuda_queue *q, const cuda_kernel *k,
                                           const hn_device_launch *l, void **params) {
    const cuda_call call = {
        .kind = CUDA_LAUNCH,
        .launch = {.function = k->function,
                   .grid = {(unsigned)l->groups[0], (unsigned)l->groups[1], (unsigned)l->groups[2]},
                   .block = {l->threads[0], l->threads[1] ? l->threads[1] : 1,
                             l->threads[2] ? l->threads[2] : 1},
                   .shared_bytes = (unsigned)l->shared_bytes},
        .values = params,
        .value_count = l->arg_count + 1 + l->param_count + 1};
    if (hn_cuda_call_compare(q, &call)) return NULL;
    HN_TRY(give(q, k, l, params));
    hn_cuda_call_note(q, &call);
    return NULL;
}

/* The driver reads as many arguments as the kernel has: scratch memory is the last one, which some
 * lack. It copies them. */
static hn_status launch_now(cuda_queue *q, cuda_kernel *k, const hn_device_launch *l,
                            void **params) {
    const cuda_dev *d = dev_of(&q->base);
    const void *scratch = l->scratch ? l->scratch : (const void *)(uintptr_t)d->nothing;
    params[l->arg_count + 1 + l->param_count] = &scratch;
    return HN_UNLIKELY(q->calls != NULL) ? give_recorded(q, k, l, params) : give(q, k, l, params);
}

static hn_status launch_kernel(cuda_queue *q, cuda_kernel *k, const hn_device_launch *l) {
    hn_device_layout once = {.ready_for = NULL}, *layout = l->layout ? l->layout : &once;
    if (HN_UNLIKELY(layout->ready_for != k)) {
        if (!l->layout) HN_TRY(grow_params(q, l->arg_count + l->param_count + 2));
        if (!l->layout) once.entries = q->params;
        HN_TRY(prepare_launch(q, k, l, &layout->word, layout->entries));
        layout->ready_for = k;
    }
    hn_status status = launch_now(q, k, l, layout->entries);
    return HN_LIKELY(!status) ? NULL : hn_cuda_explain(k, l, status);
}

void hn_cuda_note_launches(cuda_queue *q, const cuda_launches *more) {
    cuda_launches *l = &q->launches;
    q->is_idle = false;
    l->operations += more->operations;
    if (!more->count) return;
    if (!l->count) l->first_kernel = more->first_kernel;
    if (!l->count || more->first < l->first) l->first = more->first;
    if (!l->count || more->until > l->until) l->until = more->until;
    l->last_kernel = more->last_kernel;
    l->count += more->count;
}

hn_status hn_cuda_launch(hn_queue *queue, const hn_device_launch *l, hn_device_fault *out) {
    cuda_queue *q = (cuda_queue *)queue;
    cuda_kernel *k = l->kernel;
    bool pushed;
    *out = (hn_device_fault){.is_set = false};
    if (l->groups[0] <= 0 || l->groups[1] <= 0 || l->groups[2] <= 0)
        return NULL; /* none, which CUDA refuses */
    if (HN_UNLIKELY(l->step >= q->step_count))
        return HN_ERROR(HN_INTERNAL, "a queue of %u steps gets step %u", q->step_count, l->step);
    HN_TRY(hn_cuda_enter_queue((cuda_queue *)queue, &pushed));
    hn_cuda_note_launches(q, &(cuda_launches){.count = 1,
                                              .first = l->step,
                                              .until = l->step + 1,
                                              .first_kernel = k,
                                              .last_kernel = k});
    hn_status status = launch_kernel(q, k, l);
    hn_cuda_leave(dev_of(queue), pushed);
    if (HN_LIKELY(!status)) return NULL;
    return is_lost(q) ? hn_cuda_name_late(q, status)
                      : hn_status_annotate(status, "kernel '%s'", k->name);
}

/* ---- the end ---- */

/* After an error a second attempt sees to it that nothing goes on; a device that is lost does
 * nothing any more. */
static hn_status finish_work(cuda_queue *q) {
    hn_status status = wait_for_all(q);
    if (status) (void)dev_of(&q->base)->cuda.cuStreamSynchronize(q->stream);
    return status && is_lost(q) ? hn_cuda_name_late(q, status) : name_work(q, status);
}

/* Without the context: work that goes on has memory that is given back behind this. */
static void wait_anyway(cuda_queue *q) {
    bool pushed;
    hn_status status = hn_cuda_enter(dev_of(&q->base), &pushed);
    if (!status) {
        (void)dev_of(&q->base)->cuda.cuStreamSynchronize(q->stream);
        hn_cuda_leave(dev_of(&q->base), pushed);
    }
    hn_status_free(status);
}

/* Somebody else has seen that the context was lost, who may not have known of these launches. */
static hn_status wait_for_lost(cuda_queue *q, hn_status status) {
    wait_anyway(q);
    return hn_cuda_loss_is_named(dev_of(&q->base)) ? status : name_work(q, status);
}

static void read_words(cuda_queue *q, hn_device_fault *out) {
    for (uint32_t k = q->launches.first; k < q->launches.until; k++) {
        if (!q->words[k]) continue;
        if (!out->is_set) *out = (hn_device_fault){.is_set = true, .step = k};
        q->words[k] = 0;
    }
}

hn_status hn_cuda_finish(hn_queue *queue, hn_device_fault *out) {
    cuda_queue *q = (cuda_queue *)queue;
    hn_device_fault ignored = {.is_set = false};
    bool pushed = false;
    *out = ignored;
    hn_status status = hn_cuda_enter_queue((cuda_queue *)queue, &pushed);
    if (!status) status = finish_work(q);
    else status = wait_for_lost(q, status);
    hn_cuda_stage_finish(q, !status);
    hn_cuda_leave(dev_of(queue), pushed);
    read_words(q, status ? &ignored : out);
    q->launches = (cuda_launches){.count = 0};
    q->is_idle = true;
    return status;
}
