/* standby.c: makes a tool that stands by out of a compiler's part (cc1, as, ld): preloaded into it,
 * it waits where the tool opens its input, and has each job done by a child that it makes with
 * fork.
 *
 * A small kernel costs cc1 some 9 ms before the first character is read and as and ld 2 ms each:
 * loading, options, tables of built-in functions, registers and instructions. All of it depends on
 * the command line alone, so it is done once. The child goes on from there as if it had just been
 * started, with the job's input, output, messages and limits, and ends as any process does. It does
 * one job, so nothing of a job can be seen by the next one. The tool itself does none: it waits for
 * the child and tells its exit status. When a child ends otherwise than by exit, the tool ends too,
 * and is started again.
 *
 * Built as a shared object of its own, which the library carries and a worker hands over in a file
 * in memory: src/toolchain/standby.h is the other end. It may use the C library only. A tool that
 * does not behave as expected says no hello, and is then called in the ordinary way. */
#include "toolchain/standby_wire.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

enum {
    FILES_MAX = 64,
    FILES_LIMIT = 1024, /* where to look for open files */
    ONE_THREAD = 3,     /* links of /proc/self/task: itself, its parent, and the thread */
};

/* Of the tool that stands by; -1: not started by a worker, or the process of a job. */
static int control_fd = -1;
static int input_fd = -1, output_fd = -1; /* of a job */
static int early_fd = -1;                 /* of an output that was opened before the jobs came */
static off_t offsets[FILES_MAX];          /* of the tool's files; -1: no file, or without one */

static void take_descriptor(int fd, int flags) {
    int null_fd = open("/dev/null", flags | O_CLOEXEC);
    if (null_fd < 0 || dup2(null_fd, fd) < 0) _exit(126);
    close(null_fd);
}

__attribute__((constructor)) static void begin(void) {
    if (!getenv(HN_STANDBY_VARIABLE)) return;
    unsetenv(HN_STANDBY_VARIABLE);
    unsetenv("LD_PRELOAD");
    unsetenv("LD_BIND_NOW");
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    syscall(SYS_close_range, 3u, ~0u, 0u); /* whatever slipped through */
    int fd = fcntl(2, F_DUPFD_CLOEXEC, 3);
    if (fd < 0) _exit(126);
    take_descriptor(1, O_WRONLY);
    take_descriptor(2, O_WRONLY);
    control_fd = fd;
}

/* ---- the process of a job ---- */

static bool limit(int resource, uint64_t value) {
    struct rlimit now;
    if (!value) return true;
    if (getrlimit((__rlimit_resource_t)resource, &now) != 0) return false;
    if (value < now.rlim_max) now = (struct rlimit){value, value};
    return setrlimit((__rlimit_resource_t)resource, &now) == 0;
}

/* An open file and its position are shared with the tool and the jobs before: standard input may
 * have been read to its end. */
static void restore_offsets(void) {
    for (int fd = 0; fd < FILES_MAX; fd++)
        if (offsets[fd] >= 0) lseek(fd, offsets[fd], SEEK_SET);
}

static bool become_job(pid_t tool, const hn_standby_request *request,
                       const int fds[HN_STANDBY_FILES]) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != tool) return false; /* it may have died before the line above */
    close(control_fd);
    control_fd = -1;
    restore_offsets();
    input_fd = fds[0];
    output_fd = fds[1];
    bool ok = dup2(fds[1], 1) >= 0 && dup2(fds[2], 2) >= 0 &&
              (early_fd < 0 || dup2(fds[1], early_fd) >= 0);
    close(fds[2]);
    return ok && limit(RLIMIT_AS, request->memory_bytes) &&
           limit(RLIMIT_FSIZE, request->file_bytes) && limit(RLIMIT_CPU, request->cpu_seconds);
}

/* ---- standing by ---- */

/* A child has the calling thread only. */
static bool has_one_thread(void) {
    struct stat info;
    return stat("/proc/self/task", &info) == 0 && info.st_nlink == ONE_THREAD;
}

static bool note_offsets(void) {
    for (int fd = 0; fd < FILES_LIMIT; fd++) {
        off_t at = lseek(fd, 0, SEEK_CUR);
        if (fd < FILES_MAX) offsets[fd] = at;
        else if (at >= 0) return false;
    }
    return true;
}

static bool receive(int fd, hn_standby_request *request, int fds[HN_STANDBY_FILES]) {
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(HN_STANDBY_FILES * sizeof(int))];
    } ancillary;
    struct iovec part = {request, sizeof(*request)};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = ancillary.bytes,
                             .msg_controllen = sizeof(ancillary.bytes)};
    ssize_t got;
    do got = recvmsg(fd, &message, MSG_CMSG_CLOEXEC);
    while (got < 0 && errno == EINTR);
    const struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    if (got != sizeof(*request) || !head ||
        head->cmsg_len != CMSG_LEN(HN_STANDBY_FILES * sizeof(int)))
        return false;
    memcpy(fds, CMSG_DATA(head), HN_STANDBY_FILES * sizeof(int));
    return true;
}

/* Waits for the end of a job. False: it did not end by exit, or has left a child of the tool
 * behind, which ends with the tool. */
static bool await_job(pid_t child, hn_standby_reply *reply) {
    int wait_status;
    pid_t got;
    do got = waitpid(child, &wait_status, 0);
    while (got < 0 && errno == EINTR);
    if (got != child || !WIFEXITED(wait_status)) return false;
    reply->exit_status = WEXITSTATUS(wait_status);
    return waitpid(-1, NULL, WNOHANG | __WALL) == -1 && errno == ECHILD;
}

/* Where the tool opens its input. Comes back in the process of a job only. */
static void stand_by(void) {
    const int32_t hello = HN_STANDBY_HELLO;
    const pid_t self = getpid();
    fflush(NULL); /* what was said until here is nobody's: it goes to /dev/null */
    if (!has_one_thread() || !note_offsets() ||
        send(control_fd, &hello, sizeof(hello), MSG_NOSIGNAL) != sizeof(hello))
        _exit(126);
    for (;;) {
        hn_standby_request request;
        hn_standby_reply reply;
        int fds[HN_STANDBY_FILES];
        if (!receive(control_fd, &request, fds)) _exit(0);
        pid_t child = fork();
        if (child == 0) {
            if (become_job(self, &request, fds)) return;
            raise(SIGKILL); /* to exit would be an answer */
        }
        for (int i = 0; i < HN_STANDBY_FILES; i++) close(fds[i]);
        if (child < 0 || !await_job(child, &reply)) _exit(0);
        if (send(control_fd, &reply, sizeof(reply), MSG_NOSIGNAL) != sizeof(reply)) _exit(0);
    }
}

/* A descriptor of its own for each time that the file is opened. */
static int copy_of(int fd) {
    int copy = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    if (copy >= 0 && fd == input_fd) lseek(copy, 0, SEEK_SET);
    return copy;
}

static bool is_input(const char *path) {
    if ((control_fd < 0 && input_fd < 0) || strcmp(path, HN_STANDBY_INPUT) != 0) return false;
    if (input_fd < 0) stand_by();
    return true;
}

/* ---- what the tool calls ---- */

typedef int open_fn(const char *, int, ...);
typedef FILE *fopen_fn(const char *, const char *);

static int open_as(const char *symbol, const char *path, int flags, int mode) {
    open_fn *real = (open_fn *)dlsym(RTLD_NEXT, symbol);
    if (is_input(path)) return copy_of(input_fd);
    return real(path, flags, mode);
}

static FILE *fopen_as(const char *symbol, const char *path, const char *mode) {
    fopen_fn *real = (fopen_fn *)dlsym(RTLD_NEXT, symbol);
    bool is_output = strcmp(path, HN_STANDBY_OUTPUT) == 0;
    if (is_input(path)) return fdopen(copy_of(input_fd), mode);
    if (is_output && output_fd >= 0) return fdopen(copy_of(output_fd), mode);
    if (!is_output || control_fd < 0) return real(path, mode);
    FILE *file = real("/dev/null", mode);
    early_fd = file ? fileno(file) : -1;
    return file;
}

EXPORT int open(const char *path, int flags, ...);
EXPORT int open64(const char *path, int flags, ...);
EXPORT FILE *fopen(const char *path, const char *mode);
EXPORT FILE *fopen64(const char *path, const char *mode);

static int mode_of(int flags, va_list *list) {
    return flags & (O_CREAT | O_TMPFILE) ? va_arg(*list, int) : 0;
}

int open(const char *path, int flags, ...) {
    va_list list;
    va_start(list, flags);
    int mode = mode_of(flags, &list);
    va_end(list);
    return open_as("open", path, flags, mode);
}

int open64(const char *path, int flags, ...) {
    va_list list;
    va_start(list, flags);
    int mode = mode_of(flags, &list);
    va_end(list);
    return open_as("open64", path, flags, mode);
}

FILE *fopen(const char *path, const char *mode) { return fopen_as("fopen", path, mode); }
FILE *fopen64(const char *path, const char *mode) { return fopen_as("fopen64", path, mode); }
