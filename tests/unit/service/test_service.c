/* test_service.c: the compile service with workers and without: hits, failures, crashes, limits,
 * statistics, fork.
 *
 * The test program is its own worker, so that it needs nothing that another target builds. */
#include "service/service.h"
#include "service/worker.h"

#include "base/file.h"
#include "base/log.h"
#include "base/trace.h"
#include "cache/record.h"
#include "service_fixture.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static char dir[PATH_MAX - 256]; /* of the running test */

static hn_future *submit(hn_scope *scope, const char *name, const char *text) {
    static const char *const flags[] = {"-O2"};
    hn_future *future = NULL;
    const hn_source source = {.name = name,
                              .language = "c",
                              .text = text,
                              .text_len = strlen(text),
                              .flags = flags,
                              .flag_count = 1};
    EXPECT_OK(hn_compile_submit(scope, &source, &future));
    return future;
}

static hn_service_stats stats_of(hn_service *service) {
    hn_service_stats stats;
    hn_service_stats_get(service, &stats);
    return stats;
}

static int call(const hn_artifact *artifact, const char *symbol, int argument) {
    hn_library *library = NULL;
    void *address = NULL;
    EXPECT_OK(hn_artifact_load(artifact, &library));
    EXPECT_OK(hn_library_symbol(library, symbol, &address));
    int result = address ? ((int (*)(int))address)(argument) : -1;
    hn_library_close(library);
    return result;
}

static void sleep_ms(int ms) {
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L}, NULL);
}

/* Processes of a group that still run: killed orphans stay as zombies until process 1 takes them,
 * which may be long. */
static int group_size(pid_t group) {
    int count = 0;
    DIR *proc = opendir("/proc");
    for (struct dirent *entry; proc && (entry = readdir(proc));) {
        char path[300], state = 'Z';
        int pgrp = 0;
        if (entry->d_name[0] < '0' || entry->d_name[0] > '9') continue;
        snprintf(path, sizeof(path), "/proc/%s/stat", entry->d_name);
        FILE *file = fopen(path, "r");
        if (!file) continue;
        if (fscanf(file, "%*d (%*[^)]) %c %*d %d", &state, &pgrp) == 2)
            count += pgrp == group && state != 'Z' && state != 'X';
        fclose(file);
    }
    if (proc) closedir(proc);
    return count;
}

/* Waits until the group is gone, at most two seconds; the milliseconds that took, or -1. */
static int group_gone_ms(pid_t group) {
    int64_t start = hn_now_ns();
    while (group_size(group)) {
        if (hn_now_ns() - start > 2000000000) return -1;
        sleep_ms(2);
    }
    return (int)((hn_now_ns() - start) / 1000000);
}

static const char two[] =
    "int twice(int x) { return 2 * x; }\nint thrice(int x) { return 3 * x; }\n";
static const char bad[] = "int bad(int x) { return missing; }\n";

/* A compiler script: what it does with a source depends on a word in it. Everything else goes to
 * the real one. */
static void script_begin(char cc[PATH_MAX]) {
    EXPECT_OK(hn_dir_temp(dir, sizeof(dir)));
    snprintf(cc, PATH_MAX, "%s/cc", dir);
    FILE *file = fopen(cc, "w");
    EXPECT(file != NULL);
    fputs("#!/bin/sh\n"
          "case $1 in --version) exec gcc --version;; esac\n"
          "if grep -q HANG kernel.c 2>/dev/null; then sleep 30 & sleep 30; fi\n"
          "if grep -q SUICIDE kernel.c 2>/dev/null; then kill -9 $PPID; sleep 30; fi\n"
          "exec gcc \"$@\"\n",
          file);
    fclose(file);
    EXPECT(chmod(cc, 0700) == 0);
    setenv("HENRY_CC", cc, 1);
    setenv("TMPDIR", dir, 1);
}

/* Files in the directory of the test: the script, and what killed compilers left. */
static int file_count(void) {
    int count = 0;
    DIR *list = opendir(dir);
    for (struct dirent *entry; list && (entry = readdir(list));) count += entry->d_name[0] != '.';
    if (list) closedir(list);
    return count;
}

static void script_end(void) {
    unsetenv("HENRY_CC");
    unsetenv("TMPDIR");
    EXPECT_OK(hn_dir_remove(dir));
}

/* ---- the ordinary way ---- */

static void check_two_kernels(int threads) {
    hn_service *service = service_open((hn_service_options){.threads = threads});
    EXPECT_INT(hn_service_is_inline(service), threads == 1);
    EXPECT_INT(stats_of(service).workers_started, 0);
    hn_scope *scope = scope_open(service);
    hn_future *future = submit(scope, "two", two);
    hn_artifact *artifact = NULL;
    EXPECT_OK(hn_future_wait(future, -1, &artifact));
    EXPECT(hn_future_is_done(future));
    EXPECT_INT(call(artifact, "twice", 21), 42);
    EXPECT_INT(call(artifact, "thrice", 5), 15);
    EXPECT_INT(strlen(hn_artifact_key(artifact)), 64);
    hn_scope_destroy(scope);
    hn_service_stats stats = stats_of(service);
    EXPECT_INT(stats.workers_started, threads > 1);
    EXPECT_INT(stats.pools, threads > 1);
    EXPECT_INT(stats.compiled, 1);
    EXPECT_INT(stats.service_time[0].count, 1);
    EXPECT_STR(stats.service_time[0].language, "c");
    EXPECT(stats.service_time[0].total_ns > 0);
    hn_service_destroy(service);
    EXPECT_INT(call(artifact, "twice", 4), 8); /* outlives the service */
    hn_artifact_release(artifact);
}

TEST(two_kernels_of_one_unit_through_a_worker) { check_two_kernels(2); }
TEST(two_kernels_of_one_unit_inline) { check_two_kernels(1); }

TEST(inline_and_worker_give_the_same_bytes) {
    hn_artifact *artifacts[2] = {NULL, NULL};
    for (int i = 0; i < 2; i++) {
        hn_service *service = service_open((hn_service_options){.threads = i + 1});
        hn_scope *scope = scope_open(service);
        EXPECT_OK(hn_future_wait(submit(scope, "two", two), -1, &artifacts[i]));
        hn_scope_destroy(scope);
        hn_service_destroy(service);
    }
    size_t a_len, b_len;
    const void *a = hn_artifact_bytes(artifacts[0], &a_len),
               *b = hn_artifact_bytes(artifacts[1], &b_len);
    EXPECT(a_len == b_len && memcmp(a, b, a_len) == 0);
    EXPECT_STR(hn_artifact_key(artifacts[0]), hn_artifact_key(artifacts[1]));
    hn_artifact_release(artifacts[0]);
    hn_artifact_release(artifacts[1]);
}

TEST(a_source_with_everything_has_its_parts_in_the_key) {
    static const char *const flags[] = {"-O2", "-DX=1"}, *const other_flags[] = {"-O2", "-DX=2"},
                             *const target[] = {"sse3"};
    hn_service *service = service_open((hn_service_options){.threads = 1});
    hn_strbuf records[4], out;
    hn_source source = {.name = "x",
                        .language = "c",
                        .text = "int x;",
                        .text_len = 6,
                        .flags = flags,
                        .flag_count = 2};
    for (int i = 0; i < 4; i++) {
        hn_strbuf_init(&records[i]);
        if (i == 1) source.flags = other_flags;
        if (i == 2) source.flags = flags, source.target = target, source.target_count = 1;
        if (i == 3) source.target_count = 0, source.name = "y"; /* the name alone changes nothing */
        EXPECT_OK(hn_service_key_record(service, &source, &records[i]));
    }
    hn_strbuf_init(&out);
    EXPECT_INT(hn_record_diff(hn_strbuf_str(&records[0]), hn_strbuf_str(&records[1]), &out), 1);
    EXPECT_STR(out.ptr, "field 'flags' was '-O2 -DX=1', is '-O2 -DX=2'\n");
    EXPECT_INT(hn_record_diff(hn_strbuf_str(&records[0]), hn_strbuf_str(&records[2]), NULL), 1);
    EXPECT_INT(hn_record_diff(hn_strbuf_str(&records[0]), hn_strbuf_str(&records[3]), NULL), 0);
    for (int i = 0; i < 4; i++) hn_strbuf_deinit(&records[i]);
    hn_strbuf_deinit(&out);
    hn_service_destroy(service);
}

TEST(bad_submissions_are_refused) {
    hn_service *service = service_open((hn_service_options){.threads = 1});
    hn_scope *scope = scope_open(service);
    hn_future *future;
    EXPECT_ERROR(
        hn_compile_submit(scope,
                          &(hn_source){.name = "x", .language = "cobol", .text = "", .text_len = 0},
                          &future),
        HN_UNSUPPORTED, "'cobol'");
    EXPECT_ERROR(hn_compile_submit(scope, &(hn_source){.language = "c", .text = ""}, &future),
                 HN_INVALID_ARGUMENT, "without name");
    EXPECT_ERROR(hn_compile_submit(
                     scope, &(hn_source){.name = "x", .language = "c", .text = "", .flag_count = 1},
                     &future),
                 HN_INVALID_ARGUMENT, "a list is NULL");
    EXPECT_OK(hn_scope_wait(scope, NULL, NULL)); /* an empty scope is done */
    hn_scope_destroy(scope);
    hn_service_destroy(service);
}

/* ---- hits ---- */

TEST(equal_jobs_compile_once) {
    hn_service *service = service_open((hn_service_options){.threads = 2});
    hn_scope *scope = scope_open(service), *other = scope_open(service);
    hn_future *a = submit(scope, "a", two), *b = submit(scope, "b", two),
              *c = submit(other, "c", two);
    EXPECT_INT(hn_future_hit_level(a), HN_HIT_NONE);
    EXPECT_INT(hn_future_hit_level(b), HN_HIT_INFLIGHT);
    EXPECT_INT(hn_future_hit_level(c), HN_HIT_INFLIGHT);
    EXPECT_OK(hn_scope_wait(scope, NULL, NULL));
    EXPECT_OK(hn_scope_wait(other, NULL, NULL));
    hn_artifact *x = NULL, *y = NULL;
    EXPECT_OK(hn_future_wait(a, 0, &x));
    EXPECT_OK(hn_future_wait(c, 0, &y));
    EXPECT(x == y);
    hn_artifact_release(x), hn_artifact_release(y);
    hn_scope_destroy(scope);
    hn_future *d = submit(other, "d", two);
    EXPECT_INT(hn_future_hit_level(d), HN_HIT_MEMORY);
    EXPECT(hn_future_is_done(d));
    hn_scope_destroy(other);
    hn_service_stats stats = stats_of(service);
    EXPECT_INT(stats.submitted, 4);
    EXPECT_INT(stats.compiled, 1);
    EXPECT_INT(stats.enqueued, 1);
    EXPECT_INT(stats.dequeued, 1);
    EXPECT_INT(stats.hits[HN_HIT_NONE], 1);
    EXPECT_INT(stats.hits[HN_HIT_INFLIGHT], 2);
    EXPECT_INT(stats.hits[HN_HIT_MEMORY], 1);
    hn_service_destroy(service);
}

TEST(the_next_service_finds_results_and_failures_on_disk) {
    EXPECT_OK(hn_dir_temp(dir, sizeof(dir)));
    for (int round = 0; round < 2; round++) {
        hn_service *service = service_open((hn_service_options){.cache_dir = dir});
        hn_scope *scope = scope_open(service);
        hn_future *good = submit(scope, "two", two), *failing = submit(scope, "bad", bad);
        hn_artifact *artifact = NULL;
        EXPECT_OK(hn_future_wait(good, -1, &artifact));
        EXPECT_INT(call(artifact, "thrice", 2), 6);
        hn_artifact_release(artifact);
        EXPECT_ERROR(hn_future_wait(failing, -1, NULL), HN_TOOLCHAIN,
                     "cannot compile kernel 'bad': ");
        hn_service_stats stats = stats_of(service);
        EXPECT_INT(stats.hits[HN_HIT_DISK], round ? 2 : 0);
        EXPECT_INT(stats.failure_hits, round);
        EXPECT_INT(stats.workers_started, round ? 0 : 2);
        hn_scope_destroy(scope);
        hn_service_destroy(service);
    }
    EXPECT_OK(hn_dir_remove(dir));
}

TEST(a_damaged_entry_is_compiled_again) {
    EXPECT_OK(hn_dir_temp(dir, sizeof(dir)));
    char path[PATH_MAX] = "";
    hn_log_configure("error");
    for (int round = 0; round < 3; round++) {
        hn_service *service = service_open((hn_service_options){.cache_dir = dir, .threads = 1});
        hn_scope *scope = scope_open(service);
        hn_future *future = submit(scope, "two", two);
        hn_artifact *artifact = NULL;
        EXPECT_OK(hn_future_wait(future, -1, &artifact));
        EXPECT_INT(hn_future_hit_level(future), round == 2 ? HN_HIT_DISK : HN_HIT_NONE);
        EXPECT_INT(call(artifact, "twice", 3), 6);
        const char *key = hn_artifact_key(artifact);
        snprintf(path, sizeof(path), "%s/kernel/%.2s/%s", dir, key, key + 2);
        hn_artifact_release(artifact);
        hn_scope_destroy(scope);
        hn_service_destroy(service);
        if (round > 0) continue;
        int fd = open(path, O_WRONLY);
        EXPECT(fd >= 0 && pwrite(fd, "damage", 6, 700) == 6);
        close(fd);
    }
    hn_log_configure(NULL);
    EXPECT_OK(hn_dir_remove(dir));
}

static void write_value(const char *path, int value) {
    char text[64];
    int len = snprintf(text, sizeof(text), "#define VALUE %d\n", value);
    EXPECT_OK(hn_file_write_atomic(path, text, (size_t)len, false));
}

/* Compiles what includes the header and calls it. */
static int value_in(hn_scope *scope, const char *header, hn_hit_level level) {
    char text[PATH_MAX + 100];
    hn_artifact *artifact = NULL;
    snprintf(text, sizeof(text), "#include \"%s\"\nint value(int x) { return x + VALUE; }\n",
             header);
    hn_future *future = submit(scope, "value", text);
    EXPECT_OK(hn_future_wait(future, -1, &artifact));
    EXPECT_INT(hn_future_hit_level(future), level);
    int result = artifact ? call(artifact, "value", 0) : -1;
    hn_artifact_release(artifact);
    return result;
}

TEST(results_of_sources_with_headers_live_as_long_as_the_headers) {
    char header[PATH_MAX + 16], cache[PATH_MAX + 16];
    EXPECT_OK(hn_dir_temp(dir, sizeof(dir)));
    snprintf(header, sizeof(header), "%s/value.h", dir);
    snprintf(cache, sizeof(cache), "%s/cache", dir);
    write_value(header, 1);
    sleep_ms(80); /* a younger one might have changed while it was read */
    for (int round = 0; round < 2; round++) {
        hn_service *service = service_open((hn_service_options){.cache_dir = cache, .threads = 1});
        hn_scope *scope = scope_open(service);
        EXPECT_INT(value_in(scope, header, round ? HN_HIT_DISK : HN_HIT_NONE), 1);
        EXPECT_INT(value_in(scope, header, HN_HIT_MEMORY), 1);
        if (round == 1) {
            write_value(header, 2);
            sleep_ms(80);
            EXPECT_INT(value_in(scope, header, HN_HIT_NONE), 2);
            EXPECT_INT(value_in(scope, header, HN_HIT_MEMORY), 2);
            write_value(header, 1);
            sleep_ms(80);
            /* the list of the headers is the newest one */
            EXPECT_INT(value_in(scope, header, HN_HIT_NONE), 1);
        }
        hn_scope_destroy(scope);
        hn_service_destroy(service);
    }
    EXPECT_OK(hn_dir_remove(dir));
}

TEST(sources_with_untold_files_are_compiled_each_time) {
    EXPECT_OK(hn_dir_temp(dir, sizeof(dir)));
    hn_service *service = service_open((hn_service_options){.cache_dir = dir, .threads = 1});
    hn_scope *scope = scope_open(service);
    for (int round = 0; round < 2; round++) {
        hn_future *future = submit(
            scope, "has", "#if __has_include(<stddef.h>)\nint f(int x) { return x; }\n#endif\n");
        EXPECT_OK(hn_future_wait(future, -1, NULL));
        EXPECT_INT(hn_future_hit_level(future), HN_HIT_NONE);
    }
    hn_scope_destroy(scope);
    hn_service_destroy(service);
    EXPECT_OK(hn_dir_remove(dir));
}

TEST(an_unusable_cache_directory_changes_nothing) {
    hn_log_configure("error");
    hn_service *service = service_open((hn_service_options){.cache_dir = "/proc/no/such"});
    hn_scope *scope = scope_open(service);
    submit(scope, "two", two);
    EXPECT_OK(hn_scope_wait(scope, NULL, NULL));
    hn_scope_destroy(scope);
    hn_service_destroy(service);
    hn_log_configure(NULL);
}

/* ---- failures ---- */

TEST(errors_name_the_kernel_and_the_file_to_try) {
    EXPECT_OK(hn_dir_temp(dir, sizeof(dir)));
    hn_service *service = service_open((hn_service_options){.cache_dir = dir});
    hn_scope *scope = scope_open(service);
    hn_future *future = submit(scope, "softmax_7", bad), *good = submit(scope, "two", two);
    hn_status status = hn_future_wait(future, -1, NULL);
    EXPECT_INT(hn_status_code(status), HN_TOOLCHAIN);
    const char *message = hn_status_message(status), *file = strstr(message, dir);
    EXPECT(strstr(message, "cannot compile kernel 'softmax_7': ") == message);
    EXPECT(strstr(message, "kernel.c:1:") != NULL);
    EXPECT(file != NULL);
    EXPECT_ERROR(hn_scope_wait(scope, NULL, NULL), HN_TOOLCHAIN,
                 "cannot compile kernel 'softmax_7': ");
    EXPECT_OK(hn_future_wait(good, -1, NULL));
    hn_scope_destroy(scope);
    /* the source is written behind the waiter's back, and surely by now */
    hn_service_destroy(service);
    hn_strbuf source;
    hn_strbuf_init(&source);
    if (file) EXPECT_OK(hn_file_read(file, &source));
    EXPECT(file && hn_str_eq(hn_strbuf_str(&source), hn_str_of(bad)));
    hn_strbuf_deinit(&source);
    hn_status_free(status);
    EXPECT_OK(hn_dir_remove(dir));
}

TEST(a_scope_tells_how_many_failed) {
    hn_service *service = service_open((hn_service_options){.threads = 2});
    hn_scope *scope = scope_open(service);
    submit(scope, "two", two);
    submit(scope, "bad_1", bad);
    submit(scope, "bad_2", "int bad_2(int x) { return nothing; }\n");
    EXPECT_ERROR(hn_scope_wait(scope, NULL, NULL), HN_TOOLCHAIN,
                 "2 of 3 kernels failed, the first one: cannot compile kernel 'bad_1'");
    EXPECT_INT(stats_of(service).failed, 2);
    hn_scope_destroy(scope);
    hn_service_destroy(service);
}

/* Waits until a worker has a job, then returns its process id. */
static pid_t busy_worker(hn_service *service) {
    pid_t pid = 0;
    for (int i = 0; i < 500; i++) {
        if (stats_of(service).dequeued > 0 && hn_service_worker_pids(service, &pid, 1) == 1) break;
        sleep_ms(10);
    }
    EXPECT(pid > 0);
    sleep_ms(100); /* for the compiler to start */
    return pid;
}

TEST(a_killed_worker_fails_one_job) {
    char cc[PATH_MAX];
    script_begin(cc);
    hn_service *service = service_open((hn_service_options){.threads = 2});
    hn_scope *scope = scope_open(service);
    hn_future *hanging = submit(scope, "victim", "int x; /* HANG */");
    pid_t pid = busy_worker(service);
    hn_future *good = submit(scope, "two", two);
    EXPECT(kill(pid, SIGKILL) == 0);
    EXPECT_ERROR(hn_future_wait(hanging, 5000, NULL), HN_TOOLCHAIN,
                 "cannot compile kernel 'victim': the compile worker");
    EXPECT_ERROR(hn_future_wait(hanging, 5000, NULL), HN_TOOLCHAIN, "was killed by signal 9");
    EXPECT_OK(hn_future_wait(good, -1, NULL));
    EXPECT(group_gone_ms(pid) >= 0); /* its compilers went with it */
    hn_service_stats stats = stats_of(service);
    EXPECT_INT(stats.crashed, 1);
    EXPECT_INT(stats.failed, 1);
    hn_future *after = submit(scope, "after", "int after(int x) { return x; }");
    EXPECT_OK(hn_future_wait(after, -1, NULL));
    hn_scope_destroy(scope);
    hn_service_destroy(service);
    EXPECT_INT(file_count(), 1); /* no temporary files */
    script_end();
}

/* Where it can: the worker is out of its reach in a namespace. */
TEST(a_compiler_that_kills_its_worker_fails_one_job) {
    char cc[PATH_MAX];
    script_begin(cc);
    setenv("HENRY_NAMESPACES", "off", 1);
    hn_service *service = service_open((hn_service_options){.threads = 2});
    hn_scope *scope = scope_open(service);
    hn_future *guilty = submit(scope, "guilty", "int x; /* SUICIDE */");
    hn_future *good[4];
    for (int i = 0; i < 4; i++) {
        char text[64];
        snprintf(text, sizeof(text), "int f%d(int x) { return x; }", i);
        good[i] = submit(scope, "good", text);
    }
    EXPECT_ERROR(hn_future_wait(guilty, 10000, NULL), HN_TOOLCHAIN,
                 "kernel 'guilty': the compile worker");
    for (int i = 0; i < 4; i++) EXPECT_OK(hn_future_wait(good[i], -1, NULL));
    /* Not remembered: the next time it is tried again. */
    hn_future *again = submit(scope, "again", "int x; /* SUICIDE */");
    EXPECT_INT(hn_future_hit_level(again), HN_HIT_NONE);
    EXPECT_ERROR(hn_future_wait(again, 10000, NULL), HN_TOOLCHAIN, "kernel 'again'");
    EXPECT_INT(stats_of(service).crashed, 2);
    hn_scope_destroy(scope);
    hn_service_destroy(service);
    unsetenv("HENRY_NAMESPACES");
    script_end();
}

static void check_timeout(int threads) {
    char cc[PATH_MAX];
    script_begin(cc);
    hn_service *service =
        service_open((hn_service_options){.threads = threads, .job_timeout_ms = 1500});
    hn_scope *scope = scope_open(service);
    hn_future *hanging = submit(scope, "slow", "int x; /* HANG */");
    pid_t pid = threads > 1 ? busy_worker(service) : 0;
    EXPECT_ERROR(hn_future_wait(hanging, 10000, NULL), HN_TIMEOUT,
                 "cannot compile kernel 'slow': ");
    if (pid) EXPECT(group_gone_ms(pid) >= 0);
    hn_future *good = submit(scope, "two", two);
    EXPECT_OK(hn_future_wait(good, -1, NULL));
    EXPECT_INT(stats_of(service).timed_out, 1);
    hn_scope_destroy(scope);
    hn_service_destroy(service);
    script_end();
}

TEST(a_late_job_is_killed_with_its_worker) { check_timeout(2); }
TEST(a_late_job_is_killed_inline) { check_timeout(1); }

TEST(waiting_has_a_limit_of_its_own) {
    char cc[PATH_MAX];
    script_begin(cc);
    hn_service *service = service_open((hn_service_options){.threads = 2});
    hn_scope *scope = scope_open(service);
    hn_future *hanging = submit(scope, "slow", "int x; /* HANG */");
    EXPECT_ERROR(hn_future_wait(hanging, 100, NULL), HN_TIMEOUT,
                 "kernel 'slow' is still being compiled");
    EXPECT(!hn_future_is_done(hanging));
    int64_t start = hn_now_ns();
    hn_scope_destroy(scope);
    hn_service_destroy(service); /* with a job that would run for half a minute */
    EXPECT(hn_now_ns() - start < 1000000000);
    EXPECT_INT(file_count(), 1);
    script_end();
}

TEST(a_worker_program_that_is_none_means_inline) {
    hn_log_configure("error");
    static const char *const paths[] = {"/no/such/worker", "/bin/true", "/bin/cat", ""};
    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
        hn_service *service = service_open((hn_service_options){.worker_path = paths[i]});
        hn_scope *scope = scope_open(service);
        hn_artifact *artifact = NULL;
        EXPECT_OK(hn_future_wait(submit(scope, "two", two), 30000, &artifact));
        EXPECT_INT(call(artifact, "twice", 2), 4);
        EXPECT(hn_service_is_inline(service));
        hn_artifact_release(artifact);
        hn_scope_destroy(scope);
        hn_service_destroy(service);
    }
    hn_log_configure(NULL);
}

/* ---- cancelling, progress ---- */

TEST(cancelled_jobs_leave_the_queue) {
    char cc[PATH_MAX];
    script_begin(cc);
    hn_service *service = service_open((hn_service_options){.threads = 2});
    hn_scope *scope = scope_open(service);
    hn_future *hanging[2] = {submit(scope, "h0", "int x0; /* HANG */"),
                             submit(scope, "h1", "int x1; /* HANG */")};
    for (int i = 0; i < 200 && stats_of(service).dequeued < 2; i++) sleep_ms(10);
    hn_future *queued = submit(scope, "queued", two), *shared = submit(scope, "shared", two);
    EXPECT_INT(stats_of(service).depth_now, 1);
    hn_future_cancel(queued);
    EXPECT_INT(stats_of(service).depth_now, 1); /* somebody else wants it */
    EXPECT_ERROR(hn_future_wait(queued, -1, NULL), HN_CANCELLED, "kernel 'queued' was cancelled");
    hn_future_cancel(shared);
    EXPECT_INT(stats_of(service).depth_now, 0);
    hn_future_cancel(hanging[0]);
    EXPECT(hn_future_is_done(hanging[0]));
    hn_service_stats stats = stats_of(service);
    EXPECT_INT(stats.cancelled, 1);
    EXPECT_INT(stats.enqueued, stats.dequeued + stats.cancelled + stats.depth_now);
    hn_future *again = submit(scope, "again", two);
    EXPECT_INT(hn_future_hit_level(again), HN_HIT_NONE);
    hn_scope_destroy(scope);
    hn_service_destroy(service);
    script_end();
}

typedef struct seen {
    uint32_t calls, last_done, total;
    bool grows, names;
    uint32_t stop_at;
} seen;

static bool on_progress(void *context, const hn_scope_progress *progress) {
    seen *s = context;
    s->calls++;
    s->grows &= progress->done >= s->last_done;
    s->names &= (progress->waiting_for == NULL) == (progress->done == progress->total);
    s->last_done = progress->done;
    s->total = progress->total;
    return s->calls != s->stop_at;
}

TEST(progress_grows_to_the_total) {
    for (int threads = 1; threads <= 2; threads++) {
        hn_service *service = service_open((hn_service_options){.threads = threads});
        hn_scope *scope = scope_open(service);
        for (int i = 0; i < 6; i++) {
            char text[64];
            snprintf(text, sizeof(text), "int f%d(int x) { return x; }", i);
            submit(scope, "f", text);
        }
        seen s = {.grows = true, .names = true};
        EXPECT_OK(hn_scope_wait(scope, on_progress, &s));
        EXPECT(s.grows && s.names && s.calls >= 2);
        EXPECT_INT(s.last_done, 6);
        EXPECT_INT(s.total, 6);
        hn_scope_destroy(scope);
        hn_service_destroy(service);
    }
}

TEST(progress_can_stop_a_scope) {
    char cc[PATH_MAX];
    script_begin(cc);
    hn_service *service = service_open((hn_service_options){.threads = 2});
    hn_scope *scope = scope_open(service);
    for (int i = 0; i < 4; i++) {
        char text[64];
        snprintf(text, sizeof(text), "int x%d; /* HANG */", i);
        submit(scope, "hanging", text);
    }
    seen s = {.grows = true, .names = true, .stop_at = 2};
    EXPECT_ERROR(hn_scope_wait(scope, on_progress, &s), HN_CANCELLED, "4 of 4 kernels failed");
    EXPECT_INT(s.calls, 2);
    hn_scope_destroy(scope);
    hn_service_destroy(service);
    script_end();
}

/* ---- statistics, threads, processes ---- */

TEST(statistics_add_up) {
    hn_service *service = service_open((hn_service_options){.threads = 2});
    hn_scope *scope = scope_open(service);
    enum { COUNT = 24 };
    for (int i = 0; i < COUNT; i++) {
        char text[64];
        snprintf(text, sizeof(text), "int f%d(int x) { return x + %d; }", i, i);
        submit(scope, "f", text);
    }
    EXPECT_OK(hn_scope_wait(scope, NULL, NULL));
    hn_service_stats s = stats_of(service);
    EXPECT_INT(s.submitted, COUNT);
    EXPECT_INT(s.enqueued, COUNT);
    EXPECT_INT(s.dequeued, COUNT);
    EXPECT_INT(s.compiled, COUNT);
    EXPECT_INT(s.depth_now, 0);
    EXPECT(s.depth_max >= 1 && s.depth_max <= COUNT);
    EXPECT(s.workers_started == 2 && s.workers_now == 2);
    EXPECT(0 <= s.wait_p50_ns && s.wait_p50_ns <= s.wait_p95_ns &&
           s.wait_p95_ns <= s.wait_longest_ns);
    EXPECT(s.wait_p95_ns > 0);
    EXPECT(s.service_time[0].longest_ns <= s.service_time[0].total_ns);
    hn_strbuf text;
    hn_strbuf_init(&text);
    hn_service_stats_print(&s, &text);
    EXPECT(strstr(text.ptr, "24 jobs asked for: 24 compiled") != NULL);
    hn_strbuf_deinit(&text);
    hn_scope_destroy(scope);
    hn_service_destroy(service);
}

static void *submit_many(void *argument) {
    hn_service *service = argument;
    hn_scope *scope = scope_open(service);
    for (int i = 0; i < 12; i++) {
        char text[64];
        snprintf(text, sizeof(text), "int f(int x) { return x + %d; }", i);
        submit(scope, "f", text);
    }
    EXPECT_OK(hn_scope_wait(scope, NULL, NULL));
    for (int i = 0; i < 12; i++) {
        char text[64];
        snprintf(text, sizeof(text), "int f(int x) { return x + %d; }", i);
        hn_artifact *artifact = NULL;
        EXPECT_OK(hn_future_wait(submit(scope, "f", text), -1, &artifact));
        EXPECT_INT(call(artifact, "f", 100), 100 + i);
        hn_artifact_release(artifact);
    }
    hn_scope_destroy(scope);
    return NULL;
}

static void check_threads(int threads) {
    hn_service *service = service_open((hn_service_options){.threads = threads});
    pthread_t ids[4];
    for (int i = 0; i < 4; i++) EXPECT(pthread_create(&ids[i], NULL, submit_many, service) == 0);
    for (int i = 0; i < 4; i++) pthread_join(ids[i], NULL);
    hn_service_stats stats = stats_of(service);
    EXPECT_INT(stats.compiled, 12);
    EXPECT_INT(stats.submitted, 4 * 24);
    hn_service_destroy(service);
}

TEST(many_threads_share_a_service_with_workers) { check_threads(2); }
TEST(many_threads_share_a_service_inline) { check_threads(1); }

static void *submit_and_leave(void *argument) {
    submit(argument, "two", two);
    return NULL;
}

/* The kernel's death signal follows the thread that started a worker, so that must not be a thread
 * of the host. */
TEST(workers_outlive_the_thread_that_submitted) {
    hn_service *service = service_open((hn_service_options){.threads = 2});
    hn_scope *scope = scope_open(service);
    pthread_t id;
    EXPECT(pthread_create(&id, NULL, submit_and_leave, scope) == 0);
    pthread_join(id, NULL);
    EXPECT_OK(hn_scope_wait(scope, NULL, NULL));
    submit(scope, "other", "int other(int x) { return x; }");
    EXPECT_OK(hn_scope_wait(scope, NULL, NULL));
    EXPECT_INT(stats_of(service).crashed, 0);
    hn_scope_destroy(scope);
    hn_service_destroy(service);
}

TEST(a_forked_child_starts_over) {
#ifdef __SANITIZE_THREAD__
    hn_test_skip("ThreadSanitizer cannot follow a fork of a program with threads");
    return;
#endif
    hn_service *service = service_open((hn_service_options){.threads = 2});
    hn_scope *scope = scope_open(service);
    hn_future *future = submit(scope, "two", two);
    pid_t pid = fork();
    if (pid == 0) {
        int wrong = 0;
        hn_status status = hn_future_wait(future, -1, NULL);
        wrong |= hn_status_code(status) != HN_CANCELLED;
        hn_status_free(status);
        wrong |= stats_of(service).submitted != 0;
        hn_scope *own = scope_open(service);
        hn_artifact *artifact = NULL;
        status = hn_future_wait(submit(own, "two", two), -1, &artifact);
        wrong |= status || call(artifact, "twice", 5) != 10;
        hn_artifact_release(artifact);
        hn_scope_destroy(own);
        hn_service_destroy(service);
        _exit(wrong);
    }
    int child = -1;
    EXPECT(waitpid(pid, &child, 0) == pid);
    EXPECT_INT(child, 0);
    EXPECT_OK(hn_future_wait(future, -1, NULL));
    hn_scope_destroy(scope);
    hn_service_destroy(service);
}

/* A process that dies takes its workers and their compilers with it. */
TEST(workers_die_with_their_parent) {
    char cc[PATH_MAX];
    script_begin(cc);
    int ends[2];
    EXPECT(pipe(ends) == 0);
    pid_t pid = fork();
    if (pid == 0) {
        hn_service *service = service_open((hn_service_options){.threads = 2});
        hn_scope *scope = scope_open(service);
        submit(scope, "hanging", "int x; /* HANG */");
        pid_t worker = busy_worker(service);
        if (write(ends[1], &worker, sizeof(worker)) < 0) _exit(1);
        for (;;) pause();
    }
    pid_t worker = 0;
    EXPECT(read(ends[0], &worker, sizeof(worker)) == sizeof(worker));
    EXPECT(group_size(worker) >= 3); /* the worker, the script, what it runs */
    EXPECT(kill(pid, SIGKILL) == 0);
    EXPECT(waitpid(pid, NULL, 0) == pid);
    int gone_ms = group_gone_ms(worker);
    EXPECT(gone_ms >= 0 && gone_ms < 1000);
    close(ends[0]), close(ends[1]);
    script_end();
}

int main(int argc, char **argv) {
    if (argc >= 3 && strcmp(argv[1], "--worker") == 0) return hn_worker_main(argc, argv);
    return hn_test_main(argc, argv);
}
