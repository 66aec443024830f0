/* tuning_jobs.c: which kernels of a schedule are to be timed: each of several equal ones once, at each
 * set of sizes. */
#include "driver/tuning.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Forms that take part at one set of sizes: at most so many, of those that are expected to take at
 * most so many times as long as the best. */
enum { FORMS_MOST = 6 };
#define FORMS_MARGIN 1.6

/* Equal kernels, of which the same sizes are expected. */
typedef struct equals_key {
    uint32_t level;
    hn_digest digest;
    int64_t values[HN_VARIANT_SYMBOLS_MAX];
} equals_key;

typedef struct listing {
    hn_driver *d;
    hn_strmap known; /* equals_key -> number of the kernel */
    struct {
        hn_tune_kernel **items;
        uint32_t count, cap;
    } kernels;
} listing;

static hn_status key_of(listing *x, uint32_t level, const hn_kernel_identity *id,
                        equals_key **out) {
    HN_NEW(&x->d->arena, *out, 1);
    (*out)->level = level;
    (*out)->digest = id->digest;
    for (uint32_t k = 0; k < id->symbol_count; k++)
        (*out)->values[k] = hn_sym_hint(x->d->sym, id->symbols[k], 0);
    return NULL;
}

static hn_status add_kernel(listing *x, uint32_t level, const hn_kernel *kernel) {
    hn_tune_kernel *own;
    equals_key *key;
    HN_NEW(&x->d->arena, own, 1);
    own->level = &x->d->levels[level];
    HN_TRY(hn_tunable_identify(x->d, &own->level->target, kernel, &x->d->arena, &own->t));
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
    return hn_tunable_complete(&own->t, &x->d->arena);
}

static hn_status list_kernels(listing *x) {
    for (uint32_t l = 0; l < x->d->level_count; l++) {
        if (!hn_driver_can_run(&x->d->levels[l].target)) continue;
        for (uint32_t k = 0; k < x->d->schedule.steps.count; k++) {
            const hn_step *step = &x->d->schedule.steps.items[k];
            if (step->kind == HN_STEP_KERNEL) HN_TRY(add_kernel(x, l, step->kernel));
        }
    }
    return NULL;
}

/* ---- jobs ---- */

static void add_entry(hn_tune_job *job, const hn_variant *v, double ns) {
    job->entries[job->entry_count] = *v;
    job->entries[job->entry_count++].ns = ns;
}

/* 0: the form cannot be had at these sizes. */
static hn_status expect_planned(const hn_tune_job *job, double *out) {
    const hn_tunable *t = &job->kernel->t;
    const hn_ref_sizes sizes = hn_variant_sizes_at(&t->sizes, job->sample);
    hn_status status = hn_variant_cost(&t->of, &t->planned.name, &sizes, out);
    if (hn_status_code(status) != HN_NOT_FOUND) return status;
    hn_status_free(status);
    *out = 0;
    return NULL;
}

/* By what is expected; at the first sizes, what is made without a measurement is in front. */
static hn_status list_entries(hn_tune_job *job) {
    const hn_tunable *t = &job->kernel->t;
    const double *ns = &t->set.ns[(size_t)job->sample * t->set.count];
    uint32_t order[HN_VARIANTS_MAX];
    double planned_ns;
    HN_TRY(expect_planned(job, &planned_ns));
    hn_variants_order(&t->set, job->sample, order);
    job->has_extra = true;
    if (!job->sample) add_entry(job, &t->planned, planned_ns);
    for (uint32_t k = 0; k < t->set.count; k++) {
        const hn_variant *v = &t->set.items[order[k]];
        const bool is_planned = hn_form_name_eq(&v->name, &t->planned.name);
        job->has_extra &= !is_planned;
        if (job->sample || !is_planned) add_entry(job, v, ns[order[k]]);
    }
    if (job->sample && job->has_extra) add_entry(job, &t->planned, planned_ns);
    return NULL;
}

static void choose_forms(hn_tune_job *job) {
    double best = INFINITY;
    for (uint32_t k = 0; k < job->entry_count; k++)
        if (job->entries[k].ns > 0 && job->entries[k].ns < best) best = job->entries[k].ns;
    job->predicted_ns = isfinite(best) ? best * job->kernel->launches : 0;
    for (uint32_t k = 0; k < job->entry_count && job->form_count < FORMS_MOST; k++) {
        const double expected = job->entries[k].ns;
        const bool is_in_front = !k && !job->sample;
        if (!is_in_front && !(expected > 0 && expected <= best * FORMS_MARGIN)) continue;
        const hn_variant entry = job->entries[k];
        memmove(&job->entries[job->form_count + 1], &job->entries[job->form_count],
                (k - job->form_count) * sizeof entry);
        job->entries[job->form_count] = entry;
        job->forms[job->form_count++] = entry.form;
    }
}

static hn_status add_job(listing *x, hn_tune_kernel *kernel, uint32_t sample, hn_tune_jobs *out) {
    hn_tune_job *job;
    HN_NEW(&x->d->arena, job, 1);
    *job = (hn_tune_job){.kernel = kernel, .sample = sample, .why = ""};
    if (kernel->t.id.is_tunable) {
        HN_TRY(list_entries(job));
        choose_forms(job);
    } else {
        job->why = "it depends on sizes that are known only as it runs";
        job->predicted_ns = kernel->t.planned.ns * kernel->launches;
        add_entry(job, &kernel->t.planned, kernel->t.planned.ns);
    }
    if (job->entry_count < 2 && kernel->t.id.is_tunable) job->why = "it has one form";
    else if (job->form_count == 1) job->why = "one form is far ahead by the model of costs";
    HN_PUSH(&x->d->arena, out, job);
    return NULL;
}

static int by_share(const void *a, const void *b) {
    const hn_tune_job *x = *(hn_tune_job *const *)a, *y = *(hn_tune_job *const *)b;
    if (!x->sample != !y->sample) return x->sample ? 1 : -1;
    if (x->predicted_ns != y->predicted_ns) return x->predicted_ns < y->predicted_ns ? 1 : -1;
    return memcmp(&x->kernel->t.id.digest, &y->kernel->t.id.digest, sizeof(hn_digest));
}

hn_status hn_tune_jobs_list(hn_driver *d, hn_tune_jobs *out) {
    listing x = {.d = d};
    hn_strmap_init(&x.known, &d->arena);
    *out = (hn_tune_jobs){.count = 0};
    HN_TRY(list_kernels(&x));
    for (uint32_t k = 0; k < x.kernels.count; k++) {
        const uint32_t samples = x.kernels.items[k]->t.sizes.count;
        for (uint32_t s = 0; s < samples || !s; s++)
            HN_TRY(add_job(&x, x.kernels.items[k], s, out));
    }
    if (out->count) qsort(out->items, out->count, sizeof(hn_tune_job *), by_share);
    return NULL;
}
