/* interpret.h: the interpreter of wrapper IR. It runs whole programs, with or without memory lines,
 * line by line: kernels and calls by their references (reference.h), all else as docs/ir.md says.
 * What a device does is done at once: that the host waits for it is the verifier's to check. */
#ifndef HN_INTERP_INTERPRET_H
#define HN_INTERP_INTERPRET_H

#include "ir/interp.h"
#include "wrapper/wrapper.h"

typedef struct hn_interpret_how {
    /* Temporaries and outputs lie where this plan puts them, also in the memory of donated inputs,
     * so that a plan that lets live ones overlap gives wrong results; NULL: each has memory of its
     * own */
    const hn_memory_plan *plan;
    bool is_wide; /* hn_loop_how.is_wide */
} hn_interpret_how;

/* `inputs`: a tensor for each input of the program; dtype NONE for scalars that are recorded, rank
 * 0 of I64 for those that are symbols. `out_outputs`: a tensor for each output of the program, for
 * a mutation what the target becomes; dtype NONE for scalars. Owns: outputs live in `arena`.
 * Errors: invalid-argument for inputs that do not fit, failed ASSERT lines and indices out of
 * range; unsupported for a line without a reference; internal for a line of unknown kind, a buffer
 * that is used where it has no memory, is freed twice or never, or is written over what the line
 * reads without `over`. Errors of a line have its number. */
hn_status hn_wrapper_interpret(hn_arena *arena, const hn_wrapper *w, const hn_interpret_how *how,
                               const hn_ref_tensor *inputs, uint32_t input_count,
                               hn_ref_tensor *out_outputs) HN_MUST_USE;

#endif
