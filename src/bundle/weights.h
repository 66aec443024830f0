/* weights.h: the file of weights that a bundle refers to. */
#ifndef HN_BUNDLE_WEIGHTS_H
#define HN_BUNDLE_WEIGHTS_H

#include "base/file.h"
#include "bundle/view.h"

/* Finds, maps and checks the weights file: `given_path` when not NULL, else the first file that is
 * right of: the last part of the recorded path beside the bundle, the recorded path from the
 * bundle's folder, the recorded path as it stands. `bundle_path` may be NULL. Size always, and,
 * unless the time is the recorded one, the "ends" digest are checked; with `full` the digest of all
 * bytes when the bundle has one. A bundle without such a file gives an empty map.
 * Errors: not-found, io, incompatible (another file), corrupt (damaged). */
hn_status hn_bundle_weights_open(const hn_bundle *b, const char *bundle_path,
                                 const char *given_path, bool full, hn_file_map *out) HN_MUST_USE;

/* Makes the image refer to the file at `path`, whose bytes are `data`, as if it had been written
 * for it: path, size, time and "ends" digest of its weights file, and the digest of the image. For
 * the same program with weights of the same layout. An image without such a file, or of this file,
 * stays as it is. False when there is no room for the path, or the file cannot be inspected.
 * `image` was opened before: it is trusted. */
bool hn_bundle_weight_file_set(void *image, const char *path, const uint8_t *data, size_t bytes);

/* Writes the digests of weights that the bundle does not record yet into `bytes`, which `b` views,
 * and the digest of the image after it. A digest that is there already is compared. Paths as for
 * hn_bundle_weights_open. Errors: as that. */
hn_status hn_bundle_weights_record(const hn_bundle *b, uint8_t *bytes, const char *bundle_path,
                                   const char *given_path) HN_MUST_USE;

/* hn_bundle_verify_file with the weights that a bundle refers to, which lie at `weights_path` when
 * that is not NULL. */
hn_status hn_bundle_verify_with(const char *path, const char *weights_path) HN_MUST_USE;

/* Checks that embedded weights are all there, and with `full` their digest when the bundle has
 * one. */
hn_status hn_bundle_weights_check(const hn_bundle *b, bool full) HN_MUST_USE;

#endif
