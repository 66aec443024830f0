/* compile.c: from a graph to a program: the phases in order. */
#include "driver/fusion.h"
#include "driver/tuning.h"

#include "base/cpu.h"
#include "base/require.h"
#include "base/trace.h"
#include "bundle/weights.h"
#include "lower/lower.h"

#include <stdlib.h>
#include <string.h>

void hn_driver_init(hn_driver *d, const hn_compile_options *options, hn_service *service) {
    *d = (hn_driver){.service = service};
    hn_options_init(&d->options, options, &d->marks);
    hn_arena_init(&d->arena);
    hn_arena_init(&d->scratch);
    hn_strmap_init(&d->compiled, &d->arena);
}

void hn_driver_deinit(hn_driver *d) {
    hn_driver_weights_deinit(d);
    hn_tune_report_destroy(d->tuned);
    hn_scope_destroy(d->scope);
    hn_tables_deinit(&d->tables);
    hn_arena_deinit(&d->scratch);
    hn_arena_deinit(&d->arena);
}

int64_t hn_driver_lap(int64_t *mark, const char *phase) {
    int64_t now = hn_now_ns(), spent = now - *mark;
    hn_trace_span("phase", phase, *mark, now);
    *mark = now;
    return spent;
}

static uint32_t count_loops(const hn_program *p) {
    uint32_t loops = 0;
    for (hn_item i = 1; i < p->items.count; i++) loops += p->items.items[i].kind == HN_ITEM_LOOP;
    return loops;
}

static hn_status lower(hn_driver *d) {
    const hn_target_kind *kind = d->levels[0].target.kind;
    d->stats.nodes = d->graph->nodes.count - 1;
    const hn_lower_options options = {.operations = kind->limits->operations,
                                      .limit = hn_driver_limit(d),
                                      .deterministic = HN_OPT(&d->options, deterministic)};
    HN_TRY(hn_lower(d->graph, &options, &d->arena, &d->scratch, &d->program));
    hn_program_set_device(d->program, kind->device);
    HN_TRY(hn_program_verify(d->program));
    hn_driver_dump_program(d, "lower");
    d->stats.loops = count_loops(d->program);
    return NULL;
}

/* Of who looks for a fault, else what tuning allows. */
static hn_limit *limit_of_fusion(const hn_driver *d) {
    return d->limits || !d->fusion ? hn_driver_limit(d) : &d->fusion->limit;
}

static hn_status schedule(hn_driver *d) {
    const hn_target *target = &d->levels[0].target;
    hn_sched_options sched = {.threads = hn_target_threads(target, hn_options_threads(&d->options)),
                              .limits = target->kind->limits,
                              .no_fusion = HN_OPT(&d->options, no_fusion),
                              .limit = limit_of_fusion(d),
                              .deterministic = HN_OPT(&d->options, deterministic)};
    hn_strbuf text;
    hn_strbuf_init(&text);
    const char *dump_after = HN_OPT(&d->options, dump_after) ? HN_OPT(&d->options, dump_after) : "";
    if (strcmp(dump_after, "fusion") == 0) sched.explain = &text;
    if (strcmp(dump_after, "sched") == 0) sched.fused = &text;
    hn_arena_reset(&d->scratch);
    hn_status status =
        hn_schedule_program(d->program, &sched, &d->arena, &d->scratch, &d->schedule);
    if (sched.explain || sched.fused) hn_driver_dump_text(d, dump_after, &text);
    return status;
}

hn_status hn_driver_schedule(hn_driver *d) {
    int64_t mark = hn_now_ns();
    d->schedule = (hn_schedule){0};
    HN_TRY(lower(d));
    d->stats.lower_ns = hn_driver_lap(&mark, "lower");
    HN_TRY(schedule(d));
    d->stats.sched_ns = hn_driver_lap(&mark, "schedule");
    hn_arena_reset(&d->scratch);
    return NULL;
}

hn_status hn_driver_kernels(hn_driver *d) {
    d->tune_begin_ns = hn_tune_now(d);
    HN_TRY(hn_driver_picks_begin(d));
    HN_TRY(hn_driver_fusion_begin(d));
    HN_TRY(hn_driver_schedule(d));
    int64_t mark = hn_now_ns();
    HN_TRY(hn_driver_tune_fusion(d));
    HN_TRY(hn_driver_tune(d));
    hn_driver_lap(&mark, "tune");
    hn_arena_reset(&d->scratch);
    HN_TRY(hn_driver_print_kernels(d));
    HN_TRY(hn_driver_forced_end(d));
    d->stats.codegen_ns = hn_driver_lap(&mark, "print kernels");
    return NULL;
}

/* The compile service makes objects for this machine's instruction set. */
static hn_status check_machines(const hn_driver *d) {
    for (uint32_t l = 0; l < d->level_count; l++) {
        const hn_target *target = &d->levels[l].target;
        if (target->machine && target->machine != HN_MACHINE_HERE)
            return HN_ERROR(HN_UNSUPPORTED,
                            "programs for '%s' are not compiled on this machine; --emit source "
                            "writes a C project for it, which a cross compiler builds",
                            target->name);
    }
    return NULL;
}

static hn_status build(hn_driver *d, hn_strbuf *image) {
    const bool is_project = HN_OPT(&d->options, source_dir) != NULL;
    HN_TRY(is_project ? hn_driver_weights_compute(d) : hn_driver_weights_begin(d));
    HN_TRY(hn_driver_kernels(d));
    int64_t mark = hn_now_ns();
    HN_TRY(hn_driver_count(d));
    d->stats.count_ns = hn_driver_lap(&mark, "count");
    if (is_project) return hn_driver_source(d);
    HN_TRY(check_machines(d));
    HN_TRY(hn_driver_submit(d));
    d->stats.codegen_ns +=
        hn_driver_lap(&mark, "submit kernels") - d->stats.compile_ns; /* fit.c waits */
    HN_TRY(hn_driver_wrapper(d, &d->wrapper));
    hn_driver_lap(&mark, "wrapper");
    return hn_driver_image(d, d->wrapper, image);
}

hn_status hn_driver_build(hn_driver *d, hn_strbuf *image) {
    HN_TRY(build(d, image));
    return hn_driver_tables_end(d, image);
}

hn_status hn_compiled_create(const char *weights_path, hn_compiled **out) {
    hn_compiled *c = calloc(1, sizeof *c);
    if (!c) return HN_ERROR(HN_OUT_OF_MEMORY, "out of memory for a compiled program");
    hn_strbuf_init(&c->image);
    if (weights_path && !(c->weights_path = strdup(weights_path))) {
        free(c);
        return HN_ERROR(HN_OUT_OF_MEMORY, "out of memory for a compiled program");
    }
    *out = c;
    return NULL;
}

/* Best first, each once. All run the kernels on one kind of device. */
static hn_status add_level(hn_driver *d, const hn_target *target) {
    uint32_t at = 0;
    if (d->level_count && d->levels[0].target.kind != target->kind)
        return HN_ERROR(
            HN_INVALID_ARGUMENT,
            "one program is not for '%s' and '%s', which are different kinds of device; name one",
            d->levels[0].target.name, target->name);
    while (at < d->level_count && d->levels[at].target.rank > target->rank) at++;
    if (at < d->level_count && strcmp(d->levels[at].target.name, target->name) == 0) return NULL;
    if (d->level_count == HN_LEVELS_MAX)
        return HN_ERROR(HN_INVALID_ARGUMENT, "more than %d targets", HN_LEVELS_MAX);
    memmove(&d->levels[at + 1], &d->levels[at], (d->level_count++ - at) * sizeof *d->levels);
    d->levels[at] = (hn_driver_level){.target = *target};
    return NULL;
}

hn_status hn_driver_targets(hn_driver *d) {
    const char *names = HN_OPT(&d->options, target) ? HN_OPT(&d->options, target) : "host";
    d->level_count = 0;
    while (true) {
        size_t len = strcspn(names, ",");
        hn_target target;
        HN_TRY(hn_target_named((hn_str){names, len}, &target));
        HN_TRY(add_level(d, &target));
        if (!names[len]) break;
        names += len + 1;
    }
    for (uint32_t l = 0; l < d->level_count; l++) d->targets[l] = &d->levels[l].target;
    d->options.targets = d->targets;
    d->options.target_count = d->level_count;
    return NULL;
}

hn_status hn_compile_graph(hn_graph *graph, hn_service *service, const hn_compile_options *options,
                           hn_compiled **out) {
    hn_driver d;
    hn_driver_init(&d, options, service);
    d.graph = graph;
    d.sym = graph->sym;
    int64_t begin = hn_now_ns();
    hn_compiled *c = NULL;
    hn_status status = hn_compiled_create(NULL, &c);
    if (!status) status = hn_driver_targets(&d);
    if (!status) status = hn_driver_tables_open(&d);
    d.stats.nodes_imported = graph->nodes.count - 1;
    if (!status) status = hn_driver_passes(&d);
    if (!status) d.stats.opt_ns = hn_now_ns() - begin;
    if (!status) status = hn_driver_build(&d, &c->image);
    if (!status) {
        d.stats.total_ns = hn_now_ns() - begin;
        c->stats = d.stats;
        c->metrics = d.metrics;
        c->tuned = d.tuned, d.tuned = NULL;
        hn_driver_tables_note(&d, c);
        hn_compiled_count(c);
        hn_metrics_publish(&c->metrics);
        *out = c;
    } else {
        hn_compiled_release(c);
    }
    hn_driver_deinit(&d);
    return status;
}

/* --- the result --- */

hn_status hn_compiled_load(const hn_compiled *c, const hn_module_options *options,
                           hn_module **out) {
    HN_REQUIRE(c, "compiled");
    HN_REQUIRE(out, "out");
    hn_module_options own = options ? *options : (hn_module_options){0};
    if (!own.weights_path) own.weights_path = c->weights_path;
    /* the image was just made, or the cache has compared its checksum; it may have constants of
     * hundreds of megabytes, of which a digest takes a second for each gigabyte */
    own.skip_digest = true;
    return hn_module_load_memory(c->image.ptr, c->image.len, false, &own, out);
}

/* A file says more than a program that runs at once: the digest of the weights that it refers to.
 * Reading all of them costs about a second for each gigabyte. */
static hn_status save_with_digest(const hn_compiled *c, const char *path) {
    hn_bundle b;
    hn_strbuf image;
    hn_strbuf_init(&image);
    hn_strbuf_append(&image, c->image.ptr, c->image.len);
    hn_status status = hn_strbuf_status(&image);
    if (!status) status = hn_bundle_open(image.ptr, image.len, false, &b);
    if (!status) status = hn_bundle_weights_record(&b, (uint8_t *)image.ptr, path, c->weights_path);
    if (!status) status = hn_file_write_atomic(path, image.ptr, image.len, true);
    hn_strbuf_deinit(&image);
    return status;
}

hn_status hn_compiled_save(const hn_compiled *c, const char *path) {
    hn_bundle b;
    HN_REQUIRE(c, "compiled");
    HN_REQUIRE(path, "path");
    HN_TRY(hn_bundle_open(c->image.ptr, c->image.len, false, &b));
    if (b.weight_files_count && hn_bundle_digest_is_unknown(b.weight_files[0].full_digest))
        return save_with_digest(c, path);
    return hn_file_write_atomic(path, c->image.ptr, c->image.len, true);
}

const void *hn_compiled_image(const hn_compiled *c, size_t *out_len) {
    if (out_len) *out_len = c ? c->image.len : 0;
    return c ? c->image.ptr : NULL;
}

void hn_compiled_stats_get(const hn_compiled *c, hn_compile_stats *out) {
    if (out) *out = c ? c->stats : (hn_compile_stats){0};
}

void hn_compiled_metrics_get(const hn_compiled *c, hn_metrics *out) {
    if (out) *out = c ? c->metrics : (hn_metrics){0};
}

void hn_compiled_release(hn_compiled *c) {
    if (!c) return;
    hn_strbuf_deinit(&c->image);
    hn_tune_report_destroy(c->tuned);
    free(c->weights_path);
    free(c);
}
