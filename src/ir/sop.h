/* sop.h: what must hold of one scalar op (hn_sop, loop.h). Loop IR and kernel forms (src/kernel)
 * have the same scalar ops. */
#ifndef HN_IR_SOP_H
#define HN_IR_SOP_H

#include "ir/loop.h"

/* Whether `index` is an expression that the op evaluates. */
static inline bool hn_sop_has_index(const hn_sop *op) {
    return op->kind == HN_SOP_LOAD || op->kind == HN_SOP_INDEX || op->kind == HN_SOP_RANDOM;
}

/* What is wrong with the number of the arguments of `op`, with a dtype or with the symbol that it
 * binds, in a few words for a message; NULL: nothing. `args`: the dtypes of the arguments, NONE
 * where there is none. What depends on the surroundings is left to the caller: the memory that LOAD
 * reads, symbols in `index`, what RESULT refers to. */
const char *hn_sop_check(const hn_sym *sym, const hn_sop *op, const hn_dtype args[3]);

#endif
