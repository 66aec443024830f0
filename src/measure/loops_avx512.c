/* loops_avx512.c: the loops for AVX-512. */
#include "measure/loops_isa.h"

#include <stdbool.h>

#ifdef HN_LOOPS_X86
/* After every system header: only the code below may use these instructions. */
#ifdef __clang__
#pragma clang attribute push(                                                                      \
    __attribute__((target("avx512f,avx512vl,avx512dq,avx512bw,avx2,fma"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx512f,avx512vl,avx512dq,avx512bw,avx2,fma")
#endif
#define LOOP_LANES         16
#define LOOP_STREAM(to, x) _mm512_stream_ps(to, (__m512)(x))
#define LOOP_FENCE         _mm_sfence()
#define LOOPS_TABLE        hn_loops_avx512
#define LOOPS_NAME         "avx512"
#include "measure/loops_body.h"

#ifdef __clang__
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#endif
