/* pack.h: packs intervals of time into a line of storage; internal to src/wrapper. Knows only
 * numbers. */
#ifndef HN_WRAPPER_PACK_H
#define HN_WRAPPER_PACK_H

#include "base/arena.h"

/* Something of `size` units that is needed from time `first` to `last`, both included. */
typedef struct hn_pack_item {
    uint32_t first, last;
    int64_t size;   /* 0 or more */
    int64_t offset; /* the result */
} hn_pack_item;

typedef struct hn_pack_result {
    int64_t extent; /* the largest offset + size */
    int64_t bound;  /* the largest sum of sizes at one time: no packing has a smaller extent */
} hn_pack_result;

/* Gives offsets such that no two items share a unit at a time. Offsets are sums of sizes: when all
 * sizes are multiples of an alignment, so are they. Near linear in `count`, times the number that
 * is alive at once. The same items give the same offsets. Errors: unsupported when all sizes
 * together do not fit an int64; out-of-memory. */
hn_status hn_pack(hn_arena *scratch, hn_pack_item *items, uint32_t count,
                  hn_pack_result *out) HN_MUST_USE;

#endif
