/* loop_text.h: words of the text form of loop IR, one list for printing and for reading; internal
 * to src/ir. */
#ifndef HN_IR_LOOP_TEXT_H
#define HN_IR_LOOP_TEXT_H

#include "ir/loop.h"

/* Indexed by the enums of loop.h. */
extern const char *const hn_loop_kind_names[];
extern const char *const hn_buffer_kind_names[];
extern const char *const hn_extern_kind_names[];

/* What the items so far have made of a buffer. */
typedef enum hn_buffer_state {
    HN_BUFFER_UNWRITTEN,
    HN_BUFFER_WRITTEN,
    HN_BUFFER_INSIDE, /* a temporary of the loops of a call: no other item may touch it */
} hn_buffer_state;

/* loop_verify.c, piece by piece, so that the reader can tell the line.
 * Owns: deinit frees. */
typedef struct hn_loop_checker {
    const hn_program *p;
    uint8_t *written;   /* per buffer: hn_buffer_state */
    uint32_t depth;     /* of conditionals */
    uint64_t else_seen; /* a bit per open conditional; of a loop: see check_repeat */
    uint64_t is_loop;   /* a bit per open bracket */
} hn_loop_checker;

/* All buffers of `p` are there already. */
hn_status hn_loop_checker_init(hn_loop_checker *c, const hn_program *p) HN_MUST_USE;
void hn_loop_checker_deinit(hn_loop_checker *c);
hn_status hn_loop_check_sop(const hn_loop_checker *c, hn_item item, const hn_loop *loop,
                            hn_sid s) HN_MUST_USE;
/* Loop `k` of a call, behind those before it and the ops of its own body. */
hn_status hn_loop_check_of_call(hn_loop_checker *c, hn_item item, const hn_extern *ext,
                                uint32_t k) HN_MUST_USE;
/* All of an item but the ops of its body, and the loops of a call. Records what it writes. */
hn_status hn_loop_check_item(hn_loop_checker *c, hn_item item) HN_MUST_USE;
hn_status hn_loop_check_end(const hn_loop_checker *c) HN_MUST_USE;

#endif
