/* prelude.h: the functions that kernels in OpenCL C call. */
#ifndef HN_CODEGEN_OPENCL_PRELUDE_H
#define HN_CODEGEN_OPENCL_PRELUDE_H

#include "codegen/prelude.h"

/* Appends those that `text` needs. */
void hn_opencl_prelude(hn_str text, hn_strbuf *out);

#endif
