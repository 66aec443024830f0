/* interp.h: the reference interpreter. It executes primitives one by one, naively: floats of every
 * width are computed in double and rounded to the result's dtype once per op; ints wrap. It is the
 * oracle for every test and fuzzer, so it shares no code with lowering or kernels. */
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
hn_status hn_ref_tensor_init(hn_arena *arena, hn_dtype dtype, uint32_t rank, const int64_t *sizes, hn_ref_tensor *out) HN_MUST_USE;
/* Reads elements laid out with `strides` (elements; NULL: contiguous) from memory of the dtype's own format. */
hn_status hn_ref_tensor_load(hn_arena *arena, hn_dtype dtype, uint32_t rank, const int64_t *sizes, const int64_t *strides,
                             const void *bytes, hn_ref_tensor *out) HN_MUST_USE;
/* Writes the dtype's own format, contiguous, rounding. */
void hn_ref_tensor_store(const hn_ref_tensor *tensor, void *out_bytes);

/* Runs `graph` (primitives only). `inputs` holds one tensor per USER input, in order; parameters and
 * constants come from the graph's storages. Size symbols are bound from the inputs' shapes, guards are
 * checked. `out_outputs` receives one tensor per graph output (rank 0, dtype NONE for scalars).
 * Shapes: as recorded. Errors: invalid-argument for inputs that do not fit, unsupported, out-of-memory. */
hn_status hn_interpret(hn_arena *arena, hn_graph *graph, const hn_ref_tensor *inputs, uint32_t input_count,
                       hn_ref_tensor *out_outputs) HN_MUST_USE;

#endif
