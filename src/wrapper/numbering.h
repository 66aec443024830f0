/* numbering.h: the numbers that symbols, expressions and weights have in a printed program. A
 * bundle has them as indices of records, an emitted project in names such as n[7]. */
#ifndef HN_WRAPPER_NUMBERING_H
#define HN_WRAPPER_NUMBERING_H

#include "bundle/nodes.h"
#include "wrapper/place.h"
#include "wrapper/solve.h"
#include "wrapper/values.h"

typedef struct hn_wnumbering {
    const hn_wrapper *w;
    const hn_memory_plan *plan;
    hn_wsymbols symbols;
    hn_wplaces places;
    hn_wvalue *inputs, *outputs; /* of the wrapper's, in order */
    hn_nodes nodes;              /* all expressions; symbols are numbered as in `symbols` */
    hn_map known;                /* hn_expr -> node */
    struct {
        hn_guard *items;
        uint32_t count, cap;
    } guards; /* that concern the program */
} hn_wnumbering;

/* For a planned wrapper. Owns: lists live in `arena`; the wrapper and the plan are borrowed.
 * Errors: unsupported for a size that no input determines; those of solve.h, place.h, values.h. */
hn_status hn_wrapper_number(const hn_wrapper *w, const hn_memory_plan *plan, hn_arena *arena,
                            hn_wnumbering *out) HN_MUST_USE;
/* Numbers the sizes and strides of the buffers, too, behind everything else. A bundle has them, an
 * emitted project does not. Errors: unsupported for a size that no input determines. */
hn_status hn_wnumbering_add_shapes(hn_wnumbering *n) HN_MUST_USE;
/* Numbers the expressions of records that are not numbers, and their sizes. Likewise. */
hn_status hn_wnumbering_add_records(hn_wnumbering *n) HN_MUST_USE;
/* The node of an expression of the program; 0 for 0 and for others. */
uint32_t hn_wnumbering_node(const hn_wnumbering *n, hn_expr e);
/* The storage of the graph that has a number. */
const hn_storage *hn_wnumbering_storage(const hn_wnumbering *n, uint32_t number);
/* Its bytes; those that are made of others are in `arena`. Errors: unsupported when the graph does
 * not have them. */
hn_status hn_wnumbering_bytes(const hn_wnumbering *n, uint32_t number, hn_arena *arena,
                              const uint8_t **out) HN_MUST_USE;
/* For printing nodes. Borrows `n`. */
hn_named_nodes hn_wnumbering_named(const hn_wnumbering *n);

#endif
