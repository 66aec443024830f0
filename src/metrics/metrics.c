/* metrics.c: the table of counters, and the sums of the process. */
#include "metrics/metrics.h"

#include <stdatomic.h>
#include <string.h>

static const hn_metric rows[] = {
#define HN_METRIC(id, name, unit, is_cached, meaning) {name, unit, meaning, is_cached},
#include "metrics/metrics.def"
#undef HN_METRIC
};
_Static_assert((int)HN_METRIC_COUNT <= (int)HN_METRICS_MAX, "HN_METRICS_MAX is part of the ABI");

/* No lock: a child of fork may look, too. */
static _Atomic int64_t sums[HN_METRIC_COUNT];

uint32_t hn_metric_count(void) { return HN_METRIC_COUNT; }

const hn_metric *hn_metric_get(uint32_t index) {
    return index < HN_METRIC_COUNT ? &rows[index] : NULL;
}

int64_t hn_metrics_value(const hn_metrics *metrics, const char *name) {
    for (uint32_t k = 0; metrics && name && k < HN_METRIC_COUNT; k++)
        if (strcmp(rows[k].name, name) == 0) return metrics->values[k];
    return 0;
}

void hn_metrics_add(hn_metrics *sum, const hn_metrics *m) {
    for (uint32_t k = 0; k < HN_METRIC_COUNT; k++) sum->values[k] += m->values[k];
}

void hn_metrics_difference(const hn_metrics *after, const hn_metrics *before, hn_metrics *out) {
    if (!after || !before || !out) return;
    for (uint32_t k = 0; k < HN_METRICS_MAX; k++)
        out->values[k] = after->values[k] - before->values[k];
}

void hn_metrics_keep_cached(hn_metrics *m) {
    for (uint32_t k = 0; k < HN_METRIC_COUNT; k++)
        if (!rows[k].is_cached) m->values[k] = 0;
}

void hn_metrics_publish(const hn_metrics *m) {
    for (uint32_t k = 0; k < HN_METRIC_COUNT; k++)
        if (m->values[k]) atomic_fetch_add_explicit(&sums[k], m->values[k], memory_order_relaxed);
}

void hn_metrics_snapshot(hn_metrics *out) {
    if (!out) return;
    *out = (hn_metrics){.values = {0}};
    for (uint32_t k = 0; k < HN_METRIC_COUNT; k++)
        out->values[k] = atomic_load_explicit(&sums[k], memory_order_relaxed);
}

void hn_metrics_reset(void) {
    for (uint32_t k = 0; k < HN_METRIC_COUNT; k++)
        atomic_store_explicit(&sums[k], 0, memory_order_relaxed);
}
