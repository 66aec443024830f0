/* plan_cpu.h: kernels of the schedule as forms for processors with vectors and caches. */
#ifndef HN_KERNEL_PLAN_CPU_H
#define HN_KERNEL_PLAN_CPU_H

#include "kernel/cpu_choice.h"
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

/* The form that a caller chooses. Owns: it lives in `arena`. Errors: not-found when the kernel
 * cannot have that kind of form, naming those that it can have; as above. */
hn_status hn_form_plan_cpu_as(const hn_program *program, const hn_kernel *kernel,
                              uint32_t vector_bytes, const hn_cpu_facts *facts,
                              const hn_cpu_choice *choice, hn_arena *arena, hn_arena *scratch,
                              hn_form **out) HN_MUST_USE;

/* The error of a form that no CPU has. Errors: not-found, naming those that the kernel can have;
 * out-of-memory. */
hn_status hn_cpu_refuse_form(const hn_program *program, const hn_kernel *kernel,
                             uint32_t vector_bytes, const hn_cpu_facts *facts, hn_str name,
                             hn_arena *scratch) HN_MUST_USE;

/* A form that a kernel may have, and the time that is expected of a call on `threads` threads. */
typedef struct hn_cpu_variant {
    hn_cpu_choice choice;
    double ns;
} hn_cpu_variant;
/* Sets `ns` of a choice. */
hn_status hn_cpu_expect(const hn_program *program, const hn_kernel *kernel, uint32_t vector_bytes,
                        const hn_cpu_facts *facts, uint32_t threads, hn_arena *scratch,
                        hn_cpu_variant *v) HN_MUST_USE;
/* All that are worth a comparison, each once, best first, at the hints of the sizes. */
hn_status hn_cpu_variants(const hn_program *program, const hn_kernel *kernel, uint32_t vector_bytes,
                          const hn_cpu_facts *facts, uint32_t threads, hn_arena *scratch,
                          hn_cpu_variant out[HN_CPU_CHOICES_MAX], uint32_t *out_count) HN_MUST_USE;

/* The best one. */
hn_status hn_form_plan_cpu(const hn_program *program, const hn_kernel *kernel,
                           uint32_t vector_bytes, const hn_cpu_facts *facts, hn_arena *arena,
                           hn_arena *scratch, hn_form **out) HN_MUST_USE;

#endif
