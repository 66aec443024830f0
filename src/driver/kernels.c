/* kernels.c: prints every kernel, finds equal ones, packs the different ones into translation units
 * and hands those to the compile service. Kernels that do not fit a processor are replaced
 * (fit.c). */
#include "driver/picked.h"

#include "base/log.h"
#include "base/map.h"
#include "driver/multi.h"

#include <stdlib.h>
#include <string.h>

static void dump_kernel(hn_driver *d, const hn_kernel_code *kernel) {
    const char *stage = HN_OPT(&d->options, dump_after);
    if (stage && strcmp(stage, "codegen") == 0 && HN_OPT(&d->options, dump))
        HN_OPT(&d->options, dump)(HN_OPT(&d->options, dump_context), kernel->text.ptr);
}

/* In several forms, if none is expected to be good at all sizes. With timings, sizes that are named
 * say what is timed. */
static hn_status print_expected(hn_driver *d, const hn_driver_level *level, const hn_kernel *kernel,
                                hn_arena *scratch, hn_kernel_code *out, bool *out_is_multi) {
    const hn_variants_of of = {.program = d->program, .kernel = kernel, .target = &level->target};
    const bool is_told = HN_OPT(&d->options, tune) == HN_TUNE_KNOWN;
    hn_multi multi;
    HN_TRY(hn_multi_expect(&of, is_told ? d->hints : NULL, scratch, &multi, out_is_multi));
    return *out_is_multi ? hn_multi_print(&of, &multi, &d->arena, scratch, out) : NULL;
}

/* In the form that was measured to be the fastest, or that is expected to be. */
static hn_status print_form(hn_driver *d, const hn_driver_level *level, const hn_kernel *kernel,
                            hn_arena *scratch, hn_kernel_code *out) {
    bool is_known;
    HN_TRY(hn_driver_pick(d, level, kernel, scratch, out, &is_known));
    if (is_known) return NULL;
    bool is_multi;
    HN_TRY(print_expected(d, level, kernel, scratch, out, &is_multi));
    if (is_multi) return NULL;
    return hn_target_print(&level->target, d->program, kernel, &d->arena, scratch, out);
}

/* Planner and printer get a `scratch` arena that is emptied after each kernel: a large program has
 * thousands, and fresh memory costs as much as they do. */
static hn_status print_kernel(hn_driver *d, hn_driver_level *level, const hn_kernel *kernel,
                              hn_arena *scratch, hn_kernel_code *out) {
    hn_status status = print_form(d, level, kernel, scratch, out);
    hn_arena_reset(scratch);
    if (!status) return NULL;
    const hn_origin *origin = &d->graph->origins.items[kernel->origin];
    return hn_status_annotate(status, "kernel of node '" HN_STR_FMT "'", HN_STR_ARG(origin->node));
}

/* Which form the call is to have; text that is there already stays. */
static hn_status pick_call(hn_driver *d, const hn_driver_level *level, hn_item item,
                           hn_arena *scratch, hn_kernel_code *out) {
    hn_kernel_code picked = {0};
    hn_status status = hn_driver_pick_call(d, level, item, scratch, &picked);
    hn_arena_reset(scratch);
    if (status || !picked.form) return status;
    out->form = picked.form;
    out->variant_count = picked.variant_count;
    out->variants = picked.variants;
    out->choice = picked.choice;
    out->is_picked = picked.is_picked;
    out->is_forced = picked.is_forced;
    out->tuned = picked.tuned;
    return NULL;
}

/* For a call that the device does, unless its library does not take it. */
static hn_status print_operation(hn_driver *d, const hn_driver_level *level, hn_item item,
                                 hn_arena *scratch, hn_kernel_code *out) {
    const hn_target_kind *kind = level->target.kind;
    const hn_extern *call = d->program->items.items[item].ext;
    if (kind->device == HN_DEVICE_CPU) return pick_call(d, level, item, scratch, out);
    if (!kind->operation || !hn_operation_of(kind->limits->operations, d->program, call))
        return NULL;
    HN_TRY(kind->operation(d->program, call, &d->arena, out));
    return out->next ? NULL : pick_call(d, level, item, scratch, out);
}

/* Of equal kernels the first. */
static hn_status add_different(hn_driver *d, hn_driver_level *level, const hn_kernel_code *kernel,
                               hn_strmap *known) {
    hn_str key = {(const char *)kernel->digest.bytes, sizeof kernel->digest.bytes};
    if (hn_strmap_get(known, key)) return NULL;
    HN_TRY(hn_strmap_put(known, key, level->unique.count));
    HN_PUSH(&d->arena, &level->unique, kernel);
    return NULL;
}

static hn_status add_kernel(hn_driver *d, hn_driver_level *level, const hn_kernel_code *kernel,
                            hn_strmap *known, bool dumps) {
    const uint32_t before = level->unique.count;
    HN_TRY(add_different(d, level, kernel, known));
    if (dumps && level->unique.count > before) dump_kernel(d, kernel);
    return NULL;
}

/* Variants of a kernel have a text each; forms of a call have none. */
static uint32_t texts_of_variants(const hn_kernel_code *kernel) {
    return kernel->variant_count && kernel->variants[0].text.ptr ? kernel->variant_count : 0;
}

/* Those of a step, if there are any, with their variants. */
static hn_status add_step(hn_driver *d, hn_driver_level *level, const hn_kernel_code *first,
                          hn_strmap *known, bool dumps) {
    for (const hn_kernel_code *kernel = first; kernel && kernel->text.ptr; kernel = kernel->next) {
        HN_TRY(add_kernel(d, level, kernel, known, dumps));
        for (uint32_t v = 0; v < texts_of_variants(kernel); v++)
            HN_TRY(add_kernel(d, level, &kernel->variants[v], known, dumps));
    }
    return NULL;
}

/* Of every step, and of equal kernels the first. */
static hn_status print_steps(hn_driver *d, hn_driver_level *level, hn_arena *scratch) {
    hn_strmap known;
    hn_strmap_init(&known, &d->scratch);
    for (uint32_t k = 0; k < d->schedule.steps.count; k++) {
        const hn_step *step = &d->schedule.steps.items[k];
        hn_kernel_code *kernel = &level->step_kernels[k];
        if (step->kind == HN_STEP_KERNEL)
            HN_TRY(print_kernel(d, level, step->kernel, scratch, kernel));
        else if (step->kind == HN_STEP_EXTERN)
            HN_TRY(print_operation(d, level, step->item, scratch, kernel));
        HN_TRY(add_step(d, level, kernel, &known, true));
    }
    return NULL;
}

static hn_status print_level(hn_driver *d, hn_driver_level *level) {
    hn_arena scratch;
    HN_NEW(&d->arena, level->step_kernels, d->schedule.steps.count);
    hn_arena_init(&scratch);
    hn_status status = print_steps(d, level, &scratch);
    hn_arena_deinit(&scratch);
    if (status) return status;
    d->stats.kernels_unique += level->unique.count;
    return hn_sym_status(d->sym);
}

static hn_status print_planned(hn_driver *d, hn_driver_level *level, uint32_t step_number,
                               hn_arena *scratch) {
    const hn_step *step = &d->schedule.steps.items[step_number];
    hn_kernel_code *out = &level->step_kernels[step_number];
    hn_status status = NULL;
    if (step->kind == HN_STEP_KERNEL)
        status = hn_target_print(&level->target, d->program, step->kernel, &d->arena, scratch, out);
    else if (step->kind == HN_STEP_EXTERN)
        status = print_operation(d, level, step->item, scratch, out);
    hn_arena_reset(scratch);
    return status;
}

hn_status hn_driver_print_planned(hn_driver *d) {
    hn_arena scratch;
    hn_status status = NULL;
    hn_arena_init(&scratch);
    for (uint32_t l = 0; l < d->level_count && !status; l++) {
        hn_driver_level *level = &d->levels[l];
        status = hn_arena_array(&d->arena, d->schedule.steps.count, sizeof *level->step_kernels,
                                &level->step_kernels);
        for (uint32_t k = 0; k < d->schedule.steps.count && !status; k++)
            status = print_planned(d, level, k, &scratch);
    }
    hn_arena_deinit(&scratch);
    return status;
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
    const hn_kernel_code *x = *(const hn_kernel_code *const *)a,
                         *y = *(const hn_kernel_code *const *)b;
    if (x->text.len != y->text.len) return x->text.len < y->text.len ? 1 : -1;
    return memcmp(x->digest.bytes, y->digest.bytes, sizeof x->digest.bytes);
}

/* The units of a text of `bytes`. See hn_target_kind.unit_bytes. */
static uint32_t unit_count(const hn_driver_level *level) {
    size_t bytes = 0, unit = level->target.kind->unit_bytes;
    for (uint32_t k = 0; k < level->unique.count; k++) bytes += level->unique.items[k]->text.len;
    size_t units = (bytes + unit - 1) / unit;
    return units < level->unique.count ? (uint32_t)units : level->unique.count;
}

/* Those of every unit of the target's kind, then its own. */
static hn_status flags_of(hn_driver *d, const hn_target *target, const char ***out,
                          size_t *out_count) {
    size_t count = 0, at = 0;
    for (const char *const *flag = target->kind->flags; *flag; flag++) count++;
    for (const char *c = target->flags; *c; c++) count += *c == ' ';
    HN_NEW(&d->scratch, *out, count + 1);
    for (const char *const *flag = target->kind->flags; *flag; flag++) (*out)[at++] = *flag;
    char *words = hn_arena_strndup(&d->scratch, target->flags, strlen(target->flags));
    if (!words) return HN_ERROR(HN_OUT_OF_MEMORY, "out of memory while submitting kernels");
    for (char *save = NULL, *word = strtok_r(words, " ", &save); word;
         word = strtok_r(NULL, " ", &save))
        (*out)[at++] = word;
    *out_count = at;
    return NULL;
}

hn_status hn_driver_submit_text(hn_driver *d, const hn_target *target, hn_str text,
                                const char *const *entries, uint32_t count, hn_future **out) {
    const char **flags;
    size_t flag_count = 0;
    HN_TRY(flags_of(d, target, &flags, &flag_count));
    return hn_compile_submit(d->scope,
                             &(hn_source){.name = entries[0],
                                          .language = target->kind->language,
                                          .text = text.ptr,
                                          .text_len = text.len,
                                          .entries = entries,
                                          .entry_count = count,
                                          .flags = flags,
                                          .flag_count = flag_count,
                                          .target = &target->architecture,
                                          .target_count = target->architecture != NULL},
                             out);
}

hn_status hn_driver_submit_unit(hn_driver *d, const hn_target *target,
                                const hn_kernel_code *const *kernels, uint32_t count,
                                hn_future **out) {
    hn_strbuf text;
    const char **entries;
    HN_NEW(&d->scratch, entries, count);
    for (uint32_t k = 0; k < count; k++) entries[k] = kernels[k]->name;
    hn_strbuf_init(&text);
    hn_status status = target->kind->unit(kernels, count, target, &text);
    if (!status)
        status = hn_driver_submit_text(d, target, hn_strbuf_str(&text), entries, count, out);
    hn_strbuf_deinit(&text);
    return status;
}

/* Which unit each different kernel is in: the longest first, each to the lightest unit. */
static hn_status pack_level(hn_driver *d, hn_driver_level *level, uint32_t first,
                            uint32_t *out_units) {
    const uint32_t units = *out_units = unit_count(level);
    size_t *load;
    if (!level->unique.count) return NULL;
    qsort(level->unique.items, level->unique.count, sizeof *level->unique.items,
          by_length_then_digest);
    HN_NEW(&d->arena, level->unit_of, level->unique.count);
    HN_NEW(&d->scratch, load, units);
    for (uint32_t k = 0; k < level->unique.count; k++) {
        uint32_t best = 0;
        for (uint32_t u = 1; u < units; u++)
            if (load[u] < load[best]) best = u;
        level->unit_of[k] = first + best;
        load[best] += level->unique.items[k]->text.len;
    }
    return NULL;
}

hn_status hn_driver_unit_kernels(hn_driver *d, const hn_driver_level *level, uint32_t unit,
                                 const hn_kernel_code ***out, uint32_t *out_count) {
    *out_count = 0;
    HN_NEW(&d->scratch, *out, level->unique.count);
    for (uint32_t k = 0; k < level->unique.count; k++)
        if (level->unit_of[k] == unit) (*out)[(*out_count)++] = level->unique.items[k];
    return NULL;
}

static hn_status submit_level(hn_driver *d, hn_driver_level *level) {
    const uint32_t first = d->units.count;
    uint32_t units, count;
    const hn_kernel_code **members;
    HN_TRY(pack_level(d, level, first, &units));
    for (uint32_t u = 0; u < units; u++) {
        hn_future *future;
        HN_TRY(hn_driver_unit_kernels(d, level, first + u, &members, &count));
        HN_TRY(hn_driver_submit_unit(d, &level->target, members, count, &future));
        HN_PUSH(&d->arena, &d->units, future);
    }
    return NULL;
}

/* The unit of a kernel. pack_level has sorted the different ones. */
static uint32_t unit_of(const hn_driver_level *level, const hn_kernel_code *kernel) {
    const hn_kernel_code **found = bsearch(&kernel, level->unique.items, level->unique.count,
                                           sizeof *level->unique.items, by_length_then_digest);
    return level->unit_of[found - level->unique.items];
}

static void place_steps(hn_driver *d, hn_driver_level *level) {
    for (uint32_t k = 0; k < d->schedule.steps.count; k++)
        for (hn_kernel_code *kernel = &level->step_kernels[k]; kernel && kernel->text.ptr;
             kernel = kernel->next) {
            kernel->object = unit_of(level, kernel);
            for (uint32_t v = 0; v < texts_of_variants(kernel); v++)
                kernel->variants[v].object = unit_of(level, &kernel->variants[v]);
        }
}

static hn_status submit_levels(hn_driver *d) {
    d->units.count = 0;
    for (uint32_t l = 0; l < d->level_count; l++) HN_TRY(submit_level(d, &d->levels[l]));
    return NULL;
}

/* The different ones of kernels of which some were replaced. */
static hn_status list_again(hn_driver *d, hn_driver_level *level) {
    hn_strmap known;
    hn_strmap_init(&known, &d->scratch);
    d->stats.kernels_unique -= level->unique.count;
    level->unique.count = 0;
    for (uint32_t k = 0; k < d->schedule.steps.count; k++)
        HN_TRY(add_step(d, level, &level->step_kernels[k], &known, false));
    d->stats.kernels_unique += level->unique.count;
    return NULL;
}

/* Units without the kernels that were replaced, and with those that replace them. */
static hn_status submit_fitting(hn_driver *d) {
    bool replaced;
    HN_TRY(hn_driver_fit(d, &replaced));
    if (!replaced) return NULL;
    for (uint32_t l = 0; l < d->level_count; l++) HN_TRY(list_again(d, &d->levels[l]));
    return submit_levels(d);
}

hn_status hn_driver_submit(hn_driver *d) {
    HN_TRY(hn_scope_create(d->service, &d->scope));
    HN_TRY(submit_levels(d));
    HN_TRY(submit_fitting(d));
    for (uint32_t l = 0; l < d->level_count; l++) place_steps(d, &d->levels[l]);
    return NULL;
}

hn_status hn_driver_pack(hn_driver *d, uint32_t *out_units) {
    *out_units = 0;
    for (uint32_t l = 0; l < d->level_count; l++) {
        uint32_t units;
        HN_TRY(pack_level(d, &d->levels[l], *out_units, &units));
        *out_units += units;
    }
    for (uint32_t l = 0; l < d->level_count; l++) place_steps(d, &d->levels[l]);
    return NULL;
}
