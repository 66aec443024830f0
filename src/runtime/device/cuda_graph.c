/* cuda_graph.c: recordings, which are CUDA graphs: launches of a stream are captured, made into a
 * graph, and that is launched in their place. When addresses are others, they are exchanged
 * (cuda_patch.c). Where that cannot be done the steps are captured again, and the new graph takes
 * the old one's place. */
#include "runtime/device/cuda.h"

#include <stdlib.h>

/* What graphs take of the device's memory, which the driver does not tell: at most 7.7 KiB for each
 * kernel, measured on an H200 with driver 580.159 (bench/RESULTS-H200.md), a little more is
 * counted, and as much for each node of another kind. The free memory of the device, asked before
 * and behind, would tell it only where nobody else is at work with the device, and by pages of 2
 * MiB. The second number bounds what the recordings of a device, which are a module's, take
 * together: 26,214 nodes. */
enum { NODE_BYTES = 10 << 10, GRAPHS_MAX_BYTES = 256 << 20 };

typedef struct cuda_recording {
    hn_recording base;
    hn_cuda_graph_exec exec;
    size_t bytes;           /* that are counted for it */
    cuda_launches launches; /* what a replay launches */
    cuda_calls *calls;      /* NULL: its addresses cannot be exchanged */
    uint64_t *values;       /* of the calls, as they are in `exec` */
} cuda_recording;

static cuda_dev *dev_of(hn_queue *queue) { return (cuda_dev *)queue->dev; }

static void begin_calls(cuda_queue *q, cuda_calls *calls) {
    q->calls = calls;
    q->before = q->launches;
    q->launches = (cuda_launches){.count = 0};
}

/* What was given since. */
static cuda_launches end_calls(cuda_queue *q) {
    const cuda_launches launches = q->launches;
    q->calls = NULL;
    q->launches = q->before;
    return launches;
}

/* ---- what they take ---- */

static size_t bytes_of(const cuda_dev *d, hn_cuda_graph graph, const cuda_launches *launches) {
    size_t nodes = 0;
    if (!d->cuda.cuGraphGetNodes || d->cuda.cuGraphGetNodes(graph, NULL, &nodes) != HN_CUDA_SUCCESS)
        nodes = (size_t)launches->count + launches->operations;
    return nodes * NODE_BYTES;
}

static void give_bytes(cuda_dev *d, cuda_recording *r) {
    pthread_mutex_lock(&d->lock);
    d->graph_bytes -= r->bytes;
    pthread_mutex_unlock(&d->lock);
    r->bytes = 0;
}

static hn_status take_bytes(cuda_dev *d, cuda_recording *r, size_t bytes) {
    pthread_mutex_lock(&d->lock);
    const size_t taken = d->memory_bytes + d->graph_bytes;
    const bool is_over = bytes > d->memory_limit - taken;
    const bool has_room = !is_over && bytes <= GRAPHS_MAX_BYTES - d->graph_bytes;
    if (has_room) d->graph_bytes += bytes;
    pthread_mutex_unlock(&d->lock);
    if (has_room) {
        r->bytes = bytes;
        return NULL;
    }
    return HN_ERROR(HN_OUT_OF_MEMORY,
                    "a graph that takes about %zu bytes of the device's memory is above %s", bytes,
                    is_over ? "the limit (device_memory_bytes)"
                            : "what graphs of a module may take, 256 MiB");
}

/* ---- making and freeing ---- */

static hn_status instantiate(cuda_dev *d, cuda_recording *r, hn_cuda_graph graph) {
    HN_TRY(take_bytes(d, r, bytes_of(d, graph, &r->launches)));
    return hn_cuda_check(d, d->cuda.cuGraphInstantiate(&r->exec, graph, 0), "cuGraphInstantiate");
}

static void drop_graph(cuda_dev *d, cuda_recording *r) {
    if (r->exec) (void)d->cuda.cuGraphExecDestroy(r->exec);
    r->exec = NULL;
    hn_cuda_calls_release(d, r->calls);
    r->calls = NULL;
    give_bytes(d, r);
}

static void free_recording(cuda_recording *r) {
    if (!r) return;
    drop_graph((cuda_dev *)r->base.dev, r);
    free(r->values);
    free(r);
}

static bool set_values(cuda_recording *r, const cuda_calls *calls) {
    uint32_t count;
    const uint64_t *values = hn_cuda_calls_values(calls, &count);
    uint64_t *own = realloc(r->values, (count + 1u) * sizeof *own);
    if (!own) return false;
    if (count) memcpy(own, values, count * sizeof *own);
    r->values = own;
    return true;
}

/* ---- capture ---- */

static hn_status begin_capture(cuda_queue *q) {
    cuda_dev *d = dev_of(&q->base);
    HN_TRY(hn_cuda_check(d, d->cuda.cuStreamBeginCapture(q->stream, HN_CUDA_CAPTURE_RELAXED),
                         "cuStreamBeginCapture"));
    begin_calls(q, hn_cuda_calls_begin(d));
    return NULL;
}

hn_status hn_cuda_recording_begin(hn_queue *queue) {
    bool pushed;
    HN_TRY(hn_cuda_enter_queue((cuda_queue *)queue, &pushed));
    hn_status status = begin_capture((cuda_queue *)queue);
    hn_cuda_leave(dev_of(queue), pushed);
    return status;
}

/* A graph that has the nodes of the old one, with other addresses, takes its place at little cost.
 * What was noted of the old one stays right, but for its values. */
static bool update(cuda_dev *d, cuda_recording *r, hn_cuda_graph graph, const cuda_calls *calls) {
    hn_cuda_graph_update info = {.result = 0};
    if (!r->exec || !d->cuda.cuGraphExecUpdate) return false;
    if (r->calls && !(calls && hn_cuda_calls_are_alike(r->calls, calls) && set_values(r, calls)))
        return false;
    return d->cuda.cuGraphExecUpdate(r->exec, graph, &info) == HN_CUDA_SUCCESS;
}

/* The graph is that of the calls from here on, if there are any. */
static hn_status renew(cuda_dev *d, cuda_recording *r, hn_cuda_graph *graph, cuda_calls *calls) {
    drop_graph(d, r);
    HN_TRY(instantiate(d, r, *graph));
    if (!calls || !set_values(r, calls)) return NULL;
    r->calls = hn_cuda_calls_retain(calls);
    hn_cuda_calls_take(calls, *graph);
    *graph = NULL;
    return NULL;
}

static hn_status make_recording(cuda_queue *q, hn_cuda_graph *graph, const cuda_launches *launches,
                                cuda_calls *calls, hn_recording **recording) {
    cuda_recording *r = (cuda_recording *)*recording;
    if (!r) r = calloc(1, sizeof *r);
    if (!r) return HN_ERROR(HN_OUT_OF_MEMORY, "no memory for a recording");
    r->base.dev = q->base.dev;
    r->launches = *launches;
    *recording = &r->base;
    if (update(dev_of(&q->base), r, *graph, calls)) return NULL;
    return renew(dev_of(&q->base), r, graph, calls);
}

/* Something that cannot be captured has ended the capture; the driver says so here. */
static hn_status end_capture(cuda_queue *q, bool is_good, hn_recording **recording) {
    cuda_dev *d = dev_of(&q->base);
    hn_cuda_graph graph = NULL;
    cuda_calls *calls = q->calls;
    const cuda_launches launches = end_calls(q);
    hn_status status =
        hn_cuda_check(d, d->cuda.cuStreamEndCapture(q->stream, &graph), "cuStreamEndCapture");
    if (!status && (!is_good || !graph))
        status = HN_ERROR(HN_UNSUPPORTED, "the steps cannot be recorded");
    if (!status) status = make_recording(q, &graph, &launches, calls, recording);
    hn_cuda_calls_release(d, calls);
    if (graph) (void)d->cuda.cuGraphDestroy(graph);
    if (status) {
        free_recording((cuda_recording *)*recording);
        *recording = NULL;
    }
    return status;
}

hn_status hn_cuda_recording_end(hn_queue *queue, bool is_good, hn_recording **recording) {
    cuda_dev *d = dev_of(queue);
    const bool pushed = d->cuda.cuCtxPushCurrent(d->context) == HN_CUDA_SUCCESS;
    hn_status status = end_capture((cuda_queue *)queue, is_good, recording);
    hn_cuda_leave(d, pushed);
    return status;
}

/* ---- other addresses ---- */

bool hn_cuda_patch_begin(hn_queue *queue, hn_recording *recording) {
    cuda_calls *calls = ((cuda_recording *)recording)->calls;
    if (!calls) return false;
    begin_calls((cuda_queue *)queue, calls);
    hn_cuda_calls_compare_begin(calls);
    return true;
}

/* Another one of the same calls, with the addresses that they were captured with. NULL: there is no
 * memory, or the driver refuses. */
static cuda_recording *make_apart(cuda_dev *d, const cuda_recording *of) {
    cuda_recording *r = calloc(1, sizeof *r);
    if (!r) return NULL;
    r->base.dev = &d->base;
    r->launches = of->launches;
    r->calls = hn_cuda_calls_retain(of->calls);
    hn_status status = set_values(r, r->calls) && hn_cuda_calls_can_patch(r->calls, r->values)
                           ? instantiate(d, r, hn_cuda_calls_graph(r->calls))
                           : HN_ERROR(HN_UNSUPPORTED, "an operation has another address");
    if (!status) return r;
    hn_status_free(status);
    free_recording(r);
    return NULL;
}

/* The context is current. */
static bool patch_apart(cuda_dev *d, hn_recording **recording) {
    cuda_recording *r = make_apart(d, (cuda_recording *)*recording);
    if (!r) return false;
    const bool is_good = hn_cuda_calls_patch(d, r->calls, r->exec, r->values);
    if (is_good) *recording = &r->base;
    else free_recording(r);
    return is_good;
}

static bool patch_here(cuda_dev *d, hn_recording **recording) {
    cuda_recording *r = (cuda_recording *)*recording;
    if (!hn_cuda_calls_can_patch(r->calls, r->values)) return false;
    if (hn_cuda_calls_patch(d, r->calls, r->exec, r->values)) return true;
    free_recording(r);
    *recording = NULL;
    return false;
}

bool hn_cuda_patch_end(hn_queue *queue, bool is_good, bool is_apart, hn_recording **recording) {
    cuda_dev *d = dev_of(queue);
    cuda_calls *calls = ((cuda_recording *)*recording)->calls;
    (void)end_calls((cuda_queue *)queue);
    if (!hn_cuda_calls_compare_end(calls) || !is_good) return false;
    const bool pushed = d->cuda.cuCtxPushCurrent(d->context) == HN_CUDA_SUCCESS;
    const bool is_done = is_apart ? patch_apart(d, recording) : patch_here(d, recording);
    hn_cuda_leave(d, pushed);
    return is_done;
}

/* ---- replay ---- */

hn_status hn_cuda_replay(hn_queue *queue, hn_recording *recording) {
    cuda_dev *d = dev_of(queue);
    cuda_queue *q = (cuda_queue *)queue;
    const cuda_recording *r = (const cuda_recording *)recording;
    bool pushed;
    HN_TRY(hn_cuda_enter_queue(q, &pushed));
    hn_cuda_note_launches(q, &r->launches);
    hn_status status = hn_cuda_check(d, d->cuda.cuGraphLaunch(r->exec, q->stream), "cuGraphLaunch");
    hn_cuda_leave(d, pushed);
    return hn_cuda_name_late(q, status);
}

void hn_cuda_recording_free(hn_recording *recording) {
    cuda_dev *d = (cuda_dev *)recording->dev;
    const bool pushed = d->cuda.cuCtxPushCurrent(d->context) == HN_CUDA_SUCCESS;
    free_recording((cuda_recording *)recording);
    hn_cuda_leave(d, pushed);
}
