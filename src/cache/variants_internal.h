/* variants_internal.h: the canonical form of guards, which tables of variants are made of. Not for other folders.
 *
 * Numbers are little-endian. A head (inputs, tensors, conditions), then for each condition, in the order of their bytes:
 * the length of an expression, the expression in prefix order, whether the value must lie outside, the bounds. A symbol is
 * spelled by the input that it is solved from, so that the same guard is the same bytes in every program of a graph. */
#ifndef HN_CACHE_VARIANTS_INTERNAL_H
#define HN_CACHE_VARIANTS_INTERNAL_H

#include "cache/variants.h"

/* lo <= value <= hi; with `outside` everything else. */
typedef struct hn_guard_bounds {
    int64_t lo, hi;
    bool outside;
} hn_guard_bounds;

void hn_guards_begin(uint32_t input_count, uint32_t tensor_count, uint32_t cond_count, hn_strbuf *out);
void hn_guards_put(hn_strbuf *out, hn_str expr, const hn_guard_bounds *bounds);

typedef struct hn_guards_reader {
    uint32_t input_count, tensor_count, count; /* conditions */
    hn_str rest;
} hn_guards_reader;

/* Errors: corrupt. */
hn_status hn_guards_open(hn_str canonical, hn_guards_reader *out) HN_MUST_USE;
hn_status hn_guards_next(hn_guards_reader *reader, hn_str *out_expr, hn_guard_bounds *out_bounds) HN_MUST_USE;

typedef struct hn_guard_inputs {
    const hn_variant_input *items;
    uint32_t count;
    bool tensors_only; /* `items` are the inputs that are tensors */
} hn_guard_inputs;

/* The value of an expression. False when an input lacks, on overflow, division by 0, and for damaged bytes. */
bool hn_guards_eval(hn_str expr, const hn_guard_inputs *inputs, int64_t *out);

#endif
