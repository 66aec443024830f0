/* hash.c: xxh3 for tables, BLAKE2b-256 for content keys. */
#include "base/hash.h"

#include <assert.h>
#include <pthread.h>
#include <sodium.h>
#include <xxhash.h>

_Static_assert(sizeof(hn_digest_state) >= sizeof(crypto_generichash_state), "the state fits");
_Static_assert(_Alignof(hn_digest_state) >= _Alignof(crypto_generichash_state),
               "the state is aligned");
_Static_assert(sizeof(((hn_digest *)0)->bytes) == crypto_generichash_BYTES, "256 bits");

static pthread_once_t sodium_once = PTHREAD_ONCE_INIT;

/* Picks the implementation for this processor. When it fails, the portable one stays in use. */
static void sodium_start(void) {
    int rc = sodium_init();
    (void)rc;
}

uint64_t hn_hash64(const void *bytes, size_t len, uint64_t seed) {
    return XXH3_64bits_withSeed(len ? bytes : "", len, seed);
}

hn_digest hn_digest_of(const void *bytes, size_t len) {
    pthread_once(&sodium_once, sodium_start);
    hn_digest digest;
    int rc = crypto_generichash(digest.bytes, sizeof(digest.bytes), bytes, len, NULL, 0);
    assert(rc == 0);
    (void)rc;
    return digest;
}

static crypto_generichash_state *inner(hn_digest_state *state) { return (void *)state->opaque; }

void hn_digest_begin(hn_digest_state *state) {
    pthread_once(&sodium_once, sodium_start);
    int rc = crypto_generichash_init(inner(state), NULL, 0, crypto_generichash_BYTES);
    assert(rc == 0);
    (void)rc;
}

void hn_digest_update(hn_digest_state *state, const void *bytes, size_t len) {
    if (len) crypto_generichash_update(inner(state), bytes, len);
}

hn_digest hn_digest_end(hn_digest_state *state) {
    hn_digest digest;
    int rc = crypto_generichash_final(inner(state), digest.bytes, sizeof(digest.bytes));
    assert(rc == 0);
    (void)rc;
    return digest;
}

hn_digest hn_digest_of_two(hn_str first, hn_str second) {
    hn_digest_state state;
    hn_digest_begin(&state);
    hn_digest_update(&state, first.ptr, first.len);
    hn_digest_update(&state, second.ptr, second.len);
    return hn_digest_end(&state);
}

void hn_digest_hex(const hn_digest *digest, char out[HN_DIGEST_HEX_BYTES]) {
    static const char hex[] = "0123456789abcdef";
    for (size_t i = 0; i < sizeof(digest->bytes); i++) {
        out[2 * i] = hex[digest->bytes[i] >> 4];
        out[2 * i + 1] = hex[digest->bytes[i] & 15];
    }
    out[HN_DIGEST_HEX_BYTES - 1] = '\0';
}
