/* ext_grouped.h: the row of HN_EXTERN_GROUPED_MATMUL in ext_table.c. */
#ifndef HN_RUNTIME_EXT_GROUPED_H
#define HN_RUNTIME_EXT_GROUPED_H

#include "runtime/ext.h"

#ifdef HN_EXT_WITHOUT_GROUPED
#define hn_ext_grouped_matmul hn_ext_reference
#else
extern const hn_ext_impl hn_ext_grouped_matmul;
#endif

#endif
