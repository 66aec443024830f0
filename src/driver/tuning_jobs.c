/* tuning_jobs.c: which kernels of a schedule are to be timed: each of several equal ones once, at
 * each set of sizes. */
#include "driver/tuning.h"

#include "base/log.h"
#include "driver/call_forms.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SHARE_LEAST = 1000 }; /* kernels are timed that take one part of so many of a run */

/* Equal kernels, of which the same sizes are expected. */
typedef struct equals_key {
    uint32_t level;
    hn_digest digest;
    int64_t values[HN_VARIANT_SYMBOLS_MAX];
} equals_key;

typedef struct listing {
    hn_driver *d;
    hn_size_hints hints;
    bool *hint_used; /* per hint: some kernel depends on it */
    hn_strmap known; /* equals_key -> number of the kernel */
    struct {
        hn_tune_kernel **items;
        uint32_t count, cap;
    } kernels;
} listing;

/* ---- kernels ---- */

static hn_status key_of(listing *x, uint32_t level, const hn_kernel_identity *id,
                        equals_key **out) {
    HN_NEW(&x->d->arena, *out, 1);
    (*out)->level = level;
    (*out)->digest = id->digest;
    for (uint32_t k = 0; k < id->symbol_count; k++)
        (*out)->values[k] = hn_sym_hint(x->d->sym, id->symbols[k], 0);
    return NULL;
}

/* Whether the caller has named sizes of the kernel. */
static bool has_hints(listing *x, const hn_kernel_identity *id) {
    bool found = false;
    for (uint32_t h = 0; h < x->hints.count; h++)
        for (uint32_t k = 0; k < id->symbol_count; k++) {
            const hn_str name = hn_sym_symbol_name(x->d->sym, id->symbols[k]);
            if (!hn_str_eq(name, x->hints.items[h].symbol)) continue;
            x->hint_used[h] = found = true;
        }
    return found;
}

/* The set is that of the usual sizes, whatever is timed: records are looked for by it. How many
 * combinations are timed is up to the budget. */
static hn_status complete(listing *x, hn_tune_kernel *kernel) {
    hn_tunable *t = &kernel->t;
    HN_TRY(hn_tunable_complete(t, &x->d->arena));
    kernel->sizes = t->sizes;
    kernel->all = t->set;
    const bool is_named = has_hints(x, &t->id);
    if (!t->id.is_tunable || (!is_named && t->sizes.count < HN_VARIANT_SAMPLES)) return NULL;
    HN_TRY(hn_variant_sizes_list(&t->of, &t->id, &x->hints, &x->d->arena, &kernel->sizes));
    return hn_variants_over(&t->of, &kernel->sizes, 0, &x->d->arena, &kernel->all);
}

/* What is only known as the program runs is no call that can be compared. */
static hn_status identify(listing *x, const hn_target *target, const hn_step *step,
                          hn_tunable *out) {
    if (step->kind == HN_STEP_KERNEL)
        return hn_tunable_identify(x->d, target, step->kernel, &x->d->arena, out);
    return hn_tunable_identify_call(x->d, target, step->item, &x->d->arena, out);
}

static hn_status add_kernel(listing *x, uint32_t level, const hn_step *step) {
    hn_tune_kernel *own;
    equals_key *key;
    HN_NEW(&x->d->arena, own, 1);
    own->level = &x->d->levels[level];
    HN_TRY(identify(x, &own->level->target, step, &own->t));
    HN_TRY(key_of(x, level, &own->t.id, &key));
    const hn_str text = {(const char *)key, sizeof *key};
    const uint64_t *found = hn_strmap_get(&x->known, text);
    if (found) {
        x->kernels.items[*found]->launches++;
        return NULL;
    }
    own->launches = 1;
    HN_TRY(hn_strmap_put(&x->known, text, x->kernels.count));
    HN_PUSH(&x->d->arena, &x->kernels, own);
    return complete(x, own);
}

static bool is_tunable_call(const listing *x, uint32_t level, const hn_step *step) {
    if (step->kind != HN_STEP_EXTERN) return false;
    const hn_variants_of of = {.program = x->d->program,
                               .call = x->d->program->items.items[step->item].ext,
                               .target = &x->d->levels[level].target};
    return hn_call_is_tunable(&of);
}

static hn_status list_kernels(listing *x) {
    for (uint32_t l = 0; l < x->d->level_count; l++) {
        if (!hn_driver_can_run(&x->d->levels[l].target)) continue;
        for (uint32_t k = 0; k < x->d->schedule.steps.count; k++) {
            const hn_step *step = &x->d->schedule.steps.items[k];
            if (step->kind == HN_STEP_KERNEL || is_tunable_call(x, l, step))
                HN_TRY(add_kernel(x, l, step));
        }
    }
    return NULL;
}

static hn_status read_hints(listing *x) {
    x->hints = *x->d->hints;
    x->hints.samples_max = HN_VARIANT_SAMPLES_MAX;
    HN_NEW(&x->d->arena, x->hint_used, x->hints.count + 1u);
    return NULL;
}

static void warn_of_hints(const listing *x) {
    for (uint32_t h = 0; h < x->hints.count; h++)
        if (!x->hint_used[h])
            hn_log("tune", HN_LOG_WARN, "no kernel depends on a size '" HN_STR_FMT "'",
                   HN_STR_ARG(x->hints.items[h].symbol));
}

/* ---- forms ---- */

static bool is_in_set(const hn_tunable *t, const hn_form_name *name) {
    for (uint32_t k = 0; k < t->set.count; k++)
        if (hn_form_name_eq(&t->names[k], name)) return true;
    return false;
}

hn_status hn_tune_entry_add(hn_driver *d, hn_tune_job *job, const hn_variant *v, double ns) {
    const bool is_extra = !is_in_set(&job->kernel->t, &v->name);
    for (uint32_t k = 0; k < job->entries.count; k++)
        if (hn_form_name_eq(&job->entries.items[k].v.name, &v->name)) return NULL;
    hn_tune_entry entry = {.v = *v, .is_extra = is_extra};
    entry.v.ns = ns;
    HN_PUSH(&d->arena, &job->entries, entry);
    return NULL;
}

/* 0: the form cannot be had at these sizes. */
static hn_status expect(const hn_tune_job *job, const hn_variant *v, double *out) {
    const hn_ref_sizes sizes = hn_variant_sizes_at(&job->kernel->sizes, job->sample);
    hn_status status = hn_variant_cost(&job->kernel->t.of, &v->name, &sizes, out);
    if (hn_status_code(status) != HN_NOT_FOUND) return status;
    hn_status_free(status);
    *out = 0;
    return NULL;
}

static hn_status add_expected(listing *x, hn_tune_job *job, const hn_variant *v) {
    double ns;
    HN_TRY(expect(job, v, &ns));
    return hn_tune_entry_add(x->d, job, v, ns);
}

/* By what is expected; at the first sizes, what is made without a measurement is in front. */
static hn_status list_entries(listing *x, hn_tune_job *job) {
    const hn_tunable *t = &job->kernel->t;
    const hn_variants *all = &job->kernel->all;
    const double *ns = &all->ns[(size_t)job->sample * all->count];
    uint32_t order[HN_VARIANTS_MAX];
    if (!job->sample) HN_TRY(add_expected(x, job, &t->planned));
    hn_variants_order(all, job->sample, order);
    for (uint32_t k = 0; k < all->count; k++)
        HN_TRY(hn_tune_entry_add(x->d, job, &all->items[order[k]], ns[order[k]]));
    for (uint32_t k = 0; k < t->set.count; k++) HN_TRY(add_expected(x, job, &t->set.items[k]));
    return add_expected(x, job, &t->planned);
}

static hn_status choose_forms(listing *x, hn_tune_job *job) {
    double best = INFINITY;
    for (uint32_t k = 0; k < job->entries.count; k++) {
        const double ns = job->entries.items[k].v.ns;
        if (ns > 0 && ns < best) best = ns;
    }
    job->predicted_ns = isfinite(best) ? best * job->kernel->launches : 0;
    /* nothing is expected that would tell forms of calls apart */
    const uint32_t most = job->kernel->t.of.call ? job->entries.count : HN_TUNE_FORMS_MOST;
    for (uint32_t k = 0; k < job->entries.count && job->racing.count < most; k++) {
        const double ns = job->entries.items[k].v.ns;
        if (!k || (ns > 0 && ns <= best * HN_TUNE_FORMS_MARGIN))
            HN_PUSH(&x->d->arena, &job->racing, k);
    }
    return NULL;
}

/* ---- jobs ---- */

static hn_status add_job(listing *x, hn_tune_kernel *kernel, uint32_t sample, hn_tune_jobs *out) {
    hn_tune_job *job;
    HN_NEW(&x->d->arena, job, 1);
    *job = (hn_tune_job){.kernel = kernel, .sample = sample, .why = ""};
    if (kernel->t.id.is_tunable) {
        HN_TRY(list_entries(x, job));
        HN_TRY(choose_forms(x, job));
        if (job->entries.count < 2) job->why = "it has one form";
        else if (job->racing.count < 2) job->why = "one form is far ahead by the model of costs";
    } else {
        job->why = "it depends on sizes that are known only as it runs";
        job->predicted_ns = kernel->t.planned.ns * kernel->launches;
        HN_TRY(hn_tune_entry_add(x->d, job, &kernel->t.planned, kernel->t.planned.ns));
    }
    HN_PUSH(&x->d->arena, out, job);
    if (!sample) kernel->predicted_ns = job->predicted_ns;
    return NULL;
}

/* Of one level: kernels that take a thousandth of a run are not timed. What they could gain is
 * nothing, and a form of so short a kernel wins by noise. Where sizes differ from call to call, the
 * share does, too. */
static void leave_out_short(const hn_tune_jobs *jobs, const hn_driver_level *level) {
    double all_ns = 0;
    for (uint32_t k = 0; k < jobs->count; k++)
        if (jobs->items[k]->kernel->level == level && !jobs->items[k]->sample)
            all_ns += jobs->items[k]->kernel->predicted_ns;
    for (uint32_t k = 0; k < jobs->count; k++) {
        hn_tune_job *job = jobs->items[k];
        const hn_tune_kernel *kernel = job->kernel;
        if (!*job->why && kernel->level == level && !kernel->t.id.symbol_count &&
            kernel->predicted_ns < all_ns / SHARE_LEAST)
            job->why = "it takes less than 0.1 % of a run by the model of costs";
    }
}

/* Sizes of a kernel are in an order that covers all of them: so none is timed twice as finely as
 * another one, whatever the sizes at which it takes longest. */
static int by_share(const void *a, const void *b) {
    const hn_tune_job *x = *(hn_tune_job *const *)a, *y = *(hn_tune_job *const *)b;
    const double x_ns = x->kernel->predicted_ns, y_ns = y->kernel->predicted_ns;
    if (x->sample != y->sample) return x->sample < y->sample ? -1 : 1;
    if (x_ns != y_ns) return x_ns < y_ns ? 1 : -1;
    return memcmp(&x->kernel->t.id.digest, &y->kernel->t.id.digest, sizeof(hn_digest));
}

hn_status hn_tune_jobs_list(hn_driver *d, hn_tune_jobs *out) {
    listing x = {.d = d};
    hn_strmap_init(&x.known, &d->arena);
    *out = (hn_tune_jobs){.count = 0};
    HN_TRY(read_hints(&x));
    HN_TRY(list_kernels(&x));
    warn_of_hints(&x);
    for (uint32_t k = 0; k < x.kernels.count; k++) {
        const uint32_t samples = x.kernels.items[k]->sizes.count;
        for (uint32_t s = 0; s < samples || !s; s++)
            HN_TRY(add_job(&x, x.kernels.items[k], s, out));
    }
    for (uint32_t l = 0; l < d->level_count; l++) leave_out_short(out, &d->levels[l]);
    if (out->count) qsort(out->items, out->count, sizeof(hn_tune_job *), by_share);
    return NULL;
}
