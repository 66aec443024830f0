/* ext_fast.h: what the rows of ext_table.c (declared with their kinds) choose from. */
#ifndef HN_RUNTIME_EXT_FAST_H
#define HN_RUNTIME_EXT_FAST_H

#include "runtime/ext.h"

/* f16 and bf16 operands are converted, and the f32 implementation of the kind does the work: rounded once, at the end. */
extern const hn_ext_impl hn_ext_half;

#endif
