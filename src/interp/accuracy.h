/* accuracy.h: the steps of a run beside their references, on the same operands.
 *
 * A hook of the module (henry/module.h) reads what a step is about to read, runs the step's line by
 * its reference (reference.h, with sums that are rounded once), and compares what the step then
 * writes with it. So each step is judged by itself: an error that an earlier step made is no error
 * of this one. */
#ifndef HN_INTERP_ACCURACY_H
#define HN_INTERP_ACCURACY_H

#include "henry/module.h"
#include "wrapper/wrapper.h"

/* What a step made, against its reference. Of several calls, and of all that it writes, the
 * worst. */
typedef struct hn_accuracy_row {
    const char *program; /* "", or "weights": hn_step_info.program */
    uint32_t step;       /* of it */
    const char *name;    /* of the kernel or operation; as the next two the module's */
    const char *node, *source;
    /* Of a kernel that was compiled in several forms, which have a row each: its number among
     * `variant_count`, its name, and whether the sizes of the inputs pick it. Of others 0, 1,
     * "". */
    uint32_t variant, variant_count;
    const char *form;
    bool is_picked;
    uint64_t call;     /* hn_step_info.call of the run that it is of */
    uint32_t calls;    /* that were compared */
    char missing[160]; /* why calls were not, of which this tells the last one; or "" */
    hn_dtype dtype;    /* of the operand with the largest error, as what follows */
    uint32_t operand;
    int64_t elems;            /* compared in all */
    double max_ulp, mean_ulp; /* of the element's own value; of whole numbers: the difference */
    double max_rel;           /* the largest difference over the largest value of the reference */
    double rel_ulp;           /* the same in units of the dtype's precision; INFINITY: NaN or
                                 infinity where the other is not. Rows are sorted by it */
    uint32_t rank;            /* where the largest difference is */
    int64_t index[HN_TENSOR_MAX_RANK];
    double got, want;
    int64_t reference_ns; /* that the reference took */
} hn_accuracy_row;

typedef struct hn_accuracy hn_accuracy;

/* Begins to look at runs of `module`, which was made of the program `w`. `inputs`: those of the
 * runs, whose sizes count. Runs must not overlap. Owns: until hn_accuracy_destroy, which must come
 * before the end of `w` and of `module`. Errors: invalid-argument when the module is of another
 * program; out-of-memory. */
hn_status hn_accuracy_create(const hn_wrapper *w, hn_module *module, hn_tensor *const *inputs,
                             uint32_t input_count, hn_accuracy **out) HN_MUST_USE;
/* How many forms the kernel has that has the most; 1: all have one. */
uint32_t hn_accuracy_forms(const hn_accuracy *a);
/* Runs from now on are there for other forms (hn_run_options.form): what has a row is not compared
 * again. */
void hn_accuracy_add_forms(hn_accuracy *a);
/* Rows of the steps that have run so far and are kernels or operations; the worst first, behind
 * them those without a comparison. Owned by `a`, until the next call. */
const hn_accuracy_row *hn_accuracy_rows(hn_accuracy *a, uint32_t *out_count);
/* Sorts rows of several programs in the same way. */
void hn_accuracy_sort(hn_accuracy_row *rows, uint32_t count);
/* NULL is allowed. */
void hn_accuracy_destroy(hn_accuracy *a);

#endif
