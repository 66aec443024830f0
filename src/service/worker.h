/* worker.h: the worker process. */
#ifndef HN_SERVICE_WORKER_H
#define HN_SERVICE_WORKER_H

/* The whole of a worker: `argv` is {program, "--worker", parent's process id}, standard input is
 * the socket. With more arguments it is the guard of one tool, tool_guard.c. Any program can offer
 * it (tests do); tools/worker is the small one that starts fast. Returns the exit status: 0 when
 * the parent closed the socket, 2 when it was not started by a pool. */
int hn_worker_main(int argc, char **argv);

/* tool_guard.c, in a process that ends with its parent as a worker does. */
int hn_tool_guard_main(char *const *command);

#endif
