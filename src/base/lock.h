/* lock.h: the locks under which the library may log. A line that is logged under one is handed out
 * when the thread has given back its last one: the program's callback may call Henry, and must not
 * find its locks taken. */
#ifndef HN_BASE_LOCK_H
#define HN_BASE_LOCK_H

#include "base/log.h"

#include <pthread.h>
#include <time.h>

static inline void hn_lock(pthread_mutex_t *lock) {
    pthread_mutex_lock(lock);
    hn_log_hold();
}

/* False: another thread has it. */
static inline bool hn_trylock(pthread_mutex_t *lock) {
    if (pthread_mutex_trylock(lock) != 0) return false;
    hn_log_hold();
    return true;
}

/* False: it did not come free until `until`, of CLOCK_REALTIME. */
static inline bool hn_lock_until(pthread_mutex_t *lock, const struct timespec *until) {
    if (pthread_mutex_timedlock(lock, until) != 0) return false;
    hn_log_hold();
    return true;
}

static inline void hn_unlock(pthread_mutex_t *lock) {
    pthread_mutex_unlock(lock);
    hn_log_release();
}

#endif
