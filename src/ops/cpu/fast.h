/* fast.h: what the rows of table.c (declared with their kinds) choose from. */
#ifndef HN_OPS_CPU_FAST_H
#define HN_OPS_CPU_FAST_H

#include "ops/cpu/ext.h"

/* f16 and bf16 operands are converted, and the f32 implementation of the kind does the work:
 * rounded once, at the end. */
#ifdef HN_EXT_WITHOUT_HALF
#define hn_ext_half hn_ext_absent
#else
extern const hn_ext_impl hn_ext_half;
#endif

#endif
