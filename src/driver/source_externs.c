/* source_externs.c: see the header. */
#include "driver/source_externs.h"

#include <string.h>

/* The inner loops of the extern operations exist once for each vector width. A project has those of
 * its target, since they take most of the time of its build. */
static bool is_for_target(const char *path, const char *wanted) {
    static const char prefix[] = "lib/ops/cpu/kernels_";
    static const char *const widths[] = {"generic", "avx2", "avx512"};
    if (strncmp(path, prefix, sizeof prefix - 1) != 0) return true;
    const char *rest = path + sizeof prefix - 1;
    for (size_t k = 0; k < sizeof widths / sizeof *widths; k++) {
        size_t len = strlen(widths[k]);
        if (strncmp(rest, widths[k], len) == 0 && strcmp(rest + len, ".c") == 0)
            return strcmp(widths[k], wanted) == 0;
    }
    return true;
}

/* Sources of extern operations by the beginnings of their paths. A project has those of the kinds
 * that its program calls; in place of the others HN_EXT_WITHOUT_<name> is defined (ops/cpu/ext.h).
 * What no row names, several kinds need. */
static const struct {
    const char *files, *name;
    hn_extern_kind kinds[2];
} parts[] = {
    {"lib/ops/cpu/conv/", "CONV", {HN_EXTERN_CONV}},
    {"lib/ops/cpu/attention/backward", "ATTENTION_BACKWARD", {HN_EXTERN_ATTENTION_BACKWARD}},
    {"lib/ops/cpu/attention/", "ATTENTION", {HN_EXTERN_ATTENTION, HN_EXTERN_ATTENTION_BACKWARD}},
    {"lib/ops/cpu/gemm/matmul", "MATMUL", {HN_EXTERN_MATMUL, HN_EXTERN_GROUPED_MATMUL}},
    {"lib/ops/cpu/gemm/grouped", "GROUPED", {HN_EXTERN_GROUPED_MATMUL}},
    {"lib/ops/cpu/sort/sort", "SORT", {HN_EXTERN_SORT, HN_EXTERN_TOPK}},
    {"lib/ops/cpu/sort/nonzero", "NONZERO", {HN_EXTERN_NONZERO}},
    {"lib/ops/cpu/sort/nms", "NMS", {HN_EXTERN_NMS}},
};
enum { PART_COUNT = sizeof parts / sizeof *parts };

static bool calls_part(hn_extern_kinds called, size_t part) {
    const hn_extern_kind *kinds = parts[part].kinds;
    return called & (hn_extern_bit(kinds[0]) | (kinds[1] ? hn_extern_bit(kinds[1]) : 0));
}

bool hn_source_is_c(const char *path) {
    const size_t len = strlen(path);
    return len > 2 && strcmp(path + len - 2, ".c") == 0;
}

/* Headers come along in any case. */
static bool is_called(hn_extern_kinds called, const char *path) {
    for (size_t k = 0; hn_source_is_c(path) && k < PART_COUNT; k++)
        if (strncmp(path, parts[k].files, strlen(parts[k].files)) == 0)
            return calls_part(called, k);
    return true;
}

bool hn_source_extern_is_wanted(const char *path, hn_extern_kinds kinds, const char *variant) {
    return is_for_target(path, variant) && is_called(kinds, path);
}

hn_status hn_source_extern_flags(hn_extern_kinds kinds, const char *variant, hn_arena *arena,
                                 hn_str *out) {
    char *flags = hn_arena_printf(arena, "-DHN_EXT_ONLY=hn_ext_kernels_%s", variant);
    for (size_t k = 0; flags && k < PART_COUNT; k++)
        if (!calls_part(kinds, k))
            flags = hn_arena_printf(arena, "%s -DHN_EXT_WITHOUT_%s", flags, parts[k].name);
    if (!flags) return HN_ERROR(HN_OUT_OF_MEMORY, "out of memory for a project's flags");
    *out = hn_str_of(flags);
    return NULL;
}
