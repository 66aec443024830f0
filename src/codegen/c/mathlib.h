/* mathlib.h: the C text that generated kernels lean on: vector types, loads and stores, math functions. */
#ifndef HN_CODEGEN_C_MATHLIB_H
#define HN_CODEGEN_C_MATHLIB_H

#include "base/str.h"

#include <stdint.h>

/* Appends types and every snippet that `text` (kernels) names, directly or through others, in dependency order. */
void hn_c_prelude(hn_str text, uint32_t lanes, hn_strbuf *out);

#endif
