/* cpu.c: see cpu.h. */
#include "base/cpu.h"

#include "base/compiler.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { V4, V3, X86_64, NEON };

/* Every processor of AArch64 has NEON; compilers for it need no option. */
static const hn_cpu_level levels[] = {
    [V4] =
        {HN_MACHINE_X86_64, "x86-64-v4", "avx512",
         "-mavx2 -mfma -mf16c -mbmi2 -mavx512f -mavx512bw -mavx512dq -mavx512vl -mprefer-vector-width=512",
         64, "avx512"},
    [V3] = {HN_MACHINE_X86_64, "x86-64-v3", "avx2", "-mavx2 -mfma -mf16c -mbmi2", 32, "avx2"},
    [X86_64] = {HN_MACHINE_X86_64, "generic", "x86-64", "", 16, "generic"},
    [NEON] = {HN_MACHINE_AARCH64, "aarch64", "neon", "", 16, "generic"},
};

const hn_cpu_level *hn_cpu_level_host(void) {
    size_t best = HN_MACHINE_HERE == HN_MACHINE_AARCH64 ? NEON : X86_64;
#if defined(__x86_64__)
    __builtin_cpu_init();
    bool v3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
              __builtin_cpu_supports("bmi2");
    bool v4 = v3 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
              __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    best = v4 ? V4 : v3 ? V3 : best;
#endif
    return &levels[best];
}

const hn_cpu_level *hn_cpu_level_named(hn_str name) {
    if (hn_str_starts_with(name, HN_STR("cpu:"))) name = (hn_str){name.ptr + 4, name.len - 4};
    if (hn_str_eq(name, HN_STR("host")) || hn_str_eq(name, HN_STR("native")))
        return hn_cpu_level_host();
    for (size_t k = 0; k < HN_COUNT_OF(levels); k++)
        if (hn_str_eq(name, hn_str_of(levels[k].name)) ||
            hn_str_eq(name, hn_str_of(levels[k].alias)))
            return &levels[k];
    return NULL;
}

/* ---- this machine ---- */

/* The beginning of a file that the system makes up as it is read: all of it takes milliseconds
 * where there are many processors. */
void hn_cpu_name(char *out, size_t bytes) {
    char text[4096] = "";
    FILE *file = fopen("/proc/cpuinfo", "re");
    if (file) text[fread(text, 1, sizeof text - 1, file)] = 0;
    if (file) fclose(file);
    const char *line = strstr(text, "model name");
    const char *value = line ? strchr(line, ':') : NULL;
    if (value) value += strspn(value, ": \t");
    snprintf(out, bytes, "%.*s", value ? (int)strcspn(value, "\n") : 3, value ? value : "CPU");
}

/* A number that the system does not know is -1 or 0. */
static int64_t asked(int name, int64_t otherwise) {
    const long n = sysconf(name);
    return n > 0 ? n : otherwise;
}

void hn_cpu_caches(int64_t out[3]) {
    out[0] = asked(_SC_LEVEL1_DCACHE_SIZE, 32 << 10);
    out[1] = asked(_SC_LEVEL2_CACHE_SIZE, 512 << 10);
    out[2] = asked(_SC_LEVEL3_CACHE_SIZE, 0);
}
