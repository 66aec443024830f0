/* key.c: the graph cache's key: everything that decides the image.
 *
 * The model counts by its archive directory (names, places, sizes and checksums of all records) and the bytes of its
 * JSON, so a warm start reads neither the graph nor the weights. Options, target, compiler and Henry's own version
 * follow, each with its name. */
#include "driver/key.h"

#include "bundle/format.h"
#include "front/pt2/archive.h"
#include "henry/abi/extern_abi.h"
#include "henry/abi/kernel_abi.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/stat.h>

/* Raised whenever the same input may give another image. */
#define HN_DRIVER_VERSION "1"

static void put(hn_digest_state *state, const char *name, const void *bytes, size_t len) {
    uint64_t size = len;
    hn_digest_update(state, name, strlen(name) + 1);
    hn_digest_update(state, &size, sizeof size);
    hn_digest_update(state, bytes, len);
}

static void put_int(hn_digest_state *state, const char *name, int64_t value) { put(state, name, &value, sizeof value); }

static void put_text(hn_digest_state *state, const char *name, const char *text) {
    put(state, name, text ? text : "", text ? strlen(text) : 0);
}

static bool is_json(hn_str name) { return name.len > 5 && memcmp(name.ptr + name.len - 5, ".json", 5) == 0; }

static hn_status put_archive(hn_digest_state *state, hn_pt2 *file) {
    for (uint32_t k = 0; k < file->zip.entries.count; k++) {
        hn_zip_entry *entry = &file->zip.entries.items[k];
        uint64_t place[4] = {entry->header_offset, entry->packed_bytes, entry->size_bytes, entry->crc};
        put(state, "record", entry->name.ptr, entry->name.len);
        put(state, "place", place, sizeof place);
        if (!is_json(entry->name)) continue;
        hn_str bytes;
        HN_TRY(hn_zip_read(&file->zip, entry, HN_ZIP_TRUST, &bytes, NULL));
        put(state, "json", bytes.ptr, bytes.len);
    }
    return NULL;
}

/* The weights are found again by path, so the image belongs to this path. */
static void put_path(hn_digest_state *state, const char *path) {
    char real[PATH_MAX];
    struct stat st;
    put_text(state, "path", realpath(path, real) ? real : path);
    if (stat(path, &st) != 0) return;
    put_int(state, "size", st.st_size);
    put_int(state, "mtime_s", st.st_mtim.tv_sec);
    put_int(state, "mtime_ns", st.st_mtim.tv_nsec);
}

/* Another build of Henry may make another image of the same model: the file that this code was loaded from tells builds apart. */
static void put_build(hn_digest_state *state) {
    Dl_info info;
    struct stat st;
    uint32_t versions[3] = {HNB_VERSION, HN_KERNEL_ABI_VERSION, HN_EXTERN_ABI_VERSION};
    put(state, "formats", versions, sizeof versions);
    if (!dladdr(__extension__(void *)hn_driver_key, &info) || !info.dli_fname || stat(info.dli_fname, &st) != 0) return;
    put_int(state, "build_size", st.st_size);
    put_int(state, "build_mtime_s", st.st_mtim.tv_sec);
    put_int(state, "build_mtime_ns", st.st_mtim.tv_nsec);
}

hn_status hn_driver_key(hn_pt2 *file, const char *path, const hn_compile_options *options, const hn_c_target *target,
                        const hn_digest *compiler, hn_digest *out) {
    hn_digest_state state;
    hn_digest_begin(&state);
    put_text(&state, "version", HN_DRIVER_VERSION);
    put_build(&state);
    put_text(&state, "target", target->name);
    put_text(&state, "target_flags", target->flags);
    put(&state, "compiler", compiler->bytes, sizeof compiler->bytes);
    put_text(&state, "model", options->model);
    put_int(&state, "no_fusion", options->no_fusion);
    put_int(&state, "threads", options->threads);
    put_int(&state, "embed_weights", options->embed_weights);
    put_path(&state, path);
    hn_status status = put_archive(&state, file);
    *out = hn_digest_end(&state);
    return status;
}
