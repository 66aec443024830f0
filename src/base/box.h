/* box.h: a block of bytes that is copied from one memory to another, where rows, columns and so on
 * may lie otherwise: runs of bytes, repeated along dimensions. */
#ifndef HN_BASE_BOX_H
#define HN_BASE_BOX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { HN_BOX_MAX_RANK = 16 };

/* Units: bytes, but for `size`. */
typedef struct hn_box_dim {
    uint64_t size, from_stride, to_stride;
} hn_box_dim;

typedef struct hn_box {
    uint32_t rank;
    const hn_box_dim *dims; /* the order does not matter; copies are fast with the largest
                               to_stride first */
    uint64_t run_bytes;     /* of one element of the dimensions */
    uint64_t from, to;      /* where the first run begins */
} hn_box;

/* How far a box reaches on both sides: one past its last byte; and how many bytes it copies. False:
 * a size or the run is 0, the rank is too large, or a number overflows. */
bool hn_box_reach(const hn_box *box, uint64_t *out_from_end, uint64_t *out_to_end,
                  uint64_t *out_bytes);

/* How a run that is long enough to ask comes from `from` to `to`. */
typedef struct hn_box_reader {
    void (*read)(const void *user, void *to, const void *from, size_t bytes);
    const void *user;
} hn_box_reader;

/* Writes those bytes of the box that lie in [begin, begin + bytes) of the target. `to`: where
 * `begin` is; `from`: the beginning of the source. The box has a reach that is inside both.
 * `reader`: NULL: memory is copied. Threads: several may write other parts at the same time. */
void hn_box_copy(const hn_box *box, const void *from, uint64_t begin, size_t bytes, void *to,
                 const hn_box_reader *reader);

/* Drops dimensions of one element, orders the others, and makes two of them one, or a part of the
 * run, where they follow each other on both sides: `*rank` dims are fewer then. The same bytes are
 * copied. Strides are such that elements do not overlap. */
void hn_box_simplify(hn_box_dim *dims, uint32_t *rank, uint64_t *run_bytes);

#endif
