/* kernels_avx2.c: the contraction kernels for AVX2 and FMA. */
#include "ops/cpu/kernels_isa.h"

#ifdef HN_EXT_X86
/* After every system header: only the code below may use these instructions. */
#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx2,fma"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma")
#endif
#define HN_LANES     8
#define HN_TILE_ROWS 6
#ifdef __x86_64__
#define HN_TILE_AVX2 /* gemm/tile_avx2.h fits */
#endif
#define HN_KERNELS_TABLE hn_ext_kernels_avx2
#define HN_KERNELS_NAME  "avx2"
#include "ops/cpu/kernels_body.h"

#ifdef __clang__
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#endif
