/* why_tuning.c: what `henry cache why MODEL` says of a model that was tuned: which records count,
 * and why others do not. */
#include "cache/record.h"
#include "driver/known.h"
#include "driver/tuning.h"

typedef struct search {
    hn_str graph;
    bool found;
} search;

static void look_at(void *user, const hn_store_entry *entry) {
    search *s = user;
    hn_str graph;
    s->found |= hn_record_find(entry->record, "graph", &graph) && hn_str_eq(graph, s->graph);
}

bool hn_known_tuning_was_ever(hn_cache *cache, const hn_known_tuning *known) {
    search s = {.found = false};
    if (!hn_record_find(hn_strbuf_str(&known->key_record), "graph", &s.graph)) return false;
    hn_status_free(hn_store_each(cache->store, HN_STORE_TUNING, look_at, &s));
    return s.found;
}

static hn_status say_of(hn_driver *d, const hn_tune_kernel *kernel, const hn_picks *places,
                        hn_strbuf *out) {
    hn_str device;
    hn_picks_wanted wanted;
    HN_TRY(hn_driver_picks_device(d, kernel->level, &device));
    hn_tunable_want(&kernel->t, device, &wanted);
    wanted.sizes = kernel->sizes.values;
    wanted.sample_count = kernel->sizes.count;
    return hn_picks_why(places, &wanted, out);
}

hn_status hn_driver_why_tuning(hn_driver *d, hn_strbuf *out) {
    hn_tune_jobs jobs;
    hn_cache *cache;
    HN_TRY(hn_service_cache(d->service, &cache));
    HN_TRY(hn_driver_kernels(d));
    HN_TRY(hn_tune_jobs_list(d, &jobs));
    const hn_picks places = {.file = &d->picks->file, .cache = cache};
    for (uint32_t k = 0; k < jobs.count; k++)
        if (!jobs.items[k]->sample && jobs.items[k]->kernel->t.set.count > 1)
            HN_TRY(say_of(d, jobs.items[k]->kernel, &places, out));
    return hn_strbuf_status(out);
}
