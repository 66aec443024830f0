/* test_drive.c: threads that read the result of the job they wait for from the worker's socket themselves: that they do, and
 * that nobody waits in vain when they leave, are told to, or their worker ends. The test program is its own worker. */
#include "service/core.h"
#include "service/service.h"
#include "service/worker.h"

#include "base/file.h"
#include "base/trace.h"
#include "service_fixture.h"

#include <dirent.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static char dir[PATH_MAX - 256];

static void sleep_ms(int ms) { nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L}, NULL); }

static void wait_ready(hn_service *service) {
    hn_service_stats stats = {.workers_ready = 0};
    for (int i = 0; i < 1000 && stats.workers_ready < 2; i++) {
        sleep_ms(5);
        hn_service_stats_get(service, &stats);
    }
    EXPECT_INT(stats.workers_ready, 2);
}

/* A compiler that takes half a second, or half a minute, over a source that says so. */
static hn_service *open_slow(void) {
    char cc[PATH_MAX];
    EXPECT_OK(hn_dir_temp(dir, sizeof(dir)));
    snprintf(cc, sizeof(cc), "%s/cc", dir);
    FILE *file = fopen(cc, "w");
    EXPECT(file != NULL);
    fputs("#!/bin/sh\n"
          "case $1 in --version) exec gcc --version;; esac\n"
          "grep -q NAP kernel.c 2>/dev/null && sleep 0.5\n"
          "grep -q HANG kernel.c 2>/dev/null && sleep 30\n"
          "exec gcc \"$@\"\n",
          file);
    fclose(file);
    EXPECT(chmod(cc, 0700) == 0);
    setenv("HENRY_CC", cc, 1);
    hn_service *service = service_open((hn_service_options){.warm = true});
    wait_ready(service);
    return service;
}

static void close_slow(hn_service *service) {
    hn_service_destroy(service);
    unsetenv("HENRY_CC");
    EXPECT_OK(hn_dir_remove(dir));
}

static bool has_driver(hn_service *service) {
    hn_core *core = NULL;
    EXPECT_OK(hn_core_current(service, &core));
    pthread_mutex_lock(&core->lock);
    bool has = core->has_driver;
    pthread_mutex_unlock(&core->lock);
    return has;
}

typedef struct waiter {
    pthread_t thread;
    hn_future *future;
    int64_t timeout_ms;
    hn_code code;
} waiter;

static void *wait_main(void *argument) {
    waiter *w = argument;
    hn_status status = hn_future_wait(w->future, w->timeout_ms, NULL);
    w->code = hn_status_code(status);
    hn_status_free(status);
    return NULL;
}

/* Returns when a thread sleeps at the socket of the worker. */
static void start_waiter(hn_service *service, waiter *w) {
    EXPECT(pthread_create(&w->thread, NULL, wait_main, w) == 0);
    for (int i = 0; i < 1000 && !has_driver(service); i++) sleep_ms(2);
    EXPECT(has_driver(service));
    sleep_ms(20);
}

/* ---- the pool's thread sleeps ---- */

/* How often the other threads of this process went to sleep so far. */
static long sleeps_of_others(void) {
    long all = 0, number;
    DIR *tasks = opendir("/proc/self/task");
    for (const struct dirent *entry; tasks && (entry = readdir(tasks));) {
        char path[300], line[256];
        if (entry->d_name[0] == '.' || atoi(entry->d_name) == getpid()) continue;
        snprintf(path, sizeof(path), "/proc/self/task/%s/status", entry->d_name);
        FILE *file = fopen(path, "r");
        while (file && fgets(line, sizeof(line), file))
            if (sscanf(line, "voluntary_ctxt_switches: %ld", &number) == 1) all += number;
        if (file) fclose(file);
    }
    if (tasks) closedir(tasks);
    return all;
}

static bool is_isolated(hn_service *service) {
    char path[64], theirs[64] = "", ours[64] = "";
    pid_t pid = 0;
    EXPECT_INT(hn_service_worker_pids(service, &pid, 1), 1);
    snprintf(path, sizeof(path), "/proc/%d/ns/pid", (int)pid);
    return readlink(path, theirs, sizeof(theirs) - 1) > 0 && readlink("/proc/self/ns/pid", ours, sizeof(ours) - 1) > 0 &&
           strcmp(theirs, ours) != 0;
}

TEST(small_jobs_do_not_wake_the_thread_of_the_pool) {
    enum { JOBS = 50 };
    hn_service *service = service_open((hn_service_options){.warm = true, .idle_ms = -1});
    hn_scope *scope = scope_open(service);
    wait_ready(service);
    EXPECT_OK(hn_future_wait(submit_c(scope, "int first(void) { return 0; }\n"), -1, NULL));
    long before = sleeps_of_others();
    for (int i = 0; i < JOBS; i++) {
        char text[64];
        snprintf(text, sizeof(text), "int f%d(void) { return %d; }\n", i, i);
        EXPECT_OK(hn_future_wait(submit_c(scope, text), -1, NULL));
    }
    /* Otherwise twice for each; some for what a sanitizer's thread does. Without namespaces it counts the processes of each. */
    if (is_isolated(service)) EXPECT(sleeps_of_others() - before < JOBS / 2);
    hn_scope_destroy(scope);
    hn_service_destroy(service);
}

/* ---- leaving ---- */

TEST(who_leaves_gives_the_socket_back) {
    hn_service *service = open_slow();
    hn_scope *scope = scope_open(service);
    hn_future *future = submit_c(scope, "int a; /* NAP */");
    EXPECT_ERROR(hn_future_wait(future, 50, NULL), HN_TIMEOUT, "still being compiled");
    EXPECT(!has_driver(service));
    for (int i = 0; i < 1000 && !hn_future_is_done(future); i++) sleep_ms(10); /* read by the pool's thread */
    EXPECT_OK(hn_future_wait(future, 0, NULL));
    future = submit_c(scope, "int b; /* NAP */");
    EXPECT_ERROR(hn_future_wait(future, 50, NULL), HN_TIMEOUT, "still being compiled");
    EXPECT_OK(hn_future_wait(future, 20000, NULL));
    hn_scope_destroy(scope);
    close_slow(service);
}

TEST(two_that_wait_for_one_job_both_get_it) {
    hn_service *service = open_slow();
    hn_scope *scope = scope_open(service);
    waiter first = {.future = submit_c(scope, "int a; /* NAP */"), .timeout_ms = 20000};
    start_waiter(service, &first);
    EXPECT_OK(hn_future_wait(submit_c(scope, "int a; /* NAP */"), -1, NULL));
    pthread_join(first.thread, NULL);
    EXPECT_INT(first.code, HN_OK);
    EXPECT(!has_driver(service));
    hn_scope_destroy(scope);
    close_slow(service);
}

TEST(cancelling_wakes_who_waits_at_the_socket) {
    hn_service *service = open_slow();
    hn_scope *scope = scope_open(service);
    waiter first = {.future = submit_c(scope, "int a; /* HANG */"), .timeout_ms = 20000};
    start_waiter(service, &first);
    int64_t begin_ns = hn_now_ns();
    hn_future_cancel(first.future);
    pthread_join(first.thread, NULL);
    EXPECT_INT(first.code, HN_CANCELLED);
    EXPECT(hn_now_ns() - begin_ns < 10 * 1000000000LL); /* not at the end of the job or of the limit */
    EXPECT_OK(hn_future_wait(submit_c(scope, "int good;\n"), 20000, NULL));
    hn_scope_destroy(scope);
    close_slow(service);
}

TEST(the_end_of_a_worker_wakes_who_waits_at_its_socket) {
    hn_service *service = open_slow();
    hn_scope *scope = scope_open(service);
    pid_t pids[2];
    waiter first = {.future = submit_c(scope, "int a; /* HANG */"), .timeout_ms = 20000};
    start_waiter(service, &first);
    EXPECT_INT(hn_service_worker_pids(service, pids, 2), 2);
    for (int i = 0; i < 2; i++) EXPECT(kill(pids[i], SIGKILL) == 0); /* one of them has it */
    pthread_join(first.thread, NULL);
    EXPECT_INT(first.code, HN_TOOLCHAIN);
    hn_service_stats stats = {.workers_ready = 1}; /* a job for the other one, before its end is noticed, would fail too */
    for (int i = 0; i < 1000 && stats.workers_ready; i++) {
        sleep_ms(2);
        hn_service_stats_get(service, &stats);
    }
    EXPECT_OK(hn_future_wait(submit_c(scope, "int good;\n"), 20000, NULL));
    EXPECT(!has_driver(service));
    hn_scope_destroy(scope);
    close_slow(service);
}

int main(int argc, char **argv) {
    if (argc >= 3 && strcmp(argv[1], "--worker") == 0) return hn_worker_main(argc, argv);
    return hn_test_main(argc, argv);
}
