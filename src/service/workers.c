/* workers.c: one worker process: starting and ending it, what becomes of its job when it ends, and
 * the messages to and from it. Who gets which job, and when, is decided in pool.c. */
#include "service/workers.h"

#include "base/file.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/oserror.h"
#include "base/process.h"
#include "base/process_tree.h"
#include "base/trace.h"
#include "service/scratch.h"
#include "toolchain/tool.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
    READ_BYTES = 16 << 10,
    STOP_LIMIT_MS = 300, /* to kill all, and to wait for them */
    /* workers that end before their first message, until the pool gives up */
    FAILED_STARTS_MAX = 3,
    HELLO_LIMIT_MS = 5000,
    KILL_LIMIT_MS = 300, /* for what a worker leaves behind */
    REAP_LIMIT_MS = 1000,
    THREADS_SPARE = 64, /* a limit of the kernel's counts threads too */
};

static void note_worker(hn_core *core, int idx, pid_t pid, int fd) {
    hn_lock(&core->lock);
    core->worker_pids[idx] = pid;
    core->worker_fds[idx] = fd;
    core->stats.workers_started += pid != 0;
    if (!pid && core->quiescing) pthread_cond_broadcast(&core->changed);
    hn_unlock(&core->lock);
}

static void note_ready(hn_core *core, int change) {
    hn_lock(&core->lock);
    core->workers_ready += (uint32_t)change;
    hn_unlock(&core->lock);
}

/* ---- listening to workers ---- */

static int slot_of(const hn_pool *p, const hn_worker *w) { return (int)(w - p->workers); }

static bool set_event(const hn_pool *p, int op, const hn_worker *w, uint32_t events) {
    struct epoll_event event = {.events = events, .data.u32 = (uint32_t)slot_of(p, w)};
    return epoll_ctl(p->core->pool_fds[HN_POOL_SET], op, w->fd, &event) == 0;
}

/* To change what the thread is told needs no memory and cannot fail. */
static void update_events(hn_pool *p, hn_worker *w) {
    bool is_sending = w->out_at < w->out.len;
    if (is_sending == w->is_sending) return;
    w->is_sending = is_sending;
    set_event(p, EPOLL_CTL_MOD, w, is_sending ? EPOLLIN | EPOLLOUT : EPOLLIN);
}

static hn_status add_to_set(hn_pool *p, hn_worker *w) {
    w->is_sending = false;
    if (set_event(p, EPOLL_CTL_ADD, w, EPOLLIN)) return NULL;
    return HN_OS_ERROR(errno, "cannot listen to a compile worker");
}

/* A forked child may hold the socket open, and then closing it would not take it out of the set. */
static void close_socket(hn_pool *p, hn_worker *w) {
    set_event(p, EPOLL_CTL_DEL, w, 0);
    close(w->fd);
}

/* ---- starting and ending workers ---- */

static hn_status spawn_worker(const hn_service *service, int child_fd, hn_worker *w) {
    char parent[24];
    snprintf(parent, sizeof(parent), "%d", (int)getpid());
    const char *const argv[] = {service->worker_path, "--worker", parent, NULL};
    /* a daemon may have closed it */
    int stderr_fd = service->worker_log_fd >= 0 ? service->worker_log_fd
                    : fcntl(2, F_GETFD) >= 0    ? 2
                                                : -1;
    const hn_spawn spawn = {.argv = argv,
                            .stdin_fd = child_fd,
                            .stdout_fd = w->messages_fd,
                            .stderr_fd = stderr_fd,
                            .new_group = true,
                            .processes = 4 * service->job_processes +
                                         THREADS_SPARE}; /* the watchdog finds out first */
    w->is_isolated = hn_process_spawn_isolated(&spawn, &w->child);
    return w->is_isolated ? NULL : hn_process_spawn(&spawn, &w->child);
}

/* What a killed worker left. */
static void remove_scratch(const hn_worker *w) {
    hn_status status = w->scratch_dir[0] ? hn_dir_remove(w->scratch_dir) : NULL;
    if (status) hn_warn_once("service", "scratch", "%s", hn_status_message(status));
    hn_status_free(status);
}

hn_status hn_worker_start(hn_pool *p, int idx) {
    hn_worker *w = &p->workers[idx];
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        return HN_OS_ERROR(errno, "cannot make a socket for a compile worker");
    /* A worker that stops reading must not stop the pool. */
    hn_status status = NULL;
    if (fcntl(ends[0], F_SETFL, O_NONBLOCK) != 0)
        status = HN_OS_ERROR(errno, "cannot set up a socket");
    w->messages_fd = -1;
    w->fd = ends[0];
    if (!status) status = hn_tool_memory_file("henry-messages", &w->messages_fd);
    if (!status) status = add_to_set(p, w);
    if (!status) status = spawn_worker(p->core->service, ends[1], w);
    close(ends[1]);
    if (status) {
        set_event(p, EPOLL_CTL_DEL, w, 0);
        close(ends[0]);
        if (w->messages_fd >= 0) close(w->messages_fd);
        w->child.pid = 0;
        return status;
    }
    w->is_ready = w->needs_replacement = w->must_end = w->has_unread_job =
        w->has_too_many_processes = false;
    w->deadline_ns = hn_now_ns() + HELLO_LIMIT_MS * 1000000LL;
    w->idle_ns = hn_now_ns();
    if (idx == p->count) p->count++;
    hn_scratch_name(w->scratch_dir); /* without one a job finds a place of its own */
    note_worker(p->core, idx, w->child.pid, w->fd);
    return NULL;
}

/* A worker has ended: another one, if there is work. */
static void ask_for_worker(hn_pool *p) {
    hn_core *core = p->core;
    hn_lock(&core->lock);
    if (core->queue.count && !core->workers_wanted) core->workers_wanted = 1;
    hn_unlock(&core->lock);
}

/* In a namespace it is enough to kill the worker. Otherwise the processes of its job are killed
 * first, while they can be found below the worker. Before that the whole group is stopped with one
 * call: a process with a pending signal starts no other, which freezes a fork bomb. What is left of
 * a worker that has ended is found by the directory in its environment. */
static void kill_worker(const hn_worker *w, int32_t limit_ms) {
    char variable[PATH_MAX + 16];
    if (w->is_isolated) {
        hn_process_signal_group(&w->child, SIGKILL);
        return;
    }
    if (w->job && !hn_process_tree_is_visible()) {
        /* it knows how to find its children all the same, and then ends */
        hn_process_signal(&w->child, SIGTERM);
        for (int64_t until_ns = hn_now_ns() + limit_ms * 1000000LL;
             !hn_process_has_ended(&w->child) && hn_now_ns() < until_ns;)
            nanosleep(&(struct timespec){.tv_nsec = 500000}, NULL);
    } else if (w->job && !hn_process_has_ended(&w->child)) {
        hn_process_signal_group(&w->child, SIGSTOP);
        hn_process_tree_kill(w->child.pid, NULL, 0, limit_ms);
    }
    hn_process_signal_group(&w->child, SIGKILL);
    if (!w->job || !w->scratch_dir[0] || access(w->scratch_dir, F_OK) != 0) return;
    snprintf(variable, sizeof(variable), "TMPDIR=%s", w->scratch_dir);
    hn_process_kill_marked(variable);
}

/* Takes the exit status of a killed worker. A process that hangs in the kernel, say in a file
 * system that does not answer, cannot be killed, nor does its namespace end before it: the pool
 * does not wait for that. */
static void reap_worker(hn_pool *p, hn_child child, int *out_exit) {
    if (hn_process_wait_for(&child, REAP_LIMIT_MS, out_exit)) return;
    if (p->lingering_count < HN_LINGERING_MAX) p->lingering[p->lingering_count++] = child;
    else if (child.fd >= 0) close(child.fd);
}

void hn_pool_reap(hn_pool *p) {
    int exit_status, kept = 0;
    for (int i = 0; i < p->lingering_count; i++)
        if (!hn_process_wait_for(&p->lingering[i], 0, &exit_status))
            p->lingering[kept++] = p->lingering[i];
    p->lingering_count = kept;
}

int hn_worker_end(hn_pool *p, int idx) {
    hn_worker *w = &p->workers[idx];
    int exit_status = 0;
    kill_worker(w, KILL_LIMIT_MS);
    reap_worker(p, w->child, &exit_status);
    close_socket(p, w);
    close(w->messages_fd);
    note_worker(p->core, idx, 0, -1);
    if (w->is_ready) note_ready(p->core, -1);
    if (w->job) hn_budget_give(p->core, w->token);
    ask_for_worker(p);
    remove_scratch(w);
    w->child = (hn_child){.fd = -1};
    w->must_end = false;
    w->job = NULL;
    w->out_at = 0;
    hn_strbuf_reset(&w->out);
    hn_strbuf_reset(&w->in);
    return exit_status;
}

/* The messages of the tools of a worker's job so far. */
static hn_strbuf messages_of(const hn_worker *w) {
    hn_strbuf text;
    hn_strbuf_init(&text);
    hn_status_free(hn_tool_read_errors(w->messages_fd, &text));
    return text;
}

void hn_pool_fail_job(hn_pool *p, hn_job *job, hn_status status) {
    hn_job_outcome outcome;
    hn_job_outcome_init(&outcome);
    outcome.service_ns = hn_now_ns() - job->started_ns;
    hn_job_outcome_fail(&outcome, status);
    hn_core_settle(p->core, job, &outcome);
    hn_job_outcome_deinit(&outcome);
}

/* Fails a job whose worker has ended. Takes the text and the status. */
static void fail_with_messages(hn_pool *p, hn_job *job, hn_strbuf *text, hn_status status) {
    hn_pool_fail_job(p, job, hn_job_failure(p->core, job, hn_strbuf_str(text), status));
    hn_strbuf_deinit(text);
}

/* No worker can be had: from now on jobs run in this process. */
void hn_pool_give_up(hn_pool *p, const char *why) {
    hn_core *core = p->core;
    hn_warn_once("service", "no-workers", "compiling without worker processes: %s", why);
    p->has_given_up = true;
    hn_lock(&core->lock);
    core->is_inline = true;
    pthread_cond_broadcast(&core->changed);
    hn_unlock(&core->lock);
}

static void describe_exit(int exit_status, char out[64]) {
    if (exit_status == HN_EXIT_UNKNOWN) snprintf(out, 64, "ended");
    else if (exit_status > 128) snprintf(out, 64, "was killed by signal %d", exit_status - 128);
    else snprintf(out, 64, "ended with exit status %d", exit_status);
}

/* A worker ended before its first message. */
static void note_failed_start(hn_pool *p, const char *how) {
    char why[PATH_MAX + 128];
    if (++p->failed_starts < FAILED_STARTS_MAX) return;
    snprintf(why, sizeof(why), "'%s' %s before it said anything", p->core->service->worker_path,
             how);
    hn_pool_give_up(p, why);
}

/* Its job started too many processes, and all of them are gone. Takes the text. */
static void fail_too_many_processes(hn_pool *p, hn_job *job, hn_strbuf *text) {
    hn_lock(&p->core->lock);
    p->core->stats.crashed++;
    p->core->stats.overgrown++;
    hn_unlock(&p->core->lock);
    fail_with_messages(p, job, text,
                       HN_ERROR(HN_TOOLCHAIN,
                                "the compiler started more than %u processes and was killed",
                                p->core->service->job_processes));
}

/* Queues a job again whose worker ended before it had read it, as one does that was killed while it
 * was idle. False: that has happened too often. */
static bool requeue(hn_pool *p, hn_job *job) {
    /* each worker may have been killed once */
    if (job->retries >= p->limit + FAILED_STARTS_MAX) return false;
    hn_log("service", HN_LOG_INFO,
           "kernel '%s': its worker ended before it read the job; another one gets it", job->name);
    hn_core_release_lease(p->core, job);
    hn_lock(&p->core->lock);
    job->retries++;
    job->worker = 0;
    hn_core_return(p->core, job, true);
    hn_unlock(&p->core->lock);
    ask_for_worker(p);
    return true;
}

void hn_worker_died(hn_pool *p, int idx) {
    hn_worker *w = &p->workers[idx];
    hn_job *job = w->job;
    pid_t pid = w->child.pid;
    bool is_ready = w->is_ready, has_unread_job = w->has_unread_job,
         has_too_many_processes = w->has_too_many_processes;
    char how[64];
    hn_strbuf text = messages_of(w);
    int exit_status = hn_worker_end(p, idx);
    if (job && has_too_many_processes) {
        fail_too_many_processes(p, job, &text);
        return;
    }
    describe_exit(exit_status, how);
    if (!is_ready) note_failed_start(p, how);
    /* an idle one: the next job starts another */
    if (!job || (has_unread_job && requeue(p, job))) {
        hn_strbuf_deinit(&text);
        return;
    }
    hn_lock(&p->core->lock);
    p->core->stats.crashed++;
    hn_unlock(&p->core->lock);
    fail_with_messages(p, job, &text,
                       HN_ERROR(HN_TOOLCHAIN, "the compile worker (process %d) %s", (int)pid, how));
}

void hn_worker_timed_out(hn_pool *p, int idx) {
    hn_job *job = p->workers[idx].job;
    hn_strbuf text = messages_of(&p->workers[idx]);
    hn_worker_end(p, idx);
    if (!job) {
        hn_strbuf_deinit(&text);
        note_failed_start(p, "was silent");
        return;
    }
    hn_lock(&p->core->lock);
    p->core->stats.timed_out++;
    hn_unlock(&p->core->lock);
    fail_with_messages(p, job, &text,
                       HN_ERROR(HN_TIMEOUT, "the compiler ran longer than %lld ms and was killed",
                                (long long)p->core->service->job_timeout_ms));
}

void hn_worker_abandon(hn_pool *p, int idx) {
    hn_job *job = p->workers[idx].job;
    hn_worker_end(p, idx);
    hn_pool_fail_job(p, job, HN_ERROR(HN_CANCELLED, "nobody waits for it any more"));
}

/* ---- talking to workers ---- */

/* False when the worker is gone: then it has not read the job, since there is more of it to
 * send. */
static bool send_some(hn_worker *w) {
    while (w->out_at < w->out.len) {
        ssize_t done = send(w->fd, w->out.ptr + w->out_at, w->out.len - w->out_at, MSG_NOSIGNAL);
        if (done < 0 && errno == EINTR) continue;
        if (done < 0 && errno == EAGAIN) return true;
        if (done <= 0) return false;
        w->out_at += (size_t)done;
    }
    hn_strbuf_reset(&w->out);
    w->out_at = 0;
    return true;
}

void hn_worker_flush(hn_pool *p, hn_worker *w) {
    if (!send_some(w)) w->must_end = w->has_unread_job = true;
    update_events(p, w);
}

bool hn_worker_send_job(hn_pool *p, hn_worker *w, hn_job *job) {
    hn_strbuf request;
    hn_strbuf_init(&request);
    hn_core_request(p->core, job, w->scratch_dir, slot_of(p, w), &request);
    hn_frame_write(&w->out, HN_FRAME_JOB, job->id, hn_strbuf_str(&request));
    w->out.failed |= request.failed;
    hn_strbuf_deinit(&request);
    if (w->out.failed) return false;
    hn_lock(&p->core->lock);
    job->worker = slot_of(p, w) + 1;
    if (!job->wanted) hn_core_cancel_running(p->core, job);
    hn_unlock(&p->core->lock);
    int64_t timeout_ms = p->core->service->job_timeout_ms;
    w->deadline_ns = timeout_ms > 0 ? hn_now_ns() + timeout_ms * 1000000 : 0;
    w->job = job;
    return true;
}

static void take_outcome(hn_pool *p, hn_worker *w, hn_str payload) {
    hn_job *job = w->job;
    hn_job_outcome outcome;
    hn_job_outcome_init(&outcome);
    hn_status status = hn_job_outcome_read(payload, &outcome);
    if (status) hn_job_outcome_fail(&outcome, status);
    w->job = NULL;
    w->deadline_ns = 0;
    w->idle_ns = hn_now_ns();
    w->needs_replacement = outcome.needs_replacement;
    hn_budget_give(p->core, w->token);
    hn_core_settle(p->core, job, &outcome);
    hn_job_outcome_deinit(&outcome);
}

/* Handles the whole frames that have come. False when the worker must end: it has sent nonsense, or
 * its job has too many processes. */
static bool take_frames(hn_pool *p, hn_worker *w) {
    for (;;) {
        bool whole;
        hn_frame_header header;
        hn_str payload;
        size_t used;
        hn_status status = hn_frame_read(hn_strbuf_str(&w->in), &whole, &header, &payload, &used);
        if (status) {
            hn_log("service", HN_LOG_WARN, "%s", hn_status_message(status));
            hn_status_free(status);
            return false;
        }
        if (!whole) return true;
        if (header.kind == HN_FRAME_HELLO && !w->is_ready) {
            w->is_ready = true;
            w->deadline_ns = 0;
            p->failed_starts = 0;
            note_ready(p->core, 1);
        } else if (header.kind == HN_FRAME_OUTCOME && w->job && header.job == w->job->id) {
            take_outcome(p, w, payload);
        } else {
            w->has_too_many_processes = header.kind == HN_FRAME_TOO_MANY_PROCESSES && w->job;
            return false;
        }
        memmove(w->in.ptr, w->in.ptr + used, w->in.len - used);
        w->in.len -= used;
    }
}

static bool read_some(hn_pool *p, hn_worker *w) {
    char bytes[READ_BYTES];
    for (;;) {
        ssize_t got = recv(w->fd, bytes, sizeof(bytes), 0);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0 && errno == EAGAIN) return true;
        /* Linux: the other end closed with bytes unread */
        if (got < 0 && errno == ECONNRESET) w->has_unread_job = true;
        if (got <= 0) return false;
        hn_strbuf_append(&w->in, bytes, (size_t)got);
        if (w->in.failed || !take_frames(p, w)) return false;
        if (got < (ssize_t)sizeof(bytes)) return true;
    }
}

void hn_worker_read(hn_pool *p, hn_worker *w) { w->must_end |= !read_some(p, w); }

/* ---- the end ---- */

/* Kills first and waits afterwards, so that many workers end together. */
void hn_pool_end_workers(hn_pool *p) {
    int64_t limit_ns = hn_now_ns() + STOP_LIMIT_MS * 1000000LL;
    for (int i = 0; i < p->count; i++) {
        int64_t left_ms = (limit_ns - hn_now_ns()) / 1000000;
        if (p->workers[i].child.pid)
            kill_worker(&p->workers[i], left_ms > 0 ? (int32_t)left_ms : 0);
    }
    limit_ns = hn_now_ns() + STOP_LIMIT_MS * 1000000LL;
    for (int i = 0, ignored; i < p->count; i++) {
        hn_worker *w = &p->workers[i];
        hn_job *job = w->job;
        if (w->child.pid) {
            close_socket(p, w);
            close(w->messages_fd);
            note_worker(p->core, i, 0, -1);
            if (w->is_ready) note_ready(p->core, -1);
            int64_t left_ns = limit_ns - hn_now_ns();
            if (!hn_process_wait_for(&w->child, left_ns > 0 ? left_ns / 1000000 : 0, &ignored) &&
                w->child.fd >= 0)
                close(w->child.fd);
            remove_scratch(w);
        }
        if (job) hn_budget_give(p->core, w->token);
        if (job) hn_pool_fail_job(p, job, HN_ERROR(HN_CANCELLED, "the compile service ended"));
        hn_strbuf_deinit(&w->out);
        hn_strbuf_deinit(&w->in);
    }
}
