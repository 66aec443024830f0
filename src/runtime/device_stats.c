/* device_stats.c: statistics of a module's tensors by the kernels of tensor_stats.cu. Their text is
 * compiled here, when it is first needed: by the driver of OpenCL, or by NVRTC where there is one.
 *
 * Why a text, and no program of the compiler's own: a graph has kernels for one shape and dtype, so
 * that a model with a hundred shapes would have to compile a hundred groups of reductions before
 * its first line is printed, and this library has no compiler. One text with sizes and strides as
 * arguments is compiled once. Why not by the compile service: it is not in this library, either,
 * and programs that run bundles are the ones that are debugged. */
#include "runtime/device_stats.h"

#include "base/lock.h"
#include "base/log.h"
#include "runtime/stats_text.h"

#include <stdlib.h>

struct hn_device_stats {
    pthread_mutex_t lock; /* of what follows */
    bool is_asked, is_there;
    hn_device_program *program;
    hn_stats_kernels kernels;
};

static hn_status load(hn_dev *dev, hn_device_stats *s) {
    hn_strbuf text;
    hn_strbuf_init(&text);
    hn_stats_text(&text);
    hn_status status = hn_strbuf_status(&text);
    if (!status) status = dev->ops->load_text(dev, text.ptr, "statistics of tensors", &s->program);
    hn_strbuf_deinit(&text);
    return status ? status : hn_stats_kernels_find(dev, s->program, &s->kernels);
}

static void load_once(hn_dev *dev, hn_device_stats *s) {
    if (s->is_asked) return;
    s->is_asked = true;
    hn_status status = load(dev, s);
    s->is_there = !status;
    if (status)
        hn_warn_once("run", dev->facts.name,
                     "statistics of tensors are made on the host, to which each tensor is copied: "
                     "%s",
                     hn_status_message(status));
    hn_status_free(status);
}

const hn_stats_kernels *hn_device_stats_kernels(const hn_module *m) {
    hn_device_stats *s = m->device_stats;
    if (!m->device->ops->load_text) return NULL;
    hn_lock(&s->lock);
    load_once(m->device, s);
    hn_unlock(&s->lock);
    return s->is_there ? &s->kernels : NULL;
}

hn_status hn_device_stats_init(hn_module *m) {
    m->device_stats = calloc(1, sizeof *m->device_stats);
    if (!m->device_stats) return HN_ERROR(HN_OUT_OF_MEMORY, "no memory to load a module");
    pthread_mutex_init(&m->device_stats->lock, NULL);
    return NULL;
}

void hn_device_stats_deinit(hn_module *m) {
    if (!m->device_stats) return;
    hn_dev_unload(m->device, m->device_stats->program);
    pthread_mutex_destroy(&m->device_stats->lock);
    free(m->device_stats);
}

bool hn_device_stats_get(hn_context *c, const hn_module *m, uint32_t step, const hn_stats_tensor *t,
                         hn_tensor_stats *out) {
    if (!m->device->ops->load_text) return false;
    if (!hn_stats_begin(t, out)) return true;
    if (!hn_stats_kernels_take(t)) return false;
    const hn_stats_kernels *kernels = hn_device_stats_kernels(m);
    if (!kernels) return false;
    hn_status status =
        hn_stats_kernels_get(kernels, c->places[HN_PLACE_KERNELS].queue, step, t, out);
    if (status)
        hn_warn_once("run", "statistics", "a tensor is copied to the host for its statistics: %s",
                     hn_status_message(status));
    const bool is_done = !status;
    hn_status_free(status);
    return is_done;
}
