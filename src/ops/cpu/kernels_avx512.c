/* kernels_avx512.c: the contraction kernels for AVX-512 (F, VL, DQ, BW). */
#include "ops/cpu/kernels_isa.h"

#ifdef HN_EXT_X86
/* After every system header: only the code below may use these instructions. */
#ifdef __clang__
#pragma clang attribute push(                                                                      \
    __attribute__((target("avx512f,avx512vl,avx512dq,avx512bw,avx2,fma"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx512f,avx512vl,avx512dq,avx512bw,avx2,fma")
#endif
#define HN_LANES         16
#define HN_TILE_ROWS     14
#define HN_KERNELS_TABLE hn_ext_kernels_avx512
#define HN_KERNELS_NAME  "avx512"
#include "ops/cpu/kernels_body.h"

#ifdef __clang__
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#endif
