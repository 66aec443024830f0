/* pickle.h: reads the tensors of a pickled state dict without executing anything. The reader knows
 * the names that torch.save writes for plain tensors; any other name or opcode is an error. */
#ifndef HN_FRONT_PT2_PICKLE_H
#define HN_FRONT_PT2_PICKLE_H

#include "base/arena.h"
#include "base/str.h"
#include "henry/status.h"
#include "ir/dtype.h"

/* A view of a storage, as pickled: unchecked numbers. */
typedef struct hn_pickle_tensor {
    hn_str name;    /* key in the dict */
    hn_str storage; /* name of the storage's record in data/ */
    hn_dtype dtype; /* NONE: not supported, see dtype_name */
    const char *dtype_name;
    int64_t offset_elems;
    uint32_t rank;
    const int64_t *sizes, *strides;
} hn_pickle_tensor;

typedef struct hn_pickle_tensors {
    hn_pickle_tensor *items;
    uint32_t count, cap;
} hn_pickle_tensors;

/* The tensors of the dict in `bytes`, in order; entries of other kinds are left out. Strings point
 * into `bytes`. Errors: corrupt, unsupported. */
hn_status hn_pickle_read(hn_arena *arena, hn_str bytes, hn_pickle_tensors *out) HN_MUST_USE;

#endif
