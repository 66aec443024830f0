/* state.c: copies of the buffers that a program changes: the module's own, and as many more as
 * there are sequences. */
#include "runtime/module_impl.h"

#include "base/checked.h"
#include "base/compiler.h"
#include "base/near.h"
#include "base/require.h"
#include "runtime/copy.h"

#include <inttypes.h>
#include <stdlib.h>

/* ---- turns ---- */

hn_status hn_state_take_turn(hn_state *state) {
    HN_TRY(hn_dev_check(state->m->device));
    if (HN_LIKELY(pthread_mutex_lock(&state->turn) == 0)) return NULL;
    return HN_ERROR(HN_INVALID_ARGUMENT,
                    "this thread has begun a run with the state; end it first (hn_run_end)");
}

/* A thread that waits for itself is told so. */
static void init_turn(pthread_mutex_t *turn) {
    pthread_mutexattr_t kind;
    pthread_mutexattr_init(&kind);
    pthread_mutexattr_settype(&kind, PTHREAD_MUTEX_ERRORCHECK);
    pthread_mutex_init(turn, &kind);
    pthread_mutexattr_destroy(&kind);
}

/* ---- life ---- */

static hn_status no_memory(void) { return HN_ERROR(HN_OUT_OF_MEMORY, "no memory for a state"); }

static bool is_remote(const hn_module *m, uint32_t storage) {
    return m->storage_is_remote[storage];
}
static hn_dev *dev_of(const hn_module *m, uint32_t storage) {
    return is_remote(m, storage) ? m->device : m->host;
}

static void state_free(hn_state *state) {
    for (uint32_t k = 0; state->storages && k < state->m->view.storages_count; k++)
        hn_dev_free(dev_of(state->m, k), state->storages[k]);
    hn_queue_destroy(state->queue);
    atomic_fetch_sub_explicit(&state->m->state_count, 1, memory_order_relaxed);
    free(state->storages);
    pthread_mutex_destroy(&state->turn);
    free(state);
}

static hn_status alloc_storages(hn_state *state) {
    const hn_bundle *b = &state->m->view;
    bool has_remote = false;
    HN_TRY(hn_dev_check(state->m->device));
    state->storages = calloc(b->storages_count + 1u, sizeof *state->storages);
    if (!state->storages) return no_memory();
    for (uint32_t k = 1; k < b->storages_count; k++) {
        if (!b->storages[k].is_mutable) continue;
        state->storages[k] = hn_dev_alloc(dev_of(state->m, k), b->storages[k].bytes);
        if (!state->storages[k])
            return is_remote(state->m, k)
                       ? hn_device_memory_error(state->m, NULL, "a state", b->storages[k].bytes)
                       : no_memory();
        has_remote |= is_remote(state->m, k);
    }
    if (!has_remote) return NULL;
    hn_dev *dev = state->m->device;
    return dev->ops->queue_create(dev, &(hn_queue_options){.step_count = 0}, &state->queue);
}

/* Memory for every buffer; the content is not set. */
static hn_status state_alloc(hn_module *m, hn_state **out) {
    hn_state *state = calloc(1, sizeof *state);
    if (!state) return no_memory();
    state->m = m;
    atomic_fetch_add_explicit(&m->state_count, 1, memory_order_relaxed);
    init_turn(&state->turn);
    hn_status status = alloc_storages(state);
    if (status) {
        state_free(state);
        return status;
    }
    pthread_mutex_lock(&m->lock);
    state->id = ++m->state_ids;
    pthread_mutex_unlock(&m->lock);
    *out = state;
    return NULL;
}

/* Waits for copies of a state; gives `status`, or else what went wrong with them. */
static hn_status finish(hn_state *state, hn_status status) {
    hn_device_fault fault;
    if (!state->queue) return status;
    hn_status end = state->m->device->ops->finish(state->queue, &fault);
    if (!status) return end;
    hn_status_free(end);
    return status;
}

/* From the storages of a set of weights, or of another state. */
static hn_status fill(hn_state *state, uint8_t *const *from, bool is_from_state) {
    const hn_bundle *b = &state->m->view;
    const hn_device_ops *ops = state->m->device->ops;
    hn_status status = NULL;
    for (uint32_t k = 1; k < b->storages_count && !status; k++) {
        const size_t bytes = b->storages[k].bytes;
        if (!state->storages[k] || !bytes) continue;
        if (!is_remote(state->m, k)) memcpy(state->storages[k], from[k], bytes);
        else if (is_from_state)
            status = ops->copy(state->queue, state->storages[k], from[k], bytes);
        else status = ops->copy_in(state->queue, state->storages[k], from[k], bytes);
    }
    return finish(state, status);
}

hn_status hn_state_init_own(hn_module *m) {
    HN_TRY(state_alloc(m, &m->state));
    m->state->is_own = true;
    HN_TRY(fill(m->state, m->weights->storages, false));
    for (uint32_t k = 1; k < m->view.storages_count; k++)
        if (m->state->storages[k]) m->stats.weights_copied_bytes += m->view.storages[k].bytes;
    return NULL;
}

void hn_state_deinit_own(hn_module *m) {
    if (m->state) state_free(m->state);
}

/* A new state for the caller, or what was wrong with it. */
static hn_status give(hn_state *state, hn_status status, hn_state **out) {
    if (status) {
        state_free(state);
        return status;
    }
    (void)hn_module_retain(state->m);
    *out = state;
    return NULL;
}

hn_status hn_state_create(hn_module *m, hn_state **out_state) {
    HN_REQUIRE(m, "module");
    HN_REQUIRE(out_state, "out_state");
    hn_state *state;
    HN_TRY(state_alloc(m, &state));
    hn_weights *weights = hn_weights_take(m);
    hn_status status = fill(state, weights->storages, false);
    hn_weights_release(weights);
    return give(state, status, out_state);
}

hn_status hn_state_copy(hn_state *from, hn_state **out_state) {
    HN_REQUIRE(from, "from");
    HN_REQUIRE(out_state, "out_state");
    hn_state *state;
    HN_TRY(state_alloc(from->m, &state));
    hn_status status = hn_state_take_turn(from);
    if (!status) {
        status = fill(state, from->storages, true);
        pthread_mutex_unlock(&from->turn);
    }
    return give(state, status, out_state);
}

hn_status hn_state_reset(hn_state *state) {
    HN_REQUIRE(state, "state");
    HN_TRY(hn_state_take_turn(state));
    hn_weights *weights = hn_weights_take(state->m);
    hn_status status = fill(state, weights->storages, false);
    hn_weights_release(weights);
    pthread_mutex_unlock(&state->turn);
    return status;
}

void hn_state_destroy(hn_state *state) {
    if (!state || state->is_own) return;
    hn_module *m = state->m;
    state_free(state);
    hn_module_release(m);
}

hn_state *hn_module_state(hn_module *m) { return m ? m->state : NULL; }

/* ---- buffers by name ---- */

static const char *target_at(const void *user, uint32_t k) {
    const hn_module *m = user;
    const hnb_output *o = &m->view.outputs[k];
    return o->is_mutation && o->target_input < 0 ? hn_bundle_text(&m->view, o->name) : "";
}

typedef struct place {
    const hnb_output *output;
    int64_t sizes[HNB_MAX_RANK], strides[HNB_MAX_RANK], offset_bytes;
} place;

/* Elements from `offset` on, in a storage that a run has not checked yet. */
static bool lies_inside(const hn_module *m, const place *p) {
    const hnb_output *o = p->output;
    int64_t last = p->offset_bytes, span, elem = hn_bundle_dtype_bytes(o->dtype);
    bool empty = false;
    for (uint32_t d = 0; d < o->rank; d++) {
        if (p->sizes[d] < 0 || p->strides[d] < 0) return false;
        empty |= p->sizes[d] == 0;
        if (p->sizes[d] > 1 && (__builtin_mul_overflow(p->sizes[d] - 1, p->strides[d], &span) ||
                                __builtin_mul_overflow(span, elem, &span) ||
                                __builtin_add_overflow(last, span, &last)))
            return false;
    }
    return empty || (p->offset_bytes >= 0 && !__builtin_add_overflow(last, elem, &last) &&
                     (uint64_t)last <= m->view.storages[o->target_storage].bytes);
}

static hn_status find_place(const hn_module *m, const char *name, place *out) {
    const hn_bundle *b = &m->view;
    uint32_t index;
    int64_t offset = 0;
    HN_TRY(hn_name_find("the program changes no buffer", "buffer", name, b->outputs_count,
                        target_at, m, &index));
    const hnb_output *o = out->output = &b->outputs[index];
    for (uint32_t d = 0; d < o->rank; d++)
        if (!hn_bundle_expr_const(b, b->dims[o->dims + d], &out->sizes[d]) ||
            !hn_bundle_expr_const(b, b->dims[o->dims + 2 * o->rank + d], &out->strides[d]))
            return HN_ERROR(HN_UNSUPPORTED, "buffer '%s' has a size that depends on the inputs",
                            name);
    if (o->target_offset && !hn_bundle_expr_const(b, o->target_offset, &offset))
        return HN_ERROR(HN_UNSUPPORTED, "buffer '%s' begins at a place that depends on the inputs",
                        name);
    if (__builtin_mul_overflow(offset, (int64_t)hn_bundle_dtype_bytes(o->dtype),
                               &out->offset_bytes) ||
        !lies_inside(m, out))
        return HN_ERROR(HN_CORRUPT, "buffer '%s' reaches beyond its storage", name);
    return NULL;
}

/* Between a tensor and memory of the host, laid out as the storage. */
static void copy_elements(const place *p, uint8_t *at, const hn_tensor *tensor, bool to_state) {
    const hnb_output *o = p->output;
    const uint32_t elem = hn_bundle_dtype_bytes(o->dtype);
    const int64_t *strides = hn_tensor_strides(tensor);
    if (to_state)
        hn_copy_strided(at, p->strides, hn_tensor_data(tensor), strides, p->sizes, o->rank, elem);
    else hn_copy_strided(hn_tensor_data(tensor), strides, at, p->strides, p->sizes, o->rank, elem);
}

/* By way of the host: between the elements there may be others, which stay. */
static hn_status move_remote(hn_state *state, const place *p, uint8_t *at, const hn_tensor *tensor,
                             bool to_state) {
    const hn_device_ops *ops = state->m->device->ops;
    int64_t bytes;
    HN_TRY(hn_extent_bytes(p->output->rank, p->sizes, p->strides,
                           hn_bundle_dtype_bytes(p->output->dtype), &bytes));
    if (!bytes) return NULL;
    uint8_t *here = malloc((size_t)bytes);
    if (!here) return HN_ERROR(HN_OUT_OF_MEMORY, "no memory to copy %" PRId64 " bytes", bytes);
    hn_status status = ops->read(state->queue, here, at, (size_t)bytes);
    if (!status) copy_elements(p, here, tensor, to_state);
    if (!status && to_state) status = ops->copy_in(state->queue, at, here, (size_t)bytes);
    status = finish(state, status);
    free(here);
    return status;
}

/* With the turn held. */
static hn_status move_elements(hn_state *state, const place *p, const hn_tensor *tensor,
                               bool to_state) {
    uint8_t *at = hn_address(state->storages[p->output->target_storage], p->offset_bytes);
    if (is_remote(state->m, p->output->target_storage))
        return move_remote(state, p, at, tensor, to_state);
    copy_elements(p, at, tensor, to_state);
    return NULL;
}

hn_status hn_state_read(hn_state *state, const char *name, hn_tensor **out_tensor) {
    place p;
    HN_REQUIRE(state, "state");
    HN_REQUIRE(name, "name");
    HN_REQUIRE(out_tensor, "out_tensor");
    HN_TRY(find_place(state->m, name, &p));
    const hnb_output *o = p.output;
    hn_tensor *tensor;
    HN_TRY(hn_tensor_create(
        &(hn_tensor_desc){.type = (hn_scalar_type)o->dtype, .rank = o->rank, .sizes = p.sizes},
        &tensor));
    hn_status status = hn_state_take_turn(state);
    if (!status) {
        status = move_elements(state, &p, tensor, false);
        pthread_mutex_unlock(&state->turn);
    }
    if (status) hn_tensor_release(tensor);
    else *out_tensor = tensor;
    return status;
}

hn_status hn_state_write(hn_state *state, const char *name, const hn_tensor *tensor) {
    place p;
    HN_REQUIRE(state, "state");
    HN_REQUIRE(name, "name");
    HN_REQUIRE(tensor, "tensor");
    HN_TRY(find_place(state->m, name, &p));
    const hnb_output *o = p.output;
    HN_TRY(hn_tensor_check("buffer", name, tensor, (hn_scalar_type)o->dtype, o->rank, p.sizes));
    HN_TRY(hn_state_take_turn(state));
    hn_status status = move_elements(state, &p, tensor, true);
    pthread_mutex_unlock(&state->turn);
    return status;
}

hn_status hn_module_buffer_read(hn_module *m, const char *name, hn_tensor **out_tensor) {
    HN_REQUIRE(m, "module");
    return hn_state_read(m->state, name, out_tensor);
}

hn_status hn_module_buffer_write(hn_module *m, const char *name, const hn_tensor *tensor) {
    HN_REQUIRE(m, "module");
    return hn_state_write(m->state, name, tensor);
}
