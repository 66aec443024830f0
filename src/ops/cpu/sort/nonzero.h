/* nonzero.h: the row of HN_EXTERN_NONZERO in table.c. */
#ifndef HN_OPS_CPU_SORT_NONZERO_H
#define HN_OPS_CPU_SORT_NONZERO_H

#include "ops/cpu/ext.h"

#ifdef HN_EXT_WITHOUT_NONZERO
#define hn_ext_nonzero hn_ext_reference
#else
extern const hn_ext_impl hn_ext_nonzero;
#endif

#endif
