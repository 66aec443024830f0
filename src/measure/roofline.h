/* roofline.h: the steps of a run beside the least time that they can take on this machine. */
#ifndef HN_MEASURE_ROOFLINE_H
#define HN_MEASURE_ROOFLINE_H

#include "henry/record.h"
#include "measure/roof.h"

/* A step. An operation that is several kernels is one. Times are of one run, in which the step may
 * run several times. Strings are the module's. */
typedef struct hn_roofline_step {
    uint32_t step;
    uint32_t calls; /* in a run */
    hn_device device;
    const char *name, *node, *category; /* as in hn_step_record */
    bool is_known;                      /* its work is: what is below `ns` */
    bool is_bound;                      /* bytes: at most so many */
    double ns;         /* measured: the fastest call, as many times as there are calls */
    hn_roof_work work; /* of all calls */
    hn_roof roof;      /* likewise */
    double lost_ns;    /* beyond the roof; not below 0 */
} hn_roofline_step;

enum { HN_ROOFLINE_DEVICES = 2 }; /* the one that runs kernels, and the CPU */

typedef struct hn_roofline {
    hn_ceilings ceilings[HN_ROOFLINE_DEVICES];
    uint32_t device_count;
    hn_roofline_step *steps; /* in the order of the run; owned */
    uint32_t count;
    /* Sums of the steps whose work is known; time of those whose work is not. What is lost is the
     * rest: ns = roof_ns + lost_ns, since a step that is faster than its ceilings, which were
     * measured at another moment, counts with its own time in roof_ns, too. */
    double ns, roof_ns, lost_ns, unknown_ns;
    /* If all were one step: inputs and weights are read once, outputs written, and the same
     * operations done. */
    hn_roof whole;
} hn_roofline;

typedef struct hn_roofline_run {
    hn_module *module; /* loaded with `profile`, and run before: steps have times */
    hn_tensor *const *inputs;
    uint32_t input_count;
    hn_tensor **outputs;
    uint32_t output_count;
    hn_ceilings_options ceilings; /* `device` is set by the steps */
} hn_roofline_run;

/* Runs the module once more to see what its steps do. Owns: the caller, until hn_roofline_deinit,
 * also after an error. Errors: those of the run and of hn_ceilings_get. */
hn_status hn_roofline_make(const hn_roofline_run *run, hn_roofline *out) HN_MUST_USE;
void hn_roofline_deinit(hn_roofline *roofline);

#endif
