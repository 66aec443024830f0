/* henry/bundle.h: looking at bundle files without running them. Running is henry/module.h. */
#ifndef HENRY_BUNDLE_H
#define HENRY_BUNDLE_H

#include "henry/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Checks structure, all digests including those of code, and that gaps are empty; with `weights`
 * also the weights, embedded or in their own file. Errors: as hn_module_load_file. */
HN_API hn_status hn_bundle_verify_file(const char *path, bool weights) HN_MUST_USE;

typedef enum hn_bundle_format { HN_BUNDLE_TEXT = 0, HN_BUNDLE_JSON = 1 } hn_bundle_format;

/* Describes a bundle: inputs, outputs, symbols, guards, steps, kernels, extern calls, objects,
 * weights.
 * Owns: `*out_text` is NUL-terminated and freed with hn_bundle_text_free. Errors: as
 * hn_module_load_file. */
HN_API hn_status hn_bundle_describe_file(const char *path, hn_bundle_format format, char **out_text,
                                         size_t *out_len) HN_MUST_USE;
HN_API void hn_bundle_text_free(char *text); /* NULL is allowed */

/* Writes compiled object number `index` (from 0) of a bundle, for a disassembler.
 * Errors: also invalid-argument for an index out of range or an object that the bundle only refers
 * to. */
HN_API hn_status hn_bundle_object_extract(const char *path, unsigned index,
                                          const char *out_path) HN_MUST_USE;

/* ---- Ed25519 signatures. docs/bundle-format.md, "Trust", says what they mean ---- */

typedef struct hn_public_key {
    uint8_t bytes[32];
} hn_public_key;

/* Writes a pair of keys to two new files; the secret one has mode 0600. Errors: io, also if one of
 * the files exists. */
HN_API hn_status hn_bundle_keys_create(const char *secret_path,
                                       const char *public_path) HN_MUST_USE;
/* Errors: not-found, io, invalid-argument. */
HN_API hn_status hn_public_key_read(const char *path, hn_public_key *out) HN_MUST_USE;

/* Signs a bundle file. The file is replaced, and so is a signature in it. Everything in it is
 * verified first, and the digest of its weights is recorded. `weights_path` names its weights file
 * (NULL: as hn_module_options.weights_path).
 * Errors: those of reading bundle, weights and key; invalid-argument for a secret key that others
 * may read. */
HN_API hn_status hn_bundle_sign_file(const char *path, const char *secret_path,
                                     const char *weights_path) HN_MUST_USE;
/* Verifies everything, weights included, and that one of the keys signed it.
 * Errors: incompatible if it is not signed, or signed with another key; corrupt if it does not
 * verify. */
HN_API hn_status hn_bundle_verify_signed(const char *path, const char *weights_path,
                                         const hn_public_key *trusted,
                                         uint32_t trusted_count) HN_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
