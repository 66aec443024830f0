/* internal.h: what the files of bisect/ share. */
#ifndef HN_BISECT_INTERNAL_H
#define HN_BISECT_INTERNAL_H

#include "bisect/bisect.h"

typedef struct hn_bisection {
    hn_subject *s;
    hn_build *whole;
    hn_bisect_result *result;
    void (*note)(void *user, const char *text);
    void *user;
} hn_bisection;

void hn_bisection_note(const hn_bisection *b, const char *fmt, ...) HN_PRINTF(2, 3);
/* A finding, which is added to the result; text in the subject's arena. NULL: out of memory. */
hn_finding *hn_bisection_add(hn_bisection *b, hn_finding_kind kind);
/* A copy in the subject's arena; "" when there is no memory. */
hn_str hn_bisection_keep(hn_bisection *b, hn_str text);
/* The node and its source line. */
void hn_bisection_origin(hn_bisection *b, const hn_graph *graph, uint32_t origin,
                         hn_finding *finding);

/* Tells whether the result is right when at most `most` rewrites are done, and how many were. */
typedef hn_status (*hn_bisection_try)(hn_bisection *b, void *context, hn_limit *limit,
                                      bool *out_right, hn_strbuf *why);
/* Halves: with none of `total` rewrites it is right, with all of them wrong. `*out`: the limit
 * whose last rewrite makes it wrong, as `try` left it; without `rule` when the same limit is right
 * one time and wrong another. */
hn_status hn_bisection_halve(hn_bisection *b, hn_bisection_try try, void *context, uint32_t total,
                             hn_limit *out, hn_strbuf *why) HN_MUST_USE;

/* passes.c: the oracle, from the expected outputs or from the reference. */
hn_status hn_bisect_oracle(hn_bisection *b) HN_MUST_USE;
/* Whether some pass is to blame; adds a finding then. */
hn_status hn_bisect_passes(hn_bisection *b, bool *out_found) HN_MUST_USE;
/* steps.c */
hn_status hn_bisect_steps(hn_bisection *b, bool *out_found) HN_MUST_USE;
/* fusion.c */
hn_status hn_bisect_fusion(hn_bisection *b, bool *out_found) HN_MUST_USE;

#endif
