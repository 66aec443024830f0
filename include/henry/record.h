/* henry/record.h: what the steps of a compiled program are made of, in numbers: bytes, operations,
 * loads, stores, loops. The compiler writes them down while it makes a kernel; a program from the
 * cache has them as well.
 *
 *     for (uint32_t k = 0; k < hn_module_step_count(module); k++) {
 *         hn_step_record r;
 *         HN_TRY(hn_module_step_record(module, k, &r));
 *         printf("%s %s %" PRId64 " bytes\n", r.name, r.category_name, r.read_bytes + r.written_bytes);
 *     }
 *
 * Link libhenry_rt or libhenry. This part of the API is young: it may change more than the rest. */
#ifndef HENRY_RECORD_H
#define HENRY_RECORD_H

#include "henry/module.h"

#ifdef __cplusplus
extern "C" {
#endif

/* X(id, name, number): what a step does, as far as it is known. Numbers stay; new ones are appended. */
#define HN_STEP_CATEGORIES(X)                                                                      \
    X(UNKNOWN, "unknown", 0)                                                                       \
    X(POINTWISE, "pointwise", 1) /* a kernel whose elements do not meet */                         \
    X(REDUCTION, "reduction", 2) /* of rows, with or without what uses the results */              \
    X(COLUMN_REDUCTION, "column_reduction", 3) /* down columns, in slabs of rows */                \
    X(MIXED_REDUCTION, "mixed_reduction", 4)   /* of rows, and down their columns */               \
    X(SCAN, "scan", 5)                         /* running sums and the like */                     \
    X(SCATTER, "scatter", 6)                   /* stores where data says */                        \
    X(FOREACH, "foreach", 7)                   /* several loops of sizes of their own */           \
    X(CALL, "call", 8)                         /* an operation such as a matrix product */         \
    X(COPY, "copy", 9)                         /* bytes from one place to another */               \
    X(ZERO, "zero", 10)                        /* memory that is filled with zeros */              \
    X(CONTROL, "control", 11)                  /* assertions, conditionals, loops, waits */

typedef enum hn_step_category {
#define HN_STEP_CATEGORY(id, name, number) HN_CATEGORY_##id = number,
    HN_STEP_CATEGORIES(HN_STEP_CATEGORY)
#undef HN_STEP_CATEGORY
} hn_step_category;

/* How the vectors of a kernel lie. */
typedef enum hn_step_direction {
    HN_DIRECTION_INNER = 0, /* along rows */
    HN_DIRECTION_FLAT = 1,  /* along the only dimension */
    HN_DIRECTION_OUTER = 2  /* each lane is a row: reductions go down columns */
} hn_step_direction;

/* A step. Strings and lists are owned by the module.
 * Units: bytes as named; operations: additions, or multiplications; other operations count as many
 * as they take, and a matrix product of m x k by k x n has 2*m*n*k. */
typedef struct hn_step_record {
    uint32_t step;
    hn_module_step_kind kind;
    hn_step_category category;
    const char *category_name; /* "pointwise" */
    const char *name;          /* as in hn_step_info */
    const char *node;          /* of the model; "" when there is none */
    uint32_t node_count;       /* see hn_module_step_node_get */

    /* What the step must move and compute, in whatever form: of each tensor, an element that is read
     * counts once, and so does one that is written. */
    bool has_work;   /* it is known */
    bool is_bound;   /* bytes: at most so many. Which elements are read depends on data */
    bool is_at_hint; /* numbers are those of the sizes that the model was exported with; else of the
                        sizes at hand */
    int64_t read_bytes, written_bytes, operations;
    int64_t predicted_ns; /* that the planner expects it to take, always at the hints; 0: unknown */

    /* Of kernels that Henry wrote: the loops that became one, and what became of them. Of one in
     * several forms these are numbers of the first; where another one runs, there is only its name,
     * `form` */
    bool has_form;
    uint32_t fused_loops;   /* loop nests that are this kernel */
    uint32_t phases;        /* inner loops of a row, one after the other */
    uint32_t local_buffers; /* of a row, of the kernel's own */
    const char *form;       /* of the planner: "rows", "tiles" */
    hn_step_direction direction;
    uint32_t arguments;     /* tensors that it gets */
    uint32_t loads, stores; /* in its text; a move of several elements is one */
    uint32_t atomics;       /* of the stores */
    uint32_t loops;         /* in its text */
    uint32_t barriers;      /* of threads */
    uint32_t reductions;
    uint32_t lanes;   /* 32-bit numbers of a vector; 0: groups of threads run it */
    uint32_t threads; /* of a group; 1 where threads take ranges */
    bool is_vectorized;
    int64_t accessed_bytes; /* each access counts, also of what a cache has: at the hints */
    /* Of the loops: `row_rank` extents that threads share, then those of the longest inner loop. */
    uint32_t rank, row_rank;
    const hn_module_dim *sizes;

    /* What a thread takes of a GPU, as the compiler of its machine code tells. */
    bool has_resources;
    uint32_t registers;
    uint32_t stack_bytes;  /* registers that did not fit, and arrays whose indices are not known */
    uint32_t shared_bytes; /* of a group, besides what its launch adds */

    /* An operation may be several kernels: this is the first one, which has the numbers of all, or
     * one of those behind it, which have none. */
    uint32_t part;

    /* Of kernels that Henry wrote: the product of `sizes`, for the sizes at hand; 0: not known. */
    int64_t elements;
} hn_step_record;

/* For the sizes that the model was exported with.
 * Errors: invalid-argument for a step out of range; out-of-memory. Threads: any. */
HN_API hn_status hn_module_step_record(hn_module *module, uint32_t step,
                                       hn_step_record *out) HN_MUST_USE;
/* In a hook: for the sizes of the run, as far as they are known there (is_at_hint says so).
 * Errors: out-of-memory. */
HN_API hn_status hn_step_record_get(const hn_step_info *step, hn_step_record *out) HN_MUST_USE;
/* As hn_step_node_get, outside of a run. Errors: invalid-argument for a number out of range. */
HN_API hn_status hn_module_step_node_get(const hn_module *module, uint32_t step, uint32_t k,
                                         const char **out_node,
                                         const char **out_source) HN_MUST_USE;
/* "pointwise"; "unknown" for other numbers. */
HN_API const char *hn_step_category_name(hn_step_category category);

#ifdef __cplusplus
}
#endif
#endif
