/* fit.c: kernels for GPUs that do not fit their processor.
 *
 * The planner does not know how many registers a form takes: the compiler does. What does not fit
 * goes to the stack, which is slow memory: such a kernel is replaced by the next best plan that
 * has no stack. The other plans are compiled only if the first one needs it, a few at a time: the
 * next ones are often layouts of as many registers. Behind them come plans of few registers, whose
 * threads take one element after the other. Only a body whose values for one element are more than
 * the registers of a thread has a stack in these, too; it keeps the least, with a warning.
 *
 * Forms of tuning records stay unless they have a stack, and so do those of a kernel that has
 * several: each is replaced by itself, and runs where the other one would have. */
#include "driver/driver.h"

#include "base/cubin.h"
#include "base/log.h"
#include "base/map.h"
#include "base/trace.h"

enum { PLANS_MAX = 16, FEW_REGISTERS_PLANS_MAX = 4, PLANS_AT_ONCE = 4 };

/* A kernel of a step, or a variant of one, that may be replaced. */
typedef struct candidate {
    hn_kernel_code *kernel;
    const hn_kernel *scheduled;
    hn_form *plans[PLANS_MAX + FEW_REGISTERS_PLANS_MAX]; /* perhaps with the kernel's own */
    uint32_t plan_count, tried;
    /* those on their way; equal kernels of several steps have one each: one job */
    hn_kernel_code codes[PLANS_AT_ONCE];
    hn_future *futures[PLANS_AT_ONCE];
    uint32_t count;
    hn_kernel_code best;  /* so far, */
    uint32_t stack_bytes; /* and its stack */
} candidate;

typedef struct candidates {
    candidate *items;
    uint32_t count, cap;
} candidates;

/* What was compiled here is found in memory when it is wanted again. */
static hn_status note_compiled(hn_driver *d, const hn_future *future, const hn_artifact *artifact) {
    const char *key = hn_artifact_key(artifact);
    if (hn_future_hit_level(future) != HN_HIT_NONE) return NULL;
    char *own = hn_arena_strndup(&d->arena, key, strlen(key));
    if (!own) return HN_ERROR(HN_OUT_OF_MEMORY, "out of memory while compiling kernels");
    return hn_strmap_put(&d->compiled, hn_str_of(own), 1);
}

/* Of a kernel, when its unit is done; 0 where the code does not tell. */
static hn_status stack_of(hn_driver *d, hn_future *future, const hn_target *target,
                          const hn_kernel_code *kernel, uint32_t *out) {
    hn_artifact *artifact;
    hn_image image;
    hn_cubin_use use = {.stack_bytes = 0};
    *out = 0;
    HN_TRY(hn_future_wait(future, -1, &artifact));
    hn_status status = note_compiled(d, future, artifact);
    if (!status) status = hn_artifact_image_find(artifact, target->architecture, &image);
    if (!status && hn_cubin_use_find((hn_str){image.bytes, image.len}, kernel->name, &use))
        *out = use.stack_bytes;
    hn_artifact_release(artifact);
    return status;
}

/* The stack of the different kernels of a level, by digest; none if there are none. */
static hn_status list_stacks(hn_driver *d, const hn_driver_level *level, hn_strmap *out) {
    for (uint32_t k = 0; k < level->unique.count; k++) {
        const hn_kernel_code *kernel = level->unique.items[k];
        const hn_str key = {(const char *)kernel->digest.bytes, sizeof kernel->digest.bytes};
        uint32_t bytes;
        HN_TRY(stack_of(d, d->units.items[level->unit_of[k]], &level->target, kernel, &bytes));
        if (bytes) HN_TRY(hn_strmap_put(out, key, bytes));
    }
    return NULL;
}

/* If the kernel has a stack. */
static hn_status add_candidate(hn_driver *d, const hn_strmap *stacks, const hn_kernel *scheduled,
                               hn_kernel_code *kernel, candidates *out) {
    const hn_str key = {(const char *)kernel->digest.bytes, sizeof kernel->digest.bytes};
    const uint64_t *bytes = hn_strmap_get(stacks, key);
    if (!bytes) return NULL;
    HN_PUSH(
        &d->arena, out,
        ((candidate){.kernel = kernel, .scheduled = scheduled, .stack_bytes = (uint32_t)*bytes}));
    return NULL;
}

static hn_status list_candidates(hn_driver *d, hn_driver_level *level, candidates *out) {
    hn_strmap stacks;
    hn_strmap_init(&stacks, &d->arena);
    HN_TRY(list_stacks(d, level, &stacks));
    for (uint32_t k = 0; k < d->schedule.steps.count; k++) {
        const hn_step *step = &d->schedule.steps.items[k];
        hn_kernel_code *kernel = &level->step_kernels[k];
        if (step->kind != HN_STEP_KERNEL || kernel->is_forced) continue;
        HN_TRY(add_candidate(d, &stacks, step->kernel, kernel, out));
        for (uint32_t v = 0; v < kernel->variant_count; v++)
            HN_TRY(add_candidate(d, &stacks, step->kernel, &kernel->variants[v], out));
    }
    return NULL;
}

static bool is_done(const candidate *c) { return !c->stack_bytes || c->tried >= c->plan_count; }

static hn_status add_plans(hn_driver *d, const hn_target *target, candidate *c, uint32_t most) {
    uint32_t count;
    HN_TRY(target->kind->plan(d->program, c->scheduled, target, most, &d->arena, &d->scratch,
                              c->plans + c->plan_count, &count));
    c->plan_count += count;
    return NULL;
}

static hn_status list_plans(hn_driver *d, const hn_target *target, candidate *c) {
    const hn_gpu_facts facts = hn_gpu_facts_few_registers(target->gpu);
    hn_target few = *target;
    few.gpu = &facts;
    c->best = *c->kernel;
    HN_TRY(add_plans(d, target, c, PLANS_MAX));
    /* the first one is most kernels' own */
    c->tried = c->plan_count && !c->kernel->is_picked;
    return add_plans(d, &few, c, FEW_REGISTERS_PLANS_MAX);
}

/* The next plans, printed and on their way. */
static hn_status submit_next(hn_driver *d, const hn_target *target, candidate *c) {
    for (c->count = 0; c->count < PLANS_AT_ONCE && !is_done(c); c->count++) {
        hn_kernel_code *code = &c->codes[c->count];
        HN_TRY(hn_target_print_form(target, c->plans[c->tried++], &d->arena, &d->scratch, code));
        HN_TRY(hn_driver_submit_unit(d, target, (const hn_kernel_code *const[]){code}, 1,
                                     &c->futures[c->count]));
    }
    return NULL;
}

static hn_status take_best(hn_driver *d, const hn_target *target, candidate *c) {
    for (uint32_t k = 0; k < c->count && c->stack_bytes; k++) {
        uint32_t bytes;
        HN_TRY(stack_of(d, c->futures[k], target, &c->codes[k], &bytes));
        if (bytes < c->stack_bytes) c->stack_bytes = bytes, c->best = c->codes[k];
    }
    return NULL;
}

/* A round for all candidates: the compilers work side by side. `*out_left`: another one is due. */
static hn_status try_next(hn_driver *d, const hn_target *target, candidates *list, bool *out_left) {
    *out_left = false;
    for (uint32_t k = 0; k < list->count; k++) HN_TRY(submit_next(d, target, &list->items[k]));
    for (uint32_t k = 0; k < list->count; k++) {
        HN_TRY(take_best(d, target, &list->items[k]));
        *out_left |= !is_done(&list->items[k]);
    }
    return NULL;
}

static void tell(const hn_target *target, const candidate *c) {
    if (c->stack_bytes)
        hn_log("toolchain", HN_LOG_WARN,
               "kernel '%s' for %s has more values than there are registers in any form: it keeps "
               "%u bytes of a thread in memory, which is slow",
               c->best.name, target->name, c->stack_bytes);
    else
        hn_log("toolchain", HN_LOG_INFO,
               "kernel '%s' for %s has a stack: in its place '%s' has none%s", c->kernel->name,
               target->name, c->best.name,
               c->kernel->is_picked ? "; the form of the tuning record is not used" : "");
}

/* What it has beside its own form stays: the table, of which it may be the first. */
static void replace(const hn_target *target, candidate *c, bool *replaced) {
    hn_kernel_code *kernel = c->kernel;
    tell(target, c);
    if (strcmp(c->best.name, kernel->name) == 0) return;
    c->best.variant_count = kernel->variant_count;
    c->best.variants = kernel->variants;
    c->best.choice = kernel->choice;
    *kernel = c->best;
    *replaced = true;
}

static hn_status fit_level(hn_driver *d, hn_driver_level *level, bool *replaced) {
    const hn_target *target = &level->target;
    candidates list = {.count = 0};
    HN_TRY(list_candidates(d, level, &list));
    for (uint32_t k = 0; k < list.count; k++) HN_TRY(list_plans(d, target, &list.items[k]));
    for (bool left = list.count > 0; left;) HN_TRY(try_next(d, target, &list, &left));
    for (uint32_t k = 0; k < list.count; k++) replace(target, &list.items[k], replaced);
    return NULL;
}

static hn_status fit_levels(hn_driver *d, bool *replaced) {
    HN_TRY(hn_scope_wait(d->scope, HN_OPT(&d->options, progress),
                         HN_OPT(&d->options, progress_context)));
    for (uint32_t l = 0; l < d->level_count; l++) HN_TRY(fit_level(d, &d->levels[l], replaced));
    return NULL;
}

hn_status hn_driver_fit(hn_driver *d, bool *out_replaced) {
    *out_replaced = false;
    if (!d->levels[0].target.architecture) return NULL; /* all levels are of one kind */
    const int64_t begin = hn_now_ns();
    hn_status status = fit_levels(d, out_replaced);
    d->stats.compile_ns = hn_now_ns() - begin;
    return status;
}
