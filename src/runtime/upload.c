/* upload.c: weights on the device that runs the kernels.
 *
 * When a module is opened, threads copy its weights to the device, each by a queue of its own, while
 * code and libraries are loaded and the caller prepares inputs. They take parts of equal size one
 * after the other: one thread reads as fast as a processor copies, and the link to the device is
 * several times faster. A run whose weights are under way waits until all copies are given to the
 * device, and its queue for an event behind those of each thread. Weights that were exchanged are
 * copied by the run that needs them first; so are those of a module with an executor, whose caller
 * brings the threads, and what the threads have failed to copy: then the run tells what is wrong.
 *
 * Memory for all of them is taken first, so that bounds have their addresses. Storages that are made
 * of others (made.c) are made on the way. */
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

/* From the first one on. Threads may have failed before there was memory. With the lock held. */
static void begin_copies(hn_upload *u) {
    u->storage = 1;
    u->offset = u->bytes = 0;
    u->given = 0;
    u->begin_ns = hn_now_ns();
}

/* With the lock held. */
static hn_status place(const hn_module *m, hn_weights *w) {
    hn_status status = NULL;
    if (w->upload.is_placed) return NULL;
    for (uint32_t k = 1; k < w->count && !status; k++) status = place_one(m, w, k);
    if (status) drop_empty(w);
    w->upload.is_placed = !status;
    if (!status) begin_copies(&w->upload);
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

/* Each copy takes an H200 some 6 us besides the bytes: parts of 512 KiB come to 26 GB/s, of 2 MiB to
 * 44. Fewer bytes are to go by several threads all the same. */
enum { PART_MOST = 2 << 20, PART_LEAST = 512 << 10, MANY = 16 << 20, EARLY_FROM = 1 << 20 };

static size_t part_of(uint64_t bytes) {
    return bytes >= MANY ? PART_MOST : bytes > PART_LEAST ? PART_LEAST : (size_t)bytes;
}

/* As many as the module may use, and the weights have parts. */
static uint32_t thread_count_for(const hn_module *m, uint64_t bytes) {
    const uint64_t part = part_of(bytes), parts = part ? (bytes + part - 1) / part : 0;
    const uint32_t most = m->threads < HN_UPLOAD_THREADS ? (uint32_t)m->threads : HN_UPLOAD_THREADS;
    return parts < most ? (uint32_t)parts : most;
}

size_t hn_upload_memory_bytes(const hn_module *m, uint64_t bytes) {
    return bytes < EARLY_FROM ? 0 : thread_count_for(m, bytes) * 2 * part_of(bytes);
}

typedef struct part {
    uint32_t storage;
    uint64_t offset;
    size_t bytes;
} part;

/* The next copy; false: there is none, or no need of it. With the lock held. */
static bool next_part(const hn_module *m, hn_weights *w, part *out) {
    hn_upload *u = &w->upload;
    for (; u->storage < w->count; u->storage++, u->offset = 0) {
        const uint64_t bytes = m->view.storages[u->storage].bytes;
        if (!is_for_device(m, u->storage) || w->is_filled[u->storage] || u->offset >= bytes)
            continue;
        const uint64_t left = bytes - u->offset;
        *out = (part){u->storage, u->offset, left < u->part_bytes ? (size_t)left : u->part_bytes};
        u->offset += out->bytes;
        u->bytes += out->bytes;
        return !u->has_failed;
    }
    return false;
}

static bool take_part(const hn_module *m, hn_weights *w, part *out) {
    hn_lock(&w->upload.lock);
    const bool is_one = next_part(m, w, out);
    hn_unlock(&w->upload.lock);
    return is_one;
}

/* A device without memory of its own for it reads the bytes later than it is told to. */
static hn_status make_apart(const hn_module *m, hn_queue *queue, void *to,
                            const hn_device_maker *maker, size_t bytes) {
    hn_device_fault fault;
    void *made = malloc(bytes);
    if (!made) return HN_ERROR(HN_OUT_OF_MEMORY, "no memory to make weights");
    maker->make(maker->user, 0, bytes, made);
    hn_status status = m->device->ops->copy_in(queue, to, made, bytes);
    hn_status late = m->device->ops->finish(queue, &fault);
    free(made);
    if (!status) return late;
    hn_status_free(late);
    return status;
}

static hn_status copy_part(const hn_module *m, const hn_weights *w, hn_queue *queue,
                           const part *p) {
    uint8_t *to = (uint8_t *)hn_block_data(w->copies[p->storage]) + p->offset;
    const hn_made_part made = {m, w, p->storage, p->offset};
    const hn_device_maker maker = {hn_made_part_write, &made};
    if (m->view.storages[p->storage].where != HNB_STORAGE_MADE)
        return m->device->ops->copy_in(queue, to, w->storages[p->storage] + p->offset, p->bytes);
    return m->device->ops->make_in ? m->device->ops->make_in(queue, to, &maker, p->bytes)
                                   : make_apart(m, queue, to, &maker, p->bytes);
}

static hn_status copy_parts(const hn_module *m, hn_weights *w, hn_queue *queue) {
    part p;
    while (take_part(m, w, &p)) {
        if (atomic_load_explicit(&w->upload.is_stopped, memory_order_relaxed))
            return HN_ERROR(HN_CANCELLED, "the module was released");
        hn_status status = copy_part(m, w, queue, &p);
        if (status)
            return hn_status_annotate(status, "weights of %llu bytes",
                                      (unsigned long long)m->view.storages[p.storage].bytes);
    }
    return NULL;
}

static hn_status finish(const hn_module *m, hn_queue *queue) {
    hn_device_fault fault;
    return m->device->ops->finish(queue, &fault);
}

static void count_copies(hn_module *m, const hn_upload *u) {
    const int64_t end_ns = hn_now_ns();
    hn_trace_span("run", "weights to the device", u->begin_ns, end_ns);
    pthread_mutex_lock(&m->lock);
    m->stats.weights_uploaded_bytes += u->bytes;
    m->stats.weights_upload_ns += end_ns - u->begin_ns;
    pthread_mutex_unlock(&m->lock);
    hn_log("run", HN_LOG_DEBUG,
           "weights to the device: %.1f MB in %.2f ms; memory of the device took %.2f ms before "
           "that, queues with pinned memory %.2f ms",
           (double)u->bytes / 1e6, (double)(end_ns - u->begin_ns) / 1e6, (double)u->place_ns / 1e6,
           (double)u->prepare_ns / 1e6);
}

/* Nobody copies any more. With the lock held. */
static void end_upload(hn_module *m, hn_weights *w) {
    hn_upload *u = &w->upload;
    const bool is_good = !u->has_failed;
    u->is_busy = u->is_given = false;
    for (uint32_t k = 0; k < u->thread_count; k++) {
        m->device->ops->event_free(u->threads[k].behind);
        u->threads[k].behind = NULL;
    }
    for (uint32_t k = 0; k < w->count && is_good; k++) w->is_filled[k] = true;
    if (is_good) count_copies(m, u);
    atomic_store_explicit(&u->is_done, is_good, memory_order_release);
    pthread_cond_broadcast(&u->changed);
}

/* ---- threads ---- */

static void note_failure(hn_upload *u, hn_status status) {
    if (!status) return;
    hn_lock(&u->lock);
    const bool is_first = !u->has_failed;
    u->has_failed = true;
    hn_unlock(&u->lock);
    if (is_first && hn_status_code(status) != HN_CANCELLED)
        hn_log("run", HN_LOG_WARN, "weights were not copied when the module was opened: %s",
               hn_status_message(status));
    hn_status_free(status);
}

/* Until there is memory for the weights; false: there is none. */
static bool wait_for_memory(hn_upload *u, int64_t prepare_ns) {
    hn_lock(&u->lock);
    if (prepare_ns > u->prepare_ns) u->prepare_ns = prepare_ns;
    while (!u->is_placed && !atomic_load_explicit(&u->is_stopped, memory_order_relaxed))
        pthread_cond_wait(&u->changed, &u->lock);
    const bool is_placed = u->is_placed;
    hn_unlock(&u->lock);
    return is_placed;
}

/* Runs wait for the events of all threads, and go on. */
static void announce(hn_upload *u, hn_upload_thread *t, hn_event *behind) {
    hn_lock(&u->lock);
    t->behind = behind;
    u->given++;
    u->is_given = u->given == u->thread_count && !u->has_failed;
    if (u->is_given) pthread_cond_broadcast(&u->changed);
    hn_unlock(&u->lock);
}

static hn_status copy_by(hn_upload_thread *t, hn_queue *queue) {
    const hn_module *m = t->weights->upload.m;
    hn_event *behind = NULL;
    hn_status status = copy_parts(m, t->weights, queue);
    if (!status) status = m->device->ops->record(queue, &behind);
    if (!status) announce(&t->weights->upload, t, behind);
    hn_status late = finish(m, queue);
    if (!status) return late;
    hn_status_free(late);
    return status;
}

/* Two pieces for each thread; NULL: it has to make its own. */
static uint8_t *memory_of(const hn_upload *u, size_t thread) {
    const size_t bytes = 2 * u->part_bytes;
    return (thread + 1) * bytes <= u->memory.bytes ? u->memory.at + thread * bytes : NULL;
}

/* Memory is pinned while that of the device is taken: both take about as long as the copies. */
static hn_status upload_by(hn_upload_thread *t) {
    hn_upload *u = &t->weights->upload;
    hn_queue *queue;
    const hn_queue_options options = {.files = t->weights->shared,
                                      .copy_bytes = u->part_bytes,
                                      .copy_memory = memory_of(u, (size_t)(t - u->threads))};
    const int64_t begin = hn_now_ns();
    HN_TRY(u->m->device->ops->queue_create(u->m->device, &options, &queue));
    hn_status status = wait_for_memory(u, hn_now_ns() - begin)
                           ? copy_by(t, queue)
                           : HN_ERROR(HN_CANCELLED, "there is no memory for weights");
    hn_queue_destroy(queue);
    return status;
}

static void *upload_thread(void *context) {
    hn_upload_thread *t = context;
    hn_upload *u = &t->weights->upload;
    note_failure(u, upload_by(t));
    hn_lock(&u->lock);
    if (--u->working == 0) {
        hn_copy_memory_free(&u->memory);
        end_upload(u->m, t->weights);
    }
    hn_unlock(&u->lock);
    return NULL;
}

static uint64_t bytes_of(const hn_module *m, const hn_weights *w) {
    uint64_t sum = 0;
    for (uint32_t k = 1; k < w->count; k++)
        if (is_for_device(m, k)) sum += m->view.storages[k].bytes;
    return sum;
}

/* With the lock held. */
static void start_threads(hn_module *m, hn_weights *w, uint64_t bytes) {
    hn_upload *u = &w->upload;
    const uint32_t wanted = thread_count_for(m, bytes);
    u->m = m;
    u->part_bytes = part_of(bytes);
    for (uint32_t k = 0; k < wanted; k++) {
        hn_upload_thread *t = &u->threads[u->thread_count];
        t->weights = w;
        if (hn_thread_start(&t->thread, NULL, upload_thread, t) == 0) u->thread_count++;
    }
    u->working = u->thread_count;
    u->is_busy = u->working > 0;
}

/* Tells the threads that there is memory, or that there will be none. */
static void let_go(hn_upload *u, bool is_placed, int64_t place_ns) {
    hn_lock(&u->lock);
    u->place_ns = place_ns;
    hn_trace_span("run", "memory for weights", hn_now_ns() - place_ns, hn_now_ns());
    if (!is_placed) atomic_store_explicit(&u->is_stopped, true, memory_order_relaxed);
    pthread_cond_broadcast(&u->changed);
    hn_unlock(&u->lock);
}

static void begin_threads(hn_module *m, hn_weights *w, uint64_t bytes, hn_copy_memory memory) {
    hn_upload *u = &w->upload;
    hn_lock(&u->lock);
    u->memory = memory;
    if (bytes && !m->executor.run) start_threads(m, w, bytes);
    if (!u->working) hn_copy_memory_free(&u->memory);
    hn_unlock(&u->lock);
}

hn_status hn_weights_upload_begin(hn_module *m, hn_weights *w, hn_copy_memory memory) {
    hn_upload *u = &w->upload;
    const uint64_t bytes = m->place_count > 1 ? bytes_of(m, w) : 0;
    if (!bytes) atomic_store_explicit(&u->is_done, true, memory_order_release);
    begin_threads(m, w, bytes, memory);
    if (m->place_count == 1) return NULL;
    const int64_t begin = hn_now_ns();
    hn_status status = hn_weights_place(m, w);
    let_go(u, !status, hn_now_ns() - begin);
    return status;
}

/* ---- waiting ---- */

static hn_status upload_alone(const hn_module *m, hn_weights *w, hn_team *team) {
    hn_queue *queue;
    const hn_queue_options options = {.team = team, .threads = m->threads, .files = w->shared};
    HN_TRY(m->device->ops->queue_create(m->device, &options, &queue));
    hn_status status = copy_parts(m, w, queue);
    hn_status late = finish(m, queue);
    if (status) hn_status_free(late);
    else status = late;
    hn_queue_destroy(queue);
    return status;
}

/* With the lock held, which it gives up meanwhile: by the calling thread. */
static hn_status upload_here(hn_module *m, hn_weights *w, hn_team *team) {
    hn_upload *u = &w->upload;
    u->is_busy = true;
    u->part_bytes = PART_MOST;
    u->has_failed = false;
    begin_copies(u);
    hn_unlock(&u->lock);
    hn_status status = upload_alone(m, w, team);
    hn_lock(&u->lock);
    u->has_failed = status != NULL;
    end_upload(m, w);
    return status;
}

static hn_status wait_behind(const hn_module *m, const hn_upload *u, hn_queue *queue) {
    for (uint32_t k = 0; k < u->thread_count; k++)
        HN_TRY(m->device->ops->wait(queue, u->threads[k].behind));
    return NULL;
}

/* With the lock held. */
static hn_status wait_for_it(hn_module *m, hn_weights *w, hn_team *team, hn_queue *queue) {
    hn_upload *u = &w->upload;
    while (u->is_busy && !u->is_given) pthread_cond_wait(&u->changed, &u->lock);
    if (u->is_busy) return wait_behind(m, u, queue);
    return hn_weights_are_there(w) ? NULL : upload_here(m, w, team);
}

hn_status hn_weights_upload_wait(hn_module *m, hn_weights *w, hn_team *team, hn_queue *queue) {
    if (hn_weights_are_there(w)) return NULL;
    hn_lock(&w->upload.lock);
    hn_status status = wait_for_it(m, w, team, queue);
    hn_unlock(&w->upload.lock);
    return status;
}

/* Behind a run nothing is to be waited for but the threads' end, which know the time. */
void hn_weights_upload_settle(hn_weights *w) {
    hn_upload *u = &w->upload;
    hn_lock(&u->lock);
    while (u->is_busy && u->is_given) pthread_cond_wait(&u->changed, &u->lock);
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

/* A forked child has neither the threads nor a lock that can be relied on. */
void hn_upload_deinit(hn_upload *u) {
    if (u->thread_count && !hn_dev_is_here(u->m->device)) return;
    atomic_store_explicit(&u->is_stopped, true, memory_order_relaxed);
    for (uint32_t k = 0; k < u->thread_count; k++) pthread_join(u->threads[k].thread, NULL);
    pthread_cond_destroy(&u->changed);
    pthread_mutex_destroy(&u->lock);
}
