/* lives.h: from which group to which one a buffer is needed, and where most memory is.
 *
 * Owns: everything lives in the scratch arena of the scheduler. */
#ifndef HN_SCHED_LIVES_H
#define HN_SCHED_LIVES_H

#include "sched/internal.h"

#define LIVES_NONE UINT32_MAX

/* The groups that touch a buffer. */
typedef struct life {
    uint32_t first, last, last_write; /* LIVES_NONE: none */
    uint32_t writers;                 /* loops and calls */
    uint32_t member;                  /* of the group that writes it last: which one */
    uint32_t readers;                 /* index + 1 into `reads`, of the last one; 0: none */
    int64_t bytes;                    /* of a temporary, at the hints; 0: it costs nothing */
} life;

typedef struct reading {
    uint32_t group, next; /* next: index + 1 of the one before; 0: none */
} reading;

typedef struct lives {
    sched *s;
    life *of;         /* per buffer */
    uint32_t *region; /* per group: 1 + the bracket of a conditional or loop in front of it; or 0 */
    struct {
        reading *items;
        uint32_t count, cap;
    } reads;
    uint32_t peak_at; /* the first group at which most memory is needed, */
    int64_t peak;     /* and how much: bytes */
} lives;

hn_status lives_find(sched *s, lives *out) HN_MUST_USE;
/* Group `g` reads `b`, too, from now on. The peak stays what it was. */
hn_status lives_add_read(lives *l, hn_buf b, uint32_t g) HN_MUST_USE;
/* What one group alone touches is in registers, or in memory for that time only. */
static inline bool life_is_in_memory(const life *u) { return u->first != u->last; }

#endif
