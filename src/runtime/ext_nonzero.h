/* ext_nonzero.h: the row of HN_EXTERN_NONZERO in ext_table.c. */
#ifndef HN_RUNTIME_EXT_NONZERO_H
#define HN_RUNTIME_EXT_NONZERO_H

#include "runtime/ext.h"

#ifdef HN_EXT_WITHOUT_NONZERO
#define hn_ext_nonzero hn_ext_reference
#else
extern const hn_ext_impl hn_ext_nonzero;
#endif

#endif
