/* watch.h: the thread of an isolated worker that counts the processes of its job. Not for other folders.
 *
 * In the worker and not in the pool: this thread waits for nobody, whatever a thousand processes do to the host's threads
 * and to the locks that those hold, and when the worker ends, its namespace ends with it. */
#ifndef HN_SERVICE_WATCH_H
#define HN_SERVICE_WATCH_H

#include <stdint.h>

/* When the processes of a job are counted first, and how far apart at most. And how many are the worker's own: tools that
 * stand by. */
enum { HN_WATCH_FIRST_MS = 3,
       HN_WATCH_MS = 50,
       HN_WATCH_OWN = 8 };

/* How long to wait for the next count: twice as long as before, but a millisecond when they are many already. A fork bomb
 * is easy to end while it is small. */
int32_t hn_watch_step_ms(int32_t last_ms, uint32_t count, uint32_t limit);

typedef struct hn_watch hn_watch;

/* `messages_fd`: what the tools say, which is kept small. `socket_fd`: to the pool, which is told before the process ends, since
 * the exit status may not reach it. NULL when there is no memory or no thread for it. It stays as long
 * as the process. */
hn_watch *hn_watch_start(int messages_fd, int socket_fd);
/* A job begins: at most `limit` processes, or the process ends. 0: it is over. NULL is allowed. */
void hn_watch_set(hn_watch *watch, uint32_t limit);

#endif
