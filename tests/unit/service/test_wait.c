/* test_wait.c: threads that wait for a job that a worker has: that nobody waits in vain when
 * another one waits too, when a wait ends before the job, when the job is cancelled, or when its
 * worker ends. The test program is its own worker. */
#include "service/service.h"
#include "service/worker.h"

#include "base/file.h"
#include "base/trace.h"
#include "service_fixture.h"

#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static char dir[PATH_MAX - 256];

static void sleep_ms(int ms) {
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L}, NULL);
}

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

/* Whether a worker has a job. */
static bool is_running(hn_service *service) {
    hn_service_stats stats;
    hn_service_stats_get(service, &stats);
    return stats.dequeued > stats.compiled + stats.failed + stats.crashed;
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

/* Returns when a worker has the job, and a thread sleeps until it is done. */
static void start_waiter(hn_service *service, waiter *w) {
    EXPECT(pthread_create(&w->thread, NULL, wait_main, w) == 0);
    for (int i = 0; i < 1000 && !is_running(service); i++) sleep_ms(2);
    EXPECT(is_running(service));
    sleep_ms(20);
}

TEST(a_wait_that_ends_before_the_job_loses_nothing) {
    hn_service *service = open_slow();
    hn_scope *scope = scope_open(service);
    hn_future *future = submit_c(scope, "int a; /* NAP */");
    EXPECT_ERROR(hn_future_wait(future, 50, NULL), HN_TIMEOUT, "still being compiled");
    for (int i = 0; i < 1000 && !hn_future_is_done(future); i++) sleep_ms(10);
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
    hn_scope_destroy(scope);
    close_slow(service);
}

TEST(cancelling_wakes_who_waits) {
    hn_service *service = open_slow();
    hn_scope *scope = scope_open(service);
    waiter first = {.future = submit_c(scope, "int a; /* HANG */"), .timeout_ms = 20000};
    start_waiter(service, &first);
    int64_t begin_ns = hn_now_ns();
    hn_future_cancel(first.future);
    pthread_join(first.thread, NULL);
    EXPECT_INT(first.code, HN_CANCELLED);
    /* not at the end of the job or of the limit */
    EXPECT(hn_now_ns() - begin_ns < 10 * 1000000000LL);
    EXPECT_OK(hn_future_wait(submit_c(scope, "int good;\n"), 20000, NULL));
    hn_scope_destroy(scope);
    close_slow(service);
}

TEST(the_end_of_a_worker_wakes_who_waits) {
    hn_service *service = open_slow();
    hn_scope *scope = scope_open(service);
    pid_t pids[2];
    waiter first = {.future = submit_c(scope, "int a; /* HANG */"), .timeout_ms = 20000};
    start_waiter(service, &first);
    EXPECT_INT(hn_service_worker_pids(service, pids, 2), 2);
    for (int i = 0; i < 2; i++) EXPECT(kill(pids[i], SIGKILL) == 0); /* one of them has it */
    pthread_join(first.thread, NULL);
    EXPECT_INT(first.code, HN_TOOLCHAIN);
    /* a job for the other one, before its end is noticed, would fail too */
    hn_service_stats stats = {.workers_ready = 1};
    for (int i = 0; i < 1000 && stats.workers_ready; i++) {
        sleep_ms(2);
        hn_service_stats_get(service, &stats);
    }
    EXPECT_OK(hn_future_wait(submit_c(scope, "int good;\n"), 20000, NULL));
    hn_scope_destroy(scope);
    close_slow(service);
}

int main(int argc, char **argv) {
    if (argc >= 3 && strcmp(argv[1], "--worker") == 0) return hn_worker_main(argc, argv);
    return hn_test_main(argc, argv);
}
