/* core.h: the state of a service in one process. Not for other folders.
 *
 * Locks: `lock` of the core guards everything that is shared. Nobody who holds it waits for a disk,
 * a server, a compiler or code of the caller, or takes another lock of the service. Two locks may
 * be held when it is taken: that of an exit report (exit_report.c), and `probe_lock`, under which a
 * compiler is probed; nobody holds both. Workers need no lock: only the pool's thread touches them
 * (workers.h).
 *
 * A job is in exactly one of three states: queued, running (in a worker or in a thread of this
 * process), done. References to it are held by the table, by each future, by whoever runs it, and
 * until it is published. */
#ifndef HN_SERVICE_CORE_H
#define HN_SERVICE_CORE_H

#include "cache/cache.h"
#include "cache/store.h"
#include "henry/kernel.h"
#include "service/job.h"
#include "toolchain/tool.h"
#include "toolchain/toolchain.h"

#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

enum {
    HN_WORKERS_MAX = 256,
    HN_BUDGET_CORES = 1024,
    HN_WAIT_SAMPLES = 4096, /* the newest waits; percentiles are over these */
    HN_FAILURE_LIFETIME_S = 24 * 3600,
};
#define HN_MEMORY_LEVEL_BYTES ((size_t)64 << 20) /* of results that nobody holds */

typedef struct hn_core hn_core;
typedef struct hn_exit_report hn_exit_report;
typedef struct hn_inline_run hn_inline_run;
typedef struct hn_job_time hn_job_time;
typedef struct hn_pool hn_pool;

/* What the pool's thread sleeps on: the set (epoll) of worker sockets, and a descriptor in it that
 * wakes. */
typedef enum hn_pool_fd { HN_POOL_SET, HN_POOL_WAKE, HN_POOL_FDS } hn_pool_fd;

typedef enum hn_job_state { HN_JOB_QUEUED, HN_JOB_RUNNING, HN_JOB_DONE } hn_job_state;

typedef struct hn_job {
    hn_digest key;
    struct hn_job *hash_next;
    struct hn_job *prev, *next; /* in the queue, or among the done ones that the table keeps */
    hn_job_state state;
    uint32_t refs;   /* under the lock */
    uint32_t wanted; /* futures that were not cancelled */
    uint64_t id;
    bool is_in_table;
    hn_toolchain_reads reads;
    hn_strbuf headers; /* of a job done well: what it read; a change makes the result worthless */
    const hn_toolchain_row *row;
    char *name;           /* of the first kernel that asked, for traces */
    hn_strbuf key_record; /* empty once published */
    int64_t submitted_ns, started_ns;
    int worker;     /* the slot of the worker that has had it last, from 1 on; 0: none */
    int retries;    /* how often a worker ended before it had read this job */
    int cancel_fd;  /* while it runs in this process: ends it; 0: none */
    hn_lease lease; /* while it is compiled; of whoever runs it */
    int64_t due_ns; /* not 0: parked, another process compiles it; when to look again */
    int64_t park_ns, give_up_ns;
    hn_hit_level found; /* where another process's result was found; HN_HIT_NONE: compiled here */
    int64_t report_ns;  /* when it is to be reported as slow; 0: never */
    int64_t made_ns;    /* how long the compiler took; 0: unknown */
    int64_t expires_s;  /* of a remembered failure, Unix time; 0: never */
    hn_artifact *artifact; /* done well */
    hn_code code;          /* done badly */
    bool is_sure_to_fail;  /* again */
    char *message;
    struct hn_job *unpublished_next;
} hn_job;

/* A list with both ends. */
typedef struct hn_job_list {
    hn_job *first, *last;
    uint32_t count;
} hn_job_list;

struct hn_service {
    _Atomic(hn_core *) core;
    hn_store *store;
    char *remote_url; /* NULL: HENRY_REDIS_URL */
    char *cache_tag;  /* "": none */
    int32_t threads;
    char worker_path[PATH_MAX]; /* "": neither workers nor guards of jobs that run inline */
    int64_t job_timeout_ms;     /* 0: none */
    uint64_t job_memory_bytes;  /* 0: no limit */
    uint32_t job_processes;
    int64_t idle_ms; /* < 0: never */
    /* a job that takes longer is reported each time that this is over; 0: never */
    int64_t slow_job_ns;
    char *compile_times_path; /* NULL: none */
    int worker_log_fd;        /* -1: none */
    bool no_standby;
    hn_exit_report *exit_report; /* NULL: no memory for one */
};

struct hn_core {
    hn_service *service;
    pid_t pid; /* of the process that made it */
    pthread_mutex_t lock;
    pthread_cond_t changed; /* a job is done, a result is stored, or the mode changed */

    hn_job **buckets;
    uint32_t bucket_count, job_count;
    hn_job_list queue, done;
    uint32_t parked; /* of the queue */
    size_t done_bytes;
    uint64_t next_job_id;

    hn_cache cache; /* the levels below the table; its own for each process */

    pthread_mutex_t probe_lock;
    hn_toolchain toolchains[HN_TOOLCHAIN_ROWS];
    bool is_probed[HN_TOOLCHAIN_ROWS];

    hn_job *unpublished; /* done, and not yet on the disk or a server; the newest first */
    uint32_t storing;    /* these, and those that are being written */

    hn_tool_guard guard; /* of the tools of jobs that run inline; without a path: none */
    bool is_inline, is_stopping, is_pool_running;
    /* that have sent their first message; 0: jobs that are waited for without a limit run here */
    uint32_t workers_ready;
    uint32_t running;       /* jobs, wherever they run */
    int32_t running_inline; /* of these, in threads of this process */
    hn_inline_run *inline_runs;
    bool has_unwanted;  /* a worker may have a job that nobody wants any more */
    uint32_t quiescing; /* threads that wait in hn_service_quiesce */
    /* to be started as far as there are fewer; 0 when the pool thread has seen it */
    int32_t workers_wanted;
    int budget_fd; /* budget.c; -1: not opened yet; -2: none */
    bool has_core[HN_BUDGET_CORES];
    pthread_t pool_thread;
    hn_pool *pool; /* NULL: never started */
    /* -1: none. Here, and those of the workers, so that a forked child can close them */
    int pool_fds[HN_POOL_FDS];
    pid_t worker_pids[HN_WORKERS_MAX]; /* written by the pool thread under the lock; 0: none */
    int worker_fds[HN_WORKERS_MAX];    /* the same; -1: none */

    int64_t slow_due_ns; /* when a job may have to be reported as slow; 0: none */
    hn_job_time *times;  /* of all jobs, if they are asked for */
    uint32_t time_count, time_cap;

    hn_service_stats stats; /* counters only */
    int64_t waits[HN_WAIT_SAMPLES];
    uint64_t wait_count;
    int64_t record_bytes[HN_TOOLCHAIN_ROWS]; /* of the jobs that stats.service_time counts */
};

/* service.c: the core of this process; a fresh one after a fork. */
hn_status hn_core_current(hn_service *service, hn_core **out_core) HN_MUST_USE;

/* scope.c: checks a source, finds its toolchain and appends its key record. */
hn_status hn_core_build_record(hn_core *core, const hn_source *source,
                               const hn_toolchain **out_toolchain, hn_strbuf *out) HN_MUST_USE;

/* core.c */
hn_status hn_core_create(hn_service *service, hn_core **out_core) HN_MUST_USE;
/* The pool must have ended. */
void hn_core_destroy(hn_core *core);
/* The toolchain of a row, probed on first use. Owns: borrowed from the core. */
hn_status hn_core_toolchain(hn_core *core, const hn_toolchain_row *row,
                            const hn_toolchain **out) HN_MUST_USE;
void hn_core_stats(hn_core *core, hn_service_stats *out); /* takes the lock */

hn_job *hn_job_create(const hn_digest *key, const hn_toolchain_row *row, const char *name);
/* With the lock held, all of these. */
void hn_job_release(hn_job *job);
hn_job *hn_core_find(hn_core *core, const hn_digest *key);
hn_status hn_core_insert(hn_core *core, hn_job *job) HN_MUST_USE; /* takes a reference of its own */
void hn_core_forget(hn_core *core, hn_job *job);
void hn_core_enqueue(hn_core *core, hn_job *job, bool at_front);
void hn_core_dequeue(hn_core *core, hn_job *job);
/* A started job that nobody has compiled goes back to the queue; if it was cancelled meanwhile, it
 * ends. Takes the caller's reference. */
void hn_core_return(hn_core *core, hn_job *job, bool at_front);
/* Takes the job that is expected to take longest, of those not parked, or due again, and marks it
 * running, with a reference for the caller. NULL when there is none. `parked_only`: among those
 * that were parked. */
hn_job *hn_core_start_next(hn_core *core, bool parked_only);
void hn_core_start(hn_core *core, hn_job *job); /* the same for a given queued job */
void hn_core_keep_done(hn_core *core, hn_job *job);
void hn_core_drop_done(hn_core *core, hn_job *job); /* its result is no longer right */

/* With the lock held: a job took that long at the compiler. While it still has its key record. */
void hn_core_note_duration(hn_core *core, const hn_job *job, int64_t ns);

/* Without the lock. Ends a running job and wakes the waiters; they do not wait for the disk or a
 * server. Takes the caller's reference. True: there is something to publish, which is for the
 * caller to see to. */
bool hn_core_settle(hn_core *core, hn_job *job, hn_job_outcome *outcome);
/* Without the lock: stores what has been settled. */
void hn_core_publish(hn_core *core);
/* inline.c. With the lock held, which may be given up meanwhile: carries a queued job out in a
 * thread of this process. */
void hn_core_run_inline(hn_core *core, hn_job *job);
/* Without the lock: waits for these threads. */
void hn_core_end_inline(hn_core *core);
/* With the lock held: ends a running job, since nobody wants it any more. */
void hn_core_cancel_running(hn_core *core, hn_job *job);
/* With the lock held: a job does not run any more. */
void hn_core_note_end(hn_core *core);
/* Whether nothing runs, waits or is being stored, and no worker lives. Without workers a job that
 * waits does not count: nothing would start it. */
bool hn_core_is_at_rest(const hn_core *core);
/* The message for the worker in a slot, or (`worker` < 0) for this process, that may put temporary
 * files into `scratch_dir`. */
void hn_core_request(hn_core *core, const hn_job *job, const char *scratch_dir, int worker,
                     hn_strbuf *out);

/* scope.c. Without the lock: a finished job from the disk or the remote cache, for the caller; NULL
 * when there is none. `again`: it was looked for before. */
hn_job *hn_core_look_up(hn_core *core, const hn_digest *key, hn_toolchain_reads reads, bool again,
                        const hn_toolchain_row *row, const char *name);

/* lease_wait.c. With the lock held: when the next parked job is due; 0 when none is parked. */
int64_t hn_core_next_due_ns(const hn_core *core);
typedef enum hn_claim_answer {
    /* the caller compiles the job, perhaps with a lease, which hn_core_publish returns */
    HN_CLAIM_COMPILE,
    /* another process compiles it: the job is queued again. Takes the caller's reference. */
    HN_CLAIM_PARKED,
    /* another process has compiled it: the job is done. Takes the caller's reference. */
    HN_CLAIM_FOUND,
} hn_claim_answer;
/* Without the lock, on a started job. Without `may_compile` it only looks for a result. */
hn_claim_answer hn_core_claim(hn_core *core, hn_job *job, bool may_compile);
/* Of a started job that goes back to the queue. */
void hn_core_release_lease(hn_core *core, hn_job *job);

/* scope.c. With the lock held: wakes the pool, for as many workers at least. Starts it if there is
 * none, or notes that there can be none. */
void hn_core_need_workers(hn_core *core, int32_t count);

/* report.c. With the lock held: a job has been queued; one has been compiled in that time. */
void hn_core_expect_slow(hn_core *core, hn_job *job);
void hn_core_note_time(hn_core *core, const hn_job *job, int64_t ns);
void hn_core_forget_times(hn_core *core);
/* Without the lock: reports the jobs that take long, if it is time; writes the file of compile
 * times, if there is to be one. */
void hn_core_report_slow(hn_core *core);
void hn_core_write_times(hn_core *core);

/* failure.c: `status` and where the source of the job is kept and how to compile it alone;
 * `output`: what the tool had said. Takes `status`. */
hn_status hn_job_failure(const hn_core *core, const hn_job *job, hn_str output,
                         hn_status status) HN_MUST_USE;
/* Where the source goes if the job fails; "" without a cache directory. */
void hn_job_failed_path(const hn_core *core, const hn_job *job, char *out, size_t bytes);

/* pool.c: the thread that owns the workers. */
hn_status hn_pool_start(hn_core *core) HN_MUST_USE; /* with the lock held */
void hn_pool_wake(const hn_core *core);
void hn_pool_stop(hn_core *core); /* without the lock; returns when thread and workers are gone */

/* budget.c: the cores that all processes of a user compile on. */
enum { HN_BUDGET_NONE = -1, HN_BUDGET_FREE = -2 };
/* A core, to be given back; HN_BUDGET_NONE when others have all of them; HN_BUDGET_FREE when nobody
 * counts. Never waits. */
int hn_budget_take(hn_core *core);
void hn_budget_give(hn_core *core, int token); /* any of the three */

/* exit_report.c: tells the statistics of a service when the program ends without having ended
 * it. */
void hn_exit_report_begin(hn_service *service);
void hn_exit_report_end(hn_service *service);
void hn_core_report(hn_core *core); /* now, if there is something to tell and somebody listens */

/* artifact.c */
hn_artifact *hn_artifact_from_bytes(const hn_digest *key, const hn_toolchain_row *row,
                                    hn_strbuf *bytes); /* takes the bytes; NULL without memory */
/* Takes the memory of the entry, which lies under `entry_key`, and closes its descriptor. */
hn_artifact *hn_artifact_from_entry(const hn_store *store, const hn_digest *key,
                                    const hn_toolchain_row *row, const hn_digest *entry_key,
                                    hn_store_entry *entry);

/* naming.c: the error of a job that failed, for a future of this name. */
hn_status hn_core_failure(const hn_job *job, const char *name) HN_MUST_USE;

#endif
