/* record.h: what a kernel does and what its form is made of, in numbers. They are counted in the
 * kernel and in the form's statements; texts are never read back. */
#ifndef HN_KERNEL_RECORD_H
#define HN_KERNEL_RECORD_H

#include "henry/record.h"
#include "kernel/form.h"
#include "kernel/traffic.h"

/* Statements are counted once, however often they run. Memory is that of the program. */
typedef struct hn_form_record {
    const char *shape;       /* as in hn_form */
    uint32_t arguments;      /* memories of the program that it has */
    uint32_t loads, stores;  /* of the program's memory; a move of several elements is one */
    uint32_t atomics;        /* of the stores, those at which threads may meet */
    uint32_t loops;          /* FOR and LANES, unrolled ones too */
    uint32_t barriers;       /* of threads */
    uint32_t reductions;     /* registers that combine values */
    uint32_t lanes, threads; /* as in hn_form */
    bool is_vectorized;      /* computes in vectors, or its threads move several elements at once */
    hn_form_cost cost;
} hn_form_record;

hn_form_record hn_form_record_of(const hn_form *f);

/* What a kernel, or a call of an operation, does, whatever its form. Numbers are at the hints. */
typedef struct hn_work_record {
    hn_step_category category;
    hn_step_direction direction;
    hn_traffic traffic;
    int64_t operations;      /* ELEM, CAST and RANDOM by their costs, and the steps of reductions */
    hn_expr operations_expr; /* for other sizes; 0: not known */
    uint32_t fused_loops, phases, locals;
    uint32_t row_rank, rank;
    const hn_expr *sizes; /* extents: of the rows, then of the phase with the most points */
} hn_work_record;

/* `*points`: see hn_kernel_traffic. Owns: lists live in `arena`. */
hn_status hn_kernel_record_of(const hn_program *program, const hn_kernel *kernel, hn_arena *arena,
                              hn_arena *scratch, int64_t *points, hn_work_record *out) HN_MUST_USE;
/* Of operands and parameters. What no op of a scalar is, comparisons of a sort say, is no operation. */
void hn_call_record_of(const hn_program *program, const hn_extern *call, hn_work_record *out);

#endif
