/* drive.c: a thread that waits for a job reads the outcome from the worker's socket itself.
 *
 * Otherwise the pool's thread would have to wake up to read it and then to wake the one that waits. One thread at a
 * time may: it takes the socket out of what the pool's thread sleeps on, into a set of its own, and puts it back. Whatever
 * else may happen to the worker stays with the pool's thread, which is told of its end in any case. With a remote cache nobody does
 * so: that thread may ask a server with the pool's lock held, and who waits with a limit would wait for the server. */
#include "service/crew.h"

#include "base/lock.h"
#include "base/log.h"
#include "base/trace.h"

#include <errno.h>
#include <sys/epoll.h>
#include <unistd.h>

void hn_pool_drive_wake(const hn_core *core, const hn_job *job) {
    const uint64_t one = 1;
    if (job->is_driven && write(core->pool_fds[HN_POOL_DRIVE_WAKE], &one, sizeof(one)) < 0 && errno != EAGAIN)
        hn_log("service", HN_LOG_DEBUG, "cannot wake a thread that waits for a compile worker");
}

/* False: `until_ns` is over. */
static bool sleep_on(const hn_core *core, int64_t until_ns) {
    struct epoll_event events[2];
    uint64_t number;
    int ms = -1;
    if (until_ns) {
        int64_t left_ms = (until_ns - hn_now_ns() + 999999) / 1000000;
        ms = left_ms < 0 ? 0 : left_ms > 1000000 ? 1000000 : (int)left_ms;
    }
    int count = epoll_wait(core->pool_fds[HN_POOL_DRIVE_SET], events, 2, ms);
    for (int i = 0; i < count; i++)
        if (events[i].data.u32 == HN_CREW_WAKE && read(core->pool_fds[HN_POOL_DRIVE_WAKE], &number, sizeof(number)) < 0)
            hn_log("service", HN_LOG_DEBUG, "cannot read the wake-up descriptor");
    return count != 0 || !until_ns || hn_now_ns() < until_ns;
}

/* Without a lock. One sleep: what woke it may have been something else than the end of the job. */
static bool drive(hn_pool *p, hn_job *job, hn_crew_worker *w, int64_t until_ns) {
    bool in_time = sleep_on(p->core, until_ns);
    hn_lock(&p->lock);
    if (w->job == job && !w->is_lost) hn_crew_read(p, w);
    hn_crew_drive_end(p, w);
    if (w->job != job) hn_pool_assign(p);
    hn_pool_leave(p);
    return in_time;
}

bool hn_pool_drive(hn_core *core, hn_job *job, int64_t until_ns, bool *out_late) {
    hn_pool *p = core->pool;
    if (core->cache.remote || core->has_driver || job->state != HN_JOB_RUNNING || !job->worker) return false;
    hn_crew_worker *w = &p->workers[job->worker - 1];
    core->has_driver = job->is_driven = true;
    hn_unlock(&core->lock);
    hn_lock(&p->lock);
    bool ok = w->job == job && !w->is_lost && hn_crew_drive(p, w);
    hn_unlock(&p->lock);
    *out_late = ok && !drive(p, job, w, until_ns);
    hn_lock(&core->lock);
    core->has_driver = job->is_driven = false;
    return ok;
}
