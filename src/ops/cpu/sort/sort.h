/* sort.h: HN_EXTERN_SORT and HN_EXTERN_TOPK of every dtype. */
#ifndef HN_OPS_CPU_SORT_SORT_H
#define HN_OPS_CPU_SORT_SORT_H

#include "ops/cpu/ext.h"

#ifdef HN_EXT_WITHOUT_SORT
#define hn_ext_sort hn_ext_reference
#else
extern const hn_ext_impl hn_ext_sort;
#endif

#endif
