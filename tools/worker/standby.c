/* standby.c: makes a tool that stands by out of a compiler's part (cc1, as, ld): preloaded into it, it waits where the
 * tool opens its input, lets the tool do one job from there to its end, and takes it back to where it was.
 *
 * A small kernel costs cc1 some 9 ms before the first character is read and as and ld 2 ms each: loading, options,
 * tables of built-in functions, registers and instructions. All of it depends on the command line alone, so it is done
 * once. For each job the process goes on from there as if it had just been started, with the job's input, output, messages
 * and limits, up to exit(); then its memory and its descriptors become what they were (rewind.c), and nothing of a job
 * can be seen by the next one. A process that ends otherwise, fails, or cannot be taken back is used no more.
 *
 * What waits and rewinds runs on a stack of its own, in memory that is not rewound.
 *
 * Built as a shared object of its own, which the library carries and a worker hands over in a file in memory:
 * src/toolchain/standby.h is the other end. It may use the C library only. A tool that does not behave as expected says
 * no hello, and is then called in the ordinary way. */
#include "toolchain/standby_wire.h"
#include "tools/worker/rewind.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

enum {
    STACK_BYTES = 128 << 10,
    STACK_BELOW_BYTES = 4096, /* of the tool's stack below the function that stands by */
    LIMITS = 3,
};

static const int limits[LIMITS] = {RLIMIT_AS, RLIMIT_FSIZE, RLIMIT_CPU};

/* What outlives a job. */
typedef struct control {
    ucontext_t tool, waiting;
    hn_rewind *rewind;
    const char *stack_low;
    pid_t pid;
    int fd, exit_status;
    struct rlimit own_limits[LIMITS];
    char stack[STACK_BYTES];
} control;

/* The tool has one thread here. All of these are rewound. */
static int control_fd = -1; /* until the tool stands by; -1: not started by a worker, or in a job */
static control *job;        /* in a job */
static int input_fd = -1, output_fd = -1;
static int early_fd = -1; /* of an output that was opened before the jobs came */

static void take_descriptor(int fd, int flags) {
    int null_fd = open("/dev/null", flags | O_CLOEXEC);
    if (null_fd < 0 || dup2(null_fd, fd) < 0) _exit(126);
    close(null_fd);
}

/* ---- the end of a job ---- */

/* Not in a process that the job made. */
static bool is_in_job(void) { return job && job->pid == getpid(); }

static void end_job(int status) {
    job->exit_status = status;
    setcontext(&job->waiting);
}

/* The first function that the tool registers for its exit is the last one that exit() calls. */
static void at_exit(int status, void *context) {
    (void)context;
    if (is_in_job()) end_job(fflush(NULL) == 0 ? status : -1);
}

EXPORT __attribute__((noreturn)) void _exit(int status);
EXPORT __attribute__((noreturn)) void _Exit(int status);

void _exit(int status) {
    if (is_in_job()) end_job(status);
    for (;;) syscall(SYS_exit_group, status);
}

void _Exit(int status) { _exit(status); }

__attribute__((constructor)) static void begin(void) {
    if (!getenv(HN_STANDBY_VARIABLE)) return;
    unsetenv(HN_STANDBY_VARIABLE);
    unsetenv("LD_PRELOAD");
    unsetenv("LD_BIND_NOW");
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    syscall(SYS_close_range, 3u, ~0u, 0u); /* whatever slipped through */
    hn_rewind_prepare();
    int fd = fcntl(2, F_DUPFD_CLOEXEC, 3);
    if (fd < 0 || on_exit(at_exit, NULL) != 0) _exit(126);
    take_descriptor(1, O_WRONLY);
    take_descriptor(2, O_WRONLY);
    control_fd = fd;
}

/* ---- jobs ---- */

static uint64_t used_seconds(void) {
    struct rusage usage;
    return getrusage(RUSAGE_SELF, &usage) == 0 ? (uint64_t)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) + 1 : 0;
}

/* The soft limits only: hard ones could not be raised for the next job. */
static bool limit_job(const control *c, const hn_standby_request *request) {
    const uint64_t values[LIMITS] = {
        request->memory_bytes ? request->memory_bytes + hn_rewind_extra_bytes(c->rewind) : 0,
        request->file_bytes,
        request->cpu_seconds ? request->cpu_seconds + used_seconds() : 0,
    };
    for (int i = 0; i < LIMITS; i++) {
        struct rlimit limit = c->own_limits[i];
        if (values[i] && values[i] < limit.rlim_max) limit.rlim_cur = values[i];
        if (setrlimit((__rlimit_resource_t)limits[i], &limit) != 0) return false;
    }
    return true;
}

static bool become_job(control *c, const hn_standby_request *request, const int fds[HN_STANDBY_FILES]) {
    input_fd = fds[0];
    output_fd = fds[1];
    control_fd = -1;
    job = c;
    bool ok = dup2(fds[1], 1) >= 0 && dup2(fds[2], 2) >= 0 && (early_fd < 0 || dup2(fds[1], early_fd) >= 0);
    close(fds[2]);
    return ok && limit_job(c, request);
}

static bool receive(int fd, hn_standby_request *request, int fds[HN_STANDBY_FILES]) {
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(HN_STANDBY_FILES * sizeof(int))];
    } ancillary;
    struct iovec part = {request, sizeof(*request)};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = ancillary.bytes, .msg_controllen = sizeof(ancillary.bytes)};
    ssize_t got;
    do got = recvmsg(fd, &message, MSG_CMSG_CLOEXEC);
    while (got < 0 && errno == EINTR);
    const struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    if (got != sizeof(*request) || !head || head->cmsg_len != CMSG_LEN(HN_STANDBY_FILES * sizeof(int))) return false;
    memcpy(fds, CMSG_DATA(head), HN_STANDBY_FILES * sizeof(int));
    return true;
}

/* One job and its end. False: there is no going on. */
static bool run_job(control *c) {
    hn_standby_request request;
    int fds[HN_STANDBY_FILES];
    if (!receive(c->fd, &request, fds) || !become_job(c, &request, fds)) return false;
    swapcontext(&c->waiting, &c->tool);
    hn_standby_reply reply = {.exit_status = c->exit_status & 0xff};
    if (c->exit_status < 0) return false; /* its output could not be written */
    reply.goes_on = !c->exit_status && hn_rewind_is_possible(c->rewind);
    if (send(c->fd, &reply, sizeof(reply), MSG_NOSIGNAL) != sizeof(reply) || !reply.goes_on) return false;
    hn_rewind_go(c->rewind);
    return true;
}

static void serve(int high, int low) {
    control *c = (control *)((uintptr_t)(unsigned)high << 32 | (unsigned)low);
    const int32_t hello = HN_STANDBY_HELLO;
    if (hn_rewind_keep(c->fd, c->stack_low, &c->rewind) && send(c->fd, &hello, sizeof(hello), MSG_NOSIGNAL) == sizeof(hello))
        while (run_job(c)) continue;
    job = NULL;
    _exit(0);
}

/* Where the tool opens its input. Comes back once for each job. */
static void stand_by(void) {
    control *c = hn_rewind_memory(sizeof(*c));
    fflush(NULL); /* what was said until here is nobody's: it goes to /dev/null */
    if (!c || getcontext(&c->waiting) != 0) _exit(126);
    c->fd = control_fd;
    c->pid = getpid();
    for (int i = 0; i < LIMITS; i++)
        if (getrlimit((__rlimit_resource_t)limits[i], &c->own_limits[i]) != 0) _exit(126);
    c->stack_low = (const char *)__builtin_frame_address(0) - STACK_BELOW_BYTES;
    c->waiting.uc_stack.ss_sp = c->stack;
    c->waiting.uc_stack.ss_size = sizeof(c->stack);
    makecontext(&c->waiting, (void (*)(void))serve, 2, (int)((uintptr_t)c >> 32), (int)(uintptr_t)c);
    swapcontext(&c->tool, &c->waiting);
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

/* ---- the tool's memory, in a job ---- */

static void *map_as(const char *symbol, void *at, size_t bytes, int prot, int flags, int fd, off_t offset) {
    typedef void *map_fn(void *, size_t, int, int, int, off_t);
    bool is_plain = !at && prot == (PROT_READ | PROT_WRITE) && flags == (MAP_PRIVATE | MAP_ANONYMOUS);
    void *got = job && is_plain ? hn_rewind_take(job->rewind, bytes) : NULL;
    if (got) return got;
    got = ((map_fn *)dlsym(RTLD_NEXT, symbol))(at, bytes, prot, flags, fd, offset);
    if (job && got != MAP_FAILED) hn_rewind_note(job->rewind, got, bytes);
    return got;
}

EXPORT void *mmap(void *at, size_t bytes, int prot, int flags, int fd, off_t offset);
EXPORT void *mmap64(void *at, size_t bytes, int prot, int flags, int fd, off_t offset);
EXPORT int munmap(void *at, size_t bytes);

void *mmap(void *at, size_t bytes, int prot, int flags, int fd, off_t offset) {
    return map_as("mmap", at, bytes, prot, flags, fd, offset);
}

void *mmap64(void *at, size_t bytes, int prot, int flags, int fd, off_t offset) {
    return map_as("mmap64", at, bytes, prot, flags, fd, offset);
}

int munmap(void *at, size_t bytes) {
    if (job && hn_rewind_owns(job->rewind, at)) return 0;
    return (int)syscall(SYS_munmap, at, bytes);
}
