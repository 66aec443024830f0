/* metrics.h: counters, from inside: henry/metrics.h says what they are. */
#ifndef HN_METRICS_METRICS_H
#define HN_METRICS_METRICS_H

#include "henry/metrics.h"

typedef enum hn_metric_id {
#define HN_METRIC(id, name, unit, is_cached, meaning) HN_METRIC_##id,
#include "metrics/metrics.def"
#undef HN_METRIC
    HN_METRIC_COUNT
} hn_metric_id;

static inline void hn_metrics_count(hn_metrics *m, hn_metric_id id, int64_t by) {
    m->values[id] += by;
}
void hn_metrics_add(hn_metrics *sum, const hn_metrics *m);
/* Keeps what a hit of the graph cache counts. */
void hn_metrics_keep_cached(hn_metrics *m);
/* Adds to the sums of the process. */
void hn_metrics_publish(const hn_metrics *m);

#endif
