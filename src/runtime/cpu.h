/* cpu.h: what this CPU can do. Internal to src/runtime. */
#ifndef HN_RUNTIME_CPU_H
#define HN_RUNTIME_CPU_H

#include "base/str.h"

#include <stdbool.h>

/* Whether the CPU, and the operating system for wide registers, supports a feature by gcc's name
 * ("avx2"). False for names that are not known. */
bool hn_cpu_has(hn_str feature);

#endif
