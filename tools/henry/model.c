/* model.c: from a path to a module: file kinds, compiling with a line of progress, loading. */
#include "tool.h"

#include "base/compiler.h"
#include "base/device.h"
#include "base/file.h"
#include "base/trace.h"
#include "bundle/view.h"
#include "driver/driver.h"
#include "front/importer.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static hn_status not_a_model(const char *path) {
    hn_strbuf kinds;
    hn_strbuf_init(&kinds);
    hn_importer_kinds(" nor ", &kinds);
    hn_status status = hn_strbuf_status(&kinds);
    if (!status)
        status = HN_ERROR(HN_INVALID_ARGUMENT,
                          "'%s' is neither %s nor %s; export one with torch.export.save", path,
                          kinds.ptr, hn_kind_name(HN_KIND_BUNDLE));
    hn_strbuf_deinit(&kinds);
    return status;
}

/* The error for a file that no command reads. */
static hn_status refuse(const char *path, hn_kind kind, const hn_file_map *map) {
    const hn_importer *importer;
    if (kind == HN_KIND_BUNDLE) return NULL;
    if (kind == HN_KIND_EMPTY) return HN_ERROR(HN_INVALID_ARGUMENT, "'%s' is empty", path);
    hn_status status = hn_importer_find(map->data, map->size_bytes, &importer);
    if (!status || kind != HN_KIND_UNKNOWN)
        return hn_status_annotate(status, "cannot read '%s'", path);
    hn_status_free(status);
    return not_a_model(path);
}

hn_status tool_kind_of(const char *path, tool_kind *out) {
    hn_file_map map;
    HN_TRY(hn_file_map_init(&map, path));
    hn_kind kind = hn_kind_of(map.data, map.size_bytes);
    hn_status status = refuse(path, kind, &map);
    hn_file_map_deinit(&map);
    *out = kind == HN_KIND_BUNDLE ? TOOL_HNB : TOOL_MODEL;
    return status;
}

/* --- progress --- */

/* A thread that keeps one line up to date; nothing is printed when the work ends soon. */
typedef struct progress {
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t ended;
    const char *path;
    char compilers[200]; /* what the compile service tells; "" before it is asked */
    char tuning[300];    /* what is timed; "": nothing is */
    bool is_running, stop;
} progress;

enum { FIRST_MS = 300, NEXT_MS = 100 };

static void print_line(const progress *p, int64_t begin) {
    double seconds = (double)(hn_now_ns() - begin) / 1e9;
    const char *what = p->tuning[0] ? p->tuning : p->compilers;
    fprintf(stderr, "\r%s %s: %s%s%.1f s\033[K", p->tuning[0] ? "tuning" : "compiling", p->path,
            what, what[0] ? ", " : "", seconds);
    fflush(stderr);
}

static void *progress_main(void *context) {
    progress *p = context;
    int64_t begin = hn_now_ns();
    bool shown = false;
    pthread_mutex_lock(&p->mutex);
    while (!p->stop) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += (shown ? NEXT_MS : FIRST_MS) * 1000000L;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        pthread_cond_timedwait(&p->ended, &p->mutex, &until);
        if (p->stop) break;
        print_line(p, begin);
        shown = true;
    }
    pthread_mutex_unlock(&p->mutex);
    if (shown) fputs("\r\033[K", stderr);
    return NULL;
}

static bool note_compilers(void *context, const hn_scope_progress *compilers) {
    progress *p = context;
    pthread_mutex_lock(&p->mutex);
    hn_scope_progress_line(compilers, p->compilers, sizeof p->compilers);
    p->tuning[0] = 0;
    pthread_mutex_unlock(&p->mutex);
    return true;
}

/* "kernel 3 of 12, softmax_1 [s0=64], 6 forms" */
static bool note_tuning(void *context, const hn_tune_progress *t) {
    progress *p = context;
    hn_strbuf text;
    hn_strbuf_init(&text);
    hn_strbuf_printf(&text, "kernel %u of %u%s", t->done + 1, t->total, *t->kernel ? ", " : "");
    hn_strbuf_clean(&text, hn_str_of(t->kernel), true);
    if (*t->sizes) hn_strbuf_printf(&text, " [%s]", t->sizes);
    hn_strbuf_printf(&text, ", %u forms", t->forms);
    pthread_mutex_lock(&p->mutex);
    snprintf(p->tuning, sizeof p->tuning, "%s", hn_strbuf_str(&text).ptr);
    pthread_mutex_unlock(&p->mutex);
    hn_strbuf_deinit(&text);
    return true;
}

static void progress_begin(progress *p, const tool_options *options, const char *path,
                           hn_compile_options *out) {
    *p = (progress){.path = path};
    if (options->quiet || !tool_is_terminal()) return;
    pthread_mutex_init(&p->mutex, NULL);
    pthread_cond_init(&p->ended, NULL);
    p->is_running = pthread_create(&p->thread, NULL, progress_main, p) == 0;
    if (!p->is_running) return;
    out->progress = note_compilers;
    out->tune_progress = note_tuning;
    out->progress_context = out->tune_progress_context = p;
}

static void progress_end(progress *p) {
    if (!p->is_running) return;
    pthread_mutex_lock(&p->mutex);
    p->stop = true;
    pthread_cond_signal(&p->ended);
    pthread_mutex_unlock(&p->mutex);
    pthread_join(p->thread, NULL);
    pthread_cond_destroy(&p->ended);
    pthread_mutex_destroy(&p->mutex);
}

/* --- compiling and loading --- */

static int32_t count_or_zero(int64_t n) {
    return n < 0 ? 0 : n > INT32_MAX ? INT32_MAX : (int32_t)n;
}

/* The device to run on says what to compile for, unless that is the CPU, of which there are levels.
 * `henry cache` takes several targets, of the source of a kernel; of a model there is one. */
static const char *target_of(const tool_options *options) {
    hn_device device = {.number = 0};
    const char *name;
    /* tool_device_check has told */
    if (options->device) hn_status_free(hn_device_parse(options->device, &device, &name));
    if (!options->target && device.kind == HN_DEVICE_CUDA) return options->device; /* of its own */
    if (!options->target && device.kind != HN_DEVICE_CPU) return hn_device_kind_name(device.kind);
    if (options->target || !options->targets.count) return options->target;
    return options->targets.items[0];
}

static const char *const pools[] = {[HN_MEMORY_POOL_INTERMEDIATES] = "intermediates",
                                    [HN_MEMORY_POOL_NONE] = "none",
                                    [HN_MEMORY_POOL_OUTPUTS] = "outputs",
                                    [HN_MEMORY_POOL_COMBINED] = "combined",
                                    NULL};

/* HN_MEMORY_POOL_COMBINED + 1: there is no such mode. */
static uint32_t pool_of(const tool_options *options) {
    uint32_t k = 0;
    while (options->pool && pools[k] && strcmp(pools[k], options->pool) != 0) k++;
    return k;
}

static int check_tuning(const char *command, const tool_options *options) {
    const bool tunes = options->tune || strcmp(command, "tune") == 0,
               is_off = options->tuning && strcmp(options->tuning, "none") == 0;
    if (tunes && options->deterministic)
        return tool_usage(command, "what is measured is not the same each time, so --deterministic "
                                   "leaves no choice to tuning");
    if (tunes && is_off)
        return tool_usage(command, "with --tuning none no record counts, so nothing is tuned");
    static const char *const of_tuning[] = {"--radius", "--budget", "--tune-fusion"};
    int refused = TOOL_OK;
    for (size_t k = 0; k < HN_COUNT_OF(of_tuning) && !refused; k++)
        refused = tool_options_check_with(command, options, of_tuning[k], tunes, "without --tune");
    return refused;
}

/* --check as a text of the debugger; NULL: it is no such word. */
static const char *check_text(const char *check) {
    static const struct {
        const char *check, *text;
    } rows[] = {{"nan", "check,inf=ok"},
                {"inf", "check,nan=ok"},
                {"nan,inf", "check"},
                {"inf,nan", "check"}};
    for (size_t k = 0; k < HN_COUNT_OF(rows); k++)
        if (strcmp(check, rows[k].check) == 0) return rows[k].text;
    return NULL;
}

static int check_elements(const char *command, const tool_options *options) {
    if (!options->check) return 0;
    if (!check_text(options->check))
        return tool_usage(command, "--check needs nan, inf or nan,inf, not '%s'", options->check);
    return tool_options_check_with(command, options, "--check", !options->debug_tensors,
                                   "with --debug-tensors");
}

int tool_compile_check(const char *command, const tool_options *options) {
    char near[100];
    const int refused = check_elements(command, options);
    if (refused) return refused;
    if (pool_of(options) <= HN_MEMORY_POOL_COMBINED) return check_tuning(command, options);
    return tool_usage(command, "--pool needs none, intermediates, outputs or combined, not '%s'%s",
                      options->pool, tool_suggest(options->pool, pools, near));
}

/* 0 on the command line is "none", 0 of the library the default. */
static int64_t computed_weights_of(const tool_options *options) {
    const int64_t given = options->computed_weights;
    return given < 0 ? 0 : given == 0 ? -1 : given;
}

/* "none" is the library's "". */
static const char *tuning_of(const tool_options *options) {
    return options->tuning && strcmp(options->tuning, "none") == 0 ? "" : options->tuning;
}

void tool_compile_options(const tool_options *options, hn_compile_options *out) {
    out->tune = options->again ? HN_TUNE_AGAIN : options->tune ? HN_TUNE_MISSING : HN_TUNE_KNOWN;
    out->tuning = tuning_of(options);
    out->tune_hints = options->hints.items;
    out->tune_hint_count = options->hints.count;
    out->forms = options->forms;
    out->forms_shipped = count_or_zero(options->forms_shipped);
    out->tune_radius = count_or_zero(options->radius);
    out->tune_fusion = options->tune_fusion;
    out->tune_budget_ns = options->budget_ns > 0 ? options->budget_ns : 0;
    out->computed_weights_bytes = computed_weights_of(options);
    out->memory_pool = (hn_memory_pool)pool_of(options);
    out->donated = options->donated.items;
    out->donated_count = options->donated.count;
    out->model = options->model_name;
    out->cache_dir = options->cache_dir;
    out->remote_url = options->remote;
    out->cache_tag = options->cache_tag;
    out->no_cache = options->no_cache;
    out->no_fusion = options->no_fusion;
    out->deterministic = options->deterministic;
    out->compile_threads = count_or_zero(options->compile_threads);
    out->no_standby = options->no_standby;
    out->threads = count_or_zero(options->threads);
    out->target = target_of(options);
    out->verify = options->verify;
    out->metric_tables = options->metric_tables;
    out->metric_dir = options->metric_dir;
}

void tool_load_options(const tool_options *options, hn_module_options *out) {
    *out = (hn_module_options){
        .threads = count_or_zero(options->threads),
        .weights_path = options->weights_file,
        .profile = options->profile || options->roofline,
        .load_all = options->load_all,
        .device = options->device,
        .device_memory_bytes = options->device_memory > 0 ? (uint64_t)options->device_memory : 0,
        .device_graphs = options->cuda_graphs,
        .debug_tensors = options->check ? check_text(options->check) : options->debug_tensors,
        .pool_fill = options->pool_fill};
}

hn_status tool_compile(const tool_options *options, const char *path, hn_compile_options extra,
                       hn_compiled **out) {
    progress line;
    tool_compile_options(options, &extra);
    progress_begin(&line, options, path, &extra);
    hn_status status = hn_compile_file(path, &extra, out);
    progress_end(&line);
    return status;
}

hn_status tool_tune(const tool_options *options, const char *path, hn_tune_report **out) {
    progress line;
    hn_compile_options compile = {.embed_weights = false};
    tool_compile_options(options, &compile);
    progress_begin(&line, options, path, &compile);
    hn_status status = hn_tune_file(path, &compile, NULL, out);
    progress_end(&line);
    return status;
}

hn_status tool_trust_read(const tool_options *options, hn_public_key **out) {
    hn_public_key *keys = calloc(options->trusts.count + 1u, sizeof *keys);
    hn_status status = keys ? NULL : HN_ERROR(HN_OUT_OF_MEMORY, "out of memory for keys");
    for (uint32_t k = 0; !status && k < options->trusts.count; k++)
        status = hn_public_key_read(options->trusts.items[k], &keys[k]);
    *out = keys;
    if (!status) return NULL;
    free(keys);
    *out = NULL;
    return status;
}

/* What the program that was loaded calls, as its compilation counted it. */
static hn_status count_kernels(tool_model *model) {
    hn_file_map map;
    hn_bundle file, b;
    hn_module_device_info info;
    uint32_t program;
    HN_TRY(hn_file_map_init(&map, model->path));
    hn_module_device_get(model->module, &info);
    hn_status status = hn_bundle_open(map.data, map.size_bytes, false, &file);
    if (!status && !hn_bundle_program_find(&file, info.device.kind, &program)) program = 0;
    if (!status) status = hn_bundle_program_open(&file, program, false, &b);
    for (uint32_t k = 0; !status && k < b.steps_count; k++) {
        model->stats.kernels_generated += b.steps[k].kind == HNB_STEP_KERNEL;
        model->stats.kernels_extern += b.steps[k].kind == HNB_STEP_EXTERN;
    }
    /* the first is a filler */
    if (!status && b.kernels_count) model->stats.kernels_unique = b.kernels_count - 1;
    hn_file_map_deinit(&map);
    return hn_status_annotate(status, "'%s'", model->path);
}

static hn_status load_bundle(const tool_options *options, hn_module_options *load,
                             tool_model *model) {
    hn_public_key *keys;
    if (options->verify) HN_TRY(tool_bundle_verify(options, model->path));
    HN_TRY(tool_trust_read(options, &keys));
    load->trusted = keys;
    load->trusted_count = options->trusts.count;
    load->target = options->target;
    hn_status status = hn_module_load_file(model->path, load, &model->module);
    free(keys);
    return status ? status : count_kernels(model);
}

static hn_status compile_kept(const tool_options *options, const char *path, hn_compile_options own,
                              hn_compiled **out, hn_kept **out_kept) {
    progress line;
    tool_compile_options(options, &own);
    progress_begin(&line, options, path, &own);
    hn_status status = hn_compile_kept(path, &own, out, out_kept);
    progress_end(&line);
    return status;
}

/* `out_kept` NULL: nothing is kept. */
static hn_status load(const tool_options *options, tool_model *model, hn_kept **out_kept) {
    hn_module_options load = {.threads = 0};
    tool_load_options(options, &load);
    if (model->kind == TOOL_HNB) return load_bundle(options, &load, model);
    tool_sizes sizes;
    tool_sizes_read(&options->inputs, &sizes);
    hn_compile_options extra = {.inputs = sizes.count ? sizes.items : NULL,
                                .input_count = sizes.count};
    hn_status status = out_kept
                           ? compile_kept(options, model->path, extra, &model->compiled, out_kept)
                           : tool_compile(options, model->path, extra, &model->compiled);
    tool_sizes_deinit(&sizes);
    HN_TRY(status);
    hn_compiled_stats_get(model->compiled, &model->stats);
    hn_compiled_metrics_get(model->compiled, &model->metrics);
    return hn_compiled_load(model->compiled, &load, &model->module);
}

/* --device-memory is for the device that was found. */
static hn_status check_limit(const tool_options *options, const hn_module *module) {
    hn_module_device_info info;
    if (options->device_memory < 0) return NULL;
    hn_module_device_get(module, &info);
    if (info.device.kind == HN_DEVICE_CUDA) return NULL;
    return HN_ERROR(HN_INVALID_ARGUMENT,
                    "--device-memory limits memory of a CUDA device, and the program runs on '%s'",
                    hn_device_kind_name(info.device.kind));
}

hn_status tool_model_load(const tool_options *options, const char *path, tool_model *out) {
    *out = (tool_model){.path = path};
    if (options->device_memory == 0)
        return HN_ERROR(HN_INVALID_ARGUMENT, "--device-memory needs a size above 0");
    HN_TRY(tool_kind_of(path, &out->kind));
    int64_t begin = hn_now_ns();
    hn_status status = load(options, out, NULL);
    if (!status) status = check_limit(options, out->module);
    out->load_ns = hn_now_ns() - begin - out->stats.total_ns;
    if (status) tool_model_deinit(out);
    return status;
}

hn_status tool_model_load_kept(const tool_options *options, const char *path, tool_model *out,
                               hn_kept **out_kept) {
    *out = (tool_model){.path = path};
    *out_kept = NULL;
    HN_TRY(tool_kind_of(path, &out->kind));
    if (out->kind == TOOL_HNB)
        return HN_ERROR(
            HN_INVALID_ARGUMENT,
            "'%s' is a bundle, which does not say what its kernels are to compute; give "
            "the model that it was made from",
            path);
    hn_status status = load(options, out, out_kept);
    if (!status) return NULL;
    tool_model_deinit(out);
    hn_kept_destroy(*out_kept);
    *out_kept = NULL;
    return status;
}

void tool_model_deinit(tool_model *model) {
    hn_module_release(model->module);
    hn_compiled_release(model->compiled);
    model->module = NULL;
    model->compiled = NULL;
}

hn_status tool_device_check(const tool_options *options) {
    hn_device ignored;
    const char *name;
    return options->device ? hn_device_parse(options->device, &ignored, &name) : NULL;
}

void tool_device_json(tool_json *json, const hn_module *module) {
    hn_module_device_info info;
    hn_strbuf text;
    hn_module_device_get(module, &info);
    hn_strbuf_init(&text);
    hn_strbuf_puts(&text, hn_device_kind_name(info.device.kind));
    if (info.device.kind != HN_DEVICE_CPU) hn_strbuf_printf(&text, ":%u", info.device.number);
    tool_json_str(json, "device", text.ptr);
    tool_json_str(json, "device_name", info.name);
    hn_strbuf_deinit(&text);
}

/* --- describing --- */

static void print_dims(const hn_module_dim *dims, uint32_t rank, hn_strbuf *out) {
    hn_strbuf_putc(out, '[');
    for (uint32_t d = 0; d < rank; d++) hn_strbuf_printf(out, "%s%s", d ? ", " : "", dims[d].text);
    hn_strbuf_putc(out, ']');
}

void tool_value_print(const hn_module_value_info *info, hn_strbuf *out) {
    static const char *const kinds[] = {"tensor", "int", "float", "bool", "string", "none"};
    if (info->kind != HN_VALUE_KIND_TENSOR) {
        hn_strbuf_puts(out, kinds[info->kind]);
        return;
    }
    hn_strbuf_puts(out, hn_scalar_type_name(info->type));
    print_dims(info->sizes, info->rank, out);
}

const char *tool_cache_state_name(hn_cache_state state) {
    return state == HN_CACHE_HIT ? "hit" : state == HN_CACHE_MISS ? "miss" : "off";
}

void tool_phases_json(tool_json *json, const hn_compile_stats *stats) {
    tool_json_ms(json, "import", stats->import_ns);
    tool_json_ms(json, "opt", stats->opt_ns);
    tool_json_ms(json, "lower", stats->lower_ns);
    tool_json_ms(json, "sched", stats->sched_ns);
    tool_json_ms(json, "codegen", stats->codegen_ns);
    tool_json_ms(json, "count", stats->count_ns);
    tool_json_ms(json, "compile", stats->compile_ns);
    tool_json_ms(json, "bundle", stats->bundle_ns);
}

hn_status tool_steps_json(tool_json *json, hn_module *module) {
    tool_json_open(json, "steps", '[');
    for (uint32_t k = 0; k < hn_module_step_count(module); k++) {
        hn_module_step_profile step;
        HN_TRY(hn_module_profile(module, k, &step));
        tool_json_open(json, NULL, '{');
        tool_json_str(json, "name", step.name);
        tool_json_str(json, "origin", step.origin);
        if (*step.form) tool_json_str(json, "form", step.form);
        tool_json_int(json, "calls", (int64_t)step.calls);
        tool_json_ms(json, "total_ms", step.total_ns);
        tool_json_ms(json, "min_ms", step.min_ns);
        tool_json_close(json);
    }
    tool_json_close(json);
    return NULL;
}

static void remote_json(tool_json *json, const hn_compile_stats *stats) {
    tool_json_open(json, "remote", '{');
    tool_json_int(json, "hits", (int64_t)stats->remote.hits);
    tool_json_int(json, "misses", (int64_t)stats->remote.misses);
    tool_json_int(json, "puts", (int64_t)stats->remote.puts);
    tool_json_int(json, "damaged", (int64_t)stats->remote.damaged);
    tool_json_int(json, "failures", (int64_t)stats->remote.failures);
    tool_json_int(json, "skipped", (int64_t)stats->remote.skipped);
    tool_json_ms(json, "total_ms", stats->remote.total_ns);
    tool_json_close(json);
}

void tool_counters_json(tool_json *json, const hn_metrics *metrics) {
    for (uint32_t k = 0; k < hn_metric_count(); k++)
        tool_json_int(json, hn_metric_get(k)->name, metrics->values[k]);
}

void tool_compile_stats_json(tool_json *json, const hn_compile_stats *stats) {
    tool_json_open(json, "kernels", '{');
    tool_json_int(json, "generated", stats->kernels_generated);
    tool_json_int(json, "unique", stats->kernels_unique);
    tool_json_int(json, "compiled", stats->kernels_compiled);
    tool_json_int(json, "cached", stats->kernels_cached);
    tool_json_int(json, "remote", stats->kernels_remote);
    tool_json_int(json, "extern", stats->kernels_extern);
    tool_json_close(json);
    tool_json_open(json, "cache", '{');
    tool_json_str(json, "graph", tool_cache_state_name(stats->graph_cache));
    if (stats->graph_cache == HN_CACHE_HIT)
        tool_json_str(json, "level", stats->graph_remote ? "remote" : "disk");
    tool_json_ms(json, "time_saved_ms", stats->time_saved_ns);
    tool_json_open(json, "bypasses", '{');
    for (int k = 0; k < HN_BYPASS_COUNT; k++)
        if (stats->bypasses[k])
            tool_json_int(json, hn_cache_bypass_name((hn_cache_bypass)k),
                          (int64_t)stats->bypasses[k]);
    tool_json_close(json);
    if (stats->remote.is_on) remote_json(json, stats);
    tool_json_close(json);
}
