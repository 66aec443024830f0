/* rewind.h: a process that does the same thing again and again from one point on: its memory and its descriptors become
 * what they were there. Part of what is preloaded into tools, see standby.c; the C library only. */
#ifndef HN_WORKER_REWIND_H
#define HN_WORKER_REWIND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct hn_rewind hn_rewind;

/* First of all, before the program asks for memory. */
void hn_rewind_prepare(void);
/* Keeps what the process is now; but for [stack_low, its end) nothing of the stack. What `*out` and the caller's
 * own stack hold must lie in memory from hn_rewind_memory. `control_fd` is not touched. False: it cannot be rewound. */
bool hn_rewind_keep(int control_fd, const void *stack_low, hn_rewind **out);
/* Whether all that has changed since can be undone: no other thread, no child, no strange memory. */
bool hn_rewind_is_possible(const hn_rewind *r);
/* The process is as it was kept. */
void hn_rewind_go(hn_rewind *r);
/* Memory that is not kept and not rewound, between two pages that cannot be touched; NULL: none. */
void *hn_rewind_memory(size_t bytes);
/* Address space that a process has only because it is rewound. */
uint64_t hn_rewind_extra_bytes(const hn_rewind *r);

/* For memory that the program asks the system for. NULL: `r` has no more, ask the system and tell hn_rewind_note. */
void *hn_rewind_take(hn_rewind *r, size_t bytes);
void hn_rewind_note(hn_rewind *r, void *at, size_t bytes);
/* Whether memory is kept or came from hn_rewind_take: the system must not get it back. */
bool hn_rewind_owns(const hn_rewind *r, const void *at);

#endif
