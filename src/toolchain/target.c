/* target.c: see target.h. */
#include "toolchain/target.h"

#include "base/cpu.h"
#include "toolchain/flags.h"
#include "toolchain/toolchain.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void print_known(hn_str known, hn_strbuf *out) {
    const char *item;
    while (hn_list_next(&known, &item))
        hn_strbuf_printf(out, "%ssm_%s", out->len ? ", " : "", item);
    if (!out->len) hn_strbuf_puts(out, "those of its release");
}

static bool is_known(hn_str known, int number) {
    const char *item;
    if (!known.len) return true;
    while (hn_list_next(&known, &item))
        if (atoi(item) == number) return true;
    return false;
}

static hn_status refuse(hn_str known, const char *compiler, const char *version, const char *item) {
    hn_strbuf text;
    hn_strbuf_init(&text);
    print_known(known, &text);
    hn_str list = hn_strbuf_str(&text);
    hn_status status =
        item
            ? HN_ERROR(HN_INVALID_ARGUMENT,
                       "%s %s does not know architecture '%s'; it knows " HN_STR_FMT, compiler,
                       version, item, HN_STR_ARG(list))
            : HN_ERROR(
                  HN_INVALID_ARGUMENT,
                  "cannot compile for no architecture: add 'sm_NN' (a cubin) or 'compute_NN' (PTX) to "
                  "the target; %s %s "
                  "knows " HN_STR_FMT,
                  compiler, version, HN_STR_ARG(list));
    hn_strbuf_deinit(&text);
    return status;
}

hn_status hn_gpu_target_read(hn_str target, hn_str known, const char *compiler, const char *version,
                             hn_gpu_target *out) {
    const char *item;
    *out = (hn_gpu_target){.count = 0};
    while (hn_list_next(&target, &item)) {
        hn_gpu_arch arch = {.name = item};
        int number;
        char suffix;
        if (strcmp(item, "host") == 0) {
            out->is_host = true;
            continue;
        }
        if (!hn_arch_parse(item, &arch.is_ptx, &number, &suffix))
            return HN_ERROR(
                HN_INVALID_ARGUMENT,
                "'%s' is no GPU architecture: expected 'sm_90' (a cubin) or 'compute_90' (PTX)",
                item);
        if (!is_known(known, number)) return refuse(known, compiler, version, item);
        if (out->count == HN_IMAGES_MAX)
            return HN_ERROR(HN_INVALID_ARGUMENT, "more than %d architectures in one job",
                            HN_IMAGES_MAX);
        out->archs[out->count++] = arch;
    }
    return out->count ? NULL : refuse(known, compiler, version, NULL);
}

/* ---- the one form of a target ---- */

/* A name that gcc and clang take as a feature is one: "avx2" adds no other feature, as it would if
 * it meant a level. */
static const hn_cpu_level *level_of(const char *item) {
    char flag[64];
    bool is_long = snprintf(flag, sizeof(flag), "-m%s", item) >= (int)sizeof(flag);
    if (is_long || hn_flag_kind_of(flag, HN_FLAGS_CC) == HN_FLAG_PURE) return NULL;
    /* a job means the same on every machine */
    if (strcmp(item, "host") == 0 || strcmp(item, "native") == 0) return NULL;
    const hn_cpu_level *level = hn_cpu_level_named(hn_str_of(item));
    /* the compiler makes code for this machine's instruction set */
    return level && level->machine == HN_MACHINE_HERE ? level : NULL;
}

static void add_level(const hn_cpu_level *level, hn_strbuf *out) {
    for (const char *at = level->flags; *at;) {
        size_t len = strcspn(at, " ");
        hn_strbuf_append(out, at + 2, len - 2); /* without "-m" */
        hn_strbuf_append(out, "", 1);
        at += len + (at[len] != 0);
    }
}

static int by_member(const void *a, const void *b) {
    const char *x = *(const char *const *)a, *y = *(const char *const *)b;
    int no = (strncmp(x, "no-", 3) == 0) - (strncmp(y, "no-", 3) == 0);
    return no ? no : strcmp(x, y);
}

static hn_status add_sorted(hn_str members, hn_strbuf *out) {
    const char *item, *before = NULL;
    size_t count = 0;
    for (hn_str rest = members; hn_list_next(&rest, &item);) count++;
    if (!count) return NULL;
    const char **sorted = malloc(count * sizeof(*sorted));
    if (!sorted) return HN_ERROR(HN_OUT_OF_MEMORY, "no memory for a target of %zu members", count);
    count = 0;
    for (hn_str rest = members; hn_list_next(&rest, &item);) sorted[count++] = item;
    qsort(sorted, count, sizeof(*sorted), by_member);
    for (size_t i = 0; i < count; i++) {
        if (!before || strcmp(before, sorted[i]) != 0) hn_list_add(out, sorted[i]);
        before = sorted[i];
    }
    free(sorted);
    return hn_strbuf_status(out);
}

hn_status hn_target_canonical(const hn_toolchain_row *row, const char *const *items, size_t count,
                              hn_strbuf *out) {
    const char *prefix = row->is_for_cpu ? "cpu:" : "cuda:";
    size_t prefix_len = strlen(prefix);
    hn_strbuf members;
    hn_strbuf_init(&members);
    for (size_t i = 0; i < count; i++) {
        const char *item = items[i];
        if (strncmp(item, prefix, prefix_len) == 0) item += prefix_len;
        const hn_cpu_level *level = row->is_for_cpu ? level_of(item) : NULL;
        if (level) add_level(level, &members);
        else hn_list_add(&members, item);
    }
    hn_status status = hn_strbuf_status(&members);
    if (!status) status = add_sorted(hn_strbuf_str(&members), out);
    hn_strbuf_deinit(&members);
    return status;
}
