/* grouped.h: the row of HN_EXTERN_GROUPED_MATMUL in table.c. */
#ifndef HN_OPS_CPU_GEMM_GROUPED_H
#define HN_OPS_CPU_GEMM_GROUPED_H

#include "ops/cpu/ext.h"

#ifdef HN_EXT_WITHOUT_GROUPED
#define hn_ext_grouped_matmul hn_ext_reference
#else
extern const hn_ext_impl hn_ext_grouped_matmul;
#endif

#endif
