/* kernels.c: the compiled code of a module: which target of the bundle this machine runs, and each kernel's function, loaded
 * from the image when it is first called. An object that nothing calls is neither read nor verified. */
#include "runtime/kernels.h"

#include "base/cpu.h"
#include "runtime/cpu.h"

#include <stdlib.h>
#include <string.h>

/* --- the target --- */

static const char *target_name(const hn_bundle *b, uint32_t target) { return hn_bundle_text(b, b->targets[target].name); }

/* The first feature that the CPU lacks; "" when it has all. */
static const char *lacks(const hn_bundle *b, const hnb_target *t) {
    for (uint32_t k = 0; k < t->feature_count; k++)
        if (!hn_cpu_has(hn_bundle_str(b, b->features[t->features + k]))) return hn_bundle_text(b, b->features[t->features + k]);
    return "";
}

static bool fits(const hn_bundle *b, const hnb_target *t) {
    return t->kind == HNB_TARGET_CPU && t->machine == HNB_MACHINE_HERE && !*lacks(b, t);
}

static hn_status refuse(const hn_bundle *b, uint32_t first, uint32_t count) {
    hn_strbuf why;
    hn_strbuf_init(&why);
    for (uint32_t k = first; k < first + count; k++) {
        const hnb_target *t = &b->targets[k];
        hn_strbuf_printf(&why, "%s'%s' ", k > first ? ", " : "", target_name(b, k));
        if (t->kind != HNB_TARGET_CPU) hn_strbuf_puts(&why, "is for a GPU");
        else if (t->machine != HNB_MACHINE_HERE) hn_strbuf_printf(&why, "is for ELF machine %u, not %d", t->machine, HNB_MACHINE_HERE);
        else hn_strbuf_printf(&why, "needs '%s', which this CPU lacks", lacks(b, t));
    }
    hn_status status = HN_ERROR(HN_INCOMPATIBLE, "no code in the bundle is for this machine: %s; compile the model for it (--target-cpu)",
                                why.len ? why.ptr : "it has none at all");
    hn_strbuf_deinit(&why);
    return status;
}

static hn_status find_named(const hn_bundle *b, const char *wanted, uint32_t *out) {
    const hn_cpu_level *level = hn_cpu_level_named(hn_str_of(wanted));
    const char *name = level ? level->name : wanted;
    hn_strbuf have;
    for (uint32_t k = 0; k < b->targets_count; k++) {
        if (b->targets[k].kind != HNB_TARGET_CPU || strcmp(target_name(b, k), name) != 0) continue;
        *out = k;
        return fits(b, &b->targets[k]) ? NULL : refuse(b, k, 1);
    }
    hn_strbuf_init(&have);
    for (uint32_t k = 0; k < b->targets_count; k++) hn_strbuf_printf(&have, "%s%s", k ? ", " : "", target_name(b, k));
    hn_status status = HN_ERROR(HN_INVALID_ARGUMENT, "the bundle has no code for '%s'; it has: %s", name, have.len ? have.ptr : "none");
    hn_strbuf_deinit(&have);
    return status;
}

/* Targets stand best first. A program without kernels needs none. */
static hn_status choose_target(hn_module *m, const char *wanted) {
    const hn_bundle *b = &m->view;
    if (wanted) return find_named(b, wanted, &m->target);
    if (b->kernels_count < 2) return NULL;
    for (uint32_t k = 0; k < b->targets_count; k++) {
        if (!fits(b, &b->targets[k])) continue;
        m->target = k;
        return NULL;
    }
    return refuse(b, 0, b->targets_count);
}

/* --- functions --- */

/* What can be known without reading any code. */
static hn_status check_code(const hn_module *m, uint32_t kernel, bool has_host) {
    const hn_bundle *b = &m->view;
    const hnb_code *code = hn_bundle_code(b, kernel, m->target);
    if (code->object == HNB_NO_OBJECT)
        return HN_ERROR(HN_INCOMPATIBLE, "the bundle has no code of kernel '%s' for '%s'; compile the model again",
                        hn_bundle_text(b, b->kernels[kernel].name), target_name(b, m->target));
    if (b->objects[code->object].where != HNB_OBJECT_EMBEDDED && !has_host)
        return HN_ERROR(HN_INCOMPATIBLE, "object %u is not in the bundle; compile the model again", code->object);
    return NULL;
}

hn_status hn_kernels_init(hn_module *m, const char *wanted_target, bool has_host) {
    const hn_bundle *b = &m->view;
    HN_TRY(choose_target(m, wanted_target));
    m->libraries = calloc(b->objects_count + 1u, sizeof *m->libraries);
    m->kernels = calloc(b->kernels_count + 1u, sizeof *m->kernels);
    if (!m->libraries || !m->kernels) return HN_ERROR(HN_OUT_OF_MEMORY, "no memory to load a module");
    for (uint32_t k = 1; k < b->kernels_count; k++) HN_TRY(check_code(m, k, has_host));
    return NULL;
}

void hn_kernels_deinit(hn_module *m) {
    for (uint32_t k = 0; m->libraries && k < m->view.objects_count; k++) hn_library_close(m->libraries[k]);
    free(m->libraries);
    free(m->kernels);
}

static hn_status load_object(hn_module *m, uint32_t k, const hn_module_host *host) {
    const hn_bundle *b = &m->view;
    const hnb_object *object = &b->objects[k];
    const char *name = hn_bundle_text(b, object->name);
    hn_digest digest;
    hn_str code;
    if (m->libraries[k]) return NULL;
    if (object->where == HNB_OBJECT_EMBEDDED) {
        HN_TRY(hn_bundle_object_get(b, k, !m->skip_digest, &code));
    } else {
        const void *bytes; /* there is a host, or check_code would have complained */
        memcpy(digest.bytes, object->digest, sizeof digest.bytes);
        HN_TRY(host->find_object(host->user, &digest, &bytes, &code.len));
        code.ptr = bytes;
    }
    HN_TRY(hn_library_load(code.ptr, code.len, name, &m->libraries[k]));
    m->stats.objects_loaded++;
    return NULL;
}

/* With m->lock held. */
static hn_status load_kernel(hn_module *m, uint32_t kernel, const hn_module_host *host, hn_kernel_fn *out) {
    const hnb_code *code = hn_bundle_code(&m->view, kernel, m->target);
    void *address;
    HN_TRY(load_object(m, code->object, host));
    HN_TRY(hn_library_symbol(m->libraries[code->object], hn_bundle_text(&m->view, code->symbol), &address));
    memcpy(out, &address, sizeof address);
    __atomic_store_n(&m->kernels[kernel], *out, __ATOMIC_RELEASE);
    return NULL;
}

hn_status hn_kernels_get(hn_module *m, uint32_t kernel, hn_kernel_fn *out) {
    *out = __atomic_load_n(&m->kernels[kernel], __ATOMIC_ACQUIRE);
    if (*out) return NULL;
    pthread_mutex_lock(&m->lock);
    hn_status status = load_kernel(m, kernel, NULL, out);
    pthread_mutex_unlock(&m->lock);
    return status;
}

hn_status hn_kernels_load_all(hn_module *m, const hn_module_host *host) {
    hn_kernel_fn ignored;
    hn_status status = NULL;
    pthread_mutex_lock(&m->lock);
    for (uint32_t k = 1; k < m->view.kernels_count && !status; k++) status = load_kernel(m, k, host, &ignored);
    pthread_mutex_unlock(&m->lock);
    return status;
}
