/* process_isolated.c: a child that is the first process of a PID namespace of its own: see
 * process.h.
 *
 * posix_spawn cannot ask for a namespace, so this does what it does: the child borrows the memory
 * of the caller, which sleeps until the child has become another program. The child may only make
 * system calls and write to `birth`. */
#include "base/process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

enum { STACK_BYTES = 128 << 10 };
#define NUMBER_FILE "/proc/sys/kernel/ns_last_pid"

/* What the child is given, written before it exists. */
typedef struct birth {
    const hn_spawn *spec;
    int fds[3];    /* what becomes 0..2: none of these numbers itself */
    int caller_fd; /* readable when the caller has ended */
    bool has_user; /* a user namespace too, with the same one user and group as outside */
    char uid_map[64], gid_map[64];
    bool has_numbers;
    char numbers[2][16]; /* where process ids begin: the second for a kernel whose ids end early */
    bool is_counted;
    struct rlimit processes;
    bool is_born; /* false: the child found that it cannot be */
} birth;

/* The child's frames lie in memory that is used for other things later: nothing may be marked
 * there. */
#define CHILD __attribute__((no_sanitize("address", "undefined")))

CHILD static bool put(const char *path, const char *text) {
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    size_t len = 0;
    while (text[len]) len++;
    bool ok = fd >= 0 && write(fd, text, len) == (ssize_t)len;
    if (fd >= 0) close(fd);
    return ok;
}

/* Default handling and an empty mask, past the C library, which would remember it on the caller's
 * behalf. */
CHILD static bool set_signals(void) {
    const uint64_t standard[4] = {0}, none = 0;
    for (int number = 1; number <= 64; number++)
        syscall(SYS_rt_sigaction, number, standard, NULL, sizeof(none));
    return syscall(SYS_rt_sigprocmask, SIG_SETMASK, &none, NULL, sizeof(none)) == 0;
}

CHILD static int child(void *argument) {
    birth *b = argument;
    const hn_spawn *spec = b->spec;
    struct pollfd caller = {.fd = b->caller_fd, .events = POLLIN};
    /* it may have died before the first */
    bool ok = prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && poll(&caller, 1, 0) == 0;
    if (b->has_user)
        ok = ok && put("/proc/self/setgroups", "deny") && put("/proc/self/uid_map", b->uid_map);
    if (b->has_user) ok = ok && put("/proc/self/gid_map", b->gid_map);
    if (b->has_numbers)
        ok = ok && (put(NUMBER_FILE, b->numbers[0]) || put(NUMBER_FILE, b->numbers[1]));
    if (b->is_counted) ok = ok && setrlimit(RLIMIT_NPROC, &b->processes) == 0;
    if (spec->new_group) ok = ok && setpgid(0, 0) == 0;
    if (spec->cwd) ok = ok && chdir(spec->cwd) == 0;
    for (int i = 0; i < 3; i++) ok = ok && dup2(b->fds[i], i) == i;
    if (ok && set_signals()) {
        b->is_born = true;
        char *const *env = spec->env ? (char *const *)spec->env : environ;
        execvpe(spec->argv[0], (char *const *)spec->argv, env);
    }
    b->is_born = false;
    _exit(127);
}

/* Duplicates of what the child is to have as 0..2, numbered above them. */
static bool gather(birth *b) {
    const int wanted[3] = {b->spec->stdin_fd, b->spec->stdout_fd, b->spec->stderr_fd};
    bool ok = true;
    for (int i = 0; i < 3; i++) {
        int null_fd = wanted[i] < 0 ? open("/dev/null", (i ? O_WRONLY : O_RDONLY) | O_CLOEXEC) : -1;
        b->fds[i] = fcntl(wanted[i] < 0 ? null_fd : wanted[i], F_DUPFD_CLOEXEC, 3);
        if (null_fd >= 0) close(null_fd);
        ok = ok && b->fds[i] >= 0;
    }
    b->caller_fd = (int)syscall(SYS_pidfd_open, getpid(), 0);
    return ok && b->caller_fd >= 0;
}

static void release(const birth *b) {
    for (int i = 0; i < 3; i++)
        if (b->fds[i] >= 0) close(b->fds[i]);
    if (b->caller_fd >= 0) close(b->caller_fd);
}

/* Process ids inside begin anywhere: two namespaces that both counted from 2 would make the same
 * names of files out of them. Where /proc is hidden they do: a directory for each job has to do. */
static bool describe(birth *b) {
    uint32_t random;
    if (getrandom(&random, sizeof(random), GRND_NONBLOCK) != sizeof(random)) return false;
    b->has_numbers = access(NUMBER_FILE, F_OK) == 0;
    snprintf(b->numbers[0], sizeof(b->numbers[0]), "%u", 1000 + random % 4000000);
    snprintf(b->numbers[1], sizeof(b->numbers[1]), "%u", 1000 + random % 30000);
    snprintf(b->uid_map, sizeof(b->uid_map), "%u %u 1", (unsigned)geteuid(), (unsigned)geteuid());
    snprintf(b->gid_map, sizeof(b->gid_map), "%u %u 1", (unsigned)getegid(), (unsigned)getegid());
    return true;
}

/* No signal handler of the host may run in the child, on the host's memory. */
static pid_t start(birth *b, int flags, char *stack, int *out_fd) {
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &old);
    pid_t pid = clone(child, stack + STACK_BYTES,
                      CLONE_VM | CLONE_VFORK | CLONE_PIDFD | SIGCHLD | flags, b, out_fd);
    int err = errno;
    if (pid > 0 && !b->is_born) {
        while (waitpid(pid, NULL, 0) < 0 && errno == EINTR) continue;
        close(*out_fd);
        pid = -1;
    }
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    errno = err;
    return pid;
}

/* Since Linux 5.14 what RLIMIT_NPROC counts begins anew in a user namespace. Before, it would count
 * all of the user. */
static bool can_count(void) {
    struct utsname system;
    unsigned major = 0, minor = 0;
    if (uname(&system) != 0 || sscanf(system.release, "%u.%u", &major, &minor) != 2) return false;
    return major > 5 || (major == 5 && minor >= 14);
}

/* ThreadSanitizer takes a child that borrows the memory for another thread. */
static bool is_wanted(void) {
#ifdef __SANITIZE_THREAD__
    return false;
#else
    const char *text = getenv("HENRY_NAMESPACES");
    return !text || strcmp(text, "off") != 0;
#endif
}

/* A user namespace would take from root what it may do to the files of others. */
bool hn_process_spawn_isolated(const hn_spawn *spec, hn_child *out_child) {
    birth b = {.spec = spec,
               .fds = {-1, -1, -1},
               .caller_fd = -1,
               .processes = {spec->processes, spec->processes}};
    pid_t pid = -1;
    int fd = -1;
    *out_child = (hn_child){.pid = 0, .fd = -1};
    if (!is_wanted() || !spec->argv || !spec->argv[0] || !describe(&b)) return false;
    char *stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    if (stack == MAP_FAILED) return false;
    if (gather(&b)) {
        errno = 0;
        pid = start(&b, CLONE_NEWPID, stack, &fd);
        b.has_user = pid < 0 && errno == EPERM && geteuid() != 0 && getuid() == geteuid() &&
                     getgid() == getegid();
        b.is_counted = b.has_user && spec->processes && can_count();
        if (b.has_user) pid = start(&b, CLONE_NEWPID | CLONE_NEWUSER, stack, &fd);
    }
    release(&b);
    munmap(stack, STACK_BYTES);
    if (pid > 0) *out_child = (hn_child){.pid = pid, .fd = fd};
    return pid > 0;
}
