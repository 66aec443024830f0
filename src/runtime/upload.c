/* upload.c: weights on the device that runs the kernels.
 *
 * When a module is opened, a thread copies its weights to the device by a queue of its own, while
 * code and libraries are loaded and the caller prepares inputs. A run whose weights are under way
 * waits until all copies are given to the device, and its queue for an event behind them. Weights
 * that were exchanged are copied by the run that needs them first; so are those of a module with an
 * executor, whose caller brings the threads, and what the thread has failed to copy: then the run
 * tells what is wrong.
 *
 * Memory for all of them is taken first, so that bounds have their addresses. */
#include "runtime/module_impl.h"

#include "base/lock.h"
#include "base/log.h"
#include "base/thread.h"
#include "base/trace.h"

#include <stdlib.h>

/* ---- memory ---- */

static bool is_for_device(const hn_module *m, uint32_t storage) {
    return m->storage_is_remote[storage] && !m->view.storages[storage].is_mutable;
}

static hn_status place_one(const hn_module *m, hn_weights *w, uint32_t k) {
    const uint64_t bytes = m->view.storages[k].bytes;
    if (!is_for_device(m, k) || w->copies[k]) return NULL;
    w->copies[k] = hn_block_create(m->device_blocks, bytes ? bytes : 1);
    if (w->copies[k]) return NULL;
    return hn_device_memory_error(m, NULL, "weights", bytes);
}

/* What was made for nothing goes: the device may need the memory for something else. */
static void drop_empty(hn_weights *w) {
    for (uint32_t k = 0; k < w->count; k++) {
        if (w->is_filled[k]) continue;
        hn_block_release(w->copies[k]);
        w->copies[k] = NULL;
    }
}

/* With the lock held. */
static hn_status place(const hn_module *m, hn_weights *w) {
    hn_status status = NULL;
    if (w->upload.is_placed) return NULL;
    for (uint32_t k = 1; k < w->count && !status; k++) status = place_one(m, w, k);
    if (status) drop_empty(w);
    w->upload.is_placed = !status;
    return status;
}

hn_status hn_weights_place(const hn_module *m, hn_weights *w) {
    if (hn_weights_are_there(w)) return NULL;
    hn_lock(&w->upload.lock);
    hn_status status = place(m, w);
    hn_unlock(&w->upload.lock);
    return status;
}

/* ---- copies ---- */

static hn_status copy_all(const hn_module *m, hn_weights *w, hn_queue *queue, uint64_t *bytes) {
    for (uint32_t k = 1; k < w->count; k++) {
        const uint64_t size = m->view.storages[k].bytes;
        if (!is_for_device(m, k) || w->is_filled[k] || !size) continue;
        if (atomic_load_explicit(&w->upload.is_stopped, memory_order_relaxed))
            return HN_ERROR(HN_CANCELLED, "the module was released");
        hn_status status =
            m->device->ops->copy_in(queue, hn_block_data(w->copies[k]), w->storages[k], size);
        if (status)
            return hn_status_annotate(status, "weights of %llu bytes", (unsigned long long)size);
        *bytes += size;
    }
    return NULL;
}

/* All copies are given to the device: runs wait for the event, and go on. */
static hn_status announce(const hn_module *m, hn_upload *u, hn_queue *queue) {
    hn_event *event;
    HN_TRY(m->device->ops->record(queue, &event));
    hn_lock(&u->lock);
    u->behind = event;
    pthread_cond_broadcast(&u->changed);
    hn_unlock(&u->lock);
    return NULL;
}

static hn_status upload_by(hn_module *m, hn_weights *w, hn_queue *queue) {
    hn_device_fault fault;
    uint64_t bytes = 0;
    const int64_t begin = hn_now_ns();
    hn_status status = copy_all(m, w, queue, &bytes);
    if (!status) {
        pthread_mutex_lock(&m->lock);
        m->stats.weights_uploaded_bytes += bytes;
        pthread_mutex_unlock(&m->lock);
        status = announce(m, &w->upload, queue);
    }
    hn_status end = m->device->ops->finish(queue, &fault);
    if (status) hn_status_free(end);
    else status = end;
    const int64_t end_ns = hn_now_ns();
    hn_trace_span("run", "weights to the device", begin, end_ns);
    pthread_mutex_lock(&m->lock);
    m->stats.weights_upload_ns += end_ns - begin;
    pthread_mutex_unlock(&m->lock);
    return status;
}

/* By a queue of their own, whose pinned memory goes when they are there. */
static hn_status upload(hn_module *m, hn_weights *w, hn_team *team) {
    hn_queue *queue;
    const hn_queue_options options = {.team = team, .threads = m->threads, .files = w->shared};
    HN_TRY(m->device->ops->queue_create(m->device, &options, &queue));
    hn_status status = upload_by(m, w, queue);
    hn_queue_destroy(queue);
    return status;
}

/* With the lock held. */
static void end_upload(const hn_module *m, hn_weights *w, bool is_good) {
    hn_upload *u = &w->upload;
    u->is_busy = false;
    m->device->ops->event_free(u->behind);
    u->behind = NULL;
    for (uint32_t k = 0; k < w->count && is_good; k++) w->is_filled[k] = true;
    atomic_store_explicit(&u->is_done, is_good, memory_order_release);
    pthread_cond_broadcast(&u->changed);
}

/* ---- the thread ---- */

static void *upload_thread(void *context) {
    hn_weights *w = context;
    hn_team team = {.limit = 0};
    hn_status status = upload(w->upload.m, w, &team);
    hn_team_end(&team);
    if (status && hn_status_code(status) != HN_CANCELLED)
        hn_log("run", HN_LOG_WARN, "weights were not copied when the module was opened: %s",
               hn_status_message(status));
    hn_lock(&w->upload.lock);
    end_upload(w->upload.m, w, !status);
    hn_unlock(&w->upload.lock);
    hn_status_free(status);
    return NULL;
}

static bool has_any(const hn_module *m, const hn_weights *w) {
    for (uint32_t k = 1; k < w->count; k++)
        if (is_for_device(m, k) && m->view.storages[k].bytes) return true;
    return false;
}

hn_status hn_weights_upload_begin(hn_module *m, hn_weights *w) {
    hn_upload *u = &w->upload;
    if (m->place_count == 1) return NULL;
    HN_TRY(hn_weights_place(m, w));
    if (!has_any(m, w)) atomic_store_explicit(&u->is_done, true, memory_order_release);
    if (m->executor.run || hn_weights_are_there(w)) return NULL;
    u->m = m;
    u->is_busy = true;
    u->has_thread = hn_thread_start(&u->thread, NULL, upload_thread, w) == 0;
    if (!u->has_thread) u->is_busy = false; /* else the thread's to say, perhaps already */
    return NULL;
}

/* ---- waiting ---- */

/* With the lock held, which it gives up meanwhile: by the calling thread. */
static hn_status upload_here(hn_module *m, hn_weights *w, hn_team *team) {
    hn_upload *u = &w->upload;
    u->is_busy = true;
    hn_unlock(&u->lock);
    hn_status status = upload(m, w, team);
    hn_lock(&u->lock);
    end_upload(m, w, !status);
    return status;
}

/* With the lock held. */
static hn_status wait_for_it(hn_module *m, hn_weights *w, hn_team *team, hn_queue *queue) {
    hn_upload *u = &w->upload;
    while (u->is_busy && !u->behind) pthread_cond_wait(&u->changed, &u->lock);
    if (u->behind) return m->device->ops->wait(queue, u->behind);
    return hn_weights_are_there(w) ? NULL : upload_here(m, w, team);
}

hn_status hn_weights_upload_wait(hn_module *m, hn_weights *w, hn_team *team, hn_queue *queue) {
    if (hn_weights_are_there(w)) return NULL;
    hn_lock(&w->upload.lock);
    hn_status status = wait_for_it(m, w, team, queue);
    hn_unlock(&w->upload.lock);
    return status;
}

/* Behind a run nothing is to be waited for but the thread's end, which knows the time. */
void hn_weights_upload_settle(hn_weights *w) {
    hn_upload *u = &w->upload;
    hn_lock(&u->lock);
    while (u->is_busy && u->behind) pthread_cond_wait(&u->changed, &u->lock);
    hn_unlock(&u->lock);
}

/* ---- sets ---- */

/* Only what has its content: of a copy that failed nobody knows. */
void hn_weights_share_copies(hn_weights *w, hn_weights *old, const uint32_t *touched) {
    hn_lock(&old->upload.lock);
    while (old->upload.is_busy) pthread_cond_wait(&old->upload.changed, &old->upload.lock);
    for (uint32_t k = 0; k < w->count; k++) {
        if (!old->copies[k] || !old->is_filled[k] || touched[k]) continue;
        hn_block_retain(old->copies[k]);
        w->copies[k] = old->copies[k];
        w->is_filled[k] = true;
    }
    hn_unlock(&old->upload.lock);
}

void hn_upload_init(hn_upload *u) {
    pthread_mutex_init(&u->lock, NULL);
    pthread_cond_init(&u->changed, NULL);
    atomic_init(&u->is_done, false);
    atomic_init(&u->is_stopped, false);
}

/* A forked child has neither the thread nor a lock that can be relied on. */
void hn_upload_deinit(hn_upload *u) {
    if (u->has_thread && !hn_dev_is_here(u->m->device)) return;
    atomic_store_explicit(&u->is_stopped, true, memory_order_relaxed);
    if (u->has_thread) pthread_join(u->thread, NULL);
    pthread_cond_destroy(&u->changed);
    pthread_mutex_destroy(&u->lock);
}
