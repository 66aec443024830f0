/* pack_cache.h: packed weights: made once for a module, shared by all that want the same. */
#ifndef HN_OPS_CPU_PACK_CACHE_H
#define HN_OPS_CPU_PACK_CACHE_H

#include "ops/cpu/ext.h"

#include <stdatomic.h>

enum { HN_EXT_PACK_KEY_WORDS = 24 };

/* Who wants which bytes. Two keys with the same words must mean the same content: begin with a
 * number of the kind of packing (HN_EXT_PACK_*), then the constant's address and all that the
 * layout depends on. */
typedef struct hn_ext_pack_key {
    int64_t words[HN_EXT_PACK_KEY_WORDS];
} hn_ext_pack_key;

enum {
    HN_EXT_PACK_GEMM_B = 1,
    HN_EXT_PACK_CONV_ROWS = 2,
    HN_EXT_PACK_WINOGRAD = 3,
    HN_EXT_PACK_TO_F32 = 4,
    HN_EXT_PACK_SEEN = 5,
    HN_EXT_PACK_CONV_FIRST = 6
};

/* Memory of `bytes` bytes, 64-byte aligned, filled by `fill` when it is not there yet. Owns: the
 * module. */
hn_status hn_ext_pack_get(hn_ext_call *call, const hn_ext_pack_key *key, size_t bytes,
                          void (*fill)(void *user, void *memory), void *user,
                          void **out) HN_MUST_USE;

/* A flag of the module that goes with a packing, false at first: whether a run has used the
 * constant without it. */
hn_status hn_ext_pack_flag(hn_ext_call *call, const hn_ext_pack_key *key,
                           atomic_bool **out) HN_MUST_USE;

#endif
