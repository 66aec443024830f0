/* kernels_isa.h: which tables of kernels there are. For the files that define and choose them. */
#ifndef HN_OPS_CPU_KERNELS_ISA_H
#define HN_OPS_CPU_KERNELS_ISA_H

#include "ops/cpu/kernels.h"

#include <string.h>

#if defined(__x86_64__) || defined(__i386__)
#define HN_EXT_X86 1
#endif

extern const hn_ext_kernels hn_ext_kernels_generic;
#ifdef HN_EXT_X86
extern const hn_ext_kernels hn_ext_kernels_avx2;
extern const hn_ext_kernels hn_ext_kernels_avx512;
#endif

#endif
