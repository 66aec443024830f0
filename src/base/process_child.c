/* process_child.c: waiting for children and sending them signals.
 *
 * The program around this library may take the exit status of every child (a thread in
 * waitpid(-1)), or have the kernel keep none (SIGCHLD ignored, SA_NOCLDWAIT). Then a child can be
 * gone before it is asked about, and its number can be another process's. So a child is known by a
 * process descriptor; ECHILD means that it has ended; and the descriptor tells the exit status
 * where the kernel can (Linux 6.15). */
#include "base/process.h"

#include "base/oserror.h"
#include "base/trace.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    /* how often to look for the end where the kernel has no process descriptors */
    STEP_MS = 2,
    INFO_TRIES = 40, /* for an exit status that somebody else is taking at this moment */
    INFO_STEP_NS = 250000,
    BY_DESCRIPTOR = 3, /* P_PIDFD: Linux 5.4; older headers do not have it */
    TO_GROUP = 1 << 2, /* PIDFD_SIGNAL_PROCESS_GROUP: Linux 6.9 */
};

/* PIDFD_GET_INFO in its first form, of Linux 6.13; the exit status is there since 6.15. */
typedef struct exit_info {
    uint64_t mask, cgroup;
    uint32_t ids[11];
    int32_t wait_status;
} exit_info;
_Static_assert(sizeof(exit_info) == 64, "the kernel takes this size");
#define INFO_EXIT    ((uint64_t)1 << 3)
#define INFO_REQUEST _IOWR(0xFF, 11, exit_info)

static int wait_on(const hn_child *child, int options, siginfo_t *info) {
    int rc;
    *info = (siginfo_t){0};
    do
        rc = child->fd >= 0 ? waitid((idtype_t)BY_DESCRIPTOR, (id_t)child->fd, info, options)
                            : waitid(P_PID, (id_t)child->pid, info, options);
    while (rc != 0 && errno == EINTR);
    if (rc != 0 && errno == EINVAL && child->fd >= 0)
        rc = waitid(P_PID, (id_t)child->pid, info, options);
    return rc;
}

/* Whether its number is still its own: it runs, or nobody has taken its exit status yet. */
static bool has_number(const hn_child *child) {
    siginfo_t info;
    return wait_on(child, WEXITED | WNOHANG | WNOWAIT, &info) == 0;
}

bool hn_process_has_ended(const hn_child *child) {
    siginfo_t info;
    struct pollfd item = {.fd = child->fd, .events = POLLIN};
    if (child->fd >= 0) return poll(&item, 1, 0) > 0;
    return wait_on(child, WEXITED | WNOHANG | WNOWAIT, &info) != 0 || info.si_pid != 0;
}

void hn_child_init(hn_child *out, pid_t pid) {
    /* close-on-exec by itself */
    *out = (hn_child){.pid = pid, .fd = (int)syscall(SYS_pidfd_open, pid, 0)};
    if (out->fd < 0 || has_number(out) || hn_process_has_ended(out)) return;
    close(out->fd); /* the child is gone, and this is another process */
    out->fd = -1;
}

static int exit_of(int wait_status) {
    return WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
}

/* What the kernel remembers of a process that somebody else has waited for. */
static int ask_descriptor(int fd) {
    for (int i = 0; fd >= 0 && i < INFO_TRIES; i++) {
        exit_info info = {.mask = INFO_EXIT};
        int rc = ioctl(fd, INFO_REQUEST, &info);
        if (rc == 0 && (info.mask & INFO_EXIT)) return exit_of(info.wait_status);
        if (rc != 0 && errno != ESRCH) break;
        nanosleep(&(struct timespec){.tv_nsec = INFO_STEP_NS}, NULL);
    }
    return HN_EXIT_UNKNOWN;
}

/* False: it still runs. */
static bool reap(const hn_child *child, int *out_exit) {
    siginfo_t info;
    if (wait_on(child, WEXITED | WNOHANG, &info) != 0) *out_exit = ask_descriptor(child->fd);
    else if (!info.si_pid) return false;
    else *out_exit = info.si_code == CLD_EXITED ? info.si_status : 128 + info.si_status;
    return true;
}

static void forget(hn_child *child) {
    if (child->fd >= 0) close(child->fd);
    *child = (hn_child){.pid = 0, .fd = -1};
}

/* Sleeps until it ends, or for `limit_ms` (< 0: no limit) at most. */
static void sleep_on(const hn_child *child, int64_t limit_ms) {
    struct pollfd item = {.fd = child->fd, .events = POLLIN};
    if (child->fd < 0 && (limit_ms < 0 || limit_ms > STEP_MS)) limit_ms = STEP_MS;
    poll(&item, child->fd >= 0, limit_ms > INT_MAX ? INT_MAX : (int)limit_ms);
}

hn_status hn_process_wait(hn_child *child, int *out_exit) {
    if (child->pid <= 0)
        return HN_ERROR(HN_INVALID_ARGUMENT,
                        "cannot wait for a process that was not started or has been waited for");
    while (!reap(child, out_exit)) sleep_on(child, -1);
    forget(child);
    return NULL;
}

bool hn_process_wait_for(hn_child *child, int64_t limit_ms, int *out_exit) {
    int64_t until_ns = hn_now_ns() + limit_ms * 1000000;
    if (child->pid <= 0) return true;
    for (bool is_last = false;;) {
        if (reap(child, out_exit)) {
            forget(child);
            return true;
        }
        if (is_last) return false;
        int64_t left_ns = until_ns - hn_now_ns();
        if (left_ns > 0) sleep_on(child, (left_ns + 999999) / 1000000);
        is_last = left_ns <= 0;
    }
}

void hn_process_signal(const hn_child *child, int number) {
    if (child->pid <= 1) return; /* 0 and 1 would mean ourselves and everybody */
    if (child->fd >= 0 &&
        (syscall(SYS_pidfd_send_signal, child->fd, number, NULL, 0) == 0 || errno != ENOSYS))
        return;
    if (has_number(child)) kill(child->pid, number);
}

/* The kernel finds the group by the descriptor or else by the number, which is the child's as long
 * as it runs: a process that is stopped does not end by itself. */
void hn_process_signal_group(const hn_child *child, int number) {
    if (child->pid <= 1) return;
    if (child->fd >= 0 &&
        (syscall(SYS_pidfd_send_signal, child->fd, number, NULL, TO_GROUP) == 0 || errno == ESRCH))
        return;
    hn_process_signal(child, SIGSTOP);
    if (has_number(child)) killpg(child->pid, number);
}
