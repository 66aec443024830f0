/* interp.h: the reference interpreter. It executes primitives one by one, naively: floats of every
 * width are computed in double and rounded to the result's dtype once per op; ints wrap. It is the
 * oracle for every test and fuzzer, so it shares no code with lowering or kernels.
 *
 * Where a row of ops.def leaves room, the choice is stated at the top of the file that implements
 * the row: interp_elementwise.c (division by zero, shifts, casts), interp_random.c (the generator's
 * layout), interp_data.c (repeated indices), interp_reduce.c and interp_sort.c (ties, NaN,
 * empty). */
#ifndef HN_IR_INTERP_H
#define HN_IR_INTERP_H

#include "ir/graph.h"

/* A dense row-major tensor. Floats (all widths) are held as double, ints and bools as int64. */
typedef struct hn_ref_tensor {
    hn_dtype dtype;
    uint32_t rank;
    int64_t sizes[HN_MAX_RANK];
    int64_t numel;
    union {
        double *f;  /* F64 F32 F16 BF16 */
        int64_t *i; /* the rest */
    } data;
} hn_ref_tensor;

/* Storage of `numel` zeroed elements in the arena. */
hn_status hn_ref_tensor_init(hn_arena *arena, hn_dtype dtype, uint32_t rank, const int64_t *sizes,
                             hn_ref_tensor *out) HN_MUST_USE;
/* Reads elements laid out with `strides` (elements; NULL: contiguous) from memory of the dtype's
 * own format. */
hn_status hn_ref_tensor_load(hn_arena *arena, hn_dtype dtype, uint32_t rank, const int64_t *sizes,
                             const int64_t *strides, const void *bytes,
                             hn_ref_tensor *out) HN_MUST_USE;
/* Writes the dtype's own format, contiguous, rounding. */
void hn_ref_tensor_store(const hn_ref_tensor *tensor, void *out_bytes);

/* Whether every element fits: |a - e| <= atol + rtol * |e|; NaN equals NaN, an infinity only
 * itself. Dtypes and sizes must be equal. Appends to `why` (may be NULL) one line: the first
 * mismatch with its index and both values, how many differ, and, also when all fit, the largest
 * absolute and relative errors. */
bool hn_ref_compare(const hn_ref_tensor *actual, const hn_ref_tensor *expected, double rtol,
                    double atol, hn_strbuf *why);

/* One element: `f` for float dtypes, `i` for the rest. */
typedef union hn_ref_elem {
    double f;
    int64_t i;
} hn_ref_elem;

/* One element of an element-wise row: `operand` is the dtype of the operands (of x and y for WHERE,
 * whose args[0].i is the condition), `result` that of the result. Rounded and wrapped. False when
 * the row has no meaning for the dtype. The scalar ops of loop IR are the same rows. */
bool hn_ref_apply(hn_op op, hn_dtype operand, hn_dtype result, const hn_ref_elem *args,
                  hn_ref_elem *out);

/* Runs `graph` (primitives only). `inputs` holds one tensor per USER input, in order; parameters
 * and constants come from the graph's storages. Size symbols are bound from the inputs' shapes,
 * guards are checked. `out_outputs` receives one tensor per graph output (rank 0, dtype NONE for
 * scalars). Inputs are rounded to their dtype first. Input values of kind SYM_INT, SYM_FLOAT and
 * SYM_BOOL take a rank 0 tensor of I64, F64 and BOOL.
 * Shapes: as recorded. Owns: outputs live in `arena`; everything else is freed before the return.
 * Errors: invalid-argument for inputs that do not fit, for indices out of range and for failed
 * ASSERTs, unsupported, out-of-memory; internal when a result does not fit what the graph records.
 * Errors of a node name it, its origin in the model and the source line. */
hn_status hn_interpret(hn_arena *arena, hn_graph *graph, const hn_ref_tensor *inputs,
                       uint32_t input_count, hn_ref_tensor *out_outputs) HN_MUST_USE;

#endif
