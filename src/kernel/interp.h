/* interp.h: the interpreter of kernel forms; form.h says how a form runs.
 *
 * Groups run one after the other; the threads of a group run in lockstep, each statement for all of
 * them before the next. In a form of ranges so do the lanes of a VECTOR, those of all vectors of a
 * step together; all else is done once. The iterations are cut into three ranges of unequal length,
 * or are one if the grain says that one thread runs them all. Arguments are aligned in the first
 * and the third range, for IF_ALIGNED. The order does not matter, because whatever depends on it is
 * an error, as is what a device would not notice:
 * - a race: one thread accesses an element that another one writes, without a barrier between, or
 *   one lane in the VECTOR of another; in an argument also one group or range and another
 * - a barrier that not all threads of the group reach
 * - an access outside a memory; a read of what nothing has written: in shared and scratch memory
 *   nothing of the own group or range
 * - an index symbol outside of its extent, which simplification relies on
 * - elements that no step of a LANES reaches; a RESULT where lanes differ that should not
 * - facts of lanes that are wrong, and promises of statements: not_positive, is_aligned, I32
 *   indices
 * Scalars are those of the interpreter of loop IR (ir/loop_interp.h), and so is the rounding. */
#ifndef HN_KERNEL_INTERP_H
#define HN_KERNEL_INTERP_H

#include "ir/loop_interp.h"
#include "kernel/form.h"

/* Runs a form that verifies, on memory for each buffer of its program; buffers that no argument
 * names may lack it. *out_index_fault: a checked index was outside.
 * Errors: internal, naming the statement, and for a race the memory, the element and both threads.
 * Buffers are partly written then. */
hn_status hn_form_run(const hn_form *f, const hn_ref_sizes *sizes, hn_ref_buffer *buffers,
                      bool *out_index_fault) HN_MUST_USE;

/* Bytes of buffers: of elements that were read before the form had written them, and of those that
 * it wrote, each once; of segments the sum. */
typedef struct hn_form_moved {
    int64_t read_bytes, written_bytes;
} hn_form_moved;
/* The same, and counts; `out_moved` may be NULL. */
hn_status hn_form_run_counted(const hn_form *f, const hn_ref_sizes *sizes, hn_ref_buffer *buffers,
                              bool *out_index_fault, hn_form_moved *out_moved) HN_MUST_USE;

#endif
