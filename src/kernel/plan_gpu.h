/* plan_gpu.h: kernels of the schedule as forms for processors that run groups of threads. */
#ifndef HN_KERNEL_PLAN_GPU_H
#define HN_KERNEL_PLAN_GPU_H

#include "kernel/facts.h"
#include "kernel/form.h"
#include "sched/sched.h"

enum { HN_GPU_PLANS_MAX = 16 };

/* The forms that are expected to be the fastest: at most `most` of them, the best first; the
 * expectation is in form->cost.
 * Owns: the forms live in `arena`. Errors: out-of-memory; internal when a form does not verify. */
hn_status hn_form_plans_gpu(const hn_program *program, const hn_kernel *kernel,
                            const hn_gpu_facts *facts, uint32_t most, hn_arena *arena,
                            hn_arena *scratch, hn_form **out, uint32_t *out_count) HN_MUST_USE;

/* The form of a name: a kind, "rows-kept", and parameters as in form->parameters, whatever
 * sizes are expected. Where numbers are left out it is the best form that has those which are
 * there. Owns: it lives in `arena`. Errors: not-found when the kernel has no such kind of form,
 * naming those that it has, or the form does not fit; invalid-argument for what is no
 * parameter; as above. */
hn_status hn_form_plan_gpu_as(const hn_program *program, const hn_kernel *kernel,
                              const hn_gpu_facts *facts, hn_str name, hn_str parameters,
                              hn_arena *arena, hn_arena *scratch, hn_form **out) HN_MUST_USE;
/* The time that is expected of it, at the hints of the sizes. Errors: likewise. */
hn_status hn_form_expect_gpu(const hn_program *program, const hn_kernel *kernel,
                             const hn_gpu_facts *facts, hn_str name, hn_str parameters,
                             hn_arena *scratch, double *out_ns) HN_MUST_USE;

/* Parameters of forms of the kind that differ in one number by one step, and fit the kernel and the
 * processor. Owns: in `arena`. Errors: as hn_form_plan_gpu_as. */
hn_status hn_form_near_gpu(const hn_program *program, const hn_kernel *kernel,
                           const hn_gpu_facts *facts, hn_str name, hn_str parameters,
                           hn_arena *arena, hn_arena *scratch, hn_str **out,
                           uint32_t *out_count) HN_MUST_USE;

/* The best one. Owns: the form lives in `arena`. Errors: out-of-memory; internal when the form does
 * not verify. */
hn_status hn_form_plan_gpu(const hn_program *program, const hn_kernel *kernel,
                           const hn_gpu_facts *facts, hn_arena *arena, hn_arena *scratch,
                           hn_form **out) HN_MUST_USE;

#endif
