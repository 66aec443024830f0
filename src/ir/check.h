/* check.h: checks of arguments against the rows; internal to src/ir. */
#ifndef HN_IR_CHECK_H
#define HN_IR_CHECK_H

#include "ir/graph.h"

/* Count and kinds of a node's arguments against its row. Primitives are strict; ATen arguments may
 * be what PyTorch's dispatcher converts: a number for a Tensor, a symbolic scalar for a number.
 * Errors: internal, naming the parameter. */
hn_status hn_args_check(const hn_graph *g, hn_op op, const hn_arg *args,
                        uint32_t arg_count) HN_MUST_USE;

const char *hn_arg_kind_name(hn_arg_kind kind);
const char *hn_param_kind_name(hn_param_kind kind);

/* "f32[s0, 4]" appended. */
void hn_sizes_print(const hn_graph *g, hn_dtype dtype, const hn_expr *sizes, uint32_t rank,
                    hn_strbuf *out);

/* What COND says of its subgraphs: inputs like the operands, outputs of both like the results. */
hn_status hn_cond_check(const hn_graph *g, const hn_arg args[4], const hn_value *results,
                        uint32_t result_count) HN_MUST_USE;

/* What LOOP says of its subgraphs: inputs like what is carried and the others; outputs of the body,
 * and results, like what is carried; one bool of the test. Either `rounds` or `test` is there. */
enum { HN_LOOP_ROUNDS, HN_LOOP_TEST, HN_LOOP_BODY, HN_LOOP_CARRIED, HN_LOOP_OTHERS, HN_LOOP_ARGS };
hn_status hn_loop_args_check(const hn_graph *g, const hn_arg args[HN_LOOP_ARGS],
                             const hn_value *results, uint32_t result_count) HN_MUST_USE;

/* weights_program.c: what must hold of the graph's weights_program and of what is in its outputs;
 * the program has been verified by itself. Errors: internal. */
hn_status hn_weights_program_check(const hn_graph *g) HN_MUST_USE;
/* An output of it, row-major, by the interpreter; kept by the program. */
hn_status hn_weights_program_read(const hn_graph *graph, uint32_t output,
                                  const uint8_t **out) HN_MUST_USE;

/* Whether two sizes are equal by proof or by a guard recorded earlier. */
bool hn_sizes_agree(const hn_graph *g, hn_expr a, hn_expr b);
/* Whether `a`, which meets `b` in a broadcast, is taken for 1: a guard says so, or the hints do,
 * and then a guard is recorded. */
bool hn_size_stretches(const hn_graph *g, hn_expr a, hn_expr b);
/* Whether `a REL b` always holds, by what is known of the symbols; whether it never does. */
bool hn_size_proved(const hn_graph *g, hn_relation relation, hn_expr a, hn_expr b);
bool hn_size_refuted(const hn_graph *g, hn_relation relation, hn_expr a, hn_expr b);
/* Makes `a REL b` sure: proved, recorded as a guard, or refused when the opposite is provable.
 * Errors: internal with `what`. */
hn_status hn_size_require(const hn_graph *g, hn_relation relation, hn_expr a, hn_expr b,
                          const char *what) HN_MUST_USE;
/* hn_sym_require, unless the same guard is there: verifying and parsing ask the same things
 * again. */
void hn_guard_add(const hn_graph *g, hn_relation relation, hn_expr a, hn_expr b,
                  const char *reason);

enum { HN_MAX_GRAPH_DEPTH = 100 }; /* of nested subgraphs */

#endif
