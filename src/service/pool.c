/* pool.c: the thread that owns the worker processes.
 *
 * It starts workers when there are jobs for them, gives each one job at a time, reads the outcomes, kills
 * what takes too long and replaces what dies. All system calls on workers (crew.c) happen in it, so nothing of a worker
 * needs a lock, and the signal that the kernel sends a worker when its parent *thread* ends comes at the
 * right time: a worker started from a thread of the host would die with that thread. */
#include "service/crew.h"

#include "base/log.h"
#include "base/oserror.h"
#include "base/process_tree.h"
#include "base/trace.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum {
    ASSIGN_LIMIT_MS = 5, /* how long to look for work, which may mean asking a server, before looking at the workers */
    STARVED_MS = 20,     /* how often to look for a free core */
};

/* A slot whose worker waits for a job; -1: none. */
static int find_idle(const hn_pool *p) {
    for (int i = 0; i < p->count; i++)
        if (p->workers[i].pid && p->workers[i].has_spoken && !p->workers[i].is_spent && !p->workers[i].job) return i;
    return -1;
}

static int live_count(const hn_pool *p) {
    int live = 0;
    for (int i = 0; i < p->count; i++) live += p->workers[i].pid != 0;
    return live;
}

static int busy_count(const hn_pool *p) {
    int busy = 0;
    for (int i = 0; i < p->count; i++) busy += p->workers[i].job != NULL;
    return busy;
}

/* Out of processes, memory or descriptors: the workers that live go on, or there are none. Takes `status`. */
static void cannot_start(hn_pool *p, hn_status status) {
    int live = live_count(p);
    p->limit = live;
    if (live)
        hn_warn_once("service", "fewer-workers", "compiling with %d workers: %s", live,
                     hn_status_message(status));
    else
        hn_crew_give_up(p, hn_status_message(status));
    hn_status_free(status);
}

/* As many workers as were asked for, and one for each job that waits. */
static void start_workers(hn_pool *p) {
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
        hn_status status = hn_crew_start(p, i);
        if (!status) continue;
        cannot_start(p, status);
        return;
    }
}

static void assign_one(hn_pool *p, int idx, int token, hn_job *job) {
    hn_crew_worker *w = &p->workers[idx];
    w->token = token;
    if (!hn_crew_give(p, w, job)) {
        w->out.failed = false;
        hn_strbuf_reset(&w->out);
        hn_budget_give(p->core, token);
        hn_crew_fail_job(p, job, HN_ERROR(HN_OUT_OF_MEMORY, "no memory to send a job to a compile worker"));
    } else if (!hn_crew_flush(w)) {
        hn_crew_died(p, idx);
    }
}

/* With the lock held: whether a job waits that is not parked. */
static bool has_waiting(const hn_core *core) {
    const hn_job *job = core->queue.first;
    while (job && job->due_ns) job = job->next;
    return job != NULL;
}

/* A core for one more job. The first job of a service needs none. */
static bool take_core(hn_pool *p, int *out_token) {
    *out_token = hn_budget_take(p->core);
    p->is_starved = *out_token == HN_BUDGET_NONE && busy_count(p) > 0;
    return !p->is_starved;
}

/* Without a free worker or core only parked jobs are looked at: their results may have come from elsewhere. */
static void assign_jobs(hn_pool *p) {
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
static int64_t next_look_ns(const hn_pool *p) {
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
static int64_t idle_end_ns(const hn_pool *p, const hn_crew_worker *w) {
    int64_t idle_ms = p->core->service->idle_ms;
    return w->pid && w->has_spoken && !w->job && idle_ms >= 0 ? w->idle_ns + idle_ms * 1000000 : 0;
}

/* Nothing wakes the thread of a service without jobs and workers. */
static int sleep_ms(const hn_pool *p) {
    int64_t first = next_look_ns(p);
    for (int i = 0; i < p->count; i++) {
        const hn_crew_worker *w = &p->workers[i];
        if (!w->pid) continue;
        first = earlier(first, w->deadline_ns);
        first = earlier(first, idle_end_ns(p, w));
        if (w->job) first = earlier(first, w->watch_ns);
    }
    if (!first) return -1;
    int64_t left = (first - hn_now_ns() + 999999) / 1000000;
    return left < 0 ? 0 : left > 1000000 ? 1000000 : (int)left;
}

static void wait_for_events(hn_pool *p, struct pollfd *fds) {
    fds[0] = (struct pollfd){.fd = p->core->wake_fd, .events = POLLIN};
    for (int i = 0; i < p->count; i++) {
        const hn_crew_worker *w = &p->workers[i];
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
static void look_after(hn_pool *p, int idx) {
    hn_crew_worker *w = &p->workers[idx];
    int64_t now_ns = hn_now_ns(), idle_ns = idle_end_ns(p, w);
    if (w->is_spent && !w->job) {
        hn_crew_end(p, idx); /* the next job starts another */
    } else if (w->deadline_ns && now_ns >= w->deadline_ns) {
        hn_crew_late(p, idx);
    } else if (w->job && w->watch_ns && now_ns >= w->watch_ns) {
        hn_crew_watch(p, idx);
    } else if (idle_ns && now_ns >= idle_ns) {
        hn_crew_end(p, idx);
        pthread_mutex_lock(&p->core->lock);
        p->core->stats.workers_idled++;
        pthread_mutex_unlock(&p->core->lock);
    }
}

static void handle_events(hn_pool *p, const struct pollfd *fds) {
    int count = p->count;
    for (int i = 0; i < count; i++) {
        hn_crew_worker *w = &p->workers[i];
        if (!w->pid) continue;
        bool alive = true;
        if (fds[i + 1].revents & POLLOUT) alive = hn_crew_flush(w);
        if (alive && fds[i + 1].revents & (POLLIN | POLLHUP | POLLERR)) alive = hn_crew_read(p, w);
        if (alive)
            look_after(p, i);
        else
            hn_crew_died(p, i);
    }
}

static void *pool_main(void *argument) {
    hn_pool *p = argument;
    hn_core *core = p->core;
    struct pollfd *fds = calloc(HN_WORKERS_MAX + 1, sizeof(*fds));
    if (!fds) hn_crew_give_up(p, "out of memory");
    hn_process_tree_watcher();
    for (bool is_stopping = false; fds && !is_stopping;) {
        hn_crew_reap(p);
        assign_jobs(p);
        wait_for_events(p, fds);
        handle_events(p, fds);
        pthread_mutex_lock(&core->lock);
        is_stopping = core->is_stopping;
        pthread_mutex_unlock(&core->lock);
    }
    hn_crew_end_all(p);
    free(fds);
    free(p);
    return NULL;
}

/* The host's signals are not for this thread. */
static int start_thread(hn_pool *p) {
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int rc = pthread_create(&p->core->pool_thread, NULL, pool_main, p);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return rc;
}

hn_status hn_pool_start(hn_core *core) {
    hn_pool *p = calloc(1, sizeof(*p));
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
