/* compile.c: `henry compile`: a .pt2 into a bundle, or the program in a form for people. */
#include "tool.h"

#include "base/compiler.h"
#include "base/device.h"
#include "base/file.h"
#include "base/kind.h"
#include "base/oserror.h"
#include "bundle/view.h"
#include "codegen/codegen.h"
#include "driver/driver.h"
#include "driver/programs.h"
#include "front/importer.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

/* What the stages of a compilation print into. */
typedef struct dump {
    hn_strbuf text;
    bool called;
} dump;

static void dump_append(void *context, const char *text) {
    dump *d = context;
    d->called = true;
    hn_strbuf_puts(&d->text, text);
}

typedef enum product {
    PRODUCT_BUNDLE,
    PRODUCT_DUMP,
    PRODUCT_TEXT,
    PRODUCT_JSON,
    PRODUCT_GRAPH,
    PRODUCT_SOURCE
} product;

/* What the options ask for, or -1 after a message. */
/* --dump-after takes stages and passes. */
static int check_stage(const char *stage) {
    static const char *const stages[] = {"import",  "lower",   "fusion", "sched",
                                         "codegen", "wrapper", "plan"};
    const char *names[64] = {NULL};
    char near[100];
    uint32_t count = 0;
    hn_strbuf list;
    for (; count < HN_COUNT_OF(stages); count++) names[count] = stages[count];
    for (uint32_t k = 0; hn_driver_pass_name(k) && count + 1 < HN_COUNT_OF(names); k++)
        names[count++] = hn_driver_pass_name(k);
    for (uint32_t k = 0; k < count; k++)
        if (strcmp(names[k], stage) == 0) return TOOL_OK;
    hn_strbuf_init(&list);
    for (uint32_t k = 0; k < count; k++) hn_strbuf_printf(&list, "%s%s", k ? ", " : "", names[k]);
    int code = tool_usage("compile", "no stage is called '%s'%s; there are: %s", stage,
                          tool_suggest(stage, names, near), hn_strbuf_str(&list).ptr);
    hn_strbuf_deinit(&list);
    return code;
}

static int refuse_form(const char *form) {
    static const char *const forms[] = {"c", "source", "text", "json", "graph", NULL};
    char near[100];
    return tool_usage("compile", "--emit needs c, source, text, json or graph, not '%s'%s", form,
                      tool_suggest(form, forms, near));
}

static int choose_product(const tool_options *o) {
    int asked = (o->emit != NULL) + (o->dump_after != NULL) + o->explain_fusion;
    if (asked > 1)
        return tool_usage("compile",
                          "only one of --emit, --dump-after and --explain-fusion at a time"),
               -1;
    if (asked && o->memory_plan)
        return tool_usage("compile", "--memory-plan is for bundles only"), -1;
    if (o->memory_plan && strcmp(o->memory_plan, "-") == 0)
        return tool_usage("compile", "--memory-plan needs the name of a file, not '-'"), -1;
    if (asked && (o->json || o->stats))
        return tool_usage("compile", "%s is for bundles only", o->json ? "--json" : "--stats"), -1;
    if (o->dump_after && check_stage(o->dump_after)) return -1;
    if (o->dump_after || o->explain_fusion) return PRODUCT_DUMP;
    if (!o->emit) {
        if (!o->output)
            return tool_usage("compile", "give the name of the bundle with -o OUT.hnb"), -1;
        if (strcmp(o->output, "-") == 0)
            return tool_usage("compile",
                              "a bundle cannot go to standard output; name a file with -o OUT.hnb"),
                   -1;
        return PRODUCT_BUNDLE;
    }
    if (strcmp(o->emit, "c") == 0) return PRODUCT_DUMP;
    if (strcmp(o->emit, "text") == 0) return PRODUCT_TEXT;
    if (strcmp(o->emit, "json") == 0) return PRODUCT_JSON;
    if (strcmp(o->emit, "graph") == 0) return PRODUCT_GRAPH;
    if (strcmp(o->emit, "source") != 0) return refuse_form(o->emit), -1;
    if (!o->output) return tool_usage("compile", "give the folder of the project with -o DIR"), -1;
    if (strcmp(o->output, "-") == 0)
        return tool_usage("compile",
                          "a project cannot go to standard output; name a folder with -o DIR"),
               -1;
    return PRODUCT_SOURCE;
}

static const char *stage_of(const tool_options *o) {
    return o->explain_fusion ? "fusion" : o->emit ? "codegen" : o->dump_after;
}

/* To -o, or to stdout. */
static hn_status deliver(const tool_options *o, const hn_strbuf *text) {
    return tool_deliver(o, text);
}

static hn_status deliver_dump(const tool_options *o, const dump *d) {
    if (!d->called && !o->emit && !o->explain_fusion)
        return HN_ERROR(HN_NOT_FOUND, "the compilation did not reach the stage '%s'",
                        o->dump_after);
    return deliver(o, &d->text);
}

/* What became of the files of a project; those that were right already are only counted. */
static hn_status report_project(const tool_options *o, const dump *d) {
    static const char unchanged[] = "unchanged ";
    uint32_t changed = 0, same = 0;
    hn_strbuf text;
    hn_strbuf_init(&text);
    for (const char *at = hn_strbuf_str(&d->text).ptr; *at; at = strchr(at, '\n') + 1) {
        bool is_same = strncmp(at, unchanged, sizeof unchanged - 1) == 0;
        if (!is_same) hn_strbuf_append(&text, at, strcspn(at, "\n") + 1);
        *(is_same ? &same : &changed) += 1;
    }
    hn_strbuf_printf(&text, "%s: %u file%s changed, %u unchanged\n", o->output, changed,
                     changed == 1 ? "" : "s", same);
    hn_status status = o->quiet ? NULL : tool_print(&text);
    hn_strbuf_deinit(&text);
    return status;
}

static hn_status deliver_description(const tool_options *o, const hn_compiled *compiled,
                                     product form) {
    hn_bundle bundle;
    hn_strbuf text;
    size_t len;
    const void *image = hn_compiled_image(compiled, &len);
    HN_TRY(hn_bundle_open(image, len, false, &bundle));
    hn_strbuf_init(&text);
    if (form == PRODUCT_TEXT) hn_bundle_describe_text(&bundle, &text);
    else hn_bundle_describe_json(&bundle, &text);
    hn_status status = deliver(o, &text);
    hn_strbuf_deinit(&text);
    return status;
}

static hn_status report_json(const tool_options *o, const hn_compile_stats *stats,
                             const hn_metrics *metrics, size_t bytes) {
    tool_json json;
    tool_json_init(&json);
    tool_json_str(&json, "model", o->args.items[0]);
    tool_json_str(&json, "bundle", o->output);
    tool_json_int(&json, "bytes", (int64_t)bytes);
    tool_json_open(&json, "timings_ms", '{');
    tool_phases_json(&json, stats);
    tool_json_ms(&json, "total", stats->total_ns);
    tool_json_close(&json);
    tool_compile_stats_json(&json, stats);
    tool_json_open(&json, "metrics", '{');
    tool_counters_json(&json, metrics);
    tool_json_close(&json);
    hn_status status = tool_json_finish(&json, o->json, o->stats);
    tool_json_deinit(&json);
    return status;
}

static hn_status report_text(const tool_options *o, const hn_compile_stats *stats, size_t bytes) {
    hn_strbuf text;
    hn_strbuf_init(&text);
    hn_strbuf_printf(
        &text,
        "%s: %zu bytes, %u kernel%s (%u different: %u compiled, %u from the cache), %u extern call%s, %.1f ms",
        o->output, bytes, stats->kernels_generated, stats->kernels_generated == 1 ? "" : "s",
        stats->kernels_unique, stats->kernels_compiled, stats->kernels_cached,
        stats->kernels_extern, stats->kernels_extern == 1 ? "" : "s",
        (double)stats->total_ns / 1e6);
    if (stats->time_saved_ns)
        hn_strbuf_printf(&text, ", %.1f ms saved by the cache", (double)stats->time_saved_ns / 1e6);
    hn_strbuf_putc(&text, '\n');
    hn_status status = tool_print(&text);
    hn_strbuf_deinit(&text);
    return status;
}

static hn_status deliver_bundle(const tool_options *o, const hn_compiled *compiled) {
    hn_compile_stats stats;
    hn_metrics metrics;
    size_t bytes;
    hn_compiled_image(compiled, &bytes);
    hn_compiled_stats_get(compiled, &stats);
    HN_TRY(hn_compiled_save(compiled, o->output));
    if (o->key) HN_TRY(hn_bundle_sign_file(o->output, o->key, NULL));
    hn_compiled_metrics_get(compiled, &metrics);
    if (o->json || o->stats) HN_TRY(report_json(o, &stats, &metrics, bytes));
    return o->json || o->quiet ? NULL : report_text(o, &stats, bytes);
}

/* "X.hnb" -> "X.safetensors". */
static char *safetensors_path(const char *bundle) {
    size_t len = strlen(bundle);
    if (len > 4 && strcmp(bundle + len - 4, ".hnb") == 0) len -= 4;
    char *path = malloc(len + sizeof ".safetensors");
    if (path) sprintf(path, "%.*s.safetensors", (int)len, bundle);
    return path;
}

/* What is printed before memory is planned does not depend on the plan. */
static int check_memory(const tool_options *o, int form) {
    if (tool_compile_check("compile", o)) return TOOL_USAGE;
    if (form != PRODUCT_DUMP || !(o->pool || o->donated.count)) return TOOL_OK;
    if (o->dump_after && strcmp(o->dump_after, "plan") == 0) return TOOL_OK;
    return tool_usage("compile", "%s has no effect with %s", o->pool ? "--pool" : "--donate",
                      o->emit         ? "--emit c"
                      : o->dump_after ? "--dump-after"
                                      : "--explain-fusion");
}

static const char *weights_of(const tool_options *o) {
    return o->weights_beside ? "pt2" : o->weights ? o->weights : "inside";
}

/* A bundle can refer to the weights in a .pt2, not to those in a text. */
static hn_status check_referred(const tool_options *o, const char *path) {
    hn_file_map map;
    if (strcmp(weights_of(o), "pt2") != 0) return NULL;
    HN_TRY(hn_file_map_init(&map, path));
    const bool is_text = hn_kind_of(map.data, map.size_bytes) == HN_KIND_GRAPH;
    hn_file_map_deinit(&map);
    return is_text ? HN_ERROR(HN_INVALID_ARGUMENT,
                              "a bundle cannot refer to the weights of '%s', which is text; take "
                              "--weights inside or safetensors",
                              path)
                   : NULL;
}

/* Where the weights go. 0, or the exit status after a message. */
static int choose_weights(const tool_options *o, int form, hn_compile_options *extra,
                          char **out_path) {
    const char *where = weights_of(o);
    if (o->weights_beside && o->weights && strcmp(o->weights, "pt2") != 0)
        return tool_usage("compile", "--weights-beside is --weights pt2");
    if ((o->key || o->weights) && form != PRODUCT_BUNDLE)
        return tool_usage("compile", "--sign and --weights are for bundles only");
    extra->embed_weights = strcmp(where, "inside") == 0;
    if (extra->embed_weights || strcmp(where, "pt2") == 0) return 0;
    if (strcmp(where, "safetensors") != 0)
        return tool_usage("compile", "--weights needs inside, pt2 or safetensors, not '%s'", where);
    extra->safetensors = *out_path = safetensors_path(o->output);
    return *out_path ? 0 : tool_report(HN_ERROR(HN_OUT_OF_MEMORY, "out of memory"));
}

/* The picture, and the line in it that says how good the plan is. */
static hn_status deliver_plan(const tool_options *o, const dump *d) {
    static const char begin[] = "pool ";
    const hn_str all = hn_strbuf_str(&d->text);
    hn_strbuf line;
    HN_TRY(hn_file_write_atomic(o->memory_plan, all.ptr, all.len, true));
    const char *at = strstr(all.ptr, begin);
    if (!at || o->quiet || o->json) return NULL;
    hn_strbuf_init(&line);
    hn_strbuf_printf(&line, "%s: %.*s\n", o->memory_plan, (int)strcspn(at, "\"-"), at);
    hn_status status = tool_print(&line);
    hn_strbuf_deinit(&line);
    return status;
}

static bool ends_in(const char *text, const char *end) {
    const size_t len = strlen(text), end_len = strlen(end);
    return len >= end_len && strcmp(text + len - end_len, end) == 0;
}

/* The graph as it is imported, with its weights: a model by itself. */
static hn_status deliver_graph(const tool_options *o, hn_model_file *file) {
    hn_arena arena;
    hn_sym *sym = NULL;
    hn_graph *graph = NULL;
    hn_strbuf text;
    hn_arena_init(&arena);
    hn_strbuf_init(&text);
    hn_status status = hn_sym_create(&arena, &sym);
    if (!status) status = file->importer->import(file, o->model_name, &arena, sym, &graph);
    if (!status) hn_graph_print_whole(graph, &text);
    if (!status) status = hn_strbuf_status(&text);
    if (!status) status = deliver(o, &text);
    if (graph) hn_graph_deinit(graph);
    hn_strbuf_deinit(&text);
    hn_arena_deinit(&arena);
    return status;
}

/* Nothing is compiled, so no option of a compilation means anything. */
static int emit_graph(const tool_options *o) {
    hn_model_file *file;
    if (tool_options_check_action("compile", o, "--emit graph",
                                  " --emit --output --model --quiet --trace "))
        return TOOL_USAGE;
    hn_status status = hn_model_open(o->args.items[0], &file);
    if (status) return tool_report(status);
    status = deliver_graph(o, file);
    hn_model_close(file);
    return tool_report(status);
}

/* All that --target names is for the device of --device. */
static hn_status check_targets(const tool_options *o, hn_device_kind kind) {
    hn_target_groups groups;
    hn_status status = hn_target_groups_init(&groups, o->target);
    for (uint32_t k = 0; !status && k < HN_DEVICE_KIND_COUNT; k++)
        if (k != kind && groups.names[k].len)
            status = HN_ERROR(HN_INVALID_ARGUMENT,
                              "cannot compile for '%s': --target '%s' is for '%s'; give one of "
                              "--device and --target",
                              o->device, groups.names[k].ptr, hn_device_name(k));
    hn_target_groups_deinit(&groups);
    return status;
}

/* Without --target a GPU of this machine says what to compile for. */
static hn_status check_gpu(const char *device) {
    hn_target ignored;
    hn_strbuf names;
    hn_status status = hn_target_named(hn_str_of(device), &ignored);
    if (!status) return NULL;
    hn_strbuf_init(&names);
    hn_target_put_names(HN_DEVICE_CUDA, &names);
    status = hn_status_annotate(
        status,
        "cannot compile for '%s' without a GPU that says which architecture; name some by "
        "--target, of %s",
        device, hn_strbuf_str(&names).ptr);
    hn_strbuf_deinit(&names);
    return status;
}

static hn_status check_device(const tool_options *o) {
    hn_device device = {.number = 0};
    const char *name;
    if (!o->device) return NULL;
    HN_TRY(hn_device_parse(o->device, &device, &name));
    if (o->target) return check_targets(o, device.kind);
    return device.kind == HN_DEVICE_CUDA ? check_gpu(o->device) : NULL;
}

int tool_cmd_compile(const tool_options *o) {
    int form = choose_product(o);
    if (form < 0 || check_memory(o, form)) return TOOL_USAGE;
    char *weights = NULL;
    hn_compile_options extra = {0};
    int refused = choose_weights(o, form, &extra, &weights);
    if (refused) return refused;
    if (form == PRODUCT_GRAPH) return emit_graph(o);
    const char *path = o->args.items[0];
    tool_kind kind;
    dump d = {.called = false};
    hn_strbuf_init(&d.text);
    if (form == PRODUCT_DUMP || form == PRODUCT_SOURCE) {
        extra.dump_after = form == PRODUCT_DUMP ? stage_of(o) : NULL;
        extra.dump = dump_append;
        extra.dump_context = &d;
    }
    if (form == PRODUCT_SOURCE) extra.source_dir = o->output;
    if (o->memory_plan) {
        extra.dump_after = ends_in(o->memory_plan, ".json") ? "memory-json" : "memory-svg";
        extra.dump = dump_append;
        extra.dump_context = &d;
    }
    hn_compiled *compiled = NULL;
    hn_status status = tool_kind_of(path, &kind);
    if (!status && kind == TOOL_HNB)
        status = HN_ERROR(HN_INVALID_ARGUMENT,
                          "cannot compile '%s': it is a bundle, which is compiled already; run it",
                          path);
    if (!status) status = check_device(o);
    if (!status) status = check_referred(o, path);
    if (!status) status = tool_compile(o, path, extra, &compiled);
    if (!status && o->memory_plan) status = deliver_plan(o, &d);
    if (!status && form == PRODUCT_BUNDLE) status = deliver_bundle(o, compiled);
    if (!status && form == PRODUCT_DUMP) status = deliver_dump(o, &d);
    if (!status && form == PRODUCT_SOURCE) status = report_project(o, &d);
    if (!status && (form == PRODUCT_TEXT || form == PRODUCT_JSON))
        status = deliver_description(o, compiled, (product)form);
    hn_compiled_release(compiled);
    hn_strbuf_deinit(&d.text);
    free(weights);
    return tool_report(status);
}
