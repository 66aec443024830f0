/* process_tree.c: see process_tree.h. But for the last function, only calls that a signal handler
 * may make, and no memory but the stack. */
#include "base/process_tree.h"

#include "base/dirents.h"
#include "base/trace.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    TREE_MAX = 4096, /* processes of one look; more are met in the next one */
    READ_BYTES = 4096,
    CHILDREN_BYTES = 512, /* the kernel makes as many as are asked for, and not fast */
    DEPTH_MAX = 33,       /* of PID namespaces in each other */
};

/* A process has a number in /proc and one for kill and waitpid. They differ in a PID namespace
 * below that of /proc. */
typedef struct tree {
    pid_t shown[TREE_MAX]; /* in the order in which they were met: parents first */
    pid_t pids[TREE_MAX];
    uint32_t count, most;
    /* of the caller's namespace below that of /proc; 0: its numbers are those of /proc */
    int depth;
    const pid_t *spared;
    uint32_t spared_count;
    bool is_hunt; /* children of the caller that have ended are waited for */
} tree;

/* Appends "/proc/" or the like and a number: snprintf may not be called in a handler. */
static char *put_text(char *at, const char *text) {
    while (*text) *at++ = *text++;
    *at = 0;
    return at;
}

static char *put_number(char *at, uint64_t number) {
    char digits[24];
    int count = 0;
    do digits[count++] = (char)('0' + number % 10);
    while (number /= 10);
    while (count) *at++ = digits[--count];
    *at = 0;
    return at;
}

static bool is_spared(const tree *t, pid_t pid) {
    for (uint32_t i = 0; i < t->spared_count; i++)
        if (t->spared[i] == pid) return true;
    return false;
}

/* Not one that has ended and waits for its parent to notice. */
static bool is_running(pid_t pid) {
    char path[64], bytes[512];
    put_text(put_number(put_text(path, "/proc/"), (uint64_t)pid), "/stat");
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return false;
    ssize_t got = read(fd, bytes, sizeof(bytes) - 1);
    close(fd);
    if (got <= 0) return false;
    bytes[got] = 0;
    const char *end = strrchr(bytes, ')'); /* the name in front may hold anything */
    return end && end[1] == ' ' && end[2] != 'Z' && end[2] != 'X';
}

/* The numbers of a process in the namespaces from that of /proc down to its own, at most `most`;
 * how many. */
static int read_numbers(const char *status_path, pid_t *out, int most) {
    static const char label[] = "\nNSpid:";
    char bytes[READ_BYTES];
    int count = 0;
    int fd = open(status_path, O_RDONLY | O_CLOEXEC);
    ssize_t got = fd >= 0 ? read(fd, bytes, sizeof(bytes) - 1) : 0;
    if (fd >= 0) close(fd);
    bytes[got > 0 ? got : 0] = 0;
    const char *at = strstr(bytes, label);
    if (!at) return 0;
    for (at += sizeof(label) - 1; count < most && *at == '\t'; count++) {
        pid_t pid = 0;
        for (at++; *at >= '0' && *at <= '9'; at++) pid = pid * 10 + (*at - '0');
        out[count] = pid;
    }
    return count;
}

static int own_depth(void) {
    pid_t numbers[DEPTH_MAX];
    int count = read_numbers("/proc/self/status", numbers, DEPTH_MAX);
    return count > 0 ? count - 1 : 0;
}

/* The number for kill; 0: it is gone. */
static pid_t number_of(const tree *t, pid_t shown) {
    char path[64];
    pid_t numbers[DEPTH_MAX];
    if (!t->depth) return shown;
    put_text(put_number(put_text(path, "/proc/"), (uint64_t)shown), "/status");
    return read_numbers(path, numbers, DEPTH_MAX) > t->depth ? numbers[t->depth] : 0;
}

/* Those that have ended and that nobody has noticed are no part of the tree: a fork bomb leaves
 * thousands. */
static void meet(tree *t, pid_t shown) {
    if (shown <= 1 || t->count == t->most) return;
    pid_t pid = number_of(t, shown);
    if (pid <= 1 || is_spared(t, pid)) return;
    if (is_running(shown)) {
        t->shown[t->count] = shown;
        t->pids[t->count++] = pid;
    } else if (t->is_hunt) {
        waitpid(pid, NULL, WNOHANG);
    }
}

/* "12 345 6 ": the numbers of a file of children. */
static void read_children(tree *t, int dir_fd, const char *name) {
    char bytes[CHILDREN_BYTES];
    pid_t pid = 0;
    int fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return;
    for (ssize_t got; t->count < t->most && (got = read(fd, bytes, sizeof(bytes))) > 0;) {
        for (ssize_t i = 0; i < got; i++) {
            bool is_digit = bytes[i] >= '0' && bytes[i] <= '9';
            if (!is_digit) meet(t, pid);
            pid = is_digit ? pid * 10 + (bytes[i] - '0') : 0;
        }
    }
    close(fd);
    meet(t, pid);
}

/* The children of every thread. `shown` 0: of the caller. */
static void meet_children(tree *t, pid_t shown) {
    char path[64], name[64];
    _Alignas(8) char bytes[READ_BYTES];
    char *end = put_text(path, "/proc/");
    end = shown ? put_number(end, (uint64_t)shown) : put_text(end, "self");
    put_text(end, "/task");
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return;
    for (long got; (got = syscall(SYS_getdents64, fd, bytes, sizeof(bytes))) > 0;) {
        for (long at = 0; at < got;) {
            const hn_dirent *item = (const hn_dirent *)(bytes + at);
            at += item->len;
            if (item->name[0] < '0' || item->name[0] > '9' || strlen(item->name) > 20) continue;
            put_text(put_text(name, item->name), "/children");
            read_children(t, fd, name);
        }
    }
    close(fd);
}

static void survey(tree *t, pid_t root) {
    meet_children(t, root == getpid() ? 0 : root);
    for (uint32_t i = 0; i < t->count && t->count < t->most; i++) meet_children(t, t->shown[i]);
}

/* A thousand processes that do nothing but fork leave little time to anybody else: where the system
 * allows it, which it does for root, this thread goes first. Its old priority. */
static int prioritise(void) {
    int priority = getpriority(PRIO_PROCESS, 0);
    setpriority(PRIO_PROCESS, 0, -20);
    return priority;
}

/* As the kernel takes it; a short slice is a wish since Linux 6.12 and nothing before. */
struct schedule {
    uint32_t bytes, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t slice_ns, deadline_ns, period_ns;
};

void hn_process_tree_watcher(void) {
    enum { RESET_ON_FORK = 1, SLICE_NS = 100000 };
    struct schedule wanted = {.bytes = sizeof(wanted),
                              .policy = SCHED_OTHER,
                              .flags = RESET_ON_FORK,
                              .nice = -20,
                              .slice_ns = SLICE_NS};
    if (sched_getscheduler(0) != SCHED_OTHER) return; /* the host has ideas of its own */
    if (syscall(SYS_sched_setattr, 0, &wanted, 0) == 0) return;
    wanted.nice = getpriority(PRIO_PROCESS, 0);
    syscall(SYS_sched_setattr, 0, &wanted, 0);
}

uint32_t hn_process_tree_count(pid_t root, uint32_t most) {
    tree t = {.most = most < TREE_MAX ? most : TREE_MAX};
    int priority = prioritise();
    survey(&t, root);
    setpriority(PRIO_PROCESS, 0, priority);
    return t.count;
}

/* ---- where /proc is hidden ---- */

bool hn_process_tree_is_visible(void) { return access("/proc/self/task", F_OK) == 0; }

/* The number that the newest process has. */
static pid_t newest_number(void) {
    int wait_status;
    /* fork, without what the C library does around it */
    pid_t pid = (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
    if (pid == 0) syscall(SYS_exit_group, 0);
    if (pid > 0) waitpid(pid, &wait_status, 0);
    return pid;
}

/* Asks the kernel of each number whether it is a child of the caller, and kills it if so. How many
 * there were. */
static uint32_t kill_children_in(pid_t first, pid_t last, const pid_t *spared,
                                 uint32_t spared_count) {
    const tree t = {.spared = spared, .spared_count = spared_count};
    uint32_t found = 0;
    for (pid_t pid = first; pid <= last && pid > 1; pid++) {
        siginfo_t info;
        if (is_spared(&t, pid) || waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) != 0)
            continue;
        found++;
        kill(pid, SIGKILL);
        waitpid(pid, NULL, WNOHANG);
    }
    return found;
}

/* Whose parent was killed comes to the caller, and is met in the next look. Numbers are given out
 * one after the other, and begin anew after the largest one. */
static bool kill_blindly(const pid_t *spared, uint32_t spared_count, int64_t until_ns) {
    enum { NUMBER_MAX = 4 << 20 };
    for (uint32_t found = 1; found;) {
        pid_t own = getpid(), newest = own == 1 ? 1 : newest_number();
        if (newest < 0 || hn_now_ns() >= until_ns) return false;
        if (own == 1) { /* all others of the namespace */
            kill(-1, SIGKILL);
            while (waitpid(-1, NULL, WNOHANG) > 0) continue;
            found = kill(-1, 0) == 0;
        } else {
            found =
                kill_children_in(own + 1, newest > own ? newest : NUMBER_MAX, spared, spared_count);
            if (newest < own) found += kill_children_in(2, newest, spared, spared_count);
        }
        if (found) nanosleep(&(struct timespec){.tv_nsec = 500000}, NULL);
    }
    return true;
}

/* Each look stops all that it finds before it kills them: who is stopped starts nothing more. */
bool hn_process_tree_kill(pid_t root, const pid_t *spared, uint32_t spared_count,
                          int32_t limit_ms) {
    int saved = errno, priority = prioritise(), depth = own_depth();
    int64_t until_ns = hn_now_ns() + limit_ms * 1000000LL;
    bool is_clean = false;
    if (root == getpid() && !hn_process_tree_is_visible()) {
        setpriority(PRIO_PROCESS, 0, priority);
        is_clean = kill_blindly(spared, spared_count, until_ns);
        errno = saved;
        return is_clean;
    }
    do {
        tree t = {.spared = spared,
                  .spared_count = spared_count,
                  .is_hunt = true,
                  .depth = depth,
                  .most = TREE_MAX};
        uint32_t running = 0;
        survey(&t, root);
        for (uint32_t i = 0; i < t.count; i++) kill(t.pids[i], SIGSTOP);
        for (uint32_t i = 0; i < t.count; i++) kill(t.pids[i], SIGKILL);
        for (uint32_t i = 0; i < t.count; i++) {
            bool is_mine = waitpid(t.pids[i], NULL, WNOHANG) == t.pids[i];
            running += !is_mine && is_running(t.shown[i]);
        }
        is_clean = !running && t.count < TREE_MAX;
        if (!is_clean) nanosleep(&(struct timespec){.tv_nsec = 500000}, NULL);
    } while (!is_clean && hn_now_ns() < until_ns);
    setpriority(PRIO_PROCESS, 0, priority);
    errno = saved;
    return is_clean;
}

static bool has_variable(pid_t pid, const char *variable) {
    char path[64], bytes[32 << 10];
    size_t len = 0, wanted = strlen(variable) + 1;
    put_text(put_number(put_text(path, "/proc/"), (uint64_t)pid), "/environ");
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return false;
    for (ssize_t got;
         len < sizeof(bytes) && (got = read(fd, bytes + len, sizeof(bytes) - len)) > 0;)
        len += (size_t)got;
    close(fd);
    for (size_t at = 0; at + wanted <= len; at += strnlen(bytes + at, len - at) + 1)
        if (memcmp(bytes + at, variable, wanted) == 0) return true;
    return false;
}

/* By a descriptor that was there before the look: the number may be another's after it. */
static bool kill_if_marked(pid_t pid, const char *variable) {
    int fd = (int)syscall(SYS_pidfd_open, pid, 0);
    bool is_killed = has_variable(pid, variable) &&
                     (fd >= 0 ? syscall(SYS_pidfd_send_signal, fd, SIGKILL, NULL, 0) == 0
                              : kill(pid, SIGKILL) == 0);
    if (fd >= 0) close(fd);
    return is_killed;
}

uint32_t hn_process_kill_marked(const char *variable) {
    enum { LOOKS = 5 };
    uint32_t all = 0, found = 1;
    for (int look = 0; look < LOOKS && found; look++) {
        DIR *proc = opendir("/proc");
        found = 0;
        for (const struct dirent *entry; proc && (entry = readdir(proc));) {
            pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);
            if (pid > 1 && pid != getpid()) found += kill_if_marked(pid, variable);
        }
        if (proc) closedir(proc);
        all += found;
    }
    return all;
}
