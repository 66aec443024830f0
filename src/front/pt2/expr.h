/* expr.h: the integer expressions of .pt2 files. One grammar reads the three spellings in use:
 * sympy's srepr ("Add(Mul(Integer(2), Symbol('s77', integer=True)), Integer(-1))"), its infix form
 * ("2*s0 - 1", "s0//2") and the Python of guards ("L['x'].size()[0] % 2 == 0").
 *
 * Fractions are exact while they are computed: Mul(Rational(1, 2), s) is s/2 and becomes s//2 only
 * at the end, where the exporter promises that it is an integer. */
#ifndef HN_FRONT_PT2_EXPR_H
#define HN_FRONT_PT2_EXPR_H

#include "sym/sym.h"

/* What the text may refer to. */
typedef struct hn_pt2_expr_env {
    hn_sym *sym;
    hn_arena *scratch;
    void *user;
    /* The symbol `name`; 0 when there can be none. `lo` is what the text itself says about it. */
    hn_expr (*symbol)(void *user, hn_str name, int64_t lo);
    /* Size (or stride) number `dim` of the input at `path` ("x", "d_a"), or, with dim < 0, the
     * integer input itself. 0 when unknown. May be NULL: then L[...] is refused. */
    hn_expr (*input)(void *user, hn_str path, bool stride, int64_t dim);
} hn_pt2_expr_env;

/* Errors: unsupported or invalid-argument, naming the place; the symbol context's own error. */
hn_status hn_pt2_expr_parse(const hn_pt2_expr_env *env, hn_str text, hn_expr *out) HN_MUST_USE;

/* The same of what may be a fraction, which is unsupported here. */
hn_status hn_pt2_whole_parse(const hn_pt2_expr_env *env, hn_str text, hn_expr *out) HN_MUST_USE;

typedef struct hn_pt2_relation {
    hn_relation relation;
    hn_expr lhs, rhs;
} hn_pt2_relation;

/* A condition that is a conjunction of relations; true is the empty one, false is 0 == 1.
 * Owns: `*out` lives in the scratch arena. Errors: as above; unsupported for a disjunction. */
hn_status hn_pt2_condition_parse(const hn_pt2_expr_env *env, hn_str text,
                                 const hn_pt2_relation **out, uint32_t *out_count) HN_MUST_USE;

#endif
