/* solve.h: where a program's symbols get their values from when it is called. */
#ifndef HN_WRAPPER_SOLVE_H
#define HN_WRAPPER_SOLVE_H

#include "base/map.h"
#include "wrapper/wrapper.h"

#define HN_WDIM_VALUE UINT32_MAX

/* A size symbol comes from a dimension of an input: dimension = coeff * symbol + rest. A DATA
 * symbol comes from a line. */
typedef struct hn_wsymbol {
    hn_expr symbol;
    bool by_line;   /* DEFINE lines give it its value; what follows has no meaning */
    uint32_t input; /* number of the input */
    uint32_t dim;   /* HN_WDIM_VALUE: the value of an integer input */
    int64_t coeff;  /* not 0 */
    hn_expr rest;   /* uses symbols that stand earlier in the list only */
} hn_wsymbol;

typedef struct hn_wsymbols {
    hn_wsymbol *items; /* in the order in which they can be solved; those of lines come last */
    uint32_t count, cap;
    uint32_t solved_count; /* those that come from inputs */
    hn_map places;         /* symbol -> place in `items` */
} hn_wsymbols;

/* A dimension that is the symbol itself is taken first, then affine ones such as 2*s0 + 1. A
 * symbol that nothing determines is not in the result: it is an error only where it is used.
 * Owns: lists live in `arena`.
 * Errors: unsupported when there are more than 4096 symbols; out-of-memory. */
hn_status hn_wrapper_solve(const hn_wrapper *w, hn_arena *arena, hn_wsymbols *out) HN_MUST_USE;
/* Where the symbol stands in the list; false when it is not there. */
bool hn_wsymbols_find(const hn_wsymbols *symbols, hn_expr symbol, uint32_t *out_place);

#endif
