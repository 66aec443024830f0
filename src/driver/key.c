/* key.c: the graph cache's key: everything that decides the image, as a record of named fields (cache/record.h), so that
 * `henry cache why` can name the one that changed.
 *
 * The model counts by the bytes of its JSON and by where its weights lie, so a warm start reads neither the graph nor the
 * weights, and files that differ in their weights alone share programs. Options, target, compiler and Henry's own version
 * stand beside it. What values of weights a program was made from comes in graph_cache.c. */
#include "driver/key.h"

#include "bundle/format.h"
#include "cache/record.h"
#include "driver/build.h"
#include "front/pt2/archive.h"
#include "henry/abi/extern_abi.h"
#include "henry/abi/kernel_abi.h"

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

/* Digested parts of the archive, in words for `henry cache why` and exactly. */
typedef struct key_part {
    hn_digest_state state;
    uint32_t records;
    uint64_t bytes; /* of the records whose sizes count */
} key_part;

static void add_part(hn_strbuf *out, const char *name, key_part *p) {
    char hex[HN_DIGEST_HEX_BYTES], text[HN_DIGEST_HEX_BYTES + 64];
    hn_digest digest = hn_digest_end(&p->state);
    hn_digest_hex(&digest, hex);
    snprintf(text, sizeof text, "%u records, %llu bytes (%s)", p->records, (unsigned long long)p->bytes, hex);
    add_text(out, name, text);
}

static void add_size_and_time(hn_strbuf *out, const char *name, const struct stat *st) {
    char text[96];
    snprintf(text, sizeof text, "%lld bytes, changed %lld.%09ld", (long long)st->st_size, (long long)st->st_mtim.tv_sec, st->st_mtim.tv_nsec);
    add_text(out, name, text);
}

/* ---- what is in the archive ---- */

enum {
    SMALL_BYTES = 64,          /* versions, byte order: by value */
    VALUE_BYTES = 64 << 10,    /* constants up to here are compared byte for byte */
    SAMPLES = 16, SAMPLE_BYTES = 64
};

static bool ends_with(hn_str name, const char *end) {
    size_t len = strlen(end);
    return name.len >= len && memcmp(name.ptr + name.len - len, end, len) == 0;
}

static bool has(hn_str name, const char *part) { return memmem(name.ptr, name.len, part, strlen(part)) != NULL; }

/* How a record counts. The example inputs and the number that tells copies of a file apart say nothing of the program. */
typedef enum record_class { BY_VALUE, BY_PLACE, BY_NAME } record_class;

static record_class class_of(const hn_zip_entry *entry) {
    if (ends_with(entry->name, ".json")) return BY_VALUE;
    if (has(entry->name, "data/weights/") || has(entry->name, "data/constants/")) return BY_PLACE;
    return entry->size_bytes <= SMALL_BYTES && !ends_with(entry->name, "serialization_id") ? BY_VALUE : BY_NAME;
}

/* Names without the root folder, which is the name that the file was saved under. */
static void put_name(const hn_pt2 *file, const hn_zip_entry *entry, hn_digest_state *state) {
    size_t root = hn_str_starts_with(entry->name, file->root) ? file->root.len : 0;
    put(state, entry->name.ptr + root, entry->name.len - root);
}

static hn_status put_record(hn_pt2 *file, hn_zip_entry *entry, hn_digest_state *state) {
    hn_str bytes;
    HN_TRY(hn_zip_read(&file->zip, entry, HN_ZIP_TRUST, &bytes, NULL));
    put(state, bytes.ptr, bytes.len);
    return NULL;
}

/* "graph": what is read; "weights": the places of the rest, with their checksums unless other files may share the key. */
static hn_status add_archive(hn_pt2 *file, bool is_shared, hn_strbuf *out) {
    key_part graph = {.records = 0}, weights = {.records = 0};
    hn_digest_begin(&graph.state);
    hn_digest_begin(&weights.state);
    for (uint32_t k = 0; k < file->zip.entries.count; k++) {
        hn_zip_entry *entry = &file->zip.entries.items[k];
        uint64_t place[5] = {entry->header_offset, entry->packed_bytes, entry->size_bytes, entry->method, entry->crc};
        record_class how = class_of(entry);
        key_part *to = how == BY_VALUE ? &graph : &weights;
        hn_digest_state *state = &to->state;
        to->records++;
        if (how != BY_NAME || !is_shared) to->bytes += entry->size_bytes;
        put_name(file, entry, state);
        if (how == BY_VALUE) HN_TRY(put_record(file, entry, state));
        else if (!is_shared) put(state, place, sizeof place);
        else if (how == BY_PLACE) put(state, place, sizeof place - sizeof *place);
    }
    add_part(out, "graph", &graph);
    add_part(out, "weights", &weights);
    return NULL;
}

bool hn_driver_key_is_shared(const hn_pt2 *file, const hn_options *options) {
    if (file->generation == HN_PT2_FLAT || !file->zip.has_checksums || HN_OPT(options, embed_weights)) return false;
    for (uint32_t k = 0; k < file->zip.entries.count; k++) { /* 2.8 keeps an archive of weights there */
        const hn_zip_entry *entry = &file->zip.entries.items[k];
        if (class_of(entry) == BY_PLACE && ends_with(entry->name, ".pt")) return false;
    }
    return true;
}

hn_status hn_driver_key_check(const hn_pt2 *file, const hn_options *options) {
    if (!hn_driver_key_is_shared(file, options)) return NULL; /* the checksums of all records are in the key */
    for (uint32_t k = 0; k < file->zip.entries.count; k++) {
        const hn_zip_entry *entry = &file->zip.entries.items[k];
        if (entry->was_read && class_of(entry) != BY_VALUE)
            return HN_ERROR(HN_INTERNAL, "the record '" HN_STR_FMT "' was read and its bytes are not in the key of the graph cache",
                            HN_STR_ARG(entry->name));
    }
    return NULL;
}

/* A large record that differs in a few values has another checksum; samples guard against the one in 2^32. */
static void put_values(hn_str bytes, uint32_t crc, hn_digest_state *state) {
    if (bytes.len <= VALUE_BYTES) {
        put(state, bytes.ptr, bytes.len);
        return;
    }
    put(state, &crc, sizeof crc);
    size_t step = (bytes.len - SAMPLE_BYTES) / (SAMPLES - 1);
    for (size_t k = 0; k < SAMPLES; k++) put(state, bytes.ptr + k * step, SAMPLE_BYTES);
}

hn_status hn_driver_values_digest(hn_pt2 *file, const uint32_t *reads, uint32_t count, hn_digest *out) {
    hn_digest_state state;
    hn_digest_begin(&state);
    for (uint32_t k = 0; k < count; k++) {
        hn_str bytes;
        if (reads[k] >= file->zip.entries.count) return HN_ERROR(HN_CORRUPT, "a list of records names number %u", reads[k]);
        hn_zip_entry *entry = &file->zip.entries.items[reads[k]];
        HN_TRY(hn_zip_read(&file->zip, entry, HN_ZIP_TRUST, &bytes, NULL));
        put_name(file, entry, &state);
        put_values(bytes, entry->crc, &state);
    }
    *out = hn_digest_end(&state);
    return NULL;
}

hn_status hn_driver_places_digest(hn_pt2 *file, hn_digest *out) {
    hn_digest_state state;
    hn_digest_begin(&state);
    for (uint32_t k = 0; k < file->zip.entries.count; k++) {
        hn_str bytes;
        uint64_t offset;
        if (class_of(&file->zip.entries.items[k]) != BY_PLACE) continue;
        HN_TRY(hn_zip_read(&file->zip, &file->zip.entries.items[k], HN_ZIP_TRUST, &bytes, &offset));
        put(&state, &offset, sizeof offset);
    }
    *out = hn_digest_end(&state);
    return NULL;
}

/* ---- the record ---- */

/* A program that belongs to one file finds it again by path. */
static void add_path(const char *path, hn_strbuf *out) {
    char real[PATH_MAX];
    struct stat st;
    add_text(out, "path", realpath(path, real) ? real : path);
    if (stat(path, &st) == 0) add_size_and_time(out, "file", &st);
}

/* Another build of Henry may make another image of the same model. */
static void add_build(hn_strbuf *out) {
    char formats[96];
    snprintf(formats, sizeof formats, "pipeline %s, bundle %d, kernel %d, extern %d", HN_DRIVER_VERSION, HNB_VERSION, HN_KERNEL_ABI_VERSION,
             HN_EXTERN_ABI_VERSION);
    add_text(out, "formats", formats);
    add_text(out, "build", hn_build_identity());
}

void hn_driver_key_machine(const hn_graph_key *key, hn_strbuf *out) {
    add_build(out);
    hn_record_add(out, "environment", key->environment);
    hn_options_key(key->options, out);
}

hn_status hn_driver_key_record(hn_pt2 *file, const hn_graph_key *key, hn_strbuf *out) {
    bool is_shared = hn_driver_key_is_shared(file, key->options);
    hn_driver_key_machine(key, out);
    if (!is_shared && key->path) add_path(key->path, out);
    if (!is_shared && !key->path) hn_record_add(out, "file", key->content);
    HN_TRY(add_archive(file, is_shared, out));
    return hn_strbuf_status(out);
}
