/* c.h: kernels as C source. Header-free GNU C with explicit vectors. The calling convention is henry/abi/kernel_abi.h. Source of the
 * choices: reference/performance.md 1.4 to 1.9. */
#ifndef HN_CODEGEN_C_C_H
#define HN_CODEGEN_C_C_H

#include "codegen/codegen.h"

/* See hn_target_kind. */
hn_status hn_c_print(const hn_program *program, const hn_kernel *kernel, const hn_target *target, hn_arena *arena, hn_arena *scratch,
                     hn_kernel_code *out) HN_MUST_USE;
/* The prelude that these kernels need, then the kernels. */
hn_status hn_c_unit(const hn_kernel_code *const *kernels, uint32_t count, const hn_target *target, hn_strbuf *out) HN_MUST_USE;

#endif
