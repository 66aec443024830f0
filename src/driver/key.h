/* key.h: the key of the graph cache. */
#ifndef HN_DRIVER_KEY_H
#define HN_DRIVER_KEY_H

#include "base/hash.h"
#include "codegen/c/c.h"
#include "front/pt2/pt2.h"
#include "henry/program.h"

/* `compiler`: identity of the toolchain. Errors: corrupt, when a record cannot be read. */
hn_status hn_driver_key(hn_pt2 *file, const char *path, const hn_compile_options *options, const hn_c_target *target,
                        const hn_digest *compiler, hn_digest *out) HN_MUST_USE;

#endif
