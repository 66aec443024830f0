/* random_graph.h: random graphs of primitives, and a check of the compiled program against the
 * reference interpreter. */
#ifndef HN_TESTS_RANDOM_GRAPH_H
#define HN_TESTS_RANDOM_GRAPH_H

#include "base/str.h"
#include "henry/kernel.h"
#include "henry/program.h"
#include "ir/graph.h"
#include "ir/interp.h"

/* Of a graph that holds as many random ones as it may, and one of them twice. */
enum { HN_RANDOM_MAX_BATCH = 16, HN_RANDOM_MAX_TENSORS = 9 * (HN_RANDOM_MAX_BATCH + 1) };

/* The graph of a seed: the same one on every machine. Inputs are user inputs, but of one kind;
 * sizes are 0, 1, small, prime, around powers of two, and in one graph of four symbols. Values stay
 * moderate, and ops with jumps (floor, comparisons, sort...) only see exactly representable
 * operands, so that a difference beyond `out_tolerance` (relative, per output) is a fault and not
 * rounding. */
hn_status hn_random_graph(uint64_t seed, hn_arena *arena, hn_sym *sym, hn_graph **out,
                          double *out_tolerance) HN_MUST_USE;
/* The same nodes beside what the graph holds already. `out_tolerance` is of all its outputs. */
hn_status hn_random_graph_add(uint64_t seed, hn_graph *g, double *out_tolerance) HN_MUST_USE;
/* Another kind of graph: matrix products, convolutions and attention, with what stands in front of
 * them and behind them. The seed of one kind means nothing to the other. */
hn_status hn_random_contractions_add(uint64_t seed, hn_graph *g, double *out_tolerance) HN_MUST_USE;
/* And another: loops and conditionals, one in the other, with what stands around them. */
hn_status hn_random_loops_add(uint64_t seed, hn_graph *g, double *out_tolerance) HN_MUST_USE;

/* And another: much to fuse. Values over the same few dims, which nodes read in several orders. */
hn_status hn_random_shared_add(uint64_t seed, hn_graph *g, double *out_tolerance) HN_MUST_USE;

/* And another: concatenations of pieces of such values, and what reads them. */
hn_status hn_random_pieces_add(uint64_t seed, hn_graph *g, double *out_tolerance) HN_MUST_USE;

/* And another: losses of classifiers, scans of few long rows. */
hn_status hn_random_rare_add(uint64_t seed, hn_graph *g, double *out_tolerance) HN_MUST_USE;

/* And another: products with weights that are computed from weights. These are no user inputs, so
 * kernels of such a graph cannot be run by themselves. */
hn_status hn_random_weights_add(uint64_t seed, hn_graph *g, double *out_tolerance) HN_MUST_USE;

/* The families of graphs, for programs that are told one by an option: "--contractions", "--loops",
 * "--shared", "--pieces", "--rare", "--weights". */
typedef enum hn_random_family {
    HN_FAMILY_ANY,
    HN_FAMILY_CONTRACTIONS,
    HN_FAMILY_LOOPS,
    HN_FAMILY_SHARED,
    HN_FAMILY_PIECES,
    HN_FAMILY_RARE,
    HN_FAMILY_WEIGHTS
} hn_random_family;
/* Whether `option` names a family. */
bool hn_random_family_named(const char *option, hn_random_family *out);
/* The option with a space before it; "" for the usual one. */
const char *hn_random_family_option(hn_random_family family);
hn_status hn_random_family_add(hn_random_family family, uint64_t seed, hn_graph *g,
                               double *out_tolerance) HN_MUST_USE;

/* For the user inputs among the graph's inputs from `first` on: each at its place among user
 * inputs. */
hn_status hn_random_inputs(uint64_t seed, hn_arena *arena, hn_graph *graph, uint32_t first,
                           hn_ref_tensor *out) HN_MUST_USE;

/* Where several values are put at one place, the largest one is to be there in place of the last
 * one: for programs that are free to put them there in any order. */
void hn_random_graph_any_order(hn_graph *g);

/* Modes of memory pools by name, for programs that are told one by `--pool MODE`. */
bool hn_random_pool_named(const char *name, hn_memory_pool *out);
const char *hn_random_pool_name(hn_memory_pool pool);

/* Compiles the graph, runs it, interprets it, compares. A mismatch is an internal error that tells
 * where. Of `how`, fusion, the target, the pool, and whether it is deterministic count; NULL: as
 * usual. With `donates` the run gives up the memory of every input that the graph does not change;
 * that is for the CPU. */
hn_status hn_check_against_interpreter(hn_graph *graph, hn_service *service,
                                       const hn_ref_tensor *inputs, const double *tolerance,
                                       const hn_compile_options *how, bool donates) HN_MUST_USE;

#endif
