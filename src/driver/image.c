/* image.c: makes the wrapper, waits for the compiled objects and makes the bundle image. */
#include "driver/picked.h"

#include "base/trace.h"
#include "wrapper/carry.h"
#include "wrapper/from_schedule.h"

#include <string.h>
#include <sys/stat.h>

/* Where the kernels of a unit came from, and for which level they are. */
static void count_kernels(hn_driver *d, uint32_t unit, hn_hit_level hit, uint32_t *out_level) {
    for (uint32_t l = 0; l < d->level_count; l++) {
        for (uint32_t k = 0; k < d->levels[l].unique.count; k++) {
            if (d->levels[l].unit_of[k] != unit) continue;
            *out_level = l;
            d->stats.kernels_compiled += hit == HN_HIT_NONE;
            d->stats.kernels_cached += hit != HN_HIT_NONE;
            d->stats.kernels_remote += hit == HN_HIT_REMOTE;
        }
    }
}

/* A unit that was compiled for this program, and submitted again (fit.c), comes from no cache. */
static hn_hit_level hit_of(const hn_driver *d, uint32_t unit, const hn_artifact *artifact) {
    const hn_str key = hn_str_of(hn_artifact_key(artifact));
    return hn_strmap_get(&d->compiled, key) ? HN_HIT_NONE
                                            : hn_future_hit_level(d->units.items[unit]);
}

hn_status hn_driver_object_take(const hn_artifact *artifact, const hn_target *target,
                                hn_bundle_object *out) {
    hn_image image;
    if (!target->architecture) {
        out->bytes = hn_artifact_bytes(artifact, &out->len);
        return NULL;
    }
    HN_TRY(hn_artifact_image_find(artifact, target->architecture, &image));
    out->bytes = image.bytes;
    out->len = image.len;
    out->is_ptx = image.kind == HN_IMAGE_PTX;
    return NULL;
}

hn_status hn_driver_objects(hn_driver *d, hn_artifact **artifacts, hn_bundle_object *objects) {
    HN_NEW(&d->arena, d->unit_keys, d->units.count);
    HN_TRY(hn_scope_wait(d->scope, HN_OPT(&d->options, progress),
                         HN_OPT(&d->options, progress_context)));
    for (uint32_t u = 0; u < d->units.count; u++) {
        HN_TRY(hn_future_wait(d->units.items[u], -1, &artifacts[u]));
        objects[u].name = hn_str_of("kernels");
        if (!hn_store_key_parse(hn_artifact_key(artifacts[u]), &d->unit_keys[u]))
            return HN_ERROR(HN_INTERNAL, "a kernel has no key");
        count_kernels(d, u, hit_of(d, u, artifacts[u]), &objects[u].target);
        HN_TRY(
            hn_driver_object_take(artifacts[u], &d->levels[objects[u].target].target, &objects[u]));
    }
    return NULL;
}

/* Before the plan: no line says where memory begins and ends. */
static hn_status dump_wrapper(hn_driver *d, const hn_wrapper *w) {
    const char *stage = HN_OPT(&d->options, dump_after);
    hn_strbuf text;
    if (!stage || strcmp(stage, "wrapper") != 0) return NULL;
    hn_strbuf_init(&text);
    hn_wrapper_print(w, &text);
    hn_status status = hn_strbuf_status(&text);
    if (!status) hn_driver_dump_text(d, stage, &text);
    else hn_strbuf_deinit(&text);
    return status;
}

hn_status hn_driver_wrapper(hn_driver *d, hn_wrapper **out) {
    hn_wrapper_target targets[HN_LEVELS_MAX];
    for (uint32_t l = 0; l < d->level_count; l++)
        targets[l] = (hn_wrapper_target){d->levels[l].step_kernels};
    const hn_wrapper_source source = {.program = d->program,
                                      .schedule = &d->schedule,
                                      .operations = d->levels[0].target.kind->limits->operations,
                                      .targets = targets,
                                      .target_count = d->level_count,
                                      .work = d->work};
    HN_TRY(hn_wrapper_from_schedule(&source, &d->arena, &d->scratch, out));
    (*out)->limit = hn_driver_limit(d);
    HN_TRY(hn_wrapper_carry(*out));
    HN_TRY(hn_wrapper_swap(*out));
    HN_TRY(hn_wrapper_host_memory(*out));
    return dump_wrapper(d, *out);
}

/* Every level as a target. `features` has a buffer for each. */
static hn_status make_targets(hn_driver *d, hn_strbuf *features, hn_bundle_target *out) {
    for (uint32_t l = 0; l < d->level_count; l++) {
        hn_target_features(&d->levels[l].target, &features[l]);
        HN_TRY(hn_strbuf_status(&features[l]));
        const hn_target *target = &d->levels[l].target;
        out[l] = (hn_bundle_target){.name = hn_str_of(target->name),
                                    .features = hn_strbuf_str(&features[l]),
                                    .device = target->kind->device};
    }
    return NULL;
}

static hn_status make_image_with(hn_driver *d, hn_wrapper *wrapper, const hn_bundle_object *objects,
                                 bool is_of_weights, hn_str weights_program, hn_str tuning,
                                 hn_strbuf *out) {
    hn_memory_plan plan;
    hn_strbuf features[HN_LEVELS_MAX];
    hn_bundle_target targets[HN_LEVELS_MAX];
    for (uint32_t l = 0; l < HN_LEVELS_MAX; l++) hn_strbuf_init(&features[l]);
    struct stat st = {0};
    hn_to_bundle_options options = {.model = d->graph->name,
                                    .key = d->key,
                                    .tuning = tuning,
                                    .is_of_weights = is_of_weights,
                                    .weights_program = weights_program,
                                    .embed_weights = HN_OPT(&d->options, embed_weights),
                                    /* of a file that is referred to: hn_compiled_save */
                                    .full_digest = HN_OPT(&d->options, embed_weights)};
    const char *safetensors = HN_OPT(&d->options, safetensors);
    if (safetensors && !HN_OPT(&d->options, embed_weights)) {
        const char *slash = strrchr(safetensors, '/');
        options.safetensors = safetensors;
        options.weights_path = hn_str_of(slash ? slash + 1 : safetensors);
    } else if (d->weights_path && !HN_OPT(&d->options, embed_weights)) {
        options.weights_path = hn_str_of(d->weights_path);
        options.weights_data = d->weights.data;
        options.weights_bytes = d->weights.size_bytes;
        if (stat(d->weights_path, &st) == 0)
            options.weights_mtime_ns = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec;
    }
    hn_status status = make_targets(d, features, targets);
    if (!status) status = hn_driver_plan(d, wrapper, &plan);
    if (!status)
        status = hn_wrapper_to_bundle(
            wrapper, &plan, &(hn_bundle_objects){objects, d->units.count, targets, d->level_count},
            &options, out);
    for (uint32_t l = 0; l < HN_LEVELS_MAX; l++) hn_strbuf_deinit(&features[l]);
    return status;
}

/* With the records that its kernels were picked by. */
static hn_status make_image(hn_driver *d, hn_wrapper *wrapper, const hn_bundle_object *objects,
                            bool is_of_weights, hn_str weights_program, hn_strbuf *out) {
    hn_strbuf tuning;
    hn_strbuf_init(&tuning);
    if (d->picks) hn_tuning_list_print(&d->picks->decided, &tuning);
    hn_status status = hn_strbuf_status(&tuning);
    if (!status)
        status = make_image_with(d, wrapper, objects, is_of_weights, weights_program,
                                 hn_strbuf_str(&tuning), out);
    hn_strbuf_deinit(&tuning);
    return status;
}

static hn_status wait_and_make(hn_driver *d, hn_wrapper *wrapper, bool is_of_weights,
                               hn_strbuf *out) {
    hn_artifact **artifacts;
    hn_bundle_object *objects;
    HN_NEW(&d->scratch, artifacts, d->units.count);
    HN_NEW(&d->scratch, objects, d->units.count);
    hn_str weights_program = HN_STR("");
    int64_t mark = hn_now_ns();
    hn_status status = hn_driver_objects(d, artifacts, objects);
    if (!status) status = hn_driver_weights_end(d, &weights_program);
    d->stats.compile_ns += hn_driver_lap(&mark, "wait for compilers");
    if (!status) status = make_image(d, wrapper, objects, is_of_weights, weights_program, out);
    d->stats.bundle_ns = hn_driver_lap(&mark, "bundle");
    for (uint32_t u = 0; u < d->units.count; u++) hn_artifact_release(artifacts[u]);
    return status;
}

hn_status hn_driver_image(hn_driver *d, hn_wrapper *wrapper, hn_strbuf *out) {
    return wait_and_make(d, wrapper, false, out);
}

hn_status hn_driver_image_of_weights(hn_driver *d, hn_wrapper *wrapper, hn_strbuf *out) {
    return wait_and_make(d, wrapper, true, out);
}
