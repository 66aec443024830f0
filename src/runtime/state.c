/* state.c: copies of the buffers that a program changes: the module's own, and as many more as there are sequences. */
#include "runtime/module_impl.h"

#include "base/checked.h"
#include "base/near.h"
#include "base/require.h"
#include "runtime/copy.h"

#include <inttypes.h>
#include <stdlib.h>

/* ---- life ---- */

static hn_status no_memory(void) { return HN_ERROR(HN_OUT_OF_MEMORY, "no memory for a state"); }

static void state_free(hn_state *state) {
    for (uint32_t k = 0; state->storages && k < state->m->view.storages_count; k++) hn_dev_free(state->m->device, state->storages[k]);
    free(state->storages);
    pthread_mutex_destroy(&state->turn);
    free(state);
}

/* Memory for every buffer; the content is not set. */
static hn_status state_alloc(hn_module *m, hn_state **out) {
    const hn_bundle *b = &m->view;
    hn_state *state = calloc(1, sizeof *state);
    if (!state) return no_memory();
    state->m = m;
    pthread_mutex_init(&state->turn, NULL);
    state->storages = calloc(b->storages_count + 1u, sizeof *state->storages);
    bool ok = state->storages != NULL;
    for (uint32_t k = 1; ok && k < b->storages_count; k++) {
        if (!b->storages[k].is_mutable) continue;
        state->storages[k] = hn_dev_alloc(m->device, b->storages[k].bytes);
        ok = state->storages[k] != NULL;
    }
    if (!ok) {
        state_free(state);
        return no_memory();
    }
    pthread_mutex_lock(&m->lock);
    state->id = ++m->state_ids;
    pthread_mutex_unlock(&m->lock);
    *out = state;
    return NULL;
}

static void fill(hn_state *state, uint8_t *const *from) {
    const hn_bundle *b = &state->m->view;
    for (uint32_t k = 1; k < b->storages_count; k++)
        if (state->storages[k] && b->storages[k].bytes) memcpy(state->storages[k], from[k], b->storages[k].bytes);
}

hn_status hn_state_init_own(hn_module *m) {
    HN_TRY(state_alloc(m, &m->state));
    m->state->is_own = true;
    fill(m->state, m->weights->storages);
    for (uint32_t k = 1; k < m->view.storages_count; k++)
        if (m->state->storages[k]) m->stats.weights_copied_bytes += m->view.storages[k].bytes;
    return NULL;
}

void hn_state_deinit_own(hn_module *m) {
    if (m->state) state_free(m->state);
}

hn_status hn_state_create(hn_module *m, hn_state **out_state) {
    HN_REQUIRE(m, "module");
    HN_REQUIRE(out_state, "out_state");
    HN_TRY(state_alloc(m, out_state));
    hn_weights *weights = hn_weights_take(m);
    fill(*out_state, weights->storages);
    hn_weights_release(weights);
    (void)hn_module_retain(m);
    return NULL;
}

hn_status hn_state_copy(hn_state *from, hn_state **out_state) {
    HN_REQUIRE(from, "from");
    HN_REQUIRE(out_state, "out_state");
    HN_TRY(state_alloc(from->m, out_state));
    pthread_mutex_lock(&from->turn);
    fill(*out_state, from->storages);
    pthread_mutex_unlock(&from->turn);
    (void)hn_module_retain(from->m);
    return NULL;
}

hn_status hn_state_reset(hn_state *state) {
    HN_REQUIRE(state, "state");
    hn_weights *weights = hn_weights_take(state->m);
    pthread_mutex_lock(&state->turn);
    fill(state, weights->storages);
    pthread_mutex_unlock(&state->turn);
    hn_weights_release(weights);
    return NULL;
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
                                __builtin_mul_overflow(span, elem, &span) || __builtin_add_overflow(last, span, &last)))
            return false;
    }
    return empty || (p->offset_bytes >= 0 && !__builtin_add_overflow(last, elem, &last) &&
                     (uint64_t)last <= m->view.storages[o->target_storage].bytes);
}

static hn_status find_place(const hn_module *m, const char *name, place *out) {
    const hn_bundle *b = &m->view;
    uint32_t index;
    int64_t offset = 0;
    HN_TRY(hn_name_find("the program changes no buffer", "buffer", name, b->outputs_count, target_at, m, &index));
    const hnb_output *o = out->output = &b->outputs[index];
    for (uint32_t d = 0; d < o->rank; d++)
        if (!hn_bundle_expr_const(b, b->dims[o->dims + d], &out->sizes[d]) ||
            !hn_bundle_expr_const(b, b->dims[o->dims + 2 * o->rank + d], &out->strides[d]))
            return HN_ERROR(HN_UNSUPPORTED, "buffer '%s' has a size that depends on the inputs", name);
    if (o->target_offset && !hn_bundle_expr_const(b, o->target_offset, &offset))
        return HN_ERROR(HN_UNSUPPORTED, "buffer '%s' begins at a place that depends on the inputs", name);
    if (__builtin_mul_overflow(offset, (int64_t)hn_bundle_dtype_bytes(o->dtype), &out->offset_bytes) || !lies_inside(m, out))
        return HN_ERROR(HN_CORRUPT, "buffer '%s' reaches beyond its storage", name);
    return NULL;
}

hn_status hn_state_read(hn_state *state, const char *name, hn_tensor **out_tensor) {
    place p;
    HN_REQUIRE(state, "state");
    HN_REQUIRE(name, "name");
    HN_REQUIRE(out_tensor, "out_tensor");
    HN_TRY(find_place(state->m, name, &p));
    const hnb_output *o = p.output;
    HN_TRY(hn_tensor_create(&(hn_tensor_desc){.type = (hn_scalar_type)o->dtype, .rank = o->rank, .sizes = p.sizes}, out_tensor));
    pthread_mutex_lock(&state->turn);
    hn_copy_strided(hn_tensor_data(*out_tensor), hn_tensor_strides(*out_tensor), hn_address(state->storages[o->target_storage], p.offset_bytes),
                    p.strides, p.sizes, o->rank, hn_bundle_dtype_bytes(o->dtype));
    pthread_mutex_unlock(&state->turn);
    return NULL;
}

hn_status hn_state_write(hn_state *state, const char *name, const hn_tensor *tensor) {
    place p;
    HN_REQUIRE(state, "state");
    HN_REQUIRE(name, "name");
    HN_REQUIRE(tensor, "tensor");
    HN_TRY(find_place(state->m, name, &p));
    const hnb_output *o = p.output;
    HN_TRY(hn_tensor_check("buffer", name, tensor, (hn_scalar_type)o->dtype, o->rank, p.sizes));
    pthread_mutex_lock(&state->turn);
    hn_copy_strided(hn_address(state->storages[o->target_storage], p.offset_bytes), p.strides, hn_tensor_data(tensor), hn_tensor_strides(tensor),
                    p.sizes, o->rank, hn_bundle_dtype_bytes(o->dtype));
    pthread_mutex_unlock(&state->turn);
    return NULL;
}

hn_status hn_module_buffer_read(hn_module *m, const char *name, hn_tensor **out_tensor) {
    HN_REQUIRE(m, "module");
    return hn_state_read(m->state, name, out_tensor);
}

hn_status hn_module_buffer_write(hn_module *m, const char *name, const hn_tensor *tensor) {
    HN_REQUIRE(m, "module");
    return hn_state_write(m->state, name, tensor);
}
