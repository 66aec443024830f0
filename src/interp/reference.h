/* reference.h: what a KERNEL or EXTERN line of wrapper IR is to compute.
 *
 * A kernel is the loops of its group, one after another, run by the interpreter of loop IR; values
 * that the kernel keeps to itself have memory of their own. A call of an operation is the plain
 * loops of ops/cpu/reference.c. No code is shared with planners of kernels and memory, with
 * printers or with the runtime. */
#ifndef HN_INTERP_REFERENCE_H
#define HN_INTERP_REFERENCE_H

#include "ir/loop_interp.h"
#include "wrapper/wrapper.h"

/* Memory of the host with the whole buffer of an operand, in the format of its dtype; wherever the
 * operand begins in it. */
typedef struct hn_line_memory {
    uint8_t *bytes;
    int64_t len; /* bytes */
} hn_line_memory;

typedef struct hn_reference_how {
    hn_ref_sizes sizes;
    bool is_wide; /* hn_loop_how.is_wide; calls are always so */
} hn_reference_how;

/* An operation that is several kernels: the call as one line, over the operands of all of them.
 * `line` is the number of the first one; `*out_last` gets that of the last one. Owns: lists live in
 * `arena`. Errors: internal when the kernels are not all there. */
hn_status hn_line_whole_call(const hn_wrapper *w, uint32_t line, hn_arena *arena, hn_line *out,
                             uint32_t *out_last) HN_MUST_USE;

/* NULL when the line has a reference; else why not, in a few words: a line of another kind, a line
 * that was read from a text, a kernel that is but a part of an operation, an operation without a
 * reference. */
const char *hn_line_reference_missing(const hn_line *line);

/* Runs the line on `memory`: one for each of its operands, NULL bytes for absent ones. Operands that
 * are one buffer have the same memory. All is read before anything is written, so those that the
 * line writes may lie over others. The content of a written operand counts before the call too: a
 * line may write a part of it. Threads: any, several lines at once.
 * Errors: unsupported when the line has no reference; invalid-argument for an index that is outside
 * of its dimension; internal for an access outside of an operand; out-of-memory. Nothing is written
 * then. */
hn_status hn_line_reference(const hn_line *line, const hn_reference_how *how,
                            const hn_line_memory *memory) HN_MUST_USE;

#endif
