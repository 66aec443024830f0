/* lower.h: graph IR (primitives) -> loop IR.
 *
 * Requires HN_LEGAL_PRIMITIVE. A value becomes one of two things: memory seen through strides, or
 * an expression that is computed where it is used. Views of memory are strides; views of
 * expressions are index maps; nothing is copied for a view. What is realised in memory: graph
 * outputs, results of reductions, scans, most scatters and extern operations, operands of the
 * latter, and expressions that are used several times or have grown large (limits in lower.c). */
#ifndef HN_LOWER_LOWER_H
#define HN_LOWER_LOWER_H

#include "base/limit.h"
#include "ir/loop.h"

/* What depends on the target and on who compiles. All zero: no operations, all rewrites. */
typedef struct hn_lower_options {
    /* Those that the target has (NULL: none). Other calls get loops beside them, if there are loops
     * for them; nobody would look at those of the operations, which take 3 % of a compilation. */
    const hn_operations *operations;
    hn_limit *limit; /* of its rewrites; NULL: all */
    /* scatters combine in the order of the elements, so that results have the same bits each time */
    bool deterministic;
} hn_lower_options;

/* `options`: NULL is all zero. Owns: `*out` lives in `arena`; `scratch` may be reset afterwards.
 * Errors: unsupported, naming the node. */
hn_status hn_lower(hn_graph *graph, const hn_lower_options *options, hn_arena *arena,
                   hn_arena *scratch, hn_program **out) HN_MUST_USE;

#endif
