/* zip_writer.h: zip archives in memory for tests, right or deliberately wrong. */
#ifndef HN_TESTS_ZIP_WRITER_H
#define HN_TESTS_ZIP_WRITER_H

#include <libdeflate.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef struct zip_writer_entry {
    char name[128];
    uint32_t crc, packed, size, offset;
    uint16_t method, flags;
    bool hidden; /* no directory row */
} zip_writer_entry;

typedef struct zip_writer {
    uint8_t *bytes;
    size_t len, cap;
    zip_writer_entry entries[64]; /* tests may spoil them before zip_writer_end */
    uint32_t count;
    bool zip64; /* sizes and offsets go into zip64 records */
} zip_writer;

static inline void zip_writer_put(zip_writer *z, const void *bytes, size_t len) {
    if (z->len + len > z->cap) {
        z->cap = (z->len + len) * 2;
        z->bytes = realloc(z->bytes, z->cap);
        if (!z->bytes) abort();
    }
    if (len) memcpy(z->bytes + z->len, bytes, len);
    z->len += len;
}
static inline void zip_writer_int(zip_writer *z, uint64_t value, size_t bytes) {
    for (size_t k = 0; k < bytes; k++) {
        uint8_t byte = (uint8_t)(k < 8 ? value >> (8 * k) : 0);
        zip_writer_put(z, &byte, 1);
    }
}

static inline void zip_writer_local(zip_writer *z, const zip_writer_entry *e, size_t pad) {
    zip_writer_int(z, 0x04034b50, 4);
    zip_writer_int(z, 20, 2);
    zip_writer_int(z, e->flags, 2);
    zip_writer_int(z, e->method, 2);
    zip_writer_int(z, 0, 4);
    zip_writer_int(z, 0, 12); /* like PyTorch: CRC and sizes only in the directory */
    zip_writer_int(z, strlen(e->name), 2);
    zip_writer_int(z, pad, 2);
    zip_writer_put(z, e->name, strlen(e->name));
    for (size_t k = 0; k < pad; k++) zip_writer_int(z, 'Z', 1);
}

/* Adds a record, stored on a 64-byte boundary or deflated. */
static inline zip_writer_entry *zip_writer_add(zip_writer *z, const char *name, const void *data,
                                               size_t len, bool deflate_it) {
    zip_writer_entry *e = &z->entries[z->count++];
    size_t data_at = z->len + 30 + strlen(name);
    *e = (zip_writer_entry){.method = deflate_it ? 8 : 0,
                            .flags = 0x800,
                            .size = (uint32_t)len,
                            .packed = (uint32_t)len,
                            .offset = (uint32_t)z->len,
                            .crc = libdeflate_crc32(0, data, len)};
    strcpy(e->name, name);
    zip_writer_local(z, e, deflate_it ? 0 : (64 - data_at % 64) % 64);
    if (!deflate_it) {
        zip_writer_put(z, data, len);
        return e;
    }
    struct libdeflate_compressor *c = libdeflate_alloc_compressor(9);
    size_t bound = c ? libdeflate_deflate_compress_bound(c, len) : 0;
    uint8_t *packed = malloc(bound);
    if (!c || !packed) abort();
    e->packed = (uint32_t)libdeflate_deflate_compress(c, data, len, packed, bound);
    libdeflate_free_compressor(c);
    zip_writer_put(z, packed, e->packed);
    free(packed);
    return e;
}

static inline void zip_writer_central(zip_writer *z, const zip_writer_entry *e) {
    zip_writer_int(z, 0x02014b50, 4);
    zip_writer_int(z, 20, 2);
    zip_writer_int(z, 20, 2);
    zip_writer_int(z, e->flags, 2);
    zip_writer_int(z, e->method, 2);
    zip_writer_int(z, 0, 4);
    zip_writer_int(z, e->crc, 4);
    zip_writer_int(z, z->zip64 ? UINT32_MAX : e->packed, 4);
    zip_writer_int(z, z->zip64 ? UINT32_MAX : e->size, 4);
    zip_writer_int(z, strlen(e->name), 2);
    zip_writer_int(z, z->zip64 ? 28 : 0, 2);
    zip_writer_int(z, 0, 10);
    zip_writer_int(z, z->zip64 ? UINT32_MAX : e->offset, 4);
    zip_writer_put(z, e->name, strlen(e->name));
    if (!z->zip64) return;
    zip_writer_int(z, 1, 2);
    zip_writer_int(z, 24, 2);
    zip_writer_int(z, e->size, 8);
    zip_writer_int(z, e->packed, 8);
    zip_writer_int(z, e->offset, 8);
}

static inline void zip_writer_end(zip_writer *z) {
    uint64_t begin = z->len, rows = 0;
    for (uint32_t k = 0; k < z->count; k++) {
        if (z->entries[k].hidden) continue;
        zip_writer_central(z, &z->entries[k]);
        rows++;
    }
    uint64_t bytes = z->len - begin, end = z->len;
    if (z->zip64) {
        zip_writer_int(z, 0x06064b50, 4);
        zip_writer_int(z, 44, 8);
        zip_writer_int(z, 0x002d002d, 4);
        zip_writer_int(z, 0, 8);
        zip_writer_int(z, rows, 8);
        zip_writer_int(z, rows, 8);
        zip_writer_int(z, bytes, 8);
        zip_writer_int(z, begin, 8);
        zip_writer_int(z, 0x07064b50, 4);
        zip_writer_int(z, 0, 4);
        zip_writer_int(z, end, 8);
        zip_writer_int(z, 1, 4);
    }
    zip_writer_int(z, 0x06054b50, 4);
    zip_writer_int(z, 0, 4);
    zip_writer_int(z, z->zip64 ? 0xffff : rows, 2);
    zip_writer_int(z, z->zip64 ? 0xffff : rows, 2);
    zip_writer_int(z, z->zip64 ? UINT32_MAX : bytes, 4);
    zip_writer_int(z, z->zip64 ? UINT32_MAX : begin, 4);
    zip_writer_int(z, 0, 2);
}

static inline void zip_writer_free(zip_writer *z) { free(z->bytes); }

#endif
