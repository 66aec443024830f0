/* repro.h: one kernel, or one operation of the CPU's library, of a model as a folder of its own. */
#ifndef HN_BISECT_REPRO_H
#define HN_BISECT_REPRO_H

#include "bisect/subject.h"

typedef struct hn_repro_options {
    hn_str kernel; /* its name, the number of its step, or "weights:0" */
    const char *dir;
    /* as of hn_project_write: what became of each file. May be NULL */
    void (*report)(void *context, const char *what, hn_str name);
    void *context;
} hn_repro_options;

/* Runs the model, keeps what the first call of the kernel is given, lets the reference run on it,
 * and writes the kernel's text, the operands, what is expected, and what is needed to build and run
 * it. Errors: not-found for a kernel that the run does not call; unsupported for an operation of a
 * device's library, and for what has no reference, as a kernel that is but a part of an operation;
 * those of a run, and of hn_project_write. */
hn_status hn_repro_write(hn_subject *s, hn_build *whole,
                         const hn_repro_options *options) HN_MUST_USE;

#endif
