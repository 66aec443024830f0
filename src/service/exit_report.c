/* exit_report.c: HENRY_LOG=service:info tells a service's statistics when it ends; a program that ends without ending its
 * services has not told them then. A handler at its exit does, or when the library is unloaded: only where somebody
 * listens, since a handler cannot be taken back. What it knows outlives the service therefore. */
#include "service/core.h"

#include "base/log.h"
#include "service/service.h"

#include <stdlib.h>
#include <unistd.h>

struct hn_exit_report {
    pthread_mutex_t lock;
    hn_service *service; /* NULL: it has ended */
};

/* What atexit is made of, with an argument; both C libraries of Linux have it. */
extern int __cxa_atexit(void (*function)(void *), void *argument, void *library);
extern void *__dso_handle __attribute__((visibility("hidden")));

void hn_core_report(hn_core *core) {
    hn_service_stats stats;
    hn_strbuf text;
    if (!hn_log_on("service", HN_LOG_INFO)) return;
    hn_core_stats(core, &stats);
    if (!stats.pools) return;
    hn_strbuf_init(&text);
    hn_service_stats_print(&stats, &text);
    hn_log("service", HN_LOG_INFO, HN_STR_FMT, HN_STR_ARG(hn_strbuf_str(&text)));
    hn_strbuf_deinit(&text);
}

/* A child that was forked has its own service or none: the locks of the copy may be held for ever. */
static void report_at_exit(void *argument) {
    hn_exit_report *report = argument;
    if (pthread_mutex_trylock(&report->lock) != 0) return; /* it is ending this moment */
    hn_core *core = report->service ? atomic_load(&report->service->core) : NULL;
    if (core && core->pid == getpid()) hn_core_report(core);
    pthread_mutex_unlock(&report->lock);
}

void hn_exit_report_begin(hn_service *service) {
    if (!hn_log_on("service", HN_LOG_INFO)) return;
    hn_exit_report *report = calloc(1, sizeof(*report));
    if (!report) return;
    report->service = service;
    if (pthread_mutex_init(&report->lock, NULL) != 0 || __cxa_atexit(report_at_exit, report, &__dso_handle) != 0) {
        free(report);
        return;
    }
    service->exit_report = report;
}

void hn_exit_report_end(hn_service *service) {
    hn_exit_report *report = service->exit_report;
    if (!report) return;
    pthread_mutex_lock(&report->lock);
    report->service = NULL;
    pthread_mutex_unlock(&report->lock);
}
