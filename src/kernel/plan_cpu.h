/* plan_cpu.h: kernels of the schedule as forms for processors with vectors and caches. */
#ifndef HN_KERNEL_PLAN_CPU_H
#define HN_KERNEL_PLAN_CPU_H

#include "kernel/facts.h"
#include "kernel/form.h"
#include "sched/sched.h"

enum { HN_CPU_PLANS_MAX = 3 };

/* The forms that are expected to be the fastest on vectors of `vector_bytes`: at most `most` of
 * them, the best first; the expectation is in form->cost. Owns: the forms live in `arena`. Errors:
 * out-of-memory; internal when a form does not verify. */
hn_status hn_form_plans_cpu(const hn_program *program, const hn_kernel *kernel,
                            uint32_t vector_bytes, const hn_cpu_facts *facts, uint32_t most,
                            hn_arena *arena, hn_arena *scratch, hn_form **out,
                            uint32_t *out_count) HN_MUST_USE;

/* The best one. */
hn_status hn_form_plan_cpu(const hn_program *program, const hn_kernel *kernel,
                           uint32_t vector_bytes, const hn_cpu_facts *facts, hn_arena *arena,
                           hn_arena *scratch, hn_form **out) HN_MUST_USE;

#endif
