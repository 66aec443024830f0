/* load.c: from a bundle image to a module: bytes, weights, kernels. */
#include "runtime/module_impl.h"

#include "base/checked.h"
#include "base/compiler.h"
#include "base/device.h"
#include "base/log.h"
#include "base/require.h"
#include "bundle/sign.h"
#include "bundle/weights.h"
#include "runtime/kernels.h"
#include "runtime/load.h"

#include <stdlib.h>
#include <string.h>

/* --- weights --- */

static hn_status place_storage(hn_module *m, uint32_t k) {
    const hnb_storage *s = &m->view.storages[k];
    uint8_t **place = &m->weights->storages[k];
    if (s->where == HNB_STORAGE_FILE) {
        uint64_t end;
        if (__builtin_add_overflow(s->offset, s->bytes, &end) || end > m->weights_file.size_bytes)
            return HN_ERROR(HN_CORRUPT, "storage %u lies beyond the end of the weights file", k);
        *place = hn_address(m->weights_file.data, (int64_t)s->offset);
    } else if (s->where == HNB_STORAGE_WEIGHTS) {
        *place = hn_address(m->view.bytes, (int64_t)(m->view.header->weights_offset + s->offset));
    } else {
        *place = hn_address(m->view.blob, (int64_t)s->offset);
    }
    m->has_state |= s->is_mutable;
    if ((uintptr_t)*place % HN_WEIGHT_ALIGN == 0) {
        m->stats.weights_mapped_bytes += s->is_mutable ? 0 : s->bytes;
        return NULL;
    }
    uint8_t *copy = hn_dev_alloc(m->host, s->bytes);
    if (!copy)
        return HN_ERROR(HN_OUT_OF_MEMORY, "no memory for a private copy of %llu bytes",
                        (unsigned long long)s->bytes);
    memcpy(copy, *place, s->bytes);
    *place = m->private_copies[k] = copy;
    m->stats.weights_copied_bytes += s->bytes;
    return NULL;
}

static hn_status place_storages(hn_module *m) {
    HN_TRY(hn_weights_create(m, &m->weights));
    m->private_copies = calloc(m->view.storages_count + 1u, sizeof *m->private_copies);
    if (!m->private_copies) return HN_ERROR(HN_OUT_OF_MEMORY, "no memory to load a module");
    for (uint32_t k = 1; k < m->view.storages_count; k++) HN_TRY(place_storage(m, k));
    return hn_state_init_own(m);
}

/* --- modules --- */

static uint32_t count_externs(const hn_bundle *b) {
    uint32_t count = 0;
    for (uint32_t k = 0; k < b->steps_count; k++) count += b->steps[k].kind == HNB_STEP_EXTERN;
    return count;
}

/* Memory may be on devices of kinds that this library has, and steps may run there. */
static hn_status check_device(uint32_t kind, const char *what, uint32_t number) {
    hn_strbuf kinds;
    if (hn_device_ops_of(kind)) return NULL;
    hn_strbuf_init(&kinds);
    hn_device_kinds_print(&kinds);
    hn_status status = HN_ERROR(HN_UNSUPPORTED,
                                "%s %u of the program is on %s; this library runs programs on %s only", what,
                                number, hn_device_name(kind), kinds.len ? kinds.ptr : "none");
    hn_strbuf_deinit(&kinds);
    return status;
}

static hn_status check_devices(const hn_bundle *b) {
    for (uint32_t k = 1; k < b->buffers_count; k++)
        HN_TRY(check_device(b->buffers[k].device, "buffer", k));
    for (uint32_t k = 0; k < b->steps_count; k++) HN_TRY(check_device(b->steps[k].device, "step", k));
    return NULL;
}

/* The device of a row, opened when it is asked for first. */
static hn_status open_device(hn_module *m, const hn_device_ops *ops, const hn_device_options *options, hn_dev **out) {
    hn_dev **dev = &m->devices[ops->kind];
    if (!*dev) HN_TRY(hn_dev_open(ops, options, dev));
    *out = *dev;
    return NULL;
}

/* The host, the device that runs the kernels, and those that memory is on. */
static hn_status open_devices(hn_module *m, const hn_module_options *options) {
    const hn_bundle *b = &m->view;
    const hn_device_ops *kernels = b->kernels_count > 1 ? hn_device_ops_of_target(b->targets[m->target].kind) : NULL;
    hn_device_options how = {.number = 0};
    hn_dev *ignored;
    if (options->allocator) how.allocator = *options->allocator;
    HN_TRY(open_device(m, hn_device_ops_of_host(), &how, &m->host));
    m->device = m->host;
    if (kernels) HN_TRY(open_device(m, kernels, &how, &m->device));
    for (uint32_t k = 1; k < b->buffers_count; k++)
        HN_TRY(open_device(m, hn_device_ops_of(b->buffers[k].device), &how, &ignored));
    return NULL;
}

static void close_devices(hn_module *m) {
    for (uint32_t k = 0; k < HN_DEVICE_KIND_COUNT; k++) hn_dev_release(m->devices[k]);
}

/* Where addresses of inputs and outputs stand in a context, and how many tensors look into each output buffer. */
static hn_status number_buffers(hn_module *m) {
    const hn_bundle *b = &m->view;
    m->io_of = calloc(b->buffers_count + 1u, sizeof *m->io_of);
    m->output_buffers = calloc(b->buffers_count + 1u, sizeof *m->output_buffers);
    m->output_users = calloc(b->buffers_count + 1u, sizeof *m->output_users);
    if (!m->io_of || !m->output_buffers || !m->output_users)
        return HN_ERROR(HN_OUT_OF_MEMORY, "no memory to load a module");
    m->extern_count = count_externs(b);
    for (uint32_t k = 0; k < b->inputs_count; k++)
        m->key_count += b->inputs[k].kind == HNB_VALUE_TENSOR ? b->inputs[k].rank : 1;
    for (uint32_t k = 1; k < b->buffers_count; k++) {
        if (b->buffers[k].kind == HNB_BUFFER_INPUT) m->io_of[k] = b->buffers[k].source;
        if (b->buffers[k].kind != HNB_BUFFER_OUTPUT) continue;
        m->io_of[k] = b->inputs_count + m->output_buffer_count;
        m->output_buffers[m->output_buffer_count++] = k;
    }
    m->io_count = b->inputs_count + m->output_buffer_count;
    for (uint32_t k = 0; k < b->outputs_count; k++) {
        const hnb_output *o = &b->outputs[k];
        m->output_count += !o->is_mutation;
        m->changes_inputs |= o->is_mutation && o->target_input >= 0;
        if (o->kind == HNB_VALUE_TENSOR && b->buffers[o->buffer].kind == HNB_BUFFER_OUTPUT)
            m->output_users[m->io_of[o->buffer] - b->inputs_count]++;
    }
    return NULL;
}

hn_status hn_threads_check(int threads) {
    if (threads >= 0 && threads <= HN_THREADS_MAX) return NULL;
    return HN_ERROR(HN_INVALID_ARGUMENT, "%d threads are not possible; give 1 to %d, or 0 for the default", threads, HN_THREADS_MAX);
}

static int default_threads(void) {
    const char *text = getenv("HENRY_THREADS");
    if (text && text[0]) {
        char *end;
        long number = strtol(text, &end, 10);
        if (!*end && number >= 1 && number <= HN_THREADS_MAX) return (int)number;
        hn_warn_once("run", "threads", "HENRY_THREADS is '%s', expected 1 to %d; ignored", text, HN_THREADS_MAX);
    }
    return hn_team_default_threads();
}

static hn_status module_create(hn_module **out) {
    hn_module *m = calloc(1, sizeof *m);
    if (!m) return HN_ERROR(HN_OUT_OF_MEMORY, "no memory for a module");
    atomic_init(&m->refs, 1);
    pthread_mutex_init(&m->lock, NULL);
    pthread_mutex_init(&m->exchange, NULL);
    *out = m;
    return NULL;
}

static void count_steps(hn_module *m) {
    const hn_bundle *b = &m->view;
    m->stats.steps = b->steps_count;
    for (uint32_t k = 0; k < b->steps_count; k++)
        m->stats.kernels += b->steps[k].kind == HNB_STEP_KERNEL;
    for (uint32_t k = 0; k < b->objects_count; k++)
        m->stats.objects += b->objects[k].target == m->target;
}

static hn_status check_options(const hn_module_options *options) {
    HN_TRY(hn_threads_check(options->threads));
    if (options->allocator && (!options->allocator->alloc || !options->allocator->free))
        return HN_ERROR(HN_INVALID_ARGUMENT, "the allocator has no '%s' function; give both", options->allocator->alloc ? "free" : "alloc");
    if (options->executor && (!options->executor->run || options->executor->threads < 1 || options->executor->threads > HN_THREADS_MAX))
        return HN_ERROR(HN_INVALID_ARGUMENT, "an executor needs a function 'run' and 1 to %d threads; it has %s and %d", HN_THREADS_MAX,
                        options->executor->run ? "one" : "none", options->executor->threads);
    if (options->trusted_count && !options->trusted)
        return HN_ERROR(HN_INVALID_ARGUMENT, "'trusted' is NULL, but 'trusted_count' is %u", options->trusted_count);
    return NULL;
}

static hn_status module_init(hn_module *m, const void *bytes, size_t len, const hn_module_options *given,
                             const char *path, const hn_module_host *host) {
    static const hn_module_options none;
    const hn_module_options *options = given ? given : &none;
    HN_TRY(check_options(options));
    bool must_trust = options->trusted_count > 0, verify_weights = options->verify_weights || must_trust;
    m->skip_digest = options->skip_digest && !must_trust;
    HN_TRY(hn_bundle_open(bytes, len, !m->skip_digest, &m->view));
    if (must_trust) HN_TRY(hn_bundle_signature_check(&m->view, options->trusted, options->trusted_count));
    HN_TRY(check_devices(&m->view));
    HN_TRY(hn_kernels_init(m, options->target, host != NULL));
    HN_TRY(open_devices(m, options));
    if (options->executor) m->executor = *options->executor;
    m->threads = options->threads > 0 ? options->threads : options->executor ? options->executor->threads : default_threads();
    if (m->threads > HN_THREADS_MAX) m->threads = HN_THREADS_MAX;
    HN_TRY(hn_bundle_weights_check(&m->view, verify_weights));
    HN_TRY(hn_bundle_weights_open(&m->view, path, options->weights_path, verify_weights, &m->weights_file));
    HN_TRY(place_storages(m));
    if (host || options->load_all || must_trust) HN_TRY(hn_kernels_load_all(m, host));
    HN_TRY(hn_block_pool_create(m->device, &m->blocks));
    HN_TRY(number_buffers(m));
    HN_TRY(hn_stages_init(m));
    HN_TRY(hn_profiles_init(m, options->profile));
    count_steps(m);
    return hn_module_info_init(m);
}

hn_status hn_module_load_memory(const void *bytes, size_t len, bool borrow, const hn_module_options *options,
                                hn_module **out) {
    HN_REQUIRE(bytes, "bytes");
    HN_REQUIRE(out, "out_module");
    return hn_module_load_hosted(bytes, len, borrow, options, NULL, out);
}

hn_status hn_module_load_hosted(const void *bytes, size_t len, bool borrow, const hn_module_options *options,
                                const hn_module_host *host, hn_module **out) {
    hn_module *m;
    HN_TRY(module_create(&m));
    bool aligned = ((uintptr_t)bytes & 63) == 0;
    if (!borrow || !aligned) {
        m->own_bytes = aligned_alloc(64, hn_align_up(len + 1, 64));
        if (!m->own_bytes) {
            hn_module_release(m);
            return HN_ERROR(HN_OUT_OF_MEMORY, "no memory for a bundle of %zu bytes", len);
        }
        memcpy(m->own_bytes, bytes, len);
        bytes = m->own_bytes;
    }
    hn_status status = module_init(m, bytes, len, options, NULL, host);
    if (status)
        hn_module_release(m);
    else
        *out = m;
    return status;
}

hn_status hn_module_load_file(const char *path, const hn_module_options *options, hn_module **out) {
    hn_module *m;
    HN_REQUIRE(path, "path");
    HN_REQUIRE(out, "out_module");
    HN_TRY(module_create(&m));
    hn_status status = hn_file_map_init(&m->map, path);
    if (!status) status = module_init(m, m->map.data, m->map.size_bytes, options, path, NULL);
    if (status) {
        hn_module_release(m);
        return hn_status_annotate(status, "cannot load '%s'", path);
    }
    *out = m;
    return NULL;
}

hn_module *hn_module_retain(hn_module *m) {
    if (m) atomic_fetch_add_explicit(&m->refs, 1, memory_order_relaxed);
    return m;
}

static void module_destroy(hn_module *m) {
    for (hn_context *c = m->idle, *next; c; c = next) {
        next = c->next;
        hn_context_destroy(m, c);
    }
    hn_state_deinit_own(m);
    hn_weights_release(m->weights);
    hn_kernels_deinit(m);
    for (uint32_t k = 0; m->private_copies && k < m->view.storages_count; k++) hn_dev_free(m->host, m->private_copies[k]);
    hn_block_pool_release(m->blocks);
    close_devices(m);
    hn_stages_deinit(&m->stages);
    free(m->io_of);
    free(m->output_buffers);
    free(m->output_users);
    free(m->private_copies);
    free(m->profiles);
    free(m->input_infos);
    free(m->output_infos);
    free(m->dims);
    free(m->symbol_texts);
    free(m->guard_texts);
    free(m->texts);
    hn_file_map_deinit(&m->weights_file);
    hn_file_map_deinit(&m->map);
    free(m->own_bytes);
    pthread_mutex_destroy(&m->lock);
    pthread_mutex_destroy(&m->exchange);
    free(m);
}

void hn_module_release(hn_module *m) {
    if (m && atomic_fetch_sub_explicit(&m->refs, 1, memory_order_acq_rel) == 1) module_destroy(m);
}
