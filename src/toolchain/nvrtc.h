/* nvrtc.h: what the run-time compiler of CUDA can do. Not for other folders. */
#ifndef HN_TOOLCHAIN_NVRTC_H
#define HN_TOOLCHAIN_NVRTC_H

#include "base/nvrtc.h"
#include "toolchain/toolchain.h"

/* Finds the library and what it can do. The record has "path", "version" ("13.2"), "archs" (a list
 * of numbers), "options" (a list of those of ours that it knows). Errors: toolchain, telling where
 * it was looked for. */
hn_status hn_nvrtc_probe(hn_store *store, hn_toolchain *out) HN_MUST_USE;

#endif
