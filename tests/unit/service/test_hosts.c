/* test_hosts.c: programs that take the exit status of every child, or have the kernel keep none:
 * compilers are found, jobs succeed and fail as elsewhere, in workers and inline, with namespaces
 * and without, also on kernels that keep no exit status behind a process descriptor.
 *
 * Each host is a process of its own, since what is done about SIGCHLD is a matter of the whole
 * process. The test program is its own worker. */
#include "service/service.h"
#include "service/worker.h"

#include "base/file.h"
#include "base/log.h"
#include "service_fixture.h"

#include <errno.h>
#include <limits.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static char dir[PATH_MAX - 256];

/* ---- hosts ---- */

static void ignore_children(void) { signal(SIGCHLD, SIG_IGN); }

static void handle_child(int number) { (void)number; }

static void keep_no_status(void) {
    const struct sigaction action = {.sa_handler = handle_child,
                                     .sa_flags = SA_NOCLDWAIT | SA_RESTART};
    sigaction(SIGCHLD, &action, NULL);
}

static void *reap(void *argument) {
    for (;;)
        if (waitpid(-1, NULL, 0) < 0) nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
    return argument;
}

static void reap_everything(void) {
    pthread_t thread;
    EXPECT(pthread_create(&thread, NULL, reap, NULL) == 0 && pthread_detach(thread) == 0);
}

static void do_nothing(void) {}

static const struct {
    const char *name;
    void (*begin)(void);
} hosts[] = {{"ordinary", do_nothing},
             {"SIG_IGN", ignore_children},
             {"SA_NOCLDWAIT", keep_no_status},
             {"a reaper thread", reap_everything}};

/* PIDFD_GET_INFO fails, as before Linux 6.13. */
static bool forbid_exit_info(void) {
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_ioctl, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[1])),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0xC040FF0B, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOTTY),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog program = {.len = sizeof(code) / sizeof(code[0]), .filter = code};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

/* ---- what works in each ---- */

static hn_status wait_for(hn_service_options options, const char *text, bool in_worker) {
    options.threads = in_worker ? 2 : 1;
    /* a sanitizer in the guard takes more than any limit leaves */
    options.job_memory_bytes = UINT64_MAX;
    hn_service *service = service_open(options);
    hn_scope *scope = scope_open(service);
    hn_service_stats stats = {.workers_ready = 0};
    if (in_worker) EXPECT_OK(hn_service_warm(service));
    for (int i = 0; in_worker && i < 4000 && !stats.workers_ready; i++) {
        hn_service_stats_get(service, &stats);
        nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
    }
    EXPECT(!in_worker || stats.workers_ready);
    hn_future *future = submit_c(scope, text);
    hn_status status = future ? hn_future_wait(future, -1, NULL) : NULL;
    hn_scope_destroy(scope);
    hn_service_destroy(service);
    return status;
}

static void check_jobs(bool in_worker) {
    EXPECT_OK(wait_for((hn_service_options){.threads = 0}, "int fine(int x) { return 2 * x; }\n",
                       in_worker));
    EXPECT_ERROR(
        wait_for((hn_service_options){.threads = 0}, "int bad(int x) { return y; }\n", in_worker),
        HN_TOOLCHAIN, "undeclared");
    EXPECT_ERROR(
        wait_for((hn_service_options){.job_timeout_ms = 700}, "/* HANG */ int late;\n", in_worker),
        HN_TIMEOUT, "");
    /* A compiler that failed has not succeeded, whatever it wrote before. */
    EXPECT_ERROR(wait_for((hn_service_options){.threads = 0}, "/* FAILS */ int half;\n", in_worker),
                 HN_TOOLCHAIN, "");
}

static void check_crash(void) {
    char path[PATH_MAX];
    snprintf(path, sizeof(path), "%s/cc.hangs", dir);
    unlink(path);
    hn_service *service = service_open((hn_service_options){.threads = 2});
    hn_scope *scope = scope_open(service);
    hn_future *future = submit_c(scope, "/* HANG */ int k;\n");
    pid_t pids[2];
    for (int i = 0; i < 4000 && !hn_file_exists(path); i++)
        nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
    EXPECT_INT(hn_service_worker_pids(service, pids, 2), 1);
    EXPECT(kill(pids[0], SIGKILL) == 0);
    EXPECT_ERROR(hn_future_wait(future, 60000, NULL), HN_TOOLCHAIN, "the compile worker");
    hn_scope_destroy(scope);
    hn_service_destroy(service);
    EXPECT_ERROR(wait_for((hn_service_options){.job_processes = 20}, "/* MANY */ int k;\n", true),
                 HN_TOOLCHAIN, "more than 20 processes");
}

static void make_compiler(void) {
    static const char text[] =
        "#!/bin/sh\n"
        "case $1 in --version) exec gcc --version;; esac\n"
        "has() { grep -q $1 kernel.c; }\n"
        "if has HANG; then touch $0.hangs; sleep 31.8; fi\n"
        "if has MANY; then i=0; while [ $i -lt 300 ]; do sleep 31.8 & i=$((i+1)); done; wait; fi\n"
        "if has FAILS; then gcc \"$@\"; exit 3; fi\n"
        "exec gcc \"$@\"\n";
    char path[PATH_MAX];
    snprintf(path, sizeof(path), "%s/cc", dir);
    EXPECT_OK(hn_file_write_atomic(path, text, strlen(text), false));
    EXPECT(chmod(path, 0700) == 0);
    setenv("HENRY_CC", path, 1);
}

/* With the compiler's own parts, and with a compiler that is a program. */
static void check_host(void) {
    unsetenv("HENRY_CC");
    for (int in_worker = 0; in_worker < 2; in_worker++) {
        EXPECT_OK(wait_for((hn_service_options){.threads = 0},
                           "int fine(int x) { return 3 * x; }\n", in_worker));
        EXPECT_ERROR(wait_for((hn_service_options){.threads = 0}, "int bad(int x) { return y; }\n",
                              in_worker),
                     HN_TOOLCHAIN, "undeclared");
    }
    make_compiler();
    check_jobs(false);
    check_jobs(true);
    check_crash();
}

static void run_host(int idx, bool with_namespaces, bool is_old_kernel) {
    int wait_status = -1;
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        hn_test_failures = 0;
        if (!with_namespaces) setenv("HENRY_NAMESPACES", "off", 1);
        if (is_old_kernel && !forbid_exit_info()) _exit(77);
        hosts[idx].begin();
        check_host();
        _exit(hn_test_failures ? 1 : 0);
    }
    EXPECT(pid > 0 && waitpid(pid, &wait_status, 0) == pid);
    if (WIFEXITED(wait_status) && WEXITSTATUS(wait_status) == 77) {
        hn_test_skip("no seccomp here, so no older kernel can be played");
        return;
    }
    if (!WIFEXITED(wait_status) || WEXITSTATUS(wait_status) != 0)
        HN_TEST_FAIL("a host with %s, namespaces %s, %s kernel: see above", hosts[idx].name,
                     with_namespaces ? "on" : "off", is_old_kernel ? "an older" : "this");
}

static void check_hosts(int idx) {
    EXPECT_OK(hn_dir_temp(dir, sizeof(dir)));
    setenv("TMPDIR", dir, 1);
    hn_log_configure("error");
    run_host(idx, true, false);
    if (idx) run_host(idx, false, false);
    if (idx) run_host(idx, idx % 2, true);
    hn_log_configure(NULL);
    unsetenv("TMPDIR");
    EXPECT_OK(hn_dir_remove(dir));
}

TEST(a_host_that_leaves_children_alone) { check_hosts(0); }
TEST(a_host_that_ignores_its_children) { check_hosts(1); }
TEST(a_host_that_keeps_no_exit_status) { check_hosts(2); }
TEST(a_host_that_waits_for_every_child) { check_hosts(3); }

/* What a caller without a guard is told on an older kernel: not that all went well. */
TEST(a_lost_exit_status_is_no_success) {
    int wait_status = -1;
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        hn_test_failures = 0;
        if (!forbid_exit_info()) _exit(0);
        ignore_children();
        EXPECT_ERROR(wait_for((hn_service_options){.worker_path = ""},
                              "int fine(int x) { return x; }\n", false),
                     HN_TOOLCHAIN, "SIGCHLD");
        _exit(hn_test_failures ? 1 : 0);
    }
    EXPECT(pid > 0 && waitpid(pid, &wait_status, 0) == pid && wait_status == 0);
}

int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "--worker") == 0) return hn_worker_main(argc, argv);
    return hn_test_main(argc, argv);
}
