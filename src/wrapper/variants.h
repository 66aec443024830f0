/* variants.h: calls with several variants, of which the sizes at hand say which one runs.
 *
 *   hn_line line = ..., looped = ...;  // KERNEL lines, each as it would stand alone
 *   HN_TRY(hn_line_add_variant(w, &line, &looped));
 *   HN_TRY(hn_line_set_choices(w, &line, choices));
 *   HN_TRY(hn_wrapper_add_line(w, line));
 *
 * The operands of the line are all that some variant takes; each launch says which of them its
 * function gets, and in what order.
 *
 * A call of an operation (EXTERN) has the same operands in all variants, which differ in the form
 * that the operation is asked for (ops/cpu/forms.h): hn_line_set_forms. */
#ifndef HN_WRAPPER_VARIANTS_H
#define HN_WRAPPER_VARIANTS_H

#include "wrapper/wrapper.h"

/* `variant`, a KERNEL line that does the same as `line` for as many targets, becomes the next
 * variant of it. Operands that `line` does not have come behind its own. A result may be `over` an
 * operand if it may in every variant that has both. What else `variant` says (origins, checks,
 * workspace) is left out: the workspace of the groups is made when all variants are there
 * (hn_workspace_of_groups). Owns: what is new lives in w->arena; lists of `variant` stay where they
 * are. Errors: internal for lines that are no plain calls of kernels on one device, or more than
 * HN_CHOICE_VARIANTS. */
hn_status hn_line_add_variant(hn_wrapper *w, hn_line *line, const hn_line *variant) HN_MUST_USE;
/* For each target its table, when all variants are there. Boxes are copied. */
hn_status hn_line_set_choices(hn_wrapper *w, hn_line *line,
                              const hn_sym_choice *choices) HN_MUST_USE;

/* The forms of a call of an operation on the CPU, which `choices`, of as many variants, choose
 * between, also where there is only one. Owns: copies live in w->arena. Errors: internal for
 * another line, and for no form or more than HN_CHOICE_VARIANTS. */
hn_status hn_line_set_forms(hn_wrapper *w, hn_line *line, const hn_str *forms, uint32_t count,
                            const hn_sym_choice *choices) HN_MUST_USE;

/* Whether a variant takes an operand, on some target; whether each does, on all. */
bool hn_line_takes(const hn_wrapper *w, const hn_line *line, uint32_t variant, uint32_t operand);
bool hn_line_always_takes(const hn_wrapper *w, const hn_line *line, uint32_t operand);

/* Of every line with variants: they are calls of known kernels with operands that are there, each
 * operand is taken by one of them, and each target has a table that is whole; or they are forms of
 * an operation. Before all else that looks at variants. Errors: internal, with the line and the
 * variant. */
hn_status hn_wrapper_variants_verify(const hn_wrapper *w) HN_MUST_USE;

#endif
