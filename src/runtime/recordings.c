/* recordings.c: the steps of a bound as one piece of work of the device. The first run of a bound
 * gives them one by one, which loads kernels and finds out what they need. The second records them,
 * and from then on the recording is given. When addresses in it are others, the device exchanges
 * them: the steps are walked, but only compared with what the recording holds. If it happens again,
 * a few recordings with different addresses are kept, made of the first one: a caller whose buffers
 * take turns. The steps are recorded anew only where the device cannot exchange what has changed:
 * on CUDA the addresses that operations of libraries have. That takes half as long as a short run
 * (on an H200 13 us, with 28 for a run of 20 kernels).
 *
 * That is for programs of which the device does everything and the host decides nothing. */
#include "runtime/module_impl.h"

#include "base/log.h"

enum {
    RECORDINGS_MAX = 32, /* of a module: they take memory of the device, which bounds them, too */
    RECORDED_MAX = 16384 /* steps of one, all rounds of loops counted */
};

static bool is_recordable(const hn_module *m, const hnb_step *s) {
    switch (s->kind) {
    case HNB_STEP_KERNEL: return true;
    case HNB_STEP_ZERO: return hn_buffer_is_remote(m, s->buffer);
    case HNB_STEP_LOOP: return s->param_count > 0; /* a test is read by the host */
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

/* Steps that the recording would hold: the rounds of loops are recorded one after the other. */
static uint64_t count_recorded(const hn_bound *bound, uint32_t first, uint32_t end) {
    uint64_t count = 0;
    for (uint32_t k = first; k < end && count <= RECORDED_MAX;
         k += 1 + bound->steps[k].body_count) {
        const hn_run_step *s = &bound->steps[k];
        if (s->kind != HNB_STEP_LOOP) count++;
        else if (s->rounds > 0 && s->body_count)
            count += count_recorded(bound, k + 1, k + 1 + s->body_count) *
                     (uint64_t)(s->rounds < RECORDED_MAX ? s->rounds : RECORDED_MAX + 1);
    }
    return count;
}

/* Whether one more may be made. */
static bool take_room(hn_module *m, hn_bound_recordings *r) {
    r->counted = &m->recording_count;
    if (atomic_fetch_add_explicit(r->counted, 1, memory_order_relaxed) < RECORDINGS_MAX)
        return true;
    atomic_fetch_sub_explicit(r->counted, 1, memory_order_relaxed);
    return false;
}

void hn_recordings_drop(hn_bound_recordings *r) {
    for (uint32_t k = 0; k < r->count; k++) hn_recording_free(r->items[k].of_device);
    if (r->count) atomic_fetch_sub_explicit(r->counted, r->count, memory_order_relaxed);
}

static const void *scratch_of(const hn_context *c) {
    return c->places[HN_PLACE_KERNELS].scratch.memory;
}

/* Whether the recording is still what the steps would do. */
static bool is_current(const hn_context *c, const hn_recorded *r) {
    const hn_patch_list *io = &c->bounds[0]->io_patches;
    if (r->workspaces_id != c->workspaces_id || r->state_id != c->state->id ||
        r->scratch != scratch_of(c))
        return false;
    for (uint32_t k = 0; k < io->count; k++)
        if (r->addresses[k] != *io->items[k].slot) return false;
    return true;
}

static void move_to_front(hn_bound_recordings *r, uint32_t k) {
    const hn_recorded found = r->items[k];
    for (; k > 0; k--) r->items[k] = r->items[k - 1];
    r->items[0] = found;
}

static bool find_current(const hn_context *c) {
    hn_bound_recordings *r = &c->bounds[0]->recordings;
    for (uint32_t k = 0; k < r->count; k++) {
        if (!is_current(c, &r->items[k])) continue;
        move_to_front(r, k);
        return true;
    }
    return false;
}

static hn_status add(hn_context *c) {
    hn_bound_recordings *r = &c->bounds[0]->recordings;
    r->items[r->count] = (hn_recorded){.of_device = NULL};
    void ***addresses = &r->items[r->count++].addresses;
    HN_NEW(&c->bounds[0]->arena, *addresses, c->bounds[0]->io_patches.count + 1u);
    return NULL;
}

/* Puts to the front the one that is to be made: another one, or that which was not used for
 * longest. Addresses that are others for the first time may stay so: memory has grown. */
static hn_status choose(hn_module *m, hn_context *c) {
    hn_bound_recordings *r = &c->bounds[0]->recordings;
    const bool may_add =
        !r->count || (r->has_moved && !r->is_full && r->count < HN_BOUND_RECORDINGS);
    r->has_moved = r->count > 0;
    if (may_add && take_room(m, r)) HN_TRY(add(c));
    if (!r->count) return HN_ERROR(HN_UNSUPPORTED, "there are enough graphs");
    move_to_front(r, r->count - 1);
    return NULL;
}

typedef hn_status (*walk_fn)(hn_module *m, hn_context *c);

/* Other addresses in `*recording`, or `apart`, in a new one. */
static bool patch(hn_module *m, hn_context *c, walk_fn walk, bool apart, hn_recording **recording) {
    const hn_device_ops *ops = m->device->ops;
    hn_queue *queue = c->places[HN_PLACE_KERNELS].queue;
    if (!ops->patch_begin || !ops->patch_begin(queue, *recording)) return false;
    hn_status status = walk(m, c);
    const bool is_good = !status;
    hn_status_free(status);
    return ops->patch_end(queue, is_good, apart, recording);
}

/* The recording at the front gets the addresses of now; a new one from that which was used last. */
static bool patch_front(hn_module *m, hn_context *c, walk_fn walk) {
    hn_recorded *items = c->bounds[0]->recordings.items;
    hn_recording *of = items[0].of_device;
    if (of) return patch(m, c, walk, false, &items[0].of_device);
    if (c->bounds[0]->recordings.count == 1) return false;
    of = items[1].of_device;
    if (!patch(m, c, walk, true, &of)) return false;
    items[0].of_device = of;
    return true;
}

static hn_status fill_front(hn_module *m, hn_context *c, walk_fn walk) {
    const hn_device_ops *ops = m->device->ops;
    hn_queue *queue = c->places[HN_PLACE_KERNELS].queue;
    if (patch_front(m, c, walk)) return NULL;
    HN_TRY(ops->recording_begin(queue));
    hn_status status = walk(m, c);
    hn_status end =
        ops->recording_end(queue, !status, &c->bounds[0]->recordings.items[0].of_device);
    if (!status) return end;
    hn_status_free(end);
    return status;
}

/* The one at the front, which there is no memory for; another one takes its place. False: there is
 * none. */
static bool give_up_front(hn_bound_recordings *r) {
    if (r->count < 2) return false;
    r->is_full = true;
    r->count--;
    atomic_fetch_sub_explicit(r->counted, 1, memory_order_relaxed);
    for (uint32_t k = 0; k < r->count; k++) r->items[k] = r->items[k + 1];
    move_to_front(r, r->count - 1);
    return true;
}

static hn_status record(hn_module *m, hn_context *c, walk_fn walk) {
    if (count_recorded(c->bounds[0], 0, m->view.steps_count) > RECORDED_MAX)
        return HN_ERROR(HN_UNSUPPORTED, "loops of too many rounds");
    HN_TRY(choose(m, c));
    hn_status status = fill_front(m, c, walk);
    if (hn_status_code(status) != HN_OUT_OF_MEMORY || !give_up_front(&c->bounds[0]->recordings))
        return status;
    hn_status_free(status);
    return fill_front(m, c, walk);
}

static void note_current(hn_context *c) {
    const hn_patch_list *io = &c->bounds[0]->io_patches;
    hn_recorded *r = &c->bounds[0]->recordings.items[0];
    r->workspaces_id = c->workspaces_id;
    r->state_id = c->state->id;
    r->scratch = scratch_of(c);
    for (uint32_t k = 0; k < io->count; k++) r->addresses[k] = *io->items[k].slot;
}

/* Makes the recording, or says why not, and it is not tried again. */
static void make(hn_module *m, hn_context *c, walk_fn walk) {
    hn_status status = record(m, c, walk);
    c->bounds[0]->recordings.is_refused = status != NULL;
    if (!status) note_current(c);
    c->graphs_made += !status;
    if (status)
        hn_log("run", HN_LOG_INFO, "the steps are launched one by one: %s",
               hn_status_message(status));
    hn_status_free(status);
}

hn_status hn_recordings_run(hn_module *m, hn_context *c,
                            hn_status (*walk)(hn_module *m, hn_context *c)) {
    hn_bound_recordings *r = &c->bounds[0]->recordings;
    /* who has cancelled the run is told by the first step */
    if (r->is_refused || c->hooks.count || (c->cancel && hn_cancel_is_set(c->cancel)))
        return walk(m, c);
    if (!r->count && ++r->runs < 2) return walk(m, c);
    if (!find_current(c)) make(m, c, walk);
    if (r->is_refused) return walk(m, c);
    c->graph_runs++;
    return m->device->ops->replay(c->places[HN_PLACE_KERNELS].queue, r->items[0].of_device);
}
