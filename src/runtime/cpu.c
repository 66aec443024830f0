/* cpu.c: CPU features by CPUID. A table instead of the compiler's builtin, which knows other names
 * in each compiler and takes literals only. Source: Intel SDM volume 2, CPUID; volume 1, 13.3 for
 * XCR0. */
#include "runtime/cpu.h"

#include "base/compiler.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <stdint.h>

enum { EAX, EBX, ECX, EDX };
/* Register state that the operating system must save: bits of XCR0. */
enum { NO_STATE = 0, AVX = 0x6, AVX512 = 0xe6, AMX = 0x60000 };

typedef struct feature {
    const char *name;
    uint32_t leaf, subleaf;
    uint8_t reg, bit;
    uint32_t state;
} feature;

static const feature features[] = {
    {"sse3", 1, 0, ECX, 0, NO_STATE},
    {"pclmul", 1, 0, ECX, 1, NO_STATE},
    {"ssse3", 1, 0, ECX, 9, NO_STATE},
    {"fma", 1, 0, ECX, 12, AVX},
    {"cx16", 1, 0, ECX, 13, NO_STATE},
    {"sse4.1", 1, 0, ECX, 19, NO_STATE},
    {"sse4.2", 1, 0, ECX, 20, NO_STATE},
    {"movbe", 1, 0, ECX, 22, NO_STATE},
    {"popcnt", 1, 0, ECX, 23, NO_STATE},
    {"avx", 1, 0, ECX, 28, AVX},
    {"f16c", 1, 0, ECX, 29, AVX},
    {"sse", 1, 0, EDX, 25, NO_STATE},
    {"sse2", 1, 0, EDX, 26, NO_STATE},
    {"bmi", 7, 0, EBX, 3, NO_STATE},
    {"avx2", 7, 0, EBX, 5, AVX},
    {"bmi2", 7, 0, EBX, 8, NO_STATE},
    {"avx512f", 7, 0, EBX, 16, AVX512},
    {"avx512dq", 7, 0, EBX, 17, AVX512},
    {"avx512ifma", 7, 0, EBX, 21, AVX512},
    {"avx512cd", 7, 0, EBX, 28, AVX512},
    {"avx512bw", 7, 0, EBX, 30, AVX512},
    {"avx512vl", 7, 0, EBX, 31, AVX512},
    {"avx512vbmi", 7, 0, ECX, 1, AVX512},
    {"avx512vbmi2", 7, 0, ECX, 6, AVX512},
    {"avx512vnni", 7, 0, ECX, 11, AVX512},
    {"avx512bitalg", 7, 0, ECX, 12, AVX512},
    {"avx512vpopcntdq", 7, 0, ECX, 14, AVX512},
    {"amx-bf16", 7, 0, EDX, 22, AMX},
    {"avx512fp16", 7, 0, EDX, 23, AVX512},
    {"amx-tile", 7, 0, EDX, 24, AMX},
    {"amx-int8", 7, 0, EDX, 25, AMX},
    {"avxvnni", 7, 1, EAX, 4, AVX},
    {"avx512bf16", 7, 1, EAX, 5, AVX512},
    {"lzcnt", 0x80000001, 0, ECX, 5, NO_STATE},
};

static uint32_t saved_state(void) {
    uint32_t eax, ebx, ecx, edx;
    enum { OSXSAVE = 1 << 27 };
    if (!__get_cpuid(1, &eax, &ebx, &ecx, &edx) || !(ecx & OSXSAVE)) return 0;
    __asm__ volatile("xgetbv" : "=a"(eax), "=d"(edx) : "c"(0));
    return eax;
}

static bool has(const feature *f) {
    uint32_t regs[4];
    if (!__get_cpuid_count(f->leaf, f->subleaf, &regs[EAX], &regs[EBX], &regs[ECX], &regs[EDX]))
        return false;
    return (regs[f->reg] >> f->bit & 1) && (saved_state() & f->state) == f->state;
}

bool hn_cpu_has(hn_str name) {
    for (size_t i = 0; i < HN_COUNT_OF(features); i++)
        if (hn_str_eq(name, hn_str_of(features[i].name))) return has(&features[i]);
    return false;
}
#else
bool hn_cpu_has(hn_str name) {
    (void)name;
    return false;
}
#endif
