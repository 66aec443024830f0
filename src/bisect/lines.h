/* lines.h: the line of wrapper IR behind each step of a module, and the sizes of a run. */
#ifndef HN_BISECT_LINES_H
#define HN_BISECT_LINES_H

#include "bisect/subject.h"
#include "ir/loop_interp.h"

typedef struct hn_run_lines {
    const hn_line **items; /* by number of the step */
    uint32_t count;        /* 0: they are not those of the module */
    hn_ref_sizes sizes;    /* of the subject's inputs */
} hn_run_lines;

/* Owns: the lists live in `arena`. */
hn_status hn_run_lines_init(const hn_subject *s, const hn_build *b, hn_arena *arena,
                            hn_run_lines *out) HN_MUST_USE;

#endif
