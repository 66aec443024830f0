/* test_reports.c: what a service tells of its jobs: which take long, how long each took, what
 * workers and compilers print; and forgetting what is in memory. The test program is its own
 * worker. */
#include "henry/log.h"
#include "service/service.h"
#include "service/worker.h"

#include "base/file.h"
#include "base/log.h"
#include "base/trace.h"
#include "service_fixture.h"

#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static char dir[PATH_MAX - 256], out_path[PATH_MAX];

static void sleep_ms(int ms) {
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L}, NULL);
}

static void begin(void) {
    static const char text[] =
        "#!/bin/sh\n"
        "case $1 in --version) exec gcc --version;; esac\n"
        "if grep -q HANG kernel.c; then sleep 30.4; fi\n"
        "if grep -q SAY kernel.c; then echo 'kernel.c: a word to the log' >&2; fi\n"
        "exec gcc \"$@\"\n";
    char path[PATH_MAX];
    EXPECT_OK(hn_dir_temp(dir, sizeof(dir)));
    snprintf(path, sizeof(path), "%s/cc", dir);
    snprintf(out_path, sizeof(out_path), "%s/out", dir);
    EXPECT_OK(hn_file_write_atomic(path, text, strlen(text), false));
    EXPECT(chmod(path, 0700) == 0);
    setenv("HENRY_CC", path, 1);
}

static void end(void) {
    unsetenv("HENRY_CC");
    EXPECT_OK(hn_dir_remove(dir));
}

static hn_future *submit_named(hn_scope *scope, const char *name, const char *text) {
    hn_future *future = NULL;
    EXPECT_OK(hn_compile_submit(
        scope, &(hn_source){.name = name, .language = "c", .text = text, .text_len = strlen(text)},
        &future));
    return future;
}

/* ---- jobs that take long ---- */

static struct {
    pthread_mutex_t lock;
    int here, worker, queued;
} told = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void listen_to(void *context, const hn_log_line *line) {
    (void)context;
    if (!strstr(line->text, "s ago: ")) return;
    EXPECT_STR(line->area, "service");
    pthread_mutex_lock(&told.lock);
    told.worker += strstr(line->text, "'slow_one'") && strstr(line->text, "compiling in worker ");
    told.here +=
        strstr(line->text, "'slow_one'") && strstr(line->text, "compiling in this process");
    told.queued += strstr(line->text, "'slow_two'") && strstr(line->text, ": queued");
    pthread_mutex_unlock(&told.lock);
}

static int told_of(const int *count) {
    pthread_mutex_lock(&told.lock);
    int now = *count;
    pthread_mutex_unlock(&told.lock);
    return now;
}

/* Nobody waits for the jobs: the service reports by itself. */
TEST(jobs_that_take_long_are_reported) {
    begin();
    told.here = told.worker = told.queued = 0;
    EXPECT_OK(hn_log_sink_set(listen_to, NULL));
    hn_service *service = service_open((hn_service_options){.threads = 2, .slow_job_ms = 100});
    hn_scope *scope = scope_open(service);
    submit_named(scope, "slow_one", "/* HANG */ int one;\n");
    submit_named(scope, "other", "/* HANG */ int other;\n");
    submit_named(scope, "slow_two", "/* HANG */ int two;\n");
    for (int i = 0; i < 3000 && (told_of(&told.worker) < 2 || told_of(&told.queued) < 2); i++)
        sleep_ms(5);
    EXPECT(told_of(&told.worker) >= 2 && told_of(&told.queued) >= 2 && !told_of(&told.here));
    hn_scope_destroy(scope);
    hn_service_destroy(service);
    EXPECT_OK(hn_log_sink_set(NULL, NULL));
    end();
}

TEST(jobs_without_workers_are_reported_by_who_waits) {
    begin();
    told.here = told.worker = told.queued = 0;
    EXPECT_OK(hn_log_sink_set(listen_to, NULL));
    setenv("HENRY_SLOW_JOBS", "1", 1);
    hn_service *service = service_open((hn_service_options){.threads = 1});
    hn_scope *scope = scope_open(service);
    hn_future *future = submit_named(scope, "slow_one", "/* HANG */ int one;\n");
    EXPECT_ERROR(hn_future_wait(future, 2500, NULL), HN_TIMEOUT, "still being compiled");
    EXPECT(told_of(&told.here) >= 1 && !told_of(&told.worker));
    hn_scope_destroy(scope);
    hn_service_destroy(service);
    setenv("HENRY_SLOW_JOBS", "0", 1); /* never */
    service = service_open((hn_service_options){.threads = 1});
    scope = scope_open(service);
    told.here = 0;
    future = submit_named(scope, "slow_one", "/* HANG */ int one;\n");
    EXPECT_ERROR(hn_future_wait(future, 1500, NULL), HN_TIMEOUT, "still being compiled");
    EXPECT_INT(told_of(&told.here), 0);
    unsetenv("HENRY_SLOW_JOBS");
    hn_scope_destroy(scope);
    hn_service_destroy(service);
    EXPECT_OK(hn_log_sink_set(NULL, NULL));
    end();
}

/* ---- how long jobs took ---- */

static void read_out(hn_strbuf *text) {
    hn_strbuf_init(text);
    EXPECT_OK(hn_file_read(out_path, text));
    hn_strbuf_putc(text, 0);
}

/* The names in the order of the file. */
static void check_names(const char *text, const char *const *names) {
    const char *at = text;
    for (; *names; names++) {
        char wanted[64];
        snprintf(wanted, sizeof(wanted),
                 "{\"name\": \"%s\", \"language\": \"c\", \"compile_ns\": ", *names);
        at = strstr(at, "{\"name\"");
        EXPECT(at != NULL);
        if (!at) return;
        if (strncmp(at, wanted, strlen(wanted)) != 0)
            HN_TEST_FAIL("'%.60s' is not '%s'", at, wanted);
        at++;
    }
    EXPECT(!strstr(at, "{\"name\""));
}

TEST(how_long_each_kernel_took) {
    for (int threads = 1; threads <= 2; threads++) {
        begin();
        hn_strbuf text;
        hn_service_stats stats;
        hn_service *service =
            service_open((hn_service_options){.threads = threads, .compile_times_path = out_path});
        hn_scope *scope = scope_open(service);
        submit_named(scope, "b", "int b(int x) { return x; }\n");
        submit_named(scope, "c\\\"", "int c(int x) { return x + 1; }\n");
        submit_named(scope, "a", "int a(int x) { return y; }\n"); /* fails, and took its time too */
        hn_status_free(hn_scope_wait(scope, NULL, NULL));
        submit_named(scope, "d", "int b(int x) { return x; }\n"); /* a hit takes none */
        hn_service_stats_get(service, &stats);
        EXPECT_INT(stats.slowest_count, 3);
        for (uint32_t i = 0; i + 1 < stats.slowest_count; i++)
            EXPECT(stats.slowest[i].ns >= stats.slowest[i + 1].ns);
        EXPECT(stats.slowest[2].ns > 0 && stats.slowest[0].kernel[0]);
        EXPECT(!hn_file_exists(out_path));
        EXPECT_OK(hn_service_quiesce(service, 20000));
        EXPECT(hn_file_exists(out_path));
        submit_named(scope, "0", "int d(int x) { return x + 3; }\n");
        hn_status_free(hn_scope_wait(scope, NULL, NULL));
        hn_scope_destroy(scope);
        hn_service_destroy(service);
        read_out(&text);
        check_names(text.ptr, (const char *const[]){"0", "a", "b", "c\\\\\\\"", NULL});
        hn_strbuf_deinit(&text);
        end();
    }
}

TEST(the_longest_are_kept) {
    hn_service_stats stats;
    hn_service *service = service_open((hn_service_options){.threads = 2});
    hn_scope *scope = scope_open(service);
    for (int i = 0; i < HN_SERVICE_SLOWEST + 5; i++) {
        char text[64], name[16];
        snprintf(name, sizeof(name), "k%d", i);
        snprintf(text, sizeof(text), "int k%d(int x) { return x; }\n", i);
        submit_named(scope, name, text);
    }
    EXPECT_OK(hn_scope_wait(scope, NULL, NULL));
    hn_service_stats_get(service, &stats);
    EXPECT_INT(stats.slowest_count, HN_SERVICE_SLOWEST);
    for (uint32_t i = 0; i + 1 < stats.slowest_count; i++)
        EXPECT(stats.slowest[i].ns >= stats.slowest[i + 1].ns);
    hn_scope_destroy(scope);
    hn_service_destroy(service);
}

/* Below 20 jobs there is no 95th percentile. */
TEST(a_percentile_of_few_jobs_is_left_out) {
    hn_strbuf line;
    hn_service_stats stats = {.wait_p50_ns = 1000000};
    for (int i = 0; i < 2; i++) {
        stats.wait_p95_ns = i ? 2000000 : 0;
        hn_strbuf_init(&line);
        hn_service_stats_print(&stats, &line);
        EXPECT((strstr(line.ptr, "P95 2.00 ms") != NULL) == (i == 1) &&
               (strstr(line.ptr, "P95") != NULL) == (i == 1));
        EXPECT(strstr(line.ptr, "P50 1.00 ms") != NULL);
        hn_strbuf_deinit(&line);
    }
}

/* ---- what workers and compilers print ---- */

/* "2026-11-22 09:51:25.123 [77] cc: kernel.c: a word to the log" */
static int pid_of_line(const char *text) {
    int numbers[8] = {0};
    const char *at = strstr(text, " cc: kernel.c: a word to the log\n");
    while (at && at > text && at[-1] != '\n') at--;
    EXPECT(at &&
           sscanf(at, "%4d-%2d-%2d %2d:%2d:%2d.%3d [%d] cc:", &numbers[0], &numbers[1], &numbers[2],
                  &numbers[3], &numbers[4], &numbers[5], &numbers[6], &numbers[7]) == 8);
    return numbers[7];
}

TEST(what_compilers_print_is_kept) {
    for (int threads = 1; threads <= 2; threads++) {
        begin();
        hn_strbuf text;
        pid_t pid = getpid();
        if (threads == 1) setenv("HENRY_WORKER_LOG", out_path, 1);
        hn_service *service = service_open((hn_service_options){
            .threads = threads, .worker_log_path = threads == 1 ? NULL : out_path});
        EXPECT(hn_file_exists(out_path));
        hn_scope *scope = scope_open(service);
        hn_future *future = submit_named(scope, "k", "/* SAY */ int k(int x) { return x; }\n");
        /* with a limit a worker has it, where there are any */
        EXPECT_OK(hn_future_wait(future, 20000, NULL));
        if (threads > 1) EXPECT_INT(hn_service_worker_pids(service, &pid, 1), 1);
        hn_scope_destroy(scope);
        hn_service_destroy(service);
        read_out(&text);
        EXPECT_INT(pid_of_line(text.ptr), pid);
        hn_strbuf_deinit(&text);
        unsetenv("HENRY_WORKER_LOG");
        end();
    }
}

TEST(a_log_that_cannot_be_opened_costs_nothing_else) {
    hn_log_configure("error");
    hn_service *service =
        service_open((hn_service_options){.threads = 1,
                                          .worker_log_path = "/no/such/directory/log",
                                          .compile_times_path = "/no/such/directory/times"});
    hn_scope *scope = scope_open(service);
    EXPECT_OK(hn_future_wait(submit_named(scope, "k", "int k(int x) { return x; }\n"), -1, NULL));
    hn_scope_destroy(scope);
    hn_service_destroy(service);
    hn_log_configure(NULL);
}

/* ---- forgetting ---- */

TEST(what_is_in_memory_can_be_forgotten) {
    static const char source[] = "int k(int x) { return 2 * x; }\n";
    begin();
    for (int on_disk = 0; on_disk < 2; on_disk++) {
        char cache[PATH_MAX];
        snprintf(cache, sizeof(cache), "%s/cache", dir);
        hn_artifact *artifact = NULL;
        hn_library *library = NULL;
        void *address = NULL;
        hn_service *service =
            service_open((hn_service_options){.threads = 2, .cache_dir = on_disk ? cache : ""});
        hn_scope *scope = scope_open(service);
        hn_future *first = submit_named(scope, "k", source);
        EXPECT_OK(hn_future_wait(first, 20000, NULL));
        hn_service_wait_stored(service);
        EXPECT_INT(hn_future_hit_level(submit_named(scope, "k", source)), HN_HIT_MEMORY);
        hn_future *running = submit_named(scope, "hang", "/* HANG */ int hang;\n");
        hn_service_clear(service);
        hn_service_clear(service);
        EXPECT(!hn_future_is_done(running));
        EXPECT_INT(hn_future_hit_level(submit_named(scope, "hang", "/* HANG */ int hang;\n")),
                   HN_HIT_INFLIGHT);
        hn_future *again = submit_named(scope, "k", source);
        EXPECT_OK(hn_future_wait(again, 20000, NULL));
        EXPECT_INT(hn_future_hit_level(again), on_disk ? HN_HIT_DISK : HN_HIT_NONE);
        EXPECT_OK(hn_future_wait(first, 0, &artifact)); /* as it was */
        EXPECT_OK(hn_artifact_load(artifact, &library));
        EXPECT_OK(hn_library_symbol(library, "k", &address));
        EXPECT_INT(((int (*)(int))address)(21), 42);
        hn_library_close(library);
        hn_artifact_release(artifact);
        hn_scope_destroy(scope);
        hn_service_destroy(service);
    }
    end();
}

int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "--worker") == 0) return hn_worker_main(argc, argv);
    return hn_test_main(argc, argv);
}
