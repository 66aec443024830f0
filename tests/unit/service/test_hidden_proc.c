/* test_hidden_proc.c: programs for which /proc is not mounted: kernels are compiled and loaded, and
 * what a compiler leaves behind ends. Each is a process of its own in a mount namespace, which
 * needs the rights of root. The test program is its own worker. */
#include "service/worker.h"

#include "base/file.h"
#include "base/log.h"
#include "service_fixture.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static char dir[PATH_MAX - 256], self[PATH_MAX];

static void sleep_ms(int ms) {
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L}, NULL);
}

/* The daemon has a session of its own, and an argument that nobody else's has. */
static void begin(void) {
    static const char text[] =
        "#!/bin/sh\n"
        "case $1 in --version) exec gcc --version;; esac\n"
        "if grep -q DAEMON kernel.c; then (setsid sleep 31.9 >/dev/null 2>&1 &); fi\n"
        "if grep -q HANG kernel.c; then sleep 31.9; fi\n"
        "exec gcc \"$@\"\n";
    char path[PATH_MAX];
    EXPECT_OK(hn_dir_temp(dir, sizeof(dir)));
    EXPECT(readlink("/proc/self/exe", self, sizeof(self) - 1) > 0);
    snprintf(path, sizeof(path), "%s/cc", dir);
    EXPECT_OK(hn_file_write_atomic(path, text, strlen(text), false));
    EXPECT(chmod(path, 0700) == 0);
    setenv("HENRY_CC", path, 1);
    setenv("TMPDIR", dir, 1);
    hn_log_configure("error");
}

static void end(void) {
    hn_log_configure(NULL);
    unsetenv("TMPDIR");
    unsetenv("HENRY_CC");
    EXPECT_OK(hn_dir_remove(dir));
}

static bool hide_proc(void) {
    return unshare(CLONE_NEWNS) == 0 && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
           mount("none", "/proc", "tmpfs", 0, NULL) == 0 && access("/proc/self", F_OK) != 0;
}

static int stray_count(void) {
    int count = 0;
    DIR *proc = opendir("/proc");
    for (const struct dirent *entry; proc && (entry = readdir(proc));) {
        char path[300], line[64] = "";
        if (entry->d_name[0] < '0' || entry->d_name[0] > '9') continue;
        snprintf(path, sizeof(path), "/proc/%s/cmdline", entry->d_name);
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        ssize_t got = fd >= 0 ? read(fd, line, sizeof(line) - 1) : 0;
        count += got >= 10 && memcmp(line, "sleep\00031.9", 10) == 0;
        if (fd >= 0) close(fd);
    }
    if (proc) closedir(proc);
    return count;
}

static void load_and_call(hn_artifact *artifact) {
    hn_library *libraries[2] = {NULL, NULL};
    for (int i = 0; i < 2; i++) {
        void *address = NULL;
        EXPECT_OK(hn_artifact_load(artifact, &libraries[i]));
        EXPECT_OK(hn_library_symbol(libraries[i], "twice", &address));
        EXPECT_INT(address ? ((int (*)(int))address)(21) : 0, 42);
    }
    EXPECT(libraries[0] != libraries[1]);
    for (int i = 0; i < 2; i++) hn_library_close(libraries[i]);
}

/* Tells when the jobs are done, and lives until it is told to end: nothing may end by that. */
static void be_host(int threads, int tell_fd, int hear_fd) {
    char byte = 0;
    hn_artifact *artifact = NULL;
    hn_service *service = service_open((hn_service_options){
        .threads = threads, .worker_path = self, .job_timeout_ms = 4000, .warm = true});
    hn_scope *scope = scope_open(service);
    hn_service_stats stats = {.workers_ready = 0};
    for (int i = 0; threads > 1 && i < 4000 && !stats.workers_ready; i++) {
        hn_service_stats_get(service, &stats);
        sleep_ms(5);
    }
    EXPECT(threads == 1 || stats.workers_ready);
    EXPECT_OK(hn_future_wait(submit_c(scope, "/* DAEMON */ int twice(int x) { return 2 * x; }\n"),
                             -1, &artifact));
    EXPECT_ERROR(hn_future_wait(submit_c(scope, "/* DAEMON HANG */ int late;\n"), -1, NULL),
                 HN_TIMEOUT, "");
    EXPECT(write(tell_fd, &byte, 1) == 1 && read(hear_fd, &byte, 1) == 1);
    if (artifact) load_and_call(artifact);
    hn_artifact_release(artifact);
    hn_scope_destroy(scope);
    hn_service_destroy(service);
}

static void check_host(int threads, bool with_namespaces) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    hn_test_skip("a sanitizer needs /proc itself");
    return;
#endif
    int there[2], back[2], wait_status = -1;
    char byte = 0;
    begin();
    EXPECT(pipe2(there, O_CLOEXEC) == 0 && pipe2(back, O_CLOEXEC) == 0);
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        hn_test_failures = 0;
        close(there[0]), close(back[1]);
        if (!with_namespaces) setenv("HENRY_NAMESPACES", "off", 1);
        if (!hide_proc()) _exit(77);
        be_host(threads, there[1], back[0]);
        _exit(hn_test_failures ? 1 : 0);
    }
    close(there[1]), close(back[0]);
    if (read(there[0], &byte, 1) == 1) {
        for (int i = 0; i < 2000 && stray_count(); i++) sleep_ms(5);
        EXPECT_INT(stray_count(), 0);
        EXPECT(write(back[1], &byte, 1) == 1);
    }
    EXPECT(pid > 0 && waitpid(pid, &wait_status, 0) == pid);
    close(there[0]), close(back[1]);
    if (WIFEXITED(wait_status) && WEXITSTATUS(wait_status) == 77)
        hn_test_skip("/proc cannot be hidden here; run as root");
    else if (wait_status)
        HN_TEST_FAIL("a host with %d threads, namespaces %s: see above", threads,
                     with_namespaces ? "on" : "off");
    end();
}

TEST(workers_without_proc) { check_host(2, true); }
TEST(workers_without_proc_and_namespaces) { check_host(2, false); }
TEST(inline_without_proc) { check_host(1, true); }
TEST(inline_without_proc_and_namespaces) { check_host(1, false); }

int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "--worker") == 0) return hn_worker_main(argc, argv);
    return hn_test_main(argc, argv);
}
