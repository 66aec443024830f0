/* zip.h: read-only zip archives in memory, as .pt2 files use them: found through the central
 * directory (zip64 included), stored records used in place, deflated ones inflated once.
 *
 * Input is hostile until proven otherwise. hn_zip_open refuses duplicate names, names that leave
 * the archive, overlapping records, encryption and several disks; hn_zip_read bounds what it
 * inflates. */
#ifndef HN_FRONT_PT2_ZIP_H
#define HN_FRONT_PT2_ZIP_H

#include "base/arena.h"
#include "base/map.h"
#include "base/str.h"
#include "henry/status.h"

#include <stdint.h>

typedef struct hn_zip_entry {
    hn_str name; /* points into the archive's bytes */
    uint64_t header_offset;
    uint64_t packed_bytes, size_bytes;
    /* offset of what follows in the file: another record or the directory */
    uint64_t limit;
    uint32_t crc;
    uint16_t method;
    bool was_read;           /* its bytes were checked and read, not only handed on */
    const uint8_t *unpacked; /* bytes of a deflated record after its first read */
} hn_zip_entry;

/* Owns: entries live in `arena`, which must outlive the archive; the bytes are the caller's. */
typedef struct hn_zip {
    hn_arena *arena;
    const uint8_t *data;
    size_t size_bytes;
    /* in directory order, folders left out */
    struct {
        hn_zip_entry *items;
        uint32_t count, cap;
    } entries;
    hn_strmap by_name; /* name -> index */
    /* bytes that may still be inflated */
    uint64_t inflate_budget;
    /* false: all are 0, as PyTorch writes them when told to compute none; then none is compared */
    bool has_checksums;
} hn_zip;

/* Reads the directory of `size` bytes at `data`. Errors: corrupt (not a zip, or a damaged one),
 * unsupported. */
hn_status hn_zip_open(hn_zip *zip, hn_arena *arena, const void *data, size_t size) HN_MUST_USE;

/* The record `name`, NULL when there is none. */
hn_zip_entry *hn_zip_find(hn_zip *zip, hn_str name);

typedef enum hn_zip_check { HN_ZIP_TRUST, HN_ZIP_CHECK_CRC } hn_zip_check;

/* The record's bytes: in place when stored, else inflated into the archive's arena (once).
 * `*out_offset` (may be NULL) is where they lie in the file, 0 when they were inflated.
 * Errors: corrupt, unsupported (another method), out-of-memory. */
hn_status hn_zip_read(hn_zip *zip, hn_zip_entry *entry, hn_zip_check check, hn_str *out,
                      uint64_t *out_offset) HN_MUST_USE;

/* The CRC-32 of bytes that follow those of `crc` (0 at the start). */
uint32_t hn_zip_crc(uint32_t crc, const void *bytes, size_t len);
/* NULL when `crc` is what the archive says of the record, or when it says nothing of any. Errors:
 * corrupt. */
hn_status hn_zip_crc_status(const hn_zip *zip, const hn_zip_entry *entry, uint32_t crc) HN_MUST_USE;

#endif
