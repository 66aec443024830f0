/* cuda.h: kernels as CUDA C++, from forms for processors that run groups of threads. README.md has
 * the calling convention. */
#ifndef HN_CODEGEN_CUDA_CUDA_H
#define HN_CODEGEN_CUDA_CUDA_H

#include "codegen/walk.h"

extern const hn_language hn_cuda_language;

/* One text of several kernels: what they need, then the kernels. */
hn_status hn_cuda_unit(const hn_kernel_code *const *kernels, uint32_t count,
                       const hn_target *target, hn_strbuf *out) HN_MUST_USE;

#endif
