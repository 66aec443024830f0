/* key.h: the key of the graph cache. */
#ifndef HN_DRIVER_KEY_H
#define HN_DRIVER_KEY_H

#include "base/hash.h"
#include "codegen/c/c.h"
#include "front/pt2/pt2.h"
#include "henry/program.h"

/* The number of threads that a program is planned for. */
uint32_t hn_driver_threads(const hn_compile_options *options);

/* Appends the key record; the digest of its bytes is the key. `compiler`: identity of the toolchain.
 * Errors: corrupt, when a record of the archive cannot be read; out-of-memory. */
hn_status hn_driver_key_record(hn_pt2 *file, const char *path, const hn_compile_options *options, const hn_c_target *target,
                               const hn_digest *compiler, hn_strbuf *out) HN_MUST_USE;

/* What `henry cache why MODEL` says: appends a line for each field in which the nearest stored program differs from
 * what this model and these options ask for. Errors: those of opening the model, not-found when nothing is stored. */
hn_status hn_driver_why(const char *path, const hn_compile_options *options, hn_strbuf *out) HN_MUST_USE;

#endif
