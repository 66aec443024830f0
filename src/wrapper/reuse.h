/* reuse.h: when a buffer may take the memory of another one. Internal to src/wrapper. */
#ifndef HN_WRAPPER_REUSE_H
#define HN_WRAPPER_REUSE_H

#include "wrapper/lifetime.h"

/* Every REUSE line is as docs/wrapper-ir.md wants it. For a wrapper whose ids are known to be good.
 * Errors: internal, naming the line and what is wrong with it. */
hn_status hn_wrapper_reuse_verify(const hn_wrapper *w, hn_arena *arena) HN_MUST_USE;

#endif
