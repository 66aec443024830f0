/* thread.c: see thread.h. */
#include "base/thread.h"

#include <signal.h>

int hn_thread_start(pthread_t *out, const pthread_attr_t *attr, void *(*main)(void *),
                    void *context) {
    sigset_t all, before;
    sigfillset(&all);
    int rc = pthread_sigmask(SIG_SETMASK, &all, &before);
    if (rc) return rc;
    rc = pthread_create(out, attr, main, context);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return rc;
}
