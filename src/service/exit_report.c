/* exit_report.c: what is left to do for a service when its program ends without ending it: telling
 * the statistics, if somebody listens, and writing the compile times, if they are asked for. A
 * handler at the program's exit does it, or when the library is unloaded. It is set once, and what
 * it knows of a service outlives that: other threads may still end theirs.
 *
 * An exit must not hang: a lock that does not come free soon is held by somebody who will not go
 * on. */
#include "service/core.h"

#include "base/lock.h"
#include "base/log.h"
#include "service/service.h"

#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { LOCK_LIMIT_MS = 100 };

struct hn_exit_report {
    hn_exit_report *next; /* never changes */
    atomic_bool is_taken;
    pthread_mutex_t lock;
    hn_service *service; /* NULL: it has ended */
};

/* As many as there were services at one time. A list without a lock, since a fork may happen at any
 * time. */
static _Atomic(hn_exit_report *) reports;
static pthread_once_t handler_once = PTHREAD_ONCE_INIT;

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

static bool lock_soon(pthread_mutex_t *lock) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += LOCK_LIMIT_MS * 1000000L;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    return hn_lock_until(lock, &until);
}

/* A child that was forked has its own service or none: the locks of the copy may be held for
 * ever. */
static void finish(hn_service *service) {
    hn_core *core = service ? atomic_load(&service->core) : NULL;
    if (!core || core->pid != getpid() || !lock_soon(&core->lock)) return;
    hn_unlock(&core->lock);
    hn_core_report(core);
    hn_core_write_times(core);
}

static void at_exit(void *argument) {
    (void)argument;
    for (hn_exit_report *report = atomic_load(&reports); report; report = report->next) {
        /* it is ending this moment */
        if (!atomic_load(&report->is_taken) || !hn_trylock(&report->lock)) continue;
        finish(report->service);
        hn_unlock(&report->lock);
    }
}

static void set_handler(void) {
    if (__cxa_atexit(at_exit, NULL, &__dso_handle) != 0)
        hn_log("service", HN_LOG_DEBUG, "no memory for a handler at the exit");
}

static hn_exit_report *take_report(void) {
    hn_exit_report *report = atomic_load(&reports);
    for (; report; report = report->next)
        if (!atomic_exchange(&report->is_taken, true)) return report;
    report = calloc(1, sizeof(*report));
    if (!report || pthread_mutex_init(&report->lock, NULL) != 0) {
        free(report);
        return NULL;
    }
    atomic_init(&report->is_taken, true);
    report->next = atomic_load(&reports);
    while (!atomic_compare_exchange_weak(&reports, &report->next, report)) {
    }
    return report;
}

void hn_exit_report_begin(hn_service *service) {
    hn_exit_report *report = take_report();
    if (!report) return;
    pthread_once(&handler_once, set_handler);
    hn_lock(&report->lock);
    report->service = service;
    hn_unlock(&report->lock);
    service->exit_report = report;
}

void hn_exit_report_end(hn_service *service) {
    hn_exit_report *report = service->exit_report;
    if (!report) return;
    hn_lock(&report->lock);
    report->service = NULL;
    hn_unlock(&report->lock);
    atomic_store(&report->is_taken, false);
}
