/* loops_isa.h: which tables of loops there are. For the files that define and choose them. */
#ifndef HN_MEASURE_LOOPS_ISA_H
#define HN_MEASURE_LOOPS_ISA_H

#include "measure/loops.h"

extern const hn_loops hn_loops_generic;
#if defined(__x86_64__)
#define HN_LOOPS_X86 1
#include <immintrin.h>
extern const hn_loops hn_loops_avx2, hn_loops_avx512;
#endif

#endif
