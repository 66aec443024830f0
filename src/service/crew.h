/* crew.h: the worker processes of a pool. Only for pool.c and crew.c.
 *
 * All functions here are for the pool's thread, without the lock of the core. It starts the workers since the kernel tells a
 * worker when the thread that started it ends. */
#ifndef HN_SERVICE_CREW_H
#define HN_SERVICE_CREW_H

#include "base/process.h"
#include "service/core.h"

enum { HN_CREW_LINGERING = 64 };

typedef struct hn_crew_worker {
    hn_child child; /* pid 0: none */
    int fd;
    hn_strbuf out, in;
    size_t out_at;
    hn_job *job; /* NULL: idle */
    int token;   /* of the job: a core */
    int messages_fd;     /* a file in memory that gets what the tools say */
    int64_t deadline_ns; /* of the job, or of the first word; 0: none */
    int64_t idle_ns;     /* since when there is nothing to do */
    bool has_spoken, is_spent;
    bool is_lost;   /* gone, talks nonsense, or has too many processes: it is to be ended */
    bool is_unread; /* it is gone, and did not read all that it was sent */
    bool is_sending; /* the pool's thread is told when the socket takes more */
    bool is_overgrown; /* it has said that its job started too many processes */
    bool is_isolated; /* what it started ends with it */
    char scratch_dir[PATH_MAX]; /* exists only while a job uses it */
} hn_crew_worker;

struct hn_pool {
    hn_core *core;
    hn_crew_worker workers[HN_WORKERS_MAX];
    int count; /* slots in use, some of them empty after a death */
    int limit; /* workers at once: what was asked for, or what the system allows */
    int false_starts;
    bool has_given_up;
    bool is_quiescing; /* there is no work, and somebody waits for the workers to end */
    bool is_starved; /* there are jobs and workers, but no core */
    bool has_swept;  /* what killed programs left behind */
    hn_child lingering[HN_CREW_LINGERING]; /* killed and not yet waited for */
    int lingering_count;
};

/* What the set tells besides the slots of workers. */
enum { HN_CREW_WAKE = HN_WORKERS_MAX };

/* In the empty slot `idx`, at most p->count. */
hn_status hn_crew_start(hn_pool *p, int idx) HN_MUST_USE;
/* Kills the worker and its compilers, and takes its exit status. Its job, if it has one, is the caller's. */
int hn_crew_end(hn_pool *p, int idx);
/* It is lost; or its time is over, for its job or for its first word. Its job fails. */
void hn_crew_died(hn_pool *p, int idx);
void hn_crew_late(hn_pool *p, int idx);
/* Nobody wants its job any more: it is killed with it. */
void hn_crew_abandon(hn_pool *p, int idx);

/* Puts a job into what is to be sent. False without memory: the job is still the caller's. */
bool hn_crew_give(hn_pool *p, hn_crew_worker *w, hn_job *job);
/* Sends what the socket takes, and reads what has come. The worker may be lost then. */
void hn_crew_flush(hn_pool *p, hn_crew_worker *w);
void hn_crew_read(hn_pool *p, hn_crew_worker *w);

/* Ends a job badly. Takes `status`. */
void hn_crew_fail_job(hn_pool *p, hn_job *job, hn_status status);
/* No worker can be had: from now on jobs run in this process. */
void hn_crew_give_up(hn_pool *p, const char *why);
/* Waits, without sleeping, for killed workers that did not end at once. */
void hn_crew_reap(hn_pool *p);
/* Ends all workers, and fails their jobs: the service ends. */
void hn_crew_end_all(hn_pool *p);

#endif
