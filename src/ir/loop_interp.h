/* loop_interp.h: the reference interpreter of loop IR, and the scalars that it shares with that of
 * kernel forms (kernel/interp.h).
 *
 * A loop is run naively: every iteration in row-major order, every op of the body in each of them.
 * No code is shared with lowering, scheduling or kernels; the scalar ops are those of the
 * interpreter of graphs (interp.h). Floats of every width are computed in double and rounded once
 * per op, in reductions and scans after each step. An access outside its buffer is an error, and so
 * is a read of an element that nothing has written. */
#ifndef HN_IR_LOOP_INTERP_H
#define HN_IR_LOOP_INTERP_H

#include "ir/interp.h"
#include "ir/loop.h"

/* Memory of a buffer. */
typedef struct hn_ref_buffer {
    hn_dtype dtype;
    int64_t elems;
    hn_ref_elem *items; /* as many as `elems` */
    bool *is_set;       /* per element: something has written it */
    /* not NULL: in place of both, memory in the dtype's own format, all of which counts as
     * written */
    uint8_t *bytes;
} hn_ref_buffer;

/* What size symbols stand for: values[k] for symbols[k]. */
typedef struct hn_ref_sizes {
    const hn_expr *symbols;
    const int64_t *values;
    uint32_t count;
} hn_ref_sizes;

/* No element is set. Owns: they live in `arena`. Errors: internal when `elems` is below 0. */
hn_status hn_ref_buffer_init(hn_arena *arena, hn_dtype dtype, int64_t elems,
                             hn_ref_buffer *out) HN_MUST_USE;

/* How a loop is run. */
typedef struct hn_loop_how {
    hn_ref_sizes sizes;
    /* Sums and the like of floats are rounded once, when they are stored: what comes out is nearer
     * to the true value than what any order of rounded steps gives */
    bool is_wide;
    /* Of a POINTWISE loop: what it stores is combined by its reduce_op over slabs of rows. Its first
     * row_rank variables are rows; of `slabs` slabs number s has the rows from s * ceil(rows /
     * slabs) on, and is stored s * slab_elems behind the loop's own index. 0: it is plain */
    uint32_t slabs, row_rank;
    hn_expr slab_elems;
} hn_loop_how;

hn_status hn_loop_run_how(const hn_program *p, const hn_loop *loop, const hn_loop_how *how,
                          hn_ref_buffer *buffers) HN_MUST_USE;

/* Runs one loop on `buffers`: one for each of the program's, of which the loop needs those that it
 * mentions. Errors: invalid-argument for a checked index that is outside; internal for an access
 * outside a buffer, a read of what nothing has written, dtypes that do not fit, and amax and the
 * like of no elements. Buffers are partly written then. */
hn_status hn_loop_run(const hn_program *p, const hn_loop *loop, const hn_ref_sizes *sizes,
                      hn_ref_buffer *buffers) HN_MUST_USE;

/* ---- scalars (interp_tensor.c, interp_scalar.c, interp_random.c) ---- */

/* An element in memory of the dtype's own format; it need not be aligned. Written values are
 * rounded. */
hn_ref_elem hn_ref_elem_read(hn_dtype dtype, const uint8_t *bytes);
void hn_ref_elem_write(hn_dtype dtype, hn_ref_elem elem, uint8_t *bytes);

/* ELEM, CAST, CONST, INDEX or RANDOM. `operand` is the dtype of args[0], `index` the value of
 * op->index where it has one. Errors: internal when the op has no meaning for the dtype, or is of
 * another kind. */
hn_status hn_ref_scalar(const hn_sop *op, hn_dtype operand, const hn_ref_elem args[3],
                        int64_t index, hn_ref_elem *out) HN_MUST_USE;

/* Element number `index` of a stream of random numbers. Errors: as above. */
hn_status hn_ref_random_element(hn_random_kind kind, hn_dtype dtype, int64_t seed, int64_t index,
                                int64_t stream, hn_ref_elem *out) HN_MUST_USE;

/* What a store with a mode that combines puts into memory. Errors: as above. */
hn_status hn_ref_combine(hn_store_mode mode, hn_dtype dtype, hn_ref_elem old,
                         hn_ref_elem *value) HN_MUST_USE;

/* A checked index: wrapped when asked, below `limit`. False when it is outside. */
bool hn_ref_checked_index(int64_t value, int64_t limit, bool wraps, int64_t *out);

/* The state of a reduction or scan: a row of class REDUCE or SCAN over elements of one dtype. */
typedef struct hn_ref_reduction {
    hn_ref_elem value; /* rounded to the dtype */
    int64_t position;  /* ARGMIN, ARGMAX, CUMMIN, CUMMAX: of the element that won */
} hn_ref_reduction;

/* Of no elements: combined with anything it changes nothing. */
hn_ref_reduction hn_ref_reduction_begin(hn_op op, hn_dtype dtype);
/* One element more, or the state of a part: of equal ones and of NaNs the first position wins in
 * ARGMIN and ARGMAX, the last in CUMMIN and CUMMAX, whatever the order of the steps. Errors:
 * internal when the row has no meaning for the dtype. */
hn_status hn_ref_reduction_step(hn_op op, hn_dtype dtype, hn_ref_elem value, int64_t position,
                                hn_ref_reduction *state) HN_MUST_USE;
/* Whether the row has no result over no elements. */
bool hn_ref_reduction_needs_elements(hn_op op);

#endif
