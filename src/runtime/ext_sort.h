/* ext_sort.h: HN_EXTERN_SORT and HN_EXTERN_TOPK of every dtype. */
#ifndef HN_RUNTIME_EXT_SORT_H
#define HN_RUNTIME_EXT_SORT_H

#include "runtime/ext.h"

#ifdef HN_EXT_WITHOUT_SORT
#define hn_ext_sort hn_ext_reference
#else
extern const hn_ext_impl hn_ext_sort;
#endif

#endif
