/* context.c: execution contexts: memory for one run at a time, and the bounds that it has seen. */
#include "runtime/module_impl.h"

#include "base/checked.h"
#include "base/compiler.h"

#include <stdlib.h>

static hn_status no_memory(void) { return HN_ERROR(HN_OUT_OF_MEMORY, "no memory for an execution context"); }

static hn_status create_queue(const hn_module *m, hn_context *c) {
    const hn_queue_options options = {.step_count = m->view.steps_count, .team = &c->team};
    return m->device->ops->queue_create(m->device, &options, &c->queue);
}

static hn_status context_create(const hn_module *m, hn_context **out) {
    hn_context *c = calloc(1, sizeof *c);
    if (!c) return no_memory();
    c->key = calloc(m->key_count + 1u, sizeof *c->key);
    c->io = calloc(m->io_count + 1u, sizeof *c->io);
    c->laid_out = calloc(m->view.inputs_count + 1u, sizeof *c->laid_out);
    c->laid_out_cap = calloc(m->view.inputs_count + 1u, sizeof *c->laid_out_cap);
    c->blocks = calloc(m->output_buffer_count + 1u, sizeof *c->blocks);
    c->made = calloc(m->output_count + 1u, sizeof *c->made);
    c->staged = calloc(m->view.outputs_count + 1u, sizeof *c->staged);
    c->slots = calloc(m->stages.slot_count + 1u, sizeof *c->slots);
    c->slot_caps = calloc(m->stages.slot_count + 1u, sizeof *c->slot_caps);
    *out = c;
    c->team = (hn_team){.executor = m->executor.run ? &m->executor : NULL};
    const bool ok = c->key && c->io && c->laid_out && c->laid_out_cap && c->blocks && c->made && c->staged &&
                    c->slots && c->slot_caps;
    hn_status status = ok ? create_queue(m, c) : no_memory();
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

void hn_context_destroy(const hn_module *m, hn_context *c) {
    forget_weights(c);
    m->device->ops->queue_destroy(c->queue);
    for (uint32_t k = 0; c->laid_out && k < m->view.inputs_count; k++) hn_dev_free(m->device, c->laid_out[k]);
    for (uint32_t k = 0; c->slots && k < m->stages.slot_count; k++) hn_dev_free(m->device, c->slots[k]);
    free(c->slots);
    free(c->slot_caps);
    free(c->outgrown);
    free(c->key);
    hn_dev_free(m->device, c->workspace);
    hn_dev_free(m->device, c->scratch);
    free(c->io);
    free(c->laid_out);
    free(c->laid_out_cap);
    free(c->blocks);
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
    while (c->outgrown_count) hn_dev_free(m->device, c->outgrown[--c->outgrown_count]);
    pthread_mutex_lock(&m->lock);
    if (HN_UNLIKELY(c->weights != m->weights)) { /* exchanged meanwhile: the old ones are held no longer than needed */
        pthread_mutex_unlock(&m->lock);
        forget_weights(c);
        pthread_mutex_lock(&m->lock);
    }
    c->next = m->idle;
    m->idle = c;
    m->stats.runs++;
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

/* Moves the bound with this key, for as many threads, to the front. */
static bool find_bound(const hn_module *m, hn_context *c) {
    for (uint32_t k = 0; k < HN_CONTEXT_BOUNDS && c->bounds[k]; k++) {
        hn_bound *bound = c->bounds[k];
        if (bound->threads != c->threads || (m->key_count && memcmp(bound->key, c->key, m->key_count * sizeof *c->key) != 0)) continue;
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

hn_status hn_context_grow(const hn_module *m, uint8_t **memory, size_t *cap, size_t bytes) {
    if (bytes <= *cap) return NULL;
    uint8_t *fresh = hn_dev_alloc(m->device, bytes);
    if (!fresh) return HN_ERROR(HN_OUT_OF_MEMORY, "no memory for intermediates of %zu bytes", bytes);
    hn_dev_free(m->device, *memory);
    *memory = fresh;
    *cap = bytes;
    return NULL;
}

/* A program that this compiler made does not read a slot again that another buffer has taken over. Of another
 * program the steps that do so find memory. */
hn_status hn_context_grow_slot(const hn_module *m, hn_context *c, uint32_t slot, size_t bytes) {
    if (bytes <= c->slot_caps[slot]) return NULL;
    if (c->outgrown_count == c->outgrown_cap) {
        const uint32_t cap = 2 * c->outgrown_cap + 4;
        uint8_t **more = realloc(c->outgrown, cap * sizeof *more);
        if (!more) return no_memory();
        c->outgrown = more;
        c->outgrown_cap = cap;
    }
    if (c->slots[slot]) c->outgrown[c->outgrown_count++] = c->slots[slot];
    c->slots[slot] = NULL;
    c->slot_caps[slot] = 0;
    return hn_context_grow(m, &c->slots[slot], &c->slot_caps[slot], bytes);
}

static void count_binding(hn_module *m, const hn_context *c) {
    uint64_t bytes = c->workspace_cap + c->scratch_cap;
    size_t blocks = 0, sum;
    for (uint32_t k = 0; k < m->output_buffer_count; k++)
        blocks = hn_add_size(blocks, (size_t)c->bounds[0]->block_bytes[k], &sum) ? sum : SIZE_MAX;
    pthread_mutex_lock(&m->lock);
    m->stats.shapes_bound++;
    if (bytes > m->stats.peak_workspace_bytes) m->stats.peak_workspace_bytes = bytes;
    pthread_mutex_unlock(&m->lock);
    hn_block_pool_limit(m->blocks, blocks);
}

hn_status hn_context_bind(hn_module *m, hn_context *c, hn_tensor *const *inputs, uint32_t input_count) {
    HN_TRY(hn_inputs_check(m, inputs, input_count, c->key));
    bool is_new = !find_bound(m, c);
    if (is_new) {
        hn_bound *bound;
        HN_TRY(hn_bound_create(m, c, &bound));
        add_bound(c, bound);
    }
    hn_bound *bound = c->bounds[0];
    HN_TRY(hn_context_grow(m, &c->workspace, &c->workspace_cap, bound->workspace_bytes));
    HN_TRY(hn_context_grow(m, &c->scratch, &c->scratch_cap, bound->scratch_bytes));
    if (is_new) count_binding(m, c);
    if (bound->state_id != c->state->id) {
        for (uint32_t k = 0; k < bound->state_patches.count; k++) {
            const hn_run_patch *patch = &bound->state_patches.items[k];
            *patch->slot = hn_address(c->state->storages[patch->io], patch->offset_bytes);
        }
        bound->state_id = c->state->id;
    }
    if (bound->workspace == c->workspace) return NULL; /* NULL at first: there may be nothing but empty temporaries */
    for (uint32_t k = 0; k < bound->temp_patches.count; k++)
        *bound->temp_patches.items[k].slot = hn_address(c->workspace, bound->temp_patches.items[k].offset_bytes);
    bound->workspace = c->workspace;
    return NULL;
}
