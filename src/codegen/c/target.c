/* target.c: CPU feature levels. The names are those of the x86-64 psABI. */
#include "codegen/c/c.h"

#include "base/compiler.h"

#include <stdio.h>
#include <string.h>

static const hn_c_target targets[] = {
    {.vector_bytes = 64, .name = "x86-64-v4",
     .flags = "-mavx2 -mfma -mf16c -mbmi2 -mavx512f -mavx512bw -mavx512dq -mavx512vl -mprefer-vector-width=512"},
    {.vector_bytes = 32, .name = "x86-64-v3", .flags = "-mavx2 -mfma -mf16c -mbmi2"},
    {.vector_bytes = 16, .name = "generic", .flags = ""},
};

static const char *const short_names[] = {"avx512", "avx2", "x86-64"};

void hn_c_target_host(hn_c_target *out) {
    size_t best = HN_COUNT_OF(targets) - 1;
#if defined(__x86_64__)
    __builtin_cpu_init();
    bool v3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2");
    bool v4 = v3 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
              __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    best = v4 ? 0 : v3 ? 1 : best;
#endif
    *out = targets[best];
}

hn_status hn_c_target_named(hn_str name, hn_c_target *out) {
    for (size_t k = 0; k < HN_COUNT_OF(targets); k++) {
        if (!hn_str_eq(name, hn_str_of(targets[k].name)) && !hn_str_eq(name, hn_str_of(short_names[k]))) continue;
        *out = targets[k];
        return NULL;
    }
    return HN_ERROR(HN_INVALID_ARGUMENT, "unknown target '" HN_STR_FMT "'; known: x86-64-v4, x86-64-v3, generic", HN_STR_ARG(name));
}
