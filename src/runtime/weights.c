/* weights.c: the weights of a module: what there is, and exchanging them while runs go on.
 *
 * An exchange makes a new set: it shares with the old one the bytes that stay, has its own packed
 * copies, and takes the old one's place at once. A run goes on with the set that it began with; the
 * last context that lets go of a set frees it. */
#include "runtime/module_impl.h"

#include "base/checked.h"
#include "base/require.h"
#include "runtime/copy.h"

#include <inttypes.h>
#include <stdlib.h>

/* ---- sets ---- */

hn_status hn_weights_create(const hn_module *m, hn_weights **out) {
    static atomic_uint_fast64_t ids;
    hn_weights *w = calloc(1, sizeof *w);
    if (!w) return HN_ERROR(HN_OUT_OF_MEMORY, "no memory for a set of weights");
    atomic_init(&w->refs, 1);
    w->id = atomic_fetch_add_explicit(&ids, 1, memory_order_relaxed) + 1;
    w->count = m->view.storages_count;
    w->storages = calloc(w->count + 1u, sizeof *w->storages);
    w->owners = calloc(w->count + 1u, sizeof *w->owners);
    w->copies = calloc(w->count + 1u, sizeof *w->copies);
    w->is_filled = calloc(w->count + 1u, sizeof *w->is_filled);
    hn_upload_init(&w->upload);
    hn_status status = w->storages && w->owners && w->copies && w->is_filled
                           ? hn_ext_shared_create(&w->shared)
                           : HN_ERROR(HN_OUT_OF_MEMORY, "no memory for a set of weights");
    if (status) {
        hn_weights_release(w);
        return status;
    }
    hn_ext_shared_add_file(w->shared, &m->map);
    hn_ext_shared_add_file(w->shared, &m->weights_file);
    *out = w;
    return NULL;
}

hn_weights *hn_weights_take(hn_module *m) {
    pthread_mutex_lock(&m->lock);
    hn_weights *w = m->weights;
    atomic_fetch_add_explicit(&w->refs, 1, memory_order_relaxed);
    pthread_mutex_unlock(&m->lock);
    return w;
}

void hn_weights_release(hn_weights *w) {
    if (!w || atomic_fetch_sub_explicit(&w->refs, 1, memory_order_acq_rel) != 1) return;
    hn_upload_deinit(&w->upload); /* its copies read what goes now */
    hn_ext_shared_destroy(w->shared);
    for (uint32_t k = 0; w->owners && k < w->count; k++) hn_tensor_release(w->owners[k]);
    for (uint32_t k = 0; w->copies && k < w->count; k++) hn_block_release(w->copies[k]);
    free(w->owners);
    free(w->copies);
    free(w->is_filled);
    free(w->storages);
    free(w);
}

/* ---- the list ---- */

static const char *weight_at(const void *user, uint32_t k) {
    const hn_module *m = user;
    return hn_bundle_text(&m->view, m->view.tensors[k].name);
}

uint32_t hn_module_weight_count(const hn_module *m) { return m ? m->view.tensors_count : 0; }

/* Sizes, or strides, as numbers: they were checked when the bundle was opened. */
static void read_dims(const hn_module *m, const hnb_tensor *t, bool strides, int64_t *out) {
    for (uint32_t d = 0; d < t->rank; d++)
        (void)hn_bundle_expr_const(&m->view, m->view.dims[t->dims + (strides ? t->rank : 0) + d],
                                   &out[d]);
}

hn_status hn_module_weight_info_get(const hn_module *m, uint32_t index,
                                    hn_module_weight_info *out) {
    HN_REQUIRE(m, "module");
    HN_REQUIRE(out, "out");
    if (index >= m->view.tensors_count)
        return hn_out_of_range("weight", index, m->view.tensors_count);
    const hnb_tensor *t = &m->view.tensors[index];
    *out = (hn_module_weight_info){.name = weight_at(m, index),
                                   .kind = (hn_module_weight_kind)t->kind,
                                   .type = (hn_scalar_type)t->dtype,
                                   .rank = t->rank,
                                   .bytes = hn_bundle_dtype_bytes(t->dtype),
                                   .is_used = t->storage || t->is_folded,
                                   .is_folded = t->is_folded,
                                   .is_state = m->view.storages[t->storage].is_mutable};
    read_dims(m, t, false, out->sizes);
    for (uint32_t d = 0; d < t->rank; d++) out->bytes *= (uint64_t)out->sizes[d];
    return NULL;
}

hn_status hn_module_weight_find(const hn_module *m, const char *name, uint32_t *out_index) {
    HN_REQUIRE(m, "module");
    HN_REQUIRE(name, "name");
    HN_REQUIRE(out_index, "out_index");
    return hn_name_find("the model has no weight", "weight", name, m->view.tensors_count, weight_at,
                        m, out_index);
}

/* ---- exchange ---- */

/* A weight and what takes its place. */
typedef struct change {
    const hnb_tensor *to;
    const hn_tensor *from;
    int64_t sizes[HNB_MAX_RANK], strides[HNB_MAX_RANK];
} change;

typedef struct exchange {
    hn_module *m;
    hn_weights *fresh;
    change *changes;
    uint32_t count;
    uint32_t *touched; /* per storage: how many changes */
} exchange;

static hn_status find_change(exchange *x, const hn_named_tensor *given, change *out) {
    uint32_t index;
    if (!given->name || !given->tensor)
        return HN_ERROR(HN_INVALID_ARGUMENT, "the %s of a weight to replace is NULL",
                        given->name ? "tensor" : "name");
    HN_TRY(hn_module_weight_find(x->m, given->name, &index));
    *out = (change){.to = &x->m->view.tensors[index], .from = given->tensor};
    for (const change *c = x->changes; c < out; c++)
        if (c->to == out->to)
            return HN_ERROR(HN_INVALID_ARGUMENT, "weight '%s' is given twice", given->name);
    if (out->to->is_folded)
        return HN_ERROR(
            HN_UNSUPPORTED,
            "weight '%s' cannot be replaced: the compiler computed with its values, and the program has the result; "
            "compile the model again with the new weights",
            given->name);
    read_dims(x->m, out->to, false, out->sizes);
    read_dims(x->m, out->to, true, out->strides);
    x->touched[out->to->storage]++;
    return hn_tensor_check("weight", given->name, given->tensor, (hn_scalar_type)out->to->dtype,
                           out->to->rank, out->sizes);
}

/* Whether the tensor lies in memory as the whole storage must. */
static bool is_whole(const exchange *x, const change *c) {
    const hnb_storage *s = &x->m->view.storages[c->to->storage];
    uint64_t elems = 1;
    for (uint32_t d = c->to->rank; d-- > 0;) {
        if (c->sizes[d] > 1 &&
            (c->strides[d] != (int64_t)elems || hn_tensor_strides(c->from)[d] != (int64_t)elems))
            return false;
        elems *= (uint64_t)c->sizes[d];
    }
    return c->to->offset == 0 && elems * hn_bundle_dtype_bytes(c->to->dtype) == s->bytes;
}

static hn_status borrow(exchange *x, const change *c, const char *name) {
    const uint32_t storage = c->to->storage;
    if (!is_whole(x, c) || x->touched[storage] > 1)
        return HN_ERROR(
            HN_UNSUPPORTED,
            "weight '%s' cannot be borrowed: it shares its memory in the model, or lies there in another "
            "layout; have it copied",
            name);
    if ((uintptr_t)hn_tensor_data(c->from) % HN_WEIGHT_ALIGN)
        return HN_ERROR(HN_INVALID_ARGUMENT,
                        "weight '%s' cannot be borrowed: its address is no multiple of %d", name,
                        HN_WEIGHT_ALIGN);
    hn_tensor_release(x->fresh->owners[storage]);
    x->fresh->owners[storage] = hn_tensor_retain((hn_tensor *)(uintptr_t)c->from);
    x->fresh->storages[storage] = hn_tensor_data(c->from);
    return NULL;
}

hn_status hn_weights_own_storage(const hn_module *m, hn_weights *w, uint32_t storage) {
    const int64_t bytes = (int64_t)m->view.storages[storage].bytes;
    hn_tensor *owner;
    hn_block *block = hn_block_create(m->blocks, (size_t)bytes);
    if (!block)
        return HN_ERROR(HN_OUT_OF_MEMORY, "no memory for weights of %" PRId64 " bytes", bytes);
    hn_status status = hn_tensor_create(&(hn_tensor_desc){.type = HN_U8,
                                                          .rank = 1,
                                                          .sizes = &bytes,
                                                          .data = hn_block_data(block),
                                                          .free_data = hn_block_release,
                                                          .free_user = block},
                                        &owner);
    if (status) {
        hn_block_release(block);
        return status;
    }
    hn_tensor_release(w->owners[storage]);
    w->owners[storage] = owner;
    w->storages[storage] = hn_tensor_data(owner);
    return NULL;
}

/* Memory of the set's own with the old content, when this exchange has not made it yet. */
static hn_status own_storage(exchange *x, const hn_weights *old, uint32_t storage) {
    if (x->fresh->storages[storage] != old->storages[storage]) return NULL;
    HN_TRY(hn_weights_own_storage(x->m, x->fresh, storage));
    memcpy(x->fresh->storages[storage], old->storages[storage],
           (size_t)x->m->view.storages[storage].bytes);
    return NULL;
}

static uint8_t *place_of(const exchange *x, const change *c) {
    return hn_address(x->fresh->storages[c->to->storage],
                      c->to->offset * (int64_t)hn_bundle_dtype_bytes(c->to->dtype));
}

/* Two weights may be one in the model: what the second wrote must be what the first one is to
 * be. */
static hn_status check_shared(const exchange *x, const change *c, const char *name) {
    const size_t elem = hn_bundle_dtype_bytes(c->to->dtype),
                 bytes = (size_t)hn_tensor_numel(c->from) * elem;
    int64_t packed[HNB_MAX_RANK];
    if (x->touched[c->to->storage] < 2 || !bytes) return NULL;
    uint8_t *both = malloc(2 * bytes);
    if (!both) return HN_ERROR(HN_OUT_OF_MEMORY, "no memory to compare weights");
    hn_packed_strides(c->sizes, c->to->rank, packed);
    hn_copy_strided(both, packed, place_of(x, c), c->strides, c->sizes, c->to->rank, elem);
    hn_copy_strided(both + bytes, packed, hn_tensor_data(c->from), hn_tensor_strides(c->from),
                    c->sizes, c->to->rank, elem);
    const bool same = memcmp(both, both + bytes, bytes) == 0;
    free(both);
    if (same) return NULL;
    return HN_ERROR(
        HN_INVALID_ARGUMENT,
        "weight '%s' shares memory with another one in the model, and the two are given different values",
        name);
}

static hn_status apply(exchange *x, const hn_weights *old, const hn_named_tensor *given,
                       bool is_borrowed) {
    for (uint32_t k = 0; k < x->count; k++) {
        const change *c = &x->changes[k];
        if (!c->to->storage) continue; /* the program does not read it */
        if (is_borrowed) {
            HN_TRY(borrow(x, c, given[k].name));
            continue;
        }
        HN_TRY(own_storage(x, old, c->to->storage));
        hn_copy_strided(place_of(x, c), c->strides, hn_tensor_data(c->from),
                        hn_tensor_strides(c->from), c->sizes, c->to->rank,
                        hn_bundle_dtype_bytes(c->to->dtype));
    }
    for (uint32_t k = 0; k < x->count; k++)
        if (x->changes[k].to->storage) HN_TRY(check_shared(x, &x->changes[k], given[k].name));
    return NULL;
}

/* What is computed and made of weights that were exchanged. */
static hn_status make_again(exchange *x) {
    hn_computed_touch(x->m, x->touched);
    hn_made_touch(x->m, x->touched);
    for (uint32_t k = 1; k < x->fresh->count; k++) {
        const uint32_t where = x->m->view.storages[k].where;
        if (!x->touched[k] || (where != HNB_STORAGE_MADE && where != HNB_STORAGE_COMPUTED))
            continue;
        hn_tensor_release(x->fresh->owners[k]);
        x->fresh->owners[k] = NULL;
        x->fresh->storages[k] = NULL;
    }
    HN_TRY(hn_weights_compute(x->m, x->fresh));
    return hn_made_fill(x->m, x->fresh);
}

/* Of changes that are none, all that is computed counts as touched. */
static void touch_sources(exchange *x) {
    for (uint32_t k = 0; k < x->m->view.weights_sources_count; k++)
        x->touched[x->m->view.weights_sources[k]]++;
}

static hn_status make_set(exchange *x, const hn_named_tensor *given, bool is_borrowed) {
    hn_weights *old = x->m->weights; /* nobody else exchanges */
    x->changes = calloc((size_t)x->count + 1, sizeof *x->changes);
    x->touched = calloc(x->m->view.storages_count + 1u, sizeof *x->touched);
    if (!x->changes || !x->touched)
        return HN_ERROR(HN_OUT_OF_MEMORY, "no memory to exchange weights");
    for (uint32_t k = 0; k < x->count; k++) HN_TRY(find_change(x, &given[k], &x->changes[k]));
    if (!x->count) touch_sources(x);
    HN_TRY(hn_weights_create(x->m, &x->fresh));
    for (uint32_t k = 0; k < old->count; k++) {
        x->fresh->storages[k] = old->storages[k];
        x->fresh->owners[k] = hn_tensor_retain(old->owners[k]);
    }
    HN_TRY(apply(x, old, given, is_borrowed));
    HN_TRY(make_again(x));
    hn_weights_share_copies(x->fresh, old, x->touched);
    return NULL;
}

/* Without any change, what is computed of weights is computed again. */
static hn_status replace(hn_module *m, const hn_named_tensor *weights, uint32_t count,
                         bool borrow_memory) {
    HN_TRY(hn_dev_check(m->device));
    exchange x = {.m = m, .count = count};
    hn_weights *old = NULL;
    pthread_mutex_lock(&m->exchange);
    hn_status status = make_set(&x, weights, borrow_memory);
    if (!status) {
        pthread_mutex_lock(&m->lock);
        old = m->weights;
        m->weights = x.fresh;
        pthread_mutex_unlock(&m->lock);
        x.fresh = NULL;
        hn_contexts_forget(m);
    }
    hn_weights_release(old);
    hn_weights_release(x.fresh);
    free(x.changes);
    free(x.touched);
    pthread_mutex_unlock(&m->exchange);
    return status;
}

hn_status hn_module_weights_replace(hn_module *m, const hn_named_tensor *weights, uint32_t count,
                                    bool borrow_memory) {
    HN_REQUIRE(m, "module");
    if (!count) return NULL;
    HN_REQUIRE(weights, "weights");
    return replace(m, weights, count, borrow_memory);
}

hn_status hn_module_weights_recompute(hn_module *m) {
    HN_REQUIRE(m, "module");
    return m->computer ? replace(m, NULL, 0, false) : NULL;
}
