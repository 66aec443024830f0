/* watchdog.h: the thread of a worker that counts the processes of its job. Not for other folders.
 *
 * It is in the worker and not in the pool: it needs no lock of the host, whatever a thousand
 * processes do to the host's threads. When an isolated worker ends, its namespace ends with it;
 * otherwise the pool, which gets a message, kills what is below the worker. */
#ifndef HN_SERVICE_WATCHDOG_H
#define HN_SERVICE_WATCHDOG_H

#include <stdint.h>

typedef struct hn_watchdog hn_watchdog;

/* `messages_fd`: the file with the tools' messages, which is kept small. `socket_fd`: to the pool.
 * NULL when there is no memory or no thread for it. It stays as long as the process. */
hn_watchdog *hn_watchdog_start(int messages_fd, int socket_fd);
/* A job begins: with more than `limit` processes the worker must end. 0: the job is over. NULL is
 * allowed. */
void hn_watchdog_set_limit(hn_watchdog *watchdog, uint32_t limit);

#endif
