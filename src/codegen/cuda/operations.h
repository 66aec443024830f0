/* operations.h: kernels of operations (henry/abi/extern_abi.h) in CUDA C++, for calls that no
 * library of the device takes. */
#ifndef HN_CODEGEN_CUDA_OPERATIONS_H
#define HN_CODEGEN_CUDA_OPERATIONS_H

#include "codegen/codegen.h"

/* hn_target_kind.operation */
hn_status hn_cuda_operation(const hn_program *program, const hn_extern *call, hn_arena *arena,
                            hn_kernel_code *out) HN_MUST_USE;

#endif
