/* source_externs.h: which sources of the operations that programs call (src/ops/cpu) come along in a
 * project of C, and what tells them so. */
#ifndef HN_DRIVER_SOURCE_EXTERNS_H
#define HN_DRIVER_SOURCE_EXTERNS_H

#include "base/arena.h"
#include "base/str.h"
#include "henry/abi/extern_abi.h"
#include "henry/status.h"

#include <stdbool.h>

/* A set of kinds of operations. */
typedef uint64_t hn_extern_kinds;
static inline hn_extern_kinds hn_extern_bit(hn_extern_kind kind) { return UINT64_C(1) << kind; }

/* Whether the path, of hn_source_texts, is compiled by a name that ends in ".c". */
bool hn_source_is_c(const char *path);
/* Whether the text comes along for these operations. `variant`: hn_target.ops. */
bool hn_source_extern_is_wanted(const char *path, hn_extern_kinds kinds, const char *variant);
/* What the texts are compiled with. Owns: in `arena`. */
hn_status hn_source_extern_flags(hn_extern_kinds kinds, const char *variant, hn_arena *arena,
                                 hn_str *out) HN_MUST_USE;

#endif
