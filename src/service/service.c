/* service.c: making, choosing and ending a compile service; its core in this process; statistics as
 * text. */
#include "service/service.h"

#include "base/lock.h"
#include "base/log.h"
#include "base/process.h"
#include "base/trace.h"
#include "service/core.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    DEFAULT_THREADS_MAX = 32,
    DEFAULT_TIMEOUT_MS = 300 * 1000,
    DEFAULT_IDLE_MS = 60 * 1000,
    DEFAULT_PROCESSES = 256,
    DEFAULT_SLOW_MS = 60 * 1000,
    LONGEST_MS = 1000000 * 1000, /* eleven days */
};
#define DEFAULT_MEMORY_BYTES ((uint64_t)8 << 30)

/* Where henry-worker is installed, as seen from libraries and from programs. */
#ifndef HN_WORKER_FROM_LIB
#define HN_WORKER_FROM_LIB "../libexec/henry"
#define HN_WORKER_FROM_BIN "../libexec/henry"
#endif

/* ---- options ---- */

static int32_t affinity_count(void) {
    /* More CPUs than a cpu_set_t holds make the call fail: then there are enough. */
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof(set), &set) != 0)
        return errno == EINVAL ? DEFAULT_THREADS_MAX : 1;
    return CPU_COUNT(&set);
}

static int32_t choose_threads(int32_t wanted) {
    const char *text = getenv("HENRY_COMPILE_THREADS");
    if (wanted <= 0 && text && text[0]) {
        char *end;
        long number = strtol(text, &end, 10);
        if (!*end && number >= 1 && number <= HN_WORKERS_MAX) return (int32_t)number;
        hn_warn_once("service", "threads",
                     "HENRY_COMPILE_THREADS is '%s', expected 1 to %d; ignored", text,
                     HN_WORKERS_MAX);
    }
    if (wanted > 0) return wanted < HN_WORKERS_MAX ? wanted : HN_WORKERS_MAX;
    int32_t count = affinity_count();
    return count < 1 ? 1 : count > DEFAULT_THREADS_MAX ? DEFAULT_THREADS_MAX : count;
}

/* Why a file cannot be run; NULL: it can. */
static const char *worker_obstacle(const char *path) {
    struct stat info;
    if (stat(path, &info) != 0) return strerror(errno);
    if (S_ISDIR(info.st_mode)) return strerror(EISDIR);
    return access(path, X_OK) == 0 ? NULL : strerror(errno);
}

static bool try_worker(const char *dir, const char *tail, char out[PATH_MAX]) {
    if (!dir[0] || snprintf(out, PATH_MAX, "%s/%s", dir, tail) >= PATH_MAX) return false;
    return !worker_obstacle(out);
}

/* The directory of the library that this code was loaded from: a host program may lie anywhere. ""
 * in a program that was linked statically: the loader knows such a file by whatever argv[0]
 * says. */
static void library_dir(char out[PATH_MAX]) {
    Dl_info info;
    struct link_map *map = NULL;
    out[0] = 0;
    if (!dladdr1((void *)(uintptr_t)library_dir, &info, (void **)&map, RTLD_DL_LINKMAP) || !map ||
        !strchr(map->l_name, '/'))
        return;
    if (!realpath(map->l_name, out)) out[0] = 0;
    char *slash = strrchr(out, '/');
    if (slash) *slash = 0;
}

/* The worker of the installation whose `henry` is the first in PATH. Relative members depend on the
 * current directory. */
static bool find_beside_henry(char out[PATH_MAX]) {
    char dir[PATH_MAX], program[PATH_MAX];
    const char *path = getenv("PATH");
    while (path && *path) {
        size_t len = strcspn(path, ":");
        if (path[0] == '/' && len < sizeof(dir)) {
            snprintf(dir, sizeof(dir), "%.*s", (int)len, path);
            if (try_worker(dir, "henry", program))
                return try_worker(dir, HN_WORKER_FROM_BIN "/henry-worker", out) ||
                       try_worker(dir, "henry-worker", out);
        }
        path += len + (path[len] == ':');
    }
    return false;
}

/* Beside the program or the library, as after a build, or where an installation has it as seen from
 * them, so that it can be moved; for programs that were linked statically and lie elsewhere, with
 * the `henry` in PATH. */
static bool look_for_worker(char found[PATH_MAX]) {
    char dir[PATH_MAX];
    const char *exe_dir = hn_process_exe_dir();
    library_dir(dir);
    return try_worker(exe_dir, "henry-worker", found) ||
           try_worker(exe_dir, HN_WORKER_FROM_BIN "/henry-worker", found) ||
           try_worker(dir, "henry-worker", found) ||
           try_worker(dir, HN_WORKER_FROM_LIB "/henry-worker", found) || find_beside_henry(found);
}

static bool find_worker(char out[PATH_MAX]) {
    char found[PATH_MAX];
    return look_for_worker(found) && realpath(found, out);
}

static void choose_worker(const char *wanted, int32_t threads, char out[PATH_MAX]) {
    const char *given = wanted ? wanted : getenv("HENRY_WORKER"), *obstacle;
    out[0] = 0;
    if (given && (wanted || given[0])) {
        if (!given[0]) return;
        if (snprintf(out, PATH_MAX, "%s", given) >= PATH_MAX) obstacle = strerror(ENAMETOOLONG);
        else if (!(obstacle = worker_obstacle(out))) return;
        hn_warn_once("service", "worker-path",
                     "compiling without worker processes: cannot run '%s': %s", given, obstacle);
    } else {
        if (find_worker(out)) {
            hn_log("service", HN_LOG_INFO, "compile workers are '%s'", out);
            return;
        }
        if (threads > 1)
            hn_warn_once(
                "service", "worker-missing",
                "compiling without worker processes, one kernel after the other: found no henry-worker beside the program or the library, in "
                "'" HN_WORKER_FROM_LIB
                "' from there, or with the henry in PATH; set HENRY_WORKER to its path");
    }
    out[0] = 0;
}

static int64_t choose_slow_ns(int64_t wanted_ms) {
    const char *text = getenv("HENRY_SLOW_JOBS");
    if (wanted_ms) return wanted_ms < 0 ? 0 : wanted_ms < LONGEST_MS ? wanted_ms * 1000000 : 0;
    if (!text || !text[0]) return DEFAULT_SLOW_MS * 1000000LL;
    char *end;
    long seconds = strtol(text, &end, 10);
    if (!*end && seconds >= 0 && seconds <= LONGEST_MS / 1000) return seconds * 1000000000LL;
    hn_warn_once("service", "slow-jobs",
                 "HENRY_SLOW_JOBS is '%s', expected seconds from 0 to %d; ignored", text,
                 LONGEST_MS / 1000);
    return DEFAULT_SLOW_MS * 1000000LL;
}

static bool is_standby_off(void) {
    const char *text = getenv("HENRY_STANDBY");
    return text && strcmp(text, "off") == 0;
}

static const char *choose_path(const char *wanted, const char *variable) {
    const char *path = wanted ? wanted : variable;
    return path && path[0] ? path : NULL;
}

/* Numbered above the standard descriptors, which workers and tools get. */
static int open_worker_log(const char *path) {
    if (!path) return -1;
    int low = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    int fd = low >= 0 ? fcntl(low, F_DUPFD_CLOEXEC, 3) : -1;
    if (fd < 0)
        hn_warn_once("service", "worker-log", "what workers print is lost: cannot open '%s': %s",
                     path, strerror(errno));
    if (low >= 0) close(low);
    return fd;
}

static void free_service(hn_service *service) {
    hn_store_close(service->store);
    if (service->worker_log_fd >= 0) close(service->worker_log_fd);
    free(service->compile_times_path);
    free(service->remote_url);
    free(service->cache_tag);
    free(service);
}

/* ---- services ---- */

static void set_limits(hn_service *service, const hn_service_options *o) {
    service->job_timeout_ms = o->job_timeout_ms < 0 ? 0
                              : o->job_timeout_ms   ? o->job_timeout_ms
                                                    : DEFAULT_TIMEOUT_MS;
    service->job_memory_bytes = o->job_memory_bytes == UINT64_MAX ? 0
                                : o->job_memory_bytes             ? o->job_memory_bytes
                                                                  : DEFAULT_MEMORY_BYTES;
    service->job_processes = o->job_processes ? o->job_processes : DEFAULT_PROCESSES;
    service->idle_ms = o->idle_ms ? o->idle_ms : DEFAULT_IDLE_MS;
    service->slow_job_ns = choose_slow_ns(o->slow_job_ms);
}

/* NULL stays NULL. False without memory. */
static bool copy_text(const char *text, char **out) {
    *out = text ? strdup(text) : NULL;
    return *out || !text;
}

static hn_status set_names(hn_service *service, const hn_service_options *o) {
    const char *times_path = choose_path(o->compile_times_path, getenv("HENRY_COMPILE_TIMES"));
    if (copy_text(o->remote_url, &service->remote_url) &&
        copy_text(times_path, &service->compile_times_path) &&
        copy_text(hn_cache_tag(o->cache_tag), &service->cache_tag))
        return NULL;
    return HN_ERROR(HN_OUT_OF_MEMORY, "no memory for a compile service");
}

hn_status hn_service_create(const hn_service_options *options, hn_service **out_service) {
    const hn_service_options o = options ? *options : (hn_service_options){.threads = 0};
    hn_service *service = calloc(1, sizeof(*service));
    if (!service) return HN_ERROR(HN_OUT_OF_MEMORY, "no memory for a compile service");
    service->threads = choose_threads(o.threads);
    choose_worker(o.worker_path, service->threads, service->worker_path);
    set_limits(service, &o);
    service->no_standby = o.no_standby || is_standby_off();
    service->worker_log_fd =
        open_worker_log(choose_path(o.worker_log_path, getenv("HENRY_WORKER_LOG")));
    hn_core *core = NULL;
    const hn_store_options store = {.dir = o.cache_dir, .max_bytes = o.cache_max_bytes};
    hn_status status = hn_store_open(&store, &service->store);
    if (!status) status = set_names(service, &o);
    if (!status) status = hn_core_create(service, &core);
    if (status) {
        free_service(service);
        return status;
    }
    atomic_init(&service->core, core);
    hn_exit_report_begin(service);
    /* of this process, hence without errors */
    if (o.warm) hn_status_free(hn_service_warm(service));
    *out_service = service;
    return NULL;
}

hn_status hn_service_warm(hn_service *service) {
    hn_core *core;
    HN_TRY(hn_core_current(service, &core));
    hn_lock(&core->lock);
    hn_core_need_workers(core, service->threads);
    hn_unlock(&core->lock);
    return NULL;
}

static bool wait_until(hn_core *core, int64_t until_ns) {
    const struct timespec until = {.tv_sec = until_ns / 1000000000,
                                   .tv_nsec = until_ns % 1000000000};
    if (!until_ns) return pthread_cond_wait(&core->changed, &core->lock) == 0;
    return pthread_cond_timedwait(&core->changed, &core->lock, &until) == 0 ||
           hn_now_ns() < until_ns;
}

hn_status hn_service_quiesce(hn_service *service, int64_t timeout_ms) {
    hn_core *core;
    HN_TRY(hn_core_current(service, &core));
    int64_t until_ns = timeout_ms >= 0 && timeout_ms < INT64_MAX / 2000000
                           ? hn_now_ns() + timeout_ms * 1000000
                           : 0;
    bool in_time = true;
    hn_lock(&core->lock);
    core->quiescing++;
    if (core->is_pool_running) hn_pool_wake(core);
    while (!hn_core_is_at_rest(core) && in_time) in_time = wait_until(core, until_ns);
    bool is_at_rest = hn_core_is_at_rest(core);
    core->quiescing--;
    uint32_t busy = core->running + core->queue.count;
    hn_unlock(&core->lock);
    hn_core_write_times(core);
    return is_at_rest
               ? NULL
               : HN_ERROR(HN_TIMEOUT,
                          "the compile service is not at rest after %lld ms: %u jobs are left",
                          (long long)timeout_ms, busy);
}

void hn_service_clear(hn_service *service) {
    hn_core *core = atomic_load(&service->core);
    if (core->pid != getpid()) return; /* a forked child begins with nothing */
    hn_lock(&core->lock);
    while (core->done.first) hn_core_drop_done(core, core->done.first);
    hn_unlock(&core->lock);
}

/* In a forked child the copy of the parent's core is in an unknown state (its lock may be held by a
 * thread that does not exist here): it is left alone but for its descriptors, and a fresh core
 * takes its place. */
static hn_status fresh_core(hn_service *service, hn_core *old, hn_core **out_core) {
    hn_core *core;
    HN_TRY(hn_core_create(service, &core));
    if (!atomic_compare_exchange_strong(&service->core, &old, core)) {
        hn_core_destroy(core); /* another thread of the child was faster */
        *out_core = old;
        return NULL;
    }
    for (int i = 0; i < HN_WORKERS_MAX; i++)
        if (old->worker_fds[i] >= 0) close(old->worker_fds[i]);
    for (int i = 0; i < HN_POOL_FDS; i++)
        if (old->pool_fds[i] >= 0) close(old->pool_fds[i]);
    if (old->budget_fd >= 0) close(old->budget_fd);
    hn_cache_abandon(&old->cache);
    *out_core = core;
    return NULL;
}

hn_status hn_core_current(hn_service *service, hn_core **out_core) {
    *out_core = atomic_load(&service->core);
    return (*out_core)->pid == getpid() ? NULL : fresh_core(service, *out_core, out_core);
}

void hn_service_destroy(hn_service *service) {
    if (!service) return;
    hn_exit_report_end(service);
    hn_core *core = atomic_load(&service->core);
    if (core->pid == getpid()) {
        hn_pool_stop(core);
        hn_core_end_inline(core);
        hn_core_report(core);
        hn_core_write_times(core);
        hn_core_destroy(core);
    }
    free_service(service);
}

hn_store *hn_service_store(const hn_service *service) { return service->store; }

hn_status hn_service_cache(hn_service *service, hn_cache **out_cache) {
    hn_core *core;
    HN_TRY(hn_core_current(service, &core));
    *out_cache = &core->cache;
    return NULL;
}

void hn_service_wait_stored(hn_service *service) {
    hn_core *core;
    hn_status status = hn_core_current(service, &core);
    if (status) {
        hn_status_free(status);
        return;
    }
    hn_lock(&core->lock);
    while (core->storing) pthread_cond_wait(&core->changed, &core->lock);
    hn_unlock(&core->lock);
}

bool hn_service_is_inline(hn_service *service) {
    hn_core *core;
    hn_status status = hn_core_current(service, &core);
    if (status) {
        hn_status_free(status);
        return true;
    }
    hn_lock(&core->lock);
    bool is_inline = core->is_inline;
    hn_unlock(&core->lock);
    return is_inline;
}

uint32_t hn_service_worker_pids(hn_service *service, pid_t *out_pids, uint32_t cap) {
    hn_core *core;
    uint32_t count = 0;
    hn_status status = hn_core_current(service, &core);
    if (status) {
        hn_status_free(status);
        return 0;
    }
    hn_lock(&core->lock);
    for (int i = 0; i < HN_WORKERS_MAX && count < cap; i++)
        if (core->worker_pids[i]) out_pids[count++] = core->worker_pids[i];
    hn_unlock(&core->lock);
    return count;
}

void hn_service_stats_get(hn_service *service, hn_service_stats *out_stats) {
    hn_core *core;
    hn_status status = hn_core_current(service, &core);
    if (status) *out_stats = (hn_service_stats){.pools = 0};
    else hn_core_stats(core, out_stats);
    hn_status_free(status);
}

static void print_remote(const hn_service_stats *s, hn_strbuf *out) {
    hn_strbuf_printf(
        out,
        "; remote cache: %llu hits, %llu misses, %llu stored, %llu damaged, %llu refused, %llu failures, %llu not "
        "tried, %.2f ms, %.2f ms at most",
        (unsigned long long)s->remote.hits, (unsigned long long)s->remote.misses,
        (unsigned long long)s->remote.puts, (unsigned long long)s->remote.damaged,
        (unsigned long long)s->remote.refused, (unsigned long long)s->remote.failures,
        (unsigned long long)s->remote.skipped, (double)s->remote.total_ns / 1e6,
        (double)s->remote.longest_ns / 1e6);
}

void hn_service_stats_print(const hn_service_stats *s, hn_strbuf *out) {
    hn_strbuf_printf(
        out,
        "%llu pools, %llu jobs asked for: %llu compiled, %llu from memory, %llu from disk, %llu from remote, %llu joined, ",
        (unsigned long long)s->pools, (unsigned long long)s->submitted,
        (unsigned long long)s->compiled, (unsigned long long)s->hits[HN_HIT_MEMORY],
        (unsigned long long)s->hits[HN_HIT_DISK], (unsigned long long)s->hits[HN_HIT_REMOTE],
        (unsigned long long)s->hits[HN_HIT_INFLIGHT]);
    hn_strbuf_printf(
        out,
        "%llu failed, %llu crashed, %llu timed out, %llu abandoned; %llu enqueued, %llu dequeued, %llu cancelled, ",
        (unsigned long long)s->failed, (unsigned long long)s->crashed,
        (unsigned long long)s->timed_out, (unsigned long long)s->abandoned,
        (unsigned long long)s->enqueued, (unsigned long long)s->dequeued,
        (unsigned long long)s->cancelled);
    hn_strbuf_printf(out, "depth at most %llu; waited at most %.2f ms, P50 %.2f ms",
                     (unsigned long long)s->depth_max, (double)s->wait_longest_ns / 1e6,
                     (double)s->wait_p50_ns / 1e6);
    /* unknown below 20 jobs */
    if (s->wait_p95_ns) hn_strbuf_printf(out, ", P95 %.2f ms", (double)s->wait_p95_ns / 1e6);
    for (uint32_t i = 0; i < s->language_count; i++)
        if (s->service_time[i].count)
            hn_strbuf_printf(
                out, "; language '%s': %llu jobs, %.2f ms on average, %.2f ms at most",
                s->service_time[i].language, (unsigned long long)s->service_time[i].count,
                (double)s->service_time[i].total_ns / 1e6 / (double)s->service_time[i].count,
                (double)s->service_time[i].longest_ns / 1e6);
    for (uint32_t i = 0; i < s->slowest_count && i < 3; i++)
        hn_strbuf_printf(out, "%s'%s' %.2f ms", i ? ", " : "; longest: ", s->slowest[i].kernel,
                         (double)s->slowest[i].ns / 1e6);
    if (s->time_saved_ns)
        hn_strbuf_printf(out, "; %.2f ms of compiling saved", (double)s->time_saved_ns / 1e6);
    for (int k = 0; k < HN_BYPASS_COUNT; k++)
        if (s->bypasses[k])
            hn_strbuf_printf(out, "; %llu not kept: %s", (unsigned long long)s->bypasses[k],
                             hn_cache_bypass_name((hn_cache_bypass)k));
    if (s->waited_elsewhere)
        hn_strbuf_printf(out, "; %llu waited for another process",
                         (unsigned long long)s->waited_elsewhere);
    if (s->remote.is_on) print_remote(s, out);
}

hn_status hn_service_toolchain_identity(hn_service *service, const char *language, hn_strbuf *out) {
    hn_core *core;
    const hn_toolchain_row *row;
    const hn_toolchain *toolchain;
    HN_TRY(hn_core_current(service, &core));
    HN_TRY(hn_toolchain_row_find(hn_str_of(language), &row));
    HN_TRY(hn_core_toolchain(core, row, &toolchain));
    hn_toolchain_identity_print(toolchain, out);
    return hn_strbuf_status(out);
}

hn_status hn_service_environment(const char *language, hn_strbuf *out) {
    const hn_toolchain_row *row;
    HN_TRY(hn_toolchain_row_find(hn_str_of(language), &row));
    hn_job_environment(row, out);
    return hn_strbuf_status(out);
}

hn_status hn_service_key_record(hn_service *service, const hn_source *source, hn_strbuf *out) {
    hn_core *core;
    const hn_toolchain *toolchain;
    HN_TRY(hn_core_current(service, &core));
    return hn_core_build_record(core, source, &toolchain, out);
}
