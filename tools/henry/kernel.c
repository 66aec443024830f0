/* kernel.c: `henry kernel compile`: source files through the compile service, all at once. */
#include "source.h"

#include "base/file.h"
#include "base/trace.h"
#include "toolchain/toolchain.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

typedef struct unit {
    const char *path;
    tool_source source;
    hn_future *future;
    hn_artifact *artifact;
    hn_status status; /* what went wrong with this one */
} unit;

typedef struct batch {
    const tool_options *options;
    unit *units;
    uint32_t count;
    bool is_output_dir, is_list; /* is_list: an array in JSON */
    int64_t spent_ns;
    hn_strbuf written; /* list of paths */
    tool_json json;
} batch;

/* --- where things go --- */

static bool is_dir(const char *path) {
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

/* "DIR/NAME" + ending, or "-o" itself. `ending`: ".so", ".sm_90.cubin". */
static hn_status output_path(const batch *b, const unit *u, const char *ending,
                             char out[PATH_MAX]) {
    const char *given = b->options->output, *slash = strrchr(u->path, '/'),
               *name = slash ? slash + 1 : u->path;
    const char *dot = strrchr(name, '.');
    int stem = dot && dot != name ? (int)(dot - name) : (int)strlen(name), len;
    if (given && !b->is_output_dir) len = snprintf(out, PATH_MAX, "%s", given);
    else if (given)
        len = snprintf(out, PATH_MAX, "%s%s%.*s%s", given,
                       given[strlen(given) - 1] == '/' ? "" : "/", stem, name, ending);
    else
        len = snprintf(out, PATH_MAX, "%.*s%.*s%s", (int)(name - u->path), u->path, stem, name,
                       ending);
    return len < PATH_MAX
               ? NULL
               : HN_ERROR(HN_INVALID_ARGUMENT, "too long a path for what '%s' becomes", u->path);
}

/* The name that a Python module's file must have. */
static void module_ending(const unit *u, char out[PATH_MAX]) {
    const hn_source *s = &u->source.source;
    for (size_t k = 0; k < s->target_count; k++)
        if (strncmp(s->target[k], "module=", 7) == 0)
            snprintf(out, PATH_MAX, "%s.abi3.so", s->target[k] + 7);
}

static const char *level_name(const hn_future *future) {
    static const char *const names[] = {[HN_HIT_NONE] = "compiled",
                                        [HN_HIT_INFLIGHT] = "inflight",
                                        [HN_HIT_MEMORY] = "memory",
                                        [HN_HIT_DISK] = "disk",
                                        [HN_HIT_REMOTE] = "remote"};
    hn_hit_level level = hn_future_hit_level(future);
    return level < sizeof names / sizeof names[0] && names[level] ? names[level] : "found";
}

/* The flag that says how much is optimised: the last one counts. NULL: none. */
static const char *optimisation(const hn_source *source) {
    for (size_t k = source->flag_count; k-- > 0;)
        if (strncmp(source->flags[k], "-O", 2) == 0) return source->flags[k];
    return NULL;
}

static void note_flags(batch *b, const hn_source *source) {
    tool_json_open(&b->json, "flags", '[');
    for (size_t k = 0; k < source->flag_count; k++) tool_json_str(&b->json, NULL, source->flags[k]);
    tool_json_close(&b->json);
}

static bool is_written(const batch *b, const char *path) {
    const char *item;
    for (hn_str rest = hn_strbuf_str(&b->written); hn_list_next(&rest, &item);)
        if (strcmp(item, path) == 0) return true;
    return false;
}

static hn_status write_one(batch *b, const unit *u, const char *path, const void *bytes,
                           size_t len) {
    if (is_written(b, path))
        return HN_ERROR(HN_INVALID_ARGUMENT, "cannot write '%s' for '%s': another file became it",
                        path, u->path);
    hn_list_add(&b->written, path);
    HN_TRY(hn_strbuf_status(&b->written));
    if (strcmp(path, "/dev/null") != 0) HN_TRY(hn_file_write_atomic(path, bytes, len, false));
    if (b->options->json) {
        if (b->is_list) tool_json_open(&b->json, NULL, '{');
        tool_json_str(&b->json, "source", u->path);
        tool_json_str(&b->json, "object", path);
        tool_json_int(&b->json, "bytes", (int64_t)len);
        tool_json_str(&b->json, "from", level_name(u->future));
        note_flags(b, &u->source.source);
        tool_json_str(&b->json, "key", hn_artifact_key(u->artifact));
        if (b->is_list) tool_json_close(&b->json);
        return NULL;
    }
    char time[32] = "";
    if (b->count == 1) snprintf(time, sizeof time, "%.1f ms, ", (double)b->spent_ns / 1e6);
    const char *level = optimisation(&u->source.source);
    printf("%s: %zu bytes, %s%s%s, %skey %s\n", path, len, level ? level : "", level ? ", " : "",
           level_name(u->future), time, hn_artifact_key(u->artifact));
    return fflush(stdout) == 0 ? NULL : HN_ERROR(HN_IO, "cannot write to standard output");
}

static hn_status write_images(batch *b, const unit *u) {
    uint32_t count = hn_artifact_image_count(u->artifact);
    if (count > 1 && b->options->output && !b->is_output_dir)
        return HN_ERROR(HN_INVALID_ARGUMENT,
                        "cannot write %u images of '%s' to one file; give a directory with -o",
                        count, u->path);
    for (uint32_t k = 0; k < count; k++) {
        hn_image image;
        char ending[64], path[PATH_MAX];
        HN_TRY(hn_artifact_image(u->artifact, k, &image));
        snprintf(ending, sizeof ending, ".%s.%s", image.arch,
                 image.kind == HN_IMAGE_PTX ? "ptx" : "cubin");
        HN_TRY(output_path(b, u, ending, path));
        HN_TRY(write_one(b, u, path, image.bytes, image.len));
    }
    return NULL;
}

static hn_status write_unit(batch *b, const unit *u) {
    char path[PATH_MAX];
    size_t len;
    if (hn_artifact_image_count(u->artifact)) return write_images(b, u);
    const void *bytes = hn_artifact_bytes(u->artifact, &len);
    const char *language = u->source.source.language;
    HN_TRY(output_path(b, u, strcmp(language, "opencl") == 0 ? ".clo" : ".so", path));
    bool is_module = strcmp(language, "python") == 0;
    if (is_module && (!b->options->output || b->is_output_dir)) {
        char *slash = strrchr(path, '/'), name[PATH_MAX] = "";
        module_ending(u, name);
        size_t at = slash ? (size_t)(slash + 1 - path) : 0;
        if (at + strlen(name) >= PATH_MAX)
            return HN_ERROR(HN_INVALID_ARGUMENT, "too long a path for module '%s'", name);
        memcpy(path + at, name, strlen(name) + 1);
    }
    return write_one(b, u, path, bytes, len);
}

/* --- compiling --- */

static bool show_progress(void *context, const hn_scope_progress *p) {
    bool *shown = context;
    if (p->elapsed_ns < 300000000 && !*shown) return true; /* what ends soon needs no line */
    *shown = true;
    char line[256];
    fprintf(stderr, "\r%s\033[K", hn_scope_progress_line(p, line, sizeof line));
    fflush(stderr);
    return true;
}

/* Waits for all; the reasons of those that fail come from their own futures. */
static void wait_for_all(hn_scope *scope) {
    bool shown = false, is_terminal = tool_is_terminal();
    hn_status_free(hn_scope_wait(scope, is_terminal ? show_progress : NULL, &shown));
    if (shown) fputs("\r\033[K", stderr);
}

static void compile_all(batch *b, hn_scope *scope) {
    int64_t begin = hn_now_ns();
    for (uint32_t k = 0; k < b->count; k++) {
        unit *u = &b->units[k];
        u->status = tool_source_read(b->options, u->path, &u->source);
        if (!u->status) u->status = hn_compile_submit(scope, &u->source.source, &u->future);
    }
    wait_for_all(scope);
    for (uint32_t k = 0; k < b->count; k++)
        if (!b->units[k].status)
            b->units[k].status = hn_future_wait(b->units[k].future, -1, &b->units[k].artifact);
    b->spent_ns = hn_now_ns() - begin;
}

static void note_failure(batch *b, const unit *u) {
    if (!b->options->json) return;
    if (b->is_list) tool_json_open(&b->json, NULL, '{');
    tool_json_str(&b->json, "source", u->path);
    tool_json_str(&b->json, "error", hn_status_message(u->status));
    if (b->is_list) tool_json_close(&b->json);
}

/* The diagnosis on one line, and on another the command that repeats it. */
static void report(hn_status status) {
    const char *message = hn_status_message(status), *again = strstr(message, HN_JOB_AGAIN);
    if (!again) {
        tool_report(status);
        return;
    }
    tool_report(HN_ERROR(hn_status_code(status), "%.*s", (int)(again - message), message));
    tool_report(HN_ERROR(hn_status_code(status), "%s", again + 2));
    hn_status_free(status);
}

/* Writes what compiled and tells about the rest. How many failed. */
static uint32_t write_all(batch *b) {
    uint32_t failed = 0;
    b->is_list = b->options->json &&
                 (b->count > 1 ||
                  (b->units[0].artifact && hn_artifact_image_count(b->units[0].artifact) > 1));
    if (b->is_list) tool_json_open(&b->json, "files", '[');
    for (uint32_t k = 0; k < b->count; k++) {
        unit *u = &b->units[k];
        if (!u->status) u->status = write_unit(b, u);
        if (u->status) note_failure(b, u);
        failed += u->status != NULL;
        report(u->status);
        u->status = NULL;
    }
    if (b->is_list) tool_json_close(&b->json);
    if (b->options->json) tool_json_ms(&b->json, "compile_ms", b->spent_ns);
    else if (b->count > 1)
        printf("%u of %u files compiled in %.1f ms\n", b->count - failed, b->count,
               (double)b->spent_ns / 1e6);
    return failed;
}

static int run_batch(batch *b) {
    hn_service_options options = tool_service_options(b->options);
    hn_service *service = NULL;
    hn_scope *scope = NULL;
    hn_status status = hn_service_create(&options, &service);
    if (!status) status = hn_scope_create(service, &scope);
    int code = TOOL_FAILED;
    if (!status) {
        compile_all(b, scope);
        uint32_t failed = write_all(b);
        if (b->options->json) status = tool_json_finish(&b->json, true, NULL);
        code = failed ? TOOL_FAILED : TOOL_OK;
    }
    for (uint32_t k = 0; k < b->count; k++) {
        hn_artifact_release(b->units[k].artifact);
        tool_source_deinit(&b->units[k].source);
    }
    hn_scope_destroy(scope);
    hn_service_destroy(service);
    return status ? tool_report(status) : code;
}

int tool_cmd_kernel(const tool_options *o) {
    static const char *const actions[] = {"compile", NULL};
    char near[100];
    if (strcmp(o->args.items[0], "compile") != 0)
        return tool_usage("kernel", "unknown action '%s'%s", o->args.items[0],
                          tool_suggest(o->args.items[0], actions, near));
    if (o->output && strcmp(o->output, "-") == 0)
        return tool_usage("kernel",
                          "a kernel cannot go to standard output; name a file with -o OUT");
    batch b = {.options = o, .count = o->args.count - 1};
    b.is_output_dir =
        o->output && (is_dir(o->output) || (*o->output && o->output[strlen(o->output) - 1] == '/'));
    if (b.count > 1 && o->output && !b.is_output_dir)
        return tool_usage(
            "kernel",
            "with several files -o names a directory that exists, or ends in '/'; '%s' does not",
            o->output);
    if (b.is_output_dir && !is_dir(o->output)) {
        hn_status status = hn_dir_create_public(o->output);
        if (status) return tool_report(status);
    }
    b.units = calloc(b.count, sizeof *b.units);
    if (!b.units) return tool_report(HN_ERROR(HN_OUT_OF_MEMORY, "no memory for %u files", b.count));
    for (uint32_t k = 0; k < b.count; k++) b.units[k].path = o->args.items[k + 1];
    tool_json_init(&b.json);
    hn_strbuf_init(&b.written);
    int code = run_batch(&b);
    hn_strbuf_deinit(&b.written);
    tool_json_deinit(&b.json);
    free(b.units);
    return code;
}
