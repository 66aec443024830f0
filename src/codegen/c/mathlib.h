/* mathlib.h: the C text that generated kernels lean on: vector types, loads and stores, math
 * functions. */
#ifndef HN_CODEGEN_C_MATHLIB_H
#define HN_CODEGEN_C_MATHLIB_H

#include "codegen/prelude.h"

/* snippets.c. A pattern stands for one snippet a dtype: its name ends in the dtype's; in its text
 * @T is the element type, @V the vector type, @N the dtype's name. */
extern const hn_snippet c_snippets[], c_patterns[];
extern const uint32_t c_snippet_count, c_pattern_count;

/* Appends types and every snippet that `text` (kernels) names, directly or through others, in
 * dependency order. */
void hn_c_prelude(hn_str text, uint32_t lanes, hn_strbuf *out);

#endif
