/* cache.c: `henry cache`: what is stored, whether it is sound, making room, and why something was
 * not found. */
#include "source.h"

#include "base/compiler.h"
#include "base/file.h"
#include "base/kind.h"
#include "cache/cache.h"
#include "driver/key.h"
#include "service/service.h"

#include <stdio.h>
#include <string.h>

static hn_status print_counts(const tool_options *o, hn_store *store, const char *verb,
                              uint64_t n) {
    if (!o->json) {
        printf("%s: %s %llu entr%s\n", hn_store_dir(store), verb, (unsigned long long)n,
               n == 1 ? "y" : "ies");
        return fflush(stdout) == 0 ? NULL : HN_ERROR(HN_IO, "cannot write to standard output");
    }
    tool_json json;
    tool_json_init(&json);
    tool_json_str(&json, "dir", hn_store_dir(store));
    tool_json_int(&json, verb, (int64_t)n);
    hn_status status = tool_json_finish(&json, true, NULL);
    tool_json_deinit(&json);
    return status;
}

static void stats_text(const hn_store *store, const hn_store_usage *u, hn_strbuf *text) {
    hn_strbuf_printf(text, "%s\n", hn_store_dir(store));
    for (uint32_t k = 0; k < HN_STORE_NS_COUNT; k++)
        hn_strbuf_printf(text, "  %-11s %8llu entries %12llu bytes\n",
                         hn_store_ns_name((hn_store_ns)k), (unsigned long long)u->entries[k],
                         (unsigned long long)u->bytes[k]);
    hn_strbuf_printf(text, "  %-11s %8llu entries\n  %-11s %29llu bytes of at most %llu\n",
                     "quarantined", (unsigned long long)u->quarantined, "total",
                     (unsigned long long)u->total_bytes, (unsigned long long)u->max_bytes);
}

static void stats_json(const hn_store *store, const hn_store_usage *u, tool_json *json) {
    tool_json_str(json, "dir", hn_store_dir(store));
    for (uint32_t k = 0; k < HN_STORE_NS_COUNT; k++) {
        tool_json_open(json, hn_store_ns_name((hn_store_ns)k), '{');
        tool_json_int(json, "entries", (int64_t)u->entries[k]);
        tool_json_int(json, "bytes", (int64_t)u->bytes[k]);
        tool_json_close(json);
    }
    tool_json_int(json, "quarantined", (int64_t)u->quarantined);
    tool_json_int(json, "total_bytes", (int64_t)u->total_bytes);
    tool_json_int(json, "max_bytes", (int64_t)u->max_bytes);
}

/* One round trip tells whether the remote cache can be used. */
static void remote_stats(hn_remote *remote, hn_strbuf *text, tool_json *json) {
    int64_t ping_ns;
    hn_status status = hn_remote_ping(remote, &ping_ns);
    if (status) hn_strbuf_printf(text, "  %-11s %s\n", "remote", hn_status_message(status));
    else
        hn_strbuf_printf(text, "  %-11s %s answers within %lld us\n", "remote",
                         hn_remote_name(remote), (long long)(ping_ns / 1000 + 1));
    tool_json_open(json, "remote", '{');
    tool_json_str(json, "url", hn_remote_name(remote));
    tool_json_bool(json, "usable", !status);
    tool_json_str(json, "error", status ? hn_status_message(status) : NULL);
    tool_json_ms(json, "ping_ms", ping_ns);
    tool_json_close(json);
    hn_status_free(status);
}

static hn_status cache_stats(const tool_options *o, hn_cache *cache) {
    hn_store *store = cache->store;
    hn_store_usage usage;
    hn_strbuf text;
    tool_json json;
    HN_TRY(hn_store_usage_get(store, &usage));
    hn_strbuf_init(&text);
    tool_json_init(&json);
    stats_text(store, &usage, &text);
    stats_json(store, &usage, &json);
    if (cache->remote) remote_stats(cache->remote, &text, &json);
    hn_status status = o->json ? tool_json_finish(&json, true, NULL) : tool_print(&text);
    tool_json_deinit(&json);
    hn_strbuf_deinit(&text);
    return status;
}

static hn_status cache_verify(const tool_options *o, hn_cache *cache) {
    hn_store *store = cache->store;
    hn_store_verify_report r;
    HN_TRY(hn_store_verify(store, &r));
    if (o->json) {
        tool_json json;
        tool_json_init(&json);
        tool_json_str(&json, "dir", hn_store_dir(store));
        tool_json_int(&json, "good", (int64_t)r.good);
        tool_json_int(&json, "bad", (int64_t)r.bad);
        tool_json_int(&json, "other_version", (int64_t)r.other_version);
        tool_json_int(&json, "unread", (int64_t)r.unread);
        hn_status status = tool_json_finish(&json, true, NULL);
        tool_json_deinit(&json);
        HN_TRY(status);
    } else {
        printf("%s: %llu good, %llu bad, %llu of another version\n", hn_store_dir(store),
               (unsigned long long)r.good, (unsigned long long)r.bad,
               (unsigned long long)r.other_version);
        if (fflush(stdout) != 0) return HN_ERROR(HN_IO, "cannot write to standard output");
    }
    if (r.bad)
        return HN_ERROR(
            HN_CORRUPT,
            "%llu entries did not verify and are in quarantine; they will be made again",
            (unsigned long long)r.bad);
    if (r.unread)
        return HN_ERROR(HN_IO, "%llu entries could not be read; they were left alone",
                        (unsigned long long)r.unread);
    return NULL;
}

static hn_status cache_gc(const tool_options *o, hn_cache *cache) {
    hn_store *store = cache->store;
    uint64_t removed;
    HN_TRY(o->max_bytes == 0
               ? hn_store_clear(store, &removed)
               : hn_store_gc(store, o->max_bytes > 0 ? (uint64_t)o->max_bytes : 0, &removed));
    return print_counts(o, store, "removed", removed);
}

static hn_status cache_clear(const tool_options *o, hn_cache *cache) {
    hn_store *store = cache->store;
    uint64_t removed;
    HN_TRY(hn_store_clear(store, &removed));
    return print_counts(o, store, "removed", removed);
}

/* One reason a line; as JSON an array of them. */
static hn_status print_reasons(const tool_options *o, const hn_strbuf *reasons) {
    if (!o->json) return tool_print(reasons);
    HN_TRY(hn_strbuf_status(reasons));
    tool_json json;
    tool_json_init(&json);
    tool_json_str(&json, "file", o->args.items[1]);
    tool_json_open(&json, "why", '[');
    for (const char *at = hn_strbuf_str(reasons).ptr; *at;) {
        size_t len = strcspn(at, "\n");
        tool_json_text(&json, NULL, (hn_str){at, len});
        at += len + (at[len] != 0);
    }
    hn_status status = tool_json_finish(&json, true, NULL);
    tool_json_deinit(&json);
    return status;
}

static hn_status why_source(const tool_options *o, hn_service *service, hn_strbuf *out) {
    hn_strbuf record;
    tool_source source;
    hn_strbuf_init(&record);
    hn_status status = tool_source_read(o, o->args.items[1], &source);
    if (!status) status = hn_service_key_record(service, &source.source, &record);
    if (!status)
        status =
            hn_store_why(hn_service_store(service), HN_STORE_KERNEL, hn_strbuf_str(&record), out);
    hn_strbuf_deinit(&record);
    tool_source_deinit(&source);
    return status;
}

/* Of a model or a bundle. */
static hn_status why_program(const tool_options *o,
                             hn_status (*why)(const char *, const hn_compile_options *,
                                              hn_strbuf *)) {
    hn_strbuf out;
    hn_strbuf_init(&out);
    hn_compile_options options = {0};
    tool_compile_options(o, &options);
    hn_status status = why(o->args.items[1], &options, &out);
    if (!status) status = print_reasons(o, &out);
    hn_strbuf_deinit(&out);
    return status;
}

/* A text may look like ONNX, which begins with a length. */
static bool may_be_source(hn_kind kind) {
    return kind == HN_KIND_UNKNOWN || kind == HN_KIND_EMPTY || kind == HN_KIND_ONNX;
}

static hn_status kind_of(const char *path, hn_kind *out) {
    hn_file_map map;
    HN_TRY(hn_file_map_init(&map, path));
    *out = hn_kind_of(map.data, map.size_bytes);
    hn_file_map_deinit(&map);
    return NULL;
}

static hn_status cache_why(const tool_options *o) {
    hn_kind kind;
    HN_TRY(kind_of(o->args.items[1], &kind));
    if (kind == HN_KIND_BUNDLE) return why_program(o, hn_driver_why_bundle);
    if (!may_be_source(kind)) return why_program(o, hn_driver_why);
    hn_service_options options = tool_service_options(o);
    hn_service *service;
    hn_strbuf out;
    HN_TRY(hn_service_create(&options, &service));
    hn_strbuf_init(&out);
    hn_status status = why_source(o, service, &out);
    if (!status) status = print_reasons(o, &out);
    hn_strbuf_deinit(&out);
    hn_service_destroy(service);
    return status;
}

#define PLACE " --cache-dir --remote "
#define PROGRAM                                                                                     \
    "--threads --target --target-cpu --model --no-fusion --deterministic --tuning --pool --donate " \
    "--computed-weights --cache-tag "
#define SOURCE "--language --entry --target --flag --env "

static const struct {
    const char *name;
    hn_status (*run)(const tool_options *options, hn_cache *cache);
    uint32_t files_min, files_max;
    const char *allowed; /* its options */
} actions[] = {
    {"stats", cache_stats, 0, 0, PLACE},
    {"verify", cache_verify, 0, 0, PLACE},
    {"gc", cache_gc, 0, 0, PLACE "--max-bytes "},
    {"clear", cache_clear, 0, 0, PLACE},
    {"export", tool_cache_export, 1, UINT32_MAX, PLACE PROGRAM "--output "},
    {"import", tool_cache_import, 1, 1, PLACE},
};

static hn_status run_action(const tool_options *o,
                            hn_status (*run)(const tool_options *options, hn_cache *cache)) {
    hn_store *store = NULL;
    hn_cache cache = {0};
    HN_TRY(hn_store_open(&(hn_store_options){.dir = o->cache_dir, .is_required = true}, &store));
    hn_status status = hn_cache_init(store, o->remote, &cache);
    if (!status) status = run(o, &cache);
    hn_cache_deinit(&cache);
    hn_store_close(store);
    return status;
}

static int refuse_action(const char *name) {
    const char *names[HN_COUNT_OF(actions) + 2] = {"why"};
    char near[100];
    for (size_t k = 0; k < HN_COUNT_OF(actions); k++) names[k + 1] = actions[k].name;
    return tool_usage("cache", "unknown action '%s'%s", name, tool_suggest(name, names, near));
}

int tool_cmd_cache(const tool_options *o) {
    const char *name = o->args.items[0];
    if (tool_compile_check("cache", o)) return TOOL_USAGE;
    if (strcmp(name, "why") == 0 &&
        tool_options_check_action("cache", o, name, PLACE PROGRAM SOURCE))
        return TOOL_USAGE;
    if (strcmp(name, "why") == 0)
        return o->args.count == 2 ? tool_report(cache_why(o))
                                  : tool_usage("cache", "why needs a FILE");
    for (size_t k = 0; k < HN_COUNT_OF(actions); k++) {
        uint32_t files = o->args.count - 1;
        if (strcmp(actions[k].name, name) != 0) continue;
        if (tool_options_check_action("cache", o, name, actions[k].allowed)) return TOOL_USAGE;
        if (files > actions[k].files_max)
            return tool_usage(
                "cache", actions[k].files_max ? "%s takes one file" : "%s takes no file", name);
        if (files < actions[k].files_min)
            return tool_usage(
                "cache", actions[k].files_max > 1 ? "%s needs a MODEL or a KEY" : "%s needs a FILE",
                name);
        if (actions[k].run == tool_cache_export && !o->output)
            return tool_usage("cache", "give the file for the entries with -o FILE");
        if (o->output && strcmp(o->output, "-") == 0)
            return tool_usage("cache",
                              "entries cannot go to standard output; name a file with -o FILE");
        return tool_report(run_action(o, actions[k].run));
    }
    return refuse_action(name);
}
