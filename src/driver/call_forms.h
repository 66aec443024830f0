/* call_forms.h: the forms of calls of operations (ops/cpu/forms.h), as variants.h has those of
 * kernels: hn_variants_of.call is set. There is no model of what tells them apart: the same time
 * is expected of each. Only variants.c, variant_sizes.c and the tuner call this. */
#ifndef HN_DRIVER_CALL_FORMS_H
#define HN_DRIVER_CALL_FORMS_H

#include "driver/variants.h"
#include "ops/cpu/forms.h"
#include "tune/calls.h"

/* The name of the form that an operation chooses by itself. */
extern const char hn_call_form_own[];
/* Whether the operation has several forms where it runs. */
bool hn_call_is_tunable(const hn_variants_of *of);
/* Of what the call is to compute and in which layout, whatever sizes are expected. */
hn_status hn_call_identify(const hn_variants_of *of, hn_kernel_identity *out) HN_MUST_USE;
/* All of them, with the time that is expected at the hints; the first is what the operation decides
 * by itself. Owns: names live in `arena`. */
hn_status hn_call_forms_list(const hn_variants_of *of, hn_arena *arena,
                             hn_variants *out) HN_MUST_USE;
/* Errors: not-found for a form that operations do not have. */
hn_status hn_call_form_named(const hn_variants_of *of, const hn_form_name *name, hn_arena *arena,
                             hn_variant *out) HN_MUST_USE;
/* Whether operations have a form of that kind, whatever they compute. */
bool hn_call_form_is_kind(hn_str kind);
/* Whether the host can do the call in that form, at the sizes that are expected; of a call of
 * another device nothing is known. Errors: not-found, saying why not; out-of-memory. */
hn_status hn_call_form_try(const hn_variants_of *of, const hn_form_name *name,
                           hn_arena *arena) HN_MUST_USE;
/* A rough guess at the time of a call at the hints, ns, by its operations and bytes: for sharing
 * out a budget. */
double hn_call_time(const hn_variants_of *of);
/* The call at these sizes. Owns: lists live in `arena`. Errors: invalid-argument for sizes that are
 * none of the call's. */
hn_status hn_call_subject_init(const hn_variants_of *of, const hn_ref_sizes *sizes, hn_arena *arena,
                               hn_call_subject *out) HN_MUST_USE;

#endif
