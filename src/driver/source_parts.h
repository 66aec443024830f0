/* source_parts.h: which sources of the extern operations a C project has, and the flags that tell
 * these what else came along. */
#ifndef HN_DRIVER_SOURCE_PARTS_H
#define HN_DRIVER_SOURCE_PARTS_H

#include "wrapper/wrapper.h"

/* For which calls of the host. */
typedef struct hn_source_called {
    const hn_wrapper *w;
    const hn_line *only; /* one of its lines; NULL: all */
    const char *variant; /* of the kernels' tables: hn_target.ops */
} hn_source_called;

/* Whether the path, of hn_source_texts, is compiled by a name that ends in ".c". */
bool hn_source_is_c(const char *path);
/* Whether the calls can need this file of lib/ops. Headers come along in any case. */
bool hn_source_part_is_needed(const hn_source_called *calls, const char *path);
/* "-DHN_EXT_ONLY=...": what the files are compiled with. Owns: in `arena`. */
hn_status hn_source_part_flags(const hn_source_called *calls, hn_arena *arena,
                               hn_str *out) HN_MUST_USE;

#endif
