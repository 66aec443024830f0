/* graph_index.c: see graph_index.h.
 *
 * The entries here are changed, unlike all others: a table grows by a variant, a list by a record.
 * Whoever changes one holds its lease; without the lease the change is made all the same, and a
 * variant that is lost so is compiled again. */
#include "driver/graph_index.h"

#include "cache/record.h"
#include "driver/graph_guards.h"
#include "driver/key.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>

enum {
    LEASE_ATTEMPTS = 200, /* of a millisecond: changing an entry takes less than one */
    READS_MAX = 1 << 20
};

static hn_digest digest_of_three(const char *what, const hn_digest *a, hn_str b) {
    hn_digest_state state;
    hn_digest_begin(&state);
    hn_digest_update(&state, what, strlen(what) + 1);
    hn_digest_update(&state, a->bytes, sizeof a->bytes);
    hn_digest_update(&state, b.ptr, b.len);
    return hn_digest_end(&state);
}

/* ---- lists of reads ---- */

typedef struct reads {
    uint32_t *items; /* owned, ascending */
    uint32_t count;
} reads;

static int by_number(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static void reads_sort(reads *r) {
    uint32_t kept = 0;
    if (r->count) qsort(r->items, r->count, sizeof *r->items, by_number);
    for (uint32_t k = 0; k < r->count; k++)
        if (!kept || r->items[kept - 1] != r->items[k]) r->items[kept++] = r->items[k];
    r->count = kept;
}

/* What is stored: no entry counts as an empty list. */
static hn_status reads_stored(const hn_graph_query *q, const hn_digest *base, bool *out_stored,
                              reads *out) {
    hn_store_entry entry;
    *out = (reads){NULL, 0};
    *out_stored = hn_cache_get(q->cache, HN_STORE_INDEX, base, &entry) != HN_LEVEL_NONE;
    if (!*out_stored) return NULL;
    uint32_t count =
        entry.len / sizeof(uint32_t) < READS_MAX ? (uint32_t)(entry.len / sizeof(uint32_t)) : 0;
    out->items = calloc(count ? count : 1, sizeof *out->items);
    if (out->items) memcpy(out->items, entry.bytes, count * sizeof *out->items);
    out->count = count;
    hn_store_entry_deinit(&entry);
    return out->items ? NULL : HN_ERROR(HN_OUT_OF_MEMORY, "no memory for a list of records");
}

/* The records that passes computed with since the file was opened. */
static hn_status reads_add_new(const hn_graph_query *q, reads *r) {
    const uint32_t *records;
    uint32_t count;
    HN_TRY(q->file->importer->reads(q->file, &records, &count));
    uint32_t *items = realloc(r->items, ((size_t)r->count + count + 1) * sizeof *items);
    if (!items) return HN_ERROR(HN_OUT_OF_MEMORY, "no memory for a list of records");
    r->items = items;
    memcpy(r->items + r->count, records, count * sizeof *records);
    r->count += count;
    reads_sort(r);
    return NULL;
}

/* ---- places ---- */

hn_digest hn_graph_compiler_key(const hn_digest *bare) {
    return digest_of_three("compiler", bare, HN_STR(""));
}

static hn_digest base_of(const hn_graph_query *q) {
    hn_digest record = hn_digest_of(q->record.ptr, q->record.len);
    return digest_of_three("reads", &record, HN_STR(""));
}

/* The rest of a place, from what is read of the file. The list of reads is part of the digest of
 * values. */
static hn_status place_of(const hn_graph_query *q, const reads *r, hn_graph_place *out) {
    out->compiler = hn_graph_compiler_key(&q->bare);
    out->base = base_of(q);
    HN_TRY(q->file->importer->values_digest(q->file, r->items, r->count, &out->values));
    out->table = digest_of_three(
        "table", &out->base, (hn_str){(const char *)out->values.bytes, sizeof out->values.bytes});
    return NULL;
}

hn_status hn_graph_index_place(const hn_graph_query *q, hn_graph_place *out) {
    reads r = {NULL, 0};
    bool stored;
    hn_digest base = base_of(q);
    hn_status status = NULL;
    if (q->is_shared) status = reads_stored(q, &base, &stored, &r);
    if (q->is_shared && !status) status = reads_add_new(q, &r);
    if (!status) status = place_of(q, &r, out);
    if (!status) status = q->file->importer->places_digest(q->file, &out->places);
    free(r.items);
    return status;
}

void hn_graph_place_record(const hn_graph_query *q, const hn_graph_place *place, hn_strbuf *out) {
    char hex[HN_DIGEST_HEX_BYTES];
    hn_digest_hex(&place->values, hex);
    hn_strbuf_append(out, q->record.ptr, q->record.len);
    hn_record_add(out, "values", hn_str_of(hex));
}

hn_digest hn_graph_program_key(const hn_graph_place *place, hn_str guards) {
    return digest_of_three("program", &place->table, guards);
}

/* ---- looking up ---- */

/* Another machine may have compiled what this one lacks. */
static bool find_remote(const hn_graph_query *q, const hn_digest *table, hn_str ours,
                        const hn_input_sizes *inputs, uint32_t count, hn_digest *out_key) {
    hn_store_entry theirs;
    hn_strbuf merged;
    if (!hn_cache_get_remote(q->cache, HN_STORE_INDEX, table, &theirs)) return false;
    hn_strbuf_init(&merged);
    hn_status status =
        hn_variants_merge(ours, (hn_str){(const char *)theirs.bytes, theirs.len}, &merged);
    bool is_found = !status && hn_graph_guards_find(hn_strbuf_str(&merged), inputs, count, out_key);
    if (is_found)
        (void)hn_store_put(q->cache->store, &(hn_store_put_args){.ns = HN_STORE_INDEX,
                                                                 .key = table,
                                                                 .bytes = merged.ptr,
                                                                 .len = merged.len});
    hn_status_free(status);
    hn_strbuf_deinit(&merged);
    hn_store_entry_deinit(&theirs);
    return is_found;
}

static bool find_in_table(const hn_graph_query *q, const hn_digest *table,
                          const hn_input_sizes *inputs, uint32_t count, hn_digest *out_key) {
    hn_store_entry entry;
    hn_cache_level level = hn_cache_get(q->cache, HN_STORE_INDEX, table, &entry);
    if (level == HN_LEVEL_NONE) return false;
    hn_str bytes = {(const char *)entry.bytes, entry.len};
    bool is_found = hn_graph_guards_find(bytes, inputs, count, out_key);
    if (!is_found && level == HN_LEVEL_DISK)
        is_found = find_remote(q, table, bytes, inputs, count, out_key);
    hn_store_entry_deinit(&entry);
    return is_found;
}

bool hn_graph_index_find(const hn_graph_query *q, const hn_input_sizes *inputs,
                         uint32_t input_count, hn_digest *out_key) {
    reads r = {NULL, 0};
    bool stored = true, is_found = false;
    hn_graph_place place;
    hn_digest base = base_of(q);
    hn_status status = q->is_shared ? reads_stored(q, &base, &stored, &r) : NULL;
    if (!status && stored) status = place_of(q, &r, &place);
    if (!status && stored) is_found = find_in_table(q, &place.table, inputs, input_count, out_key);
    hn_status_free(status);
    free(r.items);
    return is_found;
}

hn_status hn_graph_index_each(const hn_graph_query *q, hn_variant_visitor visit, void *user) {
    hn_graph_place place;
    hn_store_entry entry;
    HN_TRY(hn_graph_index_place(q, &place));
    if (hn_cache_get(q->cache, HN_STORE_INDEX, &place.table, &entry) == HN_LEVEL_NONE)
        return HN_ERROR(HN_NOT_FOUND, "the cache does not have the program");
    size_t at = 0;
    for (hn_variant v; hn_variants_next((hn_str){(const char *)entry.bytes, entry.len}, &at, &v);)
        visit(user, &v);
    hn_store_entry_deinit(&entry);
    return NULL;
}

/* ---- changing ---- */

/* Waits a little for the lease of an entry. */
static hn_lease take_lease(const hn_graph_query *q, const hn_digest *key) {
    hn_lease lease = 0;
    for (int k = 0; k < LEASE_ATTEMPTS; k++) {
        if (hn_lease_try(q->cache->leases, HN_STORE_INDEX, key, false, &lease) == HN_LEASE_MINE)
            return lease;
        nanosleep(&(struct timespec){0, 1000000}, NULL);
    }
    return 0;
}

static void put_index(const hn_graph_query *q, const hn_digest *key, const void *bytes,
                      size_t len) {
    hn_cache_put(q->cache, &(hn_store_put_args){
                               .ns = HN_STORE_INDEX, .key = key, .bytes = bytes, .len = len});
}

/* Publishes the list when it is new or longer. */
static void put_reads(const hn_graph_query *q, const hn_digest *base) {
    reads r;
    bool stored;
    hn_lease lease = take_lease(q, base);
    hn_status status = reads_stored(q, base, &stored, &r);
    uint32_t before = r.count;
    if (!status) status = reads_add_new(q, &r);
    if (!status && (!stored || r.count != before))
        put_index(q, base, r.items, r.count * sizeof *r.items);
    hn_status_free(status);
    free(r.items);
    hn_lease_release(q->cache->leases, lease);
}

void hn_graph_index_add(const hn_graph_query *q, const hn_graph_place *place,
                        const hn_variant *variant) {
    hn_store_entry entry = {.fd = -1};
    hn_strbuf table;
    hn_strbuf_init(&table);
    if (q->is_shared) put_reads(q, &place->base);
    hn_lease lease = take_lease(q, &place->table);
    bool stored = hn_cache_get(q->cache, HN_STORE_INDEX, &place->table, &entry) != HN_LEVEL_NONE;
    hn_str old = stored ? (hn_str){(const char *)entry.bytes, entry.len} : HN_STR("");
    hn_status status = hn_variants_add(old, variant, &table);
    if (!status && !table.failed) put_index(q, &place->table, table.ptr, table.len);
    hn_status_free(status); /* without memory: the program is compiled again next time */
    if (stored) hn_store_entry_deinit(&entry);
    hn_lease_release(q->cache->leases, lease);
    hn_strbuf_deinit(&table);
}

/* ---- files that were verified ---- */

/* A file on this machine, as long as nobody changes it. Moving it changes nothing but one of the
 * times. */
static bool file_key(const hn_graph_query *q, hn_digest *out) {
    struct stat st;
    hn_strbuf text;
    if (q->path && stat(q->path, &st) != 0) return false;
    hn_strbuf_init(&text);
    if (!q->path)
        hn_strbuf_printf(&text, HN_STR_FMT ", model %s", HN_STR_ARG(q->content),
                         q->model ? q->model : "");
    else
        hn_strbuf_printf(
            &text, "file %llu:%llu %lld bytes, changed %lld.%09ld %lld.%09ld, model %s",
            (unsigned long long)st.st_dev, (unsigned long long)st.st_ino, (long long)st.st_size,
            (long long)st.st_mtim.tv_sec, st.st_mtim.tv_nsec, (long long)st.st_ctim.tv_sec,
            st.st_ctim.tv_nsec, q->model ? q->model : "");
    *out = hn_digest_of(text.ptr, text.len);
    bool good = !text.failed;
    hn_strbuf_deinit(&text);
    return good;
}

void hn_graph_file_mark(const hn_graph_query *q, const hn_digest *places) {
    hn_digest key;
    if (!file_key(q, &key)) return;
    (void)hn_store_put(q->cache->store, &(hn_store_put_args){.ns = HN_STORE_INDEX,
                                                             .key = &key,
                                                             .bytes = places->bytes,
                                                             .len = sizeof places->bytes});
}

bool hn_graph_file_verified(const hn_graph_query *q, hn_digest *out_places) {
    hn_digest key;
    hn_store_entry entry;
    if (file_key(q, &key) && hn_store_get(q->cache->store, HN_STORE_INDEX, &key, &entry)) {
        bool good = entry.len == sizeof out_places->bytes;
        if (good) memcpy(out_places->bytes, entry.bytes, entry.len);
        hn_store_entry_deinit(&entry);
        if (good) return true;
    }
    const hn_importer *importer = q->file->importer;
    hn_status status = q->is_verified || !q->file->has_checksums
                           ? NULL
                           : importer->verify_all(q->file, q->threads);
    if (!status) status = importer->places_digest(q->file, out_places);
    if (!status) hn_graph_file_mark(q, out_places);
    bool good = !status;
    hn_status_free(status);
    return good;
}
