/* process.c: posix_spawn, and running a tool to its end with a time limit. */
#include "base/process.h"

#include "base/oserror.h"
#include "base/trace.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

extern char **environ;

enum {
    READ_BYTES = 16 << 10,
    OUTPUT_LIMIT_BYTES = 16 << 20, /* of a tool that never stops talking */
    DRAIN_READS = 64,              /* 1 MiB: more than a pipe holds */
    /* how often to look for the end where the kernel has no process descriptors */
    POLL_STEP_MS = 10,
};

/* Redirects 0..2. A wanted descriptor that is itself in 0..2 would be overwritten by an earlier
 * redirection, so `held` keeps duplicates of those until the child has started. */
static int redirect(posix_spawn_file_actions_t *actions, const hn_spawn *spec, int held[3]) {
    const int wanted[3] = {spec->stdin_fd, spec->stdout_fd, spec->stderr_fd};
    for (int i = 0; i < 3; i++) {
        int rc, fd = wanted[i];
        if (fd >= 0 && fd < 3 && fd != i) {
            fd = held[i] = fcntl(fd, F_DUPFD_CLOEXEC, 3);
            if (fd < 0) return errno;
        }
        if (fd < 0)
            rc = posix_spawn_file_actions_addopen(actions, i, "/dev/null",
                                                  i == 0 ? O_RDONLY : O_WRONLY, 0);
        else rc = posix_spawn_file_actions_adddup2(actions, fd, i);
        if (rc) return rc;
    }
    return 0;
}

/* A clean slate: no inherited signal mask or ignored signals. */
static int set_attributes(posix_spawnattr_t *attr, bool new_group) {
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    sigdelset(&all, SIGKILL);
    sigdelset(&all, SIGSTOP);
    int flags =
        POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | (new_group ? POSIX_SPAWN_SETPGROUP : 0);
    int rc = posix_spawnattr_setsigmask(attr, &none);
    if (!rc) rc = posix_spawnattr_setsigdefault(attr, &all);
    if (!rc) rc = posix_spawnattr_setpgroup(attr, 0);
    return rc ? rc : posix_spawnattr_setflags(attr, (short)flags);
}

static int spawn_prepared(const hn_spawn *spec, posix_spawn_file_actions_t *actions,
                          posix_spawnattr_t *attr, pid_t *out_pid) {
    int held[3] = {-1, -1, -1};
    int rc = redirect(actions, spec, held);
    if (!rc && spec->cwd) rc = posix_spawn_file_actions_addchdir_np(actions, spec->cwd);
    if (!rc) rc = set_attributes(attr, spec->new_group);
    char *const *env = spec->env ? (char *const *)spec->env : environ;
    if (!rc)
        rc = posix_spawnp(out_pid, spec->argv[0], actions, attr, (char *const *)spec->argv, env);
    for (int i = 0; i < 3; i++)
        if (held[i] >= 0) close(held[i]);
    return rc;
}

static hn_status spawn_error(const hn_spawn *spec, int err) {
    struct stat info;
    if (spec->cwd && (stat(spec->cwd, &info) != 0 || !S_ISDIR(info.st_mode)))
        return HN_OS_ERROR(err, "cannot run '%s' in directory '%s'", spec->argv[0], spec->cwd);
    if (err == ENOENT)
        return HN_ERROR(HN_NOT_FOUND,
                        "cannot run '%s': no such program; is it installed and in PATH?",
                        spec->argv[0]);
    return HN_OS_ERROR(err, "cannot run '%s'", spec->argv[0]);
}

hn_status hn_process_spawn(const hn_spawn *spec, hn_child *out_child) {
    pid_t pid = 0;
    *out_child = (hn_child){.pid = 0, .fd = -1};
    if (!spec->argv || !spec->argv[0] || !spec->argv[0][0])
        return HN_ERROR(HN_INVALID_ARGUMENT, "cannot run a program without a name");
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attr;
    int rc = posix_spawn_file_actions_init(&actions);
    if (rc) return spawn_error(spec, rc);
    rc = posix_spawnattr_init(&attr);
    if (!rc) {
        rc = spawn_prepared(spec, &actions, &attr, &pid);
        posix_spawnattr_destroy(&attr);
    }
    posix_spawn_file_actions_destroy(&actions);
    if (rc) return spawn_error(spec, rc);
    hn_child_init(out_child, pid);
    return NULL;
}

/* One run in progress. */
typedef struct run {
    const char *name;
    hn_child child;
    bool has_group;
    int pipe_fd; /* what the child writes; -1 when not gathered or at its end */
    int64_t deadline_ns, timeout_ms;
    hn_strbuf *output;
    bool is_cut;
} run;

static void run_gather(run *r, const char *bytes, size_t len) {
    size_t room = r->output->len < OUTPUT_LIMIT_BYTES ? OUTPUT_LIMIT_BYTES - r->output->len : 0;
    r->is_cut |= len > room;
    hn_strbuf_append(r->output, bytes, len < room ? len : room);
}

/* Reads what the pipe holds now, bounded so that a child that writes for ever still meets its
 * deadline. The pipe does not block. */
static hn_status run_drain(run *r) {
    char bytes[READ_BYTES];
    for (int i = 0; i < DRAIN_READS && r->pipe_fd >= 0; i++) {
        ssize_t got = read(r->pipe_fd, bytes, sizeof(bytes));
        if (got > 0) {
            run_gather(r, bytes, (size_t)got);
            continue;
        }
        if (got < 0 && errno == EINTR) continue;
        if (got < 0 && errno == EAGAIN) return NULL;
        int err = errno;
        close(r->pipe_fd);
        r->pipe_fd = -1;
        if (got < 0) return HN_OS_ERROR(err, "cannot read the output of '%s'", r->name);
    }
    return NULL;
}

/* How long to sleep in poll: to the deadline, or for ever, in steps where the kernel has no process
 * descriptors. */
static int run_sleep_ms(const run *r) {
    int64_t left = -1;
    if (r->timeout_ms > 0) {
        left = (r->deadline_ns - hn_now_ns() + 999999) / 1000000;
        if (left < 0) left = 0;
        if (left > INT_MAX) left = INT_MAX;
    }
    if (r->child.fd < 0 && (left < 0 || left > POLL_STEP_MS)) left = POLL_STEP_MS;
    return (int)left;
}

/* Until the child ends. That is the end of the run even when a grandchild keeps the pipe open. */
static hn_status run_follow(run *r, int *out_exit) {
    for (;;) {
        struct pollfd fds[2] = {{.fd = r->pipe_fd, .events = POLLIN},
                                {.fd = r->child.fd, .events = POLLIN}};
        if (poll(fds, 2, run_sleep_ms(r)) < 0 && errno != EINTR)
            return HN_OS_ERROR(errno, "cannot wait for '%s'", r->name);
        HN_TRY(run_drain(r));
        /* what it wrote between the two */
        if (hn_process_wait_for(&r->child, 0, out_exit)) return run_drain(r);
        if (r->timeout_ms > 0 && hn_now_ns() >= r->deadline_ns)
            return HN_ERROR(HN_TIMEOUT, "'%s' ran longer than %lld ms and was killed", r->name,
                            (long long)r->timeout_ms);
    }
}

/* Kills and waits for a child that is still there: nothing is left running and no zombie stays. */
static void run_end(run *r) {
    int ignored;
    if (r->has_group) hn_process_signal_group(&r->child, SIGKILL);
    hn_process_signal(&r->child, SIGKILL);
    if (r->child.pid) hn_status_free(hn_process_wait(&r->child, &ignored));
    if (r->pipe_fd >= 0) close(r->pipe_fd);
}

/* A pipe whose reading end does not block; -1 and -1 when `wanted` is false. */
static hn_status run_pipe(bool wanted, int ends[2]) {
    ends[0] = ends[1] = -1;
    if (!wanted) return NULL;
    if (pipe2(ends, O_CLOEXEC) != 0) return HN_OS_ERROR(errno, "cannot create a pipe");
    if (fcntl(ends[0], F_SETFL, O_NONBLOCK) == 0) return NULL;
    int err = errno;
    close(ends[0]);
    close(ends[1]);
    return HN_OS_ERROR(err, "cannot make a pipe non-blocking");
}

hn_status hn_process_run(const hn_spawn *spec, int64_t timeout_ms, hn_strbuf *output,
                         int *out_exit) {
    int ends[2];
    HN_TRY(run_pipe(output != NULL, ends));
    hn_spawn mine = *spec;
    mine.new_group |= timeout_ms > 0;
    if (output) mine.stdout_fd = mine.stderr_fd = ends[1];
    run r = {.name = spec->argv ? spec->argv[0] : NULL,
             .child = {.fd = -1},
             .has_group = mine.new_group,
             .pipe_fd = ends[0],
             .timeout_ms = timeout_ms,
             .output = output};
    if (timeout_ms > INT64_MAX / 2000000) r.timeout_ms = 0; /* centuries */
    r.deadline_ns = hn_now_ns() + r.timeout_ms * 1000000;
    hn_status status = hn_process_spawn(&mine, &r.child);
    if (output) close(ends[1]); /* only the child's copies keep the pipe open */
    if (!status) status = run_follow(&r, out_exit);
    run_end(&r);
    if (r.is_cut) hn_strbuf_printf(output, "\n[output cut after %d bytes]\n", OUTPUT_LIMIT_BYTES);
    if (!status && output) status = hn_strbuf_status(output);
    return status;
}

static pthread_once_t exe_once = PTHREAD_ONCE_INIT;
static char exe_dir[PATH_MAX];

static void exe_find(void) {
    ssize_t len = readlink("/proc/self/exe", exe_dir, sizeof(exe_dir) - 1);
    exe_dir[len > 0 ? len : 0] = '\0';
    /* where /proc is hidden; relative to a directory that may have changed */
    const char *started_as = (const char *)getauxval(AT_EXECFN);
    if (len <= 0 && started_as && started_as[0] == '/')
        snprintf(exe_dir, sizeof(exe_dir), "%s", started_as);
    char *slash = strrchr(exe_dir, '/');
    if (slash) slash[slash == exe_dir] = '\0'; /* the root keeps its slash */
}

const char *hn_process_exe_dir(void) {
    pthread_once(&exe_once, exe_find);
    return exe_dir;
}
