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
#include "base/process_tree.h"
#include "base/trace.h"
#include "toolchain/tool.h"

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
    STOP_LIMIT_MS = 300, /* to kill all, and to wait for them */
    ASSIGN_LIMIT_MS = 5, /* how long to look for work, which may mean asking a server, before looking at the workers */
    FALSE_STARTS = 3,    /* workers that die before a word, until the pool gives up */
    HELLO_LIMIT_MS = 5000,
    HUNT_LIMIT_MS = 300, /* for what a worker leaves behind */
    WATCH_FIRST_MS = 3,  /* when the processes of a job are counted first, then after twice the time, ... */
    WATCH_MS = 50,       /* ... until every 50 ms: a fork bomb is easy to end while it is small */
    STARVED_MS = 20,     /* how often to look for a free core */
    OWN_PROCESSES = 8,   /* of a worker: tools that stand by */
};

typedef struct worker {
    pid_t pid; /* 0: none */
    int fd;
    hn_strbuf out, in;
    size_t out_at;
    hn_job *job; /* NULL: idle */
    int token;   /* of the job: a core */
    int messages_fd;     /* a file in memory that gets what the tools say */
    int64_t deadline_ns; /* of the job, or of the first word; 0: none */
    int64_t watch_ns;    /* when to count the processes of the job */
    int watch_ms;        /* the time until the next count */
    int64_t idle_ns;     /* since when there is nothing to do */
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
    bool is_starved; /* there are jobs and workers, but no core */
} pool;

/* ---- starting and ending workers ---- */

static void note_worker(hn_core *core, int idx, pid_t pid, int fd) {
    pthread_mutex_lock(&core->lock);
    core->worker_pids[idx] = pid;
    core->worker_fds[idx] = fd;
    core->stats.workers_started += pid != 0;
    pthread_mutex_unlock(&core->lock);
}

static void note_ready(hn_core *core, int change) {
    pthread_mutex_lock(&core->lock);
    core->workers_ready += (uint32_t)change;
    pthread_mutex_unlock(&core->lock);
}

static hn_status spawn_worker(const hn_service *service, int child_fd, int messages_fd, pid_t *out_pid) {
    char parent[24];
    snprintf(parent, sizeof(parent), "%d", (int)getpid());
    const char *const argv[] = {service->worker_path, "--worker", parent, NULL};
    int stderr_fd = fcntl(2, F_GETFD) >= 0 ? 2 : -1; /* a daemon may have closed it */
    const hn_spawn spawn = {
        .argv = argv, .stdin_fd = child_fd, .stdout_fd = messages_fd, .stderr_fd = stderr_fd, .new_group = true};
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
    w->messages_fd = -1;
    if (!status) status = hn_tool_memory_file("henry-messages", &w->messages_fd);
    if (!status) status = spawn_worker(p->core->service, ends[1], w->messages_fd, &w->pid);
    close(ends[1]);
    if (status) {
        close(ends[0]);
        if (w->messages_fd >= 0) close(w->messages_fd);
        w->pid = 0;
        return status;
    }
    w->fd = ends[0];
    w->has_spoken = w->is_spent = false;
    w->deadline_ns = hn_now_ns() + HELLO_LIMIT_MS * 1000000LL;
    w->idle_ns = hn_now_ns();
    if (idx == p->count) p->count++;
    name_scratch(w);
    note_worker(p->core, idx, w->pid, w->fd);
    return NULL;
}

/* A worker has ended: another one, if there is work. */
static void note_wanted(pool *p) {
    hn_core *core = p->core;
    pthread_mutex_lock(&core->lock);
    if (core->queue.count && !core->workers_wanted) core->workers_wanted = 1;
    pthread_mutex_unlock(&core->lock);
}

static bool has_ended(pid_t pid) {
    siginfo_t info = {0};
    return waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == pid;
}

/* The processes of a job first, below a worker that is still there to tell them. The whole group is stopped before, at
 * one stroke: a process with a signal to take starts no other, so that a fork bomb is frozen. A worker that is dying or dead
 * tells nothing: what it left is known by the directory that it was given. */
static void kill_worker(const worker *w, int32_t limit_ms) {
    char variable[PATH_MAX + 16];
    if (w->job && !has_ended(w->pid)) {
        kill(-w->pid, SIGSTOP);
        hn_process_tree_kill(w->pid, NULL, 0, limit_ms);
    }
    hn_process_kill_group(w->pid); /* before it is waited for: the group id cannot be another's yet */
    if (!w->job || !w->scratch_dir[0] || access(w->scratch_dir, F_OK) != 0) return;
    snprintf(variable, sizeof(variable), "TMPDIR=%s", w->scratch_dir);
    hn_process_kill_marked(variable);
}

/* Kills the worker and its compilers, and takes its exit status. */
static int end_worker(pool *p, int idx) {
    worker *w = &p->workers[idx];
    int exit_status = 0;
    kill_worker(w, HUNT_LIMIT_MS);
    close(w->fd);
    close(w->messages_fd);
    hn_status status = hn_process_wait(w->pid, &exit_status);
    hn_status_free(status); /* a host that waits for every child took it: the worker is gone all the same */
    note_worker(p->core, idx, 0, -1);
    if (w->has_spoken) note_ready(p->core, -1);
    if (w->job) hn_budget_give(p->core, w->token);
    note_wanted(p);
    remove_scratch(w);
    w->pid = 0;
    w->job = NULL;
    w->out_at = 0;
    hn_strbuf_reset(&w->out);
    hn_strbuf_reset(&w->in);
    return exit_status;
}

/* What the tools of a worker's job have said so far. */
static hn_strbuf messages_of(const worker *w) {
    hn_strbuf text;
    hn_strbuf_init(&text);
    hn_status_free(hn_tool_read_errors(w->messages_fd, &text));
    return text;
}

static void fail_job(pool *p, hn_job *job, hn_status status) {
    hn_job_outcome outcome;
    hn_job_outcome_init(&outcome);
    outcome.service_ns = hn_now_ns() - job->started_ns;
    hn_job_outcome_fail(&outcome, status);
    hn_core_finish(p->core, job, &outcome);
    hn_job_outcome_deinit(&outcome);
}

/* Fails a job whose worker has ended. Takes the text and the status. */
static void fail_with_messages(pool *p, hn_job *job, hn_strbuf *text, hn_status status) {
    fail_job(p, job, hn_job_failure(p->core, job, hn_strbuf_str(text), status));
    hn_strbuf_deinit(text);
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

/* One that did not come up. */
static void false_start(pool *p, const char *how) {
    char why[PATH_MAX + 128];
    if (++p->false_starts < FALSE_STARTS) return;
    snprintf(why, sizeof(why), "'%s' %s before it said anything", p->core->service->worker_path, how);
    give_up(p, why);
}

static void worker_died(pool *p, int idx) {
    worker *w = &p->workers[idx];
    hn_job *job = w->job;
    pid_t pid = w->pid;
    bool has_spoken = w->has_spoken;
    char how[64];
    hn_strbuf text = messages_of(w);
    describe_exit(end_worker(p, idx), how);
    if (!has_spoken) false_start(p, how);
    if (!job) { /* an idle one: the next job starts another */
        hn_strbuf_deinit(&text);
        return;
    }
    pthread_mutex_lock(&p->core->lock);
    p->core->stats.crashed++;
    pthread_mutex_unlock(&p->core->lock);
    fail_with_messages(p, job, &text, HN_ERROR(HN_TOOLCHAIN, "the compile worker (process %d) %s", (int)pid, how));
}

/* Its time is over, for its job or for its first word. */
static void worker_late(pool *p, int idx) {
    hn_job *job = p->workers[idx].job;
    hn_strbuf text = messages_of(&p->workers[idx]);
    end_worker(p, idx);
    if (!job) {
        hn_strbuf_deinit(&text);
        false_start(p, "was silent");
        return;
    }
    pthread_mutex_lock(&p->core->lock);
    p->core->stats.timed_out++;
    pthread_mutex_unlock(&p->core->lock);
    fail_with_messages(p, job, &text,
                       HN_ERROR(HN_TIMEOUT, "the compiler ran longer than %lld ms and was killed",
                                (long long)p->core->service->job_timeout_ms));
}

/* Counts the processes of a job. A limit of the system would count all processes of the user, and none of root's. */
static void watch_worker(pool *p, int idx) {
    worker *w = &p->workers[idx];
    hn_job *job = w->job;
    uint32_t limit = p->core->service->job_processes;
    w->watch_ms = w->watch_ms * 2 < WATCH_MS ? w->watch_ms * 2 : WATCH_MS;
    w->watch_ns = hn_now_ns() + w->watch_ms * 1000000LL;
    if (hn_process_tree_count(w->pid, limit + OWN_PROCESSES + 1) <= limit + OWN_PROCESSES) return;
    hn_strbuf text = messages_of(w);
    end_worker(p, idx);
    pthread_mutex_lock(&p->core->lock);
    p->core->stats.crashed++;
    p->core->stats.overgrown++;
    pthread_mutex_unlock(&p->core->lock);
    fail_with_messages(p, job, &text,
                       HN_ERROR(HN_TOOLCHAIN, "the compiler started more than %u processes and was killed", limit));
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
    w->watch_ms = WATCH_FIRST_MS;
    w->watch_ns = hn_now_ns() + w->watch_ms * 1000000LL;
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
    w->deadline_ns = 0;
    w->idle_ns = hn_now_ns();
    w->is_spent = outcome.is_spent;
    hn_budget_give(p->core, w->token);
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
        if (header.kind == HN_FRAME_HELLO && !w->has_spoken) {
            w->has_spoken = true;
            w->deadline_ns = 0;
            p->false_starts = 0;
            note_ready(p->core, 1);
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

/* A slot whose worker waits for a job; -1: none. */
static int find_idle(const pool *p) {
    for (int i = 0; i < p->count; i++)
        if (p->workers[i].pid && p->workers[i].has_spoken && !p->workers[i].is_spent && !p->workers[i].job) return i;
    return -1;
}

static int live_count(const pool *p) {
    int live = 0;
    for (int i = 0; i < p->count; i++) live += p->workers[i].pid != 0;
    return live;
}

static int busy_count(const pool *p) {
    int busy = 0;
    for (int i = 0; i < p->count; i++) busy += p->workers[i].job != NULL;
    return busy;
}

/* Out of processes, memory or descriptors: the workers that live go on, or there are none. Takes `status`. */
static void cannot_start(pool *p, hn_status status) {
    int live = live_count(p);
    p->limit = live;
    if (live)
        hn_warn_once("service", "fewer-workers", "compiling with %d workers: %s", live,
                     hn_status_message(status));
    else
        give_up(p, hn_status_message(status));
    hn_status_free(status);
}

/* As many workers as were asked for, and one for each job that waits. */
static void start_workers(pool *p) {
    hn_core *core = p->core;
    pthread_mutex_lock(&core->lock);
    int wanted = core->workers_wanted, waiting = (int)core->queue.count + core->running_inline;
    core->workers_wanted = 0;
    bool is_stopping = core->is_stopping;
    pthread_mutex_unlock(&core->lock);
    int busy = busy_count(p);
    if (wanted && waiting + busy > wanted) wanted = waiting + busy;
    if (wanted > p->limit) wanted = p->limit;
    for (int i = 0, live = live_count(p); !is_stopping && !p->has_given_up && live < wanted; live++) {
        while (i < p->count && p->workers[i].pid) i++;
        hn_status status = start_worker(p, i);
        if (!status) continue;
        cannot_start(p, status);
        return;
    }
}

static void assign_one(pool *p, int idx, int token, hn_job *job) {
    worker *w = &p->workers[idx];
    w->token = token;
    if (!give_job(p, w, job)) {
        w->out.failed = false;
        hn_strbuf_reset(&w->out);
        hn_budget_give(p->core, token);
        fail_job(p, job, HN_ERROR(HN_OUT_OF_MEMORY, "no memory to send a job to a compile worker"));
    } else if (!flush_worker(w)) {
        worker_died(p, idx);
    }
}

/* With the lock held: whether a job waits that is not parked. */
static bool has_waiting(const hn_core *core) {
    const hn_job *job = core->queue.first;
    while (job && job->due_ns) job = job->next;
    return job != NULL;
}

/* A core for one more job. The first job of a service needs none. */
static bool take_core(pool *p, int *out_token) {
    *out_token = hn_budget_take(p->core);
    p->is_starved = *out_token == HN_BUDGET_NONE && busy_count(p) > 0;
    return !p->is_starved;
}

/* Without a free worker or core only parked jobs are looked at: their results may have come from elsewhere. */
static void assign_jobs(pool *p) {
    hn_core *core = p->core;
    int64_t until_ns = hn_now_ns() + ASSIGN_LIMIT_MS * 1000000LL;
    p->is_starved = false;
    start_workers(p);
    while (!p->has_given_up && hn_now_ns() < until_ns) {
        int idx = find_idle(p), token = HN_BUDGET_NONE;
        pthread_mutex_lock(&core->lock);
        bool is_empty = !core->queue.count || core->is_stopping;
        pthread_mutex_unlock(&core->lock);
        if (is_empty) return;
        if (idx >= 0 && !take_core(p, &token)) idx = -1;
        pthread_mutex_lock(&core->lock);
        hn_job *job = core->is_stopping ? NULL : hn_core_start_next(core, idx < 0);
        pthread_mutex_unlock(&core->lock);
        if (job && hn_core_elect(core, job, idx >= 0) == HN_ELECT_COMPILE)
            assign_one(p, idx, token, job);
        else
            hn_budget_give(core, token);
        if (!job) return;
    }
}

static int64_t earlier(int64_t a_ns, int64_t b_ns) { return !a_ns || (b_ns && b_ns < a_ns) ? b_ns : a_ns; }

/* When the next look at the queue is due; 0: not before something happens. */
static int64_t next_look_ns(const pool *p) {
    bool has_idle = find_idle(p) >= 0;
    if (p->has_given_up) return 0;
    pthread_mutex_lock(&p->core->lock);
    int64_t due_ns = hn_core_next_due_ns(p->core);
    bool is_waiting = has_waiting(p->core);
    pthread_mutex_unlock(&p->core->lock);
    if (!is_waiting || !has_idle) return due_ns;
    return p->is_starved ? earlier(due_ns, hn_now_ns() + STARVED_MS * 1000000LL) : 1; /* 1: assign_jobs ran out of time */
}

/* When an idle worker is to end; 0: never. */
static int64_t idle_end_ns(const pool *p, const worker *w) {
    int64_t idle_ms = p->core->service->idle_ms;
    return w->pid && w->has_spoken && !w->job && idle_ms >= 0 ? w->idle_ns + idle_ms * 1000000 : 0;
}

/* Nothing wakes the thread of a service without jobs and workers. */
static int sleep_ms(const pool *p) {
    int64_t first = next_look_ns(p);
    for (int i = 0; i < p->count; i++) {
        const worker *w = &p->workers[i];
        if (!w->pid) continue;
        first = earlier(first, w->deadline_ns);
        first = earlier(first, idle_end_ns(p, w));
        if (w->job) first = earlier(first, w->watch_ns);
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

/* What time alone brings about. */
static void look_after(pool *p, int idx) {
    worker *w = &p->workers[idx];
    int64_t now_ns = hn_now_ns(), idle_ns = idle_end_ns(p, w);
    if (w->is_spent && !w->job) {
        end_worker(p, idx); /* the next job starts another */
    } else if (w->deadline_ns && now_ns >= w->deadline_ns) {
        worker_late(p, idx);
    } else if (w->job && now_ns >= w->watch_ns) {
        watch_worker(p, idx);
    } else if (idle_ns && now_ns >= idle_ns) {
        end_worker(p, idx);
        pthread_mutex_lock(&p->core->lock);
        p->core->stats.workers_idled++;
        pthread_mutex_unlock(&p->core->lock);
    }
}

static void handle_events(pool *p, const struct pollfd *fds) {
    int count = p->count;
    for (int i = 0; i < count; i++) {
        worker *w = &p->workers[i];
        if (!w->pid) continue;
        bool alive = true;
        if (fds[i + 1].revents & POLLOUT) alive = flush_worker(w);
        if (alive && fds[i + 1].revents & (POLLIN | POLLHUP | POLLERR)) alive = read_worker(p, w);
        if (alive)
            look_after(p, i);
        else
            worker_died(p, i);
    }
}

/* Kills first and waits afterwards, so that many workers end together. */
static void end_all(pool *p) {
    int64_t limit_ns = hn_now_ns() + STOP_LIMIT_MS * 1000000LL;
    for (int i = 0; i < p->count; i++) {
        int64_t left_ms = (limit_ns - hn_now_ns()) / 1000000;
        if (p->workers[i].pid) kill_worker(&p->workers[i], left_ms > 0 ? (int32_t)left_ms : 0);
    }
    limit_ns = hn_now_ns() + STOP_LIMIT_MS * 1000000LL;
    for (int i = 0; i < p->count; i++) {
        worker *w = &p->workers[i];
        hn_job *job = w->job;
        if (w->pid) {
            close(w->fd);
            close(w->messages_fd);
            note_worker(p->core, i, 0, -1);
            if (w->has_spoken) note_ready(p->core, -1);
            while (waitpid(w->pid, NULL, WNOHANG) == 0 && hn_now_ns() < limit_ns)
                nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
            remove_scratch(w);
        }
        if (job) hn_budget_give(p->core, w->token);
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
