/* opencl_queue.c: work of a queue, which OpenCL does in order. */
#include "runtime/device/opencl.h"

#include <stdlib.h>

static opencl_dev *dev_of(hn_queue *queue) { return (opencl_dev *)queue->dev; }

/* ---- the queue ---- */

static hn_status clear_words(opencl_queue *q, uint32_t first, uint32_t until) {
    static const cl_int zero = 0;
    return hn_opencl_status(dev_of(&q->base)->cl.clEnqueueFillBuffer(
                                q->queue, q->words, &zero, sizeof zero, first * sizeof zero,
                                (until - first) * sizeof zero, 0, NULL, NULL),
                            "clEnqueueFillBuffer");
}

static hn_status open_queue(opencl_queue *q, bool has_times) {
    const opencl_dev *d = dev_of(&q->base);
    cl_int code;
    q->copy = calloc(q->step_count, sizeof *q->copy);
    if (!q->copy) return HN_ERROR(HN_OUT_OF_MEMORY, "no memory for a queue");
    q->queue = d->cl.clCreateCommandQueue(d->context, d->device,
                                          has_times ? CL_QUEUE_PROFILING_ENABLE : 0, &code);
    if (!q->queue) return hn_opencl_status(code, "clCreateCommandQueue");
    q->words = d->cl.clCreateBuffer(d->context, CL_MEM_READ_WRITE, q->step_count * sizeof(cl_int),
                                    NULL, &code);
    return q->words ? NULL : hn_opencl_status(code, "clCreateBuffer");
}

hn_status hn_opencl_queue_create(hn_dev *dev, const hn_queue_options *options, hn_queue **out) {
    opencl_queue *q = calloc(1, sizeof *q);
    if (!q) return HN_ERROR(HN_OUT_OF_MEMORY, "no memory for a queue");
    *q = (opencl_queue){.base.dev = dev,
                        .step_count = options->step_count ? options->step_count : 1,
                        .is_unclean = true};
    hn_status status = open_queue(q, options->profile);
    if (status) hn_opencl_queue_destroy(&q->base);
    else *out = &q->base;
    return status;
}

void hn_opencl_queue_destroy(hn_queue *queue) {
    opencl_queue *q = (opencl_queue *)queue;
    if (!q) return;
    if (q->words) dev_of(queue)->cl.clReleaseMemObject(q->words);
    if (q->queue) dev_of(queue)->cl.clReleaseCommandQueue(q->queue);
    free(q->copy);
    free(q);
}

/* ---- copies ---- */

static hn_status write(hn_queue *queue, void *to, const void *from_host, size_t bytes) {
    opencl_place place;
    HN_TRY(hn_opencl_find(dev_of(queue), to, &place));
    return hn_opencl_status(dev_of(queue)->cl.clEnqueueWriteBuffer(
                                ((opencl_queue *)queue)->queue, place.object, CL_FALSE,
                                place.offset, bytes, from_host, 0, NULL, NULL),
                            "clEnqueueWriteBuffer");
}

static hn_status read_back(hn_queue *queue, void *to_host, const void *from, size_t bytes,
                           cl_bool waits) {
    opencl_place place;
    HN_TRY(hn_opencl_find(dev_of(queue), from, &place));
    return hn_opencl_status(dev_of(queue)->cl.clEnqueueReadBuffer(((opencl_queue *)queue)->queue,
                                                                  place.object, waits, place.offset,
                                                                  bytes, to_host, 0, NULL, NULL),
                            "clEnqueueReadBuffer");
}

hn_status hn_opencl_copy_in(hn_queue *queue, void *to, const void *from_host, size_t bytes) {
    return bytes ? write(queue, to, from_host, bytes) : NULL;
}

/* What runs end with, so the device gets what was given so far, whether somebody waits or not. */
hn_status hn_opencl_copy_out(hn_queue *queue, void *to_host, const void *from, size_t bytes) {
    if (!bytes) return NULL;
    HN_TRY(read_back(queue, to_host, from, bytes, CL_FALSE));
    return hn_opencl_status(dev_of(queue)->cl.clFlush(((opencl_queue *)queue)->queue), "clFlush");
}

hn_status hn_opencl_read(hn_queue *queue, void *to_host, const void *from, size_t bytes) {
    return bytes ? read_back(queue, to_host, from, bytes, CL_TRUE) : NULL;
}

static hn_status copy_places(hn_queue *queue, opencl_place to, opencl_place from, size_t bytes) {
    return hn_opencl_status(dev_of(queue)->cl.clEnqueueCopyBuffer(
                                ((opencl_queue *)queue)->queue, from.object, to.object, from.offset,
                                to.offset, bytes, 0, NULL, NULL),
                            "clEnqueueCopyBuffer");
}

/* OpenCL refuses it, so the bytes go through other memory, which it keeps until the copies are
 * done. */
static hn_status copy_overlapping(hn_queue *queue, opencl_place to, opencl_place from,
                                  size_t bytes) {
    const opencl_dev *d = dev_of(queue);
    cl_int code;
    opencl_place aside = {d->cl.clCreateBuffer(d->context, CL_MEM_READ_WRITE, bytes, NULL, &code),
                          0};
    if (!aside.object) return hn_opencl_status(code, "clCreateBuffer");
    hn_status status = copy_places(queue, aside, from, bytes);
    if (!status) status = copy_places(queue, to, aside, bytes);
    d->cl.clReleaseMemObject(aside.object);
    return status;
}

hn_status hn_opencl_copy(hn_queue *queue, void *to, const void *from, size_t bytes) {
    opencl_place source, target;
    if (!bytes || to == from) return NULL;
    HN_TRY(hn_opencl_find(dev_of(queue), from, &source));
    HN_TRY(hn_opencl_find(dev_of(queue), to, &target));
    const size_t apart = source.offset < target.offset ? target.offset - source.offset
                                                       : source.offset - target.offset;
    if (source.object == target.object && apart < bytes)
        return copy_overlapping(queue, target, source, bytes);
    return copy_places(queue, target, source, bytes);
}

hn_status hn_opencl_fill(hn_queue *queue, void *to, uint8_t byte, size_t bytes) {
    opencl_place place;
    if (!bytes) return NULL;
    HN_TRY(hn_opencl_find(dev_of(queue), to, &place));
    return hn_opencl_status(
        dev_of(queue)->cl.clEnqueueFillBuffer(((opencl_queue *)queue)->queue, place.object, &byte,
                                              1, place.offset, bytes, 0, NULL, NULL),
        "clEnqueueFillBuffer");
}

/* ---- launches: arguments as in codegen/opencl/README.md ---- */

typedef struct argument_list {
    const opencl_kernel *kernel;
    cl_uint count;
} argument_list;

static hn_status add_argument(argument_list *a, size_t size, const void *value) {
    return hn_opencl_status(
        a->kernel->dev->cl.clSetKernelArg(a->kernel->kernel, a->count++, size, value),
        "clSetKernelArg");
}

static hn_status add_place(argument_list *a, opencl_place place) {
    const cl_long offset = (cl_long)place.offset;
    HN_TRY(add_argument(a, sizeof place.object, &place.object));
    return add_argument(a, sizeof offset, &offset);
}

static hn_status add_memory(argument_list *a, const void *address) {
    opencl_place place;
    HN_TRY(hn_opencl_find(a->kernel->dev, address, &place));
    return add_place(a, place);
}

/* Whether there is scratch memory for it or not, a kernel that needs none has no argument for it.
 */
static hn_status add_arguments(opencl_queue *q, const hn_device_launch *l, argument_list *a) {
    const cl_uint least = 2 * l->arg_count + 2 + l->param_count;
    const bool has_scratch = a->kernel->arg_count == least + 2;
    if (!has_scratch && a->kernel->arg_count != least)
        return HN_ERROR(HN_CORRUPT, "kernel '%s' has %u arguments, where %u or %u are given",
                        a->kernel->name, a->kernel->arg_count, least, least + 2);
    for (uint32_t k = 0; k < l->arg_count; k++) HN_TRY(add_memory(a, l->args[k]));
    if (has_scratch) HN_TRY(add_memory(a, l->scratch));
    HN_TRY(add_place(a, (opencl_place){q->words, l->step * sizeof(cl_int)}));
    for (uint32_t k = 0; k < l->param_count; k++) {
        const cl_long param = l->params[k];
        HN_TRY(add_argument(a, sizeof param, &param));
    }
    return NULL;
}

static hn_status enqueue(opencl_queue *q, const opencl_kernel *kernel, const hn_device_launch *l) {
    size_t global[3], local[3];
    for (int k = 0; k < 3; k++) {
        local[k] = l->threads[k] ? l->threads[k] : 1;
        if (__builtin_mul_overflow((size_t)l->groups[k], local[k], &global[k]))
            return HN_ERROR(HN_INVALID_ARGUMENT, "too many groups of threads for an OpenCL device");
    }
    return hn_opencl_status(kernel->dev->cl.clEnqueueNDRangeKernel(
                                q->queue, kernel->kernel, 3, NULL, global, local, 0, NULL, NULL),
                            "clEnqueueNDRangeKernel");
}

static hn_status launch_kernel(opencl_queue *q, opencl_kernel *kernel, const hn_device_launch *l) {
    argument_list arguments = {.kernel = kernel};
    pthread_mutex_lock(&kernel->lock);
    hn_status status = add_arguments(q, l, &arguments);
    if (!status) status = enqueue(q, kernel, l);
    pthread_mutex_unlock(&kernel->lock);
    return hn_status_annotate(status, "kernel '%s'", kernel->name);
}

static void note_step(opencl_queue *q, uint32_t step) {
    const bool is_first = q->first == q->until;
    if (is_first || step < q->first) q->first = step;
    if (is_first || step >= q->until) q->until = step + 1;
}

hn_status hn_opencl_launch(hn_queue *queue, const hn_device_launch *l, hn_device_fault *out) {
    opencl_queue *q = (opencl_queue *)queue;
    *out = (hn_device_fault){.is_set = false};
    if (l->groups[0] <= 0 || l->groups[1] <= 0 || l->groups[2] <= 0)
        return NULL; /* none, which OpenCL 1.2 refuses */
    if (l->step >= q->step_count)
        return HN_ERROR(HN_INTERNAL, "a queue of %u steps gets step %u", q->step_count, l->step);
    if (q->is_unclean) HN_TRY(clear_words(q, 0, q->step_count));
    q->is_unclean = false;
    note_step(q, l->step);
    return launch_kernel(q, l->kernel, l);
}

/* ---- the end ---- */

/* The words come with the work, so that the host waits once. After an error they are not known, and
 * a second attempt sees to it that nothing goes on; a device that is lost does nothing any more. */
static hn_status wait_for_all(opencl_queue *q) {
    const hn_opencl *cl = &dev_of(&q->base)->cl;
    hn_status words = NULL;
    if (q->first != q->until)
        words = hn_opencl_status(
            cl->clEnqueueReadBuffer(q->queue, q->words, CL_FALSE, q->first * sizeof(cl_int),
                                    (q->until - q->first) * sizeof(cl_int), q->copy, 0, NULL, NULL),
            "clEnqueueReadBuffer");
    hn_status status = hn_opencl_status(cl->clFinish(q->queue), "clFinish");
    if (status) (void)cl->clFinish(q->queue);
    if (!status) return words;
    hn_status_free(words);
    return status;
}

hn_status hn_opencl_finish(hn_queue *queue, hn_device_fault *out) {
    opencl_queue *q = (opencl_queue *)queue;
    *out = (hn_device_fault){.is_set = false};
    hn_status status = wait_for_all(q);
    const uint32_t first = q->first, count = q->until - q->first;
    q->first = q->until = 0;
    if (status) {
        q->is_unclean = true;
        return status;
    }
    for (uint32_t k = 0; k < count && !out->is_set; k++)
        *out = (hn_device_fault){.is_set = q->copy[k] != 0, .step = first + k};
    q->is_unclean |= out->is_set;
    return NULL;
}
