/* matmul.h: HN_EXTERN_MATMUL: blocked products of floats and doubles, and plain ones of the other
 * types. */
#ifndef HN_OPS_CPU_GEMM_MATMUL_H
#define HN_OPS_CPU_GEMM_MATMUL_H

#include "ops/cpu/ext.h"

/* The row of the table: takes every dtype that has a fast way (fast.c). */
extern const hn_ext_impl hn_ext_matmul;
#ifdef HN_EXT_WITHOUT_MATMUL
#define hn_ext_matmul_f32    hn_ext_reference
#define hn_ext_matmul_skinny hn_ext_reference
#define hn_ext_matmul_f64    hn_ext_reference
#define hn_ext_matmul_plain  hn_ext_reference
#else
extern const hn_ext_impl hn_ext_matmul_f32;
/* A few rows (or columns) times a matrix that is not worth packing, f32 and 16-bit: read where it
 * lies. */
extern const hn_ext_impl hn_ext_matmul_skinny;
/* f64, blocked; small products are unsupported. */
#ifdef HN_EXT_WITHOUT_MATMUL_F64
#define hn_ext_matmul_f64 hn_ext_absent
#else
extern const hn_ext_impl hn_ext_matmul_f64;
#endif
/* f64, integers and bool: rows in parallel, no blocks. */
extern const hn_ext_impl hn_ext_matmul_plain;
#endif

double hn_ext_epilogue_f64(hn_epilogue epilogue, double x);

#endif
