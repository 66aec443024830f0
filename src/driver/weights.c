/* weights.c: what depends on weights alone (opt/weights.c), compiled as a program of its own: the
 * same way from graph to image, beside that of the program around it. */
#include "driver/driver.h"

#include "base/log.h"
#include "base/trace.h"

#include <stdlib.h>

struct hn_driver_weights {
    hn_driver driver;
    hn_compile_options options;
    hn_strbuf image;
};

/* Of the options those count that decide how kernels are made. */
static hn_status create(hn_driver *d, const char *target, hn_driver_weights **out) {
    hn_driver_weights *w = calloc(1, sizeof *w);
    if (!w) return HN_ERROR(HN_OUT_OF_MEMORY, "out of memory for a compilation");
    w->options = (hn_compile_options){.target = target,
                                      .threads = HN_OPT(&d->options, threads),
                                      .no_fusion = HN_OPT(&d->options, no_fusion),
                                      .forms = "", /* of the program around it */
                                      .deterministic = HN_OPT(&d->options, deterministic)};
    hn_strbuf_init(&w->image);
    hn_driver_init(&w->driver, &w->options, d->service);
    w->driver.graph = d->graph->weights_program;
    w->driver.sym = d->sym;
    w->driver.limits = d->limits;
    *out = w;
    return NULL;
}

static void destroy(hn_driver_weights *w) {
    if (!w) return;
    hn_driver_deinit(&w->driver);
    hn_strbuf_deinit(&w->image);
    free(w);
}

static hn_status begin(hn_driver *inner) {
    HN_TRY(hn_driver_targets(inner));
    HN_TRY(hn_driver_kernels(inner));
    HN_TRY(hn_driver_count(inner));
    return hn_driver_submit(inner);
}

static hn_status end(hn_driver_weights *w, bool is_of_weights) {
    hn_driver *d = &w->driver;
    HN_TRY(hn_driver_wrapper(d, &d->wrapper));
    return is_of_weights ? hn_driver_image_of_weights(d, d->wrapper, &w->image)
                         : hn_driver_image(d, d->wrapper, &w->image);
}

/* Its kernels are compiled for the program, too, which calls none of them. */
static void add_stats(hn_driver *d, const hn_compile_stats *s) {
    d->stats.kernels_unique += s->kernels_unique;
    d->stats.kernels_compiled += s->kernels_compiled;
    d->stats.kernels_cached += s->kernels_cached;
    d->stats.kernels_remote += s->kernels_remote;
    hn_metrics_count(&d->metrics, HN_METRIC_KERNELS_UNIQUE, s->kernels_unique);
}

static hn_status blame(hn_status status) {
    return hn_status_annotate(status, "what depends on weights alone");
}

hn_status hn_driver_weights_begin(hn_driver *d) {
    if (!d->graph->weights_program) return NULL;
    HN_TRY(create(d, HN_OPT(&d->options, target), &d->weights_program));
    return blame(begin(&d->weights_program->driver));
}

hn_status hn_driver_weights_end(hn_driver *d, hn_str *out_image) {
    hn_driver_weights *w = d->weights_program;
    *out_image = HN_STR("");
    if (!w) return NULL;
    HN_TRY(blame(end(w, true)));
    add_stats(d, &w->driver.stats);
    *out_image = hn_strbuf_str(&w->image);
    return NULL;
}

const hn_driver *hn_driver_weights_get(const hn_driver *d) {
    return d->weights_program ? &d->weights_program->driver : NULL;
}

void hn_driver_weights_deinit(hn_driver *d) {
    destroy(d->weights_program);
    d->weights_program = NULL;
}

/* ---- now ---- */

/* By a module, like any other program: its storages have the bytes of those that they are. */
static hn_status run(const hn_driver_weights *w, hn_tensor **outputs, uint32_t count) {
    hn_module *module;
    HN_TRY(hn_module_load_memory(w->image.ptr, w->image.len, false,
                                 &(hn_module_options){.skip_digest = true, .debug_tensors = "off"},
                                 &module));
    hn_status status = hn_module_run(module, NULL, 0, outputs, count);
    hn_module_release(module);
    return status;
}

/* The bytes of an output, which is row-major. */
static hn_status put_constant(hn_driver *d, hn_storage *storage, const hn_tensor *t) {
    uint8_t *bytes;
    HN_NEW(&d->arena, bytes, storage->size_bytes + 1);
    if (storage->size_bytes) memcpy(bytes, hn_tensor_data(t), storage->size_bytes);
    storage->data = bytes;
    storage->computed = 0;
    return NULL;
}

static hn_status put_constants(hn_driver *d, hn_tensor *const *outputs) {
    hn_graph *g = d->graph;
    hn_driver_weights_count(d); /* hn_driver_count finds nothing any more */
    for (uint32_t k = 1; k < g->storages.count; k++) {
        hn_storage *storage = &g->storages.items[k];
        if (storage->computed) HN_TRY(put_constant(d, storage, outputs[storage->computed - 1]));
    }
    g->weights_program = NULL;
    return NULL;
}

static hn_status compute(hn_driver *d, hn_driver_weights *w) {
    hn_graph *g = w->driver.graph;
    hn_tensor **outputs;
    HN_NEW(&d->arena, outputs, g->outputs.count + 1u);
    w->options.embed_weights = true;
    HN_TRY(begin(&w->driver));
    HN_TRY(end(w, false));
    hn_status status = run(w, outputs, g->outputs.count);
    if (!status) status = put_constants(d, outputs);
    for (uint32_t k = 0; k < g->outputs.count; k++) hn_tensor_release(outputs[k]);
    return status;
}

/* On a machine without a compiler the interpreter does it, when the bytes are asked for. */
hn_status hn_driver_weights_compute(hn_driver *d) {
    hn_driver_weights *w = NULL;
    if (!d->graph->weights_program) return NULL;
    HN_TRY(create(d, NULL, &w));
    hn_status status = compute(d, w);
    destroy(w);
    if (hn_status_code(status) != HN_NOT_FOUND && hn_status_code(status) != HN_TOOLCHAIN)
        return blame(status);
    hn_log("pass", HN_LOG_INFO, "weights are computed by the interpreter: %s",
           hn_status_message(status));
    hn_status_free(status);
    return NULL;
}

/* ---- counters ---- */

void hn_driver_weights_count(hn_driver *d) {
    const hn_graph *g = d->graph;
    for (uint32_t k = 1; k < g->storages.count; k++) {
        if (!g->storages.items[k].computed) continue;
        hn_metrics_count(&d->metrics, HN_METRIC_WEIGHTS_COMPUTED, 1);
        hn_metrics_count(&d->metrics, HN_METRIC_WEIGHTS_COMPUTED_BYTES,
                         (int64_t)g->storages.items[k].size_bytes);
    }
}
