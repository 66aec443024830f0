/* attention_backward.h: ATTENTION_BACKWARD by its formulas. Only some devices have the operation, and
 * the runtime of the host, which runs the references of all others, has not. */
#ifndef HN_INTERP_ATTENTION_BACKWARD_H
#define HN_INTERP_ATTENTION_BACKWARD_H

#include "base/arena.h"
#include "ops/cpu/ext.h"

/* The call has operands, dtypes and parameters; sums are double and rounded once.
 * Errors: out-of-memory. */
hn_status hn_reference_attention_backward(const hn_ext_call *call, hn_arena *arena) HN_MUST_USE;

#endif
