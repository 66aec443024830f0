/* early.c: see early.h. */
#include "runtime/early.h"

#include "base/pages.h"
#include "base/thread.h"
#include "base/trace.h"

/* ---- libraries ---- */

static void *load(void *context) {
    const hn_early *e = context;
    const int64_t begin = hn_now_ns();
    e->load(e->kinds);
    hn_trace_span("run", "libraries are loaded", begin, hn_now_ns());
    return NULL;
}

/* Of the operations that a device does. */
static void find_kinds(const hn_bundle *b, hn_early *e) {
    for (uint32_t k = 0; k < b->steps_count; k++) {
        const hnb_step *s = &b->steps[k];
        const hn_device_ops *ops = hn_device_ops_of(s->device);
        if (s->kind != HNB_STEP_EXTERN || !ops || !ops->operations || !ops->operations->load_early)
            continue;
        e->load = ops->operations->load_early;
        e->kinds |= 1u << s->extern_kind;
    }
}

/* ---- memory ---- */

static void *make(void *context) {
    const hn_early *e = context;
    const int64_t begin = hn_now_ns();
    hn_pages_make(e->memory.at, e->memory.bytes);
    hn_trace_span("run", "memory for copies is made", begin, hn_now_ns());
    return NULL;
}

/* Whether there are weights for a device that pins what copies go through. */
static bool has_weights(const hn_bundle *b) {
    for (uint32_t k = 1; k < b->buffers_count; k++) {
        const hn_device_ops *ops = hn_device_ops_of(b->buffers[k].device);
        if (b->buffers[k].kind == HNB_BUFFER_CONSTANT && ops && ops->pins_copy_memory) return true;
    }
    return false;
}

static hn_copy_memory map_memory(const hn_module *m) {
    uint64_t bytes = 0;
    if (!has_weights(&m->view)) return (hn_copy_memory){.at = NULL};
    for (uint32_t k = 1; k < m->view.storages_count;
         k++) /* what is made of others stands for them */
        if (m->view.storages[k].where != HNB_STORAGE_MADE) bytes += m->view.storages[k].bytes;
    const size_t wanted = hn_upload_memory_bytes(m, bytes);
    return (hn_copy_memory){hn_pages_map(wanted), wanted};
}

void hn_copy_memory_free(hn_copy_memory *memory) {
    hn_pages_unmap(memory->at, memory->bytes);
    *memory = (hn_copy_memory){.at = NULL};
}

/* ---- both ---- */

void hn_early_begin(const hn_module *m, hn_early *e) {
    find_kinds(&m->view, e);
    if (e->load) e->has_loader = hn_thread_start(&e->loader, NULL, load, e) == 0;
    e->memory = map_memory(m);
    if (e->memory.at) e->has_maker = hn_thread_start(&e->maker, NULL, make, e) == 0;
}

hn_copy_memory hn_early_memory_take(hn_early *e) {
    if (e->has_maker) pthread_join(e->maker, NULL);
    const hn_copy_memory memory = e->memory;
    e->has_maker = false;
    e->memory = (hn_copy_memory){.at = NULL};
    return memory;
}

void hn_early_end(hn_module *m, hn_early *e) {
    hn_copy_memory left = hn_early_memory_take(e); /* of a module that could not be opened */
    hn_copy_memory_free(&left);
    if (!e->has_loader) return;
    const int64_t begin = hn_now_ns();
    pthread_join(e->loader, NULL);
    m->stats.libraries_load_ns += hn_now_ns() - begin;
}
