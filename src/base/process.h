/* process.h: child processes by posix_spawn, never by fork from a big parent. */
#ifndef HN_BASE_PROCESS_H
#define HN_BASE_PROCESS_H

#include "base/str.h"
#include "henry/status.h"

#include <stdint.h>
#include <sys/types.h>

/* What to start. All descriptors but 0..2 must be close-on-exec in the parent. */
typedef struct hn_spawn {
    const char *const *argv; /* NULL-terminated; argv[0] is looked up in PATH when it has no slash */
    const char *const *env;  /* NULL: inherit */
    const char *cwd;         /* NULL: inherit */
    int stdin_fd, stdout_fd, stderr_fd; /* -1: /dev/null */
    uint32_t processes;      /* at once, threads counted; 0: no limit. Only kept by the kernel in a user namespace, see
                              * hn_process_spawn_isolated */
    bool new_group;          /* own process group, so that hn_process_kill_group reaches grandchildren */
} hn_spawn;

/* The child has default signal handling and an empty signal mask. Errors: not-found for the program or
 * `cwd`. Owns: the caller must wait for the child. */
hn_status hn_process_spawn(const hn_spawn *spec, pid_t *out_pid) HN_MUST_USE;

/* The same for the first process of a PID namespace of its own: when it ends, or the calling thread does, the kernel ends
 * at one stroke all that it started, wherever that moved to. Its own process id is 1, of its children any; /proc shows the
 * numbers from outside. Signals of its own namespace that it has no handler for do not reach it, SIGKILL included. False,
 * with nothing started: not permitted here, HENRY_NAMESPACES=off, or no such program; then hn_process_spawn tells more. */
bool hn_process_spawn_isolated(const hn_spawn *spec, pid_t *out_pid) HN_MUST_USE;

/* Waits. `*out_exit` is the exit status, or 128 + signal. */
hn_status hn_process_wait(pid_t pid, int *out_exit) HN_MUST_USE;
/* The same, but gives up after `limit_ms` with `*out_ended` false. */
hn_status hn_process_wait_for(pid_t pid, int64_t limit_ms, bool *out_ended, int *out_exit) HN_MUST_USE;
/* SIGKILL to the group of a child started with `new_group` and not yet waited for. */
void hn_process_kill_group(pid_t pid);

/* Runs until the child ends, gathering stdout and stderr together in `output` (at most 16 MiB are kept;
 * when NULL, the descriptors of `spec` are used). A grandchild that keeps the pipe open is not waited
 * for. `timeout_ms` <= 0: none; else the child gets its own group, and on expiry the group is killed
 * and the result is a timeout error, with what was gathered still in `output`. */
hn_status hn_process_run(const hn_spawn *spec, int64_t timeout_ms, hn_strbuf *output, int *out_exit) HN_MUST_USE;

/* Absolute path of the running executable's directory, or "" . */
const char *hn_process_exe_dir(void);

#endif
