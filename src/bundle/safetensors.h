/* safetensors.h: weights as a safetensors file, the format that other tools of the field read:
 * eight bytes with the length of a JSON header, the header, the tensors without gaps. Source: the
 * format's own description, version 0.4. */
#ifndef HN_BUNDLE_SAFETENSORS_H
#define HN_BUNDLE_SAFETENSORS_H

#include "base/arena.h"
#include "base/hash.h"
#include "base/str.h"
#include "bundle/format.h"
#include "henry/status.h"
#include "henry/tensor.h"

#include <stdint.h>

/* The format's words for the types, by hn_scalar_type. */
extern const char *const hn_safetensors_types[HN_SCALAR_TYPE_COUNT];

typedef struct hn_safetensor {
    hn_str name;          /* one that was there already gets a number behind it */
    uint32_t dtype, rank; /* dtype 0: just bytes */
    const int64_t *sizes;
    const void *bytes;
    uint64_t len;
    uint64_t offset; /* out: in the file */
} hn_safetensor;

typedef struct hn_safetensors_facts {
    uint64_t bytes;
    int64_t mtime_ns;
    hn_digest ends, full;
} hn_safetensors_facts;

/* Writes the file, atomically, and says where each tensor lies. Tensors stand in the order of the
 * largest power of two that divides their size (64 at most), so each is aligned to that. Errors:
 * io, out-of-memory. */
hn_status hn_safetensors_save(hn_safetensor *tensors, uint32_t count, const char *path,
                              hn_safetensors_facts *out) HN_MUST_USE;

/* Reads the table of a file in memory: names and sizes in `arena`, `bytes` pointing into the file,
 * which need not be aligned. Everything is checked: lengths, types, that each tensor has as many
 * bytes as its shape says and lies inside. Errors: corrupt, with the place in the header;
 * unsupported for a type that Henry lacks; out-of-memory. */
hn_status hn_safetensors_read(const uint8_t *file, size_t file_bytes, hn_arena *arena,
                              hn_safetensor **out_tensors, uint32_t *out_count) HN_MUST_USE;

#endif
