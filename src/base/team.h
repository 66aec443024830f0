/* team.h: work that several threads share.
 *
 * hn_team_run calls a function for each task from 0 to n - 1. The calling thread takes part from
 * the start; workers of the process (henry/threads.h) take tasks when they are free. No task may
 * wait for another: all of them may run one after another on the caller. Work in several phases is
 * several calls: when one returns, all that its tasks wrote can be read.
 *
 *     typedef struct job { ... } job;
 *     static void run_part(void *context, int rank) { job *j = context; ... }
 *     hn_team_run(team, parts, run_part, &(job){...});
 *
 * A task's number says which part of the work and which part of scratch memory are its own
 * ("rank"). Where the work is cut does not depend on how many threads come, and neither do
 * results. */
#ifndef HN_BASE_TEAM_H
#define HN_BASE_TEAM_H

#include "henry/threads.h"

#include <stdbool.h>
#include <stdint.h>

typedef void (*hn_task_fn)(void *context, int task);

/* What one caller at a time uses for its work. All zeros is a good start. */
typedef struct hn_team {
    /* so many tasks at the same time at most, on threads of the same number; 0: as many as there
     * are */
    int limit;
    /* who runs tasks; NULL: the caller and the workers of the process */
    const hn_executor *executor;
    /* The rest is team.c's. */
    uint32_t place; /* among the callers of the process, from 1; 0: none */
    bool calls;     /* the work is worth waking workers */
    int64_t begin_ns, end_ns, last_ns, call_ns, watch_ns;
    long preempted;
} hn_team;

/* NULL is a team of the calling thread alone. At most HN_THREADS_MAX tasks. */
void hn_team_run(hn_team *team, int tasks, hn_task_fn fn, void *context);

/* After the last hn_team_run of a caller's piece of work, such as a call of a module. Workers look
 * at a process's callers to see where help is wanted, and how many processors callers need
 * themselves. */
void hn_team_end(hn_team *team);

/* How many threads a run has when nobody says: OMP_NUM_THREADS when that is a number, else the
 * processors that the process may use; HN_THREADS_MAX at most. */
int hn_team_default_threads(void);

/* What henry/threads.h says of the functions with these names. limit_set: `workers` is in range. */
void hn_team_limit_set(int workers);
int hn_team_limit_get(void);
int hn_team_workers(void);
void hn_team_stop(void);

#endif
