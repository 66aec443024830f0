/* image.c: waits for the compiled objects and makes the bundle image. */
#include "driver/driver.h"

#include "base/trace.h"
#include "wrapper/to_bundle.h"

#include <string.h>
#include <sys/stat.h>

/* "-mavx2 -mfma" -> "avx2\0fma\0": what a machine must have to run the kernels. Options that are no features stay out. */
void hn_driver_features(const hn_c_target *target, hn_strbuf *out) {
    for (const char *at = target->flags; *at;) {
        size_t len = strcspn(at, " ");
        if (len > 2 && memcmp(at, "-m", 2) == 0 && !memchr(at, '=', len)) {
            hn_strbuf_append(out, at + 2, len - 2);
            hn_strbuf_putc(out, '\0');
        }
        at += len;
        while (*at == ' ') at++;
    }
}

static bool show_progress(void *context, const hn_scope_progress *progress) {
    const hn_compile_options *options = context;
    options->progress(options->progress_context, progress->done, progress->total, progress->elsewhere);
    return true;
}

static hn_status collect_objects(hn_driver *d, hn_artifact **artifacts, hn_bundle_object *objects) {
    HN_NEW(&d->arena, d->unit_keys, d->units.count);
    HN_TRY(hn_scope_wait(d->scope, d->options->progress ? show_progress : NULL, (void *)(uintptr_t)d->options));
    for (uint32_t u = 0; u < d->units.count; u++) {
        HN_TRY(hn_future_wait(d->units.items[u], -1, &artifacts[u]));
        objects[u].bytes = hn_artifact_bytes(artifacts[u], &objects[u].len);
        objects[u].digest = hn_digest_of(objects[u].bytes, objects[u].len);
        objects[u].name = hn_str_of("kernels");
        if (!hn_store_key_parse(hn_artifact_key(artifacts[u]), &d->unit_keys[u])) return HN_ERROR(HN_INTERNAL, "a kernel has no key");
        hn_hit_level level = hn_future_hit_level(d->units.items[u]);
        bool compiled = level == HN_HIT_NONE;
        for (uint32_t k = 0; k < d->unique.count; k++) {
            if (d->unit_of[k] != u) continue;
            d->stats.kernels_compiled += compiled;
            d->stats.kernels_cached += !compiled;
            d->stats.kernels_remote += level == HN_HIT_REMOTE;
        }
    }
    return NULL;
}

hn_status hn_driver_plan(hn_wrapper *wrapper, hn_memory_plan *out) {
    HN_TRY(hn_wrapper_reuse(wrapper));
    HN_TRY(hn_wrapper_plan(wrapper, out));
    return hn_wrapper_verify(wrapper);
}

static hn_status make_image(hn_driver *d, hn_wrapper *wrapper, const hn_bundle_object *objects, hn_strbuf *out) {
    hn_memory_plan plan;
    hn_strbuf features;
    hn_strbuf_init(&features);
    hn_driver_features(&d->target, &features);
    struct stat st = {0};
    hn_to_bundle_options options = {.model = d->graph->name, .cpu_features = hn_strbuf_str(&features),
                                    .embed_weights = d->options->embed_weights,
                                    .full_digest = d->options->verify && d->options->embed_weights};
    if (d->weights_path && !d->options->embed_weights) {
        options.weights_path = hn_str_of(d->weights_path);
        options.weights_data = d->weights.data;
        options.weights_bytes = d->weights.size_bytes;
        if (stat(d->weights_path, &st) == 0) options.weights_mtime_ns = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec;
    }
    hn_status status = hn_strbuf_status(&features);
    if (!status) status = hn_driver_plan(wrapper, &plan);
    if (!status)
        status = hn_wrapper_to_bundle(wrapper, &plan, &(hn_bundle_objects){objects, d->units.count}, &options, out);
    hn_strbuf_deinit(&features);
    return status;
}

hn_status hn_driver_image(hn_driver *d, hn_wrapper *wrapper, hn_strbuf *out) {
    hn_artifact **artifacts;
    hn_bundle_object *objects;
    HN_NEW(&d->scratch, artifacts, d->units.count);
    HN_NEW(&d->scratch, objects, d->units.count);
    int64_t begin = hn_now_ns();
    hn_status status = collect_objects(d, artifacts, objects);
    int64_t compiled = hn_now_ns();
    if (!status) status = make_image(d, wrapper, objects, out);
    d->stats.compile_ns = compiled - begin;
    d->stats.bundle_ns = hn_now_ns() - compiled;
    for (uint32_t u = 0; u < d->units.count; u++) hn_artifact_release(artifacts[u]);
    return status;
}
