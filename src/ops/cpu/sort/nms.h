/* nms.h: the row of HN_EXTERN_NMS in table.c. */
#ifndef HN_OPS_CPU_SORT_NMS_H
#define HN_OPS_CPU_SORT_NMS_H

#include "ops/cpu/ext.h"

#ifdef HN_EXT_WITHOUT_NMS
#define hn_ext_nms hn_ext_reference
#else
extern const hn_ext_impl hn_ext_nms;
#endif

#endif
