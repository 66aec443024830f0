/* load.c: from a bundle image to a module: bytes, weights, kernels. */
#include "runtime/module_impl.h"

#include "base/checked.h"
#include "base/compiler.h"
#include "base/log.h"
#include "base/require.h"
#include "base/trace.h"
#include "bundle/sign.h"
#include "bundle/weights.h"
#include "runtime/device_stats.h"
#include "runtime/early.h"
#include "runtime/kernels.h"
#include "runtime/load.h"

#include <stdlib.h>
#include <string.h>

/* --- weights --- */

static hn_status place_storage(hn_module *m, uint32_t k) {
    const hnb_storage *s = &m->view.storages[k];
    uint8_t **place = &m->weights->storages[k];
    if (s->where >= HNB_STORAGE_MADE) return NULL; /* it has no bytes of its own */
    if (s->where == HNB_STORAGE_FILE) {
        uint64_t end;
        if (__builtin_add_overflow(s->offset, s->bytes, &end) || end > m->weights_file.size_bytes)
            return HN_ERROR(HN_CORRUPT, "storage %u lies beyond the end of the weights file", k);
        *place = hn_address(m->weights_file.data, (int64_t)s->offset);
    } else if (s->where == HNB_STORAGE_WEIGHTS) {
        *place = hn_address(m->view.weights, (int64_t)s->offset);
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

hn_status hn_threads_check(int threads) {
    if (threads >= 0 && threads <= HN_THREADS_MAX) return NULL;
    return HN_ERROR(HN_INVALID_ARGUMENT,
                    "%d threads are not possible; give 1 to %d, or 0 for the default", threads,
                    HN_THREADS_MAX);
}

int hn_threads_default(void) {
    const char *text = getenv("HENRY_THREADS");
    if (text && text[0]) {
        char *end;
        long number = strtol(text, &end, 10);
        if (!*end && number >= 1 && number <= HN_THREADS_MAX) return (int)number;
        hn_warn_once("run", "threads", "HENRY_THREADS is '%s', expected 1 to %d; ignored", text,
                     HN_THREADS_MAX);
    }
    return hn_team_default_threads();
}

static hn_status module_create(hn_module **out) {
    hn_module *m = calloc(1, sizeof *m);
    if (!m) return HN_ERROR(HN_OUT_OF_MEMORY, "no memory for a module");
    atomic_init(&m->refs, 1);
    pthread_mutex_init(&m->lock, NULL);
    pthread_mutex_init(&m->loading, NULL);
    pthread_mutex_init(&m->exchange, NULL);
    *out = m;
    return NULL;
}

static uint32_t count_host_steps(const hn_module *m) {
    uint32_t count = 0;
    for (uint32_t k = 0; k < m->view.steps_count; k++)
        count += m->view.steps[k].kind == HNB_STEP_EXTERN &&
                 m->view.steps[k].device == (uint32_t)m->host->ops->kind;
    return count;
}

static void count_steps(hn_module *m) {
    const hn_bundle *b = &m->view;
    m->stats.steps = b->steps_count;
    for (uint32_t k = 0; k < b->steps_count; k++)
        m->stats.kernels += b->steps[k].kind == HNB_STEP_KERNEL;
    if (m->place_count > 1) m->stats.host_steps = count_host_steps(m);
    for (uint32_t k = 0; k < b->objects_count; k++)
        m->stats.objects += b->objects[k].target == m->target;
}

static hn_status check_options(const hn_module_options *options) {
    HN_TRY(hn_threads_check(options->threads));
    if (options->allocator && (!options->allocator->alloc || !options->allocator->free))
        return HN_ERROR(HN_INVALID_ARGUMENT, "the allocator has no '%s' function; give both",
                        options->allocator->alloc ? "free" : "alloc");
    const hn_device_allocator *there = options->device_allocator;
    if (there && (!there->alloc || !there->free))
        return HN_ERROR(HN_INVALID_ARGUMENT, "the device allocator has no '%s' function; give both",
                        there->alloc ? "free" : "alloc");
    if (options->executor && (!options->executor->run || options->executor->threads < 1 ||
                              options->executor->threads > HN_THREADS_MAX))
        return HN_ERROR(HN_INVALID_ARGUMENT,
                        "an executor needs a function 'run' and 1 to %d threads; it has %s and %d",
                        HN_THREADS_MAX, options->executor->run ? "one" : "none",
                        options->executor->threads);
    if (options->trusted_count && !options->trusted)
        return HN_ERROR(HN_INVALID_ARGUMENT, "'trusted' is NULL, but 'trusted_count' is %u",
                        options->trusted_count);
    return NULL;
}

static void set_threads(hn_module *m, const hn_module_options *options) {
    if (options->executor) m->executor = *options->executor;
    m->threads = options->threads > 0 ? options->threads
                 : options->executor  ? options->executor->threads
                                      : hn_threads_default();
    if (m->threads > HN_THREADS_MAX) m->threads = HN_THREADS_MAX;
}

static void note_device(hn_module *m, int64_t begin_ns) {
    const int64_t end_ns = hn_now_ns();
    m->stats.device_open_ns = end_ns - begin_ns;
    hn_trace_span("run", "the device is opened", begin_ns, end_ns);
}

/* What a program has of its device, before there are weights; `m->view` is known. */
static hn_status init_device(hn_module *m, const hn_module_options *options, bool has_host,
                             hn_early *early) {
    const int64_t begin = hn_now_ns();
    set_threads(m, options);
    HN_TRY(hn_device_stats_init(m));
    HN_TRY(hn_kernels_init(m, options->target, has_host)); /* asks the driver for devices */
    /* the driver loads libraries when it is asked first, and others would have to wait their
     * turn */
    if (early && !options->executor) hn_early_begin(m, early);
    HN_TRY(hn_places_open(m, options));
    if (m->place_count > 1) note_device(m, begin);
    return hn_places_find_storages(m);
}

static hn_status init_blocks(hn_module *m) {
    HN_TRY(hn_block_pool_create(m->host, &m->blocks));
    HN_TRY(hn_block_pool_create(m->device, &m->device_blocks));
    return hn_block_pool_create(m->device, &m->device_output_blocks);
}

/* What is known of the program when its weights are there, or do not matter. */
static hn_status init_program(hn_module *m, const hn_module_options *options) {
    HN_TRY(hn_places_number(m));
    m->extern_count = count_externs(&m->view);
    HN_TRY(hn_stages_init(m));
    HN_TRY(hn_profiles_init(m, options->profile));
    count_steps(m);
    m->records = options->device_graphs && hn_recordings_can(m);
    HN_TRY(hn_module_info_init(m));
    return hn_fill_init(m, options->pool_fill);
}

/* ---- the program of weights ---- */

/* It has the device of the module around it, and threads, but no profile and no graphs: it runs
 * once for a set of weights. */
static hn_status init_computer(hn_module *m, const hn_module *around,
                               const hn_module_options *given, bool must_load) {
    hn_module_options options = *given;
    options.profile = options.device_graphs = false;
    m->computes_weights = true;
    m->wanted = around->wanted;
    m->has_wanted = around->has_wanted;
    m->skip_digest = around->skip_digest;
    HN_TRY(hn_bundle_weights_program_open(&around->view, !m->skip_digest, &m->view));
    HN_TRY(init_device(m, &options, false, NULL));
    HN_TRY(init_blocks(m));
    HN_TRY(hn_weights_create(m, &m->weights)); /* of nothing: each run has another */
    HN_TRY(hn_state_init_own(m));
    hn_weights_release(m->weights);
    m->weights = NULL;
    if (must_load) HN_TRY(hn_kernels_load_all(m, NULL));
    return init_program(m, &options);
}

static hn_status open_computer(hn_module *m, const hn_module_options *options, bool must_load) {
    if (!m->view.weights_program_count) return NULL;
    HN_TRY(module_create(&m->computer));
    return hn_status_annotate(init_computer(m->computer, m, options, must_load),
                              "the program of weights");
}

/* ---- all of it ---- */

static hn_status init_parts(hn_module *m, const void *bytes, size_t len,
                            const hn_module_options *options, const char *path,
                            const hn_module_host *host, hn_early *early) {
    HN_TRY(check_options(options));
    const bool must_trust = options->trusted_count > 0,
               verify_weights = options->verify_weights || must_trust,
               must_load = host || options->load_all || must_trust;
    m->skip_digest = options->skip_digest && !must_trust;
    hn_bundle file;
    HN_TRY(hn_bundle_open(bytes, len, !m->skip_digest, &file));
    if (must_trust)
        HN_TRY(hn_bundle_signature_check(&file, options->trusted, options->trusted_count));
    HN_TRY(hn_places_choose(m, options));
    HN_TRY(hn_program_choose(m, &file, options->target, &m->view));
    HN_TRY(init_device(m, options, host != NULL, early));
    HN_TRY(hn_bundle_weights_check(&file, verify_weights));
    HN_TRY(hn_bundle_weights_open(&file, path, options->weights_path, verify_weights,
                                  &m->weights_file));
    HN_TRY(place_storages(m));
    HN_TRY(init_blocks(m));
    HN_TRY(open_computer(m, options, must_load));
    HN_TRY(hn_debug_attach_text(m, options->debug_tensors));
    HN_TRY(hn_weights_compute(m, m->weights));
    HN_TRY(hn_made_fill(m, m->weights));
    HN_TRY(hn_weights_upload_begin(m, m->weights, hn_early_memory_take(early)));
    if (must_load) HN_TRY(hn_kernels_load_all(m, host));
    return init_program(m, options);
}

/* Who brings an executor wants no other threads. */
static hn_status module_init(hn_module *m, const void *bytes, size_t len,
                             const hn_module_options *given, const char *path,
                             const hn_module_host *host) {
    static const hn_module_options none;
    const hn_module_options *options = given ? given : &none;
    hn_early early = {.load = NULL};
    const int64_t begin = hn_now_ns();
    hn_status status = init_parts(m, bytes, len, options, path, host, &early);
    hn_early_end(m, &early);
    m->stats.open_ns = hn_now_ns() - begin;
    return status;
}

hn_status hn_module_load_memory(const void *bytes, size_t len, bool borrow,
                                const hn_module_options *options, hn_module **out) {
    HN_REQUIRE(bytes, "bytes");
    HN_REQUIRE(out, "out_module");
    return hn_module_load_hosted(bytes, len, borrow, options, NULL, out);
}

hn_status hn_module_load_hosted(const void *bytes, size_t len, bool borrow,
                                const hn_module_options *options, const hn_module_host *host,
                                hn_module **out) {
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
    if (status) hn_module_release(m);
    else *out = m;
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
    hn_debug_destroy_all(m);
    hn_module_release(m->computer);
    hn_writers_deinit(&m->writers);
    hn_state_deinit_own(m);
    hn_weights_release(m->weights);
    hn_device_stats_deinit(m);
    hn_kernels_deinit(m);
    for (uint32_t k = 0; m->private_copies && k < m->view.storages_count; k++)
        hn_dev_free(m->host, m->private_copies[k]);
    hn_block_pool_release(m->blocks);
    hn_block_pool_release(m->device_blocks);
    hn_block_pool_release(m->device_output_blocks);
    hn_places_close(m);
    hn_places_deinit(m);
    hn_stages_deinit(&m->stages);
    free(m->private_copies);
    free(m->profiles);
    free(m->input_infos);
    free(m->output_infos);
    free(m->dims);
    free(m->symbol_texts);
    free(m->guard_texts);
    free(m->texts);
    hn_record_sizes_destroy(m->record_sizes);
    hn_file_map_deinit(&m->weights_file);
    hn_file_map_deinit(&m->map);
    free(m->own_bytes);
    pthread_mutex_destroy(&m->lock);
    pthread_mutex_destroy(&m->loading);
    pthread_mutex_destroy(&m->exchange);
    free(m);
}

void hn_module_release(hn_module *m) {
    if (m && atomic_fetch_sub_explicit(&m->refs, 1, memory_order_acq_rel) == 1) module_destroy(m);
}
