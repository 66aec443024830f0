/* workers.h: the worker processes of a pool. Only for pool.c and workers.c.
 *
 * All functions here are called by the pool's thread, without the core's lock. That thread starts
 * the workers because the kernel sends a worker its signal when the thread that started it ends. */
#ifndef HN_SERVICE_WORKERS_H
#define HN_SERVICE_WORKERS_H

#include "base/process.h"
#include "service/core.h"

enum { HN_LINGERING_MAX = 64 };

typedef struct hn_worker {
    hn_child child; /* pid 0: none */
    int fd;
    hn_strbuf out, in;
    size_t out_at;
    hn_job *job;                 /* NULL: idle */
    int token;                   /* of the job: a core */
    int messages_fd;             /* a file in memory that gets what the tools print */
    int64_t deadline_ns;         /* of the job, or of the first message; 0: none */
    int64_t idle_ns;             /* since when there is nothing to do */
    bool is_ready;               /* has sent its first message */
    bool needs_replacement;      /* has grown */
    bool must_end;               /* has ended, sent nonsense, or has too many processes */
    bool has_unread_job;         /* has ended, and did not read all that it was sent */
    bool is_sending;             /* the set also tells when the socket takes more */
    bool has_too_many_processes; /* has reported that its job started too many */
    bool is_isolated;            /* what it started ends with it */
    char scratch_dir[PATH_MAX];  /* exists only while a job uses it */
} hn_worker;

struct hn_pool {
    hn_core *core;
    hn_worker workers[HN_WORKERS_MAX];
    int count;         /* slots in use; a slot is empty after its worker has ended */
    int limit;         /* workers at once: what was asked for, or what the system allows */
    int failed_starts; /* one after the other */
    bool has_given_up;
    bool is_quiescing;   /* there is no work, and somebody waits for the workers to end */
    bool waits_for_core; /* there are jobs and workers, but no core */
    bool has_removed_old_scratch;
    hn_child lingering[HN_LINGERING_MAX]; /* killed and not yet waited for */
    int lingering_count;
};

/* What the set reports besides the slots of workers. */
enum { HN_POOL_WAKE_EVENT = HN_WORKERS_MAX };

/* Starts a worker in the empty slot `idx`, at most p->count. */
hn_status hn_worker_start(hn_pool *p, int idx) HN_MUST_USE;
/* Kills the worker and its compilers; returns its exit status. If it has a job, that is the
 * caller's. */
int hn_worker_end(hn_pool *p, int idx);
/* A worker that must end; one that has exceeded its time, for its job or for its first message. The
 * job fails, unless the worker had not read it: then another one gets it. */
void hn_worker_died(hn_pool *p, int idx);
void hn_worker_timed_out(hn_pool *p, int idx);
/* Nobody wants the job any more: both end. */
void hn_worker_abandon(hn_pool *p, int idx);

/* Gives an idle worker a job, which hn_worker_flush sends. False without memory: the job is still
 * the caller's. */
bool hn_worker_send_job(hn_pool *p, hn_worker *w, hn_job *job);
/* Send what the socket takes; read what has come. Either may set `must_end`. */
void hn_worker_flush(hn_pool *p, hn_worker *w);
void hn_worker_read(hn_pool *p, hn_worker *w);

/* Ends a job badly. Takes `status`. */
void hn_pool_fail_job(hn_pool *p, hn_job *job, hn_status status);
/* No worker can be had: from now on jobs run in this process. */
void hn_pool_give_up(hn_pool *p, const char *why);
/* Waits, without sleeping, for killed workers that did not end at once. */
void hn_pool_reap(hn_pool *p);
/* Ends all workers, and fails their jobs: the service ends. */
void hn_pool_end_workers(hn_pool *p);

#endif
