/* context.c: execution contexts: memory for one run at a time, and the bounds that it has seen. */
#include "runtime/module_impl.h"

#include "base/checked.h"
#include "base/compiler.h"
#include "base/trace.h"

#include <stdlib.h>

static hn_status no_memory(void) {
    return HN_ERROR(HN_OUT_OF_MEMORY, "no memory for an execution context");
}

static hn_status create_queues(const hn_module *m, hn_context *c) {
    const hn_queue_options options = {.step_count = m->view.steps_count,
                                      .team = &c->team,
                                      .threads = m->threads,
                                      .profile = m->has_profile};
    for (uint32_t k = 0; k < m->place_count; k++) {
        hn_dev *dev = hn_place_dev(m, k);
        HN_TRY(dev->ops->queue_create(dev, &options, &c->places[k].queue));
    }
    return NULL;
}

static hn_status context_create(const hn_module *m, hn_context **out) {
    hn_context *c = calloc(1, sizeof *c);
    if (!c) return no_memory();
    c->key = calloc(m->key_count + 1u, sizeof *c->key);
    c->io = calloc(m->io_count + 1u, sizeof *c->io);
    c->laid_out = calloc(m->view.inputs_count + 1u, sizeof *c->laid_out);
    c->remote = calloc((size_t)m->output_buffer_count + m->upload_count + 1, sizeof *c->remote);
    c->homes = calloc(m->output_buffer_count + 1u, sizeof *c->homes);
    c->given = calloc(m->output_buffer_count + 1u, sizeof *c->given);
    c->blocks = calloc(m->output_buffer_count + 1u, sizeof *c->blocks);
    c->owners = calloc(m->output_buffer_count + 1u, sizeof *c->owners);
    c->is_donated = calloc(m->view.inputs_count + 1u, sizeof *c->is_donated);
    c->device_output_blocks = calloc((size_t)m->output_buffer_count + m->view.outputs_count + 1,
                                     sizeof *c->device_output_blocks);
    c->made = calloc(m->output_count + 1u, sizeof *c->made);
    c->staged = calloc(m->view.outputs_count + 1u, sizeof *c->staged);
    c->slots = calloc(m->stages.slot_count + 1u, sizeof *c->slots);
    *out = c;
    c->team = (hn_team){.executor = m->executor.run ? &m->executor : NULL};
    const bool ok = c->key && c->io && c->laid_out && c->remote && c->homes && c->given &&
                    c->blocks && c->owners && c->is_donated && c->device_output_blocks && c->made &&
                    c->staged && c->slots;
    hn_status status = ok ? create_queues(m, c) : no_memory();
    if (status) hn_context_destroy(m, c);
    return status;
}

/* Bounds hold addresses of weights, and entries of the set's packed copies. */
static void forget_weights(hn_context *c) {
    for (uint32_t k = 0; k < HN_CONTEXT_BOUNDS; k++) {
        hn_bound_destroy(c->bounds[k]);
        c->bounds[k] = NULL;
    }
    hn_weights_release(c->weights);
    c->weights = NULL;
}

static void destroy_place(hn_dev *dev, hn_context_place *place) {
    hn_queue_destroy(place->queue);
    hn_dev_free(dev, place->workspace.memory);
    hn_dev_free(dev, place->scratch.memory);
}

void hn_context_destroy(const hn_module *m, hn_context *c) {
    hn_debug_pending_destroy(c);
    forget_weights(c);
    for (uint32_t k = 0; k < m->place_count; k++) destroy_place(hn_place_dev(m, k), &c->places[k]);
    for (uint32_t k = 0; c->laid_out && k < m->view.inputs_count; k++)
        hn_dev_free(m->host, c->laid_out[k].memory);
    for (uint32_t k = 0; c->remote && k < m->output_buffer_count + m->upload_count; k++)
        hn_dev_free(m->device, c->remote[k].memory);
    for (uint32_t k = 0; c->slots && k < m->stages.slot_count; k++)
        hn_dev_free(hn_place_dev(m, m->slot_places[k]), c->slots[k].memory);
    free(c->slots);
    free(c->outgrown);
    free(c->key);
    free(c->io);
    free(c->laid_out);
    free(c->remote);
    free(c->homes);
    free(c->given);
    free(c->blocks);
    free(c->owners);
    free(c->is_donated);
    free(c->device_output_blocks);
    free(c->made);
    free(c->staged);
    free(c);
}

hn_status hn_context_take(hn_module *m, hn_context **out) {
    pthread_mutex_lock(&m->lock);
    *out = m->idle;
    if (*out) m->idle = (*out)->next;
    else m->stats.contexts++;
    hn_weights *weights = m->weights;
    const bool is_new = !*out || (*out)->weights != weights;
    if (is_new) atomic_fetch_add_explicit(&weights->refs, 1, memory_order_relaxed);
    pthread_mutex_unlock(&m->lock);
    if (*out && !is_new) return NULL;
    hn_status status = *out ? NULL : context_create(m, out);
    if (!status) {
        forget_weights(*out);
        (*out)->weights = weights;
        return NULL;
    }
    hn_weights_release(weights);
    pthread_mutex_lock(&m->lock);
    m->stats.contexts--;
    pthread_mutex_unlock(&m->lock);
    return status;
}

void hn_context_give(hn_module *m, hn_context *c) {
    hn_team_end(&c->team);
    while (c->outgrown_count) {
        const hn_device_memory *old = &c->outgrown[--c->outgrown_count];
        hn_dev_free(old->dev, old->memory);
    }
    pthread_mutex_lock(&m->lock);
    /* exchanged meanwhile: the old ones are held no longer than needed */
    if (HN_UNLIKELY(c->weights != m->weights)) {
        pthread_mutex_unlock(&m->lock);
        forget_weights(c);
        pthread_mutex_lock(&m->lock);
    }
    c->next = m->idle;
    m->idle = c;
    m->stats.runs++;
    m->stats.bytes_to_device += c->bytes_in;
    m->stats.bytes_from_device += c->bytes_out;
    m->stats.graphs_made += c->graphs_made;
    m->stats.graph_runs += c->graph_runs;
    /* in the list it is another thread's */
    c->bytes_in = c->bytes_out = c->graphs_made = c->graph_runs = 0;
    pthread_mutex_unlock(&m->lock);
}

void hn_contexts_forget(hn_module *m) {
    pthread_mutex_lock(&m->lock);
    hn_context *idle = m->idle, *last = NULL;
    m->idle = NULL;
    pthread_mutex_unlock(&m->lock);
    for (hn_context *c = idle; c; c = c->next) {
        forget_weights(c);
        last = c;
    }
    if (!last) return;
    pthread_mutex_lock(&m->lock);
    last->next = m->idle;
    m->idle = idle;
    pthread_mutex_unlock(&m->lock);
}

/* Moves the bound with this key, for as many threads and this form, to the front. */
static bool find_bound(const hn_module *m, hn_context *c) {
    for (uint32_t k = 0; k < HN_CONTEXT_BOUNDS && c->bounds[k]; k++) {
        hn_bound *bound = c->bounds[k];
        if (bound->threads != c->threads || bound->form != c->form ||
            (m->key_count && memcmp(bound->key, c->key, m->key_count * sizeof *c->key) != 0))
            continue;
        for (; k > 0; k--) c->bounds[k] = c->bounds[k - 1];
        c->bounds[0] = bound;
        return true;
    }
    return false;
}

static void add_bound(hn_context *c, hn_bound *bound) {
    hn_bound_destroy(c->bounds[HN_CONTEXT_BOUNDS - 1]);
    for (uint32_t k = HN_CONTEXT_BOUNDS - 1; k > 0; k--) c->bounds[k] = c->bounds[k - 1];
    c->bounds[0] = bound;
}

/* What there is goes first: it and the new memory together may be more than the device has. */
hn_status hn_kept_grow(const hn_module *m, const hn_context *c, hn_dev *dev, hn_kept *kept,
                       size_t bytes) {
    if (bytes <= kept->cap) return NULL;
    hn_dev_free(dev, kept->memory);
    *kept = (hn_kept){.cap = 0};
    uint8_t *fresh = hn_dev_alloc(dev, bytes);
    if (!fresh && !dev->facts.is_host)
        return hn_device_memory_error(m, c->bounds[0], "intermediates", bytes);
    if (!fresh)
        return HN_ERROR(HN_OUT_OF_MEMORY, "no memory for intermediates of %zu bytes", bytes);
    *kept = (hn_kept){fresh, bytes};
    return HN_UNLIKELY(m->fill != HN_FILL_OFF) ? hn_fill_made(m, c, dev, kept) : NULL;
}

/* What is outgrown is freed when the call ends. A loop may want a little more in each round: from
 * some times on there is half as much again, so that all of it stays in proportion to the last. */
enum { OUTGROWN_EXACTLY = 16 };
static size_t with_reserve(const hn_context *c, size_t bytes) {
    const bool is_often = c->outgrown_count >= OUTGROWN_EXACTLY && bytes < SIZE_MAX / 2;
    return is_often ? bytes + bytes / 2 : bytes;
}

/* In the middle of a call: a device may be at work with the memory of before. */
static hn_status grow_in_call(const hn_module *m, hn_context *c, hn_dev *dev, hn_kept *kept,
                              size_t bytes) {
    if (bytes <= kept->cap) return NULL;
    if (c->outgrown_count == c->outgrown_cap) {
        const uint32_t cap = 2 * c->outgrown_cap + 4;
        hn_device_memory *more = realloc(c->outgrown, cap * sizeof *more);
        if (!more) return no_memory();
        c->outgrown = more;
        c->outgrown_cap = cap;
    }
    if (kept->memory) c->outgrown[c->outgrown_count++] = (hn_device_memory){dev, kept->memory};
    *kept = (hn_kept){.cap = 0};
    return hn_kept_grow(m, c, dev, kept, with_reserve(c, bytes));
}

/* A program that this compiler made does not read a slot again that another buffer has taken over.
 * Of another program the steps that do so find memory. */
hn_status hn_context_grow_slot(const hn_module *m, hn_context *c, uint32_t slot, size_t bytes) {
    return grow_in_call(m, c, hn_place_dev(m, m->slot_places[slot]), &c->slots[slot], bytes);
}

hn_status hn_context_grow_scratch(const hn_module *m, hn_context *c) {
    for (uint32_t k = 0; k < m->place_count; k++)
        HN_TRY(grow_in_call(m, c, hn_place_dev(m, k), &c->places[k].scratch,
                            c->bounds[0]->scratch_bytes[k]));
    return NULL;
}

/* Memory for temporaries, and the steps' addresses in it. */
static hn_status place_temporaries(const hn_module *m, hn_context *c) {
    hn_bound *bound = c->bounds[0];
    for (uint32_t k = 0; k < m->place_count; k++) {
        hn_kept *workspace = &c->places[k].workspace;
        if (bound->workspace_bytes[k] <= workspace->cap) continue;
        c->workspaces_id++; /* also of none: what there was is gone */
        HN_TRY(hn_kept_grow(m, c, hn_place_dev(m, k), workspace, bound->workspace_bytes[k]));
    }
    /* both 0: there may be nothing but empty temporaries */
    if (bound->workspaces_id == c->workspaces_id) return NULL;
    for (uint32_t k = 0; k < bound->temp_patches.count; k++) {
        const hn_run_patch *patch = &bound->temp_patches.items[k];
        hn_bound_patch(bound, patch,
                       hn_address(c->places[patch->io].workspace.memory, patch->offset_bytes));
    }
    bound->workspaces_id = c->workspaces_id;
    return NULL;
}

static void count_binding(hn_module *m, const hn_context *c) {
    uint64_t bytes = 0;
    for (uint32_t k = 0; k < m->place_count; k++)
        bytes += c->places[k].workspace.cap + c->places[k].scratch.cap;
    pthread_mutex_lock(&m->lock);
    m->stats.shapes_bound++;
    if (bytes > m->stats.peak_workspace_bytes) m->stats.peak_workspace_bytes = bytes;
    pthread_mutex_unlock(&m->lock);
}

/* Enough for the largest of the sizes that the context remembers, and as much again, if they want
 * it, for the others: two that take turns have their memory, each. */
static size_t bytes_to_keep(const hn_context *c) {
    size_t most = 0, others = 0;
    for (uint32_t k = 0; k < HN_CONTEXT_BOUNDS && c->bounds[k]; k++) {
        const size_t made = c->bounds[k]->made_bytes, less = made < most ? made : most;
        if (made > most) most = made;
        others = others + less < most ? others + less : most;
    }
    return most + others;
}

void hn_context_count_made(hn_module *m, hn_context *c) {
    if (HN_LIKELY(c->made_bytes <= c->bounds[0]->made_bytes)) return;
    c->bounds[0]->made_bytes = c->made_bytes;
    size_t bytes = bytes_to_keep(c);
    pthread_mutex_lock(&m->lock);
    for (const hn_context *idle = m->idle; idle; idle = idle->next) {
        const size_t more = bytes_to_keep(idle);
        if (more > bytes) bytes = more;
    }
    pthread_mutex_unlock(&m->lock);
    hn_block_pool_limit(m->blocks, bytes);
    hn_block_pool_limit(m->device_output_blocks, bytes);
}

static hn_status resolve(hn_module *m, hn_context *c, hn_bound **out) {
    const int64_t begin = hn_now_ns();
    hn_status status = hn_bound_create(m, c, out);
    pthread_mutex_lock(&m->lock);
    m->stats.resolve_ns += hn_now_ns() - begin;
    pthread_mutex_unlock(&m->lock);
    return status;
}

/* While they are under way, code is loaded. */
static hn_status wait_for_weights(hn_module *m, hn_context *c) {
    if (HN_LIKELY(hn_weights_are_there(c->weights))) return NULL;
    HN_TRY(hn_steps_load(m, c));
    return hn_weights_upload_wait(m, c->weights, &c->team, c->places[HN_PLACE_KERNELS].queue);
}

hn_status hn_context_bind(hn_module *m, hn_context *c, hn_tensor *const *inputs,
                          uint32_t input_count) {
    HN_TRY(hn_inputs_check(m, inputs, input_count, c->key));
    bool is_new = !find_bound(m, c);
    if (is_new) {
        hn_bound *bound;
        if (m->place_count > 1) HN_TRY(hn_weights_place(m, c->weights));
        HN_TRY(resolve(m, c, &bound));
        add_bound(c, bound);
    }
    hn_bound *bound = c->bounds[0];
    if (m->place_count > 1) HN_TRY(wait_for_weights(m, c));
    HN_TRY(place_temporaries(m, c));
    HN_TRY(hn_context_grow_scratch(m, c));
    if (is_new) count_binding(m, c);
    if (bound->state_id != c->state->id) {
        for (uint32_t k = 0; k < bound->state_patches.count; k++) {
            const hn_run_patch *patch = &bound->state_patches.items[k];
            hn_bound_patch(bound, patch,
                           hn_address(c->state->storages[patch->io], patch->offset_bytes));
        }
        bound->state_id = c->state->id;
    }
    return NULL;
}
