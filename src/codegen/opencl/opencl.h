/* opencl.h: kernels as OpenCL C 1.2, from forms for processors that run groups of threads.
 * README.md has the calling convention. */
#ifndef HN_CODEGEN_OPENCL_OPENCL_H
#define HN_CODEGEN_OPENCL_OPENCL_H

#include "codegen/walk.h"

extern const hn_language hn_opencl_language;

/* One text of several kernels: what they need, then the kernels. */
hn_status hn_opencl_unit(const hn_kernel_code *const *kernels, uint32_t count,
                         const hn_target *target, hn_strbuf *out) HN_MUST_USE;

#endif
