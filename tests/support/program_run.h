/* program_run.h: whole programs of loop IR, run without a compiler: loops by their interpreter,
 * calls of operations by the plain loops of ops/cpu/reference.c, or by the loops that the program
 * has beside them. */
#ifndef HN_TESTS_PROGRAM_RUN_H
#define HN_TESTS_PROGRAM_RUN_H

#include "ir/interp_impl.h"
#include "ir/loop_interp.h"

enum { HN_PROGRAM_RUN_DEPTH = 16 };

/* How a call is run that has loops beside it. */
typedef enum hn_run_calls { HN_RUN_OPERATIONS, HN_RUN_LOOPS } hn_run_calls;

/* A program being run: its memory, and where it stands in its conditionals. Owns: everything lives
 * in `arena`. */
typedef struct hn_program_run {
    hn_arena *arena;
    const hn_program *p;
    hn_graph *graph;
    hn_ref_bindings at;     /* size symbols, and those that the data has defined */
    hn_ref_buffer *buffers; /* per buffer of the program; items NULL: its size is not known yet */
    hn_run_calls calls;     /* operations, unless the caller sets it */
    uint32_t depth;         /* of open conditionals, */
    bool holds[HN_PROGRAM_RUN_DEPTH]; /* and whether each one's items are run */
} hn_program_run;

/* `inputs`: one for each user input. Errors: as hn_interpret. */
hn_status hn_program_run_begin(hn_arena *arena, const hn_program *p, hn_graph *graph,
                               const hn_ref_tensor *inputs, uint32_t input_count,
                               hn_program_run *out) HN_MUST_USE;
/* Whether loops and calls at this place are run: no conditional around them says otherwise. */
bool hn_program_run_is_active(const hn_program_run *r);
hn_ref_sizes hn_program_run_sizes(const hn_program_run *r);
/* Runs an item, if this place is active. Errors name it. */
hn_status hn_program_run_item(hn_program_run *r, hn_item item) HN_MUST_USE;
/* One tensor for each output of the graph; dtype NONE: no tensor. */
hn_status hn_program_run_outputs(hn_program_run *r, hn_ref_tensor *out_outputs) HN_MUST_USE;

/* All items of a program, from inputs to outputs. */
hn_status hn_program_run_all(hn_arena *arena, const hn_program *p, hn_graph *graph,
                             const hn_ref_tensor *inputs, uint32_t input_count, hn_run_calls calls,
                             hn_ref_tensor *out_outputs) HN_MUST_USE;

/* The passes of the compiler, then lowering. */
hn_status hn_program_of_graph(hn_graph *graph, hn_arena *arena, hn_program **out) HN_MUST_USE;
/* Every tensor of `actual` against its like in `expected`; tolerance[k] is relative and absolute.
 * Errors: internal, naming the output. */
hn_status hn_outputs_compare(const hn_ref_tensor *actual, const hn_ref_tensor *expected,
                             const double *tolerance, uint32_t count) HN_MUST_USE;

#endif
