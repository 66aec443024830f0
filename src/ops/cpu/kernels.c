/* kernels.c: chooses the table of kernels for this processor. */
#include "ops/cpu/kernels_isa.h"

/* The table of a source project, which is for one kind of CPU and has no other. */
#ifdef HN_EXT_ONLY
size_t hn_ext_kernels_list(const hn_ext_kernels *out[3]) {
    out[0] = &HN_EXT_ONLY;
    return 1;
}
#else
#ifdef HN_EXT_X86
static bool has_avx2(void) {
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}
static bool has_avx512(void) {
    return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw");
}
#endif

size_t hn_ext_kernels_list(const hn_ext_kernels *out[3]) {
    size_t count = 0;
#ifdef HN_EXT_X86
    if (has_avx512()) out[count++] = &hn_ext_kernels_avx512;
    if (has_avx2()) out[count++] = &hn_ext_kernels_avx2;
#endif
    out[count++] = &hn_ext_kernels_generic;
    return count;
}
#endif

const hn_ext_kernels *hn_ext_kernels_get(void) {
    const hn_ext_kernels *list[3];
    hn_ext_kernels_list(list);
    return list[0];
}
