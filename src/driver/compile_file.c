/* compile_file.c: from a model file, or its bytes, to a program: the import, the graph cache around
 * the compilation, and programs made for the sizes of a call. */
#include "base/log.h"
#include "base/require.h"
#include "base/trace.h"
#include "cache/record.h"
#include "driver/graph_cache.h"
#include "driver/key.h"
#include "driver/known.h"
#include "driver/programs.h"
#include "driver/sizes.h"
#include "henry/tune.h"

#include <stdlib.h>
#include <string.h>

/* A compilation of a file. */
typedef struct file_job {
    hn_driver driver;
    hn_model_file *file;
    const char *path;    /* NULL: a model in memory, */
    hn_str bytes;        /* these */
    hn_strbuf content;   /* which stand for the file in the key: size and digest */
    hn_strbuf record;    /* of the key */
    hn_strbuf compiler;  /* its identity */
    size_t untuned_len;  /* of the record, without what was measured */
    hn_strbuf image_key; /* what the image records of the key */
    hn_known_tuning known;
    bool wants_report;    /* of a tuning: hn_tune_file */
    hn_graph_query query; /* of the cache of graphs */
    bool is_cached;
    hn_cache_bypass bypass; /* why the cache of graphs is not used */
    bool is_default;        /* made without regard to the sizes of the call */
} file_job;

/* --- the key --- */

/* Nothing else tells a model in memory from another one, or that it has not changed. */
static hn_status describe_content(file_job *j) {
    char hex[HN_DIGEST_HEX_BYTES];
    if (j->path) return NULL;
    hn_digest digest = hn_digest_of(j->bytes.ptr, j->bytes.len);
    hn_digest_hex(&digest, hex);
    hn_strbuf_printf(&j->content, "%zu bytes in memory (%s)", j->bytes.len, hex);
    return hn_strbuf_status(&j->content);
}

static hn_status add_model(file_job *j) {
    hn_strbuf environment;
    HN_TRY(describe_content(j));
    hn_strbuf_init(&environment);
    hn_status status = hn_service_environment(hn_driver_language(&j->driver), &environment);
    hn_graph_key key = {.options = &j->driver.options,
                        .environment = hn_strbuf_str(&environment),
                        .path = j->path,
                        .content = hn_strbuf_str(&j->content)};
    if (!status) status = hn_driver_key_record(j->file, &key, &j->record);
    hn_strbuf_deinit(&environment);
    return status;
}

/* A machine without a compiler runs what another one, or it itself in better days, has compiled. */
static hn_status add_compiler(file_job *j, hn_cache *cache, const hn_digest *bare) {
    hn_status status = hn_service_toolchain_identity(j->driver.service,
                                                     hn_driver_language(&j->driver), &j->compiler);
    if (hn_status_code(status) == HN_NOT_FOUND &&
        hn_graph_cache_compiler(cache, bare, &j->compiler)) {
        hn_log("cache", HN_LOG_INFO, "%s; looking for a program that " HN_STR_FMT " compiled",
               hn_status_message(status), HN_STR_ARG(hn_strbuf_str(&j->compiler)));
        hn_status_free(status);
        status = NULL;
    }
    hn_record_add(&j->record, "compiler", hn_strbuf_str(&j->compiler));
    return status ? status : hn_strbuf_status(&j->record);
}

/* What was measured for this model, if it was tuned. */
static hn_status add_tuning(file_job *j, hn_cache *cache) {
    hn_driver *d = &j->driver;
    j->untuned_len = j->record.len;
    HN_TRY(hn_known_tuning_find(d, cache, j->file, hn_strbuf_str(&j->record), &j->known));
    d->known_tuning = j->known.records;
    return hn_known_tuning_add_field(d, j->known.records, &j->record);
}

static hn_status make_query(file_job *j) {
    hn_options *options = &j->driver.options;
    hn_cache *cache;
    HN_TRY(hn_service_cache(j->driver.service, &cache));
    HN_TRY(add_model(j));
    hn_digest bare = hn_digest_of(j->record.ptr, j->record.len);
    HN_TRY(add_compiler(j, cache, &bare));
    HN_TRY(add_tuning(j, cache));
    j->query = (hn_graph_query){.cache = cache,
                                .file = j->file,
                                .path = j->path,
                                .content = hn_strbuf_str(&j->content),
                                .record = hn_strbuf_str(&j->record),
                                .compiler = hn_strbuf_str(&j->compiler),
                                .bare = bare,
                                .model = HN_OPT(options, model),
                                .is_shared = hn_driver_key_is_shared(j->file, options),
                                .is_verified = HN_OPT(options, verify),
                                .threads = hn_driver_cpu_count()};
    return NULL;
}

static hn_status make_image_key(file_job *j) {
    hn_strbuf_reset(&j->image_key);
    hn_driver_key_for_bundle(hn_strbuf_str(&j->record), &j->image_key);
    HN_TRY(hn_strbuf_status(&j->image_key));
    j->driver.key = hn_strbuf_str(&j->image_key);
    return NULL;
}

/* From here on the key is that of a program with what was just measured. */
static hn_status note_tuning(void *user, hn_str records, bool is_complete) {
    file_job *j = user;
    hn_cache *cache;
    HN_TRY(hn_service_cache(j->driver.service, &cache));
    HN_TRY(hn_known_tuning_keep(&j->driver, cache, &j->known, records, is_complete));
    j->record.len = j->untuned_len;
    HN_TRY(hn_known_tuning_add_field(&j->driver, records, &j->record));
    j->query.record = hn_strbuf_str(&j->record);
    return make_image_key(j);
}

/* Without a key, say for want of a compiler, the compilation goes on and tells what it lacks.
 * Errors: out-of-memory; those of reading the file of tuning records. */
static hn_status find_key(file_job *j, bool *out_has_key) {
    hn_status status = make_query(j);
    if (!status) status = make_image_key(j);
    *out_has_key = !status;
    if (!status) {
        j->driver.on_tuned = note_tuning;
        j->driver.tuned_user = j;
    }
    if (!status || hn_status_code(status) == HN_OUT_OF_MEMORY) return status;
    hn_log("cache", HN_LOG_INFO, "no graph cache key: %s", hn_status_message(status));
    hn_status_free(status);
    return NULL;
}

/* Whether the key covers all that was read. Where it does not, nothing is stored, and under
 * HENRY_CACHE_CHECK the compilation fails. */
static hn_status check_key(file_job *j) {
    hn_status status = hn_options_check(&j->driver.options, hn_strbuf_str(&j->record));
    if (!status) status = hn_driver_key_check(j->file, &j->driver.options);
    if (!status || hn_cache_check_is_on()) return status;
    hn_warn_once("cache", "graph-key", "the program is not kept: %s", hn_status_message(status));
    hn_status_free(status);
    j->is_cached = false;
    j->bypass = HN_BYPASS_UNCOVERED;
    return NULL;
}

/* --- import and passes --- */

static hn_status import(file_job *j) {
    hn_driver *d = &j->driver;
    HN_TRY(hn_sym_create(&d->arena, &d->sym));
    return j->file->importer->import(j->file, HN_OPT(&d->options, model), &d->arena, d->sym,
                                     &d->graph);
}

/* Passes decide by the sizes that are expected: those that the model was exported with, or, with
 * `values`, those of the call. */
static hn_status run_passes(file_job *j, const hn_size_values *values) {
    hn_driver *d = &j->driver;
    int64_t mark = hn_now_ns();
    if (values) hn_sizes_expect(d->sym, values);
    hn_status status = hn_driver_passes(d);
    d->stats.opt_ns = hn_driver_lap(&mark, "passes");
    return status;
}

/* The same graph again; records that passes of the last attempt computed with do not count. */
static hn_status import_again(file_job *j) {
    hn_driver *d = &j->driver;
    hn_graph_deinit(d->graph);
    d->graph = NULL;
    j->file->importer->forget_reads(j->file);
    return import(j);
}

/* The passes, for sizes that what they decide must not exclude. What was decided for the sizes that
 * the model was exported with may exclude these; then everything is decided for these. Where that
 * excludes them too, the model itself does, and the program is the usual one, which says so when it
 * runs. */
static hn_status specialise(file_job *j) {
    hn_driver *d = &j->driver;
    hn_size_values values;
    bool fit;
    const hn_input_sizes *inputs = HN_OPT(&d->options, inputs);
    if (!inputs) return run_passes(j, NULL);
    HN_TRY(hn_sizes_bind(d->graph, inputs, HN_OPT(&d->options, input_count), &d->arena, &values,
                         &fit));
    HN_TRY(run_passes(j, NULL));
    if (!fit || hn_sizes_satisfy(d->sym, &values)) return NULL;
    HN_TRY(import_again(j));
    HN_TRY(hn_sizes_bind(d->graph, inputs, HN_OPT(&d->options, input_count), &d->arena, &values,
                         &fit));
    HN_TRY(run_passes(j, &values));
    j->is_default = !hn_sizes_satisfy(d->sym, &values);
    if (!j->is_default) return NULL;
    HN_TRY(import_again(j));
    return run_passes(j, NULL);
}

/* A file of weights is not written before they have been judged, if anything judges them. */
static bool is_verified_first(const file_job *j) {
    const hn_options *options = &j->driver.options;
    return HN_OPT(options, verify) || (HN_OPT(options, safetensors) && j->file->has_checksums);
}

/* The weights are read beside the compilation and judged before anybody sees its result. What
 * failed on damaged weights failed because of them. */
static hn_status build_verified(file_job *j, hn_strbuf *image) {
    hn_driver *d = &j->driver;
    const hn_importer *importer = j->file->importer;
    uint32_t cpus = hn_driver_cpu_count();
    /* compile_cached has read all */
    if (is_verified_first(j)) return hn_driver_build(d, image);
    HN_TRY(importer->verify_begin(j->file, cpus > 1 ? cpus - 1 : 1));
    hn_status built = hn_driver_build(d, image), verified = importer->verify_end(j->file);
    if (!verified) return built;
    hn_status_free(built);
    return verified;
}

/* --- the cache around it --- */

/* Counters read as after the compilation that made the program. */
static void note_hit(hn_compile_stats *s, hn_cache_level level) {
    s->import_ns = s->opt_ns = s->lower_ns = s->sched_ns = s->codegen_ns = s->compile_ns =
        s->bundle_ns = s->count_ns = 0;
    s->kernels_cached = s->kernels_unique;
    s->kernels_compiled = s->kernels_remote = 0;
    s->graph_cache = HN_CACHE_HIT;
    s->graph_remote = level == HN_LEVEL_REMOTE;
}

/* Whether kernels are to be timed that were not, or the caller wants to hear of them. */
static bool is_to_tune(const file_job *j) {
    const hn_tune_mode mode = HN_OPT(&j->driver.options, tune);
    return j->wants_report || mode == HN_TUNE_AGAIN ||
           (mode == HN_TUNE_MISSING && !j->known.is_complete);
}

static bool look_up(file_job *j, bool for_sizes, hn_compiled *c) {
    const hn_options *options = &j->driver.options;
    const hn_input_sizes *inputs = for_sizes ? HN_OPT(options, inputs) : NULL;
    hn_cache_level level =
        j->is_cached ? hn_graph_cache_get(&j->query, inputs, HN_OPT(options, input_count), c)
                     : HN_LEVEL_NONE;
    if (level == HN_LEVEL_NONE) {
        hn_strbuf_reset(&c->image);
        return false;
    }
    note_hit(&c->stats, level);
    return true;
}

/* Takes the imported graph. */
static hn_status build_and_store(file_job *j, hn_compiled *c) {
    hn_driver *d = &j->driver;
    HN_TRY(specialise(j));
    /* Sizes that the model forbids: the usual program may be there. */
    if (j->is_default && HN_OPT(&d->options, inputs) && look_up(j, false, c)) return NULL;
    HN_TRY(build_verified(j, &c->image));
    d->stats.graph_cache = j->is_cached ? HN_CACHE_MISS : HN_CACHE_OFF;
    c->stats = d->stats;
    c->metrics = d->metrics;
    c->tuned = d->tuned, d->tuned = NULL;
    hn_driver_tables_note(d, c);
    if (j->is_cached) HN_TRY(check_key(j));
    if (j->is_cached) hn_graph_cache_put(&j->query, c, j->is_default, d->unit_keys, d->units.count);
    return NULL;
}

static hn_status import_and_build(file_job *j, hn_compiled *c) {
    hn_driver *d = &j->driver;
    int64_t mark = hn_now_ns();
    d->weights_path = j->path;
    d->weights = j->file->map;
    HN_TRY(import(j));
    d->stats.import_ns = hn_driver_lap(&mark, "import");
    d->stats.nodes_imported = d->graph->nodes.count - 1;
    return build_and_store(j, c);
}

static hn_status compile_cached(file_job *j, hn_compiled *c) {
    hn_options *options = &j->driver.options;
    HN_TRY(hn_driver_targets(&j->driver));
    HN_TRY(hn_driver_tables_open(&j->driver));
    const bool tells = hn_options_uncached(options) || hn_tables_are_wanted(&j->driver.tables);
    if (is_verified_first(j)) HN_TRY(j->file->importer->verify_all(j->file, hn_driver_cpu_count()));
    bool has_key = false;
    if (!HN_OPT(options, source_dir)) HN_TRY(find_key(j, &has_key));
    j->bypass = HN_OPT(options, no_cache) ? HN_BYPASS_OFF
                : tells                   ? HN_BYPASS_OPTIONS
                : has_key                 ? HN_BYPASS_NONE
                                          : HN_BYPASS_NO_KEY;
    j->is_cached = j->bypass == HN_BYPASS_NONE;
    return !is_to_tune(j) && look_up(j, true, c) ? NULL : import_and_build(j, c);
}

/* What was found, and what was not kept and why, the program and its kernels together. */
static void note_cache(file_job *j, hn_compile_stats *s) {
    hn_service_stats all;
    hn_service_wait_stored(j->driver.service);
    hn_service_stats_get(j->driver.service, &all);
    memcpy(s->bypasses, all.bypasses, sizeof s->bypasses);
    if (s->graph_cache == HN_CACHE_HIT) return;
    s->time_saved_ns = all.time_saved_ns;
    hn_cache_bypass reason = j->bypass ? j->bypass
                             : all.remote.is_on
                                 ? HN_BYPASS_NONE
                                 : hn_store_bypass(hn_service_store(j->driver.service));
    if (reason) s->bypasses[reason]++;
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

/* --- a job from beginning to end --- */

static hn_status open_service(hn_driver *d) {
    bool no_cache = HN_OPT(&d->options, no_cache);
    hn_service_options service = {.cache_dir = no_cache ? "" : HN_OPT(&d->options, cache_dir),
                                  .remote_url = no_cache ? "" : HN_OPT(&d->options, remote_url),
                                  .cache_tag = HN_OPT(&d->options, cache_tag),
                                  .threads = HN_OPT(&d->options, compile_threads),
                                  .no_standby = HN_OPT(&d->options, no_standby)};
    return hn_service_create(&service, &d->service);
}

/* `path` NULL: the model is `bytes`. */
static hn_status job_open(file_job *j, const char *path, hn_str bytes,
                          const hn_compile_options *options) {
    *j = (file_job){.path = path, .bytes = bytes, .is_default = true};
    hn_strbuf_init(&j->content);
    hn_strbuf_init(&j->record);
    hn_strbuf_init(&j->compiler);
    hn_strbuf_init(&j->image_key);
    hn_known_tuning_init(&j->known);
    hn_driver_init(&j->driver, options, NULL);
    if (path) HN_TRY(hn_model_open(path, &j->file));
    else HN_TRY(hn_model_open_memory(bytes.ptr, bytes.len, &j->file));
    return open_service(&j->driver);
}

static void job_close(file_job *j) {
    if (j->driver.graph) hn_graph_deinit(j->driver.graph);
    hn_driver_deinit(&j->driver);
    hn_service_destroy(j->driver.service);
    hn_strbuf_deinit(&j->content);
    hn_strbuf_deinit(&j->record);
    hn_strbuf_deinit(&j->image_key);
    hn_known_tuning_deinit(&j->known);
    hn_strbuf_deinit(&j->compiler);
    hn_model_close(j->file);
}

/* Counts a compilation that has ended, and what its service did, which is `counted`. */
static void count_ended(hn_metrics *counted, bool has_failed, int64_t begin, hn_compiled *c) {
    if (has_failed) {
        counted->values[HN_METRIC_COMPILATIONS_FAILED] = 1;
        hn_metrics_publish(counted);
        return;
    }
    c->stats.total_ns = hn_now_ns() - begin;
    hn_metrics_add(&c->metrics, counted);
    hn_compiled_count(c);
    hn_metrics_publish(&c->metrics);
}

static hn_status compile_one(const char *path, hn_str bytes, const hn_compile_options *options,
                             bool wants_report, hn_compiled **out) {
    HN_TRY(hn_options_validate(options));
    int64_t begin = hn_now_ns();
    file_job job;
    hn_compiled *c = NULL;
    hn_metrics counted = {.values = {0}};
    hn_status status = job_open(&job, path, bytes, options);
    job.wants_report = wants_report;
    if (!status)
        status =
            hn_compiled_create(options && options->safetensors ? options->safetensors : path, &c);
    if (!status) status = compile_cached(&job, c);
    if (!status) note_cache(&job, &c->stats);
    if (!status) note_remote(&job.driver, &c->stats);
    hn_service_count(job.driver.service, &counted);
    job_close(&job);
    count_ended(&counted, status != NULL, begin, c);
    if (status) hn_compiled_release(c);
    else *out = c;
    return status;
}

static hn_status compile(const char *path, hn_str bytes, const hn_compile_options *options,
                         hn_compiled **out) {
    return compile_one(path, bytes, options, false, out);
}

static hn_status tune(const char *path, hn_str bytes, const hn_compile_options *options,
                      hn_compiled **out) {
    return compile_one(path, bytes, options, true, out);
}

/* "cannot open 'model.pt2': ..." says enough. */
static bool names_file(hn_status status, const char *path) {
    static const char before[] = "cannot open '";
    const char *message = hn_status_message(status), *name = message + sizeof before - 1;
    size_t len = strlen(path);
    return strncmp(message, before, sizeof before - 1) == 0 && strncmp(name, path, len) == 0 &&
           name[len] == '\'';
}

/* --- a program with what it came from --- */

struct hn_kept {
    file_job job;
};

hn_status hn_compile_kept(const char *path, const hn_compile_options *options, hn_compiled **out,
                          hn_kept **out_kept) {
    hn_compiled *c = NULL;
    hn_metrics counted = {.values = {0}};
    int64_t begin = hn_now_ns();
    bool has_key;
    HN_TRY(hn_options_validate(options));
    hn_kept *kept = calloc(1, sizeof *kept);
    if (!kept) return HN_ERROR(HN_OUT_OF_MEMORY, "out of memory for a compilation");
    file_job *job = &kept->job;
    hn_status status = job_open(job, path, (hn_str){0}, options);
    if (!status) status = hn_compiled_create(path, &c);
    if (!status) status = hn_driver_targets(&job->driver);
    if (!status) status = hn_driver_tables_open(&job->driver);
    if (!status) status = find_key(job, &has_key); /* the image records it */
    if (!status) status = import_and_build(job, c);
    if (!status) note_cache(job, &c->stats);
    hn_service_count(job->driver.service, &counted);
    count_ended(&counted, status != NULL, begin, c);
    if (!status) {
        *out = c;
        *out_kept = kept;
        return NULL;
    }
    hn_compiled_release(c);
    hn_kept_destroy(kept);
    return names_file(status, path) ? status
                                    : hn_status_annotate(status, "cannot compile '%s'", path);
}

const hn_driver *hn_kept_driver(const hn_kept *kept) { return &kept->job.driver; }

void hn_kept_destroy(hn_kept *kept) {
    if (!kept) return;
    job_close(&kept->job);
    free(kept);
}

hn_status hn_compile_file(const char *path, const hn_compile_options *options, hn_compiled **out) {
    HN_REQUIRE(path, "path");
    HN_REQUIRE(out, "out");
    hn_status status = hn_compile_programs(compile, path, HN_STR(""), options, out);
    return status && !names_file(status, path)
               ? hn_status_annotate(status, "cannot compile '%s'", path)
               : status;
}

hn_status hn_tune_file(const char *path, const hn_compile_options *options, hn_compiled **out,
                       hn_tune_report **out_report) {
    hn_compile_options own = options ? *options : (hn_compile_options){0};
    hn_compiled *c = NULL;
    HN_REQUIRE(path, "path");
    HN_REQUIRE(out_report, "out_report");
    if (!own.tune) own.tune = HN_TUNE_MISSING;
    hn_status status = hn_compile_programs(tune, path, HN_STR(""), &own, &c);
    if (status)
        return names_file(status, path) ? status
                                        : hn_status_annotate(status, "cannot tune '%s'", path);
    *out_report = c->tuned, c->tuned = NULL;
    if (out) *out = c;
    else hn_compiled_release(c);
    return NULL;
}

/* There is no file to refer to, so weights go into the image or into a file of their own. */
hn_status hn_compile_memory(const void *bytes, size_t len, const hn_compile_options *options,
                            hn_compiled **out) {
    hn_compile_options own = options ? *options : (hn_compile_options){0};
    HN_REQUIRE(bytes, "bytes");
    HN_REQUIRE(out, "out");
    if (!own.safetensors) own.embed_weights = true;
    return hn_status_annotate(hn_compile_programs(compile, NULL, (hn_str){bytes, len}, &own, out),
                              "cannot compile a model in memory");
}

/* --- questions about the cache --- */

/* The query for a model, as these options ask for it; then `use` with the service open. */
static hn_status with_job(const char *path, const hn_compile_options *options, void *out,
                          hn_status (*use)(file_job *j, void *out)) {
    file_job job;
    hn_status status = job_open(&job, path, HN_STR(""), options);
    if (!status) status = hn_driver_targets(&job.driver);
    if (!status) status = make_query(&job);
    if (!status) status = use(&job, out);
    job_close(&job);
    return status;
}

/* A model that was tuned is planned, to know its kernels. */
static hn_status say_why(file_job *j, void *out) {
    HN_TRY(hn_graph_cache_why(&j->query, out));
    if (!hn_known_tuning_was_ever(j->query.cache, &j->known)) return NULL;
    HN_TRY(import(j));
    HN_TRY(run_passes(j, NULL));
    return hn_driver_why_tuning(&j->driver, out);
}

hn_status hn_driver_why(const char *path, const hn_compile_options *options, hn_strbuf *out) {
    return with_job(path, options, out, say_why);
}

static hn_status list_entries(file_job *j, void *out) {
    return hn_graph_cache_list_model(&j->query, out);
}

/* The programs for all kinds of device among the targets. */
static hn_status list_programs(const char *path, const hn_compile_options *options,
                               const hn_target_groups *groups, hn_entry_list *out) {
    hn_compile_options own = *options;
    for (uint32_t k = 0; k < HN_DEVICE_KIND_COUNT; k++) {
        if (!groups->names[k].len) continue;
        own.target = groups->names[k].ptr;
        HN_TRY(with_job(path, &own, out, list_entries));
    }
    return NULL;
}

hn_status hn_driver_list_entries(const char *path, const hn_compile_options *options,
                                 hn_entry_list *out) {
    hn_target_groups groups;
    hn_status status = hn_target_groups_init(&groups, options->target);
    if (!status) status = list_programs(path, options, &groups, out);
    hn_target_groups_deinit(&groups);
    if (hn_status_code(status) != HN_NOT_FOUND || !hn_file_exists(path)) return status;
    return hn_status_annotate(
        status, "cannot export '%s', run or compile it first, with the same options", path);
}
