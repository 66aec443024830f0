/* standby.c: makes a tool that stands by out of a compiler's part (cc1, as, ld): preloaded into it, it waits where the
 * tool opens its input, and forks there for each job.
 *
 * A small kernel costs cc1 some 9 ms before the first character is read and as and ld 2 ms each: loading, options,
 * tables of built-in functions, registers and instructions. All of it depends on the command line alone, so it is done
 * once. The job's process goes on from there as if it had just been started, with its own input, output, messages and
 * limits, and ends in the tool's own way. Everything else of the tool is untouched.
 *
 * Built as a shared object of its own, which the library carries and a worker hands over in a file in memory:
 * src/toolchain/standby.h is the other end. It may use the C library only. A tool that does not behave as expected says
 * no hello, and is then called in the ordinary way. */
#include "toolchain/standby_wire.h"
#include "tools/worker/huge_text.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

enum {
    HUGE_AFTER_JOBS = 8,       /* large pages cost as much time as a few jobs save */
    HEAP_STEP_BYTES = 1 << 20, /* a job asks the system for memory 20 times less */
    HEAP_KEPT_BYTES = 64 << 20,
};

/* The tool has one thread here. */
static int control_fd = -1; /* -1: not started by a worker, or in the process of a job */
static int input_fd = -1, output_fd = -1;
static int early_fd = -1; /* of an output that was opened before the jobs came */

static void take_descriptor(int fd, int flags) {
    int null_fd = open("/dev/null", flags | O_CLOEXEC);
    if (null_fd < 0 || dup2(null_fd, fd) < 0) _exit(126);
    close(null_fd);
}

__attribute__((constructor)) static void begin(void) {
    if (!getenv(HN_STANDBY_VARIABLE)) return;
    unsetenv(HN_STANDBY_VARIABLE);
    unsetenv("LD_PRELOAD");
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    int fd = fcntl(2, F_DUPFD_CLOEXEC, 3);
    if (fd < 0) _exit(126);
    take_descriptor(1, O_WRONLY);
    take_descriptor(2, O_WRONLY);
    control_fd = fd;
}

static void limit(int what, uint64_t value) {
    const struct rlimit both = {value, value};
    if (value && setrlimit((__rlimit_resource_t)what, &both) != 0 && errno != EPERM) _exit(126);
}

/* In the new process. */
static void become_job(const hn_standby_request *request, const int fds[HN_STANDBY_FILES]) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    close(control_fd);
    control_fd = -1;
    input_fd = fds[0];
    output_fd = fds[1];
    bool ok = dup2(fds[1], 1) >= 0 && dup2(fds[2], 2) >= 0 && (early_fd < 0 || dup2(fds[1], early_fd) >= 0);
    close(fds[2]);
    if (!ok) _exit(126);
    limit(RLIMIT_AS, request->memory_bytes);
    limit(RLIMIT_FSIZE, request->file_bytes);
    limit(RLIMIT_CPU, request->cpu_seconds);
}

static bool receive(hn_standby_request *request, int fds[HN_STANDBY_FILES]) {
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(HN_STANDBY_FILES * sizeof(int))];
    } control;
    struct iovec part = {request, sizeof(*request)};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof(control.bytes)};
    ssize_t got;
    do got = recvmsg(control_fd, &message, MSG_CMSG_CLOEXEC);
    while (got < 0 && errno == EINTR);
    const struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    if (got != sizeof(*request) || !head || head->cmsg_len != CMSG_LEN(HN_STANDBY_FILES * sizeof(int))) return false;
    memcpy(fds, CMSG_DATA(head), HN_STANDBY_FILES * sizeof(int));
    return true;
}

/* Where the tool opens its input. Returns in the process of a job only. */
static void stand_by(void) {
    const int32_t hello = HN_STANDBY_HELLO;
    hn_standby_request request;
    int fds[HN_STANDBY_FILES];
    fflush(NULL); /* what was said until here is nobody's: it goes to /dev/null */
    mallopt(M_TOP_PAD, HEAP_STEP_BYTES);
    mallopt(M_TRIM_THRESHOLD, HEAP_KEPT_BYTES); /* the end of the job gives all back at once */
    if (send(control_fd, &hello, sizeof(hello), MSG_NOSIGNAL) != sizeof(hello)) _exit(126);
    for (int jobs = 1; receive(&request, fds); jobs++) {
        hn_standby_reply reply = {0, 0};
        pid_t pid = fork();
        if (pid == 0) {
            become_job(&request, fds);
            return;
        }
        for (int i = 0; i < HN_STANDBY_FILES; i++) close(fds[i]);
        if (pid > 0) {
            pid_t got;
            do got = waitpid(pid, &reply.wait_status, 0);
            while (got < 0 && errno == EINTR);
            reply.is_run = got == pid;
        }
        if (send(control_fd, &reply, sizeof(reply), MSG_NOSIGNAL) != sizeof(reply)) break;
        if (jobs == HUGE_AFTER_JOBS) hn_huge_text();
    }
    _exit(0); /* the worker is gone */
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

static int mode_of(int flags, va_list *list) { return flags & (O_CREAT | O_TMPFILE) ? va_arg(*list, int) : 0; }

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
