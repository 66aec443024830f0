/* network_fs.h: runs a child for which a directory lies on a network file system: what such systems
 * lack fails below it.
 *
 * A filter (seccomp) hands some system calls of the child, and of all that it starts, to this
 * process, which looks where the descriptor leads, and refuses them or lets them go on. It needs no
 * rights, and the dynamic loader does not get by. */
#ifndef HN_TESTS_NETWORK_FS_H
#define HN_TESTS_NETWORK_FS_H

#include "stress/stress.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#if defined(__x86_64__)
#define NETFS_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define NETFS_ARCH AUDIT_ARCH_AARCH64
#else
#define NETFS_ARCH 0
#endif

enum { NETFS_NFS = 0x6969, NETFS_LIMIT_MS = 60000, NETFS_STEP_MS = 20, NETFS_SKIPPED = 77 };

typedef struct netfs {
    const char *dir; /* absolute, without links */
    bool is_told;    /* the system says that it is NFS */
    int (*body)(void);
    /* results */
    int status;               /* as waitpid gives it */
    long maps, locks, others; /* that were refused */
    long asked;               /* which kind of file system it is */
} netfs;

/* ---- the child ---- */

#define NETFS_LOAD(member)              BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, member))
#define NETFS_JUMP(how, value, yes, no) BPF_JUMP(BPF_JMP | (how) | BPF_K, (value), (yes), (no))
#define NETFS_RETURN(what)              BPF_STMT(BPF_RET | BPF_K, (what))
#define NETFS_ASK(number)               NETFS_JUMP(BPF_JEQ, (number), 0, 1), NETFS_RETURN(SECCOMP_RET_USER_NOTIF)
/* Asks about the call when an argument has one of the bits, or has none of them. */
#define NETFS_ASK_BITS(number, arg, bits, has)                                                     \
    NETFS_JUMP(BPF_JEQ, (number), 0, 4), NETFS_LOAD(args[arg]),                                    \
        NETFS_JUMP(BPF_JSET, (bits), (has) ? 0 : 1, (has) ? 1 : 0),                                \
        NETFS_RETURN(SECCOMP_RET_USER_NOTIF), NETFS_RETURN(SECCOMP_RET_ALLOW)

/* A descriptor to answer at; -1 where the system has no such thing. */
static inline int netfs_filter(void) {
    struct sock_filter code[] = {
        NETFS_LOAD(arch),
        NETFS_JUMP(BPF_JEQ, NETFS_ARCH, 1, 0),
        NETFS_RETURN(SECCOMP_RET_ALLOW),
        NETFS_LOAD(nr),
        NETFS_ASK(SYS_flock),
        NETFS_ASK(SYS_fstatfs),
        NETFS_ASK(SYS_linkat),
        NETFS_ASK_BITS(SYS_renameat2, 4, ~0u, true),
        NETFS_ASK_BITS(SYS_openat, 2, O_TMPFILE & ~O_DIRECTORY, true),
        NETFS_ASK_BITS(SYS_mmap, 3, MAP_ANONYMOUS, false),
        NETFS_RETURN(SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog program = {.len = sizeof(code) / sizeof(code[0]), .filter = code};
    if (!NETFS_ARCH || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return -1;
    return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER,
                        &program);
}

/* ---- descriptors between the two ---- */

typedef union netfs_control {
    struct cmsghdr head;
    char bytes[CMSG_SPACE(sizeof(int))];
} netfs_control;

static inline bool netfs_send(int socket_fd, int fd) {
    netfs_control control = {.bytes = {0}};
    struct iovec part = {"x", 1};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = &control,
                             .msg_controllen = sizeof(control)};
    control.head = (struct cmsghdr){
        .cmsg_len = CMSG_LEN(sizeof(fd)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
    memcpy(CMSG_DATA(&control.head), &fd, sizeof(fd));
    return sendmsg(socket_fd, &message, 0) == 1;
}

static inline int netfs_receive(int socket_fd) {
    netfs_control control = {.bytes = {0}};
    char byte;
    int fd = -1;
    struct iovec part = {&byte, 1};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = &control,
                             .msg_controllen = sizeof(control)};
    if (recvmsg(socket_fd, &message, MSG_CMSG_CLOEXEC) != 1 ||
        message.msg_controllen < CMSG_LEN(sizeof(fd)))
        return -1;
    memcpy(&fd, CMSG_DATA(&control.head), sizeof(fd));
    return fd;
}

/* ---- answers ---- */

/* Whether a path, or what a descriptor of the asking process leads to, is below the directory.
 * `fd`: AT_FDCWD too. */
static inline bool netfs_is_below(const netfs *n, pid_t pid, int fd, uint64_t text_at) {
    char link[64], path[PATH_MAX] = "";
    size_t len = strlen(n->dir);
    if (text_at) { /* at most what is left of the page: it may be the last one */
        struct iovec here = {path, sizeof(path) - 1},
                     there = {(void *)(uintptr_t)text_at, 4096 - text_at % 4096};
        if (there.iov_len > here.iov_len) there.iov_len = here.iov_len;
        if (process_vm_readv(pid, &here, 1, &there, 1, 0) < 0) return false;
    }
    if (path[0] != '/') {
        if (fd == AT_FDCWD) snprintf(link, sizeof(link), "/proc/%d/cwd", (int)pid);
        else snprintf(link, sizeof(link), "/proc/%d/fd/%d", (int)pid, fd);
        ssize_t got = readlink(link, path, sizeof(path) - 1);
        path[got > 0 ? got : 0] = 0;
    }
    return strncmp(path, n->dir, len) == 0 && (!path[len] || path[len] == '/');
}

/* Carries fstatfs out, but for the kind. */
static inline int netfs_tell_kind(const struct seccomp_notif *asked) {
    char link[64];
    struct statfs fs;
    pid_t pid = (pid_t)asked->pid;
    snprintf(link, sizeof(link), "/proc/%d/fd/%d", (int)pid, (int)asked->data.args[0]);
    if (statfs(link, &fs) != 0) return errno;
    fs.f_type = NETFS_NFS;
    struct iovec here = {&fs, sizeof(fs)},
                 there = {(void *)(uintptr_t)asked->data.args[1], sizeof(fs)};
    return process_vm_writev(pid, &here, 1, &there, 1, 0) == (ssize_t)sizeof(fs) ? 0 : EFAULT;
}

static inline void netfs_refuse(struct seccomp_notif_resp *answer, int error, long *count) {
    answer->flags = 0;
    answer->error = -error;
    ++*count;
}

static inline void netfs_answer(netfs *n, const struct seccomp_notif *asked,
                                struct seccomp_notif_resp *answer) {
    const uint64_t *args = (const uint64_t *)asked->data.args;
    pid_t pid = (pid_t)asked->pid;
    int first = (int)args[0];
    *answer =
        (struct seccomp_notif_resp){.id = asked->id, .flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE};
    switch (asked->data.nr) {
    case SYS_mmap:
        if (netfs_is_below(n, pid, (int)args[4], 0)) netfs_refuse(answer, ENODEV, &n->maps);
        return;
    case SYS_flock:
        if (netfs_is_below(n, pid, first, 0)) netfs_refuse(answer, ENOLCK, &n->locks);
        return;
    case SYS_linkat:
        if (netfs_is_below(n, pid, (int)args[2], args[3])) netfs_refuse(answer, EPERM, &n->others);
        return;
    case SYS_renameat2:
        if (netfs_is_below(n, pid, (int)args[2], args[3])) netfs_refuse(answer, EINVAL, &n->others);
        return;
    case SYS_openat:
        if (netfs_is_below(n, pid, first, args[1])) netfs_refuse(answer, EOPNOTSUPP, &n->others);
        return;
    case SYS_fstatfs:
        if (!netfs_is_below(n, pid, first, 0)) return;
        n->asked++;
        if (!n->is_told) return;
        answer->flags = 0;
        answer->error = -netfs_tell_kind(asked);
        return;
    default: return;
    }
}

/* Until all that the filter is on have ended. */
static inline void netfs_serve(netfs *n, int listener, pid_t child) {
    union {
        struct seccomp_notif asked;
        char bytes[512]; /* newer kernels may have more to tell */
    } in;
    union {
        struct seccomp_notif_resp answer;
        char bytes[512];
    } out;
    for (int64_t until_ns = hn_now_ns() + NETFS_LIMIT_MS * 1000000LL; hn_now_ns() < until_ns;) {
        struct pollfd item = {.fd = listener, .events = POLLIN};
        if (poll(&item, 1, NETFS_STEP_MS) <= 0) continue;
        if (item.revents & POLLIN) {
            memset(&in, 0, sizeof(in));
            memset(&out, 0, sizeof(out));
            /* it was killed meanwhile */
            if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &in) != 0) continue;
            netfs_answer(n, &in.asked, &out.answer);
            ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &out);
        } else if (item.revents & POLLHUP) {
            return;
        }
    }
    kill(child, SIGKILL);
}

/* False: the system has no such filters. */
static inline bool netfs_run(netfs *n) {
    int ends[2], listener = -1;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) return false;
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        close(ends[0]);
        int fd = netfs_filter();
        if (fd < 0 || !netfs_send(ends[1], fd)) _exit(NETFS_SKIPPED);
        close(fd);
        close(ends[1]);
        int result = n->body();
        fflush(NULL);
        _exit(result);
    }
    close(ends[1]);
    if (child > 0) listener = netfs_receive(ends[0]);
    close(ends[0]);
    if (listener >= 0) netfs_serve(n, listener, child);
    if (listener >= 0) close(listener);
    if (child > 0) waitpid(child, &n->status, 0);
    return listener >= 0;
}

#endif
