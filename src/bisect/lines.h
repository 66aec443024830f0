/* lines.h: the programs of a build, the line of wrapper IR behind each of their steps, and the
 * sizes of a run. */
#ifndef HN_BISECT_LINES_H
#define HN_BISECT_LINES_H

#include "bisect/subject.h"
#include "ir/loop_interp.h"

typedef struct hn_run_lines {
    const char *program; /* hn_step_info.program */
    const hn_driver *d;  /* which made it */
    hn_module *module;
    const hn_line **items; /* by number of the step */
    uint32_t count;        /* 0: they are not those of the module */
    hn_ref_sizes sizes;    /* of the subject's inputs */
} hn_run_lines;

enum { HN_RUN_PROGRAMS_MAX = 2 };

/* The program of weights, if there is one, and that of the model: in the order in which they run.
 * Owns: the lists live in `arena`. */
hn_status hn_run_lines_init(const hn_subject *s, const hn_build *b, hn_arena *arena,
                            hn_run_lines out[HN_RUN_PROGRAMS_MAX], uint32_t *out_count) HN_MUST_USE;
/* Runs them in this order with the hook around each step. */
hn_status hn_run_lines_run(hn_subject *s, hn_build *b, const hn_run_lines *lines, uint32_t count,
                           const hn_step_hook *hook) HN_MUST_USE;
/* The one that the step is of. */
const hn_run_lines *hn_run_lines_of(const hn_run_lines *lines, uint32_t count,
                                    const hn_step_info *step);

#endif
