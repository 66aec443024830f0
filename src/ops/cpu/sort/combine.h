/* combine.h: the row of HN_EXTERN_COMBINE_SORTED in table.c. */
#ifndef HN_OPS_CPU_SORT_COMBINE_H
#define HN_OPS_CPU_SORT_COMBINE_H

#include "ops/cpu/ext.h"

#ifdef HN_EXT_WITHOUT_COMBINE
#define hn_ext_combine hn_ext_reference
#else
extern const hn_ext_impl hn_ext_combine;
#endif

#endif
