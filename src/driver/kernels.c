/* kernels.c: prints every kernel, finds equal ones, packs the different ones into translation units and
 * hands those to the compile service. A compiler run has a fixed cost of 18 to 30 ms (reference/performance.md 1.2),
 * so there are as many units as compilers that run at once, balanced by length of text. */
#include "driver/driver.h"

#include "base/log.h"
#include "base/map.h"

#include <stdlib.h>
#include <string.h>

/* Fewer kernels than this do not share out: the fixed cost would be paid twice for nothing. */
enum { UNIT_MIN_KERNELS = 3 };

static void dump_kernel(hn_driver *d, const hn_c_kernel *kernel) {
    const char *stage = HN_OPT(&d->options, dump_after);
    if (stage && strcmp(stage, "codegen") == 0 && HN_OPT(&d->options, dump))
        HN_OPT(&d->options, dump)(HN_OPT(&d->options, dump_context), kernel->text.ptr);
}

static hn_status print_level(hn_driver *d, hn_driver_level *level) {
    hn_strmap known;
    hn_strmap_init(&known, &d->scratch);
    HN_NEW(&d->arena, level->step_kernels, d->schedule.steps.count);
    for (uint32_t k = 0; k < d->schedule.steps.count; k++) {
        const hn_step *step = &d->schedule.steps.items[k];
        if (step->kind != HN_STEP_KERNEL) continue;
        hn_c_kernel *kernel = &level->step_kernels[k];
        hn_status status = hn_c_print(d->program, step->kernel, &level->target, &d->arena, &d->scratch, kernel);
        if (status) {
            const hn_origin *origin = &d->graph->origins.items[step->kernel->origin];
            return hn_status_annotate(status, "kernel of node '" HN_STR_FMT "'", HN_STR_ARG(origin->node));
        }
        hn_str key = {(const char *)kernel->digest.bytes, sizeof kernel->digest.bytes};
        if (hn_strmap_get(&known, key)) continue;
        HN_TRY(hn_strmap_put(&known, key, level->unique.count));
        HN_PUSH(&d->arena, &level->unique, kernel);
        dump_kernel(d, kernel);
    }
    d->stats.kernels_unique += level->unique.count;
    return hn_sym_status(d->sym);
}

hn_status hn_driver_print_kernels(hn_driver *d) {
    for (uint32_t k = 0; k < d->schedule.steps.count; k++) {
        d->stats.kernels_extern += d->schedule.steps.items[k].kind == HN_STEP_EXTERN;
        d->stats.kernels_generated += d->schedule.steps.items[k].kind == HN_STEP_KERNEL;
    }
    for (uint32_t l = 0; l < d->level_count; l++) HN_TRY(print_level(d, &d->levels[l]));
    return NULL;
}

static int by_length_then_digest(const void *a, const void *b) {
    const hn_c_kernel *x = *(const hn_c_kernel *const *)a, *y = *(const hn_c_kernel *const *)b;
    if (x->text.len != y->text.len) return x->text.len < y->text.len ? 1 : -1;
    return memcmp(x->digest.bytes, y->digest.bytes, sizeof x->digest.bytes);
}

static uint32_t unit_count(const hn_driver *d, const hn_driver_level *level) {
    int32_t wish = HN_OPT(&d->options, compile_threads);
    uint32_t threads = wish > 0 ? (uint32_t)wish : 2;
    uint32_t most = level->unique.count / UNIT_MIN_KERNELS;
    return most < 1 ? 1 : most < threads ? most : threads;
}

static hn_status submit_unit(hn_driver *d, const hn_c_target *level, const hn_c_kernel *const *kernels, uint32_t count) {
    hn_strbuf text;
    const char **entries; /* integers of tensors wrap; gcc 12 gets max(INT_MIN, -x) of vectors wrong where they may not */
    const char *flags[] = {"-O2", "-fwrapv", "-fno-tree-vectorize", "-fno-math-errno", "-fno-trapping-math", "-fno-tree-loop-distribute-patterns", "-w"};
    hn_strbuf_init(&text);
    HN_NEW(&d->scratch, entries, count);
    for (uint32_t k = 0; k < count; k++) entries[k] = kernels[k]->name;
    const char *target[24];
    uint32_t target_count = 0;
    char *words = hn_arena_strndup(&d->scratch, level->flags, strlen(level->flags));
    if (!words) return HN_ERROR(HN_OUT_OF_MEMORY, "out of memory while submitting kernels");
    for (char *save = NULL, *word = strtok_r(words, " ", &save); word && target_count < 24; word = strtok_r(NULL, " ", &save))
        target[target_count++] = word;
    const char *all[40];
    size_t flag_count = 0;
    for (size_t k = 0; k < sizeof flags / sizeof *flags; k++) all[flag_count++] = flags[k];
    for (uint32_t k = 0; k < target_count; k++) all[flag_count++] = target[k];
    hn_status status = hn_c_unit(kernels, count, level, &text);
    hn_future *future = NULL;
    if (!status)
        status = hn_compile_submit(d->scope, &(hn_source){.name = kernels[0]->name, .language = "c", .text = text.ptr, .text_len = text.len,
                                                          .entries = entries, .entry_count = count, .flags = all, .flag_count = flag_count},
                                   &future);
    hn_strbuf_deinit(&text);
    if (status) return status;
    HN_PUSH(&d->arena, &d->units, future);
    return NULL;
}

static hn_status submit_level(hn_driver *d, hn_driver_level *level) {
    uint32_t units = unit_count(d, level), first = d->units.count, *sizes;
    size_t *load;
    const hn_c_kernel ***members;
    if (!level->unique.count) return NULL;
    qsort(level->unique.items, level->unique.count, sizeof *level->unique.items, by_length_then_digest);
    HN_NEW(&d->arena, level->unit_of, level->unique.count);
    HN_NEW(&d->scratch, sizes, units);
    HN_NEW(&d->scratch, load, units);
    HN_NEW(&d->scratch, members, units);
    for (uint32_t u = 0; u < units; u++) HN_NEW(&d->scratch, members[u], level->unique.count);
    for (uint32_t k = 0; k < level->unique.count; k++) { /* longest first, each to the lightest unit */
        uint32_t best = 0;
        for (uint32_t u = 1; u < units; u++)
            if (load[u] < load[best]) best = u;
        level->unit_of[k] = first + best;
        load[best] += level->unique.items[k]->text.len;
        members[best][sizes[best]++] = level->unique.items[k];
    }
    for (uint32_t u = 0; u < units; u++) HN_TRY(submit_unit(d, &level->target, members[u], sizes[u]));
    return NULL;
}

hn_status hn_driver_submit(hn_driver *d) {
    HN_TRY(hn_scope_create(d->service, &d->scope));
    for (uint32_t l = 0; l < d->level_count; l++) HN_TRY(submit_level(d, &d->levels[l]));
    return NULL;
}
