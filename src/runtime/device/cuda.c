/* cuda.c: the row of CUDA: NVIDIA's GPUs, through the driver (base/cuda.h). An open device
 * holds the primary context, which it shares with whatever else in the process uses CUDA, and
 * never resets it; or it uses a context of the caller's. Results of CUDA become statuses in
 * base/cuda.c. */
#include "runtime/device/cuda.h"

#include "base/gpu_arch.h"
#include "base/trace.h"
#include "runtime/device/rows.h"

#include <stdlib.h>

/* ---- targets ---- */

static const char *target_named(const char *wanted) {
    bool is_ptx;
    int number;
    char suffix;
    return hn_arch_parse(wanted, &is_ptx, &number, &suffix) ? wanted : NULL;
}

static hn_status number_of(const char *name, uint32_t *out) {
    hn_cuda cuda;
    HN_TRY(hn_cuda_load(&cuda));
    return hn_cuda_device_named(&cuda, name, out);
}

static hn_status find_device(uint32_t number, hn_cuda_device *out) {
    hn_cuda cuda;
    HN_TRY(hn_cuda_load(&cuda));
    return hn_cuda_device_get(&cuda, number, out);
}

static int fitness(const hn_device_code *code, uint32_t number, hn_strbuf *why) {
    hn_cuda_device device;
    hn_status status = find_device(number, &device);
    if (status) {
        hn_strbuf_printf(why, "needs a CUDA device: %s", hn_status_message(status));
        hn_status_free(status);
        return -1;
    }
    const int fits = hn_arch_fitness(code->name, (int)device.arch);
    if (fits < 0)
        hn_strbuf_printf(why, "does not run on cuda:%u, '%s', which is sm_%u", number, device.name,
                         device.arch);
    return fits;
}

/* ---- the context ---- */

static hn_status lost(cuda_dev *d) {
    char why[sizeof d->lost_by];
    pthread_mutex_lock(&d->lock);
    memcpy(why, d->lost_by, sizeof why);
    pthread_mutex_unlock(&d->lock);
    return HN_ERROR(HN_DEVICE,
                    "cuda:%u cannot be used any more in this process, because of an earlier error: "
                    "%s; start the process anew",
                    d->base.number, why);
}

hn_status hn_cuda_enter(cuda_dev *d, bool *out_pushed) {
    hn_cuda_context current = NULL;
    *out_pushed = false;
    if (HN_UNLIKELY(atomic_load_explicit(&d->is_lost, memory_order_acquire))) return lost(d);
    if (HN_LIKELY(d->cuda.cuCtxGetCurrent(&current) == HN_CUDA_SUCCESS && current == d->context))
        return NULL;
    HN_TRY(hn_cuda_check(d, d->cuda.cuCtxPushCurrent(d->context), "cuCtxPushCurrent"));
    *out_pushed = true;
    return NULL;
}

void hn_cuda_leave(const cuda_dev *d, bool pushed) {
    hn_cuda_context ignored;
    if (pushed) (void)d->cuda.cuCtxPopCurrent(&ignored);
}

/* The first error counts: what comes later follows from it. */
static void lose(cuda_dev *d, hn_status status) {
    pthread_mutex_lock(&d->lock);
    if (!atomic_load_explicit(&d->is_lost, memory_order_relaxed)) {
        snprintf(d->lost_by, sizeof d->lost_by, "%s", hn_status_message(status));
        atomic_store_explicit(&d->is_lost, true, memory_order_release);
    }
    pthread_mutex_unlock(&d->lock);
}

void hn_cuda_name_loss(cuda_dev *d, hn_status status) {
    pthread_mutex_lock(&d->lock);
    if (!d->is_loss_named) snprintf(d->lost_by, sizeof d->lost_by, "%s", hn_status_message(status));
    d->is_loss_named = true;
    pthread_mutex_unlock(&d->lock);
}

bool hn_cuda_loss_is_named(cuda_dev *d) {
    pthread_mutex_lock(&d->lock);
    const bool is_named = d->is_loss_named;
    pthread_mutex_unlock(&d->lock);
    return is_named;
}

hn_status hn_cuda_check(cuda_dev *d, hn_cuda_result code, const char *call) {
    if (HN_LIKELY(code == HN_CUDA_SUCCESS)) return NULL;
    hn_status status = hn_cuda_status(&d->cuda, code, call);
    if (hn_cuda_is_sticky(code)) lose(d, status);
    return status;
}

/* ---- the device ---- */

enum { ALIGN = 256 }; /* bytes: what the driver gives */

static hn_status learn_driver(cuda_dev *d) {
    int version = 0;
    HN_TRY(hn_cuda_status(&d->cuda, d->cuda.cuDriverGetVersion(&version), "cuDriverGetVersion"));
    snprintf(d->base.facts.driver, sizeof d->base.facts.driver, "CUDA %d.%d", version / 1000,
             version % 1000 / 10);
    return NULL;
}

static hn_status learn_facts(cuda_dev *d, const hn_device_options *options) {
    hn_cuda_device device;
    int shared = 0, cache = 0;
    HN_TRY(hn_cuda_device_get(&d->cuda, options->number, &device));
    HN_TRY(hn_cuda_status(&d->cuda, d->cuda.cuDeviceGet(&d->device, (int)options->number),
                          "cuDeviceGet"));
    HN_TRY(hn_cuda_status(&d->cuda,
                          d->cuda.cuDeviceGetAttribute(
                              &shared, HN_CUDA_DEVICE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, d->device),
                          "cuDeviceGetAttribute"));
    HN_TRY(hn_cuda_status(
        &d->cuda, d->cuda.cuDeviceGetAttribute(&cache, HN_CUDA_DEVICE_L2_CACHE_SIZE, d->device),
        "cuDeviceGetAttribute"));
    d->shared_max = shared > 0 ? (size_t)shared : 0;
    d->memory_limit = options->memory_limit && options->memory_limit < SIZE_MAX
                          ? (size_t)options->memory_limit
                          : SIZE_MAX;
    d->base.facts = (hn_device_facts){.memory_bytes = device.memory_bytes,
                                      .cache_bytes = cache > 0 ? (uint64_t)cache : 0,
                                      .align = ALIGN,
                                      .has_addresses = true};
    snprintf(d->base.facts.name, sizeof d->base.facts.name, "%s", device.name);
    return learn_driver(d);
}

static hn_status hold_context(cuda_dev *d, const hn_device_options *options) {
    d->context = options->context;
    d->callers = options->memory;
    if (d->context) return NULL;
    HN_TRY(hn_cuda_status(&d->cuda, d->cuda.cuDevicePrimaryCtxRetain(&d->context, d->device),
                          "cuDevicePrimaryCtxRetain"));
    d->is_primary = true;
    return NULL;
}

/* The context, which is current, is of the device that the module was told to use. */
static hn_status check_context(cuda_dev *d) {
    int device = 0;
    if (d->is_primary) return NULL;
    HN_TRY(hn_cuda_check(d, d->cuda.cuCtxGetDevice(&device), "cuCtxGetDevice"));
    if (device == d->device) return NULL;
    return HN_ERROR(
        HN_INVALID_ARGUMENT,
        "the context given is of cuda:%d, but the module is to run on cuda:%u; name the "
        "device ('cuda:%d')",
        device, d->base.number, device);
}

static hn_status open_parts(cuda_dev *d, const hn_device_options *options) {
    bool pushed;
    HN_TRY(learn_facts(d, options));
    HN_TRY(hold_context(d, options));
    HN_TRY(hn_cuda_enter(d, &pushed));
    hn_status status = check_context(d);
    if (!status) status = hn_cuda_memory_init(d);
    hn_cuda_leave(d, pushed);
    return status;
}

/* Of a lost context nothing can be given back one by one, and the driver says so. */
static void cuda_close(hn_dev *dev) {
    cuda_dev *d = (cuda_dev *)dev;
    if (d->context) {
        const bool pushed = d->cuda.cuCtxPushCurrent(d->context) == HN_CUDA_SUCCESS;
        hn_cuda_operations_deinit(d);
        hn_cuda_memory_deinit(d);
        hn_cuda_leave(d, pushed);
        if (d->is_primary) (void)d->cuda.cuDevicePrimaryCtxRelease(d->device);
    }
    pthread_mutex_destroy(&d->lock);
    free(d->ranges);
    free(d->leftovers);
    free(d);
}

static hn_status cuda_open(const hn_device_options *options, hn_dev **out) {
    cuda_dev *d = calloc(1, sizeof *d);
    if (!d) return HN_ERROR(HN_OUT_OF_MEMORY, "no memory for a device");
    d->base = (hn_dev){.ops = &hn_device_cuda, .number = options->number};
    pthread_mutex_init(&d->lock, NULL);
    hn_status status = hn_cuda_load(&d->cuda);
    if (!status) status = open_parts(d, options);
    if (status) cuda_close(&d->base);
    else *out = &d->base;
    return status;
}

/* ---- events ---- */

/* The driver tells times as floats of milliseconds between two events. So events tell how far they
 * are behind one that is not much older, whose own time is a whole number. */
struct hn_event {
    cuda_dev *dev;
    hn_cuda_event event;
    cuda_clock *clock; /* NULL: it has no time */
};

#define CLOCK_LIFE_NS 1000000000ll

void hn_cuda_clock_release(cuda_clock *clock) {
    if (!clock || atomic_fetch_sub_explicit(&clock->refs, 1, memory_order_acq_rel) != 1) return;
    (void)clock->dev->cuda.cuEventDestroy(clock->event);
    free(clock);
}

static hn_status time_behind(cuda_dev *d, const cuda_clock *clock, hn_cuda_event event,
                             int64_t *out_ns) {
    float ms = 0;
    HN_TRY(hn_cuda_check(d, d->cuda.cuEventSynchronize(event), "cuEventSynchronize"));
    HN_TRY(hn_cuda_check(d, d->cuda.cuEventElapsedTime(&ms, clock->event, event),
                         "cuEventElapsedTime"));
    *out_ns = clock->ns + (int64_t)((double)ms * 1e6);
    return NULL;
}

static hn_status start_clock(cuda_queue *q, cuda_clock *clock) {
    cuda_dev *d = (cuda_dev *)q->base.dev;
    HN_TRY(hn_cuda_check(d, d->cuda.cuEventRecord(clock->event, q->stream), "cuEventRecord"));
    return q->clock ? time_behind(d, q->clock, clock->event, &clock->ns) : NULL;
}

static hn_status make_clock(cuda_queue *q) {
    cuda_dev *d = (cuda_dev *)q->base.dev;
    cuda_clock *clock = calloc(1, sizeof *clock);
    if (!clock) return HN_ERROR(HN_OUT_OF_MEMORY, "no memory for an event");
    clock->dev = d;
    clock->host_ns = hn_now_ns();
    atomic_init(&clock->refs, 1);
    hn_status status = hn_cuda_check(d, d->cuda.cuEventCreate(&clock->event, HN_CUDA_EVENT_DEFAULT),
                                     "cuEventCreate");
    if (status) {
        free(clock);
        return status;
    }
    status = start_clock(q, clock);
    if (status) {
        hn_cuda_clock_release(clock);
        return status;
    }
    hn_cuda_clock_release(q->clock);
    q->clock = clock;
    return NULL;
}

/* A new one is begun while nothing is at work, since its time is waited for. */
static hn_status keep_clock(cuda_queue *q) {
    if (q->clock && (!q->is_idle || hn_now_ns() - q->clock->host_ns < CLOCK_LIFE_NS)) return NULL;
    return make_clock(q);
}

static hn_status fill_event(cuda_queue *q, hn_event *event) {
    cuda_dev *d = event->dev;
    if (q->has_times) {
        HN_TRY(keep_clock(q));
        event->clock = q->clock;
        atomic_fetch_add_explicit(&q->clock->refs, 1, memory_order_relaxed);
    }
    HN_TRY(hn_cuda_check(d,
                         d->cuda.cuEventCreate(&event->event, q->has_times ? HN_CUDA_EVENT_DEFAULT
                                                                           : HN_CUDA_EVENT_NO_TIME),
                         "cuEventCreate"));
    return hn_cuda_check(d, d->cuda.cuEventRecord(event->event, q->stream), "cuEventRecord");
}

static void free_event(hn_event *event) {
    if (event->event) (void)event->dev->cuda.cuEventDestroy(event->event);
    hn_cuda_clock_release(event->clock);
    free(event);
}

static hn_status cuda_record(hn_queue *queue, hn_event **out) {
    cuda_dev *d = (cuda_dev *)queue->dev;
    bool pushed;
    HN_TRY(hn_cuda_enter(d, &pushed));
    hn_event *event = calloc(1, sizeof *event);
    hn_status status = event ? NULL : HN_ERROR(HN_OUT_OF_MEMORY, "no memory for an event");
    if (!status) {
        event->dev = d;
        status = fill_event((cuda_queue *)queue, event);
        if (status) free_event(event);
        else *out = event;
    }
    hn_cuda_leave(d, pushed);
    return status;
}

static hn_status cuda_wait(hn_queue *queue, hn_event *event) {
    cuda_dev *d = (cuda_dev *)queue->dev;
    cuda_queue *q = (cuda_queue *)queue;
    bool pushed;
    HN_TRY(hn_cuda_enter_queue(q, &pushed));
    q->is_idle = false;
    hn_status status = hn_cuda_check(d, d->cuda.cuStreamWaitEvent(q->stream, event->event, 0),
                                     "cuStreamWaitEvent");
    hn_cuda_leave(d, pushed);
    return status;
}

static hn_status cuda_event_time(hn_event *event, int64_t *out_ns) {
    bool pushed;
    if (!event->clock) return HN_ERROR(HN_INTERNAL, "an event of a queue without times");
    HN_TRY(hn_cuda_enter(event->dev, &pushed));
    hn_status status = time_behind(event->dev, event->clock, event->event, out_ns);
    hn_cuda_leave(event->dev, pushed);
    return status;
}

static void cuda_event_free(hn_event *event) {
    if (!event) return;
    cuda_dev *d = event->dev;
    const bool pushed = d->cuda.cuCtxPushCurrent(d->context) == HN_CUDA_SUCCESS;
    free_event(event);
    hn_cuda_leave(d, pushed);
}

/* The event may be used again at once: a wait is for what was recorded last when it was given. */
static hn_status order(cuda_queue *q, hn_cuda_stream ahead, hn_cuda_stream behind) {
    cuda_dev *d = (cuda_dev *)q->base.dev;
    if (!q->order)
        HN_TRY(hn_cuda_check(d, d->cuda.cuEventCreate(&q->order, HN_CUDA_EVENT_NO_TIME),
                             "cuEventCreate"));
    HN_TRY(hn_cuda_check(d, d->cuda.cuEventRecord(q->order, ahead), "cuEventRecord"));
    return hn_cuda_check(d, d->cuda.cuStreamWaitEvent(behind, q->order, 0), "cuStreamWaitEvent");
}

/* `behind` waits for what `ahead` has so far. */
static hn_status order_queues(cuda_queue *q, hn_cuda_stream ahead, hn_cuda_stream behind) {
    bool pushed;
    HN_TRY(hn_cuda_enter_queue(q, &pushed));
    q->is_idle = false;
    hn_status status = order(q, ahead, behind);
    hn_cuda_leave((cuda_dev *)q->base.dev, pushed);
    return status;
}

static hn_status cuda_wait_for_caller(hn_queue *queue, void *other) {
    cuda_queue *q = (cuda_queue *)queue;
    return order_queues(q, other, q->stream);
}

static hn_status cuda_let_caller_wait(hn_queue *queue, void *other) {
    cuda_queue *q = (cuda_queue *)queue;
    return order_queues(q, q->stream, other);
}

/* An event in a stream that is captured is a part of the graph: whoever waits for it, other than
 * the graph, ends the capture. */
static hn_status check_not_captured(cuda_dev *d, hn_cuda_stream stream) {
    int state = HN_CUDA_CAPTURE_NONE;
    HN_TRY(hn_cuda_check(d, d->cuda.cuStreamIsCapturing(stream, &state), "cuStreamIsCapturing"));
    return state == HN_CUDA_CAPTURE_NONE ? NULL
                                         : HN_ERROR(HN_UNSUPPORTED, "the stream is captured");
}

static hn_status record_in(cuda_dev *d, hn_cuda_stream stream, hn_cuda_event *out) {
    HN_TRY(check_not_captured(d, stream));
    HN_TRY(hn_cuda_check(d, d->cuda.cuEventCreate(out, HN_CUDA_EVENT_NO_TIME), "cuEventCreate"));
    return hn_cuda_check(d, d->cuda.cuEventRecord(*out, stream), "cuEventRecord");
}

static hn_status cuda_record_caller(hn_dev *dev, void *other, hn_event **out) {
    cuda_dev *d = (cuda_dev *)dev;
    bool pushed;
    HN_TRY(hn_cuda_enter(d, &pushed));
    hn_event *event = calloc(1, sizeof *event);
    hn_status status = event ? NULL : HN_ERROR(HN_OUT_OF_MEMORY, "no memory for an event");
    if (!status) {
        event->dev = d;
        status = record_in(d, other, &event->event);
        if (status) free_event(event);
        else *out = event;
    }
    hn_cuda_leave(d, pushed);
    return status;
}

static void cuda_free_behind(hn_dev *dev, void *memory, hn_event *event) {
    cuda_dev *d = (cuda_dev *)dev;
    const bool pushed = d->cuda.cuCtxPushCurrent(d->context) == HN_CUDA_SUCCESS;
    hn_cuda_free_behind(d, memory, event->event);
    event->event = NULL;
    free_event(event);
    hn_cuda_leave(d, pushed);
}

/* If it fails, each call tries by itself, and tells. */
static void cuda_enter(hn_queue *queue) {
    cuda_queue *q = (cuda_queue *)queue;
    hn_status status = hn_cuda_enter((cuda_dev *)queue->dev, &q->has_pushed);
    q->is_entered = !status;
    hn_status_free(status);
}

static void cuda_leave(hn_queue *queue) {
    cuda_queue *q = (cuda_queue *)queue;
    q->is_entered = false;
    hn_cuda_leave((cuda_dev *)queue->dev, q->has_pushed);
}

static void *cuda_handle(hn_queue *queue) { return ((cuda_queue *)queue)->stream; }

const hn_device_ops hn_device_cuda = {
    .kind = HN_DEVICE_CUDA,
    .takes_callers = true,
    .pins_copy_memory = true,
    .keeps_layouts = true,
    .dlpack_type = 2,
    .dlpack_pinned_type = 3,
    .target_named = target_named,
    .number_of = number_of,
    .fitness = fitness,
    .open = cuda_open,
    .close = cuda_close,
    .alloc = hn_cuda_alloc,
    .free = hn_cuda_free,
    .usage = hn_cuda_usage,
    .load = hn_cuda_load_code,
    .load_text = hn_cuda_load_text,
    .text_words = hn_cuda_words,
    .unload = hn_cuda_unload_code,
    .find = hn_cuda_find_kernel,
    .queue_create = hn_cuda_queue_create,
    .queue_destroy = hn_cuda_queue_destroy,
    .enter = cuda_enter,
    .leave = cuda_leave,
    .copy_in = hn_cuda_copy_in,
    .make_in = hn_cuda_make_in,
    .copy_out = hn_cuda_copy_out,
    .copy = hn_cuda_copy,
    .fill = hn_cuda_fill,
    .read = hn_cuda_read,
    .launch = hn_cuda_launch,
    .record = cuda_record,
    .wait = cuda_wait,
    .event_free = cuda_event_free,
    .event_time = cuda_event_time,
    .handle = cuda_handle,
    .wait_for_caller = cuda_wait_for_caller,
    .let_caller_wait = cuda_let_caller_wait,
    .record_caller = cuda_record_caller,
    .free_behind = cuda_free_behind,
    .recording_begin = hn_cuda_recording_begin,
    .recording_end = hn_cuda_recording_end,
    .patch_begin = hn_cuda_patch_begin,
    .patch_end = hn_cuda_patch_end,
    .replay = hn_cuda_replay,
    .recording_free = hn_cuda_recording_free,
    .finish = hn_cuda_finish,
    .operations = &hn_cuda_operations,
};
