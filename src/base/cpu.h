/* cpu.h: the levels of processors that kernels are compiled for: one table of their names, for
 * models, bundles and kernel jobs. */
#ifndef HN_BASE_CPU_H
#define HN_BASE_CPU_H

#include "base/str.h"

#include <stdint.h>

/* Instruction sets, by ELF's numbers. */
enum { HN_MACHINE_X86_64 = 62, HN_MACHINE_AARCH64 = 183 };
#if defined(__x86_64__)
#define HN_MACHINE_HERE HN_MACHINE_X86_64
#elif defined(__aarch64__)
#define HN_MACHINE_HERE HN_MACHINE_AARCH64
#else
#define HN_MACHINE_HERE 0
#endif

typedef struct hn_cpu_level {
    uint16_t machine;
    const char *name;  /* of the x86-64 psABI: "x86-64-v3"; "aarch64" */
    const char *alias; /* "avx2" */
    const char *flags; /* of gcc and clang, with blanks between: "-mavx2 -mfma" */
    uint32_t vector_bytes;
    const char *ops; /* which of ops/cpu/kernels_*.c it runs */
} hn_cpu_level;

/* The level of that name or alias, with "cpu:" in front or not; "host" and "native" are this
 * machine's. NULL: there is none. */
const hn_cpu_level *hn_cpu_level_named(hn_str name);
const hn_cpu_level *hn_cpu_level_host(void);

/* Of this machine's processor: "Intel(R) Xeon(R) Processor"; "CPU" where the system does not
 * say. */
void hn_cpu_name(char *out, size_t bytes);
/* Bytes of a core's first and second cache, and of the one that all share; 0: there is none. */
void hn_cpu_caches(int64_t out[3]);

/* The names, for messages. */
#define HN_CPU_LEVELS_TEXT "x86-64-v4, x86-64-v3, generic, aarch64"

#endif
