/* calls.h: what the files share that rewrite calls of operations before loops are grouped. */
#ifndef HN_SCHED_CALLS_H
#define HN_SCHED_CALLS_H

#include "sched/internal.h"

enum { USE_READERS_MAX = 4, CALL_DIMS_MAX = HN_EXTERN_BATCH + 2 };

/* The items that touch a buffer. */
typedef struct use {
    uint32_t readers, writers;
    hn_item reader[USE_READERS_MAX]; /* the first ones */
    hn_item writer;                  /* the last one */
} use;

typedef struct calls {
    sched *s;
    use *uses;        /* per buffer, and for those that are added */
    bool *dead;       /* per item */
    uint32_t *region; /* per item: the bracket of a conditional in front of it; 0: none */
} calls;

static inline hn_item_info *calls_item(const calls *c, hn_item i) {
    return &c->s->p->items.items[i];
}
/* Whether what the loop, item `from`, reads is still the same at later items. */
bool calls_reads_last(const calls *c, const hn_loop *loop, hn_item from);

/* --- points.c: which element of one buffer belongs to which of another --- */

/* The elements of an operand by the dimensions of its call. */
typedef struct call_space {
    uint32_t count;
    hn_expr extents[CALL_DIMS_MAX], strides[CALL_DIMS_MAX], offset;
} call_space;

/* An operand as the parameters of a call describe it: in memory that a loop reads. */
typedef struct call_side {
    hn_buf buffer; /* 0: none */
    hn_expr offset, strides[CALL_DIMS_MAX];
} call_side;

/* An index as a sum: rest + sum(coeffs[d] * variable d), and nothing else in it varies. */
typedef struct loop_access {
    hn_expr coeffs[HN_MAX_RANK], rest;
} loop_access;

bool loop_access_of(sched *s, const hn_loop *loop, hn_expr index, loop_access *out);
/* The loop with variables cut in two where an index wraps in them, as those of a reshaped tensor do: at
 * one of the extents. Those that no extent helps stay. */
hn_status loop_cut(sched *s, const hn_loop *loop, const hn_expr *extents, uint32_t count,
                   hn_loop *out) HN_MUST_USE;
/* Where `loop` walks the operand `of` by `by`, each element once, the strides by which it walks
 * `what` at the same time. `out_owner` (may be NULL): per variable of the loop the dimension that
 * it is part of; CALL_DIMS_MAX: of none or of several. False when there are no such strides. */
bool loop_strides_of(sched *s, const call_space *of, const hn_loop *loop, const loop_access *by,
                     const loop_access *what, hn_expr *out_strides, uint32_t *out_owner);

/* --- epilogue.c, scale.c: for a target that has the operation --- */

/* What call `i` of a product or a convolution, which `o` does, can do of the loops that read its
 * result. */
hn_status calls_take_epilogues(calls *c, hn_item i, const hn_operation *o) HN_MUST_USE;
/* mul(x, scale of channels) in front of a 1 x 1 convolution, done while it reads x. */
hn_status calls_take_scale(calls *c, hn_item i) HN_MUST_USE;

/* --- copied.c: results that are written where they belong --- */

/* A result of a call. */
typedef struct call_result {
    hn_item i;
    uint32_t operand, strides; /* which of the call; the parameter that is its first stride */
    call_space space;
    /* Rows must stay rows in memory: to store each element by itself takes the operation longer
     * than a loop that copies. */
    bool keeps_rows;
} call_result;

/* Where the only reader of a result is a loop that copies it, the call writes there. */
hn_status calls_take_copy(calls *c, const call_result *result, bool *out_taken) HN_MUST_USE;
/* The same for all results of a call that has no epilogues. */
hn_status calls_take_copies(calls *c, hn_item i, const hn_operation *o) HN_MUST_USE;
/* Whether call `i` can know where in its buffer `side` is, which item `reader` behind it uses:
 * nothing between them defines a symbol of it. */
bool calls_knows_place(const calls *c, hn_item i, const call_space *space, const call_side *side,
                       hn_item reader);
/* Strides as parameters of the call. Where there is one element it keeps the stride of the
 * result. */
void calls_put_strides(const calls *c, const call_space *space, const hn_expr *strides,
                       hn_expr *out);

/* --- prologue.c: for a target that has not --- */

/* What only the loops of call `i` read is computed in them, if it is cheap. */
hn_status calls_take_prologues(calls *c, hn_item i) HN_MUST_USE;

#endif
