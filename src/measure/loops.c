/* loops.c: chooses the table of loops for this processor. */
#include "base/cpu.h"
#include "measure/loops_isa.h"

#include <string.h>

const hn_loops *hn_loops_get(void) {
#ifdef HN_LOOPS_X86
    static const hn_loops *const wide[] = {&hn_loops_avx512, &hn_loops_avx2};
    const char *ops = hn_cpu_level_host()->ops;
    for (int k = 0; k < 2; k++)
        if (strcmp(wide[k]->name, ops) == 0) return wide[k];
#endif
    return &hn_loops_generic;
}
