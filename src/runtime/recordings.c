/* recordings.c: the steps of a bound as one piece of work of the device. The first run of a bound
 * gives them one by one, which loads kernels and finds out what they need. The second records them,
 * and from then on the recording is given. When addresses in it are others, it is made anew from the
 * steps and brought up to date.
 *
 * That is for programs of which the device does everything and the host decides nothing. */
#include "runtime/module_impl.h"

#include "base/log.h"

enum { RECORDINGS_MAX = 32 }; /* of a module: they take memory of the device */

static bool is_recordable(const hn_module *m, const hnb_step *s) {
    switch (s->kind) {
    case HNB_STEP_KERNEL: return true;
    case HNB_STEP_EXTERN: return hn_place_of(m, s->device) == HN_PLACE_KERNELS;
    case HNB_STEP_COPY: return hn_buffer_is_remote(m, s->buffer) && hn_buffer_is_remote(m, s->from);
    default: return false;
    }
}

bool hn_recordings_can(const hn_module *m) {
    if (!m->device->ops->recording_begin || m->stages.count || m->has_profile) return false;
    for (uint32_t k = 0; k < m->view.steps_count; k++)
        if (!is_recordable(m, &m->view.steps[k])) return false;
    return m->view.steps_count > 0;
}

/* Whether one more may be made. */
static bool take_room(hn_module *m, hn_bound_recording *r) {
    r->counted = &m->recording_count;
    return atomic_fetch_add_explicit(r->counted, 1, memory_order_relaxed) < RECORDINGS_MAX;
}

void hn_recording_drop(hn_bound_recording *r) {
    hn_recording_free(r->of_device);
    if (r->counted) atomic_fetch_sub_explicit(r->counted, 1, memory_order_relaxed);
}

static const void *scratch_of(const hn_context *c) {
    return c->places[HN_PLACE_KERNELS].scratch.memory;
}

/* Whether the recording is still what the steps would do. */
static bool is_current(const hn_context *c) {
    const hn_bound_recording *r = &c->bounds[0]->recording;
    return r->of_device && !r->is_stale && r->workspaces_id == c->workspaces_id &&
           r->state_id == c->state->id && r->scratch == scratch_of(c);
}

static hn_status record(hn_module *m, hn_context *c,
                        hn_status (*walk)(hn_module *m, hn_context *c)) {
    const hn_device_ops *ops = m->device->ops;
    hn_queue *queue = c->places[HN_PLACE_KERNELS].queue;
    HN_TRY(ops->recording_begin(queue));
    hn_status status = walk(m, c);
    hn_status end = ops->recording_end(queue, !status, &c->bounds[0]->recording.of_device);
    if (!status) return end;
    hn_status_free(end);
    return status;
}

/* Makes the recording, or says why not, and it is not tried again. */
static void make(hn_module *m, hn_context *c, hn_status (*walk)(hn_module *m, hn_context *c)) {
    hn_bound_recording *r = &c->bounds[0]->recording;
    hn_status status = record(m, c, walk);
    r->is_refused = status != NULL;
    r->is_stale = false;
    r->workspaces_id = c->workspaces_id;
    r->state_id = c->state->id;
    r->scratch = scratch_of(c);
    c->graphs_made += !status;
    if (status)
        hn_log("run", HN_LOG_INFO, "the steps are launched one by one: %s",
               hn_status_message(status));
    hn_status_free(status);
}

hn_status hn_recording_run(hn_module *m, hn_context *c, bool has_moved,
                           hn_status (*walk)(hn_module *m, hn_context *c)) {
    hn_bound_recording *r = &c->bounds[0]->recording;
    r->is_stale |= has_moved;
    /* who has cancelled the run is told by the first step */
    if (r->is_refused || c->hooks.count || (c->cancel && hn_cancel_is_set(c->cancel)))
        return walk(m, c);
    if (!r->of_device) {
        if (++r->runs < 2) return walk(m, c);
        r->is_refused = !take_room(m, r);
    }
    if (!r->is_refused && !is_current(c)) make(m, c, walk);
    if (r->is_refused) return walk(m, c);
    c->graph_runs++;
    return m->device->ops->replay(c->places[HN_PLACE_KERNELS].queue, r->of_device);
}
