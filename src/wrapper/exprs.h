/* exprs.h: every expression of a program. Internal to src/wrapper. */
#ifndef HN_WRAPPER_EXPRS_H
#define HN_WRAPPER_EXPRS_H

#include "wrapper/place.h"

typedef hn_status (*hn_wexpr_visitor)(void *context, hn_expr e);

/* Calls `visit` for each expression of the inputs, buffers, outputs, weights and lines, in this
 * order, also when one comes again. Guards and symbols are not among them. `plan` and `places`:
 * where buffers lie and where mutations go; both NULL: what the text form shows, no more. Sizes
 * and strides of buffers are visited for the text form only: bundles number them apart
 * (numbering.h), and emitted projects have no use for them. Errors: the visitor's. */
hn_status hn_wrapper_each_expr(const hn_wrapper *w, const hn_memory_plan *plan,
                               const hn_wplaces *places, hn_wexpr_visitor visit,
                               void *context) HN_MUST_USE;
/* What a check is in a printed program; see HNB_CHECK_PARAMS. */
void hn_wcheck_exprs(const hn_wrapper *w, const hn_wcheck *check, hn_expr out[HNB_CHECK_PARAMS]);

#endif
