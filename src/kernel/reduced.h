/* reduced.h: what the results of a kernel's reductions are of; internal to src/kernel. */
#ifndef HN_KERNEL_REDUCED_H
#define HN_KERNEL_REDUCED_H

#include "sched/sched.h"

/* The phase that reduces into slot number `slot`, and how; NULL: there is none. */
const hn_kernel_phase *hn_kernel_phase_of_slot(const hn_kernel *k, int64_t slot,
                                               const hn_kernel_reduce **out);
/* Whether two values are made in the same way from the same elements. */
bool hn_body_same_value(const hn_body *a, hn_sid x, const hn_body *b, hn_sid y);
/* Whether `op` of a phase's body is exp(x - m) in f32, where m is the largest of the x. */
bool hn_kernel_is_below_largest(const hn_kernel *k, const hn_body *body, const hn_sop *op);

#endif
