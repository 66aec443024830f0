/* kernels.c: the compiled code of a module: which target of the bundle this machine runs, and each
 * kernel, loaded from the image when it is first called. An object that nothing calls is neither
 * read nor verified. */
#include "runtime/kernels.h"

#include "base/lock.h"
#include "base/trace.h"

#include <stdlib.h>
#include <string.h>

/* --- the target --- */

static const char *target_name(const hn_bundle *b, uint32_t target) {
    return hn_bundle_text(b, b->targets[target].name);
}

/* The names of what a target needs. Owns: the caller; NULL without memory. */
static const char **list_features(const hn_bundle *b, const hnb_target *t) {
    const char **list = calloc(t->feature_count + 1u, sizeof *list);
    for (uint32_t k = 0; list && k < t->feature_count; k++)
        list[k] = hn_bundle_text(b, b->features[t->features + k]);
    return list;
}

/* How well the device that is wanted runs the code of a target (hn_device_ops.fitness); -1: not at
 * all, and `why` gets what is missing. */
static int fitness(const hn_module *m, uint32_t target, hn_strbuf *why) {
    const hnb_target *t = &m->view.targets[target];
    const hn_device_ops *device = hn_device_ops_of(hn_bundle_target_device(t->kind));
    if (!device) {
        hn_strbuf_printf(why, "is for %s, which this library does not run programs on",
                         hn_bundle_target_kind_name(t->kind));
        return -1;
    }
    const char **features = list_features(&m->view, t);
    const hn_device_code code = {.name = target_name(&m->view, target),
                                 .machine = t->machine,
                                 .features = features,
                                 .feature_count = t->feature_count};
    int fits = -1;
    if (features) fits = device->fitness(&code, hn_places_number_of(m, device->kind), why);
    else hn_strbuf_puts(why, "cannot be looked at: out of memory");
    free(features);
    return fits;
}

/* The same; what is missing is added to a list. */
static int note_fitness(const hn_module *m, uint32_t target, hn_strbuf *reasons) {
    hn_strbuf why;
    hn_strbuf_init(&why);
    const int fits = fitness(m, target, &why);
    if (fits < 0)
        hn_strbuf_printf(reasons, "%s'%s' %s", reasons->len ? ", " : "",
                         target_name(&m->view, target), why.ptr ? why.ptr : "");
    hn_strbuf_deinit(&why);
    return fits;
}

static hn_status refuse(const hn_strbuf *reasons) {
    return HN_ERROR(
        HN_INCOMPATIBLE,
        "no code in the bundle is for this machine: %s; compile the model for it (--target)",
        reasons->len ? reasons->ptr : "it has none at all");
}

static hn_status find_named(const hn_module *m, const char *wanted, hn_strbuf *reasons,
                            uint32_t *out) {
    const hn_bundle *b = &m->view;
    const char *name = hn_device_target_named(wanted);
    hn_strbuf have;
    for (uint32_t k = 0; k < b->targets_count; k++) {
        if (strcmp(target_name(b, k), name) != 0) continue;
        *out = k;
        return note_fitness(m, k, reasons) >= 0 ? NULL : refuse(reasons);
    }
    hn_strbuf_init(&have);
    for (uint32_t k = 0; k < b->targets_count; k++)
        hn_strbuf_printf(&have, "%s%s", k ? ", " : "", target_name(b, k));
    hn_status status = HN_ERROR(HN_INVALID_ARGUMENT, "the bundle has no code for '%s'; it has: %s",
                                name, have.len ? have.ptr : "none");
    hn_strbuf_deinit(&have);
    return status;
}

/* The one that fits best; of equal ones the first, since targets stand best first. */
static hn_status find_best(const hn_module *m, hn_strbuf *reasons, uint32_t *out) {
    int best = -1;
    for (uint32_t k = 0; k < m->view.targets_count; k++) {
        const int fits = note_fitness(m, k, reasons);
        if (fits <= best) continue;
        best = fits;
        *out = k;
    }
    return best >= 0 ? NULL : refuse(reasons);
}

/* A program without kernels needs none. */
static hn_status choose_target(hn_module *m, const char *wanted) {
    hn_strbuf reasons;
    if (!wanted && m->view.kernels_count < 2) return NULL;
    hn_strbuf_init(&reasons);
    hn_status status =
        wanted ? find_named(m, wanted, &reasons, &m->target) : find_best(m, &reasons, &m->target);
    hn_strbuf_deinit(&reasons);
    return status;
}

/* --- functions --- */

/* What can be known without reading any code. */
static hn_status check_code(const hn_module *m, uint32_t kernel, bool has_host) {
    const hn_bundle *b = &m->view;
    const hnb_code *code = hn_bundle_code(b, kernel, m->target);
    if (code->object == HNB_NO_OBJECT)
        return HN_ERROR(HN_INCOMPATIBLE,
                        "the bundle has no code of kernel '%s' for '%s'; compile the model again",
                        hn_bundle_text(b, b->kernels[kernel].name), target_name(b, m->target));
    if (b->objects[code->object].where != HNB_OBJECT_EMBEDDED && !has_host)
        return HN_ERROR(HN_INCOMPATIBLE, "object %u is not in the bundle; compile the model again",
                        code->object);
    return NULL;
}

static uint32_t larger(uint32_t a, uint32_t b) { return a > b ? a : b; }

static void find_step_ways(const hn_module *m, uint32_t step, hn_step_ways *out) {
    const hn_bundle *b = &m->view;
    out->choice = hn_bundle_choice_find(b, step, m->target);
    out->most_args = out->most_entries = hn_step_operand_count(&b->steps[step]);
    const uint32_t count = out->choice ? out->choice->head.variant_count : 1;
    for (uint32_t v = 0; v < count; v++) {
        const hn_bundle_call call =
            hn_bundle_call_by(b, &b->steps[step], m->target, out->choice, v);
        if (!call.launch) continue;
        out->most_args = larger(out->most_args, call.arg_count);
        out->most_entries = larger(out->most_entries, call.arg_count + call.launch->param_count);
    }
}

static hn_status find_ways(hn_module *m) {
    m->ways = calloc(m->view.steps_count + 1u, sizeof *m->ways);
    if (!m->ways) return HN_ERROR(HN_OUT_OF_MEMORY, "no memory to load a module");
    for (uint32_t k = 0; k < m->view.steps_count; k++) find_step_ways(m, k, &m->ways[k]);
    return NULL;
}

hn_status hn_kernels_init(hn_module *m, const char *wanted_target, bool has_host) {
    const hn_bundle *b = &m->view;
    HN_TRY(choose_target(m, wanted_target));
    HN_TRY(find_ways(m));
    m->programs = calloc(b->objects_count + 1u, sizeof *m->programs);
    m->kernels = calloc(b->kernels_count + 1u, sizeof *m->kernels);
    if (!m->programs || !m->kernels)
        return HN_ERROR(HN_OUT_OF_MEMORY, "no memory to load a module");
    for (uint32_t k = 1; k < b->kernels_count; k++) HN_TRY(check_code(m, k, has_host));
    return NULL;
}

void hn_kernels_deinit(hn_module *m) {
    for (uint32_t k = 0; m->programs && k < m->view.objects_count; k++)
        hn_dev_unload(m->device, m->programs[k]);
    free(m->programs);
    free(m->kernels);
    free(m->ways);
}

static hn_status load_object(hn_module *m, uint32_t k, const hn_module_host *host) {
    const hn_bundle *b = &m->view;
    const hnb_object *object = &b->objects[k];
    const char *name = hn_bundle_text(b, object->name);
    hn_digest digest;
    hn_str code;
    if (m->programs[k]) return NULL;
    if (object->where == HNB_OBJECT_EMBEDDED) {
        HN_TRY(hn_bundle_object_get(b, k, !m->skip_digest, &code));
    } else {
        const void *bytes; /* there is a host, or check_code would have complained */
        memcpy(digest.bytes, object->digest, sizeof digest.bytes);
        HN_TRY(host->find_object(host->user, &digest, &bytes, &code.len));
        code.ptr = bytes;
    }
    HN_TRY(m->device->ops->load(m->device, code.ptr, code.len, name, &m->programs[k]));
    pthread_mutex_lock(&m->lock);
    m->stats.objects_loaded++;
    pthread_mutex_unlock(&m->lock);
    return NULL;
}

/* With m->loading held: a driver may take seconds to build it, and who logs then may call the
 * module. */
static hn_status load_kernel(hn_module *m, uint32_t kernel, const hn_module_host *host,
                             void **out) {
    const hnb_code *code = hn_bundle_code(&m->view, kernel, m->target);
    const int64_t begin = hn_now_ns();
    HN_TRY(load_object(m, code->object, host));
    HN_TRY(m->device->ops->find(m->programs[code->object], hn_bundle_text(&m->view, code->symbol),
                                out));
    __atomic_store_n(&m->kernels[kernel], *out, __ATOMIC_RELEASE);
    pthread_mutex_lock(&m->lock);
    m->stats.kernels_load_ns += hn_now_ns() - begin;
    pthread_mutex_unlock(&m->lock);
    return NULL;
}

hn_status hn_kernels_get(hn_module *m, uint32_t kernel, void **out) {
    *out = __atomic_load_n(&m->kernels[kernel], __ATOMIC_ACQUIRE);
    if (*out) return NULL;
    hn_lock(&m->loading);
    hn_status status = load_kernel(m, kernel, NULL, out);
    hn_unlock(&m->loading);
    return status;
}

hn_status hn_kernels_load_all(hn_module *m, const hn_module_host *host) {
    void *ignored;
    hn_status status = NULL;
    hn_lock(&m->loading);
    for (uint32_t k = 1; k < m->view.kernels_count && !status; k++)
        status = load_kernel(m, k, host, &ignored);
    hn_unlock(&m->loading);
    return status;
}

bool hn_kernel_is_direct(const hn_module *m, const hn_run_step *step) {
    return step->chunks == 1 && m->device->ops->direct;
}

void hn_kernel_set(const hn_module *m, hn_run_step *step, void *kernel) {
    const bool is_direct = hn_kernel_is_direct(m, step);
    step->fn = is_direct && kernel ? m->device->ops->direct(kernel) : NULL;
    if (!is_direct) step->launch->kernel = kernel;
}
