/* henry/metrics.h: counters of what the compiler did.
 *
 * One table has a row for each counter: name, unit, meaning. Counters are kept for each compilation
 * (hn_compiled_metrics_get, henry/program.h) and, summed up, for the process. A program that comes
 * from the cache counts what its compilation counted, as far as the row says so.
 *
 *     hn_metrics before, after, mine;
 *     hn_metrics_snapshot(&before);
 *     ... compile ...
 *     hn_metrics_snapshot(&after);
 *     hn_metrics_difference(&after, &before, &mine);
 *     for (uint32_t k = 0; k < hn_metric_count(); k++)
 *         printf("%s %" PRId64 "\n", hn_metric_get(k)->name, mine.values[k]);
 *
 * A compilation is counted when it ends. Link libhenry.
 * Threads: all functions may be called at any time. A snapshot during the end of a compilation may have
 * some of its counters and not others. */
#ifndef HENRY_METRICS_H
#define HENRY_METRICS_H

#include "henry/status.h"

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A counter. Strings are static. */
typedef struct hn_metric {
    const char *name;    /* "kernels_generated" */
    const char *unit;    /* "kernels", "bytes", "ns" */
    const char *meaning; /* a sentence */
    bool is_cached;      /* a hit of the graph cache counts what the compilation had counted */
} hn_metric;

enum { HN_METRICS_MAX = 128 };

/* A number for each counter: that of hn_metric_get(k) is values[k]. Those behind the last are 0. */
typedef struct hn_metrics {
    int64_t values[HN_METRICS_MAX];
} hn_metrics;

/* At most HN_METRICS_MAX. New counters are appended, none is removed. */
HN_API uint32_t hn_metric_count(void);
/* NULL beyond the last. */
HN_API const hn_metric *hn_metric_get(uint32_t index);
/* By name; 0 for a name that no counter has, and for NULL. */
HN_API int64_t hn_metrics_value(const hn_metrics *metrics, const char *name);

/* The sums of this process since it began, or since the last reset. */
HN_API void hn_metrics_snapshot(hn_metrics *out);
/* out = after - before; `out` may be one of them. */
HN_API void hn_metrics_difference(const hn_metrics *after, const hn_metrics *before,
                                  hn_metrics *out);
/* The sums of this process begin at 0 again. */
HN_API void hn_metrics_reset(void);

/* ---- tables: a row for each kernel, pass, buffer ... of a compilation ----
 *
 * hn_compile_options.metric_tables, or HENRY_METRIC_TABLES, names those that are wanted. Rows go to
 * metric_table_NAME.csv, or to metric_table_NAME.jsonl for the name NAME.jsonl, in the folder
 * hn_compile_options.metric_dir. docs/metrics.md describes the files. */

typedef enum hn_column_type {
    HN_COLUMN_TEXT = 0,
    HN_COLUMN_INT = 1,
    HN_COLUMN_FLOAT = 2,
    HN_COLUMN_BOOL = 3
} hn_column_type;

/* Strings are static. */
typedef struct hn_metric_column {
    const char *name; /* "read_bytes" */
    hn_column_type type;
    const char *unit; /* "bytes"; "" of what has none */
    const char *meaning;
} hn_metric_column;

typedef struct hn_metric_table {
    const char *name; /* "kernel_metadata" */
    const char *meaning;
    uint32_t column_count;
    const hn_metric_column *columns;
} hn_metric_table;

HN_API uint32_t hn_metric_table_count(void);
/* NULL beyond the last. */
HN_API const hn_metric_table *hn_metric_table_get(uint32_t index);
/* Whether a text names tables: "graph_stats,kernel_metadata.jsonl", "all". NULL and "" name none.
 * Errors: invalid-argument, with the list of all. */
HN_API hn_status hn_metric_tables_check(const char *names) HN_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
