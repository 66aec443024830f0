/* ext_nms.h: the row of HN_EXTERN_NMS in ext_table.c. */
#ifndef HN_RUNTIME_EXT_NMS_H
#define HN_RUNTIME_EXT_NMS_H

#include "runtime/ext.h"

#ifdef HN_EXT_WITHOUT_NMS
#define hn_ext_nms hn_ext_reference
#else
extern const hn_ext_impl hn_ext_nms;
#endif

#endif
