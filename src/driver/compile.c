/* compile.c: from a file or a graph to a program: the phases in order, the graph cache around them. */
#include "driver/driver.h"

#include "base/log.h"
#include "base/trace.h"
#include "driver/graph_cache.h"
#include "driver/key.h"
#include "front/pt2/archive.h"
#include "lower/lower.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

static void driver_init(hn_driver *d, const hn_compile_options *options, hn_service *service) {
    static const hn_compile_options defaults;
    *d = (hn_driver){.options = options ? options : &defaults, .service = service};
    hn_arena_init(&d->arena);
    hn_arena_init(&d->scratch);
}

static void driver_deinit(hn_driver *d) {
    hn_scope_destroy(d->scope);
    hn_arena_deinit(&d->scratch);
    hn_arena_deinit(&d->arena);
}

static uint32_t cpu_count(void) {
    cpu_set_t set;
    return sched_getaffinity(0, sizeof set, &set) == 0 ? (uint32_t)CPU_COUNT(&set) : 1;
}

uint32_t hn_driver_threads(const hn_compile_options *options) {
    return options->threads > 0 ? (uint32_t)options->threads : cpu_count();
}

/* The time since *mark, which moves to now. */
static int64_t lap(int64_t *mark) {
    int64_t now = hn_now_ns(), spent = now - *mark;
    *mark = now;
    return spent;
}

static uint32_t count_loops(const hn_program *p) {
    uint32_t loops = 0;
    for (hn_item i = 1; i < p->items.count; i++) loops += p->items.items[i].kind == HN_ITEM_LOOP;
    return loops;
}

/* Graph to image. */
static hn_status build(hn_driver *d, hn_strbuf *image) {
    int64_t mark = hn_now_ns();
    hn_wrapper *wrapper;
    HN_TRY(hn_driver_passes(d));
    d->stats.opt_ns = lap(&mark);
    d->stats.nodes = d->graph->nodes.count - 1;
    HN_TRY(hn_lower(d->graph, &d->arena, &d->scratch, &d->program));
    HN_TRY(hn_program_verify(d->program));
    hn_driver_dump_program(d, "lower");
    d->stats.lower_ns = lap(&mark);
    d->stats.loops = count_loops(d->program);
    hn_sched_options sched = {.threads = hn_driver_threads(d->options),
                              .no_fusion = d->options->no_fusion};
    hn_strbuf text;
    hn_strbuf_init(&text);
    const char *dump_after = d->options->dump_after ? d->options->dump_after : "";
    if (strcmp(dump_after, "fusion") == 0) sched.explain = &text;
    if (strcmp(dump_after, "sched") == 0) sched.fused = &text;
    hn_arena_reset(&d->scratch);
    hn_status status = hn_schedule_program(d->program, &sched, &d->arena, &d->scratch, &d->schedule);
    if (sched.explain || sched.fused) hn_driver_dump_text(d, dump_after, &text);
    if (status) return status;
    d->stats.sched_ns = lap(&mark);
    hn_arena_reset(&d->scratch);
    HN_TRY(hn_driver_print_kernels(d));
    if (d->options->source_dir) return hn_driver_source(d);
    HN_TRY(hn_driver_submit(d));
    d->stats.codegen_ns = lap(&mark);
    HN_TRY(hn_driver_emit(d, &wrapper));
    return hn_driver_image(d, wrapper, image);
}

static hn_status compiled_create(const char *weights_path, hn_compiled **out) {
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

static hn_status set_target(hn_driver *d) {
    if (d->options->target_cpu) return hn_c_target_named(hn_str_of(d->options->target_cpu), &d->target);
    hn_c_target_host(&d->target);
    return NULL;
}

hn_status hn_compile_graph(hn_graph *graph, hn_service *service, const hn_compile_options *options, hn_compiled **out) {
    hn_driver d;
    driver_init(&d, options, service);
    d.graph = graph;
    d.sym = graph->sym;
    int64_t begin = hn_now_ns();
    hn_compiled *c = NULL;
    hn_status status = compiled_create(NULL, &c);
    if (!status) status = set_target(&d);
    if (!status) status = build(&d, &c->image);
    if (!status) {
        d.stats.total_ns = hn_now_ns() - begin;
        c->stats = d.stats;
        *out = c;
    } else {
        hn_compiled_release(c);
    }
    driver_deinit(&d);
    return status;
}

/* --- files and the graph cache --- */

static hn_status key_record(hn_driver *d, hn_pt2 *file, const char *path, hn_strbuf *out) {
    hn_digest compiler;
    HN_TRY(hn_service_toolchain_identity(d->service, "c", &compiler));
    return hn_driver_key_record(file, path, d->options, &d->target, &compiler, out);
}

/* The key needs the compiler's identity. A machine without one has no use for the cache of graphs either. */
static bool find_key(hn_driver *d, hn_pt2 *file, const char *path, hn_strbuf *record, hn_digest *out) {
    hn_status status = key_record(d, file, path, record);
    if (!status) {
        *out = hn_digest_of(record->ptr, record->len);
        return true;
    }
    hn_log("cache", HN_LOG_INFO, "no graph cache key: %s", hn_status_message(status));
    hn_status_free(status);
    return false;
}

/* The weights are read beside the compilation and judged before anybody sees its result. What failed on damaged weights
 * failed because of them. */
static hn_status build_verified(hn_driver *d, hn_pt2 *file, hn_strbuf *image) {
    hn_pt2_verifier *verifier;
    uint32_t cpus = cpu_count();
    if (d->options->verify) return build(d, image); /* compile_cached has read all */
    HN_TRY(hn_pt2_verify_begin(file, cpus > 1 ? cpus - 1 : 1, &verifier));
    hn_status built = build(d, image), verified = hn_pt2_verify_end(verifier);
    if (!verified) return built;
    hn_status_free(built);
    return verified;
}

static hn_status import_and_build(hn_driver *d, hn_pt2 *file, const char *path, hn_compiled *c) {
    int64_t mark = hn_now_ns();
    d->weights_path = path;
    d->weights = file->map;
    HN_TRY(hn_sym_create(&d->arena, &d->sym));
    HN_TRY(hn_pt2_import(file, d->options->model, &d->arena, d->sym, &d->graph));
    d->stats.import_ns = lap(&mark);
    d->stats.nodes_imported = d->graph->nodes.count - 1;
    hn_status status = build_verified(d, file, &c->image);
    hn_graph_deinit(d->graph);
    return status;
}

static void note_hit(hn_compile_stats *s) {
    s->import_ns = s->opt_ns = s->lower_ns = s->sched_ns = s->codegen_ns = s->compile_ns = s->bundle_ns = 0;
    s->kernels_cached = s->kernels_unique;
    s->kernels_compiled = s->kernels_remote = 0;
    s->graph_cache = HN_CACHE_HIT;
}

/* A program from the remote cache was compiled from a file of the same name, size, time and checksums, but not from this
 * one: its weights are compared here as a compilation would. */
static hn_status accept_remote(hn_driver *d, hn_pt2 *file, hn_cache *cache, const hn_digest *key) {
    hn_status status = d->options->verify ? NULL : hn_pt2_verify_all(file, cpu_count());
    if (status) hn_store_remove(cache->store, HN_STORE_GRAPH, key);
    return status;
}

static hn_status compile_cached(hn_driver *d, hn_pt2 *file, const char *path, hn_compiled *c, hn_strbuf *record) {
    hn_cache *cache;
    hn_digest key;
    HN_TRY(hn_service_cache(d->service, &cache));
    HN_TRY(set_target(d));
    if (d->options->verify) HN_TRY(hn_pt2_verify_all(file, cpu_count()));
    bool cached = !d->options->no_cache && !d->options->dump_after && !d->options->source_dir && find_key(d, file, path, record, &key);
    hn_cache_level level = cached ? hn_graph_cache_get(cache, &key, c) : HN_LEVEL_NONE;
    if (level != HN_LEVEL_NONE) {
        note_hit(&c->stats);
        c->stats.graph_remote = level == HN_LEVEL_REMOTE;
        return c->stats.graph_remote ? accept_remote(d, file, cache, &key) : NULL;
    }
    hn_strbuf_reset(&c->image);
    HN_TRY(import_and_build(d, file, path, c));
    d->stats.graph_cache = cached ? HN_CACHE_MISS : HN_CACHE_OFF;
    c->stats = d->stats;
    if (cached) hn_graph_cache_put(cache, &key, hn_strbuf_str(record), c, d->unit_keys, d->units.count);
    return NULL;
}

/* What the remote cache did for this compilation. */
static void note_remote(hn_driver *d, hn_compile_stats *s) {
    hn_service_stats all;
    hn_service_stats_get(d->service, &all);
    memset(&s->remote, 0, sizeof s->remote);
    s->remote.is_on = all.remote.is_on;
    if (!s->remote.is_on) return;
    hn_service_wait_stored(d->service);
    hn_service_stats_get(d->service, &all);
    s->remote.hits = all.remote.hits;
    s->remote.misses = all.remote.misses;
    s->remote.puts = all.remote.puts;
    s->remote.damaged = all.remote.damaged;
    s->remote.failures = all.remote.failures;
    s->remote.skipped = all.remote.skipped;
    s->remote.total_ns = all.remote.total_ns;
}

static hn_status compile_open_file(hn_driver *d, hn_pt2 *file, const char *path, hn_compiled *c) {
    hn_strbuf record;
    hn_strbuf_init(&record);
    hn_status status = compile_cached(d, file, path, c, &record);
    hn_strbuf_deinit(&record);
    return status;
}

static hn_status open_service(hn_driver *d) {
    hn_service_options service = {.cache_dir = d->options->no_cache ? "" : d->options->cache_dir,
                                  .remote_url = d->options->no_cache ? "" : d->options->remote_url,
                                  .threads = d->options->compile_threads};
    return hn_service_create(&service, &d->service);
}

hn_status hn_compile_file(const char *path, const hn_compile_options *options, hn_compiled **out) {
    int64_t begin = hn_now_ns();
    hn_driver d;
    driver_init(&d, options, NULL);
    hn_pt2 *file = NULL;
    hn_compiled *c = NULL;
    hn_status status = hn_pt2_open(path, &file);
    if (!status) status = compiled_create(path, &c);
    if (!status) status = open_service(&d);
    if (!status) status = compile_open_file(&d, file, path, c);
    if (!status) note_remote(&d, &c->stats);
    driver_deinit(&d);
    hn_service_destroy(d.service);
    hn_pt2_close(file);
    if (status) {
        hn_compiled_release(c);
        return hn_status_annotate(status, "cannot compile '%s'", path);
    }
    c->stats.total_ns = hn_now_ns() - begin;
    *out = c;
    return NULL;
}

/* The key record of a model, as these options ask for it; then `use` with the service open. */
static hn_status with_key(const char *path, const hn_compile_options *options, void *out,
                          hn_status (*use)(hn_service *service, hn_str record, void *out)) {
    hn_driver d;
    driver_init(&d, options, NULL);
    hn_pt2 *file = NULL;
    hn_strbuf record;
    hn_strbuf_init(&record);
    hn_status status = hn_pt2_open(path, &file);
    if (!status) status = open_service(&d);
    if (!status) status = set_target(&d);
    if (!status) status = key_record(&d, file, path, &record);
    if (!status) status = use(d.service, hn_strbuf_str(&record), out);
    driver_deinit(&d);
    hn_strbuf_deinit(&record);
    hn_service_destroy(d.service);
    hn_pt2_close(file);
    return status;
}

static hn_status say_why(hn_service *service, hn_str record, void *out) {
    return hn_store_why(hn_service_store(service), HN_STORE_GRAPH, record, out);
}

hn_status hn_driver_why(const char *path, const hn_compile_options *options, hn_strbuf *out) {
    return with_key(path, options, out, say_why);
}

static hn_status list_entries(hn_service *service, hn_str record, void *out) {
    hn_cache *cache;
    HN_TRY(hn_service_cache(service, &cache));
    hn_digest key = hn_digest_of(record.ptr, record.len);
    return hn_graph_cache_list(cache, &key, out);
}

hn_status hn_driver_list_entries(const char *path, const hn_compile_options *options, hn_entry_list *out) {
    hn_status status = with_key(path, options, out, list_entries);
    if (hn_status_code(status) != HN_NOT_FOUND || !hn_file_exists(path)) return status;
    return hn_status_annotate(status, "cannot export '%s', run or compile it first, with the same options", path);
}

/* --- the result --- */

hn_status hn_compiled_load(const hn_compiled *c, const hn_module_options *options, hn_module **out) {
    hn_module_options own = options ? *options : (hn_module_options){0};
    if (!own.weights_path) own.weights_path = c->weights_path;
    return hn_module_load_memory(c->image.ptr, c->image.len, false, &own, out);
}

hn_status hn_compiled_save(const hn_compiled *c, const char *path) {
    return hn_file_write_atomic(path, c->image.ptr, c->image.len, true);
}

const void *hn_compiled_image(const hn_compiled *c, size_t *out_len) {
    *out_len = c->image.len;
    return c->image.ptr;
}

void hn_compiled_stats_get(const hn_compiled *c, hn_compile_stats *out) { *out = c->stats; }

void hn_compiled_release(hn_compiled *c) {
    if (!c) return;
    hn_strbuf_deinit(&c->image);
    free(c->weights_path);
    free(c);
}
