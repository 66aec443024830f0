/* form_run.h: whole programs through the schedule, a planner of kernel forms and their interpreter,
 * against the interpreter of loops on the program as it was before the schedule. */
#ifndef HN_TESTS_FORM_RUN_H
#define HN_TESTS_FORM_RUN_H

#include "kernel/facts.h"
#include "kernel/form.h"
#include "sched/sched.h"
#include "tests/support/program_run.h"

/* Makes a form of a kernel. Owns: the form lives in `arena`. */
typedef hn_status (*hn_form_planner)(void *context, const hn_program *p, const hn_kernel *kernel,
                                     hn_arena *arena, hn_arena *scratch, hn_form **out);

typedef struct hn_forms_check {
    hn_form_planner plan;
    void *context;             /* of `plan` */
    const hn_gpu_facts *facts; /* what forms must fit on; NULL: nothing */
    hn_sched_options schedule;
    bool reads_all; /* forms of `plan` also read what no result needs */
} hn_forms_check;

/* How many kernels were run as forms; of these, how many have an index from data, so that their
 * traffic (kernel/traffic.h) is a bound, several inner loops, and buffers of a row. And what
 * lowering and the schedule did (hn_program, hn_schedule). */
typedef struct hn_forms_count {
    uint32_t kernels, bounds, of_phases, with_locals;
    uint32_t scatters_selected, cats_cut;
    uint32_t rewrites[HN_SCHED_REWRITE_COUNT];
} hn_forms_count;

/* Outputs fit within `tolerance`, as in hn_outputs_compare; every form fits on the processor, and
 * gives the same where an argument lies over another, as far as it may.
 * Each moves as many bytes as was said of its kernel. The graph's passes are run.
 * Errors: internal, naming step and output. */
hn_status hn_check_forms(hn_graph *graph, const hn_ref_tensor *inputs, const double *tolerance,
                         const hn_forms_check *how, hn_forms_count *out) HN_MUST_USE;

#endif
