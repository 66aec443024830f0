/* forms.h: the forms that a call of an operation may have (hn_ext_form), by name, with the time
 * that is expected of each. Who tunes prepares a call with each of them; who has picked one names
 * it in hn_ext_call.form. A name has a kind and parameters, as those of kernels (docs/tuning.md):
 *
 *     gemm      weights=each-call rows=in-place|packed|packed-by-each pass=N tasks=N
 *     skinny    block=N tasks=N             the matrix is read where it lies, once
 *     product, collected, depthwise, winograd, rows, gather    tasks=N
 *     few-queries  tasks=N
 *     blocks    block=N tasks=N             attention: keys of a block
 *     library   candidate=N                 another device: the Nth of its library's list */
#ifndef HN_OPS_CPU_FORMS_H
#define HN_OPS_CPU_FORMS_H

#include "ops/cpu/ext.h"

enum { HN_EXT_FORMS_MAX = 32, HN_EXT_FORM_TEXT = 96 };

typedef struct hn_ext_expected {
    hn_ext_form form;
    double ns; /* expected of a run; 0: nothing is */
} hn_ext_expected;

/* All forms that calls of this kind may have on the CPU, in the order in which who decides nothing
 * prefers them: the first is what the operation decides by itself. `has_weights`: MATMUL of a
 * constant b. A set that tuning records can be held against. How many. */
uint32_t hn_ext_forms_all(hn_extern_kind kind, bool has_weights, int threads,
                          hn_ext_form out[HN_EXT_FORMS_MAX]);
/* The same on a device whose operations are a library's. */
uint32_t hn_ext_forms_library(hn_extern_kind kind, hn_ext_form out[HN_EXT_FORMS_MAX]);
/* The forms that are worth a comparison for a call that was not prepared, best first. The first one
 * is what the operation decides by itself. Each of them was prepared once, and is right for the
 * call. Errors: those of a call that cannot be prepared in any form. */
hn_status hn_ext_forms_list(const hn_ext_call *call, hn_ext_expected out[HN_EXT_FORMS_MAX],
                            uint32_t *out_count) HN_MUST_USE;

/* What a call has decided by itself is the kind "own", without parameters. */
const char *hn_ext_form_kind(const hn_ext_form *form);
void hn_ext_form_print(const hn_ext_form *form, char out[HN_EXT_FORM_TEXT]);
/* Errors: invalid-argument, naming the word. */
hn_status hn_ext_form_parse(const char *kind, const char *parameters, hn_ext_form *out) HN_MUST_USE;
/* The same of one text: "gemm pass=512". */
hn_status hn_ext_form_read(const char *text, hn_ext_form *out) HN_MUST_USE;

#endif
