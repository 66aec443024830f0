/* forced.h: forms that the user names for some kernels and calls of operations, whatever was
 * measured or is expected: hn_compile_options.forms, HENRY_FORM, --form. */
#ifndef HN_DRIVER_FORCED_H
#define HN_DRIVER_FORCED_H

#include "driver/driver.h"

/* "softmax=rows ahead=4": a pattern of names, and a form's name. */
typedef struct hn_forced_rule {
    hn_str pattern, form;
    bool is_used; /* some kernel or call matches, and no rule before does */
} hn_forced_rule;

typedef struct hn_forced {
    hn_forced_rule *rules;
    uint32_t count;
    hn_strmap nodes; /* names of kernels and calls that no rule matches, for the warning */
} hn_forced;

/* "softmax" of "softmax_3": exporters name a node after its operation, and number it. */
hn_str hn_node_operation(hn_str node);
/* Reads what the options and HENRY_FORM say. Owns: lives in the arena of the driver. Errors:
 * invalid-argument for a text that is none. */
hn_status hn_driver_forced_begin(hn_driver *d) HN_MUST_USE;
/* Prints the kernel in the form that the first rule says which matches it; `*out_is_forced` false:
 * none does. Errors: not-found, naming the forms that the kernel has; invalid-argument for
 * parameters that are none; those of printing. */
hn_status hn_driver_force(hn_driver *d, const hn_driver_level *level, const hn_kernel *kernel,
                          hn_arena *scratch, hn_kernel_code *out, bool *out_is_forced) HN_MUST_USE;
/* The same of a call of an operation, where the rule's form is one of operations: `form` and a
 * table for all sizes. Errors: not-found, saying which forms the operation has, or why the call
 * cannot have this one. */
hn_status hn_driver_force_call(hn_driver *d, const hn_driver_level *level, hn_item call,
                               hn_arena *scratch, hn_kernel_code *out,
                               bool *out_is_forced) HN_MUST_USE;
/* When all kernels are printed: a warning for each rule that nothing was forced by. */
hn_status hn_driver_forced_end(hn_driver *d) HN_MUST_USE;

#endif
