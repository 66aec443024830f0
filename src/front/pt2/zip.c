/* zip.c: the central-directory reader behind zip.h.
 *
 * Source: PKWARE APPNOTE 6.3.10, sections 4.3.7 (local header), 4.3.12 (directory), 4.3.14-16
 * (ends), 4.5.3 (zip64 extra field). Local headers are read only for their length: PyTorch's writer
 * leaves their sizes and CRC at 0 and puts a descriptor behind the data. */
#include "front/pt2/zip.h"

#include "base/checked.h"

#include <libdeflate.h>
#include <stdlib.h>

enum {
    END_BYTES = 22,
    END64_BYTES = 56,
    LOCATOR_BYTES = 20,
    CENTRAL_BYTES = 46,
    LOCAL_BYTES = 30,
    FLAG_ENCRYPTED = 1,
    METHOD_STORED = 0,
    METHOD_DEFLATE = 8
};
static const uint32_t SIGNATURE_END = 0x06054b50, SIGNATURE_END64 = 0x06064b50,
                      SIGNATURE_LOCATOR = 0x07064b50, SIGNATURE_CENTRAL = 0x02014b50,
                      SIGNATURE_LOCAL = 0x04034b50;

/* What one archive may inflate to: far beyond what weights or JSON compress to, far below a
 * bomb. */
static const uint64_t INFLATE_BASE_BYTES = 256u << 20, INFLATE_RATIO = 32;

static uint16_t get16(const uint8_t *p) { return (uint16_t)(p[0] | p[1] << 8); }
static uint32_t get32(const uint8_t *p) {
    return (uint32_t)get16(p) | (uint32_t)get16(p + 2) << 16;
}
static uint64_t get64(const uint8_t *p) {
    return (uint64_t)get32(p) | (uint64_t)get32(p + 4) << 32;
}

typedef struct directory {
    uint64_t offset, size_bytes, count;
    uint64_t end; /* where the end records begin */
} directory;

static bool range_fits(uint64_t offset, uint64_t bytes, uint64_t limit) {
    return offset <= limit && bytes <= limit - offset;
}

/* The end record is the last thing in the file but for a comment of at most 65535 bytes. */
static hn_status end_find(const uint8_t *data, size_t size, size_t *out) {
    if (size < END_BYTES) return HN_ERROR(HN_CORRUPT, "not a zip archive: only %zu bytes", size);
    size_t lowest = size - END_BYTES > 65535 ? size - END_BYTES - 65535 : 0;
    for (size_t at = size - END_BYTES;; at--) {
        if (get32(data + at) == SIGNATURE_END && at + END_BYTES + get16(data + at + 20) == size) {
            *out = at;
            return NULL;
        }
        if (at == lowest) break;
    }
    return HN_ERROR(HN_CORRUPT, "not a zip archive, or cut off: no end record");
}

static hn_status end64_read(const uint8_t *data, size_t locator, directory *dir) {
    uint64_t at = get64(data + locator + 8);
    if (!range_fits(at, END64_BYTES, locator) || get32(data + at) != SIGNATURE_END64)
        return HN_ERROR(HN_CORRUPT, "zip64 end record is not where its locator says");
    const uint8_t *end = data + at;
    if (get32(end + 16) != 0 || get32(end + 20) != 0 || get64(end + 24) != get64(end + 32))
        return HN_ERROR(HN_UNSUPPORTED, "zip archive spans several disks");
    *dir = (directory){.count = get64(end + 32),
                       .size_bytes = get64(end + 40),
                       .offset = get64(end + 48),
                       .end = at};
    return NULL;
}

static hn_status directory_find(const uint8_t *data, size_t size, directory *dir) {
    size_t at = 0;
    HN_TRY(end_find(data, size, &at));
    const uint8_t *end = data + at;
    if (at >= LOCATOR_BYTES && get32(end - LOCATOR_BYTES) == SIGNATURE_LOCATOR) {
        HN_TRY(end64_read(data, at - LOCATOR_BYTES, dir));
    } else {
        if (get16(end + 4) != 0 || get16(end + 6) != 0 || get16(end + 8) != get16(end + 10))
            return HN_ERROR(HN_UNSUPPORTED, "zip archive spans several disks");
        *dir = (directory){.count = get16(end + 10),
                           .size_bytes = get32(end + 12),
                           .offset = get32(end + 16),
                           .end = at};
    }
    if (!range_fits(dir->offset, dir->size_bytes, dir->end))
        return HN_ERROR(HN_CORRUPT, "zip directory lies outside the file");
    if (dir->count > dir->size_bytes / CENTRAL_BYTES)
        return HN_ERROR(HN_CORRUPT, "zip directory of %llu bytes cannot hold %llu records",
                        (unsigned long long)dir->size_bytes, (unsigned long long)dir->count);
    return NULL;
}

/* Values of 0xffffffff in the directory stand in the extra field 1 instead, in this fixed order. */
static hn_status extra64_read(hn_zip_entry *entry, const uint8_t *extra, size_t len) {
    bool want_size = entry->size_bytes == UINT32_MAX,
         want_packed = entry->packed_bytes == UINT32_MAX,
         want_offset = entry->header_offset == UINT32_MAX;
    if (!want_size && !want_packed && !want_offset) return NULL;
    while (len >= 4) {
        uint16_t id = get16(extra), bytes = get16(extra + 2);
        if (bytes > len - 4) break;
        if (id == 1) {
            const uint8_t *p = extra + 4, *end = p + bytes;
            uint64_t *const fields[] = {want_size ? &entry->size_bytes : NULL,
                                        want_packed ? &entry->packed_bytes : NULL,
                                        want_offset ? &entry->header_offset : NULL};
            for (int k = 0; k < 3; k++) {
                if (!fields[k]) continue;
                if (end - p < 8)
                    return HN_ERROR(HN_CORRUPT, "zip64 field of '" HN_STR_FMT "' is too short",
                                    HN_STR_ARG(entry->name));
                *fields[k] = get64(p);
                p += 8;
            }
            return NULL;
        }
        extra += 4 + bytes;
        len -= 4u + bytes;
    }
    /* no such field: the value really is 0xffffffff, and bounds are checked by the caller */
    return NULL;
}

/* A record name is never used as a path, but a file that tries to escape is not one to trust. */
static bool name_is_safe(hn_str name) {
    if (name.len == 0 || name.ptr[0] == '/' || memchr(name.ptr, 0, name.len) ||
        memchr(name.ptr, '\\', name.len))
        return false;
    for (size_t begin = 0; begin <= name.len;) {
        const char *slash =
            begin < name.len ? memchr(name.ptr + begin, '/', name.len - begin) : NULL;
        size_t end = slash ? (size_t)(slash - name.ptr) : name.len;
        if (end - begin == 2 && name.ptr[begin] == '.' && name.ptr[begin + 1] == '.') return false;
        begin = end + 1;
    }
    return true;
}

static hn_status entry_add(hn_zip *zip, const hn_zip_entry *entry) {
    if (entry->name.ptr[entry->name.len - 1] == '/') return NULL;
    if (hn_strmap_get(&zip->by_name, entry->name))
        return HN_ERROR(HN_CORRUPT, "zip record '" HN_STR_FMT "' appears twice",
                        HN_STR_ARG(entry->name));
    HN_TRY(hn_strmap_put(&zip->by_name, entry->name, zip->entries.count));
    zip->has_checksums = zip->has_checksums || entry->crc;
    HN_PUSH(zip->arena, &zip->entries, *entry);
    return NULL;
}

/* Reads one directory row at `p`, `left` bytes before the directory's end. */
static hn_status entry_read(hn_zip *zip, const directory *dir, const uint8_t *p, uint64_t left,
                            uint64_t *out_bytes) {
    if (left < CENTRAL_BYTES || get32(p) != SIGNATURE_CENTRAL)
        return HN_ERROR(HN_CORRUPT, "zip directory is damaged at record %u", zip->entries.count);
    size_t name_len = get16(p + 28), extra_len = get16(p + 30), comment_len = get16(p + 32);
    *out_bytes = CENTRAL_BYTES + name_len + extra_len + comment_len;
    if (*out_bytes > left)
        return HN_ERROR(HN_CORRUPT, "zip directory is cut off at record %u", zip->entries.count);
    hn_zip_entry entry = {.name = {(const char *)p + CENTRAL_BYTES, name_len},
                          .method = get16(p + 10),
                          .crc = get32(p + 16),
                          .packed_bytes = get32(p + 20),
                          .size_bytes = get32(p + 24),
                          .header_offset = get32(p + 42)};
    if (!name_is_safe(entry.name))
        return HN_ERROR(HN_CORRUPT, "zip record %u has an unsafe name", zip->entries.count);
    HN_TRY(extra64_read(&entry, p + CENTRAL_BYTES + name_len, extra_len));
    if (get16(p + 8) & FLAG_ENCRYPTED)
        return HN_ERROR(HN_UNSUPPORTED, "zip record '" HN_STR_FMT "' is encrypted",
                        HN_STR_ARG(entry.name));
    if (!range_fits(entry.header_offset, LOCAL_BYTES + name_len, dir->offset) ||
        entry.packed_bytes > dir->offset - entry.header_offset - LOCAL_BYTES - name_len)
        return HN_ERROR(HN_CORRUPT, "zip record '" HN_STR_FMT "' lies outside the file",
                        HN_STR_ARG(entry.name));
    if (entry.method == METHOD_STORED && entry.packed_bytes != entry.size_bytes)
        return HN_ERROR(HN_CORRUPT, "stored zip record '" HN_STR_FMT "' has two sizes",
                        HN_STR_ARG(entry.name));
    return entry_add(zip, &entry);
}

static int entry_compare(const void *a, const void *b) {
    const hn_zip_entry *x = *(hn_zip_entry *const *)a, *y = *(hn_zip_entry *const *)b;
    return (x->header_offset > y->header_offset) - (x->header_offset < y->header_offset);
}

/* Sets each record's limit, and refuses records that share bytes: a classic of zip bombs. */
static hn_status overlaps_check(hn_zip *zip, const directory *dir) {
    uint32_t count = zip->entries.count;
    hn_zip_entry **order = NULL;
    HN_NEW(zip->arena, order, count);
    bool sorted = true;
    for (uint32_t k = 0; k < count; k++) {
        order[k] = &zip->entries.items[k];
        sorted = sorted && (k == 0 || order[k - 1]->header_offset <= order[k]->header_offset);
    }
    if (!sorted) qsort(order, count, sizeof *order, entry_compare);
    for (uint32_t k = 0; k < count; k++) {
        hn_zip_entry *entry = order[k];
        entry->limit = k + 1 < count ? order[k + 1]->header_offset : dir->offset;
        if (entry->header_offset + LOCAL_BYTES + entry->name.len + entry->packed_bytes >
            entry->limit)
            return HN_ERROR(HN_CORRUPT, "zip record '" HN_STR_FMT "' overlaps the next one",
                            HN_STR_ARG(entry->name));
    }
    return NULL;
}

hn_status hn_zip_open(hn_zip *zip, hn_arena *arena, const void *data, size_t size) {
    *zip = (hn_zip){.arena = arena, .data = data, .size_bytes = size};
    zip->inflate_budget = INFLATE_BASE_BYTES + INFLATE_RATIO * (uint64_t)size;
    hn_strmap_init(&zip->by_name, arena);
    directory dir = {0};
    HN_TRY(directory_find(zip->data, size, &dir));
    uint64_t at = 0;
    for (uint64_t k = 0; k < dir.count; k++) {
        uint64_t bytes = 0;
        HN_TRY(entry_read(zip, &dir, zip->data + dir.offset + at, dir.size_bytes - at, &bytes));
        at += bytes;
    }
    return overlaps_check(zip, &dir);
}

hn_zip_entry *hn_zip_find(hn_zip *zip, hn_str name) {
    const uint64_t *index = hn_strmap_get(&zip->by_name, name);
    return index ? &zip->entries.items[*index] : NULL;
}

/* Where the packed bytes begin. */
static hn_status data_find(const hn_zip *zip, const hn_zip_entry *entry, uint64_t *out) {
    /* LOCAL_BYTES + name are inside: entry_read */
    const uint8_t *p = zip->data + entry->header_offset;
    if (get32(p) != SIGNATURE_LOCAL || get16(p + 26) != entry->name.len ||
        memcmp(p + LOCAL_BYTES, entry->name.ptr, entry->name.len) != 0)
        return HN_ERROR(HN_CORRUPT,
                        "zip record '" HN_STR_FMT "' does not begin with its own header",
                        HN_STR_ARG(entry->name));
    uint64_t at = entry->header_offset + LOCAL_BYTES + entry->name.len + get16(p + 28);
    if (!range_fits(at, entry->packed_bytes, entry->limit))
        return HN_ERROR(HN_CORRUPT, "zip record '" HN_STR_FMT "' overlaps the next one",
                        HN_STR_ARG(entry->name));
    *out = at;
    return NULL;
}

static hn_status inflate_all(const hn_zip_entry *entry, const uint8_t *packed, uint8_t *out) {
    struct libdeflate_decompressor *inflater = libdeflate_alloc_decompressor();
    if (!inflater) return HN_ERROR(HN_OUT_OF_MEMORY, "cannot start to inflate");
    size_t read = 0, written = 0;
    enum libdeflate_result result = libdeflate_deflate_decompress_ex(
        inflater, packed, entry->packed_bytes, out, entry->size_bytes, &read, &written);
    libdeflate_free_decompressor(inflater);
    if (result == LIBDEFLATE_SUCCESS && read == entry->packed_bytes && written == entry->size_bytes)
        return NULL;
    return HN_ERROR(HN_CORRUPT, "zip record '" HN_STR_FMT "' does not inflate to its %llu bytes",
                    HN_STR_ARG(entry->name), (unsigned long long)entry->size_bytes);
}

static hn_status entry_unpack(hn_zip *zip, hn_zip_entry *entry, const uint8_t *packed) {
    if (entry->size_bytes > zip->inflate_budget)
        return HN_ERROR(HN_CORRUPT,
                        "zip record '" HN_STR_FMT
                        "' would inflate to %llu bytes, more than an archive of this size may hold",
                        HN_STR_ARG(entry->name), (unsigned long long)entry->size_bytes);
    uint8_t *bytes = hn_arena_alloc(zip->arena, entry->size_bytes);
    if (!bytes)
        return HN_ERROR(HN_OUT_OF_MEMORY, "no memory to inflate '" HN_STR_FMT "'",
                        HN_STR_ARG(entry->name));
    HN_TRY(inflate_all(entry, packed, bytes));
    zip->inflate_budget -= entry->size_bytes;
    entry->unpacked = bytes;
    return NULL;
}

uint32_t hn_zip_crc(uint32_t crc, const void *bytes, size_t len) {
    return libdeflate_crc32(crc, bytes, len);
}

hn_status hn_zip_crc_status(const hn_zip *zip, const hn_zip_entry *entry, uint32_t crc) {
    if (crc == entry->crc || !zip->has_checksums) return NULL;
    return HN_ERROR(HN_CORRUPT,
                    "zip record '" HN_STR_FMT
                    "' fails its checksum: the file is damaged, get or export it again",
                    HN_STR_ARG(entry->name));
}

hn_status hn_zip_read(hn_zip *zip, hn_zip_entry *entry, hn_zip_check check, hn_str *out,
                      uint64_t *out_offset) {
    uint64_t at = 0;
    HN_TRY(data_find(zip, entry, &at));
    const uint8_t *bytes = zip->data + at;
    if (entry->method == METHOD_DEFLATE) {
        if (!entry->unpacked) HN_TRY(entry_unpack(zip, entry, bytes));
        bytes = entry->unpacked;
        at = 0;
    } else if (entry->method != METHOD_STORED) {
        return HN_ERROR(HN_UNSUPPORTED,
                        "zip record '" HN_STR_FMT
                        "' uses compression method %u; only stored and deflate are read",
                        HN_STR_ARG(entry->name), entry->method);
    }
    entry->was_read |= check == HN_ZIP_CHECK_CRC;
    if (check == HN_ZIP_CHECK_CRC)
        HN_TRY(hn_zip_crc_status(zip, entry, hn_zip_crc(0, bytes, entry->size_bytes)));
    *out = (hn_str){(const char *)bytes, entry->size_bytes};
    if (out_offset) *out_offset = at;
    return NULL;
}
