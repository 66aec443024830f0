/* sign.c: keys, signing and verifying. See sign.h and "Trust" in docs/bundle-format.md. */
#include "bundle/sign.h"

#include "base/file.h"
#include "base/require.h"
#include "base/oserror.h"
#include "bundle/weights.h"

#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MESSAGE_HEAD = 25, MESSAGE_BYTES = MESSAGE_HEAD + 2 * 32, KEY_BYTES = 32 };
_Static_assert(KEY_BYTES == crypto_sign_PUBLICKEYBYTES && KEY_BYTES == crypto_sign_SEEDBYTES &&
                   crypto_sign_BYTES == 64,
               "part of the format");

static const char secret_head[] = "henry secret key 1\n", public_head[] = "henry public key 1\n";

static hn_status begin(void) {
    return sodium_init() < 0 ? HN_ERROR(HN_INTERNAL, "libsodium does not work on this machine")
                             : NULL;
}

/* ---- what is signed ---- */

hn_status hn_bundle_weights_digest(const hn_bundle *b, hn_digest *out) {
    const uint8_t *recorded = b->header->weights_bytes ? b->info->weights_digest
                              : b->weight_files_count  ? b->weight_files[0].full_digest
                                                       : NULL;
    *out = (hn_digest){{0}};
    if (!recorded) return NULL;
    if (b->header->weights_bytes && b->weight_files_count)
        return HN_ERROR(HN_UNSUPPORTED, "weights in two places cannot be signed");
    if (hn_bundle_digest_is_unknown(recorded))
        return HN_ERROR(HN_INVALID_ARGUMENT,
                        "the bundle records no digest of its weights; sign it again");
    memcpy(out->bytes, recorded, sizeof out->bytes);
    return NULL;
}

static hn_status make_message(const hn_bundle *b, uint8_t out[MESSAGE_BYTES]) {
    hn_digest weights;
    HN_TRY(hn_bundle_weights_digest(b, &weights));
    memcpy(out, "henry bundle signature 1", MESSAGE_HEAD);
    memcpy(out + MESSAGE_HEAD, b->header->digest, 32);
    memcpy(out + MESSAGE_HEAD + 32, weights.bytes, 32);
    return NULL;
}

/* ---- verifying ---- */

static void short_key(const uint8_t key[KEY_BYTES], char out[17]) {
    for (int i = 0; i < 8; i++) snprintf(out + 2 * i, 3, "%02x", key[i]);
}

hn_status hn_bundle_signature_check(const hn_bundle *b, const hn_public_key *trusted,
                                    uint32_t trusted_count) {
    uint8_t message[MESSAGE_BYTES];
    char name[17];
    bool known = false;
    HN_TRY(begin());
    if (hn_bundle_digest_is_unknown(b->header->signer))
        return HN_ERROR(
            HN_INCOMPATIBLE,
            "the bundle is not signed; only bundles signed with a trusted key are accepted");
    short_key(b->header->signer, name);
    for (uint32_t k = 0; k < trusted_count; k++)
        known |= memcmp(trusted[k].bytes, b->header->signer, KEY_BYTES) == 0;
    if (!known)
        return HN_ERROR(HN_INCOMPATIBLE,
                        "the bundle is signed with key %s..., which is not among the trusted ones",
                        name);
    HN_TRY(make_message(b, message));
    if (crypto_sign_verify_detached(b->header->signature, message, sizeof message,
                                    b->header->signer) == 0)
        return NULL;
    return HN_ERROR(
        HN_CORRUPT,
        "the bundle's signature with key %s... is wrong: it was changed after it was signed", name);
}

/* ---- keys in files: a line that says what it is, and 64 hexadecimal digits ---- */

static hn_status write_key(const char *path, const char *head, const uint8_t key[KEY_BYTES],
                           mode_t mode) {
    char text[sizeof secret_head + 2 * KEY_BYTES + 1];
    size_t len = strlen(head);
    memcpy(text, head, len);
    sodium_bin2hex(text + len, 2 * KEY_BYTES + 1, key, KEY_BYTES);
    text[len + 2 * KEY_BYTES] = '\n';
    len += 2 * KEY_BYTES + 1;
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode);
    hn_status status = fd < 0 ? HN_OS_ERROR(errno, "cannot create the key file '%s'", path) : NULL;
    if (!status &&
        (fchmod(fd, mode) != 0 || write(fd, text, len) != (ssize_t)len || fsync(fd) != 0))
        status = HN_OS_ERROR(errno, "cannot write '%s'", path);
    if (fd >= 0) close(fd);
    if (status && fd >= 0) (void)unlink(path);
    sodium_memzero(text, sizeof text);
    return status;
}

static hn_status parse_key(const char *path, const hn_strbuf *text, const char *head,
                           uint8_t out[KEY_BYTES]) {
    size_t len = strlen(head), got = 0;
    bool ok = text->len >= len + 2 * KEY_BYTES && text->len <= len + 2 * KEY_BYTES + 1 &&
              memcmp(text->ptr, head, len) == 0;
    if (ok && text->len == len + 2 * KEY_BYTES + 1) ok = text->ptr[text->len - 1] == '\n';
    ok = ok &&
         sodium_hex2bin(out, KEY_BYTES, text->ptr + len, 2 * KEY_BYTES, NULL, &got, NULL) == 0 &&
         got == KEY_BYTES;
    return ok ? NULL
              : HN_ERROR(HN_INVALID_ARGUMENT,
                         "'%s' is no file with a %.*s of 'henry bundle keygen'", path,
                         (int)strlen("henry public key") - 6, head + 6);
}

static hn_status read_key(const char *path, const char *head, uint8_t out[KEY_BYTES]) {
    hn_strbuf text;
    hn_strbuf_init(&text);
    HN_TRY(begin());
    hn_status status = hn_file_read(path, &text);
    if (!status) status = parse_key(path, &text, head, out);
    if (text.ptr) sodium_memzero(text.ptr, text.len);
    hn_strbuf_deinit(&text);
    return status;
}

hn_status hn_public_key_read(const char *path, hn_public_key *out) {
    HN_REQUIRE(path, "path");
    HN_REQUIRE(out, "out");
    return read_key(path, public_head, out->bytes);
}

/* A secret key that others can read is none any more. */
static hn_status read_secret(const char *path, uint8_t out[KEY_BYTES]) {
    struct stat st;
    if (stat(path, &st) == 0 && (st.st_mode & 077))
        return HN_ERROR(
            HN_INVALID_ARGUMENT,
            "others may read the secret key '%s' (mode %03o); make a new one, or set its mode to 600",
            path, (unsigned)(st.st_mode & 0777));
    return read_key(path, secret_head, out);
}

hn_status hn_bundle_keys_create(const char *secret_path, const char *public_path) {
    uint8_t seed[KEY_BYTES], secret[crypto_sign_SECRETKEYBYTES], public[KEY_BYTES];
    HN_REQUIRE(secret_path, "secret_path");
    HN_REQUIRE(public_path, "public_path");
    HN_TRY(begin());
    randombytes_buf(seed, sizeof seed);
    crypto_sign_seed_keypair(public, secret, seed);
    hn_status status = write_key(secret_path, secret_head, seed, 0600);
    if (!status && (status = write_key(public_path, public_head, public, 0644)))
        (void)unlink(secret_path);
    sodium_memzero(seed, sizeof seed);
    sodium_memzero(secret, sizeof secret);
    return status;
}

/* ---- signing ---- */

static hn_status sign_bytes(uint8_t *bytes, size_t len, const uint8_t seed[KEY_BYTES],
                            const char *path, const char *weights_path) {
    uint8_t message[MESSAGE_BYTES], secret[crypto_sign_SECRETKEYBYTES];
    hnb_header *header = (hnb_header *)(void *)bytes;
    hn_bundle b;
    HN_TRY(hn_bundle_open(bytes, len, true, &b));
    HN_TRY(hn_bundle_check_code(&b));
    HN_TRY(hn_bundle_weights_check(&b, false));
    HN_TRY(hn_bundle_weights_record(&b, bytes, path, weights_path));
    HN_TRY(make_message(&b, message));
    crypto_sign_seed_keypair(header->signer, secret, seed);
    int failed = crypto_sign_detached(header->signature, NULL, message, sizeof message, secret);
    sodium_memzero(secret, sizeof secret);
    return failed ? HN_ERROR(HN_INTERNAL, "libsodium cannot sign") : NULL;
}

/* A private map: the pages that change are ours, the weights are not copied before they are
 * written. */
static hn_status sign_map(const char *path, const uint8_t seed[KEY_BYTES],
                          const char *weights_path) {
    struct stat st = {0};
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return HN_OS_ERROR(errno, "cannot open '%s'", path);
    hn_status status = NULL;
    void *bytes = MAP_FAILED;
    if (fstat(fd, &st) != 0) status = HN_OS_ERROR(errno, "cannot look at '%s'", path);
    else if (S_ISDIR(st.st_mode))
        status = HN_ERROR(HN_INVALID_ARGUMENT, "'%s' is a folder, not a bundle", path);
    else if ((size_t)st.st_size < sizeof(hnb_header))
        status = HN_ERROR(HN_CORRUPT, "'%s' is not a bundle", path);
    else if ((bytes = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0)) ==
             MAP_FAILED)
        status = HN_OS_ERROR(errno, "cannot map '%s'", path);
    close(fd);
    if (!status)
        status = hn_status_annotate(sign_bytes(bytes, (size_t)st.st_size, seed, path, weights_path),
                                    "'%s'", path);
    if (!status) status = hn_file_write_atomic(path, bytes, (size_t)st.st_size, true);
    if (bytes != MAP_FAILED) munmap(bytes, (size_t)st.st_size);
    return status;
}

hn_status hn_bundle_sign_file(const char *path, const char *secret_path, const char *weights_path) {
    uint8_t seed[KEY_BYTES];
    HN_REQUIRE(path, "path");
    HN_REQUIRE(secret_path, "secret_path");
    HN_TRY(begin());
    hn_status status = read_secret(secret_path, seed);
    if (!status) status = sign_map(path, seed, weights_path);
    sodium_memzero(seed, sizeof seed);
    return hn_status_annotate(status, "cannot sign");
}
