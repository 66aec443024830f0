/* pool.c: the thread that manages the worker processes, and which worker gets which job, and when.
 *
 * The thread starts workers when there are jobs for them, kills workers that take too long, and
 * replaces workers that end. It also sends them their jobs and reads the results, so no other
 * thread touches a worker. The kernel sends a worker its signal when the *thread* that started it
 * ends: a worker that a thread of the host had started would end with that thread. */
#include "service/workers.h"

#include "base/lock.h"
#include "base/log.h"
#include "base/oserror.h"
#include "base/process_tree.h"
#include "base/thread.h"
#include "base/trace.h"
#include "service/scratch.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum {
    /* for giving out jobs, which may ask a server, before the workers are read again */
    ASSIGN_LIMIT_MS = 5,
    CORE_POLL_MS = 20,    /* how often to look for a free core */
    SCRATCH_AGE_S = 3600, /* in addition to the time limit of a job */
    EVENTS = 64,          /* read at once */
    OVERSLEPT_MS = 1000,  /* a thread that wakes that late was stopped */
};

static bool is_idle(const hn_worker *w) {
    return w->child.pid && w->is_ready && !w->needs_replacement && !w->must_end && !w->job;
}

/* A slot whose worker waits for a job; -1: none. */
static int find_idle(const hn_pool *p) {
    for (int i = 0; i < p->count; i++)
        if (is_idle(&p->workers[i])) return i;
    return -1;
}

static int live_count(const hn_pool *p) {
    int live = 0;
    for (int i = 0; i < p->count; i++) live += p->workers[i].child.pid != 0;
    return live;
}

static int busy_count(const hn_pool *p) {
    int busy = 0;
    for (int i = 0; i < p->count; i++) busy += p->workers[i].job != NULL;
    return busy;
}

/* Out of processes, memory or descriptors: the pool continues with the workers that it has, or
 * gives up without any. Takes `status`. */
static void cannot_start(hn_pool *p, hn_status status) {
    int live = live_count(p);
    p->limit = live;
    if (live)
        hn_warn_once("service", "fewer-workers", "compiling with %d workers: %s", live,
                     hn_status_message(status));
    else hn_pool_give_up(p, hn_status_message(status));
    hn_status_free(status);
}

/* As many workers as were asked for, and one for each job that waits. */
static void start_workers(hn_pool *p) {
    hn_core *core = p->core;
    hn_lock(&core->lock);
    int wanted = core->workers_wanted, waiting = (int)core->queue.count + core->running_inline;
    core->workers_wanted = 0;
    bool is_stopping = core->is_stopping;
    hn_unlock(&core->lock);
    int busy = busy_count(p);
    if (wanted && waiting + busy > wanted) wanted = waiting + busy;
    if (wanted > p->limit) wanted = p->limit;
    for (int i = 0, live = live_count(p); !is_stopping && !p->has_given_up && live < wanted;
         live++) {
        while (i < p->count && p->workers[i].child.pid) i++;
        hn_status status = hn_worker_start(p, i);
        if (!status) continue;
        cannot_start(p, status);
        return;
    }
}

static void assign_one(hn_pool *p, int idx, int token, hn_job *job) {
    hn_worker *w = &p->workers[idx];
    w->token = token;
    if (!hn_worker_send_job(p, w, job)) {
        w->out.failed = false;
        hn_strbuf_reset(&w->out);
        hn_budget_give(p->core, token);
        hn_pool_fail_job(p, job,
                         HN_ERROR(HN_OUT_OF_MEMORY, "no memory to send a job to a compile worker"));
    } else {
        hn_worker_flush(p, w);
    }
}

/* With the lock held: whether a job waits that is not parked. */
static bool has_waiting(const hn_core *core) {
    const hn_job *job = core->queue.first;
    while (job && job->due_ns) job = job->next;
    return job != NULL;
}

/* A core for one more job. The first job of a service needs none: one that runs in this process is
 * the first, too. */
static bool take_core(hn_pool *p, int *out_token) {
    *out_token = hn_budget_take(p->core);
    if (*out_token != HN_BUDGET_NONE) return true;
    hn_lock(&p->core->lock);
    p->waits_for_core = p->core->running_inline > 0 || busy_count(p) > 0;
    hn_unlock(&p->core->lock);
    return !p->waits_for_core;
}

/* Gives waiting jobs to idle workers. Without a free worker or core only parked jobs are looked at:
 * their results may have come from elsewhere. */
static void assign(hn_pool *p) {
    hn_core *core = p->core;
    int64_t until_ns = hn_now_ns() + ASSIGN_LIMIT_MS * 1000000LL;
    p->waits_for_core = false;
    while (!p->has_given_up && hn_now_ns() < until_ns) {
        int idx = find_idle(p), token = HN_BUDGET_NONE;
        hn_lock(&core->lock);
        bool is_empty = !core->queue.count || core->is_stopping;
        hn_unlock(&core->lock);
        if (is_empty) return;
        if (idx >= 0 && !take_core(p, &token)) idx = -1;
        hn_lock(&core->lock);
        hn_job *job = core->is_stopping ? NULL : hn_core_start_next(core, idx < 0);
        hn_unlock(&core->lock);
        if (job && hn_core_claim(core, job, idx >= 0) == HN_CLAIM_COMPILE)
            assign_one(p, idx, token, job);
        else hn_budget_give(core, token);
        if (!job) return;
    }
}

static int64_t earlier(int64_t a_ns, int64_t b_ns) {
    return !a_ns || (b_ns && b_ns < a_ns) ? b_ns : a_ns;
}

/* When the next look at the queue is due; 0: not before something happens. */
static int64_t next_look_ns(const hn_pool *p) {
    hn_core *core = p->core;
    bool has_idle = find_idle(p) >= 0;
    hn_lock(&core->lock);
    int64_t due_ns = hn_core_next_due_ns(core);
    if (core->running || core->queue.count) due_ns = earlier(due_ns, core->slow_due_ns);
    bool is_waiting = has_waiting(core), is_urgent = core->unpublished || core->has_unwanted;
    hn_unlock(&core->lock);
    if (is_urgent) return 1;
    if (p->has_given_up) return 0;
    if (!is_waiting || !has_idle) return due_ns;
    /* 1: assign ran out of time */
    return p->waits_for_core ? earlier(due_ns, hn_now_ns() + CORE_POLL_MS * 1000000LL) : 1;
}

/* When an idle worker is to end; 0: never. */
static int64_t idle_end_ns(const hn_pool *p, const hn_worker *w) {
    int64_t idle_ms = p->core->service->idle_ms;
    if (p->is_quiescing) idle_ms = 0;
    return w->child.pid && w->is_ready && !w->job && idle_ms >= 0 ? w->idle_ns + idle_ms * 1000000
                                                                  : 0;
}

/* When the pool's thread has to wake without an event. Nothing wakes the thread of a service
 * without jobs and workers. */
static int64_t next_wake_ns(const hn_pool *p) {
    int64_t first = next_look_ns(p);
    for (int i = 0; i < p->count; i++) {
        const hn_worker *w = &p->workers[i];
        if (!w->child.pid) continue;
        if (w->must_end || (w->needs_replacement && !w->job)) first = 1;
        first = earlier(first, w->deadline_ns);
        first = earlier(first, idle_end_ns(p, w));
    }
    return first ? first : INT64_MAX;
}

static int ms_until(int64_t due_ns) {
    if (due_ns == INT64_MAX) return -1;
    int64_t left = (due_ns - hn_now_ns() + 999999) / 1000000;
    return left < 0 ? 0 : left > 1000000 ? 1000000 : (int)left;
}

/* Whether the worker has a job that nobody wants any more. */
static bool is_unwanted(const hn_pool *p, const hn_worker *w) {
    if (!w->job) return false;
    hn_lock(&p->core->lock);
    bool is_unwanted = !w->job->wanted;
    hn_unlock(&p->core->lock);
    return is_unwanted;
}

/* A result that was sent in time counts, even if this program was stopped and has not read it
 * yet. */
static bool is_late(hn_pool *p, hn_worker *w, int64_t now_ns) {
    if (!w->deadline_ns || now_ns < w->deadline_ns) return false;
    hn_worker_read(p, w);
    return !w->must_end && w->deadline_ns && now_ns >= w->deadline_ns;
}

/* Ends a worker that has to end, or whose time is over. */
static void check_worker(hn_pool *p, int idx) {
    hn_worker *w = &p->workers[idx];
    int64_t now_ns = hn_now_ns(), idle_ns = idle_end_ns(p, w);
    if (w->must_end) {
        hn_worker_died(p, idx);
    } else if (w->needs_replacement && !w->job) {
        hn_worker_end(p, idx); /* the next job starts another */
    } else if (is_unwanted(p, w)) {
        hn_worker_abandon(p, idx);
    } else if (is_late(p, w, now_ns)) {
        hn_worker_timed_out(p, idx);
    } else if (w->must_end) {
        hn_worker_died(p, idx);
    } else if (idle_ns && now_ns >= idle_ns) {
        hn_worker_end(p, idx);
        hn_lock(&p->core->lock);
        p->core->stats.workers_idled++;
        hn_unlock(&p->core->lock);
    }
}

static void handle_event(hn_pool *p, const struct epoll_event *event) {
    uint64_t number;
    if (event->data.u32 == HN_POOL_WAKE_EVENT) {
        if (read(p->core->pool_fds[HN_POOL_WAKE], &number, sizeof(number)) < 0 && errno != EAGAIN)
            hn_log("service", HN_LOG_DEBUG, "cannot read the wake-up descriptor");
        return;
    }
    hn_worker *w = &p->workers[event->data.u32];
    if (!w->child.pid) return;
    if (event->events & EPOLLOUT) hn_worker_flush(p, w);
    if (event->events & (EPOLLIN | EPOLLHUP | EPOLLERR)) hn_worker_read(p, w);
}

/* While the first worker comes up. */
static void remove_old_scratch(hn_pool *p) {
    if (p->has_removed_old_scratch || !p->count) return;
    p->has_removed_old_scratch = true;
    hn_scratch_sweep(SCRATCH_AGE_S + p->core->service->job_timeout_ms / 1000);
}

/* The time during which the program was stopped does not count: workers may have been stopped with
 * it. A wait that began at `begun_ns` was to end at `wakes_ns`, or at once if that had passed. */
static void extend_deadlines(hn_pool *p, int64_t begun_ns, int64_t wakes_ns) {
    int64_t due_ns = wakes_ns > begun_ns ? wakes_ns : begun_ns, late_ns = hn_now_ns() - due_ns;
    for (int i = 0; i < p->count && late_ns > OVERSLEPT_MS * 1000000LL; i++)
        if (p->workers[i].deadline_ns) p->workers[i].deadline_ns += late_ns;
}

/* Reads what other threads have asked for. */
static void read_requests(hn_pool *p) {
    hn_core *core = p->core;
    hn_lock(&core->lock);
    core->has_unwanted = false;
    p->is_quiescing = core->quiescing && !core->running && !core->queue.count;
    if (p->is_quiescing) core->workers_wanted = 0;
    hn_unlock(&core->lock);
}

/* Does all that is due, then waits for the next event. */
static void run_once(hn_pool *p) {
    struct epoll_event events[EVENTS];
    hn_pool_reap(p);
    start_workers(p);
    assign(p);
    remove_old_scratch(p);
    hn_core_publish(p->core);
    hn_core_report_slow(p->core);
    int64_t wakes_ns = next_wake_ns(p), begun_ns = hn_now_ns();
    int count = epoll_wait(p->core->pool_fds[HN_POOL_SET], events, EVENTS, ms_until(wakes_ns));
    if (wakes_ns != INT64_MAX) extend_deadlines(p, begun_ns, wakes_ns);
    read_requests(p);
    for (int i = 0; i < count; i++) handle_event(p, &events[i]);
    for (int i = 0; i < p->count; i++)
        if (p->workers[i].child.pid) check_worker(p, i);
}

static void *pool_main(void *argument) {
    hn_pool *p = argument;
    hn_core *core = p->core;
    hn_process_tree_watcher();
    for (bool is_stopping = false; !is_stopping;) {
        run_once(p);
        hn_lock(&core->lock);
        is_stopping = core->is_stopping;
        hn_unlock(&core->lock);
    }
    hn_pool_end_workers(p);
    hn_core_publish(core);
    return NULL;
}

/* ---- starting and ending ---- */

static bool open_fds(int *fds) {
    struct epoll_event event = {.events = EPOLLIN, .data.u32 = HN_POOL_WAKE_EVENT};
    fds[HN_POOL_SET] = epoll_create1(EPOLL_CLOEXEC);
    fds[HN_POOL_WAKE] = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return fds[HN_POOL_SET] >= 0 && fds[HN_POOL_WAKE] >= 0 &&
           epoll_ctl(fds[HN_POOL_SET], EPOLL_CTL_ADD, fds[HN_POOL_WAKE], &event) == 0;
}

/* Takes the pool, whose thread has ended or was never started. */
static void pool_free(hn_core *core, hn_pool *p) {
    for (int i = 0; i < HN_POOL_FDS; i++) {
        if (core->pool_fds[i] >= 0) close(core->pool_fds[i]);
        core->pool_fds[i] = -1;
    }
    free(p);
}

hn_status hn_pool_start(hn_core *core) {
    hn_pool *p = calloc(1, sizeof(*p));
    if (!p) return HN_ERROR(HN_OUT_OF_MEMORY, "no memory for a pool of compile workers");
    p->core = core;
    p->limit = core->service->threads; /* at most HN_WORKERS_MAX */
    for (int i = 0; i < HN_WORKERS_MAX; i++) p->workers[i].fd = -1;
    int err =
        open_fds(core->pool_fds) ? hn_thread_start(&core->pool_thread, NULL, pool_main, p) : errno;
    if (err) {
        pool_free(core, p);
        return HN_OS_ERROR(err, "cannot start the thread of the compile service");
    }
    core->pool = p;
    core->is_pool_running = true;
    core->stats.pools++;
    return NULL;
}

void hn_pool_wake(const hn_core *core) {
    const uint64_t one = 1;
    if (core->pool_fds[HN_POOL_WAKE] >= 0 &&
        write(core->pool_fds[HN_POOL_WAKE], &one, sizeof(one)) < 0 && errno != EAGAIN)
        hn_log("service", HN_LOG_DEBUG, "cannot wake the compile service");
}

void hn_pool_stop(hn_core *core) {
    hn_lock(&core->lock);
    bool is_running = core->is_pool_running;
    core->is_stopping = true;
    hn_unlock(&core->lock);
    if (!is_running) return;
    hn_pool_wake(core);
    pthread_join(core->pool_thread, NULL);
    /* a job that ends in a thread of this process may want to wake the pool */
    hn_lock(&core->lock);
    pool_free(core, core->pool);
    core->pool = NULL;
    core->is_pool_running = false;
    hn_unlock(&core->lock);
}
