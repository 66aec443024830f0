/* kernel.c: `henry kernel compile`: one source file through the compile service. */
#include "source.h"

#include "base/file.h"
#include "base/trace.h"
#include "toolchain/toolchain.h"

#include <stdio.h>

/* The language whose sources have this suffix. */
static const char *language_of(const char *path) {
    size_t len = strlen(path);
    for (uint32_t k = 0; k < HN_TOOLCHAIN_ROWS; k++) {
        const hn_toolchain_row *row = hn_toolchain_row_at(k);
        size_t suffix = strlen(row->source_suffix);
        if (len > suffix && strcmp(path + len - suffix, row->source_suffix) == 0) return row->language;
    }
    return NULL;
}

hn_status tool_source_read(const tool_options *o, const char *path, hn_strbuf *storage, hn_source *out) {
    const char *language = o->language ? o->language : language_of(path);
    if (!language) return HN_ERROR(HN_INVALID_ARGUMENT, "cannot tell the language of '%s' by its suffix; give --language", path);
    HN_TRY(hn_file_read(path, storage));
    *out = (hn_source){.name = path,
                       .language = language,
                       .text = storage->ptr ? storage->ptr : "",
                       .text_len = storage->len,
                       .entries = o->entries.items,
                       .entry_count = o->entries.count,
                       .flags = o->flags.items,
                       .flag_count = o->flags.count};
    return NULL;
}

hn_service_options tool_service_options(const tool_options *o) {
    return (hn_service_options){.threads = o->compile_threads > 0 && o->compile_threads < INT32_MAX ? (int32_t)o->compile_threads : 0,
                                .cache_dir = o->no_cache ? "" : o->cache_dir};
}

static hn_status report(const tool_options *o, const char *path, hn_future *future, const hn_artifact *artifact, int64_t spent_ns) {
    static const char *const levels[HN_HIT_LEVEL_COUNT] = {"compiled", "inflight", "memory", "disk"};
    size_t len;
    hn_artifact_bytes(artifact, &len);
    const char *from = levels[hn_future_hit_level(future)];
    if (!o->json) {
        printf("%s: %zu bytes, %s, %.1f ms, key %s\n", o->output, len, from, (double)spent_ns / 1e6, hn_artifact_key(artifact));
        return fflush(stdout) == 0 ? NULL : HN_ERROR(HN_IO, "cannot write to standard output");
    }
    tool_json json;
    tool_json_init(&json);
    tool_json_str(&json, "source", path);
    tool_json_str(&json, "object", o->output);
    tool_json_int(&json, "bytes", (int64_t)len);
    tool_json_str(&json, "from", from);
    tool_json_str(&json, "key", hn_artifact_key(artifact));
    tool_json_ms(&json, "compile_ms", spent_ns);
    hn_status status = tool_json_finish(&json, true, NULL);
    tool_json_deinit(&json);
    return status;
}

/* The service promises no more than that the source compiles: whether the functions are there shows when it is loaded. */
static hn_status check_entries(const tool_options *o, const hn_artifact *artifact) {
    hn_library *library;
    void *address;
    hn_status status = NULL;
    if (!o->entries.count) return NULL;
    HN_TRY(hn_artifact_load(artifact, &library));
    for (uint32_t k = 0; k < o->entries.count && !status; k++) status = hn_library_symbol(library, o->entries.items[k], &address);
    hn_library_close(library);
    return status;
}

static hn_status compile_in(const tool_options *o, hn_scope *scope, const char *path) {
    hn_strbuf text;
    hn_source source;
    hn_future *future = NULL;
    hn_artifact *artifact = NULL;
    size_t len;
    hn_strbuf_init(&text);
    int64_t begin = hn_now_ns();
    hn_status status = tool_source_read(o, path, &text, &source);
    if (!status) status = hn_compile_submit(scope, &source, &future);
    if (!status) status = hn_future_wait(future, -1, &artifact);
    int64_t spent = hn_now_ns() - begin;
    if (!status) status = check_entries(o, artifact);
    if (!status) {
        const void *bytes = hn_artifact_bytes(artifact, &len);
        status = hn_file_write_atomic(o->output, bytes, len, false);
    }
    if (!status) status = report(o, path, future, artifact, spent);
    hn_artifact_release(artifact);
    hn_strbuf_deinit(&text);
    return status;
}

int tool_cmd_kernel(const tool_options *o) {
    if (strcmp(o->args.items[0], "compile") != 0) return tool_usage("kernel", "unknown action '%s'", o->args.items[0]);
    if (!o->output) return tool_usage("kernel", "say with -o OUT.so where to write");
    hn_service_options options = tool_service_options(o);
    hn_service *service = NULL;
    hn_scope *scope = NULL;
    hn_status status = hn_service_create(&options, &service);
    if (!status) status = hn_scope_create(service, &scope);
    if (!status) status = compile_in(o, scope, o->args.items[1]);
    hn_scope_destroy(scope);
    hn_service_destroy(service);
    return tool_report(status);
}
