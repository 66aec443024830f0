/* pass.h: graph passes, one per file. A pass takes a graph and changes it in place; the pass
 * manager (driver) verifies after each one and times it. Scratch memory is reset after the pass. */
#ifndef HN_OPT_PASS_H
#define HN_OPT_PASS_H

#include "base/limit.h"
#include "ir/build.h"
#include "ir/graph.h"
#include "ir/loop.h"

/* What hn_pass_weights may do. */
typedef struct hn_weights_limits {
    uint64_t most_bytes; /* of all results that are kept; 0: none are */
    /* what a call saves at least, in bytes that it would move; less is not worth a program */
    double least_gain;
} hn_weights_limits;

/* Some microseconds of a call. */
#define HN_WEIGHTS_LEAST_GAIN ((double)(64 << 10))

typedef struct hn_pass_context {
    hn_arena *scratch;
    /* Set by callers that need no bytes of weights folded (graph cache keys). */
    bool metadata_only;
    /* Of the target, where it is known: then some ops stay whole. NULL: it has none. */
    const hn_operations *operations;
    /* Rewrites of this run of the pass; NULL: all. functionalize and decompose do not ask: a graph
     * that they left half done means nothing. */
    hn_limit *limit;
    const hn_weights_limits *weights; /* of hn_pass_weights; NULL: those of its own */
    bool is_unchanged;                /* set by a pass that has left the graph as it was */
} hn_pass_context;

typedef hn_status (*hn_pass_fn)(hn_graph *graph, hn_pass_context *context);

/* In-place ops become pure ones; writes to inputs and buffers become MUTATION outputs. Requires
 * ATen ops as imported, establishes: no op with a mutated parameter. */
hn_status hn_pass_functionalize(hn_graph *graph, hn_pass_context *context) HN_MUST_USE;
/* ATen -> primitives. Every op that cannot be rewritten is reported in one error (unsupported),
 * each with its node and source line. Establishes HN_LEGAL_PRIMITIVE; checks every rewritten value
 * against the recorded dtype and sizes. */
hn_status hn_pass_decompose(hn_graph *graph, hn_pass_context *context) HN_MUST_USE;
/* Constant subgraphs of small results (<= 64 KiB) are computed; element-wise identities are
 * removed. */
hn_status hn_pass_fold(hn_graph *graph, hn_pass_context *context) HN_MUST_USE;
hn_status hn_pass_cse(hn_graph *graph, hn_pass_context *context) HN_MUST_USE;
/* Nodes and non-user inputs that no output needs. ASSERT nodes stay. */
hn_status hn_pass_dce(hn_graph *graph, hn_pass_context *context) HN_MUST_USE;
/* bmm-softmax-bmm chains, masks and scales included, become ATTENTION; batch norm after a
 * convolution folds into its weights. */
hn_status hn_pass_patterns(hn_graph *graph, hn_pass_context *context) HN_MUST_USE;
/* What depends on weights alone, and is worth keeping, becomes a program of its own
 * (hn_graph.weights_program), which runs once for a set of weights. Requires primitives; no pass
 * that looks at bytes of constants comes behind it. */
hn_status hn_pass_weights(hn_graph *graph, hn_pass_context *context) HN_MUST_USE;

#endif
