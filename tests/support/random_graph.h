/* random_graph.h: random graphs of primitives, and a check of the compiled program against the reference interpreter. */
#ifndef HN_TESTS_RANDOM_GRAPH_H
#define HN_TESTS_RANDOM_GRAPH_H

#include "base/str.h"
#include "henry/kernel.h"
#include "ir/graph.h"
#include "ir/interp.h"

/* The graph of a seed: the same one for ever. Inputs are user inputs; sizes are 0, 1, small, prime, around powers of two.
 * Values stay moderate, and ops with jumps (floor, comparisons, sort...) only see exactly representable operands, so that
 * a difference beyond `out_tolerance` (relative, per output) is a fault and not rounding. */
hn_status hn_random_graph(uint64_t seed, hn_arena *arena, hn_sym *sym, hn_graph **out, double *out_tolerance) HN_MUST_USE;

/* Inputs for the graph's user inputs. */
hn_status hn_random_inputs(uint64_t seed, hn_arena *arena, hn_graph *graph, hn_ref_tensor *out) HN_MUST_USE;

/* Compiles the graph, runs it, interprets it, compares. A mismatch is an internal error that tells where. */
hn_status hn_check_against_interpreter(hn_graph *graph, hn_service *service, const hn_ref_tensor *inputs, uint32_t input_count,
                                       const double *tolerance, bool no_fusion) HN_MUST_USE;

#endif
