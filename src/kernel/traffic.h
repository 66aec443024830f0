/* traffic.h: the bytes that a kernel must move, whatever its form.
 *
 * Of each buffer of the program, an element that the kernel reads before it writes it counts once,
 * and so does an element that it writes: loads that meet, and values that a loop reads again, cost
 * nothing more. A store that combines with what is there reads, too. Memory of the kernel's own is
 * not counted. Of a kernel of segments it is the sum of theirs. All is at the hints of the sizes.
 *
 * Most accesses are sums of variables times numbers, and are counted by a formula: also where they
 * overlap by a shift, interleave (the four elements of a window of two by two), or read again what
 * the kernel has stored. Others are marked one by one while the allowance lasts; their index is
 * evaluated only for the variables that it does not go along in equal steps. Where that is used up,
 * and where an index comes from data, the count is a bound: the accesses, and at most the buffer's
 * elements.
 *
 * For other sizes there is an expression: of each buffer the extents of the loops that its index
 * goes along, or the whole tensor, whichever is what was counted at the hints. */
#ifndef HN_KERNEL_TRAFFIC_H
#define HN_KERNEL_TRAFFIC_H

#include "sched/sched.h"

typedef struct hn_traffic {
    int64_t read_bytes, written_bytes;
    /* the same for sizes other than the hints, at most; 0: not known */
    hn_expr read_expr, written_expr;
    bool is_bound; /* at most so many */
} hn_traffic;

/* `*points`: how many elements may be marked one by one; what was used is taken off. */
hn_status hn_kernel_traffic(const hn_program *program, const hn_kernel *kernel, hn_arena *scratch,
                            int64_t *points, hn_traffic *out) HN_MUST_USE;

#endif
