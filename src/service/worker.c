/* worker.c: the worker process: one job at a time, gone when its parent is gone.
 *
 * It is a process group of its own, so that a compiler it started can be killed with it, and
 * orphans below it come to it, so that what left the group is found: after a job whatever still
 * runs is killed. The kernel sends SIGTERM when the thread that started it ends, which is the
 * pool's own thread; the handler then does the same and kills the group, which SIGKILL as the
 * signal of death could not.
 *
 * In a namespace of its own (base/process_isolated.c) all that is in there ends with the worker.
 * Then what is left to do here is to end the strays of each job, and to remove the directory of the
 * one that runs when the parent ends: for that the signal of the parent's death, SIGKILL until
 * then, becomes SIGTERM here too. */
#include "service/worker.h"

#include "base/process_tree.h"
#include "base/trace.h"
#include "cache/record.h"
#include "service/job.h"
#include "service/scratch.h"
#include "service/watchdog.h"
#include "toolchain/standby.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
    READ_BYTES = 64 << 10,
    /* the last things that a worker does, within the second that an orphan may live */
    KILL_LIMIT_MS = 500,
    REMOVE_LIMIT_MS = 200,
};
/* A compiler that lives in this process may not give all its memory back: above this the worker
 * asks to be replaced. */
#define REPLACE_BYTES ((uint64_t)1 << 30)

/* The first process of a namespace: its parent is not in there and has no number. */
static bool is_isolated(void) { return getpid() == 1 && getppid() == 0; }

/* The directory of this worker's jobs, for the handler, which nobody can hand anything. Written
 * once, by the first job. */
static struct {
    char path[PATH_MAX];
    atomic_bool is_set;
} scratch;

static void note_scratch(hn_str request) {
    hn_str path;
    if (atomic_load(&scratch.is_set)) return;
    hn_status status = hn_record_check(request);
    if (!status && hn_record_find(request, "scratch_dir", &path) && path.len &&
        path.len < sizeof(scratch.path)) {
        memcpy(scratch.path, path.ptr, path.len); /* the rest is zero */
        atomic_store(&scratch.is_set, true);
    }
    hn_status_free(status); /* running it will tell */
}

static void kill_own_group(int number) {
    if (is_isolated()) kill(-1, SIGKILL); /* all but this process */
    else hn_process_tree_kill(getpid(), NULL, 0, KILL_LIMIT_MS);
    if (atomic_load(&scratch.is_set)) hn_scratch_remove(scratch.path, REMOVE_LIMIT_MS);
    if (is_isolated()) _exit(128 + number);
    kill(0, SIGKILL);
}

/* False when the parent is gone already, or when this is no group of its own: the handler would
 * kill others.
 */
static bool tie_to_parent(pid_t parent) {
    if (getpgrp() != getpid() && setpgid(0, 0) != 0) return false;
    struct sigaction action = {.sa_handler = kill_own_group};
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGHUP, &action, NULL); /* comes to a stopped worker whose parent is gone */
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (is_isolated()) return true; /* had the parent died before, this process had been killed */
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    return getppid() == parent; /* it may have died before the line above */
}

/* Moves the socket away from standard input, so that no compiler can read it, and closes whatever
 * the host let slip through: a listening socket kept open here would outlive the host's own. */
static int take_socket(int *out_messages_fd) {
    int type = 0, socket_fd = -1;
    syscall(SYS_close_range, 3u, ~0u, 0u);
    *out_messages_fd = ftruncate(1, 0) == 0 ? fcntl(1, F_DUPFD_CLOEXEC, 3) : 0;
    if (*out_messages_fd < 0) *out_messages_fd = 0;
    socklen_t len = sizeof(type);
    if (getsockopt(0, SOL_SOCKET, SO_TYPE, &type, &len) == 0)
        socket_fd = fcntl(0, F_DUPFD_CLOEXEC, 3);
    int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null_fd >= 0) dup2(null_fd, 0), dup2(null_fd, 1), close(null_fd);
    return socket_fd;
}

static bool send_all(int fd, hn_str bytes) {
    while (bytes.len) {
        ssize_t done = send(fd, bytes.ptr, bytes.len, MSG_NOSIGNAL);
        if (done < 0 && errno == EINTR) continue;
        if (done <= 0) return false;
        bytes = (hn_str){bytes.ptr + done, bytes.len - (size_t)done};
    }
    return true;
}

static bool send_frame(int fd, hn_frame_kind kind, uint64_t job, hn_str payload) {
    hn_strbuf frame;
    hn_strbuf_init(&frame);
    hn_frame_write(&frame, kind, job, payload);
    bool ok = !frame.failed && send_all(fd, hn_strbuf_str(&frame));
    hn_strbuf_deinit(&frame);
    return ok;
}

/* Reads until `in` holds a whole frame. False at the end of the stream. */
static bool receive_frame(int fd, hn_strbuf *in, hn_frame_header *header, hn_str *payload,
                          size_t *used) {
    for (;;) {
        bool whole;
        hn_status status = hn_frame_read(hn_strbuf_str(in), &whole, header, payload, used);
        if (status) {
            hn_status_free(status); /* closing the socket tells the parent */
            return false;
        }
        if (whole) return true;
        char bytes[READ_BYTES];
        ssize_t got = recv(fd, bytes, sizeof(bytes), 0);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return false;
        hn_strbuf_append(in, bytes, (size_t)got);
        if (in->failed) return false;
    }
}

/* The most memory that this process ever occupied. */
static uint64_t peak_bytes(void) {
    struct rusage usage;
    return getrusage(RUSAGE_SELF, &usage) == 0 ? (uint64_t)usage.ru_maxrss * 1024 : 0;
}

/* Nothing of a job goes on after it: what its tools leave behind are descendants of this
 * process. */
static void kill_strays(const hn_standby *standby) {
    pid_t tools[HN_STANDBY_TOOLS];
    uint32_t count = standby ? hn_standby_pids(standby, tools) : 0;
    hn_process_tree_kill(getpid(), tools, count, KILL_LIMIT_MS);
}

/* A job that failed may have failed of processes that go on and on. In a namespace all are ended at
 * one stroke, the tools that stand by too, and the worker is of no more use: true. */
static bool kill_namespace(const hn_standby *standby) {
    pid_t tools[HN_STANDBY_TOOLS];
    uint32_t count = standby ? hn_standby_pids(standby, tools) : 0;
    if (!is_isolated() || hn_process_tree_count(getpid(), count + 1) <= count) return false;
    kill(-1, SIGKILL);
    return true;
}

static bool answer(int fd, uint64_t job, hn_str request, const hn_job_context *context,
                   hn_watchdog *watchdog) {
    hn_job_outcome outcome;
    hn_strbuf message;
    hn_job_outcome_init(&outcome);
    hn_strbuf_init(&message);
    note_scratch(request);
    hn_watchdog_set_limit(watchdog, hn_job_request_processes(request));
    hn_job_request_run(request, context, &outcome);
    hn_watchdog_set_limit(watchdog, 0);
    outcome.needs_replacement =
        peak_bytes() > REPLACE_BYTES || (outcome.code != HN_OK && kill_namespace(context->standby));
    hn_job_outcome_write(&outcome, &message);
    bool ok = !message.failed && send_frame(fd, HN_FRAME_OUTCOME, job, hn_strbuf_str(&message));
    hn_job_outcome_deinit(&outcome);
    hn_strbuf_deinit(&message);
    /* who waits for the result does not wait for this; the next job does */
    kill_strays(context->standby);
    return ok;
}

static void serve(int fd, hn_job_context *context) {
    hn_strbuf in;
    hn_frame_header header;
    hn_str payload;
    size_t used;
    hn_watchdog *watchdog = hn_watchdog_start(context->messages_fd, fd);
    /* without it tools are started for each job */
    hn_status_free(hn_standby_create(&context->standby));
    hn_strbuf_init(&in);
    bool ok = send_frame(fd, HN_FRAME_HELLO, 0, HN_STR(""));
    while (ok && receive_frame(fd, &in, &header, &payload, &used)) {
        ok = header.kind == HN_FRAME_JOB && answer(fd, header.job, payload, context, watchdog);
        memmove(in.ptr, in.ptr + used, in.len - used);
        in.len -= used;
    }
    hn_strbuf_deinit(&in);
    hn_standby_destroy(context->standby);
}

int hn_worker_main(int argc, char **argv) {
    if (argc < 3 || strcmp(argv[1], "--worker") != 0) return 2;
    char *end;
    long parent = strtol(argv[2], &end, 10);
    if (*end || parent <= 0) return 2;
    if (!tie_to_parent((pid_t)parent)) return 0;
    if (argc > 3) return hn_tool_guard_main(argv + 3);
    hn_job_context context = {.log_fd = 2};
    int fd = take_socket(&context.messages_fd);
    if (fd < 0) return 2;
    serve(fd, &context);
    close(fd);
    return 0;
}
