/* hash.h: a fast hash for tables and a digest for content keys. */
#ifndef HN_BASE_HASH_H
#define HN_BASE_HASH_H

#include "base/str.h"

#include <stddef.h>
#include <stdint.h>

/* 64-bit table hash (xxh3). Not for content addressing. */
uint64_t hn_hash64(const void *bytes, size_t len, uint64_t seed);

/* 256-bit content digest (BLAKE2b-256, libsodium). Source: reference/performance.md 1.5. */
typedef struct hn_digest {
    uint8_t bytes[32];
} hn_digest;

hn_digest hn_digest_of(const void *bytes, size_t len);

/* Streaming form. */
typedef struct hn_digest_state {
    _Alignas(64) unsigned char opaque[384];
} hn_digest_state;
void hn_digest_begin(hn_digest_state *state);
void hn_digest_update(hn_digest_state *state, const void *bytes, size_t len);
hn_digest hn_digest_end(hn_digest_state *state);
hn_digest hn_digest_of_two(hn_str first, hn_str second); /* of one after the other */

/* 64 lower-case hex digits and a NUL into `out`. */
#define HN_DIGEST_HEX_BYTES 65
void hn_digest_hex(const hn_digest *digest, char out[HN_DIGEST_HEX_BYTES]);

#endif
