/* test_limits.c: limits of waiting, progress and cancelling hold with workers and without; a
 * program that is stopped and goes on; a service that comes to rest. The test program is its own
 * worker. */
#include "service/service.h"
#include "service/worker.h"

#include "base/file.h"
#include "base/log.h"
#include "base/trace.h"
#include "service_fixture.h"

#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { LONG_MS = 15000 }; /* half of what a compiler takes that hangs: nobody waited for that */

static char dir[PATH_MAX - 256];
static const char hang[] = "/* HANG */ int hang;\n", fine[] = "int fine(int x) { return 2 * x; }\n";

static void sleep_ms(int ms) {
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L}, NULL);
}

static int ms_since(int64_t begin_ns) { return (int)((hn_now_ns() - begin_ns) / 1000000); }

static hn_service_stats stats_of(hn_service *service) {
    hn_service_stats stats;
    hn_service_stats_get(service, &stats);
    return stats;
}

static void begin(void) {
    static const char text[] =
        "#!/bin/sh\n"
        "case $1 in --version) exec gcc --version;; esac\n"
        "if grep -q HANG kernel.c; then touch $0.runs; sleep 30.3; fi\n"
        "if grep -q NAP kernel.c; then touch $0.runs; sleep 0.5; fi\n"
        "if grep -q COUNT kernel.c; then touch $0.on.$$; ls $0.on.* | wc -l >>$0.counts; sleep 0.05; rm $0.on.$$; fi\n"
        "exec gcc \"$@\"\n";
    char path[PATH_MAX];
    EXPECT_OK(hn_dir_temp(dir, sizeof(dir)));
    snprintf(path, sizeof(path), "%s/cc", dir);
    EXPECT_OK(hn_file_write_atomic(path, text, strlen(text), false));
    EXPECT(chmod(path, 0700) == 0);
    setenv("HENRY_CC", path, 1);
    hn_log_configure("error");
}

static void end(void) {
    hn_log_configure(NULL);
    unsetenv("HENRY_CC");
    EXPECT_OK(hn_dir_remove(dir));
}

static void wait_runs(void) {
    char path[PATH_MAX];
    snprintf(path, sizeof(path), "%s/cc.runs", dir);
    for (int i = 0; i < 8000 && !hn_file_exists(path); i++) sleep_ms(5);
    EXPECT(unlink(path) == 0);
}

/* ---- without workers ---- */

static const hn_service_options without[] = {{.threads = 1}, {.threads = 4, .worker_path = ""}};

TEST(a_wait_without_workers_ends_in_time) {
    begin();
    for (int i = 0; i < 2; i++) {
        hn_service *service = service_open(without[i]);
        hn_scope *scope = scope_open(service);
        hn_future *future = submit_c(scope, hang);
        int64_t begin_ns = hn_now_ns();
        EXPECT_ERROR(hn_future_wait(future, 200, NULL), HN_TIMEOUT, "is still being compiled");
        EXPECT(ms_since(begin_ns) >= 200 && ms_since(begin_ns) < LONG_MS);
        wait_runs(); /* the job goes on */
        EXPECT_ERROR(hn_future_wait(future, 50, NULL), HN_TIMEOUT, "is still being compiled");
        EXPECT_INT(stats_of(service).dequeued, 1);
        hn_future *other = submit_c(scope, fine);
        EXPECT_OK(hn_future_wait(other, 20000, NULL)); /* it does not wait for the first one */
        hn_scope_destroy(scope);
        hn_service_destroy(service); /* kills the compiler */
        EXPECT(ms_since(begin_ns) < LONG_MS);
    }
    end();
}

TEST(to_ask_starts_nothing) {
    begin();
    for (int i = 0; i < 2; i++) {
        hn_service *service = service_open(without[i]);
        hn_scope *scope = scope_open(service);
        hn_future *future = submit_c(scope, fine);
        EXPECT_ERROR(hn_future_wait(future, 0, NULL), HN_TIMEOUT, "is still being compiled");
        EXPECT(!hn_future_is_done(future));
        EXPECT_INT(stats_of(service).dequeued, 0);
        EXPECT_OK(hn_future_wait(future, -1, NULL));
        EXPECT_OK(hn_future_wait(future, 0, NULL));
        hn_scope_destroy(scope);
        hn_service_destroy(service);
    }
    end();
}

static bool ask_five_times(void *context, const hn_scope_progress *progress) {
    EXPECT_INT(progress->done, 0);
    return ++*(int *)context < 5;
}

TEST(progress_without_workers_is_told_while_a_job_runs) {
    begin();
    for (int i = 0; i < 2; i++) {
        int asked = 0;
        hn_service *service = service_open(without[i]);
        hn_scope *scope = scope_open(service);
        submit_c(scope, hang);
        int64_t begin_ns = hn_now_ns();
        EXPECT_ERROR(hn_scope_wait(scope, ask_five_times, &asked), HN_CANCELLED, "was cancelled");
        EXPECT_INT(asked, 5);
        hn_scope_destroy(scope);
        hn_service_destroy(service);
        EXPECT(ms_since(begin_ns) < LONG_MS);
    }
    end();
}

/* The most compilers that ran at once, of jobs whose text has COUNT. */
static int most_at_once(void) {
    char path[PATH_MAX];
    int most = 0, count;
    snprintf(path, sizeof(path), "%s/cc.counts", dir);
    FILE *file = fopen(path, "r");
    EXPECT(file);
    while (file && fscanf(file, "%d", &count) == 1)
        if (count > most) most = count;
    if (file) fclose(file);
    EXPECT(unlink(path) == 0);
    return most;
}

static void wait_for_scope_of(hn_service *service, int kernels) {
    hn_scope *scope = scope_open(service);
    for (int k = 0; k < kernels; k++) {
        char text[64];
        snprintf(text, sizeof(text), "/* COUNT */ int value = %d;\n", k);
        submit_c(scope, text);
    }
    EXPECT_OK(hn_scope_wait(scope, NULL, NULL));
    hn_scope_destroy(scope);
    hn_service_destroy(service);
}

TEST(a_scope_without_workers_starts_as_many_jobs_as_threads) {
    begin();
    wait_for_scope_of(service_open(without[0]), 12);
    EXPECT_INT(most_at_once(), 1);
    wait_for_scope_of(service_open(without[1]), 12);
    int most = most_at_once();
    EXPECT(most >= 1 && most <= 4);
    end();
}

TEST(while_workers_start_one_job_of_a_scope_runs_here) {
    static const char never_ready[] = "#!/bin/sh\nexec sleep 30.3\n";
    char path[PATH_MAX];
    begin();
    snprintf(path, sizeof(path), "%s/worker", dir);
    EXPECT_OK(hn_file_write_atomic(path, never_ready, strlen(never_ready), false));
    EXPECT(chmod(path, 0700) == 0);
    wait_for_scope_of(service_open((hn_service_options){.threads = 8, .worker_path = path}), 12);
    EXPECT_INT(most_at_once(), 1);
    end();
}

/* ---- cancelling what a worker has ---- */

TEST(a_job_that_nobody_wants_any_more_leaves_its_worker) {
    begin();
    hn_service *service = service_open((hn_service_options){.warm = true});
    hn_scope *scope = scope_open(service);
    hn_future *future = submit_c(scope, hang), *again;
    wait_runs();
    int64_t begin_ns = hn_now_ns();
    hn_future_cancel(future);
    while (!stats_of(service).abandoned && ms_since(begin_ns) < LONG_MS) sleep_ms(5);
    EXPECT_INT(stats_of(service).abandoned, 1);
    EXPECT_INT(stats_of(service).failed, 0);
    EXPECT_INT(stats_of(service).crashed, 0);
    /* Who asks for the same now gets a job of his own. */
    again = submit_c(scope, hang);
    EXPECT_INT(hn_future_hit_level(again), HN_HIT_NONE);
    wait_runs();
    hn_scope_destroy(scope); /* is a cancellation too */
    EXPECT_OK(hn_service_quiesce(service, 20000));
    EXPECT_INT(stats_of(service).abandoned, 2);
    EXPECT(ms_since(begin_ns) < LONG_MS);
    hn_service_destroy(service);
    end();
}

TEST(a_job_that_somebody_else_wants_keeps_its_worker) {
    begin();
    hn_service *service = service_open((hn_service_options){.warm = true});
    hn_scope *scope = scope_open(service), *other = scope_open(service);
    hn_future *first = submit_c(scope, "/* NAP */ int nap;\n"),
              *second = submit_c(scope, "/* NAP */ int nap;\n");
    hn_future *third = submit_c(other, "/* NAP */ int nap;\n");
    wait_runs();
    hn_future_cancel(first);
    EXPECT_ERROR(hn_future_wait(first, -1, NULL), HN_CANCELLED, "was cancelled");
    hn_scope_destroy(scope);
    (void)second;
    EXPECT_OK(hn_future_wait(third, 20000, NULL));
    EXPECT_INT(stats_of(service).abandoned, 0);
    EXPECT_INT(stats_of(service).compiled, 1);
    hn_scope_destroy(other);
    hn_service_destroy(service);
    end();
}

/* ---- rest ---- */

TEST(a_service_comes_to_rest) {
    begin();
    hn_service *service = service_open((hn_service_options){.warm = true});
    hn_scope *scope = scope_open(service);
    hn_future *nap = submit_c(scope, "/* NAP */ int nap;\n");
    EXPECT_OK(hn_service_quiesce(service, 60000));
    EXPECT(hn_future_is_done(nap)); /* nobody had waited for it */
    EXPECT_OK(hn_future_wait(nap, 0, NULL));
    EXPECT_INT(stats_of(service).workers_now, 0);
    EXPECT_OK(hn_service_quiesce(service, -1));
    hn_future *after = submit_c(scope, fine);
    EXPECT_OK(hn_future_wait(after, 20000, NULL)); /* workers are started again */
    EXPECT_INT(stats_of(service).workers_now, 1);
    submit_c(scope, hang);
    wait_runs();
    EXPECT_ERROR(hn_service_quiesce(service, 100), HN_TIMEOUT, "1 jobs are left");
    hn_scope_destroy(scope);
    EXPECT_OK(hn_service_quiesce(service, 20000));
    hn_service_destroy(service);
    end();
}

TEST(a_service_without_workers_comes_to_rest) {
    begin();
    hn_service *service = service_open(without[0]);
    hn_scope *scope = scope_open(service);
    hn_future *future = submit_c(scope, fine);
    EXPECT_OK(hn_service_quiesce(service, 20000)); /* a job that waits would wait for ever */
    EXPECT_INT(stats_of(service).dequeued, 0);
    EXPECT_ERROR(hn_future_wait(future, 1, NULL), HN_TIMEOUT, "still being compiled");
    EXPECT_OK(hn_service_quiesce(service, 20000));
    EXPECT(hn_future_is_done(future));
    hn_scope_destroy(scope);
    hn_service_destroy(service);
    end();
}

/* ---- a program that is stopped ---- */

static void *wait_without_limit(void *future) { return hn_future_wait(future, -1, NULL); }

/* Its worker goes on meanwhile. What is done when the program goes on is not late. */
static void run_stopped(bool has_limit) {
    hn_service *service = service_open((hn_service_options){.warm = true, .job_timeout_ms = 3000});
    hn_scope *scope = scope_open(service);
    hn_service_stats stats = stats_of(service);
    for (int i = 0; i < 4000 && stats.workers_ready < 2; i++, stats = stats_of(service))
        sleep_ms(5);
    hn_future *future = submit_c(scope, "/* NAP */ int nap;\n");
    if (has_limit) {
        EXPECT_OK(hn_future_wait(future, 2000, NULL));
    } else {
        pthread_t thread;
        void *status = NULL;
        EXPECT(pthread_create(&thread, NULL, wait_without_limit, future) == 0);
        pthread_join(thread, &status);
        EXPECT_OK((hn_status)status);
    }
    hn_scope_destroy(scope);
    hn_service_destroy(service);
}

TEST(what_is_done_when_a_stopped_program_goes_on_is_not_late) {
    for (int has_limit = 0; has_limit < 2; has_limit++) {
        int wait_status = -1;
        begin();
        fflush(NULL);
        pid_t pid = fork();
        if (pid == 0) {
            hn_test_failures = 0;
            run_stopped(has_limit);
            _exit(hn_test_failures ? 1 : 0);
        }
        wait_runs();
        EXPECT(kill(pid, SIGSTOP) == 0);
        sleep_ms(4000);
        EXPECT(kill(pid, SIGCONT) == 0);
        EXPECT(waitpid(pid, &wait_status, 0) == pid);
        EXPECT_INT(wait_status, 0);
        end();
    }
}

int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "--worker") == 0) return hn_worker_main(argc, argv);
    return hn_test_main(argc, argv);
}
