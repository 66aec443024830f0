/* watch.h: the thread of a worker that counts the processes of its job. Not for other folders.
 *
 * In the worker and not in the pool: this thread waits for nobody, whatever a thousand processes do to the host's threads
 * and to the locks that those hold. When an isolated worker ends, its namespace ends with it; else the pool, which is told, kills
 * what is below the worker. */
#ifndef HN_SERVICE_WATCH_H
#define HN_SERVICE_WATCH_H

#include <stdint.h>

typedef struct hn_watch hn_watch;

/* `messages_fd`: what the tools say, which is kept small. `socket_fd`: to the pool, which is told. NULL when there is no memory or no thread for it. It stays as long
 * as the process. */
hn_watch *hn_watch_start(int messages_fd, int socket_fd);
/* A job begins: at most `limit` processes, or the worker must end. 0: it is over. NULL is allowed. */
void hn_watch_set(hn_watch *watch, uint32_t limit);

#endif
