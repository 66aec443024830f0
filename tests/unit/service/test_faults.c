/* test_faults.c: workers and compilers that misbehave: what is reported, that nothing of them
 * stays, and that other jobs do not notice. Also how workers come and go, what a job may set, and
 * the tools that stand by.
 *
 * The test program is its own worker. What a compiler does depends on a word in the text: HENRY_CC
 * names a script. */
#include "service/job.h"
#include "service/service.h"
#include "service/worker.h"

#include "base/file.h"
#include "base/log.h"
#include "base/process_tree.h"
#include "base/trace.h"
#include "service_fixture.h"

#include <dirent.h>
#include <fcntl.h>
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static char dir[PATH_MAX - 256]; /* of the running test */

static hn_future *submit_with(hn_scope *scope, const char *text, const char *const *flags,
                              size_t flag_count, const char *variable) {
    hn_future *future = NULL;
    const hn_source source = {.name = "kernel",
                              .language = "c",
                              .text = text,
                              .text_len = strlen(text),
                              .flags = flags,
                              .flag_count = flag_count,
                              .env = &variable,
                              .env_count = variable != NULL};
    EXPECT_OK(hn_compile_submit(scope, &source, &future));
    return future;
}

static hn_future *submit(hn_scope *scope, const char *text) {
    static const char *const flags[] = {"-O2"};
    return submit_with(scope, text, flags, 1, NULL);
}

static hn_service_stats stats_of(hn_service *service) {
    hn_service_stats stats;
    hn_service_stats_get(service, &stats);
    return stats;
}

static void sleep_ms(int ms) {
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L}, NULL);
}

static int ms_since(int64_t begin_ns) { return (int)((hn_now_ns() - begin_ns) / 1000000); }

static void make_script(const char *name, const char *text, char path[PATH_MAX]) {
    snprintf(path, PATH_MAX, "%s/%s", dir, name);
    EXPECT_OK(hn_file_write_atomic(path, text, strlen(text), false));
    EXPECT(chmod(path, 0700) == 0);
}

/* "sleep 31.7": the processes that a test looks for have an argument that nobody else's have. */
static void begin(void) {
    char path[PATH_MAX];
    EXPECT_OK(hn_dir_temp(dir, sizeof(dir)));
    make_script(
        "cc",
        "#!/bin/sh\n"
        "case $1 in --version) exec gcc --version;; esac\n"
        "has() { grep -q $1 kernel.c; }\n"
        "if has SAY; then echo 'kernel.c: half way' >&2; fi\n"
        "if has BOMB; then i=0; while [ $i -lt 3000 ]; do sleep 31.7 & i=$((i+1)); done; wait; fi\n"
        "if has ESCAPE; then (setsid sleep 31.7 >/dev/null 2>&1 &); fi\n"
        "if has HANG; then sleep 31.7; fi\n"
        "if has SPIN; then while :; do :; done; fi\n"
        "if has EAT; then x=0123456789abcdef; while :; do x=$x$x; done; fi\n"
        "if has SUICIDE; then sleep 0.2; kill -9 $PPID; sleep 31.7; fi\n"
        "exec gcc \"$@\"\n",
        path);
    setenv("HENRY_CC", path, 1);
    setenv("TMPDIR", dir, 1);
    hn_log_configure("error");
}

static void end(void) {
    unsetenv("HENRY_CC");
    unsetenv("TMPDIR");
    hn_log_configure(NULL);
    EXPECT_OK(hn_dir_remove(dir));
}

/* Processes that are still there of what the script starts. */
static int stray_count(void) {
    int count = 0;
    DIR *proc = opendir("/proc");
    for (struct dirent *entry; proc && (entry = readdir(proc));) {
        char path[300], line[64] = "";
        if (entry->d_name[0] < '0' || entry->d_name[0] > '9') continue;
        snprintf(path, sizeof(path), "/proc/%s/cmdline", entry->d_name);
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0) continue;
        ssize_t got = read(fd, line, sizeof(line) - 1);
        count += got >= 10 && memcmp(line, "sleep\00031.7", 10) == 0;
        close(fd);
    }
    if (proc) closedir(proc);
    return count;
}

/* At most a second. */
static int strays_left(void) {
    for (int i = 0; i < 200 && stray_count(); i++) sleep_ms(5);
    return stray_count();
}

static const char fine[] = "int fine(int x) { return 2 * x; }\n";

/* Without a limit the thread that waits would compile a first job itself. */
static void wait_ready(hn_service *service, uint64_t count) {
    EXPECT_OK(hn_service_warm(service));
    for (int i = 0; i < 1000 && stats_of(service).workers_ready < count; i++) sleep_ms(5);
    EXPECT_INT(stats_of(service).workers_ready, count);
}

/* ---- compilers that misbehave ---- */

static void check_fault(const char *text, hn_service_options options, hn_code code,
                        const char *message) {
    begin();
    hn_service *service = service_open(options);
    hn_scope *scope = scope_open(service);
    wait_ready(service, 2);
    hn_future *guilty = submit(scope, text), *good = submit(scope, fine);
    EXPECT_OK(hn_future_wait(good, 20000, NULL));
    EXPECT_ERROR(hn_future_wait(guilty, 20000, NULL), code, message);
    EXPECT_INT(strays_left(), 0);
    hn_future *after = submit(scope, "int after(int x) { return x; }\n");
    EXPECT_OK(hn_future_wait(after, 20000, NULL));
    hn_scope_destroy(scope);
    hn_service_destroy(service);
    end();
}

/* As on a system that permits no namespaces. There a compiler can kill its worker. */
static void check_fault_without(const char *text, hn_service_options options, hn_code code,
                                const char *message) {
    setenv("HENRY_NAMESPACES", "off", 1);
    check_fault(text, options, code, message);
    unsetenv("HENRY_NAMESPACES");
}

TEST(a_compiler_that_forks_without_end_is_killed) {
    const hn_service_options options = {.job_processes = 40};
    check_fault("int x; /* BOMB */", options, HN_TOOLCHAIN,
                "the compiler started more than 40 processes");
    check_fault_without("int x; /* BOMB */", options, HN_TOOLCHAIN,
                        "the compiler started more than 40 processes");
}
TEST(what_left_the_session_of_a_late_job_is_killed) {
    const hn_service_options options = {.job_timeout_ms = 1500};
    check_fault("int x; /* ESCAPE HANG */", options, HN_TIMEOUT,
                "the compiler ran longer than 1500 ms");
    check_fault_without("int x; /* ESCAPE HANG */", options, HN_TIMEOUT,
                        "the compiler ran longer than 1500 ms");
}
TEST(a_spinning_compiler_is_killed) {
    check_fault("int x; /* SPIN */", (hn_service_options){.job_timeout_ms = 1500}, HN_TIMEOUT,
                "the compiler ran longer than 1500 ms");
}
TEST(a_compiler_that_eats_memory_fails) {
    check_fault(
        "int x; /* EAT */",
        (hn_service_options){.job_memory_bytes = (uint64_t)256 << 20, .job_timeout_ms = 15000},
        HN_TOOLCHAIN, "cannot compile kernel 'kernel'");
}
TEST(what_left_the_session_of_a_killed_worker_is_killed) {
    check_fault_without("int x; /* ESCAPE SUICIDE */", (hn_service_options){.threads = 2},
                        HN_TOOLCHAIN, "was killed by signal 9");
}

/* To give the first job to its worker takes longer than jobs are given out at a stretch, so the
 * second one waits for the next look, which is due at once. */
TEST(a_time_limit_holds_while_jobs_wait_to_be_given_out) {
    enum { LONG_BYTES = 32 << 20, LINE_BYTES = 64 };
    static const char head[] = "int x; /* HANG */\n";
    char *text = malloc(LONG_BYTES + 1);
    begin();
    hn_service *service = service_open((hn_service_options){.job_timeout_ms = 3000});
    hn_scope *scope = scope_open(service);
    wait_ready(service, 2);
    for (int i = 0; i < LONG_BYTES; i++) text[i] = i % LINE_BYTES ? ' ' : '\n';
    memcpy(text, head, strlen(head));
    text[LONG_BYTES] = 0;
    hn_future *guilty = submit(scope, text), *good = submit(scope, fine);
    EXPECT_OK(hn_future_wait(good, 20000, NULL));
    EXPECT_ERROR(hn_future_wait(guilty, 20000, NULL), HN_TIMEOUT,
                 "the compiler ran longer than 3000 ms");
    EXPECT_INT(strays_left(), 0);
    hn_scope_destroy(scope);
    hn_service_destroy(service);
    end();
    free(text);
}

TEST(nothing_of_a_job_goes_on_after_it) {
    begin();
    hn_service *service = service_open((hn_service_options){.threads = 2});
    hn_scope *scope = scope_open(service);
    wait_ready(service, 2);
    EXPECT_OK(
        hn_future_wait(submit(scope, "int f(int x) { return x; } /* ESCAPE */"), 20000, NULL));
    EXPECT_INT(strays_left(), 0);
    EXPECT_INT(stats_of(service).crashed, 0);
    hn_scope_destroy(scope);
    hn_service_destroy(service);
    end();
}

TEST(a_stopped_worker_is_late) {
    begin();
    hn_service *service = service_open((hn_service_options){.job_timeout_ms = 1000});
    hn_scope *scope = scope_open(service);
    pid_t pids[2];
    wait_ready(service, 2);
    EXPECT_INT(hn_service_worker_pids(service, pids, 2), 2);
    EXPECT(kill(pids[0], SIGSTOP) == 0 && kill(pids[1], SIGSTOP) == 0);
    hn_future *future = submit(scope, fine);
    EXPECT_ERROR(hn_future_wait(future, 10000, NULL), HN_TIMEOUT, "its compiler had said nothing");
    hn_scope_destroy(scope);
    int64_t start_ns = hn_now_ns();
    hn_service_destroy(service); /* the other one is still stopped */
    EXPECT(ms_since(start_ns) < 1000);
    EXPECT(kill(pids[1], 0) != 0);
    end();
}

TEST(a_crash_tells_what_was_said_and_how_to_go_on) {
    char cache[PATH_MAX];
    begin();
    setenv("HENRY_NAMESPACES", "off", 1);
    snprintf(cache, sizeof(cache), "%s/cache", dir);
    hn_service *service = service_open((hn_service_options){.cache_dir = cache});
    hn_scope *scope = scope_open(service);
    static const char *const flags[] = {"-O2", "-DX=a b"};
    static const char text[] = "int x; /* SAY SUICIDE */";
    wait_ready(service, 2);
    hn_future *future = submit_with(scope, text, flags, 2, "SOURCE_DATE_EPOCH=7");
    hn_status status = hn_future_wait(future, 20000, NULL);
    const char *message = status ? hn_status_message(status) : "", *path = strstr(message, cache);
    EXPECT(strstr(message, "cannot compile kernel 'kernel': the compile worker (process ") ==
           message);
    EXPECT(
        strstr(
            message,
            "its compiler had said: kernel.c: half way; to compile it alone: henry kernel compile ") !=
        NULL);
    EXPECT(
        strstr(
            message,
            ".c --language c --flag=-O2 '--flag=-DX=a b' --env=SOURCE_DATE_EPOCH=7 -o /dev/null") !=
        NULL);
    hn_service_wait_stored(service);
    hn_strbuf kept;
    hn_strbuf_init(&kept);
    char name[PATH_MAX] = "";
    if (path) snprintf(name, sizeof(name), "%.*s", (int)strcspn(path, " "), path);
    EXPECT_OK(hn_file_read(name, &kept));
    EXPECT(hn_str_eq(hn_strbuf_str(&kept), hn_str_of(text)));
    hn_strbuf_deinit(&kept);
    hn_status_free(status);
    hn_scope_destroy(scope);
    hn_service_destroy(service);
    unsetenv("HENRY_NAMESPACES");
    end();
}

/* ---- worker programs that misbehave ---- */

static void check_worker(const char *script) {
    char path[PATH_MAX];
    begin();
    unsetenv("HENRY_CC");
    make_script("worker", script, path);
    hn_service *service = service_open((hn_service_options){.worker_path = path});
    hn_scope *scope = scope_open(service);
    int64_t start_ns = hn_now_ns();
    /* in this thread: no worker is ready */
    EXPECT_OK(hn_future_wait(submit(scope, fine), -1, NULL));
    EXPECT(ms_since(start_ns) < 3000);
    hn_scope_destroy(scope);
    start_ns = hn_now_ns();
    hn_service_destroy(service);
    EXPECT(ms_since(start_ns) < 1000);
    EXPECT_INT(strays_left(), 0);
    end();
}

TEST(a_silent_worker_is_not_waited_for) { check_worker("#!/bin/sh\nexec sleep 31.7\n"); }
TEST(a_worker_that_talks_rubbish_is_replaced) {
    check_worker("#!/bin/sh\nwhile :; do echo rubbish 1234567890 >&0 || exit; done\n");
}
TEST(a_worker_that_ends_at_once_is_replaced) { check_worker("#!/bin/sh\nexit 3\n"); }

TEST(a_service_ends_at_once_in_every_state) {
    begin();
    for (int state = 0; state < 4; state++) {
        hn_service *service = service_open((hn_service_options){.warm = state > 0});
        hn_scope *scope = scope_open(service);
        if (state > 1) wait_ready(service, 2);
        if (state == 3) {
            submit(scope, "int x; /* HANG ESCAPE */");
            submit(scope, "int y; /* BOMB */");
            sleep_ms(30);
        }
        int64_t start_ns = hn_now_ns();
        hn_scope_destroy(scope);
        hn_service_destroy(service);
        EXPECT(ms_since(start_ns) < 900);
        EXPECT_INT(strays_left(), 0);
    }
    end();
}

/* ---- workers come and go ---- */

TEST(idle_workers_end_and_come_back) {
    hn_service *service = service_open((hn_service_options){.idle_ms = 60, .warm = true});
    hn_scope *scope = scope_open(service);
    for (int i = 0; i < 400 && stats_of(service).workers_idled < 2; i++) sleep_ms(5);
    EXPECT_INT(stats_of(service).workers_idled, 2);
    EXPECT_INT(stats_of(service).workers_now, 0);
    EXPECT_INT(stats_of(service).workers_ready, 0);
    EXPECT_OK(hn_future_wait(submit(scope, fine), 20000, NULL)); /* with a limit: by a worker */
    EXPECT(stats_of(service).workers_started >=
           3); /* more where 60 ms pass before it has the job */
    EXPECT_INT(stats_of(service).pools, 1);
    hn_scope_destroy(scope);
    hn_service_destroy(service);
}

/* Nobody has noticed yet when the jobs come. A limit: by workers. With a cache each job has a
 * lease. */
TEST(a_job_is_not_lost_with_a_worker_that_was_killed_before) {
    begin();
    unsetenv("HENRY_CC");
    hn_service *service = service_open((hn_service_options){.cache_dir = dir});
    int number = 0;
    for (int round = 0; round < 20; round++) {
        hn_scope *scope = scope_open(service);
        hn_future *futures[3];
        pid_t pids[2];
        wait_ready(service, 2);
        EXPECT_INT(hn_service_worker_pids(service, pids, 2), 2);
        for (int i = 0; i < 2; i++) EXPECT(kill(pids[i], SIGKILL) == 0);
        for (int i = 0; i < 3; i++) {
            char text[64];
            snprintf(text, sizeof(text), "int f(int x) { return x + %d; }", number++);
            futures[i] = submit(scope, text);
        }
        for (int i = 0; i < 3; i++) EXPECT_OK(hn_future_wait(futures[i], 20000, NULL));
        hn_scope_destroy(scope);
    }
    hn_service_stats stats = stats_of(service);
    EXPECT_INT(stats.crashed, 0);
    EXPECT_INT(stats.compiled, 60);
    EXPECT_INT(stats.dequeued, 60);
    EXPECT_INT(stats.waited_elsewhere, 0);
    hn_service_destroy(service);
    end();
}

/* It is tried as often as all workers may have been killed, and three times more. */
TEST(a_job_that_no_worker_reads_fails_in_the_end) {
    setenv("TEST_DEAF_WORKER", "1", 1);
    hn_service *service = service_open((hn_service_options){.threads = 2});
    hn_scope *scope = scope_open(service);
    wait_ready(service, 2);
    EXPECT_ERROR(hn_future_wait(submit(scope, fine), 20000, NULL), HN_TOOLCHAIN,
                 "ended with exit status 7");
    hn_service_stats stats = stats_of(service);
    EXPECT_INT(stats.crashed, 1);
    EXPECT_INT(stats.dequeued, 1);
    EXPECT(stats.workers_started >= 6);
    hn_scope_destroy(scope);
    hn_service_destroy(service);
    unsetenv("TEST_DEAF_WORKER");
}

/* It comes back from a worker that ended, or is taken from it before, and nobody wants it any
 * more. */
TEST(a_job_that_is_cancelled_and_not_read_ends) {
    hn_service *service = service_open((hn_service_options){.threads = 2});
    hn_scope *scope = scope_open(service);
    pid_t pids[2];
    wait_ready(service, 2);
    EXPECT_INT(hn_service_worker_pids(service, pids, 2), 2);
    for (int i = 0; i < 2; i++) { /* from then on it reads nothing */
        siginfo_t stopped;
        EXPECT(kill(pids[i], SIGSTOP) == 0);
        EXPECT(waitid(P_PID, (id_t)pids[i], &stopped, WSTOPPED | WNOWAIT | __WALL) == 0);
    }
    hn_future *future = submit(scope, fine);
    /* the pool's thread may be at it */
    for (int i = 0; i < 4000 && !stats_of(service).dequeued; i++) sleep_ms(5);
    EXPECT_INT(stats_of(service).dequeued, 1);
    hn_future_cancel(future); /* and perhaps the worker has ended for it by now */
    for (int i = 0; i < 2; i++) EXPECT(kill(pids[i], SIGKILL) == 0 || errno == ESRCH);
    for (int i = 0; i < 4000 && !stats_of(service).cancelled && !stats_of(service).abandoned; i++)
        sleep_ms(5);
    hn_service_stats stats = stats_of(service);
    EXPECT_INT(stats.cancelled + stats.abandoned, 1);
    EXPECT_INT(stats.crashed, 0);
    EXPECT_INT(stats.depth_now, 0);
    EXPECT_OK(hn_future_wait(submit(scope, fine), 20000, NULL)); /* the same again */
    hn_scope_destroy(scope);
    hn_service_destroy(service);
}

TEST(jobs_run_here_until_a_worker_is_ready) {
    char path[PATH_MAX], self[PATH_MAX] = "", script[PATH_MAX * 2];
    begin();
    unsetenv("HENRY_CC");
    EXPECT(readlink("/proc/self/exe", self, sizeof(self) - 1) > 0);
    snprintf(script, sizeof(script), "#!/bin/sh\nsleep 1\nexec %s \"$@\"\n", self);
    make_script("worker", script, path);
    hn_service *service = service_open((hn_service_options){.worker_path = path});
    hn_scope *scope = scope_open(service);
    hn_artifact *here = NULL, *there = NULL;
    int64_t start_ns = hn_now_ns();
    EXPECT_OK(hn_future_wait(submit(scope, fine), -1, &here));
    EXPECT(ms_since(start_ns) < 900);
    EXPECT_INT(stats_of(service).workers_ready, 0);
    hn_service *other = service_open((hn_service_options){.threads = 2});
    hn_scope *other_scope = scope_open(other);
    wait_ready(other, 2);
    EXPECT_OK(hn_future_wait(submit(other_scope, fine), 20000, &there));
    size_t a_len = 0, b_len = 1;
    const void *a = here ? hn_artifact_bytes(here, &a_len) : NULL,
               *b = there ? hn_artifact_bytes(there, &b_len) : NULL;
    EXPECT(a && b && a_len == b_len && memcmp(a, b, a_len) == 0);
    hn_artifact_release(here), hn_artifact_release(there);
    hn_scope_destroy(other_scope), hn_scope_destroy(scope);
    hn_service_destroy(other), hn_service_destroy(service);
    end();
}

TEST(a_worker_that_has_grown_is_replaced) {
    setenv("TEST_FAT_WORKER", "1", 1);
    hn_service *service = service_open((hn_service_options){.threads = 2});
    hn_scope *scope = scope_open(service);
    EXPECT_OK(hn_future_wait(submit(scope, fine), 30000, NULL));
    EXPECT_OK(hn_future_wait(submit(scope, "int g(int x) { return x; }\n"), 30000, NULL));
    /* more where growing takes longer than a first word may */
    EXPECT(stats_of(service).workers_started >= 2);
    EXPECT_INT(stats_of(service).crashed, 0);
    hn_scope_destroy(scope);
    hn_service_destroy(service);
    unsetenv("TEST_FAT_WORKER");
}

/* ---- the cores that processes share ---- */

/* All of them are in use by others, as long as the descriptor is open. */
static int take_cores(const char *path) {
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    struct flock all = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 2000};
    EXPECT(fd >= 0 && fcntl(fd, F_OFD_SETLK, &all) == 0);
    return fd;
}

static void await_start(hn_service *service, uint64_t count) {
    for (int i = 0; i < 400 && stats_of(service).dequeued < count; i++) sleep_ms(5);
    EXPECT_INT(stats_of(service).dequeued, count);
}

TEST(jobs_beyond_the_first_wait_for_a_core) {
    char cores[PATH_MAX];
    begin();
    snprintf(cores, sizeof(cores), "%s/henry-cores", dir);
    unsetenv("HENRY_CORES_FILE");
    setenv("XDG_RUNTIME_DIR", dir, 1);
    hn_service *service = NULL; /* without a cache: cores are not of a cache */
    EXPECT_OK(hn_service_create(
        &(hn_service_options){
            .threads = 2, .worker_path = "/proc/self/exe", .cache_dir = "", .remote_url = ""},
        &service));
    int fd = take_cores(cores);
    hn_scope *scope = scope_open(service);
    wait_ready(service, 2);
    submit(scope, "int x; /* HANG */");
    await_start(service, 1);
    hn_future *second = submit(scope, fine);
    EXPECT_ERROR(hn_future_wait(second, 600, NULL), HN_TIMEOUT, "is still being compiled");
    EXPECT_INT(stats_of(service).dequeued, 1);
    close(fd); /* the holder is gone */
    EXPECT_OK(hn_future_wait(second, 20000, NULL));
    hn_scope_destroy(scope);
    hn_service_destroy(service);
    unsetenv("XDG_RUNTIME_DIR");
    setenv("HENRY_CORES_FILE", "/dev/null", 1);
    end();
}

static void *wait_without_limit(void *future) {
    EXPECT_ERROR(hn_future_wait(future, -1, NULL), HN_CANCELLED, "");
    return NULL;
}

/* Before the first worker is ready the thread that waits compiles: that is the job that needs no
 * core. */
TEST(a_job_in_a_waiting_thread_is_the_first) {
    char cores[PATH_MAX];
    pthread_t waiter;
    begin();
    snprintf(cores, sizeof(cores), "%s/cores", dir);
    setenv("HENRY_CORES_FILE", cores, 1);
    int fd = take_cores(cores);
    hn_service *service = service_open((hn_service_options){.threads = 2});
    hn_scope *scope = scope_open(service);
    hn_future *first = submit(scope, "int x; /* HANG */");
    EXPECT(pthread_create(&waiter, NULL, wait_without_limit, first) == 0);
    await_start(service, 1);
    hn_future *second = submit(scope, fine);
    EXPECT_ERROR(hn_future_wait(second, 600, NULL), HN_TIMEOUT, "is still being compiled");
    EXPECT_INT(stats_of(service).dequeued, 1);
    hn_future_cancel(first);
    EXPECT_OK(hn_future_wait(second, 20000, NULL)); /* is the first now */
    pthread_join(waiter, NULL);
    close(fd);
    hn_scope_destroy(scope);
    hn_service_destroy(service);
    setenv("HENRY_CORES_FILE", "/dev/null", 1);
    end();
}

/* A link, which somebody else may have made, a place that is none, and no regular file. */
TEST(without_a_file_of_cores_nobody_counts) {
    char names[3][PATH_MAX], cores[PATH_MAX];
    begin();
    snprintf(cores, sizeof(cores), "%s/cores", dir);
    int fd = take_cores(cores);
    snprintf(names[0], PATH_MAX, "%s/link", dir);
    snprintf(names[1], PATH_MAX, "%s/absent/cores", dir);
    snprintf(names[2], PATH_MAX, "/dev/null");
    EXPECT(symlink(cores, names[0]) == 0);
    for (int i = 0; i < 3; i++) {
        setenv("HENRY_CORES_FILE", names[i], 1);
        hn_service *service = service_open((hn_service_options){.threads = 2});
        hn_scope *scope = scope_open(service);
        wait_ready(service, 2);
        submit(scope, "int x; /* HANG */");
        EXPECT_OK(hn_future_wait(submit(scope, fine), 20000, NULL));
        hn_scope_destroy(scope);
        hn_service_destroy(service);
    }
    close(fd);
    setenv("HENRY_CORES_FILE", "/dev/null", 1);
    end();
}

/* ---- what a job may set ---- */

TEST(the_environment_of_a_job_is_its_own) {
    static const char text[] = "const char *when(void) { return __DATE__; }\n";
    static const char *const flags[] = {"-O2"};
    char keys[3][80];
    hn_service *service = service_open((hn_service_options){.threads = 2});
    hn_scope *scope = scope_open(service);
    static const char *const variables[3] = {NULL, "SOURCE_DATE_EPOCH=86400000",
                                             "SOURCE_DATE_EPOCH=0"},
                             *const dates[3] = {"Jan  1 1970", "Sep 27 1972", "Jan  1 1970"};
    for (int i = 0; i < 3; i++) {
        hn_artifact *artifact = NULL;
        hn_library *library = NULL;
        void *address = NULL;
        EXPECT_OK(hn_future_wait(submit_with(scope, text, flags, 1, variables[i]), -1, &artifact));
        EXPECT_OK(hn_artifact_load(artifact, &library));
        EXPECT_OK(hn_library_symbol(library, "when", &address));
        if (address) EXPECT_STR(((const char *(*)(void))address)(), dates[i]);
        snprintf(keys[i], sizeof(keys[i]), "%s", hn_artifact_key(artifact));
        hn_library_close(library);
        hn_artifact_release(artifact);
    }
    EXPECT(strcmp(keys[0], keys[1]) != 0 && strcmp(keys[1], keys[2]) != 0);
    static const char *const wrong[] = {"TMPDIR=/tmp",
                                        "LD_PRELOAD=x.so",
                                        "DEPENDENCIES_OUTPUT=/x",
                                        "NVCC_APPEND_FLAGS=-o /x",
                                        "NVCC_PREPEND_FLAGS=-x",
                                        "NVCC_CCBIN=/x",
                                        "PATH=/x",
                                        "HOME=/x",
                                        "COMPILER_PATH=/x",
                                        "GCC_EXEC_PREFIX=/x/",
                                        "LD_LIBRARY_PATH=/x",
                                        "LIBRARY_PATH=/x",
                                        "CPATH=/x",
                                        "C_INCLUDE_PATH=/x",
                                        "GCC_COMPARE_DEBUG=-x",
                                        "LC_ALL=de",
                                        "CCACHE_PREFIX=/x",
                                        "SOURCE_DATE_EPOCH",
                                        "XSOURCE_DATE_EPOCH=1",
                                        "NAME",
                                        "=x",
                                        "A B=c",
                                        "1A=b",
                                        ""};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        hn_future *future;
        const hn_source source = {.name = "x",
                                  .language = "c",
                                  .text = "int x;",
                                  .text_len = 6,
                                  .env = &wrong[i],
                                  .env_count = 1};
        EXPECT_ERROR(hn_compile_submit(scope, &source, &future), HN_INVALID_ARGUMENT,
                     "cannot submit 'x' with environment");
    }
    hn_scope_destroy(scope);
    hn_service_destroy(service);
}

/* ---- tools that stand by ---- */

/* What the place of the text in a file, its length and what came before it could change. */
static const char *const texts[] = {
    "int f(int x) { return x; }",
    "static int a[] = {1, 2, 3};\nint f(int x) { return a[x] + __LINE__ + __COUNTER__; }\n",
    "const char *f(void) { return __FILE__ __BASE_FILE__; }\n",
    "int f(void) { return __INCLUDE_LEVEL__; }\n",
    "#line 40 \"other.c\"\nconst char *f(void) { return __FILE__; }\nint g(void) { return __LINE__; }\n",
    "int data = 7;\nstatic int counter;\nint f(void) { static int inner; return ++inner + ++counter + data; }\n",
    "extern float expf(float);\nvoid f(float *restrict p, const float *restrict q, long n) {\n"
    "    for (long i = 0; i < n; i++) p[i] = expf(q[i]) / (1.0f + q[i]);\n}\n",
    "double f(const double *x, long n) { double s = 0; for (long i = 0; i < n; i++) s += x[i] * x[i]; return s; }\n"
    "__attribute__((noinline)) static int g(int x) { return x * 3; }\nint h(int x) { return g(x) + g(x + 1); }\n",
    "#define X(n) int f##n(int x) { switch (x) { case 1: return n; case 2: return x * n; case 3: return 9; case 4: return 8; case 7: return n / 2; } return x; }\n"
    "X(1) X(2) X(3) X(4) X(5)\n",
};

TEST(tools_that_stand_by_give_the_same_bytes) {
    static const char *const sets[][4] = {{"-O2"},
                                          {"-O3", "-mavx2", "-ffast-math"},
                                          {"-O0", "-ffunction-sections"},
                                          {"-O2", "-g"},
                                          {"-Os", "-Wall", "-Werror", "-std=c11"}};
    hn_service *here = service_open((hn_service_options){.threads = 1}),
               *there = service_open((hn_service_options){.threads = 2});
    hn_scope *scopes[2] = {scope_open(here), scope_open(there)};
    wait_ready(there, 2);
    for (size_t s = 0; s < sizeof(sets) / sizeof(sets[0]); s++) {
        size_t flag_count = 0;
        while (flag_count < 4 && sets[s][flag_count]) flag_count++;
        for (size_t t = 0; t < sizeof(texts) / sizeof(texts[0]); t++) {
            hn_artifact *artifacts[2] = {NULL, NULL};
            size_t len[2] = {0, 0};
            hn_future *future = submit_with(scopes[1], texts[t], sets[s], flag_count, NULL);
            EXPECT_OK(hn_future_wait(submit_with(scopes[0], texts[t], sets[s], flag_count, NULL),
                                     -1, &artifacts[0]));
            EXPECT_OK(hn_future_wait(future, -1, &artifacts[1]));
            const void *a = artifacts[0] ? hn_artifact_bytes(artifacts[0], &len[0]) : NULL;
            const void *b = artifacts[1] ? hn_artifact_bytes(artifacts[1], &len[1]) : NULL;
            bool same = a && b && len[0] == len[1] && memcmp(a, b, len[0]) == 0;
            if (!same) fprintf(stderr, "text %zu differs with flags %zu\n", t, s);
            EXPECT(same);
            hn_artifact_release(artifacts[0]), hn_artifact_release(artifacts[1]);
        }
    }
    for (int i = 0; i < 2; i++) hn_scope_destroy(scopes[i]);
    hn_service_destroy(here), hn_service_destroy(there);
}

/* How many processes the workers keep when there is no job. */
static uint32_t kept_processes(hn_service_options options) {
    hn_service *service = service_open(options);
    hn_scope *scope = scope_open(service);
    pid_t pids[2] = {0, 0};
    uint32_t kept = 0;
    wait_ready(service, 2);
    EXPECT_OK(hn_future_wait(submit(scope, "int f(int x) { return x + 1; }\n"), -1, NULL));
    EXPECT_INT(hn_service_worker_pids(service, pids, 2), 2);
    for (int i = 0; i < 2; i++) kept += hn_process_tree_count(pids[i], 100);
    hn_scope_destroy(scope);
    hn_service_destroy(service);
    return kept;
}

TEST(tools_stand_by_unless_it_is_switched_off) {
    EXPECT(kept_processes((hn_service_options){.threads = 2, .warm = true}) > 0);
    EXPECT_INT(kept_processes((hn_service_options){.threads = 2, .warm = true, .no_standby = true}),
               0);
    setenv("HENRY_STANDBY", "off", 1);
    EXPECT_INT(kept_processes((hn_service_options){.threads = 2, .warm = true}), 0);
    unsetenv("HENRY_STANDBY");
}

TEST(a_diagnosis_is_the_same_from_tools_that_stand_by) {
    hn_service *services[2] = {service_open((hn_service_options){.threads = 1}),
                               service_open((hn_service_options){.threads = 2})};
    hn_status status[2];
    for (int i = 0; i < 2; i++) {
        hn_scope *scope = scope_open(services[i]);
        if (i) wait_ready(services[i], 2);
        status[i] = hn_future_wait(submit(scope, "int good;\nint bad(void) { return missing; }\n"),
                                   -1, NULL);
        EXPECT_INT(hn_status_code(status[i]), HN_TOOLCHAIN);
        hn_scope_destroy(scope);
        hn_service_destroy(services[i]);
    }
    EXPECT(strstr(hn_status_message(status[0]), "kernel.c:2:") != NULL);
    EXPECT_STR(hn_status_message(status[0]), hn_status_message(status[1]));
    hn_status_free(status[0]), hn_status_free(status[1]);
}

/* ---- the trace ---- */

TEST(every_job_has_its_spans_in_the_trace) {
    char path[PATH_MAX], cache[PATH_MAX];
    EXPECT_OK(hn_dir_temp(dir, sizeof(dir)));
    snprintf(path, sizeof(path), "%s/trace.json", dir);
    for (int threads = 1; threads <= 2; threads++) {
        /* without one there is nothing to publish to */
        snprintf(cache, sizeof(cache), "%s/%d", dir, threads);
        hn_trace_start();
        hn_service *service =
            service_open((hn_service_options){.threads = threads, .cache_dir = cache});
        hn_scope *scope = scope_open(service);
        submit(scope, fine);
        submit(scope, "int g(int x) { return x; }\n");
        EXPECT_OK(hn_scope_wait(scope, NULL, NULL));
        hn_scope_destroy(scope);
        hn_service_destroy(service);
        EXPECT_OK(hn_trace_write(path));
        hn_strbuf text;
        hn_strbuf_init(&text);
        EXPECT_OK(hn_file_read(path, &text));
        static const char *const spans[] = {"queued", "compile", "publish"};
        for (int i = 0; i < 3; i++) {
            char wanted[64];
            int count = 0;
            snprintf(wanted, sizeof(wanted), "\"cat\":\"%s\"", spans[i]);
            for (const char *at = text.ptr; at && (at = strstr(at, wanted)); at++) count++;
            EXPECT_INT(count, i == 0 ? 4 : 2); /* of what may overlap both ends stand there */
        }
        hn_strbuf_deinit(&text);
    }
    EXPECT_OK(hn_dir_remove(dir));
}

/* A worker that once had more memory than it may. */
static void grow(void) {
    size_t len = ((size_t)1 << 30) + ((size_t)64 << 20);
    void *memory =
        mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (memory != MAP_FAILED) munmap(memory, len);
}

/* Says that it is ready, and ends when a job comes. */
static int ignore_job(void) {
    hn_strbuf hello;
    hn_strbuf_init(&hello);
    hn_frame_write(&hello, HN_FRAME_HELLO, 0, HN_STR(""));
    if (send(0, hello.ptr, hello.len, MSG_NOSIGNAL) != (ssize_t)hello.len) return 1;
    hn_strbuf_deinit(&hello);
    struct pollfd input = {.fd = 0, .events = POLLIN};
    return poll(&input, 1, -1) == 1 ? 7 : 1;
}

int main(int argc, char **argv) {
    if (argc >= 3 && strcmp(argv[1], "--worker") == 0) {
        if (getenv("TEST_DEAF_WORKER")) return ignore_job();
        if (getenv("TEST_FAT_WORKER")) grow();
        return hn_worker_main(argc, argv);
    }
    return hn_test_main(argc, argv);
}
