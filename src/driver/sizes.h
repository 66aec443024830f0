/* sizes.h: the sizes of a coming call, as a compilation sees them. */
#ifndef HN_DRIVER_SIZES_H
#define HN_DRIVER_SIZES_H

#include "driver/driver.h"

/* The symbols whose values the sizes of the inputs tell. */
typedef struct hn_size_values {
    hn_expr *symbols;
    int64_t *values;
    uint32_t count, cap;
} hn_size_values;

/* Solves the symbols of the imported graph for these sizes, in `arena`. `*out_fit`: whether the
 * sizes are ones that the model as exported may take: ranks, fixed dimensions, ranges of symbols.
 * Errors: out-of-memory. */
hn_status hn_sizes_bind(const hn_graph *graph, const hn_input_sizes *inputs, uint32_t input_count,
                        hn_arena *arena, hn_size_values *out, bool *out_fit) HN_MUST_USE;
/* Whether no guard that was recorded so far forbids the values. */
bool hn_sizes_satisfy(const hn_sym *sym, const hn_size_values *values);
/* Decisions are taken for these sizes from here on. */
void hn_sizes_expect(hn_sym *sym, const hn_size_values *values);

#endif
