/* test_process.c: starting, waiting, gathering output, time limits, descriptors. */
#include "unit/harness.h"

#include "base/file.h"
#include "base/process.h"
#include "base/process_tree.h"
#include "base/trace.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define SHELL(script) ((const char *const[]){"/bin/sh", "-c", (script), NULL})
#define QUIET         .stdin_fd = -1, .stdout_fd = -1, .stderr_fd = -1

/* Runs a script to its end; its output must be `expected`. */
static void expect_run(const char *script, int expected_exit, const char *expected) {
    hn_strbuf output;
    hn_strbuf_init(&output);
    int code = -1;
    EXPECT_OK(hn_process_run(&(hn_spawn){.argv = SHELL(script), QUIET}, 20000, &output, &code));
    EXPECT_INT(code, expected_exit);
    EXPECT_STR(output.ptr ? output.ptr : "", expected);
    hn_strbuf_deinit(&output);
}

static bool has_children(void) { return waitpid(-1, NULL, WNOHANG) != -1 || errno != ECHILD; }

static int open_count(void) {
    int count = 0;
    for (int fd = 0; fd < 256; fd++) count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

TEST(exit_status_and_output) {
    int before = open_count();
    expect_run("exit 0", 0, "");
    expect_run("exit 7", 7, "");
    expect_run("echo out; echo err >&2", 0, "out\nerr\n");
    expect_run("kill -SEGV $$", 128 + SIGSEGV, "");
    EXPECT(!has_children());
    EXPECT_INT(open_count(), before);
}

TEST(output_larger_than_a_pipe) {
    hn_strbuf output;
    hn_strbuf_init(&output);
    int code = -1;
    const hn_spawn spec = {.argv = SHELL("head -c 1000000 /dev/zero | tr '\\0' x; echo end"),
                           QUIET};
    EXPECT_OK(hn_process_run(&spec, 20000, &output, &code));
    EXPECT_INT(output.len, 1000004);
    EXPECT_STR(output.ptr + output.len - 5, "xend\n");
    hn_strbuf_deinit(&output);
}

TEST(endless_output_is_cut_and_meets_its_deadline) {
    hn_strbuf output;
    hn_strbuf_init(&output);
    int code = -1;
    EXPECT_OK(hn_process_run(&(hn_spawn){.argv = SHELL("head -c 20000000 /dev/zero"), QUIET}, 20000,
                             &output, &code));
    EXPECT(output.len > 16 << 20 && output.len < 17 << 20);
    EXPECT(strstr(output.ptr + (16 << 20), "output cut") != NULL);
    hn_strbuf_reset(&output);
    const hn_spawn spec = {.argv = SHELL("cat /dev/zero"), QUIET};
    EXPECT_ERROR(hn_process_run(&spec, 200, &output, &code), HN_TIMEOUT, "200 ms");
    hn_strbuf_deinit(&output);
    EXPECT(!has_children());
}

TEST(a_missing_program_is_not_found) {
    int code = -1, before = open_count();
    hn_child child;
    const char *const bare[] = {"henry-no-such-tool", NULL}, *const path[] = {"/nowhere/cc", NULL};
    const char *const none[] = {NULL}, *const empty[] = {"", NULL};
    EXPECT_ERROR(hn_process_run(&(hn_spawn){.argv = bare, QUIET}, 0, NULL, &code), HN_NOT_FOUND,
                 "'henry-no-such-tool'");
    EXPECT_ERROR(hn_process_spawn(&(hn_spawn){.argv = path, QUIET}, &child), HN_NOT_FOUND,
                 "'/nowhere/cc'");
    EXPECT_ERROR(hn_process_spawn(&(hn_spawn){.argv = none, QUIET}, &child), HN_INVALID_ARGUMENT,
                 "name");
    EXPECT_ERROR(hn_process_spawn(&(hn_spawn){.argv = empty, QUIET}, &child), HN_INVALID_ARGUMENT,
                 "name");
    const char *const directory[] = {"/", NULL};
    EXPECT_ERROR(hn_process_spawn(&(hn_spawn){.argv = directory, QUIET}, &child), HN_IO,
                 "Permission denied");
    const hn_spawn lost = {.argv = SHELL("exit 0"), .cwd = "/nowhere", QUIET};
    EXPECT_ERROR(hn_process_spawn(&lost, &child), HN_NOT_FOUND, "in directory '/nowhere'");
    EXPECT(!has_children());
    EXPECT_INT(open_count(), before);
}

TEST(the_time_limit_kills_grandchildren_too) {
    char path[PATH_MAX];
    EXPECT_OK(hn_dir_temp(path, sizeof(path)));
    hn_strbuf output, pid_text;
    hn_strbuf_init(&output);
    hn_strbuf_init(&pid_text);
    int code = -1;
    const hn_spawn spec = {
        .argv = SHELL("sleep 100 & echo $! > pid; echo before; wait"), .cwd = path, QUIET};
    int64_t begin_ns = hn_now_ns();
    EXPECT_ERROR(hn_process_run(&spec, 300, &output, &code), HN_TIMEOUT,
                 "'/bin/sh' ran longer than 300 ms");
    int64_t took_ms = (hn_now_ns() - begin_ns) / 1000000;
    EXPECT(took_ms >= 300 && took_ms < 20000);
    EXPECT_STR(output.ptr, "before\n");
    EXPECT(!has_children());
    strcat(path, "/pid");
    EXPECT_OK(hn_file_read(path, &pid_text));
    pid_t grandchild = (pid_t)atoi(pid_text.ptr);
    EXPECT(grandchild > 1);
    /* It dies at once but stays a zombie until its new parent looks: state Z, or gone. */
    char stat_path[64], state = 'Z';
    snprintf(stat_path, sizeof(stat_path), "/proc/%d/stat", (int)grandchild);
    for (int i = 0; i < 200; i++) {
        hn_strbuf text;
        hn_strbuf_init(&text);
        hn_status status = hn_file_read(stat_path, &text);
        const char *end = status || !text.ptr ? NULL : strrchr(text.ptr, ')');
        state = end ? end[2] : 'Z';
        hn_status_free(status);
        hn_strbuf_deinit(&text);
        if (state == 'Z' || state == 'X') break;
        usleep(10000);
    }
    EXPECT(state == 'Z' || state == 'X');
    *strrchr(path, '/') = '\0';
    EXPECT_OK(hn_dir_remove(path));
    hn_strbuf_deinit(&output);
    hn_strbuf_deinit(&pid_text);
}

TEST(a_lingering_grandchild_does_not_hold_the_run) {
    hn_strbuf output;
    hn_strbuf_init(&output);
    int code = -1;
    const hn_spawn spec = {.argv = SHELL("sleep 100 & echo $!"), QUIET};
    int64_t begin_ns = hn_now_ns();
    EXPECT_OK(hn_process_run(&spec, 0, &output, &code));
    EXPECT(hn_now_ns() - begin_ns < 20000000000);
    EXPECT_INT(code, 0);
    pid_t grandchild = (pid_t)atoi(output.ptr);
    EXPECT(grandchild > 1 && kill(grandchild, SIGKILL) == 0);
    hn_strbuf_deinit(&output);
}

TEST(no_output_wanted) {
    int code = -1;
    EXPECT_OK(hn_process_run(&(hn_spawn){.argv = SHELL("exit 3"), QUIET}, 0, NULL, &code));
    EXPECT_INT(code, 3);
    EXPECT_ERROR(hn_process_run(&(hn_spawn){.argv = SHELL("sleep 100"), QUIET}, 50, NULL, &code),
                 HN_TIMEOUT, "50 ms");
    EXPECT(!has_children());
}

TEST(environment_and_directory) {
    hn_strbuf output;
    hn_strbuf_init(&output);
    int code = -1;
    const char *const env[] = {"GREETING=hi", NULL};
    const hn_spawn spec = {
        .argv = SHELL("echo $GREETING $HOME; pwd"), .env = env, .cwd = "/", QUIET};
    EXPECT_OK(hn_process_run(&spec, 20000, &output, &code));
    EXPECT_STR(output.ptr, "hi\n/\n");
    hn_strbuf_deinit(&output);
    setenv("HENRY_TEST_INHERITED", "yes", 1);
    expect_run("echo $HENRY_TEST_INHERITED", 0, "yes\n");
}

TEST(minus_one_is_dev_null) {
    expect_run("cat", 0, ""); /* end of file at once */
    int code = -1;
    const hn_spawn spec = {.argv = SHELL("echo x && echo y >&2"), QUIET};
    EXPECT_OK(hn_process_run(&spec, 20000, NULL, &code));
    EXPECT_INT(code, 0); /* the writes succeed */
}

TEST(swapped_descriptors) {
    /* stdout and stderr of the child are the parent's 2 and 1: each would overwrite the other's
     * source. */
    int out[2], err[2], saved[2] = {dup(1), dup(2)}, code = -1;
    EXPECT(pipe2(out, O_CLOEXEC | O_NONBLOCK) == 0 && pipe2(err, O_CLOEXEC | O_NONBLOCK) == 0);
    fflush(stdout);
    dup2(out[1], 1);
    dup2(err[1], 2);
    const hn_spawn spec = {.argv = SHELL("echo to-out; echo to-err >&2"),
                           .stdin_fd = -1,
                           .stdout_fd = 2,
                           .stderr_fd = 1};
    hn_child child;
    hn_status status = hn_process_spawn(&spec, &child);
    if (!status) status = hn_process_wait(&child, &code);
    dup2(saved[0], 1);
    dup2(saved[1], 2);
    EXPECT_OK(status);
    char from_out[64] = {0}, from_err[64] = {0};
    EXPECT(read(out[0], from_out, 63) > 0 && read(err[0], from_err, 63) > 0);
    EXPECT_STR(from_out, "to-err\n");
    EXPECT_STR(from_err, "to-out\n");
    for (int i = 0; i < 2; i++) close(out[i]), close(err[i]), close(saved[i]);
}

TEST(the_child_gets_a_clean_slate) {
    sigset_t blocked, before;
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGTERM);
    sigprocmask(SIG_BLOCK, &blocked, &before);
    signal(SIGTERM, SIG_IGN);
    expect_run("kill -TERM $$; echo survived", 128 + SIGTERM, "");
    signal(SIGTERM, SIG_DFL);
    sigprocmask(SIG_SETMASK, &before, NULL);
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    char script[64];
    snprintf(script, sizeof(script), "test -e /proc/self/fd/%d && echo leaked", fd);
    expect_run(script, 1, "");
    close(fd);
}

TEST(groups_are_killed) {
    hn_child child, nobody = {.pid = 0, .fd = -1}, everybody = {.pid = -1, .fd = -1};
    int code = -1;
    EXPECT_OK(hn_process_spawn(
        &(hn_spawn){.argv = SHELL("sleep 100; echo x"), QUIET, .new_group = true}, &child));
    EXPECT_INT(getpgid(child.pid), child.pid);
    hn_process_signal_group(&nobody, SIGKILL); /* does nothing, least of all to this process */
    hn_process_signal_group(&everybody, SIGKILL);
    EXPECT(!hn_process_has_ended(&child));
    hn_process_signal_group(&child, SIGKILL);
    EXPECT_OK(hn_process_wait(&child, &code));
    EXPECT_INT(code, 128 + SIGKILL);
    EXPECT_INT(child.pid, 0);
    EXPECT_ERROR(hn_process_wait(&child, &code), HN_INVALID_ARGUMENT, "has been waited for");
}

/* A host that waits for every child: who comes later learns that the child has ended, and no signal
 * goes to its number. */
TEST(a_child_that_somebody_else_has_waited_for) {
    for (int with_descriptor = 1; with_descriptor >= 0; with_descriptor--) {
        hn_child child;
        int code = -7, wait_status;
        EXPECT_OK(hn_process_spawn(&(hn_spawn){.argv = SHELL("exit 5"), QUIET, .new_group = true},
                                   &child));
        pid_t pid = child.pid;
        if (!with_descriptor) close(child.fd), child.fd = -1;
        EXPECT(waitpid(pid, &wait_status, 0) == pid);
        EXPECT(hn_process_has_ended(&child));
        hn_process_signal(&child, SIGKILL);
        hn_process_signal_group(&child, SIGKILL);
        EXPECT(hn_process_wait_for(&child, 20000, &code));
        EXPECT(code == HN_EXIT_UNKNOWN || (with_descriptor && code == 5));
        EXPECT_INT(child.pid, 0);
    }
}

/* ---- a namespace of its own ---- */

/* Runs a script that way and gives what it printed. False where the system does not permit it. */
static bool run_isolated(const char *script, const char *cwd, char out[256], int *code) {
    int ends[2];
    hn_child child;
    EXPECT(pipe2(ends, O_CLOEXEC) == 0);
    bool is_there = hn_process_spawn_isolated(&(hn_spawn){.argv = SHELL(script),
                                                          .cwd = cwd,
                                                          .stdin_fd = -1,
                                                          .stdout_fd = ends[1],
                                                          .stderr_fd = -1,
                                                          .new_group = true},
                                              &child);
    close(ends[1]);
    size_t len = 0;
    for (ssize_t got; is_there && len < 255 && (got = read(ends[0], out + len, 255 - len)) > 0;)
        len += (size_t)got;
    out[len] = 0;
    close(ends[0]);
    if (is_there) EXPECT_OK(hn_process_wait(&child, code));
    return is_there;
}

TEST(the_first_process_of_a_namespace) {
    char out[256], numbers[2][256];
    int code = -1, before = open_count();
    /* not permitted here: the next test is for that */
    if (!run_isolated("exit 3", NULL, out, &code)) return;
    EXPECT_INT(code, 3);
    EXPECT(run_isolated("echo $$ $PPID; pwd", "/tmp", out, &code));
    EXPECT_STR(out, "1 0\n/tmp\n");
    EXPECT(run_isolated("kill -9 $$; kill -TERM $$; echo still here", NULL, out, &code));
    EXPECT_STR(out, "still here\n");
    /* Two namespaces do not count alike. */
    for (int i = 0; i < 2; i++) EXPECT(run_isolated("sh -c 'echo $$'", NULL, numbers[i], &code));
    EXPECT(strcmp(numbers[0], numbers[1]) != 0 && strtol(numbers[0], NULL, 10) > 1000);
    EXPECT(!has_children());
    EXPECT_INT(open_count(), before);
}

/* In a session of its own, and orphaned; it holds the writing end of a pipe as long as it lives. */
TEST(nothing_outlives_the_first_process_of_a_namespace) {
    static const char script[] = "(setsid sh -c 'echo; sleep 1000 & sleep 1000' &) ; read line";
    int in[2], out[2], code = -1;
    hn_child child;
    char byte;
    EXPECT(pipe2(in, O_CLOEXEC) == 0 && pipe2(out, O_CLOEXEC) == 0);
    if (hn_process_spawn_isolated(
            &(hn_spawn){
                .argv = SHELL(script), .stdin_fd = in[0], .stdout_fd = out[1], .stderr_fd = -1},
            &child)) {
        close(out[1]);
        out[1] = -1;
        EXPECT(read(out[0], &byte, 1) == 1);
        EXPECT(!hn_process_wait_for(&child, 20, &code));
        hn_process_signal(&child, SIGKILL);
        EXPECT(hn_process_wait_for(&child, 20000, &code));
        EXPECT_INT(code, 128 + SIGKILL);
        EXPECT(read(out[0], &byte, 1) == 0); /* at its end: nobody writes there any more */
    }
    close(in[0]), close(in[1]), close(out[0]);
    if (out[1] >= 0) close(out[1]);
    EXPECT(!has_children());
}

static void *spawn_and_end(void *argument) {
    if (!hn_process_spawn_isolated(&(hn_spawn){.argv = SHELL("sleep 1000"), QUIET}, argument))
        return NULL;
    return argument;
}

TEST(a_namespace_ends_with_the_thread_that_made_it) {
    pthread_t thread;
    hn_child child;
    int code = -1;
    void *is_there;
    EXPECT(pthread_create(&thread, NULL, spawn_and_end, &child) == 0);
    pthread_join(thread, &is_there);
    if (!is_there) return;
    EXPECT(hn_process_wait_for(&child, 20000, &code));
    EXPECT_INT(code, 128 + SIGKILL);
}

TEST(without_namespaces_nothing_is_started) {
    hn_child child;
    int before = open_count();
    setenv("HENRY_NAMESPACES", "off", 1);
    EXPECT(!hn_process_spawn_isolated(&(hn_spawn){.argv = SHELL("exit 0"), QUIET}, &child));
    unsetenv("HENRY_NAMESPACES");
    EXPECT(!hn_process_spawn_isolated(
        &(hn_spawn){.argv = (const char *[]){"/no/such/program", NULL}, QUIET}, &child));
    EXPECT(!hn_process_spawn_isolated(
        &(hn_spawn){.argv = SHELL("exit 0"), .cwd = "/no/such/directory", QUIET}, &child));
    EXPECT_INT(child.pid, 0);
    EXPECT(!has_children());
    EXPECT_INT(open_count(), before);
}

TEST(the_directory_of_the_executable) {
    const char *dir = hn_process_exe_dir();
    EXPECT_INT(dir[0], '/');
    EXPECT(hn_file_exists(dir));
    char self[PATH_MAX] = {0};
    EXPECT(readlink("/proc/self/exe", self, sizeof(self) - 1) > 0);
    EXPECT(strncmp(self, dir, strlen(dir)) == 0 && strchr(self + strlen(dir) + 1, '/') == NULL);
}

TEST_MAIN
