/* test_order.c: which job starts first; what cancelling does to a job in the thread that waits for
 * it; what a program that just ends tells; tools that have stood by for many jobs. The test program
 * is its own worker. */
#include "service/core.h"
#include "service/service.h"
#include "service/worker.h"

#include "base/file.h"
#include "base/log.h"
#include "base/trace.h"
#include "service_fixture.h"

#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* ---- the longest first ---- */

static hn_job *queue_job(hn_core *core, const char *language, uint8_t number, size_t record_bytes) {
    const hn_toolchain_row *row = NULL;
    const hn_digest key = {.bytes = {[0] = number, [4] = number}};
    EXPECT_OK(hn_toolchain_row_find(hn_str_of(language), &row));
    hn_job *job = hn_job_create(&key, row, "k");
    for (size_t i = 0; i < record_bytes; i++) hn_strbuf_putc(&job->key_record, 'x');
    pthread_mutex_lock(&core->lock);
    hn_core_enqueue(core, job, false);
    pthread_mutex_unlock(&core->lock);
    return job;
}

/* Takes the next job off the queue; its number. */
static int start_next(hn_core *core, int64_t took_ms) {
    pthread_mutex_lock(&core->lock);
    hn_job *job = hn_core_start_next(core, false);
    int number = job ? job->key.bytes[0] : -1;
    if (job) {
        hn_core_note_duration(core, job, took_ms * 1000000);
        hn_job_release(job);
        hn_job_release(job);
    }
    pthread_mutex_unlock(&core->lock);
    return number;
}

TEST(the_longest_job_starts_first) {
    hn_service *service = service_open((hn_service_options){.threads = 1});
    hn_core *core = NULL;
    EXPECT_OK(hn_core_current(service, &core));
    queue_job(core, "c", 1, 500);
    queue_job(core, "c", 2, 2000);
    queue_job(core, "c++", 3, 1000);
    EXPECT_INT(start_next(core, 20), 2); /* nothing is known: the longest text */
    EXPECT_INT(start_next(core, 80), 3);
    EXPECT_INT(start_next(core, 5), 1);
    queue_job(core, "c", 4, 2000);
    queue_job(core, "c++", 5, 1000); /* 80 us a byte, C 10 */
    queue_job(core, "c", 6, 3000);
    EXPECT_INT(start_next(core, 400), 5);
    EXPECT_INT(start_next(core, 10), 6);
    EXPECT_INT(start_next(core, 20), 4);
    queue_job(core, "c", 7, 4000);
    queue_job(core, "c++", 5, 1000);
    queue_job(core, "c", 4, 2000);
    queue_job(core, "c++", 8, 900);
    EXPECT_INT(start_next(core, 400), 5);
    EXPECT_INT(start_next(core, 400), 8);
    EXPECT_INT(start_next(core, 10), 7);
    EXPECT_INT(start_next(core, 10), 4);
    EXPECT_INT(start_next(core, 0), -1);
    hn_service_destroy(service);
}

/* ---- cancelling what runs in a waiting thread ---- */

static void *wait_for(void *argument) { return hn_future_wait(argument, -1, NULL); }

static void sleep_ms(int ms) {
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L}, NULL);
}

static void check_cancel(int64_t timeout_ms) {
    static const char script[] =
        "#!/bin/sh\ncase \"$*\" in *kernel.c*) sleep 33.3 ;; esac\nexec gcc \"$@\"\n";
    char dir[PATH_MAX - 256], path[PATH_MAX];
    EXPECT_OK(hn_dir_temp(dir, sizeof(dir)));
    snprintf(path, sizeof(path), "%s/cc", dir);
    EXPECT_OK(hn_file_write_atomic(path, script, sizeof(script) - 1, false));
    EXPECT(chmod(path, 0700) == 0);
    setenv("HENRY_CC", path, 1);
    hn_service *service = NULL;
    EXPECT_OK(hn_service_create(
        &(hn_service_options){
            .threads = 1, .job_timeout_ms = timeout_ms, .cache_dir = "", .remote_url = ""},
        &service));
    hn_scope *scope = scope_open(service);
    hn_future *first = submit_c(scope, "int f;"), *second = submit_c(scope, "int f;");
    hn_service_stats stats = {.dequeued = 0};
    pthread_t thread;
    void *result = NULL;
    EXPECT(pthread_create(&thread, NULL, wait_for, first) == 0);
    for (int i = 0; i < 500 && !stats.dequeued; i++) {
        sleep_ms(10);
        hn_service_stats_get(service, &stats);
    }
    sleep_ms(100);
    int64_t begin_ns = hn_now_ns();
    hn_future_cancel(second); /* the first one still wants it */
    sleep_ms(100);
    EXPECT(!hn_future_is_done(first));
    hn_future_cancel(first);
    pthread_join(thread, &result);
    EXPECT(hn_now_ns() - begin_ns < 10000000000);
    EXPECT_ERROR((hn_status)result, HN_CANCELLED, "kernel 'k' was cancelled");
    /* not the job that was killed */
    EXPECT_INT(hn_future_hit_level(submit_c(scope, "int f;")), HN_HIT_NONE);
    hn_scope_destroy(scope);
    hn_service_destroy(service);
    unsetenv("HENRY_CC");
    EXPECT_OK(hn_dir_remove(dir));
}

TEST(a_cancelled_job_ends_in_the_waiting_thread) { check_cancel(0); }
TEST(a_cancelled_job_without_a_limit_ends_in_the_waiting_thread) { check_cancel(-1); }

/* ---- at the end of the program ---- */

/* What a child says that uses a service and exits; `ends`: it ends the service before. */
static uint32_t reports_of_child(bool ends) {
    int ends_fd[2];
    char text[16384];
    size_t len = 0;
    EXPECT(pipe2(ends_fd, O_CLOEXEC) == 0);
    pid_t pid = fork();
    if (pid == 0) {
        hn_service *service = NULL;
        dup2(ends_fd[1], 2);
        hn_log_configure("service:info");
        hn_status status = hn_service_create(
            &(hn_service_options){
                .threads = 2, .worker_path = "/proc/self/exe", .cache_dir = "", .warm = true},
            &service);
        if (status) _exit(1);
        if (ends) hn_service_destroy(service);
        exit(0);
    }
    close(ends_fd[1]);
    for (ssize_t got; len < sizeof(text) - 1 &&
                      (got = read(ends_fd[0], text + len, sizeof(text) - 1 - len)) > 0;)
        len += (size_t)got;
    text[len] = 0;
    close(ends_fd[0]);
    waitpid(pid, NULL, 0);
    uint32_t count = 0;
    for (const char *at = text; (at = strstr(at, "jobs asked for")); at++) count++;
    return count;
}

TEST(statistics_are_told_once_however_a_program_ends) {
    EXPECT_INT(reports_of_child(false), 1);
    EXPECT_INT(reports_of_child(true), 1);
}

/* A lock that is held by who ends the program, in a handler of a signal say, does not come free. */
TEST(an_exit_does_not_wait_for_a_lock) {
    int exit_status = -1;
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        hn_core *core = NULL;
        alarm(20);
        hn_service *service = service_open((hn_service_options){.threads = 1});
        hn_status status = hn_core_current(service, &core);
        if (status) _exit(1);
        pthread_mutex_lock(&core->lock);
        exit(0);
    }
    EXPECT(waitpid(pid, &exit_status, 0) == pid && exit_status == 0);
}

/* ---- many jobs ---- */

TEST(tools_that_had_many_jobs_give_the_same_bytes) {
    enum { JOBS = 24 }; /* after 8, code lies on large pages where there are any */
    hn_service *services[2] = {service_open((hn_service_options){.threads = 1}),
                               service_open((hn_service_options){.threads = 2})};
    hn_scope *scopes[2] = {scope_open(services[0]), scope_open(services[1])};
    hn_service_stats stats = {.workers_ready = 0};
    EXPECT_OK(hn_service_warm(services[1]));
    for (int i = 0; i < 500 && stats.workers_ready < 2; i++) {
        sleep_ms(10);
        hn_service_stats_get(services[1], &stats);
    }
    EXPECT_INT(stats.workers_ready, 2);
    for (int k = 0; k < JOBS; k++) {
        char text[200];
        const void *bytes[2];
        size_t len[2];
        hn_artifact *artifacts[2] = {NULL, NULL};
        snprintf(
            text, sizeof(text),
            "static const char s[] = \"%d\";\nint f(int x) { return x > %d ? s[x & 1] : x * %d; }\n",
            k, k, k + 3);
        for (int i = 0; i < 2; i++) {
            EXPECT_OK(hn_future_wait(submit_c(scopes[i], text), -1, &artifacts[i]));
            bytes[i] = artifacts[i] ? hn_artifact_bytes(artifacts[i], &len[i]) : NULL;
        }
        EXPECT(bytes[0] && bytes[1] && len[0] == len[1] && memcmp(bytes[0], bytes[1], len[0]) == 0);
        for (int i = 0; i < 2; i++) hn_artifact_release(artifacts[i]);
    }
    for (int i = 0; i < 2; i++) {
        hn_scope_destroy(scopes[i]);
        hn_service_destroy(services[i]);
    }
}

int main(int argc, char **argv) {
    if (argc >= 3 && strcmp(argv[1], "--worker") == 0) return hn_worker_main(argc, argv);
    return hn_test_main(argc, argv);
}
