/* alike.h: what a kernel does, whatever memory it does it to. */
#ifndef HN_SCHED_ALIKE_H
#define HN_SCHED_ALIKE_H

#include "sched/internal.h"

/* Kernels with equal texts do the same: buffer k of one is buffer k of the other. */
typedef struct alike {
    hn_str text; /* numbers, for comparing only; empty: the kernel may not become a segment */
    struct {
        hn_buf *items;
        uint32_t count, cap;
    } buffers;          /* each once, in order of first mention */
    uint32_t arguments; /* memories and numbers that a printed kernel has at most */
    hn_expr var; /* of the one dimension, whose extent the text leaves out; 0: there is none */
} alike;

/* Owns: lists live in the scratch arena. */
hn_status alike_of(sched *s, const hn_kernel *k, alike *out) HN_MUST_USE;

#endif
