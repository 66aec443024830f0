/* targets.c: the table of codegen.h. */
#include "codegen/codegen.h"

#include "base/cpu.h"
#include "codegen/c/c.h"

#include <string.h>

/* Integers of tensors wrap; gcc 12 gets max(INT_MIN, -x) of vectors wrong where they may not. Vectors are explicit in the text: the
 * compiler's own vectorizer would take a tenth of the time and gain nothing. */
static const char *const c_flags[] = {"-O2", "-fwrapv", "-fno-tree-vectorize", "-fno-math-errno", "-fno-trapping-math",
                                      "-fno-tree-loop-distribute-patterns", "-w", NULL};

static const hn_target_kind cpu = {
    .language = "c",
    .flags = c_flags,
    .unit_bytes = 6 << 10, /* of 3 to 16 KiB the best for nine small models on two processors, and no worse for large ones */
    .cpu = &hn_cpu_facts_common,
    .limits = &hn_cpu_facts_common.limits,
    .print = hn_c_print,
    .unit = hn_c_unit,
};

/* The levels of CPUs: base/cpu.c has their names, flags and vectors. */
static hn_target of_level(const hn_cpu_level *level) {
    return (hn_target){.kind = &cpu, .name = level->name, .flags = level->flags, .ops = level->ops, .rank = level->vector_bytes,
                       .vector_bytes = level->vector_bytes};
}

hn_target hn_target_host(void) { return of_level(hn_cpu_level_host()); }

hn_status hn_target_named(hn_str name, hn_target *out) {
    const hn_cpu_level *level = hn_cpu_level_named(name);
    if (!level) return HN_ERROR(HN_INVALID_ARGUMENT, "unknown target '" HN_STR_FMT "'; known: " HN_CPU_LEVELS_TEXT, HN_STR_ARG(name));
    *out = of_level(level);
    return NULL;
}

/* "-mavx2 -mfma" -> "avx2\0fma\0". Options that are no features stay out. */
void hn_target_features(const hn_target *target, hn_strbuf *out) {
    for (const char *at = target->flags; *at;) {
        size_t len = strcspn(at, " ");
        if (len > 2 && memcmp(at, "-m", 2) == 0 && !memchr(at, '=', len)) {
            hn_strbuf_append(out, at + 2, len - 2);
            hn_strbuf_putc(out, '\0');
        }
        at += len;
        while (*at == ' ') at++;
    }
}
