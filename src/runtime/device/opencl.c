/* opencl.c: the row of OpenCL: devices of any driver of OpenCL 1.2. Each open device has a context
 * of its own, so modules share nothing. Codes of OpenCL become statuses in base/opencl.c. */
#include "runtime/device/opencl.h"

#include "runtime/device/rows.h"

#include <stdlib.h>

/* ---- targets ---- */

static const char *target_named(const char *wanted) {
    return strcmp(wanted, "opencl") == 0 ? "opencl" : NULL;
}

static int fitness(const hn_device_code *code, uint32_t number, hn_strbuf *why) {
    hn_opencl cl;
    hn_opencl_device devices[HN_OPENCL_DEVICES_MAX];
    uint32_t count;
    (void)code, (void)number;
    hn_status status = hn_opencl_load(&cl);
    if (!status) status = hn_opencl_devices(&cl, devices, &count);
    if (!status) return 0;
    hn_strbuf_printf(why, "needs an OpenCL device: %s", hn_status_message(status));
    hn_status_free(status);
    return -1;
}

/* ---- the device ---- */

enum { LEAST_ALIGN = 64 };

static hn_status choose(const hn_opencl *cl, uint32_t number, hn_opencl_device *out) {
    hn_opencl_device devices[HN_OPENCL_DEVICES_MAX];
    uint32_t count;
    HN_TRY(hn_opencl_devices(cl, devices, &count));
    if (number >= count)
        return HN_ERROR(HN_NOT_FOUND, "there is no device opencl:%u; the last one is opencl:%u",
                        number, count - 1);
    *out = devices[number];
    return NULL;
}

/* Numbers are passed to kernels as they are in memory here. */
static hn_status check(const opencl_dev *d) {
    cl_bool is_little = CL_TRUE;
    HN_TRY(hn_opencl_status(d->cl.clGetDeviceInfo(d->device, CL_DEVICE_ENDIAN_LITTLE,
                                                  sizeof is_little, &is_little, NULL),
                            "clGetDeviceInfo"));
    return is_little
               ? NULL
               : HN_ERROR(HN_UNSUPPORTED, "OpenCL device '%s' is big-endian", d->base.facts.name);
}

static void learn_driver(opencl_dev *d, const hn_opencl_device *chosen) {
    hn_strbuf identity;
    hn_strbuf_init(&identity);
    hn_opencl_identity(&d->cl, chosen, &identity);
    snprintf(d->base.facts.driver, sizeof d->base.facts.driver, "%s", hn_strbuf_str(&identity).ptr);
    hn_strbuf_deinit(&identity);
}

static hn_status learn_facts(opencl_dev *d) {
    hn_strbuf name;
    cl_ulong bytes = 0, cache_bytes = 0;
    cl_uint align_bits = 0;
    hn_strbuf_init(&name);
    hn_opencl_device_text(&d->cl, d->device, CL_DEVICE_NAME, &name);
    snprintf(d->base.facts.name, sizeof d->base.facts.name, "%s",
             name.ptr ? name.ptr : "an OpenCL device");
    hn_strbuf_deinit(&name);
    cl_int code =
        d->cl.clGetDeviceInfo(d->device, CL_DEVICE_GLOBAL_MEM_SIZE, sizeof bytes, &bytes, NULL);
    if (code == CL_SUCCESS)
        code = d->cl.clGetDeviceInfo(d->device, CL_DEVICE_MEM_BASE_ADDR_ALIGN, sizeof align_bits,
                                     &align_bits, NULL);
    if (code == CL_SUCCESS)
        code = d->cl.clGetDeviceInfo(d->device, CL_DEVICE_GLOBAL_MEM_CACHE_SIZE, sizeof cache_bytes,
                                     &cache_bytes, NULL);
    d->base.facts.memory_bytes = bytes;
    d->base.facts.cache_bytes = cache_bytes;
    d->base.facts.align = align_bits / 8 > LEAST_ALIGN ? align_bits / 8 : LEAST_ALIGN;
    return hn_opencl_status(code, "clGetDeviceInfo");
}

static hn_status open_parts(opencl_dev *d, const hn_opencl_device *chosen) {
    cl_int code;
    d->device = chosen->device;
    HN_TRY(learn_facts(d));
    learn_driver(d, chosen);
    HN_TRY(check(d));
    hn_opencl_identity(&d->cl, chosen, &d->identity);
    HN_TRY(hn_strbuf_status(&d->identity));
    d->context = d->cl.clCreateContext(NULL, 1, &d->device, NULL, NULL, &code);
    if (!d->context) return hn_opencl_status(code, "clCreateContext");
    d->nothing = d->cl.clCreateBuffer(d->context, CL_MEM_READ_WRITE, LEAST_ALIGN, NULL, &code);
    return d->nothing ? NULL : hn_opencl_status(code, "clCreateBuffer");
}

static void opencl_close(hn_dev *dev) {
    opencl_dev *d = (opencl_dev *)dev;
    if (d->nothing) d->cl.clReleaseMemObject(d->nothing);
    if (d->context) d->cl.clReleaseContext(d->context);
    hn_strbuf_deinit(&d->identity);
    pthread_rwlock_destroy(&d->lock);
    free(d->ranges);
    free(d);
}

/* No host has memory at such addresses, so one that is used as the host's is noticed at once. */
static const uintptr_t first_address = (uintptr_t)1 << 60;

hn_status hn_opencl_dev_open(const hn_opencl *cl, const hn_device_options *options, hn_dev **out) {
    hn_opencl_device chosen;
    HN_TRY(choose(cl, options->number, &chosen));
    opencl_dev *d = calloc(1, sizeof *d);
    if (!d) return HN_ERROR(HN_OUT_OF_MEMORY, "no memory for a device");
    *d = (opencl_dev){.base = {.ops = &hn_device_opencl, .number = options->number},
                      .cl = *cl,
                      .next = first_address};
    hn_strbuf_init(&d->identity);
    pthread_rwlock_init(&d->lock, NULL);
    hn_status status = open_parts(d, &chosen);
    if (status) opencl_close(&d->base);
    else *out = &d->base;
    return status;
}

static hn_status opencl_open(const hn_device_options *options, hn_dev **out) {
    hn_opencl cl;
    if (hn_opencl_is_from_parent())
        return HN_ERROR(HN_DEVICE,
                        "OpenCL was used before this process was forked, and its drivers have no "
                        "threads here; use it in the children only, or start them by exec");
    HN_TRY(hn_opencl_load(&cl));
    return hn_opencl_dev_open(&cl, options, out);
}

/* ---- events ---- */

struct hn_event {
    const hn_opencl *cl;
    cl_event event;
};

/* What was given to the queue goes to the device: another queue may wait for it while no thread
 * waits here. */
static hn_status mark(opencl_queue *q, const hn_opencl *cl, hn_event *event) {
    HN_TRY(hn_opencl_status(cl->clEnqueueMarkerWithWaitList(q->queue, 0, NULL, &event->event),
                            "clEnqueueMarkerWithWaitList"));
    hn_status status = hn_opencl_status(cl->clFlush(q->queue), "clFlush");
    if (status) cl->clReleaseEvent(event->event);
    return status;
}

static hn_status opencl_record(hn_queue *queue, hn_event **out) {
    const hn_opencl *cl = &((opencl_dev *)queue->dev)->cl;
    hn_event *event = calloc(1, sizeof *event);
    if (!event) return HN_ERROR(HN_OUT_OF_MEMORY, "no memory for an event");
    event->cl = cl;
    hn_status status = mark((opencl_queue *)queue, cl, event);
    if (status) free(event);
    else *out = event;
    return status;
}

static hn_status opencl_wait(hn_queue *queue, hn_event *event) {
    return hn_opencl_status(event->cl->clEnqueueBarrierWithWaitList(((opencl_queue *)queue)->queue,
                                                                    1, &event->event, NULL),
                            "clEnqueueBarrierWithWaitList");
}

static hn_status opencl_event_time(hn_event *event, int64_t *out_ns) {
    cl_ulong ns = 0;
    HN_TRY(hn_opencl_status(event->cl->clWaitForEvents(1, &event->event), "clWaitForEvents"));
    HN_TRY(hn_opencl_status(event->cl->clGetEventProfilingInfo(
                                event->event, CL_PROFILING_COMMAND_END, sizeof ns, &ns, NULL),
                            "clGetEventProfilingInfo"));
    *out_ns = (int64_t)ns;
    return NULL;
}

static void opencl_event_free(hn_event *event) {
    if (!event) return;
    event->cl->clReleaseEvent(event->event);
    free(event);
}

static void *opencl_handle(hn_queue *queue) { return ((opencl_queue *)queue)->queue; }

const hn_device_ops hn_device_opencl = {
    .kind = HN_DEVICE_OPENCL,
    .target_named = target_named,
    .fitness = fitness,
    .open = opencl_open,
    .close = opencl_close,
    .alloc = hn_opencl_alloc,
    .free = hn_opencl_free,
    .usage = hn_opencl_usage,
    .load = hn_opencl_load_code,
    .load_text = hn_opencl_load_text,
    .text_words = hn_opencl_words,
    .unload = hn_opencl_unload_code,
    .find = hn_opencl_find_kernel,
    .queue_create = hn_opencl_queue_create,
    .queue_destroy = hn_opencl_queue_destroy,
    .copy_in = hn_opencl_copy_in,
    .copy_out = hn_opencl_copy_out,
    .copy = hn_opencl_copy,
    .fill = hn_opencl_fill,
    .read = hn_opencl_read,
    .launch = hn_opencl_launch,
    .record = opencl_record,
    .wait = opencl_wait,
    .event_free = opencl_event_free,
    .event_time = opencl_event_time,
    .handle = opencl_handle,
    .finish = hn_opencl_finish,
};
