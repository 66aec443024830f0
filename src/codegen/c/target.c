/* target.c: CPU feature levels, of which base/cpu.c has the table. */
#include "codegen/c/c.h"

#include "base/cpu.h"

#include <stdio.h>

static void set_target(const hn_cpu_level *level, hn_c_target *out) {
    *out = (hn_c_target){.vector_bytes = level->vector_bytes};
    snprintf(out->flags, sizeof(out->flags), "%s", level->flags);
    snprintf(out->name, sizeof(out->name), "%s", level->name);
}

void hn_c_target_host(hn_c_target *out) { set_target(hn_cpu_level_host(), out); }

hn_status hn_c_target_named(hn_str name, hn_c_target *out) {
    const hn_cpu_level *level = hn_cpu_level_named(name);
    if (!level) return HN_ERROR(HN_INVALID_ARGUMENT, "unknown target '" HN_STR_FMT "'; known: " HN_CPU_LEVELS_TEXT, HN_STR_ARG(name));
    set_target(level, out);
    return NULL;
}
