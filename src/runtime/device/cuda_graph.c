/* cuda_graph.c: recordings, which are CUDA graphs: launches of a stream are captured, made into a
 * graph, and that is launched in their place. */
#include "runtime/device/cuda.h"

#include <stdlib.h>

typedef struct cuda_recording {
    hn_recording base;
    hn_cuda_graph_exec exec;
    cuda_launches launches; /* what a replay launches */
} cuda_recording;

static cuda_dev *dev_of(hn_queue *queue) { return (cuda_dev *)queue->dev; }

/* ---- capture ---- */

static hn_status begin_capture(cuda_queue *q) {
    cuda_dev *d = dev_of(&q->base);
    HN_TRY(hn_cuda_check(d, d->cuda.cuStreamBeginCapture(q->stream, HN_CUDA_CAPTURE_RELAXED),
                         "cuStreamBeginCapture"));
    q->before = q->launches;
    q->launches = (cuda_launches){.count = 0};
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
 */
static bool update(cuda_dev *d, cuda_recording *r, hn_cuda_graph graph) {
    hn_cuda_graph_update info = {.result = 0};
    return r->exec && d->cuda.cuGraphExecUpdate &&
           d->cuda.cuGraphExecUpdate(r->exec, graph, &info) == HN_CUDA_SUCCESS;
}

static hn_status instantiate(cuda_dev *d, cuda_recording *r, hn_cuda_graph graph) {
    if (update(d, r, graph)) return NULL;
    if (r->exec) (void)d->cuda.cuGraphExecDestroy(r->exec);
    r->exec = NULL;
    return hn_cuda_check(d, d->cuda.cuGraphInstantiate(&r->exec, graph, 0), "cuGraphInstantiate");
}

static hn_status make_recording(cuda_queue *q, hn_cuda_graph graph, const cuda_launches *launches,
                                hn_recording **recording) {
    cuda_recording *r = (cuda_recording *)*recording;
    if (!r) r = calloc(1, sizeof *r);
    if (!r) return HN_ERROR(HN_OUT_OF_MEMORY, "no memory for a recording");
    r->base.dev = q->base.dev;
    r->launches = *launches;
    *recording = &r->base;
    return instantiate(dev_of(&q->base), r, graph);
}

static void free_recording(cuda_recording *r) {
    if (!r) return;
    if (r->exec) (void)((cuda_dev *)r->base.dev)->cuda.cuGraphExecDestroy(r->exec);
    free(r);
}

/* Something that cannot be captured has ended the capture; the driver says so here. */
static hn_status end_capture(cuda_queue *q, bool is_good, hn_recording **recording) {
    cuda_dev *d = dev_of(&q->base);
    hn_cuda_graph graph = NULL;
    const cuda_launches launches = q->launches;
    q->launches = q->before;
    hn_status status =
        hn_cuda_check(d, d->cuda.cuStreamEndCapture(q->stream, &graph), "cuStreamEndCapture");
    if (!status && (!is_good || !graph))
        status = HN_ERROR(HN_UNSUPPORTED, "the steps cannot be recorded");
    if (!status) status = make_recording(q, graph, &launches, recording);
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
