/* henry/threads.h: the threads that run models.
 *
 * A process has one pool of workers, which all modules and all calling threads share. A run is done by the thread that calls
 * it; workers that are free take parts of its work. A call never waits for a worker to come: without any it does everything
 * itself. Workers start when a run first has work for them, wait actively for a short time after work (about a
 * millisecond) and then sleep. They are bound to no processor, and they block all signals. When processors are busy, with other
 * callers or with other processes, workers keep away.
 *
 * How results depend on it: not at all on how many workers come; only on `threads` of
 * hn_module_options and hn_run_options.
 *
 * Threads: every function here is safe from many threads. Fork: a child of a process that has workers runs its modules on the
 * calling thread alone; after hn_threads_stop in the parent, a child starts workers of its own. */
#ifndef HENRY_THREADS_H
#define HENRY_THREADS_H

#include "henry/status.h"

#ifdef __cplusplus
extern "C" {
#endif

#define HN_THREADS_MAX 1024 /* of a module and of a run; of a process: its workers and one caller */

/* How many workers the process may have, beside the threads that call; 0: every run stays on its caller's thread. At
 * first one less than the processors that the process may use. Workers above a lower limit end before the call returns.
 * Errors: invalid-argument for a number below 0 or above HN_THREADS_MAX - 1. */
HN_API hn_status hn_threads_limit_set(int workers) HN_MUST_USE;
HN_API int hn_threads_limit_get(void);

/* How many workers there are at the moment. */
HN_API int hn_threads_count(void);

/* Ends all workers and returns when they are gone: for a host that unloads the library or forks. Runs that are under way go
 * on alone; the next run that has work for workers starts them again. Not to be called from a task. */
HN_API void hn_threads_stop(void);

/* A caller's own pool, for hn_module_options.executor. */
typedef struct hn_executor {
    void *context;
    int threads; /* how many tasks it runs at the same time, the calling thread among them; 1 to HN_THREADS_MAX */
    /* Calls task(data, k) once for each k from 0 to count - 1 and returns when all have returned. In any order, on any
     * threads, at the same time or one after another: no task waits for another. `context` is the one above. Called by the
     * thread that runs a module, by several at the same time when several run. */
    void (*run)(void *context, int count, void (*task)(void *data, int k), void *data);
} hn_executor;

#ifdef __cplusplus
}
#endif

#endif
