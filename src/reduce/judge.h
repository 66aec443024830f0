/* judge.h: the inputs of a run of a slice, and whether its results are right. */
#ifndef HN_REDUCE_JUDGE_H
#define HN_REDUCE_JUDGE_H

#include "bisect/subject.h"
#include "reduce/trial.h"

/* A tensor for each input of a call, from the examples. Owns: the list lives in `arena`; the
 * tensors are the caller's. Errors: invalid-argument for an input without an example. */
hn_status hn_slice_inputs(const hn_slice *slice, hn_arena *arena, hn_tensor *const **out,
                          uint32_t *out_count) HN_MUST_USE;

/* The first output that is wrong makes `out` a failure; else it stays as it is. */
void hn_judge(const hn_results *got, const hn_results *want, const hn_trial_options *options,
              hn_failure *out);

#endif
