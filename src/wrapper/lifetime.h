/* lifetime.h: from where to where each buffer of a wrapper is alive. Internal to src/wrapper.
 *
 * Conditionals and loops make the lines a tree of blocks: a body is a block inside the line that
 * opens it. A buffer lives in the innermost block that contains all its mentions, from the first to
 * the last line of that block that mentions it, itself or in a body below. So what a loop reads from
 * outside, or carries from round to round, lives through all its rounds. */
#ifndef HN_WRAPPER_LIFETIME_H
#define HN_WRAPPER_LIFETIME_H

#include "wrapper/wrapper.h"

typedef struct hn_wblock {
    uint32_t line;   /* the conditional that the block belongs to; UINT32_MAX: the program itself */
    uint32_t parent; /* block */
    uint32_t depth;
} hn_wblock;

typedef struct hn_wlife {
    bool used;
    uint32_t block;
    uint32_t first, last; /* lines of `block` */
    /* the last line below `last`: itself, or the end of a conditional's bodies */
    uint32_t end;
} hn_wlife;

typedef struct hn_wlives {
    uint32_t *line_block; /* per line */
    uint32_t *line_end;   /* per line: the last line of its bodies, itself for others */
    struct {
        hn_wblock *items;
        uint32_t count, cap;
    } blocks;          /* [0] the program */
    hn_wlife *buffers; /* per buffer */
} hn_wlives;

/* Memory lines do not count as mentions, but for REUSE. Buffers of outputs live to the end of the
 * program; workspaces that are zeroed once, through all of it. The memory of the host that a copy to
 * or from a device uses counts as mentioned in the WAIT line after which the copy is surely done; at
 * the end of the program when there is none. Errors: internal when bodies of conditionals do not
 * nest. */
hn_status hn_wrapper_lives(const hn_wrapper *w, hn_arena *arena, hn_wlives *out) HN_MUST_USE;

#endif
