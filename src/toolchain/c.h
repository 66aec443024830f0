/* c.h: what the two halves of the C row share. Not for other folders. */
#ifndef HN_TOOLCHAIN_C_H
#define HN_TOOLCHAIN_C_H

#include "toolchain/toolchain.h"

/* Raised when the way of calling the tools changes what comes out: it is part of the identity. */
enum { HN_C_REVISION = 1 };

/* The tools of a C toolchain, as its record tells them. Paths are borrowed from the record. */
typedef struct hn_c_tools {
    const char *cc;            /* the driver, as the user named it, absolute */
    const char *cc1, *as, *ld; /* "" when not known */
    bool is_clang;
    bool is_direct; /* the parts can be called without the driver */
} hn_c_tools;

hn_status hn_c_tools_read(hn_str record, hn_c_tools *out) HN_MUST_USE;
hn_status hn_c_probe(hn_store *store, hn_toolchain *out) HN_MUST_USE;

/* The environment that every tool gets: little, fixed, and the job's own list. `storage` keeps the strings.
 */
enum { HN_C_ENV_ITEMS = 32 };
/* `temp_dir` NULL: the host's TMPDIR. */
void hn_c_environment(hn_str job_env, const char *temp_dir, hn_strbuf *storage,
                      const char *out_items[HN_C_ENV_ITEMS + 1]);

#endif
