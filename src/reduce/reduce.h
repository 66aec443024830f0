/* reduce.h: a small graph that fails as a model does.
 *
 * Nodes are taken out by halves and fewer (delta debugging): what the others need of them becomes
 * an input with the value that it had. Then outputs are dropped, and sizes made smaller. An attempt
 * counts only if it fails in the same way (hn_failure_same); each runs in a process of its own.
 * Source: Zeller and Hildebrandt, Simplifying and Isolating Failure-Inducing Input, 2002. */
#ifndef HN_REDUCE_REDUCE_H
#define HN_REDUCE_REDUCE_H

#include "reduce/trial.h"

typedef struct hn_reduce_options {
    hn_trial_options trial;
    /* told how far it is. May be NULL */
    void (*note)(void *user, const char *text);
    void *user;
} hn_reduce_options;

/* Owns: `best` until hn_reduction_deinit. */
typedef struct hn_reduction {
    hn_slice best;
    hn_failure failure; /* of the model; kind NONE: it does not fail */
    hn_failure last;    /* of `best` */
    uint32_t nodes_before, nodes_after, trials;
    uint64_t elements_before, elements_after;
    bool is_complete; /* false: stopped */
    bool has_best;
    hn_arena arena; /* bytes of values */
} hn_reduction;

/* `graph`: the model as imported, whose user inputs have examples; without one, they get numbers
 * like those of `henry bench`. It is changed. deinit also after an error.
 * Errors: those of the reference, which must be able to run the model; of starting processes. */
hn_status hn_reduce(hn_graph *graph, const hn_reduce_options *options,
                    hn_reduction *out) HN_MUST_USE;
void hn_reduction_deinit(hn_reduction *reduction);

#endif
