/* multi.h: kernels of which a program has several forms, and a table that says which one runs. */
#ifndef HN_DRIVER_MULTI_H
#define HN_DRIVER_MULTI_H

#include "driver/driver.h"
#include "driver/variants.h"

/* Forms by name, and which of them runs at which sizes. */
typedef struct hn_multi {
    const hn_form_name *names; /* as many as the table has variants */
    const hn_choice_table *table;
    hn_expr axes[HN_CHOICE_AXES]; /* what the table looks at */
    /* Forms that the program has besides, for a tuning where it runs: of these, the first ones
     * until there are `most` in all. */
    const hn_form_name *extras;
    uint32_t extra_count, most;
} hn_multi;

/* Prints one form, with its name. Owns: as hn_target_print_form. */
hn_status hn_multi_print_form(const hn_target *target, const hn_variant *variant, hn_arena *arena,
                              hn_arena *scratch, hn_kernel_code *out) HN_MUST_USE;

/* Whether the model of costs expects the form that the planner makes to take a quarter more than
 * the best one at some sizes: then `out` has up to four forms, of two texts at most, and a table.
 * `hints` may be NULL: usual sizes. A kernel of known sizes is none. Owns: everything lives in
 * `arena`. Errors: those of the planner; invalid-argument for hints out of range. */
hn_status hn_multi_expect(const hn_variants_of *of, const hn_size_hints *hints, hn_arena *arena,
                          hn_multi *out, bool *out_is_multi) HN_MUST_USE;
/* Prints the forms that the table names, the one of all other sizes in front:
 * hn_kernel_code.variants; of a call (hn_variants_of.call) there are their names alone. Sizes whose
 * form the kernel does not have any more are left to that one, with a warning; where the table then
 * says nothing and there are no extras, it is a kernel like any other. Owns: lists and
 * text in `arena`. Errors: not-found or invalid-argument when the kernel has no such form for all
 * other sizes; those of printing. */
hn_status hn_multi_print(const hn_variants_of *of, const hn_multi *multi, hn_arena *arena,
                         hn_arena *scratch, hn_kernel_code *out) HN_MUST_USE;

#endif
