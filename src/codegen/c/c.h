/* c.h: kernels as C, from forms of ranges: header-free GNU C with explicit vectors. The calling
 * convention is henry/abi/kernel_abi.h. Source of the choices: reference/performance.md 1.4 to 1.9.
 */
#ifndef HN_CODEGEN_C_C_H
#define HN_CODEGEN_C_C_H

#include "codegen/walk.h"

extern const hn_language hn_c_language;

/* One text of several kernels: what they need, then the kernels. */
hn_status hn_c_unit(const hn_kernel_code *const *kernels, uint32_t count, const hn_target *target,
                    hn_strbuf *out) HN_MUST_USE;

#endif
