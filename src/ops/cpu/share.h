/* share.h: pieces of work that the tasks of a team (base/team.h) own in order, and take from each
 * other at the end.
 *
 * A task takes the pieces of its own share from the front, and when it has none left those of the
 * others from their far ends. So a step that numbers its pieces as the step before did reads mostly
 * what the same thread wrote, which is in its own caches, and yet a thread that the system delays
 * costs no more than a piece; one that never comes costs nothing. */
#ifndef HN_OPS_CPU_SHARE_H
#define HN_OPS_CPU_SHARE_H

#include <stdbool.h>
#include <stdint.h>

enum { HN_EXT_SHARE_MAX = INT32_MAX }; /* pieces in all */

typedef struct hn_ext_share {
    _Alignas(64) uint64_t range; /* begin in the low half, end in the high one */
} hn_ext_share;

/* Sets the share of task `rank` of `size`: its part of `count` pieces. All are set before the tasks
 * run. */
static inline void hn_ext_share_set(hn_ext_share *shares, int rank, int size, int64_t count) {
    const uint64_t begin = (uint64_t)(count * rank / size),
                   end = (uint64_t)(count * (rank + 1) / size);
    __atomic_store_n(&shares[rank].range, end << 32 | begin, __ATOMIC_RELAXED);
}

/* Takes one piece; -1: none is left. */
static inline int64_t hn_ext_share_take(hn_ext_share *s, bool from_end) {
    uint64_t old = __atomic_load_n(&s->range, __ATOMIC_RELAXED);
    for (;;) {
        const uint64_t begin = old & UINT32_MAX, end = old >> 32;
        if (begin == end) return -1;
        const uint64_t next = from_end ? (end - 1) << 32 | begin : end << 32 | (begin + 1);
        if (__atomic_compare_exchange_n(&s->range, &old, next, true, __ATOMIC_RELAXED,
                                        __ATOMIC_RELAXED))
            return (int64_t)(from_end ? end - 1 : begin);
    }
}

/* The next piece for task `rank`: an own one, or else another's; -1: none is left. */
static inline int64_t hn_ext_share_next(hn_ext_share *shares, int rank, int size) {
    int64_t piece = hn_ext_share_take(&shares[rank], false);
    for (int i = 1; i < size && piece < 0; i++)
        piece = hn_ext_share_take(&shares[(rank + i) % size], true);
    return piece;
}

#endif
