/* pool.c: the thread that owns the worker processes.
 *
 * It starts workers when there are jobs for them, gives each one job at a time, reads the outcomes, kills
 * what takes too long and replaces what dies. All system calls on workers happen here, so nothing of a worker
 * needs a lock, and the signal that the kernel sends a worker when its parent *thread* ends comes at the
 * right time: a worker started from a thread of the host would die with that thread. */
#include "service/core.h"

#include "base/file.h"
#include "base/log.h"
#include "base/oserror.h"
#include "base/process.h"
#include "base/trace.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    READ_BYTES = 64 << 10,
    STOP_LIMIT_MS = 500, /* how long to wait for killed workers */
    ASSIGN_LIMIT_MS = 5, /* how long to look for work, which may mean asking a server, before looking at the workers */
    FALSE_STARTS = 3,    /* workers that die before a word, until the pool gives up */
};

typedef struct worker {
    pid_t pid; /* 0: none */
    int fd;
    hn_strbuf out, in;
    size_t out_at;
    hn_job *job; /* NULL: idle */
    int64_t deadline_ns;
    bool has_spoken, is_spent;
    char scratch_dir[PATH_MAX]; /* exists only while a job uses it */
} worker;

typedef struct pool {
    hn_core *core;
    worker workers[HN_WORKERS_MAX];
    int count; /* slots in use, some of them empty after a death */
    int limit; /* workers at once: what was asked for, or what the system allows */
    int false_starts;
    bool has_given_up;
} pool;

/* ---- starting and ending workers ---- */

static void note_worker(hn_core *core, int idx, pid_t pid, int fd) {
    pthread_mutex_lock(&core->lock);
    core->worker_pids[idx] = pid;
    core->worker_fds[idx] = fd;
    core->stats.workers_started += pid != 0;
    pthread_mutex_unlock(&core->lock);
}

static hn_status spawn_worker(const hn_service *service, int child_fd, pid_t *out_pid) {
    char parent[24];
    snprintf(parent, sizeof(parent), "%d", (int)getpid());
    const char *const argv[] = {service->worker_path, "--worker", parent, NULL};
    int stderr_fd = fcntl(2, F_GETFD) >= 0 ? 2 : -1; /* a daemon may have closed it */
    const hn_spawn spawn = {
        .argv = argv, .stdin_fd = child_fd, .stdout_fd = -1, .stderr_fd = stderr_fd, .new_group = true};
    return hn_process_spawn(&spawn, out_pid);
}

/* A name that nobody has: the worker makes the directory when it needs one, and fails if it exists. */
static void name_scratch(worker *w) {
    const char *temp = getenv("TMPDIR");
    uint64_t number = (uint64_t)hn_now_ns();
    if (getrandom(&number, sizeof(number), GRND_NONBLOCK) < 0) number ^= (uint64_t)w->pid << 32;
    int len = snprintf(w->scratch_dir, sizeof(w->scratch_dir), "%s/henry-worker-%016llx",
                       temp && temp[0] == '/' ? temp : "/tmp", (unsigned long long)number);
    if (len >= (int)sizeof(w->scratch_dir)) w->scratch_dir[0] = 0; /* then a job finds a place of its own */
}

/* What a killed worker left. */
static void remove_scratch(const worker *w) {
    hn_status status = w->scratch_dir[0] ? hn_dir_remove(w->scratch_dir) : NULL;
    if (status) hn_warn_once("service", "scratch", "%s", hn_status_message(status));
    hn_status_free(status);
}

static hn_status start_worker(pool *p, int idx) {
    worker *w = &p->workers[idx];
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        return HN_OS_ERROR(errno, "cannot make a socket for a compile worker");
    /* A worker that stops reading must not stop the pool. */
    hn_status status = NULL;
    if (fcntl(ends[0], F_SETFL, O_NONBLOCK) != 0) status = HN_OS_ERROR(errno, "cannot set up a socket");
    if (!status) status = spawn_worker(p->core->service, ends[1], &w->pid);
    close(ends[1]);
    if (status) {
        close(ends[0]);
        w->pid = 0;
        return status;
    }
    w->fd = ends[0];
    w->has_spoken = w->is_spent = false;
    name_scratch(w);
    note_worker(p->core, idx, w->pid, w->fd);
    return NULL;
}

/* Kills the worker and its compilers, and takes its exit status. */
static int end_worker(pool *p, int idx) {
    worker *w = &p->workers[idx];
    int exit_status = 0;
    hn_process_kill_group(w->pid); /* before it is waited for: the group id cannot be another's yet */
    close(w->fd);
    hn_status status = hn_process_wait(w->pid, &exit_status);
    hn_status_free(status); /* a host that waits for every child took it: the worker is gone all the same */
    note_worker(p->core, idx, 0, -1);
    remove_scratch(w);
    w->pid = 0;
    w->job = NULL;
    w->out_at = 0;
    hn_strbuf_reset(&w->out);
    hn_strbuf_reset(&w->in);
    return exit_status;
}

static void fail_job(pool *p, hn_job *job, hn_status status) {
    hn_job_outcome outcome;
    hn_job_outcome_init(&outcome);
    outcome.service_ns = hn_now_ns() - job->started_ns;
    hn_job_outcome_fail(&outcome, status);
    hn_core_finish(p->core, job, &outcome);
    hn_job_outcome_deinit(&outcome);
}

/* Puts a started job back, for another worker or for the threads that wait. */
static void requeue(pool *p, hn_job *job) {
    hn_core *core = p->core;
    hn_core_give_lease_back(core, job);
    pthread_mutex_lock(&core->lock);
    core->stats.dequeued--;
    hn_core_enqueue(core, job, true);
    hn_job_release(job);
    pthread_mutex_unlock(&core->lock);
}

/* No worker can be had: from now on jobs run in the threads that wait for them. */
static void give_up(pool *p, const char *why) {
    hn_core *core = p->core;
    hn_warn_once("service", "no-workers", "compiling without worker processes: %s", why);
    p->has_given_up = true;
    pthread_mutex_lock(&core->lock);
    core->is_inline = true;
    pthread_cond_broadcast(&core->changed);
    pthread_mutex_unlock(&core->lock);
}

static void describe_exit(int exit_status, char out[64]) {
    if (exit_status > 128)
        snprintf(out, 64, "was killed by signal %d", exit_status - 128);
    else
        snprintf(out, 64, "ended with exit status %d", exit_status);
}

static void worker_died(pool *p, int idx) {
    worker *w = &p->workers[idx];
    hn_job *job = w->job;
    pid_t pid = w->pid;
    bool has_spoken = w->has_spoken;
    char how[64];
    describe_exit(end_worker(p, idx), how);
    if (!has_spoken) {
        if (job) requeue(p, job);
        if (++p->false_starts >= FALSE_STARTS) {
            char why[PATH_MAX + 128];
            snprintf(why, sizeof(why), "'%s' %s before it said anything", p->core->service->worker_path, how);
            give_up(p, why);
        }
        return;
    }
    if (!job) return; /* an idle one: the next job starts another */
    pthread_mutex_lock(&p->core->lock);
    p->core->stats.crashed++;
    pthread_mutex_unlock(&p->core->lock);
    fail_job(p, job,
             HN_ERROR(HN_TOOLCHAIN,
                      "the compile worker (process %d) %s; to compile in this process, set "
                      "HENRY_COMPILE_THREADS=1",
                      (int)pid, how));
}

static void worker_late(pool *p, int idx) {
    hn_job *job = p->workers[idx].job;
    end_worker(p, idx);
    pthread_mutex_lock(&p->core->lock);
    p->core->stats.timed_out++;
    pthread_mutex_unlock(&p->core->lock);
    fail_job(p, job,
             HN_ERROR(HN_TIMEOUT, "the compiler ran longer than %lld ms and was killed",
                      (long long)p->core->service->job_timeout_ms));
}

/* ---- talking to workers ---- */

/* Sends what the socket takes. False when the worker is gone. */
static bool flush_worker(worker *w) {
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

static bool give_job(pool *p, worker *w, hn_job *job) {
    hn_strbuf request;
    hn_strbuf_init(&request);
    hn_core_request(p->core, job, w->scratch_dir, &request);
    hn_frame_write(&w->out, HN_FRAME_JOB, job->id, hn_strbuf_str(&request));
    w->out.failed |= request.failed;
    hn_strbuf_deinit(&request);
    if (w->out.failed) return false;
    int64_t timeout_ms = p->core->service->job_timeout_ms;
    w->deadline_ns = timeout_ms > 0 ? hn_now_ns() + timeout_ms * 1000000 : 0;
    w->job = job;
    return true;
}

static void take_outcome(pool *p, worker *w, hn_str payload) {
    hn_job *job = w->job;
    hn_job_outcome outcome;
    hn_job_outcome_init(&outcome);
    hn_status status = hn_job_outcome_read(payload, &outcome);
    if (status) hn_job_outcome_fail(&outcome, status);
    w->job = NULL;
    w->is_spent = outcome.is_spent;
    hn_core_finish(p->core, job, &outcome);
    hn_job_outcome_deinit(&outcome);
}

/* Deals with the whole frames that have come. False when the worker talks nonsense. */
static bool take_frames(pool *p, worker *w) {
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
        if (header.kind == HN_FRAME_HELLO) {
            w->has_spoken = true;
            p->false_starts = 0;
        } else if (header.kind == HN_FRAME_OUTCOME && w->job && header.job == w->job->id) {
            take_outcome(p, w, payload);
        } else {
            return false;
        }
        memmove(w->in.ptr, w->in.ptr + used, w->in.len - used);
        w->in.len -= used;
    }
}

/* Reads what has come. False when the worker is gone or must go. */
static bool read_worker(pool *p, worker *w) {
    char bytes[READ_BYTES];
    for (;;) {
        ssize_t got = recv(w->fd, bytes, sizeof(bytes), 0);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0 && errno == EAGAIN) return true;
        if (got <= 0) return false;
        hn_strbuf_append(&w->in, bytes, (size_t)got);
        if (w->in.failed || !take_frames(p, w)) return false;
    }
}

/* ---- the thread ---- */

/* A slot whose worker is idle, or an empty one; -1 when all are busy. */
static int find_slot(const pool *p) {
    int empty = -1, live = 0;
    for (int i = 0; i < p->count; i++) {
        if (p->workers[i].pid && !p->workers[i].job) return i;
        live += p->workers[i].pid != 0;
        if (!p->workers[i].pid && empty < 0) empty = i;
    }
    if (live >= p->limit) return -1;
    return empty >= 0 ? empty : p->count;
}

/* Out of processes, memory or descriptors: the workers that live go on, or there are none. Takes `status`. */
static void cannot_start(pool *p, hn_status status) {
    int live = 0;
    for (int i = 0; i < p->count; i++) live += p->workers[i].pid != 0;
    p->limit = live;
    if (live)
        hn_warn_once("service", "fewer-workers", "compiling with %d workers: %s", live,
                     hn_status_message(status));
    else
        give_up(p, hn_status_message(status));
    hn_status_free(status);
}

static void assign_one(pool *p, int idx, hn_job *job) {
    worker *w = &p->workers[idx];
    hn_status status = w->pid ? NULL : start_worker(p, idx);
    if (status) {
        requeue(p, job);
        cannot_start(p, status);
        return;
    }
    if (idx == p->count) p->count++;
    if (!give_job(p, w, job)) {
        w->out.failed = false;
        hn_strbuf_reset(&w->out);
        fail_job(p, job, HN_ERROR(HN_OUT_OF_MEMORY, "no memory to send a job to a compile worker"));
    } else if (!flush_worker(w)) {
        worker_died(p, idx);
    }
}

/* Without a free worker only parked jobs are looked at: their results may have come from elsewhere. */
static void assign_jobs(pool *p) {
    hn_core *core = p->core;
    int64_t until_ns = hn_now_ns() + ASSIGN_LIMIT_MS * 1000000LL;
    while (!p->has_given_up && hn_now_ns() < until_ns) {
        int idx = find_slot(p);
        pthread_mutex_lock(&core->lock);
        hn_job *job = core->is_stopping ? NULL : hn_core_start_next(core, idx < 0);
        pthread_mutex_unlock(&core->lock);
        if (!job) return;
        if (hn_core_elect(core, job, idx >= 0) == HN_ELECT_COMPILE) assign_one(p, idx, job);
    }
}

/* When the next look at the queue is due; 0: not before something happens. */
static int64_t next_look_ns(const pool *p) {
    bool has_slot = find_slot(p) >= 0;
    if (p->has_given_up) return 0;
    pthread_mutex_lock(&p->core->lock);
    int64_t due_ns = hn_core_next_due_ns(p->core);
    const hn_job *job = p->core->queue.first;
    while (job && job->due_ns) job = job->next;
    pthread_mutex_unlock(&p->core->lock);
    return job && has_slot ? 1 : due_ns; /* assign_jobs ran out of time */
}

static int sleep_ms(const pool *p) {
    int64_t first = next_look_ns(p);
    for (int i = 0; i < p->count; i++) {
        const worker *w = &p->workers[i];
        if (w->job && w->deadline_ns && (!first || w->deadline_ns < first)) first = w->deadline_ns;
    }
    if (!first) return -1;
    int64_t left = (first - hn_now_ns() + 999999) / 1000000;
    return left < 0 ? 0 : left > 1000000 ? 1000000 : (int)left;
}

static void wait_for_events(pool *p, struct pollfd *fds) {
    fds[0] = (struct pollfd){.fd = p->core->wake_fd, .events = POLLIN};
    for (int i = 0; i < p->count; i++) {
        const worker *w = &p->workers[i];
        short events = (short)(POLLIN | (w->out_at < w->out.len ? POLLOUT : 0));
        fds[i + 1] = (struct pollfd){.fd = w->pid ? w->fd : -1, .events = events};
    }
    if (poll(fds, (nfds_t)p->count + 1, sleep_ms(p)) <= 0)
        for (int i = 0; i <= p->count; i++) fds[i].revents = 0;
    uint64_t number;
    if (fds[0].revents && read(p->core->wake_fd, &number, sizeof(number)) < 0 && errno != EAGAIN)
        hn_log("service", HN_LOG_DEBUG, "cannot read the wake-up descriptor");
}

static void handle_events(pool *p, const struct pollfd *fds) {
    int count = p->count;
    for (int i = 0; i < count; i++) {
        worker *w = &p->workers[i];
        if (!w->pid) continue;
        bool alive = true;
        if (fds[i + 1].revents & POLLOUT) alive = flush_worker(w);
        if (alive && fds[i + 1].revents & (POLLIN | POLLHUP | POLLERR)) alive = read_worker(p, w);
        if (!alive)
            worker_died(p, i);
        else if (w->is_spent && !w->job)
            end_worker(p, i); /* the next job starts another */
        else if (w->job && w->deadline_ns && hn_now_ns() >= w->deadline_ns)
            worker_late(p, i);
    }
}

/* Kills first and waits afterwards, so that many workers end together. */
static void end_all(pool *p) {
    for (int i = 0; i < p->count; i++)
        if (p->workers[i].pid) hn_process_kill_group(p->workers[i].pid);
    int64_t limit_ns = hn_now_ns() + STOP_LIMIT_MS * 1000000LL;
    for (int i = 0; i < p->count; i++) {
        worker *w = &p->workers[i];
        hn_job *job = w->job;
        if (w->pid) {
            close(w->fd);
            note_worker(p->core, i, 0, -1);
            while (waitpid(w->pid, NULL, WNOHANG) == 0 && hn_now_ns() < limit_ns)
                nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
            remove_scratch(w);
        }
        if (job) fail_job(p, job, HN_ERROR(HN_CANCELLED, "the compile service ended"));
        hn_strbuf_deinit(&w->out);
        hn_strbuf_deinit(&w->in);
    }
}

static void *pool_main(void *argument) {
    pool *p = argument;
    hn_core *core = p->core;
    struct pollfd *fds = calloc(HN_WORKERS_MAX + 1, sizeof(*fds));
    if (!fds) give_up(p, "out of memory");
    for (bool is_stopping = false; fds && !is_stopping;) {
        assign_jobs(p);
        wait_for_events(p, fds);
        handle_events(p, fds);
        pthread_mutex_lock(&core->lock);
        is_stopping = core->is_stopping;
        pthread_mutex_unlock(&core->lock);
    }
    end_all(p);
    free(fds);
    free(p);
    return NULL;
}

/* The host's signals are not for this thread. */
static int start_thread(pool *p) {
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int rc = pthread_create(&p->core->pool_thread, NULL, pool_main, p);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return rc;
}

hn_status hn_pool_start(hn_core *core) {
    pool *p = calloc(1, sizeof(*p));
    if (!p) return HN_ERROR(HN_OUT_OF_MEMORY, "no memory for a pool of compile workers");
    p->core = core;
    p->limit = core->service->threads; /* at most HN_WORKERS_MAX */
    for (int i = 0; i < HN_WORKERS_MAX; i++) p->workers[i].fd = -1;
    core->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int err = core->wake_fd < 0 ? errno : start_thread(p);
    if (err) {
        free(p);
        return HN_OS_ERROR(err, "cannot start the thread of the compile service");
    }
    core->is_pool_running = true;
    core->stats.pools++;
    return NULL;
}

void hn_pool_wake(const hn_core *core) {
    const uint64_t one = 1;
    if (core->wake_fd >= 0 && write(core->wake_fd, &one, sizeof(one)) < 0 && errno != EAGAIN)
        hn_log("service", HN_LOG_DEBUG, "cannot wake the compile service");
}

void hn_pool_stop(hn_core *core) {
    pthread_mutex_lock(&core->lock);
    bool is_running = core->is_pool_running;
    core->is_stopping = true;
    pthread_mutex_unlock(&core->lock);
    if (!is_running) return;
    hn_pool_wake(core);
    pthread_join(core->pool_thread, NULL);
    core->is_pool_running = false;
}
