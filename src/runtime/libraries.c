/* libraries.c: see libraries.h. */
#include "runtime/libraries.h"

#include "base/thread.h"
#include "base/trace.h"

static void *load(void *context) {
    const hn_libraries *l = context;
    const int64_t begin = hn_now_ns();
    l->load(l->kinds);
    hn_trace_span("run", "libraries are loaded", begin, hn_now_ns());
    return NULL;
}

/* Of the operations that a device does. */
static void find_kinds(const hn_bundle *b, hn_libraries *l) {
    for (uint32_t k = 0; k < b->steps_count; k++) {
        const hnb_step *s = &b->steps[k];
        const hn_device_ops *ops = hn_device_ops_of(s->device);
        if (s->kind != HNB_STEP_EXTERN || !ops || !ops->operations || !ops->operations->load_early)
            continue;
        l->load = ops->operations->load_early;
        l->kinds |= 1u << s->extern_kind;
    }
}

void hn_libraries_begin(const hn_module *m, hn_libraries *l) {
    find_kinds(&m->view, l);
    if (l->load) l->has_thread = hn_thread_start(&l->thread, NULL, load, l) == 0;
}

void hn_libraries_end(hn_module *m, hn_libraries *l) {
    if (!l->has_thread) return;
    const int64_t begin = hn_now_ns();
    pthread_join(l->thread, NULL);
    m->stats.libraries_load_ns += hn_now_ns() - begin;
}
