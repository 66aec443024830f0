/* prelude.h: the functions that kernels in CUDA C++ call. */
#ifndef HN_CODEGEN_CUDA_PRELUDE_H
#define HN_CODEGEN_CUDA_PRELUDE_H

#include "codegen/prelude.h"

/* Appends those that `text` needs. */
void hn_cuda_prelude(hn_str text, hn_strbuf *out);

#endif
