/* thread.h: threads of the library's own. The host's signals are not for them: its handlers run in
 * its own threads, as they would without Henry. */
#ifndef HN_BASE_THREAD_H
#define HN_BASE_THREAD_H

#include <pthread.h>

/* pthread_create, with all signals blocked in the new thread. `attr` may be NULL. Returns 0 or what
 * pthread_create returned. */
int hn_thread_start(pthread_t *out, const pthread_attr_t *attr, void *(*main)(void *),
                    void *context);

#endif
