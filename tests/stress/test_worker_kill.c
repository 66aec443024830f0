/* test_worker_kill.c: workers are killed, stopped and replaced at random while jobs run. Every job
 * ends, well or with an error that names it; nothing hangs; afterwards the service still works. 0.3
 * s a round. And workers are killed while they have nothing to do, right before jobs come: no job
 * is lost. 50 ms a round. */
#include "henry/kernel.h"
#include "service/service.h"
#include "service/worker.h"

#include "stress/stress.h"

#include <signal.h>
#include <stdlib.h>
#include <time.h>

enum { JOBS = 12 };

static hn_future *submit(hn_scope *scope, int number) {
    char text[64], name[32];
    hn_future *future = NULL;
    snprintf(text, sizeof(text), "int f(int x) { return x + %d; }", number);
    snprintf(name, sizeof(name), "kernel_%d", number);
    EXPECT_OK(hn_compile_submit(
        scope, &(hn_source){.name = name, .language = "c", .text = text, .text_len = strlen(text)},
        &future));
    return future;
}

/* Kills, or freezes, some worker. */
static void hurt(hn_service *service) {
    pid_t pids[8];
    uint32_t count = hn_service_worker_pids(service, pids, 8);
    if (count) kill(pids[(uint32_t)rand() % count], rand() % 4 ? SIGKILL : SIGSTOP);
}

/* The idle ones too: a frozen worker is noticed by the job that it was given. */
static void thaw_all(hn_service *service) {
    pid_t pids[8];
    uint32_t count = hn_service_worker_pids(service, pids, 8);
    for (uint32_t i = 0; i < count; i++) kill(pids[i], SIGCONT);
}

TEST(every_job_ends) {
    hn_service *service = NULL;
    EXPECT_OK(hn_service_create(
        &(hn_service_options){
            .threads = 2, .worker_path = "/proc/self/exe", .cache_dir = "", .job_timeout_ms = 1000},
        &service));
    int number = 0, good = 0, bad = 0;
    long rounds = stress_rounds(200, 5);
    stress_begin();
    for (long round = 0; round < rounds; round++) {
        hn_scope *scope = NULL;
        hn_future *futures[JOBS];
        EXPECT_OK(hn_scope_create(service, &scope));
        for (int i = 0; i < JOBS; i++) futures[i] = submit(scope, number++);
        for (int i = 0; i < 4; i++) {
            nanosleep(&(struct timespec){.tv_nsec = rand() % 40000000}, NULL);
            hurt(service);
        }
        for (int i = 0; i < JOBS; i++) {
            hn_status status = hn_future_wait(futures[i], 60000, NULL);
            hn_code code = hn_status_code(status);
            good += code == HN_OK;
            bad += code != HN_OK;
            if (code != HN_OK)
                EXPECT(strstr(hn_status_message(status), "cannot compile kernel 'kernel_") != NULL);
            hn_status_free(status);
        }
        hn_scope_destroy(scope);
    }
    hn_service_stats stats;
    hn_service_stats_get(service, &stats);
    EXPECT_INT(stats.depth_now, 0);
    EXPECT_INT(stats.crashed + stats.timed_out, bad);
    stress_row("workers killed and stopped at random while jobs run",
               "every job ends, those that were not hit well",
               "%ld rounds, %d jobs done, %d lost with their workers, %llu workers started", rounds,
               good, bad, (unsigned long long)stats.workers_started);
    hn_scope *scope = NULL;
    thaw_all(service);
    EXPECT_OK(hn_scope_create(service, &scope));
    EXPECT_OK(hn_future_wait(submit(scope, number), 60000, NULL));
    hn_scope_destroy(scope);
    hn_service_destroy(service);
}

/* Kills all workers once all are ready. */
static void kill_idle(hn_service *service) {
    pid_t pids[8];
    hn_service_stats stats = {0};
    EXPECT_OK(hn_service_warm(service));
    for (int i = 0; i < 5000 && stats.workers_ready < 2; i++) {
        hn_service_stats_get(service, &stats);
        stress_sleep_us(1000);
    }
    uint32_t count = hn_service_worker_pids(service, pids, 8);
    EXPECT_INT(count, 2);
    for (uint32_t i = 0; i < count; i++) kill(pids[i], SIGKILL);
}

TEST(no_job_is_lost_with_a_worker_that_was_killed_before) {
    hn_service *service = NULL;
    EXPECT_OK(hn_service_create(
        &(hn_service_options){.threads = 2, .worker_path = "/proc/self/exe", .cache_dir = ""},
        &service));
    int number = 0, lost = 0;
    long rounds = stress_rounds(500, 10);
    stress_begin();
    for (long round = 0; round < rounds; round++) {
        hn_scope *scope = NULL;
        hn_future *futures[4];
        EXPECT_OK(hn_scope_create(service, &scope));
        kill_idle(service);
        if (round % 2) stress_sleep_us(rand() % 3000); /* the system may be taking them down */
        for (int i = 0; i < 4; i++) futures[i] = submit(scope, number++);
        for (int i = 0; i < 4; i++) {
            hn_status status = hn_future_wait(futures[i], 60000, NULL);
            if (status && !lost++) fprintf(stderr, "%s\n", hn_status_message(status));
            hn_status_free(status);
        }
        hn_scope_destroy(scope);
    }
    EXPECT_INT(lost, 0);
    stress_row("all workers killed while idle, and jobs at once", "no job lost",
               "%ld rounds, %d jobs, %d lost", rounds, number, lost);
    hn_service_destroy(service);
}

int main(int argc, char **argv) {
    if (argc >= 3 && strcmp(argv[1], "--worker") == 0) return hn_worker_main(argc, argv);
    return stress_main(argc, argv);
}
