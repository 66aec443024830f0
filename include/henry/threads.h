/* henry/threads.h: the threads that run models.
 *
 * A process has one pool of workers, which all modules and all calling threads share. The calling
 * thread executes a run; free workers take parts of its work. A call never waits for a worker to
 * become free: without workers the caller does everything itself. Workers start when a run first
 * has work for them. After work they spin for a short time (about a millisecond) and then sleep.
 * They are pinned to no processor, and they block all signals. When processors are busy with other
 * callers or other processes, workers stay asleep.
 *
 * Results do not depend on how many workers take part, only on `threads` of hn_module_options and
 * hn_run_options.
 *
 * Threads: every function here is safe from many threads. Fork: if the parent has workers, the
 * child runs its modules on the calling thread alone; if the parent called hn_threads_stop before,
 * the child starts workers of its own. */
#ifndef HENRY_THREADS_H
#define HENRY_THREADS_H

#include "henry/status.h"

#ifdef __cplusplus
extern "C" {
#endif

#define HN_THREADS_MAX 1024 /* of a module and of a run; of a process: its workers and one caller */

/* Limits how many workers the process may have, in addition to the calling threads; 0: every run
 * stays on its caller's thread. The default is one less than the processors that the process may
 * use. Workers above the new limit end before the call returns.
 * Errors: invalid-argument for a number below 0 or above HN_THREADS_MAX - 1. */
HN_API hn_status hn_threads_limit_set(int workers) HN_MUST_USE;
HN_API int hn_threads_limit_get(void);

/* The current number of workers. */
HN_API int hn_threads_count(void);

/* Ends all workers, and returns when they have ended. Use it before a fork, or before unloading the
 * library. Current runs continue on their callers' threads; the next run with work for workers
 * starts them again. Do not call it from a task. */
HN_API void hn_threads_stop(void);

/* A caller's own pool, for hn_module_options.executor. */
typedef struct hn_executor {
    void *context;
    /* how many tasks it runs at the same time, including the calling thread; 1 to HN_THREADS_MAX */
    int threads;
    /* Must call task(data, k) once for each k from 0 to count - 1, and return when all calls have
     * returned. Any order and any threads are allowed, in parallel or not: no task waits for
     * another. `context` is the member above. It is called by each thread that runs a module, so by
     * several at the same time if several run. */
    void (*run)(void *context, int count, void (*task)(void *data, int k), void *data);
} hn_executor;

#ifdef __cplusplus
}
#endif

#endif
