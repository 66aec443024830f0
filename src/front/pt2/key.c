/* key.c: what a program depends on of an archive: its part of the graph cache's key (driver/key.h).
 *
 * The graph counts by the bytes of its JSON and by where its weights lie, so a warm start reads
 * neither the graph nor the weights, and files that differ in their weights alone share
 * programs. */
#include "front/pt2/archive.h"

enum {
    SMALL_BYTES = 64,       /* versions, byte order: by value */
    VALUE_BYTES = 64 << 10, /* constants up to here are compared byte for byte */
    SAMPLES = 16,
    SAMPLE_BYTES = 64
};

static bool ends_with(hn_str name, const char *end) {
    size_t len = strlen(end);
    return name.len >= len && memcmp(name.ptr + name.len - len, end, len) == 0;
}

static bool has(hn_str name, const char *part) {
    return memmem(name.ptr, name.len, part, strlen(part)) != NULL;
}

/* How a record counts. The example inputs and the number that tells copies of a file apart say
 * nothing of the program. */
typedef enum record_class { BY_VALUE, BY_PLACE, BY_NAME } record_class;

static record_class class_of(const hn_zip_entry *entry) {
    if (ends_with(entry->name, ".json")) return BY_VALUE;
    if (has(entry->name, "data/weights/") || has(entry->name, "data/constants/")) return BY_PLACE;
    return entry->size_bytes <= SMALL_BYTES && !ends_with(entry->name, "serialization_id")
               ? BY_VALUE
               : BY_NAME;
}

/* Not without checksums, which tell values apart, and not the generations before 2.9, which keep
 * archives of weights inside. */
bool hn_pt2_may_share(const hn_pt2 *file) {
    if (file->generation == HN_PT2_FLAT || !file->zip.has_checksums) return false;
    for (uint32_t k = 0; k < file->zip.entries.count; k++) { /* 2.8 keeps one there */
        const hn_zip_entry *entry = &file->zip.entries.items[k];
        if (class_of(entry) == BY_PLACE && ends_with(entry->name, ".pt")) return false;
    }
    return true;
}

/* ---- the parts of the key ---- */

static void put(hn_digest_state *state, const void *bytes, size_t len) {
    uint64_t size = len;
    hn_digest_update(state, &size, sizeof size);
    hn_digest_update(state, bytes, len);
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

/* In `graph` what is read; in `weights` the places of the rest, with their checksums unless other
 * files may share the key. */
static hn_status put_entry(hn_pt2 *file, hn_zip_entry *entry, bool is_shared, hn_key_part *part,
                           hn_digest_state *state) {
    uint64_t place[5] = {entry->header_offset, entry->packed_bytes, entry->size_bytes,
                         entry->method, entry->crc};
    record_class how = class_of(entry);
    part->records++;
    if (how != BY_NAME || !is_shared) part->bytes += entry->size_bytes;
    put_name(file, entry, state);
    if (how == BY_VALUE) return put_record(file, entry, state);
    if (!is_shared) put(state, place, sizeof place);
    else if (how == BY_PLACE) put(state, place, sizeof place - sizeof *place);
    return NULL;
}

hn_status hn_pt2_key_parts(hn_model_file *base, bool is_shared, hn_model_key *out) {
    hn_pt2 *file = hn_pt2_of(base);
    hn_digest_state graph, weights;
    *out = (hn_model_key){.graph = {.records = 0}};
    hn_digest_begin(&graph);
    hn_digest_begin(&weights);
    for (uint32_t k = 0; k < file->zip.entries.count; k++) {
        hn_zip_entry *entry = &file->zip.entries.items[k];
        bool is_graph = class_of(entry) == BY_VALUE;
        HN_TRY(put_entry(file, entry, is_shared, is_graph ? &out->graph : &out->weights,
                         is_graph ? &graph : &weights));
    }
    out->graph.digest = hn_digest_end(&graph);
    out->weights.digest = hn_digest_end(&weights);
    return NULL;
}

hn_status hn_pt2_key_check(const hn_model_file *base) {
    const hn_pt2 *file = (const hn_pt2 *)base;
    for (uint32_t k = 0; k < file->zip.entries.count; k++) {
        const hn_zip_entry *entry = &file->zip.entries.items[k];
        if (entry->was_read && class_of(entry) != BY_VALUE)
            return HN_ERROR(HN_INTERNAL,
                            "the record '" HN_STR_FMT
                            "' was read and its bytes are not in the key of the graph cache",
                            HN_STR_ARG(entry->name));
    }
    return NULL;
}

/* ---- values and places ---- */

/* A record of an archive within the archive has no number; programs of such a file are never
 * shared. */
static bool is_computed_with(const hn_pt2 *file, const hn_pt2_unread *record) {
    return record->zip == &file->zip &&
           (record->is_in_program || (record->was_read && *record->was_read));
}

hn_status hn_pt2_reads(hn_model_file *base, const uint32_t **out_records, uint32_t *out_count) {
    hn_pt2 *file = hn_pt2_of(base);
    uint32_t *records, count = 0;
    HN_NEW(&file->arena, records, file->unread.count + 1);
    for (uint32_t k = 0; k < file->unread.count; k++)
        if (is_computed_with(file, &file->unread.items[k]))
            records[count++] = (uint32_t)(file->unread.items[k].entry - file->zip.entries.items);
    *out_records = records;
    *out_count = count;
    return NULL;
}

/* A large record that differs in a few values has another checksum; samples guard against the one
 * in 2^32. */
static void put_values(hn_str bytes, uint32_t crc, hn_digest_state *state) {
    if (bytes.len <= VALUE_BYTES) {
        put(state, bytes.ptr, bytes.len);
        return;
    }
    put(state, &crc, sizeof crc);
    size_t step = (bytes.len - SAMPLE_BYTES) / (SAMPLES - 1);
    for (size_t k = 0; k < SAMPLES; k++) put(state, bytes.ptr + k * step, SAMPLE_BYTES);
}

hn_status hn_pt2_values_digest(hn_model_file *base, const uint32_t *records, uint32_t count,
                               hn_digest *out) {
    hn_pt2 *file = hn_pt2_of(base);
    hn_digest_state state;
    hn_digest_begin(&state);
    for (uint32_t k = 0; k < count; k++) {
        hn_str bytes;
        if (records[k] >= file->zip.entries.count)
            return HN_ERROR(HN_CORRUPT, "a list of records names number %u", records[k]);
        hn_zip_entry *entry = &file->zip.entries.items[records[k]];
        HN_TRY(hn_zip_read(&file->zip, entry, HN_ZIP_TRUST, &bytes, NULL));
        put_name(file, entry, &state);
        put_values(bytes, entry->crc, &state);
    }
    *out = hn_digest_end(&state);
    return NULL;
}

hn_status hn_pt2_places_digest(hn_model_file *base, hn_digest *out) {
    hn_pt2 *file = hn_pt2_of(base);
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
