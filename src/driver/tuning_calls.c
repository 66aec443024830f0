/* tuning_calls.c: the forms of one call of an operation race at one set of sizes. They are in the
 * library already: nothing is compiled. */
#include "driver/call_forms.h"
#include "driver/tuning.h"

#include <string.h>

/* ---- who is told ---- */

hn_status hn_told_ask(void *user, uint32_t calls, double *out_ns) {
    const hn_told_form *f = user;
    HN_TRY(f->d->timer->call_ns(f->d->timer->user, &f->what, out_ns));
    *out_ns *= calls;
    return NULL;
}

/* Times that somebody says: hn_driver.timer. */
static hn_status race_told(hn_driver *d, const hn_tune_call_race *race, const char *const *names,
                           const hn_bench_options *bench, hn_bench_report **out) {
    hn_bench_candidate *candidates;
    hn_told_form *told;
    HN_NEW(&d->arena, candidates, race->count);
    HN_NEW(&d->arena, told, race->count);
    for (uint32_t k = 0; k < race->count; k++) {
        told[k] = (hn_told_form){
            .d = d,
            .what = {.kernel = race->job->kernel->t.name,
                     .form = &race->job->entries.items[race->entries[k]].v.name,
                     .sizes = hn_variant_sizes_at(&race->job->kernel->sizes, race->job->sample)}};
        candidates[k] =
            (hn_bench_candidate){.name = names[k], .user = &told[k], .run_timed = hn_told_ask};
    }
    return hn_bench(bench, candidates, race->count, out);
}

/* ---- who is timed ---- */

static hn_status name_forms(hn_driver *d, const hn_tune_call_race *race, const char ***out) {
    HN_NEW(&d->arena, *out, race->count);
    for (uint32_t k = 0; k < race->count; k++) {
        const hn_form_name *name = &race->job->entries.items[race->entries[k]].v.name;
        (*out)[k] = hn_arena_printf(&d->arena, HN_STR_FMT "%s" HN_STR_FMT, HN_STR_ARG(name->name),
                                    name->parameters.len ? " " : "", HN_STR_ARG(name->parameters));
        if (!(*out)[k]) return HN_ERROR(HN_OUT_OF_MEMORY, "no memory for the name of a form");
    }
    return NULL;
}

hn_status hn_tune_calls_race(hn_driver *d, const hn_tune_call_race *race,
                             const hn_bench_options *bench, hn_bench_report **out) {
    const hn_tune_kernel *kernel = race->job->kernel;
    const hn_ref_sizes sizes = hn_variant_sizes_at(&kernel->sizes, race->job->sample);
    const char **names;
    hn_ext_form *forms;
    hn_call_subject subject;
    HN_TRY(name_forms(d, race, &names));
    if (d->timer) return race_told(d, race, names, bench, out);
    HN_NEW(&d->arena, forms, race->count);
    for (uint32_t k = 0; k < race->count; k++) HN_TRY(hn_ext_form_read(names[k], &forms[k]));
    HN_TRY(hn_call_subject_init(&kernel->t.of, &sizes, &d->arena, &subject));
    return hn_bench_call_forms(bench, &subject, forms, names, race->count, out);
}
