/* transfer.c: see transfer.h. */
#include "cache/transfer.h"

#include "base/file.h"
#include "cache/store_internal.h"
#include "cache/variants.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>
#include <xxhash.h>

typedef struct file_header {
    char magic[8];
    uint32_t version, entry_version;
    uint64_t entry_count, bytes; /* of everything behind the header, without the checksum */
} file_header;
_Static_assert(sizeof(file_header) == 32, "the header has no padding");

#define FILE_MAGIC "HNCACHE\n"
enum { FILE_VERSION = 1, CHECKSUM_BYTES = 16, DIGITS_MIN = 8, DIGITS_ALL = 64 };

/* ---- lists ---- */

void hn_entry_list_deinit(hn_entry_list *list) {
    free(list->items);
    *list = (hn_entry_list){0};
}

void hn_entry_list_add(hn_entry_list *list, hn_store_ns ns, const hn_digest *key) {
    for (uint32_t i = 0; i < list->count; i++)
        if (list->items[i].ns == ns && memcmp(&list->items[i].key, key, sizeof(*key)) == 0) return;
    if (list->count == list->cap) {
        uint32_t cap = list->cap ? list->cap * 2 : 16;
        hn_entry_ref *items = realloc(list->items, cap * sizeof(*items));
        if (!items) {
            list->failed = true;
            return;
        }
        list->items = items;
        list->cap = cap;
    }
    list->items[list->count++] = (hn_entry_ref){ns, *key};
}

hn_status hn_entry_list_status(const hn_entry_list *list) {
    return list->failed ? HN_ERROR(HN_OUT_OF_MEMORY, "no memory for a list of entries") : NULL;
}

/* ---- finding by the first digits ---- */

/* Appends the entries of kernel/ab whose names begin with `rest`. */
static void find_in(const hn_store *store, hn_store_ns ns, const char *digits, hn_entry_list *out) {
    char path[HN_STORE_NAME_BYTES], name[HN_STORE_NAME_BYTES];
    snprintf(path, sizeof(path), "%s/%.2s", hn_store_ns_name(ns), digits);
    int fd = openat(store->dir_fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    if (!dir) {
        if (fd >= 0) close(fd);
        return;
    }
    for (struct dirent *entry; (entry = readdir(dir));) {
        hn_digest key;
        if (strncmp(entry->d_name, digits + 2, strlen(digits + 2)) != 0 ||
            strlen(entry->d_name) != DIGITS_ALL - 2)
            continue;
        snprintf(name, sizeof(name), "%.2s%.62s", digits, entry->d_name);
        if (hn_store_key_parse(name, &key)) hn_entry_list_add(out, ns, &key);
    }
    closedir(dir);
}

hn_status hn_store_find(hn_store *store, const char *digits, hn_entry_list *out) {
    size_t len = strlen(digits);
    if (len < DIGITS_MIN || len > DIGITS_ALL || strspn(digits, "0123456789abcdef") != len)
        return HN_ERROR(HN_INVALID_ARGUMENT,
                        "'%s' is neither a file nor the first 8 to 64 digits of a key", digits);
    hn_entry_list found = {0};
    for (int ns = 0; ns < HN_STORE_NS_COUNT && store->dir_fd >= 0; ns++)
        if (ns != HN_STORE_TOOLCHAIN) find_in(store, (hn_store_ns)ns, digits, &found);
    hn_status status = hn_entry_list_status(&found);
    if (!status && !found.count)
        status = HN_ERROR(HN_NOT_FOUND, "no entry has a key that begins with '%s'", digits);
    for (uint32_t i = 0; i < found.count && !status; i++) {
        hn_entry_list_add(out, found.items[i].ns, &found.items[i].key);
        if (memcmp(&found.items[i].key, &found.items[0].key, sizeof(hn_digest)) != 0)
            status = HN_ERROR(HN_INVALID_ARGUMENT, "several keys begin with '%s'; give more digits",
                              digits);
    }
    hn_entry_list_deinit(&found);
    return status ? status : hn_entry_list_status(out);
}

/* ---- export ---- */

static void append_u64(hn_strbuf *out, uint64_t value) {
    hn_strbuf_append(out, (const char *)&value, sizeof(value));
}

/* The bytes of an entry as they lie in the store: the views of an entry are in one piece. */
static hn_str whole_entry(const hn_store_entry *entry) {
    return (hn_str){(const char *)entry->bytes,
                    entry->len + entry->record.len + sizeof(hn_entry_footer)};
}

static void append_entries(hn_cache *cache, const hn_entry_list *list, hn_strbuf *out,
                           hn_transfer_report *report) {
    for (uint32_t i = 0; i < list->count; i++) {
        const hn_entry_ref *ref = &list->items[i];
        hn_store_entry entry;
        if (hn_cache_get(cache, ref->ns, &ref->key, &entry) == HN_LEVEL_NONE) {
            report->missing++;
            continue;
        }
        hn_str bytes = whole_entry(&entry);
        append_u64(out, bytes.len);
        hn_strbuf_append(out, bytes.ptr, bytes.len);
        report->entries[ref->ns]++;
        hn_store_entry_deinit(&entry);
    }
}

static uint64_t entry_total(const hn_transfer_report *report) {
    uint64_t total = 0;
    for (int ns = 0; ns < HN_STORE_NS_COUNT; ns++) total += report->entries[ns];
    return total;
}

static void append_checksum(hn_strbuf *out) {
    XXH128_canonical_t canonical;
    XXH128_canonicalFromHash(&canonical, XXH3_128bits(hn_strbuf_str(out).ptr, out->len));
    hn_strbuf_append(out, (const char *)canonical.digest, sizeof(canonical.digest));
}

hn_status hn_cache_export(hn_cache *cache, const hn_entry_list *list, const char *path,
                          hn_transfer_report *out_report) {
    file_header header = {.version = FILE_VERSION, .entry_version = HN_ENTRY_VERSION};
    hn_strbuf bytes;
    *out_report = (hn_transfer_report){0};
    memcpy(header.magic, FILE_MAGIC, sizeof(header.magic));
    hn_strbuf_init(&bytes);
    hn_strbuf_append(&bytes, (const char *)&header, sizeof(header));
    append_entries(cache, list, &bytes, out_report);
    header.entry_count = entry_total(out_report);
    header.bytes = bytes.len - sizeof(header);
    if (!bytes.failed) memcpy(bytes.ptr, &header, sizeof(header));
    append_checksum(&bytes);
    out_report->bytes = bytes.len;
    hn_status status = hn_strbuf_status(&bytes);
    if (!status && !header.entry_count)
        status = HN_ERROR(HN_NOT_FOUND, "nothing to export: no entry is there any more");
    if (!status) status = hn_file_write_atomic(path, bytes.ptr, bytes.len, true);
    hn_strbuf_deinit(&bytes);
    return status;
}

/* ---- import ---- */

static hn_status check_file(const uint8_t *bytes, size_t len, file_header *header) {
    if (len < sizeof(*header) + CHECKSUM_BYTES || memcmp(bytes, FILE_MAGIC, 8) != 0)
        return HN_ERROR(HN_CORRUPT, "it is no file of 'henry cache export', or was cut short");
    memcpy(header, bytes, sizeof(*header));
    if (header->version != FILE_VERSION || header->entry_version != HN_ENTRY_VERSION)
        return HN_ERROR(HN_INCOMPATIBLE,
                        "its format is %u.%u, this is %d.%d; export it again with this version",
                        header->version, header->entry_version, FILE_VERSION, HN_ENTRY_VERSION);
    size_t body = len - CHECKSUM_BYTES;
    XXH128_canonical_t canonical;
    XXH128_canonicalFromHash(&canonical, XXH3_128bits(bytes, body));
    if (header->bytes != body - sizeof(*header) ||
        memcmp(canonical.digest, bytes + body, CHECKSUM_BYTES) != 0)
        return HN_ERROR(HN_CORRUPT, "it is damaged: its checksum does not match its bytes");
    return NULL;
}

/* Takes the next entry off the front, verified. */
static hn_status next_entry(hn_str *rest, hn_str *out_bytes, hn_entry_footer *footer) {
    uint64_t len;
    if (rest->len < sizeof(len)) return HN_ERROR(HN_CORRUPT, "an entry is cut short");
    memcpy(&len, rest->ptr, sizeof(len));
    *rest = (hn_str){rest->ptr + sizeof(len), rest->len - sizeof(len)};
    if (len > rest->len) return HN_ERROR(HN_CORRUPT, "an entry is cut short");
    *out_bytes = (hn_str){rest->ptr, (size_t)len};
    *rest = (hn_str){rest->ptr + len, rest->len - (size_t)len};
    HN_TRY(hn_entry_verify(out_bytes->ptr, out_bytes->len, HN_STORE_NS_COUNT, NULL, footer));
    /* Answers about the tools of another machine would be wrong here. */
    if (footer->ns == HN_STORE_TOOLCHAIN)
        return HN_ERROR(HN_CORRUPT, "an entry describes the tools of one machine");
    return NULL;
}

/* Entries of the index change, so the one that is there and the new one are both right, each of
 * them of a part. */
static bool merge_index(hn_store *store, const hn_digest *key, hn_str bytes,
                        const hn_entry_footer *footer) {
    hn_store_entry here, there;
    hn_strbuf merged;
    if (!hn_store_peek(store, HN_STORE_INDEX, key, &here)) return false;
    hn_entry_view(bytes.ptr, footer, &there);
    hn_strbuf_init(&merged);
    hn_status status = hn_variants_merge((hn_str){(const char *)there.bytes, there.len},
                                         (hn_str){(const char *)here.bytes, here.len}, &merged);
    bool is_more = !status && !merged.failed && merged.len > here.len &&
                   hn_variants_is_table((hn_str){(const char *)here.bytes, here.len});
    if (is_more)
        (void)hn_store_put(
            store, &(hn_store_put_args){
                       .ns = HN_STORE_INDEX, .key = key, .bytes = merged.ptr, .len = merged.len});
    hn_status_free(status);
    hn_strbuf_deinit(&merged);
    hn_store_entry_deinit(&here);
    return is_more;
}

static hn_status publish_one(hn_store *store, hn_str bytes, const hn_entry_footer *footer,
                             hn_transfer_report *report) {
    hn_digest key;
    hn_store_entry entry;
    hn_store_ns ns = (hn_store_ns)footer->ns;
    memcpy(key.bytes, footer->key, sizeof(key.bytes));
    report->entries[ns]++;
    if (hn_entry_is_expired(footer)) return NULL;
    if (ns == HN_STORE_INDEX && merge_index(store, &key, bytes, footer)) return NULL;
    if (hn_store_peek(store, ns, &key, &entry)) {
        report->existing++;
        hn_store_entry_deinit(&entry);
        return NULL;
    }
    if (hn_store_put_bytes(store, ns, &key, bytes.ptr, bytes.len)) return NULL;
    return HN_ERROR(HN_IO, "cannot write to cache '%s'; is the disk full or read-only?",
                    hn_store_dir(store));
}

/* Twice over the entries: all are sound before the first is published. */
static hn_status import_entries(hn_store *store, hn_str all, uint64_t count, bool is_rehearsal,
                                hn_transfer_report *report) {
    for (uint64_t i = 0; i < count; i++) {
        hn_str bytes = {"", 0};
        hn_entry_footer footer;
        HN_TRY(next_entry(&all, &bytes, &footer));
        if (!is_rehearsal) HN_TRY(publish_one(store, bytes, &footer, report));
    }
    return all.len ? HN_ERROR(HN_CORRUPT, "there are bytes behind the last entry") : NULL;
}

hn_status hn_store_import(hn_store *store, const char *path, hn_transfer_report *out_report) {
    hn_strbuf file; /* read, not mapped: what was verified must be what is published */
    file_header header;
    *out_report = (hn_transfer_report){0};
    hn_strbuf_init(&file);
    hn_status status = hn_file_read(path, &file);
    out_report->bytes = file.len;
    hn_str bytes = hn_strbuf_str(&file);
    if (!status) status = check_file((const uint8_t *)bytes.ptr, bytes.len, &header);
    hn_str all = {bytes.ptr + sizeof(header), 0};
    if (!status) {
        all.len = (size_t)header.bytes;
        status = import_entries(store, all, header.entry_count, true, out_report);
    }
    if (!status) status = import_entries(store, all, header.entry_count, false, out_report);
    hn_strbuf_deinit(&file);
    return hn_status_annotate(status, "cannot import '%s'", path);
}
