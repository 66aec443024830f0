/* key.c: the graph cache's key: everything that decides the image, as a record of named fields (cache/record.h), so that
 * `henry cache why` can name the one that changed.
 *
 * The model counts by its archive directory (names, places, sizes and checksums of all records) and the bytes of its
 * JSON, so a warm start reads neither the graph nor the weights. Options, target, compiler and Henry's own version
 * stand beside it. */
#include "driver/key.h"

#include "bundle/format.h"
#include "cache/record.h"
#include "front/pt2/archive.h"
#include "henry/abi/extern_abi.h"
#include "henry/abi/kernel_abi.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/stat.h>

/* Raised whenever the same input may give another image. */
#define HN_DRIVER_VERSION "1"

static void put(hn_digest_state *state, const void *bytes, size_t len) {
    uint64_t size = len;
    hn_digest_update(state, &size, sizeof size);
    hn_digest_update(state, bytes, len);
}

static void add_text(hn_strbuf *out, const char *name, const char *text) { hn_record_add(out, name, hn_str_of(text ? text : "")); }

static void add_digest(hn_strbuf *out, const char *name, const hn_digest *digest) {
    char hex[HN_DIGEST_HEX_BYTES];
    hn_digest_hex(digest, hex);
    add_text(out, name, hex);
}

static void add_size_and_time(hn_strbuf *out, const char *name, const struct stat *st) {
    char text[96];
    snprintf(text, sizeof text, "%lld bytes, changed %lld.%09ld", (long long)st->st_size, (long long)st->st_mtim.tv_sec, st->st_mtim.tv_nsec);
    add_text(out, name, text);
}

static bool is_json(hn_str name) { return name.len > 5 && memcmp(name.ptr + name.len - 5, ".json", 5) == 0; }

/* "graph": the JSON; "weights": the rest, by what the archive says of it. */
static hn_status add_archive(hn_pt2 *file, hn_strbuf *out) {
    hn_digest_state graph, weights;
    hn_digest_begin(&graph);
    hn_digest_begin(&weights);
    for (uint32_t k = 0; k < file->zip.entries.count; k++) {
        hn_zip_entry *entry = &file->zip.entries.items[k];
        uint64_t place[4] = {entry->header_offset, entry->packed_bytes, entry->size_bytes, entry->crc};
        hn_digest_state *state = is_json(entry->name) ? &graph : &weights;
        put(state, entry->name.ptr, entry->name.len);
        if (state == &weights) {
            put(state, place, sizeof place);
            continue;
        }
        hn_str bytes;
        HN_TRY(hn_zip_read(&file->zip, entry, HN_ZIP_TRUST, &bytes, NULL));
        put(state, bytes.ptr, bytes.len);
    }
    hn_digest digest = hn_digest_end(&graph);
    add_digest(out, "graph", &digest);
    digest = hn_digest_end(&weights);
    add_digest(out, "weights", &digest);
    return NULL;
}

/* The weights are found again by path, so the image belongs to this path. */
static void add_path(const char *path, hn_strbuf *out) {
    char real[PATH_MAX];
    struct stat st;
    add_text(out, "path", realpath(path, real) ? real : path);
    if (stat(path, &st) == 0) add_size_and_time(out, "file", &st);
}

/* Another build of Henry may make another image of the same model: the file that this code was loaded from tells builds apart. */
static void add_build(hn_strbuf *out) {
    Dl_info info;
    struct stat st;
    char formats[96];
    snprintf(formats, sizeof formats, "pipeline %s, bundle %d, kernel %d, extern %d", HN_DRIVER_VERSION, HNB_VERSION, HN_KERNEL_ABI_VERSION,
             HN_EXTERN_ABI_VERSION);
    add_text(out, "formats", formats);
    if (!dladdr(__extension__(void *)hn_driver_key_record, &info) || !info.dli_fname || stat(info.dli_fname, &st) != 0) return;
    add_size_and_time(out, "build", &st);
}

hn_status hn_driver_key_record(hn_pt2 *file, const char *path, const hn_compile_options *options, const hn_c_target *target,
                               const hn_digest *compiler, hn_strbuf *out) {
    add_build(out);
    add_text(out, "target", target->name);
    add_text(out, "target_flags", target->flags);
    add_digest(out, "compiler", compiler);
    add_text(out, "model", options->model);
    hn_record_add_i64(out, "no_fusion", options->no_fusion);
    hn_record_add_i64(out, "threads", hn_driver_threads(options)); /* machines that share a cache have different CPUs */
    hn_record_add_i64(out, "embed_weights", options->embed_weights);
    hn_record_add_i64(out, "weights_digest", options->verify && options->embed_weights);
    add_path(path, out);
    HN_TRY(add_archive(file, out));
    return hn_strbuf_status(out);
}
